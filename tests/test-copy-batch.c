/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* gpu_stream_copy_batch(): compared with copies of host memory, and with single copies. */
#include "config.h"

#ifdef HAVE_CUDA
#include "cuda-driver/cuda-driver.h"
#endif
#include "test-util.h"

#define SIZE   (256 * 1024)
#define N_ROWS 512
#define ROW    (SIZE / N_ROWS)

typedef struct
{
  GpuStream *stream;
  GpuMemory *memories[4];
  guint8    *models[4];
  guint      n_memories;
} Batch;

static void
add_memory (Batch     *batch,
            GpuMemory *memory,
            guint8    *model)
{
  batch->memories[batch->n_memories] = memory;
  batch->models[batch->n_memories++] = model;
}

static void
clear (Batch *batch)
{
  for (guint i = 0; i < batch->n_memories; i++)
    {
      g_object_unref (batch->memories[i]);
      g_free (batch->models[i]);
    }
  g_object_unref (batch->stream);
}

static void
write_random (GpuMemory *memory,
              guint8    *model,
              GpuStream *stream)
{
  const gsize size = gpu_memory_get_size (memory);
  g_autoptr (GBytes) bytes = test_random_bytes (size);
  g_autoptr (GError) error = NULL;

  memcpy (model, g_bytes_get_data (bytes, NULL), size);
  test_assert_ok (gpu_stream_write (stream, memory, 0, bytes, &error), error);
}

static void
assert_models (Batch *batch)
{
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < batch->n_memories; i++)
    {
      const gsize size = gpu_memory_get_size (batch->memories[i]);
      g_autoptr (GBytes) bytes = gpu_stream_read_bytes (batch->stream, batch->memories[i], 0, size,
                                                        &error);

      g_assert_no_error (error);
      test_synchronize (batch->stream);
      test_assert_mem (g_bytes_get_data (bytes, NULL), batch->models[i], size);
    }
}

static void
copy_batch (Batch         *batch,
            const guint64 *ranges,
            gsize          n_ranges)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_stream_copy_batch (batch->stream, batch->memories, batch->n_memories, ranges,
                                         n_ranges, &error), error);
}

/* Returns the ranges that copy @n_rows rows in reverse order. */
static guint64 *
reverse_rows (guint64 to,
              guint64 from,
              guint64 n_rows)
{
  guint64 *ranges = g_new (guint64, 5 * n_rows);

  for (guint64 i = 0; i < n_rows; i++)
    memcpy (ranges + 5 * i, ((guint64[]) { to, i * ROW, from, (n_rows - 1 - i) * ROW, ROW }),
            5 * sizeof *ranges);
  return ranges;
}

static void
write_models (Batch *batch,
              guint  first)
{
  for (guint i = first; i < batch->n_memories; i++)
    write_random (batch->memories[i], batch->models[i], batch->stream);
}

/* Two buffers, and page-locked memory. */
static void
add_three (TestFixture *fixture,
           Batch       *batch,
           gsize        size)
{
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < 2; i++)
    add_memory (batch, GPU_MEMORY (test_buffer (fixture, size)), g_malloc (size));
  add_memory (batch, GPU_MEMORY (gpu_host_memory_new (fixture->context, GPU_HOST_MEMORY_FLAGS_NONE,
                                                      size, &error)), g_malloc (size));
  g_assert_no_error (error);
}

/* Two buffers, page-locked memory, and pageable memory. */
static void
set_up (TestFixture    *fixture,
        Batch          *batch,
        GpuStreamFlags  flags)
{
  g_autoptr (GError) error = NULL;

  batch->stream = test_stream (fixture, flags);
  add_three (fixture, batch, SIZE);
  add_memory (batch, GPU_MEMORY (gpu_host_memory_new_aligned (fixture->context, 64, SIZE, &error)),
              g_malloc (SIZE));
  g_assert_no_error (error);
  write_models (batch, 0);
}

/* Copies the rows of each memory in a random order: each even row is a source, each odd row a
 * destination. */
static gsize
choose_rows (Batch   *batch,
             guint64 *ranges,
             guint    n_memories)
{
  g_autofree guint *rows = g_new (guint, n_memories * N_ROWS / 2);
  guint n = n_memories * N_ROWS / 2;
  gsize used = 0;

  for (guint i = 0; i < n; i++)
    rows[i] = i;
  for (guint i = n - 1; i > 0; i--)
    {
      guint j = g_test_rand_int_range (0, i + 1), row = rows[i];

      rows[i] = rows[j];
      rows[j] = row;
    }

  for (guint i = 0; i < n; i++)
    {
      guint from = g_test_rand_int_range (0, n);
      guint64 copy[] = { rows[i] / (N_ROWS / 2), (rows[i] % (N_ROWS / 2) * 2 + 1) * ROW,
                         from / (N_ROWS / 2), from % (N_ROWS / 2) * 2 * ROW,
                         g_test_rand_int_range (0, ROW + 1) };

      memcpy (batch->models[copy[0]] + copy[1], batch->models[copy[2]] + copy[3], copy[4]);
      memcpy (ranges + used, copy, sizeof copy);
      used += G_N_ELEMENTS (copy);
    }
  return used;
}

static void
copy_rows (TestFixture    *fixture,
           GpuStreamFlags  flags)
{
  g_autofree guint64 *ranges = g_new (guint64, 4 * N_ROWS / 2 * 5);
  Batch batch = { NULL, };

  set_up (fixture, &batch, flags);
  for (guint n_memories = 1; n_memories <= 4; n_memories++)
    {
      copy_batch (&batch, ranges, choose_rows (&batch, ranges, n_memories));
      assert_models (&batch);
    }
  clear (&batch);
}

static void
batch_rows (TestFixture *fixture)
{
  copy_rows (fixture, GPU_STREAM_FLAGS_NONE);
}

static void
batch_out_of_order (TestFixture *fixture)
{
  if (test_has (fixture, GPU_CAPABILITIES_OUT_OF_ORDER))
    copy_rows (fixture, GPU_STREAM_FLAGS_OUT_OF_ORDER);
}

static void
batch_profiling (TestFixture *fixture)
{
  copy_rows (fixture, GPU_STREAM_FLAGS_PROFILING);
}

/* A batch runs after an earlier write of its source on another stream, and before a later read of
 * its destination there. */
static void
batch_order (TestFixture *fixture)
{
  g_autoptr (GpuStream) other = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autofree guint64 *ranges = reverse_rows (1, 0, N_ROWS);
  g_autoptr (GError) error = NULL;
  Batch batch = { NULL, };

  set_up (fixture, &batch, GPU_STREAM_FLAGS_NONE);
  for (guint round = 0; round < 20; round++)
    {
      g_autoptr (GBytes) bytes = NULL;

      write_random (batch.memories[0], batch.models[0], other);
      copy_batch (&batch, ranges, 5 * N_ROWS);
      for (guint i = 0; i < N_ROWS; i++)
        memcpy (batch.models[1] + i * ROW, batch.models[0] + (N_ROWS - 1 - i) * ROW, ROW);
      bytes = gpu_stream_read_bytes (other, batch.memories[1], 0, SIZE, &error);
      g_assert_no_error (error);
      test_synchronize (other);
      test_assert_mem (g_bytes_get_data (bytes, NULL), batch.models[1], SIZE);
    }
  clear (&batch);
}

/* Copies of slices of pageable memory, which a staged copy has not filled yet when they are
 * submitted, one by one and as a batch. */
static void
batch_pageable_slices (TestFixture *fixture)
{
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) from = test_buffer (fixture, SIZE);
  g_autoptr (GpuBuffer) to = test_buffer (fixture, SIZE);
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuHostMemory) host = gpu_host_memory_new_aligned (fixture->context, 4096, SIZE,
                                                                &error);
  GpuMemory *memories[1 + 4] = { GPU_MEMORY (to), };
  guint64 ranges[4 * 5];

  g_assert_no_error (error);
  for (guint64 i = 0; i < 4; i++)
    {
      memories[1 + i] = GPU_MEMORY (gpu_buffer_new_for_memory (GPU_MEMORY (host), i * SIZE / 4,
                                                               SIZE / 4, &error));
      g_assert_no_error (error);
      memcpy (ranges + 5 * i, ((guint64[]) { 0, i * SIZE / 4, 1 + i, 0, SIZE / 4 }),
              5 * sizeof *ranges);
    }

  for (guint8 round = 0; round < 40; round++)
    {
      g_autoptr (GBytes) expected = test_value_bytes (SIZE, round);

      test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (from), 0, SIZE, &round, 1, &error),
                      error);
      test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (host), 0, GPU_MEMORY (from), 0, SIZE,
                                       &error), error);
      for (guint i = 0; i < 4 && round % 2 == 0; i++)
        test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (to), i * SIZE / 4, memories[1 + i], 0,
                                         SIZE / 4, &error), error);
      if (round % 2 != 0)
        test_assert_ok (gpu_stream_copy_batch (stream, memories, 5, ranges, 20, &error), error);
      test_assert_content (to, expected);
    }

  for (guint i = 1; i < 5; i++)
    g_object_unref (memories[i]);
}

/* In the default stream of the driver */
static void
batch_default_stream (TestFixture *fixture)
{
  g_autofree guint64 *ranges = g_new (guint64, 4 * N_ROWS / 2 * 5);
  g_autoptr (GError) error = NULL;
  Batch batch = { NULL, };

  if (!test_is_cuda (fixture, 0))
    return;

  set_up (fixture, &batch, GPU_STREAM_FLAGS_NONE);
  g_object_unref (batch.stream);
  batch.stream = gpu_stream_new_wrapped (fixture->context, GPU_STREAM_HANDLE_LEGACY,
                                         GPU_WRAP_MODE_BORROW, &error);
  g_assert_no_error (error);
  copy_batch (&batch, ranges, choose_rows (&batch, ranges, 3));
  assert_models (&batch);
  clear (&batch);
}

/* The batch keeps the memory alive until it has run. */
static void
batch_references (TestFixture *fixture)
{
  g_autoptr (GpuBuffer) target = test_buffer (fixture, SIZE);
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  GpuMemory *memories[] = { GPU_MEMORY (target), GPU_MEMORY (test_buffer_from (fixture, bytes)) };
  const guint64 ranges[] = { 0, 0, 1, 0, 1024, 0, 1024, 1, 1024, 1024, 0, 2048, 1, 2048, 1024,
                             0, 3072, 1, 3072, SIZE - 3072 };
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GError) error = NULL;
  TestHold *hold = test_can_hold (fixture) ? test_hold (stream) : NULL;

  test_assert_ok (gpu_stream_copy_batch (stream, memories, 2, ranges, G_N_ELEMENTS (ranges),
                                         &error), error);
  g_object_unref (memories[1]);
  if (hold != NULL)
    {
      test_hold_release (hold);
      test_synchronize (stream);
      test_hold_free (hold);
    }
  test_assert_content (target, bytes);
}

/* --- random copies ------------------------------------------------------------------------- */

#define RANDOM_SIZE (12 * 1024 * 1024)
#define N_RANDOM    2500

/* Includes the sizes at which kernels change: units of 16 bytes, chunks of 16 KiB, and one copy
 * that is too large for a kernel. */
static gsize
choose_size (guint i)
{
  if (i == 0)
    return 4 * 1024 * 1024 + 3;

  switch (g_test_rand_int_range (0, 8))
    {
    case 0:
      return g_test_rand_int_range (0, 2);
    case 1:
      return 16384 + g_test_rand_int_range (-17, 18);
    case 2:
      return g_test_rand_int_range (0, 257) * 16;
    default:
      return g_test_rand_int_range (0, 1200);
    }
}

/* Copies from the first half of the memory to its second half and to the other memory. */
static gsize
choose_random (Batch   *batch,
               guint64 *ranges)
{
  gsize ends[3] = { RANDOM_SIZE / 2, RANDOM_SIZE / 2, RANDOM_SIZE / 2 };
  gsize n = 0;

  for (guint i = 0; i < N_RANDOM; i++)
    {
      guint to = i == 0 ? 1 : g_test_rand_int_range (0, 3), from = g_test_rand_int_range (0, 3);
      guint unit = 1 << g_test_rand_int_range (0, 5);
      gsize size = choose_size (i);
      gsize begin = (ends[to] + g_test_rand_int_range (0, 40)) / unit * unit + unit;
      gsize start = g_test_rand_int_range (0, RANDOM_SIZE / 2 - size) / unit * unit;

      if (begin + size > RANDOM_SIZE)
        continue;
      ends[to] = begin + size;
      memcpy (ranges + n, ((guint64[]) { to, begin, from, start, size }), 5 * sizeof *ranges);
      n += 5;
      memcpy (batch->models[to] + begin, batch->models[from] + start, size);
    }
  return n;
}

/* 10,000 copies of any size and alignment between two buffers and page-locked memory, compared with
 * copies of host memory. */
static void
batch_random (TestFixture *fixture)
{
  g_autofree guint64 *ranges = g_new (guint64, 5 * N_RANDOM);
  Batch batch = { test_stream (fixture, GPU_STREAM_FLAGS_NONE), };

  add_three (fixture, &batch, RANDOM_SIZE);
  write_models (&batch, 0);
  for (guint round = 0; round < 10000 / N_RANDOM; round++)
    {
      copy_batch (&batch, ranges, choose_random (&batch, ranges));
      assert_models (&batch);
    }
  clear (&batch);
}

#define N_SLICES 20

/* Copies between slices, whose offsets in their parents count. */
static void
batch_slices (TestFixture *fixture)
{
  const gsize unit = MAX (gpu_device_get_base_alignment (fixture->device), 256);
  g_autoptr (GpuBuffer) source = test_buffer (fixture, 2 * N_SLICES * unit);
  g_autoptr (GpuBuffer) target = test_buffer_filled (fixture, 2 * N_SLICES * unit, 0);
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GBytes) bytes = test_random_bytes (2 * N_SLICES * unit);
  g_autofree guint8 *model = g_malloc0 (2 * N_SLICES * unit);
  g_autoptr (GBytes) expected = NULL;
  g_autoptr (GError) error = NULL;
  const guint8 *data = g_bytes_get_data (bytes, NULL);
  GpuMemory *memories[2 * N_SLICES];
  guint64 ranges[5 * N_SLICES];

  test_assert_ok (gpu_stream_write (stream, GPU_MEMORY (source), 0, bytes, &error), error);
  for (guint i = 0; i < 2 * N_SLICES; i++)
    {
      memories[i] = GPU_MEMORY (gpu_buffer_slice (i % 2 == 0 ? source : target, i * unit, unit,
                                                  &error));
      g_assert_no_error (error);
    }
  for (guint i = 0; i < N_SLICES; i++)
    {
      memcpy (ranges + 5 * i, ((guint64[]) { 2 * i + 1, 3, 2 * i, 8, unit - 9 }),
              5 * sizeof *ranges);
      memcpy (model + (2 * i + 1) * unit + 3, data + 2 * i * unit + 8, unit - 9);
    }
  test_assert_ok (gpu_stream_copy_batch (stream, memories, 2 * N_SLICES, ranges,
                                         G_N_ELEMENTS (ranges), &error), error);
  test_synchronize (stream);
  expected = g_bytes_new (model, 2 * N_SLICES * unit);
  test_assert_content (target, expected);
  for (guint i = 0; i < 2 * N_SLICES; i++)
    g_object_unref (memories[i]);
}

/* --- threads -------------------------------------------------------------------------------- */

#define N_THREADS 4

static gpointer
run_batches (gpointer data)
{
  TestFixture *fixture = data;
  g_autofree guint64 *ranges = reverse_rows (0, 1, N_ROWS);
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) source = test_buffer (fixture, SIZE);
  g_autoptr (GpuBuffer) target = test_buffer (fixture, SIZE);
  GpuMemory *memories[] = { GPU_MEMORY (target), GPU_MEMORY (source) };

  for (guint round = 0; round < 10; round++)
    {
      guint8 *numbers = g_malloc (SIZE);
      g_autoptr (GBytes) bytes = g_bytes_new_take (numbers, SIZE);
      g_autoptr (GBytes) back = NULL;
      const guint8 *rows;

      for (guint i = 0; i < SIZE; i++)
        numbers[i] = (guint8) ((i / ROW + round) * 37 + GPOINTER_TO_SIZE (stream) / 64 + i);
      test_assert_ok (gpu_stream_write (stream, memories[1], 0, bytes, &error), error);
      test_assert_ok (gpu_stream_copy_batch (stream, memories, 2, ranges, 5 * N_ROWS, &error),
                      error);
      back = gpu_buffer_read_bytes (target, stream, 0, SIZE, NULL, &error);
      g_assert_no_error (error);
      rows = g_bytes_get_data (back, NULL);
      for (guint i = 0; i < N_ROWS; i++)
        test_assert_mem (rows + i * ROW, numbers + (N_ROWS - 1 - i) * ROW, ROW);
    }
  return NULL;
}

/* The threads build the kernel of the context at the same time, and then share it. */
static void
batch_threads (TestFixture *fixture)
{
  GThread *threads[N_THREADS];

  for (guint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("batches", run_batches, fixture);
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
}

/* --- failures ------------------------------------------------------------------------------- */

/* A user event fails, for which a batch and a copy behind it wait. Neither runs, and the stream
 * works afterwards. */
static void
batch_behind_failure (TestFixture *fixture)
{
  g_autofree guint64 *ranges = g_new (guint64, 5 * N_ROWS);
  g_autoptr (GError) error = NULL;
  Batch batch = { NULL, };

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;

  set_up (fixture, &batch, GPU_STREAM_FLAGS_NONE);
  test_synchronize (batch.stream);
  for (guint64 i = 0; i < N_ROWS; i++)
    memcpy (ranges + 5 * i, ((guint64[]) { 1, i * ROW, i % 2 * 2, (N_ROWS - 1 - i) * ROW, ROW }),
            5 * sizeof *ranges);

  for (guint round = 0; round < 10; round++)
    {
      g_autoptr (GpuEvent) event = test_gate (fixture, batch.stream);

      copy_batch (&batch, ranges, 5 * N_ROWS);
      test_assert_ok (gpu_stream_copy (batch.stream, batch.memories[0], 0, batch.memories[1], 0, 8,
                                       &error), error);
      test_assert_ok (gpu_event_fail (event, "not now", &error), error);
      g_assert_false (gpu_stream_synchronize (batch.stream, NULL, &error));
      test_assert_gpu_error (error, GPU_ERROR_FAILED, "not now");
      write_random (batch.memories[0], batch.models[0], batch.stream);
    }

  write_models (&batch, 1);
  assert_models (&batch);
  clear (&batch);
}

static void
assert_refused (Batch         *batch,
                const guint64 *ranges,
                gsize          n_ranges,
                const char    *text)
{
  g_autoptr (GError) error = NULL;

  g_assert_false (gpu_stream_copy_batch (batch->stream, batch->memories, batch->n_memories, ranges,
                                         n_ranges, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_stream_copy_batch", text);
}

/* If one copy is wrong, no copy is done. The error names the copy. */
static void
batch_refused (TestFixture *fixture)
{
  const guint64 good[] = { 0, 0, 1, 0, ROW };
  const struct
  {
    guint64     copies[10];
    guint       n;
    const char *text;
  } cases[] = {
    { { 0, 0, 1, 0, ROW, 0, 0, 1, 0 }, 9, "9 numbers" },
    { { 0, 0, 1, 0, ROW, 4, 0, 1, 0, 1 }, 10, "copy 1 is from memory 1 to memory 4" },
    { { 0, 0, 1, 0, ROW, 0, 9999, 7, 0, 1 }, 10, "copy 1 is from memory 7 to memory 0" },
    { { 0, 0, 1, 0, ROW, 0, SIZE, 1, 0, 1 }, 10, "copy 1: offset 262144 + size 1" },
    { { 0, 0, 1, 0, ROW, 0, ROW, 1, 1, SIZE }, 10, "copy 1: offset" },
    { { 0, 0, 1, 0, ROW, 0, ROW, 1, G_MAXUINT64, 2 }, 10, "copy 1: offset" },
    { { 0, 0, 1, 0, ROW, 0, ROW - 1, 1, 0, 1 }, 10, "writes bytes 511 to 512" },
    { { 0, 0, 1, 0, ROW, 1, ROW - 1, 2, 0, 1 }, 10, "writes bytes 511 to 512" },
    { { 0, ROW, 0, 0, ROW, 0, 2 * ROW, 0, ROW, 1 }, 10, "reads bytes 512 to 513" },
    { { 0, 1, 0, 0, 2, 0, ROW, 0, 0, 1 }, 10, "copy 0 reads bytes 0 to 2" },
    { { 0, 0, 1, 0, ROW, 1, ROW - 1, 1, 8, 1 }, 10, "writes bytes 511 to 512" },
    { { 0, 64, 0, 64, 16, 1, 0, 0, 72, 8 }, 10, "reads bytes 72 to 80" }
  };
  g_autoptr (GError) error = NULL;
  GpuMemory *none = NULL;
  Batch batch = { NULL, };

  set_up (fixture, &batch, GPU_STREAM_FLAGS_NONE);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    assert_refused (&batch, cases[i].copies, cases[i].n, cases[i].text);
  g_assert_false (gpu_stream_copy_batch (batch.stream, &none, 1, good, 0, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "memory 0 of 1 is NULL");
  g_clear_error (&error);
  test_assert_ok (gpu_stream_copy_batch (batch.stream, NULL, 0, NULL, 0, &error), error);
  assert_models (&batch);

  /* Sources may overlap, and ranges may touch. */
  copy_batch (&batch, (guint64[]) { 0, 0, 1, 0, 8, 0, 8, 1, 4, 8, 0, 16, 0, 32, 16 }, 15);
  memcpy (batch.models[0], batch.models[1], 8);
  memcpy (batch.models[0] + 8, batch.models[1] + 4, 8);
  memcpy (batch.models[0] + 16, batch.models[0] + 32, 16);
  assert_models (&batch);

  /* As in a single copy, the source may be the destination. */
  copy_batch (&batch, (guint64[]) { 0, 64, 0, 64, 16, 0, 80, 1, 0, 16 }, 10);
  memcpy (batch.models[0] + 80, batch.models[1], 16);
  copy_batch (&batch, (guint64[]) { 0, 64, 0, 64, 16 }, 5);
  assert_models (&batch);
  clear (&batch);
}

/* The last of three copies conflicts with a mapping, and no copy is done, no matter which of them
 * are single operations. */
static void
check_mapped (TestFixture    *fixture,
              GpuStreamFlags  flags)
{
  const guint64 ranges[] = { 0, 0, 2, 0, ROW, 1, 0, 3, 0, ROW, 1, ROW, 2, ROW, ROW };
  g_autoptr (GpuMapping) mapping = NULL;
  g_autoptr (GError) error = NULL;
  Batch batch = { NULL, };

  set_up (fixture, &batch, flags);
  for (guint i = 0; i < 2; i++)
    {
      mapping = gpu_buffer_map (GPU_BUFFER (batch.memories[i]), batch.stream, GPU_MAP_FLAGS_READ,
                                i * ROW, ROW, NULL, &error);
      g_assert_no_error (error);
      g_assert_false (gpu_stream_copy_batch (batch.stream, batch.memories, batch.n_memories, ranges,
                                             G_N_ELEMENTS (ranges), &error));
      test_assert_gpu_error (error, GPU_ERROR_BUSY, "gpu_stream_copy_batch", "mapped for reading");
      g_clear_object (&mapping);
      assert_models (&batch);
    }
  clear (&batch);
}

/* Bytes between the ranges of the copies may be mapped, and bytes of a source for reading. If the
 * copies use mapped bytes, the error names the first such copy. */
static void
check_mapped_between (TestFixture    *fixture,
                      GpuStreamFlags  flags)
{
  const guint64 ranges[] = { 0, 0, 1, 0, 16, 0, 512, 1, 512, 16, 0, 1024, 1, 1024, 16 };
  const struct
  {
    guint       memory;
    GpuMapFlags flags;
    gsize       offset;
    const char *text;               /* NULL if the copies are accepted */
  } cases[] = {
    { 0, GPU_MAP_FLAGS_READ, 16, NULL },
    { 0, GPU_MAP_FLAGS_WRITE, 412, NULL },
    { 1, GPU_MAP_FLAGS_WRITE, 528, NULL },
    { 1, GPU_MAP_FLAGS_WRITE, 924, NULL },
    { 1, GPU_MAP_FLAGS_READ, 500, NULL },
    { 0, GPU_MAP_FLAGS_READ, 413, "copy 1: bytes 512 to 528 would be written" },
    { 1, GPU_MAP_FLAGS_WRITE, 527, "copy 1: bytes 512 to 528 would be read" },
    { 1, GPU_MAP_FLAGS_WRITE, 925, "copy 2: bytes 1024 to 1040 would be read" }
  };
  Batch batch = { NULL, };

  set_up (fixture, &batch, flags);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      GpuBuffer *buffer = GPU_BUFFER (batch.memories[cases[i].memory]);
      g_autoptr (GpuMapping) mapping = gpu_buffer_map (buffer, batch.stream, cases[i].flags,
                                                       cases[i].offset, 100, NULL, &error);

      g_assert_no_error (error);
      g_assert_cmpint (gpu_stream_copy_batch (batch.stream, batch.memories, batch.n_memories,
                                              ranges, G_N_ELEMENTS (ranges), &error), ==,
                       cases[i].text == NULL);
      if (cases[i].text != NULL)
        test_assert_gpu_error (error, GPU_ERROR_BUSY, "gpu_stream_copy_batch", cases[i].text);
      else
        g_assert_no_error (error);
    }

  for (guint i = 0; i < 3; i++)
    memcpy (batch.models[0] + 512 * i, batch.models[1] + 512 * i, 16);
  assert_models (&batch);
  clear (&batch);
}

static void
batch_mapped_between (TestFixture *fixture)
{
  check_mapped_between (fixture, GPU_STREAM_FLAGS_NONE);
  check_mapped_between (fixture, GPU_STREAM_FLAGS_PROFILING);
}

static void
batch_mapped (TestFixture *fixture)
{
  check_mapped (fixture, GPU_STREAM_FLAGS_NONE);
  check_mapped (fixture, GPU_STREAM_FLAGS_PROFILING);
  if ((gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_OUT_OF_ORDER) != 0)
    check_mapped (fixture, GPU_STREAM_FLAGS_OUT_OF_ORDER);
}

static void
batch_released (TestFixture *fixture)
{
  const guint64 ranges[] = { 0, 0, 1, 0, ROW };
  g_autoptr (GError) error = NULL;
  Batch batch = { NULL, };

  set_up (fixture, &batch, GPU_STREAM_FLAGS_NONE);
  gpu_memory_release (batch.memories[1]);
  g_assert_false (gpu_stream_copy_batch (batch.stream, batch.memories, 2, ranges,
                                         G_N_ELEMENTS (ranges), &error));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED, "gpu_stream_copy_batch", "released before");
  clear (&batch);
}

/* --- the kernel of CUDA --------------------------------------------------------------------- */

#ifdef HAVE_CUDA

static guint64
count (const char *function)
{
  return GPUMEM_CUDA_DRIVER (get_count) (function);
}

static gboolean
is_stand_in (TestFixture *fixture)
{
  if (test_is_cuda (fixture, 0) && gpumem_cuda_driver_symbol ("gpumem_cuda_driver_get_count"))
    return TRUE;

  if (!g_test_failed ())
    g_test_skip ("needs the stand-in for the CUDA driver");
  return FALSE;
}

static void
submit_rows (Batch   *batch,
             guint64  to,
             guint64  from,
             guint64  n_rows)
{
  g_autofree guint64 *ranges = reverse_rows (to, from, n_rows);

  copy_batch (batch, ranges, 5 * n_rows);
}

/* New contexts load the kernel, so that a batch needs no call that waits for pending work. Small
 * batches are calls of the driver. */
static void
batch_kernel (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  guint64 n_loads, n_launches, n_copies;
  Batch batch = { NULL, };

  if (!is_stand_in (fixture))
    return;

  set_up (fixture, &batch, GPU_STREAM_FLAGS_NONE);
  n_loads = count ("cuModuleLoadDataEx");
  g_assert_cmpuint (n_loads, >, 0);
  for (guint i = 0; i < 3; i++)
    {
      n_launches = count ("cuLaunchKernel");
      n_copies = count ("cuMemcpy*");
      submit_rows (&batch, i / 2, 2 - i, N_ROWS);
      g_assert_cmpuint (count ("cuLaunchKernel") - n_launches, ==, (N_ROWS + 169) / 170);
      g_assert_cmpuint (count ("cuMemcpy*"), ==, n_copies);
      submit_rows (&batch, i / 2, 2 - i, 3);
      g_assert_cmpuint (count ("cuMemcpy*"), ==, n_copies + 3);
    }
  g_assert_cmpuint (count ("cuModuleLoadDataEx"), ==, n_loads);
  clear (&batch);
}

/* A context that other code already uses loads the kernel before the first batch. If the driver
 * fails to load it, the batch is a loop of copies. */
static void
batch_late_kernel (TestFixture *fixture)
{
  g_autoptr (GpuContext) wrapped = NULL;
  g_autoptr (GError) error = NULL;
  Batch batch = { NULL, };
  guint64 n_loads;

  if (!is_stand_in (fixture))
    return;

  wrapped = gpu_context_new_wrapped (fixture->device,
                                     gpu_context_get_native_handle (fixture->context),
                                     GPU_WRAP_MODE_BORROW, &error);
  g_assert_no_error (error);
  n_loads = count ("cuModuleLoadDataEx");
  g_set_object (&fixture->context, wrapped);
  set_up (fixture, &batch, GPU_STREAM_FLAGS_NONE);
  for (guint i = 0; i < 3; i++)
    {
      guint64 n_launches = count ("cuLaunchKernel");

      g_assert_true (GPUMEM_CUDA_DRIVER (set_fail) (i == 0 ? "cuModuleLoadDataEx:1" : ""));
      submit_rows (&batch, 1, 0, N_ROWS);
      g_assert_cmpuint (count ("cuLaunchKernel") > n_launches, ==, i > 0);
      for (guint j = 0; j < N_ROWS; j++)
        memcpy (batch.models[1] + j * ROW, batch.models[0] + (N_ROWS - 1 - j) * ROW, ROW);
      assert_models (&batch);
    }
  g_assert_cmpuint (count ("cuModuleLoadDataEx"), ==, n_loads + 2);
  clear (&batch);
}

/* The driver refuses the second launch of a batch: the first one still uses the memory. */
static void
batch_partial (TestFixture *fixture)
{
  const guint64 ranges[] = { 0, 0, 1, 0, 1 };
  g_autofree guint64 *many = g_new (guint64, 5 * N_ROWS);
  g_autoptr (GError) error = NULL;
  Batch batch = { NULL, };
  TestHold *hold;

  if (!is_stand_in (fixture))
    return;

  set_up (fixture, &batch, GPU_STREAM_FLAGS_NONE);
  hold = test_hold (batch.stream);
  for (guint64 i = 0; i < N_ROWS; i++)
    memcpy (many + 5 * i, ((guint64[]) { 1, i * ROW, 0, i * ROW, ROW }), 5 * sizeof *many);
  g_assert_true (GPUMEM_CUDA_DRIVER (set_fail) ("cuLaunchKernel:2"));
  g_assert_false (gpu_stream_copy_batch (batch.stream, batch.memories, 2, many, 5 * N_ROWS,
                                         &error));
  g_assert_true (GPUMEM_CUDA_DRIVER (set_fail) (""));
  g_assert_cmpstr (strstr (error->message, "cuLaunchKernel"), !=, NULL);
  g_clear_error (&error);
  g_clear_object (&batch.memories[1]);
  batch.memories[1] = GPU_MEMORY (test_buffer (fixture, SIZE));
  test_hold_release (hold);
  test_synchronize (batch.stream);
  test_hold_free (hold);
  write_random (batch.memories[1], batch.models[1], batch.stream);
  copy_batch (&batch, ranges, G_N_ELEMENTS (ranges));
  batch.models[0][0] = batch.models[1][0];
  assert_models (&batch);
  clear (&batch);
}

#endif

int
main (int   argc,
      char *argv[])
{
  test_init (&argc, &argv);
  test_add ("rows", batch_rows);
  test_add ("out-of-order", batch_out_of_order);
  test_add ("profiling", batch_profiling);
  test_add ("order", batch_order);
  test_add ("default-stream", batch_default_stream);
  test_add ("pageable-slices", batch_pageable_slices);
  test_add ("references", batch_references);
  test_add ("random", batch_random);
  test_add ("slices", batch_slices);
  test_add ("threads", batch_threads);
  test_add ("behind-failure", batch_behind_failure);
  test_add ("refused", batch_refused);
  test_add ("mapped", batch_mapped);
  test_add ("mapped-between", batch_mapped_between);
  test_add ("released", batch_released);
#ifdef HAVE_CUDA
  test_add ("kernel", batch_kernel);
  test_add ("late-kernel", batch_late_kernel);
  test_add ("partial", batch_partial);
#endif
  return test_run ();
}
