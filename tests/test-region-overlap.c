/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copies within one memory, and copies between memory and host bytes that are the same memory.
 *
 * Random copies of regions within one memory: the library must reject a copy if and only if the
 * regions share a byte, and are not the same bytes. The test compares the regions byte by byte. An
 * accepted copy changes no byte outside of its destination. --seed repeats a run. */
#include "config.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "test-svm-util.h"

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

static gboolean
is_same (const Side      *to,
         const Side      *from,
         const GpuExtent *extent)
{
  return to->offset == from->offset
         && (extent->height == 1 || to->layout.row_pitch == from->layout.row_pitch)
         && (extent->depth == 1 || to->layout.slice_pitch == from->layout.slice_pitch);
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
  gboolean overlap = share_bytes (to, from, extent) && !is_same (to, from, extent);

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

/* --- host bytes that are the memory itself ---------------------------------------------------- */

static void
fill_pattern (guint8 *data,
              gsize   size)
{
  for (gsize i = 0; i < size; i++)
    data[i] = (guint8) (i * 31 + i / 251);
}

static void
assert_overlap (gboolean  success,
                GError  **error)
{
  g_assert_false (success);
  test_assert_gpu_error (*error, GPU_ERROR_INVALID_ARGUMENT, "of the same memory overlap");
  g_clear_error (error);
}

/* @data: the bytes of @memory from @offset */
static void
copy_itself (GpuStream *stream,
             GpuMemory *memory,
             guint8    *data,
             gsize      offset,
             gsize      size)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) same = g_bytes_new_static (data, size);
  g_autoptr (GBytes) before = g_bytes_new_static (data - 1, size);
  g_autoptr (GBytes) after = g_bytes_new_static (data + 1, size);

  test_assert_ok (gpu_stream_write (stream, memory, offset, same, &error), error);
  test_assert_ok (gpu_stream_read_into (stream, memory, offset, same, &error), error);
  test_assert_ok (gpu_stream_read (stream, memory, offset, data, size, &error), error);
  assert_overlap (gpu_stream_write (stream, memory, offset, before, &error), &error);
  assert_overlap (gpu_stream_write (stream, memory, offset, after, &error), &error);
  assert_overlap (gpu_stream_read_into (stream, memory, offset, before, &error), &error);
  assert_overlap (gpu_stream_read_into (stream, memory, offset, after, &error), &error);
  test_synchronize (stream);

  if (!GPU_IS_BUFFER (memory))
    return;

  test_assert_ok (gpu_buffer_write_bytes (GPU_BUFFER (memory), stream, offset, same, NULL, &error),
                  error);
  test_assert_ok (gpu_buffer_read (GPU_BUFFER (memory), stream, offset, data, size, NULL, &error),
                  error);
  assert_overlap (gpu_buffer_read (GPU_BUFFER (memory), stream, offset, data + 1, size, NULL,
                                   &error), &error);
}

/* @data: the bytes of @memory, at least 400 */
static void
copy_itself_region (GpuStream *stream,
                    GpuMemory *memory,
                    guint8    *data)
{
  const GpuExtent extent = { 4, 3, 2 };
  const GpuLayout layout = { 20, 0, 0, 10, 50 };
  const GpuLayout between = { 25, 0, 0, 10, 50 };
  const GpuLayout shifted = { 21, 0, 0, 10, 50 };
  const GpuLayout other_pitch = { 20, 0, 0, 9, 50 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = g_bytes_new_static (data, 400);
  g_autofree guint8 *expected = g_memdup2 (data, 400);

  test_assert_ok (gpu_stream_write_region (stream, memory, &layout, bytes, &layout, &extent,
                                           &error), error);
  test_assert_ok (gpu_stream_read_region_into (stream, memory, &layout, bytes, &layout, &extent,
                                               &error), error);
  assert_overlap (gpu_stream_write_region (stream, memory, &layout, bytes, &shifted, &extent,
                                           &error), &error);
  assert_overlap (gpu_stream_read_region_into (stream, memory, &layout, bytes, &shifted, &extent,
                                               &error), &error);
  assert_overlap (gpu_stream_write_region (stream, memory, &layout, bytes, &other_pitch, &extent,
                                           &error), &error);
  test_synchronize (stream);
  test_assert_mem (data, expected, 400);

  test_assert_ok (gpu_stream_write_region (stream, memory, &layout, bytes, &between, &extent,
                                           &error), error);
  test_synchronize (stream);
}

/* The elements of an array of 3 x 2 x 2 x 2 bytes, whose copies consist of several regions */
typedef struct
{
  gsize  offset;
  gssize strides[4];
} Elements;

static const gssize array_shape[] = { 3, 2, 2, 2 };

static gsize
get_place (const Elements *elements,
           gssize          i)
{
  const gssize *strides = elements->strides;

  return elements->offset + i / 8 * strides[0] + i / 4 % 2 * strides[1] + i / 2 % 2 * strides[2]
         + i % 2 * strides[3];
}

static gboolean
transfer_array (GpuStream       *stream,
                GpuMemory       *memory,
                guint8          *data,
                gboolean         write,
                const Elements  *to,
                const Elements  *from,
                GError         **error)
{
  const Elements *device = write ? to : from;
  const Elements *host = write ? from : to;
  g_autoptr (GBytes) bytes = g_bytes_new_static (data, 400);
  g_autoptr (GpuArray) array = gpu_array_new_for_memory (memory, device->offset, GPU_DTYPE_UINT8,
                                                         array_shape, 4, device->strides, 4, error);

  g_assert_no_error (*error);

  return (write ? gpu_stream_write_array : gpu_stream_read_array) (stream, array, bytes,
                                                                   host->offset, host->strides, 4,
                                                                   error);
}

/* A refused transfer changes nothing. */
static void
check_array (GpuStream      *stream,
             GpuMemory      *memory,
             guint8         *data,
             gboolean        write,
             const Elements *to,
             const Elements *from,
             gboolean        refused)
{
  g_autoptr (GError) error = NULL;
  g_autofree guint8 *expected = g_memdup2 (data, 400);
  gboolean success = transfer_array (stream, memory, data, write, to, from, &error);

  test_synchronize (stream);

  if (refused)
    {
      assert_overlap (success, &error);
    }
  else
    {
      test_assert_ok (success, error);

      for (gssize i = 0; i < 24; i++)
        expected[get_place (to, i)] = expected[get_place (from, i)];
    }

  test_assert_mem (data, expected, 400);
}

/* @data: the bytes of @memory, at least 400 */
static void
copy_itself_array (GpuStream *stream,
                   GpuMemory *memory,
                   guint8    *data)
{
  const Elements first = { 20, { 40, 11, 5, 2 } };
  const Elements next = { 60, { 40, 11, 5, 2 } };
  const Elements reversed = { 100, { -40, 11, 5, 2 } };
  const Elements between = { 101, { -40, 11, 5, 2 } };
  const Elements meets_second = { 102, { -40, 11, 5, 2 } };
  const Elements other_order = { 20, { 40, 5, 11, 2 } };
  const Elements apart[] = { { 200, { 40, 11, 5, 2 } }, { 310, { -40, 5, 11, 2 } } };

  for (guint i = 0; i < 2; i++)
    {
      const gboolean write = i == 1;

      check_array (stream, memory, data, write, &first, &first, FALSE);
      check_array (stream, memory, data, write, &reversed, &reversed, FALSE);
      check_array (stream, memory, data, write, &next, &first, TRUE);
      check_array (stream, memory, data, write, &first, &next, TRUE);
      check_array (stream, memory, data, write, &first, &reversed, TRUE);
      check_array (stream, memory, data, write, &first, &between, FALSE);
      check_array (stream, memory, data, write, &between, &first, FALSE);
      check_array (stream, memory, data, write, &first, &meets_second, TRUE);
      check_array (stream, memory, data, write, &first, &other_order, TRUE);
      check_array (stream, memory, data, write, &apart[i], &first, FALSE);
    }
}

/* Limits the address space to the present size of the process and @room bytes. */
static void
limit_memory (struct rlimit *limit,
              gsize          room)
{
  g_autofree char *used = NULL;
  g_autoptr (GError) error = NULL;
  struct rlimit small;

  test_assert_ok (g_file_get_contents ("/proc/self/statm", &used, NULL, &error), error);
  g_assert_cmpint (getrlimit (RLIMIT_AS, limit), ==, 0);
  small = *limit;
  small.rlim_cur = g_ascii_strtoull (used, NULL, 10) * (guint64) getpagesize () + room;
  g_assert_cmpint (setrlimit (RLIMIT_AS, &small), ==, 0);
}

/* Elements that are far from each other: the check needs much less memory than lies between the
 * first and the last element. */
static void
copy_far_array (TestFixture *fixture)
{
  const gsize far = (gsize) 1 << 30;
  const gssize shape[] = { 2, 2, 2, 2 };
  const gssize strides[] = { (gssize) far, 1000, 400, 16 };
  struct rlimit limit;
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuArray) array = NULL;
  g_autoptr (GError) error = NULL;
  gboolean success, refused;
  guint8 *data;

  if (gpu_device_get_device_type (fixture->device) != GPU_DEVICE_TYPE_HOST)
    return;

  data = mmap (NULL, 2 * far, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
               -1, 0);
  g_assert_true (data != MAP_FAILED);
  bytes = g_bytes_new_static (data, 2 * far);
  buffer = gpu_buffer_new_for_host_bytes (fixture->context, GPU_MEMORY_FLAGS_NONE, bytes, &error);
  g_assert_no_error (error);
  array = gpu_array_new_for_memory (GPU_MEMORY (buffer), 0, GPU_DTYPE_UINT64, shape, 4, strides, 4,
                                    &error);
  g_assert_no_error (error);
  data[far + 1416] = 7;

  /* One bit per element takes 16 MiB, and one per byte 128 MiB. Another thread may take 64 MiB for
   * its heap. */
  limit_memory (&limit, 112 << 20);
  success = gpu_stream_read_array (fixture->stream, array, bytes, 8, strides, 4, &error);
  refused = !gpu_stream_write_array (fixture->stream, array, bytes, 16, strides, 4, NULL);
  g_assert_cmpint (setrlimit (RLIMIT_AS, &limit), ==, 0);

  test_assert_ok (success, error);
  g_assert_true (refused);
  test_synchronize (fixture->stream);
  g_assert_cmpuint (data[far + 1424], ==, 7);
  g_clear_object (&array);
  g_clear_object (&buffer);
  munmap (data, 2 * far);
}

static void
copy_memory (GpuStream *stream,
             GpuMemory *memory,
             guint8    *data)
{
  const gsize size = gpu_memory_get_size (memory);
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) content = NULL;
  g_autofree guint8 *expected = NULL;

  fill_pattern (data, size);
  expected = g_memdup2 (data, size);
  copy_itself (stream, memory, data, 0, size);
  copy_itself (stream, memory, data + 100, 100, 50);
  copy_itself (stream, memory, data + 100, 100, size - 200);
  content = gpu_stream_read_bytes (stream, memory, 0, size, &error);
  g_assert_no_error (error);
  test_synchronize (stream);
  test_assert_mem (g_bytes_get_data (content, NULL), expected, size);
  copy_itself_region (stream, memory, data);
  copy_itself_array (stream, memory, data);
}

/* Copies between @size bytes of @memory from @offset and other bytes of the same host memory.
 * @first: the first bytes of the whole host memory */
static void
copy_first_bytes (GpuStream *stream,
                  GpuMemory *memory,
                  guint8    *first,
                  gsize      offset,
                  gsize      size)
{
  const GpuExtent row = { size, 1, 1 };
  const GpuLayout layout = { offset, 0, 0, 0, 0 };
  const GpuLayout start = { 0, 0, 0, 0, 0 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = g_bytes_new_static (first, size);

  for (guint i = 0; i < 4; i++)
    {
      g_autoptr (GBytes) content = NULL;
      g_autoptr (GBytes) value = test_random_bytes (size);

      test_assert_ok (gpu_stream_write (stream, memory, offset, value, &error), error);
      test_synchronize (stream);

      if (i == 0)
        test_assert_ok (gpu_stream_read (stream, memory, offset, first, size, &error), error);
      else if (i == 1)
        test_assert_ok (gpu_stream_read_region_into (stream, memory, &layout, bytes, &start, &row,
                                                     &error), error);
      else if (i == 2)
        test_assert_ok (gpu_buffer_read (GPU_BUFFER (memory), stream, offset, first, size, NULL,
                                         &error), error);
      else
        test_assert_ok (gpu_stream_read_into (stream, memory, offset, bytes, &error), error);

      test_synchronize (stream);
      test_assert_mem (first, g_bytes_get_data (value, NULL), size);
      memset (first, 7 + (int) i, size);

      if (i == 0)
        test_assert_ok (gpu_stream_write (stream, memory, offset, bytes, &error), error);
      else if (i == 1)
        test_assert_ok (gpu_stream_write_region (stream, memory, &layout, bytes, &start, &row,
                                                 &error), error);
      else
        test_assert_ok (gpu_buffer_write_bytes (GPU_BUFFER (memory), stream, offset, bytes, NULL,
                                                &error), error);

      content = gpu_stream_read_bytes (stream, memory, offset, size, &error);
      g_assert_no_error (error);
      test_synchronize (stream);
      test_assert_mem (g_bytes_get_data (content, NULL), first, size);
    }
}

/* The host may have allocated the address of released memory again: data there do not overlap. */
static void
copy_released (GpuStream *stream,
               GpuMemory *memory,
               guint8    *data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = g_bytes_new_static (data + 1, 100);

  gpu_memory_release (memory);
  test_synchronize (stream);
  g_assert_false (gpu_stream_write (stream, memory, 0, bytes, &error));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED, "gpu_stream_write");
  g_assert_false (gpu_stream_read (stream, memory, 0, data + 1, 100, &error));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED, "gpu_stream_read");
}

static void
host_buffer (TestFixture *fixture)
{
  const gsize size = 5 << 20;       /* large enough to be staged */
  g_autoptr (GError) error = NULL;
  g_autofree guint8 *data = NULL;
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuBuffer) slice = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_HOST_POINTER))
    return;

  data = g_malloc (size);
  bytes = g_bytes_new_static (data, size);
  buffer = gpu_buffer_new_for_host_bytes (fixture->context, GPU_MEMORY_FLAGS_NONE, bytes, &error);
  g_assert_no_error (error);
  copy_memory (fixture->stream, GPU_MEMORY (buffer), data);
  copy_first_bytes (fixture->stream, GPU_MEMORY (buffer), data, ORIGIN, 200);
  slice = gpu_buffer_slice (buffer, ORIGIN, 1000, &error);
  g_assert_no_error (error);
  copy_itself (fixture->stream, GPU_MEMORY (slice), data + ORIGIN + 5, 5, 100);
  copy_itself_array (fixture->stream, GPU_MEMORY (slice), data + ORIGIN);
  copy_first_bytes (fixture->stream, GPU_MEMORY (slice), data, 10, 200);
  copy_first_bytes (fixture->stream, GPU_MEMORY (slice), data + ORIGIN, 300, 200);
  gpu_memory_release (GPU_MEMORY (slice));
  copy_released (fixture->stream, GPU_MEMORY (buffer), data);
}

/* Copies between a mapping of the first bytes and other bytes of the same memory. */
static void
mapped_buffer (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, ORIGIN + 1000);
  g_autoptr (GpuBuffer) slice = gpu_buffer_slice (buffer, ORIGIN, 1000, &error);
  g_autoptr (GpuMapping) mapping = NULL;

  g_assert_no_error (error);
  mapping = gpu_buffer_map (buffer, NULL, GPU_MAP_FLAGS_NONE, 0, 200, NULL, &error);
  g_assert_no_error (error);
  copy_first_bytes (fixture->stream, GPU_MEMORY (buffer), gpu_mapping_get_data (mapping), 300, 200);
  copy_first_bytes (fixture->stream, GPU_MEMORY (slice), gpu_mapping_get_data (mapping), 0, 200);
  test_assert_ok (gpu_mapping_unmap (mapping, &error), error);
}

static void
host_memory (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  guint8 data[4096] = { 0 };
  g_autoptr (GBytes) bytes = g_bytes_new_static (data, sizeof data);
  g_autoptr (GpuHostMemory) locked = gpu_host_memory_new (fixture->context,
                                                          GPU_HOST_MEMORY_FLAGS_NONE, 4096, &error);
  g_autoptr (GpuHostMemory) registered = NULL;

  g_assert_no_error (error);
  copy_memory (fixture->stream, GPU_MEMORY (locked), gpu_host_memory_get_data (locked));
  registered = gpu_host_memory_new_registered (fixture->context, GPU_HOST_MEMORY_FLAGS_NONE, bytes,
                                               &error);
  g_assert_no_error (error);
  copy_memory (fixture->stream, GPU_MEMORY (registered), data);
  gpu_memory_release (GPU_MEMORY (registered));
  test_synchronize (fixture->stream);
}

static void
host_svm (TestFixture *fixture)
{
  g_autoptr (GpuSvm) svm = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_SVM_FINE))
    return;

  svm = test_svm (fixture, GPU_SVM_FLAGS_FINE_GRAIN, 4096);
  copy_memory (fixture->stream, GPU_MEMORY (svm), gpu_svm_get_data (svm));
}

/* --- two memory objects over the same host bytes ---------------------------------------------- */

/* Copies between @a, whose bytes are @data, and @b, whose bytes are those from @data + @shift. Both
 * have at least 1000 bytes. */
static void
copy_twins (GpuStream *stream,
            GpuMemory *a,
            GpuMemory *b,
            guint8    *data,
            gsize      shift)
{
  g_autoptr (GError) error = NULL;
  guint8 expected[1000];

  fill_pattern (data, 1000);
  memcpy (expected, data, 1000);
  test_assert_ok (gpu_stream_copy (stream, b, 0, a, shift, 300, &error), error);
  test_assert_ok (gpu_stream_copy (stream, a, shift, b, 0, 300, &error), error);
  assert_overlap (gpu_stream_copy (stream, b, 1, a, shift, 300, &error), &error);
  assert_overlap (gpu_stream_copy (stream, b, 0, a, shift + 1, 300, &error), &error);
  assert_overlap (gpu_stream_copy (stream, a, shift, b, 299, 300, &error), &error);
  test_synchronize (stream);
  test_assert_mem (data, expected, 1000);

  test_assert_ok (gpu_stream_copy (stream, b, 300, a, shift, 300, &error), error);
  test_synchronize (stream);
  memcpy (expected + shift + 300, expected + shift, 300);
  test_assert_mem (data, expected, 1000);
}

/* The copies of a batch run in any order, so none may write what another one reads. */
static void
copy_twins_in_batch (GpuStream *stream,
                     GpuMemory *a,
                     GpuMemory *b,
                     guint8    *data,
                     gsize      shift)
{
  GpuMemory *memories[] = { a, b };
  const guint64 itself[] = { 1, 1, 0, shift, 300 };
  const guint64 clash[] = { 1, 300, 0, shift, 100, 0, shift + 600, 1, 350, 100 };
  const guint64 apart[] = { 1, 300, 0, shift, 100, 0, shift + 600, 1, 450, 100 };
  g_autoptr (GError) error = NULL;
  guint8 expected[1000];

  fill_pattern (data, 1000);
  memcpy (expected, data, 1000);
  g_assert_false (gpu_stream_copy_batch (stream, memories, 2, itself, G_N_ELEMENTS (itself),
                                         &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "of the same memory");
  g_clear_error (&error);
  g_assert_false (gpu_stream_copy_batch (stream, memories, 2, clash, G_N_ELEMENTS (clash), &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "of the same memory");
  g_clear_error (&error);
  test_synchronize (stream);
  test_assert_mem (data, expected, 1000);

  test_assert_ok (gpu_stream_copy_batch (stream, memories, 2, apart, G_N_ELEMENTS (apart), &error),
                  error);
  test_synchronize (stream);
  memcpy (expected + shift + 300, expected + shift, 100);
  memcpy (expected + shift + 600, expected + shift + 450, 100);
  test_assert_mem (data, expected, 1000);
}

static void
copy_twin_regions (GpuStream *stream,
                   GpuMemory *a,
                   GpuMemory *b,
                   guint8    *data,
                   gsize      shift)
{
  const GpuExtent extent = { 4, 3, 2 };
  const GpuLayout to = { 20, 0, 0, 10, 50 };
  const GpuLayout same = { 20 + shift, 0, 0, 10, 50 };
  const GpuLayout between = { 25 + shift, 0, 0, 10, 50 };
  const GpuLayout shifted = { 21 + shift, 0, 0, 10, 50 };
  const GpuLayout other_pitch = { 20 + shift, 0, 0, 9, 50 };
  g_autoptr (GError) error = NULL;
  guint8 expected[1000];

  fill_pattern (data, 1000);
  memcpy (expected, data, 1000);
  test_assert_ok (gpu_stream_copy_region (stream, b, &to, a, &same, &extent, &error), error);
  assert_overlap (gpu_stream_copy_region (stream, b, &to, a, &shifted, &extent, &error), &error);
  assert_overlap (gpu_stream_copy_region (stream, b, &to, a, &other_pitch, &extent, &error),
                  &error);
  test_synchronize (stream);
  test_assert_mem (data, expected, 1000);

  test_assert_ok (gpu_stream_copy_region (stream, b, &to, a, &between, &extent, &error), error);
  test_synchronize (stream);

  for (gsize z = 0; z < 2; z++)
    for (gsize y = 0; y < 3; y++)
      memcpy (expected + shift + 20 + z * 50 + y * 10, expected + shift + 25 + z * 50 + y * 10, 4);

  test_assert_mem (data, expected, 1000);
}

/* Copies of arrays may overlap. */
static void
copy_twin_arrays (GpuStream *stream,
                  GpuMemory *a,
                  GpuMemory *b,
                  guint8    *data,
                  gsize      shift)
{
  const gssize shape[] = { 20, 10 };
  const gssize strides[] = { 12, 1 };
  g_autoptr (GError) error = NULL;
  guint8 expected[1000];

  for (gsize offset = 0; offset < 30; offset += 3)
    {
      g_autoptr (GpuArray) to = gpu_array_new_for_memory (b, 15, GPU_DTYPE_UINT8, shape, 2, strides,
                                                          2, &error);
      g_autoptr (GpuArray) from = gpu_array_new_for_memory (a, shift + offset, GPU_DTYPE_UINT8,
                                                            shape, 2, strides, 2, &error);

      g_assert_no_error (error);
      fill_pattern (data, 1000);
      memcpy (expected, data, 1000);

      for (gsize i = 0; i < 20; i++)
        memcpy (expected + shift + 15 + i * 12, data + shift + offset + i * 12, 10);

      test_assert_ok (gpu_stream_copy_array (stream, to, from, &error), error);
      test_synchronize (stream);
      test_assert_mem (data, expected, 1000);
    }
}

static void
copy_all_twins (GpuStream *stream,
                GpuMemory *a,
                GpuMemory *b,
                guint8    *data,
                gsize      shift)
{
  copy_twins (stream, a, b, data, shift);
  copy_twins_in_batch (stream, a, b, data, shift);
  copy_twin_regions (stream, a, b, data, shift);
  copy_twin_arrays (stream, a, b, data, shift);
}

static void
host_twins (TestFixture *fixture)
{
  const gsize size = 8192;
  g_autoptr (GError) error = NULL;
  g_autofree guint8 *data = NULL;
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (GBytes) part = NULL;
  g_autoptr (GpuBuffer) a = NULL;
  g_autoptr (GpuBuffer) b = NULL;
  g_autoptr (GpuHostMemory) host = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_HOST_POINTER))
    return;

  data = g_malloc (size);
  bytes = g_bytes_new_static (data, size);
  part = g_bytes_new_static (data + 128, 4096);
  a = gpu_buffer_new_for_host_bytes (fixture->context, GPU_MEMORY_FLAGS_NONE, bytes, &error);
  g_assert_no_error (error);
  b = gpu_buffer_new_for_host_bytes (fixture->context, GPU_MEMORY_FLAGS_NONE, part, &error);
  g_assert_no_error (error);
  copy_all_twins (fixture->stream, GPU_MEMORY (a), GPU_MEMORY (b), data, 128);
  host = gpu_host_memory_new_registered (fixture->context, GPU_HOST_MEMORY_FLAGS_NONE, part,
                                         &error);
  g_assert_no_error (error);
  copy_all_twins (fixture->stream, GPU_MEMORY (a), GPU_MEMORY (host), data, 128);
  copy_all_twins (fixture->stream, GPU_MEMORY (host), GPU_MEMORY (b), data + 128, 0);
}

/* Memory of two contexts. In OpenCL and between back ends, commands in two streams copy it. */
static void
host_twins_apart (TestFixture *fixture)
{
  const gsize size = 8192;
  g_autoptr (GError) error = NULL;
  g_autofree guint8 *data = NULL;
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (GpuContext) other = NULL;
  g_autoptr (GpuBuffer) a = NULL;
  g_autoptr (GpuBuffer) b = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_HOST_POINTER))
    return;

  other = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  data = g_malloc (size);
  bytes = g_bytes_new_static (data, size);
  a = gpu_buffer_new_for_host_bytes (fixture->context, GPU_MEMORY_FLAGS_NONE, bytes, &error);
  g_assert_no_error (error);
  b = gpu_buffer_new_for_host_bytes (other, GPU_MEMORY_FLAGS_NONE, bytes, &error);
  g_assert_no_error (error);
  copy_twins (fixture->stream, GPU_MEMORY (a), GPU_MEMORY (b), data, 0);
  copy_twin_arrays (fixture->stream, GPU_MEMORY (a), GPU_MEMORY (b), data, 0);
}

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);
  test_add ("buffer", overlap_buffer);
  test_add ("slice", overlap_slice);
  test_add ("host-buffer", host_buffer);
  test_add ("mapped-buffer", mapped_buffer);
  test_add ("host-memory", host_memory);
  test_add ("host-svm", host_svm);
  test_add ("host-twins", host_twins);
  test_add ("host-twins-apart", host_twins_apart);
  test_add ("far-array", copy_far_array);

  return test_run ();
}
