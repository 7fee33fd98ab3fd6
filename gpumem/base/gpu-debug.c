/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/base/gpu-stripe-private.h"

/**
 * SECTION:gpu-debug
 * @title: Debugging
 * @short_description: debug output and live objects
 *
 * The environment variable `GPUMEM_DEBUG` makes the library log messages: see [Environment
 * variables][environment-variables].
 *
 * gpu_debug_list_live_objects() lists the objects that a program has not released.
 */

static const GDebugKey debug_keys[] =
{
  { "errors", GPU_DEBUG_ERRORS },
  { "hazards", GPU_DEBUG_HAZARDS },
  { "completion", GPU_DEBUG_COMPLETION },
  { "cache", GPU_DEBUG_CACHE },
  { "transfer", GPU_DEBUG_TRANSFER },
  { "host-delay", GPU_DEBUG_HOST_DELAY },
  { "build", GPU_DEBUG_BUILD },
  { "devices", GPU_DEBUG_DEVICES },
  { "stage", GPU_DEBUG_STAGE },
  { "pool", GPU_DEBUG_POOL },
  { "marks", GPU_DEBUG_MARKS }
};

static const char *const live_names[GPU_LIVE_N] =
{
  [GPU_LIVE_DEVICE_MODEL]   = "device-model",
  [GPU_LIVE_CONTEXT]        = "context",
  [GPU_LIVE_STREAM]         = "stream",
  [GPU_LIVE_EVENT]          = "event",
  [GPU_LIVE_BUFFER]         = "buffer",
  [GPU_LIVE_SVM]            = "svm",
  [GPU_LIVE_IMAGE]          = "image",
  [GPU_LIVE_SAMPLER]        = "sampler",
  [GPU_LIVE_MAPPING]        = "mapping",
  [GPU_LIVE_HOST_MEMORY]    = "host-memory",
  [GPU_LIVE_HOST_ALLOCATOR] = "host-allocator",
  [GPU_LIVE_HOST_BLOCK]     = "host-block",
  [GPU_LIVE_PROGRAM]        = "program",
  [GPU_LIVE_KERNEL]         = "kernel",
  [GPU_LIVE_STORAGE]        = "storage",
  [GPU_LIVE_TIMELINE]       = "timeline",
  [GPU_LIVE_FENCE]          = "fence",
  [GPU_LIVE_NATIVE_CONTEXT] = "native-context",
  [GPU_LIVE_PROGRAM_CORE]   = "program-core",
  [GPU_LIVE_KERNEL_CORE]    = "kernel-core",
  [GPU_LIVE_ARGUMENTS]      = "arguments",
  [GPU_LIVE_LAUNCH]         = "launch",
  [GPU_LIVE_TRANSFER]       = "transfer",
  [GPU_LIVE_ALLOCATOR]      = "allocator",
  [GPU_LIVE_ADAPTOR_CORE]   = "adaptor-core",
  [GPU_LIVE_MEMORY_POOL]    = "memory-pool",
  [GPU_LIVE_POOL_CORE]      = "pool-core",
  [GPU_LIVE_ARRAY]          = "array"
};

/* The sum over all stripes is the number of live objects. */
static struct
{
  int counts[GPU_LIVE_N];
} __attribute__ ((aligned (GPU_LINE))) live[GPU_N_STRIPES];

/* The arguments of _gpu_live_exclude(). */
typedef struct
{
  GpuLiveCountFunc *count;
  gpointer          data;
} Exclusion;

static GMutex exclusions_lock;
static GArray *exclusions;          /* of Exclusion; guarded by exclusions_lock */

static char **
split_words (const char *text)
{
  return g_strsplit_set (text, ":;, \t", -1);
}

/* These keys change the behavior of the library, so the key "all" does not select them. */
#define TEST_FLAGS (GPU_DEBUG_HOST_DELAY | GPU_DEBUG_STAGE)

/* GLib prints the list of keys if @word is "help". */
static guint
parse_word (const char *word)
{
  return g_parse_debug_string (word, debug_keys, G_N_ELEMENTS (debug_keys));
}

/* As in GLib, "all" selects the keys that are not in the value. */
static gpointer
parse_flags (gpointer unused G_GNUC_UNUSED)
{
  const char *text = g_getenv ("GPUMEM_DEBUG");
  g_auto (GStrv) words = split_words (text != NULL ? text : "");
  gboolean is_all = FALSE;
  guint named = 0;

  for (gsize i = 0; words[i] != NULL; i++)
    {
      if (g_ascii_strcasecmp (words[i], "all") == 0)
        is_all = TRUE;
      else
        named |= parse_word (words[i]);
    }

  return GUINT_TO_POINTER (is_all ? (parse_word ("all") & ~TEST_FLAGS) ^ named : named);
}

gboolean
_gpu_debug_has (GpuDebugFlags flags)
{
  static GOnce once = G_ONCE_INIT;

  return (GPOINTER_TO_UINT (g_once (&once, parse_flags, NULL)) & flags) != 0;
}

/* Returns the words that are not in debug_keys, each in quotation marks. */
static char *
list_unknown_words (const char *text)
{
  g_auto (GStrv) words = split_words (text);
  g_autoptr (GString) unknown = g_string_new (NULL);

  for (gsize i = 0; words[i] != NULL; i++)
    {
      if (words[i][0] != '\0' && g_ascii_strcasecmp (words[i], "help") != 0
          && parse_word (words[i]) == 0)
        g_string_append_printf (unknown, "%s\"%s\"", unknown->len > 0 ? ", " : "", words[i]);
    }

  return g_string_free (g_steal_pointer (&unknown), FALSE);
}

void
_gpu_debug_check_keys (void)
{
  static gint is_checked;
  const char *text = g_getenv ("GPUMEM_DEBUG");
  g_autofree char *unknown = NULL;
  g_autoptr (GString) known = NULL;

  if (text == NULL || !g_atomic_int_compare_and_exchange (&is_checked, FALSE, TRUE))
    return;

  unknown = list_unknown_words (text);
  if (unknown[0] == '\0')
    return;

  known = g_string_new (NULL);
  for (gsize i = 0; i < G_N_ELEMENTS (debug_keys); i++)
    g_string_append_printf (known, "%s, ", debug_keys[i].key);

  g_warning ("GPUMEM_DEBUG: unknown %s; the keys are %sall and help", unknown, known->str);
}

static const char *
key_of (GpuDebugFlags flags)
{
  for (gsize i = 0; i < G_N_ELEMENTS (debug_keys); i++)
    {
      if ((debug_keys[i].value & flags) != 0)
        return debug_keys[i].key;
    }

  return "debug";
}

void
_gpu_debug_log (GpuDebugFlags  flags,
                const char    *file,
                const char    *line,
                const char    *function,
                const char    *format,
                ...)
{
  g_autofree char *text = NULL;
  va_list ap;

  va_start (ap, format);
  text = g_strdup_vprintf (format, ap);
  va_end (ap);

  g_log_structured (G_LOG_DOMAIN, G_LOG_LEVEL_MESSAGE,
                    "CODE_FILE", file, "CODE_LINE", line, "CODE_FUNC", function,
                    "GPUMEM_TOPIC", key_of (flags),
                    "MESSAGE", "%s: %s", key_of (flags), text);
}

/* The release order lets a thread that counts 0 objects see the results of the work that held the
 * objects. */
void
_gpu_live_add (GpuLiveKind kind,
               int         delta)
{
  __atomic_fetch_add (&live[_gpu_stripe_get ()].counts[kind], delta, __ATOMIC_RELEASE);
}

void
_gpu_live_exclude (GpuLiveCountFunc *count,
                   gpointer          data)
{
  const Exclusion exclusion = { count, data };

  g_mutex_lock (&exclusions_lock);

  if (exclusions == NULL)
    exclusions = g_array_new (FALSE, FALSE, sizeof (Exclusion));

  g_array_append_val (exclusions, exclusion);
  g_mutex_unlock (&exclusions_lock);
}

void
_gpu_live_lock (void)
{
  g_mutex_lock (&exclusions_lock);
}

void
_gpu_live_unlock (void)
{
  g_mutex_unlock (&exclusions_lock);
}

void
_gpu_live_include (gpointer data)
{
  guint i = 0;

  g_mutex_lock (&exclusions_lock);

  while (g_array_index (exclusions, Exclusion, i).data != data)
    i++;

  g_array_remove_index_fast (exclusions, i);

  if (exclusions->len == 0)
    g_clear_pointer (&exclusions, g_array_unref);

  g_mutex_unlock (&exclusions_lock);
}

static int
count_excluded (void)
{
  int count = 0;

  g_mutex_lock (&exclusions_lock);

  for (guint i = 0; exclusions != NULL && i < exclusions->len; i++)
    {
      const Exclusion *exclusion = &g_array_index (exclusions, Exclusion, i);

      count += exclusion->count (exclusion->data);
    }

  g_mutex_unlock (&exclusions_lock);

  return count;
}

static int
count_live (guint kind)
{
  int count = 0;

  for (guint stripe = 0; stripe < GPU_N_STRIPES; stripe++)
    count += __atomic_load_n (&live[stripe].counts[kind], __ATOMIC_ACQUIRE);

  return count;
}

/**
 * gpu_debug_list_live_objects:
 *
 * Counts the live objects of this library in this process, by kind: public objects, such as
 * `buffer`, and their private cores, such as `storage`, which live until the device has completed
 * all work on them. Kinds without live objects are omitted, so the dictionary is empty once the
 * program has released everything and all its work has completed. A #GpuDevice is not counted,
 * because its data lives as long as the process.
 *
 * Any thread may call this function. Objects that other threads create or release during the call
 * may or may not be counted.
 *
 * Returns: (transfer full): a dictionary of type `a{su}`
 *
 * Since: 0.1
 */
GVariant *
gpu_debug_list_live_objects (void)
{
  int excluded = count_excluded ();
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a{su}"));

  for (guint i = 0; i < GPU_LIVE_N; i++)
    {
      int count = count_live (i);

      if (i == GPU_LIVE_BUFFER || i == GPU_LIVE_STORAGE)
        count -= excluded;

      /* Other threads may change the counts meanwhile, so the sum may be negative. */
      if (count > 0)
        g_variant_builder_add (&builder, "{su}", live_names[i], (guint32) count);
    }

  return g_variant_ref_sink (g_variant_builder_end (&builder));
}
