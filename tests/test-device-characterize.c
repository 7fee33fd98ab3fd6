/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Simulated devices with the attributes of real devices that this machine does not have. */
#include "config.h"

#include "gpumem/device/gpu-device-private.h"

#include "test-util.h"

typedef struct
{
  const char *nick;
  guint32     value;
} Attribute;

typedef struct
{
  GpuNativeDevice  native;
  const Attribute *attributes;
} MadeUpDevice;

static gboolean
get_attributes (GpuNativeDevice *native, GVariantDict *dict, GError **error G_GNUC_UNUSED)
{
  MadeUpDevice *device = (MadeUpDevice *) native;

  for (const Attribute *each = device->attributes; each->nick != NULL; each++)
    {
      if (g_str_has_suffix (each->nick, "-size") || g_str_has_suffix (each->nick, "-multiple"))
        g_variant_dict_insert (dict, each->nick, "t", (guint64) each->value);
      else
        g_variant_dict_insert (dict, each->nick, "u", each->value);
    }
  return TRUE;
}

static const GpuDeviceOps device_ops = { .get_attributes = get_attributes };
static const GpuBackend opencl = { .name = "opencl", .device = &device_ops };
static const GpuBackend cuda = { .name = "cuda", .device = &device_ops };

static const Attribute nvidia_attributes[] =
{
  { "warp-size-nv", 32 },
  { "compute-capability-major-nv", 9 },
  { "compute-capability-minor-nv", 0 },
  { "local-mem-size", 49152 },
  { NULL, 0 }
};

static const Attribute old_nvidia_attributes[] =
{
  { "warp-size-nv", 32 },
  { "compute-capability-major-nv", 1 },
  { "compute-capability-minor-nv", 3 },
  { "local-mem-size", 16384 },
  { NULL, 0 }
};

static const Attribute cuda_attributes[] =
{
  { "warp-size", 32 },
  { "compute-capability-major", 9 },
  { "compute-capability-minor", 0 },
  { "max-shared-memory-per-block", 49152 },
  { NULL, 0 }
};

static const Attribute amd_attributes[] =
{
  { "wavefront-width-amd", 64 },
  { "local-mem-banks-amd", 32 },
  { "local-mem-size", 65536 },
  { NULL, 0 }
};

static const Attribute other_attributes[] =
{
  { "preferred-work-group-size-multiple", 16 },
  { "local-mem-size", 32768 },
  { NULL, 0 }
};

static MadeUpDevice devices[] =
{
  { { .id = (char *) "opencl:7:0", .name = (char *) "a",
      .vendor = (char *) "NVIDIA Corporation", .platform = (char *) "NVIDIA CUDA",
      .type = GPU_DEVICE_TYPE_GPU,
      .capabilities = GPU_CAPABILITIES_SOURCE | GPU_CAPABILITIES_FP64 }, nvidia_attributes },
  { { .id = (char *) "opencl:7:1", .name = (char *) "b",
      .vendor = (char *) "NVIDIA Corporation", .platform = (char *) "NVIDIA CUDA",
      .type = GPU_DEVICE_TYPE_GPU }, old_nvidia_attributes },
  { { .id = (char *) "opencl:8:0", .name = (char *) "c",
      .vendor = (char *) "Advanced Micro Devices, Inc.",
      .platform = (char *) "AMD Accelerated Parallel Processing",
      .type = GPU_DEVICE_TYPE_GPU }, amd_attributes },
  { { .id = (char *) "opencl:9:0", .name = (char *) "d",
      .vendor = (char *) "Somebody", .platform = (char *) "Something",
      .type = GPU_DEVICE_TYPE_GPU }, other_attributes },
  { { .id = (char *) "opencl:10:0", .name = (char *) "e",
      .vendor = (char *) "GenuineIntel", .driver_version = (char *) "0.13",
      .platform = (char *) "Portable Computing Language",
      .type = GPU_DEVICE_TYPE_CPU }, other_attributes },
  { { .id = (char *) "cuda:7", .name = (char *) "f", .backend = &cuda,
      .vendor = (char *) "NVIDIA Corporation", .platform = (char *) "CUDA",
      .type = GPU_DEVICE_TYPE_GPU,
      .capabilities = GPU_CAPABILITIES_SOURCE | GPU_CAPABILITIES_FP64
                      | GPU_CAPABILITIES_SVM_ATOMICS }, cuda_attributes }
};

static GpuDevice *
device_new (guint i)
{
  if (devices[i].native.backend == NULL)
    devices[i].native.backend = &opencl;
  return _gpu_device_new_for_native (&devices[i].native);
}

static guint64
number (GVariant *traits, const char *nick)
{
  guint64 value = 0;

  g_variant_lookup (traits, nick, "t", &value);
  return value;
}

static gboolean
is_true (GVariant *traits, const char *nick)
{
  gboolean value;

  g_assert_true (g_variant_lookup (traits, nick, "b", &value));
  return value;
}

static void
characterize_traits (void)
{
  static const struct
  {
    guint64  simd;
    guint64  multiple;
    guint64  local;
    guint64  banks;
    guint64  items;
    gboolean bug;
    gboolean cache;
  } expected[] =
  {
    { 32, 32, 49152, 32, 32, FALSE, TRUE },
    { 32, 32, 16128, 16, 16, FALSE, TRUE },
    { 64, 64, 65536, 32, 32, FALSE, FALSE },
    { 16, 16, 32768, 0, 0, FALSE, FALSE },
    { 1, 16, 32768, 0, 1, TRUE, TRUE },
    { 32, 32, 49152, 32, 32, FALSE, FALSE }
  };

  for (guint i = 0; i < G_N_ELEMENTS (devices); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuDevice) device = device_new (i);
      g_autoptr (GVariant) traits = gpu_device_characterize (device, &error);

      g_assert_no_error (error);
      g_assert_cmpuint (number (traits, "simd-group-size"), ==, expected[i].simd);
      g_assert_cmpuint (number (traits, "work-group-size-multiple"), ==, expected[i].multiple);
      g_assert_cmpuint (number (traits, "usable-local-memory-size"), ==, expected[i].local);
      g_assert_cmpuint (number (traits, "local-memory-bank-count"), ==, expected[i].banks);
      g_assert_cmpuint (number (traits, "local-memory-access-granularity"), ==,
                        expected[i].banks > 0 ? 4 : 0);
      g_assert_cmpuint (number (traits, "simultaneous-work-items-on-local-access"), ==,
                        expected[i].items);
      g_assert_cmpint (is_true (traits, "has-struct-argument-count-bug"), ==, expected[i].bug);
      g_assert_cmpint (is_true (traits, "has-source-build-cache"), ==, expected[i].cache);
      g_assert_cmpint (is_true (traits, "fp64"), ==, i == 0 || i == 5);
      g_assert_false (is_true (traits, "svm-fine"));
      g_assert_cmpint (is_true (traits, "svm-atomics"), ==, i == 5);
    }
}

static void
check_versions (guint number, const char *option)
{
  g_autoptr (GpuDevice) device = device_new (number);
  g_autoptr (GVariant) traits = gpu_device_characterize (device, NULL);
  g_auto (GStrv) options = NULL;
  guint32 major = 0;
  guint32 minor = 7;

  g_assert_true (g_variant_lookup (traits, "nv-compute-capability", "(uu)", &major, &minor));
  g_assert_cmpuint (major, ==, 9);
  g_assert_cmpuint (minor, ==, 0);
  g_assert_true (g_variant_lookup (traits, "fast-inaccurate-build-options", "^as", &options));
  g_assert_true (g_strv_contains ((const char *const *) options, option));
}

static void
characterize_versions (void)
{
  check_versions (0, "-cl-fast-relaxed-math");
  check_versions (5, "--use_fast_math");
}

static void
characterize_conflicts (void)
{
  static const struct
  {
    guint  device;
    gsize  item_size;
    gsize  shape[3];
    guint  ways;
  } cases[] =
  {
    { 0, 4, { 1, 32, 32 }, 32 },        /* accesses along the columns of a square */
    { 0, 4, { 1, 32, 33 }, 1 },         /* padding avoids the conflict */
    { 0, 4, { 1, 32, 48 }, 16 },
    { 0, 4, { 1, 1, 1024 }, 1 },
    { 0, 4, { 1, 4, 32 }, 4 },          /* only four work-items access a column */
    { 0, 1, { 1, 1, 1024 }, 1 },        /* several elements per word: no conflict */
    { 0, 8, { 1, 1, 1024 }, 1 },        /* a transaction serves half of the work-items */
    { 0, 16, { 1, 1, 256 }, 1 },
    { 0, 12, { 1, 1, 256 }, 1 },
    { 0, 8, { 1, 16, 16 }, 16 },
    { 1, 4, { 1, 16, 16 }, 16 },
    { 1, 4, { 1, 32, 17 }, 1 },
    { 2, 4, { 2, 32, 32 }, 32 },
    { 0, 4096, { 1, 1, 4 }, 1 }
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuDevice) device = device_new (cases[i].device);
      g_autofree char *text = NULL;
      guint ways = 0;

      text = gpu_device_explain_bank_conflicts (device, cases[i].item_size, cases[i].shape, 3,
                                                &ways, &error);
      g_assert_no_error (error);
      g_test_message ("%u: %s", i, text);
      g_assert_cmpuint (ways, ==, cases[i].ways);
    }
}

static void
characterize_refused (void)
{
  const gsize shape[] = { 32, 32 };
  const gsize empty[] = { 32, 0 };
  const gsize huge[] = { G_MAXSIZE / 2, 3 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDevice) known = device_new (0);
  g_autoptr (GpuDevice) unknown = device_new (3);
  g_autoptr (GpuDevice) processor = device_new (4);
  g_autofree char *text = NULL;
  guint ways = 0;

  g_assert_null (gpu_device_explain_bank_conflicts (unknown, 4, shape, 2, &ways, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "opencl:9:0");
  g_assert_null (gpu_device_explain_bank_conflicts (known, 0, shape, 2, &ways, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "0 bytes");
  g_assert_null (gpu_device_explain_bank_conflicts (known, 4, shape, 0, &ways, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "0 dimensions");
  g_assert_null (gpu_device_explain_bank_conflicts (known, 4, empty, 2, &ways, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "0 items");
  g_assert_null (gpu_device_explain_bank_conflicts (known, 4, huge, 2, &ways, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "dimension");

  text = gpu_device_explain_bank_conflicts (processor, 4, shape, 2, &ways, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ways, ==, 1);
  g_assert_nonnull (strstr (text, "no banks"));
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add_plain ("traits", characterize_traits);
  test_add_plain ("versions", characterize_versions);
  test_add_plain ("conflicts", characterize_conflicts);
  test_add_plain ("refused", characterize_refused);
  return test_run ();
}
