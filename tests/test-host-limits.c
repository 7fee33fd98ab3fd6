/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The amounts of memory that the host back end reports. The tests write files such as /proc/meminfo
 * to a temporary folder, from which the back end reads the limits of a simulated system. */
#include "config.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "gpumem/base/gpu-memory-limits-private.h"
#include "test-util.h"

#define MEGA ((guint64) 1024 * 1024)

static void
write_file (const char *root, const char *name, const char *text)
{
  g_autofree char *path = g_strconcat (root, name, NULL);
  g_autofree char *folder = g_path_get_dirname (path);
  g_autoptr (GError) error = NULL;

  g_assert_cmpint (g_mkdir_with_parents (folder, 0700), ==, 0);
  test_assert_ok (g_file_set_contents (path, text, -1, &error), error);
}

static char *
root_new (void)
{
  g_autoptr (GError) error = NULL;
  char *root = g_dir_make_tmp ("gpumem-limits-XXXXXX", &error);

  g_assert_no_error (error);
  write_file (root, "/proc/meminfo", "MemTotal:  8388608 kB\nMemAvailable:  4194304 kB\n");
  return root;
}

/* Takes ownership of @root. */
static void
assert_limits (char *root, guint64 total, guint64 available)
{
  const char *const argv[] = { "rm", "-r", root, NULL };
  g_autoptr (GError) error = NULL;
  GpuMemoryLimits limits;

  _gpu_memory_limits_read (root, &limits);
  g_assert_cmpuint (limits.total_size, ==, total);
  g_assert_cmpuint (limits.free_size, ==, available);
  test_assert_ok (g_spawn_sync (NULL, (char **) argv, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, NULL,
                                NULL, NULL, &error), error);
  g_free (root);
}

static void
limits_machine (void)
{
  assert_limits (root_new (), 8192 * MEGA, 4096 * MEGA);
}

/* The lowest limit of the process's cgroup and its ancestors applies. The page cache counts as
 * free, because the kernel can reclaim it. */
static void
limits_version_2 (void)
{
  char *root = root_new ();

  write_file (root, "/proc/self/cgroup", "0::/user/job\n");
  write_file (root, "/proc/self/mountinfo",
              "31 23 0:28 / /cg rw,relatime shared:4 - cgroup2 cgroup2 rw\n");
  write_file (root, "/cg/user/job/memory.max", "max\n");
  write_file (root, "/cg/user/job/memory.current", "1048576\n");
  write_file (root, "/cg/user/memory.max", "1073741824\n");
  write_file (root, "/cg/user/memory.current", "536870912\n");
  write_file (root, "/cg/user/memory.stat", "anon 1\ninactive_file 268435456\nactive_file 1\n");
  assert_limits (root, 1024 * MEGA, 768 * MEGA);
}

static void
limits_version_1 (void)
{
  char *root = root_new ();

  write_file (root, "/proc/self/cgroup", "4:cpu,memory:/job\n1:name=systemd:/other\n0::/\n");
  write_file (root, "/proc/self/mountinfo",
              "30 23 0:27 / /sys/cpu rw - cgroup cgroup rw,cpuset\n"
              "31 23 0:28 / /sys/memory rw - cgroup cgroup rw,cpu,memory\n"
              "32 23 0:29 / /sys/unified rw - cgroup2 cgroup2 rw\n");
  write_file (root, "/sys/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write_file (root, "/sys/memory/job/memory.limit_in_bytes", "2147483648\n");
  write_file (root, "/sys/memory/job/memory.usage_in_bytes", "2147483648\n");
  write_file (root, "/sys/memory/job/memory.stat",
              "inactive_file 5\ntotal_inactive_file 1048576\n");
  assert_limits (root, 2048 * MEGA, 1 * MEGA);
}

/* In a container, the cgroup of the process is the root of the mounted hierarchy. */
static void
limits_container (void)
{
  char *root = root_new ();

  write_file (root, "/proc/self/cgroup", "0::/docker/abc/inner\n");
  write_file (root, "/proc/self/mountinfo",
              "31 23 0:28 /docker/abc /cg ro - cgroup2 cgroup ro\n");
  write_file (root, "/cg/memory.max", "104857600\n");
  write_file (root, "/cg/memory.current", "0\n");
  write_file (root, "/cg/inner/memory.max", "max\n");
  assert_limits (root, 100 * MEGA, 100 * MEGA);

  /* The kernel escapes a backslash in mountinfo, but not in the name of the cgroup. */
  root = root_new ();
  write_file (root, "/proc/self/cgroup", "0::/machine-a\\x2db.scope/inner\n");
  write_file (root, "/proc/self/mountinfo",
              "31 23 0:28 /machine-a\\134x2db.scope /cg ro - cgroup2 cgroup ro\n");
  write_file (root, "/cg/inner/memory.max", "104857600\n");
  write_file (root, "/cg/inner/memory.current", "0\n");
  assert_limits (root, 100 * MEGA, 100 * MEGA);

  root = root_new ();
  write_file (root, "/proc/self/cgroup", "0::/../elsewhere\n");
  write_file (root, "/proc/self/mountinfo", "31 23 0:28 / /cg ro - cgroup2 cgroup ro\n");
  write_file (root, "/cg/memory.max", "104857600\n");
  write_file (root, "/cg/memory.current", "209715200\n");
  assert_limits (root, 100 * MEGA, 0);
}

/* Malformed files are ignored. */
static void
limits_malformed (void)
{
  char *root = root_new ();

  write_file (root, "/proc/self/cgroup", "\n:\n0:\n0::\nx:memory:\n");
  write_file (root, "/proc/self/mountinfo",
              "\n - \n - cgroup2\n31 23 0:28 / /cg - cgroup2 cgroup2 rw\n31 23 - cgroup2 x y\n");
  write_file (root, "/cg/memory.max", "-1\n");
  write_file (root, "/cg/memory.stat", "inactive_file");
  assert_limits (root, 8192 * MEGA, 4096 * MEGA);
}

static guint
count_opened (int fd)
{
  char events[16384] __attribute__ ((aligned (__alignof__ (struct inotify_event))));
  gssize n;
  guint opened = 0;

  while ((n = read (fd, events, sizeof events)) > 0)
    for (gssize at = 0; at < n;)
      {
        const struct inotify_event *event = (const struct inotify_event *) (events + at);

        opened += event->len > 0 && g_str_equal (event->name, "mountinfo");
        at += (gssize) (sizeof *event + event->len);
      }
  return opened;
}

/* The paths of the cgroups are cached for a while; the usage of the cgroups is read every time. */
static void
limits_cached (void)
{
  char *root = root_new ();
  g_autofree char *folder = g_build_filename (root, "proc", "self", NULL);
  int fd = inotify_init1 (IN_NONBLOCK | IN_CLOEXEC);
  const guint n = 1000;

  write_file (root, "/proc/self/cgroup", "0::/job\n");
  write_file (root, "/proc/self/mountinfo", "31 23 0:28 / /cg ro - cgroup2 cgroup ro\n");
  write_file (root, "/cg/job/memory.max", "104857600\n");
  g_assert_cmpint (inotify_add_watch (fd, folder, IN_OPEN), >=, 0);
  for (guint i = 0; i < n; i++)
    {
      g_autofree char *usage = g_strdup_printf ("%u\n", i * 4096);
      GpuMemoryLimits limits;

      write_file (root, "/cg/job/memory.current", usage);
      _gpu_memory_limits_read (root, &limits);
      g_assert_cmpuint (limits.free_size, ==, 100 * MEGA - i * 4096);
    }
  g_assert_cmpuint (count_opened (fd), <, n / 2);
  g_close (fd, NULL);
  assert_limits (root, 100 * MEGA, 100 * MEGA - (n - 1) * 4096);
}

/* The contexts of a process share the memory of the machine. */
static void
limits_contexts (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDevice) device = gpu_device_find ("host", &error);
  g_autoptr (GpuContext) first = gpu_context_new (device, GPU_CONTEXT_FLAGS_NONE, &error);
  g_autoptr (GpuContext) second = gpu_context_new (device, GPU_CONTEXT_FLAGS_NONE, &error);
  const gsize size = gpu_device_get_memory_size (device) / 5 * 3;
  g_autoptr (GpuBuffer) large = gpu_buffer_new (first, GPU_MEMORY_FLAGS_NONE, size, &error);
  g_autoptr (GpuBuffer) refused = NULL;
  g_autoptr (GpuBuffer) after = NULL;

  g_assert_no_error (error);
  refused = gpu_buffer_new (second, GPU_MEMORY_FLAGS_NONE, size, &error);
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "memory limit",
                         "held by the contexts of the process");
  g_assert_null (refused);
  g_clear_error (&error);
  gpu_memory_release (GPU_MEMORY (large));
  after = gpu_buffer_new (second, GPU_MEMORY_FLAGS_NONE, size, &error);
  g_assert_no_error (error);
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add_plain ("machine", limits_machine);
  test_add_plain ("version-2", limits_version_2);
  test_add_plain ("version-1", limits_version_1);
  test_add_plain ("container", limits_container);
  test_add_plain ("malformed", limits_malformed);
  test_add_plain ("cached", limits_cached);
  test_add_plain ("contexts", limits_contexts);
  return test_run ();
}
