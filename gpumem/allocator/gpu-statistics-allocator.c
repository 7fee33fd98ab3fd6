/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/allocator/gpu-allocator-adaptor-private.h"

/**
 * SECTION:gpu-statistics-allocator
 * @title: GpuStatisticsAllocator
 * @short_description: counts memory
 *
 * Counts bytes and memories: what is in use, the most that was in use at a time, and all that there
 * ever was. gpu_statistics_allocator_push() and gpu_statistics_allocator_pop() do so for a stretch
 * of a program, and may be nested.
 */

/**
 * GpuStatisticsAllocator:
 *
 * An adaptor that counts.
 *
 * Since: 0.1
 */
struct _GpuStatisticsAllocator
{
  GpuAllocatorAdaptor parent_instance;
};

typedef struct
{
  gint64 current;
  gint64 peak;
  gint64 total;
} Counter;

enum
{
  BYTES,
  COUNT,
  N_COUNTERS
};

/* A stretch: the counters when it began, but for the peak, which is the most since. */
typedef struct
{
  Counter counters[N_COUNTERS];
} Frame;

typedef struct
{
  GpuAdaptorCore  parent;

  gint64          current[N_COUNTERS];
  gint64          total[N_COUNTERS];
  GArray         *frames;           /* of Frame; the first one is from the beginning on */
} Core;

enum
{
  PROP_0,
  PROP_CURRENT_BYTES,
  PROP_PEAK_BYTES,
  PROP_TOTAL_BYTES,
  PROP_CURRENT_COUNT,
  PROP_PEAK_COUNT,
  PROP_TOTAL_COUNT,
  N_PROPS
};

static GParamSpec *props[N_PROPS];

static const char *const names[N_COUNTERS][3] =
{
  { "current-bytes", "peak-bytes", "total-bytes" },
  { "current-count", "peak-count", "total-count" }
};

G_DEFINE_FINAL_TYPE (GpuStatisticsAllocator, gpu_statistics_allocator, GPU_TYPE_ALLOCATOR_ADAPTOR)

static Core *
get_core (gpointer adaptor)
{
  return (Core *) GPU_ALLOCATOR_ADAPTOR (adaptor)->core;
}

static void
statistics_granted (GpuAdaptorCore *parent,
                    GpuLease       *lease)
{
  Core *core = (Core *) parent;
  const gint64 amounts[N_COUNTERS] = { (gint64) lease->size, 1 };
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&parent->lock);

  for (guint i = 0; i < N_COUNTERS; i++)
    {
      core->current[i] += amounts[i];
      core->total[i] += amounts[i];

      for (guint j = 0; j < core->frames->len; j++)
        {
          Counter *counter = &g_array_index (core->frames, Frame, j).counters[i];

          counter->peak = MAX (counter->peak, core->current[i]);
        }
    }
}

static gboolean
statistics_returned (GpuAdaptorCore *parent,
                     GpuLease       *lease,
                     GpuStorage     *storage G_GNUC_UNUSED)
{
  Core *core = (Core *) parent;

  g_mutex_lock (&parent->lock);
  core->current[BYTES] -= (gint64) lease->size;
  core->current[COUNT]--;
  g_mutex_unlock (&parent->lock);

  return TRUE;
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
  .returned = statistics_returned,
  .clear = statistics_clear
};

/* What happened since @frame began. */
static Frame
since_locked (Core        *core,
              const Frame *frame)
{
  Frame since = *frame;

  for (guint i = 0; i < N_COUNTERS; i++)
    {
      since.counters[i].peak -= frame->counters[i].current;
      since.counters[i].current = core->current[i] - frame->counters[i].current;
      since.counters[i].total = core->total[i] - frame->counters[i].total;
    }

  return since;
}

static Frame
read_core (Core *core)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&core->parent.lock);

  return since_locked (core, &g_array_index (core->frames, Frame, 0));
}

static GVariant *
frame_to_variant (const Frame *frame)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a{sx}"));

  for (guint i = 0; i < N_COUNTERS; i++)
    {
      g_variant_builder_add (&builder, "{sx}", names[i][0], frame->counters[i].current);
      g_variant_builder_add (&builder, "{sx}", names[i][1], frame->counters[i].peak);
      g_variant_builder_add (&builder, "{sx}", names[i][2], frame->counters[i].total);
    }

  return g_variant_ref_sink (g_variant_builder_end (&builder));
}

static void
gpu_statistics_allocator_get_property (GObject    *object,
                                       guint       id,
                                       GValue     *value,
                                       GParamSpec *pspec)
{
  const Frame frame = read_core (get_core (object));

  switch (id)
    {
    case PROP_CURRENT_BYTES:
      g_value_set_int64 (value, frame.counters[BYTES].current);
      break;
    case PROP_PEAK_BYTES:
      g_value_set_int64 (value, frame.counters[BYTES].peak);
      break;
    case PROP_TOTAL_BYTES:
      g_value_set_int64 (value, frame.counters[BYTES].total);
      break;
    case PROP_CURRENT_COUNT:
      g_value_set_int64 (value, frame.counters[COUNT].current);
      break;
    case PROP_PEAK_COUNT:
      g_value_set_int64 (value, frame.counters[COUNT].peak);
      break;
    case PROP_TOTAL_COUNT:
      g_value_set_int64 (value, frame.counters[COUNT].total);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static GParamSpec *
counter_spec (const char *name)
{
  return g_param_spec_int64 (name, NULL, NULL, 0, G_MAXINT64, 0,
                             G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);
}

static void
gpu_statistics_allocator_class_init (GpuStatisticsAllocatorClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->get_property = gpu_statistics_allocator_get_property;

  /**
   * GpuStatisticsAllocator:current-bytes:
   *
   * Bytes in use. No notification tells when it changes.
   *
   * Since: 0.1
   */
  props[PROP_CURRENT_BYTES] = counter_spec ("current-bytes");
  /**
   * GpuStatisticsAllocator:peak-bytes:
   *
   * The most bytes that were in use at a time. No notification tells when it changes.
   *
   * Since: 0.1
   */
  props[PROP_PEAK_BYTES] = counter_spec ("peak-bytes");
  /**
   * GpuStatisticsAllocator:total-bytes:
   *
   * The bytes of all memory that there ever was. No notification tells when it changes.
   *
   * Since: 0.1
   */
  props[PROP_TOTAL_BYTES] = counter_spec ("total-bytes");
  /**
   * GpuStatisticsAllocator:current-count:
   *
   * Number of memories in use. No notification tells when it changes.
   *
   * Since: 0.1
   */
  props[PROP_CURRENT_COUNT] = counter_spec ("current-count");
  /**
   * GpuStatisticsAllocator:peak-count:
   *
   * The most memories that were in use at a time. No notification tells when it changes.
   *
   * Since: 0.1
   */
  props[PROP_PEAK_COUNT] = counter_spec ("peak-count");
  /**
   * GpuStatisticsAllocator:total-count:
   *
   * Number of memories that there ever were. No notification tells when it changes.
   *
   * Since: 0.1
   */
  props[PROP_TOTAL_COUNT] = counter_spec ("total-count");

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
 * @upstream: the allocator to count for
 *
 * Makes an adaptor that counts memory.
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
 * Gets all counters at one moment, by the names of the properties: `current-bytes`, `peak-bytes`,
 * `total-bytes`, `current-count`, `peak-count` and `total-count`. Any thread.
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

  frame = read_core (get_core (allocator));

  return frame_to_variant (&frame);
}

/**
 * gpu_statistics_allocator_push:
 * @allocator: a #GpuStatisticsAllocator
 *
 * Begins to count anew, beside what is counted already, until gpu_statistics_allocator_pop(). What
 * other threads do counts as well. Any thread.
 *
 * Since: 0.1
 */
void
gpu_statistics_allocator_push (GpuStatisticsAllocator *allocator)
{
  Core *core;
  Frame frame;

  g_return_if_fail (GPU_IS_STATISTICS_ALLOCATOR (allocator));

  core = get_core (allocator);
  g_mutex_lock (&core->parent.lock);

  for (guint i = 0; i < N_COUNTERS; i++)
    frame.counters[i] = (Counter) { core->current[i], core->current[i], core->total[i] };

  g_array_append_val (core->frames, frame);
  g_mutex_unlock (&core->parent.lock);
}

/**
 * gpu_statistics_allocator_pop:
 * @allocator: a #GpuStatisticsAllocator
 * @error: return location for an error
 *
 * Ends what the last gpu_statistics_allocator_push() began. Any thread.
 *
 * Returns: (transfer full): the counters since then, as of gpu_statistics_allocator_get_counters(),
 *   where what is in use is below 0 if more came back than was given; or %NULL with
 *   %GPU_ERROR_INVALID_ARGUMENT if there was no push
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

  core = get_core (allocator);
  g_mutex_lock (&core->parent.lock);
  last = core->frames->len - 1;
  frame = since_locked (core, &g_array_index (core->frames, Frame, last));

  if (last > 0)
    g_array_set_size (core->frames, last);

  g_mutex_unlock (&core->parent.lock);

  if (last > 0)
    return frame_to_variant (&frame);

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "gpu_statistics_allocator_pop: there was no push before");

  return NULL;
}
