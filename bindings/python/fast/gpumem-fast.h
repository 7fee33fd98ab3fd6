/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The methods that Python programs call most, without the overhead of introspection. They replace
 * methods of the Gpu overrides, and call the replaced method for all unusual arguments.
 */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Exactly one file of the module defines the pointer to the API of PyGObject. */
#ifndef GPU_FAST_MODULE
#define NO_IMPORT_PYGOBJECT
#endif
#include <pygobject.h>

#include <gpumem/gpumem-bindings.h>

G_BEGIN_DECLS

#define GPU_FAST_MAX_PARAMETERS 8

/* Data of at least this many bytes is not copied for a pending transfer: the transfer references
 * the caller's data instead. The overrides use the same limit. */
#define GPU_FAST_HELD_SIZE (1 << 16)

/* Copies of at least this many bytes are passed on to the overrides, which run them in another
 * thread, so that Ctrl-C ends the wait. The overrides use the same limit. */
#define GPU_FAST_LONG_SIZE (1 << 28)

/* The classes of the overrides, one of their functions, and one of their variables. */
typedef struct
{
  PyTypeObject *array;
  PyTypeObject *buffer;
  PyTypeObject *event;
  PyTypeObject *image;
  PyTypeObject *kernel;
  PyTypeObject *mapping;
  PyTypeObject *memory;
  PyTypeObject *pool;
  PyTypeObject *sampler;
  PyTypeObject *stream;
  PyTypeObject *svm;
  PyObject     *get_await_context;
  PyObject     *scopes;             /* a ContextVar: the allocators of with statements */
} GpuFastTypes;

extern GpuFastTypes gpu_fast_types;
/* A base of the class Buffer. */
extern PyTypeObject gpu_fast_buffer_base;

/* A method, and the method of the overrides that it replaces. */
typedef struct
{
  const char *parameters[GPU_FAST_MAX_PARAMETERS];
  guint       n_required;
  PyObject   *names[GPU_FAST_MAX_PARAMETERS];   /* interned */
  PyObject   *original;
} GpuFastMethod;

/* The method and the arguments of a call. */
typedef struct
{
  GpuFastMethod   *method;
  PyObject        *self;
  PyObject *const *args;
  Py_ssize_t       n_args;
  PyObject        *names;           /* of keyword arguments, a tuple or NULL */
} GpuFastCall;

/* A call of the library, on the stack of the calling thread. Functions of the program that the
 * library calls during the call keep their exceptions here. */
typedef struct _GpuFastFrame GpuFastFrame;

struct _GpuFastFrame
{
  GpuFastFrame *outer;
  PyObject     *kept;               /* NULL, or raised at the end of the call */
  PyObject     *cause;              /* NULL, or the __cause__ of an error with @message */
  PyObject     *message;
  const char   *name;               /* the method that the program called, or NULL */
  const char   *symbols;            /* of C functions that the call calls, or NULL */
  PyObject     *function;           /* of PyGObject that the call calls, or NULL */
};

void      gpu_fast_enter (GpuFastFrame *frame,
                          const char   *name,
                          const char   *symbols,
                          PyObject     *function);
/* Takes ownership of @result. Returns @result, or NULL with the exception that the call keeps. */
PyObject *gpu_fast_leave (GpuFastFrame *frame,
                          PyObject     *result);

/* Defines NAME_framed(), which calls the method @name in a frame. Messages of the C functions in
 * @symbols, which blanks separate, name the method @python_name instead of the C function. */
#define GPU_FAST_DEFINE_FRAMED(name, python_name, symbols) \
  static PyObject * \
  name##_framed (PyObject         *self, \
                 PyObject *const  *args, \
                 Py_ssize_t        n_args, \
                 PyObject         *names) \
  { \
    GpuFastFrame frame; \
    gpu_fast_enter (&frame, python_name, symbols, NULL); \
    return gpu_fast_leave (&frame, name (self, args, n_args, names)); \
  }

/* The C functions that gpu_fast_submit_and_wait() calls. */
#define GPU_FAST_WAIT_SYMBOLS "gpu_stream_record gpu_event_poll"

/* inspect.signature() returns @signature. */
#define GPU_FAST_DEF(name, func, signature) \
  { name, (PyCFunction) (void (*) (void)) func##_framed, METH_FASTCALL | METH_KEYWORDS, \
    name "($self, " signature ")\n--\n\n" }

/* Appends the docstring of the method @original to the signature in @def, for the life of the
 * process. Returns FALSE with an exception on failure. */
gboolean  gpu_fast_add_doc  (PyMethodDef       *def,
                             PyObject          *original);
/* Installs the method @def in @type, with the docstring of the method that it replaces. Returns
 * FALSE with an exception on failure. */
gboolean  gpu_fast_replace  (PyTypeObject      *type,
                             PyMethodDef       *def,
                             GpuFastMethod     *method);
/* Gets the values by parameter, NULL for omitted parameters. Returns FALSE, without an exception,
 * if the arguments do not match the parameters; the original method then raises the error. */
gboolean  gpu_fast_parse    (const GpuFastCall *call,
                             PyObject         **values);
/* Calls the original method. */
PyObject *gpu_fast_pass_on  (const GpuFastCall *call);
/* Raises and frees the error. Returns NULL. */
PyObject *gpu_fast_raise    (GError            *error);
/* Converts the result of a function of the library as introspection does: returns True or False, or
 * NULL with an exception if @error is not NULL. */
PyObject *gpu_fast_finish   (gboolean           success,
                             GError            *error);
/* Waits in slices for all work submitted to the stream. Signal handlers run between two slices.
 * Returns True, or NULL with an exception. */
PyObject *gpu_fast_wait_for_stream (GpuStream     *stream);
/* Calls @submit without the GIL, and waits like gpu_fast_wait_for_stream() for the work that
 * @submit submits to the stream: see _gpu_binding_submit(). Returns True, NULL with an exception,
 * or NULL without one if @submit fails without an error. */
PyObject *gpu_fast_submit_and_wait (GpuStream            *stream,
                                    GpuBindingSubmitFunc  submit,
                                    gpointer              data);
/* Drops a reference while an exception is pending. The last reference may free memory, which may
 * block, or call functions in Python. NULL is ignored. */
void      gpu_fast_drop     (gpointer           object);
/* Exports the memory of bytes-like data in place. Returns FALSE, without an exception, for data
 * that only the overrides handle. */
gboolean  gpu_fast_export   (PyObject          *data,
                             gboolean           writable,
                             Py_buffer         *buffer);

/* Like gpu_fast_export(), for data whose copy does not take long. */
gboolean  gpu_fast_export_short (PyObject       *data,
                                 gboolean        writable,
                                 Py_buffer      *buffer);

/* Returns the docstring of a function of a class, or of an attribute, whose name begins with a
 * colon; or NULL. */
const char *gpu_fast_find_doc   (const char        *owner,
                                 const char        *name);

/* Write data to a buffer, or read from it, and wait. Take ownership of @data. Return True, or NULL
 * with an exception. */
PyObject *gpu_fast_write    (GpuBuffer         *buffer,
                             GpuStream         *stream,
                             gsize              offset,
                             Py_buffer         *data);
PyObject *gpu_fast_read     (GpuBuffer         *buffer,
                             GpuStream         *stream,
                             gsize              offset,
                             Py_buffer         *data);

/* Returns the object of a wrapper, or NULL if the wrapper is not of @type or has no object. */
static inline gpointer
gpu_fast_peek (PyObject     *value,
               PyTypeObject *type)
{
  return PyObject_TypeCheck (value, type) ? (gpointer) ((PyGObject *) value)->obj : NULL;
}

/* Like gpu_fast_peek(), for an argument that may be omitted or None. Returns FALSE for another
 * type. */
static inline gboolean
gpu_fast_peek_optional (PyObject     *value,
                        PyTypeObject *type,
                        gpointer     *object)
{
  *object = value != NULL && value != Py_None ? gpu_fast_peek (value, type) : NULL;

  return *object != NULL || value == NULL || value == Py_None;
}

/* Returns FALSE, without an exception, unless @value is an int in the range of a size. */
static inline gboolean
gpu_fast_get_size (PyObject *value,
                   gsize    *size)
{
  if (!PyLong_CheckExact (value))
    return FALSE;

  *size = PyLong_AsSize_t (value);

  if (G_LIKELY (*size != (gsize) -1) || PyErr_Occurred () == NULL)
    return TRUE;

  PyErr_Clear ();

  return FALSE;
}

static inline gboolean
gpu_fast_get_offset (PyObject *value,
                     gsize    *offset)
{
  *offset = 0;

  return value == NULL || gpu_fast_get_size (value, offset);
}

/* Gets a size. An omitted size, or None, means the rest of @memory from @offset on. */
static inline gboolean
gpu_fast_get_rest (PyObject  *value,
                   GpuMemory *memory,
                   gsize      offset,
                   gsize     *size)
{
  gsize whole;

  if (value != NULL && value != Py_None)
    return gpu_fast_get_size (value, size);

  whole = gpu_memory_get_size (memory);
  *size = whole > offset ? whole - offset : 0;

  return TRUE;
}

/* Returns a new reference to @given, or to the default stream of @context if @given is NULL.
 * Returns NULL if there is no context. */
static inline GpuStream *
gpu_fast_ref_stream (GpuStream  *given,
                     GpuContext *context)
{
  if (given != NULL)
    return g_object_ref (given);

  return context != NULL ? gpu_context_get_default_stream (context) : NULL;
}

/* Creates gpu_fast_buffer_base. Returns FALSE with an exception on failure. */
gboolean  gpu_fast_init_pool      (void);

/* Functions of the module. */
PyObject *gpu_fast_run                (PyObject         *module,
                                       PyObject *const  *args,
                                       Py_ssize_t        n_args,
                                       PyObject         *names);
PyObject *gpu_fast_keep               (PyObject         *module,
                                       PyObject         *exception);
PyObject *gpu_fast_keep_cause         (PyObject         *module,
                                       PyObject *const  *args,
                                       Py_ssize_t        n_args);
PyObject *gpu_fast_take_cause         (PyObject         *module,
                                       PyObject         *message);
PyObject *gpu_fast_get_call           (PyObject         *module,
                                       PyObject         *unused);
PyObject *gpu_fast_new_dlpack_capsule (PyObject         *module,
                                       PyObject *const  *args,
                                       Py_ssize_t        n_args);

PyObject *gpu_fast_take_dlpack_capsule (PyObject        *module,
                                        PyObject *const *args,
                                        Py_ssize_t       n_args);

PyObject *gpu_fast_new_exchange   (PyObject             *module,
                                   PyObject *const      *args,
                                   Py_ssize_t            n_args);

PyObject *gpu_fast_submit             (PyObject         *module,
                                       PyObject *const  *args,
                                       Py_ssize_t        n_args);
PyObject *gpu_fast_submit_waiting     (PyObject         *module,
                                       PyObject *const  *args,
                                       Py_ssize_t        n_args);
PyObject *gpu_fast_is_idle            (PyObject         *module,
                                       PyObject *const  *args,
                                       Py_ssize_t        n_args);

/* Return FALSE with an exception. */
gboolean  gpu_fast_install_array  (void);
gboolean  gpu_fast_install_buffer (void);
gboolean  gpu_fast_install_launch (void);
gboolean  gpu_fast_install_mapping (void);
gboolean  gpu_fast_install_new    (void);
gboolean  gpu_fast_install_pool   (void);
gboolean  gpu_fast_install_region (void);
gboolean  gpu_fast_install_stream (void);

G_END_DECLS
