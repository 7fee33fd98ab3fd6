/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Declares the structures of the objects of a back end. The header of each ops table defines the
 * structure of its object. */
#pragma once

#include <gpumem/gpumem.h>

G_BEGIN_DECLS

typedef struct _GpuBackend       GpuBackend;
typedef struct _GpuNativeDevice  GpuNativeDevice;
typedef struct _GpuNativeContext GpuNativeContext;
typedef struct _GpuNativeStream  GpuNativeStream;
typedef struct _GpuNativeEvent   GpuNativeEvent;
typedef struct _GpuNativeMemory  GpuNativeMemory;
typedef struct _GpuNativeMemory  GpuNativeBuffer;   /* linear memory has no further fields */
typedef struct _GpuNativeChunk   GpuNativeChunk;
typedef struct _GpuNativeImage   GpuNativeImage;
typedef struct _GpuNativeSampler GpuNativeSampler;
typedef struct _GpuNativeProgram GpuNativeProgram;
typedef struct _GpuNativeKernel  GpuNativeKernel;

G_END_DECLS
