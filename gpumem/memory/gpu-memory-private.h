/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/base/gpu-type-check-private.h"
#include "gpumem/memory/gpu-storage-private.h"

G_BEGIN_DECLS

/* Of a memory object. What is not usable is refused by all that would use it. */
typedef enum
{
  GPU_MEMORY_STATE_USABLE,
  GPU_MEMORY_STATE_RELEASED,
  GPU_MEMORY_STATE_MOVING,          /* to the host or back */
  GPU_MEMORY_STATE_SPILLED,
  GPU_MEMORY_STATE_VACANT           /* a pool has the memory back, and may refill the object */
} GpuMemoryState;

struct _GpuMemory
{
  GObject         parent_instance;

  GpuStorage     *storage;          /* NULL if never initialised; kept until finalize */
  gsize           size;             /* bytes */
  gint            state;            /* atomic; changes under the lock of the root */
  gboolean        is_constant;      /* GpuStorage.is_constant */
  gboolean        is_image;         /* reached by regions of texels, not by bytes */
  GpuMemoryFlags  flags;
  GpuContext     *context;
  gboolean        has_host_data;    /* the host reaches it without a command */
  gsize           span;             /* bytes from the first to the last: size, and the gaps between
                                     * the rows of an image */
  guint64         handle;           /* of the driver, kept for comparisons after a release */
  guint64         address;          /* on the device, 0 if unknown */
  GBytes         *host_bytes;       /* what the memory was made over, nullable */
  GBytes         *spilled;          /* what it holds while it is spilled, or NULL */
};

/* Gives @storage and its first user to @memory. */
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

/* Whether a use is refused. A single test, as every use pays for it. */
static inline gboolean
_gpu_memory_refuses (const GpuMemory *memory,
                     gboolean         write)
{
  G_STATIC_ASSERT (GPU_MEMORY_STATE_USABLE == 0);

  return (g_atomic_int_get (&memory->state) | (memory->is_constant & write)) != 0;
}

/* Refuses writes through @memory from now on. Before any other thread has @memory. */
void     _gpu_memory_set_constant (GpuMemory      *memory);
/* The storage with a user more, for the caller to take back with _gpu_storage_unuse(). */
GpuStorage *
         _gpu_memory_acquire     (GpuMemory       *memory,
                                  const char      *function,
                                  GError         **error);
/* The rest of _gpu_memory_check_range(): checks @memory first, so that released memory is reported
 * as released whatever the range; then sets the error of the range. TRUE for an empty range. */
GPU_COLD gboolean
         _gpu_memory_check_range_slowly (GpuMemory       *memory,
                                         const char      *function,
                                         const char      *what,
                                         gsize            offset,
                                         gsize            size,
                                         GError         **error);

/* FALSE for an image, or if offset + size reaches past the end; @what is the name of the parameter.
 * Whether memory with bytes in range is usable is left to _gpu_submit() or _gpu_memory_acquire(),
 * which check it under the lock. */
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

/* A part or view has the access of @parent unless @flags say otherwise, and never more. */
gboolean _gpu_memory_inherit_flags (GpuMemory       *parent,
                                  const char        *function,
                                  GpuMemoryFlags    *flags,
                                  GError           **error);

typedef GpuNativeMemory *(*GpuAllocateFunc) (GpuNativeContext  *context,
                                             gpointer           data,
                                             GError           **error);

/* Calls @func, again if it had no memory and somebody who listens for that may have made room. The
 * error gets the name of @function. */
GpuNativeMemory *
         _gpu_memory_allocate    (GpuContext        *context,
                                  const char        *function,
                                  gsize              size,
                                  GpuAllocateFunc    func,
                                  gpointer           data,
                                  GError           **error);
/* gpu_buffer_new() on behalf of another function. */
GpuBuffer *
         _gpu_buffer_new         (GpuContext        *context,
                                  const char        *function,
                                  GpuMemoryFlags     flags,
                                  gsize              size,
                                  GError           **error);
/* gpu_buffer_slice_full() on behalf of another function; @what @memory is named. */
GpuBuffer *
         _gpu_memory_slice       (GpuMemory         *memory,
                                  const char        *function,
                                  const char        *what,
                                  GpuMemoryFlags     flags,
                                  gsize              offset,
                                  gsize              size,
                                  GError           **error);
/* A range of the buffer @whole, for storage of its own. */
GpuNativeBuffer *
         _gpu_buffer_cut         (GpuNativeContext  *context,
                                  GpuNativeBuffer   *whole,
                                  GpuMemoryFlags     flags,
                                  gsize              offset,
                                  gsize              size,
                                  GError           **error);
/* FALSE if flags do not go together, or the device lacks what they ask for. */
gboolean _gpu_buffer_check_flags (const char        *function,
                                  GpuNativeContext  *context,
                                  GpuMemoryFlags     flags,
                                  GError           **error);
/* FALSE for no bytes, or more than the device gives in one piece. */
gboolean _gpu_buffer_check_size  (const char        *function,
                                  GpuNativeContext  *context,
                                  gsize              size,
                                  GError           **error);
/* Checks a file descriptor from outside before a driver gets it. It must be open and may be memory,
 * of at least @whole_size bytes if the system knows the size. */
gboolean _gpu_buffer_check_fd    (const char        *function,
                                  int                fd,
                                  gsize              whole_size,
                                  GError           **error);
/* FALSE if the flags forbid the host to read, or to write if @write. */
gboolean _gpu_memory_check_host  (GpuMemory       *memory,
                                  const char      *function,
                                  gboolean         write,
                                  GError         **error);

/* @notify is called with @user_data once the last work that uses the memory is complete and nothing
 * refers to it any more, on any thread; not if this fails. */
GpuBuffer *_gpu_buffer_new_wrapped (GpuContext      *context,
                                    guint64          handle,
                                    gsize            size,
                                    GpuWrapMode      mode,
                                    gpointer         user_data,
                                    GDestroyNotify   notify,
                                    GError         **error);

/* Of an object that was given a storage: sets where the host may access it at any time. */
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
