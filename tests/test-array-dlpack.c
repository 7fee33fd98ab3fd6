/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Exports and imports of DLPack tensors on every device. */
#include "config.h"

#include "gpumem/format/gpu-dlpack-private.h"
#include "test-util.h"

#define N        12
#define OWN_SIZE 65536

/* A tensor of another library over memory that the context can access. */
typedef struct
{
  GpuDLVersioned  tensor;
  GpuDLVersioned *inner;
  gint64          shape[GPU_ARRAY_MAX_DIMS + 1];
  gint64          strides[GPU_ARRAY_MAX_DIMS + 1];
  gint            n_deleted;        /* atomic */
} Foreign;

static void
count_deleted (GpuDLVersioned *tensor)
{
  g_atomic_int_inc (&((Foreign *) tensor->manager)->n_deleted);
}

static GpuArray *
make_array (TestFixture *fixture,
            GBytes      *bytes)
{
  const gssize shape[] = { N };
  g_autoptr (GError) error = NULL;
  GpuArray *array = gpu_array_new_from_bytes (fixture->context, NULL, NULL, GPU_DTYPE_INT32, shape,
                                              1, GPU_ARRAY_ORDER_C, bytes, &error);

  g_assert_no_error (error);
  test_synchronize (fixture->stream);

  return array;
}

static void
foreign_init (Foreign  *foreign,
              GpuArray *array)
{
  g_autoptr (GError) error = NULL;

  *foreign = (Foreign) { .shape = { N }, .strides = { 1 } };
  foreign->inner = gpu_array_to_dlpack (array, TRUE, FALSE, &error);
  g_assert_no_error (error);
  foreign->tensor = *foreign->inner;
  foreign->tensor.manager = foreign;
  foreign->tensor.deleter = count_deleted;
  foreign->tensor.tensor.shape = foreign->shape;
  foreign->tensor.tensor.strides = foreign->strides;
}

static void
await_deleted (Foreign *foreign)
{
  while (g_atomic_int_get (&foreign->n_deleted) == 0)
    g_usleep (1000);

  g_assert_cmpint (foreign->n_deleted, ==, 1);
  gpu_dlpack_free (foreign->inner, TRUE);
}

static void
assert_elements (GpuArray   *array,
                 const void *expected,
                 gsize       size)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) got = gpu_array_read_bytes (array, NULL, GPU_ARRAY_ORDER_C, NULL, &error);

  g_assert_no_error (error);
  g_assert_cmpmem (g_bytes_get_data (got, NULL), g_bytes_get_size (got), expected, size);
}

/* Imports a tensor without strides, and a tensor with a byte offset. */
static void
dlpack_taken (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (4 * N);
  g_autoptr (GpuArray) array = make_array (fixture, bytes);
  g_autoptr (GpuArray) taken = NULL;
  Foreign foreign;

  foreign_init (&foreign, array);
  foreign.tensor.tensor.strides = NULL;
  foreign.tensor.tensor.n_dims = 2;
  foreign.shape[0] = 2;
  foreign.shape[1] = 5;
  foreign.tensor.tensor.byte_offset += 8;
  taken = gpu_array_new_from_dlpack (fixture->context, &foreign, TRUE, &error);
  g_assert_no_error (error);
  g_assert_true (gpu_array_is_writable (taken));
  assert_elements (taken, (const guint8 *) g_bytes_get_data (bytes, NULL) + 8, 40);
  g_assert_cmpint (foreign.n_deleted, ==, 0);
  g_clear_object (&taken);
  await_deleted (&foreign);
}

static void
dlpack_read_only (TestFixture *fixture)
{
  const gssize shape[] = { 2, N };
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (4 * N);
  g_autoptr (GpuArray) array = make_array (fixture, bytes);
  g_autoptr (GpuArray) repeated = gpu_array_broadcast (array, shape, 2, &error);
  g_autoptr (GpuArray) taken = NULL;
  GpuDLVersioned *given;
  Foreign foreign;

  g_assert_no_error (error);
  g_assert_true (gpu_array_is_writable (array));
  g_assert_false (gpu_array_is_writable (repeated));
  g_assert_null (gpu_array_to_dlpack (repeated, FALSE, FALSE, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "read-only");
  given = gpu_array_to_dlpack (repeated, TRUE, FALSE, &error);
  g_assert_cmpuint (given->flags, ==, GPU_DLPACK_READ_ONLY);
  gpu_dlpack_free (given, TRUE);
  gpu_dlpack_free (NULL, FALSE);

  foreign_init (&foreign, array);
  g_assert_cmpuint (foreign.tensor.flags, ==, 0);
  foreign.tensor.flags = GPU_DLPACK_READ_ONLY;
  taken = gpu_array_new_from_dlpack (fixture->context, &foreign, TRUE, &error);
  g_assert_no_error (error);
  g_assert_false (gpu_array_is_writable (taken));
  g_assert_false (gpu_array_write_bytes (taken, NULL, GPU_ARRAY_ORDER_C, bytes, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT);
  assert_elements (taken, g_bytes_get_data (bytes, NULL), 4 * N);
  g_clear_object (&taken);
  await_deleted (&foreign);
}

/* DLPack counts strides in elements. */
static void
dlpack_odd_stride (TestFixture *fixture)
{
  const gssize shape[] = { 2, 3 };
  const gssize strides[] = { 18, 6 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, 64);
  g_autoptr (GpuArray) array = gpu_array_new_for_memory ((GpuMemory *) buffer, 0, GPU_DTYPE_INT32,
                                                         shape, 2, strides, 2, &error);

  g_assert_no_error (error);
  g_assert_null (gpu_array_to_dlpack (array, TRUE, FALSE, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_array_to_dlpack", "shape (2, 3)",
                         "strides (18, 6)", "DLPack");
}

/* A failed import leaves the tensor to the caller. */
static void
dlpack_refused (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (4 * N);
  g_autoptr (GpuArray) array = make_array (fixture, bytes);
  Foreign foreign;

  foreign_init (&foreign, array);
  foreign.tensor.major++;
  g_assert_null (gpu_array_new_from_dlpack (fixture->context, &foreign, TRUE, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "version");
  foreign.tensor.major--;
  foreign.tensor.tensor.n_dims = -1;
  g_assert_null (gpu_array_new_from_dlpack (fixture->context, &foreign, TRUE, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "-1 dimensions");
  foreign.tensor.tensor.n_dims = GPU_ARRAY_MAX_DIMS + 1;
  g_assert_null (gpu_array_new_from_dlpack (fixture->context, &foreign, TRUE, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "33 dimensions");
  foreign.tensor.tensor.n_dims = 1;
  foreign.tensor.tensor.shape = NULL;
  g_assert_null (gpu_array_new_from_dlpack (fixture->context, &foreign, TRUE, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "without a shape");
  foreign.tensor.tensor.shape = foreign.shape;
  foreign.strides[0] = G_GINT64_CONSTANT (1) << 62;
  g_assert_null (gpu_array_new_from_dlpack (fixture->context, &foreign, TRUE, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "4611686018427387904");
  g_assert_cmpint (foreign.n_deleted, ==, 0);
  gpu_dlpack_free (foreign.inner, TRUE);
}

/* The import calls the deleter of a tensor without elements once. */
static void
dlpack_empty (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (4 * N);
  g_autoptr (GpuArray) array = make_array (fixture, bytes);
  g_autoptr (GpuArray) taken = NULL;
  Foreign foreign;

  foreign_init (&foreign, array);
  foreign.shape[0] = 0;
  taken = gpu_array_new_from_dlpack (fixture->context, &foreign, TRUE, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (gpu_array_get_n_elements (taken), ==, 0);
  g_assert_cmpint (g_atomic_int_get (&foreign.n_deleted), ==, 1);
  g_clear_object (&taken);
  await_deleted (&foreign);
}

static gpointer
free_tensor (gpointer tensor)
{
  gpu_dlpack_free (tensor, FALSE);

  return NULL;
}

static void
dlpack_given (TestFixture *fixture)
{
  const gssize shape[] = { N };
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (4 * N);
  g_autoptr (GpuArray) array = make_array (fixture, bytes);
  g_autoptr (GpuBuffer) buffer = gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_HOST_NO_ACCESS,
                                                 4 * N,
                                                 &error);
  g_autoptr (GpuArray) barred = gpu_array_new_for_memory ((GpuMemory *) buffer, 0, GPU_DTYPE_INT32,
                                                          shape, 1, NULL, 0, &error);
  GpuDLManaged *given = gpu_array_to_dlpack (array, FALSE, FALSE, &error);
  GpuDLVersioned *other;
  int type;
  int id;

  g_assert_no_error (error);
  g_assert_true (gpu_array_get_dlpack_device (array, &type, &id));
  g_assert_cmpint (given->tensor.device_type, ==, type);
  g_assert_cmpint (given->tensor.device_id, ==, id);
  gpu_memory_release (gpu_array_get_memory (array));
  g_assert_null (gpu_array_to_dlpack (array, TRUE, FALSE, &error));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED);
  g_thread_join (g_thread_new ("deleter", free_tensor, given));

  other = gpu_array_to_dlpack (barred, TRUE, FALSE, &error);

  if (other == NULL)
    test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "address");
  else
    {
      g_assert_cmpint (other->tensor.device_type, !=, GPU_DL_CPU);
      g_assert_nonnull (other->tensor.data);
    }

  gpu_dlpack_free (other, TRUE);
}

/* --- the library's own tensors ------------------------------------------------------------- */

/* Time in microseconds after which submitted work has completed, unless it waits for other work. */
#define SHORT_WAIT 20000

typedef enum
{
  BUFFER,
  SLICE,
  POOLED,
  POOLED_SLICE,
  N_KINDS
} Kind;

/* An array, and an import of its exported tensor. */
typedef struct
{
  GpuMemoryPool *pool;
  GpuBuffer     *whole;
  GpuBuffer     *buffer;
  GpuArray      *array;
  GpuArray      *taken;
} Own;

static GpuArray *
array_over (GpuBuffer *buffer)
{
  const gssize shape[] = { OWN_SIZE / 4 };
  g_autoptr (GError) error = NULL;
  GpuArray *array = gpu_array_new_for_memory (GPU_MEMORY (buffer), 0, GPU_DTYPE_INT32, shape, 1,
                                              NULL, 0, &error);

  g_assert_no_error (error);
  return array;
}

static GpuArray *
take (TestFixture *fixture, GpuArray *array)
{
  g_autoptr (GError) error = NULL;
  gboolean versioned = g_test_rand_bit ();
  gpointer tensor = gpu_array_to_dlpack (array, versioned, FALSE, &error);
  GpuArray *taken;

  g_assert_no_error (error);
  taken = gpu_array_new_from_dlpack (fixture->context, tensor, versioned, &error);
  g_assert_no_error (error);
  return taken;
}

static void
own_init (Own *own, TestFixture *fixture, Kind kind)
{
  const gboolean is_slice = kind == SLICE || kind == POOLED_SLICE;
  const gsize size = is_slice ? 3 * OWN_SIZE : OWN_SIZE;
  g_autoptr (GError) error = NULL;

  *own = (Own) { NULL };
  if (kind == POOLED || kind == POOLED_SLICE)
    {
      own->pool = gpu_memory_pool_new (fixture->context, GPU_MEMORY_POOL_AUTOMATIC,
                                       GPU_MEMORY_FLAGS_NONE, &error);
      g_assert_no_error (error);
      own->whole = gpu_memory_pool_alloc_buffer (own->pool, size, NULL, &error);
    }
  else
    own->whole = gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_NONE, size, &error);
  g_assert_no_error (error);
  own->buffer = is_slice ? gpu_buffer_slice (own->whole, OWN_SIZE, OWN_SIZE, &error)
                         : g_object_ref (own->whole);
  g_assert_no_error (error);
  own->array = array_over (own->buffer);
  own->taken = take (fixture, own->array);
}

static void
own_drop (Own *own)
{
  g_clear_object (&own->array);
  g_clear_object (&own->buffer);
  g_clear_object (&own->whole);
}

static void
own_clear (Own *own)
{
  own_drop (own);
  g_clear_object (&own->taken);
  g_clear_object (&own->pool);
}

static void
fill (GpuStream *stream, GpuArray *array, guint8 value)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_stream_fill (stream, gpu_array_get_memory (array), 0, OWN_SIZE, &value, 1,
                                   &error), error);
}

static void
copy (GpuStream *stream, GpuBuffer *to, GpuArray *from)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (to), 0, gpu_array_get_memory (from), 0,
                                   OWN_SIZE, &error), error);
}

/* Waits long enough that submitted work completes, unless it waits for other work. */
static void
linger (GpuStream *stream)
{
  g_autoptr (GpuEvent) event = test_record (stream);

  gpu_event_wait_timeout (event, SHORT_WAIT, NULL, NULL);
}

static void
assert_value (GpuBuffer *buffer, guint8 value)
{
  g_autoptr (GBytes) expected = test_value_bytes (OWN_SIZE, value);

  test_assert_content (buffer, expected);
}

/* @writer and @reader are an array and an import of this array, in either order. Submits a write to
 * @writer on a blocked stream, and then a copy from @reader. The copy must read the written
 * bytes. */
static void
check_read_after_write (TestFixture *fixture, GpuArray *writer, GpuArray *reader)
{
  g_autoptr (GpuStream) writes = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) copies = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) out = test_buffer_filled (fixture, OWN_SIZE, 9);
  TestHold *hold;

  fill (writes, writer, 1);
  test_synchronize (writes);
  hold = test_hold (writes);
  fill (writes, writer, 2);
  copy (copies, out, reader);
  linger (copies);
  test_hold_release (hold);
  assert_value (out, 2);
  test_synchronize (writes);
  test_hold_free (hold);
}

/* @reader and @writer are an array and an import of this array, in either order. Submits a copy
 * from @reader on a blocked stream, and then a write to @writer. The write must not overtake the
 * copy. */
static void
check_write_after_read (TestFixture *fixture, GpuArray *reader, GpuArray *writer)
{
  g_autoptr (GpuStream) writes = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) copies = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) out = test_buffer_filled (fixture, OWN_SIZE, 9);
  TestHold *hold;

  fill (writes, writer, 3);
  test_synchronize (writes);
  hold = test_hold (copies);
  copy (copies, out, reader);
  fill (writes, writer, 4);
  linger (writes);
  test_hold_release (hold);
  assert_value (out, 3);
  test_synchronize (writes);
  test_hold_free (hold);
}

/* An array is exported as a tensor and imported again. Uses of the array and uses of the imported
 * array are ordered after each other, because both have the same memory. */
static void
dlpack_own_hazards (TestFixture *fixture)
{
  if (!test_can_hold (fixture))
    return;
  for (Kind kind = BUFFER; kind < N_KINDS; kind++)
    {
      g_autoptr (GpuArray) again = NULL;
      Own own;

      own_init (&own, fixture, kind);
      check_read_after_write (fixture, own.array, own.taken);
      check_read_after_write (fixture, own.taken, own.array);
      check_write_after_read (fixture, own.array, own.taken);
      check_write_after_read (fixture, own.taken, own.array);
      again = take (fixture, own.taken);
      check_read_after_write (fixture, own.array, again);
      check_write_after_read (fixture, again, own.taken);
      own_clear (&own);
    }
}

/* After the release of the exported array, the import keeps the memory alive, and work on the
 * import still waits for pending work on the memory. */
static void
dlpack_own_released (TestFixture *fixture)
{
  if (!test_can_hold (fixture))
    return;
  for (Kind kind = BUFFER; kind < N_KINDS; kind++)
    {
      g_autoptr (GpuStream) writes = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      g_autoptr (GpuStream) copies = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      g_autoptr (GpuBuffer) out = test_buffer_filled (fixture, OWN_SIZE, 9);
      g_autoptr (GpuBuffer) next = NULL;
      guint8 eights = 8;
      TestHold *hold;
      Own own;

      own_init (&own, fixture, kind);
      fill (writes, own.array, 1);
      test_synchronize (writes);
      hold = test_hold (writes);
      fill (writes, own.array, 2);
      gpu_memory_release (GPU_MEMORY (own.buffer));
      gpu_memory_release (GPU_MEMORY (own.whole));
      own_drop (&own);
      if (own.pool != NULL)
        {
          next = gpu_memory_pool_alloc_buffer (own.pool, OWN_SIZE, NULL, NULL);
          g_assert_true (gpu_stream_fill (copies, GPU_MEMORY (next), 0, OWN_SIZE, &eights, 1,
                                          NULL));
        }
      copy (copies, out, own.taken);
      linger (copies);
      test_hold_release (hold);
      assert_value (out, 2);
      own_clear (&own);
      test_synchronize (writes);
      test_hold_free (hold);
    }
}

/* Imports the tensor of an array over a part of the memory, and slices the memory of an imported
 * array. Both have the content of the original memory. */
static void
dlpack_own_part (TestFixture *fixture)
{
  const gssize shape[] = { 16 };
  const gssize strides[] = { -4 };

  for (Kind kind = BUFFER; kind < N_KINDS; kind++)
    {
      g_autoptr (GError) error = NULL;
      g_autofree gint32 *values = g_new (gint32, OWN_SIZE / 4);
      g_autoptr (GBytes) bytes = NULL;
      g_autoptr (GpuArray) part = NULL;
      g_autoptr (GpuArray) taken = NULL;
      g_autoptr (GpuBuffer) half = NULL;
      g_autoptr (GpuArray) of_half = NULL;
      g_autoptr (GBytes) got = NULL;
      gint32 expected[16];
      Own own;

      own_init (&own, fixture, kind);
      for (gint32 i = 0; i < OWN_SIZE / 4; i++)
        values[i] = i;
      for (gint32 i = 0; i < 16; i++)
        expected[i] = 100 - i;
      bytes = g_bytes_new (values, OWN_SIZE);
      test_assert_ok (gpu_array_write_bytes (own.taken, NULL, GPU_ARRAY_ORDER_C, bytes, NULL,
                                             &error), error);
      part = gpu_array_new_for_memory (GPU_MEMORY (own.buffer), 400, GPU_DTYPE_INT32, shape, 1,
                                       strides, 1, &error);
      g_assert_no_error (error);
      taken = take (fixture, part);
      assert_elements (taken, expected, sizeof expected);
      half = gpu_buffer_slice (GPU_BUFFER (gpu_array_get_memory (own.taken)), OWN_SIZE / 2,
                               OWN_SIZE / 2, &error);
      g_assert_no_error (error);
      got = test_content (half);
      g_assert_cmpmem (g_bytes_get_data (got, NULL), OWN_SIZE / 2, values + OWN_SIZE / 8,
                       OWN_SIZE / 2);
      own_clear (&own);
    }
}

/* An import of a read-only tensor is read-only. Slices of the import, and imports of a tensor
 * exported from it, are read-only too. */
static void
dlpack_own_read_only (TestFixture *fixture)
{
  for (Kind kind = BUFFER; kind < N_KINDS; kind++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuArray) constant = NULL;
      g_autoptr (GpuArray) again = NULL;
      g_autoptr (GpuBuffer) part = NULL;
      GpuDLVersioned *tensor;
      guint8 value = 6;
      Own own;

      own_init (&own, fixture, kind);
      fill (fixture->stream, own.array, 5);
      tensor = gpu_array_to_dlpack (own.array, TRUE, FALSE, &error);
      g_assert_no_error (error);
      tensor->flags |= GPU_DLPACK_READ_ONLY;
      constant = gpu_array_new_from_dlpack (fixture->context, tensor, TRUE, &error);
      g_assert_no_error (error);
      tensor = gpu_array_to_dlpack (constant, TRUE, FALSE, &error);
      g_assert_no_error (error);
      tensor->flags = 0;
      again = gpu_array_new_from_dlpack (fixture->context, tensor, TRUE, &error);
      g_assert_no_error (error);
      g_assert_false (gpu_array_is_writable (constant));
      g_assert_false (gpu_array_is_writable (again));
      g_assert_true (gpu_array_is_writable (own.taken));
      g_assert_false (gpu_stream_fill (fixture->stream, gpu_array_get_memory (again), 0, OWN_SIZE,
                                       &value, 1, &error));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "read only");
      part = gpu_buffer_slice (GPU_BUFFER (gpu_array_get_memory (constant)), 0, 4, &error);
      g_assert_no_error (error);
      g_assert_false (gpu_stream_fill (fixture->stream, GPU_MEMORY (part), 0, 4, &value, 1,
                                       &error));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "read only");
      assert_value (own.buffer, 5);
      fill (fixture->stream, own.taken, 7);
      assert_value (own.buffer, 7);
      own_clear (&own);
    }
}

/* A writable tensor is writable although a read-only tensor of the same memory is imported. */
static void
dlpack_beside_read_only (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) before = test_random_bytes (4 * N);
  g_autoptr (GBytes) after = test_random_bytes (4 * N);
  g_autoptr (GpuArray) array = make_array (fixture, before);
  g_autoptr (GpuContext) context = NULL;
  g_autoptr (GpuArray) constant = NULL;
  g_autoptr (GpuArray) writable = NULL;
  Foreign foreign[2];

  /* On OpenCL only the context of the array can access its memory. On other back ends, import into
   * another context, which does not track the memory. */
  context = test_is_opencl (fixture) ? g_object_ref (fixture->context)
            : gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  foreign_init (&foreign[0], array);
  foreign_init (&foreign[1], array);
  foreign[0].tensor.flags = GPU_DLPACK_READ_ONLY;
  constant = gpu_array_new_from_dlpack (context, &foreign[0], TRUE, &error);
  g_assert_no_error (error);
  writable = gpu_array_new_from_dlpack (context, &foreign[1], TRUE, &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_array_write_bytes (writable, NULL, GPU_ARRAY_ORDER_C, after, NULL, &error),
                  error);
  assert_elements (constant, g_bytes_get_data (after, NULL), 4 * N);
  g_assert_false (gpu_array_write_bytes (constant, NULL, GPU_ARRAY_ORDER_C, before, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT);
  g_clear_object (&constant);
  g_clear_object (&writable);
  await_deleted (&foreign[0]);
  await_deleted (&foreign[1]);
}

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);
  test_add ("taken", dlpack_taken);
  test_add ("read-only", dlpack_read_only);
  test_add ("odd-stride", dlpack_odd_stride);
  test_add ("refused", dlpack_refused);
  test_add ("empty", dlpack_empty);
  test_add ("given", dlpack_given);
  test_add ("own-hazards", dlpack_own_hazards);
  test_add ("own-released", dlpack_own_released);
  test_add ("own-part", dlpack_own_part);
  test_add ("own-read-only", dlpack_own_read_only);
  test_add ("beside-read-only", dlpack_beside_read_only);

  return test_run ();
}
