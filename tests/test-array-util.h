/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* For the tests of arrays: an array, and a copy of its memory on the host. */
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

/* Creates an array with random content, and its copy on the host. */
void      test_array_init          (TestArray      *model,
                                    TestFixture    *fixture,
                                    GpuDType       *dtype,
                                    const gssize   *shape,
                                    guint           n_dims,
                                    GpuArrayOrder   order);
gsize     test_array_get_offset    (GpuArray       *array,
                                    const gssize   *index);
/* Advances @index. After the last element it returns FALSE and resets @index to the first. */
gboolean  test_array_next_index    (GpuArray       *array,
                                    GpuArrayOrder   order,
                                    gssize         *index);
/* Functions on the host that pack all elements into bytes, and unpack them. */
GBytes   *test_array_gather        (TestArray      *model,
                                    GpuArrayOrder   order);
void      test_array_scatter       (TestArray      *model,
                                    GpuArrayOrder   order,
                                    GBytes         *bytes);
/* Asserts that the device memory equals the copy, including gaps between elements. */
void      test_array_assert_memory (TestArray      *model);

G_END_DECLS
