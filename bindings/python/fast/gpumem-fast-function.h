/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Functions that call the library without introspection, which make-functions writes from the GIR.
 * A function converts arguments of the usual types. It forwards all other calls to the function of
 * the overrides or of PyGObject that it replaces, which converts the arguments or raises the error.
 * So no conversion below sets an exception.
 */
#pragma once

#include "gpumem-fast.h"

#include <string.h>

G_BEGIN_DECLS

/* Elements of an array argument. Longer arrays are forwarded. */
#define GPU_FAST_MAX_ITEMS 32

typedef enum
{
  GPU_FAST_METHOD,
  GPU_FAST_CONSTRUCTOR,
  GPU_FAST_FUNCTION
} GpuFastKind;

typedef struct
{
  const char        *owner;         /* class, NULL for a function of the namespace */
  const char        *name;
  const char        *symbol;        /* the C function */
  GpuFastKind        kind;
  vectorcallfunc     call;
  const char *const *parameters;    /* without the object or the class */
  guint              n_parameters;
  guint              n_required;
  gboolean           is_quick;      /* cannot fail, and calls no function of the program */
} GpuFastSpec;

extern const GpuFastSpec gpu_fast_specs[];
extern const guint gpu_fast_n_specs;

/* The docstring of a function, of a class or of an attribute. */
typedef struct
{
  const char *owner;                /* class, "" for a function of the namespace */
  const char *name;                 /* "" for the class itself, with a colon for an attribute */
  const char *doc;
} GpuFastDoc;

/* Sorted by class and name. */
extern const GpuFastDoc gpu_fast_docs[];
extern const guint gpu_fast_n_docs;

/* The Python object of a function. It is never freed before the class that contains it, so it takes
 * no part in garbage collection. */
typedef struct
{
  PyObject_HEAD
  vectorcallfunc     vectorcall;
  const GpuFastSpec *spec;
  guint              n_values;      /* parameters, with the object or the class */
  PyObject          *info;          /* of PyGObject */
  PyObject          *make_original; /* makes the replaced function from @info */
  PyObject          *original;      /* NULL before its first call */
  PyObject          *names;         /* interned, tuple */
  PyTypeObject      *tuple_type;    /* of several results, NULL before the first forwarded call */
} GpuFastFunction;

/* A class of Python, which is looked up at its first use. */
typedef struct
{
  const char   *namespace;
  const char   *name;
  GType       (*get_type) (void);
  PyTypeObject *type;
} GpuFastClass;

/* Gets the arguments by position, NULL for omitted arguments. Returns NULL if the arguments do not
 * match the parameters. */
PyObject *const *gpu_fast_bind_names (GpuFastFunction   *function,
                                      PyObject *const   *args,
                                      size_t             n_args,
                                      PyObject          *names,
                                      PyObject         **slots);
/* Calls the function in a frame. */
PyObject     *gpu_fast_call          (PyObject          *callable,
                                      PyObject *const   *args,
                                      size_t             n_args,
                                      PyObject          *names);
/* Calls the replaced function. */
PyObject     *gpu_fast_forward       (PyObject          *callable,
                                      PyObject *const   *args,
                                      size_t             n_args,
                                      PyObject          *names);
/* Returns a tuple of the type of PyGObject. Takes ownership of the items. */
PyObject     *gpu_fast_pack          (PyObject          *callable,
                                      PyObject         **items,
                                      Py_ssize_t         n_items);

gboolean      gpu_fast_find_class    (GpuFastClass      *class);
gboolean      gpu_fast_to_gsize_array  (PyObject        *value,
                                        gboolean         may_be_null,
                                        gsize          **items,
                                        gsize           *n_items);
gboolean      gpu_fast_to_gssize_array (PyObject        *value,
                                        gboolean         may_be_null,
                                        gssize         **items,
                                        gsize           *n_items);
gboolean      gpu_fast_to_guint_array  (PyObject        *value,
                                        gboolean         may_be_null,
                                        guint          **items,
                                        gsize           *n_items);
/* Gets the integers of a list, of a tuple or of a buffer of any length. (transfer full): @items
 * must be NULL, and is also set on failure. */
gboolean      gpu_fast_to_gint64_array (PyObject        *value,
                                        gint64         **items,
                                        gsize           *n_items);

static inline PyObject *
gpu_fast_new_ref (PyObject *object)
{
  Py_INCREF (object);

  return object;
}

/* Gets an extent, or one of a number or of a tuple of numbers. */
gboolean      gpu_fast_to_extent     (PyObject          *value,
                                      GpuExtent         *extent);
/* Gets a layout, or one of at most @most numbers, in @storage. Sets @layout to NULL for None. */
gboolean      gpu_fast_to_layout     (PyObject          *value,
                                      guint              most,
                                      GpuLayout         *storage,
                                      const GpuLayout  **layout);

/* Return a new reference, or NULL with an exception. They take ownership of the value if @owned. */
PyObject     *gpu_fast_from_boxed    (GpuFastClass      *class,
                                      gpointer           boxed,
                                      gboolean           owned);
PyObject     *gpu_fast_from_enum     (GpuFastClass      *class,
                                      int                value);
PyObject     *gpu_fast_from_flags    (GpuFastClass      *class,
                                      guint              value);
PyObject     *gpu_fast_from_utf8     (char              *text,
                                      gboolean           owned);
PyObject     *gpu_fast_from_gssize_array (const gssize  *items,
                                          guint          n_items);
/* Take ownership of the list and its elements. */
PyObject     *gpu_fast_from_list     (GList             *list);
PyObject     *gpu_fast_from_strv     (char             **texts);

/* The memory of a Python object, for a call that waits. */
typedef struct _GpuFastMemory GpuFastMemory;

extern GpuFastMemory *gpu_fast_freed;
extern guint gpu_fast_n_abandoned;

/* Releases the memory of Python objects that the library no longer uses. Keeps the current
 * exception. Does nothing in a destructor that this function calls. */
void          gpu_fast_release_freed (void);
/* Called after a wait. Waits until other threads of the library have freed the bytes of work that
 * has completed. The end of the call then releases the memory. */
void          gpu_fast_wait_for_releases (void);

/* Functions of the module. */
PyObject     *gpu_fast_new_function  (PyObject          *module,
                                      PyObject *const   *args,
                                      Py_ssize_t         n_args);
PyObject     *gpu_fast_get_doc       (PyObject          *module,
                                      PyObject *const   *args,
                                      Py_ssize_t         n_args);
PyObject     *gpu_fast_hold          (PyObject          *module,
                                      PyObject *const   *args,
                                      Py_ssize_t         n_args);
PyObject     *gpu_fast_hold_exported (PyObject          *module,
                                      PyObject *const   *args,
                                      Py_ssize_t         n_args);
PyObject     *gpu_fast_release_completed (PyObject      *module,
                                      PyObject          *unused);
/* (transfer full) (nullable): a copy of data of less than GPU_FAST_HELD_SIZE bytes, or NULL without
 * an exception for other data. */
GBytes       *gpu_fast_copy_data     (PyObject          *data);
/* Takes ownership of @buffer. @bytes: (out) (transfer full): bytes over its memory. */
GpuFastMemory *gpu_fast_hold_memory  (Py_buffer         *buffer,
                                      GBytes           **bytes);
/* Caller has dropped its reference to the bytes. Without @has_completed, work may still use them:
 * the buffer is then released once they have been freed. */
void          gpu_fast_release_memory (GpuFastMemory    *memory,
                                      gboolean           has_completed);
PyObject     *gpu_fast_copy_bytes    (PyObject          *module,
                                      PyObject *const   *args,
                                      Py_ssize_t         n_args);
PyObject     *gpu_fast_pack_extent   (PyObject          *module,
                                      PyObject *const   *args,
                                      Py_ssize_t         n_args);
PyObject     *gpu_fast_pack_layout   (PyObject          *module,
                                      PyObject *const   *args,
                                      Py_ssize_t         n_args);
PyObject     *gpu_fast_unpack        (PyObject          *module,
                                      PyObject *const   *args,
                                      Py_ssize_t         n_args);

/* Return FALSE with an exception. */
gboolean      gpu_fast_init_functions (void);
gboolean      gpu_fast_init_held     (void);
gboolean      gpu_fast_init_mapping  (void);

static inline PyObject *const *
gpu_fast_bind (PyObject         *callable,
               PyObject *const  *args,
               size_t            n_args,
               PyObject         *names,
               PyObject        **slots)
{
  GpuFastFunction *function = (GpuFastFunction *) callable;

  if (G_LIKELY (names == NULL && (guint) PyVectorcall_NARGS (n_args) == function->n_values))
    return args;

  return gpu_fast_bind_names (function, args, n_args, names, slots);
}

static inline gboolean
gpu_fast_can_pack (PyObject *callable)
{
  return ((GpuFastFunction *) callable)->tuple_type != NULL;
}

/* Returns whether @value is the class of a constructor, and not a subclass, which PyGObject
 * rejects. */
static inline gboolean
gpu_fast_is_class (PyObject   *value,
                   const char *name)
{
  return PyType_Check (value) && strcmp (((PyTypeObject *) value)->tp_name, name) == 0;
}

static inline gboolean
gpu_fast_is_none (PyObject *value)
{
  return value == NULL || value == Py_None;
}

static inline gboolean
gpu_fast_to_object (PyObject *value,
                    GType     type,
                    gboolean  may_be_null,
                    gpointer *object)
{
  *object = NULL;

  if (may_be_null && gpu_fast_is_none (value))
    return TRUE;

  if (!PyObject_TypeCheck (value, &PyGObject_Type))
    return FALSE;

  *object = ((PyGObject *) value)->obj;

  return *object != NULL && G_TYPE_CHECK_INSTANCE_TYPE (*object, type);
}

static inline gboolean
gpu_fast_to_boxed (PyObject *value,
                   GType     type,
                   gboolean  may_be_null,
                   gpointer *boxed)
{
  *boxed = NULL;

  if (may_be_null && gpu_fast_is_none (value))
    return TRUE;

  if (!pyg_boxed_check (value, type))
    return FALSE;

  *boxed = pyg_boxed_get_ptr (value);

  return *boxed != NULL;
}

/* Also for flags. PyGObject converts plain integers. */
static inline gboolean
gpu_fast_to_enum (PyObject     *value,
                  GpuFastClass *class,
                  int          *number)
{
  if (!gpu_fast_find_class (class) || Py_TYPE (value) != class->type)
    return FALSE;

  *number = (int) PyLong_AsUnsignedLongMask (value);

  return TRUE;
}

static inline gboolean
gpu_fast_to_utf8 (PyObject    *value,
                  gboolean     may_be_null,
                  const char **text)
{
  Py_ssize_t length;

  *text = NULL;

  if (may_be_null && gpu_fast_is_none (value))
    return TRUE;

  if (!PyUnicode_CheckExact (value))
    return FALSE;

  *text = PyUnicode_AsUTF8AndSize (value, &length);

  if (*text == NULL)
    PyErr_Clear ();

  return *text != NULL && strlen (*text) == (gsize) length;
}

static inline gboolean
gpu_fast_to_gboolean (PyObject *value,
                      gboolean *truth)
{
  *truth = value == Py_True;

  return PyBool_Check (value);
}

static inline gboolean
gpu_fast_to_gdouble (PyObject *value,
                     gdouble  *number)
{
  if (!PyFloat_CheckExact (value))
    return FALSE;

  *number = PyFloat_AS_DOUBLE (value);

  return TRUE;
}

static inline gboolean
gpu_fast_to_gsize (PyObject *value,
                   gsize    *number)
{
  return gpu_fast_get_size (value, number);
}

static inline gboolean
gpu_fast_to_guint64 (PyObject *value,
                     guint64  *number)
{
  gsize size;
  gboolean success = gpu_fast_get_size (value, &size);

  G_STATIC_ASSERT (sizeof (gsize) == sizeof (guint64));
  *number = size;

  return success;
}

static inline gboolean
gpu_fast_to_guint (PyObject *value,
                   guint    *number)
{
  gsize size;

  if (!gpu_fast_get_size (value, &size) || size > G_MAXUINT)
    return FALSE;

  *number = size;

  return TRUE;
}

static inline gboolean
gpu_fast_to_gint64 (PyObject *value,
                    gint64   *number)
{
  int overflow;

  if (!PyLong_CheckExact (value))
    return FALSE;

  *number = PyLong_AsLongLongAndOverflow (value, &overflow);

  return overflow == 0;
}

static inline gboolean
gpu_fast_to_gssize (PyObject *value,
                    gssize   *number)
{
  gint64 wide;
  gboolean success = gpu_fast_to_gint64 (value, &wide);

  *number = success ? wide : 0;

  return success && *number == wide;
}

static inline gboolean
gpu_fast_to_gint (PyObject *value,
                  gint     *number)
{
  gint64 wide;

  if (!gpu_fast_to_gint64 (value, &wide) || wide < G_MININT || wide > G_MAXINT)
    return FALSE;

  *number = wide;

  return TRUE;
}

/* Empty bytes have no address in PyGObject. */
static inline gboolean
gpu_fast_to_bytes (PyObject      *value,
                   const guint8 **data,
                   gsize         *size)
{
  if (!PyBytes_CheckExact (value) || PyBytes_GET_SIZE (value) == 0)
    return FALSE;

  *data = (const guint8 *) PyBytes_AS_STRING (value);
  *size = PyBytes_GET_SIZE (value);

  return TRUE;
}

G_END_DECLS
