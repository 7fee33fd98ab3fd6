/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The object behind all views of a mapping. It exports the mapped memory through the buffer
 * protocol, and holds a reference to the mapping. */
#include "gpumem-fast-function.h"

typedef struct
{
  PyObject_HEAD
  PyObject *mapping;
  PyObject *weak_references;
  gboolean  is_read_only;
} Mapped;

static void
mapped_dealloc (PyObject *self)
{
  Mapped *mapped = (Mapped *) self;

  if (mapped->weak_references != NULL)
    PyObject_ClearWeakRefs (self);

  Py_DECREF (mapped->mapping);
  PyObject_Free (self);
}

static int
mapped_export (PyObject  *self,
               Py_buffer *view,
               int        flags)
{
  Mapped *mapped = (Mapped *) self;
  GpuMapping *mapping = (GpuMapping *) pygobject_get (mapped->mapping);
  gpointer data = gpu_mapping_get_data (mapping);

  if (data == NULL)
    {
      view->obj = NULL;
      PyErr_SetString (PyExc_BufferError, "the mapping is unmapped");
      return -1;
    }

  return PyBuffer_FillInfo (view, self, data, gpu_mapping_get_size (mapping),
                            mapped->is_read_only, flags);
}

static PyTypeObject mapped_type = {
  PyVarObject_HEAD_INIT (NULL, 0)
  .tp_name = "gi.overrides._gpumem_fast.Mapped",
  .tp_basicsize = sizeof (Mapped),
  .tp_flags = Py_TPFLAGS_DEFAULT,
  .tp_dealloc = mapped_dealloc,
  .tp_weaklistoffset = offsetof (Mapped, weak_references),
  .tp_as_buffer = &(PyBufferProcs) { .bf_getbuffer = mapped_export }
};

gboolean
gpu_fast_init_mapping (void)
{
  return PyType_Ready (&mapped_type) == 0;
}

PyObject *
gpu_fast_export_mapping (PyObject         *module G_GNUC_UNUSED,
                         PyObject *const  *args,
                         Py_ssize_t        n_args)
{
  const GpuMapFlags writes = GPU_MAP_FLAGS_WRITE | GPU_MAP_FLAGS_WRITE_INVALIDATE;
  gpointer mapping;
  GpuMapFlags flags;
  Mapped *mapped;

  if (n_args != 1 || !gpu_fast_to_object (args[0], GPU_TYPE_MAPPING, FALSE, &mapping)
      || gpu_mapping_get_data (mapping) == NULL)
    Py_RETURN_NONE;

  mapped = PyObject_New (Mapped, &mapped_type);

  if (mapped == NULL)
    return NULL;

  g_object_get (mapping, "flags", &flags, NULL);
  mapped->mapping = gpu_fast_new_ref (args[0]);
  mapped->weak_references = NULL;
  mapped->is_read_only = flags != 0 && (flags & writes) == 0;

  return (PyObject *) mapped;
}
