/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Ops that the staging engine calls. */
#include "config.h"

#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/cuda/core/gpu-cuda-current.h"

static gsize
transfer_get_min_size (GpuNativeContext *context G_GNUC_UNUSED,
                       gboolean          write,
                       gboolean          blocking)
{
  if (!_gpu_cuda_has_group (GPU_CUDA_GROUP_STREAM_WAIT, NULL))
    return 0;

  if (!blocking)
    return write ? GPU_TRANSFER_MIN_ASYNC_WRITE : GPU_TRANSFER_MIN_ASYNC_READ;

  return GPU_TRANSFER_MIN;
}

/* Queries the driver, because any code in the process may have allocated or registered the memory.
 * Returns FALSE if only a part is page-locked: the driver rejects copies that begin in page-locked
 * memory and extend past its end. */
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

  type = _gpu_cuda_get_pointer_attribute (address, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 0);

  if (type != 0)
    {
      start = _gpu_cuda_get_pointer_attribute (address, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                               start);
      range = _gpu_cuda_get_pointer_attribute (address, CU_POINTER_ATTRIBUTE_RANGE_SIZE, range);
    }

  _gpu_cuda_leave (entered);

  return type != 0 && address - start <= range && size <= range - (address - start);
}

static void
transfer_signal_host_wait (GpuNativeEvent *native)
{
  GpuCudaEvent *host_wait = (GpuCudaEvent *) native;

  __atomic_store_n (host_wait->word, host_wait->value, __ATOMIC_RELEASE);
}

/* Tests host-signalled waits with a wait that is already signalled. The result is unknown if a call
 * before the wait fails, or if the driver is out of memory. */
static GpuCudaHostWaits
try_host_wait (GpuCudaContext *context)
{
  g_autoptr (GpuNativeEvent) host_wait = _gpu_cuda_host_wait_new (&context->base, NULL);
  GpuCudaHostWaits host_waits = GPU_CUDA_HOST_WAITS_UNKNOWN;
  CUstream stream;
  gboolean entered;
  CUresult code;

  if (host_wait == NULL || !_gpu_cuda_enter (context, &entered, NULL))
    return host_waits;

  transfer_signal_host_wait (host_wait);

  if (_gpu_cuda_get_internal_stream (context, &stream, NULL))
    {
      code = _gpu_cuda_enqueue_host_wait (stream, (GpuCudaEvent *) host_wait);

      if (code == CUDA_SUCCESS)
        host_waits = GPU_CUDA_HOST_WAITS_WORK;
      else if (code != CUDA_ERROR_OUT_OF_MEMORY)
        host_waits = GPU_CUDA_HOST_WAITS_FAIL;
    }

  _gpu_cuda_leave (entered);

  return host_waits;
}

/* Returns whether streams can wait for a value that the host writes. The driver only supports
 * cuStreamWaitValue32() on some devices, so the first call tries such a wait. If the attempt has no
 * clear result, returns TRUE, and the next call tries again. This is safe: if the first
 * host-signalled wait of a copy fails, the copy is not staged. */
static gboolean
transfer_has_host_waits (GpuNativeContext *native)
{
  GpuCudaContext *context = (GpuCudaContext *) native;
  GpuCudaHostWaits host_waits = g_atomic_int_get (&context->host_waits);

  if (host_waits != GPU_CUDA_HOST_WAITS_UNKNOWN)
    return host_waits == GPU_CUDA_HOST_WAITS_WORK;

  host_waits = try_host_wait (context);
  g_atomic_int_set (&context->host_waits, host_waits);

  if (host_waits == GPU_CUDA_HOST_WAITS_FAIL)
    _gpu_debug_print (GPU_DEBUG_TRANSFER, "%s: streams cannot wait for values: copies not staged",
                      native->devices[0]->id);

  return host_waits != GPU_CUDA_HOST_WAITS_FAIL;
}

const GpuTransferOps _gpu_cuda_transfer_ops =
{
  .needs_page_locked = TRUE,
  .get_min_size      = transfer_get_min_size,
  .has_host_waits    = transfer_has_host_waits,
  .is_page_locked    = transfer_is_page_locked,
  .create_host_wait  = _gpu_cuda_host_wait_new,
  .signal_host_wait  = transfer_signal_host_wait
};
