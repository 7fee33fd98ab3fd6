/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "tools/gpumem-tour-device.h"

/* Counts the 32-bit numbers that differ. */
static guint64
count_differences (GBytes        *result,
                   const guint32 *expected)
{
  gsize size;
  const guint32 *numbers = g_bytes_get_data (result, &size);
  guint64 n = 0;

  for (gsize i = 0; i < size / sizeof (guint32); i++)
    n += numbers[i] != expected[i];
  return n;
}

/* Counts the bytes that differ from @expected by more than the tolerance for samplers. */
static guint64
count_distant (GBytes        *result,
               const guint32 *expected)
{
  gsize size;
  const guint8 *bytes = g_bytes_get_data (result, &size);
  const guint8 *others = (const guint8 *) expected;
  guint64 n = 0;

  for (gsize i = 0; i < size; i++)
    n += ABS (bytes[i] - others[i]) > GPUMEM_RESIZE_TOLERANCE;
  return n;
}

static void
add_wrong (GString    *wrong,
           const char *name,
           guint64     n,
           gsize       n_values)
{
  if (n > 0)
    g_string_append_printf (wrong, "%s%s: %" G_GUINT64_FORMAT " of %" G_GSIZE_FORMAT
                            " values differ", wrong->len > 0 ? "; " : "", name, n, n_values);
}

/* Compares the results with the reference. Every bit must match, except for pixels that a sampler
 * interpolates. If a result is wrong, sets the outcome of the device, and still returns TRUE. */
gboolean
gpumem_work_check (GpumemWork  *work,
                   GError     **error)
{
  const GpumemReference *reference = work->tour->reference;
  const struct
  {
    const char    *name;
    GBytes        *result;
    const guint32 *expected;
  } checks[] = {
    { "blur", work->blurred_result, reference->blurred },
    { "edges", work->edges_result, reference->edges },
    { "histogram before", work->before_result, reference->before },
    { "histogram after", work->after_result, reference->after },
    { "image blur", work->image_result, reference->blurred },
  };
  g_autoptr (GString) wrong = g_string_new (NULL);
  guint n_checks = G_N_ELEMENTS (checks) - (work->image_result == NULL);

  for (guint i = 0; i < n_checks; i++)
    add_wrong (wrong, checks[i].name, count_differences (checks[i].result, checks[i].expected),
               g_bytes_get_size (checks[i].result) / sizeof (guint32));
  if (work->resized_result != NULL)
    add_wrong (wrong, "resize", count_distant (work->resized_result, reference->resized),
               g_bytes_get_size (work->resized_result));
  if (wrong->len == 0)
    {
      work->note = g_strdup_printf ("all %u results right to the last bit%s", n_checks,
                                    work->resized_result != NULL
                                    ? ", sampled pixels within tolerance" : "");
      return TRUE;
    }
  work->note = g_strdup ("results are wrong");
  work->result->outcome = GPUMEM_OUTCOME_WRONG;
  work->result->message = g_strdup (wrong->str);
  return TRUE;
}

/* Returns: (transfer full): the path of a picture, such as "OUTPUT/opencl-0-0-blur.png" */
static char *
picture_path (GpumemWork *work,
              const char *name)
{
  const char *id = gpu_device_get_id (work->result->device);
  g_autofree char *file = g_strdup_printf ("%s-%s.png", id, name);

  g_strcanon (file, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS ".-_", '-');
  return g_build_filename (work->tour->output, file, NULL);
}

static gboolean
save_one (GpumemWork    *work,
          const char    *name,
          GpumemPicture *picture,
          GError       **error)
{
  g_autofree char *path = picture_path (work, name);

  if (g_cancellable_set_error_if_cancelled (work->tour->cancellable, error) ||
      !gpumem_picture_save (picture, path, error))
    return FALSE;
  g_ptr_array_add (work->result->pictures, g_steal_pointer (&path));
  return TRUE;
}

static gboolean
save_resized (GpumemWork  *work,
              GError     **error)
{
  g_autoptr (GpumemPicture) resized =
    gpumem_picture_new (work->tour->reference->resized_width,
                        work->tour->reference->resized_height,
                        g_bytes_ref (work->resized_result));

  return save_one (work, "resized", resized, error);
}

/* Writes the pictures, even those with wrong results, because they help to find the cause. */
gboolean
gpumem_work_save (GpumemWork  *work,
                  GError     **error)
{
  const GpumemPicture *input = work->tour->picture;
  g_autoptr (GpumemPicture) blurred =
    gpumem_picture_new (input->width, input->height, g_bytes_ref (work->blurred_result));
  g_autoptr (GpumemPicture) edges =
    gpumem_picture_new (input->width, input->height, g_bytes_ref (work->edges_result));
  g_autoptr (GpumemPicture) histogram =
    gpumem_picture_histogram (g_bytes_get_data (work->before_result, NULL),
                              g_bytes_get_data (work->after_result, NULL));

  if (!save_one (work, "blur", blurred, error) ||
      !save_one (work, "edges", edges, error) ||
      !save_one (work, "histogram", histogram, error) ||
      (work->resized_result != NULL && !save_resized (work, error)))
    return FALSE;
  work->note = g_strdup_printf ("%u pictures", work->result->pictures->len);
  return TRUE;
}
