/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Draws line charts as SVG. The key is below the axes, so that it covers no line. */
#include "config.h"

#include <math.h>

#include "tools/gpumem-format.h"
#include "tools/gpumem-html.h"

#define WIDTH     760
#define HEIGHT    330       /* from the top to the label of the x axis */
#define LEFT      84
#define RIGHT     40
#define TOP       34
#define BOTTOM    52
#define KEY_WIDTH 220       /* of an entry */
#define KEY_LINE  20
#define MAX_TICKS 10

static const char *const colours[] = { "#1f6fb4", "#d1601f", "#2c8a3d", "#a03070", "#7a5bb0",
                                       "#8a5a3c", "#3f8f8f" };

/* An axis with ticks from @least to @most. */
typedef struct
{
  double     least;
  double     most;
  double     step;          /* between two ticks; a factor if logarithmic */
  guint      n_ticks;
  gboolean   logarithmic;
  GpumemUnit unit;
} Axis;

void
gpumem_chart_init (GpumemChart *chart)
{
  *chart = (GpumemChart) { .series = g_ptr_array_new () };
}

void
gpumem_chart_clear (GpumemChart *chart)
{
  for (guint i = 0; i < chart->series->len; i++)
    {
      GpumemSeries *series = g_ptr_array_index (chart->series, i);

      g_array_unref (series->xs);
      g_array_unref (series->ys);
      g_free (series->name);
      g_free (series);
    }
  g_clear_pointer (&chart->series, g_ptr_array_unref);
}

GpumemSeries *
gpumem_chart_add (GpumemChart *chart,
                  const char  *name,
                  guint        colour,
                  gboolean     dashed)
{
  GpumemSeries *series = g_new0 (GpumemSeries, 1);

  series->name = g_strdup (name);
  series->colour = colour;
  series->dashed = dashed;
  series->xs = g_array_new (FALSE, FALSE, sizeof (double));
  series->ys = g_array_new (FALSE, FALSE, sizeof (double));
  g_ptr_array_add (chart->series, series);
  return series;
}

void
gpumem_series_add (GpumemSeries *series,
                   double        x,
                   double        y)
{
  g_array_append_val (series->xs, x);
  g_array_append_val (series->ys, y);
}

/* --- axes ------------------------------------------------------------------------------------ */

static gboolean
find_range (const GpumemChart *chart,
            gboolean           vertical,
            double            *least,
            double            *most)
{
  *least = G_MAXDOUBLE;
  *most = -G_MAXDOUBLE;
  for (guint i = 0; i < chart->series->len; i++)
    {
      const GpumemSeries *series = g_ptr_array_index (chart->series, i);
      GArray *values = vertical ? series->ys : series->xs;

      for (guint j = 0; j < values->len; j++)
        {
          *least = MIN (*least, g_array_index (values, double, j));
          *most = MAX (*most, g_array_index (values, double, j));
        }
    }
  return *least <= *most;
}

/* Returns the distance between two ticks: a power of 2 for bytes, and 1, 2 or 5 times a power of 10
 * for other numbers. */
static double
choose_step (double     range,
             GpumemUnit unit)
{
  static const double factors[] = { 2, 2.5, 2 };
  double step = unit == GPUMEM_UNIT_BYTES ? 1 : pow (10, floor (log10 (range)) - 1);

  for (guint i = 0; range / step > MAX_TICKS - 2; i++)
    step *= unit == GPUMEM_UNIT_BYTES ? 2 : factors[i % G_N_ELEMENTS (factors)];
  return step;
}

static Axis
make_axis (const GpumemChart *chart,
           gboolean           vertical)
{
  Axis axis = { .logarithmic = vertical ? chart->y_logarithmic : chart->x_logarithmic,
                .unit = vertical ? chart->y_unit : chart->x_unit };
  const double base = axis.unit == GPUMEM_UNIT_BYTES ? 4 : 10;

  find_range (chart, vertical, &axis.least, &axis.most);
  if (axis.logarithmic)
    {
      axis.least = pow (base, floor (log (axis.least) / log (base) + 1e-9));
      axis.step = base;
      axis.n_ticks = MAX (1, ceil (log (axis.most / axis.least) / log (base) - 1e-9)) + 1;
      while (axis.n_ticks > MAX_TICKS)
        {
          axis.step *= base;
          axis.n_ticks = axis.n_ticks / 2 + 1;
        }
      axis.most = axis.least * pow (axis.step, axis.n_ticks - 1);
      return axis;
    }
  axis.least = 0;
  axis.most = MAX (axis.most, 1);
  axis.step = choose_step (axis.most, axis.unit);
  axis.n_ticks = ceil (axis.most / axis.step) + 1;
  axis.most = axis.step * (axis.n_ticks - 1);
  return axis;
}

static double
get_tick (const Axis *axis,
          guint       i)
{
  return axis->logarithmic ? axis->least * pow (axis->step, i) : axis->least + axis->step * i;
}

/* Returns: the position of @value on the axis, from 0 to 1 */
static double
find_place (const Axis *axis,
            double      value)
{
  return axis->logarithmic ? log (value / axis->least) / log (axis->most / axis->least)
                           : (value - axis->least) / (axis->most - axis->least);
}

static char *
format_tick (const Axis *axis,
             double      value)
{
  if (axis->unit == GPUMEM_UNIT_BYTES)
    {
      g_autofree char *text = gpumem_format_size (value);
      g_auto (GStrv) parts = g_strsplit (text, ".0 ", 2);

      return g_strjoinv (" ", parts);
    }
  if (value >= 1e6)
    return g_strdup_printf ("%g M", value / 1e6);
  if (value >= 1e4)
    return g_strdup_printf ("%g k", value / 1e3);
  return g_strdup_printf ("%g", value);
}

/* --- SVG ------------------------------------------------------------------------------------- */

static int
get_x (const Axis *axis,
       double      value)
{
  return LEFT + (int) (find_place (axis, value) * (WIDTH - LEFT - RIGHT));
}

static int
get_y (const Axis *axis,
       double      value)
{
  return HEIGHT - BOTTOM - (int) (find_place (axis, value) * (HEIGHT - TOP - BOTTOM));
}

static void
add_text (GString    *page,
          int         x,
          int         y,
          const char *attributes,
          const char *text)
{
  g_autofree char *escaped = g_markup_escape_text (text, -1);

  g_string_append_printf (page, "<text x=\"%d\" y=\"%d\" %s>%s</text>\n", x, y, attributes,
                          escaped);
}

static void
add_line (GString *page,
          int      x1,
          int      y1,
          int      x2,
          int      y2)
{
  g_string_append_printf (page, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"#ddd\"/>\n",
                          x1, y1, x2, y2);
}

static void
add_axes (GString           *page,
          const GpumemChart *chart,
          const Axis        *x,
          const Axis        *y)
{
  for (guint i = 0; i < x->n_ticks; i++)
    {
      const int place = get_x (x, get_tick (x, i));
      g_autofree char *text = format_tick (x, get_tick (x, i));

      add_line (page, place, TOP, place, HEIGHT - BOTTOM);
      add_text (page, place, HEIGHT - BOTTOM + 17, "text-anchor=\"middle\"", text);
    }
  for (guint i = 0; i < y->n_ticks; i++)
    {
      const int place = get_y (y, get_tick (y, i));
      g_autofree char *text = format_tick (y, get_tick (y, i));

      add_line (page, LEFT, place, WIDTH - RIGHT, place);
      add_text (page, LEFT - 8, place + 4, "text-anchor=\"end\"", text);
    }
  add_text (page, WIDTH / 2, 18, "text-anchor=\"middle\" font-weight=\"bold\"", chart->title);
  add_text (page, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, "text-anchor=\"middle\"",
            chart->x_label);
  g_string_append_printf (page, "<g transform=\"translate(16,%d) rotate(-90)\">",
                          (TOP + HEIGHT - BOTTOM) / 2);
  add_text (page, 0, 0, "text-anchor=\"middle\"", chart->y_label);
  g_string_append (page, "</g>\n");
}

static const char *
get_look (const GpumemSeries *series)
{
  return series->dashed ? " stroke-dasharray=\"5 4\"" : "";
}

static void
add_polyline (GString            *page,
              const GpumemSeries *series,
              const Axis         *x,
              const Axis         *y)
{
  const char *colour = colours[series->colour % G_N_ELEMENTS (colours)];

  g_string_append_printf (page, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.6\"%s "
                          "points=\"", colour, get_look (series));
  for (guint i = 0; i < series->xs->len; i++)
    g_string_append_printf (page, "%d,%d ", get_x (x, g_array_index (series->xs, double, i)),
                            get_y (y, g_array_index (series->ys, double, i)));
  g_string_append (page, "\"/>\n");
}

static void
add_series (GString            *page,
            const GpumemChart  *chart,
            const GpumemSeries *series,
            const Axis         *x,
            const Axis         *y)
{
  const char *colour = colours[series->colour % G_N_ELEMENTS (colours)];
  const int radius = chart->only_points ? 4 : 2;

  if (!chart->only_points)
    add_polyline (page, series, x, y);
  for (guint i = 0; i < series->xs->len && series->xs->len <= 32 && !series->dashed; i++)
    g_string_append_printf (page, "<circle cx=\"%d\" cy=\"%d\" r=\"%d\" fill=\"%s\"/>\n",
                            get_x (x, g_array_index (series->xs, double, i)),
                            get_y (y, g_array_index (series->ys, double, i)), radius, colour);
}

static void
add_key (GString           *page,
         const GpumemChart *chart,
         guint              per_line)
{
  for (guint i = 0; i < chart->series->len; i++)
    {
      const GpumemSeries *series = g_ptr_array_index (chart->series, i);
      const int x = LEFT + (int) (i % per_line) * KEY_WIDTH;
      const int y = HEIGHT + (int) (i / per_line) * KEY_LINE + 4;

      g_string_append_printf (page, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"%s\" "
                              "stroke-width=\"2\"%s/>\n", x, y, x + 26, y,
                              colours[series->colour % G_N_ELEMENTS (colours)], get_look (series));
      add_text (page, x + 32, y + 4, "", series->name);
    }
}

/* Draws nothing if the chart has no values. */
void
gpumem_html_chart (GString           *page,
                   const GpumemChart *chart)
{
  const guint per_line = (WIDTH - LEFT) / KEY_WIDTH;
  const guint n_lines = (chart->series->len + per_line - 1) / per_line;
  double least, most;
  Axis x, y;

  if (!find_range (chart, FALSE, &least, &most))
    return;
  x = make_axis (chart, FALSE);
  y = make_axis (chart, TRUE);
  g_string_append_printf (page, "<figure><svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
                          "height=\"%u\" viewBox=\"0 0 %d %u\" font-family=\"sans-serif\" "
                          "font-size=\"12\">\n", WIDTH, HEIGHT + n_lines * KEY_LINE, WIDTH,
                          HEIGHT + n_lines * KEY_LINE);
  add_axes (page, chart, &x, &y);
  for (guint i = 0; i < chart->series->len; i++)
    add_series (page, chart, g_ptr_array_index (chart->series, i), &x, &y);
  add_key (page, chart, per_line);
  g_string_append (page, "</svg></figure>\n");
}
