/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Pool snapshots in the formats of other viewers: each result is read back and compared. */
#include "config.h"

#include "tools/gpumem-snapshot.h"

#include "test-util.h"

static GVariant *
parse (const char *text)
{
  g_autoptr (GError) error = NULL;
  GVariant *value = g_variant_parse (G_VARIANT_TYPE ("aa{sv}"), text, NULL, NULL, &error);

  test_assert_ok (value != NULL, error);

  return value;
}

/* A segment with two unmapped ranges, one at its end, and a segment with a single block. */
static const char segments_text[] =
  "[{'address': <uint64 1099511627776>, 'stream': <uint32 2>, 'blocks': <["
  "    {'state': <'active'>, 'size': <uint64 2097152>, 'requested': <uint64 2000000>},"
  "    {'state': <'pending'>, 'size': <uint64 1048576>, 'requested': <uint64 1000000>},"
  "    {'state': <'unmapped'>, 'size': <uint64 4194304>},"
  "    {'state': <'cached'>, 'size': <uint64 512>},"
  "    {'state': <'held'>, 'size': <uint64 1024>},"
  "    {'state': <'unmapped'>, 'size': <uint64 2097152>}]>},"
  " {'address': <uint64 4096>, 'blocks': <[{'state': <'active'>, 'size': <uint64 512>}]>}]";

static const char events_text[] =
  "[{'action': <'free_requested'>, 'time': <uint64 10>, 'address': <uint64 256>,"
  "  'size': <uint64 100>},"
  " {'action': <'segment_alloc'>, 'time': <uint64 11>, 'address': <uint64 4096>,"
  "  'size': <uint64 512>, 'stream': <uint32 3>},"
  " {'action': <'alloc'>, 'time': <uint64 12>, 'address': <uint64 4096>, 'size': <uint64 300>},"
  " {'action': <'graph_alloc'>, 'time': <uint64 12>, 'address': <uint64 4096>,"
  "  'size': <uint64 300>, 'stream': <uint32 1>},"
  " {'action': <'oom'>, 'time': <uint64 13>, 'size': <uint64 9000000000>,"
  "  'device-free': <uint64 5000000000>},"
  " {'action': <'free_completed'>, 'time': <uint64 14>, 'address': <uint64 256>,"
  "  'size': <uint64 100>},"
  " {'action': <'snapshot'>, 'time': <uint64 15>}]";

/* Converts to text and back. */
static JsonNode *
read_back (JsonNode *node)
{
  g_autofree char *text = json_to_string (node, FALSE);
  g_autoptr (GError) error = NULL;
  JsonNode *read = json_from_string (text, &error);

  test_assert_ok (read != NULL, error);

  return read;
}

static JsonNode *
make_viewer (void)
{
  g_autoptr (GVariant) segments = parse (segments_text);
  g_autoptr (GVariant) events = parse (events_text);
  g_autoptr (GError) error = NULL;
  g_autoptr (JsonNode) node = gpumem_snapshot_to_viewer (segments, events, &error);

  test_assert_ok (node != NULL, error);

  return read_back (node);
}

static void
assert_segment (JsonArray  *segments,
                guint       number,
                const char *expected)
{
  JsonObject *segment = json_array_get_object_element (segments, number);
  JsonArray *blocks = json_object_get_array_member (segment, "blocks");
  g_autoptr (GString) text = g_string_new (NULL);

  g_string_printf (text, "%" G_GINT64_FORMAT "+%" G_GINT64_FORMAT " %s %" G_GINT64_FORMAT " %"
                   G_GINT64_FORMAT " %" G_GINT64_FORMAT " @%" G_GINT64_FORMAT ":",
                   json_object_get_int_member (segment, "address"),
                   json_object_get_int_member (segment, "total_size"),
                   json_object_get_string_member (segment, "segment_type"),
                   json_object_get_int_member (segment, "allocated_size"),
                   json_object_get_int_member (segment, "active_size"),
                   json_object_get_int_member (segment, "requested_size"),
                   json_object_get_int_member (segment, "stream"));
  for (guint i = 0; i < json_array_get_length (blocks); i++)
    {
      JsonObject *block = json_array_get_object_element (blocks, i);

      g_string_append_printf (text, " %" G_GINT64_FORMAT "+%" G_GINT64_FORMAT "/%" G_GINT64_FORMAT
                              " %s", json_object_get_int_member (block, "address"),
                              json_object_get_int_member (block, "size"),
                              json_object_get_int_member (block, "requested_size"),
                              json_object_get_string_member (block, "state"));
    }
  g_assert_cmpstr (text->str, ==, expected);
}

static void
check_viewer (void)
{
  g_autoptr (JsonNode) node = make_viewer ();
  JsonObject *root = json_node_get_object (node);
  JsonArray *segments = json_object_get_array_member (root, "segments");
  JsonArray *devices = json_object_get_array_member (root, "device_traces");
  JsonArray *events = json_array_get_array_element (devices, 0);
  JsonObject *event;

  g_assert_cmpuint (json_array_get_length (segments), ==, 3);
  assert_segment (segments, 0, "1099511627776+3145728 large 2097152 3145728 3000000 @2:"
                  " 1099511627776+2097152/2000000 active_allocated"
                  " 1099513724928+1048576/1000000 active_pending_free");
  assert_segment (segments, 1, "1099518967808+1536 small 0 0 0 @2: 1099518967808+512/512 inactive"
                  " 1099518968320+1024/1024 inactive");
  assert_segment (segments, 2, "4096+512 small 512 512 512 @0: 4096+512/512 active_allocated");

  g_assert_cmpuint (json_array_get_length (devices), ==, 1);
  g_assert_cmpuint (json_array_get_length (events), ==, 6);
  event = json_array_get_object_element (events, 1);
  g_assert_cmpstr (json_object_get_string_member (event, "action"), ==, "segment_alloc");
  g_assert_cmpint (json_object_get_int_member (event, "addr"), ==, 4096);
  g_assert_cmpint (json_object_get_int_member (event, "size"), ==, 512);
  g_assert_cmpint (json_object_get_int_member (event, "stream"), ==, 3);
  g_assert_cmpint (json_object_get_int_member (event, "time_us"), ==, 11);
  event = json_array_get_object_element (events, 3);
  g_assert_cmpint (json_object_get_int_member (event, "device_free"), ==, 5000000000);
  g_assert_cmpint (json_object_get_int_member (event, "size"), ==, 9000000000);
  g_assert_false (json_object_has_member (event, "addr"));
}

/* Converts a history to counters over time. Some memory is live before the history begins. */
static void
check_perfetto (void)
{
  g_autoptr (GVariant) events = parse (events_text);
  g_autoptr (GError) error = NULL;
  g_autoptr (JsonNode) node = gpumem_snapshot_to_perfetto (events, &error);
  g_autoptr (JsonNode) read = NULL;
  g_autoptr (GString) text = g_string_new (NULL);
  JsonArray *marks;

  test_assert_ok (node != NULL, error);
  read = read_back (node);
  marks = json_object_get_array_member (json_node_get_object (read), "traceEvents");
  for (guint i = 0; i < json_array_get_length (marks); i++)
    {
      JsonObject *mark = json_array_get_object_element (marks, i);
      JsonObject *args = json_object_get_object_member (mark, "args");
      gboolean is_counter = g_str_equal (json_object_get_string_member (mark, "ph"), "C");

      g_string_append_printf (text, "%" G_GINT64_FORMAT " %s %" G_GINT64_FORMAT ", ",
                              json_object_get_int_member (mark, "ts"),
                              json_object_get_string_member (mark, "name"),
                              json_object_get_int_member (args, is_counter ? "bytes"
                                                                           : "requested"));
      g_assert_cmpint (json_object_get_int_member (mark, "pid"), ==, 1);
    }
  g_assert_cmpstr (text->str, ==, "10 live 0, 10 pending 100, 10 reserved 0, 11 reserved 512, "
                   "12 live 300, 13 out of memory 9000000000, 14 pending 0, ");
}

/* --- pickles ------------------------------------------------------------------------- */

static void
check_pickle (void)
{
  static const guint8 expected[] = "\x80\2}(X\1\0\0\0a](J\xff\xff\xff\xff\x8a\x08\0\0\0\0\1\0\0\0"
                                   "G\x3f\xf8\0\0\0\0\0\0\x88\x89NeX\1\0\0\0b]u.";
  g_autoptr (JsonNode) node = json_from_string ("{\"a\": [-1, 4294967296, 1.5, true, false, null],"
                                                " \"b\": []}", NULL);
  g_autoptr (GBytes) pickle = gpumem_snapshot_pickle (node);
  g_autoptr (GBytes) bytes = g_bytes_new_static (expected, sizeof expected - 1);

  test_assert_bytes (pickle, bytes);
}

/* Python reads the same value from the pickle as from the JSON, even for long lists */
static void
check_python (void)
{
  const char *python = g_getenv ("TEST_PYTHON");
  g_autoptr (JsonNode) viewer = make_viewer ();
  g_autoptr (JsonNode) node = json_from_string ("[{}]", NULL);
  JsonArray *array = json_node_get_array (node);
  g_autoptr (GSubprocess) process = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) pickle = NULL;
  g_autoptr (GBytes) out = NULL;
  g_autofree char *text = NULL;
  g_autoptr (JsonNode) read = NULL;

  if (python == NULL || *python == '\0')
    {
      g_test_skip ("TEST_PYTHON is not set");
      return;
    }
  for (gint64 i = 0; i < 3000; i++)
    json_array_add_int_element (array, i * i * i * i * (i % 2 ? -1 : 1));
  json_array_add_element (array, json_node_copy (viewer));
  json_array_add_string_element (array, "gr\xc3\xbc\xc3\x9f\x65");

  pickle = gpumem_snapshot_pickle (node);
  process = g_subprocess_new (G_SUBPROCESS_FLAGS_STDIN_PIPE | G_SUBPROCESS_FLAGS_STDOUT_PIPE,
                              &error, python, "-c", "import json, pickle, sys\n"
                              "print(json.dumps(pickle.load(sys.stdin.buffer)))", NULL);
  test_assert_ok (process != NULL, error);
  test_assert_ok (g_subprocess_communicate (process, pickle, NULL, &out, NULL, &error), error);
  g_assert_true (g_subprocess_get_successful (process));
  text = g_strndup (g_bytes_get_data (out, NULL), g_bytes_get_size (out));
  read = json_from_string (text, &error);
  test_assert_ok (read != NULL, error);
  g_assert_true (json_node_equal (node, read));
}

/* --- invalid input --------------------------------------------------------------------- */

static const struct
{
  const char *text;
  const char *words;
} bad_segments[] =
{
  { "[{'address': <uint64 0>}]", "segment 0: no blocks" },
  { "[{'blocks': <[{'state': <'held'>, 'size': <uint64 1>}]>}]", "segment 0: no address" },
  { "[{'address': <uint64 0>, 'blocks': <[{'size': <uint64 1>}]>}]", "without a state" },
  { "[{'address': <uint64 0>, 'blocks': <[{'state': <'lost'>, 'size': <uint64 1>}]>}]",
    "not known" },
  { "[{'address': <uint64 0>, 'blocks': <[{'state': <'held'>, 'size': <uint64 0>}]>}]",
    "without a size" },
  { "[{'address': <uint64 0>, 'blocks': <[{'state': <'held'>, 'size': <uint64 1>,"
    " 'requested': <uint64 2>}]>}]", "requested size exceeds" },
  { "[{'address': <uint64 9223372036854775807>, 'blocks': <[{'state': <'held'>,"
    " 'size': <uint64 1>}]>}]", "beyond" },
  { "[{'address': <uint64 9223372036854775808>, 'blocks': <[{'state': <'held'>,"
    " 'size': <uint64 1>}]>}]", "too large" },
};

static const struct
{
  const char *text;
  const char *words;
} bad_events[] =
{
  { "[{'time': <uint64 1>}]", "event 0: no action" },
  { "[{'action': <'snapshot'>, 'time': <uint64 1>}, {'action': <'snapshot'>}]",
    "event 1: no time" },
  { "[{'action': <'free'>, 'time': <uint64 1>}]", "not known" },
  { "[{'action': <'alloc'>, 'time': <uint64 1>}]", "no size" },
  { "[{'action': <'alloc'>, 'time': <uint64 1>, 'size': <uint64 1>}]", "no address" },
  { "[{'action': <'oom'>, 'time': <uint64 1>, 'size': <uint64 1>}]", "no free bytes" },
};

static void
check_invalid_input (void)
{
  g_autoptr (GVariant) none = parse ("[]");
  g_autoptr (GVariant) other = g_variant_ref_sink (g_variant_new_string ("segments"));
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (bad_segments); i++)
    {
      g_autoptr (GVariant) segments = parse (bad_segments[i].text);

      g_assert_null (gpumem_snapshot_to_viewer (segments, NULL, &error));
      test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA, bad_segments[i].words);
    }
  for (guint i = 0; i < G_N_ELEMENTS (bad_events); i++)
    {
      g_autoptr (GVariant) events = parse (bad_events[i].text);

      g_assert_null (gpumem_snapshot_to_viewer (none, events, &error));
      test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA, bad_events[i].words);
      g_assert_null (gpumem_snapshot_to_perfetto (events, &error));
      test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA, bad_events[i].words);
    }

  g_assert_null (gpumem_snapshot_to_viewer (other, NULL, &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA, "segments", "type s");
}

static void
check_empty (void)
{
  g_autoptr (GVariant) none = parse ("[]");
  g_autoptr (GError) error = NULL;
  g_autoptr (JsonNode) viewer = gpumem_snapshot_to_viewer (none, NULL, &error);
  g_autoptr (JsonNode) perfetto = gpumem_snapshot_to_perfetto (none, &error);
  g_autofree char *viewer_text = json_to_string (viewer, FALSE);
  g_autofree char *perfetto_text = json_to_string (perfetto, FALSE);

  g_assert_cmpstr (viewer_text, ==, "{\"segments\":[],\"device_traces\":[[]]}");
  g_assert_cmpstr (perfetto_text, ==, "{\"traceEvents\":[]}");
}

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);

  test_add_plain ("viewer", check_viewer);
  test_add_plain ("perfetto", check_perfetto);
  test_add_plain ("pickle", check_pickle);
  test_add_plain ("python", check_python);
  test_add_plain ("invalid-input", check_invalid_input);
  test_add_plain ("empty", check_empty);

  return test_run ();
}
