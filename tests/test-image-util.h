/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Images and samplers for tests. What fails ends the test. */
#pragma once

#include "test-util.h"

GpuImage   *test_image          (TestFixture          *fixture,
                                 GpuMemoryFlags        flags,
                                 const GpuImageFormat *format,
                                 GpuImageType          type,
                                 GpuExtent             extent);
GpuImage   *test_image_from     (TestFixture          *fixture,
                                 const GpuImageFormat *format,
                                 GpuImageType          type,
                                 GpuExtent             extent,
                                 GBytes               *bytes);
/* Texels of one channel of 32 bits, which count from @first. */
GpuImage   *test_image_numbers  (TestFixture          *fixture,
                                 const GpuImageFormat *format,
                                 GpuImageType          type,
                                 GpuExtent             extent,
                                 guint                 first);
GpuSampler *test_sampler        (TestFixture          *fixture,
                                 gboolean              normalized,
                                 GpuAddressMode        mode,
                                 GpuFilterMode         filter);
/* All that @image holds is @expected. */
void        test_assert_texels  (GpuImage             *image,
                                 GBytes               *expected);
gsize       test_count_texels   (const GpuExtent      *extent);
