/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The status file of the process, which `gpumem monitor` reads: a line for each pool. A thread of
 * its own writes the file, so that allocations cost the same with and without the file. */
#include "config.h"

#include "gpumem/pool/gpu-memory-pool-private.h"

#ifdef G_OS_UNIX

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define VARIABLE  "GPUMEM_STATUS"
#define INTERVAL  G_USEC_PER_SEC    /* between two writes */
#define MAX_POOLS 256
#define MAX_NAME  64

typedef struct
{
  GpuPoolCore *core;
  char        *device;
  const char  *kind;
} Entry;

static GMutex lock;                 /* guards the variables below */
static GPtrArray *entries;
static pid_t owner;                 /* the process that runs the thread; not its forked children */
static int folder = -1;
static int file = -1;               /* open for its lock, which marks the writer as alive */
static char *written;

static gboolean
is_wanted (void)
{
  static gsize state;

  if (g_once_init_enter (&state))
    {
      const char *value = g_getenv (VARIABLE);

      g_once_init_leave (&state, value == NULL || *value == '\0' || strcmp (value, "0") == 0 ? 1
                                                                                           : 2);
    }

  return state == 2;
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

/* Other threads change the counters between the reads of two counters. Clamp the values, so that
 * readers never see more bytes in use than managed. */
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

static char *
describe (void)
{
  GString *text = g_string_new ("gpumem-status 1\n");
  g_autofree char *name = make_name (g_get_prgname ());

  g_string_append_printf (text, "name %s\n", name);

  for (guint i = 0; i < MIN (entries->len, MAX_POOLS); i++)
    append_pool (text, g_ptr_array_index (entries, i));

  return g_string_free (text, FALSE);
}

/* Use the folder only if other users cannot write to it. */
static gboolean
open_folder (void)
{
  g_autofree char *path = g_build_filename (g_get_user_runtime_dir (), "gpumem", NULL);
  struct stat status;

  if (folder >= 0)
    return TRUE;

  g_mkdir_with_parents (path, 0700);
  folder = open (path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

  if (folder >= 0 && fstat (folder, &status) == 0 && status.st_uid == geteuid ()
      && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0)
    return TRUE;

  if (folder >= 0)
    close (folder);

  folder = -1;

  return FALSE;
}

/* Replaces the file in one step, so that readers always find a complete and locked file. The lock
 * ends with the process, even after a crash, and a forked child does not inherit it. */
static void
write_file (const char *text)
{
  g_autofree char *name = g_strdup_printf ("%d", (int) owner);
  g_autofree char *temporary = g_strdup_printf (".%d.new", (int) owner);
  struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
  const gssize size = strlen (text);
  int new_file;

  unlinkat (folder, temporary, 0);
  new_file = openat (folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

  if (new_file < 0)
    return;

  if (write (new_file, text, size) != size || fcntl (new_file, F_SETLK, &whole) != 0
      || renameat (folder, temporary, folder, name) != 0)
    {
      unlinkat (folder, temporary, 0);
      close (new_file);
      return;
    }

  if (file >= 0)
    close (file);

  file = new_file;
}

static void
remove_file (void)
{
  g_autofree char *name = g_strdup_printf ("%d", (int) owner);

  if (file < 0)
    return;

  unlinkat (folder, name, 0);
  close (file);
  file = -1;
  g_clear_pointer (&written, g_free);
}

/* Runs at exit with the lock held, so that the thread cannot write the file again. If another
 * thread holds the lock, the file remains, and `gpumem monitor` removes it. */
static void
on_exit_process (void)
{
  if (owner != getpid () || !g_mutex_trylock (&lock))
    return;

  remove_file ();
  g_ptr_array_set_size (entries, 0);
  g_mutex_unlock (&lock);
}

static gpointer
run (gpointer data G_GNUC_UNUSED)
{
  for (;;)
    {
      g_mutex_lock (&lock);

      if (entries->len > 0 && open_folder ())
        {
          char *text = describe ();

          if (g_strcmp0 (text, written) != 0)
            write_file (text);

          g_free (written);
          written = text;
        }

      g_mutex_unlock (&lock);
      g_usleep (INTERVAL);
    }

  return NULL;
}

static void
start (void)
{
  GThread *thread;

  owner = getpid ();
  entries = g_ptr_array_new_with_free_func (entry_free);
  thread = g_thread_try_new ("gpumem-status", run, NULL, NULL);

  if (thread != NULL)
    g_thread_unref (thread);

  atexit (on_exit_process);
}

void
_gpu_pool_status_add (GpuPoolCore *core,
                      const char  *device,
                      const char  *kind)
{
  Entry *entry;

  if (!is_wanted ())
    return;

  g_mutex_lock (&lock);

  if (entries == NULL)
    start ();

  entry = g_new0 (Entry, 1);
  entry->core = core;
  entry->device = make_name (device);
  entry->kind = kind;
  g_ptr_array_add (entries, entry);
  g_mutex_unlock (&lock);
}

void
_gpu_pool_status_remove (GpuPoolCore *core)
{
  if (!is_wanted () || owner != getpid ())
    return;

  g_mutex_lock (&lock);

  for (guint i = 0; i < entries->len; i++)
    if (((Entry *) g_ptr_array_index (entries, i))->core == core)
      {
        g_ptr_array_remove_index (entries, i);
        break;
      }

  if (entries->len == 0)
    remove_file ();

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
