/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A small program for test-opencl-layer. The argument names a scenario, which is correct or has a
 * single fault. Exit status: 0 success, 3 an OpenCL error that the program handled, 1 a wrong
 * result, 77 without OpenCL.
 */

#include "config.h"

#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gpumem-layer.h"

#define SIZE 4096
#define N_THREADS 4
#define N_ROUNDS 200

typedef struct
{
  cl_device_id device;
  cl_context context;
  cl_command_queue queue;
  cl_mem buffer;
  cl_event event;
} Work;

typedef cl_int (*Scenario) (Work *work);

static const char source[] =
  "kernel void twice (global int *data) { data[get_global_id (0)] *= 2; }";

#define CHECK(condition) \
  G_STMT_START \
  if (!(condition)) \
    { \
      fprintf (stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      _exit (1); \
    } \
  G_STMT_END

static cl_int
set_up (Work *work)
{
  cl_platform_id platform;
  cl_int code = clGetPlatformIDs (1, &platform, NULL);

  if (code == CL_SUCCESS)
    code = clGetDeviceIDs (platform, CL_DEVICE_TYPE_ALL, 1, &work->device, NULL);
  if (code == CL_SUCCESS)
    work->context = clCreateContext (NULL, 1, &work->device, NULL, NULL, &code);
  if (code == CL_SUCCESS)
    work->queue = clCreateCommandQueueWithProperties (work->context, work->device, NULL, &code);
  if (code == CL_SUCCESS)
    work->buffer = clCreateBuffer (work->context, CL_MEM_READ_WRITE, SIZE, NULL, &code);
  return code;
}

static void
tear_down (Work *work)
{
  if (work->event != NULL)
    clReleaseEvent (work->event);
  if (work->buffer != NULL)
    clReleaseMemObject (work->buffer);
  if (work->queue != NULL)
    clReleaseCommandQueue (work->queue);
  if (work->context != NULL)
    clReleaseContext (work->context);
}

static cl_int
clean (Work *work)
{
  char zero = 0, data[SIZE];
  cl_int code;

  code = clEnqueueFillBuffer (work->queue, work->buffer, &zero, 1, 0, SIZE, 0, NULL, &work->event);
  if (code == CL_SUCCESS)
    code = clEnqueueReadBuffer (work->queue, work->buffer, CL_FALSE, 0, SIZE, data, 1,
                                &work->event, NULL);
  if (code == CL_SUCCESS)
    {
      int finished = clFinish (work->queue);

      CHECK (data[0] == 0 && data[SIZE - 1] == 0);
      code = finished;
    }
  if (code == CL_SUCCESS)
    code = clRetainMemObject (work->buffer);
  if (code == CL_SUCCESS)
    code = clReleaseMemObject (work->buffer);
  return code;
}

static cl_int
leak (Work *work)
{
  cl_event marker;

  CHECK (clCreateSubBuffer (work->buffer, 0, CL_BUFFER_CREATE_TYPE_REGION,
                            &(cl_buffer_region) { 0, 128 }, NULL) != NULL);
  CHECK (clCreateUserEvent (work->context, NULL) != NULL);
  CHECK (clEnqueueMarkerWithWaitList (work->queue, 0, NULL, &marker) == CL_SUCCESS);
  CHECK (clRetainEvent (marker) == CL_SUCCESS);
  return clFinish (work->queue);
}

static cl_int
double_release (Work *work)
{
  CHECK (clReleaseMemObject (work->buffer) == CL_SUCCESS);
  CHECK (clReleaseMemObject (work->buffer) == CL_INVALID_MEM_OBJECT);
  work->buffer = NULL;
  return CL_SUCCESS;
}

static cl_int
use_after_release (Work *work)
{
  char zero = 0;

  CHECK (clEnqueueMarkerWithWaitList (work->queue, 0, NULL, &work->event) == CL_SUCCESS);
  CHECK (clWaitForEvents (1, &work->event) == CL_SUCCESS);
  CHECK (clReleaseEvent (work->event) == CL_SUCCESS);
  CHECK (clEnqueueMarkerWithWaitList (work->queue, 1, &work->event, NULL) ==
         CL_INVALID_EVENT_WAIT_LIST);
  CHECK (clWaitForEvents (1, &work->event) == CL_INVALID_EVENT);
  work->event = NULL;
  CHECK (clEnqueueFillBuffer (work->queue, (cl_mem) work->context, &zero, 1, 0, SIZE, 0, NULL,
                              NULL) == CL_INVALID_MEM_OBJECT);
  return CL_SUCCESS;
}

/* Launches a kernel, releases the buffer that is its argument, and launches the kernel again. The
 * release is valid, although the first launch uses the buffer. The second launch is refused. */
static cl_int
kernel_arg (Work *work)
{
  const char *text = source;
  size_t global = SIZE / sizeof (int);
  cl_mem other = work->buffer;
  cl_int code;
  cl_program program = clCreateProgramWithSource (work->context, 1, &text, NULL, &code);
  cl_kernel kernel;

  CHECK (clBuildProgram (program, 0, NULL, "", NULL, NULL) == CL_SUCCESS);
  kernel = clCreateKernel (program, "twice", &code);
  CHECK (clSetKernelArg (kernel, 0, sizeof other, &other) == CL_SUCCESS);
  CHECK (clEnqueueNDRangeKernel (work->queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL) ==
         CL_SUCCESS);
  CHECK (clReleaseMemObject (work->buffer) == CL_SUCCESS);
  CHECK (clEnqueueNDRangeKernel (work->queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL) ==
         CL_INVALID_KERNEL_ARGS);
  CHECK (clSetKernelArg (kernel, 0, sizeof other, &other) == CL_INVALID_MEM_OBJECT);
  work->buffer = NULL;
  clReleaseKernel (kernel);
  clReleaseProgram (program);
  return clFinish (work->queue);
}

/* Releases memory that is mapped, which is a misuse. */
static cl_int
map (Work *work)
{
  cl_int code;
  void *data = clEnqueueMapBuffer (work->queue, work->buffer, CL_TRUE, CL_MAP_READ, 0, SIZE, 0,
                                   NULL, NULL, &code);

  CHECK (code == CL_SUCCESS && data != NULL);
  CHECK (clReleaseMemObject (work->buffer) == CL_INVALID_OPERATION);
  CHECK (clRetainMemObject (work->buffer) == CL_SUCCESS);
  CHECK (clReleaseMemObject (work->buffer) == CL_SUCCESS);
  CHECK (clEnqueueUnmapMemObject (work->queue, work->buffer, data, 0, NULL, NULL) == CL_SUCCESS);
  CHECK (clEnqueueUnmapMemObject (work->queue, work->buffer, data, 0, NULL, NULL) ==
         CL_INVALID_VALUE);
  return clFinish (work->queue);
}

static cl_platform_id
get_platform (Work *work)
{
  cl_platform_id platform = NULL;

  clGetDeviceInfo (work->device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL);
  return platform;
}

/* Uses the layer's emulation of external memory. */
static cl_int
external (Work *work)
{
  const cl_buffer_region half = { 0, SIZE / 2 };
  cl_platform_id platform = get_platform (work);
  clEnqueueAcquireExternalMemObjectsKHR_fn acquire = (clEnqueueAcquireExternalMemObjectsKHR_fn)
    clGetExtensionFunctionAddressForPlatform (platform, "clEnqueueAcquireExternalMemObjectsKHR");
  clEnqueueReleaseExternalMemObjectsKHR_fn release = (clEnqueueReleaseExternalMemObjectsKHR_fn)
    clGetExtensionFunctionAddressForPlatform (platform, "clEnqueueReleaseExternalMemObjectsKHR");
  int fd = memfd_create ("selftest", MFD_CLOEXEC);
  cl_mem_properties properties[] = { CL_EXTERNAL_MEMORY_HANDLE_OPAQUE_FD_KHR, fd, 0 };
  cl_mem mem, part;
  cl_int code;

  CHECK (acquire != NULL && release != NULL && ftruncate (fd, SIZE) == 0);
  clCreateBufferWithProperties (work->context, properties, CL_MEM_READ_WRITE, SIZE + 1, NULL,
                                &code);
  CHECK (code == 1);
  mem = clCreateBufferWithProperties (work->context, properties, CL_MEM_READ_WRITE, SIZE, NULL,
                                      &code);
  CHECK (code == CL_SUCCESS && fcntl (fd, F_GETFD) == -1);
  part = clCreateSubBuffer (mem, 0, CL_BUFFER_CREATE_TYPE_REGION, &half, &code);
  CHECK (code == CL_SUCCESS);

  CHECK (clEnqueueFillBuffer (work->queue, part, "x", 1, 0, 8, 0, NULL, NULL) ==
         CL_INVALID_OPERATION);
  CHECK (acquire (work->queue, 1, &mem, 0, NULL, NULL) == CL_SUCCESS);
  CHECK (clEnqueueFillBuffer (work->queue, part, "x", 1, 0, 8, 0, NULL, NULL) == CL_SUCCESS);
  CHECK (acquire (work->queue, 1, &mem, 0, NULL, NULL) == CL_INVALID_OPERATION);
  CHECK (release (work->queue, 1, &mem, 0, NULL, NULL) == CL_SUCCESS);
  CHECK (release (work->queue, 1, &mem, 0, NULL, NULL) == CL_INVALID_OPERATION);
  CHECK (acquire (work->queue, 1, &part, 0, NULL, NULL) == CL_INVALID_MEM_OBJECT);
  CHECK (acquire (work->queue, 1, &work->buffer, 0, NULL, NULL) == CL_INVALID_MEM_OBJECT);
  clReleaseMemObject (part);
  clReleaseMemObject (mem);
  return clFinish (work->queue);
}

static cl_mem
make_image (Work              *work,
            cl_mem_object_type type,
            cl_mem             buffer)
{
  const cl_image_format format = { CL_RGBA, CL_UNSIGNED_INT8 };
  cl_image_desc desc = { .image_type = type, .image_width = 16, .image_height = 16 };
  cl_int code;
  cl_mem image;

  desc.buffer = buffer;
  image = clCreateImage (work->context, CL_MEM_READ_WRITE, &format, &desc, NULL, &code);
  CHECK (code == CL_SUCCESS);
  return image;
}

/* An image may be released while commands use it. A buffer may be released while an image over the
 * buffer exists. */
static cl_int
image (Work *work)
{
  const size_t origin[3] = { 0, 0, 0 }, region[3] = { 16, 16, 1 };
  const cl_uint color[4] = { 1, 2, 3, 4 };
  cl_mem plain = make_image (work, CL_MEM_OBJECT_IMAGE2D, NULL);
  cl_mem over = make_image (work, CL_MEM_OBJECT_IMAGE1D_BUFFER, work->buffer);

  CHECK (GPUMEM_LAYER (get_live) ("mem") == 3);
  CHECK (clEnqueueFillImage (work->queue, plain, color, origin, region, 0, NULL, NULL) == 0);
  CHECK (clReleaseMemObject (plain) == CL_SUCCESS);
  CHECK (clFinish (work->queue) == CL_SUCCESS);
  CHECK (clEnqueueFillImage (work->queue, plain, color, origin, region, 0, NULL, NULL) ==
         CL_INVALID_MEM_OBJECT);
  CHECK (clReleaseMemObject (work->buffer) == CL_SUCCESS);
  CHECK (clGetMemObjectInfo (over, CL_MEM_TYPE, 0, NULL, NULL) == CL_SUCCESS);
  CHECK (clReleaseMemObject (over) == CL_SUCCESS);
  work->buffer = NULL;
  make_image (work, CL_MEM_OBJECT_IMAGE2D, NULL);
  return CL_SUCCESS;
}

static const char sampler_source[] =
  "kernel void take (read_only image2d_t image, sampler_t s, global uint4 *out) {"
  " out[get_global_id (0)] = read_imageui (image, s, (int2) (0, 0)); }";

/* A sampler may be released while commands use it, but not before a kernel with the sampler as an
 * argument is launched. */
static cl_int
sampler (Work *work)
{
  const char *text = sampler_source;
  const size_t global = 1;
  cl_mem from = make_image (work, CL_MEM_OBJECT_IMAGE2D, NULL);
  cl_int code;
  cl_sampler made = clCreateSampler (work->context, CL_FALSE, CL_ADDRESS_NONE, CL_FILTER_NEAREST,
                                     &code);
  cl_program program = clCreateProgramWithSource (work->context, 1, &text, NULL, &code);
  cl_kernel kernel;

  CHECK (GPUMEM_LAYER (get_live) ("sampler") == 1);
  CHECK (clBuildProgram (program, 0, NULL, "", NULL, NULL) == CL_SUCCESS);
  kernel = clCreateKernel (program, "take", &code);
  CHECK (clSetKernelArg (kernel, 0, sizeof from, &from) == CL_SUCCESS);
  CHECK (clSetKernelArg (kernel, 1, sizeof made, &made) == CL_SUCCESS);
  CHECK (clSetKernelArg (kernel, 2, sizeof work->buffer, &work->buffer) == CL_SUCCESS);
  CHECK (clEnqueueNDRangeKernel (work->queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL) == 0);
  CHECK (clReleaseSampler (made) == CL_SUCCESS);
  CHECK (clFinish (work->queue) == CL_SUCCESS);
  CHECK (clEnqueueNDRangeKernel (work->queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL) ==
         CL_INVALID_KERNEL_ARGS);
  CHECK (clSetKernelArg (kernel, 1, sizeof made, &made) == CL_INVALID_SAMPLER);
  CHECK (clReleaseSampler (made) == CL_INVALID_SAMPLER);
  CHECK (clCreateSampler (work->context, CL_TRUE, CL_ADDRESS_REPEAT, CL_FILTER_LINEAR, NULL) !=
         NULL);
  clReleaseMemObject (from);
  clReleaseKernel (kernel);
  clReleaseProgram (program);
  return CL_SUCCESS;
}

static cl_int
svm (Work *work)
{
  void *pointers[3];

  for (int i = 0; i < 3; i++)
    pointers[i] = clSVMAlloc (work->context, CL_MEM_READ_WRITE, SIZE, 0);
  CHECK (pointers[0] != NULL && pointers[1] != NULL && pointers[2] != NULL);
  CHECK (GPUMEM_LAYER (get_live) ("svm") == 3);
  CHECK (clEnqueueSVMFree (work->queue, 1, pointers, NULL, NULL, 0, NULL, NULL) == CL_SUCCESS);
  clSVMFree (work->context, pointers[1]);
  CHECK (clFinish (work->queue) == CL_SUCCESS);
  clSVMFree (work->context, pointers[1]);
  CHECK (GPUMEM_LAYER (get_misuse) () == 1);
  return CL_SUCCESS;
}

static cl_int
query (Work *work)
{
  CHECK (GPUMEM_LAYER (get_live) ("") == 3);
  CHECK (GPUMEM_LAYER (get_live) ("mem") == 1);
  CHECK (GPUMEM_LAYER (get_live) ("nonsense") == G_MAXUINT);
  CHECK (GPUMEM_LAYER (get_count) ("clCreateBuffer") == 1);
  CHECK (GPUMEM_LAYER (get_count) ("clNonsense") == G_MAXUINT64);
  GPUMEM_LAYER (reset_counts) ();
  CHECK (GPUMEM_LAYER (get_count) ("") == 0);
  CHECK (clFlush (work->queue) == CL_SUCCESS);
  CHECK (clRetainContext (work->context) == CL_SUCCESS);
  CHECK (clReleaseContext (work->context) == CL_SUCCESS);
  CHECK (GPUMEM_LAYER (get_count) ("") == 3);
  CHECK (GPUMEM_LAYER (get_count) ("cl*Context") == 2);

  GPUMEM_LAYER (fail_after) (2, -77);
  CHECK (clFlush (work->queue) == CL_SUCCESS);
  CHECK (clReleaseContext (NULL) == CL_INVALID_CONTEXT);
  CHECK (clFinish (work->queue) == -77);
  CHECK (clFinish (work->queue) == CL_SUCCESS);
  CHECK (GPUMEM_LAYER (get_failed) () == 1);
  CHECK (!GPUMEM_LAYER (set_fail) ("fn=clNonsense"));
  CHECK (GPUMEM_LAYER (set_fail) ("fn=clFinish,n=2,times=2"));
  CHECK (clFinish (work->queue) == CL_SUCCESS);
  CHECK (clFlush (work->queue) == CL_SUCCESS);
  CHECK (clFinish (work->queue) == CL_OUT_OF_RESOURCES);
  CHECK (clFinish (work->queue) == CL_OUT_OF_RESOURCES);
  CHECK (clFinish (work->queue) == CL_SUCCESS);
  return CL_SUCCESS;
}

/* A wait with an injected fault still waits before it fails. */
static cl_int
failing_wait (Work *work)
{
  char zero = 0, data[SIZE] = { 1 };
  cl_event read;
  cl_int status;

  CHECK (clEnqueueFillBuffer (work->queue, work->buffer, &zero, 1, 0, SIZE, 0, NULL, NULL) == 0);
  CHECK (clEnqueueReadBuffer (work->queue, work->buffer, CL_FALSE, 0, SIZE, data, 0, NULL,
                              &read) == CL_SUCCESS);
  CHECK (GPUMEM_LAYER (set_fail) ("lost=1"));
  CHECK (clWaitForEvents (1, &read) == CL_DEVICE_NOT_AVAILABLE);
  CHECK (data[0] == 0);
  CHECK (clGetEventInfo (read, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL) ==
         CL_DEVICE_NOT_AVAILABLE);
  CHECK (clReleaseEvent (read) == CL_SUCCESS);
  return CL_SUCCESS;
}

/* After any call reports a lost device, the device no longer uses memory. */
static cl_int
lost_query (Work *work)
{
  char zero = 0, data[SIZE];
  cl_event read;
  cl_int status;

  for (int i = 0; i < N_ROUNDS; i++)
    {
      memset (data, 1, SIZE);
      CHECK (GPUMEM_LAYER (set_fail) (NULL));
      CHECK (clEnqueueFillBuffer (work->queue, work->buffer, &zero, 1, 0, SIZE, 0, NULL,
                                  NULL) == CL_SUCCESS);
      CHECK (clEnqueueReadBuffer (work->queue, work->buffer, CL_FALSE, 0, SIZE, data, 0, NULL,
                                  &read) == CL_SUCCESS);
      CHECK (clFlush (work->queue) == CL_SUCCESS);
      CHECK (GPUMEM_LAYER (set_fail) ("lost=1"));
      CHECK (clGetEventInfo (read, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status,
                             NULL) == CL_DEVICE_NOT_AVAILABLE);
      CHECK (data[0] == 0);
      CHECK (clReleaseEvent (read) == CL_SUCCESS);
    }
  return CL_SUCCESS;
}

static void *
work_in_thread (void *data)
{
  Work work = *(Work *) data;

  for (int i = 0; i < N_ROUNDS; i++)
    {
      cl_event events[2];
      cl_int code;
      char zero = 0;

      work.buffer = clCreateBuffer (work.context, CL_MEM_READ_WRITE, SIZE, NULL, &code);
      CHECK (clEnqueueFillBuffer (work.queue, work.buffer, &zero, 1, 0, SIZE, 0, NULL,
                                  &events[0]) == CL_SUCCESS);
      CHECK (clEnqueueMarkerWithWaitList (work.queue, 1, events, &events[1]) == CL_SUCCESS);
      CHECK (clReleaseMemObject (work.buffer) == CL_SUCCESS);
      CHECK (clReleaseEvent (events[0]) == CL_SUCCESS);
      CHECK (clWaitForEvents (1, &events[1]) == CL_SUCCESS);
      CHECK (clReleaseEvent (events[1]) == CL_SUCCESS);
    }
  return NULL;
}

static cl_int
threads (Work *work)
{
  pthread_t ids[N_THREADS];

  for (int i = 0; i < N_THREADS; i++)
    CHECK (pthread_create (&ids[i], NULL, work_in_thread, work) == 0);
  for (int i = 0; i < N_THREADS; i++)
    CHECK (pthread_join (ids[i], NULL) == 0);
  return CL_SUCCESS;
}

static void *
release_later (void *buffer)
{
  usleep (100000);
  clReleaseMemObject (buffer);
  return NULL;
}

static cl_int
late_thread (Work *work)
{
  pthread_t id;

  CHECK (pthread_create (&id, NULL, release_later, work->buffer) == 0);
  CHECK (pthread_detach (id) == 0);
  work->buffer = NULL;
  return CL_SUCCESS;
}

/* Misbehaves after a failed call, in the three ways that fault-harness must detect. */
static cl_int
leak_on_error (Work *work)
{
  cl_int code = clean (work);

  if (code != CL_SUCCESS)
    work->buffer = NULL;
  return code;
}

static cl_int
hang_on_error (Work *work)
{
  if (clean (work) != CL_SUCCESS)
    pause ();
  return CL_SUCCESS;
}

static cl_int
crash_on_error (Work *work)
{
  cl_int code = clean (work);

  /* Restore the handler, which a driver may have replaced. */
  if (code != CL_SUCCESS)
    {
      signal (SIGSEGV, SIG_DFL);
      raise (SIGSEGV);
    }
  return code;
}

/* Makes fewer calls in the second run than in the first, like a program that finds its kernels in a
 * cache. */
static cl_int
fewer_calls (Work *work)
{
  const char *fault = getenv ("GPUMEM_LAYER_FAIL");

  for (guint i = 0; i < 8 && (fault == NULL || *fault == '\0'); i++)
    clFinish (work->queue);
  return clean (work);
}

static const struct
{
  const char *name;
  Scenario run;
} scenarios[] = {
  { "clean", clean },
  { "leak", leak },
  { "double-release", double_release },
  { "use-after-release", use_after_release },
  { "kernel-arg", kernel_arg },
  { "map", map },
  { "external", external },
  { "image", image },
  { "sampler", sampler },
  { "svm", svm },
  { "query", query },
  { "failing-wait", failing_wait },
  { "lost-query", lost_query },
  { "threads", threads },
  { "late-thread", late_thread },
  { "leak-on-error", leak_on_error },
  { "hang-on-error", hang_on_error },
  { "crash-on-error", crash_on_error },
  { "fewer-calls", fewer_calls },
};

static Scenario
find_scenario (const char *name)
{
  for (gsize i = 0; i < G_N_ELEMENTS (scenarios); i++)
    if (g_strcmp0 (name, scenarios[i].name) == 0)
      return scenarios[i].run;
  return NULL;
}

int
main (int    argc,
      char **argv)
{
  Scenario scenario = find_scenario (argv[1]);
  Work work = { NULL };
  cl_int code;

  if (scenario == NULL)
    {
      fprintf (stderr, "%s: a scenario is missing\n", argv[0]);
      return 1;
    }
  code = set_up (&work);
  if (code == -1001 || code == CL_DEVICE_NOT_FOUND)
    return 77;
  if (code == CL_SUCCESS)
    code = scenario (&work);
  tear_down (&work);
  printf ("%s: %d\n", argv[1], code);
  return code == CL_SUCCESS ? 0 : 3;
}
