/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/gpu-storage-private.h"

G_BEGIN_DECLS

struct _GpuMemory
{
  GObject         parent_instance;

  GpuContext     *context;
  GpuStorage     *storage;          /* NULL if never initialised; kept until finalize */
  GpuMemoryFlags  flags;
  gsize           size;             /* bytes */
  guint64         handle;           /* of the driver, kept for comparisons after a release */
  guint64         address;          /* on the device, 0 if unknown */
  GBytes         *host_bytes;       /* what the memory was made over, nullable */
  gint            released;         /* atomic */
};

/* Gives @storage and its first user to @memory. */
void     _gpu_memory_set_storage (GpuMemory       *memory,
                                  GpuStorage      *storage);
/* FALSE if @memory was never initialised or was released. */
gboolean _gpu_memory_check       (GpuMemory       *memory,
                                  const char      *function,
                                  GError         **error);
/* The storage with a user more, for the caller to take back with _gpu_storage_unuse(). */
GpuStorage *
         _gpu_memory_acquire     (GpuMemory       *memory,
                                  const char      *function,
                                  GError         **error);
/* FALSE if offset + size reaches past the end; @what is named: "destination". */
gboolean _gpu_memory_check_range (GpuMemory       *memory,
                                  const char      *function,
                                  const char      *what,
                                  gsize            offset,
                                  gsize            size,
                                  GError         **error);
/* FALSE if the flags forbid the host to read, or to write if @write. */
gboolean _gpu_memory_check_host  (GpuMemory       *memory,
                                  const char      *function,
                                  gboolean         write,
                                  GError         **error);

G_END_DECLS
