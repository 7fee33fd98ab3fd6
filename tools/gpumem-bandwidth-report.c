/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "tools/gpumem-bandwidth.h"
#include "tools/gpumem-command.h"
#include "tools/gpumem-format.h"
#include "tools/gpumem-table.h"

char *
gpumem_speed_format (double speed)
{
  return g_strdup_printf ("%.*f", speed >= 99.95 ? 0 : speed >= 9.995 ? 1 : speed >= 0.1 ? 2 : 4,
                          speed);
}

static char *
format_ratio (const GpumemFigure *figure,
              double              ratio)
{
  return figure->has_raw ? g_strdup_printf ("%.3f", ratio) : g_strdup ("-");
}

static void
add_figure (GpumemTable        *table,
            const GpumemFigure *figure)
{
  g_autofree char *size = gpumem_format_size (figure->size);
  g_autofree char *ours = gpumem_speed_format (figure->ours.median);
  g_autofree char *raw = figure->has_raw ? gpumem_speed_format (figure->raw.median)
                                         : g_strdup ("-");
  g_autofree char *ratio = format_ratio (figure, figure->ratio.median);
  g_autofree char *least = format_ratio (figure, figure->ratio.least);
  g_autofree char *most = format_ratio (figure, figure->ratio.most);
  g_autofree char *note = figure->wrong != NULL ? g_strdup_printf ("WRONG: %s", figure->wrong)
                                                : NULL;

  gpumem_table_add (table, note != NULL ? GPUMEM_STYLE_BAD : GPUMEM_STYLE_PLAIN,
                    (const char *const[]) { figure->path->name,
                                            gpumem_direction_get_name (figure->direction), size,
                                            ours, raw, ratio, least, most, note });
}

static void
print_figures (const GpumemBench *bench)
{
  static const GpumemColumn columns[] = {
    { "PATH", FALSE, 0 }, { "DIRECTION", FALSE, 0 }, { "SIZE", TRUE, 0 }, { "GPUMEM", TRUE, 0 },
    { "DRIVER", TRUE, 0 }, { "RATIO", TRUE, 0 }, { "MIN", TRUE, 0 }, { "MAX", TRUE, 0 },
    { "", FALSE, 20 }
  };
  g_autoptr (GpumemTable) table = gpumem_table_new (columns, G_N_ELEMENTS (columns));

  for (guint i = 0; i < bench->figures->len; i++)
    add_figure (table, g_ptr_array_index (bench->figures, i));
  if (bench->figures->len == 0)
    {
      g_print ("Nothing measured\n");
      return;
    }
  g_print ("\n");
  gpumem_table_print (table, gpumem_terminal_width ());
}

static void
print_omissions (const GpumemBench *bench)
{
  static const GpumemColumn columns[] = { { NULL, FALSE, 0 }, { NULL, FALSE, 40 } };
  g_autoptr (GpumemTable) table = gpumem_table_new (columns, G_N_ELEMENTS (columns));

  if (bench->omissions->len == 0)
    return;
  g_print ("\n%sLeft out%s\n", gpumem_style_begin (GPUMEM_STYLE_TITLE),
           gpumem_style_end (GPUMEM_STYLE_TITLE));
  for (guint i = 0; i < bench->omissions->len; i++)
    {
      const GpumemOmission *omission = g_ptr_array_index (bench->omissions, i);
      g_autofree char *size = omission->size > 0 ? gpumem_format_size (omission->size) : NULL;
      g_autofree char *reason = gpumem_command_plain (omission->reason);
      g_autofree char *what = g_strdup_printf ("  %s%s%s",
                                               omission->path != NULL ? omission->path : "",
                                               omission->path != NULL && size != NULL ? ", " : "",
                                               size != NULL ? size : "");

      gpumem_table_add (table, omission->failed ? GPUMEM_STYLE_BAD : GPUMEM_STYLE_PLAIN,
                        (const char *const[]) { what, reason });
    }
  gpumem_table_print (table, gpumem_terminal_width ());
}

void
gpumem_bandwidth_print (const GpumemBench *bench)
{
  gpumem_command_print_device (bench->device);
  if (bench->peer != NULL)
    g_print ("Peer: %s, %s\n", gpu_device_get_id (bench->peer),
             gpu_device_get_name (bench->peer));
  g_print ("GB/s, 10^9 bytes per second, compared with raw driver calls; RATIO is the median\n"
           "of the rounds, MIN and MAX their extremes; staging by %u thread%s\n",
           gpu_staging_get_n_threads (), gpu_staging_get_n_threads () == 1 ? "" : "s");
  print_figures (bench);
  print_omissions (bench);
}
