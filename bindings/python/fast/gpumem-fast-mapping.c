/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The object behind all views of a mapping. It exports the mapped memory through the buffer
 * protocol. While it exists, the library refuses to unmap the memory. */
#include "gpumem-fast-function.h"

typedef struct
{
  PyObject_HEAD
  PyObject *mapping;                /* outlives `bytes`, whose release would unmap the memory */
  GBytes   *bytes;
  PyObject *weak_references;
  gboolean  is_read_only;
} Mapped;

/* A program may store a view in an attribute of its mapping. Clearing that attribute ends such a
 * cycle, so this type needs no tp_clear. */
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

PyObject *
gpu_fast_export_mapping (PyObject         *module G_GNUC_UNUSED,
                         PyObject *const  *args,
                         Py_ssize_t        n_args)
{
  const GpuMapFlags writes = GPU_MAP_FLAGS_WRITE | GPU_MAP_FLAGS_WRITE_INVALIDATE;
  g_autoptr (GBytes) bytes = NULL;
  gpointer mapping;
  GpuMapFlags flags;
  Mapped *mapped;

  if (n_args != 1 || !gpu_fast_to_object (args[0], GPU_TYPE_MAPPING, FALSE, &mapping))
    Py_RETURN_NONE;

  bytes = gpu_mapping_get_bytes (mapping);

  if (bytes == NULL)
    Py_RETURN_NONE;

  mapped = PyObject_GC_New (Mapped, &mapped_type);

  if (mapped == NULL)
    return NULL;

  g_object_get (mapping, "flags", &flags, NULL);
  mapped->mapping = gpu_fast_new_ref (args[0]);
  mapped->bytes = g_steal_pointer (&bytes);
  mapped->weak_references = NULL;
  mapped->is_read_only = flags != 0 && (flags & writes) == 0;
  PyObject_GC_Track ((PyObject *) mapped);

  return (PyObject *) mapped;
}
