/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gpumem/gpumem.h>
#include <json-glib/json-glib.h>

G_BEGIN_DECLS

void gpumem_json_add_string  (JsonBuilder *builder,
                              const char  *name,
                              const char  *value);
void gpumem_json_add_int     (JsonBuilder *builder,
                              const char  *name,
                              gint64       value);
void gpumem_json_add_double  (JsonBuilder *builder,
                              const char  *name,
                              double       value);
void gpumem_json_add_boolean (JsonBuilder *builder,
                              const char  *name,
                              gboolean     value);
void gpumem_json_add_device  (JsonBuilder *builder,
                              GpuDevice   *device);
/* Adds the used and the free memory. Adds null if the sizes are unknown. */
void gpumem_json_add_usage   (JsonBuilder *builder,
                              GpuDevice   *device);
/* Prints JSON if @rows is %NULL. Otherwise, prints comma-separated values; gpumem_csv_print()
 * describes @rows. */
void gpumem_json_print       (JsonBuilder *builder,
                              const char  *rows);
void gpumem_csv_print        (JsonNode    *root,
                              const char  *rows,
                              gboolean     with_header);

#define GPUMEM_JSON_ENTRIES(json, csv) \
  { "json", 0, 0, G_OPTION_ARG_NONE, json, "Print JSON", NULL }, \
  { "csv", 0, 0, G_OPTION_ARG_NONE, csv, "Print comma-separated values", NULL },

G_END_DECLS
