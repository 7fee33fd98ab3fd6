/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Samplers have no native object: gpu-host-sample.c uses their description. */
#include "config.h"

#include "gpumem/host/gpu-host.h"

static GpuNativeSampler *
host_sampler_create (GpuNativeContext             *context G_GNUC_UNUSED,
                     const GpuSamplerDescription  *description,
                     GError                      **error)
{
  GpuNativeSampler *sampler;

  if (description->max_anisotropy > 1)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "host: a maximum anisotropy of %u is not supported: kernels have no derivatives "
                   "of coordinates", description->max_anisotropy);
      return NULL;
    }

  sampler = g_new0 (GpuNativeSampler, 1);
  sampler->backend = &_gpu_host_backend;
  sampler->description = *description;

  return sampler;
}

static void
host_sampler_free (GpuNativeContext *context G_GNUC_UNUSED,
                   GpuNativeSampler *sampler)
{
  g_free (sampler);
}

static guint64
host_sampler_get_handle (GpuNativeSampler *sampler G_GNUC_UNUSED)
{
  return 0;
}

const GpuSamplerOps _gpu_host_sampler_ops =
{
  .create = host_sampler_create,
  .free = host_sampler_free,
  .get_handle = host_sampler_get_handle
};
