/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <string.h>

#include "tools/gpumem-trace.h"

#define CHUNK    65536              /* bytes read at once */
#define MAX_LINE 65536              /* bytes */
#define MAX_WORDS 32

typedef enum
{
  FORMAT_UNKNOWN,
  FORMAT_LINES,
  FORMAT_RMM
} Format;

/* Columns of the log of RMM. */
enum { ACTION, POINTER, SIZE, STREAM, N_COLUMNS };

static const char *const column_names[N_COLUMNS] = { "Action", "Pointer", "Size", "Stream" };

typedef struct
{
  guint64 id;
  guint32 block;
  guint64 size;
} Live;

typedef struct
{
  GpumemTrace *trace;
  const char  *path;
  guint64      line;
  Format       format;
  guint        columns[N_COLUMNS];
  guint        n_columns;
  GArray      *operations;
  GHashTable  *live;                /* of Live, by id */
  GHashTable  *streams;             /* name -> number + 1 */
  GByteArray  *text;                /* after the last complete line */
} Reader;

static gboolean G_GNUC_PRINTF (3, 4)
refuse (Reader      *reader,
        GError     **error,
        const char  *format,
        ...)
{
  g_autofree char *text = NULL;
  va_list ap;

  va_start (ap, format);
  text = g_strdup_vprintf (format, ap);
  va_end (ap);
  g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA, "%s:%" G_GUINT64_FORMAT ": %s",
               reader->path, reader->line, text);

  return FALSE;
}

/* --- operations ------------------------------------------------------------------ */

static guint
find_stream (Reader     *reader,
             const char *name)
{
  GPtrArray *streams = reader->trace->streams;
  guint number = GPOINTER_TO_UINT (g_hash_table_lookup (reader->streams, name));

  if (number > 0)
    return number - 1;

  g_ptr_array_add (streams, g_strdup (name));
  g_hash_table_insert (reader->streams, g_ptr_array_index (streams, streams->len - 1),
                       GUINT_TO_POINTER (streams->len));

  return streams->len - 1;
}

static void
add_operation (Reader     *reader,
               const Live *live,
               const char *stream,
               gboolean    is_free)
{
  const GpumemTraceOperation operation = { live->size, live->block, find_stream (reader, stream),
                                           is_free };

  g_array_append_val (reader->operations, operation);
}

static gboolean
add_alloc (Reader      *reader,
           guint64      id,
           const char  *id_name,
           guint64      size,
           const char  *stream,
           GError     **error)
{
  GpumemTrace *trace = reader->trace;
  Live *live = g_hash_table_lookup (reader->live, &id);

  if (live != NULL)
    return refuse (reader, error, "block %s is allocated twice without a free in between",
                   id_name);
  if (size > G_MAXUINT64 - trace->live)
    return refuse (reader, error, "%" G_GUINT64_FORMAT " bytes on top of the %" G_GUINT64_FORMAT
                   " that are live are more than can be counted", size, trace->live);
  if (trace->n_blocks == G_MAXUINT32)
    return refuse (reader, error, "more allocations than can be counted");

  live = g_new (Live, 1);
  *live = (Live) { id, (guint32) trace->n_blocks++, size };
  g_hash_table_add (reader->live, live);
  trace->live += size;
  trace->peak_live = MAX (trace->peak_live, trace->live);
  trace->peak_blocks = MAX (trace->peak_blocks, g_hash_table_size (reader->live));
  add_operation (reader, live, stream, FALSE);

  return TRUE;
}

/* @size: (nullable): the size of the block, if the log states it */
static gboolean
add_free (Reader         *reader,
          guint64         id,
          const char     *id_name,
          const guint64  *size,
          const char     *stream,
          GError        **error)
{
  const Live *live = g_hash_table_lookup (reader->live, &id);

  if (live == NULL)
    return refuse (reader, error, "block %s is freed, but is not allocated", id_name);
  if (size != NULL && *size != live->size)
    return refuse (reader, error, "block %s is freed with %" G_GUINT64_FORMAT " bytes, but has %"
                   G_GUINT64_FORMAT, id_name, *size, live->size);

  reader->trace->live -= live->size;
  add_operation (reader, live, stream, TRUE);
  g_hash_table_remove (reader->live, &id);

  return TRUE;
}

/* --- lines ------------------------------------------------------------------------ */

/* Parses a number. If @base is 16, the number may begin with "0x". */
static gboolean
parse (Reader      *reader,
       const char  *what,
       const char  *word,
       guint        base,
       guint64     *number,
       GError     **error)
{
  g_autoptr (GError) reason = NULL;
  const char *digits = word;

  if (base == 16 && g_ascii_strncasecmp (word, "0x", 2) == 0)
    digits += 2;
  if (g_ascii_string_to_unsigned (digits, base, 0, G_MAXUINT64, number, &reason))
    return TRUE;
  if (g_error_matches (reason, G_NUMBER_PARSER_ERROR, G_NUMBER_PARSER_ERROR_OUT_OF_BOUNDS))
    return refuse (reader, error, "the %s \"%s\" is more than %" G_GUINT64_FORMAT, what, word,
                   G_MAXUINT64);

  return refuse (reader, error, "the %s \"%s\" is not a number", what, word);
}

/* Splits at blanks, in place. Returns: the number of words, at most MAX_WORDS */
static guint
split_blanks (char  *line,
              char **words)
{
  guint n = 0;

  while (n < MAX_WORDS)
    {
      line += strspn (line, " \t");
      if (*line == '\0')
        break;
      words[n++] = line;
      line += strcspn (line, " \t");
      if (*line != '\0')
        *line++ = '\0';
    }

  return n;
}

static guint
split_commas (char  *line,
              char **words)
{
  guint n = 0;

  while (line != NULL && n < MAX_WORDS)
    {
      char *comma = strchr (line, ',');

      if (comma != NULL)
        *comma++ = '\0';
      words[n++] = g_strstrip (line);
      line = comma;
    }

  return n;
}

static gboolean
read_operation (Reader  *reader,
                char    *line,
                GError **error)
{
  char *words[MAX_WORDS];
  guint n = split_blanks (line, words);
  guint64 id, size;
  gboolean is_alloc = g_str_equal (words[0], "a");

  if (!is_alloc && !g_str_equal (words[0], "f"))
    return refuse (reader, error, "\"%s\" is neither a, for an allocation, nor f, for a free",
                   words[0]);
  if (n != (is_alloc ? 4 : 3))
    return refuse (reader, error, "%u words instead of \"%s\"", n,
                   is_alloc ? "a ID SIZE STREAM" : "f ID STREAM");
  if (!parse (reader, "id", words[1], 10, &id, error))
    return FALSE;
  if (!is_alloc)
    return add_free (reader, id, words[1], NULL, words[2], error);

  return parse (reader, "size", words[2], 10, &size, error)
         && add_alloc (reader, id, words[1], size, words[3], error);
}

static gboolean
read_header (Reader  *reader,
             char    *line,
             GError **error)
{
  char *words[MAX_WORDS];

  reader->n_columns = split_commas (line, words);
  for (guint column = 0; column < N_COLUMNS; column++)
    {
      guint i = 0;

      while (i < reader->n_columns && g_ascii_strcasecmp (words[i], column_names[column]) != 0)
        i++;
      if (i == reader->n_columns)
        return refuse (reader, error, "no column is called %s", column_names[column]);
      reader->columns[column] = i;
    }

  return TRUE;
}

static gboolean
read_row (Reader  *reader,
          char    *line,
          GError **error)
{
  char *words[MAX_WORDS];
  guint n = split_commas (line, words);
  const char *action, *pointer;
  guint64 id, size;

  if (n != reader->n_columns)
    return refuse (reader, error, "%u columns instead of %u", n, reader->n_columns);

  action = words[reader->columns[ACTION]];
  if (g_str_equal (action, "allocate_failure"))
    {
      reader->trace->n_failures++;
      return TRUE;
    }
  if (!g_str_equal (action, "allocate") && !g_str_equal (action, "free"))
    return refuse (reader, error, "the action \"%s\" is neither allocate nor free", action);

  pointer = words[reader->columns[POINTER]];
  if (!parse (reader, "pointer", pointer, 16, &id, error)
      || !parse (reader, "size", words[reader->columns[SIZE]], 10, &size, error))
    return FALSE;
  /* Ignore allocations of 0 bytes, for which some memory resources return NULL. */
  if (id == 0 && size == 0)
    return TRUE;

  return *action == 'a'
         ? add_alloc (reader, id, pointer, size, words[reader->columns[STREAM]], error)
         : add_free (reader, id, pointer, &size, words[reader->columns[STREAM]], error);
}

/* Parses the first line that is neither empty nor a comment. */
static gboolean
find_format (Reader  *reader,
             char    *line,
             GError **error)
{
  if (strchr ("af", *line) != NULL && g_ascii_isspace (line[1]))
    {
      reader->format = FORMAT_LINES;
      return read_operation (reader, line, error);
    }
  if (strchr (line, ',') != NULL)
    {
      reader->format = FORMAT_RMM;
      return read_header (reader, line, error);
    }

  return refuse (reader, error, "neither an operation, such as \"a 0 4096 0\", nor the names of "
                 "columns: \"%s\"", line);
}

static gboolean
read_line (Reader  *reader,
           char    *line,
           gsize    length,
           GError **error)
{
  reader->line++;
  if (!g_utf8_validate_len (line, length, NULL))
    return refuse (reader, error, "not text");

  g_strstrip (line);
  if (*line == '\0')
    return TRUE;
  if (*line == '#')
    {
      if (reader->trace->comment == NULL)
        reader->trace->comment = g_strdup (g_strchug (line + 1));
      return TRUE;
    }

  switch (reader->format)
    {
    case FORMAT_LINES:
      return read_operation (reader, line, error);
    case FORMAT_RMM:
      return read_row (reader, line, error);
    default:
      return find_format (reader, line, error);
    }
}

/* Parses the complete lines of @data, and stores the rest for the next call. */
static gboolean
read_lines (Reader        *reader,
            const guint8  *data,
            gsize          size,
            GError       **error)
{
  GByteArray *text = reader->text;
  gsize start = 0;
  guint8 *end;

  if (size == 0)
    return TRUE;

  g_byte_array_append (text, data, size);
  while ((end = memchr (text->data + start, '\n', text->len - start)) != NULL)
    {
      char *line = (char *) text->data + start;

      *end = '\0';
      start = end + 1 - text->data;
      if (!read_line (reader, line, (char *) end - line, error))
        return FALSE;
    }
  g_byte_array_remove_range (text, 0, start);
  if (text->len <= MAX_LINE)
    return TRUE;

  reader->line++;

  return refuse (reader, error, "a line of more than %d bytes", MAX_LINE);
}

static gboolean
read_last_line (Reader  *reader,
                GError **error)
{
  const guint length = reader->text->len;

  if (length == 0)
    return TRUE;
  g_byte_array_append (reader->text, (const guint8 *) "", 1);

  return read_line (reader, (char *) reader->text->data, length, error);
}

/* --- files ------------------------------------------------------------------------- */

static gboolean
add_context (Reader    *reader,
             GError    *reason,
             GError   **error)
{
  g_propagate_prefixed_error (error, reason, "%s, after line %" G_GUINT64_FORMAT ": ",
                              reader->path, reader->line);

  return FALSE;
}

/* Decompresses @data, which may contain the end of a gzip member and the start of the next member.
 * @is_over: (inout): TRUE if the last byte read so far ended a gzip member */
static gboolean
unpack (Reader        *reader,
        GConverter    *gzip,
        const guint8  *data,
        gsize          size,
        gboolean      *is_over,
        GError       **error)
{
  guint8 out[CHUNK];
  gboolean is_full = FALSE;

  while (size > 0 || is_full)
    {
      g_autoptr (GError) reason = NULL;
      gsize n_read = 0, n_written = 0;
      GConverterResult result;

      if (*is_over)
        g_converter_reset (gzip);
      result = g_converter_convert (gzip, data, size, out, sizeof out, G_CONVERTER_NO_FLAGS,
                                    &n_read, &n_written, &reason);
      *is_over = result == G_CONVERTER_FINISHED;
      is_full = !*is_over && n_written == sizeof out;
      if (g_error_matches (reason, G_IO_ERROR, G_IO_ERROR_PARTIAL_INPUT))
        return TRUE;
      if (result == G_CONVERTER_ERROR)
        return add_context (reader, g_steal_pointer (&reason), error);
      if (!read_lines (reader, out, n_written, error))
        return FALSE;
      data += n_read;
      size -= n_read;
    }

  return TRUE;
}

static gboolean
read_stream (Reader        *reader,
             GInputStream  *input,
             GError       **error)
{
  g_autoptr (GConverter) gzip = NULL;
  gboolean is_first = TRUE, is_over = FALSE;
  guint8 data[CHUNK];
  gsize size;

  do
    {
      GError *reason = NULL;

      if (!g_input_stream_read_all (input, data, sizeof data, &size, NULL, &reason))
        return add_context (reader, reason, error);
      if (is_first && size >= 2 && data[0] == 0x1f && data[1] == 0x8b)
        gzip = G_CONVERTER (g_zlib_decompressor_new (G_ZLIB_COMPRESSOR_FORMAT_GZIP));
      is_first = FALSE;
      if (gzip != NULL ? !unpack (reader, gzip, data, size, &is_over, error)
                       : !read_lines (reader, data, size, error))
        return FALSE;
    }
  while (size == sizeof data);

  if (gzip != NULL && !is_over)
    return add_context (reader, g_error_new (G_IO_ERROR, G_IO_ERROR_PARTIAL_INPUT,
                                             "the compressed data ends too early"), error);

  return read_last_line (reader, error);
}

static void
reader_clear (Reader *reader)
{
  g_array_unref (reader->operations);
  g_hash_table_unref (reader->live);
  g_hash_table_unref (reader->streams);
  g_byte_array_unref (reader->text);
}

GpumemTrace *
gpumem_trace_read (const char  *path,
                   GError     **error)
{
  g_autoptr (GpumemTrace) trace = g_new0 (GpumemTrace, 1);
  g_autoptr (GFile) file = g_file_new_for_commandline_arg (path);
  g_autoptr (GFileInputStream) input = g_file_read (file, NULL, error);
  Reader reader = { .trace = trace, .path = path };
  gboolean success;

  trace->streams = g_ptr_array_new_with_free_func (g_free);
  if (input == NULL)
    {
      g_prefix_error (error, "%s: ", path);
      return NULL;
    }

  reader.operations = g_array_new (FALSE, FALSE, sizeof (GpumemTraceOperation));
  reader.live = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
  reader.streams = g_hash_table_new (g_str_hash, g_str_equal);
  reader.text = g_byte_array_new ();

  success = read_stream (&reader, G_INPUT_STREAM (input), error);
  if (success && reader.operations->len == 0)
    success = refuse (&reader, error, "the file has no operations");
  trace->operations = g_array_steal (reader.operations, &trace->n_operations);
  reader_clear (&reader);

  return success ? g_steal_pointer (&trace) : NULL;
}

void
gpumem_trace_free (GpumemTrace *trace)
{
  g_free (trace->operations);
  g_clear_pointer (&trace->streams, g_ptr_array_unref);
  g_free (trace->comment);
  g_free (trace);
}
