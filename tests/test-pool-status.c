/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Status files of pools: the library writes them, and tools/gpumem-status.c reads them. */
#define _GNU_SOURCE
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "test-util.h"
#include "tools/gpumem-status.h"

#define FILE_TEXT "gpumem-status 1\nname test\npool host bins 4096 1000 1024 2048\n"

static char *runtime;               /* the user's runtime directory of this process */
static char *folder;                /* the folder gpumem in `runtime` */
static char *path;                  /* the file of this process */

/* The state of the simulated slow disk. */
static int is_slow, is_waiting, was_late;

/* The signals that are blocked in the thread that writes the status file. That thread stores them
 * here in renameat(), while the disk is slow. */
static sigset_t blocked;

static int n_attempts;              /* number of attempts to write a file */
static int n_threads;               /* threads that GLib's g_thread_try_new() has started */
static int n_reports;               /* messages about the status file */
static int no_threads, exits_on_report;

/* Overrides the function of the C library. To simulate a slow disk, blocks the thread that writes
 * the file. */
int
renameat (int         old_folder,
          const char *old_name,
          int         new_folder,
          const char *new_name)
{
  const gint64 end = g_get_monotonic_time () + TEST_DEADLINE * G_USEC_PER_SEC;

  while (g_atomic_int_get (&is_slow))
    {
      pthread_sigmask (SIG_BLOCK, NULL, &blocked);
      g_atomic_int_set (&is_waiting, TRUE);
      if (g_get_monotonic_time () > end)
        {
          g_atomic_int_set (&was_late, TRUE);
          break;
        }
      g_usleep (1000);
    }

  return syscall (SYS_renameat, old_folder, old_name, new_folder, new_name);
}

/* Overrides the function of the C library that libgpumem calls for each attempt to write a file. */
int
mkdirat (int         parent,
         const char *name,
         mode_t      mode)
{
  g_atomic_int_inc (&n_attempts);

  return syscall (SYS_mkdirat, parent, name, mode);
}

/* Replaces g_thread_try_new() of GLib. If no_threads is set, fails as GLib does when the limit of
 * threads is reached. */
GThread *
g_thread_try_new (const char   *name,
                  GThreadFunc   func,
                  gpointer      data,
                  GError      **error)
{
  if (no_threads)
    {
      g_set_error (error, G_THREAD_ERROR, G_THREAD_ERROR_AGAIN, "no thread is left");
      return NULL;
    }
  g_atomic_int_inc (&n_threads);

  return g_thread_new (name, func, data);
}

/* The program's log writer of a child process. */
static GLogWriterOutput
write_log (GLogLevelFlags   level,
           const GLogField *fields,
           gsize            n_fields,
           gpointer         data)
{
  g_autofree char *text = g_log_writer_format_fields (level, fields, n_fields, FALSE);

  g_log_writer_default (level, fields, n_fields, data);
  if (strstr (text, "status file") == NULL)
    return G_LOG_WRITER_HANDLED;
  if (exits_on_report)
    {
      g_unlink (folder);
      exit (0);
    }
  g_atomic_int_inc (&n_reports);

  return G_LOG_WRITER_HANDLED;
}

static GpuMemoryPool *
make_pool (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDevice) device = gpu_device_find ("host", &error);
  g_autoptr (GpuContext) context = NULL;
  GpuMemoryPool *pool;

  test_assert_ok (device != NULL, error);
  context = gpu_context_new (device, 0, &error);
  test_assert_ok (context != NULL, error);
  pool = gpu_memory_pool_new (context, GPU_MEMORY_POOL_AUTOMATIC, 0, &error);
  test_assert_ok (pool != NULL, error);

  return pool;
}

static gboolean
wait_for_file (gboolean exists)
{
  for (guint i = 0; i < TEST_DEADLINE * 100; i++)
    {
      if (g_file_test (path, G_FILE_TEST_EXISTS) == exists)
        return TRUE;
      g_usleep (10000);
    }

  return FALSE;
}

static void
wait_for (int *counter,
          int  value)
{
  for (guint i = 0; g_atomic_int_get (counter) < value; i++)
    {
      g_assert_cmpuint (i, <, TEST_DEADLINE * 1000);
      g_usleep (1000);
    }
}

/* Returns whether the writer of the file @name holds a lock on the file, which shows that it is
 * alive. Tests the lock in a child process, because fcntl() does not report locks of its own
 * process. */
static gboolean
is_locked (const char *name)
{
  struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
  const pid_t pid = fork ();
  int file, status;

  if (pid == 0)
    {
      file = open (name, O_RDONLY);
      test_end_child (file >= 0 && fcntl (file, F_GETLK, &lock) == 0 && lock.l_type == F_WRLCK);
    }
  g_assert_cmpint (waitpid (pid, &status, 0), ==, pid);

  return WIFEXITED (status) && WEXITSTATUS (status) == 1;
}

/* Another process removes the file while the figures stay the same. */
static void
check_removed_file (void)
{
  g_autoptr (GpuMemoryPool) pool = make_pool ();

  g_assert_true (wait_for_file (TRUE));
  g_assert_cmpint (g_unlink (path), ==, 0);
  g_assert_true (wait_for_file (TRUE));
  g_assert_true (is_locked (path));
}

static void
check_removed_folder (void)
{
  g_autoptr (GpuMemoryPool) pool = make_pool ();

  g_assert_true (wait_for_file (TRUE));
  g_assert_cmpint (g_unlink (path), ==, 0);
  while (g_rmdir (folder) != 0)
    {
      g_assert_cmpint (errno, ==, ENOTEMPTY);
      g_unlink (path);
    }
  g_assert_true (wait_for_file (TRUE));
}

static void
check_last_pool (void)
{
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (GpuMemoryPool) pool = make_pool ();

      g_assert_true (wait_for_file (TRUE));
      g_clear_object (&pool);
      g_assert_true (wait_for_file (FALSE));
    }
}

/* Creating and freeing a pool does not wait for the disk. The writer's thread locks the new file
 * before it renames the file, because a reader removes a file without a lock. The thread blocks all
 * signals except those of its own faults, so that other threads receive them. */
static void
check_slow_disk (void)
{
  g_autofree char *temporary = g_strdup_printf ("%s/.%d.new", folder, (int) getpid ());

  g_atomic_int_set (&is_waiting, FALSE);
  g_atomic_int_set (&is_slow, TRUE);
  {
    g_autoptr (GpuMemoryPool) first = make_pool ();

    wait_for (&is_waiting, TRUE);
    g_assert_true (is_locked (temporary));
    g_assert_true (sigismember (&blocked, SIGINT));
    g_assert_false (sigismember (&blocked, SIGSEGV));
    for (guint i = 0; i < 10; i++)
      g_object_unref (make_pool ());
    g_atomic_int_set (&is_slow, FALSE);
  }
  g_assert_false (g_atomic_int_get (&was_late));
}

/* A forked child neither removes the file of its parent nor has a file. */
static void
check_fork (void)
{
  g_autoptr (GpuMemoryPool) pool = make_pool ();
  g_autofree char *child_path = NULL;
  pid_t pid;

  g_assert_true (wait_for_file (TRUE));
  fflush (NULL);
  pid = fork ();
  if (pid == 0)
    {
      g_object_unref (pool);
      exit (0);
    }
  g_assert_cmpint (waitpid (pid, NULL, 0), ==, pid);
  g_assert_true (is_locked (path));
  child_path = g_strdup_printf ("%s/%d", folder, (int) pid);
  g_assert_false (g_file_test (child_path, G_FILE_TEST_EXISTS));
}

static void
set_variable (const char *name,
              const char *value)
{
  if (value != NULL)
    g_setenv (name, value, TRUE);
  else
    g_unsetenv (name);
}

/* Runs a test in a separate process, in which the environment variable @variable names a new
 * runtime directory. */
static void
run_child (const char *name,
           const char *variable)
{
  g_autofree char *test = g_strdup_printf ("/pool-status/subprocess/%s", name);
  g_autofree char *directory = g_build_filename (runtime, name, NULL);
  g_autofree char *before = g_strdup (g_getenv (variable));
  g_autofree char *debug = g_strdup (g_getenv ("GPUMEM_DEBUG"));

  g_assert_cmpint (g_mkdir (directory, 0700), ==, 0);
  set_variable ("XDG_RUNTIME_DIR", NULL);
  set_variable ("TEST_POOL_STATUS", directory);
  set_variable ("GPUMEM_DEBUG", "pool");
  set_variable (variable, directory);
  g_test_trap_subprocess (test, TEST_CHILD_TIMEOUT, G_TEST_SUBPROCESS_DEFAULT);
  set_variable (variable, before);
  set_variable ("GPUMEM_DEBUG", debug);
  set_variable ("TEST_POOL_STATUS", NULL);
  set_variable ("XDG_RUNTIME_DIR", runtime);
  g_test_trap_assert_passed ();
  g_rmdir (directory);
}

/* At first the folder cannot be created; later it can. */
static void
child_failure (void)
{
  g_autoptr (GpuMemoryPool) pool = NULL;

  g_assert_true (g_file_set_contents (folder, "", 0, NULL));
  pool = make_pool ();
  wait_for (&n_attempts, 3);
  g_assert_cmpint (g_unlink (folder), ==, 0);
  g_assert_true (wait_for_file (TRUE));
}

static void
check_failure (void)
{
  run_child ("failure", "XDG_RUNTIME_DIR");
  g_test_trap_assert_stderr ("*status file*gpumem*: Not a directory*");
  g_test_trap_assert_stderr_unmatched ("*status file*status file*");
}

/* The program's log writer ends the process. */
static void
child_exit (void)
{
  g_log_set_writer_func (write_log, NULL, NULL);
  exits_on_report = TRUE;
  g_assert_true (g_file_set_contents (folder, "", 0, NULL));
  make_pool ();
  wait_for (&n_reports, 1);
}

static void
check_exit (void)
{
  run_child ("exit", "XDG_RUNTIME_DIR");
  g_test_trap_assert_stderr ("*status file*gpumem*: Not a directory*");
}

/* As long as other users can write to the folder, the library writes no file. */
static void
child_shared_folder (void)
{
  g_autoptr (GpuMemoryPool) pool = NULL;

  g_assert_cmpint (g_mkdir (folder, 0700), ==, 0);
  g_assert_cmpint (g_chmod (folder, 0770), ==, 0);
  pool = make_pool ();
  wait_for (&n_attempts, 2);
  g_assert_false (g_file_test (path, G_FILE_TEST_EXISTS));
  g_assert_cmpint (g_chmod (folder, 0700), ==, 0);
  g_assert_true (wait_for_file (TRUE));
}

static void
check_shared_folder (void)
{
  run_child ("shared-folder", "XDG_RUNTIME_DIR");
  g_test_trap_assert_stderr ("*status file*gpumem*: Permission denied*");
}

/* The library does not create the runtime directory. */
static void
child_missing_runtime (void)
{
  g_autoptr (GpuMemoryPool) pool = NULL;

  g_log_set_writer_func (write_log, NULL, NULL);
  g_assert_cmpint (g_rmdir (runtime), ==, 0);
  pool = make_pool ();
  wait_for (&n_reports, 1);
  g_assert_false (g_file_test (runtime, G_FILE_TEST_EXISTS));
}

static void
check_missing_runtime (void)
{
  run_child ("missing-runtime", "XDG_RUNTIME_DIR");
}

/* The runtime directory belongs to another user, as after `sudo -E`. */
static void
child_foreign_runtime (void)
{
  g_autoptr (GpuMemoryPool) pool = NULL;

  g_log_set_writer_func (write_log, NULL, NULL);
  g_assert_cmpint (chown (runtime, 1, 1), ==, 0);
  pool = make_pool ();
  wait_for (&n_reports, 1);
  g_assert_false (g_file_test (folder, G_FILE_TEST_EXISTS));
}

/* The program has the rights of another user. */
static void
child_set_user (void)
{
  g_autoptr (GpuMemoryPool) pool = NULL;

  g_assert_cmpint (chown (runtime, 1, 1), ==, 0);
  g_assert_cmpint (seteuid (1), ==, 0);
  pool = make_pool ();
  g_assert_cmpint (n_threads, ==, 0);

  /* Become root again: the leak check at the end of the process must be allowed to trace it. */
  g_assert_cmpint (seteuid (0), ==, 0);
  g_assert_cmpint (prctl (PR_SET_DUMPABLE, 1), ==, 0);
}

static void
check_other_user (void)
{
  if (geteuid () != 0)
    {
      g_test_skip ("only root can give a folder to another user");
      return;
    }
  run_child ("foreign-runtime", "XDG_RUNTIME_DIR");
  run_child ("set-user", "XDG_RUNTIME_DIR");
}

static void
child_no_thread (void)
{
  g_autoptr (GpuMemoryPool) pool = NULL;

  no_threads = TRUE;
  pool = make_pool ();
}

static void
check_no_thread (void)
{
  run_child ("no-thread", "XDG_RUNTIME_DIR");
  g_test_trap_assert_stderr ("*no status file is written: no thread is left*");
}

/* At its end, a process does not remove the file of another process. */
static void
child_replaced (void)
{
  make_pool ();
  g_assert_true (wait_for_file (TRUE));
  g_assert_true (g_file_set_contents (path, FILE_TEXT, -1, NULL));
  exit (0);
}

static void
check_replaced (void)
{
  g_autofree char *directory = g_build_filename (runtime, "replaced", NULL);
  g_autofree char *child_folder = g_build_filename (directory, "gpumem", NULL);
  g_autoptr (GDir) dir = NULL;
  g_autofree char *left = NULL;

  run_child ("replaced", "XDG_RUNTIME_DIR");
  dir = g_dir_open (child_folder, 0, NULL);
  g_assert_nonnull (dir);
  left = g_build_filename (child_folder, g_dir_read_name (dir), NULL);
  g_assert_cmpint (g_unlink (left), ==, 0);
  g_assert_cmpint (g_rmdir (child_folder), ==, 0);
  g_assert_cmpint (g_rmdir (directory), ==, 0);
}

static void
child_no_runtime_directory (void)
{
  g_autoptr (GpuMemoryPool) pool = make_pool ();
  g_autoptr (GPtrArray) pools = NULL;

  g_assert_cmpint (n_threads, ==, 0);
  g_assert_cmpint (g_mkdir (folder, 0700), ==, 0);
  g_assert_true (g_file_set_contents (path, FILE_TEXT, -1, NULL));
  pools = gpumem_status_list ();
  g_assert_cmpuint (pools->len, ==, 0);
  g_assert_cmpint (g_unlink (path), ==, 0);
}

/* Without a runtime directory, GLib falls back to the cache folder, which several machines may
 * share. The library then writes no status file. */
static void
check_no_runtime_directory (void)
{
  run_child ("no-runtime-directory", "XDG_CACHE_HOME");
  g_test_trap_assert_stderr ("*no status file is written: XDG_RUNTIME_DIR*");
}

/* --- the reader ------------------------------------------------------------------------------ */

static void
write_locked (const char *name,
              const char *temporary,
              int        *file)
{
  struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
  int new_file = open (temporary, O_WRONLY | O_CREAT | O_EXCL, 0600);

  if (new_file < 0 || fcntl (new_file, F_SETLK, &lock) != 0
      || write (new_file, FILE_TEXT, strlen (FILE_TEXT)) < 0 || rename (temporary, name) != 0)
    test_end_child (1);
  if (*file >= 0)
    close (*file);
  *file = new_file;
}

/* A process replaces its file after the reader has opened it and before the reader checks the
 * name. */
static void
check_replaced_file (void)
{
  const gint64 end = g_get_monotonic_time () + 2 * G_USEC_PER_SEC;
  g_autofree char *name = g_build_filename (folder, "1", NULL);
  g_autofree char *temporary = g_build_filename (folder, ".1.new", NULL);
  int file = -1;
  const pid_t parent = getpid ();
  pid_t pid;
  int status;

  g_assert_cmpint (g_mkdir_with_parents (folder, 0700), ==, 0);
  pid = fork ();
  if (pid == 0)
    {
      while (getppid () == parent)
        write_locked (name, temporary, &file);
      test_end_child (0);
    }
  while (!g_file_test (name, G_FILE_TEST_EXISTS))
    g_usleep (1000);
  while (g_get_monotonic_time () < end)
    {
      g_autoptr (GPtrArray) pools = gpumem_status_list ();

      g_assert_cmpuint (pools->len, <=, 1);
      g_assert_true (g_file_test (name, G_FILE_TEST_EXISTS));
    }
  kill (pid, SIGKILL);
  g_assert_cmpint (waitpid (pid, &status, 0), ==, pid);
  g_assert_true (WIFSIGNALED (status));
  g_ptr_array_unref (gpumem_status_list ());
  g_assert_false (g_file_test (name, G_FILE_TEST_EXISTS));
  g_unlink (temporary);
}

/* If a process crashes before it renames its new file, the file remains with its temporary name. */
static void
check_temporary_file (void)
{
  const pid_t dead = fork ();
  g_autofree char *dead_file = g_strdup_printf ("%s/.%d.new", folder, (int) dead);
  g_autofree char *live_file = g_strdup_printf ("%s/.%d.new", folder, (int) getppid ());
  g_autofree char *other_file = g_build_filename (folder, ".new", NULL);
  const char *const files[] = { dead_file, live_file, other_file };

  if (dead == 0)
    test_end_child (0);
  g_assert_cmpint (waitpid (dead, NULL, 0), ==, dead);
  g_assert_cmpint (g_mkdir_with_parents (folder, 0700), ==, 0);
  for (guint i = 0; i < G_N_ELEMENTS (files); i++)
    g_assert_true (g_file_set_contents (files[i], FILE_TEXT, -1, NULL));
  g_ptr_array_unref (gpumem_status_list ());
  g_assert_false (g_file_test (dead_file, G_FILE_TEST_EXISTS));
  g_assert_cmpint (g_unlink (live_file), ==, 0);
  g_assert_cmpint (g_unlink (other_file), ==, 0);
}

int
main (int    argc,
      char **argv)
{
  const char *given = g_getenv ("TEST_POOL_STATUS");
  g_autoptr (GError) error = NULL;
  int result;

  runtime = given != NULL ? g_strdup (given) : g_dir_make_tmp ("gpumem-status-XXXXXX", &error);
  test_assert_ok (runtime != NULL, error);
  folder = g_build_filename (runtime, "gpumem", NULL);
  path = g_strdup_printf ("%s/%d", folder, (int) getpid ());
  g_setenv ("GPUMEM_STATUS", "1", TRUE);
  if (given == NULL)
    g_setenv ("XDG_RUNTIME_DIR", runtime, TRUE);
  test_init (&argc, &argv);

  test_add_plain ("removed-file", check_removed_file);
  test_add_plain ("removed-folder", check_removed_folder);
  test_add_plain ("last-pool", check_last_pool);
  test_add_plain ("slow-disk", check_slow_disk);
  test_add_plain ("fork", check_fork);
  test_add_plain ("failure", check_failure);
  test_add_plain ("subprocess/failure", child_failure);
  test_add_plain ("exit", check_exit);
  test_add_plain ("subprocess/exit", child_exit);
  test_add_plain ("shared-folder", check_shared_folder);
  test_add_plain ("subprocess/shared-folder", child_shared_folder);
  test_add_plain ("missing-runtime", check_missing_runtime);
  test_add_plain ("subprocess/missing-runtime", child_missing_runtime);
  test_add_plain ("other-user", check_other_user);
  test_add_plain ("subprocess/foreign-runtime", child_foreign_runtime);
  test_add_plain ("subprocess/set-user", child_set_user);
  test_add_plain ("no-thread", check_no_thread);
  test_add_plain ("subprocess/no-thread", child_no_thread);
  test_add_plain ("replaced", check_replaced);
  test_add_plain ("subprocess/replaced", child_replaced);
  test_add_plain ("no-runtime-directory", check_no_runtime_directory);
  test_add_plain ("subprocess/no-runtime-directory", child_no_runtime_directory);
  test_add_plain ("replaced-file", check_replaced_file);
  test_add_plain ("temporary-file", check_temporary_file);

  result = test_run ();
  wait_for_file (FALSE);
  g_rmdir (folder);
  g_rmdir (runtime);

  return result;
}
