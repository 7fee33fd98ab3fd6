/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "tools/gpumem-bandwidth.h"
#include "tools/gpumem-command.h"
#include "tools/gpumem-format.h"
#include "tools/gpumem-html.h"

static const char *const titles[GPUMEM_N_DIRECTIONS] = {
  [GPUMEM_DIRECTION_TO]     = "Copies to the device",
  [GPUMEM_DIRECTION_FROM]   = "Copies from the device",
  [GPUMEM_DIRECTION_BOTH]   = "Copies both ways at once",
  [GPUMEM_DIRECTION_WITHIN] = "Copies on the device"
};

static void
add_path (GpumemChart       *chart,
          const GpumemBench *bench,
          GpumemDirection    direction,
          guint              index)
{
  const GpumemPath *path = g_ptr_array_index (bench->paths, index);
  g_autofree char *raw_name = g_strdup_printf ("%s, driver", path->name);
  GpumemSeries *ours = NULL;
  GpumemSeries *raw = NULL;

  for (guint i = 0; i < bench->figures->len; i++)
    {
      const GpumemFigure *figure = g_ptr_array_index (bench->figures, i);

      if (figure->path != path || figure->direction != direction)
        continue;
      if (ours == NULL)
        {
          ours = gpumem_chart_add (chart, path->name, index, FALSE);
          raw = figure->has_raw ? gpumem_chart_add (chart, raw_name, index, TRUE) : NULL;
        }
      gpumem_series_add (ours, figure->size, figure->ours.median);
      if (raw != NULL)
        gpumem_series_add (raw, figure->size, figure->raw.median);
    }
}

static void
add_charts (GString           *page,
            const GpumemBench *bench)
{
  for (guint direction = 0; direction < GPUMEM_N_DIRECTIONS; direction++)
    {
      GpumemChart chart;

      gpumem_chart_init (&chart);
      chart.title = titles[direction];
      chart.x_label = "size of a copy";
      chart.y_label = "GB/s";
      chart.x_unit = GPUMEM_UNIT_BYTES;
      chart.x_logarithmic = TRUE;
      chart.y_logarithmic = TRUE;
      for (guint i = 0; i < bench->paths->len; i++)
        add_path (&chart, bench, direction, i);
      gpumem_html_chart (page, &chart);
      gpumem_chart_clear (&chart);
    }
}

static char *
format_speed (const GpumemSpeed *speed)
{
  return g_strdup_printf ("%.3g (%.3g to %.3g)", speed->median, speed->least, speed->most);
}

static void
add_figures (GString           *page,
             const GpumemBench *bench)
{
  static const char *const columns[] = { "Path", "Direction", "Size", "gpumem", "Driver", "Ratio",
                                         "Result", NULL };

  gpumem_html_begin_table (page, columns);
  for (guint i = 0; i < bench->figures->len; i++)
    {
      const GpumemFigure *figure = g_ptr_array_index (bench->figures, i);
      g_autofree char *size = gpumem_format_size (figure->size);
      g_autofree char *ours = format_speed (&figure->ours);
      g_autofree char *raw = figure->has_raw ? format_speed (&figure->raw) : g_strdup ("-");
      g_autofree char *ratio = figure->has_raw ? format_speed (&figure->ratio) : g_strdup ("-");

      gpumem_html_row (page,
                       (const char *const[]) { figure->path->name,
                                               gpumem_direction_get_name (figure->direction), size,
                                               ours, raw, ratio,
                                               figure->wrong != NULL ? figure->wrong : "right",
                                               NULL });
    }
  gpumem_html_end_table (page);
}

gboolean
gpumem_bandwidth_save_report (const GpumemBench  *bench,
                              const char         *path,
                              GError            **error)
{
  g_autofree char *title = g_strdup_printf ("gpumem bandwidth: %s, %s",
                                            gpu_device_get_id (bench->device),
                                            gpu_device_get_name (bench->device));
  g_autoptr (GString) page = gpumem_html_begin (title);

  gpumem_html_heading (page, "Bandwidth");
  gpumem_html_paragraph (page, "GB/s are 10^9 bytes per second. Dashed lines are the driver's own "
                               "calls. Figures are medians, with the minimum and the maximum of "
                               "the rounds.");
  add_charts (page, bench);
  add_figures (page, bench);
  for (guint i = 0; i < bench->omissions->len; i++)
    {
      const GpumemOmission *omission = g_ptr_array_index (bench->omissions, i);
      g_autofree char *size = gpumem_format_size (omission->size);
      g_autofree char *line = g_strdup_printf ("Left out: %s, %s: %s",
                                               omission->path != NULL ? omission->path
                                                                      : "all paths",
                                               omission->size > 0 ? size : "all sizes",
                                               omission->reason);

      gpumem_html_paragraph (page, line);
    }
  return gpumem_html_save (page, path, error);
}
