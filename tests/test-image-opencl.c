/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Images and samplers of OpenCL: wrapped and exported handles, attributes of the driver, and calls
 * that are refused before they reach the driver. */
#include "config.h"

#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <gpumem/gpumem-opencl.h>

#include "opencl-layer/gpumem-layer.h"
#include "test-image-util.h"

#define WIDTH  24
#define HEIGHT 20
#define SIZE   (4 * WIDTH * HEIGHT)

static const GpuImageFormat rgba8 = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UINT8 };
static const cl_image_format native_rgba8 = { CL_RGBA, CL_UNSIGNED_INT8 };
static const GpuExtent extent_2d = { WIDTH, HEIGHT, 1 };

/* --- foreign handles -------------------------------------------------------------------------- */

static cl_mem
native_image (TestFixture        *fixture,
              cl_mem_object_type  type,
              gsize               width,
              gsize               height,
              gsize               n_layers,
              cl_mem              buffer)
{
  cl_image_desc descriptor = { .image_type = type, .image_width = width, .image_height = height,
                               .image_array_size = n_layers, .image_depth = n_layers };
  cl_int code;
  cl_mem image;

  descriptor.buffer = buffer;
  image = clCreateImage (gpu_context_get_cl_context (fixture->context), CL_MEM_READ_WRITE,
                         &native_rgba8, &descriptor, NULL, &code);
  g_assert_cmpint (code, ==, CL_SUCCESS);

  return image;
}

static guint
n_references (cl_mem mem)
{
  cl_uint n = 0;

  g_assert_cmpint (clGetMemObjectInfo (mem, CL_MEM_REFERENCE_COUNT, sizeof n, &n, NULL), ==,
                   CL_SUCCESS);

  return n;
}

static void
assert_wrapped (TestFixture        *fixture,
                cl_mem_object_type  native_type,
                GpuImageType        type,
                GpuExtent           extent)
{
  const gboolean is_row_array = type == GPU_IMAGE_TYPE_IMAGE_1D_ARRAY;
  const gsize size = 4 * extent.width * extent.height * extent.depth;
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (size);
  g_autoptr (GpuImage) image = NULL;
  GpuExtent got;
  cl_mem mem = native_image (fixture, native_type, extent.width, is_row_array ? 0 : extent.height,
                             is_row_array ? extent.height : extent.depth, NULL);

  image = gpu_image_new_for_cl_mem (fixture->context, mem, GPU_WRAP_MODE_ADOPT, &error);
  g_assert_no_error (error);
  g_assert_true (gpu_image_get_cl_mem (image) == mem);
  g_assert_cmpuint (n_references (mem), ==, 1);
  g_assert_cmpint (gpu_image_get_image_type (image), ==, type);
  g_assert_true (gpu_image_format_equal (gpu_image_get_format (image), &rgba8));
  gpu_image_get_extent (image, &got);
  g_assert_cmpuint (got.width, ==, extent.width);
  g_assert_cmpuint (got.height, ==, extent.height);
  g_assert_cmpuint (got.depth, ==, extent.depth);
  g_assert_cmpuint (gpu_memory_get_size (GPU_MEMORY (image)), ==, size);
  test_assert_ok (gpu_image_write_bytes (image, NULL, NULL, NULL, bytes, 0, 0, NULL, &error),
                  error);
  test_assert_image (image, g_bytes_get_data (bytes, NULL), size);
}

static void
wraps_images (TestFixture *fixture)
{
  if (!test_has_opencl_images (fixture))
    return;

  assert_wrapped (fixture, CL_MEM_OBJECT_IMAGE1D, GPU_IMAGE_TYPE_IMAGE_1D,
                  (GpuExtent) { 33, 1, 1 });
  assert_wrapped (fixture, CL_MEM_OBJECT_IMAGE1D_ARRAY, GPU_IMAGE_TYPE_IMAGE_1D_ARRAY,
                  (GpuExtent) { 33, 5, 1 });
  assert_wrapped (fixture, CL_MEM_OBJECT_IMAGE2D, GPU_IMAGE_TYPE_IMAGE_2D,
                  (GpuExtent) { 33, 7, 1 });
  assert_wrapped (fixture, CL_MEM_OBJECT_IMAGE2D_ARRAY, GPU_IMAGE_TYPE_IMAGE_2D_ARRAY,
                  (GpuExtent) { 9, 7, 3 });
  assert_wrapped (fixture, CL_MEM_OBJECT_IMAGE3D, GPU_IMAGE_TYPE_IMAGE_3D, (GpuExtent) { 9, 7, 3 });
}

/* A wrapper of an image over a buffer finds the buffer. Commands then use the buffer, because PoCL
 * crashes in some commands on such an image. */
static void
wraps_over_buffer (TestFixture *fixture)
{
  const GpuColor color = { 1, 2, 3, 4 };
  const GpuLayout at = { 8, 0, 0, 0, 0 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (4 * WIDTH);
  guint8 expected[4 * WIDTH];

  if (!test_has_opencl_images (fixture))
    return;

  buffer = test_buffer_from (fixture, bytes);
  image = gpu_image_new_for_cl_mem (fixture->context,
                                    native_image (fixture, CL_MEM_OBJECT_IMAGE1D_BUFFER, WIDTH, 0,
                                                  0, gpu_buffer_get_cl_mem (buffer)),
                                    GPU_WRAP_MODE_ADOPT, &error);
  g_assert_no_error (error);
  g_assert_cmpint (gpu_image_get_image_type (image), ==, GPU_IMAGE_TYPE_IMAGE_1D_BUFFER);
  test_assert_ok (gpu_image_fill (image, NULL, &color, &at, NULL, NULL, &error), error);
  memcpy (expected, g_bytes_get_data (bytes, NULL), sizeof expected);
  for (guint i = 8; i < WIDTH; i++)
    memcpy (expected + 4 * i, (const guint8[]) { 1, 2, 3, 4 }, 4);
  test_assert_image (image, expected, sizeof expected);
}

static void
wraps_borrowed (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (4 * WIDTH * HEIGHT);
  GpuImage *image;
  guint8 got[SIZE];
  cl_mem mem;

  if (!test_has_opencl_images (fixture))
    return;

  mem = native_image (fixture, CL_MEM_OBJECT_IMAGE2D, WIDTH, HEIGHT, 1, NULL);
  image = gpu_image_new_for_cl_mem (fixture->context, mem, GPU_WRAP_MODE_BORROW, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (n_references (mem), ==, 2);
  test_assert_ok (gpu_image_write_bytes (image, NULL, NULL, NULL, bytes, 0, 0, NULL, &error),
                  error);
  g_object_unref (image);
  g_assert_cmpuint (n_references (mem), ==, 1);
  g_assert_cmpint (clEnqueueReadImage (gpu_stream_get_cl_queue (fixture->stream), mem, CL_TRUE,
                                       (const gsize[]) { 0, 0, 0 },
                                       (const gsize[]) { WIDTH, HEIGHT, 1 }, 0, 0, got, 0, NULL,
                                       NULL), ==, CL_SUCCESS);
  test_assert_mem (got, g_bytes_get_data (bytes, NULL), SIZE);
  clReleaseMemObject (mem);
}

/* The program enqueues commands on the native handle of an image, ordered with work of the
 * stream. */
static void
exports_images (TestFixture *fixture)
{
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);

  if (!test_has_opencl_images (fixture))
    return;

  image = test_image (fixture, GPU_MEMORY_FLAGS_NONE, &rgba8, GPU_IMAGE_TYPE_IMAGE_2D, extent_2d);
  g_assert_cmpint (clEnqueueWriteImage (gpu_stream_get_cl_queue (fixture->stream),
                                        gpu_image_get_cl_mem (image), CL_FALSE,
                                        (const gsize[]) { 0, 0, 0 },
                                        (const gsize[]) { WIDTH, HEIGHT, 1 }, 0, 0,
                                        g_bytes_get_data (bytes, NULL), 0, NULL, NULL), ==,
                   CL_SUCCESS);
  test_assert_image (image, g_bytes_get_data (bytes, NULL), SIZE);
  gpu_memory_release (GPU_MEMORY (image));
  g_assert_null (gpu_image_get_cl_mem (image));
}

/* An image whose parent the driver does not report is refused: the library could not order its work
 * after other uses of that memory. */
static void
query_fails (TestFixture *fixture)
{
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuImage) over = NULL;
  g_autoptr (GError) error = NULL;
  guint n_failed = 0;

  if (!test_is_opencl (fixture) || gpumem_layer_symbol ("gpumem_layer_get_live") == NULL)
    {
      g_test_skip ("runs as a part of query-fails, on OpenCL under the layer");
      return;
    }

  buffer = test_buffer (fixture, SIZE);
  over = gpu_image_new_for_buffer (buffer, GPU_MEMORY_FLAGS_NONE, &rgba8,
                                   GPU_IMAGE_TYPE_IMAGE_1D_BUFFER, WIDTH, 1, 0, &error);
  g_assert_no_error (error);

  for (guint n = 1; n_failed + 1 == n; n++)
    {
      g_autofree char *fail = g_strdup_printf ("fn=clGetMemObjectInfo,n=%u,code=-6", n);
      g_autoptr (GpuImage) image = NULL;

      g_assert_true (GPUMEM_LAYER (set_fail) (fail));
      image = gpu_image_new_for_cl_mem (fixture->context, gpu_image_get_cl_mem (over),
                                        GPU_WRAP_MODE_BORROW, &error);
      n_failed += GPUMEM_LAYER (get_failed) ();
      g_assert_true (GPUMEM_LAYER (set_fail) (NULL));

      if (n_failed == n)
        test_assert_gpu_error (error, GPU_ERROR_OUT_OF_HOST_MEMORY, "clGetMemObjectInfo");
      else
        g_assert_true (image != NULL);
    }
  g_assert_cmpuint (n_failed, >, 2);
}

static void
run_query_fails (TestFixture *fixture)
{
  if (test_has_opencl_images (fixture))
    test_run_under_layer (fixture, "query-fails");
}

static void
refuses_images (TestFixture *fixture)
{
  const GpuImageFormat other = { GPU_CHANNEL_ORDER_BGRA, GPU_CHANNEL_TYPE_UNORM8 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuContext) second = NULL;
  cl_mem mem;

  if (!test_has_opencl_images (fixture))
    return;

  buffer = test_buffer (fixture, 64);
  mem = native_image (fixture, CL_MEM_OBJECT_IMAGE2D, WIDTH, HEIGHT, 1, NULL);
  second = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_NONE, &error);
  g_assert_no_error (error);

  g_assert_null (gpu_image_new_for_cl_mem (fixture->context, gpu_buffer_get_cl_mem (buffer),
                                           GPU_WRAP_MODE_BORROW, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_image_new_wrapped",
                         "is not an image", "0x10f0");
  g_assert_null (gpu_buffer_new_for_cl_mem (fixture->context, mem, GPU_WRAP_MODE_BORROW,
                                            &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "is not a buffer", "0x10f1");
  g_assert_null (gpu_image_new_for_cl_mem (second, mem, GPU_WRAP_MODE_ADOPT, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "of context");
  g_assert_null (gpu_image_new_wrapped (fixture->context, (guint64) (guintptr) mem, &other,
                                        GPU_WRAP_MODE_ADOPT, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "rgba-uint8", "bgra-unorm8");
  g_assert_cmpuint (n_references (mem), ==, 1);
  clReleaseMemObject (mem);
}

static cl_sampler
native_sampler (TestFixture        *fixture,
                gboolean            normalized,
                cl_addressing_mode  addressing,
                cl_filter_mode      filter)
{
  cl_int code;
  cl_sampler sampler = clCreateSampler (gpu_context_get_cl_context (fixture->context),
                                        normalized ? CL_TRUE : CL_FALSE, addressing, filter,
                                        &code);

  g_assert_cmpint (code, ==, CL_SUCCESS);

  return sampler;
}

static gsize
get_sampler_info (cl_sampler      sampler,
                  cl_sampler_info info)
{
  cl_uint value = 0;

  g_assert_cmpint (clGetSamplerInfo (sampler, info, sizeof value, &value, NULL), ==, CL_SUCCESS);

  return value;
}

static const struct
{
  GpuAddressMode     mode;
  cl_addressing_mode native;
}
address_modes[] =
{
  { GPU_ADDRESS_MODE_NONE, CL_ADDRESS_NONE },
  { GPU_ADDRESS_MODE_CLAMP_TO_EDGE, CL_ADDRESS_CLAMP_TO_EDGE },
  { GPU_ADDRESS_MODE_CLAMP_TO_BORDER, CL_ADDRESS_CLAMP },
  { GPU_ADDRESS_MODE_REPEAT, CL_ADDRESS_REPEAT },
  { GPU_ADDRESS_MODE_MIRRORED_REPEAT, CL_ADDRESS_MIRRORED_REPEAT }
};

/* A wrapper of a sampler's native handle has the modes of that sampler. */
static void
samplers (TestFixture *fixture)
{
  if (!test_has_opencl_images (fixture))
    return;

  for (guint i = 0; i < 4 * G_N_ELEMENTS (address_modes); i++)
    {
      const guint a = i / 4;
      const gboolean normalized = (i & 1) != 0 || a >= 3;
      const GpuFilterMode filter = (i & 2) != 0 ? GPU_FILTER_MODE_LINEAR : GPU_FILTER_MODE_NEAREST;
      const cl_filter_mode native_filter = (i & 2) != 0 ? CL_FILTER_LINEAR : CL_FILTER_NEAREST;
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuSampler) sampler = gpu_sampler_new (fixture->context, normalized,
                                                        address_modes[a].mode, filter, &error);
      g_autoptr (GpuSampler) wrapped = NULL;
      cl_sampler native;

      g_assert_no_error (error);
      native = gpu_sampler_get_cl_sampler (sampler);
      g_assert_cmpuint (get_sampler_info (native, CL_SAMPLER_NORMALIZED_COORDS), ==, normalized);
      g_assert_cmpuint (get_sampler_info (native, CL_SAMPLER_ADDRESSING_MODE), ==,
                        address_modes[a].native);
      g_assert_cmpuint (get_sampler_info (native, CL_SAMPLER_FILTER_MODE), ==, native_filter);

      wrapped = gpu_sampler_new_for_cl_sampler (fixture->context,
                                                native_sampler (fixture, normalized,
                                                                address_modes[a].native,
                                                                native_filter),
                                                GPU_WRAP_MODE_ADOPT, &error);
      g_assert_no_error (error);
      g_assert_true (gpu_sampler_equal (sampler, wrapped));
      g_assert_true (gpu_sampler_get_cl_sampler (wrapped) != native);
    }
}

static void
wraps_samplers (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) second = NULL;
  GpuSampler *sampler;
  cl_sampler native;

  if (!test_has_opencl_images (fixture))
    return;

  native = native_sampler (fixture, TRUE, CL_ADDRESS_REPEAT, CL_FILTER_LINEAR);
  sampler = gpu_sampler_new_for_cl_sampler (fixture->context, native, GPU_WRAP_MODE_BORROW,
                                            &error);
  g_assert_no_error (error);
  g_assert_cmpuint (get_sampler_info (native, CL_SAMPLER_REFERENCE_COUNT), ==, 2);
  g_object_unref (sampler);
  g_assert_cmpuint (get_sampler_info (native, CL_SAMPLER_REFERENCE_COUNT), ==, 1);

  second = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  g_assert_null (gpu_sampler_new_for_cl_sampler (second, native, GPU_WRAP_MODE_ADOPT, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_sampler_new_wrapped",
                         "of context");
  g_assert_null (gpu_sampler_new_wrapped (second, 0, GPU_WRAP_MODE_ADOPT, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "handle is 0");
  clReleaseSampler (native);
}

static void
assert_no_sampler (TestFixture *fixture,
                   GpuError     code,
                   const char  *words,
                   const char  *first_name,
                   ...)
{
  g_autoptr (GError) error = NULL;
  GpuSampler *sampler;
  va_list ap;

  va_start (ap, first_name);
  sampler = (GpuSampler *) g_object_new_valist (GPU_TYPE_SAMPLER, first_name, ap);
  va_end (ap);
  g_assert_false (g_initable_init (G_INITABLE (sampler), NULL, &error));
  test_assert_gpu_error (error, code, "gpu_sampler_new", words);
  g_object_unref (sampler);
  (void) fixture;
}

/* The library refuses sampler modes that OpenCL lacks, and invalid modes, even though PoCL accepts
 * invalid modes. */
static void
refuses_samplers (TestFixture *fixture)
{
  const GpuColor white = { 1, 1, 1, 1 };
  g_autoptr (GError) error = NULL;

  if (!test_has_opencl_images (fixture))
    return;

  assert_no_sampler (fixture, GPU_ERROR_NOT_SUPPORTED, "each dimension", "context",
                     fixture->context, "address-mode-x", GPU_ADDRESS_MODE_CLAMP_TO_EDGE,
                     "address-mode-y", GPU_ADDRESS_MODE_CLAMP_TO_BORDER, NULL);
  assert_no_sampler (fixture, GPU_ERROR_NOT_SUPPORTED, "border", "context", fixture->context,
                     "address-mode-x", GPU_ADDRESS_MODE_CLAMP_TO_BORDER, "address-mode-y",
                     GPU_ADDRESS_MODE_CLAMP_TO_BORDER, "address-mode-z",
                     GPU_ADDRESS_MODE_CLAMP_TO_BORDER, "border-color", &white, NULL);
  assert_no_sampler (fixture, GPU_ERROR_NOT_SUPPORTED, "anisotropic", "context",
                     fixture->context, "max-anisotropy", 4, NULL);
  assert_no_sampler (fixture, GPU_ERROR_NOT_SUPPORTED, "read mode", "context", fixture->context,
                     "read-mode", GPU_READ_MODE_NORMALIZED, NULL);
  assert_no_sampler (fixture, GPU_ERROR_NOT_SUPPORTED, "bias", "context", fixture->context,
                     "lod-bias", 0.5, NULL);
  g_assert_null (gpu_sampler_new (fixture->context, TRUE, 99, GPU_FILTER_MODE_NEAREST, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "99");
  g_assert_null (gpu_sampler_new (fixture->context, TRUE, GPU_ADDRESS_MODE_NONE, 99, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "filter mode");
  g_assert_null (gpu_sampler_new (fixture->context, FALSE, GPU_ADDRESS_MODE_REPEAT,
                                  GPU_FILTER_MODE_NEAREST, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "normalized");

  if ((gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_MIPMAPS) == 0)
    assert_no_sampler (fixture, GPU_ERROR_NOT_SUPPORTED, "mip levels", "context",
                       fixture->context, "max-lod", 2.0, NULL);
}

/* --- attributes of the driver ----------------------------------------------------------------- */

static void
attributes (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GVariant) told = NULL;
  const char *format;
  guint64 number;

  if (!test_has_opencl_images (fixture))
    return;

  image = test_image (fixture, GPU_MEMORY_FLAGS_NONE, &rgba8, GPU_IMAGE_TYPE_IMAGE_2D_ARRAY,
                      (GpuExtent) { 16, 8, 3 });
  told = gpu_memory_get_attributes (GPU_MEMORY (image), &error);
  g_assert_no_error (error);
  g_assert_true (g_variant_lookup (told, "format", "&s", &format));
  g_assert_cmpstr (format, ==, "rgba-uint8");
  g_assert_true (g_variant_lookup (told, "element-size", "t", &number));
  g_assert_cmpuint (number, ==, 4);
  g_assert_true (g_variant_lookup (told, "width", "t", &number));
  g_assert_cmpuint (number, ==, 16);
  g_assert_true (g_variant_lookup (told, "height", "t", &number));
  g_assert_cmpuint (number, ==, 8);
  g_assert_true (g_variant_lookup (told, "array-size", "t", &number));
  g_assert_cmpuint (number, ==, 3);
  /* Some drivers report 0. */
  g_assert_true (g_variant_lookup (told, "row-pitch", "t", &number));
  g_assert_cmpuint (number, <=, gpu_image_get_row_pitch (image));
  g_assert_true (g_variant_lookup (told, "slice-pitch", "t", &number));
  g_assert_cmpuint (number, <=, gpu_image_get_slice_pitch (image));
  g_assert_true (g_variant_lookup (told, "depth", "t", NULL));
  g_assert_true (g_variant_lookup (told, "num-mip-levels", "u", NULL));
  g_assert_true (g_variant_lookup (told, "num-samples", "u", NULL));
  g_assert_true (g_variant_lookup (told, "size", "t", NULL));
  g_assert_true (g_variant_lookup (told, "reference-count", "u", NULL));
}

static void
attributes_over_buffer (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GVariant) told = NULL;
  guint64 number = 0;

  if (!test_has_opencl_images (fixture))
    return;

  buffer = test_buffer (fixture, 256);
  image = test_image_over (buffer, 64);
  told = gpu_memory_get_attributes (GPU_MEMORY (image), &error);
  g_assert_no_error (error);
  g_assert_true (g_variant_lookup (told, "associated-memobject", "t", &number));
  g_assert_cmpuint (number, ==, gpu_memory_get_native_handle (GPU_MEMORY (buffer)));
}

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);
  test_add ("wraps-images", wraps_images);
  test_add ("wraps-over-buffer", wraps_over_buffer);
  test_add ("wraps-borrowed", wraps_borrowed);
  test_add ("exports-images", exports_images);
  test_add ("refuses-images", refuses_images);
  test_add ("query-fails", run_query_fails);
  test_add ("subprocess/query-fails", query_fails);
  test_add ("samplers", samplers);
  test_add ("wraps-samplers", wraps_samplers);
  test_add ("refuses-samplers", refuses_samplers);
  test_add ("attributes", attributes);
  test_add ("attributes-over-buffer", attributes_over_buffer);

  return test_run ();
}
