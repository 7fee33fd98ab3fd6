/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copies between files and memory, for each kind of memory, stream and call. Every byte arrives,
 * and the file is accessed in the order of the stream. If the file fails, the error names the
 * position, all bytes before it are copied, and the next copy is correct. */
#include "config.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test-util.h"

#define MIB ((gsize) 1024 * 1024)
#define SIZE (5 * MIB + 7)
/* More than two operations of 64 MiB */
#define LONG_SIZE (130 * MIB + 5)
#define MARGIN 3

/* --- system calls that fail ------------------------------------------------------------------- */

/* Atomic. The byte at this position cannot be copied; -1 for none. */
static gssize broken_at = -1;
static gint broken_errno;
/* Atomic. Reads and writes copy at most this number of bytes, and every second call is
 * interrupted. */
static gsize most_bytes = G_MAXSIZE;
static gint n_interrupted;
/* Atomic; the number of bytes that bypass the page cache */
static gsize n_direct;

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

/* Returns -1, or the number of bytes to copy. */
static gssize
limit_call (int   fd,
            gsize size,
            off_t position)
{
  gssize bad = g_atomic_pointer_get (&broken_at);
  gsize most = g_atomic_pointer_get (&most_bytes);

  if ((bad < 0 && most == G_MAXSIZE) || !is_temporary (fd))
    return (gssize) size;

  if (most != G_MAXSIZE && g_atomic_int_add (&n_interrupted, 1) % 2 == 0)
    {
      errno = EINTR;
      return -1;
    }

  size = MIN (size, most);
  if (bad < 0 || position + (gssize) size <= bad)
    return (gssize) size;
  if (position < bad)
    return bad - position;

  /* The later parts fail first. */
  if (position == bad)
    g_usleep (10 * 1000);

  errno = g_atomic_int_get (&broken_errno);

  return -1;
}

ssize_t
pread (int     fd,
       void   *data,
       size_t  size,
       off_t   position)
{
  gssize n = limit_call (fd, size, position);

  if (n > 0 && (fcntl (fd, F_GETFL) & O_DIRECT) != 0)
    g_atomic_pointer_add (&n_direct, n);

  return n < 0 ? n : ((ReadFunc) dlsym (RTLD_NEXT, "pread")) (fd, data, (gsize) n, position);
}

ssize_t
pwrite (int         fd,
        const void *data,
        size_t      size,
        off_t       position)
{
  gssize n = limit_call (fd, size, position);

  return n < 0 ? n : ((WriteFunc) dlsym (RTLD_NEXT, "pwrite")) (fd, data, (gsize) n, position);
}

static void
break_at (gssize position,
          int    code)
{
  g_atomic_int_set (&broken_errno, code);
  g_atomic_pointer_set (&broken_at, position);
}

/* --- files ------------------------------------------------------------------------------------ */

static int
temporary (GBytes *content)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *path = NULL;
  gsize done = 0;
  int fd = g_file_open_tmp ("gpumem-file-XXXXXX", &path, &error);

  g_assert_no_error (error);
  g_unlink (path);
  while (content != NULL && done < g_bytes_get_size (content))
    {
      gssize n = write (fd, (const guint8 *) g_bytes_get_data (content, NULL) + done,
                        g_bytes_get_size (content) - done);

      g_assert_cmpint (n, >, 0);
      done += (gsize) n;
    }

  return fd;
}

static GpuFile *
file_for (int          fd,
          GpuFileFlags flags)
{
  g_autoptr (GError) error = NULL;
  GpuFile *file = gpu_file_new_for_fd (fd, flags, &error);

  g_assert_no_error (error);

  return file;
}

/* Closes @fd. */
static GpuFile *
file_take (int fd)
{
  GpuFile *file = file_for (fd, GPU_FILE_FLAGS_NONE);

  close (fd);

  return file;
}

static void
check_file (int    fd,
            GBytes *expected,
            gsize   position)
{
  gsize size = g_bytes_get_size (expected);
  g_autofree guint8 *data = g_malloc (size);
  gsize done = 0;

  while (done < size)
    {
      gssize n = pread (fd, data + done, size - done, (off_t) (position + done));

      if (n < 0 && errno == EINTR)
        continue;
      g_assert_cmpint (n, >, 0);
      done += (gsize) n;
    }

  test_assert_mem (data, g_bytes_get_data (expected, NULL), size);
}

/* Fails unless @memory has @expected at MARGIN, and the value 9 around it. */
static void
check_memory (GpuBuffer *buffer,
              GBytes    *expected)
{
  g_autoptr (GBytes) whole = test_content (buffer);
  const guint8 *data = g_bytes_get_data (whole, NULL);
  gsize size = g_bytes_get_size (expected);

  test_assert_value (data, 9, MARGIN);
  test_assert_mem (data + MARGIN, g_bytes_get_data (expected, NULL), size);
  test_assert_value (data + MARGIN + size, 9, g_bytes_get_size (whole) - MARGIN - size);
}

/* --- kinds of calls --------------------------------------------------------------------------- */

typedef gboolean (*CopyFunc) (gpointer memory, GpuStream *stream, gsize offset, GpuFile *file,
                              guint64 position, gsize size, GError **error);

static gboolean
read_blocking (gpointer memory, GpuStream *stream, gsize offset, GpuFile *file, guint64 position,
               gsize size, GError **error)
{
  return gpu_memory_read_file (memory, stream, offset, file, position, size, NULL, error);
}

static gboolean
write_blocking (gpointer memory, GpuStream *stream, gsize offset, GpuFile *file, guint64 position,
                gsize size, GError **error)
{
  return gpu_memory_write_file (memory, stream, offset, file, position, size, NULL, error);
}

static gboolean
read_async (gpointer memory, GpuStream *stream, gsize offset, GpuFile *file, guint64 position,
            gsize size, GError **error)
{
  g_autoptr (GAsyncResult) result = NULL;

  gpu_memory_read_file_async (memory, stream, offset, file, position, size, NULL, NULL, NULL, NULL,
                              test_take_result, &result);

  return gpu_memory_read_file_finish (memory, test_await (&result), error);
}

static gboolean
write_async (gpointer memory, GpuStream *stream, gsize offset, GpuFile *file, guint64 position,
             gsize size, GError **error)
{
  g_autoptr (GAsyncResult) result = NULL;

  gpu_memory_write_file_async (memory, stream, offset, file, position, size, NULL, NULL, NULL, NULL,
                               test_take_result, &result);

  return gpu_memory_write_file_finish (memory, test_await (&result), error);
}

/* Gets the error from the stream. */
static gboolean
wait_for (GpuStream *stream, gboolean submitted, GError **error)
{
  return submitted && gpu_stream_synchronize (stream, NULL, error);
}

static GpuStream *
get_stream (gpointer memory, GpuStream *stream)
{
  return stream != NULL ? stream
                        : gpu_context_get_default_stream (gpu_memory_get_context (memory));
}

static gboolean
read_in_order (gpointer memory, GpuStream *stream, gsize offset, GpuFile *file, guint64 position,
               gsize size, GError **error)
{
  stream = get_stream (memory, stream);

  return wait_for (stream, gpu_stream_read_file (stream, memory, offset, file, position, size,
                                                 NULL, error), error);
}

static gboolean
write_in_order (gpointer memory, GpuStream *stream, gsize offset, GpuFile *file, guint64 position,
                gsize size, GError **error)
{
  stream = get_stream (memory, stream);

  return wait_for (stream, gpu_stream_write_file (stream, memory, offset, file, position, size,
                                                  NULL, error), error);
}

#define N_KINDS 3

static const CopyFunc reads[N_KINDS] = { read_blocking, read_async, read_in_order };
static const CopyFunc writes[N_KINDS] = { write_blocking, write_async, write_in_order };

/* --- data ------------------------------------------------------------------------------------- */

static void
check_data (TestFixture *fixture, GpuStream *stream, gsize size, gsize position, guint kind)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) content = test_random_bytes (position + size);
  g_autoptr (GBytes) bytes = g_bytes_new_from_bytes (content, position, size);
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, size + 2 * MARGIN, 9);
  g_autoptr (GpuFile) from = file_take (temporary (content));
  int fd = temporary (NULL);
  g_autoptr (GpuFile) to = file_for (fd, GPU_FILE_FLAGS_NONE);

  test_assert_ok (reads[kind] (buffer, stream, MARGIN, from, position, size, &error), error);
  check_memory (buffer, bytes);
  test_assert_ok (writes[kind] (buffer, stream, MARGIN, to, position + 5, size, &error), error);
  check_file (fd, bytes, position + 5);
  close (fd);
}

static void
file_data (TestFixture *fixture)
{
  const gsize sizes[] = { 1, 4096, 64 * 1024 + 3, SIZE };

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    for (guint kind = 0; kind < N_KINDS; kind++)
      {
        check_data (fixture, fixture->stream, sizes[i], 0, kind);
        check_data (fixture, fixture->stream, sizes[i], 4097, kind);
      }
}

static void
file_long (TestFixture *fixture)
{
  for (guint kind = 0; kind < N_KINDS; kind++)
    check_data (fixture, fixture->stream, LONG_SIZE, 11, kind);
}

static void
check_stream_kind (TestFixture *fixture, GpuStreamFlags flags)
{
  g_autoptr (GpuStream) stream = test_stream (fixture, flags);

  for (guint kind = 0; kind < N_KINDS; kind++)
    check_data (fixture, stream, SIZE, 1, kind);
}

static void
file_out_of_order (TestFixture *fixture)
{
  if (test_has (fixture, GPU_CAPABILITIES_OUT_OF_ORDER))
    check_stream_kind (fixture, GPU_STREAM_FLAGS_OUT_OF_ORDER);
}

static void
file_profiling (TestFixture *fixture)
{
  check_stream_kind (fixture, GPU_STREAM_FLAGS_PROFILING);
}

/* Without page-locked memory, the calling thread copies. */
static void
file_without_staging (TestFixture *fixture)
{
  gpu_context_set_staging_limit (fixture->context, 0);
  for (guint kind = 0; kind < N_KINDS; kind++)
    check_data (fixture, fixture->stream, SIZE, 1, kind);
}

static void
check_memory_kind (TestFixture *fixture, GpuMemory *memory)
{
  gsize size = gpu_memory_get_size (memory);
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (size);
  g_autoptr (GpuFile) from = file_take (temporary (bytes));

  for (guint kind = 0; kind < N_KINDS; kind++)
    {
      int fd = temporary (NULL);
      g_autoptr (GpuFile) to = file_for (fd, GPU_FILE_FLAGS_NONE);
      guint8 zero = 0;

      test_assert_ok (gpu_stream_fill (fixture->stream, memory, 0, size, &zero, 1, &error), error);
      test_assert_ok (reads[kind] (memory, fixture->stream, 0, from, 0, size, &error), error);
      test_assert_ok (writes[kind] (memory, fixture->stream, 0, to, 0, size, &error), error);
      check_file (fd, bytes, 0);
      close (fd);
    }
}

static void
file_memory (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuHostMemory) locked = gpu_host_memory_new (fixture->context,
                                                          GPU_HOST_MEMORY_FLAGS_NONE, SIZE, &error);
  g_autoptr (GpuHostMemory) pageable = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE + 8192);
  g_autoptr (GpuBuffer) slice = NULL;

  g_assert_no_error (error);
  check_memory_kind (fixture, GPU_MEMORY (locked));
  pageable = gpu_host_memory_new_aligned (fixture->context, 4096, SIZE, &error);
  g_assert_no_error (error);
  check_memory_kind (fixture, GPU_MEMORY (pageable));
  slice = gpu_buffer_slice (buffer, 4096, SIZE, &error);
  g_assert_no_error (error);
  check_memory_kind (fixture, GPU_MEMORY (slice));
}

static void
file_svm (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuSvm) svm = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_SVM_COARSE))
    return;

  svm = gpu_svm_new (fixture->context, GPU_MEMORY_FLAGS_NONE, GPU_SVM_FLAGS_NONE, SIZE, 0, &error);
  g_assert_no_error (error);
  check_memory_kind (fixture, GPU_MEMORY (svm));
}

/* --- order ------------------------------------------------------------------------------------ */

/* The copy waits for the earlier work of the stream, and only then accesses the file. */
static void
file_held (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (TestHold) hold = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, 256 * 1024, 5);
  g_autoptr (GBytes) before = test_value_bytes (256 * 1024, 6);
  g_autoptr (GBytes) written = test_value_bytes (256 * 1024, 7);
  g_autoptr (GAsyncResult) result = NULL;
  int fd = temporary (before);
  g_autoptr (GpuFile) file = file_for (fd, GPU_FILE_FLAGS_NONE);

  if (!test_can_hold (fixture))
    return;

  hold = test_hold (stream);
  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, 256 * 1024,
                                   (const guint8 *) "\7", 1, &error), error);
  gpu_memory_write_file_async (GPU_MEMORY (buffer), stream, 0, file, 0, 256 * 1024, NULL, NULL,
                               NULL, NULL, test_take_result, &result);
  g_usleep (20 * 1000);
  check_file (fd, before, 0);
  test_hold_release (hold);
  test_assert_ok (gpu_memory_write_file_finish (GPU_MEMORY (buffer), test_await (&result), &error),
                  error);
  check_file (fd, written, 0);
  close (fd);
}

typedef struct
{
  GpuEvent *gate;
  gint      opened;                 /* atomic */
} Opener;

static gpointer
open_later (gpointer data)
{
  Opener *opener = data;

  g_usleep (50 * 1000);
  g_atomic_int_set (&opener->opened, TRUE);
  test_open (opener->gate);

  return NULL;
}

/* The copy waits for a user event in its stream, or in another stream that uses the memory. */
static void
file_gate (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuFile) file = file_take (temporary (bytes));
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 9);

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;

  for (guint i = 0; i < 2 * N_KINDS; i++)
    {
      g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      g_autoptr (GpuStream) other = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      g_autoptr (GpuEvent) gate = test_gate (fixture, stream);
      Opener opener = { gate, FALSE };
      GThread *thread;

      test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, SIZE, "",
                                       1, &error), error);
      thread = g_thread_new ("opener", open_later, &opener);
      test_assert_ok (reads[i / 2] (buffer, i % 2 == 0 ? stream : other, 0, file, 0, SIZE, &error),
                      error);
      g_assert_true (g_atomic_int_get (&opener.opened));
      g_thread_join (thread);
      test_assert_content (buffer, bytes);
    }
}

/* The copy holds the file. When it has completed, the library does not keep the file open. */
static void
file_unref (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);

  for (guint i = 0; i < 20; i++)
    {
      g_autoptr (GpuBuffer) buffer = test_buffer_from (fixture, bytes);
      g_autoptr (GAsyncResult) result = NULL;
      int fd = temporary (NULL);
      GpuFile *file = file_for (fd, GPU_FILE_FLAGS_NONE);

      g_assert_cmpuint (test_count_descriptors ("gpumem-file-"), ==, 2);
      gpu_memory_write_file_async (GPU_MEMORY (buffer), NULL, 0, file, 0, SIZE, NULL, NULL, NULL,
                                   NULL, test_take_result, &result);
      g_object_unref (file);
      test_assert_ok (gpu_memory_write_file_finish (GPU_MEMORY (buffer), test_await (&result),
                                                    &error), error);
      g_assert_cmpuint (test_count_descriptors ("gpumem-file-"), ==, 1);
      check_file (fd, bytes, 0);
      close (fd);
    }
}

typedef struct
{
  TestFixture *fixture;
  GpuFile     *file;
  GpuBuffer   *buffer;
  gsize        offset;
} Part;

static gpointer
read_part (gpointer data)
{
  Part *part = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (part->fixture, GPU_STREAM_FLAGS_NONE);

  test_assert_ok (gpu_memory_read_file (GPU_MEMORY (part->buffer), stream, part->offset, part->file,
                                        part->offset, 2 * MIB, NULL, &error), error);

  return NULL;
}

static void
file_threads (TestFixture *fixture)
{
  g_autoptr (GBytes) bytes = test_random_bytes (8 * MIB);
  g_autoptr (GpuFile) file = file_take (temporary (bytes));
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, 8 * MIB);
  GThread *threads[4];
  Part parts[4];

  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    {
      parts[i] = (Part) { fixture, file, buffer, i * 2 * MIB };
      threads[i] = g_thread_new ("part", read_part, &parts[i]);
    }
  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    g_thread_join (threads[i]);
  test_assert_content (buffer, bytes);
}

/* --- faults ----------------------------------------------------------------------------------- */

/* After a failed write of memory, a read of the memory fails as well. */
static void
check_unreadable (GpuBuffer *buffer)
{
  g_autoptr (GError) error = NULL;
  guint8 byte;

  g_assert_false (gpu_buffer_read (buffer, NULL, 0, &byte, 1, NULL, &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_PARTIAL_INPUT, "gpu_buffer_read");
}

static void
file_end (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GBytes) more = test_random_bytes (100);
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE + 100, 9);
  g_autofree char *end = g_strdup_printf ("ends at byte %" G_GSIZE_FORMAT ", before the end of "
                                          "the copy at byte %" G_GSIZE_FORMAT, SIZE, SIZE + 100);
  int fd = temporary (bytes);
  g_autoptr (GpuFile) file = file_for (fd, GPU_FILE_FLAGS_NONE);

  for (guint kind = 0; kind < N_KINDS; kind++)
    {
      g_assert_false (reads[kind] (buffer, fixture->stream, 0, file, 0, SIZE + 100, &error));
      test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_PARTIAL_INPUT, end,
                             "gpumem-file-", "descriptor");
      check_unreadable (buffer);
    }

  /* The file grows: the next read is correct. */
  g_assert_cmpint (pwrite (fd, g_bytes_get_data (more, NULL), 100, SIZE), ==, 100);
  for (guint kind = 0; kind < N_KINDS; kind++)
    test_assert_ok (reads[kind] (buffer, fixture->stream, 0, file, 0, SIZE + 100, &error), error);
  test_assert_ok (gpu_buffer_read (buffer, NULL, SIZE, (guint8[100]) { 0 }, 100, NULL, &error),
                  error);
  close (fd);
}

/* The bytes before the end of the file are in the memory. They can be read once a write of the
 * other bytes has been submitted. */
static void
file_end_keeps (TestFixture *fixture)
{
  const guint8 value = 5;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuFile) file = file_take (temporary (bytes));

  for (guint kind = 0; kind < N_KINDS; kind++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE + 100, 9);
      g_autoptr (GBytes) content = NULL;
      const guint8 *data;

      g_assert_false (reads[kind] (buffer, fixture->stream, 0, file, 0, SIZE + 100, &error));
      test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_PARTIAL_INPUT, "ends at byte");
      check_unreadable (buffer);
      test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (buffer), SIZE, 100, &value, 1,
                                       &error), error);
      content = test_content (buffer);
      data = g_bytes_get_data (content, NULL);
      test_assert_mem (data, g_bytes_get_data (bytes, NULL), SIZE);
      test_assert_value (data + SIZE, value, 100);
    }
}

/* The file fails while the commands of the copy are submitted. */
static void
file_empty (TestFixture *fixture)
{
  int fd = temporary (NULL);
  g_autoptr (GpuFile) file = file_take (fd);

  for (guint i = 0; i < 40; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 9);

      g_assert_false (reads[i % N_KINDS] (buffer, fixture->stream, 0, file, 0, SIZE, &error));
      test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_PARTIAL_INPUT, "ends at byte 0");
      check_unreadable (buffer);
    }
}

/* Reads fail at every 700,001th byte, and all bytes before that are in the memory. */
static void
file_read_fails (TestFixture *fixture)
{
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuFile) file = file_take (temporary (bytes));

  for (gsize at = 0; at < SIZE; at += 700001)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuHostMemory) memory = NULL;
      g_autofree char *text = g_strdup_printf ("at byte %" G_GSIZE_FORMAT ":", at);

      memory = gpu_host_memory_new (fixture->context, GPU_HOST_MEMORY_FLAGS_NONE, SIZE, &error);
      g_assert_no_error (error);
      break_at ((gssize) at, EIO);
      g_assert_false (reads[at % N_KINDS] (memory, fixture->stream, 0, file, 0, SIZE, &error));
      break_at (-1, 0);
      test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_FAILED, "cannot read", text);
      gpu_context_synchronize (fixture->context, NULL);
      g_clear_error (&error);
      test_assert_mem (gpu_host_memory_get_data (memory), g_bytes_get_data (bytes, NULL), at);
      test_assert_ok (reads[at % N_KINDS] (memory, fixture->stream, 0, file, 0, SIZE, &error),
                      error);
      test_assert_mem (gpu_host_memory_get_data (memory), g_bytes_get_data (bytes, NULL), SIZE);
    }
}

static void
file_write_fails (TestFixture *fixture)
{
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) buffer = test_buffer_from (fixture, bytes);

  for (gsize at = 0; at < SIZE; at += 700001)
    {
      g_autoptr (GError) error = NULL;
      g_autofree char *text = g_strdup_printf ("at byte %" G_GSIZE_FORMAT ":", at);
      g_autoptr (GBytes) before = g_bytes_new_from_bytes (bytes, 0, at);
      int fd = temporary (NULL);
      g_autoptr (GpuFile) file = file_for (fd, GPU_FILE_FLAGS_NONE);

      break_at ((gssize) at, ENOSPC);
      g_assert_false (writes[at % N_KINDS] (buffer, fixture->stream, 0, file, 0, SIZE, &error));
      break_at (-1, 0);
      test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_NO_SPACE, "cannot write", text);
      check_file (fd, before, 0);
      test_assert_content (buffer, bytes);
      test_assert_ok (writes[at % N_KINDS] (buffer, fixture->stream, 0, file, 0, SIZE, &error),
                      error);
      check_file (fd, bytes, 0);
      close (fd);
    }
}

/* Short and interrupted calls lose nothing. */
static void
file_short (TestFixture *fixture)
{
  g_atomic_pointer_set (&most_bytes, 10007);
  for (guint kind = 0; kind < N_KINDS; kind++)
    check_data (fixture, fixture->stream, SIZE, 3, kind);
  g_atomic_pointer_set (&most_bytes, G_MAXSIZE);
}

/* If the work before a copy fails, the copy reports that failure. */
static void
file_failed_before (TestFixture *fixture)
{
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuFile) file = file_take (temporary (bytes));
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 9);

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;

  for (guint kind = 0; kind < N_KINDS; kind++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      g_autoptr (GpuEvent) gate = test_gate (fixture, stream);

      test_assert_ok (gpu_event_fail (gate, "broken on purpose", &error), error);
      g_assert_false (reads[kind] (buffer, stream, 0, file, 0, SIZE, &error));
      g_assert_nonnull (strstr (error->message, "broken on purpose"));
      g_clear_error (&error);
      gpu_stream_synchronize (stream, NULL, NULL);
      test_assert_ok (reads[kind] (buffer, stream, 0, file, 0, SIZE, &error), error);
      test_assert_content (buffer, bytes);
    }
}

/* --- progress and cancellation ---------------------------------------------------------------- */

typedef struct
{
  GCancellable *cancellable;        /* nullable; cancelled by the first report */
  goffset       last;
  goffset       total;
  gboolean      destroyed;
} Reports;

static void
on_progress (goffset current, goffset total, gpointer data)
{
  Reports *reports = data;

  g_assert_cmpint (current, >, reports->last);
  g_assert_cmpint (current, <=, total);
  reports->last = current;
  reports->total = total;
  g_cancellable_cancel (reports->cancellable);
}

static void
on_destroyed (gpointer data)
{
  ((Reports *) data)->destroyed = TRUE;
}

static void
file_progress (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuFile) file = file_take (temporary (bytes));
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GAsyncResult) result = NULL;
  Reports reports = { NULL, 0, 0, FALSE };

  gpu_memory_read_file_async (GPU_MEMORY (buffer), NULL, 0, file, 0, SIZE, NULL, on_progress,
                              &reports, on_destroyed, test_take_result, &result);
  test_assert_ok (gpu_memory_read_file_finish (GPU_MEMORY (buffer), test_await (&result), &error),
                  error);
  g_assert_cmpint (reports.last, ==, SIZE);
  g_assert_cmpint (reports.total, ==, SIZE);
  g_assert_true (reports.destroyed);
  test_assert_content (buffer, bytes);
}

static void
file_cancelled (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuFile) file = file_take (temporary (bytes));
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (TestHold) hold = NULL;
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_autoptr (GAsyncResult) result = NULL;
  Reports reports = { NULL, 0, 0, FALSE };

  if (!test_can_hold (fixture))
    return;

  hold = test_hold (stream);
  gpu_memory_read_file_async (GPU_MEMORY (buffer), stream, 0, file, 0, SIZE, cancellable,
                              on_progress, &reports, on_destroyed, test_take_result, &result);
  g_cancellable_cancel (cancellable);
  g_assert_false (gpu_memory_read_file_finish (GPU_MEMORY (buffer), test_await (&result), &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_assert_true (reports.destroyed);
  g_assert_false (gpu_memory_read_file (GPU_MEMORY (buffer), stream, 0, file, 0, SIZE, cancellable,
                                        &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  test_hold_release (hold);
  test_synchronize (stream);
}

/* After the end of a cancelled copy, the library no longer changes the memory. */
static void
file_cancelled_ends (TestFixture *fixture)
{
  g_autoptr (GBytes) bytes = test_random_bytes (8 * SIZE);
  g_autoptr (GBytes) expected = test_value_bytes (8 * SIZE, 3);
  g_autoptr (GpuFile) file = file_take (temporary (bytes));

  for (guint i = 0; i < 6; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuBuffer) buffer = test_buffer (fixture, 8 * SIZE);
      g_autoptr (GCancellable) cancellable = g_cancellable_new ();
      g_autoptr (GAsyncResult) result = NULL;
      Reports reports = { cancellable, 0, 0, FALSE };

      if (i >= 3)
        gpu_context_set_staging_limit (fixture->context, 0);
      gpu_memory_read_file_async (GPU_MEMORY (buffer), NULL, 0, file, 0, 8 * SIZE, cancellable,
                                  on_progress, &reports, on_destroyed, test_take_result, &result);
      if (!gpu_memory_read_file_finish (GPU_MEMORY (buffer), test_await (&result), &error))
        test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
      test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (buffer), 0, 8 * SIZE,
                                       (const guint8 *) "\3", 1, &error), error);
      test_synchronize (fixture->stream);
      g_usleep (5 * 1000);
      test_assert_content (buffer, expected);
    }
}

/* --- arguments -------------------------------------------------------------------------------- */

static void
file_invalid (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, 100, 9);
  g_autoptr (GpuFile) none = g_object_new (GPU_TYPE_FILE, NULL);
  g_autofree char *path = NULL;
  int fd = g_file_open_tmp ("gpumem-file-XXXXXX", &path, NULL);
  int only_read = open (path, O_RDONLY | O_CLOEXEC);
  g_autoptr (GpuFile) file = file_for (fd, GPU_FILE_FLAGS_NONE);
  g_autoptr (GpuFile) read_only = file_take (only_read);
  GpuMemory *memory = GPU_MEMORY (buffer);

  g_unlink (path);
  close (fd);
  for (guint kind = 0; kind < N_KINDS; kind++)
    {
      GpuStream *stream = fixture->stream;

      g_assert_false (reads[kind] (memory, stream, 0, none, 0, 1, &error));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_file_open");
      g_assert_false (writes[kind] (memory, stream, 0, read_only, 0, 1, &error));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, path,
                             "is not open for writing");
      g_assert_false (reads[kind] (memory, stream, 1, file, 0, 100, &error));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "destination", "100", "1");
      g_assert_false (writes[kind] (memory, stream, 101, file, 0, 0, &error));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "source", "101");
      g_assert_false (reads[kind] (memory, stream, 0, file, G_MAXINT64, 1, &error));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "9223372036854775807");
      g_assert_false (reads[kind] (memory, stream, 0, file, G_MAXUINT64, 0, &error));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "18446744073709551615");
      test_assert_ok (reads[kind] (memory, stream, 100, file, 10, 0, &error), error);
    }

  gpu_memory_release (memory);
  g_assert_false (read_blocking (memory, NULL, 0, file, 0, 1, &error));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED, "gpu_memory_read_file");
}

static void
refuse_fd (int         fd,
           const char *word)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (gpu_file_new_for_fd (fd, GPU_FILE_FLAGS_NONE, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_file_new_for_fd", word);
  if (fd >= 0)
    close (fd);
}

static void
refuse_flags (GFile        *file,
              GpuFileFlags  flags)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (gpu_file_open (file, flags, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_file_open", "flags",
                         "create requires write");
}

static void
file_open_errors (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *path = g_build_filename (g_get_tmp_dir (), "gpumem-missing-file", NULL);
  g_autoptr (GFile) missing = g_file_new_for_path (path);
  g_autoptr (GFile) remote = g_file_new_for_uri ("sftp://example.org/file");
  g_autoptr (GFile) folder = g_file_new_for_path (g_get_tmp_dir ());
  g_autoptr (GpuFile) none = g_object_new (GPU_TYPE_FILE, NULL);
  int ends[2];

  g_assert_cmpint (pipe (ends), ==, 0);
  refuse_fd (ends[0], "GpuInputStream");
  refuse_fd (ends[1], "pipe");
  refuse_fd (-1, "file descriptor -1 is not open");
  refuse_fd (open (g_get_tmp_dir (), O_RDONLY | O_CLOEXEC), "regular file");
  refuse_fd (open ("/dev/null", O_WRONLY | O_APPEND | O_CLOEXEC), "appending");
  refuse_fd (open ("/dev/null", O_PATH | O_CLOEXEC), "O_PATH");
  g_assert_null (gpu_file_new_for_fd (STDERR_FILENO, GPU_FILE_FLAGS_WRITE, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_file_new_for_fd", "flags write",
                         "only direct is possible");
  refuse_flags (missing, GPU_FILE_FLAGS_NONE);
  refuse_flags (missing, GPU_FILE_FLAGS_READ | GPU_FILE_FLAGS_CREATE);
  refuse_flags (missing, GPU_FILE_FLAGS_READ | 1 << 10);
  g_assert_null (gpu_file_open (missing, GPU_FILE_FLAGS_READ, &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND, path);
  g_assert_null (gpu_file_open (remote, GPU_FILE_FLAGS_READ, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "sftp://example.org/file");
  g_assert_cmpint (gpu_file_get_size (none, &error), ==, -1);
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_file_get_size", "not open");
  g_assert_null (gpu_file_open (folder, GPU_FILE_FLAGS_READ, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, g_get_tmp_dir ());
}

/* A pipe is refused with any access, although open() fails if the pipe has no reader. */
static void
file_open_pipe (void)
{
  const GpuFileFlags flags[] = { GPU_FILE_FLAGS_READ, GPU_FILE_FLAGS_WRITE,
                                 GPU_FILE_FLAGS_READ | GPU_FILE_FLAGS_WRITE,
                                 GPU_FILE_FLAGS_WRITE | GPU_FILE_FLAGS_CREATE };
  g_autofree char *path = g_build_filename (g_get_tmp_dir (), "gpumem-pipe-XXXXXX", NULL);
  g_autoptr (GFile) file = NULL;
  int fd = g_mkstemp (path);

  g_assert_cmpint (fd, >=, 0);
  close (fd);
  g_unlink (path);
  g_assert_cmpint (mkfifo (path, 0600), ==, 0);
  file = g_file_new_for_path (path);

  for (guint i = 0; i < G_N_ELEMENTS (flags); i++)
    {
      g_autoptr (GError) error = NULL;

      g_assert_null (gpu_file_open (file, flags[i], &error));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, path, "GpuOutputStream");
    }

  g_unlink (path);
}

/* Messages are UTF-8, although the name of a file need not be. */
static void
file_open_not_utf8 (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *folder = g_dir_make_tmp ("gpumem-XXXXXX", NULL);
  g_autofree char *path = g_build_filename (folder, "gpumem-\xff", NULL);
  g_autofree char *name = g_filename_display_name (path);
  g_autoptr (GFile) file = g_file_new_for_path (path);

  g_assert_null (gpu_file_open (file, GPU_FILE_FLAGS_READ, &error));
  g_assert_true (g_utf8_validate (error->message, -1, NULL));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND, "gpumem-");

  g_assert_cmpint (mkfifo (path, 0600), ==, 0);
  g_assert_null (gpu_file_open (file, GPU_FILE_FLAGS_READ, &error));
  g_unlink (path);
  g_rmdir (folder);
  g_assert_true (g_utf8_validate (error->message, -1, NULL));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, name);
}

/* A terminal that is opened does not become the controlling terminal, through which a key would end
 * the process. Runs in a separate process, as the leader of a session. */
static void
file_open_terminal (void)
{
  g_autoptr (GFile) terminal = NULL;
  g_autoptr (GpuFile) file = NULL;
  g_autoptr (GError) error = NULL;
  int controller = posix_openpt (O_RDWR | O_NOCTTY | O_CLOEXEC);

  if (controller < 0)
    {
      g_test_skip ("no terminal can be created");
      return;
    }
  if (!g_test_subprocess ())
    {
      close (controller);
      g_test_trap_subprocess (NULL, TEST_CHILD_TIMEOUT, G_TEST_SUBPROCESS_INHERIT_STDERR);
      g_test_trap_assert_passed ();
      return;
    }

  g_assert_cmpint (grantpt (controller), ==, 0);
  g_assert_cmpint (unlockpt (controller), ==, 0);
  g_assert_cmpint (setsid (), >, 0);
  g_assert_cmpint (open ("/dev/tty", O_RDWR | O_CLOEXEC), ==, -1);

  terminal = g_file_new_for_path (ptsname (controller));
  file = gpu_file_open (terminal, GPU_FILE_FLAGS_READ, &error);
  g_assert_false (g_error_matches (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND));
  g_assert_cmpint (open ("/dev/tty", O_RDWR | O_CLOEXEC), ==, -1);
  g_assert_cmpint (errno, ==, ENXIO);
  close (controller);
}

static void
file_open_creates (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *folder = g_dir_make_tmp ("gpumem-file-XXXXXX", &error);
  g_autofree char *path = g_build_filename (folder, "new", NULL);
  g_autoptr (GFile) gfile = g_file_new_for_path (path);
  const GpuFileFlags flags = GPU_FILE_FLAGS_READ | GPU_FILE_FLAGS_WRITE;
  struct stat status;
  int fd;

  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (GpuFile) file = gpu_file_open (gfile, flags | GPU_FILE_FLAGS_CREATE, &error);

      g_assert_no_error (error);
      g_assert_cmpuint (test_get_number (file, "flags"), ==, flags);
      g_assert_cmpint (stat (path, &status), ==, 0);
      g_assert_cmpint (status.st_size, ==, 0);
      g_assert_cmpint (gpu_file_get_size (file, &error), ==, 0);
      fd = g_open (path, O_WRONLY | O_CLOEXEC);
      g_assert_cmpint (write (fd, "text", 4), ==, 4);
      close (fd);
      g_assert_cmpint (gpu_file_get_size (file, &error), ==, 4);
    }

  g_unlink (path);
  g_rmdir (folder);
}

static void
refuse_size (const char *name, GIOErrorEnum code, const char *word)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GFile) path = g_file_new_for_path (name);
  g_autoptr (GpuFile) file = gpu_file_open (path, GPU_FILE_FLAGS_READ, &error);

  g_assert_no_error (error);
  g_assert_cmpint (gpu_file_get_size (file, &error), ==, -1);
  test_assert_any_error (error, G_IO_ERROR, code, name, word);
}

/* The system reports no size for files whose contents it makes when they are read. They are not
 * taken for empty files. */
static void
file_no_size (void)
{
  refuse_size ("/dev/zero", G_IO_ERROR_NOT_SUPPORTED, "pass the number of bytes");
  refuse_size ("/proc/version", G_IO_ERROR_NOT_SUPPORTED, "pass the number of bytes");
  /* The address 0, where the process has no memory, cannot be read (EIO). */
  refuse_size ("/proc/self/mem", G_IO_ERROR_FAILED, g_strerror (EIO));

  for (guint i = 0; i < 2; i++)
    {
      const GpuFileFlags flags[] = { GPU_FILE_FLAGS_READ, GPU_FILE_FLAGS_WRITE };
      g_autoptr (GError) error = NULL;
      g_autoptr (GFile) path = g_file_new_for_path (i == 0 ? "/dev/null" : "/dev/zero");
      g_autoptr (GpuFile) file = gpu_file_open (path, flags[i], &error);

      g_assert_no_error (error);
      g_assert_cmpint (gpu_file_get_size (file, &error), ==, 0);
      g_assert_no_error (error);
    }
}

/* The page cache is bypassed for most bytes if the file system and the place of the chunks allow
 * it, and the data is the same. */
static void
file_direct (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE + 2 * MARGIN, 9);
  int in = temporary (bytes);
  int out = temporary (NULL);
  g_autoptr (GpuFile) from = file_for (in, GPU_FILE_FLAGS_DIRECT);
  g_autoptr (GpuFile) to = file_for (out, GPU_FILE_FLAGS_DIRECT);

  g_atomic_pointer_set (&n_direct, 0);
  for (guint kind = 0; kind < N_KINDS; kind++)
    {
      test_assert_ok (reads[kind] (buffer, fixture->stream, MARGIN, from, 0, SIZE, &error), error);
      check_memory (buffer, bytes);
      test_assert_ok (writes[kind] (buffer, fixture->stream, MARGIN, to, kind * 5, SIZE, &error),
                      error);
      check_file (out, bytes, kind * 5);
    }

  if ((test_get_number (from, "flags") & GPU_FILE_FLAGS_DIRECT) == 0)
    g_test_message ("the file system lacks O_DIRECT");
  else if (!g_test_subprocess ())
    g_assert_cmpuint (g_atomic_pointer_get (&n_direct), >=, 2 * (SIZE - 4096));

  close (in);
  close (out);
}

/* --- small chunks ----------------------------------------------------------------------------- */

/* Tests that no device skips. A skipped test would hide the results of the others in
 * file_chunks(). */
static const TestEntry entries[] = {
  { "data", file_data },
  { "memory", file_memory },
  { "unref", file_unref },
  { "threads", file_threads },
  { "end", file_end },
  { "empty", file_empty },
  { "read-fails", file_read_fails },
  { "write-fails", file_write_fails },
  { "short", file_short },
  { "end-keeps", file_end_keeps },
  { "progress", file_progress },
  { "direct", file_direct }
};

static gboolean
is_any_device (TestFixture *fixture G_GNUC_UNUSED)
{
  return TRUE;
}

static void
file_chunks (TestFixture *fixture)
{
  g_autofree char *path = g_strdup_printf ("/file/%s/subprocess/all",
                                           gpu_device_get_id (fixture->device));

  g_setenv ("GPUMEM_DEBUG", "stage", TRUE);
  g_test_trap_subprocess (path, TEST_CHILD_TIMEOUT, G_TEST_SUBPROCESS_INHERIT_STDERR);
  g_unsetenv ("GPUMEM_DEBUG");
  g_test_trap_assert_passed ();
}

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);

  test_add_list (entries, G_N_ELEMENTS (entries), is_any_device);
  test_add ("svm", file_svm);
  test_add ("gate", file_gate);
  test_add ("held", file_held);
  test_add ("failed-before", file_failed_before);
  test_add ("cancelled", file_cancelled);
  test_add ("cancelled-ends", file_cancelled_ends);
  test_add ("chunks", file_chunks);
  test_add ("long", file_long);
  test_add ("out-of-order", file_out_of_order);
  test_add ("profiling", file_profiling);
  test_add ("without-staging", file_without_staging);
  test_add ("invalid", file_invalid);
  test_add_plain ("open-errors", file_open_errors);
  test_add_plain ("open-creates", file_open_creates);
  test_add_plain ("open-pipe", file_open_pipe);
  test_add_plain ("open-not-utf8", file_open_not_utf8);
  test_add_plain ("open-terminal", file_open_terminal);
  test_add_plain ("no-size", file_no_size);

  return test_run ();
}
