/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Types as texts: those of NumPy, and the formats of Python's buffers. */
#include "config.h"

#include <string.h>

#include "gpumem/format/gpu-dtype-private.h"

/* The letters of NumPy, by kind. */
static const char letters[] = "biuf\0cVV";

static const struct
{
  const char   *name;
  GpuDTypeKind  kind;
  gsize         bits;               /* of the name, 0 for none */
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

/* PEP 3118: letter, kind and size; the native size differs from the standard one for 'l' and 'L'.
 * */
static const struct
{
  char          letter;
  guint8        native;             /* bytes */
  guint8        standard;
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
 * @text: what NumPy calls the type
 * @error: return location for an error
 *
 * Makes a type from its name, `float32`, `bfloat16`, `bool` or `void96`, or from what NumPy's
 * array interface has for it: a letter, `b`, `i`, `u`, `f`, `c` or `V`, and the number of bytes,
 * with a byte order before it or without, `<f4` or `|V12`. What `V` stands for is opaque: fields
 * are no part of such a text.
 *
 * Returns: (transfer full): the type, or %NULL with %GPU_ERROR_INVALID_ARGUMENT if there is none
 *   of that name, or %GPU_ERROR_NOT_SUPPORTED if the byte order is not that of the host
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
                   "gpu_dtype_new_from_string: '%s' is not in the byte order of the host", text);
    }

  return dtype;
}

/**
 * gpu_dtype_to_string:
 * @dtype: a #GpuDType
 *
 * Tells what NumPy's array interface has for the type: `<f4` or `|b1`; `|V12` for what is opaque
 * and for records, whose fields are left out. NumPy knows no brain floats: they are `bfloat16`.
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
 * Tells the name, with the number of bits: `float32`, `bfloat16`, `bool`; `void96` for what is
 * opaque and for records.
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

/* What stands before the letter, and the type. */
typedef struct
{
  GpuDType *type;
  gssize    shape[GPU_ARRAY_MAX_DIMS];
  guint     n_dims;
  gssize    count;                  /* 0 for none */
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

/* (2,3), and a number. */
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

      if (*parser->next++ != ')')
        return FALSE;
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

/* A number that is no size stands for one dimension. */
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

/* :name:, or a name like those of NumPy for what has none. */
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

/* Adds the field to the list, and its size to that of the record. */
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

/* What follows "T{", up to its end. */
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

/* The type of all of an item: a record with a single field, if it has a shape. */
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
 * Makes a type from the format of a buffer of Python's, one element of it: `f`, `<q`, `Zd`, `12x`
 * or `T{i:id:f:weight:}`. What `c`, `s` and `x` stand for is opaque, of as many bytes as the number
 * before them says; several of anything else, and `(2)x`, two opaque bytes, are a record with the
 * field `f0`. Fields that have no name are called so, too, by their number.
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
                 "gpu_dtype_new_from_format: there is no type for '%s', from '%s' on", format,
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
 * Tells the format of PEP 3118, which gpu_dtype_new_from_format() takes.
 *
 * Returns: (transfer full) (nullable): the format; %NULL for what has none: brain floats, and
 *   records whose fields overlap, are not in the order of their offsets, or have a colon in a name
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
