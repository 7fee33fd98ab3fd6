/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* table: fills a block of a table on the device, and reads the block with rows and columns swapped.
 *
 *   cc table.c -o table $(pkg-config --cflags --libs gpumem-1.0)
 */
#include <gpumem/gpumem.h>

#define N_ROWS 400
#define N_COLUMNS 600

static gboolean
check (GBytes *bytes, GError **error)
{
  const float *numbers = g_bytes_get_data (bytes, NULL);

  for (int column = 0; column < N_COLUMNS; column++)
    for (int row = 0; row < N_ROWS; row++)
      {
        float expected = row >= 100 && row < 200 && column % 2 == 0 ? 1.5f : 0.0f;

        if (numbers[column * N_ROWS + row] != expected)
          {
            g_set_error (error, GPU_ERROR, GPU_ERROR_FAILED, "row %d, column %d is %g", row,
                         column, (double) numbers[column * N_ROWS + row]);
            return FALSE;
          }
      }
  return TRUE;
}

static gboolean
run (GError **error)
{
  const gssize shape[] = { N_ROWS, N_COLUMNS };
  const float value = 1.5f;
  g_autoptr (GBytes) element = g_bytes_new (&value, sizeof value);
  g_autoptr (GpuArray) table = NULL;
  g_autoptr (GpuArray) rows = NULL;
  g_autoptr (GpuArray) block = NULL;
  g_autoptr (GpuArray) turned = NULL;
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuContext) context = gpu_context_new_default (error);

  if (context == NULL)
    return FALSE;
  stream = gpu_context_get_default_stream (context);
  table = gpu_array_new_filled (context, NULL, stream, GPU_DTYPE_FLOAT32, shape, 2,
                                GPU_ARRAY_ORDER_C, NULL, error);
  if (table == NULL)
    return FALSE;

  /* Views do not copy the memory. These are rows 100 to 199, and every second column of these
   * rows. */
  rows = gpu_array_slice (table, 0, 100, 200, 1, error);
  block = gpu_array_slice (rows, 1, G_MINSSIZE, G_MAXSSIZE, 2, error);
  if (!gpu_stream_fill_array (stream, block, element, error))
    return FALSE;

  /* Reading waits for the fill. */
  turned = gpu_array_transpose (table, NULL, 0, error);
  bytes = gpu_array_read_bytes (turned, stream, GPU_ARRAY_ORDER_C, NULL, error);
  return bytes != NULL && check (bytes, error);
}

int
main (void)
{
  g_autoptr (GError) error = NULL;

  if (!run (&error))
    {
      g_printerr ("table: %s\n", error->message);
      return 1;
    }
  g_print ("transposed %d numbers\n", N_ROWS * N_COLUMNS);
  return 0;
}
