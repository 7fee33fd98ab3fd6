/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <glib/gstdio.h>

#include "tools/gpumem-plot.h"

gboolean
gpumem_plot_is_name (const char *path)
{
  return g_str_has_suffix (path, ".svg") || g_str_has_suffix (path, ".png");
}

gboolean
gpumem_plot_check (const char  *path,
                   GError     **error)
{
  g_autofree char *program = g_find_program_in_path ("gnuplot");
  g_autofree char *folder = g_path_get_dirname (path);

  if (program == NULL)
    g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND,
                 "Cannot draw '%s': there is no gnuplot in PATH", path);
  else if (!g_file_test (folder, G_FILE_TEST_IS_DIR))
    g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND,
                 "Cannot draw '%s': there is no folder '%s'", path, folder);
  else
    return TRUE;
  return FALSE;
}

/* Begins a script that draws to @path. */
GString *
gpumem_plot_begin (const char *path)
{
  if (g_str_has_suffix (path, ".svg"))
    return g_string_new ("set terminal svg size 1200,900 background 'white'\n");
  return g_string_new ("if (strstrt (GPVAL_TERMINALS, 'pngcairo')) {\n"
                       "  set terminal pngcairo size 1200,900\n"
                       "} else {\n"
                       "  set terminal png size 1200,900\n"
                       "}\n");
}

/* Quotes @text for gnuplot. Only the characters below are special in single quotes. */
void
gpumem_plot_append_quoted (GString    *script,
                           const char *text)
{
  g_string_append_c (script, '\'');
  for (; *text != '\0'; text++)
    if (*text == '\'')
      g_string_append (script, "''");
    else
      g_string_append_c (script, g_ascii_iscntrl (*text) ? ' ' : *text);
  g_string_append_c (script, '\'');
}

void
gpumem_plot_append_number (GString *script,
                           double   number)
{
  char text[G_ASCII_DTOSTR_BUF_SIZE];

  g_string_append_printf (script, " %s", g_ascii_dtostr (text, sizeof text, number));
}

static gboolean
run_gnuplot (const char  *path,
             const char  *script,
             GError     **error)
{
  g_autoptr (GBytes) picture = NULL;
  g_autoptr (GBytes) complaint = NULL;
  g_autoptr (GSubprocess) process =
    g_subprocess_new (G_SUBPROCESS_FLAGS_STDOUT_PIPE | G_SUBPROCESS_FLAGS_STDERR_PIPE, error,
                      "gnuplot", script, NULL);

  if (process == NULL ||
      !g_subprocess_communicate (process, NULL, NULL, &picture, &complaint, error))
    return FALSE;
  if (!g_subprocess_get_successful (process) || g_bytes_get_size (picture) == 0)
    {
      gsize size = 0;
      const char *text = g_bytes_get_data (complaint, &size);

      g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED, "gnuplot did not draw '%s': %.*s", path,
                   (int) MIN (size, 1000), text != NULL ? text : "");
      return FALSE;
    }
  return g_file_set_contents (path, g_bytes_get_data (picture, NULL), g_bytes_get_size (picture),
                              error);
}

/* Passes the script as a file instead of a pipe: if gnuplot exited before it read a pipe, SIGPIPE
 * would end this command. */
gboolean
gpumem_plot_draw (const char  *path,
                  const char  *script,
                  GError     **error)
{
  g_autofree char *file = NULL;
  int fd = g_file_open_tmp ("gpumem-XXXXXX.gnuplot", &file, error);
  gboolean success;

  if (fd < 0)
    return FALSE;
  success = g_close (fd, error) && g_file_set_contents (file, script, -1, error) &&
            run_gnuplot (path, file, error);
  g_unlink (file);
  return success;
}
