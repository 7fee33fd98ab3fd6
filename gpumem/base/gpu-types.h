/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gio/gio.h>

#include <gpumem/base/gpu-enums.h>
#include <gpumem/base/gpu-macros.h>

G_BEGIN_DECLS

typedef struct _GpuDevice      GpuDevice;
typedef struct _GpuContext     GpuContext;
typedef struct _GpuStream      GpuStream;
typedef struct _GpuEvent       GpuEvent;
typedef struct _GpuMemory      GpuMemory;
typedef struct _GpuBuffer      GpuBuffer;
typedef struct _GpuSvm         GpuSvm;
typedef struct _GpuImage       GpuImage;
typedef struct _GpuImageFormat GpuImageFormat;
typedef struct _GpuSampler     GpuSampler;
typedef struct _GpuHostMemory  GpuHostMemory;
typedef struct _GpuHostAllocator GpuHostAllocator;
typedef struct _GpuAllocator   GpuAllocator;
typedef struct _GpuAllocatorAdaptor      GpuAllocatorAdaptor;
typedef struct _GpuBasicAllocator        GpuBasicAllocator;
typedef struct _GpuDeferredAllocator     GpuDeferredAllocator;
typedef struct _GpuDeferredFreeAllocator GpuDeferredFreeAllocator;
typedef struct _GpuExternalAllocator     GpuExternalAllocator;
typedef struct _GpuOomAllocator      GpuOomAllocator;
typedef struct _GpuImmediateAllocator    GpuImmediateAllocator;
typedef struct _GpuLimitAllocator        GpuLimitAllocator;
typedef struct _GpuLoggingAllocator      GpuLoggingAllocator;
typedef struct _GpuStatisticsAllocator   GpuStatisticsAllocator;
typedef struct _GpuStreamAllocator       GpuStreamAllocator;
typedef struct _GpuSvmAllocator          GpuSvmAllocator;
typedef struct _GpuTrackingAllocator     GpuTrackingAllocator;
typedef struct _GpuMapping     GpuMapping;
typedef struct _GpuMemoryBlock GpuMemoryBlock;
typedef struct _GpuMemoryPool  GpuMemoryPool;
typedef struct _GpuProgram     GpuProgram;
typedef struct _GpuKernel      GpuKernel;
typedef struct _GpuArguments   GpuArguments;
typedef struct _GpuLaunch      GpuLaunch;
typedef struct _GpuExtent      GpuExtent;
typedef struct _GpuLayout      GpuLayout;
typedef struct _GpuColor       GpuColor;
typedef struct _GpuDType       GpuDType;
typedef struct _GpuArray       GpuArray;
typedef struct _GpuFile        GpuFile;
typedef struct _GpuInputStream GpuInputStream;
typedef struct _GpuOutputStream GpuOutputStream;

G_END_DECLS
