/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Functions that create images and samplers for tests. If a function fails, the test fails. */
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
/* Creates an image of one 32-bit channel whose texels count from @first. */
GpuImage   *test_image_numbers  (TestFixture          *fixture,
                                 const GpuImageFormat *format,
                                 GpuImageType          type,
                                 GpuExtent             extent,
                                 guint                 first);
GpuSampler *test_sampler        (TestFixture          *fixture,
                                 gboolean              normalized,
                                 GpuAddressMode        mode,
                                 GpuFilterMode         filter);
/* Asserts that the content of @image is @expected. */
void        test_assert_texels  (GpuImage             *image,
                                 GBytes               *expected);
gsize       test_count_texels   (const GpuExtent      *extent);
/* Asserts that the content of @image is the @size bytes at @expected. */
void        test_assert_image   (GpuImage             *image,
                                 gconstpointer         expected,
                                 gsize                 size);
void        test_write_image    (GpuImage             *image,
                                 GBytes               *bytes);
void        test_copy_region    (GpuStream            *stream,
                                 gpointer              to,
                                 const GpuLayout      *to_layout,
                                 gpointer              from,
                                 const GpuLayout      *from_layout,
                                 GpuExtent             extent);
/* Creates an image over a buffer: a row of @width texels of four 8-bit integers. */
GpuImage   *test_image_over     (GpuBuffer            *buffer,
                                 gsize                 width);
/* Returns whether the device supports OpenCL images. Otherwise skips the test with a reason. */
gboolean    test_has_opencl_images (TestFixture       *fixture);
