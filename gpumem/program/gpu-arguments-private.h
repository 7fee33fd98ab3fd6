/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdarg.h>

#include "gpumem/backend/gpu-backend.h"
#include "gpumem/base/gpu-attributes-private.h"
#include "gpumem/memory/gpu-memory-private.h"

G_BEGIN_DECLS

#define GPU_ARGUMENTS_N_INLINE   8
#define GPU_ARGUMENT_INLINE_SIZE 24

typedef enum
{
  GPU_ARGUMENT_ITEM_MEMORY,
  GPU_ARGUMENT_ITEM_LOCAL,
  GPU_ARGUMENT_ITEM_BYTES,
  GPU_ARGUMENT_ITEM_INT,
  GPU_ARGUMENT_ITEM_UINT,
  GPU_ARGUMENT_ITEM_DOUBLE,
  GPU_ARGUMENT_ITEM_SAMPLER,
  GPU_ARGUMENT_ITEM_TEXTURE,
  GPU_ARGUMENT_ITEM_ADDRESS
} GpuArgumentItemType;

/* An argument in the list. An item for a number stores the number in every type to which a launch
 * may convert it, because the launch has no memory for converted values. */
typedef struct
{
  GpuArgumentItemType type;
  gsize               size;         /* of LOCAL and BYTES, in bytes; for MEMORY, the number of bytes
                                     * that the kernel uses, 0 for all */
  union
  {
    struct
    {
      GpuMemory  *memory;           /* nullable; TEXTURE: the image */
      GpuSampler *sampler;          /* SAMPLER, TEXTURE */
      gsize       offset;           /* for MEMORY with a size: offset of the bytes in use from the
                                     * start of the memory; a negative offset wraps modulo 2^64 */
      gboolean    shares_bytes;     /* for MEMORY with a size: elements share bytes, so that the
                                     * kernel must not write them */
    };
    guint8    *allocated;           /* size > GPU_ARGUMENT_INLINE_SIZE */
    guint8     bytes[GPU_ARGUMENT_INLINE_SIZE];
    guint64    address;
    struct
    {
      gint64   integer;             /* from 2^63 on, the bits of the guint64 */
      gdouble  real;
      gfloat   single;
      guint16  half;
      gboolean integral;            /* whether `integer` equals `real` */
    } number;
  } value;
} GpuArgumentItem;

struct _GpuArguments
{
  gatomicrefcount  refs;
  guint            n_items;
  guint            n_allocated;
  GpuArgumentItem *items;
  GpuArgumentItem  inline_items[GPU_ARGUMENTS_N_INLINE];
  GPtrArray       *indirect;        /* nullable; of GpuMemory, see gpu_arguments_add_indirect() */
};

/* Return the size in bytes, and the OpenCL C name, of the type with the code @type. For an unknown
 * code, the size is 0 and the name is NULL. */
gsize         _gpu_argument_type_get_size (char               type);
const char   *_gpu_argument_type_get_name (char               type);
gboolean      _gpu_argument_type_is_float (char               type);

/* Checks the number of variable arguments of gpu_stream_launch(). The macro gpu_stream_launch()
 * appends two values to the arguments, which mark their end. */
gboolean      _gpu_arguments_check_va     (GpuKernel         *kernel,
                                           va_list            ap,
                                           GError           **error);
/* Collects the variable arguments of gpu_stream_launch(). */
GpuArguments *_gpu_arguments_new_va       (GpuKernel         *kernel,
                                           va_list            ap,
                                           GError           **error);

/* A number in the type of its argument. */
typedef union
{
  gint8   int8;
  gint16  int16;
  gint32  int32;
  gint64  int64;
  gfloat  single;
  gdouble real;
} GpuArgumentNumber;

/* Returns FALSE if kernels may not write the memory, but the driver describes the argument as a
 * pointer to non-const. */
static inline gboolean
_gpu_argument_allows_use (GpuMemory              *memory,
                          gboolean                shares_bytes,
                          const GpuArgumentInfo  *info)
{
  return ((memory->flags & GPU_MEMORY_FLAGS_READ_ONLY) == 0 && !shares_bytes)
         || info->read_only || info->kind != GPU_ARGUMENT_KIND_MEMORY || info->is_declared;
}

/* Fast path for the variable arguments of gpu_stream_launch(). Reads @n_arguments arguments, each
 * of which is memory, a value or a size of local memory. Fills in @values and @memories as
 * _gpu_arguments_resolve() does; the values point into @numbers. Accesses no memory object, so the
 * caller must check the memories. Returns FALSE without an error if the number of arguments is
 * wrong, or if any argument is something else. The caller then uses _gpu_arguments_check_va() and
 * _gpu_arguments_new_va(), which report errors. */
gboolean      _gpu_arguments_read_va      (const GpuArgumentInfo *infos,
                                           guint              n_arguments,
                                           va_list            ap,
                                           GpuArgumentNumber *numbers,
                                           GpuArgumentValue  *values,
                                           GpuMemory        **memories);

guint         _gpu_arguments_get_n_indirect (GpuArguments     *arguments);
/* Fills in @memories with the memory from gpu_arguments_add_indirect(). Rejects images. */
gboolean      _gpu_arguments_resolve_indirect (GpuArguments   *arguments,
                                           GpuMemory        **memories,
                                           GError           **error);

/* Returns (transfer full) a new list with the same items. */
GpuArguments *_gpu_arguments_copy         (GpuArguments      *arguments);

/* Checks @arguments against @kernel and fills in @values and @memories. Both arrays have
 * gpu_arguments_get_length() elements. Fails if @kernel takes a different number of arguments. The
 * values point into @arguments. memories[i] is NULL for a null pointer and for arguments other than
 * memory. The caller sets values[i].buffer. Several threads may use @arguments at the same time if
 * no thread changes it. */
gboolean      _gpu_arguments_resolve      (GpuArguments      *arguments,
                                           GpuKernel         *kernel,
                                           GpuArgumentValue  *values,
                                           GpuMemory        **memories,
                                           GError           **error);

/* Adds @memory for a kernel that uses only @size bytes of @memory, from @offset on. The kernel gets
 * the address of the first byte of @memory, not of the byte at @offset. With @shares_bytes, the
 * launch rejects the memory for an argument that the driver describes as a pointer to non-const. */
void _gpu_arguments_add_range (GpuArguments *arguments,
                               GpuMemory    *memory,
                               gsize         offset,
                               gsize         size,
                               gboolean      shares_bytes);

G_END_DECLS
