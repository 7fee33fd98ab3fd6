/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The methods that Python programs call most, without the way through introspection. The overrides
 * of Gpu put them in place of their own, which get whatever is unusual.
 */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* One file of the module has the pointer. */
#ifndef GPU_FAST_MODULE
#define NO_IMPORT_PYGOBJECT
#endif
#include <pygobject.h>

#include <gpumem/gpumem.h>

G_BEGIN_DECLS

#define GPU_FAST_MAX_PARAMETERS 8

/* Bytes, as in the overrides: from this size on, data that have to wait stay where they are instead
 * of being copied. */
#define GPU_FAST_HELD_SIZE (1 << 16)

/* The classes of the overrides, and a function of theirs. */
typedef struct
{
  PyTypeObject *buffer;
  PyTypeObject *kernel;
  PyTypeObject *memory;
  PyTypeObject *pool;
  PyTypeObject *stream;
  PyObject     *get_await_context;
} GpuFastTypes;

extern GpuFastTypes gpu_fast_types;

/* A method, and the one that it stands in for. */
typedef struct
{
  const char *parameters[GPU_FAST_MAX_PARAMETERS];
  guint       n_required;
  PyObject   *names[GPU_FAST_MAX_PARAMETERS];   /* interned */
  PyObject   *original;
} GpuFastMethod;

/* What a call has. */
typedef struct
{
  GpuFastMethod   *method;
  PyObject        *self;
  PyObject *const *args;
  Py_ssize_t       n_args;
  PyObject        *names;           /* of further ones, a tuple or NULL */
} GpuFastCall;

/* The signature is what inspect.signature() tells. */
#define GPU_FAST_DEF(name, func, signature, doc) \
  { name, (PyCFunction) (void (*) (void)) func, METH_FASTCALL | METH_KEYWORDS, \
    name "($self, " signature ")\n--\n\n" doc }

/* Puts the method that @def names into @type; FALSE with an exception. */
gboolean  gpu_fast_replace  (PyTypeObject      *type,
                             PyMethodDef       *def,
                             GpuFastMethod     *method);
/* The values by parameter, NULL for those left out; FALSE, without an exception, if they do not
 * fit, which the original knows how to say. */
gboolean  gpu_fast_parse    (const GpuFastCall *call,
                             PyObject         **values);
/* Has the original do it. */
PyObject *gpu_fast_pass_on  (const GpuFastCall *call);
/* What a function of the library returned, as introspection has it. */
PyObject *gpu_fast_finish   (gboolean           success,
                             GError            *error);
/* Waits for all that was submitted to the stream, in slices, between which handlers of signals run.
 * True, or NULL with an exception. */
PyObject *gpu_fast_wait_for_stream (GpuStream     *stream);
/* The memory of bytes-like data, as it lies; FALSE, without an exception, if it has to be looked at
 * more closely. */
gboolean  gpu_fast_export   (PyObject          *data,
                             gboolean           writable,
                             Py_buffer         *buffer);

/* The object of a wrapper, NULL if that is none of @type or has none. */
static inline gpointer
gpu_fast_peek (PyObject     *value,
               PyTypeObject *type)
{
  return PyObject_TypeCheck (value, type) ? (gpointer) ((PyGObject *) value)->obj : NULL;
}

/* One that may be left out, or None. FALSE if it is something else. */
static inline gboolean
gpu_fast_peek_optional (PyObject     *value,
                        PyTypeObject *type,
                        gpointer     *object)
{
  *object = value != NULL && value != Py_None ? gpu_fast_peek (value, type) : NULL;

  return *object != NULL || value == NULL || value == Py_None;
}

/* FALSE, without an exception, for anything but an int that is a size. */
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

/* What is left of @memory if it was left out, or is None. */
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

/* Functions of the module. */
PyObject *gpu_fast_new_dlpack_capsule (PyObject         *module,
                                       PyObject *const  *args,
                                       Py_ssize_t        n_args);

PyObject *gpu_fast_take_dlpack_capsule (PyObject        *module,
                                        PyObject *const *args,
                                        Py_ssize_t       n_args);

/* Each FALSE with an exception. */
gboolean  gpu_fast_install_buffer (void);
gboolean  gpu_fast_install_launch (void);
gboolean  gpu_fast_install_pool   (void);
gboolean  gpu_fast_install_stream (void);

G_END_DECLS
