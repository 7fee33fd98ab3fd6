/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <stdlib.h>

#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/base/gpu-nick-private.h"
#include "gpumem/base/gpu-numa-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/memory/gpu-host-memory-private.h"

/**
 * SECTION:gpu-host-memory
 * @title: GpuHostMemory
 * @short_description: page-locked, registered and aligned host memory
 * @see_also: #GpuMemory, #GpuHostAllocator
 */

/**
 * GpuHostMemory:
 *
 * Host memory for fast copies to and from a device.
 *
 * |[<!-- language="C" -->
 * g_autoptr (GpuHostMemory) staging =
 *   gpu_host_memory_new (context, GPU_HOST_MEMORY_FLAGS_NONE, size, &error);
 *
 * memcpy (gpu_host_memory_get_data (staging), data, size);
 * gpu_stream_copy (stream, GPU_MEMORY (buffer), 0, GPU_MEMORY (staging), 0, size, &error);
 * gpu_host_memory_synchronize (staging, GPU_MAP_FLAGS_WRITE, NULL, &error);
 * memset (gpu_host_memory_get_data (staging), 0, size);
 * ]|
 *
 * The methods of #GpuStream copy, fill and map host memory and order its uses like those of any
 * other memory, and gpu_buffer_new_for_memory() creates a #GpuBuffer for a range of host memory. In
 * addition, the host can read and write the memory in place, through gpu_host_memory_get_data() or
 * gpu_host_memory_get_bytes(). Before such an access the program must wait for the work that uses
 * the memory, with gpu_host_memory_synchronize().
 *
 * gpu_host_memory_new() allocates page-locked memory. The operating system does not move its pages,
 * so copies need no staging and can overlap with other work. Page-locked memory is a scarce
 * resource. gpu_host_memory_new_registered() locks the pages of existing memory for the lifetime of
 * the object. gpu_host_memory_new_aligned() allocates pageable memory with a given alignment. On
 * the host back end, the CPU copies, and all memory is pageable: see GpuHostMemory:page-locked.
 *
 * Kernels can access memory with %GPU_HOST_MEMORY_FLAGS_MAPPED. This access is slow on a device
 * that has memory of its own, because each access crosses the link to the host. On OpenCL, memory
 * with this flag is fine-grain shared virtual memory, which the device must support. Memory without
 * this flag is a cl_mem with CL_MEM_ALLOC_HOST_PTR, or with CL_MEM_USE_HOST_PTR if the memory is
 * registered. The cl_mem stays mapped for the lifetime of the object.
 *
 * Host memory that the library allocates counts towards gpu_context_get_host_allocated_size(), not
 * towards gpu_context_get_allocated_size(), which counts device memory.
 *
 * All methods may be called from any thread.
 *
 * Since: 0.1
 */

#define DEFAULT_ALIGNMENT 4096

enum
{
  PROP_0,
  PROP_HOST_FLAGS,
  PROP_NUMA_NODE,
  PROP_PAGE_LOCKED,
  PROP_ADDRESS,
  N_PROPS
};

static GParamSpec *props[N_PROPS];

static void initable_iface_init (GInitableIface *iface);

G_DEFINE_FINAL_TYPE_WITH_CODE (GpuHostMemory, gpu_host_memory, GPU_TYPE_MEMORY,
                               G_IMPLEMENT_INTERFACE (G_TYPE_INITABLE, initable_iface_init))

static void
gpu_host_memory_get_property (GObject    *object,
                              guint       id,
                              GValue     *value,
                              GParamSpec *pspec)
{
  GpuHostMemory *memory = GPU_HOST_MEMORY (object);

  switch (id)
    {
    case PROP_HOST_FLAGS:
      g_value_set_flags (value, memory->host_flags);
      break;
    case PROP_NUMA_NODE:
      g_value_set_int (value, memory->numa_node);
      break;
    case PROP_PAGE_LOCKED:
      g_value_set_boolean (value, memory->is_locked);
      break;
    case PROP_ADDRESS:
      g_value_set_uint64 (value, gpu_host_memory_get_address (memory));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gpu_host_memory_set_property (GObject      *object,
                              guint         id,
                              const GValue *value,
                              GParamSpec   *pspec)
{
  if (id == PROP_HOST_FLAGS)
    GPU_HOST_MEMORY (object)->host_flags = g_value_get_flags (value);
  else if (id == PROP_NUMA_NODE)
    GPU_HOST_MEMORY (object)->numa_node = g_value_get_int (value);
  else
    G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
}

static void
gpu_host_memory_finalize (GObject *object)
{
  _gpu_live_add (GPU_LIVE_HOST_MEMORY, -1);

  G_OBJECT_CLASS (gpu_host_memory_parent_class)->finalize (object);
}

static void
gpu_host_memory_class_init (GpuHostMemoryClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->get_property = gpu_host_memory_get_property;
  object_class->set_property = gpu_host_memory_set_property;
  object_class->finalize = gpu_host_memory_finalize;

  /**
   * GpuHostMemory:host-flags:
   *
   * The flags in effect (CUDA: cuMemHostGetFlags). At construction, the property specifies the
   * requested flags.
   *
   * Since: 0.1
   */
  props[PROP_HOST_FLAGS] =
    g_param_spec_flags ("host-flags", NULL, NULL, GPU_TYPE_HOST_MEMORY_FLAGS,
                        GPU_HOST_MEMORY_FLAGS_NONE,
                        G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS);
  /**
   * GpuHostMemory:numa-node:
   *
   * The NUMA node that the kernel prefers for the pages, or %GPU_NUMA_NODE_NONE. At construction,
   * the property specifies the requested node: the number of a node with memory,
   * %GPU_NUMA_NODE_NONE, or by default %GPU_NUMA_NODE_DEVICE. If the host has several nodes and the
   * requested node is none of them, construction fails with %GPU_ERROR_INVALID_ARGUMENT. If the
   * preferred node has no free page, the kernel uses another node. The request has no effect on
   * OpenCL; on CUDA, on memory of less than 2 MiB or with %GPU_HOST_MEMORY_FLAGS_WRITE_COMBINED; on
   * the host back end, on memory of less than 256 KiB; on memory that the library has not
   * allocated; on a host with one node; and if the kernel does not let the process bind memory. The
   * node in effect is then %GPU_NUMA_NODE_NONE.
   *
   * Since: 0.1
   */
  props[PROP_NUMA_NODE] =
    g_param_spec_int ("numa-node", NULL, NULL, G_MININT, G_MAXINT, GPU_NUMA_NODE_DEVICE,
                      G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS);
  /**
   * GpuHostMemory:page-locked:
   *
   * Whether the driver has locked the pages in physical memory. %FALSE on the host back end, and
   * for memory of gpu_host_memory_new_aligned().
   *
   * Since: 0.1
   */
  props[PROP_PAGE_LOCKED] = g_param_spec_boolean ("page-locked", NULL, NULL, FALSE,
                                                  G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);
  /**
   * GpuHostMemory:address:
   *
   * The address of the memory on the host, or 0 after a release.
   *
   * Since: 0.1
   */
  props[PROP_ADDRESS] = g_param_spec_uint64 ("address", NULL, NULL, 0, G_MAXUINT64, 0,
                                             G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);

  g_object_class_install_properties (object_class, N_PROPS, props);
}

static void
gpu_host_memory_init (GpuHostMemory *memory)
{
  _gpu_live_add (GPU_LIVE_HOST_MEMORY, 1);
}

static gboolean
check_context (GpuContext  *context,
               const char  *function,
               GError     **error)
{
  if (context != NULL)
    return _gpu_context_check (context, function, error);

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "%s: no context was given", function);

  return FALSE;
}

static gboolean
check_flags (const char          *function,
             GpuHostMemoryFlags   flags,
             GpuHostMemoryFlags   known,
             const char          *what,
             GError             **error)
{
  g_autofree char *text = NULL;

  if ((flags & ~known) == 0)
    return TRUE;

  text = _gpu_flags_get_nicks (GPU_TYPE_HOST_MEMORY_FLAGS, flags);
  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: the flags %s are not supported for memory that is %s", function, text, what);

  return FALSE;
}

static gboolean
check_size (const char  *function,
            gsize        size,
            GError     **error)
{
  if (size != 0)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "%s: memory cannot have 0 bytes",
               function);

  return FALSE;
}

gboolean
_gpu_host_memory_check (GpuContext          *context,
                        const char          *function,
                        GpuHostMemoryFlags   flags,
                        int                  numa_node,
                        gsize                size,
                        GError             **error)
{
  const GpuHostMemoryFlags known = GPU_HOST_MEMORY_FLAGS_PORTABLE | GPU_HOST_MEMORY_FLAGS_MAPPED
                                   | GPU_HOST_MEMORY_FLAGS_WRITE_COMBINED;

  return check_context (context, function, error)
         && check_flags (function, flags, known, "allocated", error)
         && _gpu_numa_check ("", function, numa_node, error)
         && check_size (function, size, error);
}

/* The parameters of an allocation. */
typedef struct
{
  GpuHostMemoryFlags *flags;        /* NULL for pageable memory */
  int                *numa_node;    /* NULL for memory of the program */
  gpointer            data;         /* memory of the program to use; NULL to allocate memory */
  gsize               size;
} Allocation;

static GpuNativeMemory *
allocate (GpuNativeContext  *context,
          gpointer           data,
          GError           **error)
{
  const GpuBufferOps *ops = context->backend->buffer;
  const Allocation *allocation = data;

  if (allocation->flags == NULL)
    return ops->use_host (context, allocation->data, allocation->size, error);

  if (allocation->data == NULL)
    return ops->alloc_host (context, allocation->flags, allocation->numa_node, allocation->size,
                            error);

  return ops->register_host (context, allocation->flags, allocation->data, allocation->size,
                             error);
}

GpuNativeBuffer *
_gpu_host_memory_allocate (GpuContext          *context,
                           const char          *function,
                           GpuHostMemoryFlags  *flags,
                           int                 *numa_node,
                           gsize                size,
                           GError             **error)
{
  const GpuBackend *backend = _gpu_context_get_native (context)->backend;
  Allocation allocation = { flags, numa_node, NULL, size };

  if (backend->buffer->alloc_host == NULL)
    {
      _gpu_backend_fail (backend, function, "page-locked host memory", error);
      return NULL;
    }

  return _gpu_memory_allocate (context, function, size, allocate, &allocation, error);
}

static void
set_storage (GpuHostMemory      *memory,
             GpuStorage         *storage,
             GpuHostMemoryFlags  flags,
             int                 numa_node)
{
  _gpu_memory_set_storage (GPU_MEMORY (memory), storage);
  memory->data = storage->buffer->host;
  memory->is_locked = storage->buffer->is_locked;
  memory->host_flags = flags;
  memory->numa_node = numa_node;
}

GpuHostMemory *
_gpu_host_memory_new_for_storage (GpuContext         *context,
                                  GpuStorage         *storage,
                                  GpuHostMemoryFlags  flags,
                                  int                 numa_node)
{
  GpuHostMemory *memory = g_object_new (GPU_TYPE_HOST_MEMORY, "context", context, NULL);

  set_storage (memory, storage, flags, numa_node);

  return memory;
}

static gboolean
gpu_host_memory_initable_init (GInitable     *initable,
                               GCancellable  *cancellable G_GNUC_UNUSED,
                               GError       **error)
{
  const char *function = "gpu_host_memory_new";
  GpuHostMemory *self = GPU_HOST_MEMORY (initable);
  GpuMemory *memory = GPU_MEMORY (initable);
  GpuHostMemoryFlags flags = self->host_flags;
  int numa_node = self->numa_node;
  GpuNativeBuffer *native;

  if (memory->storage != NULL)
    return TRUE;

  if (!_gpu_host_memory_check (memory->context, function, flags, numa_node, memory->size, error))
    return FALSE;

  native = _gpu_host_memory_allocate (memory->context, function, &flags, &numa_node, memory->size,
                                      error);

  if (native == NULL)
    return FALSE;

  set_storage (self, _gpu_storage_new (_gpu_context_get_native (memory->context), native,
                                       GPU_MEMORY_FLAGS_NONE, GPU_STORAGE_HOST, NULL, NULL), flags,
               numa_node);

  return TRUE;
}

static void
initable_iface_init (GInitableIface *iface)
{
  iface->init = gpu_host_memory_initable_init;
}

/**
 * gpu_host_memory_new:
 * @context: a #GpuContext
 * @flags: the intended use of the memory, without %GPU_HOST_MEMORY_FLAGS_READ_ONLY
 * @size: size in bytes, not 0
 * @error: return location for an error
 *
 * Allocates page-locked host memory (CUDA: cuMemHostRegister, or cuMemHostAlloc for less than 2 MiB
 * or %GPU_HOST_MEMORY_FLAGS_WRITE_COMBINED, and cuMemHostGetDevicePointer; OpenCL: clCreateBuffer
 * with CL_MEM_ALLOC_HOST_PTR and clEnqueueMapBuffer, or clSVMAlloc with
 * CL_MEM_SVM_FINE_GRAIN_BUFFER for %GPU_HOST_MEMORY_FLAGS_MAPPED). The contents are undefined. The
 * memory is aligned to at least 64 bytes. On the host back end the memory is pageable, and kernels
 * can access it. The allocation is slow, and may block until the device has completed its work: to
 * allocate repeatedly, use a #GpuHostAllocator, which reuses memory.
 *
 * On CUDA, several threads provide the pages of memory of at least 2 MiB. That memory is aligned to
 * 2 MiB, and processes that the program forks do not have it. If it exceeds the free memory of the
 * host, the function fails instead of making the kernel end processes. #GpuHostMemory:numa-node
 * selects the NUMA node. For many allocations of different sizes, see also #GpuMemoryPool with
 * %GPU_MEMORY_FLAGS_ALLOC_HOST.
 *
 * Returns: (transfer full): the memory, or %NULL with %GPU_ERROR_OUT_OF_HOST_MEMORY,
 *   %GPU_ERROR_INVALID_ARGUMENT for a size of 0 or flags that allocated memory cannot have,
 *   %GPU_ERROR_NOT_SUPPORTED for %GPU_HOST_MEMORY_FLAGS_MAPPED with OpenCL devices that have no
 *   fine-grain shared virtual memory, %GPU_ERROR_DEVICE_LOST, or the driver's error
 *
 * Since: 0.1
 */
GpuHostMemory *
gpu_host_memory_new (GpuContext          *context,
                     GpuHostMemoryFlags   flags,
                     gsize                size,
                     GError             **error)
{
  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);

  if (!_gpu_flags_check (GPU_TYPE_HOST_MEMORY_FLAGS, flags, "host memory flags",
                         "gpu_host_memory_new", error))
    return NULL;

  return g_initable_new (GPU_TYPE_HOST_MEMORY, NULL, error, "context", context,
                         "host-flags", flags, "size", (guint64) size, NULL);
}

/* Creates an object for existing host memory, which @allocation describes. Takes ownership of
 * @owner, also on failure. */
static GpuHostMemory *
new_for_existing (GpuContext          *context,
                  const char          *function,
                  Allocation          *allocation,
                  GpuStorageKind       kind,
                  GpuMemoryFlags       memory_flags,
                  gpointer             owner,
                  GDestroyNotify       owner_notify,
                  GError             **error)
{
  GpuNativeContext *native = _gpu_context_get_native (context);
  GpuNativeMemory *buffer = _gpu_memory_allocate (context, function, allocation->size, allocate,
                                                  allocation, error);
  GpuStorage *storage;

  if (buffer == NULL)
    {
      owner_notify (owner);
      return NULL;
    }

  storage = _gpu_storage_new (native, buffer, memory_flags, kind, owner, owner_notify);

  if (allocation->flags != NULL && (*allocation->flags & GPU_HOST_MEMORY_FLAGS_READ_ONLY) != 0)
    storage->is_constant = TRUE;

  return _gpu_host_memory_new_for_storage (context, storage,
                                           allocation->flags != NULL ? *allocation->flags
                                                                     : GPU_HOST_MEMORY_FLAGS_NONE,
                                           GPU_NUMA_NODE_NONE);
}

/**
 * gpu_host_memory_new_aligned:
 * @context: a #GpuContext
 * @alignment: alignment of the memory in bytes, a power of two; 0 for 4096
 * @size: size in bytes, not 0
 * @error: return location for an error
 *
 * Allocates pageable host memory (posix_memalign). The contents are undefined. Kernels cannot
 * access the memory, except on the host back end. Does not block.
 *
 * gpu_stream_copy() stages large copies between pageable memory and a device: it copies them in
 * chunks through page-locked memory of the library. Copies that the library does not stage go
 * through page-locked memory of the driver; on CUDA, such a copy may have completed when the call
 * returns. After the first staged copy of such memory in a CUDA context, each later copy, write,
 * read or fill of such memory blocks the calling thread until the earlier work of its stream has
 * completed, unless the library stages that operation.
 *
 * Returns: (transfer full): the memory, or %NULL with %GPU_ERROR_OUT_OF_HOST_MEMORY,
 *   %GPU_ERROR_INVALID_ARGUMENT for a size of 0 or an alignment that is not a power of two,
 *   %GPU_ERROR_NOT_SUPPORTED, or %GPU_ERROR_DEVICE_LOST
 *
 * Since: 0.1
 */
GpuHostMemory *
gpu_host_memory_new_aligned (GpuContext  *context,
                             gsize        alignment,
                             gsize        size,
                             GError     **error)
{
  const char *function = "gpu_host_memory_new_aligned";
  Allocation allocation = { NULL, NULL, NULL, size };
  gsize rounded = alignment != 0 ? MAX (alignment, sizeof (gpointer)) : DEFAULT_ALIGNMENT;
  const GpuBackend *backend;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);

  if (!check_context (context, function, error) || !check_size (function, size, error))
    return NULL;

  backend = _gpu_context_get_native (context)->backend;

  if (backend->buffer->use_host == NULL)
    {
      _gpu_backend_fail (backend, function, "aligned host memory", error);
      return NULL;
    }

  if ((alignment & (alignment - 1)) != 0)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: the alignment %" G_GSIZE_FORMAT " is not a power of two", function,
                   alignment);
      return NULL;
    }

  if (posix_memalign (&allocation.data, rounded, size) != 0)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_HOST_MEMORY,
                   "%s: %" G_GSIZE_FORMAT " bytes of host memory with an alignment of %"
                   G_GSIZE_FORMAT " were requested", function, size, rounded);
      return NULL;
    }

  return new_for_existing (context, function, &allocation, GPU_STORAGE_HOST, GPU_MEMORY_FLAGS_NONE,
                           allocation.data, free, error);
}

/**
 * gpu_host_memory_new_registered:
 * @context: a #GpuContext
 * @flags: the intended use of the memory, without %GPU_HOST_MEMORY_FLAGS_WRITE_COMBINED
 * @bytes: host memory, not empty
 * @error: return location for an error
 *
 * Locks the pages of existing memory (CUDA: cuMemHostRegister, cuMemHostGetDevicePointer; OpenCL:
 * clCreateBuffer with CL_MEM_USE_HOST_PTR and clEnqueueMapBuffer), and keeps a reference to @bytes.
 * The memory may have any alignment and size. Work that writes the object changes the contents of
 * @bytes, so @bytes must be writable, unless @flags contains %GPU_HOST_MEMORY_FLAGS_READ_ONLY. With
 * this flag, the library rejects all work that would write the memory through this object; work may
 * still write the memory through other objects over the same bytes.
 *
 * After the last reference to the object has been dropped or gpu_memory_release() has been called,
 * the pages are unlocked (cuMemHostUnregister, clEnqueueUnmapMemObject) as soon as the work that
 * uses the memory has completed. The reference to @bytes is dropped when the pages are unlocked and
 * the object is finalized. To lock the pages for the duration of a block of code, declare the
 * object with g_autoptr(). The memory does not count towards gpu_context_get_host_allocated_size().
 * The library orders uses of two objects over the same memory only if both begin at the same byte.
 * May block while the driver locks the pages. On CUDA, unlocking waits for all work of the device,
 * and meanwhile blocks threads that submit work. So if a kernel waits for the host, keep registered
 * memory until that kernel has ended.
 *
 * Returns: (transfer full): the memory, or %NULL with %GPU_ERROR_INVALID_ARGUMENT for bytes that
 *   are empty or flags that registered memory cannot have; %GPU_ERROR_OUT_OF_HOST_MEMORY if no more
 *   pages can be locked; on CUDA %GPU_ERROR_BUSY if @bytes overlaps other registered bytes but is
 *   not contained in them, or if @flags lacks %GPU_HOST_MEMORY_FLAGS_READ_ONLY and @bytes overlaps
 *   bytes that were registered with that flag; on OpenCL %GPU_ERROR_NOT_SUPPORTED for
 *   %GPU_HOST_MEMORY_FLAGS_MAPPED; or the driver's error
 *
 * Since: 0.1
 */
GpuHostMemory *
gpu_host_memory_new_registered (GpuContext          *context,
                                GpuHostMemoryFlags   flags,
                                GBytes              *bytes,
                                GError             **error)
{
  const char *function = "gpu_host_memory_new_registered";
  const GpuHostMemoryFlags known = GPU_HOST_MEMORY_FLAGS_PORTABLE | GPU_HOST_MEMORY_FLAGS_MAPPED
                                   | GPU_HOST_MEMORY_FLAGS_READ_ONLY;
  GpuMemoryFlags memory_flags = GPU_MEMORY_FLAGS_NONE;
  Allocation allocation = { &flags, NULL, NULL, 0 };
  const GpuBackend *backend;
  GpuHostMemory *memory;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);
  g_return_val_if_fail (bytes != NULL, NULL);

  allocation.data = (gpointer) g_bytes_get_data (bytes, &allocation.size);

  if (!check_context (context, function, error)
      || !check_flags (function, flags, known, "registered", error)
      || !check_size (function, allocation.size, error))
    return NULL;

  backend = _gpu_context_get_native (context)->backend;

  if (backend->buffer->register_host == NULL)
    {
      _gpu_backend_fail (backend, function, "registered host memory", error);
      return NULL;
    }

  if ((flags & GPU_HOST_MEMORY_FLAGS_READ_ONLY) != 0)
    memory_flags = GPU_MEMORY_FLAGS_READ_ONLY | GPU_MEMORY_FLAGS_HOST_READ_ONLY;

  memory = new_for_existing (context, function, &allocation, GPU_STORAGE_FOREIGN, memory_flags,
                             g_bytes_ref (bytes), (GDestroyNotify) g_bytes_unref, error);

  if (memory != NULL)
    GPU_MEMORY (memory)->host_bytes = g_bytes_ref (bytes);

  return memory;
}

/**
 * gpu_host_memory_get_data: (skip)
 * @memory: a #GpuHostMemory
 *
 * Gets the pointer through which the host accesses @memory in place. The pointer is valid until the
 * last reference to @memory is dropped or gpu_memory_release() is called. A #GBytes from
 * gpu_host_memory_get_bytes() keeps the pointer valid longer. Before the host accesses the memory,
 * the program must wait for the work that uses the memory, with gpu_host_memory_synchronize(). Does
 * not block.
 *
 * Returns: (nullable): the first byte, or %NULL after the memory was released
 *
 * Since: 0.1
 */
gpointer
gpu_host_memory_get_data (GpuHostMemory *memory)
{
  g_return_val_if_fail (GPU_IS_HOST_MEMORY (memory), NULL);

  return gpu_memory_is_released (GPU_MEMORY (memory)) ? NULL : memory->data;
}

/**
 * gpu_host_memory_get_address:
 * @memory: a #GpuHostMemory
 *
 * Gets the address of the memory on the host, as a number for languages without pointers. The
 * address for kernels is gpu_memory_get_device_address(). Does not block.
 *
 * Returns: the address, or 0 after the memory was released
 *
 * Since: 0.1
 */
guint64
gpu_host_memory_get_address (GpuHostMemory *memory)
{
  return (guint64) (guintptr) gpu_host_memory_get_data (memory);
}
