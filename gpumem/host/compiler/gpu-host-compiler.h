/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * From OpenCL C to a shared object: the source is rewritten as C and compiled by the C compiler of
 * the machine.
 */
#pragma once

#include <gpumem/gpumem.h>

G_BEGIN_DECLS

#define GPU_HOST_N_CHANNEL_ORDERS (GPU_CHANNEL_ORDER_SBGRA + 1)
#define GPU_HOST_N_CHANNEL_TYPES  (GPU_CHANNEL_TYPE_UNORM_101010 + 1)

/* An order or a type of channels as OpenCL C has it, "R" for CLK_R. */
typedef struct
{
  const char *name;
  int         number;
} GpuHostChannelName;

/* By GpuChannelOrder and GpuChannelType; NULL behind the last. */
extern const GpuHostChannelName    _gpu_host_channel_orders[GPU_HOST_N_CHANNEL_ORDERS + 1];
extern const GpuHostChannelName    _gpu_host_channel_types[GPU_HOST_N_CHANNEL_TYPES + 1];

/* What stands at the head of every program, with @images also of those that have vectors, images
 * or samplers. */
char           *_gpu_host_prelude_new         (gboolean                 images);
void            _gpu_host_prelude_append_images (GString               *text);
/* Whether @text, a source or options, may have vectors, images or samplers. */
gboolean        _gpu_host_text_has_images     (const char              *text);
/* "image2d_t" and its kin. */
gboolean        _gpu_host_is_image_type       (const char              *name);
/* Turns the vector literals behind the preprocessor into C: "(float2) (x, y)". */
char           *_gpu_host_rewrite_vectors     (const char              *text);
/* Turns what the preprocessor made of a program into C that exports a GpuHostProgramEntry. */
char           *_gpu_host_rewrite             (const char              *text,
                                               GError                 **error);
/* Why there is no compiler: FALSE. */
gboolean        _gpu_host_compiler_check      (GError                 **error);
/* Path and version of the compiler; any thread. */
const char     *_gpu_host_compiler_identify   (void);
/* The bytes of the shared object. */
GBytes         *_gpu_host_compiler_run        (const char              *source,
                                               const char              *options,
                                               char                   **log,
                                               GError                 **error);

/* Creates a directory that only this process can enter. */
char           *_gpu_host_directory_new       (GError                 **error);

G_END_DECLS
