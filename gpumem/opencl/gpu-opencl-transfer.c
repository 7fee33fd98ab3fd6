/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Operations for the staging engine, which copies pageable memory through page-locked buffers.
 * NVIDIA's driver copies pageable memory slowly and blocks the caller meanwhile, so such copies are
 * staged. On CPU devices, staging has no advantage. */
#include "config.h"

#include "gpumem/opencl/driver/gpu-opencl.h"

static gsize
transfer_get_min_size (GpuNativeContext *context,
                       gboolean          write,
                       gboolean          blocking)
{
  GpuOpenclDevice *device = (GpuOpenclDevice *) context->devices[0];

  if (_gpu_opencl_device_hangs (device))
    return 0;

  if (!_gpu_opencl_device_is_nvidia (device))
    return G_MAXSIZE;

  if (!blocking)
    return write ? GPU_TRANSFER_MIN_ASYNC_WRITE : GPU_TRANSFER_MIN_ASYNC_READ;

  return GPU_TRANSFER_MIN;
}

static gboolean
transfer_is_page_locked (GpuNativeContext *context,
                         gconstpointer     data,
                         gsize             size)
{
  return _gpu_opencl_is_mapped_host ((GpuOpenclContext *) context, data, size);
}

static void
transfer_signal_host_wait (GpuNativeEvent *host_wait)
{
  host_wait->backend->event->set_user (host_wait, TRUE, NULL);
}

const GpuTransferOps _gpu_opencl_transfer_ops =
{
  .get_min_size   = transfer_get_min_size,
  .is_page_locked = transfer_is_page_locked,
  .create_host_wait = _gpu_opencl_create_host_wait,
  .signal_host_wait = transfer_signal_host_wait
};
