/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The memory of the machine, within the limits of the memory cgroups (version 1 or 2) of the
 * process. Values are not cached, because a limit may change at any time. Only the folders of the
 * cgroups are cached for a short time, because /proc/self/mountinfo may have thousands of lines.
 */
#include "config.h"

#include <string.h>
#include <unistd.h>

#include "gpumem/base/gpu-memory-limits-private.h"

/* File names of a cgroup version, and the key of the reclaimable page cache in memory.stat. */
typedef struct
{
  const char *limit;
  const char *usage;
  const char *reclaimable;
} CgroupFiles;

typedef struct
{
  char              *folder;
  const CgroupFiles *files;
} Cgroup;

/* The cgroups of the process, and the time of their next lookup. */
typedef struct
{
  char      *root;
  GPtrArray *cgroups;
  gint64     deadline;
} CgroupCache;

/* The list of the cgroups of the process is cached for this time in microseconds. A move of the
 * process to another cgroup therefore takes effect with this delay. */
#define CACHE_TIME G_TIME_SPAN_SECOND

static const CgroupFiles version_1 = { "memory.limit_in_bytes", "memory.usage_in_bytes",
                                       "total_inactive_file " };
static const CgroupFiles version_2 = { "memory.max", "memory.current", "inactive_file " };

char *
_gpu_read_value (const char *path,
                 const char *key)
{
  g_autofree char *text = NULL;
  g_auto (GStrv) lines = NULL;

  if (!g_file_get_contents (path, &text, NULL, NULL))
    return NULL;

  lines = g_strsplit (text, "\n", -1);

  for (gsize i = 0; lines[i] != NULL; i++)
    {
      char *colon = strchr (lines[i], ':');

      if (colon == NULL)
        continue;

      *colon = '\0';

      if (g_str_equal (g_strchomp (lines[i]), key))
        return g_strdup (g_strstrip (colon + 1));
    }

  return NULL;
}

/* Returns the number in a file, or @fallback if the file has no number, for example "max". */
static guint64
read_number (const char *folder,
             const char *name,
             guint64     fallback)
{
  g_autofree char *path = g_build_filename (folder, name, NULL);
  g_autofree char *text = NULL;

  if (!g_file_get_contents (path, &text, NULL, NULL) || !g_ascii_isdigit (text[0]))
    return fallback;

  return g_ascii_strtoull (text, NULL, 10);
}

static guint64
read_reclaimable (const char *folder,
                  const char *key)
{
  g_autofree char *path = g_build_filename (folder, "memory.stat", NULL);
  g_autofree char *text = NULL;
  g_auto (GStrv) lines = NULL;

  if (!g_file_get_contents (path, &text, NULL, NULL))
    return 0;

  lines = g_strsplit (text, "\n", -1);

  for (gsize i = 0; lines[i] != NULL; i++)
    {
      if (g_str_has_prefix (lines[i], key))
        return g_ascii_strtoull (lines[i] + strlen (key), NULL, 10);
    }

  return 0;
}

static void
apply_cgroup (const char        *folder,
              const CgroupFiles *files,
              GpuMemoryLimits   *limits)
{
  guint64 limit = read_number (folder, files->limit, G_MAXUINT64);
  guint64 usage;

  if (limit == G_MAXUINT64)
    return;

  usage = read_number (folder, files->usage, 0);
  usage -= MIN (usage, read_reclaimable (folder, files->reclaimable));
  limits->total_size = MIN (limits->total_size, limit);
  limits->free_size = MIN (limits->free_size, limit - MIN (limit, usage));
}

static void
cgroup_free (gpointer data)
{
  Cgroup *cgroup = data;

  g_free (cgroup->folder);
  g_free (cgroup);
}

/* Adds the cgroup of the process and all ancestors of that cgroup, up to the cgroup that is
 * mounted. */
static void
add_cgroups (GPtrArray         *cgroups,
             const char        *mount_point,
             const char        *relative,
             const CgroupFiles *files)
{
  g_autofree char *path = g_strdup (relative);

  while (TRUE)
    {
      Cgroup *cgroup = g_new (Cgroup, 1);
      char *slash = strrchr (path, '/');

      cgroup->folder = g_build_filename (mount_point, path, NULL);
      cgroup->files = files;
      g_ptr_array_add (cgroups, cgroup);

      if (path[0] == '\0' || slash == NULL)
        return;

      *slash = '\0';
    }
}

static gboolean
has_word (const char *list,
          const char *word)
{
  g_auto (GStrv) words = g_strsplit (list, ",", -1);

  return g_strv_contains ((const char *const *) words, word);
}

/* Returns the path of the process in the hierarchy of a cgroup version, from the lines
 * "NUMBER:CONTROLLERS:PATH" of /proc/self/cgroup. Returns NULL if there is no such hierarchy. */
static char *
find_cgroup (char              **lines,
             const CgroupFiles  *files)
{
  for (gsize i = 0; lines[i] != NULL; i++)
    {
      g_auto (GStrv) fields = g_strsplit (lines[i], ":", 3);

      if (g_strv_length (fields) == 3
          && (files == &version_2 ? g_str_equal (fields[0], "0") && fields[1][0] == '\0'
                                  : has_word (fields[1], "memory")))
        return g_strdup (fields[2]);
    }

  return NULL;
}

static gboolean
is_below (const char *path,
          const char *folder)
{
  gsize length = strlen (folder);

  return g_str_has_prefix (path, folder) && (path[length] == '/' || path[length] == '\0');
}

/* Parses a line of /proc/self/mountinfo: "ID PARENT DEVICE ROOT MOUNT-POINT ... - TYPE SOURCE
 * OPTIONS". Paths have octal escapes, such as "\134" for a backslash. */
static void
add_mount (GPtrArray   *cgroups,
           const char  *root,
           const char  *line,
           char       **paths)
{
  const char *rest = strstr (line, " - ");
  g_auto (GStrv) fields = g_strsplit (line, " ", 6);
  g_auto (GStrv) types = g_strsplit (rest != NULL ? rest + 3 : "", " ", 3);
  g_autofree char *mount_point = NULL;
  g_autofree char *mount_root = NULL;
  g_autofree char *directory = NULL;
  g_autofree char *path = NULL;
  const CgroupFiles *files;
  const char *relative;

  if (g_strv_length (fields) < 6 || g_strv_length (types) < 3)
    return;

  if (g_str_equal (types[0], "cgroup2"))
    files = &version_2;
  else if (g_str_equal (types[0], "cgroup") && has_word (types[2], "memory"))
    files = &version_1;
  else
    return;

  path = find_cgroup (paths, files);

  if (path == NULL)
    return;

  /* In a container, the mount point may show only the cgroup of the container. The path of that
   * cgroup is then not a part of the path below the mount point. */
  relative = path;
  mount_root = g_strcompress (fields[3]);

  if (!g_str_equal (mount_root, "/"))
    relative = is_below (path, mount_root) ? path + strlen (mount_root) : "";

  if (g_str_equal (relative, "/") || g_str_has_prefix (relative, "/.."))
    relative = "";

  directory = g_strcompress (fields[4]);
  mount_point = g_strconcat (root, directory, NULL);
  add_cgroups (cgroups, mount_point, relative, files);
}

static char **
read_lines (const char *root,
            const char *name)
{
  g_autofree char *path = g_strconcat (root, name, NULL);
  g_autofree char *text = NULL;

  return g_strsplit (g_file_get_contents (path, &text, NULL, NULL) ? text : "", "\n", -1);
}

static guint64
read_kilobytes (const char *root,
                const char *key,
                int         pages)
{
  g_autofree char *path = g_strconcat (root, "/proc/meminfo", NULL);
  g_autofree char *value = _gpu_read_value (path, key);

  if (value != NULL)
    return g_ascii_strtoull (value, NULL, 10) * 1024;

  return (guint64) sysconf (pages) * (guint64) sysconf (_SC_PAGESIZE);
}

static GPtrArray *
list_cgroups (const char *root)
{
  GPtrArray *cgroups = g_ptr_array_new_with_free_func (cgroup_free);
  g_auto (GStrv) paths = read_lines (root, "/proc/self/cgroup");
  g_auto (GStrv) mounts = read_lines (root, "/proc/self/mountinfo");

  for (gsize i = 0; mounts[i] != NULL; i++)
    add_mount (cgroups, root, mounts[i], paths);

  return cgroups;
}

static GPtrArray *
ref_cgroups (const char *root)
{
  static GMutex lock;
  static CgroupCache cache;
  gint64 now = g_get_monotonic_time ();
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&lock);

  if (cache.cgroups == NULL || now > cache.deadline || !g_str_equal (cache.root, root))
    {
      g_clear_pointer (&cache.cgroups, g_ptr_array_unref);
      g_free (cache.root);
      cache.root = g_strdup (root);
      cache.cgroups = list_cgroups (root);
      cache.deadline = now + CACHE_TIME;
    }

  return g_ptr_array_ref (cache.cgroups);
}

void
_gpu_memory_limits_read (const char      *root,
                         GpuMemoryLimits *limits)
{
  g_autoptr (GPtrArray) cgroups = ref_cgroups (root);

  limits->total_size = read_kilobytes (root, "MemTotal", _SC_PHYS_PAGES);
  limits->free_size = read_kilobytes (root, "MemAvailable", _SC_AVPHYS_PAGES);

  for (guint i = 0; i < cgroups->len; i++)
    {
      const Cgroup *cgroup = g_ptr_array_index (cgroups, i);

      apply_cgroup (cgroup->folder, cgroup->files, limits);
    }

  limits->free_size = MIN (limits->free_size, limits->total_size);
}
