/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

/* Newer headers declare the codes of provisional extensions only if this macro is defined. */
#define CL_ENABLE_BETA_EXTENSIONS

#include "gpumem/opencl/driver/gpu-opencl.h"

#define E(code, error) { code, #code, GPU_ERROR_##error }

/* Codes of extensions whose headers may not be installed, and codes that drivers return but do not
 * document. */
#define CL_INVALID_EGL_OBJECT_KHR                     -1093
#define CL_EGL_RESOURCE_NOT_ACQUIRED_KHR              -1092
#define CL_INVALID_VA_API_MEDIA_ADAPTER_INTEL         -1098
#define CL_INVALID_VA_API_MEDIA_SURFACE_INTEL         -1099
#define CL_VA_API_MEDIA_SURFACE_ALREADY_ACQUIRED_INTEL -1100
#define CL_VA_API_MEDIA_SURFACE_NOT_ACQUIRED_INTEL    -1101
#define NV_ILLEGAL_BUFFER_READ_OR_WRITE               -9999

const GpuOpenclErrorEntry _gpu_opencl_error_table[] =
{
  E (CL_SUCCESS,                                   FAILED),
  E (CL_DEVICE_NOT_FOUND,                          NO_DEVICE),
  E (CL_DEVICE_NOT_AVAILABLE,                      DEVICE_LOST),
  E (CL_COMPILER_NOT_AVAILABLE,                    NOT_SUPPORTED),
  E (CL_MEM_OBJECT_ALLOCATION_FAILURE,             OUT_OF_DEVICE_MEMORY),
  E (CL_OUT_OF_RESOURCES,                          OUT_OF_DEVICE_MEMORY),
  E (CL_OUT_OF_HOST_MEMORY,                        OUT_OF_HOST_MEMORY),
  E (CL_PROFILING_INFO_NOT_AVAILABLE,              NOT_SUPPORTED),
  E (CL_MEM_COPY_OVERLAP,                          INVALID_ARGUMENT),
  E (CL_IMAGE_FORMAT_MISMATCH,                     INVALID_ARGUMENT),
  E (CL_IMAGE_FORMAT_NOT_SUPPORTED,                NOT_SUPPORTED),
  E (CL_BUILD_PROGRAM_FAILURE,                     BUILD_FAILED),
  E (CL_MAP_FAILURE,                               FAILED),
  E (CL_MISALIGNED_SUB_BUFFER_OFFSET,              INVALID_ARGUMENT),
  E (CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, FAILED),
  E (CL_COMPILE_PROGRAM_FAILURE,                   BUILD_FAILED),
  E (CL_LINKER_NOT_AVAILABLE,                      NOT_SUPPORTED),
  E (CL_LINK_PROGRAM_FAILURE,                      BUILD_FAILED),
  E (CL_DEVICE_PARTITION_FAILED,                   FAILED),
  E (CL_KERNEL_ARG_INFO_NOT_AVAILABLE,             NOT_SUPPORTED),
  E (CL_INVALID_VALUE,                             INVALID_ARGUMENT),
  E (CL_INVALID_DEVICE_TYPE,                       INVALID_ARGUMENT),
  E (CL_INVALID_PLATFORM,                          NO_DEVICE),
  E (CL_INVALID_DEVICE,                            INVALID_ARGUMENT),
  E (CL_INVALID_CONTEXT,                           INVALID_ARGUMENT),
  E (CL_INVALID_QUEUE_PROPERTIES,                  NOT_SUPPORTED),
  E (CL_INVALID_COMMAND_QUEUE,                     INVALID_ARGUMENT),
  E (CL_INVALID_HOST_PTR,                          INVALID_ARGUMENT),
  E (CL_INVALID_MEM_OBJECT,                        INVALID_ARGUMENT),
  E (CL_INVALID_IMAGE_FORMAT_DESCRIPTOR,           INVALID_ARGUMENT),
  E (CL_INVALID_IMAGE_SIZE,                        INVALID_ARGUMENT),
  E (CL_INVALID_SAMPLER,                           INVALID_ARGUMENT),
  E (CL_INVALID_BINARY,                            BUILD_FAILED),
  E (CL_INVALID_BUILD_OPTIONS,                     BUILD_FAILED),
  E (CL_INVALID_PROGRAM,                           INVALID_ARGUMENT),
  E (CL_INVALID_PROGRAM_EXECUTABLE,                INVALID_ARGUMENT),
  E (CL_INVALID_KERNEL_NAME,                       INVALID_ARGUMENT),
  E (CL_INVALID_KERNEL_DEFINITION,                 INVALID_ARGUMENT),
  E (CL_INVALID_KERNEL,                            INVALID_ARGUMENT),
  E (CL_INVALID_ARG_INDEX,                         INVALID_ARGUMENT),
  E (CL_INVALID_ARG_VALUE,                         INVALID_ARGUMENT),
  E (CL_INVALID_ARG_SIZE,                          INVALID_ARGUMENT),
  E (CL_INVALID_KERNEL_ARGS,                       INVALID_ARGUMENT),
  E (CL_INVALID_WORK_DIMENSION,                    INVALID_ARGUMENT),
  E (CL_INVALID_WORK_GROUP_SIZE,                   INVALID_ARGUMENT),
  E (CL_INVALID_WORK_ITEM_SIZE,                    INVALID_ARGUMENT),
  E (CL_INVALID_GLOBAL_OFFSET,                     INVALID_ARGUMENT),
  E (CL_INVALID_EVENT_WAIT_LIST,                   INVALID_ARGUMENT),
  E (CL_INVALID_EVENT,                             INVALID_ARGUMENT),
  E (CL_INVALID_OPERATION,                         NOT_SUPPORTED),
  E (CL_INVALID_GL_OBJECT,                         INVALID_ARGUMENT),
  E (CL_INVALID_BUFFER_SIZE,                       INVALID_ARGUMENT),
  E (CL_INVALID_MIP_LEVEL,                         INVALID_ARGUMENT),
  E (CL_INVALID_GLOBAL_WORK_SIZE,                  INVALID_ARGUMENT),
  E (CL_INVALID_PROPERTY,                          INVALID_ARGUMENT),
  E (CL_INVALID_IMAGE_DESCRIPTOR,                  INVALID_ARGUMENT),
  E (CL_INVALID_COMPILER_OPTIONS,                  BUILD_FAILED),
  E (CL_INVALID_LINKER_OPTIONS,                    BUILD_FAILED),
  E (CL_INVALID_DEVICE_PARTITION_COUNT,            INVALID_ARGUMENT),
  E (CL_INVALID_PIPE_SIZE,                         INVALID_ARGUMENT),
  E (CL_INVALID_DEVICE_QUEUE,                      INVALID_ARGUMENT),
  E (CL_INVALID_SPEC_ID,                           INVALID_ARGUMENT),
  E (CL_MAX_SIZE_RESTRICTION_EXCEEDED,             INVALID_ARGUMENT),
  E (CL_INVALID_GL_SHAREGROUP_REFERENCE_KHR,       INVALID_ARGUMENT),
  E (CL_PLATFORM_NOT_FOUND_KHR,                    NO_DEVICE),
  E (CL_DEVICE_PARTITION_FAILED_EXT,               FAILED),
  E (CL_INVALID_PARTITION_COUNT_EXT,               INVALID_ARGUMENT),
  E (CL_INVALID_PARTITION_NAME_EXT,                INVALID_ARGUMENT),
  E (CL_EGL_RESOURCE_NOT_ACQUIRED_KHR,             BUSY),
  E (CL_INVALID_EGL_OBJECT_KHR,                    INVALID_ARGUMENT),
  E (CL_INVALID_ACCELERATOR_INTEL,                 INVALID_ARGUMENT),
  E (CL_INVALID_ACCELERATOR_TYPE_INTEL,            INVALID_ARGUMENT),
  E (CL_INVALID_ACCELERATOR_DESCRIPTOR_INTEL,      INVALID_ARGUMENT),
  E (CL_ACCELERATOR_TYPE_NOT_SUPPORTED_INTEL,      NOT_SUPPORTED),
  E (CL_INVALID_VA_API_MEDIA_ADAPTER_INTEL,        INVALID_ARGUMENT),
  E (CL_INVALID_VA_API_MEDIA_SURFACE_INTEL,        INVALID_ARGUMENT),
  E (CL_VA_API_MEDIA_SURFACE_ALREADY_ACQUIRED_INTEL, BUSY),
  E (CL_VA_API_MEDIA_SURFACE_NOT_ACQUIRED_INTEL,   BUSY),
  E (CL_COMMAND_TERMINATED_ITSELF_WITH_FAILURE_ARM, LAUNCH_FAILED),
  E (CL_CONTEXT_TERMINATED_KHR,                    DEVICE_LOST),
  E (CL_INVALID_COMMAND_BUFFER_KHR,                INVALID_ARGUMENT),
  E (CL_INVALID_SYNC_POINT_WAIT_LIST_KHR,          INVALID_ARGUMENT),
  E (CL_INCOMPATIBLE_COMMAND_QUEUE_KHR,            INVALID_ARGUMENT),
  E (CL_INVALID_MUTABLE_COMMAND_KHR,               INVALID_ARGUMENT),
  E (CL_INVALID_SEMAPHORE_KHR,                     INVALID_ARGUMENT),
  E (NV_ILLEGAL_BUFFER_READ_OR_WRITE,              LAUNCH_FAILED),
  { 0, NULL, GPU_ERROR_FAILED }
};

static const GpuOpenclErrorEntry *
find_entry (cl_int code)
{
  const GpuOpenclErrorEntry *entry = _gpu_opencl_error_table;

  while (entry->name != NULL && entry->code != code)
    entry++;

  return entry;
}

const char *
_gpu_opencl_error_name (cl_int code)
{
  const char *name = find_entry (code)->name;

  return name != NULL ? name : "unknown code";
}

GpuError
_gpu_opencl_error_map (cl_int code)
{
  return find_entry (code)->error;
}

static void G_GNUC_PRINTF (5, 0)
set_error_valist (GError     **error,
                  GpuError     meaning,
                  const char  *function,
                  cl_int       code,
                  const char  *format,
                  va_list      arguments)
{
  g_autofree char *details = g_strdup_vprintf (format, arguments);
  g_autofree char *text = g_utf8_make_valid (details, -1);

  _gpu_debug_print (GPU_DEBUG_ERRORS, "%s: %s (%d): %s", function, _gpu_opencl_error_name (code),
                    code, text);
  g_set_error (error, GPU_ERROR, meaning, "%s: %s (%d): %s", function,
               _gpu_opencl_error_name (code), code, text);
}

void
_gpu_opencl_set_error (GError     **error,
                       const char  *function,
                       cl_int       code,
                       const char  *format,
                       ...)
{
  va_list arguments;

  va_start (arguments, format);
  set_error_valist (error, _gpu_opencl_error_map (code), function, code, format, arguments);
  va_end (arguments);
}

void
_gpu_opencl_set_error_as (GError     **error,
                          GpuError     meaning,
                          const char  *function,
                          cl_int       code,
                          const char  *format,
                          ...)
{
  va_list arguments;

  va_start (arguments, format);
  set_error_valist (error, meaning, function, code, format, arguments);
  va_end (arguments);
}
