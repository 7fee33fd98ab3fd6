/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* CUDA has no sampler objects: a sampler is part of a texture object. */
#include "config.h"

#include "gpumem/cuda/image/gpu-cuda-image.h"

static GpuNativeSampler *
sampler_create (GpuNativeContext             *context G_GNUC_UNUSED,
                const GpuSamplerDescription  *description,
                GError                      **error G_GNUC_UNUSED)
{
  GpuNativeSampler *sampler = g_new0 (GpuNativeSampler, 1);

  sampler->backend = &_gpu_cuda_backend;
  sampler->description = *description;

  return sampler;
}

static void
sampler_free (GpuNativeContext *context G_GNUC_UNUSED,
              GpuNativeSampler *sampler)
{
  g_free (sampler);
}

static guint64
sampler_get_handle (GpuNativeSampler *sampler G_GNUC_UNUSED)
{
  return 0;
}

const GpuSamplerOps _gpu_cuda_sampler_ops =
{
  .create     = sampler_create,
  .free       = sampler_free,
  .get_handle = sampler_get_handle
};
