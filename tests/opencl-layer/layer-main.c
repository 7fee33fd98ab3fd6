/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The layer's entry points, and its wrappers, generated from layer-calls.h.
 *
 *   OPENCL_LAYERS=gpumem-opencl-layer.so   runs a program under the layer
 *   GPUMEM_LAYER_REPORT=FILE               faults, misuses and leaks, written at exit
 *   GPUMEM_LAYER_COUNTS=FILE               lines "NAME COUNT" of called functions, written at exit
 *   GPUMEM_LAYER_STRICT=0                  leaks and misuses do not change the exit status;
 *                                          otherwise they change it to 99
 *   GPUMEM_LAYER_GRACE=MSEC                time that threads have at exit to release handles,
 *                                          instead of 10 seconds
 *
 * Other files describe further variables:
 *
 *   layer-fault.c      GPUMEM_LAYER_FAIL, GPUMEM_LAYER_DELAY, GPUMEM_LAYER_LATE
 *   layer-view.c       GPUMEM_LAYER_VIEWS
 *   layer-vendor.c     GPUMEM_LAYER_VENDOR, GPUMEM_LAYER_PLATFORM
 *   layer-external.c   GPUMEM_LAYER_EXTERNAL, GPUMEM_LAYER_EXTERNAL_SIZE
 *   layer-address.c    GPUMEM_LAYER_ADDRESSES
 */

#include "config.h"

#include "layer.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpumem-layer.h"

#define EXIT_BAD_STATE 99
#define GRACE_MS 10000

cl_icd_dispatch layer_target;
static cl_icd_dispatch layer_dispatch;
static pid_t layer_pid;

const char *const layer_names[LAYER_N_CALLS] = {
#define LAYER_CALL(name) #name,
#include "layer-calls.h"
};

/* Expands to a comma and the arguments, or to nothing without arguments. */
#define LEAD(...) , ## __VA_ARGS__
#define UNPAREN(...) __VA_ARGS__

#define USE(kind, handle) layer_use (&call, LAYER_##kind, handle)
#define USE_LIST(kind, n, handles) layer_use_list (&call, LAYER_##kind, n, handles)
#define USE_ARGS(kernel) layer_use_args (&call, kernel)
#define USE_PARENT(desc) \
  if (desc != NULL && desc->mem_object != NULL) USE (MEM, desc->mem_object)

#define PLAIN_OR_WAIT(name, params, args, checks, is_wait) \
  static cl_int CL_API_CALL \
  layer_##name params \
  { \
    LayerCall call = layer_enter (LAYER_##name); \
    cl_int code = CL_SUCCESS; \
    call.performs = is_wait; \
    checks; \
    if (layer_may_run (&call)) \
      code = layer_target.name args; \
    return layer_leave (&call, code); \
  }

#define PLAIN(name, params, args, checks) PLAIN_OR_WAIT (name, params, args, checks, FALSE)
#define WAIT(name, params, args, checks) PLAIN_OR_WAIT (name, params, args, checks, TRUE)
#define INFO(name, type, info_type, checks) \
  PLAIN (name, (type object, info_type info, size_t size, void *value, size_t *size_ret), \
         (object, info, size, value, size_ret), checks)

#define ENQUEUE(name, params, args, checks) \
  static cl_int CL_API_CALL \
  layer_##name (cl_command_queue queue LEAD params, cl_uint n_waits, const cl_event *waits, \
                cl_event *event) \
  { \
    LayerCall call = layer_enter (LAYER_##name); \
    cl_int code = CL_SUCCESS; \
    USE (QUEUE, queue); \
    USE_LIST (EVENT, n_waits, waits); \
    checks; \
    if (layer_may_run (&call)) \
      { \
        code = layer_target.name (queue LEAD args, n_waits, waits, event); \
        if (code == CL_SUCCESS && event != NULL) \
          layer_track (&call, LAYER_EVENT, *event); \
      } \
    return layer_leave (&call, code); \
  }

#define MAP(name, params, args, checks) \
  static void *CL_API_CALL \
  layer_##name (cl_command_queue queue LEAD params, cl_uint n_waits, const cl_event *waits, \
                cl_event *event, cl_int *code_ret) \
  { \
    LayerCall call = layer_enter (LAYER_##name); \
    cl_int code = CL_SUCCESS; \
    void *map = NULL; \
    USE (QUEUE, queue); \
    USE_LIST (EVENT, n_waits, waits); \
    checks; \
    if (layer_may_run (&call)) \
      { \
        map = layer_target.name (queue LEAD args, n_waits, waits, event, &code); \
        if (code == CL_SUCCESS) \
          layer_map (mem); \
        if (code == CL_SUCCESS && event != NULL) \
          layer_track (&call, LAYER_EVENT, *event); \
      } \
    code = layer_leave (&call, code); \
    if (code_ret != NULL) \
      *code_ret = code; \
    return map; \
  }

#define CREATE(name, type, kind, params, args, checks) \
  static type CL_API_CALL \
  layer_##name (UNPAREN params, cl_int *code_ret) \
  { \
    LayerCall call = layer_enter (LAYER_##name); \
    cl_int code = CL_SUCCESS; \
    type handle = NULL; \
    checks; \
    if (layer_may_run (&call)) \
      { \
        handle = layer_target.name (UNPAREN args, &code); \
        layer_track (&call, LAYER_##kind, code == CL_SUCCESS ? handle : NULL); \
      } \
    code = layer_leave (&call, code); \
    if (code_ret != NULL) \
      *code_ret = code; \
    return handle; \
  }

#define REF(name, type, checks) \
  static cl_int CL_API_CALL \
  layer_##name (type object) \
  { \
    LayerCall call = layer_enter (LAYER_##name); \
    cl_int code = CL_SUCCESS; \
    checks; \
    if (layer_may_run (&call)) \
      code = layer_target.name (object); \
    return layer_leave (&call, code); \
  }
#define REFS(object_name, kind, type) \
  REF (clRetain##object_name, type, layer_retain (&call, LAYER_##kind, object)) \
  REF (clRelease##object_name, type, layer_release (&call, LAYER_##kind, object))

#define SPECIAL(name)
#define EXTENSION(name)

#include "layer-calls.h"

#define CREATE_SUB_DEVICES(name, property) \
  static cl_int CL_API_CALL \
  layer_##name (cl_device_id device, const property *properties, cl_uint n, \
                cl_device_id *devices, cl_uint *n_ret) \
  { \
    LayerCall call = layer_enter (LAYER_##name); \
    cl_int code = CL_SUCCESS; \
    cl_uint made = 0; \
    layer_use (&call, LAYER_DEVICE, device); \
    if (layer_may_run (&call)) \
      code = layer_target.name (device, properties, n, devices, &made); \
    code = layer_leave (&call, code); \
    if (code == CL_SUCCESS && devices != NULL) \
      layer_track_list (&call, LAYER_DEVICE, MIN (n, made), devices); \
    if (code == CL_SUCCESS && n_ret != NULL) \
      *n_ret = made; \
    return code; \
  }
CREATE_SUB_DEVICES (clCreateSubDevices, cl_device_partition_property)
CREATE_SUB_DEVICES (clCreateSubDevicesEXT, cl_device_partition_property_ext)

cl_int
layer_answer (const void *from,
              size_t      needed,
              size_t      size,
              void       *value,
              size_t     *size_ret)
{
  if (value != NULL && size < needed)
    return CL_INVALID_VALUE;
  if (value != NULL)
    memcpy (value, from, needed);
  if (size_ret != NULL)
    *size_ret = needed;
  return CL_SUCCESS;
}

static cl_int CL_API_CALL
layer_clCreateKernelsInProgram (cl_program program,
                                cl_uint    n,
                                cl_kernel *kernels,
                                cl_uint   *n_ret)
{
  LayerCall call = layer_enter (LAYER_clCreateKernelsInProgram);
  cl_int code = CL_SUCCESS;
  cl_uint made = 0;

  layer_use (&call, LAYER_PROGRAM, program);
  if (layer_may_run (&call))
    code = layer_target.clCreateKernelsInProgram (program, n, kernels, &made);
  code = layer_leave (&call, code);
  if (code == CL_SUCCESS && kernels != NULL)
    layer_track_list (&call, LAYER_KERNEL, MIN (n, made), kernels);
  if (code == CL_SUCCESS && n_ret != NULL)
    *n_ret = made;
  return code;
}

static cl_kernel CL_API_CALL
layer_clCloneKernel (cl_kernel kernel,
                     cl_int   *code_ret)
{
  LayerCall call = layer_enter (LAYER_clCloneKernel);
  cl_int code = CL_SUCCESS;
  cl_kernel clone = NULL;

  layer_use (&call, LAYER_KERNEL, kernel);
  if (layer_may_run (&call))
    clone = layer_target.clCloneKernel (kernel, &code);
  layer_track (&call, LAYER_KERNEL, clone);
  layer_copy_args (kernel, clone);
  code = layer_leave (&call, code);
  if (code_ret != NULL)
    *code_ret = code;
  return clone;
}

static cl_int CL_API_CALL
layer_clSetKernelArg (cl_kernel   kernel,
                      cl_uint     index,
                      size_t      size,
                      const void *value)
{
  LayerCall call = layer_enter (LAYER_clSetKernelArg);
  cl_int code = CL_SUCCESS;

  layer_use (&call, LAYER_KERNEL, kernel);
  layer_use_arg (&call, size, value);
  if (layer_may_run (&call))
    code = layer_target.clSetKernelArg (kernel, index, size, value);
  code = layer_leave (&call, code);
  if (code == CL_SUCCESS)
    layer_note_arg (kernel, index, size, value);
  return code;
}

static cl_int CL_API_CALL
layer_clEnqueueMarker (cl_command_queue queue,
                       cl_event        *event)
{
  LayerCall call = layer_enter (LAYER_clEnqueueMarker);
  cl_int code = CL_SUCCESS;

  layer_use (&call, LAYER_QUEUE, queue);
  if (layer_may_run (&call))
    code = layer_target.clEnqueueMarker (queue, event);
  code = layer_leave (&call, code);
  if (code == CL_SUCCESS && event != NULL)
    layer_track (&call, LAYER_EVENT, *event);
  return code;
}

static void *CL_API_CALL
layer_clSVMAlloc (cl_context       context,
                  cl_svm_mem_flags flags,
                  size_t           size,
                  cl_uint          alignment)
{
  LayerCall call = layer_enter (LAYER_clSVMAlloc);
  void *pointer = NULL;

  layer_use (&call, LAYER_CONTEXT, context);
  if (layer_may_run (&call))
    pointer = layer_target.clSVMAlloc (context, flags, size, alignment);
  layer_track (&call, LAYER_SVM, pointer);
  return pointer;
}

static void CL_API_CALL
layer_clSVMFree (cl_context context,
                 void      *pointer)
{
  LayerCall call = layer_enter (LAYER_clSVMFree);

  layer_use (&call, LAYER_CONTEXT, context);
  if (pointer != NULL)
    layer_release (&call, LAYER_SVM, pointer);
  if (layer_may_run (&call))
    layer_target.clSVMFree (context, pointer);
}

/* If the program passes a callback, the callback frees the pointers with clSVMFree(), where the
 * layer tracks the free. Without a callback, the driver frees the pointers, and this function
 * tracks the free. */
static cl_int CL_API_CALL
layer_clEnqueueSVMFree (cl_command_queue  queue,
                        cl_uint           n,
                        void            **pointers,
                        void (CL_CALLBACK *notify) (cl_command_queue, cl_uint, void **, void *),
                        void             *data,
                        cl_uint           n_waits,
                        const cl_event   *waits,
                        cl_event         *event)
{
  LayerCall call = layer_enter (LAYER_clEnqueueSVMFree);
  cl_int code = CL_SUCCESS;
  cl_uint n_freed = notify == NULL && pointers != NULL ? n : 0;

  layer_use (&call, LAYER_QUEUE, queue);
  layer_use_list (&call, LAYER_EVENT, n_waits, waits);
  layer_use_list (&call, LAYER_SVM, n, pointers);
  if (layer_may_run (&call))
    {
      for (cl_uint i = 0; i < n_freed; i++)
        layer_release (&call, LAYER_SVM, pointers[i]);
      if (layer_may_run (&call))
        code = layer_target.clEnqueueSVMFree (queue, n, pointers, notify, data, n_waits, waits,
                                              event);
      for (cl_uint i = 0; code != CL_SUCCESS && i < n_freed; i++)
        layer_unrelease (LAYER_SVM, pointers[i]);
      code = layer_leave (&call, code);
      if (code == CL_SUCCESS && event != NULL)
        layer_track (&call, LAYER_EVENT, *event);
    }
  return layer_leave (&call, code);
}

static gpointer
find_extension (const char *name)
{
  gpointer function = layer_find_external (name);

  return function != NULL ? function : layer_find_address (name);
}

static void *CL_API_CALL
layer_clGetExtensionFunctionAddress (const char *name)
{
  LayerCall call = layer_enter (LAYER_clGetExtensionFunctionAddress);
  gpointer function = find_extension (name);

  if (!layer_may_run (&call))
    return NULL;
  return function != NULL ? function : layer_target.clGetExtensionFunctionAddress (name);
}

static void *CL_API_CALL
layer_clGetExtensionFunctionAddressForPlatform (cl_platform_id platform,
                                                const char    *name)
{
  LayerCall call = layer_enter (LAYER_clGetExtensionFunctionAddressForPlatform);
  gpointer function = find_extension (name);

  if (!layer_may_run (&call))
    return NULL;
  if (function != NULL)
    return function;
  return layer_target.clGetExtensionFunctionAddressForPlatform (platform, name);
}

static void
layer_fill_dispatch (void)
{
#define LAYER_CALL(name) \
  if (layer_target.name != NULL) \
    layer_dispatch.name = layer_##name;
#define EXTENSION(name)
#include "layer-calls.h"
}

LAYER_EXPORT CL_API_ENTRY cl_int CL_API_CALL
clGetLayerInfo (cl_layer_info name,
                size_t        size,
                void         *value,
                size_t       *size_ret)
{
  static const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
  static const char layer_name[] = "gpumem test layer";
  const void *from = &version;
  size_t needed = sizeof version;

  if (name == CL_LAYER_NAME)
    {
      from = layer_name;
      needed = sizeof layer_name;
    }
  else if (name != CL_LAYER_API_VERSION)
    return CL_INVALID_VALUE;

  if (value != NULL && size < needed)
    return CL_INVALID_VALUE;
  if (value != NULL)
    memcpy (value, from, needed);
  if (size_ret != NULL)
    *size_ret = needed;
  return CL_SUCCESS;
}

LAYER_EXPORT CL_API_ENTRY cl_int CL_API_CALL
clInitLayer (cl_uint                 n,
             const cl_icd_dispatch  *target,
             cl_uint                *n_ret,
             const cl_icd_dispatch **dispatch_ret)
{
  if (target == NULL || n_ret == NULL || dispatch_ret == NULL)
    return CL_INVALID_VALUE;

  memcpy (&layer_target, target, MIN (n * sizeof (gpointer), sizeof layer_target));
  layer_dispatch = layer_target;
  layer_add_views ();
  layer_add_vendor ();
  layer_add_external ();
  layer_add_addresses ();
  layer_fill_dispatch ();
  layer_pid = getpid ();

  *n_ret = sizeof layer_dispatch / sizeof (gpointer);
  *dispatch_ret = &layer_dispatch;
  return CL_SUCCESS;
}

gboolean
gpumem_layer_write_report (const char *path)
{
  FILE *file = fopen (path, "w");

  if (file == NULL)
    return FALSE;
  layer_report (file, TRUE);
  return fclose (file) == 0;
}

/* Writes reports only in the process that loaded the layer: a forked child would report its
 * parent's handles. */
static void __attribute__ ((destructor))
layer_fini (void)
{
  const char *counts = g_getenv ("GPUMEM_LAYER_COUNTS");
  const char *report = g_getenv ("GPUMEM_LAYER_REPORT");
  const char *grace = g_getenv ("GPUMEM_LAYER_GRACE");
  guint grace_ms = grace != NULL ? (guint) g_ascii_strtoull (grace, NULL, 10) : GRACE_MS;
  gboolean bad;

  if (layer_pid == 0 || layer_pid != getpid ())
    return;

  bad = layer_wait_for_none (grace_ms) > 0 || gpumem_layer_get_misuse () > 0;
  if (counts != NULL)
    layer_write_counts (counts);
  if (report != NULL && !gpumem_layer_write_report (report))
    g_printerr ("gpumem-layer: cannot write %s\n", report);
  if (!bad)
    return;

  layer_report (stderr, FALSE);
  if (g_strcmp0 (g_getenv ("GPUMEM_LAYER_STRICT"), "0") != 0)
    {
      fflush (NULL);
      _exit (EXIT_BAD_STATE);
    }
}
