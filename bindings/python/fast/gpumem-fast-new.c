/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Constructors with the usual arguments, and parts of buffers. */
#include "gpumem-fast-function.h"

/* Index of a constructor. */
typedef enum
{
  NEW_BUFFER,
  NEW_SAMPLER,
  NEW_STREAM,
  NEW_SVM,
  N_CONSTRUCTORS
} Constructor;

/* The class that programs use, the function in C, the function of the overrides for all other
 * arguments, and the slot of the type that calls __new__() by its name. */
static struct
{
  PyTypeObject              *type;
  _PyCFunctionFastWithKeywords call;
  PyObject                  *original;
  newfunc                    slot;
} constructors[N_CONSTRUCTORS];

static GpuFastMethod slice_method;

/* Returns the context if the arguments are the class, the context and @n_others values. */
static GpuContext *
match (Constructor       which,
       PyObject *const  *args,
       Py_ssize_t        n_args,
       PyObject         *names,
       Py_ssize_t        n_others)
{
  gpointer context;

  if (n_args != 2 + n_others || names != NULL
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
         && gpu_fast_export_short (value, FALSE, data);
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

  written = gpu_fast_write ((GpuBuffer *) ((PyGObject *) buffer)->obj, NULL, 0, &data);

  if (written == NULL)
    Py_CLEAR (buffer);

  Py_XDECREF (written);

  return buffer;
}

GPU_FAST_DEFINE_FRAMED (buffer_new, "Gpu.Buffer",
                        "gpu_buffer_new gpu_buffer_try_write_address gpu_stream_write "
                        GPU_FAST_WAIT_SYMBOLS)

typedef struct
{
  gboolean is_normalized;
  int      address_mode;
  int      filter_mode;
} SamplerArguments;

/* Gets the arguments behind the context. */
static gboolean
get_sampler_arguments (SamplerArguments *arguments,
                       PyObject *const  *args,
                       Py_ssize_t        n_args)
{
  static GpuFastClass address_modes = { "Gpu", "AddressMode", gpu_address_mode_get_type, NULL };
  static GpuFastClass filter_modes = { "Gpu", "FilterMode", gpu_filter_mode_get_type, NULL };

  *arguments = (SamplerArguments) { FALSE, GPU_ADDRESS_MODE_CLAMP_TO_EDGE,
                                    GPU_FILTER_MODE_NEAREST };

  return (n_args < 1 || gpu_fast_to_gboolean (args[0], &arguments->is_normalized))
         && (n_args < 2 || gpu_fast_to_enum (args[1], &address_modes, &arguments->address_mode))
         && (n_args < 3 || gpu_fast_to_enum (args[2], &filter_modes, &arguments->filter_mode));
}

static PyObject *
sampler_new (PyObject         *self G_GNUC_UNUSED,
             PyObject *const  *args,
             Py_ssize_t        n_args,
             PyObject         *names)
{
  Py_ssize_t n_others = CLAMP (n_args - 2, 0, 3);
  GpuContext *context = match (NEW_SAMPLER, args, n_args, names, n_others);
  SamplerArguments arguments;
  GpuSampler *sampler;
  GError *error = NULL;

  if (context == NULL || !get_sampler_arguments (&arguments, args + 2, n_others))
    return pass_on (NEW_SAMPLER, args, n_args, names);

  Py_BEGIN_ALLOW_THREADS
  sampler = gpu_sampler_new (context, arguments.is_normalized, arguments.address_mode,
                             arguments.filter_mode, &error);
  Py_END_ALLOW_THREADS

  return finish (sampler, error);
}

GPU_FAST_DEFINE_FRAMED (sampler_new, "Gpu.Sampler", "gpu_sampler_new")

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

#define MAX_ARGUMENTS 6

/* The slot of the type, which calls the function in C with the class and the arguments. The usual
 * slot looks up __new__() by its name. Subclasses in Python have the usual slot. */
static PyObject *
call_new (Constructor   which,
          PyTypeObject *type,
          PyObject     *args,
          PyObject     *names)
{
  Py_ssize_t n_args = PyTuple_GET_SIZE (args);
  PyObject *values[MAX_ARGUMENTS] = { (PyObject *) type };

  if (type != constructors[which].type || names != NULL || n_args >= MAX_ARGUMENTS)
    return constructors[which].slot (type, args, names);

  for (Py_ssize_t i = 0; i < n_args; i++)
    values[i + 1] = PyTuple_GET_ITEM (args, i);

  return constructors[which].call (NULL, values, n_args + 1, NULL);
}

#define DEFINE_SLOT(name, which) \
  static PyObject * \
  name (PyTypeObject *type, \
        PyObject     *args, \
        PyObject     *names) \
  { \
    return call_new (which, type, args, names); \
  }

DEFINE_SLOT (buffer_slot, NEW_BUFFER)
DEFINE_SLOT (sampler_slot, NEW_SAMPLER)
DEFINE_SLOT (stream_slot, NEW_STREAM)
DEFINE_SLOT (svm_slot, NEW_SVM)

static const newfunc slots[] = {
  [NEW_BUFFER] = buffer_slot,
  [NEW_SAMPLER] = sampler_slot,
  [NEW_STREAM] = stream_slot,
  [NEW_SVM] = svm_slot
};

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

  if (status < 0)
    return FALSE;

  constructors[which].call = (_PyCFunctionFastWithKeywords) (void (*) (void)) def->ml_meth;
  constructors[which].slot = type->tp_new;
  type->tp_new = slots[which];

  return TRUE;
}

gboolean
gpu_fast_install_new (void)
{
  static PyMethodDef defs[] = {
    [NEW_BUFFER] = GPU_FAST_DEF ("__new__", buffer_new, "context, size_or_data, flags=0"),
    [NEW_SAMPLER] = GPU_FAST_DEF ("__new__", sampler_new,
                                  "context, normalized_coordinates=False, address_mode=0, "
                                  "filter_mode=0, **properties"),
    [NEW_STREAM] = GPU_FAST_DEF ("__new__", stream_new, "context, flags=0"),
    [NEW_SVM] = GPU_FAST_DEF ("__new__", svm_new,
                              "context, size, svm_flags=0, flags=0, alignment=0")
  };
  static PyMethodDef slice_def =
    GPU_FAST_DEF ("__getitem__", buffer_getitem, "key");

  return install_constructor (NEW_BUFFER, gpu_fast_types.buffer, &defs[NEW_BUFFER])
         && install_constructor (NEW_SAMPLER, gpu_fast_types.sampler, &defs[NEW_SAMPLER])
         && install_constructor (NEW_STREAM, gpu_fast_types.stream, &defs[NEW_STREAM])
         && install_constructor (NEW_SVM, gpu_fast_types.svm, &defs[NEW_SVM])
         && gpu_fast_replace (gpu_fast_types.buffer, &slice_def, &slice_method);
}
