/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gpumem/gpumem.h>

G_BEGIN_DECLS

/* The keys of GPUMEM_DEBUG. */
typedef enum
{
  GPU_DEBUG_ERRORS     = 1 << 0,    /* every error of a driver */
  GPU_DEBUG_HAZARDS    = 1 << 1,    /* waits inserted between streams */
  GPU_DEBUG_COMPLETION = 1 << 2,    /* how much work of a stream is known to be complete, and how
                                     * many references to objects the library then releases */
  GPU_DEBUG_CACHE      = 1 << 3,    /* the program cache */
  GPU_DEBUG_TRANSFER   = 1 << 4,    /* copies that block or are staged */
  GPU_DEBUG_HOST_DELAY = 1 << 5,    /* the host back end delays each operation */
  GPU_DEBUG_BUILD      = 1 << 6,    /* build logs of programs */
  GPU_DEBUG_DEVICES    = 1 << 7,    /* devices found and back ends skipped */
  GPU_DEBUG_STAGE      = 1 << 8,    /* stage every copy that can be staged, of any size */
  GPU_DEBUG_POOL       = 1 << 9,    /* decisions of memory pools */
  GPU_DEBUG_MARKS      = 1 << 10    /* NVTX ranges and marks of Sysprof */
} GpuDebugFlags;

/* The kinds of objects whose live instances are counted: public objects, and their private
 * cores. */
typedef enum
{
  GPU_LIVE_DEVICE_MODEL,
  GPU_LIVE_CONTEXT,
  GPU_LIVE_STREAM,
  GPU_LIVE_EVENT,
  GPU_LIVE_BUFFER,
  GPU_LIVE_SVM,
  GPU_LIVE_IMAGE,
  GPU_LIVE_SAMPLER,
  GPU_LIVE_MAPPING,
  GPU_LIVE_HOST_MEMORY,
  GPU_LIVE_HOST_ALLOCATOR,
  GPU_LIVE_HOST_BLOCK,
  GPU_LIVE_PROGRAM,
  GPU_LIVE_KERNEL,
  GPU_LIVE_STORAGE,
  GPU_LIVE_TIMELINE,
  GPU_LIVE_FENCE,
  GPU_LIVE_NATIVE_CONTEXT,
  GPU_LIVE_PROGRAM_CORE,
  GPU_LIVE_KERNEL_CORE,
  GPU_LIVE_ARGUMENTS,
  GPU_LIVE_LAUNCH,
  GPU_LIVE_TRANSFER,
  GPU_LIVE_ALLOCATOR,
  GPU_LIVE_ADAPTOR_CORE,
  GPU_LIVE_MEMORY_POOL,
  GPU_LIVE_POOL_CORE,
  GPU_LIVE_ARRAY,
  GPU_LIVE_N
} GpuLiveKind;

/* Returns a number of buffers. Called from any thread, with a lock held. */
typedef int GpuLiveCountFunc (gpointer data);

gboolean _gpu_debug_has   (GpuDebugFlags  flags);
/* Logs a warning about unknown keys, once per process. Called without locks. */
void     _gpu_debug_check_keys (void);
void     _gpu_debug_log   (GpuDebugFlags  flags,
                           const char    *file,
                           const char    *line,
                           const char    *function,
                           const char    *format,
                           ...) G_GNUC_PRINTF (5, 6);

/* Logs a message with the topic (the GPUMEM_DEBUG key) that @flags select. */
#define _gpu_debug_write(flags, ...) \
  _gpu_debug_log (flags, __FILE__, G_STRINGIFY (__LINE__), G_STRFUNC, __VA_ARGS__)
/* Logs a message like _gpu_debug_write(), but only if GPUMEM_DEBUG contains the key of @flags. */
#define _gpu_debug_print(flags, ...) \
  G_STMT_START { if (_gpu_debug_has (flags)) _gpu_debug_write (flags, __VA_ARGS__); } G_STMT_END

void     _gpu_live_add    (GpuLiveKind    kind,
                           int            delta);
/* Does not count as live the buffers that @count counts, and their storages, for recycled buffers.
 * @data must be valid until _gpu_live_include() is called. */
void     _gpu_live_exclude (GpuLiveCountFunc *count,
                            gpointer          data);
void     _gpu_live_include (gpointer          data);
/* Called around a fork. Otherwise the functions above would block in a child that is forked while
 * another thread is in one of them. */
void     _gpu_live_lock   (void);
void     _gpu_live_unlock (void);

G_END_DECLS
