/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* hello: lists the devices, then copies a greeting to the memory of one of them and back.
 *
 *   cc hello.c -o hello $(pkg-config --cflags --libs gpumem-1.0)
 *   ./hello                          the default device
 *   GPUMEM_DEVICE=host ./hello       another device
 */
#include <string.h>

#include <gpumem/gpumem.h>

#define SIZE 4096

static void
list_devices (void)
{
  GList *devices = gpu_device_list ();

  for (GList *l = devices; l != NULL; l = l->next)
    {
      g_autoptr (GError) why_not = NULL;
      GpuDevice *device = l->data;

      gpu_device_check (device, &why_not);
      g_print ("%-10s %s%s%s\n", gpu_device_get_id (device), gpu_device_get_name (device),
               why_not != NULL ? ", unusable: " : "", why_not != NULL ? why_not->message : "");
    }

  g_list_free_full (devices, g_object_unref);
}

/* Every function that can fail takes a GError. The first error is passed up to main(). */
static gboolean
say_hello (GError **error)
{
  static const char greeting[] = "Hello from the memory of a device";
  g_autoptr (GpuContext) context = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuBuffer) duplicate = NULL;
  g_autoptr (GBytes) bytes = NULL;
  const char *text;

  context = gpu_context_new_default (error);
  if (context == NULL)
    return FALSE;

  buffer = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, SIZE, error);
  if (buffer == NULL)
    return FALSE;
  duplicate = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, SIZE, error);
  if (duplicate == NULL)
    return FALSE;

  /* The methods of a buffer wait for the result. NULL selects the default stream. */
  if (!gpu_buffer_fill (buffer, NULL, 0, SIZE, ".", 1, NULL, error) ||
      !gpu_buffer_write (buffer, NULL, 8, greeting, strlen (greeting), NULL, error) ||
      !gpu_buffer_copy (duplicate, NULL, 0, buffer, 0, SIZE, NULL, error))
    return FALSE;

  bytes = gpu_buffer_read_bytes (duplicate, NULL, 0, SIZE, NULL, error);
  if (bytes == NULL)
    return FALSE;

  text = g_bytes_get_data (bytes, NULL);
  g_print ("%s says: %.50s\n", gpu_device_get_id (gpu_context_get_device (context)), text);

  for (gsize i = 0; i < SIZE; i++)
    {
      char expected = i >= 8 && i < 8 + strlen (greeting) ? greeting[i - 8] : '.';

      if (text[i] != expected)
        {
          g_set_error (error, GPU_ERROR, GPU_ERROR_FAILED, "byte %" G_GSIZE_FORMAT " is '%c', "
                       "not '%c'", i, text[i], expected);
          return FALSE;
        }
    }

  return TRUE;
}

int
main (void)
{
  g_autoptr (GError) error = NULL;

  list_devices ();

  if (!say_hello (&error))
    {
      g_printerr ("hello: %s\n", error->message);
      return 1;
    }

  return 0;
}
