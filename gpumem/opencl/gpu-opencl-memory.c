/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Operations that are common to buffers and images. Both are a cl_mem in the driver. */
#include "config.h"

#include "gpumem/opencl/driver/gpu-opencl.h"

/* Lists of up to this many memory objects are on the stack; longer lists are rare. */
#define N_ON_STACK 16

static void
free_buffer (GpuOpenclContext *context,
             GpuOpenclBuffer  *buffer)
{
  if (buffer->is_mapped)
    _gpu_opencl_unmap_host (context, buffer);

  _gpu_opencl_buffer_forget_address (context, buffer);

  if (buffer->usm_allocation != NULL)
    buffer->usm->free (context->context, buffer->usm_allocation);
  else if (buffer->svm_allocation != NULL)
    _gpu_opencl_svm_free (context, buffer);
  else if (buffer->slice != NULL)
    _gpu_opencl_slice_release (context, buffer->slice);
  else if (buffer->mem != NULL)
    clReleaseMemObject (buffer->mem);

  g_clear_pointer (&buffer->slices, g_ptr_array_unref);
}

static void
memory_free (GpuNativeContext *context,
             GpuNativeMemory  *memory)
{
  if (memory->is_image)
    clReleaseMemObject (_gpu_opencl_memory_handle (memory));
  else
    free_buffer ((GpuOpenclContext *) context, (GpuOpenclBuffer *) memory);

  g_free (memory);
}

static guint64
memory_get_handle (GpuNativeMemory *memory)
{
  cl_mem mem = _gpu_opencl_memory_handle (memory);

  if (_gpu_opencl_memory_get_usm (memory) != NULL)
    return (guintptr) ((GpuOpenclBuffer *) memory)->svm;

  return (guint64) (mem != NULL ? (guintptr) mem : (guintptr) memory->host);
}

static guint64
memory_get_address (GpuNativeMemory *memory)
{
  const GpuOpenclBuffer *buffer = (const GpuOpenclBuffer *) memory;

  if (memory->is_image || memory->is_host_only)
    return 0;

  return buffer->svm != NULL ? (guintptr) buffer->svm : buffer->address;
}

static void
memory_identify (GpuNativeContext *context G_GNUC_UNUSED,
                 GpuNativeMemory  *memory,
                 GpuAliasKey      *alias_key)
{
  GpuOpenclBuffer *buffer = (GpuOpenclBuffer *) memory;

  if (memory->is_image)
    {
      alias_key->id = (guintptr) ((GpuOpenclImage *) memory)->root;
      alias_key->offset = ((GpuOpenclImage *) memory)->root_offset;
      return;
    }

  if (memory->is_host_only)
    {
      alias_key->id = (guintptr) memory->host;
      return;
    }

  if (buffer->usm != NULL)
    {
      alias_key->id = (guintptr) buffer->usm_start;
      alias_key->offset = (guintptr) buffer->svm - (guintptr) buffer->usm_start;
      return;
    }

  alias_key->id = (guintptr) (buffer->parent != NULL ? buffer->parent : buffer->mem);
  alias_key->offset = buffer->parent_offset;
}

/* Gets an info as a variant. If the driver does not implement the info, sets the variant to NULL
 * without an error. */
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
      _gpu_opencl_set_error (error, "clGetMemObjectInfo", code, "memory object %p, info 0x%04x",
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
                       GpuNativeMemory   *memory,
                       GVariantDict      *attributes,
                       GError           **error)
{
  static const struct
  {
    const char  *nick;
    cl_mem_info  info;
    const char  *type;      /* type string of the GVariant; "z" for a size or a pointer */
    guint        api;       /* first version of OpenCL that has the info */
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

  if (_gpu_opencl_memory_get_usm (memory) != NULL)
    _gpu_opencl_usm_get_attributes ((GpuOpenclBuffer *) memory, attributes);

  for (gsize i = 0; i < G_N_ELEMENTS (entries); i++)
    {
      GVariant *variant = NULL;

      if (_gpu_opencl_memory_handle (memory) == NULL || api < entries[i].api)
        continue;
      if (!get_attribute (_gpu_opencl_memory_handle (memory), entries[i].info, entries[i].type,
                          &variant, error))
        return FALSE;
      if (variant != NULL)
        g_variant_dict_insert_value (attributes, entries[i].nick, variant);
    }

  return !memory->is_image
         || _gpu_opencl_image_get_attributes ((GpuOpenclImage *) memory, attributes, error);
}

static gboolean
memory_migrate (GpuNativeStream         *stream,
                GpuNativeMemory *const  *memories,
                guint                    n_memories,
                GpuMigrateFlags          flags,
                GpuNativeEvent         **event,
                GError                 **error)
{
  cl_mem on_stack[N_ON_STACK];
  g_autofree cl_mem *allocated = NULL;
  cl_mem *list = on_stack;
  cl_mem_migration_flags cl_flags = 0;
  cl_event native = NULL;
  guint n = 0;
  gboolean held;
  cl_int code;

  if (n_memories > N_ON_STACK)
    list = allocated = g_new (cl_mem, n_memories);
  for (guint i = 0; i < n_memories; i++)
    {
      if (!memories[i]->is_host_only && _gpu_opencl_memory_get_usm (memories[i]) == NULL)
        list[n++] = _gpu_opencl_memory_target (memories[i]);
    }

  if (n == 0)
    return _gpu_opencl_pass (stream, event, error);

  if (flags & GPU_MIGRATE_FLAGS_HOST)
    cl_flags |= CL_MIGRATE_MEM_OBJECT_HOST;
  if (flags & GPU_MIGRATE_FLAGS_CONTENT_UNDEFINED)
    cl_flags |= CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED;

  held = _gpu_opencl_hold_slices (stream);
  code = clEnqueueMigrateMemObjects (_gpu_opencl_stream_handle (stream), n, list,
                                     cl_flags, 0, NULL, event != NULL ? &native : NULL);
  _gpu_opencl_release_slices (stream, held);

  return _gpu_opencl_enqueued (stream, code, "clEnqueueMigrateMemObjects", native, event, error,
                               "%u memory objects, flags 0x%x", n_memories, flags);
}

static gboolean
memory_unmap (GpuNativeStream  *stream,
              GpuNativeMemory  *memory,
              gpointer          data,
              GpuNativeEvent  **event,
              GError          **error)
{
  cl_event native = NULL;
  gboolean held;
  cl_int code;

  if (memory->is_host_only || _gpu_opencl_memory_get_usm (memory) != NULL)
    return _gpu_opencl_pass (stream, event, error);

  held = _gpu_opencl_hold_slices (stream);
  code = clEnqueueUnmapMemObject (_gpu_opencl_stream_handle (stream),
                                  _gpu_opencl_memory_target (memory), data, 0, NULL,
                                  event != NULL ? &native : NULL);
  _gpu_opencl_release_slices (stream, held);

  return _gpu_opencl_enqueued (stream, code, "clEnqueueUnmapMemObject", native, event, error,
                               "address %p of memory of %" G_GSIZE_FORMAT " bytes", data,
                               memory->size);
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
