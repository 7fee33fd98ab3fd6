/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* An allocator that the test program implements. The test decides the results, and freed memory
 * stays in a list. */
#pragma once

#include "test-util.h"

G_BEGIN_DECLS

typedef enum
{
  TEST_GIVES_MEMORY,
  TEST_GIVES_NOTHING,
  TEST_GIVES_LITTLE,
  TEST_GIVES_RELEASED,
  TEST_GIVES_FOREIGN,               /* memory of another context of the device */
  TEST_GIVES_IMAGE,                 /* an image of 10 x 10 bytes */
  TEST_GIVES_SLICE,                 /* a slice that starts at an odd offset */
  TEST_GIVES_ERROR
} TestGives;

#define TEST_TYPE_ALLOCATOR (test_allocator_get_type ())

G_DECLARE_FINAL_TYPE (TestAllocator, test_allocator, TEST, ALLOCATOR, GObject)

struct _TestAllocator
{
  GObject     parent_instance;

  GpuContext *context;
  TestGives   gives;
  gboolean    hides_context;        /* get_context() returns NULL */
  guint       n_allocs;
  GQueue      kept;                 /* freed GpuMemory */
};

TestAllocator *test_allocator_new     (TestFixture  *fixture);
GpuAllocator  *test_deferred          (TestFixture  *fixture);
/* Waits for @condition; fails after TEST_DEADLINE. */
#define test_poll(condition)                                                         \
  G_STMT_START                                                                       \
    {                                                                                \
      const gint64 deadline_ = g_get_monotonic_time () + TEST_DEADLINE * G_USEC_PER_SEC; \
                                                                                     \
      while (!(condition) && g_get_monotonic_time () < deadline_)                    \
        g_usleep (500);                                                              \
                                                                                     \
      g_assert_true (condition);                                                     \
    }                                                                                \
  G_STMT_END

/* Allocates memory of exactly @size bytes. */
GpuMemory     *test_alloc             (GpuAllocator *allocator,
                                       gsize         size);
/* Writes the memory, copies it, and compares the contents. */
void           test_check_memory      (TestFixture  *fixture,
                                       GpuMemory    *memory);
/* Allocates memory of @type twice, checks both contents, and requests 0 bytes. */
void           test_check_allocator   (TestFixture  *fixture,
                                       GpuAllocator *allocator,
                                       GType         type);

G_END_DECLS
