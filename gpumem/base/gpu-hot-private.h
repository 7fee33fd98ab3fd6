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
/* What is needed often, but takes registers that the way past it should not have to save. */
#define GPU_APART __attribute__ ((noinline))

/* Bytes of a line of the caches: what operations look at is aligned to them. */
#define GPU_LINE 64

/* What every operation looks at, in one line. The classes are set when the first object is made:
 * asking gpu_stream_get_type() is a call, and a line of code and one of data more. */
typedef struct
{
  gpointer buffer_class;
  gpointer kernel_class;
  gpointer memory_pool_class;
  gpointer stream_class;
  gpointer svm_class;
  gint     forked;                  /* atomic; see _gpu_backend_check_process() */
} GpuHot;

extern GpuHot _gpu_hot;

/* G_TYPE_CHECK_INSTANCE_TYPE(), for what is of no class above. */
GPU_COLD gboolean _gpu_is_a (gpointer   object,
                             GType    (*get_type) (void));

static inline gboolean
_gpu_has_class (gpointer object,
                gpointer klass)
{
  return G_LIKELY (object != NULL) && G_LIKELY (((GTypeInstance *) object)->g_class == klass);
}

/* GPU_IS_STREAM() and so on. */
static inline gboolean
_gpu_is_stream (gpointer object)
{
  return _gpu_has_class (object, _gpu_hot.stream_class) || _gpu_is_a (object, gpu_stream_get_type);
}

static inline gboolean
_gpu_is_memory_pool (gpointer object)
{
  return _gpu_has_class (object, _gpu_hot.memory_pool_class)
         || _gpu_is_a (object, gpu_memory_pool_get_type);
}

static inline gboolean
_gpu_is_kernel (gpointer object)
{
  return _gpu_has_class (object, _gpu_hot.kernel_class) || _gpu_is_a (object, gpu_kernel_get_type);
}

static inline gboolean
_gpu_is_buffer (gpointer object)
{
  return _gpu_has_class (object, _gpu_hot.buffer_class) || _gpu_is_a (object, gpu_buffer_get_type);
}

/* Memory by its bytes, for kernels that take a pointer. */
static inline gboolean
_gpu_is_linear (gpointer object)
{
  return _gpu_has_class (object, _gpu_hot.buffer_class)
         || _gpu_has_class (object, _gpu_hot.svm_class) || _gpu_is_a (object, gpu_buffer_get_type)
         || _gpu_is_a (object, gpu_svm_get_type);
}

static inline gboolean
_gpu_is_memory (gpointer object)
{
  return _gpu_has_class (object, _gpu_hot.buffer_class) || _gpu_is_a (object, gpu_memory_get_type);
}

G_END_DECLS
