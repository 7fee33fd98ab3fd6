/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Runs a pool with operations chosen by input bytes. For libFuzzer:
 *
 *   clang -fsanitize=fuzzer,address -DGPUMEM_FUZZER ...
 *
 * Without GPUMEM_FUZZER this is a test program. Its inputs are random bytes, and the files that its
 * arguments name.
 */
#include "config.h"

#include "test-pool-model.h"

typedef struct
{
  const guint8 *data;
  gsize         size;
} Bytes;

/* Returns 0 at the end of the input. */
static guint64
choose (gpointer data,
        guint64  n)
{
  Bytes *bytes = data;
  guint64 value = 0;

  for (guint64 reach = 1; reach < n && bytes->size > 0; reach <<= 8)
    {
      value = value << 8 | *bytes->data++;
      bytes->size--;
    }

  return value % n;
}

int LLVMFuzzerTestOneInput (const guint8 *data,
                            gsize         size);

int
LLVMFuzzerTestOneInput (const guint8 *data,
                        gsize         size)
{
  Bytes bytes = { data, size };
  gboolean chunks = choose (&bytes, 2);
  gboolean thread_heaps = choose (&bytes, 2);
  Model *model = model_new (chunks, thread_heaps, choose, &bytes);

  while (bytes.size > 0)
    model_step (model);
  model_free (model);

  return 0;
}

#ifndef GPUMEM_FUZZER
static void
test_random (void)
{
  guint n = g_test_slow () ? 20000 : 200;
  g_autoptr (GRand) random = g_rand_new_with_seed (1);

  for (guint i = 0; i < n; i++)
    {
      gsize size = g_rand_int_range (random, 0, 4000);
      g_autofree guint8 *data = g_malloc (size + 1);

      for (gsize j = 0; j < size; j++)
        data[j] = g_rand_int (random);
      LLVMFuzzerTestOneInput (data, size);
    }
}

static void
test_file (gconstpointer path)
{
  g_autofree char *data = NULL;
  gsize size;

  g_assert_true (g_file_get_contents (path, &data, &size, NULL));
  LLVMFuzzerTestOneInput ((const guint8 *) data, size);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/fuzz-pool/random", test_random);
  for (int i = 1; i < argc; i++)
    {
      g_autofree char *name = g_strdup_printf ("/fuzz-pool/file/%d", i);

      g_test_add_data_func (name, argv[i], test_file);
    }

  return g_test_run ();
}
#endif
