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
void gpumem_json_print       (JsonBuilder *builder);

G_END_DECLS
