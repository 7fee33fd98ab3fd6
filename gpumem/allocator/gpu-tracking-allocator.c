/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#ifdef HAVE_BACKTRACE
#include <execinfo.h>
#endif

#include "gpumem/allocator/gpu-allocator-adaptor-private.h"

/**
 * SECTION:gpu-tracking-allocator
 * @title: GpuTrackingAllocator
 * @short_description: tells who has memory
 *
 * Knows every memory in use: where it is, how large, since when, with which tag it was given, and,
 * if wanted, who called. gpu_tracking_allocator_report() is that as text.
 *
 * A tag names the part of a program that asks. It is the same for all threads; parts that run at
 * the same time each have an adaptor of their own around the same upstream.
 */

/**
 * GpuTrackingAllocator:
 *
 * An adaptor that knows what is in use.
 *
 * Since: 0.1
 */
struct _GpuTrackingAllocator
{
  GpuAllocatorAdaptor parent_instance;

  guint               backtrace_depth;
  gint                warn_leaks;   /* atomic */
};

#define MAX_DEPTH 64

typedef struct
{
  GpuLease   parent;

  GList      link;                  /* in blocks */
  char      *tag;                   /* GRefString, nullable */
  gint64     time;                  /* of the monotonic clock, in microseconds */
  gpointer  *frames;
  guint      n_frames;
} Block;

typedef struct
{
  GpuAdaptorCore  parent;

  GQueue          blocks;           /* of Block, the oldest first */
  char           *tag;              /* GRefString, nullable */
  guint           depth;            /* of backtraces; does not change once memory is given */
} Core;

enum
{
  PROP_0,
  PROP_BACKTRACE_DEPTH,
  PROP_TAG,
  PROP_WARN_LEAKS,
  N_PROPS
};

static GParamSpec *props[N_PROPS];

G_DEFINE_FINAL_TYPE (GpuTrackingAllocator, gpu_tracking_allocator, GPU_TYPE_ALLOCATOR_ADAPTOR)

static Core *
get_core (gpointer adaptor)
{
  return (Core *) GPU_ALLOCATOR_ADAPTOR (adaptor)->core;
}

static void
take_backtrace (Block *block,
                guint  depth)
{
#ifdef HAVE_BACKTRACE
  gpointer frames[MAX_DEPTH];

  if (depth > 0)
    {
      block->n_frames = (guint) backtrace (frames, (int) depth);
      block->frames = g_memdup2 (frames, block->n_frames * sizeof (gpointer));
    }
#endif
}

static void
tracking_granted (GpuAdaptorCore *parent,
                  GpuLease       *lease)
{
  Core *core = (Core *) parent;
  Block *block = (Block *) lease;

  block->link.data = block;
  block->time = g_get_monotonic_time ();
  take_backtrace (block, core->depth);

  g_mutex_lock (&parent->lock);
  block->tag = core->tag != NULL ? g_ref_string_acquire (core->tag) : NULL;
  g_queue_push_tail_link (&core->blocks, &block->link);
  g_mutex_unlock (&parent->lock);
}

static gboolean
tracking_returned (GpuAdaptorCore *parent,
                   GpuLease       *lease,
                   GpuStorage     *storage G_GNUC_UNUSED)
{
  Block *block = (Block *) lease;

  g_mutex_lock (&parent->lock);
  g_queue_unlink (&((Core *) parent)->blocks, &block->link);
  g_mutex_unlock (&parent->lock);

  g_clear_pointer (&block->tag, g_ref_string_release);
  g_free (block->frames);

  return TRUE;
}

static void
tracking_clear (GpuAdaptorCore *core)
{
  g_clear_pointer (&((Core *) core)->tag, g_ref_string_release);
}

static const GpuAdaptorOps tracking_ops =
{
  .core_size = sizeof (Core),
  .lease_size = sizeof (Block),
  .granted = tracking_granted,
  .returned = tracking_returned,
  .clear = tracking_clear
};

static void
gpu_tracking_allocator_get_property (GObject    *object,
                                     guint       id,
                                     GValue     *value,
                                     GParamSpec *pspec)
{
  GpuTrackingAllocator *allocator = GPU_TRACKING_ALLOCATOR (object);

  switch (id)
    {
    case PROP_BACKTRACE_DEPTH:
      g_value_set_uint (value, allocator->backtrace_depth);
      break;
    case PROP_TAG:
      g_value_take_string (value, gpu_tracking_allocator_dup_tag (allocator));
      break;
    case PROP_WARN_LEAKS:
      g_value_set_boolean (value, gpu_tracking_allocator_get_warn_leaks (allocator));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gpu_tracking_allocator_set_property (GObject      *object,
                                     guint         id,
                                     const GValue *value,
                                     GParamSpec   *pspec)
{
  GpuTrackingAllocator *allocator = GPU_TRACKING_ALLOCATOR (object);

  switch (id)
    {
    case PROP_BACKTRACE_DEPTH:
      allocator->backtrace_depth = g_value_get_uint (value);
      get_core (allocator)->depth = allocator->backtrace_depth;
      break;
    case PROP_TAG:
      gpu_tracking_allocator_set_tag (allocator, g_value_get_string (value));
      break;
    case PROP_WARN_LEAKS:
      gpu_tracking_allocator_set_warn_leaks (allocator, g_value_get_boolean (value));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gpu_tracking_allocator_finalize (GObject *object)
{
  GpuTrackingAllocator *allocator = GPU_TRACKING_ALLOCATOR (object);
  g_autofree char *report = NULL;

  if (gpu_tracking_allocator_get_warn_leaks (allocator))
    report = gpu_tracking_allocator_report (allocator);

  if (report != NULL && *report != '\0')
    g_warning ("a GpuTrackingAllocator goes while memory is in use:\n%s", report);

  G_OBJECT_CLASS (gpu_tracking_allocator_parent_class)->finalize (object);
}

static void
gpu_tracking_allocator_class_init (GpuTrackingAllocatorClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READWRITE | G_PARAM_EXPLICIT_NOTIFY | G_PARAM_STATIC_STRINGS;

  object_class->get_property = gpu_tracking_allocator_get_property;
  object_class->set_property = gpu_tracking_allocator_set_property;
  object_class->finalize = gpu_tracking_allocator_finalize;

  /**
   * GpuTrackingAllocator:backtrace-depth:
   *
   * How many callers are noted for each memory, 0 for none.
   *
   * Since: 0.1
   */
  props[PROP_BACKTRACE_DEPTH] =
    g_param_spec_uint ("backtrace-depth", NULL, NULL, 0, MAX_DEPTH, 0,
                       G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS);
  /**
   * GpuTrackingAllocator:tag:
   *
   * What memory that is given from now on is for.
   *
   * Since: 0.1
   */
  props[PROP_TAG] = g_param_spec_string ("tag", NULL, NULL, NULL, flags);
  /**
   * GpuTrackingAllocator:warn-leaks:
   *
   * Whether there is a warning, with the report, if memory is in use when the allocator goes.
   *
   * Since: 0.1
   */
  props[PROP_WARN_LEAKS] = g_param_spec_boolean ("warn-leaks", NULL, NULL, FALSE, flags);

  g_object_class_install_properties (object_class, N_PROPS, props);
}

static void
gpu_tracking_allocator_init (GpuTrackingAllocator *allocator)
{
  Core *core = _gpu_adaptor_init (&allocator->parent_instance, &tracking_ops);

  g_queue_init (&core->blocks);
}

/**
 * gpu_tracking_allocator_new:
 * @upstream: the allocator to track
 * @backtrace_depth: how many callers to note for each memory, 64 at most, 0 for none; nothing is
 *   noted where the C library has no backtrace()
 *
 * Makes an adaptor that knows what memory is in use.
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
 * gpu_tracking_allocator_get_backtrace_depth:
 * @allocator: a #GpuTrackingAllocator
 *
 * Gets how many callers are noted for each memory. Any thread.
 *
 * Returns: the number
 *
 * Since: 0.1
 */
guint
gpu_tracking_allocator_get_backtrace_depth (GpuTrackingAllocator *allocator)
{
  g_return_val_if_fail (GPU_IS_TRACKING_ALLOCATOR (allocator), 0);

  return allocator->backtrace_depth;
}

/**
 * gpu_tracking_allocator_dup_tag:
 * @allocator: a #GpuTrackingAllocator
 *
 * Gets what memory that is given now is for. Any thread.
 *
 * Returns: (transfer full) (nullable): the tag, or %NULL
 *
 * Since: 0.1
 */
char *
gpu_tracking_allocator_dup_tag (GpuTrackingAllocator *allocator)
{
  Core *core;
  char *tag;

  g_return_val_if_fail (GPU_IS_TRACKING_ALLOCATOR (allocator), NULL);

  core = get_core (allocator);
  g_mutex_lock (&core->parent.lock);
  tag = g_strdup (core->tag);
  g_mutex_unlock (&core->parent.lock);

  return tag;
}

/**
 * gpu_tracking_allocator_set_tag:
 * @allocator: a #GpuTrackingAllocator
 * @tag: (nullable): a name, or %NULL
 *
 * Sets what memory that is given from now on is for, whatever thread it is given to. Any thread.
 *
 * Since: 0.1
 */
void
gpu_tracking_allocator_set_tag (GpuTrackingAllocator *allocator,
                                const char           *tag)
{
  char *replaced = tag != NULL ? g_ref_string_new (tag) : NULL;
  gboolean changed;
  Core *core;
  char *old;

  g_return_if_fail (GPU_IS_TRACKING_ALLOCATOR (allocator));

  core = get_core (allocator);
  g_mutex_lock (&core->parent.lock);
  old = core->tag;
  core->tag = replaced;
  changed = g_strcmp0 (old, tag) != 0;
  g_mutex_unlock (&core->parent.lock);

  g_clear_pointer (&old, g_ref_string_release);

  if (changed)
    g_object_notify_by_pspec (G_OBJECT (allocator), props[PROP_TAG]);
}

/**
 * gpu_tracking_allocator_get_warn_leaks:
 * @allocator: a #GpuTrackingAllocator
 *
 * Tells whether there is a warning if memory is in use when @allocator goes. Any thread.
 *
 * Returns: %TRUE if there is
 *
 * Since: 0.1
 */
gboolean
gpu_tracking_allocator_get_warn_leaks (GpuTrackingAllocator *allocator)
{
  g_return_val_if_fail (GPU_IS_TRACKING_ALLOCATOR (allocator), FALSE);

  return g_atomic_int_get (&allocator->warn_leaks);
}

/**
 * gpu_tracking_allocator_set_warn_leaks:
 * @allocator: a #GpuTrackingAllocator
 * @warn_leaks: whether to warn
 *
 * Sets whether there is a warning, with the report, if memory is in use when @allocator goes. Any
 * thread.
 *
 * Since: 0.1
 */
void
gpu_tracking_allocator_set_warn_leaks (GpuTrackingAllocator *allocator,
                                       gboolean              warn_leaks)
{
  g_return_if_fail (GPU_IS_TRACKING_ALLOCATOR (allocator));

  if (g_atomic_int_compare_and_exchange (&allocator->warn_leaks, !warn_leaks, !!warn_leaks))
    g_object_notify_by_pspec (G_OBJECT (allocator), props[PROP_WARN_LEAKS]);
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

/**
 * gpu_tracking_allocator_list_blocks:
 * @allocator: a #GpuTrackingAllocator
 *
 * Lists the memory in use, the oldest first. Each has `address`, or the driver's handle where that
 * tells none, and `size` in bytes and `stream`, the driver's handle or 0, all of type `t`; `age` in
 * microseconds, `x`; perhaps `tag`, `s`, and `backtrace`, the addresses of the callers, `at`. Any
 * thread.
 *
 * Returns: (transfer full): an array of type `aa{sv}`
 *
 * Since: 0.1
 */
GVariant *
gpu_tracking_allocator_list_blocks (GpuTrackingAllocator *allocator)
{
  gint64 now = g_get_monotonic_time ();
  GVariantBuilder builder;
  Core *core;

  g_return_val_if_fail (GPU_IS_TRACKING_ALLOCATOR (allocator), NULL);

  core = get_core (allocator);
  g_variant_builder_init (&builder, G_VARIANT_TYPE ("aa{sv}"));
  g_mutex_lock (&core->parent.lock);

  for (GList *l = core->blocks.head; l != NULL; l = l->next)
    add_block (&builder, l->data, now);

  g_mutex_unlock (&core->parent.lock);

  return g_variant_ref_sink (g_variant_builder_end (&builder));
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

/**
 * gpu_tracking_allocator_report:
 * @allocator: a #GpuTrackingAllocator
 *
 * Tells what gpu_tracking_allocator_list_blocks() does as text for people: a line with the sums,
 * and one for each memory, followed by its callers if they were noted. Any thread.
 *
 * Returns: (transfer full): the text, empty if no memory is in use
 *
 * Since: 0.1
 */
char *
gpu_tracking_allocator_report (GpuTrackingAllocator *allocator)
{
  g_autoptr (GString) text = g_string_new (NULL);
  g_autoptr (GString) lines = g_string_new (NULL);
  g_autoptr (GVariant) blocks = NULL;
  guint64 sum = 0;
  gsize n;

  g_return_val_if_fail (GPU_IS_TRACKING_ALLOCATOR (allocator), NULL);

  blocks = gpu_tracking_allocator_list_blocks (allocator);
  n = g_variant_n_children (blocks);

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
