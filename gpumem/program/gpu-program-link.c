/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Separate compilation and linking, mangled names, and variables of programs. */
#include "config.h"

#include "gpumem/device/gpu-context-private.h"
#include "gpumem/memory/gpu-memory-private.h"
#include "gpumem/program/gpu-program-private.h"

/**
 * gpu_program_get_lowered_name:
 * @program: a #GpuProgram
 * @name: one of the names passed to gpu_program_new_from_source_full()
 *
 * Gets the mangled name that the binary has for @name (CUDA: nvrtcGetLoweredName).
 *
 * Returns: (transfer none) (nullable): the name in the binary, or %NULL if @name was not passed to
 *   the constructor
 *
 * Since: 0.1
 */
const char *
gpu_program_get_lowered_name (GpuProgram *program,
                              const char *name)
{
  GpuProgramCore *core;

  g_return_val_if_fail (GPU_IS_PROGRAM (program), NULL);
  g_return_val_if_fail (name != NULL, NULL);

  core = _gpu_program_get_core (program);

  return core != NULL && core->lowered != NULL ? g_hash_table_lookup (core->lowered, name) : NULL;
}

/**
 * gpu_program_compile:
 * @context: a #GpuContext
 * @source: the source
 * @options: (nullable): options of the compiler, appended to the options of the context
 * @headers: (nullable) (element-type utf8 utf8): headers that the source may include, by name, see
 *   gpu_program_new_from_source_full()
 * @error: return location for an error
 *
 * Compiles source without linking or loading it (CUDA: nvrtcCompileProgram, which generates
 * relocatable code unless @options contain `-rdc=false`; OpenCL: clCompileProgram). Blocks until
 * the source is compiled.
 *
 * The result is a part for gpu_program_new_linked(). Another process may also link the part, if it
 * uses the same driver and the same kind of device.
 *
 * Returns: (transfer full): the part, or %NULL with %GPU_ERROR_NOT_SUPPORTED on devices without
 *   %GPU_CAPABILITIES_LINKING, %GPU_ERROR_INVALID_ARGUMENT for an invalid name of a header,
 *   %GPU_ERROR_BUILD_FAILED with the log if the compiler rejects the source, or the driver's error
 *
 * Since: 0.1
 */
GBytes *
gpu_program_compile (GpuContext  *context,
                     const char  *source,
                     const char  *options,
                     GHashTable  *headers,
                     GError     **error)
{
  const char *function = "gpu_program_compile";
  g_autofree char *all_options = NULL;
  g_auto (GStrv) list = NULL;
  GpuNativeContext *native;
  GError *failure = NULL;
  GBytes *part;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);
  g_return_val_if_fail (source != NULL, NULL);

  if (!_gpu_context_check (context, function, error))
    return NULL;

  native = _gpu_context_get_native (context);

  if (native->backend->program->compile == NULL
      || (native->devices[0]->capabilities & GPU_CAPABILITIES_LINKING) == 0)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "%s: %s does not support linking", function, native->devices[0]->id);
      return NULL;
    }

  all_options = _gpu_program_join_options (context, options, error);
  if (all_options == NULL || !_gpu_program_list_headers (headers, &list, error))
    {
      g_prefix_error (error, "%s: ", function);
      return NULL;
    }

  part = native->backend->program->compile (native, source, all_options,
                                            (const char *const *) list, &failure);
  if (part == NULL)
    _gpu_program_end_log (failure);

  return _gpu_native_context_end (native, function, failure, error) ? part : NULL;
}

/**
 * gpu_program_new_linked:
 * @context: a #GpuContext
 * @images: (array length=n_images): parts from gpu_program_compile() or from the vendor's compiler
 * @n_images: number of parts, at least 1
 * @options: (nullable): options of the linker
 * @error: return location for an error
 *
 * Links several parts into one program (CUDA: cuLinkCreate, cuLinkAddData, cuLinkComplete; OpenCL:
 * clLinkProgram). The parts can use each other's functions and variables. Blocks until the program
 * is linked and loaded.
 *
 * On CUDA, parts may be cubins, PTX, fat binaries, objects and archives. On OpenCL, all parts must
 * come from gpu_program_compile() with the same driver: some drivers terminate the process if a
 * part does not come from them. Link only parts from trusted sources, because they contain code
 * that will run.
 *
 * Returns: (transfer full): a new #GpuProgram, or %NULL with %GPU_ERROR_NOT_SUPPORTED on devices
 *   without %GPU_CAPABILITIES_LINKING, %GPU_ERROR_INVALID_ARGUMENT if there are no parts or a part
 *   is invalid, %GPU_ERROR_BUILD_FAILED with the log if the linker fails, or the driver's error
 *
 * Since: 0.1
 */
GpuProgram *
gpu_program_new_linked (GpuContext  *context,
                        GBytes     **images,
                        gsize        n_images,
                        const char  *options,
                        GError     **error)
{
  g_autoptr (GpuProgram) program = NULL;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);
  g_return_val_if_fail (images != NULL || n_images == 0, NULL);

  if (n_images == 0 || n_images > G_MAXINT)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "gpu_program_new_linked: cannot link %" G_GSIZE_FORMAT " parts; the number must "
                   "be between 1 and %d", n_images, G_MAXINT);
      return NULL;
    }

  program = g_object_new (GPU_TYPE_PROGRAM, "context", context, "options", options, NULL);
  _gpu_program_set_images (program, images, n_images);

  if (!g_initable_init (G_INITABLE (program), NULL, error))
    return NULL;

  return g_steal_pointer (&program);
}

/**
 * gpu_program_get_global:
 * @program: a #GpuProgram
 * @name: the name of a variable in global or constant memory
 * @error: return location for an error
 *
 * Creates a buffer over the memory of a variable of the program (CUDA: cuModuleGetGlobal; on the
 * host: the symbol of the shared object). The buffer has the size of the variable and retains the
 * program. Does not block.
 *
 * The library tracks only kernels that get the buffer as an argument. It does not track kernels
 * that access the variable by its name.
 *
 * Returns: (transfer full): the buffer, or %NULL with %GPU_ERROR_NOT_SUPPORTED on devices without
 *   %GPU_CAPABILITIES_GLOBALS, %GPU_ERROR_INVALID_ARGUMENT if there is no such variable, or the
 *   driver's error
 *
 * Since: 0.1
 */
GpuBuffer *
gpu_program_get_global (GpuProgram  *program,
                        const char  *name,
                        GError     **error)
{
  const char *function = "gpu_program_get_global";
  GpuProgramCore *core;
  GpuNativeContext *native;
  GpuNativeBuffer *global;
  GError *failure = NULL;
  GpuBuffer *buffer;

  g_return_val_if_fail (GPU_IS_PROGRAM (program), NULL);
  g_return_val_if_fail (name != NULL, NULL);

  if (!_gpu_program_check_built (program, function, error))
    return NULL;

  core = _gpu_program_get_core (program);
  native = core->context;

  if (native->backend->program->get_global == NULL
      || (native->devices[0]->capabilities & GPU_CAPABILITIES_GLOBALS) == 0)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "%s: %s does not support program variables", function, native->devices[0]->id);
      return NULL;
    }

  global = native->backend->program->get_global (native, core->native,
                                                 _gpu_program_core_lower (core, name), &failure);

  if (!_gpu_native_context_end (native, function, failure, error))
    return NULL;

  buffer = g_object_new (GPU_TYPE_BUFFER, "context", gpu_program_get_context (program), NULL);
  _gpu_memory_set_storage (GPU_MEMORY (buffer),
                           _gpu_storage_new (native, global, GPU_MEMORY_FLAGS_NONE,
                                             GPU_STORAGE_FOREIGN,
                                             _gpu_program_core_ref (core),
                                             (GDestroyNotify) _gpu_program_core_unref));

  return buffer;
}
