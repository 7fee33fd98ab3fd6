/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/transfer/gpu-transfer-private.h"

#define DEFAULT_LIMIT (64 * 1024 * 1024)

typedef struct _GpuTransferRing GpuTransferRing;

struct _GpuTransferRing
{
  GMutex     lock;                  /* guards all of it */
  gsize      limit;                 /* bytes */
  gsize      size;                  /* bytes, also of what is being allocated */
  GPtrArray *slots;                 /* of GpuTransferSlot */
  gboolean   told;                  /* that there is no page-locked memory */
};

static void
slot_free (GpuNativeContext *context,
           GpuTransferSlot  *slot)
{
  context->backend->memory->free (context, slot->memory);
  g_free (slot);
}

/* The context goes: no copy is left. */
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

static gboolean
is_idle_locked (GpuTransferSlot *slot)
{
  const GpuEventOps *ops;

  if (slot->leased)
    return FALSE;

  if (slot->busy == NULL)
    return TRUE;

  ops = slot->busy->backend->event;
  if (ops->query (slot->busy, NULL) == GPU_EVENT_STATUS_PENDING)
    return FALSE;

  g_clear_pointer (&slot->busy, _gpu_native_event_unref);

  return TRUE;
}

static void
take_locked (GpuTransferSlot  *slot,
             GpuTransferLease *lease)
{
  slot->leased = TRUE;
  lease->slot = slot;
  lease->data = slot->memory->host;
  lease->before = slot->busy != NULL ? _gpu_native_event_ref (slot->busy) : NULL;
}

static guint
take_idle_locked (GpuTransferRing  *ring,
                  guint             wanted,
                  GpuTransferLease *leases)
{
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
take_busy_locked (GpuTransferRing  *ring,
                  gconstpointer     order,
                  guint             wanted,
                  GpuTransferLease *leases)
{
  guint n_leases = 0;

  for (guint i = 0; i < ring->slots->len && n_leases < wanted; i++)
    {
      GpuTransferSlot *slot = g_ptr_array_index (ring->slots, i);

      if (!slot->leased && slot->order == order)
        take_locked (slot, &leases[n_leases++]);
    }

  return n_leases;
}

static void
tell_locked (GpuTransferRing  *ring,
             GpuNativeContext *context,
             const GError     *failure)
{
  if (!ring->told)
    g_message ("gpumem: %s: no page-locked memory for copies, which go on more slowly: %s",
               context->devices[0]->id, failure->message);

  ring->told = TRUE;
}

/* Without the lock: the driver may take its time. */
static GpuTransferSlot *
slot_new (GpuNativeContext *context,
          GpuTransferRing  *ring)
{
  GpuHostMemoryFlags flags = GPU_HOST_MEMORY_NONE;
  g_autoptr (GError) failure = NULL;
  GpuNativeMemory *memory = context->backend->buffer->alloc_host (context, &flags,
                                                                  _gpu_transfer_get_slot_size (),
                                                                  &failure);
  GpuTransferSlot *slot;

  if (memory == NULL)
    {
      g_mutex_lock (&ring->lock);
      ring->size -= _gpu_transfer_get_slot_size ();
      tell_locked (ring, context, failure);
      g_mutex_unlock (&ring->lock);
      return NULL;
    }

  slot = g_new0 (GpuTransferSlot, 1);
  slot->memory = memory;

  return slot;
}

static gboolean
reserve (GpuTransferRing *ring)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&ring->lock);

  if (ring->size > ring->limit || ring->limit - ring->size < _gpu_transfer_get_slot_size ())
    return FALSE;

  ring->size += _gpu_transfer_get_slot_size ();

  return TRUE;
}

static guint
grow (GpuNativeContext *context,
      GpuTransferRing  *ring,
      guint             wanted,
      GpuTransferLease *leases)
{
  guint n_leases = 0;

  while (n_leases < wanted && reserve (ring))
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

guint
_gpu_transfer_ring_lease (GpuNativeContext *context,
                          gconstpointer     order,
                          guint             wanted,
                          guint             max_new,
                          GpuTransferLease *leases)
{
  GpuTransferRing *ring = get_ring (context);
  guint n_leases;

  g_mutex_lock (&ring->lock);

  if (ring->limit < _gpu_transfer_get_slot_size ())
    {
      g_mutex_unlock (&ring->lock);
      return 0;
    }

  /* Half of it is left to the copies of the other direction */
  wanted = MIN (wanted, MAX (ring->limit / _gpu_transfer_get_slot_size () / 2, 1));
  wanted = MIN (wanted, GPU_TRANSFER_MAX_SLOTS);
  n_leases = take_idle_locked (ring, wanted, leases);
  g_mutex_unlock (&ring->lock);

  n_leases += grow (context, ring, MIN (wanted - n_leases, max_new), leases + n_leases);

  g_mutex_lock (&ring->lock);
  n_leases += take_busy_locked (ring, order, wanted - n_leases, leases + n_leases);
  g_mutex_unlock (&ring->lock);

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

  g_mutex_lock (&ring->lock);

  for (guint i = 0; i < n_leases; i++)
    {
      GpuTransferSlot *slot = leases[i].slot;

      g_clear_pointer (&slot->busy, _gpu_native_event_unref);
      slot->busy = _gpu_native_event_ref (event);
      slot->order = order;
      slot->leased = FALSE;
    }

  g_mutex_unlock (&ring->lock);
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
  _gpu_transfer_trim (context, _gpu_transfer_get_limit (context));
}

void
_gpu_transfer_ring_finish (GpuNativeContext *context,
                           GpuNativeEvent   *event)
{
  GpuTransferRing *ring = get_ring (context);

  g_mutex_lock (&ring->lock);

  for (guint i = 0; i < ring->slots->len; i++)
    {
      GpuTransferSlot *slot = g_ptr_array_index (ring->slots, i);

      if (slot->busy == event)
        g_clear_pointer (&slot->busy, _gpu_native_event_unref);
    }

  g_mutex_unlock (&ring->lock);
  _gpu_transfer_trim (context, _gpu_transfer_get_limit (context));
}

gboolean
_gpu_transfer_trim (GpuNativeContext *context,
                    gsize             size)
{
  g_autoptr (GPtrArray) trimmed = NULL;
  GpuTransferRing *ring = get_ring (context);

  g_mutex_lock (&ring->lock);

  for (guint i = ring->slots->len; i > 0 && ring->size > size; i--)
    {
      if (!is_idle_locked (g_ptr_array_index (ring->slots, i - 1)))
        continue;

      if (trimmed == NULL)
        trimmed = g_ptr_array_new ();
      g_ptr_array_add (trimmed, g_ptr_array_steal_index_fast (ring->slots, i - 1));
      ring->size -= _gpu_transfer_get_slot_size ();
    }

  g_mutex_unlock (&ring->lock);

  for (guint i = 0; trimmed != NULL && i < trimmed->len; i++)
    slot_free (context, g_ptr_array_index (trimmed, i));

  return trimmed != NULL;
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
