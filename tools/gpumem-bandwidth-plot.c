/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Draws a diagram for each direction with gnuplot. */
#include "config.h"

#include "tools/gpumem-bandwidth.h"
#include "tools/gpumem-format.h"
#include "tools/gpumem-plot.h"

static const char *const titles[GPUMEM_N_DIRECTIONS] = {
  [GPUMEM_DIRECTION_TO]     = "to the device",
  [GPUMEM_DIRECTION_FROM]   = "from the device",
  [GPUMEM_DIRECTION_BOTH]   = "both ways at once",
  [GPUMEM_DIRECTION_WITHIN] = "on the device"
};

static gboolean
is_of (const GpumemFigure *figure,
       const GpumemPath   *path,
       guint               direction)
{
  return figure->direction == direction && (path == NULL || figure->path == path);
}

static guint
count_figures (const GpumemBench *bench,
               const GpumemPath  *path,
               guint              direction)
{
  guint n = 0;

  for (guint i = 0; i < bench->figures->len; i++)
    n += is_of (g_ptr_array_index (bench->figures, i), path, direction);
  return n;
}

/* Appends a data block of gnuplot. For example, $d0_1 contains the size, the speed of the library
 * and the raw speed for direction 0 on path 1. */
static void
append_data (GString           *script,
             const GpumemBench *bench,
             guint              path,
             guint              direction)
{
  g_string_append_printf (script, "$d%u_%u << END\n", direction, path);
  for (guint i = 0; i < bench->figures->len; i++)
    {
      const GpumemFigure *figure = g_ptr_array_index (bench->figures, i);

      if (!is_of (figure, g_ptr_array_index (bench->paths, path), direction))
        continue;
      g_string_append_printf (script, "%" G_GSIZE_FORMAT, figure->size);
      gpumem_plot_append_number (script, figure->ours.median);
      if (figure->has_raw)
        gpumem_plot_append_number (script, figure->raw.median);
      else
        g_string_append (script, " NaN");
      g_string_append_c (script, '\n');
    }
  g_string_append (script, "END\n");
}

static void
append_diagram (GString           *script,
                const GpumemBench *bench,
                guint              direction)
{
  gboolean any = FALSE;

  for (guint i = 0; i < bench->paths->len; i++)
    if (count_figures (bench, g_ptr_array_index (bench->paths, i), direction) > 0)
      append_data (script, bench, i, direction);
  g_string_append (script, "set title ");
  gpumem_plot_append_quoted (script, titles[direction]);
  g_string_append (script, "\nplot");
  for (guint i = 0; i < bench->paths->len; i++)
    {
      const GpumemPath *path = g_ptr_array_index (bench->paths, i);

      if (count_figures (bench, path, direction) == 0)
        continue;
      g_string_append_printf (script,
                              "%s $d%u_%u using 1:2 with linespoints lt %u pt 7 ps 0.6 title '%s', "
                              "$d%u_%u using 1:3 with lines lt %u dt 2 notitle",
                              any ? "," : "", direction, i, i + 1, path->name, direction, i,
                              i + 1);
      any = TRUE;
    }
  g_string_append (script, "\n");
}

static void
append_sizes (GString           *script,
              const GpumemBench *bench)
{
  g_string_append (script, "set xtics rotate by -45 (");
  for (guint i = 0; i < bench->sizes->len; i++)
    {
      guint64 size = g_array_index (bench->sizes, guint64, i);
      g_autofree char *text = gpumem_format_size (size);

      g_string_append (script, i > 0 ? ", " : "");
      gpumem_plot_append_quoted (script, text);
      g_string_append_printf (script, " %" G_GUINT64_FORMAT, size);
    }
  g_string_append_printf (script, ")\nset xrange [%" G_GUINT64_FORMAT ".0 / 1.5 : %"
                          G_GUINT64_FORMAT ".0 * 1.5]\n",
                          g_array_index (bench->sizes, guint64, 0),
                          g_array_index (bench->sizes, guint64, bench->sizes->len - 1));
}

static char *
make_script (const GpumemBench *bench)
{
  GString *script = gpumem_plot_begin (bench->plot);
  g_autofree char *title = g_strdup_printf ("%s: %s, driver %s; dashed: the driver's own calls",
                                            gpu_device_get_id (bench->device),
                                            gpu_device_get_name (bench->device),
                                            gpu_device_get_driver_version (bench->device));
  guint n_diagrams = 0;

  for (guint i = 0; i < GPUMEM_N_DIRECTIONS; i++)
    n_diagrams += count_figures (bench, NULL, i) > 0;
  g_string_append (script,
                   "set logscale x 2\nset logscale y 10\nset xlabel 'size of a copy'\n"
                   "set ylabel 'GB/s'\nset grid\n"
                   "set key outside below samplen 2 noenhanced\n"
                   "set linetype 5 lc rgb '#a03070'\n");
  append_sizes (script, bench);
  g_string_append_printf (script, "set multiplot layout %u,%u title ", n_diagrams > 2 ? 2 : 1,
                          n_diagrams > 1 ? 2 : 1);
  gpumem_plot_append_quoted (script, title);
  g_string_append (script, " noenhanced\n");
  for (guint i = 0; i < GPUMEM_N_DIRECTIONS; i++)
    if (count_figures (bench, NULL, i) > 0)
      append_diagram (script, bench, i);
  g_string_append (script, "unset multiplot\n");
  return g_string_free (script, FALSE);
}

/* Draws nothing if there are no figures. */
gboolean
gpumem_bandwidth_plot (const GpumemBench  *bench,
                       GError            **error)
{
  g_autofree char *script = NULL;

  if (bench->figures->len == 0)
    return TRUE;
  script = make_script (bench);
  return gpumem_plot_draw (bench->plot, script, error);
}
