/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "tools/gpumem-bandwidth.h"
#include "tools/gpumem-json.h"

static void
add_device (JsonBuilder *builder,
            const char  *name,
            GpuDevice   *device)
{
  json_builder_set_member_name (builder, name);
  if (device == NULL)
    {
      json_builder_add_null_value (builder);
      return;
    }
  json_builder_begin_object (builder);
  gpumem_json_add_device (builder, device);
  json_builder_end_object (builder);
}

static void
add_speed (JsonBuilder       *builder,
           const char        *name,
           const GpumemSpeed *speed)
{
  json_builder_set_member_name (builder, name);
  json_builder_begin_object (builder);
  gpumem_json_add_double (builder, "median", speed->median);
  gpumem_json_add_double (builder, "least", speed->least);
  gpumem_json_add_double (builder, "most", speed->most);
  json_builder_end_object (builder);
}

static void
add_figure (JsonBuilder        *builder,
            const GpumemFigure *figure)
{
  json_builder_begin_object (builder);
  gpumem_json_add_string (builder, "path", figure->path->name);
  gpumem_json_add_string (builder, "direction", gpumem_direction_get_name (figure->direction));
  gpumem_json_add_int (builder, "size", figure->size);
  add_speed (builder, "gpumem-gb-per-second", &figure->ours);
  add_speed (builder, "driver-gb-per-second", &figure->raw);
  gpumem_json_add_double (builder, "ratio", figure->ratio.median);
  gpumem_json_add_double (builder, "ratio-least", figure->ratio.least);
  gpumem_json_add_double (builder, "ratio-most", figure->ratio.most);
  gpumem_json_add_int (builder, "rounds", figure->n_rounds);
  gpumem_json_add_int (builder, "copies-per-round", figure->n_copies);
  gpumem_json_add_boolean (builder, "right", figure->wrong == NULL);
  gpumem_json_add_string (builder, "wrong", figure->wrong);
  json_builder_end_object (builder);
}

static void
add_omission (JsonBuilder          *builder,
              const GpumemOmission *omission)
{
  json_builder_begin_object (builder);
  gpumem_json_add_string (builder, "path", omission->path);
  json_builder_set_member_name (builder, "size");
  if (omission->size > 0)
    json_builder_add_int_value (builder, omission->size);
  else
    json_builder_add_null_value (builder);
  gpumem_json_add_string (builder, "reason", omission->reason);
  gpumem_json_add_boolean (builder, "failed", omission->failed);
  json_builder_end_object (builder);
}

void
gpumem_bandwidth_print_json (const GpumemBench *bench,
                             gboolean           csv)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();

  json_builder_begin_object (builder);
  add_device (builder, "device", bench->device);
  add_device (builder, "peer", bench->peer);
  gpumem_json_add_int (builder, "staging-threads", gpu_staging_get_n_threads ());
  gpumem_json_add_double (builder, "min-time", bench->min_time);
  gpumem_json_add_int (builder, "min-rounds", bench->n_rounds);
  gpumem_json_add_boolean (builder, "interrupted",
                           g_cancellable_is_cancelled (bench->cancellable));
  json_builder_set_member_name (builder, "results");
  json_builder_begin_array (builder);
  for (guint i = 0; i < bench->figures->len; i++)
    add_figure (builder, g_ptr_array_index (bench->figures, i));
  json_builder_end_array (builder);
  json_builder_set_member_name (builder, "left-out");
  json_builder_begin_array (builder);
  for (guint i = 0; i < bench->omissions->len; i++)
    add_omission (builder, g_ptr_array_index (bench->omissions, i));
  json_builder_end_array (builder);
  json_builder_end_object (builder);
  gpumem_json_print (builder, csv ? "results" : NULL);
}
