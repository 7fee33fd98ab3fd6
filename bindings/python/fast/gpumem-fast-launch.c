/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Launches whose arguments are memory and numbers. */
#include "gpumem-fast.h"

static GpuFastMethod call_method;
static GpuFastMethod launch_method = {
  { "kernel", "grid", "block", "args", "shared_size", "flags", "indirect" }, 2, { NULL }, NULL
};
static GpuFastMethod launch_prepared_method = { { "launch" }, 1, { NULL }, NULL };

/* Types of NumPy, set once the program has imported it, and never released. */
static struct
{
  PyTypeObject *integer;
  PyTypeObject *floating;
  PyTypeObject *boolean;
} numpy_types;

static PyTypeObject *
find_numpy_type (PyObject   *numpy,
                 const char *name)
{
  PyObject *type = PyObject_GetAttrString (numpy, name);

  if (type != NULL && PyType_Check (type))
    return (PyTypeObject *) type;

  PyErr_Clear ();
  Py_XDECREF (type);

  return NULL;
}

static gboolean
has_numpy (void)
{
  PyObject *modules = PyImport_GetModuleDict ();
  PyObject *numpy;

  if (numpy_types.boolean != NULL)
    return TRUE;

  numpy = PyDict_GetItemString (modules, "numpy");

  if (numpy == NULL)
    return FALSE;

  numpy_types.integer = find_numpy_type (numpy, "integer");
  numpy_types.floating = find_numpy_type (numpy, "floating");

  if (numpy_types.integer != NULL && numpy_types.floating != NULL)
    numpy_types.boolean = find_numpy_type (numpy, "bool_");

  return numpy_types.boolean != NULL;
}

/* Returns FALSE for an integer that neither 64-bit type can hold, and for an integer in the place
 * of memory, which may be an address. The caller then calls the method of the Python overrides. */
static gboolean
add_int (GpuArguments *arguments,
         GpuKernel    *kernel,
         guint         index,
         PyObject     *value)
{
  int overflow;
  long long number = PyLong_AsLongLongAndOverflow (value, &overflow);
  unsigned long long large;

  if (gpu_kernel_get_argument_kind (kernel, index) == GPU_ARGUMENT_KIND_MEMORY)
    return FALSE;

  if (overflow == 0 && (number != -1 || PyErr_Occurred () == NULL))
    {
      gpu_arguments_add_int (arguments, number);
      return TRUE;
    }

  large = overflow > 0 ? PyLong_AsUnsignedLongLong (value) : 0;

  if (overflow > 0 && (large != G_MAXUINT64 || PyErr_Occurred () == NULL))
    {
      gpu_arguments_add_uint (arguments, large);
      return TRUE;
    }

  PyErr_Clear ();

  return FALSE;
}

static gboolean
add_bytes (GpuArguments *arguments,
           PyObject     *value)
{
  Py_buffer data;

  if (!gpu_fast_export (value, FALSE, &data))
    return FALSE;

  gpu_arguments_add_value (arguments, data.buf, data.len);
  PyBuffer_Release (&data);

  return TRUE;
}

/* As in _gpumem_values.py, a number is converted to the type of the parameter if that type is
 * known. */
static gboolean
add_numpy (GpuArguments *arguments,
           GpuKernel    *kernel,
           guint         index,
           PyObject     *value)
{
  gboolean is_int, success;
  const char *type_name;
  PyObject *number;

  if (!has_numpy ())
    return FALSE;

  is_int = PyObject_TypeCheck (value, numpy_types.integer)
           || PyObject_TypeCheck (value, numpy_types.boolean);

  if (!is_int && !PyObject_TypeCheck (value, numpy_types.floating))
    return FALSE;

  type_name = index < gpu_kernel_get_n_arguments (kernel)
              ? gpu_kernel_get_argument_type_name (kernel, index) : NULL;

  if (type_name == NULL || type_name[0] == '\0')
    return add_bytes (arguments, value);

  number = is_int ? PyNumber_Long (value) : PyNumber_Float (value);
  success = number != NULL && (is_int ? add_int (arguments, kernel, index, number)
                                      : PyFloat_Check (number));

  if (success && !is_int)
    gpu_arguments_add_double (arguments, PyFloat_AS_DOUBLE (number));

  Py_XDECREF (number);
  PyErr_Clear ();

  return success;
}

static gboolean
add_argument (GpuArguments *arguments,
              GpuKernel    *kernel,
              guint         index,
              PyObject     *value)
{
  GpuMemory *memory = gpu_fast_peek (value, gpu_fast_types.memory);

  if (memory != NULL || value == Py_None)
    gpu_arguments_add_memory (arguments, memory);
  else if (PyLong_CheckExact (value))
    return add_int (arguments, kernel, index, value);
  else if (PyFloat_CheckExact (value))
    gpu_arguments_add_double (arguments, PyFloat_AS_DOUBLE (value));
  else if (PyBytes_CheckExact (value))
    gpu_arguments_add_value (arguments, PyBytes_AS_STRING (value), PyBytes_GET_SIZE (value));
  else
    return add_numpy (arguments, kernel, index, value);

  return TRUE;
}

/* Returns NULL, without an exception, if one of the values has another type. */
static GpuArguments *
make_arguments (GpuKernel        *kernel,
                PyObject *const  *values,
                Py_ssize_t        n_values)
{
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();

  for (Py_ssize_t i = 0; i < n_values; i++)
    {
      if (!add_argument (arguments, kernel, i, values[i]))
        return NULL;
    }

  return g_steal_pointer (&arguments);
}

static gboolean
get_extent (PyObject  *value,
            GpuExtent *extent)
{
  gsize sizes[3] = { 1, 1, 1 };
  Py_ssize_t n;

  if (PyLong_CheckExact (value))
    {
      *extent = (GpuExtent) { 1, 1, 1 };
      return gpu_fast_get_size (value, &extent->width);
    }

  if (!PyTuple_CheckExact (value))
    return FALSE;

  n = PyTuple_GET_SIZE (value);

  if (n < 1 || n > 3)
    return FALSE;

  for (Py_ssize_t i = 0; i < n; i++)
    {
      if (!gpu_fast_get_size (PyTuple_GET_ITEM (value, i), &sizes[i]))
        return FALSE;
    }

  *extent = (GpuExtent) { sizes[0], sizes[1], sizes[2] };

  return TRUE;
}

static PyObject *
launch (const GpuFastCall *call,
        GpuStream         *stream,
        GpuKernel         *kernel,
        PyObject          *grid,
        PyObject          *block,
        PyObject *const   *values,
        Py_ssize_t         n_values)
{
  gboolean has_block = block != NULL && block != Py_None;
  g_autoptr (GpuArguments) arguments = NULL;
  GpuExtent grid_extent, block_extent;
  GError *error = NULL;
  gboolean success;

  if (stream == NULL || kernel == NULL || !get_extent (grid, &grid_extent)
      || (has_block && !get_extent (block, &block_extent)))
    return gpu_fast_pass_on (call);

  arguments = make_arguments (kernel, values, n_values);

  if (arguments == NULL)
    return gpu_fast_pass_on (call);

  Py_BEGIN_ALLOW_THREADS
  success = gpu_stream_launch_arguments (stream, kernel, &grid_extent,
                                         has_block ? &block_extent : NULL, arguments, &error);
  Py_END_ALLOW_THREADS

  return gpu_fast_finish (success, error);
}

static PyObject *
stream_launch (PyObject         *self,
               PyObject *const  *args,
               Py_ssize_t        n_args,
               PyObject         *names)
{
  const GpuFastCall call = { &launch_method, self, args, n_args, names };
  PyObject *values[GPU_FAST_MAX_PARAMETERS];
  PyObject *arguments;
  GpuKernel *kernel;

  if (!gpu_fast_parse (&call, values) || values[4] != NULL || values[5] != NULL
      || values[6] != NULL)
    return gpu_fast_pass_on (&call);

  kernel = gpu_fast_peek (values[0], gpu_fast_types.kernel);
  arguments = values[3];

  if (arguments != NULL && !PyTuple_CheckExact (arguments))
    return gpu_fast_pass_on (&call);

  return launch (&call, (GpuStream *) ((PyGObject *) self)->obj, kernel, values[1], values[2],
                 arguments != NULL ? &PyTuple_GET_ITEM (arguments, 0) : NULL,
                 arguments != NULL ? PyTuple_GET_SIZE (arguments) : 0);
}

GPU_FAST_DEFINE_FRAMED (stream_launch, "Stream.launch", "gpu_stream_launch_arguments")

static PyObject *
kernel_call (PyObject         *self,
             PyObject *const  *args,
             Py_ssize_t        n_args,
             PyObject         *names)
{
  const GpuFastCall call = { &call_method, self, args, n_args, names };
  gboolean has_block = n_args > 2;

  if ((names != NULL && PyTuple_GET_SIZE (names) > 0) || n_args < 2)
    return gpu_fast_pass_on (&call);

  return launch (&call, gpu_fast_peek (args[0], gpu_fast_types.stream),
                 (GpuKernel *) ((PyGObject *) self)->obj, args[1], has_block ? args[2] : NULL,
                 args + 3, has_block ? n_args - 3 : 0);
}

GPU_FAST_DEFINE_FRAMED (kernel_call, "Kernel.__call__", "gpu_stream_launch_arguments")

static PyObject *
stream_launch_prepared (PyObject         *self,
                        PyObject *const  *args,
                        Py_ssize_t        n_args,
                        PyObject         *names)
{
  const GpuFastCall call = { &launch_prepared_method, self, args, n_args, names };
  PyObject *values[GPU_FAST_MAX_PARAMETERS];
  GError *error = NULL;
  GpuLaunch *prepared;
  gboolean success;

  if (!gpu_fast_parse (&call, values) || !PyObject_TypeCheck (values[0], &PyGBoxed_Type)
      || !pyg_boxed_check (values[0], GPU_TYPE_LAUNCH)
      || (prepared = pyg_boxed_get (values[0], GpuLaunch)) == NULL)
    return gpu_fast_pass_on (&call);

  Py_BEGIN_ALLOW_THREADS
  success = gpu_stream_launch_prepared ((GpuStream *) ((PyGObject *) self)->obj, prepared, &error);
  Py_END_ALLOW_THREADS

  return gpu_fast_finish (success, error);
}

GPU_FAST_DEFINE_FRAMED (stream_launch_prepared, "Stream.launch_prepared",
                        "gpu_stream_launch_prepared")

gboolean
gpu_fast_install_launch (void)
{
  static PyMethodDef call_def =
    GPU_FAST_DEF ("__call__", kernel_call,
                  "stream, grid, block=None, *args, shared_size=0, flags=0, allow_empty=False, "
                  "global_offset=None");
  static PyMethodDef launch_def =
    GPU_FAST_DEF ("launch", stream_launch,
                  "kernel, grid, block=None, args=(), shared_size=0, flags=0, indirect=(), *, "
                  "allow_empty=False, global_offset=None");
  static PyMethodDef launch_prepared_def =
    GPU_FAST_DEF ("launch_prepared", stream_launch_prepared, "launch");

  return gpu_fast_replace (gpu_fast_types.kernel, &call_def, &call_method)
         && gpu_fast_replace (gpu_fast_types.stream, &launch_def, &launch_method)
         && gpu_fast_replace (gpu_fast_types.stream, &launch_prepared_def,
                              &launch_prepared_method);
}
