/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * DLPack tensors from a faulty library. If an imported array lies within the tensor's memory, its
 * elements must be readable. Each imported tensor must be freed exactly once. If the import fails,
 * the caller must still own the tensor.
 */
#include "config.h"

#include "gpumem/format/gpu-dlpack-private.h"
#include "tests/fuzz/fuzz.h"

#define N_TENSORS   4096
#define N_LENGTHS   64
#define MEMORY_SIZE (1 << 16)
#define MOST_COPIED (1 << 14)
#define DEADLINE    (30 * G_USEC_PER_SEC)

/* The fields that the second byte of an input makes invalid. */
enum
{
  ODD_VERSION     = 1 << 0,
  ODD_FLAGS       = 1 << 1,
  ODD_DEVICE_TYPE = 1 << 2,
  ODD_DEVICE_ID   = 1 << 3,
  ODD_N_DIMS      = 1 << 4,
  ODD_BITS        = 1 << 5,
  ODD_LANES       = 1 << 6,
  ODD_DATA        = 1 << 7
};

static guint8 memory[MEMORY_SIZE];
static gint n_deleted;

static void
delete_managed (GpuDLManaged *tensor G_GNUC_UNUSED)
{
  g_atomic_int_inc (&n_deleted);
}

static void
delete_versioned (GpuDLVersioned *tensor G_GNUC_UNUSED)
{
  g_atomic_int_inc (&n_deleted);
}

static void
fill_tensor (FuzzInput   *input,
             guint8       odd,
             GpuDLTensor *tensor,
             gint64      *shape,
             gint64      *strides)
{
  tensor->device_type = (odd & ODD_DEVICE_TYPE) != 0 ? (gint32) fuzz_take (input, 4) : GPU_DL_CPU;
  tensor->device_id = (odd & ODD_DEVICE_ID) != 0 ? (gint32) fuzz_take (input, 4) : 0;
  tensor->n_dims = (odd & ODD_N_DIMS) != 0 ? (gint32) fuzz_take (input, 4)
                                           : (gint32) (fuzz_take (input, 1) % 8);
  tensor->type_code = (guint8) (fuzz_take (input, 1) % 9);
  tensor->type_bits = (odd & ODD_BITS) != 0 ? (guint8) fuzz_take (input, 1)
                                            : (guint8) (8 << (fuzz_take (input, 1) % 5));
  tensor->type_lanes = (odd & ODD_LANES) != 0 ? (guint16) fuzz_take (input, 2) : 1;
  tensor->data = (odd & ODD_DATA) != 0 ? (gpointer) (guintptr) fuzz_take_size (input)
                                       : memory + fuzz_take (input, 2);
  tensor->byte_offset = (fuzz_take (input, 1) & 1) != 0 ? fuzz_take_size (input)
                                                        : fuzz_take (input, 1);
  for (guint i = 0; i < N_LENGTHS; i++)
    {
      shape[i] = (gint64) fuzz_take_size (input);
      strides[i] = (fuzz_take (input, 1) & 1) != 0 ? (gint64) fuzz_take_size (input)
                                                   : (gint64) (gint8) fuzz_take (input, 1);
    }
  tensor->shape = fuzz_take (input, 1) % 16 != 15 ? shape : NULL;
  tensor->strides = fuzz_take (input, 1) % 4 != 3 ? strides : NULL;
}

/* Reads all elements of an array that lies within `memory`, and exports the array again. */
static void
use_array (GpuArray *array)
{
  g_autoptr (GError) error = NULL;
  GpuMemory *inner = gpu_array_get_memory (array);
  gsize n = gpu_array_get_n_elements (array);
  guintptr begin, end;

  if (inner == NULL || n == 0)
    return;

  begin = (guintptr) gpu_memory_get_device_address (inner);
  end = begin + gpu_memory_get_size (inner);
  FUZZ_REQUIRE (end > begin);
  if (n <= MOST_COPIED && begin >= (guintptr) memory && end <= (guintptr) memory + MEMORY_SIZE)
    {
      g_autoptr (GpuArray) copy = gpu_array_copy (array, NULL, NULL, &error);

      FUZZ_REQUIRE ((copy == NULL) == (error != NULL));
    }
  gpu_dlpack_free (gpu_array_to_dlpack (array, TRUE, FALSE, NULL), TRUE);
}

static void
use_view (FuzzInput *input,
          GpuArray  *array)
{
  guint axis = (guint) (fuzz_take (input, 1) % 4);
  gssize start = (gssize) fuzz_take_size (input);
  gssize stop = (gssize) fuzz_take_size (input);
  gssize step = (gssize) fuzz_take_size (input);
  g_autoptr (GpuArray) view = gpu_array_slice (array, axis, start, stop, step, NULL);

  if (view != NULL)
    use_array (view);
}

/* Waits for the deleter, because pending operations may retain the tensor for a moment. */
static void
require_deleted (gboolean has_deleter)
{
  gint64 deadline = g_get_monotonic_time () + DEADLINE;

  gpu_context_synchronize (fuzz_get_context (), NULL);
  while (g_atomic_int_get (&n_deleted) < has_deleter && g_get_monotonic_time () < deadline)
    g_thread_yield ();
  FUZZ_REQUIRE (g_atomic_int_get (&n_deleted) == has_deleter);
}

static void
run (const guint8 *data,
     gsize         size)
{
  /* After the import of a tensor without a deleter, the program does not learn when the library
   * stops using the tensor. Therefore each run uses the next tensor of these arrays. */
  static GpuDLManaged all_managed[N_TENSORS];
  static GpuDLVersioned all_versioned[N_TENSORS];
  static guint turn;
  FuzzInput input = { data, size };
  gboolean is_versioned = (gboolean) (fuzz_take (&input, 1) & 1);
  guint8 odd = (guint8) fuzz_take (&input, 1);
  GpuDLManaged *managed = &all_managed[turn % N_TENSORS];
  GpuDLVersioned *versioned = &all_versioned[turn++ % N_TENSORS];
  gint64 shape[N_LENGTHS], strides[N_LENGTHS];
  g_autoptr (GError) error = NULL;
  GpuArray *array;
  gboolean has_deleter;

  *managed = (GpuDLManaged) { .deleter = NULL };
  *versioned = (GpuDLVersioned) { .major = 1, .minor = 1 };
  if ((odd & ODD_VERSION) != 0)
    versioned->major = (guint32) (fuzz_take (&input, 1) % 4);
  if ((odd & ODD_FLAGS) != 0)
    versioned->flags = fuzz_take (&input, 8);
  has_deleter = fuzz_take (&input, 1) % 8 != 7;
  managed->deleter = has_deleter ? delete_managed : NULL;
  versioned->deleter = has_deleter ? delete_versioned : NULL;
  fill_tensor (&input, odd, is_versioned ? &versioned->tensor : &managed->tensor, shape, strides);

  g_atomic_int_set (&n_deleted, 0);
  array = gpu_array_new_from_dlpack (fuzz_get_context (),
                                     is_versioned ? (gpointer) versioned : (gpointer) managed,
                                     is_versioned, &error);
  FUZZ_REQUIRE ((array == NULL) == (error != NULL));
  if (array == NULL)
    {
      FUZZ_REQUIRE (g_atomic_int_get (&n_deleted) == 0);
      return;
    }

  use_array (array);
  if (gpu_array_get_n_dims (array) > 0)
    use_view (&input, array);
  g_object_unref (array);
  require_deleted (has_deleter);
}

static void
add_seeds (GPtrArray *seeds)
{
  /* Tensors of shape (2, 3) and 32-bit numbers, with and without strides */
  static const guint8 dense[] = { 1, 0, 0, 2, 2, 2, 0, 0, 0, 0, 0, 2, 0, 3, 0, 3, 0, 1 };
  static const guint8 plain[] = { 0, 0, 0, 1, 1, 0, 64, 0, 0, 8, 0, 5, 0, 1 };

  fuzz_add_seed (seeds, dense, sizeof dense);
  fuzz_add_seed (seeds, plain, sizeof plain);
  fuzz_add_random (seeds, 16, 64);
  fuzz_add_random (seeds, 8, 300);
}

const FuzzTarget fuzz_dlpack = { "dlpack", run, add_seeds, TRUE };
