/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What buffers and images have in common: they are all a cl_mem. */
#include "config.h"

#include "gpumem/opencl/gpu-opencl.h"

/* Migrations of more memories than this are rare: then the list is allocated. */
#define N_ON_STACK 16

static void
memory_free (GpuNativeContext *context,
             GpuNativeBuffer  *native)
{
  GpuOpenclBuffer *buffer = (GpuOpenclBuffer *) native;

  if (buffer->slice != NULL)
    _gpu_opencl_slice_release ((GpuOpenclContext *) context, buffer->slice);
  else
    clReleaseMemObject (buffer->mem);

  g_clear_pointer (&buffer->slices, g_ptr_array_unref);
  g_free (buffer);
}

static guint64
memory_get_handle (GpuNativeBuffer *buffer)
{
  return (guint64) (guintptr) _gpu_opencl_buffer_handle (buffer);
}

static guint64
memory_get_address (GpuNativeBuffer *buffer G_GNUC_UNUSED)
{
  return 0;
}

static void
memory_identify (GpuNativeContext *context G_GNUC_UNUSED,
                 GpuNativeMemory  *memory,
                 GpuOrigin        *origin)
{
  GpuOpenclBuffer *buffer = (GpuOpenclBuffer *) memory;

  if (memory->is_image)
    return;

  origin->id = (guintptr) (buffer->parent != NULL ? buffer->parent : buffer->mem);
  origin->offset = buffer->parent_offset;
}

/* The value of an info as a variant: NULL, and no error, where the driver does not know it. */
static gboolean
get_attribute (cl_mem         mem,
               cl_mem_info    info,
               const char    *type,
               GVariant     **variant,
               GError       **error)
{
  union
  {
    cl_ulong bits;
    cl_uint  number;
    gsize    size;
  } value = { 0 };
  gsize size = *type == 't' ? sizeof value.bits : *type == 'z' ? sizeof value.size :
               sizeof value.number;
  cl_int code = clGetMemObjectInfo (mem, info, size, &value, NULL);

  *variant = NULL;
  if (code == CL_INVALID_VALUE)
    return TRUE;
  if (code != CL_SUCCESS)
    {
      _gpu_opencl_set_error (error, "clGetMemObjectInfo", code, "buffer %p, info 0x%04x",
                             (gpointer) mem, info);
      return FALSE;
    }

  if (*type == 'u')
    *variant = g_variant_new_uint32 (value.number);
  else if (*type == 'b')
    *variant = g_variant_new_boolean (value.number != CL_FALSE);
  else
    *variant = g_variant_new_uint64 (*type == 'z' ? value.size : value.bits);

  return TRUE;
}

static gboolean
memory_get_attributes (GpuNativeContext  *context,
                       GpuNativeBuffer   *buffer,
                       GVariantDict      *attributes,
                       GError           **error)
{
  static const struct
  {
    const char  *nick;
    cl_mem_info  info;
    const char  *type;      /* of the variant; z for a size or a pointer */
    guint        api;       /* from this version of OpenCL on */
  } entries[] =
  {
    { "type", CL_MEM_TYPE, "u", 10 },
    { "native-flags", CL_MEM_FLAGS, "t", 10 },
    { "size", CL_MEM_SIZE, "z", 10 },
    { "host-ptr", CL_MEM_HOST_PTR, "z", 10 },
    { "map-count", CL_MEM_MAP_COUNT, "u", 10 },
    { "reference-count", CL_MEM_REFERENCE_COUNT, "u", 10 },
    { "context", CL_MEM_CONTEXT, "z", 10 },
    { "associated-memobject", CL_MEM_ASSOCIATED_MEMOBJECT, "z", 11 },
    { "offset", CL_MEM_OFFSET, "z", 11 },
    { "uses-svm-pointer", CL_MEM_USES_SVM_POINTER, "b", 20 }
  };
  guint api = ((GpuOpenclDevice *) context->devices[0])->api;

  for (gsize i = 0; i < G_N_ELEMENTS (entries); i++)
    {
      GVariant *variant = NULL;

      if (api < entries[i].api)
        continue;
      if (!get_attribute (_gpu_opencl_buffer_handle (buffer), entries[i].info, entries[i].type,
                          &variant, error))
        return FALSE;
      if (variant != NULL)
        g_variant_dict_insert_value (attributes, entries[i].nick, variant);
    }

  return TRUE;
}

static gboolean
memory_migrate (GpuNativeStream         *stream,
                GpuNativeBuffer *const  *buffers,
                guint                    n_buffers,
                GpuMigrateFlags          flags,
                GpuNativeEvent         **event,
                GError                 **error)
{
  cl_mem on_stack[N_ON_STACK];
  g_autofree cl_mem *allocated = NULL;
  cl_mem *list = on_stack;
  cl_mem_migration_flags cl_flags = 0;
  cl_event native = NULL;
  cl_int code;

  if (n_buffers > N_ON_STACK)
    list = allocated = g_new (cl_mem, n_buffers);
  for (guint i = 0; i < n_buffers; i++)
    list[i] = _gpu_opencl_buffer_handle (buffers[i]);

  if (flags & GPU_MIGRATE_FLAGS_HOST)
    cl_flags |= CL_MIGRATE_MEM_OBJECT_HOST;
  if (flags & GPU_MIGRATE_FLAGS_CONTENT_UNDEFINED)
    cl_flags |= CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED;

  code = clEnqueueMigrateMemObjects (_gpu_opencl_stream_handle (stream), n_buffers, list, cl_flags,
                                     0, NULL, event != NULL ? &native : NULL);

  return _gpu_opencl_enqueued (code, "clEnqueueMigrateMemObjects", native, event, error,
                               "%u buffers, flags 0x%x", n_buffers, flags);
}

static gboolean
memory_unmap (GpuNativeStream  *stream,
              GpuNativeBuffer  *buffer,
              gpointer          data,
              GpuNativeEvent  **event,
              GError          **error)
{
  cl_event native = NULL;
  cl_int code = clEnqueueUnmapMemObject (_gpu_opencl_stream_handle (stream),
                                         _gpu_opencl_buffer_handle (buffer), data, 0, NULL,
                                         event != NULL ? &native : NULL);

  return _gpu_opencl_enqueued (code, "clEnqueueUnmapMemObject", native, event, error,
                               "address %p of a buffer of %" G_GSIZE_FORMAT " bytes", data,
                               buffer->size);
}

const GpuMemoryOps _gpu_opencl_memory_ops =
{
  .free           = memory_free,
  .get_handle     = memory_get_handle,
  .get_address    = memory_get_address,
  .get_attributes = memory_get_attributes,
  .identify       = memory_identify,
  .copy_region    = _gpu_opencl_copy_region,
  .migrate        = memory_migrate,
  .unmap          = memory_unmap
};
