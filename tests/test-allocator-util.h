/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* An allocator of a program, for tests: it does what it is told, and keeps what it gets back. */
#pragma once

#include "test-util.h"

G_BEGIN_DECLS

typedef enum
{
  TEST_GIVES_MEMORY,
  TEST_GIVES_NOTHING,
  TEST_GIVES_LITTLE,
  TEST_GIVES_RELEASED,
  TEST_GIVES_ERROR
} TestGives;

#define TEST_TYPE_ALLOCATOR (test_allocator_get_type ())

G_DECLARE_FINAL_TYPE (TestAllocator, test_allocator, TEST, ALLOCATOR, GObject)

struct _TestAllocator
{
  GObject     parent_instance;

  GpuContext *context;
  TestGives   gives;
  guint       n_allocs;
  GQueue      kept;                 /* of GpuMemory that came back */
};

TestAllocator *test_allocator_new     (TestFixture  *fixture);
GpuAllocator  *test_deferred          (TestFixture  *fixture);
/* Memory of exactly so many bytes. */
GpuMemory     *test_alloc             (GpuAllocator *allocator,
                                       gsize         size);
/* Fails unless memory holds what was written to it last, however it is reached. */
void           test_check_memory      (TestFixture  *fixture,
                                       GpuMemory    *memory);
/* Two memories that are not the same, and 0 bytes. */
void           test_check_allocator   (TestFixture  *fixture,
                                       GpuAllocator *allocator,
                                       GType         type);

G_END_DECLS
