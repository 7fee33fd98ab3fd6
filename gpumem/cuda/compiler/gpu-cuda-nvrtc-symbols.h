/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Every function of NVRTC that the back end calls. This file has no include guard, because the
 * function table, the loader and the check against nvrtc.h include it.
 *
 *   GPU_CUDA_NVRTC_SYMBOL (result, name, parameters)
 */
GPU_CUDA_NVRTC_SYMBOL (const char *, nvrtcGetErrorString, (nvrtcResult result))
GPU_CUDA_NVRTC_SYMBOL (nvrtcResult, nvrtcVersion, (int *major, int *minor))
GPU_CUDA_NVRTC_SYMBOL (nvrtcResult, nvrtcGetNumSupportedArchs, (int *n_architectures))
GPU_CUDA_NVRTC_SYMBOL (nvrtcResult, nvrtcGetSupportedArchs, (int *architectures))
GPU_CUDA_NVRTC_SYMBOL (nvrtcResult, nvrtcCreateProgram,
                       (nvrtcProgram *program, const char *source, const char *name, int n_headers,
                        const char *const *headers, const char *const *include_names))
GPU_CUDA_NVRTC_SYMBOL (nvrtcResult, nvrtcDestroyProgram, (nvrtcProgram *program))
GPU_CUDA_NVRTC_SYMBOL (nvrtcResult, nvrtcAddNameExpression,
                       (nvrtcProgram program, const char *const expression))
GPU_CUDA_NVRTC_SYMBOL (nvrtcResult, nvrtcCompileProgram,
                       (nvrtcProgram program, int n_options, const char *const *options))
GPU_CUDA_NVRTC_SYMBOL (nvrtcResult, nvrtcGetProgramLogSize, (nvrtcProgram program, size_t *size))
GPU_CUDA_NVRTC_SYMBOL (nvrtcResult, nvrtcGetProgramLog, (nvrtcProgram program, char *log))
GPU_CUDA_NVRTC_SYMBOL (nvrtcResult, nvrtcGetCUBINSize, (nvrtcProgram program, size_t *size))
GPU_CUDA_NVRTC_SYMBOL (nvrtcResult, nvrtcGetCUBIN, (nvrtcProgram program, char *cubin))
GPU_CUDA_NVRTC_SYMBOL (nvrtcResult, nvrtcGetPTXSize, (nvrtcProgram program, size_t *size))
GPU_CUDA_NVRTC_SYMBOL (nvrtcResult, nvrtcGetPTX, (nvrtcProgram program, char *ptx))
GPU_CUDA_NVRTC_SYMBOL (nvrtcResult, nvrtcGetLoweredName,
                       (nvrtcProgram program, const char *const expression, const char **lowered))
