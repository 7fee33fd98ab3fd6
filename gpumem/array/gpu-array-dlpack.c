/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Exports arrays as tensors of DLPack, and imports tensors as arrays. */
#include "config.h"

#include <string.h>

#include "gpumem/array/gpu-array-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/format/gpu-dlpack-private.h"
#include "gpumem/format/gpu-dtype-private.h"
#include "gpumem/memory/gpu-memory-private.h"

/* The type codes of DLPack, indexed by GpuDTypeKind; -1 for kinds that DLPack does not have. */
static const int type_codes[] =
{
  [GPU_DTYPE_KIND_BOOL]    = GPU_DL_BOOL,
  [GPU_DTYPE_KIND_INT]     = GPU_DL_INT,
  [GPU_DTYPE_KIND_UINT]    = GPU_DL_UINT,
  [GPU_DTYPE_KIND_FLOAT]   = GPU_DL_FLOAT,
  [GPU_DTYPE_KIND_BFLOAT]  = GPU_DL_BFLOAT,
  [GPU_DTYPE_KIND_COMPLEX] = GPU_DL_COMPLEX,
  [GPU_DTYPE_KIND_OPAQUE]  = -1,
  [GPU_DTYPE_KIND_RECORD]  = -1
};

/* An exported tensor holds a reference to the storage, but to no GObject: its deleter may run on a
 * thread that must not touch objects of a language binding. */
typedef struct
{
  GpuDLManaged    managed;
  GpuDLVersioned  versioned;
  gint64          shape[GPU_ARRAY_MAX_DIMS];
  gint64          strides[GPU_ARRAY_MAX_DIMS];
  GpuStorage     *storage;          /* NULL if the array has no elements */
  guint64         origin;           /* the address or handle of the first byte of `storage` */
} Export;

static void
export_free (Export *self)
{
  if (self->storage != NULL)
    {
      _gpu_storage_unuse (self->storage);
      _gpu_storage_unref (self->storage);
    }

  g_free (self);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Export, export_free)

static void
delete_managed (GpuDLManaged *managed)
{
  export_free (managed->manager);
}

static void
delete_versioned (GpuDLVersioned *versioned)
{
  export_free (versioned->manager);
}

static gboolean
is_backend (GpuContext *context,
            const char *name)
{
  return g_str_equal (_gpu_context_get_native (context)->backend->name, name);
}

/* On CUDA, returns the ordinal of the device: 1 for "cuda:1". On OpenCL, returns the index of the
 * device among the devices of all platforms, because OpenCL numbers the devices of each platform
 * separately. */
static int
get_device_id (GpuContext *context)
{
  const GpuNativeContext *native = _gpu_context_get_native (context);
  GPtrArray *devices;
  guint index = 0;

  if (is_backend (context, "cuda"))
    return (int) g_ascii_strtoll (strrchr (native->devices[0]->id, ':') + 1, NULL, 10);

  devices = _gpu_backend_list_devices (native->backend, NULL);

  return devices != NULL && g_ptr_array_find (devices, native->devices[0], &index) ? (int) index
                                                                                   : 0;
}

static gboolean
is_read_by_host (GpuMemory *memory)
{
  const GpuMemoryFlags barred = GPU_MEMORY_FLAGS_HOST_NO_ACCESS | GPU_MEMORY_FLAGS_HOST_WRITE_ONLY;

  return memory != NULL && memory->has_host_data && (memory->flags & barred) == 0;
}

static void
set_device (GpuDLTensor *tensor,
            GpuArray    *array)
{
  GpuDLDeviceType type = GPU_DL_CPU;

  if (is_backend (array->context, "cuda"))
    type = GPU_IS_HOST_MEMORY (array->memory) ? GPU_DL_CUDA_HOST
           : GPU_IS_SVM (array->memory) ? GPU_DL_CUDA_MANAGED : GPU_DL_CUDA;
  else if (is_backend (array->context, "opencl") && !is_read_by_host (array->memory))
    type = GPU_DL_OPENCL;

  tensor->device_type = (gint32) type;
  tensor->device_id = type == GPU_DL_CPU ? 0 : get_device_id (array->context);
}

static gboolean
fail_stride (const GpuArrayLayout  *layout,
             guint                  axis,
             const char            *function,
             GError               **error)
{
  g_autofree char *shape = _gpu_array_numbers_to_string (layout->shape, layout->n_dims);
  g_autofree char *strides = _gpu_array_numbers_to_string (layout->strides, layout->n_dims);

  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
               "%s: an array of shape %s and strides %s cannot be exported: the stride of %"
               G_GSSIZE_FORMAT " bytes along axis %u is not a multiple of the %" G_GSIZE_FORMAT
               " bytes of an element, as DLPack requires; export the result of gpu_array_copy()",
               function, shape, strides, layout->strides[axis], axis, layout->item_size);

  return FALSE;
}

static gboolean
set_type (Export       *export,
          GpuDLTensor  *tensor,
          GpuArray     *array,
          const char   *function,
          GError      **error)
{
  const GpuArrayLayout *layout = &array->layout;
  g_autofree char *name = NULL;

  tensor->n_dims = (gint32) layout->n_dims;
  tensor->shape = export->shape;
  tensor->strides = export->strides;
  tensor->type_lanes = 1;

  for (guint i = 0; i < layout->n_dims; i++)
    {
      gssize item = (gssize) layout->item_size;

      if (layout->strides[i] % item != 0 && layout->shape[i] > 1)
        return fail_stride (layout, i, function, error);

      export->shape[i] = layout->shape[i];
      export->strides[i] = layout->strides[i] / item;
    }

  if (type_codes[array->dtype->kind] >= 0)
    {
      tensor->type_code = (guint8) type_codes[array->dtype->kind];
      tensor->type_bits = (guint8) MIN (layout->item_size * 8, G_MAXUINT8);

      if (tensor->type_bits == layout->item_size * 8)
        return TRUE;
    }

  name = gpu_dtype_get_name (array->dtype);
  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED, "%s: DLPack has no type like %s",
               function, name);

  return FALSE;
}

static gboolean
set_data (Export       *export,
          GpuDLTensor  *tensor,
          GpuArray     *array,
          const char   *function,
          GError      **error)
{
  GpuStorage *storage = export->storage;
  const GpuMemoryOps *ops = storage->context->backend->memory;
  gsize offset = array->layout.offset;
  gboolean for_host = tensor->device_type == GPU_DL_CPU
                      || tensor->device_type == GPU_DL_CUDA_HOST;
  guint64 address = 0;

  if (tensor->device_type == GPU_DL_OPENCL)
    {
      address = ops->get_handle (storage->buffer);
      tensor->byte_offset = offset;
      offset = 0;
    }
  else if (for_host && is_read_by_host (array->memory))
    address = (guint64) (guintptr) storage->buffer->host;
  else if (tensor->device_type != GPU_DL_CPU)
    address = ops->get_address (storage->buffer);

  if (gpu_array_get_n_elements (array) == 0)
    return TRUE;

  if (address == 0)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "%s: the memory of %" G_GSIZE_FORMAT " bytes, with the flags 0x%x, has no "
                   "address that may be used on the device (%d, %d) of DLPack", function,
                   array->memory->size, array->memory->flags, tensor->device_type,
                   tensor->device_id);
      return FALSE;
    }

  export->origin = address;
  tensor->data = (gpointer) (guintptr) (address + offset);

  return TRUE;
}

/**
 * gpu_array_get_dlpack_device:
 * @array: a #GpuArray
 * @device_type: (out): the type of the device, a DLDeviceType
 * @device_id: (out): the number of the device: on CUDA its ordinal, on OpenCL its position among
 *   the devices of all platforms, 0 for kDLCPU
 *
 * Gets the DLPack device of the memory: kDLCPU for memory that the host may access at any time,
 * kDLCUDA, kDLCUDAHost for page-locked host memory, kDLCUDAManaged for #GpuSvm, or kDLOpenCL. May
 * be called from any thread.
 *
 * Returns: %TRUE, or %FALSE if @array was never initialised
 *
 * Since: 0.1
 */
gboolean
gpu_array_get_dlpack_device (GpuArray *array,
                             int      *device_type,
                             int      *device_id)
{
  GpuDLTensor tensor = { NULL };

  g_return_val_if_fail (GPU_IS_ARRAY (array), FALSE);
  g_return_val_if_fail (device_type != NULL && device_id != NULL, FALSE);

  if (array->context != NULL)
    set_device (&tensor, array);

  *device_type = tensor.device_type;
  *device_id = tensor.device_id;

  return array->context != NULL;
}

/**
 * gpu_array_to_dlpack:
 * @array: a #GpuArray
 * @versioned: %TRUE for a DLManagedTensorVersioned of DLPack 1.0, %FALSE for a DLManagedTensor
 * @copied: whether @array is a copy that only the consumer uses
 * @error: return location for an error
 *
 * Exports the array as a tensor of DLPack. The tensor is not a copy. It keeps the memory allocated
 * until a thread calls its deleter. The function does not wait for submitted work: the consumer
 * must order its use of the memory after that work, see gpu_stream_wait_array(). On OpenCL the data
 * pointer is a cl_mem, unless the host may access the memory at any time.
 *
 * A DLManagedTensorVersioned has the flag for read-only memory if gpu_array_is_writable() returns
 * %FALSE, and the flag for copies if @copied is %TRUE. A DLManagedTensor has no flags.
 *
 * Returns: (transfer full): the tensor, or %NULL with %GPU_ERROR_NOT_SUPPORTED for types and
 *   strides that DLPack lacks, for memory that has no address because of its flags or its driver,
 *   or for a read-only array if @versioned is %FALSE; or with %GPU_ERROR_RELEASED
 *
 * Since: 0.1
 */
gpointer
gpu_array_to_dlpack (GpuArray  *array,
                     gboolean   versioned,
                     gboolean   copied,
                     GError   **error)
{
  const char *function = "gpu_array_to_dlpack";
  g_autoptr (Export) export = g_new0 (Export, 1);
  GpuDLTensor tensor = { NULL };
  gboolean read_only;

  g_return_val_if_fail (GPU_IS_ARRAY (array), NULL);

  if (!_gpu_array_check (array, function, error)
      || !set_type (export, &tensor, array, function, error))
    return NULL;

  read_only = !gpu_array_is_writable (array);
  set_device (&tensor, array);

  if (read_only && !versioned)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "%s: the array is read-only, which a DLManagedTensor cannot express; export a "
                   "DLManagedTensorVersioned", function);
      return NULL;
    }

  if (array->memory != NULL)
    {
      GpuStorage *storage = _gpu_memory_acquire (array->memory, function, error);

      if (storage == NULL)
        return NULL;

      export->storage = _gpu_storage_ref (storage);

      if (!set_data (export, &tensor, array, function, error))
        return NULL;
    }

  export->managed = (GpuDLManaged) { tensor, export, delete_managed };
  export->versioned = (GpuDLVersioned) { GPU_DLPACK_MAJOR, GPU_DLPACK_MINOR, export,
                                         delete_versioned, 0, tensor };
  export->versioned.flags = (read_only ? GPU_DLPACK_READ_ONLY : 0)
                            | (copied ? GPU_DLPACK_IS_COPIED : 0);

  return versioned ? (gpointer) &g_steal_pointer (&export)->versioned
                   : (gpointer) &g_steal_pointer (&export)->managed;
}

/**
 * gpu_dlpack_free:
 * @tensor: (nullable): a DLManagedTensorVersioned or a DLManagedTensor
 * @versioned: %TRUE for a DLManagedTensorVersioned
 *
 * Calls the deleter of a tensor, which any library may have created. May be called from any thread.
 *
 * Since: 0.1
 */
void
gpu_dlpack_free (gpointer tensor,
                 gboolean versioned)
{
  GpuDLManaged *old = tensor;
  GpuDLVersioned *new = tensor;

  if (tensor != NULL && versioned && new->deleter != NULL)
    new->deleter (new);
  else if (tensor != NULL && !versioned && old->deleter != NULL)
    old->deleter (old);
}

static void
free_versioned (gpointer tensor)
{
  gpu_dlpack_free (tensor, TRUE);
}

static void
free_managed (gpointer tensor)
{
  gpu_dlpack_free (tensor, FALSE);
}

/* --- from tensors ----------------------------------------------------------- */

static GpuDType *
find_type (const GpuDLTensor *tensor)
{
  for (guint kind = 0; kind < G_N_ELEMENTS (type_codes); kind++)
    {
      if (type_codes[kind] == tensor->type_code && tensor->type_lanes == 1
          && tensor->type_bits % 8 == 0)
        return gpu_dtype_get_number ((GpuDTypeKind) kind, tensor->type_bits / 8);
    }

  return NULL;
}

/* Returns whether the device of @context can access memory of the tensor's device. */
static gboolean
reaches (GpuContext        *context,
         const GpuDLTensor *tensor)
{
  switch (tensor->device_type)
    {
    case GPU_DL_CPU:
      return is_backend (context, "host");
    case GPU_DL_CUDA:
    case GPU_DL_CUDA_MANAGED:
      return is_backend (context, "cuda") && tensor->device_id == get_device_id (context);
    case GPU_DL_CUDA_HOST:
      return is_backend (context, "cuda") || is_backend (context, "host");
    case GPU_DL_OPENCL:
      return is_backend (context, "opencl");
    default:
      return FALSE;
    }
}

static gboolean
check_tensor (GpuContext         *context,
              const GpuDLTensor  *tensor,
              const char         *function,
              GError            **error)
{
  if (tensor->n_dims < 0 || tensor->n_dims > GPU_ARRAY_MAX_DIMS
      || (tensor->n_dims > 0 && tensor->shape == NULL))
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                 "%s: cannot import a tensor of %d dimensions%s", function, tensor->n_dims,
                 tensor->shape == NULL ? " without a shape" : "");
  else if (find_type (tensor) == NULL)
    g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                 "%s: arrays cannot have elements of type code %u, %u bits and %u lanes", function,
                 tensor->type_code, tensor->type_bits, tensor->type_lanes);
  else if (!reaches (context, tensor))
    g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                 "%s: the memory of the DLPack device (%d, %d) is not accessible to %s", function,
                 tensor->device_type, tensor->device_id,
                 _gpu_context_get_native (context)->devices[0]->id);
  else
    return TRUE;

  return FALSE;
}

static gboolean
get_layout (const GpuDLTensor  *tensor,
            const char         *function,
            GpuArrayLayout     *layout,
            GError            **error)
{
  gssize shape[GPU_ARRAY_MAX_DIMS];
  guint n_dims = (guint) tensor->n_dims;

  for (guint i = 0; i < n_dims; i++)
    shape[i] = (gssize) tensor->shape[i];

  if (!_gpu_array_layout_init (layout, shape, n_dims, tensor->type_bits / 8, GPU_ARRAY_ORDER_C,
                               function, error))
    return FALSE;

  for (guint i = 0; i < n_dims && tensor->strides != NULL; i++)
    {
      if (!__builtin_mul_overflow (tensor->strides[i], (gssize) layout->item_size,
                                   &layout->strides[i]))
        continue;

      if (shape[i] > 1)
        {
          g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                       "%s: a stride of %" G_GINT64_FORMAT " elements of %" G_GSIZE_FORMAT
                       " bytes exceeds the range of gssize", function, tensor->strides[i],
                       layout->item_size);
          return FALSE;
        }

      layout->strides[i] = 0;
    }

  return TRUE;
}

/* Returns the export if this library created the tensor, and if @context tracks the uses of the
 * memory. Otherwise returns NULL. The deleter of a tensor shows which library created it. */
static const Export *
get_export (GpuContext *context,
            gpointer    tensor,
            gboolean    versioned)
{
  const GpuDLManaged *old = tensor;
  const GpuDLVersioned *new = tensor;
  const Export *export = versioned ? new->manager : old->manager;

  if (versioned ? new->deleter != delete_versioned : old->deleter != delete_managed)
    return NULL;

  return export->storage != NULL
         && export->storage->context == _gpu_context_get_native (context)
         && (export->storage->root->flags & GPU_MEMORY_FLAGS_UNTRACKED) == 0 ? export : NULL;
}

/* For a tensor that this library created, returns a view of the exported storage, because the
 * handle alone does not identify the storage of pool memory or of a slice. For any other tensor,
 * wraps the handle. */
static GpuBuffer *
wrap_range (GpuContext  *context,
            guint64      handle,
            gsize        size,
            gpointer     managed,
            gboolean     versioned,
            GError     **error)
{
  GDestroyNotify notify = versioned ? free_versioned : free_managed;
  const Export *export = get_export (context, managed, versioned);

  /* Validate the range, because another library may have changed the fields of the tensor. */
  if (export != NULL && handle >= export->origin
      && handle - export->origin <= export->storage->size
      && size <= export->storage->size - (handle - export->origin))
    return _gpu_buffer_new_view (context, export->storage, handle - export->origin, handle, size,
                                 managed, notify, error);

  return _gpu_buffer_new_wrapped (context, handle, size, GPU_WRAP_MODE_BORROW, managed, notify,
                                  error);
}

/* Creates a buffer for the memory of the elements, and sets the offset of @layout in that buffer.
 * On OpenCL the buffer begins at the first byte of the cl_mem. */
static GpuBuffer *
wrap_tensor (GpuContext         *context,
             const GpuDLTensor  *tensor,
             GpuArrayLayout     *layout,
             gpointer            managed,
             gboolean            versioned,
             const char         *function,
             GError            **error)
{
  guint64 handle = (guint64) (guintptr) tensor->data;
  gsize begin;
  gsize end;

  layout->offset = (gsize) tensor->byte_offset;

  if (handle == 0
      || (tensor->device_type != GPU_DL_OPENCL
          && !g_size_checked_add (&layout->offset, layout->offset, (gsize) handle))
      || !_gpu_array_layout_get_range (layout, &begin, &end))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: the data pointer is 0, or the elements from 0x%" G_GINT64_MODIFIER "x + %"
                   G_GUINT64_FORMAT " bytes exceed the address space", function, handle,
                   tensor->byte_offset);
      return NULL;
    }

  if (tensor->device_type == GPU_DL_OPENCL)
    return wrap_range (context, handle, end, managed, versioned, error);

  layout->offset -= begin;

  return wrap_range (context, begin, end - begin, managed, versioned, error);
}

/**
 * gpu_array_new_from_dlpack:
 * @context: a #GpuContext that can access the memory
 * @tensor: (not nullable): a DLManagedTensorVersioned or a DLManagedTensor
 * @versioned: %TRUE for a DLManagedTensorVersioned
 * @error: return location for an error
 *
 * Imports the memory of a tensor as an array, without a copy. The library calls the tensor's
 * deleter on any thread after the last use of the memory. On failure the caller keeps the ownership
 * of the tensor. The function does not wait for work of other libraries on the memory.
 *
 * The memory of a read-only tensor has %GPU_MEMORY_FLAGS_READ_ONLY and
 * %GPU_MEMORY_FLAGS_HOST_READ_ONLY. A write through this array, its memory or their slices fails
 * with %GPU_ERROR_INVALID_ARGUMENT. Other objects for the same memory may still write it.
 *
 * If gpu_array_to_dlpack() created @tensor from memory of @context without
 * %GPU_MEMORY_FLAGS_UNTRACKED, the library orders the uses of the new array and of that memory, and
 * the new array has the access flags of that memory. gpu_buffer_new_wrapped() states the rules for
 * other tensors.
 *
 * Returns: (transfer full): the array, or %NULL with %GPU_ERROR_NOT_SUPPORTED if @context cannot
 *   access the memory, for unknown types or a tensor of another major version, with
 *   %GPU_ERROR_INVALID_ARGUMENT for an invalid shape or strides, or with an error of
 *   gpu_buffer_new_wrapped()
 *
 * Since: 0.1
 */
GpuArray *
gpu_array_new_from_dlpack (GpuContext  *context,
                           gpointer     tensor,
                           gboolean     versioned,
                           GError     **error)
{
  const char *function = "gpu_array_new_from_dlpack";
  const GpuDLVersioned *new = tensor;
  const GpuDLTensor *dl;
  g_autoptr (GpuBuffer) buffer = NULL;
  GpuArrayLayout layout;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);
  g_return_val_if_fail (tensor != NULL, NULL);

  if (!_gpu_context_check (context, function, error))
    return NULL;

  if (versioned && new->major != GPU_DLPACK_MAJOR)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "%s: the tensor has the DLPack version %u.%u, not a version %d", function,
                   new->major, new->minor, GPU_DLPACK_MAJOR);
      return NULL;
    }

  dl = versioned ? &new->tensor : &((const GpuDLManaged *) tensor)->tensor;

  if (!check_tensor (context, dl, function, error)
      || !get_layout (dl, function, &layout, error))
    return NULL;

  if (_gpu_array_layout_get_n_elements (&layout) == 0)
    {
      GpuArray *empty = _gpu_array_new (context, NULL, find_type (dl), &layout);

      gpu_dlpack_free (tensor, versioned);
      return empty;
    }

  buffer = wrap_tensor (context, dl, &layout, tensor, versioned, function, error);

  if (buffer != NULL && versioned && (new->flags & GPU_DLPACK_READ_ONLY) != 0)
    _gpu_memory_set_constant ((GpuMemory *) buffer);

  return buffer != NULL ? _gpu_array_new (context, (GpuMemory *) buffer, find_type (dl), &layout)
                        : NULL;
}
