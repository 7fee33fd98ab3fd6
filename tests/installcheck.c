/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A user's program, built with the flags that pkg-config returns for the installed library. make
 * installcheck passes the expected version as the argument. */

#include <gpumem/gpumem.h>

int
main (int argc, char **argv)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDevice) device = gpu_device_find ("host", &error);

  if (device == NULL)
    g_error ("%s", error->message);
  if (argc == 2 && g_strcmp0 (argv[1], GPU_VERSION_S) != 0)
    g_error ("the headers are of %s, not of %s", GPU_VERSION_S, argv[1]);
  if (!GPU_CHECK_VERSION (0, 1, 0))
    g_error ("GPU_CHECK_VERSION is wrong");

  g_print ("installcheck: C, %s on %s\n", GPU_VERSION_S, gpu_device_get_name (device));
  return 0;
}
