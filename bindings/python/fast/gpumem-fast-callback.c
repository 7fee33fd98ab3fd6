/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Exceptions of functions of the program that the library calls, such as an allocator or a handler
 * of a signal. The library cannot pass them on, so the frame of the call keeps them. */
#include "gpumem-fast-function.h"

/* The innermost call of this thread, or NULL. */
static _Thread_local GpuFastFrame *current;

void
gpu_fast_enter (GpuFastFrame *frame,
                const char   *name,
                const char   *symbols,
                PyObject     *function)
{
  *frame = (GpuFastFrame) { .outer = current, .name = name, .symbols = symbols,
                            .function = function };
  current = frame;
}

static void
clear_cause (GpuFastFrame *frame)
{
  Py_CLEAR (frame->cause);
  Py_CLEAR (frame->message);
}

/* Replaces the result of the call with the kept exception, if there is one. */
static PyObject *
raise_kept (GpuFastFrame *frame,
            PyObject     *result)
{
  PyObject *kept = g_steal_pointer (&frame->kept);

  clear_cause (frame);

  if (kept == NULL)
    return result;

  PyErr_Clear ();
  Py_XDECREF (result);
  PyErr_SetObject ((PyObject *) Py_TYPE (kept), kept);
  Py_DECREF (kept);

  return NULL;
}

PyObject *
gpu_fast_leave (GpuFastFrame *frame,
                PyObject     *result)
{
  current = frame->outer;

  if (G_UNLIKELY (g_atomic_pointer_get (&gpu_fast_freed) != NULL))
    gpu_fast_release_freed ();

  if (G_LIKELY (frame->kept == NULL && frame->cause == NULL))
    return result;

  return raise_kept (frame, result);
}

PyObject *
gpu_fast_call (PyObject         *callable,
               PyObject *const  *args,
               size_t            n_args,
               PyObject         *names)
{
  const GpuFastSpec *spec = ((GpuFastFunction *) callable)->spec;
  GpuFastFrame frame;

  gpu_fast_enter (&frame, NULL, spec->symbol, NULL);

  return gpu_fast_leave (&frame, spec->call (callable, args, n_args, names));
}

/* --- functions of the module ------------------------------------------------------------------ */

PyObject *
gpu_fast_run (PyObject         *module G_GNUC_UNUSED,
              PyObject *const  *args,
              Py_ssize_t        n_args,
              PyObject         *names)
{
  GpuFastFrame frame;

  if (n_args == 0)
    {
      PyErr_SetString (PyExc_TypeError, "run() takes a function and its arguments");
      return NULL;
    }

  gpu_fast_enter (&frame, NULL, NULL, args[0]);

  return gpu_fast_leave (&frame, PyObject_Vectorcall (args[0], args + 1, n_args - 1, names));
}

PyObject *
gpu_fast_keep (PyObject *module G_GNUC_UNUSED,
               PyObject *exception)
{
  GpuFastFrame *frame = current;
  gboolean keeps = frame != NULL && PyExceptionInstance_Check (exception)
                   && (frame->kept == NULL
                       || (PyObject_IsInstance (frame->kept, PyExc_Exception) == 1
                           && PyObject_IsInstance (exception, PyExc_Exception) == 0));

  if (keeps)
    {
      PyObject *former = frame->kept;

      frame->kept = gpu_fast_new_ref (exception);
      Py_XDECREF (former);
    }

  return PyBool_FromLong (keeps);
}

PyObject *
gpu_fast_keep_cause (PyObject         *module G_GNUC_UNUSED,
                     PyObject *const  *args,
                     Py_ssize_t        n_args)
{
  GpuFastFrame *frame = current;

  if (n_args != 2 || !PyUnicode_Check (args[0]))
    {
      PyErr_SetString (PyExc_TypeError, "keep_cause() takes a message, and an exception or None");
      return NULL;
    }

  if (frame != NULL)
    {
      clear_cause (frame);

      if (args[1] != Py_None)
        {
          frame->message = gpu_fast_new_ref (args[0]);
          frame->cause = gpu_fast_new_ref (args[1]);
        }
    }

  Py_RETURN_NONE;
}

PyObject *
gpu_fast_take_cause (PyObject *module G_GNUC_UNUSED,
                     PyObject *message)
{
  GpuFastFrame *frame = current;
  PyObject *cause;
  int is_cause;

  if (frame == NULL || frame->cause == NULL)
    Py_RETURN_NONE;

  is_cause = PyUnicode_Contains (message, frame->message);

  if (is_cause < 0)
    return NULL;

  if (is_cause == 0)
    Py_RETURN_NONE;

  cause = g_steal_pointer (&frame->cause);
  clear_cause (frame);

  return cause;
}

PyObject *
gpu_fast_get_call (PyObject *module G_GNUC_UNUSED,
                   PyObject *unused G_GNUC_UNUSED)
{
  GpuFastFrame *frame = current;

  if (frame == NULL)
    return Py_BuildValue ("(zz)", NULL, NULL);

  if (frame->function != NULL)
    return Py_BuildValue ("(zO)", frame->name, frame->function);

  return Py_BuildValue ("(zz)", frame->name, frame->symbols);
}
