/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copies between devices and aligned memory of the library that is not page-locked. Such copies are
 * staged like copies of pageable memory, but run in stream order. Other uses of the memory, on any
 * stream, see the results of earlier work and not of later work. */
#include "config.h"

#include "test-util.h"

#define SIZE (512 * 1024)
#define N_MEMORIES 4
#define N_STREAMS 3

typedef struct
{
  GRand     *rand;
  GpuStream *streams[N_STREAMS];
  GpuMemory *memories[N_MEMORIES];  /* two in host memory, two in device memory */
  guint8    *models[N_MEMORIES];
} Model;

static gsize
random_range (Model *m,
              gsize *offset)
{
  gsize size = (gsize) g_rand_int_range (m->rand, 1, g_rand_boolean (m->rand) ? SIZE : 4096);

  *offset = (gsize) g_rand_int_range (m->rand, 0, (gint32) (SIZE - size + 1));

  return size;
}

static void
random_copy (Model     *m,
             GpuStream *stream)
{
  g_autoptr (GError) error = NULL;
  guint from = (guint) g_rand_int_range (m->rand, 0, N_MEMORIES);
  guint to = (from + (guint) g_rand_int_range (m->rand, 1, N_MEMORIES)) % N_MEMORIES;
  gsize offset;
  gsize size = random_range (m, &offset);
  gsize place = (gsize) g_rand_int_range (m->rand, 0, (gint32) (SIZE - size + 1));

  memcpy (m->models[to] + place, m->models[from] + offset, size);
  test_assert_ok (gpu_stream_copy (stream, m->memories[to], place, m->memories[from], offset, size,
                                   &error), error);
}

static void
random_step (Model *m)
{
  GpuStream *stream = m->streams[g_rand_int_range (m->rand, 0, N_STREAMS)];
  guint i = (guint) g_rand_int_range (m->rand, 0, N_MEMORIES);
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = NULL;
  gsize offset;
  gsize size = random_range (m, &offset);
  guint8 value = (guint8) g_rand_int (m->rand);

  switch (g_rand_int_range (m->rand, 0, 6))
    {
    case 0:
      memset (m->models[i] + offset, value, size);
      test_assert_ok (gpu_stream_fill (stream, m->memories[i], offset, size, &value, 1, &error),
                      error);
      break;
    case 1:
      bytes = test_random_bytes (size);
      memcpy (m->models[i] + offset, g_bytes_get_data (bytes, NULL), size);
      test_assert_ok (gpu_stream_write (stream, m->memories[i], offset, bytes, &error), error);
      break;
    default:
      random_copy (m, stream);
    }
}

static void
check_all (TestFixture *fixture,
           Model       *m)
{
  for (guint i = 0; i < N_STREAMS; i++)
    test_synchronize (m->streams[i]);

  for (guint i = 0; i < N_MEMORIES; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GBytes) content = gpu_stream_read_bytes (fixture->stream, m->memories[i], 0, SIZE,
                                                          &error);

      g_assert_no_error (error);
      test_synchronize (fixture->stream);
      g_assert_cmpmem (g_bytes_get_data (content, NULL), SIZE, m->models[i], SIZE);
    }
}

static GpuMemory *
memory_new (TestFixture *fixture,
            gboolean     of_host)
{
  g_autoptr (GError) error = NULL;
  GpuHostMemory *memory;

  if (!of_host)
    return GPU_MEMORY (test_buffer_filled (fixture, SIZE, 0));

  memory = gpu_host_memory_new_aligned (fixture->context, 4096, SIZE, &error);
  g_assert_no_error (error);
  memset (gpu_host_memory_get_data (memory), 0, SIZE);

  return GPU_MEMORY (memory);
}

static void
ordinary_random (TestFixture *fixture)
{
  guint n_rounds = g_test_slow () ? 200 : 10;
  Model m = { .rand = g_rand_new_with_seed (31) };

  for (guint i = 0; i < N_STREAMS; i++)
    m.streams[i] = test_stream (fixture, GPU_STREAM_FLAGS_NONE);

  for (guint i = 0; i < N_MEMORIES; i++)
    {
      m.memories[i] = memory_new (fixture, i < 2);
      m.models[i] = g_malloc0 (SIZE);
    }

  for (guint i = 0; i < n_rounds; i++)
    {
      for (guint step = 0; step < 30; step++)
        random_step (&m);
      check_all (fixture, &m);
    }

  for (guint i = 0; i < N_STREAMS; i++)
    g_object_unref (m.streams[i]);

  for (guint i = 0; i < N_MEMORIES; i++)
    {
      g_object_unref (m.memories[i]);
      g_free (m.models[i]);
    }

  g_rand_free (m.rand);
}

/* Copies in both directions are staged through page-locked memory. A copy gets the content that the
 * memory has at the copy's position in the stream. */
static void
ordinary_staged (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuMemory) host = memory_new (fixture, TRUE);
  g_autoptr (GpuBuffer) first = test_buffer_from (fixture, bytes);
  g_autoptr (GpuBuffer) second = test_buffer_filled (fixture, SIZE, 0);
  const guint8 zero = 0;

  gpu_context_trim_staging (fixture->context);
  test_assert_ok (gpu_stream_copy (fixture->stream, host, 0, GPU_MEMORY (first), 0, SIZE, &error),
                  error);
  test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (second), 0, host, 0, SIZE, &error),
                  error);
  test_assert_ok (gpu_stream_fill (fixture->stream, host, 0, SIZE, &zero, 1, &error), error);
  g_clear_object (&host);
  test_synchronize (fixture->stream);
  if (test_is_pocl (fixture) || strcmp (gpu_device_get_backend (fixture->device), "cuda") == 0)
    g_assert_cmpuint (gpu_context_get_staging_size (fixture->context), >, 0);

  test_assert_content (second, bytes);
}

int
main (int    argc,
      char **argv)
{
  g_setenv ("GPUMEM_DEBUG", "stage", TRUE);
  test_init (&argc, &argv);

  test_add ("staged", ordinary_staged);
  test_add ("random", ordinary_random);

  return test_run ();
}
