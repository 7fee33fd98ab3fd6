/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/allocator/gpu-allocator-adaptor-private.h"
#include "gpumem/base/gpu-thread-private.h"

/**
 * SECTION:gpu-statistics-allocator
 * @title: GpuStatisticsAllocator
 * @short_description: counters of allocations
 * @see_also: #GpuAllocatorAdaptor
 */

/**
 * GpuStatisticsAllocator:
 *
 * An adaptor that counts the bytes and the memory objects that it allocates.
 *
 * |[<!-- language="C" -->
 * g_autoptr (GpuStatisticsAllocator) counter = gpu_statistics_allocator_new (allocator);
 * g_autoptr (GpuMemory) memory =
 *   gpu_allocator_alloc (GPU_ALLOCATOR (counter), size, stream, &error);
 * gint64 peak;
 *
 * g_object_get (counter, "peak-bytes", &peak, NULL);
 * g_print ("peak: %" G_GINT64_FORMAT " bytes\n", peak);
 * ]|
 *
 * The adaptor has three counters for bytes, and three for memory objects: the number in use, the
 * maximum number in use at a time, and the total of all allocations.
 * gpu_statistics_allocator_push() and gpu_statistics_allocator_pop() count the allocations of all
 * threads between them. Calls in one thread may be nested; those of several threads may overlap.
 *
 * Since: 0.1
 */
struct _GpuStatisticsAllocator
{
  GpuAllocatorAdaptor parent_instance;
};

enum
{
  BYTES,
  COUNT,
  N_COUNTERS
};

enum
{
  CURRENT,
  PEAK,
  TOTAL,
  N_VALUES
};

/* The counters at the time of gpu_statistics_allocator_push(). The peak is the maximum since
 * then. */
typedef struct
{
  guint64 thread;                   /* the number of the thread that pushed */
  gint64  counters[N_COUNTERS][N_VALUES];
} Frame;

typedef struct
{
  GpuAdaptorCore  parent;

  gint64          total[N_COUNTERS];
  GArray         *frames;           /* of Frame, one for each nested set of counters; the first
                                     * counts all allocations and is never popped */
} Core;

/* The IDs of the properties are 1, 2 and so on, in the order of `names`, row by row. */
#define N_PROPS (1 + N_COUNTERS * N_VALUES)

static const char *const names[N_COUNTERS][N_VALUES] =
{
  { "current-bytes", "peak-bytes", "total-bytes" },
  { "current-count", "peak-count", "total-count" }
};

G_DEFINE_FINAL_TYPE (GpuStatisticsAllocator, gpu_statistics_allocator, GPU_TYPE_ALLOCATOR_ADAPTOR)

static void
get_current_locked (Core   *core,
                    gint64  current[N_COUNTERS])
{
  current[BYTES] = (gint64) core->parent.active;
  current[COUNT] = core->parent.leases.length;
}

static void
statistics_granted (GpuAdaptorCore *parent,
                    GpuLease       *lease)
{
  Core *core = (Core *) parent;
  gint64 current[N_COUNTERS];

  get_current_locked (core, current);
  core->total[BYTES] += (gint64) lease->size;
  core->total[COUNT]++;

  for (guint i = 0; i < core->frames->len; i++)
    for (guint j = 0; j < N_COUNTERS; j++)
      {
        gint64 *peak = &g_array_index (core->frames, Frame, i).counters[j][PEAK];

        *peak = MAX (*peak, current[j]);
      }
}

static void
statistics_clear (GpuAdaptorCore *core)
{
  g_array_unref (((Core *) core)->frames);
}

static const GpuAdaptorOps statistics_ops =
{
  .core_size = sizeof (Core),
  .lease_size = sizeof (GpuLease),
  .granted = statistics_granted,
  .clear = statistics_clear
};

/* Returns the changes since @frame was pushed. */
static Frame
since_locked (Core        *core,
              const Frame *frame)
{
  Frame since = *frame;
  gint64 current[N_COUNTERS];

  get_current_locked (core, current);

  for (guint i = 0; i < N_COUNTERS; i++)
    {
      since.counters[i][PEAK] -= frame->counters[i][CURRENT];
      since.counters[i][CURRENT] = current[i] - frame->counters[i][CURRENT];
      since.counters[i][TOTAL] = core->total[i] - frame->counters[i][TOTAL];
    }

  return since;
}

/* Returns the index of the last frame of this thread, or 0. The frames of concurrent threads are
 * not nested, so the last frame may be that of another thread. */
static guint
find_frame_locked (Core *core)
{
  const guint64 thread = _gpu_thread_get_number ();
  guint i = core->frames->len - 1;

  while (i > 0 && g_array_index (core->frames, Frame, i).thread != thread)
    i--;

  return i;
}

static Frame
read_core (gpointer adaptor)
{
  Core *core = _gpu_adaptor_get_core (adaptor);
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&core->parent.lock);

  return since_locked (core, &g_array_index (core->frames, Frame, 0));
}

static GVariant *
frame_to_variant (const Frame *frame)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a{sx}"));

  for (guint i = 0; i < N_COUNTERS; i++)
    for (guint j = 0; j < N_VALUES; j++)
      g_variant_builder_add (&builder, "{sx}", names[i][j], frame->counters[i][j]);

  return g_variant_ref_sink (g_variant_builder_end (&builder));
}

static void
gpu_statistics_allocator_get_property (GObject    *object,
                                       guint       id,
                                       GValue     *value,
                                       GParamSpec *pspec G_GNUC_UNUSED)
{
  const Frame frame = read_core (object);

  g_value_set_int64 (value, frame.counters[(id - 1) / N_VALUES][(id - 1) % N_VALUES]);
}

/**
 * GpuStatisticsAllocator:current-bytes:
 *
 * The number of bytes in use. Changes are not notified.
 *
 * Since: 0.1
 */

/**
 * GpuStatisticsAllocator:peak-bytes:
 *
 * The maximum number of bytes in use at a time. Changes are not notified.
 *
 * Since: 0.1
 */

/**
 * GpuStatisticsAllocator:total-bytes:
 *
 * The total number of bytes allocated. Changes are not notified.
 *
 * Since: 0.1
 */

/**
 * GpuStatisticsAllocator:current-count:
 *
 * The number of memory objects in use. Changes are not notified.
 *
 * Since: 0.1
 */

/**
 * GpuStatisticsAllocator:peak-count:
 *
 * The maximum number of memory objects in use at a time. Changes are not notified.
 *
 * Since: 0.1
 */

/**
 * GpuStatisticsAllocator:total-count:
 *
 * The total number of allocations. Changes are not notified.
 *
 * Since: 0.1
 */
static void
gpu_statistics_allocator_class_init (GpuStatisticsAllocatorClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  GParamSpec *props[N_PROPS] = { NULL };

  object_class->get_property = gpu_statistics_allocator_get_property;

  for (guint id = 1; id < N_PROPS; id++)
    props[id] = g_param_spec_int64 (names[(id - 1) / N_VALUES][(id - 1) % N_VALUES], NULL, NULL,
                                    0, G_MAXINT64, 0, G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);

  g_object_class_install_properties (object_class, N_PROPS, props);
}

static void
gpu_statistics_allocator_init (GpuStatisticsAllocator *allocator)
{
  Core *core = _gpu_adaptor_init (&allocator->parent_instance, &statistics_ops);

  core->frames = g_array_new (FALSE, TRUE, sizeof (Frame));
  g_array_set_size (core->frames, 1);
}

/**
 * gpu_statistics_allocator_new:
 * @upstream: the allocator to wrap
 *
 * Creates an adaptor that counts allocations. May be called from any thread.
 *
 * Returns: (transfer full): the allocator
 *
 * Since: 0.1
 */
GpuStatisticsAllocator *
gpu_statistics_allocator_new (GpuAllocator *upstream)
{
  g_return_val_if_fail (GPU_IS_ALLOCATOR (upstream), NULL);

  return g_object_new (GPU_TYPE_STATISTICS_ALLOCATOR, "upstream", upstream, NULL);
}

/**
 * gpu_statistics_allocator_get_counters:
 * @allocator: a #GpuStatisticsAllocator
 *
 * Gets a consistent copy of all counters, by the names of the properties: `current-bytes`,
 * `peak-bytes`, `total-bytes`, `current-count`, `peak-count` and `total-count`. May be called from
 * any thread.
 *
 * Returns: (transfer full): a dictionary of type `a{sx}`
 *
 * Since: 0.1
 */
GVariant *
gpu_statistics_allocator_get_counters (GpuStatisticsAllocator *allocator)
{
  Frame frame;

  g_return_val_if_fail (GPU_IS_STATISTICS_ALLOCATOR (allocator), NULL);

  frame = read_core (allocator);

  return frame_to_variant (&frame);
}

/**
 * gpu_statistics_allocator_push:
 * @allocator: a #GpuStatisticsAllocator
 *
 * Starts a nested set of counters, which ends with gpu_statistics_allocator_pop() in the same
 * thread. The counters include the allocations of other threads. If the thread exits without that
 * call, the set remains until @allocator is finalized; each set makes allocations slower. May be
 * called from any thread.
 *
 * Since: 0.1
 */
void
gpu_statistics_allocator_push (GpuStatisticsAllocator *allocator)
{
  gint64 current[N_COUNTERS];
  Core *core;
  Frame frame;

  g_return_if_fail (GPU_IS_STATISTICS_ALLOCATOR (allocator));

  core = _gpu_adaptor_get_core (allocator);
  g_mutex_lock (&core->parent.lock);

  get_current_locked (core, current);
  frame.thread = _gpu_thread_get_number ();

  for (guint i = 0; i < N_COUNTERS; i++)
    {
      frame.counters[i][CURRENT] = frame.counters[i][PEAK] = current[i];
      frame.counters[i][TOTAL] = core->total[i];
    }

  g_array_append_val (core->frames, frame);
  g_mutex_unlock (&core->parent.lock);
}

/**
 * gpu_statistics_allocator_pop:
 * @allocator: a #GpuStatisticsAllocator
 * @error: return location for an error
 *
 * Ends the counters of the last gpu_statistics_allocator_push() of this thread. May be called from
 * any thread.
 *
 * Returns: (transfer full): the counters since that push, in the format of
 *   gpu_statistics_allocator_get_counters(). The current counters are negative if more was freed
 *   than allocated. %NULL with %GPU_ERROR_INVALID_ARGUMENT if no push of this thread is left to end
 *
 * Since: 0.1
 */
GVariant *
gpu_statistics_allocator_pop (GpuStatisticsAllocator  *allocator,
                              GError                 **error)
{
  Core *core;
  Frame frame;
  guint last;

  g_return_val_if_fail (GPU_IS_STATISTICS_ALLOCATOR (allocator), NULL);

  core = _gpu_adaptor_get_core (allocator);
  g_mutex_lock (&core->parent.lock);
  last = find_frame_locked (core);
  frame = since_locked (core, &g_array_index (core->frames, Frame, last));

  if (last > 0)
    g_array_remove_index (core->frames, last);

  g_mutex_unlock (&core->parent.lock);

  if (last > 0)
    return frame_to_variant (&frame);

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "gpu_statistics_allocator_pop: this thread has no push in effect; "
               "call gpu_statistics_allocator_push() in it first");

  return NULL;
}
