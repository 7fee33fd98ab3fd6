/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define GPU_FAST_MODULE
#include "gpumem-fast-function.h"

/* Arguments of install(). */
#define N_INSTALLED 13

GpuFastTypes gpu_fast_types;

gboolean
gpu_fast_add_doc (PyMethodDef *def,
                  PyObject    *original)
{
  PyObject *doc = PyObject_GetAttrString (original, "__doc__");
  const char *text = doc == NULL || doc == Py_None ? NULL : PyUnicode_AsUTF8 (doc);

  if (text != NULL)
    def->ml_doc = g_strconcat (def->ml_doc, text, NULL);

  Py_XDECREF (doc);

  return PyErr_Occurred () == NULL;
}

gboolean
gpu_fast_replace (PyTypeObject  *type,
                  PyMethodDef   *def,
                  GpuFastMethod *method)
{
  PyObject *descriptor;
  int status = -1;

  for (guint i = 0; i < GPU_FAST_MAX_PARAMETERS && method->parameters[i] != NULL; i++)
    {
      method->names[i] = PyUnicode_InternFromString (method->parameters[i]);

      if (method->names[i] == NULL)
        return FALSE;
    }

  method->original = PyObject_GetAttrString ((PyObject *) type, def->ml_name);

  if (method->original == NULL || !gpu_fast_add_doc (def, method->original))
    return FALSE;

  descriptor = PyDescr_NewMethod (type, def);

  if (descriptor != NULL)
    status = PyObject_SetAttrString ((PyObject *) type, def->ml_name, descriptor);

  Py_XDECREF (descriptor);

  return status == 0;
}

static gboolean
add_named (const GpuFastMethod *method,
           PyObject            *name,
           PyObject            *value,
           PyObject           **values)
{
  for (guint i = 0; i < GPU_FAST_MAX_PARAMETERS && method->names[i] != NULL; i++)
    {
      if (method->names[i] == name)
        {
          gboolean is_first = values[i] == NULL;

          values[i] = value;
          return is_first;
        }
    }

  return FALSE;
}

gboolean
gpu_fast_parse (const GpuFastCall *call,
                PyObject         **values)
{
  const GpuFastMethod *method = call->method;
  Py_ssize_t n_names = call->names != NULL ? PyTuple_GET_SIZE (call->names) : 0;

  if (((PyGObject *) call->self)->obj == NULL || call->n_args > GPU_FAST_MAX_PARAMETERS)
    return FALSE;

  memset (values, 0, GPU_FAST_MAX_PARAMETERS * sizeof *values);

  for (Py_ssize_t i = 0; i < call->n_args; i++)
    values[i] = call->args[i];

  if (call->n_args > 0 && method->names[call->n_args - 1] == NULL)
    return FALSE;

  for (Py_ssize_t i = 0; i < n_names; i++)
    {
      if (!add_named (method, PyTuple_GET_ITEM (call->names, i), call->args[call->n_args + i],
                      values))
        return FALSE;
    }

  for (guint i = 0; i < method->n_required; i++)
    {
      if (values[i] == NULL)
        return FALSE;
    }

  return TRUE;
}

PyObject *
gpu_fast_pass_on (const GpuFastCall *call)
{
  Py_ssize_t n_names = call->names != NULL ? PyTuple_GET_SIZE (call->names) : 0;
  g_autofree PyObject **all = g_new (PyObject *, call->n_args + n_names + 1);

  all[0] = call->self;

  for (Py_ssize_t i = 0; i < call->n_args + n_names; i++)
    all[i + 1] = call->args[i];

  return PyObject_Vectorcall (call->method->original, all, call->n_args + 1, call->names);
}

PyObject *
gpu_fast_finish (gboolean  success,
                 GError   *error)
{
  if (G_UNLIKELY (error != NULL))
    return gpu_fast_raise (error);

  return PyBool_FromLong (success);
}

/* Rejects arrays of Python objects, and data that must be made contiguous first. */
gboolean
gpu_fast_export (PyObject  *data,
                 gboolean   writable,
                 Py_buffer *buffer)
{
  int flags = PyBUF_ND | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);

  if (!PyObject_CheckBuffer (data))
    return FALSE;

  if (PyObject_GetBuffer (data, buffer, flags) < 0)
    {
      PyErr_Clear ();
      return FALSE;
    }

  if (buffer->format == NULL || strchr (buffer->format, 'O') == NULL)
    return TRUE;

  PyBuffer_Release (buffer);

  return FALSE;
}

static gboolean
take_types (PyObject *const *args)
{
  PyTypeObject **types[] = { &gpu_fast_types.array, &gpu_fast_types.buffer, &gpu_fast_types.event,
                             &gpu_fast_types.image, &gpu_fast_types.kernel,
                             &gpu_fast_types.mapping, &gpu_fast_types.memory,
                             &gpu_fast_types.pool, &gpu_fast_types.sampler,
                             &gpu_fast_types.stream, &gpu_fast_types.svm };
  PyObject *get_await_context = args[G_N_ELEMENTS (types)];
  PyObject *scopes = args[G_N_ELEMENTS (types) + 1];

  G_STATIC_ASSERT (G_N_ELEMENTS (types) + 2 == N_INSTALLED);

  if (!PyCallable_Check (get_await_context) || !PyContextVar_CheckExact (scopes))
    return FALSE;

  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    {
      if (!PyType_Check (args[i]) || !PyType_IsSubtype ((PyTypeObject *) args[i], &PyGObject_Type))
        return FALSE;
    }

  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    {
      Py_INCREF (args[i]);
      *types[i] = (PyTypeObject *) args[i];
    }

  Py_INCREF (get_await_context);
  Py_INCREF (scopes);
  gpu_fast_types.get_await_context = get_await_context;
  gpu_fast_types.scopes = scopes;

  return TRUE;
}

static PyObject *
install (PyObject         *module G_GNUC_UNUSED,
         PyObject *const  *args,
         Py_ssize_t        n_args)
{
  if (gpu_fast_types.buffer != NULL || n_args != N_INSTALLED || !take_types (args))
    {
      PyErr_SetString (PyExc_TypeError, "install() takes eleven classes, a function and a "
                                         "ContextVar, and can be called only once");
      return NULL;
    }

  if (!gpu_fast_install_pool () || !gpu_fast_install_stream () || !gpu_fast_install_buffer ()
      || !gpu_fast_install_launch () || !gpu_fast_install_new () || !gpu_fast_install_array ()
      || !gpu_fast_install_region () || !gpu_fast_install_mapping ())
    return NULL;

  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
  { "install", (PyCFunction) (void (*) (void)) install, METH_FASTCALL,
    "Installs the methods in the classes Array, Buffer, Event, Image, Kernel, Mapping, Memory, "
    "MemoryPool, Sampler, Stream and Svm. The last arguments are the function that returns the "
    "main context of the helper thread, and the variable with the allocators of with statements." },
  { "run", (PyCFunction) (void (*) (void)) gpu_fast_run, METH_FASTCALL | METH_KEYWORDS,
    "Calls a function of the library, and raises the exception of a callback that it ran." },
  { "keep", gpu_fast_keep, METH_O,
    "Lets the innermost call of the library on this thread raise an exception at its end. Returns "
    "whether it will." },
  { "keep_cause", (PyCFunction) (void (*) (void)) gpu_fast_keep_cause, METH_FASTCALL,
    "Lets the error of the call with this message have the exception as its __cause__. None drops "
    "the cause of an earlier error." },
  { "take_cause", gpu_fast_take_cause, METH_O,
    "Returns the cause of an error with this message, or None." },
  { "get_call", gpu_fast_get_call, METH_NOARGS,
    "Returns the name of the method of the innermost call of the library on this thread, or None, "
    "and the names of the C functions that it calls, separated by blanks, or the function of "
    "PyGObject, or None." },
  { "new_dlpack_capsule", (PyCFunction) (void (*) (void)) gpu_fast_new_dlpack_capsule,
    METH_FASTCALL, "Returns a capsule for the tensor at an address. The capsule frees a tensor "
    "that no library has consumed." },
  { "take_dlpack_capsule", (PyCFunction) (void (*) (void)) gpu_fast_take_dlpack_capsule,
    METH_FASTCALL, "Renames a capsule; returns the address of its tensor and whether it is "
    "versioned, or None if it holds no tensor." },
  { "new_exchange", (PyCFunction) (void (*) (void)) gpu_fast_new_exchange, METH_FASTCALL,
    "Returns the capsule with the C exchange interface of DLPack, for the class Array and the "
    "functions that import and allocate tensors." },
  { "new_function", (PyCFunction) (void (*) (void)) gpu_fast_new_function, METH_FASTCALL,
    "Returns the function that calls a function of the library without introspection, or None if "
    "there is none." },
  { "get_doc", (PyCFunction) (void (*) (void)) gpu_fast_get_doc, METH_FASTCALL,
    "Returns the docstring of a function of a class, of a function of the module if the class is "
    "\"\", of a class if the name of the function is \"\", or of an attribute if the name begins "
    "with a colon. Returns None if there is none." },
  { "hold", (PyCFunction) (void (*) (void)) gpu_fast_hold, METH_FASTCALL,
    "Returns a GLib.Bytes over contiguous data, writable ones if the second argument is True, for "
    "the body of a with statement, or None for data that need a conversion." },
  { "hold_exported", (PyCFunction) (void (*) (void)) gpu_fast_hold_exported, METH_FASTCALL,
    "Returns a GLib.Bytes over the memory of an object that owns the Py_buffer at an address. The "
    "buffer is released once the bytes have been freed." },
  { "release_completed", gpu_fast_release_completed, METH_NOARGS,
    "Releases the memory of Python objects that was used by work whose completion is known." },
  { "copy_bytes", (PyCFunction) (void (*) (void)) gpu_fast_copy_bytes, METH_FASTCALL,
    "Returns a GLib.Bytes with a copy of small contiguous data, or None." },
  { "pack_extent", (PyCFunction) (void (*) (void)) gpu_fast_pack_extent, METH_FASTCALL,
    "Returns a Gpu.Extent of a number or a tuple of numbers, or None for unusual arguments." },
  { "pack_layout", (PyCFunction) (void (*) (void)) gpu_fast_pack_layout, METH_FASTCALL,
    "Returns a Gpu.Layout of a number or a tuple of numbers, or None for unusual arguments. The "
    "second argument is the maximum number of numbers." },
  { "submit", (PyCFunction) (void (*) (void)) gpu_fast_submit, METH_FASTCALL,
    "Calls a function that submits work to a stream. Returns its result, and a Gpu.Event for this "
    "work, or None if the work has completed." },
  { "submit_and_wait", (PyCFunction) (void (*) (void)) gpu_fast_submit_waiting, METH_FASTCALL,
    "Like submit(), but waits for the work, and returns only the result." },
  { "is_idle", (PyCFunction) (void (*) (void)) gpu_fast_is_idle, METH_FASTCALL,
    "Returns whether a wait for the work that uses a Gpu.Memory would not block. With a second "
    "argument, also for the work of a stream, None for the default stream." },
  { "unpack", (PyCFunction) (void (*) (void)) gpu_fast_unpack, METH_FASTCALL,
    "Returns the numbers of a Gpu.Extent or a Gpu.Layout." },
  { NULL, NULL, 0, NULL }
};

static struct PyModuleDef module_def = {
  PyModuleDef_HEAD_INIT, .m_name = "_gpumem_fast", .m_size = -1, .m_methods = methods
};

PyMODINIT_FUNC PyInit__gpumem_fast (void);

/* The types and caches of the module, and those of PyGObject, belong to one interpreter. */
PyMODINIT_FUNC
PyInit__gpumem_fast (void)
{
  PyObject *gobject;
  PyObject *module;

  if (PyInterpreterState_Get () != PyInterpreterState_Main ())
    {
      PyErr_SetString (PyExc_ImportError, "gpumem cannot be imported in a subinterpreter");
      return NULL;
    }

  gobject = pygobject_init (3, 42, 0);
  if (gobject == NULL)
    return NULL;

  Py_DECREF (gobject);

  if (!gpu_fast_init_functions () || !gpu_fast_init_held () || !gpu_fast_init_mapping ()
      || !gpu_fast_init_pool ())
    return NULL;

  module = PyModule_Create (&module_def);

  if (module != NULL && PyModule_AddType (module, &gpu_fast_buffer_base) < 0)
    Py_CLEAR (module);

  return module;
}
