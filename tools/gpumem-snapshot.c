/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <gio/gio.h>

#include "tools/gpumem-snapshot.h"

#define SMALL_SEGMENT (2 << 20)     /* bytes; the limit of small segments in PyTorch */
#define BATCH 1000                  /* items that readers of a pickle append at once */

typedef enum { ACTIVE, PENDING, HELD, CACHED, UNMAPPED, N_STATES } State;

static const char *const state_names[N_STATES] = { "active", "pending", "held", "cached",
                                                   "unmapped" };
static const char *const viewer_states[N_STATES] = { "active_allocated", "active_pending_free",
                                                     "inactive", "inactive", NULL };

/* The counters that events change. */
typedef enum { LIVE, PENDING_FREE, RESERVED, N_COUNTERS } Counter;

static const char *const counter_names[N_COUNTERS] = { "live", "pending", "reserved" };

static const struct
{
  const char *name;
  int         changes[N_COUNTERS];
} actions[] =
{
  { "alloc", { 1, 0, 0 } },
  { "free_requested", { -1, 1, 0 } },
  { "free_completed", { 0, -1, 0 } },
  { "segment_alloc", { 0, 0, 1 } },
  { "segment_free", { 0, 0, -1 } },
  { "segment_map", { 0, 0, 1 } },
  { "segment_unmap", { 0, 0, -1 } },
  { "oom", { 0, 0, 0 } },
  { "graph_alloc", { 0, 0, 0 } },
  { "graph_free", { 0, 0, 0 } },
  { "snapshot", { 0, 0, 0 } }
};

typedef struct
{
  guint64 size, requested;
  State   state;
} Block;

typedef struct
{
  guint   action;
  guint64 time, address, size, device_free;
  guint32 stream;
} Event;

static gboolean
refuse (GError     **error,
        const char  *what,
        gsize        number,
        const char  *reason)
{
  g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA, "%s %" G_GSIZE_FORMAT ": %s", what,
               number, reason);

  return FALSE;
}

/* Looks up a number in the range that JSON can represent. */
static gboolean
look_up (GVariant    *dict,
         const char  *key,
         guint64     *value)
{
  return g_variant_lookup (dict, key, "t", value) && *value <= G_MAXINT64;
}

static gboolean
read_event (GVariant  *events,
            gsize      number,
            Event     *event,
            GError   **error)
{
  g_autoptr (GVariant) dict = g_variant_get_child_value (events, number);
  const char *action = NULL, *name;
  guint i = 0;

  *event = (Event) { 0 };
  if (!g_variant_lookup (dict, "action", "&s", &action))
    return refuse (error, "event", number, "no action");
  while (i < G_N_ELEMENTS (actions) && !g_str_equal (action, actions[i].name))
    i++;
  if (i == G_N_ELEMENTS (actions))
    return refuse (error, "event", number, "the action is not known");
  name = actions[i].name;

  event->action = i;
  g_variant_lookup (dict, "stream", "u", &event->stream);
  if (!look_up (dict, "time", &event->time))
    return refuse (error, "event", number, "no time");
  if (g_str_equal (name, "snapshot"))
    return TRUE;
  if (!look_up (dict, "size", &event->size))
    return refuse (error, "event", number, "no size, or one that is too large");
  if (g_str_equal (name, "oom"))
    return look_up (dict, "device-free", &event->device_free)
           || refuse (error, "event", number, "no free bytes of the device");

  return look_up (dict, "address", &event->address)
         || refuse (error, "event", number, "no address, or one that is too large");
}

static gboolean
check_type (GVariant    *list,
            const char  *what,
            GError     **error)
{
  if (g_variant_is_of_type (list, G_VARIANT_TYPE ("aa{sv}")))
    return TRUE;

  g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA, "the %s are of type %s, not aa{sv}",
               what, g_variant_get_type_string (list));

  return FALSE;
}

/* --- the viewer of PyTorch ---------------------------------------------------------- */

static void
add_int (JsonBuilder *builder,
         const char  *name,
         gint64       value)
{
  json_builder_set_member_name (builder, name);
  json_builder_add_int_value (builder, value);
}

static void
add_string (JsonBuilder *builder,
            const char  *name,
            const char  *value)
{
  json_builder_set_member_name (builder, name);
  json_builder_add_string_value (builder, value);
}

static void
add_no_frames (JsonBuilder *builder)
{
  json_builder_set_member_name (builder, "frames");
  json_builder_begin_array (builder);
  json_builder_end_array (builder);
}

static void
add_blocks (JsonBuilder *builder,
            guint64      address,
            const Block *blocks,
            guint        n_blocks)
{
  json_builder_set_member_name (builder, "blocks");
  json_builder_begin_array (builder);
  for (guint i = 0; i < n_blocks; i++)
    {
      const Block *block = &blocks[i];

      json_builder_begin_object (builder);
      add_int (builder, "address", address);
      add_int (builder, "size", block->size);
      add_int (builder, "requested_size", block->requested);
      add_string (builder, "state", viewer_states[block->state]);
      add_no_frames (builder);
      json_builder_end_object (builder);
      address += block->size;
    }
  json_builder_end_array (builder);
}

/* Adds a segment of contiguous blocks, none of which is unmapped. */
static void
add_segment (JsonBuilder *builder,
             guint64      address,
             guint32      stream,
             const Block *blocks,
             guint        n_blocks,
             gboolean     has_holes)
{
  guint64 total = 0, requested = 0, sizes[N_STATES] = { 0 };

  if (n_blocks == 0)
    return;

  for (guint i = 0; i < n_blocks; i++)
    {
      total += blocks[i].size;
      sizes[blocks[i].state] += blocks[i].size;
      if (blocks[i].state == ACTIVE || blocks[i].state == PENDING)
        requested += blocks[i].requested;
    }

  json_builder_begin_object (builder);
  add_int (builder, "device", 0);
  add_int (builder, "address", address);
  add_int (builder, "total_size", total);
  add_int (builder, "allocated_size", sizes[ACTIVE]);
  add_int (builder, "active_size", sizes[ACTIVE] + sizes[PENDING]);
  add_int (builder, "requested_size", requested);
  add_int (builder, "stream", stream);
  add_string (builder, "segment_type", total <= SMALL_SEGMENT ? "small" : "large");
  json_builder_set_member_name (builder, "is_expandable");
  json_builder_add_boolean_value (builder, has_holes);
  add_no_frames (builder);
  add_blocks (builder, address, blocks, n_blocks);
  json_builder_end_object (builder);
}

static gboolean
read_block (GVariant  *dict,
            Block     *block,
            GError   **error,
            gsize      number)
{
  const char *state = NULL;
  guint i = 0;

  if (!g_variant_lookup (dict, "state", "&s", &state))
    return refuse (error, "segment", number, "a block without a state");
  while (i < N_STATES && !g_str_equal (state, state_names[i]))
    i++;
  if (i == N_STATES)
    return refuse (error, "segment", number, "a block of a state that is not known");
  block->state = i;

  if (!look_up (dict, "size", &block->size) || block->size == 0)
    return refuse (error, "segment", number, "a block without a size, or one that is too large");
  block->requested = block->size;
  g_variant_lookup (dict, "requested", "t", &block->requested);
  if (block->requested > block->size)
    return refuse (error, "segment", number, "a block whose requested size exceeds its size");

  return TRUE;
}

static gboolean
add_segments (JsonBuilder  *builder,
              GVariant     *segments,
              gsize         number,
              GError      **error)
{
  g_autoptr (GVariant) segment = g_variant_get_child_value (segments, number);
  g_autoptr (GVariant) list = g_variant_lookup_value (segment, "blocks",
                                                      G_VARIANT_TYPE ("aa{sv}"));
  g_autoptr (GArray) blocks = g_array_new (FALSE, FALSE, sizeof (Block));
  const gsize n_blocks = list != NULL ? g_variant_n_children (list) : 0;
  guint64 start, address;
  guint32 stream = 0;
  gboolean has_holes = FALSE;

  if (n_blocks == 0)
    return refuse (error, "segment", number, "no blocks");
  if (!look_up (segment, "address", &start))
    return refuse (error, "segment", number, "no address, or one that is too large");
  g_variant_lookup (segment, "stream", "u", &stream);

  address = start;
  g_array_set_size (blocks, n_blocks);
  for (gsize i = 0; i < n_blocks; i++)
    {
      g_autoptr (GVariant) dict = g_variant_get_child_value (list, i);
      Block *block = &g_array_index (blocks, Block, i);

      if (!read_block (dict, block, error, number))
        return FALSE;
      if (block->size > G_MAXINT64 - address)
        return refuse (error, "segment", number, "the end is beyond the largest address");
      address += block->size;
      has_holes |= block->state == UNMAPPED;
    }

  for (gsize first = 0, i = 0; i <= n_blocks; i++)
    {
      const Block *block = &g_array_index (blocks, Block, MIN (i, n_blocks - 1));

      if (i < n_blocks && block->state != UNMAPPED)
        continue;
      add_segment (builder, start, stream, &g_array_index (blocks, Block, first), i - first,
                   has_holes);
      for (; i < n_blocks && first <= i; first++)
        start += g_array_index (blocks, Block, first).size;
    }

  return TRUE;
}

static gboolean
add_events (JsonBuilder  *builder,
            GVariant     *events,
            GError      **error)
{
  const gsize n = events != NULL ? g_variant_n_children (events) : 0;
  Event event;

  json_builder_set_member_name (builder, "device_traces");
  json_builder_begin_array (builder);
  json_builder_begin_array (builder);
  for (gsize i = 0; i < n; i++)
    {
      const char *name;

      if (!read_event (events, i, &event, error))
        return FALSE;
      name = actions[event.action].name;
      /* The viewer does not know these actions. It shows the larger blocks of the graph. */
      if (g_str_has_prefix (name, "graph_"))
        continue;
      json_builder_begin_object (builder);
      add_string (builder, "action", name);
      if (g_str_equal (name, "oom"))
        add_int (builder, "device_free", event.device_free);
      else
        add_int (builder, "addr", event.address);
      add_int (builder, "size", event.size);
      add_int (builder, "stream", event.stream);
      add_int (builder, "time_us", event.time);
      add_no_frames (builder);
      json_builder_end_object (builder);
    }
  json_builder_end_array (builder);
  json_builder_end_array (builder);

  return TRUE;
}

JsonNode *
gpumem_snapshot_to_viewer (GVariant  *segments,
                           GVariant  *events,
                           GError   **error)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();

  if (!check_type (segments, "segments", error)
      || (events != NULL && !check_type (events, "events", error)))
    return NULL;

  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "segments");
  json_builder_begin_array (builder);
  for (gsize i = 0; i < g_variant_n_children (segments); i++)
    {
      if (!add_segments (builder, segments, i, error))
        return NULL;
    }
  json_builder_end_array (builder);
  if (!add_events (builder, events, error))
    return NULL;
  json_builder_end_object (builder);

  return json_builder_get_root (builder);
}

/* --- Perfetto -------------------------------------------------------------------------- */

static void
begin_mark (JsonBuilder *builder,
            const char  *name,
            const char  *phase,
            guint64      time)
{
  json_builder_begin_object (builder);
  add_string (builder, "name", name);
  add_string (builder, "ph", phase);
  add_int (builder, "ts", time);
  add_int (builder, "pid", 1);
}

static void
add_counter (JsonBuilder *builder,
             Counter      counter,
             guint64      time,
             gint64       bytes)
{
  begin_mark (builder, counter_names[counter], "C", time);
  json_builder_set_member_name (builder, "args");
  json_builder_begin_object (builder);
  add_int (builder, "bytes", bytes);
  json_builder_end_object (builder);
  json_builder_end_object (builder);
}

static void
add_failure (JsonBuilder *builder,
             const Event *event)
{
  begin_mark (builder, "out of memory", "i", event->time);
  add_string (builder, "s", "p");
  json_builder_set_member_name (builder, "args");
  json_builder_begin_object (builder);
  add_int (builder, "requested", event->size);
  add_int (builder, "device-free", event->device_free);
  json_builder_end_object (builder);
  json_builder_end_object (builder);
}

/* Computes the counters after each event, and writes them if @builder is not NULL. @values: the
 * initial values of the counters; on return, their lowest values */
static gboolean
count (GVariant     *events,
       JsonBuilder  *builder,
       gint64       *values,
       GError      **error)
{
  gint64 now[N_COUNTERS];
  Event event;

  memcpy (now, values, sizeof now);
  for (gsize i = 0; i < g_variant_n_children (events); i++)
    {
      if (!read_event (events, i, &event, error))
        return FALSE;
      for (guint counter = 0; counter < N_COUNTERS; counter++)
        {
          const int change = actions[event.action].changes[counter];

          if (__builtin_add_overflow (now[counter], change * (gint64) event.size, &now[counter]))
            return refuse (error, "event", i, "more bytes than can be counted");
          values[counter] = MIN (values[counter], now[counter]);
          if (builder != NULL && (change != 0 || i == 0))
            add_counter (builder, counter, event.time, now[counter]);
        }
      if (builder != NULL && g_str_equal (actions[event.action].name, "oom"))
        add_failure (builder, &event);
    }

  return TRUE;
}

JsonNode *
gpumem_snapshot_to_perfetto (GVariant  *events,
                             GError   **error)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  gint64 values[N_COUNTERS] = { 0 };

  if (!check_type (events, "events", error) || !count (events, NULL, values, error))
    return NULL;
  for (guint counter = 0; counter < N_COUNTERS; counter++)
    values[counter] = -values[counter];

  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "traceEvents");
  json_builder_begin_array (builder);
  if (!count (events, builder, values, error))
    return NULL;
  json_builder_end_array (builder);
  json_builder_end_object (builder);

  return json_builder_get_root (builder);
}

/* --- pickles, protocol 2 ------------------------------------------------------------------ */

static void
put (GByteArray    *out,
     guint8         code,
     gconstpointer  data,
     gsize          size)
{
  g_byte_array_append (out, &code, 1);
  if (size > 0)
    g_byte_array_append (out, data, size);
}

static void
pickle_string (GByteArray *out,
               const char *text)
{
  const guint32 length = strlen (text);
  const guint32 little = GUINT32_TO_LE (length);

  put (out, 'X', &little, sizeof little);
  g_byte_array_append (out, (const guint8 *) text, length);
}

static void
pickle_value (GByteArray *out,
              JsonNode   *node)
{
  const GType type = json_node_get_value_type (node);

  if (type == G_TYPE_INT64)
    {
      const gint64 value = json_node_get_int (node);
      const gint64 little = GINT64_TO_LE (value);
      const guint8 size = sizeof little;

      if (value >= G_MININT32 && value <= G_MAXINT32)
        {
          put (out, 'J', &little, 4);
          return;
        }
      put (out, 0x8a, &size, 1);
      g_byte_array_append (out, (const guint8 *) &little, size);
    }
  else if (type == G_TYPE_DOUBLE)
    {
      const double value = json_node_get_double (node);
      guint64 bits;

      memcpy (&bits, &value, sizeof bits);
      bits = GUINT64_TO_BE (bits);
      put (out, 'G', &bits, sizeof bits);
    }
  else if (type == G_TYPE_BOOLEAN)
    {
      put (out, json_node_get_boolean (node) ? 0x88 : 0x89, NULL, 0);
    }
  else
    {
      pickle_string (out, json_node_get_string (node));
    }
}

static void pickle_node (GByteArray *out,
                         JsonNode   *node);

static void
pickle_array (GByteArray *out,
              JsonArray  *array)
{
  const guint n = json_array_get_length (array);

  put (out, ']', NULL, 0);
  for (guint i = 0; i < n; i++)
    {
      if (i % BATCH == 0)
        put (out, '(', NULL, 0);
      pickle_node (out, json_array_get_element (array, i));
      if (i % BATCH == BATCH - 1 || i == n - 1)
        put (out, 'e', NULL, 0);
    }
}

static void
pickle_object (GByteArray *out,
               JsonObject *object)
{
  JsonObjectIter iter;
  const char *name;
  JsonNode *value;

  put (out, '}', "(", 1);
  json_object_iter_init_ordered (&iter, object);
  while (json_object_iter_next_ordered (&iter, &name, &value))
    {
      pickle_string (out, name);
      pickle_node (out, value);
    }
  put (out, 'u', NULL, 0);
}

static void
pickle_node (GByteArray *out,
             JsonNode   *node)
{
  switch (json_node_get_node_type (node))
    {
    case JSON_NODE_OBJECT:
      pickle_object (out, json_node_get_object (node));
      break;
    case JSON_NODE_ARRAY:
      pickle_array (out, json_node_get_array (node));
      break;
    case JSON_NODE_VALUE:
      pickle_value (out, node);
      break;
    default:
      put (out, 'N', NULL, 0);
    }
}

GBytes *
gpumem_snapshot_pickle (JsonNode *node)
{
  GByteArray *out = g_byte_array_new ();

  put (out, 0x80, "\2", 1);
  pickle_node (out, node);
  put (out, '.', NULL, 0);

  return g_byte_array_free_to_bytes (out);
}
