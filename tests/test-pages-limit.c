/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The commitment of pages near the limit of the memory. This program contains the code of the
 * library with a simulated limit. */
#include "config.h"

#include <sys/mman.h>

#define _gpu_memory_limits_read read_simulated
#define _gpu_pages_commit commit_simulated
#define _gpu_pages_map map_simulated
#define _gpu_pages_unmap unmap_simulated

#include "gpumem/base/gpu-pages.c"
#include "test-util.h"

#define SIZE ((gsize) 48 * 1024 * 1024)
#define PAGE ((gsize) 4096)

static guint8 *memory;              /* atomic */
static gsize limit;                 /* atomic: bytes that the simulated host had free at first */
static gint n_reads;                /* atomic */

/* A thread that finds no part left may still read the limits when the memory is unmapped. */
static guint64
count_resident (void)
{
  g_autofree guint8 *resident = g_malloc0 (SIZE / PAGE);
  guint64 n = 0;

  if (mincore (g_atomic_pointer_get (&memory), SIZE, resident) != 0)
    return 0;
  for (gsize i = 0; i < SIZE / PAGE; i++)
    n += resident[i] & 1;
  return n * PAGE;
}

/* The first thread is interrupted until other threads have committed memory. There may be no other
 * thread. */
void
read_simulated (const char *root G_GNUC_UNUSED, GpuMemoryLimits *limits)
{
  guint64 total = (gsize) g_atomic_pointer_get (&limit);

  if (g_atomic_int_add (&n_reads, 1) == 0)
    for (guint i = 0; i < 500 && count_resident () < SIZE / 2; i++)
      g_usleep (1000);

  limits->total_size = total;
  limits->free_size = total - MIN (total, count_resident ());
}

static int
commit (gsize free_size)
{
  guint8 *data = mmap (NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  int code;

  g_assert_true (data != MAP_FAILED);
  g_atomic_pointer_set (&memory, data);
  g_atomic_pointer_set (&limit, free_size);
  g_atomic_int_set (&n_reads, 0);
  code = commit_simulated (data, SIZE);
  if (code == 0)
    g_assert_cmpuint (count_resident (), ==, SIZE);
  munmap (data, SIZE);
  return code;
}

/* Memory that fits exactly is committed, although threads read the free memory while other threads
 * commit parts. */
static void
limit_fits (void)
{
  g_assert_cmpint (commit (SIZE), ==, 0);
}

static void
limit_exceeded (void)
{
  g_assert_cmpint (commit (SIZE - 1), ==, ENOMEM);
  g_assert_cmpint (commit (0), ==, ENOMEM);
}

/* After a failure, no thread takes one of the other 524,287 parts. */
static void
limit_many_parts (void)
{
  g_atomic_pointer_set (&memory, NULL);
  g_atomic_pointer_set (&limit, 0);
  g_atomic_int_set (&n_reads, 1);
  g_assert_cmpint (commit_simulated (NULL, (gsize) 1 << 45), ==, ENOMEM);
  g_assert_cmpint (g_atomic_int_get (&n_reads), <=, 1 + 2 * MAX_THREADS);
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add_plain ("fits", limit_fits);
  test_add_plain ("exceeded", limit_exceeded);
  test_add_plain ("many-parts", limit_many_parts);
  return test_run ();
}
