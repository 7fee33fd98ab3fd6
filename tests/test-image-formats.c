/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Every format of every image type of a device: writes, copies, fills and mappings of whole images
 * and of regions, with and without gaps between rows. The results are read back and compared texel
 * by texel. The expected content of copies comes from memcpy(). The expected content of fills comes
 * from the host back end. */
#include "config.h"

#include <stdlib.h>

#include "test-util.h"

#define PAD_TEXELS 3            /* between rows */
#define PAD_ROWS   2            /* between slices */

/* An image and a shadow copy of its expected content, without gaps. */
typedef struct
{
  TestFixture          *fixture;
  const GpuImageFormat *format;
  GpuImageType          type;
  GpuExtent             extent;
  gsize                 texel_size;
  GpuImage             *image;
  guint8               *shadow;
  gsize                 size;
  guint                 n_combinations;
} Case;

typedef struct
{
  GpuLayout layout;
  GpuExtent extent;
} Region;

static const struct
{
  GpuImageType type;
  const char  *name;
  GpuExtent    extent;
}
types[] =
{
  { GPU_IMAGE_TYPE_IMAGE_1D, "1d", { 29, 1, 1 } },
  { GPU_IMAGE_TYPE_IMAGE_1D_ARRAY, "1d-array", { 19, 5, 1 } },
  { GPU_IMAGE_TYPE_IMAGE_1D_BUFFER, "1d-buffer", { 32, 1, 1 } },
  { GPU_IMAGE_TYPE_IMAGE_2D, "2d", { 13, 7, 1 } },
  { GPU_IMAGE_TYPE_IMAGE_2D_ARRAY, "2d-array", { 13, 7, 3 } },
  { GPU_IMAGE_TYPE_IMAGE_3D, "3d", { 11, 5, 4 } },
  { GPU_IMAGE_TYPE_CUBEMAP, "cubemap", { 8, 8, 6 } },
  { GPU_IMAGE_TYPE_CUBEMAP_ARRAY, "cubemap-array", { 8, 8, 12 } }
};

/* --- regions ---------------------------------------------------------------------------------- */

static Region
whole (const Case *c)
{
  return (Region) { { 0, 0, 0, 0, 0 }, c->extent };
}

static void
choose (gsize  size,
        gsize *origin,
        gsize *length)
{
  *origin = (gsize) g_test_rand_int_range (0, (gint32) size);
  *length = (gsize) g_test_rand_int_range (1, (gint32) (size - *origin + 1));
}

static Region
part (const Case *c)
{
  Region region = { { 0, 0, 0, 0, 0 }, { 0, 0, 0 } };

  choose (c->extent.width, &region.layout.x, &region.extent.width);
  choose (c->extent.height, &region.layout.y, &region.extent.height);
  choose (c->extent.depth, &region.layout.z, &region.extent.depth);

  return region;
}

static guint8 *
shadow_at (const Case      *c,
           const GpuLayout *at,
           gsize            y,
           gsize            z)
{
  return c->shadow
         + (((at->z + z) * c->extent.height + at->y + y) * c->extent.width + at->x)
           * c->texel_size;
}

/* Layout of a region in host memory or in a buffer. */
static GpuLayout
linear (const Case   *c,
        const Region *region,
        gboolean      padded,
        gsize        *size)
{
  GpuLayout layout = { 0, 0, 0, region->extent.width * c->texel_size, 0 };

  if (padded)
    {
      layout.row_pitch += PAD_TEXELS * c->texel_size;
      layout.x = c->texel_size;
    }

  layout.slice_pitch = layout.row_pitch * (region->extent.height + (padded ? PAD_ROWS : 0));
  *size = layout.slice_pitch * region->extent.depth + layout.x;

  return layout;
}

/* Copies between a region of the shadow, the copy of the expected content, and linear memory. */
static void
copy_shadow (const Case      *c,
             const Region    *region,
             guint8          *data,
             const GpuLayout *layout,
             gboolean         to_shadow)
{
  for (gsize z = 0; z < region->extent.depth; z++)
    {
      for (gsize y = 0; y < region->extent.height; y++)
        {
          guint8 *texels = shadow_at (c, &region->layout, y, z);
          guint8 *linear_row = data + layout->x + z * layout->slice_pitch + y * layout->row_pitch;

          if (to_shadow)
            memcpy (texels, linear_row, region->extent.width * c->texel_size);
          else
            memcpy (linear_row, texels, region->extent.width * c->texel_size);
        }
    }
}

static void
describe_failure (const Case *c,
                  const char *what)
{
  g_autofree char *format = gpu_image_format_to_string (c->format);

  g_test_message ("%s: format %s, type %d", what, format, c->type);
}

static void
check (Case       *c,
       const char *what)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = gpu_image_read_bytes (c->image, NULL, NULL, NULL, NULL, &error);

  if (bytes == NULL || g_bytes_get_size (bytes) != c->size
      || memcmp (g_bytes_get_data (bytes, NULL), c->shadow, c->size) != 0)
    describe_failure (c, what);

  g_assert_no_error (error);
  g_assert_cmpuint (g_bytes_get_size (bytes), ==, c->size);
  test_assert_mem (g_bytes_get_data (bytes, NULL), c->shadow, c->size);
  c->n_combinations++;
}

/* --- operations on an image ------------------------------------------------------------------- */

/* Replaces NaNs, which drivers may change. */
static void
make_plain (const Case *c,
            guint8     *data,
            gsize       size)
{
  if (c->format->channel_type == GPU_CHANNEL_TYPE_FLOAT32)
    {
      for (gsize i = 3; i < size; i += 4)
        data[i] = (data[i] & 0x80) | 0x3f;
    }
  else if (c->format->channel_type == GPU_CHANNEL_TYPE_FLOAT16)
    {
      for (gsize i = 1; i < size; i += 2)
        data[i] = (data[i] & 0x80) | 0x34;
    }
  else if (c->format->channel_type == GPU_CHANNEL_TYPE_SNORM8)
    {
      for (gsize i = 0; i < size; i++)
        data[i] = data[i] == 0x80 ? 0x81 : data[i];
    }
}

static GBytes *
random_texels (const Case *c,
               gsize       size)
{
  g_autoptr (GBytes) random = test_random_bytes (size);
  guint8 *data = g_memdup2 (g_bytes_get_data (random, NULL), size);

  make_plain (c, data, size);

  return g_bytes_new_take (data, size);
}

static void
write_region (Case     *c,
              Region    region,
              gboolean  padded)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = NULL;
  GpuLayout layout;
  gsize size;

  layout = linear (c, &region, padded, &size);
  bytes = random_texels (c, size);
  copy_shadow (c, &region, (guint8 *) g_bytes_get_data (bytes, NULL), &layout, TRUE);
  test_assert_ok (gpu_stream_write_region (c->fixture->stream, GPU_MEMORY (c->image),
                                           &region.layout, bytes, &layout, &region.extent,
                                           &error), error);
  check (c, padded ? "write with gaps" : "write");
}

/* Reads a region into memory with gaps between the rows, which must stay unchanged. */
static void
read_region (Case     *c,
             Region    region,
             gboolean  padded)
{
  g_autoptr (GError) error = NULL;
  g_autofree guint8 *expected = NULL;
  g_autoptr (GBytes) bytes = NULL;
  GpuLayout layout;
  gsize size;

  layout = linear (c, &region, padded, &size);
  bytes = test_value_bytes (size, 0xa5);
  expected = g_malloc (size);
  memset (expected, 0xa5, size);
  copy_shadow (c, &region, expected, &layout, FALSE);
  test_assert_ok (gpu_stream_read_region_into (c->fixture->stream, GPU_MEMORY (c->image),
                                               &region.layout, bytes, &layout, &region.extent,
                                               &error), error);
  test_synchronize (c->fixture->stream);

  if (memcmp (g_bytes_get_data (bytes, NULL), expected, size) != 0)
    describe_failure (c, padded ? "read with gaps" : "read");

  test_assert_mem (g_bytes_get_data (bytes, NULL), expected, size);
  c->n_combinations++;
}

static void
through_buffer (Case     *c,
                Region    region,
                gboolean  padded)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autofree guint8 *expected = NULL;
  g_autoptr (GBytes) content = NULL;
  g_autoptr (GBytes) texels = NULL;
  GpuLayout layout;
  gsize size;

  layout = linear (c, &region, padded, &size);
  buffer = test_buffer_filled (c->fixture, size, 0x5a);
  expected = g_malloc (size);
  memset (expected, 0x5a, size);
  copy_shadow (c, &region, expected, &layout, FALSE);
  test_assert_ok (gpu_stream_copy_region (c->fixture->stream, GPU_MEMORY (buffer), &layout,
                                          GPU_MEMORY (c->image), &region.layout, &region.extent,
                                          &error), error);
  content = test_content (buffer);

  if (memcmp (g_bytes_get_data (content, NULL), expected, size) != 0)
    describe_failure (c, "image to buffer");

  test_assert_mem (g_bytes_get_data (content, NULL), expected, size);
  c->n_combinations++;

  texels = random_texels (c, size);
  test_assert_ok (gpu_buffer_write_bytes (buffer, NULL, 0, texels, NULL, &error), error);
  copy_shadow (c, &region, (guint8 *) g_bytes_get_data (texels, NULL), &layout, TRUE);
  test_assert_ok (gpu_stream_copy_region (c->fixture->stream, GPU_MEMORY (c->image),
                                          &region.layout, GPU_MEMORY (buffer), &layout,
                                          &region.extent, &error), error);
  check (c, "buffer to image");
}

static GpuImage *
image_new (const Case  *c,
           TestFixture *fixture,
           GBytes      *bytes,
           gsize        row_pitch,
           gsize        slice_pitch)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  GpuImage *image;

  if (c->type == GPU_IMAGE_TYPE_IMAGE_1D_BUFFER)
    {
      buffer = bytes != NULL ? test_buffer_from (fixture, bytes) : test_buffer (fixture, c->size);
      image = gpu_image_new_for_buffer (buffer, GPU_MEMORY_FLAGS_NONE, c->format, c->type,
                                        c->extent.width, 1, 0, &error);
    }
  else if (bytes != NULL)
    {
      image = gpu_image_new_from_bytes (fixture->context, GPU_MEMORY_FLAGS_NONE, c->format, c->type,
                                        &c->extent, bytes, row_pitch, slice_pitch, &error);
    }
  else
    {
      image = gpu_image_new (fixture->context, GPU_MEMORY_FLAGS_NONE, c->format, c->type,
                             &c->extent,
                             &error);
    }

  if (error != NULL)
    describe_failure (c, "making it");

  g_assert_no_error (error);

  return image;
}

/* Copies to another position in another image of the same type and format, and back. */
static void
through_image (Case   *c,
               Region  region)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuImage) other = image_new (c, c->fixture, NULL, 0, 0);
  const GpuLayout end = { c->extent.width - region.extent.width,
                          c->extent.height - region.extent.height,
                          c->extent.depth - region.extent.depth, 0, 0 };
  const Region target = { end, region.extent };
  g_autofree guint8 *texels = NULL;
  GpuLayout layout;
  gsize size;

  test_assert_ok (gpu_stream_copy_region (c->fixture->stream, GPU_MEMORY (other), &end,
                                          GPU_MEMORY (c->image), &region.layout, &region.extent,
                                          &error), error);
  layout = linear (c, &region, FALSE, &size);
  texels = g_malloc (size);
  copy_shadow (c, &region, texels, &layout, FALSE);
  write_region (c, whole (c), FALSE);
  copy_shadow (c, &target, texels, &layout, TRUE);
  test_assert_ok (gpu_stream_copy_region (c->fixture->stream, GPU_MEMORY (c->image), &end,
                                          GPU_MEMORY (other), &end, &region.extent, &error),
                  error);
  check (c, "image to image");
}

static void
map_region (Case        *c,
            Region       region,
            GpuMapFlags  flags)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMapping) mapping = NULL;
  g_autoptr (GBytes) texels = NULL;
  GpuLayout layout = { 0, 0, 0, 0, 0 };
  gsize row = region.extent.width * c->texel_size;
  const guint8 *source;
  guint8 *data;

  if ((gpu_device_get_capabilities (c->fixture->device) & GPU_CAPABILITIES_MAP) == 0)
    return;

  mapping = gpu_image_map (c->image, NULL, flags, &region.layout, &region.extent, NULL, &error);
  g_assert_no_error (error);
  layout.row_pitch = gpu_mapping_get_row_pitch (mapping);
  layout.slice_pitch = gpu_mapping_get_slice_pitch (mapping);
  g_assert_cmpuint (layout.row_pitch, >=, row);
  g_assert_cmpuint (layout.slice_pitch, >=,
                    layout.row_pitch * (region.extent.height - 1) + row);
  data = gpu_mapping_get_data (mapping);
  texels = random_texels (c, row);
  source = g_bytes_get_data (texels, NULL);

  for (gsize z = 0; z < region.extent.depth; z++)
    {
      for (gsize y = 0; y < region.extent.height; y++)
        {
          guint8 *mapped = data + z * layout.slice_pitch + y * layout.row_pitch;
          guint8 *expected = shadow_at (c, &region.layout, y, z);

          if (flags != GPU_MAP_FLAGS_WRITE_INVALIDATE)
            test_assert_mem (mapped, expected, row);

          if (flags != GPU_MAP_FLAGS_READ)
            {
              memcpy (mapped, source, row);
              memcpy (expected, source, row);
            }
        }
    }

  test_assert_ok (gpu_mapping_unmap (mapping, &error), error);
  check (c, "mapping");
}

/* --- fills ------------------------------------------------------------------------------------ */

static gsize
get_distance (const Case   *c,
              const guint8 *a,
              const guint8 *b,
              gsize         i)
{
  gint first = a[i];
  gint second = b[i];

  switch (c->format->channel_type)
    {
    case GPU_CHANNEL_TYPE_UNORM8:
      return (gsize) abs (first - second);
    case GPU_CHANNEL_TYPE_SNORM8:
      return (gsize) abs ((gint8) first - (gint8) second);
    case GPU_CHANNEL_TYPE_UNORM16:
      return (gsize) abs (((const guint16 *) (gconstpointer) a)[i / 2]
                          - ((const guint16 *) (gconstpointer) b)[i / 2]);
    case GPU_CHANNEL_TYPE_SNORM16:
      return (gsize) abs (((const gint16 *) (gconstpointer) a)[i / 2]
                          - ((const gint16 *) (gconstpointer) b)[i / 2]);
    default:
      return first == second ? 0 : G_MAXSIZE;
    }
}

/* Normalized channels may differ by one unit in the last place; all other channels must be
 * equal. */
static void
assert_close (const Case   *c,
              const guint8 *got,
              const guint8 *expected)
{
  for (gsize i = 0; i < c->size; i++)
    {
      if (get_distance (c, got, expected, i) <= 1)
        continue;

      describe_failure (c, "fill");
      test_assert_mem (got, expected, c->size);
    }
}

static const GpuColor colors[] =
{
  { 0, 0, 0, 0 },
  { 1, 1, 1, 1 },
  { 0.25, 0.5, 0.75, 1 },
  { 0.1, 0.7, -0.3, 0.9 },
  { -1, 2, 0.5001, 300 },
  { 1000.5, -1000.5, 70000, 3e9 }
};

static void
fill (Case           *c,
      Case           *reference,
      const GpuColor *color)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) expected = NULL;
  g_autoptr (GBytes) got = NULL;
  Region region = part (c);

  test_assert_ok (gpu_image_fill (reference->image, NULL, color, &region.layout, &region.extent,
                                  NULL, &error), error);
  test_assert_ok (gpu_image_fill (c->image, NULL, color, &region.layout, &region.extent, NULL,
                                  &error), error);
  expected = gpu_image_read_bytes (reference->image, NULL, NULL, NULL, NULL, &error);
  g_assert_no_error (error);
  got = gpu_image_read_bytes (c->image, NULL, NULL, NULL, NULL, &error);
  g_assert_no_error (error);
  assert_close (c, g_bytes_get_data (got, NULL), g_bytes_get_data (expected, NULL));
  c->n_combinations++;
}

static gint
compare_formats (gconstpointer a,
                 gconstpointer b)
{
  return gpu_image_format_equal (a, b) ? 0 : 1;
}

/* Returns whether the host back end supports the format. The host back end does not support formats
 * that a driver adds to those of OpenCL. */
static gboolean
has_format (const Case  *c,
            TestFixture *host)
{
  g_autoptr (GError) error = NULL;
  GList *formats = gpu_context_list_image_formats (host->context, GPU_MEMORY_FLAGS_NONE, c->type,
                                                   &error);
  gboolean found;

  g_assert_no_error (error);
  found = g_list_find_custom (formats, c->format, compare_formats) != NULL;
  g_list_free_full (formats, (GDestroyNotify) gpu_image_format_free);

  return found;
}

/* Both images have the same initial content, so that the comparison includes texels outside of the
 * region. */
static void
fill_all (Case        *c,
          TestFixture *host)
{
  g_autoptr (GBytes) start = g_bytes_new (c->shadow, c->size);
  g_autoptr (GError) error = NULL;
  Case reference = *c;

  if (!has_format (c, host))
    {
      describe_failure (c, "no fill, as the host lacks it");
      return;
    }

  reference.image = image_new (c, host, start, 0, 0);
  test_assert_ok (gpu_image_write_bytes (c->image, NULL, NULL, NULL, start, 0, 0, NULL, &error),
                  error);

  for (guint i = 0; i < G_N_ELEMENTS (colors); i++)
    fill (c, &reference, &colors[i]);

  g_object_unref (reference.image);
}

/* --- the loop --------------------------------------------------------------------------------- */

static void
create_with_data (Case *c)
{
  Region all = whole (c);
  g_autoptr (GBytes) bytes = NULL;
  GpuLayout layout;
  gsize size;

  if (c->type == GPU_IMAGE_TYPE_IMAGE_1D_BUFFER)
    {
      g_autoptr (GBytes) tight = random_texels (c, c->size);

      memcpy (c->shadow, g_bytes_get_data (tight, NULL), c->size);
      c->image = image_new (c, c->fixture, tight, 0, 0);
      check (c, "over a buffer");
      return;
    }

  layout = linear (c, &all, TRUE, &size);
  bytes = random_texels (c, size);
  layout.x = 0;
  copy_shadow (c, &all, (guint8 *) g_bytes_get_data (bytes, NULL), &layout, TRUE);
  c->image = image_new (c, c->fixture, bytes, layout.row_pitch, layout.slice_pitch);
  check (c, "creation with data");
}

static void
run_case (Case        *c,
          TestFixture *host)
{
  c->texel_size = gpu_image_format_get_texel_size (c->format);
  c->size = c->texel_size * c->extent.width * c->extent.height * c->extent.depth;
  c->shadow = g_malloc (c->size);
  create_with_data (c);

  for (guint padded = 0; padded < 2; padded++)
    {
      write_region (c, whole (c), padded);
      write_region (c, part (c), padded);
      read_region (c, whole (c), padded);
      read_region (c, part (c), padded);
      through_buffer (c, whole (c), padded);
      through_buffer (c, part (c), padded);
    }

  through_image (c, whole (c));
  through_image (c, part (c));
  map_region (c, whole (c), GPU_MAP_FLAGS_READ);
  map_region (c, part (c), GPU_MAP_FLAGS_NONE);
  map_region (c, part (c), GPU_MAP_FLAGS_WRITE);
  map_region (c, part (c), GPU_MAP_FLAGS_WRITE_INVALIDATE);
  fill_all (c, host);

  g_object_unref (c->image);
  g_free (c->shadow);
}

static void
run_type (TestFixture *fixture,
          guint        i)
{
  g_autoptr (GError) error = NULL;
  g_autolist (GpuImageFormat) formats = NULL;
  TestFixture host = { NULL, NULL, NULL };
  Case c = { .fixture = fixture, .type = types[i].type, .extent = types[i].extent };

  if (!test_has (fixture, GPU_CAPABILITIES_IMAGES))
    return;

  formats = gpu_context_list_image_formats (fixture->context, GPU_MEMORY_FLAGS_NONE, c.type,
                                            &error);
  g_assert_no_error (error);

  if (formats == NULL)
    {
      g_test_skip ("the device has no images of this type");
      return;
    }

  host.device = gpu_device_find ("host", &error);
  g_assert_no_error (error);
  host.context = gpu_context_new (host.device, GPU_CONTEXT_FLAGS_NONE, &error);
  g_assert_no_error (error);

  for (GList *link = formats; link != NULL; link = link->next)
    {
      c.format = link->data;
      run_case (&c, &host);
    }

  g_test_message ("%s: %u formats, %u combinations", types[i].name,
                  g_list_length (formats), c.n_combinations);
  g_object_unref (host.context);
  g_object_unref (host.device);
}

#define TYPE_TEST(name, index) \
  static void name (TestFixture *fixture) { run_type (fixture, index); }

TYPE_TEST (formats_1d, 0)
TYPE_TEST (formats_1d_array, 1)
TYPE_TEST (formats_1d_buffer, 2)
TYPE_TEST (formats_2d, 3)
TYPE_TEST (formats_2d_array, 4)
TYPE_TEST (formats_3d, 5)
TYPE_TEST (formats_cubemap, 6)
TYPE_TEST (formats_cubemap_array, 7)

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);
  test_add ("1d", formats_1d);
  test_add ("1d-array", formats_1d_array);
  test_add ("1d-buffer", formats_1d_buffer);
  test_add ("2d", formats_2d);
  test_add ("2d-array", formats_2d_array);
  test_add ("3d", formats_3d);
  test_add ("cubemap", formats_cubemap);
  test_add ("cubemap-array", formats_cubemap_array);

  return test_run ();
}
