/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the staging engine needs. A gate is a word of page-locked memory that a stream looks at
 * until it has reached a value: each use of a word goes on from the last one, so that one that the
 * device has still to pass stays open.
 */
#include "config.h"

#include <string.h>

#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/cuda/gpu-cuda.h"

#define WORDS_PER_BLOCK 1024

static gsize
transfer_get_min_size (GpuNativeContext *context G_GNUC_UNUSED,
                       gboolean          write,
                       gboolean          blocking)
{
  if (!_gpu_cuda_has_group (GPU_CUDA_GROUP_STREAM_WAIT, NULL))
    return 0;

  if (!blocking)
    return write ? GPU_TRANSFER_MIN_ASYNC_WRITE : GPU_TRANSFER_MIN_ASYNC_READ;

  return write ? GPU_TRANSFER_MIN_WRITE : GPU_TRANSFER_MIN_READ;
}

/* The driver has heard of it, whoever allocated or registered it. It copies nothing that begins in
 * such memory and goes on behind it. */
static gboolean
transfer_is_page_locked (GpuNativeContext *context,
                         gconstpointer     data,
                         gsize             size)
{
  CUdeviceptr address = (guintptr) data;
  guint64 start = address;
  guint64 range = size;
  guint64 type = 0;
  gboolean entered;

  if (!_gpu_cuda_enter ((GpuCudaContext *) context, &entered, NULL))
    return FALSE;

  type = _gpu_cuda_ask_address (address, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 0);

  if (type != 0)
    {
      start = _gpu_cuda_ask_address (address, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, start);
      range = _gpu_cuda_ask_address (address, CU_POINTER_ATTRIBUTE_RANGE_SIZE, range);
    }

  _gpu_cuda_leave (entered);

  return type != 0 && address - start <= range && size <= range - (address - start);
}

static guint32 *
take_spare (GpuCudaContext *context)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&context->spare_lock);

  return context->gate_words != NULL && context->gate_words->len > 0
         ? g_ptr_array_steal_index_fast (context->gate_words, context->gate_words->len - 1) : NULL;
}

/* With the context entered. The first of new words, the others are spare. */
static guint32 *
add_words (GpuCudaContext  *context,
           GError         **error)
{
  const unsigned int flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
  void *data = NULL;

  if (!_gpu_cuda_check (_gpu_cuda.cuMemHostAlloc (&data, WORDS_PER_BLOCK * sizeof (guint32),
                                                  flags),
                        "cuMemHostAlloc", error))
    return NULL;

  memset (data, 0, WORDS_PER_BLOCK * sizeof (guint32));
  g_mutex_lock (&context->spare_lock);

  if (context->gate_blocks == NULL)
    {
      context->gate_blocks = g_ptr_array_new ();
      context->gate_words = g_ptr_array_new ();
    }

  g_ptr_array_add (context->gate_blocks, data);
  for (guint i = 1; i < WORDS_PER_BLOCK; i++)
    g_ptr_array_add (context->gate_words, (guint32 *) data + i);

  g_mutex_unlock (&context->spare_lock);

  return data;
}

void
_gpu_cuda_gates_clear (GpuCudaContext *context,
                       gboolean        can_free)
{
  /* Nobody has waited for the one that was tried. */
  if (can_free && context->gate_blocks != NULL && context->internal != NULL)
    _gpu_cuda.cuStreamSynchronize (context->internal);

  for (guint i = 0; can_free && context->gate_blocks != NULL && i < context->gate_blocks->len; i++)
    _gpu_cuda.cuMemFreeHost (g_ptr_array_index (context->gate_blocks, i));

  g_clear_pointer (&context->gate_blocks, g_ptr_array_unref);
  g_clear_pointer (&context->gate_words, g_ptr_array_unref);
}

static GpuNativeEvent *
transfer_create_gate (GpuNativeContext  *native,
                      GError           **error)
{
  GpuCudaContext *context = (GpuCudaContext *) native;
  GpuCudaEvent *gate;
  guint32 *word;
  gboolean entered;

  if (!_gpu_cuda_enter (context, &entered, error))
    return NULL;

  word = take_spare (context);
  if (word == NULL)
    word = add_words (context, error);

  _gpu_cuda_leave (entered);

  if (word == NULL)
    return NULL;

  gate = _gpu_cuda_event_new_for (context, NULL);
  gate->word = word;
  gate->value = *word + 1;

  return &gate->base;
}

static void
transfer_open_gate (GpuNativeEvent *native)
{
  GpuCudaEvent *gate = (GpuCudaEvent *) native;

  __atomic_store_n (gate->word, gate->value, __ATOMIC_RELEASE);
}

void
_gpu_cuda_gate_free (GpuCudaEvent *gate)
{
  g_mutex_lock (&gate->context->spare_lock);
  g_ptr_array_add (gate->context->gate_words, gate->word);
  g_mutex_unlock (&gate->context->spare_lock);
}

/* With the context entered. */
CUresult
_gpu_cuda_wait_for_gate (CUstream      stream,
                         GpuCudaEvent *gate)
{
  CUdeviceptr address;
  CUresult code = _gpu_cuda.cuMemHostGetDevicePointer (&address, gate->word, 0);

  if (code != CUDA_SUCCESS)
    return code;

  return _gpu_cuda.cuStreamWaitValue32 (stream, address, gate->value, CU_STREAM_WAIT_VALUE_GEQ);
}

/* One that is open. What fails before the wait itself says nothing of it. */
static GpuCudaGates
try_gate (GpuCudaContext *context)
{
  g_autoptr (GpuNativeEvent) gate = transfer_create_gate (&context->base, NULL);
  GpuCudaGates gates = GPU_CUDA_GATES_UNKNOWN;
  CUstream stream;
  gboolean entered;
  CUresult code;

  if (gate == NULL || !_gpu_cuda_enter (context, &entered, NULL))
    return gates;

  transfer_open_gate (gate);

  if (_gpu_cuda_get_internal_stream (context, &stream, NULL))
    {
      code = _gpu_cuda_wait_for_gate (stream, (GpuCudaEvent *) gate);

      if (code == CUDA_SUCCESS)
        gates = GPU_CUDA_GATES_WORK;
      else if (code != CUDA_ERROR_OUT_OF_MEMORY)
        gates = GPU_CUDA_GATES_FAIL;
    }

  _gpu_cuda_leave (entered);

  return gates;
}

/* The driver has the function, but not for every device. As long as nobody knows it is tried: a
 * copy whose first gate fails goes straight. */
static gboolean
transfer_has_gates (GpuNativeContext *native)
{
  GpuCudaContext *context = (GpuCudaContext *) native;
  GpuCudaGates gates = g_atomic_int_get (&context->gates);

  if (gates != GPU_CUDA_GATES_UNKNOWN)
    return gates == GPU_CUDA_GATES_WORK;

  gates = try_gate (context);
  g_atomic_int_set (&context->gates, gates);

  if (gates == GPU_CUDA_GATES_FAIL)
    _gpu_debug_print (GPU_DEBUG_TRANSFER, "%s: streams cannot wait for values: nothing is staged",
                      native->devices[0]->id);

  return gates != GPU_CUDA_GATES_FAIL;
}

const GpuTransferOps _gpu_cuda_transfer_ops =
{
  .needs_page_locked = TRUE,
  .get_min_size      = transfer_get_min_size,
  .has_gates         = transfer_has_gates,
  .is_page_locked    = transfer_is_page_locked,
  .create_gate       = transfer_create_gate,
  .open_gate         = transfer_open_gate
};
