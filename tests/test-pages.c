/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Mapped pages, which several threads provide, and NUMA nodes. The tests of nodes write files of a
 * simulated system to a temporary folder. */
#include "config.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "gpumem/base/gpu-memory-limits-private.h"
#include "gpumem/base/gpu-numa-private.h"
#include "gpumem/base/gpu-pages-private.h"
#include "test-util.h"

#define MEGA ((gsize) 1024 * 1024)
#define DEVICE "0000:65:00.0"
#define N_THREADS 4

static void
write_file (const char *root, const char *name, const char *text)
{
  g_autofree char *path = g_strconcat (root, name, NULL);
  g_autofree char *folder = g_path_get_dirname (path);
  g_autoptr (GError) error = NULL;

  g_assert_cmpint (g_mkdir_with_parents (folder, 0700), ==, 0);
  test_assert_ok (g_file_set_contents (path, text, -1, &error), error);
}

/* @nodes is nullable. */
static char *
root_new (const char *nodes)
{
  g_autoptr (GError) error = NULL;
  char *root = g_dir_make_tmp ("gpumem-nodes-XXXXXX", &error);

  g_assert_no_error (error);
  write_file (root, "/sys/bus/pci/devices/" DEVICE "/numa_node", "3\n");
  write_file (root, "/sys/bus/pci/devices/far/numa_node", "-1\n");
  write_file (root, "/sys/bus/pci/devices/broken/numa_node", "2\n");
  if (nodes != NULL)
    write_file (root, "/sys/devices/system/node/has_memory", nodes);
  return root;
}

static void
root_free (char *root)
{
  const char *const argv[] = { "rm", "-r", root, NULL };
  g_autoptr (GError) error = NULL;

  test_assert_ok (g_spawn_sync (NULL, (char **) argv, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, NULL,
                                NULL, NULL, &error), error);
  g_free (root);
}

/* Memory is near the device, unless the system does not report a node with memory for it. */
static void
pages_nearest_node (void)
{
  char *root = root_new ("0-1,3\n");

  g_assert_cmpint (_gpu_numa_resolve (root, GPU_NUMA_NODE_DEVICE, DEVICE), ==, 3);
  g_assert_cmpint (_gpu_numa_resolve (root, GPU_NUMA_NODE_DEVICE, "far"), ==, GPU_NUMA_NODE_NONE);
  g_assert_cmpint (_gpu_numa_resolve (root, GPU_NUMA_NODE_DEVICE, "broken"), ==,
                   GPU_NUMA_NODE_NONE);
  g_assert_cmpint (_gpu_numa_resolve (root, GPU_NUMA_NODE_DEVICE, "none"), ==, GPU_NUMA_NODE_NONE);
  g_assert_cmpint (_gpu_numa_resolve (root, GPU_NUMA_NODE_DEVICE, NULL), ==, GPU_NUMA_NODE_NONE);
  g_assert_cmpint (_gpu_numa_resolve (root, 1, DEVICE), ==, 1);
  g_assert_cmpint (_gpu_numa_resolve (root, GPU_NUMA_NODE_NONE, DEVICE), ==, GPU_NUMA_NODE_NONE);
  root_free (root);
}

/* On a host with one node, a node is ignored. */
static void
pages_one_node (void)
{
  static const char *const lists[] = { "0\n", NULL };

  for (guint i = 0; i < G_N_ELEMENTS (lists); i++)
    {
      g_autoptr (GError) error = NULL;
      char *root = root_new (lists[i]);

      test_assert_ok (_gpu_numa_check (root, "function", 5, &error), error);
      g_assert_cmpint (_gpu_numa_resolve (root, 5, DEVICE), ==, GPU_NUMA_NODE_NONE);
      g_assert_cmpint (_gpu_numa_resolve (root, GPU_NUMA_NODE_DEVICE, DEVICE), ==,
                       GPU_NUMA_NODE_NONE);
      g_assert_false (_gpu_numa_check (root, "function", -3, &error));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "function", "-3");
      root_free (root);
    }
}

static void
pages_invalid_node (void)
{
  static const int invalid[] = { 2, 4, 1000000, -3, G_MININT };
  static const int valid[] = { 0, 1, 3, GPU_NUMA_NODE_NONE, GPU_NUMA_NODE_DEVICE };
  char *root = root_new ("0-1,3\n");

  for (guint i = 0; i < G_N_ELEMENTS (invalid); i++)
    {
      g_autoptr (GError) error = NULL;

      g_assert_false (_gpu_numa_check (root, "function", invalid[i], &error));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "function", "0-1,3");
    }

  for (guint i = 0; i < G_N_ELEMENTS (valid); i++)
    {
      g_autoptr (GError) error = NULL;

      test_assert_ok (_gpu_numa_check (root, "function", valid[i], &error), error);
    }
  root_free (root);
}

/* The kernel accepts a node that it has, and refuses other nodes. */
static void
pages_bind (void)
{
  guint8 *data = mmap (NULL, MEGA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  g_assert_true (data != MAP_FAILED);
  g_assert_cmpint (_gpu_numa_bind (data, MEGA, GPU_NUMA_NODE_NONE), ==, GPU_NUMA_NODE_NONE);
  g_assert_cmpint (_gpu_numa_bind (data, MEGA, 1023), ==, GPU_NUMA_NODE_NONE);
  g_assert_cmpint (_gpu_numa_bind (data, MEGA, 1024), ==, GPU_NUMA_NODE_NONE);
  g_assert_cmpint (_gpu_numa_bind (data + 1, 100, 0), ==, GPU_NUMA_NODE_NONE);
  if (_gpu_numa_bind (data + 1, MEGA - 1, 0) != 0)
    g_test_skip ("the kernel does not let the process bind memory");
  munmap (data, MEGA);
}

/* Returns the number of pages of the mapping that have memory. */
static gsize
count_resident (guint8 *data, gsize size)
{
  g_autofree guint8 *resident = g_malloc0 (size / 4096 + 1);
  gsize n = 0;

  g_assert_cmpint (mincore (data, size, resident), ==, 0);
  for (gsize i = 0; i < (size + 4095) / 4096; i++)
    n += resident[i] & 1;
  return n;
}

static gpointer
map_one (gpointer data)
{
  const gsize size = GPOINTER_TO_SIZE (data);
  g_autoptr (GError) error = NULL;
  int node = 0;
  guint8 *memory = _gpu_pages_map (size, &node, &error);

  g_assert_no_error (error);
  g_assert_cmpuint ((guintptr) memory % GPU_PAGES_MIN_SIZE, ==, 0);
  g_assert_cmpuint (count_resident (memory, size), ==, (size + 4095) / 4096);
  test_assert_value (memory, 0, size);
  _gpu_pages_unmap (memory, size);
  g_assert_cmpint (mincore (memory, size, (guint8[1]) { 0 }), ==, -1);
  return NULL;
}

/* All pages have memory. 70 MiB are several parts, for several threads. */
static void
pages_map (void)
{
  static const gsize sizes[] = { 1, 4096, 2 * MEGA, 2 * MEGA + 1, 70 * MEGA + 100 };

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    map_one (GSIZE_TO_POINTER (sizes[i]));
}

static gpointer
map_often (gpointer data)
{
  for (guint i = 0; i < 10; i++)
    {
      g_autoptr (GError) error = NULL;
      int node = GPU_NUMA_NODE_NONE;
      gsize size = GPOINTER_TO_SIZE (data);
      guint8 *memory = _gpu_pages_map (size, &node, &error);

      g_assert_no_error (error);
      g_assert_cmpint (node, ==, GPU_NUMA_NODE_NONE);
      g_assert_cmpuint (count_resident (memory, size), ==, (size + 4095) / 4096);
      _gpu_pages_unmap (memory, size);
    }
  return NULL;
}

static void
pages_threads (void)
{
  GThread *threads[N_THREADS];

  for (guint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("map", map_often, GSIZE_TO_POINTER (20 * MEGA + i));
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
}

/* Memory beyond the free memory is refused before the kernel provides a page. */
static void
pages_beyond_memory (void)
{
  const gsize sizes[] = { G_MAXSIZE, G_MAXSSIZE, 0 };
  GpuMemoryLimits limits;

  _gpu_memory_limits_read ("", &limits);
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      g_autoptr (GError) error = NULL;
      int node = GPU_NUMA_NODE_NONE;
      gsize size = sizes[i] != 0 ? sizes[i] : (gsize) limits.total_size + MEGA;

      g_assert_null (_gpu_pages_map (size, &node, &error));
      test_assert_gpu_error (error, GPU_ERROR_OUT_OF_HOST_MEMORY, "free of", "request less");
    }
}

/* A forked process does not have the mapping, so that locked pages are not copied. */
static void
pages_forked (void)
{
  g_autoptr (GError) error = NULL;
  int node = GPU_NUMA_NODE_NONE;
  guint8 *memory = _gpu_pages_map (2 * MEGA, &node, &error);
  int status = 0;
  pid_t child;

  g_assert_no_error (error);
  child = fork ();
  if (child == 0)
    test_end_child (mincore (memory, 4096, (guint8[1]) { 0 }) == -1 && errno == ENOMEM ? 0 : 1);
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  g_assert_true (WIFEXITED (status));
  g_assert_cmpint (WEXITSTATUS (status), ==, 0);
  _gpu_pages_unmap (memory, 2 * MEGA);
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add_plain ("nearest-node", pages_nearest_node);
  test_add_plain ("one-node", pages_one_node);
  test_add_plain ("invalid-node", pages_invalid_node);
  test_add_plain ("bind", pages_bind);
  test_add_plain ("map", pages_map);
  test_add_plain ("threads", pages_threads);
  test_add_plain ("beyond-memory", pages_beyond_memory);
  test_add_plain ("forked", pages_forked);
  return test_run ();
}
