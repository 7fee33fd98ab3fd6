/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Images of the CUDA back end: formats, mip levels, and wrapped arrays. The tests call functions of
 * the driver that the library has loaded. */
#include "config.h"

#include "cuda-driver/cuda-driver.h"
#include "gpumem/cuda/image/gpu-cuda-image.h"
#include "gpumem/cuda/program/gpu-cuda-program.h"
#include "test-cuda-util.h"
#include "test-image-util.h"

#define TEXEL 4

/* For each image type: a format and a small extent with different sides. */
static const struct
{
  GpuImageType type;
  GpuExtent    extent;
}
shapes[] = {
  { GPU_IMAGE_TYPE_IMAGE_1D, { 37, 1, 1 } },
  { GPU_IMAGE_TYPE_IMAGE_1D_ARRAY, { 37, 9, 1 } },
  { GPU_IMAGE_TYPE_IMAGE_2D, { 37, 21, 1 } },
  { GPU_IMAGE_TYPE_IMAGE_2D_ARRAY, { 37, 21, 5 } },
  { GPU_IMAGE_TYPE_IMAGE_3D, { 37, 21, 7 } },
  { GPU_IMAGE_TYPE_CUBEMAP, { 16, 16, 6 } },
  { GPU_IMAGE_TYPE_CUBEMAP_ARRAY, { 16, 16, 12 } }
};

static const GpuImageFormat rgba8 = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UNORM8 };

/* --- sources ---------------------------------------------------------------------------------- */

static char *
prepare (const char *source)
{
  g_autoptr (GPtrArray) options = g_ptr_array_new ();

  return _gpu_cuda_source_prepare (source, GPU_CUDA_LANGUAGE_PORTABLE, options, NULL);
}

/* Only programs that use images get the image prelude. */
static void
image_prelude_only_for_images (void)
{
  static const struct { const char *source; gboolean has_images; const char *words; } cases[] = {
    { "kernel void f (read_only image2d_t i) { }", TRUE, "(__read_only image2d_t i)" },
    { "kernel void f (__write_only image3d_t i) { }", TRUE, "(__write_only image3d_t i)" },
    { "#define I image1d_buffer_t\n", TRUE, "#define I image1d_buffer_t\n" },
    { "constant sampler_t s = 0;", TRUE, "const sampler_t s = 0;" },
    { "#include \"images.h\"\nkernel void f (IMAGE i) { }", TRUE, "(IMAGE i)" },
    { "#define IMAGE(n) image ## n ## d_t\n", TRUE, "image ## n" },
    { "int read_only, write_only, image2d;", FALSE, "int read_only, write_only, image2d;" },
    { "// image2d_t\nchar *s = \"sampler_t\";", FALSE, "char *s" }
  };
  static const char *const broken[] = { "sampler_t", "sampler_t s", "sampler_t s =", "read_only",
                                        "constant sampler_t", "sampler_t s = CLK_FILTER_LINEAR",
                                        "kernel void f (read_only image2d_t", "image2d_t (" };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *text = prepare (cases[i].source);

      g_assert_nonnull (strstr (text, cases[i].words));
      g_assert_cmpint (strstr (text, "gpu_read_image") != NULL, ==, cases[i].has_images);
    }
  for (guint i = 0; i < G_N_ELEMENTS (broken); i++)
    g_free (prepare (broken[i]));
}

static void
image_constants (void)
{
  static const struct { const char *source; guint samplers; } cases[] = {
    { "image2d_t i", 0 },
    { "sampler_t s = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_NONE | CLK_FILTER_NEAREST;", 1 },
    { "sampler_t s = (CLK_FILTER_LINEAR | CLK_ADDRESS_CLAMP);", 1 << 3 },
    { "sampler_t s = CLK_NORMALIZED_COORDS_TRUE | (CLK_ADDRESS_MIRRORED_REPEAT);", 1 << 10 },
    { "const sampler_t s = CLK_FILTER_NEAREST; constant sampler_t t =\n"
      "CLK_NORMALIZED_COORDS_TRUE | CLK_ADDRESS_REPEAT | CLK_FILTER_LINEAR;", 1 | 1 << 9 },
    { "sampler_t s = MINE;", 0xfff },
    { "#include \"samplers.h\"\n", 0xfff },
    { "#define ONE(x) x##_t\n", 0xfff },
    { "#define ONE(x) #x\n", 0 },
    { "#define MINE CLK_FILTER_LINEAR\nsampler_t s = MINE;", 0xfff },
    { "sampler_t s = CLK_FILTER_LINEAR + 0;", 0xfff },
    { "read_imagef (i, CLK_ADDRESS_CLAMP, 0.5f)", 0xfff },
    { "// CLK_ADDRESS_CLAMP", 0 }
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_assert_cmphex (_gpu_cuda_source_find_samplers (cases[i].source, FALSE), ==,
                       cases[i].samplers);
      g_assert_cmphex (_gpu_cuda_source_find_samplers (cases[i].source, TRUE), ==, 0xfff);
    }
}

/* --- formats and limits ----------------------------------------------------------------------- */

static gboolean
has_format (GList *formats, GpuChannelOrder order, GpuChannelType type)
{
  const GpuImageFormat format = { order, type };

  for (GList *l = formats; l != NULL; l = l->next)
    if (gpu_image_format_equal (l->data, &format))
      return TRUE;
  return FALSE;
}

static void
image_formats (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_IMAGES))
    return;
  for (guint i = 0; i <= GPU_IMAGE_TYPE_CUBEMAP_ARRAY; i++)
    {
      GList *formats = gpu_context_list_image_formats (fixture->context, GPU_MEMORY_FLAGS_NONE, i,
                                                       &error);

      g_assert_no_error (error);
      g_assert_cmpuint (g_list_length (formats), ==, 36);
      g_assert_true (has_format (formats, GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UNORM8));
      g_assert_true (has_format (formats, GPU_CHANNEL_ORDER_RG, GPU_CHANNEL_TYPE_SNORM16));
      g_assert_true (has_format (formats, GPU_CHANNEL_ORDER_R, GPU_CHANNEL_TYPE_FLOAT16));
      g_assert_false (has_format (formats, GPU_CHANNEL_ORDER_RGB, GPU_CHANNEL_TYPE_UNORM8));
      g_list_free_full (formats, (GDestroyNotify) gpu_image_format_free);
    }
}

static void
image_limits (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) attributes = gpu_device_get_attributes (fixture->device, &error);
  GpuExtent most;
  guint32 of_textures, of_surfaces;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_IMAGES))
    return;
  g_variant_lookup (attributes, "maximum-texture1d-width", "u", &of_textures);
  g_variant_lookup (attributes, "maximum-surface1d-width", "u", &of_surfaces);
  test_assert_ok (gpu_context_get_max_image_extent (fixture->context, GPU_IMAGE_TYPE_IMAGE_1D,
                                                    &most, &error), error);
  g_assert_cmpuint (most.width, ==, MIN (of_textures, of_surfaces));
  g_assert_cmpuint (most.height, ==, 1);
  test_assert_ok (gpu_context_get_max_image_extent (fixture->context, GPU_IMAGE_TYPE_CUBEMAP,
                                                    &most, &error), error);
  g_assert_cmpuint (most.width, ==, most.height);
  g_assert_cmpuint (most.depth, ==, 6);

  /* Mip levels reduce the maximum width. */
  test_assert_ok (gpu_context_get_max_image_extent (fixture->context, GPU_IMAGE_TYPE_IMAGE_2D,
                                                    &most, &error), error);
  most.height = 1;
  g_assert_null (gpu_image_new_mipmapped (fixture->context, GPU_MEMORY_FLAGS_NONE, &rgba8,
                                          GPU_IMAGE_TYPE_IMAGE_2D, &most, 2, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "2 mip levels", "at most");
  g_assert_null (gpu_image_new (fixture->context, GPU_MEMORY_FLAGS_ALLOC_HOST, &rgba8,
                                GPU_IMAGE_TYPE_IMAGE_2D, &(GpuExtent) { 4, 4, 1 }, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "rgba-unorm8", "2d");
}

static void
image_attributes (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_IMAGES))
    return;
  for (guint i = 0; i < G_N_ELEMENTS (shapes); i++)
    {
      g_autoptr (GpuImage) image = test_image (fixture, GPU_MEMORY_FLAGS_NONE, &rgba8,
                                               shapes[i].type,
                                               shapes[i].extent);
      g_autoptr (GVariant) attributes = gpu_memory_get_attributes (GPU_MEMORY (image), &error);
      g_autofree const char **flags = NULL;
      guint32 n_channels;
      guint64 width;

      g_assert_no_error (error);
      g_assert_true (g_variant_lookup (attributes, "array-num-channels", "u", &n_channels));
      g_assert_true (g_variant_lookup (attributes, "array-width", "t", &width));
      g_assert_true (g_variant_lookup (attributes, "array-flags", "^a&s", &flags));
      g_assert_cmpuint (n_channels, ==, 4);
      g_assert_cmpuint (width, ==, shapes[i].extent.width);
      g_assert_true (g_strv_contains (flags, "surface-ldst"));
      g_assert_cmpuint (gpu_memory_get_size (GPU_MEMORY (image)), ==,
                        test_count_texels (&shapes[i].extent) * TEXEL);
      g_assert_cmpuint (gpu_image_get_row_pitch (image), ==, shapes[i].extent.width * TEXEL);
      g_assert_cmpuint (gpu_memory_get_device_address (GPU_MEMORY (image)), ==, 0);
      g_assert_cmpuint (gpu_memory_get_native_handle (GPU_MEMORY (image)), !=, 0);
    }
}

/* If the driver cannot allocate an image, the error names the free memory. */
static void
image_no_memory (TestFixture *fixture)
{
  static const char *const calls[] = { "cuArray3DCreate", "cuMipmappedArrayCreate" };
  g_autoptr (GError) error = NULL;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_IMAGES))
    return;
  if (gpumem_cuda_driver_symbol ("gpumem_cuda_driver_set_fail") == NULL)
    {
      g_test_skip ("only the stand-in fails on demand");
      return;
    }
  for (guint i = 0; i < G_N_ELEMENTS (calls); i++)
    {
      g_autofree char *spec = g_strconcat (calls[i], ":1:2:9", NULL);

      GPUMEM_CUDA_DRIVER (set_fail) (spec);
      g_assert_null (gpu_image_new_mipmapped (fixture->context, GPU_MEMORY_FLAGS_NONE, &rgba8,
                                              GPU_IMAGE_TYPE_IMAGE_2D, &(GpuExtent) { 64, 64, 1 },
                                              i + 1, &error));
      GPUMEM_CUDA_DRIVER (set_fail) ("");
      test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY, calls[i],
                             "CUDA_ERROR_OUT_OF_MEMORY (2)", "bytes requested", "bytes free of");
    }
}

/* If the upload of the initial content fails, the error names the size and the pitch of the
 * image. */
static void
image_upload_fails (TestFixture *fixture)
{
  static const char *const calls[] = { "cuMemcpy3DAsync", "cuStreamSynchronize" };
  g_autoptr (GBytes) bytes = test_random_bytes (8 * 8 * TEXEL);

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_IMAGES))
    return;
  if (gpumem_cuda_driver_symbol ("gpumem_cuda_driver_set_fail") == NULL)
    {
      g_test_skip ("only the stand-in fails on demand");
      return;
    }
  for (guint i = 0; i < G_N_ELEMENTS (calls); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autofree char *spec = g_strconcat (calls[i], ":1:999", NULL);

      GPUMEM_CUDA_DRIVER (set_fail) (spec);
      g_assert_null (gpu_image_new_from_bytes (fixture->context, GPU_MEMORY_FLAGS_NONE, &rgba8,
                                               GPU_IMAGE_TYPE_IMAGE_2D, &(GpuExtent) { 8, 8, 1 },
                                               bytes, 0, 0, &error));
      GPUMEM_CUDA_DRIVER (set_fail) ("");
      test_assert_gpu_error (error, GPU_ERROR_FAILED, calls[i], "8 x 8 x 1 texels",
                             "row pitch 32");
    }
}

/* A launch makes the context current once, for any number of images. */
static void
image_context_current_once (TestFixture *fixture)
{
  static const char source[] =
    "__kernel void f (__read_only image2d_t a, __write_only image2d_t b, sampler_t s)\n"
    "{ write_imagef (b, (int2) (0, 0), read_imagef (a, s, (int2) (0, 0))); }\n";
  const GpuExtent extent = { 4, 4, 1 };
  const GpuExtent one = { 1, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuSampler) sampler = NULL;
  g_autoptr (GpuImage) a = NULL;
  g_autoptr (GpuImage) b = NULL;
  guint64 before;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_IMAGES))
    return;
  if (gpumem_cuda_driver_symbol ("gpumem_cuda_driver_get_count") == NULL)
    {
      g_test_skip ("only the stand-in counts calls");
      return;
    }
  kernel = test_kernel (fixture, source, "f");
  sampler = gpu_sampler_new (fixture->context, FALSE, GPU_ADDRESS_MODE_CLAMP_TO_EDGE,
                             GPU_FILTER_MODE_NEAREST, &error);
  g_assert_no_error (error);
  a = test_image (fixture, GPU_MEMORY_FLAGS_NONE, &rgba8, GPU_IMAGE_TYPE_IMAGE_2D, extent);
  b = test_image (fixture, GPU_MEMORY_FLAGS_NONE, &rgba8, GPU_IMAGE_TYPE_IMAGE_2D, extent);
  test_assert_ok (gpu_stream_launch (fixture->stream, kernel, &one, NULL, &error, a, b, sampler),
                  error);
  before = GPUMEM_CUDA_DRIVER (get_count) ("cuCtxPushCurrent");
  test_assert_ok (gpu_stream_launch (fixture->stream, kernel, &one, NULL, &error, a, b, sampler),
                  error);
  g_assert_cmpuint (GPUMEM_CUDA_DRIVER (get_count) ("cuCtxPushCurrent"), ==, before + 1);
}

/* --- levels ----------------------------------------------------------------------------------- */

static void
check_levels (TestFixture *fixture, GpuImageType type, const GpuExtent *extent, guint n_levels)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuImage) image = gpu_image_new_mipmapped (fixture->context, GPU_MEMORY_FLAGS_NONE,
                                                        &rgba8,
                                                        type, extent, n_levels, &error);
  g_autoptr (GPtrArray) levels = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr (GPtrArray) contents = g_ptr_array_new_with_free_func ((GDestroyNotify) g_bytes_unref);
  gsize size = 0;

  g_assert_no_error (error);
  g_assert_cmpuint (gpu_image_get_n_levels (image), ==, n_levels);
  for (guint i = 0; i < n_levels; i++)
    {
      GpuImage *level = gpu_image_get_level (image, i, &error);
      GpuExtent level_extent;
      GBytes *texels;

      g_assert_no_error (error);
      gpu_image_get_extent (level, &level_extent);
      g_assert_cmpuint (level_extent.width, ==, MAX (extent->width >> i, 1));
      texels = test_random_bytes (test_count_texels (&level_extent) * TEXEL);
      size += test_count_texels (&level_extent) * TEXEL;
      test_assert_ok (gpu_image_write_bytes (level, fixture->stream, NULL, &level_extent, texels,
                                             0, 0, NULL, &error), error);
      g_ptr_array_add (levels, level);
      g_ptr_array_add (contents, texels);
    }
  g_assert_cmpuint (gpu_memory_get_size (GPU_MEMORY (image)), ==, size);
  for (guint i = 0; i < n_levels; i++)
    test_assert_texels (levels->pdata[i], contents->pdata[i]);
  /* A single-level image is its own level 0. */
  test_assert_texels (image, contents->pdata[0]);
}

static void
image_levels (TestFixture *fixture)
{
  if (!test_is_cuda (fixture, GPU_CAPABILITIES_IMAGES)
      || !test_has (fixture, GPU_CAPABILITIES_MIPMAPS))
    return;
  check_levels (fixture, GPU_IMAGE_TYPE_IMAGE_1D, &(GpuExtent) { 40, 1, 1 }, 6);
  check_levels (fixture, GPU_IMAGE_TYPE_IMAGE_2D, &(GpuExtent) { 40, 17, 1 }, 6);
  check_levels (fixture, GPU_IMAGE_TYPE_IMAGE_3D, &(GpuExtent) { 8, 16, 32 }, 4);
  check_levels (fixture, GPU_IMAGE_TYPE_IMAGE_1D_ARRAY, &(GpuExtent) { 16, 5, 1 }, 3);
  check_levels (fixture, GPU_IMAGE_TYPE_IMAGE_2D_ARRAY, &(GpuExtent) { 16, 8, 5 }, 5);
  check_levels (fixture, GPU_IMAGE_TYPE_CUBEMAP, &(GpuExtent) { 8, 8, 6 }, 4);
  check_levels (fixture, GPU_IMAGE_TYPE_CUBEMAP_ARRAY, &(GpuExtent) { 8, 8, 12 }, 2);
  check_levels (fixture, GPU_IMAGE_TYPE_IMAGE_2D, &(GpuExtent) { 8, 8, 1 }, 1);
}

/* --- wrapped arrays --------------------------------------------------------------------------- */

static CUarray
array_new (TestFixture *fixture, gsize width, gsize height, gsize depth, CUarray_format format,
           guint n_channels, guint flags)
{
  const CUDA_ARRAY3D_DESCRIPTOR descriptor = { width, height, depth, format, n_channels, flags };
  CUarray array;

  test_cuda_push (fixture);
  g_assert_cmpuint (_gpu_cuda.cuArray3DCreate (&array, &descriptor), ==, CUDA_SUCCESS);
  test_cuda_pop (fixture);
  return array;
}

static void
array_free (TestFixture *fixture, CUarray array)
{
  test_cuda_push (fixture);
  g_assert_cmpuint (_gpu_cuda.cuArrayDestroy (array), ==, CUDA_SUCCESS);
  test_cuda_pop (fixture);
}

/* Copies a row of a 2D array with the driver's own function. */
static void
array_copy (TestFixture *fixture, CUarray array, gpointer data, gsize size, gboolean to_array)
{
  CUDA_MEMCPY2D copy = { .srcHost = data, .dstHost = data, .srcArray = array, .dstArray = array,
                         .srcPitch = size, .dstPitch = size, .WidthInBytes = size, .Height = 1 };

  copy.srcMemoryType = to_array ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_ARRAY;
  copy.dstMemoryType = to_array ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_HOST;
  test_cuda_push (fixture);
  g_assert_cmpuint (_gpu_cuda.cuMemcpy2DAsync (&copy, NULL), ==, CUDA_SUCCESS);
  g_assert_cmpuint (_gpu_cuda.cuStreamSynchronize (NULL), ==, CUDA_SUCCESS);
  test_cuda_pop (fixture);
}

static void
note (gpointer data)
{
  *(gboolean *) data = TRUE;
}

static void
image_wrapped (TestFixture *fixture)
{
  guint8 data[16];
  gboolean noted = FALSE;
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) texels = test_random_bytes (16);
  g_autoptr (GBytes) others = test_random_bytes (16);
  g_autoptr (GpuImage) image = NULL;
  GBytes *keeper;
  CUarray array;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_IMAGES))
    return;
  array = array_new (fixture, 4, 1, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4, 0);
  memcpy (data, g_bytes_get_data (texels, NULL), 16);
  array_copy (fixture, array, data, 16, TRUE);
  keeper = g_bytes_new_with_free_func (NULL, 0, note, &noted);
  image = gpu_image_new_wrapped (fixture->context, (guintptr) array, &rgba8, GPU_WRAP_MODE_BORROW,
                                 keeper, &error);
  g_bytes_unref (keeper);
  g_assert_no_error (error);
  g_assert_cmpint (gpu_image_get_image_type (image), ==, GPU_IMAGE_TYPE_IMAGE_2D);
  g_assert_true (gpu_image_format_equal (gpu_image_get_format (image), &rgba8));
  g_assert_cmpuint (gpu_memory_get_native_handle (GPU_MEMORY (image)), ==, (guintptr) array);
  test_assert_texels (image, texels);
  test_assert_ok (gpu_image_write_bytes (image, NULL, NULL, NULL, others, 0, 0, NULL, &error),
                  error);
  array_copy (fixture, array, data, 16, FALSE);
  test_assert_mem (data, g_bytes_get_data (others, NULL), 16);
  g_clear_object (&image);
  test_wait_until (&noted);

  /* Export the array of an image to the driver. */
  array_free (fixture, array);
  image = test_image_from (fixture, &rgba8, GPU_IMAGE_TYPE_IMAGE_2D, (GpuExtent) { 4, 1, 1 },
                           texels);
  array = (CUarray) (guintptr) gpu_memory_get_native_handle (GPU_MEMORY (image));
  array_copy (fixture, array, data, 16, FALSE);
  test_assert_mem (data, g_bytes_get_data (texels, NULL), 16);
}

/* Wraps arrays whose format the driver does not report, or reports as another format. */
static void
image_wrapped_format (TestFixture *fixture)
{
  static const GpuImageFormat rgba16 = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UNORM16 };
  static const GpuImageFormat snorm8 = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_SNORM8 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GpuImage) adopted = NULL;
  g_autofree char *text = NULL;
  CUarray array;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_IMAGES))
    return;
  array = array_new (fixture, 4, 4, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4, 0);
  image = gpu_image_new_wrapped (fixture->context, (guintptr) array, NULL, GPU_WRAP_MODE_BORROW,
                                 NULL, &error);
  g_assert_no_error (error);
  text = gpu_image_format_to_string (gpu_image_get_format (image));
  g_assert_cmpstr (text, ==, "rgba-uint8");
  g_clear_object (&image);
  g_assert_null (gpu_image_new_wrapped (fixture->context, (guintptr) array, &rgba16,
                                        GPU_WRAP_MODE_ADOPT, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "rgba-uint8", "rgba-unorm16");
  g_assert_null (gpu_image_new_wrapped (fixture->context, (guintptr) array, &snorm8,
                                        GPU_WRAP_MODE_ADOPT, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "rgba-uint8", "rgba-snorm8");
  /* This wrapper takes ownership of the array */
  adopted = gpu_image_new_wrapped (fixture->context, (guintptr) array, &rgba8, GPU_WRAP_MODE_ADOPT,
                                   NULL, &error);
  g_assert_no_error (error);
  g_clear_object (&adopted);

  array = array_new (fixture, 4, 4, 0, CU_AD_FORMAT_UNORM_INT8X4, 4, 0);
  adopted = gpu_image_new_wrapped (fixture->context, (guintptr) array, NULL, GPU_WRAP_MODE_ADOPT,
                                   NULL, &error);
  g_assert_no_error (error);
  g_assert_true (gpu_image_format_equal (gpu_image_get_format (adopted), &rgba8));
}

static void
image_wrapped_shapes (TestFixture *fixture)
{
  static const struct
  {
    gsize sizes[3];
    guint flags;
    GpuImageType type;
    GpuExtent extent;
  }
  cases[] = {
    { { 8, 0, 0 }, 0, GPU_IMAGE_TYPE_IMAGE_1D, { 8, 1, 1 } },
    { { 8, 0, 3 }, CUDA_ARRAY3D_LAYERED, GPU_IMAGE_TYPE_IMAGE_1D_ARRAY, { 8, 3, 1 } },
    { { 8, 1, 0 }, 0, GPU_IMAGE_TYPE_IMAGE_2D, { 8, 1, 1 } },
    { { 8, 4, 3 }, 0, GPU_IMAGE_TYPE_IMAGE_3D, { 8, 4, 3 } },
    { { 8, 4, 3 }, CUDA_ARRAY3D_LAYERED, GPU_IMAGE_TYPE_IMAGE_2D_ARRAY, { 8, 4, 3 } },
    { { 8, 8, 6 }, CUDA_ARRAY3D_CUBEMAP, GPU_IMAGE_TYPE_CUBEMAP, { 8, 8, 6 } },
    { { 8, 8, 12 }, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED, GPU_IMAGE_TYPE_CUBEMAP_ARRAY,
      { 8, 8, 12 } }
  };
  g_autoptr (GError) error = NULL;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_IMAGES))
    return;
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      CUarray array = array_new (fixture, cases[i].sizes[0], cases[i].sizes[1], cases[i].sizes[2],
                                 CU_AD_FORMAT_FLOAT, 1, cases[i].flags);
      g_autoptr (GpuImage) image = gpu_image_new_wrapped (fixture->context, (guintptr) array, NULL,
                                                          GPU_WRAP_MODE_ADOPT, NULL, &error);
      g_autoptr (GBytes) texels = test_random_bytes (test_count_texels (&cases[i].extent) * TEXEL);
      GpuExtent extent;

      g_assert_no_error (error);
      g_assert_cmpint (gpu_image_get_image_type (image), ==, cases[i].type);
      gpu_image_get_extent (image, &extent);
      g_assert_cmpmem (&extent, sizeof extent, &cases[i].extent, sizeof extent);
      test_assert_ok (gpu_image_write_bytes (image, NULL, NULL, NULL, texels, 0, 0, NULL, &error),
                      error);
      test_assert_texels (image, texels);
    }
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add_plain ("prelude-only-for-images", image_prelude_only_for_images);
  test_add_plain ("constants", image_constants);
  test_add ("formats", image_formats);
  test_add ("limits", image_limits);
  test_add ("attributes", image_attributes);
  test_add ("no-memory", image_no_memory);
  test_add ("upload-fails", image_upload_fails);
  test_add ("context-current-once", image_context_current_once);
  test_add ("levels", image_levels);
  test_add ("wrapped", image_wrapped);
  test_add ("wrapped-format", image_wrapped_format);
  test_add ("wrapped-shapes", image_wrapped_shapes);
  return test_run ();
}
