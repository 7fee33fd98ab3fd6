/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/base/gpu-attributes-private.h"
#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/base/gpu-nick-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/memory/gpu-memory-private.h"

/**
 * SECTION:gpu-svm
 * @title: GpuSvm
 * @short_description: memory at one address for host and device
 * @see_also: #GpuMapping, gpu_arguments_add_indirect()
 */

/**
 * GpuSvm:
 *
 * Shared virtual memory, which has the same address on the host and in kernels.
 *
 * |[<!-- language="C" -->
 * typedef struct _Node { struct _Node *next; } Node;
 * g_autoptr (GpuSvm) nodes = gpu_svm_new (context, GPU_MEMORY_FLAGS_NONE, GPU_SVM_FLAGS_NONE,
 *                                         100 * sizeof (Node), 0, &error);
 * g_autoptr (GpuMapping) mapping = gpu_svm_map (nodes, NULL, GPU_MAP_FLAGS_WRITE_INVALIDATE, 0,
 *                                               100 * sizeof (Node), NULL, &error);
 * Node *node = gpu_mapping_get_data (mapping);
 *
 * for (int i = 0; i < 100; i++)
 *   node[i].next = i < 99 ? &node[i + 1] : NULL;
 *
 * gpu_mapping_unmap (mapping, &error);
 * gpu_stream_launch (stream, kernel, &(GpuExtent) { 1, 1, 1 }, NULL, &error, nodes);
 * ]|
 *
 * Shared virtual memory can contain pointers to itself, for lists, trees and graphs. On OpenCL a
 * #GpuSvm is shared virtual memory, on CUDA managed memory, and on the host back end ordinary
 * memory. In all other respects, a #GpuSvm is like other memory: #GpuStream supports it in all
 * operations, kernels take it as an argument, and the library orders its uses on several streams
 * and frees it when the last work that uses it has completed.
 *
 * Most devices support coarse-grain memory (%GPU_CAPABILITIES_SVM_COARSE). The host may access this
 * memory only while it is mapped, with gpu_svm_map() or gpu_stream_map(). The mapping has the
 * address that kernels use. The host may access fine-grain memory (%GPU_CAPABILITIES_SVM_FINE) at
 * any time, with gpu_svm_get_data() or gpu_svm_get_bytes(). However, the host is guaranteed to see
 * the writes of a kernel only after the kernel has completed, or through atomic operations
 * (%GPU_CAPABILITIES_SVM_ATOMICS). A program that maps the memory before each access works with
 * both kinds.
 *
 * Devices with %GPU_CAPABILITIES_SVM_SYSTEM can access all host memory, and gpu_svm_new_for_bytes()
 * creates a #GpuSvm for existing host memory.
 *
 * A CUDA device without %GPU_CAPABILITIES_SVM_FINE cannot use managed memory at the same time as
 * the host. On such a device, only one stream at a time can use the memory. While any part of the
 * memory is mapped, only the host can use it, and the submission of work that uses it fails with
 * %GPU_ERROR_BUSY. The library attaches the memory to the stream of each use
 * (cuStreamAttachMemAsync). Uses on several streams run one after another, even if they only read.
 *
 * All methods may be called from any thread.
 *
 * Since: 0.1
 */
struct _GpuSvm
{
  GpuMemory    parent_instance;

  GpuSvmFlags  svm_flags;
  gsize        alignment;           /* as requested, 0 for the default */
  gpointer     data;                /* the memory, if the host may access it at any time, or
                                     * NULL */
};

enum
{
  PROP_0,
  PROP_SVM_FLAGS,
  PROP_ALIGNMENT,
  N_PROPS
};

static GParamSpec *props[N_PROPS];

static void initable_iface_init (GInitableIface *iface);

gpointer _gpu_svm_class;

G_DEFINE_FINAL_TYPE_WITH_CODE (GpuSvm, gpu_svm, GPU_TYPE_MEMORY,
                               G_IMPLEMENT_INTERFACE (G_TYPE_INITABLE, initable_iface_init))

static void
gpu_svm_get_property (GObject    *object,
                      guint       id,
                      GValue     *value,
                      GParamSpec *pspec)
{
  GpuSvm *svm = GPU_SVM (object);

  switch (id)
    {
    case PROP_SVM_FLAGS:
      g_value_set_flags (value, svm->svm_flags);
      break;
    case PROP_ALIGNMENT:
      g_value_set_uint64 (value, svm->alignment);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gpu_svm_set_property (GObject      *object,
                      guint         id,
                      const GValue *value,
                      GParamSpec   *pspec)
{
  GpuSvm *svm = GPU_SVM (object);

  switch (id)
    {
    case PROP_SVM_FLAGS:
      svm->svm_flags = g_value_get_flags (value);
      break;
    case PROP_ALIGNMENT:
      svm->alignment = g_value_get_uint64 (value);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gpu_svm_finalize (GObject *object)
{
  _gpu_live_add (GPU_LIVE_SVM, -1);

  G_OBJECT_CLASS (gpu_svm_parent_class)->finalize (object);
}

static void
gpu_svm_class_init (GpuSvmClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS;

  _gpu_svm_class = klass;
  object_class->get_property = gpu_svm_get_property;
  object_class->set_property = gpu_svm_set_property;
  object_class->finalize = gpu_svm_finalize;

  /**
   * GpuSvm:svm-flags:
   *
   * The access by host and device: the requested flags, and %GPU_SVM_FLAGS_FINE_GRAIN if the host
   * may access the memory at any time.
   *
   * Since: 0.1
   */
  props[PROP_SVM_FLAGS] = g_param_spec_flags ("svm-flags", NULL, NULL, GPU_TYPE_SVM_FLAGS,
                                              GPU_SVM_FLAGS_NONE, flags);
  /**
   * GpuSvm:alignment:
   *
   * The requested alignment of the address in bytes, or 0 for the default of the driver.
   *
   * Since: 0.1
   */
  props[PROP_ALIGNMENT] = g_param_spec_uint64 ("alignment", NULL, NULL, 0, G_MAXSIZE, 0, flags);

  g_object_class_install_properties (object_class, N_PROPS, props);
}

static void
gpu_svm_init (GpuSvm *svm)
{
  _gpu_live_add (GPU_LIVE_SVM, 1);
}

/* The parameters of an allocation. */
typedef struct
{
  const char     *function;
  GpuMemoryFlags  flags;
  GpuSvmFlags     svm_flags;
  gsize           size;
  gsize           alignment;
  gpointer        host;             /* (nullable): host memory to use in place */
} Allocation;

static GpuNativeMemory *
allocate (GpuNativeContext  *context,
          gpointer           data,
          GError           **error)
{
  const GpuSvmOps *ops = context->backend->svm;
  const Allocation *allocation = data;

  if (allocation->host != NULL)
    return ops->alloc_for_host (context, allocation->flags, allocation->host, allocation->size,
                                error);

  return ops->alloc (context, allocation->flags, allocation->svm_flags, allocation->size,
                     allocation->alignment, error);
}

#define USM_KINDS (GPU_SVM_FLAGS_USM_DEVICE | GPU_SVM_FLAGS_USM_HOST | GPU_SVM_FLAGS_USM_SHARED)

/* Each kind of unified shared memory excludes all other flags. */
static gboolean
check_svm_flags (const Allocation  *allocation,
                 GError           **error)
{
  const GpuSvmFlags flags = allocation->svm_flags;
  const GpuSvmFlags unknown = flags & ~(USM_KINDS | GPU_SVM_FLAGS_FINE_GRAIN
                                        | GPU_SVM_FLAGS_ATOMICS);
  g_autofree char *text = NULL;

  if (unknown != 0)
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                 "%s: unknown flags 0x%x of shared virtual memory", allocation->function, unknown);
  else if (flags == GPU_SVM_FLAGS_ATOMICS)
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                 "%s: atomics require GPU_SVM_FLAGS_FINE_GRAIN, too", allocation->function);
  else if ((flags & USM_KINDS) != 0 && (flags & (flags - 1)) != 0)
    {
      text = _gpu_flags_get_nicks (GPU_TYPE_SVM_FLAGS, flags);
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: the flags %s cannot be combined", allocation->function, text);
    }
  else
    return TRUE;

  return FALSE;
}

static gboolean
check_arguments (const Allocation  *allocation,
                 GError           **error)
{
  g_autofree char *text = NULL;

  if (!check_svm_flags (allocation, error))
    return FALSE;

  if ((allocation->flags & (GPU_MEMORY_FLAGS_ALLOC_HOST | GPU_MEMORY_FLAGS_SHAREABLE)) != 0)
    {
      text = _gpu_flags_get_nicks (GPU_TYPE_MEMORY_FLAGS, allocation->flags);
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: the memory flags %s are not supported for shared virtual memory",
                   allocation->function, text);
      return FALSE;
    }

  if ((allocation->alignment & (allocation->alignment - 1)) == 0
      && allocation->alignment <= G_MAXSIZE / 4)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: the alignment of %" G_GSIZE_FORMAT " bytes is too large or not a power of two",
               allocation->function, allocation->alignment);

  return FALSE;
}

/* Drivers allocate unified shared memory of the kinds `device` and `shared` for a single device, so
 * the context must not have other devices. */
static gboolean
check_usm (const Allocation        *allocation,
           const GpuNativeContext  *context,
           GError                 **error)
{
  const GpuSvmFlags kind = allocation->svm_flags & USM_KINDS;
  g_autofree char *text = _gpu_flags_get_nicks (GPU_TYPE_SVM_FLAGS, kind);

  for (guint i = 0; i < context->n_devices; i++)
    {
      if ((context->devices[i]->usm_kinds & kind) != 0)
        continue;

      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "%s: %s has no unified shared memory of the kind %s", allocation->function,
                   context->devices[i]->id, text);
      return FALSE;
    }

  if (kind == GPU_SVM_FLAGS_USM_HOST || context->n_devices == 1)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
               "%s: unified shared memory of the kind %s belongs to one device, and the context "
               "has %u", allocation->function, text, context->n_devices);
  return FALSE;
}

/* All devices of the context share the memory, so each device must support this kind of memory. */
static gboolean
check_devices (const Allocation        *allocation,
               const GpuNativeContext  *context,
               GError                 **error)
{
  const struct
  {
    GpuCapabilities  capability;
    gboolean         wanted;
    const char      *what;
  }
  kinds[] =
  {
    { GPU_CAPABILITIES_SVM_SYSTEM, allocation->host != NULL, "access to pageable host memory" },
    { GPU_CAPABILITIES_SVM_ATOMICS, (allocation->svm_flags & GPU_SVM_FLAGS_ATOMICS) != 0,
      "shared virtual memory with atomic operations between host and device" },
    { GPU_CAPABILITIES_SVM_FINE, (allocation->svm_flags & GPU_SVM_FLAGS_FINE_GRAIN) != 0,
      "fine grain shared virtual memory" },
    { GPU_CAPABILITIES_SVM_COARSE, allocation->host == NULL, "shared virtual memory" }
  };

  if ((allocation->svm_flags & USM_KINDS) != 0)
    return check_usm (allocation, context, error);

  for (guint i = 0; i < context->n_devices; i++)
    {
      const GpuNativeDevice *device = context->devices[i];

      for (gsize j = 0; j < G_N_ELEMENTS (kinds); j++)
        {
          if (!kinds[j].wanted || (device->capabilities & kinds[j].capability) != 0)
            continue;

          g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED, "%s: %s has no %s",
                       allocation->function, device->id, kinds[j].what);
          return FALSE;
        }
    }

  return TRUE;
}

static gboolean
check_size (const Allocation  *allocation,
            GpuNativeContext  *context,
            GError           **error)
{
  if (allocation->size != 0 && context->backend->svm->is_unlimited)
    return TRUE;

  return _gpu_buffer_check_size (allocation->function, context, allocation->size, error);
}

static gboolean
check_allocation (const Allocation  *allocation,
                  GpuNativeContext  *context,
                  GError           **error)
{
  const GpuBackend *backend = context->backend;

  if (backend->svm == NULL)
    return _gpu_backend_fail (backend, allocation->function, "shared virtual memory", error);

  return check_arguments (allocation, error)
         && _gpu_buffer_check_flags (allocation->function, context, allocation->flags, error)
         && check_devices (allocation, context, error) && check_size (allocation, context, error);
}

/* Rejects memory that only one stream at a time can use (`is_exclusive`) if it would be untracked:
 * without tracking, two streams could use the memory at the same time. */
static gboolean
check_tracked (const Allocation       *allocation,
               GpuNativeContext       *context,
               const GpuNativeMemory  *memory,
               GError                **error)
{
  if (!memory->is_exclusive || (allocation->flags & GPU_MEMORY_FLAGS_UNTRACKED) == 0)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
               "%s: on %s, the host and the streams use shared memory in turns; allocate it "
               "without GPU_MEMORY_FLAGS_UNTRACKED", allocation->function, context->devices[0]->id);

  return FALSE;
}

void
_gpu_svm_set_data (GpuSvm *svm)
{
  svm->data = GPU_MEMORY (svm)->storage->buffer->host;

  if (svm->data != NULL)
    svm->svm_flags |= GPU_SVM_FLAGS_FINE_GRAIN;
}

static gboolean
allocate_for (GpuSvm      *svm,
              Allocation  *allocation,
              GBytes      *bytes,
              GError     **error)
{
  GpuMemory *memory = GPU_MEMORY (svm);
  const gboolean is_empty = bytes == NULL && allocation->size == 0;
  GpuNativeContext *context;
  GpuNativeMemory *native;

  /* Drivers reject 0 bytes. With one byte, empty memory has an address and a handle of its own. */
  if (is_empty)
    allocation->size = 1;

  if (memory->context == NULL)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "%s: no context was given",
                   allocation->function);
      return FALSE;
    }

  if (!_gpu_context_check (memory->context, allocation->function, error))
    return FALSE;

  context = _gpu_context_get_native (memory->context);

  if (!check_allocation (allocation, context, error))
    return FALSE;

  native = _gpu_memory_allocate (memory->context, allocation->function, allocation->size, allocate,
                                 allocation, error);

  if (native == NULL)
    return FALSE;

  if (!check_tracked (allocation, context, native, error))
    {
      context->backend->memory->free (context, native);
      return FALSE;
    }

  svm->svm_flags = allocation->svm_flags;
  memory->host_bytes = bytes != NULL ? g_bytes_ref (bytes) : NULL;
  _gpu_memory_set_storage (memory, _gpu_storage_new (context, native, allocation->flags,
                                                     bytes == NULL ? GPU_STORAGE_DEVICE
                                                                   : GPU_STORAGE_FOREIGN,
                                                     bytes != NULL ? g_bytes_ref (bytes) : NULL,
                                                     bytes != NULL ? (GDestroyNotify) g_bytes_unref
                                                                   : NULL));
  _gpu_svm_set_data (svm);

  if (is_empty)
    memory->size = 0;

  return TRUE;
}

static gboolean
gpu_svm_initable_init (GInitable     *initable,
                       GCancellable  *cancellable,
                       GError       **error)
{
  GpuSvm *svm = GPU_SVM (initable);
  GpuMemory *memory = GPU_MEMORY (initable);
  Allocation allocation = { .function = "gpu_svm_new", .flags = memory->flags,
                            .svm_flags = svm->svm_flags, .size = memory->size,
                            .alignment = svm->alignment };

  return memory->storage != NULL || allocate_for (svm, &allocation, NULL, error);
}

static void
initable_iface_init (GInitableIface *iface)
{
  iface->init = gpu_svm_initable_init;
}

/**
 * gpu_svm_new:
 * @context: a #GpuContext
 * @flags: the intended use of the memory, without %GPU_MEMORY_FLAGS_ALLOC_HOST and
 *   %GPU_MEMORY_FLAGS_SHAREABLE
 * @svm_flags: how the host and devices can access the memory, or a single kind of unified shared
 *   memory: see #GpuSvmFlags
 * @size: size in bytes; 0 for memory that has an address but no bytes, such as that of an array
 *   without elements
 * @alignment: the alignment of the address in bytes, a power of two; 0 for the default of the
 *   driver, which suits every type
 * @error: return location for an error
 *
 * Allocates memory that has the same address for the host and for all devices of @context (OpenCL:
 * clSVMAlloc, and clCreateBuffer over that memory, for commands that require a cl_mem; CUDA:
 * cuMemAllocManaged). The contents are undefined. On CUDA, @size may exceed the memory of the
 * device. If the driver is out of memory, #GpuContext::memory-pressure is emitted. Does not block.
 *
 * If @svm_flags is %GPU_SVM_FLAGS_USM_DEVICE, %GPU_SVM_FLAGS_USM_HOST or
 * %GPU_SVM_FLAGS_USM_SHARED, the function allocates unified shared memory (OpenCL:
 * clDeviceMemAllocINTEL, clHostMemAllocINTEL, clSharedMemAllocINTEL). Memory with
 * %GPU_SVM_FLAGS_USM_DEVICE or %GPU_SVM_FLAGS_USM_SHARED belongs to a single device, so @context
 * must have no other device. The host cannot map memory with %GPU_SVM_FLAGS_USM_DEVICE, but the
 * methods of #GpuStream can copy it.
 *
 * Returns: (transfer full): the memory, or %NULL with %GPU_ERROR_NOT_SUPPORTED if a device does not
 *   have %GPU_CAPABILITIES_SVM_COARSE or a feature of @svm_flags, or if @flags contains
 *   %GPU_MEMORY_FLAGS_UNTRACKED on a CUDA device without %GPU_CAPABILITIES_SVM_FINE;
 *   %GPU_ERROR_INVALID_ARGUMENT for an invalid alignment or flags that cannot be combined;
 *   %GPU_ERROR_OUT_OF_DEVICE_MEMORY; %GPU_ERROR_DEVICE_LOST; or the driver's error
 *
 * Since: 0.1
 */
GpuSvm *
gpu_svm_new (GpuContext      *context,
             GpuMemoryFlags   flags,
             GpuSvmFlags      svm_flags,
             gsize            size,
             gsize            alignment,
             GError         **error)
{
  Allocation allocation = { .function = "gpu_svm_new", .flags = flags, .svm_flags = svm_flags,
                            .size = size, .alignment = alignment };
  g_autoptr (GpuSvm) svm = NULL;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);

  svm = g_object_new (GPU_TYPE_SVM, "context", context, "alignment", (guint64) alignment, NULL);

  return allocate_for (svm, &allocation, NULL, error) ? g_steal_pointer (&svm) : NULL;
}

/**
 * gpu_svm_new_for_bytes:
 * @context: a #GpuContext
 * @flags: the intended use of the memory, without %GPU_MEMORY_FLAGS_ALLOC_HOST and
 *   %GPU_MEMORY_FLAGS_SHAREABLE
 * @bytes: host memory, not empty
 * @error: return location for an error
 *
 * Creates fine-grain memory that uses pageable host memory in place, and keeps a reference to
 * @bytes. The devices of @context must have %GPU_CAPABILITIES_SVM_SYSTEM, which means that they can
 * access all host memory (OpenCL: fine-grain system memory; CUDA: pageable memory access). Work
 * that writes the memory changes the contents of @bytes, so @bytes must be writable if any work
 * writes the memory. The memory does not count towards gpu_context_get_allocated_size(). Does not
 * block.
 *
 * On devices without %GPU_CAPABILITIES_SVM_SYSTEM, use gpu_buffer_new_for_host_bytes(), which
 * registers the memory with the driver.
 *
 * Returns: (transfer full): the memory, or %NULL with %GPU_ERROR_NOT_SUPPORTED if a device cannot
 *   access all host memory, or the errors of gpu_svm_new()
 *
 * Since: 0.1
 */
GpuSvm *
gpu_svm_new_for_bytes (GpuContext      *context,
                       GpuMemoryFlags   flags,
                       GBytes          *bytes,
                       GError         **error)
{
  Allocation allocation = { .function = "gpu_svm_new_for_bytes", .flags = flags };
  g_autoptr (GpuSvm) svm = NULL;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);
  g_return_val_if_fail (bytes != NULL, NULL);

  allocation.host = (gpointer) g_bytes_get_data (bytes, &allocation.size);
  svm = g_object_new (GPU_TYPE_SVM, "context", context, NULL);

  return allocate_for (svm, &allocation, bytes, error) ? g_steal_pointer (&svm) : NULL;
}

/**
 * gpu_svm_get_data: (skip)
 * @svm: a #GpuSvm
 *
 * Gets the address of fine-grain memory, which the host may access at any time. Kernels use the
 * same address. The pointer is valid until @svm is released or finalized. The host can access
 * coarse-grain memory only through a mapping (see gpu_svm_map()), also at the address that kernels
 * use. gpu_memory_get_device_address() gets the address of both kinds of memory as a number.
 *
 * Returns: (nullable): the first byte, or %NULL if the memory is coarse-grain or was released
 *
 * Since: 0.1
 */
gpointer
gpu_svm_get_data (GpuSvm *svm)
{
  g_return_val_if_fail (GPU_IS_SVM (svm), NULL);

  return gpu_memory_is_released (GPU_MEMORY (svm)) ? NULL : svm->data;
}

/* Called when the last reference to the result of gpu_svm_get_bytes() is dropped. @data is the
 * storage. */
static void
unuse (gpointer data)
{
  _gpu_storage_unuse (data);
  _gpu_storage_unref (data);
}

/**
 * gpu_svm_get_bytes:
 * @svm: a #GpuSvm
 * @error: return location for an error
 *
 * Gets fine-grain memory as #GBytes, without a copy. The #GBytes keeps the memory alive, even after
 * @svm was released or finalized. Writes of the memory by the host and by devices change the
 * contents of the #GBytes. The host is guaranteed to see the writes of a device only after the work
 * that writes has completed.
 *
 * Returns: (transfer full): the bytes, or %NULL with %GPU_ERROR_NOT_SUPPORTED for coarse-grain
 *   memory, which must be mapped instead, %GPU_ERROR_INVALID_ARGUMENT if the flags of the memory
 *   forbid the host to read it, or %GPU_ERROR_RELEASED
 *
 * Since: 0.1
 */
GBytes *
gpu_svm_get_bytes (GpuSvm  *svm,
                   GError **error)
{
  const char *function = "gpu_svm_get_bytes";
  GpuMemory *memory = GPU_MEMORY (svm);
  GpuStorage *storage;

  g_return_val_if_fail (GPU_IS_SVM (svm), NULL);

  if (!_gpu_memory_check (memory, function, error)
      || !_gpu_memory_check_host (memory, function, FALSE, error))
    return NULL;

  if (svm->data == NULL)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "%s: the memory is coarse grain: the host accesses it with gpu_svm_map()",
                   function);
      return NULL;
    }

  storage = _gpu_memory_acquire (memory, function, error);

  if (storage == NULL)
    return NULL;

  return g_bytes_new_with_free_func (svm->data, memory->size, unuse, _gpu_storage_ref (storage));
}
