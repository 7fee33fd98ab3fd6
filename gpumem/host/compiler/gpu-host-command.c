/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <glib-unix.h>
#include <glib/gstdio.h>

#include "gpumem/host/compiler/gpu-host-command.h"

/* Runs in the child: a compiler that inherits an ignored SIGCHLD cannot wait for its own child
 * processes. */
static void
restore_sigchld (gpointer data G_GNUC_UNUSED)
{
  signal (SIGCHLD, SIG_DFL);
}

/* Returns restore_sigchld() if this process ignores SIGCHLD, otherwise NULL: with a setup function,
 * GLib cannot use posix_spawn() and falls back to fork(). */
static GSpawnChildSetupFunc
get_child_setup (void)
{
  struct sigaction action;

  return sigaction (SIGCHLD, NULL, &action) == 0 && action.sa_handler == SIG_IGN ? restore_sigchld
                                                                                 : NULL;
}

/* Reads from a pipe until all copies of its write end are closed. */
static void
read_all (int      fd,
          GString *log)
{
  char text[4096];
  gssize n;

  do
    {
      n = read (fd, text, sizeof text);

      if (n > 0)
        g_string_append_len (log, text, n);
    }
  while (n > 0 || (n < 0 && errno == EINTR));
}

static gboolean
wait_for (GPid          pid,
          gboolean      has_product,
          const char   *path,
          GError      **error)
{
  pid_t result;
  int status;

  do
    result = waitpid (pid, &status, 0);
  while (result < 0 && errno == EINTR);

  if (result == pid)
    return g_spawn_check_wait_status (status, error);

  if (has_product || (path != NULL && g_file_test (path, G_FILE_TEST_EXISTS)))
    return TRUE;

  g_set_error_literal (error, G_SPAWN_EXIT_ERROR, 1, "Child process left no result");

  return FALSE;
}

static gboolean
run (char       **argv,
     char       **environment,
     const char  *directory,
     const char  *product,
     GString     *log,
     GError     **error)
{
  g_autofree char *path = product != NULL ? g_build_filename (directory, product, NULL) : NULL;
  gsize before = log->len;
  gboolean started;
  int fds[2];
  GPid pid;

  if (!g_unix_open_pipe (fds, FD_CLOEXEC, error))
    return FALSE;

  started = g_spawn_async_with_fds (directory, argv, environment,
                                    G_SPAWN_SEARCH_PATH | G_SPAWN_DO_NOT_REAP_CHILD,
                                    get_child_setup (), NULL, &pid, -1, fds[1], fds[1], error);
  g_close (fds[1], NULL);

  if (started)
    read_all (fds[0], log);

  g_close (fds[0], NULL);

  return started && wait_for (pid, path == NULL && log->len > before, path, error);
}

gboolean
_gpu_host_command_run (const char *const  *command,
                       GPtrArray          *arguments,
                       const char         *directory,
                       const char         *locale,
                       const char         *product,
                       GString            *log,
                       GError            **error)
{
  g_auto (GStrv) environment = g_get_environ ();
  g_autoptr (GPtrArray) argv = g_ptr_array_new ();

  /* Libraries preloaded into this process, such as a sanitizer, must not be loaded into the
   * compiler. */
  environment = g_environ_unsetenv (environment, "LD_PRELOAD");
  environment = g_environ_setenv (environment, "LC_ALL", locale, TRUE);

  for (; *command != NULL; command++)
    g_ptr_array_add (argv, (gpointer) *command);

  g_ptr_array_extend (argv, arguments, NULL, NULL);
  g_ptr_array_add (argv, NULL);

  return run ((char **) argv->pdata, environment, directory, product, log, error);
}
