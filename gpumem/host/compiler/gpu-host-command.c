/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <glib/gstdio.h>

#include "gpumem/host/compiler/gpu-host-command.h"

gboolean
_gpu_host_command_run (const char *const  *command,
                       GPtrArray          *arguments,
                       const char         *directory,
                       const char         *locale,
                       GString            *log,
                       GError            **error)
{
  g_auto (GStrv) environment = g_get_environ ();
  g_autoptr (GPtrArray) argv = g_ptr_array_new ();
  g_autofree char *output = NULL;
  g_autofree char *messages = NULL;
  int status;

  /* A library preloaded into this process, such as that of a sanitizer, must not be loaded into the
   * compiler. */
  environment = g_environ_unsetenv (environment, "LD_PRELOAD");
  environment = g_environ_setenv (environment, "LC_ALL", locale, TRUE);

  for (; *command != NULL; command++)
    g_ptr_array_add (argv, (gpointer) *command);

  g_ptr_array_extend (argv, arguments, NULL, NULL);
  g_ptr_array_add (argv, NULL);

  if (!g_spawn_sync (directory, (char **) argv->pdata, environment, G_SPAWN_SEARCH_PATH, NULL,
                     NULL, &output, &messages, &status, error))
    return FALSE;

  g_string_append (log, output);
  g_string_append (log, messages);

  return g_spawn_check_wait_status (status, error);
}

void
_gpu_host_directory_remove (const char *directory)
{
  g_autoptr (GDir) files = g_dir_open (directory, 0, NULL);
  const char *name;

  while (files != NULL && (name = g_dir_read_name (files)) != NULL)
    {
      g_autofree char *path = g_build_filename (directory, name, NULL);

      if (g_unlink (path) != 0)
        _gpu_host_directory_remove (path);
    }

  g_rmdir (directory);
}
