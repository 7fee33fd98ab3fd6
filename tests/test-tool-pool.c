/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* gpumem pool: the statistics of a replay match the trace, files for viewers contain the events,
 * and the command reports failures and invalid input. */
#include "config.h"

#include <glib/gstdio.h>
#ifdef HAVE_TOUR
#include <json-glib/json-glib.h>
#endif

#include "test-tool-util.h"
#include "test-util.h"

/* 7 operations, 4 allocations on 2 streams; at most 8,070,000 live bytes, and 30 at the end. */
static const char lines[] =
  "# by hand\n"
  "a 1 1000 0\n"
  "a 2 70000 7\n"
  "f 1 0\n"
  "a 3 8000000 0\n"
  "f 2 7\n"
  "a 4 30 0\n"
  "f 3 0\n";

#define PEAK_LIVE 8070000

static const char *const kinds[] = { "expandable", "segments", "bins" };

static char *
write_file (const char *name,
            const char *text)
{
  char *path = g_build_filename (test_tool_folder (), name, NULL);
  g_autoptr (GError) error = NULL;

  test_assert_ok (g_file_set_contents (path, text, -1, &error), error);
  return path;
}

static gboolean
has_kind (TestFixture *fixture,
          const char  *kind)
{
  return !g_str_equal (kind, "expandable") ||
         (gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_VIRTUAL_MEMORY) != 0;
}

/* Returns TRUE if a pool of the device has blocks. */
static gboolean
has_blocks (TestFixture *fixture,
            const char  *kind)
{
  return !g_str_equal (kind, "bins") &&
         (gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_SUB_BUFFERS) == 0;
}

/* --- tables --------------------------------------------------------------------------------- */

/* Asserts that the row of @title ends in @value. */
static void
assert_row (const TestRun *run,
            const char    *title,
            const char    *value)
{
  g_auto (GStrv) rows = g_strsplit (run->out, "\n", -1);

  for (guint i = 0; rows[i] != NULL; i++)
    {
      g_autofree char *end = g_strconcat (" ", value, NULL);

      if (!g_str_has_prefix (rows[i], title))
        continue;
      if (!g_str_has_suffix (rows[i], end))
        g_error ("'%s' does not end in '%s'", rows[i], value);
      return;
    }
  g_error ("no row '%s' in: %s", title, run->out);
}

static void
test_table (TestFixture *fixture)
{
  const char *id = gpu_device_get_id (fixture->device);
  g_autofree char *path = write_file ("table.trace", lines);
  g_auto (TestRun) run = test_tool_run ("pool", "replay", id, path, path, NULL);
  g_auto (GStrv) rows = g_strsplit (run.out, "\n", -1);

  g_assert_cmpstr (run.err, ==, "");
  g_assert_cmpint (run.status, ==, 0);
  g_assert_true (g_str_has_prefix (run.out, id));
  assert_row (&run, "TRACE", "table.trace");
  assert_row (&run, "operations", "7");
  assert_row (&run, "streams", "2");
  assert_row (&run, "peak live", "7.7 MiB");
  assert_row (&run, "refused", "0");
  for (guint i = 0; rows[i] != NULL; i++)
    g_assert_cmpint (g_utf8_strlen (rows[i], -1), <=, 120);
}

static void
test_refused (TestFixture *fixture)
{
  const char *id = gpu_device_get_id (fixture->device);
  g_autofree char *path = write_file ("refused.trace", lines);
  g_auto (TestRun) run = test_tool_run ("pool", "replay", id, path, "--limit", "4M", NULL);

  g_assert_cmpstr (run.err, ==, "");
  g_assert_cmpint (run.status, ==, 1);
  assert_row (&run, "operations", "7");
  assert_row (&run, "peak live", "69.3 KiB");
  assert_row (&run, "refused", "1");
  g_assert_nonnull (strstr (run.out, "refused.trace, operation 4: "));
  g_assert_nonnull (strstr (run.out, "limit"));
}

static void
test_not_supported (TestFixture *fixture)
{
  const char *id = gpu_device_get_id (fixture->device);
  g_autofree char *path = write_file ("kind.trace", lines);

  if (!has_kind (fixture, "expandable"))
    {
      g_auto (TestRun) run = test_tool_run ("pool", "replay", id, path, "-k", "expandable", NULL);

      g_assert_cmpint (run.status, ==, 1);
      g_assert_cmpstr (run.out, ==, "");
      g_assert_nonnull (strstr (run.err, id));
    }
  {
    g_auto (TestRun) run = test_tool_run ("pool", "replay", id, path, "-k", "bins", "--blocks",
                                          NULL);

    g_assert_cmpint (run.status, ==, 1);
    g_assert_cmpstr (run.out, ==, "");
    g_assert_nonnull (strstr (run.err, "has no blocks"));
  }
}

/* --- JSON ------------------------------------------------------------------------------------- */

#ifdef HAVE_TOUR
static JsonObject *
parse (const char *text,
       JsonParser *parser)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (json_parser_load_from_data (parser, text, -1, &error), error);
  return json_node_get_object (json_parser_get_root (parser));
}

static JsonObject *
parse_file (const char *path,
            JsonParser *parser)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (json_parser_load_from_file (parser, path, &error), error);
  return json_node_get_object (json_parser_get_root (parser));
}

/* Returns the only result of a successful replay. */
static JsonObject *
get_result (const TestRun *run,
            JsonParser    *parser,
            const char    *id)
{
  JsonObject *root = parse (run->out, parser);
  JsonArray *results = json_object_get_array_member (root, "results");

  g_assert_cmpstr (json_object_get_string_member (
                     json_object_get_object_member (root, "device"), "id"), ==, id);
  g_assert_false (json_object_get_boolean_member (root, "interrupted"));
  g_assert_cmpuint (json_array_get_length (results), ==, 1);
  return json_array_get_object_element (results, 0);
}

static void
assert_figures (JsonObject *result)
{
  static const struct { const char *name; gint64 value; } exact[] = {
    { "n-allocs", 4 }, { "n-frees", 3 }, { "active-blocks", 1 }, { "active-bytes", 30 },
    { "peak-active-bytes", PEAK_LIVE }, { "n-refused", 0 }
  };
  JsonObject *statistics = json_object_get_object_member (result, "statistics");
  const gint64 managed = json_object_get_int_member (result, "peak-managed");

  g_assert_cmpint (json_object_get_int_member (result, "operations"), ==, 7);
  g_assert_cmpint (json_object_get_int_member (result, "allocations"), ==, 4);
  g_assert_cmpint (json_object_get_int_member (result, "streams"), ==, 2);
  g_assert_cmpint (json_object_get_int_member (result, "refused"), ==, 0);
  g_assert_true (json_object_get_null_member (result, "refusal"));
  g_assert_cmpstr (json_object_get_string_member (result, "comment"), ==, "by hand");
  g_assert_cmpint (json_object_get_int_member (result, "peak-live"), ==, PEAK_LIVE);
  g_assert_cmpint (json_object_get_int_member (result, "peak-live-of-trace"), ==, PEAK_LIVE);
  g_assert_cmpint (managed, >=, PEAK_LIVE);
  g_assert_cmpfloat_with_epsilon (json_object_get_double_member (result, "ratio"),
                                  (double) managed / PEAK_LIVE, 1e-6);
  for (guint i = 0; i < G_N_ELEMENTS (exact); i++)
    g_assert_cmpint (json_object_get_int_member (statistics, exact[i].name), ==, exact[i].value);
  g_assert_cmpint (json_object_get_int_member (statistics, "peak-managed-bytes"), ==, managed);
  g_assert_cmpint (json_object_get_int_member (statistics, "n-growths"), >=, 1);
}

static void
check_json (TestFixture *fixture,
            const char  *kind,
            const char  *option)
{
  const char *id = gpu_device_get_id (fixture->device);
  g_autofree char *path = write_file ("json.trace", lines);
  g_auto (TestRun) run = test_tool_run ("pool", "replay", id, path, "--json", "-k", kind,
                                        option, NULL);
  g_autoptr (JsonParser) parser = json_parser_new ();
  gboolean blocks = has_blocks (fixture, kind) && option == NULL;
  JsonObject *result;

  g_assert_cmpstr (run.err, ==, "");
  g_assert_cmpint (run.status, ==, 0);
  result = get_result (&run, parser, id);
  g_assert_cmpstr (json_object_get_string_member (result, "kind"), ==, kind);
  g_assert_cmpstr (json_object_get_string_member (result, "taken"), ==,
                   blocks ? "blocks" : "buffers");
  assert_figures (result);
}
#endif

/* Replays with each kind of pool that the device supports, with blocks and with buffers. */
static void
test_json (TestFixture *fixture)
{
#ifdef HAVE_TOUR
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      if (!has_kind (fixture, kinds[i]))
        continue;
      check_json (fixture, kinds[i], NULL);
      check_json (fixture, kinds[i], "--buffers");
      check_json (fixture, kinds[i], "--touch");
    }
#else
  (void) fixture;
  g_test_skip ("the command was built without JSON");
#endif
}

#ifdef HAVE_TOUR
/* Returns the number of live bytes in the blocks of a segment. */
static gint64
count_live (JsonObject *segment)
{
  JsonArray *blocks = json_object_get_array_member (segment, "blocks");
  gint64 live = 0;

  for (guint i = 0; i < json_array_get_length (blocks); i++)
    {
      JsonObject *block = json_array_get_object_element (blocks, i);

      if (g_str_equal (json_object_get_string_member (block, "state"), "active_allocated"))
        live += json_object_get_int_member (block, "requested_size");
    }
  return live;
}

/* The segments contain the memory that is live at the end, and the events contain each
 * operation. */
static void
check_snapshot (const char *path)
{
  g_autoptr (JsonParser) parser = json_parser_new ();
  JsonObject *root = parse_file (path, parser);
  JsonArray *segments = json_object_get_array_member (root, "segments");
  JsonArray *events =
    json_array_get_array_element (json_object_get_array_member (root, "device_traces"), 0);
  gint64 requested = 0, live = 0, peak = 0;
  guint n_allocs = 0;

  for (guint i = 0; i < json_array_get_length (segments); i++)
    requested += count_live (json_array_get_object_element (segments, i));
  g_assert_cmpint (requested, ==, 30);
  g_assert_cmpuint (json_array_get_length (events), ==, 4 + 2 * 3);
  for (guint i = 0; i < json_array_get_length (events); i++)
    {
      JsonObject *event = json_array_get_object_element (events, i);
      const char *action = json_object_get_string_member (event, "action");
      gint64 size = json_object_get_int_member (event, "size");

      g_assert_cmpint (json_object_get_int_member (event, "addr"), !=, 0);
      live += g_str_equal (action, "alloc") ? size
              : g_str_equal (action, "free_requested") ? -size : 0;
      n_allocs += g_str_equal (action, "alloc");
      peak = MAX (peak, live);
    }
  g_assert_cmpuint (n_allocs, ==, 4);
  g_assert_cmpint (live, ==, 30);
  g_assert_cmpint (peak, ==, PEAK_LIVE);
}

static void
check_perfetto (const char *path)
{
  g_autoptr (JsonParser) parser = json_parser_new ();
  JsonArray *marks = json_object_get_array_member (parse_file (path, parser), "traceEvents");
  gint64 live = 0, peak = 0, reserved = 0;

  for (guint i = 0; i < json_array_get_length (marks); i++)
    {
      JsonObject *mark = json_array_get_object_element (marks, i);
      JsonObject *args = json_object_get_object_member (mark, "args");
      const char *name = json_object_get_string_member (mark, "name");

      if (g_str_equal (name, "reserved"))
        reserved = MAX (reserved, json_object_get_int_member (args, "bytes"));
      if (g_str_equal (name, "live"))
        live = json_object_get_int_member (args, "bytes");
      peak = MAX (peak, live);
    }
  g_assert_cmpint (live, ==, 30);
  g_assert_cmpint (peak, ==, PEAK_LIVE);
  g_assert_cmpint (reserved, >=, PEAK_LIVE);
}
#endif

static void
test_viewers (TestFixture *fixture)
{
#ifdef HAVE_TOUR
  const char *id = gpu_device_get_id (fixture->device);
  g_autofree char *path = write_file ("viewers.trace", lines);
  g_autofree char *snapshot = g_build_filename (test_tool_folder (), "snapshot.json", NULL);
  g_autofree char *pickle = g_build_filename (test_tool_folder (), "snapshot.pickle", NULL);
  g_autofree char *perfetto = g_build_filename (test_tool_folder (), "perfetto.json", NULL);
  g_autofree char *content = NULL;
  gsize size = 0;

  {
    g_auto (TestRun) run = test_tool_run ("pool", "replay", id, path, "--snapshot", snapshot,
                                          "--perfetto", perfetto, NULL);

    g_assert_cmpstr (run.err, ==, "");
    g_assert_cmpint (run.status, ==, 0);
  }
  check_snapshot (snapshot);
  check_perfetto (perfetto);
  {
    g_auto (TestRun) run = test_tool_run ("pool", "replay", id, path, "--snapshot", pickle, NULL);

    g_assert_cmpint (run.status, ==, 0);
  }
  g_assert_true (g_file_get_contents (pickle, &content, &size, NULL));
  g_assert_cmpuint (size, >, 100);
  g_assert_cmpmem (content, 2, "\x80\x02", 2);
  g_assert_cmpint (content[size - 1], ==, '.');
#else
  (void) fixture;
  g_test_skip ("the command was built without JSON");
#endif
}

/* If an allocation is refused, the last event records the refusal. */
static void
test_viewers_refused (TestFixture *fixture)
{
#ifdef HAVE_TOUR
  const char *id = gpu_device_get_id (fixture->device);
  g_autofree char *path = write_file ("oom.trace", lines);
  g_autofree char *snapshot = g_build_filename (test_tool_folder (), "oom.json", NULL);
  g_auto (TestRun) run = test_tool_run ("pool", "replay", id, path, "--snapshot", snapshot, "-l",
                                        "4M", NULL);
  g_autoptr (JsonParser) parser = json_parser_new ();
  JsonObject *root, *event;
  JsonArray *events;

  g_assert_cmpstr (run.err, ==, "");
  g_assert_cmpint (run.status, ==, 1);
  root = parse_file (snapshot, parser);
  events = json_array_get_array_element (json_object_get_array_member (root, "device_traces"), 0);
  g_assert_cmpuint (json_array_get_length (events), ==, 2 + 2 + 1);
  event = json_array_get_object_element (events, 4);
  g_assert_cmpstr (json_object_get_string_member (event, "action"), ==, "oom");
  g_assert_cmpint (json_object_get_int_member (event, "size"), ==, 8000000);
#else
  (void) fixture;
  g_test_skip ("the command was built without JSON");
#endif
}

static void
test_plot (TestFixture *fixture)
{
  const char *id = gpu_device_get_id (fixture->device);
  g_autofree char *gnuplot = g_find_program_in_path ("gnuplot");
  g_autofree char *trace = write_file ("it's.trace", lines);
  g_autofree char *path = g_build_filename (test_tool_folder (), "bytes.svg", NULL);
  g_autofree char *content = NULL;

  if (gnuplot == NULL)
    {
      g_test_skip ("no gnuplot");
      return;
    }
  {
    g_auto (TestRun) run = test_tool_run ("pool", "replay", id, trace, "--plot", path, NULL);

    g_assert_cmpstr (run.err, ==, "");
    g_assert_cmpint (run.status, ==, 0);
  }
  g_assert_true (g_file_get_contents (path, &content, NULL, NULL));
  g_assert_nonnull (strstr (content, "<svg"));
  g_assert_nonnull (strstr (content, ">managed<"));
  g_assert_nonnull (strstr (content, "on "));
  g_remove (path);
}

/* --- invalid input ---------------------------------------------------------------------------- */

static void
test_bad_trace (void)
{
  g_autofree char *path = write_file ("bad.trace", "a 1 10 0\nf 1 0\nf 1 0\n");
  g_autofree char *place = g_strconcat (path, ":3: ", NULL);

  {
    g_auto (TestRun) run = test_tool_run ("pool", "replay", "host", path, NULL);

    g_assert_cmpint (run.status, ==, 1);
    g_assert_cmpstr (run.out, ==, "");
    g_assert_nonnull (strstr (run.err, place));
  }
  {
    g_auto (TestRun) run = test_tool_run ("pool", "replay", "/nonexistent/trace", NULL);

    g_assert_cmpint (run.status, ==, 1);
    g_assert_cmpstr (run.out, ==, "");
    g_assert_nonnull (strstr (run.err, "/nonexistent/trace"));
  }
  {
    g_auto (TestRun) run = test_tool_run ("pool", "replay", "nonsense:7", path, NULL);

    g_assert_cmpint (run.status, ==, 1);
    g_assert_cmpstr (run.out, ==, "");
    g_assert_nonnull (strstr (run.err, "'nonsense:7' is neither a file nor a device"));
  }
}

static void
test_usage (void)
{
  static const struct { const char *command, *option, *value, *words; } wrong[] = {
    { NULL, NULL, NULL, "missing subcommand" }, { "swim", NULL, NULL, "'swim' is neither replay" },
    { "replay", NULL, NULL, "missing TRACE" }, { "replay", "--kind", "kind", "missing TRACE" },
    { "replay", "t", "--kind=round", "no kind 'round'" },
    { "replay", "t", "--limit=much", "the size 'much' is not a number" },
    { "replay", "t", "--limit=0", "the limit '0' is too small: the minimum is 1 byte" },
    { "replay", "t", "--limit=99999999999G", "is too large" },
    { "replay", "t", "--fragmentation-target=-2", "target -2" },
    { "replay", "t", "--fragmentation-target=nan", "target nan" },
    { "replay", "t", "--plot=x.gif", "'x.gif' ends neither in .svg nor in .png" },
    { "replay", "t", "--nonsense", "--nonsense" },
    { "bench", "host", "other", "too many arguments: 'other'" },
    { "bench", "--threads", "0", "threads 0" }, { "bench", "--threads", "257", "threads 257" },
    { "bench", "--min-time", "0", "0 seconds" }, { "bench", "--min-time", "nan", "nan seconds" },
    { "bench", "--kind", "round", "no kind 'round'" }
  };

  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_auto (TestRun) run = test_tool_run ("pool", wrong[i].command, wrong[i].option,
                                            wrong[i].value, NULL);

      g_assert_cmpint (run.status, ==, 2);
      g_assert_cmpstr (run.out, ==, "");
      if (strstr (run.err, wrong[i].words) == NULL)
        g_error ("no \"%s\" in: %s", wrong[i].words, run.err);
      g_assert_nonnull (strstr (run.err, "--help"));
    }
  {
    g_auto (TestRun) run = test_tool_run ("pool", "replay", "a", "b", "--plot=x.svg", "--blocks",
                                          "--touch", NULL);

    g_assert_cmpint (run.status, ==, 2);
    g_assert_nonnull (strstr (run.err, "--blocks cannot be used"));
  }
}

static void
test_help (void)
{
  static const char *const words[] = { "--help", "replay", "bench" };

  for (guint i = 0; i < G_N_ELEMENTS (words); i++)
    {
      g_auto (TestRun) run = test_tool_run ("pool", words[i], i > 0 ? "--help" : NULL, NULL);

      g_assert_cmpint (run.status, ==, 0);
      g_assert_cmpstr (run.err, ==, "");
      g_assert_nonnull (strstr (run.out, i > 0 ? words[i] : "gpumem pool bench"));
    }
}

/* --- the stand-in driver ---------------------------------------------------------------------- */

static gboolean
has_stand_in (TestFixture *fixture)
{
  if (g_getenv ("GPUMEM_TEST_CUDA_FOLDERS") != NULL &&
      strstr (gpu_device_get_name (fixture->device), "Stand-in") != NULL)
    return TRUE;
  g_test_skip ("not the tests' driver");
  return FALSE;
}

static void
restore_driver (const char *old)
{
  g_unsetenv ("GPUMEM_CUDA_DRIVER");
  if (old != NULL)
    g_setenv ("GPUMEM_CUDA_DRIVER", old, TRUE);
}

/* Makes each memory call of the driver fail. The command reports the failure, and nothing leaks. */
static void
test_failing_driver (TestFixture *fixture)
{
  static const char *const drivers[] = {
    "leaks=yes", "leaks=yes,fail=cuMemCreate:1:2:0", "leaks=yes,fail=cuMemMap:1",
    "leaks=yes,fail=cuMemSetAccess:1", "leaks=yes,fail=cuStreamCreate*:2"
  };
  const char *id = gpu_device_get_id (fixture->device);
  g_autofree char *old = g_strdup (g_getenv ("GPUMEM_CUDA_DRIVER"));
  g_autofree char *path = write_file ("driver.trace", lines);

  if (!has_stand_in (fixture))
    return;
  for (guint i = 0; i < G_N_ELEMENTS (drivers); i++)
    {
      g_setenv ("GPUMEM_CUDA_DRIVER", drivers[i], TRUE);
      {
        g_auto (TestRun) run = test_tool_run ("pool", "replay", id, path, NULL);
        g_autofree char *all = g_strconcat (run.out, run.err, NULL);

        g_assert_cmpint (run.status, ==, i == 0 ? 0 : 1);
        g_assert_true ((strstr (all, "CUDA_ERROR_") != NULL) == (i > 0));
      }
    }
  restore_driver (old);
}

/* An error of the driver ends the replay, also after an allocation over the limit. */
static void
test_failure_after_refusal (TestFixture *fixture)
{
  const char *id = gpu_device_get_id (fixture->device);
  g_autofree char *old = g_strdup (g_getenv ("GPUMEM_CUDA_DRIVER"));
  g_autofree char *path = write_file ("after.trace", "a 1 8000000 0\na 2 1000 0\nf 2 0\n");

  if (!has_stand_in (fixture))
    return;
  g_setenv ("GPUMEM_CUDA_DRIVER", "leaks=yes,fail=cuMemCreate:1:999", TRUE);
  {
    g_auto (TestRun) run = test_tool_run ("pool", "replay", id, path, "--limit", "4M", NULL);

    g_assert_cmpint (run.status, ==, 1);
    g_assert_cmpstr (run.out, ==, "");
    g_assert_nonnull (strstr (run.err, "CUDA_ERROR_UNKNOWN (999)"));
  }
  restore_driver (old);
}

/* --- bench -----------------------------------------------------------------------------------*/

#define QUICK "--min-time=0.0001"

/* Fails unless the first column, or a line "Left out", has @name. On a busy machine, long numbers
 * narrow the first column, and a name continues on the next line. */
static void
assert_named (GStrv       rows,
              const char *name)
{
  g_autoptr (GString) column = g_string_new (NULL);

  for (guint i = 0; rows[i] != NULL; i++)
    {
      const char *word = rows[i] + strspn (rows[i], " ");

      g_string_append_len (column, word, strcspn (word, " "));
    }
  g_assert_nonnull (strstr (column->str, name));
}

static void
test_bench (void)
{
  g_auto (TestRun) run = test_tool_run ("pool", "bench", "host", QUICK, "-t", "1", NULL);
  g_auto (GStrv) rows = g_strsplit (run.out, "\n", -1);

  g_assert_cmpstr (run.err, ==, "");
  g_assert_cmpint (run.status, ==, 0);
  g_assert_true (g_str_has_prefix (run.out, "host"));
  g_assert_nonnull (strstr (run.out, "1,000,000 holes: only with --slow"));
  assert_named (rows, "jemalloc");
  assert_named (rows, "mimalloc");
  for (guint i = 0; rows[i] != NULL && !g_str_equal (rows[i], "Left out"); i++)
    g_assert_cmpint (g_utf8_strlen (rows[i], -1), <=, 120);
}

/* The process that measures another malloc() prints nothing if the library is not loaded. */
static void
test_bench_library (void)
{
  g_auto (TestRun) run = test_tool_run ("pool", "bench", "host", QUICK, "--malloc-line=5,0", NULL);
  g_auto (TestRun) wrong = test_tool_run ("pool", "bench", "host", QUICK, "--malloc-line=0,0",
                                          NULL);

  g_assert_cmpstr (run.err, ==, "");
  g_assert_cmpstr (run.out, ==, "");
  g_assert_cmpint (run.status, ==, 0);
  g_assert_nonnull (strstr (wrong.err, "invalid line '0,0'"));
  g_assert_cmpint (wrong.status, ==, 1);
}

#ifdef HAVE_TOUR
/* On the host, malloc() of a library is measured, or left out because it is not installed. */
static void
check_library (JsonObject *root,
               JsonObject *result,
               const char *name,
               gboolean    is_host)
{
  JsonArray *omissions = json_object_get_array_member (root, "left-out");
  gboolean is_installed = is_host;

  for (guint i = 0; i < json_array_get_length (omissions); i++)
    if (g_str_has_prefix (json_array_get_string_element (omissions, i), name))
      {
        g_test_message ("%s", json_array_get_string_element (omissions, i));
        is_installed = FALSE;
      }
  g_assert_true (json_object_has_member (result, name) == is_installed);
}
#endif

/* Measures with 1 thread and with 3 threads. Both results contain times for buffers and, if the
 * pool has blocks, for blocks. Only the result for 1 thread contains times for the device's own
 * allocations. */
static void
test_bench_json (TestFixture *fixture)
{
#ifdef HAVE_TOUR
  const char *id = gpu_device_get_id (fixture->device);
  g_auto (TestRun) run = test_tool_run ("pool", "bench", id, QUICK, "-t", "3", "--json", NULL);
  g_autoptr (JsonParser) parser = json_parser_new ();
  JsonObject *root;
  JsonArray *results;
  gboolean is_host = g_str_equal (gpu_device_get_backend (fixture->device), "host");
  gboolean blocks;
  guint n_first = 0;

  g_assert_cmpstr (run.err, ==, "");
  g_assert_cmpint (run.status, ==, 0);
  root = parse (run.out, parser);
  blocks = json_object_get_boolean_member (root, "blocks");
  g_assert_true (blocks == has_blocks (fixture, json_object_get_string_member (root, "kind")));
  results = json_object_get_array_member (root, "results");
  for (guint i = 0; i < json_array_get_length (results); i++)
    {
      JsonObject *result = json_array_get_object_element (results, i);
      gint64 n_threads = json_object_get_int_member (result, "threads");

      g_assert_true (n_threads == 1 || n_threads == 3);
      if (!g_str_equal (json_object_get_string_member (result, "workload"), "one of 1 KiB"))
        continue;
      n_first++;
      g_assert_true (json_object_has_member (result, "pool-block-ns") == blocks);
      g_assert_cmpfloat (json_object_get_double_member (result, "pool-buffer-ns"), >, 0);
      g_assert_true (json_object_has_member (result, "device-ns") == (n_threads == 1));
      g_assert_true (json_object_has_member (result, "device-on-stream-ns")
                     == (n_threads == 1 && (gpu_device_get_capabilities (fixture->device)
                                            & GPU_CAPABILITIES_STREAM_ORDERED) != 0));
      g_assert_true (json_object_has_member (result, "malloc-ns") == is_host);
      check_library (root, result, "jemalloc-ns", is_host);
      check_library (root, result, "mimalloc-ns", is_host);
    }
  g_assert_cmpuint (n_first, ==, 2);
#else
  (void) fixture;
  g_test_skip ("the command was built without JSON");
#endif
}

static void
test_interrupted (TestFixture *fixture)
{
  const char *id = gpu_device_get_id (fixture->device);

  test_tool_interrupt (id, (const char *const[]) { "pool", "bench", id, "--min-time=1000", NULL });
}

int
main (int    argc,
      char **argv)
{
  gboolean has_tool = test_tool_init ();
  int status;

  test_init (&argc, &argv);
  if (has_tool)
    {
      test_add ("table", test_table);
      test_add ("refused", test_refused);
      test_add ("not-supported", test_not_supported);
      test_add ("json", test_json);
      test_add ("viewers", test_viewers);
      test_add ("viewers/refused", test_viewers_refused);
      test_add ("plot", test_plot);
      test_add_plain ("bad-trace", test_bad_trace);
      test_add_plain ("usage", test_usage);
      test_add_plain ("help", test_help);
      test_add ("failing-driver", test_failing_driver);
      test_add ("failure-after-refusal", test_failure_after_refusal);
      test_add_plain ("bench", test_bench);
      test_add_plain ("bench/library", test_bench_library);
      test_add ("bench/json", test_bench_json);
      test_add ("interrupted", test_interrupted);
    }
  status = test_run ();
  test_tool_clear ();
  return status;
}
