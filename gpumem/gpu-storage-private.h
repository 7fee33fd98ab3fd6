/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The core behind a memory object: the driver's buffer and who used it last.
 *
 * Slices have storage of their own over that of their root, and everything about uses, locks and
 * mappings stands at the root. The buffer is freed when nobody uses the storage any more and the
 * last submitted use is complete, whichever comes later; the structure itself lives on while a
 * memory object points to it.
 */
#pragma once

#include "gpumem/gpu-timeline-private.h"

G_BEGIN_DECLS

typedef struct _GpuStorage GpuStorage;

typedef struct
{
  gsize    offset;                  /* within the root */
  gsize    size;
  gboolean write;
} GpuMappedRange;

struct _GpuStorage
{
  gatomicrefcount   refs;
  gint              users;          /* atomic; unreleased memory objects, slices and mappings */
  GpuNativeContext *context;
  GpuStorage       *root;           /* itself, or for a slice what it was cut from */
  gsize             offset;         /* within the root */
  gsize             size;
  GpuMemoryFlags    flags;
  GpuNativeBuffer  *buffer;
  gsize             allocated;      /* bytes that it counts for in the context */
  gpointer          owner;          /* outlives the buffer, goes with owner_notify */
  GDestroyNotify    owner_notify;
  GArray           *pending;        /* of GpuPoint: what the freeing still waits for; or NULL */

  GMutex            lock;           /* of a root; guards what follows */
  GpuPoint          writer;
  GpuPoint          reader;
  GArray           *readers;        /* of GpuPoint: further streams; NULL if there never were */
  GArray           *mapped;         /* of GpuMappedRange; NULL if there never were */
};

GpuStorage *_gpu_storage_new            (GpuNativeContext  *context,
                                         GpuNativeBuffer   *buffer,
                                         GpuMemoryFlags     flags,
                                         gboolean           counted,
                                         gpointer           owner,
                                         GDestroyNotify     owner_notify);
GpuStorage *_gpu_storage_new_slice      (GpuStorage        *root,
                                         GpuNativeBuffer   *buffer,
                                         GpuMemoryFlags     flags,
                                         gsize              offset);
GpuStorage *_gpu_storage_ref            (GpuStorage        *storage);
void        _gpu_storage_unref          (GpuStorage        *storage);
/* A new storage has one user. */
void        _gpu_storage_use            (GpuStorage        *storage);
void        _gpu_storage_unuse          (GpuStorage        *storage);

/* With the lock of the root held. */
void        _gpu_storage_set_use_locked (GpuStorage        *root,
                                         GpuTimeline       *timeline,
                                         guint64            seq,
                                         gboolean           write);
void        _gpu_storage_map_locked     (GpuStorage        *root,
                                         gsize              offset,
                                         gsize              size,
                                         gboolean           write);
void        _gpu_storage_unmap          (GpuStorage        *root,
                                         gsize              offset,
                                         gsize              size,
                                         gboolean           write);
/* The mapping that a use of the range would clash with, or NULL. */
const GpuMappedRange *
            _gpu_storage_find_clash_locked (GpuStorage     *root,
                                         gsize              offset,
                                         gsize              size,
                                         gboolean           write);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuStorage, _gpu_storage_unref)

G_END_DECLS
