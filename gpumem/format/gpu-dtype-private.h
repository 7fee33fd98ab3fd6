/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gpumem/gpumem.h>

G_BEGIN_DECLS

/* The maximum depth of records within records. The limit bounds the recursion of functions that
 * walk over fields. */
#define GPU_DTYPE_MAX_NESTING 64

typedef struct
{
  char     *name;
  GpuDType *type;
  gsize     offset;                 /* bytes within the record */
  guint     n_dims;
  gssize   *shape;                  /* NULL if @n_dims is 0 */
} GpuDTypeField;

/* Types are immutable: gpu_dtype_add_field() creates another type. */
struct _GpuDType
{
  gatomicrefcount  refs;
  GpuDTypeKind     kind;
  gsize            item_size;       /* bytes, not 0 */
  GArray          *fields;          /* of GpuDTypeField, NULL if there are none */
  guint            nesting;         /* levels of nested records, including this record; 0 if the
                                     * type is not a record */
};

/* (transfer full): an array of GpuDTypeField, which owns the contents of the fields. */
GArray   *_gpu_dtype_fields_new     (void);
/* Appends a copy of @field. */
void      _gpu_dtype_fields_append  (GArray               *fields,
                                     const GpuDTypeField  *field);
/* Creates the type of a record. The fields must lie within the record. Takes ownership of @fields,
 * also on failure. Returns NULL if two fields have the same name, a field has no name, @item_size
 * is 0, or records nest deeper than GPU_DTYPE_MAX_NESTING. */
GpuDType *_gpu_dtype_new_for_fields (GArray               *fields,
                                     gsize                 item_size);
/* Returns the size of the field in bytes, with all elements of its shape. */
gsize     _gpu_dtype_field_get_size (const GpuDTypeField  *field);
/* Returns NumPy's letter for the kind of @dtype, or 0 if NumPy has no letter for it. */
char      _gpu_dtype_get_letter     (GpuDType             *dtype);

G_END_DECLS
