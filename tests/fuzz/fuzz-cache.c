/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Entries of the program cache with a correct digest. Any program that may write to the cache
 * folder can store such entries. The entries pass the checks of owner, permissions and digest, so
 * the parser must not crash on them.
 */
#include "config.h"

#include <glib/gstdio.h>

#include "gpumem/program/gpu-kernel-private.h"
#include "gpumem/program/gpu-program-cache-private.h"
#include "tests/fuzz/fuzz.h"

#define KEY "0123456789abcdef"
/* The header of a cache file: MAGIC, padded with zeros, and the digest of the rest of the file */
#define MAGIC "gpumem program 2\n"
#define MAGIC_SIZE 32
#define DIGEST_SIZE 32
#define HEADER_SIZE (MAGIC_SIZE + DIGEST_SIZE)
#define N_ARGUMENTS 3
/* In the format of _gpu_kernel_describe_all() */
#define DESCRIPTIONS \
  "{'k': [(byte 1, 'x', 'float*', byte 0, uint64 8, false)," \
  "       (byte 2, 'n', 'int', byte 4, uint64 4, true), (byte 3, '', '', byte 0, uint64 0, true)]}"

static char *folder;
static char *path;

static void
remove_folder (void)
{
  g_remove (path);
  g_rmdir (folder);
}

/* Uses a new folder as the cache. */
static void
use_folder (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *name = g_strconcat (KEY, ".program", NULL);

  if (folder != NULL)
    return;

  folder = g_dir_make_tmp ("gpumem-fuzz-XXXXXX", &error);
  if (folder == NULL)
    g_error ("%s", error->message);
  path = g_build_filename (folder, name, NULL);
  g_setenv ("GPUMEM_CACHE_DIR", folder, TRUE);
  atexit (remove_folder);
}

static void
write_entry (const guint8 *data,
             gsize         size)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GChecksum) checksum = g_checksum_new (G_CHECKSUM_SHA256);
  g_autofree guint8 *file = g_malloc0 (HEADER_SIZE + size);
  gsize digest_size = DIGEST_SIZE;

  g_checksum_update (checksum, data, (gssize) size);
  memcpy (file, MAGIC, strlen (MAGIC));
  g_checksum_get_digest (checksum, file + MAGIC_SIZE, &digest_size);
  if (size > 0)
    memcpy (file + HEADER_SIZE, data, size);
  if (!g_file_set_contents_full (path, (const char *) file, (gssize) (HEADER_SIZE + size),
                                 G_FILE_SET_CONTENTS_NONE, 0600, &error))
    g_error ("%s", error->message);
}

static void
run (const guint8 *data,
     gsize         size)
{
  g_autoptr (GpuCacheEntry) entry = NULL;
  GpuArgumentInfo infos[N_ARGUMENTS] = { { 0 } };

  use_folder ();
  write_entry (data, size);
  entry = _gpu_program_cache_load (KEY);
  if (entry == NULL)
    return;

  FUZZ_REQUIRE (g_bytes_get_size (entry->binary) <= size);
  _gpu_kernel_complete (entry->descriptions, "k", infos, N_ARGUMENTS);
  for (guint i = 0; i < N_ARGUMENTS; i++)
    {
      FUZZ_REQUIRE (infos[i].name == NULL || strlen (infos[i].name) < size);
      FUZZ_REQUIRE (infos[i].type_name == NULL || strlen (infos[i].type_name) < size);
    }
}

static void
add_seeds (GPtrArray *seeds)
{
  g_autoptr (GBytes) binary = g_bytes_new_static ("a binary", 8);
  g_autoptr (GVariant) descriptions = NULL;
  g_autoptr (GpuCacheEntry) entry = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree char *file = NULL;
  gsize size;

  descriptions = g_variant_ref_sink (g_variant_new_parsed (DESCRIPTIONS));
  use_folder ();
  _gpu_program_cache_store (KEY, binary, descriptions, "a log");
  entry = _gpu_program_cache_load (KEY);
  FUZZ_REQUIRE (entry != NULL && g_strcmp0 (entry->log, "a log") == 0);
  if (!g_file_get_contents (path, &file, &size, &error))
    g_error ("%s", error->message);
  fuzz_add_seed (seeds, file + HEADER_SIZE, size - HEADER_SIZE);
}

const FuzzTarget fuzz_cache = { "cache", run, add_seeds, TRUE };
