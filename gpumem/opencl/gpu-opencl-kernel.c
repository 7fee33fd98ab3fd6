/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <string.h>

#include "gpumem/opencl/driver/gpu-opencl.h"

#define SIZE "%" G_GSIZE_FORMAT
#define EXTENT SIZE " x " SIZE " x " SIZE

/* The first version of PoCL that does not crash if the only memory of a launch is an image over a
 * buffer. */
#define POCL_WITH_LONE_IMAGES 7

static void
kernel_free (GpuNativeContext *context G_GNUC_UNUSED,
             GpuNativeKernel  *native)
{
  GpuOpenclKernel *kernel = (GpuOpenclKernel *) native;

  clReleaseKernel (kernel->kernel);
  if (kernel->pointer_kernel != NULL)
    clReleaseKernel (kernel->pointer_kernel);
  for (guint i = 0; i < native->n_arguments; i++)
    {
      g_free ((char *) native->arguments[i].name);
      g_free ((char *) native->arguments[i].type_name);
    }
  g_free (native->arguments);
  g_free (kernel->name);
  g_mutex_clear (&kernel->lock);
  g_free (kernel);
}

static gboolean
describe_kernel (GpuNativeContext  *context,
                 GpuOpenclKernel   *kernel,
                 GError           **error)
{
  cl_uint n_arguments = 0;
  cl_int code = clGetKernelInfo (kernel->kernel, CL_KERNEL_NUM_ARGS, sizeof n_arguments,
                                 &n_arguments, NULL);

  if (code != CL_SUCCESS)
    {
      _gpu_opencl_set_error (error, "clGetKernelInfo", code, "number of arguments of \"%s\"",
                             kernel->name);
      return FALSE;
    }

  code = clGetKernelWorkGroupInfo (kernel->kernel, ((GpuOpenclContext *) context)->ids[0],
                                   CL_KERNEL_COMPILE_WORK_GROUP_SIZE,
                                   sizeof kernel->required_block, kernel->required_block, NULL);
  if (code != CL_SUCCESS)
    {
      _gpu_opencl_set_error (error, "clGetKernelWorkGroupInfo", code, "kernel \"%s\"",
                             kernel->name);
      return FALSE;
    }

  kernel->base.arguments = g_new0 (GpuArgumentInfo, n_arguments);
  kernel->base.n_arguments = n_arguments;
  for (guint i = 0; i < n_arguments; i++)
    {
      GpuArgumentInfo *info = &kernel->base.arguments[i];

      if (!_gpu_opencl_describe_argument (kernel->kernel, i, info, error))
        return FALSE;
      if (info->kind == GPU_ARGUMENT_KIND_IMAGE || info->kind == GPU_ARGUMENT_KIND_UNKNOWN)
        kernel->takes_images = TRUE;
    }

  return TRUE;
}

GpuNativeKernel *
_gpu_opencl_kernel_new (GpuNativeContext  *context,
                        cl_kernel          handle,
                        const char        *name,
                        GError           **error)
{
  GpuOpenclKernel *kernel = g_new0 (GpuOpenclKernel, 1);

  kernel->base.backend = &_gpu_opencl_backend;
  kernel->kernel = handle;
  kernel->name = g_strdup (name);
  g_mutex_init (&kernel->lock);

  if (!describe_kernel (context, kernel, error))
    {
      kernel_free (context, &kernel->base);
      return NULL;
    }

  return &kernel->base;
}

static guint64
kernel_get_handle (GpuNativeKernel *native)
{
  return (guint64) (guintptr) ((GpuOpenclKernel *) native)->kernel;
}

typedef struct
{
  const char *nick;
  cl_uint     info;
  const char *type;         /* "t" for a cl_ulong, "z" for a size, "3" for three sizes */
  guint       level;        /* first version of OpenCL that has the info */
} KernelEntry;

static GVariant *
from_value (const KernelEntry *entry,
            const guint64     *value)
{
  gsize size = 0;

  if (*entry->type == '3')
    {
      gsize sizes[3];

      memcpy (sizes, value, sizeof sizes);
      return g_variant_new ("(ttt)", (guint64) sizes[0], (guint64) sizes[1], (guint64) sizes[2]);
    }

  if (*entry->type == 't')
    return g_variant_new_uint64 (value[0]);

  memcpy (&size, value, sizeof size);
  return g_variant_new_uint64 (size);
}

/* Queries one value of the kernel and adds it to the attributes. Adds nothing if the driver does
 * not implement the query. */
static gboolean
add_entry (GpuOpenclKernel    *kernel,
           GpuOpenclDevice    *device,
           const KernelEntry  *entry,
           gboolean            of_sub_groups,
           GVariantDict       *attributes,
           GError            **error)
{
  const char *function = of_sub_groups ? "clGetKernelSubGroupInfo" : "clGetKernelWorkGroupInfo";
  guint64 value[3] = { 0 };
  gsize size = *entry->type == '3' ? 3 * sizeof (gsize) : sizeof (guint64);
  cl_int code;

  if (device->level < entry->level || device->api < entry->level)
    return TRUE;

  if (of_sub_groups)
    code = clGetKernelSubGroupInfo (kernel->kernel, device->id, entry->info, 0, NULL, size, value,
                                    NULL);
  else
    code = clGetKernelWorkGroupInfo (kernel->kernel, device->id, entry->info, size, value, NULL);

  if (code == CL_SUCCESS)
    g_variant_dict_insert_value (attributes, entry->nick, from_value (entry, value));
  else if (code != CL_INVALID_VALUE && code != CL_INVALID_OPERATION)
    {
      _gpu_opencl_set_error (error, function, code, "kernel \"%s\", %s", kernel->name,
                             entry->nick);
      return FALSE;
    }

  return TRUE;
}

static gboolean
kernel_get_attributes (GpuNativeContext  *context,
                       GpuNativeKernel   *native,
                       GVariantDict      *attributes,
                       GError           **error)
{
  static const KernelEntry of_groups[] =
  {
    { "work-group-size", CL_KERNEL_WORK_GROUP_SIZE, "z", 10 },
    { "compile-work-group-size", CL_KERNEL_COMPILE_WORK_GROUP_SIZE, "3", 10 },
    { "local-mem-size", CL_KERNEL_LOCAL_MEM_SIZE, "t", 10 },
    { "preferred-work-group-size-multiple", CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, "z", 11 },
    { "private-mem-size", CL_KERNEL_PRIVATE_MEM_SIZE, "t", 11 }
  };
  static const KernelEntry of_sub_groups[] =
  {
    { "max-num-sub-groups", CL_KERNEL_MAX_NUM_SUB_GROUPS, "z", 21 },
    { "compile-num-sub-groups", CL_KERNEL_COMPILE_NUM_SUB_GROUPS, "z", 21 }
  };
  GpuOpenclKernel *kernel = (GpuOpenclKernel *) native;
  GpuOpenclDevice *device = (GpuOpenclDevice *) context->devices[0];

  g_variant_dict_insert (attributes, "num-args", "u", native->n_arguments);
  for (gsize i = 0; i < G_N_ELEMENTS (of_groups); i++)
    {
      if (!add_entry (kernel, device, &of_groups[i], FALSE, attributes, error))
        return FALSE;
    }
  for (gsize i = 0; i < G_N_ELEMENTS (of_sub_groups); i++)
    {
      if (!add_entry (kernel, device, &of_sub_groups[i], TRUE, attributes, error))
        return FALSE;
    }

  return TRUE;
}

static cl_int
set_buffer (cl_kernel               kernel,
            guint                   index,
            const GpuOpenclBuffer  *buffer)
{
  if (buffer->usm != NULL)
    return buffer->usm->set_argument (kernel, index, buffer->svm_argument);

  if (buffer->svm_argument != NULL)
    return clSetKernelArgSVMPointer (kernel, index, buffer->svm_argument);

  return clSetKernelArg (kernel, index, sizeof buffer->mem, &buffer->mem);
}

static cl_int
set_argument (cl_kernel               kernel,
              GpuOpenclStream        *stream,
              guint                   index,
              const GpuArgumentValue *argument)
{
  cl_sampler sampler;
  cl_mem mem;

  switch (argument->kind)
    {
    case GPU_ARGUMENT_KIND_MEMORY:
      if (argument->buffer == NULL && argument->data != NULL)
        return _gpu_opencl_set_address (kernel, stream, index,
                                        *(const guint64 *) argument->data);
      if (argument->buffer == NULL)
        return clSetKernelArg (kernel, index, sizeof mem, NULL);
      return set_buffer (kernel, index, (GpuOpenclBuffer *) argument->buffer);
    case GPU_ARGUMENT_KIND_LOCAL:
      return clSetKernelArg (kernel, index, argument->size, NULL);
    case GPU_ARGUMENT_KIND_IMAGE:
      mem = _gpu_opencl_memory_handle (&argument->image->base);
      return clSetKernelArg (kernel, index, sizeof mem, &mem);
    case GPU_ARGUMENT_KIND_SAMPLER:
      sampler = ((GpuOpenclSampler *) argument->sampler)->sampler;
      return clSetKernelArg (kernel, index, sizeof sampler, &sampler);
    default:
      return clSetKernelArg (kernel, index, argument->size, argument->data);
    }
}

static const char *
get_argument_function (const GpuArgumentValue *argument)
{
  const GpuOpenclBuffer *buffer = (const GpuOpenclBuffer *) argument->buffer;

  if (argument->kind != GPU_ARGUMENT_KIND_MEMORY)
    return "clSetKernelArg";

  if (buffer == NULL)
    return argument->data != NULL ? "clSetKernelArgSVMPointer" : "clSetKernelArg";

  if (buffer->usm != NULL)
    return "clSetKernelArgMemPointerINTEL";

  return buffer->svm_argument != NULL ? "clSetKernelArgSVMPointer" : "clSetKernelArg";
}

static void
set_argument_error (GError                 **error,
                    cl_int                   code,
                    GpuOpenclKernel         *kernel,
                    guint                    index,
                    const GpuArgumentValue  *argument)
{
  const GpuArgumentInfo *info = &kernel->base.arguments[index];
  g_autofree char *given = NULL;

  switch (argument->kind)
    {
    case GPU_ARGUMENT_KIND_MEMORY:
      given = g_strdup ("a buffer");
      break;
    case GPU_ARGUMENT_KIND_IMAGE:
      given = g_strdup ("an image");
      break;
    case GPU_ARGUMENT_KIND_SAMPLER:
      given = g_strdup ("a sampler");
      break;
    default:
      given = g_strdup_printf (SIZE " bytes", argument->size);
    }

  _gpu_opencl_set_error (error, get_argument_function (argument), code,
                         "kernel \"%s\", argument %u (%s %s): given %s", kernel->name, index,
                         info->type_name != NULL ? info->type_name : "unknown type",
                         info->name != NULL ? info->name : "without name", given);
}

static gboolean
set_arguments (GpuOpenclKernel         *kernel,
               cl_kernel                handle,
               GpuOpenclStream         *stream,
               const GpuArgumentValue  *arguments,
               guint                    n_arguments,
               GError                 **error)
{
  for (guint i = 0; i < n_arguments; i++)
    {
      cl_int code = set_argument (handle, stream, i, &arguments[i]);

      if (G_LIKELY (code == CL_SUCCESS))
        continue;

      set_argument_error (error, code, kernel, i, &arguments[i]);
      return FALSE;
    }

  return TRUE;
}

static void
set_launch_error (GError          **error,
                  cl_int            code,
                  GpuOpenclKernel  *kernel,
                  GpuOpenclDevice  *device,
                  const gsize      *grid,
                  const gsize      *block)
{
  g_autofree gsize *largest = NULL;
  g_autofree char *chosen = g_strdup ("chosen by the driver");
  gsize limit = 0;
  gsize size = 0;
  /* CL_OUT_OF_RESOURCES means that the registers or the local memory do not suffice, or that an
   * earlier kernel made the queue unusable. */
  GpuError meaning = code == CL_OUT_OF_RESOURCES ? GPU_ERROR_LAUNCH_FAILED :
                     _gpu_opencl_error_map (code);

  clGetKernelWorkGroupInfo (kernel->kernel, device->id, CL_KERNEL_WORK_GROUP_SIZE, sizeof limit,
                            &limit, NULL);
  largest = _gpu_opencl_device_get_data (device->id, CL_DEVICE_MAX_WORK_ITEM_SIZES, &size, NULL);
  if (block != NULL)
    {
      g_free (chosen);
      chosen = g_strdup_printf (EXTENT, block[0], block[1], block[2]);
    }

  if (limit > 0 && largest != NULL && size >= 3 * sizeof *largest)
    _gpu_opencl_set_error_as (error, meaning, "clEnqueueNDRangeKernel", code,
                              "kernel \"%s\", grid " EXTENT ", block %s; a block may have at most "
                              EXTENT " work-items, and " SIZE " in total", kernel->name, grid[0],
                              grid[1], grid[2], chosen, largest[0], largest[1], largest[2], limit);
  else
    _gpu_opencl_set_error_as (error, meaning, "clEnqueueNDRangeKernel", code,
                              "kernel \"%s\", grid " EXTENT ", block %s", kernel->name, grid[0],
                              grid[1], grid[2], chosen);
}

/* Checks the block size, because the driver's error does not report the size that the source
 * requires. */
static gboolean
check_required_block (const GpuOpenclKernel  *kernel,
                      const gsize            *block,
                      GError                **error)
{
  const gsize *required = kernel->required_block;

  if (block == NULL || required[0] == 0
      || memcmp (block, required, sizeof kernel->required_block) == 0)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "kernel \"%s\" requires blocks of " EXTENT ", not " EXTENT, kernel->name,
               required[0], required[1], required[2], block[0], block[1], block[2]);

  return FALSE;
}

/* Checks the size of local memory, because PoCL ends the process if the size is too large. */
static gboolean
check_local_size (GpuOpenclKernel         *kernel,
                  GpuOpenclDevice         *device,
                  const GpuArgumentValue  *arguments,
                  guint                    n_arguments,
                  GError                 **error)
{
  cl_ulong largest = G_MAXUINT64;
  gsize given = 0;

  for (guint i = 0; i < n_arguments; i++)
    {
      if (arguments[i].kind == GPU_ARGUMENT_KIND_LOCAL &&
          !g_size_checked_add (&given, given, arguments[i].size))
        given = G_MAXSIZE;
    }

  if (given == 0 ||
      clGetDeviceInfo (device->id, CL_DEVICE_LOCAL_MEM_SIZE, sizeof largest, &largest, NULL) !=
      CL_SUCCESS)
    return TRUE;

  if (given <= largest)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_LAUNCH_FAILED,
               "kernel \"%s\" is given " SIZE " bytes of local memory, but a work-group on %s has "
               "at most %" G_GUINT64_FORMAT, kernel->name, given, device->base.id,
               (guint64) largest);
  return FALSE;
}

/* Rejects mip levels, because kernels get the whole image. Also rejects an image over a buffer as
 * the only memory of a launch: older versions of PoCL do not find the buffer of the image, and
 * crash. */
static gboolean
check_images (GpuOpenclKernel         *kernel,
              GpuOpenclDevice         *device,
              const GpuArgumentValue  *arguments,
              guint                    n_arguments,
              GError                 **error)
{
  const GpuOpenclImage *over_buffer = NULL;
  guint n_memories = 0;

  for (guint i = 0; i < n_arguments; i++)
    {
      const GpuOpenclImage *image = (GpuOpenclImage *) arguments[i].image;

      if (arguments[i].kind == GPU_ARGUMENT_KIND_MEMORY)
        n_memories += arguments[i].buffer != NULL
                      && ((GpuOpenclBuffer *) arguments[i].buffer)->svm == NULL;
      if (arguments[i].kind != GPU_ARGUMENT_KIND_IMAGE)
        continue;

      n_memories++;
      if (image->buffer != NULL)
        over_buffer = image;
      if (image->level == 0)
        continue;

      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "kernel \"%s\", argument %u: OpenCL kernels take images with all their mip "
                   "levels, not level %u alone", kernel->name, i, image->level);
      return FALSE;
    }

  if (over_buffer == NULL || n_memories > 1 || device->pocl == 0
      || device->pocl >= POCL_WITH_LONE_IMAGES)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
               "kernel \"%s\" is given an image over a buffer and no other memory, which would "
               "crash this version of PoCL; add another memory argument", kernel->name);
  return FALSE;
}

/* --- pointers --------------------------------------------------------------------------------- */

static inline gboolean
is_pointer (const GpuArgumentValue *argument)
{
  return argument->kind == GPU_ARGUMENT_KIND_MEMORY && argument->buffer == NULL
         && argument->data != NULL;
}

/* Returns a mask with a bit for each of the first 64 arguments that is a pointer. Returns 0 except
 * on NVIDIA, whose driver refuses launches after the same argument was set to a cl_mem and to a
 * pointer. */
static guint64
get_pointers (GpuOpenclDevice         *device,
              const GpuArgumentValue  *arguments,
              guint                    n_arguments)
{
  guint64 pointers = 0;

  for (guint i = 0; i < MIN (n_arguments, 64); i++)
    pointers |= (guint64) is_pointer (&arguments[i]) << i;

  return pointers != 0 && _gpu_opencl_device_is_nvidia (device) ? pointers : 0;
}

/* Returns the second kernel object, for launches with indirect access or pointer arguments. A
 * separate object is necessary because the list of indirectly accessible memory can be replaced but
 * not removed, and must not affect other launches. If @pointers differs from the value of the last
 * call, creates a new object; get_pointers() explains the reason. Caller holds `lock`. */
static cl_kernel
get_pointer_kernel_locked (GpuOpenclKernel  *kernel,
                           guint64           pointers,
                           GError          **error)
{
  cl_program program = NULL;
  cl_int code;

  if (kernel->pointer_kernel != NULL && kernel->pointers == pointers)
    return kernel->pointer_kernel;

  if (kernel->pointer_kernel != NULL)
    clReleaseKernel (g_steal_pointer (&kernel->pointer_kernel));

  kernel->pointers = pointers;

  code = clGetKernelInfo (kernel->kernel, CL_KERNEL_PROGRAM, sizeof program, &program, NULL);
  if (code != CL_SUCCESS)
    {
      _gpu_opencl_set_error (error, "clGetKernelInfo", code, "program of \"%s\"", kernel->name);
      return NULL;
    }

  kernel->pointer_kernel = clCreateKernel (program, kernel->name, &code);
  if (code == CL_SUCCESS)
    return kernel->pointer_kernel;

  kernel->pointer_kernel = NULL;
  _gpu_opencl_set_error (error, "clCreateKernel", code, "second object of \"%s\"", kernel->name);
  return NULL;
}

/* Returns the kernel object with all arguments set, or NULL on error. Caller holds `lock`. */
static cl_kernel
prepare_locked (GpuOpenclKernel        *kernel,
                GpuOpenclStream        *stream,
                const GpuNativeLaunch  *launch,
                GError                **error)
{
  GpuOpenclDevice *device = stream->device;
  const GpuLaunchOptions *options = launch->options;
  const gboolean has_indirect = options != NULL && options->n_indirect > 0;
  guint64 pointers = get_pointers (device, launch->arguments, launch->n_arguments);
  cl_kernel handle = kernel->kernel;

  if (has_indirect || pointers != 0)
    handle = get_pointer_kernel_locked (kernel, pointers, error);

  if (handle == NULL
      || (has_indirect && !_gpu_opencl_set_indirect (kernel, handle, device, options, error))
      || !set_arguments (kernel, handle, stream, launch->arguments, launch->n_arguments, error))
    return NULL;

  return handle;
}

/* --- launches --------------------------------------------------------------------------------- */

typedef struct
{
  gsize        global[3];
  gsize        block[3];
  gsize        offset[3];
  const gsize *local;               /* NULL to let the driver choose */
  const gsize *origin;              /* NULL for no offset */
  cl_uint      n_dimensions;
} Geometry;

static void
copy_extent (const GpuExtent *extent,
             gsize           *sizes)
{
  sizes[0] = extent->width;
  sizes[1] = extent->height;
  sizes[2] = extent->depth;
}

static void
set_geometry (const GpuOpenclKernel *kernel,
              const GpuExtent       *grid,
              const GpuExtent       *block,
              const GpuExtent       *offset,
              Geometry              *geometry)
{
  const gsize *local = NULL;
  cl_uint n = 3;

  copy_extent (grid, geometry->global);
  geometry->origin = NULL;

  if (block != NULL)
    {
      copy_extent (block, geometry->block);
      local = geometry->block;
    }
  else if (kernel->required_block[0] != 0)
    {
      /* Pass the block size that the source requires: otherwise the driver refuses the launch. */
      local = kernel->required_block;
    }

  if (offset != NULL)
    {
      copy_extent (offset, geometry->offset);
      geometry->origin = geometry->offset;
    }

  while (n > 1 && geometry->global[n - 1] == 1 && (local == NULL || local[n - 1] == 1)
         && (offset == NULL || geometry->offset[n - 1] == 0))
    n--;

  geometry->local = local;
  geometry->n_dimensions = n;
}

static gboolean
kernel_launch (GpuNativeStream        *stream,
               GpuNativeKernel        *native,
               const GpuNativeLaunch  *launch,
               GpuNativeEvent        **event,
               GError                **error)
{
  GpuOpenclKernel *kernel = (GpuOpenclKernel *) native;
  GpuOpenclDevice *device = ((GpuOpenclStream *) stream)->device;
  const GpuLaunchOptions *options = launch->options;
  const guint n = launch->n_arguments;
  Geometry geometry;
  cl_event handle = NULL;
  cl_kernel prepared;
  gboolean held;
  cl_int code;

  set_geometry (kernel, launch->grid, launch->block, options != NULL ? options->offset : NULL,
                &geometry);

  if (!check_required_block (kernel, geometry.local, error)
      || !check_local_size (kernel, device, launch->arguments, n, error)
      || (kernel->takes_images && !check_images (kernel, device, launch->arguments, n, error)))
    return FALSE;

  g_mutex_lock (&kernel->lock);
  prepared = prepare_locked (kernel, (GpuOpenclStream *) stream, launch, error);
  if (prepared == NULL)
    {
      g_mutex_unlock (&kernel->lock);
      return FALSE;
    }
  held = _gpu_opencl_hold_slices (stream);
  code = clEnqueueNDRangeKernel (_gpu_opencl_stream_handle (stream), prepared,
                                 geometry.n_dimensions, geometry.origin, geometry.global,
                                 geometry.local, 0, NULL, event != NULL ? &handle : NULL);
  _gpu_opencl_release_slices (stream, held);
  g_mutex_unlock (&kernel->lock);

  if (code != CL_SUCCESS)
    {
      set_launch_error (error, code, kernel, device, geometry.global, geometry.local);
      return FALSE;
    }
  if (event != NULL)
    *event = _gpu_opencl_event_new (stream, handle);

  return TRUE;
}

const GpuKernelOps _gpu_opencl_kernel_ops =
{
  .free           = kernel_free,
  .get_handle     = kernel_get_handle,
  .get_attributes = kernel_get_attributes,
  .launch         = kernel_launch
};
