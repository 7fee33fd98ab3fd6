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
 * The error domain of this library; its codes are #GpuError.
 *
 * Since: 0.1
 */
#define GPU_ERROR (gpu_error_quark ())

/**
 * GpuError:
 * @GPU_ERROR_FAILED: none of the others
 * @GPU_ERROR_OUT_OF_DEVICE_MEMORY: the device has no room; the text tells what was asked for
 * @GPU_ERROR_OUT_OF_HOST_MEMORY: the host has no room
 * @GPU_ERROR_INVALID_ARGUMENT: a value makes no sense; the text names it
 * @GPU_ERROR_NOT_SUPPORTED: the device or its driver cannot do it
 * @GPU_ERROR_NO_DEVICE: there is no such device, or no driver
 * @GPU_ERROR_DEVICE_LOST: the device is gone or its context is broken for good
 * @GPU_ERROR_BUILD_FAILED: a program does not build; the text carries the log
 * @GPU_ERROR_LAUNCH_FAILED: a kernel could not run or broke off
 * @GPU_ERROR_BUSY: in use in a way that excludes this one
 * @GPU_ERROR_RELEASED: the object was released before
 * @GPU_ERROR_TIMED_OUT: the time given was not enough
 * @GPU_ERROR_IPC: handing over to another process failed
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
