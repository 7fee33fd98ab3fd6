/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Writes to existing bytes of files in tmpfs: several threads copy to the pages of the file at the
 * same time. All bytes are written, even if the system refuses such copies, or another process
 * truncates the file. */
#include "config.h"

#include <dlfcn.h>
#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "test-util.h"

#define SIZE ((gsize) 8 * 1024 * 1024 + 4097)
#define POSITION 101
#define N_THREADS 8

/* Atomic; what the next calls do */
static gint refuse;             /* fail with EPERM */
static gint shorten;            /* copy a third of the bytes */
static gint n_running_wanted;   /* wait until this many are in progress at the same time */
static gint truncated_fd = -1;  /* first truncate this file; only the next call does so */
/* Atomic; what the calls have done */
static gint n_running;
static gint n_running_max;
static gint n_kib;

typedef ssize_t (*WritevFunc) (pid_t pid, const struct iovec *from, unsigned long n_from,
                               const struct iovec *to, unsigned long n_to, unsigned long flags);

/* Returns after TEST_DEADLINE, so that the test fails instead of hanging. */
static void
wait_for_others (void)
{
  const gint n = g_atomic_int_add (&n_running, 1) + 1;
  gint most;

  do
    most = g_atomic_int_get (&n_running_max);
  while (n > most && !g_atomic_int_compare_and_exchange (&n_running_max, most, n));

  for (guint i = 0; g_atomic_int_get (&n_running_max) < g_atomic_int_get (&n_running_wanted); i++)
    {
      if (i == TEST_DEADLINE * 1000)
        g_atomic_int_set (&n_running_wanted, 0);
      g_usleep (1000);
    }
}

ssize_t
process_vm_writev (pid_t               pid,
                   const struct iovec *from,
                   unsigned long       n_from,
                   const struct iovec *to,
                   unsigned long       n_to,
                   unsigned long       flags)
{
  WritevFunc next = (WritevFunc) dlsym (RTLD_NEXT, "process_vm_writev");
  struct iovec part;
  gint fd = g_atomic_int_get (&truncated_fd);
  ssize_t n;

  if (g_atomic_int_get (&refuse))
    {
      errno = EPERM;
      return -1;
    }

  if (n_from == 0)
    return next (pid, from, n_from, to, n_to, flags);

  part = from[0];
  if (g_atomic_int_get (&shorten))
    part.iov_len /= 3;

  if (fd >= 0 && g_atomic_int_compare_and_exchange (&truncated_fd, fd, -1))
    g_assert_cmpint (ftruncate (fd, 0), ==, 0);

  wait_for_others ();
  n = next (pid, &part, n_from, to, n_to, flags);
  g_atomic_int_add (&n_running, -1);
  g_atomic_int_add (&n_kib, n > 0 ? (gint) (n / 1024) : 0);

  return n;
}

static gboolean
is_allowed (void)
{
  if (process_vm_writev (getpid (), NULL, 0, NULL, 0, 0) == 0)
    return TRUE;

  g_test_skip ("the system does not allow process_vm_writev()");

  return FALSE;
}

/* Returns a file of tmpfs with POSITION + SIZE + 1 bytes of 1, whose times are in 1970. */
static int
create_file (void)
{
  g_autoptr (GBytes) content = test_value_bytes (POSITION + SIZE + 1, 1);
  const struct timespec old[2] = { { 1, 0 }, { 1, 0 } };
  gsize size = g_bytes_get_size (content);
  int fd = memfd_create ("gpumem-overwrite", MFD_CLOEXEC);

  g_assert_cmpint (fd, >=, 0);
  g_assert_cmpint (write (fd, g_bytes_get_data (content, NULL), size), ==, size);
  g_assert_cmpint (futimens (fd, old), ==, 0);

  return fd;
}

static void
overwrite (TestFixture *fixture,
           int          fd,
           GBytes      *bytes)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuFile) file = gpu_file_new_for_fd (fd, GPU_FILE_FLAGS_NONE, &error);

  g_assert_no_error (error);
  test_assert_ok (gpu_buffer_write (buffer, fixture->stream, 0, g_bytes_get_data (bytes, NULL),
                                    SIZE, NULL, &error), error);
  g_atomic_int_set (&n_kib, 0);
  g_atomic_int_set (&n_running_max, 0);
  test_assert_ok (gpu_memory_write_file (GPU_MEMORY (buffer), fixture->stream, 0, file, POSITION,
                                         SIZE, NULL, &error), error);
}

static void
check_range (int         fd,
             gsize       position,
             const void *expected,
             gsize       size)
{
  g_autofree guint8 *data = g_malloc (size);

  g_assert_cmpint (pread (fd, data, size, (off_t) position), ==, size);
  test_assert_mem (data, expected, size);
}

/* Overwrites the file, and checks all of its bytes and its time. */
static void
check (TestFixture *fixture)
{
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GBytes) ones = test_value_bytes (POSITION, 1);
  int fd = create_file ();
  struct stat status;

  overwrite (fixture, fd, bytes);
  check_range (fd, 0, g_bytes_get_data (ones, NULL), POSITION);
  check_range (fd, POSITION, g_bytes_get_data (bytes, NULL), SIZE);
  check_range (fd, POSITION + SIZE, g_bytes_get_data (ones, NULL), 1);
  g_assert_cmpint (fstat (fd, &status), ==, 0);
  g_assert_cmpint (status.st_size, ==, POSITION + SIZE + 1);
  g_assert_cmpint (status.st_mtim.tv_sec, >, 1);
  close (fd);
}

/* Several threads write at the same time. */
static void
parallel (TestFixture *fixture)
{
  if (!is_allowed ())
    return;

  g_atomic_int_set (&n_running_wanted, 2);
  check (fixture);
  g_atomic_int_set (&n_running_wanted, 0);
  g_assert_cmpint (g_atomic_int_get (&n_running_max), >=, 2);
}

/* Most bytes are copied to the pages. */
static void
pages (TestFixture *fixture)
{
  if (!is_allowed ())
    return;

  check (fixture);
  g_assert_cmpint (g_atomic_int_get (&n_kib), >, SIZE / 1024 / 2);
}

/* Few threads call pwrite() only, which is then faster. */
static void
few_threads (TestFixture *fixture)
{
  gpu_staging_set_n_threads (2);
  check (fixture);
  gpu_staging_set_n_threads (N_THREADS);
  g_assert_cmpint (g_atomic_int_get (&n_kib), ==, 0);
}

/* One thread calls pwrite() only if the file ends in the range, because other threads would wait
 * for each other. */
static void
extended (TestFixture *fixture)
{
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  int fd = create_file ();

  g_assert_cmpint (ftruncate (fd, POSITION + SIZE - 1), ==, 0);
  overwrite (fixture, fd, bytes);
  check_range (fd, POSITION, g_bytes_get_data (bytes, NULL), SIZE);
  g_assert_cmpint (g_atomic_int_get (&n_kib), ==, 0);
  close (fd);
}

static void
refused (TestFixture *fixture)
{
  g_atomic_int_set (&refuse, TRUE);
  check (fixture);
  g_atomic_int_set (&refuse, FALSE);
}

static void
partial (TestFixture *fixture)
{
  g_atomic_int_set (&shorten, TRUE);
  check (fixture);
  g_atomic_int_set (&shorten, FALSE);
}

/* Another process truncates the file: the last bytes are written after that. */
static void
truncated (TestFixture *fixture)
{
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  const guint8 *data = g_bytes_get_data (bytes, NULL);
  int fd = create_file ();
  struct stat status;

  if (!is_allowed ())
    {
      close (fd);
      return;
    }

  g_atomic_int_set (&truncated_fd, fd);
  overwrite (fixture, fd, bytes);
  g_assert_cmpint (g_atomic_int_get (&truncated_fd), ==, -1);
  g_assert_cmpint (fstat (fd, &status), ==, 0);
  g_assert_cmpint (status.st_size, ==, POSITION + SIZE);
  check_range (fd, POSITION + SIZE - 4096, data + SIZE - 4096, 4096);
  close (fd);
}

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);
  gpu_staging_set_n_threads (N_THREADS);

  test_add ("pages", pages);
  test_add ("parallel", parallel);
  test_add ("few-threads", few_threads);
  test_add ("extended", extended);
  test_add ("refused", refused);
  test_add ("partial", partial);
  test_add ("truncated", truncated);

  return test_run ();
}
