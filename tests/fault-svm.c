/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Uses shared virtual memory on two streams, through mappings and through pointers, while driver
 * calls fail. */
#include "config.h"

#include "fault-util.h"

#define SIZE 4096

static const char source[] =
  "struct node { __global struct node *next; int value; };\n"
  "__kernel void walk (__global struct node *node, __global int *sum)\n"
  "{\n"
  "  sum[0] = node->value + node->next->value;\n"
  "}\n";

typedef struct
{
  gpointer next;
  gint32   value;
} Node;

static gboolean
set (GpuSvm *svm, GpuStream *stream, gconstpointer data, gsize size, GError **error)
{
  g_autoptr (GpuMapping) mapping = gpu_svm_map (svm, stream, GPU_MAP_FLAGS_WRITE_INVALIDATE, 0,
                                                size, NULL, error);

  if (mapping == NULL)
    return FALSE;
  memcpy (gpu_mapping_get_data (mapping), data, size);
  return gpu_mapping_unmap (mapping, error);
}

static gboolean
check (GpuSvm *svm, guint8 value, GError **error)
{
  g_autoptr (GpuMapping) mapping = gpu_svm_map (svm, NULL, GPU_MAP_FLAGS_READ, 0, SIZE, NULL,
                                                error);

  if (mapping == NULL)
    return FALSE;
  fault_check (gpu_mapping_get_data (mapping), value, SIZE, "the memory");
  return TRUE;
}

static gboolean
take_turns (GpuContext *context, GpuSvm *svm, GError **error)
{
  g_autoptr (GpuStream) one = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);
  g_autoptr (GpuStream) two = NULL;
  g_autoptr (GpuBuffer) buffer = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, SIZE, error);
  GpuMemory *memory = GPU_MEMORY (svm);
  GpuMemory *other = GPU_MEMORY (buffer);

  if (one == NULL || buffer == NULL)
    return FALSE;
  two = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);
  return two != NULL &&
         gpu_svm_advise (svm, GPU_MEMORY_ADVICE_READ_MOSTLY, 0, SIZE, NULL, error) &&
         gpu_stream_fill (one, memory, 0, SIZE, "a", 1, error) &&
         gpu_svm_prefetch (svm, two, GPU_MIGRATE_FLAGS_NONE, 0, SIZE, error) &&
         gpu_stream_copy (two, other, 0, memory, 0, SIZE, error) &&
         check (svm, 'a', error) &&
         gpu_svm_attach (svm, one, GPU_SVM_ATTACHMENT_GLOBAL, error) &&
         gpu_stream_migrate (two, &memory, 1, GPU_MIGRATE_FLAGS_HOST, error) &&
         gpu_stream_fill (two, memory, 0, SIZE, "b", 1, error) &&
         gpu_stream_copy (one, memory, 0, other, 0, SIZE, error) &&
         check (svm, 'a', error);
}

static gboolean
walk (GpuContext *context, GpuSvm *first, GError **error)
{
  const GpuExtent grid = { 1, 1, 1 };
  g_autoptr (GpuProgram) program = gpu_program_new_from_source (context, source, NULL, error);
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();
  g_autoptr (GpuBuffer) sum = NULL;
  g_autoptr (GpuStream) stream = gpu_context_get_default_stream (context);
  GpuSvm *second;
  gint32 value = 0;
  Node node;

  if (program == NULL)
    return FALSE;
  second = gpu_svm_new (context, GPU_MEMORY_FLAGS_NONE, GPU_SVM_FLAGS_NONE, sizeof node, 1 << 16,
                        error);
  if (second == NULL)
    return FALSE;
  gpu_arguments_add_memory (arguments, GPU_MEMORY (first));
  gpu_arguments_add_indirect (arguments, GPU_MEMORY (second));
  node.next = GSIZE_TO_POINTER (gpu_memory_get_device_address (GPU_MEMORY (second)));
  g_object_unref (second);
  node.value = 40;
  if (!set (first, NULL, &node, sizeof node, error))
    return FALSE;
  node.next = NULL;
  node.value = 2;
  kernel = gpu_program_get_kernel (program, "walk", error);
  sum = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, sizeof value, error);
  if (kernel == NULL || sum == NULL || !set (second, NULL, &node, sizeof node, error))
    return FALSE;
  gpu_arguments_add_memory (arguments, GPU_MEMORY (sum));
  if (!gpu_stream_launch_arguments (stream, kernel, &grid, NULL, arguments, error) ||
      !gpu_buffer_read (sum, NULL, 0, &value, sizeof value, NULL, error))
    return FALSE;
  if (value != 42)
    g_error ("the sum is %d, and no call failed", value);
  return TRUE;
}

static gboolean
svm (GpuContext *context, GError **error)
{
  GpuDevice *device = gpu_context_get_device (context);
  g_autoptr (GpuSvm) memory = NULL;
  guint8 data[SIZE];

  memset (data, 'z', sizeof data);
  memory = gpu_svm_new (context, GPU_MEMORY_FLAGS_NONE, GPU_SVM_FLAGS_NONE, SIZE, 0, error);
  return memory != NULL && set (memory, NULL, data, SIZE, error) && check (memory, 'z', error) &&
         take_turns (context, memory, error) &&
         ((gpu_device_get_capabilities (device) & GPU_CAPABILITIES_SOURCE) == 0 ||
          walk (context, memory, error));
}

int
main (void)
{
  return fault_run (svm);
}
