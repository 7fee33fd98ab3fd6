/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <pthread.h>

#include "gpumem/pool/gpu-pool-bins.h"

#include "gpumem/gpu-debug-private.h"
#include "gpumem/gpu-hot-private.h"

#define N_OWN_USES   2
#define N_KNOWN      8              /* streams found without asking for them */
#define N_LOOKED_AT  8              /* items of a bin */
#define MAX_ATTEMPTS 4

struct _GpuPoolItem
{
  GpuPoolItem *below;               /* in its bin */
  GpuPoolUse  *uses;                /* own, or as many as it takes */
  guint        n_uses;
  guint        bin;
  gsize        capacity;
  gsize        requested;           /* bytes; 0 if it is not active */
  gboolean     moving;              /* out of its bin, without being active */
  GpuPoolUse   own[N_OWN_USES];

  gpointer     data;
  GpuPoolBins *bins;
  GpuPoolItem *previous, *next;     /* of all items */
};

typedef struct
{
  gpointer       key;               /* NULL: none */
  GpuPoolStream *stream;
} KnownStream;

struct _GpuPoolBins
{
  pthread_mutex_t        lock;      /* guards what follows, but not what never changes */
  guint                  bits;
  guint                  n_bins;
  gboolean               stopped;
  gint                   trace;     /* atomic */
  GpuPoolItem          **tops;      /* of each bin */
  KnownStream            known[N_KNOWN];
  GpuPoolStats           stats;
  GpuPoolItem           *items;
  /* Items that threads have taken out of their bins to look at them, or to free them. */
  guint                  n_moving;
  pthread_cond_t         moved;
  guint64                n_freed;   /* items */

  const GpuPoolBinsOps  *ops;
  gpointer               owner;
  GpuPoolStreams        *streams;
  GpuPoolStream         *host;
};

/* What somebody wants. */
typedef struct
{
  GpuPoolBins   *bins;
  gsize          size;
  guint          bin;
  GpuPoolStream *stream;
  guint64        n_changes;         /* of the pool, when the bin was looked into */
} Request;

static void
lock (GpuPoolBins *bins)
{
  pthread_mutex_lock (&bins->lock);
}

static void
unlock (GpuPoolBins *bins)
{
  pthread_mutex_unlock (&bins->lock);
}

#define is_traced(bins) G_UNLIKELY (g_atomic_int_get (&(bins)->trace))

GPU_COLD static void G_GNUC_PRINTF (2, 3)
say (GpuPoolBins *bins,
     const char  *format,
     ...)
{
  g_autofree char *text = NULL;
  va_list ap;

  va_start (ap, format);
  text = g_strdup_vprintf (format, ap);
  va_end (ap);
  g_printerr ("gpumem-pool: %p: %s\n", (gpointer) bins, text);
}

guint
_gpu_pool_bin_number (guint bits,
                      gsize size)
{
  guint exponent = size == 0 ? 0 : 63 - __builtin_clzll (size);
  gsize leading = exponent >= bits ? size >> (exponent - bits) : size << (bits - exponent);

  return exponent << bits | (guint) (leading & ((1u << bits) - 1));
}

gsize
_gpu_pool_bin_size (guint bits,
                    guint bin)
{
  guint exponent = bin >> bits;
  gsize leading = 1u << bits | (bin & ((1u << bits) - 1));

  g_return_val_if_fail (exponent < 64, 0);

  if (exponent < bits)
    return leading >> (bits - exponent);

  return (leading + 1) * ((gsize) 1 << (exponent - bits)) - 1;
}

/* --- streams, under the lock -------------------------------------------------- */

GPU_COLD static GpuPoolStream *
get_to_know (GpuPoolBins *bins,
             gpointer     key,
             KnownStream *known)
{
  GpuPoolStream *stream;

  unlock (bins);
  stream = _gpu_pool_streams_get (bins->streams, key);
  lock (bins);
  *known = (KnownStream) { key, stream };

  return stream;
}

static inline GpuPoolStream *
find_stream (GpuPoolBins *bins,
             gpointer     key)
{
  gsize number = GPOINTER_TO_SIZE (key);
  KnownStream *known = &bins->known[(number >> 4 ^ number >> 9) % N_KNOWN];

  if (key == NULL)
    return bins->host;
  if (G_LIKELY (known->key == key))
    return known->stream;

  return get_to_know (bins, key, known);
}

/* --- items, under the lock ---------------------------------------------------- */

static inline void
push (GpuPoolBins *bins,
      GpuPoolItem *item)
{
  item->below = bins->tops[item->bin];
  bins->tops[item->bin] = item;
}

static inline void
set_active (GpuPoolBins *bins,
            GpuPoolItem *item,
            gsize        size)
{
  GpuPoolStats *stats = &bins->stats;

  item->requested = size;
  stats->n_allocs++;
  stats->active_blocks++;
  stats->active_bytes += size;
  stats->used_bytes += item->capacity;
  stats->peak_active_bytes = MAX (stats->peak_active_bytes, stats->active_bytes);
  stats->peak_used_bytes = MAX (stats->peak_used_bytes, stats->used_bytes);
}

static inline void
set_held (GpuPoolBins *bins,
          GpuPoolItem *item)
{
  GpuPoolStats *stats = &bins->stats;

  stats->active_blocks--;
  stats->held_blocks++;
  stats->active_bytes -= item->requested;
  stats->used_bytes -= item->capacity;
  item->requested = 0;
  push (bins, item);
}

static inline void
forget_uses (GpuPoolItem *item)
{
  if (G_UNLIKELY (item->uses != item->own))
    g_free (item->uses);
  item->uses = item->own;
  item->n_uses = 0;
}

static inline gboolean
is_ready (const GpuPoolItem   *item,
          const GpuPoolStream *stream)
{
  for (guint i = 0; i < item->n_uses; i++)
    {
      if (item->uses[i].stream != NULL && item->uses[i].stream != stream)
        return FALSE;
    }

  return TRUE;
}

/* One that needs no waiting, as far as can be seen without asking anybody. */
static inline GpuPoolItem *
take_ready (GpuPoolBins         *bins,
            guint                bin,
            const GpuPoolStream *stream)
{
  GpuPoolItem **link = &bins->tops[bin];

  for (guint n = 0; *link != NULL && n < N_LOOKED_AT; n++, link = &(*link)->below)
    {
      GpuPoolItem *item = *link;

      if (is_ready (item, stream))
        {
          *link = item->below;
          bins->stats.held_blocks--;
          return item;
        }
    }

  return NULL;
}

static GpuPoolItem *
pop_moving (GpuPoolBins *bins,
            guint        bin)
{
  GpuPoolItem *item = bins->tops[bin];

  if (item == NULL)
    return NULL;

  bins->tops[bin] = item->below;
  item->moving = TRUE;
  bins->n_moving++;

  return item;
}

static void
stop_moving (GpuPoolBins *bins,
             GpuPoolItem *item)
{
  item->moving = FALSE;
  bins->n_moving--;
  pthread_cond_broadcast (&bins->moved);
}

static guint
find_largest (GpuPoolBins *bins)
{
  guint bin = bins->n_bins;

  while (bin > 0 && bins->tops[bin - 1] == NULL)
    bin--;

  return bin;
}

/* --- uses, without the lock: of items that are nobody else's -------------------- */

static gboolean
is_over (GpuPoolItem *item)
{
  gboolean over = TRUE;

  for (guint i = 0; i < item->n_uses; i++)
    {
      if (item->uses[i].stream != NULL && _gpu_pool_use_is_over (&item->uses[i]))
        item->uses[i].stream = NULL;
      over &= item->uses[i].stream == NULL;
    }

  return over;
}

static gboolean
follow (GpuPoolItem    *item,
        GpuPoolStream  *stream,
        guint          *n_waits,
        GError        **error)
{
  for (guint i = 0; i < item->n_uses; i++)
    {
      gboolean waited = FALSE;

      if (item->uses[i].stream == NULL)
        continue;
      if (!_gpu_pool_use_follow (&item->uses[i], stream, &waited, error))
        return FALSE;
      *n_waits += waited;
    }

  return TRUE;
}

/* --- taking from bins with a wait ------------------------------------------------ */

/* Called with the lock, which it gives away for a while. Of those at the top of @bin, the first one
 * whose use is over, or else the one given back first. It is moving then. */
static GpuPoolItem *
take_best (GpuPoolBins *bins,
           guint        bin,
           gboolean    *over)
{
  GpuPoolItem *items[N_LOOKED_AT];
  GpuPoolItem *best;
  guint n = 0, chosen = 0;

  while (n < N_LOOKED_AT && (items[n] = pop_moving (bins, bin)) != NULL)
    n++;
  if (n == 0)
    return NULL;

  unlock (bins);
  while (chosen < n && !is_over (items[chosen]))
    chosen++;
  lock (bins);

  *over = chosen < n;
  chosen = MIN (chosen, n - 1);
  best = items[chosen];
  while (n-- > 0)
    {
      if (n == chosen)
        continue;
      push (bins, items[n]);
      stop_moving (bins, items[n]);
    }

  return best;
}

/* Puts the item back when it fails. */
static gboolean
wait_for (const Request  *request,
          GpuPoolItem    *item,
          guint          *n_waits,
          GError        **error)
{
  GpuPoolBins *bins = request->bins;
  gboolean success = follow (item, request->stream, n_waits, error);

  lock (bins);
  bins->stats.n_waits += *n_waits;
  if (!success)
    {
      bins->stats.n_allocs--;
      bins->stats.n_steals--;
      set_held (bins, item);
    }
  unlock (bins);

  return success;
}

/* Under the lock: counts what may give somebody memory who was refused. */
static guint64
count_changes (GpuPoolBins *bins)
{
  return bins->stats.n_frees + bins->n_freed;
}

/* NULL without an error if there is none. */
static GpuPoolItem *
take (Request  *request,
      GError  **error)
{
  GpuPoolBins *bins = request->bins;
  GpuPoolItem *item;
  guint n_waits = 0;
  gboolean over = TRUE;

  lock (bins);
  request->n_changes = count_changes (bins);
  item = take_ready (bins, request->bin, request->stream);
  if (item != NULL)
    {
      bins->stats.n_hits++;
    }
  else if ((item = take_best (bins, request->bin, &over)) != NULL)
    {
      stop_moving (bins, item);
      bins->stats.held_blocks--;
      bins->stats.n_steals++;
    }
  if (item != NULL)
    set_active (bins, item, request->size);
  unlock (bins);

  if (item == NULL)
    return NULL;
  if (!over && !wait_for (request, item, &n_waits, error))
    return NULL;
  forget_uses (item);
  if (is_traced (bins))
    say (bins, "%" G_GSIZE_FORMAT " bytes from bin %u of %" G_GSIZE_FORMAT ", with %u waits",
         request->size, request->bin, item->capacity, n_waits);

  return item;
}

/* --- items from and to the owner ------------------------------------------------- */

static GpuPoolItem *
grow (const Request  *request,
      GError        **error)
{
  GpuPoolBins *bins = request->bins;
  gsize capacity = _gpu_pool_bin_size (bins->bits, request->bin);
  gpointer data = bins->ops->alloc_item (bins->owner, capacity, error);
  GpuPoolStats *stats = &bins->stats;
  GpuPoolItem *item;

  if (data == NULL)
    return NULL;

  item = g_new0 (GpuPoolItem, 1);
  item->uses = item->own;
  item->bin = request->bin;
  item->capacity = capacity;
  item->data = data;
  item->bins = bins;

  lock (bins);
  item->next = bins->items;
  if (item->next != NULL)
    item->next->previous = item;
  bins->items = item;
  stats->n_growths++;
  stats->managed_bytes += capacity;
  stats->peak_managed_bytes = MAX (stats->peak_managed_bytes, stats->managed_bytes);
  set_active (bins, item, request->size);
  unlock (bins);

  if (is_traced (bins))
    say (bins, "%" G_GSIZE_FORMAT " bytes from a new block of %" G_GSIZE_FORMAT " for bin %u",
         request->size, capacity, request->bin);

  return item;
}

/* Of one that is moving, and whose use is over. */
static void
discard (GpuPoolBins *bins,
         GpuPoolItem *item)
{
  if (is_traced (bins))
    say (bins, "the block of %" G_GSIZE_FORMAT " bytes of bin %u is freed", item->capacity,
         item->bin);

  lock (bins);
  if (item->next != NULL)
    item->next->previous = item->previous;
  if (item->previous != NULL)
    item->previous->next = item->next;
  else
    bins->items = item->next;
  unlock (bins);

  bins->ops->free_item (bins->owner, item->data, item->capacity);

  lock (bins);
  bins->stats.managed_bytes -= item->capacity;
  bins->stats.held_blocks--;
  bins->n_freed++;
  stop_moving (bins, item);
  unlock (bins);

  forget_uses (item);
  g_free (item);
}

/* FALSE if there is nothing left that could be freed, or with an error. What other threads have
 * freed or given back since @request was refused counts as well, and is waited for where they are
 * about to. */
static gboolean
free_largest (const Request  *request,
              GError        **error)
{
  GpuPoolBins *bins = request->bins;
  GpuPoolItem *item = NULL;
  guint bin, n_waits = 0;
  gboolean over = FALSE, moving, changed;

  lock (bins);
  bin = find_largest (bins);
  if (bin > 0)
    item = take_best (bins, bin - 1, &over);
  moving = item == NULL && bins->n_moving > 0;
  if (moving)
    pthread_cond_wait (&bins->moved, &bins->lock);
  changed = moving || count_changes (bins) != request->n_changes;
  unlock (bins);

  if (item == NULL)
    return changed;
  if (!over && !follow (item, bins->host, &n_waits, error))
    {
      lock (bins);
      push (bins, item);
      stop_moving (bins, item);
      unlock (bins);
      return FALSE;
    }
  discard (bins, item);

  return TRUE;
}

/* --- out of memory --------------------------------------------------------------- */

static gboolean
is_out_of_memory (const GError *error)
{
  return g_error_matches (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY)
         || g_error_matches (error, GPU_ERROR, GPU_ERROR_OUT_OF_HOST_MEMORY);
}

/* NULL with @refused set. */
static GpuPoolItem *
try_again (Request  *request,
           GError  **refused)
{
  GpuPoolItem *item;

  g_clear_error (refused);
  item = take (request, refused);
  if (item == NULL && *refused == NULL)
    item = grow (request, refused);

  return item;
}

static void
refuse (const Request  *request,
        const GError   *refused,
        GError        **error)
{
  GpuPoolBins *bins = request->bins;
  GpuPoolStats stats;

  lock (bins);
  bins->stats.n_refused++;
  unlock (bins);
  _gpu_pool_bins_get_stats (bins, &stats);

  g_set_error (error, refused->domain, refused->code,
               "no memory for %" G_GSIZE_FORMAT " bytes, with rounding %" G_GSIZE_FORMAT
               ": the pool has %" G_GUINT64_FORMAT " active blocks of %" G_GUINT64_FORMAT
               " bytes, with rounding %" G_GUINT64_FORMAT ", and %" G_GUINT64_FORMAT
               " held blocks, the largest of %" G_GUINT64_FORMAT " bytes; it manages %"
               G_GUINT64_FORMAT " bytes: %s", request->size,
               _gpu_pool_bin_size (bins->bits, request->bin), stats.active_blocks,
               stats.active_bytes, stats.used_bytes, stats.held_blocks, stats.largest_free,
               stats.managed_bytes, refused->message);
  if (is_traced (bins))
    say (bins, "%" G_GSIZE_FORMAT " bytes are refused: %s", request->size, refused->message);
}

static GpuPoolItem *
climb (Request  *request,
       GError  **refused)
{
  GpuPoolBins *bins = request->bins;
  GpuPoolItem *item = NULL;
  gboolean room = TRUE;

  for (guint attempt = 0; room && attempt < MAX_ATTEMPTS && is_out_of_memory (*refused); attempt++)
    {
      g_autoptr (GError) stuck = NULL;

      if (is_traced (bins))
        say (bins, "no memory for %" G_GSIZE_FORMAT " bytes, attempt %u", request->size, attempt);
      room = bins->ops->make_room != NULL
             && bins->ops->make_room (bins->owner, request->size, attempt);
      if (room && (item = try_again (request, refused)) != NULL)
        return item;

      while (is_out_of_memory (*refused) && free_largest (request, &stuck))
        {
          if ((item = try_again (request, refused)) != NULL)
            return item;
        }
      if (stuck != NULL)
        {
          g_clear_error (refused);
          g_propagate_error (refused, g_steal_pointer (&stuck));
        }
    }

  return NULL;
}

GPU_COLD static GpuPoolItem *
alloc_slowly (Request  *request,
              GError  **error)
{
  g_autoptr (GError) refused = NULL;
  GpuPoolItem *item = try_again (request, &refused);

  if (item == NULL && is_out_of_memory (refused))
    item = climb (request, &refused);

  if (item == NULL && is_out_of_memory (refused))
    refuse (request, refused, error);
  else if (item == NULL)
    g_propagate_error (error, g_steal_pointer (&refused));

  return item;
}

/* --- what the owner calls --------------------------------------------------------- */

GpuPoolBins *
_gpu_pool_bins_new (guint                   bits,
                    const GpuPoolBinsOps   *ops,
                    gpointer                owner,
                    const GpuPoolStreamOps *stream_ops)
{
  GpuPoolBins *bins;
  pthread_mutexattr_t attributes;

  g_return_val_if_fail (bits <= GPU_POOL_BINS_MAX_BITS, NULL);

  bins = g_new0 (GpuPoolBins, 1);
  pthread_mutexattr_init (&attributes);
#ifdef PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP
  pthread_mutexattr_settype (&attributes, PTHREAD_MUTEX_ADAPTIVE_NP);
#endif
  pthread_mutex_init (&bins->lock, &attributes);
  pthread_mutexattr_destroy (&attributes);
  pthread_cond_init (&bins->moved, NULL);
  bins->bits = bits;
  bins->n_bins = 64u << bits;
  bins->tops = g_new0 (GpuPoolItem *, bins->n_bins);
  bins->ops = ops;
  bins->owner = owner;
  bins->streams = _gpu_pool_streams_new (stream_ops);
  bins->host = _gpu_pool_streams_get (bins->streams, NULL);
  bins->trace = _gpu_debug_has (GPU_DEBUG_POOL);

  return bins;
}

GPU_HOT GpuPoolItem *
_gpu_pool_bins_alloc (GpuPoolBins  *bins,
                      gsize         size,
                      gpointer      key,
                      GError      **error)
{
  Request request = { bins, size, _gpu_pool_bin_number (bins->bits, size), NULL, 0 };
  GpuPoolItem *item;

  lock (bins);
  request.stream = find_stream (bins, key);
  item = take_ready (bins, request.bin, request.stream);
  if (G_LIKELY (item != NULL))
    {
      forget_uses (item);
      bins->stats.n_hits++;
      set_active (bins, item, size);
    }
  unlock (bins);

  if (G_UNLIKELY (item == NULL))
    return alloc_slowly (&request, error);
  if (is_traced (bins))
    say (bins, "%" G_GSIZE_FORMAT " bytes from bin %u of %" G_GSIZE_FORMAT, size, request.bin,
         item->capacity);

  return item;
}

GPU_COLD static void
was_released (GpuPoolBins *bins,
              guint        bin,
              gboolean     stopped)
{
  if (is_traced (bins))
    say (bins, "a block of %" G_GSIZE_FORMAT " bytes is back in bin %u",
         _gpu_pool_bin_size (bins->bits, bin), bin);
  if (stopped)
    _gpu_pool_bins_trim (bins, 0, FALSE);
}

GPU_HOT void
_gpu_pool_bins_release (GpuPoolItem *item,
                        gpointer     key)
{
  GpuPoolBins *bins = item->bins;
  guint bin = item->bin;
  gboolean stopped;

  lock (bins);
  if (key != NULL)
    {
      GpuPoolStream *stream = find_stream (bins, key);

      item->own[0] = (GpuPoolUse) { stream, _gpu_pool_stream_stamp (stream) };
      item->n_uses = 1;
    }
  bins->stats.n_frees++;
  set_held (bins, item);
  stopped = bins->stopped;
  unlock (bins);

  if (G_UNLIKELY (stopped) || is_traced (bins))
    was_released (bins, bin, stopped);
}

void
_gpu_pool_bins_release_all (GpuPoolItem    *item,
                            const gpointer *keys,
                            guint           n_keys)
{
  GpuPoolBins *bins = item->bins;
  guint bin = item->bin;
  gboolean stopped;

  if (n_keys > N_OWN_USES)
    item->uses = g_new (GpuPoolUse, n_keys);

  for (guint i = 0; i < n_keys; i++)
    {
      GpuPoolStream *stream;

      if (keys[i] == NULL)
        continue;
      stream = _gpu_pool_streams_get (bins->streams, keys[i]);
      item->uses[item->n_uses++] = (GpuPoolUse) { stream, _gpu_pool_stream_stamp (stream) };
    }

  lock (bins);
  bins->stats.n_frees++;
  set_held (bins, item);
  stopped = bins->stopped;
  unlock (bins);

  if (stopped || is_traced (bins))
    was_released (bins, bin, stopped);
}

GpuPoolBins *
_gpu_pool_item_get_bins (const GpuPoolItem *item)
{
  return item->bins;
}

gpointer
_gpu_pool_item_get_data (const GpuPoolItem *item)
{
  return item->data;
}

gsize
_gpu_pool_item_get_size (const GpuPoolItem *item)
{
  return item->requested;
}

gsize
_gpu_pool_item_get_capacity (const GpuPoolItem *item)
{
  return item->capacity;
}

static gboolean
is_too_much (GpuPoolBins *bins,
             guint64      keep)
{
  gboolean too_much;

  lock (bins);
  too_much = bins->stats.managed_bytes > keep;
  unlock (bins);

  return too_much;
}

void
_gpu_pool_bins_trim (GpuPoolBins *bins,
                     guint64      keep,
                     gboolean     wait)
{
  GpuPoolItem *items = NULL, *item;
  guint n_waits = 0;

  lock (bins);
  for (guint bin = 0; bin < bins->n_bins && bins->stats.managed_bytes > keep; bin++)
    {
      while ((item = pop_moving (bins, bin)) != NULL)
        {
          item->below = items;
          items = item;
        }
    }
  unlock (bins);

  while ((item = items) != NULL)
    {
      items = item->below;
      if (is_too_much (bins, keep)
          && (is_over (item) || (wait && follow (item, bins->host, &n_waits, NULL))))
        {
          discard (bins, item);
          continue;
        }
      lock (bins);
      push (bins, item);
      stop_moving (bins, item);
      unlock (bins);
    }
}

void
_gpu_pool_bins_stop_holding (GpuPoolBins *bins)
{
  lock (bins);
  bins->stopped = TRUE;
  unlock (bins);

  _gpu_pool_bins_trim (bins, 0, FALSE);
}

void
_gpu_pool_bins_free (GpuPoolBins *bins)
{
  GpuPoolItem *item;

  g_return_if_fail (bins->stats.active_blocks == 0);

  _gpu_pool_bins_trim (bins, 0, TRUE);
  /* What cannot be waited for, as the device is gone */
  for (guint bin = 0; bin < bins->n_bins; bin++)
    {
      while ((item = pop_moving (bins, bin)) != NULL)
        discard (bins, item);
    }

  _gpu_pool_streams_free (bins->streams);
  pthread_cond_destroy (&bins->moved);
  pthread_mutex_destroy (&bins->lock);
  g_free (bins->tops);
  g_free (bins);
}

void
_gpu_pool_bins_get_stats (GpuPoolBins  *bins,
                          GpuPoolStats *stats)
{
  guint largest;

  lock (bins);
  *stats = bins->stats;
  largest = find_largest (bins);
  unlock (bins);

  stats->largest_free = largest == 0 ? 0 : _gpu_pool_bin_size (bins->bits, largest - 1);
}

void
_gpu_pool_bins_set_trace (GpuPoolBins *bins,
                          gboolean     trace)
{
  g_atomic_int_set (&bins->trace, trace);
}

void
_gpu_pool_bins_visit (GpuPoolBins          *bins,
                      GpuPoolBinsVisitFunc  func,
                      gpointer              data)
{
  lock (bins);
  for (GpuPoolItem *item = bins->items; item != NULL; item = item->next)
    {
      GpuPoolState state = GPU_POOL_ACTIVE;

      if (item->requested == 0)
        state = !item->moving && is_ready (item, NULL) ? GPU_POOL_FREE : GPU_POOL_PENDING;
      func (data, item, item->capacity, item->requested, state);
    }
  unlock (bins);
}
