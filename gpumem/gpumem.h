/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#define __GPUMEM_INSIDE__

#include <gpumem/base/gpu-version.h>
#include <gpumem/base/gpu-macros.h>
#include <gpumem/base/gpu-types.h>
#include <gpumem/base/gpu-enums.h>
#include <gpumem/base/gpu-enumtypes.h>
#include <gpumem/base/gpu-error.h>
#include <gpumem/format/gpu-geometry.h>
#include <gpumem/format/gpu-image-format.h>
#include <gpumem/base/gpu-debug.h>
#include <gpumem/device/gpu-device-model.h>
#include <gpumem/device/gpu-device.h>
#include <gpumem/device/gpu-context.h>
#include <gpumem/memory/gpu-memory.h>
#include <gpumem/pool/gpu-memory-block.h>
#include <gpumem/pool/gpu-memory-pool.h>
#include <gpumem/memory/gpu-buffer.h>
#include <gpumem/memory/gpu-svm.h>
#include <gpumem/memory/gpu-image.h>
#include <gpumem/memory/gpu-host-memory.h>
#include <gpumem/allocator/gpu-allocator.h>
#include <gpumem/allocator/gpu-basic-allocator.h>
#include <gpumem/allocator/gpu-external-allocator.h>
#include <gpumem/allocator/gpu-allocator-adaptor.h>
#include <gpumem/allocator/gpu-limit-allocator.h>
#include <gpumem/allocator/gpu-statistics-allocator.h>
#include <gpumem/allocator/gpu-tracking-allocator.h>
#include <gpumem/allocator/gpu-logging-allocator.h>
#include <gpumem/allocator/gpu-oom-allocator.h>
#include <gpumem/allocator/gpu-deferred-free-allocator.h>
#include <gpumem/allocator/gpu-host-allocator.h>
#include <gpumem/memory/gpu-sampler.h>
#include <gpumem/command/gpu-staging.h>
#include <gpumem/command/gpu-mapping.h>
#include <gpumem/format/gpu-dtype.h>
#include <gpumem/array/gpu-array.h>
#include <gpumem/stream/gpu-event.h>
#include <gpumem/program/gpu-arguments.h>
#include <gpumem/program/gpu-program.h>
#include <gpumem/program/gpu-kernel.h>
#include <gpumem/program/gpu-launch.h>
#include <gpumem/stream/gpu-stream.h>

#undef __GPUMEM_INSIDE__
