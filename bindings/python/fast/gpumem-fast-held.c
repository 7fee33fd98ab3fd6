/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* GLib.Bytes over the memory of Python objects. The library may free the bytes on a thread of a
 * driver, which must not wait for the interpreter. So freeing the bytes only adds the memory to a
 * list. The end of each call of the library releases the memory in this list. If there is no such
 * call, the helper thread of the overrides does.
 *
 * A call that waits for its own work needs no list. The library usually frees the bytes before the
 * call returns, and does not access them after a call without an error. So the calling thread
 * releases the memory. After an interrupted wait, the memory is released as above. */
#include "gpumem-fast-function.h"

typedef enum
{
  HELD,
  FREED,                            /* the library has freed the bytes */
  ABANDONED                         /* the call has ended before */
} State;

struct _GpuFastMemory
{
  gint           state;             /* atomic */
  Py_buffer      buffer;
  Py_buffer     *view;              /* `buffer`, or that of `owner` */
  PyObject      *owner;             /* (nullable) */
  GMainContext  *context;           /* of the helper thread, set before ABANDONED, or NULL if the
                                     * buffer is released */
  GpuFastMemory *next;              /* in the list */
};

/* The list. Any thread adds memory to it. A thread with the GIL removes it, and releases the buffer
 * at once. So no buffer is on its way from the list to its release while another thread has the
 * GIL. */
GpuFastMemory *gpu_fast_freed;
/* The number of ABANDONED memories whose buffers are not released. Guarded by the GIL. */
guint gpu_fast_n_abandoned;

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
  if (memory->context != NULL)
    gpu_fast_n_abandoned--;

  PyBuffer_Release (memory->view);
  Py_XDECREF (memory->owner);
  g_clear_pointer (&memory->context, g_main_context_unref);
  g_free (memory);
}

void
gpu_fast_release_freed (void)
{
  /* A destructor of data may call the library, whose calls end here. Without this flag, each such
   * call would release the next memory, and so call the next destructor, without a limit. */
  static _Thread_local gboolean is_releasing;
  PyObject *type, *value, *traceback;
  GpuFastMemory *first;

  if (is_releasing)
    return;

  is_releasing = TRUE;
  PyErr_Fetch (&type, &value, &traceback);

  /* Only threads with the GIL remove memory, so `next` of the first one does not change. */
  while ((first = g_atomic_pointer_get (&gpu_fast_freed)) != NULL)
    {
      if (g_atomic_pointer_compare_and_exchange (&gpu_fast_freed, first, first->next))
        free_memory (first);
    }

  PyErr_Restore (type, value, traceback);
  is_releasing = FALSE;
}

void
gpu_fast_wait_for_releases (void)
{
  if (G_LIKELY (gpu_fast_n_abandoned == 0 || !_gpu_binding_is_releasing ()))
    return;

  Py_BEGIN_ALLOW_THREADS
  _gpu_binding_wait_for_releases ();
  Py_END_ALLOW_THREADS
}

PyObject *
gpu_fast_release_completed (PyObject *module G_GNUC_UNUSED,
                            PyObject *unused G_GNUC_UNUSED)
{
  gpu_fast_wait_for_releases ();
  gpu_fast_release_freed ();

  Py_RETURN_NONE;
}

static gboolean
release_on_helper (gpointer unused G_GNUC_UNUSED)
{
  PyGILState_STATE state = PyGILState_Ensure ();

  gpu_fast_release_freed ();
  PyGILState_Release (state);

  return G_SOURCE_REMOVE;
}

/* Adds the memory to the list. Only the first one in the list wakes the helper thread, which
 * releases all. */
static void
push_freed (GpuFastMemory *memory)
{
  /* Another thread may free the memory as soon as it is in the list. */
  g_autoptr (GMainContext) context = g_main_context_ref (memory->context);
  g_autoptr (GSource) source = NULL;
  GpuFastMemory *first;

  do
    memory->next = first = g_atomic_pointer_get (&gpu_fast_freed);
  while (!g_atomic_pointer_compare_and_exchange (&gpu_fast_freed, first, memory));

  if (first != NULL)
    return;

  source = g_idle_source_new ();
  g_source_set_priority (source, G_PRIORITY_DEFAULT);
  g_source_set_callback (source, release_on_helper, NULL, NULL);
  g_source_attach (source, context);
}

/* Called on any thread. */
static void
bytes_freed (gpointer data)
{
  GpuFastMemory *memory = data;

  if (g_atomic_int_compare_and_exchange (&memory->state, HELD, FREED))
    return;

  if (memory->context == NULL)
    g_free (memory);
  else
    push_freed (memory);
}

/* Returns FALSE with an exception if there is no helper thread. */
static gboolean
set_context (GpuFastMemory *memory)
{
  PyObject *context = PyObject_CallNoArgs (gpu_fast_types.get_await_context);

  if (context == NULL)
    return FALSE;

  memory->context = g_main_context_ref (pyg_boxed_get (context, GMainContext));
  gpu_fast_n_abandoned++;
  Py_DECREF (context);

  return TRUE;
}

/* Reports an exception. Keeps the current one. */
static gboolean
try_set_context (GpuFastMemory *memory)
{
  PyObject *type, *value, *traceback;
  gboolean success;

  PyErr_Fetch (&type, &value, &traceback);
  success = set_context (memory);

  if (!success)
    PyErr_WriteUnraisable (NULL);

  PyErr_Restore (type, value, traceback);

  return success;
}

GpuFastMemory *
gpu_fast_hold_memory (Py_buffer  *buffer,
                      GBytes    **bytes)
{
  GpuFastMemory *memory = g_new0 (GpuFastMemory, 1);

  memory->buffer = *buffer;
  memory->view = &memory->buffer;
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
    PyBuffer_Release (memory->view);        /* a second call has no effect */
  else if (g_atomic_int_get (&memory->state) == HELD && !try_set_context (memory))
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

/* The address is that of a Py_buffer that the object owns, and may release earlier. */
PyObject *
gpu_fast_hold_exported (PyObject         *module G_GNUC_UNUSED,
                        PyObject *const  *args,
                        Py_ssize_t        n_args)
{
  Py_buffer *buffer = n_args == 2 ? PyLong_AsVoidPtr (args[1]) : NULL;
  GpuFastMemory *memory;

  if (buffer == NULL)
    {
      if (PyErr_Occurred () == NULL)
        PyErr_SetString (PyExc_TypeError, "hold_exported() takes an object and an address");
      return NULL;
    }

  memory = g_new0 (GpuFastMemory, 1);

  if (!set_context (memory))
    {
      g_free (memory);
      return NULL;
    }

  memory->state = ABANDONED;
  memory->view = buffer;
  memory->owner = gpu_fast_new_ref (args[0]);

  return gpu_fast_from_boxed (&bytes_class,
                              g_bytes_new_with_free_func (buffer->buf, buffer->len, bytes_freed,
                                                          memory), TRUE);
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
