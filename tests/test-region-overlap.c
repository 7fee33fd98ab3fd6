/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Random copies of regions within one memory: the library must reject a copy if and only if the
 * regions share a byte. The test compares the regions byte by byte. An accepted copy changes no
 * byte outside of its destination. --seed repeats a run. */
#include "config.h"

#include "test-util.h"

#define N_COPIES 20000
#define SIZE     400
#define ORIGIN   1024               /* of a slice, bytes; aligned for all devices */

typedef struct
{
  GpuLayout layout;
  gsize     offset;
} Side;

static gsize
random_below (gsize limit)
{
  return (gsize) g_test_rand_int_range (0, (gint32) limit);
}

static gsize
get_row (const Side *side,
         gsize       y,
         gsize       z)
{
  return side->offset + z * side->layout.slice_pitch + y * side->layout.row_pitch;
}

static gsize
get_end (const Side      *side,
         const GpuExtent *extent)
{
  return get_row (side, extent->height - 1, extent->depth - 1) + extent->width;
}

/* Uses the pitches of @like, if it is not NULL and the region fits. */
static Side
choose_side (const GpuExtent *extent,
             const Side      *like)
{
  GpuLayout layout = { random_below (60), random_below (3), random_below (2), 0, 0 };
  Side side;

  layout.row_pitch = extent->width + random_below (6);

  if (like != NULL && random_below (2) == 0)
    layout.row_pitch = like->layout.row_pitch;

  layout.slice_pitch = layout.row_pitch * extent->height + random_below (15);

  if (like != NULL && random_below (2) == 0
      && like->layout.slice_pitch >= layout.row_pitch * extent->height)
    layout.slice_pitch = like->layout.slice_pitch;

  side = (Side) { layout, 0 };
  side.offset = layout.x + layout.y * layout.row_pitch + layout.z * layout.slice_pitch;

  return side;
}

static gboolean
share_bytes (const Side      *to,
             const Side      *from,
             const GpuExtent *extent)
{
  gboolean used[SIZE] = { FALSE };
  gboolean shared = FALSE;

  for (gsize z = 0; z < extent->depth; z++)
    for (gsize y = 0; y < extent->height; y++)
      for (gsize x = 0; x < extent->width; x++)
        used[get_row (to, y, z) + x] = TRUE;

  for (gsize z = 0; z < extent->depth; z++)
    for (gsize y = 0; y < extent->height; y++)
      for (gsize x = 0; x < extent->width; x++)
        shared |= used[get_row (from, y, z) + x];

  return shared;
}

static void
check_content (GpuBuffer       *buffer,
               GBytes          *before,
               const Side      *to,
               const Side      *from,
               const GpuExtent *extent)
{
  g_autoptr (GBytes) content = test_content (buffer);
  const guint8 *source = g_bytes_get_data (before, NULL);
  guint8 expected[SIZE];

  memcpy (expected, source, SIZE);

  for (gsize z = 0; z < extent->depth; z++)
    for (gsize y = 0; y < extent->height; y++)
      memcpy (expected + get_row (to, y, z), source + get_row (from, y, z), extent->width);

  test_assert_mem (g_bytes_get_data (content, NULL), expected, SIZE);
}

static void
report (const char      *what,
        const Side      *to,
        const Side      *from,
        const GpuExtent *extent)
{
#define SIZE_FORMAT "%" G_GSIZE_FORMAT
  g_error ("%s: " SIZE_FORMAT " x " SIZE_FORMAT " x " SIZE_FORMAT " bytes from " SIZE_FORMAT " ("
           SIZE_FORMAT ", " SIZE_FORMAT ") to " SIZE_FORMAT " (" SIZE_FORMAT ", " SIZE_FORMAT ")",
           what, extent->width, extent->height, extent->depth, from->offset,
           from->layout.row_pitch, from->layout.slice_pitch, to->offset, to->layout.row_pitch,
           to->layout.slice_pitch);
#undef SIZE_FORMAT
}

/* Copies between two buffers over the same memory. The memory of @from_buffer begins @shift bytes
 * before the memory of @to_buffer. Returns TRUE if the copy is rejected. */
static gboolean
copy_within (GpuStream       *stream,
             GpuBuffer       *to_buffer,
             GpuBuffer       *from_buffer,
             gsize            shift,
             const Side      *to,
             const Side      *from,
             const GpuExtent *extent)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) before = test_random_bytes (SIZE);
  GpuLayout from_layout = from->layout;
  gboolean overlap = share_bytes (to, from, extent);

  from_layout.x += shift;
  test_assert_ok (gpu_buffer_write_bytes (to_buffer, stream, 0, before, NULL, &error), error);

  if (gpu_stream_copy_region (stream, GPU_MEMORY (to_buffer), &to->layout,
                              GPU_MEMORY (from_buffer), &from_layout, extent, &error))
    {
      if (overlap)
        report ("taken although they overlap", to, from, extent);

      test_synchronize (stream);
      check_content (to_buffer, before, to, from, extent);
      return FALSE;
    }

  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_stream_copy_region", "overlap");

  if (!overlap)
    report ("refused although they do not overlap", to, from, extent);

  return TRUE;
}

static void
run_copies (TestFixture *fixture,
            GpuBuffer   *to_buffer,
            GpuBuffer   *from_buffer,
            gsize        shift)
{
  guint n_refused = 0;

  for (guint done = 0; done < N_COPIES;)
    {
      const GpuExtent extent = { 1 + random_below (9), 1 + random_below (4),
                                 1 + random_below (3) };
      const Side from = choose_side (&extent, NULL);
      const Side to = choose_side (&extent, &from);

      if (get_end (&to, &extent) > SIZE || get_end (&from, &extent) > SIZE)
        continue;

      n_refused += copy_within (fixture->stream, to_buffer, from_buffer, shift, &to, &from,
                                &extent);
      done++;
    }

  g_assert_cmpuint (n_refused, >, N_COPIES / 20);
  g_assert_cmpuint (n_refused, <, N_COPIES);
}

static void
overlap_buffer (TestFixture *fixture)
{
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);

  run_copies (fixture, buffer, buffer, 0);
}

/* Copies between a buffer and a slice of this buffer. */
static void
overlap_slice (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, ORIGIN + SIZE);
  g_autoptr (GpuBuffer) slice = gpu_buffer_slice (buffer, ORIGIN, SIZE, &error);

  g_assert_no_error (error);
  run_copies (fixture, slice, buffer, ORIGIN);
}

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);
  test_add ("buffer", overlap_buffer);
  test_add ("slice", overlap_slice);

  return test_run ();
}
