/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads status files. The contents of the folder are untrusted: ignores files of other users,
 * links, device files, large files, and text in another format. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/gpumem-status.h"

#define HEADER    "gpumem-status 1"
#define MAX_SIZE  65536     /* bytes of a file */
#define MAX_FILES 1024
#define MAX_NAME  64        /* characters of a name */
#define ATTEMPTS  16        /* to read a file that its writer replaces meanwhile */

void
gpumem_pool_status_free (gpointer data)
{
  GpumemPoolStatus *pool = data;

  g_free (pool->name);
  g_free (pool->device);
  g_free (pool->kind);
  g_free (pool);
}

double
gpumem_status_get_fragmentation (const GpumemPoolStatus *pool)
{
  const guint64 unused = pool->managed - pool->used;

  return unused > 0 ? 1 - (double) pool->largest / unused : 0;
}

/* Returns whether a name in a file is valid. Only accepts printable text, so that the name cannot
 * contain escape sequences for the terminal. */
static gboolean
is_name (const char *text)
{
  if (*text == '\0' || strlen (text) > MAX_NAME)
    return FALSE;
  for (; *text != '\0'; text++)
    if (!g_ascii_isgraph (*text))
      return FALSE;
  return TRUE;
}

static gboolean
parse_numbers (char             **words,
               GpumemPoolStatus  *pool)
{
  guint64 *const numbers[] = { &pool->managed, &pool->active, &pool->used, &pool->largest };

  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    if (!g_ascii_string_to_unsigned (words[i], 10, 0, G_MAXINT64, numbers[i], NULL))
      return FALSE;
  return pool->used <= pool->managed && pool->active <= pool->used &&
         pool->largest <= pool->managed - pool->used;
}

/* Parses "pool DEVICE KIND MANAGED ACTIVE USED LARGEST-FREE". Returns: (nullable) (transfer full):
 * the pool */
static GpumemPoolStatus *
parse_pool (const char *line,
            const char *name,
            guint       pid)
{
  g_auto (GStrv) words = g_strsplit (line, " ", 8);
  GpumemPoolStatus *pool;

  if (g_strv_length (words) != 7 || !g_str_equal (words[0], "pool") || !is_name (words[1]) ||
      !is_name (words[2]))
    return NULL;
  pool = g_new0 (GpumemPoolStatus, 1);
  pool->pid = pid;
  pool->name = g_strdup (name);
  pool->device = g_strdup (words[1]);
  pool->kind = g_strdup (words[2]);
  if (parse_numbers (words + 3, pool))
    return pool;
  gpumem_pool_status_free (pool);
  return NULL;
}

gboolean
gpumem_status_parse (const char *text,
                     gsize       size,
                     guint       pid,
                     GPtrArray  *pools)
{
  g_autoptr (GPtrArray) found = g_ptr_array_new_with_free_func (gpumem_pool_status_free);
  g_autofree char *copy = NULL;
  g_auto (GStrv) lines = NULL;
  const char *name;
  guint n_lines;

  if (size == 0 || memchr (text, '\0', size) != NULL || text[size - 1] != '\n')
    return FALSE;
  copy = g_strndup (text, size);
  lines = g_strsplit (copy, "\n", -1);
  n_lines = g_strv_length (lines) - 1;      /* the last one is empty */
  if (n_lines < 2 || !g_str_equal (lines[0], HEADER) || !g_str_has_prefix (lines[1], "name "))
    return FALSE;
  name = lines[1] + strlen ("name ");
  if (!is_name (name))
    return FALSE;
  for (guint i = 2; i < n_lines; i++)
    {
      GpumemPoolStatus *pool = parse_pool (lines[i], name, pid);

      if (pool == NULL)
        return FALSE;
      g_ptr_array_add (found, pool);
    }
  g_ptr_array_extend_and_steal (pools, g_steal_pointer (&found));
  return TRUE;
}

/* Returns whether @file has the type @type, and only the user can have written it. */
static gboolean
is_trusted (int          file,
            mode_t       type,
            struct stat *status)
{
  return fstat (file, status) == 0 && (status->st_mode & S_IFMT) == type &&
         status->st_uid == geteuid () && (status->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

static gboolean
is_same (int                folder,
         const char        *name,
         const struct stat *status)
{
  struct stat named;

  return fstatat (folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         named.st_dev == status->st_dev && named.st_ino == status->st_ino;
}

/* Reads the file, or removes it if its writer has ended. A running writer holds a lock on its file,
 * so a file without a lock belongs to a process that has ended, even if a new process has the same
 * ID. A running writer replaces its file by a new file before it closes the old one. Therefore the
 * function removes a file only if the name still refers to the open file. Returns: %FALSE if the
 * file was replaced before that check */
static gboolean
read_file (int         folder,
           const char *name,
           guint       pid,
           GPtrArray  *pools)
{
  g_autofree char *text = NULL;
  struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
  struct stat status;
  gboolean is_complete = TRUE;
  gssize size;
  int file = openat (folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

  if (file < 0)
    return TRUE;
  if (is_trusted (file, S_IFREG, &status) && status.st_size <= MAX_SIZE)
    {
      if (fcntl (file, F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK)
        {
          is_complete = is_same (folder, name, &status);
          if (is_complete)
            unlinkat (folder, name, 0);
        }
      else
        {
          text = g_malloc (MAX_SIZE);
          size = read (file, text, MAX_SIZE);
          if (size > 0)
            gpumem_status_parse (text, size, pid, pools);
        }
    }
  close (file);
  return is_complete;
}

/* A file has the name ".PID.new" while its process writes it. Removes such a file if the process
 * has crashed. The reader cannot detect a process in another container. If the reader removes the
 * file of such a process, the process writes the file again. */
static void
remove_unfinished (int         folder,
                   const char *name)
{
  g_autofree char *number = NULL;
  guint64 pid;

  if (name[0] != '.' || !g_str_has_suffix (name + 1, ".new"))
    return;
  number = g_strndup (name + 1, strlen (name + 1) - strlen (".new"));
  if (g_ascii_string_to_unsigned (number, 10, 1, G_MAXINT32, &pid, NULL) && kill (pid, 0) != 0 &&
      errno == ESRCH)
    unlinkat (folder, name, 0);
}

/* Reads the file @name, or removes it if its process has ended. */
static void
visit (int         folder,
       const char *name,
       GPtrArray  *pools)
{
  guint64 pid;

  if (g_ascii_string_to_unsigned (name, 10, 1, G_MAXINT32, &pid, NULL))
    for (guint i = 0; i < ATTEMPTS && !read_file (folder, name, pid, pools); i++)
      continue;
  else
    remove_unfinished (folder, name);
}

/* Does not use GLib's fallback for the runtime directory, because writers do not use it. */
static const char *
get_runtime (void)
{
  const char *runtime = g_getenv ("XDG_RUNTIME_DIR");

  return runtime != NULL && g_path_is_absolute (runtime) ? runtime : NULL;
}

gboolean
gpumem_status_has_folder (void)
{
  return get_runtime () != NULL;
}

GPtrArray *
gpumem_status_list (void)
{
  GPtrArray *pools = g_ptr_array_new_with_free_func (gpumem_pool_status_free);
  const char *runtime = get_runtime ();
  g_autofree char *path = NULL;
  g_autoptr (GDir) dir = NULL;
  struct stat status;
  const char *name;
  int folder;

  if (runtime == NULL)
    return pools;
  path = g_build_filename (runtime, "gpumem", NULL);
  folder = open (path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0)
    return pools;
  if (is_trusted (folder, S_IFDIR, &status))
    dir = g_dir_open (path, 0, NULL);
  for (guint i = 0; i < MAX_FILES && dir != NULL && (name = g_dir_read_name (dir)) != NULL; i++)
    visit (folder, name, pools);
  close (folder);
  return pools;
}
