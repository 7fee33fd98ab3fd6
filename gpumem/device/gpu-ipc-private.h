/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Handles for other processes. A handle is an envelope with the type of an object and with the data
 * that the back end needs to open the object. Handles come from other processes, so every field is
 * checked before its use. */
#pragma once

#include "gpumem/device/gpu-context-private.h"

G_BEGIN_DECLS

typedef enum
{
  GPU_IPC_BUFFER,
  GPU_IPC_BUFFER_FD,                /* the program sends its file descriptors separately */
  GPU_IPC_EVENT
} GpuIpcType;

typedef struct
{
  guint64         size;
  GpuMemoryFlags  flags;
  gint32          fd;               /* index of the first file descriptor, -1 for none */
  guint32         n_fds;            /* number of file descriptors */
  GBytes         *payload;
} GpuIpcEnvelope;

void              _gpu_ipc_envelope_clear (GpuIpcEnvelope        *envelope);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (GpuIpcEnvelope, _gpu_ipc_envelope_clear)

GBytes           *_gpu_ipc_envelope_seal  (const GpuIpcEnvelope  *envelope,
                                           GpuIpcType             type,
                                           const GpuBackend      *backend);
/* Returns FALSE with GPU_ERROR_NOT_SUPPORTED if the back end lacks the op, or the device lacks the
 * capability. */
gboolean          _gpu_ipc_check          (GpuNativeContext      *context,
                                           const char            *function,
                                           gboolean               has_op,
                                           GpuCapabilities        capability,
                                           const char            *what,
                                           GError               **error);
/* (transfer none): parses @handle for an import and gets the native context. Returns NULL with an
 * error if @handle is invalid or @context cannot import it. */
GpuNativeContext *_gpu_ipc_import_begin   (GpuContext            *context,
                                           GpuIpcType             type,
                                           GBytes                *handle,
                                           const char            *function,
                                           GpuIpcEnvelope        *envelope,
                                           GError               **error);

G_END_DECLS
