/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Work on streams. Each call releases the GIL, since it may wait for other threads. */
#include "gpumem-fast-function.h"

/* A wait is split into waits of this many microseconds. Signal handlers run between two of them. */
#define SLICE 100000

static GpuFastMethod copy_method = {
  { "destination", "source", "size", "destination_offset", "source_offset" }, 2, { NULL }, NULL
};
static GpuFastMethod fill_method = {
  { "destination", "pattern", "offset", "size" }, 2, { NULL }, NULL
};
static GpuFastMethod write_method = {
  { "destination", "data", "offset", "copy" }, 2, { NULL }, NULL
};
static GpuFastMethod record_method = { { "flags" }, 0, { NULL }, NULL };
static GpuFastMethod wait_method = { { "cancellable", "timeout" }, 0, { NULL }, NULL };
static GpuFastMethod synchronize_method = { { "cancellable", "timeout" }, 0, { NULL }, NULL };

static PyObject *
stream_copy (PyObject         *self,
             PyObject *const  *args,
             Py_ssize_t        n_args,
             PyObject         *names)
{
  const GpuFastCall call = { &copy_method, self, args, n_args, names };
  PyObject *values[GPU_FAST_MAX_PARAMETERS];
  GpuStream *stream = (GpuStream *) ((PyGObject *) self)->obj;
  GpuMemory *destination;
  GpuMemory *source;
  GError *error = NULL;
  gsize to, from, size;
  gboolean success;

  if (!gpu_fast_parse (&call, values)
      || (destination = gpu_fast_peek (values[0], gpu_fast_types.memory)) == NULL
      || (source = gpu_fast_peek (values[1], gpu_fast_types.memory)) == NULL
      || !gpu_fast_get_offset (values[3], &to) || !gpu_fast_get_offset (values[4], &from)
      || !gpu_fast_get_rest (values[2], source, from, &size))
    return gpu_fast_pass_on (&call);

  Py_BEGIN_ALLOW_THREADS
  success = gpu_stream_copy (stream, destination, to, source, from, size, &error);
  Py_END_ALLOW_THREADS

  return gpu_fast_finish (success, error);
}

GPU_FAST_DEFINE_FRAMED (stream_copy, "Stream.copy", "gpu_stream_copy")

/* Gets the bytes of a pattern: an int of one byte, or a bytes-like object. Returns FALSE, possibly
 * without an exception, if only the override of this method in Python can handle the pattern. */
static gboolean
get_pattern (PyObject  *value,
             guint8    *byte,
             Py_buffer *buffer)
{
  gsize number;

  if (!PyLong_CheckExact (value))
    return gpu_fast_export (value, FALSE, buffer);

  if (!gpu_fast_get_size (value, &number) || number > G_MAXUINT8)
    return FALSE;

  *byte = number;
  *buffer = (Py_buffer) { .buf = byte, .len = 1 };

  return TRUE;
}

static PyObject *
stream_fill (PyObject         *self,
             PyObject *const  *args,
             Py_ssize_t        n_args,
             PyObject         *names)
{
  const GpuFastCall call = { &fill_method, self, args, n_args, names };
  PyObject *values[GPU_FAST_MAX_PARAMETERS];
  GpuStream *stream = (GpuStream *) ((PyGObject *) self)->obj;
  GpuMemory *destination;
  Py_buffer pattern;
  GError *error = NULL;
  gsize offset, size;
  gboolean success;
  guint8 byte;

  if (!gpu_fast_parse (&call, values)
      || (destination = gpu_fast_peek (values[0], gpu_fast_types.memory)) == NULL
      || !gpu_fast_get_offset (values[2], &offset)
      || !gpu_fast_get_rest (values[3], destination, offset, &size)
      || !get_pattern (values[1], &byte, &pattern))
    return gpu_fast_pass_on (&call);

  Py_BEGIN_ALLOW_THREADS
  success = gpu_stream_fill (stream, destination, offset, size, pattern.buf, pattern.len, &error);
  Py_END_ALLOW_THREADS

  PyBuffer_Release (&pattern);

  return gpu_fast_finish (success, error);
}

GPU_FAST_DEFINE_FRAMED (stream_fill, "Stream.fill", "gpu_stream_fill")

/* Returns FALSE without an error if large data would have to wait for other work, or if the stream
 * is being captured. The override of this method in Python then decides whether to copy the
 * data. */
static gboolean
write_data (GpuStream        *stream,
            GpuBuffer        *destination,
            gsize             offset,
            const Py_buffer  *data,
            GError          **error)
{
  g_autoptr (GBytes) bytes = NULL;

  if (data->len >= GPU_FAST_HELD_SIZE)
    {
      gboolean success = gpu_buffer_try_write_address (destination, stream, offset,
                                                       (guintptr) data->buf, data->len, error);

      if (g_error_matches (*error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED))
        g_clear_error (error);
      return success;
    }

  bytes = g_bytes_new (data->buf, data->len);

  return gpu_stream_write (stream, (GpuMemory *) destination, offset, bytes, error);
}

static PyObject *
stream_write (PyObject         *self,
              PyObject *const  *args,
              Py_ssize_t        n_args,
              PyObject         *names)
{
  const GpuFastCall call = { &write_method, self, args, n_args, names };
  PyObject *values[GPU_FAST_MAX_PARAMETERS];
  GpuStream *stream = (GpuStream *) ((PyGObject *) self)->obj;
  GpuBuffer *destination;
  Py_buffer data;
  GError *error = NULL;
  gboolean success;
  gsize offset;

  if (!gpu_fast_parse (&call, values) || (values[3] != NULL && values[3] != Py_True)
      || (destination = gpu_fast_peek (values[0], gpu_fast_types.buffer)) == NULL
      || !gpu_fast_get_offset (values[2], &offset)
      || !gpu_fast_export (values[1], FALSE, &data))
    return gpu_fast_pass_on (&call);

  Py_BEGIN_ALLOW_THREADS
  success = write_data (stream, destination, offset, &data, &error);
  Py_END_ALLOW_THREADS

  PyBuffer_Release (&data);

  return success || error != NULL ? gpu_fast_finish (success, error) : gpu_fast_pass_on (&call);
}

GPU_FAST_DEFINE_FRAMED (stream_write, "Stream.write",
                        "gpu_buffer_try_write_address gpu_stream_write gpu_event_poll")

static PyObject *
wait_for (GpuEvent *event)
{
  GpuEventStatus status;
  GError *error = NULL;

  do
    {
      if (PyErr_CheckSignals () < 0)
        return NULL;

      /* Releasing the GIL takes longer than this. */
      if (_gpu_binding_is_complete (event))
        break;

      Py_BEGIN_ALLOW_THREADS
      status = gpu_event_poll (event, SLICE, NULL, &error);
      Py_END_ALLOW_THREADS
    }
  while (status != GPU_EVENT_STATUS_COMPLETE && error == NULL);

  gpu_fast_wait_for_releases ();

  return gpu_fast_finish (TRUE, error);
}

PyObject *
gpu_fast_wait_for_stream (GpuStream *stream)
{
  g_autoptr (GpuEvent) event = NULL;
  GError *error = NULL;
  gboolean is_idle;

  Py_BEGIN_ALLOW_THREADS
  is_idle = gpu_stream_is_idle (stream, NULL);

  if (!is_idle)
    event = gpu_stream_record (stream, GPU_EVENT_FLAGS_NONE, &error);

  Py_END_ALLOW_THREADS

  if (event != NULL)
    return wait_for (event);

  gpu_fast_wait_for_releases ();

  return gpu_fast_finish (is_idle, error);
}

PyObject *
gpu_fast_submit_and_wait (GpuStream            *stream,
                          GpuBindingSubmitFunc  submit,
                          gpointer              data)
{
  g_autoptr (GpuEvent) event = NULL;
  GError *error = NULL;
  gboolean success;

  Py_BEGIN_ALLOW_THREADS
  success = _gpu_binding_submit (stream, submit, data, &event, &error);
  Py_END_ALLOW_THREADS

  if (event != NULL)
    return wait_for (event);

  gpu_fast_wait_for_releases ();

  return success || error != NULL ? gpu_fast_finish (success, error) : NULL;
}

void
gpu_fast_drop (gpointer object)
{
  PyObject *type, *value, *traceback;

  PyErr_Fetch (&type, &value, &traceback);
  Py_BEGIN_ALLOW_THREADS
  g_clear_object (&object);
  Py_END_ALLOW_THREADS
  PyErr_Restore (type, value, traceback);
}

/* A function of Python that submits work, and its result. */
typedef struct
{
  PyObject *function;
  PyObject *result;                 /* NULL with an exception on failure */
} Submitter;

static gboolean
call_submitter (gpointer   data,
                GError   **error G_GNUC_UNUSED)
{
  Submitter *submitter = data;
  PyGILState_STATE state = PyGILState_Ensure ();

  submitter->result = PyObject_CallNoArgs (submitter->function);
  PyGILState_Release (state);

  return submitter->result != NULL;
}

/* Drops the result, if there is one. Keeps the current exception. */
static void
drop_result (Submitter *submitter)
{
  PyObject *type, *value, *traceback;

  PyErr_Fetch (&type, &value, &traceback);
  Py_CLEAR (submitter->result);
  PyErr_Restore (type, value, traceback);
}

/* Gets the arguments of gpu_fast_submit(). Returns NULL with an exception for others. */
static GpuStream *
get_submitter (PyObject *const *args,
               Py_ssize_t       n_args,
               Submitter       *submitter)
{
  GpuStream *stream = n_args == 2 ? gpu_fast_peek (args[0], gpu_fast_types.stream) : NULL;

  if (stream == NULL)
    PyErr_SetString (PyExc_TypeError, "expected a Gpu.Stream and a function");
  else
    *submitter = (Submitter) { args[1], NULL };

  return stream;
}

static PyObject *
submit_work (PyObject *const *args,
             Py_ssize_t       n_args)
{
  Submitter submitter;
  GpuStream *stream = get_submitter (args, n_args, &submitter);
  GpuEvent *event;
  GError *error = NULL;
  gboolean success;

  if (stream == NULL)
    return NULL;

  Py_BEGIN_ALLOW_THREADS
  success = _gpu_binding_submit (stream, call_submitter, &submitter, &event, &error);
  Py_END_ALLOW_THREADS

  if (success)
    return Py_BuildValue ("NN", submitter.result,
                          event != NULL ? pygobject_new_full ((GObject *) event, TRUE, NULL)
                                        : gpu_fast_new_ref (Py_None));

  drop_result (&submitter);

  return error != NULL ? gpu_fast_raise (error) : NULL;
}

/* Errors name the method of the overrides that calls this function. */
PyObject *
gpu_fast_submit (PyObject         *module G_GNUC_UNUSED,
                 PyObject *const  *args,
                 Py_ssize_t        n_args)
{
  GpuFastFrame frame;

  gpu_fast_enter (&frame, NULL, GPU_FAST_WAIT_SYMBOLS, NULL);

  return gpu_fast_leave (&frame, submit_work (args, n_args));
}

static PyObject *
submit_and_wait (PyObject *const *args,
                 Py_ssize_t       n_args)
{
  Submitter submitter;
  GpuStream *stream = get_submitter (args, n_args, &submitter);
  PyObject *waited = stream != NULL
                     ? gpu_fast_submit_and_wait (stream, call_submitter, &submitter) : NULL;

  if (waited == NULL && stream != NULL)
    drop_result (&submitter);

  Py_XDECREF (waited);

  return stream != NULL ? submitter.result : NULL;
}

/* Errors name the method of the overrides that calls this function. */
PyObject *
gpu_fast_submit_waiting (PyObject         *module G_GNUC_UNUSED,
                         PyObject *const  *args,
                         Py_ssize_t        n_args)
{
  GpuFastFrame frame;

  gpu_fast_enter (&frame, NULL, GPU_FAST_WAIT_SYMBOLS, NULL);

  return gpu_fast_leave (&frame, submit_and_wait (args, n_args));
}

static PyObject *
stream_synchronize (PyObject         *self,
                    PyObject *const  *args,
                    Py_ssize_t        n_args,
                    PyObject         *names)
{
  const GpuFastCall call = { &synchronize_method, self, args, n_args, names };
  PyObject *values[GPU_FAST_MAX_PARAMETERS];

  if (!gpu_fast_parse (&call, values) || !gpu_fast_is_none (values[0])
      || !gpu_fast_is_none (values[1]))
    return gpu_fast_pass_on (&call);

  return gpu_fast_wait_for_stream ((GpuStream *) ((PyGObject *) self)->obj);
}

GPU_FAST_DEFINE_FRAMED (stream_synchronize, "Stream.synchronize",
                        "gpu_stream_is_idle gpu_stream_record gpu_event_poll")

static PyObject *
stream_record (PyObject         *self,
               PyObject *const  *args,
               Py_ssize_t        n_args,
               PyObject         *names)
{
  const GpuFastCall call = { &record_method, self, args, n_args, names };
  PyObject *values[GPU_FAST_MAX_PARAMETERS];
  GpuEvent *event;
  GError *error = NULL;

  if (!gpu_fast_parse (&call, values) || values[0] != NULL)
    return gpu_fast_pass_on (&call);

  Py_BEGIN_ALLOW_THREADS
  event = gpu_stream_record ((GpuStream *) ((PyGObject *) self)->obj, GPU_EVENT_FLAGS_NONE, &error);
  Py_END_ALLOW_THREADS

  if (event == NULL)
    return gpu_fast_raise (error);

  return pygobject_new_full ((GObject *) event, TRUE, NULL);
}

GPU_FAST_DEFINE_FRAMED (stream_record, "Stream.record", "gpu_stream_record")

static PyObject *
event_wait (PyObject         *self,
            PyObject *const  *args,
            Py_ssize_t        n_args,
            PyObject         *names)
{
  const GpuFastCall call = { &wait_method, self, args, n_args, names };
  PyObject *values[GPU_FAST_MAX_PARAMETERS];

  if (!gpu_fast_parse (&call, values) || !gpu_fast_is_none (values[0])
      || !gpu_fast_is_none (values[1]))
    return gpu_fast_pass_on (&call);

  return wait_for ((GpuEvent *) ((PyGObject *) self)->obj);
}

GPU_FAST_DEFINE_FRAMED (event_wait, "Event.wait", "gpu_event_poll")

static gboolean
install_events (void)
{
  static PyMethodDef record_def =
    GPU_FAST_DEF ("record", stream_record, "flags=0");
  static PyMethodDef wait_def =
    GPU_FAST_DEF ("wait", event_wait, "cancellable=None, timeout=None");

  return gpu_fast_replace (gpu_fast_types.stream, &record_def, &record_method)
         && gpu_fast_replace (gpu_fast_types.event, &wait_def, &wait_method);
}

gboolean
gpu_fast_install_stream (void)
{
  static PyMethodDef copy_def =
    GPU_FAST_DEF ("copy", stream_copy,
                  "destination, source, size=None, destination_offset=0, source_offset=0");
  static PyMethodDef fill_def =
    GPU_FAST_DEF ("fill", stream_fill, "destination, pattern, offset=0, size=None");
  static PyMethodDef write_def =
    GPU_FAST_DEF ("write", stream_write, "destination, data, offset=0, copy=True");
  static PyMethodDef synchronize_def =
    GPU_FAST_DEF ("synchronize", stream_synchronize, "cancellable=None, timeout=None");
  PyTypeObject *type = gpu_fast_types.stream;

  return install_events () && gpu_fast_replace (type, &copy_def, &copy_method)
         && gpu_fast_replace (type, &fill_def, &fill_method)
         && gpu_fast_replace (type, &write_def, &write_method)
         && gpu_fast_replace (type, &synchronize_def, &synchronize_method);
}
