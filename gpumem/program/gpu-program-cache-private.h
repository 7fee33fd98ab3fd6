/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/backend/gpu-backend.h"

G_BEGIN_DECLS

/* What an entry of the cache holds: the binary, and what the driver said of the arguments of the
 * kernels when it built them from source, for drivers do not tell it of binaries. */
typedef struct
{
  GBytes   *binary;
  GVariant *descriptions;           /* see _gpu_kernel_describe_all() */
} GpuCacheEntry;

void           _gpu_cache_entry_free     (GpuCacheEntry     *entry);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuCacheEntry, _gpu_cache_entry_free)

/* NULL if such a program is not for the cache, or there is none. */
char          *_gpu_program_cache_key    (GpuNativeContext  *context,
                                          const char        *source,
                                          const char        *options);
/* NULL if there is no such entry, or it is damaged. */
GpuCacheEntry *_gpu_program_cache_load   (const char        *key);
void           _gpu_program_cache_store  (const char        *key,
                                          GBytes            *binary,
                                          GVariant          *descriptions);
void           _gpu_program_cache_remove (const char        *key);

G_END_DECLS
