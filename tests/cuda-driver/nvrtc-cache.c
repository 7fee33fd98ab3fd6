/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A cache of compiled programs, so that a test program that runs a hundred times compiles its
 * kernels only once. */
#include "config.h"

#include <string.h>
#include <glib/gstdio.h>

#include "nvrtc.h"

/* Increase this number when a change makes the same source compile to a different image. */
#define CACHE_VERSION "4"

/* CUBIN, PTX, log, lowered names by expression */
#define TYPE "(mayssa{ss})"

static void
add (GChecksum  *checksum,
     const char *text)
{
  g_checksum_update (checksum, (const guchar *) text, strlen (text) + 1);
}

/* Programs that include files are not cached, because the files may change. */
char *
nvrtc_cache_find (nvrtcProgram       self,
                  int                n_options,
                  const char *const *words)
{
  const char *folder = g_getenv ("GPUMEM_CUDA_DRIVER_CACHE");
  g_autoptr (GChecksum) checksum = g_checksum_new (G_CHECKSUM_SHA256);

  if (folder == NULL || folder[0] == '\0' || strstr (self->source, "include") != NULL ||
      self->headers->len > 0)
    return NULL;
  add (checksum, CACHE_VERSION);
  add (checksum, nvrtc_prelude);
  add (checksum, self->source);
  add (checksum, self->name);
  for (int i = 0; i < n_options; i++)
    {
      if (strstr (words[i], "include") != NULL)
        return NULL;
      add (checksum, words[i]);
    }
  add (checksum, "");
  for (guint i = 0; i < self->expressions->len; i++)
    add (checksum, self->expressions->pdata[i]);
  return g_build_filename (folder, g_checksum_get_string (checksum), NULL);
}

gboolean
nvrtc_cache_load (nvrtcProgram self,
                  const char  *path)
{
  g_autoptr (GVariant) entry = NULL;
  g_autoptr (GVariant) cubin = NULL;
  g_autoptr (GVariant) lowered = NULL;
  GVariantIter iter;
  const char *log;
  const char *name;
  const char *value;
  char *data;
  gsize size;

  if (!g_file_get_contents (path, &data, &size, NULL))
    return FALSE;
  entry = g_variant_new_from_data (G_VARIANT_TYPE (TYPE), data, size, FALSE, g_free, data);
  g_variant_ref_sink (entry);
  g_variant_get (entry, "(m@ays&s@a{ss})", &cubin, &self->ptx, &log, &lowered);
  if (cubin != NULL)
    self->cubin = g_variant_get_data_as_bytes (cubin);
  g_string_assign (self->log, log);
  g_variant_iter_init (&iter, lowered);
  while (g_variant_iter_next (&iter, "{&s&s}", &name, &value))
    g_hash_table_insert (self->lowered, g_strdup (name), g_strdup (value));
  return TRUE;
}

void
nvrtc_cache_store (nvrtcProgram self,
                   const char  *path)
{
  g_autofree char *folder = g_path_get_dirname (path);
  g_autoptr (GVariant) entry = NULL;
  g_autoptr (GVariant) cubin = NULL;
  GVariantBuilder names;
  GHashTableIter iter;
  gpointer name;
  gpointer value;

  g_variant_builder_init (&names, G_VARIANT_TYPE ("a{ss}"));
  g_hash_table_iter_init (&iter, self->lowered);
  while (g_hash_table_iter_next (&iter, &name, &value))
    g_variant_builder_add (&names, "{ss}", name, value);
  if (self->cubin != NULL)
    cubin = g_variant_ref_sink (g_variant_new_from_bytes (G_VARIANT_TYPE ("ay"), self->cubin,
                                                          TRUE));
  entry = g_variant_ref_sink (g_variant_new ("(m@ayss@a{ss})", cubin, self->ptx,
                                             self->log->str, g_variant_builder_end (&names)));
  g_mkdir_with_parents (folder, 0777);
  g_file_set_contents (path, g_variant_get_data (entry), g_variant_get_size (entry), NULL);
}
