/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The gpumem command: its output, its files and its exit status. */
#include "config.h"

#include <signal.h>

#include "test-tool-util.h"
#include "test-util.h"

static const char *folder;    /* the folder of all files that the tests write */

static gboolean
has_tour (void)
{
  g_auto (TestRun) run = test_tool_run ("--help", NULL);

  if (strstr (run.out, "tour") != NULL)
    return TRUE;
  g_test_skip ("the command was built without the tour");
  return FALSE;
}

/* --- a picture -------------------------------------------------------------- */

static guint32
checksum (const guint8 *data,
          gsize         size)
{
  guint32 sum = 0xffffffff;

  for (gsize i = 0; i < size; i++)
    {
      sum ^= data[i];
      for (guint bit = 0; bit < 8; bit++)
        sum = sum & 1 ? sum >> 1 ^ 0xedb88320 : sum >> 1;
    }
  return ~sum;
}

static void
add_number (GByteArray *to,
            guint32     number)
{
  number = GUINT32_TO_BE (number);
  g_byte_array_append (to, (const guint8 *) &number, sizeof number);
}

static void
add_chunk (GByteArray   *to,
           const char   *type,
           const guint8 *data,
           gsize         size)
{
  guint start;

  add_number (to, size);
  start = to->len;
  g_byte_array_append (to, (const guint8 *) type, 4);
  if (size > 0)
    g_byte_array_append (to, data, size);
  add_number (to, checksum (to->data + start, to->len - start));
}

/* Writes a PNG with random pixels of four channels. The file has data for @width columns, but its
 * header states @told_width columns. */
static char *
write_picture (const char *name,
               guint32     told_width,
               guint32     width,
               guint32     height)
{
  g_autoptr (GConverter) compressor =
    G_CONVERTER (g_zlib_compressor_new (G_ZLIB_COMPRESSOR_FORMAT_ZLIB, 1));
  gsize size = (1 + 4 * (gsize) width) * height;
  g_autofree guint8 *raw = g_malloc (size);
  g_autofree guint8 *packed = g_malloc (2 * size + 64);
  g_autoptr (GByteArray) png = g_byte_array_new ();
  g_autoptr (GError) error = NULL;
  char *path = g_build_filename (folder, name, NULL);
  guint32 head[4] = { GUINT32_TO_BE (told_width), GUINT32_TO_BE (height), 0, 0 };
  gsize n_read, n_packed;

  for (gsize i = 0; i < size; i++)
    raw[i] = i % (1 + 4 * width) == 0 ? 0 : g_test_rand_int () & 0xff;
  g_assert_cmpint (g_converter_convert (compressor, raw, size, packed, 2 * size + 64,
                                        G_CONVERTER_INPUT_AT_END, &n_read, &n_packed, &error),
                   ==, G_CONVERTER_FINISHED);
  memcpy (&head[2], "\x08\x06\x00\x00", 4);
  g_byte_array_append (png, (const guint8 *) "\x89PNG\r\n\x1a\n", 8);
  add_chunk (png, "IHDR", (const guint8 *) head, 13);
  add_chunk (png, "IDAT", packed, n_packed);
  add_chunk (png, "IEND", NULL, 0);
  g_assert_true (g_file_set_contents (path, (const char *) png->data, png->len, &error));
  return path;
}

static void
assert_png (const char *output,
            const char *id,
            const char *name)
{
  g_autofree char *file = id != NULL ? g_strdup_printf ("%s-%s.png", id, name) : g_strdup (name);
  g_autofree char *path = NULL;
  g_autofree char *content = NULL;
  gsize size = 0;

  g_strdelimit (file, ":", '-');
  path = g_build_filename (output, file, NULL);
  g_assert_true (g_file_get_contents (path, &content, &size, NULL));
  g_assert_cmpuint (size, >, 32);
  g_assert_cmpmem (content, 4, "\x89PNG", 4);
}

/* --- tests ------------------------------------------------------------------ */

static void
test_usage (void)
{
  static const char *const wrong[][3] = {
    { NULL }, { "nonsense" }, { "--nonsense" }, { "devices", "host" }, { "devices", "--nonsense" },
    { "devices", "--topology", "host" },
    { "info", "host", "host" }, { "info", "--nonsense" }
  };
  static const char *const right[][2] = {
    { "--help" }, { "-h" }, { "help" }, { "--version" }, { "devices", "--help" },
    { "info", "--help" }
  };

  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_auto (TestRun) run = test_tool_run (wrong[i][0], wrong[i][1], wrong[i][2], NULL);

      g_assert_cmpint (run.status, ==, 2);
      g_assert_cmpstr (run.out, ==, "");
      g_assert_nonnull (strstr (run.err, "--help"));
    }
  for (guint i = 0; i < G_N_ELEMENTS (right); i++)
    {
      g_auto (TestRun) run = test_tool_run (right[i][0], right[i][1], NULL);

      g_assert_cmpint (run.status, ==, 0);
      g_assert_cmpstr (run.out, !=, "");
      g_assert_cmpstr (run.err, ==, "");
    }
}

static void
test_devices_table (void)
{
  g_auto (TestRun) run = test_tool_run ("devices", NULL);
  g_autolist (GpuDevice) list = gpu_device_list ();
  g_auto (GStrv) lines = g_strsplit (run.out, "\n", -1);

  g_assert_cmpint (run.status, ==, 0);
  g_assert_null (strchr (run.out, '\033'));
  for (GList *l = list; l != NULL; l = l->next)
    g_assert_nonnull (strstr (run.out, gpu_device_get_id (l->data)));
  for (guint i = 0; lines[i] != NULL; i++)
    g_assert_cmpint (g_utf8_strlen (lines[i], -1), <=, 80);
}

/* Runs the command with these settings of the stand-ins for CUDA's driver and NVML. */
static TestRun
run_topology (const char *driver,
              const char *link,
              const char *format)
{
  g_autofree char *lib = g_test_build_filename (G_TEST_BUILT, "opencl-layer", "lib", NULL);
  g_autofree char *before = g_strdup (g_getenv ("GPUMEM_CUDA_DRIVER"));
  g_autofree char *path = g_strdup (g_getenv ("LD_LIBRARY_PATH"));
  g_autofree char *extended = g_strdup_printf ("%s:%s", lib, path != NULL ? path : "");
  TestRun run;

  g_setenv ("GPUMEM_CUDA_DRIVER", driver, TRUE);
  g_setenv ("GPUMEM_NVML", "", TRUE);
  g_setenv ("LD_LIBRARY_PATH", extended, TRUE);
  if (link != NULL)
    g_setenv ("GPUMEM_NVML_LINK", link, TRUE);
  run = test_tool_run ("devices", "--topology", format, NULL);
  g_unsetenv ("GPUMEM_NVML_LINK");
  g_unsetenv ("GPUMEM_NVML");
  if (path != NULL)
    g_setenv ("LD_LIBRARY_PATH", path, TRUE);
  else
    g_unsetenv ("LD_LIBRARY_PATH");
  if (before != NULL)
    g_setenv ("GPUMEM_CUDA_DRIVER", before, TRUE);
  else
    g_unsetenv ("GPUMEM_CUDA_DRIVER");
  g_assert_cmpstr (run.err, ==, "");
  g_assert_cmpint (run.status, ==, 0);
  return run;
}

static gboolean
has_stand_in (void)
{
  g_autoptr (GpuDevice) device = gpu_device_find ("cuda:0", NULL);

  if (device != NULL && g_str_has_prefix (gpu_device_get_name (device), "Stand-in"))
    return TRUE;
  g_test_skip ("only with the stand-in driver");
  return FALSE;
}

static gboolean
matches (const TestRun *run,
         const char    *expression)
{
  g_autofree char *multiline = g_strconcat ("(?m)", expression, NULL);

  if (g_regex_match_simple (multiline, run->out, 0, 0))
    return TRUE;
  g_test_message ("no '%s' in:\n%s", expression, run->out);
  return FALSE;
}

static void
test_topology (void)
{
  g_auto (TestRun) run = test_tool_run ("devices", "--topology", NULL);
  g_autolist (GpuDevice) list = gpu_device_list ();
  g_auto (GStrv) lines = g_strsplit (run.out, "\n", -1);

  g_assert_cmpstr (run.err, ==, "");
  g_assert_cmpint (run.status, ==, 0);
  for (GList *l = list; l != NULL; l = l->next)
    g_assert_nonnull (strstr (run.out, gpu_device_get_id (l->data)));
  g_assert_true (matches (&run, "^DEVICE +NAME +PCI BUS ID +NUMA NODE$"));
  g_assert_true (matches (&run, "^Links$"));
  for (guint i = 0; lines[i] != NULL; i++)
    g_assert_cmpint (g_utf8_strlen (lines[i], -1), <=, 80);
}

/* The table has the place of each device, and the link in each direction. */
static void
test_topology_links (void)
{
  if (!has_stand_in ())
    return;
  {
    g_auto (TestRun) run = run_topology ("devices=3,deny=0-1", NULL, NULL);

    g_assert_true (matches (&run, "^cuda:1 .* 0000:02:00.0 +0$"));
    g_assert_true (matches (&run, "^host .* - +-$"));
    g_assert_true (matches (&run, "^cuda:0 +cuda:1 +- +0 +no +no +no$"));
    g_assert_true (matches (&run, "^cuda:1 +cuda:0 +- +0 +yes +yes +yes$"));
    g_assert_true (matches (&run, "^cuda:1 +cuda:2 +- +1 +yes +no +yes$"));
    g_assert_null (strstr (run.out, "No driver"));
  }
  {
    g_auto (TestRun) run = run_topology ("devices=1", NULL, NULL);

    g_assert_true (matches (&run, "^No driver describes a link between two devices$"));
  }
}

/* NVML reports the kind of the link. */
static void
test_topology_kinds (void)
{
  static const char *const kinds[][2] = {
    { "nvlink", "NVLink" }, { "10", "PCIe switch" }, { "30", "PCIe host bridge" },
    { "50", "between NUMA nodes" }, { "51", "-" }, { "none", "-" }
  };
  g_autofree char *library = g_test_build_filename (G_TEST_BUILT, "opencl-layer", "lib",
                                                    "libnvidia-ml.so.1", NULL);

  if (!has_stand_in ())
    return;
  if (!g_file_test (library, G_FILE_TEST_EXISTS))
    {
      g_test_skip ("the stand-in for NVML was not built");
      return;
    }
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      g_autofree char *row = g_strdup_printf ("^cuda:0 +cuda:1 +%s +0 +yes ", kinds[i][1]);
      g_auto (TestRun) run = run_topology ("devices=2", kinds[i][0], NULL);

      g_assert_true (matches (&run, row));
    }
}

static void
test_topology_data (void)
{
#ifdef HAVE_TOUR
  if (!has_stand_in ())
    return;
  {
    g_auto (TestRun) run = run_topology ("devices=2,deny=0-1", NULL, "--csv");

    g_assert_cmpstr (run.out, ==,
                     "device,peer,link,performance-rank,access,native-atomics,array-access\n"
                     "cuda:0,cuda:1,,0,false,false,false\n"
                     "cuda:1,cuda:0,,0,true,true,true\n");
  }
  {
    g_auto (TestRun) run = run_topology ("devices=2", NULL, "--json");

    g_assert_true (matches (&run, "\"pci-bus-id\" : \"0000:02:00.0\",\n *\"numa-node\" : 0$"));
    g_assert_true (matches (&run, "\"pci-bus-id\" : null,\n *\"numa-node\" : null$"));
    g_assert_true (matches (&run, "\"peer\" : \"cuda:1\",\n *\"link\" : null,$"));
  }
#else
  g_test_skip ("the command was built without JSON");
#endif
}

static void
test_info (TestFixture *fixture)
{
  const char *id = gpu_device_get_id (fixture->device);
  g_auto (TestRun) run = test_tool_run ("info", id, NULL);

  g_assert_cmpstr (run.err, ==, "");
  g_assert_cmpint (run.status, ==, 0);
  g_assert_true (g_str_has_prefix (run.out, id));
  g_assert_nonnull (strstr (run.out, gpu_device_get_name (fixture->device)));
}

static void
test_info_unknown (void)
{
  g_auto (TestRun) run = test_tool_run ("info", "nonsense:7", NULL);

  g_assert_cmpint (run.status, ==, 1);
  g_assert_nonnull (strstr (run.err, "nonsense:7"));
}

static void
test_tour (TestFixture *fixture)
{
  const char *id = gpu_device_get_id (fixture->device);
  g_autofree char *picture = NULL;
  g_autofree char *output = g_build_filename (folder, "a", "tour", NULL);

  if (!has_tour () || !test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  picture = write_picture ("noise.png", 61, 61, 37);
  {
    g_auto (TestRun) run = test_tool_run ("tour", picture, "--device", id, "--output", output,
                                          NULL);

    g_assert_cmpstr (run.err, ==, "");
    g_assert_cmpint (run.status, ==, 0);
    g_assert_nonnull (strstr (run.out, "held afterwards: 0 B"));
    g_assert_nonnull (strstr (run.out, "wrote "));
  }
  assert_png (output, NULL, "input.png");
  assert_png (output, id, "blur");
  assert_png (output, id, "edges");
  assert_png (output, id, "histogram");
  {
    g_auto (TestRun) run = test_tool_run ("tour", picture, "-d", id, "-o", output, "--json", NULL);

    g_assert_cmpstr (run.err, ==, "");
    g_assert_cmpint (run.status, ==, 0);
    g_assert_true (g_str_has_prefix (run.out, "{"));
    g_assert_nonnull (strstr (run.out, "\"outcome\" : \"right\""));
    g_assert_nonnull (strstr (run.out, "right to the last bit"));
  }
}

/* Runs the tour with the kernels of @source. */
static TestRun
run_tour_with (const char *source,
               const char *id)
{
  g_autofree char *picture = write_picture ("noise.png", 61, 61, 37);
  g_autofree char *output = g_build_filename (folder, "other", NULL);
  g_autofree char *kernels = g_build_filename (folder, "tour.cl", NULL);
  g_autofree char *overlay = g_strdup_printf ("/gpumem=%s", folder);
  TestRun run;

  g_assert_true (g_file_set_contents (kernels, source, -1, NULL));
  g_setenv ("G_RESOURCE_OVERLAYS", overlay, TRUE);
  run = test_tool_run ("tour", picture, "-d", id, "-o", output, NULL);
  g_unsetenv ("G_RESOURCE_OVERLAYS");
  return run;
}

static void
test_tour_wrong (TestFixture *fixture)
{
  const char *id = gpu_device_get_id (fixture->device);

  if (!has_tour () || !test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  {
    g_auto (TestRun) run = run_tour_with (
      "__kernel void blur (__global const uint *s, __global uint *d, __global const uint *w,\n"
      "                    int r, int x, int y, int a) {}\n"
      "__kernel void edges (__global const uint *s, __global uint *d, int x, int y) {}\n"
      "__kernel void histogram (__global const uint *s, __global volatile uint *c,\n"
      "                         int x, int y) {}\n", id);

    g_assert_cmpint (run.status, ==, 1);
    g_assert_nonnull (strstr (run.out, "WRONG"));
    g_assert_nonnull (strstr (run.out, "values differ"));
  }
  {
    g_auto (TestRun) run = run_tour_with ("__kernel void blur (int nonsense {}\n", id);

    g_assert_cmpint (run.status, ==, 1);
    g_assert_nonnull (strstr (run.out, "FAILED: build: "));
    g_assert_nonnull (strstr (run.out, "error"));
  }
}

static void
test_tour_bad_pictures (void)
{
  g_autofree char *empty = g_build_filename (folder, "empty.png", NULL);
  g_autofree char *junk = g_build_filename (folder, "junk.jpg", NULL);
  g_autofree char *missing = g_build_filename (folder, "missing.png", NULL);
  g_autofree char *output = g_build_filename (folder, "nothing", NULL);
  g_autofree char *huge = NULL;
  g_autofree char *none = NULL;

  if (!has_tour ())
    return;
  huge = write_picture ("huge.png", 100000000, 4, 4);
  none = write_picture ("none.png", 0, 4, 4);
  g_assert_true (g_file_set_contents (empty, "", 0, NULL));
  g_assert_true (g_file_set_contents (junk, "no picture", -1, NULL));
  {
    const char *const pictures[] = { empty, junk, missing, huge, none, folder, "/dev/zero" };

    for (guint i = 0; i < G_N_ELEMENTS (pictures); i++)
      {
        g_auto (TestRun) run = test_tool_run ("tour", pictures[i], "-d", "host", "-o", output,
                                              NULL);

        g_assert_cmpint (run.status, ==, 1);
        g_assert_cmpstr (run.out, ==, "");
        g_assert_true (g_str_has_prefix (run.err, "gpumem: "));
      }
  }
  g_assert_false (g_file_test (output, G_FILE_TEST_EXISTS));
}

/* Returns whether the default device can build programs. If it cannot, the tour ends at once. */
static gboolean
can_build (void)
{
  g_autoptr (GpuDevice) device = gpu_device_get_default (NULL);

  if (device != NULL && (gpu_device_get_capabilities (device) & GPU_CAPABILITIES_SOURCE) != 0)
    return TRUE;
  g_test_skip ("no compiler for programs");
  return FALSE;
}

/* The output has one format. */
static void
test_two_formats (void)
{
#ifdef HAVE_TOUR
  static const char *const commands[][2] = {
    { "devices" }, { "info" }, { "monitor" }, { "bandwidth" }, { "pool", "bench" },
    { "pool", "replay" }, { "tour" }
  };

  for (guint i = 0; i < G_N_ELEMENTS (commands); i++)
    {
      const char *word = commands[i][1];
      g_auto (TestRun) run = test_tool_run (commands[i][0], word != NULL ? word : "--csv", "--json",
                                            "--csv", NULL);

      g_assert_cmpint (run.status, ==, 2);
      g_assert_cmpstr (run.out, ==, "");
      g_assert_nonnull (strstr (run.err, "--json and --csv cannot be used together"));
    }
#else
  g_test_skip ("the command was built without JSON");
#endif
}

/* Every command fails if it cannot write its output, and says why, once. */
static void
test_full_output (void)
{
  static const char *const cases[][7] = {
    { "--help" }, { "--version" }, { "devices" }, { "devices", "--help" },
    { "info", "host" }, { "info", "--help" }, { "monitor", "--once" },
    { "monitor", "--interval=0.1" }, { "bandwidth", "--help" },
    { "bandwidth", "--sizes=4K", "--paths=locked", "--rounds=1", "host" },
    { "pool", "--help" }, { "pool", "replay", "--help" },
#ifdef HAVE_TOUR
    { "devices", "--json" }, { "info", "--json", "host" }, { "monitor", "--json", "--once" },
    { "bandwidth", "--json", "--sizes=4K", "--paths=locked", "--rounds=1", "host" },
    { "tour", "--help" }
#endif
  };

  if (!g_file_test ("/dev/full", G_FILE_TEST_EXISTS))
    {
      g_test_skip ("there is no /dev/full");
      return;
    }
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GSubprocess) process = test_tool_start_full (cases[i]);
      g_auto (TestRun) run = test_tool_wait (process);

      g_test_message ("%s %s", cases[i][0], cases[i][1] != NULL ? cases[i][1] : "");
      g_assert_cmpint (run.status, ==, 1);
      g_assert_cmpstr (run.err, ==, "gpumem: standard output: No space left on device\n");
    }
}

static void
test_tour_interrupted (void)
{
  g_autofree char *picture = NULL;
  g_autofree char *output = g_build_filename (folder, "interrupted", NULL);
  g_autofree char *input = g_build_filename (output, "input.png", NULL);
  g_autoptr (GSubprocess) process = NULL;
  g_autoptr (GError) error = NULL;

  if (!has_tour () || !can_build ())
    return;
  picture = write_picture ("large.png", 4000, 4000, 2000);
  process = test_tool_start (G_SUBPROCESS_FLAGS_STDOUT_SILENCE | G_SUBPROCESS_FLAGS_STDERR_SILENCE,
                             (const char *const[]) { "tour", picture, "-o", output, NULL });
  /* The picture is written before the long work begins. */
  for (guint i = 0; i < TEST_DEADLINE * 100 && !g_file_test (input, G_FILE_TEST_EXISTS); i++)
    g_usleep (G_USEC_PER_SEC / 100);
  g_subprocess_send_signal (process, SIGINT);
  g_subprocess_wait (process, NULL, &error);
  g_assert_no_error (error);
  g_assert_true (g_subprocess_get_if_exited (process));
  g_assert_cmpint (g_subprocess_get_exit_status (process), ==, 130);
}

int
main (int    argc,
      char **argv)
{
  gboolean has_tool = test_tool_init ();
  int status;

  test_init (&argc, &argv);
  folder = test_tool_folder ();
  if (has_tool)
    {
      test_add_plain ("usage", test_usage);
      test_add_plain ("two-formats", test_two_formats);
      test_add_plain ("full-output", test_full_output);
      test_add_plain ("devices", test_devices_table);
      test_add_plain ("topology", test_topology);
      test_add_plain ("topology/links", test_topology_links);
      test_add_plain ("topology/kinds", test_topology_kinds);
      test_add_plain ("topology/data", test_topology_data);
      test_add ("info", test_info);
      test_add_plain ("info/unknown", test_info_unknown);
      test_add ("tour", test_tour);
      test_add ("tour/wrong", test_tour_wrong);
      test_add_plain ("tour/bad-pictures", test_tour_bad_pictures);
      test_add_plain ("tour/interrupted", test_tour_interrupted);
    }
  status = test_run ();
  test_tool_clear ();
  return status;
}
