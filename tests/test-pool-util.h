/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the tests of pools of memory share. */
#pragma once

#include "test-util.h"

G_BEGIN_DECLS

typedef void (*TestPoolFunc) (TestFixture *fixture, GpuMemoryPool *pool);

/* NULL where the device has no such pool, which may only be one of a range of addresses. */
GpuMemoryPool *test_pool             (TestFixture       *fixture,
                                      GpuMemoryPoolKind  kind);
/* Calls @func for every kind that the device can have, each time with a new pool. */
void           test_pool_each_kind   (TestFixture       *fixture,
                                      TestPoolFunc       func);
/* @stream is nullable. */
GpuBuffer     *test_pool_take        (GpuMemoryPool     *pool,
                                      gsize              size,
                                      GpuStream         *stream);
/* A property that is a number of 64 bits. */
guint64        test_pool_get_figure  (GpuMemoryPool     *pool,
                                      const char        *name);

G_END_DECLS
