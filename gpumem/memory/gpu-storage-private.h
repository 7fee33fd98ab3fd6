/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The core behind a memory object: the driver's buffer and its last uses.
 *
 * A slice has storage of its own, which refers to the storage of its parent. Everything about
 * uses, locks and mappings is kept in the root. The buffer is freed when the storage has no users
 * left and the last submitted use has completed; the structure itself lives as long as a memory
 * object refers to it.
 */
#pragma once

#include "gpumem/timeline/gpu-timeline-private.h"

G_BEGIN_DECLS

typedef struct _GpuStorage GpuStorage;

typedef struct
{
  gsize    offset;                  /* within the root */
  gsize    size;
  gboolean write;
} GpuMappedRange;

/* The counter of its context that a buffer adds to. */
typedef enum
{
  GPU_STORAGE_FOREIGN,              /* none: not allocated by this library */
  GPU_STORAGE_DEVICE,
  GPU_STORAGE_HOST                  /* host memory only */
} GpuStorageKind;

/* The storage of a pool: a suballocation of a larger buffer. The pool owns the buffer and drops it
 * with the owner of the storage. */
typedef struct
{
  GpuNativeBuffer  *whole;          /* contains the suballocation; its slices are cut from it */
  gsize             offset;         /* within whole */
  /* The storage has no users left: returns the suballocation to the pool, with pending uses. */
  void            (*return_to_pool) (GpuStorage *storage);
  /* The last reference to the object was dropped: TRUE if the pool has taken it for reuse. */
  gboolean        (*recycle)    (GpuMemory  *memory);
  /* Returns the suballocation to the pool; the object keeps the pool. FALSE if the pool was closed
   * or the storage has other users. */
  gboolean        (*spill)      (GpuMemory   *memory,
                                 GError     **error);
  /* Gives the object a new suballocation. The object may be spilled again until unspilled()
   * confirms that its contents were restored. */
  gboolean        (*unspill)    (GpuMemory   *memory,
                                 GpuTimeline *timeline,
                                 GError     **error);
  void            (*unspilled)  (GpuMemory   *memory);
} GpuSuballocation;

typedef enum
{
  GPU_USE_WRITE,
  GPU_USE_READ,
  GPU_USE_EARLIER                   /* the point of _gpu_storage_start_after(): work of a previous
                                     * owner of the memory */
} GpuUseKind;

typedef struct
{
  GpuPoint   point;
  GpuUseKind kind;
} GpuUse;

typedef struct _GpuStorageHook GpuStorageHook;

/* Called once when the storage has no users left, on any thread and without a lock; work may be
 * pending. Returns TRUE to continue the release. To defer the release, takes a reference to
 * @storage, returns FALSE and calls _gpu_storage_resume_release() later. */
struct _GpuStorageHook
{
  GpuStorageHook  *next;
  gconstpointer    owner;           /* only compared */
  gboolean       (*func) (GpuStorageHook *hook,
                          GpuStorage     *storage);
};

/* The fields that every submission reads come first, close together. */
struct _GpuStorage
{
  GpuNativeContext *context;
  GpuStorage       *root;           /* tracks the uses: the root of whole, which may be another
                                     * storage of the same memory */
  GpuNativeBuffer  *buffer;

  /* Fields of a root; see _gpu_storage_lock() for their lock. */
  GpuTimeline      *biased_to;      /* atomic; the only timeline with possibly pending uses, or
                                     * NULL */
  GArray           *mapped;         /* of GpuMappedRange; NULL before the first mapping */
  GpuPoint          writer;
  GpuPoint          reader;
  GArray           *readers;        /* of GpuPoint: readers on other streams, or NULL */
  GpuUseKind        writer_kind;    /* of writer, which all later uses wait for */
  guint             n_biases;       /* number of timelines it was biased to, in sequence */
  GPtrArray        *streams;        /* atomic; of GpuTimeline: streams on which the program uses the
                                     * memory directly, or NULL; changes under lock */

  GpuMemoryFlags    flags;
  gboolean          is_exclusive;   /* GpuNativeMemory.is_exclusive: such a root is never biased */
  gboolean          is_external;    /* GpuNativeMemory.is_external: such a root is never biased */
  gboolean          is_acquired;    /* of an external root, under its lock, like n_maps */
  guint             n_maps;         /* mapped ranges, which keep it acquired */
  GpuSvmAttachment  attachment;     /* of an exclusive root: its attachment during uses */
  GMutex            lock;
  gpointer          last_biased_to; /* of a root; only compared, may be dangling */
  gatomicrefcount   refs;
  gint              users;          /* atomic; unreleased memory objects, slices and mappings */
  gint              n_prepared;     /* atomic; launches that store the handle of buffer for good */
  GpuStorage       *whole;          /* itself, or the parent of a slice */
  gsize             offset;         /* within the memory of the root, like the offsets of uses */
  gsize             size;
  guint64           alias_id;       /* of a root: identifies its memory for aliases, or 0 */
  GpuStorageKind    kind;
  gboolean          is_constant;    /* writes through it and its slices are rejected */
  gpointer          owner;          /* outlives the buffer; freed with owner_notify */
  GDestroyNotify    owner_notify;
  GpuTimeline      *allocation_stream; /* of a buffer that was allocated in stream order, or NULL */
  GpuPoint          last_write;     /* of a root: the last write if writer is not a write */
  GArray           *pending;        /* of GpuPoint: work that delays the freeing, or NULL */
  const GpuSuballocation *suballocation; /* of a pool, or NULL */
  GpuStorageHook   *hooks;          /* atomic; changes under the lock; the newest first */
};

GpuStorage *_gpu_storage_new            (GpuNativeContext  *context,
                                         GpuNativeBuffer   *buffer,
                                         GpuMemoryFlags     flags,
                                         GpuStorageKind     kind,
                                         gpointer           owner,
                                         GDestroyNotify     owner_notify);
/* A range of @storage, which may be a slice itself, from @offset on. */
GpuStorage *_gpu_storage_new_slice      (GpuStorage        *storage,
                                         GpuNativeBuffer   *buffer,
                                         GpuMemoryFlags     flags,
                                         gsize              offset);
/* The same for memory that was wrapped again, with the access flags of @storage. The caller is a
 * user of @storage until @owner_notify is called. */
GpuStorage *_gpu_storage_new_view       (GpuStorage        *storage,
                                         GpuNativeBuffer   *buffer,
                                         gsize              offset,
                                         gpointer           owner,
                                         GDestroyNotify     owner_notify);
/* @suballocation must be valid until @owner_notify is called. It contains no other storage. */
GpuStorage *_gpu_storage_new_for_suballocation (GpuNativeContext       *context,
                                                GpuNativeBuffer        *buffer,
                                                GpuMemoryFlags          flags,
                                                const GpuSuballocation *suballocation,
                                                gpointer                owner,
                                                GDestroyNotify          owner_notify);
/* Resets the storage, if the caller is its only user, and sets @uses to its pending uses, of
 * GpuPoint, or NULL. FALSE if it has other users. */
gboolean    _gpu_storage_renew          (GpuStorage        *storage,
                                         GArray           **uses);
/* (transfer full): the last uses so far, of GpuUse, including direct uses by the program. */
GArray     *_gpu_storage_list_work      (GpuStorage        *root);
/* Blocks until all uses so far have completed, including direct uses by the program. FALSE if one
 * failed or the wait was cancelled. The failure of work that only came earlier does not count. */
gboolean    _gpu_storage_wait_for_uses  (GpuStorage        *root,
                                         GCancellable      *cancellable,
                                         GError           **error);
/* Whether @failure, from the wait for @use, does not concern the memory, as it is the failure of
 * work of a previous owner. */
gboolean    _gpu_use_can_ignore         (const GpuUse      *use,
                                         const GError      *failure);
/* Blocks until the uses have completed and frees the buffer. FALSE if the storage has other
 * users. */
gboolean    _gpu_storage_drop_buffer    (GpuStorage        *storage,
                                         GError           **error);
/* Like _gpu_storage_renew(), but sets @error if the storage has other users. */
gboolean    _gpu_storage_empty          (GpuStorage        *storage,
                                         GArray           **uses,
                                         GError           **error);
void        _gpu_storage_take_buffer    (GpuStorage        *storage,
                                         GpuNativeBuffer   *buffer,
                                         GpuStorageKind     kind);
/* gpu-storage-alias.c, for a new storage: if the context knows another root of the same memory,
 * makes it the root of @storage, which becomes a user of it. @is_new: the driver has just allocated
 * the memory, so no other root exists. */
void        _gpu_storage_register_alias (GpuStorage        *storage,
                                         gboolean           is_new);
/* Hides the storage from new aliases. Call before its buffer is freed. */
void        _gpu_storage_unregister_alias (GpuStorage      *storage);
/* Orders all uses after the work submitted to @timeline so far. Call before other threads can
 * access @storage. */
void        _gpu_storage_start_after    (GpuStorage        *storage,
                                         GpuTimeline       *timeline);
/* When a user drops the storage, all work submitted to @timeline by then counts as a use. */
void        _gpu_storage_add_stream     (GpuStorage        *root,
                                         GpuTimeline       *timeline);
/* Records that the newest submission of @timeline allocated the buffer. */
void        _gpu_storage_set_allocation_stream (GpuStorage        *storage,
                                                GpuTimeline       *timeline);
GpuStorage *_gpu_storage_ref            (GpuStorage        *storage);
void        _gpu_storage_unref          (GpuStorage        *storage);
/* A new storage has one user. */
void        _gpu_storage_use            (GpuStorage        *storage);
void        _gpu_storage_unuse          (GpuStorage        *storage);
/* Call while @storage has users. Newer hooks are called before older ones. */
void        _gpu_storage_add_hook       (GpuStorage        *storage,
                                         GpuStorageHook    *hook);
/* Removes the newest hook of @owner, or of any owner for NULL. NULL if there is none. */
GpuStorageHook *
            _gpu_storage_take_hook      (GpuStorage        *storage,
                                         gconstpointer      owner);
/* Continues a release that a hook deferred. */
void        _gpu_storage_resume_release (GpuStorage        *storage);
/* For a hook: makes the freeing wait for the work submitted to @timeline so far. */
void        _gpu_storage_wait_for       (GpuStorage        *storage,
                                         GpuTimeline       *timeline);

/* While a root is biased to a timeline, the lock of the timeline guards the root, and that timeline
 * needs no other lock. Other threads lock the root first and then `biased_to`. */
void        _gpu_storage_lock           (GpuStorage        *root);
void        _gpu_storage_unlock         (GpuStorage        *root);
/* Locks only the root and removes its bias. */
void        _gpu_storage_lock_shared    (GpuStorage        *root);
/* Biases the root to @timeline, unless other streams may have pending work. Caller holds the root
 * with _gpu_storage_lock_shared(), and the lock of @timeline. */
void        _gpu_storage_bias_locked    (GpuStorage        *root,
                                         GpuTimeline       *timeline);
void        _gpu_storage_unlock_shared  (GpuStorage        *root);

static inline gboolean
_gpu_storage_is_biased_to (GpuStorage  *root,
                           GpuTimeline *timeline)
{
  return __atomic_load_n (&root->biased_to, __ATOMIC_RELAXED) == timeline;
}

/* Caller holds any of the locks above. */
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

/* Records a read that is ordered as a write. */
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
/* (transfer full): the last write of @root so far, the point that all uses wait for, and, if
 * @readers, all reads: of GpuUse. */
GArray     *_gpu_storage_list_uses      (GpuStorage        *root,
                                         gboolean           readers);
/* Gets the last write of @root. FALSE if there was none. A read that is ordered as a write, and the
 * point of _gpu_storage_start_after(), do not count. The caller clears @point. */
gboolean    _gpu_storage_get_writer     (GpuStorage        *root,
                                         GpuPoint          *point);
/* The mapping that conflicts with a use of the range, or NULL. */
const GpuMappedRange *
            _gpu_storage_find_clash_locked (GpuStorage     *root,
                                         gsize              offset,
                                         gsize              size,
                                         gboolean           write);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuStorage, _gpu_storage_unref)

G_END_DECLS
