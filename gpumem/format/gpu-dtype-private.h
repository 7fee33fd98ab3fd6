/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gpumem/gpumem.h>

G_BEGIN_DECLS

/* Limits the depth of records within records, as functions that walk over fields recurse. */
#define GPU_DTYPE_MAX_NESTING 64

typedef struct
{
  char     *name;
  GpuDType *type;
  gsize     offset;                 /* bytes within the record */
  guint     n_dims;
  gssize   *shape;                  /* NULL if @n_dims is 0 */
} GpuDTypeField;

/* Immutable: what adds a field makes another. */
struct _GpuDType
{
  gatomicrefcount  refs;
  GpuDTypeKind     kind;
  gsize            item_size;       /* bytes, not 0 */
  GArray          *fields;          /* of GpuDTypeField, NULL if there are none */
  guint            nesting;         /* depth of records, including itself; 0 for a number */
};

/* Of GpuDTypeField, which it owns the parts of. */
GArray   *_gpu_dtype_fields_new     (void);
/* A copy of @field. */
void      _gpu_dtype_fields_append  (GArray               *fields,
                                     const GpuDTypeField  *field);
/* Takes @fields, which lie within the record. NULL if two fields have the same name, a field has no
 * name, @item_size is 0, or records nest deeper than GPU_DTYPE_MAX_NESTING. */
GpuDType *_gpu_dtype_new_for_fields (GArray               *fields,
                                     gsize                 item_size);
/* All the elements of the field: those of its shape. */
gsize     _gpu_dtype_field_get_size (const GpuDTypeField  *field);
/* Letters that stand for the kind: of NumPy, 0 for what it has no letter for. */
char      _gpu_dtype_get_letter     (GpuDType             *dtype);

G_END_DECLS
