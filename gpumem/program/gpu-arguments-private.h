/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdarg.h>

#include "gpumem/backend/gpu-backend.h"
#include "gpumem/base/gpu-attributes-private.h"

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

/* A number is kept in every form that an argument can ask for, so that a launch converts nothing
 * and has nowhere to write to. */
typedef struct
{
  GpuArgumentItemType type;
  gsize               size;         /* of LOCAL and BYTES; of MEMORY, of what is used: 0 for all */
  union
  {
    struct
    {
      GpuMemory  *memory;           /* nullable; the image of TEXTURE */
      GpuSampler *sampler;          /* of SAMPLER and TEXTURE */
      gsize       offset;           /* of MEMORY with a size: within the memory, modulo 2^64 from
                                     * what comes before it */
    };
    guint8    *allocated;           /* size > GPU_ARGUMENT_INLINE_SIZE */
    guint8     bytes[GPU_ARGUMENT_INLINE_SIZE];
    guint64    address;
    struct
    {
      gint64   integer;             /* from 2^63 on, the bits of it */
      gdouble  real;
      gfloat   single;
      guint16  half;
      gboolean integral;            /* integer is the same number as real */
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
  GPtrArray       *indirect;        /* nullable; of GpuMemory that no argument stands for */
};

/* Bytes of a value of type code @type, 0 if there is no such code; its name in OpenCL C. */
gsize         _gpu_argument_type_get_size (char               type);
const char   *_gpu_argument_type_get_name (char               type);
gboolean      _gpu_argument_type_is_float (char               type);

/* Collects what gpu_stream_launch() was given. */
GpuArguments *_gpu_arguments_new_va       (GpuKernel         *kernel,
                                           va_list            ap,
                                           GError           **error);

/* A number as an argument takes it. */
typedef union
{
  gint8   int8;
  gint16  int16;
  gint32  int32;
  gint64  int64;
  gfloat  single;
  gdouble real;
} GpuArgumentNumber;

/* What gpu_stream_launch() was given, for @n_arguments arguments that are all right, of kinds that
 * take no conversion but that of numbers into @numbers; the values point into it. Fills in @values
 * and @memories as _gpu_arguments_resolve() does. FALSE for all else: that is for
 * _gpu_arguments_new_va(), which knows the errors, too. */
gboolean      _gpu_arguments_read_va      (const GpuArgumentInfo *infos,
                                           guint              n_arguments,
                                           va_list            ap,
                                           GpuArgumentNumber *numbers,
                                           GpuArgumentValue  *values,
                                           GpuMemory        **memories);

guint         _gpu_arguments_get_n_indirect (GpuArguments     *arguments);
/* Fills in what was added with gpu_arguments_add_indirect(). */
gboolean      _gpu_arguments_resolve_indirect (GpuArguments   *arguments,
                                           GpuMemory        **memories,
                                           GError           **error);

/* Another list of the same. */
GpuArguments *_gpu_arguments_copy         (GpuArguments      *arguments);

/* Checks @arguments against @kernel and fills in @values and @memories, each of
 * gpu_arguments_get_length() elements: that is the number the kernel takes, or it fails. The
 * values point into @arguments; memories[i] is NULL for what is no memory and for a null pointer,
 * and values[i].buffer is left to the caller. Any number of threads at a time, as long as nobody
 * changes @arguments. */
gboolean      _gpu_arguments_resolve      (GpuArguments      *arguments,
                                           GpuKernel         *kernel,
                                           GpuArgumentValue  *values,
                                           GpuMemory        **memories,
                                           GError           **error);

/* @size bytes of @memory from @offset on, @memory being what the kernel gets the address of. */
void _gpu_arguments_add_range (GpuArguments *arguments,
                               GpuMemory    *memory,
                               gsize         offset,
                               gsize         size);

G_END_DECLS
