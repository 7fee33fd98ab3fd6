/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The second part of the prelude, for programs with vectors, images or samplers: vectors as
 * structures, and the functions that read and write images. The macros only select a function by
 * the types of the image and the coordinates; gpu-host-sample.c implements the functions.
 */
#include "config.h"

#include "gpumem/host/compiler/gpu-host-source.h"

static const struct
{
  const char *name;
  guint       size;
}
elements[] =
{
  { "char", 1 }, { "uchar", 1 }, { "short", 2 }, { "ushort", 2 }, { "int", 4 }, { "uint", 4 },
  { "long", 8 }, { "ulong", 8 }, { "float", 4 }, { "double", 8 }
};

static const guint lengths[] = { 2, 3, 4, 8, 16 };

static const char *const image_types[] =
{
  "image1d_t", "image1d_array_t", "image1d_buffer_t", "image2d_t", "image2d_array_t", "image3d_t"
};

const GpuHostChannelName _gpu_host_channel_orders[] =
{
  [GPU_CHANNEL_ORDER_R]         = { "R", 0x10b0 },
  [GPU_CHANNEL_ORDER_A]         = { "A", 0x10b1 },
  [GPU_CHANNEL_ORDER_RG]        = { "RG", 0x10b2 },
  [GPU_CHANNEL_ORDER_RA]        = { "RA", 0x10b3 },
  [GPU_CHANNEL_ORDER_RGB]       = { "RGB", 0x10b4 },
  [GPU_CHANNEL_ORDER_RGBA]      = { "RGBA", 0x10b5 },
  [GPU_CHANNEL_ORDER_BGRA]      = { "BGRA", 0x10b6 },
  [GPU_CHANNEL_ORDER_ARGB]      = { "ARGB", 0x10b7 },
  [GPU_CHANNEL_ORDER_ABGR]      = { "ABGR", 0x10c3 },
  [GPU_CHANNEL_ORDER_INTENSITY] = { "INTENSITY", 0x10b8 },
  [GPU_CHANNEL_ORDER_LUMINANCE] = { "LUMINANCE", 0x10b9 },
  [GPU_CHANNEL_ORDER_DEPTH]     = { "DEPTH", 0x10bd },
  [GPU_CHANNEL_ORDER_SRGBA]     = { "sRGBA", 0x10c1 },
  [GPU_CHANNEL_ORDER_SBGRA]     = { "sBGRA", 0x10c2 },
  [GPU_HOST_N_CHANNEL_ORDERS]   = { NULL, 0 }
};

const GpuHostChannelName _gpu_host_channel_types[] =
{
  [GPU_CHANNEL_TYPE_UNORM8]       = { "UNORM_INT8", 0x10d2 },
  [GPU_CHANNEL_TYPE_UNORM16]      = { "UNORM_INT16", 0x10d3 },
  [GPU_CHANNEL_TYPE_SNORM8]       = { "SNORM_INT8", 0x10d0 },
  [GPU_CHANNEL_TYPE_SNORM16]      = { "SNORM_INT16", 0x10d1 },
  [GPU_CHANNEL_TYPE_UINT8]        = { "UNSIGNED_INT8", 0x10da },
  [GPU_CHANNEL_TYPE_UINT16]       = { "UNSIGNED_INT16", 0x10db },
  [GPU_CHANNEL_TYPE_UINT32]       = { "UNSIGNED_INT32", 0x10dc },
  [GPU_CHANNEL_TYPE_INT8]         = { "SIGNED_INT8", 0x10d7 },
  [GPU_CHANNEL_TYPE_INT16]        = { "SIGNED_INT16", 0x10d8 },
  [GPU_CHANNEL_TYPE_INT32]        = { "SIGNED_INT32", 0x10d9 },
  [GPU_CHANNEL_TYPE_FLOAT16]      = { "HALF_FLOAT", 0x10dd },
  [GPU_CHANNEL_TYPE_FLOAT32]      = { "FLOAT", 0x10de },
  [GPU_CHANNEL_TYPE_UNORM_565]    = { "UNORM_SHORT_565", 0x10d4 },
  [GPU_CHANNEL_TYPE_UNORM_555]    = { "UNORM_SHORT_555", 0x10d5 },
  [GPU_CHANNEL_TYPE_UNORM_101010] = { "UNORM_INT_101010", 0x10d6 },
  [GPU_HOST_N_CHANNEL_TYPES]      = { NULL, 0 }
};

static const char images[] =
  "#define __read_only gpu_host_read_only\n"
  "#define read_only gpu_host_read_only\n"
  "#define __write_only gpu_host_write_only\n"
  "#define write_only gpu_host_write_only\n"
  "typedef GpuHostSize sampler_t;\n"
  "#define CLK_NORMALIZED_COORDS_FALSE 0\n"
  "#define CLK_NORMALIZED_COORDS_TRUE GPU_HOST_SAMPLER_NORMALIZED\n"
  "#define CLK_ADDRESS_NONE 0\n"
  "#define CLK_ADDRESS_CLAMP_TO_EDGE (1 * GPU_HOST_SAMPLER_ADDRESS)\n"
  "#define CLK_ADDRESS_CLAMP (2 * GPU_HOST_SAMPLER_ADDRESS)\n"
  "#define CLK_ADDRESS_REPEAT (3 * GPU_HOST_SAMPLER_ADDRESS)\n"
  "#define CLK_ADDRESS_MIRRORED_REPEAT (4 * GPU_HOST_SAMPLER_ADDRESS)\n"
  "#define CLK_FILTER_NEAREST 0\n"
  "#define CLK_FILTER_LINEAR GPU_HOST_SAMPLER_LINEAR\n";

/* Functions that sample, fetch and store a texel, for one, two and four coordinates. */
static const char accesses[] =
  "#define GPU_HOST_SAMPLE { image->functions->sample (image, sampler, p, lod, texel); }\n"
  "static inline void gpu_host_sample_1 (const GpuHostImage *image, sampler_t sampler, float c,\n"
  "                                      const float *lod, void *texel)\n"
  "{ const float p[3] = { c, 0, 0 }; GPU_HOST_SAMPLE }\n"
  "static inline void gpu_host_sample_2 (const GpuHostImage *image, sampler_t sampler, float2 c,\n"
  "                                      const float *lod, void *texel)\n"
  "{ const float p[3] = { c.x, c.y, 0 }; GPU_HOST_SAMPLE }\n"
  "static inline void gpu_host_sample_4 (const GpuHostImage *image, sampler_t sampler, float4 c,\n"
  "                                      const float *lod, void *texel)\n"
  "{ const float p[3] = { c.x, c.y, c.z }; GPU_HOST_SAMPLE }\n"
  "#define GPU_HOST_FETCH { (void) lod; image->functions->fetch (image, sampler, p, texel); }\n"
  "static inline void gpu_host_fetch_1 (const GpuHostImage *image, sampler_t sampler, int c,\n"
  "                                     const float *lod, void *texel)\n"
  "{ const int p[3] = { c, 0, 0 }; GPU_HOST_FETCH }\n"
  "static inline void gpu_host_fetch_2 (const GpuHostImage *image, sampler_t sampler, int2 c,\n"
  "                                     const float *lod, void *texel)\n"
  "{ const int p[3] = { c.x, c.y, 0 }; GPU_HOST_FETCH }\n"
  "static inline void gpu_host_fetch_4 (const GpuHostImage *image, sampler_t sampler, int4 c,\n"
  "                                     const float *lod, void *texel)\n"
  "{ const int p[3] = { c.x, c.y, c.z }; GPU_HOST_FETCH }\n"
  "static inline void gpu_host_store_1 (const GpuHostImage *image, int c, const void *texel)\n"
  "{ const int p[3] = { c, 0, 0 }; image->functions->store (image, p, texel); }\n"
  "static inline void gpu_host_store_2 (const GpuHostImage *image, int2 c, const void *texel)\n"
  "{ const int p[3] = { c.x, c.y, 0 }; image->functions->store (image, p, texel); }\n"
  "static inline void gpu_host_store_4 (const GpuHostImage *image, int4 c, const void *texel)\n"
  "{ const int p[3] = { c.x, c.y, c.z }; image->functions->store (image, p, texel); }\n";

/* The type of the coordinates selects the function: floating-point coordinates sample the image,
 * and integer coordinates read a single texel. */
static const char choice[] =
  "#define GPU_HOST_AT_1(c) _Generic ((c), float: gpu_host_sample_1, \\\n"
  "  double: gpu_host_sample_1, default: gpu_host_fetch_1)\n"
  "#define GPU_HOST_AT_2(c) _Generic ((c), float2: gpu_host_sample_2, \\\n"
  "  default: gpu_host_fetch_2)\n"
  "#define GPU_HOST_AT_4(c) _Generic ((c), float4: gpu_host_sample_4, \\\n"
  "  default: gpu_host_fetch_4)\n"
  "#define GPU_HOST_READ_AT(T, image, sampler, coordinate, lod) ({ T gpu_host_texel; \\\n"
  "  __auto_type gpu_host_c = (coordinate); \\\n"
  "  _Generic ((image), image1d_t: GPU_HOST_AT_1 (gpu_host_c), \\\n"
  "    image1d_array_t: GPU_HOST_AT_2 (gpu_host_c), image2d_t: GPU_HOST_AT_2 (gpu_host_c), \\\n"
  "    image2d_array_t: GPU_HOST_AT_4 (gpu_host_c), image3d_t: GPU_HOST_AT_4 (gpu_host_c)) \\\n"
  "  ((const void *) (image), sampler, gpu_host_c, lod, &gpu_host_texel); gpu_host_texel; })\n"
  "#define GPU_HOST_READ_LOD(T, image, sampler, coordinate, lod) ({ \\\n"
  "  float gpu_host_lod = (lod); \\\n"
  "  GPU_HOST_READ_AT (T, image, sampler, coordinate, &gpu_host_lod); })\n"
  "#define GPU_HOST_READ(T, image, sampler, coordinate) \\\n"
  "  GPU_HOST_READ_AT (T, image, sampler, coordinate, (const float *) 0)\n"
  "#define GPU_HOST_READ_PLAIN(T, image, coordinate) ({ T gpu_host_texel; \\\n"
  "  _Generic ((image), image1d_t: gpu_host_fetch_1, image1d_buffer_t: gpu_host_fetch_1, \\\n"
  "    image1d_array_t: gpu_host_fetch_2, image2d_t: gpu_host_fetch_2, \\\n"
  "    image2d_array_t: gpu_host_fetch_4, image3d_t: gpu_host_fetch_4) \\\n"
  "  ((const void *) (image), 0, coordinate, (const float *) 0, &gpu_host_texel); \\\n"
  "  gpu_host_texel; })\n"
  "#define GPU_HOST_FOURTH(a, b, c, d, e, ...) e\n"
  "#define GPU_HOST_READ_ANY(T, ...) GPU_HOST_FOURTH (__VA_ARGS__, GPU_HOST_READ_LOD, \\\n"
  "  GPU_HOST_READ, GPU_HOST_READ_PLAIN, GPU_HOST_READ_PLAIN, 0) (T, __VA_ARGS__)\n"
  "#define read_imagef(...) GPU_HOST_READ_ANY (float4, __VA_ARGS__)\n"
  "#define read_imagei(...) GPU_HOST_READ_ANY (int4, __VA_ARGS__)\n"
  "#define read_imageui(...) GPU_HOST_READ_ANY (uint4, __VA_ARGS__)\n"
  "#define GPU_HOST_WRITE(T, image, coordinate, value) ({ T gpu_host_texel = (value); \\\n"
  "  _Generic ((image), gpu_host_write_image1d_t: gpu_host_store_1, \\\n"
  "    gpu_host_write_image1d_buffer_t: gpu_host_store_1, \\\n"
  "    gpu_host_write_image1d_array_t: gpu_host_store_2, \\\n"
  "    gpu_host_write_image2d_t: gpu_host_store_2, \\\n"
  "    gpu_host_write_image2d_array_t: gpu_host_store_4, \\\n"
  "    gpu_host_write_image3d_t: gpu_host_store_4) \\\n"
  "  ((const void *) (image), coordinate, &gpu_host_texel); })\n"
  "#define write_imagef(image, coordinate, value) \\\n"
  "  GPU_HOST_WRITE (float4, image, coordinate, value)\n"
  "#define write_imagei(image, coordinate, value) \\\n"
  "  GPU_HOST_WRITE (int4, image, coordinate, value)\n"
  "#define write_imageui(image, coordinate, value) \\\n"
  "  GPU_HOST_WRITE (uint4, image, coordinate, value)\n";

static const char queries[] =
  "#define GPU_HOST_IMAGE(i) ((const GpuHostImage *) (const void *) (i))\n"
  "#define get_image_width(i) (GPU_HOST_IMAGE (i)->width)\n"
  "#define get_image_height(i) (GPU_HOST_IMAGE (i)->height)\n"
  "#define get_image_depth(i) (GPU_HOST_IMAGE (i)->depth)\n"
  "#define get_image_array_size(i) ((size_t) GPU_HOST_IMAGE (i)->n_layers)\n"
  "#define get_image_num_mip_levels(i) (GPU_HOST_IMAGE (i)->n_levels)\n"
  "#define get_image_channel_order(i) (GPU_HOST_IMAGE (i)->channel_order)\n"
  "#define get_image_channel_data_type(i) (GPU_HOST_IMAGE (i)->channel_type)\n"
  "static inline int2 gpu_host_dim_2 (const GpuHostImage *i)\n"
  "{ return (int2) { { i->width, i->height } }; }\n"
  "static inline int4 gpu_host_dim_3 (const GpuHostImage *i)\n"
  "{ return (int4) { { i->width, i->height, i->depth, 0 } }; }\n"
  "#define get_image_dim(i) _Generic ((i), image3d_t: gpu_host_dim_3, \\\n"
  "  gpu_host_write_image3d_t: gpu_host_dim_3, default: gpu_host_dim_2) (GPU_HOST_IMAGE (i))\n";

gboolean
_gpu_host_is_image_type (const char *name)
{
  for (gsize i = 0; i < G_N_ELEMENTS (image_types); i++)
    {
      if (g_str_equal (image_types[i], name))
        return TRUE;
    }

  return FALSE;
}

/* Also returns TRUE for #include and ##, because included files and pasted tokens are not
 * examined. */
gboolean
_gpu_host_text_has_images (const char *text)
{
  GpuSource source = { .text = text,
                       .tokens = g_array_new (FALSE, FALSE, sizeof (GpuSourceToken)) };
  gboolean found = FALSE;

  _gpu_source_tokenize (text, TRUE, source.tokens);

  for (guint i = 0; i < source.tokens->len && !found; i++)
    {
      g_autofree char *word = source_get_text (&source, i);

      found = source_is (&source, i, "include") || source_is (&source, i, "sampler_t")
              || (source_is (&source, i, "#") && source_is (&source, i + 1, "#"))
              || _gpu_host_is_image_type (word)
              || _gpu_source_get_n_components (&source, i) != 0;
    }

  g_array_unref (source.tokens);

  return found;
}

static void
append_components (GString    *text,
                   const char *type,
                   const char *prefix,
                   const char *names,
                   guint       n)
{
  g_string_append_printf (text, " struct { %s", type);

  for (guint i = 0; i < n; i++)
    g_string_append_printf (text, "%s %s%c", i > 0 ? "," : "", prefix, names[i]);

  g_string_append (text, "; };");
}

/* The structure of components must be the first member of the union, because initializers set the
 * first member. Vectors of three components have the size of four. */
static void
append_vector (GString    *text,
               const char *type,
               guint       size,
               guint       n)
{
  g_string_append (text, "typedef union {");

  if (n <= 4)
    append_components (text, type, "", "xyzw", n);

  append_components (text, type, "s", "0123456789abcdef", n);

  if (n == 2)
    g_string_append_printf (text, " struct { %s lo, hi; };", type);

  g_string_append_printf (text,
                          " %s gpu_host_v[%u]; } __attribute__ ((aligned (%u))) %s%u;\n"
                          "static inline %s%u gpu_host_same_%s%u (%s%u x) { return x; }\n"
                          "static inline %s%u gpu_host_fill_%s%u (%s x)\n"
                          "{ %s%u v; for (int i = 0; i < %u; i++) v.gpu_host_v[i] = x;"
                          " return v; }\n"
                          "static inline %s *gpu_host_put_%s%u (%s *p, %s%u x)\n"
                          "{ for (int i = 0; i < %u; i++) p[i] = x.gpu_host_v[i];"
                          " return p + %u; }\n",
                          type, n, size * (n == 3 ? 4 : n), type, n,
                          type, n, type, n, type, n,
                          type, n, type, n, type,
                          type, n, n,
                          type, type, n, type, type, n,
                          n, n);
}

static void
append_vectors (GString *text)
{
  for (gsize i = 0; i < G_N_ELEMENTS (elements); i++)
    {
      const char *type = elements[i].name;

      g_string_append_printf (text,
                              "static inline %s *gpu_host_put_%s (%s *p, %s x)"
                              " { *p = x; return p + 1; }\n", type, type, type, type);

      for (gsize j = 0; j < G_N_ELEMENTS (lengths); j++)
        append_vector (text, type, elements[i].size, lengths[j]);
    }
}

void
_gpu_host_prelude_append_images (GString *text)
{
  append_vectors (text);
  g_string_append (text, images);

  for (gsize i = 0; i < G_N_ELEMENTS (image_types); i++)
    g_string_append_printf (text,
                            "typedef const struct { GpuHostImage image; } *%s;\n"
                            "typedef const struct { GpuHostImage image; } *gpu_host_write_%s;\n",
                            image_types[i], image_types[i]);

  for (gsize i = 0; _gpu_host_channel_orders[i].name != NULL; i++)
    g_string_append_printf (text, "#define CLK_%s 0x%x\n", _gpu_host_channel_orders[i].name,
                            _gpu_host_channel_orders[i].number);

  for (gsize i = 0; _gpu_host_channel_types[i].name != NULL; i++)
    g_string_append_printf (text, "#define CLK_%s 0x%x\n", _gpu_host_channel_types[i].name,
                            _gpu_host_channel_types[i].number);

  g_string_append (text, accesses);
  g_string_append (text, choice);
  g_string_append (text, queries);
}
