/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* svm-list: a linked list in shared virtual memory. The host links the nodes with ordinary
 * pointers, and a kernel follows the pointers.
 *
 *   cc svm-list.c -o svm-list $(pkg-config --cflags --libs gpumem-1.0)
 */
#include <gpumem/gpumem.h>

#define N 1000

typedef struct _Node Node;

struct _Node
{
  Node   *next;
  gint32  value;
  gint32  visited;
};

static const char source[] =
  "struct node\n"
  "{\n"
  "  __global struct node *next;\n"
  "  int value;\n"
  "  int visited;\n"
  "};\n"
  "\n"
  "__kernel void\n"
  "walk (__global struct node *first, __global int *sum)\n"
  "{\n"
  "  __global struct node *node;\n"
  "\n"
  "  sum[0] = 0;\n"
  "  for (node = first; node != 0; node = node->next)\n"
  "    {\n"
  "      sum[0] += node->value;\n"
  "      node->visited = 1;\n"
  "    }\n"
  "}\n";

static GpuMapping *
map (GpuSvm *svm, GpuMapFlags flags, GError **error)
{
  return gpu_svm_map (svm, NULL, flags, 0, gpu_memory_get_size (GPU_MEMORY (svm)), NULL, error);
}

/* Even nodes are in one allocation and odd nodes in the other, so that each link leads to the other
 * allocation. Mapped memory has the same addresses as in the kernel. */
static gboolean
link_nodes (GpuSvm *even, GpuSvm *odd, GError **error)
{
  g_autoptr (GpuMapping) first = map (even, GPU_MAP_FLAGS_WRITE_INVALIDATE, error);
  g_autoptr (GpuMapping) second = NULL;
  Node *nodes[2];

  if (first == NULL)
    return FALSE;
  second = map (odd, GPU_MAP_FLAGS_WRITE_INVALIDATE, error);
  if (second == NULL)
    return FALSE;
  nodes[0] = gpu_mapping_get_data (first);
  nodes[1] = gpu_mapping_get_data (second);

  for (int i = 0; i < N; i++)
    {
      Node *node = &nodes[i % 2][i / 2];

      node->next = i + 1 < N ? &nodes[(i + 1) % 2][(i + 1) / 2] : NULL;
      node->value = i;
      node->visited = 0;
    }

  return gpu_mapping_unmap (first, error) && gpu_mapping_unmap (second, error);
}

static gboolean
check (GpuSvm *svm, GpuBuffer *sum, GError **error)
{
  g_autoptr (GpuMapping) mapping = map (svm, GPU_MAP_FLAGS_READ, error);
  const Node *nodes;
  gint32 total = 0;
  int visited = 0;

  if (mapping == NULL || !gpu_buffer_read (sum, NULL, 0, &total, sizeof total, NULL, error))
    return FALSE;
  nodes = gpu_mapping_get_data (mapping);
  for (int i = 0; i < N / 2; i++)
    visited += nodes[i].visited;

  if (total != N * (N - 1) / 2 || visited != N / 2)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_FAILED, "the sum is %d, and %d nodes were visited",
                   total, visited);
      return FALSE;
    }
  g_print ("the kernel visited %d nodes in two memories: their sum is %d\n", N, total);

  return TRUE;
}

static gboolean
run (GpuContext *context, GError **error)
{
  const GpuExtent grid = { 1, 1, 1 };
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();
  g_autoptr (GpuStream) stream = gpu_context_get_default_stream (context);
  g_autoptr (GpuProgram) program = gpu_program_new_from_source (context, source, NULL, error);
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) sum = NULL;
  g_autoptr (GpuSvm) even = NULL;
  g_autoptr (GpuSvm) odd = NULL;

  if (program == NULL)
    return FALSE;
  kernel = gpu_program_get_kernel (program, "walk", error);
  sum = kernel != NULL ? gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, sizeof (gint32),
                                         error) : NULL;
  if (sum == NULL)
    return FALSE;
  even = gpu_svm_new (context, GPU_MEMORY_FLAGS_NONE, GPU_SVM_FLAGS_NONE, N / 2 * sizeof (Node), 0,
                      error);
  if (even == NULL)
    return FALSE;
  odd = gpu_svm_new (context, GPU_MEMORY_FLAGS_NONE, GPU_SVM_FLAGS_NONE, N / 2 * sizeof (Node), 0,
                     error);
  if (odd == NULL || !link_nodes (even, odd, error))
    return FALSE;

  /* The kernel gets the first node as an argument. It reaches the other allocation only through
   * pointers, so the program must declare that allocation to the library. */
  gpu_arguments_add_memory (arguments, GPU_MEMORY (even));
  gpu_arguments_add_memory (arguments, GPU_MEMORY (sum));
  gpu_arguments_add_indirect (arguments, GPU_MEMORY (odd));
  if (!gpu_stream_launch_arguments (stream, kernel, &grid, NULL, arguments, error))
    return FALSE;

  return check (odd, sum, error);
}

int
main (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) context = gpu_context_new_default (&error);

  if (context == NULL || !run (context, &error))
    {
      g_printerr ("svm-list: %s\n", error->message);
      return g_error_matches (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED) ? 77 : 1;
    }

  return 0;
}
