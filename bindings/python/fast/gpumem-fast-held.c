/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* GLib.Bytes over the memory of Python objects, for the duration of a call that waits. The library
 * usually frees the bytes before the call returns, and does not access them after a call without an
 * error. So the calling thread releases the memory. Only after an interrupted wait does the helper
 * thread of the overrides release it, because a thread of a driver must not wait for the
 * interpreter. */
#include "gpumem-fast-function.h"

typedef enum
{
  HELD,
  FREED,                            /* the library has freed the bytes */
  ABANDONED                         /* the call has ended before */
} State;

struct _GpuFastMemory
{
  gint          state;              /* atomic */
  Py_buffer     buffer;
  GMainContext *context;            /* of the helper thread, set before ABANDONED, or NULL if the
                                     * buffer is released */
};

typedef struct
{
  PyObject_HEAD
  GpuFastMemory *memory;            /* NULL once released */
  PyObject      *bytes;
  Py_ssize_t     size;
} Held;

static GpuFastClass bytes_class = { "GLib", "Bytes", g_bytes_get_type, NULL };

/* Caller holds the GIL. */
static void
free_memory (GpuFastMemory *memory)
{
  PyBuffer_Release (&memory->buffer);
  g_clear_pointer (&memory->context, g_main_context_unref);
  g_free (memory);
}

static gboolean
free_on_helper (gpointer data)
{
  PyGILState_STATE state = PyGILState_Ensure ();

  free_memory (data);
  PyGILState_Release (state);

  return G_SOURCE_REMOVE;
}

/* Called on any thread. */
static void
bytes_freed (gpointer data)
{
  GpuFastMemory *memory = data;
  GSource *source;

  if (g_atomic_int_compare_and_exchange (&memory->state, HELD, FREED))
    return;

  if (memory->context == NULL)
    {
      g_free (memory);
      return;
    }

  source = g_idle_source_new ();
  g_source_set_priority (source, G_PRIORITY_DEFAULT);
  g_source_set_callback (source, free_on_helper, memory, NULL);
  g_source_attach (source, memory->context);
  g_source_unref (source);
}

/* Returns FALSE if there is no helper thread. Keeps the current exception. */
static gboolean
set_context (GpuFastMemory *memory)
{
  PyObject *type, *value, *traceback, *context;

  PyErr_Fetch (&type, &value, &traceback);
  context = PyObject_CallNoArgs (gpu_fast_types.get_await_context);

  if (context == NULL)
    PyErr_WriteUnraisable (NULL);
  else
    memory->context = g_main_context_ref (pyg_boxed_get (context, GMainContext));

  Py_XDECREF (context);
  PyErr_Restore (type, value, traceback);

  return memory->context != NULL;
}

GpuFastMemory *
gpu_fast_hold_memory (Py_buffer  *buffer,
                      GBytes    **bytes)
{
  GpuFastMemory *memory = g_new0 (GpuFastMemory, 1);

  memory->buffer = *buffer;
  /* PyBuffer_FillInfo() makes `shape` point to `len` of the structure itself. */
  if (buffer->shape == &buffer->len)
    memory->buffer.shape = &memory->buffer.len;
  *bytes = g_bytes_new_with_free_func (buffer->buf, buffer->len, bytes_freed, memory);

  return memory;
}

void
gpu_fast_release_memory (GpuFastMemory *memory,
                         gboolean       has_completed)
{
  if (has_completed)
    PyBuffer_Release (&memory->buffer);     /* a second call has no effect */
  else if (g_atomic_int_get (&memory->state) == HELD && !set_context (memory))
    return;

  if (!g_atomic_int_compare_and_exchange (&memory->state, HELD, ABANDONED))
    free_memory (memory);
}

static void
release (Held     *held,
         gboolean  has_completed)
{
  GpuFastMemory *memory = g_steal_pointer (&held->memory);

  Py_CLEAR (held->bytes);

  if (memory != NULL)
    gpu_fast_release_memory (memory, has_completed);
}

static PyObject *
held_enter (PyObject *self,
            PyObject *unused G_GNUC_UNUSED)
{
  return gpu_fast_new_ref (self);
}

static PyObject *
held_exit (PyObject         *self,
           PyObject *const  *args,
           Py_ssize_t        n_args)
{
  /* Without an exception, the statement has waited for its work. */
  release ((Held *) self, n_args > 0 && args[0] == Py_None);

  Py_RETURN_NONE;
}

static void
held_dealloc (PyObject *self)
{
  release ((Held *) self, FALSE);
  Py_TYPE (self)->tp_free (self);
}

static PyObject *
held_get_bytes (PyObject *self,
                void     *data G_GNUC_UNUSED)
{
  PyObject *bytes = ((Held *) self)->bytes;

  return gpu_fast_new_ref (bytes != NULL ? bytes : Py_None);
}

static PyObject *
held_get_size (PyObject *self,
               void     *data G_GNUC_UNUSED)
{
  return PyLong_FromSsize_t (((Held *) self)->size);
}

static PyTypeObject held_type = {
  PyVarObject_HEAD_INIT (NULL, 0)
  .tp_name = "gi.overrides._gpumem_fast.Held",
  .tp_basicsize = sizeof (Held),
  .tp_flags = Py_TPFLAGS_DEFAULT,
  .tp_dealloc = held_dealloc,
  .tp_methods = (PyMethodDef[]) {
    { "__enter__", held_enter, METH_NOARGS, NULL },
    { "__exit__", (PyCFunction) (void (*) (void)) held_exit, METH_FASTCALL, NULL },
    { NULL, NULL, 0, NULL }
  },
  .tp_getset = (PyGetSetDef[]) {
    { "bytes", held_get_bytes, NULL, NULL, NULL },
    { "size", held_get_size, NULL, NULL, NULL },
    { NULL, NULL, NULL, NULL, NULL }
  }
};

gboolean
gpu_fast_init_held (void)
{
  return PyType_Ready (&held_type) == 0;
}

/* Takes ownership of the export. */
static PyObject *
make_held (Py_buffer *buffer)
{
  Held *held = PyObject_New (Held, &held_type);
  GBytes *bytes;

  if (held == NULL)
    {
      PyBuffer_Release (buffer);
      return NULL;
    }

  held->size = buffer->len;
  held->memory = gpu_fast_hold_memory (buffer, &bytes);
  held->bytes = gpu_fast_from_boxed (&bytes_class, bytes, TRUE);

  if (held->bytes == NULL)
    Py_CLEAR (held);

  return (PyObject *) held;
}

PyObject *
gpu_fast_hold (PyObject         *module G_GNUC_UNUSED,
               PyObject *const  *args,
               Py_ssize_t        n_args)
{
  Py_buffer buffer;

  if (n_args != 2 || !gpu_fast_export (args[0], args[1] == Py_True, &buffer))
    Py_RETURN_NONE;

  if (buffer.len > 0)
    return make_held (&buffer);

  PyBuffer_Release (&buffer);

  Py_RETURN_NONE;
}

GBytes *
gpu_fast_copy_data (PyObject *data)
{
  Py_buffer buffer;
  GBytes *bytes;

  if (!gpu_fast_export (data, FALSE, &buffer))
    return NULL;

  bytes = buffer.len < GPU_FAST_HELD_SIZE ? g_bytes_new (buffer.buf, buffer.len) : NULL;
  PyBuffer_Release (&buffer);

  return bytes;
}

PyObject *
gpu_fast_copy_bytes (PyObject         *module G_GNUC_UNUSED,
                     PyObject *const  *args,
                     Py_ssize_t        n_args)
{
  GBytes *bytes = n_args == 1 ? gpu_fast_copy_data (args[0]) : NULL;

  return gpu_fast_from_boxed (&bytes_class, bytes, TRUE);
}
