/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "test-io-util.h"

GInputStream *
test_input_new (gpointer memory, GpuStream *stream, gsize offset, gsize size)
{
  g_autoptr (GError) error = NULL;
  GInputStream *input = gpu_input_stream_new (memory, stream, offset, size, &error);

  g_assert_no_error (error);

  return input;
}

GOutputStream *
test_output_new (gpointer memory, GpuStream *stream, gsize offset, gsize size)
{
  g_autoptr (GError) error = NULL;
  GOutputStream *output = gpu_output_stream_new (memory, stream, offset, size, &error);

  g_assert_no_error (error);

  return output;
}
