/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory and events that pass to other processes.
 *
 * A handle is what the back end needs to open the thing, in an envelope that says what it is. It
 * comes from outside: nothing in it is believed before it was looked at.
 */
#include "config.h"

#include <gio/gunixfdlist.h>
#include <glib/gstdio.h>

#include "gpumem/device/gpu-context-private.h"
#include "gpumem/memory/gpu-memory-private.h"
#include "gpumem/stream/gpu-event-private.h"

/* What it is, back end, bytes of memory, its flags, index of the file descriptor, and the rest. */
#define ENVELOPE_TYPE "(sstuiay)"

#define BUFFER_MAGIC "gpumem buffer 1"
#define FD_MAGIC     "gpumem buffer fd 1"
#define EVENT_MAGIC  "gpumem event 1"

/* What of the flags of memory goes with it. */
#define ACCESS_FLAGS (GPU_MEMORY_READ_ONLY | GPU_MEMORY_WRITE_ONLY | GPU_MEMORY_HOST_READ_ONLY \
                      | GPU_MEMORY_HOST_WRITE_ONLY | GPU_MEMORY_HOST_NO_ACCESS)

typedef struct
{
  guint64         size;
  GpuMemoryFlags  flags;
  gint32          fd;               /* index */
  GBytes         *payload;
} Envelope;

static void
envelope_clear (Envelope *envelope)
{
  g_clear_pointer (&envelope->payload, g_bytes_unref);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Envelope, envelope_clear)

static GBytes *
envelope_seal (const Envelope    *envelope,
               const char        *magic,
               const GpuBackend  *backend)
{
  GVariant *payload = g_variant_new_from_bytes (G_VARIANT_TYPE_BYTESTRING, envelope->payload,
                                                TRUE);
  g_autoptr (GVariant) variant = g_variant_new ("(sstui@ay)", magic, backend->name,
                                                envelope->size, (guint32) envelope->flags,
                                                envelope->fd, payload);

  g_variant_ref_sink (variant);

  return g_variant_get_data_as_bytes (variant);
}

static gboolean
envelope_open (Envelope          *envelope,
               GBytes            *handle,
               const char        *function,
               const char        *magic,
               const GpuBackend  *backend,
               GError           **error)
{
  g_autoptr (GVariant) variant = NULL;
  g_autoptr (GVariant) payload = NULL;
  const char *given_magic;
  const char *given_backend;
  guint32 flags;

  variant = g_variant_new_from_bytes (G_VARIANT_TYPE (ENVELOPE_TYPE), handle, FALSE);
  g_variant_ref_sink (variant);
  g_variant_get (variant, "(&s&stui@ay)", &given_magic, &given_backend, &envelope->size, &flags,
                 &envelope->fd, &payload);

  if (!g_variant_is_normal_form (variant) || !g_str_equal (given_magic, magic))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_IPC, "%s: %" G_GSIZE_FORMAT " bytes are no \"%s\"",
                   function, g_bytes_get_size (handle), magic);
      return FALSE;
    }

  if (!g_str_equal (given_backend, backend->name))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_IPC,
                   "%s: the handle is of the back end %s and the context of %s", function,
                   given_backend, backend->name);
      return FALSE;
    }

  envelope->flags = flags;
  envelope->payload = g_variant_get_data_as_bytes (payload);

  return TRUE;
}

static gboolean
check_capability (GpuNativeContext  *context,
                  const char        *function,
                  gboolean           has_op,
                  GpuCapabilities    capability,
                  const char        *what,
                  GError           **error)
{
  if (!has_op)
    return _gpu_backend_fail (context->backend, function, what, error);

  if ((context->devices[0]->capabilities & capability) != 0)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED, "%s: %s has no %s", function,
               context->devices[0]->id, what);

  return FALSE;
}

/**
 * gpu_buffer_export_handle:
 * @buffer: a #GpuBuffer, which may be a slice
 * @error: return location for an error
 *
 * Makes a handle of @buffer that another process of the machine opens with
 * gpu_buffer_new_from_handle() (CUDA: cuIpcGetMemHandle): plain bytes, to be passed on by whatever
 * means. They say where in the driver's own allocation the buffer lies, and how large it is. The
 * handle does not hold the memory: @buffer must live as long as another process uses it. Nor does
 * it say when work on it is done: pass an event as well, see gpu_event_export_handle(). Does not
 * block.
 *
 * Whoever has the handle reaches all of the driver's allocation, which can hold more than @buffer.
 *
 * Returns: (transfer full): the handle, or %NULL with %GPU_ERROR_NOT_SUPPORTED on devices without
 *   %GPU_CAPABILITIES_IPC_HANDLES and for memory of a kind that does not pass, such as that of the
 *   host, %GPU_ERROR_RELEASED, or the driver's error
 *
 * Since: 0.1
 */
GBytes *
gpu_buffer_export_handle (GpuBuffer  *buffer,
                          GError    **error)
{
  const char *function = "gpu_buffer_export_handle";
  GpuMemory *memory = GPU_MEMORY (buffer);
  g_auto (Envelope) envelope = { .fd = -1 };
  GpuNativeContext *context;
  GpuStorage *storage;
  GError *failure = NULL;

  g_return_val_if_fail (GPU_IS_BUFFER (buffer), NULL);

  if (!_gpu_memory_check (memory, function, error)
      || !_gpu_context_check (memory->context, function, error))
    return NULL;

  context = _gpu_context_get_native (memory->context);

  if (!check_capability (context, function, context->backend->buffer->export_handle != NULL,
                         GPU_CAPABILITIES_IPC_HANDLES, "handles for other processes", error))
    return NULL;

  storage = _gpu_memory_acquire (memory, function, error);

  if (storage == NULL)
    return NULL;

  envelope.size = memory->size;
  envelope.flags = memory->flags & ACCESS_FLAGS;
  envelope.payload = context->backend->buffer->export_handle (context, storage->buffer, &failure);
  _gpu_storage_unuse (storage);

  if (!_gpu_native_context_end (context, function, failure, error))
    return NULL;

  return envelope_seal (&envelope, BUFFER_MAGIC, context->backend);
}

/* What came as a size may be more than an address can reach. */
static gboolean
check_size (const Envelope  *envelope,
            const char      *function,
            GError         **error)
{
  if (envelope->size > 0 && envelope->size <= G_MAXSSIZE)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_IPC,
               "%s: the handle tells of a buffer of %" G_GUINT64_FORMAT " bytes", function,
               envelope->size);

  return FALSE;
}

typedef enum
{
  IMPORT_BUFFER,
  IMPORT_FDS,
  IMPORT_EVENT
} Import;

static gboolean
can_import (const GpuBackend *backend,
            Import            what)
{
  switch (what)
    {
    case IMPORT_BUFFER:
      return backend->buffer->import_handle != NULL;
    case IMPORT_FDS:
      return backend->buffer->import_fd != NULL;
    case IMPORT_EVENT:
    default:
      return backend->event->import_handle != NULL;
    }
}

/* What every import begins with. (transfer none); NULL and @error if there is nothing to import. */
static GpuNativeContext *
import_begin (GpuContext  *context,
              Import       what,
              GBytes      *handle,
              const char  *function,
              Envelope    *envelope,
              GError     **error)
{
  static const struct
  {
    const char      *magic;
    GpuCapabilities  capability;
    const char      *text;
  }
  kinds[] =
  {
    [IMPORT_BUFFER] = { BUFFER_MAGIC, GPU_CAPABILITIES_IPC_HANDLES, "handles of other processes" },
    [IMPORT_FDS]    = { FD_MAGIC, GPU_CAPABILITIES_IPC_FDS, "memory with file descriptors" },
    [IMPORT_EVENT]  = { EVENT_MAGIC, GPU_CAPABILITIES_IPC_HANDLES, "events of other processes" }
  };
  GpuNativeContext *native;

  if (!_gpu_context_check (context, function, error))
    return NULL;

  native = _gpu_context_get_native (context);

  if (!check_capability (native, function, can_import (native->backend, what),
                         kinds[what].capability, kinds[what].text, error)
      || !envelope_open (envelope, handle, function, kinds[what].magic, native->backend, error)
      || (what != IMPORT_EVENT
          && (!check_size (envelope, function, error)
              || !_gpu_buffer_check_flags (function, native, envelope->flags, error))))
    return NULL;

  return native;
}

/* Takes @native over. */
static GpuBuffer *
buffer_new (GpuContext       *context,
            GpuNativeBuffer  *native,
            GpuMemoryFlags    flags)
{
  GpuBuffer *buffer = g_object_new (GPU_TYPE_BUFFER, "context", context, NULL);

  _gpu_memory_set_storage (GPU_MEMORY (buffer),
                           _gpu_storage_new (_gpu_context_get_native (context), native, flags,
                                             GPU_STORAGE_FOREIGN, NULL, NULL));

  return buffer;
}

/**
 * gpu_buffer_new_from_handle:
 * @context: a #GpuContext on the same device of the machine
 * @handle: what gpu_buffer_export_handle() gave in another process
 * @error: return location for an error
 *
 * Makes a buffer of memory that another process holds (CUDA: cuIpcOpenMemHandle). Both see what the
 * other one writes; uses there are not tracked here. The same memory imported again is mapped
 * once, and uses of both buffers are ordered as those of one. It does not count for
 * gpu_context_get_allocated_size(), and stays that of the other process: once that is gone, so is
 * what the memory holds. A process cannot import its own handles on CUDA. Does not block.
 *
 * Returns: (transfer full): the buffer, or %NULL with %GPU_ERROR_IPC if @handle is none, of another
 *   back end, or tells of memory that is gone, %GPU_ERROR_NOT_SUPPORTED on devices without
 *   %GPU_CAPABILITIES_IPC_HANDLES, or the driver's error
 *
 * Since: 0.1
 */
GpuBuffer *
gpu_buffer_new_from_handle (GpuContext  *context,
                            GBytes      *handle,
                            GError     **error)
{
  const char *function = "gpu_buffer_new_from_handle";
  g_auto (Envelope) envelope = { 0 };
  GpuNativeContext *native;
  GpuNativeBuffer *imported;
  GError *failure = NULL;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);
  g_return_val_if_fail (handle != NULL, NULL);

  native = import_begin (context, IMPORT_BUFFER, handle, function, &envelope, error);

  if (native == NULL)
    return NULL;

  imported = native->backend->buffer->import_handle (native, envelope.payload, envelope.size,
                                                     &failure);

  if (!_gpu_native_context_end (native, function, failure, error))
    return NULL;

  return buffer_new (context, imported, envelope.flags & ACCESS_FLAGS);
}

/**
 * gpu_buffer_export_fds:
 * @buffer: a #GpuBuffer with %GPU_MEMORY_SHAREABLE, which may be a slice
 * @fds: a list that the file descriptor of the memory is added to
 * @error: return location for an error
 *
 * Makes a handle of @buffer that another process opens with gpu_buffer_new_from_fds(), given that
 * it gets @fds as well: with #GUnixConnection or GDBus (CUDA: cuMemExportToShareableHandle,
 * cuMemPoolExportToShareableHandle; a memfd on the host). Other than with
 * gpu_buffer_export_handle() the memory lives as long as anybody holds it, and only who was given
 * the descriptor reaches it. That of gpu_buffer_new_on_stream() is the exception: it goes back to
 * the driver's pool with @buffer, which must live as long as another process uses it. Several
 * buffers can go with one list. Does not block.
 *
 * Returns: (transfer full): the handle, or %NULL with %GPU_ERROR_NOT_SUPPORTED on devices without
 *   %GPU_CAPABILITIES_IPC_FDS, %GPU_ERROR_INVALID_ARGUMENT without %GPU_MEMORY_SHAREABLE,
 *   %GPU_ERROR_RELEASED, or the driver's error
 *
 * Since: 0.1
 */
GBytes *
gpu_buffer_export_fds (GpuBuffer    *buffer,
                       GUnixFDList  *fds,
                       GError      **error)
{
  const char *function = "gpu_buffer_export_fds";
  GpuMemory *memory = GPU_MEMORY (buffer);
  g_auto (Envelope) envelope = { 0 };
  GpuNativeContext *context;
  GpuStorage *storage;
  GError *failure = NULL;
  int fd = -1;

  g_return_val_if_fail (GPU_IS_BUFFER (buffer), NULL);
  g_return_val_if_fail (G_IS_UNIX_FD_LIST (fds), NULL);

  if (!_gpu_memory_check (memory, function, error)
      || !_gpu_context_check (memory->context, function, error))
    return NULL;

  context = _gpu_context_get_native (memory->context);

  if (!check_capability (context, function, context->backend->buffer->export_fd != NULL,
                         GPU_CAPABILITIES_IPC_FDS, "memory with file descriptors", error))
    return NULL;

  if ((memory->flags & GPU_MEMORY_SHAREABLE) == 0)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: the memory %p was made without GPU_MEMORY_SHAREABLE", function,
                   (void *) buffer);
      return NULL;
    }

  storage = _gpu_memory_acquire (memory, function, error);

  if (storage == NULL)
    return NULL;

  envelope.size = memory->size;
  envelope.flags = memory->flags & ACCESS_FLAGS;
  envelope.payload = context->backend->buffer->export_fd (context, storage->buffer, &fd, &failure);
  _gpu_storage_unuse (storage);

  if (!_gpu_native_context_end (context, function, failure, error))
    return NULL;

  /* The list takes a descriptor of its own. */
  envelope.fd = g_unix_fd_list_append (fds, fd, error);
  g_close (fd, NULL);

  if (envelope.fd < 0)
    {
      g_prefix_error (error, "%s: ", function);
      return NULL;
    }

  return envelope_seal (&envelope, FD_MAGIC, context->backend);
}

static int
get_fd (GUnixFDList     *fds,
        const Envelope  *envelope,
        const char      *function,
        GError         **error)
{
  int fd;

  if (envelope->fd < 0 || envelope->fd >= g_unix_fd_list_get_length (fds))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_IPC,
                   "%s: the handle tells of file descriptor %d among %d", function, envelope->fd,
                   g_unix_fd_list_get_length (fds));
      return -1;
    }

  fd = g_unix_fd_list_get (fds, envelope->fd, error);

  if (fd < 0)
    g_prefix_error (error, "%s: ", function);

  return fd;
}

/**
 * gpu_buffer_new_from_fds:
 * @context: a #GpuContext on the same device of the machine
 * @handle: what gpu_buffer_export_fds() gave in another process, or in this one
 * @fds: the list that it was given with; it stays as it is
 * @error: return location for an error
 *
 * Makes a buffer of memory that another process shares (CUDA: cuMemImportFromShareableHandle,
 * cuMemPoolImportFromShareableHandle; mmap on the host). Both see what the other one writes; uses
 * there are not tracked here. The same memory imported again is mapped once, and uses of both
 * buffers are ordered as those of one; on the host that goes for memory that this process has
 * exported, too, while on CUDA that is mapped, and tracked, apart. It does not count for
 * gpu_context_get_allocated_size(), and can be exported again. Does not block.
 *
 * Returns: (transfer full): the buffer, or %NULL with %GPU_ERROR_IPC if @handle is none, of another
 *   back end, or does not go with what is in @fds, %GPU_ERROR_NOT_SUPPORTED on devices without
 *   %GPU_CAPABILITIES_IPC_FDS, a #GIOErrorEnum if the descriptor cannot be duplicated, or the
 *   driver's error
 *
 * Since: 0.1
 */
GpuBuffer *
gpu_buffer_new_from_fds (GpuContext   *context,
                         GBytes       *handle,
                         GUnixFDList  *fds,
                         GError      **error)
{
  const char *function = "gpu_buffer_new_from_fds";
  g_auto (Envelope) envelope = { 0 };
  GpuNativeContext *native;
  GpuNativeBuffer *imported;
  GError *failure = NULL;
  int fd;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);
  g_return_val_if_fail (handle != NULL, NULL);
  g_return_val_if_fail (G_IS_UNIX_FD_LIST (fds), NULL);

  native = import_begin (context, IMPORT_FDS, handle, function, &envelope, error);

  if (native == NULL)
    return NULL;

  fd = get_fd (fds, &envelope, function, error);

  if (fd < 0)
    return NULL;

  imported = native->backend->buffer->import_fd (native, envelope.payload, fd, envelope.size,
                                                 &failure);
  g_close (fd, NULL);

  if (!_gpu_native_context_end (native, function, failure, error))
    return NULL;

  return buffer_new (context, imported, (envelope.flags & ACCESS_FLAGS) | GPU_MEMORY_SHAREABLE);
}

/**
 * gpu_event_export_handle:
 * @event: a #GpuEvent that gpu_stream_record() made with %GPU_EVENT_FLAGS_INTERPROCESS
 * @error: return location for an error
 *
 * Makes a handle of @event that another process of the machine opens with
 * gpu_event_new_from_handle() (CUDA: cuIpcGetEventHandle). @event must live as long as another
 * process waits for it. Does not block.
 *
 * Returns: (transfer full): the handle, or %NULL with %GPU_ERROR_NOT_SUPPORTED on back ends whose
 *   events do not pass, %GPU_ERROR_INVALID_ARGUMENT without %GPU_EVENT_FLAGS_INTERPROCESS, or the
 *   driver's error
 *
 * Since: 0.1
 */
GBytes *
gpu_event_export_handle (GpuEvent  *event,
                         GError   **error)
{
  const char *function = "gpu_event_export_handle";
  g_auto (Envelope) envelope = { .fd = -1 };
  GpuNativeEvent *shared;
  GpuNativeContext *context;
  GError *failure = NULL;

  g_return_val_if_fail (GPU_IS_EVENT (event), NULL);

  if (!_gpu_event_check (event, function, error)
      || !_gpu_context_check (gpu_event_get_context (event), function, error))
    return NULL;

  context = _gpu_context_get_native (gpu_event_get_context (event));
  shared = _gpu_event_get_shared (event);

  if (context->backend->event->export_handle == NULL)
    {
      _gpu_backend_fail (context->backend, function, "events for other processes", error);
      return NULL;
    }

  if (shared == NULL)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: the event was recorded without GPU_EVENT_FLAGS_INTERPROCESS", function);
      return NULL;
    }

  envelope.payload = context->backend->event->export_handle (shared, &failure);

  if (!_gpu_native_context_end (context, function, failure, error))
    return NULL;

  return envelope_seal (&envelope, EVENT_MAGIC, context->backend);
}

/**
 * gpu_event_new_from_handle:
 * @context: a #GpuContext on the same device of the machine
 * @handle: what gpu_event_export_handle() gave in another process
 * @error: return location for an error
 *
 * Makes an event of one of another process (CUDA: cuIpcOpenEventHandle). It can be waited for like
 * any other: by streams, by threads and by the main loop. It tells no times, and is not among what
 * gpu_context_synchronize() waits for. If the other process goes without completing it, the driver
 * decides what becomes of who waits. Does not block.
 *
 * Returns: (transfer full): the event, or %NULL with %GPU_ERROR_IPC if @handle is none, of another
 *   back end, or of an event that is gone, %GPU_ERROR_NOT_SUPPORTED on devices without
 *   %GPU_CAPABILITIES_IPC_HANDLES, or the driver's error
 *
 * Since: 0.1
 */
GpuEvent *
gpu_event_new_from_handle (GpuContext  *context,
                           GBytes      *handle,
                           GError     **error)
{
  const char *function = "gpu_event_new_from_handle";
  g_auto (Envelope) envelope = { 0 };
  g_autoptr (GpuTimeline) timeline = NULL;
  GpuNativeContext *native;
  GpuNativeEvent *imported;
  GError *failure = NULL;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);
  g_return_val_if_fail (handle != NULL, NULL);

  native = import_begin (context, IMPORT_EVENT, handle, function, &envelope, error);

  if (native == NULL)
    return NULL;

  imported = native->backend->event->import_handle (native, envelope.payload, &failure);

  if (!_gpu_native_context_end (native, function, failure, error))
    return NULL;

  timeline = _gpu_timeline_new_for_event (native, imported);

  return _gpu_event_new_for_point (context, timeline, 1, NULL);
}
