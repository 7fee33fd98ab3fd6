/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Texture fetches by kernels on the stand-in. */
#include "config.h"

#include "test-driver.h"

#define N_TEXELS 16

static const char source[] =
  "extern \"C\" __global__ void\n"
  "read (cudaTextureObject_t t, int kind, const float4 *at, float4 *to, int4 *whole)\n"
  "{\n"
  "  float4 p = at[threadIdx.x];\n"
  "  float4 v = { 0, 0, 0, 0 };\n"
  "  int4 w = { 0, 0, 0, 0 };\n"
  "  switch (kind)\n"
  "    {\n"
  "    case 0: v = tex1Dfetch<float4> (t, (int) p.x); break;\n"
  "    case 1: v.x = tex1D<float> (t, p.x); break;\n"
  "    case 2: v = tex2D<float4> (t, p.x, p.y); break;\n"
  "    case 3: v.x = tex3D<float> (t, p.x, p.y, p.z); break;\n"
  "    case 4: v.x = tex1DLayered<float> (t, p.x, (int) p.w); break;\n"
  "    case 5: v.x = tex2DLayered<float1> (t, p.x, p.y, (int) p.w).x; break;\n"
  "    case 6: v.x = texCubemap<float> (t, p.x, p.y, p.z); break;\n"
  "    case 7: v.x = tex2DLod<float> (t, p.x, p.y, p.w); break;\n"
  "    case 8: w.x = tex2D<int> (t, p.x, p.y); w.y = tex2D<unsigned char> (t, p.x, p.y); break;\n"
  "    }\n"
  "  to[threadIdx.x] = v;\n"
  "  whole[threadIdx.x] = w;\n"
  "}\n";

typedef struct
{
  CUmodule    module;
  CUdeviceptr at;
  CUdeviceptr to;
  CUdeviceptr whole;
} Reader;

static void
reader_init (Reader *reader)
{
  begin ();
  reader->module = load_source (source);
  OK (cuMemAlloc, &reader->at, 16 * N_TEXELS);
  OK (cuMemAlloc, &reader->to, 16 * N_TEXELS);
  OK (cuMemAlloc, &reader->whole, 16 * N_TEXELS);
}

static void
reader_end (Reader *reader)
{
  OK (cuMemFree, reader->at);
  OK (cuMemFree, reader->to);
  OK (cuMemFree, reader->whole);
  OK (cuModuleUnload, reader->module);
  end ();
}

/* Reads texels and destroys the texture. */
static void
read_texels (Reader      *reader,
             CUtexObject  texture,
             int          kind,
             guint        n,
             const float  places[][4],
             float        values[][4],
             int          whole[][4])
{
  void *arguments[] = { &texture, &kind, &reader->at, &reader->to, &reader->whole };

  OK (cuMemcpyHtoD, reader->at, places, 16 * n);
  launch_kernel (reader->module, "read", 1, n, 0, arguments);
  OK (cuMemcpyDtoH, values, reader->to, 16 * n);
  if (whole != NULL)
    OK (cuMemcpyDtoH, whole, reader->whole, 16 * n);
  OK (cuTexObjectDestroy, texture);
}

#define NORMALIZED CU_TRSF_NORMALIZED_COORDINATES

static void
test_addresses (void)
{
  static const float places[][4] = { { -0.5f }, { 0.0f }, { 0.3f }, { 1.1f }, { 1.6f }, { 2.9f } };
  static const struct { CUaddress_mode mode; float expected[6]; } cases[] = {
    { CU_TR_ADDRESS_MODE_CLAMP, { 1, 1, 2, 4, 4, 4 } },
    { CU_TR_ADDRESS_MODE_BORDER, { 9, 1, 2, 9, 9, 9 } },
    { CU_TR_ADDRESS_MODE_WRAP, { 3, 1, 2, 1, 3, 4 } },
    { CU_TR_ADDRESS_MODE_MIRROR, { 2, 1, 2, 4, 2, 4 } },
  };
  float texels[] = { 1, 2, 3, 4 };
  float values[6][4];
  Reader reader;
  CUarray array;

  reader_init (&reader);
  array = new_array (4, 0, 0, CU_AD_FORMAT_FLOAT, 1, 0);
  copy_array (array, texels, sizeof texels, 1, 1, TRUE);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      CUtexObject texture = new_texture (array, cases[i].mode, CU_TR_FILTER_MODE_POINT, NORMALIZED);

      read_texels (&reader, texture, 1, 6, places, values, NULL);
      for (guint j = 0; j < 6; j++)
        g_assert_cmpfloat (values[j][0], ==, cases[i].expected[j]);
    }
  OK (cuArrayDestroy, array);
  reader_end (&reader);
}

/* The weights of linear filtering have eight fractional bits. */
static void
test_filter (void)
{
  static const float places[][4] = { { 0.8f, 0.5f }, { 1.0f, 1.0f }, { 0.0f, 0.25f },
                                     { 1.301f, 0.7f } };
  static const float expected[] = { 77 / 256.0f * 100, 0.5f * 100 + 0.5f * 10, 0,
                                    205 / 256.0f * 100 + 51 / 256.0f * 10 };
  float texels[] = { 0, 100, 10, 110 };
  float values[4][4];
  Reader reader;
  CUarray array;

  reader_init (&reader);
  array = new_array (2, 2, 0, CU_AD_FORMAT_FLOAT, 1, 0);
  copy_array (array, texels, 8, 2, 1, TRUE);
  read_texels (&reader, new_texture (array, CU_TR_ADDRESS_MODE_CLAMP, CU_TR_FILTER_MODE_LINEAR, 0),
               2, 4, places, values, NULL);
  for (guint i = 0; i < 4; i++)
    g_assert_cmpfloat_with_epsilon (values[i][0], expected[i], 1e-5);
  /* The stand-in returns implausible values for components that the texels lack. */
  g_assert_cmpfloat (values[0][1], <, -1e6f);
  OK (cuArrayDestroy, array);
  reader_end (&reader);
}

static void
test_formats (void)
{
  static const float places[][4] = { { 0.5f, 0.5f }, { 1.5f, 0.5f } };
  gint8 texels[] = { -128, 127 };
  float values[2][4];
  int whole[2][4];
  Reader reader;
  CUarray array, half;
  guint16 halves[] = { 0x3c00, 0xc500 };

  reader_init (&reader);
  array = new_array (2, 1, 0, CU_AD_FORMAT_SIGNED_INT8, 1, 0);
  copy_array (array, texels, 2, 1, 1, TRUE);
  read_texels (&reader, new_texture (array, CU_TR_ADDRESS_MODE_CLAMP, 0, 0), 2, 2, places, values,
               NULL);
  g_assert_cmpfloat (values[0][0], ==, -1);
  g_assert_cmpfloat (values[1][0], ==, 1);
  read_texels (&reader, new_texture (array, CU_TR_ADDRESS_MODE_CLAMP, 0, CU_TRSF_READ_AS_INTEGER),
               8, 2, places, values, whole);
  g_assert_cmpint (whole[0][0], ==, -128);
  g_assert_cmpint (whole[0][1], ==, 128);
  g_assert_cmpint (whole[1][0], ==, 127);
  half = new_array (2, 1, 0, CU_AD_FORMAT_HALF, 1, 0);
  copy_array (half, halves, 4, 1, 1, TRUE);
  read_texels (&reader, new_texture (half, CU_TR_ADDRESS_MODE_CLAMP, 0, 0), 2, 2, places, values,
               NULL);
  g_assert_cmpfloat (values[0][0], ==, 1);
  g_assert_cmpfloat (values[1][0], ==, -5);
  OK (cuArrayDestroy, array);
  OK (cuArrayDestroy, half);
  reader_end (&reader);
}

static void
check_dimensions (Reader *reader,
                  gsize   height,
                  gsize   depth,
                  guint   flags,
                  int     kind,
                  float   place[1][4],
                  float   expected)
{
  gsize n = 4 * MAX (height, 1) * MAX (depth, 1);
  g_autofree float *texels = g_new (float, n);
  CUarray array = new_array (4, height, depth, CU_AD_FORMAT_FLOAT, 1, flags);
  float value[1][4];

  for (gsize i = 0; i < n; i++)
    texels[i] = i % 4 + 10 * (i / 4 % MAX (height, 1)) + 100 * (i / 4 / MAX (height, 1));
  copy_array (array, texels, 16, MAX (height, 1), MAX (depth, 1), TRUE);
  read_texels (reader, new_texture (array, CU_TR_ADDRESS_MODE_CLAMP, 0,
                                    kind == 6 ? NORMALIZED : 0), kind, 1, place, value, NULL);
  g_assert_cmpfloat (value[0][0], ==, expected);
  OK (cuArrayDestroy, array);
}

static void
test_dimensions (void)
{
  Reader reader;

  reader_init (&reader);
  check_dimensions (&reader, 3, 3, 0, 3, (float [][4]) { { 1.5f, 2.5f, 1.5f } }, 121);
  check_dimensions (&reader, 0, 3, CUDA_ARRAY3D_LAYERED, 4, (float [][4]) { { 3, 0, 0, 2 } }, 203);
  check_dimensions (&reader, 3, 2, CUDA_ARRAY3D_LAYERED, 5, (float [][4]) { { 3, 1, 0, 7 } }, 113);
  check_dimensions (&reader, 4, 6, CUDA_ARRAY3D_CUBEMAP, 6, (float [][4]) { { 2, 0.1f, 1.9f } },
                    10);
  check_dimensions (&reader, 4, 6, CUDA_ARRAY3D_CUBEMAP, 6, (float [][4]) { { 1, -5, 0.1f } }, 312);
  check_dimensions (&reader, 4, 6, CUDA_ARRAY3D_CUBEMAP, 6, (float [][4]) { { -1, 2, -9 } }, 512);
  reader_end (&reader);
}

static void
test_levels (void)
{
  const CUDA_ARRAY3D_DESCRIPTOR descriptor = { 4, 4, 0, CU_AD_FORMAT_FLOAT, 1, 0 };
  static const float places[][4] = { { 0.1f, 0.1f, 0, 0 }, { 0.9f, 0.9f, 0, 1 },
                                     { 0.5f, 0.5f, 0, 1.25f }, { 0.5f, 0.5f, 0, 9 } };
  CUDA_RESOURCE_DESC resource = { .resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY };
  CUDA_TEXTURE_DESC texture = { .addressMode = { 1, 1, 1 }, .flags = NORMALIZED,
                                .mipmapFilterMode = CU_TR_FILTER_MODE_LINEAR,
                                .maxMipmapLevelClamp = 2 };
  float texels[16];
  float values[4][4];
  CUtexObject object;
  Reader reader;

  reader_init (&reader);
  OK (cuMipmappedArrayCreate, &resource.res.mipmap.hMipmappedArray, &descriptor, 3);
  for (guint i = 0; i < 3; i++)
    {
      CUarray level;

      for (guint j = 0; j < 16; j++)
        texels[j] = 100 * i;
      OK (cuMipmappedArrayGetLevel, &level, resource.res.mipmap.hMipmappedArray, i);
      copy_array (level, texels, 16 >> i, 4 >> i, 1, TRUE);
    }
  OK (cuTexObjectCreate, &object, &resource, &texture, NULL);
  read_texels (&reader, object, 7, 4, places, values, NULL);
  g_assert_cmpfloat (values[0][0], ==, 0);
  g_assert_cmpfloat (values[1][0], ==, 100);
  g_assert_cmpfloat (values[2][0], ==, 125);
  g_assert_cmpfloat (values[3][0], ==, 200);
  OK (cuMipmappedArrayDestroy, resource.res.mipmap.hMipmappedArray);
  reader_end (&reader);
}

static void
test_linear (void)
{
  static const float places[][4] = { { 1, 1 }, { 3, 0 }, { 4, 0 }, { -1, 0 } };
  CUDA_RESOURCE_DESC resource = { .resType = CU_RESOURCE_TYPE_LINEAR,
                                  .res.linear = { 0, CU_AD_FORMAT_UNSIGNED_INT8, 4, 16 } };
  const CUDA_TEXTURE_DESC texture = { .addressMode = { 1, 1, 1 } };
  guint8 texels[16];
  float values[4][4];
  CUtexObject object;
  Reader reader;

  for (guint i = 0; i < sizeof texels; i++)
    texels[i] = i * 17;
  reader_init (&reader);
  OK (cuMemAlloc, &resource.res.linear.devPtr, 512);
  OK (cuMemcpyHtoD, resource.res.linear.devPtr, texels, sizeof texels);
  OK (cuTexObjectCreate, &object, &resource, &texture, NULL);
  read_texels (&reader, object, 0, 4, places, values, NULL);
  g_assert_cmpfloat (values[0][2], ==, 6 / 15.0f);
  g_assert_cmpfloat (values[1][3], ==, 1);
  g_assert_cmpfloat (values[2][0], ==, 0);
  g_assert_cmpfloat (values[3][0], ==, 0);
  resource.resType = CU_RESOURCE_TYPE_PITCH2D;
  resource.res.pitch2D.width = 1;
  resource.res.pitch2D.height = 3;
  resource.res.pitch2D.pitchInBytes = 32;
  OK (cuMemcpyHtoD, resource.res.linear.devPtr + 64, texels, sizeof texels);
  OK (cuTexObjectCreate, &object, &resource, &texture, NULL);
  read_texels (&reader, object, 2, 1, (float [][4]) { { 0, 2.5f } }, values, NULL);
  g_assert_cmpfloat (values[0][3], ==, 3 / 15.0f);
  OK (cuMemFree, resource.res.linear.devPtr);
  reader_end (&reader);
}

void
add_texture_tests (void)
{
  g_test_add_func ("/cuda-driver/texture/addresses", test_addresses);
  g_test_add_func ("/cuda-driver/texture/filter", test_filter);
  g_test_add_func ("/cuda-driver/texture/formats", test_formats);
  g_test_add_func ("/cuda-driver/texture/dimensions", test_dimensions);
  g_test_add_func ("/cuda-driver/texture/levels", test_levels);
  g_test_add_func ("/cuda-driver/texture/linear", test_linear);
}
