/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the tests of arrays share: an array, and what the host knows of its memory. */
#pragma once

#include "test-util.h"

G_BEGIN_DECLS

typedef struct
{
  GpuArray *array;
  guint8   *memory;
  gsize     size;
} TestArray;

void      test_array_clear         (TestArray      *model);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TestArray, test_array_clear)

/* With random content, on both sides. */
void      test_array_init          (TestArray      *model,
                                    TestFixture    *fixture,
                                    GpuDType       *dtype,
                                    const gssize   *shape,
                                    guint           n_dims,
                                    GpuArrayOrder   order);
gsize     test_array_get_offset    (GpuArray       *array,
                                    const gssize   *index);
/* FALSE after the last one, and then @index is that of the first. */
gboolean  test_array_next_index    (GpuArray       *array,
                                    GpuArrayOrder   order,
                                    gssize         *index);
/* All elements, without gaps, and back: on the host. */
GBytes   *test_array_gather        (TestArray      *model,
                                    GpuArrayOrder   order);
void      test_array_scatter       (TestArray      *model,
                                    GpuArrayOrder   order,
                                    GBytes         *bytes);
/* That the device has what the host knows, also between the elements. */
void      test_array_assert_memory (TestArray      *model);

G_END_DECLS
