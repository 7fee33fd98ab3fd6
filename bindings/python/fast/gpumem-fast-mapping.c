/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Mappings, and the object behind all views of a mapping. That object exports the mapped memory
 * through the buffer protocol. While it exists, the library refuses to unmap the memory. */
#include "gpumem-fast-function.h"

static GpuFastMethod buffer_map_method = {
  { "flags", "offset", "size", "stream" }, 0, { NULL }, NULL
};
static GpuFastMethod svm_map_method = {
  { "flags", "offset", "size", "stream" }, 0, { NULL }, NULL
};
static GpuFastMethod export_method;
static GpuFastMethod to_numpy_method = { { "dtype", "shape", "order" }, 0, { NULL }, NULL };
static GpuFastMethod unmap_method;
static GpuFastMethod enter_method;
static GpuFastMethod exit_method;

/* The key under which a GpuMapping has its Mapped, without a reference. */
static GQuark mapped_quark;

typedef struct
{
  PyObject_HEAD
  PyObject *mapping;                /* outlives `bytes`, whose release would unmap the memory */
  GObject  *object;                 /* of @mapping; NULL if the garbage collector has cleared it */
  GBytes   *bytes;
  PyObject *weak_references;
  gboolean  is_read_only;
} Mapped;

/* A program may store a view in an attribute of its mapping. Clearing that attribute ends such a
 * cycle, so this type needs no tp_clear. The collector does not see the references of NumPy arrays,
 * so a mapping that has an array over itself as an attribute stays mapped. */
static int
mapped_traverse (PyObject  *self,
                 visitproc  visit,
                 void      *arg)
{
  Py_VISIT (((Mapped *) self)->mapping);

  return 0;
}

static void
mapped_dealloc (PyObject *self)
{
  Mapped *mapped = (Mapped *) self;

  PyObject_GC_UnTrack (self);

  if (mapped->object != NULL)
    g_object_steal_qdata (mapped->object, mapped_quark);

  if (mapped->weak_references != NULL)
    PyObject_ClearWeakRefs (self);

  g_bytes_unref (mapped->bytes);
  Py_DECREF (mapped->mapping);
  PyObject_GC_Del (self);
}

static int
mapped_export (PyObject  *self,
               Py_buffer *view,
               int        flags)
{
  Mapped *mapped = (Mapped *) self;
  gsize size;
  gpointer data = (gpointer) g_bytes_get_data (mapped->bytes, &size);

  return PyBuffer_FillInfo (view, self, data, size, mapped->is_read_only, flags);
}

static PyTypeObject mapped_type = {
  PyVarObject_HEAD_INIT (NULL, 0)
  .tp_name = "gi.overrides._gpumem_fast.Mapped",
  .tp_basicsize = sizeof (Mapped),
  .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
  .tp_traverse = mapped_traverse,
  .tp_dealloc = mapped_dealloc,
  .tp_weaklistoffset = offsetof (Mapped, weak_references),
  .tp_as_buffer = &(PyBufferProcs) { .bf_getbuffer = mapped_export }
};

gboolean
gpu_fast_init_mapping (void)
{
  return PyType_Ready (&mapped_type) == 0;
}

static void
object_finalized (gpointer mapped)
{
  ((Mapped *) mapped)->object = NULL;
}

/* Returns a new reference to the Mapped of a mapping. Returns NULL, possibly without an exception,
 * if the memory is unmapped. */
static PyObject *
ref_mapped (PyObject *self)
{
  const GpuMapFlags writes = GPU_MAP_FLAGS_WRITE | GPU_MAP_FLAGS_WRITE_INVALIDATE;
  GpuMapping *mapping = (GpuMapping *) ((PyGObject *) self)->obj;
  PyObject *known = g_object_get_qdata ((GObject *) mapping, mapped_quark);
  GBytes *bytes;
  Mapped *mapped;

  if (known != NULL)
    return gpu_fast_new_ref (known);

  bytes = gpu_mapping_get_bytes (mapping);

  if (bytes == NULL)
    return NULL;

  mapped = PyObject_GC_New (Mapped, &mapped_type);

  if (mapped == NULL)
    {
      g_bytes_unref (bytes);
      return NULL;
    }

  mapped->mapping = gpu_fast_new_ref (self);
  mapped->object = (GObject *) mapping;
  mapped->bytes = bytes;
  mapped->weak_references = NULL;
  mapped->is_read_only = (_gpu_binding_get_map_flags (mapping) & writes) == 0;
  g_object_set_qdata_full (mapped->object, mapped_quark, mapped, object_finalized);
  PyObject_GC_Track ((PyObject *) mapped);

  return (PyObject *) mapped;
}

/* --- methods ---------------------------------------------------------------------------------- */

/* A map, and the mapping once it was submitted. */
typedef struct
{
  GpuStream   *stream;
  GpuMemory   *memory;
  GpuMapFlags  flags;
  gsize        offset;
  gsize        size;
  GpuMapping  *mapping;
} Map;

static gboolean
submit_map (gpointer   data,
            GError   **error)
{
  Map *map = data;

  map->mapping = gpu_stream_map (map->stream, map->memory, map->flags, map->offset, map->size,
                                 error);

  return map->mapping != NULL;
}

static PyObject *
map (const GpuFastCall *call)
{
  static GpuFastClass flags_class = { "Gpu", "MapFlags", gpu_map_flags_get_type, NULL };
  GpuMemory *memory = (GpuMemory *) ((PyGObject *) call->self)->obj;
  PyObject *values[GPU_FAST_MAX_PARAMETERS];
  g_autoptr (GpuStream) stream = NULL;
  PyObject *waited;
  gpointer given;
  Map map;
  int flags = GPU_MAP_FLAGS_NONE;
  gsize offset, size;

  if (!gpu_fast_parse (call, values)
      || (values[0] != NULL && !gpu_fast_to_enum (values[0], &flags_class, &flags))
      || !gpu_fast_get_offset (values[1], &offset)
      || !gpu_fast_get_rest (values[2], memory, offset, &size)
      || !gpu_fast_peek_optional (values[3], gpu_fast_types.stream, &given))
    return gpu_fast_pass_on (call);

  /* The creation of the default stream may block. */
  Py_BEGIN_ALLOW_THREADS
  stream = gpu_fast_ref_stream (given, gpu_memory_get_context (memory));
  Py_END_ALLOW_THREADS

  if (stream == NULL)
    return gpu_fast_pass_on (call);

  map = (Map) { stream, memory, flags, offset, size, NULL };
  waited = gpu_fast_submit_and_wait (stream, submit_map, &map);

  if (waited == NULL)
    {
      gpu_fast_drop (map.mapping);
      return NULL;
    }

  Py_DECREF (waited);

  return pygobject_new_full ((GObject *) map.mapping, TRUE, NULL);
}

static PyObject *
buffer_map (PyObject         *self,
            PyObject *const  *args,
            Py_ssize_t        n_args,
            PyObject         *names)
{
  return map (&(GpuFastCall) { &buffer_map_method, self, args, n_args, names });
}

GPU_FAST_DEFINE_FRAMED (buffer_map, "Buffer.map", "gpu_stream_map " GPU_FAST_WAIT_SYMBOLS)

static PyObject *
svm_map (PyObject         *self,
         PyObject *const  *args,
         Py_ssize_t        n_args,
         PyObject         *names)
{
  return map (&(GpuFastCall) { &svm_map_method, self, args, n_args, names });
}

GPU_FAST_DEFINE_FRAMED (svm_map, "Svm.map", "gpu_stream_map " GPU_FAST_WAIT_SYMBOLS)

static PyObject *
mapping_export (PyObject         *self,
                PyObject *const  *args,
                Py_ssize_t        n_args,
                PyObject         *names)
{
  const GpuFastCall call = { &export_method, self, args, n_args, names };
  PyObject *mapped = gpu_fast_parse (&call, (PyObject *[GPU_FAST_MAX_PARAMETERS]) { NULL })
                     ? ref_mapped (self) : NULL;

  return mapped != NULL || PyErr_Occurred () != NULL ? mapped : gpu_fast_pass_on (&call);
}

GPU_FAST_DEFINE_FRAMED (mapping_export, "Mapping.view", "gpu_mapping_get_bytes")

/* Names of dtypes whose dtype is kept. */
#define MAX_DTYPES 32

static gboolean
is_one (PyObject   *object,
        const char *attribute)
{
  PyObject *value = PyObject_GetAttrString (object, attribute);
  gboolean one = value != NULL && PyLong_AsLong (value) == 1;

  Py_XDECREF (value);
  PyErr_Clear ();

  return one;
}

/* Returns whether the dtype of an array is the one that was asked for, and cannot change. A dtype
 * with dimensions adds them to the array. The names of fields can change. */
static gboolean
is_constant (PyObject *array,
             PyObject *dtype)
{
  return is_one (array, "ndim") && is_one (dtype, "isbuiltin");
}

/* Returns an array of one dimension over the mapped bytes. */
static PyObject *
make_array (PyObject *mapped,
            PyObject *dtype)
{
  static PyObject *frombuffer;
  static PyObject *dtypes;          /* by name, because NumPy parses names */
  PyObject *known = NULL;
  PyObject *array;

  if (G_UNLIKELY (frombuffer == NULL))
    {
      PyObject *numpy = PyImport_ImportModule ("numpy");

      if (numpy != NULL && (dtypes != NULL || (dtypes = PyDict_New ()) != NULL))
        frombuffer = PyObject_GetAttrString (numpy, "frombuffer");
      Py_XDECREF (numpy);

      if (frombuffer == NULL)
        return NULL;
    }

  if (PyUnicode_CheckExact (dtype))
    known = PyDict_GetItemWithError (dtypes, dtype);

  if (known != NULL)
    return PyObject_Vectorcall (frombuffer, (PyObject *[]) { mapped, known }, 2, NULL);

  array = PyObject_Vectorcall (frombuffer, (PyObject *[]) { mapped, dtype }, 2, NULL);

  if (array != NULL && PyUnicode_CheckExact (dtype) && PyDict_GET_SIZE (dtypes) < MAX_DTYPES)
    {
      known = PyObject_GetAttrString (array, "dtype");

      if (known == NULL
          || (is_constant (array, known) && PyDict_SetItem (dtypes, dtype, known) < 0))
        Py_CLEAR (array);

      Py_XDECREF (known);
    }

  return array;
}

static PyObject *
mapping_to_numpy (PyObject         *self,
                  PyObject *const  *args,
                  Py_ssize_t        n_args,
                  PyObject         *names)
{
  const GpuFastCall call = { &to_numpy_method, self, args, n_args, names };
  PyObject *values[GPU_FAST_MAX_PARAMETERS];
  PyObject *array;
  PyObject *mapped;

  if (!gpu_fast_parse (&call, values) || gpu_fast_is_none (values[0]) || values[1] != NULL
      || values[2] != NULL || (mapped = ref_mapped (self)) == NULL)
    return PyErr_Occurred () == NULL ? gpu_fast_pass_on (&call) : NULL;

  array = make_array (mapped, values[0]);
  Py_DECREF (mapped);

  /* The method in Python names the size and the type. */
  if (array == NULL && PyErr_ExceptionMatches (PyExc_ValueError))
    {
      PyErr_Clear ();
      return gpu_fast_pass_on (&call);
    }

  return array;
}

GPU_FAST_DEFINE_FRAMED (mapping_to_numpy, "Mapping.to_numpy", "gpu_mapping_get_bytes")

/* Returns True, or NULL with an exception. */
static PyObject *
unmap (PyObject *self)
{
  GpuMapping *mapping = (GpuMapping *) ((PyGObject *) self)->obj;
  GError *error = NULL;
  gboolean success;

  if (g_object_get_qdata ((GObject *) mapping, mapped_quark) != NULL)
    {
      PyErr_SetString (PyExc_BufferError, "a mapping cannot be unmapped while views of it exist: "
                       "drop them first");
      return NULL;
    }

  Py_BEGIN_ALLOW_THREADS
  success = gpu_mapping_unmap (mapping, &error);
  Py_END_ALLOW_THREADS

  return gpu_fast_finish (success, error);
}

static PyObject *
mapping_unmap (PyObject         *self,
               PyObject *const  *args,
               Py_ssize_t        n_args,
               PyObject         *names)
{
  const GpuFastCall call = { &unmap_method, self, args, n_args, names };

  if (!gpu_fast_parse (&call, (PyObject *[GPU_FAST_MAX_PARAMETERS]) { NULL }))
    return gpu_fast_pass_on (&call);

  return unmap (self);
}

GPU_FAST_DEFINE_FRAMED (mapping_unmap, "Mapping.unmap", "gpu_mapping_unmap")

static PyObject *
mapping_enter (PyObject *self,
               PyObject *unused G_GNUC_UNUSED)
{
  return gpu_fast_new_ref (self);
}

static PyObject *
mapping_exit (PyObject         *self,
              PyObject *const  *args,
              Py_ssize_t        n_args,
              PyObject         *names)
{
  const GpuFastCall call = { &exit_method, self, args, n_args, names };
  PyObject *unmapped;

  if (((PyGObject *) self)->obj == NULL || n_args != 3 || names != NULL || args[0] != Py_None)
    return gpu_fast_pass_on (&call);

  if (gpu_mapping_get_address ((GpuMapping *) ((PyGObject *) self)->obj) == 0)
    Py_RETURN_NONE;

  unmapped = unmap (self);

  if (unmapped == NULL)
    return NULL;

  Py_DECREF (unmapped);

  Py_RETURN_NONE;
}

GPU_FAST_DEFINE_FRAMED (mapping_exit, "Mapping.unmap", "gpu_mapping_unmap")

#define MAP_SIGNATURE "flags=0, offset=0, size=None, stream=None"

static gboolean
install_maps (void)
{
  static PyMethodDef buffer_def =
    GPU_FAST_DEF ("map", buffer_map, MAP_SIGNATURE);
  static PyMethodDef svm_def =
    GPU_FAST_DEF ("map", svm_map, MAP_SIGNATURE);

  return gpu_fast_replace (gpu_fast_types.buffer, &buffer_def, &buffer_map_method)
         && gpu_fast_replace (gpu_fast_types.svm, &svm_def, &svm_map_method);
}

gboolean
gpu_fast_install_mapping (void)
{
  static PyMethodDef export_def = GPU_FAST_DEF ("_export", mapping_export, "");
  static PyMethodDef to_numpy_def =
    GPU_FAST_DEF ("to_numpy", mapping_to_numpy, "dtype=None, shape=-1, order='C'");
  static PyMethodDef unmap_def =
    GPU_FAST_DEF ("unmap", mapping_unmap, "");
  static PyMethodDef enter_def = { "__enter__", mapping_enter, METH_NOARGS,
                                   "__enter__($self)\n--\n\n" };
  static PyMethodDef exit_def = GPU_FAST_DEF ("__exit__", mapping_exit,
                                              "kind, exception, traceback");
  PyTypeObject *type = gpu_fast_types.mapping;

  mapped_quark = g_quark_from_static_string ("gpumem-python-mapped");

  return install_maps () && gpu_fast_replace (type, &export_def, &export_method)
         && gpu_fast_replace (type, &to_numpy_def, &to_numpy_method)
         && gpu_fast_replace (type, &unmap_def, &unmap_method)
         && gpu_fast_replace (type, &enter_def, &enter_method)
         && gpu_fast_replace (type, &exit_def, &exit_method);
}
