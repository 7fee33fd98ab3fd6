/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The status file of the process, which `gpumem monitor` reads. The file has a line for each pool.
 * A separate thread writes it, so the file does not make allocations slower. */
#include "config.h"

#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/pool/gpu-memory-pool-private.h"

#ifdef G_OS_UNIX

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define VARIABLE  "GPUMEM_STATUS"
#define RUNTIME   "XDG_RUNTIME_DIR"
#define FOLDER    "gpumem"
#define INTERVAL  G_USEC_PER_SEC    /* between two writes */
#define MAX_POOLS 256
#define MAX_NAME  64

typedef struct
{
  GpuPoolCore *core;
  char        *device;
  const char  *kind;
} Entry;

static GMutex lock;                 /* guards `entries`; never held during file operations */
static GCond has_entries;
static GPtrArray *entries;
static pid_t owner;                 /* the process that runs the thread that writes the file; a
                                     * forked child has another id */

static GMutex file_lock;            /* guards the variables below */
static char *path;
static int file = -1;               /* the open status file; a lock on it shows that this process is
                                     * alive */
static char *written;
static gboolean is_exiting;

static gboolean
is_enabled (void)
{
  const char *value = g_getenv (VARIABLE);

  return value != NULL && *value != '\0' && strcmp (value, "0") != 0;
}

/* Does not use g_get_user_runtime_dir(), which falls back to the cache folder: several machines may
 * share that folder, and have processes with the same id. A program with the rights of another user
 * must not trust its environment. */
static char *
find_runtime (void)
{
  const char *value = g_getenv (RUNTIME);

  if (!is_enabled () || value == NULL || !g_path_is_absolute (value) || getuid () != geteuid ()
      || getgid () != getegid ())
    return NULL;

  return g_strdup (value);
}

/* Returns: (nullable): the user's runtime directory, or %NULL if the process writes no file */
static const char *
get_runtime (void)
{
  static gsize is_known;
  static char *runtime;

  if (g_once_init_enter (&is_known))
    {
      runtime = find_runtime ();
      g_once_init_leave (&is_known, 1);

      /* Log only after g_once_init_leave(): the program's log writer may wait for threads that wait
       * for this initialisation. */
      if (runtime == NULL && is_enabled ())
        _gpu_debug_print (GPU_DEBUG_POOL, "no status file is written: " RUNTIME " is unset or not "
                          "an absolute path, or the program runs with the rights of another user");
    }

  return runtime;
}

static void
entry_free (gpointer data)
{
  Entry *entry = data;

  g_free (entry->device);
  g_free (entry);
}

/* Returns: (transfer full): @text as one word of a status file */
static char *
make_name (const char *text)
{
  char *name = g_strndup (text != NULL ? text : "", MAX_NAME);

  for (char *c = name; *c != '\0'; c++)
    if (!g_ascii_isgraph (*c))
      *c = '_';

  if (*name != '\0')
    return name;

  g_free (name);

  return g_strdup ("-");
}

/* Other threads may change the counters while this function reads them one after another. Clamps
 * the values, so that readers of the file never see more bytes in use than managed. */
static void
append_pool (GString     *text,
             const Entry *entry)
{
  GpuPoolStats stats = { 0 };
  guint64 used, managed;

  _gpu_pool_core_get_stats (entry->core, &stats);
  used = MAX (stats.used_bytes, stats.active_bytes);
  managed = MAX (stats.managed_bytes, used);
  g_string_append_printf (text, "pool %s %s %" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT
                          " %" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT "\n", entry->device,
                          entry->kind, managed, (guint64) stats.active_bytes, used,
                          MIN ((guint64) stats.largest_free, managed - used));
}

/* Returns: (nullable) (transfer full): the text of the file, or %NULL if the file must be removed.
 * Blocks while the process has no pools and no file. */
static char *
describe (gboolean has_file)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&lock);
  g_autofree char *name = NULL;
  GString *text;

  while (entries->len == 0 && !has_file)
    g_cond_wait (&has_entries, &lock);

  if (entries->len == 0)
    return NULL;

  text = g_string_new ("gpumem-status 1\n");
  name = make_name (g_get_prgname ());
  g_string_append_printf (text, "name %s\n", name);

  for (guint i = 0; i < MIN (entries->len, MAX_POOLS); i++)
    append_pool (text, g_ptr_array_index (entries, i));

  return g_string_free (text, FALSE);
}

/* Opens a folder. Fails if the folder does not belong to the user, or if its mode contains one of
 * the bits in @others. */
static int
open_own (int         parent,
          const char *name,
          int         flags,
          mode_t      others)
{
  const int folder = openat (parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);
  struct stat status;

  if (folder < 0 || (fstat (folder, &status) == 0 && status.st_uid == geteuid ()
                     && (status.st_mode & others) == 0))
    return folder;

  close (folder);
  errno = EACCES;

  return -1;
}

/* Creates the folder for status files, but not the runtime directory. Fails if the runtime
 * directory belongs to another user, for example in a process started with `sudo -E`. */
static int
open_folder (void)
{
  const int runtime = open_own (AT_FDCWD, get_runtime (), 0, 0);
  int folder, failure;

  if (runtime < 0)
    return -1;

  mkdirat (runtime, FOLDER, 0700);
  folder = open_own (runtime, FOLDER, O_NOFOLLOW, S_IWGRP | S_IWOTH);
  failure = errno;
  close (runtime);
  errno = failure;

  return folder;
}

/* Replaces the file in one step: readers always find a complete and locked file. When the process
 * ends, even by a crash, the lock disappears. A forked child does not inherit the lock. The
 * previous file is closed last, because its lock ends then: readers treat a file without a lock as
 * a file of an ended process. */
static gboolean
replace_file (int         folder,
              const char *text)
{
  g_autofree char *name = g_strdup_printf ("%d", (int) owner);
  g_autofree char *temporary = g_strdup_printf (".%d.new", (int) owner);
  struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
  const gssize size = strlen (text);
  int new_file, failure;

  unlinkat (folder, temporary, 0);
  new_file = openat (folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

  if (new_file < 0)
    return FALSE;

  errno = ENOSPC;                   /* for a short write, which does not set errno */

  if (write (new_file, text, size) != size || fcntl (new_file, F_SETLK, &whole) != 0
      || renameat (folder, temporary, folder, name) != 0)
    {
      failure = errno;
      unlinkat (folder, temporary, 0);
      close (new_file);
      errno = failure;
      return FALSE;
    }

  if (file >= 0)
    close (file);

  file = new_file;

  return TRUE;
}

/* Opens the folder for each write, because the folder may have been removed and created again.
 * Returns 0, or the error number. */
static int
write_file (const char *text)
{
  const int folder = open_folder ();
  int failure = 0;

  g_clear_pointer (&written, g_free);

  if (folder >= 0 && replace_file (folder, text))
    written = g_strdup (text);
  else
    failure = errno;

  if (folder >= 0)
    close (folder);

  return failure;
}

/* Returns FALSE if another process has removed or replaced the file. */
static gboolean
is_in_place (void)
{
  struct stat own, named;

  return file >= 0 && fstat (file, &own) == 0 && lstat (path, &named) == 0
         && own.st_dev == named.st_dev && own.st_ino == named.st_ino;
}

static void
remove_file (void)
{
  if (file < 0)
    return;

  if (is_in_place ())
    unlink (path);

  close (file);
  file = -1;
  g_clear_pointer (&written, g_free);
}

/* Returns 0, or the error number. Must not log while it holds `file_lock`: the program's log writer
 * may call exit(), which takes `file_lock`. */
static int
update_file (const char *text,
             gboolean   *has_file)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&file_lock);
  int failure = 0;

  if (text == NULL)
    remove_file ();
  else if (!is_exiting && (g_strcmp0 (text, written) != 0 || !is_in_place ()))
    failure = write_file (text);

  *has_file = file >= 0;

  return failure;
}

static void
on_exit_process (void)
{
  if (owner != getpid ())
    return;

  g_mutex_lock (&file_lock);
  is_exiting = TRUE;
  remove_file ();
  g_mutex_unlock (&file_lock);
}

/* Blocks all signals that another thread can handle. A signal handler on this thread could
 * deadlock: it may call exit(), which takes `file_lock`, while this thread holds that lock. Does
 * not block the signals of faults: if a fault raises a blocked signal, the process ends without a
 * call of the handler. */
static void
block_signals (void)
{
  static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP };
  sigset_t signals;

  sigfillset (&signals);
  for (guint i = 0; i < G_N_ELEMENTS (faults); i++)
    sigdelset (&signals, faults[i]);
  pthread_sigmask (SIG_BLOCK, &signals, NULL);
}

static gpointer
run (gpointer data G_GNUC_UNUSED)
{
  gboolean has_file = FALSE, is_reported = FALSE;

  block_signals ();

  for (;;)
    {
      g_autofree char *text = describe (has_file);
      const int failure = update_file (text, &has_file);

      if (failure != 0 && !is_reported)
        _gpu_debug_print (GPU_DEBUG_POOL, "cannot write the status file %s: %s", path,
                          g_strerror (failure));
      if (failure != 0 || has_file)
        is_reported = failure != 0;

      g_usleep (INTERVAL);
    }

  return NULL;
}

static void
start (GError **error)
{
  GThread *thread;

  owner = getpid ();
  path = g_strdup_printf ("%s/" FOLDER "/%d", get_runtime (), (int) owner);
  entries = g_ptr_array_new_with_free_func (entry_free);
  thread = g_thread_try_new ("gpumem-status", run, NULL, error);

  if (thread != NULL)
    g_thread_unref (thread);

  atexit (on_exit_process);
}

/* Never runs in a forked child, where no pool can be created. */
void
_gpu_pool_status_add (GpuPoolCore *core,
                      const char  *device,
                      const char  *kind)
{
  g_autoptr (GError) failure = NULL;
  Entry *entry;

  if (get_runtime () == NULL)
    return;

  g_mutex_lock (&lock);

  if (entries == NULL)
    start (&failure);

  entry = g_new0 (Entry, 1);
  entry->core = core;
  entry->device = make_name (device);
  entry->kind = kind;
  g_ptr_array_add (entries, entry);
  g_cond_signal (&has_entries);
  g_mutex_unlock (&lock);

  if (failure != NULL)
    _gpu_debug_print (GPU_DEBUG_POOL, "no status file is written: %s", failure->message);
}

void
_gpu_pool_status_remove (GpuPoolCore *core)
{
  if (get_runtime () == NULL || owner != getpid ())
    return;

  g_mutex_lock (&lock);

  for (guint i = 0; i < entries->len; i++)
    if (((Entry *) g_ptr_array_index (entries, i))->core == core)
      {
        g_ptr_array_remove_index (entries, i);
        break;
      }

  g_mutex_unlock (&lock);
}

#else

void
_gpu_pool_status_add (GpuPoolCore *core G_GNUC_UNUSED,
                      const char  *device G_GNUC_UNUSED,
                      const char  *kind G_GNUC_UNUSED)
{
}

void
_gpu_pool_status_remove (GpuPoolCore *core G_GNUC_UNUSED)
{
}

#endif
