/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What all memory has, buffers and images alike. gpu-backend.h has the rules for every op. */
#pragma once

#include "gpumem/backend/gpu-native-types.h"

G_BEGIN_DECLS

/* A buffer, or what a GpuNativeImage begins with. */
struct _GpuNativeMemory
{
  const GpuBackend *backend;
  gsize             size;           /* bytes, set by the op that made the memory */
  gboolean          is_image;
  gboolean          is_exclusive;   /* one stream or the host at a time, not even two that read:
                                     * the front class calls GpuSvmOps.attach() before each use */
  gboolean          is_external;    /* another API has it, too: the front class calls
                                     * GpuBufferOps.acquire() before each use, and release() */
  gboolean          acquire_waits;  /* acquire() has the caller wait for what is before it in the
                                     * stream: never called behind events of the user */
  gpointer          host;           /* nullable; where the host reaches it without a command */
  gboolean          is_host_only;   /* kernels do not reach it, and images cannot be over it */
  gboolean          is_locked;      /* pages of the host that the driver keeps in place */
  gboolean          is_constant;    /* open_fd() made it of what nobody may write */
  gboolean          is_shareable;   /* open_fd() made it of what share_fd() passes on */
};

/* One side of a region copy: linear memory of the device or of the host, or an image. */
typedef struct
{
  GpuNativeContext *context;        /* that @memory belongs to */
  GpuNativeMemory  *memory;         /* NULL for memory of the host */
  gpointer          data;           /* of the host */

  /* Of linear memory: in bytes, pitches are never 0. */
  gsize             offset;         /* of the first byte, origin and pitches resolved */
  gsize             row_pitch;
  gsize             slice_pitch;

  /* Of an image: in texels, rows and slices or layers. */
  gsize             x;
  gsize             y;
  gsize             z;
} GpuRegionSide;

/* Where memory is, for finding out that others are over the same. */
typedef struct
{
  guint64 id;                       /* the same for all over that memory; 0: nobody else can be */
  gsize   offset;                   /* within it */
  guint64 outer;                    /* of memory that it may be a part of, or 0 */
  gsize   outer_offset;
} GpuAliasKey;

typedef void GpuMemoryFreeOp (GpuNativeContext *context,
                              GpuNativeMemory  *memory);
typedef gboolean GpuMemoryCopyRegionOp (GpuNativeStream     *stream,
                                        const GpuRegionSide *destination,
                                        const GpuRegionSide *source,
                                        const GpuExtent     *extent,
                                        GpuNativeEvent     **event,
                                        GError             **error);
typedef gboolean GpuMemoryUnmapOp (GpuNativeStream *stream,
                                   GpuNativeMemory *memory,
                                   gpointer         data,
                                   GpuNativeEvent **event,
                                   GError         **error);

/* What all memory has, buffers and images alike. */
typedef struct
{
  /* Whether copy_region() takes memory of another context of the back end on one of its sides. */
  gboolean          copies_peers;

  /* any thread. No submitted work uses the memory any more, or the context is lost. */
  GpuMemoryFreeOp *free;
  guint64           (*get_handle)     (GpuNativeMemory         *memory);
  /* any thread. The address that kernels see, 0 if the driver does not tell or there is none. */
  guint64           (*get_address)    (GpuNativeMemory         *memory);
  /* any thread. Everything the driver tells, by nick. */
  gboolean          (*get_attributes) (GpuNativeContext        *context,
                                       GpuNativeMemory         *memory,
                                       GVariantDict            *attributes,
                                       GError                 **error);
  /* any thread; may be NULL. Once for all memory but slices; @alias_key is 0 to begin with. Memory
   * that was imported or wrapped more than once, also such that is the library's own, has one
   * @alias_key in a context. */
  void              (*identify)       (GpuNativeContext        *context,
                                       GpuNativeMemory         *memory,
                                       GpuAliasKey             *alias_key);

  /* The rest are stream ops. */

  /* Any pair of sides but host and host. @extent is not empty; its width counts bytes, or texels
   * where a side is an image; two images have texels of the same size. The regions do not overlap
   * and lie within what they are of. Memory of the host stays as it is until the operation is
   * complete. */
  GpuMemoryCopyRegionOp *copy_region;
  gboolean          (*migrate)        (GpuNativeStream         *stream,
                                       GpuNativeMemory *const  *memories,
                                       guint                    n_memories,
                                       GpuMigrateFlags          flags,
                                       GpuNativeEvent         **event,
                                       GError                 **error);
  /* NULL where nothing can be mapped. @data is what map() of the memory gave. */
  GpuMemoryUnmapOp *unmap;
} GpuMemoryOps;

G_END_DECLS
