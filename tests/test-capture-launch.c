/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Launches of graphs into which streams of the library were captured. Each launch repeats the
 * captured operations with the contents that the memory has at that time. */
#include "config.h"

#ifdef HAVE_CUDA
#include "test-capture-util.h"
#endif
#include "test-util.h"

#ifdef HAVE_CUDA

#define N 1024
#define SIZE (N * sizeof (guint32))

static const char source[] =
  "__kernel void add (__global uint *numbers, uint summand)\n"
  "{\n"
  "  numbers[get_global_id (0)] += summand;\n"
  "}\n";

static const GpuExtent grid = { N, 1, 1 };

typedef struct
{
  GpuContext  *context;
  GpuStream   *stream;
  CUgraphExec  graph;
} Replay;

static void
replay_begin (Replay *replay, TestFixture *fixture)
{
  replay->context = fixture->context;
  replay->stream = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  test_capture_begin (test_get_cuda_stream (replay->stream), CU_STREAM_CAPTURE_MODE_GLOBAL);
}

static void
replay_end (Replay *replay)
{
  CUgraph graph = test_capture_end (test_get_cuda_stream (replay->stream));

  replay->graph = test_graph_instantiate (replay->context, graph);
  test_graph_destroy (graph);
}

/* Launches the graph on @stream, and waits. */
static void
replay_run (Replay *replay, GpuStream *stream)
{
  test_graph_run (replay->context, replay->graph, test_get_cuda_stream (stream));
}

static void
replay_clear (Replay *replay)
{
  test_graph_exec_destroy (replay->graph);
  g_clear_object (&replay->stream);
}

static void
check_numbers (GpuBuffer *buffer, guint32 value)
{
  guint32 numbers[N];
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_buffer_read (buffer, NULL, 0, numbers, SIZE, NULL, &error), error);
  for (gsize i = 0; i < N; i++)
    g_assert_cmpuint (numbers[i], ==, value);
}

static void
add (GpuStream *stream, GpuKernel *kernel, GpuBuffer *buffer, guint32 summand)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_stream_launch (stream, kernel, &grid, NULL, &error, buffer, summand), error);
}

/* --- kernels ---------------------------------------------------------------------------------- */

/* The capture runs nothing. Each launch, on any stream, adds once more, and the stream remains
 * usable. */
static void
repeated (TestFixture *fixture)
{
  g_autoptr (GpuStream) other = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  Replay replay;

  if (!test_can_capture (fixture) || !test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;

  other = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  buffer = test_buffer_filled (fixture, SIZE, 0);
  kernel = test_kernel (fixture, source, "add");
  replay_begin (&replay, fixture);
  add (replay.stream, kernel, buffer, 3);
  replay_end (&replay);
  check_numbers (buffer, 0);

  replay_run (&replay, replay.stream);
  check_numbers (buffer, 3);
  replay_run (&replay, other);
  check_numbers (buffer, 6);
  add (replay.stream, kernel, buffer, 1);
  replay_run (&replay, replay.stream);
  check_numbers (buffer, 10);
  replay_clear (&replay);
}

/* Writes a copy of @content, and drops the reference to it. */
static void
write_copy (GpuStream  *stream,
            GpuBuffer  *buffer,
            GBytes     *content)
{
  g_autoptr (GBytes) bytes = g_bytes_new (g_bytes_get_data (content, NULL),
                                          g_bytes_get_size (content));
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_stream_write (stream, GPU_MEMORY (buffer), 0, bytes, &error), error);
}

/* A stream joins the capture because it uses the same memory, without a wait by the program, and is
 * joined again in the same way. The graph keeps the order, and the bytes that the stream writes. */
static void
joined (TestFixture *fixture)
{
  g_autoptr (GpuStream) other = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuBuffer) copy = NULL;
  g_autoptr (GpuBuffer) written = NULL;
  g_autoptr (GBytes) content = test_random_bytes (SIZE);
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GError) error = NULL;
  Replay replay;

  if (!test_can_capture (fixture) || !test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;

  other = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  buffer = test_buffer_filled (fixture, SIZE, 0);
  copy = test_buffer_filled (fixture, SIZE, 0);
  written = test_buffer_filled (fixture, SIZE, 0);
  kernel = test_kernel (fixture, source, "add");
  test_synchronize (fixture->stream);
  replay_begin (&replay, fixture);
  add (replay.stream, kernel, buffer, 3);
  test_assert_ok (gpu_stream_copy (other, GPU_MEMORY (copy), 0, GPU_MEMORY (buffer), 0, SIZE,
                                   &error), error);
  write_copy (other, written, content);
  add (other, kernel, copy, 10);
  test_assert_ok (gpu_stream_copy (replay.stream, GPU_MEMORY (buffer), 0, GPU_MEMORY (copy), 0,
                                   SIZE, &error), error);
  replay_end (&replay);

  for (guint i = 1; i <= 2; i++)
    {
      replay_run (&replay, replay.stream);
      check_numbers (buffer, 13 * i);
      test_assert_content (written, content);
    }
  replay_clear (&replay);
}

/* --- copies and fills ------------------------------------------------------------------------- */

/* Page-locked memory: each launch reads what the host has written, and writes the result. */
static void
page_locked (TestFixture *fixture)
{
  g_autoptr (GpuHostMemory) in = NULL;
  g_autoptr (GpuHostMemory) out = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GError) error = NULL;
  guint32 *from, *to;
  Replay replay;

  if (!test_can_capture (fixture) || !test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;

  in = gpu_host_memory_new (fixture->context, GPU_HOST_MEMORY_FLAGS_NONE, SIZE, &error);
  g_assert_no_error (error);
  out = gpu_host_memory_new (fixture->context, GPU_HOST_MEMORY_FLAGS_NONE, SIZE, &error);
  g_assert_no_error (error);
  from = gpu_host_memory_get_data (in);
  to = gpu_host_memory_get_data (out);
  buffer = test_buffer (fixture, SIZE);
  kernel = test_kernel (fixture, source, "add");
  replay_begin (&replay, fixture);
  test_assert_ok (gpu_stream_copy (replay.stream, GPU_MEMORY (buffer), 0, GPU_MEMORY (in), 0, SIZE,
                                   &error), error);
  add (replay.stream, kernel, buffer, 5);
  test_assert_ok (gpu_stream_copy (replay.stream, GPU_MEMORY (out), 0, GPU_MEMORY (buffer), 0,
                                   SIZE, &error), error);
  replay_end (&replay);

  for (guint i = 0; i < 3; i++)
    {
      for (gsize k = 0; k < N; k++)
        from[k] = i * N + k;
      replay_run (&replay, replay.stream);
      for (gsize k = 0; k < N; k++)
        g_assert_cmpuint (to[k], ==, i * N + k + 5);
    }
  replay_clear (&replay);
}

/* Patterns of every size: the driver has fills of 1, 2 and 4 bytes only. */
static void
filled (TestFixture *fixture)
{
  const gsize sizes[] = { 1, 2, 4, 8, 16, 32 };
  const guint8 pattern[32] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18 };

  if (!test_can_capture (fixture))
    return;

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 0);
      g_autoptr (GBytes) content = NULL;
      g_autoptr (GError) error = NULL;
      const guint8 *data;
      Replay replay;

      test_synchronize (fixture->stream);
      replay_begin (&replay, fixture);
      test_assert_ok (gpu_stream_fill (replay.stream, GPU_MEMORY (buffer), 0, SIZE, pattern,
                                       sizes[i], &error), error);
      replay_end (&replay);
      replay_run (&replay, replay.stream);

      content = test_content (buffer);
      data = g_bytes_get_data (content, NULL);
      for (gsize k = 0; k < SIZE; k++)
        g_assert_cmpuint (data[k], ==, pattern[k % sizes[i]]);
      replay_clear (&replay);
    }
}

/* A batch whose table of copies is an argument of kernels, and a region. */
static void
batched (TestFixture *fixture)
{
  enum { N_COPIES = 300, PART = 1024 };
  guint64 ranges[N_COPIES * 5];
  g_autoptr (GpuBuffer) from = NULL;
  g_autoptr (GpuBuffer) to = NULL;
  g_autoptr (GBytes) random = test_random_bytes (N_COPIES * PART);
  g_autoptr (GBytes) content = NULL;
  g_autoptr (GError) error = NULL;
  const guint8 *expected = g_bytes_get_data (random, NULL);
  const guint8 *data;
  Replay replay;

  if (!test_can_capture (fixture))
    return;

  from = test_buffer_from (fixture, random);
  to = test_buffer_filled (fixture, N_COPIES * PART, 0);
  for (guint64 i = 0; i < N_COPIES; i++)
    memcpy (&ranges[5 * i], ((guint64[]) { 0, (N_COPIES - 1 - i) * PART, 1, i * PART, PART }),
            5 * sizeof *ranges);
  test_synchronize (fixture->stream);
  replay_begin (&replay, fixture);
  test_assert_ok (gpu_stream_copy_batch (replay.stream,
                                         (GpuMemory *[]) { GPU_MEMORY (to), GPU_MEMORY (from) }, 2,
                                         ranges, N_COPIES * 5, &error), error);
  replay_end (&replay);
  memset (ranges, 0xff, sizeof ranges);
  replay_run (&replay, replay.stream);

  content = test_content (to);
  data = g_bytes_get_data (content, NULL);
  for (gsize i = 0; i < N_COPIES; i++)
    g_assert_cmpmem (data + (N_COPIES - 1 - i) * PART, PART, expected + i * PART, PART);
  replay_clear (&replay);
}

/* --- host memory that the graph retains ------------------------------------------------------- */

/* Called on a thread of the library, so test_wait_until() must be woken. */
static void
note_freed (gpointer freed)
{
  g_atomic_int_set ((gint *) freed, TRUE);
  g_main_context_wakeup (NULL);
}

/* The program drops the bytes of a write, and of a write of a region, as a language binding does.
 * The graph reads them at each launch, and releases them when it is destroyed. */
static void
bytes_dropped (TestFixture *fixture)
{
  g_autoptr (GBytes) content = test_random_bytes (SIZE);
  g_autoptr (GError) error = NULL;

  if (!test_can_capture (fixture))
    return;

  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 0);
      GBytes *bytes;
      Replay replay;
      gint freed = FALSE;

      test_synchronize (fixture->stream);
      bytes = g_bytes_new_with_free_func (g_bytes_get_data (content, NULL), SIZE, note_freed,
                                          &freed);
      replay_begin (&replay, fixture);
      if (i == 0)
        test_assert_ok (gpu_stream_write (replay.stream, GPU_MEMORY (buffer), 0, bytes, &error),
                        error);
      else
        test_assert_ok (gpu_stream_write_region (replay.stream, GPU_MEMORY (buffer), NULL, bytes,
                                                 NULL, &(GpuExtent) { SIZE / 16, 16, 1 }, &error),
                        error);
      replay_end (&replay);
      g_bytes_unref (bytes);
      test_synchronize (replay.stream);
      g_assert_false (g_atomic_int_get (&freed));

      replay_run (&replay, replay.stream);
      test_assert_content (buffer, content);
      g_assert_false (g_atomic_int_get (&freed));
      replay_clear (&replay);
      test_wait_until (&freed);
    }
}

/* The target of a read that the program has dropped is still a target of the graph. */
static void
result_dropped (TestFixture *fixture)
{
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree guint8 *data = g_malloc0 (SIZE);
  gint freed = FALSE;
  GBytes *bytes;
  Replay replay;

  if (!test_can_capture (fixture))
    return;

  buffer = test_buffer_filled (fixture, SIZE, 1);
  test_synchronize (fixture->stream);
  bytes = g_bytes_new_with_free_func (data, SIZE, note_freed, &freed);
  replay_begin (&replay, fixture);
  test_assert_ok (gpu_stream_read_into (replay.stream, GPU_MEMORY (buffer), 0, bytes, &error),
                  error);
  replay_end (&replay);
  g_bytes_unref (bytes);
  test_synchronize (replay.stream);
  g_assert_false (g_atomic_int_get (&freed));

  replay_run (&replay, replay.stream);
  test_assert_value (data, 1, SIZE);
  g_assert_false (g_atomic_int_get (&freed));
  replay_clear (&replay);
  test_wait_until (&freed);
}

/* --- arrays ----------------------------------------------------------------------------------- */

/* Checks the elements in even and in odd columns. */
static void
check_columns (GpuArray *array, guint32 even, guint32 odd)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) got = gpu_array_read_bytes (array, NULL, GPU_ARRAY_ORDER_C, NULL, &error);
  const guint32 *numbers;

  g_assert_no_error (error);
  numbers = g_bytes_get_data (got, NULL);
  for (gsize i = 0; i < g_bytes_get_size (got) / sizeof *numbers; i++)
    g_assert_cmpuint (numbers[i], ==, i % 2 == 0 ? even : odd);
}

static void
fill_array (GpuStream *stream, GpuArray *array, guint32 value)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = g_bytes_new (&value, sizeof value);

  test_assert_ok (gpu_stream_fill_array (stream, array, bytes, &error), error);
}

/* A fill of many regions and a copy of rows with gaps, which kernels do. The first use of these
 * kernels is in the capture. */
static void
arrays (TestFixture *fixture)
{
  const gssize shape[] = { N / 8, 8 }, narrow[] = { N / 8, 4 };
  g_autoptr (GpuArray) from = NULL;
  g_autoptr (GpuArray) to = NULL;
  g_autoptr (GpuArray) columns = NULL;
  g_autoptr (GError) error = NULL;
  gint64 rows[N / 8];
  Replay replay;

  if (!test_can_capture (fixture) || !test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;

  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    rows[i] = (gint64) (N / 8 - 1 - i);
  from = gpu_array_new (fixture->context, GPU_DTYPE_UINT32, shape, 2, &error);
  g_assert_no_error (error);
  to = gpu_array_new (fixture->context, GPU_DTYPE_UINT32, narrow, 2, &error);
  g_assert_no_error (error);
  columns = gpu_array_slice (from, 1, 0, 8, 2, &error);
  g_assert_no_error (error);
  fill_array (fixture->stream, from, 1);
  fill_array (fixture->stream, to, 2);
  test_synchronize (fixture->stream);

  replay_begin (&replay, fixture);
  fill_array (replay.stream, columns, 3);
  test_assert_ok (gpu_stream_take_rows (replay.stream, to, columns, rows, G_N_ELEMENTS (rows),
                                        &error), error);
  memset (rows, 0x7f, sizeof rows);
  replay_end (&replay);
  check_columns (from, 1, 1);
  check_columns (to, 2, 2);

  for (guint i = 0; i < 2; i++)
    {
      replay_run (&replay, replay.stream);
      check_columns (from, 3, 1);
      check_columns (to, 3, 3);
      fill_array (fixture->stream, columns, 4);
      fill_array (fixture->stream, to, 5);
      test_synchronize (fixture->stream);
    }
  replay_clear (&replay);
}

#endif

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
#ifdef HAVE_CUDA
  test_add ("repeated", repeated);
  test_add ("arrays", arrays);
  test_add ("joined", joined);
  test_add ("page-locked", page_locked);
  test_add ("filled", filled);
  test_add ("batched", batched);
  test_add ("bytes-dropped", bytes_dropped);
  test_add ("result-dropped", result_dropped);
#endif

  return test_run ();
}
