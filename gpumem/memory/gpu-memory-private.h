/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/base/gpu-type-check-private.h"
#include "gpumem/memory/gpu-storage-private.h"

G_BEGIN_DECLS

/* The state of a memory object. Every use of memory that is not usable is rejected. */
typedef enum
{
  GPU_MEMORY_STATE_USABLE,
  GPU_MEMORY_STATE_RELEASED,
  GPU_MEMORY_STATE_MOVING,          /* between device and host */
  GPU_MEMORY_STATE_SPILLED,
  GPU_MEMORY_STATE_VACANT           /* without memory, which returned to its pool */
} GpuMemoryState;

struct _GpuMemory
{
  GObject         parent_instance;

  GpuStorage     *storage;          /* NULL if never initialised; kept until finalize */
  gsize           size;             /* bytes */
  gint            state;            /* atomic; changes under the lock of the root */
  gboolean        is_constant;      /* GpuStorage.is_constant */
  gboolean        is_image;         /* accessed by regions of texels, not by bytes */
  GpuMemoryFlags  flags;
  GpuContext     *context;
  gboolean        has_host_data;    /* the host can access it without a command */
  gsize           span;             /* size, and for an image also the gaps between its rows, in
                                     * bytes */
  guint64         handle;           /* of the driver, kept for comparisons after a release */
  guint64         address;          /* on the device, 0 if unknown */
  GBytes         *host_bytes;       /* (nullable): host memory that it uses in place */
  GBytes         *spilled;          /* (nullable): the contents while it is spilled */
};

/* Moves @storage and its first use to @memory. */
void     _gpu_memory_set_storage (GpuMemory       *memory,
                                  GpuStorage      *storage);
/* Sets the error of memory that was never initialised, was released or is spilled. */
GPU_COLD gboolean
         _gpu_memory_fail        (GpuMemory       *memory,
                                  const char      *function,
                                  GError         **error);

/* FALSE if @memory was never initialised, was released or is spilled. */
static inline gboolean
_gpu_memory_check (GpuMemory   *memory,
                   const char  *function,
                   GError     **error)
{
  return (G_LIKELY (memory->storage != NULL)
          && G_LIKELY (g_atomic_int_get (&memory->state) == GPU_MEMORY_STATE_USABLE))
         || _gpu_memory_fail (memory, function, error);
}

/* Whether a use is rejected. A single test, because every use pays for it. */
static inline gboolean
_gpu_memory_is_refused (const GpuMemory *memory,
                        gboolean         write)
{
  G_STATIC_ASSERT (GPU_MEMORY_STATE_USABLE == 0);

  return (g_atomic_int_get (&memory->state) | (memory->is_constant & write)) != 0;
}

/* Rejects writes through @memory from now on. Call before other threads can access @memory. */
void     _gpu_memory_set_constant (GpuMemory      *memory);
/* The storage with one more use, which the caller drops with _gpu_storage_unuse(). */
GpuStorage *
         _gpu_memory_acquire     (GpuMemory       *memory,
                                  const char      *function,
                                  GError         **error);
/* The slow path of _gpu_memory_check_range(). Checks @memory first, so that released memory is
 * reported as released for every range, and then sets the error of the range. TRUE for an empty
 * range. */
GPU_COLD gboolean
         _gpu_memory_check_range_slowly (GpuMemory       *memory,
                                         const char      *function,
                                         const char      *what,
                                         gsize            offset,
                                         gsize            size,
                                         GError         **error);

/* FALSE for an image, or if offset + size exceeds the memory; @what names the parameter.
 * This does not check whether the memory is usable: _gpu_submit() and _gpu_memory_acquire() check
 * that under the lock. */
static inline gboolean
_gpu_memory_check_range (GpuMemory   *memory,
                         const char  *function,
                         const char  *what,
                         gsize        offset,
                         gsize        size,
                         GError     **error)
{
  return (G_LIKELY (size > 0) && G_LIKELY (offset <= memory->size)
          && G_LIKELY (size <= memory->size - offset) && G_LIKELY (!memory->is_image)
          && G_LIKELY (memory->storage != NULL))
         || _gpu_memory_check_range_slowly (memory, function, what, offset, size, error);
}

/* A slice or view inherits the access of @parent unless @flags narrow it. */
gboolean _gpu_memory_inherit_flags (GpuMemory       *parent,
                                  const char        *function,
                                  GpuMemoryFlags    *flags,
                                  GError           **error);

typedef GpuNativeMemory *(*GpuAllocateFunc) (GpuNativeContext  *context,
                                             gpointer           data,
                                             GError           **error);

/* Calls @func, and repeats the call if it was out of memory and a handler of memory pressure may
 * have freed some. Prefixes the error with @function. */
GpuNativeMemory *
         _gpu_memory_allocate    (GpuContext        *context,
                                  const char        *function,
                                  gsize              size,
                                  GpuAllocateFunc    func,
                                  gpointer           data,
                                  GError           **error);
/* gpu_buffer_new() for another function, which errors name. */
GpuBuffer *
         _gpu_buffer_new         (GpuContext        *context,
                                  const char        *function,
                                  GpuMemoryFlags     flags,
                                  gsize              size,
                                  GError           **error);
/* gpu_buffer_slice_full() for another function; @what names the parameter @memory. */
GpuBuffer *
         _gpu_memory_slice       (GpuMemory         *memory,
                                  const char        *function,
                                  const char        *what,
                                  GpuMemoryFlags     flags,
                                  gsize              offset,
                                  gsize              size,
                                  GError           **error);
/* A range of the buffer @whole, for a separate storage. */
GpuNativeBuffer *
         _gpu_buffer_cut         (GpuNativeContext  *context,
                                  GpuNativeBuffer   *whole,
                                  GpuMemoryFlags     flags,
                                  gsize              offset,
                                  gsize              size,
                                  GError           **error);
/* FALSE if @flags cannot be combined or the device does not support them. */
gboolean _gpu_buffer_check_flags (const char        *function,
                                  GpuNativeContext  *context,
                                  GpuMemoryFlags     flags,
                                  GError           **error);
/* FALSE for a size of 0, or above the maximum of the device. */
gboolean _gpu_buffer_check_size  (const char        *function,
                                  GpuNativeContext  *context,
                                  gsize              size,
                                  GError           **error);
/* Validates a file descriptor from outside before a driver gets it. It must be open and may refer
 * to memory, of at least @whole_size bytes if the system knows the size. */
gboolean _gpu_buffer_check_fd    (const char        *function,
                                  int                fd,
                                  gsize              whole_size,
                                  GError           **error);
/* FALSE if the flags forbid the host to write, if @write, or else to read. */
gboolean _gpu_memory_check_host  (GpuMemory       *memory,
                                  const char      *function,
                                  gboolean         write,
                                  GError         **error);

/* @notify is called with @user_data, on any thread, when the last work that uses the memory has
 * completed and no object refers to the memory. It is not called if this function fails. */
GpuBuffer *_gpu_buffer_new_wrapped (GpuContext      *context,
                                    guint64          handle,
                                    gsize            size,
                                    GpuWrapMode      mode,
                                    gpointer         user_data,
                                    GDestroyNotify   notify,
                                    GError         **error);

/* The same for the handle of a range of @storage, from @offset on, as a view of @storage. The
 * caller is a user of @storage until @notify is called. */
GpuBuffer *_gpu_buffer_new_view    (GpuContext      *context,
                                    GpuStorage      *storage,
                                    gsize            offset,
                                    guint64          handle,
                                    gsize            size,
                                    gpointer         user_data,
                                    GDestroyNotify   notify,
                                    GError         **error);

/* Sets the address for host accesses at any time. Call after @svm got its storage. */
void     _gpu_svm_set_data        (GpuSvm          *svm);

/* Set by class_init. */
extern gpointer _gpu_buffer_class;
extern gpointer _gpu_svm_class;

static inline gboolean
_gpu_is_buffer (gpointer object)
{
  return _gpu_has_class (object, _gpu_buffer_class) || _gpu_is_a (object, gpu_buffer_get_type);
}

/* Memory that kernels take as a pointer. */
static inline gboolean
_gpu_is_linear (gpointer object)
{
  return _gpu_has_class (object, _gpu_buffer_class) || _gpu_has_class (object, _gpu_svm_class)
         || _gpu_is_a (object, gpu_buffer_get_type) || _gpu_is_a (object, gpu_svm_get_type);
}

static inline gboolean
_gpu_is_memory (gpointer object)
{
  return _gpu_has_class (object, _gpu_buffer_class) || _gpu_is_a (object, gpu_memory_get_type);
}

G_END_DECLS
