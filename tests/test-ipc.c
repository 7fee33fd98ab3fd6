/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Memory and events shared by two processes. The other process runs this program and reads
 * commands, one per line: a verb, and bytes in base64. */
#include "config.h"

#include <signal.h>

#include <gio/gunixfdlist.h>
#include <glib/gstdio.h>

#ifdef HAVE_CUDA
#include "gpumem/cuda/memory/gpu-cuda-ipc.h"
#endif
#include "test-util.h"

#define SIZE 65536
#define CHILD_FD 3

/* --- the other process ------------------------------------------------------------ */

static GpuContext *
child_context (const char *id)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDevice) device = gpu_device_find (id, &error);
  GpuContext *context = NULL;

  if (device != NULL)
    context = gpu_context_new (device, GPU_CONTEXT_FLAGS_NONE, &error);
  if (context == NULL)
    g_print ("failed %s\n", error->message);
  return context;
}

static GBytes *
decode (const char *text)
{
  gsize size;
  guchar *data = g_base64_decode (text, &size);

  return g_bytes_new_take (data, size);
}

/* Prints the content and address of the memory, then fills it with 0xee. */
static gboolean
child_use (GpuBuffer *buffer, GError **error)
{
  static const guint8 value = 0xee;
  g_autofree char *digest = test_get_digest (buffer, error);

  if (digest == NULL
      || !gpu_buffer_fill (buffer, NULL, 0, gpu_memory_get_size (GPU_MEMORY (buffer)), &value, 1,
                           NULL, error))
    return FALSE;
  g_print ("%s %" G_GUINT64_FORMAT "\n", digest,
           gpu_memory_get_native_handle (GPU_MEMORY (buffer)));
  return TRUE;
}

static GpuBuffer *
child_import (GpuContext *context, const char *verb, GBytes *bytes, GError **error)
{
  g_autoptr (GUnixFDList) fds = NULL;

  if (g_str_equal (verb, "handle"))
    return gpu_buffer_new_from_handle (context, bytes, error);
  fds = g_unix_fd_list_new ();
  if (g_unix_fd_list_append (fds, CHILD_FD, error) < 0)
    return NULL;
  return gpu_buffer_new_from_fds (context, bytes, fds, error);
}

/* Orders later work on the default stream after the event in @bytes. */
static gboolean
child_wait (GpuContext *context, GBytes *bytes, GError **error)
{
  g_autoptr (GpuEvent) event = gpu_event_new_from_handle (context, bytes, error);
  g_autoptr (GpuStream) stream = gpu_context_get_default_stream (context);

  if (event == NULL || !gpu_stream_wait_event (stream, event, error)
      || !gpu_event_wait (event, NULL, error))
    return FALSE;
  g_print ("waited\n");
  return TRUE;
}

static gboolean
child_export (GpuContext *context, GBytes *bytes, GError **error)
{
  const guint8 value = bytes != NULL && g_bytes_get_size (bytes) > 0
                       ? ((const guint8 *) g_bytes_get_data (bytes, NULL))[0] : 5;
  g_autoptr (GpuBuffer) buffer = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, SIZE, error);
  g_autoptr (GBytes) handle = NULL;
  g_autofree char *text = NULL;

  if (buffer == NULL || !gpu_buffer_fill (buffer, NULL, 0, SIZE, &value, 1, NULL, error))
    return FALSE;
  handle = gpu_buffer_export_handle (buffer, error);
  if (handle == NULL)
    return FALSE;
  text = g_base64_encode (g_bytes_get_data (handle, NULL), g_bytes_get_size (handle));
  g_print ("%s\n", text);
  /* Wait until the parent exits or kills this process. */
  return getchar () == EOF;
}

static gboolean
child_obey (GpuContext *context, GPtrArray *kept, char **words, GError **error)
{
  g_autoptr (GBytes) bytes = words[1] != NULL ? decode (words[1]) : NULL;
  GpuBuffer *buffer;

  if (g_str_equal (words[0], "export"))
    return child_export (context, bytes, error);
  if (bytes == NULL)
    return TRUE;
  if (g_str_equal (words[0], "event"))
    return child_wait (context, bytes, error);
  buffer = child_import (context, words[0], bytes, error);
  if (buffer == NULL)
    return FALSE;
  g_ptr_array_add (kept, buffer);
  return child_use (buffer, error);
}

static int
child (const char *id)
{
  g_autoptr (GPtrArray) kept = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr (GpuContext) context = child_context (id);
  char line[4096];

  while (context != NULL && fgets (line, sizeof line, stdin) != NULL)
    {
      g_autoptr (GError) error = NULL;
      g_auto (GStrv) words = g_strsplit (g_strstrip (line), " ", 2);

      if (!child_obey (context, kept, words, &error))
        g_print ("failed %s\n", error->message);
    }
  return 0;
}

/* --- this process ----------------------------------------------------------------- */

typedef struct
{
  GSubprocess      *process;
  GDataInputStream *answers;
  GOutputStream    *orders;
} Child;

static char *
ask (Child *self, const char *verb, GBytes *bytes)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *text = bytes != NULL ? g_base64_encode (g_bytes_get_data (bytes, NULL),
                                                           g_bytes_get_size (bytes))
                                        : g_strdup ("");
  g_autofree char *line = g_strdup_printf ("%s %s\n", verb, text);
  char *answer;

  test_assert_ok (g_output_stream_write_all (self->orders, line, strlen (line), NULL, NULL,
                                             &error), error);
  answer = g_data_input_stream_read_line (self->answers, NULL, NULL, &error);
  g_assert_no_error (error);
  g_assert_nonnull (answer);
  return answer;
}

/* Starts the child. The child inherits @fd, unless it is -1. */
static void
child_start (Child *self, TestFixture *fixture, int fd)
{
  g_autoptr (GSubprocessLauncher) launcher = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree char *program = g_file_read_link ("/proc/self/exe", &error);

  g_assert_no_error (error);
  launcher = g_subprocess_launcher_new (G_SUBPROCESS_FLAGS_STDIN_PIPE
                                        | G_SUBPROCESS_FLAGS_STDOUT_PIPE);
  if (fd >= 0)
    g_subprocess_launcher_take_fd (launcher, fd, CHILD_FD);
  self->process = g_subprocess_launcher_spawn (launcher, &error, program, "--child",
                                               gpu_device_get_id (fixture->device), NULL);
  g_assert_no_error (error);
  self->orders = g_subprocess_get_stdin_pipe (self->process);
  self->answers = g_data_input_stream_new (g_subprocess_get_stdout_pipe (self->process));
}

static void
child_stop (Child *self)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (g_output_stream_close (self->orders, NULL, &error), error);
  test_assert_ok (g_subprocess_wait_check (self->process, NULL, &error), error);
  g_object_unref (self->answers);
  g_object_unref (self->process);
}

/* --- handles ----------------------------------------------------------------------- */

static void
assert_seen (const char *answer, GBytes *content)
{
  g_autofree char *digest = g_compute_checksum_for_bytes (G_CHECKSUM_MD5, content);

  if (!g_str_has_prefix (answer, digest))
    g_error ("the other process answers: %s", answer);
}

static void
ipc_handle (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GBytes) part = g_bytes_new_from_bytes (bytes, 4096, 1000);
  g_autoptr (GpuBuffer) buffer = test_buffer_from (fixture, bytes);
  g_autoptr (GpuBuffer) slice = gpu_buffer_slice (buffer, 4096, 1000, &error);
  g_autoptr (GBytes) handle = NULL;
  g_autoptr (GBytes) content = NULL;
  g_autofree char *answer = NULL;
  g_autofree char *again = NULL;
  const guint8 *data;
  Child other;

  if (!test_has (fixture, GPU_CAPABILITIES_IPC_HANDLES))
    return;
  g_assert_no_error (error);
  handle = gpu_buffer_export_handle (slice, &error);
  g_assert_no_error (error);
  child_start (&other, fixture, -1);
  answer = ask (&other, "handle", handle);
  assert_seen (answer, part);
  /* The second import has the address of the first import. The content differs, because the child
   * has filled the memory. */
  again = ask (&other, "handle", handle);
  g_assert_cmpstr (strchr (answer, ' '), ==, strchr (again, ' '));
  child_stop (&other);

  content = test_content (buffer);
  data = g_bytes_get_data (content, NULL);
  test_assert_mem (data, g_bytes_get_data (bytes, NULL), 4096);
  test_assert_value (data + 4096, 0xee, 1000);
  test_assert_mem (data + 5096, (const guint8 *) g_bytes_get_data (bytes, NULL) + 5096,
                   SIZE - 5096);
}

static void
ipc_bad_handles (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GBytes) handle = NULL;
  gsize size;
  const guint8 *data;

  if (!test_has (fixture, GPU_CAPABILITIES_IPC_HANDLES))
    return;
  handle = gpu_buffer_export_handle (buffer, &error);
  g_assert_no_error (error);
  g_assert_null (gpu_buffer_new_from_handle (fixture->context, handle, &error));
  test_assert_gpu_error (error, GPU_ERROR_IPC, "this process");

  data = g_bytes_get_data (handle, &size);
  for (gsize i = 0; i < size; i++)
    {
      g_autoptr (GBytes) shorter = g_bytes_new (data, i);
      g_autofree guint8 *copy = g_memdup2 (data, size);
      g_autoptr (GBytes) other = NULL;

      copy[i] ^= 0xff;
      other = g_bytes_new (copy, size);
      g_assert_null (gpu_buffer_new_from_handle (fixture->context, shorter, &error));
      g_assert_nonnull (error);
      g_clear_error (&error);
      g_clear_object (&buffer);
      /* The changed bytes may denote another valid allocation. In that case the import may
       * succeed. */
      buffer = gpu_buffer_new_from_handle (fixture->context, other, &error);
      g_assert_true (buffer != NULL || error != NULL);
      g_clear_error (&error);
      g_clear_object (&buffer);
    }
}

/* After the exporter is killed, a read of the memory returns the data or an error, and does not
 * crash. */
static void
ipc_killed_exporter (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GBytes) handle = NULL;
  g_autoptr (GBytes) content = NULL;
  g_autofree char *answer = NULL;
  Child other;

  if (!test_has (fixture, GPU_CAPABILITIES_IPC_HANDLES))
    return;
  child_start (&other, fixture, -1);
  answer = ask (&other, "export", NULL);
  handle = decode (answer);
  buffer = gpu_buffer_new_from_handle (fixture->context, handle, &error);
  g_assert_no_error (error);
  content = gpu_buffer_read_bytes (buffer, NULL, 0, SIZE, NULL, &error);
  g_assert_no_error (error);
  test_assert_value (g_bytes_get_data (content, NULL), 5, SIZE);
  g_clear_pointer (&content, g_bytes_unref);

  g_subprocess_send_signal (other.process, SIGKILL);
  g_subprocess_wait (other.process, NULL, NULL);
  g_object_unref (other.answers);
  g_object_unref (other.process);
  /* The read returns the data or an error. */
  content = gpu_buffer_read_bytes (buffer, NULL, 0, SIZE, NULL, &error);
  if (content != NULL)
    test_assert_value (g_bytes_get_data (content, NULL), 5, SIZE);
  else
    g_assert_true (error->domain == GPU_ERROR);
}

/* Two imports of one handle share the memory, and the library tracks hazards between both
 * imports. */
static void
ipc_handle_twice (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) first = NULL;
  g_autoptr (GpuBuffer) second = NULL;
  g_autoptr (GpuBuffer) slice = NULL;
  g_autoptr (GBytes) handle = NULL;
  g_autofree char *answer = NULL;
  Child other;

  if (!test_has (fixture, GPU_CAPABILITIES_IPC_HANDLES))
    return;
  child_start (&other, fixture, -1);
  answer = ask (&other, "export", NULL);
  handle = decode (answer);
  first = gpu_buffer_new_from_handle (fixture->context, handle, &error);
  g_assert_no_error (error);
  second = gpu_buffer_new_from_handle (fixture->context, handle, &error);
  g_assert_no_error (error);
  test_same_memory (fixture, first, 64, second, 64);
  slice = gpu_buffer_slice (second, SIZE / 2, 1024, &error);
  g_assert_no_error (error);
  g_clear_object (&second);
  test_same_memory (fixture, slice, 0, first, SIZE / 2);
  g_clear_object (&first);
  second = gpu_buffer_new_from_handle (fixture->context, handle, &error);
  g_assert_no_error (error);
  test_same_memory (fixture, slice, 4, second, SIZE / 2 + 4);
  child_stop (&other);
}

/* --- hostile processes -------------------------------------------------------------- */

/* The envelope of gpumem/device/gpu-ipc.c. */
#define ENVELOPE "(sstuiuay)"

/* Returns @handle as a hostile process may send it: with @payload as the driver's handle and,
 * unless @size is 0, with @size as the size of the memory. */
static GBytes *
forge (GBytes *handle, guint64 size, gconstpointer payload, gsize payload_size)
{
  g_autoptr (GVariant) variant = NULL;
  g_autoptr (GVariant) forged = NULL;
  const char *magic;
  const char *backend;
  guint64 given_size;
  guint32 flags;
  guint32 n_fds;
  gint32 fd;

  variant = g_variant_new_from_bytes (G_VARIANT_TYPE (ENVELOPE), handle, FALSE);
  g_variant_ref_sink (variant);
  g_variant_get (variant, "(&s&stuiuay)", &magic, &backend, &given_size, &flags, &fd, &n_fds, NULL);
  forged = g_variant_new ("(sstuiu@ay)", magic, backend, size != 0 ? size : given_size, flags, fd,
                          n_fds,
                          g_variant_new_fixed_array (G_VARIANT_TYPE_BYTE, payload, payload_size,
                                                     1));
  g_variant_ref_sink (forged);
  return g_variant_get_data_as_bytes (forged);
}

static GBytes *
get_payload (GBytes *handle)
{
  g_autoptr (GVariant) variant = g_variant_new_from_bytes (G_VARIANT_TYPE (ENVELOPE), handle,
                                                           FALSE);
  g_autoptr (GVariant) payload = NULL;

  g_variant_ref_sink (variant);
  payload = g_variant_get_child_value (variant, 6);
  return g_variant_get_data_as_bytes (payload);
}

static GpuBuffer *
exported (TestFixture *fixture, guint8 value, GUnixFDList *fds, GBytes **handle)
{
  g_autoptr (GError) error = NULL;
  GpuBuffer *buffer = gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_SHAREABLE, SIZE, &error);

  g_assert_no_error (error);
  test_assert_ok (gpu_buffer_fill (buffer, NULL, 0, SIZE, &value, 1, NULL, &error), error);
  *handle = gpu_buffer_export_fds (buffer, fds, &error);
  g_assert_no_error (error);
  return buffer;
}

/* A hostile process sends the identity of one memory with the descriptor of another memory. When
 * the owner sends the first memory later, the library must not treat the hostile import as an
 * import of the first memory. */
static void
ipc_mismatched_fd (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GUnixFDList) fds = g_unix_fd_list_new ();
  g_autoptr (GUnixFDList) hostile_fds = g_unix_fd_list_new ();
  g_autoptr (GBytes) handle = NULL;
  g_autoptr (GBytes) hostile_handle = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuBuffer) hostile = NULL;
  g_autoptr (GpuBuffer) from_hostile = NULL;
  g_autoptr (GpuBuffer) from_owner = NULL;
  g_autoptr (GBytes) content = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_IPC_FDS))
    return;
  buffer = exported (fixture, 'A', fds, &handle);
  hostile = exported (fixture, 'M', hostile_fds, &hostile_handle);
  from_hostile = gpu_buffer_new_from_fds (fixture->context, handle, hostile_fds, &error);
  g_assert_no_error (error);
  from_owner = gpu_buffer_new_from_fds (fixture->context, handle, fds, &error);
  g_assert_no_error (error);
  content = test_content (from_owner);
  test_assert_value (g_bytes_get_data (content, NULL), 'A', SIZE);
}

static GBytes *
ask_handle (Child *other, guint8 value)
{
  g_autoptr (GBytes) bytes = g_bytes_new (&value, 1);
  g_autofree char *answer = ask (other, "export", bytes);

  return decode (answer);
}

/* Like ipc_mismatched_fd(), for drivers that export handles. The driver's handle is at the end of
 * the exported bytes. */
static void
ipc_mismatched_handle (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) handle = NULL;
  g_autoptr (GBytes) hostile_handle = NULL;
  g_autoptr (GBytes) payload = NULL;
  g_autoptr (GBytes) hostile_payload = NULL;
  g_autoptr (GBytes) forged = NULL;
  g_autoptr (GpuBuffer) from_hostile = NULL;
  g_autoptr (GpuBuffer) from_owner = NULL;
  g_autoptr (GBytes) content = NULL;
  g_autofree guint8 *spliced = NULL;
  const guint8 *native;
  Child owner;
  Child hostile;
  gsize size;

  if (!test_has (fixture, GPU_CAPABILITIES_IPC_HANDLES))
    return;
  child_start (&owner, fixture, -1);
  child_start (&hostile, fixture, -1);
  handle = ask_handle (&owner, 'A');
  hostile_handle = ask_handle (&hostile, 'M');
  payload = get_payload (handle);
  hostile_payload = get_payload (hostile_handle);
  size = g_bytes_get_size (payload);
  spliced = g_memdup2 (g_bytes_get_data (payload, NULL), size);
  native = (const guint8 *) g_bytes_get_data (hostile_payload, NULL) + size - 64;
  memcpy (spliced + size - 64, native, 64);
  forged = forge (handle, 0, spliced, size);
  from_hostile = gpu_buffer_new_from_handle (fixture->context, forged, &error);
  g_assert_no_error (error);
  from_owner = gpu_buffer_new_from_handle (fixture->context, handle, &error);
  g_assert_no_error (error);
  content = test_content (from_owner);
  test_assert_value (g_bytes_get_data (content, NULL), 'A', SIZE);
  child_stop (&owner);
  child_stop (&hostile);
}

#ifdef HAVE_CUDA
/* Returns a copy of a CUDA handle with other sizes. */
static GBytes *
resize (GBytes *handle, guint64 offset, guint64 size, guint64 whole_size)
{
  g_autoptr (GBytes) payload = get_payload (handle);
  GpuCudaHandle native;

  g_assert_cmpuint (g_bytes_get_size (payload), ==, sizeof native);
  memcpy (&native, g_bytes_get_data (payload, NULL), sizeof native);
  native.offset = offset;
  native.size = size;
  native.whole_size = whole_size;
  return forge (handle, size, &native, sizeof native);
}

static void
assert_resized (TestFixture *fixture, GBytes *handle, guint64 offset, guint64 size)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) forged = resize (handle, offset, size, offset + size);
  g_autofree char *size_text = g_strdup_printf ("%" G_GUINT64_FORMAT " bytes", size);

  g_assert_null (gpu_buffer_new_from_handle (fixture->context, forged, &error));
  test_assert_gpu_error (error, GPU_ERROR_IPC, "the driver reports", size_text);
}

/* The size in a handle is untrusted. The library gets the real size from the driver, even if this
 * process has already opened the memory. */
static void
ipc_sizes (TestFixture *fixture)
{
  const guint64 large = (guint64) 1 << 40;
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) handle = NULL;
  g_autoptr (GBytes) small = NULL;
  g_autoptr (GpuBuffer) less = NULL;
  g_autoptr (GpuBuffer) all = NULL;
  g_autoptr (GBytes) content = NULL;
  Child other;

  if (!test_has (fixture, GPU_CAPABILITIES_IPC_HANDLES))
    return;
  child_start (&other, fixture, -1);
  handle = ask_handle (&other, 7);
  small = resize (handle, 0, 100, 100);
  assert_resized (fixture, handle, 0, large);
  assert_resized (fixture, handle, large, 1);

  /* A handle with a smaller size must not limit later imports of the same memory. */
  less = gpu_buffer_new_from_handle (fixture->context, small, &error);
  g_assert_no_error (error);
  all = gpu_buffer_new_from_handle (fixture->context, handle, &error);
  g_assert_no_error (error);
  assert_resized (fixture, handle, 0, large);
  assert_resized (fixture, handle, large, 1);
  content = test_content (all);
  test_assert_value (g_bytes_get_data (content, NULL), 7, SIZE);
  test_same_memory (fixture, less, 0, all, 0);
  child_stop (&other);
}

/* Like ipc_sizes(), for memory imported by file descriptor. */
static void
ipc_sizes_fd (TestFixture *fixture)
{
  const guint64 large = (guint64) 1 << 30;
  g_autoptr (GError) error = NULL;
  g_autoptr (GUnixFDList) fds = g_unix_fd_list_new ();
  g_autoptr (GBytes) handle = NULL;
  g_autoptr (GBytes) forged = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuBuffer) imported = NULL;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_IPC_FDS))
    return;
  buffer = exported (fixture, 'A', fds, &handle);
  forged = resize (handle, 0, large, large);
  for (guint i = 0; i < 2; i++)
    {
      g_assert_null (gpu_buffer_new_from_fds (fixture->context, forged, fds, &error));
      test_assert_gpu_error (error, GPU_ERROR_IPC, "gpu_buffer_new_from_fds");
      g_clear_object (&imported);
      imported = gpu_buffer_new_from_fds (fixture->context, handle, fds, &error);
      g_assert_no_error (error);
    }
}
#endif

/* --- file descriptors --------------------------------------------------------------- */

static void
pass_fd (TestFixture *fixture, GpuBuffer *buffer)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GUnixFDList) fds = g_unix_fd_list_new ();
  g_autoptr (GBytes) handle = NULL;
  g_autoptr (GBytes) content = NULL;
  g_autofree char *answer = NULL;
  g_autofree char *again = NULL;
  Child other;
  int fd;

  test_assert_ok (gpu_stream_write (fixture->stream, GPU_MEMORY (buffer), 0, bytes, &error),
                  error);
  test_synchronize (fixture->stream);
  handle = gpu_buffer_export_fds (buffer, fds, &error);
  if (g_error_matches (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED))
    {
      g_test_skip (error->message);
      return;
    }
  g_assert_no_error (error);
  g_assert_cmpint (g_unix_fd_list_get_length (fds), ==, 1);
  fd = g_unix_fd_list_get (fds, 0, &error);
  g_assert_no_error (error);
  child_start (&other, fixture, fd);
  answer = ask (&other, "fd", handle);
  assert_seen (answer, bytes);
  again = ask (&other, "fd", handle);
  g_assert_cmpstr (strchr (answer, ' '), ==, strchr (again, ' '));
  child_stop (&other);

  content = test_content (buffer);
  test_assert_value (g_bytes_get_data (content, NULL), 0xee, SIZE);
}

static void
ipc_fd (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_IPC_FDS))
    return;
  buffer = gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_SHAREABLE, SIZE, &error);
  g_assert_no_error (error);
  pass_fd (fixture, buffer);
}

/* Stream-ordered memory of the driver's pool can also be exported by file descriptor. */
static void
ipc_fd_pooled (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_IPC_FDS | GPU_CAPABILITIES_STREAM_ORDERED))
    return;
  buffer = gpu_buffer_new_on_stream (fixture->stream, GPU_MEMORY_FLAGS_SHAREABLE, SIZE, &error);
  g_assert_no_error (error);
  pass_fd (fixture, buffer);
}

/* Exported memory outlives its buffer. */
static void
ipc_fd_outlives (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GUnixFDList) fds = g_unix_fd_list_new ();
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuBuffer) second = NULL;
  g_autoptr (GBytes) handle = NULL;
  g_autoptr (GBytes) content = NULL;
  guint8 value = 6;

  if (!test_has (fixture, GPU_CAPABILITIES_IPC_FDS))
    return;
  buffer = gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_SHAREABLE, SIZE, &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_buffer_fill (buffer, NULL, 0, SIZE, &value, 1, NULL, &error), error);
  handle = gpu_buffer_export_fds (buffer, fds, &error);
  g_assert_no_error (error);
  g_clear_object (&buffer);
  second = gpu_buffer_new_from_fds (fixture->context, handle, fds, &error);
  g_assert_no_error (error);
  content = test_content (second);
  test_assert_value (g_bytes_get_data (content, NULL), 6, SIZE);
}

/* Imports a descriptor twice. On the host back end, the imports also share the memory with the
 * exporting buffer of this process. */
static void
ipc_fd_twice (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GUnixFDList) fds = g_unix_fd_list_new ();
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuBuffer) part = NULL;
  g_autoptr (GpuBuffer) first = NULL;
  g_autoptr (GpuBuffer) second = NULL;
  g_autoptr (GBytes) handle = NULL;
  g_autoptr (GBytes) part_handle = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_IPC_FDS))
    return;
  buffer = gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_SHAREABLE, SIZE, &error);
  g_assert_no_error (error);
  part = gpu_buffer_slice (buffer, 4096, 8192, &error);
  g_assert_no_error (error);
  handle = gpu_buffer_export_fds (buffer, fds, &error);
  g_assert_no_error (error);
  part_handle = gpu_buffer_export_fds (part, fds, &error);
  g_assert_no_error (error);
  second = gpu_buffer_new_from_fds (fixture->context, part_handle, fds, &error);
  g_assert_no_error (error);
  first = gpu_buffer_new_from_fds (fixture->context, handle, fds, &error);
  g_assert_no_error (error);
  test_same_memory (fixture, first, 4096, second, 0);
  if (g_str_equal (gpu_device_get_backend (fixture->device), "host"))
    test_same_memory (fixture, first, 4096, part, 0);
}

/* Returns a copy of @handle with the value at @place replaced. Takes ownership of @value. */
static GBytes *
replace (GBytes *handle, guint place, GVariant *value)
{
  g_autoptr (GVariant) old = NULL;
  g_autoptr (GVariant) new = NULL;
  GVariant *values[7];

  old = g_variant_ref_sink (g_variant_new_from_bytes (G_VARIANT_TYPE (ENVELOPE), handle, FALSE));
  g_assert_cmpuint (g_variant_n_children (old), ==, G_N_ELEMENTS (values));
  for (guint i = 0; i < G_N_ELEMENTS (values); i++)
    values[i] = g_variant_get_child_value (old, i);
  g_variant_unref (values[place]);
  values[place] = g_variant_ref_sink (value);
  new = g_variant_ref_sink (g_variant_new_tuple (values, G_N_ELEMENTS (values)));
  for (guint i = 0; i < G_N_ELEMENTS (values); i++)
    g_variant_unref (values[i]);

  return g_variant_get_data_as_bytes (new);
}

/* The library checks each value of a handle, and the error names the wrong value. */
static void
ipc_bad_fds (TestFixture *fixture)
{
  const struct { guint place; GVariant *value; const char *words[2]; } cases[] = {
    { 0, g_variant_new_string ("gpumem buffer 1"),
      { "one of gpu_buffer_export_handle(), not of gpu_buffer_export_fds()", NULL } },
    { 0, g_variant_new_string ("gpumem buffer 9"),
      { " bytes are not a handle of gpu_buffer_export_fds(), or have changed", NULL } },
    { 1, g_variant_new_string ("nobody"), { "nobody", "back end" } },
    { 2, g_variant_new_uint64 (0), { " 0 bytes", NULL } },
    { 2, g_variant_new_uint64 (G_MAXUINT64), { "18446744073709551615 bytes", NULL } },
    { 2, g_variant_new_uint64 (SIZE + 1), { NULL, NULL } },
    { 4, g_variant_new_int32 (1), { "descriptor 1 of a list of 1", NULL } },
    { 4, g_variant_new_int32 (-1), { "descriptor -1 of a list of 1", NULL } },
    { 5, g_variant_new_uint32 (0), { "0 file descriptors", "a list of 1" } },
    { 5, g_variant_new_uint32 (2), { "2 file descriptors", "a list of 1" } },
    { 5, g_variant_new_uint32 (G_MAXUINT32), { "4294967295 file descriptors", NULL } },
    { 6, g_variant_new_bytestring ("abc"), { "4 bytes", "handle" } },
  };
  g_autoptr (GError) error = NULL;
  g_autoptr (GUnixFDList) fds = g_unix_fd_list_new ();
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuBuffer) again = NULL;
  g_autoptr (GBytes) handle = NULL;

  if (test_has (fixture, GPU_CAPABILITIES_IPC_FDS))
    {
      buffer = gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_SHAREABLE, SIZE, &error);
      g_assert_no_error (error);
      handle = gpu_buffer_export_fds (buffer, fds, &error);
      g_assert_no_error (error);
      again = gpu_buffer_new_from_fds (fixture->context, handle, fds, &error);
      g_assert_no_error (error);
    }
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GVariant) value = g_variant_ref_sink (cases[i].value);
      g_autoptr (GBytes) bad = handle != NULL ? replace (handle, cases[i].place, value) : NULL;

      if (bad == NULL)
        continue;
      g_assert_null (gpu_buffer_new_from_fds (fixture->context, bad, fds, &error));
      test_assert_gpu_error (error, GPU_ERROR_IPC, "gpu_buffer_new_from_fds", cases[i].words[0],
                             cases[i].words[1]);
    }
}

/* --- events ------------------------------------------------------------------------- */

static void
ipc_event (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 0);
  g_autoptr (GBytes) memory_handle = NULL;
  g_autoptr (GBytes) event_handle = NULL;
  g_autoptr (GpuEvent) event = NULL;
  g_autofree char *waited = NULL;
  g_autofree char *answer = NULL;
  Child other;

  if (!test_has (fixture, GPU_CAPABILITIES_IPC_HANDLES))
    return;
  child_start (&other, fixture, -1);
  memory_handle = gpu_buffer_export_handle (buffer, &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_stream_write (fixture->stream, GPU_MEMORY (buffer), 0, bytes, &error),
                  error);
  event = gpu_stream_record (fixture->stream, GPU_EVENT_FLAGS_INTERPROCESS, &error);
  g_assert_no_error (error);
  event_handle = gpu_event_export_handle (event, &error);
  g_assert_no_error (error);
  waited = ask (&other, "event", event_handle);
  g_assert_cmpstr (waited, ==, "waited");
  answer = ask (&other, "handle", memory_handle);
  assert_seen (answer, bytes);
  child_stop (&other);

  g_assert_null (gpu_event_new_from_handle (fixture->context, memory_handle, &error));
  test_assert_gpu_error (error, GPU_ERROR_IPC,
                         "one of gpu_buffer_export_handle(), not of gpu_event_export_handle()");
  g_assert_null (gpu_buffer_new_from_handle (fixture->context, event_handle, &error));
  test_assert_gpu_error (error, GPU_ERROR_IPC,
                         "one of gpu_event_export_handle(), not of gpu_buffer_export_handle()");
}

int
main (int argc, char **argv)
{
  if (argc == 3 && g_str_equal (argv[1], "--child"))
    return child (argv[2]);
  test_init (&argc, &argv);
  test_add ("handle", ipc_handle);
  test_add ("bad-handles", ipc_bad_handles);
  test_add ("killed-exporter", ipc_killed_exporter);
  test_add ("handle-twice", ipc_handle_twice);
  test_add ("mismatched-fd", ipc_mismatched_fd);
  test_add ("mismatched-handle", ipc_mismatched_handle);
#ifdef HAVE_CUDA
  test_add ("sizes", ipc_sizes);
  test_add ("sizes-fd", ipc_sizes_fd);
#endif
  test_add ("fd", ipc_fd);
  test_add ("fd-pooled", ipc_fd_pooled);
  test_add ("fd-outlives", ipc_fd_outlives);
  test_add ("fd-twice", ipc_fd_twice);
  test_add ("bad-fds", ipc_bad_fds);
  test_add ("event", ipc_event);
  return test_run ();
}
