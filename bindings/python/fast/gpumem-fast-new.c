/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Constructors with the usual arguments, and parts of buffers. */
#include "gpumem-fast-function.h"

/* Index of a constructor. */
typedef enum
{
  NEW_BUFFER,
  NEW_STREAM,
  NEW_SVM,
  N_CONSTRUCTORS
} Constructor;

/* The class that programs use, and the function of the overrides for all other arguments. */
static struct
{
  PyTypeObject *type;
  PyObject     *original;
} constructors[N_CONSTRUCTORS];

static GpuFastMethod slice_method;

/* Returns the context if the arguments are the class, the context and @n_numbers sizes. */
static GpuContext *
match (Constructor       which,
       PyObject *const  *args,
       Py_ssize_t        n_args,
       PyObject         *names,
       Py_ssize_t        n_numbers)
{
  gpointer context;

  if (n_args != 2 + n_numbers || names != NULL
      || args[0] != (PyObject *) constructors[which].type
      || !gpu_fast_to_object (args[1], GPU_TYPE_CONTEXT, FALSE, &context))
    return NULL;

  return context;
}

static PyObject *
pass_on (Constructor       which,
         PyObject *const  *args,
         Py_ssize_t        n_args,
         PyObject         *names)
{
  return PyObject_Vectorcall (constructors[which].original, args, n_args, names);
}

/* Takes ownership of the object or the error. */
static PyObject *
finish (gpointer  object,
        GError   *error)
{
  return error == NULL ? pygobject_new_full (object, TRUE, NULL) : gpu_fast_raise (error);
}

static PyObject *
make_buffer (GpuContext *context,
             gsize       size)
{
  GpuBuffer *buffer;
  GError *error = NULL;

  Py_BEGIN_ALLOW_THREADS
  buffer = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, size, &error);
  Py_END_ALLOW_THREADS

  return finish (buffer, error);
}

/* Exports data of the usual types in place. The overrides handle other types, such as numbers of
 * NumPy, which are bytes-like, too. */
static gboolean
export_data (PyObject  *value,
             Py_buffer *data)
{
  return (PyBytes_CheckExact (value) || PyByteArray_CheckExact (value) || PyMemoryView_Check (value)
          || strcmp (Py_TYPE (value)->tp_name, "numpy.ndarray") == 0)
         && gpu_fast_export (value, FALSE, data);
}

static PyObject *
buffer_new (PyObject         *self G_GNUC_UNUSED,
            PyObject *const  *args,
            Py_ssize_t        n_args,
            PyObject         *names)
{
  GpuContext *context = match (NEW_BUFFER, args, n_args, names, 1);
  PyObject *buffer, *written;
  Py_buffer data;
  gsize size;

  if (context != NULL && gpu_fast_get_size (args[2], &size))
    return make_buffer (context, size);

  if (context == NULL || !export_data (args[2], &data))
    return pass_on (NEW_BUFFER, args, n_args, names);

  buffer = make_buffer (context, data.len);

  if (buffer == NULL)
    {
      PyBuffer_Release (&data);
      return NULL;
    }

  written = gpu_fast_write (buffer, &data);

  if (written == NULL)
    Py_CLEAR (buffer);

  Py_XDECREF (written);

  return buffer;
}

GPU_FAST_DEFINE_FRAMED (buffer_new, "Gpu.Buffer",
                        "gpu_buffer_new gpu_buffer_try_write_address gpu_stream_write")

static PyObject *
stream_new (PyObject         *self G_GNUC_UNUSED,
            PyObject *const  *args,
            Py_ssize_t        n_args,
            PyObject         *names)
{
  GpuContext *context = match (NEW_STREAM, args, n_args, names, 0);
  GpuStream *stream;
  GError *error = NULL;

  if (context == NULL)
    return pass_on (NEW_STREAM, args, n_args, names);

  Py_BEGIN_ALLOW_THREADS
  stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, &error);
  Py_END_ALLOW_THREADS

  return finish (stream, error);
}

GPU_FAST_DEFINE_FRAMED (stream_new, "Gpu.Stream", "gpu_stream_new")

static PyObject *
svm_new (PyObject         *self G_GNUC_UNUSED,
         PyObject *const  *args,
         Py_ssize_t        n_args,
         PyObject         *names)
{
  GpuContext *context = match (NEW_SVM, args, n_args, names, 1);
  GpuSvm *svm;
  GError *error = NULL;
  gsize size;

  if (context == NULL || !gpu_fast_get_size (args[2], &size))
    return pass_on (NEW_SVM, args, n_args, names);

  Py_BEGIN_ALLOW_THREADS
  svm = gpu_svm_new (context, GPU_MEMORY_FLAGS_NONE, GPU_SVM_FLAGS_NONE, size, 0, &error);
  Py_END_ALLOW_THREADS

  return finish (svm, error);
}

GPU_FAST_DEFINE_FRAMED (svm_new, "Gpu.Svm", "gpu_svm_new")

/* Gets the range of a slice of positive numbers without a step, in the limits of the buffer. */
static gboolean
get_range (PyObject  *key,
           gsize      whole,
           gsize     *start,
           gsize     *stop)
{
  PySliceObject *slice = (PySliceObject *) key;

  *start = 0;
  *stop = whole;

  return PySlice_Check (key) && slice->step == Py_None
         && (slice->start == Py_None || gpu_fast_get_size (slice->start, start))
         && (slice->stop == Py_None || gpu_fast_get_size (slice->stop, stop))
         && *start <= *stop && *stop <= whole;
}

static PyObject *
buffer_getitem (PyObject         *self,
                PyObject *const  *args,
                Py_ssize_t        n_args,
                PyObject         *names)
{
  const GpuFastCall call = { &slice_method, self, args, n_args, names };
  GpuBuffer *buffer = (GpuBuffer *) ((PyGObject *) self)->obj;
  GpuBuffer *part;
  GError *error = NULL;
  gsize start, stop;

  if (n_args != 1 || names != NULL || buffer == NULL
      || !get_range (args[0], gpu_memory_get_size ((GpuMemory *) buffer), &start, &stop))
    return gpu_fast_pass_on (&call);

  Py_BEGIN_ALLOW_THREADS
  part = gpu_buffer_slice (buffer, start, stop - start, &error);
  Py_END_ALLOW_THREADS

  return finish (part, error);
}

GPU_FAST_DEFINE_FRAMED (buffer_getitem, "Buffer.slice", "gpu_buffer_slice")

static gboolean
install_constructor (Constructor   which,
                     PyTypeObject *type,
                     PyMethodDef  *def)
{
  PyObject *function = PyCFunction_New (def, NULL);
  PyObject *constructor = function != NULL ? PyStaticMethod_New (function) : NULL;
  int status = -1;

  constructors[which].type = type;
  constructors[which].original = PyObject_GetAttrString ((PyObject *) type, def->ml_name);

  if (constructor != NULL && constructors[which].original != NULL)
    status = PyObject_SetAttrString ((PyObject *) type, def->ml_name, constructor);

  Py_XDECREF (function);
  Py_XDECREF (constructor);

  return status == 0;
}

gboolean
gpu_fast_install_new (void)
{
  static PyMethodDef defs[] = {
    [NEW_BUFFER] = GPU_FAST_DEF ("__new__", buffer_new, "context, size_or_data, flags=0", ""),
    [NEW_STREAM] = GPU_FAST_DEF ("__new__", stream_new, "context, flags=0", ""),
    [NEW_SVM] = GPU_FAST_DEF ("__new__", svm_new,
                              "context, size, svm_flags=0, flags=0, alignment=0", "")
  };
  static PyMethodDef slice_def =
    GPU_FAST_DEF ("__getitem__", buffer_getitem, "key", "Returns a slice, buffer[a:b].");

  return install_constructor (NEW_BUFFER, gpu_fast_types.buffer, &defs[NEW_BUFFER])
         && install_constructor (NEW_STREAM, gpu_fast_types.stream, &defs[NEW_STREAM])
         && install_constructor (NEW_SVM, gpu_fast_types.svm, &defs[NEW_SVM])
         && gpu_fast_replace (gpu_fast_types.buffer, &slice_def, &slice_method);
}
