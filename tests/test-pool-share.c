/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Memory of pools that two processes share, in both directions: offsets, blocks of one chunk,
 * buffers over several chunks, reuse, killed processes, and hostile handles. The other process runs
 * this program; the processes exchange messages with descriptors over a socket. */
#include "config.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gio/gunixfdlist.h>
#include <glib/gstdio.h>

#ifdef HAVE_CUDA
#include "gpumem/cuda/memory/gpu-cuda-ipc.h"
#endif
#include "test-util.h"

#define KIB ((gsize) 1024)
#define MIB (1024 * KIB)
#define CHILD_FD 3
#define MAX_FDS 253
#define N_BUFFERS 5
/* Files of memory that can be shared: those of the host back end, of the stand-in driver, and of
 * NVIDIA's driver */
#define SHARED_FILES "memfd:gpumem|memfd:cuda-share|nvidia"

/* Two blocks of one chunk or segment, and larger ones. */
static const gsize sizes[N_BUFFERS] = { 1000, 70001, 5 * MIB + 12, 3000, 12 * MIB };

static const GpuMemoryPoolKind kinds[] = { GPU_MEMORY_POOL_EXPANDABLE, GPU_MEMORY_POOL_SEGMENTS,
                                           GPU_MEMORY_POOL_BINS };

/* --- messages ------------------------------------------------------------------------ */

static void
send_message (int socket, const char *verb, GBytes *bytes, GUnixFDList *fds)
{
  union { struct cmsghdr header; char data[CMSG_SPACE (MAX_FDS * sizeof (int))]; } control;
  const gsize size = bytes != NULL ? g_bytes_get_size (bytes) : 0;
  const int n_fds = fds != NULL ? g_unix_fd_list_get_length (fds) : 0;
  struct iovec parts[2] = { { (gpointer) verb, strlen (verb) + 1 },
                            { size > 0 ? (gpointer) g_bytes_get_data (bytes, NULL) : NULL, size } };
  struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };

  if (n_fds > 0)
    {
      memset (&control, 0, sizeof control);
      message.msg_control = &control;
      message.msg_controllen = CMSG_SPACE (n_fds * sizeof (int));
      control.header.cmsg_level = SOL_SOCKET;
      control.header.cmsg_type = SCM_RIGHTS;
      control.header.cmsg_len = CMSG_LEN (n_fds * sizeof (int));
      memcpy (CMSG_DATA (&control.header), g_unix_fd_list_peek_fds (fds, NULL),
              n_fds * sizeof (int));
    }
  if (sendmsg (socket, &message, MSG_NOSIGNAL) < 0)
    g_error ("sendmsg: %s", g_strerror (errno));
}

/* Returns NULL at the end of the stream. */
static char *
receive_message (int socket, GBytes **bytes, GUnixFDList **fds)
{
  union { struct cmsghdr header; char data[CMSG_SPACE (MAX_FDS * sizeof (int))]; } control;
  static char data[64 * 1024];
  struct iovec part = { data, sizeof data };
  struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
                            .msg_controllen = sizeof control };
  gssize size = recvmsg (socket, &message, MSG_CMSG_CLOEXEC);
  struct cmsghdr *header;
  gsize verb_size;

  if (size <= 0)
    return NULL;
  g_assert_cmpint (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC), ==, 0);
  header = CMSG_FIRSTHDR (&message);
  if (header != NULL)
    *fds = g_unix_fd_list_new_from_array ((int *) CMSG_DATA (header),
                                          (header->cmsg_len - CMSG_LEN (0)) / sizeof (int));
  else
    *fds = g_unix_fd_list_new ();
  verb_size = strlen (data) + 1;
  *bytes = g_bytes_new (data + verb_size, (gsize) size - verb_size);
  return g_strdup (data);
}

/* --- the other process --------------------------------------------------------------- */

typedef struct
{
  GpuContext    *context;
  GpuMemoryPool *pool;
  GPtrArray     *buffers;           /* imported or exported, in order */
} ChildState;

static gboolean
fill (GpuBuffer *buffer, guint8 value, GError **error)
{
  return gpu_buffer_fill (buffer, NULL, 0, gpu_memory_get_size (GPU_MEMORY (buffer)), &value, 1,
                          NULL, error);
}

/* Allocates a buffer of @size bytes with the value @value from a pool, and exports the buffer. */
static GBytes *
child_export (ChildState *self, guint kind, gsize size, guint8 value, GUnixFDList *fds,
              GError **error)
{
  GpuBuffer *buffer;

  if (self->pool == NULL)
    self->pool = gpu_memory_pool_new (self->context, kind, GPU_MEMORY_FLAGS_SHAREABLE, error);
  if (self->pool == NULL)
    return NULL;
  buffer = gpu_memory_pool_alloc_buffer (self->pool, size, NULL, error);
  if (buffer == NULL)
    return NULL;
  g_ptr_array_add (self->buffers, buffer);
  return fill (buffer, value, error) ? gpu_buffer_export_fds (buffer, fds, error) : NULL;
}

/* Obeys one message. The answer is a digest of the memory, a number, or an error. */
static char *
child_obey (ChildState *self, const char *verb, GBytes *bytes, GUnixFDList *fds, GBytes **answer,
            GUnixFDList *answer_fds, GError **error)
{
  g_auto (GStrv) words = g_strsplit (verb, " ", -1);
  const guint i = words[1] != NULL ? (guint) atoi (words[1]) : 0;
  GpuBuffer *buffer = NULL;

  if (g_str_equal (words[0], "import") || g_str_equal (words[0], "open"))
    {
      buffer = words[0][0] == 'i' ? gpu_buffer_new_from_fds (self->context, bytes, fds, error)
                                  : gpu_buffer_new_from_handle (self->context, bytes, error);
      if (buffer == NULL)
        return NULL;
      g_ptr_array_add (self->buffers, buffer);
      return test_get_digest (buffer, error);
    }
  if (g_str_equal (words[0], "export"))
    {
      *answer = child_export (self, i, (gsize) atoi (words[2]), (guint8) atoi (words[3]),
                              answer_fds, error);
      return *answer != NULL ? g_strdup ("exported") : NULL;
    }
  if (g_str_equal (words[0], "read"))
    return test_get_digest (self->buffers->pdata[i], error);
  if (g_str_equal (words[0], "fill"))
    return fill (self->buffers->pdata[i], (guint8) atoi (words[2]), error) ? g_strdup ("filled")
                                                                          : NULL;
  if (g_str_equal (words[0], "drop"))
    g_ptr_array_set_size (self->buffers, 0);
  if (g_str_equal (words[0], "same"))
    return g_strdup (gpu_memory_get_native_handle (self->buffers->pdata[i])
                     == gpu_memory_get_native_handle (self->buffers->pdata[i + 1]) ? "yes" : "no");
  return g_strdup_printf ("%u", test_count_descriptors (SHARED_FILES));
}

static int
child (const char *id)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDevice) device = gpu_device_find (id, &error);
  ChildState self = { .buffers = g_ptr_array_new_with_free_func (g_object_unref) };
  char *verb;

  self.context = device != NULL ? gpu_context_new (device, GPU_CONTEXT_FLAGS_NONE, &error) : NULL;
  g_assert_no_error (error);
  for (;;)
    {
      g_autoptr (GUnixFDList) answer_fds = g_unix_fd_list_new ();
      g_autoptr (GUnixFDList) fds = NULL;
      g_autoptr (GBytes) bytes = NULL;
      g_autoptr (GBytes) answer = NULL;
      g_autofree char *text = NULL;

      verb = receive_message (CHILD_FD, &bytes, &fds);
      if (verb == NULL)
        break;
      text = child_obey (&self, verb, bytes, fds, &answer, answer_fds, &error);
      if (text == NULL)
        text = g_strdup_printf ("failed: %s", error->message);
      g_clear_error (&error);
      send_message (CHILD_FD, text, answer, answer_fds);
      g_free (verb);
    }
  g_ptr_array_unref (self.buffers);
  g_clear_object (&self.pool);
  g_object_unref (self.context);
  return 0;
}

/* --- this process -------------------------------------------------------------------- */

typedef struct
{
  GSubprocess *process;
  int          socket;
} Child;

static void
child_start (Child *self, TestFixture *fixture)
{
  g_autoptr (GSubprocessLauncher) launcher = g_subprocess_launcher_new (G_SUBPROCESS_FLAGS_NONE);
  g_autofree char *program = g_file_read_link ("/proc/self/exe", NULL);
  g_autoptr (GError) error = NULL;
  int ends[2];

  g_assert_cmpint (socketpair (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), ==, 0);
  g_subprocess_launcher_take_fd (launcher, ends[1], CHILD_FD);
  self->socket = ends[0];
  self->process = g_subprocess_launcher_spawn (launcher, &error, program, "--child",
                                               gpu_device_get_id (fixture->device), NULL);
  g_assert_no_error (error);
}

static void
child_stop (Child *self)
{
  g_autoptr (GError) error = NULL;

  close (self->socket);
  test_assert_ok (g_subprocess_wait_check (self->process, NULL, &error), error);
  g_object_unref (self->process);
}

static void
child_kill (Child *self)
{
  g_subprocess_send_signal (self->process, SIGKILL);
  g_subprocess_wait (self->process, NULL, NULL);
  close (self->socket);
  g_object_unref (self->process);
}

/* Sends a message and returns the answer. */
static char *
ask (Child *self, GBytes *bytes, GUnixFDList *fds, const char *format, ...) G_GNUC_PRINTF (4, 5);

static char *
ask (Child *self, GBytes *bytes, GUnixFDList *fds, const char *format, ...)
{
  g_autoptr (GUnixFDList) answer_fds = NULL;
  g_autoptr (GBytes) answer = NULL;
  g_autofree char *verb = NULL;
  va_list arguments;
  char *text;

  va_start (arguments, format);
  verb = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  send_message (self->socket, verb, bytes, fds);
  text = receive_message (self->socket, &answer, &answer_fds);
  g_assert_nonnull (text);
  return text;
}

static GpuMemoryPool *
pool_new (TestFixture *fixture, GpuMemoryPoolKind kind, GpuMemoryFlags flags)
{
  g_autoptr (GError) error = NULL;
  GpuMemoryPool *pool = gpu_memory_pool_new (fixture->context, kind, flags, &error);

  g_assert_no_error (error);
  return pool;
}

static GpuBuffer *
alloc (GpuMemoryPool *pool, gsize size, GBytes *bytes)
{
  g_autoptr (GError) error = NULL;
  GpuBuffer *buffer = gpu_memory_pool_alloc_buffer (pool, size, NULL, &error);

  g_assert_no_error (error);
  if (bytes != NULL)
    test_assert_ok (gpu_buffer_write_bytes (buffer, NULL, 0, bytes, NULL, &error), error);
  return buffer;
}

static GBytes *
export (GpuBuffer *buffer, GUnixFDList **fds)
{
  g_autoptr (GError) error = NULL;
  GBytes *handle;

  *fds = g_unix_fd_list_new ();
  handle = gpu_buffer_export_fds (buffer, *fds, &error);
  g_assert_no_error (error);
  return handle;
}

/* Exports the buffer, and imports it in the same process. */
static GpuBuffer *
import_again (GpuContext *context, GpuBuffer *buffer)
{
  g_autoptr (GUnixFDList) fds = NULL;
  g_autoptr (GBytes) handle = export (buffer, &fds);
  g_autoptr (GError) error = NULL;
  GpuBuffer *again = gpu_buffer_new_from_fds (context, handle, fds, &error);

  g_assert_no_error (error);
  return again;
}

static void
assert_digest (const char *answer, GBytes *content)
{
  g_autofree char *digest = g_compute_checksum_for_bytes (G_CHECKSUM_MD5, content);

  g_assert_cmpstr (answer, ==, digest);
}

/* Fails unless the other process imports exactly the bytes @content of @buffer. */
static void
assert_imported (Child *self, GpuBuffer *buffer, GBytes *content)
{
  g_autoptr (GUnixFDList) fds = NULL;
  g_autoptr (GBytes) handle = export (buffer, &fds);
  g_autofree char *answer = ask (self, handle, fds, "import");

  assert_digest (answer, content);
}

/* Fails unless the other process reads the bytes @content from its buffer @number. */
static void
assert_read (Child *self, guint number, GBytes *content)
{
  g_autofree char *answer = ask (self, NULL, NULL, "read %u", number);

  assert_digest (answer, content);
}

static gboolean
is_expandable (TestFixture *fixture)
{
  return test_has (fixture, GPU_CAPABILITIES_VIRTUAL_MEMORY | GPU_CAPABILITIES_IPC_FDS);
}

/* Returns NULL, and skips the test with a reason, if the device has no such pool. */
static GpuMemoryPool *
pool_new_expandable (TestFixture *fixture)
{
  return is_expandable (fixture) ? pool_new (fixture, GPU_MEMORY_POOL_EXPANDABLE,
                                             GPU_MEMORY_FLAGS_SHAREABLE) : NULL;
}

/* --- data ---------------------------------------------------------------------------- */

/* Allocates all buffers. Their contents are random and equal to @contents. */
static GPtrArray *
alloc_all (GpuMemoryPool *pool, GPtrArray *contents)
{
  GPtrArray *buffers = g_ptr_array_new_with_free_func (g_object_unref);

  for (guint i = 0; i < N_BUFFERS; i++)
    {
      g_ptr_array_add (contents, test_random_bytes (sizes[i]));
      g_ptr_array_add (buffers, alloc (pool, sizes[i], contents->pdata[i]));
      g_assert_cmpint (gpu_memory_get_flags (buffers->pdata[i]), ==, GPU_MEMORY_FLAGS_SHAREABLE);
    }
  return buffers;
}

/* The other process sees exactly the bytes of each exported buffer, and its writes change these
 * bytes only. */
static void
check_export (TestFixture *fixture, GpuMemoryPoolKind kind)
{
  g_autoptr (GpuMemoryPool) pool = pool_new (fixture, kind, GPU_MEMORY_FLAGS_SHAREABLE);
  g_autoptr (GPtrArray) contents = g_ptr_array_new_with_free_func ((GDestroyNotify) g_bytes_unref);
  g_autoptr (GPtrArray) buffers = alloc_all (pool, contents);
  Child other;

  child_start (&other, fixture);
  /* All but buffer 3, which must not change */
  for (guint i = 0, n = 0; i < N_BUFFERS; i++)
    {
      g_autoptr (GBytes) filled = test_value_bytes (sizes[i], (guint8) (i + 1));
      g_autofree char *done = NULL;

      if (i == 3)
        continue;
      assert_imported (&other, buffers->pdata[i], contents->pdata[i]);
      done = ask (&other, NULL, NULL, "fill %u %u", n++, i + 1);
      g_assert_cmpstr (done, ==, "filled");
      test_assert_content (buffers->pdata[i], filled);
      for (guint j = i + 1; j < N_BUFFERS; j++)
        test_assert_content (buffers->pdata[j], contents->pdata[j]);
    }
  test_assert_content (buffers->pdata[3], contents->pdata[3]);
  child_stop (&other);
}

static void
for_each_kind (TestFixture *fixture, void (*check) (TestFixture *, GpuMemoryPoolKind))
{
  if (!is_expandable (fixture))
    return;
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    check (fixture, kinds[i]);
}

static void
share_export (TestFixture *fixture)
{
  for_each_kind (fixture, check_export);
}

/* Makes the other process export a buffer, and imports it. */
static GpuBuffer *
import_from (TestFixture *fixture, Child *other, GpuMemoryPoolKind kind, gsize size, guint8 value)
{
  g_autofree char *verb = g_strdup_printf ("export %d %" G_GSIZE_FORMAT " %u", (int) kind, size,
                                           value);
  g_autoptr (GUnixFDList) fds = NULL;
  g_autoptr (GBytes) handle = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree char *answer = NULL;
  GpuBuffer *buffer;

  send_message (other->socket, verb, NULL, NULL);
  answer = receive_message (other->socket, &handle, &fds);
  g_assert_cmpstr (answer, ==, "exported");
  buffer = gpu_buffer_new_from_fds (fixture->context, handle, fds, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (gpu_memory_get_size (GPU_MEMORY (buffer)), ==, size);
  return buffer;
}

/* The reverse direction: this process imports buffers of a pool of the other process. */
static void
check_import (TestFixture *fixture, GpuMemoryPoolKind kind)
{
  g_autoptr (GPtrArray) buffers = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr (GError) error = NULL;
  Child other;

  child_start (&other, fixture);
  for (guint i = 0; i < N_BUFFERS; i++)
    {
      g_autoptr (GBytes) filled = test_value_bytes (sizes[i], (guint8) (i + 1));

      g_ptr_array_add (buffers, import_from (fixture, &other, kind, sizes[i], (guint8) (i + 1)));
      test_assert_content (buffers->pdata[i], filled);
    }
  for (guint i = 0; i < N_BUFFERS; i += 2)
    test_assert_ok (fill (buffers->pdata[i], (guint8) (i + 101), &error), error);
  for (guint i = 0; i < N_BUFFERS; i++)
    {
      g_autoptr (GBytes) content = test_value_bytes (sizes[i], (guint8) (i + (i % 2 ? 1 : 101)));

      assert_read (&other, i, content);
    }
  child_stop (&other);
}

static void
share_import (TestFixture *fixture)
{
  for_each_kind (fixture, check_import);
}

/* A buffer over many chunks, some of which were moved, is one buffer in the other process. So is a
 * slice that begins in the middle of one chunk and ends in another. */
static void
share_spans (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMemoryPool) pool = pool_new_expandable (fixture);
  g_autoptr (GpuBuffer) first = NULL;
  g_autoptr (GpuBuffer) between = NULL;
  g_autoptr (GpuBuffer) last = NULL;
  g_autoptr (GpuBuffer) large = NULL;
  g_autoptr (GpuBuffer) slice = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (40 * MIB);
  g_autoptr (GBytes) part = g_bytes_new_from_bytes (bytes, 3 * MIB + 77, 30 * MIB);
  g_autoptr (GUnixFDList) fds = NULL;
  g_autoptr (GBytes) handle = NULL;
  g_autofree char *again = NULL;
  g_autofree char *same = NULL;
  Child other;

  if (pool == NULL)
    return;
  first = alloc (pool, 18 * MIB, NULL);
  between = alloc (pool, 2 * MIB, NULL);
  last = alloc (pool, 22 * MIB, NULL);
  g_clear_object (&first);
  g_clear_object (&last);
  test_synchronize (fixture->stream);
  large = alloc (pool, 40 * MIB, bytes);
  g_assert_cmpuint (test_get_number (pool, "n-recycled"), >, 0);

  handle = export (large, &fds);
  g_assert_cmpint (g_unix_fd_list_get_length (fds), >, 1);
  child_start (&other, fixture);
  assert_imported (&other, large, bytes);
  again = ask (&other, handle, fds, "import");
  assert_digest (again, bytes);
  same = ask (&other, NULL, NULL, "same 0");
  g_assert_cmpstr (same, ==, "yes");
  slice = gpu_buffer_slice (large, 3 * MIB + 77, 30 * MIB, &error);
  g_assert_no_error (error);
  assert_imported (&other, slice, part);

  /* A descriptor for other libraries refers to one chunk only. */
  g_assert_cmpint (gpu_buffer_export_fd (large, GPU_FD_KINDS_OPAQUE, NULL, NULL, &error), ==, -1);
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_buffer_export_fd",
                         "chunks of a pool", "gpu_buffer_export_fds()");
  child_stop (&other);
}

/* Within one process, two imports of a buffer are the same memory. */
static void
check_twice (TestFixture *fixture, GpuMemoryPoolKind kind)
{
  g_autoptr (GpuMemoryPool) pool = pool_new (fixture, kind, GPU_MEMORY_FLAGS_SHAREABLE);
  g_autoptr (GpuBuffer) buffer = alloc (pool, 9 * MIB, NULL);
  g_autoptr (GpuBuffer) one = import_again (fixture->context, buffer);
  g_autoptr (GpuBuffer) two = import_again (fixture->context, buffer);

  test_same_memory (fixture, one, 5 * MIB + 64, two, 5 * MIB + 64);
}

static void
share_twice (TestFixture *fixture)
{
  for_each_kind (fixture, check_twice);
}

/* --- reuse --------------------------------------------------------------------------- */

/* While an exported buffer exists, its chunks stay where they are, even if the pool moves all other
 * chunks. After the buffer is freed, the importer sees the next users of its memory, but an import
 * of a new handle has the data of the new buffer. */
static void
share_reuse (TestFixture *fixture)
{
  g_autoptr (GpuMemoryPool) pool = pool_new_expandable (fixture);
  g_autoptr (GpuBuffer) exported = NULL;
  g_autoptr (GpuBuffer) next = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (3 * MIB);
  g_autoptr (GBytes) next_bytes = test_random_bytes (24 * MIB);
  g_autofree char *stale = NULL;
  guint64 n_moved;
  Child other;

  if (pool == NULL)
    return;
  gpu_memory_pool_set_limit (pool, 26 * MIB);
  child_start (&other, fixture);
  {
    g_autoptr (GpuBuffer) before = alloc (pool, 7 * MIB, NULL);
    g_autoptr (GpuBuffer) after = NULL;

    exported = alloc (pool, 3 * MIB, bytes);
    after = alloc (pool, 9 * MIB, NULL);
  }
  assert_imported (&other, exported, bytes);
  {
    g_autoptr (GpuBuffer) large = alloc (pool, 18 * MIB, NULL);
    g_autoptr (GError) error = NULL;

    n_moved = test_get_number (pool, "n-recycled");
    g_assert_cmpuint (n_moved, >, 0);
    test_assert_ok (fill (large, 0x11, &error), error);
    assert_read (&other, 0, bytes);
    test_assert_content (exported, bytes);
  }
  g_clear_object (&exported);
  test_synchronize (fixture->stream);
  next = alloc (pool, 24 * MIB, next_bytes);
  g_assert_cmpuint (test_get_number (pool, "managed-bytes"), <=, 26 * MIB);
  stale = ask (&other, NULL, NULL, "read 0");
  g_assert_false (g_str_has_prefix (stale, "failed"));
  assert_imported (&other, next, next_bytes);
  child_stop (&other);
}

/* Allocates buffers that need 14 MiB, the limit of the pool, and frees two of them. Then allocates
 * a large buffer, for which the pool has to map two chunks a second time: each has a free part, and
 * a part that one of the other buffers uses. The large buffer is the last one in @buffers. */
static GPtrArray *
alloc_around_edges (TestFixture *fixture, GpuMemoryPool *pool, GPtrArray *contents)
{
  static const gsize parts[] = { 3 * MIB, 3 * MIB, 2 * MIB, 3 * MIB, 3 * MIB, 6 * MIB };
  GPtrArray *buffers = g_ptr_array_new_with_free_func (g_object_unref);
  GPtrArray *freed = g_ptr_array_new_with_free_func (g_object_unref);

  gpu_memory_pool_set_limit (pool, 14 * MIB);
  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    {
      g_autoptr (GBytes) bytes = test_random_bytes (parts[i]);

      if (i + 1 == G_N_ELEMENTS (parts))
        {
          g_ptr_array_unref (freed);
          test_synchronize (fixture->stream);
        }
      if (i == 1 || i == 3)
        g_ptr_array_add (freed, alloc (pool, parts[i], bytes));
      else
        {
          g_ptr_array_add (buffers, alloc (pool, parts[i], bytes));
          g_ptr_array_add (contents, g_steal_pointer (&bytes));
        }
    }
  g_assert_cmpuint (test_get_number (pool, "managed-bytes"), ==, 14 * MIB);
  return buffers;
}

/* Other processes see the right bytes of buffers that share a chunk which is mapped at two places,
 * also after the large buffer or the other buffers are freed, and other work uses their memory. */
static void
share_edges (TestFixture *fixture)
{
  if (!is_expandable (fixture))
    return;
  for (guint frees_large = 0; frees_large < 2; frees_large++)
    {
      g_autoptr (GpuMemoryPool) pool = pool_new (fixture, GPU_MEMORY_POOL_EXPANDABLE,
                                                 GPU_MEMORY_FLAGS_SHAREABLE);
      g_autoptr (GPtrArray) contents = g_ptr_array_new_with_free_func ((GDestroyNotify)
                                                                       g_bytes_unref);
      g_autoptr (GPtrArray) buffers = alloc_around_edges (fixture, pool, contents);
      const guint first = frees_large ? 0 : 3, n = frees_large ? 3 : 1;
      g_autoptr (GpuBuffer) next = NULL;
      g_autoptr (GError) error = NULL;
      Child other;

      child_start (&other, fixture);
      for (guint i = 0; i < buffers->len; i++)
        {
          assert_imported (&other, buffers->pdata[i], contents->pdata[i]);
          test_assert_content (buffers->pdata[i], contents->pdata[i]);
        }

      g_ptr_array_remove_range (buffers, frees_large ? 3 : 0, frees_large ? 1 : 3);
      test_synchronize (fixture->stream);
      next = alloc (pool, frees_large ? 6 * MIB : 8 * MIB, NULL);
      test_assert_ok (fill (next, 0x5a, &error), error);
      for (guint i = 0; i < n; i++)
        {
          g_autofree char *answer = ask (&other, NULL, NULL, "read %u", first + i);

          assert_digest (answer, contents->pdata[first + i]);
          test_assert_content (buffers->pdata[i], contents->pdata[first + i]);
        }
      child_stop (&other);
    }
}

/* --- killed processes ---------------------------------------------------------------- */

static void
check_killed_importer (TestFixture *fixture, GpuMemoryPoolKind kind)
{
  g_autoptr (GpuMemoryPool) pool = pool_new (fixture, kind, GPU_MEMORY_FLAGS_SHAREABLE);
  g_autoptr (GBytes) bytes = test_random_bytes (9 * MIB);
  g_autoptr (GpuBuffer) buffer = alloc (pool, 9 * MIB, bytes);
  Child other;

  child_start (&other, fixture);
  assert_imported (&other, buffer, bytes);
  child_kill (&other);
  test_assert_content (buffer, bytes);
  g_clear_object (&buffer);
  test_synchronize (fixture->stream);
  gpu_memory_pool_trim (pool, 0);
  g_assert_cmpuint (test_get_number (pool, "managed-bytes"), ==, 0);
}

static void
check_killed_exporter (TestFixture *fixture, GpuMemoryPoolKind kind)
{
  g_autoptr (GBytes) sevens = test_value_bytes (9 * MIB, 7);
  g_autoptr (GBytes) nines = test_value_bytes (9 * MIB, 9);
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  Child other;

  child_start (&other, fixture);
  buffer = import_from (fixture, &other, kind, 9 * MIB, 7);
  child_kill (&other);
  test_assert_content (buffer, sevens);
  test_assert_ok (fill (buffer, 9, &error), error);
  test_assert_content (buffer, nines);
}

/* Runs @check for each kind of pool. Fails if descriptors stay open, other than those that the
 * driver opens in the first round. */
static void
check_killed (TestFixture *fixture, void (*check) (TestFixture *fixture, GpuMemoryPoolKind kind))
{
  guint before = 0;

  if (!is_expandable (fixture))
    return;
  for (guint round = 0; round < 2; round++)
    {
      for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
        check (fixture, kinds[i]);
      if (round == 0)
        before = test_count_descriptors (SHARED_FILES);
    }
  g_assert_cmpuint (test_count_descriptors (SHARED_FILES), <=, before);
}

/* After an importer is killed, the exporter can use, free and reuse its memory. No descriptor stays
 * open. */
static void
share_killed_importer (TestFixture *fixture)
{
  check_killed (fixture, check_killed_importer);
}

/* After the exporter is killed, the importer still has the memory. */
static void
share_killed_exporter (TestFixture *fixture)
{
  check_killed (fixture, check_killed_exporter);
}

/* Repeated exports and imports leave no descriptors open, in either process. */
static void
share_leaks (TestFixture *fixture)
{
  g_autoptr (GpuMemoryPool) pool = pool_new_expandable (fixture);
  g_autofree char *start = NULL;
  guint before = 0;
  Child other;

  if (pool == NULL)
    return;
  child_start (&other, fixture);
  for (guint i = 0; i < 12; i++)
    {
      g_autoptr (GpuBuffer) buffer = alloc (pool, (5 + i % 3) * MIB, NULL);
      g_autoptr (GUnixFDList) fds = NULL;
      g_autoptr (GBytes) handle = export (buffer, &fds);
      g_autofree char *answer = ask (&other, handle, fds, "import");
      g_autofree char *after = ask (&other, NULL, NULL, "drop");

      g_assert_false (g_str_has_prefix (answer, "failed"));
      g_clear_object (&buffer);
      g_clear_object (&fds);
      if (i < 3)
        {
          before = test_count_descriptors (SHARED_FILES);
          g_free (start);
          start = g_steal_pointer (&after);
          continue;
        }
      g_assert_cmpuint (test_count_descriptors (SHARED_FILES), ==, before);
      g_assert_cmpstr (after, ==, start);
    }
  child_stop (&other);
  g_clear_object (&pool);
  test_drop_context (fixture);
  if (g_str_equal (gpu_device_get_backend (fixture->device), "host"))
    g_assert_cmpuint (test_count_descriptors (SHARED_FILES), ==, 0);
}

/* --- threads ------------------------------------------------------------------------- */

typedef struct
{
  GpuContext    *context;
  GpuMemoryPool *pool;
  guint          seed;
} Exporter;

/* Exports and imports buffers of changing sizes, with contents of its own, again and again. */
static gpointer
export_often (gpointer data)
{
  const Exporter *self = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = gpu_stream_new (self->context, GPU_STREAM_FLAGS_NONE, &error);

  g_assert_no_error (error);
  for (guint i = 0; i < 40; i++)
    {
      const gsize size = (1 + (i * 7 + self->seed * 3) % 9) * MIB + 512 * i;
      const guint8 value = (guint8) (self->seed * 50 + i);
      g_autoptr (GBytes) expected = test_value_bytes (size, value);
      g_autoptr (GpuBuffer) buffer = NULL;
      g_autoptr (GpuBuffer) again = NULL;

      buffer = gpu_memory_pool_alloc_buffer (self->pool, size, stream, &error);
      g_assert_no_error (error);
      test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, size, &value, 1, &error),
                      error);
      test_synchronize (stream);
      again = import_again (self->context, buffer);
      test_assert_content (again, expected);
    }
  return NULL;
}

/* Threads export and import their buffers while others grow the pool and move its chunks. */
static void
share_threads (TestFixture *fixture)
{
  g_autoptr (GpuMemoryPool) pool = pool_new_expandable (fixture);
  Exporter exporters[4];
  GThread *threads[4];

  if (pool == NULL)
    return;
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    {
      exporters[i] = (Exporter) { fixture->context, pool, i };
      threads[i] = g_thread_new ("exporter", export_often, &exporters[i]);
    }
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    g_thread_join (threads[i]);
  g_assert_cmpuint (test_get_number (pool, "n-recycled"), >, 0);
}

/* --- refused ------------------------------------------------------------------------- */

/* A shareable pool of an automatic kind has segments, so that each buffer has one descriptor, which
 * other libraries can import. */
static void
share_automatic (TestFixture *fixture)
{
  g_autoptr (GpuMemoryPool) pool = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuBuffer) again = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (9 * MIB);
  g_autoptr (GError) error = NULL;
  gsize whole_size;
  gsize offset;
  int fd;

  if (!test_has (fixture, GPU_CAPABILITIES_IPC_FDS))
    return;
  pool = pool_new (fixture, GPU_MEMORY_POOL_AUTOMATIC, GPU_MEMORY_FLAGS_SHAREABLE);
  g_assert_cmpuint (test_get_number (pool, "kind"), ==, GPU_MEMORY_POOL_SEGMENTS);
  g_object_unref (alloc (pool, 100, NULL));
  buffer = alloc (pool, 9 * MIB, bytes);
  fd = gpu_buffer_export_fd (buffer, GPU_FD_KINDS_OPAQUE, &whole_size, &offset, &error);
  g_assert_no_error (error);
  again = gpu_buffer_new_from_fd (fixture->context, GPU_MEMORY_FLAGS_NONE, GPU_FD_KINDS_OPAQUE, fd,
                                  whole_size, offset, 9 * MIB, &error);
  close (fd);
  g_assert_no_error (error);
  test_assert_content (again, bytes);
}

/* The error says how to create a pool whose memory can be exported. */
static void
share_not_shareable (TestFixture *fixture)
{
  g_autoptr (GpuMemoryPool) pool = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GUnixFDList) fds = g_unix_fd_list_new ();
  g_autoptr (GError) error = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_IPC_FDS))
    {
      g_assert_null (gpu_memory_pool_new (fixture->context, GPU_MEMORY_POOL_AUTOMATIC,
                                          GPU_MEMORY_FLAGS_SHAREABLE, &error));
      test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "cannot share memory");
      return;
    }
  pool = pool_new (fixture, GPU_MEMORY_POOL_AUTOMATIC, GPU_MEMORY_FLAGS_NONE);
  buffer = alloc (pool, 1000, NULL);
  g_assert_null (gpu_buffer_export_fds (buffer, fds, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "GPU_MEMORY_FLAGS_SHAREABLE",
                         "create its pool with this flag");
  g_assert_cmpint (gpu_buffer_export_fd (buffer, GPU_FD_KINDS_OPAQUE, NULL, NULL, &error), ==, -1);
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "create its pool with this flag");
  g_assert_cmpint (g_unix_fd_list_get_length (fds), ==, 0);
}

/* Shareable memory has descriptors only, and the error does not advise to make it shareable. Memory
 * of an expandable pool has no handle either. */
static void
share_no_handle (TestFixture *fixture)
{
  g_autoptr (GpuMemoryPool) shareable = NULL;
  g_autoptr (GpuMemoryPool) expandable = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuBuffer) other = NULL;
  g_autoptr (GError) error = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_IPC_HANDLES | GPU_CAPABILITIES_IPC_FDS))
    return;
  shareable = pool_new (fixture, GPU_MEMORY_POOL_AUTOMATIC, GPU_MEMORY_FLAGS_SHAREABLE);
  buffer = alloc (shareable, 1000, NULL);
  g_assert_null (gpu_buffer_export_handle (buffer, &error));
  g_assert_null (strstr (error->message, "create its pool"));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "memory with GPU_MEMORY_FLAGS_SHAREABLE",
                         "use gpu_buffer_export_fds()");
  expandable = pool_new (fixture, GPU_MEMORY_POOL_EXPANDABLE, GPU_MEMORY_FLAGS_NONE);
  other = alloc (expandable, 1000, NULL);
  g_assert_null (gpu_buffer_export_handle (other, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "create its pool, with",
                         "GPU_MEMORY_POOL_SEGMENTS");
}

/* Returns a context on another device of the same back end, or NULL. */
static GpuContext *
new_other_context (TestFixture *fixture)
{
  GpuDevice *own = gpu_context_get_device (fixture->context);
  GList *devices = gpu_device_list ();
  GpuContext *context = NULL;

  for (GList *item = devices; item != NULL && context == NULL; item = item->next)
    {
      GpuDevice *device = item->data;

      if (device != own && g_str_equal (gpu_device_get_backend (device),
                                        gpu_device_get_backend (own)))
        context = gpu_context_new (device, GPU_CONTEXT_FLAGS_NONE, NULL);
    }
  g_list_free_full (devices, g_object_unref);
  return context;
}

/* CUDA maps memory on the device of the context, even if it is on another device. */
static void
share_other_device (TestFixture *fixture)
{
  g_autoptr (GpuContext) context = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_IPC_FDS))
    return;
  context = new_other_context (fixture);
  if (context == NULL)
    {
      g_test_skip ("the back end has one device");
      return;
    }
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      g_autoptr (GpuMemoryPool) pool = pool_new (fixture, kinds[i], GPU_MEMORY_FLAGS_SHAREABLE);
      g_autoptr (GpuBuffer) buffer = alloc (pool, 3000, NULL);
      g_autoptr (GUnixFDList) fds = g_unix_fd_list_new ();
      g_autoptr (GError) error = NULL;
      g_autoptr (GBytes) handle = gpu_buffer_export_fds (buffer, fds, &error);
      g_autoptr (GpuBuffer) own = NULL;

      g_assert_no_error (error);
      g_assert_null (gpu_buffer_new_from_fds (context, handle, fds, &error));
      test_assert_gpu_error (error, GPU_ERROR_IPC, "UUID",
                             gpu_device_get_id (gpu_context_get_device (context)));
      own = gpu_buffer_new_from_fds (fixture->context, handle, fds, &error);
      g_assert_no_error (error);
    }
}

/* CUDA's older handles: memory of segments and bins has them, with the offset of the buffer. Memory
 * of an expandable pool has only descriptors. */
static void
share_handles (TestFixture *fixture)
{
  if (!test_has (fixture, GPU_CAPABILITIES_IPC_HANDLES))
    return;
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      g_autoptr (GpuMemoryPool) pool = pool_new (fixture, kinds[i], GPU_MEMORY_FLAGS_NONE);
      g_autoptr (GpuBuffer) before = alloc (pool, 3000, NULL);
      g_autoptr (GBytes) bytes = test_random_bytes (70001);
      g_autoptr (GpuBuffer) buffer = alloc (pool, 70001, bytes);
      g_autoptr (GBytes) threes = test_value_bytes (70001, 3);
      g_autoptr (GError) error = NULL;
      g_autoptr (GBytes) before_handle = NULL;
      g_autoptr (GBytes) handle = gpu_buffer_export_handle (buffer, &error);
      g_autofree char *answer = NULL;
      g_autofree char *first = NULL;
      g_autofree char *filled = NULL;
      Child other;

      if (kinds[i] == GPU_MEMORY_POOL_EXPANDABLE)
        {
          g_assert_null (handle);
          test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "expandable pools",
                                 "gpu_buffer_export_fds()");
          continue;
        }
      g_assert_no_error (error);
      before_handle = gpu_buffer_export_handle (before, &error);
      g_assert_no_error (error);
      child_start (&other, fixture);
      first = ask (&other, before_handle, NULL, "open");
      g_assert_false (g_str_has_prefix (first, "failed"));
      answer = ask (&other, handle, NULL, "open");
      assert_digest (answer, bytes);
      filled = ask (&other, NULL, NULL, "fill 1 3");
      g_assert_cmpstr (filled, ==, "filled");
      test_assert_content (buffer, threes);
      child_stop (&other);
    }
}

/* --- hostile handles ----------------------------------------------------------------- */

/* Returns @handle with other numbers of descriptors and other data of the back end. */
static GBytes *
forge (GBytes *handle, guint32 n_fds, gconstpointer payload, gsize payload_size)
{
  g_autoptr (GVariant) variant = NULL;
  g_autoptr (GVariant) forged = NULL;
  const char *magic;
  const char *backend;
  guint64 size;
  guint32 flags;
  gint32 fd;

  variant = g_variant_ref_sink (g_variant_new_from_bytes (G_VARIANT_TYPE ("(sstuiuay)"), handle,
                                                          FALSE));
  g_variant_get (variant, "(&s&stuiuay)", &magic, &backend, &size, &flags, &fd, NULL, NULL);
  forged = g_variant_ref_sink
    (g_variant_new ("(sstuiu@ay)", magic, backend, size, flags, fd, n_fds,
                    g_variant_new_fixed_array (G_VARIANT_TYPE_BYTE, payload, payload_size, 1)));
  return g_variant_get_data_as_bytes (forged);
}

static GByteArray *
get_payload (GBytes *handle)
{
  g_autoptr (GVariant) variant = NULL;
  g_autoptr (GVariant) payload = NULL;
  g_autoptr (GBytes) bytes = NULL;

  variant = g_variant_ref_sink (g_variant_new_from_bytes (G_VARIANT_TYPE ("(sstuiuay)"), handle,
                                                          FALSE));
  payload = g_variant_get_child_value (variant, 6);
  bytes = g_variant_get_data_as_bytes (payload);
  return g_bytes_unref_to_array (g_steal_pointer (&bytes));
}

/* Fails unless the import is refused. */
static void
refuse (TestFixture *fixture, GBytes *handle, GUnixFDList *fds)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (gpu_buffer_new_from_fds (fixture->context, handle, fds, &error));
  test_assert_gpu_error (error, GPU_ERROR_IPC, "gpu_buffer_new_from_fds");
}

/* Changes the number in @payload at @at by @change, and fails unless the import is refused. */
static void
refuse_changed (TestFixture *fixture, GBytes *handle, GUnixFDList *fds, gsize at, gint64 change)
{
  g_autoptr (GByteArray) payload = get_payload (handle);
  g_autoptr (GBytes) forged = NULL;
  guint64 number;

  g_assert_cmpuint (at + sizeof number, <=, payload->len);
  memcpy (&number, payload->data + at, sizeof number);
  number += (guint64) change;
  memcpy (payload->data + at, &number, sizeof number);
  forged = forge (handle, g_unix_fd_list_get_length (fds), payload->data, payload->len);
  refuse (fixture, forged, fds);
}

/* Exports a buffer of at least two chunks. */
static GpuBuffer *
export_chunks (GpuMemoryPool *pool, GBytes *bytes, GUnixFDList **fds, GBytes **handle)
{
  g_autoptr (GpuBuffer) hole = alloc (pool, 4 * MIB, NULL);
  g_autoptr (GpuBuffer) other = alloc (pool, 2 * MIB, NULL);
  GpuBuffer *buffer;

  g_clear_object (&hole);
  buffer = alloc (pool, g_bytes_get_size (bytes), bytes);
  *handle = export (buffer, fds);
  g_assert_cmpint (g_unix_fd_list_get_length (*fds), >, 1);
  return buffer;
}

static const gint64 changes[] = { 1, -1, 4096, -4096, 2 * MIB, -2 * (gint64) MIB,
                                  (gint64) 1 << 62, G_MININT64 };

/* Changes each number of a handle of the host: offset and size of each part. */
static void
refuse_parts (TestFixture *fixture, GBytes *handle, GUnixFDList *fds)
{
  const gsize step = 2 * sizeof (guint64);
  const gsize n = (gsize) g_unix_fd_list_get_length (fds);

  for (gsize i = 0; i < n; i++)
    {
      refuse_changed (fixture, handle, fds, i * step, (gint64) 1 << 62);
      if (i > 0)
        refuse_changed (fixture, handle, fds, i * step, 512);
      for (guint j = 0; j < G_N_ELEMENTS (changes); j++)
        refuse_changed (fixture, handle, fds, i * step + sizeof (guint64), changes[j]);
    }
}

#ifdef HAVE_CUDA
/* Imports a handle with two of its descriptors exchanged. The library must not mistake that for the
 * memory that @again has imported. */
static void
exchange_chunks (TestFixture *fixture, GBytes *handle, GUnixFDList *fds, GpuBuffer *again)
{
  g_autoptr (GUnixFDList) exchanged = g_unix_fd_list_new ();
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) other = NULL;
  g_autoptr (GBytes) content = test_content (again);
  g_autoptr (GBytes) other_content = NULL;
  gint n;
  const int *numbers = g_unix_fd_list_peek_fds (fds, &n);

  g_assert_cmpint (n, >=, 3);
  for (gint i = 0; i < n; i++)
    g_unix_fd_list_append (exchanged, numbers[i == 1 || i == 2 ? 3 - i : i], NULL);
  other = gpu_buffer_new_from_fds (fixture->context, handle, exchanged, &error);
  g_assert_no_error (error);
  other_content = test_content (other);
  g_assert_false (g_bytes_equal (content, other_content));
}

/* Changes each number of a handle of CUDA. */
static void
refuse_chunks (TestFixture *fixture, GBytes *handle, GUnixFDList *fds)
{
  const gsize n = (gsize) g_unix_fd_list_get_length (fds);

  refuse_changed (fixture, handle, fds, G_STRUCT_OFFSET (GpuCudaHandle, offset), 64 * MIB);
  refuse_changed (fixture, handle, fds, G_STRUCT_OFFSET (GpuCudaHandle, size), 64 * MIB);
  for (guint j = 0; j < G_N_ELEMENTS (changes); j++)
    {
      refuse_changed (fixture, handle, fds, G_STRUCT_OFFSET (GpuCudaHandle, whole_size),
                      changes[j]);
      for (gsize i = 0; i < n; i++)
        refuse_changed (fixture, handle, fds, sizeof (GpuCudaHandle) + i * sizeof (guint64),
                        changes[j]);
    }
}
#endif

/* Every number of a handle over several chunks is checked: against the others, and against what the
 * kernel or the driver reports. */
static void
share_hostile (TestFixture *fixture)
{
  g_autoptr (GpuMemoryPool) pool = pool_new_expandable (fixture);
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuBuffer) again = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (9 * MIB);
  g_autoptr (GUnixFDList) fds = NULL;
  g_autoptr (GBytes) handle = NULL;
  g_autoptr (GByteArray) payload = NULL;
  g_autoptr (GError) error = NULL;
  guint32 n;

  if (pool == NULL)
    return;
  buffer = export_chunks (pool, bytes, &fds, &handle);
  payload = get_payload (handle);
  n = (guint32) g_unix_fd_list_get_length (fds);
  if (g_str_equal (gpu_device_get_backend (fixture->device), "host"))
    refuse_parts (fixture, handle, fds);
#ifdef HAVE_CUDA
  else
    refuse_chunks (fixture, handle, fds);
#endif
  for (guint32 count = 0; count <= n + 1; count++)
    {
      g_autoptr (GBytes) forged = forge (handle, count, payload->data, payload->len);

      if (count != n)
        refuse (fixture, forged, fds);
    }
  for (gsize size = 0; size < payload->len; size += 8)
    {
      g_autoptr (GBytes) forged = forge (handle, n, payload->data, size);

      refuse (fixture, forged, fds);
    }
  again = gpu_buffer_new_from_fds (fixture->context, handle, fds, &error);
  g_assert_no_error (error);
  test_assert_content (again, bytes);
#ifdef HAVE_CUDA
  if (!g_str_equal (gpu_device_get_backend (fixture->device), "host"))
    exchange_chunks (fixture, handle, fds, again);
#endif
}

static struct stat
get_file (GpuBuffer *buffer)
{
  g_autoptr (GUnixFDList) fds = NULL;
  g_autoptr (GBytes) handle = export (buffer, &fds);
  struct stat status;

  g_assert_cmpint (g_unix_fd_list_get_length (fds), ==, 1);
  g_assert_cmpint (fstat (g_unix_fd_list_peek_fds (fds, NULL)[0], &status), ==, 0);
  return status;
}

/* On the host, chunks of several buffers are in one file, but never chunks of two pools: a process
 * with a descriptor of one pool cannot access the other pool. */
static void
share_two_pools (TestFixture *fixture)
{
  GpuMemoryPool *pools[2];
  GpuBuffer *buffers[4];
  struct stat files[4];

  if (!is_expandable (fixture) || !g_str_equal (gpu_device_get_backend (fixture->device), "host"))
    return;
  for (guint i = 0; i < 2; i++)
    pools[i] = pool_new (fixture, GPU_MEMORY_POOL_EXPANDABLE, GPU_MEMORY_FLAGS_SHAREABLE);
  for (guint i = 0; i < 4; i++)
    {
      buffers[i] = alloc (pools[i % 2], 3 * MIB, NULL);
      files[i] = get_file (buffers[i]);
    }
  g_assert_cmpuint (files[0].st_ino, ==, files[2].st_ino);
  g_assert_cmpuint (files[1].st_ino, ==, files[3].st_ino);
  g_assert_cmpuint (files[0].st_ino, !=, files[1].st_ino);
  for (guint i = 0; i < 4; i++)
    g_object_unref (buffers[i]);
  for (guint i = 0; i < 2; i++)
    g_object_unref (pools[i]);
}

int
main (int argc, char **argv)
{
  if (argc == 3 && g_str_equal (argv[1], "--child"))
    return child (argv[2]);
  test_init (&argc, &argv);
  test_add ("export", share_export);
  test_add ("import", share_import);
  test_add ("spans", share_spans);
  test_add ("twice", share_twice);
  test_add ("reuse", share_reuse);
  test_add ("edges", share_edges);
  test_add ("two-pools", share_two_pools);
  test_add ("killed-importer", share_killed_importer);
  test_add ("killed-exporter", share_killed_exporter);
  test_add ("leaks", share_leaks);
  test_add ("threads", share_threads);
  test_add ("automatic", share_automatic);
  test_add ("not-shareable", share_not_shareable);
  test_add ("handles", share_handles);
  test_add ("no-handle", share_no_handle);
  test_add ("other-device", share_other_device);
  test_add ("hostile", share_hostile);
  return test_run ();
}
