/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/backend/gpu-backend.h"
#include "gpumem/base/gpu-attributes-private.h"
#include "gpumem/base/gpu-type-check-private.h"
#include "gpumem/program/gpu-program-private.h"

G_BEGIN_DECLS

typedef struct _GpuKernelCore GpuKernelCore;

/* The part of a GpuKernel that owns the driver's kernel object. Launches in flight hold references
 * to this structure, so the GpuKernel may be finalized earlier. */
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
  GpuArgumentInfo *arguments;       /* atomic; the latest declaration, or the driver's description
                                     * before any declaration */
  GpuProgram      *program;
  char            *name;
  GMutex           lock;            /* protects declared */
  GPtrArray       *declared;        /* owns every table that `arguments` points to or pointed to;
                                     * the first table is the driver's description */
};

/* Returns (transfer none) the core, or NULL for a kernel that was never initialised. */
static inline GpuKernelCore *
_gpu_kernel_get_core (GpuKernel *kernel)
{
  return kernel->core;
}

/* Returns the latest declaration of the arguments. If the program has declared none, returns the
 * driver's description. The result is valid while @kernel exists. @n_arguments may be NULL. */
static inline const GpuArgumentInfo *
_gpu_kernel_get_arguments (GpuKernel *kernel,
                           guint     *n_arguments)
{
  if (n_arguments != NULL)
    *n_arguments = kernel->core != NULL ? kernel->core->kernel->n_arguments : 0;

  return g_atomic_pointer_get (&kernel->arguments);
}

/* Returns (transfer none) the context, or NULL for a kernel that was never initialised. */
GpuContext            *_gpu_kernel_get_context   (GpuKernel              *kernel);

/* Returns (transfer floating) a description of the arguments of all kernels of the program, for the
 * program cache. Returns NULL if the driver cannot list the kernels. */
GVariant              *_gpu_kernel_describe_all  (GpuProgramCore         *program);
/* Fills in the fields of @arguments that the driver did not report. @descriptions is the result of
 * _gpu_kernel_describe_all(), and keeps the ownership of the strings in @arguments. */
void                   _gpu_kernel_complete      (GVariant               *descriptions,
                                                  const char             *name,
                                                  GpuArgumentInfo        *arguments,
                                                  guint                   n_arguments);

/* The class of GpuKernel, for a fast check of the type. Set by class_init. */
extern gpointer _gpu_kernel_class;

static inline gboolean
_gpu_is_kernel (gpointer object)
{
  return _gpu_has_class (object, _gpu_kernel_class) || _gpu_is_a (object, gpu_kernel_get_type);
}

/* Faster than the public check. Messages about failed preconditions quote this name. */
#define GPU_IS_KERNEL(object) (_gpu_is_kernel (object))

G_END_DECLS
