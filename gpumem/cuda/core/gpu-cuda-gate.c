/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Gates: words of page-locked memory that a stream looks at until they have reached a value. Each
 * use of a word goes on from the last one, so that a gate that the device has still to pass stays
 * open.
 */
#include "config.h"

#include <string.h>

#include "gpumem/cuda/core/gpu-cuda-call.h"

#define WORDS_PER_BLOCK 1024

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

GpuNativeEvent *
_gpu_cuda_gate_new (GpuNativeContext  *native,
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
