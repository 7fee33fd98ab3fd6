/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "gpumem/allocator/gpu-allocator-adaptor-private.h"

/**
 * SECTION:gpu-logging-allocator
 * @title: GpuLoggingAllocator
 * @short_description: a log of allocations and frees
 * @see_also: #GpuAllocatorAdaptor
 */

/**
 * GpuLoggingAllocator:
 *
 * An adaptor that logs allocations and frees.
 *
 * |[<!-- language="C" -->
 * g_autoptr (GpuLoggingAllocator) logger =
 *   gpu_logging_allocator_new_for_path (allocator, "log.csv", &error);
 * g_autoptr (GpuMemory) memory =
 *   gpu_allocator_alloc (GPU_ALLOCATOR (logger), size, stream, &error);
 *
 * g_clear_object (&memory);
 * gpu_logging_allocator_flush (logger, &error);
 * ]|
 *
 * The log is a table of comma-separated values in the format of RMM, for use with its log tools:
 *
 * |[
 * Thread,Time,Action,Pointer,Size,Stream
 * 4711,17:05:31.000123,allocate,0x7f0300000000,4096,0x0
 * 4711,17:05:31.000321,free,0x7f0300000000,4096,0x0
 * ]|
 *
 * An action is `allocate`, `allocate failure` or `free`. The pointer is the device address of the
 * memory, or the driver's handle if the address is unknown. The stream is the driver's handle of
 * the stream of the request, or 0x0 if the request had no stream. Lines are in the order of events.
 *
 * The adaptor buffers lines. It writes them during later allocations, in
 * gpu_logging_allocator_flush(), and when the adaptor is finalized. If memory is still in use when
 * the adaptor is finalized, the lines for freeing that memory are written after all of it is freed.
 * One thread at a time writes to the output, and the adaptor never closes the output.
 *
 * Since: 0.1
 */
struct _GpuLoggingAllocator
{
  GpuAllocatorAdaptor parent_instance;
};

#define HEADER        "Thread,Time,Action,Pointer,Size,Stream\n"
#define MAX_BUFFERED  (16 * 1024)

typedef struct
{
  GpuAdaptorCore  parent;

  GOutputStream  *output;           /* nullable; set once */
  GString        *lines;            /* lines that are not written yet */
  gboolean        writing;          /* a thread writes or flushes the output */
  GCond           written;          /* signalled when the writing thread stops */
  GError         *failure;          /* the first error since the last flush, nullable */
} Core;

enum
{
  PROP_0,
  PROP_OUTPUT,
  N_PROPS
};

static GParamSpec *props[N_PROPS];

G_DEFINE_FINAL_TYPE (GpuLoggingAllocator, gpu_logging_allocator, GPU_TYPE_ALLOCATOR_ADAPTOR)

static guint64
get_thread (void)
{
#ifdef __linux__
  return (guint64) syscall (SYS_gettid);
#else
  return (guint64) (gsize) g_thread_self ();
#endif
}

static void
add_line_locked (GpuAdaptorCore *core,
                 const char     *action,
                 guint64         pointer,
                 gsize           size,
                 guint64         stream)
{
  g_autoptr (GDateTime) now = g_date_time_new_now_local ();

  g_string_append_printf (((Core *) core)->lines,
                          "%" G_GUINT64_FORMAT ",%02d:%02d:%02d.%06d,%s,0x%" G_GINT64_MODIFIER
                          "x,%" G_GSIZE_FORMAT ",0x%" G_GINT64_MODIFIER "x\n", get_thread (),
                          g_date_time_get_hour (now), g_date_time_get_minute (now),
                          g_date_time_get_second (now), g_date_time_get_microsecond (now), action,
                          pointer, size, stream);
}

/* Writes all lines, without the lock, because the program may implement the output. If another
 * thread is writing, that thread also writes the lines of this thread. In this case, if @wait is
 * TRUE, waits until the other thread has finished. */
static void
write_lines (Core     *core,
             gboolean  wait)
{
  g_mutex_lock (&core->parent.lock);

  while (core->writing && wait)
    g_cond_wait (&core->written, &core->parent.lock);

  while (!core->writing && core->lines->len > 0)
    {
      g_autoptr (GString) lines = g_steal_pointer (&core->lines);
      g_autoptr (GError) failure = NULL;

      core->lines = g_string_new (NULL);
      core->writing = TRUE;
      g_mutex_unlock (&core->parent.lock);

      if (core->output != NULL)
        g_output_stream_write_all (core->output, lines->str, lines->len, NULL, NULL, &failure);

      g_mutex_lock (&core->parent.lock);
      core->writing = FALSE;

      if (core->failure == NULL)
        core->failure = g_steal_pointer (&failure);
    }

  g_cond_broadcast (&core->written);
  g_mutex_unlock (&core->parent.lock);
}

/* Flushes the output when no thread writes to it, because a GOutputStream allows one operation at a
 * time. Returns the first error since the last flush, or NULL. */
static GError *
flush_output (Core *core)
{
  GError *failure;

  g_mutex_lock (&core->parent.lock);

  while (core->writing)
    g_cond_wait (&core->written, &core->parent.lock);

  failure = g_steal_pointer (&core->failure);
  core->writing = TRUE;
  g_mutex_unlock (&core->parent.lock);

  if (failure == NULL && core->output != NULL)
    g_output_stream_flush (core->output, NULL, &failure);

  g_mutex_lock (&core->parent.lock);
  core->writing = FALSE;
  g_cond_broadcast (&core->written);
  g_mutex_unlock (&core->parent.lock);

  return failure;
}

static void
logging_granted (GpuAdaptorCore *core,
                 GpuLease       *lease)
{
  add_line_locked (core, "allocate", lease->pointer, lease->size, lease->stream);
}

static gboolean
logging_returned (GpuAdaptorCore *core,
                  GpuLease       *lease,
                  GpuStorage     *storage G_GNUC_UNUSED)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&core->lock);

  add_line_locked (core, "free", lease->pointer, lease->size, lease->stream);

  return TRUE;
}

static GpuMemory *
logging_alloc (GpuAllocatorAdaptor  *adaptor,
               gsize                 size,
               GpuStream            *stream,
               GError              **error)
{
  Core *core = (Core *) adaptor->core;
  GpuMemory *memory = _gpu_adaptor_alloc (adaptor, size, stream, error);
  guint64 handle = memory == NULL && stream != NULL ? gpu_stream_get_native_handle (stream) : 0;
  gboolean is_full;

  g_mutex_lock (&core->parent.lock);

  if (memory == NULL)
    add_line_locked (adaptor->core, "allocate failure", 0, size, handle);

  is_full = core->lines->len >= MAX_BUFFERED;
  g_mutex_unlock (&core->parent.lock);

  if (is_full)
    write_lines (core, FALSE);

  return memory;
}

static void
logging_closed (GpuAdaptorCore *core)
{
  write_lines ((Core *) core, TRUE);
}

static void
logging_clear (GpuAdaptorCore *parent)
{
  Core *core = (Core *) parent;

  write_lines (core, FALSE);
  g_clear_object (&core->output);
  g_clear_error (&core->failure);
  g_string_free (core->lines, TRUE);
  g_cond_clear (&core->written);
}

static const GpuAdaptorOps logging_ops =
{
  .core_size = sizeof (Core),
  .lease_size = sizeof (GpuLease),
  .alloc = logging_alloc,
  .granted = logging_granted,
  .returned = logging_returned,
  .closed = logging_closed,
  .clear = logging_clear
};

static void
gpu_logging_allocator_get_property (GObject    *object,
                                    guint       id,
                                    GValue     *value,
                                    GParamSpec *pspec)
{
  if (id == PROP_OUTPUT)
    g_value_set_object (value, ((Core *) _gpu_adaptor_get_core (object))->output);
  else
    G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
}

static void
gpu_logging_allocator_set_property (GObject      *object,
                                    guint         id,
                                    const GValue *value,
                                    GParamSpec   *pspec)
{
  Core *core = _gpu_adaptor_get_core (object);

  if (id == PROP_OUTPUT)
    core->output = g_value_dup_object (value);
  else
    G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
}

static void
gpu_logging_allocator_class_init (GpuLoggingAllocatorClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->get_property = gpu_logging_allocator_get_property;
  object_class->set_property = gpu_logging_allocator_set_property;

  /**
   * GpuLoggingAllocator:output:
   *
   * The output stream of the log.
   *
   * Since: 0.1
   */
  props[PROP_OUTPUT] =
    g_param_spec_object ("output", NULL, NULL, G_TYPE_OUTPUT_STREAM,
                         G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS);

  g_object_class_install_properties (object_class, N_PROPS, props);
}

static void
gpu_logging_allocator_init (GpuLoggingAllocator *allocator)
{
  Core *core = _gpu_adaptor_init (&allocator->parent_instance, &logging_ops);

  core->lines = g_string_new (HEADER);
  g_cond_init (&core->written);
}

/**
 * gpu_logging_allocator_new:
 * @upstream: the allocator to wrap
 * @output: the output stream for the log, for exclusive use by the adaptor
 *
 * Creates an adaptor that logs to @output, and references @output. May be called from any
 * thread.
 *
 * Returns: (transfer full): the allocator
 *
 * Since: 0.1
 */
GpuLoggingAllocator *
gpu_logging_allocator_new (GpuAllocator  *upstream,
                           GOutputStream *output)
{
  g_return_val_if_fail (GPU_IS_ALLOCATOR (upstream), NULL);
  g_return_val_if_fail (G_IS_OUTPUT_STREAM (output), NULL);

  return g_object_new (GPU_TYPE_LOGGING_ALLOCATOR, "upstream", upstream, "output", output, NULL);
}

/* Opens a file and removes its content. Keeps the file itself, with its mode and its other names,
 * because the program may not own a folder, a FIFO or a device at that path. */
static GOutputStream *
open_path (const char  *path,
           GError     **error)
{
  g_autoptr (GFile) file = g_file_new_for_path (path);
  g_autoptr (GFileOutputStream) output = g_file_append_to (file, G_FILE_CREATE_NONE, NULL, error);
  g_autoptr (GFileInfo) info = NULL;

  if (output == NULL)
    return NULL;

  info = g_file_output_stream_query_info (output, G_FILE_ATTRIBUTE_STANDARD_TYPE, NULL, error);

  if (info == NULL ||
      (g_file_info_get_file_type (info) == G_FILE_TYPE_REGULAR &&
       !g_seekable_truncate (G_SEEKABLE (output), 0, NULL, error)))
    return NULL;

  return G_OUTPUT_STREAM (g_steal_pointer (&output));
}

/**
 * gpu_logging_allocator_new_for_path:
 * @upstream: the allocator to wrap
 * @path: (type filename): a file, which is created or truncated
 * @error: return location for an error
 *
 * Creates an adaptor that logs to a file. Follows symbolic links. Blocks while the file is opened,
 * which a FIFO delays until another process or thread reads from it. May be called from any thread.
 *
 * Returns: (transfer full): the allocator, or %NULL with an error of #G_IO_ERROR
 *
 * Since: 0.1
 */
GpuLoggingAllocator *
gpu_logging_allocator_new_for_path (GpuAllocator  *upstream,
                                    const char    *path,
                                    GError       **error)
{
  g_autoptr (GOutputStream) output = NULL;

  g_return_val_if_fail (GPU_IS_ALLOCATOR (upstream), NULL);
  g_return_val_if_fail (path != NULL, NULL);

  output = open_path (path, error);

  return output != NULL ? gpu_logging_allocator_new (upstream, output) : NULL;
}

/**
 * gpu_logging_allocator_flush:
 * @allocator: a #GpuLoggingAllocator
 * @error: return location for an error
 *
 * Writes all buffered lines and flushes the output. May be called from any thread; blocks.
 *
 * Returns: %TRUE, or %FALSE with the first error of the output since the last flush
 *
 * Since: 0.1
 */
gboolean
gpu_logging_allocator_flush (GpuLoggingAllocator  *allocator,
                             GError              **error)
{
  GError *failure;
  Core *core;

  g_return_val_if_fail (GPU_IS_LOGGING_ALLOCATOR (allocator), FALSE);

  core = _gpu_adaptor_get_core (allocator);
  write_lines (core, TRUE);
  failure = flush_output (core);
  /* Write the lines that other threads added during the flush. */
  write_lines (core, FALSE);

  if (failure == NULL)
    return TRUE;

  g_propagate_error (error, failure);

  return FALSE;
}
