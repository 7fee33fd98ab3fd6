/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The constructors of images. */
#include "config.h"

#include "gpumem/base/gpu-nick-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/format/gpu-region-private.h"
#include "gpumem/memory/gpu-image-private.h"

#define ACCESS_FLAGS (GPU_MEMORY_FLAGS_READ_ONLY | GPU_MEMORY_FLAGS_WRITE_ONLY \
                      | GPU_MEMORY_FLAGS_HOST_READ_ONLY \
                      | GPU_MEMORY_FLAGS_HOST_WRITE_ONLY | GPU_MEMORY_FLAGS_HOST_NO_ACCESS)

/* The parameters of an image with memory of its own. */
typedef struct
{
  const char           *function;
  GpuMemoryFlags        flags;
  GpuImageDescription  *description;
  gconstpointer         data;       /* (nullable): initial texels, copied */
  gpointer              host;       /* (nullable): host memory to use in place */
  gsize                 row_pitch;
  gsize                 slice_pitch;
} Creation;

static GpuNativeMemory *
create (GpuNativeContext  *context,
        gpointer           data,
        GError           **error)
{
  const GpuImageOps *ops = context->backend->image;
  Creation *creation = data;
  GpuNativeImage *image;

  if (creation->host != NULL)
    image = ops->create_for_host (context, creation->flags, creation->description, creation->host,
                                  creation->row_pitch, creation->slice_pitch, error);
  else
    image = ops->create (context, creation->flags, creation->description, creation->data,
                         creation->row_pitch, creation->slice_pitch, error);

  return image != NULL ? &image->base : NULL;
}

/* Makes @image the owner of @storage, and copies the attributes of the native image to @image. */
static void
set_storage (GpuImage   *image,
             GpuStorage *storage)
{
  GpuNativeImage *native = (GpuNativeImage *) storage->buffer;
  GpuMemory *memory = GPU_MEMORY (image);
  const GpuRegionSide side = { .row_pitch = native->row_pitch,
                               .slice_pitch = native->slice_pitch };
  GpuExtent bytes = native->description.extent;

  image->description = native->description;
  image->row_pitch = native->row_pitch;
  image->slice_pitch = native->slice_pitch;
  _gpu_memory_set_storage (memory, storage);
  bytes.width *= native->description.texel_size;
  memory->span = MAX (memory->size, _gpu_region_get_end (&side, &bytes));
}

static gboolean
initialize (GpuImage  *image,
            Creation  *creation,
            GBytes    *host_bytes,
            GError   **error)
{
  GpuMemory *memory = GPU_MEMORY (image);
  GpuNativeContext *context;
  GpuNativeMemory *native;
  gsize size;

  if (memory->context == NULL)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "%s: no context was given",
                   creation->function);
      return FALSE;
    }

  if (!_gpu_context_check (memory->context, creation->function, error))
    return FALSE;

  context = _gpu_context_get_native (memory->context);

  if (!_gpu_image_check_description (context, creation->flags, creation->description,
                                     creation->function, error))
    return FALSE;

  if (creation->description->type == GPU_IMAGE_TYPE_IMAGE_1D_BUFFER)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: an image of type 1d-buffer is created over a buffer, with "
                   "gpu_image_new_for_buffer()", creation->function);
      return FALSE;
    }

  _gpu_image_get_size (creation->description, creation->description->n_levels, &size);
  native = _gpu_memory_allocate (memory->context, creation->function, size, create, creation,
                                 error);

  if (native == NULL)
    return FALSE;

  if (host_bytes != NULL)
    memory->host_bytes = g_bytes_ref (host_bytes);

  set_storage (image, _gpu_storage_new (context, native, creation->flags,
                                        host_bytes == NULL ? GPU_STORAGE_DEVICE
                                                           : GPU_STORAGE_FOREIGN,
                                        host_bytes != NULL ? g_bytes_ref (host_bytes) : NULL,
                                        host_bytes != NULL ? (GDestroyNotify) g_bytes_unref
                                                           : NULL));

  return TRUE;
}

/* Stores the requested number of layers in the extent of an array: in the height for an array of
 * one-dimensional images, and in the depth for any other array. Returns FALSE if the program set
 * that dimension, or set a number of layers for a type without layers. */
static gboolean
set_layers (GpuImage  *image,
            GError   **error)
{
  GpuImageDescription *description = &image->description;
  const gboolean has_layers = _gpu_image_type_has_layers (description->type);
  gsize *dimension = _gpu_image_type_get_n_dimensions (description->type) == 1
                     ? &description->extent.height : &description->extent.depth;

  if (has_layers ? *dimension == 1 : image->n_layers == 1)
    {
      if (has_layers)
        *dimension = image->n_layers;
      return TRUE;
    }

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "gpu_image_new: height %" G_GSIZE_FORMAT ", depth %" G_GSIZE_FORMAT " and n-layers %"
               G_GSIZE_FORMAT " are not valid for an image of type %s", description->extent.height,
               description->extent.depth, image->n_layers,
               _gpu_image_type_get_name (description->type));

  return FALSE;
}

gboolean
_gpu_image_initialize (GpuImage  *image,
                       GError   **error)
{
  GpuImageDescription *description = &image->description;
  Creation creation = { .function = "gpu_image_new", .flags = GPU_MEMORY (image)->flags,
                        .description = description };

  if (GPU_MEMORY (image)->context != NULL && !image->has_format)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: no format was given", creation.function);
      return FALSE;
    }

  return (!_gpu_image_type_is_known (description->type) || set_layers (image, error))
         && initialize (image, &creation, NULL, error);
}

static GpuImage *
image_new (GpuContext            *context,
           const GpuImageFormat  *format,
           GpuImageType           type,
           const GpuExtent       *extent,
           guint                  n_levels,
           Creation              *creation,
           GBytes                *host_bytes,
           GError               **error)
{
  g_autoptr (GpuImage) image = NULL;
  GpuImageDescription description = { .type = type, .format = *format, .extent = *extent,
                                      .n_levels = n_levels };

  image = g_object_new (GPU_TYPE_IMAGE, "context", context, NULL);
  creation->description = &description;

  return initialize (image, creation, host_bytes, error) ? g_steal_pointer (&image) : NULL;
}

/**
 * gpu_image_new:
 * @context: a #GpuContext
 * @flags: the intended use of the image, without %GPU_MEMORY_FLAGS_SHAREABLE
 * @format: the format of the texels
 * @type: the type of the image, except %GPU_IMAGE_TYPE_IMAGE_1D_BUFFER
 * @extent: width in texels, height in rows and depth in slices. For an array of one-dimensional
 *   images, the height is the number of layers; for other arrays and for cubes, the depth is the
 *   number of layers. Dimensions that the type does not have must be 1
 * @error: return location for an error
 *
 * Creates an image (OpenCL: clCreateImage; CUDA: cuArray3DCreate). The contents are undefined. If
 * the driver is out of memory, #GpuContext::memory-pressure is emitted. Does not block.
 *
 * Returns: (transfer full): the image, or %NULL with %GPU_ERROR_NOT_SUPPORTED if the device has no
 *   images of this format and type, %GPU_ERROR_INVALID_ARGUMENT for a size that is empty or too
 *   large, or flags that cannot be combined, %GPU_ERROR_OUT_OF_DEVICE_MEMORY,
 *   %GPU_ERROR_DEVICE_LOST, or the driver's error
 *
 * Since: 0.1
 */
GpuImage *
gpu_image_new (GpuContext            *context,
               GpuMemoryFlags         flags,
               const GpuImageFormat  *format,
               GpuImageType           type,
               const GpuExtent       *extent,
               GError               **error)
{
  Creation creation = { .function = "gpu_image_new", .flags = flags };

  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);
  g_return_val_if_fail (format != NULL, NULL);
  g_return_val_if_fail (extent != NULL, NULL);

  return image_new (context, format, type, extent, 1, &creation, NULL, error);
}

/**
 * gpu_image_new_mipmapped:
 * @context: a #GpuContext
 * @flags: the intended use of the image, without %GPU_MEMORY_FLAGS_SHAREABLE
 * @format: the format of the texels
 * @type: the type of the image, except %GPU_IMAGE_TYPE_IMAGE_1D_BUFFER
 * @extent: size of the first level, as in gpu_image_new()
 * @n_levels: number of mip levels, each half as wide, high and deep as the previous level
 * @error: return location for an error
 *
 * Creates an image with mip levels (OpenCL: clCreateImage with the extension cl_khr_mipmap_image;
 * CUDA: cuMipmappedArrayCreate). Kernels read all levels through a sampler. To copy or write a
 * single level, get it with gpu_image_get_level(). Copies from or to the image itself use its first
 * level. Does not block.
 *
 * Returns: (transfer full): the image, or %NULL with the errors of gpu_image_new(), with
 *   %GPU_ERROR_NOT_SUPPORTED if the device does not have %GPU_CAPABILITIES_MIPMAPS, or with
 *   %GPU_ERROR_INVALID_ARGUMENT if @n_levels is 0 or exceeds the number of levels from @extent down
 *   to a single texel
 *
 * Since: 0.1
 */
GpuImage *
gpu_image_new_mipmapped (GpuContext            *context,
                         GpuMemoryFlags         flags,
                         const GpuImageFormat  *format,
                         GpuImageType           type,
                         const GpuExtent       *extent,
                         guint                  n_levels,
                         GError               **error)
{
  Creation creation = { .function = "gpu_image_new_mipmapped", .flags = flags };

  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);
  g_return_val_if_fail (format != NULL, NULL);
  g_return_val_if_fail (extent != NULL, NULL);

  return image_new (context, format, type, extent, n_levels, &creation, NULL, error);
}

/* Replaces pitches of 0 in @creation by the pitches of texels without gaps. Returns FALSE if @bytes
 * is too short for the image or, for initial texels without pitches, too long. */
static gboolean
resolve_bytes (Creation              *creation,
               const GpuImageFormat  *format,
               const GpuExtent       *extent,
               GBytes                *bytes,
               GError               **error)
{
  GpuLayout layout = { 0, 0, 0, creation->row_pitch, creation->slice_pitch };
  GpuExtent in_bytes = *extent;
  GpuRegionSide side;
  const gboolean is_exact = creation->data != NULL && creation->row_pitch == 0
                            && creation->slice_pitch == 0;
  gsize end;

  /* On overflow, continue with a row that is too long for any device: a later check sets the
   * error. */
  if (!g_size_checked_mul (&in_bytes.width, extent->width,
                           gpu_image_format_get_texel_size (format)))
    in_bytes.width = G_MAXSIZE;

  if (!_gpu_region_resolve (&layout, &in_bytes, creation->function, "bytes", &side, &end, error))
    return FALSE;

  creation->row_pitch = side.row_pitch;
  creation->slice_pitch = side.slice_pitch;

  if (is_exact ? end == g_bytes_get_size (bytes) : end <= g_bytes_get_size (bytes))
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: an image of %" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT
               " texels, row pitch %" G_GSIZE_FORMAT ", slice pitch %" G_GSIZE_FORMAT ", is %"
               G_GSIZE_FORMAT " bytes, but %" G_GSIZE_FORMAT " were given",
               creation->function, extent->width, extent->height, extent->depth, side.row_pitch,
               side.slice_pitch, end, g_bytes_get_size (bytes));

  return FALSE;
}

/**
 * gpu_image_new_from_bytes:
 * @context: a #GpuContext
 * @flags: the intended use of the image, without %GPU_MEMORY_FLAGS_SHAREABLE
 * @format: the format of the texels
 * @type: the type of the image, except %GPU_IMAGE_TYPE_IMAGE_1D_BUFFER
 * @extent: size of the image, as in gpu_image_new()
 * @bytes: the initial texels
 * @row_pitch: bytes from one row to the next, 0 for rows without gaps
 * @slice_pitch: bytes from one slice to the next, 0 for slices without gaps
 * @error: return location for an error
 *
 * Creates an image and copies @bytes to it (OpenCL: clCreateImage with CL_MEM_COPY_HOST_PTR; CUDA:
 * cuArray3DCreate, cuMemcpy3DAsync). In @bytes, each layer of an array of one-dimensional images is
 * a row. Blocks until the copy has completed.
 *
 * Returns: (transfer full): the image, or %NULL with the errors of gpu_image_new(), or with
 *   %GPU_ERROR_INVALID_ARGUMENT if a pitch is too small, if @bytes is too short for the image, or
 *   if both pitches are 0 and @bytes is too long
 *
 * Since: 0.1
 */
GpuImage *
gpu_image_new_from_bytes (GpuContext            *context,
                          GpuMemoryFlags         flags,
                          const GpuImageFormat  *format,
                          GpuImageType           type,
                          const GpuExtent       *extent,
                          GBytes                *bytes,
                          gsize                  row_pitch,
                          gsize                  slice_pitch,
                          GError               **error)
{
  Creation creation = { .function = "gpu_image_new_from_bytes", .flags = flags,
                        .row_pitch = row_pitch, .slice_pitch = slice_pitch };

  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);
  g_return_val_if_fail (format != NULL, NULL);
  g_return_val_if_fail (extent != NULL, NULL);
  g_return_val_if_fail (bytes != NULL, NULL);

  creation.data = g_bytes_get_data (bytes, NULL);

  if (!resolve_bytes (&creation, format, extent, bytes, error))
    return NULL;

  return image_new (context, format, type, extent, 1, &creation, NULL, error);
}

/* Returns whether an image can use @size bytes of host memory in place. Even for the last row and
 * the last slice, drivers access a whole pitch, so the memory must include the gaps after them. */
static gboolean
check_host (const Creation        *creation,
            const GpuImageFormat  *format,
            const GpuExtent       *extent,
            gsize                  size,
            GError               **error)
{
  const gsize texel_size = MAX (gpu_image_format_get_texel_size (format), 1);
  g_autofree char *flags = NULL;
  gsize needed;

  if ((creation->flags & (GPU_MEMORY_FLAGS_ALLOC_HOST | GPU_MEMORY_FLAGS_SHAREABLE)) == 0
      && creation->row_pitch % texel_size == 0
      && creation->slice_pitch % MAX (creation->row_pitch, 1) == 0
      && g_size_checked_mul (&needed, extent->depth, extent->depth > 1 ? creation->slice_pitch
                             : creation->row_pitch * extent->height)
      && needed <= size)
    return TRUE;

  flags = _gpu_flags_get_nicks (GPU_TYPE_MEMORY_FLAGS, creation->flags);
  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: an image over existing host memory cannot have memory flags %s, row pitch %"
               G_GSIZE_FORMAT " and slice pitch %" G_GSIZE_FORMAT " with texels of %" G_GSIZE_FORMAT
               " bytes in %" G_GSIZE_FORMAT " bytes, which must include the gaps after the last "
               "row and slice",
               creation->function, flags, creation->row_pitch, creation->slice_pitch,
               texel_size, size);

  return FALSE;
}

/**
 * gpu_image_new_for_host_bytes:
 * @context: a #GpuContext
 * @flags: the intended use of the image, without %GPU_MEMORY_FLAGS_ALLOC_HOST and
 *   %GPU_MEMORY_FLAGS_SHAREABLE
 * @format: the format of the texels
 * @type: the type of the image, except %GPU_IMAGE_TYPE_IMAGE_1D_BUFFER
 * @extent: size of the image, as in gpu_image_new()
 * @bytes: host memory, which must include the gaps after the last row and the last slice
 * @row_pitch: bytes from one row to the next, a multiple of the texel size; 0 for rows without gaps
 * @slice_pitch: bytes from one slice to the next, a multiple of the row pitch; 0 for slices without
 *   gaps
 * @error: return location for an error
 *
 * Creates an image that uses host memory in place and keeps a reference to @bytes (OpenCL:
 * clCreateImage with CL_MEM_USE_HOST_PTR). Work that writes the image changes the contents of
 * @bytes, so @bytes must be writable if any work writes the image. Map the image to access the
 * contents from the host. Does not block.
 *
 * Returns: (transfer full): the image, or %NULL with %GPU_ERROR_NOT_SUPPORTED if the driver cannot
 *   use host memory in place (the CUDA driver never can), or the errors of
 *   gpu_image_new_from_bytes()
 *
 * Since: 0.1
 */
GpuImage *
gpu_image_new_for_host_bytes (GpuContext            *context,
                              GpuMemoryFlags         flags,
                              const GpuImageFormat  *format,
                              GpuImageType           type,
                              const GpuExtent       *extent,
                              GBytes                *bytes,
                              gsize                  row_pitch,
                              gsize                  slice_pitch,
                              GError               **error)
{
  Creation creation = { .function = "gpu_image_new_for_host_bytes", .flags = flags,
                        .row_pitch = row_pitch, .slice_pitch = slice_pitch };
  const GpuBackend *backend;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);
  g_return_val_if_fail (format != NULL, NULL);
  g_return_val_if_fail (extent != NULL, NULL);
  g_return_val_if_fail (bytes != NULL, NULL);

  if (!_gpu_context_check (context, creation.function, error)
      || !_gpu_image_check_support (_gpu_context_get_native (context), creation.function, error)
      || !resolve_bytes (&creation, format, extent, bytes, error))
    return NULL;

  backend = _gpu_context_get_native (context)->backend;

  if (backend->image->create_for_host == NULL)
    {
      _gpu_backend_fail (backend, creation.function, "images over host memory", error);
      return NULL;
    }

  if (!check_host (&creation, format, extent, g_bytes_get_size (bytes), error))
    return NULL;

  creation.host = (gpointer) g_bytes_get_data (bytes, NULL);

  return image_new (context, format, type, extent, 1, &creation, bytes, error);
}

/* --- views of other memory -------------------------------------------------------------------- */

static GpuImage *
adopt_view (GpuContext      *context,
            GpuStorage      *storage,
            GpuNativeImage  *native,
            GpuMemoryFlags   flags,
            gsize            offset)
{
  GpuImage *image = g_object_new (GPU_TYPE_IMAGE, "context", context, NULL);

  set_storage (image, _gpu_storage_new_slice (storage, &native->base, flags, offset));

  return image;
}

/* Returns whether the texels fit into rows of @row_pitch bytes, and whether a buffer of @size bytes
 * can hold these rows. */
static gboolean
check_rows (const GpuImageDescription  *description,
            gsize                       row_pitch,
            gsize                       size,
            const char                 *function,
            GError                    **error)
{
  const GpuExtent *extent = &description->extent;
  gsize row_size = extent->width * description->texel_size;
  gsize end;

  if (row_pitch < row_size || row_pitch % description->texel_size != 0)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: a row pitch of %" G_GSIZE_FORMAT " bytes does not fit rows of %"
                   G_GSIZE_FORMAT " bytes with texels of %" G_GSIZE_FORMAT, function, row_pitch,
                   row_size, description->texel_size);
      return FALSE;
    }

  if (g_size_checked_mul (&end, extent->height - 1, row_pitch)
      && g_size_checked_add (&end, end, row_size) && end <= size)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: %" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT " texels of %" G_GSIZE_FORMAT
               " bytes with a row pitch of %" G_GSIZE_FORMAT " exceed the %" G_GSIZE_FORMAT
               " bytes of the buffer", function, extent->width, extent->height,
               description->texel_size, row_pitch, size);

  return FALSE;
}

static gboolean
check_view_type (GpuNativeContext  *context,
                 GpuImageType       type,
                 const char        *function,
                 GError           **error)
{
  gboolean is_2d = type == GPU_IMAGE_TYPE_IMAGE_2D;

  if (!is_2d && type != GPU_IMAGE_TYPE_IMAGE_1D_BUFFER)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: an image over a buffer must be of type 1d-buffer or 2d, not %s", function,
                   _gpu_image_type_get_name (type));
      return FALSE;
    }

  if (context->backend->image->create_for_buffer != NULL
      && (!is_2d || (context->devices[0]->capabilities & GPU_CAPABILITIES_IMAGE_FROM_BUFFER) != 0))
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
               "%s: %s has no images of type %s over buffers", function,
               context->devices[0]->id, _gpu_image_type_get_name (type));

  return FALSE;
}

/* Caller has acquired the storage of the buffer. */
static GpuNativeImage *
create_view (GpuBuffer            *buffer,
             GpuMemoryFlags       *flags,
             GpuImageDescription  *description,
             gsize                 row_pitch,
             const char           *function,
             GError              **error)
{
  GpuMemory *memory = GPU_MEMORY (buffer);
  GpuStorage *storage = memory->storage;
  GpuNativeContext *context = storage->context;
  GpuMemoryFlags given = *flags;
  GpuNativeImage *native;

  if (!_gpu_context_check (memory->context, function, error)
      || !_gpu_memory_inherit_flags (memory, function, flags, error)
      || !_gpu_image_check_description (context, given | (*flags & ACCESS_FLAGS), description,
                                        function, error)
      || !check_view_type (context, description->type, function, error))
    return NULL;

  if (storage->buffer->is_host_only)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "%s: kernels on %s cannot access the %" G_GSIZE_FORMAT
                   " bytes of host memory", function, context->devices[0]->id, memory->size);
      return NULL;
    }

  if (row_pitch == 0 && description->type == GPU_IMAGE_TYPE_IMAGE_2D)
    row_pitch = gpu_buffer_get_row_pitch (buffer);
  if (row_pitch == 0)
    row_pitch = description->extent.width * description->texel_size;

  if (!check_rows (description, row_pitch, memory->size, function, error))
    return NULL;

  native = context->backend->image->create_for_buffer (context, *flags & ACCESS_FLAGS, description,
                                                       storage->buffer, row_pitch, error);
  if (native == NULL)
    g_prefix_error (error, "%s: ", function);

  return native;
}

/**
 * gpu_image_new_for_buffer:
 * @buffer: a #GpuBuffer
 * @flags: the intended use of the image. Without a flag for access by kernels, the image inherits
 *   this access from @buffer; without a flag for access by the host, it inherits that access. The
 *   flags must not permit an access that the flags of @buffer forbid
 * @format: the format of the texels
 * @type: %GPU_IMAGE_TYPE_IMAGE_1D_BUFFER or %GPU_IMAGE_TYPE_IMAGE_2D
 * @width: number of texels in a row
 * @height: number of rows; 1 for %GPU_IMAGE_TYPE_IMAGE_1D_BUFFER
 * @row_pitch: bytes from one row to the next. If it is 0, the rows of a two-dimensional image have
 *   the row pitch of @buffer, or no gaps if @buffer has no row pitch
 * @error: return location for an error
 *
 * Creates an image over the memory of a buffer and keeps a reference to @buffer (OpenCL:
 * clCreateImage with CL_MEM_OBJECT_IMAGE1D_BUFFER or CL_MEM_OBJECT_IMAGE2D; CUDA: pitch-linear
 * memory). Writes through the buffer are visible in the image and vice versa, and the library
 * orders uses of the two objects. Devices require an aligned row pitch, which
 * gpu_buffer_new_pitched() provides. Does not block.
 *
 * Returns: (transfer full): the image, or %NULL with %GPU_ERROR_INVALID_ARGUMENT if the buffer is
 *   too small, the device does not support the pitch or the alignment of the buffer, or the flags
 *   cannot be combined; %GPU_ERROR_NOT_SUPPORTED for a two-dimensional image if the device does not
 *   have %GPU_CAPABILITIES_IMAGE_FROM_BUFFER; %GPU_ERROR_RELEASED; or the errors of gpu_image_new()
 *
 * Since: 0.1
 */
GpuImage *
gpu_image_new_for_buffer (GpuBuffer             *buffer,
                          GpuMemoryFlags         flags,
                          const GpuImageFormat  *format,
                          GpuImageType           type,
                          gsize                  width,
                          gsize                  height,
                          gsize                  row_pitch,
                          GError               **error)
{
  const char *function = "gpu_image_new_for_buffer";
  GpuImageDescription description = { .type = type, .extent = { width, height, 1 },
                                      .n_levels = 1 };
  GpuMemory *memory = (GpuMemory *) buffer;
  GpuNativeImage *native = NULL;
  GpuImage *image = NULL;
  GpuStorage *storage;

  g_return_val_if_fail (GPU_IS_BUFFER (buffer), NULL);
  g_return_val_if_fail (format != NULL, NULL);

  storage = _gpu_memory_acquire (memory, function, error);

  if (storage == NULL)
    return NULL;

  description.format = *format;
  native = create_view (buffer, &flags, &description, row_pitch, function, error);

  if (native != NULL)
    {
      image = adopt_view (memory->context, storage, native, flags, 0);
      image->buffer = g_object_ref (buffer);
    }

  _gpu_storage_unuse (storage);

  return image;
}

/**
 * gpu_image_get_level:
 * @image: a #GpuImage
 * @level: index of the mip level, from 0
 * @error: return location for an error
 *
 * Gets a mip level as an image that has only this level, for copies and writes (OpenCL: the cl_mem
 * of @image, with the level in the origins of copies; CUDA: cuMipmappedArrayGetLevel). The new
 * object keeps a reference to @image, and the library orders uses of the two objects. Level 0 of an
 * image without mip levels is the whole image. May be called from any thread; does not block.
 *
 * Returns: (transfer full): the level, or %NULL with %GPU_ERROR_INVALID_ARGUMENT if @image does not
 *   have that level, %GPU_ERROR_RELEASED, %GPU_ERROR_NOT_SUPPORTED if the driver cannot address
 *   levels, or the driver's error
 *
 * Since: 0.1
 */
GpuImage *
gpu_image_get_level (GpuImage  *image,
                     guint      level,
                     GError   **error)
{
  const char *function = "gpu_image_get_level";
  GpuMemory *memory = (GpuMemory *) image;
  GpuNativeImage *native = NULL;
  GpuImage *result = NULL;
  GpuStorage *storage;
  gsize offset = 0;

  g_return_val_if_fail (GPU_IS_IMAGE (image), NULL);

  storage = _gpu_memory_acquire (memory, function, error);

  if (storage == NULL)
    return NULL;

  if (level >= image->description.n_levels)
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                 "%s: level %u of an image with %u levels", function, level,
                 image->description.n_levels);
  else if (storage->context->backend->image->get_level == NULL)
    _gpu_backend_fail (storage->context->backend, function, "access to mip levels", error);
  else if ((native = storage->context->backend->image->get_level (storage->context,
                                                                  (GpuNativeImage *)
                                                                  storage->buffer, level,
                                                                  error)) == NULL)
    g_prefix_error (error, "%s: ", function);

  if (native != NULL)
    {
      _gpu_image_get_size (&image->description, level, &offset);
      result = adopt_view (memory->context, storage, native, memory->flags, offset);
      result->parent = g_object_ref (image);
      g_set_object (&result->buffer, image->buffer);
      result->level = level;
    }

  _gpu_storage_unuse (storage);

  return result;
}

/**
 * gpu_image_new_wrapped:
 * @context: a #GpuContext
 * @handle: the driver's handle: a cl_mem on OpenCL, a CUarray on CUDA
 * @format: (nullable): the format of the texels, or %NULL for the format that the driver reports
 * @mode: whether the caller keeps the ownership of @handle, or the image takes it
 * @owner: (nullable): a #GBytes, or %NULL. The library keeps a reference to it until no object
 *   refers to the memory, and all work that uses the memory has completed
 * @error: return location for an error
 *
 * Creates an object for an image that was created outside this library (OpenCL: clGetImageInfo,
 * clRetainMemObject if @mode is %GPU_WRAP_MODE_BORROW; CUDA: cuArray3DGetDescriptor). Other code
 * may continue to use the image. The CUDA driver does not report whether the integers of an array
 * are normalized: if @format is %NULL, the library assumes that they are not. If the call fails,
 * the caller keeps ownership of @handle, even if @mode is %GPU_WRAP_MODE_ADOPT.
 *
 * Uses of the memory outside this library are not tracked. If another image of @context refers to
 * the same memory, the library orders uses of the two images. An exception is an array that
 * cuMipmappedArrayGetLevel() returned for a mip level after the first: the library treats it as
 * separate memory, and does not order its uses with those of the mipmapped array. Use
 * gpu_image_get_level() for such a level instead. The CUDA driver does not report the context of an
 * array, so the caller must ensure that the array belongs to @context.
 *
 * Returns: (transfer full): the image, or %NULL with %GPU_ERROR_INVALID_ARGUMENT if @handle is 0,
 *   belongs to another context, is not an image or has another format, %GPU_ERROR_NOT_SUPPORTED if
 *   the back end cannot wrap images or the format has no name in this library, or the driver's
 *   error
 *
 * Since: 0.1
 */
GpuImage *
gpu_image_new_wrapped (GpuContext            *context,
                       guint64                handle,
                       const GpuImageFormat  *format,
                       GpuWrapMode            mode,
                       GBytes                *owner,
                       GError               **error)
{
  const char *function = "gpu_image_new_wrapped";
  GpuNativeContext *native;
  GpuNativeImage *wrapped = NULL;
  GpuImage *image;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);

  if (!_gpu_context_check (context, function, error))
    return NULL;

  native = _gpu_context_get_native (context);

  if (!_gpu_image_check_support (native, function, error))
    return NULL;

  if (handle == 0)
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "%s: the handle is 0", function);
  else if (native->backend->image->wrap == NULL)
    _gpu_backend_fail (native->backend, function, "support for wrapping images", error);
  else if ((wrapped = native->backend->image->wrap (native, handle, format, mode, error)) == NULL)
    g_prefix_error (error, "%s: ", function);

  if (wrapped == NULL)
    return NULL;

  image = g_object_new (GPU_TYPE_IMAGE, "context", context, NULL);
  set_storage (image, _gpu_storage_new (native, &wrapped->base, GPU_MEMORY_FLAGS_NONE,
                                        GPU_STORAGE_FOREIGN,
                                        owner != NULL ? g_bytes_ref (owner) : NULL,
                                        owner != NULL ? (GDestroyNotify) g_bytes_unref : NULL));

  return image;
}
