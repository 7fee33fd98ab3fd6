/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Kernels and their launches. gpu-backend.h has the rules for every op. */
#pragma once

#include "gpumem/backend/gpu-native-types.h"

G_BEGIN_DECLS

/* The description of a kernel argument; strings belong to the kernel. */
typedef struct
{
  GpuArgumentKind  kind;
  const char      *name;            /* nullable */
  const char      *type_name;       /* "float", "uint*", nullable */
  char             type;            /* for values: a code of gpu_kernel_declare_arguments(), or
                                     * 0 for structures and other types without a code */
  gsize            size;            /* bytes. For values: 0 if the size is unknown. For memory: the
                                     * size of an address if the program may pass the address as a
                                     * value, or else 0 */
  gboolean         read_only;       /* for memory and images: the kernel cannot write the memory */
  gboolean         is_declared;     /* only the program described the argument; it is unknown
                                     * whether the kernel writes the memory */
} GpuArgumentInfo;

struct _GpuNativeKernel
{
  const GpuBackend *backend;
  guint             n_arguments;
  GpuArgumentInfo  *arguments;      /* n_arguments of them, owned by the back end */
};

/* One argument of a launch, ready for the driver. An image for an argument of kind VALUE or UNKNOWN
 * is a texture if @sampler is set, otherwise a writable surface. Both require
 * GpuImageOps.has_textures. */
typedef struct
{
  GpuArgumentKind   kind;           /* MEMORY, LOCAL, VALUE, IMAGE or SAMPLER */
  union
  {
    GpuNativeBuffer  *buffer;       /* MEMORY; NULL passes a null pointer */
    GpuNativeImage   *image;        /* IMAGE */
  };
  GpuNativeSampler *sampler;        /* SAMPLER, or the sampler of a texture */
  gconstpointer     data;           /* VALUE; for MEMORY without a buffer: NULL, or a guint64 with
                                     * an address in shared virtual memory */
  gsize             size;           /* VALUE and LOCAL, bytes */
} GpuArgumentValue;

/* Optional properties of a launch besides its arguments. */
typedef struct
{
  const GpuExtent        *offset;         /* nullable; added to the global ids, not all 0 */
  gsize                   shared_size;    /* bytes of local memory that is not an argument */
  GpuLaunchFlags          flags;
  GpuNativeBuffer *const *indirect;       /* n_indirect buffers, which kernels access through
                                           * pointers in other memory */
  guint                   n_indirect;
} GpuLaunchOptions;

typedef struct
{
  GpuArgumentValue       *arguments;      /* n_arguments; launch() does not modify them */
  guint                   n_arguments;
  const GpuExtent        *grid;           /* work-items */
  const GpuExtent        *block;          /* NULL to let the driver choose */
  const GpuLaunchOptions *options;        /* NULL, or sets at least one option */
} GpuNativeLaunch;

typedef gboolean GpuKernelLaunchOp (GpuNativeStream       *stream,
                                    GpuNativeKernel       *kernel,
                                    const GpuNativeLaunch *launch,
                                    GpuNativeEvent       **event,
                                    GError               **error);

typedef struct
{
  /* Whether launch() supports shared_size and flags; otherwise the public class rejects them. */
  gboolean has_options;

  /* any thread. Called when no submitted launch of the kernel is pending, or when the context is
   * lost. */
  void     (*free)           (GpuNativeContext        *context,
                              GpuNativeKernel         *kernel);
  guint64  (*get_handle)     (GpuNativeKernel         *kernel);
  /* any thread. Adds the work-group limits, the sizes of local and private memory and the number of
   * registers, with their nicks as keys. */
  gboolean (*get_attributes) (GpuNativeContext        *context,
                              GpuNativeKernel         *kernel,
                              GVariantDict            *attributes,
                              GError                 **error);
  /* stream; several streams may launch the same kernel at the same time. The number of arguments is
   * correct. Their kinds and sizes are also correct, if the kernel describes them. If kernels can
   * access all memory without a declaration, the back end ignores the indirect memory. */
  GpuKernelLaunchOp *launch;
  /* This op and all ops below may be called from any thread, and may be NULL. Sets an attribute by
   * its nick in get_attributes(). Fails with GPU_ERROR_NOT_SUPPORTED for a read-only attribute, and
   * with GPU_ERROR_INVALID_ARGUMENT for an unknown attribute. */
  gboolean (*set_attribute)  (GpuNativeContext        *context,
                              GpuNativeKernel         *kernel,
                              const char              *nick,
                              gint64                   value,
                              GError                 **error);
  gboolean (*set_cache_preference) (GpuNativeContext        *context,
                                    GpuNativeKernel         *kernel,
                                    GpuCachePreference       preference,
                                    GError                 **error);
  /* Gets the number of blocks that run concurrently on one multiprocessor of the first device. Each
   * block has @block_size work-items, and @shared_size bytes as in GpuLaunchOptions. */
  gboolean (*get_max_active_blocks) (GpuNativeContext        *context,
                                     GpuNativeKernel         *kernel,
                                     gsize                    block_size,
                                     gsize                    shared_size,
                                     guint                   *n_blocks,
                                     GError                 **error);
  /* Called before the first launch with GpuLaunchOptions.offset. Fails with
   * GPU_ERROR_NOT_SUPPORTED if the kernel takes no offset. NULL: every kernel takes offsets. */
  gboolean (*prepare_offset) (GpuNativeContext        *context,
                              GpuNativeKernel         *kernel,
                              GError                 **error);
} GpuKernelOps;

G_END_DECLS
