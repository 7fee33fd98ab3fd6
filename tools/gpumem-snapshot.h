/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What is in a pool and what went on in it, for the programs of others to show.
 *
 * Segments are of type aa{sv}, each with
 *   address  t   of its first byte
 *   stream   u   optional
 *   blocks   aa{sv}, which follow each other without gaps, each with
 *     state      s  active, pending (given back, its use not over), held, cached (of a thread), or
 *                   unmapped
 *     size       t  bytes, not 0
 *     requested  t  bytes, optional: as many as size without it
 *
 * Events are of type aa{sv}, in order, each with
 *   action       s  alloc, free_requested, free_completed, segment_alloc, segment_free,
 *                   segment_map, segment_unmap, oom or snapshot
 *   time         t  microseconds
 *   address      t  \ not of oom
 *   size         t  / and neither of snapshot
 *   stream       u  optional
 *   device-free  t  bytes, of oom
 */
#pragma once

#include <json-glib/json-glib.h>

G_BEGIN_DECLS

/* What PyTorch's torch.cuda.memory._snapshot() gives; @events is nullable. Its viewer reads it as a
 * pickle. */
JsonNode *gpumem_snapshot_to_viewer   (GVariant  *segments,
                                       GVariant  *events,
                                       GError   **error);
/* Bytes that are live, given back and not over, and reserved, over time: counters in the JSON that
 * Perfetto and chrome://tracing read. Where the events do not begin with an empty pool, it begins
 * with as little as they allow. */
JsonNode *gpumem_snapshot_to_perfetto (GVariant  *events,
                                       GError   **error);
/* The same values for Python's pickle.load(). */
GBytes   *gpumem_snapshot_pickle      (JsonNode  *node);

G_END_DECLS
