/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Slow path of pools with bins: waiting, growing and trimming. */
#include "config.h"

#include "gpumem/base/gpu-error-private.h"
#include "gpumem/base/gpu-marks-private.h"
#include "gpumem/pool/core/gpu-pool-bins-private.h"

/* Maximum number of retries beyond one retry for each held item. More retries may be needed,
 * because other threads may take the memory that this thread frees. */
#define MAX_MORE_ROUNDS 256

void
_gpu_pool_bins_print (GpuPoolBins *bins,
                      const char  *format,
                      ...)
{
  g_autofree char *text = NULL;
  va_list ap;

  va_start (ap, format);
  text = g_strdup_vprintf (format, ap);
  va_end (ap);
  _gpu_debug_write (GPU_DEBUG_POOL, "%p: %s", (gpointer) bins, text);
}

/* --- uses of items that the caller owns, without the lock ------------------------  */

gboolean
_gpu_pool_item_is_completed (GpuPoolItem *item)
{
  gboolean completed = TRUE;

  for (guint i = 0; i < item->n_uses; i++)
    {
      if (item->uses[i].stream != NULL && _gpu_pool_use_is_completed (&item->uses[i]))
        item->uses[i].stream = NULL;
      completed &= item->uses[i].stream == NULL;
    }

  return completed;
}

gboolean
_gpu_pool_item_follow (GpuPoolItem    *item,
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

void
_gpu_pool_bins_sweep (GpuPoolBins *bins)
{
  bins_lock (bins);
  for (guint i = 0; i < N_CACHED_STREAMS; i++)
    bins_forget_stream (&bins->known[i]);
  bins_unlock (bins);

  _gpu_pool_streams_sweep (bins->streams);
}

/* --- taking from bins with a wait ------------------------------------------------ */

/* Picks one of the newest items of @bin and marks the item as moving. Prefers the first item whose
 * use has completed. If no use has completed, picks the item that was freed first. Caller holds the
 * lock. The function releases the lock while it examines the items, and then takes the lock
 * again. */
static GpuPoolItem *
take_best (GpuPoolBins *bins,
           guint        bin,
           gboolean    *completed)
{
  GpuPoolItem *items[MAX_EXAMINED];
  GpuPoolItem *best;
  guint n = 0, chosen = 0;

  while (n < MAX_EXAMINED && (items[n] = bins_pop_moving (bins, bin)) != NULL)
    n++;
  if (n == 0)
    return NULL;

  bins_unlock (bins);
  while (chosen < n && !_gpu_pool_item_is_completed (items[chosen]))
    chosen++;
  bins_lock (bins);

  *completed = chosen < n;
  chosen = MIN (chosen, n - 1);
  best = items[chosen];
  while (n-- > 0)
    {
      if (n == chosen)
        continue;
      bins_push (bins, items[n]);
      bins_stop_moving (bins, items[n]);
    }

  return best;
}

static void
put_back (GpuPoolBins *bins,
          GpuPoolItem *item)
{
  bins_lock (bins);
  bins_push (bins, item);
  bins_stop_moving (bins, item);
  bins_unlock (bins);
}

/* Items for which a wait was refused. They are marked as moving, so that a search does not find
 * them again. */
typedef struct
{
  GpuPoolItem *items;
  guint        n;
} Refused;

static void
put_back_refused (GpuPoolBins *bins,
                  Refused     *refused)
{
  while (refused->items != NULL)
    {
      GpuPoolItem *item = refused->items;

      refused->items = item->below;
      put_back (bins, item);
    }

  refused->n = 0;
}

/* Takes an item of the bin of @request, and orders the stream of @request after its uses. With
 * @is_largest, takes one of the largest items instead, and blocks until its uses have completed. If
 * the wait for an item is refused, adds it to @refused and tries another one, without @is_largest
 * at most MAX_EXAMINED. Returns an item that is marked as moving; NULL without an error if there is
 * none; or NULL with an error if a wait fails. Sets @others_move to whether other threads were
 * moving items when there was none. */
static GpuPoolItem *
take_moving (const GpuPoolRequest  *request,
             gboolean               is_largest,
             Refused               *refused,
             guint                 *n_waits,
             gboolean              *others_move,
             GError               **error)
{
  GpuPoolBins *bins = request->bins;
  GpuPoolStream *stream = is_largest ? NULL : request->stream;
  GpuPoolItem *item = NULL;
  gboolean completed = FALSE, success = FALSE;
  GError *failure = NULL;

  *others_move = FALSE;

  while (!success && failure == NULL && (is_largest || refused->n < MAX_EXAMINED))
    {
      guint above;

      bins_lock (bins);
      above = is_largest ? bins_find_largest (bins) : request->bin + 1;
      item = above > 0 ? take_best (bins, above - 1, &completed) : NULL;
      *others_move = item == NULL && bins->n_moving > refused->n;
      bins_unlock (bins);

      if (item == NULL)
        break;

      success = completed || _gpu_pool_item_follow (item, stream, n_waits, &failure);
      if (!success)
        {
          item->below = refused->items;
          refused->items = item;
          refused->n++;
        }
    }

  if (failure != NULL)
    g_propagate_error (error, failure);

  return success ? item : NULL;
}

/* Returns the number of items that the owner has released, plus the number of items that the pool
 * has freed. If the number has changed since a request was refused, the request may now succeed.
 * Caller holds the lock. */
static guint64
count_changes (GpuPoolBins *bins)
{
  return bins->stats.n_frees + bins->n_freed;
}

/* Returns NULL without an error if the bin is empty, or if all waits are refused. */
static GpuPoolItem *
take (GpuPoolRequest  *request,
      GError         **error)
{
  GpuPoolBins *bins = request->bins;
  GpuPoolItem *item;
  Refused refused = { NULL, 0 };
  gboolean others_move;
  guint n_waits = 0;

  bins_lock (bins);
  request->n_changes = count_changes (bins);
  item = bins_take_ready (bins, request->bin, request->stream);
  if (item != NULL)
    {
      bins->stats.n_hits++;
      bins_set_active (bins, item, request->size);
    }
  bins_unlock (bins);

  if (item == NULL)
    {
      item = take_moving (request, FALSE, &refused, &n_waits, &others_move, error);
      put_back_refused (bins, &refused);
      if (item == NULL)
        return NULL;

      bins_lock (bins);
      bins_stop_moving (bins, item);
      bins->stats.held_blocks--;
      bins->stats.n_steals++;
      bins->stats.n_waits += n_waits;
      bins_set_active (bins, item, request->size);
      bins_unlock (bins);
    }

  item_forget_uses (item);
  if (bins_are_traced (bins))
    _gpu_pool_bins_print (bins, "%" G_GSIZE_FORMAT " bytes from bin %u of %" G_GSIZE_FORMAT
                          ", with %u waits", request->size, request->bin, item->capacity, n_waits);

  return item;
}

/* --- memory that the owner allocates and frees ----------------------------------- */

/* Frees held items to stay below the soft limit. */
static void
save_memory (GpuPoolBins *bins,
             gsize        capacity)
{
  guint64 soft_limit, asked;
  gboolean exceeds;

  bins_lock (bins);
  soft_limit = bins->limits.soft_limit;
  asked = bins->n_asked + capacity;
  exceeds = soft_limit != 0 && bins->stats.held_blocks > 0
            && bins->stats.managed_bytes + asked > soft_limit;
  bins_unlock (bins);

  if (exceeds)
    _gpu_pool_bins_trim (bins, soft_limit - MIN (soft_limit, asked), FALSE);
}

/* Counts @capacity bytes towards the limit before they are allocated, because other threads may
 * grow the pool at the same time. */
static gboolean
reserve (GpuPoolBins  *bins,
         gsize         capacity,
         GError      **error)
{
  guint64 limit, taken;
  gboolean fits;

  bins_lock (bins);
  limit = bins->limits.limit;
  taken = bins->stats.managed_bytes + bins->n_asked;
  fits = limit == 0 || (taken <= limit && capacity <= limit - taken);
  if (fits)
    bins->n_asked += capacity;
  bins_unlock (bins);

  if (!fits)
    g_set_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY,
                 "the limit of %" G_GUINT64_FORMAT " bytes leaves %" G_GUINT64_FORMAT, limit,
                 limit - MIN (limit, taken));

  return fits;
}

static gpointer
alloc_data (GpuPoolBins  *bins,
            gsize         capacity,
            GError      **error)
{
  g_auto (GpuMark) mark = { NULL, };
  gpointer data;

  if (G_UNLIKELY (_gpu_debug_has (GPU_DEBUG_MARKS)))
    mark = _gpu_mark_begin ("pool growth", capacity);

  save_memory (bins, capacity);
  if (!reserve (bins, capacity, error))
    return NULL;

  data = bins->ops->alloc_item (bins->owner, capacity, error);
  if (data == NULL)
    {
      bins_lock (bins);
      bins->n_asked -= capacity;
      bins_unlock (bins);
    }

  return data;
}

static GpuPoolItem *
grow (const GpuPoolRequest  *request,
      GError               **error)
{
  GpuPoolBins *bins = request->bins;
  gsize capacity = gpu_pool_bin_size (bins->bits, request->bin);
  gpointer data = alloc_data (bins, capacity, error);
  GpuPoolStats *stats = &bins->stats;
  GpuPoolItem *item;

  if (_gpu_pool_streams_want_sweep (bins->streams))
    _gpu_pool_bins_sweep (bins);
  if (data == NULL)
    return NULL;

  item = g_new0 (GpuPoolItem, 1);
  item->uses = &item->own;
  item->bin = request->bin;
  item->capacity = capacity;
  item->data = data;
  item->bins = bins;

  bins_lock (bins);
  item->next = bins->items;
  if (item->next != NULL)
    item->next->previous = item;
  bins->items = item;
  bins->n_asked -= capacity;
  stats->n_growths++;
  stats->managed_bytes += capacity;
  stats->peak_managed_bytes = MAX (stats->peak_managed_bytes, stats->managed_bytes);
  bins_set_active (bins, item, request->size);
  bins_unlock (bins);

  if (bins_are_traced (bins))
    _gpu_pool_bins_print (bins, "%" G_GSIZE_FORMAT " bytes from a new block of %" G_GSIZE_FORMAT
                          " for bin %u", request->size, capacity, request->bin);

  return item;
}

void
_gpu_pool_bins_discard (GpuPoolBins *bins,
                        GpuPoolItem *item)
{
  if (bins_are_traced (bins))
    _gpu_pool_bins_print (bins, "the block of %" G_GSIZE_FORMAT " bytes of bin %u is freed",
                          item->capacity, item->bin);

  bins_lock (bins);
  if (item->next != NULL)
    item->next->previous = item->previous;
  if (item->previous != NULL)
    item->previous->next = item->next;
  else
    bins->items = item->next;
  bins_unlock (bins);

  bins->ops->free_item (bins->owner, item->data, item->capacity);

  bins_lock (bins);
  bins->stats.managed_bytes -= item->capacity;
  bins->stats.held_blocks--;
  bins->n_freed++;
  bins_stop_moving (bins, item);
  bins_unlock (bins);

  item_forget_uses (item);
  g_free (item);
}

/* Waits until an item is held. To prevent an endless wait, also returns after other threads have
 * freed or put back as many items as were marked as moving at the call. Caller holds the lock. */
static void
wait_for_moving (GpuPoolBins *bins)
{
  for (guint n = bins->n_moving; n > 0 && bins->n_moving > 0; n--)
    {
      pthread_cond_wait (&bins->moved, &bins->lock.mutex);

      if (bins_find_largest (bins) > 0)
        break;
    }
}

/* Frees the largest held item for which no wait is refused, and returns TRUE. If there is none,
 * puts the items of @refused back, and returns TRUE if other threads freed items since @request was
 * refused, or if this thread waited for items that other threads were moving. Returns FALSE with an
 * error if a wait failed, and FALSE without an error in all other cases. */
static gboolean
free_largest (const GpuPoolRequest  *request,
              Refused               *refused,
              GError               **error)
{
  GpuPoolBins *bins = request->bins;
  GError *failure = NULL;
  guint n_waits = 0;
  gboolean others_move, changed;
  GpuPoolItem *item = take_moving (request, TRUE, refused, &n_waits, &others_move, &failure);

  if (item != NULL)
    {
      _gpu_pool_bins_discard (bins, item);
      return TRUE;
    }

  if (failure != NULL)
    {
      g_propagate_error (error, failure);
      return FALSE;
    }

  put_back_refused (bins, refused);
  bins_lock (bins);
  if (others_move)
    wait_for_moving (bins);
  changed = others_move || count_changes (bins) != request->n_changes;
  bins_unlock (bins);

  return changed;
}

/* --- trimming -------------------------------------------------------------------- */

/* Returns whether the use of @item has completed. First creates a fence that covers the use,
 * because only a fence can be queried. */
static gboolean
fence_and_check (GpuPoolItem *item)
{
  for (guint i = 0; i < item->n_uses; i++)
    _gpu_pool_use_add_fence (&item->uses[i], NULL);

  return _gpu_pool_item_is_completed (item);
}

/* Returns whether more than @keep bytes are managed. With @keep NULL, returns whether more bytes
 * are managed than the limits allow. Caller holds the lock. */
static gboolean
have_more (GpuPoolBins   *bins,
           const guint64 *keep)
{
  return keep != NULL ? bins->stats.managed_bytes > *keep : bins_have_excess (bins);
}

static gboolean
is_too_much (GpuPoolBins   *bins,
             const guint64 *keep)
{
  gboolean too_much;

  bins_lock (bins);
  too_much = have_more (bins, keep);
  bins_unlock (bins);

  return too_much;
}

/* If too much memory is managed, takes all items of the next non-empty bin below @bin, and marks
 * these items as moving. Returns them as a list that begins with the oldest item. Meanwhile other
 * threads can use the other bins. */
static GpuPoolItem *
take_bin (GpuPoolBins   *bins,
          guint         *bin,
          const guint64 *keep)
{
  GpuPoolItem *items = NULL, *item;

  bins_lock (bins);
  while (items == NULL && *bin > 0 && have_more (bins, keep))
    {
      --*bin;
      while ((item = bins_pop_moving (bins, *bin)) != NULL)
        {
          item->below = items;
          items = item;
        }
    }
  bins_unlock (bins);

  return items;
}

static void
trim_items (GpuPoolBins   *bins,
            GpuPoolItem   *items,
            const guint64 *keep,
            gboolean       wait)
{
  GpuPoolItem *item;
  guint n_waits = 0;

  while ((item = items) != NULL)
    {
      items = item->below;
      if (is_too_much (bins, keep)
          && (fence_and_check (item)
              || (wait && _gpu_pool_item_follow (item, NULL, &n_waits, NULL))))
        {
          _gpu_pool_bins_discard (bins, item);
          continue;
        }
      put_back (bins, item);
    }
}

void
_gpu_pool_bins_trim_to (GpuPoolBins   *bins,
                        const guint64 *keep,
                        gboolean       wait)
{
  GpuPoolItem *items;
  guint bin = bins->n_bins;

  _gpu_pool_bins_sweep (bins);

  while ((items = take_bin (bins, &bin, keep)) != NULL)
    trim_items (bins, items, keep, wait);
}

void
_gpu_pool_bins_trim (GpuPoolBins *bins,
                     guint64      keep,
                     gboolean     wait)
{
  _gpu_pool_bins_trim_to (bins, &keep, wait);
}

/* --- out of memory --------------------------------------------------------------- */

/* Returns NULL and sets @refused on failure. */
static GpuPoolItem *
try_again (GpuPoolRequest  *request,
           GError         **refused)
{
  GpuPoolItem *item;

  g_clear_error (refused);
  item = take (request, refused);
  if (item == NULL && *refused == NULL)
    item = grow (request, refused);

  return item;
}

void
_gpu_pool_bins_get_stats (GpuPoolBins  *bins,
                          GpuPoolStats *stats)
{
  guint largest;

  bins_lock (bins);
  *stats = bins->stats;
  largest = bins_find_largest (bins);
  bins_unlock (bins);

  stats->largest_free = largest == 0 ? 0 : gpu_pool_bin_size (bins->bits, largest - 1);
}

void
_gpu_pool_bins_reset_peaks (GpuPoolBins *bins)
{
  GpuPoolStats *stats = &bins->stats;

  bins_lock (bins);
  stats->peak_active_bytes = stats->active_bytes;
  stats->peak_used_bytes = stats->used_bytes;
  stats->peak_managed_bytes = stats->managed_bytes;
  bins_unlock (bins);
}

static void
refuse (const GpuPoolRequest  *request,
        const GError          *refused,
        GError               **error)
{
  GpuPoolBins *bins = request->bins;
  GpuPoolStats stats;

  bins_lock (bins);
  bins->stats.n_refused++;
  bins_unlock (bins);
  _gpu_pool_bins_get_stats (bins, &stats);

  g_set_error (error, refused->domain, refused->code,
               "no memory for %" G_GSIZE_FORMAT " bytes, rounded to %" G_GSIZE_FORMAT
               ": %s; the pool has %" G_GUINT64_FORMAT " bytes, of which %" G_GUINT64_FORMAT
               " are active and %" G_GUINT64_FORMAT " held; the largest held block has %"
               G_GUINT64_FORMAT,
               request->size, gpu_pool_bin_size (bins->bits, request->bin), refused->message,
               stats.managed_bytes, stats.active_bytes, stats.managed_bytes - stats.used_bytes,
               stats.largest_free);
  if (bins_are_traced (bins))
    _gpu_pool_bins_print (bins, "a request of %" G_GSIZE_FORMAT " bytes fails: %s", request->size,
                          refused->message);
}

/* Frees held items until the request succeeds. The number of rounds is bounded, because other
 * threads may take the memory that this thread frees. */
static GpuPoolItem *
free_held (GpuPoolRequest  *request,
           GError         **refused)
{
  GpuPoolBins *bins = request->bins;
  g_autoptr (GError) stuck = NULL;
  GpuPoolItem *item = NULL;
  Refused unusable = { NULL, 0 };
  guint64 n_rounds;

  bins_lock (bins);
  n_rounds = bins->stats.held_blocks + MAX_MORE_ROUNDS;
  bins_unlock (bins);

  while (item == NULL && n_rounds-- > 0 && _gpu_error_is_out_of_memory (*refused)
         && free_largest (request, &unusable, &stuck))
    item = try_again (request, refused);

  put_back_refused (bins, &unusable);

  if (stuck != NULL)
    {
      g_clear_error (refused);
      g_propagate_error (refused, g_steal_pointer (&stuck));
    }

  return item;
}

static gboolean
make_room (const GpuPoolRequest *request,
           guint                *attempt)
{
  GpuPoolBins *bins = request->bins;

  if (bins_are_traced (bins))
    _gpu_pool_bins_print (bins, "still no memory for %" G_GSIZE_FORMAT " bytes, attempt %u",
                          request->size, *attempt);

  return bins->ops->make_room != NULL
         && bins->ops->make_room (bins->owner, request->size, attempt);
}

static GpuPoolItem *
make_room_and_retry (GpuPoolRequest  *request,
                     GError         **refused)
{
  GpuPoolItem *item;
  guint attempt = 0;

  if (bins_are_traced (request->bins))
    _gpu_pool_bins_print (request->bins, "no memory for %" G_GSIZE_FORMAT " bytes", request->size);

  item = free_held (request, refused);

  while (item == NULL && _gpu_error_is_out_of_memory (*refused) && make_room (request, &attempt))
    {
      item = try_again (request, refused);
      if (item == NULL)
        item = free_held (request, refused);
    }

  return item;
}

GpuPoolItem *
_gpu_pool_bins_alloc_slowly (GpuPoolRequest  *request,
                             GError         **error)
{
  g_autoptr (GError) refused = NULL;
  GpuPoolItem *item = try_again (request, &refused);

  if (item == NULL && _gpu_error_is_out_of_memory (refused))
    item = make_room_and_retry (request, &refused);

  if (item == NULL && _gpu_error_is_out_of_memory (refused))
    refuse (request, refused, error);
  else if (item == NULL)
    g_propagate_error (error, g_steal_pointer (&refused));

  return item;
}
