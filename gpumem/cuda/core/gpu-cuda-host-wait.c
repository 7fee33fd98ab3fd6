/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Host-signalled waits: a stream polls a word of page-locked memory until the word reaches a value.
 * Each use of a word waits for a greater value than the previous use. Therefore a signalled wait
 * that the device has not yet passed stays signalled if the word is reused.
 */
#include "config.h"

#include <string.h>

#include "gpumem/cuda/core/gpu-cuda-call.h"

#define WORDS_PER_BLOCK 1024

static guint32 *
take_recycled_word (GpuCudaContext *context)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&context->recycled_lock);

  return context->host_wait_words != NULL && context->host_wait_words->len > 0
         ? g_ptr_array_steal_index_fast (context->host_wait_words, context->host_wait_words->len
                                         - 1) : NULL;
}

/* Caller has entered the context. Allocates a block of words. Returns one of them, and adds the
 * others to the list of unused words. */
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
  g_mutex_lock (&context->recycled_lock);

  if (context->host_wait_blocks == NULL)
    {
      context->host_wait_blocks = g_ptr_array_new ();
      context->host_wait_words = g_ptr_array_new ();
    }

  g_ptr_array_add (context->host_wait_blocks, data);
  for (guint i = 1; i < WORDS_PER_BLOCK; i++)
    g_ptr_array_add (context->host_wait_words, (guint32 *) data + i);

  g_mutex_unlock (&context->recycled_lock);

  return data;
}

GpuNativeEvent *
_gpu_cuda_host_wait_new (GpuNativeContext  *native,
                         GError           **error)
{
  GpuCudaContext *context = (GpuCudaContext *) native;
  GpuCudaEvent *host_wait;
  guint32 *word;
  gboolean entered;

  if (!_gpu_cuda_enter (context, &entered, error))
    return NULL;

  word = take_recycled_word (context);
  if (word == NULL)
    word = add_words (context, error);

  _gpu_cuda_leave (entered);

  if (word == NULL)
    return NULL;

  host_wait = _gpu_cuda_event_new_for (context, NULL);
  host_wait->word = word;
  host_wait->value = *word + 1;

  return &host_wait->base;
}

void
_gpu_cuda_host_wait_free (GpuCudaEvent *host_wait)
{
  g_mutex_lock (&host_wait->context->recycled_lock);
  g_ptr_array_add (host_wait->context->host_wait_words, host_wait->word);
  g_mutex_unlock (&host_wait->context->recycled_lock);
}

/* Caller has entered the context. */
CUresult
_gpu_cuda_enqueue_host_wait (CUstream      stream,
                             GpuCudaEvent *host_wait)
{
  CUdeviceptr address;
  CUresult code = _gpu_cuda.cuMemHostGetDevicePointer (&address, host_wait->word, 0);

  if (code != CUDA_SUCCESS)
    return code;

  return _gpu_cuda.cuStreamWaitValue32 (stream, address, host_wait->value,
                                        CU_STREAM_WAIT_VALUE_GEQ);
}

void
_gpu_cuda_host_waits_clear (GpuCudaContext *context,
                            gboolean        can_free)
{
  /* try_host_wait() has enqueued a wait on the internal stream, which may still read a word of
   * these blocks. Let the stream complete before the blocks are freed. */
  if (can_free && context->host_wait_blocks != NULL && context->internal != NULL)
    _gpu_cuda.cuStreamSynchronize (context->internal);

  for (guint i = 0; can_free && context->host_wait_blocks != NULL
       && i < context->host_wait_blocks->len; i++)
    _gpu_cuda.cuMemFreeHost (g_ptr_array_index (context->host_wait_blocks, i));

  g_clear_pointer (&context->host_wait_blocks, g_ptr_array_unref);
  g_clear_pointer (&context->host_wait_words, g_ptr_array_unref);
}
