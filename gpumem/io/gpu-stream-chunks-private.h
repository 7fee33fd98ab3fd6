/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The common part of GpuInputStream and GpuOutputStream: a range of memory, and chunks of it in
 * page-locked memory of the host. */
#pragma once

#include "gpumem/base/gpu-workers-private.h"
#include "gpumem/memory/gpu-memory-private.h"
#include "gpumem/stream/gpu-submission-private.h"

G_BEGIN_DECLS

#define GPU_STREAM_CHUNKS 4

typedef struct
{
  GpuMemory     *memory;            /* NULL in an object that no constructor of its class made */
  GpuTimeline   *timeline;
  GpuHostMemory *host;              /* the places of the chunks */
  gsize          offset;            /* of the range in the memory, in bytes */
  gsize          size;              /* of the range */
  gsize          chunk_size;
  gsize          position;          /* within the range */
  GpuWatch       pending[GPU_STREAM_CHUNKS]; /* the last copy of each place, if it is pending */
} GpuStreamChunks;

/* The bytes of the program that an asynchronous call reads or writes */
typedef struct
{
  gpointer data;
  gsize    size;
} GpuStreamBytes;

/* Checks the arguments of a stream or a splice, except @timeline == NULL. */
gboolean _gpu_stream_chunks_check_range (GpuMemory   *memory,
                                         GpuTimeline *timeline,
                                         gsize        offset,
                                         gsize        size,
                                         gboolean     write,
                                         const char  *function,
                                         GError     **error);
gboolean _gpu_stream_chunks_init     (GpuStreamChunks  *chunks,
                                      GpuMemory        *memory,
                                      GpuStream        *stream,
                                      gsize             offset,
                                      gsize             size,
                                      gboolean          write,
                                      const char       *function,
                                      GError          **error);
/* Like _gpu_stream_chunks_init(), for arguments that are valid. */
gboolean _gpu_stream_chunks_open     (GpuStreamChunks  *chunks,
                                      GpuMemory        *memory,
                                      GpuTimeline      *timeline,
                                      gsize             offset,
                                      gsize             size,
                                      GError          **error);
void     _gpu_stream_chunks_clear    (GpuStreamChunks  *chunks);
/* Returns FALSE with an error if @chunks are not initialized, or @cancellable is cancelled. */
gboolean _gpu_stream_chunks_check    (GpuStreamChunks  *chunks,
                                      GCancellable     *cancellable,
                                      const char       *function,
                                      GError          **error);
guint8  *_gpu_stream_chunks_get_data (GpuStreamChunks  *chunks,
                                      guint             place);
/* Submits a copy between the range, at @begin, and @place. */
gboolean _gpu_stream_chunks_copy     (GpuStreamChunks  *chunks,
                                      guint             place,
                                      gsize             begin,
                                      gsize             size,
                                      gboolean          write,
                                      const char       *function,
                                      GError          **error);
/* Waits until the last copy of @place has completed, and reports its failure once. */
gboolean _gpu_stream_chunks_wait     (GpuStreamChunks  *chunks,
                                      guint             place,
                                      GCancellable     *cancellable,
                                      const char       *function,
                                      GError          **error);
/* Computes the new position for g_seekable_seek(). */
gboolean _gpu_stream_chunks_seek     (GpuStreamChunks  *chunks,
                                      goffset           offset,
                                      GSeekType         type,
                                      gsize            *position,
                                      GError          **error);
/* Creates a task for an asynchronous function of a stream of GIO. */
GTask   *_gpu_stream_chunks_new_task (gpointer             stream,
                                      gpointer             tag,
                                      gconstpointer        data,
                                      gsize                size,
                                      int                  priority,
                                      GCancellable        *cancellable,
                                      GAsyncReadyCallback  callback,
                                      gpointer             user_data);
/* Calls @func at once if it neither waits nor submits a copy, otherwise in a thread of the library:
 * also a submission may wait for the device. Both may last longer than the few threads of GIO can
 * be occupied without a delay of all other asynchronous calls of the process. The task data of
 * @task are its GpuStreamBytes. */
void     _gpu_stream_chunks_run_task (GTask               *task,
                                      gboolean             at_once,
                                      gboolean             is_boolean,
                                      GpuTaskFunc          func);
/* Sets the functions that do not depend on the class. */
void     _gpu_stream_chunks_init_seekable (GSeekableIface *iface);

G_END_DECLS
