/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Samplers in kernels in OpenCL C: every address mode, filter and kind of coordinates, over every
 * type of images, compared with what the specification of OpenCL says of them. */
#include "config.h"

#include <math.h>

#include "test-util.h"

#define N_SAMPLES 400

typedef struct
{
  GpuImageType type;
  const char  *name;
  GpuExtent    extent;
  guint        n_dimensions;    /* that are filtered: the rest count layers */
} TypeInfo;

static const TypeInfo types[] =
{
  { GPU_IMAGE_TYPE_IMAGE_1D, "1d", { 64, 1, 1 }, 1 },
  { GPU_IMAGE_TYPE_IMAGE_1D_ARRAY, "1d_array", { 16, 5, 1 }, 1 },
  { GPU_IMAGE_TYPE_IMAGE_2D, "2d", { 16, 8, 1 }, 2 },
  { GPU_IMAGE_TYPE_IMAGE_2D_ARRAY, "2d_array", { 8, 4, 3 }, 2 },
  { GPU_IMAGE_TYPE_IMAGE_3D, "3d", { 8, 4, 4 }, 3 }
};

static const char source[] =
  "#define SAMPLE(name, type, coordinates) \\\n"
  "  __kernel void sample_##name (__read_only type image, sampler_t s, \\\n"
  "                               __global const float4 *at, __global float4 *out) \\\n"
  "  { \\\n"
  "    int i = get_global_id (0); \\\n"
  "    out[i] = read_imagef (image, s, coordinates); \\\n"
  "  }\n"
  "SAMPLE (1d, image1d_t, at[i].x)\n"
  "SAMPLE (1d_array, image1d_array_t, at[i].xy)\n"
  "SAMPLE (2d, image2d_t, at[i].xy)\n"
  "SAMPLE (2d_array, image2d_array_t, at[i])\n"
  "SAMPLE (3d, image3d_t, at[i])\n";

static gboolean
is_pocl (TestFixture *fixture)
{
  return g_strcmp0 (gpu_device_get_platform (fixture->device), "Portable Computing Language") == 0;
}

static GpuKernel *
get_kernel (GpuProgram     *program,
            const TypeInfo *type)
{
  g_autofree char *name = g_strconcat ("sample_", type->name, NULL);
  g_autoptr (GError) error = NULL;
  GpuKernel *kernel = gpu_program_get_kernel (program, name, &error);

  g_assert_no_error (error);

  return kernel;
}

typedef struct
{
  const float     (*texels)[4];
  GpuExtent         extent;
  guint             n_dimensions;   /* that are filtered */
  gboolean          normalized;
  GpuAddressMode    mode;
  GpuFilterMode     filter;
} Reference;

/* Two neighbours in one dimension, -1 for the border, and how much of the second there is. */
typedef struct
{
  gint    first;
  gint    second;
  gdouble part;
} Neighbours;

static gint
wrap_index (GpuAddressMode mode,
            gint           i,
            gint           size)
{
  if (mode == GPU_ADDRESS_MODE_CLAMP_TO_BORDER)
    return i < 0 || i >= size ? -1 : i;
  if (mode == GPU_ADDRESS_MODE_REPEAT)
    return (i % size + size) % size;

  return CLAMP (i, 0, size - 1);
}

static Neighbours
find_neighbours (const Reference *reference,
                 gdouble          coordinate,
                 gint             size)
{
  Neighbours result = { 0, 0, 0 };
  gdouble at = coordinate;

  if (reference->mode == GPU_ADDRESS_MODE_MIRRORED_REPEAT)
    at = fabs (at - 2 * nearbyint (0.5 * at));
  if (reference->normalized)
    at *= size;

  if (reference->filter == GPU_FILTER_MODE_LINEAR)
    {
      result.part = at - 0.5 - floor (at - 0.5);
      at -= 0.5;
    }

  result.first = wrap_index (reference->mode, (gint) floor (at), size);
  result.second = wrap_index (reference->mode, (gint) floor (at) + 1, size);

  return result;
}

/* By the formulas of the specification: as many neighbours as there are corners. */
static void
sample (const Reference *reference,
        const float     *at,
        gdouble         *result)
{
  const gsize sizes[] = { reference->extent.width, reference->extent.height,
                          reference->extent.depth };
  const guint n_corners = reference->filter == GPU_FILTER_MODE_LINEAR
                          ? 1u << reference->n_dimensions : 1;
  Neighbours neighbours[3];

  for (guint d = 0; d < 3; d++)
    {
      gint layer = (gint) floor (at[d] + 0.5);

      layer = CLAMP (layer, 0, (gint) sizes[d] - 1);
      if (d < reference->n_dimensions)
        neighbours[d] = find_neighbours (reference, at[d], (gint) sizes[d]);
      else
        neighbours[d] = (Neighbours) { layer, layer, 0 };
    }

  for (guint c = 0; c < 4; c++)
    result[c] = 0;

  for (guint corner = 0; corner < n_corners; corner++)
    {
      gdouble weight = 1;
      gsize index = 0;
      gboolean border = FALSE;

      for (gint d = 2; d >= 0; d--)
        {
          const gboolean is_second = (corner >> d & 1) != 0;
          const gint i = is_second ? neighbours[d].second : neighbours[d].first;

          if (n_corners > 1 && (guint) d < reference->n_dimensions)
            weight *= is_second ? neighbours[d].part : 1 - neighbours[d].part;
          border |= i < 0;
          index = index * sizes[d] + (gsize) MAX (i, 0);
        }

      for (guint c = 0; c < 4 && !border; c++)
        result[c] += weight * reference->texels[index][c];
    }
}

/* Between texels where nothing is equally near, also outside; layers never at a half. */
static void
choose_coordinates (const Reference *reference,
                    float          (*at)[4])
{
  const gsize sizes[] = { reference->extent.width, reference->extent.height,
                          reference->extent.depth };

  for (guint i = 0; i < N_SAMPLES; i++)
    {
      for (guint d = 0; d < 3; d++)
        {
          const gboolean inside = reference->mode == GPU_ADDRESS_MODE_NONE
                                  || d >= reference->n_dimensions;
          const gint margin = inside ? 0 : 5;
          const gint texel = g_test_rand_int_range (-margin, (gint) sizes[d] + margin);
          gdouble value = texel + 0.125 * g_test_rand_int_range (1, 8);

          if (d >= reference->n_dimensions)
            value = texel + 0.25;
          else if (inside && reference->filter == GPU_FILTER_MODE_LINEAR)
            value = CLAMP (value, 0.5, (gdouble) sizes[d] - 0.5);
          if (d < reference->n_dimensions && reference->normalized)
            value /= (gdouble) sizes[d];
          at[i][d] = (float) value;
        }
      at[i][3] = 0;
    }
}

static void
run_sampler (TestFixture     *fixture,
             GpuProgram      *program,
             const TypeInfo  *type,
             GpuImage        *image,
             Reference       *reference)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuSampler) sampler = gpu_sampler_new (fixture->context, reference->normalized,
                                                    reference->mode, reference->filter, &error);
  g_autoptr (GpuKernel) kernel = get_kernel (program, type);
  float (*at)[4] = g_malloc (N_SAMPLES * sizeof *at);
  g_autoptr (GBytes) bytes = g_bytes_new_take (at, N_SAMPLES * sizeof *at);
  g_autoptr (GpuBuffer) in = NULL;
  g_autoptr (GpuBuffer) out = NULL;
  g_autoptr (GBytes) content = NULL;
  const float (*got)[4];

  g_assert_no_error (error);
  choose_coordinates (reference, at);
  in = test_buffer_from (fixture, bytes);
  out = test_buffer_filled (fixture, N_SAMPLES * sizeof *at, 0xff);
  test_assert_ok (gpu_stream_launch (fixture->stream, kernel, &(GpuExtent) { N_SAMPLES, 1, 1 },
                                     NULL, &error, image, sampler, in, out), error);
  content = test_content (out);
  got = g_bytes_get_data (content, NULL);

  for (guint i = 0; i < N_SAMPLES; i++)
    {
      gdouble expected[4];

      sample (reference, at[i], expected);
      for (guint c = 0; c < 4; c++)
        {
          /* GPUs have few bits for the distance to a neighbour. */
          if (fabs (got[i][c] - expected[c]) <= 0.01)
            continue;
          g_test_message ("%s, address mode %d, filter %d, normalized %d, at %g %g %g: got %g, "
                          "not %g", type->name, reference->mode, reference->filter,
                          reference->normalized, at[i][0], at[i][1], at[i][2], got[i][c],
                          expected[c]);
          g_test_fail ();
          return;
        }
    }
}

static gboolean
has_layers (const TypeInfo *type)
{
  return type->type == GPU_IMAGE_TYPE_IMAGE_1D_ARRAY || type->type == GPU_IMAGE_TYPE_IMAGE_2D_ARRAY;
}

static void
run_samplers (TestFixture    *fixture,
              GpuProgram     *program,
              const TypeInfo *type)
{
  const GpuImageFormat format = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_FLOAT32 };
  const gsize n = type->extent.width * type->extent.height * type->extent.depth;
  float (*texels)[4] = g_malloc (n * sizeof *texels);
  g_autoptr (GBytes) bytes = g_bytes_new_take (texels, n * sizeof *texels);
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuImage) image = NULL;
  Reference reference = { .texels = texels, .extent = type->extent,
                          .n_dimensions = type->n_dimensions };

  for (gsize i = 0; i < 4 * n; i++)
    texels[i / 4][i % 4] = (float) g_test_rand_double_range (-1, 1);
  image = gpu_image_new_from_bytes (fixture->context, GPU_MEMORY_NONE, &format, type->type,
                                    &type->extent, bytes, 0, 0, &error);
  g_assert_no_error (error);

  for (guint mode = 0; mode <= GPU_ADDRESS_MODE_MIRRORED_REPEAT; mode++)
    {
      for (guint i = mode >= GPU_ADDRESS_MODE_REPEAT ? 2 : 0; i < 4; i++)
        {
          reference.mode = mode;
          reference.normalized = i >= 2;
          /* PoCL takes the layer for a normalized number as well. */
          if (reference.normalized && has_layers (type) && is_pocl (fixture))
            continue;
          reference.filter = i % 2 == 0 ? GPU_FILTER_MODE_NEAREST : GPU_FILTER_MODE_LINEAR;
          run_sampler (fixture, program, type, image, &reference);
        }
    }
}

static void
run_type (TestFixture *fixture,
          guint        index)
{
  g_autoptr (GpuProgram) program = NULL;

  if (!test_is_opencl (fixture))
    {
      g_test_skip ("no device of OpenCL");
      return;
    }

  if (!test_has (fixture, GPU_CAPABILITIES_IMAGES)
      || !test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;

  program = test_program (fixture, source);
  run_samplers (fixture, program, &types[index]);
}

#define TYPE_TEST(name, index) \
  static void name (TestFixture *fixture) { run_type (fixture, index); }

TYPE_TEST (samplers_1d, 0)
TYPE_TEST (samplers_1d_array, 1)
TYPE_TEST (samplers_2d, 2)
TYPE_TEST (samplers_2d_array, 3)
TYPE_TEST (samplers_3d, 4)

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);
  test_add ("1d", samplers_1d);
  test_add ("1d-array", samplers_1d_array);
  test_add ("2d", samplers_2d);
  test_add ("2d-array", samplers_2d_array);
  test_add ("3d", samplers_3d);

  return test_run ();
}
