/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Buffers of pools. PyGObject creates and frees the wrapper of each buffer. When it frees the
 * wrapper, the pool keeps the GObject for its next buffer, together with the data that PyGObject
 * attaches to every object. This avoids most of the cost of an object. */
#include "gpumem-fast.h"

static GpuFastMethod alloc_method = { { "size", "stream" }, 1, { NULL }, NULL };
static GQuark instance_data;

/* Returns whether the program used the dictionary of the wrapper. Newer versions of PyGObject keep
 * it with the object, for a later wrapper. Older versions add a toggle reference at the first use,
 * and then an additional reference to the object would revive the wrapper. */
static gboolean
has_attributes (PyGObject *self)
{
  const Py_ssize_t usual_refs = 2;  /* of the wrapper and of the object */

  if ((self->private_flags.flags & PYGOBJECT_USING_TOGGLE_REF) != 0)
    return TRUE;

  return self->inst_dict != NULL && (PyDict_GET_SIZE (self->inst_dict) > 0
                                     || Py_REFCNT (self->inst_dict) > usual_refs);
}

/* Called by the deallocator of Gpu.Buffer and its subclasses. */
static void
buffer_dealloc (PyObject *self)
{
  GpuBuffer *buffer = (GpuBuffer *) ((PyGObject *) self)->obj;
  gboolean recycles = Py_TYPE (self) == gpu_fast_types.buffer && buffer != NULL
                      && !has_attributes ((PyGObject *) self)
                      && _gpu_binding_can_recycle_buffer (buffer);

  if (recycles)
    g_object_ref (buffer);

  PyGObject_Type.tp_dealloc (self);

  if (!recycles)
    return;

  Py_BEGIN_ALLOW_THREADS
  _gpu_binding_recycle_buffer (buffer, instance_data);
  Py_END_ALLOW_THREADS
}

/* A base of the class Gpu.Buffer. */
PyTypeObject gpu_fast_buffer_base = {
  PyVarObject_HEAD_INIT (NULL, 0)
  .tp_name = "gi.overrides._gpumem_fast.BufferBase",
  .tp_doc = "A base of Gpu.Buffer that recycles the buffers of pools.",
  .tp_dealloc = buffer_dealloc,
  .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE
};

gboolean
gpu_fast_init_pool (void)
{
  /* Python's deallocator only releases the class of an object if the deallocator that it calls is
   * that of a static type. */
  if ((PyGObject_Type.tp_flags & Py_TPFLAGS_HEAPTYPE) != 0)
    {
      PyErr_SetString (PyExc_ImportError, "this version of PyGObject is not supported");
      return FALSE;
    }

  instance_data = g_quark_from_static_string ("PyGObject::instance-data");
  gpu_fast_buffer_base.tp_base = &PyGObject_Type;
  gpu_fast_buffer_base.tp_basicsize = PyGObject_Type.tp_basicsize;  /* debug builds check it */

  return PyType_Ready (&gpu_fast_buffer_base) == 0;
}

/* Allocates without the GIL: a pool may wait, and may call the program on other threads. */
static PyObject *
alloc (GpuMemoryPool *pool,
       gsize          size,
       GpuStream     *stream)
{
  GpuBuffer *buffer;
  GError *error = NULL;

  Py_BEGIN_ALLOW_THREADS
  buffer = gpu_memory_pool_alloc_buffer (pool, size, stream, &error);
  Py_END_ALLOW_THREADS

  if (G_LIKELY (buffer != NULL))
    return pygobject_new_full (G_OBJECT (buffer), TRUE, NULL);

  return gpu_fast_raise (error);
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

GPU_FAST_DEFINE_FRAMED (pool_alloc_buffer, "MemoryPool.alloc_buffer",
                        "gpu_memory_pool_alloc_buffer")

gboolean
gpu_fast_install_pool (void)
{
  static PyMethodDef alloc_def =
    GPU_FAST_DEF ("alloc_buffer", pool_alloc_buffer, "size, stream=None");

  return gpu_fast_replace (gpu_fast_types.pool, &alloc_def, &alloc_method);
}
