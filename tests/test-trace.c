/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Files of recorded allocations: their content in both formats, plain and compressed, and the
 * errors for invalid files. */
#include "config.h"

#include <glib/gstdio.h>

#include "tools/gpumem-trace.h"

#include "test-util.h"

static char *path;                  /* path of the file that the tests write */

static void
write_file (gconstpointer data,
            gsize         size)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (g_file_set_contents (path, data, size, &error), error);
}

static GBytes *
compress (const char *text,
          gsize       size)
{
  g_autoptr (GConverter) gzip = G_CONVERTER (g_zlib_compressor_new (G_ZLIB_COMPRESSOR_FORMAT_GZIP,
                                                                    9));
  g_autoptr (GInputStream) plain = g_memory_input_stream_new_from_data (text, size, NULL);
  g_autoptr (GInputStream) packed = g_converter_input_stream_new (plain, gzip);
  g_autoptr (GOutputStream) output = g_memory_output_stream_new_resizable ();
  g_autoptr (GError) error = NULL;

  test_assert_ok (g_output_stream_splice (output, packed, G_OUTPUT_STREAM_SPLICE_CLOSE_TARGET, NULL,
                                          &error) >= 0, error);

  return g_memory_output_stream_steal_as_bytes (G_MEMORY_OUTPUT_STREAM (output));
}

static GpumemTrace *
read_file (void)
{
  g_autoptr (GError) error = NULL;
  GpumemTrace *trace = gpumem_trace_read (path, &error);

  test_assert_ok (trace != NULL, error);

  return trace;
}

static GpumemTrace *
read_text (const char *text)
{
  write_file (text, strlen (text));

  return read_file ();
}

/* Returns the operations as text, such as "a block:size@stream", for comparison. */
static char *
describe (const GpumemTrace *trace)
{
  GString *text = g_string_new (NULL);

  for (gsize i = 0; i < trace->n_operations; i++)
    {
      const GpumemTraceOperation *operation = &trace->operations[i];

      g_string_append_printf (text, "%s%s %u:%" G_GUINT64_FORMAT "@%s", i > 0 ? ", " : "",
                              operation->is_free ? "f" : "a", operation->block, operation->size,
                              (const char *) g_ptr_array_index (trace->streams,
                                                                operation->stream));
    }

  return g_string_free (text, FALSE);
}

#define assert_operations(trace, expected) \
  G_STMT_START { \
    g_autofree char *got_ = describe (trace); \
    g_assert_cmpstr (got_, ==, expected); \
  } G_STMT_END

/* --- valid files -------------------------------------------------------------------- */

static const char lines[] =
  "# workload=two seconds=1.5\n"
  "\n"
  "a 7 1000 0\n"
  "  a\t8 0 main  \r\n"
  "# in between\n"
  "a 18446744073709551615 24 0\n"
  "f 7 main\n"
  "a 7 5000000000 0\n"
  "f 8 0";

static void
assert_lines (const GpumemTrace *trace)
{
  assert_operations (trace, "a 0:1000@0, a 1:0@main, a 2:24@0, f 0:1000@main, a 3:5000000000@0, "
                     "f 1:0@0");
  g_assert_cmpstr (trace->comment, ==, "workload=two seconds=1.5");
  g_assert_cmpuint (trace->n_blocks, ==, 4);
  g_assert_cmpuint (trace->n_failures, ==, 0);
  g_assert_cmpuint (trace->streams->len, ==, 2);
  g_assert_cmpuint (trace->peak_live, ==, G_GUINT64_CONSTANT (5000000024));
  g_assert_cmpuint (trace->live, ==, G_GUINT64_CONSTANT (5000000024));
  g_assert_cmpuint (trace->peak_blocks, ==, 3);
}

static void
check_lines (void)
{
  g_autoptr (GpumemTrace) trace = read_text (lines);

  assert_lines (trace);
}

static void
check_rmm (void)
{
  g_autoptr (GpumemTrace) trace = read_text (
    "Thread,Time,Action,Pointer,Size,Stream\n"
    "140202,12:00:01:100,allocate,0x7f00aa000000,1048576,0x0\n"
    "140203,12:00:01:101,allocate,0x7f00bb000000,512,0x5581\n"
    "140202,12:00:01:102,allocate_failure,0x0,99999999999,0x0\n"
    "140202,12:00:01:103,allocate,0x0,0,0x0\n"
    "140202,12:00:01:104,free,0x0,0,0x0\n"
    "140202,12:00:01:105,free,0x7f00aa000000,1048576,0x5581\n"
    "140202,12:00:01:106,allocate,0x7F00AA000000,256,0x0\n");
  g_autoptr (GpumemTrace) other = NULL;

  assert_operations (trace, "a 0:1048576@0x0, a 1:512@0x5581, f 0:1048576@0x5581, a 2:256@0x0");
  g_assert_cmpuint (trace->n_failures, ==, 1);
  g_assert_cmpuint (trace->n_blocks, ==, 3);
  g_assert_cmpuint (trace->peak_live, ==, 1048576 + 512);
  g_assert_cmpuint (trace->live, ==, 512 + 256);
  g_assert_null (trace->comment);

  /* The parser finds columns by their names */
  other = read_text ("# a comment\nsize, Stream ,What,pointer,ACTION\r\n"
                     "64,s,x,ff,allocate\r\n 32 , s , x , fe , allocate \n64,t,x,0xff,free\n");
  assert_operations (other, "a 0:64@s, a 1:32@s, f 0:64@t");
}

/* Makes a text that is longer than one read. */
static char *
make_long (guint n)
{
  GString *text = g_string_new ("# long\n");

  for (guint i = 0; i < n; i++)
    g_string_append_printf (text, "a %u 4096 0\n", i);
  for (guint i = 0; i < n; i++)
    g_string_append_printf (text, "f %u 0\n", i);

  return g_string_free (text, FALSE);
}

static void
assert_long (const GpumemTrace *trace,
             guint              n)
{
  g_assert_cmpuint (trace->n_operations, ==, 2 * n);
  for (guint i = 0; i < n; i++)
    {
      g_assert_cmpuint (trace->operations[i].block, ==, i);
      g_assert_false (trace->operations[i].is_free);
      g_assert_cmpuint (trace->operations[n + i].block, ==, i);
      g_assert_true (trace->operations[n + i].is_free);
    }
  g_assert_cmpuint (trace->peak_live, ==, (guint64) n * 4096);
  g_assert_cmpuint (trace->peak_blocks, ==, n);
  g_assert_cmpuint (trace->live, ==, 0);
}

static void
check_long (void)
{
  const guint n = 100000;
  g_autofree char *text = make_long (n);
  g_autoptr (GBytes) packed = compress (text, strlen (text));
  g_autoptr (GpumemTrace) plain = read_text (text);
  g_autoptr (GpumemTrace) trace = NULL;

  assert_long (plain, n);
  write_file (g_bytes_get_data (packed, NULL), g_bytes_get_size (packed));
  trace = read_file ();
  assert_long (trace, n);
}

static void
check_compressed (void)
{
  g_autoptr (GBytes) packed = compress (lines, strlen (lines));
  g_autoptr (GpumemTrace) trace = NULL;
  g_autoptr (GpumemTrace) joined = NULL;
  g_autoptr (GByteArray) both = g_byte_array_new ();

  write_file (g_bytes_get_data (packed, NULL), g_bytes_get_size (packed));
  trace = read_file ();
  assert_lines (trace);

  /* Two compressed parts, split in the middle of a line */
  for (guint i = 0; i < 2; i++)
    {
      const gsize half = strlen (lines) / 2;
      g_autoptr (GBytes) part = compress (lines + i * half, i == 0 ? half : strlen (lines) - half);

      g_byte_array_append (both, g_bytes_get_data (part, NULL), g_bytes_get_size (part));
    }
  write_file (both->data, both->len);
  joined = read_file ();
  assert_lines (joined);
}

/* Reads a small file that expands to more bytes than the buffer of the decompressor holds */
static void
check_large_expansion (void)
{
  g_autoptr (GString) text = g_string_new ("a 1 1 0\n");
  g_autoptr (GBytes) packed = NULL;
  g_autoptr (GpumemTrace) trace = NULL;

  for (guint i = 0; i < 3000000; i++)
    g_string_append_c (text, '\n');
  g_string_append (text, "f 1 0\n");
  packed = compress (text->str, text->len);
  g_assert_cmpuint (g_bytes_get_size (packed), <, 65536);
  write_file (g_bytes_get_data (packed, NULL), g_bytes_get_size (packed));
  trace = read_file ();
  assert_operations (trace, "a 0:1@0, f 0:1@0");
}

/* --- invalid files -------------------------------------------------------------------- */

#define RMM "Thread,Time,Action,Pointer,Size,Stream\n"

static const struct
{
  const char *text;
  guint       line;
  const char *words;
} bad[] =
{
  { "", 0, "no operations" },
  { "# only this\n\n", 2, "no operations" },
  { RMM, 1, "no operations" },
  { "hello\n", 1, "neither an operation" },
  { "g 1 0\n", 1, "neither an operation" },
  { "a 1 10 0\n\nb 1 0\n", 3, "\"b\" is neither a" },
  { "a 1 10\n", 1, "3 words instead of \"a ID SIZE STREAM\"" },
  { "a 1 10 0 0\n", 1, "5 words" },
  { "a 1 10 0\nf 1", 2, "2 words instead of \"f ID STREAM\"" },
  { "a 1 10 0\na 2 1", 2, "3 words" },
  { "a x 10 0\n", 1, "the id \"x\" is not a number" },
  { "a 1 -10 0\n", 1, "the size \"-10\" is not a number" },
  { "a 1 10k 0\n", 1, "the size \"10k\" is not a number" },
  { "a 1 18446744073709551616 0\n", 1, "the size \"18446744073709551616\" is more than" },
  { "a 1 18446744073709551615 0\na 2 1 0\n", 2, "more than can be counted" },
  { "a 1 9223372036854775808 0\na 2 9223372036854775808 0\n", 2,
    "on top of the 9223372036854775808" },
  { RMM "1,2,allocate,0x10,18446744073709551615,0\n1,2,allocate,0x20,1,0\n", 3, "be counted" },
  { "a 1 10 0\nf 1 0\na 1 10 0\na 1 10 0\n", 4, "block 1 is allocated twice without a free" },
  { "a 1 10 0\nf 2 0\n", 2, "block 2 is freed, but is not allocated" },
  { "a 1 10 0\nf 1 0\nf 1 0\n", 3, "block 1 is freed, but is not allocated" },
  { "a 1 10 0\nf 1 \xff\n", 2, "not text" },
  { "Thread,Time,Pointer,Size,Stream\n", 1, "no column is called Action" },
  { "Thread,Time,Action,Pointer,Size\n", 1, "no column is called Stream" },
  { RMM "1,2,allocate,0x10,64\n", 2, "5 columns instead of 6" },
  { RMM "1,2,allocate,0x10,64,0,\n", 2, "7 columns instead of 6" },
  { RMM "1,2,allocated,0x10,64,0\n", 2, "\"allocated\" is neither allocate nor free" },
  { RMM "1,2,allocate,pointer,64,0\n", 2, "the pointer \"pointer\" is not a number" },
  { RMM "1,2,allocate,0x10,,0\n", 2, "the size \"\" is not a number" },
  { RMM "1,2,allocate,0x10,64,0\n1,2,allocate,0x10,64,0\n", 3, "block 0x10 is allocated" },
  { RMM "1,2,allocate,0x10,64,0\n1,2,free,0x10,65,0\n", 3, "with 65 bytes, but has 64" },
  { RMM "1,2,free,0x10,64,0\n", 2, "block 0x10 is freed" },
};

static void
check_bad (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      g_autofree char *place = g_strdup_printf ("%s:%u: ", path, bad[i].line);
      g_autofree char *shown = g_strescape (bad[i].text, NULL);
      g_autoptr (GError) error = NULL;

      g_test_message ("%s", shown);
      write_file (bad[i].text, strlen (bad[i].text));
      g_assert_null (gpumem_trace_read (path, &error));
      g_assert_true (g_str_has_prefix (error->message, place));
      test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA, bad[i].words);
    }
}

static void
check_not_text (void)
{
  g_autofree char *long_line = g_strnfill (200000, 'a');
  g_autoptr (GError) error = NULL;

  write_file ("a 1 10 0\nf 1\0 0\n", 17);
  g_assert_null (gpumem_trace_read (path, &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA, path, ":2: not text");

  write_file (long_line, strlen (long_line));
  g_assert_null (gpumem_trace_read (path, &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA, ":1: a line of more than");
}

static void
check_no_file (void)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (gpumem_trace_read ("/nonexistent/trace", &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND, "/nonexistent/trace");
}

/* Reads truncated copies of a file, and copies in which one byte is changed. Each read must
 * fail. */
static void
check_damaged (void)
{
  g_autofree char *text = make_long (300);
  g_autoptr (GBytes) packed = compress (text, strlen (text));
  const gsize size = g_bytes_get_size (packed);
  g_autofree guint8 *damaged = g_memdup2 (g_bytes_get_data (packed, NULL), size);

  for (gsize length = 2; length < size; length++)
    {
      g_autoptr (GError) error = NULL;

      write_file (damaged, length);
      g_assert_null (gpumem_trace_read (path, &error));
      test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_PARTIAL_INPUT, path, "too early");
    }
  for (gsize i = 20; i < size; i++)
    {
      g_autoptr (GError) error = NULL;

      damaged[i] ^= 0x55;
      write_file (damaged, size);
      g_assert_null (gpumem_trace_read (path, &error));
      g_assert_nonnull (strstr (error->message, path));
      damaged[i] ^= 0x55;
    }
}

int
main (int    argc,
      char **argv)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *folder = g_dir_make_tmp ("gpumem-trace-XXXXXX", &error);
  int status;

  test_init (&argc, &argv);
  test_assert_ok (folder != NULL, error);
  path = g_build_filename (folder, "trace", NULL);

  test_add_plain ("lines", check_lines);
  test_add_plain ("rmm", check_rmm);
  test_add_plain ("long", check_long);
  test_add_plain ("compressed", check_compressed);
  test_add_plain ("large-expansion", check_large_expansion);
  test_add_plain ("bad", check_bad);
  test_add_plain ("not-text", check_not_text);
  test_add_plain ("no-file", check_no_file);
  test_add_plain ("damaged", check_damaged);

  status = test_run ();
  g_remove (path);
  g_rmdir (folder);
  g_free (path);

  return status;
}
