/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef HAVE_BACKTRACE
#include <execinfo.h>
#endif

#include "test-watchdog-util.h"

#define DEFAULT_TIMEOUT  300        /* seconds */
#define DEBUGGER_TIMEOUT 60
#define ANSWER_TIMEOUT   5          /* for a thread to write its own stack */
#define STACK_SIZE       (512 << 10)
#define MAX_FRAMES       64
#define MAX_PATH         1024
/* A signal that GLib, the sanitizers and the drivers do not use. */
#define STACK_SIGNAL     (SIGRTMIN + 7)

/* A POSIX lock, as in layer-fault.c, because ThreadSanitizer cannot see GMutex. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static pthread_t thread;
static gboolean is_running;
static gboolean is_stopping;
static guint timeout;
static const char *test_name;       /* NULL between tests */
static struct timespec deadline;

/* All data for the report is prepared at the start, because the report must not take locks. */
static char debugger[MAX_PATH];     /* empty if there is none */
static gboolean is_gdb;
static char pid_text[24];
static posix_spawn_file_actions_t to_stderr;
static posix_spawnattr_t attributes;

/* --- output without the allocator -------------------------------------------- */

static void
say (const char *text)
{
  gsize left = strlen (text);

  while (left > 0)
    {
      gssize n = write (STDERR_FILENO, text, left);

      if (n <= 0 && errno != EINTR)
        return;
      text += MAX (n, 0);
      left -= (gsize) MAX (n, 0);
    }
}

static void
number_to_text (guint64 number,
                char    text[24])
{
  char *at = text + 23;

  *at = '\0';
  do
    {
      *--at = (char) ('0' + number % 10);
      number /= 10;
    }
  while (number > 0);
  memmove (text, at, strlen (at) + 1);
}

static void
say_number (guint64 number)
{
  char text[24];

  number_to_text (number, text);
  say (text);
}

/* Prints the first line of /proc/self/task/ID/NAME. */
static void
say_task_file (const char *id,
               const char *name)
{
  char path[64] = "/proc/self/task/";
  char text[256];
  gssize n;
  int fd;

  strncat (path, id, 20);
  strcat (path, name);
  fd = open (path, O_RDONLY | O_CLOEXEC);
  n = fd >= 0 ? read (fd, text, sizeof text - 1) : -1;
  if (fd >= 0)
    close (fd);
  text[MAX (n, 0)] = '\0';
  text[strcspn (text, "\n")] = '\0';
  say (text);
}

/* --- threads ------------------------------------------------------------------ */

typedef struct
{
  guint64        inode;
  gint64         offset;
  unsigned short length;
  unsigned char  type;
  char           name[];
} Entry;

/* Calls @func for each other thread, without opendir(), which allocates. */
static void
for_each_thread (void (*func) (const char *id))
{
  _Alignas (Entry) char buffer[4096];
  int fd = open ("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  long n;

  while (fd >= 0 && (n = syscall (SYS_getdents64, fd, buffer, sizeof buffer)) > 0)
    {
      const Entry *entry;

      for (long at = 0; at < n; at += entry->length)
        {
          entry = (const Entry *) (gconstpointer) (buffer + at);
          if (entry->name[0] != '.' && atol (entry->name) != syscall (SYS_gettid))
            func (entry->name);
        }
    }
  if (fd >= 0)
    close (fd);
}

/* Prints what /proc shows of a thread. Used if no debugger can stop the thread. */
static void
say_state (const char *id)
{
  say ("watchdog: thread ");
  say (id);
  say (" \"");
  say_task_file (id, "/comm");
  say ("\" waits in ");
  say_task_file (id, "/wchan");
  say (", system call ");
  say_task_file (id, "/syscall");
  say ("\n");
}

#ifdef HAVE_BACKTRACE
static gint n_answers;

static void
write_own_stack (int signal_number G_GNUC_UNUSED)
{
  void *frames[MAX_FRAMES];
  int saved_errno = errno;

  backtrace_symbols_fd (frames, backtrace (frames, MAX_FRAMES), STDERR_FILENO);
  __atomic_add_fetch (&n_answers, 1, __ATOMIC_SEQ_CST);
  errno = saved_errno;
}

static void
ask_for_stack (const char *id)
{
  const struct timespec pause = { 0, 10 * 1000 * 1000 };
  gint before = __atomic_load_n (&n_answers, __ATOMIC_SEQ_CST);

  say ("watchdog: stack of thread ");
  say (id);
  say (":\n");
  if (syscall (SYS_tgkill, getpid (), (pid_t) atol (id), STACK_SIGNAL) != 0)
    return;
  for (guint i = 0; i < ANSWER_TIMEOUT * 100; i++)
    {
      if (__atomic_load_n (&n_answers, __ATOMIC_SEQ_CST) != before)
        return;
      nanosleep (&pause, NULL);
    }
  say ("watchdog: the thread does not answer\n");
}
#endif

static void
print_thread_stacks (void)
{
#ifdef HAVE_BACKTRACE
  for_each_thread (ask_for_stack);
#else
  say ("watchdog: there is neither a debugger nor backtrace()\n");
#endif
}

/* --- the debugger ------------------------------------------------------------- */

static void
find_debugger (void)
{
  const char *choice = g_getenv ("GPUMEM_TEST_DEBUGGER");
  const char *const names[] = { "gdb", "eu-stack", NULL };
  const char *const chosen[] = { choice, NULL };

  debugger[0] = '\0';
  for (const char *const *name = choice != NULL ? chosen : names; *name != NULL; name++)
    {
      g_autofree char *path = g_find_program_in_path (*name);

      if (path == NULL)
        continue;
      is_gdb = g_str_has_suffix (path, "gdb");
      g_strlcpy (debugger, path, sizeof debugger);
      return;
    }
}

/* Returns FALSE if the debugger failed. Uses posix_spawn() instead of fork(), because the handlers
 * of fork() take the allocator's lock. */
static gboolean
run_debugger (void)
{
  /* The last command of gdb fails if gdb may not trace the program */
  char *const gdb[] = { debugger, (char *) "-p", pid_text, (char *) "-batch", (char *) "-ex",
                        (char *) "set width 0", (char *) "-ex", (char *) "thread apply all bt 40",
                        (char *) "-ex", (char *) "frame", NULL };
  char *const other[] = { debugger, (char *) "-p", pid_text, NULL };
  const struct timespec pause = { 0, 100 * 1000 * 1000 };
  int status = -1;
  pid_t child;

  if (debugger[0] == '\0')
    return FALSE;

  /* On some systems only ancestors of a process may trace it, unless the process allows others */
  prctl (PR_SET_PTRACER, PR_SET_PTRACER_ANY);
  if (posix_spawn (&child, debugger, &to_stderr, &attributes, is_gdb ? gdb : other, environ) != 0)
    return FALSE;

  for (guint i = 0; i < DEBUGGER_TIMEOUT * 10; i++)
    {
      if (waitpid (child, &status, WNOHANG) == child)
        return WIFEXITED (status) && WEXITSTATUS (status) == 0;
      nanosleep (&pause, NULL);
    }
  kill (child, SIGKILL);
  say ("watchdog: the debugger does not end\n");

  return FALSE;
}

/* Returns whether a debugger traces this program. A debugger may stop the program for any time. */
static gboolean
is_traced (void)
{
  static const char key[] = "TracerPid:";
  char text[2048];
  int fd = open ("/proc/self/status", O_RDONLY | O_CLOEXEC);
  gssize n = fd >= 0 ? read (fd, text, sizeof text - 1) : -1;
  const char *line;

  if (fd >= 0)
    close (fd);
  text[MAX (n, 0)] = '\0';
  line = strstr (text, key);

  return line != NULL && atol (line + strlen (key)) != 0;
}

/* --- the watchdog ------------------------------------------------------------- */

static void G_GNUC_NORETURN
report (void)
{
  say ("watchdog: ");
  say (test_name);
  say (" has run for ");
  say_number (timeout);
  say (" s\n");
  for_each_thread (say_state);
  if (!run_debugger ())
    print_thread_stacks ();
  say ("watchdog: abort\n");
  signal (SIGABRT, SIG_DFL);
  abort ();
}

static void *
watch (void *data G_GNUC_UNUSED)
{
  pthread_mutex_lock (&lock);
  while (!is_stopping)
    {
      struct timespec until = deadline;

      if (test_name == NULL)
        pthread_cond_wait (&changed, &lock);
      else if (pthread_cond_timedwait (&changed, &lock, &until) == ETIMEDOUT && test_name != NULL
               && until.tv_sec == deadline.tv_sec && until.tv_nsec == deadline.tv_nsec)
        {
          if (!is_traced ())
            report ();
          deadline.tv_sec += timeout;
        }
    }
  pthread_mutex_unlock (&lock);

  return NULL;
}

static void
prepare_report (void)
{
  sigset_t none;

#ifdef HAVE_BACKTRACE
  struct sigaction action = { .sa_handler = write_own_stack, .sa_flags = SA_RESTART };
  void *frame;

  /* The first call of backtrace() loads a library, so call it before any test hangs */
  backtrace (&frame, 1);
  sigaction (STACK_SIGNAL, &action, NULL);
#endif

  find_debugger ();
  number_to_text ((guint64) getpid (), pid_text);
  sigemptyset (&none);
  posix_spawnattr_init (&attributes);
  posix_spawnattr_setflags (&attributes, POSIX_SPAWN_SETSIGMASK);
  posix_spawnattr_setsigmask (&attributes, &none);
  posix_spawn_file_actions_init (&to_stderr);
  posix_spawn_file_actions_addopen (&to_stderr, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2 (&to_stderr, STDERR_FILENO, STDOUT_FILENO);
}

static void
start_thread (void)
{
  pthread_condattr_t clock;
  pthread_attr_t small;
  sigset_t all, old;

  pthread_condattr_init (&clock);
  pthread_condattr_setclock (&clock, CLOCK_MONOTONIC);
  pthread_cond_init (&changed, &clock);
  pthread_condattr_destroy (&clock);

  /* Block all signals in the watchdog, so that the threads of the test receive them */
  sigfillset (&all);
  pthread_sigmask (SIG_SETMASK, &all, &old);
  pthread_attr_init (&small);
  pthread_attr_setstacksize (&small, STACK_SIZE);
  is_running = pthread_create (&thread, &small, watch, NULL) == 0;
  pthread_attr_destroy (&small);
  pthread_sigmask (SIG_SETMASK, &old, NULL);
}

void
test_watchdog_start (void)
{
  const char *text = g_getenv ("GPUMEM_TEST_TIMEOUT");
  guint64 seconds = DEFAULT_TIMEOUT * (g_test_slow () ? 10 : 1);

  if (text != NULL && *text != '\0'
      && !g_ascii_string_to_unsigned (text, 10, 0, G_MAXINT, &seconds, NULL))
    g_error ("GPUMEM_TEST_TIMEOUT: '%s' is not a number of seconds", text);

  timeout = (guint) seconds;
  if (timeout == 0 || is_running)
    return;

  prepare_report ();
  start_thread ();
}

static void
set_test (const char *name)
{
  if (!is_running)
    return;

  pthread_mutex_lock (&lock);
  test_name = name;
  clock_gettime (CLOCK_MONOTONIC, &deadline);
  deadline.tv_sec += timeout;
  pthread_cond_signal (&changed);
  pthread_mutex_unlock (&lock);
}

void
test_watchdog_enter (const char *name)
{
  set_test (name);
}

void
test_watchdog_leave (void)
{
  set_test (NULL);
}

void
test_watchdog_stop (void)
{
  if (!is_running)
    return;

  pthread_mutex_lock (&lock);
  is_stopping = TRUE;
  pthread_cond_signal (&changed);
  pthread_mutex_unlock (&lock);
  pthread_join (thread, NULL);
  is_running = FALSE;
  is_stopping = FALSE;
  pthread_cond_destroy (&changed);
  posix_spawnattr_destroy (&attributes);
  posix_spawn_file_actions_destroy (&to_stderr);
}
