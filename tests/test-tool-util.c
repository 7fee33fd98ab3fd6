/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <glib/gstdio.h>
#include <signal.h>

#include "test-tool-util.h"
#include "test-util.h"

static char *tool;
static char *program;   /* the program itself, not libtool's wrapper script */
static gboolean is_direct;
static char *folder;
static char *data_dirs; /* the user's XDG_DATA_DIRS, nullable */

gboolean
test_tool_init (void)
{
  g_autofree char *dir = NULL;
  g_autofree char *name = NULL;

  data_dirs = g_strdup (g_getenv ("XDG_DATA_DIRS"));
  folder = g_dir_make_tmp ("gpumem-command-XXXXXX", NULL);
  tool = g_getenv ("GPUMEM_TOOL") != NULL ? g_strdup (g_getenv ("GPUMEM_TOOL"))
                                          : g_find_program_in_path ("gpumem");
  if (tool == NULL)
    return FALSE;
  dir = g_path_get_dirname (tool);
  name = g_path_get_basename (tool);
  program = g_build_filename (dir, ".libs", name, NULL);
  if (!g_file_test (program, G_FILE_TEST_IS_EXECUTABLE))
    {
      g_free (program);
      program = g_strdup (tool);
    }
  return TRUE;
}

static void
remove_folder (const char *path)
{
  g_autoptr (GDir) dir = g_dir_open (path, 0, NULL);
  const char *name;

  while (dir != NULL && (name = g_dir_read_name (dir)) != NULL)
    {
      g_autofree char *child = g_build_filename (path, name, NULL);

      if (g_file_test (child, G_FILE_TEST_IS_DIR))
        remove_folder (child);
      else
        g_unlink (child);
    }
  g_rmdir (path);
}

void
test_tool_clear (void)
{
  remove_folder (folder);
  g_clear_pointer (&folder, g_free);
  g_clear_pointer (&tool, g_free);
  g_clear_pointer (&program, g_free);
  g_clear_pointer (&data_dirs, g_free);
}

const char *
test_tool_folder (void)
{
  return folder;
}

void
test_tool_direct (gboolean direct)
{
  is_direct = direct;
}

/* Starts the command with the user's XDG_DATA_DIRS, because the folders of the tests lack the MIME
 * types of pictures. */
static GSubprocess *
start (GSubprocessFlags   flags,
       const char        *output,
       const char *const *words)
{
  g_autoptr (GSubprocessLauncher) launcher = g_subprocess_launcher_new (flags);
  g_autoptr (GPtrArray) argv = g_ptr_array_new ();
  g_autoptr (GError) error = NULL;
  GSubprocess *process;

  if (data_dirs != NULL)
    g_subprocess_launcher_setenv (launcher, "XDG_DATA_DIRS", data_dirs, TRUE);
  else
    g_subprocess_launcher_unsetenv (launcher, "XDG_DATA_DIRS");
  g_ptr_array_add (argv, is_direct ? program : tool);
  for (guint i = 0; words[i] != NULL; i++)
    g_ptr_array_add (argv, (gpointer) words[i]);
  g_ptr_array_add (argv, NULL);
  if (output != NULL)
    g_subprocess_launcher_set_stdout_file_path (launcher, output);
  process = g_subprocess_launcher_spawnv (launcher, (const char *const *) argv->pdata, &error);
  g_assert_no_error (error);
  return process;
}

GSubprocess *
test_tool_start (GSubprocessFlags   flags,
                 const char *const *words)
{
  return start (flags, NULL, words);
}

GSubprocess *
test_tool_start_full (const char *const *words)
{
  return start (G_SUBPROCESS_FLAGS_STDERR_PIPE, "/dev/full", words);
}

/* Returns the output, if it was piped, and the exit status. */
TestRun
test_tool_wait (GSubprocess *process)
{
  g_autoptr (GError) error = NULL;
  TestRun run = { -1, NULL, NULL };

  g_subprocess_communicate_utf8 (process, NULL, NULL, &run.out, &run.err, &error);
  g_assert_no_error (error);
  g_assert_true (g_subprocess_get_if_exited (process));
  run.status = g_subprocess_get_exit_status (process);
  return run;
}

TestRun
test_tool_run (const char *word,
               ...)
{
  g_autoptr (GPtrArray) words = g_ptr_array_new ();
  g_autoptr (GSubprocess) process = NULL;
  va_list rest;

  va_start (rest, word);
  for (; word != NULL; word = va_arg (rest, const char *))
    g_ptr_array_add (words, (gpointer) word);
  va_end (rest);
  g_ptr_array_add (words, NULL);
  process = test_tool_start (G_SUBPROCESS_FLAGS_STDOUT_PIPE | G_SUBPROCESS_FLAGS_STDERR_PIPE,
                             (const char *const *) words->pdata);
  return test_tool_wait (process);
}

void
test_run_clear (TestRun *run)
{
  g_free (run->out);
  g_free (run->err);
}

/* Returns TRUE if the process has started the thread that receives signals. */
static gboolean
catches_signals (const char *pid)
{
  g_autofree char *tasks = g_build_filename ("/proc", pid, "task", NULL);
  g_autoptr (GDir) dir = g_dir_open (tasks, 0, NULL);
  const char *task;

  while (dir != NULL && (task = g_dir_read_name (dir)) != NULL)
    {
      g_autofree char *path = g_build_filename (tasks, task, "comm", NULL);
      g_autofree char *name = NULL;

      if (g_file_get_contents (path, &name, NULL, NULL) && g_str_equal (name, "interrupt\n"))
        return TRUE;
    }
  return FALSE;
}

void
test_tool_interrupt (const char        *id,
                     const char *const *arguments)
{
  g_autoptr (GSubprocess) process = NULL;
  g_auto (TestRun) run = { 0 };

  test_tool_direct (TRUE);
  process = test_tool_start (G_SUBPROCESS_FLAGS_STDOUT_PIPE | G_SUBPROCESS_FLAGS_STDERR_PIPE,
                             arguments);
  test_tool_direct (FALSE);
  for (guint i = 0; i < TEST_DEADLINE * 100; i++)
    {
      if (catches_signals (g_subprocess_get_identifier (process)))
        break;
      g_usleep (G_USEC_PER_SEC / 100);
    }
  g_subprocess_send_signal (process, SIGINT);
  run = test_tool_wait (process);

  g_assert_cmpint (run.status, ==, 130);
  g_assert_true (g_str_has_prefix (run.out, id));
  g_assert_cmpstr (run.err, ==, "gpumem: interrupted\n");
}
