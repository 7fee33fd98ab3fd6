/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Programs from source, cache and binary, kernels and launches, while driver calls fail. */
#include "config.h"

#include <glib/gstdio.h>

#include "fault-util.h"

#define N_ITEMS 64

static const char source[] =
  "__kernel void set (__global uchar *x, const uchar value, __local uchar *scratch)\n"
  "{\n"
  "  size_t l = get_local_id (0);\n"
  "  scratch[l] = value;\n"
  "  barrier (CLK_LOCAL_MEM_FENCE);\n"
  "  x[get_global_id (0)] = scratch[l];\n"
  "}\n";

static const char part[] = "#include \"one.h\"\nint next (int i) { return i + ONE; }\n";

static const char main_part[] =
  "int next (int i);\n"
  "__kernel void set (__global uchar *x, const uchar value, __local uchar *scratch)\n"
  "{\n"
  "  x[get_global_id (0)] = next (value - 1);\n"
  "}\n";

/* Prepares and launches a kernel, on a profiling stream where supported. */
static gboolean
launch_prepared (GpuContext *context, GpuKernel *kernel, GpuBuffer *buffer, GError **error)
{
  const GpuExtent grid = { N_ITEMS, 1, 1 };
  const GpuExtent block = { 8, 1, 1 };
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();
  g_autoptr (GpuStream) stream = gpu_stream_new (context, GPU_STREAM_FLAGS_PROFILING, error);
  g_autoptr (GpuLaunch) prepared = NULL;
  g_autoptr (GpuEvent) event = NULL;
  guint64 nanoseconds;

  if (stream == NULL)
    return FALSE;
  gpu_arguments_add_memory (arguments, GPU_MEMORY (buffer));
  gpu_arguments_add_int (arguments, 77);
  gpu_arguments_add_local (arguments, 8);
  prepared = gpu_launch_new (kernel, &grid, &block, NULL, 0, GPU_LAUNCH_FLAGS_NONE, arguments,
                             error);
  if (prepared == NULL || !gpu_stream_launch_prepared (stream, prepared, error))
    return FALSE;
  event = gpu_stream_launch_timed (stream, prepared, error);
  return event != NULL && gpu_event_wait (event, NULL, error) &&
         gpu_event_get_duration (event, &nanoseconds, error);
}

static gboolean
launch (GpuContext *context, GpuProgram *program, guint8 value, GError **error)
{
  g_autoptr (GpuKernel) kernel = gpu_program_get_kernel (program, "set", error);
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GVariant) attributes = NULL;
  g_autoptr (GBytes) back = NULL;
  const GpuExtent grid = { N_ITEMS, 1, 1 };
  const GpuExtent block = { 8, 1, 1 };

  if (kernel == NULL)
    return FALSE;
  attributes = gpu_kernel_get_attributes (kernel, error);
  if (attributes == NULL || !gpu_kernel_declare_arguments (kernel, "pBl", error))
    return FALSE;
  stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);
  if (stream == NULL)
    return FALSE;
  buffer = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, N_ITEMS, error);
  if (buffer == NULL || !launch_prepared (context, kernel, buffer, error))
    return FALSE;
  for (guint i = 0; i < 3; i++)
    if (!gpu_stream_launch (stream, kernel, &grid, &block, error, buffer, (int) (value + i),
                            (gsize) 8))
      return FALSE;
  g_clear_object (&kernel);
  back = gpu_buffer_read_bytes (buffer, NULL, 0, N_ITEMS, NULL, error);
  if (back == NULL)
    return FALSE;
  fault_check (g_bytes_get_data (back, NULL), value + 2, N_ITEMS, "launch");
  return TRUE;
}

static gboolean
wrap_and_launch (GpuContext *context, GpuProgram *program, GError **error)
{
  g_autoptr (GpuProgram) wrapped = NULL;
  gboolean success;
  guint64 handle = 0;

  g_object_get (program, "native-handle", &handle, NULL);
  if (handle == 0)
    return TRUE;
  wrapped = gpu_program_new_wrapped (context, handle, GPU_WRAP_MODE_BORROW, error);
  if (wrapped == NULL)
    return FALSE;
  success = launch (context, wrapped, 5, error);
  /* After a failure, launches may be pending: they borrow the module of @program. */
  if (!success)
    gpu_context_synchronize (context, NULL);
  return success;
}

static gboolean
build_and_launch (GpuContext *context, GpuProgramFlags flags, GError **error)
{
  g_autoptr (GpuProgram) program = gpu_program_new_from_source_full (context, source, NULL, flags,
                                                                     NULL, NULL, error);
  g_autoptr (GpuProgram) again = NULL;
  g_autoptr (GBytes) binary = NULL;
  g_auto (GStrv) names = NULL;

  if (program == NULL)
    return FALSE;
  names = gpu_program_list_kernels (program, error);
  if (names == NULL || !launch (context, program, 3, error))
    return FALSE;
  binary = gpu_program_get_binary (program, error);
  if (binary == NULL)
    return FALSE;
  again = gpu_program_new_from_binary (context, binary, NULL, error);
  return again != NULL && launch (context, again, 9, error) &&
         wrap_and_launch (context, again, error);
}

static gboolean
link_and_launch (GpuContext *context, GError **error)
{
  GpuDevice *device = gpu_context_get_device (context);
  g_autoptr (GBytes) first = NULL;
  g_autoptr (GBytes) second = NULL;
  g_autoptr (GHashTable) headers = NULL;
  g_autoptr (GpuProgram) program = NULL;
  GBytes *parts[2];

  if ((gpu_device_get_capabilities (device) & GPU_CAPABILITIES_LINKING) == 0)
    return TRUE;
  parts[0] = first = gpu_program_compile (context, main_part, NULL, NULL, error);
  if (first == NULL)
    return FALSE;
  headers = g_hash_table_new (g_str_hash, g_str_equal);
  g_hash_table_insert (headers, (gpointer) "one.h", (gpointer) "#define ONE 1\n");
  parts[1] = second = gpu_program_compile (context, part, NULL, headers, error);
  if (second == NULL)
    return FALSE;
  program = gpu_program_new_linked (context, parts, 2, NULL, error);
  return program != NULL && launch (context, program, 5, error);
}

static gboolean
broken (GpuContext *context, GError **error)
{
  g_autoptr (GError) failure = NULL;
  g_autoptr (GpuProgram) program = gpu_program_new_from_source (context, "no program", NULL,
                                                                &failure);

  if (program != NULL)
    g_error ("an invalid program was built");
  return TRUE;
}

static gboolean
program (GpuContext *context, GError **error)
{
  return build_and_launch (context, GPU_PROGRAM_FLAGS_NO_CACHE, error) &&
         build_and_launch (context, GPU_PROGRAM_FLAGS_NONE, error) &&
         build_and_launch (context, GPU_PROGRAM_FLAGS_NONE, error) &&
         link_and_launch (context, error) && broken (context, error);
}

int
main (void)
{
  g_autofree char *directory = g_dir_make_tmp ("gpumem-fault-XXXXXX", NULL);
  g_autoptr (GDir) dir = NULL;
  const char *name;
  int status;

  g_setenv ("GPUMEM_CACHE_DIR", directory != NULL ? directory : "", TRUE);
  status = fault_run (program);
  dir = directory != NULL ? g_dir_open (directory, 0, NULL) : NULL;
  while (dir != NULL && (name = g_dir_read_name (dir)) != NULL)
    {
      g_autofree char *path = g_build_filename (directory, name, NULL);

      g_unlink (path);
    }
  if (directory != NULL)
    g_rmdir (directory);
  return status;
}
