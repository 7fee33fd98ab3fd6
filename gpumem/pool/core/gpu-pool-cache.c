/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <errno.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __linux__
#include <linux/membarrier.h>
#endif

#include "gpumem/pool/core/gpu-pool-cache.h"

gboolean _gpu_pool_has_membarrier;

/* Maximum time to wait for the end of a move, in microseconds. A move is short, but it may destroy
 * data of the owner, whose function might itself wait for this thread. */
#define MAX_WAIT G_USEC_PER_SEC

static __thread GpuPoolCache *thread_caches;

/* Guards the lists that link caches to their threads and pools. Held while a cache or a pool is
 * created or destroyed. */
static pthread_mutex_t threads_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t exit_key;

/* --- the memory barrier on all threads ----------------------------------------------- */

#if defined (__NR_membarrier) && defined (MEMBARRIER_CMD_PRIVATE_EXPEDITED)
static gboolean
find_membarrier (void)
{
  return syscall (__NR_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

static void
make_barrier (void)
{
  if (_gpu_pool_has_membarrier)
    syscall (__NR_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}
#else
static gboolean
find_membarrier (void)
{
  return FALSE;
}

static void
make_barrier (void)
{
}
#endif

/* --- flushing ----------------------------------------------------------------------- */

/* Removes all blocks but @n_left from class @bin, and appends them to the list that ends at @end.
 * Returns the new end of the list. */
static GpuPoolNode **
take_class (GpuPoolCache        *cache,
            GpuPoolStreamCache  *stream_cache,
            guint                bin,
            guint                n_left,
            GpuPoolNode        **end)
{
  GpuPoolNode **link = &stream_cache->nodes[bin];

  for (guint i = 0; i < n_left && *link != NULL; i++)
    link = &(*link)->free_next;

  *end = *link;
  *link = NULL;
  stream_cache->depth[bin] = MIN (stream_cache->depth[bin], n_left);
  if (n_left == 0)
    stream_cache->filled[bin / 64] &= ~((guint64) 1 << bin % 64);

  for (; *end != NULL; end = &(*end)->free_next)
    __atomic_store_n (&cache->units, cache->units - (*end)->units, __ATOMIC_RELAXED);

  return end;
}

/* Returns the first class from @bin that has nodes, or GPU_POOL_CACHE_CLASSES. */
static guint
next_filled (const GpuPoolStreamCache *stream_cache,
             guint                     bin)
{
  guint word = bin / 64;
  guint64 filled = stream_cache->filled[word] & G_MAXUINT64 << bin % 64;

  while (filled == 0 && ++word < G_N_ELEMENTS (stream_cache->filled))
    filled = stream_cache->filled[word];

  return filled != 0 ? word * 64 + __builtin_ctzll (filled) : GPU_POOL_CACHE_CLASSES;
}

GpuPoolNode *
_gpu_pool_cache_evict_all (GpuPoolCache *cache)
{
  GpuPoolNode *list = NULL, **end = &list;

  for (GpuPoolStreamCache *stream_cache = cache->stream_caches;
       stream_cache != NULL && cache->units > 0; stream_cache = stream_cache->next)
    for (guint bin = next_filled (stream_cache, 0); bin < GPU_POOL_CACHE_CLASSES;
         bin = next_filled (stream_cache, bin + 1))
      end = take_class (cache, stream_cache, bin, 0, end);

  return list;
}

static void
uncache_list (GpuPool     *pool,
              GpuPoolNode *list)
{
  while (list != NULL)
    {
      GpuPoolNode *next = list->free_next;

      _gpu_pool_uncache (pool, list);
      list = next;
    }
}

/* Caller holds `lock`, and either runs on the thread that owns the cache, or has set `stolen` to
 * keep that thread out of the cache. */
static void
flush (GpuPool      *pool,
       GpuPoolCache *cache)
{
  _gpu_pool_add_counts (pool, &cache->counts);
  uncache_list (pool, _gpu_pool_cache_evict_all (cache));
}

static void
free_stream_caches (GpuPoolCache *cache)
{
  cache->last_used = NULL;
  while (cache->stream_caches != NULL)
    {
      GpuPoolStreamCache *stream_cache = cache->stream_caches;

      cache->stream_caches = stream_cache->next;
      if (stream_cache->stream != NULL)
        _gpu_pool_stream_unpin (stream_cache->stream);
      g_free (stream_cache);
    }
}

static void
wait_until_idle (GpuPoolCache *cache)
{
  for (guint n = 0; __atomic_load_n (&cache->busy, __ATOMIC_SEQ_CST) != 0; n++)
    if (n >= 100)
      sched_yield ();
}

gboolean
_gpu_pool_cache_flush_all (GpuPool  *pool,
                           gboolean  streams)
{
  GpuPoolCache *cache;
  gboolean any = streams || !pool->is_holding;

  for (cache = pool->caches; cache != NULL && !any; cache = cache->pool_next)
    any = __atomic_load_n (&cache->units, __ATOMIC_RELAXED) > 0;
  if (!any)
    return _gpu_pool_take_back (pool, NULL);

  pool->stats.n_flushes++;
  for (cache = pool->caches; cache != NULL; cache = cache->pool_next)
    __atomic_store_n (&cache->stolen, 1, __ATOMIC_SEQ_CST);
  make_barrier ();

  for (cache = pool->caches; cache != NULL; cache = cache->pool_next)
    {
      wait_until_idle (cache);
      flush (pool, cache);
      if (streams)
        free_stream_caches (cache);
      __atomic_store_n (&cache->stolen, 0, __ATOMIC_RELEASE);
    }

  _gpu_pool_take_back (pool, NULL);

  return TRUE;
}

gboolean
_gpu_pool_cache_flush_own (GpuPool *pool)
{
  GpuPoolCache *cache = gpu_pool_cache_here (pool);

  if (cache == NULL || cache->units == 0)
    return FALSE;

  flush (pool, cache);

  return TRUE;
}

/* Sums the changes of all caches and heaps. Sets @is_moving to TRUE if another thread is moving
 * free memory. Caller holds `lock`. */
static guint64
sum_changes (GpuPool  *pool,
             gboolean *is_moving)
{
  const GpuPoolCache *own = gpu_pool_cache_here (pool);
  guint64 n = pool->counts.n_frees + pool->n_past_moves;

  *is_moving = FALSE;
  for (guint i = 1; i < gpu_pool_n_heaps (pool); i++)
    n += __atomic_load_n (&gpu_pool_heap_at (pool, i)->counts.n_frees, __ATOMIC_RELAXED);
  for (GpuPoolCache *cache = pool->caches; cache != NULL; cache = cache->pool_next)
    {
      guint64 n_moves = __atomic_load_n (&cache->n_moves, __ATOMIC_SEQ_CST);

      n += n_moves + __atomic_load_n (&cache->counts.n_frees, __ATOMIC_RELAXED);
      *is_moving |= n_moves % 2 != 0 && cache != own;
    }

  return n;
}

guint64
_gpu_pool_cache_count_changes (GpuPool *pool)
{
  gboolean is_moving;
  guint64 n;

  _gpu_pool_lock (&pool->lock);
  n = sum_changes (pool, &is_moving);
  _gpu_pool_unlock (&pool->lock);

  return n;
}

gboolean
_gpu_pool_cache_has_changed (GpuPool  *pool,
                             guint64  *n_changes,
                             gboolean *has_moved)
{
  gint64 deadline = g_get_monotonic_time () + MAX_WAIT;
  gboolean is_moving, changed;
  guint64 n;

  /* A thread that ends its move later takes moves_lock, see gpu_pool_cache_end_move(). */
  g_atomic_int_inc (&pool->n_awaiting);
  _gpu_pool_lock (&pool->lock);
  g_mutex_lock (&pool->moves_lock);
  n = sum_changes (pool, &is_moving);
  _gpu_pool_unlock (&pool->lock);

  changed = n != *n_changes;
  *n_changes = n;
  if (is_moving && g_cond_wait_until (&pool->move_ended, &pool->moves_lock, deadline))
    changed = *has_moved = TRUE;
  g_mutex_unlock (&pool->moves_lock);
  g_atomic_int_add (&pool->n_awaiting, -1);

  return changed;
}

void
_gpu_pool_cache_wake (GpuPool *pool)
{
  g_mutex_lock (&pool->moves_lock);
  g_cond_broadcast (&pool->move_ended);
  g_mutex_unlock (&pool->moves_lock);
}

/* --- caches of a thread ----------------------------------------------------------- */

/* Unlinks @cache from @pool. Caller holds `lock`. */
static void
unlink_cache (GpuPool      *pool,
              GpuPoolCache *cache)
{
  if (cache->pool_prev != NULL)
    cache->pool_prev->pool_next = cache->pool_next;
  else
    pool->caches = cache->pool_next;
  if (cache->pool_next != NULL)
    cache->pool_next->pool_prev = cache->pool_prev;

  if (cache->heap != NULL)
    cache->heap->has_thread = FALSE;

  pool->n_caches--;
  pool->n_past_moves += __atomic_load_n (&cache->n_moves, __ATOMIC_RELAXED);
  _gpu_pool_set_cache_limits (pool);
  free_stream_caches (cache);
  __atomic_store_n (&cache->pool, NULL, __ATOMIC_RELEASE);
}

/* Runs when a thread exits. Returns the thread's cached blocks to the pools that still exist. */
static void
flush_thread (gpointer data)
{
  GpuPoolCache *cache = data;

  _gpu_pool_cache_current = NULL;
  cache = thread_caches;
  thread_caches = NULL;

  while (cache != NULL)
    {
      GpuPoolCache *next = cache->next;
      GpuPoolData *dropped = NULL;
      GpuPool *pool;

      pthread_mutex_lock (&threads_lock);
      pool = cache->pool;
      if (pool != NULL)
        {
          _gpu_pool_lock (&pool->lock);
          flush (pool, cache);
          unlink_cache (pool, cache);
          dropped = g_steal_pointer (&pool->dropped);
          _gpu_pool_unlock (&pool->lock);
        }
      pthread_mutex_unlock (&threads_lock);

      _gpu_pool_destroy_data (dropped);
      g_free (cache);
      cache = next;
    }
}

gboolean
_gpu_pool_cache_init (GError **error)
{
  static gboolean is_done;
  int code = 0;

  pthread_mutex_lock (&threads_lock);
  if (!is_done)
    {
      _gpu_pool_has_membarrier = find_membarrier ();
      code = pthread_key_create (&exit_key, flush_thread);
      is_done = code == 0;
    }
  pthread_mutex_unlock (&threads_lock);

  if (code == 0)
    return TRUE;

  /* g_strerror() would need a key, and abort without one. */
  g_set_error (error, GPU_ERROR,
               code == EAGAIN ? GPU_ERROR_NOT_SUPPORTED : GPU_ERROR_OUT_OF_HOST_MEMORY,
               "pthread_key_create() failed with the number %d: pools need one key of "
               "thread-specific data, and a process has at most %ld of them", code,
               sysconf (_SC_THREAD_KEYS_MAX));

  return FALSE;
}

/* Frees this thread's caches of pools that no longer exist. */
static void
free_dead_caches (void)
{
  GpuPoolCache **link = &thread_caches;

  while (*link != NULL)
    {
      GpuPoolCache *cache = *link;

      if (__atomic_load_n (&cache->pool, __ATOMIC_ACQUIRE) == NULL)
        {
          *link = cache->next;
          g_free (cache);
        }
      else
        link = &cache->next;
    }
}

static GpuPoolCache *
make_cache (GpuPool *pool)
{
  GpuPoolCache *cache;

  _gpu_pool_cache_current = NULL;
  free_dead_caches ();

  cache = g_new0 (GpuPoolCache, 1);
  cache->pool = pool;
  cache->next = thread_caches;
  thread_caches = cache;
  pthread_setspecific (exit_key, cache);

  _gpu_pool_lock (&pool->lock);
  cache->pool_next = pool->caches;
  if (pool->caches != NULL)
    pool->caches->pool_prev = cache;
  pool->caches = cache;
  pool->n_caches++;
  _gpu_pool_set_cache_limits (pool);
  _gpu_pool_unlock_and_destroy (pool);

  return cache;
}

GpuPoolCache *
_gpu_pool_cache_get (GpuPool  *pool,
                     gboolean  make)
{
  GpuPoolCache *cache;

  for (cache = thread_caches; cache != NULL; cache = cache->next)
    if (__atomic_load_n (&cache->pool, __ATOMIC_RELAXED) == pool)
      break;

  if (cache == NULL && make)
    cache = make_cache (pool);
  if (cache != NULL)
    _gpu_pool_cache_current = cache;

  return cache;
}

GpuPoolStream *
_gpu_pool_cache_get_stream (GpuPool      *pool,
                            GpuPoolCache *cache,
                            gpointer      key)
{
  GpuPoolStream *stream = NULL;
  GpuPoolStreamCache *stream_cache;
  gboolean fits_node;

  /* Hold the lock during the search: only this thread adds entries, but another thread may remove
   * entries. */
  _gpu_pool_lock (&pool->lock);
  stream_cache = gpu_pool_cache_find (cache, key);
  if (stream_cache != NULL)
    stream = stream_cache->stream;
  _gpu_pool_unlock (&pool->lock);
  if (stream_cache != NULL)
    return stream;

  stream_cache = g_new0 (GpuPoolStreamCache, 1);
  stream_cache->key = key;
  stream_cache->stream = _gpu_pool_streams_get_pinned (pool->streams, key);
  fits_node = gpu_pool_stream_fits_node (stream_cache->stream);
  if (G_LIKELY (fits_node))
    stream_cache->slot = gpu_pool_use_pack (_gpu_pool_stream_get_slot (stream_cache->stream), 0);
  else
    /* Full, so that gpu_pool_cache_push() adds no block. */
    memset (stream_cache->depth, GPU_POOL_CACHE_DEPTH, sizeof (stream_cache->depth));

  _gpu_pool_lock (&pool->lock);
  stream_cache->next = cache->stream_caches;
  cache->stream_caches = stream_cache;
  cache->last_used = stream_cache;
  stream = stream_cache->stream;
  if (fits_node)
    _gpu_pool_heap_get_free_list (pool, stream);
  _gpu_pool_unlock (&pool->lock);

  return stream;
}

GpuPoolNode *
_gpu_pool_cache_evict (GpuPoolCache       *cache,
                       GpuPoolStreamCache *stream_cache,
                       guint               bin)
{
  GpuPoolNode *list = NULL;

  if (G_UNLIKELY (!gpu_pool_stream_fits_node (stream_cache->stream)))
    return NULL;

  if (stream_cache->depth[bin] == GPU_POOL_CACHE_DEPTH)
    {
      take_class (cache, stream_cache, bin, GPU_POOL_CACHE_DEPTH / 2, &list);
      return list;
    }

  bin = next_filled (stream_cache, stream_cache->next_evicted);
  if (bin < GPU_POOL_CACHE_CLASSES)
    take_class (cache, stream_cache, bin, 0, &list);
  else
    list = _gpu_pool_cache_evict_all (cache);
  stream_cache->next_evicted = (bin + 1) % (GPU_POOL_CACHE_CLASSES + 1);

  return list;
}

void
_gpu_pool_cache_flush_some (GpuPool            *pool,
                            GpuPoolCache       *cache,
                            GpuPoolStreamCache *stream_cache,
                            guint               bin)
{
  uncache_list (pool, _gpu_pool_cache_evict (cache, stream_cache, bin));
}

void
_gpu_pool_cache_detach_all (GpuPool *pool)
{
  GpuPoolData *dropped;

  pthread_mutex_lock (&threads_lock);
  _gpu_pool_lock (&pool->lock);
  _gpu_pool_cache_flush_all (pool, FALSE);
  while (pool->caches != NULL)
    {
      _gpu_pool_add_counts (pool, &pool->caches->counts);
      unlink_cache (pool, pool->caches);
    }
  dropped = g_steal_pointer (&pool->dropped);
  _gpu_pool_unlock (&pool->lock);
  pthread_mutex_unlock (&threads_lock);

  _gpu_pool_destroy_data (dropped);
}
