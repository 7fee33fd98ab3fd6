/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Runs one target under libFuzzer: fuzz --target=NAME [LIBFUZZER OPTION...] [CORPUS...]. libFuzzer
 * ignores options with two dashes.
 */
#include "config.h"

#include <stdlib.h>

#include "tests/fuzz/fuzz.h"

#define OPTION "--target="

int LLVMFuzzerInitialize   (int          *argc,
                            char       ***argv);
int LLVMFuzzerTestOneInput (const guint8 *data,
                            gsize         size);

static const FuzzTarget *target;

static void
find_target (const char *name)
{
  for (guint i = 0; fuzz_targets[i] != NULL; i++)
    {
      if (g_strcmp0 (fuzz_targets[i]->name, name) == 0)
        target = fuzz_targets[i];
    }

  if (target != NULL)
    return;

  g_printerr ("fuzz: --target=NAME has to be one of");
  for (guint i = 0; fuzz_targets[i] != NULL; i++)
    g_printerr (" %s", fuzz_targets[i]->name);
  g_printerr ("\n");
  exit (2);
}

int
LLVMFuzzerInitialize (int    *argc,
                      char ***argv)
{
  const char *name = NULL;

  for (int i = 1; i < *argc; i++)
    {
      if (g_str_has_prefix ((*argv)[i], OPTION))
        name = (*argv)[i] + strlen (OPTION);
    }
  find_target (name);
  g_log_set_always_fatal (G_LOG_FATAL_MASK | G_LOG_LEVEL_CRITICAL | G_LOG_LEVEL_WARNING);

  return 0;
}

int
LLVMFuzzerTestOneInput (const guint8 *data,
                        gsize         size)
{
  target->run (data, size);

  return 0;
}
