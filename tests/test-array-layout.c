/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Shapes and strides: views, overlaps, and copies between two layouts, compared with a loop over
 * all elements. */
#include "config.h"

#include "gpumem/format/gpu-array-plan-private.h"

#include "test-util.h"

#define N_CASES 3000

static gboolean
next_index (const GpuArrayLayout *layout,
            gssize               *index)
{
  for (guint i = layout->n_dims; i-- > 0; )
    {
      if (++index[i] < layout->shape[i])
        return TRUE;

      index[i] = 0;
    }

  return FALSE;
}

static gsize
offset_of (const GpuArrayLayout *layout,
           const gssize         *index)
{
  gsize offset = layout->offset;

  for (guint i = 0; i < layout->n_dims; i++)
    offset += (gsize) (index[i] * layout->strides[i]);

  return offset;
}

static void
init (GpuArrayLayout *layout,
      const gssize   *shape,
      guint           n_dims,
      gsize           item_size,
      GpuArrayOrder   order)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (_gpu_array_layout_init (layout, shape, n_dims, item_size, order, "test", &error),
                  error);
}

/* Makes a layout with permuted dimensions, some of them reversed, and with gaps. */
static void
make_random (GpuArrayLayout *layout,
             gboolean        with_repeats)
{
  gssize shape[GPU_ARRAY_MAX_DIMS];
  guint n_dims = (guint) g_test_rand_int_range (0, 6);
  guint axes[GPU_ARRAY_MAX_DIMS];
  gssize stride;

  for (guint i = 0; i < n_dims; i++)
    {
      guint other = (guint) g_test_rand_int_range (0, (gint32) i + 1);

      shape[i] = g_test_rand_int_range (1, 6);
      axes[i] = axes[other];
      axes[other] = i;
    }

  init (layout, shape, n_dims, (gsize) g_test_rand_int_range (1, 6), GPU_ARRAY_ORDER_C);
  stride = (gssize) layout->item_size;

  for (guint i = 0; i < n_dims; i++)
    {
      guint axis = axes[i];

      stride += g_test_rand_int_range (0, 3) == 0 ? g_test_rand_int_range (0, 9) : 0;
      layout->strides[axis] = stride;

      if (g_test_rand_int_range (0, 4) == 0)
        {
          layout->strides[axis] = -stride;
          layout->offset += (gsize) (stride * (shape[axis] - 1));
        }

      stride *= shape[axis];

      if (with_repeats && g_test_rand_int_range (0, 8) == 0)
        layout->strides[axis] = 0;
    }

  layout->offset += (gsize) g_test_rand_int_range (0, 7);
}

static void
layout_dense (void)
{
  const gssize shape[] = { 2, 3, 4 };
  GpuArrayLayout c;
  GpuArrayLayout f;
  g_autofree char *text = NULL;

  init (&c, shape, 3, 4, GPU_ARRAY_ORDER_C);
  init (&f, shape, 3, 4, GPU_ARRAY_ORDER_F);
  g_assert_cmpint (c.strides[0], ==, 48);
  g_assert_cmpint (c.strides[2], ==, 4);
  g_assert_cmpint (f.strides[0], ==, 4);
  g_assert_cmpint (f.strides[2], ==, 24);
  g_assert_true (_gpu_array_layout_is_contiguous (&c, GPU_ARRAY_ORDER_C));
  g_assert_false (_gpu_array_layout_is_contiguous (&c, GPU_ARRAY_ORDER_F));
  g_assert_true (_gpu_array_layout_is_contiguous (&f, GPU_ARRAY_ORDER_F));
  g_assert_false (_gpu_array_layout_is_contiguous (&f, GPU_ARRAY_ORDER_C));
  g_assert_cmpuint (_gpu_array_layout_get_size (&c), ==, 96);
  text = _gpu_array_numbers_to_string (shape, 3);
  g_assert_cmpstr (text, ==, "(2, 3, 4)");
}

static void
layout_refused (void)
{
  const gssize huge[] = { G_MAXSSIZE / 2, 3, 0 };
  const gssize negative[] = { 3, -2 };
  const gssize fine[] = { 4, 6 };
  const gssize uneven[] = { 5, -1 };
  const gssize twice[] = { -1, -1 };
  const gssize none[] = { 0, 6 };
  const gssize far[] = { 0, (gssize) 1 << (GLIB_SIZEOF_SIZE_T * 8 - 2),
                         (gssize) 1 << (GLIB_SIZEOF_SIZE_T * 8 - 2) };
  const gssize wide[] = { 4, 5 };
  const guint axes[] = { 1, 1 };
  gssize many[GPU_ARRAY_MAX_DIMS + 1] = { 0 };
  g_autoptr (GError) error = NULL;
  GpuArrayLayout layout;

  g_assert_false (_gpu_array_layout_init (&layout, huge, 3, 4, GPU_ARRAY_ORDER_C, "f", &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "f: ", "3, 0)", "larger");
  g_assert_false (_gpu_array_layout_init (&layout, negative, 2, 4, GPU_ARRAY_ORDER_C, "f", &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "(3, -2)");
  g_assert_false (_gpu_array_layout_init (&layout, many, 33, 4, GPU_ARRAY_ORDER_C, "f", &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "33 dimensions");

  init (&layout, fine, 2, 4, GPU_ARRAY_ORDER_C);
  g_assert_false (_gpu_array_layout_reshape (&layout, uneven, 2, GPU_ARRAY_ORDER_C, "f", &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "(5, -1)", "24 elements");
  g_assert_false (_gpu_array_layout_reshape (&layout, twice, 2, GPU_ARRAY_ORDER_C, "f", &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "(-1, -1)");
  init (&layout, none, 2, 4, GPU_ARRAY_ORDER_C);
  g_assert_false (_gpu_array_layout_reshape (&layout, far, 3, GPU_ARRAY_ORDER_C, "f", &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "(0, ", "larger");
  init (&layout, fine, 2, 4, GPU_ARRAY_ORDER_C);
  g_assert_false (_gpu_array_layout_broadcast (&layout, wide, 2, "f", &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "(4, 6)", "(4, 5)");
  g_assert_false (_gpu_array_layout_permute (&layout, axes, 2, "f", &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "axis 1");
  g_assert_false (_gpu_array_layout_permute (&layout, axes, 1, "f", &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "1 axes", "2 dimensions");
  g_assert_false (_gpu_array_layout_index (&layout, 1, 6, "f", &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "index 6", "axis 1");
  g_assert_false (_gpu_array_layout_index (&layout, 0, -5, "f", &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "index -5");
  g_assert_false (_gpu_array_layout_slice (&layout, 2, 0, 1, 1, "f", &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "axis 2");
  g_assert_false (_gpu_array_layout_slice (&layout, 0, 0, 1, 0, "f", &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "step of 0");
  g_assert_true (_gpu_array_layout_is_contiguous (&layout, GPU_ARRAY_ORDER_C));
}

/* Compares a slice with the elements that a slice in Python has. The test finds their indices by
 * counting, without arithmetic. */
static void
check_slice (gssize length,
             gssize start,
             gssize stop,
             gssize step)
{
  g_autoptr (GError) error = NULL;
  GpuArrayLayout layout;
  gssize index = start < 0 ? start + length : start;
  gssize end = stop < 0 ? stop + length : stop;
  gssize n = 0;

  init (&layout, &length, 1, 1, GPU_ARRAY_ORDER_C);
  test_assert_ok (_gpu_array_layout_slice (&layout, 0, start, stop, step, "f", &error), error);

  if (step > 0)
    {
      index = MAX (index, 0);
      end = CLAMP (end, 0, length);
    }
  else
    {
      index = MIN (index, length - 1);
      end = CLAMP (end, -1, length - 1);
    }

  for (; step > 0 ? index < end : index > end && index >= 0; index += step, n++)
    {
      if (n < layout.shape[0])
        g_assert_cmpint ((gssize) layout.offset + n * layout.strides[0], ==, index);

      if (step > length - index && step > 0)
        {
          n++;
          break;
        }
    }

  g_assert_cmpint (layout.shape[0], ==, n);
}

static void
layout_slices (void)
{
  const gssize steps[] = { 1, 2, 3, 7, -1, -2, -5, G_MAXSSIZE };

  for (gssize length = 0; length < 7; length++)
    {
      for (gssize start = -9; start < 10; start++)
        {
          for (gssize stop = -9; stop < 10; stop++)
            {
              for (guint i = 0; i < G_N_ELEMENTS (steps); i++)
                check_slice (length, start, stop, steps[i]);
            }
        }
    }
}

/* The extreme bounds G_MINSSIZE and G_MAXSSIZE denote open ends, as None does in Python. */
static void
layout_open_ends (void)
{
  const gssize length = 5;
  g_autoptr (GError) error = NULL;
  GpuArrayLayout all;
  GpuArrayLayout reverse;

  init (&all, &length, 1, 4, GPU_ARRAY_ORDER_C);
  reverse = all;
  test_assert_ok (_gpu_array_layout_slice (&all, 0, G_MINSSIZE, G_MAXSSIZE, 1, "f", &error), error);
  test_assert_ok (_gpu_array_layout_slice (&reverse, 0, G_MAXSSIZE, G_MINSSIZE, -1, "f", &error),
                  error);
  g_assert_cmpint (all.shape[0], ==, 5);
  g_assert_cmpuint (all.offset, ==, 0);
  g_assert_cmpint (reverse.shape[0], ==, 5);
  g_assert_cmpint (reverse.strides[0], ==, -4);
  g_assert_cmpuint (reverse.offset, ==, 16);
}

/* A layout whose end exceeds the address range is refused. The stride of a dimension of one element
 * is ignored. */
static void
layout_strides (void)
{
  const gssize shape[] = { 1, 4 };
  GpuArrayLayout layout;
  gsize begin;
  gsize end;

  init (&layout, shape, 2, 4, GPU_ARRAY_ORDER_C);
  layout.strides[0] = 12;
  g_assert_true (_gpu_array_layout_is_contiguous (&layout, GPU_ARRAY_ORDER_C));
  g_assert_true (_gpu_array_layout_is_contiguous (&layout, GPU_ARRAY_ORDER_F));
  layout.strides[1] = 8;
  g_assert_false (_gpu_array_layout_is_contiguous (&layout, GPU_ARRAY_ORDER_C));

  layout.strides[1] = (G_MAXSSIZE - 3) / 3;
  g_assert_true (_gpu_array_layout_get_range (&layout, &begin, &end));
  g_assert_cmpuint (end, >, G_MAXSSIZE - 4);
  layout.strides[1] += 2;
  g_assert_false (_gpu_array_layout_get_range (&layout, &begin, &end));
}

/* A reshaped view has the same elements in the same order. If no strides allow this, the reshape
 * fails. */
static void
check_reshape (const GpuArrayLayout *layout,
               const gssize         *shape,
               guint                 n_dims,
               GpuArrayOrder         order,
               guint                *n_views)
{
  GpuArrayLayout view = *layout;
  GpuArrayLayout dense;
  gsize n = _gpu_array_layout_get_n_elements (layout);

  if (!_gpu_array_layout_reshape (&view, shape, n_dims, order, "f", NULL))
    {
      g_assert_false (_gpu_array_layout_is_contiguous (layout, order));
      return;
    }

  ++*n_views;
  init (&dense, layout->shape, layout->n_dims, 1, order);
  g_assert_cmpuint (_gpu_array_layout_get_n_elements (&view), ==, n);

  for (gsize i = 0; i < n; i++)
    {
      gssize old_index[GPU_ARRAY_MAX_DIMS];
      gssize new_index[GPU_ARRAY_MAX_DIMS];
      gsize rest = i;

      for (guint k = 0; k < layout->n_dims; k++)
        {
          guint axis = order == GPU_ARRAY_ORDER_F ? k : layout->n_dims - 1 - k;

          old_index[axis] = (gssize) (rest % (gsize) layout->shape[axis]);
          rest /= (gsize) layout->shape[axis];
        }

      rest = i;

      for (guint k = 0; k < view.n_dims; k++)
        {
          guint axis = order == GPU_ARRAY_ORDER_F ? k : view.n_dims - 1 - k;

          new_index[axis] = (gssize) (rest % (gsize) view.shape[axis]);
          rest /= (gsize) view.shape[axis];
        }

      g_assert_cmpuint (offset_of (layout, old_index), ==, offset_of (&view, new_index));
    }
}

static void
layout_reshape (void)
{
  guint n_views = 0;

  for (guint i = 0; i < N_CASES; i++)
    {
      GpuArrayLayout layout;
      gssize shape[3];
      gssize n;
      gssize at;

      make_random (&layout, FALSE);
      n = (gssize) _gpu_array_layout_get_n_elements (&layout);
      shape[0] = g_test_rand_int_range (1, 7);

      for (; n % shape[0] != 0; shape[0]--)
        ;

      at = n / shape[0];
      shape[1] = at % 2 == 0 ? 2 : 1;
      shape[2] = -1;
      check_reshape (&layout, shape, 3, GPU_ARRAY_ORDER_C, &n_views);
      check_reshape (&layout, shape, 3, GPU_ARRAY_ORDER_F, &n_views);
    }

  g_assert_cmpuint (n_views, >, N_CASES / 4);
}

/* Returns whether two elements share a byte, and checks the range. */
static gboolean
find_shared (const GpuArrayLayout *layout)
{
  gssize index[GPU_ARRAY_MAX_DIMS] = { 0 };
  g_autofree guint8 *seen = NULL;
  gboolean twice = FALSE;
  gsize begin;
  gsize end;
  gsize least = G_MAXSIZE;
  gsize most = 0;

  g_assert_true (_gpu_array_layout_get_range (layout, &begin, &end));
  seen = g_malloc0 (end);

  do
    {
      gsize offset = offset_of (layout, index);

      least = MIN (least, offset);
      most = MAX (most, offset + layout->item_size);

      for (gsize k = 0; k < layout->item_size; k++)
        twice |= seen[offset + k]++ > 0;
    }
  while (next_index (layout, index));

  g_assert_cmpuint (begin, ==, least);
  g_assert_cmpuint (end, ==, most);

  return twice;
}

/* For random layouts with nested strides, an overlap is reported if and only if two elements share
 * a byte. */
static void
layout_overlaps (void)
{
  guint n_overlaps = 0;

  for (guint i = 0; i < N_CASES; i++)
    {
      GpuArrayLayout layout;
      gboolean twice;

      make_random (&layout, TRUE);
      twice = find_shared (&layout);
      g_assert_cmpint (_gpu_array_layout_may_overlap (&layout), ==, twice);
      g_assert_cmpint (_gpu_array_layout_overlaps (&layout), ==, twice);
      n_overlaps += twice;
    }

  g_assert_cmpuint (n_overlaps, >, N_CASES / 20);
}

/* For small layouts with any strides, _gpu_array_layout_overlaps() is exact, and
 * _gpu_array_layout_may_overlap() misses no overlap. */
static void
layout_interleaved (void)
{
  guint n_overlaps = 0;
  guint n_interleaved = 0;

  for (guint i = 0; i < N_CASES; i++)
    {
      GpuArrayLayout layout;
      gssize shape[3];
      gboolean twice;

      for (guint k = 0; k < 3; k++)
        shape[k] = g_test_rand_int_range (1, 5);

      init (&layout, shape, 3, (gsize) g_test_rand_int_range (1, 4), GPU_ARRAY_ORDER_C);
      layout.offset = 200;

      for (guint k = 0; k < 3; k++)
        layout.strides[k] = g_test_rand_int_range (-20, 21);

      twice = find_shared (&layout);
      g_assert_cmpint (_gpu_array_layout_overlaps (&layout), ==, twice);
      g_assert_true (_gpu_array_layout_may_overlap (&layout) || !twice);
      n_overlaps += twice;
      n_interleaved += !twice && _gpu_array_layout_may_overlap (&layout);
    }

  g_assert_cmpuint (n_overlaps, >, N_CASES / 20);
  g_assert_cmpuint (n_interleaved, >, N_CASES / 50);
}

typedef struct
{
  GpuArrayLayout  to;
  GpuArrayLayout  from;
  guint8         *data;
  guint8         *source;
  guint8         *expected;
  gsize           size;
  gsize           source_size;
} Copy;

/* Copies a region as back ends do. Asserts that neither rows nor slices overlap. */
static gboolean
copy_region (const GpuArrayPlan  *plan,
             gsize                to,
             gsize                from,
             gpointer             data,
             GError             **error G_GNUC_UNUSED)
{
  Copy *copy = data;
  const GpuExtent *extent = &plan->extent;

  if (extent->height > 1)
    {
      g_assert_cmpuint (plan->to.row_pitch, >=, extent->width);
      g_assert_cmpuint (plan->from.row_pitch, >=, extent->width);
    }

  if (extent->depth > 1)
    {
      g_assert_cmpuint (plan->to.slice_pitch, >=, plan->to.row_pitch * extent->height);
      g_assert_cmpuint (plan->from.slice_pitch, >=, plan->from.row_pitch * extent->height);
    }

  for (gsize z = 0; z < extent->depth; z++)
    {
      for (gsize y = 0; y < extent->height; y++)
        memcpy (copy->data + to + z * plan->to.slice_pitch + y * plan->to.row_pitch,
                copy->source + from + z * plan->from.slice_pitch + y * plan->from.row_pitch,
                extent->width);
    }

  return TRUE;
}

static void
check_copy (Copy *copy)
{
  g_autofree guint8 *by_host = g_memdup2 (copy->data, copy->size);
  gssize index[GPU_ARRAY_MAX_DIMS] = { 0 };
  GpuArrayPlan plan;

  do
    memcpy (copy->expected + offset_of (&copy->to, index),
            copy->source + offset_of (&copy->from, index), copy->to.item_size);
  while (next_index (&copy->to, index));

  _gpu_array_plan_init (&plan, &copy->to, &copy->from);
  g_assert_true (_gpu_array_plan_run (&plan, copy_region, copy, NULL));
  test_assert_mem (copy->data, copy->expected, copy->size);
  _gpu_array_plan_copy (&plan, by_host, copy->source);
  test_assert_mem (by_host, copy->expected, copy->size);
}

/* Copies between two layouts of the same shape with unrelated strides. Strides of the source may be
 * 0. */
static void
layout_plans (void)
{
  for (guint i = 0; i < N_CASES; i++)
    {
      Copy copy = { 0 };
      gsize begin;

      make_random (&copy.to, FALSE);

      do
        make_random (&copy.from, TRUE);
      while (copy.from.n_dims != copy.to.n_dims);

      copy.from.item_size = copy.to.item_size;

      for (guint k = 0; k < copy.to.n_dims; k++)
        {
          copy.from.shape[k] = copy.to.shape[k];
          copy.from.strides[k] *= (gssize) copy.to.item_size;
        }

      copy.from.offset = G_MAXINT32;
      g_assert_true (_gpu_array_layout_get_range (&copy.from, &begin, &copy.source_size));
      copy.from.offset -= begin;
      copy.source_size -= begin;
      g_assert_true (_gpu_array_layout_get_range (&copy.to, &begin, &copy.size));
      copy.data = g_malloc0 (copy.size);
      copy.expected = g_malloc0 (copy.size);
      copy.source = g_malloc (copy.source_size);

      for (gsize k = 0; k < copy.source_size; k++)
        copy.source[k] = (guint8) ((k + i) * 2654435761u >> 24);

      check_copy (&copy);
      g_free (copy.data);
      g_free (copy.expected);
      g_free (copy.source);
    }
}

/* Adjacent elements are merged into one region. Up to three dimensions with gaps also form one
 * region. */
static void
layout_merged_regions (void)
{
  const gssize shape[] = { 6, 8, 10 };
  const guint axes[] = { 1, 0, 2 };
  g_autoptr (GError) error = NULL;
  GpuArrayLayout dense;
  GpuArrayLayout part;
  GpuArrayLayout packed;
  GpuArrayPlan plan;

  init (&dense, shape, 3, 4, GPU_ARRAY_ORDER_C);
  _gpu_array_plan_init (&plan, &dense, &dense);
  g_assert_cmpuint (plan.n_regions, ==, 1);
  g_assert_cmpuint (plan.extent.width, ==, 1920);
  g_assert_cmpuint (plan.extent.height, ==, 1);

  part = dense;
  test_assert_ok (_gpu_array_layout_slice (&part, 0, 1, 4, 1, "f", &error), error);
  test_assert_ok (_gpu_array_layout_slice (&part, 1, 2, 8, 1, "f", &error), error);
  test_assert_ok (_gpu_array_layout_slice (&part, 2, 3, 9, 1, "f", &error), error);
  _gpu_array_layout_pack (&part, &packed);
  _gpu_array_plan_init (&plan, &packed, &part);
  g_assert_cmpuint (plan.n_regions, ==, 1);
  g_assert_cmpuint (plan.extent.width, ==, 24);
  g_assert_cmpuint (plan.extent.height, ==, 6);
  g_assert_cmpuint (plan.extent.depth, ==, 3);

  test_assert_ok (_gpu_array_layout_permute (&part, axes, 3, "f", &error), error);
  _gpu_array_layout_pack (&part, &packed);
  _gpu_array_plan_init (&plan, &packed, &part);
  g_assert_cmpuint (plan.n_regions, ==, 1);
}

/* A DLPack tensor may have huge strides if no element needs them. The library must not multiply
 * such a stride by an index: the product would overflow, which the undefined-behaviour sanitizer
 * detects. */
static void
layout_huge_strides (void)
{
  const gssize huge = (gssize) 1 << (GLIB_SIZEOF_SIZE_T * 8 - 2);
  const gssize shape[] = { 2, 2 };
  const gssize split[] = { 2, 1, 2, 1 };
  const gssize none[] = { 3, 0 };
  g_autoptr (GError) error = NULL;
  GpuArrayLayout layout;
  GpuArrayLayout to;
  GpuArrayPlan plan;
  gsize begin, end;

  /* In the source, the rows are `huge` bytes apart, so the size of a slice of two rows is not
   * positive as a gssize. The plan must still detect that slices that are 1 byte apart would
   * overlap */
  init (&layout, shape, 2, 1, GPU_ARRAY_ORDER_C);
  init (&to, shape, 2, 1, GPU_ARRAY_ORDER_C);
  layout.strides[0] = 1;
  layout.strides[1] = huge;
  to.strides[0] = 32;
  to.strides[1] = 16;
  g_assert_true (_gpu_array_layout_get_range (&layout, &begin, &end));
  _gpu_array_plan_init (&plan, &to, &layout);
  g_assert_cmpuint (plan.extent.height, ==, 2);
  g_assert_cmpuint (plan.extent.depth, ==, 1);
  g_assert_cmpuint (plan.n_regions, ==, 2);

  test_assert_ok (_gpu_array_layout_reshape (&layout, split, 4, GPU_ARRAY_ORDER_C, "f", &error),
                  error);
  g_assert_cmpint (layout.strides[0], ==, 1);
  g_assert_cmpint (layout.strides[2], ==, huge);

  /* A layout without elements, and one with a single element */
  init (&layout, none, 2, 1, GPU_ARRAY_ORDER_C);
  layout.strides[0] = huge;
  test_assert_ok (_gpu_array_layout_slice (&layout, 0, 2, 0, -huge, "f", &error), error);
  init (&layout, none, 2, 1, GPU_ARRAY_ORDER_C);
  layout.strides[0] = 2 * (huge - 1);
  test_assert_ok (_gpu_array_layout_slice (&layout, 0, 2, G_MINSSIZE, -2, "f", &error), error);
  g_assert_cmpint (layout.shape[0], ==, 2);
  g_assert_cmpuint (layout.offset, ==, 0);
}

/* Source rows in reverse order, as in a[::-1]. */
static void
layout_backwards (void)
{
  const gssize shape[] = { 4, 3 };
  const guint8 source[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 };
  const guint8 expected[] = { 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0 };
  guint8 target[12] = { 0 };
  g_autoptr (GError) error = NULL;
  GpuArrayLayout to;
  GpuArrayLayout from;
  GpuArrayPlan plan;

  init (&to, shape, 2, 1, GPU_ARRAY_ORDER_C);
  init (&from, shape, 2, 1, GPU_ARRAY_ORDER_C);
  for (guint axis = 0; axis < 2; axis++)
    test_assert_ok (_gpu_array_layout_slice (&from, axis, G_MAXSSIZE, G_MINSSIZE, -1, "f", &error),
                    error);
  _gpu_array_plan_init (&plan, &to, &from);
  _gpu_array_plan_copy (&plan, target, source);
  test_assert_mem (target, expected, sizeof target);
}

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);
  test_add_plain ("dense", layout_dense);
  test_add_plain ("refused", layout_refused);
  test_add_plain ("slices", layout_slices);
  test_add_plain ("open-ends", layout_open_ends);
  test_add_plain ("strides", layout_strides);
  test_add_plain ("reshape", layout_reshape);
  test_add_plain ("overlaps", layout_overlaps);
  test_add_plain ("interleaved", layout_interleaved);
  test_add_plain ("plans", layout_plans);
  test_add_plain ("merged-regions", layout_merged_regions);
  test_add_plain ("huge-strides", layout_huge_strides);
  test_add_plain ("backwards", layout_backwards);

  return test_run ();
}
