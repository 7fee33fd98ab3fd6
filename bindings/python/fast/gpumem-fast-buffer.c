/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Properties of memory, and blocking reads and writes. If no work is pending, a transfer runs at
 * once. Otherwise the transfer is submitted, and the wait runs in slices, so that Ctrl-C ends the
 * wait. */
#include "gpumem-fast-function.h"

#include <string.h>

static GpuFastMethod read_method = { { "offset", "size", "stream" }, 0, { NULL }, NULL };
static GpuFastMethod read_bytes_method = {
  { "stream", "offset", "size", "cancellable" }, 3, { NULL }, NULL
};
static GpuFastMethod read_into_method = { { "target", "offset", "stream" }, 1, { NULL }, NULL };
static GpuFastMethod write_method = { { "data", "offset", "stream" }, 1, { NULL }, NULL };

typedef gboolean (*MoveFunc) (GpuBuffer  *buffer,
                              GpuStream  *stream,
                              gsize       offset,
                              guint64     address,
                              gsize       size,
                              GError    **error);

/* Returns whether the data were moved. Returns FALSE without an exception while other work is
 * pending. */
static gboolean
try_move (GpuBuffer  *buffer,
          MoveFunc    move,
          gpointer    stream,
          gsize       offset,
          gpointer    data,
          gsize       size)
{
  GError *error = NULL;
  gboolean moved;

  Py_BEGIN_ALLOW_THREADS
  moved = move (buffer, stream, offset, (guintptr) data, size, &error);
  Py_END_ALLOW_THREADS

  if (error != NULL)
    gpu_fast_raise (error);

  return moved;
}

typedef gboolean (*SubmitFunc) (GpuStream  *stream,
                                GpuMemory  *memory,
                                gsize       offset,
                                GBytes     *bytes,
                                GError    **error);

/* Reads at once if @error reports that another thread has spilled the buffer since try_move(): a
 * read in the order of a stream is then refused. Returns whether the data were read. */
static gboolean
read_spilled (GpuBuffer  *buffer,
              GpuStream  *stream,
              gsize       offset,
              GBytes     *bytes,
              GError    **error)
{
  gconstpointer data;
  gsize size;

  if (!g_error_matches (*error, GPU_ERROR, GPU_ERROR_BUSY))
    return FALSE;

  g_clear_error (error);
  data = g_bytes_get_data (bytes, &size);

  return gpu_buffer_read (buffer, stream, offset, (gpointer) data, size, NULL, error);
}

/* A transfer behind pending work. */
typedef struct
{
  GpuBuffer  *buffer;
  GpuStream  *given;                /* nullable */
  GpuStream  *stream;
  SubmitFunc  submit;
  gsize       offset;
  GBytes     *bytes;
} Transfer;

static gboolean
submit_transfer (gpointer   data,
                 GError   **error)
{
  const Transfer *transfer = data;
  GError *failure = NULL;

  if (transfer->submit (transfer->stream, (GpuMemory *) transfer->buffer, transfer->offset,
                        transfer->bytes, &failure)
      || (transfer->submit == gpu_stream_read_into
          && read_spilled (transfer->buffer, transfer->given, transfer->offset, transfer->bytes,
                           &failure)))
    return TRUE;

  g_propagate_error (error, failure);

  return FALSE;
}

/* Submits a transfer behind the pending work and waits. Returns NULL with an exception on failure.
 * The transfer stays in flight after KeyboardInterrupt, so the bytes must own their memory. */
static PyObject *
submit_and_wait (GpuBuffer  *buffer,
                 GpuStream  *given,
                 SubmitFunc  submit,
                 gsize       offset,
                 GBytes     *bytes)
{
  g_autoptr (GpuStream) stream = NULL;

  Py_BEGIN_ALLOW_THREADS
  stream = gpu_fast_ref_stream (given, gpu_memory_get_context ((GpuMemory *) buffer));
  Py_END_ALLOW_THREADS

  if (stream == NULL)
    {
      PyErr_SetString (PyExc_RuntimeError, "the context has no default stream");
      return NULL;
    }

  return gpu_fast_submit_and_wait (stream, submit_transfer,
                                   &(Transfer) { buffer, given, stream, submit, offset, bytes });
}

/* Returns whether the transfer may use a temporary copy of @data. Large data is not copied. The
 * target of read_into() is not copied either, because the read must fill it even if
 * KeyboardInterrupt ends the wait. That target is writable. The new bytes object that read() passes
 * is read-only. */
static gboolean
may_copy (SubmitFunc        submit,
          const Py_buffer  *data)
{
  return data->len < GPU_FAST_HELD_SIZE && (submit == gpu_stream_write || data->readonly);
}

/* Transfers a copy of the data, because the release of data that is used in place may wake the
 * helper thread. Takes ownership of @data. */
static PyObject *
move_small (GpuBuffer  *buffer,
            GpuStream  *stream,
            SubmitFunc  submit,
            gsize       offset,
            Py_buffer  *data)
{
  g_autoptr (GBytes) bytes = g_bytes_new (data->buf, data->len);
  PyObject *result = submit_and_wait (buffer, stream, submit, offset, bytes);

  if (result != NULL && submit == gpu_stream_read_into)
    memcpy (data->buf, g_bytes_get_data (bytes, NULL), data->len);

  PyBuffer_Release (data);

  return result;
}

/* Moves data at once if no work is pending, or else behind the pending work. Takes ownership of
 * @data. Returns True, or NULL with an exception. */
static PyObject *
move_data (GpuBuffer  *buffer,
           MoveFunc    move,
           SubmitFunc  submit,
           gpointer    stream,
           gsize       offset,
           Py_buffer  *data)
{
  gboolean moved = try_move (buffer, move, stream, offset, data->buf, data->len);
  GpuFastMemory *memory;
  PyObject *result;
  GBytes *bytes;

  if (moved || PyErr_Occurred () != NULL)
    {
      PyBuffer_Release (data);
      gpu_fast_wait_for_releases ();
      return moved ? PyBool_FromLong (TRUE) : NULL;
    }

  if (may_copy (submit, data))
    return move_small (buffer, stream, submit, offset, data);

  memory = gpu_fast_hold_memory (data, &bytes);
  result = submit_and_wait (buffer, stream, submit, offset, bytes);
  g_bytes_unref (bytes);
  gpu_fast_release_memory (memory, result != NULL);

  return result;
}

PyObject *
gpu_fast_write (GpuBuffer *buffer,
                GpuStream *stream,
                gsize      offset,
                Py_buffer *data)
{
  return move_data (buffer, gpu_buffer_try_write_address, gpu_stream_write, stream, offset, data);
}

PyObject *
gpu_fast_read (GpuBuffer *buffer,
               GpuStream *stream,
               gsize      offset,
               Py_buffer *data)
{
  return move_data (buffer, gpu_buffer_try_read_address, gpu_stream_read_into, stream, offset,
                    data);
}

gboolean
gpu_fast_export_short (PyObject  *value,
                       gboolean   writable,
                       Py_buffer *data)
{
  if (!gpu_fast_export (value, writable, data))
    return FALSE;

  if (data->len < GPU_FAST_LONG_SIZE)
    return TRUE;

  PyBuffer_Release (data);

  return FALSE;
}

static GpuBuffer *
get_buffer (PyObject *self)
{
  return (GpuBuffer *) ((PyGObject *) self)->obj;
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
  PyObject *data, *moved;
  Py_buffer view;
  gpointer stream;
  gsize offset, size;

  if (!gpu_fast_parse (&call, values) || !gpu_fast_get_offset (values[0], &offset)
      || !gpu_fast_get_rest (values[1], memory, offset, &size)
      || size == 0 || size > gpu_memory_get_size (memory) || size >= GPU_FAST_LONG_SIZE
      || !gpu_fast_peek_optional (values[2], gpu_fast_types.stream, &stream))
    return gpu_fast_pass_on (&call);

  data = PyBytes_FromStringAndSize (NULL, size);

  if (data == NULL)
    return NULL;

  /* Bytes objects are immutable, but this new object may be written, because no other code has a
   * reference to it. */
  PyBuffer_FillInfo (&view, data, PyBytes_AS_STRING (data), size, TRUE, PyBUF_SIMPLE);
  moved = gpu_fast_read (get_buffer (self), stream, offset, &view);

  if (moved == NULL)
    Py_CLEAR (data);

  Py_XDECREF (moved);

  return data;
}

GPU_FAST_DEFINE_FRAMED (buffer_read, "Buffer.read",
                        "gpu_buffer_try_read_address gpu_stream_read_into "
                        GPU_FAST_WAIT_SYMBOLS)

/* Reads at once if no work is pending. A generated function would need a query of its own first,
 * to determine whether Ctrl-C must be able to end the wait. */
static PyObject *
buffer_read_bytes (PyObject         *self,
                   PyObject *const  *args,
                   Py_ssize_t        n_args,
                   PyObject         *names)
{
  static GpuFastClass bytes_class = { "GLib", "Bytes", g_bytes_get_type, NULL };
  const GpuFastCall call = { &read_bytes_method, self, args, n_args, names };
  GpuMemory *memory = (GpuMemory *) ((PyGObject *) self)->obj;
  PyObject *values[GPU_FAST_MAX_PARAMETERS];
  g_autofree gpointer data = NULL;
  gpointer stream;
  gsize offset, size;

  if (!gpu_fast_parse (&call, values)
      || !gpu_fast_peek_optional (values[0], gpu_fast_types.stream, &stream)
      || !gpu_fast_get_size (values[1], &offset) || !gpu_fast_get_size (values[2], &size)
      || !gpu_fast_is_none (values[3])
      || size == 0 || size > gpu_memory_get_size (memory) || size >= GPU_FAST_LONG_SIZE
      || (data = g_try_malloc (size)) == NULL)
    return gpu_fast_pass_on (&call);

  if (!try_move (get_buffer (self), gpu_buffer_try_read_address, stream, offset, data, size))
    return PyErr_Occurred () == NULL ? gpu_fast_pass_on (&call) : NULL;

  return gpu_fast_from_boxed (&bytes_class, g_bytes_new_take (g_steal_pointer (&data), size), TRUE);
}

GPU_FAST_DEFINE_FRAMED (buffer_read_bytes, "Buffer.read_bytes", "gpu_buffer_try_read_address")

static PyObject *
buffer_read_into (PyObject         *self,
                  PyObject *const  *args,
                  Py_ssize_t        n_args,
                  PyObject         *names)
{
  const GpuFastCall call = { &read_into_method, self, args, n_args, names };
  PyObject *values[GPU_FAST_MAX_PARAMETERS];
  PyObject *moved;
  Py_buffer data;
  gpointer stream;
  gsize offset;
  gsize size;

  if (!gpu_fast_parse (&call, values) || !gpu_fast_get_offset (values[1], &offset)
      || !gpu_fast_peek_optional (values[2], gpu_fast_types.stream, &stream)
      || !gpu_fast_export_short (values[0], TRUE, &data))
    return gpu_fast_pass_on (&call);

  size = data.len;
  moved = gpu_fast_read (get_buffer (self), stream, offset, &data);

  if (moved == NULL)
    return NULL;

  Py_DECREF (moved);

  return PyLong_FromSize_t (size);
}

GPU_FAST_DEFINE_FRAMED (buffer_read_into, "Buffer.read_into",
                        "gpu_buffer_try_read_address gpu_stream_read_into "
                        GPU_FAST_WAIT_SYMBOLS)

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
  gsize offset;

  if (!gpu_fast_parse (&call, values) || !gpu_fast_get_offset (values[1], &offset)
      || !gpu_fast_peek_optional (values[2], gpu_fast_types.stream, &stream)
      || !gpu_fast_export_short (values[0], FALSE, &data))
    return gpu_fast_pass_on (&call);

  return gpu_fast_write (get_buffer (self), stream, offset, &data);
}

GPU_FAST_DEFINE_FRAMED (buffer_write, "Buffer.write",
                        "gpu_buffer_try_write_address gpu_stream_write " GPU_FAST_WAIT_SYMBOLS)

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
is_stream_idle (GpuMemory *memory,
                GpuStream *given)
{
  g_autoptr (GpuStream) stream = gpu_fast_ref_stream (given, gpu_memory_get_context (memory));

  return stream == NULL || gpu_stream_is_idle (stream, NULL);
}

PyObject *
gpu_fast_is_idle (PyObject        *module G_GNUC_UNUSED,
                  PyObject *const *args,
                  Py_ssize_t       n_args)
{
  GpuMemory *memory = n_args > 0 ? gpu_fast_peek (args[0], gpu_fast_types.memory) : NULL;
  gpointer stream = NULL;
  gboolean is_idle;

  /* The wait itself reports the error. */
  if (memory == NULL)
    Py_RETURN_TRUE;

  /* Objects of other libraries may be streams, too. */
  if (n_args > 1 && !gpu_fast_peek_optional (args[1], gpu_fast_types.stream, &stream))
    Py_RETURN_FALSE;

  Py_BEGIN_ALLOW_THREADS
  is_idle = _gpu_binding_is_idle (memory) && (n_args < 2 || is_stream_idle (memory, stream));
  Py_END_ALLOW_THREADS

  return PyBool_FromLong (is_idle);
}

static gboolean
add_properties (PyTypeObject *type)
{
  static guint64 (*get_handle) (GpuMemory *) = gpu_memory_get_native_handle;
  static guint64 (*get_address) (GpuMemory *) = gpu_memory_get_device_address;
  static PyGetSetDef properties[] = {
    { "size", memory_size, NULL, NULL, NULL },
    { "native_handle", memory_number, NULL, NULL, &get_handle },
    { "device_address", memory_number, NULL, NULL, &get_address },
    { "released", memory_released, NULL, NULL, NULL }
  };

  for (guint i = 0; i < G_N_ELEMENTS (properties); i++)
    {
      g_autofree char *name = g_strconcat (":", properties[i].name, NULL);
      PyObject *property;
      int status = -1;

      properties[i].doc = gpu_fast_find_doc ("Memory", name);
      property = PyDescr_NewGetSet (type, &properties[i]);

      if (property != NULL)
        status = PyObject_SetAttrString ((PyObject *) type, properties[i].name, property);

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
    GPU_FAST_DEF ("read", buffer_read, "offset=0, size=None, stream=None");
  static PyMethodDef read_bytes_def =
    GPU_FAST_DEF ("read_bytes", buffer_read_bytes, "stream, offset, size, cancellable=None");
  static PyMethodDef read_into_def =
    GPU_FAST_DEF ("read_into", buffer_read_into, "target, offset=0, stream=None");
  static PyMethodDef write_def =
    GPU_FAST_DEF ("write", buffer_write, "data, offset=0, stream=None");
  PyTypeObject *type = gpu_fast_types.buffer;

  read_bytes_def.ml_doc = g_strconcat (read_bytes_def.ml_doc,
                                       gpu_fast_find_doc ("Buffer", read_bytes_def.ml_name), NULL);

  return add_properties (gpu_fast_types.memory)
         && gpu_fast_replace (type, &read_def, &read_method)
         && gpu_fast_replace (type, &read_bytes_def, &read_bytes_method)
         && gpu_fast_replace (type, &read_into_def, &read_into_method)
         && gpu_fast_replace (type, &write_def, &write_method);
}
