/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Emulates cl_khr_external_memory (memory of other APIs), which PoCL lacks:
 *
 *   GPUMEM_LAYER_EXTERNAL=opaque-fd,dma-buf   the kinds that devices list
 *   GPUMEM_LAYER_EXTERNAL_SIZE=BYTES          limit for the size of the memory of each file
 *
 * The layer maps the descriptor, which must be a memfd, and creates a buffer over the mapping,
 * because PoCL uses host memory in place. Like NVIDIA's driver, the layer takes ownership of the
 * descriptor. If the requested buffer is larger than the memory, the layer returns an invalid
 * handle and an error code above 0, as NVIDIA's driver does.
 *
 * Misuses are:
 *
 *  - a command that uses external memory, or an object made from it, without an earlier acquire
 *  - an acquire of memory that is already acquired
 *  - a release of memory that is not acquired, is mapped, or is a sub-buffer of other memory
 *  - on an out-of-order queue, two commands that use the same external memory without a barrier
 *    between them
 */

#include "config.h"

#include "layer.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define CODE_OF_NVIDIA 1

typedef struct
{
  gint          refs;               /* by the buffer and by objects made from the buffer */
  gpointer      data;
  gsize         size;
  gboolean      acquired;
  guint         n_maps;
  gconstpointer unordered;          /* out-of-order queue whose last command has no barrier
                                     * after it, or NULL */
} External;

static cl_icd_dispatch driver;
static cl_external_memory_handle_type_khr types[2];
static guint n_types;
static guint64 max_size = G_MAXUINT64;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static GHashTable *externals;       /* cl_mem -> External */
static __thread cl_command_queue current_queue;

static char *
get_extensions (cl_device_id device)
{
  g_autoptr (GString) text = g_string_new (NULL);
  size_t size = 0;

  driver.clGetDeviceInfo (device, CL_DEVICE_EXTENSIONS, 0, NULL, &size);
  g_string_set_size (text, size);
  driver.clGetDeviceInfo (device, CL_DEVICE_EXTENSIONS, size, text->str, NULL);
  g_string_truncate (text, strlen (text->str));
  g_string_append (text, " cl_khr_external_memory");
  for (guint i = 0; i < n_types; i++)
    g_string_append (text, types[i] == CL_EXTERNAL_MEMORY_HANDLE_DMA_BUF_KHR
                           ? " cl_khr_external_memory_dma_buf"
                           : " cl_khr_external_memory_opaque_fd");
  return g_string_free (g_steal_pointer (&text), FALSE);
}

static cl_int CL_API_CALL
get_device_info (cl_device_id   device,
                 cl_device_info info,
                 size_t         size,
                 void          *value,
                 size_t        *size_ret)
{
  if (info == CL_DEVICE_EXTENSIONS)
    {
      g_autofree char *text = get_extensions (device);

      return layer_answer (text, strlen (text) + 1, size, value, size_ret);
    }
  if (info == CL_DEVICE_EXTERNAL_MEMORY_IMPORT_HANDLE_TYPES_KHR)
    return layer_answer (types, n_types * sizeof *types, size, value, size_ret);
  return driver.clGetDeviceInfo (device, info, size, value, size_ret);
}

/* --- lifetime --------------------------------------------------------------------------------- */

static void CL_CALLBACK
on_destroyed (cl_mem mem,
              void  *data)
{
  External *external = data;

  pthread_mutex_lock (&lock);
  if (g_hash_table_lookup (externals, mem) == external)
    g_hash_table_remove (externals, mem);
  if (--external->refs == 0)
    {
      munmap (external->data, external->size);
      g_free (external);
    }
  pthread_mutex_unlock (&lock);
}

static void
add (cl_mem    mem,
     External *external)
{
  pthread_mutex_lock (&lock);
  if (externals == NULL)
    externals = g_hash_table_new (NULL, NULL);
  external->refs++;
  g_hash_table_replace (externals, mem, external);
  pthread_mutex_unlock (&lock);
  driver.clSetMemObjectDestructorCallback (mem, on_destroyed, external);
}

static External *
find (gconstpointer mem)
{
  External *external;

  pthread_mutex_lock (&lock);
  external = externals != NULL ? g_hash_table_lookup (externals, mem) : NULL;
  pthread_mutex_unlock (&lock);
  return external;
}

static cl_mem
import (cl_context   context,
        cl_mem_flags flags,
        int          fd,
        gsize        size,
        cl_int      *code)
{
  struct stat status;
  External *external;
  gpointer data;
  cl_mem mem;

  *code = CL_INVALID_VALUE;
  if (fstat (fd, &status) != 0 || !S_ISREG (status.st_mode))
    return NULL;
  if (size > MIN ((guint64) status.st_size, max_size))
    {
      *code = CODE_OF_NVIDIA;
      return (cl_mem) (guintptr) 0x10;
    }
  data = mmap (NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED)
    return NULL;
  mem = driver.clCreateBuffer (context, flags | CL_MEM_USE_HOST_PTR, size, data, code);
  if (*code != CL_SUCCESS)
    {
      munmap (data, size);
      return NULL;
    }
  close (fd);
  external = g_new0 (External, 1);
  external->data = data;
  external->size = size;
  add (mem, external);
  return mem;
}

static cl_mem CL_API_CALL
create_buffer (cl_context               context,
               const cl_mem_properties *properties,
               cl_mem_flags             flags,
               size_t                   size,
               void                    *host,
               cl_int                  *code)
{
  for (guint i = 0; properties != NULL && i < n_types; i++)
    if (properties[0] == types[i])
      return import (context, flags, (int) properties[1], size, code);
  return driver.clCreateBufferWithProperties (context, properties, flags, size, host, code);
}

static cl_mem CL_API_CALL
create_sub_buffer (cl_mem                parent,
                   cl_mem_flags          flags,
                   cl_buffer_create_type type,
                   const void           *info,
                   cl_int               *code)
{
  External *external = find (parent);
  cl_mem mem = driver.clCreateSubBuffer (parent, flags, type, info, code);

  if (external != NULL && *code == CL_SUCCESS)
    add (mem, external);
  return mem;
}

static cl_mem CL_API_CALL
create_image (cl_context             context,
              cl_mem_flags           flags,
              const cl_image_format *format,
              const cl_image_desc   *desc,
              void                  *host,
              cl_int                *code)
{
  External *external = desc != NULL && desc->mem_object != NULL ? find (desc->mem_object) : NULL;
  cl_mem mem = driver.clCreateImage (context, flags, format, desc, host, code);

  if (external != NULL && *code == CL_SUCCESS)
    add (mem, external);
  return mem;
}

/* --- commands --------------------------------------------------------------------------------- */

static gboolean
is_out_of_order (cl_command_queue queue)
{
  cl_command_queue_properties bits = 0;

  driver.clGetCommandQueueInfo (queue, CL_QUEUE_PROPERTIES, sizeof bits, &bits, NULL);
  return (bits & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) != 0;
}

/* Caller holds the lock. */
static void
order (LayerCall *call,
       External  *external)
{
  if (external->unordered == current_queue)
    layer_report_misuse (call, CL_INVALID_OPERATION,
                         "external memory is used without a barrier behind its last use");
  external->unordered = is_out_of_order (current_queue) ? current_queue : NULL;
}

static gboolean
is_wait (LayerFunction function)
{
  return function == LAYER_clWaitForEvents || function == LAYER_clFinish
         || function == LAYER_clGetEventInfo;
}

/* Called for a call after which later commands need no barrier: a barrier itself, and a wait or a
 * query, after which the program may know that earlier commands have completed. Caller holds the
 * lock. */
static void
note_order (LayerFunction function)
{
  GHashTableIter iter;
  gpointer value;

  if (externals == NULL)
    return;
  g_hash_table_iter_init (&iter, externals);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    if (is_wait (function) || ((External *) value)->unordered == current_queue)
      ((External *) value)->unordered = NULL;
}

static gboolean
is_command (LayerFunction function)
{
  return g_str_has_prefix (layer_names[function], "clEnqueue");
}

static gboolean
hands_over (LayerFunction function)
{
  return function == LAYER_clEnqueueAcquireExternalMemObjectsKHR
         || function == LAYER_clEnqueueReleaseExternalMemObjectsKHR;
}

/* Caller holds the lock. */
static void
use (LayerCall *call,
     External  *external)
{
  const char *name = layer_names[call->function];

  if (!external->acquired)
    layer_report_misuse (call, CL_INVALID_OPERATION, "external memory is not acquired");
  order (call, external);
  if (g_str_has_prefix (name, "clEnqueueMap"))
    external->n_maps++;
  else if (g_str_has_prefix (name, "clEnqueueUnmap") && external->n_maps > 0)
    external->n_maps--;
}

/* Called for every handle of a call. The first handle of every command is its queue. */
void
layer_use_external (LayerCall    *call,
                    LayerKind     kind,
                    gconstpointer handle)
{
  External *external;

  if (n_types == 0 || call->fault != CL_SUCCESS || hands_over (call->function))
    return;
  pthread_mutex_lock (&lock);
  if (kind == LAYER_QUEUE)
    current_queue = (cl_command_queue) handle;
  if (call->function == LAYER_clEnqueueBarrierWithWaitList || is_wait (call->function))
    note_order (call->function);
  external = kind == LAYER_MEM && externals != NULL && is_command (call->function)
             ? g_hash_table_lookup (externals, handle) : NULL;
  if (external != NULL)
    use (call, external);
  pthread_mutex_unlock (&lock);
}

/* Caller holds the lock. */
static void
hand_over (LayerCall *call,
           cl_mem     mem,
           gboolean   acquire)
{
  External *external = externals != NULL ? g_hash_table_lookup (externals, mem) : NULL;
  gsize size = 0;

  if (external == NULL)
    {
      layer_report_misuse (call, CL_INVALID_MEM_OBJECT, "mem %p is no external memory",
                           (gpointer) mem);
      return;
    }
  driver.clGetMemObjectInfo (mem, CL_MEM_SIZE, sizeof size, &size, NULL);
  if (size != external->size)
    layer_report_misuse (call, CL_INVALID_MEM_OBJECT, "mem %p is a part of external memory",
                         (gpointer) mem);
  if (external->acquired == acquire)
    layer_report_misuse (call, CL_INVALID_OPERATION, "mem %p is %s", (gpointer) mem,
                         acquire ? "acquired already" : "not acquired");
  if (!acquire && external->n_maps > 0)
    layer_report_misuse (call, CL_INVALID_OPERATION, "mem %p is mapped", (gpointer) mem);
  order (call, external);
  external->acquired = acquire;
}

static cl_int
enqueue (LayerFunction     function,
         cl_command_queue  queue,
         cl_uint           n,
         const cl_mem     *mems,
         cl_uint           n_waits,
         const cl_event   *waits,
         cl_event         *event)
{
  LayerCall call = layer_enter (function);
  cl_int code = CL_SUCCESS;

  layer_use (&call, LAYER_QUEUE, queue);
  layer_use_list (&call, LAYER_EVENT, n_waits, waits);
  layer_use_list (&call, LAYER_MEM, n, mems);
  if (layer_may_run (&call))
    {
      pthread_mutex_lock (&lock);
      current_queue = queue;
      for (cl_uint i = 0; i < n; i++)
        hand_over (&call, mems[i], function == LAYER_clEnqueueAcquireExternalMemObjectsKHR);
      pthread_mutex_unlock (&lock);
    }
  if (layer_may_run (&call))
    {
      code = driver.clEnqueueMarkerWithWaitList (queue, n_waits, waits, event);
      if (code == CL_SUCCESS && event != NULL)
        layer_track (&call, LAYER_EVENT, *event);
    }
  return layer_leave (&call, code);
}

static cl_int CL_API_CALL
acquire (cl_command_queue  queue,
         cl_uint           n,
         const cl_mem     *mems,
         cl_uint           n_waits,
         const cl_event   *waits,
         cl_event         *event)
{
  return enqueue (LAYER_clEnqueueAcquireExternalMemObjectsKHR, queue, n, mems, n_waits, waits,
                  event);
}

static cl_int CL_API_CALL
release (cl_command_queue  queue,
         cl_uint           n,
         const cl_mem     *mems,
         cl_uint           n_waits,
         const cl_event   *waits,
         cl_event         *event)
{
  return enqueue (LAYER_clEnqueueReleaseExternalMemObjectsKHR, queue, n, mems, n_waits, waits,
                  event);
}

gpointer
layer_find_external (const char *name)
{
  if (n_types == 0)
    return NULL;
  if (strcmp (name, "clEnqueueAcquireExternalMemObjectsKHR") == 0)
    return (gpointer) acquire;
  return strcmp (name, "clEnqueueReleaseExternalMemObjectsKHR") == 0 ? (gpointer) release : NULL;
}

static void
parse (const char *kinds)
{
  g_auto (GStrv) names = g_strsplit (kinds, ",", 2);

  for (guint i = 0; names[i] != NULL; i++)
    {
      if (strcmp (names[i], "opaque-fd") == 0)
        types[n_types++] = CL_EXTERNAL_MEMORY_HANDLE_OPAQUE_FD_KHR;
      else if (strcmp (names[i], "dma-buf") == 0)
        types[n_types++] = CL_EXTERNAL_MEMORY_HANDLE_DMA_BUF_KHR;
      else
        {
          g_printerr ("gpumem-layer: GPUMEM_LAYER_EXTERNAL=%s is not understood\n", kinds);
          abort ();
        }
    }
}

void
layer_add_external (void)
{
  const char *kinds = g_getenv ("GPUMEM_LAYER_EXTERNAL");
  const char *size = g_getenv ("GPUMEM_LAYER_EXTERNAL_SIZE");

  if (kinds == NULL)
    return;
  parse (kinds);
  if (size != NULL)
    max_size = g_ascii_strtoull (size, NULL, 10);
  driver = layer_target;
  layer_target.clGetDeviceInfo = get_device_info;
  layer_target.clCreateBufferWithProperties = create_buffer;
  layer_target.clCreateSubBuffer = create_sub_buffer;
  layer_target.clCreateImage = create_image;
}
