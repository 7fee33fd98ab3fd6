/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A cache of program binaries on disk. An entry is one file. The name of the file is a SHA-256
 * digest of all inputs of the build: source, options, back end, and the back end's description of
 * device, driver and compiler. The file begins with a header, and a digest of the rest of the file.
 * The header and the digest identify damaged entries and entries of other versions, which are
 * ignored and replaced.
 *
 * An entry is written to a temporary file, which is then renamed. Other processes that share the
 * directory therefore never read an incomplete entry. A hit updates the modification time of the
 * file. If the files exceed the size limit, the least recently used files are removed.
 *
 * The directory may contain files of other programs. The cache only removes files of this user that
 * have the name and the header of an entry.
 */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utime.h>

#include <glib/gstdio.h>

#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/program/gpu-program-cache-private.h"

#define ENTRY_MAGIC   "gpumem program 2\n"
#define ENTRY_SUFFIX  ".program"
#define ENTRY_TYPE    "(sayvay)"    /* key, binary, descriptions, log */
#define MAGIC_SIZE    32            /* padded with zeros */
#define DIGEST_SIZE   32
#define HEADER_SIZE   (MAGIC_SIZE + DIGEST_SIZE)
#define KEY_LENGTH    64            /* a SHA-256 digest in hexadecimal */
#define TEMP_LENGTH   7             /* ".XXXXXX", appended by g_file_set_contents_full() */
#define DEFAULT_SIZE  (G_GUINT64_CONSTANT (256) << 20)
#define ABANDONED     (G_TIME_SPAN_HOUR / G_TIME_SPAN_SECOND)

typedef struct
{
  char    *name;
  guint64  size;
  gint64   used;                    /* nanoseconds since 1970 */
} CachedFile;

static void
cached_file_free (gpointer data)
{
  CachedFile *file = data;

  g_free (file->name);
  g_free (file);
}

/* Returns NULL if the cache is disabled. */
static char *
get_directory (void)
{
  const char *directory = g_getenv ("GPUMEM_CACHE_DIR");

  if (directory == NULL)
    return g_build_filename (g_get_user_cache_dir (), "gpumem", "programs", NULL);

  return *directory != '\0' ? g_strdup (directory) : NULL;
}

static char *
get_path (const char *key)
{
  g_autofree char *directory = get_directory ();
  g_autofree char *name = g_strconcat (key, ENTRY_SUFFIX, NULL);

  return directory != NULL ? g_build_filename (directory, name, NULL) : NULL;
}

/* Parses a size such as "268435456", "256M" or "1G". */
static gboolean
parse_size (const char *text,
            guint64    *size)
{
  static const char suffixes[] = "kmgt";
  g_autofree char *digits = g_strndup (text, strspn (text, "0123456789"));
  const char *rest = text + strlen (digits);
  guint64 value;
  guint shift = 0;

  if (*rest != '\0')
    {
      const char *suffix = strchr (suffixes, g_ascii_tolower (*rest));

      if (suffix == NULL || rest[1] != '\0')
        return FALSE;
      shift = 10 * (guint) (suffix - suffixes + 1);
    }

  if (!g_ascii_string_to_unsigned (digits, 10, 0, G_MAXUINT64 >> shift, &value, NULL))
    return FALSE;

  *size = value << shift;

  return TRUE;
}

static guint64
get_size_limit (void)
{
  const char *text = g_getenv ("GPUMEM_CACHE_SIZE");
  guint64 size;

  if (text == NULL || *text == '\0')
    return DEFAULT_SIZE;
  if (parse_size (text, &size))
    return size;

  _gpu_debug_print (GPU_DEBUG_CACHE, "GPUMEM_CACHE_SIZE: \"%s\" is not a size in bytes", text);

  return DEFAULT_SIZE;
}

static void
update_checksum (GChecksum  *checksum,
                 const char *text)
{
  guint64 length = GUINT64_TO_LE (strlen (text));

  g_checksum_update (checksum, (const guchar *) &length, sizeof length);
  g_checksum_update (checksum, (const guchar *) text, -1);
}

char *
_gpu_program_cache_key (GpuNativeContext   *context,
                        const char         *source,
                        const char         *options,
                        const char *const  *headers)
{
  const GpuProgramOps *ops = context->backend->program;
  g_autofree char *directory = get_directory ();
  g_autoptr (GString) fingerprint = g_string_new (NULL);
  g_autoptr (GChecksum) checksum = g_checksum_new (G_CHECKSUM_SHA256);

  if (directory == NULL || ops->fingerprint == NULL || ops->get_binary == NULL ||
      ops->load_binary == NULL || get_size_limit () == 0)
    return NULL;

  if (!_gpu_program_is_cacheable (source, options, headers, ops->assembly_is_closed))
    {
      _gpu_debug_print (GPU_DEBUG_CACHE, "a program whose build may read files or the clock is "
                        "not cached");
      return NULL;
    }

  ops->fingerprint (context, fingerprint);

  update_checksum (checksum, ENTRY_MAGIC);
  update_checksum (checksum, PACKAGE_VERSION);
  update_checksum (checksum, context->backend->name);
  update_checksum (checksum, fingerprint->str);
  update_checksum (checksum, options);
  update_checksum (checksum, source);
  for (; headers != NULL && *headers != NULL; headers++)
    update_checksum (checksum, *headers);

  return g_strdup (g_checksum_get_string (checksum));
}

static void
digest_of (gconstpointer  data,
           gsize          size,
           guint8        *digest)
{
  g_autoptr (GChecksum) checksum = g_checksum_new (G_CHECKSUM_SHA256);
  gsize length = DIGEST_SIZE;

  g_checksum_update (checksum, data, size);
  g_checksum_get_digest (checksum, digest, &length);
}

/* The contents of an entry will run as code. The user must therefore own the file, and other users
 * must not be able to write to it. */
static gboolean
is_trustworthy (const struct stat *status)
{
  return S_ISREG (status->st_mode) && status->st_uid == geteuid () &&
         (status->st_mode & (S_IWGRP | S_IWOTH)) == 0 && status->st_size > HEADER_SIZE &&
         (guint64) status->st_size < G_MAXSSIZE;
}

static guint8 *
read_file (const char *path,
           gsize      *size)
{
  int fd = g_open (path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0);
  g_autofree guint8 *data = NULL;
  struct stat status;
  gsize n_read = 0;

  if (fd < 0)
    return NULL;

  if (fstat (fd, &status) == 0 && is_trustworthy (&status))
    {
      *size = status.st_size;
      data = g_try_malloc (*size);
    }

  while (data != NULL && n_read < *size)
    {
      gssize n = read (fd, data + n_read, *size - n_read);

      if (n > 0)
        n_read += n;
      else if (n == 0 || errno != EINTR)
        g_clear_pointer (&data, g_free);
    }

  g_close (fd, NULL);

  return g_steal_pointer (&data);
}

static void
write_header (guint8 *data,
              gsize   size)
{
  memset (data, 0, MAGIC_SIZE);
  memcpy (data, ENTRY_MAGIC, strlen (ENTRY_MAGIC));
  digest_of (data + HEADER_SIZE, size - HEADER_SIZE, data + MAGIC_SIZE);
}

static gboolean
check_header (const guint8 *data,
              gsize         size)
{
  guint8 digest[DIGEST_SIZE];

  digest_of (data + HEADER_SIZE, size - HEADER_SIZE, digest);

  return memcmp (data, ENTRY_MAGIC, sizeof ENTRY_MAGIC) == 0 &&
         memcmp (data + MAGIC_SIZE, digest, DIGEST_SIZE) == 0;
}

/* Takes ownership of @data. */
static GpuCacheEntry *
parse_entry (const char *key,
             guint8     *data,
             gsize       size)
{
  g_autoptr (GBytes) file = g_bytes_new_take (data, size);
  g_autoptr (GBytes) content = NULL;
  g_autoptr (GVariant) variant = NULL;
  g_autoptr (GVariant) binary = NULL;
  g_autoptr (GVariant) descriptions = NULL;
  const char *name;
  const char *log;
  GpuCacheEntry *entry;

  if (!check_header (data, size))
    return NULL;

  content = g_bytes_new_from_bytes (file, HEADER_SIZE, size - HEADER_SIZE);
  variant = g_variant_new_from_bytes (G_VARIANT_TYPE (ENTRY_TYPE), content, FALSE);
  g_variant_ref_sink (variant);
  g_variant_get (variant, "(&s@ayv^&ay)", &name, &binary, &descriptions, &log);
  if (!g_str_equal (name, key))
    return NULL;

  entry = g_new (GpuCacheEntry, 1);
  entry->binary = g_variant_get_data_as_bytes (binary);
  entry->descriptions = g_steal_pointer (&descriptions);
  entry->log = *log != '\0' ? g_strdup (log) : NULL;

  return entry;
}

void
_gpu_cache_entry_free (GpuCacheEntry *entry)
{
  g_bytes_unref (entry->binary);
  g_variant_unref (entry->descriptions);
  g_free (entry->log);
  g_free (entry);
}

GpuCacheEntry *
_gpu_program_cache_load (const char *key)
{
  g_autofree char *path = get_path (key);
  GpuCacheEntry *entry;
  guint8 *data;
  gsize size;

  data = path != NULL ? read_file (path, &size) : NULL;
  if (data == NULL)
    {
      _gpu_debug_print (GPU_DEBUG_CACHE, "%s: missing", key);
      return NULL;
    }

  entry = parse_entry (key, data, size);
  _gpu_debug_print (GPU_DEBUG_CACHE, "%s: %s", key, entry != NULL ? "found" : "damaged");

  /* Record the use of the entry. Ignore failure: if this process cannot write to the directory, it
   * cannot evict entries either. */
  if (entry != NULL)
    g_utime (path, NULL);

  return entry;
}

static int
compare_used (gconstpointer a,
              gconstpointer b)
{
  const CachedFile *left = *(CachedFile *const *) a;
  const CachedFile *right = *(CachedFile *const *) b;

  return left->used < right->used ? -1 : left->used > right->used;
}

/* Returns whether @name is the name of an entry, or of a temporary file for an entry. Sets
 * @is_temporary to TRUE for a temporary file. */
static gboolean
is_entry_name (const char *name,
               gboolean   *is_temporary)
{
  gsize length = strlen (name);

  if (strspn (name, "0123456789abcdef") != KEY_LENGTH ||
      !g_str_has_prefix (name + KEY_LENGTH, ENTRY_SUFFIX))
    return FALSE;

  length -= KEY_LENGTH + strlen (ENTRY_SUFFIX);
  *is_temporary = length > 0;

  return length == 0 || (length == TEMP_LENGTH && name[strlen (name) - TEMP_LENGTH] == '.');
}

/* Removes the file if it begins with the header of an entry of any version. A temporary file may be
 * incomplete, so it is also removed if it contains only a part of the header. */
static gboolean
remove_entry (int         directory,
              const char *name,
              gboolean    is_temporary)
{
  const gsize length = strlen ("gpumem program ");
  int fd = openat (directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  char start[sizeof ENTRY_MAGIC];
  gssize n;

  if (fd < 0)
    return FALSE;

  n = read (fd, start, length);
  g_close (fd, NULL);

  return n >= 0 && ((gsize) n == length || is_temporary) && memcmp (start, ENTRY_MAGIC, n) == 0
         && unlinkat (directory, name, 0) == 0;
}

static CachedFile *
cached_file_new (const char        *name,
                 const struct stat *status)
{
  CachedFile *file = g_new (CachedFile, 1);

  file->name = g_strdup (name);
  file->size = status->st_size;
  file->used = status->st_mtim.tv_sec * G_GINT64_CONSTANT (1000000000) + status->st_mtim.tv_nsec;

  return file;
}

/* Lists the files whose name is that of an entry, and their total size. Does not open the files,
 * because this function runs at every store. Removes temporary files left by crashed processes. */
static GPtrArray *
list_entries (DIR     *dir,
              guint64 *total)
{
  GPtrArray *files = g_ptr_array_new_with_free_func (cached_file_free);
  gint64 now = g_get_real_time () / G_USEC_PER_SEC;
  const struct dirent *item;

  *total = 0;
  while ((item = readdir (dir)) != NULL)
    {
      struct stat status;
      gboolean is_temporary;

      if (!is_entry_name (item->d_name, &is_temporary)
          || fstatat (dirfd (dir), item->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0
          || !S_ISREG (status.st_mode) || status.st_uid != geteuid ())
        continue;

      if (!is_temporary)
        {
          *total += status.st_size;
          g_ptr_array_add (files, cached_file_new (item->d_name, &status));
        }
      else if (status.st_mtime + ABANDONED < now)
        {
          remove_entry (dirfd (dir), item->d_name, TRUE);
        }
    }

  return files;
}

/* Removes the least recently used entries until the total size is within @limit. Never removes
 * @stored, the entry that was just written. */
static void
evict (DIR        *dir,
       const char *stored,
       guint64     limit)
{
  guint64 total;
  g_autoptr (GPtrArray) files = list_entries (dir, &total);

  if (total <= limit)
    return;

  g_ptr_array_sort (files, compare_used);
  for (guint i = 0; i < files->len && total > limit; i++)
    {
      const CachedFile *file = g_ptr_array_index (files, i);

      if (g_str_equal (file->name, stored))
        continue;

      /* Subtract the size even if the file was not removed: a file that is not an entry of the
       * cache does not count towards the limit. */
      if (remove_entry (dirfd (dir), file->name, FALSE))
        _gpu_debug_print (GPU_DEBUG_CACHE, "%s: evicted", file->name);
      total -= file->size;
    }
}

static void
evict_from (const char *directory,
            const char *path,
            guint64     limit)
{
  g_autofree char *stored = g_path_get_basename (path);
  DIR *dir = opendir (directory);

  if (dir == NULL)
    return;

  evict (dir, stored, limit);
  closedir (dir);
}

/* Removes the file at @path if it is untrustworthy, before a new entry replaces it. Recent GLib
 * (2.84 in Debian 13) would copy the unsafe mode of the old file to the new file. */
static void
remove_untrustworthy (const char *path)
{
  GStatBuf status;

  if (g_lstat (path, &status) == 0 && !is_trustworthy (&status))
    g_unlink (path);
}

void
_gpu_program_cache_store (const char *key,
                          GBytes     *binary,
                          GVariant   *descriptions,
                          const char *log)
{
  g_autofree char *directory = get_directory ();
  g_autofree char *path = get_path (key);
  g_autofree guint8 *data = NULL;
  g_autoptr (GVariant) variant = NULL;
  g_autoptr (GError) error = NULL;
  GVariant *content;
  gsize size;

  content = g_variant_new_from_bytes (G_VARIANT_TYPE_BYTESTRING, binary, TRUE);
  variant = g_variant_new ("(s@ayv^ay)", key, content, descriptions, log != NULL ? log : "");
  g_variant_ref_sink (variant);

  size = HEADER_SIZE + g_variant_get_size (variant);
  if (path == NULL || size > get_size_limit ())
    return;

  data = g_malloc (size);
  g_variant_store (variant, data + HEADER_SIZE);
  write_header (data, size);

  remove_untrustworthy (path);
  if (g_mkdir_with_parents (directory, 0700) != 0 ||
      !g_file_set_contents_full (path, (const char *) data, size,
                                 G_FILE_SET_CONTENTS_CONSISTENT, 0600, &error))
    {
      g_autofree char *name = g_filename_display_name (path);

      _gpu_debug_print (GPU_DEBUG_CACHE, "%s: not stored: %s", name,
                        error != NULL ? error->message : g_strerror (errno));
      return;
    }

  _gpu_debug_print (GPU_DEBUG_CACHE, "%s: stored", key);
  evict_from (directory, path, get_size_limit ());
}
