/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the tests of shared virtual memory share. */
#pragma once

#include "test-util.h"

G_BEGIN_DECLS

/* Skips the test, with a reason, unless the device has such memory. */
gboolean    test_has_svm     (TestFixture *fixture);
/* The host and a stream of a device cannot both use it. */
gboolean    test_has_exclusive_handover (TestFixture *fixture);
GpuSvm     *test_svm         (TestFixture *fixture,
                              GpuSvmFlags  flags,
                              gsize        size);
GpuMapping *test_svm_map     (GpuSvm      *svm,
                              GpuMapFlags  flags,
                              gsize        offset,
                              gsize        size);
void        test_svm_set     (GpuSvm      *svm,
                              gsize        offset,
                              gsize        size,
                              guint8       value);
/* Fails unless all of the range is @value. */
void        test_svm_check   (GpuSvm      *svm,
                              gsize        offset,
                              gsize        size,
                              guint8       value);

G_END_DECLS
