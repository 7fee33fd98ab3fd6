/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Properties of all memory, buffers and images alike. gpu-backend.h has the rules for every op. */
#pragma once

#include "gpumem/backend/gpu-native-types.h"

G_BEGIN_DECLS

/* A buffer, or the first member of a GpuNativeImage. */
struct _GpuNativeMemory
{
  const GpuBackend *backend;
  gsize             size;           /* bytes, set by the op that created the memory */
  gboolean          is_image;
  gboolean          is_exclusive;   /* used by one stream or the host at a time, even for reading:
                                     * the submission calls GpuSvmOps.attach() before each use */
  gboolean          is_external;    /* shared with another API: the submission calls
                                     * GpuBufferOps.acquire() before each use, and release() */
  gboolean          acquire_waits;  /* acquire() blocks the caller until the earlier work of the
                                     * stream completes: never called after user events */
  gpointer          host;           /* nullable; its address for host access without a command */
  gboolean          is_host_only;   /* kernels cannot access it, and images cannot use it */
  gboolean          is_locked;      /* page-locked host memory */
  gboolean          is_constant;    /* open_fd() created it over memory that cannot be written */
  gboolean          is_shareable;   /* open_fd() created it over memory that share_fd() can
                                     * export */
};

/* One side of a region copy: linear memory of the device or of the host, or an image. */
typedef struct
{
  GpuNativeContext *context;        /* the context of @memory */
  GpuNativeMemory  *memory;         /* NULL for host memory */
  gpointer          data;           /* for host memory */

  /* For linear memory: in bytes, pitches are never 0. */
  gsize             offset;         /* of the first byte, with origin and pitches resolved */
  gsize             row_pitch;
  gsize             slice_pitch;

  /* For an image: in texels, rows and slices or layers. */
  gsize             x;
  gsize             y;
  gsize             z;
} GpuRegionSide;

/* The identity of memory, to detect other objects over the same memory. */
typedef struct
{
  guint64 id;                       /* equal for all objects over that memory; 0 if it is unique */
  gsize   offset;                   /* within that memory */
  guint64 outer;                    /* other memory that may contain this memory, or 0 */
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

/* Ops of all memory, buffers and images alike. */
typedef struct
{
  /* Whether copy_region() accepts memory of another context of the back end on one side. */
  gboolean          copies_peers;

  /* any thread. No submitted work uses the memory any more, or the context is lost. */
  GpuMemoryFreeOp *free;
  guint64           (*get_handle)     (GpuNativeMemory         *memory);
  /* any thread. Gets the address that kernels use, or 0 if the driver does not report one. */
  guint64           (*get_address)    (GpuNativeMemory         *memory);
  /* any thread. Adds all attributes that the driver reports, with their nicks as keys. */
  gboolean          (*get_attributes) (GpuNativeContext        *context,
                                       GpuNativeMemory         *memory,
                                       GVariantDict            *attributes,
                                       GError                 **error);
  /* any thread; may be NULL. Called once for all memory except slices; @alias_key is 0 initially.
   * All objects over the same memory get the same @alias_key within a context: memory that was
   * imported or wrapped more than once, and memory of the library that was also wrapped. */
  void              (*identify)       (GpuNativeContext        *context,
                                       GpuNativeMemory         *memory,
                                       GpuAliasKey             *alias_key);

  /* The remaining ops are stream ops. */

  /* Copies between any two sides except host and host. @extent is not empty; its width counts
   * bytes, or texels if a side is an image; two images have texels of the same size. The regions do
   * not overlap and are within their memory. Host memory must not change until the operation
   * completes. */
  GpuMemoryCopyRegionOp *copy_region;
  gboolean          (*migrate)        (GpuNativeStream         *stream,
                                       GpuNativeMemory *const  *memories,
                                       guint                    n_memories,
                                       GpuMigrateFlags          flags,
                                       GpuNativeEvent         **event,
                                       GError                 **error);
  /* NULL if the back end cannot map memory. @data is the pointer that map() of the memory
   * returned. */
  GpuMemoryUnmapOp *unmap;
} GpuMemoryOps;

G_END_DECLS
