/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Buffers over blocks of a pool. When a buffer is released, its block is freed at once, and the
 * pool tracks the pending uses. Buffer objects are recycled. */
#include "config.h"

#include "gpumem/allocator/gpu-basic-allocator.h"
#include "gpumem/base/gpu-attributes-private.h"
#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/base/gpu-signal-private.h"
#include "gpumem/gpumem-bindings.h"
#include "gpumem/memory/gpu-memory-private.h"
#include "gpumem/pool/gpu-memory-pool-private.h"

#define MAX_DATA   16
#define MAX_YIELDS 100000

/* The pool's data about a buffer, in one cache line. The members `suballocation` and `owner` of the
 * buffer's storage point to it. */
typedef struct
{
  GpuSuballocation      suballocation;
  GpuPoolCore          *core;
  GpuPoolView          *view;       /* view of the suballocation; after the suballocation is freed,
                                     * the view stays alive until the work on the buffer has
                                     * completed */
  GpuPoolSuballocation  held;       /* the suballocation; NULL after it is freed */
  GpuTimeline          *timeline;   /* the allocation stream */
  GpuMemoryPool        *pool;       /* referenced while the buffer is spilled, or NULL */
} Pooled;

G_STATIC_ASSERT (sizeof (Pooled) <= GPU_LINE);

static inline Pooled *
get_pooled (GpuStorage *storage)
{
  return (Pooled *) storage->suballocation;
}

static void
free_suballocation (GpuStorage *storage)
{
  Pooled *pooled = get_pooled (storage);

  if (pooled->held != NULL)
    _gpu_pool_core_release (pooled->core, g_steal_pointer (&pooled->held), pooled->timeline,
                            storage->pending);
}

static void
pooled_free (gpointer data)
{
  Pooled *pooled = data;

  g_clear_pointer (&pooled->view, _gpu_pool_view_unref);
  g_clear_object (&pooled->pool);
  _gpu_timeline_unref (pooled->timeline);
  _gpu_pool_core_unref (pooled->core);
  g_aligned_free (pooled);
}

static int
count_recycled (gpointer data)
{
  GpuPoolRecycled *recycled = data;
  int count = 0;

  for (guint i = 0; i < GPU_N_STRIPES; i++)
    count += (int) __atomic_load_n (&recycled[i].n, __ATOMIC_ACQUIRE);

  return count;
}

void
_gpu_pool_core_init_recycled (GpuPoolCore *core)
{
  core->recycled = g_aligned_alloc0 (GPU_N_STRIPES, sizeof (GpuPoolRecycled), GPU_LINE);
  _gpu_live_exclude (count_recycled, core->recycled);
}

void
_gpu_pool_core_clear_recycled (GpuPoolCore *core)
{
  _gpu_live_include (core->recycled);
  g_aligned_free (core->recycled);
}

/* No thread waits for a list: it uses another list instead. So a list needs one atomic
 * read-modify-write operation instead of the two of a lock. */
static inline gboolean
try_take (GpuPoolRecycled *recycled)
{
  return !__atomic_exchange_n (&recycled->taken, TRUE, __ATOMIC_ACQUIRE);
}

static inline void
put (GpuPoolRecycled *recycled)
{
  __atomic_store_n (&recycled->taken, FALSE, __ATOMIC_RELEASE);
}

/* Caller has taken the list. */
static inline void
set_length (GpuPoolRecycled *recycled,
            guint            n)
{
  __atomic_store_n (&recycled->n, n, __ATOMIC_RELEASE);
}

/* Takes the list of this thread, or another one if that is taken. Returns NULL if all are taken. */
static inline GpuPoolRecycled *
take_list (GpuPoolCore *core)
{
  guint stripe = _gpu_stripe_get ();

  for (guint i = 0; i < GPU_N_STRIPES; i++)
    {
      GpuPoolRecycled *recycled = &core->recycled[(stripe + i) % GPU_N_STRIPES];

      if (G_LIKELY (try_take (recycled)))
        return recycled;
    }

  return NULL;
}

/* Takes the caller's reference to @memory, or returns FALSE. */
static gboolean
keep_recycled (GpuPoolCore *core,
               GpuMemory   *memory)
{
  GpuPoolRecycled *recycled = take_list (core);
  gboolean kept;

  if (G_UNLIKELY (recycled == NULL))
    return FALSE;

  kept = !recycled->closed && recycled->n < GPU_POOL_MAX_RECYCLED;

  if (kept)
    {
      recycled->objects[recycled->n] = memory;
      set_length (recycled, recycled->n + 1);
    }

  put (recycled);

  return kept;
}

/* The key of the qdata that GObject sets on an object during its disposal. */
static GQuark
get_notify_queue (void)
{
  static GQuark notify_queue;       /* atomic */

  if (G_UNLIKELY (g_atomic_int_get (&notify_queue) == 0))
    g_atomic_int_set (&notify_queue, g_quark_from_static_string ("GObject-notify-queue"));

  return (GQuark) g_atomic_int_get (&notify_queue);
}

/* Returns whether the g_object_unref() call that recycled @object has finished with the object.
 * That call may still run on another thread. */
static inline gboolean
is_unref_finished (GObject *object)
{
  gsize data = (gsize) g_atomic_pointer_get (&object->qdata);

  if (G_UNLIKELY (g_atomic_int_get (&object->ref_count) != 1))
    return FALSE;

  /* A list without data is a null pointer, except for the flags. */
  return G_LIKELY ((data & ~(gsize) G_DATALIST_FLAGS_MASK) == 0)
         || g_datalist_id_get_data (&object->qdata, get_notify_queue ()) == NULL;
}

static void
find_data (GQuark   key,
           gpointer data G_GNUC_UNUSED,
           gpointer user_data)
{
  GQuark *found = user_data;

  if (key != get_notify_queue ())
    *found = key;
}

/* Drops the data that is attached to @object, as finalization does. A language binding, for
 * example, attaches its wrapper. Returns FALSE if a destroy notify took a reference to @object, if
 * @object still has data after MAX_DATA removals, or if it has data of GObject itself, which newer
 * versions of GLib only drop during finalization. */
static gboolean
drop_data (GObject *object)
{
  for (guint i = 0; i < MAX_DATA; i++)
    {
      GQuark key = 0;

      g_datalist_foreach (&object->qdata, find_data, &key);

      if (key == 0)
        return g_atomic_int_get (&object->ref_count) == 1;

      if (g_str_has_prefix (g_quark_to_string (key), "GObject-"))
        return FALSE;

      g_object_set_qdata (object, key, NULL);
    }

  return FALSE;
}

/* Frees the suballocation of @memory, so that the object can be reused for another one. Returns
 * FALSE if the memory has other users, or is referenced by pending work. */
static gboolean
renew (GpuMemory *memory)
{
  Pooled *pooled = get_pooled (memory->storage);
  g_autoptr (GArray) uses = NULL;

  if (!_gpu_storage_renew (memory->storage, &uses))
    return FALSE;

  if (!_gpu_pool_core_moves_slices (pooled->core))
    g_clear_pointer (&pooled->view, _gpu_pool_view_unref);
  _gpu_pool_core_release (pooled->core, g_steal_pointer (&pooled->held), pooled->timeline, uses);

  return TRUE;
}

/* Called when the last reference to @memory is dropped. Returns TRUE if the object is kept for
 * reuse. */
static gboolean
recycle (GpuMemory *memory)
{
  Pooled *pooled = get_pooled (memory->storage);

  if (pooled->held == NULL || !_gpu_is_buffer (memory) || !drop_data (G_OBJECT (memory))
      || !renew (memory))
    return FALSE;

  /* Without toggle references, which are data, g_object_ref() does no more. */
  g_atomic_int_inc (&((GObject *) memory)->ref_count);
  if (keep_recycled (pooled->core, memory))
    return TRUE;

  g_object_unref (memory);

  return FALSE;
}

/* In a forked child, the g_object_unref() call that recycled @object may never return, because its
 * thread does not exist. Leaks such an object, and an object whose notifications are frozen. */
static void
drop_object (GObject *object)
{
  for (guint n = 0; n < MAX_YIELDS && !is_unref_finished (object)
                    && !g_atomic_int_get (&_gpu_forked); n++)
    g_thread_yield ();

  if (is_unref_finished (object))
    g_object_unref (object);
}

void
_gpu_pool_core_drop_recycled (GpuPoolCore *core)
{
  for (guint i = 0; i < GPU_N_STRIPES; i++)
    {
      GpuPoolRecycled *recycled = &core->recycled[i];
      guint n;

      /* In a forked child, the thread that has taken the list may not exist. */
      while (!try_take (recycled) && !g_atomic_int_get (&_gpu_forked))
        g_thread_yield ();

      recycled->closed = TRUE;
      n = recycled->n;
      set_length (recycled, 0);
      put (recycled);

      for (guint k = 0; k < n; k++)
        drop_object (G_OBJECT (recycled->objects[k]));
    }
}

/* Takes the most recently recycled object, which is likely to be in the CPU's caches. Skips an
 * object if another thread is still in the g_object_unref() call that recycled it. Caller has taken
 * the list. */
static inline GpuMemory *
steal_recycled (GpuPoolRecycled *recycled)
{
  for (guint i = recycled->n; i > 0; i--)
    {
      GpuMemory *memory = recycled->objects[i - 1];

      if (G_LIKELY (is_unref_finished ((GObject *) memory)))
        {
          recycled->objects[i - 1] = recycled->objects[recycled->n - 1];
          set_length (recycled, recycled->n - 1);
          return memory;
        }
    }

  return NULL;
}

static GpuMemory *
take_from_stripe (GpuPoolRecycled *recycled)
{
  GpuMemory *memory = NULL;

  if (__atomic_load_n (&recycled->n, __ATOMIC_RELAXED) == 0 || !try_take (recycled))
    return NULL;

  memory = steal_recycled (recycled);
  put (recycled);

  return memory;
}

/* Prefers the stripe of this thread. The other stripes have objects if other threads drop the
 * buffers that this thread allocates. */
static GpuMemory *
take_recycled (GpuPoolCore *core)
{
  guint stripe = _gpu_stripe_get ();
  GpuMemory *memory = NULL;

  for (guint i = 0; i < GPU_N_STRIPES && memory == NULL; i++)
    memory = take_from_stripe (&core->recycled[(stripe + i) % GPU_N_STRIPES]);

  return memory;
}

static GpuMemory *
make_object (GpuPoolCore *core,
             GpuContext  *context,
             gboolean     is_svm)
{
  if (!is_svm)
    return g_object_new (GPU_TYPE_BUFFER, "context", context, NULL);

  return g_object_new (GPU_TYPE_SVM, "context", context,
                       "svm-flags", _gpu_svm_allocator_get_svm_flags (core->svm),
                       "alignment", (guint64) _gpu_svm_allocator_get_alignment (core->svm), NULL);
}

/* Takes ownership of @view. */
static void
set_view (GpuStorage  *storage,
          GpuPoolView *view)
{
  Pooled *pooled = get_pooled (storage);

  pooled->suballocation.whole = view->whole;
  pooled->suballocation.offset = view->offset;
  pooled->view = view;
  storage->buffer = view->buffer;
  storage->flags = view->flags;
}

/* The storage of @memory already has the handle of @suballocation. */
static void
set_suballocation (GpuMemory            *memory,
                   GpuPoolSuballocation  suballocation,
                   GpuTimeline          *timeline)
{
  GpuStorage *storage = memory->storage;
  Pooled *pooled = get_pooled (storage);

  pooled->held = suballocation;

  if (pooled->timeline != timeline)
    {
      g_clear_pointer (&pooled->timeline, _gpu_timeline_unref);
      pooled->timeline = _gpu_timeline_ref (timeline);
    }

  /* A restored buffer keeps its identity, so that its hash does not change. */
  if (g_atomic_int_get (&memory->state) == GPU_MEMORY_STATE_USABLE)
    storage->identity = storage->context->backend->memory->get_handle (pooled->suballocation.whole)
                        + pooled->suballocation.offset;

  storage->size = _gpu_pool_core_get_size (pooled->core, suballocation);
  _gpu_storage_start_after (storage, timeline);
  _gpu_memory_set_storage (memory, storage);
}

static gboolean
spill (GpuMemory  *memory,
       GError    **error)
{
  GpuStorage *storage = memory->storage;
  Pooled *pooled = get_pooled (storage);
  g_autoptr (GpuMemoryPool) pool = g_steal_pointer (&pooled->pool);
  g_autoptr (GArray) uses = NULL;

  if (pool == NULL)
    pool = g_weak_ref_get (pooled->core->owner);

  if (pool == NULL)
    {
      g_set_error_literal (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                           "the pool was finalized, so the memory could not be restored later");
      return FALSE;
    }

  if (!_gpu_storage_empty (storage, &uses, error))
    return FALSE;

  /* Pending work still uses the memory: retain the view until this work completes. */
  for (guint i = 0; uses != NULL && i < uses->len; i++)
    _gpu_timeline_defer_until_complete (g_array_index (uses, GpuPoint, i).timeline,
                                        _gpu_pool_view_ref (pooled->view), _gpu_pool_view_unref, 0);

  pooled->pool = g_steal_pointer (&pool);
  g_clear_pointer (&pooled->view, _gpu_pool_view_unref);
  storage->buffer = NULL;
  _gpu_pool_core_release (pooled->core, g_steal_pointer (&pooled->held), pooled->timeline, uses);

  return TRUE;
}

/* Gets the view of @suballocation. Frees @suballocation on failure. */
static inline GpuPoolView *
get_view (GpuPoolCore           *core,
          GpuPoolSuballocation   suballocation,
          GpuTimeline           *timeline,
          GError               **error)
{
  GpuPoolView *view = _gpu_pool_core_get_view (core, suballocation, error);

  if (G_UNLIKELY (view == NULL))
    _gpu_pool_core_release (core, suballocation, timeline, NULL);

  return view;
}

static gboolean
unspill (GpuMemory    *memory,
         GpuTimeline  *timeline,
         GError      **error)
{
  Pooled *pooled = get_pooled (memory->storage);
  GpuPoolSuballocation suballocation = _gpu_pool_core_alloc (pooled->core, memory->size, 0,
                                                             timeline, error);
  GpuPoolView *view = NULL;

  if (suballocation != NULL)
    view = get_view (pooled->core, suballocation, timeline, error);
  if (view == NULL)
    return FALSE;

  set_view (memory->storage, view);
  set_suballocation (memory, suballocation, timeline);

  return TRUE;
}

static gpointer
ref_core (GpuStorage *storage)
{
  return _gpu_pool_core_ref (get_pooled (storage)->core);
}

static GObject *
take_pool (gpointer data)
{
  GpuPoolCore *core = data;
  GObject *pool = g_weak_ref_get (core->owner);

  _gpu_pool_core_unref (core);

  return pool;
}

static void
unspilled (GpuMemory *memory)
{
  g_clear_object (&get_pooled (memory->storage)->pool);
}

static const GpuSuballocationOps suballocation_ops = {
  .return_to_pool = free_suballocation,
  .recycle = recycle,
  .spill = spill,
  .unspill = unspill,
  .unspilled = unspilled,
  .ref_core = ref_core,
  .take_pool = take_pool
};

static GpuMemory *
make_memory (GpuPoolCore *core,
             GpuContext  *context,
             gboolean     is_svm,
             GpuPoolView *view)
{
  GpuMemory *memory = make_object (core, context, is_svm);
  Pooled *pooled = g_aligned_alloc0 (1, sizeof (Pooled), GPU_LINE);

  pooled->suballocation.ops = &suballocation_ops;
  pooled->core = _gpu_pool_core_ref (core);
  memory->storage = _gpu_storage_new_for_suballocation (core->context, view->buffer, view->flags,
                                                        &pooled->suballocation, pooled,
                                                        pooled_free);

  return memory;
}

GpuMemory *
_gpu_pool_core_new_memory (GpuPoolCore           *core,
                           GpuContext            *context,
                           gboolean               is_svm,
                           GpuPoolSuballocation   suballocation,
                           GpuTimeline           *timeline,
                           GError               **error)
{
  GpuMemory *memory = is_svm ? NULL : take_recycled (core);

  if (memory != NULL && _gpu_pool_core_moves_slices (core))
    get_pooled (memory->storage)->suballocation.offset
      = _gpu_pool_core_move_slice (core, memory->storage->buffer, suballocation);
  else
    {
      GpuPoolView *view = get_view (core, suballocation, timeline, error);

      if (view == NULL)
        {
          g_clear_object (&memory);
          return NULL;
        }

      if (memory == NULL)
        memory = make_memory (core, context, is_svm, view);
      set_view (memory->storage, view);
    }

  set_suballocation (memory, suballocation, timeline);

  if (is_svm)
    _gpu_svm_set_data (GPU_SVM (memory));

  return memory;
}

/* --- language bindings ------------------------------------------------------------------------ */

/* The data of an object other than that with the key `retained`. */
typedef struct
{
  GQuark   retained;
  gboolean has_more;
} OtherData;

static void
find_other_data (GQuark   key,
                 gpointer data G_GNUC_UNUSED,
                 gpointer user_data)
{
  OtherData *other = user_data;

  if (key != other->retained)
    other->has_more = TRUE;
}

gboolean
_gpu_binding_can_recycle_buffer (GpuBuffer *buffer)
{
  GpuMemory *memory = (GpuMemory *) buffer;
  GpuStorage *storage = memory->storage;

  /* Check the state first: released memory has no suballocation. */
  return storage != NULL && g_atomic_int_get (&memory->state) == GPU_MEMORY_STATE_USABLE
         && g_atomic_int_get (&((GObject *) memory)->ref_count) == 1
         && storage->suballocation != NULL && storage->suballocation->ops->recycle == recycle;
}

/* Weak references, bindings and toggle references are data of the object. Data that the caller does
 * not retain therefore shows that another thread may obtain a reference. */
static gboolean
recycle_undisposed (GpuBuffer *buffer,
                    GQuark     retained)
{
  GpuMemory *memory = (GpuMemory *) buffer;
  OtherData other = { retained, FALSE };
  Pooled *pooled;

  if (!_gpu_binding_can_recycle_buffer (buffer))
    return FALSE;

  pooled = get_pooled (memory->storage);
  g_datalist_foreach (&((GObject *) memory)->qdata, find_other_data, &other);

  if (other.has_more || pooled->held == NULL)
    return FALSE;

  /* As g_object_unref() does. Freeing a closure may take a reference. */
  _gpu_signal_handlers_destroy ((GObject *) memory);

  return g_atomic_int_get (&((GObject *) memory)->ref_count) == 1 && renew (memory)
         && keep_recycled (pooled->core, memory);
}

void
_gpu_binding_recycle_buffer (GpuBuffer *buffer,
                             GQuark     retained)
{
  if (!recycle_undisposed (buffer, retained))
    g_object_unref (buffer);
}
