/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Regions of memory, and whole images. The transfer of an image runs at once if no work is pending.
 * Otherwise, the override in Python submits the transfer and waits. */
#include "gpumem-fast-function.h"

static GpuFastMethod copy_method = {
  { "destination", "source", "extent", "destination_layout", "source_layout" }, 3, { NULL }, NULL
};
static GpuFastMethod write_method = {
  { "destination", "data", "extent", "destination_layout", "data_layout", "copy" }, 3, { NULL },
  NULL
};
static GpuFastMethod fill_method = {
  { "image", "color", "origin", "extent" }, 2, { NULL }, NULL
};
static GpuFastMethod image_read_method = {
  { "target", "origin", "extent", "stream" }, 1, { NULL }, NULL
};
static GpuFastMethod image_write_method = {
  { "data", "origin", "extent", "row_pitch", "slice_pitch", "stream" }, 1, { NULL }, NULL
};

#define N_LAYOUT 5                  /* numbers */
#define N_ORIGIN 3

static GpuStream *
get_stream (PyObject *self)
{
  return (GpuStream *) ((PyGObject *) self)->obj;
}

/* The arguments that copies and writes of regions share. */
typedef struct
{
  GpuMemory       *destination;
  GpuExtent        extent;
  const GpuLayout *to;              /* NULL for no gaps */
  const GpuLayout *from;
  GpuLayout        to_storage;
  GpuLayout        from_storage;
} Region;

/* Parses all arguments, and converts all but the second. Returns FALSE for arguments that only the
 * overrides handle. */
static gboolean
parse_region (const GpuFastCall  *call,
              PyObject          **values,
              Region             *region)
{
  return gpu_fast_parse (call, values)
         && (region->destination = gpu_fast_peek (values[0], gpu_fast_types.memory)) != NULL
         && gpu_fast_to_extent (values[2], &region->extent) && region->extent.depth != 0
         && gpu_fast_to_layout (values[3], N_LAYOUT, &region->to_storage, &region->to)
         && gpu_fast_to_layout (values[4], N_LAYOUT, &region->from_storage, &region->from);
}

static PyObject *
stream_copy_region (PyObject         *self,
                    PyObject *const  *args,
                    Py_ssize_t        n_args,
                    PyObject         *names)
{
  const GpuFastCall call = { &copy_method, self, args, n_args, names };
  PyObject *values[GPU_FAST_MAX_PARAMETERS];
  GpuMemory *source;
  Region region;
  GError *error = NULL;
  gboolean success;

  if (!parse_region (&call, values, &region)
      || (source = gpu_fast_peek (values[1], gpu_fast_types.memory)) == NULL)
    return gpu_fast_pass_on (&call);

  Py_BEGIN_ALLOW_THREADS
  success = gpu_stream_copy_region (get_stream (self), region.destination, region.to, source,
                                    region.from, &region.extent, &error);
  Py_END_ALLOW_THREADS

  return gpu_fast_finish (success, error);
}

GPU_FAST_DEFINE_FRAMED (stream_copy_region, "Stream.copy_region", "gpu_stream_copy_region")

static PyObject *
stream_write_region (PyObject         *self,
                     PyObject *const  *args,
                     Py_ssize_t        n_args,
                     PyObject         *names)
{
  const GpuFastCall call = { &write_method, self, args, n_args, names };
  PyObject *values[GPU_FAST_MAX_PARAMETERS];
  g_autoptr (GBytes) bytes = NULL;
  Region region;
  GError *error = NULL;
  gboolean success;

  if (!parse_region (&call, values, &region) || (bytes = gpu_fast_copy_data (values[1])) == NULL)
    return gpu_fast_pass_on (&call);

  Py_BEGIN_ALLOW_THREADS
  success = gpu_stream_write_region (get_stream (self), region.destination, region.to, bytes,
                                     region.from, &region.extent, &error);
  Py_END_ALLOW_THREADS

  return gpu_fast_finish (success, error);
}

GPU_FAST_DEFINE_FRAMED (stream_write_region, "Stream.write_region", "gpu_stream_write_region")

static PyObject *
stream_fill_image (PyObject         *self,
                   PyObject *const  *args,
                   Py_ssize_t        n_args,
                   PyObject         *names)
{
  const GpuFastCall call = { &fill_method, self, args, n_args, names };
  PyObject *values[GPU_FAST_MAX_PARAMETERS];
  const GpuLayout *origin;
  GpuLayout storage;
  GpuExtent extent;
  GpuImage *image;
  GError *error = NULL;
  gboolean success;
  gboolean is_whole;
  gpointer boxed;
  GpuColor color;

  if (!gpu_fast_parse (&call, values)
      || (image = gpu_fast_peek (values[0], gpu_fast_types.image)) == NULL
      || !gpu_fast_to_boxed (values[1], GPU_TYPE_COLOR, FALSE, &boxed)
      || !gpu_fast_to_layout (values[2], N_ORIGIN, &storage, &origin))
    return gpu_fast_pass_on (&call);

  is_whole = gpu_fast_is_none (values[3]);

  /* The override replaces the depth 0, which C refuses. */
  if (!is_whole && (!gpu_fast_to_extent (values[3], &extent) || extent.depth == 0))
    return gpu_fast_pass_on (&call);

  color = *(const GpuColor *) boxed;

  Py_BEGIN_ALLOW_THREADS
  success = gpu_stream_fill_image (get_stream (self), image, &color, origin,
                                   is_whole ? NULL : &extent, &error);
  Py_END_ALLOW_THREADS

  return gpu_fast_finish (success, error);
}

GPU_FAST_DEFINE_FRAMED (stream_fill_image, "Stream.fill_image", "gpu_stream_fill_image")

/* --- images ----------------------------------------------------------------------------------- */

/* Exports contiguous data of the size of all texels whose copy does not take long. */
static gboolean
export_texels (GpuImage  *image,
               PyObject  *value,
               gboolean   writable,
               Py_buffer *data)
{
  GpuExtent extent;
  gsize size;

  if (!gpu_fast_export_short (value, writable, data))
    return FALSE;

  gpu_image_get_extent (image, &extent);
  size = extent.width * extent.height * extent.depth
         * gpu_image_format_get_texel_size (gpu_image_get_format (image));

  if (size > 0 && (gsize) data->len == size)
    return TRUE;

  PyBuffer_Release (data);

  return FALSE;
}

static PyObject *
image_read_into (PyObject         *self,
                 PyObject *const  *args,
                 Py_ssize_t        n_args,
                 PyObject         *names)
{
  const GpuFastCall call = { &image_read_method, self, args, n_args, names };
  GpuImage *image = (GpuImage *) ((PyGObject *) self)->obj;
  PyObject *values[GPU_FAST_MAX_PARAMETERS];
  GError *error = NULL;
  gboolean success;
  gpointer stream;
  Py_buffer data;
  gsize size;

  if (!gpu_fast_parse (&call, values) || !gpu_fast_is_none (values[1])
      || !gpu_fast_is_none (values[2])
      || !gpu_fast_peek_optional (values[3], gpu_fast_types.stream, &stream)
      || !export_texels (image, values[0], TRUE, &data))
    return gpu_fast_pass_on (&call);

  size = data.len;

  Py_BEGIN_ALLOW_THREADS
  success = _gpu_binding_try_read_image (image, stream, data.buf, size, &error);
  Py_END_ALLOW_THREADS

  PyBuffer_Release (&data);

  if (error != NULL)
    return gpu_fast_raise (error);

  return success ? PyLong_FromSize_t (size) : gpu_fast_pass_on (&call);
}

GPU_FAST_DEFINE_FRAMED (image_read_into, "Image.read_into",
                        "gpu_image_read gpu_event_poll")

static PyObject *
image_write (PyObject         *self,
             PyObject *const  *args,
             Py_ssize_t        n_args,
             PyObject         *names)
{
  const GpuFastCall call = { &image_write_method, self, args, n_args, names };
  GpuImage *image = (GpuImage *) ((PyGObject *) self)->obj;
  PyObject *values[GPU_FAST_MAX_PARAMETERS];
  GError *error = NULL;
  gboolean success;
  gpointer stream;
  Py_buffer data;

  if (!gpu_fast_parse (&call, values) || !gpu_fast_is_none (values[1])
      || !gpu_fast_is_none (values[2]) || values[3] != NULL || values[4] != NULL
      || !gpu_fast_peek_optional (values[5], gpu_fast_types.stream, &stream)
      || !export_texels (image, values[0], FALSE, &data))
    return gpu_fast_pass_on (&call);

  Py_BEGIN_ALLOW_THREADS
  success = _gpu_binding_try_write_image (image, stream, data.buf, data.len, &error);
  Py_END_ALLOW_THREADS

  PyBuffer_Release (&data);

  return success || error != NULL ? gpu_fast_finish (success, error) : gpu_fast_pass_on (&call);
}

GPU_FAST_DEFINE_FRAMED (image_write, "Image.write", "gpu_image_write gpu_event_poll")

static gboolean
install_images (void)
{
  static PyMethodDef read_def =
    GPU_FAST_DEF ("read_into", image_read_into, "target, origin=None, extent=None, stream=None");
  static PyMethodDef write_def =
    GPU_FAST_DEF ("write", image_write,
                  "data, origin=None, extent=None, row_pitch=0, slice_pitch=0, stream=None");
  PyTypeObject *type = gpu_fast_types.image;

  return gpu_fast_replace (type, &read_def, &image_read_method)
         && gpu_fast_replace (type, &write_def, &image_write_method);
}

gboolean
gpu_fast_install_region (void)
{
  static PyMethodDef copy_def =
    GPU_FAST_DEF ("copy_region", stream_copy_region,
                  "destination, source, extent, destination_layout=None, source_layout=None");
  static PyMethodDef write_def =
    GPU_FAST_DEF ("write_region", stream_write_region,
                  "destination, data, extent, destination_layout=None, data_layout=None, "
                  "copy=True");
  static PyMethodDef fill_def =
    GPU_FAST_DEF ("fill_image", stream_fill_image, "image, color, origin=None, extent=None");
  PyTypeObject *type = gpu_fast_types.stream;

  return install_images () && gpu_fast_replace (type, &copy_def, &copy_method)
         && gpu_fast_replace (type, &write_def, &write_method)
         && gpu_fast_replace (type, &fill_def, &fill_method);
}
