/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Measures copies between all devices of a back end, and page-locked memory. */
#include "config.h"

#include "tools/gpumem-bandwidth.h"
#include "tools/gpumem-command.h"
#include "tools/gpumem-format.h"
#include "tools/gpumem-html.h"
#include "tools/gpumem-plot.h"
#include "tools/gpumem-table.h"

#define LOCKED "page-locked"

/* --- measurements ----------------------------------------------------------- */

static void
part_free (gpointer data)
{
  GpumemPart *part = data;

  g_clear_object (&part->device);
  g_clear_object (&part->peer);
  g_clear_pointer (&part->figures, g_ptr_array_unref);
  g_clear_pointer (&part->omissions, g_ptr_array_unref);
  g_free (part);
}

void
gpumem_peers_init (GpumemPeers *peers,
                   GpuDevice   *device)
{
  g_autolist (GpuDevice) list = gpu_device_list ();

  *peers = (GpumemPeers) { .backend = gpu_device_get_backend (device) };
  peers->devices = g_ptr_array_new_with_free_func (g_object_unref);
  peers->parts = g_ptr_array_new_with_free_func (part_free);
  for (GList *l = list; l != NULL; l = l->next)
    if (g_str_equal (gpu_device_get_backend (l->data), peers->backend)
        && gpu_device_check (l->data, NULL))
      g_ptr_array_add (peers->devices, g_object_ref (l->data));
}

void
gpumem_peers_clear (GpumemPeers *peers)
{
  g_clear_pointer (&peers->devices, g_ptr_array_unref);
  g_clear_pointer (&peers->parts, g_ptr_array_unref);
  g_clear_pointer (&peers->sizes, g_array_unref);
}

gboolean
gpumem_peers_fit_size (GpumemPeers  *peers,
                       GError      **error)
{
  guint64 *size = &g_array_index (peers->sizes, guint64, 0);

  for (guint i = 0; i < peers->devices->len; i++)
    {
      g_autoptr (GpuContext) context = gpu_context_new (g_ptr_array_index (peers->devices, i),
                                                        GPU_CONTEXT_FLAGS_NONE, error);
      guint64 limit;

      if (context == NULL || !gpumem_bench_get_limit (context, &limit, error))
        return FALSE;
      while (*size > MAX (limit, 1))
        *size /= 2;
    }
  return TRUE;
}

/* The bench takes one path in each direction, but not in both at once. */
static gboolean
open_bench (GpumemBench  *bench,
            GpumemPath   *paths,
            GpumemPeers  *peers,
            const char   *names,
            GError      **error)
{
  g_autoptr (GPtrArray) chosen = gpumem_paths_parse (names, FALSE, error);

  if (chosen == NULL)
    return FALSE;
  bench->paths = g_ptr_array_new ();
  for (guint i = 0; i < chosen->len; i++)
    {
      paths[i] = *(const GpumemPath *) g_ptr_array_index (chosen, i);
      paths[i].directions &= ~(1u << GPUMEM_DIRECTION_BOTH);
      g_ptr_array_add (bench->paths, &paths[i]);
    }
  bench->sizes = g_array_copy (peers->sizes);
  bench->min_time = peers->min_time;
  bench->n_rounds = peers->n_rounds;
  bench->cancellable = peers->cancellable;
  return gpumem_bench_open (bench, error);
}

/* Measures copies between @device and @peer, or on @device and with page-locked memory if @peer is
 * %NULL. */
static gboolean
run_part (GpumemPeers  *peers,
          GpuDevice    *device,
          GpuDevice    *peer,
          GError      **error)
{
  static GpumemPath paths[2][2];
  const char *names = peer != NULL ? "peer" : "locked,device";
  GpumemBench bench = { .device = g_object_ref (device),
                        .peer = peer != NULL ? g_object_ref (peer) : NULL };
  GpumemPart *part = NULL;
  gboolean success = open_bench (&bench, paths[peer != NULL], peers, names, error);

  if (success)
    {
      success = gpumem_bench_run (&bench);
      gpumem_progress_clear (bench.progress);
      part = g_new0 (GpumemPart, 1);
      part->device = g_object_ref (device);
      part->peer = peer != NULL ? g_object_ref (peer) : NULL;
      part->figures = g_steal_pointer (&bench.figures);
      part->omissions = g_steal_pointer (&bench.omissions);
      g_ptr_array_add (peers->parts, part);
    }
  gpumem_bench_clear (&bench);
  return success;
}

gboolean
gpumem_peers_run (GpumemPeers  *peers,
                  GError      **error)
{
  for (guint i = 0; i < peers->devices->len; i++)
    {
      GpuDevice *device = g_ptr_array_index (peers->devices, i);

      if (!run_part (peers, device, NULL, error))
        return FALSE;
      for (guint j = i + 1; j < peers->devices->len; j++)
        if (!run_part (peers, device, g_ptr_array_index (peers->devices, j), error))
          return FALSE;
    }
  return TRUE;
}

gboolean
gpumem_peers_has_failed (const GpumemPeers *peers)
{
  gboolean any = FALSE;

  for (guint i = 0; i < peers->parts->len; i++)
    {
      const GpumemPart *part = g_ptr_array_index (peers->parts, i);
      GpumemBench bench = { .figures = part->figures, .omissions = part->omissions };

      if (part->figures->len > 0 && gpumem_bench_has_failed (&bench))
        return TRUE;
      any = any || part->figures->len > 0;
    }
  return !any;
}

void
gpumem_part_get_ends (const GpumemPart  *part,
                      GpumemDirection    direction,
                      GpuDevice        **from,
                      GpuDevice        **to)
{
  /* The near end of the path "peer" is on the device of the bench, that of the path "locked" is
   * page-locked memory. */
  GpuDevice *near = part->peer != NULL ? part->device : NULL;
  GpuDevice *far = part->peer != NULL ? part->peer : part->device;

  *from = direction == GPUMEM_DIRECTION_TO ? near : far;
  *to = direction == GPUMEM_DIRECTION_FROM ? near : far;
}

/* Returns: (nullable): the measurement of copies of @size bytes; page-locked memory is %NULL */
static const GpumemFigure *
find_figure (const GpumemPeers *peers,
             GpuDevice         *from,
             GpuDevice         *to,
             gsize              size)
{
  for (guint i = 0; i < peers->parts->len; i++)
    {
      const GpumemPart *part = g_ptr_array_index (peers->parts, i);

      for (guint j = 0; j < part->figures->len; j++)
        {
          const GpumemFigure *figure = g_ptr_array_index (part->figures, j);
          GpuDevice *its_from, *its_to;

          gpumem_part_get_ends (part, figure->direction, &its_from, &its_to);
          if (its_from == from && its_to == to && figure->size == size)
            return figure;
        }
    }
  return NULL;
}

/* --- matrices --------------------------------------------------------------- */

/* Place 0 is page-locked memory. */
static GpuDevice *
get_place (const GpumemPeers *peers,
           guint              place)
{
  return place > 0 ? g_ptr_array_index (peers->devices, place - 1) : NULL;
}

static const char *
get_name (const GpumemPeers *peers,
          guint              place)
{
  return place > 0 ? gpu_device_get_id (get_place (peers, place)) : LOCKED;
}

static char *
format_cell (const GpumemFigure *figure,
             gboolean            ratio)
{
  if (figure == NULL || (ratio && !figure->has_raw))
    return g_strdup ("-");
  if (figure->wrong != NULL)
    return g_strdup ("WRONG");
  if (ratio)
    return g_strdup_printf ("%.3f", figure->ratio.median);
  return gpumem_speed_format (figure->ours.median);
}

/* Returns: (transfer full): a row, whose first cell is the name of the source */
static GStrv
make_row (const GpumemPeers *peers,
          guint              from,
          gsize              size,
          gboolean           ratio)
{
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();

  g_strv_builder_add (builder, get_name (peers, from));
  for (guint to = 0; to <= peers->devices->len; to++)
    {
      g_autofree char *cell = format_cell (find_figure (peers, get_place (peers, from),
                                                        get_place (peers, to), size), ratio);

      g_strv_builder_add (builder, cell);
    }
  return g_strv_builder_end (builder);
}

static char *
make_title (gsize    size,
            gboolean ratio)
{
  g_autofree char *text = gpumem_format_size (size);

  return g_strdup_printf (ratio ? "Copies of %s: ratio to the driver's own calls"
                                : "Copies of %s: GB/s", text);
}

static void
print_matrix (const GpumemPeers *peers,
              gsize              size,
              gboolean           ratio)
{
  const guint n = peers->devices->len + 2;
  g_autofree GpumemColumn *columns = g_new0 (GpumemColumn, n);
  g_autofree char *title = make_title (size, ratio);
  g_autoptr (GpumemTable) table = NULL;

  columns[0] = (GpumemColumn) { "FROM", FALSE, 0 };
  for (guint i = 1; i < n; i++)
    columns[i] = (GpumemColumn) { get_name (peers, i - 1), TRUE, 0 };
  table = gpumem_table_new (columns, n);
  for (guint from = 0; from <= peers->devices->len; from++)
    {
      g_auto (GStrv) row = make_row (peers, from, size, ratio);

      gpumem_table_add (table, GPUMEM_STYLE_PLAIN, (const char *const *) row);
    }
  g_print ("\n%s%s%s\n", gpumem_style_begin (GPUMEM_STYLE_TITLE), title,
           gpumem_style_end (GPUMEM_STYLE_TITLE));
  gpumem_table_print (table, gpumem_terminal_width ());
}

static char *
describe_omission (const GpumemPart     *part,
                   const GpumemOmission *omission)
{
  g_autofree char *size = omission->size > 0 ? gpumem_format_size (omission->size) : NULL;
  g_autofree char *reason = gpumem_command_plain (omission->reason);

  return g_strdup_printf ("Left out: %s, %s%s%s: %s", gpu_device_get_id (part->device),
                          part->peer != NULL ? gpu_device_get_id (part->peer) : LOCKED,
                          size != NULL ? ", " : "", size != NULL ? size : "", reason);
}

/* Calls @func with a line for each omitted measurement, and for each wrong one. */
static void
for_remarks (const GpumemPeers *peers,
             void             (*func) (gpointer data, const char *line),
             gpointer           data)
{
  for (guint i = 0; i < peers->parts->len; i++)
    {
      const GpumemPart *part = g_ptr_array_index (peers->parts, i);

      for (guint j = 0; j < part->omissions->len; j++)
        {
          g_autofree char *line = describe_omission (part, g_ptr_array_index (part->omissions, j));

          func (data, line);
        }
      for (guint j = 0; j < part->figures->len; j++)
        {
          const GpumemFigure *figure = g_ptr_array_index (part->figures, j);
          g_autofree char *line = NULL;

          if (figure->wrong == NULL)
            continue;
          line = g_strdup_printf ("WRONG: %s, %s, %s: %s", gpu_device_get_id (part->device),
                                  figure->path->name,
                                  gpumem_direction_get_name (figure->direction), figure->wrong);
          func (data, line);
        }
    }
}

static void
print_remark (gpointer    data G_GNUC_UNUSED,
              const char *line)
{
  g_print ("%s\n", line);
}

void
gpumem_peers_print (const GpumemPeers *peers)
{
  g_print ("Copies between the devices of %s and page-locked memory, from the row to the column\n",
           peers->backend);
  for (guint i = 0; i < peers->sizes->len; i++)
    {
      const guint64 size = g_array_index (peers->sizes, guint64, i);

      print_matrix (peers, size, FALSE);
      print_matrix (peers, size, TRUE);
    }
  g_print ("\n");
  for_remarks (peers, print_remark, NULL);
}

/* --- reports ---------------------------------------------------------------- */

static void
add_matrix (GString           *page,
            const GpumemPeers *peers,
            gsize              size,
            gboolean           ratio)
{
  g_autofree char *title = make_title (size, ratio);
  g_autoptr (GPtrArray) titles = g_ptr_array_new ();

  g_ptr_array_add (titles, (gpointer) "From");
  for (guint to = 0; to <= peers->devices->len; to++)
    g_ptr_array_add (titles, (gpointer) get_name (peers, to));
  g_ptr_array_add (titles, NULL);
  gpumem_html_heading (page, title);
  gpumem_html_begin_table (page, (const char *const *) titles->pdata);
  for (guint from = 0; from <= peers->devices->len; from++)
    {
      g_auto (GStrv) row = make_row (peers, from, size, ratio);

      gpumem_html_row (page, (const char *const *) row);
    }
  gpumem_html_end_table (page);
}

static void
add_remark (gpointer    page,
            const char *line)
{
  gpumem_html_paragraph (page, line);
}

gboolean
gpumem_peers_save_report (const GpumemPeers  *peers,
                          const char         *path,
                          GError            **error)
{
  g_autofree char *title = g_strdup_printf ("gpumem bandwidth: all devices of %s", peers->backend);
  g_autoptr (GString) page = gpumem_html_begin (title);

  gpumem_html_paragraph (page, "Copies from the row to the column. GB/s are 10^9 bytes per "
                               "second. Figures are medians of the rounds.");
  for (guint i = 0; i < peers->sizes->len; i++)
    {
      add_matrix (page, peers, g_array_index (peers->sizes, guint64, i), FALSE);
      add_matrix (page, peers, g_array_index (peers->sizes, guint64, i), TRUE);
    }
  for_remarks (peers, add_remark, page);
  return gpumem_html_save (page, path, error);
}

/* Appends the data of a diagram: column, row and speed, with the sources from top to bottom. */
static void
append_data (GString           *script,
             const GpumemPeers *peers,
             guint              index)
{
  const guint64 size = g_array_index (peers->sizes, guint64, index);

  g_string_append_printf (script, "$d%u << END\n", index);
  for (guint from = 0; from <= peers->devices->len; from++)
    for (guint to = 0; to <= peers->devices->len; to++)
      {
        const GpumemFigure *figure = find_figure (peers, get_place (peers, from),
                                                  get_place (peers, to), size);

        g_string_append_printf (script, "%u %u", to, from);
        if (figure != NULL)
          gpumem_plot_append_number (script, figure->ours.median);
        else
          g_string_append (script, " NaN");
        g_string_append_c (script, '\n');
      }
  g_string_append (script, "END\n");
}

static void
append_tics (GString           *script,
             const GpumemPeers *peers,
             const char        *axis)
{
  g_string_append_printf (script, "set %stics (", axis);
  for (guint i = 0; i <= peers->devices->len; i++)
    {
      g_string_append (script, i > 0 ? ", " : "");
      gpumem_plot_append_quoted (script, get_name (peers, i));
      g_string_append_printf (script, " %u", i);
    }
  g_string_append (script, ") noenhanced\n");
}

/* Draws the matrix of each size as a map of colours. */
gboolean
gpumem_peers_plot (const GpumemPeers  *peers,
                   const char         *path,
                   GError            **error)
{
  g_autoptr (GString) script = gpumem_plot_begin (path);

  append_tics (script, peers, "x");
  append_tics (script, peers, "y");
  g_string_append_printf (script,
                          "set xrange [-0.5:%u.5]\nset yrange [%u.5:-0.5]\n"
                          "set xlabel 'to'\nset ylabel 'from'\nset cblabel 'GB/s'\n"
                          "set cbrange [0:*]\nunset key\nset palette defined "
                          "(0 '#ffffff', 1 '#4d9de0')\nset multiplot layout %u,1\n",
                          peers->devices->len, peers->devices->len, peers->sizes->len);
  for (guint i = 0; i < peers->sizes->len; i++)
    {
      g_autofree char *title = make_title (g_array_index (peers->sizes, guint64, i), FALSE);

      append_data (script, peers, i);
      g_string_append (script, "set title ");
      gpumem_plot_append_quoted (script, title);
      g_string_append_printf (script, "\nplot $d%u using 1:2:3 with image, $d%u using 1:2:"
                              "(sprintf (\"%%.3g\", $3)) with labels\n", i, i);
    }
  g_string_append (script, "unset multiplot\n");
  return gpumem_plot_draw (path, script->str, error);
}
