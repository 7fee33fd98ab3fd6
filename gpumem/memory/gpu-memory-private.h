/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/base/gpu-type-check-private.h"
#include "gpumem/memory/gpu-storage-private.h"

G_BEGIN_DECLS

/* The state of a memory object. Uses are rejected unless the state is GPU_MEMORY_STATE_USABLE, but
 * GPU_MEMORY_STATE_SPILLING permits submissions that read the memory. */
typedef enum
{
  GPU_MEMORY_STATE_USABLE,
  GPU_MEMORY_STATE_RELEASED,
  GPU_MEMORY_STATE_SPILLING,        /* a thread reads the contents, to spill them */
  GPU_MEMORY_STATE_MOVING,          /* a thread is spilling or restoring the memory; `spilled` has
                                     * the contents */
  GPU_MEMORY_STATE_SPILLED
} GpuMemoryState;

struct _GpuMemory
{
  GObject         parent_instance;

  /* The fields that are set when a pool reuses the object are first. */
  GpuStorage     *storage;          /* NULL if never initialised; kept until finalize */
  gint            state;            /* GpuMemoryState; atomic; changes under the lock of the root
                                     * of `storage` */
  gboolean        is_constant;      /* copy of GpuStorage.is_constant */
  gsize           size;             /* bytes */
  gsize           span;             /* bytes from the first to the last byte: size, or more for an
                                     * image with gaps between rows */
  GpuMemoryFlags  flags;
  gboolean        is_image;         /* commands access regions of texels, not ranges of bytes */
  guint64         handle;           /* the driver's handle; kept after a release, to compare */
  guint64         address;          /* the address that kernels use, 0 if unknown */
  guint8         *host_data;        /* (nullable); atomic; the host memory that this memory is, even
                                     * if has_host_data is FALSE: only to compare addresses */
  gboolean        has_host_data;    /* the host can access the memory without a command */
  gint            n_moves;          /* atomic; the number of moves to the host and back so far */

  GpuContext     *context;
  GBytes         *host_bytes;       /* (nullable): host memory that the object uses in place; NULL
                                     * after a release */
  GMutex          content_lock;     /* held for changes of `host_bytes` and `spilled`, and of the
                                     * state to or from MOVING; no thread holds it while a driver
                                     * moves the memory, unlike the lock of the root */
  GBytes         *spilled;          /* (nullable): the contents in the states MOVING and SPILLED;
                                     * see _gpu_memory_ref_spilled() */
};

/* Sets the storage of @memory, and copies attributes of the storage to @memory. Takes ownership of
 * a reference to @storage. Also makes @memory a user of @storage in place of the caller, see
 * _gpu_storage_use(). If @memory already has this storage, and only the buffer of the storage is
 * new, the function only copies the attributes. */
void     _gpu_memory_set_storage (GpuMemory       *memory,
                                  GpuStorage      *storage);
/* Returns the kind, the size and the offset of @memory for error messages: "buffer of 64 bytes at
 * offset 128". */
GPU_COLD char *
         _gpu_memory_describe    (GpuMemory       *memory);
/* Returns FALSE with the error for memory that was never initialised, was released or is
 * spilled. */
GPU_COLD gboolean
         _gpu_memory_fail        (GpuMemory       *memory,
                                  const char      *function,
                                  GError         **error);

/* Like _gpu_memory_fail(), but the error reports @state. The caller has read @state from @memory,
 * whose state may have changed since. */
GPU_COLD gboolean
         _gpu_memory_fail_in_state (GpuMemory      *memory,
                                  GpuMemoryState   state,
                                  const char      *function,
                                  GError         **error);

GPU_COLD GBytes *
         _gpu_memory_ref_spilled_slowly (GpuMemory *memory);

/* (transfer full): returns the contents of spilled memory, which do not change, or NULL if they are
 * not on the host. In the latter case, another thread may spill the memory before the caller has
 * submitted a read. So if the read fails, the caller passes @n_moves to _gpu_memory_was_moved(). */
static inline GBytes *
_gpu_memory_ref_spilled (GpuMemory *memory,
                         gint      *n_moves)
{
  *n_moves = g_atomic_int_get (&memory->n_moves);

  return G_LIKELY (g_atomic_int_get (&memory->state) < GPU_MEMORY_STATE_MOVING)
         ? NULL : _gpu_memory_ref_spilled_slowly (memory);
}

/* Returns whether a read failed only because another thread moved the memory, and must be repeated
 * from _gpu_memory_ref_spilled(), which set @n_moves. Then also clears @failure. */
GPU_COLD gboolean
         _gpu_memory_was_moved   (GpuMemory       *memory,
                                  gint             n_moves,
                                  GError         **failure);

/* Returns FALSE with an error if @memory was never initialised, or if its state is not
 * GPU_MEMORY_STATE_USABLE, for example because it was released or spilled. */
static inline gboolean
_gpu_memory_check (GpuMemory   *memory,
                   const char  *function,
                   GError     **error)
{
  return (G_LIKELY (memory->storage != NULL)
          && G_LIKELY (g_atomic_int_get (&memory->state) == GPU_MEMORY_STATE_USABLE))
         || _gpu_memory_fail (memory, function, error);
}

/* Returns the address of the host memory that @memory is now, to compare it with data of the
 * caller. Returns NULL if there is none, or if @memory was released or spilled: the address may
 * then be that of other memory. */
static inline const guint8 *
_gpu_memory_get_place (GpuMemory *memory)
{
  if (G_LIKELY (g_atomic_pointer_get (&memory->host_data) == NULL)
      || g_atomic_int_get (&memory->state) != GPU_MEMORY_STATE_USABLE)
    return NULL;

  return g_atomic_pointer_get (&memory->host_data);
}

/* Like _gpu_memory_check(), for a submission that writes the memory or only reads it. */
static inline gboolean
_gpu_memory_check_access (GpuMemory   *memory,
                          gboolean     write,
                          const char  *function,
                          GError     **error)
{
  return (!write && memory->storage != NULL
          && g_atomic_int_get (&memory->state) == GPU_MEMORY_STATE_SPILLING)
         || _gpu_memory_check (memory, function, error);
}

/* Returns whether a use must be rejected, except for reads that only _gpu_memory_check_access()
 * permits. Combines the conditions into one branch, because every use calls this function. */
static inline gboolean
_gpu_memory_is_refused (const GpuMemory *memory,
                        gboolean         write)
{
  G_STATIC_ASSERT (GPU_MEMORY_STATE_USABLE == 0);

  return (g_atomic_int_get (&memory->state) | (memory->is_constant & write)) != 0;
}

/* Makes all later writes through @memory fail. Must be called before other threads can access
 * @memory. */
void     _gpu_memory_set_constant (GpuMemory      *memory);
/* Returns the storage of @memory and makes the caller a user of it, until the caller calls
 * _gpu_storage_unuse(). */
GpuStorage *
         _gpu_memory_acquire     (GpuMemory       *memory,
                                  const char      *function,
                                  GError         **error);
/* Returns FALSE with an error if the range exceeds the memory, whose state is not checked. */
gboolean _gpu_memory_check_bounds (GpuMemory      *memory,
                                  const char      *function,
                                  const char      *what,
                                  gsize            offset,
                                  gsize            size,
                                  GError         **error);
/* Slow path of _gpu_memory_check_range(): sets the error. Checks the state of @memory first, so
 * that released memory is reported as released for every range. Returns TRUE if the range is empty
 * but within @memory. */
GPU_COLD gboolean
         _gpu_memory_check_range_slowly (GpuMemory       *memory,
                                         const char      *function,
                                         const char      *what,
                                         gsize            offset,
                                         gsize            size,
                                         GError         **error);

/* Returns FALSE with an error if @memory is an image, or if @offset + @size exceeds the memory. The
 * error message calls the memory @what, for example "destination". If the range is valid and not
 * empty, this function does not check the state of @memory, because _gpu_submit() and
 * _gpu_memory_acquire() check the state under the lock. */
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

/* Completes the @flags of a slice or view of @parent. Without a flag for access by kernels, or
 * without a flag for access by the host, adds the flags of @parent for that access. Always adds all
 * other flags of @parent. Fails if @flags permit more access than the flags of @parent, or contain
 * flags other than those for access. */
gboolean _gpu_memory_inherit_flags (GpuMemory       *parent,
                                  const char        *function,
                                  GpuMemoryFlags    *flags,
                                  GError           **error);

typedef GpuNativeMemory *(*GpuAllocateFunc) (GpuNativeContext  *context,
                                             gpointer           data,
                                             GError           **error);

/* Calls @func. If @func fails for lack of memory, frees unused staging memory and calls @func
 * again. If the device is still out of memory, emits GpuContext::memory-pressure and calls @func
 * once more. Prefixes the error with @function. */
GpuNativeMemory *
         _gpu_memory_allocate    (GpuContext        *context,
                                  const char        *function,
                                  gsize              size,
                                  GpuAllocateFunc    func,
                                  gpointer           data,
                                  GError           **error);
/* Like gpu_buffer_new(), but errors name @function. */
GpuBuffer *
         _gpu_buffer_new         (GpuContext        *context,
                                  const char        *function,
                                  GpuMemoryFlags     flags,
                                  gsize              size,
                                  GError           **error);
/* Like gpu_buffer_slice_full(), for memory of any kind. Error messages begin with @function, and
 * call the memory @what, for example "buffer". */
GpuBuffer *
         _gpu_memory_slice       (GpuMemory         *memory,
                                  const char        *function,
                                  const char        *what,
                                  GpuMemoryFlags     flags,
                                  gsize              offset,
                                  gsize              size,
                                  GError           **error);
/* Creates a native slice of @whole. */
GpuNativeBuffer *
         _gpu_buffer_cut         (GpuNativeContext  *context,
                                  GpuNativeBuffer   *whole,
                                  GpuMemoryFlags     flags,
                                  gsize              offset,
                                  gsize              size,
                                  GError           **error);
/* Returns FALSE if @flags cannot be combined or the device does not support them. */
gboolean _gpu_buffer_check_flags (const char        *function,
                                  GpuNativeContext  *context,
                                  GpuMemoryFlags     flags,
                                  GError           **error);
/* Returns FALSE if @size is 0 or exceeds the maximum of the device. */
gboolean _gpu_buffer_check_size  (const char        *function,
                                  GpuNativeContext  *context,
                                  gsize              size,
                                  GError           **error);
/* Validates a file descriptor of the program before a driver uses it. Returns FALSE if @fd is not
 * open, cannot refer to memory, or refers to less than @whole_size bytes. If the system does not
 * know the size of the memory, the size is not checked. */
gboolean _gpu_buffer_check_fd    (const char        *function,
                                  int                fd,
                                  gsize              whole_size,
                                  GError           **error);
/* Returns FALSE with GPU_ERROR_INVALID_ARGUMENT unless @buffer has GPU_MEMORY_FLAGS_SHAREABLE. */
gboolean _gpu_buffer_check_shareable (GpuBuffer     *buffer,
                                  const char        *function,
                                  GError           **error);
GPU_COLD gboolean
         _gpu_memory_fail_host   (GpuMemory       *memory,
                                  const char      *function,
                                  gboolean         write,
                                  GError         **error);

/* Returns FALSE if the flags of @memory forbid the access by the host: a write if @write is TRUE,
 * otherwise a read. */
static inline gboolean
_gpu_memory_check_host (GpuMemory   *memory,
                        const char  *function,
                        gboolean     write,
                        GError     **error)
{
  const GpuMemoryFlags denied = GPU_MEMORY_FLAGS_HOST_NO_ACCESS
                                | (write ? GPU_MEMORY_FLAGS_HOST_READ_ONLY
                                         : GPU_MEMORY_FLAGS_HOST_WRITE_ONLY);

  return G_LIKELY ((memory->flags & denied) == 0)
         || _gpu_memory_fail_host (memory, function, write, error);
}

/* Like gpu_buffer_new_wrapped(). @notify is called with @user_data, on any thread, when the last
 * work that uses the memory has completed and no object refers to the memory. @notify is not called
 * if this function fails. */
GpuBuffer *_gpu_buffer_new_wrapped (GpuContext      *context,
                                    guint64          handle,
                                    gsize            size,
                                    GpuWrapMode      mode,
                                    gpointer         user_data,
                                    GDestroyNotify   notify,
                                    GError         **error);

/* Like _gpu_buffer_new_wrapped() in borrow mode, for a handle to the range of @storage that begins
 * at @offset. The buffer is a view of @storage: see _gpu_storage_new_view(). The caller must be a
 * user of @storage until @notify is called. */
GpuBuffer *_gpu_buffer_new_view    (GpuContext      *context,
                                    GpuStorage      *storage,
                                    gsize            offset,
                                    guint64          handle,
                                    gsize            size,
                                    gpointer         user_data,
                                    GDestroyNotify   notify,
                                    GError         **error);

/* Sets the member `data` of @svm if the host may access the memory at any time. Must be called
 * after _gpu_memory_set_storage(). */
void     _gpu_svm_set_data        (GpuSvm          *svm);

/* The class structures of GpuBuffer and GpuSvm, or NULL before class_init. */
extern gpointer _gpu_buffer_class;
extern gpointer _gpu_svm_class;

static inline gboolean
_gpu_is_buffer (gpointer object)
{
  return _gpu_has_class (object, _gpu_buffer_class) || _gpu_is_a (object, gpu_buffer_get_type);
}

/* Returns whether kernels can take @object as a pointer argument. */
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

/* Faster than the public checks. Messages about failed preconditions quote these names. */
#define GPU_IS_BUFFER(object) (_gpu_is_buffer (object))
#undef GPU_IS_MEMORY
#define GPU_IS_MEMORY(object) (_gpu_is_memory (object))

G_END_DECLS
