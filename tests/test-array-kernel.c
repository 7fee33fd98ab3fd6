/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copies between arrays that the library runs as a kernel: permuted dimensions, and many short
 * rows. Devices without a compiler copy without a kernel, with the same result. */
#include "config.h"

#ifdef HAVE_CUDA
#include "cuda-driver/cuda-driver.h"
#endif
#include "test-array-util.h"

#define MAX_DIMS 4

/* One type of each power of two in bytes. */
#define PLAIN_DTYPES \
  GPU_DTYPE_UINT8, GPU_DTYPE_FLOAT16, GPU_DTYPE_FLOAT32, GPU_DTYPE_FLOAT64, GPU_DTYPE_COMPLEX128

static guint
count_live (const char *kind)
{
  g_autoptr (GVariant) alive = gpu_debug_list_live_objects ();
  guint n = 0;

  g_variant_lookup (alive, kind, "u", &n);

  return n;
}

static gboolean
has_compiler (TestFixture *fixture)
{
  return (gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_SOURCE) != 0;
}

static void
shuffle (guint *axes,
         guint  n)
{
  for (guint i = 0; i < n; i++)
    axes[i] = i;

  for (guint i = n; i > 1; i--)
    {
      guint other = (guint) g_test_rand_int_range (0, (gint32) i);
      guint axis = axes[i - 1];

      axes[i - 1] = axes[other];
      axes[other] = axis;
    }
}

/* Makes a view of shape @shape of a larger array, whose dimensions are permuted and up to three
 * times as long. */
static void
make_view (TestArray     *model,
           TestFixture   *fixture,
           GpuDType      *dtype,
           const gssize  *shape,
           guint          n_dims)
{
  g_autoptr (GpuArray) whole = NULL;
  g_autoptr (GError) error = NULL;
  gssize long_shape[MAX_DIMS];
  gssize steps[MAX_DIMS];
  guint axes[MAX_DIMS];

  shuffle (axes, n_dims);

  for (guint i = 0; i < n_dims; i++)
    {
      steps[i] = g_test_rand_int_range (0, 3) == 0 ? g_test_rand_int_range (2, 4) : 1;
      long_shape[axes[i]] = shape[i] * steps[i];
    }

  test_array_init (model, fixture, dtype, long_shape, n_dims, GPU_ARRAY_ORDER_C);
  whole = g_steal_pointer (&model->array);
  model->array = gpu_array_transpose (whole, axes, n_dims, &error);
  g_assert_no_error (error);

  for (guint i = 0; i < n_dims; i++)
    {
      g_autoptr (GpuArray) longer = g_steal_pointer (&model->array);

      if (g_test_rand_int_range (0, 4) == 0)
        model->array = gpu_array_slice (longer, i, G_MAXSSIZE, G_MINSSIZE, -steps[i], &error);
      else
        model->array = gpu_array_slice (longer, i, 0, G_MAXSSIZE, steps[i], &error);

      g_assert_no_error (error);
      g_assert_cmpint (gpu_array_get_shape (model->array, NULL)[i], ==, shape[i]);
    }
}

static void
check_copy (TestFixture *fixture,
            TestArray   *to,
            TestArray   *from)
{
  g_autoptr (GBytes) elements = test_array_gather (from, GPU_ARRAY_ORDER_C);
  g_autoptr (GError) error = NULL;

  test_array_scatter (to, GPU_ARRAY_ORDER_C, elements);
  test_assert_ok (gpu_stream_copy_array (fixture->stream, to->array, from->array, &error), error);
  test_array_assert_memory (to);
}

/* Copies permuted views with elements of every size. The library copies by a kernel if there is a
 * compiler. */
static void
kernel_permuted (TestFixture *fixture)
{
  g_autoptr (GpuDType) odd = gpu_dtype_new (GPU_DTYPE_KIND_OPAQUE, 12, NULL);
  g_autoptr (GpuDType) large = gpu_dtype_new (GPU_DTYPE_KIND_OPAQUE, 48, NULL);
  GpuDType *const dtypes[] = { PLAIN_DTYPES, odd, large };
  const guint before = count_live ("kernel-core");

  for (guint i = 0; i < 400; i++)
    {
      GpuDType *dtype = dtypes[i % G_N_ELEMENTS (dtypes)];
      guint n_dims = 2 + i % (MAX_DIMS - 1);
      gssize shape[MAX_DIMS];
      g_auto (TestArray) to = { NULL };
      g_auto (TestArray) from = { NULL };

      for (guint k = 0; k < n_dims; k++)
        shape[k] = g_test_rand_int_range (1, n_dims == 2 ? 70 : n_dims == 3 ? 24 : 9);

      make_view (&to, fixture, dtype, shape, n_dims);
      make_view (&from, fixture, dtype, shape, n_dims);
      check_copy (fixture, &to, &from);
    }

  if (has_compiler (fixture))
    g_assert_cmpuint (count_live ("kernel-core"), >, before);
}

static void
check_fill (TestFixture *fixture,
            GpuStream   *stream,
            TestArray   *model)
{
  const gsize size = gpu_dtype_get_item_size (gpu_array_get_dtype (model->array));
  const gsize n = gpu_array_get_n_elements (model->array);
  g_autoptr (GBytes) value = test_random_bytes (size);
  g_autofree guint8 *repeated = g_malloc (n * size);
  g_autoptr (GBytes) elements = NULL;
  g_autoptr (GError) error = NULL;

  for (gsize i = 0; i < n; i++)
    memcpy (repeated + i * size, g_bytes_get_data (value, NULL), size);
  elements = g_bytes_new (repeated, n * size);
  test_array_scatter (model, GPU_ARRAY_ORDER_C, elements);
  test_assert_ok (gpu_stream_fill_array (stream, model->array, value, &error), error);
  test_synchronize (stream);
  test_array_assert_memory (model);
}

/* Fills of permuted views with elements of every size, which change no gap. If there is a compiler,
 * a kernel does those of many regions. */
static void
kernel_filled (TestFixture *fixture)
{
  g_autoptr (GpuDType) odd = gpu_dtype_new (GPU_DTYPE_KIND_OPAQUE, 12, NULL);
  g_autoptr (GpuDType) large = gpu_dtype_new (GPU_DTYPE_KIND_OPAQUE, 48, NULL);
  GpuDType *const dtypes[] = { PLAIN_DTYPES, odd, large };
  const gboolean has_out_of_order = (gpu_device_get_capabilities (fixture->device)
                                     & GPU_CAPABILITIES_OUT_OF_ORDER) != 0;
  const gssize shapes[][MAX_DIMS] = { { 40, 3, 3, 2 }, { 5, 20, 3, 4 }, { 2, 3, 20, 7 } };

  for (guint i = 0; i < 63; i++)
    {
      g_auto (TestArray) model = { NULL };
      g_autoptr (GpuStream) stream
        = test_stream (fixture, i % 2 != 0 && has_out_of_order ? GPU_STREAM_FLAGS_OUT_OF_ORDER
                                                               : GPU_STREAM_FLAGS_NONE);

      make_view (&model, fixture, dtypes[i % G_N_ELEMENTS (dtypes)], shapes[i / 7 % 3], MAX_DIMS);
      check_fill (fixture, stream, &model);
    }
}

#ifdef HAVE_CUDA
/* A fill of many regions is one fill of the driver and one launch. */
static void
kernel_filled_at_once (TestFixture *fixture)
{
  const gssize shape[] = { 40, 4, 4, 16 };
  guint64 (*get_count) (const char *function)
    = gpumem_cuda_driver_symbol ("gpumem_cuda_driver_get_count");
  g_auto (TestArray) model = { NULL };
  guint64 n_calls;

  if (strcmp (gpu_device_get_backend (fixture->device), "cuda") != 0 || get_count == NULL)
    {
      g_test_skip ("only the stand-in for CUDA counts calls");
      return;
    }

  test_array_init (&model, fixture, GPU_DTYPE_FLOAT32, shape, MAX_DIMS, GPU_ARRAY_ORDER_C);
  for (guint i = 1; i < MAX_DIMS; i++)
    {
      g_autoptr (GpuArray) longer = g_steal_pointer (&model.array);
      g_autoptr (GError) error = NULL;

      model.array = gpu_array_slice (longer, i, 1, shape[i] - 1, 1, &error);
      g_assert_no_error (error);
    }
  n_calls = get_count ("cuMemset*") + get_count ("cuLaunchKernel");
  check_fill (fixture, fixture->stream, &model);
  n_calls = get_count ("cuMemset*") + get_count ("cuLaunchKernel") - n_calls;
  g_assert_cmpuint (n_calls, ==, 2);
}
#endif

/* Copies a view with the axes @axes of the array @from, each with a step, to a contiguous array. */
static void
check_turned (TestFixture   *fixture,
              GpuDType      *dtype,
              const gssize  *shape,
              guint          n_dims,
              const guint   *axes,
              const gssize  *steps)
{
  g_auto (TestArray) to = { NULL };
  g_auto (TestArray) from = { NULL };
  g_autoptr (GpuArray) whole = NULL;
  g_autoptr (GpuArray) view = NULL;
  g_autoptr (GError) error = NULL;

  test_array_init (&from, fixture, dtype, shape, n_dims, GPU_ARRAY_ORDER_C);
  whole = g_steal_pointer (&from.array);
  view = g_object_ref (whole);

  for (guint i = 0; i < n_dims; i++)
    {
      g_autoptr (GpuArray) longer = g_steal_pointer (&view);
      const gboolean backwards = steps[i] < 0;

      view = gpu_array_slice (longer, i, backwards ? G_MAXSSIZE : 0,
                              backwards ? G_MINSSIZE : G_MAXSSIZE, steps[i], &error);
      g_assert_no_error (error);
    }

  from.array = gpu_array_transpose (view, axes, n_dims, &error);
  g_assert_no_error (error);
  test_array_init (&to, fixture, dtype, gpu_array_get_shape (from.array, NULL), n_dims,
                   GPU_ARRAY_ORDER_C);
  check_copy (fixture, &to, &from);
}

/* Transposes matrices of several tiles, with elements of every size. The sides are multiples of a
 * tile, multiples of a word of 4 bytes, and neither. On a GPU, the library copies by a kernel with
 * tiles. */
static void
kernel_tiles (TestFixture *fixture)
{
  GpuDType *const dtypes[] = { PLAIN_DTYPES };
  const gssize shapes[][2] = {
    { 128, 128 }, { 256, 128 }, { 132, 260 }, { 260, 68 }, { 64, 132 }, { 130, 134 }, { 129, 131 },
    { 16, 200 }, { 200, 16 }, { 15, 200 }, { 200, 15 }, { 18, 17 }, { 20, 24 }
  };
  const guint axes[] = { 1, 0 };
  const gssize steps[][2] = { { 1, 1 }, { 1, 2 }, { 2, 1 }, { -1, 1 }, { 1, -1 } };

  for (guint i = 0; i < G_N_ELEMENTS (dtypes); i++)
    for (guint k = 0; k < G_N_ELEMENTS (shapes); k++)
      check_turned (fixture, dtypes[i], shapes[k], 2, axes, steps[(i + k) % 2 == 0 ? 0 : k % 5]);
}

/* The same with more dimensions: each order of the axes, so that each axis is the one of the source
 * or the one of the destination, or none of the two. */
static void
kernel_tiles_of_many (TestFixture *fixture)
{
  static const guint orders[][4] = {
    { 3, 2, 1, 0 }, { 0, 1, 3, 2 }, { 3, 0, 1, 2 }, { 1, 3, 0, 2 }, { 2, 3, 0, 1 }, { 3, 1, 2, 0 },
    { 1, 0, 2, 3 }, { 2, 1, 0, 3 }
  };
  GpuDType *const dtypes[] = { PLAIN_DTYPES };
  const gssize steps[] = { 1, 1, 1, 1 };
  const gssize other_steps[] = { -1, 2, 1, -2 };

  for (guint i = 0; i < G_N_ELEMENTS (orders); i++)
    for (guint k = 0; k < G_N_ELEMENTS (dtypes); k++)
      {
        const gssize shape[] = { 16 + 4 * g_test_rand_int_range (0, 4), 3,
                                 g_test_rand_int_range (2, 5), 4 * g_test_rand_int_range (4, 40) };
        const gssize odd[] = { 17, 3, 2, g_test_rand_int_range (16, 140) };

        check_turned (fixture, dtypes[k], shape, 4, orders[i], steps);
        check_turned (fixture, dtypes[k], odd, 4, orders[i], i % 2 == 0 ? steps : other_steps);
      }
}

/* Transposes bytes and shorts. The rows are 140 and 148 elements apart, so that they can be copied
 * in words of 4 bytes. But the first element is not always at a multiple of 4 bytes, and the rows
 * may end within a word, in the source or in the destination. */
static void
kernel_shifted_words (TestFixture *fixture)
{
  const gssize shapes[][2] = { { 140, 148 }, { 139, 148 }, { 140, 145 }, { 137, 146 } };
  const gsize total = 50000;
  g_autoptr (GBytes) content = test_random_bytes (total);
  g_autoptr (GpuBuffer) to_memory = test_buffer_from (fixture, content);
  g_autoptr (GpuBuffer) from_memory = test_buffer_from (fixture, content);

  for (guint i = 0; i < 2 * 4 * 5 * 5; i++)
    {
      const gssize size = 1 + i % 2;
      GpuDType *dtype = size == 1 ? GPU_DTYPE_UINT8 : GPU_DTYPE_UINT16;
      const gssize to_strides[] = { 148 * size, size };
      const gssize from_strides[] = { size, 140 * size };
      const gssize *shape = shapes[i / 2 % 4];
      const gsize to_offset = i / 8 % 5 * (gsize) size;
      const gsize from_offset = i / 40 * (gsize) size;
      g_autoptr (GError) error = NULL;
      g_auto (TestArray) to = { .size = total };
      g_auto (TestArray) from = { .size = total };

      to.memory = g_memdup2 (g_bytes_get_data (content, NULL), total);
      from.memory = g_memdup2 (to.memory, total);
      test_assert_ok (gpu_buffer_write_bytes (to_memory, NULL, 0, content, NULL, &error), error);
      to.array = gpu_array_new_for_memory (GPU_MEMORY (to_memory), to_offset, dtype, shape, 2,
                                           to_strides, 2, &error);
      g_assert_no_error (error);
      from.array = gpu_array_new_for_memory (GPU_MEMORY (from_memory), from_offset, dtype, shape, 2,
                                             from_strides, 2, &error);
      g_assert_no_error (error);
      check_copy (fixture, &to, &from);
    }
}

/* Copies columns and short rows of a matrix, with units of every size, in more than one group of
 * work-items and with a rest. */
static void
kernel_columns (TestFixture *fixture)
{
  GpuDType *const dtypes[] = { PLAIN_DTYPES };
  const guint axes[] = { 0, 1, 2 };

  for (guint i = 0; i < G_N_ELEMENTS (dtypes); i++)
    for (gssize step = 2; step <= 8; step += 3)
      {
        const gssize shape[] = { 83, 97, 3 };
        const gssize even_shape[] = { 64, 128, 2 };
        const gssize steps[] = { 1, step, 1 };
        const gssize other_steps[] = { step, 1, 2 };

        check_turned (fixture, dtypes[i], shape, 3, axes, steps);
        check_turned (fixture, dtypes[i], even_shape, 3, axes, steps);
        check_turned (fixture, dtypes[i], shape, 3, axes, other_steps);
      }
}

/* Copies 18 regions of 2 MiB each, which on a GPU are one launch. */
static void
kernel_long_rows (TestFixture *fixture)
{
  const gssize shape[] = { 2, 18, 65536 };
  const guint axes[] = { 1, 0, 2 };
  const gssize steps[] = { 1, 1, 1 };

  check_turned (fixture, GPU_DTYPE_COMPLEX128, shape, 3, axes, steps);
}

/* Copies elements that are so far apart that the memory is larger than the cache of a GPU. */
static void
kernel_large (TestFixture *fixture)
{
  GpuDType *const dtypes[] = { PLAIN_DTYPES };
  const gssize shape[] = { 4111, 3 };
  const gsize size = (gsize) 66 << 20;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) memory = gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_NONE, size,
                                                 &error);

  g_assert_no_error (error);

  for (guint i = 0; i < 2 * G_N_ELEMENTS (dtypes); i++)
    {
      GpuDType *dtype = dtypes[i / 2];
      const gssize strides[] = { (gssize) size / shape[0] / 32 * 32, 32 };
      g_autoptr (GpuArray) sparse = gpu_array_new_for_memory (GPU_MEMORY (memory), 0, dtype, shape,
                                                              2, strides, 2, &error);
      g_autoptr (GpuArray) packed = NULL;
      g_autoptr (GBytes) content = NULL;
      g_autoptr (GBytes) got = NULL;
      GpuArray *to;

      g_assert_no_error (error);
      packed = gpu_array_new (fixture->context, dtype, shape, 2, &error);
      g_assert_no_error (error);
      to = i % 2 == 0 ? packed : sparse;
      content = test_random_bytes (gpu_array_get_size (packed));
      test_assert_ok (gpu_array_write_bytes (i % 2 == 0 ? sparse : packed, fixture->stream,
                                             GPU_ARRAY_ORDER_C, content, NULL, &error), error);
      test_assert_ok (gpu_stream_copy_array (fixture->stream, to, i % 2 == 0 ? sparse : packed,
                                             &error), error);
      got = gpu_array_read_bytes (to, fixture->stream, GPU_ARRAY_ORDER_C, NULL, &error);
      g_assert_no_error (error);
      test_assert_bytes (got, content);
    }
}

/* Copies arrays with more dimensions than a grid. No two of these dimensions can be merged. */
static void
kernel_many_dimensions (TestFixture *fixture)
{
  g_auto (TestArray) to = { NULL };
  g_auto (TestArray) from = { NULL };
  gssize shape[11];

  for (guint i = 0; i < G_N_ELEMENTS (shape); i++)
    shape[i] = i == 4 ? 3 : 2;

  test_array_init (&to, fixture, GPU_DTYPE_UINT16, shape, 11, GPU_ARRAY_ORDER_C);
  test_array_init (&from, fixture, GPU_DTYPE_UINT16, shape, 11, GPU_ARRAY_ORDER_F);
  check_copy (fixture, &to, &from);
}

/* Copies elements whose addresses are not multiples of their size. */
static void
kernel_unaligned (TestFixture *fixture)
{
  const gssize shape[] = { 40, 30 };
  const gssize to_strides[] = { 4, 163 };
  const gssize from_strides[] = { 121, 4 };
  g_autoptr (GBytes) content = test_random_bytes (5000);
  g_autoptr (GError) error = NULL;
  g_auto (TestArray) to = { .size = 5000 };
  g_auto (TestArray) from = { .size = 5000 };
  g_autoptr (GpuBuffer) to_memory = test_buffer_from (fixture, content);
  g_autoptr (GpuBuffer) from_memory = test_buffer_from (fixture, content);

  to.memory = g_memdup2 (g_bytes_get_data (content, NULL), 5000);
  from.memory = g_memdup2 (to.memory, 5000);
  to.array = gpu_array_new_for_memory (GPU_MEMORY (to_memory), 3, GPU_DTYPE_FLOAT32, shape, 2,
                                       to_strides, 2, &error);
  g_assert_no_error (error);
  from.array = gpu_array_new_for_memory (GPU_MEMORY (from_memory), 1, GPU_DTYPE_FLOAT32, shape, 2,
                                         from_strides, 2, &error);
  g_assert_no_error (error);
  check_copy (fixture, &to, &from);
}

/* Copies one region with many short rows. On a GPU a kernel is faster than the driver
 * for such a region. */
static void
kernel_narrow_rows (TestFixture *fixture)
{
  const gssize shape[] = { 100, 110 };
  g_auto (TestArray) to = { NULL };
  g_auto (TestArray) from = { NULL };
  g_autoptr (GpuArray) to_whole = NULL;
  g_autoptr (GpuArray) from_whole = NULL;
  g_autoptr (GError) error = NULL;
  const guint before = count_live ("kernel-core");

  test_array_init (&to, fixture, GPU_DTYPE_FLOAT32, shape, 2, GPU_ARRAY_ORDER_C);
  test_array_init (&from, fixture, GPU_DTYPE_FLOAT32, shape, 2, GPU_ARRAY_ORDER_C);
  to_whole = g_steal_pointer (&to.array);
  from_whole = g_steal_pointer (&from.array);
  to.array = gpu_array_slice (to_whole, 1, 0, G_MAXSSIZE, 2, &error);
  g_assert_no_error (error);
  from.array = gpu_array_slice (from_whole, 1, 1, G_MAXSSIZE, 2, &error);
  g_assert_no_error (error);
  check_copy (fixture, &to, &from);

  if (gpu_device_get_device_type (fixture->device) == GPU_DEVICE_TYPE_GPU)
    g_assert_cmpuint (count_live ("kernel-core") > before, ==, has_compiler (fixture));
}

/* Copies from a source with stride 0, which repeats the elements. */
static void
kernel_repeated (TestFixture *fixture)
{
  const gssize shape[] = { 50, 7 };
  const gssize column[] = { 50, 1 };
  g_auto (TestArray) to = { NULL };
  g_auto (TestArray) from = { NULL };
  g_autoptr (GpuArray) one = NULL;
  g_autoptr (GError) error = NULL;

  test_array_init (&to, fixture, GPU_DTYPE_FLOAT32, shape, 2, GPU_ARRAY_ORDER_F);
  test_array_init (&from, fixture, GPU_DTYPE_FLOAT32, column, 2, GPU_ARRAY_ORDER_C);
  one = g_steal_pointer (&from.array);
  from.array = gpu_array_broadcast (one, shape, 2, &error);
  g_assert_no_error (error);
  check_copy (fixture, &to, &from);
}

/* Copies from or to memory of a pool, and memory that kernels cannot access or must not write. */
static void
check_memory (TestFixture *fixture,
              GpuMemory   *to_memory,
              GpuMemory   *from_memory)
{
  const gssize shape[] = { 30, 40 };
  const gssize strides[] = { 4, 120 };
  g_autoptr (GBytes) content = test_random_bytes (4800);
  g_autoptr (GBytes) got = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuArray) to = gpu_array_new_for_memory (to_memory, 0, GPU_DTYPE_FLOAT32, shape, 2,
                                                      NULL, 0, &error);
  g_autoptr (GpuArray) from = NULL;

  g_assert_no_error (error);
  from = gpu_array_new_for_memory (from_memory, 0, GPU_DTYPE_FLOAT32, shape, 2, strides, 2,
                                   &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_array_write_bytes (from, fixture->stream, GPU_ARRAY_ORDER_C, content, NULL,
                                         &error), error);
  test_assert_ok (gpu_stream_copy_array (fixture->stream, to, from, &error), error);
  got = gpu_array_read_bytes (to, fixture->stream, GPU_ARRAY_ORDER_C, NULL, &error);
  g_assert_no_error (error);
  test_assert_bytes (got, content);
}

static GpuMemory *
new_memory (TestFixture    *fixture,
            GpuMemoryFlags  flags)
{
  g_autoptr (GError) error = NULL;
  GpuBuffer *buffer = gpu_buffer_new (fixture->context, flags, 4800, &error);

  g_assert_no_error (error);

  return GPU_MEMORY (buffer);
}

static void
kernel_memory (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMemory) plain = new_memory (fixture, GPU_MEMORY_FLAGS_NONE);
  g_autoptr (GpuMemory) read_only = new_memory (fixture, GPU_MEMORY_FLAGS_READ_ONLY);
  g_autoptr (GpuMemory) write_only = new_memory (fixture, GPU_MEMORY_FLAGS_WRITE_ONLY);
  g_autoptr (GpuHostMemory) host = gpu_host_memory_new (fixture->context,
                                                        GPU_HOST_MEMORY_FLAGS_NONE,
                                                        4800, &error);
  g_autoptr (GpuMemoryPool) pool = gpu_memory_pool_new (fixture->context, GPU_MEMORY_POOL_AUTOMATIC,
                                                        GPU_MEMORY_FLAGS_NONE, &error);
  g_autoptr (GpuBuffer) first = NULL;
  g_autoptr (GpuBuffer) second = NULL;

  g_assert_no_error (error);
  first = gpu_memory_pool_alloc_buffer (pool, 4800, fixture->stream, &error);
  g_assert_no_error (error);
  second = gpu_memory_pool_alloc_buffer (pool, 4800, fixture->stream, &error);
  g_assert_no_error (error);

  check_memory (fixture, plain, read_only);
  check_memory (fixture, read_only, plain);
  check_memory (fixture, plain, write_only);
  check_memory (fixture, plain, GPU_MEMORY (host));
  check_memory (fixture, GPU_MEMORY (host), plain);
  check_memory (fixture, GPU_MEMORY (first), GPU_MEMORY (second));
}

/* A mapping of bytes in the gap between two regions does not block the copy. */
static void
kernel_mapped_gap (TestFixture *fixture)
{
  const gssize shape[] = { 24, 40 };
  const gssize to_strides[] = { 4, 200 };
  const gssize from_strides[] = { 160, 4 };
  g_autoptr (GpuMemory) memory = new_memory (fixture, GPU_MEMORY_FLAGS_NONE);
  g_autoptr (GpuBuffer) large = test_buffer_filled (fixture, 8192, 1);
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuArray) to = gpu_array_new_for_memory (GPU_MEMORY (large), 0, GPU_DTYPE_FLOAT32,
                                                      shape, 2, to_strides, 2, &error);
  g_autoptr (GpuArray) from = NULL;
  g_autoptr (GpuMapping) mapping = NULL;
  g_autoptr (GBytes) content = test_random_bytes (3840);
  g_autoptr (GBytes) got = NULL;

  g_assert_no_error (error);
  from = gpu_array_new_for_memory (memory, 0, GPU_DTYPE_FLOAT32, shape, 2, from_strides, 2,
                                   &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_array_write_bytes (from, NULL, GPU_ARRAY_ORDER_C, content, NULL, &error),
                  error);
  mapping = gpu_buffer_map (large, NULL, GPU_MAP_FLAGS_WRITE, 100, 50, NULL, &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_stream_copy_array (fixture->stream, to, from, &error), error);
  test_assert_ok (gpu_mapping_unmap (mapping, &error), error);
  got = gpu_array_read_bytes (to, NULL, GPU_ARRAY_ORDER_C, NULL, &error);
  g_assert_no_error (error);
  test_assert_bytes (got, content);
}

/* A copy by a kernel is ordered with other work on its stream and on other streams, and keeps the
 * memory of both arrays alive. */
static void
kernel_order (TestFixture *fixture)
{
  const gssize shape[] = { 64, 64 };
  g_autoptr (GpuStream) other = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GError) error = NULL;

  for (guint8 i = 0; i < 50; i++)
    {
      g_autoptr (GBytes) value = g_bytes_new (&i, 1);
      g_autoptr (GpuArray) from = gpu_array_new (fixture->context, GPU_DTYPE_UINT8, shape, 2,
                                                 &error);
      g_autoptr (GpuArray) turned = gpu_array_transpose (from, NULL, 0, &error);
      g_autoptr (GpuArray) to = gpu_array_new (fixture->context, GPU_DTYPE_UINT8, shape, 2, &error);
      g_autoptr (GBytes) got = NULL;

      g_assert_no_error (error);
      test_assert_ok (gpu_stream_fill_array (other, from, value, &error), error);
      test_assert_ok (gpu_stream_copy_array (fixture->stream, to, turned, &error), error);
      g_clear_object (&turned);
      g_clear_object (&from);
      got = gpu_array_read_bytes (to, other, GPU_ARRAY_ORDER_C, NULL, &error);
      g_assert_no_error (error);

      for (gsize k = 0; k < 4096; k++)
        g_assert_cmpuint (((const guint8 *) g_bytes_get_data (got, NULL))[k], ==, i);
    }
}

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);
  test_add ("permuted", kernel_permuted);
  test_add ("filled", kernel_filled);
#ifdef HAVE_CUDA
  test_add ("filled-at-once", kernel_filled_at_once);
#endif
  test_add ("tiles", kernel_tiles);
  test_add ("tiles-of-many-dimensions", kernel_tiles_of_many);
  test_add ("shifted-words", kernel_shifted_words);
  test_add ("columns", kernel_columns);
  test_add ("long-rows", kernel_long_rows);
  test_add ("large", kernel_large);
  test_add ("many-dimensions", kernel_many_dimensions);
  test_add ("unaligned", kernel_unaligned);
  test_add ("narrow-rows", kernel_narrow_rows);
  test_add ("repeated", kernel_repeated);
  test_add ("memory", kernel_memory);
  test_add ("mapped-gap", kernel_mapped_gap);
  test_add ("order", kernel_order);

  return test_run ();
}
