/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Buffers of pools. A buffer that Python drops is recycled: it keeps its wrapper, detaches its
 * memory, and serves the next allocation of its pool. */
#include "gpumem-fast.h"

#define MAX_SPARE 64

/* The recycled buffers of one pool. The pool and its buffers in use hold references to this
 * structure; recycled buffers do not. */
typedef struct
{
  gatomicrefcount  refs;
  GMutex           lock;            /* guards the fields below; threads with the GIL use trylock,
                                     * because in a forked child the lock may never be released */
  gboolean         closed;          /* the pool was finalized */
  guint            n_spare;
  PyGObject       *spare[MAX_SPARE];  /* without a reference */
} Spares;

static GpuFastMethod alloc_method = { { "size", "stream" }, 1, { NULL }, NULL };
static GQuark spares_quark;
static GQuark wrapper_quark;
static destructor wrapper_dealloc;  /* of PyGObject */

/* Wrappers whose pool was finalized on a thread that could not take the GIL. */
static GMutex shells_lock;
static PyGObject *shells;           /* linked through weakreflist */

static void
spares_unref (gpointer data)
{
  Spares *spares = data;

  if (!g_atomic_ref_count_dec (&spares->refs))
    return;

  g_mutex_clear (&spares->lock);
  g_free (spares);
}

static void
drop_shell (PyGObject *self)
{
  g_mutex_lock (&shells_lock);
  self->weakreflist = (PyObject *) shells;
  shells = self;
  g_mutex_unlock (&shells_lock);
}

static void
free_shells (void)
{
  PyGObject *next = NULL;

  if (g_mutex_trylock (&shells_lock))
    {
      next = g_steal_pointer (&shells);
      g_mutex_unlock (&shells_lock);
    }

  while (next != NULL)
    {
      PyGObject *self = next;

      next = (PyGObject *) self->weakreflist;
      PyObject_GC_Del (self);
    }
}

/* Called when the pool is finalized, on any thread, with or without the GIL, possibly after the
 * interpreter has ended. */
static void
close_spares (gpointer data)
{
  Spares *spares = data;
  guint n_spare;

  g_mutex_lock (&spares->lock);
  spares->closed = TRUE;
  n_spare = spares->n_spare;
  spares->n_spare = 0;
  g_mutex_unlock (&spares->lock);

  for (guint i = 0; i < n_spare; i++)
    {
      PyGObject *self = spares->spare[i];
      g_autoptr (GObject) object = g_steal_pointer (&self->obj);

      g_object_set_qdata (object, wrapper_quark, NULL);
      drop_shell (self);
    }

  spares_unref (spares);
}

static Spares *
get_spares (GpuMemoryPool *pool)
{
  Spares *spares = g_object_get_qdata (G_OBJECT (pool), spares_quark);

  if (G_LIKELY (spares != NULL))
    return spares;

  free_shells ();
  spares = g_new0 (Spares, 1);
  g_atomic_ref_count_init (&spares->refs);
  g_mutex_init (&spares->lock);
  g_object_set_qdata_full (G_OBJECT (pool), spares_quark, spares, close_spares);

  return spares;
}

typedef struct
{
  Spares   *spares;
  gboolean  has_more;
} Found;

static void
find_data (GQuark   key,
           gpointer data,
           gpointer user_data)
{
  Found *found = user_data;

  if (key == spares_quark)
    found->spares = data;
  else if (key != wrapper_quark)
    found->has_more = TRUE;
}

static gboolean
push (Spares    *spares,
      PyGObject *self)
{
  gboolean kept;

  if (!g_mutex_trylock (&spares->lock))
    return FALSE;

  kept = !spares->closed && spares->n_spare < MAX_SPARE;

  if (kept)
    spares->spare[spares->n_spare++] = self;

  g_mutex_unlock (&spares->lock);

  return kept;
}

static PyGObject *
pop (Spares *spares)
{
  PyGObject *self = NULL;

  if (!g_mutex_trylock (&spares->lock))
    return NULL;

  if (spares->n_spare > 0)
    self = spares->spare[--spares->n_spare];

  g_mutex_unlock (&spares->lock);

  return self;
}

/* Recycles a wrapper without references. Does nothing and returns FALSE for a wrapper with
 * attributes, weak references or signal handlers, and for an object with other references. */
static gboolean
recycle (PyGObject *self)
{
  Found found = { NULL, FALSE };
  gboolean vacated;

  if (self->obj == NULL || self->inst_dict != NULL || self->weakreflist != NULL
      || self->private_flags.flags != 0)
    return FALSE;

  g_datalist_foreach (&self->obj->qdata, find_data, &found);

  if (found.spares == NULL || found.has_more)
    return FALSE;

  g_signal_handlers_destroy (self->obj);

  Py_BEGIN_ALLOW_THREADS
  vacated = gpu_buffer_vacate ((GpuBuffer *) self->obj);
  Py_END_ALLOW_THREADS

  return vacated && push (found.spares, self);
}

/* gpu_fast_install_pool() makes this function the deallocator of the base class of
 * gpu_fast_types.buffer. Python's deallocator of heap types calls it last. */
static void
buffer_dealloc (PyObject *self)
{
  PyTypeObject *type = Py_TYPE (self);

  PyObject_GC_UnTrack (self);

  if (type != gpu_fast_types.buffer || type->tp_finalize != NULL || type->tp_del != NULL
      || !recycle ((PyGObject *) self))
    wrapper_dealloc (self);

  Py_DECREF (type);
}

static PyObject *
revive (PyGObject *self)
{
  PyObject *object = PyObject_Init ((PyObject *) self, gpu_fast_types.buffer);

  PyObject_GC_Track (object);

  return object;
}

static PyObject *
wrap (GpuBuffer *buffer,
      Spares    *spares)
{
  PyObject *self = pygobject_new_full (G_OBJECT (buffer), TRUE, NULL);

  if (self == NULL)
    return NULL;

  g_atomic_ref_count_inc (&spares->refs);
  g_object_set_qdata_full (G_OBJECT (buffer), spares_quark, spares, spares_unref);

  return self;
}

/* Allocates without the GIL: a pool may wait, and may call the program on other threads. */
static PyObject *
alloc (GpuMemoryPool *pool,
       gsize          size,
       GpuStream     *stream)
{
  Spares *spares = get_spares (pool);
  PyGObject *self = pop (spares);
  GpuBuffer *buffer = NULL;
  GError *error = NULL;
  gboolean filled = FALSE;

  Py_BEGIN_ALLOW_THREADS

  if (G_LIKELY (self != NULL))
    filled = gpu_memory_pool_refill_buffer (pool, (GpuBuffer *) self->obj, size, stream, &error);
  else
    buffer = gpu_memory_pool_alloc_buffer (pool, size, stream, &error);

  Py_END_ALLOW_THREADS

  if (G_LIKELY (filled))
    return revive (self);

  if (buffer != NULL)
    return wrap (buffer, spares);

  if (self != NULL && !push (spares, self))
    Py_DECREF (revive (self));

  pyg_error_check (&error);

  return NULL;
}

static PyObject *
pool_alloc_buffer (PyObject         *self,
                   PyObject *const  *args,
                   Py_ssize_t        n_args,
                   PyObject         *names)
{
  const GpuFastCall call = { &alloc_method, self, args, n_args, names };
  PyObject *values[GPU_FAST_MAX_PARAMETERS];
  gpointer stream;
  gsize size;

  if (!gpu_fast_parse (&call, values) || !gpu_fast_get_size (values[0], &size) || size == 0
      || !gpu_fast_peek_optional (values[1], gpu_fast_types.stream, &stream))
    return gpu_fast_pass_on (&call);

  return alloc ((GpuMemoryPool *) ((PyGObject *) self)->obj, size, stream);
}

gboolean
gpu_fast_install_pool (void)
{
  static PyMethodDef alloc_def =
    GPU_FAST_DEF ("alloc_buffer", pool_alloc_buffer,
                  "size, stream=None",
                  "Allocates size bytes as a Gpu.Buffer; None for a "
                  "size of 0. Releasing the last reference frees the buffer.");
  PyTypeObject *type = gpu_fast_types.buffer->tp_base;
  PyTypeObject *base = type;

  spares_quark = g_quark_from_static_string ("gpumem-python-spares");
  wrapper_quark = g_quark_from_static_string ("PyGObject::wrapper");

  while (base != NULL && base->tp_dealloc == type->tp_dealloc)
    base = base->tp_base;

  if (base == NULL || base->tp_dealloc != PyGObject_Type.tp_dealloc)
    {
      PyErr_SetString (PyExc_ImportError, "the classes of this version of PyGObject are "
                                           "not supported");
      return FALSE;
    }

  wrapper_dealloc = base->tp_dealloc;

  if (!gpu_fast_replace (gpu_fast_types.pool, &alloc_def, &alloc_method))
    return FALSE;

  type->tp_dealloc = buffer_dealloc;

  return TRUE;
}
