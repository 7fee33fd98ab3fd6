/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reports as one HTML page that needs no other file: tables, charts as SVG, and pictures. */
#pragma once

#include <gpumem/gpumem.h>

G_BEGIN_DECLS

typedef enum
{
  GPUMEM_UNIT_NUMBER,
  GPUMEM_UNIT_BYTES           /* printed with binary prefixes */
} GpumemUnit;

typedef struct
{
  char   *name;
  guint   colour;             /* lines with the same number have the same colour */
  gboolean dashed;
  GArray *xs;                 /* of double, like ys */
  GArray *ys;
} GpumemSeries;

typedef struct
{
  const char *title;
  const char *x_label;
  const char *y_label;
  GpumemUnit  x_unit;
  GpumemUnit  y_unit;
  gboolean    x_logarithmic;  /* values must be positive */
  gboolean    y_logarithmic;
  gboolean    only_points;    /* draw points without lines between them */
  GPtrArray  *series;         /* of GpumemSeries */
} GpumemChart;

/* Returns whether a report can be written to @path. Called before a long measurement. */
gboolean      gpumem_html_check       (const char         *path,
                                       GError            **error);
/* Begins a page with the description of the machine, its devices and drivers. */
GString      *gpumem_html_begin       (const char         *title);
void          gpumem_html_heading     (GString            *page,
                                       const char         *text);
void          gpumem_html_paragraph   (GString            *page,
                                       const char         *text);
/* Appends a table: its start, then each row, then its end. The cells are %NULL-terminated. */
void          gpumem_html_begin_table (GString            *page,
                                       const char *const  *titles);
void          gpumem_html_row         (GString            *page,
                                       const char *const  *cells);
void          gpumem_html_end_table   (GString            *page);
gboolean      gpumem_html_picture     (GString            *page,
                                       const char         *path,
                                       GError            **error);
gboolean      gpumem_html_save        (GString            *page,
                                       const char         *path,
                                       GError            **error);

void          gpumem_chart_init       (GpumemChart        *chart);
void          gpumem_chart_clear      (GpumemChart        *chart);
GpumemSeries *gpumem_chart_add        (GpumemChart        *chart,
                                       const char         *name,
                                       guint               colour,
                                       gboolean            dashed);
void          gpumem_series_add       (GpumemSeries       *series,
                                       double              x,
                                       double              y);
void          gpumem_html_chart       (GString            *page,
                                       const GpumemChart  *chart);

G_END_DECLS
