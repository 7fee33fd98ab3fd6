/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#define __GPUMEM_INSIDE__

#include <gpumem/gpu-version.h>
#include <gpumem/gpu-macros.h>
#include <gpumem/gpu-types.h>
#include <gpumem/gpu-enums.h>
#include <gpumem/gpu-enumtypes.h>
#include <gpumem/gpu-error.h>
#include <gpumem/gpu-geometry.h>
#include <gpumem/gpu-image-format.h>
#include <gpumem/gpu-debug.h>
#include <gpumem/gpu-device.h>
#include <gpumem/gpu-context.h>
#include <gpumem/gpu-memory.h>
#include <gpumem/gpu-buffer.h>
#include <gpumem/gpu-svm.h>
#include <gpumem/gpu-image.h>
#include <gpumem/gpu-host-memory.h>
#include <gpumem/gpu-allocator.h>
#include <gpumem/gpu-basic-allocator.h>
#include <gpumem/gpu-deferred-allocator.h>
#include <gpumem/gpu-immediate-allocator.h>
#include <gpumem/gpu-svm-allocator.h>
#include <gpumem/gpu-stream-allocator.h>
#include <gpumem/gpu-external-allocator.h>
#include <gpumem/gpu-allocator-adaptor.h>
#include <gpumem/gpu-limit-allocator.h>
#include <gpumem/gpu-statistics-allocator.h>
#include <gpumem/gpu-tracking-allocator.h>
#include <gpumem/gpu-logging-allocator.h>
#include <gpumem/gpu-failure-allocator.h>
#include <gpumem/gpu-deferred-free-allocator.h>
#include <gpumem/gpu-host-allocator.h>
#include <gpumem/gpu-sampler.h>
#include <gpumem/gpu-staging.h>
#include <gpumem/gpu-mapping.h>
#include <gpumem/gpu-event.h>
#include <gpumem/gpu-arguments.h>
#include <gpumem/gpu-program.h>
#include <gpumem/gpu-kernel.h>
#include <gpumem/gpu-launch.h>
#include <gpumem/gpu-stream.h>

#undef __GPUMEM_INSIDE__
