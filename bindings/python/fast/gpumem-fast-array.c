/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Methods of Gpu.Array: transfers between contiguous arrays in buffers and NumPy arrays of the same
 * shape and type, fills, copies, and views of ranges. */
#include "gpumem-fast-function.h"

#include <math.h>

static GpuFastMethod copy_to_device_method = { { "data", "stream" }, 1, { NULL }, NULL };
static GpuFastMethod copy_method = { { "allocator", "stream", "order" }, 0, { NULL }, NULL };
static GpuFastMethod fill_method = { { "value", "stream" }, 1, { NULL }, NULL };
static GpuFastMethod getitem_method;
static GpuFastMethod read_into_method = { { "target", "stream" }, 1, { NULL }, NULL };
static GpuFastMethod to_numpy_method = { { "stream" }, 0, { NULL }, NULL };
static GpuFastMethod write_method = { { "data", "stream" }, 1, { NULL }, NULL };

static GpuArray *
get_array (PyObject *self)
{
  return (GpuArray *) ((PyGObject *) self)->obj;
}

/* Returns the buffer of an array that has elements, in C order and without gaps, or NULL. */
static GpuBuffer *
get_buffer (GpuArray *array)
{
  GpuMemory *memory = gpu_array_get_memory (array);

  return memory != NULL && GPU_IS_BUFFER (memory) && gpu_array_get_size (array) > 0
         && gpu_array_is_contiguous (array, GPU_ARRAY_ORDER_C) ? (GpuBuffer *) memory : NULL;
}

static gboolean
is_numpy_array (PyObject *value)
{
  return strcmp (Py_TYPE (value)->tp_name, "numpy.ndarray") == 0;
}

/* Returns whether exported memory has elements of @dtype: plain numbers in the byte order of the
 * host. Letters such as "l" and "q" may be the same type. */
static gboolean
is_of_dtype (const Py_buffer *data,
             GpuDType        *dtype)
{
  const char *format = data->format != NULL ? data->format : "";
  const char *letters = "";

  switch (gpu_dtype_get_kind (dtype))
    {
    case GPU_DTYPE_KIND_BOOL:
      letters = "?";
      break;
    case GPU_DTYPE_KIND_INT:
      letters = "bhilq";
      break;
    case GPU_DTYPE_KIND_UINT:
      letters = "BHILQ";
      break;
    case GPU_DTYPE_KIND_FLOAT:
      letters = "efd";
      break;
    case GPU_DTYPE_KIND_COMPLEX:
      letters = "fd";
      format = *format == 'Z' ? format + 1 : "";
      break;
    default:
      break;
    }

  return strlen (format) == 1 && strchr (letters, *format) != NULL
         && data->itemsize == (Py_ssize_t) gpu_dtype_get_item_size (dtype);
}

/* Exports the memory of a NumPy array in C order with the shape and the type of @array, unless its
 * copy takes long. */
static gboolean
export_like (GpuArray  *array,
             PyObject  *value,
             gboolean   writable,
             Py_buffer *data)
{
  const gssize *shape;
  guint n_dims;

  if (!is_numpy_array (value) || !gpu_fast_export (value, writable, data))
    return FALSE;

  shape = gpu_array_get_shape (array, &n_dims);

  if ((guint) data->ndim == n_dims && data->len < GPU_FAST_LONG_SIZE
      && is_of_dtype (data, gpu_array_get_dtype (array))
      && (n_dims == 0 || memcmp (data->shape, shape, n_dims * sizeof *shape) == 0))
    return TRUE;

  PyBuffer_Release (data);

  return FALSE;
}

static PyObject *
write_array (const GpuFastCall *call)
{
  GpuArray *array = get_array (call->self);
  PyObject *values[GPU_FAST_MAX_PARAMETERS];
  PyObject *written;
  GpuBuffer *buffer;
  Py_buffer data;

  if (!gpu_fast_parse (call, values) || !gpu_fast_is_none (values[1])
      || !gpu_array_is_writable (array) || (buffer = get_buffer (array)) == NULL
      || !export_like (array, values[0], FALSE, &data))
    return gpu_fast_pass_on (call);

  written = gpu_fast_write (buffer, NULL, gpu_array_get_offset (array), &data);

  if (written == NULL)
    return NULL;

  Py_DECREF (written);

  Py_RETURN_NONE;
}

static PyObject *
array_write (PyObject         *self,
             PyObject *const  *args,
             Py_ssize_t        n_args,
             PyObject         *names)
{
  const GpuFastCall call = { &write_method, self, args, n_args, names };

  return write_array (&call);
}

GPU_FAST_DEFINE_FRAMED (array_write, "Array.write",
                        "gpu_buffer_try_write_address gpu_stream_write " GPU_FAST_WAIT_SYMBOLS)

static PyObject *
array_copy_to_device (PyObject         *self,
                      PyObject *const  *args,
                      Py_ssize_t        n_args,
                      PyObject         *names)
{
  const GpuFastCall call = { &copy_to_device_method, self, args, n_args, names };

  return write_array (&call);
}

GPU_FAST_DEFINE_FRAMED (array_copy_to_device, "Array.copy_to_device",
                        "gpu_buffer_try_write_address gpu_stream_write " GPU_FAST_WAIT_SYMBOLS)

/* Reads all elements and waits. Takes ownership of @data. Returns a new reference to @target. */
static PyObject *
read_all (GpuArray  *array,
          GpuBuffer *buffer,
          GpuStream *stream,
          PyObject  *target,
          Py_buffer *data)
{
  PyObject *read = gpu_fast_read (buffer, stream, gpu_array_get_offset (array), data);

  if (read == NULL)
    return NULL;

  Py_DECREF (read);

  return gpu_fast_new_ref (target);
}

static PyObject *
array_read_into (PyObject         *self,
                 PyObject *const  *args,
                 Py_ssize_t        n_args,
                 PyObject         *names)
{
  const GpuFastCall call = { &read_into_method, self, args, n_args, names };
  PyObject *values[GPU_FAST_MAX_PARAMETERS];
  GpuBuffer *buffer;
  Py_buffer data;

  if (!gpu_fast_parse (&call, values) || !gpu_fast_is_none (values[1])
      || (buffer = get_buffer (get_array (self))) == NULL
      || !export_like (get_array (self), values[0], TRUE, &data))
    return gpu_fast_pass_on (&call);

  return read_all (get_array (self), buffer, NULL, values[0], &data);
}

GPU_FAST_DEFINE_FRAMED (array_read_into, "Array.read_into",
                        "gpu_buffer_try_read_address gpu_stream_read_into "
                        GPU_FAST_WAIT_SYMBOLS)

/* Returns the NumPy dtype of an array of plain numbers. Returns a borrowed reference, or NULL,
 * possibly with an exception. */
static PyObject *
find_dtype (PyObject *self)
{
  static PyObject *dtypes[GPU_DTYPE_KIND_COMPLEX + 1][16 + 1];
  GpuDType *dtype = gpu_array_get_dtype (get_array (self));
  GpuDTypeKind kind = gpu_dtype_get_kind (dtype);
  gsize size = gpu_dtype_get_item_size (dtype);

  if (kind > GPU_DTYPE_KIND_COMPLEX || kind == GPU_DTYPE_KIND_BFLOAT || size > 16)
    return NULL;

  if (G_UNLIKELY (dtypes[kind][size] == NULL))
    dtypes[kind][size] = PyObject_GetAttrString (self, "dtype");

  return dtypes[kind][size];
}

/* Returns a new NumPy array in C order with the shape and the type of an array. Returns NULL,
 * possibly without an exception. */
static PyObject *
make_target (PyObject *self)
{
  static PyObject *empty;
  PyObject *dtype = find_dtype (self);
  PyObject *numpy, *lengths, *target;
  const gssize *shape;
  guint n_dims;

  if (G_UNLIKELY (empty == NULL && dtype != NULL))
    {
      numpy = PyImport_ImportModule ("numpy");
      empty = numpy != NULL ? PyObject_GetAttrString (numpy, "empty") : NULL;
      Py_XDECREF (numpy);
    }

  if (empty == NULL || dtype == NULL)
    return NULL;

  shape = gpu_array_get_shape (get_array (self), &n_dims);
  lengths = PyTuple_New (n_dims);

  for (guint i = 0; lengths != NULL && i < n_dims; i++)
    PyTuple_SET_ITEM (lengths, i, PyLong_FromSsize_t (shape[i]));

  target = lengths != NULL ? PyObject_Vectorcall (empty, (PyObject *[]) { lengths, dtype }, 2, NULL)
                           : NULL;
  Py_XDECREF (lengths);

  return target;
}

static PyObject *
array_to_numpy (PyObject         *self,
                PyObject *const  *args,
                Py_ssize_t        n_args,
                PyObject         *names)
{
  const GpuFastCall call = { &to_numpy_method, self, args, n_args, names };
  PyObject *values[GPU_FAST_MAX_PARAMETERS];
  PyObject *target, *result;
  gpointer stream;
  GpuBuffer *buffer;
  Py_buffer data;

  if (!gpu_fast_parse (&call, values)
      || !gpu_fast_peek_optional (values[0], gpu_fast_types.stream, &stream)
      || (buffer = get_buffer (get_array (self))) == NULL
      || gpu_array_get_size (get_array (self)) >= GPU_FAST_LONG_SIZE
      || (target = make_target (self)) == NULL)
    return PyErr_Occurred () == NULL ? gpu_fast_pass_on (&call) : NULL;

  if (PyObject_GetBuffer (target, &data, PyBUF_WRITABLE) < 0)
    {
      Py_DECREF (target);
      return NULL;
    }

  result = read_all (get_array (self), buffer, stream, target, &data);
  Py_DECREF (target);

  return result;
}

GPU_FAST_DEFINE_FRAMED (array_to_numpy, "Array.to_numpy",
                        "gpu_buffer_try_read_address gpu_stream_read_into "
                        GPU_FAST_WAIT_SYMBOLS)

/* --- work on the device ----------------------------------------------------------------------- */

/* Calls @func, which submits work for @array to @given, or to the default stream for NULL. Waits
 * for this work without @given. Returns True or False, or NULL with an exception. */
static PyObject *
submit (GpuArray             *array,
        GpuStream            *given,
        GpuBindingSubmitFunc  func,
        gpointer              data)
{
  g_autoptr (GpuStream) stream = NULL;
  GError *error = NULL;
  PyObject *waited;
  gboolean success = FALSE;

  Py_BEGIN_ALLOW_THREADS

  if (given == NULL)
    stream = gpu_context_get_default_stream (gpu_array_get_context (array));

  if (stream == NULL)
    success = func (data, &error);

  Py_END_ALLOW_THREADS

  if (stream == NULL)
    return gpu_fast_finish (success, error);

  waited = gpu_fast_submit_and_wait (stream, func, data);

  return waited != NULL || PyErr_Occurred () != NULL ? waited : gpu_fast_new_ref (Py_False);
}

/* Gets the bytes of an element: bytes, a NumPy number of the same type, or a float for an array of
 * float64. */
static GBytes *
to_element (PyObject *value,
            GpuDType *dtype)
{
  GBytes *element = NULL;
  Py_buffer data;
  double number;

  if (PyBytes_CheckExact (value))
    return g_bytes_new (PyBytes_AS_STRING (value), PyBytes_GET_SIZE (value));

  if (PyFloat_CheckExact (value) && gpu_dtype_get_kind (dtype) == GPU_DTYPE_KIND_FLOAT
      && gpu_dtype_get_item_size (dtype) == sizeof number)
    {
      number = PyFloat_AS_DOUBLE (value);
      return g_bytes_new (&number, sizeof number);
    }

  if (!gpu_fast_export (value, FALSE, &data))
    return NULL;

  if (data.ndim == 0 && is_of_dtype (&data, dtype))
    element = g_bytes_new (data.buf, data.len);

  PyBuffer_Release (&data);

  return element;
}

typedef struct
{
  GpuArray  *array;
  GpuStream *given;                 /* nullable */
  GBytes    *element;               /* only for fill() */
  GpuArray  *copy;                  /* the result of copy() */
} ArrayWork;

static gboolean
submit_fill (gpointer   data,
             GError   **error)
{
  const ArrayWork *work = data;
  g_autoptr (GpuStream) stream = gpu_fast_ref_stream (work->given,
                                                      gpu_array_get_context (work->array));

  return stream != NULL && gpu_stream_fill_array (stream, work->array, work->element, error);
}

static PyObject *
array_fill (PyObject         *self,
            PyObject *const  *args,
            Py_ssize_t        n_args,
            PyObject         *names)
{
  const GpuFastCall call = { &fill_method, self, args, n_args, names };
  GpuArray *array = get_array (self);
  PyObject *values[GPU_FAST_MAX_PARAMETERS];
  g_autoptr (GBytes) element = NULL;
  PyObject *done;
  gpointer stream;

  if (!gpu_fast_parse (&call, values) || get_buffer (array) == NULL
      || !gpu_fast_peek_optional (values[1], gpu_fast_types.stream, &stream)
      || (element = to_element (values[0], gpu_array_get_dtype (array))) == NULL)
    return gpu_fast_pass_on (&call);

  done = submit (array, stream, submit_fill, &(ArrayWork) { array, stream, element, NULL });

  if (done == NULL)
    return NULL;

  Py_DECREF (done);

  return done == Py_True ? gpu_fast_new_ref (Py_None) : gpu_fast_pass_on (&call);
}

GPU_FAST_DEFINE_FRAMED (array_fill, "Array.fill", "gpu_stream_fill_array " GPU_FAST_WAIT_SYMBOLS)

/* Returns whether a with statement sets an allocator. */
static gboolean
has_scopes (void)
{
  PyObject *scopes = NULL;
  gboolean is_empty = PyContextVar_Get (gpu_fast_types.scopes, NULL, &scopes) == 0
                      && scopes != NULL && PyTuple_Check (scopes)
                      && PyTuple_GET_SIZE (scopes) == 0;

  PyErr_Clear ();
  Py_XDECREF (scopes);

  return !is_empty;
}

static gboolean
submit_copy (gpointer   data,
             GError   **error)
{
  ArrayWork *work = data;

  work->copy = gpu_array_copy (work->array, NULL, work->given, error);

  return work->copy != NULL;
}

static PyObject *
array_copy (PyObject         *self,
            PyObject *const  *args,
            Py_ssize_t        n_args,
            PyObject         *names)
{
  const GpuFastCall call = { &copy_method, self, args, n_args, names };
  GpuArray *array = get_array (self);
  PyObject *values[GPU_FAST_MAX_PARAMETERS];
  ArrayWork work = { array, NULL, NULL, NULL };
  PyObject *done;
  gpointer stream;

  if (!gpu_fast_parse (&call, values) || !gpu_fast_is_none (values[0]) || values[2] != NULL
      || !gpu_fast_peek_optional (values[1], gpu_fast_types.stream, &stream)
      || get_buffer (array) == NULL || has_scopes ())
    return gpu_fast_pass_on (&call);

  work.given = stream;
  done = submit (array, stream, submit_copy, &work);

  if (done == NULL)
    {
      gpu_fast_drop (work.copy);
      return NULL;
    }

  Py_DECREF (done);

  return pygobject_new_full ((GObject *) work.copy, TRUE, NULL);
}

GPU_FAST_DEFINE_FRAMED (array_copy, "Array.copy", "gpu_array_copy " GPU_FAST_WAIT_SYMBOLS)

/* --- new arrays ------------------------------------------------------------------------------- */

/* The functions of the overrides, for all other arguments. */
static GpuFastMethod empty_method;
static GpuFastMethod zeros_method;

/* The usual arguments of a new array. */
typedef struct
{
  gpointer  context;                /* NULL if there is an allocator */
  gpointer  allocator;
  gssize    items[GPU_FAST_MAX_ITEMS];
  gssize   *shape;                  /* `items` */
  gsize     n_dims;
  GpuDType *dtype;                  /* owned */
} NewArray;

static gboolean
get_shape (PyObject *value,
           NewArray *new)
{
  new->shape = new->items;
  new->n_dims = 1;

  return gpu_fast_to_gssize (value, new->items)
         || gpu_fast_to_gssize_array (value, FALSE, &new->shape, &new->n_dims);
}

static gboolean
get_dtype (PyObject *value,
           NewArray *new)
{
  const char *name;
  gpointer dtype;

  if (gpu_fast_to_boxed (value, GPU_TYPE_DTYPE, FALSE, &dtype))
    new->dtype = gpu_dtype_ref (dtype);
  else if (gpu_fast_to_utf8 (value, FALSE, &name))
    new->dtype = gpu_dtype_new_from_string (name, NULL);

  return new->dtype != NULL;
}

/* Gets the arguments context, shape and dtype. */
static gboolean
get_new_array (PyObject *const *args,
               Py_ssize_t       n_args,
               PyObject        *names,
               NewArray        *new)
{
  *new = (NewArray) { .context = NULL };

  if (n_args != 3 || names != NULL)
    return FALSE;

  if (!gpu_fast_to_object (args[0], GPU_TYPE_ALLOCATOR, FALSE, &new->allocator))
    {
      new->allocator = NULL;

      if (!gpu_fast_to_object (args[0], GPU_TYPE_CONTEXT, FALSE, &new->context) || has_scopes ())
        return FALSE;
    }

  return get_shape (args[1], new) && get_dtype (args[2], new);
}

/* Takes ownership of the array or the error. */
static PyObject *
finish_new (NewArray *new,
            GpuArray *array,
            GError   *error)
{
  gpu_dtype_unref (new->dtype);

  return array != NULL ? pygobject_new_full ((GObject *) array, TRUE, NULL)
                       : gpu_fast_raise (error);
}

static PyObject *
array_empty (PyObject         *class,
             PyObject *const  *args,
             Py_ssize_t        n_args,
             PyObject         *names)
{
  NewArray new;
  GpuArray *array;
  GError *error = NULL;

  if (!get_new_array (args, n_args, names, &new))
    return gpu_fast_pass_on (&(GpuFastCall) { &empty_method, class, args, n_args, names });

  Py_BEGIN_ALLOW_THREADS
  array = gpu_array_new_full (new.context, new.allocator, NULL, new.dtype, new.shape, new.n_dims,
                              GPU_ARRAY_ORDER_C, &error);
  Py_END_ALLOW_THREADS

  return finish_new (&new, array, error);
}

GPU_FAST_DEFINE_FRAMED (array_empty, "Array.empty", "gpu_array_new_full")

static PyObject *
array_zeros (PyObject         *class,
             PyObject *const  *args,
             Py_ssize_t        n_args,
             PyObject         *names)
{
  NewArray new;
  GpuArray *array;
  GError *error = NULL;

  if (!get_new_array (args, n_args, names, &new))
    return gpu_fast_pass_on (&(GpuFastCall) { &zeros_method, class, args, n_args, names });

  Py_BEGIN_ALLOW_THREADS
  array = gpu_array_new_filled (new.context, new.allocator, NULL, new.dtype, new.shape, new.n_dims,
                                GPU_ARRAY_ORDER_C, NULL, &error);
  Py_END_ALLOW_THREADS

  return finish_new (&new, array, error);
}

GPU_FAST_DEFINE_FRAMED (array_zeros, "Array.zeros", "gpu_array_new_filled")

/* Replaces a method of the class. */
static gboolean
replace_class_method (PyTypeObject   *type,
                      PyMethodDef    *def,
                      GpuFastMethod  *method)
{
  PyObject *bound = PyObject_GetAttrString ((PyObject *) type, def->ml_name);
  PyObject *descriptor = NULL;
  int status = -1;

  if (bound != NULL && PyMethod_Check (bound))
    {
      method->original = gpu_fast_new_ref (PyMethod_GET_FUNCTION (bound));

      if (gpu_fast_add_doc (def, method->original))
        descriptor = PyDescr_NewClassMethod (type, def);
    }

  if (descriptor != NULL)
    status = PyObject_SetAttrString ((PyObject *) type, def->ml_name, descriptor);

  Py_XDECREF (descriptor);
  Py_XDECREF (bound);

  return status == 0;
}

static gboolean
install_new (PyTypeObject *type)
{
  static PyMethodDef empty_def =
    GPU_FAST_DEF ("empty", array_empty,
                  "context, shape, dtype='float64', order='C', allocator=None, stream=None, "
                  "strides=None");
  static PyMethodDef zeros_def =
    GPU_FAST_DEF ("zeros", array_zeros,
                  "context, shape, dtype='float64', order='C', allocator=None, stream=None");

  empty_def.ml_flags |= METH_CLASS;
  zeros_def.ml_flags |= METH_CLASS;

  return replace_class_method (type, &empty_def, &empty_method)
         && replace_class_method (type, &zeros_def, &zeros_method);
}

/* --- views ------------------------------------------------------------------------------------ */

static gboolean
get_position (PyObject *value,
              gssize    omitted,
              gssize   *position)
{
  *position = omitted;

  return value == Py_None || gpu_fast_to_gssize (value, position);
}

/* Applies an index or a slice along a dimension. Returns NULL without an error for a key that only
 * the overrides handle. */
static GpuArray *
apply (GpuArray  *array,
       guint      axis,
       PyObject  *key,
       gboolean  *is_index,
       GError   **error)
{
  const gssize *shape = gpu_array_get_shape (array, NULL);
  gssize start, stop, step;

  *is_index = !PySlice_Check (key);

  if (*is_index)
    return gpu_fast_to_gssize (key, &start) && start >= -shape[axis] && start < shape[axis]
           ? gpu_array_index (array, axis, start, error) : NULL;

  if (!get_position (((PySliceObject *) key)->step, 1, &step) || step == 0
      || !get_position (((PySliceObject *) key)->start, step > 0 ? G_MINSSIZE : G_MAXSSIZE, &start)
      || !get_position (((PySliceObject *) key)->stop, step > 0 ? G_MAXSSIZE : G_MINSSIZE, &stop))
    return NULL;

  return gpu_array_slice (array, axis, start, stop, step, error);
}

/* Applies indices and slices to the first dimensions. Returns like apply(). */
static GpuArray *
apply_all (GpuArray        *array,
           PyObject *const *keys,
           Py_ssize_t       n_keys,
           GError         **error)
{
  g_autoptr (GpuArray) view = NULL;
  guint axis = 0;
  guint n_dims;

  gpu_array_get_shape (array, &n_dims);

  if (n_keys == 0 || n_keys > (Py_ssize_t) n_dims)
    return NULL;

  for (Py_ssize_t i = 0; i < n_keys; i++)
    {
      gboolean is_index;
      GpuArray *next = apply (view != NULL ? view : array, axis, keys[i], &is_index, error);

      if (next == NULL)
        return NULL;

      g_clear_object (&view);
      view = next;
      axis += !is_index;
    }

  return g_steal_pointer (&view);
}

static PyObject *
array_getitem (PyObject         *self,
               PyObject *const  *args,
               Py_ssize_t        n_args,
               PyObject         *names)
{
  const GpuFastCall call = { &getitem_method, self, args, n_args, names };
  PyObject *const *keys = args;
  Py_ssize_t n_keys = 1;
  GpuArray *view;
  GError *error = NULL;

  if (n_args != 1 || names != NULL || get_array (self) == NULL)
    return gpu_fast_pass_on (&call);

  if (PyTuple_CheckExact (args[0]))
    {
      keys = &PyTuple_GET_ITEM (args[0], 0);
      n_keys = PyTuple_GET_SIZE (args[0]);
    }

  view = apply_all (get_array (self), keys, n_keys, &error);

  if (error != NULL)
    return gpu_fast_raise (error);

  return view != NULL ? pygobject_new_full ((GObject *) view, TRUE, NULL)
                      : gpu_fast_pass_on (&call);
}

GPU_FAST_DEFINE_FRAMED (array_getitem, "Array.slice", "gpu_array_slice gpu_array_index")

static gboolean
install_work (PyTypeObject *type)
{
  static PyMethodDef copy_def =
    GPU_FAST_DEF ("copy", array_copy, "allocator=None, stream=None, order='K'");
  static PyMethodDef fill_def =
    GPU_FAST_DEF ("fill", array_fill, "value, stream=None");
  static PyMethodDef getitem_def =
    GPU_FAST_DEF ("__getitem__", array_getitem, "key");

  return gpu_fast_replace (type, &copy_def, &copy_method)
         && gpu_fast_replace (type, &fill_def, &fill_method)
         && gpu_fast_replace (type, &getitem_def, &getitem_method);
}

gboolean
gpu_fast_install_array (void)
{
  static PyMethodDef copy_to_device_def =
    GPU_FAST_DEF ("copy_to_device", array_copy_to_device, "data, stream=None");
  static PyMethodDef read_into_def =
    GPU_FAST_DEF ("read_into", array_read_into, "target, stream=None");
  static PyMethodDef to_numpy_def =
    GPU_FAST_DEF ("to_numpy", array_to_numpy, "stream=None");
  static PyMethodDef write_def =
    GPU_FAST_DEF ("write", array_write, "data, stream=None");
  PyTypeObject *type = gpu_fast_types.array;

  return gpu_fast_replace (type, &read_into_def, &read_into_method)
         && gpu_fast_replace (type, &to_numpy_def, &to_numpy_method)
         && gpu_fast_replace (type, &copy_to_device_def, &copy_to_device_method)
         && gpu_fast_replace (type, &write_def, &write_method) && install_work (type)
         && install_new (type);
}
