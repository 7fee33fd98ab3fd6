/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Results of image reads in kernels, with every sampler, compared with an independent
 * implementation of chapter 8 of the OpenCL C specification in double precision. */
#include "config.h"

#include <math.h>

#include "test-util.h"

#define N_READS 512
#define WIDTH   13
#define HEIGHT  7
#define DEPTH   5

/* Address modes x coordinates x filters; some combinations are invalid. */
#define N_SAMPLERS (5 * 2 * 2)

/* Formats for which the tests create texels. */
typedef enum
{
  R_FLOAT,
  RGBA_FLOAT,
  RGBA_UNORM8,
  RGBA_INT16,
  N_FORMATS
} Format;

/* A sampled image, its texels as numbers, and the sampler. */
typedef struct
{
  TestFixture    *fixture;
  Format          format;
  guint           type;             /* index into types */
  double          texels[DEPTH][HEIGHT][WIDTH][4];
  GpuImage       *image;
  gboolean        normalized;
  GpuAddressMode  mode;
  gboolean        linear;
  const double   *border;
  float           at[N_READS][4];
} Case;

static const struct
{
  GpuImageType type;
  const char  *name;
  const char  *kernel_type;
  guint        n_dimensions;
  gboolean     has_layers;
  GpuExtent    extent;
  const char  *between;             /* expression for coordinates as floats */
  const char  *texel;
}
types[] =
{
  { GPU_IMAGE_TYPE_IMAGE_1D, "1d", "image1d_t", 1, FALSE, { WIDTH, 1, 1 }, "at[0]", "(int) at[0]" },
  { GPU_IMAGE_TYPE_IMAGE_1D_ARRAY, "1da", "image1d_array_t", 1, TRUE, { WIDTH, HEIGHT, 1 },
    "(float2) (at[0], at[1])", "(int2) ((int) at[0], (int) at[1])" },
  { GPU_IMAGE_TYPE_IMAGE_2D, "2d", "image2d_t", 2, FALSE, { WIDTH, HEIGHT, 1 },
    "(float2) (at[0], at[1])", "(int2) ((int) at[0], (int) at[1])" },
  { GPU_IMAGE_TYPE_IMAGE_2D_ARRAY, "2da", "image2d_array_t", 2, TRUE, { WIDTH, HEIGHT, DEPTH },
    "(float4) (at[0], at[1], at[2], 0)",
    "(int4) ((int) at[0], (int) at[1], (int) at[2], 0)" },
  { GPU_IMAGE_TYPE_IMAGE_3D, "3d", "image3d_t", 3, FALSE, { WIDTH, HEIGHT, DEPTH },
    "(float4) (at[0], at[1], at[2], 0)",
    "(int4) ((int) at[0], (int) at[1], (int) at[2], 0)" }
};

#define TYPE_2D 2

static const GpuImageFormat formats[N_FORMATS] =
{
  { GPU_CHANNEL_ORDER_R, GPU_CHANNEL_TYPE_FLOAT32 },
  { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_FLOAT32 },
  { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UNORM8 },
  { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_INT16 }
};

static const double transparent[] = { 0, 0, 0, 0 };
static const double opaque[] = { 0, 0, 0, 1 };

/* --- the reference ---------------------------------------------------------------------------- */

/* The two texels to interpolate along one dimension, and the weight of the second texel. */
typedef struct
{
  int    first;
  int    second;
  double part;
} Place;

static int
limit (double value,
       int    least,
       int    most)
{
  return value < least ? least : value > most ? most : (int) value;
}

static Place
repeat (double   s,
        int      size,
        gboolean linear)
{
  double u = (s - floor (s)) * size;
  Place place = { (int) floor (linear ? u - 0.5 : u), 0, 0 };

  place.second = place.first + 1;

  if (place.first < 0)
    place.first += size;
  if (place.first > size - 1)
    place.first -= size;
  if (place.second > size - 1)
    place.second -= size;
  if (linear)
    place.part = u - 0.5 - floor (u - 0.5);

  return place;
}

static Place
mirror (double   s,
        int      size,
        gboolean linear)
{
  double u = fabs (s - 2 * rint (0.5 * s)) * size;
  int first = (int) floor (linear ? u - 0.5 : u);
  Place place = { limit (first, 0, size - 1), limit (first + 1, 0, size - 1), 0 };

  if (linear)
    place.part = u - 0.5 - floor (u - 0.5);

  return place;
}

static Place
locate (const Case *c,
        double      coordinate,
        int         size)
{
  int least = c->mode == GPU_ADDRESS_MODE_CLAMP_TO_EDGE ? 0 : -1;
  int most = c->mode == GPU_ADDRESS_MODE_CLAMP_TO_EDGE ? size - 1 : size;
  double u = c->normalized ? coordinate * size : coordinate;
  Place place = { 0, 0, 0 };

  if (c->mode == GPU_ADDRESS_MODE_REPEAT)
    return repeat (coordinate, size, c->linear);
  if (c->mode == GPU_ADDRESS_MODE_MIRRORED_REPEAT)
    return mirror (coordinate, size, c->linear);

  if (c->linear)
    u -= 0.5;

  place.first = limit (floor (u), least, most);
  place.second = limit (floor (u) + 1, least, most);

  if (c->linear)
    place.part = u - floor (u);

  return place;
}

static const double *
get_texel (const Case *c,
           int         x,
           int         y,
           int         z)
{
  const GpuExtent *extent = &types[c->type].extent;

  if (x < 0 || x >= (int) extent->width || y < 0 || y >= (int) extent->height || z < 0
      || z >= (int) extent->depth)
    return c->border;

  return c->texels[z][y][x];
}

static void
get_expected (const Case  *c,
              const float *at,
              double      *expected)
{
  const GpuExtent *extent = &types[c->type].extent;
  const int sizes[] = { (int) extent->width, (int) extent->height, (int) extent->depth };
  Place places[3];

  for (guint i = 0; i < 3; i++)
    {
      places[i] = (Place) { 0, 0, 0 };

      if (i < types[c->type].n_dimensions)
        places[i] = locate (c, at[i], sizes[i]);
      else if (i == types[c->type].n_dimensions && types[c->type].has_layers)
        places[i].first = limit (rint (at[i]), 0, sizes[i] - 1);
    }

  memset (expected, 0, 4 * sizeof *expected);

  for (guint corner = 0; corner < 8; corner++)
    {
      double weight = 1;
      int where[3];
      const double *texel;

      for (guint i = 0; i < 3; i++)
        {
          gboolean is_second = (corner >> i & 1) != 0;

          weight *= is_second ? places[i].part : 1 - places[i].part;
          where[i] = is_second ? places[i].second : places[i].first;
        }

      texel = get_texel (c, where[0], where[1], where[2]);

      for (guint i = 0; i < 4; i++)
        expected[i] += weight * texel[i];
    }
}

/* --- images ----------------------------------------------------------------------------------- */

static void
make_texel (Case    *c,
            double  *texel,
            guint8 **data)
{
  guint n = c->format == R_FLOAT ? 1 : 4;

  memcpy (texel, opaque, sizeof opaque);

  for (guint i = 0; i < n; i++)
    {
      float real = (float) g_test_rand_double ();
      gint16 integer = (gint16) g_test_rand_int ();
      guint8 byte = (guint8) g_test_rand_int ();

      switch (c->format)
        {
        case RGBA_UNORM8:
          texel[i] = byte / 255.0;
          *(*data)++ = byte;
          break;
        case RGBA_INT16:
          texel[i] = integer;
          memcpy (*data, &integer, sizeof integer);
          *data += sizeof integer;
          break;
        case R_FLOAT:
        case RGBA_FLOAT:
        default:
          texel[i] = real;
          memcpy (*data, &real, sizeof real);
          *data += sizeof real;
          break;
        }
    }
}

static void
make_image (Case *c)
{
  const GpuExtent *extent = &types[c->type].extent;
  gsize size = extent->width * extent->height * extent->depth
               * gpu_image_format_get_texel_size (&formats[c->format]);
  guint8 *data = g_malloc (size);
  guint8 *next = data;
  g_autoptr (GBytes) bytes = g_bytes_new_take (data, size);
  g_autoptr (GError) error = NULL;

  for (gsize z = 0; z < extent->depth; z++)
    {
      for (gsize y = 0; y < extent->height; y++)
        {
          for (gsize x = 0; x < extent->width; x++)
            make_texel (c, c->texels[z][y][x], &next);
        }
    }

  c->border = c->format == R_FLOAT && !test_is_pocl (c->fixture) ? opaque : transparent;
  c->image = gpu_image_new_from_bytes (c->fixture->context, GPU_MEMORY_FLAGS_NONE,
                                       &formats[c->format],
                                       types[c->type].type, extent, bytes, 0, 0, &error);
  g_assert_no_error (error);
}

/* --- kernels ---------------------------------------------------------------------------------- */

/* Puts @declaration at the start of the kernel. */
static void
append_kernel (GString    *source,
               guint       type,
               const char *suffix,
               const char *declaration,
               const char *read,
               const char *arguments)
{
  g_string_append_printf (source,
                          "__kernel void\n"
                          "read_%s_%s (__read_only %s image, sampler_t by,\n"
                          "            __global const float *all, __global float *out)\n"
                          "{\n"
                          "  %s\n"
                          "  int i = (int) get_global_id (0);\n"
                          "  __global const float *at = all + 4 * i;\n"
                          "  %s t = %s (image, %s);\n"
                          "  out[4 * i] = (float) t.x;\n"
                          "  out[4 * i + 1] = (float) t.y;\n"
                          "  out[4 * i + 2] = (float) t.z;\n"
                          "  out[4 * i + 3] = (float) t.w;\n"
                          "}\n",
                          types[type].name, suffix, types[type].kernel_type, declaration,
                          g_str_equal (read, "read_imagef") ? "float4" : "int4", read, arguments);
}

static GpuProgram *
build (TestFixture *fixture)
{
  g_autoptr (GString) source = g_string_new ("#pragma OPENCL FP_CONTRACT OFF\n");

  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    {
      g_autofree char *between = g_strconcat ("by, ", types[i].between, NULL);
      g_autofree char *texel = g_strconcat ("by, ", types[i].texel, NULL);

      append_kernel (source, i, "f", "", "read_imagef", between);
      append_kernel (source, i, "i", "", "read_imagei", between);
      append_kernel (source, i, "texel_f", "", "read_imagef", texel);
      append_kernel (source, i, "texel_i", "", "read_imagei", texel);
      append_kernel (source, i, "plain_f", "", "read_imagef", types[i].texel);
      append_kernel (source, i, "plain_i", "", "read_imagei", types[i].texel);
    }

  return test_program (fixture, source->str);
}

/* Builds a program with the samplers as constants at file scope and in the kernel. */
static GpuProgram *
build_constants (TestFixture *fixture)
{
  static const char *const modes[] = { "NONE", "CLAMP_TO_EDGE", "CLAMP", "REPEAT",
                                       "MIRRORED_REPEAT" };
  g_autoptr (GString) source = g_string_new ("#pragma OPENCL FP_CONTRACT OFF\n");

  for (guint i = 0; i < N_SAMPLERS; i++)
    {
      g_autofree char *value = g_strdup_printf ("CLK_NORMALIZED_COORDS_%s | CLK_ADDRESS_%s | "
                                                "CLK_FILTER_%s",
                                                (i & 1) != 0 ? "TRUE" : "FALSE", modes[i / 4],
                                                (i & 2) != 0 ? "LINEAR" : "NEAREST");
      g_autofree char *outer = g_strdup_printf ("outer%u_f", i);
      g_autofree char *inner = g_strdup_printf ("inner%u_f", i);
      g_autofree char *declaration = g_strdup_printf ("const sampler_t mine = %s;", value);
      g_autofree char *by_outer = g_strdup_printf ("s%u, %s", i, types[TYPE_2D].between);
      g_autofree char *by_inner = g_strdup_printf ("mine, %s", types[TYPE_2D].between);

      g_string_append_printf (source, "__constant sampler_t s%u = %s;\n", i, value);
      append_kernel (source, TYPE_2D, outer, "", "read_imagef", by_outer);
      append_kernel (source, TYPE_2D, inner, declaration, "read_imagef", by_inner);
    }

  return test_program (fixture, source->str);
}

static GBytes *
launch (const Case  *c,
        GpuProgram  *program,
        const char  *what,
        GpuSampler  *sampler)
{
  const GpuExtent grid = { N_READS, 1, 1 };
  g_autofree char *name = g_strdup_printf ("read_%s_%s%c", types[c->type].name, what,
                                           c->format == RGBA_INT16 ? 'i' : 'f');
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = gpu_program_get_kernel (program, name, &error);
  g_autoptr (GBytes) all = g_bytes_new (c->at, sizeof c->at);
  g_autoptr (GpuBuffer) at = test_buffer_from (c->fixture, all);
  g_autoptr (GpuBuffer) out = test_buffer_filled (c->fixture, sizeof c->at, 0x7f);
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();

  g_assert_no_error (error);
  gpu_arguments_add_memory (arguments, GPU_MEMORY (c->image));
  gpu_arguments_add_sampler (arguments, sampler);
  gpu_arguments_add_memory (arguments, GPU_MEMORY (at));
  gpu_arguments_add_memory (arguments, GPU_MEMORY (out));
  test_assert_ok (gpu_stream_launch_arguments (c->fixture->stream, kernel, &grid, NULL, arguments,
                                               &error), error);

  return test_content (out);
}

/* --- coordinates ------------------------------------------------------------------------------ */

/* Skips coordinates on the seams between texels, where rounding differs between devices. */
static gboolean
is_at_seam (const Case *c,
            float       coordinate,
            int         size)
{
  double u = c->normalized ? (double) coordinate * size : (double) coordinate;

  return !c->linear && fabs (u - rint (u)) < 1.0 / 64;
}

static float
choose (const Case *c,
        int         size)
{
  double least = -1.5;
  double most = 2.5;
  double margin = c->linear ? 0.5 / size : 0;
  double coordinate;

  if (c->mode == GPU_ADDRESS_MODE_NONE)
    {
      least = margin;
      most = 1 - margin;
    }

  do
    {
      coordinate = g_test_rand_double_range (least, most);

      if (!c->normalized)
        coordinate *= size;
    }
  while (is_at_seam (c, (float) coordinate, size));

  return (float) coordinate;
}

static void
choose_all (Case *c)
{
  const GpuExtent *extent = &types[c->type].extent;
  const int sizes[] = { (int) extent->width, (int) extent->height, (int) extent->depth };
  guint n_dimensions = types[c->type].n_dimensions;

  memset (c->at, 0, sizeof c->at);

  for (guint i = 0; i < N_READS; i++)
    {
      for (guint d = 0; d < n_dimensions; d++)
        c->at[i][d] = choose (c, sizes[d]);

      if (types[c->type].has_layers)
        c->at[i][n_dimensions] = (float) (g_test_rand_int_range (-3, sizes[n_dimensions] + 3)
                                          + g_test_rand_double_range (-0.4, 0.4));
    }
}

/* Chooses integer coordinates. If @outside, also chooses some coordinates outside the image. */
static void
choose_texels (Case     *c,
               gboolean  outside)
{
  const GpuExtent *extent = &types[c->type].extent;
  const int sizes[] = { (int) extent->width, (int) extent->height, (int) extent->depth };
  int margin = outside ? 4 : 0;

  memset (c->at, 0, sizeof c->at);

  for (guint i = 0; i < N_READS; i++)
    {
      for (guint d = 0; d < 3 && sizes[d] > 1; d++)
        c->at[i][d] = (float) g_test_rand_int_range (-margin, sizes[d] + margin);
    }
}

/* --- comparison ------------------------------------------------------------------------------- */

/* GPUs filter with weights of 8 bits. */
static double
get_tolerance (const Case *c)
{
  GpuDeviceType type = gpu_device_get_device_type (c->fixture->device);

  if (c->format == RGBA_INT16 || (!c->linear && c->format != RGBA_UNORM8))
    return 0;

  if (!c->linear)
    return type == GPU_DEVICE_TYPE_HOST ? 0x1p-25 : 0x1p-22;

  return type == GPU_DEVICE_TYPE_GPU ? types[c->type].n_dimensions / 256.0 + 1e-5 : 1e-5;
}

static void
compare (const Case *c,
         GBytes     *got)
{
  const float (*texels)[4] = g_bytes_get_data (got, NULL);
  double tolerance = get_tolerance (c);

  for (guint i = 0; i < N_READS; i++)
    {
      double expected[4];

      get_expected (c, c->at[i], expected);

      for (guint j = 0; j < 4; j++)
        {
          if (fabs (texels[i][j] - expected[j]) <= tolerance)
            continue;

          g_error ("%s, format %d, %s coordinates, address mode %d, %s: component %u at %.9g, "
                   "%.9g, %.9g is %.9g, not %.9g", types[c->type].name, c->format,
                   c->normalized ? "normalized" : "texel", c->mode,
                   c->linear ? "linear" : "nearest", j, (double) c->at[i][0],
                   (double) c->at[i][1], (double) c->at[i][2], (double) texels[i][j],
                   expected[j]);
        }
    }
}

static GpuSampler *
make_sampler (const Case *c)
{
  g_autoptr (GError) error = NULL;
  GpuSampler *sampler = gpu_sampler_new (c->fixture->context, c->normalized, c->mode,
                                         c->linear ? GPU_FILTER_MODE_LINEAR
                                                   : GPU_FILTER_MODE_NEAREST, &error);

  g_assert_no_error (error);

  return sampler;
}

/* --- tests ------------------------------------------------------------------------------------ */

/* Returns whether PoCL wrongly treats the layer as a normalized coordinate. */
static gboolean
takes_layers_wrong (const Case *c)
{
  return c->normalized && types[c->type].has_layers && test_is_pocl (c->fixture);
}

/* Selects the next valid combination after @state. Returns FALSE after the last combination. */
static gboolean
next_sampler (Case  *c,
              guint *state)
{
  do
    {
      if (*state == N_SAMPLERS)
        return FALSE;

      c->mode = *state / 4;
      c->normalized = (*state & 1) != 0;
      c->linear = (*state & 2) != 0;
      (*state)++;
    }
  while ((c->mode >= GPU_ADDRESS_MODE_REPEAT && !c->normalized)
         || (c->linear && c->format == RGBA_INT16) || takes_layers_wrong (c));

  return TRUE;
}

static void
sample_all (Case       *c,
            GpuProgram *program)
{
  guint n_samplers = 0;

  for (guint state = 0; next_sampler (c, &state); n_samplers++)
    {
      g_autoptr (GpuSampler) sampler = make_sampler (c);
      g_autoptr (GBytes) got = NULL;

      choose_all (c);
      got = launch (c, program, "", sampler);
      compare (c, got);
    }

  if (types[c->type].has_layers && test_is_pocl (c->fixture))
    g_assert_cmpuint (n_samplers, ==, c->format == RGBA_INT16 ? 3 : 6);
  else
    g_assert_cmpuint (n_samplers, ==, c->format == RGBA_INT16 ? 8 : 16);
}

/* Reads at integer coordinates, with and without a sampler. */
static void
read_texels (Case       *c,
             GpuProgram *program)
{
  g_autoptr (GpuSampler) any = NULL;
  g_autoptr (GBytes) plain = NULL;

  c->linear = FALSE;
  c->normalized = FALSE;

  for (c->mode = GPU_ADDRESS_MODE_NONE; c->mode < GPU_ADDRESS_MODE_REPEAT; c->mode++)
    {
      g_autoptr (GpuSampler) sampler = make_sampler (c);
      g_autoptr (GBytes) got = NULL;

      choose_texels (c, c->mode != GPU_ADDRESS_MODE_NONE);
      got = launch (c, program, "texel_", sampler);
      compare (c, got);
    }

  c->mode = GPU_ADDRESS_MODE_NONE;
  choose_texels (c, FALSE);
  any = make_sampler (c);
  plain = launch (c, program, "plain_", any);
  compare (c, plain);
}

static void
read_by_constants (Case       *c,
                   GpuProgram *program)
{
  for (guint state = 0; next_sampler (c, &state); )
    {
      g_autofree char *outer = g_strdup_printf ("outer%u_", state - 1);
      g_autofree char *inner = g_strdup_printf ("inner%u_", state - 1);
      g_autoptr (GpuSampler) unused = make_sampler (c);
      g_autoptr (GBytes) by_outer = NULL;
      g_autoptr (GBytes) by_inner = NULL;

      choose_all (c);
      by_outer = launch (c, program, outer, unused);
      compare (c, by_outer);
      by_inner = launch (c, program, inner, unused);
      compare (c, by_inner);
    }
}

static void
run_case (TestFixture  *fixture,
          GpuProgram   *program,
          guint         type,
          Format        format,
          void        (*func) (Case       *c,
                               GpuProgram *program))
{
  Case *c = g_new0 (Case, 1);

  c->fixture = fixture;
  c->type = type;
  c->format = format;
  make_image (c);
  func (c, program);
  g_object_unref (c->image);
  g_free (c);
}

static void
run_types (TestFixture  *fixture,
           void        (*func) (Case       *c,
                                GpuProgram *program))
{
  g_autoptr (GpuProgram) program = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_IMAGES | GPU_CAPABILITIES_SOURCE))
    return;

  program = build (fixture);

  for (guint type = 0; type < G_N_ELEMENTS (types); type++)
    {
      for (guint format = 0; format < N_FORMATS; format++)
        run_case (fixture, program, type, format, func);
    }
}

static void
sampler_float_coordinates (TestFixture *fixture)
{
  run_types (fixture, sample_all);
}

static void
sampler_integer_coordinates (TestFixture *fixture)
{
  run_types (fixture, read_texels);
}

static void
sampler_constant_samplers (TestFixture *fixture)
{
  g_autoptr (GpuProgram) program = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_IMAGES | GPU_CAPABILITIES_SOURCE))
    return;

  program = build_constants (fixture);
  run_case (fixture, program, TYPE_2D, R_FLOAT, read_by_constants);
  run_case (fixture, program, TYPE_2D, RGBA_UNORM8, read_by_constants);
}

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);
  test_add ("float-coordinates", sampler_float_coordinates);
  test_add ("integer-coordinates", sampler_integer_coordinates);
  test_add ("constant-samplers", sampler_constant_samplers);

  return test_run ();
}
