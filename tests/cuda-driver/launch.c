/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Attributes of kernels, and launches. */
#include "config.h"

#include <string.h>

#include "image.h"

#define MAX_THREADS 1024
#define MAX_BLOCKS_AT_ONCE (4 * 32)
#define MAX_SHARED_OPTIN 232448
#define PARAM_END 0
#define PARAM_BUFFER 1
#define PARAM_SIZE 2
/* The stand-in searches the bytes of arguments up to this size for addresses of memory. Larger
 * arguments are structures of data. */
#define MAX_POINTER_SPAN 64

static guint n_launches;

static CUresult
check_function (CUfunction function)
{
  TRY (object_check (function, OBJECT_FUNCTION));
  return function->object.context->error;
}

static int
get_max_threads (const Function *function)
{
  const KernelEntry *entry = function->entry;

  return entry != NULL && entry->max_threads > 0 ? entry->max_threads : MAX_THREADS;
}

/* --- attributes ------------------------------------------------------------------------------- */

ENTRY (cuFuncGetAttribute, (int *value, CUfunction_attribute attribute, CUfunction function),
       (value, attribute, function))
{
  TRY (check_function (function));
  switch (attribute)
    {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = get_max_threads (function);
      break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = function->module->shared_size;
      break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = function->module->n_registers;
      break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = function->module->capability;
      break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = function->max_shared;
      break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      *value = function->carveout;
      break;
    default:
      if (attribute > CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED ||
          (attribute > CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT &&
           config.version < 11080))
        return CUDA_ERROR_INVALID_VALUE;
      *value = 0;
      break;
    }
  return CUDA_SUCCESS;
}

ENTRY (cuFuncSetAttribute, (CUfunction function, CUfunction_attribute attribute, int value),
       (function, attribute, value))
{
  TRY (check_function (function));
  if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
    {
      if (value < 0 || value > MAX_SHARED_OPTIN - (int) function->module->shared_size)
        return CUDA_ERROR_INVALID_VALUE;
      function->max_shared = value;
    }
  else if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT)
    {
      if (value < -1 || value > 100)
        return CUDA_ERROR_INVALID_VALUE;
      function->carveout = value;
    }
  else
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

ENTRY (cuFuncSetCacheConfig, (CUfunction function, CUfunc_cache cache), (function, cache))
{
  TRY (check_function (function));
  return cache <= CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

ENTRY (cuFuncGetName, (const char **name, CUfunction function), (name, function))
{
  TRY (check_function (function));
  *name = function->name;
  return CUDA_SUCCESS;
}

static gsize
get_offset (const KernelEntry *entry,
            gsize              index)
{
  gsize offset = 0;

  for (gsize i = 0;; i++)
    {
      offset = (offset + entry->alignments[i] - 1) / entry->alignments[i] * entry->alignments[i];
      if (i == index)
        return offset;
      offset += entry->sizes[i];
    }
}

ENTRY (cuFuncGetParamInfo, (CUfunction function, size_t index, size_t *offset, size_t *size),
       (function, index, offset, size))
{
  const KernelEntry *entry;

  TRY (check_function (function));
  entry = function->entry;
  if (entry == NULL || index >= entry->n_parameters)
    return CUDA_ERROR_INVALID_VALUE;
  if (offset != NULL)
    *offset = get_offset (entry, index);
  if (size != NULL)
    *size = entry->sizes[index];
  return CUDA_SUCCESS;
}

ENTRY (cuOccupancyMaxActiveBlocksPerMultiprocessor,
       (int *n_blocks, CUfunction function, int block_size, size_t shared_size),
       (n_blocks, function, block_size, shared_size))
{
  TRY (check_function (function));
  if (block_size <= 0)
    return CUDA_ERROR_INVALID_VALUE;
  *n_blocks = block_size > get_max_threads (function) ? 0 : MIN (32, 2048 / block_size);
  if (shared_size > 0)
    *n_blocks = MIN ((gsize) *n_blocks, 233472 / shared_size);
  return CUDA_SUCCESS;
}

/* --- launches --------------------------------------------------------------------------------- */

static void
launch_free (gpointer data)
{
  Launch *launch = data;

  g_free (launch->values);
  g_free (launch->arguments);
  g_free (launch);
}

static void
launch_done (gpointer data)
{
  Launch *launch = data;

  launch->function->module->n_launches--;
}

/* Checks and retains the memory that an argument points to. */
static CUresult
check_pointers (Op           *op,
                Stream       *stream,
                const guint8 *value,
                gsize         size)
{
  Context *context = stream->object.context;

  for (gsize i = 0; size <= MAX_POINTER_SPAN && i + sizeof (guint64) <= size;
       i += sizeof (guint64))
    {
      guint64 address;
      Memory *memory;

      memcpy (&address, value + i, sizeof address);
      memory = memory_find (address);
      if (memory == NULL || (memory->freed && memory->kind == MEMORY_GLOBAL))
        continue;
      TRY (memory_check (op, stream, address, 1, FALSE, "an argument's address"));
      if ((memory->kind == MEMORY_DEVICE && !context_reaches (context, memory->context)) ||
          (memory->kind == MEMORY_POOL && !pool_reaches (memory, context->device)) ||
          (memory->kind == MEMORY_MAPPED && !virtual_reaches (memory, context->device)))
        return misuse (CUDA_ERROR_INVALID_VALUE, "an argument's address 0x%" G_GINT64_MODIFIER
                       "x is of device %u, which is no peer", address, memory->device->ordinal);
    }
  return CUDA_SUCCESS;
}

static CUresult
find_buffer (void   **extra,
             void   **buffer,
             gsize   *size)
{
  *buffer = NULL;
  *size = 0;
  for (; extra[0] != (void *) PARAM_END; extra += 2)
    if (extra[0] == (void *) PARAM_BUFFER)
      *buffer = extra[1];
    else if (extra[0] == (void *) PARAM_SIZE)
      *size = *(gsize *) extra[1];
    else
      return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

static CUresult
copy_arguments (Launch  *launch,
                void   **arguments,
                void   **extra)
{
  const KernelEntry *entry = launch->function->entry;
  gsize n = entry->n_parameters;
  gsize total = n > 0 ? get_offset (entry, n - 1) + entry->sizes[n - 1] : 0;
  void *buffer = NULL;
  gsize size = 0;

  launch->values = g_malloc0 (total + 16);
  launch->arguments = g_new0 (gpointer, n + 1);
  if (arguments == NULL && extra != NULL)
    TRY (find_buffer (extra, &buffer, &size));
  if (n > 0 && arguments == NULL && (buffer == NULL || size < total))
    return misuse (CUDA_ERROR_INVALID_VALUE, "%s has %zu parameters of %zu bytes, given are %zu",
                   launch->function->name, n, total, size);
  for (gsize i = 0; i < n; i++)
    {
      gsize offset = get_offset (entry, i);

      launch->arguments[i] = launch->values + offset;
      if (arguments != NULL && arguments[i] == NULL)
        return misuse (CUDA_ERROR_INVALID_VALUE, "%s: argument %zu is NULL",
                       launch->function->name, i);
      memcpy (launch->arguments[i],
              arguments != NULL ? arguments[i] : (guint8 *) buffer + offset, entry->sizes[i]);
    }
  return CUDA_SUCCESS;
}

static CUresult
check_size (const Launch *launch)
{
  const guint *grid = launch->grid;
  const guint *block = launch->block;
  guint64 n = (guint64) block[0] * block[1] * block[2];

  if (n == 0 || grid[0] == 0 || grid[1] == 0 || grid[2] == 0 || grid[0] > G_MAXINT ||
      grid[1] > 65535 || grid[2] > 65535 || block[0] > 1024 || block[1] > 1024 || block[2] > 64 ||
      n > MAX_THREADS)
    return CUDA_ERROR_INVALID_VALUE;
  if (n > (guint64) get_max_threads (launch->function))
    return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  return launch->shared_size > (guint) launch->function->max_shared ? CUDA_ERROR_INVALID_VALUE
                                                                    : CUDA_SUCCESS;
}

static CUresult
prepare (Launch  *launch,
         Op      *op,
         Stream  *stream,
         void   **arguments,
         void   **extra)
{
  Function *function = launch->function;
  const KernelEntry *entry = function->entry;

  TRY (check_size (launch));
  if (entry == NULL)
    {
      g_printerr ("gpumem-cuda-driver: %s is PTX that the stand-in does not know\n",
                  function->name);
      return CUDA_ERROR_NOT_SUPPORTED;
    }
  TRY (copy_arguments (launch, arguments, extra));
  for (gsize i = 0; i < entry->n_parameters; i++)
    {
      TRY (check_pointers (op, stream, launch->arguments[i], entry->sizes[i]));
      TRY (textures_use (op, stream, launch->arguments[i], entry->sizes[i]));
    }
  return function->is_builtin ? builtin_check (launch, op, stream) : CUDA_SUCCESS;
}

static CUresult
launch (Launch    template,
        Stream   *stream,
        void    **arguments,
        void    **extra)
{
  Launch *self;
  CUresult code;
  Op *op;

  TRY (object_check (template.function, OBJECT_FUNCTION));
  if (template.function->object.context != stream->object.context)
    return misuse (CUDA_ERROR_INVALID_HANDLE, "the kernel is of another context than the stream");
  self = g_memdup2 (&template, sizeof template);
  op = op_new (launch_run, self, launch_free);
  code = prepare (self, op, stream, arguments, extra);
  if (code != CUDA_SUCCESS)
    {
      point_finish (op->point);
      op_free (op);
      return code;
    }
  self->traps = ++n_launches == config.trap;
  if (stream->capture == 0)
    {
      self->function->module->n_launches++;
      op->done = launch_done;
    }
  point_unref (stream_submit (stream, op));
  return CUDA_SUCCESS;
}

ENTRY (cuLaunchKernel,
       (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
        unsigned int block_x, unsigned int block_y, unsigned int block_z,
        unsigned int shared_size, CUstream handle, void **arguments, void **extra),
       (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_size, handle,
        arguments, extra))
{
  Launch template = { .function = function, .grid = { grid_x, grid_y, grid_z },
                      .block = { block_x, block_y, block_z }, .shared_size = shared_size };
  Stream *stream;

  TRY (stream_resolve_own (handle, &stream));
  return launch (template, stream, arguments, extra);
}

ENTRY (cuLaunchCooperativeKernel,
       (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
        unsigned int block_x, unsigned int block_y, unsigned int block_z,
        unsigned int shared_size, CUstream handle, void **arguments),
       (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_size, handle,
        arguments))
{
  Launch template = { .function = function, .grid = { grid_x, grid_y, grid_z },
                      .block = { block_x, block_y, block_z }, .shared_size = shared_size };
  Stream *stream;

  if ((guint64) grid_x * grid_y * grid_z > MAX_BLOCKS_AT_ONCE)
    return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  TRY (stream_resolve (handle, &stream));
  return launch (template, stream, arguments, NULL);
}
