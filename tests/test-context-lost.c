/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* If a kernel traps, the driver loses the kernel's context. NVIDIA's driver loses every context of
 * the process. Calls in lost contexts fail with an error, and other contexts keep working. */
#include "config.h"

#ifdef HAVE_CUDA
#include "test-capture-util.h"
#endif
#include "test-util.h"

#define SIZE 4096

static const char source[] =
  "extern \"C\" __global__ void broken (int *p) { if (p != 0) asm (\"trap;\"); }\n"
  "extern \"C\" __global__ void sound (int *p) { p[threadIdx.x] += 1; }\n";

typedef struct
{
  GpuContext *context;
  GpuStream  *stream;
  GpuBuffer  *buffer;
  GpuKernel  *broken;
  GpuKernel  *sound;
  TestHold   *hold;                 /* nullable */
  guint       n_lost;
  gboolean    is_lost;
} Victim;

static void
on_lost (GpuContext *context, GError *error, gpointer user_data)
{
  Victim *victim = user_data;

  g_assert_true (gpu_context_is_lost (context));
  g_assert_error (error, GPU_ERROR, GPU_ERROR_DEVICE_LOST);
  victim->n_lost++;
  victim->is_lost = TRUE;
}

static void
victim_init (Victim *victim, GpuDevice *device)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuProgram) program = NULL;

  victim->context = gpu_context_new (device, GPU_CONTEXT_FLAGS_OWN, &error);
  g_assert_no_error (error);
  g_signal_connect (victim->context, "lost", G_CALLBACK (on_lost), victim);
  victim->stream = gpu_stream_new (victim->context, GPU_STREAM_FLAGS_NONE, &error);
  g_assert_no_error (error);
  victim->buffer = gpu_buffer_new (victim->context, GPU_MEMORY_FLAGS_NONE, SIZE, &error);
  g_assert_no_error (error);
  program = gpu_program_new_from_source (victim->context, source, NULL, &error);
  g_assert_no_error (error);
  victim->broken = gpu_program_get_kernel (program, "broken", &error);
  g_assert_no_error (error);
  victim->sound = gpu_program_get_kernel (program, "sound", &error);
  g_assert_no_error (error);
}

static void
victim_clear (Victim *victim)
{
  g_clear_pointer (&victim->hold, test_hold_free);
  g_object_unref (victim->broken);
  g_object_unref (victim->sound);
  g_object_unref (victim->buffer);
  g_object_unref (victim->stream);
  g_object_unref (victim->context);
}

static gboolean
victim_launch (Victim *victim, GpuKernel *kernel, GError **error)
{
  const GpuExtent one = { 1, 1, 1 };

  return gpu_stream_launch (victim->stream, kernel, &one, &one, error, victim->buffer);
}

/* Asserts that every call that reaches the driver fails in the lost context. */
static void
assert_all_fail (Victim *victim)
{
  static const guint8 value = 1;
  g_autoptr (GError) error = NULL;
  GpuMemory *memory = GPU_MEMORY (victim->buffer);
  GpuMemoryInfoSource info_source;
  guint64 free_size;
  guint64 total_size;

  g_assert_null (gpu_buffer_new (victim->context, GPU_MEMORY_FLAGS_NONE, SIZE, &error));
  test_assert_gpu_error (error, GPU_ERROR_DEVICE_LOST, "gpu_buffer_new");
  g_assert_null (gpu_stream_new (victim->context, GPU_STREAM_FLAGS_NONE, &error));
  test_assert_gpu_error (error, GPU_ERROR_DEVICE_LOST, "gpu_stream_new");
  g_assert_null (gpu_program_new_from_source (victim->context, source, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_DEVICE_LOST);
  g_assert_false (gpu_stream_fill (victim->stream, memory, 0, SIZE, &value, 1, &error));
  test_assert_gpu_error (error, GPU_ERROR_DEVICE_LOST, "gpu_stream_fill");
  g_assert_false (gpu_stream_copy (victim->stream, memory, 0, memory, SIZE / 2, SIZE / 2, &error));
  test_assert_gpu_error (error, GPU_ERROR_DEVICE_LOST, "gpu_stream_copy");
  g_assert_false (victim_launch (victim, victim->sound, &error));
  test_assert_gpu_error (error, GPU_ERROR_DEVICE_LOST);
  g_assert_null (gpu_stream_record (victim->stream, GPU_EVENT_FLAGS_NONE, &error));
  test_assert_gpu_error (error, GPU_ERROR_DEVICE_LOST);
  g_assert_null (gpu_buffer_read_bytes (victim->buffer, NULL, 0, SIZE, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_DEVICE_LOST);
  g_assert_null (gpu_buffer_map (victim->buffer, NULL, GPU_MAP_FLAGS_READ, 0, SIZE, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_DEVICE_LOST);
  g_assert_false (gpu_stream_synchronize (victim->stream, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_DEVICE_LOST);
  g_assert_false (gpu_context_synchronize (victim->context, &error));
  test_assert_gpu_error (error, GPU_ERROR_DEVICE_LOST);
  g_assert_false (gpu_context_get_memory_info (victim->context, &free_size, &total_size,
                                               &info_source, &error));
  test_assert_gpu_error (error, GPU_ERROR_DEVICE_LOST);
}

/* Asserts that the devices of all back ends except CUDA still work. All CUDA devices may be
 * lost. */
static void
assert_others_work (void)
{
  g_autolist (GpuDevice) devices = gpu_device_list ();

  for (GList *link = devices; link != NULL; link = link->next)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuContext) context = NULL;
      g_autoptr (GpuBuffer) buffer = NULL;
      g_autoptr (GBytes) bytes = test_random_bytes (SIZE);

      if (!gpu_device_check (link->data, NULL))
        continue;

      context = gpu_context_new (link->data, GPU_CONTEXT_FLAGS_NONE, &error);

      if (context != NULL)
        buffer = gpu_buffer_new_from_bytes (context, GPU_MEMORY_FLAGS_NONE, bytes, &error);

      if (buffer != NULL)
        test_assert_content (buffer, bytes);
      else if (g_str_equal (gpu_device_get_backend (link->data), "cuda"))
        test_assert_gpu_error (error, GPU_ERROR_DEVICE_LOST);
      else
        g_assert_no_error (error);
    }
}

/* Asserts that the context works or is lost. */
static void
assert_works_or_is_lost (Victim *other)
{
  g_autoptr (GError) error = NULL;

  if (victim_launch (other, other->sound, &error)
      && gpu_stream_synchronize (other->stream, NULL, &error))
    {
      g_assert_cmpuint (other->n_lost, ==, 0);
      return;
    }

  /* The stand-in only loses the context of the kernel. */
  g_assert_null (strstr (gpu_device_get_name (gpu_context_get_device (other->context)),
                         "Stand-in"));
  test_assert_gpu_error (error, GPU_ERROR_DEVICE_LOST);
  test_wait_until (&other->is_lost);
  assert_all_fail (other);
  g_assert_cmpuint (other->n_lost, ==, 1);
}

static void
trap (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuEvent) event = NULL;
  Victim victim = { 0 };
  Victim other = { 0 };

  victim_init (&victim, fixture->device);
  victim_init (&other, fixture->device);
  test_assert_ok (victim_launch (&other, other.sound, &error), error);
  test_synchronize (other.stream);
  test_assert_ok (victim_launch (&victim, victim.broken, &error), error);
  event = gpu_stream_record (victim.stream, GPU_EVENT_FLAGS_NONE, NULL);
  g_assert_false (gpu_stream_synchronize (victim.stream, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_DEVICE_LOST, "CUDA_ERROR_");
  test_wait_until (&victim.is_lost);
  assert_all_fail (&victim);

  if (event != NULL)
    {
      g_assert_cmpint (gpu_event_query (event, &error), ==, GPU_EVENT_STATUS_FAILED);
      test_assert_gpu_error (error, GPU_ERROR_DEVICE_LOST);
    }

  assert_works_or_is_lost (&other);
  assert_others_work ();
  g_assert_cmpuint (victim.n_lost, ==, 1);
  victim_clear (&victim);
  victim_clear (&other);
}

/* Runs in a separate process, because NVIDIA's driver would leave no usable device for the other
 * tests. */
static void
lost_trap (TestFixture *fixture)
{
  if (!g_str_equal (gpu_device_get_backend (fixture->device), "cuda"))
    {
      g_test_skip ("kernels of this back end cannot trap");
      return;
    }

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;

  if (g_test_subprocess ())
    {
      trap (fixture);
      return;
    }

  g_test_trap_subprocess (NULL, TEST_CHILD_TIMEOUT, G_TEST_SUBPROCESS_INHERIT_STDERR);
  g_test_trap_assert_passed ();
}

/* --- a peer is lost ------------------------------------------------------------------------- */

/* Submits a copy on the stream of @victim into @target, a buffer of another context, and then loses
 * the context of @victim. A second GpuContext for the same handle detects the loss, but the
 * GpuContext of @victim does not. */
static GpuEvent *
lose_behind_copy (Victim *victim, GpuBuffer *target, gboolean with_fence)
{
  GpuDevice *device = gpu_context_get_device (victim->context);
  gint64 deadline = g_get_monotonic_time () + TEST_DEADLINE * G_USEC_PER_SEC;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) other = NULL;
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  GpuEvent *event;

  victim->hold = test_hold (victim->stream);
  other = gpu_context_new_wrapped (device, gpu_context_get_native_handle (victim->context),
                                   GPU_WRAP_MODE_BORROW, &error);
  g_assert_no_error (error);
  stream = gpu_stream_new (other, GPU_STREAM_FLAGS_NONE, &error);
  g_assert_no_error (error);
  buffer = gpu_buffer_new (other, GPU_MEMORY_FLAGS_NONE, SIZE, &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_stream_copy (victim->stream, GPU_MEMORY (target), 0,
                                   GPU_MEMORY (victim->buffer), 0, SIZE, &error), error);
  event = gpu_stream_record (victim->stream, GPU_EVENT_FLAGS_NONE, &error);
  g_assert_no_error (error);

  if (with_fence)
    g_assert_cmpint (gpu_event_query (event, NULL), ==, GPU_EVENT_STATUS_PENDING);

  test_assert_ok (victim_launch (victim, victim->broken, &error), error);
  test_hold_release (victim->hold);

  while (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, SIZE, "x", 1, &error)
         && gpu_stream_synchronize (stream, NULL, &error))
    g_assert_cmpint (g_get_monotonic_time (), <, deadline);

  test_assert_gpu_error (error, GPU_ERROR_DEVICE_LOST);
  g_assert_false (gpu_context_is_lost (victim->context));

  return event;
}

/* If a context waits for work of another context that is lost, the waiting context is not lost. An
 * implicit wait before a use of memory ends without an error; an explicit wait fails. */
static void
spares (TestFixture *fixture, gboolean with_fence, gboolean by_event)
{
  const guint8 value = 7;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) context = NULL;
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuEvent) event = NULL;
  g_autoptr (GBytes) expected = test_value_bytes (SIZE, value);
  Victim victim = { 0 };

  victim_init (&victim, fixture->device);
  context = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_OWN, &error);
  g_assert_no_error (error);
  stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, &error);
  g_assert_no_error (error);
  buffer = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, SIZE, &error);
  g_assert_no_error (error);
  event = lose_behind_copy (&victim, buffer, with_fence);

  if (by_event)
    {
      g_assert_false (gpu_stream_wait_event (stream, event, &error));
      test_assert_gpu_error (error, GPU_ERROR_DEVICE_LOST, "gpu_stream_wait_event");
    }

  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, SIZE, &value, 1, &error),
                  error);
  g_assert_true (gpu_context_is_lost (victim.context));
  test_wait_until (&victim.is_lost);
  g_assert_false (gpu_context_is_lost (context));
  test_assert_content (buffer, expected);
  g_clear_object (&event);
  victim_clear (&victim);
}

static gboolean
loses_one_only (TestFixture *fixture)
{
  if (strstr (gpu_device_get_name (fixture->device), "Stand-in") != NULL
      && test_can_hold (fixture))
    return TRUE;

  g_test_skip ("only the stand-in loses one context and keeps the others");

  return FALSE;
}

static void
lost_waiting_contexts_survive (TestFixture *fixture)
{
  if (!loses_one_only (fixture))
    return;

  for (guint i = 0; i < 4; i++)
    spares (fixture, (i & 1) != 0, (i & 2) != 0);
}

#ifdef HAVE_CUDA

/* A captured stream is asked to wait for lost work. The work counts as complete for the graph, but
 * the wait fails with its error, and the capture stays intact. */
static void
spares_capture (TestFixture *fixture, gboolean with_fence)
{
  const guint8 value = 7;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) context = NULL;
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuEvent) event = NULL;
  CUstream handle;
  Victim victim = { 0 };

  victim_init (&victim, fixture->device);
  context = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_OWN, &error);
  g_assert_no_error (error);
  stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, &error);
  g_assert_no_error (error);
  buffer = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, SIZE, &error);
  g_assert_no_error (error);
  event = lose_behind_copy (&victim, buffer, with_fence);

  handle = test_get_cuda_stream (stream);
  test_capture_begin (handle, CU_STREAM_CAPTURE_MODE_RELAXED);
  g_assert_false (gpu_stream_wait_event (stream, event, &error));
  test_assert_gpu_error (error, GPU_ERROR_DEVICE_LOST, "gpu_stream_wait_event");
  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, SIZE, &value, 1, &error),
                  error);
  g_assert_true (test_is_capturing (handle));
  test_graph_destroy (test_capture_end (handle));
  g_assert_true (gpu_context_is_lost (victim.context));
  g_assert_false (gpu_context_is_lost (context));
  g_clear_object (&event);
  victim_clear (&victim);
}

static void
lost_captures_survive (TestFixture *fixture)
{
  if (!loses_one_only (fixture) || !test_can_capture (fixture))
    return;

  spares_capture (fixture, FALSE);
  spares_capture (fixture, TRUE);
}

#endif

/* A copy from or to memory of a lost context fails, but the context of its stream is not lost. */
static void
lost_copying_contexts_survive (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) context = NULL;
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuBuffer) scratch = NULL;
  g_autoptr (GpuEvent) event = NULL;
  Victim victim = { 0 };

  if (!loses_one_only (fixture))
    return;

  victim_init (&victim, fixture->device);
  context = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_OWN, &error);
  g_assert_no_error (error);
  stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, &error);
  g_assert_no_error (error);
  buffer = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, SIZE, &error);
  g_assert_no_error (error);
  scratch = gpu_buffer_new (victim.context, GPU_MEMORY_FLAGS_NONE, SIZE, &error);
  g_assert_no_error (error);
  event = lose_behind_copy (&victim, buffer, FALSE);

  g_assert_false (gpu_stream_copy (stream, GPU_MEMORY (buffer), 0, GPU_MEMORY (scratch), 0, SIZE,
                                   &error));
  test_assert_gpu_error (error, GPU_ERROR_DEVICE_LOST, "gpu_stream_copy");
  g_assert_true (gpu_context_is_lost (victim.context));
  g_assert_false (gpu_context_is_lost (context));
  test_synchronize (stream);
  g_clear_object (&event);
  victim_clear (&victim);
}

static void
count_toggle (gpointer n_toggles, GObject *context G_GNUC_UNUSED, gboolean is_last G_GNUC_UNUSED)
{
  ++*(guint *) n_toggles;
}

/* The thread that detects the loss may have locks: it takes no reference to the GpuContext, which
 * would call the toggle notify of a language binding. */
static void
lost_without_reference (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  GpuContext *context;
  guint n_toggles = 0;
  Victim victim = { 0 };
  Victim second = { 0 };

  if (!loses_one_only (fixture))
    return;

  victim_init (&victim, fixture->device);
  context = gpu_context_new_wrapped (fixture->device,
                                     gpu_context_get_native_handle (victim.context),
                                     GPU_WRAP_MODE_BORROW, &error);
  g_assert_no_error (error);
  g_signal_connect (context, "lost", G_CALLBACK (on_lost), &second);
  g_object_add_toggle_ref (G_OBJECT (context), count_toggle, &n_toggles);
  g_object_unref (context);
  n_toggles = 0;
  test_assert_ok (victim_launch (&victim, victim.broken, &error), error);
  g_assert_false (gpu_context_synchronize (context, &error));
  test_assert_gpu_error (error, GPU_ERROR_DEVICE_LOST, "gpu_context_synchronize");
  g_assert_cmpuint (n_toggles, ==, 0);
  test_wait_until (&second.is_lost);
  g_object_remove_toggle_ref (G_OBJECT (context), count_toggle, &n_toggles);
  victim_clear (&victim);
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("trap", lost_trap);
  test_add ("waiting-contexts-survive", lost_waiting_contexts_survive);
#ifdef HAVE_CUDA
  test_add ("captures-survive", lost_captures_survive);
#endif
  test_add ("copying-contexts-survive", lost_copying_contexts_survive);
  test_add ("without-reference", lost_without_reference);

  return test_run ();
}
