/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * One range of addresses with pieces of memory behind some of them. What is free but in the wrong
 * place is taken away there and put where a request needs it, so that fragments cost nothing but
 * calls.
 */
#include "config.h"

#include "gpumem/pool/gpu-pool-private.h"

/* Pieces are as large as can be for few calls, but small parts of what they serve and of all there
 * is: only whole ones move. */
#define MAX_PIECE      (64 * 1024 * 1024)
#define PIECE_REQUEST  16
#define PIECE_PEAK     256
/* Pieces that are moved by one request: more would take longer than new memory is worth. */
#define MAX_MOVED      256
/* Over so many times the waste it waits rather than makes more. That ends: a program that has all
 * the memory it needs grows no more. */
#define PATIENCE       1.3
/* Granules that are not worth a thought. */
#define SLACK          4
/* Nodes on each side of a gap that are looked at. */
#define RADIUS         4

/* Which piece is behind each granule. */
typedef struct
{
  gpointer piece;                   /* NULL: none */
  guint32  first;                   /* granules */
  guint32  n;
} Granule;

struct _GpuPoolPieces
{
  GpuPoolArea *area;
  guint32      granule;             /* units */
  guint        n_granules;
  Granule     *granules;            /* changed with the lock of growth held */
  GpuPoolNode *gaps;                /* by address, by free_next; guarded by the lock of the heap */
};

/* Memory without an address, on its way. */
typedef struct
{
  gpointer piece;
  guint32  first;                   /* where it was, in granules */
  guint32  n;
} Piece;

/* Neighbours that are free or a gap, and will be one range. */
typedef struct
{
  GpuPoolNode *first;
  GpuPoolNode *last;
  guint32      skip;                /* units of a gap at the beginning that stay one */
  guint32      leave;               /* the same at the end */
  guint64      cost;                /* units that have to be mapped */
} Window;

typedef struct
{
  GpuPool              *pool;
  GpuPoolPieces        *pieces;
  const GpuPoolRequest *request;
  gsize                 largest;    /* bytes of new pieces */
  gboolean              overshoot;  /* may move more than was asked for */
  GArray               *moved;      /* of Piece: taken from elsewhere */
  GPtrArray            *holes;      /* nodes: where they were */
  guint64               created;    /* granules */
  guint                 n_unmaps;
} Growth;

/* --- gaps: under the lock of the heap -------------------------------------------------- */

static void
add_gap (GpuPool     *pool,
         GpuPoolNode *node)
{
  GpuPoolPieces *pieces = pool->pieces;
  GpuPoolNode *prev = NULL, *next = pieces->gaps;

  while (next != NULL && next->offset < node->offset)
    {
      prev = next;
      next = next->free_next;
    }

  gpu_pool_node_set_state (node, GPU_POOL_NODE_GAP);
  node->use = 0;
  node->free_prev = prev;
  node->free_next = next;
  if (prev != NULL)
    prev->free_next = node;
  else
    pieces->gaps = node;
  if (next != NULL)
    next->free_prev = node;
}

static void
remove_gap (GpuPool     *pool,
            GpuPoolNode *node)
{
  if (node->free_prev != NULL)
    node->free_prev->free_next = node->free_next;
  else
    pool->pieces->gaps = node->free_next;
  if (node->free_next != NULL)
    node->free_next->free_prev = node->free_prev;

  gpu_pool_node_set_state (node, GPU_POOL_NODE_BUSY);
}

/* @node, which is busy, has no memory any more. */
static void
make_gap (GpuPool     *pool,
          GpuPoolNode *node)
{
  GpuPoolNode *prev = node->prev, *next = node->next;

  if (next != NULL && gpu_pool_node_state (next) == GPU_POOL_NODE_GAP)
    {
      remove_gap (pool, next);
      _gpu_pool_heap_join_next (pool, node);
    }

  if (prev != NULL && gpu_pool_node_state (prev) == GPU_POOL_NODE_GAP)
    {
      remove_gap (pool, prev);
      _gpu_pool_heap_join_next (pool, prev);
      node = prev;
    }

  add_gap (pool, node);
}

void
_gpu_pool_pieces_new (GpuPool *pool)
{
  const GpuPoolConfig *config = &pool->config;
  GpuPoolPieces *pieces = g_new0 (GpuPoolPieces, 1);
  GpuPoolSegment segment = { config->range_address, 0, NULL };

  pieces->granule = config->granularity >> pool->unit_shift;
  pieces->n_granules = config->range_size / config->granularity;
  pieces->granules = g_new0 (Granule, pieces->n_granules);
  segment.size = pieces->n_granules * config->granularity;
  pool->pieces = pieces;

  pieces->area = _gpu_pool_heap_add_area (pool, &segment);
  add_gap (pool, pieces->area->first);
}

static void
destroy_piece (GpuPool     *pool,
               const Piece *piece)
{
  pool->ops.destroy_piece (pool->owner, piece->piece, piece->n * pool->config.granularity);
}

static void
unmap_piece (GpuPool     *pool,
             const Piece *piece)
{
  gsize granularity = pool->config.granularity;

  pool->ops.unmap_piece (pool->owner, piece->first * granularity, piece->piece,
                         piece->n * granularity);
  memset (pool->pieces->granules + piece->first, 0, piece->n * sizeof (Granule));
}

/* Whatever is still there goes, over or not. */
void
_gpu_pool_pieces_free (GpuPool *pool)
{
  GpuPoolPieces *pieces = pool->pieces;

  for (guint i = 0; i < pieces->n_granules; i++)
    if (pieces->granules[i].piece != NULL)
      {
        Piece piece = { pieces->granules[i].piece, i, pieces->granules[i].n };

        unmap_piece (pool, &piece);
        destroy_piece (pool, &piece);
      }

  g_free (pieces->granules);
  g_free (pieces);
}

/* --- where it should be: under the lock of the heap ------------------------------------ */

static gboolean
is_part (GpuPool     *pool,
         GpuPoolNode *node,
         guint        slot)
{
  GpuPoolNodeState state = gpu_pool_node_state (node);

  return state == GPU_POOL_NODE_GAP
         || (state == GPU_POOL_NODE_FREE
             && (gpu_pool_use_slot (node->use) == slot
                 || _gpu_pool_heap_is_over (pool, node->use)));
}

/* From @first on, to the right or to the left; keeps what is cheaper. */
static void
try_window (Growth      *growth,
            GpuPoolNode *first,
            GpuPoolNode *end,
            guint64      needed,
            gboolean     left,
            Window      *best)
{
  guint32 granule = growth->pieces->granule;
  guint64 sum = 0, cost = 0;

  for (GpuPoolNode *node = first; ; node = left ? node->prev : node->next)
    {
      guint32 rest = 0;

      if (gpu_pool_node_state (node) == GPU_POOL_NODE_GAP)
        {
          guint64 take = (needed - sum + granule - 1) / granule * granule;

          take = MIN (take, node->units);
          rest = node->units - take;
          cost += take;
          sum += take;
        }
      else
        sum += node->units;

      if (cost >= best->cost)
        break;

      if (sum >= needed)
        {
          *best = (Window) { left ? node : first, left ? first : node,
                             left ? rest : 0, left ? 0 : rest, cost };
          break;
        }

      if (node == end)
        break;
    }
}

static gboolean
find_window (Growth *growth,
             Window *best)
{
  guint64 needed = (guint64) growth->request->units + growth->request->align - 1;
  guint slot = growth->request->slot;

  best->cost = G_MAXUINT64;

  for (GpuPoolNode *gap = growth->pieces->gaps; gap != NULL; gap = gap->free_next)
    {
      GpuPoolNode *first = gap, *last = gap;

      for (guint i = 0; i < RADIUS && first->prev != NULL
           && is_part (growth->pool, first->prev, slot); i++)
        first = first->prev;
      for (guint i = 0; i < RADIUS && last->next != NULL
           && is_part (growth->pool, last->next, slot); i++)
        last = last->next;

      for (GpuPoolNode *node = first; ; node = node->next)
        {
          try_window (growth, node, last, needed, FALSE, best);
          /* The last gap of all is filled from below. */
          if (node->next != NULL)
            try_window (growth, node, first, needed, TRUE, best);
          if (node == last)
            break;
        }
    }

  return best->cost != G_MAXUINT64;
}

/* Its nodes are busy; gaps among them still have no memory. */
static void
take_window (Growth *growth,
             Window *window)
{
  GpuPool *pool = growth->pool;
  GpuPoolNode *end;

  if (window->leave > 0)
    {
      GpuPoolNode *rest;

      remove_gap (pool, window->last);
      rest = _gpu_pool_heap_split (pool, window->last, window->last->units - window->leave);
      add_gap (pool, rest);
      if (window->skip == 0 || window->first != window->last)
        add_gap (pool, window->last);
    }
  if (window->skip > 0)
    {
      GpuPoolNode *rest = window->first;

      remove_gap (pool, rest);
      window->first = _gpu_pool_heap_split (pool, rest, window->skip);
      if (window->last == rest)
        window->last = window->first;
      add_gap (pool, rest);
      add_gap (pool, window->first);
    }

  end = window->last->next;
  for (GpuPoolNode *node = window->first; node != end; node = node->next)
    if (gpu_pool_node_state (node) == GPU_POOL_NODE_GAP)
      {
        remove_gap (pool, node);
        node->flag = TRUE;
      }
    else
      {
        _gpu_pool_heap_remove (pool, node);
        node->flag = FALSE;
      }
}

/* --- what can be moved: under the lock of the heap ------------------------------------- */

/* Takes whole pieces out of @node, which is free and over. */
static guint32
take_pieces (Growth      *growth,
             GpuPoolNode *node,
             guint32      max)
{
  GpuPool *pool = growth->pool;
  GpuPoolPieces *pieces = growth->pieces;
  guint32 granule = pieces->granule, taken = 0;
  guint32 at = (node->offset + granule - 1) / granule;
  guint32 end = (node->offset + node->units) / granule;
  guint32 from, to;

  /* Not one that begins before. */
  if (at < end && pieces->granules[at].first != at)
    at = pieces->granules[at].first + pieces->granules[at].n;

  for (from = to = at; to < end && growth->moved->len < MAX_MOVED; to += pieces->granules[to].n)
    {
      Piece piece = { pieces->granules[to].piece, to, pieces->granules[to].n };

      if (to + piece.n > end || taken >= max || (taken + piece.n > max && !growth->overshoot))
        break;
      g_array_append_val (growth->moved, piece);
      taken += piece.n;
    }

  if (taken > 0)
    {
      guint64 use = node->use;

      _gpu_pool_heap_remove (pool, node);
      if (from * granule > node->offset)
        {
          GpuPoolNode *front = node;

          node = _gpu_pool_heap_split (pool, front, from * granule - front->offset);
          _gpu_pool_heap_add (pool, front, use);
        }
      if (node->units > taken * granule)
        _gpu_pool_heap_add (pool, _gpu_pool_heap_split (pool, node, taken * granule), use);
      g_ptr_array_add (growth->holes, node);
    }

  return taken;
}

/* What is over, the largest ranges first. */
static GPtrArray *
find_ranges (GpuPool *pool,
             guint32  units)
{
  GPtrArray *ranges = g_ptr_array_new ();

  for (guint slot = 0; slot < pool->n_frees; slot++)
    {
      GpuPoolFrees *frees = pool->frees[slot];
      guint bin = G_MAXUINT;
      GpuPoolNode *node;

      if (frees == NULL || frees->n == 0)
        continue;

      for (node = _gpu_pool_index_next (&frees->index, NULL, &bin);
           node != NULL && node->units >= units && ranges->len < MAX_MOVED;
           node = _gpu_pool_index_next (&frees->index, node, &bin))
        if (_gpu_pool_heap_is_over (pool, node->use))
          g_ptr_array_add (ranges, node);
    }

  return ranges;
}

/* @max in granules. */
static guint32
take_all_pieces (Growth  *growth,
                 guint32  max)
{
  GpuPool *pool = growth->pool;
  g_autoptr (GPtrArray) ranges = find_ranges (pool, growth->pieces->granule);
  guint32 taken = 0;

  /* Taking from one may change another, which then is looked at as what it is now. */
  for (guint i = 0; i < ranges->len && taken < max; i++)
    {
      GpuPoolNode *node = g_ptr_array_index (ranges, i);

      if (gpu_pool_node_state (node) == GPU_POOL_NODE_FREE
          && _gpu_pool_heap_is_over (pool, node->use))
        taken += take_pieces (growth, node, max - taken);
    }

  return taken;
}

static void
start (Growth               *growth,
       GpuPool              *pool,
       const GpuPoolRequest *request)
{
  *growth = (Growth) { .pool = pool, .pieces = pool->pieces, .request = request };
  growth->moved = g_array_new (FALSE, FALSE, sizeof (Piece));
  growth->holes = g_ptr_array_new ();
}

static void
finish (Growth *growth)
{
  g_array_unref (growth->moved);
  g_ptr_array_unref (growth->holes);
}

static void
unmap_moved (Growth *growth)
{
  GpuPool *pool = growth->pool;

  for (guint i = 0; i < growth->moved->len; i++)
    unmap_piece (pool, &g_array_index (growth->moved, Piece, i));
  growth->n_unmaps += growth->moved->len;

  _gpu_pool_lock (&pool->lock);
  for (guint i = 0; i < growth->holes->len; i++)
    make_gap (pool, g_ptr_array_index (growth->holes, i));
  _gpu_pool_leave (pool);
}

/* --- putting memory there: without the lock -------------------------------------------- */

/* The largest that fits, of those that are moved or a new one. */
static gboolean
get_piece (Growth   *growth,
           guint32   max,
           Piece    *piece,
           GError  **error)
{
  GpuPool *pool = growth->pool;
  gsize granularity = pool->config.granularity;
  gint best = -1;

  for (guint i = 0; i < growth->moved->len; i++)
    {
      const Piece *moved = &g_array_index (growth->moved, Piece, i);

      if (moved->n <= max
          && (best < 0 || moved->n > g_array_index (growth->moved, Piece, best).n))
        best = i;
    }

  if (best >= 0)
    {
      *piece = g_array_index (growth->moved, Piece, best);
      g_array_remove_index_fast (growth->moved, best);
      return TRUE;
    }

  piece->n = 1;
  while (2 * piece->n <= max && 2 * piece->n * granularity <= growth->largest)
    piece->n *= 2;

  piece->piece = pool->ops.create_piece (pool->owner, piece->n * granularity, error);
  if (piece->piece == NULL)
    return FALSE;

  growth->created += piece->n;

  return TRUE;
}

static gboolean
map_parts (Growth   *growth,
           guint32   first,
           GArray   *parts,
           GError  **error)
{
  GpuPool *pool = growth->pool;
  gsize granularity = pool->config.granularity;
  g_autofree gpointer *pieces = g_new (gpointer, parts->len);
  g_autofree gsize *sizes = g_new (gsize, parts->len);

  for (guint i = 0; i < parts->len; i++)
    {
      pieces[i] = g_array_index (parts, Piece, i).piece;
      sizes[i] = g_array_index (parts, Piece, i).n * granularity;
    }

  if (!pool->ops.map_pieces (pool->owner, first * granularity, pieces, sizes, parts->len, error))
    return FALSE;

  for (guint i = 0; i < parts->len; i++)
    {
      const Piece *part = &g_array_index (parts, Piece, i);

      for (guint32 j = 0; j < part->n; j++)
        growth->pieces->granules[first + j] = (Granule) { part->piece, first, part->n };
      first += part->n;
    }

  _gpu_pool_lock (&pool->lock);
  pool->stats.n_maps++;
  _gpu_pool_unlock (&pool->lock);

  return TRUE;
}

/* All of a gap, or nothing. */
static gboolean
fill_gap (Growth       *growth,
          GpuPoolNode  *node,
          GError      **error)
{
  g_autoptr (GArray) parts = g_array_new (FALSE, FALSE, sizeof (Piece));
  guint32 granule = growth->pieces->granule;
  guint32 left = node->units / granule;
  gboolean filled = TRUE;

  while (left > 0 && filled)
    {
      Piece piece = { NULL, };

      filled = get_piece (growth, left, &piece, error);
      if (filled)
        {
          g_array_append_val (parts, piece);
          left -= piece.n;
        }
    }

  if (filled)
    filled = map_parts (growth, node->offset / granule, parts, error);

  if (!filled)
    g_array_append_vals (growth->moved, parts->data, parts->len);

  return filled;
}

/* Takes back what was put behind the nodes from @first to before @end. */
static void
empty_gaps (Growth      *growth,
            GpuPoolNode *first,
            GpuPoolNode *end)
{
  guint32 granule = growth->pieces->granule;

  for (GpuPoolNode *node = first; node != end; node = node->next)
    for (guint32 at = node->offset / granule;
         node->flag && at < (node->offset + node->units) / granule; )
      {
        Piece piece = { growth->pieces->granules[at].piece, at, growth->pieces->granules[at].n };

        unmap_piece (growth->pool, &piece);
        growth->n_unmaps++;
        g_array_append_val (growth->moved, piece);
        at += piece.n;
      }
}

static gboolean
fill_window (Growth        *growth,
             const Window  *window,
             GError       **error)
{
  for (GpuPoolNode *node = window->first; ; node = node->next)
    {
      if (node->flag && !fill_gap (growth, node, error))
        {
          empty_gaps (growth, window->first, node);
          return FALSE;
        }

      /* Others may change what comes behind the last one. */
      if (node == window->last)
        return TRUE;
    }
}

/* Pieces that found no place go; the lock is not held. */
static void
destroy_moved (Growth *growth)
{
  GpuPool *pool = growth->pool;
  guint64 destroyed = 0;

  for (guint i = 0; i < growth->moved->len; i++)
    {
      destroy_piece (pool, &g_array_index (growth->moved, Piece, i));
      destroyed += g_array_index (growth->moved, Piece, i).n;
    }

  _gpu_pool_lock (&pool->lock);
  pool->stats.n_unmaps += growth->n_unmaps;
  _gpu_pool_count_managed (pool, ((gint64) growth->created - destroyed)
                                 * (gint64) pool->config.granularity);
  _gpu_pool_unlock (&pool->lock);
}

/* --- growth ---------------------------------------------------------------------------- */

/* How much of @cost bytes should be moved rather than made, where @waste is allowed. */
static guint64
get_shortage (GpuPool              *pool,
              const GpuPoolRequest *request,
              guint64               cost,
              double                waste)
{
  guint64 used = _gpu_pool_sum_used (pool) + gpu_pool_bytes (pool, request->units);
  guint64 allowed = MAX (pool->stats.peak_used_bytes, used) * (1.0 + waste)
                    + SLACK * pool->config.granularity;
  guint64 managed = pool->stats.managed_bytes + cost;

  if (pool->limits.soft_limit != 0)
    allowed = MIN (allowed, pool->limits.soft_limit);
  if (pool->limits.limit != 0)
    allowed = MIN (allowed, pool->limits.limit);

  return managed > allowed ? MIN (managed - allowed, cost) : 0;
}

static gboolean
prepare (Growth    *growth,
         Window    *window,
         gboolean   frugal,
         GError   **error)
{
  GpuPool *pool = growth->pool;
  gsize granularity = pool->config.granularity;
  guint64 limit = pool->limits.limit, cost, moved;

  if (!find_window (growth, window))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY,
                   "no %" G_GUINT64_FORMAT " bytes of addresses are left together",
                   (guint64) gpu_pool_bytes (pool, growth->request->units));
      return FALSE;
    }

  growth->largest = MIN (growth->request->size / PIECE_REQUEST, MAX_PIECE);
  growth->largest = MIN (growth->largest, pool->stats.peak_used_bytes / PIECE_PEAK);

  take_window (growth, window);
  cost = gpu_pool_bytes (pool, window->cost);
  moved = frugal ? cost : get_shortage (pool, growth->request, cost, pool->limits.waste);
  moved = take_all_pieces (growth, (moved + granularity - 1) / granularity) * granularity;
  pool->stats.n_recycled += growth->moved->len;

  if (limit != 0 && pool->stats.managed_bytes + cost - moved > limit)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY,
                   "the limit of the pool leaves %" G_GUINT64_FORMAT " bytes",
                   limit - MIN (limit, pool->stats.managed_bytes - moved));
      return FALSE;
    }

  return TRUE;
}

/* Under the lock of the heap: its nodes are what they were before. */
static void
give_up_window (Growth       *growth,
                const Window *window)
{
  GpuPoolNode *end = window->last->next;
  GpuPoolNode *node, *next;

  for (node = window->first; node != end; node = next)
    {
      next = node->next;
      if (node->flag)
        make_gap (growth->pool, node);
      else
        _gpu_pool_heap_add (growth->pool, node, node->use);
    }
}

static void
rejoin (GpuPool     *pool,
        GpuPoolNode *node)
{
  if (node == NULL || gpu_pool_node_state (node) != GPU_POOL_NODE_FREE)
    return;

  _gpu_pool_heap_remove (pool, node);
  _gpu_pool_heap_add (pool, node, node->use);
}

static GpuPoolNode *
use_window (Growth       *growth,
            const Window *window)
{
  GpuPool *pool = growth->pool;
  GpuPoolNode *node = window->first, *end = window->last->next;
  guint64 use = gpu_pool_use_pack (growth->request->slot, 0);

  for (GpuPoolNode *part = window->first; part != end; part = part->next)
    if (!part->flag && gpu_pool_use_slot (part->use) == growth->request->slot)
      use = MAX (use, part->use);

  while (node->next != end)
    _gpu_pool_heap_join_next (pool, node);

  node->use = use;
  pool->stats.n_growths++;
  node = _gpu_pool_serve_from (pool, node, growth->request);

  /* What is left may have got neighbours meanwhile. */
  rejoin (pool, node->prev);
  rejoin (pool, node->next);

  return node;
}

static GpuPoolNode *
grow (GpuPool               *pool,
      const GpuPoolRequest  *request,
      gboolean               frugal,
      GError               **error)
{
  GpuPoolNode *node = NULL;
  Window window = { NULL, };
  gboolean ready;
  Growth growth;

  start (&growth, pool, request);

  _gpu_pool_lock (&pool->lock);
  ready = prepare (&growth, &window, frugal, error);
  _gpu_pool_leave (pool);

  unmap_moved (&growth);
  if (ready)
    ready = fill_window (&growth, &window, error);
  destroy_moved (&growth);

  _gpu_pool_lock (&pool->lock);
  if (ready)
    node = use_window (&growth, &window);
  else if (window.first != NULL)
    give_up_window (&growth, &window);
  _gpu_pool_leave (pool);

  finish (&growth);

  return node;
}

/* Bytes of what is over that could be moved, as far as it is easily told. */
static guint64
count_movable (GpuPool *pool)
{
  guint32 granule = pool->pieces->granule;
  g_autoptr (GPtrArray) ranges = find_ranges (pool, granule);
  guint64 n = 0;

  for (guint i = 0; i < ranges->len; i++)
    {
      const GpuPoolNode *node = g_ptr_array_index (ranges, i);
      guint32 from = (node->offset + granule - 1) / granule;

      n += MAX ((node->offset + node->units) / granule, from) - from;
    }

  return n * pool->config.granularity;
}

typedef enum
{
  PLENTY,
  SCARCE,                           /* worth to know what is over */
  SHORT                             /* worth to wait until more is */
} Supply;

static Supply
get_supply (GpuPool              *pool,
            const GpuPoolRequest *request)
{
  guint64 cost = gpu_pool_bytes (pool, request->units);
  double waste = pool->limits.waste;
  Supply supply = PLENTY;

  _gpu_pool_lock (&pool->lock);
  if (get_shortage (pool, request, cost, waste) > 0)
    supply = SCARCE;
  if (supply == SCARCE
      && get_shortage (pool, request, cost, PATIENCE * waste) > count_movable (pool))
    supply = SHORT;
  _gpu_pool_unlock (&pool->lock);

  return supply;
}

static GpuPoolNode *
serve (GpuPool              *pool,
       const GpuPoolRequest *request)
{
  GpuPoolNode *node;

  _gpu_pool_lock (&pool->lock);
  node = _gpu_pool_serve (pool, request);
  _gpu_pool_leave (pool);

  return node;
}

/* Before there is more memory than there should be. */
static GpuPoolNode *
find_more (GpuPool              *pool,
           const GpuPoolRequest *request)
{
  GpuPoolNode *node;

  if (get_supply (pool, request) == PLENTY)
    return NULL;

  _gpu_pool_settle (pool);
  node = serve (pool, request);
  while (node == NULL && get_supply (pool, request) == SHORT
         && _gpu_pool_wait_for_pending (pool, request))
    node = serve (pool, request);

  return node;
}

GpuPoolNode *
_gpu_pool_pieces_grow (GpuPool               *pool,
                       const GpuPoolRequest  *request,
                       GError               **error)
{
  GError *local_error = NULL;
  GpuPoolNode *node = find_more (pool, request);

  if (node != NULL)
    return node;

  node = grow (pool, request, FALSE, &local_error);
  if (node == NULL
      && g_error_matches (local_error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY))
    {
      g_clear_error (&local_error);
      node = grow (pool, request, TRUE, &local_error);
    }

  if (node == NULL)
    g_propagate_error (error, local_error);

  return node;
}

gboolean
_gpu_pool_pieces_shrink (GpuPool *pool,
                         guint64  keep)
{
  gsize granularity = pool->config.granularity;
  gboolean any = FALSE, more = TRUE;

  while (more)
    {
      Growth growth;

      start (&growth, pool, NULL);
      growth.overshoot = TRUE;

      _gpu_pool_lock (&pool->lock);
      if (pool->stats.managed_bytes > keep)
        take_all_pieces (&growth, (pool->stats.managed_bytes - keep + granularity - 1)
                                  / granularity);
      _gpu_pool_leave (pool);

      more = growth.moved->len > 0;
      any |= more;
      if (more)
        {
          unmap_moved (&growth);
          destroy_moved (&growth);
        }
      finish (&growth);
    }

  return any;
}
