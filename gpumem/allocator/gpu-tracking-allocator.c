/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#ifdef HAVE_BACKTRACE
#include <execinfo.h>
#endif

#include "gpumem/allocator/gpu-allocator-adaptor-private.h"

/**
 * SECTION:gpu-tracking-allocator
 * @title: GpuTrackingAllocator
 * @short_description: a list of the memory in use
 * @see_also: #GpuAllocatorAdaptor
 */

/**
 * GpuTrackingAllocator:
 *
 * An adaptor that lists the memory in use.
 *
 * |[<!-- language="C" -->
 * g_autoptr (GpuTrackingAllocator) tracker = gpu_tracking_allocator_new (allocator, 16);
 * g_autoptr (GpuMemory) memory =
 *   gpu_allocator_alloc (GPU_ALLOCATOR (tracker), size, stream, &error);
 * g_autofree char *report = gpu_tracking_allocator_report (tracker);
 *
 * g_print ("%s", report);
 * ]|
 *
 * The adaptor records the address, size, age and tag of all memory in use, and optionally the
 * backtrace of each allocation. gpu_tracking_allocator_report() formats the records as text.
 *
 * A tag names the part of a program that allocates. All threads share the property
 * #GpuTrackingAllocator:tag. If parts of a program run concurrently, give each part its own adaptor
 * around the same upstream, or return the tag of each allocation from a handler of
 * #GpuTrackingAllocator::find-tag. In Python, `allocator.tagged("name")` is such a handler.
 * #GpuTrackingAllocator:usage has the sums of each tag, now and at the peak.
 *
 * Since: 0.1
 */
struct _GpuTrackingAllocator
{
  GpuAllocatorAdaptor parent_instance;
};

#define MAX_DEPTH 64

/* The memory in use with one tag. If `epoch` is that of the core, `peak_bytes` and `peak_count` are
 * the values at the last peak of the adaptor. Otherwise `bytes` and `count` have not changed since
 * that peak. A new peak therefore does not visit the other tags. */
typedef struct
{
  char      *name;                  /* GRefString, empty for memory without a tag */
  guint64    bytes;
  guint64    count;
  guint64    peak_bytes;
  guint64    peak_count;
  guint64    epoch;
} Usage;

typedef struct
{
  GpuLease   parent;

  char      *tag;                   /* GRefString, nullable */
  Usage     *usage;
  gint64     time;                  /* when the memory was allocated: time of the monotonic clock
                                     * in microseconds */
  gpointer  *frames;
  guint      n_frames;
} Block;

typedef struct
{
  GpuAdaptorCore  parent;

  GpuTrackingAllocator *allocator;  /* not referenced; only for allocations */
  char           *tag;              /* GRefString, nullable */
  GHashTable     *usages;           /* name -> Usage */
  guint64         bytes;            /* in use */
  guint64         peak_bytes;
  guint64         epoch;            /* number of peaks */
  guint           depth;            /* stack frames to record; constant after construction */
  gint            warn_leaks;       /* atomic */
} Core;

enum
{
  PROP_0,
  PROP_BACKTRACE_DEPTH,
  PROP_TAG,
  PROP_USAGE,
  PROP_PEAK_BYTES,
  PROP_WARN_LEAKS,
  N_PROPS
};

static GParamSpec *props[N_PROPS];
static guint find_tag_signal;

G_DEFINE_FINAL_TYPE (GpuTrackingAllocator, gpu_tracking_allocator, GPU_TYPE_ALLOCATOR_ADAPTOR)

/* Returns the tag of an allocation from the handlers of ::find-tag: a GRefString, or NULL. */
static char *
find_tag (GpuTrackingAllocator *allocator,
          gsize                 size)
{
  g_autofree char *name = NULL;

  if (g_signal_has_handler_pending (allocator, find_tag_signal, 0, FALSE))
    g_signal_emit (allocator, find_tag_signal, 0, (guint64) size, &name);

  return name != NULL ? g_ref_string_new (name) : NULL;
}

static void
tracking_prepare (GpuAdaptorCore *core,
                  GpuLease       *lease)
{
  Block *block = (Block *) lease;
#ifdef HAVE_BACKTRACE
  const guint depth = ((Core *) core)->depth;
  gpointer frames[MAX_DEPTH];

  if (depth > 0)
    {
      block->n_frames = (guint) backtrace (frames, (int) depth);
      block->frames = g_memdup2 (frames, block->n_frames * sizeof (gpointer));
    }
#endif

  block->time = g_get_monotonic_time ();
  block->tag = find_tag (((Core *) core)->allocator, lease->size);
}

static void
usage_free (gpointer data)
{
  Usage *usage = data;

  g_ref_string_release (usage->name);
  g_free (usage);
}

/* Caller holds the lock. */
static Usage *
ensure_usage (Core       *core,
              const char *name)
{
  Usage *usage = g_hash_table_lookup (core->usages, name);

  if (usage == NULL)
    {
      usage = g_new0 (Usage, 1);
      usage->name = g_ref_string_new (name);
      usage->epoch = core->epoch;
      g_hash_table_insert (core->usages, usage->name, usage);
    }

  return usage;
}

/* Adds to the memory in use with a tag, or subtracts from it. Caller holds the lock. */
static void
change_usage (Core   *core,
              Usage  *usage,
              gssize  bytes)
{
  if (usage->epoch != core->epoch)
    {
      usage->peak_bytes = usage->bytes;
      usage->peak_count = usage->count;
      usage->epoch = core->epoch;
    }

  usage->bytes += (guint64) bytes;
  usage->count += bytes > 0 ? 1 : -1;
  core->bytes += (guint64) bytes;

  if (core->bytes > core->peak_bytes)
    {
      core->peak_bytes = core->bytes;
      core->epoch++;
    }
}

/* Returns whether no memory has the tag now, and none had it at the peak. */
static gboolean
is_unused (const Core  *core,
           const Usage *usage)
{
  return usage->count == 0 && (usage->epoch != core->epoch || usage->peak_count == 0);
}

static void
tracking_granted (GpuAdaptorCore *parent,
                  GpuLease       *lease)
{
  Core *core = (Core *) parent;
  Block *block = (Block *) lease;

  if (block->tag == NULL && core->tag != NULL)
    block->tag = g_ref_string_acquire (core->tag);

  block->usage = ensure_usage (core, block->tag != NULL ? block->tag : "");
  change_usage (core, block->usage, (gssize) lease->size);
}

static gboolean
tracking_returned (GpuAdaptorCore *parent,
                   GpuLease       *lease,
                   GpuStorage     *storage G_GNUC_UNUSED)
{
  Core *core = (Core *) parent;
  Block *block = (Block *) lease;

  g_mutex_lock (&parent->lock);
  change_usage (core, block->usage, -(gssize) lease->size);

  /* Tags may be as many as allocations: keep only those that are in use, or were at the peak. */
  if (is_unused (core, block->usage))
    g_hash_table_remove (core->usages, block->usage->name);

  g_mutex_unlock (&parent->lock);

  g_clear_pointer (&block->tag, g_ref_string_release);
  g_free (block->frames);

  return TRUE;
}

static GVariant *
frames_to_variant (const Block *block)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("at"));

  for (guint i = 0; i < block->n_frames; i++)
    g_variant_builder_add (&builder, "t", (guint64) (gsize) block->frames[i]);

  return g_variant_builder_end (&builder);
}

static void
add_block (GVariantBuilder *builder,
           const Block     *block,
           gint64           now)
{
  g_variant_builder_open (builder, G_VARIANT_TYPE ("a{sv}"));
  g_variant_builder_add (builder, "{sv}", "address",
                         g_variant_new_uint64 (block->parent.pointer));
  g_variant_builder_add (builder, "{sv}", "size", g_variant_new_uint64 (block->parent.size));
  g_variant_builder_add (builder, "{sv}", "stream", g_variant_new_uint64 (block->parent.stream));
  g_variant_builder_add (builder, "{sv}", "age", g_variant_new_int64 (now - block->time));

  if (block->tag != NULL)
    g_variant_builder_add (builder, "{sv}", "tag", g_variant_new_string (block->tag));

  if (block->n_frames > 0)
    g_variant_builder_add (builder, "{sv}", "backtrace", frames_to_variant (block));

  g_variant_builder_close (builder);
}

static GVariant *
list_blocks (Core *core)
{
  gint64 now = g_get_monotonic_time ();
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("aa{sv}"));
  g_mutex_lock (&core->parent.lock);

  for (GList *l = core->parent.leases.head; l != NULL; l = l->next)
    add_block (&builder, l->data, now);

  g_mutex_unlock (&core->parent.lock);

  return g_variant_ref_sink (g_variant_builder_end (&builder));
}

static void
add_usage (GVariantBuilder *builder,
           const Core      *core,
           const Usage     *usage)
{
  const gboolean changed = usage->epoch == core->epoch;

  g_variant_builder_open (builder, G_VARIANT_TYPE ("a{sv}"));

  if (*usage->name != '\0')
    g_variant_builder_add (builder, "{sv}", "tag", g_variant_new_string (usage->name));

  g_variant_builder_add (builder, "{sv}", "bytes", g_variant_new_uint64 (usage->bytes));
  g_variant_builder_add (builder, "{sv}", "count", g_variant_new_uint64 (usage->count));
  g_variant_builder_add (builder, "{sv}", "peak-bytes",
                         g_variant_new_uint64 (changed ? usage->peak_bytes : usage->bytes));
  g_variant_builder_add (builder, "{sv}", "peak-count",
                         g_variant_new_uint64 (changed ? usage->peak_count : usage->count));
  g_variant_builder_close (builder);
}

static GVariant *
list_usage (Core *core)
{
  GHashTableIter iter;
  GVariantBuilder builder;
  gpointer usage;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("aa{sv}"));
  g_mutex_lock (&core->parent.lock);
  g_hash_table_iter_init (&iter, core->usages);

  while (g_hash_table_iter_next (&iter, NULL, &usage))
    {
      if (is_unused (core, usage))
        g_hash_table_iter_remove (&iter);
      else
        add_usage (&builder, core, usage);
    }

  g_mutex_unlock (&core->parent.lock);

  return g_variant_builder_end (&builder);
}

static void
print_backtrace (GString  *text,
                 GVariant *backtrace)
{
#ifdef HAVE_BACKTRACE
  gsize n;
  const guint64 *addresses = g_variant_get_fixed_array (backtrace, &n, sizeof (guint64));
  g_autofree gpointer *frames = g_new (gpointer, n);
  char **symbols;

  for (gsize i = 0; i < n; i++)
    frames[i] = (gpointer) (gsize) addresses[i];

  symbols = backtrace_symbols (frames, (int) n);

  for (gsize i = 0; symbols != NULL && i < n; i++)
    g_string_append_printf (text, "    %s\n", symbols[i]);

  free (symbols);
#endif
}

static void
print_block (GString  *text,
             GVariant *block)
{
  g_auto (GVariantDict) dict = G_VARIANT_DICT_INIT (block);
  g_autoptr (GVariant) backtrace = g_variant_dict_lookup_value (&dict, "backtrace", NULL);
  const char *tag = NULL;
  guint64 address = 0;
  guint64 size = 0;
  gint64 age = 0;

  g_variant_dict_lookup (&dict, "address", "t", &address);
  g_variant_dict_lookup (&dict, "size", "t", &size);
  g_variant_dict_lookup (&dict, "age", "x", &age);
  g_string_append_printf (text, "  0x%" G_GINT64_MODIFIER "x: %" G_GUINT64_FORMAT " bytes, for %"
                          G_GINT64_FORMAT " ms", address, size, age / 1000);

  if (g_variant_dict_lookup (&dict, "tag", "&s", &tag))
    g_string_append_printf (text, ", '%s'", tag);

  g_string_append_c (text, '\n');

  if (backtrace != NULL)
    print_backtrace (text, backtrace);
}

static char *
make_report (Core *core)
{
  g_autoptr (GString) text = g_string_new (NULL);
  g_autoptr (GString) lines = g_string_new (NULL);
  g_autoptr (GVariant) blocks = list_blocks (core);
  const gsize n = g_variant_n_children (blocks);
  guint64 sum = 0;

  for (gsize i = 0; i < n; i++)
    {
      g_autoptr (GVariant) block = g_variant_get_child_value (blocks, i);
      guint64 size = 0;

      g_variant_lookup (block, "size", "t", &size);
      sum += size;
      print_block (lines, block);
    }

  if (n > 0)
    g_string_append_printf (text, "%" G_GSIZE_FORMAT " in use, %" G_GUINT64_FORMAT " bytes:\n%s",
                            n, sum, lines->str);

  return g_string_free (g_steal_pointer (&text), FALSE);
}

static void
tracking_closed (GpuAdaptorCore *parent)
{
  Core *core = (Core *) parent;
  g_autofree char *report = g_atomic_int_get (&core->warn_leaks) ? make_report (core) : NULL;

  if (report != NULL && *report != '\0')
    g_warning ("GpuTrackingAllocator finalized while memory is in use:\n%s", report);
}

static void
tracking_clear (GpuAdaptorCore *core)
{
  g_clear_pointer (&((Core *) core)->tag, g_ref_string_release);
  g_hash_table_unref (((Core *) core)->usages);
}

static const GpuAdaptorOps tracking_ops =
{
  .core_size = sizeof (Core),
  .lease_size = sizeof (Block),
  .prepare = tracking_prepare,
  .granted = tracking_granted,
  .returned = tracking_returned,
  .closed = tracking_closed,
  .clear = tracking_clear
};

static void
gpu_tracking_allocator_get_property (GObject    *object,
                                     guint       id,
                                     GValue     *value,
                                     GParamSpec *pspec)
{
  GpuTrackingAllocator *allocator = GPU_TRACKING_ALLOCATOR (object);
  Core *core = _gpu_adaptor_get_core (allocator);

  switch (id)
    {
    case PROP_BACKTRACE_DEPTH:
      g_value_set_uint (value, core->depth);
      break;
    case PROP_TAG:
      g_mutex_lock (&core->parent.lock);
      g_value_set_string (value, core->tag);
      g_mutex_unlock (&core->parent.lock);
      break;
    case PROP_USAGE:
      g_value_set_variant (value, list_usage (core));
      break;
    case PROP_PEAK_BYTES:
      g_value_set_uint64 (value, _gpu_adaptor_get_uint64 (allocator,
                                                          G_STRUCT_OFFSET (Core, peak_bytes)));
      break;
    case PROP_WARN_LEAKS:
      g_value_set_boolean (value, g_atomic_int_get (&core->warn_leaks));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
set_warn_leaks (GpuTrackingAllocator *allocator,
                gboolean              warn_leaks)
{
  Core *core = _gpu_adaptor_get_core (allocator);

  if (g_atomic_int_compare_and_exchange (&core->warn_leaks, !warn_leaks, !!warn_leaks))
    g_object_notify_by_pspec (G_OBJECT (allocator), props[PROP_WARN_LEAKS]);
}

static void
set_tag (GpuTrackingAllocator *allocator,
         const char           *tag)
{
  char *replaced = tag != NULL ? g_ref_string_new (tag) : NULL;
  gboolean changed;
  Core *core;
  char *old;

  core = _gpu_adaptor_get_core (allocator);
  g_mutex_lock (&core->parent.lock);
  old = core->tag;
  core->tag = replaced;
  changed = g_strcmp0 (old, tag) != 0;
  g_mutex_unlock (&core->parent.lock);

  g_clear_pointer (&old, g_ref_string_release);

  if (changed)
    g_object_notify_by_pspec (G_OBJECT (allocator), props[PROP_TAG]);
}

static void
gpu_tracking_allocator_set_property (GObject      *object,
                                     guint         id,
                                     const GValue *value,
                                     GParamSpec   *pspec)
{
  GpuTrackingAllocator *allocator = GPU_TRACKING_ALLOCATOR (object);
  Core *core = _gpu_adaptor_get_core (object);

  switch (id)
    {
    case PROP_BACKTRACE_DEPTH:
      core->depth = g_value_get_uint (value);
      break;
    case PROP_TAG:
      set_tag (allocator, g_value_get_string (value));
      break;
    case PROP_WARN_LEAKS:
      set_warn_leaks (allocator, g_value_get_boolean (value));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

/* Ends the emission at the first tag. */
static gboolean
accumulate_tag (GSignalInvocationHint *hint G_GNUC_UNUSED,
                GValue                *result,
                const GValue          *returned,
                gpointer               data G_GNUC_UNUSED)
{
  g_value_copy (returned, result);

  return g_value_get_string (returned) == NULL;
}

static void
install_usage (GpuTrackingAllocatorClass *klass)
{
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;

  /**
   * GpuTrackingAllocator:usage:
   *
   * The memory of each tag, as an array of type `aa{sv}` in no particular order. Each entry has
   *
   * - optionally `tag`, `s`;
   * - `bytes` and `count`, `t`: the memory in use;
   * - `peak-bytes` and `peak-count`, `t`: the memory that was in use with this tag when all memory
   *   in use reached #GpuTrackingAllocator:peak-bytes.
   *
   * Since: 0.1
   */
  props[PROP_USAGE] = g_param_spec_variant ("usage", NULL, NULL, G_VARIANT_TYPE ("aa{sv}"), NULL,
                                            flags);
  /**
   * GpuTrackingAllocator:peak-bytes:
   *
   * The largest number of bytes that were in use at the same time.
   *
   * Since: 0.1
   */
  props[PROP_PEAK_BYTES] = g_param_spec_uint64 ("peak-bytes", NULL, NULL, 0, G_MAXUINT64, 0, flags);

  /**
   * GpuTrackingAllocator::find-tag:
   * @allocator: the allocator
   * @size: bytes requested
   *
   * Emitted for each allocation, in the thread that allocates. The first tag that a handler returns
   * is the tag of the allocation. If no handler returns a tag, the allocation gets the tag of
   * #GpuTrackingAllocator:tag. Handlers must not allocate from @allocator.
   *
   * Returns: (nullable): the tag, such as the line of the program that allocates
   *
   * Since: 0.1
   */
  find_tag_signal = g_signal_new ("find-tag", G_TYPE_FROM_CLASS (klass), G_SIGNAL_RUN_LAST, 0,
                                  accumulate_tag, NULL, NULL, G_TYPE_STRING, 1, G_TYPE_UINT64);
}

static void
gpu_tracking_allocator_class_init (GpuTrackingAllocatorClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READWRITE | G_PARAM_EXPLICIT_NOTIFY | G_PARAM_STATIC_STRINGS;

  object_class->get_property = gpu_tracking_allocator_get_property;
  object_class->set_property = gpu_tracking_allocator_set_property;

  /**
   * GpuTrackingAllocator:backtrace-depth:
   *
   * The number of stack frames recorded for each allocation, 0 for none.
   *
   * Since: 0.1
   */
  props[PROP_BACKTRACE_DEPTH] =
    g_param_spec_uint ("backtrace-depth", NULL, NULL, 0, MAX_DEPTH, 0,
                       G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS);
  /**
   * GpuTrackingAllocator:tag:
   *
   * The tag of later allocations of all threads, or %NULL for no tag. A tag that a handler of
   * #GpuTrackingAllocator::find-tag returns takes precedence.
   *
   * Since: 0.1
   */
  props[PROP_TAG] = g_param_spec_string ("tag", NULL, NULL, NULL, flags);
  /**
   * GpuTrackingAllocator:warn-leaks:
   *
   * Whether the adaptor logs a warning when it is finalized while memory is in use. The warning
   * contains the text of gpu_tracking_allocator_report().
   *
   * Since: 0.1
   */
  props[PROP_WARN_LEAKS] = g_param_spec_boolean ("warn-leaks", NULL, NULL, FALSE, flags);

  install_usage (klass);
  g_object_class_install_properties (object_class, N_PROPS, props);
}

static void
gpu_tracking_allocator_init (GpuTrackingAllocator *allocator)
{
  Core *core = _gpu_adaptor_init (&allocator->parent_instance, &tracking_ops);

  core->allocator = allocator;
  core->usages = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, usage_free);
}

/**
 * gpu_tracking_allocator_new:
 * @upstream: the allocator to wrap
 * @backtrace_depth: the number of stack frames to record for each allocation, at most 64, 0 for
 *   none; ignored if the C library has no backtrace()
 *
 * Creates an adaptor that lists the memory in use. May be called from any thread.
 *
 * Returns: (transfer full): the allocator
 *
 * Since: 0.1
 */
GpuTrackingAllocator *
gpu_tracking_allocator_new (GpuAllocator *upstream,
                            guint         backtrace_depth)
{
  g_return_val_if_fail (GPU_IS_ALLOCATOR (upstream), NULL);

  return g_object_new (GPU_TYPE_TRACKING_ALLOCATOR, "upstream", upstream,
                       "backtrace-depth", MIN (backtrace_depth, MAX_DEPTH), NULL);
}

/**
 * gpu_tracking_allocator_list_blocks:
 * @allocator: a #GpuTrackingAllocator
 *
 * Lists the memory in use, oldest first. Each entry has
 *
 * - `address`, `t`: the device address, or the driver's handle if the address is unknown;
 * - `size`, `t`: bytes requested;
 * - `stream`, `t`: the driver's handle of the stream, or 0;
 * - `age`, `x`: microseconds since the allocation;
 * - optionally `tag`, `s`, and `backtrace`, `at`: the addresses of the stack frames.
 *
 * May be called from any thread.
 *
 * Returns: (transfer full): an array of type `aa{sv}`
 *
 * Since: 0.1
 */
GVariant *
gpu_tracking_allocator_list_blocks (GpuTrackingAllocator *allocator)
{
  g_return_val_if_fail (GPU_IS_TRACKING_ALLOCATOR (allocator), NULL);

  return list_blocks (_gpu_adaptor_get_core (allocator));
}

/**
 * gpu_tracking_allocator_report:
 * @allocator: a #GpuTrackingAllocator
 *
 * Formats the result of gpu_tracking_allocator_list_blocks() as text: a line with the sums, and a
 * line for each memory object, followed by the backtrace of its allocation if the adaptor recorded
 * it. May be called from any thread.
 *
 * Returns: (transfer full): the text, empty if no memory is in use
 *
 * Since: 0.1
 */
char *
gpu_tracking_allocator_report (GpuTrackingAllocator *allocator)
{
  g_return_val_if_fail (GPU_IS_TRACKING_ALLOCATOR (allocator), NULL);

  return make_report (_gpu_adaptor_get_core (allocator));
}
