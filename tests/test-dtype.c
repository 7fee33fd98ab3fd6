/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Element types: numbers, records, and the conversion from and to text. */
#include "config.h"

#include "test-util.h"

static const struct
{
  GpuDTypeKind  kind;
  gsize         size;
  const char   *name;
  const char   *string;
  const char   *format;           /* NULL if there is none */
} numbers[] =
{
  { GPU_DTYPE_KIND_BOOL, 1, "bool", "|b1", "?" },
  { GPU_DTYPE_KIND_INT, 1, "int8", "|i1", "b" },
  { GPU_DTYPE_KIND_INT, 2, "int16", "<i2", "h" },
  { GPU_DTYPE_KIND_INT, 4, "int32", "<i4", "i" },
  { GPU_DTYPE_KIND_INT, 8, "int64", "<i8", "q" },
  { GPU_DTYPE_KIND_UINT, 1, "uint8", "|u1", "B" },
  { GPU_DTYPE_KIND_UINT, 2, "uint16", "<u2", "H" },
  { GPU_DTYPE_KIND_UINT, 4, "uint32", "<u4", "I" },
  { GPU_DTYPE_KIND_UINT, 8, "uint64", "<u8", "Q" },
  { GPU_DTYPE_KIND_FLOAT, 2, "float16", "<f2", "e" },
  { GPU_DTYPE_KIND_FLOAT, 4, "float32", "<f4", "f" },
  { GPU_DTYPE_KIND_FLOAT, 8, "float64", "<f8", "d" },
  { GPU_DTYPE_KIND_FLOAT, 16, "float128", "<f16", "g" },
  { GPU_DTYPE_KIND_BFLOAT, 2, "bfloat16", "bfloat16", NULL },
  { GPU_DTYPE_KIND_COMPLEX, 4, "complex32", "<c4", "Ze" },
  { GPU_DTYPE_KIND_COMPLEX, 8, "complex64", "<c8", "Zf" },
  { GPU_DTYPE_KIND_COMPLEX, 16, "complex128", "<c16", "Zd" },
  { GPU_DTYPE_KIND_COMPLEX, 32, "complex256", "<c32", "Zg" },
  { GPU_DTYPE_KIND_OPAQUE, 12, "void96", "|V12", "12x" }
};

/* Element types belong to no device, but count as live objects. */
static void
dtype_numbers (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuDType) dtype = gpu_dtype_new (numbers[i].kind, numbers[i].size, &error);
      g_autoptr (GpuDType) by_name = gpu_dtype_new_from_string (numbers[i].name, &error);
      g_autoptr (GpuDType) by_string = NULL;
      g_autofree char *name = gpu_dtype_get_name (dtype);
      g_autofree char *string = gpu_dtype_to_string (dtype);
      g_autofree char *format = gpu_dtype_to_format (dtype);

      g_assert_no_error (error);
      g_assert_cmpint (gpu_dtype_get_kind (dtype), ==, numbers[i].kind);
      g_assert_cmpuint (gpu_dtype_get_item_size (dtype), ==, numbers[i].size);
      g_assert_cmpstr (name, ==, numbers[i].name);
      g_assert_cmpstr (format, ==, numbers[i].format);

      if (G_BYTE_ORDER == G_LITTLE_ENDIAN)
        g_assert_cmpstr (string, ==, numbers[i].string);

      by_string = gpu_dtype_new_from_string (string, &error);
      g_assert_no_error (error);
      g_assert_true (gpu_dtype_equal (dtype, by_name));
      g_assert_true (gpu_dtype_equal (dtype, by_string));
      g_assert_cmpuint (gpu_dtype_hash (dtype), ==, gpu_dtype_hash (by_string));

      if (format != NULL)
        {
          g_autoptr (GpuDType) by_format = gpu_dtype_new_from_format (format, &error);

          g_assert_no_error (error);
          g_assert_true (gpu_dtype_equal (dtype, by_format));
        }

      for (guint k = 0; k < i; k++)
        {
          g_autoptr (GpuDType) other = gpu_dtype_new_from_string (numbers[k].name, NULL);

          g_assert_false (gpu_dtype_equal (dtype, other));
        }
    }
}

static void
dtype_constants (void)
{
  g_assert_cmpuint (gpu_dtype_get_item_size (GPU_DTYPE_FLOAT16), ==, 2);
  g_assert_cmpint (gpu_dtype_get_kind (GPU_DTYPE_BFLOAT16), ==, GPU_DTYPE_KIND_BFLOAT);
  g_assert_true (GPU_DTYPE_FLOAT32 == GPU_DTYPE_FLOAT32);
  g_assert_false (gpu_dtype_equal (GPU_DTYPE_INT32, GPU_DTYPE_UINT32));
  g_assert_null (gpu_dtype_get_number (GPU_DTYPE_KIND_INT, 16));
  g_assert_null (gpu_dtype_get_number (GPU_DTYPE_KIND_RECORD, 4));
}

/* Invalid strings are refused with an error that quotes them. */
static void
dtype_refused (void)
{
  static const char *const strings[] = { "", "<", "f", "<f3", "i16", "O8", "float", "float33",
                                         "<x4", "V0", "|V-1", "float32x", "bool8",
                                         "V99999999999999999999" };
  static const char *const formats[] = { "", "y", "O", "Zi", "T{i:a:", "T{i:a", "T{i:a:i:a:}", "(2",
                                         "0f", "ff", "T{}", "&f", "(2,)f", "T{f:x:}f", ">f",
                                         "(2)3f", "T{i::}", "T{i:f1:i}" };
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (strings); i++)
    {
      g_autofree char *quoted = g_strdup_printf ("'%s'", strings[i]);

      g_assert_null (gpu_dtype_new_from_string (strings[i], &error));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, quoted);
    }

  for (guint i = 0; i < G_N_ELEMENTS (formats); i++)
    {
      g_autofree char *quoted = g_strdup_printf ("'%s'", formats[i]);

      g_assert_null (gpu_dtype_new_from_format (formats[i], &error));
      /* The message ends with the rest of the format, which is not past its end. */
      g_assert_true (g_str_has_suffix (quoted, strrchr (error->message, ' ') + 2));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, quoted);
    }

  g_assert_null (gpu_dtype_new_from_string (G_BYTE_ORDER == G_LITTLE_ENDIAN ? ">f4" : "<f4",
                                            &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "f4", "byte order");
  g_assert_null (gpu_dtype_new (GPU_DTYPE_KIND_FLOAT, 3, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "3 bytes");
  g_assert_null (gpu_dtype_new (GPU_DTYPE_KIND_OPAQUE, 0, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "0 bytes");
}

static GpuDType *
add_field (GpuDType     *dtype,
           const char   *name,
           GpuDType     *type,
           gsize         offset,
           const gssize *shape,
           guint         n_dims)
{
  g_autoptr (GError) error = NULL;
  GpuDType *result = gpu_dtype_add_field (dtype, name, type, offset, shape, n_dims, &error);

  g_assert_no_error (error);
  gpu_dtype_unref (dtype);

  return result;
}

static void
dtype_records (void)
{
  const gssize shape[] = { 2, 3 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDType) record = gpu_dtype_new_record (40, &error);
  g_autoptr (GpuDType) again = NULL;
  g_autofree char *format = NULL;
  const gssize *found;
  guint n_dims;

  g_assert_no_error (error);
  record = add_field (record, "id", GPU_DTYPE_UINT8, 0, NULL, 0);
  record = add_field (record, "weight", GPU_DTYPE_FLOAT64, 4, NULL, 0);
  record = add_field (record, "grid", GPU_DTYPE_INT16, 20, shape, 2);

  g_assert_cmpuint (gpu_dtype_get_n_fields (record), ==, 3);
  g_assert_cmpint (gpu_dtype_find_field (record, "weight"), ==, 1);
  g_assert_cmpint (gpu_dtype_find_field (record, "height"), ==, -1);
  g_assert_cmpstr (gpu_dtype_get_field_name (record, 2), ==, "grid");
  g_assert_cmpuint (gpu_dtype_get_field_offset (record, 1), ==, 4);
  g_assert_true (gpu_dtype_equal (gpu_dtype_get_field_type (record, 2), GPU_DTYPE_INT16));
  found = gpu_dtype_get_field_shape (record, 2, &n_dims);
  g_assert_cmpmem (found, n_dims * sizeof *found, shape, sizeof shape);
  g_assert_null (gpu_dtype_get_field_name (record, 3));

  format = gpu_dtype_to_format (record);
  g_assert_cmpstr (format, ==, "=T{B:id:3xd:weight:8x(2,3)h:grid:8x}");
  again = gpu_dtype_new_from_format (format, &error);
  g_assert_no_error (error);
  g_assert_true (gpu_dtype_equal (record, again));

  g_assert_null (gpu_dtype_add_field (record, "id", GPU_DTYPE_INT8, 1, NULL, 0, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "'id'");
  g_assert_null (gpu_dtype_add_field (record, "more", GPU_DTYPE_FLOAT64, 33, NULL, 0, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "'more'", "33", "40 bytes");
  g_assert_null (gpu_dtype_add_field (GPU_DTYPE_INT8, "x", GPU_DTYPE_INT8, 0, NULL, 0, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "'x'");
}

/* In native PEP 3118 formats, fields are aligned as in C, and 'l' is a C long. */
static void
dtype_formats (void)
{
  struct Plain
  {
    char  a;
    long  b;
    short c;
  };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDType) plain = gpu_dtype_new_from_format ("T{b:a:l:b:h:c:}", &error);
  g_autoptr (GpuDType) packed = gpu_dtype_new_from_format ("<T{b:a:l:b:h}", &error);
  g_autoptr (GpuDType) nested = gpu_dtype_new_from_format ("T{T{f:x:f:y:}:p:3B:rgb:}", &error);
  g_autoptr (GpuDType) several = gpu_dtype_new_from_format ("(2,3)f", &error);
  guint n_dims;

  g_assert_no_error (error);
  g_assert_cmpuint (gpu_dtype_get_field_offset (plain, 1), ==, G_STRUCT_OFFSET (struct Plain, b));
  g_assert_cmpuint (gpu_dtype_get_field_offset (plain, 2), ==, G_STRUCT_OFFSET (struct Plain, c));
  g_assert_cmpuint (gpu_dtype_get_item_size (packed), ==, 7);
  g_assert_cmpstr (gpu_dtype_get_field_name (packed, 2), ==, "f2");
  g_assert_cmpuint (gpu_dtype_get_item_size (nested), ==, 11);
  g_assert_cmpuint (gpu_dtype_get_n_fields (gpu_dtype_get_field_type (nested, 0)), ==, 2);
  g_assert_cmpint (gpu_dtype_get_field_shape (nested, 1, &n_dims)[0], ==, 3);
  g_assert_cmpuint (gpu_dtype_get_item_size (several), ==, 24);
}

/* The size of an opaque field is not a dimension of its shape. */
static void
dtype_opaque_fields (void)
{
  const gssize shape[] = { 2, 3 };
  const gssize *found;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDType) opaque = gpu_dtype_new (GPU_DTYPE_KIND_OPAQUE, 5, &error);
  g_autoptr (GpuDType) record = gpu_dtype_new_record (40, &error);
  g_autoptr (GpuDType) again = NULL;
  g_autoptr (GpuDType) two = gpu_dtype_new_from_format ("(2)x", &error);
  g_autofree char *format = NULL;
  guint n_dims;

  record = add_field (record, "blobs", opaque, 2, shape, 2);
  format = gpu_dtype_to_format (record);
  g_assert_cmpstr (format, ==, "=T{2x(2,3)5x:blobs:8x}");
  again = gpu_dtype_new_from_format (format, &error);
  g_assert_no_error (error);
  g_assert_true (gpu_dtype_equal (record, again));

  g_assert_cmpuint (gpu_dtype_get_item_size (two), ==, 2);
  g_assert_cmpuint (gpu_dtype_get_item_size (gpu_dtype_get_field_type (two, 0)), ==, 1);
  found = gpu_dtype_get_field_shape (two, 0, &n_dims);
  g_assert_cmpuint (n_dims, ==, 1);
  g_assert_cmpint (found[0], ==, 2);
}

/* Parses so many fields that a quadratic algorithm would exceed the time limit of the test. */
static void
dtype_many_fields (void)
{
  const guint n = 100000;
  g_autoptr (GError) error = NULL;
  g_autoptr (GString) format = g_string_new ("=T{");
  g_autoptr (GpuDType) record = NULL;

  for (guint i = 0; i < n; i++)
    g_string_append_printf (format, "i:field%u:", i);

  g_string_append_c (format, '}');
  record = gpu_dtype_new_from_format (format->str, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (gpu_dtype_get_n_fields (record), ==, n);
  g_assert_cmpuint (gpu_dtype_get_field_offset (record, n - 1), ==, 4 * (n - 1));
  g_assert_cmpstr (gpu_dtype_get_field_name (record, n - 1), ==, "field99999");
}

/* Creates @depth nested records around a number. */
static GpuDType *
nest (guint    depth,
      GError **error)
{
  GpuDType *dtype = gpu_dtype_ref (GPU_DTYPE_INT32);

  for (guint i = 0; i < depth && dtype != NULL; i++)
    {
      g_autoptr (GpuDType) record = gpu_dtype_new_record (4, NULL);
      g_autoptr (GpuDType) inner = dtype;

      dtype = gpu_dtype_add_field (record, "in", inner, 0, NULL, 0, error);
    }

  return dtype;
}

static char *
nest_format (guint depth)
{
  GString *format = g_string_new (NULL);

  for (guint i = 0; i < depth; i++)
    g_string_append (format, "T{");
  g_string_append_c (format, 'i');
  for (guint i = 0; i < depth; i++)
    g_string_append_c (format, '}');

  return g_string_free (format, FALSE);
}

/* The nesting is limited, because comparing, formatting, parsing and freeing a type uses stack
 * space for each level. */
static void
dtype_nesting (void)
{
  const guint most = 64;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDType) deepest = nest (most, &error);
  g_autoptr (GpuDType) same = nest (most, &error);
  g_autofree char *format = gpu_dtype_to_format (deepest);
  g_autofree char *deeper = nest_format (most + 1);
  g_autofree char *endless = nest_format (1000000);
  g_autofree char *open = g_strndup (endless, strlen (endless) / 2);
  g_autoptr (GpuDType) read = gpu_dtype_new_from_format (format, &error);

  g_assert_no_error (error);
  g_assert_true (gpu_dtype_equal (deepest, same));
  g_assert_true (gpu_dtype_equal (deepest, read));

  g_assert_null (nest (most + 1, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_dtype_add_field", "'in'",
                         "64 records", "63");
  g_assert_null (gpu_dtype_new_from_format (deeper, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "byte 128", "64 records");
  g_assert_null (gpu_dtype_new_from_format (endless, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "byte 128", "64 records");
  g_assert_null (gpu_dtype_new_from_format (open, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "byte 128", "64 records");
}

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);
  test_add_plain ("numbers", dtype_numbers);
  test_add_plain ("constants", dtype_constants);
  test_add_plain ("refused", dtype_refused);
  test_add_plain ("records", dtype_records);
  test_add_plain ("formats", dtype_formats);
  test_add_plain ("opaque-fields", dtype_opaque_fields);
  test_add_plain ("many-fields", dtype_many_fields);
  test_add_plain ("nesting", dtype_nesting);

  return test_run ();
}
