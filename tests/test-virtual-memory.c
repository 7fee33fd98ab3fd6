/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Address ranges and the chunks of memory that pools map to them: chunks keep their content at any
 * address, addresses stay reserved, and failures leave nothing mapped. */
#include "config.h"

#include <sys/wait.h>
#include <unistd.h>

#include <gio/gunixfdlist.h>

#include "cuda-driver/cuda-driver.h"
#include "gpumem/base/gpu-memory-limits-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/memory/gpu-memory-private.h"
#include "gpumem/memory/gpu-virtual-memory-private.h"
#include "test-util.h"

#define N_UNITS 8
#define N_THREADS 4
#define N_TIMES 20

/* An address range, its buffer, and the functions to map it. */
typedef struct
{
  GpuNativeContext    *context;
  const GpuVirtualOps *ops;
  GpuNativeBuffer     *native;
  GpuBuffer           *buffer;
  gsize                unit;
} Range;

static void
range_init (Range *range, GpuContext *context, guint n_units)
{
  g_autoptr (GError) error = NULL;

  range->context = _gpu_context_get_native (context);
  range->ops = range->context->backend->virtual_memory;
  test_assert_ok (range->ops->get_granularity (range->context, FALSE, &range->unit, &error), error);
  range->native = range->ops->reserve (range->context, FALSE, n_units * range->unit, &error);
  g_assert_no_error (error);
  range->buffer = g_object_new (GPU_TYPE_BUFFER, "context", context, NULL);
  _gpu_memory_set_storage (GPU_MEMORY (range->buffer),
                           _gpu_storage_new (range->context, range->native,
                                             GPU_MEMORY_FLAGS_SHAREABLE,
                                             GPU_STORAGE_FOREIGN, NULL, NULL));
}

static void
range_clear (Range *range)
{
  g_clear_object (&range->buffer);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Range, range_clear)

static GpuNativeChunk *
chunk (Range *range, guint n_units)
{
  g_autoptr (GError) error = NULL;
  GpuNativeChunk *result = _gpu_virtual_create_chunk (range->context, n_units * range->unit, NULL,
                                                      &error);

  g_assert_no_error (error);
  g_assert_cmpuint (result->size, ==, n_units * range->unit);
  return result;
}

static void
map (Range *range, guint at, GpuNativeChunk **chunks, guint n_chunks)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (range->ops->map (range->context, range->native, at * range->unit, chunks,
                                   n_chunks, &error), error);
}

static void
unmap (Range *range, guint at, guint n_units)
{
  range->ops->unmap (range->context, range->native, at * range->unit, n_units * range->unit);
}

static void
destroy (Range *range, GpuNativeChunk *which)
{
  _gpu_virtual_destroy_chunk (range->context, which);
}

static GpuBuffer *
slice (Range *range, guint at, guint n_units)
{
  g_autoptr (GError) error = NULL;
  GpuBuffer *result = gpu_buffer_slice (range->buffer, at * range->unit, n_units * range->unit,
                                        &error);

  g_assert_no_error (error);
  return result;
}

static void
put (Range *range, GpuStream *stream, guint at, GBytes *bytes)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) part = slice (range, at, g_bytes_get_size (bytes) / range->unit);

  test_assert_ok (gpu_stream_write (stream, GPU_MEMORY (part), 0, bytes, &error), error);
  test_synchronize (stream);
}

/* Checks that unit @at begins with the @size bytes that begin at @offset in @bytes. */
static void
check (Range *range, guint at, GBytes *bytes, gsize offset, gsize size)
{
  g_autoptr (GpuBuffer) part = slice (range, at, (size + range->unit - 1) / range->unit);
  g_autoptr (GBytes) expected = g_bytes_new_from_bytes (bytes, offset, size);

  test_assert_content (part, expected);
}

static guint
n_live (const char *kind)
{
  return gpumem_cuda_driver_symbol ("gpumem_cuda_driver_get_live") != NULL
         ? GPUMEM_CUDA_DRIVER (get_live) (kind) : 0;
}

/* --- properties ------------------------------------------------------------------------- */

static void
virtual_not_supported (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  GpuNativeContext *context = _gpu_context_get_native (fixture->context);

  if ((gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_VIRTUAL_MEMORY) != 0)
    {
      test_assert_ok (_gpu_virtual_check (context, FALSE, &error), error);
      return;
    }
  g_assert_false (_gpu_virtual_check (context, FALSE, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, gpu_device_get_id (fixture->device));
  g_assert_null (_gpu_virtual_create_chunk (context, 1 << 21, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED);
}

/* Chunks count as allocated memory while they exist, whether or not they are mapped. Reserved
 * addresses do not count. */
static void
virtual_allocated_size (TestFixture *fixture)
{
  g_auto (Range) range = { 0 };
  GpuNativeChunk *one;
  guint64 before;

  if (!test_has (fixture, GPU_CAPABILITIES_VIRTUAL_MEMORY))
    return;
  before = gpu_context_get_allocated_size (fixture->context);
  range_init (&range, fixture->context, N_UNITS);
  g_assert_cmpuint (range.unit, >, 0);
  g_assert_cmpuint (range.unit & (range.unit - 1), ==, 0);
  g_assert_cmpuint (gpu_context_get_allocated_size (fixture->context), ==, before);
  one = chunk (&range, 3);
  g_assert_cmpuint (gpu_context_get_allocated_size (fixture->context), ==,
                    before + 3 * range.unit);
  map (&range, 1, &one, 1);
  unmap (&range, 1, 3);
  g_assert_cmpuint (gpu_context_get_allocated_size (fixture->context), ==,
                    before + 3 * range.unit);
  destroy (&range, one);
  g_assert_cmpuint (gpu_context_get_allocated_size (fixture->context), ==, before);
}

/* --- chunks that move ------------------------------------------------------------------- */

/* Three adjacent chunks form one memory. The middle chunk is then mapped at another address, and
 * another chunk at the old address of the middle chunk. Each chunk keeps its content. */
static void
virtual_chunks_move (TestFixture *fixture)
{
  g_auto (Range) range = { 0 };
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (GBytes) other = NULL;
  g_autoptr (GpuBuffer) whole = NULL;
  GpuNativeChunk *chunks[4];
  guint64 address;

  if (!test_has (fixture, GPU_CAPABILITIES_VIRTUAL_MEMORY))
    return;
  range_init (&range, fixture->context, N_UNITS);
  bytes = test_random_bytes (4 * range.unit);
  other = test_random_bytes (2 * range.unit);
  address = GPU_MEMORY (range.buffer)->address;
  for (guint i = 0; i < 4; i++)
    chunks[i] = chunk (&range, i == 1 || i == 3 ? 2 : 1);
  map (&range, 0, chunks, 3);
  whole = slice (&range, 0, 4);
  g_assert_cmpuint (GPU_MEMORY (whole)->address, ==, address);
  put (&range, fixture->stream, 0, bytes);
  check (&range, 0, bytes, 0, 4 * range.unit);

  unmap (&range, 1, 2);
  map (&range, 6, &chunks[1], 1);
  check (&range, 6, bytes, range.unit, 2 * range.unit);
  map (&range, 1, &chunks[3], 1);
  put (&range, fixture->stream, 1, other);
  check (&range, 6, bytes, range.unit, 2 * range.unit);
  check (&range, 0, bytes, 0, range.unit);
  check (&range, 3, bytes, 3 * range.unit, range.unit);
  check (&range, 1, other, 0, 2 * range.unit);
  g_assert_cmpuint (GPU_MEMORY (whole)->address, ==, address);

  unmap (&range, 0, 1);
  unmap (&range, 1, 2);
  unmap (&range, 3, 1);
  map (&range, 2, &chunks[3], 1);
  check (&range, 2, other, 0, 2 * range.unit);
  unmap (&range, 2, 2);
  unmap (&range, 6, 2);
  for (guint i = 0; i < 4; i++)
    destroy (&range, chunks[i]);
}

/* A chunk moves from one range to another, and back after the first range is freed. */
static void
virtual_moves_between_ranges (TestFixture *fixture)
{
  g_auto (Range) last = { 0 };
  g_autoptr (GBytes) bytes = NULL;
  GpuNativeChunk *one;

  if (!test_has (fixture, GPU_CAPABILITIES_VIRTUAL_MEMORY))
    return;
  range_init (&last, fixture->context, 2);
  bytes = test_random_bytes (last.unit);
  one = chunk (&last, 1);
  {
    g_auto (Range) first = { 0 };

    range_init (&first, fixture->context, 3);
    map (&first, 2, &one, 1);
    put (&first, fixture->stream, 2, bytes);
    unmap (&first, 2, 1);
  }
  map (&last, 1, &one, 1);
  check (&last, 1, bytes, 0, last.unit);
  unmap (&last, 1, 1);
  destroy (&last, one);
}

/* A chunk may be mapped at two places. Work sees at one place what earlier work of its stream wrote
 * at the other place. The chunk stays mapped at one place while the other place is unmapped. */
static void
virtual_mapped_twice (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_auto (Range) range = { 0 };
  g_autoptr (GBytes) bytes = NULL, content = NULL;
  GpuNativeChunk *chunks[2];
  gsize half;

  if (!test_has (fixture, GPU_CAPABILITIES_VIRTUAL_MEMORY))
    return;
  range_init (&range, fixture->context, N_UNITS);
  chunks[0] = chunk (&range, 1);
  chunks[1] = chunk (&range, 1);
  half = range.unit / 2;
  map (&range, 0, chunks, 1);
  map (&range, 4, chunks, 2);
  bytes = test_random_bytes (range.unit);

  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (GBytes) part = g_bytes_new_from_bytes (bytes, i * half, half);

      test_assert_ok (gpu_stream_write (fixture->stream, GPU_MEMORY (range.buffer),
                                        4 * i * range.unit + i * half, part, &error), error);
    }
  for (guint i = 0; i < 2; i++)
    {
      content = gpu_buffer_read_bytes (range.buffer, fixture->stream, 4 * i * range.unit,
                                       range.unit, NULL, &error);
      g_assert_no_error (error);
      test_assert_bytes (content, bytes);
      g_clear_pointer (&content, g_bytes_unref);
    }

  unmap (&range, 0, 1);
  check (&range, 4, bytes, 0, range.unit);
  unmap (&range, 4, 2);
  destroy (&range, chunks[0]);
  destroy (&range, chunks[1]);
}

/* Copies and fills cross the boundaries of chunks, in both directions. */
static void
virtual_copies (TestFixture *fixture)
{
  static const guint32 pattern = 0x01020304;
  g_autoptr (GError) error = NULL;
  g_auto (Range) range = { 0 };
  g_autoptr (GpuBuffer) plain = NULL;
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (GBytes) content = NULL;
  GpuNativeChunk *chunks[3];
  gsize size;

  if (!test_has (fixture, GPU_CAPABILITIES_VIRTUAL_MEMORY))
    return;
  range_init (&range, fixture->context, N_UNITS);
  for (guint i = 0; i < 3; i++)
    chunks[i] = chunk (&range, 1);
  map (&range, 2, chunks, 3);
  size = range.unit + 4096;
  bytes = test_random_bytes (size);
  plain = test_buffer_from (fixture, bytes);
  test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (range.buffer),
                                   3 * range.unit - 2048, GPU_MEMORY (plain), 0, size, &error),
                  error);
  content = gpu_buffer_read_bytes (range.buffer, fixture->stream, 3 * range.unit - 2048, size, NULL,
                                   &error);
  g_assert_no_error (error);
  test_assert_bytes (content, bytes);
  test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (range.buffer),
                                   4 * range.unit - 1024, 2048, (const guint8 *) &pattern, 4,
                                   &error), error);
  g_clear_pointer (&content, g_bytes_unref);
  content = gpu_buffer_read_bytes (range.buffer, fixture->stream, 4 * range.unit - 1024, 2048, NULL,
                                   &error);
  g_assert_no_error (error);
  for (guint i = 0; i < 512; i++)
    g_assert_cmphex (((const guint32 *) g_bytes_get_data (content, NULL))[i], ==, pattern);
  test_synchronize (fixture->stream);
  for (guint i = 0; i < 3; i++)
    {
      unmap (&range, 2 + i, 1);
      destroy (&range, chunks[i]);
    }
}

/* One kernel writes to all three chunks. */
static void
virtual_kernel (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_auto (Range) range = { 0 };
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) part = NULL;
  g_autoptr (GBytes) content = NULL;
  GpuNativeChunk *chunks[3];
  GpuExtent grid = { 1, 1, 1 };
  const guint32 *data;

  if (!test_has (fixture, GPU_CAPABILITIES_VIRTUAL_MEMORY | GPU_CAPABILITIES_SOURCE))
    return;
  range_init (&range, fixture->context, N_UNITS);
  for (guint i = 0; i < 3; i++)
    chunks[i] = chunk (&range, 1);
  map (&range, 4, chunks, 3);
  kernel = test_kernel (fixture, "__kernel void number (__global uint *p)\n"
                        "{ p[get_global_id (0)] = get_global_id (0); }\n", "number");
  part = slice (&range, 4, 3);
  grid.width = 3 * range.unit / 4;
  test_assert_ok (gpu_stream_launch (fixture->stream, kernel, &grid, NULL, &error, part), error);
  content = test_content (part);
  data = g_bytes_get_data (content, NULL);
  for (gsize i = 0; i < grid.width; i++)
    g_assert_cmpuint (data[i], ==, i);
  test_synchronize (fixture->stream);
  for (guint i = 0; i < 3; i++)
    {
      unmap (&range, 4 + i, 1);
      destroy (&range, chunks[i]);
    }
}

/* --- unmapped ranges -------------------------------------------------------------------- */

/* Runs only on the host back end, where this thread can access the addresses. */
static void
virtual_unmapped_access (TestFixture *fixture)
{
  g_auto (Range) range = { 0 };
  guint8 *data;
  GpuNativeChunk *one;

  if (!g_str_equal (gpu_device_get_backend (fixture->device), "host"))
    {
      g_test_skip ("host access to the addresses is not guaranteed");
      return;
    }
  if (!g_test_subprocess ())
    {
      g_test_trap_subprocess (NULL, TEST_CHILD_TIMEOUT, 0);
      g_test_trap_assert_failed ();
      g_test_trap_assert_stdout ("*mapped: 3*");
      g_test_trap_assert_stdout_unmatched ("*unmapped*");
      return;
    }
  range_init (&range, fixture->context, 2);
  one = chunk (&range, 1);
  data = (guint8 *) (guintptr) GPU_MEMORY (range.buffer)->address;
  map (&range, 1, &one, 1);
  data[range.unit] = 3;
  g_print ("mapped: %d\n", data[range.unit]);
  unmap (&range, 1, 1);
  g_print ("%d: un" "mapped\n", data[range.unit]);
}

/* --- failures --------------------------------------------------------------------------- */

static void
virtual_no_memory (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_auto (Range) range = { 0 };
  g_autofree char *size_text = NULL;
  GpuNativeChunk *one;
  guint64 before;
  gsize size;

  if (!test_has (fixture, GPU_CAPABILITIES_VIRTUAL_MEMORY))
    return;
  range_init (&range, fixture->context, 1);
  before = gpu_context_get_allocated_size (fixture->context);
  /* The host can allocate more memory than it has, as long as the memory is not written */
  size = g_str_equal (gpu_device_get_backend (fixture->device), "host")
         ? (gsize) G_MAXINT64 / range.unit * range.unit
         : (gpu_device_get_memory_size (fixture->device) / range.unit + 1) * range.unit;
  size_text = g_strdup_printf ("%" G_GSIZE_FORMAT " bytes", size);
  one = chunk (&range, 1);
  g_assert_null (_gpu_virtual_create_chunk (range.context, size, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY, size_text, "held by the context");
  g_assert_cmpuint (gpu_context_get_allocated_size (fixture->context), ==, before + range.unit);
  g_assert_null (range.ops->reserve (range.context, FALSE, G_MAXSIZE / 4 / range.unit * range.unit,
                                     &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY);
  destroy (&range, one);
}

/* The host must have the memory of a chunk: if it lacks free memory, the kernel would end processes
 * while the driver locks the pages. */
static void
virtual_no_host_memory (TestFixture *fixture)
{
  GpuNativeContext *native = _gpu_context_get_native (fixture->context);
  g_autoptr (GError) error = NULL;
  g_autofree char *size_text = NULL;
  GpuMemoryLimits limits;
  gsize unit = 0;
  gsize size;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_VIRTUAL_MEMORY))
    return;
  if (!native->devices[0]->has_host_chunks)
    {
      g_test_skip ("no chunks of host memory");
      return;
    }
  test_assert_ok (native->backend->virtual_memory->get_granularity (native, TRUE, &unit, &error),
                  error);
  _gpu_memory_limits_read ("", &limits);
  size = (limits.total_size / unit + 1) * unit;
  size_text = g_strdup_printf ("%" G_GSIZE_FORMAT " bytes of page-locked memory", size);
  g_assert_null (_gpu_virtual_create_host_chunk (native, size, &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_HOST_MEMORY, size_text, "free of",
                         "request less");
  g_assert_cmpuint (gpu_context_get_host_allocated_size (fixture->context), ==, 0);
}

/* Chunks can use all memory of the device. The memory of a destroyed chunk can be allocated
 * again. */
static void
virtual_all_memory (TestFixture *fixture)
{
  g_autoptr (GPtrArray) chunks = g_ptr_array_new ();
  g_autoptr (GError) error = NULL;
  g_auto (Range) range = { 0 };
  GpuNativeChunk *next;

  if (!test_has (fixture, GPU_CAPABILITIES_VIRTUAL_MEMORY))
    return;
  if (gpumem_cuda_driver_symbol ("gpumem_cuda_driver_get_live") == NULL
      || !g_str_has_prefix (gpu_device_get_id (fixture->device), "cuda"))
    {
      g_test_skip ("other programs may need the memory of a real device");
      return;
    }
  range_init (&range, fixture->context, 64);
  while ((next = _gpu_virtual_create_chunk (range.context, 64 * range.unit, NULL, &error)) != NULL)
    g_ptr_array_add (chunks, next);
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "cuMemCreate");
  g_assert_cmpuint (chunks->len, >, 0);
  for (guint i = 0; i < 3; i++)
    {
      destroy (&range, chunks->pdata[0]);
      chunks->pdata[0] = chunk (&range, 64);
      map (&range, 0, (GpuNativeChunk **) &chunks->pdata[0], 1);
      unmap (&range, 0, 64);
    }
  for (guint i = 0; i < chunks->len; i++)
    destroy (&range, chunks->pdata[i]);
}

/* Makes each driver call of a mapping fail. After a failure nothing is mapped, and the next attempt
 * succeeds. */
static void
virtual_map_fails (TestFixture *fixture)
{
  static const char *const faults[] = { "cuMemMap:1", "cuMemMap:2", "cuMemMap:4:2",
                                        "cuMemSetAccess:1" };
  g_auto (Range) range = { 0 };
  GpuNativeChunk *chunks[4];
  guint n_mapped;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_VIRTUAL_MEMORY))
    return;
  if (gpumem_cuda_driver_symbol ("gpumem_cuda_driver_set_fail") == NULL)
    {
      g_test_skip ("only the stand-in driver fails on demand");
      return;
    }
  range_init (&range, fixture->context, N_UNITS);
  n_mapped = n_live ("mapped memory");
  for (guint i = 0; i < 4; i++)
    chunks[i] = chunk (&range, 1 + i % 2);
  for (guint i = 0; i < G_N_ELEMENTS (faults); i++)
    {
      g_autoptr (GError) error = NULL;

      GPUMEM_CUDA_DRIVER (set_fail) (faults[i]);
      g_assert_false (range.ops->map (range.context, range.native, range.unit, chunks, 4, &error));
      GPUMEM_CUDA_DRIVER (set_fail) ("");
      test_assert_gpu_error (error, i == 2 ? GPU_ERROR_OUT_OF_DEVICE_MEMORY : GPU_ERROR_FAILED,
                             i == 3 ? "cuMemSetAccess" : "cuMemMap", "4 allocations");
      g_assert_cmpuint (n_live ("mapped memory"), ==, n_mapped);
    }
  map (&range, 1, chunks, 4);
  g_assert_cmpuint (n_live ("mapped memory"), ==, n_mapped + 4);
  for (guint i = 0, at = 1; i < 4; at += 1 + i++ % 2)
    {
      unmap (&range, at, 1 + i % 2);
      destroy (&range, chunks[i]);
    }
  g_assert_cmpuint (n_live ("mapped memory"), ==, n_mapped);
}

/* --- sharing ---------------------------------------------------------------------------- */

/* Exports @buffer and imports it again. */
static GpuBuffer *
pass (TestFixture *fixture, GpuBuffer *buffer, guint n_fds)
{
  g_autoptr (GUnixFDList) fds = g_unix_fd_list_new ();
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) handle = gpu_buffer_export_fds (buffer, fds, &error);
  GpuBuffer *again;

  g_assert_no_error (error);
  g_assert_cmpint (g_unix_fd_list_get_length (fds), ==, n_fds);
  again = gpu_buffer_new_from_fds (fixture->context, handle, fds, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (gpu_memory_get_size (GPU_MEMORY (again)), ==,
                    gpu_memory_get_size (GPU_MEMORY (buffer)));
  return again;
}

/* A part of one chunk has one file descriptor. A range over chunks of different sizes, which begins
 * and ends within a chunk, has one for each chunk. */
static void
virtual_shared (TestFixture *fixture)
{
  static const guint8 value = 'z';
  g_autoptr (GError) error = NULL;
  g_auto (Range) range = { 0 };
  g_autoptr (GpuBuffer) part = NULL;
  g_autoptr (GpuBuffer) all = NULL;
  g_autoptr (GpuBuffer) most = NULL;
  g_autoptr (GpuBuffer) part_again = NULL;
  g_autoptr (GpuBuffer) most_again = NULL;
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (GBytes) part_bytes = NULL;
  g_autoptr (GBytes) most_bytes = NULL;
  GpuNativeChunk *chunks[3];
  const guint places[] = { 0, 2, 1 };

  if (!test_has (fixture, GPU_CAPABILITIES_VIRTUAL_MEMORY | GPU_CAPABILITIES_IPC_FDS))
    return;
  range_init (&range, fixture->context, N_UNITS);
  for (guint i = 0; i < 3; i++)
    {
      chunks[places[i]] = _gpu_virtual_create_chunk (range.context, (1 + i % 2) * range.unit,
                                                     range.native, &error);
      g_assert_no_error (error);
    }
  /* Chunks of 1, 1 and 2 units; the second was created last */
  map (&range, 3, chunks, 3);
  all = slice (&range, 3, 4);
  bytes = test_random_bytes (4 * range.unit);
  put (&range, fixture->stream, 3, bytes);
  part = gpu_buffer_slice (all, range.unit + 65536, 65536, &error);
  g_assert_no_error (error);
  part_again = pass (fixture, part, 1);
  part_bytes = g_bytes_new_from_bytes (bytes, range.unit + 65536, 65536);
  test_synchronize (fixture->stream);
  test_assert_content (part_again, part_bytes);

  most = gpu_buffer_slice (all, 65536, 3 * range.unit, &error);
  g_assert_no_error (error);
  most_again = pass (fixture, most, 3);
  most_bytes = g_bytes_new_from_bytes (bytes, 65536, 3 * range.unit);
  test_assert_content (most_again, most_bytes);
  g_assert_cmpint (gpu_buffer_export_fd (most, GPU_FD_KINDS_OPAQUE, NULL, NULL, &error), ==, -1);
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "3 chunks", "gpu_buffer_export_fds");
  test_assert_ok (gpu_buffer_fill (most, fixture->stream, range.unit, 65536, &value, 1, NULL,
                                   &error), error);
  test_synchronize (fixture->stream);
  g_clear_object (&part_again);
  part_again = gpu_buffer_slice (most_again, range.unit, 65536, &error);
  g_assert_no_error (error);
  {
    g_autoptr (GBytes) zs = test_value_bytes (65536, 'z');

    test_assert_content (part_again, zs);
  }
  for (guint i = 0, at = 3; i < 3; at += i++ < 2 ? 1 : 2)
    {
      unmap (&range, at, i < 2 ? 1 : 2);
      destroy (&range, chunks[i]);
    }
}

/* A chunk is exported even if smaller chunks were mapped to its addresses before. */
static void
virtual_shared_again (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_auto (Range) range = { 0 };
  g_autoptr (GpuBuffer) part = NULL;
  g_autoptr (GpuBuffer) again = NULL;
  g_autoptr (GBytes) bytes = NULL;
  GpuNativeChunk *small[3];
  GpuNativeChunk *large;

  if (!test_has (fixture, GPU_CAPABILITIES_VIRTUAL_MEMORY | GPU_CAPABILITIES_IPC_FDS))
    return;
  range_init (&range, fixture->context, N_UNITS);
  for (guint i = 0; i < 3; i++)
    {
      small[i] = _gpu_virtual_create_chunk (range.context, range.unit, range.native, &error);
      g_assert_no_error (error);
    }
  map (&range, 2, small, 3);
  unmap (&range, 2, 3);
  for (guint i = 0; i < 3; i++)
    destroy (&range, small[i]);
  large = _gpu_virtual_create_chunk (range.context, 4 * range.unit, range.native, &error);
  g_assert_no_error (error);
  map (&range, 1, &large, 1);
  bytes = test_random_bytes (2 * range.unit);
  put (&range, fixture->stream, 2, bytes);
  test_synchronize (fixture->stream);
  part = slice (&range, 2, 2);
  again = pass (fixture, part, 1);
  test_assert_content (again, bytes);
  unmap (&range, 1, 4);
  destroy (&range, large);
}

/* Runs a kernel of @context that writes to memory of another context. */
static void
write_from (GpuContext *context, guint64 address, guint32 value)
{
  const GpuExtent grid = { 64, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = gpu_context_get_default_stream (context);
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();
  g_autoptr (GpuProgram) program = NULL;
  g_autoptr (GpuKernel) kernel = NULL;

  program = gpu_program_new_from_source (context, "extern \"C\" __global__ void set "
                                         "(unsigned *p, unsigned v) { p[threadIdx.x] = v; }",
                                         NULL, &error);
  g_assert_no_error (error);
  kernel = gpu_program_get_kernel (program, "set", &error);
  g_assert_no_error (error);
  gpu_arguments_add_value (arguments, &address, sizeof address);
  gpu_arguments_add_value (arguments, &value, sizeof value);
  test_assert_ok (gpu_stream_launch_arguments (stream, kernel, &grid, NULL, arguments, &error),
                  error);
  test_synchronize (stream);
}

static void
check_written (Range *range, GpuContext *peer, guint at, guint32 value)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) content = NULL;

  write_from (peer, GPU_MEMORY (range->buffer)->address + at * range->unit, value);
  content = gpu_buffer_read_bytes (range->buffer, NULL, at * range->unit, 256, NULL, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < 64; i++)
    g_assert_cmpuint (((const guint32 *) g_bytes_get_data (content, NULL))[i], ==, value);
}

/* Returns NULL and skips the test if there is no peer. */
static GpuContext *
find_peer (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDevice) other = gpu_device_find ("cuda:1", NULL);
  gboolean reaches = FALSE;
  GpuContext *peer;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_VIRTUAL_MEMORY | GPU_CAPABILITIES_SOURCE))
    return NULL;
  if (other == NULL || g_str_equal (gpu_device_get_id (fixture->device), "cuda:1")
      || !gpu_device_can_access_peer (other, fixture->device, &reaches, NULL) || !reaches)
    {
      g_test_skip ("needs two devices with peer access");
      return NULL;
    }
  peer = gpu_context_new (other, GPU_CONTEXT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  return peer;
}

/* After access is enabled for a device, the device can access earlier and later mappings, including
 * mappings of shareable memory. */
static void
virtual_peers (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) peer = find_peer (fixture);
  g_autoptr (GpuBuffer) shared = NULL;
  g_auto (Range) range = { 0 };
  GpuNativeChunk *chunks[4];

  if (peer == NULL)
    return;
  range_init (&range, fixture->context, N_UNITS);
  for (guint i = 0; i < 4; i++)
    chunks[i] = chunk (&range, 1);
  map (&range, 0, chunks, 2);
  map (&range, 3, &chunks[2], 1);
  shared = gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_SHAREABLE, 4096, &error);
  g_assert_no_error (error);
  for (guint32 i = 0; i < 2; i++)
    {
      test_assert_ok (gpu_context_enable_peer_access (peer, fixture->context, &error), error);
      map (&range, 6, &chunks[3], 1);
      check_written (&range, peer, 0, 8 * i + 1);
      check_written (&range, peer, 1, 8 * i + 2);
      check_written (&range, peer, 3, 8 * i + 3);
      check_written (&range, peer, 6, 8 * i + 4);
      write_from (peer, GPU_MEMORY (shared)->address, 1);
      unmap (&range, 6, 1);
      test_assert_ok (gpu_context_disable_peer_access (peer, fixture->context, &error), error);
    }
  unmap (&range, 0, 1);
  unmap (&range, 1, 1);
  unmap (&range, 3, 1);
  for (guint i = 0; i < 4; i++)
    destroy (&range, chunks[i]);
}

/* If the library cannot enable the access of a peer to one mapping, the peer can access no mapping.
 * The next attempt enables access to all mappings. */
static void
virtual_peers_fail (TestFixture *fixture)
{
  static const char *const faults[] = { "cuMemSetAccess:1", "cuMemSetAccess:2" };
  g_autoptr (GpuContext) peer = find_peer (fixture);
  g_auto (Range) range = { 0 };
  GpuNativeChunk *chunks[2];

  if (peer == NULL)
    return;
  if (gpumem_cuda_driver_symbol ("gpumem_cuda_driver_set_fail") == NULL)
    {
      g_test_skip ("only the stand-in driver fails on demand");
      return;
    }
  range_init (&range, fixture->context, N_UNITS);
  for (guint i = 0; i < 2; i++)
    {
      chunks[i] = chunk (&range, 1);
      map (&range, 2 * i, &chunks[i], 1);
    }
  for (guint i = 0; i < G_N_ELEMENTS (faults); i++)
    {
      g_autoptr (GError) error = NULL;

      GPUMEM_CUDA_DRIVER (set_fail) (faults[i]);
      g_assert_false (gpu_context_enable_peer_access (peer, fixture->context, &error));
      GPUMEM_CUDA_DRIVER (set_fail) ("");
      test_assert_gpu_error (error, GPU_ERROR_FAILED, "cuMemSetAccess");
      test_assert_ok (gpu_context_enable_peer_access (peer, fixture->context, &error), error);
      check_written (&range, peer, 0, 2 * i);
      GPUMEM_CUDA_DRIVER (set_fail) (faults[i]);
      g_assert_false (gpu_context_disable_peer_access (peer, fixture->context, &error));
      GPUMEM_CUDA_DRIVER (set_fail) ("");
      test_assert_gpu_error (error, GPU_ERROR_FAILED, "cuMemSetAccess");
      check_written (&range, peer, 0, 2 * i + 1);
      check_written (&range, peer, 2, 2 * i + 1);
      test_assert_ok (gpu_context_disable_peer_access (peer, fixture->context, &error), error);
    }
  for (guint i = 0; i < 2; i++)
    {
      unmap (&range, 2 * i, 1);
      destroy (&range, chunks[i]);
    }
}

/* --- threads ---------------------------------------------------------------------------- */

/* Maps, writes and reads chunks. Each thread has its own addresses. */
static gpointer
map_often (gpointer data)
{
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GError) error = NULL;
  g_auto (Range) range = { 0 };

  stream = gpu_stream_new (data, GPU_STREAM_FLAGS_NONE, &error);
  g_assert_no_error (error);
  range_init (&range, data, 4);
  for (guint i = 0; i < N_TIMES; i++)
    {
      g_autoptr (GBytes) bytes = test_random_bytes (2 * range.unit);
      GpuNativeChunk *chunks[2] = { chunk (&range, 1), chunk (&range, 1) };
      const guint at = i % 3;

      map (&range, at, chunks, 2);
      put (&range, stream, at, bytes);
      check (&range, at, bytes, 0, 2 * range.unit);
      for (guint j = 0; j < 2; j++)
        {
          unmap (&range, at + j, 1);
          destroy (&range, chunks[j]);
        }
    }
  return NULL;
}

static void
run_threads (TestFixture *fixture, GpuContext *peer)
{
  g_autoptr (GError) error = NULL;
  GThread *threads[N_THREADS];

  for (guint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("maps", map_often, fixture->context);
  for (guint i = 0; peer != NULL && i < N_TIMES; i++)
    {
      test_assert_ok (gpu_context_enable_peer_access (peer, fixture->context, &error), error);
      test_assert_ok (gpu_context_disable_peer_access (peer, fixture->context, &error), error);
    }
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
}

static void
virtual_threads (TestFixture *fixture)
{
  if (test_has (fixture, GPU_CAPABILITIES_VIRTUAL_MEMORY))
    run_threads (fixture, NULL);
}

/* --- processes -------------------------------------------------------------------------- */

static int
use_after_fork (Range *range, GpuNativeChunk *which)
{
  g_autoptr (GError) error = NULL;

  if (_gpu_virtual_create_chunk (range->context, range->unit, NULL, &error) != NULL
      || !g_error_matches (error, GPU_ERROR, GPU_ERROR_DEVICE_LOST))
    return 1;
  unmap (range, 1, 3);
  destroy (range, which);
  return 0;
}

/* A forked child destroys a chunk that the parent still uses: the child must not clear the memory,
 * and cannot allocate chunks. */
static void
virtual_forked_child (TestFixture *fixture)
{
  g_auto (Range) range = { 0 };
  g_autoptr (GBytes) bytes = NULL;
  GpuNativeChunk *one;
  int status = 0;
  pid_t child;

  if (!test_has (fixture, GPU_CAPABILITIES_VIRTUAL_MEMORY))
    return;
  range_init (&range, fixture->context, N_UNITS);
  one = chunk (&range, 3);
  map (&range, 1, &one, 1);
  bytes = test_value_bytes (3 * range.unit, 7);
  put (&range, fixture->stream, 1, bytes);
  child = fork ();
  g_assert_cmpint (child, >=, 0);
  if (child == 0)
    {
      alarm (TEST_DEADLINE);
      test_end_child (use_after_fork (&range, one));
    }
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  g_assert_false (WIFSIGNALED (status));
  g_assert_cmpint (WEXITSTATUS (status), ==, 0);
  check (&range, 1, bytes, 0, 3 * range.unit);
  unmap (&range, 1, 3);
  destroy (&range, one);
}

/* Threads map memory while another thread enables and disables access by a peer. */
static void
virtual_threads_peers (TestFixture *fixture)
{
  g_autoptr (GpuContext) peer = find_peer (fixture);

  if (peer != NULL)
    run_threads (fixture, peer);
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("not-supported", virtual_not_supported);
  test_add ("allocated-size", virtual_allocated_size);
  test_add ("chunks-move", virtual_chunks_move);
  test_add ("moves-between-ranges", virtual_moves_between_ranges);
  test_add ("mapped-twice", virtual_mapped_twice);
  test_add ("copies", virtual_copies);
  test_add ("kernel", virtual_kernel);
  test_add ("unmapped-access", virtual_unmapped_access);
  test_add ("no-memory", virtual_no_memory);
  test_add ("no-host-memory", virtual_no_host_memory);
  test_add ("all-memory", virtual_all_memory);
  test_add ("map-fails", virtual_map_fails);
  test_add ("shared", virtual_shared);
  test_add ("shared-again", virtual_shared_again);
  test_add ("peers", virtual_peers);
  test_add ("peers-fail", virtual_peers_fail);
  test_add ("threads", virtual_threads);
  test_add ("threads-peers", virtual_threads_peers);
  test_add ("forked-child", virtual_forked_child);
  return test_run ();
}
