/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Memory shared by file descriptor within this process and with another process. The other process
 * runs the same program and receives the descriptor over a socket. */
#include "config.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <gio/gunixfdlist.h>

#include "test-util.h"

#ifdef HAVE_CUDA
#include "tests/cuda-driver/cuda-driver.h"
#endif

/* Since Linux 6.10. */
#ifndef F_DUPFD_QUERY
#define F_DUPFD_QUERY 1027
#endif

#define SIZE ((gsize) 65536)
#define CHILD_FD 3

static GpuBuffer *
shareable (TestFixture *fixture, guint8 value)
{
  g_autoptr (GError) error = NULL;
  GpuBuffer *buffer = gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_SHAREABLE, SIZE, &error);

  g_assert_no_error (error);
  test_assert_ok (gpu_buffer_fill (buffer, NULL, 0, SIZE, &value, 1, NULL, &error), error);
  return buffer;
}

/* Skips the test, with a reason, unless the context exports and imports descriptors of @kind. */
static gboolean
passes (TestFixture *fixture, GpuFdKinds kind)
{
  GpuFdKinds kinds = gpu_context_get_export_kinds (fixture->context)
                     & gpu_context_get_import_kinds (fixture->context);

  if ((kinds & kind) != 0)
    return TRUE;
  g_test_skip_printf ("%s: shares only kinds 0x%x",
                      gpu_device_get_id (fixture->device), kinds);
  return FALSE;
}

static void
check_kind (TestFixture *fixture, GpuFdKinds kind)
{
  const guint8 value = 7;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = shareable (fixture, 3);
  g_autoptr (GpuBuffer) part = gpu_buffer_slice (buffer, 4096, 8192, &error);
  g_autoptr (GpuBuffer) again = NULL;
  g_autoptr (GBytes) threes = test_value_bytes (8192, 3);
  g_autoptr (GBytes) sevens = test_value_bytes (8192, 7);
  gsize whole_size;
  gsize offset;
  int fd;

  g_assert_no_error (error);
  fd = gpu_buffer_export_fd (part, kind, &whole_size, &offset, &error);
  g_assert_no_error (error);
  g_assert_cmpint (fd, >=, 0);
  g_assert_cmpuint (offset, ==, 4096);
  g_assert_cmpuint (whole_size, >=, SIZE);
  again = gpu_buffer_new_from_fd (fixture->context, GPU_MEMORY_FLAGS_NONE, kind, fd, whole_size,
                                  offset,
                                  8192, &error);
  close (fd);

  /* CUDA drivers report support for dma-bufs, but the driver of an H200 rejects them. The context
   * no longer offers dma-bufs after the first failure. */
  if (kind == GPU_FD_KINDS_DMA_BUF
      && g_error_matches (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED))
    {
      g_assert_cmpint (gpu_context_get_import_kinds (fixture->context) & kind, ==, 0);
      g_test_skip (error->message);
      return;
    }

  g_assert_no_error (error);
  test_assert_content (again, threes);
  test_assert_ok (gpu_buffer_fill (again, NULL, 0, 8192, &value, 1, NULL, &error), error);
  test_assert_content (part, sevens);
  g_clear_object (&part);
  g_clear_object (&buffer);
  test_assert_content (again, sevens);
}

/* Imports memory of one GPU into a context of another GPU with peer access. */
static void
share_peer (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autolist (GpuDevice) devices = gpu_device_list ();
  guint n_peers = 0;

  if (!passes (fixture, GPU_FD_KINDS_OPAQUE))
    return;

  for (GList *l = devices; l != NULL; l = l->next)
    {
      GpuDevice *device = l->data;
      gboolean reaches = FALSE;
      g_autoptr (GpuContext) there = NULL;
      g_autoptr (GpuBuffer) buffer = NULL;
      g_autoptr (GpuBuffer) taken = NULL;
      g_autoptr (GBytes) nines = test_value_bytes (SIZE, 9);
      gsize whole_size;
      gsize offset;
      int fd;

      if (g_strcmp0 (gpu_device_get_backend (device), gpu_device_get_backend (fixture->device)) != 0
          || device == fixture->device
          || !gpu_device_can_access_peer (device, fixture->device, &reaches, NULL) || !reaches)
        continue;

      n_peers++;
      buffer = shareable (fixture, 9);
      there = gpu_context_new (device, GPU_CONTEXT_FLAGS_NONE, &error);
      g_assert_no_error (error);
      fd = gpu_buffer_export_fd (buffer, GPU_FD_KINDS_OPAQUE, &whole_size, &offset, &error);
      g_assert_no_error (error);
      taken = gpu_buffer_new_from_fd (there, GPU_MEMORY_FLAGS_NONE, GPU_FD_KINDS_OPAQUE, fd,
                                      whole_size,
                                      offset, SIZE, &error);
      close (fd);
      g_assert_no_error (error);
      test_assert_content (taken, nines);
    }

  if (n_peers == 0)
    g_test_skip ("no other device can access the memory of this device");
}

static gboolean
is_host (TestFixture *fixture)
{
  return g_str_equal (gpu_device_get_backend (fixture->device), "host");
}

/* On the host, an imported buffer can be exported again. */
static void
share_export_imported (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  GpuBuffer *buffers[3];
  g_autoptr (GBytes) threes = test_value_bytes (SIZE, 3);
  gsize whole_size;
  gsize offset;

  if (!passes (fixture, GPU_FD_KINDS_OPAQUE))
    return;
  buffers[0] = shareable (fixture, 3);
  for (guint i = 1; i < G_N_ELEMENTS (buffers); i++)
    {
      int fd = gpu_buffer_export_fd (buffers[i - 1], GPU_FD_KINDS_OPAQUE, &whole_size, &offset,
                                     &error);

      g_assert_no_error (error);
      buffers[i] = gpu_buffer_new_from_fd (fixture->context, GPU_MEMORY_FLAGS_NONE,
                                           GPU_FD_KINDS_OPAQUE,
                                           fd, whole_size, offset, SIZE, &error);
      g_assert_no_error (error);
      close (fd);

      if (!is_host (fixture))
        break;

      g_assert_cmpint (gpu_memory_get_flags (GPU_MEMORY (buffers[i])), ==,
                       GPU_MEMORY_FLAGS_SHAREABLE);
    }

  if (!is_host (fixture))
    {
      g_assert_cmpint (gpu_buffer_export_fd (buffers[1], GPU_FD_KINDS_OPAQUE, &whole_size, &offset,
                                             &error), ==, -1);
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "SHAREABLE");
      test_assert_content (buffers[1], threes);
      g_object_unref (buffers[0]);
      g_object_unref (buffers[1]);
      return;
    }

  test_assert_content (buffers[2], threes);
  for (guint i = 0; i < G_N_ELEMENTS (buffers); i++)
    g_object_unref (buffers[i]);
}

/* A buffer that was imported by a handle only has the flag if it can be exported again. */
static void
share_reexport (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuBuffer) imported = NULL;
  g_autoptr (GpuBuffer) slice = NULL;
  g_autoptr (GUnixFDList) fds = g_unix_fd_list_new ();
  g_autoptr (GBytes) handle = NULL;
  g_autoptr (GBytes) again = NULL;
  g_autoptr (GBytes) threes = test_value_bytes (SIZE, 3);

  if (!test_has (fixture, GPU_CAPABILITIES_IPC_FDS))
    return;
  buffer = shareable (fixture, 3);
  handle = gpu_buffer_export_fds (buffer, fds, &error);
  g_assert_no_error (error);
  imported = gpu_buffer_new_from_fds (fixture->context, handle, fds, &error);
  g_assert_no_error (error);
  test_assert_content (imported, threes);
  slice = gpu_buffer_slice (imported, 0, SIZE / 2, &error);
  g_assert_no_error (error);
  again = gpu_buffer_export_fds (slice, fds, &error);
  if (gpu_memory_get_flags (GPU_MEMORY (imported)) == GPU_MEMORY_FLAGS_SHAREABLE)
    {
      g_assert_no_error (error);
      return;
    }
  g_assert_false (is_host (fixture));
  g_assert_cmpint (gpu_memory_get_flags (GPU_MEMORY (imported)), ==, GPU_MEMORY_FLAGS_NONE);
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "imported", "only its owner");
  g_assert_null (gpu_buffer_export_handle (imported, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "imported memory",
                         "the process that allocated it");
}

static void
share_opaque (TestFixture *fixture)
{
  if (passes (fixture, GPU_FD_KINDS_OPAQUE))
    check_kind (fixture, GPU_FD_KINDS_OPAQUE);
}

/* Returns whether Linux can compare descriptors: since 6.10, or with kcmp(), which the rules of
 * containers often refuse. Otherwise the library cannot determine whether a driver has closed the
 * descriptor of a dma-buf, and leaks it: closing a descriptor of the program would be worse. */
static gboolean
can_compare_descriptors (void)
{
#ifdef SYS_kcmp
  if (syscall (SYS_kcmp, getpid (), getpid (), 0, STDOUT_FILENO, STDOUT_FILENO) == 0)
    return TRUE;
#endif
  return fcntl (STDOUT_FILENO, F_DUPFD_QUERY, STDOUT_FILENO) == 1;
}

static void
share_dma_buf (TestFixture *fixture)
{
  guint before = test_count_descriptors ("dmabuf|memfd:");

  if (!passes (fixture, GPU_FD_KINDS_DMA_BUF))
    return;
  check_kind (fixture, GPU_FD_KINDS_DMA_BUF);
  if (can_compare_descriptors ())
    g_assert_cmpuint (test_count_descriptors ("dmabuf|memfd:"), ==, before);
  else
    g_test_skip ("open descriptors are not counted, because Linux cannot compare them");
}

/* An import that fails keeps no descriptor, in any of its steps. */
static void
share_failed (TestFixture *fixture)
{
#ifdef HAVE_CUDA
  const char *const faults[] = { "cuImportExternalMemory:1", "cuExternalMemoryGetMappedBuffer:1" };
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GError) error = NULL;
  gsize whole_size, offset;
  guint before;
  int fd;

  if (!g_str_has_prefix (gpu_device_get_name (fixture->device), "Stand-in"))
    {
      g_test_skip ("the driver has no calls that fail");
      return;
    }
  if (!passes (fixture, GPU_FD_KINDS_DMA_BUF))
    return;

  buffer = shareable (fixture, 3);
  fd = gpu_buffer_export_fd (buffer, GPU_FD_KINDS_DMA_BUF, &whole_size, &offset, &error);
  g_assert_no_error (error);
  before = test_count_descriptors ("memfd:");

  for (guint i = 0; i < G_N_ELEMENTS (faults); i++)
    {
      g_assert_true (GPUMEM_CUDA_DRIVER (set_fail) (faults[i]));
      g_assert_null (gpu_buffer_new_from_fd (fixture->context, GPU_MEMORY_FLAGS_NONE,
                                             GPU_FD_KINDS_DMA_BUF, fd, whole_size, offset, SIZE,
                                             &error));
      g_assert_true (GPUMEM_CUDA_DRIVER (set_fail) (""));
      g_assert_nonnull (strstr (error->message, i == 0 ? "cuImport" : "cuExternalMemoryGet"));
      g_clear_error (&error);
      /* The first fault comes before the driver could have closed the descriptor. */
      if (i == 0 || can_compare_descriptors ())
        g_assert_cmpuint (test_count_descriptors ("memfd:"), ==, before);
      else
        g_test_skip ("open descriptors are not counted, because Linux cannot compare them");
    }
  close (fd);
#else
  g_test_skip ("built without CUDA");
#endif
}

/* If the driver closes the descriptor of a dma-buf, its number then belongs to the program. */
static void
share_closed (TestFixture *fixture)
{
#ifdef HAVE_CUDA
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuBuffer) imported = NULL;
  g_autoptr (GError) error = NULL;
  gsize whole_size, offset;
  int own[16];
  int fd;

  if (!g_str_has_prefix (gpu_device_get_name (fixture->device), "Stand-in"))
    {
      g_test_skip ("the driver has one way to treat descriptors");
      return;
    }
  if (!passes (fixture, GPU_FD_KINDS_DMA_BUF))
    return;

  buffer = shareable (fixture, 3);
  fd = gpu_buffer_export_fd (buffer, GPU_FD_KINDS_DMA_BUF, &whole_size, &offset, &error);
  g_assert_no_error (error);
  GPUMEM_CUDA_DRIVER (close_dma_bufs) (TRUE);
  imported = gpu_buffer_new_from_fd (fixture->context, GPU_MEMORY_FLAGS_NONE,
                                     GPU_FD_KINDS_DMA_BUF, fd, whole_size, offset, SIZE, &error);
  GPUMEM_CUDA_DRIVER (close_dma_bufs) (FALSE);
  g_assert_no_error (error);
  for (guint i = 0; i < G_N_ELEMENTS (own); i++)
    own[i] = fcntl (fd, F_DUPFD_CLOEXEC, 0);
  g_clear_object (&imported);
  for (guint i = 0; i < G_N_ELEMENTS (own); i++)
    g_assert_cmpint (close (own[i]), ==, 0);
  close (fd);
#else
  g_test_skip ("built without CUDA");
#endif
}

/* Imports memory of another library. A sealed file simulates this memory. */
static void
share_foreign_file (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) host = NULL;
  g_autoptr (GpuDevice) device = gpu_device_find ("host", &error);
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuBuffer) here = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  gsize whole_size;
  gsize offset;
  int fd;

  g_assert_no_error (error);
  if (!g_str_has_prefix (gpu_device_get_name (fixture->device), "Stand-in")
      && !g_str_equal (gpu_device_get_backend (fixture->device), "host"))
    {
      g_test_skip ("real drivers do not import files");
      return;
    }
  if (!passes (fixture, GPU_FD_KINDS_OPAQUE))
    return;
  host = gpu_context_new (device, GPU_CONTEXT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  buffer = gpu_buffer_new (host, GPU_MEMORY_FLAGS_SHAREABLE, SIZE, &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_buffer_write_bytes (buffer, NULL, 0, bytes, NULL, &error), error);
  fd = gpu_buffer_export_fd (buffer, GPU_FD_KINDS_OPAQUE, &whole_size, &offset, &error);
  g_assert_no_error (error);
  here = gpu_buffer_new_from_fd (fixture->context, GPU_MEMORY_FLAGS_NONE, GPU_FD_KINDS_OPAQUE, fd,
                                 whole_size, offset, SIZE, &error);
  g_assert_no_error (error);
  close (fd);
  test_assert_content (here, bytes);
}

/* --- another process ------------------------------------------------------------------------ */

/* A message of one byte with space for an attached descriptor. */
typedef struct
{
  char          byte;
  struct iovec  vector;
  union
  {
    char           bytes[CMSG_SPACE (sizeof (int))];
    struct cmsghdr align;
  } control;
  struct msghdr header;
} Message;

static void
message_init (Message *message)
{
  memset (message, 0, sizeof *message);
  message->vector = (struct iovec) { &message->byte, 1 };
  message->header.msg_iov = &message->vector;
  message->header.msg_iovlen = 1;
  message->header.msg_control = message->control.bytes;
  message->header.msg_controllen = sizeof message->control.bytes;
}

static int
receive_fd (void)
{
  struct cmsghdr *part;
  Message message;
  int fd;

  message_init (&message);
  g_assert_cmpint (recvmsg (CHILD_FD, &message.header, MSG_CMSG_CLOEXEC), ==, 1);
  part = CMSG_FIRSTHDR (&message.header);
  g_assert_nonnull (part);
  g_assert_cmpint (part->cmsg_type, ==, SCM_RIGHTS);
  memcpy (&fd, CMSG_DATA (part), sizeof fd);
  return fd;
}

static void
send_fd (int to, int fd)
{
  struct cmsghdr *part;
  Message message;

  message_init (&message);
  part = CMSG_FIRSTHDR (&message.header);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN (sizeof fd);
  memcpy (CMSG_DATA (part), &fd, sizeof fd);
  g_assert_cmpint (sendmsg (to, &message.header, 0), ==, 1);
}

/* --child DEVICE KIND WHOLE-SIZE OFFSET SIZE: imports memory from the file descriptor that the
 * parent process sends, checks that each byte is 3, and fills the memory with 9. */
static int
child (char **arguments)
{
  const guint8 value = 9;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDevice) device = gpu_device_find (arguments[0], &error);
  g_autoptr (GpuContext) context = device != NULL ? gpu_context_new (device, GPU_CONTEXT_FLAGS_NONE,
                                                                     &error) : NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GBytes) expected = NULL;
  gsize size = g_ascii_strtoull (arguments[4], NULL, 10);

  g_assert_no_error (error);
  buffer = gpu_buffer_new_from_fd (context, GPU_MEMORY_FLAGS_NONE, atoi (arguments[1]),
                                   receive_fd (),
                                   g_ascii_strtoull (arguments[2], NULL, 10),
                                   g_ascii_strtoull (arguments[3], NULL, 10), size, &error);
  g_assert_no_error (error);
  expected = test_value_bytes (size, 3);
  test_assert_content (buffer, expected);
  test_assert_ok (gpu_buffer_fill (buffer, NULL, 0, size, &value, 1, NULL, &error), error);
  return 0;
}

static void
share_process (TestFixture *fixture)
{
  g_autoptr (GSubprocessLauncher) launcher = g_subprocess_launcher_new (G_SUBPROCESS_FLAGS_NONE);
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GSubprocess) other = NULL;
  g_autoptr (GBytes) expected = test_value_bytes (SIZE, 9);
  g_autofree char *program = g_file_read_link ("/proc/self/exe", &error);
  g_autofree char *whole_text = NULL;
  g_autofree char *offset_text = NULL;
  g_autofree char *size_text = g_strdup_printf ("%" G_GSIZE_FORMAT, SIZE);
  gsize whole_size;
  gsize offset;
  int ends[2];
  int fd;

  if (!passes (fixture, GPU_FD_KINDS_OPAQUE))
    return;
  buffer = shareable (fixture, 3);
  fd = gpu_buffer_export_fd (buffer, GPU_FD_KINDS_OPAQUE, &whole_size, &offset, &error);
  g_assert_no_error (error);
  whole_text = g_strdup_printf ("%" G_GSIZE_FORMAT, whole_size);
  offset_text = g_strdup_printf ("%" G_GSIZE_FORMAT, offset);
  g_assert_cmpint (socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), ==, 0);
  g_subprocess_launcher_take_fd (launcher, ends[1], CHILD_FD);
  other = g_subprocess_launcher_spawn (launcher, &error, program, "--child",
                                       gpu_device_get_id (fixture->device), "1", whole_text,
                                       offset_text, size_text, NULL);
  g_assert_no_error (error);
  send_fd (ends[0], fd);
  close (fd);
  close (ends[0]);
  g_subprocess_wait_check (other, NULL, &error);
  g_assert_no_error (error);
  test_assert_content (buffer, expected);
}

/* --- invalid calls -------------------------------------------------------------------------- */

static void
share_invalid_calls (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) plain = test_buffer (fixture, SIZE);
  GpuFdKinds imported = gpu_context_get_import_kinds (fixture->context);
  GpuContext *context = fixture->context;

  g_assert_cmpint (gpu_buffer_export_fd (plain, 3, NULL, NULL, &error), ==, -1);
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_buffer_export_fd", "opaque",
                         "dma-buf");
  if (gpu_context_get_export_kinds (context) == GPU_FD_KINDS_NONE)
    {
      g_assert_cmpint (gpu_buffer_export_fd (plain, GPU_FD_KINDS_OPAQUE, NULL, NULL, &error), ==,
                       -1);
      test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_buffer_export_fd",
                             "opaque, nor of any other kind",
                             gpu_device_get_id (fixture->device));
    }
  else
    {
      g_assert_cmpint (gpu_buffer_export_fd (plain, GPU_FD_KINDS_OPAQUE, NULL, NULL, &error), ==,
                       -1);
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "GPU_MEMORY_FLAGS_SHAREABLE");
    }
  if ((imported & GPU_FD_KINDS_DMA_BUF) == 0)
    {
      g_assert_null (gpu_buffer_new_from_fd (context, 0, GPU_FD_KINDS_DMA_BUF, 0, SIZE, 0, SIZE,
                                             &error));
      test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_buffer_new_from_fd", "dma-buf",
                             imported != 0 ? "only of: " : "nor of any other kind",
                             gpu_device_get_id (fixture->device));
    }
  if ((imported & GPU_FD_KINDS_OPAQUE) == 0)
    return;
  g_assert_null (gpu_buffer_new_from_fd (context, 0, GPU_FD_KINDS_OPAQUE, 0, 4096, 4000, 97,
                                         &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "97 bytes", "4000", "4096");
  g_assert_null (gpu_buffer_new_from_fd (context, 0, GPU_FD_KINDS_OPAQUE, -1, 4096, 0, 96,
                                         &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "-1");
}

/* Imports file descriptors that are not of memory, or whose memory is too small. */
static void
share_wrong_descriptor (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  int fd = memfd_create ("other", MFD_CLOEXEC);

  if ((gpu_context_get_import_kinds (fixture->context) & GPU_FD_KINDS_OPAQUE) != 0)
    {
      g_assert_null (gpu_buffer_new_from_fd (fixture->context, 0, GPU_FD_KINDS_OPAQUE, fd, SIZE, 0,
                                             SIZE, &error));
      test_assert_gpu_error (error, GPU_ERROR_IPC, "gpu_buffer_new_from_fd");
    }
  else
    g_test_skip_printf ("%s does not import opaque descriptors",
                        gpu_device_get_id (fixture->device));
  close (fd);
}

/* An import duplicates the descriptor. The test sets the limit of open descriptors so that the
 * context can be created, but the import fails. */
static void
share_descriptor_limit (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GArray) taken = g_array_new (FALSE, FALSE, sizeof (int));
  struct rlimit limit;
  struct rlimit lowered;
  gsize whole_size;
  int fd;

  if (!passes (fixture, GPU_FD_KINDS_OPAQUE))
    return;
  buffer = shareable (fixture, 3);
  fd = gpu_buffer_export_fd (buffer, GPU_FD_KINDS_OPAQUE, &whole_size, NULL, &error);
  g_assert_no_error (error);
  g_clear_object (&buffer);
  g_assert_cmpint (getrlimit (RLIMIT_NOFILE, &limit), ==, 0);
  lowered = (struct rlimit) { 256, limit.rlim_max };
  g_assert_cmpint (setrlimit (RLIMIT_NOFILE, &lowered), ==, 0);
  for (int one = 0; (one = open ("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;)
    g_array_append_val (taken, one);
  g_assert_null (gpu_buffer_new_from_fd (fixture->context, 0, GPU_FD_KINDS_OPAQUE, fd, whole_size,
                                         0, SIZE, &error));
  g_assert_cmpint (setrlimit (RLIMIT_NOFILE, &limit), ==, 0);
  for (guint i = 0; i < taken->len; i++)
    close (g_array_index (taken, int, i));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "gpu_buffer_new_from_fd", "RLIMIT_NOFILE", "256");
  buffer = gpu_buffer_new_from_fd (fixture->context, 0, GPU_FD_KINDS_OPAQUE, fd, whole_size, 0,
                                   SIZE, &error);
  g_assert_no_error (error);
  close (fd);
}

static void
assert_refused (TestFixture *fixture, int fd, GpuError code, const char *words)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *number = g_strdup_printf ("file descriptor %d", fd);

  g_assert_null (gpu_buffer_new_from_fd (fixture->context, 0, GPU_FD_KINDS_OPAQUE, fd, 4096, 0,
                                         4096, &error));
  test_assert_gpu_error (error, code, "gpu_buffer_new_from_fd", number, words);
}

/* All back ends use the same check of the arguments. */
static void
share_descriptors (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  int folder = open ("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int device = open ("/dev/null", O_RDWR | O_CLOEXEC);
  int ends[2];
  int pipes[2];

  g_assert_cmpint (pipe (pipes), ==, 0);
  g_assert_cmpint (socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), ==, 0);
  if ((gpu_context_get_import_kinds (fixture->context) & GPU_FD_KINDS_OPAQUE) != 0)
    {
      assert_refused (fixture, -1, GPU_ERROR_INVALID_ARGUMENT, "not open");
      assert_refused (fixture, pipes[0], GPU_ERROR_IPC, "a pipe");
      assert_refused (fixture, ends[0], GPU_ERROR_IPC, "a socket");
      assert_refused (fixture, folder, GPU_ERROR_IPC, "a directory");
      /* Descriptors of NVIDIA's memory are character devices. The library therefore passes any
       * character device to the driver, and only the driver can refuse it. */
      if (!test_is_opencl (fixture))
        {
          g_assert_null (gpu_buffer_new_from_fd (fixture->context, 0, GPU_FD_KINDS_OPAQUE, device,
                                                 4096, 0, 4096, &error));
          test_assert_gpu_error (error, GPU_ERROR_IPC, "gpu_buffer_new_from_fd");
        }
    }
  else
    g_test_skip_printf ("%s does not import opaque descriptors",
                        gpu_device_get_id (fixture->device));
  for (guint i = 0; i < 2; i++)
    {
      close (pipes[i]);
      close (ends[i]);
    }
  close (folder);
  close (device);
  if ((gpu_context_get_import_kinds (fixture->context) & GPU_FD_KINDS_OPAQUE) != 0)
    assert_refused (fixture, folder, GPU_ERROR_INVALID_ARGUMENT, "not open");
}

static gboolean
takes_files (TestFixture *fixture)
{
  if (g_str_equal (gpu_device_get_backend (fixture->device), "host"))
    return TRUE;
  g_test_skip ("memory of a driver is not a file");
  return FALSE;
}

/* Creates a memory file as another program may create it. */
static int
file_new (gsize size, int seals)
{
  int fd = memfd_create ("other", MFD_CLOEXEC | MFD_ALLOW_SEALING);

  g_assert_cmpint (ftruncate (fd, size), ==, 0);
  g_assert_cmpint (fcntl (fd, F_ADD_SEALS, seals), ==, 0);
  return fd;
}

/* A file that can be truncated is refused: if the file shrinks, an access to its mapping crashes
 * the process. */
static void
share_unsealed_file (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GUnixFDList) fds = g_unix_fd_list_new ();
  g_autoptr (GUnixFDList) other = g_unix_fd_list_new ();
  g_autoptr (GBytes) handle = NULL;
  int fd;

  if (!takes_files (fixture))
    return;
  buffer = shareable (fixture, 3);
  fd = file_new (SIZE, F_SEAL_GROW);
  g_assert_null (gpu_buffer_new_from_fd (fixture->context, 0, GPU_FD_KINDS_OPAQUE, fd, SIZE, 0,
                                         SIZE, &error));
  test_assert_gpu_error (error, GPU_ERROR_IPC, "gpu_buffer_new_from_fd", "F_SEAL_SHRINK");
  handle = gpu_buffer_export_fds (buffer, fds, &error);
  g_assert_no_error (error);
  g_assert_cmpint (g_unix_fd_list_append (other, fd, &error), ==, 0);
  g_assert_null (gpu_buffer_new_from_fds (fixture->context, handle, other, &error));
  test_assert_gpu_error (error, GPU_ERROR_IPC, "gpu_buffer_new_from_fds", "F_SEAL_SHRINK");
  close (fd);
}

/* A range that is one byte longer than an existing mapping needs a new mapping. */
static void
share_longer_range (TestFixture *fixture)
{
  const gsize page = sysconf (_SC_PAGESIZE);
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) first = NULL;
  g_autoptr (GpuBuffer) second = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (page + 1);
  g_autofree guint8 *content = g_malloc0 (page + 1);
  int fd;

  if (!takes_files (fixture))
    return;
  fd = file_new (2 * page, F_SEAL_SHRINK);
  first = gpu_buffer_new_from_fd (fixture->context, 0, GPU_FD_KINDS_OPAQUE, fd, 2 * page, 0, page,
                                  &error);
  g_assert_no_error (error);
  second = gpu_buffer_new_from_fd (fixture->context, 0, GPU_FD_KINDS_OPAQUE, fd, 2 * page, 0,
                                   page + 1, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (gpu_memory_get_native_handle (GPU_MEMORY (first)), !=,
                    gpu_memory_get_native_handle (GPU_MEMORY (second)));
  test_assert_ok (gpu_buffer_write_bytes (second, NULL, 0, bytes, NULL, &error), error);
  g_assert_cmpint (pread (fd, content, page + 1, 0), ==, page + 1);
  test_assert_mem (content, g_bytes_get_data (bytes, NULL), page + 1);
  test_same_memory (fixture, first, 16, second, 16);
  close (fd);
}

/* A range that starts within an existing mapping and ends after this mapping needs another
 * mapping. */
static void
share_past_end (TestFixture *fixture)
{
  const gsize page = sysconf (_SC_PAGESIZE);
  const gsize offset = page / 2;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) first = NULL;
  g_autoptr (GpuBuffer) second = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (page);
  g_autofree guint8 *content = g_malloc0 (page);
  int fd;

  if (!takes_files (fixture))
    return;
  fd = file_new (2 * page, F_SEAL_SHRINK);
  first = gpu_buffer_new_from_fd (fixture->context, 0, GPU_FD_KINDS_OPAQUE, fd, 2 * page, 0, page,
                                  &error);
  g_assert_no_error (error);
  second = gpu_buffer_new_from_fd (fixture->context, 0, GPU_FD_KINDS_OPAQUE, fd, 2 * page, offset,
                                   page, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (gpu_memory_get_native_handle (GPU_MEMORY (second)), !=,
                    gpu_memory_get_native_handle (GPU_MEMORY (first)) + offset);
  test_assert_ok (gpu_buffer_write_bytes (second, NULL, 0, bytes, NULL, &error), error);
  g_assert_cmpint (pread (fd, content, page, (off_t) offset), ==, page);
  test_assert_mem (content, g_bytes_get_data (bytes, NULL), page);
  close (fd);
}

static gsize
get_address_space (void)
{
  g_autofree char *text = NULL;

  g_assert_true (g_file_get_contents ("/proc/self/statm", &text, NULL, NULL));
  return g_ascii_strtoull (text, NULL, 10) * sysconf (_SC_PAGESIZE);
}

/* A hostile process may send a file of any size: the library only maps the requested range, even if
 * the range is far from the start of the file. The library tracks two ranges of one file as the
 * same memory. */
static void
share_sparse_file (TestFixture *fixture)
{
  const gsize whole = (gsize) 1 << 44;
  const gsize far = whole - 8192 - 100;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) near = NULL;
  g_autoptr (GpuBuffer) end = NULL;
  g_autoptr (GpuBuffer) wider = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (5000);
  guint8 content[5000];
  gsize before;
  int fd;

  if (!takes_files (fixture))
    return;
  fd = file_new (whole, F_SEAL_SHRINK);
  before = get_address_space ();
  near = gpu_buffer_new_from_fd (fixture->context, 0, GPU_FD_KINDS_OPAQUE, fd, whole, 0, 4096,
                                 &error);
  g_assert_no_error (error);
  end = gpu_buffer_new_from_fd (fixture->context, 0, GPU_FD_KINDS_OPAQUE, fd, whole, far, 5000,
                                &error);
  g_assert_no_error (error);
  wider = gpu_buffer_new_from_fd (fixture->context, 0, GPU_FD_KINDS_OPAQUE, fd, whole, far - 6000,
                                  12000, &error);
  g_assert_no_error (error);
  /* Threads of the library may take 64 MiB for their own heaps. */
  g_assert_cmpuint (get_address_space (), <, before + ((gsize) 1 << 30));
  test_assert_ok (gpu_buffer_write_bytes (end, NULL, 0, bytes, NULL, &error), error);
  g_assert_cmpint (pread (fd, content, sizeof content, far), ==, sizeof content);
  test_assert_mem (content, g_bytes_get_data (bytes, NULL), sizeof content);
  test_same_memory (fixture, end, 64, wider, 6064);

  if (gpu_device_get_max_allocation (fixture->device) >= whole)
    {
      close (fd);
      return;
    }
  g_assert_null (gpu_buffer_new_from_fd (fixture->context, 0, GPU_FD_KINDS_OPAQUE, fd, whole, 0,
                                         whole, &error));
  test_assert_gpu_error (error, GPU_ERROR_IPC, "largest allocation");
  close (fd);
}

/* Imports the last bytes of the file at its current size, and checks them. */
static void
check_end (TestFixture *fixture, int fd, gsize size, guint8 value)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_value_bytes (100, value);
  g_autoptr (GpuBuffer) end = gpu_buffer_new_from_fd (fixture->context, GPU_MEMORY_FLAGS_NONE,
                                                      GPU_FD_KINDS_OPAQUE, fd, size, size - 100,
                                                      100, &error);
  guint8 content[100];

  g_assert_no_error (error);
  test_assert_ok (gpu_buffer_write_bytes (end, NULL, 0, bytes, NULL, &error), error);
  g_assert_cmpint (pread (fd, content, sizeof content, size - 100), ==, sizeof content);
  test_assert_value (content, value, sizeof content);
}

/* A file may grow while parts of it are mapped; all mappings are tracked as the same memory. */
static void
share_growing_file (TestFixture *fixture)
{
  const guint8 values[] = { 3, 7 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) held = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) later = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GBytes) sevens = test_value_bytes (SIZE, 7);
  g_autoptr (GpuBuffer) before = NULL;
  g_autoptr (GpuBuffer) after = NULL;
  g_autoptr (GpuEvent) gate = NULL;
  int fd;

  if (!takes_files (fixture))
    return;
  fd = file_new (SIZE, F_SEAL_SHRINK);
  before = gpu_buffer_new_from_fd (fixture->context, GPU_MEMORY_FLAGS_NONE, GPU_FD_KINDS_OPAQUE, fd,
                                   SIZE, 0, SIZE, &error);
  g_assert_no_error (error);
  g_assert_cmpint (ftruncate (fd, 100 * SIZE), ==, 0);
  check_end (fixture, fd, 100 * SIZE, 5);
  after = gpu_buffer_new_from_fd (fixture->context, GPU_MEMORY_FLAGS_NONE, GPU_FD_KINDS_OPAQUE, fd,
                                  100 * SIZE, 0, 100 * SIZE, &error);
  g_assert_no_error (error);
  gate = test_gate (fixture, held);
  test_assert_ok (gpu_stream_fill (held, GPU_MEMORY (before), 0, SIZE, &values[0], 1, &error),
                  error);
  test_assert_ok (gpu_stream_fill (later, GPU_MEMORY (after), 0, SIZE, &values[1], 1, &error),
                  error);
  g_assert_cmpuint (test_get_number (later, "n-hazard-waits"), >, 0);
  test_open (gate);
  test_synchronize (later);
  test_assert_content (before, sevens);
  close (fd);
}

/* A file sealed against writes can only be imported as read-only memory. */
static void
share_read_only_file (TestFixture *fixture)
{
  const GpuMemoryFlags flags = GPU_MEMORY_FLAGS_READ_ONLY;
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) buffer = NULL;
  GpuContext *context = fixture->context;
  int fd;

  if (!takes_files (fixture))
    return;
  fd = file_new (SIZE, F_SEAL_SHRINK);
  g_assert_cmpint (pwrite (fd, g_bytes_get_data (bytes, NULL), SIZE, 0), ==, SIZE);
  g_assert_cmpint (fcntl (fd, F_ADD_SEALS, F_SEAL_WRITE), ==, 0);
  g_assert_null (gpu_buffer_new_from_fd (context, GPU_MEMORY_FLAGS_NONE, GPU_FD_KINDS_OPAQUE, fd,
                                         SIZE,
                                         0, SIZE, &error));
  test_assert_gpu_error (error, GPU_ERROR_IPC, "gpu_buffer_new_from_fd",
                         "GPU_MEMORY_FLAGS_READ_ONLY");
  for (guint i = 0; i < 2; i++)
    {
      buffer = gpu_buffer_new_from_fd (context, i == 0 ? flags : flags | GPU_MEMORY_FLAGS_UNTRACKED,
                                       GPU_FD_KINDS_OPAQUE, fd, SIZE, 0, SIZE, &error);
      g_assert_no_error (error);
      test_assert_content (buffer, bytes);
      g_assert_false (gpu_buffer_write_bytes (buffer, NULL, 0, bytes, NULL, &error));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_buffer_write_bytes",
                             "read only");
      g_assert_null (gpu_buffer_map (buffer, NULL, GPU_MAP_FLAGS_WRITE, 0, SIZE, NULL, &error));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_buffer_map", "read only");
      test_assert_content (buffer, bytes);
      g_clear_object (&buffer);
    }
  close (fd);
}

int
main (int argc, char **argv)
{
  if (argc == 7 && g_str_equal (argv[1], "--child"))
    return child (argv + 2);
  test_init (&argc, &argv);
  test_add ("opaque", share_opaque);
  test_add ("dma-buf", share_dma_buf);
  test_add ("failed", share_failed);
  test_add ("closed", share_closed);
  test_add ("peer", share_peer);
  test_add ("export-imported", share_export_imported);
  test_add ("reexport", share_reexport);
  test_add ("foreign-file", share_foreign_file);
  test_add ("process", share_process);
  test_add ("invalid-calls", share_invalid_calls);
  test_add ("wrong-descriptor", share_wrong_descriptor);
  test_add ("descriptors", share_descriptors);
  test_add ("descriptor-limit", share_descriptor_limit);
  test_add ("unsealed-file", share_unsealed_file);
  test_add ("longer-range", share_longer_range);
  test_add ("past-end", share_past_end);
  test_add ("sparse-file", share_sparse_file);
  test_add ("growing-file", share_growing_file);
  test_add ("read-only-file", share_read_only_file);
  return test_run ();
}
