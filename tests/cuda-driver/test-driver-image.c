/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Arrays and surfaces of the stand-in, and misuse of arrays, surfaces and textures. */
#include "config.h"

#include "test-driver.h"

CUarray
new_array (gsize          width,
           gsize          height,
           gsize          depth,
           CUarray_format format,
           guint          n_channels,
           guint          flags)
{
  const CUDA_ARRAY3D_DESCRIPTOR descriptor = { width, height, depth, format, n_channels, flags };
  CUarray array;

  OK (cuArray3DCreate, &array, &descriptor);
  return array;
}

/* Copies a whole array from or to packed host memory. */
void
copy_array (CUarray  array,
            gpointer data,
            gsize    row,
            gsize    height,
            gsize    depth,
            gboolean to_array)
{
  CUDA_MEMCPY3D copy = { .WidthInBytes = row, .Height = height, .Depth = depth,
                         .srcPitch = row, .srcHeight = height, .dstPitch = row,
                         .dstHeight = height, .srcHost = data, .dstHost = data,
                         .srcArray = array, .dstArray = array };

  copy.srcMemoryType = to_array ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_ARRAY;
  copy.dstMemoryType = to_array ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_HOST;
  OK (cuMemcpy3DAsync, &copy, NULL);
  OK (cuStreamSynchronize, NULL);
}

CUtexObject
new_texture (CUarray        array,
             CUaddress_mode mode,
             CUfilter_mode  filter,
             guint          flags)
{
  const CUDA_RESOURCE_DESC resource = { .resType = CU_RESOURCE_TYPE_ARRAY,
                                        .res.array.hArray = array };
  const CUDA_TEXTURE_DESC texture = { .addressMode = { mode, mode, mode }, .filterMode = filter,
                                      .flags = flags, .borderColor = { 9, 9, 9, 9 } };
  CUtexObject object;

  OK (cuTexObjectCreate, &object, &resource, &texture, NULL);
  return object;
}

/* --- arrays ----------------------------------------------------------------------------------- */

static void
test_array_copies (void)
{
  guint16 in[4 * 3], out[4 * 3];
  CUDA_MEMCPY2D plane = { .srcMemoryType = CU_MEMORYTYPE_ARRAY, .srcXInBytes = 2, .srcY = 1,
                          .dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = out, .dstPitch = 6,
                          .WidthInBytes = 6, .Height = 2 };
  CUDA_MEMCPY3D within = { .srcMemoryType = CU_MEMORYTYPE_ARRAY,
                           .dstMemoryType = CU_MEMORYTYPE_ARRAY, .dstXInBytes = 4, .dstY = 1,
                           .WidthInBytes = 4, .Height = 2, .Depth = 1 };
  CUarray array;

  for (guint i = 0; i < G_N_ELEMENTS (in); i++)
    in[i] = 100 * (i / 4) + i % 4;
  begin ();
  array = new_array (4, 3, 0, CU_AD_FORMAT_UNSIGNED_INT16, 1, 0);
  copy_array (array, in, 8, 3, 1, TRUE);
  plane.srcArray = array;
  OK (cuMemcpy2DAsync, &plane, NULL);
  g_assert_cmpuint (out[0], ==, 101);
  g_assert_cmpuint (out[5], ==, 203);
  within.srcArray = within.dstArray = array;
  OK (cuMemcpy3DAsync, &within, NULL);
  copy_array (array, out, 8, 3, 1, FALSE);
  g_assert_cmpuint (out[1 * 4 + 2], ==, 0);
  g_assert_cmpuint (out[2 * 4 + 3], ==, 101);
  g_assert_cmpuint (out[2 * 4 + 1], ==, 201);
  OK (cuArrayDestroy, array);
  end ();
}

static void
check_shape (gsize width,
             gsize height,
             gsize depth,
             guint flags)
{
  gsize n = width * MAX (height, 1) * MAX (depth, 1);
  g_autofree guint8 *in = g_malloc (n);
  g_autofree guint8 *out = g_malloc0 (n);
  CUDA_ARRAY3D_DESCRIPTOR descriptor;
  CUarray array = new_array (width, height, depth, CU_AD_FORMAT_SIGNED_INT8, 1, flags);

  for (gsize i = 0; i < n; i++)
    in[i] = i * 7;
  OK (cuArray3DGetDescriptor, &descriptor, array);
  g_assert_cmpuint (descriptor.Width, ==, width);
  g_assert_cmpuint (descriptor.Height, ==, height);
  g_assert_cmpuint (descriptor.Depth, ==, depth);
  g_assert_cmpuint (descriptor.Flags, ==, flags);
  copy_array (array, in, width, MAX (height, 1), MAX (depth, 1), TRUE);
  copy_array (array, out, width, MAX (height, 1), MAX (depth, 1), FALSE);
  g_assert_cmpmem (out, n, in, n);
  OK (cuArrayDestroy, array);
}

static void
test_array_shapes (void)
{
  begin ();
  check_shape (7, 0, 0, 0);
  check_shape (7, 0, 3, CUDA_ARRAY3D_LAYERED);
  check_shape (7, 5, 3, CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST);
  check_shape (7, 5, 3, CUDA_ARRAY3D_SURFACE_LDST);
  check_shape (5, 5, 6, CUDA_ARRAY3D_CUBEMAP);
  check_shape (5, 5, 12, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED);
  end ();
}

static void
test_array_limits (void)
{
  static const CUDA_ARRAY3D_DESCRIPTOR wrong[] = {
    { 0, 1, 0, CU_AD_FORMAT_FLOAT, 1, 0 },
    { 4, 4, 0, CU_AD_FORMAT_FLOAT, 3, 0 },
    { 4, 4, 0, 0x77, 1, 0 },
    { 4, 4, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_LAYERED },
    { 4, 4, 5, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_CUBEMAP },
    { 4, 5, 6, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_CUBEMAP },
    { 4, 4, 12, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_CUBEMAP },
    { 32769, 0, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_SURFACE_LDST },
    { 131073, 0, 0, CU_AD_FORMAT_FLOAT, 1, 0 },
    { 4, 4, 0, CU_AD_FORMAT_UNORM_INT8X2, 4, 0 },
  };
  static const CUDA_ARRAY3D_DESCRIPTOR large = { 32768, 32768, 0, CU_AD_FORMAT_FLOAT, 4, 0 };
  CUarray array;
  CUmipmappedArray mipmapped;

  begin ();
  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    FAILS (CUDA_ERROR_INVALID_VALUE, cuArray3DCreate, &array, &wrong[i]);
  FAILS (CUDA_ERROR_OUT_OF_MEMORY, cuArray3DCreate, &array, &large);
  FAILS (CUDA_ERROR_OUT_OF_MEMORY, cuMipmappedArrayCreate, &mipmapped, &large, 3);
  OK (cuArrayDestroy, new_array (131072, 0, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0));
  end ();
}

static void
test_mipmapped (void)
{
  const CUDA_ARRAY3D_DESCRIPTOR descriptor = { 8, 4, 6, CU_AD_FORMAT_UNSIGNED_INT8, 1,
                                               CUDA_ARRAY3D_LAYERED };
  CUDA_ARRAY3D_DESCRIPTOR got;
  CUmipmappedArray array;
  CUarray level;
  guint8 in[4 * 2 * 6], out[4 * 2 * 6];

  memset (in, 77, sizeof in);
  begin ();
  OK (cuMipmappedArrayCreate, &array, &descriptor, 20);
  OK (cuMipmappedArrayGetLevel, &level, array, 3);
  OK (cuArray3DGetDescriptor, &got, level);
  g_assert_cmpuint (got.Width, ==, 1);
  g_assert_cmpuint (got.Height, ==, 1);
  g_assert_cmpuint (got.Depth, ==, 6);
  FAILS (CUDA_ERROR_INVALID_VALUE, cuMipmappedArrayGetLevel, &level, array, 4);
  OK (cuMipmappedArrayGetLevel, &level, array, 1);
  copy_array (level, in, 4, 2, 6, TRUE);
  copy_array (level, out, 4, 2, 6, FALSE);
  g_assert_cmpmem (out, sizeof out, in, sizeof in);
  OK (cuMipmappedArrayDestroy, array);
  end ();
}

/* --- surfaces --------------------------------------------------------------------------------- */

static const char source[] =
  "extern \"C\" __global__ void read (cudaTextureObject_t t, int in_space, float *to)\n"
  "{\n"
  "  *to = in_space ? tex3D<float> (t, 0, 0, 0) : tex2D<float> (t, 0, 0);\n"
  "}\n"
  "extern \"C\" __global__ void \n"
  "put (cudaSurfaceObject_t s, int kind, int x, int y, int z, int value, int mode)\n"
  "{\n"
  "  uchar4 four = make_uchar4 (value, value + 1, value + 2, value + 3);\n"
  "  cudaSurfaceBoundaryMode m = (cudaSurfaceBoundaryMode) mode;\n"
  "  switch (kind)\n"
  "    {\n"
  "    case 1: surf1Dwrite<uchar4> (four, s, x, m); break;\n"
  "    case 2: surf2Dwrite (four, s, x, y, m); break;\n"
  "    case 3: surf3Dwrite (four, s, x, y, z, m); break;\n"
  "    case 4: surf1DLayeredwrite (four, s, x, z, m); break;\n"
  "    case 5: surf2DLayeredwrite (four, s, x, y, z, m); break;\n"
  "    case 6: surfCubemapwrite (four, s, x, y, z, m); break;\n"
  "    case 7: surf2Dwrite (surf2Dread<unsigned> (s, 0, 0, m) + 1, s, x, y, m); break;\n"
  "    }\n"
  "}\n";

static CUsurfObject
new_surface (CUarray array)
{
  const CUDA_RESOURCE_DESC resource = { .resType = CU_RESOURCE_TYPE_ARRAY,
                                        .res.array.hArray = array };
  CUsurfObject surface;

  OK (cuSurfObjectCreate, &surface, &resource);
  return surface;
}

static void
check_surface (CUmodule module,
               gsize    height,
               gsize    depth,
               guint    flags,
               int      kind,
               int      y,
               int      z)
{
  gsize n_rows = MAX (height, 1), n_slices = MAX (depth, 1);
  g_autofree guint8 *texels = g_malloc0 (4 * 4 * n_rows * n_slices);
  CUarray array = new_array (4, height, depth, CU_AD_FORMAT_UNSIGNED_INT8, 4,
                             flags | CUDA_ARRAY3D_SURFACE_LDST);
  CUsurfObject surface = new_surface (array);
  int x = 8, value = 40, mode = 0;
  void *arguments[] = { &surface, &kind, &x, &y, &z, &value, &mode };
  const guint8 *texel = texels + ((z * n_rows + y) * 4 + 2) * 4;

  copy_array (array, texels, 16, n_rows, n_slices, TRUE);
  launch_kernel (module, "put", 1, 1, 0, arguments);
  /* A position outside of the surface */
  x = 16;
  launch_kernel (module, "put", 1, 1, 0, arguments);
  copy_array (array, texels, 16, n_rows, n_slices, FALSE);
  for (guint i = 0; i < 4; i++)
    g_assert_cmpuint (texel[i], ==, 40 + i);
  OK (cuSurfObjectDestroy, surface);
  OK (cuArrayDestroy, array);
}

static void
test_surfaces (void)
{
  guint32 texels[] = { 5, 0, 0, 0 };
  CUmodule module;
  CUarray array;
  CUsurfObject surface;
  int kind = 7, x = 99 * 4, y = 99, z = 0, mode = 1;
  void *arguments[] = { &surface, &kind, &x, &y, &z, &z, &mode };

  begin ();
  module = load_source (source);
  check_surface (module, 0, 0, 0, 1, 0, 0);
  check_surface (module, 3, 0, 0, 2, 2, 0);
  check_surface (module, 3, 3, 0, 3, 1, 2);
  check_surface (module, 0, 3, CUDA_ARRAY3D_LAYERED, 4, 0, 2);
  check_surface (module, 3, 3, CUDA_ARRAY3D_LAYERED, 5, 2, 1);
  check_surface (module, 4, 6, CUDA_ARRAY3D_CUBEMAP, 6, 3, 5);
  array = new_array (2, 2, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1, CUDA_ARRAY3D_SURFACE_LDST);
  surface = new_surface (array);
  copy_array (array, texels, 8, 2, 1, TRUE);
  launch_kernel (module, "put", 1, 1, 0, arguments);
  copy_array (array, texels, 8, 2, 1, FALSE);
  g_assert_cmpuint (texels[3], ==, 6);
  OK (cuSurfObjectDestroy, surface);
  OK (cuArrayDestroy, array);
  OK (cuModuleUnload, module);
  end ();
}

/* --- misuse ----------------------------------------------------------------------------------- */

static CUarray
plain_array (void)
{
  return new_array (4, 4, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4, CUDA_ARRAY3D_SURFACE_LDST);
}

static void
array_twice (void)
{
  CUarray array = plain_array ();

  OK (cuArrayDestroy, array);
  driver.cuArrayDestroy (array);
}

static void
array_before_texture (void)
{
  CUarray array = plain_array ();

  new_texture (array, CU_TR_ADDRESS_MODE_CLAMP, CU_TR_FILTER_MODE_POINT, 0);
  driver.cuArrayDestroy (array);
}

static void
array_in_use (void)
{
  guint8 *pinned;
  CUarray array = plain_array ();
  CUDA_MEMCPY3D copy = { .srcMemoryType = CU_MEMORYTYPE_ARRAY, .srcArray = array,
                         .dstMemoryType = CU_MEMORYTYPE_HOST, .dstPitch = 16, .WidthInBytes = 16,
                         .Height = 4, .Depth = 1 };

  OK (cuMemHostAlloc, (void **) &pinned, 64, 0);
  copy.dstHost = pinned;
  keep_busy (NULL);
  OK (cuMemcpy3DAsync, &copy, NULL);
  driver.cuArrayDestroy (array);
}

static void
part_of_texel (void)
{
  CUDA_MEMCPY2D copy = { .srcMemoryType = CU_MEMORYTYPE_ARRAY, .srcArray = plain_array (),
                         .dstMemoryType = CU_MEMORYTYPE_ARRAY, .dstArray = plain_array (),
                         .WidthInBytes = 6, .Height = 1 };

  driver.cuMemcpy2DAsync (&copy, NULL);
}

static void
past_the_edge (void)
{
  CUDA_MEMCPY3D copy = { .srcMemoryType = CU_MEMORYTYPE_ARRAY, .srcArray = plain_array (),
                         .dstMemoryType = CU_MEMORYTYPE_ARRAY, .dstArray = plain_array (),
                         .srcY = 3, .WidthInBytes = 16, .Height = 2, .Depth = 1 };

  driver.cuMemcpy3DAsync (&copy, NULL);
}

static void
parts_overlap (void)
{
  CUarray array = plain_array ();
  CUDA_MEMCPY3D copy = { .srcMemoryType = CU_MEMORYTYPE_ARRAY, .srcArray = array,
                         .dstMemoryType = CU_MEMORYTYPE_ARRAY, .dstArray = array,
                         .dstY = 1, .WidthInBytes = 16, .Height = 2, .Depth = 1 };

  driver.cuMemcpy3DAsync (&copy, NULL);
}

static void
filtered_integers (void)
{
  new_texture (plain_array (), CU_TR_ADDRESS_MODE_CLAMP, CU_TR_FILTER_MODE_LINEAR,
               CU_TRSF_READ_AS_INTEGER);
}

static void
wrap_without_norm (void)
{
  new_texture (plain_array (), CU_TR_ADDRESS_MODE_WRAP, CU_TR_FILTER_MODE_POINT, 0);
}

static void
plain_surface (void)
{
  new_surface (new_array (4, 4, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4, 0));
}

/* Launches a kernel that reads a texture. The texture is destroyed before the launch if @destroy is
 * -1, and after the launch if it is 1. */
static void
read_texture (int in_space,
              int destroy)
{
  CUmodule module = load_source (source);
  CUtexObject texture = new_texture (plain_array (), CU_TR_ADDRESS_MODE_CLAMP, 0, 0);
  CUdeviceptr memory;
  void *arguments[] = { &texture, &in_space, &memory };

  OK (cuMemAlloc, &memory, 16);
  if (destroy < 0)
    OK (cuTexObjectDestroy, texture);
  else if (destroy > 0)
    keep_busy (NULL);
  launch_kernel (module, "read", 1, 1, 0, arguments);
  if (destroy > 0)
    driver.cuTexObjectDestroy (texture);
  OK (cuCtxSynchronize);
}

static void
texture_is_gone (void)
{
  read_texture (0, -1);
}

static void
texture_in_use (void)
{
  read_texture (0, 1);
}

static void
other_kind (void)
{
  read_texture (1, 0);
}

static const Misuse misuses[] = {
  { "array-twice", "cuArrayDestroy): array*was destroyed", array_twice },
  { "array-before-texture", "the texture object from call*was not destroyed before",
    array_before_texture },
  { "array-in-use", "cuArrayDestroy): 1 pending operations use", array_in_use },
  { "part-of-texel", "6 bytes from byte 0 of an array of 4 bytes each", part_of_texel },
  { "past-the-edge", "16 bytes x 2 x 1 from 0, 3, 0 on of an array of 16 bytes x 4",
    past_the_edge },
  { "parts-overlap", "two parts of an array overlap", parts_overlap },
  { "filtered-integers", "read as integers and filtered", filtered_integers },
  { "wrap-without-norm", "address mode 0 without normalized coordinates", wrap_without_norm },
  { "plain-surface", "an array that was not made for one", plain_surface },
  { "texture-is-gone", "cuLaunchKernel): texture object*was destroyed", texture_is_gone },
  { "texture-in-use", "1 pending launches use the texture object", texture_in_use },
  { "other-kind", "by the function for another kind", other_kind },
};

void
add_image_tests (void)
{
  g_test_add_func ("/cuda-driver/image/array-copies", test_array_copies);
  g_test_add_func ("/cuda-driver/image/array-shapes", test_array_shapes);
  g_test_add_func ("/cuda-driver/image/array-limits", test_array_limits);
  g_test_add_func ("/cuda-driver/image/mipmapped", test_mipmapped);
  g_test_add_func ("/cuda-driver/image/surfaces", test_surfaces);
  add_misuses (misuses, G_N_ELEMENTS (misuses));
}
