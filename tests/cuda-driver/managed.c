/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Managed memory. On a device that cannot use managed memory at the same time as the host, the
 * memory is attached to the host, to one stream or to all streams. An attachment begins at a point
 * of a stream. The stand-in reports misuse if a stream or the host uses memory that is not attached
 * to it. On processors with protection keys the host cannot access memory attached to streams.
 */
#include "config.h"

#include <string.h>

#include "driver.h"

#define POISON_BYTE 0xcb

typedef struct
{
  guint     initial;        /* CU_MEM_ATTACH_ flag of the allocation */
  guint     attachment;
  guint     stream_id;      /* with CU_MEM_ATTACH_SINGLE */
  Point    *since;          /* nullable; the point of the attachment */
  gboolean  read_mostly;
  CUdevice  preferred;
  CUdevice  prefetched;
  guint64   accessors;      /* bits of devices; the last bit is the host */
} Managed;

void
managed_free (Memory *memory)
{
  Managed *managed = memory->managed;

  g_clear_pointer (&managed->since, point_unref);
  g_free (managed);
}

static gboolean
takes_turns (const Memory *memory)
{
  return !device_is_concurrent (memory->context->device);
}

ENTRY (cuMemAllocManaged, (CUdeviceptr *address, size_t size, unsigned int flags),
       (address, size, flags))
{
  Context *context;
  Managed *managed;
  Memory *memory;

  TRY (context_current (&context));
  if (address == NULL || size == 0 ||
      (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
    return CUDA_ERROR_INVALID_VALUE;
  memory = memory_new (MEMORY_HOST, context, NULL, size);
  if (memory == NULL)
    return CUDA_ERROR_OUT_OF_MEMORY;
  memory->kind = MEMORY_MANAGED;
  memory->managed = managed = g_new0 (Managed, 1);
  managed->initial = managed->attachment = flags;
  managed->preferred = managed->prefetched = CU_DEVICE_INVALID;
  memset (memory->data, POISON_BYTE, memory->data_size);
  *address = memory->address;
  return CUDA_SUCCESS;
}

/* --- attachment ------------------------------------------------------------------------------- */

CUresult
managed_check (Memory *memory,
               Stream *stream)
{
  Managed *managed = memory->managed;

  if (!takes_turns (memory))
    return CUDA_SUCCESS;
  if (managed->attachment == CU_MEM_ATTACH_HOST ||
      (managed->attachment == CU_MEM_ATTACH_SINGLE && managed->stream_id != stream->id))
    return misuse (CUDA_ERROR_INVALID_VALUE, "managed memory 0x%" G_GINT64_MODIFIER
                   "x, from call %u (%s), belongs to %s", memory->address, memory->number,
                   call_names[memory->function],
                   managed->attachment == CU_MEM_ATTACH_HOST ? "the host" : "another stream");
  if (managed->since != NULL && !stream_is_after (stream, managed->since))
    return misuse (CUDA_ERROR_INVALID_VALUE, "managed memory 0x%" G_GINT64_MODIFIER
                   "x, from call %u (%s): this stream does not wait until it belongs to it",
                   memory->address, memory->number, call_names[memory->function]);
  return CUDA_SUCCESS;
}

/* Checks that @stream is ordered after all earlier uses. */
static CUresult
check_order (Memory *memory,
             Stream *stream)
{
  points_forget (memory->uses);
  for (guint i = 0; i < memory->uses->len; i++)
    if (!stream_is_after (stream, memory->uses->pdata[i]))
      return misuse (CUDA_ERROR_INVALID_VALUE, "managed memory 0x%" G_GINT64_MODIFIER
                     "x, from call %u (%s), is still used where this stream does not wait for it",
                     memory->address, memory->number, call_names[memory->function]);
  return CUDA_SUCCESS;
}

static CUresult
attach_run (gpointer data G_GNUC_UNUSED)
{
  return CUDA_SUCCESS;
}

/* Called with the lock held, when an operation that attaches @memory has completed. A later
 * attachment may have replaced this attachment, so checks the current one. */
static void
attach_done (gpointer data)
{
  Memory *memory = data;
  Managed *managed = memory->managed;

  if (!memory->freed && managed->attachment == CU_MEM_ATTACH_HOST)
    memory_close_to_host (memory, FALSE);
}

static void
attach (Memory *memory,
        Stream *stream,
        guint   attachment)
{
  Managed *managed = memory->managed;
  Op *op = op_new (attach_run, memory_ref (memory), (GDestroyNotify) memory_unref);

  op->done = attach_done;
  op_hold (op, memory);
  managed->attachment = attachment;
  managed->stream_id = stream->id;
  g_clear_pointer (&managed->since, point_unref);
  managed->since = stream_submit (stream, op);
  if (takes_turns (memory) && attachment != CU_MEM_ATTACH_HOST)
    memory_close_to_host (memory, TRUE);
}

static gboolean
is_attachment (guint flags)
{
  return flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST ||
         flags == CU_MEM_ATTACH_SINGLE;
}

static Memory *
find_managed (guint64 address,
              guint64 size)
{
  Memory *memory = memory_find (address);

  return memory != NULL && !memory->freed && memory->kind == MEMORY_MANAGED &&
         size <= memory->size - (address - memory->address) ? memory : NULL;
}

ENTRY (cuStreamAttachMemAsync,
       (CUstream handle, CUdeviceptr address, size_t size, unsigned int flags),
       (handle, address, size, flags))
{
  Memory *memory = find_managed (address, size);
  Stream *stream;

  TRY (stream_resolve (handle, &stream));
  if (memory == NULL || (size != 0 && size != memory->size) || !is_attachment (flags) ||
      (flags == CU_MEM_ATTACH_SINGLE && stream->is_legacy))
    return CUDA_ERROR_INVALID_VALUE;
  if (takes_turns (memory))
    TRY (check_order (memory, stream));
  attach (memory, stream, flags);
  return CUDA_SUCCESS;
}

/* Restores the initial attachment of memory that is attached to @stream. */
void
managed_forget (Stream *stream)
{
  g_autoptr (GPtrArray) memories = memory_list (stream->object.context);

  for (guint i = 0; i < memories->len; i++)
    {
      Memory *memory = memories->pdata[i];
      Managed *managed = memory->managed;

      if (memory->kind == MEMORY_MANAGED && managed->stream_id == stream->id &&
          managed->attachment == CU_MEM_ATTACH_SINGLE)
        managed->attachment = managed->initial;
    }
}

/* --- locations-------------------------------------------------------------------------------- */

static gboolean
is_place (CUdevice device)
{
  return device == CU_DEVICE_CPU ||
         (device_find (device) != NULL && device_is_concurrent (device_find (device)));
}

/* Returns whether the address is in pageable host memory that the device can access. */
static gboolean
is_reached (guint64  address,
            Context *context)
{
  return address != 0 && memory_find (address) == NULL && device_is_concurrent (context->device);
}

/* Sets @device to the device of @location, or to CU_DEVICE_CPU for the host. The older functions of
 * the driver take this number instead of a location. */
static CUresult
find_place (CUmemLocation  location,
            CUdevice      *device)
{
  *device = location.type == CU_MEM_LOCATION_TYPE_HOST ? CU_DEVICE_CPU : location.id;
  return location.type == CU_MEM_LOCATION_TYPE_HOST ||
         (location.type == CU_MEM_LOCATION_TYPE_DEVICE && location.id >= 0)
         ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult
prefetch (CUdeviceptr address,
          size_t      size,
          CUdevice    device,
          CUstream    handle)
{
  Memory *memory = find_managed (address, size);
  Stream *stream;
  Op *op;

  TRY (stream_resolve (handle, &stream));
  if (!is_place (device) || !device_is_concurrent (stream->object.context->device))
    return CUDA_ERROR_INVALID_DEVICE;
  if (memory == NULL || size == 0)
    return is_reached (address, stream->object.context) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  ((Managed *) memory->managed)->prefetched = device;
  op = op_new (attach_run, NULL, NULL);
  op_hold (op, memory);
  point_unref (stream_submit (stream, op));
  return CUDA_SUCCESS;
}

ENTRY_REVISED (cuMemPrefetchAsync,
               (CUdeviceptr address, size_t size, CUdevice device, CUstream handle),
               (address, size, device, handle))
{
  return prefetch (address, size, device, handle);
}

ENTRY_REVISED (cuMemPrefetchAsync_v2,
               (CUdeviceptr address, size_t size, CUmemLocation location, unsigned int flags,
                CUstream handle),
               (address, size, location, flags, handle))
{
  CUdevice device;

  TRY (find_place (location, &device));
  return flags == 0 ? prefetch (address, size, device, handle) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult
apply (Managed      *managed,
       CUmem_advise  advice,
       CUdevice      device)
{
  guint64 bit = G_GUINT64_CONSTANT (1) << (device == CU_DEVICE_CPU ? 63 : device);

  switch (advice)
    {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
      managed->read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
      break;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
      managed->preferred = device;
      break;
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
      managed->preferred = CU_DEVICE_INVALID;
      break;
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
      managed->accessors |= bit;
      break;
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
      managed->accessors &= ~bit;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
    }
  return CUDA_SUCCESS;
}

static CUresult
advise (CUdeviceptr  address,
        size_t       size,
        CUmem_advise advice,
        CUdevice     device)
{
  Memory *memory = find_managed (address, size);
  Context *context;

  TRY (context_current (&context));
  if (!is_place (device))
    return CUDA_ERROR_INVALID_DEVICE;
  if (memory == NULL || size == 0)
    return is_reached (address, context) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  return apply (memory->managed, advice, device);
}

ENTRY_REVISED (cuMemAdvise,
               (CUdeviceptr address, size_t size, CUmem_advise advice, CUdevice device),
               (address, size, advice, device))
{
  return advise (address, size, advice, device);
}

ENTRY_REVISED (cuMemAdvise_v2,
               (CUdeviceptr address, size_t size, CUmem_advise advice, CUmemLocation location),
               (address, size, advice, location))
{
  CUdevice device;

  TRY (find_place (location, &device));
  return advise (address, size, advice, device);
}

static void
list_accessors (const Managed *managed,
                int           *places,
                gsize          n_places)
{
  gsize n = 0;

  for (gsize i = 0; i < n_places; i++)
    places[i] = CU_DEVICE_INVALID;
  if (managed->accessors >> 63 && n < n_places)
    places[n++] = CU_DEVICE_CPU;
  for (guint i = 0; i < config.n_devices && n < n_places; i++)
    if (managed->accessors >> i & 1)
      places[n++] = i;
}

ENTRY (cuMemRangeGetAttribute,
       (void *data, size_t data_size, CUmem_range_attribute attribute, CUdeviceptr address,
        size_t size),
       (data, data_size, attribute, address, size))
{
  Memory *memory = find_managed (address, size);
  Managed *managed = memory != NULL ? memory->managed : NULL;
  Context *context;

  TRY (context_current (&context));
  if (managed == NULL || size == 0 || data == NULL || data_size == 0 || data_size % 4 != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY)
    list_accessors (managed, data, data_size / 4);
  else if (data_size != 4)
    return CUDA_ERROR_INVALID_VALUE;
  else if (attribute == CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY)
    *(int *) data = managed->read_mostly;
  else if (attribute == CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION)
    *(int *) data = managed->preferred;
  else if (attribute == CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION)
    *(int *) data = managed->prefetched;
  else
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}
