/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The storage of a memory object: the driver's buffer and its last uses.
 *
 * A slice has storage of its own, with a reference to `whole`, the storage of the outermost memory
 * that contains the slice. A single storage, the root, records the uses and mappings of the
 * outermost memory and all its slices, and has the lock for them. The root is `whole`, or the
 * storage of an earlier object over the same memory.
 *
 * A user of a storage is, for example, a memory object that is not released, a slice or a mapping.
 * A use is work that was submitted to a stream and accesses the memory. The buffer is freed when
 * the storage has no users left and the last use has completed. The structure is freed when its
 * last reference is dropped.
 */
#pragma once

#include "gpumem/timeline/gpu-timeline-private.h"

G_BEGIN_DECLS

typedef struct _GpuStorage GpuStorage;

typedef struct
{
  gsize    offset;                  /* within the memory of the root */
  gsize    size;
  gboolean write;
} GpuMappedRange;

/* Selects the counter of the context to which the library adds the size of a storage. */
typedef enum
{
  GPU_STORAGE_FOREIGN,              /* no counter: the library allocated no memory for this
                                     * storage */
  GPU_STORAGE_DEVICE,               /* counted in GpuNativeContext.allocated */
  GPU_STORAGE_HOST                  /* counted in GpuNativeContext.allocated_host */
} GpuStorageKind;

/* The functions of a pool for the storages of its suballocations. */
typedef struct
{
  /* Called when the storage has no users left. Returns the suballocation to the pool, with a list
   * of the uses that have not completed. */
  void            (*return_to_pool) (GpuStorage *storage);
  /* Called when the last reference to @memory is dropped. Returns TRUE if the pool keeps the object
   * for reuse. */
  gboolean        (*recycle)    (GpuMemory  *memory);
  /* Returns the suballocation of @memory to the pool. @memory keeps the pool alive until
   * unspilled() is called. Returns FALSE if the pool was finalized or the storage has other
   * users. */
  gboolean        (*spill)      (GpuMemory   *memory,
                                 GError     **error);
  /* Allocates a new suballocation for @memory. The caller then restores the contents, and calls
   * unspilled(). If it could not restore the contents, it calls spill() again instead. */
  gboolean        (*unspill)    (GpuMemory   *memory,
                                 GpuTimeline *timeline,
                                 GError     **error);
  void            (*unspilled)  (GpuMemory   *memory);
  /* Returns a new reference to the core of the pool. Caller holds the lock of @storage. */
  gpointer        (*ref_core)   (GpuStorage  *storage);
  /* Drops a reference to @core. Returns a new reference to its GpuMemoryPool, or NULL if the pool
   * was finalized. May run code of the program, so the caller holds no lock. */
  GObject        *(*take_pool)  (gpointer     core);
} GpuSuballocationOps;

/* Describes a storage whose memory is a suballocation: a range of a larger buffer of a pool. The
 * pool owns GpuStorage.buffer, and keeps it until the storage calls its owner_notify. */
typedef struct
{
  const GpuSuballocationOps *ops;
  GpuNativeBuffer           *whole; /* the larger buffer; slices are created from this buffer */
  gsize                      offset; /* of the suballocation, within whole */
} GpuSuballocation;

typedef enum
{
  GPU_USE_WRITE,
  GPU_USE_READ,
  GPU_USE_EARLIER                   /* work of a previous owner of the memory, recorded by
                                     * _gpu_storage_start_after() */
} GpuUseKind;

typedef struct
{
  GpuPoint   point;                 /* the position of the work in its stream */
  GpuUseKind kind;
} GpuUse;

typedef struct _GpuStorageHook GpuStorageHook;

/* `func` is called once when the storage has no users left, on any thread, with no lock held.
 * Submitted work may still use the memory. The function returns TRUE to continue the release. To
 * defer the release, it takes a reference to @storage, returns FALSE and calls
 * _gpu_storage_resume_release() later. */
struct _GpuStorageHook
{
  GpuStorageHook  *next;
  gconstpointer    owner;           /* only compared, never dereferenced */
  gboolean       (*func) (GpuStorageHook *hook,
                          GpuStorage     *storage);
};

/* The fields that every submission reads, and those that a pool reads when a buffer is dropped, are
 * first, in two cache lines. */
struct _GpuStorage
{
  GpuNativeContext *context;
  GpuStorage       *root;           /* the storage that records the uses: this storage, the root of
                                     * `whole`, or an earlier storage of the same memory */
  GpuNativeBuffer  *buffer;

  /* These fields are only used in a root. For their lock, see _gpu_storage_lock(). */
  GpuTimeline      *biased_to;      /* atomic; NULL, or the only timeline that may have pending
                                     * uses */
  GArray           *mapped;         /* of GpuMappedRange; NULL before the first mapping */
  GpuPoint          writer;         /* the use that all later uses wait for: the last write, or
                                     * another use whose kind is `writer_kind` */
  GArray           *readers;        /* of GpuPoint: the last read by each other stream, or NULL */
  GpuPoint          reader;         /* the last read by one stream */
  GpuUseKind        writer_kind;    /* the kind of the use at `writer` */
  GpuMemoryFlags    flags;
  gboolean          is_exclusive;   /* GpuNativeMemory.is_exclusive; if TRUE, never biased */
  gboolean          is_external;    /* GpuNativeMemory.is_external; if TRUE, never biased */
  GPtrArray        *streams;        /* atomic; of GpuTimeline: streams to which the program submits
                                     * work of its own that uses the memory, or NULL; changes under
                                     * lock */

  GpuSuballocation *suballocation;  /* NULL if the memory is not a suballocation of a pool */
  GpuStorageHook   *hooks;          /* atomic; a list with the newest hook first; changes under
                                     * lock */
  gatomicrefcount   refs;
  gint              users;          /* atomic; number of users: memory objects that are not
                                     * released, slices and mappings */

  guint             n_biases;       /* of a root: number of times that the bias changed to another
                                     * timeline */
  gboolean          is_acquired;    /* of an external root: acquired and not released; under lock */
  guint             n_maps;         /* of an external root: number of mappings, each of which keeps
                                     * the memory acquired; under lock */
  GpuSvmAttachment  attachment;     /* of an exclusive root: argument of GpuSvmOps.attach() */
  GMutex            lock;
  gpointer          last_biased_to; /* of a root: the last value of biased_to other than NULL; only
                                     * compared, because the timeline may have been freed */
  guint             n_retiring;     /* number of users that are slices or aliases without users of
                                     * their own, which only wait for pending work; under lock */
  gboolean          is_retiring;    /* counted in n_retiring of another storage */
  struct _GpuLatch *retired;        /* opened when n_retiring becomes 0, or NULL; under lock */
  gint              n_prepared;     /* atomic; number of prepared launches with this memory. They
                                     * store the handle of `buffer`, so the memory cannot be spilled
                                     * while there are any */
  GpuStorage       *whole;          /* the storage of the outermost memory: this storage, unless it
                                     * is the storage of a slice */
  gsize             offset;         /* within the memory of the root */
  gsize             size;
  guint64           identity;       /* the handle of the outermost memory plus the offset: the same
                                     * for storages of the same memory, and unchanged by a spill */
  guint64           alias_id;       /* of a root: its key in GpuNativeContext.aliases, or 0 */
  GpuStorageKind    kind;
  gboolean          is_constant;    /* writes through this storage and its slices are rejected */
  gpointer          owner;          /* argument of owner_notify */
  GDestroyNotify    owner_notify;   /* (nullable): called when `buffer` is no longer needed */
  GpuTimeline      *allocation_stream; /* of a buffer that was allocated in stream order, or NULL */
  guint64           allocation_capture; /* the capture whose graph allocates the buffer, or 0 */
  GpuPoint          last_write;     /* of a root: the last write, if `writer` is not a write */
  GArray           *pending;        /* of GpuPoint: uses that delay freeing the buffer, or NULL */
};

G_STATIC_ASSERT (GLIB_SIZEOF_VOID_P != 8
                 || G_STRUCT_OFFSET (GpuStorage, n_biases) == 2 * GPU_LINE);

GpuStorage *_gpu_storage_new            (GpuNativeContext  *context,
                                         GpuNativeBuffer   *buffer,
                                         GpuMemoryFlags     flags,
                                         GpuStorageKind     kind,
                                         gpointer           owner,
                                         GDestroyNotify     owner_notify);
/* Creates the storage of a slice that begins at @offset within @storage. @storage may itself be a
 * slice. */
GpuStorage *_gpu_storage_new_slice      (GpuStorage        *storage,
                                         GpuNativeBuffer   *buffer,
                                         GpuMemoryFlags     flags,
                                         gsize              offset);
/* Like _gpu_storage_new_slice(), for a wrapped handle to a range of @storage. The result inherits
 * the access flags of @storage. The caller must be a user of @storage until @owner_notify is
 * called. */
GpuStorage *_gpu_storage_new_view       (GpuStorage        *storage,
                                         GpuNativeBuffer   *buffer,
                                         gsize              offset,
                                         gpointer           owner,
                                         GDestroyNotify     owner_notify);
/* @suballocation must be valid until @owner_notify is called. No other storage may refer to the
 * memory, because this function does not search for aliases. */
GpuStorage *_gpu_storage_new_for_suballocation (GpuNativeContext       *context,
                                                GpuNativeBuffer        *buffer,
                                                GpuMemoryFlags          flags,
                                                GpuSuballocation       *suballocation,
                                                gpointer                owner,
                                                GDestroyNotify          owner_notify);
/* Removes all recorded uses from the storage. Sets @uses to a list of the uses that have not
 * completed, as GpuPoint, or to NULL if all have completed. Returns FALSE if the caller is not the
 * only user of the storage, or if the storage has a hook. */
gboolean    _gpu_storage_renew          (GpuStorage        *storage,
                                         GArray           **uses);
/* (transfer full): lists the last uses so far, as GpuUse, including the program's own work on the
 * streams of _gpu_storage_add_stream(). */
GArray     *_gpu_storage_list_work      (GpuStorage        *root);
/* Returns whether the caller can ignore @failure, the error of a wait for @use. */
typedef gboolean GpuUseIgnoreFunc       (const GpuUse      *use,
                                         const GError      *failure);

/* Returns TRUE if the failed work is that of a previous owner of the memory, and does not affect
 * the current contents. */
GpuUseIgnoreFunc _gpu_use_can_ignore;
/* Blocks until all @uses have completed, and takes ownership of the list. Returns FALSE with the
 * first error for which @can_ignore returns FALSE. */
gboolean    _gpu_uses_wait              (GArray            *uses,
                                         GpuUseIgnoreFunc  *can_ignore,
                                         GCancellable      *cancellable,
                                         GError           **error);
/* Blocks until the uses have completed, and frees the buffer. Returns FALSE without blocking if
 * _gpu_storage_empty() fails. */
gboolean    _gpu_storage_drop_buffer    (GpuStorage        *storage,
                                         GError           **error);
/* Like _gpu_storage_renew(), but sets @error on failure. Released slices may still have references
 * to the storage. No other thread may submit work for the storage. */
gboolean    _gpu_storage_empty          (GpuStorage        *storage,
                                         GArray           **uses,
                                         GError           **error);
void        _gpu_storage_take_buffer    (GpuStorage        *storage,
                                         GpuNativeBuffer   *buffer,
                                         GpuStorageKind     kind);
/* gpu-storage-alias.c. Called for a new storage. If the context has a root for the same memory that
 * still has users, that root becomes the root of @storage, and @storage becomes a user of that
 * root. Otherwise registers @storage as the root. @is_new: the driver has just allocated the
 * memory, so no other root exists. */
void        _gpu_storage_register_alias (GpuStorage        *storage,
                                         gboolean           is_new);
/* Removes @storage from the registered roots. Must be called before the buffer is freed, because
 * the driver may then allocate other memory with the same address or handle. */
void        _gpu_storage_unregister_alias (GpuStorage      *storage);
/* Orders all uses of @storage after the work that was submitted to @timeline so far. Must be called
 * before other threads can access @storage. */
void        _gpu_storage_start_after    (GpuStorage        *storage,
                                         GpuTimeline       *timeline);
/* Moves the point of _gpu_storage_start_after() to @point, which must be empty: later uses are no
 * longer ordered after it. Returns FALSE if that work has completed. */
gboolean    _gpu_storage_steal_earlier  (GpuStorage        *root,
                                         GpuPoint          *point);
/* Registers a stream to which the program itself submits work that uses the memory. When the last
 * user drops the storage, all work submitted to @timeline so far counts as a use. */
void        _gpu_storage_add_stream     (GpuStorage        *root,
                                         GpuTimeline       *timeline);
/* Records that the newest submission of @timeline allocated the buffer. */
void        _gpu_storage_set_allocation_stream (GpuStorage        *storage,
                                                GpuTimeline       *timeline);
GpuStorage *_gpu_storage_ref            (GpuStorage        *storage);
void        _gpu_storage_unref          (GpuStorage        *storage);
/* Adds and removes a user. A new storage has one user. */
void        _gpu_storage_use            (GpuStorage        *storage);
void        _gpu_storage_unuse          (GpuStorage        *storage);
/* Counts the users, except released slices and aliases that only wait for pending work. Caller has
 * locked @storage. */
gint        _gpu_storage_count_users_locked (GpuStorage    *storage);
/* Blocks until released slices and aliases of @storage are freed, and the work that delays this has
 * completed. Returns FALSE if they are not freed shortly after that work. No other thread may wait
 * at the same time. */
gboolean    _gpu_storage_wait_for_retiring (GpuStorage     *storage);
/* Returns FALSE with GPU_ERROR_NOT_SUPPORTED if a graph that is being captured may use the memory
 * of @root. The host cannot wait for that work, and the graph would use freed memory. */
gboolean    _gpu_storage_check_captured (GpuStorage        *root,
                                         GError           **error);
/* Must be called while @storage has users. Newer hooks are called before older hooks. */
void        _gpu_storage_add_hook       (GpuStorage        *storage,
                                         GpuStorageHook    *hook);
/* Returns TRUE if @storage has a hook of @owner. */
gboolean    _gpu_storage_has_hook       (GpuStorage        *storage,
                                         gconstpointer      owner);
/* Removes and returns the newest hook of @owner, or the newest of all hooks if @owner is NULL.
 * Returns NULL if there is no such hook. */
GpuStorageHook *
            _gpu_storage_take_hook      (GpuStorage        *storage,
                                         gconstpointer      owner);
/* Continues a release that a hook deferred. */
void        _gpu_storage_resume_release (GpuStorage        *storage);
/* Only for the functions of a hook. Delays freeing the buffer until all work that was submitted to
 * @timeline so far has completed. */
void        _gpu_storage_wait_for       (GpuStorage        *storage,
                                         GpuTimeline       *timeline);

/* Roots have a biased lock. While a root is biased to a timeline, a submission to that timeline
 * holds only the lock of the timeline to access the root. All other code locks the root with
 * _gpu_storage_lock(), which locks root->lock and then the timeline `biased_to`. */
void        _gpu_storage_lock           (GpuStorage        *root);
void        _gpu_storage_unlock         (GpuStorage        *root);
/* Locks root->lock and removes the bias, so that root->lock alone guards the root. */
void        _gpu_storage_lock_shared    (GpuStorage        *root);
/* Biases the root to @timeline, unless uses on other streams have not completed, or the root must
 * not be biased. Caller holds the lock of _gpu_storage_lock_shared() and the lock of @timeline. */
void        _gpu_storage_bias_locked    (GpuStorage        *root,
                                         GpuTimeline       *timeline);
void        _gpu_storage_unlock_shared  (GpuStorage        *root);

static inline gboolean
_gpu_storage_is_biased_to (GpuStorage  *root,
                           GpuTimeline *timeline)
{
  return __atomic_load_n (&root->biased_to, __ATOMIC_RELAXED) == timeline;
}

/* Records a use. Caller has locked @root with any of the functions above. */
void        _gpu_storage_add_use_locked (GpuStorage        *root,
                                         GpuTimeline       *timeline,
                                         guint64            seq,
                                         gboolean           write);

static inline void
_gpu_storage_set_use_locked (GpuStorage  *root,
                             GpuTimeline *timeline,
                             guint64      seq,
                             gboolean     write)
{
  GpuPoint *point = write ? &root->writer : &root->reader;

  if (G_LIKELY (point->timeline == timeline)
      && (!write || (G_LIKELY (root->reader.timeline == NULL) && G_LIKELY (root->readers == NULL)
                     && G_LIKELY (root->writer_kind == GPU_USE_WRITE)
                     && G_LIKELY ((root->flags & GPU_MEMORY_FLAGS_UNTRACKED) == 0))))
    point->seq = seq;
  else
    _gpu_storage_add_use_locked (root, timeline, seq, write);
}

/* Records a promoted read: a read that all later uses must wait for, as if it were a write. */
GPU_COLD void
            _gpu_storage_set_promoted_locked (GpuStorage   *root,
                                         GpuTimeline       *timeline,
                                         guint64            seq);

void        _gpu_storage_map_locked     (GpuStorage        *root,
                                         gsize              offset,
                                         gsize              size,
                                         gboolean           write);
void        _gpu_storage_unmap          (GpuStorage        *root,
                                         gsize              offset,
                                         gsize              size,
                                         gboolean           write);
/* (transfer full): lists uses of @root, as GpuUse: the last write; the use `writer`, if it is not a
 * write; and, if @readers is TRUE or the root is untracked, the last reads. */
GArray     *_gpu_storage_list_uses      (GpuStorage        *root,
                                         gboolean           readers);
/* Sets @point to the last write of @root, and returns FALSE if there was none. This is `writer`
 * only if `writer_kind` is GPU_USE_WRITE. The caller clears @point. */
gboolean    _gpu_storage_get_writer     (GpuStorage        *root,
                                         GpuPoint          *point);
/* Returns a mapped range that conflicts with a use of the given range, or NULL if there is none.
 * Ranges conflict if they overlap and the mapping or the use writes. */
const GpuMappedRange *
            _gpu_storage_find_clash_locked (GpuStorage     *root,
                                         gsize              offset,
                                         gsize              size,
                                         gboolean           write);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuStorage, _gpu_storage_unref)

G_END_DECLS
