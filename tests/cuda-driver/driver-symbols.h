/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The functions of the stand-in: those that the back end calls, and others that tests call. */
#include "gpumem/cuda/driver/gpu-cuda-symbols.h"

GPU_CUDA_SYMBOL (CAPTURE, cuStreamBeginCapture, 10010,
                 (CUstream stream, CUstreamCaptureMode mode))
GPU_CUDA_SYMBOL (CAPTURE, cuStreamEndCapture, 10000, (CUstream stream, CUgraph *graph))
GPU_CUDA_SYMBOL (CAPTURE, cuStreamIsCapturing, 10000,
                 (CUstream stream, CUstreamCaptureStatus *status))
GPU_CUDA_SYMBOL (CAPTURE, cuGraphDestroy, 10000, (CUgraph graph))
GPU_CUDA_SYMBOL (CAPTURE, cuGraphInstantiateWithFlags, 11040,
                 (CUgraphExec *exec, CUgraph graph, unsigned long long flags))
GPU_CUDA_SYMBOL (CAPTURE, cuGraphLaunch, 10000, (CUgraphExec exec, CUstream stream))
GPU_CUDA_SYMBOL (CAPTURE, cuGraphExecDestroy, 10000, (CUgraphExec exec))
