/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Shared by the tests of shared virtual memory. */
#pragma once

#include "test-util.h"

G_BEGIN_DECLS

/* Skips the test, with a reason, unless the device supports shared virtual memory. */
gboolean    test_has_svm     (TestFixture *fixture);
/* Returns TRUE if the host and a stream must not use an SVM allocation at the same time. */
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
/* Asserts that all bytes of the range are @value. */
void        test_svm_check   (GpuSvm      *svm,
                              gsize        offset,
                              gsize        size,
                              guint8       value);

G_END_DECLS
