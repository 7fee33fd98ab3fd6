/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Release of OpenCL sub-buffers. With most drivers, the library releases a sub-buffer at once. With
 * NVIDIA's driver, it releases a sub-buffer only after all newer sub-buffers of the same bytes,
 * because that driver crashes in other orders of release. The OpenCL layer counts the memory
 * objects. */
#include "config.h"

#include "gpumem/device/gpu-context-private.h"
#include "gpumem/device/gpu-device-private.h"
#include "gpumem/opencl/driver/gpu-opencl.h"
#include "gpumem/stream/gpu-stream-private.h"
#include "opencl-layer/gpumem-layer.h"
#include "test-util.h"

static GpuBuffer *
slice (GpuBuffer *buffer, gsize offset, gsize size)
{
  g_autoptr (GError) error = NULL;
  GpuBuffer *result = gpu_buffer_slice (buffer, offset, size, &error);

  g_assert_no_error (error);
  return result;
}

static gboolean
has_layer (TestFixture *fixture)
{
  if (test_is_opencl (fixture) && gpumem_layer_symbol ("gpumem_layer_get_live") != NULL)
    return TRUE;
  g_test_skip ("runs in a process of its own, on OpenCL under the layer");
  return FALSE;
}

/* Repeatedly creates a new view before the previous view is dropped. At the end only one sub-buffer
 * must be alive. */
static void
replace (TestFixture *fixture)
{
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, 4096);
  g_autoptr (GpuBuffer) view = NULL;
  guint before = GPUMEM_LAYER (get_live) ("mem");

  for (guint i = 0; i < 1000; i++)
    {
      GpuBuffer *next = slice (buffer, 0, 4096);

      g_clear_object (&view);
      view = next;
      g_assert_cmpuint (GPUMEM_LAYER (get_live) ("mem"), ==, before + 1);
    }
}

static void
slice_replace (TestFixture *fixture)
{
  if (has_layer (fixture))
    replace (fixture);
}

/* A sub-buffer outlives newer sub-buffers of the same bytes. Slices of the same range and access
 * share a sub-buffer. */
static void
order (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  const gsize unit = MAX (gpu_device_get_base_alignment (fixture->device), 64);
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, 4 * unit);
  GpuBuffer *a = slice (buffer, 0, 2 * unit);
  GpuBuffer *b = slice (buffer, unit, 2 * unit);
  GpuBuffer *c = slice (buffer, 0, 4 * unit);
  GpuBuffer *d = gpu_buffer_slice_full (buffer, GPU_MEMORY_FLAGS_READ_ONLY, 0, 4 * unit, &error);
  g_autoptr (GpuBuffer) again = slice (buffer, unit, 2 * unit);
  guint live = GPUMEM_LAYER (get_live) ("mem");

  g_assert_no_error (error);
  g_assert_cmpuint (live, ==, 5);
  g_assert_true (gpu_memory_equal (GPU_MEMORY (again), GPU_MEMORY (b)));
  g_object_unref (a);
  g_object_unref (b);
  g_object_unref (c);
  g_assert_cmpuint (GPUMEM_LAYER (get_live) ("mem"), ==, live);
  g_object_unref (d);
  /* `again` shares the sub-buffer of b, which is newer than the sub-buffer of a: both stay alive */
  g_assert_cmpuint (GPUMEM_LAYER (get_live) ("mem"), ==, 3);
  g_clear_object (&again);
  g_assert_cmpuint (GPUMEM_LAYER (get_live) ("mem"), ==, 1);
}

typedef struct
{
  GpuBuffer       *buffer;
  GpuBuffer       *slice;
  GpuNativeStream *stream;
  GMutex           lock;
  GCond            cond;
  gboolean         is_through, was_first;
} Turns;

static gpointer
run_slicer (gpointer data)
{
  Turns *turns = data;

  turns->slice = slice (turns->buffer, 0, 512);
  return NULL;
}

static gpointer
run_reader (gpointer data)
{
  Turns *turns = data;
  gboolean held = _gpu_opencl_hold_slices (turns->stream);

  g_assert_true (held);
  g_mutex_lock (&turns->lock);
  turns->was_first = GPUMEM_LAYER (get_live) ("mem") == 2;
  turns->is_through = TRUE;
  g_cond_signal (&turns->cond);
  g_mutex_unlock (&turns->lock);
  _gpu_opencl_release_slices (turns->stream, held);
  return NULL;
}

/* A thread that creates a slice (the slicer) waits for threads that are enqueuing work. If another
 * thread (the reader) then begins to enqueue work, it waits until the slice exists. */
static void
turns (TestFixture *fixture)
{
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, 4096);
  g_autoptr (GpuBuffer) other = slice (buffer, 1024, 1024);
  GpuOpenclContext *context = (GpuOpenclContext *) _gpu_context_get_native (fixture->context);
  Turns turns = { .buffer = buffer, .stream = fixture->stream->timeline->stream };
  gint64 deadline = g_get_monotonic_time () + G_USEC_PER_SEC / 5;
  gboolean held = _gpu_opencl_hold_slices (turns.stream);
  GThread *slicer, *reader;

  g_assert_true (held);
  g_assert_cmpuint (GPUMEM_LAYER (get_live) ("mem"), ==, 2);
  g_mutex_init (&turns.lock);
  g_cond_init (&turns.cond);
  slicer = g_thread_new ("slicer", run_slicer, &turns);
  while (g_mutex_trylock (&context->slices_lock))
    {
      g_mutex_unlock (&context->slices_lock);
      g_thread_yield ();
    }

  /* The slicer now waits until this thread calls _gpu_opencl_release_slices(). The reader must wait
   * for the slicer. A reader that does not wait finds no slice, and sets was_first */
  reader = g_thread_new ("reader", run_reader, &turns);
  g_mutex_lock (&turns.lock);
  while (!turns.is_through && g_cond_wait_until (&turns.cond, &turns.lock, deadline))
    ;
  g_mutex_unlock (&turns.lock);
  _gpu_opencl_release_slices (turns.stream, held);
  g_thread_join (reader);
  g_thread_join (slicer);
  g_assert_false (turns.was_first);
  g_clear_object (&turns.slice);
  g_cond_clear (&turns.cond);
  g_mutex_clear (&turns.lock);
}

static void
slice_nvidia (TestFixture *fixture)
{
  GpuNativeDevice *device = _gpu_device_get_native (fixture->device);
  char *platform = device->platform;

  if (!has_layer (fixture))
    return;
  device->platform = (char *) "NVIDIA CUDA";
  order (fixture);
  replace (fixture);
  turns (fixture);
  device->platform = platform;
}

static void
slice_run_replace (TestFixture *fixture)
{
  test_run_under_layer (fixture, "replace");
}

static void
slice_run_nvidia (TestFixture *fixture)
{
  test_run_under_layer (fixture, "nvidia");
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("replace", slice_run_replace);
  test_add ("nvidia", slice_run_nvidia);
  test_add ("subprocess/replace", slice_replace);
  test_add ("subprocess/nvidia", slice_nvidia);
  return test_run ();
}
