/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <glib/gstdio.h>

#include "gpumem/base/gpu-directory-private.h"

char *
_gpu_directory_new (GError **error)
{
  return g_dir_make_tmp ("gpumem-XXXXXX", error);
}

gboolean
_gpu_directory_write (const char  *directory,
                      const char  *name,
                      const char  *text,
                      GError     **error)
{
  g_autofree char *path = g_build_filename (directory, name, NULL);
  g_autofree char *parent = g_path_get_dirname (path);

  /* If this fails, writing the file fails, with a better message. */
  g_mkdir_with_parents (parent, 0700);

  return g_file_set_contents_full (path, text, -1, G_FILE_SET_CONTENTS_NONE, 0600, error);
}

gboolean
_gpu_directory_write_all (const char         *directory,
                          const char *const  *files,
                          GError            **error)
{
  for (; files != NULL && *files != NULL; files += 2)
    {
      if (!_gpu_directory_write (directory, files[0], files[1], error))
        return FALSE;
    }

  return TRUE;
}

void
_gpu_directory_remove (const char *directory)
{
  g_autoptr (GDir) files = g_dir_open (directory, 0, NULL);
  const char *name;

  while (files != NULL && (name = g_dir_read_name (files)) != NULL)
    {
      g_autofree char *path = g_build_filename (directory, name, NULL);

      if (g_unlink (path) != 0)
        _gpu_directory_remove (path);
    }

  g_rmdir (directory);
}
