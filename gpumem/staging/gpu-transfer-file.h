/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* An open file, to or from which streams copy. Any thread may use it. */
#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

typedef struct _GpuTransferFile GpuTransferFile;

/* The alignment that unbuffered access needs, of addresses, positions and sizes, in bytes. */
#define GPU_TRANSFER_FILE_ALIGNMENT 4096

/* Takes ownership of both descriptors. @direct_fd bypasses the page cache and is used for aligned
 * parts; -1 if there is none. @name is for errors. */
GpuTransferFile *_gpu_transfer_file_new   (int                fd,
                                           int                direct_fd,
                                           const char        *name);
GpuTransferFile *_gpu_transfer_file_ref   (GpuTransferFile   *file);
void             _gpu_transfer_file_unref (GpuTransferFile   *file);
int              _gpu_transfer_file_get_fd (GpuTransferFile  *file);
const char      *_gpu_transfer_file_get_name (GpuTransferFile *file);
/* Returns whether several threads copy faster than one. Linux locks a file for each pwrite() into
 * the page cache, so other threads that write would only use the processor while they wait. */
gboolean         _gpu_transfer_file_is_parallel (GpuTransferFile *file,
                                           gboolean           read);

/* A mapping of a range of a file in memory. Several threads may write to it at the same time. */
typedef struct
{
  guint8  *data;                    /* NULL if the range is not mapped */
  guint64  position;                /* of `data` in the file */
  gsize    size;                    /* bytes */
} GpuTransferMap;

/* Maps a range for writing. Returns FALSE if pwrite() is faster or must be used. */
gboolean         _gpu_transfer_file_map  (GpuTransferFile   *file,
                                           guint64            position,
                                           gsize              size,
                                           GpuTransferMap    *map);
void             _gpu_transfer_map_clear (GpuTransferMap    *map);
/* Returns whether copies between @position and @data bypass the page cache as far as they can:
 * TRUE for a file that always uses the page cache. */
gboolean         _gpu_transfer_file_suits (GpuTransferFile   *file,
                                           guint64            position,
                                           gconstpointer      data);
/* Reads or writes exactly @size bytes at @position. @map is NULL, or a map of a range that contains
 * the bytes, through which the function then writes. @end is the end of the whole copy in the file,
 * for the error of a file that is too short. On failure, sets @failed_at to the position of the
 * first byte that was not copied. Blocks. The errors are in the domain G_IO_ERROR. */
gboolean         _gpu_transfer_file_copy  (GpuTransferFile   *file,
                                           const GpuTransferMap *map,
                                           gboolean           read,
                                           guint64            position,
                                           guint8            *data,
                                           gsize              size,
                                           guint64            end,
                                           guint64           *failed_at,
                                           GError           **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuTransferFile, _gpu_transfer_file_unref)

G_END_DECLS
