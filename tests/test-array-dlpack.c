/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Exports and imports of DLPack tensors on every device. */
#include "config.h"

#include "gpumem/format/gpu-dlpack-private.h"
#include "test-util.h"

#define N 12

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

/* Imports a tensor without strides, and one with a byte offset. */
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
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "only to be read");
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

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);
  test_add ("taken", dlpack_taken);
  test_add ("read-only", dlpack_read_only);
  test_add ("refused", dlpack_refused);
  test_add ("empty", dlpack_empty);
  test_add ("given", dlpack_given);

  return test_run ();
}
