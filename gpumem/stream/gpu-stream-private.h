/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/base/gpu-type-check-private.h"
#include "gpumem/stream/gpu-submission-private.h"

G_BEGIN_DECLS

struct _GpuStream
{
  GObject         parent_instance;

  GpuTimeline    *timeline;         /* NULL until initialised */
  GpuContext     *context;
  GpuDevice      *device;
  GpuStreamFlags  flags;
  int             priority;
  gboolean        is_foreign;       /* created by gpu_stream_new_wrapped() for `handle` with
                                     * `mode` */
  guint64         handle;
  GpuWrapMode     mode;
};

/* Sets the error for a stream that was never initialised. Returns NULL. */
GPU_COLD GpuTimeline *
             _gpu_stream_fail             (const char   *function,
                                           GError      **error);

/* (transfer none): gets the timeline of @stream. Returns NULL with an error if @stream was never
 * initialised. */
static inline GpuTimeline *
_gpu_stream_get_timeline (GpuStream   *stream,
                          const char  *function,
                          GError     **error)
{
  return G_LIKELY (stream->timeline != NULL) ? stream->timeline
                                             : _gpu_stream_fail (function, error);
}

GpuStream   *_gpu_stream_new_for_timeline (GpuContext   *context,
                                           GpuTimeline  *timeline);

/* (transfer full): gets the timeline of @stream, or of the default stream of @context if @stream is
 * NULL. Returns NULL on error. */
GpuTimeline      *_gpu_context_get_timeline         (GpuContext        *context,
                                                     GpuStream         *stream,
                                                     const char        *function,
                                                     GError           **error);
/* (transfer none): like _gpu_context_get_timeline(). The timeline is valid as long as @stream
 * exists or, if @stream is NULL, as long as @context exists. */
GpuTimeline      *_gpu_context_peek_timeline        (GpuContext        *context,
                                                     GpuStream         *stream,
                                                     const char        *function,
                                                     GError           **error);

/* The class of GpuStream, for a fast check of the type. Set by class_init. */
extern gpointer _gpu_stream_class;

static inline gboolean
_gpu_is_stream (gpointer object)
{
  return _gpu_has_class (object, _gpu_stream_class) || _gpu_is_a (object, gpu_stream_get_type);
}

/* Faster than the public check. Messages about failed preconditions quote this name. */
#define GPU_IS_STREAM(object) (_gpu_is_stream (object))

G_END_DECLS
