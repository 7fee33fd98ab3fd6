/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Emulates cl_ext_buffer_device_address. PoCL 3 lacks this extension, and PoCL 6 has a draft:
 *
 *   GPUMEM_LAYER_ADDRESSES=VERSION   the version that devices list, for example 1.0.2
 *
 * If a program creates a buffer with the extension's property, the layer allocates host memory and
 * creates the buffer over this memory, which PoCL uses in place. The address of the buffer is the
 * address of this memory. The layer reports these misuses:
 *
 *  - a list of addresses for indirect access that contains an address other than the start of such
 *    a buffer
 *  - a call of the argument function for shared virtual memory with an address in such a buffer
 *  - a call of the argument function for buffer addresses with an address outside of such buffers
 */

#include "config.h"

#include "layer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXTENSION "cl_ext_buffer_device_address"

/* Values of the extension, for older headers */
#define FIXED_ADDRESS 0x5000
#define ADDRESS       0x5001
#define EXEC_INFO     0x5002

/* Each address is an odd multiple of this number. */
#define ALIGNMENT     256

static cl_icd_dispatch driver;
static cl_version version;
static GMutex lock;
static GHashTable *sizes;           /* by the address of the buffer */

/* Gets a property of the device from the driver, and appends @n_more bytes of zeros to the
 * value. */
static guint8 *
get_info (cl_device_id    device,
          cl_device_info  info,
          gsize           n_more,
          size_t         *size)
{
  guint8 *value;

  *size = 0;
  driver.clGetDeviceInfo (device, info, 0, NULL, size);
  value = g_malloc0 (*size + n_more);
  driver.clGetDeviceInfo (device, info, *size, value, NULL);
  return value;
}

/* Removes the driver's entry of the extension. Returns the number of entries that are left. */
static size_t
remove_draft (cl_name_version *entries,
              size_t           n)
{
  size_t left = 0;

  for (size_t i = 0; i < n; i++)
    if (strcmp (entries[i].name, EXTENSION) != 0)
      entries[left++] = entries[i];
  return left;
}

static cl_int CL_API_CALL
get_device_info (cl_device_id   device,
                 cl_device_info info,
                 size_t         size,
                 void          *value,
                 size_t        *size_ret)
{
  const cl_name_version entry = { version, EXTENSION };
  g_autofree guint8 *own = NULL;
  g_autofree char *text = NULL;
  size_t own_size = 0;

  if (info == CL_DEVICE_EXTENSIONS)
    {
      own = get_info (device, info, 1, &own_size);
      text = g_strjoin (" ", (char *) own, EXTENSION, NULL);
      return layer_answer (text, strlen (text) + 1, size, value, size_ret);
    }
  if (info != CL_DEVICE_EXTENSIONS_WITH_VERSION)
    return driver.clGetDeviceInfo (device, info, size, value, size_ret);
  own = get_info (device, info, sizeof entry, &own_size);
  own_size = remove_draft ((cl_name_version *) own, own_size / sizeof entry) * sizeof entry;
  memcpy (own + own_size, &entry, sizeof entry);
  return layer_answer (own, own_size + sizeof entry, size, value, size_ret);
}

static void CL_CALLBACK
on_destroyed (cl_mem mem G_GNUC_UNUSED,
              void  *data)
{
  g_mutex_lock (&lock);
  g_hash_table_remove (sizes, data);
  g_mutex_unlock (&lock);
  free ((guint8 *) data - ALIGNMENT);
}

static cl_mem CL_API_CALL
create_buffer (cl_context               context,
               const cl_mem_properties *properties,
               cl_mem_flags             flags,
               size_t                   size,
               void                    *host,
               cl_int                  *code)
{
  gpointer start = NULL;
  guint8 *data;
  cl_mem mem;

  if (properties == NULL || properties[0] != FIXED_ADDRESS || properties[1] != CL_TRUE)
    return driver.clCreateBufferWithProperties (context, properties, flags, size, host, code);
  *code = CL_MEM_OBJECT_ALLOCATION_FAILURE;
  if (posix_memalign (&start, 2 * ALIGNMENT, ALIGNMENT + size) != 0)
    return NULL;
  data = (guint8 *) start + ALIGNMENT;
  if (host != NULL)
    memcpy (data, host, size);
  flags &= ~(cl_mem_flags) CL_MEM_COPY_HOST_PTR;
  mem = driver.clCreateBuffer (context, flags | CL_MEM_USE_HOST_PTR, size, data, code);
  if (*code != CL_SUCCESS)
    {
      free (start);
      return NULL;
    }
  g_mutex_lock (&lock);
  g_hash_table_insert (sizes, data, GSIZE_TO_POINTER (size));
  g_mutex_unlock (&lock);
  driver.clSetMemObjectDestructorCallback (mem, on_destroyed, data);
  return mem;
}

static gboolean
is_start (gconstpointer address)
{
  gboolean result;

  g_mutex_lock (&lock);
  result = g_hash_table_contains (sizes, address);
  g_mutex_unlock (&lock);
  return result;
}

static gboolean
is_in_buffer (guintptr address)
{
  gboolean result = FALSE;
  gpointer start, size;
  GHashTableIter i;

  g_mutex_lock (&lock);
  g_hash_table_iter_init (&i, sizes);
  while (!result && g_hash_table_iter_next (&i, &start, &size))
    result = address - (guintptr) start < GPOINTER_TO_SIZE (size);
  g_mutex_unlock (&lock);
  return result;
}

static cl_int CL_API_CALL
get_mem_info (cl_mem       mem,
              cl_mem_info  info,
              size_t       size,
              void        *value,
              size_t      *size_ret)
{
  guint8 *data = NULL;
  size_t offset = 0;
  cl_ulong address;

  if (info != ADDRESS)
    return driver.clGetMemObjectInfo (mem, info, size, value, size_ret);
  driver.clGetMemObjectInfo (mem, CL_MEM_HOST_PTR, sizeof data, &data, NULL);
  driver.clGetMemObjectInfo (mem, CL_MEM_OFFSET, sizeof offset, &offset, NULL);
  if (data == NULL || !is_start (data - offset))
    return CL_INVALID_MEM_OBJECT;
  address = (guintptr) data;
  return layer_answer (&address, sizeof address, size, value, size_ret);
}

static cl_int CL_API_CALL
set_exec_info (cl_kernel            kernel,
               cl_kernel_exec_info  info,
               size_t               size,
               const void          *value)
{
  LayerCall call = { .function = LAYER_clSetKernelExecInfo };
  const cl_ulong *addresses = value;

  if (info != EXEC_INFO)
    return driver.clSetKernelExecInfo (kernel, info, size, value);
  for (gsize i = 0; i < size / sizeof *addresses; i++)
    if (!is_start ((gpointer) (guintptr) addresses[i]))
      {
        layer_report_misuse (&call, CL_INVALID_VALUE, "no buffer starts at 0x%"
                             G_GINT64_MODIFIER "x", (guint64) addresses[i]);
        return CL_INVALID_VALUE;
      }
  return CL_SUCCESS;
}

static cl_int CL_API_CALL
set_argument (cl_kernel kernel,
              cl_uint   index,
              cl_ulong  address)
{
  LayerCall call = { .function = LAYER_clSetKernelArg };

  if (is_in_buffer (address))
    return driver.clSetKernelArgSVMPointer (kernel, index, (gpointer) (guintptr) address);
  layer_report_misuse (&call, CL_INVALID_ARG_VALUE, "clSetKernelArgDevicePointerEXT: 0x%"
                       G_GINT64_MODIFIER "x is not in a buffer", (guint64) address);
  return CL_INVALID_ARG_VALUE;
}

static cl_int CL_API_CALL
set_svm_argument (cl_kernel   kernel,
                  cl_uint     index,
                  const void *pointer)
{
  LayerCall call = { .function = LAYER_clSetKernelArgSVMPointer };

  if (!is_in_buffer ((guintptr) pointer))
    return driver.clSetKernelArgSVMPointer (kernel, index, pointer);
  layer_report_misuse (&call, CL_INVALID_ARG_VALUE, "%p is in a buffer", pointer);
  return CL_INVALID_ARG_VALUE;
}

gpointer
layer_find_address (const char *name)
{
  if (version == 0 || strcmp (name, "clSetKernelArgDevicePointerEXT") != 0)
    return NULL;
  return (gpointer) set_argument;
}

void
layer_add_addresses (void)
{
  const char *given = g_getenv ("GPUMEM_LAYER_ADDRESSES");
  guint major = 0;
  guint minor = 0;
  guint patch = 0;

  if (given == NULL)
    return;
  if (sscanf (given, "%u.%u.%u", &major, &minor, &patch) != 3)
    {
      g_printerr ("gpumem-layer: GPUMEM_LAYER_ADDRESSES=%s is not understood\n", given);
      abort ();
    }
  version = CL_MAKE_VERSION (major, minor, patch);
  sizes = g_hash_table_new (NULL, NULL);
  driver = layer_target;
  layer_target.clGetDeviceInfo = get_device_info;
  layer_target.clCreateBufferWithProperties = create_buffer;
  layer_target.clGetMemObjectInfo = get_mem_info;
  layer_target.clSetKernelExecInfo = set_exec_info;
  layer_target.clSetKernelArgSVMPointer = set_svm_argument;
}
