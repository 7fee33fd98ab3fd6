/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Array layouts. Computes the addresses of elements in nested views with 128-bit arithmetic, and
 * compares them with the addresses that the library computes. Compares the result of each copy plan
 * with a copy element by element.
 */
#include "config.h"

#include "gpumem/format/gpu-array-plan-private.h"
#include "tests/fuzz/fuzz.h"

#define FUNCTION    "f"
#define MEMORY_SIZE 4096
#define SLACK       64
#define N_NUMBERS   40              /* more than GPU_ARRAY_MAX_DIMS */
#define N_CHECKED   64              /* elements from each end */

__extension__ typedef __int128 Big;

/* Returns the address of element @n in C order. */
static Big
address_of (const GpuArrayLayout *layout,
            gsize                 n)
{
  Big address = layout->offset;

  for (guint i = layout->n_dims; i-- > 0; )
    {
      gsize length = (gsize) layout->shape[i];

      address += (Big) layout->strides[i] * (Big) (n % length);
      n /= length;
    }

  return address;
}

static void
require_within (const GpuArrayLayout *layout,
                gsize                 n,
                gsize                 begin,
                gsize                 end)
{
  Big address = address_of (layout, n);

  FUZZ_REQUIRE (address >= (Big) begin && address + (Big) layout->item_size <= (Big) end);
}

/* Checks that all elements of a view lie between @least and @most. */
static void
check_range (const GpuArrayLayout *layout,
             gsize                 least,
             gsize                 most)
{
  gsize n = _gpu_array_layout_get_n_elements (layout);
  gsize begin, end;

  if (n == 0)
    return;

  FUZZ_REQUIRE (_gpu_array_layout_get_range (layout, &begin, &end));
  FUZZ_REQUIRE (begin >= least && end <= most);
  for (gsize i = 0; i < MIN (n, N_CHECKED); i++)
    {
      require_within (layout, i, begin, end);
      require_within (layout, n - 1 - i, begin, end);
    }
}

static void
check_copy (const GpuArrayLayout *to,
            const GpuArrayLayout *from)
{
  static guint8 source[MEMORY_SIZE];
  guint8 target[MEMORY_SIZE + SLACK], expected[MEMORY_SIZE + SLACK];
  gsize n = _gpu_array_layout_get_n_elements (from);
  GpuArrayPlan plan;
  gsize begin, end;

  FUZZ_REQUIRE (_gpu_array_layout_get_range (to, &begin, &end) && end <= MEMORY_SIZE);
  for (guint i = 0; i < MEMORY_SIZE; i++)
    source[i] = (guint8) (i * 7 + i / 256);
  memset (target, 0xee, sizeof target);
  memset (expected, 0xee, sizeof expected);
  for (gsize i = 0; i < n; i++)
    memcpy (expected + (gsize) address_of (to, i), source + (gsize) address_of (from, i),
            from->item_size);

  _gpu_array_plan_init (&plan, to, from);
  _gpu_array_plan_copy (&plan, target, source);
  FUZZ_REQUIRE (memcmp (target, expected, sizeof target) == 0);
}

/* Checks a copy to an array without gaps whose dimensions have the same order in memory, and a copy
 * to an array in Fortran order. */
static void
check_copies (const GpuArrayLayout *from)
{
  gsize n = _gpu_array_layout_get_n_elements (from);
  GpuArrayLayout to = *from;
  gsize begin, end;

  if (n == 0 || n * from->item_size > MEMORY_SIZE
      || !_gpu_array_layout_get_range (from, &begin, &end) || end > MEMORY_SIZE)
    return;

  _gpu_array_layout_pack (from, &to);
  check_copy (&to, from);
  FUZZ_REQUIRE (_gpu_array_layout_init (&to, from->shape, from->n_dims, from->item_size,
                                        GPU_ARRAY_ORDER_F, FUNCTION, NULL));
  check_copy (&to, from);
}

static gboolean
permute (FuzzInput      *input,
         GpuArrayLayout *layout)
{
  guint axes[N_NUMBERS];
  guint n = (guint) (fuzz_take (input, 1) % 34);

  for (guint i = 0; i < n; i++)
    axes[i] = (guint) ((i + fuzz_take (input, 1)) % 33);

  return _gpu_array_layout_permute (layout, axes, n, FUNCTION, NULL);
}

static gboolean
change_shape (FuzzInput      *input,
              GpuArrayLayout *layout)
{
  gssize shape[N_NUMBERS];
  guint n = (guint) (fuzz_take (input, 1) % 35);
  guint8 how = (guint8) fuzz_take (input, 1);
  GpuArrayOrder order = (how & 4) != 0 ? GPU_ARRAY_ORDER_F : GPU_ARRAY_ORDER_C;

  for (guint i = 0; i < n; i++)
    shape[i] = (how & 2) != 0 && i < layout->n_dims ? layout->shape[i]
                                                    : (gssize) fuzz_take_size (input);

  return (how & 1) != 0 ? _gpu_array_layout_broadcast (layout, shape, n, FUNCTION, NULL)
                        : _gpu_array_layout_reshape (layout, shape, n, order, FUNCTION, NULL);
}

static gboolean
make_view (FuzzInput      *input,
           GpuArrayLayout *layout)
{
  guint8 view = (guint8) (fuzz_take (input, 1) % 6);
  guint axis = (guint) (fuzz_take (input, 1) % 34);
  gssize start, stop, step;

  switch (view)
    {
    case 0:
      start = (gssize) fuzz_take_size (input);
      stop = (gssize) fuzz_take_size (input);
      step = (gssize) fuzz_take_size (input);
      return _gpu_array_layout_slice (layout, axis, start, stop, step, FUNCTION, NULL);
    case 1:
      start = (gssize) fuzz_take_size (input);
      return _gpu_array_layout_index (layout, axis, start, FUNCTION, NULL);
    case 2:
      return _gpu_array_layout_insert_axis (layout, axis, FUNCTION, NULL);
    case 3:
      return permute (input, layout);
    default:
      return change_shape (input, layout);
    }
}

/* Returns FALSE if no array can have the layout. If @is_foreign, the layout has arbitrary strides,
 * as a DLPack tensor may. */
static gboolean
make_layout (FuzzInput      *input,
             gboolean        is_foreign,
             GpuArrayLayout *layout)
{
  gssize shape[N_NUMBERS];
  guint n_dims = (guint) (fuzz_take (input, 1) % 36);
  gsize item_size = is_foreign ? fuzz_take_size (input) : 1 + fuzz_take (input, 1) % 16;
  GpuArrayOrder order = fuzz_take (input, 1) & 1 ? GPU_ARRAY_ORDER_F : GPU_ARRAY_ORDER_C;
  gsize begin, end;

  if (n_dims > GPU_ARRAY_MAX_DIMS + 1)
    n_dims = 1 + n_dims % 4;
  if (item_size == 0 || item_size > G_MAXSSIZE)
    item_size = 1;
  for (guint i = 0; i < n_dims; i++)
    shape[i] = is_foreign ? (gssize) fuzz_take_size (input) : (gssize) (fuzz_take (input, 1) % 7);
  if (!_gpu_array_layout_init (layout, shape, n_dims, item_size, order, FUNCTION, NULL))
    return FALSE;

  FUZZ_REQUIRE (n_dims <= GPU_ARRAY_MAX_DIMS);
  for (guint i = 0; i < n_dims && is_foreign; i++)
    {
      if ((fuzz_take (input, 1) & 1) != 0)
        layout->strides[i] = (gssize) fuzz_take_size (input);
    }
  layout->offset = is_foreign ? fuzz_take_size (input) : 0;

  return _gpu_array_layout_get_range (layout, &begin, &end)
         && (is_foreign || end <= MEMORY_SIZE / 2);
}

static void
run (const guint8 *data,
     gsize         size)
{
  FuzzInput input = { data, size };
  gboolean is_foreign = (gboolean) (fuzz_take (&input, 1) & 1);
  GpuArrayLayout layout = { 0 };
  gsize least, most;
  gboolean has_elements;

  if (!make_layout (&input, is_foreign, &layout))
    return;

  has_elements = _gpu_array_layout_get_n_elements (&layout) > 0;
  FUZZ_REQUIRE (_gpu_array_layout_get_range (&layout, &least, &most));
  while (input.size > 0)
    {
      GpuArrayLayout old = layout;

      if (!make_view (&input, &layout))
        FUZZ_REQUIRE (memcmp (&old, &layout, sizeof layout) == 0);
      if (has_elements)
        check_range (&layout, least, most);
      else
        FUZZ_REQUIRE (_gpu_array_layout_get_n_elements (&layout) == 0);
      _gpu_array_layout_is_contiguous (&layout, GPU_ARRAY_ORDER_C);
      _gpu_array_layout_is_contiguous (&layout, GPU_ARRAY_ORDER_F);
      _gpu_array_layout_overlaps (&layout);
    }
  if (!is_foreign)
    check_copies (&layout);
  else if (has_elements)
    {
      GpuArrayPlan plan;

      _gpu_array_plan_init (&plan, &layout, &layout);
    }
}

static void
add_seeds (GPtrArray *seeds)
{
  /* 4-byte numbers of shape (2, 3, 4): a slice of step -2, an index, a reshape */
  static const guint8 views[] = { 0, 3, 3, 0, 2, 3, 4, 0, 2, 5, 0, 5, 255, 5, 1, 1, 0, 0, 1,
                                  4, 0, 2, 0, 0, 2, 0, 2 };

  fuzz_add_seed (seeds, views, sizeof views);
  fuzz_add_random (seeds, 16, 40);
  fuzz_add_random (seeds, 8, 200);
}

const FuzzTarget fuzz_layout = { "layout", run, add_seeds, FALSE };
