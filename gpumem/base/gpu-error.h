/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/base/gpu-types.h>

G_BEGIN_DECLS

/**
 * GPU_ERROR:
 *
 * The error domain of this library. #GpuError lists the error codes of the domain.
 *
 * Since: 0.1
 */
#define GPU_ERROR (gpu_error_quark ())

/**
 * GpuError:
 * @GPU_ERROR_FAILED: an error that no other code describes
 * @GPU_ERROR_OUT_OF_DEVICE_MEMORY: the device is out of memory; the message quotes the request
 * @GPU_ERROR_OUT_OF_HOST_MEMORY: the host is out of memory
 * @GPU_ERROR_INVALID_ARGUMENT: a value is invalid; the message quotes the value
 * @GPU_ERROR_NOT_SUPPORTED: the device or its driver does not support the operation
 * @GPU_ERROR_NO_DEVICE: the device or its driver was not found
 * @GPU_ERROR_DEVICE_LOST: the device was lost, or its context is permanently unusable
 * @GPU_ERROR_BUILD_FAILED: a program does not build; the message contains the build log
 * @GPU_ERROR_LAUNCH_FAILED: a kernel could not start or was aborted
 * @GPU_ERROR_BUSY: the operation is not possible while the object is used in another way
 * @GPU_ERROR_RELEASED: the object was released earlier
 * @GPU_ERROR_TIMED_OUT: the timeout expired
 * @GPU_ERROR_IPC: sharing with another process failed
 *
 * Codes of #GPU_ERROR.
 *
 * Since: 0.1
 */
typedef enum
{
  GPU_ERROR_FAILED,
  GPU_ERROR_OUT_OF_DEVICE_MEMORY,
  GPU_ERROR_OUT_OF_HOST_MEMORY,
  GPU_ERROR_INVALID_ARGUMENT,
  GPU_ERROR_NOT_SUPPORTED,
  GPU_ERROR_NO_DEVICE,
  GPU_ERROR_DEVICE_LOST,
  GPU_ERROR_BUILD_FAILED,
  GPU_ERROR_LAUNCH_FAILED,
  GPU_ERROR_BUSY,
  GPU_ERROR_RELEASED,
  GPU_ERROR_TIMED_OUT,
  GPU_ERROR_IPC
} GpuError;

GPU_AVAILABLE_IN_0_1
GQuark gpu_error_quark (void);

G_END_DECLS
