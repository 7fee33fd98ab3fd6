/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Random copies of regions between random pairs of memories, of one context and of two, against
 * loops of memcpy(); and those that are refused, with the values that are wrong. --seed repeats a
 * run. */
#include "config.h"

#include "test-util.h"

#define N_COPIES    20000
#define N_PEERS     2000        /* copies between contexts */
#define N_PLACES    7           /* of each size of texels */
#define BUFFER_SIZE 4096

/* Memory of any kind, and what it should hold. Linear memory is texels of one byte. */
typedef struct
{
  TestFixture *fixture;
  GpuMemory   *memory;          /* NULL for memory of the host */
  gboolean     is_image;
  gsize        texel_size;
  GpuExtent    extent;          /* of an image */
  guint8      *shadow;          /* of memory of the host, that memory itself */
  gsize        size;
} Place;

typedef struct
{
  GpuLayout layout;
  gsize     offset;             /* into the shadow, bytes */
  gsize     row_pitch;
  gsize     slice_pitch;
} Side;

static gsize
random_below (gsize limit)
{
  return (gsize) g_test_rand_int_range (0, (gint32) limit);
}

/* --- places ----------------------------------------------------------------------------------- */

static Place
host_place (TestFixture *fixture)
{
  return (Place) { fixture, NULL, FALSE, 1, { 0, 0, 0 }, g_malloc0 (BUFFER_SIZE), BUFFER_SIZE };
}

static Place
buffer_place (TestFixture *fixture)
{
  Place place = { fixture, NULL, FALSE, 1, { 0, 0, 0 }, g_malloc0 (BUFFER_SIZE), BUFFER_SIZE };

  place.memory = GPU_MEMORY (test_buffer_filled (fixture, BUFFER_SIZE, 0));

  return place;
}

static Place
image_place (TestFixture          *fixture,
             const GpuImageFormat *format,
             GpuImageType          type,
             const GpuExtent      *extent)
{
  const GpuColor black = { 0, 0, 0, 0 };
  g_autoptr (GError) error = NULL;
  Place place = { fixture, NULL, TRUE, gpu_image_format_get_texel_size (format), *extent, NULL,
                  0 };
  GpuImage *image = gpu_image_new (fixture->context, GPU_MEMORY_NONE, format, type, extent,
                                   &error);

  g_assert_no_error (error);
  test_assert_ok (gpu_image_fill (image, NULL, &black, NULL, NULL, NULL, &error), error);
  place.memory = GPU_MEMORY (image);
  place.size = place.texel_size * extent->width * extent->height * extent->depth;
  place.shadow = g_malloc0 (place.size);

  return place;
}

/* Two buffers, memory of the host, and images whose texels have one size. */
static guint
make_places (TestFixture          *fixture,
             const GpuImageFormat *format,
             Place                 places[N_PLACES])
{
  static const struct
  {
    GpuImageType type;
    GpuExtent    extent;
  }
  images[] =
  {
    { GPU_IMAGE_TYPE_IMAGE_2D, { 17, 9, 1 } },
    { GPU_IMAGE_TYPE_IMAGE_3D, { 7, 6, 5 } },
    { GPU_IMAGE_TYPE_IMAGE_2D_ARRAY, { 9, 5, 4 } },
    { GPU_IMAGE_TYPE_IMAGE_1D, { 40, 1, 1 } }
  };
  guint n = 0;

  places[n++] = host_place (fixture);
  places[n++] = buffer_place (fixture);
  places[n++] = buffer_place (fixture);

  if (format == NULL)
    return n;

  for (guint i = 0; i < G_N_ELEMENTS (images); i++)
    places[n++] = image_place (fixture, format, images[i].type, &images[i].extent);

  return n;
}

static void
free_places (Place *places,
             guint  n_places)
{
  for (guint i = 0; i < n_places; i++)
    {
      g_clear_object (&places[i].memory);
      g_free (places[i].shadow);
    }
}

/* --- copies ----------------------------------------------------------------------------------- */

static gsize
at_most (const Place *place,
         gsize        of_image,
         gsize        of_linear)
{
  return place->is_image ? of_image : of_linear;
}

/* A region that fits into both; texels of one byte where there is no image. */
static GpuExtent
choose_extent (const Place *a,
               const Place *b)
{
  gsize width = MIN (at_most (a, a->extent.width, 40), at_most (b, b->extent.width, 40));
  gsize height = MIN (at_most (a, a->extent.height, 6), at_most (b, b->extent.height, 6));
  gsize depth = MIN (at_most (a, a->extent.depth, 4), at_most (b, b->extent.depth, 4));

  return (GpuExtent) { 1 + random_below (width), 1 + random_below (height),
                       1 + random_below (depth) };
}

static gboolean
choose_side (const Place     *place,
             const GpuExtent *extent,
             gsize            texel_size,
             Side            *side)
{
  gsize row = extent->width * texel_size;
  gsize end;

  if (place->is_image)
    {
      side->layout = (GpuLayout) { random_below (place->extent.width - extent->width + 1),
                                   random_below (place->extent.height - extent->height + 1),
                                   random_below (place->extent.depth - extent->depth + 1), 0, 0 };
      side->row_pitch = place->extent.width * texel_size;
      side->slice_pitch = side->row_pitch * place->extent.height;
      side->offset = side->layout.x * texel_size + side->layout.y * side->row_pitch
                     + side->layout.z * side->slice_pitch;
      return TRUE;
    }

  side->row_pitch = row + (random_below (2) == 0 ? 0 : random_below (20));
  side->slice_pitch = side->row_pitch * extent->height
                      + (random_below (2) == 0 ? 0 : random_below (50));
  side->layout = (GpuLayout) { random_below (30), random_below (3), random_below (2),
                               side->row_pitch, side->slice_pitch };
  side->offset = side->layout.x + side->layout.y * side->row_pitch
                 + side->layout.z * side->slice_pitch;
  end = side->offset + (extent->depth - 1) * side->slice_pitch
        + (extent->height - 1) * side->row_pitch + row;

  return end <= place->size;
}

static void
copy_shadows (const Place     *to,
              const Side      *to_side,
              const Place     *from,
              const Side      *from_side,
              const GpuExtent *extent,
              gsize            texel_size)
{
  for (gsize z = 0; z < extent->depth; z++)
    {
      for (gsize y = 0; y < extent->height; y++)
        memmove (to->shadow + to_side->offset + z * to_side->slice_pitch
                 + y * to_side->row_pitch,
                 from->shadow + from_side->offset + z * from_side->slice_pitch
                 + y * from_side->row_pitch, extent->width * texel_size);
    }
}

static void
randomize (Place *place)
{
  GpuStream *stream = place->fixture->stream;
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (place->size);

  memcpy (place->shadow, g_bytes_get_data (bytes, NULL), place->size);

  if (place->memory == NULL)
    return;

  if (place->is_image)
    test_assert_ok (gpu_image_write_bytes (GPU_IMAGE (place->memory), stream, NULL, NULL, bytes,
                                           0, 0, NULL, &error), error);
  else
    test_assert_ok (gpu_buffer_write_bytes (GPU_BUFFER (place->memory), stream, 0, bytes, NULL,
                                            &error), error);
}

/* On a stream of either. */
static void
submit (const Place     *to,
        const Side      *to_side,
        const Place     *from,
        const Side      *from_side,
        const GpuExtent *extent)
{
  GpuStream *stream = (random_below (2) == 0 ? to : from)->fixture->stream;
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = NULL;

  if (to->memory == NULL)
    {
      bytes = g_bytes_new_static (to->shadow, to->size);
      test_assert_ok (gpu_stream_read_region_into (from->fixture->stream, from->memory,
                                                   &from_side->layout, bytes, &to_side->layout,
                                                   extent, &error), error);
    }
  else if (from->memory == NULL)
    {
      bytes = g_bytes_new_static (from->shadow, from->size);
      test_assert_ok (gpu_stream_write_region (to->fixture->stream, to->memory, &to_side->layout,
                                               bytes, &from_side->layout, extent, &error), error);
    }
  else
    {
      test_assert_ok (gpu_stream_copy_region (stream, to->memory, &to_side->layout, from->memory,
                                              &from_side->layout, extent, &error), error);
    }
}

static void
check_place (const Place *place)
{
  GpuStream *stream = place->fixture->stream;
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = NULL;

  if (place->is_image)
    bytes = gpu_image_read_bytes (GPU_IMAGE (place->memory), stream, NULL, NULL, NULL, &error);
  else
    bytes = gpu_buffer_read_bytes (GPU_BUFFER (place->memory), stream, 0, place->size, NULL,
                                   &error);

  g_assert_no_error (error);
  test_assert_mem (g_bytes_get_data (bytes, NULL), place->shadow, place->size);
}

/* What comes to memory of the host is compared with what the shadow of its source says. */
static void
check_read (Place           *to,
            const Side      *to_side,
            const Place     *from,
            const Side      *from_side,
            const GpuExtent *extent,
            gsize            texel_size)
{
  g_autofree guint8 *got = NULL;

  test_synchronize (from->fixture->stream);
  got = g_memdup2 (to->shadow, to->size);
  copy_shadows (to, to_side, from, from_side, extent, texel_size);
  test_assert_mem (got, to->shadow, to->size);
}

/* TRUE if there was something to copy. */
static gboolean
copy_once (Place *to,
           Place *from)
{
  gsize texel_size = MAX (to->texel_size, from->texel_size);
  GpuExtent extent;
  Side to_side;
  Side from_side;

  if (to == from || (to->memory == NULL && from->memory == NULL))
    return FALSE;

  extent = choose_extent (to, from);

  if (!choose_side (to, &extent, texel_size, &to_side)
      || !choose_side (from, &extent, texel_size, &from_side))
    return FALSE;

  if (random_below (20) == 0)
    randomize (from);

  if (to->memory == NULL)
    {
      memset (to->shadow, 0x77, to->size);
      submit (to, &to_side, from, &from_side, &extent);
      check_read (to, &to_side, from, &from_side, &extent, texel_size);
      return TRUE;
    }

  submit (to, &to_side, from, &from_side, &extent);
  copy_shadows (to, &to_side, from, &from_side, &extent, texel_size);
  check_place (to);

  return TRUE;
}

static void
run_copies (TestFixture          *fixture,
            const GpuImageFormat *format,
            guint                 n_copies)
{
  Place places[N_PLACES];
  guint n_places = make_places (fixture, format, places);

  for (guint i = 0; i < n_places; i++)
    randomize (&places[i]);

  for (guint done = 0; done < n_copies;)
    done += copy_once (&places[random_below (n_places)], &places[random_below (n_places)]);

  free_places (places, n_places);
}

static void
region_random (TestFixture *fixture)
{
  static const GpuImageFormat formats[] =
  {
    { GPU_CHANNEL_ORDER_R, GPU_CHANNEL_TYPE_UINT8 },
    { GPU_CHANNEL_ORDER_R, GPU_CHANNEL_TYPE_UINT16 },
    { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UINT8 },
    { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UINT16 },
    { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UINT32 }
  };

  if ((gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_IMAGES) == 0)
    {
      run_copies (fixture, NULL, N_COPIES);
      return;
    }

  for (guint i = 0; i < G_N_ELEMENTS (formats); i++)
    run_copies (fixture, &formats[i], N_COPIES / G_N_ELEMENTS (formats));
}

/* --- between contexts ------------------------------------------------------------------------- */

/* There and back between all kinds of memory of the two. */
static void
run_between (TestFixture *fixture,
             TestFixture *other)
{
  const GpuImageFormat format = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UINT8 };
  const GpuCapabilities both = gpu_device_get_capabilities (fixture->device)
                               & gpu_device_get_capabilities (other->device);
  const GpuImageFormat *images = (both & GPU_CAPABILITIES_IMAGES) != 0 ? &format : NULL;
  Place here[N_PLACES];
  Place there[N_PLACES];
  guint n = make_places (fixture, images, here);

  make_places (other, images, there);

  for (guint i = 0; i < n; i++)
    {
      randomize (&here[i]);
      randomize (&there[i]);
    }

  for (guint done = 0; done < N_PEERS;)
    {
      Place *a = &here[random_below (n)];
      Place *b = &there[random_below (n)];

      /* What is of the host is of no context. */
      if (a->memory != NULL && b->memory != NULL)
        done += random_below (2) == 0 ? copy_once (a, b) : copy_once (b, a);
    }

  free_places (here, n);
  free_places (there, n);
}

static void
refused_between (TestFixture *fixture,
                 TestFixture *other)
{
  const GpuExtent extent = { 3, 4, 5 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) here = test_buffer (fixture, BUFFER_SIZE);
  g_autoptr (GpuBuffer) there = test_buffer (other, BUFFER_SIZE);

  g_assert_false (gpu_stream_copy_region (fixture->stream, GPU_MEMORY (here), NULL,
                                          GPU_MEMORY (there), NULL, &extent, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_stream_copy_region", "contexts");
}

static void
copy_between (TestFixture *fixture,
              GpuDevice   *device)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) context = gpu_context_new_full (device, GPU_CONTEXT_FLAGS_OWN, &error);
  g_autoptr (GpuStream) stream = NULL;
  TestFixture other;

  g_assert_no_error (error);
  stream = gpu_context_get_default_stream (context);
  other = (TestFixture) { device, context, stream };

  if (test_is_opencl (fixture))
    refused_between (fixture, &other);
  else
    run_between (fixture, &other);
}

static void
region_peers (TestFixture *fixture)
{
  const char *backend = gpu_device_get_backend (fixture->device);
  GPtrArray *devices = test_devices ();

  for (guint i = 0; i < devices->len; i++)
    {
      if (g_str_equal (gpu_device_get_backend (devices->pdata[i]), backend))
        copy_between (fixture, devices->pdata[i]);
    }
}

/* One of the two must be of the stream's context. */
static void
region_foreign (TestFixture *fixture)
{
  const GpuExtent extent = { 3, 4, 5 };
  const GpuLayout behind = { 100, 0, 0, 0, 0 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) context = gpu_context_new_full (fixture->device, GPU_CONTEXT_FLAGS_OWN,
                                                         &error);
  g_autoptr (GpuBuffer) buffer = NULL;

  g_assert_no_error (error);
  buffer = gpu_buffer_new (context, GPU_MEMORY_NONE, BUFFER_SIZE, &error);
  g_assert_no_error (error);
  g_assert_false (gpu_stream_copy_region (fixture->stream, GPU_MEMORY (buffer), &behind,
                                          GPU_MEMORY (buffer), NULL, &extent, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_stream_copy_region", "contexts");
}

/* --- what is refused -------------------------------------------------------------------------- */

static void
region_overlaps (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, 1024, 0);
  const GpuExtent extent = { 16, 4, 2 };
  const GpuLayout first = { 0, 0, 0, 32, 128 };
  const GpuLayout inside = { 8, 1, 0, 32, 128 };
  const GpuLayout beside = { 16, 0, 0, 32, 128 };

  g_assert_false (gpu_stream_copy_region (fixture->stream, GPU_MEMORY (buffer), &inside,
                                          GPU_MEMORY (buffer), &first, &extent, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_stream_copy_region", "overlap",
                         "40");
  test_assert_ok (gpu_stream_copy_region (fixture->stream, GPU_MEMORY (buffer), &beside,
                                          GPU_MEMORY (buffer), &first, &extent, &error), error);
}

static void
region_overlaps_image (TestFixture *fixture)
{
  const GpuImageFormat format = { GPU_CHANNEL_ORDER_R, GPU_CHANNEL_TYPE_UINT8 };
  const GpuExtent whole = { 16, 16, 1 };
  const GpuExtent extent = { 8, 8, 1 };
  const GpuLayout inside = { 7, 7, 0, 0, 0 };
  const GpuLayout beside = { 8, 7, 0, 0, 0 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (256);
  g_autoptr (GBytes) content = NULL;
  g_autoptr (GpuImage) image = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_IMAGES))
    return;

  image = gpu_image_new_from_bytes (fixture->context, GPU_MEMORY_NONE, &format,
                                    GPU_IMAGE_TYPE_IMAGE_2D, &whole, bytes, 0, 0, &error);
  g_assert_no_error (error);
  g_assert_false (gpu_stream_copy_region (fixture->stream, GPU_MEMORY (image), &inside,
                                          GPU_MEMORY (image), NULL, &extent, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "overlap", "119");
  test_assert_ok (gpu_stream_copy_region (fixture->stream, GPU_MEMORY (image), &beside,
                                          GPU_MEMORY (image), NULL, &extent, &error), error);
  content = gpu_image_read_bytes (image, NULL, &beside, &extent, NULL, &error);
  g_assert_no_error (error);

  for (guint y = 0; y < 8; y++)
    test_assert_mem ((const guint8 *) g_bytes_get_data (content, NULL) + 8 * y,
                     (const guint8 *) g_bytes_get_data (bytes, NULL) + 16 * y, 8);
}

static void
region_bounds (TestFixture *fixture)
{
  const GpuImageFormat wide = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UINT8 };
  const GpuImageFormat narrow = { GPU_CHANNEL_ORDER_R, GPU_CHANNEL_TYPE_UINT8 };
  const GpuExtent whole = { 10, 6, 1 };
  const GpuExtent huge = { G_MAXSIZE / 2, 2, 1 };
  const GpuLayout at = { 3, 2, 0, 0, 0 };
  const GpuLayout pitched = { 0, 0, 0, 64, 0 };
  const GpuLayout tight = { 0, 0, 0, 39, 0 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, 239, 0);
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GpuImage) other = NULL;
  GpuMemory *memory;

  if (!test_has (fixture, GPU_CAPABILITIES_IMAGES))
    return;

  image = gpu_image_new (fixture->context, GPU_MEMORY_NONE, &wide, GPU_IMAGE_TYPE_IMAGE_2D, &whole,
                         &error);
  g_assert_no_error (error);
  other = gpu_image_new (fixture->context, GPU_MEMORY_NONE, &narrow, GPU_IMAGE_TYPE_IMAGE_2D,
                         &whole, &error);
  g_assert_no_error (error);
  memory = GPU_MEMORY (image);

  g_assert_false (gpu_stream_copy_region (fixture->stream, memory, &at, GPU_MEMORY (buffer), NULL,
                                          &whole, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "10 x 6 x 1", "3, 2, 0",
                         "destination");
  g_assert_false (gpu_stream_copy_region (fixture->stream, memory, &pitched, GPU_MEMORY (buffer),
                                          NULL, &whole, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "row pitch 64", "image");
  g_assert_false (gpu_stream_copy_region (fixture->stream, memory, NULL, GPU_MEMORY (buffer),
                                          &tight, &whole, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "39", "40 bytes x 6 rows");
  g_assert_false (gpu_stream_copy_region (fixture->stream, memory, NULL, GPU_MEMORY (buffer),
                                          NULL, &whole, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "239 bytes of the source");
  g_assert_false (gpu_stream_copy_region (fixture->stream, memory, NULL, GPU_MEMORY (other), NULL,
                                          &whole, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "1 bytes", "4");
  g_assert_false (gpu_stream_copy_region (fixture->stream, memory, NULL, GPU_MEMORY (buffer),
                                          NULL, &huge, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT);
}

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);
  test_add ("random", region_random);
  test_add ("peers", region_peers);
  test_add ("foreign", region_foreign);
  test_add ("overlaps", region_overlaps);
  test_add ("overlaps-image", region_overlaps_image);
  test_add ("bounds", region_bounds);

  return test_run ();
}
