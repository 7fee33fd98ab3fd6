/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Operations common to buffers and images. */
#include "config.h"

#include "gpumem/host/gpu-host.h"

static guint64
host_memory_get_address (GpuNativeMemory *memory)
{
  return (guintptr) _gpu_host_memory_get_data (memory);
}

static gboolean
host_memory_get_attributes (GpuNativeContext  *context G_GNUC_UNUSED,
                            GpuNativeMemory   *memory,
                            GVariantDict      *attributes,
                            GError           **error G_GNUC_UNUSED)
{
  g_variant_dict_insert (attributes, "size", "t", (guint64) memory->size);
  g_variant_dict_insert (attributes, "address", "t", host_memory_get_address (memory));
  g_variant_dict_insert (attributes, "origin", "s", _gpu_host_memory_get_buffer (memory)->origin);

  return TRUE;
}

static void
host_memory_identify (GpuNativeContext *context G_GNUC_UNUSED,
                      GpuNativeMemory  *memory,
                      GpuAliasKey      *alias_key)
{
  GpuHostBuffer *self = _gpu_host_memory_get_buffer (memory);

  if (self->file != NULL)
    _gpu_host_file_identify (self->file, self->data, alias_key);
  else
    alias_key->id = (guintptr) self->data;
}

/* There is only one memory, so there is nothing to migrate. */
static gboolean
host_memory_migrate (GpuNativeStream         *stream,
                     GpuNativeMemory *const  *memories G_GNUC_UNUSED,
                     guint                    n_memories G_GNUC_UNUSED,
                     GpuMigrateFlags          flags G_GNUC_UNUSED,
                     GpuNativeEvent         **event,
                     GError                 **error)
{
  return _gpu_host_stream_submit_nothing (stream, event, error);
}

static gboolean
host_memory_unmap (GpuNativeStream  *stream,
                   GpuNativeMemory  *memory G_GNUC_UNUSED,
                   gpointer          data G_GNUC_UNUSED,
                   GpuNativeEvent  **event,
                   GError          **error)
{
  return _gpu_host_stream_submit_nothing (stream, event, error);
}

const GpuMemoryOps _gpu_host_memory_ops =
{
  .copies_peers = TRUE,
  .free = _gpu_host_memory_free,
  .get_handle = host_memory_get_address,
  .get_address = host_memory_get_address,
  .get_attributes = host_memory_get_attributes,
  .identify = host_memory_identify,
  .copy_region = _gpu_host_copy_region,
  .migrate = host_memory_migrate,
  .unmap = host_memory_unmap
};
