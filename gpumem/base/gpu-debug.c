/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/base/gpu-debug-private.h"

/**
 * SECTION:gpu-debug
 * @title: Debugging
 * @short_description: what lives, and what goes on inside
 *
 * The environment variable `GPUMEM_DEBUG` makes the library tell on the standard error what it
 * does. It takes keys, separated by commas: `errors`, `hazards`, `completion`, `cache`,
 * `build`, `devices`, `pool`, which tells of the decisions of memory pools; `transfer`, which tells
 * of copies of ordinary memory of the host that are staged, or that may make their caller wait;
 * `stage`, which has all copies staged that can be, however small, and on devices that gain nothing
 * by it; and `host-delay`, which makes every operation of the host back end start late, so that
 * programs that forget to wait show it. `all` stands for all of them, and `help` lists them. The
 * variable is read once, when it is first needed.
 *
 * gpu_debug_list_live_objects() tells what a program has not let go of.
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
  { "pool", GPU_DEBUG_POOL }
};

static const char *const live_names[GPU_LIVE_N] =
{
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

static int live_counts[GPU_LIVE_N + 1];

static gpointer
parse_flags (gpointer unused G_GNUC_UNUSED)
{
  return GUINT_TO_POINTER (g_parse_debug_string (g_getenv ("GPUMEM_DEBUG"), debug_keys,
                                                 G_N_ELEMENTS (debug_keys)));
}

gboolean
_gpu_debug_has (GpuDebugFlags flags)
{
  static GOnce once = G_ONCE_INIT;

  return (GPOINTER_TO_UINT (g_once (&once, parse_flags, NULL)) & flags) != 0;
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
_gpu_debug_print (GpuDebugFlags  flags,
                  const char    *format,
                  ...)
{
  g_autofree char *text = NULL;
  va_list ap;

  if (!_gpu_debug_has (flags))
    return;

  va_start (ap, format);
  text = g_strdup_vprintf (format, ap);
  va_end (ap);

  g_printerr ("gpumem-%s: %s\n", key_of (flags), text);
}

void
_gpu_live_add (GpuLiveKind kind,
               int         delta)
{
  __atomic_fetch_add (&live_counts[kind], delta, __ATOMIC_RELAXED);
}

/**
 * gpu_debug_list_live_objects:
 *
 * Counts the objects of this library that live in this process, by kind: the public ones, such as
 * `buffer`, and what is behind them, such as `storage`, which stays until the device has done all
 * work on it. Kinds of which there is none are left out, so a program that has let go of
 * everything, and whose work is done, gets an empty dictionary. Devices are not counted: they
 * live as long as the process.
 *
 * Any thread may call it; what other threads do at the time may or may not be counted.
 *
 * Returns: (transfer full): a dictionary of type `a{su}`
 *
 * Since: 0.1
 */
GVariant *
gpu_debug_list_live_objects (void)
{
  int spare = __atomic_load_n (&live_counts[GPU_LIVE_RECYCLED], __ATOMIC_RELAXED);
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a{su}"));

  for (guint i = 0; i < GPU_LIVE_N; i++)
    {
      int count = __atomic_load_n (&live_counts[i], __ATOMIC_RELAXED);

      if (i == GPU_LIVE_BUFFER || i == GPU_LIVE_STORAGE)
        count -= spare;

      if (count != 0)
        g_variant_builder_add (&builder, "{su}", live_names[i], (guint32) count);
    }

  return g_variant_ref_sink (g_variant_builder_end (&builder));
}
