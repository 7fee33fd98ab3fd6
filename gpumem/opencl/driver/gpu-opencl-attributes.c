/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * All infos of a device. The nick of an info is its name in lower case, without CL_DEVICE_ and with
 * dashes instead of underscores.
 */
#include "config.h"

#include "gpumem/opencl/driver/gpu-opencl.h"

/* Infos of cl_nv_device_attribute_query, which no header defines. */
#define CL_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT_NV 0x4007
#define CL_DEVICE_PCI_BUS_ID_NV                   0x4008
#define CL_DEVICE_PCI_SLOT_ID_NV                  0x4009
#define CL_DEVICE_PCI_DOMAIN_ID_NV                0x400A

/* Infos of cl_khr_spirv_queries, which older headers do not define. */
#ifndef CL_DEVICE_SPIRV_EXTENDED_INSTRUCTION_SETS_KHR
#define CL_DEVICE_SPIRV_EXTENDED_INSTRUCTION_SETS_KHR 0x12B9
#define CL_DEVICE_SPIRV_EXTENSIONS_KHR                0x12BA
#define CL_DEVICE_SPIRV_CAPABILITIES_KHR              0x12BB
#endif

/* The kinds of values, each with the type string of its GVariant. */
typedef enum
{
  KIND_BOOL,                /* b */
  KIND_UINT,                /* u */
  KIND_ULONG,               /* t */
  KIND_SIZE,                /* t */
  KIND_SIZES,               /* at */
  KIND_UINTS,               /* au */
  KIND_TEXT,                /* s */
  KIND_TEXTS,               /* as, from pointers to text */
  KIND_SPACED,              /* as, from a list separated by spaces */
  KIND_LISTED,              /* as, from a list separated by semicolons */
  KIND_FLAGS,               /* as, the names of the set bits */
  KIND_CHOICE,              /* s, the name of the value */
  KIND_HANDLE,              /* t */
  KIND_VERSION,             /* s, "3.0.0" */
  KIND_NAMED_VERSIONS,      /* as, "name 3.0.0" */
  KIND_UUID,                /* s */
  KIND_LUID,                /* s */
  KIND_PCI                  /* s, "0000:01:00.0" */
} InfoKind;

typedef struct
{
  guint64     value;
  const char *name;
} InfoName;

typedef struct
{
  const char     *nick;
  cl_device_info  info;
  InfoKind        kind;
  guint           level;        /* first version of OpenCL that has the info */
  const char     *extension;    /* nullable; an extension that also has the info */
  const InfoName *names;
} InfoEntry;

static const InfoName type_names[] =
{
  { CL_DEVICE_TYPE_DEFAULT, "default" },
  { CL_DEVICE_TYPE_CPU, "cpu" },
  { CL_DEVICE_TYPE_GPU, "gpu" },
  { CL_DEVICE_TYPE_ACCELERATOR, "accelerator" },
  { CL_DEVICE_TYPE_CUSTOM, "custom" },
  { 0, NULL }
};

static const InfoName fp_names[] =
{
  { CL_FP_DENORM, "denorm" },
  { CL_FP_INF_NAN, "inf-nan" },
  { CL_FP_ROUND_TO_NEAREST, "round-to-nearest" },
  { CL_FP_ROUND_TO_ZERO, "round-to-zero" },
  { CL_FP_ROUND_TO_INF, "round-to-inf" },
  { CL_FP_FMA, "fma" },
  { CL_FP_SOFT_FLOAT, "soft-float" },
  { CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT, "correctly-rounded-divide-sqrt" },
  { 0, NULL }
};

static const InfoName cache_names[] =
{
  { CL_NONE, "none" },
  { CL_READ_ONLY_CACHE, "read-only" },
  { CL_READ_WRITE_CACHE, "read-write" },
  { 0, NULL }
};

static const InfoName local_names[] =
{
  { CL_NONE, "none" },
  { CL_LOCAL, "local" },
  { CL_GLOBAL, "global" },
  { 0, NULL }
};

static const InfoName execution_names[] =
{
  { CL_EXEC_KERNEL, "kernel" },
  { CL_EXEC_NATIVE_KERNEL, "native-kernel" },
  { 0, NULL }
};

static const InfoName queue_names[] =
{
  { CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, "out-of-order" },
  { CL_QUEUE_PROFILING_ENABLE, "profiling" },
  { 0, NULL }
};

static const InfoName usm_names[] =
{
  { CL_UNIFIED_SHARED_MEMORY_ACCESS_INTEL, "access" },
  { CL_UNIFIED_SHARED_MEMORY_ATOMIC_ACCESS_INTEL, "atomic-access" },
  { CL_UNIFIED_SHARED_MEMORY_CONCURRENT_ACCESS_INTEL, "concurrent-access" },
  { CL_UNIFIED_SHARED_MEMORY_CONCURRENT_ATOMIC_ACCESS_INTEL, "concurrent-atomic-access" },
  { 0, NULL }
};

static const InfoName svm_names[] =
{
  { CL_DEVICE_SVM_COARSE_GRAIN_BUFFER, "coarse-grain-buffer" },
  { CL_DEVICE_SVM_FINE_GRAIN_BUFFER, "fine-grain-buffer" },
  { CL_DEVICE_SVM_FINE_GRAIN_SYSTEM, "fine-grain-system" },
  { CL_DEVICE_SVM_ATOMICS, "atomics" },
  { 0, NULL }
};

static const InfoName affinity_names[] =
{
  { CL_DEVICE_AFFINITY_DOMAIN_NUMA, "numa" },
  { CL_DEVICE_AFFINITY_DOMAIN_L4_CACHE, "l4-cache" },
  { CL_DEVICE_AFFINITY_DOMAIN_L3_CACHE, "l3-cache" },
  { CL_DEVICE_AFFINITY_DOMAIN_L2_CACHE, "l2-cache" },
  { CL_DEVICE_AFFINITY_DOMAIN_L1_CACHE, "l1-cache" },
  { CL_DEVICE_AFFINITY_DOMAIN_NEXT_PARTITIONABLE, "next-partitionable" },
  { 0, NULL }
};

static const InfoName atomic_names[] =
{
  { CL_DEVICE_ATOMIC_ORDER_RELAXED, "order-relaxed" },
  { CL_DEVICE_ATOMIC_ORDER_ACQ_REL, "order-acq-rel" },
  { CL_DEVICE_ATOMIC_ORDER_SEQ_CST, "order-seq-cst" },
  { CL_DEVICE_ATOMIC_SCOPE_WORK_ITEM, "scope-work-item" },
  { CL_DEVICE_ATOMIC_SCOPE_WORK_GROUP, "scope-work-group" },
  { CL_DEVICE_ATOMIC_SCOPE_DEVICE, "scope-device" },
  { CL_DEVICE_ATOMIC_SCOPE_ALL_DEVICES, "scope-all-devices" },
  { 0, NULL }
};

static const InfoName enqueue_names[] =
{
  { CL_DEVICE_QUEUE_SUPPORTED, "supported" },
  { CL_DEVICE_QUEUE_REPLACEABLE_DEFAULT, "replaceable-default" },
  { 0, NULL }
};

#define NV "cl_nv_device_attribute_query"
#define AMD "cl_amd_device_attribute_query"
#define INTEL "cl_intel_device_attribute_query"
#define USM "cl_intel_unified_shared_memory"
#define UUID "cl_khr_device_uuid"
#define NEVER 1000

static const InfoEntry entries[] =
{
  /* 1.0 */
  { "type", CL_DEVICE_TYPE, KIND_FLAGS, 10, NULL, type_names },
  { "vendor-id", CL_DEVICE_VENDOR_ID, KIND_UINT, 10, NULL, NULL },
  { "max-compute-units", CL_DEVICE_MAX_COMPUTE_UNITS, KIND_UINT, 10, NULL, NULL },
  { "max-work-item-dimensions", CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS, KIND_UINT, 10, NULL, NULL },
  { "max-work-group-size", CL_DEVICE_MAX_WORK_GROUP_SIZE, KIND_SIZE, 10, NULL, NULL },
  { "max-work-item-sizes", CL_DEVICE_MAX_WORK_ITEM_SIZES, KIND_SIZES, 10, NULL, NULL },
  { "preferred-vector-width-char", CL_DEVICE_PREFERRED_VECTOR_WIDTH_CHAR, KIND_UINT, 10, NULL,
    NULL },
  { "preferred-vector-width-short", CL_DEVICE_PREFERRED_VECTOR_WIDTH_SHORT, KIND_UINT, 10, NULL,
    NULL },
  { "preferred-vector-width-int", CL_DEVICE_PREFERRED_VECTOR_WIDTH_INT, KIND_UINT, 10, NULL, NULL },
  { "preferred-vector-width-long", CL_DEVICE_PREFERRED_VECTOR_WIDTH_LONG, KIND_UINT, 10, NULL,
    NULL },
  { "preferred-vector-width-float", CL_DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT, KIND_UINT, 10, NULL,
    NULL },
  { "preferred-vector-width-double", CL_DEVICE_PREFERRED_VECTOR_WIDTH_DOUBLE, KIND_UINT, 10, NULL,
    NULL },
  { "max-clock-frequency", CL_DEVICE_MAX_CLOCK_FREQUENCY, KIND_UINT, 10, NULL, NULL },
  { "address-bits", CL_DEVICE_ADDRESS_BITS, KIND_UINT, 10, NULL, NULL },
  { "max-read-image-args", CL_DEVICE_MAX_READ_IMAGE_ARGS, KIND_UINT, 10, NULL, NULL },
  { "max-write-image-args", CL_DEVICE_MAX_WRITE_IMAGE_ARGS, KIND_UINT, 10, NULL, NULL },
  { "max-mem-alloc-size", CL_DEVICE_MAX_MEM_ALLOC_SIZE, KIND_ULONG, 10, NULL, NULL },
  { "image2d-max-width", CL_DEVICE_IMAGE2D_MAX_WIDTH, KIND_SIZE, 10, NULL, NULL },
  { "image2d-max-height", CL_DEVICE_IMAGE2D_MAX_HEIGHT, KIND_SIZE, 10, NULL, NULL },
  { "image3d-max-width", CL_DEVICE_IMAGE3D_MAX_WIDTH, KIND_SIZE, 10, NULL, NULL },
  { "image3d-max-height", CL_DEVICE_IMAGE3D_MAX_HEIGHT, KIND_SIZE, 10, NULL, NULL },
  { "image3d-max-depth", CL_DEVICE_IMAGE3D_MAX_DEPTH, KIND_SIZE, 10, NULL, NULL },
  { "image-support", CL_DEVICE_IMAGE_SUPPORT, KIND_BOOL, 10, NULL, NULL },
  { "max-parameter-size", CL_DEVICE_MAX_PARAMETER_SIZE, KIND_SIZE, 10, NULL, NULL },
  { "max-samplers", CL_DEVICE_MAX_SAMPLERS, KIND_UINT, 10, NULL, NULL },
  { "mem-base-addr-align", CL_DEVICE_MEM_BASE_ADDR_ALIGN, KIND_UINT, 10, NULL, NULL },
  { "min-data-type-align-size", CL_DEVICE_MIN_DATA_TYPE_ALIGN_SIZE, KIND_UINT, 10, NULL, NULL },
  { "single-fp-config", CL_DEVICE_SINGLE_FP_CONFIG, KIND_FLAGS, 10, NULL, fp_names },
  { "global-mem-cache-type", CL_DEVICE_GLOBAL_MEM_CACHE_TYPE, KIND_CHOICE, 10, NULL, cache_names },
  { "global-mem-cacheline-size", CL_DEVICE_GLOBAL_MEM_CACHELINE_SIZE, KIND_UINT, 10, NULL, NULL },
  { "global-mem-cache-size", CL_DEVICE_GLOBAL_MEM_CACHE_SIZE, KIND_ULONG, 10, NULL, NULL },
  { "global-mem-size", CL_DEVICE_GLOBAL_MEM_SIZE, KIND_ULONG, 10, NULL, NULL },
  { "max-constant-buffer-size", CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE, KIND_ULONG, 10, NULL, NULL },
  { "max-constant-args", CL_DEVICE_MAX_CONSTANT_ARGS, KIND_UINT, 10, NULL, NULL },
  { "local-mem-type", CL_DEVICE_LOCAL_MEM_TYPE, KIND_CHOICE, 10, NULL, local_names },
  { "local-mem-size", CL_DEVICE_LOCAL_MEM_SIZE, KIND_ULONG, 10, NULL, NULL },
  { "error-correction-support", CL_DEVICE_ERROR_CORRECTION_SUPPORT, KIND_BOOL, 10, NULL, NULL },
  { "profiling-timer-resolution", CL_DEVICE_PROFILING_TIMER_RESOLUTION, KIND_SIZE, 10, NULL, NULL },
  { "endian-little", CL_DEVICE_ENDIAN_LITTLE, KIND_BOOL, 10, NULL, NULL },
  { "available", CL_DEVICE_AVAILABLE, KIND_BOOL, 10, NULL, NULL },
  { "compiler-available", CL_DEVICE_COMPILER_AVAILABLE, KIND_BOOL, 10, NULL, NULL },
  { "execution-capabilities", CL_DEVICE_EXECUTION_CAPABILITIES, KIND_FLAGS, 10, NULL,
    execution_names },
  { "queue-on-host-properties", CL_DEVICE_QUEUE_ON_HOST_PROPERTIES, KIND_FLAGS, 10, NULL,
    queue_names },
  { "name", CL_DEVICE_NAME, KIND_TEXT, 10, NULL, NULL },
  { "vendor", CL_DEVICE_VENDOR, KIND_TEXT, 10, NULL, NULL },
  { "driver-version", CL_DRIVER_VERSION, KIND_TEXT, 10, NULL, NULL },
  { "profile", CL_DEVICE_PROFILE, KIND_TEXT, 10, NULL, NULL },
  { "version", CL_DEVICE_VERSION, KIND_TEXT, 10, NULL, NULL },
  { "extensions", CL_DEVICE_EXTENSIONS, KIND_SPACED, 10, NULL, NULL },
  { "platform", CL_DEVICE_PLATFORM, KIND_HANDLE, 10, NULL, NULL },
  { "half-fp-config", CL_DEVICE_HALF_FP_CONFIG, KIND_FLAGS, NEVER, "cl_khr_fp16", fp_names },

  /* 1.1 */
  { "preferred-vector-width-half", CL_DEVICE_PREFERRED_VECTOR_WIDTH_HALF, KIND_UINT, 11, NULL,
    NULL },
  { "host-unified-memory", CL_DEVICE_HOST_UNIFIED_MEMORY, KIND_BOOL, 11, NULL, NULL },
  { "native-vector-width-char", CL_DEVICE_NATIVE_VECTOR_WIDTH_CHAR, KIND_UINT, 11, NULL, NULL },
  { "native-vector-width-short", CL_DEVICE_NATIVE_VECTOR_WIDTH_SHORT, KIND_UINT, 11, NULL, NULL },
  { "native-vector-width-int", CL_DEVICE_NATIVE_VECTOR_WIDTH_INT, KIND_UINT, 11, NULL, NULL },
  { "native-vector-width-long", CL_DEVICE_NATIVE_VECTOR_WIDTH_LONG, KIND_UINT, 11, NULL, NULL },
  { "native-vector-width-float", CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, KIND_UINT, 11, NULL, NULL },
  { "native-vector-width-double", CL_DEVICE_NATIVE_VECTOR_WIDTH_DOUBLE, KIND_UINT, 11, NULL, NULL },
  { "native-vector-width-half", CL_DEVICE_NATIVE_VECTOR_WIDTH_HALF, KIND_UINT, 11, NULL, NULL },
  { "opencl-c-version", CL_DEVICE_OPENCL_C_VERSION, KIND_TEXT, 11, NULL, NULL },

  /* 1.2 */
  { "double-fp-config", CL_DEVICE_DOUBLE_FP_CONFIG, KIND_FLAGS, 12, "cl_khr_fp64", fp_names },
  { "linker-available", CL_DEVICE_LINKER_AVAILABLE, KIND_BOOL, 12, NULL, NULL },
  { "built-in-kernels", CL_DEVICE_BUILT_IN_KERNELS, KIND_LISTED, 12, NULL, NULL },
  { "image-max-buffer-size", CL_DEVICE_IMAGE_MAX_BUFFER_SIZE, KIND_SIZE, 12, NULL, NULL },
  { "image-max-array-size", CL_DEVICE_IMAGE_MAX_ARRAY_SIZE, KIND_SIZE, 12, NULL, NULL },
  { "parent-device", CL_DEVICE_PARENT_DEVICE, KIND_HANDLE, 12, NULL, NULL },
  { "partition-max-sub-devices", CL_DEVICE_PARTITION_MAX_SUB_DEVICES, KIND_UINT, 12, NULL, NULL },
  { "partition-properties", CL_DEVICE_PARTITION_PROPERTIES, KIND_SIZES, 12, NULL, NULL },
  { "partition-affinity-domain", CL_DEVICE_PARTITION_AFFINITY_DOMAIN, KIND_FLAGS, 12, NULL,
    affinity_names },
  { "partition-type", CL_DEVICE_PARTITION_TYPE, KIND_SIZES, 12, NULL, NULL },
  { "reference-count", CL_DEVICE_REFERENCE_COUNT, KIND_UINT, 12, NULL, NULL },
  { "preferred-interop-user-sync", CL_DEVICE_PREFERRED_INTEROP_USER_SYNC, KIND_BOOL, 12, NULL,
    NULL },
  { "printf-buffer-size", CL_DEVICE_PRINTF_BUFFER_SIZE, KIND_SIZE, 12, NULL, NULL },

  /* 2.0 */
  { "image-pitch-alignment", CL_DEVICE_IMAGE_PITCH_ALIGNMENT, KIND_UINT, 20,
    "cl_khr_image2d_from_buffer", NULL },
  { "image-base-address-alignment", CL_DEVICE_IMAGE_BASE_ADDRESS_ALIGNMENT, KIND_UINT, 20,
    "cl_khr_image2d_from_buffer", NULL },
  { "max-read-write-image-args", CL_DEVICE_MAX_READ_WRITE_IMAGE_ARGS, KIND_UINT, 20, NULL, NULL },
  { "max-global-variable-size", CL_DEVICE_MAX_GLOBAL_VARIABLE_SIZE, KIND_SIZE, 20, NULL, NULL },
  { "queue-on-device-properties", CL_DEVICE_QUEUE_ON_DEVICE_PROPERTIES, KIND_FLAGS, 20, NULL,
    queue_names },
  { "queue-on-device-preferred-size", CL_DEVICE_QUEUE_ON_DEVICE_PREFERRED_SIZE, KIND_UINT, 20, NULL,
    NULL },
  { "queue-on-device-max-size", CL_DEVICE_QUEUE_ON_DEVICE_MAX_SIZE, KIND_UINT, 20, NULL, NULL },
  { "max-on-device-queues", CL_DEVICE_MAX_ON_DEVICE_QUEUES, KIND_UINT, 20, NULL, NULL },
  { "max-on-device-events", CL_DEVICE_MAX_ON_DEVICE_EVENTS, KIND_UINT, 20, NULL, NULL },
  { "svm-capabilities", CL_DEVICE_SVM_CAPABILITIES, KIND_FLAGS, 20, NULL, svm_names },
  { "global-variable-preferred-total-size", CL_DEVICE_GLOBAL_VARIABLE_PREFERRED_TOTAL_SIZE,
    KIND_SIZE, 20, NULL, NULL },
  { "max-pipe-args", CL_DEVICE_MAX_PIPE_ARGS, KIND_UINT, 20, NULL, NULL },
  { "pipe-max-active-reservations", CL_DEVICE_PIPE_MAX_ACTIVE_RESERVATIONS, KIND_UINT, 20, NULL,
    NULL },
  { "pipe-max-packet-size", CL_DEVICE_PIPE_MAX_PACKET_SIZE, KIND_UINT, 20, NULL, NULL },
  { "preferred-platform-atomic-alignment", CL_DEVICE_PREFERRED_PLATFORM_ATOMIC_ALIGNMENT, KIND_UINT,
    20, NULL, NULL },
  { "preferred-global-atomic-alignment", CL_DEVICE_PREFERRED_GLOBAL_ATOMIC_ALIGNMENT, KIND_UINT, 20,
    NULL, NULL },
  { "preferred-local-atomic-alignment", CL_DEVICE_PREFERRED_LOCAL_ATOMIC_ALIGNMENT, KIND_UINT, 20,
    NULL, NULL },

  /* 2.1 */
  { "il-version", CL_DEVICE_IL_VERSION, KIND_SPACED, 21, "cl_khr_il_program", NULL },
  { "max-num-sub-groups", CL_DEVICE_MAX_NUM_SUB_GROUPS, KIND_UINT, 21, NULL, NULL },
  { "sub-group-independent-forward-progress", CL_DEVICE_SUB_GROUP_INDEPENDENT_FORWARD_PROGRESS,
    KIND_BOOL, 21, NULL, NULL },

  /* 3.0 */
  { "numeric-version", CL_DEVICE_NUMERIC_VERSION, KIND_VERSION, 30, "cl_khr_extended_versioning",
    NULL },
  { "extensions-with-version", CL_DEVICE_EXTENSIONS_WITH_VERSION, KIND_NAMED_VERSIONS, 30,
    "cl_khr_extended_versioning", NULL },
  { "ils-with-version", CL_DEVICE_ILS_WITH_VERSION, KIND_NAMED_VERSIONS, 30,
    "cl_khr_extended_versioning", NULL },
  { "built-in-kernels-with-version", CL_DEVICE_BUILT_IN_KERNELS_WITH_VERSION, KIND_NAMED_VERSIONS,
    30, "cl_khr_extended_versioning", NULL },
  { "atomic-memory-capabilities", CL_DEVICE_ATOMIC_MEMORY_CAPABILITIES, KIND_FLAGS, 30, NULL,
    atomic_names },
  { "atomic-fence-capabilities", CL_DEVICE_ATOMIC_FENCE_CAPABILITIES, KIND_FLAGS, 30, NULL,
    atomic_names },
  { "non-uniform-work-group-support", CL_DEVICE_NON_UNIFORM_WORK_GROUP_SUPPORT, KIND_BOOL, 30, NULL,
    NULL },
  { "opencl-c-all-versions", CL_DEVICE_OPENCL_C_ALL_VERSIONS, KIND_NAMED_VERSIONS, 30, NULL, NULL },
  { "preferred-work-group-size-multiple", CL_DEVICE_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, KIND_SIZE,
    30, NULL, NULL },
  { "work-group-collective-functions-support", CL_DEVICE_WORK_GROUP_COLLECTIVE_FUNCTIONS_SUPPORT,
    KIND_BOOL, 30, NULL, NULL },
  { "generic-address-space-support", CL_DEVICE_GENERIC_ADDRESS_SPACE_SUPPORT, KIND_BOOL, 30, NULL,
    NULL },
  { "opencl-c-features", CL_DEVICE_OPENCL_C_FEATURES, KIND_NAMED_VERSIONS, 30, NULL, NULL },
  { "device-enqueue-capabilities", CL_DEVICE_DEVICE_ENQUEUE_CAPABILITIES, KIND_FLAGS, 30, NULL,
    enqueue_names },
  { "pipe-support", CL_DEVICE_PIPE_SUPPORT, KIND_BOOL, 30, NULL, NULL },
  { "latest-conformance-version-passed", CL_DEVICE_LATEST_CONFORMANCE_VERSION_PASSED, KIND_TEXT, 30,
    NULL, NULL },

  /* 3.1 */
  { "spirv-extended-instruction-sets", CL_DEVICE_SPIRV_EXTENDED_INSTRUCTION_SETS_KHR, KIND_TEXTS,
    31, "cl_khr_spirv_queries", NULL },
  { "spirv-extensions", CL_DEVICE_SPIRV_EXTENSIONS_KHR, KIND_TEXTS, 31, "cl_khr_spirv_queries",
    NULL },
  { "spirv-capabilities", CL_DEVICE_SPIRV_CAPABILITIES_KHR, KIND_UINTS, 31, "cl_khr_spirv_queries",
    NULL },

  /* Identity of the device across APIs */
  { "pci-bus-info-khr", CL_DEVICE_PCI_BUS_INFO_KHR, KIND_PCI, NEVER, "cl_khr_pci_bus_info", NULL },
  { "uuid-khr", CL_DEVICE_UUID_KHR, KIND_UUID, NEVER, UUID, NULL },
  { "driver-uuid-khr", CL_DRIVER_UUID_KHR, KIND_UUID, NEVER, UUID, NULL },
  { "luid-valid-khr", CL_DEVICE_LUID_VALID_KHR, KIND_BOOL, NEVER, UUID, NULL },
  { "luid-khr", CL_DEVICE_LUID_KHR, KIND_LUID, NEVER, UUID, NULL },
  { "node-mask-khr", CL_DEVICE_NODE_MASK_KHR, KIND_UINT, NEVER, UUID, NULL },

  /* NVIDIA */
  { "compute-capability-major-nv", CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV, KIND_UINT, NEVER, NV,
    NULL },
  { "compute-capability-minor-nv", CL_DEVICE_COMPUTE_CAPABILITY_MINOR_NV, KIND_UINT, NEVER, NV,
    NULL },
  { "registers-per-block-nv", CL_DEVICE_REGISTERS_PER_BLOCK_NV, KIND_UINT, NEVER, NV, NULL },
  { "warp-size-nv", CL_DEVICE_WARP_SIZE_NV, KIND_UINT, NEVER, NV, NULL },
  { "gpu-overlap-nv", CL_DEVICE_GPU_OVERLAP_NV, KIND_BOOL, NEVER, NV, NULL },
  { "kernel-exec-timeout-nv", CL_DEVICE_KERNEL_EXEC_TIMEOUT_NV, KIND_BOOL, NEVER, NV, NULL },
  { "integrated-memory-nv", CL_DEVICE_INTEGRATED_MEMORY_NV, KIND_BOOL, NEVER, NV, NULL },
  { "attribute-async-engine-count-nv", CL_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT_NV, KIND_UINT, NEVER,
    NV, NULL },
  { "pci-bus-id-nv", CL_DEVICE_PCI_BUS_ID_NV, KIND_UINT, NEVER, NV, NULL },
  { "pci-slot-id-nv", CL_DEVICE_PCI_SLOT_ID_NV, KIND_UINT, NEVER, NV, NULL },
  { "pci-domain-id-nv", CL_DEVICE_PCI_DOMAIN_ID_NV, KIND_UINT, NEVER, NV, NULL },

  /* AMD */
  { "profiling-timer-offset-amd", CL_DEVICE_PROFILING_TIMER_OFFSET_AMD, KIND_ULONG, NEVER, AMD,
    NULL },
  { "board-name-amd", CL_DEVICE_BOARD_NAME_AMD, KIND_TEXT, NEVER, AMD, NULL },
  { "global-free-memory-amd", CL_DEVICE_GLOBAL_FREE_MEMORY_AMD, KIND_SIZES, NEVER, AMD, NULL },
  { "simd-per-compute-unit-amd", CL_DEVICE_SIMD_PER_COMPUTE_UNIT_AMD, KIND_UINT, NEVER, AMD, NULL },
  { "simd-width-amd", CL_DEVICE_SIMD_WIDTH_AMD, KIND_UINT, NEVER, AMD, NULL },
  { "simd-instruction-width-amd", CL_DEVICE_SIMD_INSTRUCTION_WIDTH_AMD, KIND_UINT, NEVER, AMD,
    NULL },
  { "wavefront-width-amd", CL_DEVICE_WAVEFRONT_WIDTH_AMD, KIND_UINT, NEVER, AMD, NULL },
  { "global-mem-channels-amd", CL_DEVICE_GLOBAL_MEM_CHANNELS_AMD, KIND_UINT, NEVER, AMD, NULL },
  { "global-mem-channel-banks-amd", CL_DEVICE_GLOBAL_MEM_CHANNEL_BANKS_AMD, KIND_UINT, NEVER, AMD,
    NULL },
  { "global-mem-channel-bank-width-amd", CL_DEVICE_GLOBAL_MEM_CHANNEL_BANK_WIDTH_AMD, KIND_UINT,
    NEVER, AMD, NULL },
  { "local-mem-size-per-compute-unit-amd", CL_DEVICE_LOCAL_MEM_SIZE_PER_COMPUTE_UNIT_AMD, KIND_UINT,
    NEVER, AMD, NULL },
  { "local-mem-banks-amd", CL_DEVICE_LOCAL_MEM_BANKS_AMD, KIND_UINT, NEVER, AMD, NULL },
  { "thread-trace-supported-amd", CL_DEVICE_THREAD_TRACE_SUPPORTED_AMD, KIND_BOOL, NEVER, AMD,
    NULL },
  { "gfxip-major-amd", CL_DEVICE_GFXIP_MAJOR_AMD, KIND_UINT, NEVER, AMD, NULL },
  { "gfxip-minor-amd", CL_DEVICE_GFXIP_MINOR_AMD, KIND_UINT, NEVER, AMD, NULL },
  { "available-async-queues-amd", CL_DEVICE_AVAILABLE_ASYNC_QUEUES_AMD, KIND_UINT, NEVER, AMD,
    NULL },
  { "preferred-work-group-size-amd", CL_DEVICE_PREFERRED_WORK_GROUP_SIZE_AMD, KIND_SIZE, NEVER, AMD,
    NULL },
  { "max-work-group-size-amd", CL_DEVICE_MAX_WORK_GROUP_SIZE_AMD, KIND_SIZE, NEVER, AMD, NULL },
  { "preferred-constant-buffer-size-amd", CL_DEVICE_PREFERRED_CONSTANT_BUFFER_SIZE_AMD, KIND_SIZE,
    NEVER, AMD, NULL },
  { "pcie-id-amd", CL_DEVICE_PCIE_ID_AMD, KIND_UINT, NEVER, AMD, NULL },

  /* Intel */
  { "ip-version-intel", CL_DEVICE_IP_VERSION_INTEL, KIND_UINT, NEVER, INTEL, NULL },
  { "id-intel", CL_DEVICE_ID_INTEL, KIND_UINT, NEVER, INTEL, NULL },
  { "num-slices-intel", CL_DEVICE_NUM_SLICES_INTEL, KIND_UINT, NEVER, INTEL, NULL },
  { "num-sub-slices-per-slice-intel", CL_DEVICE_NUM_SUB_SLICES_PER_SLICE_INTEL, KIND_UINT, NEVER,
    INTEL, NULL },
  { "num-eus-per-sub-slice-intel", CL_DEVICE_NUM_EUS_PER_SUB_SLICE_INTEL, KIND_UINT, NEVER, INTEL,
    NULL },
  { "num-threads-per-eu-intel", CL_DEVICE_NUM_THREADS_PER_EU_INTEL, KIND_UINT, NEVER, INTEL, NULL },
  { "host-mem-capabilities-intel", CL_DEVICE_HOST_MEM_CAPABILITIES_INTEL, KIND_FLAGS, NEVER, USM,
    usm_names },
  { "device-mem-capabilities-intel", CL_DEVICE_DEVICE_MEM_CAPABILITIES_INTEL, KIND_FLAGS, NEVER,
    USM, usm_names },
  { "single-device-shared-mem-capabilities-intel",
    CL_DEVICE_SINGLE_DEVICE_SHARED_MEM_CAPABILITIES_INTEL, KIND_FLAGS, NEVER, USM, usm_names },
  { "cross-device-shared-mem-capabilities-intel",
    CL_DEVICE_CROSS_DEVICE_SHARED_MEM_CAPABILITIES_INTEL, KIND_FLAGS, NEVER, USM, usm_names },
  { "shared-system-mem-capabilities-intel", CL_DEVICE_SHARED_SYSTEM_MEM_CAPABILITIES_INTEL,
    KIND_FLAGS, NEVER, USM, usm_names },
  { "sub-group-sizes-intel", CL_DEVICE_SUB_GROUP_SIZES_INTEL, KIND_SIZES, NEVER,
    "cl_intel_required_subgroup_size", NULL }
};

static GVariant *
from_sizes (const gsize *sizes,
            gsize        n_sizes)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("at"));
  for (gsize i = 0; i < n_sizes; i++)
    g_variant_builder_add (&builder, "t", (guint64) sizes[i]);

  return g_variant_builder_end (&builder);
}

static GVariant *
from_texts (const char *const *texts,
            gsize              n_texts)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_STRING_ARRAY);
  for (gsize i = 0; i < n_texts; i++)
    g_variant_builder_add_value (&builder, g_variant_new_take_string (
                                   _gpu_opencl_clean_text (g_strdup (texts[i]))));

  return g_variant_builder_end (&builder);
}

static GVariant *
from_list (const char *text,
           const char *separator)
{
  GVariantBuilder builder;
  g_autofree char *valid = g_utf8_make_valid (text, -1);
  g_auto (GStrv) words = g_strsplit (valid, separator, -1);

  g_variant_builder_init (&builder, G_VARIANT_TYPE_STRING_ARRAY);
  for (guint i = 0; words[i] != NULL; i++)
    {
      if (words[i][0] != '\0')
        g_variant_builder_add (&builder, "s", words[i]);
    }

  return g_variant_builder_end (&builder);
}

static GVariant *
from_flags (cl_bitfield     bits,
            const InfoName *names)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_STRING_ARRAY);
  for (; names->name != NULL; names++)
    {
      if (bits & names->value)
        g_variant_builder_add (&builder, "s", names->name);
      bits &= ~names->value;
    }
  /* Report unknown bits, which belong to a later version or to an extension, as a number. */
  if (bits != 0)
    g_variant_builder_add_value (&builder, g_variant_new_take_string (
                                   g_strdup_printf ("0x%" G_GINT64_MODIFIER "x", (guint64) bits)));

  return g_variant_builder_end (&builder);
}

static GVariant *
from_choice (cl_uint         value,
             const InfoName *names)
{
  for (; names->name != NULL; names++)
    {
      if (names->value == value)
        return g_variant_new_string (names->name);
    }

  return g_variant_new_take_string (g_strdup_printf ("%u", value));
}

static char *
version_text (cl_version version)
{
  return g_strdup_printf ("%u.%u.%u", CL_VERSION_MAJOR (version), CL_VERSION_MINOR (version),
                          CL_VERSION_PATCH (version));
}

static GVariant *
from_named_versions (const cl_name_version *versions,
                     gsize                  n_versions)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_STRING_ARRAY);
  for (gsize i = 0; i < n_versions; i++)
    {
      g_autofree char *name = g_strndup (versions[i].name, sizeof versions[i].name);
      g_autofree char *valid = g_utf8_make_valid (name, -1);
      g_autofree char *version = version_text (versions[i].version);

      g_variant_builder_add_value (&builder, g_variant_new_take_string (
                                     g_strconcat (valid, " ", version, NULL)));
    }

  return g_variant_builder_end (&builder);
}

static GVariant *
from_octets (const guint8 *octets,
             gsize         size,
             gboolean      with_dashes)
{
  GString *text = g_string_new (NULL);

  for (gsize i = 0; i < size; i++)
    {
      if (with_dashes && (i == 4 || i == 6 || i == 8 || i == 10))
        g_string_append_c (text, '-');
      g_string_append_printf (text, "%02x", octets[i]);
    }

  return g_variant_new_take_string (g_string_free (text, FALSE));
}

static GVariant *
from_pci (const cl_device_pci_bus_info_khr *pci)
{
  return g_variant_new_take_string (g_strdup_printf ("%04x:%02x:%02x.%x", pci->pci_domain,
                                                     pci->pci_bus, pci->pci_device,
                                                     pci->pci_function));
}

/* Returns the size of one value of @kind in bytes, or 0 if the size varies. */
static gsize
get_kind_size (InfoKind kind)
{
  switch (kind)
    {
    case KIND_BOOL:
    case KIND_UINT:
    case KIND_CHOICE:
    case KIND_VERSION:
      return sizeof (cl_uint);
    case KIND_ULONG:
    case KIND_FLAGS:
      return sizeof (cl_ulong);
    case KIND_SIZE:
    case KIND_HANDLE:
      return sizeof (gsize);
    case KIND_UUID:
      return CL_UUID_SIZE_KHR;
    case KIND_LUID:
      return CL_LUID_SIZE_KHR;
    case KIND_PCI:
      return sizeof (cl_device_pci_bus_info_khr);
    default:
      return 0;
    }
}

static GVariant *
from_data (const InfoEntry *entry,
           gconstpointer    data,
           gsize            size)
{
  switch (entry->kind)
    {
    case KIND_BOOL:
      return g_variant_new_boolean (*(const cl_bool *) data != CL_FALSE);
    case KIND_UINT:
      return g_variant_new_uint32 (*(const cl_uint *) data);
    case KIND_ULONG:
      return g_variant_new_uint64 (*(const cl_ulong *) data);
    case KIND_SIZE:
    case KIND_HANDLE:
      return g_variant_new_uint64 (*(const gsize *) data);
    case KIND_SIZES:
      return from_sizes (data, size / sizeof (gsize));
    case KIND_UINTS:
      return g_variant_new_fixed_array (G_VARIANT_TYPE_UINT32, data, size / sizeof (cl_uint),
                                        sizeof (cl_uint));
    case KIND_TEXTS:
      return from_texts (data, size / sizeof (const char *));
    case KIND_TEXT:
      return g_variant_new_take_string (_gpu_opencl_clean_text (g_strdup (data)));
    case KIND_SPACED:
      return from_list (data, " ");
    case KIND_LISTED:
      return from_list (data, ";");
    case KIND_FLAGS:
      return from_flags (*(const cl_bitfield *) data, entry->names);
    case KIND_CHOICE:
      return from_choice (*(const cl_uint *) data, entry->names);
    case KIND_VERSION:
      return g_variant_new_take_string (version_text (*(const cl_version *) data));
    case KIND_NAMED_VERSIONS:
      return from_named_versions (data, size / sizeof (cl_name_version));
    case KIND_UUID:
      return from_octets (data, size, TRUE);
    case KIND_LUID:
      return from_octets (data, size, FALSE);
    case KIND_PCI:
      return from_pci (data);
    default:
      g_assert_not_reached ();
    }
}

static gboolean
is_offered (GpuOpenclDevice *device,
            const InfoEntry *entry)
{
  return device->level >= entry->level ||
         (entry->extension != NULL && _gpu_opencl_device_has (device, entry->extension));
}

/* Drivers return an error for an info that they do not implement, even if the version of OpenCL
 * that they report includes the info. */
static gboolean
is_refusal (const GError *error)
{
  return g_error_matches (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT) ||
         g_error_matches (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED);
}

gboolean
_gpu_opencl_get_attributes (GpuNativeDevice  *native,
                            GVariantDict     *attributes,
                            GError          **error)
{
  GpuOpenclDevice *device = (GpuOpenclDevice *) native;

  for (gsize i = 0; i < G_N_ELEMENTS (entries); i++)
    {
      const InfoEntry *entry = &entries[i];
      g_autoptr (GError) local = NULL;
      g_autofree char *data = NULL;
      gsize size = 0;

      if (!is_offered (device, entry))
        continue;

      data = _gpu_opencl_device_get_data (device->id, entry->info, &size, &local);
      if (data != NULL && size >= get_kind_size (entry->kind))
        {
          g_variant_dict_insert_value (attributes, entry->nick, from_data (entry, data, size));
        }
      else if (data == NULL && !is_refusal (local))
        {
          g_propagate_error (error, g_steal_pointer (&local));
          return FALSE;
        }
    }

  return TRUE;
}
