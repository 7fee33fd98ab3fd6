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
  if (speed == NULL)
    {
      gpumem_json_add_string (builder, name, NULL);
      return;
    }
  json_builder_set_member_name (builder, name);
  json_builder_begin_object (builder);
  gpumem_json_add_double (builder, "median", speed->median);
  gpumem_json_add_double (builder, "least", speed->least);
  gpumem_json_add_double (builder, "most", speed->most);
  json_builder_end_object (builder);
}

static void
add_ratio (JsonBuilder        *builder,
           const char         *name,
           const GpumemFigure *figure,
           double              ratio)
{
  if (figure->has_raw)
    gpumem_json_add_double (builder, name, ratio);
  else
    gpumem_json_add_string (builder, name, NULL);
}

static void
add_figure (JsonBuilder        *builder,
            const GpumemFigure *figure)
{
  gpumem_json_add_string (builder, "path", figure->path->name);
  gpumem_json_add_string (builder, "direction", gpumem_direction_get_name (figure->direction));
  gpumem_json_add_int (builder, "size", figure->size);
  add_speed (builder, "gpumem-gb-per-second", &figure->ours);
  add_speed (builder, "driver-gb-per-second", figure->has_raw ? &figure->raw : NULL);
  add_ratio (builder, "ratio", figure, figure->ratio.median);
  add_ratio (builder, "ratio-least", figure, figure->ratio.least);
  add_ratio (builder, "ratio-most", figure, figure->ratio.most);
  gpumem_json_add_int (builder, "rounds", figure->n_rounds);
  gpumem_json_add_int (builder, "copies-per-round", figure->n_copies);
  gpumem_json_add_boolean (builder, "right", figure->wrong == NULL);
  gpumem_json_add_string (builder, "wrong", figure->wrong);
}

static void
add_omission (JsonBuilder          *builder,
              const GpumemOmission *omission)
{
  gpumem_json_add_string (builder, "path", omission->path);
  json_builder_set_member_name (builder, "size");
  if (omission->size > 0)
    json_builder_add_int_value (builder, omission->size);
  else
    json_builder_add_null_value (builder);
  gpumem_json_add_string (builder, "reason", omission->reason);
  gpumem_json_add_boolean (builder, "failed", omission->failed);
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
    {
      json_builder_begin_object (builder);
      add_figure (builder, g_ptr_array_index (bench->figures, i));
      json_builder_end_object (builder);
    }
  json_builder_end_array (builder);
  json_builder_set_member_name (builder, "left-out");
  json_builder_begin_array (builder);
  for (guint i = 0; i < bench->omissions->len; i++)
    {
      json_builder_begin_object (builder);
      add_omission (builder, g_ptr_array_index (bench->omissions, i));
      json_builder_end_object (builder);
    }
  json_builder_end_array (builder);
  json_builder_end_object (builder);
  gpumem_json_print (builder, csv ? "results" : NULL);
}

/* --- between all devices ------------------------------------------------------ */

static const char *
get_id (GpuDevice *device)
{
  return device != NULL ? gpu_device_get_id (device) : "page-locked";
}

static void
add_part_figure (JsonBuilder        *builder,
                 const GpumemPart   *part,
                 const GpumemFigure *figure)
{
  GpuDevice *from, *to;

  gpumem_part_get_ends (part, figure->direction, &from, &to);
  json_builder_begin_object (builder);
  gpumem_json_add_string (builder, "from", get_id (from));
  gpumem_json_add_string (builder, "to", get_id (to));
  add_figure (builder, figure);
  json_builder_end_object (builder);
}

static void
add_part_omission (JsonBuilder          *builder,
                   const GpumemPart     *part,
                   const GpumemOmission *omission)
{
  json_builder_begin_object (builder);
  gpumem_json_add_string (builder, "device", get_id (part->device));
  gpumem_json_add_string (builder, "peer", get_id (part->peer));
  add_omission (builder, omission);
  json_builder_end_object (builder);
}

static void
add_parts (JsonBuilder       *builder,
           const GpumemPeers *peers,
           gboolean           omissions)
{
  json_builder_set_member_name (builder, omissions ? "left-out" : "results");
  json_builder_begin_array (builder);
  for (guint i = 0; i < peers->parts->len; i++)
    {
      const GpumemPart *part = g_ptr_array_index (peers->parts, i);

      for (guint j = 0; omissions && j < part->omissions->len; j++)
        add_part_omission (builder, part, g_ptr_array_index (part->omissions, j));
      for (guint j = 0; !omissions && j < part->figures->len; j++)
        add_part_figure (builder, part, g_ptr_array_index (part->figures, j));
    }
  json_builder_end_array (builder);
}

void
gpumem_peers_print_json (const GpumemPeers *peers,
                         gboolean           csv)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();

  json_builder_begin_object (builder);
  gpumem_json_add_string (builder, "backend", peers->backend);
  json_builder_set_member_name (builder, "devices");
  json_builder_begin_array (builder);
  for (guint i = 0; i < peers->devices->len; i++)
    {
      json_builder_begin_object (builder);
      gpumem_json_add_device (builder, g_ptr_array_index (peers->devices, i));
      json_builder_end_object (builder);
    }
  json_builder_end_array (builder);
  gpumem_json_add_double (builder, "min-time", peers->min_time);
  gpumem_json_add_int (builder, "min-rounds", peers->n_rounds);
  gpumem_json_add_boolean (builder, "interrupted",
                           g_cancellable_is_cancelled (peers->cancellable));
  add_parts (builder, peers, FALSE);
  add_parts (builder, peers, TRUE);
  json_builder_end_object (builder);
  gpumem_json_print (builder, csv ? "results" : NULL);
}
