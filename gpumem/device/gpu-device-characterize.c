/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Traits of devices that drivers do not report, derived from their attributes and from tables of
 * hardware and drivers. Unknown traits are left out, never guessed.
 */
#include "config.h"

#include <string.h>

#include "gpumem/device/gpu-device-private.h"

#define MAX_BANKS 64

typedef struct
{
  GpuNativeDevice *device;
  GVariant        *attributes;
  gboolean         is_processor;    /* a CPU or the host, whose local memory is ordinary memory */
  gboolean         is_cuda;
  gboolean         is_nvidia;
  gboolean         is_amd;
  gboolean         is_intel;
  gboolean         is_pocl;
  gboolean         is_apple;
} Traits;

/* The layout of local memory; zeros if it is unknown. */
typedef struct
{
  guint64 n_banks;
  guint64 granularity;              /* bytes of one bank */
  guint64 n_items;                  /* work-items served at once */
} LocalMemory;

static gboolean
mentions (const char *text,
          const char *word)
{
  g_autofree char *folded = text != NULL ? g_ascii_strdown (text, -1) : NULL;

  return folded != NULL && strstr (folded, word) != NULL;
}

static void
traits_init (Traits          *traits,
             GpuNativeDevice *device,
             GVariant        *attributes)
{
  traits->device = device;
  traits->attributes = attributes;
  traits->is_processor = device->type == GPU_DEVICE_TYPE_CPU ||
                         device->type == GPU_DEVICE_TYPE_HOST;
  traits->is_cuda = g_str_equal (device->backend->name, "cuda");
  traits->is_nvidia = mentions (device->vendor, "nvidia");
  traits->is_amd = mentions (device->vendor, "advanced micro devices") ||
                   mentions (device->vendor, "amd");
  traits->is_intel = mentions (device->vendor, "intel");
  traits->is_pocl = mentions (device->platform, "portable computing language");
  traits->is_apple = mentions (device->platform, "apple");
}

static gboolean
get_number (const Traits *traits,
            const char   *nick,
            guint64      *number)
{
  g_autoptr (GVariant) value = g_variant_lookup_value (traits->attributes, nick, NULL);

  if (value == NULL)
    return FALSE;

  if (g_variant_is_of_type (value, G_VARIANT_TYPE_UINT32))
    *number = g_variant_get_uint32 (value);
  else if (g_variant_is_of_type (value, G_VARIANT_TYPE_UINT64))
    *number = g_variant_get_uint64 (value);
  else
    return FALSE;

  return TRUE;
}

/* Returns 0 if the size is unknown. */
static guint64
find_simd_group_size (const Traits *traits)
{
  static const char *const nicks[] =
  {
    "warp-size", "warp-size-nv", "wavefront-width-amd", "preferred-work-group-size-multiple"
  };
  g_autoptr (GVariant) sizes = NULL;
  guint64 size = 0;

  if (traits->is_processor)
    return 1;

  sizes = g_variant_lookup_value (traits->attributes, "sub-group-sizes-intel",
                                  G_VARIANT_TYPE ("at"));
  for (gsize i = 0; sizes != NULL && i < g_variant_n_children (sizes); i++)
    {
      guint64 each;

      g_variant_get_child (sizes, i, "t", &each);
      size = MAX (size, each);
    }

  for (gsize i = 0; size == 0 && i < G_N_ELEMENTS (nicks); i++)
    {
      if (!get_number (traits, nicks[i], &size))
        size = 0;
    }

  return size;
}

static gboolean
find_compute_capability (const Traits *traits,
                         guint64      *major,
                         guint64      *minor)
{
  return (get_number (traits, "compute-capability-major-nv", major) &&
          get_number (traits, "compute-capability-minor-nv", minor)) ||
         (get_number (traits, "compute-capability-major", major) &&
          get_number (traits, "compute-capability-minor", minor));
}

static void
find_local_memory (const Traits *traits,
                   LocalMemory  *local)
{
  guint64 simd_group_size = find_simd_group_size (traits);
  guint64 major;
  guint64 minor;

  memset (local, 0, sizeof *local);
  if (traits->is_processor)
    {
      local->n_items = 1;
      return;
    }

  /* On all NVIDIA devices, the words of a bank have four bytes. */
  if (find_compute_capability (traits, &major, &minor))
    local->n_banks = major < 2 ? 16 : 32;
  else if (traits->is_nvidia)
    local->n_banks = 32;
  else if (get_number (traits, "local-mem-banks-amd", &local->n_banks) && local->n_banks > 0)
    local->n_banks = MIN (local->n_banks, MAX_BANKS);
  else if (traits->is_amd)
    local->n_banks = 32;
  else if (traits->is_intel)
    local->n_banks = 16;

  if (local->n_banks == 0)
    return;

  local->granularity = 4;
  local->n_items = simd_group_size > 0 ? MIN (simd_group_size, local->n_banks) : local->n_banks;
}

/* Returns the number of bytes of local memory that a program can use. The first NVIDIA devices also
 * store kernel arguments in local memory. */
static guint64
find_local_size (const Traits *traits)
{
  static const char *const nicks[] = { "local-mem-size", "max-shared-memory-per-block" };
  guint64 size = 0;
  guint64 major;
  guint64 minor;

  for (gsize i = 0; i < G_N_ELEMENTS (nicks); i++)
    {
      if (get_number (traits, nicks[i], &size))
        break;
    }
  if (find_compute_capability (traits, &major, &minor) && major < 2)
    size -= MIN (size, 256);

  return size;
}

/* PoCL before 0.14 counted the members of a structure as arguments. */
static gboolean
has_struct_argument_bug (const Traits *traits)
{
  const char *version = traits->device->driver_version;
  guint64 minor;

  if (traits->is_apple)
    return traits->is_processor;
  if (!traits->is_pocl || version == NULL || !g_str_has_prefix (version, "0."))
    return FALSE;

  minor = g_ascii_strtoull (version + 2, NULL, 10);

  return minor < 14;
}

/* Returns whether the driver caches programs built from source. FALSE for CUDA: the driver caches
 * code compiled from PTX, but NVRTC caches nothing. */
static gboolean
has_source_cache (const Traits *traits)
{
  return (traits->is_nvidia && !traits->is_cuda) || traits->is_pocl ||
         mentions (traits->device->platform, "rusticl") ||
         (traits->is_intel && !traits->is_processor);
}

static void
insert_build_options (const Traits *traits,
                      GVariantDict *dict)
{
  static const char *const opencl_c[] =
  {
    "-cl-mad-enable", "-cl-no-signed-zeros", "-cl-fast-relaxed-math", "-cl-denorms-are-zero",
    NULL
  };
  static const char *const cuda[] = { "--use_fast_math", NULL };
  static const char *const none[] = { NULL };
  const char *const *options = traits->is_cuda ? cuda : opencl_c;

  if ((traits->device->capabilities & GPU_CAPABILITIES_SOURCE) == 0)
    options = none;

  g_variant_dict_insert (dict, "fast-inaccurate-build-options", "^as", options);
}

static void
insert_number (GVariantDict *dict,
               const char   *nick,
               guint64       number)
{
  if (number > 0)
    g_variant_dict_insert (dict, nick, "t", number);
}

static void
insert_capability (GVariantDict    *dict,
                   const char      *nick,
                   const Traits    *traits,
                   GpuCapabilities  capability)
{
  g_variant_dict_insert (dict, nick, "b", (traits->device->capabilities & capability) != 0);
}

static gboolean
get_traits (GpuDevice   *device,
            const char  *function,
            Traits      *traits,
            GVariant   **attributes,
            GError     **error)
{
  if (!_gpu_device_check_initialized (device, function, error))
    return FALSE;

  *attributes = gpu_device_get_attributes (device, error);
  if (*attributes == NULL)
    {
      g_prefix_error (error, "%s: ", function);
      return FALSE;
    }

  traits_init (traits, _gpu_device_get_native (device), *attributes);

  return TRUE;
}

/**
 * gpu_device_characterize:
 * @device: a #GpuDevice
 * @error: return location for a #GError
 *
 * Gets the traits of a device that matter for fast kernels. The traits are derived from
 * gpu_device_get_attributes() and from tables of hardware and drivers. Values are numbers of type
 * `t`, unless the list states another type. Unknown numbers are left out.
 *
 * - `fp64`, `fp16`: whether kernels can compute with double and with half precision (`b`)
 * - `simd-group-size`: the number of work-items that run in lockstep (a warp, a wavefront, a
 *   sub-group); 1 on CPUs
 * - `work-group-size-multiple`: work-group sizes should be multiples of this number
 * - `usable-local-memory-size`: the local memory that a work-group can use, in bytes
 * - `local-memory-bank-count`, `local-memory-access-granularity`: the number of banks of local
 *   memory, and the bytes of a bank; absent if local memory is cached and has no banks
 * - `simultaneous-work-items-on-local-access`: the number of work-items that local memory serves in
 *   one access
 * - `has-struct-argument-count-bug`: whether the driver miscounts the arguments of kernels that
 *   take structures (`b`)
 * - `has-source-build-cache`: whether the driver is known to cache built programs on disk (`b`)
 * - `fast-inaccurate-build-options`: build options that trade accuracy for speed (`as`)
 * - `svm-coarse`, `svm-fine`, `svm-system`: the kinds of shared virtual memory (`b`)
 * - `svm-atomics`: whether the host and the device can use atomic operations on the same fine-grain
 *   shared virtual memory; if `svm-system` is also true, on any host memory (`b`)
 * - `nv-compute-capability`: the major and minor number, on devices of NVIDIA (`(uu)`)
 *
 * Returns: (transfer full): a dictionary of type `a{sv}`, or %NULL with an error of
 *   gpu_device_get_attributes()
 *
 * Since: 0.1
 */
GVariant *
gpu_device_characterize (GpuDevice  *device,
                         GError    **error)
{
  g_auto (GVariantDict) dict = G_VARIANT_DICT_INIT (NULL);
  g_autoptr (GVariant) attributes = NULL;
  LocalMemory local;
  Traits traits;
  guint64 multiple;
  guint64 major;
  guint64 minor;

  g_return_val_if_fail (GPU_IS_DEVICE (device), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (!get_traits (device, "gpu_device_characterize", &traits, &attributes, error))
    return NULL;

  find_local_memory (&traits, &local);
  if (!get_number (&traits, "preferred-work-group-size-multiple", &multiple))
    multiple = find_simd_group_size (&traits);

  insert_capability (&dict, "fp64", &traits, GPU_CAPABILITIES_FP64);
  insert_capability (&dict, "fp16", &traits, GPU_CAPABILITIES_FP16);
  insert_capability (&dict, "svm-coarse", &traits, GPU_CAPABILITIES_SVM_COARSE);
  insert_capability (&dict, "svm-fine", &traits, GPU_CAPABILITIES_SVM_FINE);
  insert_capability (&dict, "svm-system", &traits, GPU_CAPABILITIES_SVM_SYSTEM);
  insert_capability (&dict, "svm-atomics", &traits, GPU_CAPABILITIES_SVM_ATOMICS);
  insert_number (&dict, "simd-group-size", find_simd_group_size (&traits));
  insert_number (&dict, "work-group-size-multiple", multiple);
  insert_number (&dict, "usable-local-memory-size", find_local_size (&traits));
  insert_number (&dict, "local-memory-bank-count", local.n_banks);
  insert_number (&dict, "local-memory-access-granularity", local.granularity);
  insert_number (&dict, "simultaneous-work-items-on-local-access", local.n_items);
  insert_build_options (&traits, &dict);
  g_variant_dict_insert (&dict, "has-struct-argument-count-bug", "b",
                         has_struct_argument_bug (&traits));
  g_variant_dict_insert (&dict, "has-source-build-cache", "b", has_source_cache (&traits));
  if (find_compute_capability (&traits, &major, &minor))
    g_variant_dict_insert (&dict, "nv-compute-capability", "(uu)", (guint32) major,
                           (guint32) minor);

  return g_variant_ref_sink (g_variant_dict_end (&dict));
}

/* Counts, for each bank, the different words that work-items access at the same time, and returns
 * the largest count. Neighbouring work-items access items that are @stride bytes apart. If an item
 * is wider than a word, local memory serves fewer work-items at the same time. */
static guint
count_ways (const LocalMemory *local,
            gsize              item_size,
            gsize              stride,
            gsize              n_items)
{
  gsize item_words = MIN ((item_size + local->granularity - 1) / local->granularity,
                          local->n_banks);
  gsize n_served = MIN (MAX (local->n_items / item_words, 1), n_items);
  guint64 words[2 * MAX_BANKS];
  guint per_bank[MAX_BANKS] = { 0 };
  guint n_words = 0;
  guint ways = 1;

  for (gsize i = 0; i < n_served; i++)
    {
      guint64 first = (guint64) i * stride / local->granularity;
      guint64 last = ((guint64) i * stride + item_size - 1) / local->granularity;

      last = MIN (last, first + local->n_banks - 1);
      for (guint64 word = first; word <= last && n_words < G_N_ELEMENTS (words); word++)
        {
          guint j = 0;

          while (j < n_words && words[j] != word)
            j++;
          if (j < n_words)
            continue;
          words[n_words++] = word;
          per_bank[word % local->n_banks]++;
          ways = MAX (ways, per_bank[word % local->n_banks]);
        }
    }

  return ways;
}

static gboolean
check_shape (gsize         item_size,
             const gsize  *shape,
             gsize         n_dimensions,
             gsize        *size,
             GError      **error)
{
  if (item_size == 0 || n_dimensions == 0)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "gpu_device_explain_bank_conflicts: there is no array of %" G_GSIZE_FORMAT
                   " dimensions with items of %" G_GSIZE_FORMAT " bytes", n_dimensions, item_size);
      return FALSE;
    }

  *size = item_size;
  for (gsize i = 0; i < n_dimensions; i++)
    {
      if (shape[i] == 0 || !g_size_checked_mul (size, *size, shape[i]))
        {
          g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                       "gpu_device_explain_bank_conflicts: there is no array with %"
                       G_GSIZE_FORMAT " items along dimension %" G_GSIZE_FORMAT, shape[i], i);
          return FALSE;
        }
    }

  return TRUE;
}

static guint
explain_axes (const LocalMemory *local,
              gsize              item_size,
              const gsize       *shape,
              gsize              n_dimensions,
              GString           *text)
{
  gsize stride = item_size;
  guint worst = 1;

  g_string_append_printf (text, "%" G_GUINT64_FORMAT " banks of %" G_GUINT64_FORMAT
                          " bytes serve %" G_GUINT64_FORMAT " work-items at once", local->n_banks,
                          local->granularity, local->n_items);

  for (gsize i = n_dimensions; i > 0; i--)
    {
      guint ways = count_ways (local, item_size, stride, shape[i - 1]);

      g_string_append_printf (text, "; along dimension %" G_GSIZE_FORMAT ", items %"
                              G_GSIZE_FORMAT " bytes apart: ", i - 1, stride);
      if (ways > 1)
        g_string_append_printf (text, "%u work-items access different words of one bank, so the "
                                "access takes %u turns", ways, ways);
      else
        g_string_append (text, "no conflict");

      worst = MAX (worst, ways);
      stride *= shape[i - 1];
    }

  return worst;
}

/**
 * gpu_device_explain_bank_conflicts:
 * @device: a #GpuDevice
 * @item_size: the size of an item of an array in local memory, in bytes
 * @shape: (array length=n_dimensions): the number of items along each dimension as stored, with
 *   padding; items along the last dimension are adjacent
 * @n_dimensions: the number of dimensions
 * @ways: (out) (optional): in the worst case, the number of words that one bank must serve for an
 *   access, one after another; 1 without a conflict
 * @error: return location for a #GError
 *
 * Explains which accesses to an array in local memory have bank conflicts. Local memory consists of
 * banks, and each bank serves one word at a time. For each dimension of the array, the explanation
 * covers accesses of neighbouring work-items to neighbouring items along that dimension. To remove
 * a conflict, it often suffices to pad a later dimension by one item.
 *
 * Returns: (transfer full): the explanation, or %NULL with %GPU_ERROR_NOT_SUPPORTED if the layout
 *   of the device's local memory is unknown, %GPU_ERROR_INVALID_ARGUMENT if the array is invalid,
 *   or the driver's error
 *
 * Since: 0.1
 */
char *
gpu_device_explain_bank_conflicts (GpuDevice    *device,
                                   gsize         item_size,
                                   const gsize  *shape,
                                   gsize         n_dimensions,
                                   guint        *ways,
                                   GError      **error)
{
  g_autoptr (GVariant) attributes = NULL;
  g_autoptr (GString) text = g_string_new (NULL);
  LocalMemory local;
  Traits traits;
  gsize size;
  guint worst = 1;

  g_return_val_if_fail (GPU_IS_DEVICE (device), NULL);
  g_return_val_if_fail (shape != NULL || n_dimensions == 0, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (!check_shape (item_size, shape, n_dimensions, &size, error) ||
      !get_traits (device, "gpu_device_explain_bank_conflicts", &traits, &attributes, error))
    return NULL;

  find_local_memory (&traits, &local);
  if (traits.is_processor)
    g_string_append (text, "local memory is ordinary memory behind a cache: it has no banks, and "
                     "there are no conflicts");
  else if (local.n_banks == 0)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "gpu_device_explain_bank_conflicts: the layout of the local memory of %s (%s) "
                   "is unknown", traits.device->id, traits.device->name);
      return NULL;
    }
  else
    worst = explain_axes (&local, item_size, shape, n_dimensions, text);

  if (size > find_local_size (&traits))
    g_string_append_printf (text, "; but the array has %" G_GSIZE_FORMAT " bytes, and a "
                            "work-group can use at most %" G_GUINT64_FORMAT, size,
                            find_local_size (&traits));
  if (ways != NULL)
    *ways = worst;

  return g_string_free (g_steal_pointer (&text), FALSE);
}
