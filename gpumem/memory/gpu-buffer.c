/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/base/gpu-nick-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/memory/gpu-memory-private.h"

#define MAX_TEXEL_SIZE 16

/**
 * SECTION:gpu-buffer
 * @title: GpuBuffer
 * @short_description: linear memory of a device
 * @see_also: #GpuMemory, #GpuStream, #GpuMemoryPool
 */

/**
 * GpuBuffer:
 *
 * Linear memory of a device.
 *
 * |[<!-- language="C" -->
 * g_autoptr (GpuBuffer) buffer = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, size, &error);
 * g_autoptr (GBytes) result = NULL;
 *
 * if (buffer == NULL)
 *   g_error ("%s", error->message);
 *
 * gpu_buffer_write_bytes (buffer, stream, 0, bytes, NULL, &error);
 * result = gpu_buffer_read_bytes (buffer, stream, 0, size, NULL, &error);
 * ]|
 *
 * Methods that read, write, copy, fill or map a buffer block the calling thread. Most of these
 * methods have an asynchronous variant: a pair of functions whose names end in _async() and
 * _finish(). All these functions take a stream, or %NULL for the default stream of the context.
 * Operations that only submit work to a stream are methods of #GpuStream.
 *
 * All methods may be called from any thread.
 *
 * Since: 0.1
 */
struct _GpuBuffer
{
  GpuMemory  parent_instance;

  GpuMemory *parent;                /* (nullable): the linear memory that contains this slice */
  gsize      offset;                /* within parent */
  gsize      row_pitch;             /* bytes; 0 for a buffer without rows */
};

enum
{
  PROP_0,
  PROP_PARENT,
  PROP_MEMORY,
  PROP_OFFSET,
  PROP_ROW_PITCH,
  PROP_SPILLED,
  N_PROPS
};

static GParamSpec *props[N_PROPS];

static void initable_iface_init (GInitableIface *iface);

gpointer _gpu_buffer_class;

G_DEFINE_FINAL_TYPE_WITH_CODE (GpuBuffer, gpu_buffer, GPU_TYPE_MEMORY,
                               G_IMPLEMENT_INTERFACE (G_TYPE_INITABLE, initable_iface_init))

static void
gpu_buffer_get_property (GObject    *object,
                         guint       id,
                         GValue     *value,
                         GParamSpec *pspec)
{
  GpuBuffer *buffer = GPU_BUFFER (object);

  switch (id)
    {
    case PROP_PARENT:
      g_value_set_object (value, gpu_buffer_get_parent (buffer));
      break;
    case PROP_MEMORY:
      g_value_set_object (value, buffer->parent);
      break;
    case PROP_OFFSET:
      g_value_set_uint64 (value, buffer->offset);
      break;
    case PROP_ROW_PITCH:
      g_value_set_uint64 (value, buffer->row_pitch);
      break;
    case PROP_SPILLED:
      g_value_set_boolean (value, g_atomic_int_get (&GPU_MEMORY (buffer)->state)
                                  == GPU_MEMORY_STATE_SPILLED);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gpu_buffer_finalize (GObject *object)
{
  g_clear_object (&((GpuBuffer *) object)->parent);
  _gpu_live_add (GPU_LIVE_BUFFER, -1);

  G_OBJECT_CLASS (gpu_buffer_parent_class)->finalize (object);
}

static void
gpu_buffer_class_init (GpuBufferClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;

  _gpu_buffer_class = klass;
  object_class->get_property = gpu_buffer_get_property;
  object_class->finalize = gpu_buffer_finalize;

  /**
   * GpuBuffer:parent:
   *
   * The buffer that contains this slice, or %NULL if the buffer is not a slice of a buffer.
   *
   * Since: 0.1
   */
  props[PROP_PARENT] = g_param_spec_object ("parent", NULL, NULL, GPU_TYPE_BUFFER, flags);
  /**
   * GpuBuffer:memory:
   *
   * The memory, of any kind, that contains this buffer, or %NULL if the buffer is not a range of
   * other memory.
   *
   * Since: 0.1
   */
  props[PROP_MEMORY] = g_param_spec_object ("memory", NULL, NULL, GPU_TYPE_MEMORY, flags);
  /**
   * GpuBuffer:offset:
   *
   * The offset of a slice within #GpuBuffer:memory, in bytes.
   *
   * Since: 0.1
   */
  props[PROP_OFFSET] = g_param_spec_uint64 ("offset", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  /**
   * GpuBuffer:row-pitch:
   *
   * The distance between two rows in bytes, or 0 for a buffer without rows.
   *
   * Since: 0.1
   */
  props[PROP_ROW_PITCH] = g_param_spec_uint64 ("row-pitch", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  /**
   * GpuBuffer:spilled:
   *
   * Whether gpu_buffer_spill() has moved the contents to the host. #GObject::notify is emitted on
   * the thread that moves the contents.
   *
   * Since: 0.1
   */
  props[PROP_SPILLED] = g_param_spec_boolean ("spilled", NULL, NULL, FALSE, flags);

  g_object_class_install_properties (object_class, N_PROPS, props);
}

static void
gpu_buffer_init (GpuBuffer *buffer)
{
  _gpu_live_add (GPU_LIVE_BUFFER, 1);
}

static gboolean
excludes_others (GpuMemoryFlags flags,
                 GpuMemoryFlags group)
{
  flags &= group;

  return (flags & (flags - 1)) == 0;
}

gboolean
_gpu_buffer_check_flags (const char        *function,
                         GpuNativeContext  *context,
                         GpuMemoryFlags     flags,
                         GError           **error)
{
  const GpuMemoryFlags device = GPU_MEMORY_FLAGS_READ_ONLY | GPU_MEMORY_FLAGS_WRITE_ONLY;
  const GpuMemoryFlags host = GPU_MEMORY_FLAGS_HOST_READ_ONLY | GPU_MEMORY_FLAGS_HOST_WRITE_ONLY
                              | GPU_MEMORY_FLAGS_HOST_NO_ACCESS;
  const GpuMemoryFlags place = GPU_MEMORY_FLAGS_ALLOC_HOST | GPU_MEMORY_FLAGS_SHAREABLE;
  const GpuMemoryFlags known = device | host | place | GPU_MEMORY_FLAGS_UNTRACKED;
  const GpuNativeDevice *first = context->devices[0];
  g_autofree char *text = NULL;

  if ((flags & ~known) == 0 && excludes_others (flags, device) && excludes_others (flags, host)
      && excludes_others (flags, place))
    {
      if ((flags & GPU_MEMORY_FLAGS_SHAREABLE) == 0
          || (first->capabilities & GPU_CAPABILITIES_IPC_FDS) != 0)
        return TRUE;

      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "%s: %s cannot share memory as file descriptors", function, first->id);
      return FALSE;
    }

  if ((flags & ~known) != 0)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: unknown memory flags 0x%x", function, flags & ~known);
      return FALSE;
    }

  text = _gpu_flags_get_nicks (GPU_TYPE_MEMORY_FLAGS, flags);
  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: the memory flags %s cannot be combined", function, text);

  return FALSE;
}

gboolean
_gpu_buffer_check_size (const char        *function,
                        GpuNativeContext  *context,
                        gsize              size,
                        GError           **error)
{
  guint64 largest = context->devices[0]->max_allocation;
  guint64 held = (gsize) g_atomic_pointer_get (&context->allocated);
  guint64 total = context->devices[0]->memory_size;

  if (size == 0)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "%s: a buffer cannot have 0 bytes",
                   function);
      return FALSE;
    }

  if (size <= largest)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY,
               "%s: %" G_GSIZE_FORMAT " bytes were requested, but the largest allocation of %s is %"
               G_GUINT64_FORMAT " bytes; held %" G_GUINT64_FORMAT ", free %" G_GUINT64_FORMAT
               " of %" G_GUINT64_FORMAT " bytes", function, size, context->devices[0]->id, largest,
               held, total - MIN (held, total), total);

  return FALSE;
}

/* The parameters of an allocation. */
typedef struct
{
  const char     *function;
  GpuMemoryFlags  flags;
  gsize           size;
  gconstpointer   data;             /* (nullable): initial contents, copied */
  gpointer        host;             /* (nullable): host memory to use in place */
  gsize           row_size;         /* bytes; 0 for a buffer without rows */
  gsize           n_rows;
  gsize           element_size;
  gsize           row_pitch;        /* out */
} Allocation;

static GpuNativeMemory *
allocate (GpuNativeContext  *context,
          gpointer           data,
          GError           **error)
{
  const GpuBufferOps *ops = context->backend->buffer;
  Allocation *allocation = data;

  if (allocation->host != NULL)
    return ops->alloc_for_host (context, allocation->flags, allocation->host, allocation->size,
                                error);

  if (allocation->row_size != 0 && ops->alloc_pitched != NULL)
    return ops->alloc_pitched (context, allocation->flags, allocation->row_size,
                               allocation->n_rows, allocation->element_size,
                               &allocation->row_pitch, error);

  return ops->alloc (context, allocation->flags, allocation->size, allocation->data, error);
}

static gboolean
allocate_for (GpuBuffer   *buffer,
              Allocation  *allocation,
              GBytes      *host_bytes,
              GError     **error)
{
  GpuMemory *memory = GPU_MEMORY (buffer);
  GpuNativeBuffer *native;
  GpuStorage *storage;

  if (memory->context == NULL)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "%s: no context was given",
                   allocation->function);
      return FALSE;
    }

  if (!_gpu_context_check (memory->context, allocation->function, error)
      || !_gpu_buffer_check_flags (allocation->function, _gpu_context_get_native (memory->context),
                                   allocation->flags, error)
      || !_gpu_buffer_check_size (allocation->function, _gpu_context_get_native (memory->context),
                                  allocation->size, error))
    return FALSE;

  native = _gpu_memory_allocate (memory->context, allocation->function, allocation->size, allocate,
                                 allocation, error);

  if (native == NULL)
    return FALSE;

  if (host_bytes == NULL)
    {
      storage = _gpu_storage_new (_gpu_context_get_native (memory->context), native,
                                  allocation->flags, GPU_STORAGE_DEVICE, NULL, NULL);
    }
  else
    {
      storage = _gpu_storage_new (_gpu_context_get_native (memory->context), native,
                                  allocation->flags, GPU_STORAGE_FOREIGN,
                                  g_bytes_ref (host_bytes),
                                  (GDestroyNotify) g_bytes_unref);
      memory->host_bytes = g_bytes_ref (host_bytes);
    }

  _gpu_memory_set_storage (memory, storage);

  return TRUE;
}

static gboolean
gpu_buffer_initable_init (GInitable     *initable,
                          GCancellable  *cancellable,
                          GError       **error)
{
  GpuMemory *memory = GPU_MEMORY (initable);
  Allocation allocation = { .function = "gpu_buffer_new", .flags = memory->flags,
                            .size = memory->size };

  if (memory->storage != NULL)
    return TRUE;

  return allocate_for (GPU_BUFFER (initable), &allocation, NULL, error);
}

static void
initable_iface_init (GInitableIface *iface)
{
  iface->init = gpu_buffer_initable_init;
}

static GpuBuffer *
buffer_new (GpuContext  *context,
            Allocation  *allocation,
            GBytes      *host_bytes,
            GError     **error)
{
  g_autoptr (GpuBuffer) buffer = g_object_new (GPU_TYPE_BUFFER, "context", context, NULL);

  if (!allocate_for (buffer, allocation, host_bytes, error))
    return NULL;

  buffer->row_pitch = allocation->row_pitch;

  return g_steal_pointer (&buffer);
}

GpuBuffer *
_gpu_buffer_new (GpuContext      *context,
                 const char      *function,
                 GpuMemoryFlags   flags,
                 gsize            size,
                 GError         **error)
{
  Allocation allocation = { .function = function, .flags = flags, .size = size };

  return buffer_new (context, &allocation, NULL, error);
}

/**
 * gpu_buffer_new:
 * @context: a #GpuContext
 * @flags: the intended use of the buffer
 * @size: size in bytes, not 0
 * @error: return location for an error
 *
 * Allocates device memory (OpenCL: clCreateBuffer; CUDA: cuMemAlloc, cuMemHostAlloc or
 * cuMemHostRegister with %GPU_MEMORY_FLAGS_ALLOC_HOST, cuMemCreate and cuMemMap with
 * %GPU_MEMORY_FLAGS_SHAREABLE). The contents are undefined. A driver may defer the allocation until
 * the first use of the buffer; gpu_stream_migrate() forces the allocation. If the driver is out of
 * memory, #GpuContext::memory-pressure is emitted. Only blocks with %GPU_MEMORY_FLAGS_ALLOC_HOST,
 * while the pages are provided and locked.
 *
 * Returns: (transfer full): the buffer, or %NULL with %GPU_ERROR_OUT_OF_DEVICE_MEMORY if the driver
 *   is out of memory or @size exceeds gpu_device_get_max_allocation(); %GPU_ERROR_INVALID_ARGUMENT
 *   if @size is 0 or the flags cannot be combined; %GPU_ERROR_OUT_OF_HOST_MEMORY with
 *   %GPU_MEMORY_FLAGS_ALLOC_HOST if the host is out of memory; %GPU_ERROR_DEVICE_LOST; or the
 *   driver's error
 *
 * Since: 0.1
 */
GpuBuffer *
gpu_buffer_new (GpuContext      *context,
                GpuMemoryFlags   flags,
                gsize            size,
                GError         **error)
{
  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);

  return _gpu_buffer_new (context, "gpu_buffer_new", flags, size, error);
}

/**
 * gpu_buffer_new_from_bytes:
 * @context: a #GpuContext
 * @flags: the intended use of the buffer
 * @bytes: the initial contents, not empty
 * @error: return location for an error
 *
 * Allocates device memory and copies @bytes to it (OpenCL: clCreateBuffer with
 * CL_MEM_COPY_HOST_PTR; CUDA: cuMemAlloc, cuMemcpyHtoDAsync). Blocks until the copy has completed.
 *
 * Returns: (transfer full): the buffer, or %NULL with the errors of gpu_buffer_new()
 *
 * Since: 0.1
 */
GpuBuffer *
gpu_buffer_new_from_bytes (GpuContext      *context,
                           GpuMemoryFlags   flags,
                           GBytes          *bytes,
                           GError         **error)
{
  Allocation allocation = { .function = "gpu_buffer_new_from_bytes", .flags = flags };

  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);
  g_return_val_if_fail (bytes != NULL, NULL);

  allocation.data = g_bytes_get_data (bytes, &allocation.size);

  return buffer_new (context, &allocation, NULL, error);
}

/**
 * gpu_buffer_new_for_host_bytes:
 * @context: a #GpuContext
 * @flags: the intended use of the buffer, without %GPU_MEMORY_FLAGS_ALLOC_HOST and
 *   %GPU_MEMORY_FLAGS_SHAREABLE
 * @bytes: host memory, not empty
 * @error: return location for an error
 *
 * Creates a buffer that uses host memory in place and keeps a reference to @bytes (OpenCL:
 * clCreateBuffer with CL_MEM_USE_HOST_PTR; CUDA: cuMemHostRegister, cuMemHostGetDevicePointer).
 * Work that writes the buffer changes the contents of @bytes, so @bytes must be writable, unless
 * @flags contains both %GPU_MEMORY_FLAGS_READ_ONLY and %GPU_MEMORY_FLAGS_HOST_READ_ONLY: all work
 * that writes the buffer then fails. Map the buffer to access the contents from the host: a device
 * with memory of its own may work on a copy until then. The memory does not count towards
 * gpu_context_get_allocated_size(). Does not block.
 *
 * Returns: (transfer full): the buffer, or %NULL with %GPU_ERROR_NOT_SUPPORTED if the driver cannot
 *   use host memory in place, %GPU_ERROR_BUSY on CUDA if @bytes overlaps the bytes of another
 *   buffer but is not contained in them, or the errors of gpu_buffer_new()
 *
 * Since: 0.1
 */
GpuBuffer *
gpu_buffer_new_for_host_bytes (GpuContext      *context,
                               GpuMemoryFlags   flags,
                               GBytes          *bytes,
                               GError         **error)
{
  const GpuMemoryFlags constant = GPU_MEMORY_FLAGS_READ_ONLY | GPU_MEMORY_FLAGS_HOST_READ_ONLY;
  Allocation allocation = { .function = "gpu_buffer_new_for_host_bytes", .flags = flags };
  GpuNativeContext *native;
  GpuBuffer *buffer;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);
  g_return_val_if_fail (bytes != NULL, NULL);

  if (!_gpu_context_check (context, allocation.function, error))
    return NULL;

  native = _gpu_context_get_native (context);

  if (native->backend->buffer->alloc_for_host == NULL)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "%s: the back end %s cannot use host memory in place",
                   allocation.function, native->backend->name);
      return NULL;
    }

  if ((flags & (GPU_MEMORY_FLAGS_ALLOC_HOST | GPU_MEMORY_FLAGS_SHAREABLE)) != 0)
    {
      g_autofree char *text = _gpu_flags_get_nicks (GPU_TYPE_MEMORY_FLAGS, flags);

      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: the memory flags %s are not supported for existing host memory",
                   allocation.function, text);
      return NULL;
    }

  allocation.host = (gpointer) g_bytes_get_data (bytes, &allocation.size);
  buffer = buffer_new (context, &allocation, bytes, error);

  if (buffer != NULL && (flags & constant) == constant)
    _gpu_memory_set_constant (GPU_MEMORY (buffer));

  return buffer;
}

/* Returns the alignment of rows: the smallest multiple of the device's base alignment that is also
 * a valid row pitch of images with texels of @element_size bytes. */
static gsize
get_row_alignment (const GpuNativeDevice *device,
                   gsize                  element_size)
{
  const gsize base = MAX (device->base_alignment, 1);
  const gsize rows = element_size <= MAX_TEXEL_SIZE ? device->row_alignment * element_size : 0;
  gsize alignment = base;

  while (rows != 0 && alignment % rows != 0)
    alignment += base;

  return alignment;
}

/**
 * gpu_buffer_new_pitched:
 * @context: a #GpuContext
 * @flags: the intended use of the buffer
 * @row_size: size of a row in bytes, not 0
 * @n_rows: number of rows, not 0
 * @element_size: number of bytes that a kernel reads or writes at a time: 4, 8 or 16; 0 if unknown
 * @error: return location for an error
 *
 * Allocates a buffer whose rows are aligned for fast access by the device.
 * gpu_buffer_get_row_pitch() gets the distance between two rows.
 *
 * On CUDA, the driver chooses the alignment of the rows (cuMemAllocPitch). OpenCL and the host back
 * end have no such call: rows begin at multiples of gpu_device_get_base_alignment()
 * (CL_DEVICE_MEM_BASE_ADDR_ALIGN). On devices with %GPU_CAPABILITIES_IMAGE_FROM_BUFFER whose driver
 * reports CL_DEVICE_IMAGE_PITCH_ALIGNMENT, the row pitch is also valid for images whose texels have
 * @element_size bytes.
 *
 * Returns: (transfer full): the buffer, or %NULL with the errors of gpu_buffer_new()
 *
 * Since: 0.1
 */
GpuBuffer *
gpu_buffer_new_pitched (GpuContext      *context,
                        GpuMemoryFlags   flags,
                        gsize            row_size,
                        gsize            n_rows,
                        gsize            element_size,
                        GError         **error)
{
  Allocation allocation = { .function = "gpu_buffer_new_pitched", .flags = flags,
                            .row_size = row_size, .n_rows = n_rows,
                            .element_size = element_size };
  gsize alignment;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);

  if (!_gpu_context_check (context, allocation.function, error))
    return NULL;

  alignment = get_row_alignment (_gpu_context_get_native (context)->devices[0], element_size);

  if (row_size == 0 || n_rows == 0 || row_size > G_MAXSIZE - alignment
      || !g_size_checked_mul (&allocation.size,
                              (row_size + alignment - 1) / alignment * alignment, n_rows))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: a buffer cannot have %" G_GSIZE_FORMAT " rows of %" G_GSIZE_FORMAT
                   " bytes", allocation.function, n_rows, row_size);
      return NULL;
    }

  allocation.row_pitch = allocation.size / n_rows;

  return buffer_new (context, &allocation, NULL, error);
}

static GpuNativeBuffer *
wrap (GpuContext   *context,
      guint64       handle,
      gsize         size,
      GpuWrapMode   mode,
      GError      **error)
{
  const char *function = "gpu_buffer_new_wrapped";
  GpuNativeContext *native;
  GpuNativeBuffer *wrapped = NULL;

  if (!_gpu_context_check (context, function, error))
    return NULL;

  native = _gpu_context_get_native (context);

  if (handle == 0)
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "%s: the handle is 0", function);
  else if (native->backend->buffer->wrap == NULL)
    g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                 "%s: the back end %s cannot wrap memory", function, native->backend->name);
  else if ((wrapped = native->backend->buffer->wrap (native, handle, size, mode, error)) == NULL)
    g_prefix_error (error, "%s: ", function);

  return wrapped;
}

static GpuBuffer *
new_for_storage (GpuContext *context,
                 GpuStorage *storage)
{
  GpuBuffer *buffer = g_object_new (GPU_TYPE_BUFFER, "context", context, NULL);

  _gpu_memory_set_storage (GPU_MEMORY (buffer), storage);

  return buffer;
}

GpuBuffer *
_gpu_buffer_new_wrapped (GpuContext      *context,
                         guint64          handle,
                         gsize            size,
                         GpuWrapMode      mode,
                         gpointer         user_data,
                         GDestroyNotify   notify,
                         GError         **error)
{
  GpuNativeBuffer *wrapped;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);

  wrapped = wrap (context, handle, size, mode, error);

  if (wrapped == NULL)
    return NULL;

  return new_for_storage (context, _gpu_storage_new (_gpu_context_get_native (context), wrapped,
                                                     GPU_MEMORY_FLAGS_NONE, GPU_STORAGE_FOREIGN,
                                                     user_data, notify));
}

GpuBuffer *
_gpu_buffer_new_view (GpuContext      *context,
                      GpuStorage      *storage,
                      gsize            offset,
                      guint64          handle,
                      gsize            size,
                      gpointer         user_data,
                      GDestroyNotify   notify,
                      GError         **error)
{
  GpuNativeBuffer *wrapped = wrap (context, handle, size, GPU_WRAP_MODE_BORROW, error);

  if (wrapped == NULL)
    return NULL;

  return new_for_storage (context, _gpu_storage_new_view (storage, wrapped, offset, user_data,
                                                          notify));
}

/**
 * gpu_buffer_new_wrapped:
 * @context: a #GpuContext
 * @handle: the driver's handle: a cl_mem on OpenCL, a CUdeviceptr on CUDA, an address on the host
 *   back end
 * @size: size in bytes, or 0 to use the size that the driver reports, if it reports one
 * @mode: whether the caller keeps the ownership of @handle, or the buffer takes it
 * @owner: (nullable): a #GBytes, or %NULL. The library keeps a reference to it until no object
 *   refers to the memory, and all work that uses the memory has completed
 * @error: return location for an error
 *
 * Creates a buffer for memory that was allocated outside this library and that other code may
 * continue to use (OpenCL: clGetMemObjectInfo, clRetainMemObject if @mode is %GPU_WRAP_MODE_BORROW;
 * CUDA: cuPointerGetAttribute, cuMemGetAddressRange). On CUDA and on the host back end, @handle is
 * an address, which has no reference count: borrowed memory must stay valid as long as an object or
 * submitted work uses it. On the host back end, adopted memory is freed with free(), and @size must
 * not be 0. If the call fails, the caller keeps ownership of @handle, even if @mode is
 * %GPU_WRAP_MODE_ADOPT.
 *
 * Uses of the memory outside this library are not tracked.
 *
 * If another object of @context already uses the memory of @handle, the library orders uses of both
 * objects, and frees the memory only when neither object uses it any more. The library recognizes
 * that two objects use the same memory if their handles are equal, on OpenCL also if @handle is a
 * sub-buffer of the memory, and on CUDA also if @handle is an address within an allocation of the
 * library. The library does not recognize other ranges that overlap, or memory of a #GpuMemoryPool:
 * the program must order uses of these ranges, and uses outside the library, with
 * gpu_stream_wait_event().
 *
 * To be notified when borrowed memory may be freed, pass an @owner with a free function (see
 * g_bytes_new_with_free_func(), or gpu_bytes_new_for_address() in other languages). The library may
 * call the free function on any thread. If the call fails, the library does not keep a reference to
 * @owner.
 *
 * Returns: (transfer full): the buffer, or %NULL with %GPU_ERROR_INVALID_ARGUMENT if @handle is 0,
 *   belongs to another context or is not a buffer, or if its memory is smaller than @size,
 *   %GPU_ERROR_NOT_SUPPORTED if the back end cannot wrap memory, or the driver's error
 *
 * Since: 0.1
 */
GpuBuffer *
gpu_buffer_new_wrapped (GpuContext   *context,
                        guint64       handle,
                        gsize         size,
                        GpuWrapMode   mode,
                        GBytes       *owner,
                        GError      **error)
{
  GDestroyNotify notify = owner != NULL ? (GDestroyNotify) g_bytes_unref : NULL;
  GpuBuffer *buffer = _gpu_buffer_new_wrapped (context, handle, size, mode, owner, notify, error);

  if (buffer != NULL && owner != NULL)
    g_bytes_ref (owner);

  return buffer;
}

static gboolean
check_origin (const char        *function,
              GpuNativeContext  *context,
              gsize              offset,
              GError           **error)
{
  GpuNativeDevice *device = context->devices[0];

  if ((device->capabilities & GPU_CAPABILITIES_SUB_BUFFERS) == 0
      || offset % MAX (device->base_alignment, 1) == 0)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: offset %" G_GSIZE_FORMAT " is not a multiple of %" G_GSIZE_FORMAT
               " bytes, to which slices on %s are aligned", function, offset,
               device->base_alignment, device->id);

  return FALSE;
}

GpuNativeBuffer *
_gpu_buffer_cut (GpuNativeContext  *context,
                 GpuNativeBuffer   *whole,
                 GpuMemoryFlags     flags,
                 gsize              offset,
                 gsize              size,
                 GError           **error)
{
  GpuNativeBuffer *part = context->backend->buffer->slice (context, whole, flags, offset, size,
                                                           error);

  if (part != NULL)
    {
      part->is_host_only = whole->is_host_only;
      part->is_locked = whole->is_locked;
    }

  return part;
}

static GpuStorage *
slice_storage (GpuMemory       *memory,
               const char      *function,
               GpuMemoryFlags   flags,
               gsize            offset,
               gsize            size,
               GError         **error)
{
  GpuStorage *whole = memory->storage->whole;
  GpuNativeContext *context = whole->context;
  GpuNativeBuffer *from = whole->suballocation != NULL ? whole->suballocation->whole
                          : whole->buffer;
  GpuNativeBuffer *native;
  gsize begin = memory->storage->offset + offset - whole->offset
                + (whole->suballocation != NULL ? whole->suballocation->offset : 0);

  if (!_gpu_buffer_check_flags (function, context, flags, error)
      || !_gpu_memory_inherit_flags (memory, function, &flags, error)
      || (!from->is_host_only && !check_origin (function, context, begin, error)))
    return NULL;

  native = _gpu_buffer_cut (context, from, flags, begin, size, error);

  if (native == NULL)
    {
      g_prefix_error (error, "%s: ", function);
      return NULL;
    }

  return _gpu_storage_new_slice (memory->storage, native, flags, offset);
}

static GpuBuffer *
new_slice (GpuMemory  *memory,
           GpuStorage *storage,
           gsize       offset,
           gsize       size)
{
  GpuBuffer *slice = g_object_new (GPU_TYPE_BUFFER, "context", memory->context, NULL);
  g_autoptr (GBytes) host_bytes = gpu_memory_get_host_bytes (memory);

  slice->parent = g_object_ref (memory);
  slice->offset = offset;
  if (host_bytes != NULL)
    GPU_MEMORY (slice)->host_bytes = g_bytes_new_from_bytes (host_bytes, offset, size);

  _gpu_memory_set_storage (GPU_MEMORY (slice), storage);

  return slice;
}

GpuBuffer *
_gpu_memory_slice (GpuMemory       *memory,
                   const char      *function,
                   const char      *what,
                   GpuMemoryFlags   flags,
                   gsize            offset,
                   gsize            size,
                   GError         **error)
{
  GpuStorage *acquired;
  GpuStorage *storage = NULL;

  if (!_gpu_memory_check_range (memory, function, what, offset, size, error))
    return NULL;

  acquired = _gpu_memory_acquire (memory, function, error);

  if (acquired == NULL)
    return NULL;

  if (size != 0)
    storage = slice_storage (memory, function, flags, offset, size, error);
  else
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                 "%s: a slice cannot have 0 bytes (at offset %" G_GSIZE_FORMAT ")", function,
                 offset);

  _gpu_storage_unuse (acquired);

  return storage != NULL ? new_slice (memory, storage, offset, size) : NULL;
}

/**
 * gpu_buffer_slice:
 * @buffer: a #GpuBuffer, which may be a slice itself
 * @offset: start of the slice, in bytes
 * @size: size of the slice in bytes, not 0
 * @error: return location for an error
 *
 * Creates a buffer for a range of @buffer, with the same flags (OpenCL: clCreateSubBuffer; on CUDA
 * the slice is an address, without a call). The slice keeps a reference to @buffer, and the library
 * orders uses of the slice and of @buffer. On devices with %GPU_CAPABILITIES_SUB_BUFFERS, the
 * offset of the slice must be a multiple of gpu_device_get_base_alignment(). If @buffer is a slice
 * itself, this rule applies to the offset from the start of the outermost buffer. Does not block.
 *
 * Returns: (transfer full): the slice, or %NULL with %GPU_ERROR_INVALID_ARGUMENT if it exceeds
 *   @buffer, is empty or is not aligned, %GPU_ERROR_RELEASED, or the driver's error
 *
 * Since: 0.1
 */
GpuBuffer *
gpu_buffer_slice (GpuBuffer  *buffer,
                  gsize       offset,
                  gsize       size,
                  GError    **error)
{
  g_return_val_if_fail (GPU_IS_BUFFER (buffer), NULL);

  return _gpu_memory_slice (GPU_MEMORY (buffer), "gpu_buffer_slice", "buffer",
                            GPU_MEMORY_FLAGS_NONE, offset, size, error);
}

/**
 * gpu_buffer_slice_full:
 * @buffer: a #GpuBuffer, which may be a slice itself
 * @flags: the intended use of the slice. Without a flag for access by kernels, the slice inherits
 *   this access from @buffer; without a flag for access by the host, it inherits that access
 * @offset: start of the slice, in bytes
 * @size: size of the slice in bytes, not 0
 * @error: return location for an error
 *
 * Creates a slice like gpu_buffer_slice(), with access that may be narrower than that of @buffer.
 * The slice inherits %GPU_MEMORY_FLAGS_ALLOC_HOST, %GPU_MEMORY_FLAGS_SHAREABLE and
 * %GPU_MEMORY_FLAGS_UNTRACKED from @buffer; @flags must not contain them.
 *
 * Returns: (transfer full): the slice, or %NULL with the errors of gpu_buffer_slice(), or with
 *   %GPU_ERROR_INVALID_ARGUMENT if @flags cannot be combined or permit more access than the flags
 *   of @buffer
 *
 * Since: 0.1
 */
GpuBuffer *
gpu_buffer_slice_full (GpuBuffer       *buffer,
                       GpuMemoryFlags   flags,
                       gsize            offset,
                       gsize            size,
                       GError         **error)
{
  g_return_val_if_fail (GPU_IS_BUFFER (buffer), NULL);

  return _gpu_memory_slice (GPU_MEMORY (buffer), "gpu_buffer_slice_full", "buffer", flags, offset,
                            size, error);
}

/**
 * gpu_buffer_new_for_memory:
 * @memory: linear memory: any memory except an image
 * @offset: start of the buffer, in bytes
 * @size: size of the buffer in bytes, not 0
 * @error: return location for an error
 *
 * Creates a buffer for a range of @memory, for functions that require a buffer (OpenCL:
 * clCreateSubBuffer if the memory is a cl_mem). The buffer is a slice of @memory: it has the same
 * flags and keeps a reference to @memory, and the library orders uses of the slice and of @memory.
 * The rules for @offset are those of gpu_buffer_slice(). If @memory is a #GpuBuffer, this function
 * does the same as gpu_buffer_slice(). Does not block.
 *
 * Returns: (transfer full): the buffer, or %NULL with %GPU_ERROR_INVALID_ARGUMENT if it exceeds
 *   @memory, is empty or is not aligned, or if @memory is an image, %GPU_ERROR_RELEASED, or the
 *   driver's error
 *
 * Since: 0.1
 */
GpuBuffer *
gpu_buffer_new_for_memory (GpuMemory  *memory,
                           gsize       offset,
                           gsize       size,
                           GError    **error)
{
  g_return_val_if_fail (GPU_IS_MEMORY (memory), NULL);

  return _gpu_memory_slice (memory, "gpu_buffer_new_for_memory", "memory", GPU_MEMORY_FLAGS_NONE,
                            offset,
                            size, error);
}

/**
 * gpu_buffer_get_parent:
 * @buffer: a #GpuBuffer
 *
 * Gets the buffer that contains the slice @buffer.
 *
 * Returns: (transfer none) (nullable): the buffer, or %NULL if @buffer is not a slice of a buffer
 *
 * Since: 0.1
 */
GpuBuffer *
gpu_buffer_get_parent (GpuBuffer *buffer)
{
  g_return_val_if_fail (GPU_IS_BUFFER (buffer), NULL);

  return GPU_IS_BUFFER (buffer->parent) ? GPU_BUFFER (buffer->parent) : NULL;
}

/**
 * gpu_buffer_get_memory:
 * @buffer: a #GpuBuffer
 *
 * Gets the memory that contains @buffer. For a slice of a buffer, this is the result of
 * gpu_buffer_get_parent(). For a buffer of gpu_buffer_new_for_memory(), this is the memory that was
 * passed to that function.
 *
 * Returns: (transfer none) (nullable): the memory, or %NULL if @buffer is not a range of other
 *   memory
 *
 * Since: 0.1
 */
GpuMemory *
gpu_buffer_get_memory (GpuBuffer *buffer)
{
  g_return_val_if_fail (GPU_IS_BUFFER (buffer), NULL);

  return buffer->parent;
}

/**
 * gpu_buffer_get_offset:
 * @buffer: a #GpuBuffer
 *
 * Gets the offset of @buffer within the memory that it is a slice of, see gpu_buffer_get_memory().
 *
 * Returns: the offset in bytes, 0 if @buffer is not a slice
 *
 * Since: 0.1
 */
gsize
gpu_buffer_get_offset (GpuBuffer *buffer)
{
  g_return_val_if_fail (GPU_IS_BUFFER (buffer), 0);

  return buffer->offset;
}

/**
 * gpu_buffer_get_row_pitch:
 * @buffer: a #GpuBuffer
 *
 * Gets the distance between two rows of a buffer of gpu_buffer_new_pitched().
 *
 * Returns: the distance in bytes, 0 if @buffer has no rows
 *
 * Since: 0.1
 */
gsize
gpu_buffer_get_row_pitch (GpuBuffer *buffer)
{
  g_return_val_if_fail (GPU_IS_BUFFER (buffer), 0);

  return buffer->row_pitch;
}
