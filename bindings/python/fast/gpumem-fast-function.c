/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gpumem-fast-function.h"

/* --- calls ------------------------------------------------------------------------------------ */

PyObject *const *
gpu_fast_bind_names (GpuFastFunction   *function,
                     PyObject *const   *args,
                     size_t             n_args,
                     PyObject          *names,
                     PyObject         **slots)
{
  guint first = function->n_values - function->spec->n_parameters;
  guint n_given = PyVectorcall_NARGS (n_args);
  Py_ssize_t n_names = names != NULL ? PyTuple_GET_SIZE (names) : 0;

  if (n_given < first || n_given > function->n_values)
    return NULL;

  for (guint i = 0; i < function->n_values; i++)
    slots[i] = i < n_given ? args[i] : NULL;

  for (Py_ssize_t i = 0; i < n_names; i++)
    {
      guint at = 0;

      while (at < function->spec->n_parameters
             && PyTuple_GET_ITEM (function->names, at) != PyTuple_GET_ITEM (names, i))
        at++;

      if (at == function->spec->n_parameters || slots[first + at] != NULL)
        return NULL;

      slots[first + at] = args[n_given + i];
    }

  for (guint i = 0; i < function->spec->n_required; i++)
    {
      if (slots[first + i] == NULL)
        return NULL;
    }

  return slots;
}

static PyObject *
get_original (GpuFastFunction *function)
{
  PyObject *original;

  if (function->original != NULL)
    return function->original;

  original = PyObject_CallOneArg (function->make_original, function->info);

  /* Another thread may have made it during the call. */
  if (function->original == NULL)
    function->original = original;
  else
    Py_XDECREF (original);

  return function->original;
}

PyObject *
gpu_fast_forward (PyObject         *callable,
                  PyObject *const  *args,
                  size_t            n_args,
                  PyObject         *names)
{
  GpuFastFunction *function = (GpuFastFunction *) callable;
  PyObject *original = get_original (function);
  PyObject *result;

  if (original == NULL)
    return NULL;

  result = PyObject_Vectorcall (original, args, n_args & ~PY_VECTORCALL_ARGUMENTS_OFFSET, names);

  if (function->tuple_type == NULL && result != NULL && PyTuple_Check (result))
    {
      Py_INCREF (Py_TYPE (result));
      function->tuple_type = Py_TYPE (result);
    }

  return result;
}

PyObject *
gpu_fast_pack (PyObject    *callable,
               PyObject   **items,
               Py_ssize_t   n_items)
{
  PyTypeObject *type = ((GpuFastFunction *) callable)->tuple_type;
  PyObject *tuple = type == &PyTuple_Type ? PyTuple_New (n_items) : type->tp_alloc (type, n_items);
  gboolean success = tuple != NULL;

  for (Py_ssize_t i = 0; i < n_items; i++)
    {
      success = success && items[i] != NULL;

      if (tuple != NULL)
        PyTuple_SET_ITEM (tuple, i, items[i]);
      else
        Py_XDECREF (items[i]);
    }

  if (!success)
    Py_CLEAR (tuple);

  return tuple;
}

/* --- conversions ------------------------------------------------------------------------------ */

/* Looks up a class where PyGObject does: in gi.repository, which has the overrides. During the
 * import of the overrides, the class may still be replaced. */
static PyTypeObject *
import_class (const GpuFastClass *class)
{
  g_autofree char *name = g_strconcat ("gi.repository.", class->namespace, NULL);
  PyObject *module = PyImport_ImportModule (name);
  PyObject *type = module != NULL ? PyObject_GetAttrString (module, class->name) : NULL;

  Py_XDECREF (module);

  if (type != NULL && !PyType_Check (type))
    {
      PyErr_Format (PyExc_TypeError, "%s.%s is not a class", name, class->name);
      Py_CLEAR (type);
    }

  return (PyTypeObject *) type;
}

/* Gets the class and caches it if the overrides are complete. Returns a new reference. */
static PyTypeObject *
get_class (GpuFastClass *class)
{
  PyTypeObject *type = class->type;

  if (type == NULL)
    {
      type = import_class (class);

      if (type == NULL || gpu_fast_types.buffer == NULL)
        return type;

      class->type = type;
    }

  Py_INCREF (type);

  return type;
}

/* The class is Python code, in which Python runs signal handlers. An exception of a handler takes
 * the place of the error; pyg_error_check() would print it, and raise a RuntimeError. */
PyObject *
gpu_fast_raise (GError *error)
{
  static GpuFastClass class = { .namespace = "GLib", .name = "Error" };
  PyTypeObject *type = get_class (&class);
  PyObject *exception = NULL;

  if (type != NULL)
    exception = PyObject_CallFunction ((PyObject *) type, "szi", error->message,
                                       g_quark_to_string (error->domain), error->code);

  if (exception != NULL)
    PyErr_SetObject ((PyObject *) Py_TYPE (exception), exception);

  Py_XDECREF (exception);
  Py_XDECREF (type);
  g_error_free (error);

  return NULL;
}

gboolean
gpu_fast_find_class (GpuFastClass *class)
{
  PyTypeObject *type;

  if (G_LIKELY (class->type != NULL))
    return TRUE;

  type = get_class (class);
  PyErr_Clear ();
  Py_XDECREF (type);

  return class->type != NULL;
}

/* PyGObject makes another class if the program has not used that of the type yet. */
static gboolean
need_class (GpuFastClass *class)
{
  PyTypeObject *type = get_class (class);

  Py_XDECREF (type);

  return type != NULL;
}

PyObject *
gpu_fast_from_enum (GpuFastClass *class,
                    int           value)
{
  return need_class (class) ? pyg_enum_from_gtype (class->get_type (), value) : NULL;
}

PyObject *
gpu_fast_from_flags (GpuFastClass *class,
                     guint         value)
{
  return need_class (class) ? pyg_flags_from_gtype (class->get_type (), value) : NULL;
}

PyObject *
gpu_fast_from_boxed (GpuFastClass *class,
                     gpointer      boxed,
                     gboolean      owned)
{
  GType gtype = class->get_type ();
  PyTypeObject *type;
  PyObject *self;

  if (boxed == NULL)
    Py_RETURN_NONE;

  type = get_class (class);
  self = type != NULL && PyType_IsSubtype (type, &PyGBoxed_Type) ? type->tp_alloc (type, 0) : NULL;

  if (self != NULL)
    {
      pyg_boxed_set_ptr (self, (owned ? boxed : g_boxed_copy (gtype, boxed)));
      ((PyGBoxed *) self)->gtype = gtype;
      ((PyGBoxed *) self)->free_on_dealloc = TRUE;
    }
  else
    {
      if (owned)
        g_boxed_free (gtype, boxed);

      if (PyErr_Occurred () == NULL)
        PyErr_Format (PyExc_TypeError, "%s.%s is not a boxed type", class->namespace, class->name);
    }

  Py_XDECREF (type);

  return self;
}

PyObject *
gpu_fast_from_utf8 (char     *text,
                    gboolean  owned)
{
  PyObject *value;

  if (text == NULL)
    Py_RETURN_NONE;

  value = PyUnicode_FromString (text);

  if (owned)
    g_free (text);

  return value;
}

PyObject *
gpu_fast_from_gssize_array (const gssize *items,
                            guint         n_items)
{
  PyObject *list = PyList_New (items != NULL ? n_items : 0);

  for (guint i = 0; list != NULL && items != NULL && i < n_items; i++)
    {
      PyObject *item = PyLong_FromSsize_t (items[i]);

      if (item == NULL)
        Py_CLEAR (list);
      else
        PyList_SET_ITEM (list, i, item);
    }

  return list;
}

PyObject *
gpu_fast_from_list (GList *list)
{
  PyObject *result = PyList_New (0);

  for (GList *link = list; link != NULL; link = link->next)
    {
      PyObject *item = pygobject_new_full (link->data, TRUE, NULL);

      if (item == NULL || (result != NULL && PyList_Append (result, item) < 0))
        Py_CLEAR (result);

      Py_XDECREF (item);
    }

  g_list_free (list);

  return result;
}

PyObject *
gpu_fast_from_strv (char **texts)
{
  guint n_texts = texts != NULL ? g_strv_length (texts) : 0;
  PyObject *list = PyList_New (n_texts);

  for (guint i = 0; list != NULL && i < n_texts; i++)
    {
      PyObject *item = PyUnicode_FromString (texts[i]);

      if (item == NULL)
        Py_CLEAR (list);
      else
        PyList_SET_ITEM (list, i, item);
    }

  g_strfreev (texts);

  return list;
}

/* Gets the elements of a list or a tuple. The caller must not run code of Python before it has
 * converted all of them. */
static PyObject **
get_items (PyObject *value,
           gsize    *n_items)
{
  if (PyTuple_CheckExact (value))
    {
      *n_items = PyTuple_GET_SIZE (value);
      return &PyTuple_GET_ITEM (value, 0);
    }

  *n_items = PyList_GET_SIZE (value);

  return ((PyListObject *) value)->ob_item;
}

#define DEFINE_TO_ARRAY(type) \
  gboolean \
  gpu_fast_to_##type##_array (PyObject  *value, \
                              gboolean   may_be_null, \
                              type     **items, \
                              gsize     *n_items) \
  { \
    PyObject **values; \
    *n_items = 0; \
    if (may_be_null && gpu_fast_is_none (value)) \
      { \
        *items = NULL; \
        return TRUE; \
      } \
    if (!PyTuple_CheckExact (value) && !PyList_CheckExact (value)) \
      return FALSE; \
    values = get_items (value, n_items); \
    if (*n_items == 0 || *n_items > GPU_FAST_MAX_ITEMS) \
      return FALSE; \
    for (gsize i = 0; i < *n_items; i++) \
      { \
        if (!gpu_fast_to_##type (values[i], &(*items)[i])) \
          return FALSE; \
      } \
    return TRUE; \
  }

DEFINE_TO_ARRAY (gsize)
DEFINE_TO_ARRAY (gssize)
DEFINE_TO_ARRAY (guint)

/* Copies a buffer of integers of 64 bits, such as a NumPy array with one dimension. */
static gboolean
copy_integers (PyObject  *value,
               gint64   **items,
               gsize     *n_items)
{
  Py_buffer buffer;
  gboolean success;

  if (PyObject_GetBuffer (value, &buffer, PyBUF_ND | PyBUF_FORMAT) < 0)
    {
      PyErr_Clear ();
      return FALSE;
    }

  success = buffer.ndim == 1 && buffer.itemsize == sizeof **items && buffer.format != NULL
            && (strcmp (buffer.format, "l") == 0 || strcmp (buffer.format, "q") == 0);
  if (success)
    {
      *n_items = buffer.shape[0];
      *items = g_memdup2 (buffer.buf, buffer.len);
    }

  PyBuffer_Release (&buffer);

  return success;
}

gboolean
gpu_fast_to_gint64_array (PyObject  *value,
                          gint64   **items,
                          gsize     *n_items)
{
  PyObject **values;

  if (!PyTuple_CheckExact (value) && !PyList_CheckExact (value))
    return PyObject_CheckBuffer (value) && copy_integers (value, items, n_items);

  values = get_items (value, n_items);
  *items = g_new (gint64, *n_items);
  for (gsize i = 0; i < *n_items; i++)
    {
      if (!gpu_fast_to_gint64 (values[i], &(*items)[i]))
        return FALSE;
    }

  return TRUE;
}

/* --- Python objects of functions -------------------------------------------------------------- */

static void
function_dealloc (PyObject *self)
{
  GpuFastFunction *function = (GpuFastFunction *) self;

  Py_XDECREF (function->info);
  Py_XDECREF (function->make_original);
  Py_XDECREF (function->original);
  Py_XDECREF (function->names);
  Py_XDECREF (function->tuple_type);
  Py_TYPE (self)->tp_free (self);
}

static PyObject *
function_repr (PyObject *self)
{
  const GpuFastSpec *spec = ((GpuFastFunction *) self)->spec;

  return PyUnicode_FromFormat ("<function Gpu.%s%s%s>", spec->owner != NULL ? spec->owner : "",
                               spec->owner != NULL ? "." : "", spec->name);
}

/* Binds a method to its object. */
static PyObject *
method_get (PyObject *self,
            PyObject *object,
            PyObject *type G_GNUC_UNUSED)
{
  return object != NULL ? PyMethod_New (self, object) : gpu_fast_new_ref (self);
}

static PyObject *
function_get (PyObject *self,
              PyObject *object G_GNUC_UNUSED,
              PyObject *type G_GNUC_UNUSED)
{
  return gpu_fast_new_ref (self);
}

/* Binds a constructor to the class. */
static PyObject *
constructor_get (PyObject *self,
                 PyObject *object,
                 PyObject *type)
{
  return PyMethod_New (self, type != NULL ? type : (PyObject *) Py_TYPE (object));
}

static PyObject *
function_get_name (PyObject *self,
                   void     *data G_GNUC_UNUSED)
{
  return PyUnicode_FromString (((GpuFastFunction *) self)->spec->name);
}

static int
compare_docs (const void *a,
              const void *b)
{
  const GpuFastDoc *left = a, *right = b;
  int order = strcmp (left->owner, right->owner);

  return order != 0 ? order : strcmp (left->name, right->name);
}

const char *
gpu_fast_find_doc (const char *owner,
                   const char *name)
{
  const GpuFastDoc key = { owner, name, NULL };
  const GpuFastDoc *found = bsearch (&key, gpu_fast_docs, gpu_fast_n_docs, sizeof key,
                                     compare_docs);

  return found != NULL ? found->doc : NULL;
}

PyObject *
gpu_fast_get_doc (PyObject         *module G_GNUC_UNUSED,
                  PyObject *const  *args,
                  Py_ssize_t        n_args)
{
  const char *doc;

  if (n_args != 2 || !PyUnicode_Check (args[0]) || !PyUnicode_Check (args[1]))
    {
      PyErr_SetString (PyExc_TypeError, "get_doc() takes the names of a class and of a function");
      return NULL;
    }

  doc = gpu_fast_find_doc (PyUnicode_AsUTF8 (args[0]), PyUnicode_AsUTF8 (args[1]));

  if (doc == NULL)
    Py_RETURN_NONE;

  return PyUnicode_FromString (doc);
}

static PyObject *
function_get_doc (PyObject *self,
                  void     *data G_GNUC_UNUSED)
{
  const GpuFastSpec *spec = ((GpuFastFunction *) self)->spec;
  const char *doc = gpu_fast_find_doc (spec->owner != NULL ? spec->owner : "", spec->name);

  if (doc == NULL)
    return PyObject_GetAttrString (((GpuFastFunction *) self)->info, "__doc__");

  return PyUnicode_FromString (doc);
}

/* In the form that inspect.signature() reads. */
static PyObject *
function_get_signature (PyObject *self,
                        void     *data G_GNUC_UNUSED)
{
  const GpuFastSpec *spec = ((GpuFastFunction *) self)->spec;
  g_autoptr (GString) text = g_string_new ("(");

  if (spec->kind != GPU_FAST_FUNCTION)
    g_string_append (text, spec->kind == GPU_FAST_METHOD ? "$self" : "$cls");

  for (guint i = 0; i < spec->n_parameters; i++)
    g_string_append_printf (text, "%s%s%s", text->len > 1 ? ", " : "", spec->parameters[i],
                            i < spec->n_required ? "" : "=None");

  g_string_append_c (text, ')');

  return PyUnicode_FromString (text->str);
}

static PyObject *
function_get_qualname (PyObject *self,
                       void     *data G_GNUC_UNUSED)
{
  const GpuFastSpec *spec = ((GpuFastFunction *) self)->spec;

  return PyUnicode_FromFormat ("%s%s%s", spec->owner != NULL ? spec->owner : "",
                               spec->owner != NULL ? "." : "", spec->name);
}

/* Not __wrapped__, which inspect.signature() would follow to the function of PyGObject. */
static PyObject *
function_get_original (PyObject *self,
                       void     *data G_GNUC_UNUSED)
{
  PyObject *original = get_original ((GpuFastFunction *) self);

  return original != NULL ? gpu_fast_new_ref (original) : NULL;
}

static PyGetSetDef properties[] = {
  { "__name__", function_get_name, NULL, NULL, NULL },
  { "__qualname__", function_get_qualname, NULL, NULL, NULL },
  { "__doc__", function_get_doc, NULL, NULL, NULL },
  { "__text_signature__", function_get_signature, NULL, NULL, NULL },
  { "_original", function_get_original, NULL, NULL, NULL },
  { NULL, NULL, NULL, NULL, NULL }
};

#define FUNCTION_TYPE(name, get, flags) \
  { \
    PyVarObject_HEAD_INIT (NULL, 0) \
    .tp_name = "gi.overrides._gpumem_fast." name, \
    .tp_basicsize = sizeof (GpuFastFunction), \
    .tp_dealloc = function_dealloc, \
    .tp_vectorcall_offset = offsetof (GpuFastFunction, vectorcall), \
    .tp_call = PyVectorcall_Call, \
    .tp_repr = function_repr, \
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | (flags), \
    .tp_getset = properties, \
    .tp_descr_get = get, \
  }

static PyTypeObject function_types[] = {
  [GPU_FAST_METHOD] = FUNCTION_TYPE ("method", method_get, Py_TPFLAGS_METHOD_DESCRIPTOR),
  [GPU_FAST_CONSTRUCTOR] = FUNCTION_TYPE ("constructor", constructor_get, 0),
  [GPU_FAST_FUNCTION] = FUNCTION_TYPE ("function", function_get, 0)
};

static GHashTable *specs;           /* of GpuFastSpec by name, with the class */

static char *
make_key (const char *owner,
          const char *name)
{
  return g_strconcat (owner != NULL ? owner : "", ".", name, NULL);
}

gboolean
gpu_fast_init_functions (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (function_types); i++)
    {
      if (PyType_Ready (&function_types[i]) < 0)
        return FALSE;
    }

  specs = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);

  for (guint i = 0; i < gpu_fast_n_specs; i++)
    g_hash_table_insert (specs, make_key (gpu_fast_specs[i].owner, gpu_fast_specs[i].name),
                         (gpointer) &gpu_fast_specs[i]);

  return TRUE;
}

static PyObject *
make_names (const GpuFastSpec *spec)
{
  PyObject *names = PyTuple_New (spec->n_parameters);

  for (guint i = 0; names != NULL && i < spec->n_parameters; i++)
    {
      PyObject *name = PyUnicode_InternFromString (spec->parameters[i]);

      if (name == NULL)
        Py_CLEAR (names);
      else
        PyTuple_SET_ITEM (names, i, name);
    }

  return names;
}

static PyObject *
make_function (const GpuFastSpec *spec,
               PyObject          *info,
               PyObject          *make_original)
{
  GpuFastFunction *self = PyObject_New (GpuFastFunction, &function_types[spec->kind]);

  if (self == NULL)
    return NULL;

  self->vectorcall = spec->is_quick ? spec->call : gpu_fast_call;
  self->spec = spec;
  self->n_values = spec->n_parameters + (spec->kind != GPU_FAST_FUNCTION);
  self->info = gpu_fast_new_ref (info);
  self->make_original = gpu_fast_new_ref (make_original);
  self->original = NULL;
  self->tuple_type = NULL;
  self->names = make_names (spec);

  if (self->names == NULL)
    Py_CLEAR (self);

  return (PyObject *) self;
}

PyObject *
gpu_fast_new_function (PyObject         *module G_GNUC_UNUSED,
                       PyObject *const  *args,
                       Py_ssize_t        n_args)
{
  g_autofree char *key = NULL;
  const GpuFastSpec *spec;

  if (n_args != 4 || (args[0] != Py_None && !PyUnicode_Check (args[0]))
      || !PyUnicode_Check (args[1]) || !PyCallable_Check (args[3]))
    {
      PyErr_SetString (PyExc_TypeError, "new_function() takes the name of a class or None, the "
                                         "name of a function, its info, and the function that "
                                         "makes the original from the info");
      return NULL;
    }

  key = make_key (args[0] != Py_None ? PyUnicode_AsUTF8 (args[0]) : NULL,
                  PyUnicode_AsUTF8 (args[1]));
  spec = g_hash_table_lookup (specs, key);

  if (spec == NULL)
    Py_RETURN_NONE;

  return make_function (spec, args[2], args[3]);
}
