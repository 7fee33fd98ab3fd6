/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Samplers. gpu-backend.h has the rules for every op. */
#pragma once

#include "gpumem/backend/gpu-native-types.h"

G_BEGIN_DECLS

/* The description of a sampler. The public class has checked all values. */
typedef struct
{
  gboolean       normalized_coordinates;
  GpuAddressMode address_modes[3];  /* of x, y and z */
  GpuFilterMode  filter_mode;
  GpuFilterMode  mip_filter_mode;
  GpuReadMode    read_mode;
  guint          max_anisotropy;    /* 1 for none */
  float          lod_bias;
  float          min_lod;
  float          max_lod;
  float          border_color[4];
} GpuSamplerDescription;

/* The public class counts the references and sets the context. */
struct _GpuNativeSampler
{
  const GpuBackend      *backend;
  GpuNativeContext      *context;
  gatomicrefcount        refs;
  GpuSamplerDescription  description;
};

typedef struct
{
  /* any thread. The public class has rejected invalid values. Fails with GPU_ERROR_NOT_SUPPORTED if
   * the driver does not support a valid value. Sets the description of the new sampler. */
  GpuNativeSampler * (*create)         (GpuNativeContext             *context,
                                        const GpuSamplerDescription  *description,
                                        GError                      **error);
  /* any thread; may be NULL. Sets the description of the new sampler. */
  GpuNativeSampler * (*wrap)           (GpuNativeContext             *context,
                                        guint64                       handle,
                                        GpuWrapMode                   mode,
                                        GError                      **error);
  /* any thread. Called when no submitted launch uses the sampler, or when the context is lost.
   * Frees the structure itself. */
  void               (*free)           (GpuNativeContext             *context,
                                        GpuNativeSampler             *sampler);
  /* Gets the driver's handle, or 0 if samplers are not driver objects. */
  guint64            (*get_handle)     (GpuNativeSampler             *sampler);
} GpuSamplerOps;

G_END_DECLS
