/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Shared by the tests of GpuMemoryPool. */
#pragma once

#include "test-util.h"

G_BEGIN_DECLS

typedef void (*TestPoolFunc) (TestFixture *fixture, GpuMemoryPool *pool);

/* Returns NULL if the device does not support the kind. Only GPU_MEMORY_POOL_EXPANDABLE may be
 * unsupported. */
GpuMemoryPool *test_pool             (TestFixture       *fixture,
                                      GpuMemoryPoolKind  kind);
/* Creates an expandable pool of host memory. Returns NULL if the device does not support it. */
GpuMemoryPool *test_pool_of_host     (TestFixture       *fixture);
/* Calls @func with a new pool of every kind that the device supports, and with one of host
 * memory. */
void           test_pool_each_kind   (TestFixture       *fixture,
                                      TestPoolFunc       func);
/* @stream is nullable. */
GpuBuffer     *test_pool_take        (GpuMemoryPool     *pool,
                                      gsize              size,
                                      GpuStream         *stream);
/* Gets a 64-bit integer property. */
guint64        test_pool_get_figure  (GpuMemoryPool     *pool,
                                      const char        *name);

G_END_DECLS
