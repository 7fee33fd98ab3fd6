/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Capsules of DLPack. Their destructor must run while an exception is pending, and after the
 * interpreter has ended, so it cannot be written in Python. */
#include "gpumem-fast.h"

/* Indexed by whether the tensor is versioned. */
static const char *const names[] = { "dltensor", "dltensor_versioned" };
static const char *const used_names[] = { "used_dltensor", "used_dltensor_versioned" };

/* Frees a tensor that no library has consumed. */
static void
destroy (PyObject *capsule)
{
  PyObject *type, *value, *traceback;

  PyErr_Fetch (&type, &value, &traceback);

  for (int i = 0; i < 2; i++)
    {
      if (PyCapsule_IsValid (capsule, names[i]))
        gpu_dlpack_free (PyCapsule_GetPointer (capsule, names[i]), i);
    }

  PyErr_Restore (type, value, traceback);
}

PyObject *
gpu_fast_new_dlpack_capsule (PyObject         *module G_GNUC_UNUSED,
                             PyObject *const  *args,
                             Py_ssize_t        n_args)
{
  gpointer tensor = n_args == 2 ? PyLong_AsVoidPtr (args[0]) : NULL;
  int versioned = tensor != NULL ? PyObject_IsTrue (args[1]) : -1;

  if (versioned < 0)
    {
      if (PyErr_Occurred () == NULL)
        PyErr_SetString (PyExc_TypeError, "a capsule takes the address of a tensor and "
                                         "whether it is versioned");

      return NULL;
    }

  return PyCapsule_New (tensor, names[versioned], destroy);
}

/* No call in this function releases the GIL, so no other thread runs between the check and the
 * renaming of the capsule. */
PyObject *
gpu_fast_take_dlpack_capsule (PyObject         *module G_GNUC_UNUSED,
                              PyObject *const  *args,
                              Py_ssize_t        n_args)
{
  for (int i = 0; i < 2; i++)
    {
      gpointer tensor;

      if (n_args != 1 || !PyCapsule_IsValid (args[0], names[i]))
        continue;

      tensor = PyCapsule_GetPointer (args[0], names[i]);

      if (PyCapsule_SetName (args[0], used_names[i]) != 0)
        return NULL;

      return Py_BuildValue ("(NN)", PyLong_FromVoidPtr (tensor), PyBool_FromLong (i));
    }

  Py_RETURN_NONE;
}
