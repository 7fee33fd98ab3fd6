/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Status files of pools: the library writes them, and tools/gpumem-status.c reads them. */
#define _GNU_SOURCE
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "test-util.h"
#include "tools/gpumem-status.h"

#define FILE_TEXT "gpumem-status 1\nname test\npool host bins 4096 1000 1024 2048\n"

static char *runtime;               /* the user's runtime directory of this process */
static char *folder;                /* gpumem in it */
static char *path;                  /* the file of this process */

/* The states of a slow disk. */
static int is_slow, is_waiting, was_late;

/* Overrides the function of the C library. To simulate a slow disk, it blocks the thread that
 * writes the file. */
int
renameat (int         old_folder,
          const char *old_name,
          int         new_folder,
          const char *new_name)
{
  const gint64 end = g_get_monotonic_time () + 5 * G_USEC_PER_SEC;

  while (g_atomic_int_get (&is_slow))
    {
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

/* Another process removes the file while the figures stay the same. */
static void
check_removed_file (void)
{
  g_autoptr (GpuMemoryPool) pool = make_pool ();

  g_assert_true (wait_for_file (TRUE));
  g_assert_cmpint (g_unlink (path), ==, 0);
  g_assert_true (wait_for_file (TRUE));
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

/* Creating and freeing a pool does not wait for the disk. */
static void
check_slow_disk (void)
{
  g_atomic_int_set (&is_waiting, FALSE);
  g_atomic_int_set (&is_slow, TRUE);
  {
    g_autoptr (GpuMemoryPool) first = make_pool ();

    while (!g_atomic_int_get (&is_waiting))
      g_usleep (1000);
    for (guint i = 0; i < 10; i++)
      g_object_unref (make_pool ());
    g_atomic_int_set (&is_slow, FALSE);
  }
  g_assert_false (g_atomic_int_get (&was_late));
}

/* Runs a test in a separate process. Its runtime directory is the value of @variable. */
static void
run_child (const char *name,
           const char *variable)
{
  g_autofree char *test = g_strdup_printf ("/pool-status/subprocess/%s", name);
  g_autofree char *directory = g_build_filename (runtime, name, NULL);

  g_assert_cmpint (g_mkdir (directory, 0700), ==, 0);
  g_unsetenv ("XDG_RUNTIME_DIR");
  g_setenv ("TEST_POOL_STATUS", directory, TRUE);
  g_setenv (variable, directory, TRUE);
  g_test_trap_subprocess (test, TEST_DEADLINE * G_USEC_PER_SEC, G_TEST_SUBPROCESS_DEFAULT);
  g_unsetenv (variable);
  g_setenv ("XDG_RUNTIME_DIR", runtime, TRUE);
  g_test_trap_assert_passed ();
}

/* At first the folder cannot be created; later it can. */
static void
child_failure (void)
{
  g_autoptr (GpuMemoryPool) pool = NULL;

  g_assert_true (g_file_set_contents (folder, "", 0, NULL));
  pool = make_pool ();
  g_usleep (2500000);
  g_assert_cmpint (g_unlink (folder), ==, 0);
  g_assert_true (wait_for_file (TRUE));
}

static void
check_failure (void)
{
  g_setenv ("GPUMEM_DEBUG", "pool", TRUE);
  run_child ("failure", "XDG_RUNTIME_DIR");
  g_unsetenv ("GPUMEM_DEBUG");
  g_test_trap_assert_stderr ("*status file*gpumem*: Not a directory*");
  g_test_trap_assert_stderr_unmatched ("*status file*status file*");
}

static void
child_no_runtime_directory (void)
{
  g_autoptr (GpuMemoryPool) pool = make_pool ();
  g_autoptr (GPtrArray) pools = NULL;

  g_usleep (1500000);
  g_assert_false (g_file_test (folder, G_FILE_TEST_EXISTS));
  g_assert_cmpint (g_mkdir (folder, 0700), ==, 0);
  g_assert_true (g_file_set_contents (path, FILE_TEXT, -1, NULL));
  pools = gpumem_status_list ();
  g_assert_cmpuint (pools->len, ==, 0);
  g_assert_cmpint (g_unlink (path), ==, 0);
}

/* Several machines may share the cache folder, to which GLib falls back. */
static void
check_no_runtime_directory (void)
{
  run_child ("no-runtime-directory", "XDG_CACHE_HOME");
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
    _exit (1);
  if (*file >= 0)
    close (*file);
  *file = new_file;
}

/* A process replaces its file while the reader is between the open file and the name. */
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
      _exit (0);
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
    _exit (0);
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
  test_add_plain ("failure", check_failure);
  test_add_plain ("subprocess/failure", child_failure);
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
