/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* When a stream out of order gets a barrier of ours. The back end in front of the real one counts
 * them. */
#include "config.h"

#include "gpumem/gpu-context-private.h"
#include "test-util.h"

#define SIZE 4096

static GpuBackend counting;
static GpuStreamOps counting_stream;
static const GpuBackend *real;
static guint n_barriers;

static gboolean
count_barrier (GpuNativeStream *stream, GpuNativeEvent **event, GError **error)
{
  n_barriers++;
  return real->stream->barrier (stream, event, error);
}

/* A stream out of order, in a context that counts. */
static GpuStream *
begin (TestFixture *fixture)
{
  GpuNativeContext *context = _gpu_context_get_native (fixture->context);

  real = context->backend;
  counting_stream = *real->stream;
  counting_stream.barrier = count_barrier;
  counting = *real;
  counting.stream = &counting_stream;
  context->backend = &counting;
  n_barriers = 0;
  return test_stream (fixture, GPU_STREAM_FLAGS_OUT_OF_ORDER);
}

/* Once it is idle nobody else looks at the back end of the context. */
static void
end (TestFixture *fixture, GpuStream *stream)
{
  test_synchronize (stream);
  g_object_unref (stream);
  _gpu_context_get_native (fixture->context)->backend = real;
}

/* Nobody waited for the mapping before it is dropped. */
static void
unmap (TestFixture *fixture, GpuMemoryFlags flags)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = gpu_buffer_new (fixture->context, flags, SIZE, &error);
  GpuStream *stream = begin (fixture);
  GpuMapping *mapping;

  g_assert_no_error (error);
  mapping = gpu_stream_map (stream, GPU_MEMORY (buffer), GPU_MAP_FLAGS_READ, 0, SIZE, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (n_barriers, ==, 0);
  g_object_unref (mapping);
  g_assert_cmpuint (n_barriers, ==, 1);
  end (fixture, stream);
}

static void
barrier_unmap (TestFixture *fixture)
{
  if (!test_has (fixture, GPU_CAPABILITIES_OUT_OF_ORDER | GPU_CAPABILITIES_MAP))
    return;
  unmap (fixture, GPU_MEMORY_NONE);
  unmap (fixture, GPU_MEMORY_UNTRACKED);
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("unmap", barrier_unmap);
  return test_run ();
}
