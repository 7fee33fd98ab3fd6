/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <string.h>

#include "gpumem/format/gpu-dtype-private.h"

/**
 * SECTION:gpu-dtype
 * @title: GpuDType
 * @short_description: element types of arrays
 * @see_also: #GpuArray
 */

/**
 * GpuDType:
 *
 * The type of the elements of an array: a number, opaque bytes or a record with fields.
 *
 * |[<!-- language="C" -->
 * g_autoptr (GpuDType) empty = gpu_dtype_new_record (8, &error);
 * g_autoptr (GpuDType) half = gpu_dtype_add_field (empty, "id", GPU_DTYPE_UINT32, 0, NULL, 0,
 *                                                  &error);
 * g_autoptr (GpuDType) record = gpu_dtype_add_field (half, "weight", GPU_DTYPE_FLOAT32, 4, NULL, 0,
 *                                                    &error);
 * g_autofree char *format = gpu_dtype_to_format (record);
 *
 * g_print ("%s: %" G_GSIZE_FORMAT " bytes\n", format, gpu_dtype_get_item_size (record));
 * ]|
 *
 * A type has a kind and a size: %GPU_DTYPE_KIND_FLOAT of 4 bytes is the C type `float`. Records
 * have named fields, each with a type of its own. The byte order is always that of the host. Types
 * are immutable, and any thread may use them.
 *
 * gpu_dtype_new_from_string() creates a type from a name or type string of NumPy, such as
 * `float32` or `<f4`. gpu_dtype_new_from_format() creates a type from the format of a Python
 * buffer.
 *
 * The numeric types are predefined, as `GPU_DTYPE_FLOAT32` in C and `Gpu.DType.FLOAT32` in Python,
 * JavaScript and Vala: `BOOL`, `INT8`, `INT16`, `INT32`, `INT64`, `UINT8`, `UINT16`, `UINT32`,
 * `UINT64`, `FLOAT16`, `FLOAT32`, `FLOAT64`, `BFLOAT16`, `COMPLEX64` and `COMPLEX128`.
 *
 * Since: 0.1
 */

G_DEFINE_BOXED_TYPE (GpuDType, gpu_dtype, gpu_dtype_ref, gpu_dtype_unref)

/* The binary logarithms of the smallest and the largest size of each numeric kind. All sizes of
 * numeric types are powers of two. */
static const struct
{
  guint least;
  guint most;
} number_sizes[] =
{
  [GPU_DTYPE_KIND_BOOL]    = { 0, 0 },
  [GPU_DTYPE_KIND_INT]     = { 0, 3 },
  [GPU_DTYPE_KIND_UINT]    = { 0, 3 },
  [GPU_DTYPE_KIND_FLOAT]   = { 1, 4 },
  [GPU_DTYPE_KIND_BFLOAT]  = { 1, 1 },
  [GPU_DTYPE_KIND_COMPLEX] = { 2, 5 }
};

#define MAX_SIZE_LOG 5

static void
clear_field (gpointer data)
{
  GpuDTypeField *field = data;

  g_free (field->name);
  gpu_dtype_unref (field->type);
  g_free (field->shape);
}

static GpuDType *
dtype_new (GpuDTypeKind kind,
           gsize        item_size)
{
  GpuDType *dtype = g_new0 (GpuDType, 1);

  g_atomic_ref_count_init (&dtype->refs);
  dtype->kind = kind;
  dtype->item_size = item_size;
  dtype->nesting = kind == GPU_DTYPE_KIND_RECORD;

  return dtype;
}

GArray *
_gpu_dtype_fields_new (void)
{
  GArray *fields = g_array_new (FALSE, FALSE, sizeof (GpuDTypeField));

  g_array_set_clear_func (fields, clear_field);

  return fields;
}

void
_gpu_dtype_fields_append (GArray              *fields,
                          const GpuDTypeField *field)
{
  const GpuDTypeField copy = { g_strdup (field->name), gpu_dtype_ref (field->type), field->offset,
                               field->n_dims,
                               g_memdup2 (field->shape, field->n_dims * sizeof *field->shape) };

  g_array_append_val (fields, copy);
}

GpuDType *
_gpu_dtype_new_for_fields (GArray *fields,
                           gsize   item_size)
{
  g_autoptr (GHashTable) names = g_hash_table_new (g_str_hash, g_str_equal);
  GpuDType *dtype = gpu_dtype_new_record (item_size, NULL);
  gboolean is_valid = dtype != NULL;

  for (guint i = 0; i < fields->len && is_valid; i++)
    {
      const GpuDTypeField *field = &g_array_index (fields, GpuDTypeField, i);

      is_valid = field->name[0] != '\0' && g_hash_table_add (names, field->name);
      dtype->nesting = MAX (dtype->nesting, field->type->nesting + 1);
    }

  if (!is_valid || dtype->nesting > GPU_DTYPE_MAX_NESTING)
    {
      g_clear_pointer (&dtype, gpu_dtype_unref);
      g_array_unref (fields);
      return NULL;
    }

  dtype->fields = fields;

  return dtype;
}

gsize
_gpu_dtype_field_get_size (const GpuDTypeField *field)
{
  gsize size = field->type->item_size;

  for (guint i = 0; i < field->n_dims; i++)
    size *= field->shape[i];

  return size;
}

/**
 * gpu_dtype_get_number:
 * @kind: a numeric kind
 * @item_size: size of a number in bytes
 *
 * Gets a numeric type. The valid sizes in bytes are: booleans 1; integers 1, 2, 4, 8;
 * floating-point numbers 2, 4, 8, 16; bfloat16 2; complex numbers 4, 8, 16, 32.
 *
 * Returns: (transfer none) (nullable): the type, the same for each call, or %NULL if the size is
 *   invalid for @kind
 *
 * Since: 0.1
 */
GpuDType *
gpu_dtype_get_number (GpuDTypeKind kind,
                      gsize        item_size)
{
  static GpuDType *numbers[G_N_ELEMENTS (number_sizes)][MAX_SIZE_LOG + 1];
  static gsize made;

  if (g_once_init_enter (&made))
    {
      for (guint k = 0; k < G_N_ELEMENTS (number_sizes); k++)
        {
          for (guint i = number_sizes[k].least; i <= number_sizes[k].most; i++)
            numbers[k][i] = dtype_new ((GpuDTypeKind) k, (gsize) 1 << i);
        }

      g_once_init_leave (&made, 1);
    }

  if ((guint) kind >= G_N_ELEMENTS (number_sizes))
    return NULL;

  for (guint i = 0; i <= MAX_SIZE_LOG; i++)
    {
      if (item_size == (gsize) 1 << i)
        return numbers[kind][i];
    }

  return NULL;
}

/**
 * gpu_dtype_new:
 * @kind: the kind of the elements
 * @item_size: size of an element in bytes, not 0
 * @error: return location for an error
 *
 * Creates a type of any kind. If @kind is always a number, gpu_dtype_get_number() is simpler: the
 * caller does not own its result. For a numeric @kind, @item_size must be one of the sizes that
 * gpu_dtype_get_number() accepts. %GPU_DTYPE_KIND_OPAQUE results in @item_size opaque bytes,
 * %GPU_DTYPE_KIND_RECORD in a record without fields, as from gpu_dtype_new_record().
 *
 * Returns: (transfer full): the type, or %NULL with %GPU_ERROR_INVALID_ARGUMENT if @item_size is
 *   invalid for @kind
 *
 * Since: 0.1
 */
GpuDType *
gpu_dtype_new (GpuDTypeKind   kind,
               gsize          item_size,
               GError       **error)
{
  GpuDType *number = gpu_dtype_get_number (kind, item_size);

  if (number != NULL)
    return gpu_dtype_ref (number);

  if ((kind == GPU_DTYPE_KIND_OPAQUE || kind == GPU_DTYPE_KIND_RECORD)
      && item_size > 0 && item_size <= G_MAXSSIZE)
    return dtype_new (kind, item_size);

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "gpu_dtype_new: there is no type of kind %d with %" G_GSIZE_FORMAT " bytes",
               (int) kind, item_size);

  return NULL;
}

/**
 * gpu_dtype_new_record:
 * @item_size: size of a record in bytes, including gaps between fields, not 0
 * @error: return location for an error
 *
 * Creates the type of a record without fields. gpu_dtype_add_field() adds fields.
 *
 * Returns: (transfer full): the type, or %NULL with %GPU_ERROR_INVALID_ARGUMENT
 *
 * Since: 0.1
 */
GpuDType *
gpu_dtype_new_record (gsize    item_size,
                      GError **error)
{
  return gpu_dtype_new (GPU_DTYPE_KIND_RECORD, item_size, error);
}

/* Returns FALSE with @error if the field does not lie within the record. */
static gboolean
check_field (GpuDType             *dtype,
             const GpuDTypeField  *field,
             GError              **error)
{
  const char *function = "gpu_dtype_add_field";
  gsize size = field->type->item_size;
  gboolean fits = TRUE;

  if (dtype->kind != GPU_DTYPE_KIND_RECORD || field->name[0] == '\0'
      || gpu_dtype_find_field (dtype, field->name) >= 0 || field->n_dims > GPU_ARRAY_MAX_DIMS)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: a type with %u fields cannot have a field '%s' of %u dimensions", function,
                   gpu_dtype_get_n_fields (dtype), field->name, field->n_dims);
      return FALSE;
    }

  if (field->type->nesting >= GPU_DTYPE_MAX_NESTING)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: the field '%s' nests %u records; the limit for a field is %d",
                   function, field->name, field->type->nesting, GPU_DTYPE_MAX_NESTING - 1);
      return FALSE;
    }

  for (guint i = 0; i < field->n_dims && fits; i++)
    fits = field->shape[i] > 0 && g_size_checked_mul (&size, size, (gsize) field->shape[i]);

  if (fits && field->offset <= dtype->item_size && size <= dtype->item_size - field->offset)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: the field '%s' with items of %" G_GSIZE_FORMAT " bytes at offset %"
               G_GSIZE_FORMAT " does not fit into a record of %" G_GSIZE_FORMAT " bytes", function,
               field->name, field->type->item_size, field->offset, dtype->item_size);

  return FALSE;
}

/**
 * gpu_dtype_add_field:
 * @dtype: the type of a record
 * @name: name of the field
 * @type: type of the field
 * @offset: offset of the field in the record, in bytes
 * @shape: (array length=n_dims) (nullable): number of elements of @type along each dimension, or
 *   %NULL for a single element
 * @n_dims: number of elements in @shape
 * @error: return location for an error
 *
 * Creates a type that has one more field than @dtype. Fields may overlap, like those of a union.
 *
 * Returns: (transfer full): the new type, or %NULL with %GPU_ERROR_INVALID_ARGUMENT if @dtype is
 *   not a record, already has a field named @name, or is too small for the field, or if records
 *   would nest more than 64 deep
 *
 * Since: 0.1
 */
GpuDType *
gpu_dtype_add_field (GpuDType      *dtype,
                     const char    *name,
                     GpuDType      *type,
                     gsize          offset,
                     const gssize  *shape,
                     guint          n_dims,
                     GError       **error)
{
  const GpuDTypeField field = { (char *) name, type, offset, n_dims, (gssize *) shape };
  GpuDType *result;

  g_return_val_if_fail (dtype != NULL, NULL);
  g_return_val_if_fail (name != NULL, NULL);
  g_return_val_if_fail (type != NULL, NULL);
  g_return_val_if_fail (shape != NULL || n_dims == 0, NULL);

  if (!check_field (dtype, &field, error))
    return NULL;

  result = dtype_new (dtype->kind, dtype->item_size);
  result->fields = _gpu_dtype_fields_new ();

  for (guint i = 0; i < gpu_dtype_get_n_fields (dtype); i++)
    _gpu_dtype_fields_append (result->fields, &g_array_index (dtype->fields, GpuDTypeField, i));

  _gpu_dtype_fields_append (result->fields, &field);
  result->nesting = MAX (dtype->nesting, type->nesting + 1);

  return result;
}

/**
 * gpu_dtype_ref:
 * @dtype: a #GpuDType
 *
 * Acquires a reference. Any thread may call this function at any time.
 *
 * Returns: (transfer full): @dtype
 *
 * Since: 0.1
 */
GpuDType *
gpu_dtype_ref (GpuDType *dtype)
{
  g_return_val_if_fail (dtype != NULL, NULL);

  g_atomic_ref_count_inc (&dtype->refs);

  return dtype;
}

/**
 * gpu_dtype_unref:
 * @dtype: (transfer full): a #GpuDType
 *
 * Releases a reference. Any thread may call this function at any time.
 *
 * Since: 0.1
 */
void
gpu_dtype_unref (GpuDType *dtype)
{
  g_return_if_fail (dtype != NULL);

  if (!g_atomic_ref_count_dec (&dtype->refs))
    return;

  g_clear_pointer (&dtype->fields, g_array_unref);
  g_free (dtype);
}

/**
 * gpu_dtype_get_kind:
 * @dtype: a #GpuDType
 *
 * Gets the kind of the elements.
 *
 * Returns: the kind
 *
 * Since: 0.1
 */
GpuDTypeKind
gpu_dtype_get_kind (GpuDType *dtype)
{
  g_return_val_if_fail (dtype != NULL, GPU_DTYPE_KIND_OPAQUE);

  return dtype->kind;
}

/**
 * gpu_dtype_get_item_size:
 * @dtype: a #GpuDType
 *
 * Gets the size of an element.
 *
 * Returns: the size in bytes, never 0
 *
 * Since: 0.1
 */
gsize
gpu_dtype_get_item_size (GpuDType *dtype)
{
  g_return_val_if_fail (dtype != NULL, 0);

  return dtype->item_size;
}

/**
 * gpu_dtype_get_n_fields:
 * @dtype: a #GpuDType
 *
 * Gets the number of fields.
 *
 * Returns: the number of fields, 0 unless @dtype is a record
 *
 * Since: 0.1
 */
guint
gpu_dtype_get_n_fields (GpuDType *dtype)
{
  g_return_val_if_fail (dtype != NULL, 0);

  return dtype->fields != NULL ? dtype->fields->len : 0;
}

static const GpuDTypeField *
get_field (GpuDType *dtype,
           guint     index)
{
  return index < gpu_dtype_get_n_fields (dtype)
         ? &g_array_index (dtype->fields, GpuDTypeField, index) : NULL;
}

/**
 * gpu_dtype_get_field_name:
 * @dtype: a #GpuDType
 * @index: index of a field
 *
 * Gets the name of a field.
 *
 * Returns: (transfer none) (nullable): the name, or %NULL if there is no such field
 *
 * Since: 0.1
 */
const char *
gpu_dtype_get_field_name (GpuDType *dtype,
                          guint     index)
{
  const GpuDTypeField *field;

  g_return_val_if_fail (dtype != NULL, NULL);

  field = get_field (dtype, index);

  return field != NULL ? field->name : NULL;
}

/**
 * gpu_dtype_get_field_type:
 * @dtype: a #GpuDType
 * @index: index of a field
 *
 * Gets the type of a field.
 *
 * Returns: (transfer none) (nullable): the type, or %NULL if there is no such field
 *
 * Since: 0.1
 */
GpuDType *
gpu_dtype_get_field_type (GpuDType *dtype,
                          guint     index)
{
  const GpuDTypeField *field;

  g_return_val_if_fail (dtype != NULL, NULL);

  field = get_field (dtype, index);

  return field != NULL ? field->type : NULL;
}

/**
 * gpu_dtype_get_field_offset:
 * @dtype: a #GpuDType
 * @index: index of a field
 *
 * Gets the offset of a field within a record.
 *
 * Returns: the offset in bytes, 0 if there is no such field
 *
 * Since: 0.1
 */
gsize
gpu_dtype_get_field_offset (GpuDType *dtype,
                            guint     index)
{
  const GpuDTypeField *field;

  g_return_val_if_fail (dtype != NULL, 0);

  field = get_field (dtype, index);

  return field != NULL ? field->offset : 0;
}

/**
 * gpu_dtype_get_field_shape:
 * @dtype: a #GpuDType
 * @index: index of a field
 * @n_dims: (out): number of elements in the shape
 *
 * Gets the shape of a field: the number of elements along each dimension.
 *
 * Returns: (array length=n_dims) (transfer none) (nullable): the shape, or %NULL if the field is a
 *   single element or does not exist
 *
 * Since: 0.1
 */
const gssize *
gpu_dtype_get_field_shape (GpuDType *dtype,
                           guint     index,
                           guint    *n_dims)
{
  const GpuDTypeField *field;

  g_return_val_if_fail (dtype != NULL, NULL);
  g_return_val_if_fail (n_dims != NULL, NULL);

  field = get_field (dtype, index);
  *n_dims = field != NULL ? field->n_dims : 0;

  return field != NULL ? field->shape : NULL;
}

/**
 * gpu_dtype_find_field:
 * @dtype: a #GpuDType
 * @name: name of a field
 *
 * Finds a field by its name.
 *
 * Returns: the index of the field, or -1 if there is no field of that name
 *
 * Since: 0.1
 */
int
gpu_dtype_find_field (GpuDType   *dtype,
                      const char *name)
{
  g_return_val_if_fail (dtype != NULL, -1);
  g_return_val_if_fail (name != NULL, -1);

  for (guint i = 0; i < gpu_dtype_get_n_fields (dtype); i++)
    {
      if (strcmp (get_field (dtype, i)->name, name) == 0)
        return (int) i;
    }

  return -1;
}

static gboolean
fields_equal (const GpuDTypeField *a,
              const GpuDTypeField *b)
{
  if (a->offset != b->offset || a->n_dims != b->n_dims || strcmp (a->name, b->name) != 0
      || !gpu_dtype_equal (a->type, b->type))
    return FALSE;

  for (guint i = 0; i < a->n_dims; i++)
    {
      if (a->shape[i] != b->shape[i])
        return FALSE;
    }

  return TRUE;
}

/**
 * gpu_dtype_equal:
 * @a: a #GpuDType
 * @b: a #GpuDType
 *
 * Compares two types, including all their fields.
 *
 * Returns: %TRUE if @a and @b are equal
 *
 * Since: 0.1
 */
gboolean
gpu_dtype_equal (GpuDType *a,
                 GpuDType *b)
{
  g_return_val_if_fail (a != NULL, FALSE);
  g_return_val_if_fail (b != NULL, FALSE);

  if (a == b)
    return TRUE;

  if (a->kind != b->kind || a->item_size != b->item_size
      || gpu_dtype_get_n_fields (a) != gpu_dtype_get_n_fields (b))
    return FALSE;

  for (guint i = 0; i < gpu_dtype_get_n_fields (a); i++)
    {
      if (!fields_equal (get_field (a, i), get_field (b, i)))
        return FALSE;
    }

  return TRUE;
}

/**
 * gpu_dtype_hash:
 * @dtype: a #GpuDType
 *
 * Computes a hash value that is consistent with gpu_dtype_equal().
 *
 * Returns: the hash value
 *
 * Since: 0.1
 */
guint
gpu_dtype_hash (GpuDType *dtype)
{
  guint hash;

  g_return_val_if_fail (dtype != NULL, 0);

  hash = (guint) dtype->kind * 31 + (guint) dtype->item_size;

  for (guint i = 0; i < gpu_dtype_get_n_fields (dtype); i++)
    hash = hash * 33 + g_str_hash (get_field (dtype, i)->name);

  return hash;
}
