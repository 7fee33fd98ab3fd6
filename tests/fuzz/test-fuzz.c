/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Runs every fuzz target without libFuzzer, on all of its seeds and on seeds with a few random
 * changes.
 *
 *   test-fuzz                        runs the tests, with TAP output
 *   test-fuzz --write-seeds FOLDER   writes FOLDER/TARGET/NUMBER, the corpus of `make fuzz`
 *   test-fuzz --target=NAME FILE...  runs the target on files, such as findings from libFuzzer
 */
#include "config.h"

#include <glib/gstdio.h>

#include "tests/fuzz/fuzz.h"

#define TARGET_OPTION "--target="
#define MAX_CHANGES 8

static GPtrArray *
make_seeds (const FuzzTarget *target)
{
  GPtrArray *seeds = g_ptr_array_new_with_free_func ((GDestroyNotify) g_bytes_unref);

  target->add_seeds (seeds);

  return seeds;
}

/* Copies the input to a heap block of exactly its size, so that valgrind and sanitizers detect
 * overruns. */
static void
run_exact (const FuzzTarget *target,
           gconstpointer     data,
           gsize             size)
{
  g_autofree guint8 *copy = g_memdup2 (data, size);

  target->run (copy, size);
}

static void
test_seeds (gconstpointer data)
{
  const FuzzTarget *target = data;
  g_autoptr (GPtrArray) seeds = make_seeds (target);

  g_assert_cmpuint (seeds->len, >, 0);
  run_exact (target, NULL, 0);
  for (guint i = 0; i < seeds->len; i++)
    {
      gsize size;
      gconstpointer bytes = g_bytes_get_data (seeds->pdata[i], &size);

      run_exact (target, bytes, size);
      run_exact (target, bytes, size / 2);
    }
}

/* Sets, inserts and removes bytes, in place. */
static void
change (GByteArray *bytes,
        GRand      *random)
{
  static const guint8 favourites[] = { 0, 1, 0x7f, 0x80, 0xff, '(', '{', '"', '#', '\n' };
  guint n = (guint) g_rand_int_range (random, 1, MAX_CHANGES);

  for (guint i = 0; i < n && bytes->len > 0; i++)
    {
      guint at = (guint) g_rand_int_range (random, 0, (gint32) bytes->len);
      guint8 byte = favourites[g_rand_int_range (random, 0, G_N_ELEMENTS (favourites))];

      switch (g_rand_int_range (random, 0, 4))
        {
        case 0:
          bytes->data[at] = byte;
          break;
        case 1:
          bytes->data[at] ^= (guint8) (1 << g_rand_int_range (random, 0, 8));
          break;
        case 2:
          g_byte_array_append (bytes, &byte, 1);
          memmove (bytes->data + at + 1, bytes->data + at, bytes->len - at - 1);
          break;
        default:
          g_byte_array_remove_index (bytes, at);
        }
    }
}

static void
test_changes (gconstpointer data)
{
  const FuzzTarget *target = data;
  g_autoptr (GPtrArray) seeds = make_seeds (target);
  g_autoptr (GRand) random = g_rand_new_with_seed (1);
  guint n = (target->is_slow ? 200 : 2000) * (g_test_slow () ? 50 : 1);

  for (guint i = 0; i < n; i++)
    {
      g_autoptr (GByteArray) bytes = g_byte_array_new ();
      gsize size;
      gconstpointer seed = g_bytes_get_data (seeds->pdata[i % seeds->len], &size);

      g_byte_array_append (bytes, seed, (guint) size);
      change (bytes, random);
      run_exact (target, bytes->data, bytes->len);
    }
}

static void
write_seeds (const char *folder)
{
  for (guint i = 0; fuzz_targets[i] != NULL; i++)
    {
      g_autoptr (GPtrArray) seeds = make_seeds (fuzz_targets[i]);
      g_autofree char *corpus = g_build_filename (folder, fuzz_targets[i]->name, NULL);

      if (g_mkdir_with_parents (corpus, 0777) != 0)
        g_error ("%s cannot be made", corpus);
      for (guint k = 0; k < seeds->len; k++)
        {
          g_autoptr (GError) error = NULL;
          g_autofree char *name = g_strdup_printf ("seed-%02u", k);
          g_autofree char *path = g_build_filename (corpus, name, NULL);
          gsize size;
          gconstpointer data = g_bytes_get_data (seeds->pdata[k], &size);

          if (!g_file_set_contents (path, data, (gssize) size, &error))
            g_error ("%s", error->message);
        }
    }
}

static void
run_files (const char *name,
           char      **paths)
{
  for (guint i = 0; fuzz_targets[i] != NULL; i++)
    {
      for (guint k = 0; paths[k] != NULL && g_str_equal (fuzz_targets[i]->name, name); k++)
        {
          g_autoptr (GError) error = NULL;
          g_autofree char *data = NULL;
          gsize size;

          if (!g_file_get_contents (paths[k], &data, &size, &error))
            g_error ("%s", error->message);
          g_printerr ("%s\n", paths[k]);
          run_exact (fuzz_targets[i], data, size);
        }
    }
}

int
main (int    argc,
      char **argv)
{
  if (argc == 3 && g_str_equal (argv[1], "--write-seeds"))
    {
      write_seeds (argv[2]);
      return 0;
    }
  if (argc > 2 && g_str_has_prefix (argv[1], TARGET_OPTION))
    {
      run_files (argv[1] + strlen (TARGET_OPTION), argv + 2);
      return 0;
    }

  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; fuzz_targets[i] != NULL; i++)
    {
      g_autofree char *seeds = g_strdup_printf ("/fuzz/%s/seeds", fuzz_targets[i]->name);
      g_autofree char *changes = g_strdup_printf ("/fuzz/%s/changes", fuzz_targets[i]->name);

      g_test_add_data_func (seeds, fuzz_targets[i], test_seeds);
      g_test_add_data_func (changes, fuzz_targets[i], test_changes);
    }

  return g_test_run ();
}
