/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <string.h>

#include "gpumem/base/gpu-directory-private.h"
#include "gpumem/dialect/gpu-builtin-private.h"
#include "gpumem/opencl/driver/gpu-opencl.h"

/* The file of the source among its headers */
#define SOURCE_NAME ".gpumem-source.cl"

#define ARGUMENT_INFO_OPTION "-cl-kernel-arg-info"

#define SPIRV_MAGIC 0x07230203
#define SPIRV_HEADER_SIZE 20

static void
program_free (GpuNativeContext *context G_GNUC_UNUSED,
              GpuNativeProgram *native)
{
  clReleaseProgram (((GpuOpenclProgram *) native)->program);
  g_free (native->log);
  g_free (native);
}

/* Returns the build log of a device, or NULL if the log is empty. */
static char *
get_device_log (cl_program   program,
                cl_device_id id)
{
  g_autofree char *log = NULL;
  gsize size = 0;
  cl_int code = clGetProgramBuildInfo (program, id, CL_PROGRAM_BUILD_LOG, 0, NULL, &size);

  if (code == CL_SUCCESS)
    {
      log = g_malloc0 (size + 1);
      code = clGetProgramBuildInfo (program, id, CL_PROGRAM_BUILD_LOG, size, log, NULL);
    }
  if (code != CL_SUCCESS)
    return NULL;

  log = _gpu_opencl_clean_text (g_steal_pointer (&log));
  return log[0] != '\0' ? g_steal_pointer (&log) : NULL;
}

static char *
get_log (GpuNativeContext *context,
         cl_program        program)
{
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < context->n_devices; i++)
    {
      g_autofree char *log = get_device_log (program, ((GpuOpenclContext *) context)->ids[i]);

      if (log == NULL)
        continue;
      if (text->len > 0)
        g_string_append_c (text, '\n');
      if (context->n_devices > 1)
        g_string_append_printf (text, "%s (%s):\n", context->devices[i]->id,
                                context->devices[i]->name);
      g_string_append (text, log);
    }

  return g_string_free (text, text->len == 0);
}

static gboolean
has_option (const char *options,
            const char *option)
{
  g_auto (GStrv) words = g_strsplit (options, " ", -1);

  return g_strv_contains ((const char *const *) words, option);
}

/* Takes ownership of both arguments. */
static GpuNativeProgram *
program_new (cl_program  handle,
             char       *log)
{
  GpuOpenclProgram *program = g_new0 (GpuOpenclProgram, 1);

  program->base.backend = &_gpu_opencl_backend;
  program->base.log = log;
  program->program = handle;

  return &program->base;
}

/* Takes ownership of @program. If the compiler rejects the option for argument information, retries
 * without this option. Passes no list of devices, because PoCL confuses the binaries if the order
 * of the list differs from the order in the context. */
static GpuNativeProgram *
build (GpuNativeContext  *context,
       cl_program         program,
       const char        *options,
       GError           **error)
{
  g_autofree char *with_info = NULL;
  g_autofree char *log = NULL;
  cl_int code = CL_INVALID_BUILD_OPTIONS;

  if (options == NULL)
    options = "";
  if (!has_option (options, ARGUMENT_INFO_OPTION))
    {
      with_info = g_strconcat (options, options[0] != '\0' ? " " : "", ARGUMENT_INFO_OPTION, NULL);
      code = clBuildProgram (program, 0, NULL, with_info, NULL, NULL);
    }
  if (code == CL_INVALID_BUILD_OPTIONS)
    code = clBuildProgram (program, 0, NULL, options, NULL, NULL);

  log = get_log (context, program);
  if (code != CL_SUCCESS)
    {
      _gpu_opencl_set_error (error, "clBuildProgram", code, "options \"%s\"%s%s", options,
                             log != NULL ? ":\n" : ", and the compiler wrote no log",
                             log != NULL ? log : "");
      clReleaseProgram (program);
      return NULL;
    }

  return program_new (program, g_steal_pointer (&log));
}

static cl_program
create_with_source (GpuNativeContext  *context,
                    const char        *source,
                    GError           **error)
{
  const gsize length = strlen (source);
  cl_program program;
  cl_int code;

  if (!_gpu_backend_check_process (error))
    return NULL;

  program = clCreateProgramWithSource (_gpu_opencl_context_handle (context), 1, &source, &length,
                                       &code);
  if (code == CL_SUCCESS)
    return program;

  _gpu_opencl_set_error (error, "clCreateProgramWithSource", code,
                         "%" G_GSIZE_FORMAT " bytes of source", length);
  return NULL;
}

/* OpenCL does not specify how drivers split options, nor how to quote a blank. */
static gboolean
check_directory (const char  *directory,
                 GError     **error)
{
  g_autofree char *name = NULL;
  g_autofree char *parent = NULL;

  if (strpbrk (directory, " \t\n\r\"'\\") == NULL)
    return TRUE;

  name = g_filename_display_name (directory);
  parent = g_filename_display_name (g_get_tmp_dir ());
  g_set_error (error, GPU_ERROR, GPU_ERROR_FAILED,
               "drivers of OpenCL take no folder with blanks, quotes or backslashes in its path, "
               "such as '%s': set TMPDIR to another folder than '%s'", name, parent);
  return FALSE;
}

/* Writes the headers and the source to @directory, and returns a program that includes the source.
 * The compiler searches the folder of a file for the headers that the file includes, and would
 * search the current folder of the process for the headers of the program itself. */
static cl_program
create_in_directory (GpuNativeContext   *context,
                     const char         *directory,
                     const char         *source,
                     const char *const  *headers,
                     GError            **error)
{
  g_autofree char *text = g_strconcat ("#line 1 \"<program source>\"\n", source, NULL);
  g_autofree char *include = g_strdup_printf ("#include \"%s/%s\"\n", directory, SOURCE_NAME);
  g_autoptr (GError) reason = NULL;

  if (check_directory (directory, &reason)
      && _gpu_directory_write_all (directory, headers, &reason)
      && _gpu_directory_write (directory, SOURCE_NAME, text, &reason))
    return create_with_source (context, include, error);

  g_set_error (error, GPU_ERROR, GPU_ERROR_FAILED, "the headers: %s", reason->message);

  return NULL;
}

/* Builds with a folder of the headers that precedes those of @options. clCompileProgram() takes
 * headers without a folder, but drivers report no arguments of kernels for a linked program. */
static GpuNativeProgram *
build_with_headers (GpuNativeContext   *context,
                    const char         *source,
                    const char         *options,
                    const char *const  *headers,
                    GError            **error)
{
  g_autoptr (GError) reason = NULL;
  g_autofree char *directory = _gpu_directory_new (&reason);
  g_autofree char *all_options = NULL;
  GpuNativeProgram *native = NULL;
  cl_program program;

  if (directory == NULL)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_FAILED, "the headers: %s", reason->message);
      return NULL;
    }

  program = create_in_directory (context, directory, source, headers, error);

  if (program != NULL)
    {
      all_options = g_strconcat ("-I ", directory, " ", options, NULL);
      native = build (context, program, all_options, error);
    }

  _gpu_directory_remove (directory);

  return native;
}

static GpuNativeProgram *
program_build_source (GpuNativeContext   *context,
                      const char         *source,
                      const char         *options,
                      const char *const  *headers,
                      GError            **error)
{
  GpuNativeProgram *native = NULL;
  cl_program program;

  if (headers != NULL)
    native = build_with_headers (context, source, options, headers, error);
  else if ((program = create_with_source (context, source, error)) != NULL)
    native = build (context, program, options, error);

  if (native == NULL)
    _gpu_builtin_explain_failure (source, error);

  return native;
}

static cl_program
create_with_binary (GpuNativeContext  *context,
                    GBytes            *binary,
                    GError           **error)
{
  const guint n = context->n_devices;
  g_autoptr (GPtrArray) parts = NULL;
  g_autofree const guchar **data = g_new0 (const guchar *, n);
  g_autofree gsize *sizes = g_new0 (gsize, n);
  g_autofree cl_int *statuses = g_new0 (cl_int, n);
  cl_program program;
  cl_int code;

  if (!_gpu_backend_check_process (error))
    return NULL;

  parts = _gpu_opencl_binary_split (binary, n, error);
  if (parts == NULL)
    return NULL;
  for (guint i = 0; i < n; i++)
    data[i] = g_bytes_get_data (g_ptr_array_index (parts, i), &sizes[i]);

  program = clCreateProgramWithBinary (_gpu_opencl_context_handle (context), n,
                                       ((GpuOpenclContext *) context)->ids, sizes, data, statuses,
                                       &code);
  for (guint i = 0; code == CL_SUCCESS && i < n; i++)
    code = statuses[i];
  if (code != CL_SUCCESS)
    {
      _gpu_opencl_set_error (error, "clCreateProgramWithBinary", code,
                             "a binary of %" G_GSIZE_FORMAT " bytes for device %s",
                             g_bytes_get_size (binary), context->devices[0]->id);
      if (program != NULL)
        clReleaseProgram (program);
      return NULL;
    }

  return program;
}

static GpuNativeProgram *
program_load_binary (GpuNativeContext  *context,
                     GBytes            *binary,
                     const char        *options,
                     GError           **error)
{
  cl_program program = create_with_binary (context, binary, error);

  return program != NULL ? build (context, program, options, error) : NULL;
}

/* Checks that @il is SPIR-V, because drivers may crash on other data. */
static gboolean
check_il (GBytes  *il,
          GError **error)
{
  gsize size = 0;
  const guint8 *data = g_bytes_get_data (il, &size);
  guint32 magic = 0;

  if (size >= SPIRV_HEADER_SIZE && size % sizeof magic == 0)
    memcpy (&magic, data, sizeof magic);
  if (magic == SPIRV_MAGIC || magic == GUINT32_SWAP_LE_BE (SPIRV_MAGIC))
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "the data (%" G_GSIZE_FORMAT " bytes) is not a SPIR-V module", size);
  return FALSE;
}

static GpuNativeProgram *
program_load_il (GpuNativeContext  *context,
                 GBytes            *il,
                 const char        *options,
                 GError           **error)
{
  clCreateProgramWithILKHR_fn create = ((GpuOpenclDevice *) context->devices[0])->create_with_il;
  gsize size = 0;
  gconstpointer data = g_bytes_get_data (il, &size);
  cl_program program;
  cl_int code;

  if (create == NULL)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED, "device %s does not support SPIR-V",
                   context->devices[0]->id);
      return NULL;
    }
  if (!_gpu_backend_check_process (error) || !check_il (il, error))
    return NULL;

  program = create (_gpu_opencl_context_handle (context), data, size, &code);
  if (code != CL_SUCCESS)
    {
      /* clCreateProgramWithIL() returns CL_INVALID_VALUE if the contents of the module are
       * invalid. */
      _gpu_opencl_set_error_as (error, code == CL_INVALID_VALUE ? GPU_ERROR_BUILD_FAILED :
                                _gpu_opencl_error_map (code), "clCreateProgramWithIL", code,
                                "%" G_GSIZE_FORMAT " bytes of SPIR-V", size);
      return NULL;
    }

  return build (context, program, options, error);
}

static void
program_fingerprint (GpuNativeContext *context,
                     GString          *text)
{
  for (guint i = 0; i < context->n_devices; i++)
    {
      GpuOpenclDevice *device = (GpuOpenclDevice *) context->devices[i];

      g_string_append_printf (text, "opencl\n%s\n%s\n%s\n%s\n%s\n%s\n", device->base.platform,
                              device->platform_version, device->base.vendor, device->base.name,
                              device->base.version, device->base.driver_version);
    }
}

static gboolean
get_program_info (cl_program        program,
                  cl_program_info   info,
                  gpointer          value,
                  gsize             size,
                  GError          **error)
{
  cl_int code = clGetProgramInfo (program, info, size, value, NULL);

  if (code == CL_SUCCESS)
    return TRUE;

  _gpu_opencl_set_error (error, "clGetProgramInfo", code, "info 0x%04x", info);
  return FALSE;
}

/* Returns the index of @id in @ids, a list from the driver. Returns @n_ids if @id is not in the
 * list. */
static guint
find_device (const cl_device_id *ids,
             guint               n_ids,
             cl_device_id        id)
{
  guint i = 0;

  while (i < n_ids && ids[i] != id)
    i++;

  return i;
}

/* Gets one binary for each device of the program, in the driver's order. */
static GPtrArray *
get_binaries (cl_program   program,
              guint        n_devices,
              GError     **error)
{
  g_autoptr (GPtrArray) binaries = g_ptr_array_new_with_free_func ((GDestroyNotify) g_bytes_unref);
  g_autofree gsize *sizes = g_new0 (gsize, n_devices);
  g_autofree gpointer *data = g_new0 (gpointer, n_devices);
  gboolean read;

  if (!get_program_info (program, CL_PROGRAM_BINARY_SIZES, sizes, n_devices * sizeof *sizes, error))
    return NULL;

  /* The driver skips binaries whose pointer is NULL. */
  for (guint i = 0; i < n_devices; i++)
    data[i] = sizes[i] > 0 ? g_malloc0 (sizes[i]) : NULL;
  read = get_program_info (program, CL_PROGRAM_BINARIES, data, n_devices * sizeof *data, error);
  for (guint i = 0; i < n_devices; i++)
    g_ptr_array_add (binaries, g_bytes_new_take (data[i], sizes[i]));

  return read ? g_steal_pointer (&binaries) : NULL;
}

static GBytes *
program_get_binary (GpuNativeContext  *context,
                    GpuNativeProgram  *native,
                    GError           **error)
{
  cl_program program = ((GpuOpenclProgram *) native)->program;
  g_autoptr (GPtrArray) binaries = NULL;
  g_autofree cl_device_id *ids = NULL;
  g_autofree GBytes **ordered = g_new0 (GBytes *, context->n_devices);
  cl_uint n = 0;

  if (!get_program_info (program, CL_PROGRAM_NUM_DEVICES, &n, sizeof n, error))
    return NULL;
  ids = g_new0 (cl_device_id, n);
  if (!get_program_info (program, CL_PROGRAM_DEVICES, ids, n * sizeof *ids, error))
    return NULL;

  binaries = get_binaries (program, n, error);
  if (binaries == NULL)
    return NULL;

  for (guint i = 0; i < context->n_devices; i++)
    {
      guint place = find_device (ids, n, ((GpuOpenclContext *) context)->ids[i]);

      if (place < n)
        ordered[i] = g_ptr_array_index (binaries, place);
      if (ordered[i] == NULL || g_bytes_get_size (ordered[i]) == 0)
        {
          g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                       "the driver has no binary of the program for device %s",
                       context->devices[i]->id);
          return NULL;
        }
    }

  return _gpu_opencl_binary_join (ordered, context->n_devices);
}

static void
release_program (gpointer program)
{
  clReleaseProgram (program);
}

static gboolean
compile (GpuNativeContext  *context,
         cl_program         program,
         const char        *options,
         GPtrArray         *names,
         GPtrArray         *headers,
         GError           **error)
{
  /* Drivers require NULL if there are no headers. */
  const cl_program *programs = headers->len > 0 ? (const cl_program *) headers->pdata : NULL;
  const char **include_names = headers->len > 0 ? (const char **) names->pdata : NULL;
  g_autofree char *with_info = NULL;
  g_autofree char *log = NULL;
  cl_int code = CL_INVALID_COMPILER_OPTIONS;

  if (!has_option (options, ARGUMENT_INFO_OPTION))
    {
      with_info = g_strconcat (options, options[0] != '\0' ? " " : "", ARGUMENT_INFO_OPTION, NULL);
      code = clCompileProgram (program, 0, NULL, with_info, headers->len, programs,
                               include_names, NULL, NULL);
    }
  if (code == CL_INVALID_COMPILER_OPTIONS)
    code = clCompileProgram (program, 0, NULL, options, headers->len, programs, include_names, NULL,
                             NULL);
  if (code == CL_SUCCESS)
    return TRUE;

  log = get_log (context, program);
  _gpu_opencl_set_error (error, "clCompileProgram", code, "options \"%s\"%s%s", options,
                         log != NULL ? ":\n" : ", and the compiler wrote no log",
                         log != NULL ? log : "");
  return FALSE;
}

static char *
get_maker (GpuNativeContext *context)
{
  GString *text = g_string_new (NULL);

  program_fingerprint (context, text);

  return g_string_free (text, FALSE);
}

/* Appends the names in @headers to @names, and a program for each text to @programs. */
static gboolean
create_headers (GpuNativeContext   *context,
                const char *const  *headers,
                GPtrArray          *names,
                GPtrArray          *programs,
                GError            **error)
{
  for (; headers != NULL && *headers != NULL; headers += 2)
    {
      cl_program program = create_with_source (context, headers[1], error);

      if (program == NULL)
        return FALSE;

      g_ptr_array_add (names, (gpointer) headers[0]);
      g_ptr_array_add (programs, program);
    }

  return TRUE;
}

static GBytes *
program_compile (GpuNativeContext   *context,
                 const char         *source,
                 const char         *options,
                 const char *const  *headers,
                 GError            **error)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  g_autoptr (GPtrArray) programs = g_ptr_array_new_with_free_func (release_program);
  GpuOpenclProgram program = { 0 };
  g_autofree char *maker = NULL;
  g_autoptr (GBytes) part = NULL;

  if (!create_headers (context, headers, names, programs, error))
    return NULL;

  program.program = create_with_source (context, source, error);
  if (program.program == NULL)
    return NULL;

  if (compile (context, program.program, options, names, programs, error))
    part = program_get_binary (context, &program.base, error);
  else
    _gpu_builtin_explain_failure (source, error);

  clReleaseProgram (program.program);

  if (part == NULL)
    return NULL;

  maker = get_maker (context);

  return _gpu_opencl_part_seal (part, maker);
}

static cl_program
create_with_part (GpuNativeContext  *context,
                  GBytes            *sealed,
                  GError           **error)
{
  g_autofree char *maker = get_maker (context);
  g_autoptr (GBytes) part = _gpu_opencl_part_open (sealed, maker, error);

  return part != NULL ? create_with_binary (context, part, error) : NULL;
}

static GpuNativeProgram *
program_link (GpuNativeContext  *context,
              GBytes *const     *images,
              guint              n_images,
              const char        *options,
              GError           **error)
{
  g_autoptr (GPtrArray) parts = g_ptr_array_new_with_free_func (release_program);
  g_autofree char *log = NULL;
  cl_program program;
  cl_int code;

  for (guint i = 0; i < n_images; i++)
    {
      cl_program part = create_with_part (context, images[i], error);

      if (part == NULL)
        return NULL;
      g_ptr_array_add (parts, part);
    }

  program = clLinkProgram (_gpu_opencl_context_handle (context), 0, NULL, options, n_images,
                           (const cl_program *) parts->pdata, NULL, NULL, &code);
  if (program != NULL)
    log = get_log (context, program);
  if (code == CL_SUCCESS)
    return program_new (program, g_steal_pointer (&log));

  _gpu_opencl_set_error (error, "clLinkProgram", code, "%u parts, options \"%s\"%s%s", n_images,
                         options, log != NULL ? ":\n" : ", and the linker wrote no log",
                         log != NULL ? log : "");
  if (program != NULL)
    clReleaseProgram (program);

  return NULL;
}

static char **
program_list_kernels (GpuNativeContext  *context G_GNUC_UNUSED,
                      GpuNativeProgram  *native,
                      GError           **error)
{
  cl_program program = ((GpuOpenclProgram *) native)->program;
  g_autofree char *names = NULL;
  gsize n = 0, size = 0;
  cl_int code = clGetProgramInfo (program, CL_PROGRAM_NUM_KERNELS, sizeof n, &n, NULL);

  /* Without kernels, Intel's driver fails to return their names. */
  if (code == CL_SUCCESS && n == 0)
    return g_new0 (char *, 1);

  if (code == CL_SUCCESS)
    code = clGetProgramInfo (program, CL_PROGRAM_KERNEL_NAMES, 0, NULL, &size);
  if (code != CL_SUCCESS)
    {
      _gpu_opencl_set_error (error, "clGetProgramInfo", code, "names of the kernels");
      return NULL;
    }

  names = g_malloc0 (size + 1);
  if (!get_program_info (program, CL_PROGRAM_KERNEL_NAMES, names, size, error))
    return NULL;

  return g_strsplit (names, ";", -1);
}

static GpuNativeKernel *
program_create_kernel (GpuNativeContext  *context,
                       GpuNativeProgram  *native,
                       const char        *name,
                       GError           **error)
{
  cl_program program = ((GpuOpenclProgram *) native)->program;
  cl_int code;
  cl_kernel handle = clCreateKernel (program, name, &code);
  g_auto (GStrv) names = NULL;
  g_autofree char *list = NULL;

  if (code == CL_SUCCESS)
    return _gpu_opencl_kernel_new (context, handle, name, error);

  if (code == CL_INVALID_KERNEL_NAME)
    names = program_list_kernels (context, native, NULL);
  if (names != NULL)
    list = g_strjoinv (", ", names);
  if (list != NULL)
    _gpu_opencl_set_error (error, "clCreateKernel", code,
                           *list != '\0' ? "the program only has the kernels %s"
                                         : "the program has no kernels%s", list);
  else
    _gpu_opencl_set_error (error, "clCreateKernel", code, "the program did not create the kernel");

  return NULL;
}

/* --- wrapping --------------------------------------------------------------------------------- */

static gboolean
check_context (GpuNativeContext  *context,
               cl_program         program,
               GError           **error)
{
  cl_context its_context = NULL;

  if (!get_program_info (program, CL_PROGRAM_CONTEXT, &its_context, sizeof its_context, error))
    return FALSE;

  if (its_context == _gpu_opencl_context_handle (context))
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "program %p is of context %p, not of context %p", (gpointer) program,
               (gpointer) its_context, (gpointer) _gpu_opencl_context_handle (context));
  return FALSE;
}

static gboolean
fail_unbuilt (GpuNativeDevice  *device,
              cl_program        program,
              cl_build_status   status,
              GError          **error)
{
  g_autofree char *log = NULL;

  if (status == CL_BUILD_IN_PROGRESS)
    g_set_error (error, GPU_ERROR, GPU_ERROR_BUSY,
                 "program %p is still being built for device %s; wait for the end of the build",
                 (gpointer) program, device->id);
  else if (status != CL_BUILD_ERROR)
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                 "program %p is not built for device %s; call clBuildProgram() or "
                 "clLinkProgram() first", (gpointer) program, device->id);
  else
    {
      log = get_device_log (program, ((GpuOpenclDevice *) device)->id);
      g_set_error (error, GPU_ERROR, GPU_ERROR_BUILD_FAILED,
                   "the build of program %p for device %s has failed%s%s", (gpointer) program,
                   device->id, log != NULL ? ":\n" : ", and the compiler wrote no log",
                   log != NULL ? log : "");
    }

  return FALSE;
}

/* A compiled program that was not linked also has the status CL_BUILD_SUCCESS, so checks the type
 * of the binary, too. Drivers of OpenCL 1.0 and 1.1 have no such type. */
static gboolean
check_built (GpuNativeDevice  *device,
             cl_program        program,
             GError          **error)
{
  cl_device_id id = ((GpuOpenclDevice *) device)->id;
  cl_program_binary_type type = CL_PROGRAM_BINARY_TYPE_EXECUTABLE;
  cl_build_status status = CL_BUILD_NONE;
  cl_int code = clGetProgramBuildInfo (program, id, CL_PROGRAM_BUILD_STATUS, sizeof status,
                                       &status, NULL);

  /* The driver returns CL_INVALID_DEVICE if the program is not for the device. */
  if (code != CL_SUCCESS)
    {
      _gpu_opencl_set_error (error, "clGetProgramBuildInfo", code, "program %p, device %s",
                             (gpointer) program, device->id);
      return FALSE;
    }

  if (status == CL_BUILD_SUCCESS
      && clGetProgramBuildInfo (program, id, CL_PROGRAM_BINARY_TYPE, sizeof type, &type, NULL)
         == CL_SUCCESS
      && type != CL_PROGRAM_BINARY_TYPE_EXECUTABLE)
    status = CL_BUILD_NONE;

  return status == CL_BUILD_SUCCESS || fail_unbuilt (device, program, status, error);
}

static GpuNativeProgram *
program_wrap (GpuNativeContext  *context,
              guint64            handle,
              GpuWrapMode        mode,
              GError           **error)
{
  cl_program program = (cl_program) (guintptr) handle;
  cl_int code;

  if (!_gpu_backend_check_process (error) || !check_context (context, program, error))
    return NULL;

  for (guint i = 0; i < context->n_devices; i++)
    {
      if (!check_built (context->devices[i], program, error))
        return NULL;
    }

  if (mode == GPU_WRAP_MODE_BORROW)
    {
      code = clRetainProgram (program);
      if (code != CL_SUCCESS)
        {
          _gpu_opencl_set_error (error, "clRetainProgram", code, "program %p",
                                 (gpointer) program);
          return NULL;
        }
    }

  return program_new (program, get_log (context, program));
}

static guint64
program_get_handle (GpuNativeProgram *program)
{
  return (guint64) (guintptr) ((GpuOpenclProgram *) program)->program;
}

const GpuProgramOps _gpu_opencl_program_ops =
{
  .build_source  = program_build_source,
  .load_binary   = program_load_binary,
  .load_il       = program_load_il,
  .compile       = program_compile,
  .link          = program_link,
  .wrap          = program_wrap,
  .fingerprint   = program_fingerprint,
  .free          = program_free,
  .get_binary    = program_get_binary,
  .get_handle    = program_get_handle,
  .list_kernels  = program_list_kernels,
  .create_kernel = program_create_kernel
};
