/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Random copies of regions between random pairs of memory objects, compared with loops of memcpy().
 * Both objects may be the same object, or belong to two contexts. --seed repeats a run. */
#include "config.h"

#include "test-util.h"

#define N_COPIES    20000
#define N_PEERS     2000            /* copies between contexts */
#define MAX_PLACES  24
#define BUFFER_SIZE 4096
#define SLICE_SIZE  2500
#define ORIGIN      1024            /* of a slice, bytes; aligned for all devices */
#define N_LEVELS    3

typedef struct _Place Place;

/* Memory of any kind, and its expected content (the shadow). Linear memory has texels of one
 * byte. */
struct _Place
{
  TestFixture *fixture;
  GpuMemory   *memory;              /* NULL for host memory */
  const Place *root;                /* nullable; the place whose memory this place aliases */
  gboolean     is_image;
  gsize        texel_size;
  GpuExtent    extent;              /* of an image */
  gsize        row_pitch;           /* of an image's shadow */
  guint8      *shadow;              /* the memory itself, for host memory */
  gsize        size;
};

typedef struct
{
  TestFixture *fixture;
  Place        places[MAX_PLACES];
  guint        n_places;
} Places;

typedef struct
{
  const Place *place;
  GpuLayout    layout;
  gsize        offset;              /* of the region in the shadow, bytes */
  gsize        row_pitch;
  gsize        slice_pitch;
} Side;

/* A copy between two regions, with the extent in texels and in bytes. */
typedef struct
{
  Side      to;
  Side      from;
  GpuExtent extent;
  GpuExtent bytes;
} Copy;

static gsize
random_below (gsize limit)
{
  return (gsize) g_test_rand_int_range (0, (gint32) limit);
}

static const Place *
get_root (const Place *place)
{
  return place->root != NULL ? place->root : place;
}

/* --- places ----------------------------------------------------------------------------------- */

static Place *
add (Places    *places,
     GpuMemory *memory,
     gsize      size)
{
  Place *place = &places->places[places->n_places++];

  g_assert_cmpuint (places->n_places, <=, MAX_PLACES);
  *place = (Place) { .fixture = places->fixture, .memory = memory, .texel_size = 1,
                     .shadow = g_malloc0 (size), .size = size };

  return place;
}

/* Adds a place for @memory, which is the part of the memory of @root that begins at @offset. Takes
 * ownership of @memory. */
static Place *
add_part (Places      *places,
          gpointer     memory,
          const Place *root,
          gsize        offset,
          gsize        size)
{
  Place *place = &places->places[places->n_places++];

  g_assert_nonnull (memory);
  g_assert_cmpuint (places->n_places, <=, MAX_PLACES);
  *place = (Place) { .fixture = places->fixture, .memory = memory, .root = root, .texel_size = 1,
                     .shadow = root->shadow + offset, .size = size };

  return place;
}

static void
set_image (Place           *place,
           gsize            texel_size,
           const GpuExtent *extent,
           gsize            row_pitch)
{
  place->is_image = TRUE;
  place->texel_size = texel_size;
  place->extent = *extent;
  place->row_pitch = row_pitch;
}

/* Takes ownership of @image. */
static void
add_image (Places   *places,
           GpuImage *image)
{
  gsize texel_size = test_get_number (image, "texel-size");
  GpuExtent extent;

  gpu_image_get_extent (image, &extent);
  set_image (add (places, GPU_MEMORY (image),
                  texel_size * extent.width * extent.height * extent.depth),
             texel_size, &extent, texel_size * extent.width);
}

/* Adds two slices that overlap, and an alias of the whole buffer. */
static void
add_buffer_parts (Places      *places,
                  const Place *root)
{
  g_autoptr (GError) error = NULL;
  GpuBuffer *buffer = GPU_BUFFER (root->memory);
  guint64 handle = gpu_memory_get_native_handle (root->memory);

  add_part (places, gpu_buffer_slice (buffer, 0, SLICE_SIZE, &error), root, 0, SLICE_SIZE);
  g_assert_no_error (error);
  add_part (places, gpu_buffer_slice (buffer, ORIGIN, SLICE_SIZE, &error), root, ORIGIN,
            SLICE_SIZE);
  g_assert_no_error (error);
  add_part (places, gpu_buffer_new_wrapped (places->fixture->context, handle, BUFFER_SIZE,
                                            GPU_WRAP_MODE_BORROW, NULL,
                                            &error), root, 0, BUFFER_SIZE);
  g_assert_no_error (error);
}

/* Returns FALSE if the driver does not support the buffer or image that the caller tried to create.
 * Any other error fails the test. */
static gboolean
is_supported (gpointer   memory,
              GError   **error)
{
  if (memory == NULL && g_error_matches (*error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED))
    {
      g_clear_error (error);
      return FALSE;
    }

  g_assert_no_error (*error);

  return TRUE;
}

static GBytes *
host_bytes (gsize size)
{
  gpointer data = g_aligned_alloc0 (1, BUFFER_SIZE, BUFFER_SIZE);

  return g_bytes_new_with_free_func (data, size, g_aligned_free, data);
}

static void
add_buffers (Places *places)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = host_bytes (BUFFER_SIZE);
  GpuBuffer *over_host;

  add (places, NULL, BUFFER_SIZE);

  for (guint i = 0; i < 2; i++)
    add_buffer_parts (places, add (places, GPU_MEMORY (test_buffer (places->fixture, BUFFER_SIZE)),
                                   BUFFER_SIZE));

  over_host = gpu_buffer_new_for_host_bytes (places->fixture->context, GPU_MEMORY_FLAGS_NONE, bytes,
                                             &error);

  if (is_supported (over_host, &error))
    add (places, GPU_MEMORY (over_host), BUFFER_SIZE);
}

/* Adds an image over a buffer, with gaps between its rows, and an image of one row over the same
 * bytes. */
static void
add_images_over_buffers (Places               *places,
                         const GpuImageFormat *format)
{
  const GpuExtent extent = { 13, 7, 1 };
  const GpuExtent row = { 20, 1, 1 };
  gsize texel_size = gpu_image_format_get_texel_size (format);
  g_autoptr (GError) error = NULL;
  GpuBuffer *buffer;
  GpuImage *image;
  Place *root;

  buffer = gpu_buffer_new_pitched (places->fixture->context, GPU_MEMORY_FLAGS_NONE,
                                   (extent.width + 3) * texel_size, extent.height, texel_size,
                                   &error);
  g_assert_no_error (error);
  root = add (places, GPU_MEMORY (buffer), gpu_memory_get_size (GPU_MEMORY (buffer)));

  image = gpu_image_new_for_buffer (buffer, GPU_MEMORY_FLAGS_NONE, format,
                                    GPU_IMAGE_TYPE_IMAGE_1D_BUFFER, row.width, 1, 0, &error);
  if (is_supported (image, &error))
    set_image (add_part (places, image, root, 0, row.width * texel_size), texel_size, &row,
               row.width * texel_size);

  image = gpu_image_new_for_buffer (buffer, GPU_MEMORY_FLAGS_NONE, format, GPU_IMAGE_TYPE_IMAGE_2D,
                                    extent.width, extent.height, 0, &error);
  if (is_supported (image, &error))
    set_image (add_part (places, image, root, 0, root->size), texel_size, &extent,
               gpu_buffer_get_row_pitch (buffer));
}

static void
add_image_over_host (Places               *places,
                     const GpuImageFormat *format)
{
  const GpuExtent extent = { 8, 6, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = host_bytes (48 * gpu_image_format_get_texel_size (format));
  GpuImage *image = gpu_image_new_for_host_bytes (places->fixture->context, GPU_MEMORY_FLAGS_NONE,
                                                  format, GPU_IMAGE_TYPE_IMAGE_2D, &extent, bytes,
                                                  0, 0, &error);

  if (is_supported (image, &error))
    add_image (places, image);
}

static void
add_levels (Places               *places,
            const GpuImageFormat *format)
{
  const GpuExtent extent = { 16, 9, 1 };
  g_autoptr (GError) error = NULL;
  GpuImage *image;

  if ((gpu_device_get_capabilities (places->fixture->device) & GPU_CAPABILITIES_MIPMAPS) == 0)
    return;

  image = gpu_image_new_mipmapped (places->fixture->context, GPU_MEMORY_FLAGS_NONE, format,
                                   GPU_IMAGE_TYPE_IMAGE_2D, &extent, N_LEVELS, &error);

  if (!is_supported (image, &error))
    return;

  add_image (places, image);

  for (guint i = 1; i < N_LEVELS; i++)
    {
      add_image (places, gpu_image_get_level (image, i, &error));
      g_assert_no_error (error);
    }
}

/* Makes linear memory, and images whose texels have the same size. */
static void
make_places (Places               *places,
             const GpuImageFormat *format)
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
    { GPU_IMAGE_TYPE_IMAGE_1D, { 40, 1, 1 } },
    { GPU_IMAGE_TYPE_IMAGE_1D_ARRAY, { 19, 5, 1 } }
  };

  add_buffers (places);

  if (format == NULL)
    return;

  for (guint i = 0; i < G_N_ELEMENTS (images); i++)
    {
      g_autoptr (GError) error = NULL;
      GpuImage *image = gpu_image_new (places->fixture->context, GPU_MEMORY_FLAGS_NONE, format,
                                       images[i].type, &images[i].extent, &error);

      g_assert_no_error (error);
      add_image (places, image);
    }

  add_images_over_buffers (places, format);
  add_image_over_host (places, format);
  add_levels (places, format);
}

static void
free_places (Places *places)
{
  for (guint i = 0; i < places->n_places; i++)
    {
      g_clear_object (&places->places[i].memory);

      if (places->places[i].root == NULL)
        g_free (places->places[i].shadow);
    }
}

static void
randomize (const Place *place)
{
  const Place *root = get_root (place);
  GpuStream *stream = place->fixture->stream;
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (root->size);

  memcpy (root->shadow, g_bytes_get_data (bytes, NULL), root->size);

  if (root->memory == NULL)
    return;

  if (root->is_image)
    test_assert_ok (gpu_image_write_bytes (GPU_IMAGE (root->memory), stream, NULL, NULL, bytes,
                                           0, 0, NULL, &error), error);
  else
    test_assert_ok (gpu_buffer_write_bytes (GPU_BUFFER (root->memory), stream, 0, bytes, NULL,
                                            &error), error);
}

/* Returns the content of the memory of @place. */
static GBytes *
read_place (const Place *place)
{
  const Place *root = get_root (place);
  GpuStream *stream = place->fixture->stream;
  g_autoptr (GError) error = NULL;
  GBytes *bytes;

  if (root->is_image)
    bytes = gpu_image_read_bytes (GPU_IMAGE (root->memory), stream, NULL, NULL, NULL, &error);
  else
    bytes = gpu_buffer_read_bytes (GPU_BUFFER (root->memory), stream, 0, root->size, NULL,
                                   &error);

  g_assert_no_error (error);

  return bytes;
}

static void
check_place (const Place *place)
{
  g_autoptr (GBytes) bytes = read_place (place);

  test_assert_mem (g_bytes_get_data (bytes, NULL), get_root (place)->shadow,
                   get_root (place)->size);
}

/* --- copies ----------------------------------------------------------------------------------- */

static gsize
at_most (const Place *place,
         gsize        of_image,
         gsize        of_linear)
{
  return place->is_image ? of_image : of_linear;
}

/* Chooses the extent of a copy between the memory of @a and the memory of @b. The unit is a texel
 * of the image. If neither memory is an image, the unit is one byte. */
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

static void
choose_image_side (Side            *side,
                   const GpuExtent *extent)
{
  const Place *place = side->place;

  side->layout = (GpuLayout) { random_below (place->extent.width - extent->width + 1),
                               random_below (place->extent.height - extent->height + 1),
                               random_below (place->extent.depth - extent->depth + 1), 0, 0 };
  side->row_pitch = place->row_pitch;
  side->slice_pitch = place->row_pitch * place->extent.height;
  side->offset = side->layout.x * place->texel_size + side->layout.y * side->row_pitch
                 + side->layout.z * side->slice_pitch;
}

static gsize
get_end (const Copy *copy,
         const Side *side)
{
  return side->offset + (copy->bytes.depth - 1) * side->slice_pitch
         + (copy->bytes.height - 1) * side->row_pitch + copy->bytes.width;
}

/* Returns FALSE if the region reaches past the end of the memory. */
static gboolean
choose_side (const Copy *copy,
             Side       *side)
{
  if (side->place->is_image)
    {
      choose_image_side (side, &copy->extent);
      return TRUE;
    }

  side->row_pitch = copy->bytes.width + (random_below (2) == 0 ? 0 : random_below (20));
  side->slice_pitch = side->row_pitch * copy->bytes.height
                      + (random_below (2) == 0 ? 0 : random_below (50));
  side->layout = (GpuLayout) { random_below (30), random_below (3), random_below (2),
                               side->row_pitch, side->slice_pitch };
  side->offset = side->layout.x + side->layout.y * side->row_pitch
                 + side->layout.z * side->slice_pitch;

  return get_end (copy, side) <= side->place->size;
}

static guint8 *
get_row (const Side *side,
         gsize       y,
         gsize       z)
{
  return side->place->shadow + side->offset + z * side->slice_pitch + y * side->row_pitch;
}

static void
copy_shadows (const Copy *copy)
{
  for (gsize z = 0; z < copy->bytes.depth; z++)
    {
      for (gsize y = 0; y < copy->bytes.height; y++)
        memmove (get_row (&copy->to, y, z), get_row (&copy->from, y, z), copy->bytes.width);
    }
}

/* Returns whether a row of the source overlaps a row of the destination. Compares the addresses of
 * the rows in the shadows, the copies of the expected contents: places that alias the same memory
 * have the same shadow. */
static gboolean
overlaps (const Copy *copy)
{
  const gsize n_rows = copy->bytes.height * copy->bytes.depth;

  for (gsize i = 0; i < n_rows * n_rows; i++)
    {
      const guint8 *to = get_row (&copy->to, i / n_rows % copy->bytes.height,
                                  i / n_rows / copy->bytes.height);
      const guint8 *from = get_row (&copy->from, i % n_rows % copy->bytes.height,
                                    i % n_rows / copy->bytes.height);

      if (to < from + copy->bytes.width && from < to + copy->bytes.width)
        return TRUE;
    }

  return FALSE;
}

/* Returns whether each row is copied to itself. */
static gboolean
is_same (const Copy *copy)
{
  for (gsize z = 0; z < copy->bytes.depth; z++)
    for (gsize y = 0; y < copy->bytes.height; y++)
      if (get_row (&copy->to, y, z) != get_row (&copy->from, y, z))
        return FALSE;

  return TRUE;
}

/* Submits the copy on a stream of the source or of the destination, chosen at random. Host memory
 * is passed as a GBytes. Returns FALSE and sets @error if the copy is rejected. */
static gboolean
submit (const Copy  *copy,
        GError     **error)
{
  const Place *to = copy->to.place;
  const Place *from = copy->from.place;
  GpuStream *stream = (random_below (2) == 0 ? to : from)->fixture->stream;
  g_autoptr (GBytes) bytes = NULL;

  if (to->memory == NULL)
    {
      bytes = g_bytes_new_static (to->shadow, to->size);
      return gpu_stream_read_region_into (from->fixture->stream, from->memory,
                                          &copy->from.layout, bytes, &copy->to.layout,
                                          &copy->extent, error);
    }

  if (from->memory == NULL)
    {
      bytes = g_bytes_new_static (from->shadow, from->size);
      return gpu_stream_write_region (to->fixture->stream, to->memory, &copy->to.layout, bytes,
                                      &copy->from.layout, &copy->extent, error);
    }

  return gpu_stream_copy_region (stream, to->memory, &copy->to.layout, from->memory,
                                 &copy->from.layout, &copy->extent, error);
}

static char *
describe_side (const Side *side)
{
  const Place *place = side->place;
  g_autofree char *kind = NULL;

  if (place->memory == NULL)
    kind = g_strdup ("the host");
  else if (!place->is_image)
    kind = g_strdup_printf ("%s of %" G_GSIZE_FORMAT " bytes",
                            place->root == NULL ? "a buffer" : "a part of a buffer", place->size);
  else
    kind = g_strdup_printf ("%s, type %d of %" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT " x %"
                            G_GSIZE_FORMAT " texels of %" G_GSIZE_FORMAT " bytes",
                            place->root == NULL ? "an image" : "an image over a buffer",
                            gpu_image_get_image_type (GPU_IMAGE (place->memory)),
                            place->extent.width, place->extent.height, place->extent.depth,
                            place->texel_size);

  return g_strdup_printf ("%s at %" G_GSIZE_FORMAT ", %" G_GSIZE_FORMAT ", %" G_GSIZE_FORMAT
                          ", pitches %" G_GSIZE_FORMAT " and %" G_GSIZE_FORMAT, kind,
                          side->layout.x, side->layout.y, side->layout.z, side->row_pitch,
                          side->slice_pitch);
}

/* Prints the copy before the test fails. */
static void
describe (const Copy *copy)
{
  g_autofree char *to = describe_side (&copy->to);
  g_autofree char *from = describe_side (&copy->from);

  g_test_message ("%" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT " from %s to %s",
                  copy->extent.width, copy->extent.height, copy->extent.depth, from, to);
}

static void
check_result (const Copy    *copy,
              gconstpointer  got)
{
  const Place *root = get_root (copy->to.place);

  if (memcmp (got, root->shadow, root->size) != 0)
    describe (copy);

  test_assert_mem (got, root->shadow, root->size);
}

/* Compares host memory after the copy with the shadow of the source. */
static void
check_read (const Copy *copy)
{
  const Place *to = copy->to.place;
  g_autoptr (GError) error = NULL;
  g_autofree guint8 *got = NULL;

  memset (to->shadow, 0x77, to->size);
  test_assert_ok (submit (copy, &error), error);
  test_synchronize (copy->from.place->fixture->stream);
  got = g_memdup2 (to->shadow, to->size);
  copy_shadows (copy);
  check_result (copy, got);
}

static void
check_copy (const Copy *copy)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) got = NULL;

  if (submit (copy, &error))
    {
      g_assert_true (!overlaps (copy) || is_same (copy));
      copy_shadows (copy);
    }
  else
    {
      g_assert_true (overlaps (copy) && !is_same (copy));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_stream_copy_region",
                             "overlap");
    }

  got = read_place (copy->to.place);
  check_result (copy, g_bytes_get_data (got, NULL));
}

/* Returns TRUE if anything was copied. */
static gboolean
copy_once (const Place *to,
           const Place *from)
{
  Copy copy = { .to = { .place = to }, .from = { .place = from } };
if (to->memory == NULL && from->memory == NULL)
    return FALSE;

  copy.extent = copy.bytes = choose_extent (to, from);
  copy.bytes.width *= MAX (to->texel_size, from->texel_size);

  if (!choose_side (&copy, &copy.to) || !choose_side (&copy, &copy.from))
    return FALSE;

  if (random_below (20) == 0)
    randomize (from);

  if (to->memory == NULL)
    check_read (&copy);
  else
    check_copy (&copy);

  return TRUE;
}

static const Place *
choose_place (const Places *places)
{
  return &places->places[random_below (places->n_places)];
}

static void
fill_places (Places               *places,
             const GpuImageFormat *format)
{
  make_places (places, format);

  for (guint i = 0; i < places->n_places; i++)
    randomize (&places->places[i]);
}

static void
check_places (const Places *places)
{
  for (guint i = 0; i < places->n_places; i++)
    {
      if (places->places[i].memory != NULL)
        check_place (&places->places[i]);
    }
}

static void
run_copies (TestFixture          *fixture,
            const GpuImageFormat *format,
            guint                 n_copies)
{
  Places places = { .fixture = fixture };

  fill_places (&places, format);

  for (guint done = 0; done < n_copies;)
    done += copy_once (choose_place (&places), choose_place (&places));

  check_places (&places);
  free_places (&places);
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

/* Copies between all kinds of memory of the two contexts, in both directions. */
static void
run_between (TestFixture *fixture,
             TestFixture *other)
{
  const GpuImageFormat format = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UINT8 };
  const GpuCapabilities both = gpu_device_get_capabilities (fixture->device)
                               & gpu_device_get_capabilities (other->device);
  const GpuImageFormat *images = (both & GPU_CAPABILITIES_IMAGES) != 0 ? &format : NULL;
  Places here = { .fixture = fixture };
  Places there = { .fixture = other };

  fill_places (&here, images);
  fill_places (&there, images);

  for (guint done = 0; done < N_PEERS;)
    {
      const Place *a = choose_place (&here);
      const Place *b = choose_place (&there);

      /* Host memory has no context. */
      if (a->memory != NULL && b->memory != NULL)
        done += random_below (2) == 0 ? copy_once (a, b) : copy_once (b, a);
    }

  check_places (&here);
  check_places (&there);
  free_places (&here);
  free_places (&there);
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
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_stream_copy_region",
                         "no driver copies regions", "gpu_stream_copy()");
}

static void
copy_between (TestFixture *fixture,
              GpuDevice   *device)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) context = gpu_context_new (device, GPU_CONTEXT_FLAGS_OWN, &error);
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

/* --- large regions ---------------------------------------------------------------------------- */

#define LARGE (6 * 1024 * 1024)

/* Regions that are large enough for the kernel of CUDA, with rows and pitches that are multiples of
 * 16 bytes, and the same regions moved by 4 bytes, which the driver copies. */
static void
region_large (TestFixture *fixture)
{
  static const struct
  {
    GpuExtent extent;
    gsize     rows[2], slices[2];
  } cases[] = {
    { { 4096, 512, 1 }, { 4096, 8192 }, { 4096 * 512, 8192 * 512 } },
    { { 2064, 600, 1 }, { 4144, 2064 }, { 4144 * 600, 2064 * 600 } },
    { { 512, 100, 40 }, { 1024, 528 }, { 1024 * 100, 528 * 110 } },
    { { 160, 7, 1500 }, { 160, 304 }, { 160 * 16, 304 * 7 } }
  };
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) from = test_buffer (fixture, LARGE);
  g_autoptr (GpuBuffer) to = test_buffer (fixture, LARGE);
  g_autoptr (GBytes) source = test_random_bytes (LARGE);
  g_autoptr (GError) error = NULL;
  const guint8 *data = g_bytes_get_data (source, NULL);
  const guint8 zero = 0;

  test_assert_ok (gpu_stream_write (stream, GPU_MEMORY (from), 0, source, &error), error);
  for (guint i = 0; i < 2 * G_N_ELEMENTS (cases); i++)
    {
      const GpuExtent *extent = &cases[i / 2].extent;
      const gsize *rows = cases[i / 2].rows, *slices = cases[i / 2].slices;
      GpuLayout layouts[2] = { { .x = 32, .row_pitch = rows[0], .slice_pitch = slices[0] },
                               { .x = 64 + i % 2 * 4, .row_pitch = rows[1],
                                 .slice_pitch = slices[1] } };
      guint8 *model = g_malloc0 (LARGE);
      g_autoptr (GBytes) expected = g_bytes_new_take (model, LARGE);

      for (gsize z = 0; z < extent->depth; z++)
        for (gsize y = 0; y < extent->height; y++)
          memcpy (model + layouts[0].x + z * slices[0] + y * rows[0],
                  data + layouts[1].x + z * slices[1] + y * rows[1], extent->width);
      test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (to), 0, LARGE, &zero, 1, &error),
                      error);
      test_assert_ok (gpu_stream_copy_region (stream, GPU_MEMORY (to), &layouts[0],
                                              GPU_MEMORY (from), &layouts[1], extent, &error),
                      error);
      test_synchronize (stream);
      test_assert_content (to, expected);
    }
}

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);
  test_add ("random", region_random);
  test_add ("peers", region_peers);
  test_add ("large", region_large);

  return test_run ();
}
