/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* gpu_stream_copy_batch(): compared with copies of host memory, and with single copies. */
#include "config.h"

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
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GError) error = NULL;

  memcpy (model, g_bytes_get_data (bytes, NULL), SIZE);
  test_assert_ok (gpu_stream_write (stream, memory, 0, bytes, &error), error);
}

static void
assert_models (Batch *batch)
{
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < batch->n_memories; i++)
    {
      g_autoptr (GBytes) bytes = gpu_stream_read_bytes (batch->stream, batch->memories[i], 0, SIZE,
                                                        &error);

      g_assert_no_error (error);
      test_synchronize (batch->stream);
      test_assert_mem (g_bytes_get_data (bytes, NULL), batch->models[i], SIZE);
    }
}

/* Two buffers, page-locked memory, and pageable memory. */
static void
set_up (TestFixture    *fixture,
        Batch          *batch,
        GpuStreamFlags  flags)
{
  g_autoptr (GError) error = NULL;

  batch->stream = test_stream (fixture, flags);
  for (guint i = 0; i < 2; i++)
    add_memory (batch, GPU_MEMORY (test_buffer (fixture, SIZE)), g_malloc (SIZE));
  add_memory (batch, GPU_MEMORY (gpu_host_memory_new (fixture->context, GPU_HOST_MEMORY_FLAGS_NONE,
                                                      SIZE, &error)), g_malloc (SIZE));
  g_assert_no_error (error);
  add_memory (batch, GPU_MEMORY (gpu_host_memory_new_aligned (fixture->context, 64, SIZE, &error)),
              g_malloc (SIZE));
  g_assert_no_error (error);
  for (guint i = 0; i < batch->n_memories; i++)
    write_random (batch->memories[i], batch->models[i], batch->stream);
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
  g_autoptr (GError) error = NULL;
  Batch batch = { NULL, };

  set_up (fixture, &batch, flags);
  for (guint n_memories = 1; n_memories <= 4; n_memories++)
    {
      gsize n = choose_rows (&batch, ranges, n_memories);

      test_assert_ok (gpu_stream_copy_batch (batch.stream, batch.memories, n_memories, ranges, n,
                                             &error), error);
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
  g_autofree guint64 *ranges = g_new (guint64, 5 * N_ROWS);
  g_autoptr (GError) error = NULL;
  Batch batch = { NULL, };

  set_up (fixture, &batch, GPU_STREAM_FLAGS_NONE);
  for (guint64 i = 0; i < N_ROWS; i++)
    memcpy (ranges + 5 * i, ((guint64[]) { 1, i * ROW, 0, (N_ROWS - 1 - i) * ROW, ROW }),
            5 * sizeof *ranges);

  for (guint round = 0; round < 20; round++)
    {
      g_autoptr (GBytes) bytes = NULL;

      write_random (batch.memories[0], batch.models[0], other);
      test_assert_ok (gpu_stream_copy_batch (batch.stream, batch.memories, 2, ranges, 5 * N_ROWS,
                                             &error), error);
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

/* The driver takes no batches in its default stream. */
static void
batch_default_stream (TestFixture *fixture)
{
  g_autofree guint64 *ranges = g_new (guint64, 4 * N_ROWS / 2 * 5);
  g_autoptr (GError) error = NULL;
  Batch batch = { NULL, };
  gsize n;

  if (!test_is_cuda (fixture, 0))
    return;

  set_up (fixture, &batch, GPU_STREAM_FLAGS_NONE);
  g_object_unref (batch.stream);
  batch.stream = gpu_stream_new_wrapped (fixture->context, GPU_STREAM_HANDLE_LEGACY,
                                         GPU_WRAP_MODE_BORROW, &error);
  g_assert_no_error (error);
  n = choose_rows (&batch, ranges, 3);
  test_assert_ok (gpu_stream_copy_batch (batch.stream, batch.memories, 3, ranges, n, &error),
                  error);
  assert_models (&batch);
  clear (&batch);
}

/* The batch keeps the memory alive. */
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

  test_assert_ok (gpu_stream_copy_batch (stream, memories, 2, ranges, G_N_ELEMENTS (ranges),
                                         &error), error);
  g_object_unref (memories[1]);
  test_assert_content (target, bytes);
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
    { { 0, 0, 1, 0, ROW, 1, ROW - 1, 1, 8, 1 }, 10, "writes bytes 511 to 512" }
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
  test_assert_ok (gpu_stream_copy_batch (batch.stream, batch.memories, 2,
                                         (guint64[]) { 0, 0, 1, 0, 8, 0, 8, 1, 4, 8, 0, 16, 0, 32,
                                                       16 }, 15, &error), error);
  memcpy (batch.models[0], batch.models[1], 8);
  memcpy (batch.models[0] + 8, batch.models[1] + 4, 8);
  memcpy (batch.models[0] + 16, batch.models[0] + 32, 16);
  assert_models (&batch);
  clear (&batch);
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
  test_add ("refused", batch_refused);
  test_add ("released", batch_released);
  return test_run ();
}
