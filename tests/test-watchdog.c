/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The watchdog of the tests, with programs that hang on purpose. */
#include "config.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "test-util.h"
#include "test-watchdog-util.h"

#define N_THREADS 3

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *
wait_for_lock (void *n_started)
{
  prctl (PR_SET_NAME, "waits-for-lock");
  g_atomic_int_inc ((gint *) n_started);
  pthread_mutex_lock (&lock);

  return NULL;
}

static gboolean
is_child (const char *of)
{
  if (g_test_subprocess ())
    return TRUE;

  g_test_skip_printf ("runs as a part of %s", of);
  return FALSE;
}

/* Deadlock: a thread that holds a lock waits for other threads, which wait for the lock. */
static void
hang_in_deadlock (void)
{
  pthread_t threads[N_THREADS];
  gint n_started = 0;

  if (!is_child ("deadlock"))
    return;

  /* The threads may start late */
  test_watchdog_leave ();
  pthread_mutex_lock (&lock);
  for (guint i = 0; i < N_THREADS; i++)
    g_assert_cmpint (pthread_create (&threads[i], NULL, wait_for_lock, &n_started), ==, 0);
  while (g_atomic_int_get (&n_started) < N_THREADS)
    g_thread_yield ();
  test_watchdog_enter (g_test_get_path ());
  for (guint i = 0; i < N_THREADS; i++)
    pthread_join (threads[i], NULL);
}

/* Hangs in a loop that makes no system calls. */
static void
hang_in_loop (void)
{
  static volatile gint go;

  if (!is_child ("loop"))
    return;

  while (go == 0)
    ;
}

/* A handler of fork() that blocks forever, because the thread that hangs holds the lock. The C
 * library has such handlers too, for example for the locks of malloc(). */
static void
stay (void)
{
  pthread_mutex_lock (&lock);
}

static void
hang_before_fork (void)
{
  if (!is_child ("fork"))
    return;

  pthread_mutex_lock (&lock);
  pthread_atfork (stay, NULL, NULL);
  pthread_mutex_lock (&lock);
}

static void
run_child (const char *name,
           const char *debugger)
{
  g_autofree char *path = g_strdup_printf ("/watchdog/subprocess/%s", name);

  g_setenv ("GPUMEM_TEST_TIMEOUT", "1", TRUE);
  if (debugger != NULL)
    g_setenv ("GPUMEM_TEST_DEBUGGER", debugger, TRUE);
  g_test_trap_subprocess (path, TEST_CHILD_TIMEOUT, 0);
  g_unsetenv ("GPUMEM_TEST_TIMEOUT");
  g_unsetenv ("GPUMEM_TEST_DEBUGGER");

  g_test_trap_assert_failed ();
  g_test_trap_assert_stderr ("*watchdog: /watchdog/subprocess/* has run for 1 s\n*"
                             "\nwatchdog: abort\n*");
}

#ifdef HAVE_BACKTRACE
static void
run_without_debugger (const char *name)
{
  run_child (name, "none");
  g_test_trap_assert_stderr ("*watchdog: stack of thread *test-watchdog*(*");
}
#endif

static void
watchdog_deadlock (void)
{
#ifdef HAVE_BACKTRACE
  run_without_debugger ("deadlock");
  g_test_trap_assert_stderr ("*\"waits-for-lock\" waits in *\"waits-for-lock\" waits in *"
                             "\"waits-for-lock\" waits in *");
#ifndef __SANITIZE_THREAD__
  g_test_trap_assert_stderr_unmatched ("*does not answer*");
#endif
#endif
}

/* Returns whether gdb may trace a process, which containers may forbid. */
static gboolean
can_trace (const char *gdb)
{
  char *sleep[] = { (char *) "sleep", (char *) "100", NULL };
  g_autofree char *command = NULL;
  g_autoptr (GError) error = NULL;
  int status = -1;
  GPid pid;

  test_assert_ok (g_spawn_async (NULL, sleep, NULL,
                                 G_SPAWN_SEARCH_PATH | G_SPAWN_DO_NOT_REAP_CHILD, NULL, NULL, &pid,
                                 &error), error);
  command = g_strdup_printf ("%s -p %d -batch -ex frame", gdb, (int) pid);
  g_spawn_command_line_sync (command, NULL, NULL, &status, NULL);
  kill (pid, SIGKILL);
  waitpid (pid, NULL, 0);

  return status == 0;
}

static void
watchdog_debugger (void)
{
  g_autofree char *gdb = g_find_program_in_path ("gdb");

  if (gdb == NULL || !can_trace (gdb))
    {
      g_test_skip ("gdb is not installed, or may not trace a process");
      return;
    }

  run_child ("deadlock", NULL);
  g_test_trap_assert_stderr ("*Thread *wait_for_lock*Thread *hang_in_deadlock*");
}

static void
watchdog_loop (void)
{
  run_child ("loop", NULL);
}

static void
watchdog_fork (void)
{
  run_child ("fork", NULL);
}

/* Each test takes less than the time limit, but all tests together take more. */
static void
watchdog_restarts (void)
{
  g_autofree char *before = g_strdup (g_getenv ("GPUMEM_TEST_TIMEOUT"));

  test_watchdog_stop ();
  g_setenv ("GPUMEM_TEST_TIMEOUT", "6", TRUE);
  test_watchdog_start ();
  for (guint i = 0; i < 7; i++)
    {
      test_watchdog_enter ("/watchdog/short");
      g_usleep (G_USEC_PER_SEC);
      test_watchdog_leave ();
    }
  test_watchdog_stop ();

  if (before != NULL)
    g_setenv ("GPUMEM_TEST_TIMEOUT", before, TRUE);
  else
    g_unsetenv ("GPUMEM_TEST_TIMEOUT");
  test_watchdog_start ();
}

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);
  test_add_plain ("deadlock", watchdog_deadlock);
  test_add_plain ("debugger", watchdog_debugger);
  test_add_plain ("loop", watchdog_loop);
  test_add_plain ("fork", watchdog_fork);
  test_add_plain ("restarts", watchdog_restarts);
  test_add_plain ("subprocess/deadlock", hang_in_deadlock);
  test_add_plain ("subprocess/loop", hang_in_loop);
  test_add_plain ("subprocess/fork", hang_before_fork);

  return test_run ();
}
