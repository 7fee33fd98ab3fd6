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
  gpointer          host;           /* nullable; address at which the host accesses the memory
                                     * without a command */
  gpointer          in_place;       /* nullable; host memory that commands use in place, if `host`
                                     * is NULL. An image has its rows there at its pitches */
  gboolean          is_image;
  gboolean          is_exclusive;   /* only one stream, or only the host, may use the memory at a
                                     * time, even to read it: the submission calls
                                     * GpuSvmOps.attach() before each use */
  gboolean          is_external;    /* shared with another API: the submission calls
                                     * GpuBufferOps.acquire() before each use, and release() after
                                     * it */
  gboolean          acquire_waits;  /* acquire() blocks the caller until the earlier work of the
                                     * stream completes. It is never called if that work waits for a
                                     * user event */
  gboolean          is_host_only;   /* kernels cannot access the memory, and images cannot be
                                     * created over it */
  gboolean          is_locked;      /* page-locked host memory */
  gboolean          is_constant;    /* open_fd() created it over memory that cannot be written */
  gboolean          is_shareable;   /* open_fd() or import_fd() created the buffer over memory that
                                     * share_fd() and export_fd() can export */
};

/* The source or the destination of a region copy: linear memory of the device or of the host, or an
 * image. */
typedef struct
{
  GpuNativeContext *context;        /* the context of @memory */
  GpuNativeMemory  *memory;         /* NULL for host memory */
  gpointer          data;           /* for host memory */

  /* For linear memory. All values are in bytes; pitches are never 0. */
  gsize             offset;         /* offset of the first byte of the region */
  gsize             row_pitch;
  gsize             slice_pitch;

  /* For an image: the origin in texels, rows, and slices or layers. */
  gsize             x;
  gsize             y;
  gsize             z;
} GpuRegionSide;

/* The identity of memory. Serves to find other objects over the same memory. */
typedef struct
{
  guint64 id;                       /* equal for all objects over the same memory; 0 if no other
                                     * object can be over it */
  gsize   offset;                   /* offset within the memory that `id` identifies */
  guint64 outer;                    /* id of larger memory that may contain this memory, or 0 */
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
  /* Whether the source or the destination of copy_region() may belong to another context of the
   * back end. */
  gboolean          copies_peers;

  /* any thread. Called when no submitted work uses the memory any more, or when the context is
   * lost. */
  GpuMemoryFreeOp *free;
  guint64           (*get_handle)     (GpuNativeMemory         *memory);
  /* any thread. Gets the address that kernels use, or 0 if the driver does not report one. */
  guint64           (*get_address)    (GpuNativeMemory         *memory);
  /* any thread. Adds all attributes that the driver reports, with their nicks as keys. */
  gboolean          (*get_attributes) (GpuNativeContext        *context,
                                       GpuNativeMemory         *memory,
                                       GVariantDict            *attributes,
                                       GError                 **error);
  /* any thread; may be NULL. Called once for each object except slices; all members of @alias_key
   * are initially 0. Within a context, all objects over the same memory must get the same
   * @alias_key. Several objects share memory if the memory was imported or wrapped more than once,
   * or was allocated by the library and then also wrapped. */
  void              (*identify)       (GpuNativeContext        *context,
                                       GpuNativeMemory         *memory,
                                       GpuAliasKey             *alias_key);

  /* All ops below are stream ops. */

  /* Copies a region. At most one of source and destination is host memory. @extent is not empty.
   * Its width is in texels if the source or the destination is an image, otherwise in bytes; two
   * images have texels of the same size. The regions do not overlap, and lie within their memory.
   * Host memory must not change until the operation completes. */
  GpuMemoryCopyRegionOp *copy_region;
  gboolean          (*migrate)        (GpuNativeStream         *stream,
                                       GpuNativeMemory *const  *memories,
                                       guint                    n_memories,
                                       GpuMigrateFlags          flags,
                                       GpuNativeEvent         **event,
                                       GError                 **error);
  /* NULL if the back end cannot map memory. @data is the pointer that GpuBufferOps.map() or
   * GpuImageOps.map() returned. */
  GpuMemoryUnmapOp *unmap;
} GpuMemoryOps;

G_END_DECLS
