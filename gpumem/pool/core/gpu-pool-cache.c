/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __linux__
#include <linux/membarrier.h>
#endif

#include "gpumem/pool/core/gpu-pool-cache.h"

gboolean _gpu_pool_has_membarrier;

static __thread GpuPoolCache *thread_caches;

/* Guards the ways between threads and pools: taken when one of them comes or goes. */
static pthread_mutex_t threads_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t exit_key;

/* --- the barrier ------------------------------------------------------------------ */

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

/* --- putting back ------------------------------------------------------------------- */

static void
flush_class (GpuPool       *pool,
             GpuPoolCache  *cache,
             GpuPoolDrawer *drawer,
             guint          bin,
             guint          n_left)
{
  GpuPoolNode **place = &drawer->nodes[bin];
  GpuPoolNode *node;

  for (guint i = 0; i < n_left && *place != NULL; i++)
    place = &(*place)->free_next;

  node = *place;
  *place = NULL;
  drawer->depth[bin] = MIN (drawer->depth[bin], n_left);

  while (node != NULL)
    {
      GpuPoolNode *next = node->free_next;

      __atomic_store_n (&cache->units, cache->units - node->units, __ATOMIC_RELAXED);
      _gpu_pool_heap_add (pool, node, node->use);
      pool->n_out--;
      node = next;
    }
}

/* The thread itself, or a thief: the pool is locked. */
static void
flush (GpuPool      *pool,
       GpuPoolCache *cache)
{
  _gpu_pool_add_counts (pool, &cache->counts);

  for (GpuPoolDrawer *drawer = cache->drawers; drawer != NULL && cache->units > 0;
       drawer = drawer->next)
    for (guint bin = 0; bin < GPU_POOL_CACHE_CLASSES; bin++)
      if (drawer->nodes[bin] != NULL)
        flush_class (pool, cache, drawer, bin, 0);
}

static void
free_drawers (GpuPoolCache *cache)
{
  cache->drawer = NULL;
  while (cache->drawers != NULL)
    {
      GpuPoolDrawer *drawer = cache->drawers;

      cache->drawers = drawer->next;
      if (drawer->stream != NULL)
        _gpu_pool_stream_unpin (drawer->stream);
      g_free (drawer);
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
    return FALSE;

  for (cache = pool->caches; cache != NULL; cache = cache->pool_next)
    __atomic_store_n (&cache->stolen, 1, __ATOMIC_SEQ_CST);
  make_barrier ();

  for (cache = pool->caches; cache != NULL; cache = cache->pool_next)
    {
      wait_until_idle (cache);
      flush (pool, cache);
      if (streams)
        free_drawers (cache);
      __atomic_store_n (&cache->stolen, 0, __ATOMIC_RELEASE);
    }

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

/* --- of a thread -------------------------------------------------------------------- */

/* Takes the cache from its pool, which is locked. */
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

  pool->n_caches--;
  _gpu_pool_set_cache_limits (pool);
  free_drawers (cache);
  __atomic_store_n (&cache->pool, NULL, __ATOMIC_RELEASE);
}

/* The thread ends: what other threads may use goes back to the pools that are still there. */
static void
leave_thread (gpointer data)
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

static void
init_threads (void)
{
  _gpu_pool_has_membarrier = find_membarrier ();
  if (pthread_key_create (&exit_key, leave_thread) != 0)
    g_error ("gpumem: there is no more place for variables of threads");
}

/* Those whose pool is gone. */
static void
free_dead_caches (void)
{
  GpuPoolCache **place = &thread_caches;

  while (*place != NULL)
    {
      GpuPoolCache *cache = *place;

      if (__atomic_load_n (&cache->pool, __ATOMIC_ACQUIRE) == NULL)
        {
          *place = cache->next;
          g_free (cache);
        }
      else
        place = &cache->next;
    }
}

static GpuPoolCache *
make_cache (GpuPool *pool)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  GpuPoolCache *cache;

  pthread_once (&once, init_threads);
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
  _gpu_pool_leave (pool);

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
  GpuPoolDrawer *drawer;

  /* Only this thread adds any, and the lock keeps others from taking them away meanwhile. */
  _gpu_pool_lock (&pool->lock);
  drawer = gpu_pool_cache_find (cache, key);
  if (drawer != NULL)
    stream = drawer->stream;
  _gpu_pool_unlock (&pool->lock);
  if (drawer != NULL)
    return stream;

  drawer = g_new0 (GpuPoolDrawer, 1);
  drawer->key = key;
  drawer->stream = _gpu_pool_streams_get_pinned (pool->streams, key);
  drawer->slot = gpu_pool_use_pack (_gpu_pool_stream_get_slot (drawer->stream), 0);

  _gpu_pool_lock (&pool->lock);
  drawer->next = cache->drawers;
  cache->drawers = drawer;
  cache->drawer = drawer;
  stream = drawer->stream;
  _gpu_pool_heap_get_frees (pool, stream);
  _gpu_pool_unlock (&pool->lock);

  return stream;
}

/* The first class from @bin on that has nodes, or @end. */
static guint
next_filled (GpuPoolDrawer *drawer,
             guint          bin,
             guint          end)
{
  while (bin < end)
    {
      guint64 *word = &drawer->filled[bin / 64];
      guint64 filled = *word >> bin % 64;

      if (filled == 0)
        bin = (bin / 64 + 1) * 64;
      else
        {
          bin += __builtin_ctzll (filled);
          if (drawer->nodes[bin] != NULL)
            break;
          *word &= ~((guint64) 1 << bin % 64);
        }
    }

  return MIN (bin, end);
}

GpuPoolNode *
_gpu_pool_cache_reach (GpuPoolDrawer *drawer,
                       guint         *bin)
{
  guint end = MIN (*bin + 1 + MIN (*bin / 8, GPU_POOL_CACHE_REACH), GPU_POOL_CACHE_CLASSES);
  guint next = next_filled (drawer, *bin + 1, end);

  if (next == end)
    return NULL;

  *bin = next;

  return drawer->nodes[next];
}

/* Each class in turn makes room; after the last one all go, with what is kept for other streams. */
void
_gpu_pool_cache_shed (GpuPool       *pool,
                      GpuPoolCache  *cache,
                      GpuPoolDrawer *drawer,
                      guint          bin)
{
  if (drawer->depth[bin] == GPU_POOL_CACHE_DEPTH)
    {
      flush_class (pool, cache, drawer, bin, GPU_POOL_CACHE_DEPTH / 2);
      return;
    }

  bin = next_filled (drawer, drawer->hand, GPU_POOL_CACHE_CLASSES);
  if (bin < GPU_POOL_CACHE_CLASSES)
    flush_class (pool, cache, drawer, bin, 0);
  else
    flush (pool, cache);
  drawer->hand = (bin + 1) % (GPU_POOL_CACHE_CLASSES + 1);
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
