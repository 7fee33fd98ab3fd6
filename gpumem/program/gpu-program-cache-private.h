/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/backend/gpu-backend.h"

G_BEGIN_DECLS

/* An entry of the cache: the binary, and the data that drivers report only for a build from source:
 * the arguments of the kernels and the log. */
typedef struct
{
  GBytes   *binary;
  GVariant *descriptions;           /* see _gpu_kernel_describe_all() */
  char     *log;                    /* nullable */
} GpuCacheEntry;

void           _gpu_cache_entry_free     (GpuCacheEntry     *entry);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuCacheEntry, _gpu_cache_entry_free)

/* Returns NULL if the program cannot be cached, or if the cache is disabled. @headers is as for
 * build_source(). */
char          *_gpu_program_cache_key    (GpuNativeContext   *context,
                                          const char         *source,
                                          const char         *options,
                                          const char *const  *headers);
/* Returns NULL if the cache has no entry for @key, or if the entry is damaged. */
GpuCacheEntry *_gpu_program_cache_load   (const char        *key);
void           _gpu_program_cache_store  (const char        *key,
                                          GBytes            *binary,
                                          GVariant          *descriptions,
                                          const char        *log);

/* Returns FALSE if the result of the build may depend on files other than @headers, or on the
 * clock. Set @any_assembly to TRUE if the assembler of the back end cannot read files: assembly
 * then does not prevent caching. */
gboolean       _gpu_program_is_cacheable (const char         *source,
                                          const char         *options,
                                          const char *const  *headers,
                                          gboolean            any_assembly);
/* Returns FALSE if an option may name a file or a folder. */
gboolean       _gpu_program_options_are_cacheable
                                         (const char        *options);
/* Returns @options without quotes and backslashes. */
char          *_gpu_program_options_unquote
                                         (const char        *options);

G_END_DECLS
