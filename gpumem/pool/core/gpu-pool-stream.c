/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/base/gpu-error.h"
#include "gpumem/pool/core/gpu-pool-stream.h"

GpuPoolStreams *
_gpu_pool_streams_new (const GpuPoolStreamOps *ops)
{
  GpuPoolStreams *streams = g_new0 (GpuPoolStreams, 1);

  streams->ops = *ops;
  _gpu_pool_lock_init (&streams->lock);
  streams->by_key = g_hash_table_new (NULL, NULL);
  streams->by_slot = g_ptr_array_new ();

  return streams;
}

void
_gpu_pool_streams_free (GpuPoolStreams *streams)
{
  for (guint i = 0; i < streams->by_slot->len; i++)
    {
      GpuPoolStream *stream = g_ptr_array_index (streams->by_slot, i);

      if (stream->key != NULL)
        streams->ops.unref (stream->key);

      g_array_unref (stream->followed);
      g_free (stream);
    }

  g_ptr_array_unref (streams->by_slot);
  g_hash_table_unref (streams->by_key);
  _gpu_pool_lock_clear (&streams->lock);
  g_free (streams);
}

/* Reuses a swept stream for @key if there is one, or else creates a stream. A reused stream
 * continues its use sequence. Otherwise a stale use of the old key could be mistaken for a pending
 * use of the new key. */
static GpuPoolStream *
make_stream_locked (GpuPoolStreams *streams,
                    gpointer        key)
{
  GpuPoolStream *stream = NULL;

  if (g_hash_table_size (streams->by_key) < streams->by_slot->len)
    for (guint i = 0; i < streams->by_slot->len && stream == NULL; i++)
      {
        GpuPoolStream *swept = g_ptr_array_index (streams->by_slot, i);

        if (swept->key == NULL && swept->n_pins == 0)
          stream = swept;
      }

  if (stream == NULL)
    {
      stream = g_new0 (GpuPoolStream, 1);
      stream->streams = streams;
      stream->followed = g_array_new (FALSE, TRUE, sizeof (guint64));
      stream->use_seq = 1;
      g_ptr_array_add (streams->by_slot, stream);
      stream->slot = streams->by_slot->len;
    }

  stream->key = key;
  __atomic_store_n (&stream->reached, stream->use_seq - 1, __ATOMIC_RELEASE);
  g_hash_table_insert (streams->by_key, key, stream);

  return stream;
}

static GpuPoolStream *
get_stream (GpuPoolStreams *streams,
            gpointer        key,
            gboolean        pin)
{
  GpuPoolStream *stream;
  gboolean made = FALSE;

  if (key == NULL)
    return NULL;

  _gpu_pool_lock (&streams->lock);
  stream = g_hash_table_lookup (streams->by_key, key);
  if (stream == NULL)
    {
      _gpu_pool_unlock (&streams->lock);
      streams->ops.ref (key);

      _gpu_pool_lock (&streams->lock);
      stream = g_hash_table_lookup (streams->by_key, key);
      made = stream == NULL;
      if (made)
        stream = make_stream_locked (streams, key);

      if (pin)
        stream->n_pins++;
      _gpu_pool_unlock (&streams->lock);

      if (!made)
        streams->ops.unref (key);

      return stream;
    }

  if (pin)
    stream->n_pins++;
  _gpu_pool_unlock (&streams->lock);

  return stream;
}

GpuPoolStream *
_gpu_pool_streams_get (GpuPoolStreams *streams,
                       gpointer        key)
{
  return get_stream (streams, key, FALSE);
}

GpuPoolStream *
_gpu_pool_streams_get_at (GpuPoolStreams *streams,
                          guint           slot)
{
  GpuPoolStream *stream;

  _gpu_pool_lock (&streams->lock);
  stream = g_ptr_array_index (streams->by_slot, slot - 1);
  _gpu_pool_unlock (&streams->lock);

  return stream;
}

GpuPoolStream *
_gpu_pool_streams_get_pinned (GpuPoolStreams *streams,
                              gpointer        key)
{
  return get_stream (streams, key, TRUE);
}

/* Pins @stream: a pinned stream is not swept, so its key remains valid. Returns FALSE if @stream
 * was already swept. In that case all its uses have completed. */
static gboolean
pin (GpuPoolStream *stream)
{
  GpuPoolStreams *streams = stream->streams;
  gboolean alive;

  _gpu_pool_lock (&streams->lock);
  alive = stream->key != NULL;
  if (alive)
    stream->n_pins++;
  _gpu_pool_unlock (&streams->lock);

  return alive;
}

void
_gpu_pool_stream_unpin (GpuPoolStream *stream)
{
  _gpu_pool_lock (&stream->streams->lock);
  stream->n_pins--;
  _gpu_pool_unlock (&stream->streams->lock);
}

gpointer
_gpu_pool_stream_get_key (GpuPoolStream *stream)
{
  gpointer key;

  _gpu_pool_lock (&stream->streams->lock);
  key = stream->key;
  _gpu_pool_unlock (&stream->streams->lock);

  return key;
}

gboolean
_gpu_pool_stream_is_free (GpuPoolStream *stream)
{
  GpuPoolStreams *streams = stream->streams;
  gboolean is_free;

  _gpu_pool_lock (&streams->lock);
  is_free = stream->key == NULL || streams->ops.is_free == NULL
            || streams->ops.is_free (stream->key);
  _gpu_pool_unlock (&streams->lock);

  return is_free;
}

gboolean
_gpu_pool_stream_is_capturing (GpuPoolStream *stream)
{
  gboolean is_capturing;

  if (stream == NULL || stream->streams->ops.is_capturing == NULL)
    return FALSE;

  _gpu_pool_lock (&stream->streams->lock);
  is_capturing = stream->key != NULL && stream->streams->ops.is_capturing (stream->key);
  _gpu_pool_unlock (&stream->streams->lock);

  return is_capturing;
}

guint
_gpu_pool_stream_get_slot (GpuPoolStream *stream)
{
  return stream != NULL ? stream->slot : 0;
}

guint64
_gpu_pool_stream_get_use_seq (GpuPoolStream *stream)
{
  return stream != NULL ? gpu_pool_stream_load_use_seq (stream) : 0;
}

/* --- fences -------------------------------------------------------------------- */

static void
forget_fences_locked (GpuPoolStream *stream,
                      guint          n)
{
  stream->n_fences -= n;
  memmove (stream->fences, stream->fences + n, stream->n_fences * sizeof (GpuPoolFence));
  __atomic_sub_fetch (&stream->streams->n_fences, n, __ATOMIC_RELAXED);
}

static void
set_reached (GpuPoolStream *stream,
             guint64        use_seq)
{
  guint n = 0;

  _gpu_pool_lock (&stream->streams->lock);

  if (use_seq > stream->reached)
    __atomic_store_n (&stream->reached, use_seq, __ATOMIC_RELEASE);

  while (n < stream->n_fences && stream->fences[n].use_seq <= use_seq)
    n++;
  forget_fences_locked (stream, n);

  _gpu_pool_unlock (&stream->streams->lock);
}

/* Finds the oldest fence that covers @use_seq. */
static gboolean
find_fence (GpuPoolStream *stream,
            guint64        use_seq,
            GpuPoolFence  *fence)
{
  gboolean found = FALSE;

  _gpu_pool_lock (&stream->streams->lock);
  for (guint i = 0; i < stream->n_fences && !found; i++)
    if (stream->fences[i].use_seq >= use_seq)
      {
        *fence = stream->fences[i];
        found = TRUE;
      }
  _gpu_pool_unlock (&stream->streams->lock);

  return found;
}

static void
add_fence_locked (GpuPoolStream      *stream,
                  const GpuPoolFence *fence)
{
  guint at;

  /* If the array is full, replace the second newest fence by the newest one, which also covers the
   * uses of the second newest. */
  if (stream->n_fences == GPU_POOL_MAX_FENCES)
    {
      stream->fences[stream->n_fences - 2] = stream->fences[stream->n_fences - 1];
      stream->n_fences--;
      __atomic_sub_fetch (&stream->streams->n_fences, 1, __ATOMIC_RELAXED);
    }

  at = stream->n_fences;
  while (at > 0 && stream->fences[at - 1].use_seq > fence->use_seq)
    {
      stream->fences[at] = stream->fences[at - 1];
      at--;
    }

  stream->fences[at] = *fence;
  stream->n_fences++;
  __atomic_add_fetch (&stream->streams->n_fences, 1, __ATOMIC_RELAXED);
}

static gboolean
make_fence (GpuPoolStream  *stream,
            GpuPoolFence   *fence,
            GError        **error)
{
  fence->use_seq = __atomic_fetch_add (&stream->use_seq, 1, __ATOMIC_ACQ_REL);
  if (!stream->streams->ops.add_fence (stream->key, &fence->seq, error))
    return FALSE;

  _gpu_pool_lock (&stream->streams->lock);
  add_fence_locked (stream, fence);
  _gpu_pool_unlock (&stream->streams->lock);

  return TRUE;
}

/* Finds or creates a fence that covers @use_seq. @stream is pinned. */
static gboolean
ensure_fence (GpuPoolStream  *stream,
              guint64         use_seq,
              GpuPoolFence   *fence,
              GError        **error)
{
  return find_fence (stream, use_seq, fence) || make_fence (stream, fence, error);
}

static gboolean
poll_fence (GpuPoolStream *stream,
            guint64        use_seq)
{
  GpuPoolFence fence;

  if (!find_fence (stream, use_seq, &fence)
      || !stream->streams->ops.is_reached (stream->key, fence.seq))
    return FALSE;

  set_reached (stream, fence.use_seq);

  return TRUE;
}

gboolean
_gpu_pool_use_is_completed (const GpuPoolUse *use)
{
  gboolean completed;

  if (use->stream == NULL || gpu_pool_stream_has_reached (use->stream, use->use_seq))
    return TRUE;

  if (!pin (use->stream))
    return TRUE;

  completed = poll_fence (use->stream, use->use_seq);
  _gpu_pool_stream_unpin (use->stream);

  return completed;
}

gboolean
_gpu_pool_use_add_fence (const GpuPoolUse  *use,
                         GError           **error)
{
  GpuPoolFence fence;
  gboolean fenced;

  if (_gpu_pool_use_is_completed (use) || !pin (use->stream))
    return TRUE;

  fenced = ensure_fence (use->stream, use->use_seq, &fence, error);
  _gpu_pool_stream_unpin (use->stream);

  return fenced;
}

/* --- ordering ------------------------------------------------------------------- */

gboolean
_gpu_pool_use_is_followed (const GpuPoolUse *use,
                           GpuPoolStream    *stream)
{
  guint slot = use->stream->slot;
  gboolean is_followed;

  if (use->stream == stream)
    return TRUE;

  _gpu_pool_lock (&stream->streams->lock);
  is_followed = slot < stream->followed->len
                && g_array_index (stream->followed, guint64, slot) >= use->use_seq;
  _gpu_pool_unlock (&stream->streams->lock);

  return is_followed;
}

static void
set_followed (GpuPoolStream *stream,
              GpuPoolStream *after,
              guint64        use_seq)
{
  guint64 *followed;

  _gpu_pool_lock (&stream->streams->lock);
  if (stream->followed->len <= after->slot)
    g_array_set_size (stream->followed, after->slot + 1);

  followed = &g_array_index (stream->followed, guint64, after->slot);
  *followed = MAX (*followed, use_seq);
  _gpu_pool_unlock (&stream->streams->lock);
}

static gboolean
follow (GpuPoolStream  *after,
        guint64         use_seq,
        GpuPoolStream  *stream,
        GError        **error)
{
  const GpuPoolStreamOps *ops = &after->streams->ops;
  GpuPoolFence fence;

  if (!ensure_fence (after, use_seq, &fence, error))
    return FALSE;

  if (stream == NULL)
    {
      if (!ops->wait (after->key, fence.seq))
        return FALSE;
      set_reached (after, fence.use_seq);
    }
  else
    {
      if (!ops->order_after (stream->key, after->key, fence.seq, error))
        return FALSE;
      set_followed (stream, after, fence.use_seq);
    }

  return TRUE;
}

gboolean
_gpu_pool_use_follow (const GpuPoolUse  *use,
                      GpuPoolStream     *stream,
                      gboolean          *waited,
                      GError           **error)
{
  GError *failure = NULL;
  gboolean followed;

  *waited = FALSE;

  if (use->stream == NULL || use->stream == stream
      || (stream != NULL && _gpu_pool_use_is_followed (use, stream))
      || _gpu_pool_use_is_completed (use) || !pin (use->stream))
    return TRUE;

  followed = follow (use->stream, use->use_seq, stream, &failure);
  _gpu_pool_stream_unpin (use->stream);
  *waited = followed;

  /* is_capturing() finds only the captures that the pool knows, not those that the program began
   * with functions of the driver. */
  if (g_error_matches (failure, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED))
    g_clear_error (&failure);

  if (failure != NULL)
    g_propagate_error (error, failure);

  return followed;
}

/* --- all streams ------------------------------------------------------------------- */

/* Pins all streams; with @only_fenced, only streams with pending fences. */
static GPtrArray *
pin_streams (GpuPoolStreams *streams,
             gboolean        only_fenced)
{
  GPtrArray *pinned = g_ptr_array_new_with_free_func ((GDestroyNotify) _gpu_pool_stream_unpin);

  _gpu_pool_lock (&streams->lock);
  for (guint i = 0; i < streams->by_slot->len; i++)
    {
      GpuPoolStream *stream = g_ptr_array_index (streams->by_slot, i);

      if (stream->key != NULL && (!only_fenced || stream->n_fences > 0))
        {
          stream->n_pins++;
          g_ptr_array_add (pinned, stream);
        }
    }
  _gpu_pool_unlock (&streams->lock);

  return pinned;
}

gboolean
_gpu_pool_streams_poll (GpuPoolStreams *streams)
{
  g_autoptr (GPtrArray) pinned = NULL;
  gboolean reached = FALSE;

  if (__atomic_load_n (&streams->n_fences, __ATOMIC_RELAXED) == 0)
    return FALSE;

  pinned = pin_streams (streams, TRUE);
  for (guint i = 0; i < pinned->len; i++)
    {
      GpuPoolStream *stream = g_ptr_array_index (pinned, i);

      while (poll_fence (stream, 0))
        reached = TRUE;
    }

  return reached;
}

static void
forget_locked (GpuPoolStreams  *streams,
               const GPtrArray *swept)
{
  for (guint i = 0; i < swept->len; i++)
    {
      GpuPoolStream *stream = g_ptr_array_index (swept, i);

      g_array_set_size (stream->followed, 0);
      g_hash_table_remove (streams->by_key, stream->key);
      stream->key = NULL;
    }

  for (guint i = 0; i < streams->by_slot->len; i++)
    {
      GArray *followed = ((GpuPoolStream *) g_ptr_array_index (streams->by_slot, i))->followed;

      for (guint k = 0; k < swept->len && followed->len > 0; k++)
        {
          guint slot = ((GpuPoolStream *) g_ptr_array_index (swept, k))->slot;

          if (slot < followed->len)
            g_array_index (followed, guint64, slot) = 0;
        }
    }
}

gboolean
_gpu_pool_streams_want_sweep (GpuPoolStreams *streams)
{
  gboolean wanted;
  guint n;

  _gpu_pool_lock (&streams->lock);
  n = g_hash_table_size (streams->by_key);
  wanted = n >= 2 * streams->n_swept + 4 || (n >= GPU_POOL_MAX_STREAMS && n > streams->n_swept);
  _gpu_pool_unlock (&streams->lock);

  return wanted;
}

void
_gpu_pool_streams_sweep (GpuPoolStreams *streams)
{
  g_autoptr (GPtrArray) pinned = pin_streams (streams, FALSE);
  g_autoptr (GPtrArray) swept = g_ptr_array_new ();
  g_autoptr (GPtrArray) keys = g_ptr_array_new ();

  for (guint i = pinned->len; i > 0; i--)
    {
      GpuPoolStream *stream = g_ptr_array_index (pinned, i - 1);

      if (streams->ops.is_gone (stream->key))
        set_reached (stream, G_MAXUINT64);
      else
        g_ptr_array_remove_index_fast (pinned, i - 1);
    }

  _gpu_pool_lock (&streams->lock);
  for (guint i = 0; i < pinned->len; i++)
    {
      GpuPoolStream *stream = g_ptr_array_index (pinned, i);

      /* pin_streams() holds one pin. A second pin means that the stream is in use. */
      if (stream->n_pins > 1)
        continue;
      g_ptr_array_add (keys, stream->key);
      g_ptr_array_add (swept, stream);
    }
  forget_locked (streams, swept);
  streams->n_swept = g_hash_table_size (streams->by_key);
  _gpu_pool_unlock (&streams->lock);

  for (guint i = 0; i < keys->len; i++)
    streams->ops.unref (g_ptr_array_index (keys, i));
}

gpointer
_gpu_pool_stream_ref_key (GpuPoolStream *stream)
{
  gpointer key = NULL;

  if (pin (stream))
    {
      key = stream->streams->ops.ref (stream->key);
      _gpu_pool_stream_unpin (stream);
    }

  return key;
}

GPtrArray *
_gpu_pool_streams_ref_keys (GPtrArray *streams)
{
  GPtrArray *keys = g_ptr_array_new ();

  for (guint i = 0; i < streams->len; i++)
    {
      gpointer key = _gpu_pool_stream_ref_key (g_ptr_array_index (streams, i));

      if (key != NULL)
        g_ptr_array_add (keys, key);
    }

  return keys;
}
