/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* GPUMEM_DEBUG=marks: for each device, a child process works and prints the ranges that a profiler
 * gets. tests/nvtx-injection.c stands in for Nsight Systems, and this program stands in for
 * Sysprof. */
#include "config.h"

#include "test-util.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#ifdef HAVE_SYSPROF
#include <sysprof-capture.h>
#endif

#define SIZE 8192
/* The number of operations of the out-of-order stream. It exceeds MAX_BEHIND in gpu-submission.c,
 * so that some submissions wait for earlier operations. */
#define N_OUT_OF_ORDER 100

/* --- the child ---------------------------------------------------------------------- */

#ifdef HAVE_SYSPROF
/* Sysprof's ring buffer for the marks of one thread: a header in the first page, then frames. */
typedef struct
{
  guint32 head;
  guint32 tail;
  guint32 offset;
  guint32 size;
} Ring;

static Ring *
ring_new (int *fd)
{
  gsize page = sysconf (_SC_PAGESIZE);
  Ring *ring;

  *fd = memfd_create ("ring", 0);
  g_assert_cmpint (*fd, >=, 0);
  g_assert_cmpint (ftruncate (*fd, 65 * page), ==, 0);
  ring = mmap (NULL, 65 * page, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
  g_assert_true (ring != MAP_FAILED);
  *ring = (Ring) { 0, 0, page, 64 * page };
  return ring;
}

/* Sends the answer to the first request for a ring buffer before the process makes the request.
 * Later requests, from other threads, read the end of the data and get no ring buffer. */
static Ring *
ring_offer (void)
{
  char control[CMSG_SPACE (sizeof (int))] = { 0, }, byte = 0;
  struct iovec vector = { &byte, 1 };
  struct msghdr message = { .msg_iov = &vector, .msg_iovlen = 1, .msg_control = control,
                            .msg_controllen = sizeof control };
  struct cmsghdr *header = CMSG_FIRSTHDR (&message);
  g_autofree char *text = NULL;
  int fds[2], fd;
  Ring *ring = ring_new (&fd);

  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN (sizeof fd);
  memcpy (CMSG_DATA (header), &fd, sizeof fd);
  g_assert_cmpint (socketpair (AF_UNIX, SOCK_STREAM, 0, fds), ==, 0);
  g_assert_cmpint (sendmsg (fds[0], &message, 0), ==, 1);
  g_assert_cmpint (shutdown (fds[0], SHUT_WR), ==, 0);
  close (fd);
  text = g_strdup_printf ("%d", fds[1]);
  g_setenv ("SYSPROF_CONTROL_FD", text, TRUE);
  return ring;
}

/* Prints the marks of the main thread. */
static void
ring_print (const Ring *ring)
{
  const char *frames = (const char *) ring + ring->offset;

  for (guint32 at = ring->head; at < ring->tail; )
    {
      const SysprofCaptureMark *mark = (const void *) (frames + at);

      g_assert_cmpuint (mark->frame.len, >=, sizeof *mark);
      g_assert_cmpuint (mark->frame.type, ==, SYSPROF_CAPTURE_FRAME_MARK);
      g_assert_cmpint (mark->frame.time, >, 0);
      g_assert_cmpint (mark->duration, >=, 0);
      printf ("mark %s %s: %s\n", mark->group, mark->name, mark->message);
      at += mark->frame.len;
    }
}
#endif

static void
work (GpuContext *context)
{
  g_autoptr (GError) error = NULL;
  GpuStream *stream = gpu_context_get_default_stream (context);
  g_autoptr (GpuMemoryPool) pool = gpu_memory_pool_new (context, GPU_MEMORY_POOL_AUTOMATIC,
                                                        GPU_MEMORY_FLAGS_NONE, &error);
  g_autoptr (GpuBuffer) from = NULL, to = NULL;
  guint8 byte = 7, data[SIZE];

  g_assert_no_error (error);
  from = gpu_memory_pool_alloc_buffer (pool, SIZE, stream, &error);
  g_assert_no_error (error);
  to = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, SIZE, &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (from), 0, SIZE, &byte, 1, &error), error);
  test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (to), 0, GPU_MEMORY (from), 0, SIZE, &error),
                  error);
  test_assert_ok (gpu_stream_synchronize (stream, NULL, &error), error);
  test_assert_ok (gpu_buffer_read (to, stream, 0, data, SIZE, NULL, &error), error);
  g_assert_cmpint (data[SIZE - 1], ==, 7);
  g_assert_cmpint (test_get_number (stream, "flags"), ==, GPU_STREAM_FLAGS_NONE);
}

static void
work_out_of_order (GpuContext *context)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = gpu_stream_new (context, GPU_STREAM_FLAGS_OUT_OF_ORDER, &error);
  g_autoptr (GpuBuffer) buffer = NULL;
  guint8 byte = 7;

  g_assert_no_error (error);
  buffer = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, SIZE / 2, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < N_OUT_OF_ORDER; i++)
    test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, SIZE / 2, &byte, 1, &error),
                    error);
  test_assert_ok (gpu_stream_synchronize (stream, NULL, &error), error);
  g_assert_cmpint (test_get_number (stream, "flags"), ==, GPU_STREAM_FLAGS_OUT_OF_ORDER);
}

/* A copy between two drivers, unless the device is the host. */
static void
work_cross_driver (GpuContext *context)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDevice) host = gpu_device_find ("host", &error);
  g_autoptr (GpuContext) other = NULL;
  g_autoptr (GpuBuffer) from = NULL, to = NULL;
  GpuStream *stream = gpu_context_get_default_stream (context);

  g_assert_no_error (error);
  other = gpu_context_new (host, GPU_CONTEXT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  from = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, SIZE / 4, &error);
  g_assert_no_error (error);
  to = gpu_buffer_new (other, GPU_MEMORY_FLAGS_NONE, SIZE / 4, &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (to), 0, GPU_MEMORY (from), 0, SIZE / 4,
                                   &error), error);
  test_assert_ok (gpu_stream_synchronize (stream, NULL, &error), error);
}

static int
child (const char *id, gboolean sysprof G_GNUC_UNUSED)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDevice) device = NULL;
  g_autoptr (GpuContext) context = NULL;
#ifdef HAVE_SYSPROF
  Ring *ring = sysprof ? ring_offer () : NULL;
#endif

  device = gpu_device_find (id, &error);
  g_assert_no_error (error);
  context = gpu_context_new (device, GPU_CONTEXT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  work (context);
  if ((gpu_device_get_capabilities (device) & GPU_CAPABILITIES_OUT_OF_ORDER) != 0)
    work_out_of_order (context);
  if (!g_str_equal (id, "host"))
    work_cross_driver (context);
#ifdef HAVE_SYSPROF
  if (sysprof)
    ring_print (ring);
#endif
  printf ("end\n");
  return 0;
}

/* --- this process ------------------------------------------------------------------- */

static char *
get_tool (void)
{
  return g_test_build_filename (G_TEST_BUILT, ".libs", "nvtx-injection.so", NULL);
}

/* Returns the lines that the child prints, with the ranges that one of the profilers gets. */
static char **
run_child (TestFixture *fixture, const char *keys, gboolean sysprof)
{
  g_autoptr (GSubprocessLauncher) launcher = NULL;
  g_autoptr (GSubprocess) process = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree char *program = g_file_read_link ("/proc/self/exe", &error);
  g_autofree char *tool = get_tool ();
  g_autofree char *output = NULL;

  g_assert_no_error (error);
  launcher = g_subprocess_launcher_new (G_SUBPROCESS_FLAGS_STDOUT_PIPE);
  g_subprocess_launcher_setenv (launcher, "GPUMEM_DEBUG", keys, TRUE);
  g_subprocess_launcher_unsetenv (launcher, "NVTX_INJECTION64_PATH");
  if (!sysprof && g_file_test (tool, G_FILE_TEST_EXISTS))
    g_subprocess_launcher_setenv (launcher, "NVTX_INJECTION64_PATH", tool, TRUE);
  process = g_subprocess_launcher_spawn (launcher, &error, program, "--child",
                                         gpu_device_get_id (fixture->device),
                                         sysprof ? "sysprof" : "nvtx", NULL);
  g_assert_no_error (error);
  test_assert_ok (g_subprocess_communicate_utf8 (process, NULL, NULL, &output, NULL, &error),
                  error);
  g_assert_true (g_subprocess_get_successful (process));
  return g_strsplit (output, "\n", -1);
}

#if defined HAVE_NVTX || defined HAVE_SYSPROF
static guint
count (char **lines, const char *text)
{
  guint n = 0;

  for (guint i = 0; lines[i] != NULL; i++)
    n += strstr (lines[i], text) != NULL;
  return n;
}

static void
assert_count (char **lines, const char *text, guint min, guint max)
{
  guint n = count (lines, text);

  if (n < min || n > max)
    {
      g_autofree char *all = g_strjoinv ("\n", lines);

      g_error ("%u instead of %u to %u lines with \"%s\":\n%s", n, min, max, text, all);
    }
}

static void
check_names (TestFixture *fixture, char **lines)
{
  const guint n_fills = (gpu_device_get_capabilities (fixture->device)
                         & GPU_CAPABILITIES_OUT_OF_ORDER) != 0 ? N_OUT_OF_ORDER : 0;
  const guint n_copies = g_str_equal (gpu_device_get_id (fixture->device), "host") ? 0 : 1;

  assert_count (lines, " gpu_stream_fill: 8192 bytes", 1, 1);
  assert_count (lines, " gpu_stream_copy: 8192 bytes", 1, 1);
  assert_count (lines, " gpu_buffer_read: 8192 bytes", 1, 1);
  assert_count (lines, " pool growth: 8192 bytes", 1, 1);
  assert_count (lines, " wait: ", 1, G_MAXUINT);
  assert_count (lines, " gpu_stream_fill: 4096 bytes", n_fills, n_fills);
  assert_count (lines, " gpu_stream_copy: 2048 bytes", n_copies, n_copies);
}
#endif

#ifdef HAVE_NVTX
/* Fails unless each range ends in the thread and at the depth of its begin. */
static void
check_balance (char **lines)
{
  g_autoptr (GHashTable) depths = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);

  for (guint i = 0; lines[i] != NULL; i++)
    {
      g_auto (GStrv) words = g_strsplit (lines[i], " ", 4);
      gboolean push = g_strcmp0 (words[0], "push") == 0;
      int depth;

      if (!push && g_strcmp0 (words[0], "pop") != 0)
        continue;
      depth = GPOINTER_TO_INT (g_hash_table_lookup (depths, words[1])) - (push ? 0 : 1);
      g_assert_cmpint (atoi (words[2]), ==, depth);
      g_hash_table_insert (depths, g_strdup (words[1]), GINT_TO_POINTER (depth + (push ? 1 : 0)));
    }
  assert_count (lines, "pop ", count (lines, "push "), count (lines, "push "));
  assert_count (lines, "other domain", 0, 0);
}
#endif

static void
marks_nvtx (TestFixture *fixture)
{
#ifdef HAVE_NVTX
  g_auto (GStrv) lines = NULL;
  g_autofree char *tool = get_tool ();

  if (!g_file_test (tool, G_FILE_TEST_EXISTS))
    {
      g_test_skip_printf ("there is no %s", tool);
      return;
    }
  lines = run_child (fixture, "marks", FALSE);
  assert_count (lines, "domain gpumem", 1, 1);
  check_balance (lines);
  check_names (fixture, lines);
#else
  g_test_skip ("built without NVTX: configure's summary has the reason");
#endif
}

static void
marks_sysprof (TestFixture *fixture)
{
#ifdef HAVE_SYSPROF
  g_auto (GStrv) lines = run_child (fixture, "marks", TRUE);

  check_names (fixture, lines);
#else
  g_test_skip ("built without Sysprof: configure's summary has the reason");
#endif
}

static void
marks_off (TestFixture *fixture)
{
  for (guint sysprof = 0; sysprof < 2; sysprof++)
    {
      g_auto (GStrv) lines = run_child (fixture, "stage", sysprof == 1);
      guint n = 0;

      /* GLib may emit marks of its own. */
      while (g_str_has_prefix (lines[n], "mark GLib "))
        n++;
      g_assert_cmpstr (lines[n], ==, "end");
    }
}

int
main (int argc, char **argv)
{
  if (argc == 4 && g_str_equal (argv[1], "--child"))
    return child (argv[2], g_str_equal (argv[3], "sysprof"));
  test_init (&argc, &argv);
  test_add ("nvtx", marks_nvtx);
  test_add ("sysprof", marks_sysprof);
  test_add ("off", marks_off);
  return test_run ();
}
