/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Arrays, copies with various strides, and DLPack tensors, while driver calls fail. After a
 * failure, each step is repeated and must succeed: the library must report a failure only once, and
 * must leave a consistent state. */
#include "config.h"

#include <stdlib.h>

#include "fault-util.h"

#define ROWS 6
#define COLUMNS 10
#define N (ROWS * COLUMNS)
#define SIZE (N * sizeof (guint32))
#define N_MANY 2000
#define N_FEW 500
#define N_STRIDED 210

static const gssize shape[] = { ROWS, COLUMNS };

static GBytes *
numbers (void)
{
  guint32 data[N];

  for (guint32 i = 0; i < N; i++)
    data[i] = i + 1;
  return g_bytes_new (data, sizeof data);
}

static GpuArray *
make (GpuContext *context, GpuStream *stream, GError **error)
{
  g_autoptr (GBytes) bytes = numbers ();

  return gpu_array_new_from_bytes (context, NULL, stream, GPU_DTYPE_UINT32, shape, 2,
                                   GPU_ARRAY_ORDER_C, bytes, error);
}

/* Returns a view of every second column, in column-major order. The view consists of many
 * regions. */
static GpuArray *
narrow (GpuArray *array, GError **error)
{
  g_autoptr (GpuArray) part = gpu_array_slice (array, 1, 0, COLUMNS, 2, error);

  return part != NULL ? gpu_array_transpose (part, NULL, 0, error) : NULL;
}

static guint32
narrow_number (guint i)
{
  return (i % ROWS) * COLUMNS + i / ROWS * 2 + 1;
}

static void
expect (GBytes *bytes, gboolean narrowed, const char *what)
{
  gsize size;
  const guint32 *data = g_bytes_get_data (bytes, &size);

  for (guint i = 0; i < size / sizeof *data; i++)
    {
      guint32 number = narrowed ? narrow_number (i) : i + 1;

      if (data[i] == number)
        continue;
      g_printerr ("%s: element %u is %u, not %u, and no call failed\n", what, i, data[i], number);
      exit (1);
    }
}

static gboolean
check (GpuArray *array, GpuStream *stream, gboolean narrowed, const char *what, GError **error)
{
  g_autoptr (GBytes) bytes = gpu_array_read_bytes (array, stream, GPU_ARRAY_ORDER_C, NULL, error);

  if (bytes == NULL)
    return FALSE;
  expect (bytes, narrowed, what);
  return TRUE;
}

/* --- creation, copies to the host and back ---------------------------------------------------- */

static gboolean
fill (GpuContext *context, GError **error)
{
  static const guint32 value = 0x05050505;
  g_autoptr (GpuStream) stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);
  g_autoptr (GBytes) element = g_bytes_new_static (&value, sizeof value);
  g_autoptr (GpuArray) zeros = NULL;
  g_autoptr (GpuArray) part = NULL;
  g_autoptr (GBytes) content = NULL;

  if (stream == NULL)
    return FALSE;
  zeros = gpu_array_new_filled (context, NULL, stream, GPU_DTYPE_UINT32, shape, 2,
                                GPU_ARRAY_ORDER_F, NULL, error);
  if (zeros == NULL)
    return FALSE;
  content = gpu_array_read_bytes (zeros, stream, GPU_ARRAY_ORDER_C, NULL, error);
  if (content == NULL)
    return FALSE;
  fault_check (g_bytes_get_data (content, NULL), 0, SIZE, "zeros");
  part = narrow (zeros, error);
  if (part == NULL || !gpu_stream_fill_array (stream, part, element, error))
    return FALSE;
  g_clear_pointer (&content, g_bytes_unref);
  content = gpu_array_read_bytes (part, stream, GPU_ARRAY_ORDER_C, NULL, error);
  if (content == NULL)
    return FALSE;
  fault_check (g_bytes_get_data (content, NULL), 5, SIZE / 2, "filled");
  return TRUE;
}

static gboolean
write_and_read (GpuContext *context, GError **error)
{
  const gssize strides[] = { 2 * sizeof (guint32), COLUMNS * sizeof (guint32) };
  g_autoptr (GpuArray) array = gpu_array_new (context, GPU_DTYPE_UINT32, shape, 2, error);
  g_autoptr (GpuArray) part = NULL;
  g_autoptr (GBytes) bytes = numbers ();
  g_autoptr (GBytes) target = g_bytes_new_take (g_malloc0 (SIZE), SIZE);
  const guint32 *data = g_bytes_get_data (target, NULL);

  if (array == NULL)
    return FALSE;
  part = narrow (array, error);
  if (part == NULL || !gpu_array_write_strided (part, NULL, bytes, 0, strides, 2, NULL, error)
      || !check (part, NULL, TRUE, "written with strides", error)
      || !gpu_array_write_bytes (array, NULL, GPU_ARRAY_ORDER_C, bytes, NULL, error)
      || !gpu_array_read_strided (part, NULL, target, 0, strides, 2, NULL, error))
    return FALSE;
  for (guint i = 0; i < N; i++)
    fault_check (&data[i], (guint8) (i % 2 == 0 ? i + 1 : 0), 1, "read with strides");
  return check (array, NULL, FALSE, "written", error);
}

static gboolean
on_a_stream (GpuContext *context, GError **error)
{
  const gssize strides[] = { 2 * sizeof (guint32), COLUMNS * sizeof (guint32) };
  GpuDevice *device = gpu_context_get_device (context);
  gboolean has = (gpu_device_get_capabilities (device) & GPU_CAPABILITIES_OUT_OF_ORDER) != 0;
  g_autoptr (GpuStream) stream = gpu_stream_new (context, has ? GPU_STREAM_FLAGS_OUT_OF_ORDER
                                                              : GPU_STREAM_FLAGS_NONE, error);
  g_autoptr (GpuArray) array = NULL;
  g_autoptr (GpuArray) part = NULL;
  g_autoptr (GBytes) bytes = numbers ();
  g_autoptr (GBytes) target = g_bytes_new_take (g_malloc0 (SIZE / 2), SIZE / 2);

  if (stream == NULL)
    return FALSE;
  array = gpu_array_new (context, GPU_DTYPE_UINT32, shape, 2, error);
  if (array == NULL)
    return FALSE;
  part = narrow (array, error);
  if (part == NULL || !gpu_stream_write_array (stream, part, bytes, 0, strides, 2, error)
      || !gpu_stream_read_array (stream, part, target, 0, NULL, 0, error)
      || !gpu_stream_synchronize (stream, NULL, error))
    return FALSE;
  expect (target, TRUE, "read on a stream");
  return TRUE;
}

/* --- from array to array ---------------------------------------------------------------------- */

static gboolean
copy (GpuContext *context, GError **error)
{
  g_autoptr (GpuStream) stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);
  g_autoptr (GpuArray) array = stream != NULL ? make (context, stream, error) : NULL;
  g_autoptr (GpuArray) part = NULL;
  g_autoptr (GpuArray) dense = NULL;
  g_autoptr (GpuArray) back = NULL;

  if (array == NULL)
    return FALSE;
  part = narrow (array, error);
  if (part == NULL)
    return FALSE;
  dense = gpu_array_copy (part, NULL, NULL, error);
  if (dense == NULL || !check (dense, NULL, TRUE, "a copy", error))
    return FALSE;

  /* Reverse the array twice; all views share the memory. */
  back = gpu_array_slice (array, 0, G_MAXSSIZE, G_MINSSIZE, -1, error);
  return back != NULL && gpu_stream_copy_array (stream, array, back, error)
         && gpu_stream_copy_array (stream, back, array, error)
         && gpu_stream_copy_array (stream, array, back, error)
         && check (back, stream, FALSE, "turned around", error);
}

/* Copies so many regions that the library uses a kernel. If the kernel cannot be built, the library
 * copies each region separately. Only the operations in flight hold references to the memory. */
static gboolean
by_kernel (GpuContext *context, GError **error)
{
  const gssize tall[] = { N / 2, 2 };
  g_autoptr (GBytes) bytes = numbers ();
  g_autoptr (GBytes) got = NULL;
  g_autoptr (GpuStream) stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);
  g_autoptr (GpuArray) from = NULL;
  g_autoptr (GpuArray) to = NULL;

  if (stream == NULL)
    return FALSE;
  from = gpu_array_new_from_bytes (context, NULL, stream, GPU_DTYPE_UINT32, tall, 2,
                                   GPU_ARRAY_ORDER_F, bytes, error);
  to = from != NULL ? gpu_array_new_full (context, NULL, stream, GPU_DTYPE_UINT32, tall, 2,
                                          GPU_ARRAY_ORDER_C, error)
                    : NULL;
  if (to == NULL || !gpu_stream_copy_array (stream, to, from, error))
    return FALSE;
  g_clear_object (&from);
  got = gpu_array_read_bytes (to, stream, GPU_ARRAY_ORDER_F, NULL, error);
  if (got == NULL)
    return FALSE;
  expect (got, FALSE, "by a kernel");
  return TRUE;
}

/* Copies so many rows that a kernel with a large table of arguments copies them, then fewer, which
 * a kernel with a small table copies. Only the operations in flight hold references to the
 * source. */
static gboolean
rows (GpuContext *context, GError **error)
{
  static const guint8 values[] = { 1, 2, 3 };
  const gssize tall[] = { N_MANY, 16 };
  g_autoptr (GpuStream) stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);
  g_autofree gint64 *numbers = g_new (gint64, N_MANY);
  g_autoptr (GpuArray) from = NULL;
  g_autoptr (GpuArray) to = NULL;
  g_autoptr (GpuArray) few = NULL;
  g_autoptr (GBytes) got = NULL;
  GBytes *fills[3];
  gboolean success;

  for (guint i = 0; i < N_MANY; i++)
    numbers[i] = N_MANY - 1 - i;
  from = stream != NULL ? gpu_array_new (context, GPU_DTYPE_UINT8, tall, 2, error) : NULL;
  to = from != NULL ? gpu_array_new (context, GPU_DTYPE_UINT8, tall, 2, error) : NULL;
  few = to != NULL ? gpu_array_slice (to, 0, 0, N_FEW, 1, error) : NULL;
  for (guint i = 0; i < G_N_ELEMENTS (fills); i++)
    fills[i] = g_bytes_new_static (&values[i], 1);

  success = few != NULL && gpu_stream_fill_array (stream, to, fills[0], error)
            && gpu_stream_fill_array (stream, from, fills[1], error)
            && gpu_stream_take_rows (stream, to, from, numbers, N_MANY, error)
            && gpu_stream_fill_array (stream, from, fills[2], error)
            && gpu_stream_take_rows (stream, few, from, numbers, N_FEW, error);
  g_clear_object (&from);
  for (guint i = 0; i < G_N_ELEMENTS (fills); i++)
    g_bytes_unref (fills[i]);
  got = success ? gpu_array_read_bytes (to, stream, GPU_ARRAY_ORDER_C, NULL, error) : NULL;
  if (got == NULL)
    return FALSE;
  fault_check (g_bytes_get_data (got, NULL), 3, N_FEW * 16, "few rows");
  fault_check ((const guint8 *) g_bytes_get_data (got, NULL) + N_FEW * 16, 2,
               (N_MANY - N_FEW) * 16, "many rows");
  return TRUE;
}

/* Copies rows with gaps between their elements, which several launches of a kernel copy. */
static gboolean
strided_rows (GpuContext *context, GError **error)
{
  static const guint8 values[] = { 1, 2 };
  const gssize wide[] = { 4, N_STRIDED };
  g_autoptr (GpuStream) stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);
  gint64 numbers[N_STRIDED];
  g_autoptr (GpuArray) from = NULL;
  g_autoptr (GpuArray) turned = NULL;
  g_autoptr (GpuArray) to = NULL;
  g_autoptr (GBytes) got = NULL;
  GBytes *fills[2];
  gboolean success;

  for (guint i = 0; i < N_STRIDED; i++)
    numbers[i] = N_STRIDED - 1 - i;
  from = stream != NULL ? gpu_array_new (context, GPU_DTYPE_UINT8, wide, 2, error) : NULL;
  turned = from != NULL ? gpu_array_transpose (from, (guint[]) { 1, 0 }, 2, error) : NULL;
  to = turned != NULL ? gpu_array_new (context, GPU_DTYPE_UINT8, gpu_array_get_shape (turned, NULL),
                                       2, error) : NULL;
  for (guint i = 0; i < G_N_ELEMENTS (fills); i++)
    fills[i] = g_bytes_new_static (&values[i], 1);

  success = to != NULL && gpu_stream_fill_array (stream, from, fills[0], error)
            && gpu_stream_take_rows (stream, to, turned, numbers, N_STRIDED, error)
            && gpu_stream_fill_array (stream, from, fills[1], error)
            && gpu_stream_put_rows (stream, turned, to, numbers, N_STRIDED, error);
  for (guint i = 0; i < G_N_ELEMENTS (fills); i++)
    g_bytes_unref (fills[i]);
  g_clear_object (&to);
  g_clear_object (&turned);
  got = success ? gpu_array_read_bytes (from, stream, GPU_ARRAY_ORDER_C, NULL, error) : NULL;
  if (got == NULL)
    return FALSE;
  fault_check (g_bytes_get_data (got, NULL), 1, 4 * N_STRIDED, "rows with gaps");
  return TRUE;
}

static gboolean
from_a_pool (GpuContext *context, GError **error)
{
  g_autoptr (GpuMemoryPool) pool = gpu_memory_pool_new (context, GPU_MEMORY_POOL_AUTOMATIC,
                                                        GPU_MEMORY_FLAGS_NONE, error);
  g_autoptr (GpuArray) array = NULL;
  g_autoptr (GBytes) bytes = numbers ();

  if (pool == NULL)
    return FALSE;
  for (guint i = 0; i < 2; i++)
    {
      g_clear_object (&array);
      array = gpu_array_new_from_bytes (NULL, GPU_ALLOCATOR (pool), NULL, GPU_DTYPE_UINT32, shape,
                                        2, GPU_ARRAY_ORDER_C, bytes, error);
      if (array == NULL || !check (array, NULL, FALSE, "from a pool", error))
        return FALSE;
    }
  return TRUE;
}

/* Copies to memory of the host back end and back, with different strides. */
static gboolean
across (GpuContext *context, GError **error)
{
  g_autoptr (GError) failure = NULL;
  g_autoptr (GpuDevice) device = gpu_device_find ("host", &failure);
  g_autoptr (GpuContext) host = gpu_context_new (device, GPU_CONTEXT_FLAGS_NONE, &failure);
  g_autoptr (GpuArray) far = gpu_array_new (host, GPU_DTYPE_UINT32, shape, 2, &failure);
  g_autoptr (GpuArray) far_part = narrow (far, &failure);
  g_autoptr (GpuStream) stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);
  g_autoptr (GpuArray) near = NULL;
  g_autoptr (GpuArray) part = NULL;
  g_autoptr (GpuArray) back = NULL;

  g_assert_no_error (failure);
  near = stream != NULL ? make (context, stream, error) : NULL;
  part = near != NULL ? narrow (near, error) : NULL;
  if (part == NULL || !gpu_stream_copy_array (stream, far_part, part, error))
    return FALSE;
  back = gpu_array_new_filled (context, NULL, stream, GPU_DTYPE_UINT32, shape, 2,
                               GPU_ARRAY_ORDER_C, NULL, error);
  g_clear_object (&part);
  part = back != NULL ? narrow (back, error) : NULL;
  return part != NULL && gpu_stream_copy_array (stream, part, far_part, error)
         && check (part, stream, TRUE, "there and back", error);
}

/* --- other libraries -------------------------------------------------------------------------- */

/* Exports an array as a tensor for use on a stream, and imports the tensor. Frees the tensor if the
 * import fails. */
static gboolean
tensor (GpuContext *context, gboolean versioned, GError **error)
{
  g_autoptr (GpuStream) stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);
  g_autoptr (GpuArray) array = stream != NULL ? make (context, NULL, error) : NULL;
  g_autoptr (GpuArray) part = NULL;
  g_autoptr (GpuArray) again = NULL;
  gpointer dl;

  if (array == NULL)
    return FALSE;
  part = narrow (array, error);
  if (part == NULL || !gpu_stream_wait_array (stream, part, error)
      || !gpu_memory_add_stream (gpu_array_get_memory (part), stream, error))
    return FALSE;
  dl = gpu_array_to_dlpack (part, versioned, FALSE, error);
  if (dl == NULL)
    return FALSE;
  g_clear_object (&part);
  again = gpu_array_new_from_dlpack (context, dl, versioned, error);
  if (again == NULL)
    {
      gpu_dlpack_free (dl, versioned);
      return FALSE;
    }
  g_clear_object (&array);
  return gpu_stream_wait_array (stream, again, error)
         && check (again, stream, TRUE, "a tensor", error);
}

static gboolean
tensors (GpuContext *context, GError **error)
{
  return tensor (context, TRUE, error) && tensor (context, FALSE, error);
}

/* Wraps an address of another library, and the stream of its pending work, as an import from the
 * CUDA Array Interface does. */
static gboolean
address (GpuContext *context, GError **error)
{
  g_autoptr (GpuStream) theirs = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);
  g_autoptr (GpuArray) array = theirs != NULL ? make (context, theirs, error) : NULL;
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuArray) again = NULL;
  guint64 handle;

  if (array == NULL)
    return FALSE;
  handle = gpu_array_get_device_address (array);
  if (handle == 0)
    return TRUE;
  stream = gpu_stream_new_wrapped (context, gpu_stream_get_native_handle (theirs),
                                   GPU_WRAP_MODE_BORROW, error);
  if (stream == NULL)
    return FALSE;
  buffer = gpu_buffer_new_wrapped (context, handle, SIZE, GPU_WRAP_MODE_BORROW, NULL, error);
  if (buffer == NULL)
    return FALSE;
  again = gpu_array_new_for_memory (GPU_MEMORY (buffer), 0, GPU_DTYPE_UINT32, shape, 2, NULL, 0,
                                    error);
  return again != NULL && gpu_stream_wait_array (stream, again, error)
         && check (again, NULL, FALSE, "at an address", error);
}

/* --- all steps -------------------------------------------------------------------------------- */

/* Returns whether the harness simulates a lost device, on which all later calls fail. */
static gboolean
is_device_lost (void)
{
  const char *words = g_getenv ("GPUMEM_CUDA_DRIVER");

  return words != NULL && strstr (words, "lost=") != NULL;
}

/* Runs a step. After an error, runs the step again and returns the first error. */
static gboolean
step (FaultFunc func, GpuContext *context, GError **error)
{
  g_autoptr (GError) first = NULL;
  g_autoptr (GError) second = NULL;

  if (func (context, &first))
    return TRUE;
  if (!is_device_lost () && !func (context, &second))
    {
      g_printerr ("after \"%s\" the second attempt also fails: %s\n",
                  first != NULL ? first->message : "no error",
                  second != NULL ? second->message : "no error");
      exit (1);
    }
  g_propagate_error (error, g_steal_pointer (&first));
  return FALSE;
}

static gboolean
arrays (GpuContext *context, GError **error)
{
  static const FaultFunc steps[] = { fill, write_and_read, on_a_stream, copy, by_kernel, rows,
                                     strided_rows, across, from_a_pool, tensors, address };

  for (guint i = 0; i < G_N_ELEMENTS (steps); i++)
    {
      if (!step (steps[i], context, error))
        return FALSE;
    }
  return TRUE;
}

int
main (void)
{
  return fault_run (arrays);
}
