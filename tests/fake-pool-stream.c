/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The least that does what gpu-pool-stream.h says. */
#include "config.h"

#include "gpumem/pool/gpu-pool-stream.h"

struct _GpuPoolStream
{
  GpuPoolStreams *streams;
  gpointer        key;
  guint64         stamp;            /* atomic */
  GMutex          lock;
  guint64         marked_stamp, marked_seq;
};

struct _GpuPoolStreams
{
  const GpuPoolStreamOps *ops;
  GMutex                  lock;
  GHashTable             *all;
};

static void
stream_free (gpointer data)
{
  GpuPoolStream *stream = data;

  if (stream->key != NULL)
    stream->streams->ops->unref (stream->key);
  g_mutex_clear (&stream->lock);
  g_free (stream);
}

GpuPoolStreams *
_gpu_pool_streams_new (const GpuPoolStreamOps *ops)
{
  GpuPoolStreams *streams = g_new0 (GpuPoolStreams, 1);

  streams->ops = ops;
  g_mutex_init (&streams->lock);
  streams->all = g_hash_table_new_full (NULL, NULL, NULL, stream_free);
  return streams;
}

void
_gpu_pool_streams_free (GpuPoolStreams *streams)
{
  g_hash_table_unref (streams->all);
  g_mutex_clear (&streams->lock);
  g_free (streams);
}

GpuPoolStream *
_gpu_pool_streams_get (GpuPoolStreams *streams,
                       gpointer        key)
{
  GpuPoolStream *stream;

  g_mutex_lock (&streams->lock);
  stream = g_hash_table_lookup (streams->all, key);
  if (stream == NULL)
    {
      stream = g_new0 (GpuPoolStream, 1);
      stream->streams = streams;
      stream->key = key != NULL ? streams->ops->ref (key) : NULL;
      g_mutex_init (&stream->lock);
      g_hash_table_insert (streams->all, key, stream);
    }
  g_mutex_unlock (&streams->lock);
  return stream;
}

guint64
_gpu_pool_stream_stamp (GpuPoolStream *stream)
{
  return __atomic_add_fetch (&stream->stamp, 1, __ATOMIC_SEQ_CST);
}

gboolean
_gpu_pool_use_is_over (const GpuPoolUse *use)
{
  GpuPoolStream *stream = use->stream;
  guint64 stamp, seq;

  if (stream == NULL || stream->key == NULL)
    return TRUE;
  g_mutex_lock (&stream->lock);
  stamp = stream->marked_stamp;
  seq = stream->marked_seq;
  g_mutex_unlock (&stream->lock);
  return use->stamp <= stamp && stream->streams->ops->is_reached (stream->key, seq);
}

gboolean
_gpu_pool_use_follow (const GpuPoolUse  *use,
                      GpuPoolStream     *stream,
                      gboolean          *waited,
                      GError           **error)
{
  GpuPoolStream *source = use->stream;
  guint64 stamp, seq;

  if (source == stream || _gpu_pool_use_is_over (use))
    return TRUE;
  stamp = __atomic_load_n (&source->stamp, __ATOMIC_SEQ_CST);
  if (!source->streams->ops->mark (source->key, &seq, error))
    return FALSE;
  g_mutex_lock (&source->lock);
  source->marked_stamp = MAX (source->marked_stamp, stamp);
  source->marked_seq = MAX (source->marked_seq, seq);
  g_mutex_unlock (&source->lock);
  if (source->streams->ops->is_reached (source->key, seq))
    return TRUE;
  *waited = TRUE;
  if (stream->key != NULL)
    return source->streams->ops->order_after (stream->key, source->key, seq, error);
  source->streams->ops->wait (source->key, seq);
  return TRUE;
}
