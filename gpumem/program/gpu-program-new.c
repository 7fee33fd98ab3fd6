/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <string.h>

#include <gpumem/gpumem.h>

#include "gpumem/base/gpu-error-private.h"
#include "gpumem/base/gpu-nick-private.h"
#include "gpumem/base/gpu-workers-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/program/gpu-program-private.h"
#include "gpumem/timeline/gpu-timeline-private.h"

/* The maximum number of asynchronous builds that run at the same time; other builds wait for
 * them. */
#define MAX_BUILDS 10

/**
 * gpu_program_new_from_source:
 * @context: a #GpuContext
 * @source: the source, see #GpuProgram for the languages
 * @options: (nullable): options of the compiler, appended to the options of the context
 * @error: return location for a #GError
 *
 * Builds a program from source, or loads it from the cache. Blocks until the program is built
 * (OpenCL: clCreateProgramWithSource, clBuildProgram; on the host back end: the C compiler of the
 * machine).
 *
 * CUDA and the host split the options into words as a shell does; each driver of OpenCL has its own
 * rules. Both @options and the options of the context must be complete: each quotation mark needs
 * a second one, and the last option must have its value, such as the folder of `-I`.
 *
 * Returns: (transfer full): a new #GpuProgram, or %NULL with @error set:
 *   %GPU_ERROR_BUILD_FAILED with the log if the compiler rejects the source or an option,
 *   %GPU_ERROR_NOT_SUPPORTED if there is no compiler, or the driver's error
 *
 * Since: 0.1
 */
GpuProgram *
gpu_program_new_from_source (GpuContext  *context,
                             const char  *source,
                             const char  *options,
                             GError     **error)
{
  return gpu_program_new_from_source_full (context, source, options, GPU_PROGRAM_FLAGS_NONE, NULL,
                                           NULL, error);
}

/**
 * gpu_program_new_from_source_full:
 * @context: a #GpuContext
 * @source: the source
 * @options: (nullable): options of the compiler
 * @flags: flags of the build
 * @names: (array zero-terminated=1) (nullable): names of templates to instantiate, of overloaded
 *   functions and of variables, as written in the source, such as `scale<float>`; or %NULL
 * @headers: (nullable) (element-type utf8 utf8): headers that the source may include, by name
 * @error: return location for a #GError
 *
 * Builds a program like gpu_program_new_from_source(), but with @flags, @names and @headers.
 *
 * CUDA C++ mangles names: a function has another name in the binary than in the source. The array
 * @names must list every template, overloaded function and variable that the caller looks up later
 * (CUDA: nvrtcAddNameExpression, nvrtcGetLoweredName). gpu_program_get_kernel() and
 * gpu_program_get_global() accept the listed names. A kernel that is neither a template nor
 * overloaded need not be in @names.
 *
 * @headers maps the names of headers, such as `types.h` or `mine/types.h`, to their texts. No
 * header can have the name of a folder of another header, such as `mine` here. The source and other
 * headers can include them by these names, in quotes or angle brackets, without a folder on disk.
 * They precede headers of the same name in the folders of @options. The cache on disk stores the
 * program, unless it includes other files. The back ends for OpenCL and for the host write the
 * headers to a temporary folder, and remove it after the build (CUDA:
 * nvrtcCreateProgram). On OpenCL, the path of `TMPDIR` must have no blanks, quotes or backslashes.
 *
 * Returns: (transfer full): a new #GpuProgram, or %NULL with an error of
 *   gpu_program_new_from_source(), %GPU_ERROR_NOT_SUPPORTED for @names on OpenCL and the host
 *   (which do not mangle names), %GPU_ERROR_INVALID_ARGUMENT for an empty @names or an invalid name
 *   of a header, or %GPU_ERROR_BUILD_FAILED for names that the source does not define
 *
 * Since: 0.1
 */
GpuProgram *
gpu_program_new_from_source_full (GpuContext         *context,
                                  const char         *source,
                                  const char         *options,
                                  GpuProgramFlags     flags,
                                  const char *const  *names,
                                  GHashTable         *headers,
                                  GError            **error)
{
  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);
  g_return_val_if_fail (source != NULL, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (!_gpu_flags_check (GPU_TYPE_PROGRAM_FLAGS, flags, "program flags",
                         "gpu_program_new_from_source_full", error))
    return NULL;

  if (names != NULL && names[0] == NULL)
    {
      g_set_error_literal (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                           "gpu_program_new_from_source_full: no name was given");
      return NULL;
    }

  return g_initable_new (GPU_TYPE_PROGRAM, NULL, error, "context", context, "source", source,
                         "options", options, "flags", flags, "names", names, "headers", headers,
                         NULL);
}

/* A build on another thread. The build continues after its task is cancelled. */
typedef struct
{
  GpuProgram   *program;
  GCancellable *cancellable;        /* nullable */
  GpuTaskWait  *wait;
} Build;

static void
build_end (Build        *build,
           const GError *error)
{
  /* Unref the program before the task ends, so that the last reference is dropped in the main
   * context of the task. */
  g_object_unref (build->program);
  g_clear_object (&build->cancellable);
  _gpu_task_wait_end (build->wait, error);
  g_free (build);
}

static void
build_run (gpointer data)
{
  Build *build = data;
  g_autoptr (GError) error = NULL;

  g_initable_init (G_INITABLE (build->program), build->cancellable, &error);
  build_end (build, error);
}

static void
build_start (GTask      *task,
             GpuProgram *program)
{
  static GpuWorkers workers = { .name = "gpumem-build" };
  GCancellable *cancellable = g_task_get_cancellable (task);
  Build *build = g_new0 (Build, 1);
  g_autoptr (GError) error = NULL;

  build->program = g_object_ref (program);
  build->wait = _gpu_task_wait_new (task, NULL, g_object_ref (program), g_object_unref);
  g_set_object (&build->cancellable, cancellable);

  if (!_gpu_workers_push (&workers, MAX_BUILDS, build_run, build, &error))
    build_end (build, error);
}

/**
 * gpu_program_new_from_source_async:
 * @context: a #GpuContext
 * @source: the source
 * @options: (nullable): options of the compiler
 * @cancellable: (nullable): a #GCancellable
 * @callback: (scope async) (nullable): called when the build has succeeded or failed
 * @user_data: data for @callback
 *
 * Builds a program like gpu_program_new_from_source(), on another thread. Does not block. @callback
 * is called in the thread-default main context of the caller.
 *
 * On cancellation, @callback is called at once. A compiler that is already running continues to the
 * end, and its result is discarded. If no thread can be started, the error is
 * %GPU_ERROR_OUT_OF_HOST_MEMORY.
 *
 * Since: 0.1
 */
void
gpu_program_new_from_source_async (GpuContext          *context,
                                   const char          *source,
                                   const char          *options,
                                   GCancellable        *cancellable,
                                   GAsyncReadyCallback  callback,
                                   gpointer             user_data)
{
  g_autoptr (GTask) task = NULL;
  GpuProgram *program;

  g_return_if_fail (GPU_IS_CONTEXT (context));
  g_return_if_fail (source != NULL);
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  program = g_object_new (GPU_TYPE_PROGRAM, "context", context, "source", source, "options",
                          options, NULL);
  task = g_task_new (NULL, cancellable, callback, user_data);
  g_task_set_source_tag (task, gpu_program_new_from_source_async);
  g_task_set_task_data (task, program, g_object_unref);

  if (!g_task_return_error_if_cancelled (task))
    build_start (task, program);
}

/**
 * gpu_program_new_from_source_finish:
 * @result: the #GAsyncResult of the callback
 * @error: return location for a #GError
 *
 * Finishes gpu_program_new_from_source_async().
 *
 * Returns: (transfer full): a new #GpuProgram, or %NULL with an error of
 *   gpu_program_new_from_source(), or with %G_IO_ERROR_CANCELLED
 *
 * Since: 0.1
 */
GpuProgram *
gpu_program_new_from_source_finish (GAsyncResult  *result,
                                    GError       **error)
{
  g_return_val_if_fail (g_task_is_valid (result, NULL), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  return _gpu_error_propagate_pointer (result, "gpu_program_new_from_source_async", error);
}

/**
 * gpu_program_new_from_binary:
 * @context: a #GpuContext
 * @binary: a binary of gpu_program_get_binary() for the same kind of device and the same driver; on
 *   CUDA also any cubin, fatbin or PTX
 * @options: (nullable): options of the linker, usually %NULL; on CUDA, options of the compiler in
 *   the driver, see [CUDA C++][portable-kernels-cuda]
 * @error: return location for a #GError
 *
 * Loads a program from a binary (`clCreateProgramWithBinary()`, `clBuildProgram()`; CUDA:
 * `cuModuleLoadDataEx()`). Blocks until the program is loaded.
 *
 * Most drivers do not describe the arguments of kernels in binaries: see
 * gpu_kernel_declare_arguments().
 *
 * Load only binaries from trusted sources, because a binary contains code that will run. Do not
 * load damaged binaries: some drivers, for example PoCL, terminate the process.
 *
 * Returns: (transfer full): a new #GpuProgram, or %NULL with @error set:
 *   %GPU_ERROR_INVALID_ARGUMENT or %GPU_ERROR_BUILD_FAILED if @binary is not a binary for the
 *   device and driver, %GPU_ERROR_NOT_SUPPORTED on devices without %GPU_CAPABILITIES_BINARY, or the
 *   driver's error
 *
 * Since: 0.1
 */
GpuProgram *
gpu_program_new_from_binary (GpuContext  *context,
                             GBytes      *binary,
                             const char  *options,
                             GError     **error)
{
  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);
  g_return_val_if_fail (binary != NULL, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  return g_initable_new (GPU_TYPE_PROGRAM, NULL, error, "context", context, "binary", binary,
                         "options", options, NULL);
}

/**
 * gpu_program_new_from_il:
 * @context: a #GpuContext
 * @il: a SPIR-V module
 * @options: (nullable): options of the compiler
 * @error: return location for a #GError
 *
 * Builds a program from SPIR-V on devices with %GPU_CAPABILITIES_IL (`clCreateProgramWithIL()`,
 * `clBuildProgram()`). Blocks until the program is built.
 *
 * Returns: (transfer full): a new #GpuProgram, or %NULL with @error set:
 *   %GPU_ERROR_NOT_SUPPORTED on devices without %GPU_CAPABILITIES_IL, %GPU_ERROR_INVALID_ARGUMENT
 *   if @il is not SPIR-V, %GPU_ERROR_BUILD_FAILED with the log if the build fails, or the driver's
 *   error
 *
 * Since: 0.1
 */
GpuProgram *
gpu_program_new_from_il (GpuContext  *context,
                         GBytes      *il,
                         const char  *options,
                         GError     **error)
{
  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);
  g_return_val_if_fail (il != NULL, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  return g_initable_new (GPU_TYPE_PROGRAM, NULL, error, "context", context, "il", il, "options",
                         options, NULL);
}

static gboolean
is_spirv (const guint8 *data,
          gsize         size)
{
  static const guint8 little[] = { 0x03, 0x02, 0x23, 0x07 };
  static const guint8 big[] = { 0x07, 0x23, 0x02, 0x03 };

  return size >= 4 && (memcmp (data, little, 4) == 0 || memcmp (data, big, 4) == 0);
}

/* Returns whether @text is PTX, which some drivers return as binaries. In PTX, only blanks and
 * comments precede ".version". */
static gboolean
is_ptx (const char *text)
{
  while (TRUE)
    {
      text += strspn (text, " \t\r\n");
      if (!g_str_has_prefix (text, "//"))
        return g_str_has_prefix (text, ".version");
      text += strcspn (text, "\n");
    }
}

/* Returns whether @data is UTF-8 text with a NUL byte. Sets @offset to the offset of the first NUL
 * byte. */
static gboolean
is_text_with_nul (const char *data,
                  gsize       size,
                  gsize      *offset)
{
  const char *nul = memchr (data, '\0', size);
  g_autofree char *text = NULL;

  if (nul == NULL)
    return FALSE;

  *offset = (gsize) (nul - data);
  text = g_memdup2 (data, size);
  for (gsize i = *offset; i < size; i++)
    {
      if (text[i] == '\0')
        text[i] = ' ';
    }

  return g_utf8_validate_len (text, size, NULL);
}

/**
 * gpu_program_new_from_file:
 * @context: a #GpuContext
 * @file: a file with source, SPIR-V, or a binary
 * @options: (nullable): options of the compiler
 * @error: return location for a #GError
 *
 * Builds or loads a program from a file. Blocks until the program is ready.
 *
 * The content of the file, not its name, determines the format:
 *
 * - a file that begins with the magic number of SPIR-V: gpu_program_new_from_il()
 * - PTX, or data that is not valid UTF-8: gpu_program_new_from_binary()
 * - any other text: gpu_program_new_from_source()
 *
 * Returns: (transfer full): a new #GpuProgram, or %NULL with an error of #GIOErrorEnum if the file
 *   cannot be read, %GPU_ERROR_INVALID_ARGUMENT for text with a NUL byte, or an error of the
 *   function for the format
 *
 * Since: 0.1
 */
GpuProgram *
gpu_program_new_from_file (GpuContext  *context,
                           GFile       *file,
                           const char  *options,
                           GError     **error)
{
  g_autoptr (GBytes) bytes = NULL;
  g_autofree char *text = NULL;
  const guint8 *data;
  gsize size;
  gsize nul;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);
  g_return_val_if_fail (G_IS_FILE (file), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  bytes = g_file_load_bytes (file, NULL, NULL, error);
  if (bytes == NULL)
    {
      g_prefix_error (error, "gpu_program_new_from_file: ");
      return NULL;
    }

  data = g_bytes_get_data (bytes, &size);
  if (is_spirv (data, size))
    return gpu_program_new_from_il (context, bytes, options, error);

  text = g_strndup ((const char *) data, size);
  if (is_ptx (text))
    return gpu_program_new_from_binary (context, bytes, options, error);
  if (is_text_with_nul ((const char *) data, size, &nul))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "gpu_program_new_from_file: the source contains a NUL byte at offset %"
                   G_GSIZE_FORMAT " of %" G_GSIZE_FORMAT " bytes", nul, size);
      return NULL;
    }
  if (size > 0 && !g_utf8_validate_len ((const char *) data, size, NULL))
    return gpu_program_new_from_binary (context, bytes, options, error);

  return gpu_program_new_from_source (context, text, options, error);
}

/**
 * gpu_program_new_wrapped:
 * @context: a #GpuContext
 * @handle: the driver's handle: a cl_program on OpenCL, a CUmodule on CUDA
 * @mode: whether the caller keeps the ownership of @handle, or the program takes it
 * @error: return location for a #GError
 *
 * Creates an object for a program that was built outside this library (OpenCL: clGetProgramInfo,
 * clGetProgramBuildInfo, clRetainProgram if @mode is %GPU_WRAP_MODE_BORROW; CUDA:
 * cuModuleGetGlobal). gpu_program_get_kernel() creates its kernels. Does not block. If the call
 * fails, the caller keeps ownership of @handle, even if @mode is %GPU_WRAP_MODE_ADOPT.
 *
 * On OpenCL, the program must be built for each device of @context. Unless it was built with
 * `-cl-kernel-arg-info`, many drivers do not describe the arguments of its kernels: see
 * gpu_kernel_declare_arguments(). For a cl_kernel, wrap its CL_KERNEL_PROGRAM.
 *
 * On CUDA, the driver returns no binary for gpu_program_get_binary(), and kernels take no global
 * offset. Drivers before CUDA 12.4 only create the kernels of the portable dialect. If @mode is
 * %GPU_WRAP_MODE_BORROW, @handle must be valid until the last object of the program and its kernels
 * is finalized, and their launches have completed. The driver does not report the context of
 * @handle. If @handle is of another context, launches fail with the driver's error.
 *
 * On each back end, @handle must be a program of the driver: drivers may crash on other values.
 *
 * Returns: (transfer full): a new #GpuProgram, or %NULL with %GPU_ERROR_INVALID_ARGUMENT if @handle
 *   is 0, is not a program, belongs to another context of OpenCL or is not built,
 *   %GPU_ERROR_BUILD_FAILED with the log if its build has failed, %GPU_ERROR_BUSY during its build,
 *   %GPU_ERROR_NOT_SUPPORTED if the back end has no programs to wrap, or the driver's error
 *
 * Since: 0.1
 */
GpuProgram *
gpu_program_new_wrapped (GpuContext   *context,
                         guint64       handle,
                         GpuWrapMode   mode,
                         GError      **error)
{
  const char *function = "gpu_program_new_wrapped";
  GpuProgramCore *core;
  GpuProgram *program;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);
  g_return_val_if_fail (mode == GPU_WRAP_MODE_BORROW || mode == GPU_WRAP_MODE_ADOPT, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (!_gpu_context_check (context, function, error))
    return NULL;

  core = _gpu_program_core_wrap (_gpu_context_get_native (context), handle, mode, function, error);

  if (core == NULL)
    return NULL;

  program = g_object_new (GPU_TYPE_PROGRAM, "context", context, NULL);
  _gpu_program_set_core (program, core);

  return program;
}
