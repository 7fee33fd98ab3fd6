/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/backend/gpu-backend.h"
#include "gpumem/base/gpu-attributes-private.h"
#include "gpumem/base/gpu-type-check-private.h"
#include "gpumem/program/gpu-program-private.h"

G_BEGIN_DECLS

typedef struct _GpuKernelCore GpuKernelCore;

/* What is behind a GpuKernel: a launch in flight holds it. */
struct _GpuKernelCore
{
  gatomicrefcount   refs;
  GpuNativeContext *context;
  GpuProgramCore   *program;
  GpuNativeKernel  *kernel;
};

GpuKernelCore         *_gpu_kernel_core_new      (GpuProgramCore         *program,
                                                  const char             *name,
                                                  GError                **error);
GpuKernelCore         *_gpu_kernel_core_ref      (GpuKernelCore          *core);
void                   _gpu_kernel_core_unref    (GpuKernelCore          *core);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuKernelCore, _gpu_kernel_core_unref)

struct _GpuKernel
{
  GObject          parent_instance;

  GpuKernelCore   *core;            /* NULL until initialised */
  GpuArgumentInfo *arguments;       /* atomic; as described, or declared last */
  GpuProgram      *program;
  char            *name;
  GMutex           lock;            /* guards declared */
  GPtrArray       *declared;        /* everything that arguments ever pointed to */
};

/* (transfer none); NULL for a kernel that was never initialised. */
static inline GpuKernelCore *
_gpu_kernel_get_core (GpuKernel *kernel)
{
  return kernel->core;
}

/* The arguments as declared, or else as the driver describes them. Valid as long as @kernel;
 * @n_arguments may be NULL. */
static inline const GpuArgumentInfo *
_gpu_kernel_get_arguments (GpuKernel *kernel,
                           guint     *n_arguments)
{
  if (n_arguments != NULL)
    *n_arguments = kernel->core != NULL ? kernel->core->kernel->n_arguments : 0;

  return g_atomic_pointer_get (&kernel->arguments);
}

/* (transfer none); NULL likewise. */
GpuContext            *_gpu_kernel_get_context   (GpuKernel              *kernel);

/* The arguments of all kernels of a program, for the cache: floating, NULL if the driver tells
 * nothing of them. */
GVariant              *_gpu_kernel_describe_all  (GpuProgramCore         *program);
/* Fills in what the driver does not tell of the kernel @name. The texts belong to
 * @descriptions. */
void                   _gpu_kernel_complete      (GVariant               *descriptions,
                                                  const char             *name,
                                                  GpuArgumentInfo        *arguments,
                                                  guint                   n_arguments);

/* Set by class_init. */
extern gpointer _gpu_kernel_class;

static inline gboolean
_gpu_is_kernel (gpointer object)
{
  return _gpu_has_class (object, _gpu_kernel_class) || _gpu_is_a (object, gpu_kernel_get_type);
}

G_END_DECLS
