/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Types as text: the names of NumPy and the formats of Python's buffers. */
#include "config.h"

#include <string.h>

#include "gpumem/format/gpu-dtype-private.h"

/* The letters of NumPy, indexed by kind. */
static const char letters[] = "biuf\0cVV";

static const struct
{
  const char   *name;
  GpuDTypeKind  kind;
  gsize         bits;               /* 1 if the number of bits follows the name, otherwise 0 */
} names[] =
{
  { "bool", GPU_DTYPE_KIND_BOOL, 0 },
  { "int", GPU_DTYPE_KIND_INT, 1 },
  { "uint", GPU_DTYPE_KIND_UINT, 1 },
  { "float", GPU_DTYPE_KIND_FLOAT, 1 },
  { "bfloat", GPU_DTYPE_KIND_BFLOAT, 1 },
  { "complex", GPU_DTYPE_KIND_COMPLEX, 1 },
  { "void", GPU_DTYPE_KIND_OPAQUE, 1 }
};

/* The letters of PEP 3118, which Python's buffers use. If a letter has both a native and a standard
 * size, the two sizes differ only for 'l' and 'L'. */
static const struct
{
  char          letter;
  guint8        native;             /* native size in bytes */
  guint8        standard;           /* standard size in bytes; 0 if the letter has none */
  GpuDTypeKind  kind;
} codes[] =
{
  { '?', 1, 1, GPU_DTYPE_KIND_BOOL },
  { 'b', 1, 1, GPU_DTYPE_KIND_INT },
  { 'h', 2, 2, GPU_DTYPE_KIND_INT },
  { 'i', 4, 4, GPU_DTYPE_KIND_INT },
  { 'q', 8, 8, GPU_DTYPE_KIND_INT },
  { 'B', 1, 1, GPU_DTYPE_KIND_UINT },
  { 'H', 2, 2, GPU_DTYPE_KIND_UINT },
  { 'I', 4, 4, GPU_DTYPE_KIND_UINT },
  { 'Q', 8, 8, GPU_DTYPE_KIND_UINT },
  { 'e', 2, 2, GPU_DTYPE_KIND_FLOAT },
  { 'f', 4, 4, GPU_DTYPE_KIND_FLOAT },
  { 'd', 8, 8, GPU_DTYPE_KIND_FLOAT },
  { 'g', 16, 16, GPU_DTYPE_KIND_FLOAT },
  { 'l', sizeof (long), 4, GPU_DTYPE_KIND_INT },
  { 'n', sizeof (gssize), 0, GPU_DTYPE_KIND_INT },
  { 'L', sizeof (long), 4, GPU_DTYPE_KIND_UINT },
  { 'N', sizeof (gsize), 0, GPU_DTYPE_KIND_UINT },
  { 'c', 1, 1, GPU_DTYPE_KIND_OPAQUE },
  { 's', 1, 1, GPU_DTYPE_KIND_OPAQUE },
  { 'x', 1, 1, GPU_DTYPE_KIND_OPAQUE }
};

static gboolean
is_foreign_order (char order)
{
  return order == (G_BYTE_ORDER == G_LITTLE_ENDIAN ? '>' : '<') || order == '!';
}

char
_gpu_dtype_get_letter (GpuDType *dtype)
{
  return letters[dtype->kind];
}

static gboolean
parse_size (const char *text,
            gsize      *size)
{
  guint64 value;

  if (!g_ascii_string_to_unsigned (text, 10, 1, G_MAXSSIZE, &value, NULL))
    return FALSE;

  *size = (gsize) value;

  return TRUE;
}

static GpuDType *
parse_name (const char *text)
{
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      gsize bits = 8;

      if (!g_str_has_prefix (text, names[i].name))
        continue;

      if (names[i].bits == 0 ? text[strlen (names[i].name)] == '\0'
                             : parse_size (text + strlen (names[i].name), &bits) && bits % 8 == 0)
        return gpu_dtype_new (names[i].kind, bits / 8, NULL);
    }

  return NULL;
}

static GpuDType *
parse_typestr (const char *text)
{
  gsize size;

  if (text[0] == '\0' || !parse_size (text + 1, &size))
    return NULL;

  for (guint kind = 0; kind < sizeof letters - 1; kind++)
    {
      if (letters[kind] == text[0])
        return gpu_dtype_new ((GpuDTypeKind) kind, size, NULL);
    }

  return NULL;
}

/**
 * gpu_dtype_new_from_string:
 * @text: a name or type string of NumPy
 * @error: return location for an error
 *
 * Creates a type from its name, such as `float32`, `bfloat16`, `bool` or `void96`, or from a type
 * string of NumPy's array interface, such as `<f4` or `|V12`. A type string consists of an optional
 * byte order, one of the letters `b`, `i`, `u`, `f`, `c` and `V`, and the number of bytes. `V`
 * results in opaque bytes, because a type string does not contain the fields of a record.
 *
 * Returns: (transfer full): the type, or %NULL with %GPU_ERROR_INVALID_ARGUMENT if @text is not a
 *   type, or %GPU_ERROR_NOT_SUPPORTED if the byte order is not that of the host
 *
 * Since: 0.1
 */
GpuDType *
gpu_dtype_new_from_string (const char  *text,
                           GError     **error)
{
  const char *rest;
  GpuDType *dtype;

  g_return_val_if_fail (text != NULL, NULL);

  rest = text[0] != '\0' && strchr ("<>=|", text[0]) != NULL ? text + 1 : text;
  dtype = parse_typestr (rest);

  if (dtype == NULL && rest == text)
    dtype = parse_name (text);

  if (dtype == NULL)
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                 "gpu_dtype_new_from_string: there is no type '%s'", text);
  else if (is_foreign_order (text[0]) && dtype->item_size > 1
           && dtype->kind != GPU_DTYPE_KIND_OPAQUE)
    {
      g_clear_pointer (&dtype, gpu_dtype_unref);
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "gpu_dtype_new_from_string: '%s' is not in the byte order of the host; convert "
                   "the data first", text);
    }

  return dtype;
}

/**
 * gpu_dtype_to_string:
 * @dtype: a #GpuDType
 *
 * Gets the type string of NumPy's array interface, such as `<f4` or `|b1`. The type string of an
 * opaque type or of a record contains only the size, as in `|V12`. NumPy has no type string for
 * bfloat16, so the result for that type is its name, `bfloat16`.
 *
 * Returns: (transfer full): the text
 *
 * Since: 0.1
 */
char *
gpu_dtype_to_string (GpuDType *dtype)
{
  char letter;
  char order = G_BYTE_ORDER == G_LITTLE_ENDIAN ? '<' : '>';

  g_return_val_if_fail (dtype != NULL, NULL);

  letter = _gpu_dtype_get_letter (dtype);

  if (letter == '\0')
    return gpu_dtype_get_name (dtype);

  if (dtype->item_size == 1 || letter == 'V')
    order = '|';

  return g_strdup_printf ("%c%c%" G_GSIZE_FORMAT, order, letter, dtype->item_size);
}

/**
 * gpu_dtype_get_name:
 * @dtype: a #GpuDType
 *
 * Gets the name of the type, such as `float32`, `bfloat16` or `bool`. The name of an opaque type or
 * of a record contains only the number of bits, as in `void96` for 12 bytes.
 *
 * Returns: (transfer full): the name
 *
 * Since: 0.1
 */
char *
gpu_dtype_get_name (GpuDType *dtype)
{
  GpuDTypeKind kind;

  g_return_val_if_fail (dtype != NULL, NULL);

  kind = MIN (dtype->kind, GPU_DTYPE_KIND_OPAQUE);

  if (names[kind].bits == 0)
    return g_strdup (names[kind].name);

  return g_strdup_printf ("%s%" G_GSIZE_FORMAT, names[kind].name, dtype->item_size * 8);
}

/* --- the formats of PEP 3118 ------------------------------------------------ */

typedef struct
{
  const char *next;
  char        order;                /* '@' for native sizes and alignments */
  guint       nesting;
  gboolean    is_too_deep;
} Parser;

/* An element of a format: the type and the shape or count before its letter. */
typedef struct
{
  GpuDType *type;
  gssize    shape[GPU_ARRAY_MAX_DIMS];
  guint     n_dims;
  gssize    count;                  /* 0 if the format has no count */
  gsize     alignment;
  gboolean  is_padding;
} Item;

static GpuDType *parse_record (Parser *parser,
                               gsize  *alignment);

static void
parse_order (Parser *parser)
{
  while (*parser->next != '\0' && strchr ("@=<>!^", *parser->next) != NULL)
    parser->order = *parser->next++;
}

static gboolean
parse_number (Parser *parser,
              gssize *number)
{
  guint64 value = g_ascii_isdigit (*parser->next)
                  ? g_ascii_strtoull (parser->next, (char **) &parser->next, 10) : G_MAXUINT64;

  *number = (gssize) value;

  return value > 0 && value <= G_MAXSSIZE;
}

/* Parses an optional shape such as (2,3), and an optional count. */
static gboolean
parse_shape (Parser *parser,
             Item   *item)
{
  if (*parser->next == '(')
    {
      do
        {
          parser->next++;

          if (item->n_dims == GPU_ARRAY_MAX_DIMS
              || !parse_number (parser, &item->shape[item->n_dims++]))
            return FALSE;
        }
      while (*parser->next == ',');

      if (*parser->next != ')')
        return FALSE;

      parser->next++;
    }

  return !g_ascii_isdigit (*parser->next) || parse_number (parser, &item->count);
}

static GpuDType *
parse_code (Parser *parser,
            Item   *item)
{
  gboolean is_complex = *parser->next == 'Z';
  char letter = is_complex ? *++parser->next : *parser->next;
  gboolean is_native = parser->order == '@' || parser->order == '^';

  for (guint i = 0; i < G_N_ELEMENTS (codes); i++)
    {
      gsize size = is_native ? codes[i].native : codes[i].standard;

      if (letter != codes[i].letter || size == 0
          || (is_complex && codes[i].kind != GPU_DTYPE_KIND_FLOAT)
          || (size > 1 && is_foreign_order (parser->order)))
        continue;

      parser->next++;
      item->alignment = size;
      item->is_padding = letter == 'x';

      if (codes[i].kind == GPU_DTYPE_KIND_OPAQUE && item->count > 0)
        {
          size = (gsize) item->count;
          item->count = 0;
        }

      return gpu_dtype_new (is_complex ? GPU_DTYPE_KIND_COMPLEX : codes[i].kind,
                            is_complex ? 2 * size : size, NULL);
    }

  return NULL;
}

/* Converts the count before a code to a shape of one dimension. If the code means opaque bytes, the
 * count is the size of one element, and parse_code() has already cleared the count. */
static gboolean
take_count (Item *item)
{
  if (item->count == 0)
    return TRUE;

  item->shape[0] = item->count;

  return item->n_dims++ == 0;
}

static gboolean
parse_item (Parser *parser,
            Item   *item)
{
  *item = (Item) { .alignment = 1 };
  parse_order (parser);

  if (!parse_shape (parser, item))
    return FALSE;

  parse_order (parser);

  if (!g_str_has_prefix (parser->next, "T{"))
    item->type = parse_code (parser, item);
  else if (parser->nesting < GPU_DTYPE_MAX_NESTING)
    {
      parser->next += 2;
      parser->nesting++;
      item->type = parse_record (parser, &item->alignment);
      parser->nesting--;
    }
  else
    parser->is_too_deep = TRUE;

  if (item->type == NULL || (parser->order != '@'))
    item->alignment = 1;

  return item->type != NULL && take_count (item);
}

/* Parses a name such as :name:. If there is no name, returns NumPy's default name for the field. */
static char *
parse_field_name (Parser *parser,
                  guint   n_fields)
{
  const char *begin = parser->next + 1;
  const char *end = *parser->next == ':' ? strchr (begin, ':') : NULL;

  if (*parser->next != ':')
    return g_strdup_printf ("f%u", n_fields);

  if (end == NULL)
    return NULL;

  parser->next = end + 1;

  return g_strndup (begin, end - begin);
}

/* Adds the field to @fields, and its size to the size of the record. */
static gboolean
take_field (Parser *parser,
            Item   *item,
            GArray *fields,
            gsize  *size)
{
  GpuDTypeField field = { .type = item->type, .offset = *size, .n_dims = item->n_dims };
  gsize field_size = item->type->item_size;
  gsize gap = (item->alignment - *size % item->alignment) % item->alignment;

  for (guint i = 0; i < item->n_dims; i++)
    {
      if (!g_size_checked_mul (&field_size, field_size, (gsize) item->shape[i]))
        return FALSE;
    }

  if (!g_size_checked_add (&field.offset, *size, gap)
      || !g_size_checked_add (size, field.offset, field_size))
    return FALSE;

  if (item->is_padding && *parser->next != ':')
    return TRUE;

  field.name = parse_field_name (parser, fields->len);

  if (field.name == NULL)
    return FALSE;

  field.type = gpu_dtype_ref (item->type);
  field.shape = g_memdup2 (item->shape, item->n_dims * sizeof *item->shape);
  g_array_append_val (fields, field);

  return TRUE;
}

/* Parses the fields after "T{", up to the closing brace. */
static GpuDType *
parse_record (Parser *parser,
              gsize  *alignment)
{
  g_autoptr (GArray) fields = _gpu_dtype_fields_new ();
  char order = parser->order;
  gsize size = 0;

  while (*parser->next != '}')
    {
      Item item;
      gboolean taken = parse_item (parser, &item) && take_field (parser, &item, fields, &size);

      *alignment = MAX (*alignment, item.alignment);
      g_clear_pointer (&item.type, gpu_dtype_unref);

      if (!taken)
        return NULL;
    }

  parser->next++;
  parser->order = order;

  return _gpu_dtype_new_for_fields (g_steal_pointer (&fields), size);
}

/* Returns the type of @item. If the item has a shape, its type is a record with a single field of
 * that shape. */
static GpuDType *
to_type (const Item *item)
{
  const GpuDTypeField field = { (char *) "f0", item->type, 0, item->n_dims,
                                (gssize *) item->shape };
  GArray *fields;
  gsize size = item->type->item_size;

  if (item->n_dims == 0)
    return gpu_dtype_ref (item->type);

  for (guint i = 0; i < item->n_dims; i++)
    {
      if (!g_size_checked_mul (&size, size, (gsize) item->shape[i]))
        return NULL;
    }

  fields = _gpu_dtype_fields_new ();
  _gpu_dtype_fields_append (fields, &field);

  return _gpu_dtype_new_for_fields (fields, size);
}

/**
 * gpu_dtype_new_from_format:
 * @format: a format of PEP 3118
 * @error: return location for an error
 *
 * Creates a type from the format of an element of a Python buffer: `f`, `<q`, `Zd`, `12x` or
 * `T{i:id:f:weight:}`. `c`, `s` and `x` are opaque, with the preceding count as the number of
 * bytes. A count before any other type, as in `3f`, or a shape, as in `(2)x`, results in a record
 * with the single field `f0`. Fields without a name are also named by their index: `f0`, `f1` and
 * so on.
 *
 * Returns: (transfer full): the type, or %NULL with %GPU_ERROR_INVALID_ARGUMENT if @format is not
 *   valid, contains pointers or other elements that are not data, nests records more than 64 deep,
 *   or is not in the byte order of the host
 *
 * Since: 0.1
 */
GpuDType *
gpu_dtype_new_from_format (const char  *format,
                           GError     **error)
{
  Parser parser = { .next = format, .order = '@' };
  GpuDType *dtype = NULL;
  Item item;

  g_return_val_if_fail (format != NULL, NULL);

  if (parse_item (&parser, &item) && *parser.next == '\0')
    dtype = to_type (&item);

  g_clear_pointer (&item.type, gpu_dtype_unref);

  if (parser.is_too_deep)
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                 "gpu_dtype_new_from_format: at byte %" G_GSIZE_FORMAT " of the format, more "
                 "than %d records are nested", (gsize) (parser.next - format),
                 GPU_DTYPE_MAX_NESTING);
  else if (dtype == NULL)
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                 "gpu_dtype_new_from_format: '%s' is not a valid format at '%s'", format,
                 parser.next);

  return dtype;
}

static gboolean
append_format (GString  *text,
               GpuDType *dtype);

static gboolean
append_fields (GString  *text,
               GpuDType *dtype)
{
  gsize end = 0;

  g_string_append (text, "T{");

  for (guint i = 0; i < gpu_dtype_get_n_fields (dtype); i++)
    {
      const GpuDTypeField *field = &g_array_index (dtype->fields, GpuDTypeField, i);

      if (field->offset < end || strchr (field->name, ':') != NULL)
        return FALSE;

      if (field->offset > end)
        g_string_append_printf (text, "%" G_GSIZE_FORMAT "x", field->offset - end);

      for (guint k = 0; k < field->n_dims; k++)
        g_string_append_printf (text, "%c%" G_GSSIZE_FORMAT, k == 0 ? '(' : ',', field->shape[k]);

      g_string_append (text, field->n_dims > 0 ? ")" : "");

      if (!append_format (text, field->type))
        return FALSE;

      g_string_append_printf (text, ":%s:", field->name);
      end = field->offset + _gpu_dtype_field_get_size (field);
    }

  if (end < dtype->item_size)
    g_string_append_printf (text, "%" G_GSIZE_FORMAT "x", dtype->item_size - end);

  g_string_append_c (text, '}');

  return TRUE;
}

static gboolean
append_format (GString  *text,
               GpuDType *dtype)
{
  gboolean is_complex = dtype->kind == GPU_DTYPE_KIND_COMPLEX;
  GpuDTypeKind kind = is_complex ? GPU_DTYPE_KIND_FLOAT : dtype->kind;
  gsize size = is_complex ? dtype->item_size / 2 : dtype->item_size;

  if (kind == GPU_DTYPE_KIND_RECORD)
    return append_fields (text, dtype);

  if (kind == GPU_DTYPE_KIND_OPAQUE)
    {
      g_string_append_printf (text, "%" G_GSIZE_FORMAT "x", size);
      return TRUE;
    }

  for (guint i = 0; i < G_N_ELEMENTS (codes); i++)
    {
      if (codes[i].kind != kind || codes[i].standard != size)
        continue;

      g_string_append_printf (text, "%s%c", is_complex ? "Z" : "", codes[i].letter);
      return TRUE;
    }

  return FALSE;
}

/**
 * gpu_dtype_to_format:
 * @dtype: a #GpuDType
 *
 * Gets the format of PEP 3118, as accepted by gpu_dtype_new_from_format().
 *
 * Returns: (transfer full) (nullable): the format, or %NULL for types without such a format:
 *   bfloat16, and records whose fields overlap, are not in the order of their offsets, or have a
 *   colon in a name
 *
 * Since: 0.1
 */
char *
gpu_dtype_to_format (GpuDType *dtype)
{
  g_autoptr (GString) text = g_string_new (NULL);

  g_return_val_if_fail (dtype != NULL, NULL);

  if (dtype->kind == GPU_DTYPE_KIND_RECORD)
    g_string_append_c (text, '=');

  if (!append_format (text, dtype))
    return NULL;

  return g_string_free (g_steal_pointer (&text), FALSE);
}
