/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

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

/* A stream that was swept lives again under another key: its stamps go on, so that nothing which
 * still names the old one is taken for a use of the new one that is not over. */
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
      if (streams->by_slot->len == GPU_POOL_MAX_STREAMS)
        g_error ("gpumem: a pool is used by more than %d streams", GPU_POOL_MAX_STREAMS);

      stream = g_new0 (GpuPoolStream, 1);
      stream->streams = streams;
      stream->followed = g_array_new (FALSE, TRUE, sizeof (guint64));
      stream->stamp = 1;
      g_ptr_array_add (streams->by_slot, stream);
      stream->slot = streams->by_slot->len;
    }

  stream->key = key;
  __atomic_store_n (&stream->reached, stream->stamp - 1, __ATOMIC_RELEASE);
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
_gpu_pool_streams_get_pinned (GpuPoolStreams *streams,
                              gpointer        key)
{
  return get_stream (streams, key, TRUE);
}

/* FALSE if it was swept, so that all of it is over. */
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

guint
_gpu_pool_stream_get_slot (GpuPoolStream *stream)
{
  return stream != NULL ? stream->slot : 0;
}

guint64
_gpu_pool_stream_stamp (GpuPoolStream *stream)
{
  return stream != NULL ? gpu_pool_stream_load_stamp (stream) : 0;
}

/* --- marks -------------------------------------------------------------------- */

static void
forget_marks_locked (GpuPoolStream *stream,
                     guint          n)
{
  stream->n_marks -= n;
  memmove (stream->marks, stream->marks + n, stream->n_marks * sizeof (GpuPoolMark));
  __atomic_sub_fetch (&stream->streams->n_marks, n, __ATOMIC_RELAXED);
}

static void
set_reached (GpuPoolStream *stream,
             guint64        stamp)
{
  guint n = 0;

  _gpu_pool_lock (&stream->streams->lock);

  if (stamp > stream->reached)
    __atomic_store_n (&stream->reached, stamp, __ATOMIC_RELEASE);

  while (n < stream->n_marks && stream->marks[n].stamp <= stamp)
    n++;
  forget_marks_locked (stream, n);

  _gpu_pool_unlock (&stream->streams->lock);
}

/* The first mark that covers @stamp. */
static gboolean
find_mark (GpuPoolStream *stream,
           guint64        stamp,
           GpuPoolMark   *mark)
{
  gboolean found = FALSE;

  _gpu_pool_lock (&stream->streams->lock);
  for (guint i = 0; i < stream->n_marks && !found; i++)
    if (stream->marks[i].stamp >= stamp)
      {
        *mark = stream->marks[i];
        found = TRUE;
      }
  _gpu_pool_unlock (&stream->streams->lock);

  return found;
}

static void
add_mark_locked (GpuPoolStream     *stream,
                 const GpuPoolMark *mark)
{
  guint at;

  /* The second newest goes: what it covers the newest covers too. */
  if (stream->n_marks == GPU_POOL_MAX_MARKS)
    {
      stream->marks[stream->n_marks - 2] = stream->marks[stream->n_marks - 1];
      stream->n_marks--;
      __atomic_sub_fetch (&stream->streams->n_marks, 1, __ATOMIC_RELAXED);
    }

  at = stream->n_marks;
  while (at > 0 && stream->marks[at - 1].stamp > mark->stamp)
    {
      stream->marks[at] = stream->marks[at - 1];
      at--;
    }

  stream->marks[at] = *mark;
  stream->n_marks++;
  __atomic_add_fetch (&stream->streams->n_marks, 1, __ATOMIC_RELAXED);
}

static gboolean
make_mark (GpuPoolStream  *stream,
           GpuPoolMark    *mark,
           GError        **error)
{
  mark->stamp = __atomic_fetch_add (&stream->stamp, 1, __ATOMIC_ACQ_REL);
  if (!stream->streams->ops.mark (stream->key, &mark->seq, error))
    return FALSE;

  _gpu_pool_lock (&stream->streams->lock);
  add_mark_locked (stream, mark);
  _gpu_pool_unlock (&stream->streams->lock);

  return TRUE;
}

/* @stream is pinned. */
static gboolean
ensure_mark (GpuPoolStream  *stream,
             guint64         stamp,
             GpuPoolMark    *mark,
             GError        **error)
{
  return find_mark (stream, stamp, mark) || make_mark (stream, mark, error);
}

static gboolean
ask (GpuPoolStream *stream,
     guint64        stamp)
{
  GpuPoolMark mark;

  if (!find_mark (stream, stamp, &mark)
      || !stream->streams->ops.is_reached (stream->key, mark.seq))
    return FALSE;

  set_reached (stream, mark.stamp);

  return TRUE;
}

gboolean
_gpu_pool_use_is_over (const GpuPoolUse *use)
{
  gboolean over;

  if (use->stream == NULL || gpu_pool_stream_has_reached (use->stream, use->stamp))
    return TRUE;

  if (!pin (use->stream))
    return TRUE;

  over = ask (use->stream, use->stamp);
  _gpu_pool_stream_unpin (use->stream);

  return over;
}

gboolean
_gpu_pool_use_mark (const GpuPoolUse  *use,
                    GError           **error)
{
  GpuPoolMark mark;
  gboolean marked;

  if (_gpu_pool_use_is_over (use) || !pin (use->stream))
    return TRUE;

  marked = ensure_mark (use->stream, use->stamp, &mark, error);
  _gpu_pool_stream_unpin (use->stream);

  return marked;
}

/* --- following ------------------------------------------------------------------ */

static gboolean
has_followed (GpuPoolStream *stream,
              GpuPoolStream *after,
              guint64        stamp)
{
  gboolean followed;

  _gpu_pool_lock (&stream->streams->lock);
  followed = after->slot < stream->followed->len
             && g_array_index (stream->followed, guint64, after->slot) >= stamp;
  _gpu_pool_unlock (&stream->streams->lock);

  return followed;
}

static void
set_followed (GpuPoolStream *stream,
              GpuPoolStream *after,
              guint64        stamp)
{
  guint64 *followed;

  _gpu_pool_lock (&stream->streams->lock);
  if (stream->followed->len <= after->slot)
    g_array_set_size (stream->followed, after->slot + 1);

  followed = &g_array_index (stream->followed, guint64, after->slot);
  *followed = MAX (*followed, stamp);
  _gpu_pool_unlock (&stream->streams->lock);
}

static gboolean
follow (GpuPoolStream  *after,
        guint64         stamp,
        GpuPoolStream  *stream,
        GError        **error)
{
  const GpuPoolStreamOps *ops = &after->streams->ops;
  GpuPoolMark mark;

  if (!ensure_mark (after, stamp, &mark, error))
    return FALSE;

  if (stream == NULL)
    {
      ops->wait (after->key, mark.seq);
      set_reached (after, mark.stamp);
    }
  else
    {
      if (!ops->order_after (stream->key, after->key, mark.seq, error))
        return FALSE;
      set_followed (stream, after, mark.stamp);
    }

  return TRUE;
}

gboolean
_gpu_pool_use_follow (const GpuPoolUse  *use,
                      GpuPoolStream     *stream,
                      gboolean          *waited,
                      GError           **error)
{
  gboolean followed;

  *waited = FALSE;

  if (use->stream == NULL || use->stream == stream
      || (stream != NULL && has_followed (stream, use->stream, use->stamp))
      || _gpu_pool_use_is_over (use) || !pin (use->stream))
    return TRUE;

  followed = follow (use->stream, use->stamp, stream, error);
  _gpu_pool_stream_unpin (use->stream);
  *waited = followed;

  return followed;
}

/* --- all of them ------------------------------------------------------------------ */

/* The streams that @filter is for, pinned. */
static GPtrArray *
pin_streams (GpuPoolStreams *streams,
             gboolean        only_marked)
{
  GPtrArray *pinned = g_ptr_array_new_with_free_func ((GDestroyNotify) _gpu_pool_stream_unpin);

  _gpu_pool_lock (&streams->lock);
  for (guint i = 0; i < streams->by_slot->len; i++)
    {
      GpuPoolStream *stream = g_ptr_array_index (streams->by_slot, i);

      if (stream->key != NULL && (!only_marked || stream->n_marks > 0))
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

  if (__atomic_load_n (&streams->n_marks, __ATOMIC_RELAXED) == 0)
    return FALSE;

  pinned = pin_streams (streams, TRUE);
  for (guint i = 0; i < pinned->len; i++)
    {
      GpuPoolStream *stream = g_ptr_array_index (pinned, i);

      while (ask (stream, 0))
        reached = TRUE;
    }

  return reached;
}

static void
forget_locked (GpuPoolStream *stream)
{
  GpuPoolStreams *streams = stream->streams;

  for (guint i = 0; i < streams->by_slot->len; i++)
    {
      GpuPoolStream *other = g_ptr_array_index (streams->by_slot, i);

      if (stream->slot < other->followed->len)
        g_array_index (other->followed, guint64, stream->slot) = 0;
    }

  g_array_set_size (stream->followed, 0);
  g_hash_table_remove (streams->by_key, stream->key);
  stream->key = NULL;
}

gboolean
_gpu_pool_streams_want_sweep (GpuPoolStreams *streams)
{
  gboolean wanted;

  _gpu_pool_lock (&streams->lock);
  wanted = g_hash_table_size (streams->by_key) >= 2 * streams->n_swept + 4;
  _gpu_pool_unlock (&streams->lock);

  return wanted;
}

void
_gpu_pool_streams_sweep (GpuPoolStreams *streams)
{
  g_autoptr (GPtrArray) pinned = pin_streams (streams, FALSE);
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

      /* One pin is ours. */
      if (stream->n_pins > 1)
        continue;
      g_ptr_array_add (keys, stream->key);
      forget_locked (stream);
    }
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
