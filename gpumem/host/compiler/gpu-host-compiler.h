/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Compiles OpenCL C to a shared object: rewrites the source as C and runs the C compiler of the
 * machine.
 */
#pragma once

#include <gpumem/gpumem.h>

G_BEGIN_DECLS

#define GPU_HOST_N_CHANNEL_ORDERS (GPU_CHANNEL_ORDER_SBGRA + 1)
#define GPU_HOST_N_CHANNEL_TYPES  (GPU_CHANNEL_TYPE_UNORM_101010 + 1)

/* The OpenCL C name and value of a channel order or channel type; the name of CLK_R is "R". */
typedef struct
{
  const char *name;
  int         number;
} GpuHostChannelName;

/* Indexed by GpuChannelOrder and GpuChannelType. The last entry has the name NULL. */
extern const GpuHostChannelName    _gpu_host_channel_orders[GPU_HOST_N_CHANNEL_ORDERS + 1];
extern const GpuHostChannelName    _gpu_host_channel_types[GPU_HOST_N_CHANNEL_TYPES + 1];

/* Returns the text that precedes the source of every program. If @images is TRUE, appends the part
 * for programs with vectors, images or samplers. */
char           *_gpu_host_prelude_new         (gboolean                 images);
void            _gpu_host_prelude_append_images (GString               *text);
/* Returns whether @text, a source or options, may contain vectors, images or samplers. */
gboolean        _gpu_host_text_has_images     (const char              *text);
/* Returns whether @name is an image type, such as "image2d_t". */
gboolean        _gpu_host_is_image_type       (const char              *name);
/* Rewrites vector literals in a preprocessed source, such as "(float2) (x, y)", as C. */
char           *_gpu_host_rewrite_vectors     (const char              *text);
/* Rewrites a preprocessed program as C that exports a GpuHostProgramEntry. */
char           *_gpu_host_rewrite             (const char              *text,
                                               GError                 **error);
/* Returns FALSE if there is no compiler. */
gboolean        _gpu_host_compiler_check      (GError                 **error);
/* Returns the path and version of the compiler. Any thread may call it. */
const char     *_gpu_host_compiler_identify   (void);
/* Compiles a program and returns the shared object. @headers (nullable) has the names and the texts
 * of headers, alternately, and ends with NULL. */
GBytes         *_gpu_host_compiler_run        (const char              *source,
                                               const char              *options,
                                               const char *const       *headers,
                                               char                   **log,
                                               GError                 **error);

/* Creates a directory that only this process can enter. */
char           *_gpu_host_directory_new       (GError                 **error);

G_END_DECLS
