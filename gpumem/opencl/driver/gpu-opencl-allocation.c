/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Creation of buffers, their flags, and queries of a cl_mem. */
#include "config.h"

#include "gpumem/opencl/driver/gpu-opencl.h"

cl_mem_flags
_gpu_opencl_get_access_flags (GpuMemoryFlags flags)
{
  cl_mem_flags result = 0;

  if (flags & GPU_MEMORY_FLAGS_READ_ONLY)
    result |= CL_MEM_READ_ONLY;
  if (flags & GPU_MEMORY_FLAGS_WRITE_ONLY)
    result |= CL_MEM_WRITE_ONLY;
  if (flags & GPU_MEMORY_FLAGS_HOST_READ_ONLY)
    result |= CL_MEM_HOST_READ_ONLY;
  if (flags & GPU_MEMORY_FLAGS_HOST_WRITE_ONLY)
    result |= CL_MEM_HOST_WRITE_ONLY;
  if (flags & GPU_MEMORY_FLAGS_HOST_NO_ACCESS)
    result |= CL_MEM_HOST_NO_ACCESS;

  return result;
}

cl_mem_flags
_gpu_opencl_get_root_flags (GpuMemoryFlags flags)
{
  cl_mem_flags result = _gpu_opencl_get_access_flags (flags);

  if (!(flags & (GPU_MEMORY_FLAGS_READ_ONLY | GPU_MEMORY_FLAGS_WRITE_ONLY)))
    result |= CL_MEM_READ_WRITE;

  return result;
}

cl_map_flags
_gpu_opencl_get_map_flags (GpuMapFlags flags)
{
  if (flags == GPU_MAP_FLAGS_NONE)
    return CL_MAP_READ | CL_MAP_WRITE;
  /* OpenCL does not allow CL_MAP_WRITE_INVALIDATE_REGION together with other map flags. */
  if ((flags & GPU_MAP_FLAGS_WRITE_INVALIDATE) && !(flags & GPU_MAP_FLAGS_READ))
    return CL_MAP_WRITE_INVALIDATE_REGION;

  return ((flags & GPU_MAP_FLAGS_READ) ? CL_MAP_READ : 0) |
         ((flags & (GPU_MAP_FLAGS_WRITE | GPU_MAP_FLAGS_WRITE_INVALIDATE)) ? CL_MAP_WRITE : 0);
}

gboolean
_gpu_opencl_mem_get (cl_mem        mem,
                     cl_mem_info   info,
                     gpointer      value,
                     gsize         size,
                     GError      **error)
{
  cl_int code = clGetMemObjectInfo (mem, info, size, value, NULL);

  if (code == CL_SUCCESS)
    return TRUE;

  _gpu_opencl_set_error (error, "clGetMemObjectInfo", code, "memory object %p, info 0x%04x",
                         (gpointer) mem, info);
  return FALSE;
}

/* For a buffer over shared virtual memory, Intel's runtime reports a parent object that no other
 * call accepts. Such a parent is ignored. */
gboolean
_gpu_opencl_mem_find_parent (cl_mem    mem,
                             cl_mem   *parent,
                             gsize    *offset,
                             GError  **error)
{
  cl_mem found = NULL;
  cl_mem_object_type type;

  *parent = NULL;
  *offset = 0;

  if (!_gpu_opencl_mem_get (mem, CL_MEM_ASSOCIATED_MEMOBJECT, &found, sizeof found, error))
    return FALSE;

  if (found == NULL
      || clGetMemObjectInfo (found, CL_MEM_TYPE, sizeof type, &type, NULL) == CL_INVALID_MEM_OBJECT)
    return TRUE;

  if (!_gpu_opencl_mem_get (mem, CL_MEM_OFFSET, offset, sizeof *offset, error))
    return FALSE;

  *parent = found;

  return TRUE;
}

gboolean
_gpu_opencl_mem_check (GpuNativeContext  *context,
                       cl_mem             mem,
                       GError           **error)
{
  cl_context mem_context = NULL;

  if (!_gpu_opencl_mem_get (mem, CL_MEM_CONTEXT, &mem_context, sizeof mem_context, error))
    return FALSE;

  if (mem_context == _gpu_opencl_context_handle (context))
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "memory object %p is of context %p, not of context %p", (gpointer) mem,
               (gpointer) mem_context, (gpointer) _gpu_opencl_context_handle (context));
  return FALSE;
}

gboolean
_gpu_opencl_mem_retain (cl_mem    mem,
                        GError  **error)
{
  cl_int code = clRetainMemObject (mem);

  if (code == CL_SUCCESS)
    return TRUE;

  _gpu_opencl_set_error (error, "clRetainMemObject", code, "memory object %p", (gpointer) mem);
  return FALSE;
}

/* In a context of several devices, a buffer has an address for each device. The library has one
 * address for a buffer, so it does not use cl_ext_buffer_device_address in such a context. */
static gboolean
has_addresses (GpuNativeContext *context)
{
  return context->n_devices == 1 && context->devices[0]->has_addresses;
}

GpuNativeBuffer *
_gpu_opencl_buffer_new (cl_mem mem,
                        gsize  size)
{
  GpuOpenclBuffer *buffer = g_new0 (GpuOpenclBuffer, 1);

  buffer->base.backend = &_gpu_opencl_backend;
  buffer->base.size = size;
  buffer->mem = mem;

  return &buffer->base;
}

/* The address range of one cl_mem, which several buffers may share. */
typedef struct
{
  guint64 start;                    /* the key in the tree */
  gsize   size;
  guint   n_buffers;
} Range;

static int
compare_starts (gconstpointer a,
                gconstpointer b,
                gpointer      data G_GNUC_UNUSED)
{
  const guint64 first = *(const guint64 *) a;
  const guint64 second = *(const guint64 *) b;

  return first < second ? -1 : first > second;
}

static void
add_range (GpuOpenclContext *context,
           GpuOpenclBuffer  *buffer)
{
  Range *range;

  g_mutex_lock (&context->ranges_lock);

  if (context->ranges == NULL)
    context->ranges = g_tree_new_full (compare_starts, NULL, NULL, g_free);

  range = g_tree_lookup (context->ranges, &buffer->address);

  if (range == NULL)
    {
      range = g_new0 (Range, 1);
      range->start = buffer->address;
      g_tree_insert (context->ranges, &range->start, range);
    }

  range->size = MAX (range->size, buffer->base.size);
  range->n_buffers++;
  g_mutex_unlock (&context->ranges_lock);
}

gboolean
_gpu_opencl_buffer_read_address (GpuNativeContext  *context,
                                 GpuOpenclBuffer   *buffer,
                                 GError           **error)
{
  if (!has_addresses (context))
    return TRUE;

  if (!_gpu_opencl_mem_get (buffer->mem, CL_MEM_DEVICE_ADDRESS_EXT, &buffer->address,
                            sizeof buffer->address, error))
    return FALSE;

  if (buffer->address != 0 && buffer->parent == NULL)
    add_range ((GpuOpenclContext *) context, buffer);

  return TRUE;
}

void
_gpu_opencl_buffer_forget_address (GpuOpenclContext *context,
                                   GpuOpenclBuffer  *buffer)
{
  Range *range;

  if (buffer->address == 0 || buffer->parent != NULL)
    return;

  g_mutex_lock (&context->ranges_lock);
  range = g_tree_lookup (context->ranges, &buffer->address);

  if (--range->n_buffers == 0)
    g_tree_remove (context->ranges, &buffer->address);

  g_mutex_unlock (&context->ranges_lock);
}

gboolean
_gpu_opencl_is_buffer_address (GpuOpenclContext *context,
                               guint64           address)
{
  const Range *range = NULL;
  gboolean result;
  GTreeNode *node;

  g_mutex_lock (&context->ranges_lock);

  if (context->ranges != NULL)
    {
      node = g_tree_upper_bound (context->ranges, &address);
      node = node != NULL ? g_tree_node_previous (node) : g_tree_node_last (context->ranges);
      range = node != NULL ? g_tree_node_value (node) : NULL;
    }

  result = range != NULL && address - range->start < range->size;
  g_mutex_unlock (&context->ranges_lock);

  return result;
}

GpuNativeBuffer *
_gpu_opencl_buffer_create (GpuNativeContext  *context,
                           cl_mem_flags       flags,
                           gsize              size,
                           gpointer           data,
                           GError           **error)
{
  static const cl_mem_properties fixed[] = { CL_MEM_DEVICE_PRIVATE_ADDRESS_EXT, CL_TRUE, 0 };
  const cl_mem_flags of_host = CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR;
  cl_context handle = _gpu_opencl_context_handle (context);
  gboolean has_address = (flags & of_host) == 0 && has_addresses (context);
  GpuNativeBuffer *buffer;
  GpuError meaning;
  cl_int code;
  cl_mem mem;

  mem = has_address ? clCreateBufferWithProperties (handle, fixed, flags, size, data, &code)
                    : clCreateBuffer (handle, flags, size, data, &code);

  if (code == CL_SUCCESS)
    {
      buffer = _gpu_opencl_buffer_new (mem, size);

      if ((flags & CL_MEM_USE_HOST_PTR) != 0)
        buffer->in_place = data;

      if (!has_address
          || _gpu_opencl_buffer_read_address (context, (GpuOpenclBuffer *) buffer, error))
        return buffer;

      clReleaseMemObject (mem);
      g_free (buffer);
      return NULL;
    }

  meaning = _gpu_opencl_error_map (code);
  /* The driver also returns this code for a size of 0, which the caller has already rejected. The
   * size is therefore too large for one of the devices. */
  if (code == CL_INVALID_BUFFER_SIZE)
    meaning = GPU_ERROR_OUT_OF_DEVICE_MEMORY;
  _gpu_opencl_set_error_as (error, meaning,
                            has_address ? "clCreateBufferWithProperties" : "clCreateBuffer", code,
                            "%" G_GSIZE_FORMAT " bytes requested, %" G_GSIZE_FORMAT " bytes held "
                            "by the context; device %s has %" G_GUINT64_FORMAT " bytes, at most %"
                            G_GUINT64_FORMAT " of them in one buffer", size,
                            (gsize) g_atomic_pointer_get (&context->allocated),
                            context->devices[0]->id, context->devices[0]->memory_size,
                            context->devices[0]->max_allocation);
  return NULL;
}
