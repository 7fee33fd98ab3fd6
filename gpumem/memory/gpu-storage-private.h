/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The core behind a memory object: the driver's buffer and who used it last.
 *
 * Slices have storage of their own over that of what they were cut from, and everything about
 * uses, locks and mappings stands at the root. The buffer is freed when nobody uses the storage
 * any more and the last submitted use is complete, whichever comes later; the structure itself
 * lives on while a memory object points to it.
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

/* What a buffer counts as in its context. */
typedef enum
{
  GPU_STORAGE_FOREIGN,              /* nothing: others have made it */
  GPU_STORAGE_DEVICE,
  GPU_STORAGE_HOST                  /* memory of the host alone */
} GpuStorageKind;

/* Storage of a pool: a place in greater memory. The buffer is the pool's, too, and is let go with
 * the owner of the storage. */
typedef struct
{
  GpuNativeBuffer  *whole;          /* that the place is in, and slices of it are cut from */
  gsize             offset;         /* within whole */
  /* Nobody uses the storage any more: the pool has the place back, but for what is pending. */
  void            (*give_back)  (GpuStorage *storage);
  /* Nobody refers to the object any more: TRUE if the pool has taken it to use it again. */
  gboolean        (*recycle)    (GpuMemory  *memory);
  /* The place goes back, and the object keeps the pool. FALSE if that is gone, or somebody else
   * knows the storage. */
  gboolean        (*spill)      (GpuMemory   *memory,
                                 GError     **error);
  /* The object gets another one; it may yet be spilled again until unspilled() says that it was
   * filled. */
  gboolean        (*unspill)    (GpuMemory   *memory,
                                 GpuTimeline *timeline,
                                 GError     **error);
  void            (*unspilled)  (GpuMemory   *memory);
} GpuSuballocation;

typedef struct _GpuStorageHook GpuStorageHook;

/* Told once, when nobody uses the storage any more, on any thread and without a lock; work may
 * still pend. TRUE to go on; or FALSE, with a reference on @storage, and
 * _gpu_storage_resume_release() is called later. */
struct _GpuStorageHook
{
  GpuStorageHook  *next;
  gconstpointer    owner;           /* compared only */
  gboolean       (*func) (GpuStorageHook *hook,
                          GpuStorage     *storage);
};

/* What every submission needs comes first, and close together. */
struct _GpuStorage
{
  GpuNativeContext *context;
  GpuStorage       *root;           /* where uses are tracked: that of whole, which is itself or
                                     * another one over the same memory */
  GpuNativeBuffer  *buffer;

  /* Of a root, and guarded as _gpu_storage_lock() says. */
  GpuTimeline      *biased_to;      /* atomic; the only one with uses that may pend, or NULL */
  GArray           *mapped;         /* of GpuMappedRange; NULL if there never were */
  GpuPoint          writer;
  GpuPoint          reader;
  GArray           *readers;        /* of GpuPoint: further streams; NULL if there never were */
  gboolean          is_writer_read; /* writer has written nothing: it is a read that is ordered as a
                                     * write, or from _gpu_storage_start_after() */
  guint             n_biases;       /* so many there were, one after the other */
  GPtrArray        *streams;        /* atomic; of GpuTimeline: where the program itself uses it, or
                                     * NULL; changes under lock */

  GpuMemoryFlags    flags;
  gboolean          is_exclusive;   /* GpuNativeMemory.is_exclusive: such a root is never biased */
  gboolean          is_external;    /* GpuNativeMemory.is_external: neither has such a root */
  gboolean          is_acquired;    /* of an external root, as is n_maps; under its lock */
  guint             n_maps;         /* ranges that are mapped, and keep it acquired */
  GpuSvmAttachment  attachment;     /* of an exclusive root: what uses attach it to */
  GMutex            lock;
  gpointer          last_biased_to; /* of a root; compared only, it may be gone */
  gatomicrefcount   refs;
  gint              users;          /* atomic; unreleased memory objects, slices and mappings */
  gint              n_prepared;     /* atomic; launches that have looked at buffer for good */
  GpuStorage       *whole;          /* itself, or for a slice what it was cut from */
  gsize             offset;         /* in the memory of the root, as are those of uses */
  gsize             size;
  guint64           alias_id;       /* of a root that others find by it, or 0 */
  GpuStorageKind    kind;
  gboolean          is_constant;    /* writes through it and its slices are refused; of a root,
                                     * also through its aliases */
  gpointer          owner;          /* outlives the buffer, goes with owner_notify */
  GDestroyNotify    owner_notify;
  GpuTimeline      *allocation_stream; /* that the buffer was allocated in the order of, or NULL */
  GpuPoint          last_write;     /* of a root: if is_writer_read, the write before it */
  GArray           *pending;        /* of GpuPoint: what the freeing still waits for; or NULL */
  const GpuSuballocation *suballocation; /* of a pool, or NULL */
  GpuStorageHook   *hooks;          /* atomic; changes under the lock; the newest first */
};

GpuStorage *_gpu_storage_new            (GpuNativeContext  *context,
                                         GpuNativeBuffer   *buffer,
                                         GpuMemoryFlags     flags,
                                         GpuStorageKind     kind,
                                         gpointer           owner,
                                         GDestroyNotify     owner_notify);
/* @whole is no slice, and @offset counts as its own does. */
GpuStorage *_gpu_storage_new_slice      (GpuStorage        *whole,
                                         GpuNativeBuffer   *buffer,
                                         GpuMemoryFlags     flags,
                                         gsize              offset);
/* @suballocation stays until @owner_notify; no other storage lies in it. */
GpuStorage *_gpu_storage_new_for_suballocation (GpuNativeContext       *context,
                                                GpuNativeBuffer        *buffer,
                                                GpuMemoryFlags          flags,
                                                const GpuSuballocation *suballocation,
                                                gpointer                owner,
                                                GDestroyNotify          owner_notify);
/* Whether nothing but the one who asks knows the storage, whose uses then are those that pend: of
 * GpuPoint, or NULL. It is as new afterwards. */
gboolean    _gpu_storage_renew          (GpuStorage        *storage,
                                         GArray           **uses);
/* The last uses so far, of GpuPoint, those by the program itself, too. (transfer full) */
GArray     *_gpu_storage_list_work      (GpuStorage        *root);
/* Blocks until all uses so far are over, those by the program itself, too. FALSE if one failed, or
 * the waiting was cancelled. */
gboolean    _gpu_storage_wait_for_uses  (GpuStorage        *root,
                                         GCancellable      *cancellable,
                                         GError           **error);
/* Frees the buffer when its uses are over, which it blocks for, and gives the storage another.
 * FALSE if somebody else knows it. */
gboolean    _gpu_storage_drop_buffer    (GpuStorage        *storage,
                                         GError           **error);
/* FALSE and @error, or as _gpu_storage_renew() does. */
gboolean    _gpu_storage_empty          (GpuStorage        *storage,
                                         GArray           **uses,
                                         GError           **error);
void        _gpu_storage_take_buffer    (GpuStorage        *storage,
                                         GpuNativeBuffer   *buffer,
                                         GpuStorageKind     kind);
/* gpu-storage-alias.c, for a storage that was just made: finds the root of the memory, if others
 * are over it, which it is a user of from then on. @is_new: there can be none. */
void        _gpu_storage_register_alias (GpuStorage        *storage,
                                         gboolean           is_new);
/* Nobody finds it any more; before its buffer is freed. */
void        _gpu_storage_unregister_alias (GpuStorage      *storage);
/* Everything submitted to @timeline so far comes before any use. Nobody else knows @storage yet. */
void        _gpu_storage_start_after    (GpuStorage        *storage,
                                         GpuTimeline       *timeline);
/* When somebody lets go of it, all that was submitted to @timeline by then counts as a use. */
void        _gpu_storage_add_stream     (GpuStorage        *root,
                                         GpuTimeline       *timeline);
/* Tells of the newest submission of @timeline that it has allocated the buffer. */
void        _gpu_storage_set_allocation_stream (GpuStorage        *storage,
                                                GpuTimeline       *timeline);
GpuStorage *_gpu_storage_ref            (GpuStorage        *storage);
void        _gpu_storage_unref          (GpuStorage        *storage);
/* A new storage has one user. */
void        _gpu_storage_use            (GpuStorage        *storage);
void        _gpu_storage_unuse          (GpuStorage        *storage);
/* While somebody uses @storage; hooks that are newer are told before those that are older. */
void        _gpu_storage_add_hook       (GpuStorage        *storage,
                                         GpuStorageHook    *hook);
/* The newest one of @owner, of anybody if that is NULL, which is not told any more; or NULL. */
GpuStorageHook *
            _gpu_storage_take_hook      (GpuStorage        *storage,
                                         gconstpointer      owner);
/* For a hook that held up the freeing. */
void        _gpu_storage_resume_release (GpuStorage        *storage);
/* For a hook: the freeing waits for what was submitted to @timeline so far. */
void        _gpu_storage_wait_for       (GpuStorage        *storage,
                                         GpuTimeline       *timeline);

/* While a root is biased to a timeline, the lock of that timeline guards it, and suffices for the
 * timeline. Other threads take the lock of the root first and then that of `biased_to`. */
void        _gpu_storage_lock           (GpuStorage        *root);
void        _gpu_storage_unlock         (GpuStorage        *root);
/* The lock of the root alone, which is not biased from now on. */
void        _gpu_storage_lock_shared    (GpuStorage        *root);
/* Between the two, with the lock of @timeline: biases the root to it if no other stream may have
 * pending work. */
void        _gpu_storage_bias_locked    (GpuStorage        *root,
                                         GpuTimeline       *timeline);
void        _gpu_storage_unlock_shared  (GpuStorage        *root);

static inline gboolean
_gpu_storage_is_biased_to (GpuStorage  *root,
                           GpuTimeline *timeline)
{
  return __atomic_load_n (&root->biased_to, __ATOMIC_RELAXED) == timeline;
}

/* Locked in any of these ways. */
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
                     && G_LIKELY (!root->is_writer_read)
                     && G_LIKELY ((root->flags & GPU_MEMORY_FLAGS_UNTRACKED) == 0))))
    point->seq = seq;
  else
    _gpu_storage_add_use_locked (root, timeline, seq, write);
}

/* For a read that is ordered as a write. */
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
/* (transfer full): the last use of @root so far that wrote and, with @readers, all that read: of
 * GpuPoint. */
GArray     *_gpu_storage_list_uses      (GpuStorage        *root,
                                         gboolean           readers);
/* Gets the last write of @root. FALSE if there was none; a read that is
 * ordered as a write, and the point from _gpu_storage_start_after(), are none. The caller clears
 * @point. */
gboolean    _gpu_storage_get_writer     (GpuStorage        *root,
                                         GpuPoint          *point);
/* The mapping that a use of the range would clash with, or NULL. */
const GpuMappedRange *
            _gpu_storage_find_clash_locked (GpuStorage     *root,
                                         gsize              offset,
                                         gsize              size,
                                         gboolean           write);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuStorage, _gpu_storage_unref)

G_END_DECLS
