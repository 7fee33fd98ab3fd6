/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copies of files in the order of a stream: they return at once, any number may be pending, they
 * use the file in their turn only, and all later work gets the error of the file, with the
 * position. */
#include "config.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef HAVE_CUDA
#include "test-capture-util.h"
#endif
#include "test-util.h"

#define SIZE ((gsize) 300 * 1024 + 5)
#define N_MANY 40

/* --- system calls that fail or take long ------------------------------------------------------ */

/* Atomic. The byte at this position cannot be copied; -1 for none. */
static gssize broken_at = -1;
static gint broken_errno;
/* Atomic; the time that each read or write of a file takes, in microseconds */
static gint call_time;
/* Atomic; the number of calls that have ended, of those in progress, and its maximum */
static gint n_calls;
static gint n_running;
static gint n_running_max;
/* Atomic; a call waits until this many have been in progress at the same time */
static gint n_running_wanted;
/* Atomic; the number of calls that were broken */
static gint n_broken;
/* Atomic; a call only begins while `n_calls` is less */
static gint max_calls = G_MAXINT;

typedef ssize_t (*ReadFunc) (int fd, void *data, size_t size, off_t position);
typedef ssize_t (*WriteFunc) (int fd, const void *data, size_t size, off_t position);

/* The stand-in for CUDA's driver keeps the memory of the device in a file as well. */
static gboolean
is_temporary (int fd)
{
  struct stat folder;
  struct stat status;

  return fstat (fd, &status) == 0 && stat (g_get_tmp_dir (), &folder) == 0
         && status.st_dev == folder.st_dev;
}

static void
note_running (void)
{
  gint n = g_atomic_int_add (&n_running, 1) + 1;
  gint max = g_atomic_int_get (&n_running_max);

  while (n > max && !g_atomic_int_compare_and_exchange (&n_running_max, max, n))
    max = g_atomic_int_get (&n_running_max);
}

/* Returns after TEST_DEADLINE, so that the test fails instead of hanging. */
static void
wait_for_others (void)
{
  for (guint i = 0; g_atomic_int_get (&n_running_max) < g_atomic_int_get (&n_running_wanted); i++)
    {
      if (i == TEST_DEADLINE * 1000)
        g_atomic_int_set (&n_running_wanted, 0);
      g_usleep (1000);
    }
}

/* Returns -1, or the number of bytes to copy. A broken call fails at once. */
static gssize
begin_call (int   fd,
            gsize size,
            off_t position)
{
  gssize bad = g_atomic_pointer_get (&broken_at);

  if (!is_temporary (fd))
    return (gssize) size;

  while (g_atomic_int_get (&n_calls) >= g_atomic_int_get (&max_calls))
    g_usleep (100);
  wait_for_others ();
  if (g_atomic_int_get (&call_time) > 0 && (bad < 0 || position + (gssize) size <= bad))
    g_usleep (g_atomic_int_get (&call_time));
  if (bad < 0 || position + (gssize) size <= bad)
    return (gssize) size;
  if (position < bad)
    return bad - position;

  g_atomic_int_inc (&n_broken);
  errno = g_atomic_int_get (&broken_errno);

  return -1;
}

ssize_t
pread (int     fd,
       void   *data,
       size_t  size,
       off_t   position)
{
  gssize n;

  note_running ();
  n = begin_call (fd, size, position);
  if (n > 0)
    n = ((ReadFunc) dlsym (RTLD_NEXT, "pread")) (fd, data, (gsize) n, position);
  g_atomic_int_inc (&n_calls);
  g_atomic_int_add (&n_running, -1);

  return n;
}

ssize_t
pwrite (int         fd,
        const void *data,
        size_t      size,
        off_t       position)
{
  gssize n;

  note_running ();
  n = begin_call (fd, size, position);
  if (n > 0)
    n = ((WriteFunc) dlsym (RTLD_NEXT, "pwrite")) (fd, data, (gsize) n, position);
  g_atomic_int_inc (&n_calls);
  g_atomic_int_add (&n_running, -1);

  return n;
}

static void
break_at (gssize position,
          int    code)
{
  g_atomic_int_set (&broken_errno, code);
  g_atomic_pointer_set (&broken_at, position);
}

/* --- calls between the submission of a copy and the wait for it ------------------------------- */

/* Called once by this thread; nullable */
static __thread void (*at_wait) (gpointer data);
static __thread gpointer at_wait_data;
static __thread guint n_calls_before_wait;
/* The number of locks that this thread has taken; not counted under ThreadSanitizer, for which
 * tests/tsan-glib.c replaces g_mutex_lock() */
static __thread gsize n_locks;

typedef void (*LockFunc) (GMutex *mutex);
typedef gboolean (*CheckFunc) (GCancellable *cancellable, GError **error);
typedef GSource *(*SourceFunc) (GCancellable *cancellable);

#ifndef __SANITIZE_THREAD__
void
(g_mutex_lock) (GMutex *mutex)
{
  static LockFunc next;
  LockFunc func = g_atomic_pointer_get (&next);

  if (func == NULL)
    {
      func = (LockFunc) dlsym (RTLD_NEXT, "g_mutex_lock");
      g_atomic_pointer_set (&next, func);
    }

  n_locks++;
  func (mutex);
}
#endif

static void
run_at_wait (void)
{
  void (*func) (gpointer data) = at_wait;

  if (func == NULL || n_calls_before_wait-- > 0)
    return;

  at_wait = NULL;
  func (at_wait_data);
}

/* A blocking copy calls this function before it submits, and before it waits. */
gboolean
(g_cancellable_set_error_if_cancelled) (GCancellable *cancellable, GError **error)
{
  run_at_wait ();

  return ((CheckFunc) dlsym (RTLD_NEXT, "g_cancellable_set_error_if_cancelled")) (cancellable,
                                                                                  error);
}

/* An asynchronous copy calls this function before it waits. */
GSource *
(g_cancellable_source_new) (GCancellable *cancellable)
{
  run_at_wait ();

  return ((SourceFunc) dlsym (RTLD_NEXT, "g_cancellable_source_new")) (cancellable);
}

/* --- files ------------------------------------------------------------------------------------ */

static int
temporary (GBytes *content)
{
  g_autofree char *path = NULL;
  int fd = g_file_open_tmp ("gpumem-stream-XXXXXX", &path, NULL);

  g_assert_cmpint (fd, >=, 0);
  g_unlink (path);
  if (content != NULL)
    g_assert_cmpint (write (fd, g_bytes_get_data (content, NULL), g_bytes_get_size (content)), ==,
                     g_bytes_get_size (content));

  return fd;
}

static GpuFile *
file_for (int fd)
{
  g_autoptr (GError) error = NULL;
  GpuFile *file = gpu_file_new_for_fd (fd, GPU_FILE_FLAGS_NONE, &error);

  g_assert_no_error (error);

  return file;
}

static void
check_file (int     fd,
            GBytes *expected)
{
  gsize size = g_bytes_get_size (expected);
  g_autofree guint8 *data = g_malloc (size);

  g_assert_cmpint (pread (fd, data, size, 0), ==, size);
  test_assert_mem (data, g_bytes_get_data (expected, NULL), size);
}

static goffset
get_size (int fd)
{
  struct stat status;

  g_assert_cmpint (fstat (fd, &status), ==, 0);

  return status.st_size;
}

/* Fills the memory, so that the copy must wait for the fill. */
static void
fill (GpuStream *stream,
      GpuBuffer *buffer,
      guint8     value)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, SIZE, &value, 1, &error), error);
}

/* --- order ------------------------------------------------------------------------------------ */

/* Writes and reads of the same file follow each other in the order of the stream. */
static void
order (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  int fd = temporary (NULL);
  g_autoptr (GpuFile) file = file_for (fd);

  for (guint i = 0; i < 10; i++)
    {
      GpuMemory *memory = GPU_MEMORY (buffer);
      g_autoptr (GBytes) expected = test_value_bytes (SIZE, (guint8) (2 * i));

      fill (fixture->stream, buffer, (guint8) (2 * i));
      test_assert_ok (gpu_stream_write_file (fixture->stream, memory, 0, file, 0, SIZE, NULL,
                                             &error), error);
      fill (fixture->stream, buffer, (guint8) (2 * i + 1));
      test_assert_ok (gpu_stream_read_file (fixture->stream, memory, 0, file, 0, SIZE, NULL,
                                            &error), error);
      test_assert_content (buffer, expected);
    }

  close (fd);
}

/* CUDA's driver blocks the caller while about 50 events are pending. */
static guint
get_most (TestFixture *fixture)
{
  return strcmp (gpu_device_get_backend (fixture->device), "cuda") == 0 ? 8 : N_MANY;
}

/* Submits copies behind work that this thread completes afterwards. */
static void
submit_many (TestFixture *fixture, GpuStream *stream, GpuBuffer *buffer, GpuFile *file)
{
  for (guint i = 0; i < get_most (fixture); i++)
    {
      g_autoptr (GError) error = NULL;
      guint8 value = (guint8) i;

      test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, 100, &value, 1, &error),
                      error);
      test_assert_ok (gpu_stream_write_file (stream, GPU_MEMORY (buffer), 0, file, i * 100, 100,
                                             NULL, &error), error);
    }
}

static void
check_many (TestFixture *fixture, int fd)
{
  for (guint i = 0; i < get_most (fixture); i++)
    {
      guint8 data[100];

      g_assert_cmpint (pread (fd, data, 100, i * 100), ==, 100);
      test_assert_value (data, (guint8) i, 100);
    }
}

/* No call waits for work that this thread completes later, and calls take no longer if more copies
 * are pending. */
static void
many_pending (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (TestHold) hold = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, 100);
  int fd = temporary (NULL);
  g_autoptr (GpuFile) file = file_for (fd);

  if (!test_can_hold (fixture))
    {
      close (fd);
      return;
    }

  hold = test_hold (stream);
  submit_many (fixture, stream, buffer, file);
  g_assert_cmpint (get_size (fd), ==, 0);
  test_hold_release (hold);
  test_synchronize (stream);
  check_many (fixture, fd);
  close (fd);
}

static void
many_behind_gate (TestFixture *fixture)
{
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuEvent) gate = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, 100);
  int fd = temporary (NULL);
  g_autoptr (GpuFile) file = file_for (fd);

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    {
      close (fd);
      return;
    }

  gate = test_gate (fixture, stream);
  submit_many (fixture, stream, buffer, file);
  g_usleep (10 * 1000);
  g_assert_cmpint (get_size (fd), ==, 0);
  test_open (gate);
  test_synchronize (stream);
  check_many (fixture, fd);
  close (fd);
}

/* Returns the number of locks that the calls take which submit @n copies behind a user event. */
static gsize
count_locks (TestFixture *fixture, guint n)
{
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, 1, 7);
  g_autoptr (GpuEvent) gate = test_gate (fixture, stream);
  g_autofree guint8 *data = g_malloc0 (n);
  int fd = temporary (NULL);
  g_autoptr (GpuFile) file = file_for (fd);
  gsize before = n_locks;
  gsize n_taken;

  for (guint i = 0; i < n; i++)
    {
      g_autoptr (GError) error = NULL;

      test_assert_ok (gpu_stream_write_file (stream, GPU_MEMORY (buffer), 0, file, i, 1, NULL,
                                             &error), error);
    }

  n_taken = n_locks - before;
  test_open (gate);
  test_synchronize (stream);
  g_assert_cmpint (pread (fd, data, n, 0), ==, n);
  test_assert_value (data, 7, n);
  close (fd);

  return n_taken;
}

/* A copy does not examine all copies that are pending. */
static void
linear (TestFixture *fixture)
{
  gsize few;
  gsize many;

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;

  few = count_locks (fixture, 1000);
  many = count_locks (fixture, 4000);
#ifdef __SANITIZE_THREAD__
  g_test_skip ("locks are not counted under ThreadSanitizer");
  return;
#endif
  g_test_message ("%.1f locks per copy with 1000 copies pending, %.1f with 4000", few / 1000.0,
                  many / 4000.0);
  g_assert_cmpuint (many, <, 5 * few);
}

/* A copy that depends on a failed one fails, however many copies are between them. After a chain of
 * copies, the last reference is dropped without recursion. */
static void
chain_fails (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuEvent) gate = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, 1, 7);
  int in = temporary (NULL);
  int out = temporary (NULL);
  g_autoptr (GpuFile) from = file_for (in);
  g_autoptr (GpuFile) to = file_for (out);

  if (test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    {
      stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      gate = test_gate (fixture, stream);
      test_assert_ok (gpu_stream_read_file (stream, GPU_MEMORY (buffer), 0, from, 0, 1, NULL,
                                            &error), error);
      for (guint i = 0; i < 2000; i++)
        test_assert_ok (gpu_stream_write_file (stream, GPU_MEMORY (buffer), 0, to, i, 1, NULL,
                                               &error), error);
      test_open (gate);
      g_assert_false (gpu_stream_synchronize (stream, NULL, &error));
      test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_PARTIAL_INPUT, "ends at byte 0");
      g_assert_cmpint (get_size (out), ==, 0);
    }

  close (in);
  close (out);
}

/* A read of an empty file into host memory fails. That is an error if the host reads the memory,
 * but not if it only writes the memory. */
static void
host_after_failure (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuHostMemory) memory = NULL;
  g_autoptr (GAsyncResult) result = NULL;
  int in = temporary (NULL);
  g_autoptr (GpuFile) from = file_for (in);
  const GpuMapFlags flags = GPU_MAP_FLAGS_WRITE;

  memory = gpu_host_memory_new_aligned (fixture->context, 64, SIZE, &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_stream_read_file (stream, GPU_MEMORY (memory), 0, from, 0, SIZE, NULL,
                                        &error), error);
  g_assert_false (gpu_host_memory_synchronize (memory, GPU_MAP_FLAGS_READ, NULL, &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_PARTIAL_INPUT, "ends at byte 0");
  g_clear_error (&error);
  gpu_host_memory_synchronize_async (memory, GPU_MAP_FLAGS_READ, NULL, test_take_result, &result);
  g_assert_false (gpu_host_memory_synchronize_finish (memory, test_await (&result), &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_PARTIAL_INPUT, "ends at byte 0");
  g_clear_error (&error);
  g_clear_object (&result);

  test_assert_ok (gpu_host_memory_synchronize (memory, flags, NULL, &error), error);
  gpu_host_memory_synchronize_async (memory, flags, NULL, test_take_result, &result);
  test_assert_ok (gpu_host_memory_synchronize_finish (memory, test_await (&result), &error),
                  error);
  close (in);
}

/* Copies of more streams than the staging limit has blocks may be pending. */
static void
many_streams (TestFixture *fixture)
{
  g_autoptr (GBytes) expected = test_value_bytes (SIZE, 7);
  GpuStream *streams[20];
  GpuEvent *gates[20];
  GpuBuffer *buffers[20];
  int fds[20];

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;

  for (guint i = 0; i < G_N_ELEMENTS (streams); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuFile) file = file_for (fds[i] = temporary (NULL));

      streams[i] = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      gates[i] = test_gate (fixture, streams[i]);
      buffers[i] = test_buffer (fixture, SIZE);
      fill (streams[i], buffers[i], 7);
      test_assert_ok (gpu_stream_write_file (streams[i], GPU_MEMORY (buffers[i]), 0, file, 0, SIZE,
                                             NULL, &error), error);
    }

  for (guint i = G_N_ELEMENTS (streams); i-- > 0;)
    {
      test_open (gates[i]);
      test_synchronize (streams[i]);
      check_file (fds[i], expected);
      close (fds[i]);
      g_object_unref (buffers[i]);
      g_object_unref (gates[i]);
      g_object_unref (streams[i]);
    }

  g_assert_cmpuint (gpu_context_get_staging_size (fixture->context), <=, 21 * 4 * 1024 * 1024);
}

/* The program may drop all references while the copy is pending. */
static void
unref_pending (TestFixture *fixture)
{
  g_autoptr (GBytes) expected = test_value_bytes (SIZE, 8);
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuEvent) end = NULL;
  g_autoptr (TestHold) hold = NULL;
  GpuStream *stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  GpuBuffer *buffer = test_buffer (fixture, SIZE);
  int fd = temporary (NULL);
  GpuFile *file = file_for (fd);

  if (test_can_hold (fixture))
    {
      hold = test_hold (stream);
      fill (stream, buffer, 8);
      test_assert_ok (gpu_stream_write_file (stream, GPU_MEMORY (buffer), 0, file, 0, SIZE, NULL,
                                             &error), error);
      end = gpu_stream_record (stream, GPU_EVENT_FLAGS_NONE, &error);
      g_assert_no_error (error);
    }

  g_object_unref (buffer);
  g_object_unref (file);

  if (hold != NULL)
    {
      test_hold_release (hold);
      g_object_unref (stream);
      test_assert_ok (gpu_event_wait (end, NULL, &error), error);
      check_file (fd, expected);
      g_assert_cmpuint (test_count_descriptors ("gpumem-stream-"), ==, 1);
    }
  else
    g_object_unref (stream);

  close (fd);
}

/* --- failures --------------------------------------------------------------------------------- */

static void
copy_file (GpuStream *stream, GpuBuffer *buffer, GpuFile *from, GpuFile *to)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_stream_read_file (stream, GPU_MEMORY (buffer), 0, from, 0, SIZE, NULL,
                                        &error), error);
  test_assert_ok (gpu_stream_write_file (stream, GPU_MEMORY (buffer), 0, to, 0, SIZE, NULL, &error),
                  error);
  test_synchronize (stream);
}

/* Every kind of wait for the copy and for later work gets the error, and a file that would get
 * undefined bytes gets none. After the failure has been reported, it does not affect later work. */
static void
waiters (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuBuffer) copy = test_buffer (fixture, SIZE);
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) other = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (TestHold) hold = NULL;
  GpuEvent *events[4];
  int in = temporary (bytes);
  int out = temporary (NULL);
  g_autoptr (GpuFile) from = file_for (in);
  g_autoptr (GpuFile) to = file_for (out);
  guint8 byte;

  if (!test_can_hold (fixture))
    {
      close (in);
      close (out);
      return;
    }

  break_at (100000, EIO);
  hold = test_hold (stream);
  test_assert_ok (gpu_stream_read_file (stream, GPU_MEMORY (buffer), 0, from, 0, SIZE, NULL,
                                        &error), error);
  events[0] = gpu_stream_record (stream, GPU_EVENT_FLAGS_NONE, &error);
  test_assert_ok (gpu_stream_write_file (stream, GPU_MEMORY (buffer), 0, to, 0, SIZE, NULL, &error),
                  error);
  events[1] = gpu_stream_record (stream, GPU_EVENT_FLAGS_NONE, &error);
  test_assert_ok (gpu_stream_copy (other, GPU_MEMORY (copy), 0, GPU_MEMORY (buffer), 0, SIZE,
                                   &error), error);
  events[2] = gpu_stream_record (other, GPU_EVENT_FLAGS_NONE, &error);
  test_assert_ok (gpu_stream_write_file (other, GPU_MEMORY (copy), 0, to, 0, SIZE, NULL, &error),
                  error);
  events[3] = gpu_stream_record (other, GPU_EVENT_FLAGS_NONE, &error);
  test_hold_release (hold);

  for (guint i = 0; i < G_N_ELEMENTS (events); i++)
    {
      g_assert_false (gpu_event_wait (events[i], NULL, &error));
      test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_FAILED, "gpu_stream_read_file",
                             "at byte 100000:");
      g_object_unref (events[i]);
    }

  g_assert_false (gpu_buffer_read (buffer, NULL, 0, &byte, 1, NULL, &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_FAILED, "at byte 100000:");
  break_at (-1, 0);
  g_assert_cmpint (get_size (out), ==, 0);
  gpu_stream_synchronize (other, NULL, NULL);
  gpu_stream_synchronize (stream, NULL, NULL);
  copy_file (stream, buffer, from, to);
  check_file (out, bytes);
  close (in);
  close (out);
}

/* A blocking read that is submitted behind the failing copy gets the error of the file. */
static void
blocking_read (TestFixture *fixture)
{
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  int fd = temporary (bytes);
  g_autoptr (GpuFile) file = file_for (fd);
  g_autofree guint8 *data = g_malloc (SIZE);

  for (guint i = 0; i < 20; i++)
    {
      g_autoptr (GError) error = NULL;

      test_assert_ok (gpu_stream_read_file (fixture->stream, GPU_MEMORY (buffer), 0, file, 10, SIZE,
                                            NULL, &error), error);
      g_assert_false (gpu_buffer_read (buffer, fixture->stream, 0, data, SIZE, NULL, &error));
      test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_PARTIAL_INPUT, "ends at byte");
      gpu_stream_synchronize (fixture->stream, NULL, NULL);
    }

  close (fd);
}

/* A copy behind a user event that fails does not use the file. */
static void
gate_fails (TestFixture *fixture)
{
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  int in = temporary (bytes);
  int out = temporary (NULL);
  g_autoptr (GpuFile) from = file_for (in);
  g_autoptr (GpuFile) to = file_for (out);

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    {
      close (in);
      close (out);
      return;
    }

  for (guint i = 0; i < 10; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      g_autoptr (GpuEvent) gate = test_gate (fixture, stream);

      if (i % 2 == 0)
        test_assert_ok (gpu_stream_read_file (stream, GPU_MEMORY (buffer), 0, from, 0, SIZE, NULL,
                                              &error), error);
      fill (stream, buffer, 5);
      test_assert_ok (gpu_stream_write_file (stream, GPU_MEMORY (buffer), 0, to, 0, SIZE, NULL,
                                             &error), error);
      test_assert_ok (gpu_event_fail (gate, "broken on purpose", &error), error);
      g_assert_false (gpu_stream_synchronize (stream, NULL, &error));
      g_assert_nonnull (strstr (error->message, "broken on purpose"));
      g_assert_cmpint (get_size (out), ==, 0);
    }

  close (in);
  close (out);
}

/* --- cancellation ----------------------------------------------------------------------------- */

static void
cancelled_before (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (TestHold) hold = NULL;
  int fd = temporary (NULL);
  g_autoptr (GpuFile) file = file_for (fd);

  if (!test_can_hold (fixture))
    {
      close (fd);
      return;
    }

  hold = test_hold (stream);
  fill (stream, buffer, 5);
  test_assert_ok (gpu_stream_write_file (stream, GPU_MEMORY (buffer), 0, file, 3, SIZE, cancellable,
                                         &error), error);
  g_cancellable_cancel (cancellable);
  test_hold_release (hold);
  g_assert_false (gpu_stream_synchronize (stream, NULL, &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED, "at byte 3");
  g_assert_cmpint (get_size (fd), ==, 0);
  g_assert_false (gpu_stream_write_file (stream, GPU_MEMORY (buffer), 0, file, 3, SIZE, cancellable,
                                         &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  close (fd);
}

typedef struct
{
  GCancellable *cancellable;
  GpuEvent     *gate;
  gint          is_done;            /* atomic */
  gint          opened;             /* atomic */
} Opener;

static gpointer
cancel_and_open (gpointer data)
{
  Opener *opener = data;

  g_usleep (20 * 1000);
  g_cancellable_cancel (opener->cancellable);
  for (guint i = 0; i < TEST_DEADLINE * 100 && !g_atomic_int_get (&opener->is_done); i++)
    g_usleep (10 * 1000);
  g_atomic_int_set (&opener->opened, TRUE);
  test_open (opener->gate);

  return NULL;
}

/* A cancelled call does not wait for the earlier work of the stream, and later work succeeds. */
static void
cancelled_blocking (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuEvent) gate = NULL;
  Opener opener = { cancellable, NULL, FALSE, FALSE };
  GThread *thread;
  int fd = temporary (NULL);
  g_autoptr (GpuFile) file = file_for (fd);

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    {
      close (fd);
      return;
    }

  opener.gate = gate = test_gate (fixture, stream);
  fill (stream, buffer, 5);
  thread = g_thread_new ("opener", cancel_and_open, &opener);
  g_assert_false (gpu_memory_write_file (GPU_MEMORY (buffer), stream, 0, file, 0, SIZE, cancellable,
                                         &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED, "gpu_memory_write_file");
  g_assert_false (g_atomic_int_get (&opener.opened));
  g_assert_cmpuint (test_count_descriptors ("gpumem-stream-"), ==, 2);
  g_atomic_int_set (&opener.is_done, TRUE);
  g_thread_join (thread);
  test_synchronize (stream);
  g_assert_cmpint (get_size (fd), ==, 0);
  close (fd);
}

typedef struct
{
  GCancellable *cancellable;
  gint          calls;              /* the number of calls after which to cancel */
} Canceller;

static gpointer
cancel_later (gpointer data)
{
  Canceller *canceller = data;

  while (g_atomic_int_get (&n_calls) < canceller->calls)
    g_usleep (100);
  g_cancellable_cancel (canceller->cancellable);
  g_atomic_int_set (&max_calls, G_MAXINT);

  return NULL;
}

/* Cancels copies, each at a later part than the one before. All bytes before the position in the
 * error are in the file, and the library writes none after the call has returned. */
static void
cancelled_within (TestFixture *fixture)
{
  gsize size = 4 * 1024 * 1024;
  g_autoptr (GBytes) bytes = test_random_bytes (size);
  g_autoptr (GpuBuffer) buffer = test_buffer_from (fixture, bytes);

  for (guint i = 0; i < 12; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GCancellable) cancellable = g_cancellable_new ();
      int fd = temporary (NULL);
      g_autoptr (GpuFile) file = file_for (fd);
      Canceller canceller = { cancellable, (gint) i };
      g_autoptr (GBytes) before = NULL;
      GThread *thread;
      gint n;

      g_atomic_int_set (&n_calls, 0);
      g_atomic_int_set (&max_calls, (gint) i + 1);
      g_atomic_int_set (&call_time, 2000);
      thread = g_thread_new ("canceller", cancel_later, &canceller);

      if (gpu_memory_write_file (GPU_MEMORY (buffer), fixture->stream, 0, file, 0, size,
                                 cancellable, &error))
        g_error ("the copy was not cancelled");
      n = g_atomic_int_get (&n_calls);
      g_assert_cmpint (g_atomic_int_get (&n_running), ==, 0);
      g_assert_cmpuint (test_count_descriptors ("gpumem-stream-"), ==, 2);
      g_atomic_int_set (&call_time, 0);
      g_thread_join (thread);
      g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
      if (strstr (error->message, "at byte ") != NULL)
        before = g_bytes_new_from_bytes (bytes, 0, strtoul (strstr (error->message, "at byte ") + 8,
                                                            NULL, 10));
      g_clear_error (&error);
      test_synchronize (fixture->stream);
      g_assert_cmpint (g_atomic_int_get (&n_calls), ==, n);
      if (before != NULL && g_bytes_get_size (before) > 0)
        check_file (fd, before);
      close (fd);
    }
}

typedef struct
{
  GpuStream *stream;
  GpuBuffer *buffer;
  GpuFile   *file;
  gint       is_ready;              /* atomic */
} Writer;

static gpointer
write_pieces (gpointer data)
{
  Writer *writer = data;

  while (!g_atomic_int_get (&writer->is_ready))
    g_thread_yield ();

  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (GError) error = NULL;

      test_assert_ok (gpu_stream_write_file (writer->stream, GPU_MEMORY (writer->buffer), 0,
                                             writer->file, 0, 100, NULL, &error), error);
    }

  return NULL;
}

/* Threads that copy on one stream at the same time share the block beyond the staging limit. */
static void
one_block (TestFixture *fixture)
{
  const gsize block = 4 * 1024 * 1024;
  gsize limit = gpu_context_get_staging_limit (fixture->context);
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, 100, 7);
  int fd = temporary (NULL);
  g_autoptr (GpuFile) file = file_for (fd);

  for (guint i = 0; i < 10 && test_has (fixture, GPU_CAPABILITIES_USER_EVENTS); i++)
    {
      g_autoptr (GpuStream) first = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      g_autoptr (GpuStream) second = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      g_autoptr (GpuEvent) first_gate = test_gate (fixture, first);
      g_autoptr (GpuEvent) second_gate = test_gate (fixture, second);
      Writer owner = { first, buffer, file, TRUE };
      Writer writer = { second, buffer, file, FALSE };
      GThread *threads[4];

      gpu_context_trim_staging (fixture->context);
      gpu_context_set_staging_limit (fixture->context, block);
      write_pieces (&owner);
      for (guint j = 0; j < G_N_ELEMENTS (threads); j++)
        threads[j] = g_thread_new ("writer", write_pieces, &writer);
      g_atomic_int_set (&writer.is_ready, TRUE);
      for (guint j = 0; j < G_N_ELEMENTS (threads); j++)
        g_thread_join (threads[j]);
      g_assert_cmpuint (gpu_context_get_staging_size (fixture->context), <=, 2 * block);
      test_open (first_gate);
      test_open (second_gate);
      test_synchronize (first);
      test_synchronize (second);
    }

  gpu_context_set_staging_limit (fixture->context, limit);
  close (fd);
}

/* The system locks a file for each write into the page cache, so one thread writes at a time. Reads
 * need no lock. */
static void
one_writer (TestFixture *fixture)
{
  const gsize size = 4 * 1024 * 1024;
  g_autoptr (GBytes) bytes = test_random_bytes (size);
  g_autoptr (GpuBuffer) buffer = test_buffer_from (fixture, bytes);
  int fd = temporary (NULL);
  g_autoptr (GpuFile) file = file_for (fd);
  g_autoptr (GError) error = NULL;

  gpu_staging_set_n_threads (4);
  g_atomic_int_set (&call_time, 5000);
  g_atomic_int_set (&n_running_max, 0);
  test_assert_ok (gpu_memory_write_file (GPU_MEMORY (buffer), fixture->stream, 0, file, 0, size,
                                         NULL, &error), error);
  g_assert_cmpint (g_atomic_int_get (&n_running_max), ==, 1);
  g_atomic_int_set (&n_running_wanted, 2);
  test_assert_ok (gpu_memory_read_file (GPU_MEMORY (buffer), fixture->stream, 0, file, 0, size,
                                        NULL, &error), error);
  g_assert_cmpint (g_atomic_int_get (&n_running_max), >, 1);
  g_atomic_int_set (&n_running_wanted, 0);
  g_atomic_int_set (&call_time, 0);
  gpu_staging_set_n_threads (0);
  test_assert_content (buffer, bytes);
  check_file (fd, bytes);
  close (fd);
}

typedef struct
{
  GpuStream   *stream;
  GpuBuffer   *buffer;
  TestHold    *hold;
  GThread     *thread;
  gint         is_done;             /* atomic */
  gint         is_late;             /* atomic */
} Other;

static gpointer
hold_stream (gpointer data)
{
  Other *other = data;

  other->hold = test_hold (other->stream);
  fill (other->stream, other->buffer, 1);

  return NULL;
}

/* Lets the test fail instead of hanging. */
static gpointer
release_late (gpointer data)
{
  Other *other = data;

  for (guint i = 0; i < TEST_DEADLINE * 100 && !g_atomic_int_get (&other->is_done); i++)
    g_usleep (10 * 1000);

  g_atomic_int_set (&other->is_late, !g_atomic_int_get (&other->is_done));
  test_hold_release (other->hold);

  return NULL;
}

/* Another thread submits work that does not complete before this thread waits. */
static void
hold_in_thread (gpointer data)
{
  Other *other = data;

  g_thread_join (g_thread_new ("other", hold_stream, other));
  other->thread = g_thread_new ("releaser", release_late, other);
}

/* A copy does not wait for work that another thread submits after the copy. */
static void
own_point (TestFixture *fixture)
{
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuBuffer) rest = test_buffer (fixture, SIZE);
  int fd = temporary (bytes);
  g_autoptr (GpuFile) file = file_for (fd);

  for (guint i = 0; i < 2 && test_can_hold (fixture); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      g_autoptr (GCancellable) cancellable = g_cancellable_new ();
      g_autoptr (GAsyncResult) result = NULL;
      GpuMemory *memory = GPU_MEMORY (buffer);
      Other other = { stream, rest, NULL, NULL, FALSE, FALSE };

      at_wait = hold_in_thread;
      at_wait_data = &other;
      n_calls_before_wait = 1;

      if (i == 0)
        test_assert_ok (gpu_memory_read_file (memory, stream, 0, file, 0, SIZE, cancellable,
                                              &error), error);
      else
        {
          gpu_memory_read_file_async (memory, stream, 0, file, 0, SIZE, cancellable, NULL, NULL,
                                      NULL, test_take_result, &result);
          test_assert_ok (gpu_memory_read_file_finish (memory, test_await (&result), &error),
                          error);
        }

      g_atomic_int_set (&other.is_done, TRUE);
      g_thread_join (other.thread);
      g_assert_false (g_atomic_int_get (&other.is_late));
      test_synchronize (stream);
      test_hold_free (other.hold);
      test_assert_content (buffer, bytes);
    }

  close (fd);
}

/* A file that fails before the copy is cancelled: the caller, and the work behind the copy, get the
 * error of the file. */
static void
failed_before_cancelled (TestFixture *fixture)
{
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_autoptr (GAsyncResult) result = NULL;
  g_autoptr (GpuEvent) event = NULL;
  g_autoptr (GError) error = NULL;
  int fd = temporary (bytes);
  g_autoptr (GpuFile) file = file_for (fd);

  /* Two threads read the pieces before the failure for a long time. */
  gpu_staging_set_n_threads (4);
  g_atomic_int_set (&call_time, 300 * 1000);
  g_atomic_int_set (&n_broken, 0);
  break_at (2 * 64 * 1024, EIO);
  gpu_memory_read_file_async (GPU_MEMORY (buffer), stream, 0, file, 0, SIZE, cancellable, NULL,
                              NULL, NULL, test_take_result, &result);
  fill (stream, buffer, 1);
  event = gpu_stream_record (stream, GPU_EVENT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  while (g_atomic_int_get (&n_broken) == 0)
    g_usleep (100);
  g_cancellable_cancel (cancellable);
  g_assert_false (gpu_memory_read_file_finish (GPU_MEMORY (buffer), test_await (&result), &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_FAILED, "gpu_memory_read_file_async",
                         "at byte 131072:");
  g_assert_false (gpu_event_wait (event, NULL, &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_FAILED, "at byte 131072:");
  break_at (-1, 0);
  g_atomic_int_set (&call_time, 0);
  gpu_staging_set_n_threads (0);
  close (fd);
}

/* --- threads ---------------------------------------------------------------------------------- */

static guint
count_threads (const char *name)
{
  g_autoptr (GDir) folder = g_dir_open ("/proc/self/task", 0, NULL);
  const char *task;
  guint n = 0;

  while ((task = g_dir_read_name (folder)) != NULL)
    {
      g_autofree char *path = g_build_filename ("/proc/self/task", task, "comm", NULL);
      g_autofree char *text = NULL;

      if (g_file_get_contents (path, &text, NULL, NULL) && g_str_has_prefix (text, name))
        n++;
    }

  return n;
}

static void
count_results (GObject *source G_GNUC_UNUSED, GAsyncResult *result, gpointer user_data)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_memory_write_file_finish (GPU_MEMORY (source), result, &error), error);
  (*(guint *) user_data)++;
}

/* All asynchronous copies together use at most twelve threads for files. One thread drives the
 * copies of a stream; if none was pending, the thread of earlier copies may be about to end. */
static void
few_threads (TestFixture *fixture)
{
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, 64 * 1024);
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  int fd = temporary (NULL);
  g_autoptr (GpuFile) file = file_for (fd);
  guint n_drivers = count_threads ("gpumem-drive");
  guint n_results = 0;

  g_atomic_int_set (&call_time, 1000);
  for (guint i = 0; i < N_MANY; i++)
    gpu_memory_write_file_async (GPU_MEMORY (buffer), stream, 0, file, i * 65536, 65536, NULL,
                                 NULL, NULL, NULL, count_results, &n_results);

  while (n_results < N_MANY)
    {
      g_assert_cmpuint (count_threads ("gpumem-copy-fil"), <=, 12);
      g_assert_cmpuint (count_threads ("gpumem-drive"), <=, n_drivers + 4);
      g_main_context_iteration (NULL, TRUE);
    }

  g_atomic_int_set (&call_time, 0);
  g_assert_cmpint (get_size (fd), ==, N_MANY * 65536);
  close (fd);
}

/* --- captures --------------------------------------------------------------------------------- */

#ifdef HAVE_CUDA
static void
captured (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuFile) file = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  CUstream handle;
  int fd;

  if (!test_can_capture (fixture))
    return;

  stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  buffer = test_buffer (fixture, SIZE);
  handle = test_get_cuda_stream (stream);
  fd = temporary (bytes);
  file = file_for (fd);
  test_capture_begin (handle, CU_STREAM_CAPTURE_MODE_RELAXED);
  g_assert_false (gpu_stream_read_file (stream, GPU_MEMORY (buffer), 0, file, 0, SIZE, NULL,
                                        &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_stream_read_file", "captured");
  g_assert_false (gpu_memory_write_file (GPU_MEMORY (buffer), stream, 0, file, 0, SIZE, NULL,
                                         &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_memory_write_file", "captured");
  test_graph_destroy (test_capture_end (handle));
  test_assert_ok (gpu_stream_read_file (stream, GPU_MEMORY (buffer), 0, file, 0, SIZE, NULL,
                                        &error), error);
  test_assert_content (buffer, bytes);
  close (fd);
}

/* A stream whose handle the program has never had joins the capture, because it waits for an event
 * of the capturing stream. */
static void
captured_by_event (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) first = NULL;
  g_autoptr (GpuStream) second = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuFile) file = NULL;
  g_autoptr (GpuEvent) fork = NULL;
  g_autoptr (GpuEvent) join = NULL;
  CUstream handle;
  int fd;

  if (!test_can_capture (fixture))
    return;

  first = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  second = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  buffer = test_buffer_filled (fixture, SIZE, 7);
  fd = temporary (NULL);
  file = file_for (fd);
  handle = test_get_cuda_stream (first);
  test_capture_begin (handle, CU_STREAM_CAPTURE_MODE_RELAXED);
  fork = test_record (first);
  test_assert_ok (gpu_stream_wait_event (second, fork, &error), error);
  g_assert_false (gpu_stream_write_file (second, GPU_MEMORY (buffer), 0, file, 0, SIZE, NULL,
                                         &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_stream_write_file", "captured");
  g_assert_false (gpu_memory_write_file (GPU_MEMORY (buffer), second, 0, file, 0, SIZE, NULL,
                                         &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_memory_write_file", "captured");
  join = test_record (second);
  test_assert_ok (gpu_stream_wait_event (first, join, &error), error);
  test_graph_destroy (test_capture_end (handle));
  test_assert_ok (gpu_stream_write_file (second, GPU_MEMORY (buffer), 0, file, 0, SIZE, NULL,
                                         &error), error);
  g_assert_cmpint (get_size (fd), <=, SIZE);
  close (fd);
}
#endif

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);

  test_add ("order", order);
  test_add ("many-pending", many_pending);
  test_add ("many-behind-gate", many_behind_gate);
  test_add ("linear", linear);
  test_add ("chain-fails", chain_fails);
  test_add ("host-after-failure", host_after_failure);
  test_add ("many-streams", many_streams);
  test_add ("unref-pending", unref_pending);
  test_add ("waiters", waiters);
  test_add ("blocking-read", blocking_read);
  test_add ("gate-fails", gate_fails);
  test_add ("cancelled-before", cancelled_before);
  test_add ("cancelled-blocking", cancelled_blocking);
  test_add ("cancelled-within", cancelled_within);
  test_add ("failed-before-cancelled", failed_before_cancelled);
  test_add ("one-block", one_block);
  test_add ("one-writer", one_writer);
  test_add ("own-point", own_point);
  test_add ("few-threads", few_threads);
#ifdef HAVE_CUDA
  test_add ("captured", captured);
  test_add ("captured-by-event", captured_by_event);
#endif

  return test_run ();
}
