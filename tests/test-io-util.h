/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Shared by the tests of GpuInputStream and GpuOutputStream. */
#pragma once

#include <gio/gio.h>

#include "test-util.h"

G_BEGIN_DECLS

/* @memory is a GpuMemory. */
GInputStream  *test_input_new  (gpointer   memory,
                                GpuStream *stream,
                                gsize      offset,
                                gsize      size);
GOutputStream *test_output_new (gpointer   memory,
                                GpuStream *stream,
                                gsize      offset,
                                gsize      size);

G_END_DECLS
