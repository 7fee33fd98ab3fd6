/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Contexts, and the stack of current contexts of each thread. */
#include "config.h"

#include <string.h>

#include "driver.h"

#define MAX_DEPTH 64
#define FLAGS (CU_CTX_SCHED_MASK | CU_CTX_MAP_HOST | CU_CTX_LMEM_RESIZE_TO_MAX)
#define LEAST_PRIORITY 0
#define GREATEST_PRIORITY (-5)

static __thread Context *stack[MAX_DEPTH];
static __thread guint depth;

static Context *
context_new (Device  *device,
             guint    flags,
             gboolean primary)
{
  Context *context = object_new (sizeof (Context), OBJECT_CONTEXT, NULL);

  context->object.hidden = primary;
  context->device = device;
  context->flags = flags;
  context->primary = primary;
  context->streams = g_ptr_array_new ();
  context->per_thread = g_hash_table_new (NULL, NULL);
  context->peers = g_hash_table_new (NULL, NULL);
  context->limits[CU_LIMIT_STACK_SIZE] = 1024;
  context->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
  context->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
  context->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
  context->legacy = stream_new (context, 0, 0);
  context->legacy->object.hidden = TRUE;
  context->legacy->is_legacy = TRUE;
  return context;
}

static void
note_leaks (Context *context)
{
  g_autoptr (GPtrArray) objects = object_list (N_OBJECT_KINDS, context);
  g_autoptr (GPtrArray) memories = memory_list (context);

  for (guint i = 0; i < objects->len; i++)
    {
      Object *object = objects->pdata[i];

      if (!object->hidden && config.leaks && object->kind != OBJECT_POOL)
        report_leak ("%s %p, from call %u (%s), ends with its context",
                     object_kinds[object->kind], (gpointer) object, object->number,
                     call_names[object->function]);
      if (object->kind == OBJECT_STREAM)
        stream_end ((Stream *) object);
      else if (object->kind == OBJECT_EVENT || object->kind >= OBJECT_ARRAY)
        object_kill (object);
    }
  modules_close (context);
  for (guint i = 0; i < memories->len; i++)
    {
      Memory *memory = memories->pdata[i];

      if (memory->kind == MEMORY_POOL || memory->kind == MEMORY_MAPPED)
        continue;
      if (!memory_is_hidden (memory) && config.leaks)
        report_leak ("%s 0x%" G_GINT64_MODIFIER "x, %" G_GUINT64_FORMAT
                     " bytes, from call %u (%s), ends with its context",
                     memory_kinds[memory->kind], memory->address, memory->size, memory->number,
                     call_names[memory->function]);
      memory_kill (memory);
    }
}

static void
context_free (Context *context)
{
  context_finish (context);
  note_leaks (context);
  g_ptr_array_unref (context->streams);
  g_hash_table_unref (context->per_thread);
  g_hash_table_unref (context->peers);
  object_kill (context);
}

/* --- functions that other files of the stand-in call ------------------------------------------ */

Context *
context_peek (void)
{
  return depth > 0 ? stack[depth - 1] : NULL;
}

CUresult
context_current_lost (Context **context)
{
  *context = context_peek ();
  if (*context == NULL)
    return misuse (CUDA_ERROR_INVALID_CONTEXT, "no context is current on this thread");
  return object_check (*context, OBJECT_CONTEXT);
}

CUresult
context_current (Context **context)
{
  TRY (context_current_lost (context));
  return (*context)->error;
}

void
context_fail (Context  *context,
              CUresult  code)
{
  if (context->error == CUDA_SUCCESS)
    context->error = code;
  pthread_cond_broadcast (&point_done);
}

/* Returns whether kernels of @context can access the memory of @owner. */
gboolean
context_reaches (Context *context,
                 Context *owner)
{
  return owner == NULL || context->device == owner->device ||
         g_hash_table_contains (context->peers, owner);
}

/* --- entry points ----------------------------------------------------------------------------- */

ENTRY (cuDevicePrimaryCtxRetain, (CUcontext *context, CUdevice ordinal), (context, ordinal))
{
  Device *device = device_find (ordinal);

  if (device == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  if (device->primary == NULL)
    device->primary = context_new (device, device->primary_flags, TRUE);
  device->primary_refs++;
  *context = device->primary;
  return CUDA_SUCCESS;
}

ENTRY (cuDevicePrimaryCtxRelease, (CUdevice ordinal), (ordinal))
{
  Device *device = device_find (ordinal);

  if (device == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  if (device->primary_refs == 0)
    return misuse (CUDA_ERROR_INVALID_CONTEXT, "the primary context was not retained");
  if (--device->primary_refs == 0)
    {
      context_free (device->primary);
      device->primary = NULL;
    }
  return CUDA_SUCCESS;
}

ENTRY (cuDevicePrimaryCtxGetState, (CUdevice ordinal, unsigned int *flags, int *active),
       (ordinal, flags, active))
{
  Device *device = device_find (ordinal);

  if (device == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  *flags = device->primary_flags;
  *active = device->primary != NULL;
  return CUDA_SUCCESS;
}

ENTRY (cuDevicePrimaryCtxSetFlags, (CUdevice ordinal, unsigned int flags), (ordinal, flags))
{
  Device *device = device_find (ordinal);

  if (device == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  if ((flags & ~FLAGS) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  device->primary_flags = flags;
  if (device->primary != NULL)
    device->primary->flags = flags;
  return CUDA_SUCCESS;
}

ENTRY (cuCtxCreate, (CUcontext *context, unsigned int flags, CUdevice ordinal),
       (context, flags, ordinal))
{
  Device *device = device_find (ordinal);

  if (device == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  if ((flags & ~FLAGS) != 0 || depth == MAX_DEPTH)
    return CUDA_ERROR_INVALID_VALUE;
  *context = context_new (device, flags, FALSE);
  stack[depth++] = *context;
  return CUDA_SUCCESS;
}

ENTRY (cuCtxDestroy, (CUcontext context), (context))
{
  TRY (object_check (context, OBJECT_CONTEXT));
  if (context->primary)
    return misuse (CUDA_ERROR_INVALID_CONTEXT, "a primary context is released, not destroyed");
  if (depth > 0 && stack[depth - 1] == context)
    depth--;
  context_free (context);
  return CUDA_SUCCESS;
}

ENTRY (cuCtxPushCurrent, (CUcontext context), (context))
{
  TRY (object_check (context, OBJECT_CONTEXT));
  if (depth == MAX_DEPTH)
    return misuse (CUDA_ERROR_INVALID_VALUE, "%d contexts were pushed and not popped", MAX_DEPTH);
  stack[depth++] = context;
  return CUDA_SUCCESS;
}

ENTRY (cuCtxPopCurrent, (CUcontext *context), (context))
{
  if (depth == 0)
    return misuse (CUDA_ERROR_INVALID_CONTEXT, "no context was pushed");
  depth--;
  if (context != NULL)
    *context = stack[depth];
  return CUDA_SUCCESS;
}

ENTRY (cuCtxSetCurrent, (CUcontext context), (context))
{
  if (context != NULL)
    TRY (object_check (context, OBJECT_CONTEXT));
  if (depth > 0)
    depth--;
  if (context != NULL)
    stack[depth++] = context;
  return CUDA_SUCCESS;
}

ENTRY (cuCtxGetCurrent, (CUcontext *context), (context))
{
  *context = context_peek ();
  return CUDA_SUCCESS;
}

ENTRY (cuCtxGetDevice, (CUdevice *device), (device))
{
  Context *context;

  TRY (context_current_lost (&context));
  *device = context->device->ordinal;
  return CUDA_SUCCESS;
}

ENTRY (cuCtxGetFlags, (unsigned int *flags), (flags))
{
  Context *context;

  TRY (context_current_lost (&context));
  *flags = context->flags;
  return CUDA_SUCCESS;
}

ENTRY (cuCtxSynchronize, (void), ())
{
  Context *context;

  TRY (context_current (&context));
  context_finish (context);
  return context->error;
}

static gboolean
has_limit (CUlimit limit)
{
  return limit <= CU_LIMIT_MALLOC_HEAP_SIZE || limit == CU_LIMIT_MAX_L2_FETCH_GRANULARITY ||
         limit == CU_LIMIT_PERSISTING_L2_CACHE_SIZE;
}

ENTRY (cuCtxGetLimit, (size_t *value, CUlimit limit), (value, limit))
{
  Context *context;

  TRY (context_current (&context));
  if (!has_limit (limit))
    return CUDA_ERROR_UNSUPPORTED_LIMIT;
  *value = context->limits[limit];
  return CUDA_SUCCESS;
}

ENTRY (cuCtxSetLimit, (CUlimit limit, size_t value), (limit, value))
{
  Context *context;

  TRY (context_current (&context));
  if (!has_limit (limit))
    return CUDA_ERROR_UNSUPPORTED_LIMIT;
  if (value > config.memory)
    return CUDA_ERROR_INVALID_VALUE;
  context->limits[limit] = limit == CU_LIMIT_STACK_SIZE ? (value + 15) / 16 * 16 : value;
  return CUDA_SUCCESS;
}

ENTRY (cuCtxGetCacheConfig, (CUfunc_cache *cache), (cache))
{
  Context *context;

  TRY (context_current (&context));
  *cache = context->cache_config;
  return CUDA_SUCCESS;
}

ENTRY (cuCtxSetCacheConfig, (CUfunc_cache cache), (cache))
{
  Context *context;

  TRY (context_current (&context));
  if (cache > CU_FUNC_CACHE_PREFER_EQUAL)
    return CUDA_ERROR_INVALID_VALUE;
  context->cache_config = cache;
  return CUDA_SUCCESS;
}

ENTRY (cuCtxGetApiVersion, (CUcontext context, unsigned int *version), (context, version))
{
  if (context == NULL)
    TRY (context_current_lost (&context));
  TRY (object_check (context, OBJECT_CONTEXT));
  *version = 3020;
  return CUDA_SUCCESS;
}

ENTRY (cuCtxGetStreamPriorityRange, (int *least, int *greatest), (least, greatest))
{
  Context *context;

  TRY (context_current (&context));
  if (least != NULL)
    *least = LEAST_PRIORITY;
  if (greatest != NULL)
    *greatest = GREATEST_PRIORITY;
  return CUDA_SUCCESS;
}

ENTRY (cuCtxEnablePeerAccess, (CUcontext peer, unsigned int flags), (peer, flags))
{
  Context *context;

  TRY (context_current (&context));
  TRY (object_check (peer, OBJECT_CONTEXT));
  if (flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (!device_can_access (context->device, peer->device))
    return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  if (!g_hash_table_add (context->peers, peer))
    return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  return CUDA_SUCCESS;
}

ENTRY (cuCtxDisablePeerAccess, (CUcontext peer), (peer))
{
  Context *context;

  TRY (context_current (&context));
  if (!g_hash_table_remove (context->peers, peer))
    return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  return CUDA_SUCCESS;
}

ENTRY (cuProfilerStart, (void), ())
{
  Context *context;

  return context_current (&context);
}

ENTRY (cuProfilerStop, (void), ())
{
  Context *context;

  return context_current (&context);
}
