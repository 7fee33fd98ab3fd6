/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* gpumem bandwidth: its measurements, the reasons for omitted measurements, and its exit status. */
#include "config.h"

#include <glib/gstdio.h>
#ifdef HAVE_TOUR
#include <json-glib/json-glib.h>
#endif

#include "test-tool-util.h"
#include "test-util.h"

static const char *const paths[] = {
  "ordinary", "locked", "registered", "mapped", "svm", "device", "peer"
};

/* Options for the shortest possible measurement. */
#define QUICK "--min-time", "0.0001", "--rounds", "2"

static void
test_table (TestFixture *fixture)
{
  const char *id = gpu_device_get_id (fixture->device);
  g_auto (TestRun) run = test_tool_run ("bandwidth", id, "--sizes", "1,3K-3M:1024", QUICK, NULL);
  g_auto (GStrv) lines = g_strsplit (run.out, "\n", -1);

  g_assert_cmpstr (run.err, ==, "");
  g_assert_cmpint (run.status, ==, 0);
  g_assert_true (g_str_has_prefix (run.out, id));
  g_assert_nonnull (strstr (run.out, "GB/s"));
  for (guint i = 0; i < G_N_ELEMENTS (paths); i++)
    g_assert_nonnull (strstr (run.out, paths[i]));
  g_assert_nonnull (strstr (run.out, " 1 B "));
  g_assert_nonnull (strstr (run.out, " 3.0 KiB "));
  g_assert_nonnull (strstr (run.out, " 3.0 MiB "));
  g_assert_null (strstr (run.out, "WRONG"));
  g_assert_null (strchr (run.out, '\033'));
  for (guint i = 0; lines[i] != NULL; i++)
    g_assert_cmpint (g_utf8_strlen (lines[i], -1), <=, 120);
}

#ifdef HAVE_TOUR
static JsonObject *
parse (const TestRun *run,
       JsonParser    *parser)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (json_parser_load_from_data (parser, run->out, -1, &error), error);
  return json_node_get_object (json_parser_get_root (parser));
}

static void
check_speed (JsonObject *result,
             const char *name)
{
  JsonObject *speed = json_object_get_object_member (result, name);
  double median = json_object_get_double_member (speed, "median");

  g_assert_cmpfloat (json_object_get_double_member (speed, "least"), >, 0);
  g_assert_cmpfloat (json_object_get_double_member (speed, "least"), <=, median);
  g_assert_cmpfloat (median, <=, json_object_get_double_member (speed, "most"));
}

/* Returns the number of results of @path. @raw: raw driver calls are measured, too. */
static guint
check_results (JsonArray  *results,
               const char *path,
               gboolean    raw)
{
  guint n = 0;

  for (guint i = 0; i < json_array_get_length (results); i++)
    {
      JsonObject *result = json_array_get_object_element (results, i);

      if (!g_str_equal (json_object_get_string_member (result, "path"), path))
        continue;
      n++;
      check_speed (result, "gpumem-gb-per-second");
      if (raw)
        {
          check_speed (result, "driver-gb-per-second");
          g_assert_cmpfloat (json_object_get_double_member (result, "ratio"), >, 0);
        }
      else
        g_assert_true (json_object_get_null_member (result, "driver-gb-per-second")
                       && json_object_get_null_member (result, "ratio"));
      g_assert_cmpint (json_object_get_int_member (result, "rounds"), >=, 2);
      g_assert_cmpint (json_object_get_int_member (result, "copies-per-round"), >=, 1);
      g_assert_true (json_object_get_boolean_member (result, "right"));
      g_assert_true (json_object_get_null_member (result, "wrong"));
    }
  return n;
}

static gboolean
is_left_out (JsonArray  *omissions,
             const char *path)
{
  for (guint i = 0; i < json_array_get_length (omissions); i++)
    {
      JsonObject *omission = json_array_get_object_element (omissions, i);

      if (g_strcmp0 (json_object_get_string_member (omission, "path"), path) != 0)
        continue;
      g_assert_cmpstr (json_object_get_string_member (omission, "reason"), !=, "");
      g_assert_false (json_object_get_boolean_member (omission, "failed"));
      return TRUE;
    }
  return FALSE;
}
#endif

/* The output has results for all directions and sizes of each path, or the reason why the path was
 * omitted. */
static void
test_json (TestFixture *fixture)
{
#ifdef HAVE_TOUR
  const char *id = gpu_device_get_id (fixture->device);
  g_auto (TestRun) run = test_tool_run ("bandwidth", id, "--json", "-s", "5,64K,64k", QUICK, NULL);
  g_autoptr (JsonParser) parser = json_parser_new ();
  JsonObject *root;
  JsonArray *results, *omissions;
  guint n_results = 0;

  g_assert_cmpstr (run.err, ==, "");
  g_assert_cmpint (run.status, ==, 0);
  root = parse (&run, parser);
  results = json_object_get_array_member (root, "results");
  omissions = json_object_get_array_member (root, "left-out");
  g_assert_cmpstr (json_object_get_string_member (
                     json_object_get_object_member (root, "device"), "id"), ==, id);
  g_assert_false (json_object_get_boolean_member (root, "interrupted"));
  for (guint i = 0; i < G_N_ELEMENTS (paths); i++)
    {
      /* Only CUDA copies between contexts. */
      gboolean raw = !g_str_equal (paths[i], "peer")
                     || g_str_equal (gpu_device_get_backend (fixture->device), "cuda");
      guint n = check_results (results, paths[i], raw);
      guint n_directions = g_str_equal (paths[i], "device") ? 1 : 3;

      g_assert_cmpuint (n, ==, is_left_out (omissions, paths[i]) ? 0 : 2 * n_directions);
      n_results += n;
    }
  g_assert_cmpuint (n_results, ==, json_array_get_length (results));
  g_assert_cmpuint (n_results, >=, 2 * (3 + 1));
#else
  (void) fixture;
  g_test_skip ("the command was built without JSON");
#endif
}

static void
test_options (TestFixture *fixture)
{
  const char *id = gpu_device_get_id (fixture->device);
  g_auto (TestRun) run = test_tool_run ("bandwidth", id, "-s", "4K,1T", "-p", "device, ordinary",
                                        "-t", "3", QUICK, NULL);

  g_assert_cmpstr (run.err, ==, "");
  g_assert_cmpint (run.status, ==, 0);
  g_assert_nonnull (strstr (run.out, "by 3 threads"));
  g_assert_nonnull (strstr (run.out, "1.0 TiB  the free memory is enough for"));
  g_assert_null (strstr (run.out, "mapped"));
  g_assert_null (strstr (run.out, "peer"));
}

/* --- files ------------------------------------------------------------------ */

static void
check_empty (const char *folder)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GDir) dir = g_dir_open (folder, 0, &error);

  test_assert_ok (dir != NULL, error);
  g_assert_null (g_dir_read_name (dir));
}

/* Measures files in all directions, and leaves none: by --file or by --paths, in $TMPDIR, in a
 * folder and with a new name. */
static void
test_file (TestFixture *fixture)
{
  static const char *const directions[] = { "to", "from", "both" };
  const char *id = gpu_device_get_id (fixture->device);
  g_autofree char *folder = g_dir_make_tmp ("gpumem-test-XXXXXX", NULL);
  g_autofree char *in_folder = g_strconcat ("--file=", folder, NULL);
  g_autofree char *named = g_strconcat ("--file=", folder, "/data", NULL);
  const char *const options[] = { "--file", in_folder, named, "--paths=file" };

  for (guint i = 0; i < G_N_ELEMENTS (options); i++)
    {
      g_auto (TestRun) run = test_tool_run ("bandwidth", options[i], id, "--paths",
                                            i == 3 ? "file" : "device", "-s", "1,3M", QUICK, NULL);

      g_assert_cmpstr (run.err, ==, "");
      g_assert_cmpint (run.status, ==, 0);
      g_assert_null (strstr (run.out, "WRONG"));
      for (guint j = 0; j < G_N_ELEMENTS (directions); j++)
        {
          g_autofree char *row = g_strdup_printf ("(?m)^file +%s +3.0 MiB +[0-9.]+ +[0-9.]+ ",
                                                  directions[j]);

          g_assert_true (g_regex_match_simple (row, run.out, 0, 0));
        }
      check_empty (folder);
    }
  g_rmdir (folder);
}

/* A file of the user is not overwritten. */
static void
test_file_exists (void)
{
  g_autofree char *folder = g_dir_make_tmp ("gpumem-test-XXXXXX", NULL);
  g_autofree char *path = g_build_filename (folder, "precious", NULL);
  g_autofree char *option = g_strconcat ("--file=", path, NULL);
  g_autofree char *text = NULL;

  g_assert_true (g_file_set_contents (path, "text", -1, NULL));
  {
    g_auto (TestRun) run = test_tool_run ("bandwidth", "host", "--paths=file", option, "-s", "4K",
                                          QUICK, NULL);

    g_assert_cmpint (run.status, ==, 1);
    g_assert_nonnull (strstr (run.out, "File exists"));
  }
  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  g_assert_cmpstr (text, ==, "text");
  g_unlink (path);
  g_rmdir (folder);
}

static gboolean
is_stand_in (TestFixture *fixture)
{
  if (g_getenv ("GPUMEM_TEST_CUDA_FOLDERS") != NULL &&
      strstr (gpu_device_get_name (fixture->device), "Stand-in") != NULL)
    return TRUE;
  g_test_skip ("not the tests' driver");
  return FALSE;
}

/* --- all devices -------------------------------------------------------------- */

/* The matrices have a row and a column for page-locked memory and for each device of the back
 * end. */
static void
test_peers (TestFixture *fixture)
{
  const char *id = gpu_device_get_id (fixture->device);
  g_autofree char *report = g_build_filename (test_tool_folder (), "peers.html", NULL);
  g_auto (TestRun) run = test_tool_run ("bandwidth", "--peers", id, "-s", "5,300K", "--report",
                                        report, QUICK, NULL);
  g_autofree char *page = NULL;
  g_autofree char *row = g_strdup_printf ("(?m)^%s( +[-0-9.]+)* +[0-9.]+$", id);
  g_autofree char *column = g_strdup_printf ("(?m)^FROM +page-locked .*%s", id);

  g_assert_cmpstr (run.err, ==, "");
  g_assert_cmpint (run.status, ==, 0);
  g_assert_nonnull (strstr (run.out, "\nCopies of 5 B: GB/s\n"));
  g_assert_nonnull (strstr (run.out, "\nCopies of 300.0 KiB: ratio to the driver's own calls\n"));
  g_assert_true (g_regex_match_simple ("(?m)^page-locked +-( +[-0-9.]+)+$", run.out, 0, 0));
  g_assert_true (g_regex_match_simple (row, run.out, 0, 0));
  g_assert_true (g_regex_match_simple (column, run.out, 0, 0));
  g_assert_null (strstr (run.out, "WRONG"));
  g_assert_true (g_file_get_contents (report, &page, NULL, NULL));
  g_assert_nonnull (strstr (page, "Copies of 300.0 KiB: GB/s"));
  g_assert_nonnull (strstr (page, "<th>page-locked</th>"));
}

#ifdef HAVE_TOUR
/* Returns the number of results from @from to @to. */
static guint
count_ends (JsonArray  *results,
            const char *from,
            const char *to)
{
  guint n = 0;

  for (guint i = 0; i < json_array_get_length (results); i++)
    {
      JsonObject *result = json_array_get_object_element (results, i);

      n += g_str_equal (json_object_get_string_member (result, "from"), from)
           && g_str_equal (json_object_get_string_member (result, "to"), to);
    }
  return n;
}
#endif

static void
restore_driver (const char *old)
{
  g_unsetenv ("GPUMEM_CUDA_DRIVER");
  if (old != NULL)
    g_setenv ("GPUMEM_CUDA_DRIVER", old, TRUE);
}

/* Without --sizes, the copies fit in the memory of small devices. A chosen size is left out. */
static void
test_peers_small (TestFixture *fixture)
{
  g_autofree char *old = g_strdup (g_getenv ("GPUMEM_CUDA_DRIVER"));

  if (!is_stand_in (fixture))
    return;
  g_setenv ("GPUMEM_CUDA_DRIVER", "devices=2,memory=20M", TRUE);
  {
    g_auto (TestRun) run = test_tool_run ("bandwidth", "--peers", "cuda:0", QUICK, NULL);
    g_auto (TestRun) large = test_tool_run ("bandwidth", "--peers", "cuda:0", "-s", "256M", QUICK,
                                            NULL);

    restore_driver (old);
    g_assert_cmpstr (run.err, ==, "");
    g_assert_cmpint (run.status, ==, 0);
    g_assert_nonnull (strstr (run.out, "\nCopies of 4.0 MiB: GB/s\n"));
    g_assert_true (g_regex_match_simple ("(?m)^cuda:1( +[0-9.]+){3}$", run.out, 0, 0));
    g_assert_null (strstr (run.out, "the free memory is enough"));
    g_assert_nonnull (strstr (large.out, "the free memory is enough"));
  }
}

/* With four devices, two of them without access to each other's memory, every copy is measured. */
static void
test_peers_json (TestFixture *fixture)
{
#ifdef HAVE_TOUR
  static const char *const places[] = { "page-locked", "cuda:0", "cuda:1", "cuda:2", "cuda:3" };
  g_autofree char *old = g_strdup (g_getenv ("GPUMEM_CUDA_DRIVER"));
  g_autoptr (JsonParser) parser = json_parser_new ();
  JsonObject *root;
  JsonArray *results;
  g_auto (TestRun) run = { 0 };

  if (!is_stand_in (fixture))
    return;
  g_setenv ("GPUMEM_CUDA_DRIVER", "devices=4,deny=0-2:2-0,leaks=yes", TRUE);
  run = test_tool_run ("bandwidth", "--peers", "cuda:3", "--json", "-s", "200K", QUICK, NULL);
  restore_driver (old);
  g_assert_cmpstr (run.err, ==, "");
  g_assert_cmpint (run.status, ==, 0);
  root = parse (&run, parser);
  results = json_object_get_array_member (root, "results");
  g_assert_cmpuint (json_array_get_length (json_object_get_array_member (root, "devices")), ==, 4);
  g_assert_cmpuint (json_array_get_length (json_object_get_array_member (root, "left-out")), ==, 0);
  g_assert_cmpuint (check_results (results, "peer", TRUE), ==, 4 * 3);
  for (guint i = 0; i < G_N_ELEMENTS (places); i++)
    for (guint j = 0; j < G_N_ELEMENTS (places); j++)
      g_assert_cmpuint (count_ends (results, places[i], places[j]), ==, i + j > 0);
#else
  (void) fixture;
  g_test_skip ("the command was built without JSON");
#endif
}

/* --- invalid arguments ------------------------------------------------------ */

static void
test_usage (void)
{
  static const struct { const char *option, *value, *words; } wrong[] = {
    { "--sizes", "", "the list of sizes '' is empty" },
    { "--sizes", "4K,twelve", "the size 'twelve' is not a number" },
    { "--sizes", "0", "the size '0' is too small: the minimum is 1 byte" },
    { "--sizes", "-5", "the size ''" },
    { "--sizes", "4Q", "the size '4Q'" }, { "--sizes", "4KB", "the size '4KB'" },
    { "--sizes", "2T", "the size '2T' is too large" },
    { "--sizes", "99999999999999999999", "the size '99999999999999999999' is too large" },
    { "--sizes", "1M-4K", "the size '1M-4K' ends below its start" },
    { "--sizes", "1-4K:1", "the size '1-4K:1' needs a factor" },
    { "--sizes", "1-1T:two", "the size '1-1T:two' needs a factor" },
    { "--paths", "ordinary,scenic", "no path 'scenic'; the paths are ordinary, " },
    { "--threads", "257", "threads 257" }, { "--threads", "-1", "threads -1" },
    { "--threads", "many", "many" }, { "--rounds", "0", "rounds 0" },
    { "--rounds", "1001", "rounds 1001" }, { "--min-time", "0", "0 seconds" },
    { "--min-time", "nan", "nan seconds" }, { "--min-time", "3601", "3601 seconds" },
    { "--plot", "diagram.gif", "'diagram.gif' ends neither in .svg nor in .png" },
    { "--peers", "--paths=device", "--peers cannot be used with" },
    { "--peers", "--peer=host", "--peers cannot be used with" },
    { "host", "other", "too many arguments: 'other'" }, { "--nonsense", "1", "--nonsense" }
  };

  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_auto (TestRun) run = test_tool_run ("bandwidth", wrong[i].option, wrong[i].value, NULL);

      g_assert_cmpint (run.status, ==, 2);
      g_assert_cmpstr (run.out, ==, "");
      if (strstr (run.err, wrong[i].words) == NULL)
        g_error ("no \"%s\" in: %s", wrong[i].words, run.err);
      g_assert_nonnull (strstr (run.err, "gpumem bandwidth --help"));
    }
}

static void
test_help (void)
{
  g_auto (TestRun) run = test_tool_run ("bandwidth", "--help", NULL);

  g_assert_cmpint (run.status, ==, 0);
  g_assert_cmpstr (run.err, ==, "");
  for (guint i = 0; i < G_N_ELEMENTS (paths); i++)
    g_assert_nonnull (strstr (run.out, paths[i]));
}

static void
test_device_errors (void)
{
  {
    g_auto (TestRun) run = test_tool_run ("bandwidth", "nonsense:7", NULL);

    g_assert_cmpint (run.status, ==, 1);
    g_assert_cmpstr (run.out, ==, "");
    g_assert_nonnull (strstr (run.err, "nonsense:7"));
  }
  {
    g_auto (TestRun) run = test_tool_run ("bandwidth", "host", "--peer", "host", NULL);

    g_assert_cmpint (run.status, ==, 1);
    g_assert_cmpstr (run.out, ==, "");
    g_assert_nonnull (strstr (run.err, "must be another device"));
  }
}

/* Runs the tool on the stand-in driver with the options @driver. Leaks make the exit status 99. */
static TestRun
run_on_driver (const char *id,
               const char *driver,
               const char *names)
{
  g_autofree char *old = g_strdup (g_getenv ("GPUMEM_CUDA_DRIVER"));
  TestRun run;

  g_setenv ("GPUMEM_CUDA_DRIVER", driver, TRUE);
  run = test_tool_run ("bandwidth", id, "-s", "4K", "-p", names, QUICK, NULL);
  restore_driver (old);
  return run;
}

static void
test_leaks (TestFixture *fixture)
{
  const char *id = gpu_device_get_id (fixture->device);

  if (!is_stand_in (fixture))
    return;
  {
    g_auto (TestRun) run = run_on_driver (id, "devices=2,leaks=yes",
                                          "ordinary,locked,registered,mapped,svm,device,peer");

    g_assert_cmpstr (run.err, ==, "");
    g_assert_cmpint (run.status, ==, 0);
  }
}

/* Makes one of three writes fail. The first creates the data for reads; the second is a measured
 * write by the library; the third is a direct driver call. */
static void
test_failing_driver (TestFixture *fixture)
{
  const char *id = gpu_device_get_id (fixture->device);

  if (!is_stand_in (fixture))
    return;
  for (guint i = 1; i <= 3; i++)
    {
      g_autofree char *driver = g_strdup_printf ("leaks=yes,fail=cuMemcpyHtoDAsync:%u", i);
      g_auto (TestRun) run = run_on_driver (id, driver, "ordinary");

      g_assert_cmpstr (run.err, ==, "");
      g_assert_cmpint (run.status, ==, 1);
      g_assert_nonnull (strstr (run.out, "ordinary  "));
      g_assert_nonnull (strstr (run.out, "CUDA_ERROR_UNKNOWN"));
      g_assert_true ((strstr (run.out, "stopped at direction to, size 4.0 KiB") != NULL)
                     == (i > 1));
      g_assert_true ((strstr (run.out, "called directly") != NULL) == (i == 3));
    }
}

/* --- diagrams --------------------------------------------------------------- */

static void
check_plot (const char *name,
            const char *magic,
            const char *option)
{
  g_autofree char *path = g_build_filename (test_tool_folder (), name, NULL);
  g_autofree char *content = NULL;
  gsize size = 0;
  g_auto (TestRun) run = test_tool_run ("bandwidth", "host", "--sizes=1,4K,64K", "--plot", path,
                                        QUICK, option, NULL);

  g_assert_cmpstr (run.err, ==, "");
  g_assert_cmpint (run.status, ==, 0);
  g_assert_true (g_file_get_contents (path, &content, &size, NULL));
  g_assert_cmpuint (size, >, 1000);
  g_assert_nonnull (g_strstr_len (content, 1000, magic));
}

static void
test_plot (void)
{
  g_autofree char *gnuplot = g_find_program_in_path ("gnuplot");

  if (gnuplot == NULL)
    {
      g_test_skip ("no gnuplot");
      return;
    }
  check_plot ("diagram of 'all'.svg", "<svg", "--rounds=2");
  check_plot ("diagram.png", "PNG", "--rounds=2");
  check_plot ("matrix.svg", "<svg", "--peers");
}

/* Runs the tool with @folder as the only folder in PATH. */
static TestRun
run_in_path (const char *folder,
             const char *plot)
{
  g_autofree char *path = g_strdup (g_getenv ("PATH"));
  TestRun run;

  test_tool_direct (TRUE);
  g_setenv ("PATH", folder, TRUE);
  run = test_tool_run ("bandwidth", "host", "-s", "1", "-p", "ordinary", "--plot", plot, QUICK,
                       NULL);
  g_setenv ("PATH", path, TRUE);
  test_tool_direct (FALSE);
  return run;
}

static void
test_plot_missing (void)
{
  g_autofree char *plot = g_build_filename (test_tool_folder (), "missing.svg", NULL);
  g_auto (TestRun) run = run_in_path (test_tool_folder (), plot);

  g_assert_cmpint (run.status, ==, 1);
  g_assert_cmpstr (run.out, ==, "");
  g_assert_nonnull (strstr (run.err, "there is no gnuplot"));
  g_assert_nonnull (strstr (run.err, plot));
  g_assert_false (g_file_test (plot, G_FILE_TEST_EXISTS));
}

static void
test_plot_failing (void)
{
  g_autofree char *plot = g_build_filename (test_tool_folder (), "failing.png", NULL);
  g_autofree char *folder = g_build_filename (test_tool_folder (), "bin", NULL);
  g_autofree char *program = g_build_filename (folder, "gnuplot", NULL);

  g_assert_cmpint (g_mkdir_with_parents (folder, 0777), ==, 0);
  g_assert_true (g_file_set_contents_full (program,
                                           "#!/bin/sh\necho no such terminal >&2\nexit 3\n", -1,
                                           G_FILE_SET_CONTENTS_NONE, 0755, NULL));
  {
    g_auto (TestRun) run = run_in_path (folder, plot);

    g_assert_cmpint (run.status, ==, 1);
    g_assert_nonnull (strstr (run.out, "ordinary"));
    g_assert_nonnull (strstr (run.err, "no such terminal"));
    g_assert_nonnull (strstr (run.err, plot));
    g_assert_false (g_file_test (plot, G_FILE_TEST_EXISTS));
  }
}

/* --- Ctrl-C ----------------------------------------------------------------- */

static void
test_interrupted (TestFixture *fixture)
{
  const char *id = gpu_device_get_id (fixture->device);

  test_tool_interrupt (id, (const char *const[]) { "bandwidth", id, "--sizes=4K,64K",
                                                   "--min-time=1000", NULL });
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
      test_add ("json", test_json);
      test_add ("options", test_options);
      test_add ("file", test_file);
      test_add_plain ("file/exists", test_file_exists);
      test_add ("peers", test_peers);
      test_add ("peers/json", test_peers_json);
      test_add ("peers/small", test_peers_small);
      test_add_plain ("usage", test_usage);
      test_add_plain ("help", test_help);
      test_add_plain ("device-errors", test_device_errors);
      test_add ("leaks", test_leaks);
      test_add ("failing-driver", test_failing_driver);
      test_add_plain ("plot", test_plot);
      test_add_plain ("plot/missing", test_plot_missing);
      test_add_plain ("plot/failing", test_plot_failing);
      test_add ("interrupted", test_interrupted);
    }
  status = test_run ();
  test_tool_clear ();
  return status;
}
