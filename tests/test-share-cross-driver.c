/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* OpenCL buffers over memory of CUDA or of the host, imported with cl_khr_external_memory. PoCL
 * supports such imports only under the OpenCL layer, which fails a test that uses imported memory
 * without acquiring it. */
#include "config.h"

#include <sys/mman.h>
#include <unistd.h>

#include "test-util.h"

#define SIZE ((gsize) 65536)
#define CHILD_FD 3
#define OPAQUE GPU_FD_KINDS_OPAQUE

static const char *source =
  "kernel void twist (global uchar *data) { data[get_global_id (0)] ^= 0x5a; }\n"
  "kernel void add (global uchar *to, global const uchar *from)\n"
  "{ to[get_global_id (0)] += from[get_global_id (0)]; }\n";

/* --- pairs of devices ------------------------------------------------------------------------- */

typedef struct
{
  TestFixture *here;                /* the OpenCL device that imports the memory */
  GpuContext  *there;               /* the context that exports the memory */
  GpuBuffer   *theirs;              /* SIZE random bytes */
  GpuBuffer   *ours;                /* the same memory */
  GBytes      *bytes;
} Pair;

static gboolean
is_stand_in (GpuDevice *device)
{
  return g_str_equal (gpu_device_get_backend (device), "host")
         || g_str_has_prefix (gpu_device_get_name (device), "Stand-in");
}

/* Returns whether @to may import memory of @device. A GPU imports only memory of the same GPU. A
 * CPU device is PoCL under the OpenCL layer, which can only import memfds: those of the host back
 * end and those of the stand-in for CUDA. */
static gboolean
may_give (GpuDevice *device, GpuDevice *to)
{
  if (g_str_equal (gpu_device_get_backend (device), "opencl"))
    return FALSE;
  if (gpu_device_get_device_type (to) == GPU_DEVICE_TYPE_CPU)
    return is_stand_in (device);
  return test_get_string (device, "pci-bus-id") != NULL && !is_stand_in (device)
         && g_strcmp0 (test_get_string (device, "pci-bus-id"),
                       test_get_string (to, "pci-bus-id")) == 0;
}

static GpuBuffer *
take_range (TestFixture *here, GpuMemoryFlags flags, GpuBuffer *theirs, gsize size)
{
  g_autoptr (GError) error = NULL;
  GpuBuffer *buffer;
  gsize whole_size;
  gsize offset;
  int fd = gpu_buffer_export_fd (theirs, OPAQUE, &whole_size, &offset, &error);

  g_assert_no_error (error);
  buffer = gpu_buffer_new_from_fd (here->context, flags, OPAQUE, fd, whole_size, offset, size,
                                   &error);
  close (fd);
  g_assert_no_error (error);
  g_assert_cmpuint (gpu_memory_get_size (GPU_MEMORY (buffer)), ==, size);
  return buffer;
}

static void
pair_init (Pair *pair, TestFixture *here, GpuDevice *device)
{
  g_autoptr (GError) error = NULL;

  pair->here = here;
  pair->there = gpu_context_new (device, GPU_CONTEXT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  pair->theirs = gpu_buffer_new (pair->there, GPU_MEMORY_FLAGS_SHAREABLE, SIZE, &error);
  g_assert_no_error (error);
  pair->bytes = test_random_bytes (SIZE);
  test_assert_ok (gpu_buffer_write_bytes (pair->theirs, NULL, 0, pair->bytes, NULL, &error),
                  error);
  pair->ours = take_range (here, GPU_MEMORY_FLAGS_NONE, pair->theirs, SIZE);
}

static void
pair_clear (Pair *pair)
{
  g_clear_object (&pair->ours);
  g_clear_object (&pair->theirs);
  g_clear_object (&pair->there);
  g_clear_pointer (&pair->bytes, g_bytes_unref);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Pair, pair_clear)

static gboolean
has_pair (TestFixture *fixture)
{
  GPtrArray *devices = test_devices ();

  for (guint i = 0; i < devices->len; i++)
    if (may_give (g_ptr_array_index (devices, i), fixture->device))
      return TRUE;
  return FALSE;
}

static void
for_pairs (TestFixture *fixture, void (*func) (Pair *pair))
{
  GPtrArray *devices = test_devices ();

  for (guint i = 0; i < devices->len; i++)
    {
      GpuDevice *device = g_ptr_array_index (devices, i);
      g_auto (Pair) pair = { 0 };

      if (!may_give (device, fixture->device))
        continue;
      g_test_message ("memory of %s", gpu_device_get_id (device));
      pair_init (&pair, fixture, device);
      func (&pair);
    }
}

/* Runs the test under the OpenCL layer, which emulates external memory, if the driver cannot import
 * external memory itself and is PoCL. */
static void
run (TestFixture *fixture, const char *name, void (*func) (TestFixture *))
{
  if (!test_is_opencl (fixture) || !has_pair (fixture))
    {
      g_test_skip_printf ("%s: not OpenCL, or no device with memory to import",
                          gpu_device_get_id (fixture->device));
      return;
    }
  if ((gpu_context_get_import_kinds (fixture->context) & OPAQUE) != 0)
    {
      func (fixture);
      return;
    }
  if (!test_is_pocl (fixture))
    {
      g_test_skip_printf ("%s cannot import memory", gpu_device_get_id (fixture->device));
      return;
    }
  g_setenv ("GPUMEM_LAYER_EXTERNAL", "opaque-fd", TRUE);
  test_run_under_layer (fixture, name);
  g_unsetenv ("GPUMEM_LAYER_EXTERNAL");
}

static void
fill (GpuStream *stream, GpuBuffer *buffer, gsize offset, gsize size, guint8 value)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), offset, size, &value, 1, &error),
                  error);
}

static void
fill_and_wait (GpuBuffer *buffer, gsize offset, gsize size, guint8 value)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_buffer_fill (buffer, NULL, offset, size, &value, 1, NULL, &error), error);
}

/* @second is NULL for a kernel with one argument. */
static void
launch (GpuStream *stream, GpuKernel *kernel, gsize size, GpuBuffer *first, GpuBuffer *second)
{
  const GpuExtent grid = { size, 1, 1 };
  g_autoptr (GError) error = NULL;

  if (second == NULL)
    test_assert_ok (gpu_stream_launch (stream, kernel, &grid, NULL, &error, first), error);
  else
    test_assert_ok (gpu_stream_launch (stream, kernel, &grid, NULL, &error, first, second), error);
}

static void
check_value (GpuBuffer *buffer, guint8 value)
{
  g_autoptr (GBytes) expected = test_value_bytes (gpu_memory_get_size (GPU_MEMORY (buffer)),
                                                  value);

  test_assert_content (buffer, expected);
}

/* --- data, both ways -------------------------------------------------------------------------- */

static void
data (Pair *pair)
{
  g_autoptr (GpuKernel) kernel = test_kernel (pair->here, source, "twist");
  g_autofree guint8 *twisted = g_memdup2 (g_bytes_get_data (pair->bytes, NULL), SIZE);
  g_autoptr (GBytes) expected = NULL;

  test_assert_content (pair->ours, pair->bytes);
  launch (pair->here->stream, kernel, SIZE, pair->ours, NULL);
  test_synchronize (pair->here->stream);
  for (gsize i = 0; i < SIZE; i++)
    twisted[i] ^= 0x5a;
  expected = g_bytes_new (twisted, SIZE);
  test_assert_content (pair->theirs, expected);
  fill_and_wait (pair->theirs, 0, SIZE, 3);
  check_value (pair->ours, 3);
}

static void
share_data (TestFixture *fixture)
{
  for_pairs (fixture, data);
}

static void
part (Pair *pair)
{
  const gsize offset = 8192;
  const gsize size = 4096;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) theirs = gpu_buffer_slice (pair->theirs, offset, size, &error);
  g_autoptr (GpuBuffer) ours = NULL;
  g_autoptr (GpuBuffer) half = NULL;
  g_autoptr (GBytes) expected = NULL;
  g_autofree guint8 *data = g_memdup2 (g_bytes_get_data (pair->bytes, NULL), SIZE);

  g_assert_no_error (error);
  ours = take_range (pair->here, GPU_MEMORY_FLAGS_NONE, theirs, size);
  expected = g_bytes_new (data + offset, size);
  test_assert_content (ours, expected);
  half = gpu_buffer_slice (ours, size / 2, size / 2, &error);
  g_assert_no_error (error);
  fill_and_wait (ours, 0, size / 2, 4);
  fill_and_wait (half, 0, size / 2, 5);
  memset (data + offset, 4, size / 2);
  memset (data + offset + size / 2, 5, size / 2);
  g_clear_pointer (&expected, g_bytes_unref);
  expected = g_bytes_new (data, SIZE);
  test_assert_content (pair->theirs, expected);
}

static void
share_part (TestFixture *fixture)
{
  for_pairs (fixture, part);
}

/* --- every kind of operation ------------------------------------------------------------------ */

static void
copy (GpuStream *stream, GpuBuffer *to, GpuBuffer *from, gsize size)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (to), 0, GPU_MEMORY (from), 0, size,
                                   &error), error);
}

/* Runs every operation. At the end each number is 2 * 3 + 1. */
static void
operations (Pair *pair, GpuStream *stream, GpuStream *other)
{
  const GpuLayout layout = { .row_pitch = 256 };
  const GpuExtent region = { 128, SIZE / 256, 1 };
  GpuMemory *memory = GPU_MEMORY (pair->ours);
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) add = test_kernel (pair->here, source, "add");
  g_autoptr (GpuBuffer) plain = test_buffer_filled (pair->here, SIZE, 3);
  g_autoptr (GpuBuffer) slice = gpu_buffer_slice (pair->ours, SIZE / 2, SIZE / 2, &error);
  g_autoptr (GBytes) ones = test_value_bytes (SIZE, 1);

  g_assert_no_error (error);
  test_assert_ok (gpu_stream_write (stream, memory, 0, ones, &error), error);
  launch (stream, add, SIZE, pair->ours, plain);
  launch (other, add, SIZE / 2, pair->ours, plain);
  launch (other, add, SIZE / 2, slice, plain);
  test_assert_ok (gpu_stream_migrate (stream, &memory, 1, 0, &error), error);
  copy (stream, plain, pair->ours, SIZE);
  fill (other, pair->ours, 0, SIZE, 0);
  copy (stream, pair->ours, plain, SIZE / 2);
  test_assert_ok (gpu_stream_copy_region (other, memory, &layout, GPU_MEMORY (plain), &layout,
                                          &region, &error), error);
  test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (slice), 0, GPU_MEMORY (plain), SIZE / 2,
                                   SIZE / 2, &error), error);
  test_synchronize (stream);
  test_synchronize (other);
  check_value (pair->theirs, 7);
}

static void
operations_on_streams (Pair *pair)
{
  static const GpuStreamFlags flags[] = { GPU_STREAM_FLAGS_NONE, GPU_STREAM_FLAGS_PROFILING,
                                          GPU_STREAM_FLAGS_OUT_OF_ORDER,
                                          GPU_STREAM_FLAGS_OUT_OF_ORDER
                                          | GPU_STREAM_FLAGS_PROFILING };
  g_autoptr (GpuStream) other = test_stream (pair->here, GPU_STREAM_FLAGS_NONE);

  for (guint i = 0; i < G_N_ELEMENTS (flags); i++)
    {
      g_autoptr (GpuStream) stream = test_stream (pair->here, flags[i]);

      operations (pair, stream, other);
      operations (pair, other, stream);
      operations (pair, stream, stream);
    }
}

/* Imported memory must be released by one stream before another stream acquires it. The library
 * therefore orders operations on imported memory even if the memory is untracked. */
static void
operations_untracked (Pair *pair)
{
  g_clear_object (&pair->ours);
  pair->ours = take_range (pair->here, GPU_MEMORY_FLAGS_UNTRACKED, pair->theirs, SIZE);
  operations_on_streams (pair);
}

static void
share_operations (TestFixture *fixture)
{
  for_pairs (fixture, operations_on_streams);
  for_pairs (fixture, operations_untracked);
}

/* Copies through the host to another context, in both directions. */
static void
across (Pair *pair)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) context = gpu_context_new (pair->here->device, GPU_CONTEXT_FLAGS_OWN,
                                                    &error);
  g_autoptr (GpuBuffer) far = NULL;
  g_autoptr (GpuStream) far_stream = NULL;

  g_assert_no_error (error);
  far = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, SIZE, &error);
  g_assert_no_error (error);
  far_stream = gpu_context_get_default_stream (context);
  fill_and_wait (far, 0, SIZE, 8);
  copy (pair->here->stream, pair->ours, far, SIZE);
  test_synchronize (pair->here->stream);
  check_value (pair->theirs, 8);
  fill_and_wait (pair->theirs, 0, SIZE, 9);
  copy (far_stream, far, pair->ours, SIZE);
  check_value (far, 9);
  fill_and_wait (far, 0, SIZE, 10);
  copy (far_stream, pair->ours, far, SIZE);
  test_synchronize (far_stream);
  check_value (pair->theirs, 10);
}

static void
share_copies (TestFixture *fixture)
{
  for_pairs (fixture, across);
}

/* Maps two ranges at the same time, with other work before the unmaps. */
static void
maps (Pair *pair, GpuStream *stream)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMapping) first = NULL;
  g_autoptr (GpuMapping) second = NULL;
  g_autoptr (GBytes) all = NULL;

  fill (stream, pair->ours, 0, SIZE, 1);
  first = gpu_buffer_map (pair->ours, stream, GPU_MAP_FLAGS_WRITE, 0, 4096, NULL, &error);
  g_assert_no_error (error);
  second = gpu_buffer_map (pair->ours, stream, GPU_MAP_FLAGS_READ, 4096, 4096, NULL, &error);
  g_assert_no_error (error);
  fill (pair->here->stream, pair->ours, 8192, SIZE - 8192, 4);
  test_assert_value (GSIZE_TO_POINTER (gpu_mapping_get_address (second)), 1, 4096);
  memset (GSIZE_TO_POINTER (gpu_mapping_get_address (first)), 2, 4096);
  test_assert_ok (gpu_mapping_unmap (first, &error), error);
  fill (stream, pair->ours, 2048, 2048, 3);
  test_assert_ok (gpu_mapping_unmap (second, &error), error);
  fill (stream, pair->ours, 4096, 4096, 4);
  test_synchronize (pair->here->stream);
  test_synchronize (stream);
  all = test_content (pair->theirs);
  test_assert_value (g_bytes_get_data (all, NULL), 2, 2048);
  test_assert_value ((const guint8 *) g_bytes_get_data (all, NULL) + 2048, 3, 2048);
  test_assert_value ((const guint8 *) g_bytes_get_data (all, NULL) + 4096, 4, SIZE - 4096);
}

static void
maps_on_streams (Pair *pair)
{
  g_autoptr (GpuStream) in_order = test_stream (pair->here, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) out_of_order = test_stream (pair->here, GPU_STREAM_FLAGS_OUT_OF_ORDER);

  maps (pair, in_order);
  maps (pair, out_of_order);
}

static void
share_maps (TestFixture *fixture)
{
  for_pairs (fixture, maps_on_streams);
}

/* PoCL accepts work on imported memory after a pending user event: returns FALSE. All other drivers
 * must reject such work: checks the error and returns TRUE. */
static gboolean
is_refused_behind (Pair *pair, GpuStream *stream, GpuEvent *gate)
{
  const guint8 value = 1;
  g_autoptr (GError) error = NULL;

  if (test_is_pocl (pair->here))
    return FALSE;
  g_assert_false (gpu_stream_fill (stream, GPU_MEMORY (pair->ours), 0, SIZE, &value, 1, &error));
  test_assert_gpu_error (error, GPU_ERROR_BUSY, "gpu_stream_fill: ", "user event");
  test_open (gate);
  test_synchronize (stream);
  test_assert_content (pair->theirs, pair->bytes);
  return TRUE;
}

/* If a user event before a use of imported memory fails, later uses of the memory still succeed. */
static void
failure (Pair *pair)
{
  g_autoptr (GpuStream) stream = test_stream (pair->here, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuEvent) gate = test_gate (pair->here, stream);
  g_autoptr (GpuBuffer) plain = test_buffer (pair->here, SIZE);
  g_autoptr (GError) error = NULL;

  if (is_refused_behind (pair, stream, gate))
    return;

  fill (stream, pair->ours, 0, SIZE, 1);
  test_assert_ok (gpu_event_fail (gate, "on purpose", &error), error);
  g_assert_false (gpu_stream_synchronize (stream, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "on purpose");
  test_assert_content (pair->theirs, pair->bytes);
  fill_and_wait (pair->ours, 0, SIZE, 6);
  check_value (pair->theirs, 6);

  /* The library orders a read of imported memory like a write. But the memory keeps its content if
   * the read fails, while the content is undefined if a write fails. */
  g_clear_object (&gate);
  gate = test_gate (pair->here, stream);
  copy (stream, plain, pair->ours, SIZE);
  test_assert_ok (gpu_event_fail (gate, "on purpose", &error), error);
  g_assert_false (gpu_stream_synchronize (stream, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "on purpose");
  check_value (pair->ours, 6);
}

static void
share_failure (TestFixture *fixture)
{
  for_pairs (fixture, failure);
}

/* --- threads ---------------------------------------------------------------------------------- */

#define N_ROUNDS 100

/* Only reads the memory. The library orders reads of imported memory like writes. */
static gpointer
read_often (gpointer data)
{
  Pair *pair = data;
  g_autoptr (GpuStream) stream = test_stream (pair->here, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) plain = test_buffer (pair->here, SIZE);
  g_autoptr (GBytes) content = NULL;

  for (guint i = 0; i < N_ROUNDS; i++)
    copy (stream, plain, pair->ours, SIZE);
  test_synchronize (stream);
  content = test_content (plain);
  test_assert_mem (g_bytes_get_data (content, NULL), g_bytes_get_data (pair->bytes, NULL), SIZE);
  return NULL;
}

/* A stream uses the memory only after the stream that acquired it has released it. */
static void
take_turns (Pair *pair)
{
  g_autoptr (GpuStream) held = test_stream (pair->here, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) other = test_stream (pair->here, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuEvent) gate = test_gate (pair->here, held);
  g_autoptr (GpuBuffer) first = test_buffer (pair->here, SIZE);
  g_autoptr (GpuBuffer) second = test_buffer (pair->here, SIZE);

  if (is_refused_behind (pair, held, gate))
    return;
  copy (held, first, pair->ours, SIZE);
  copy (other, second, pair->ours, SIZE);
  g_assert_cmpuint (test_get_number (other, "n-hazard-waits"), ==, 1);
  test_open (gate);
  test_assert_content (first, pair->bytes);
  test_assert_content (second, pair->bytes);
}

static void
threads (Pair *pair)
{
  GThread *reader;

  take_turns (pair);
  reader = g_thread_new ("reader", read_often, pair);
  read_often (pair);
  g_thread_join (reader);
}

static void
share_threads (TestFixture *fixture)
{
  for_pairs (fixture, threads);
}

/* --- lifetime --------------------------------------------------------------------------------- */

/* Counts the descriptors of shared memory. Other threads may open and close other files. */
static guint
count_fds (void)
{
  return test_count_descriptors ("dmabuf|memfd:|nvidia");
}

/* Drops the imported buffer while work uses it, and then the exported buffer and its context. A
 * second import of the same memory stays usable. */
static void
lifetime (Pair *pair)
{
  g_autoptr (GpuBuffer) again = take_range (pair->here, GPU_MEMORY_FLAGS_NONE, pair->theirs, SIZE);
  guint n_fds;

  fill (pair->here->stream, pair->ours, 0, SIZE, 6);
  g_clear_object (&pair->ours);
  test_synchronize (pair->here->stream);
  check_value (pair->theirs, 6);
  g_clear_object (&pair->theirs);
  g_clear_object (&pair->there);
  check_value (again, 6);
  fill (pair->here->stream, again, 0, SIZE, 7);
  check_value (again, 7);
  n_fds = count_fds ();
  g_clear_object (&again);
  test_synchronize (pair->here->stream);
  g_assert_cmpuint (count_fds (), <=, n_fds);
}

static void
share_lifetime (TestFixture *fixture)
{
  for_pairs (fixture, lifetime);
}

static void
descriptors (Pair *pair)
{
  guint n_fds = 0;

  /* The driver has opened all descriptors for its own use by now: count again */
  for (guint i = 0; i < 30; i++)
    {
      g_autoptr (GpuBuffer) again = take_range (pair->here, GPU_MEMORY_FLAGS_NONE, pair->theirs,
                                                SIZE);

      if (i == 0)
        n_fds = count_fds ();
      check_value (again, i);
      fill_and_wait (again, 0, SIZE, i + 1);
    }
  g_assert_cmpuint (count_fds (), <=, n_fds);
}

static void
descriptors_from_zero (Pair *pair)
{
  fill_and_wait (pair->theirs, 0, SIZE, 0);
  descriptors (pair);
}

static void
share_descriptors (TestFixture *fixture)
{
  for_pairs (fixture, descriptors_from_zero);
}

/* --- another process -------------------------------------------------------------------------- */

/* --child DEVICE WHOLE-SIZE OFFSET: imports descriptor 3, expects the value 3 and writes 9. */
static int
child (char **arguments)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDevice) device = gpu_device_find (arguments[0], &error);
  g_autoptr (GpuContext) context = device != NULL ? gpu_context_new (device, GPU_CONTEXT_FLAGS_NONE,
                                                                     &error) : NULL;
  g_autoptr (GpuBuffer) buffer = NULL;

  g_assert_no_error (error);
  buffer = gpu_buffer_new_from_fd (context, GPU_MEMORY_FLAGS_NONE, OPAQUE, CHILD_FD,
                                   g_ascii_strtoull (arguments[1], NULL, 10),
                                   g_ascii_strtoull (arguments[2], NULL, 10), SIZE, &error);
  g_assert_no_error (error);
  check_value (buffer, 3);
  fill_and_wait (buffer, 0, SIZE, 9);
  return 0;
}

static void
process (Pair *pair)
{
  g_autoptr (GSubprocessLauncher) launcher = g_subprocess_launcher_new (G_SUBPROCESS_FLAGS_NONE);
  g_autoptr (GError) error = NULL;
  g_autoptr (GSubprocess) other = NULL;
  g_autofree char *program = g_file_read_link ("/proc/self/exe", &error);
  g_autofree char *whole_text = NULL;
  g_autofree char *offset_text = NULL;
  gsize whole_size;
  gsize offset;
  int fd;

  fill_and_wait (pair->theirs, 0, SIZE, 3);
  fd = gpu_buffer_export_fd (pair->theirs, OPAQUE, &whole_size, &offset, &error);
  g_assert_no_error (error);
  whole_text = g_strdup_printf ("%" G_GSIZE_FORMAT, whole_size);
  offset_text = g_strdup_printf ("%" G_GSIZE_FORMAT, offset);
  g_subprocess_launcher_take_fd (launcher, fd, CHILD_FD);
  other = g_subprocess_launcher_spawn (launcher, &error, program, "--child",
                                       gpu_device_get_id (pair->here->device), whole_text,
                                       offset_text, NULL);
  g_assert_no_error (error);
  g_subprocess_wait_check (other, NULL, &error);
  g_assert_no_error (error);
  check_value (pair->theirs, 9);
  check_value (pair->ours, 9);
}

static void
share_process (TestFixture *fixture)
{
  for_pairs (fixture, process);
}

/* --- invalid descriptors ---------------------------------------------------------------------- */

static void
refused (Pair *pair)
{
  g_autoptr (GError) error = NULL;
  GpuContext *context = pair->here->context;
  gsize whole_size;
  gsize offset;
  guint n_fds;
  int fd = gpu_buffer_export_fd (pair->theirs, OPAQUE, &whole_size, &offset, &error);

  g_assert_no_error (error);
  n_fds = count_fds ();
  g_assert_null (gpu_buffer_new_from_fd (context, 0, OPAQUE, fd, whole_size, 3, 97, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_buffer_new_from_fd: offset 3 ",
                         "aligned");
  g_assert_null (gpu_buffer_new_from_fd (context, 0, OPAQUE, fd, whole_size, whole_size, 1,
                                         &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT,
                         "gpu_buffer_new_from_fd: the range of 1 bytes at");
  /* The stated size is larger than the exported memory. The library compares the size with that of
   * the file. If the system does not know the size of the file, the driver rejects the import. */
  g_assert_null (gpu_buffer_new_from_fd (context, 0, OPAQUE, fd, 4 * whole_size, 0,
                                         4 * whole_size, &error));
  test_assert_gpu_error (error, GPU_ERROR_IPC, "gpu_buffer_new_from_fd");
  g_assert_cmpuint (count_fds (), ==, n_fds);
  close (fd);
  test_assert_content (pair->ours, pair->bytes);
}

static void
share_refused (TestFixture *fixture)
{
  for_pairs (fixture, refused);
}

/* If imported memory is smaller than the stated size, NVIDIA's driver returns an error code above 0
 * and an invalid handle. The import must then fail. */
static void
share_no_handle (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  int fd = memfd_create ("large", MFD_CLOEXEC);
  guint n_fds = count_fds ();

  g_assert_cmpint (ftruncate (fd, 2 * SIZE), ==, 0);
  if (g_getenv ("GPUMEM_LAYER_EXTERNAL_SIZE") == NULL)
    g_test_skip ("runs in a process of its own, under the layer");
  else
    {
      g_assert_null (gpu_buffer_new_from_fd (fixture->context, 0, OPAQUE, fd, 2 * SIZE, 0,
                                             SIZE + 1, &error));
      test_assert_gpu_error (error, GPU_ERROR_IPC, "clCreateBufferWithProperties", "(1)", "65537");
      g_assert_cmpuint (count_fds (), ==, n_fds);
    }
  close (fd);
}

static void
run_no_handle (TestFixture *fixture)
{
  if (test_is_opencl (fixture) && !test_is_pocl (fixture))
    {
      g_test_skip ("the layer imports memory files, which only PoCL can use");
      return;
    }
  g_setenv ("GPUMEM_LAYER_EXTERNAL", "opaque-fd", TRUE);
  g_setenv ("GPUMEM_LAYER_EXTERNAL_SIZE", "65536", TRUE);
  test_run_under_layer (fixture, "no-handle");
  g_unsetenv ("GPUMEM_LAYER_EXTERNAL_SIZE");
  g_unsetenv ("GPUMEM_LAYER_EXTERNAL");
}

#define RUN(name, text) \
  static void run_##name (TestFixture *fixture) { run (fixture, text, share_##name); }

RUN (data, "data")
RUN (part, "part")
RUN (operations, "operations")
RUN (copies, "copies")
RUN (maps, "maps")
RUN (failure, "failure")
RUN (threads, "threads")
RUN (lifetime, "lifetime")
RUN (descriptors, "descriptors")
RUN (process, "process")
RUN (refused, "refused")

#define ADD(name, text) \
  test_add (text, run_##name); \
  test_add ("subprocess/" text, share_##name)

int
main (int argc, char **argv)
{
  if (argc == 5 && g_str_equal (argv[1], "--child"))
    return child (argv + 2);
  test_init (&argc, &argv);
  ADD (data, "data");
  ADD (part, "part");
  ADD (operations, "operations");
  ADD (copies, "copies");
  ADD (maps, "maps");
  ADD (failure, "failure");
  ADD (threads, "threads");
  ADD (lifetime, "lifetime");
  ADD (descriptors, "descriptors");
  ADD (process, "process");
  ADD (refused, "refused");
  ADD (no_handle, "no-handle");
  return test_run ();
}
