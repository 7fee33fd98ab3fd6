/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What memory says of itself, and data that go at once: whatever has to wait for other work is left
 * to the overrides, whose waits Ctrl-C ends. */
#include "gpumem-fast.h"

static GpuFastMethod read_method = { { "offset", "size", "stream" }, 0, { NULL }, NULL };
static GpuFastMethod read_into_method = { { "target", "offset", "stream" }, 1, { NULL }, NULL };
static GpuFastMethod write_method = { { "data", "offset", "stream" }, 1, { NULL }, NULL };

typedef gboolean (*MoveFunc) (GpuBuffer  *buffer,
                              GpuStream  *stream,
                              gsize       offset,
                              guint64     address,
                              gsize       size,
                              GError    **error);

/* Whether the data were moved; FALSE without an exception if other work comes first. */
static gboolean
try_move (PyObject   *self,
          MoveFunc    move,
          gpointer    stream,
          gsize       offset,
          gpointer    data,
          gsize       size)
{
  GpuBuffer *buffer = (GpuBuffer *) ((PyGObject *) self)->obj;
  GError *error = NULL;
  gboolean moved;

  Py_BEGIN_ALLOW_THREADS
  moved = move (buffer, stream, offset, (guintptr) data, size, &error);
  Py_END_ALLOW_THREADS

  if (error != NULL)
    pyg_error_check (&error);

  return moved;
}

static PyObject *
buffer_read (PyObject         *self,
             PyObject *const  *args,
             Py_ssize_t        n_args,
             PyObject         *names)
{
  const GpuFastCall call = { &read_method, self, args, n_args, names };
  GpuMemory *memory = (GpuMemory *) ((PyGObject *) self)->obj;
  PyObject *values[GPU_FAST_MAX_PARAMETERS];
  PyObject *data;
  gpointer stream;
  gsize offset, size;

  if (!gpu_fast_parse (&call, values) || !gpu_fast_get_offset (values[0], &offset)
      || !gpu_fast_get_rest (values[1], memory, offset, &size)
      || size == 0 || size > gpu_memory_get_size (memory)
      || !gpu_fast_peek_optional (values[2], gpu_fast_types.stream, &stream))
    return gpu_fast_pass_on (&call);

  data = PyBytes_FromStringAndSize (NULL, size);

  if (data == NULL || try_move (self, gpu_buffer_try_read_address, stream, offset,
                                PyBytes_AS_STRING (data), size))
    return data;

  Py_DECREF (data);

  return PyErr_Occurred () != NULL ? NULL : gpu_fast_pass_on (&call);
}

static PyObject *
buffer_read_into (PyObject         *self,
                  PyObject *const  *args,
                  Py_ssize_t        n_args,
                  PyObject         *names)
{
  const GpuFastCall call = { &read_into_method, self, args, n_args, names };
  PyObject *values[GPU_FAST_MAX_PARAMETERS];
  Py_buffer data;
  gpointer stream;
  gboolean moved;
  gsize offset;
  gsize size;

  if (!gpu_fast_parse (&call, values) || !gpu_fast_get_offset (values[1], &offset)
      || !gpu_fast_peek_optional (values[2], gpu_fast_types.stream, &stream)
      || !gpu_fast_export (values[0], TRUE, &data))
    return gpu_fast_pass_on (&call);

  size = data.len;
  moved = try_move (self, gpu_buffer_try_read_address, stream, offset, data.buf, size);
  PyBuffer_Release (&data);

  if (moved)
    return PyLong_FromSize_t (size);

  return PyErr_Occurred () != NULL ? NULL : gpu_fast_pass_on (&call);
}

static PyObject *
buffer_write (PyObject         *self,
              PyObject *const  *args,
              Py_ssize_t        n_args,
              PyObject         *names)
{
  const GpuFastCall call = { &write_method, self, args, n_args, names };
  PyObject *values[GPU_FAST_MAX_PARAMETERS];
  Py_buffer data;
  gpointer stream;
  gboolean moved;
  gsize offset;

  if (!gpu_fast_parse (&call, values) || !gpu_fast_get_offset (values[1], &offset)
      || !gpu_fast_peek_optional (values[2], gpu_fast_types.stream, &stream)
      || !gpu_fast_export (values[0], FALSE, &data))
    return gpu_fast_pass_on (&call);

  moved = try_move (self, gpu_buffer_try_write_address, stream, offset, data.buf, data.len);
  PyBuffer_Release (&data);

  if (moved)
    Py_RETURN_TRUE;

  return PyErr_Occurred () != NULL ? NULL : gpu_fast_pass_on (&call);
}

static GpuMemory *
get_memory (PyObject *self)
{
  GpuMemory *memory = (GpuMemory *) ((PyGObject *) self)->obj;

  if (memory == NULL)
    PyErr_SetString (PyExc_TypeError, "the memory was never initialised");

  return memory;
}

static PyObject *
memory_size (PyObject *self,
             void     *data G_GNUC_UNUSED)
{
  GpuMemory *memory = get_memory (self);

  return memory != NULL ? PyLong_FromSize_t (gpu_memory_get_size (memory)) : NULL;
}

static PyObject *
memory_number (PyObject *self,
               void     *data)
{
  guint64 (*const *get) (GpuMemory *) = data;
  GpuMemory *memory = get_memory (self);

  return memory != NULL ? PyLong_FromUnsignedLongLong ((*get) (memory)) : NULL;
}

static PyObject *
memory_released (PyObject *self,
                 void     *data G_GNUC_UNUSED)
{
  GpuMemory *memory = get_memory (self);

  return memory != NULL ? PyBool_FromLong (gpu_memory_is_released (memory)) : NULL;
}

static gboolean
add_properties (PyTypeObject *type)
{
  static guint64 (*get_handle) (GpuMemory *) = gpu_memory_get_native_handle;
  static guint64 (*get_address) (GpuMemory *) = gpu_memory_get_device_address;
  static PyGetSetDef properties[] = {
    { "size", memory_size, NULL, "Bytes.", NULL },
    { "native_handle", memory_number, NULL, "The driver's own handle.", &get_handle },
    { "device_address", memory_number, NULL, "The address that kernels see.", &get_address },
    { "released", memory_released, NULL, "Whether it was released.", NULL }
  };

  for (guint i = 0; i < G_N_ELEMENTS (properties); i++)
    {
      PyObject *property = PyDescr_NewGetSet (type, &properties[i]);
      int status = property != NULL ? PyObject_SetAttrString ((PyObject *) type,
                                                              properties[i].name, property) : -1;

      Py_XDECREF (property);

      if (status < 0)
        return FALSE;
    }

  return TRUE;
}

gboolean
gpu_fast_install_buffer (void)
{
  static PyMethodDef read_def =
    GPU_FAST_DEF ("read", buffer_read,
                  "offset=0, size=None, stream=None",
                  "The content of the buffer, or of a part of it, as bytes.");
  static PyMethodDef read_into_def =
    GPU_FAST_DEF ("read_into", buffer_read_into,
                  "target, offset=0, stream=None",
                  "Fills a writable bytes-like object from the "
                  "buffer. Returns the number of bytes.");
  static PyMethodDef write_def =
    GPU_FAST_DEF ("write", buffer_write,
                  "data, offset=0, stream=None",
                  "Copies bytes-like data into the buffer and waits until "
                  "they are there.");
  PyTypeObject *type = gpu_fast_types.buffer;

  return add_properties (gpu_fast_types.memory)
         && gpu_fast_replace (type, &read_def, &read_method)
         && gpu_fast_replace (type, &read_into_def, &read_into_method)
         && gpu_fast_replace (type, &write_def, &write_method);
}
