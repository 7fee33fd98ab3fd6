/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <stdlib.h>

#include "fault-util.h"

#define ENDED_IN_ERROR 3
#define NO_DEVICE 77
#define DEADLINE_SECONDS 30

void
fault_check (gconstpointer data, guint8 value, gsize size, const char *what)
{
  for (gsize i = 0; i < size; i++)
    if (((const guint8 *) data)[i] != value)
      {
        g_printerr ("%s: byte %" G_GSIZE_FORMAT " is 0x%02x, not 0x%02x, and no call failed\n",
                    what, i, ((const guint8 *) data)[i], value);
        exit (1);
      }
}

static gboolean
wait_for_no_objects (void)
{
  gint64 deadline = g_get_monotonic_time () + DEADLINE_SECONDS * G_USEC_PER_SEC;

  for (;;)
    {
      g_autoptr (GVariant) alive = NULL;

      while (g_main_context_iteration (NULL, FALSE))
        ;
      alive = gpu_debug_list_live_objects ();
      if (g_variant_n_children (alive) == 0)
        return TRUE;
      if (g_get_monotonic_time () > deadline)
        {
          g_autofree char *text = g_variant_print (alive, FALSE);

          g_printerr ("still alive: %s\n", text);
          return FALSE;
        }
      g_usleep (500);
    }
}

static gboolean
run (FaultFunc func, GError **error)
{
  const char *name = g_getenv ("GPUMEM_DEVICE");
  g_autoptr (GpuDevice) device = gpu_device_find (name != NULL ? name : "opencl", error);
  g_autoptr (GpuContext) context = NULL;

  if (device == NULL || !gpu_device_check (device, error))
    return FALSE;
  context = gpu_context_new (device, GPU_CONTEXT_FLAGS_NONE, error);
  return context != NULL && func (context, error);
}

int
fault_run (FaultFunc func)
{
  g_autoptr (GError) error = NULL;
  gboolean success = run (func, &error);

  if (!wait_for_no_objects ())
    return 1;
  if (success != (error == NULL))
    {
      g_printerr ("%s\n", success ? "it went well, with an error" : "it failed without an error");
      return 1;
    }
  if (success)
    return 0;
  g_print ("ended in an error: %s\n", error->message);
  if (!g_utf8_validate (error->message, -1, NULL) || error->message[0] == '\0')
    return 1;
  return g_error_matches (error, GPU_ERROR, GPU_ERROR_NO_DEVICE) ? NO_DEVICE : ENDED_IN_ERROR;
}
