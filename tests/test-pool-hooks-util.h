/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A pool with two streams, used through its hooks, as another library uses it. */
#pragma once

#include "test-pool-util.h"

G_BEGIN_DECLS

typedef struct
{
  TestFixture   *fixture;
  GpuMemoryPool *pool;
  GpuPoolHooks  *hooks;
  GpuStream     *first, *second;
  gpointer       a, b;              /* the driver's handles; NULL on the host */
} TestHooks;

typedef void (*TestHooksFunc) (TestHooks *hooked);

/* Skips the test, with a reason, if the memory of pools has no addresses. */
gboolean test_hooks_init       (TestHooks         *hooked,
                                TestFixture       *fixture,
                                GpuMemoryPoolKind  kind,
                                GpuStreamFlags     flags);
/* A test may have dropped the pool or a stream already. */
void     test_hooks_clear      (TestHooks         *hooked);
/* NULL on the host, which has no handles of streams. */
gpointer test_hooks_get_handle (GpuStream         *stream);
/* Asserts that the allocation succeeds. */
guint64  test_hooks_take       (TestHooks         *hooked,
                                gsize              size,
                                gpointer           stream);
void     test_hooks_drop       (TestHooks         *hooked,
                                guint64            address,
                                gpointer           stream);
guint64  test_hooks_get_figure (TestHooks         *hooked,
                                const char        *name);
/* Returns all unused memory to the driver after the work of the two streams. */
void     test_hooks_trim       (TestHooks         *hooked);

G_END_DECLS
