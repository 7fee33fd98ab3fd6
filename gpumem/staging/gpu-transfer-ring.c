/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/staging/gpu-transfer-private.h"

#define DEFAULT_LIMIT (64 * 1024 * 1024)

typedef struct _GpuTransferRing GpuTransferRing;

struct _GpuTransferRing
{
  GMutex     lock;                  /* guards all fields */
  gsize      limit;                 /* bytes */
  gsize      size;                  /* bytes, including slots that are being allocated */
  GPtrArray *slots;                 /* of GpuTransferSlot */
  gsize      padding;               /* bytes by which slots are larger, so that their places can be
                                     * aligned: not every driver aligns page-locked memory */
  gboolean   reported;              /* a failed allocation of page-locked memory was logged */
  gboolean   trims;                 /* a thread will free the memory above the limit */
};

static void
slot_free (GpuNativeContext *context,
           GpuTransferSlot  *slot)
{
  context->backend->memory->free (context, slot->memory);
  g_free (slot);
}

/* Called when the context is finalized: no copy is in flight. */
static void
ring_free (GpuNativeContext *context)
{
  GpuTransferRing *ring = context->ring;

  for (guint i = 0; i < ring->slots->len; i++)
    slot_free (context, g_ptr_array_index (ring->slots, i));

  g_ptr_array_unref (ring->slots);
  g_mutex_clear (&ring->lock);
  g_free (ring);
}

static GpuTransferRing *
get_ring (GpuNativeContext *context)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&context->lock);

  if (context->ring == NULL)
    {
      context->ring = g_new0 (GpuTransferRing, 1);
      context->ring->limit = DEFAULT_LIMIT;
      context->ring->slots = g_ptr_array_new ();
      g_mutex_init (&context->ring->lock);
      context->ring_free = ring_free;
    }

  return context->ring;
}

/* Marks as free the slots that were busy until @event completed. The caller holds a reference to
 * @event. */
static void
forget_event (GpuTransferRing *ring,
              GpuNativeEvent  *event)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&ring->lock);

  for (guint i = 0; i < ring->slots->len; i++)
    {
      GpuTransferSlot *slot = g_ptr_array_index (ring->slots, i);

      if (slot->busy == event)
        g_clear_pointer (&slot->busy, _gpu_native_event_unref);
    }
}

static GPtrArray *
list_events (GpuTransferRing *ring)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&ring->lock);
  GPtrArray *events = NULL;

  for (guint i = 0; i < ring->slots->len; i++)
    {
      GpuTransferSlot *slot = g_ptr_array_index (ring->slots, i);

      if (slot->leased || slot->busy == NULL)
        continue;

      if (events == NULL)
        events = g_ptr_array_new_with_free_func ((GDestroyNotify) _gpu_native_event_unref);
      if (!g_ptr_array_find (events, slot->busy, NULL))
        g_ptr_array_add (events, _gpu_native_event_ref (slot->busy));
    }

  return events;
}

/* Reclaims the slots of completed copies. Queries the driver without holding the lock. */
static void
reclaim_completed (GpuTransferRing *ring)
{
  g_autoptr (GPtrArray) events = list_events (ring);

  for (guint i = 0; events != NULL && i < events->len; i++)
    {
      GpuNativeEvent *event = g_ptr_array_index (events, i);

      if (event->backend->event->query (event, NULL) != GPU_EVENT_STATUS_PENDING)
        forget_event (ring, event);
    }
}

static gboolean
is_idle_locked (const GpuTransferSlot *slot)
{
  return !slot->leased && slot->busy == NULL;
}

/* Files that bypass the page cache need aligned places. */
static gpointer
align (gpointer data)
{
  const guintptr mask = GPU_TRANSFER_FILE_ALIGNMENT - 1;

  return (gpointer) (((guintptr) data + mask) & ~mask);
}

static void
take_locked (GpuTransferSlot  *slot,
             GpuTransferLease *lease)
{
  slot->leased = TRUE;
  lease->slot = slot;
  lease->data = align (slot->memory->host);
  lease->before = slot->busy != NULL ? _gpu_native_event_ref (slot->busy) : NULL;
}

static guint
take_idle (GpuTransferRing  *ring,
           guint             wanted,
           GpuTransferLease *leases)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&ring->lock);
  guint n_leases = 0;

  for (guint i = 0; i < ring->slots->len && n_leases < wanted; i++)
    {
      GpuTransferSlot *slot = g_ptr_array_index (ring->slots, i);

      if (is_idle_locked (slot))
        take_locked (slot, &leases[n_leases++]);
    }

  return n_leases;
}

static guint
take_busy (GpuTransferRing  *ring,
           gconstpointer     order,
           guint             wanted,
           GpuTransferLease *leases)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&ring->lock);
  guint n_leases = 0;

  for (guint i = 0; i < ring->slots->len && n_leases < wanted; i++)
    {
      GpuTransferSlot *slot = g_ptr_array_index (ring->slots, i);

      if (!slot->leased && slot->order == order)
        take_locked (slot, &leases[n_leases++]);
    }

  return n_leases;
}

static GpuNativeMemory *
allocate (GpuNativeContext  *context,
          gsize              padding,
          GError           **error)
{
  GpuHostMemoryFlags flags = GPU_HOST_MEMORY_FLAGS_NONE;
  int numa_node = GPU_NUMA_NODE_DEVICE;

  return context->backend->buffer->alloc_host (context, &flags, &numa_node,
                                               _gpu_transfer_get_slot_size () + padding, error);
}

/* If the driver does not align the memory, allocates larger memory, now and for later slots. */
static GpuNativeMemory *
allocate_aligned (GpuNativeContext  *context,
                  GpuTransferRing   *ring,
                  GError           **error)
{
  gsize padding;
  GpuNativeMemory *memory;

  g_mutex_lock (&ring->lock);
  padding = ring->padding;
  g_mutex_unlock (&ring->lock);
  memory = allocate (context, padding, error);

  if (memory == NULL || padding > 0 || align (memory->host) == memory->host)
    return memory;

  context->backend->memory->free (context, memory);
  g_mutex_lock (&ring->lock);
  ring->padding = GPU_TRANSFER_FILE_ALIGNMENT;
  g_mutex_unlock (&ring->lock);

  return allocate (context, GPU_TRANSFER_FILE_ALIGNMENT, error);
}

/* Caller does not hold the lock, because the allocation may take long. */
static GpuTransferSlot *
slot_new (GpuNativeContext *context,
          GpuTransferRing  *ring)
{
  g_autoptr (GError) failure = NULL;
  GpuNativeMemory *memory = allocate_aligned (context, ring, &failure);
  GpuTransferSlot *slot;
  gboolean reported;

  if (memory == NULL)
    {
      g_mutex_lock (&ring->lock);
      ring->size -= _gpu_transfer_get_slot_size ();
      reported = ring->reported;
      ring->reported = TRUE;
      g_mutex_unlock (&ring->lock);

      if (!reported)
        g_message ("gpumem: %s: no page-locked memory for copies, which are slower without it: %s",
                   context->devices[0]->id, failure->message);
      return NULL;
    }

  slot = g_new0 (GpuTransferSlot, 1);
  slot->memory = memory;

  return slot;
}

/* With @force, exceeds the limit. */
static gboolean
reserve (GpuTransferRing *ring,
         gboolean         force)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&ring->lock);

  if (!force && (ring->size > ring->limit
                 || ring->limit - ring->size < _gpu_transfer_get_slot_size ()))
    return FALSE;

  ring->size += _gpu_transfer_get_slot_size ();

  return TRUE;
}

static guint
grow (GpuNativeContext *context,
      GpuTransferRing  *ring,
      guint             wanted,
      gboolean          force,
      GpuTransferLease *leases)
{
  guint n_leases = 0;

  while (n_leases < wanted && reserve (ring, force))
    {
      GpuTransferSlot *slot = slot_new (context, ring);

      if (slot == NULL)
        break;

      g_mutex_lock (&ring->lock);
      g_ptr_array_add (ring->slots, slot);
      take_locked (slot, &leases[n_leases++]);
      g_mutex_unlock (&ring->lock);
    }

  return n_leases;
}

/* Limits @wanted to the number of slots that one copy may lease. Half of the ring remains for
 * copies in the other direction. */
static guint
get_share (GpuTransferRing *ring,
           guint            wanted)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&ring->lock);
  gsize n_slots = ring->limit / _gpu_transfer_get_slot_size ();

  if (n_slots == 0)
    return 0;

  return MIN (MIN (wanted, MAX (n_slots / 2, 1)), GPU_TRANSFER_MAX_SLOTS);
}

guint
_gpu_transfer_ring_lease (GpuNativeContext *context,
                          gconstpointer     order,
                          guint             wanted,
                          guint             max_new,
                          GpuTransferLease *leases)
{
  GpuTransferRing *ring = get_ring (context);
  guint n_leases;

  wanted = get_share (ring, wanted);
  n_leases = take_idle (ring, wanted, leases);

  if (n_leases < wanted)
    {
      reclaim_completed (ring);
      n_leases += take_idle (ring, wanted - n_leases, leases + n_leases);
    }

  n_leases += grow (context, ring, MIN (wanted - n_leases, max_new), FALSE, leases + n_leases);
  n_leases += take_busy (ring, order, wanted - n_leases, leases + n_leases);

  return n_leases;
}

/* Returns half of the slots that no copy uses, at least 1, or 0 if the limit disables staging. The
 * other half remains for copies on other streams. */
static guint
get_free_share (GpuTransferRing *ring)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&ring->lock);
  gsize n_slots = ring->limit / _gpu_transfer_get_slot_size ();
  guint n_used = 0;

  for (guint i = 0; i < ring->slots->len; i++)
    n_used += !is_idle_locked (g_ptr_array_index (ring->slots, i));

  return n_slots == 0 ? 0 : MAX (n_slots > n_used ? (n_slots - n_used) / 2 : 0, 1);
}

guint
_gpu_transfer_ring_lease_in_order (GpuNativeContext *context,
                                   gconstpointer     order,
                                   guint             wanted,
                                   GpuTransferLease *leases)
{
  GpuTransferRing *ring = get_ring (context);
  guint n_leases;
  guint most;

  wanted = get_share (ring, wanted);
  n_leases = take_busy (ring, order, wanted, leases);
  reclaim_completed (ring);
  most = MIN (n_leases + get_free_share (ring), wanted);
  n_leases += take_idle (ring, most - n_leases, leases + n_leases);
  n_leases += grow (context, ring, most - n_leases, FALSE, leases + n_leases);

  if (n_leases == 0 && wanted > 0)
    n_leases = grow (context, ring, 1, TRUE, leases);

  return n_leases;
}

void
_gpu_transfer_ring_submit (GpuNativeContext       *context,
                           gconstpointer           order,
                           const GpuTransferLease *leases,
                           guint                   n_leases,
                           GpuNativeEvent         *event)
{
  GpuTransferRing *ring = get_ring (context);
  GpuNativeEvent *old[GPU_TRANSFER_MAX_SLOTS];

  g_mutex_lock (&ring->lock);

  for (guint i = 0; i < n_leases; i++)
    {
      GpuTransferSlot *slot = leases[i].slot;

      old[i] = slot->busy;
      slot->busy = _gpu_native_event_ref (event);
      slot->order = order;
      slot->leased = FALSE;
    }

  g_mutex_unlock (&ring->lock);

  for (guint i = 0; i < n_leases; i++)
    g_clear_pointer (&old[i], _gpu_native_event_unref);
}

/* Takes ownership of @data, a reference to the context. */
static void
trim_to_limit (gpointer data)
{
  GpuNativeContext *context = data;
  GpuTransferRing *ring = get_ring (context);
  gsize limit;

  /* Clear `trims` before the trim, so that a slot that is returned during the trim starts another
   * trim. */
  g_mutex_lock (&ring->lock);
  ring->trims = FALSE;
  limit = ring->limit;
  g_mutex_unlock (&ring->lock);

  _gpu_transfer_trim (context, limit);
  _gpu_native_context_unref (context);
}

/* Starts a thread to trim the ring if its size exceeds the limit. If no thread can be started, the
 * call at the end of the next copy tries again. */
static void
trim_later (GpuNativeContext *context)
{
  GpuTransferRing *ring = get_ring (context);
  gboolean wanted;

  g_mutex_lock (&ring->lock);
  wanted = !ring->trims && ring->size > ring->limit;
  ring->trims |= wanted;
  g_mutex_unlock (&ring->lock);

  if (!wanted || _gpu_transfer_push_wait (trim_to_limit, _gpu_native_context_ref (context)))
    return;

  g_mutex_lock (&ring->lock);
  ring->trims = FALSE;
  g_mutex_unlock (&ring->lock);
  _gpu_native_context_unref (context);
}

void
_gpu_transfer_ring_return (GpuNativeContext       *context,
                           const GpuTransferLease *leases,
                           guint                   n_leases)
{
  GpuTransferRing *ring = get_ring (context);

  g_mutex_lock (&ring->lock);

  for (guint i = 0; i < n_leases; i++)
    leases[i].slot->leased = FALSE;

  g_mutex_unlock (&ring->lock);
  trim_later (context);
}

void
_gpu_transfer_ring_finish (GpuNativeContext *context,
                           GpuNativeEvent   *event)
{
  forget_event (get_ring (context), event);
  trim_later (context);
}

gboolean
_gpu_transfer_trim (GpuNativeContext *context,
                    gsize             size)
{
  g_autoptr (GPtrArray) trimmed = g_ptr_array_new ();
  GpuTransferRing *ring = get_ring (context);

  reclaim_completed (ring);
  g_mutex_lock (&ring->lock);

  for (guint i = ring->slots->len; i > 0 && ring->size > size; i--)
    {
      if (!is_idle_locked (g_ptr_array_index (ring->slots, i - 1)))
        continue;

      g_ptr_array_add (trimmed, g_ptr_array_steal_index_fast (ring->slots, i - 1));
      ring->size -= _gpu_transfer_get_slot_size ();
    }

  g_mutex_unlock (&ring->lock);

  for (guint i = 0; i < trimmed->len; i++)
    slot_free (context, g_ptr_array_index (trimmed, i));

  return trimmed->len > 0;
}

gsize
_gpu_transfer_get_limit (GpuNativeContext *context)
{
  GpuTransferRing *ring = get_ring (context);
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&ring->lock);

  return ring->limit;
}

void
_gpu_transfer_set_limit (GpuNativeContext *context,
                         gsize             limit)
{
  GpuTransferRing *ring = get_ring (context);

  g_mutex_lock (&ring->lock);
  ring->limit = limit;
  g_mutex_unlock (&ring->lock);

  _gpu_transfer_trim (context, limit);
}

gsize
_gpu_transfer_get_size (GpuNativeContext *context)
{
  GpuTransferRing *ring = get_ring (context);
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&ring->lock);

  return ring->size;
}
