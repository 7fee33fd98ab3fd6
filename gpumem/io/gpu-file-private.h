/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/io/gpu-file.h"
#include "gpumem/staging/gpu-transfer-file.h"

G_BEGIN_DECLS

/* (transfer none): gets the open file. Returns NULL with an error if @file does not allow the
 * access, which is a read if @read is TRUE. */
GpuTransferFile *_gpu_file_peek_core (GpuFile     *file,
                                      gboolean     read,
                                      const char  *function,
                                      GError     **error);

G_END_DECLS
