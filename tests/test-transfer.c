/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copies of pageable memory through page-locked memory (staging). GPUMEM_DEBUG=stage enables
 * staging on every device for all but small copies. The tests check the copied bytes for each kind
 * of copy and with concurrent copies. They also check that the library releases the caller's memory
 * exactly when the API promises it. */
#include "config.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test-util.h"

#define MIB (1024 * 1024)
#define N_THREADS 8

static guint
rounds (guint quick,
        guint slow)
{
  return g_test_slow () ? slow : quick;
}

static void
scramble (guint8 *data,
          gsize   size,
          guint32 seed)
{
  guint32 state = seed * 2654435761u | 1;

  for (gsize i = 0; i < size; i++)
    {
      state ^= state << 13;
      state ^= state >> 17;
      state ^= state << 5;
      data[i] = (guint8) state;
    }
}

/* --- whole copies ----------------------------------------------------------------------------- */

static void
write_and_read (TestFixture *fixture,
                GpuBuffer   *buffer,
                gsize        offset,
                gsize        size)
{
  g_autoptr (GError) error = NULL;
  g_autofree guint8 *in = g_malloc (size);
  g_autofree guint8 *expected = g_malloc (size);
  g_autofree guint8 *out = g_malloc0 (size + 1);

  scramble (in, size, (guint32) size);
  memcpy (expected, in, size);
  test_assert_ok (gpu_buffer_write (buffer, fixture->stream, offset, in, size, NULL, &error),
                  error);
  /* After the return of the call, the caller may change the memory. */
  memset (in, 0xee, size);
  out[size] = 0x77;
  test_assert_ok (gpu_buffer_read (buffer, fixture->stream, offset, out, size, NULL, &error),
                  error);
  g_assert_cmpmem (out, size, expected, size);
  g_assert_cmpuint (out[size], ==, 0x77);
}

static void
transfer_sizes (TestFixture *fixture)
{
  static const gsize sizes[] = { 16385, 65535, 65536, 65537, 100000, 524288, 524289, MIB - 1,
                                 3 * MIB + 17, 9 * MIB };
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, 9 * MIB + 64);

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    for (gsize offset = 0; offset < 64; offset += 21)
      write_and_read (fixture, buffer, offset, sizes[i]);

  g_assert_cmpuint (gpu_context_get_staging_size (fixture->context), >, 0);
  g_assert_cmpuint (gpu_context_get_staging_size (fixture->context), <=,
                    gpu_context_get_staging_limit (fixture->context));
}

/* Alternating reads and writes on two streams: each operation sees the result of the previous
 * one. */
static void
transfer_async (TestFixture *fixture)
{
  const gsize size = 700001;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, size);
  g_autoptr (GpuStream) other = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  GBytes *read[24];
  GBytes *written[24];

  for (guint i = 0; i < G_N_ELEMENTS (read); i++)
    {
      written[i] = test_random_bytes (size);
      test_assert_ok (gpu_stream_write (i % 3 == 0 ? other : fixture->stream,
                                        GPU_MEMORY (buffer), 0, written[i], &error), error);
      read[i] = gpu_stream_read_bytes (i % 2 == 0 ? other : fixture->stream, GPU_MEMORY (buffer),
                                       0, size, &error);
      g_assert_no_error (error);
    }

  test_synchronize (other);
  test_synchronize (fixture->stream);

  for (guint i = 0; i < G_N_ELEMENTS (read); i++)
    {
      g_assert_true (g_bytes_equal (read[i], written[i]));
      g_bytes_unref (read[i]);
      g_bytes_unref (written[i]);
    }
}

/* Staged copies from and to SVM, which may be handed over between host and streams. */
static void
transfer_svm (TestFixture *fixture)
{
  const gsize size = 3 * MIB + 17;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuSvm) svm = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuStream) other = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GBytes) written = test_random_bytes (size);
  g_autoptr (GBytes) read = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_SVM_COARSE))
    return;
  svm = gpu_svm_new (fixture->context, GPU_MEMORY_FLAGS_NONE, GPU_SVM_FLAGS_NONE, size, 0, &error);
  g_assert_no_error (error);
  buffer = gpu_buffer_new_for_memory (GPU_MEMORY (svm), 0, size, &error);
  g_assert_no_error (error);
  write_and_read (fixture, buffer, 13, size - 13);
  test_assert_ok (gpu_stream_write (other, GPU_MEMORY (svm), 0, written, &error), error);
  read = gpu_stream_read_bytes (fixture->stream, GPU_MEMORY (svm), 0, size, &error);
  g_assert_no_error (error);
  test_synchronize (fixture->stream);
  g_assert_true (g_bytes_equal (read, written));
}

/* A copy that depends on a stream blocked by a user event waits for that stream, and is not
 * staged. */
static void
transfer_user_event (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) other = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GBytes) first = test_random_bytes (MIB);
  g_autoptr (GBytes) second = test_random_bytes (MIB);
  g_autoptr (GBytes) read = NULL;
  g_autoptr (GpuEvent) gate = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;

  other = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  buffer = test_buffer (fixture, MIB);
  gate = test_gate (fixture, other);
  test_assert_ok (gpu_stream_write (other, GPU_MEMORY (buffer), 0, first, &error), error);
  read = gpu_stream_read_bytes (fixture->stream, GPU_MEMORY (buffer), 0, MIB, &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_stream_write (fixture->stream, GPU_MEMORY (buffer), 0, second, &error),
                  error);
  test_open (gate);
  test_synchronize (fixture->stream);
  g_assert_true (g_bytes_equal (read, first));
  test_assert_content (buffer, second);
}

static gpointer
open_later (gpointer data)
{
  g_usleep (20 * 1000);
  test_open (data);

  return NULL;
}

/* While a blocking write waits for a user event, it holds no lock that the completion needs. */
static void
transfer_blocking_user_event (TestFixture *fixture)
{
  const gsize size = 150000;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (size);
  g_autofree guint8 *data = g_memdup2 (g_bytes_get_data (bytes, NULL), size);
  g_autoptr (GpuEvent) gate = NULL;
  GThread *thread;

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;

  buffer = test_buffer (fixture, size);
  gate = test_gate (fixture, fixture->stream);
  thread = g_thread_new ("open", open_later, gate);
  test_assert_ok (gpu_buffer_write (buffer, fixture->stream, 0, data, size, NULL, &error), error);
  memset (data, 0x11, size);
  g_thread_join (thread);
  test_assert_content (buffer, bytes);
}

/* --- release of the caller's memory ----------------------------------------------------------- */

typedef struct
{
  guint8 *data;
  gsize   size;
  gint   *n_freed;
} Source;

/* Overwrites the source before it frees it, so that a copy that still reads the source gets wrong
 * data. */
static void
source_free (gpointer data)
{
  Source *source = data;

  memset (source->data, 0xdd, source->size);
  g_free (source->data);
  g_atomic_int_inc (source->n_freed);
  g_free (source);
}

static GBytes *
source_new (gsize    size,
            guint32  seed,
            gint    *n_freed)
{
  Source *source = g_new (Source, 1);

  *source = (Source) { g_malloc (size), size, n_freed };
  scramble (source->data, size, seed);

  return g_bytes_new_with_free_func (source->data, size, source_free, source);
}

/* Compares with the content of a source of @seed */
static void
check_content (const guint8 *data,
               gsize         size,
               guint32       seed)
{
  g_autofree guint8 *expected = g_malloc (size);

  scramble (expected, size, seed);
  g_assert_cmpmem (data, size, expected, size);
}

static void
transfer_reuse (TestFixture *fixture)
{
  const gsize size = 150000;
  guint n_rounds = rounds (300, 10000);
  g_autoptr (GError) error = NULL;
  g_autofree guint8 *data = g_malloc (size);
  g_autofree guint8 *content = g_malloc (size);
  g_autoptr (GpuBuffer) first = test_buffer (fixture, size);
  g_autoptr (GpuBuffer) second = test_buffer (fixture, size);
  gint n_freed = 0;

  for (guint i = 0; i < n_rounds; i++)
    {
      GBytes *bytes = source_new (size, i, &n_freed);

      test_assert_ok (gpu_stream_write (fixture->stream, GPU_MEMORY (first), 0, bytes, &error),
                      error);
      g_bytes_unref (bytes);

      scramble (data, size, ~i);
      test_assert_ok (gpu_buffer_write (second, fixture->stream, 0, data, size, NULL, &error),
                      error);
      memset (data, 0x11, size);

      test_assert_ok (gpu_buffer_read (first, fixture->stream, 0, content, size, NULL, &error),
                      error);
      check_content (content, size, i);
      test_assert_ok (gpu_buffer_read (second, fixture->stream, 0, content, size, NULL, &error),
                      error);
      check_content (content, size, ~i);
    }

  test_synchronize (fixture->stream);
  g_clear_object (&first);
  for (guint i = 0; i < TEST_DEADLINE * 100 && g_atomic_int_get (&n_freed) < (gint) n_rounds; i++)
    g_usleep (10000);
  g_assert_cmpint (g_atomic_int_get (&n_freed), ==, (gint) n_rounds);
}

/* All references are dropped while the copies run. */
static void
transfer_dropped_in_flight (TestFixture *fixture)
{
  for (guint i = 0; i < rounds (20, 200); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      g_autoptr (GpuBuffer) buffer = test_buffer (fixture, 2 * MIB);
      g_autoptr (GBytes) bytes = test_random_bytes (2 * MIB);
      g_autoptr (GBytes) read = NULL;

      test_assert_ok (gpu_stream_write (stream, GPU_MEMORY (buffer), 0, bytes, &error), error);
      read = gpu_stream_read_bytes (stream, GPU_MEMORY (buffer), 0, 2 * MIB, &error);
      g_assert_no_error (error);
    }
}

/* --- against a model, from many threads ------------------------------------------------------- */

typedef struct
{
  TestFixture *fixture;
  guint        number;
  guint        n_rounds;
} Worker;

typedef struct
{
  GRand     *rand;
  GpuStream *stream;
  GpuBuffer *buffer;
  guint8    *model;
  gsize      size;
} Random;

static gsize
random_size (Random *r,
             gsize   max)
{
  double order = g_rand_double_range (r->rand, 0, 1);

  return MAX (1, (gsize) (max * order * order * order));
}

static void
random_linear (Random   *r,
               gboolean  write,
               gboolean  blocking)
{
  g_autoptr (GError) error = NULL;
  gsize size = random_size (r, r->size);
  gsize offset = (gsize) g_rand_double_range (r->rand, 0, (double) (r->size - size + 1));
  g_autofree guint8 *data = g_malloc (size);
  g_autoptr (GBytes) bytes = NULL;

  if (write)
    {
      scramble (data, size, g_rand_int (r->rand));
      memcpy (r->model + offset, data, size);
    }

  if (blocking)
    {
      test_assert_ok (write ? gpu_buffer_write (r->buffer, r->stream, offset, data, size, NULL,
                                                &error)
                            : gpu_buffer_read (r->buffer, r->stream, offset, data, size, NULL,
                                               &error), error);
    }
  else if (write)
    {
      bytes = g_bytes_new_take (g_steal_pointer (&data), size);
      test_assert_ok (gpu_stream_write (r->stream, GPU_MEMORY (r->buffer), offset, bytes, &error),
                      error);
      return;
    }
  else
    {
      test_assert_ok (gpu_stream_read (r->stream, GPU_MEMORY (r->buffer), offset, data, size,
                                       &error), error);
      test_synchronize (r->stream);
    }

  g_assert_cmpmem (data, size, r->model + offset, size);
}

static void
copy_rows (const GpuLayout *to_layout,
           guint8          *to,
           const GpuLayout *from_layout,
           const guint8    *from,
           const GpuExtent *extent)
{
  for (gsize z = 0; z < extent->depth; z++)
    for (gsize y = 0; y < extent->height; y++)
      memcpy (to + to_layout->x + y * to_layout->row_pitch + z * to_layout->slice_pitch,
              from + from_layout->x + y * from_layout->row_pitch
              + z * from_layout->slice_pitch, extent->width);
}

static void
random_region (Random   *r,
               gboolean  write)
{
  g_autoptr (GError) error = NULL;
  GpuExtent extent = { random_size (r, 4000), (gsize) g_rand_int_range (r->rand, 1, 40),
                       (gsize) g_rand_int_range (r->rand, 1, 6) };
  GpuLayout device = { 0, };
  GpuLayout host = { 0, };
  g_autoptr (GBytes) bytes = NULL;
  guint8 *data;
  gsize size;

  device.x = (gsize) g_rand_int_range (r->rand, 0, 1000);
  device.row_pitch = extent.width + (gsize) g_rand_int_range (r->rand, 0, 3) * 32;
  device.slice_pitch = device.row_pitch
                       * (extent.height + (gsize) g_rand_int_range (r->rand, 0, 2));
  host.x = (gsize) g_rand_int_range (r->rand, 0, 100);
  host.row_pitch = extent.width + (gsize) g_rand_int_range (r->rand, 0, 3) * 7;
  host.slice_pitch = host.row_pitch * extent.height;
  size = host.x + host.slice_pitch * extent.depth;

  if (device.x + device.slice_pitch * extent.depth > r->size)
    return;

  data = g_malloc (size);
  scramble (data, size, g_rand_int (r->rand));
  bytes = g_bytes_new_take (data, size);

  if (write)
    {
      copy_rows (&device, r->model, &host, data, &extent);
      test_assert_ok (gpu_stream_write_region (r->stream, GPU_MEMORY (r->buffer), &device, bytes,
                                               &host, &extent, &error), error);
      return;
    }
  else
    {
      g_autofree guint8 *expected = g_memdup2 (data, size);

      copy_rows (&host, expected, &device, r->model, &extent);
      test_assert_ok (gpu_stream_read_region_into (r->stream, GPU_MEMORY (r->buffer), &device,
                                                   bytes, &host, &extent, &error), error);
      test_synchronize (r->stream);
      g_assert_cmpmem (data, size, expected, size);
    }
}

static gpointer
work (gpointer data)
{
  Worker *worker = data;
  Random r = { .rand = g_rand_new_with_seed (worker->number + 17), .size = 600000 };

  r.stream = test_stream (worker->fixture, GPU_STREAM_FLAGS_NONE);
  r.buffer = test_buffer_filled (worker->fixture, r.size, 0);
  r.model = g_malloc0 (r.size);

  for (guint i = 0; i < worker->n_rounds; i++)
    {
      if (g_rand_int_range (r.rand, 0, 3) == 0)
        random_region (&r, g_rand_boolean (r.rand));
      else
        random_linear (&r, g_rand_boolean (r.rand), g_rand_boolean (r.rand));
    }

  g_rand_free (r.rand);
  g_free (r.model);
  g_object_unref (r.buffer);
  g_object_unref (r.stream);

  return NULL;
}

static void
transfer_random (TestFixture *fixture)
{
  Worker workers[N_THREADS];
  GThread *threads[N_THREADS];
  gsize size;

  for (guint i = 0; i < N_THREADS; i++)
    {
      workers[i] = (Worker) { fixture, i, rounds (200, 100000 / N_THREADS) };
      threads[i] = g_thread_new ("worker", work, &workers[i]);
    }

  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);

  size = gpu_context_get_staging_size (fixture->context);
  g_test_message ("%" G_GSIZE_FORMAT " bytes of page-locked memory for %u transfers", size,
                  N_THREADS * workers[0].n_rounds);
  g_assert_cmpuint (size, >, 0);
  g_assert_cmpuint (size, <=, gpu_context_get_staging_limit (fixture->context));
}

/* --- images ----------------------------------------------------------------------------------- */

static void
transfer_image (TestFixture *fixture)
{
  const GpuExtent extent = { 301, 211, 3 };
  const gsize size = 301 * 211 * 3 * 4;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuImageFormat) format = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (size);
  g_autoptr (GBytes) content = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_IMAGES))
    return;

  format = gpu_image_format_new (GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UINT8);
  image = gpu_image_new (fixture->context, GPU_MEMORY_FLAGS_NONE, format, GPU_IMAGE_TYPE_IMAGE_3D,
                         &extent, &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_stream_write_region (fixture->stream, GPU_MEMORY (image), NULL, bytes, NULL,
                                           &extent, &error), error);
  content = gpu_stream_read_region (fixture->stream, GPU_MEMORY (image), NULL, &extent, &error);
  g_assert_no_error (error);
  test_synchronize (fixture->stream);
  g_assert_true (g_bytes_equal (bytes, content));
}

/* --- bounds ----------------------------------------------------------------------------------- */

static void
transfer_limit (TestFixture *fixture)
{
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, 4 * MIB);

  g_assert_cmpuint (gpu_context_get_staging_limit (fixture->context), ==, 64 * MIB);
  g_assert_cmpuint (gpu_context_get_staging_size (fixture->context), ==, 0);

  gpu_context_set_staging_limit (fixture->context, 128 * 1024);
  for (guint i = 0; i < 10; i++)
    write_and_read (fixture, buffer, i, 3 * MIB);
  g_assert_cmpuint (gpu_context_get_staging_size (fixture->context), >, 0);
  g_assert_cmpuint (gpu_context_get_staging_size (fixture->context), <=, 128 * 1024);

  gpu_context_trim_staging (fixture->context);
  g_assert_cmpuint (gpu_context_get_staging_size (fixture->context), ==, 0);

  gpu_context_set_staging_limit (fixture->context, 0);
  write_and_read (fixture, buffer, 5, 3 * MIB);
  g_assert_cmpuint (gpu_context_get_staging_size (fixture->context), ==, 0);
}

typedef struct
{
  TestFixture *fixture;
  GpuBuffer   *buffer;
  gint         stop;
} Traffic;

static gpointer
keep_copying (gpointer data)
{
  Traffic *traffic = data;

  while (!g_atomic_int_get (&traffic->stop))
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuStream) stream = test_stream (traffic->fixture, GPU_STREAM_FLAGS_NONE);
      g_autoptr (GBytes) written = test_random_bytes (MIB);
      g_autoptr (GBytes) read = NULL;

      test_assert_ok (gpu_stream_write (stream, GPU_MEMORY (traffic->buffer), 0, written, &error),
                      error);
      read = gpu_stream_read_bytes (stream, GPU_MEMORY (traffic->buffer), 0, MIB, &error);
      g_assert_no_error (error);
      test_synchronize (stream);
      g_assert_true (g_bytes_equal (read, written));
    }

  return NULL;
}

/* Staging memory above the limit is freed even while copies run, and is allocated again after the
 * limit was raised. */
static void
transfer_limit_traffic (TestFixture *fixture)
{
  Traffic traffic[3];
  GThread *threads[3];

  for (guint i = 0; i < 3; i++)
    {
      traffic[i] = (Traffic) { fixture, test_buffer (fixture, MIB), FALSE };
      threads[i] = g_thread_new ("traffic", keep_copying, &traffic[i]);
    }

  for (guint i = 0; i < 2 * rounds (3, 50); i++)
    {
      const gint64 deadline = g_get_monotonic_time () + TEST_DEADLINE * G_USEC_PER_SEC;

      gpu_context_set_staging_limit (fixture->context, i % 2 == 0 ? 4 * MIB : 0);
      while ((gpu_context_get_staging_size (fixture->context) > 0) != (i % 2 == 0))
        {
          g_assert_cmpint (g_get_monotonic_time (), <, deadline);
          g_usleep (1000);
        }
    }

  for (guint i = 0; i < 3; i++)
    {
      g_atomic_int_set (&traffic[i].stop, TRUE);
      g_thread_join (threads[i]);
      g_object_unref (traffic[i].buffer);
    }

  g_assert_cmpuint (gpu_context_get_staging_size (fixture->context), ==, 0);
}

static void
transfer_threads (TestFixture *fixture)
{
  guint before = gpu_staging_get_n_threads ();
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, 5 * MIB);

  g_assert_cmpuint (before, >=, 1);

  for (guint n = 1; n <= 16; n *= 2)
    {
      gpu_staging_set_n_threads (n);
      g_assert_cmpuint (gpu_staging_get_n_threads (), ==, n);
      write_and_read (fixture, buffer, n, 4 * MIB);
    }

  gpu_staging_set_n_threads (0);
  g_assert_cmpuint (gpu_staging_get_n_threads (), ==, before);
}

/* --- memory that is page-locked --------------------------------------------------------------- */

static void
transfer_page_locked (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  guint8 *data = g_aligned_alloc (1, MIB, 4096);
  g_autoptr (GBytes) bytes = g_bytes_new_with_free_func (data, MIB, g_aligned_free, data);
  g_autoptr (GpuBuffer) locked = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, MIB);

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_HOST_POINTER))
    return;

  scramble (data, MIB, 3);
  locked = gpu_buffer_new_for_host_bytes (fixture->context, GPU_MEMORY_FLAGS_NONE, bytes, &error);
  g_assert_no_error (error);

  test_assert_ok (gpu_stream_write (fixture->stream, GPU_MEMORY (buffer), 0, bytes, &error),
                  error);
  test_synchronize (fixture->stream);
  g_assert_cmpuint (gpu_context_get_staging_size (fixture->context), ==, 0);
  test_assert_content (buffer, bytes);
}

/* Only the first, the last or the middle bytes are page-locked. The copy is correct for each size,
 * whether or not it is staged. */
static void
transfer_partly_page_locked (TestFixture *fixture)
{
  static const gsize sizes[] = { 12288, 300000 };
  static const GpuStreamFlags flags[] = { GPU_STREAM_FLAGS_NONE, GPU_STREAM_FLAGS_PROFILING };
  g_autofree guint8 *data = g_malloc (MIB);

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_HOST_POINTER))
    return;

  for (guint i = 0; i < 3 * G_N_ELEMENTS (sizes) * G_N_ELEMENTS (flags); i++)
    {
      gsize size = sizes[i / 3 % G_N_ELEMENTS (sizes)];
      gsize third = size / 3;
      g_autoptr (GError) error = NULL;
      g_autoptr (GBytes) part = g_bytes_new_static (data + i % 3 * third, third);
      g_autoptr (GpuStream) stream = test_stream (fixture, flags[i / 3 / G_N_ELEMENTS (sizes)]);
      g_autoptr (GpuBuffer) buffer = test_buffer (fixture, size);
      g_autoptr (GpuBuffer) locked = NULL;

      locked = gpu_buffer_new_for_host_bytes (fixture->context, GPU_MEMORY_FLAGS_NONE, part,
                                              &error);
      g_assert_no_error (error);
      scramble (data, size, i);
      test_assert_ok (gpu_buffer_write (buffer, stream, 0, data, size, NULL, &error), error);
      memset (data, 0, size);
      test_assert_ok (gpu_buffer_read (buffer, stream, 0, data, size, NULL, &error), error);
      check_content (data, size, i);
    }
}

/* Pages without access. A thread that reads one of them waits until it may continue. */
static struct
{
  guint8 *page;
  gint    is_reached;               /* atomic */
  gint    may_continue;             /* atomic */
} gates[2];

static void
on_fault (int number, siginfo_t *info, void *data G_GNUC_UNUSED)
{
  const gsize size = (gsize) sysconf (_SC_PAGESIZE);

  for (guint i = 0; i < G_N_ELEMENTS (gates); i++)
    {
      const guint8 *address = info->si_addr;

      if (address < gates[i].page || address >= gates[i].page + size)
        continue;
      g_atomic_int_set (&gates[i].is_reached, TRUE);
      while (!g_atomic_int_get (&gates[i].may_continue))
        usleep (1000);
      mprotect (gates[i].page, size, PROT_READ | PROT_WRITE);
      return;
    }
  signal (number, SIG_DFL);
}

static void
close_gate (guint i, guint8 *page)
{
  gates[i].page = page;
  g_atomic_int_set (&gates[i].is_reached, FALSE);
  g_atomic_int_set (&gates[i].may_continue, FALSE);
  g_assert_cmpint (mprotect (page, (gsize) sysconf (_SC_PAGESIZE), PROT_NONE), ==, 0);
}

typedef struct
{
  GpuStream *stream;
  GpuBuffer *buffer;
  GBytes    *bytes;
} LongWrite;

static gpointer
write_long (gpointer data)
{
  const LongWrite *args = data;
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_stream_write (args->stream, GPU_MEMORY (args->buffer), 0, args->bytes,
                                    &error), error);
  return NULL;
}

/* The only copying thread is in a long copy, at its first page, when a short copy begins. The short
 * copy, of 32 pieces, completes before the thread reaches a page behind its second turn of 16
 * pages. This page is in the third chunk, which the thread may copy before the device has received
 * the first one. */
static void
transfer_turns (TestFixture *fixture)
{
  const gsize size = 32 * MIB;
  const gsize short_size = 64 * 1024;
  guint8 *data = mmap (NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, size);
  g_autoptr (GpuBuffer) other_buffer = test_buffer (fixture, short_size);
  g_autoptr (GpuStream) other = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GBytes) other_bytes = test_value_bytes (short_size, 5);
  g_autoptr (GBytes) bytes = g_bytes_new_static (data, size);
  g_autoptr (GpuEvent) event = NULL;
  LongWrite args = { fixture->stream, buffer, bytes };
  struct sigaction before;
  GThread *thread;
  gboolean success;

  memset (data, 3, size);
  sigaction (SIGSEGV, &(struct sigaction) { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO },
             &before);
  close_gate (0, data);
  close_gate (1, data + 40 * (gsize) sysconf (_SC_PAGESIZE));
  gpu_staging_set_n_threads (1);
  thread = g_thread_new ("long", write_long, &args);
  while (!g_atomic_int_get (&gates[0].is_reached))
    g_thread_yield ();
  test_assert_ok (gpu_stream_write (other, GPU_MEMORY (other_buffer), 0, other_bytes, &error),
                  error);
  event = test_record (other);
  g_atomic_int_set (&gates[0].may_continue, TRUE);
  success = gpu_event_wait_timeout (event, TEST_DEADLINE * G_USEC_PER_SEC, NULL, &error);
  g_atomic_int_set (&gates[1].may_continue, TRUE);
  g_thread_join (thread);
  test_synchronize (fixture->stream);
  sigaction (SIGSEGV, &before, NULL);
  gpu_staging_set_n_threads (0);
  test_assert_ok (success, error);
  test_assert_content (other_buffer, other_bytes);
  test_assert_content (buffer, bytes);
  munmap (data, size);
}

int
main (int    argc,
      char **argv)
{
  g_setenv ("GPUMEM_DEBUG", "stage", TRUE);
  test_init (&argc, &argv);

  test_add ("sizes", transfer_sizes);
  test_add ("async", transfer_async);
  test_add ("turns", transfer_turns);
  test_add ("svm", transfer_svm);
  test_add ("user-event", transfer_user_event);
  test_add ("blocking-user-event", transfer_blocking_user_event);
  test_add ("reuse", transfer_reuse);
  test_add ("dropped-in-flight", transfer_dropped_in_flight);
  test_add ("random", transfer_random);
  test_add ("image", transfer_image);
  test_add ("limit", transfer_limit);
  test_add ("limit-traffic", transfer_limit_traffic);
  test_add ("threads", transfer_threads);
  test_add ("page-locked", transfer_page_locked);
  test_add ("partly-page-locked", transfer_partly_page_locked);

  return test_run ();
}
