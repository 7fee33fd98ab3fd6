/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The C exchange interface of DLPack 1.3, for other libraries with a C module: they exchange
 * tensors with Gpu.Array without calls of Python methods and without capsules.
 *
 * On CUDA, the current work stream is the legacy default stream. Later work of that stream is
 * ordered after the work on an exported array. Host memory is exported when all work on it has
 * completed.
 */
#include "gpumem-fast.h"

#define EXCHANGE_NAME "dlpack_exchange_api"
#define DLPACK_MAJOR  1
#define DLPACK_MINOR  3
#define DLPACK_CUDA   2
#define LEGACY_STREAM ((gpointer) 1)

typedef struct
{
  guint32 major;
  guint32 minor;
} Version;

/* DLTensor, the fields that the allocator reads. */
typedef struct
{
  gpointer  data;
  gint32    device_type;
  gint32    device_id;
  gint32    n_dims;
  guint8    code;
  guint8    bits;
  guint16   lanes;
  gint64   *shape;
} Prototype;

typedef void (*SetErrorFunc) (gpointer    data,
                              const char *kind,
                              const char *message);

/* DLPackExchangeAPI */
typedef struct
{
  Version   version;
  gpointer  previous;
  int     (*alloc)          (const Prototype  *prototype,
                             gpointer         *tensor,
                             gpointer          data,
                             SetErrorFunc      set_error);
  int     (*from_object)    (PyObject         *object,
                             gpointer         *tensor);
  int     (*to_object)      (gpointer          tensor,
                             PyObject        **object);
  gpointer  from_object_borrowed;   /* nullable */
  int     (*get_stream)     (gint32            device_type,
                             gint32            device_id,
                             gpointer         *stream);
} Exchange;

/* Functions of the overrides. */
static PyObject *import_tensor;
static PyObject *alloc_tensor;
static PyTypeObject *array_type;

/* Raises BufferError, as DLPack demands, with the message that Python has for @error. Frees
 * @error. */
static int
fail (GError *error)
{
  PyObject *type, *value, *traceback;
  PyObject *text;

  gpu_fast_raise (error);
  PyErr_Fetch (&type, &value, &traceback);
  PyErr_NormalizeException (&type, &value, &traceback);
  text = value != NULL ? PyObject_Str (value) : NULL;

  if (text != NULL)
    PyErr_SetObject (PyExc_BufferError, text);

  Py_XDECREF (text);
  Py_XDECREF (type);
  Py_XDECREF (value);
  Py_XDECREF (traceback);

  return -1;
}

/* Orders later work of the legacy default stream after the work on @array. */
static gboolean
order_legacy_stream (GpuArray  *array,
                     GpuMemory *memory,
                     GError   **error)
{
  static GQuark quark;
  GpuStream *stream;

  if (quark == 0)
    quark = g_quark_from_static_string ("gpumem-exchange-stream");

  stream = g_object_get_qdata (G_OBJECT (memory), quark);

  if (stream == NULL)
    {
      stream = gpu_stream_new_wrapped (gpu_memory_get_context (memory), GPU_STREAM_HANDLE_LEGACY,
                                       GPU_WRAP_MODE_BORROW, error);

      if (stream == NULL)
        return FALSE;

      if (!gpu_memory_add_stream (memory, stream, error))
        {
          g_object_unref (stream);
          return FALSE;
        }
      g_object_set_qdata_full (G_OBJECT (memory), quark, stream, g_object_unref);
    }

  return gpu_stream_wait_array (stream, array, error);
}

static gboolean
prepare (GpuArray  *array,
         GError   **error)
{
  GpuMemory *memory = gpu_array_get_memory (array);
  gboolean success;
  int type;
  int id;

  if (memory == NULL)
    return TRUE;

  if (gpu_array_get_dlpack_device (array, &type, &id) && type == DLPACK_CUDA)
    return order_legacy_stream (array, memory, error);

  Py_BEGIN_ALLOW_THREADS
  success = gpu_context_synchronize (gpu_memory_get_context (memory), error);
  Py_END_ALLOW_THREADS

  return success;
}

static int
from_object (PyObject *object,
             gpointer *tensor)
{
  GpuArray *array = gpu_fast_peek (object, array_type);
  GError *error = NULL;

  if (array == NULL)
    {
      PyErr_Format (PyExc_TypeError, "expected a Gpu.Array, not %R", object);
      return -1;
    }

  if (!prepare (array, &error))
    return fail (error);

  *tensor = gpu_array_to_dlpack (array, TRUE, FALSE, &error);

  return *tensor != NULL ? 0 : fail (error);
}

/* import_tensor() frees @tensor on failure, unless an array has taken it. */
static int
to_object (gpointer   tensor,
           PyObject **object)
{
  *object = PyObject_CallFunction (import_tensor, "N", PyLong_FromVoidPtr (tensor));

  return *object != NULL ? 0 : -1;
}

/* Passes the pending exception on. */
static void
pass_error (gpointer     data,
            SetErrorFunc set_error)
{
  PyObject *type, *value, *traceback;
  PyObject *text;
  const char *message;

  PyErr_Fetch (&type, &value, &traceback);
  text = value != NULL ? PyObject_Str (value) : NULL;
  message = text != NULL ? PyUnicode_AsUTF8 (text) : NULL;
  set_error (data, type != NULL ? ((PyTypeObject *) type)->tp_name : "RuntimeError",
             message != NULL ? message : "");
  PyErr_Clear ();
  Py_XDECREF (text);
  Py_XDECREF (type);
  Py_XDECREF (value);
  Py_XDECREF (traceback);
}

static PyObject *
make_shape (const Prototype *prototype)
{
  PyObject *shape = PyTuple_New (prototype->n_dims);

  for (gint32 i = 0; shape != NULL && i < prototype->n_dims; i++)
    PyTuple_SET_ITEM (shape, i, PyLong_FromLongLong (prototype->shape[i]));

  return shape;
}

/* Called with or without the GIL. */
static int
alloc (const Prototype *prototype,
       gpointer        *tensor,
       gpointer         data,
       SetErrorFunc     set_error)
{
  PyGILState_STATE state = PyGILState_Ensure ();
  PyObject *address;

  address = PyObject_CallFunction (alloc_tensor, "iiiiiN", prototype->device_type,
                                   prototype->device_id, prototype->code, prototype->bits,
                                   prototype->lanes, make_shape (prototype));
  *tensor = address != NULL ? PyLong_AsVoidPtr (address) : NULL;
  Py_XDECREF (address);

  if (*tensor == NULL)
    pass_error (data, set_error);

  PyGILState_Release (state);

  return *tensor != NULL ? 0 : -1;
}

static int
get_stream (gint32    device_type,
            gint32    device_id G_GNUC_UNUSED,
            gpointer *stream)
{
  *stream = device_type == DLPACK_CUDA ? LEGACY_STREAM : NULL;

  return 0;
}

static Exchange exchange = {
  .version = { DLPACK_MAJOR, DLPACK_MINOR },
  .alloc = alloc,
  .from_object = from_object,
  .to_object = to_object,
  .get_stream = get_stream
};

PyObject *
gpu_fast_new_exchange (PyObject         *module G_GNUC_UNUSED,
                       PyObject *const  *args,
                       Py_ssize_t        n_args)
{
  if (n_args != 3 || array_type != NULL || !PyType_Check (args[0]) || !PyCallable_Check (args[1])
      || !PyCallable_Check (args[2]))
    {
      PyErr_SetString (PyExc_TypeError, "new_exchange() takes a class and two functions, and can "
                                        "be called only once");
      return NULL;
    }

  Py_INCREF (args[0]);
  Py_INCREF (args[1]);
  Py_INCREF (args[2]);
  array_type = (PyTypeObject *) args[0];
  import_tensor = args[1];
  alloc_tensor = args[2];

  return PyCapsule_New (&exchange, EXCHANGE_NAME, NULL);
}
