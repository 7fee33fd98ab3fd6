/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The contents and the history of a pool, in formats of external viewers.
 *
 * Segments are of type aa{sv}, each with
 *   address  t   of the first byte
 *   stream   u   optional
 *   blocks   aa{sv}, contiguous, each with
 *     state      s  active, pending (freed, with pending use), held, cached (by a thread), or
 *                   unmapped
 *     size       t  bytes, not 0
 *     requested  t  bytes, optional: the default is size
 *
 * Events are of type aa{sv}, in order, each with
 *   action       s  alloc, free_requested, free_completed, segment_alloc, segment_free,
 *                   segment_map, segment_unmap, oom, graph_alloc, graph_free or
 *                   snapshot
 *   time         t  microseconds
 *   address      t  not for oom and snapshot
 *   size         t  not for oom and snapshot
 *   stream       u  optional
 *   device-free  t  bytes, only for oom
 */
#pragma once

#include <json-glib/json-glib.h>

G_BEGIN_DECLS

/* Returns data in the format of PyTorch's torch.cuda.memory._snapshot(). PyTorch's viewer reads the
 * data as a pickle. @events is nullable. */
JsonNode *gpumem_snapshot_to_viewer   (GVariant  *segments,
                                       GVariant  *events,
                                       GError   **error);
/* Returns the live bytes, the freed bytes with pending use and the reserved bytes over time, as
 * counters in the JSON format of Perfetto and chrome://tracing. If the pool was not empty before
 * the first event, the counters begin with the lowest possible values. */
JsonNode *gpumem_snapshot_to_perfetto (GVariant  *events,
                                       GError   **error);
/* Returns the values of @node as a pickle, which Python's pickle.load() reads. */
GBytes   *gpumem_snapshot_pickle      (JsonNode  *node);

G_END_DECLS
