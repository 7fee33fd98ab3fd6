/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * For what every operation runs through. A call of a driver leaves little in the caches of the
 * processor, so an operation costs what it has in lines of code and data. So its code lies
 * together in the library, and apart from it what is only needed when something is wrong.
 */
#pragma once

#include <gpumem/gpumem.h>

G_BEGIN_DECLS

#define GPU_HOT __attribute__ ((hot))
#define GPU_COLD __attribute__ ((cold, noinline))

/* The classes of what operations are given, set when the first object is made: asking
 * gpu_stream_get_type() is a call, and a line of code and one of data more. */
typedef struct
{
  GType buffer;
  GType kernel;
  GType stream;
  GType svm;
} GpuTypes;

extern GpuTypes _gpu_types;

static inline gboolean
_gpu_has_type (gpointer object,
               GType    type)
{
  const GTypeInstance *instance = object;

  return G_LIKELY (instance != NULL && instance->g_class != NULL
                   && instance->g_class->g_type == type);
}

/* GPU_IS_STREAM() and so on. */
static inline gboolean
_gpu_is_stream (gpointer object)
{
  return _gpu_has_type (object, _gpu_types.stream) || GPU_IS_STREAM (object);
}

static inline gboolean
_gpu_is_kernel (gpointer object)
{
  return _gpu_has_type (object, _gpu_types.kernel) || GPU_IS_KERNEL (object);
}

static inline gboolean
_gpu_is_buffer (gpointer object)
{
  return _gpu_has_type (object, _gpu_types.buffer) || GPU_IS_BUFFER (object);
}

/* Memory by its bytes, for kernels that take a pointer. */
static inline gboolean
_gpu_is_linear (gpointer object)
{
  return _gpu_has_type (object, _gpu_types.buffer) || _gpu_has_type (object, _gpu_types.svm)
         || GPU_IS_BUFFER (object) || GPU_IS_SVM (object);
}

static inline gboolean
_gpu_is_memory (gpointer object)
{
  return _gpu_has_type (object, _gpu_types.buffer) || GPU_IS_MEMORY (object);
}

G_END_DECLS
