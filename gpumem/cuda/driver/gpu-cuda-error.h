/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Maps the error codes of CUDA to those of GpuError. Only gpu-cuda-error.c interprets the codes. */
#pragma once

#include "gpumem/base/gpu-error.h"
#include "gpumem/cuda/driver/gpu-cuda-types.h"

G_BEGIN_DECLS

typedef struct
{
  CUresult    code;
  const char *name;
  GpuError    error;
} GpuCudaErrorEntry;

/* The last entry has the name NULL. */
extern const GpuCudaErrorEntry _gpu_cuda_error_table[];

const char *_gpu_cuda_error_name   (CUresult     code);
GpuError    _gpu_cuda_error_map    (CUresult     code);
/* Sets an error with the text "cuFunction: CUDA_ERROR_NAME (1): the driver's text: details". */
void        _gpu_cuda_set_error    (GError     **error,
                                    const char  *function,
                                    CUresult     code,
                                    const char  *format,
                                    ...) G_GNUC_PRINTF (4, 5);
/* Returns TRUE if @code is CUDA_SUCCESS. Otherwise, returns FALSE and sets an error without
 * details. */
gboolean    _gpu_cuda_check        (CUresult     code,
                                    const char  *function,
                                    GError     **error);

G_END_DECLS
