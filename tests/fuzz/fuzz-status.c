/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Status files of processes, which `gpumem monitor` reads.
 */
#include "config.h"

#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tools/gpumem-status.h"

/* Checks that names are safe to print to a terminal and that figures are consistent, and that no
 * pool is read from an invalid file. */
static void
run (const guint8 *data,
     gsize         size)
{
  g_autoptr (GPtrArray) pools = g_ptr_array_new_with_free_func (gpumem_pool_status_free);
  gboolean valid = gpumem_status_parse ((const char *) data, size, 1, pools);

  FUZZ_REQUIRE (valid || pools->len == 0);
  for (guint i = 0; i < pools->len; i++)
    {
      const GpumemPoolStatus *pool = g_ptr_array_index (pools, i);
      const double part = gpumem_status_get_fragmentation (pool);

      FUZZ_REQUIRE (pool->active <= pool->used && pool->used <= pool->managed);
      FUZZ_REQUIRE (part >= 0 && part <= 1);
      for (const char *c = pool->name; *c != '\0'; c++)
        FUZZ_REQUIRE (g_ascii_isgraph (*c));
      FUZZ_REQUIRE (strlen (pool->device) > 0 && strlen (pool->kind) > 0);
    }
}

static void
add_seeds (GPtrArray *seeds)
{
  fuzz_add_text (seeds, "gpumem-status 1\nname a\n");
  fuzz_add_text (seeds, "gpumem-status 1\nname a\npool host bins 4096 1000 1024 2048\n"
                        "pool cuda:0 expandable 0 0 0 0\n");
}

const FuzzTarget fuzz_status = { "status", run, add_seeds, FALSE };
