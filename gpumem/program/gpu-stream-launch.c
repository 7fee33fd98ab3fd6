/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/device/gpu-context-private.h"
#include "gpumem/memory/gpu-sampler-private.h"
#include "gpumem/program/gpu-arguments-private.h"
#include "gpumem/program/gpu-launch-private.h"
#include "gpumem/stream/gpu-event-private.h"
#include "gpumem/stream/gpu-stream-private.h"
#include "gpumem/stream/gpu-submission-inline-private.h"

/* The largest number of arguments for which a launch allocates no memory. */
#define FEW_ARGUMENTS 16

/* Caller holds the locks of the submission: no other thread can release the memory during the
 * call. */
G_GNUC_NO_INLINE static gboolean
run_with_options (const GpuLaunch  *launch,
                  GpuNativeStream  *stream,
                  GpuNativeEvent  **event,
                  GError          **error)
{
  g_autofree GpuNativeBuffer **indirect = g_new (GpuNativeBuffer *, launch->n_indirect);
  const GpuLaunchOptions options = { launch->offset, launch->shared_size, launch->flags, indirect,
                                     launch->n_indirect };
  GpuNativeLaunch call = launch->call;

  call.options = &options;

  for (guint i = 0; i < launch->n_indirect; i++)
    {
      indirect[i] = launch->memories[launch->call.n_arguments + i]->storage->buffer;

      if (indirect[i]->is_host_only)
        return _gpu_launch_fail_host_only ("indirect memory", i, stream->context, error);
    }

  return stream->backend->kernel->launch (stream, launch->core->kernel, &call, event, error);
}

static inline gboolean
run_launch (gconstpointer     operation,
            GpuNativeStream  *stream,
            GpuNativeEvent  **event,
            GError          **error)
{
  const GpuLaunch *launch = operation;

  for (guint i = 0; i < launch->call.n_arguments && !launch->is_prepared; i++)
    {
      if (launch->memories[i] == NULL)
        continue;

      launch->call.arguments[i].buffer = launch->memories[i]->storage->buffer;

      if (G_UNLIKELY (launch->call.arguments[i].buffer->is_host_only))
        return _gpu_launch_fail_host_only ("argument", i, stream->context, error);
    }

  if (G_UNLIKELY (launch->has_options))
    return run_with_options (launch, stream, event, error);

  return stream->backend->kernel->launch (stream, launch->core->kernel, &launch->call, event,
                                          error);
}

static const GpuRetainType retain_sampler = { (GBoxedCopyFunc) _gpu_native_sampler_ref,
                                              (GDestroyNotify) _gpu_native_sampler_unref };
static const GpuRetainType retain_core = { (GBoxedCopyFunc) _gpu_kernel_core_ref,
                                           (GDestroyNotify) _gpu_kernel_core_unref };

/* Builds a list of retained objects that contains the samplers and then @core. @core must be the
 * last object: if the next launch uses the same @core and no samplers, the timeline then needs no
 * further reference to @core. */
G_GNUC_NO_INLINE static const GpuRetain *
retain_samplers (const GpuLaunch *launch,
                 GpuRetain       *retains,
                 const GpuRetain *core)
{
  const GpuRetain *first = core;

  for (guint i = 0; i < launch->call.n_arguments; i++)
    {
      GpuNativeSampler *sampler = launch->call.arguments[i].sampler;

      if (sampler == NULL)
        continue;

      retains[i] = (GpuRetain) { sampler, &retain_sampler, 0, first };
      first = &retains[i];
    }

  return first;
}

/* Lets the kernel use buffers of other contexts to which the program has enabled the access, and
 * sets @peers if it uses any. An image is an object of its context. */
G_GNUC_NO_INLINE static gboolean
check_peers (const char       *function,
             GpuTimeline      *timeline,
             const GpuAccess  *accesses,
             guint             n_accesses,
             gboolean         *peers,
             GError          **error)
{
  GpuNativeContext *ours = timeline->context;

  for (guint i = 0; i < n_accesses; i++)
    {
      GpuMemory *memory = accesses[i].memory;
      const GpuStorage *storage = memory != NULL ? memory->storage : NULL;
      GpuNativeContext *theirs = storage != NULL ? storage->context : ours;

      if (theirs == ours)
        continue;

      if (!_gpu_native_context_check (ours, error) || !_gpu_native_context_check (theirs, error))
        {
          g_prefix_error (error, "%s: ", function);
          return FALSE;
        }

      if (!GPU_IS_BUFFER (memory) || theirs->backend != ours->backend
          || ours->backend->context->has_peer == NULL
          || !ours->backend->context->has_peer (ours, theirs))
        return _gpu_native_context_set_memory_mismatch (function, memory->size, theirs, ours,
                                                        error);

      *peers = TRUE;
    }

  return TRUE;
}

/* Modifies @accesses, so the caller must pass a copy. */
G_ALWAYS_INLINE static inline gboolean
submit_as (const char       *function,
           GpuTimeline      *timeline,
           const GpuLaunch  *launch,
           GpuAccess        *accesses,
           GpuPending       *pending,
           GError          **error)
{
  const guint n = launch->n_accesses;
  const GpuRetain core = { launch->core, &retain_core, 0, NULL };
  const GpuRetain *retain = &core;
  gboolean peers = FALSE;

  if (G_UNLIKELY (launch->has_samplers))
    retain = retain_samplers (launch, g_newa (GpuRetain, launch->call.n_arguments), &core);

  if (G_UNLIKELY (g_atomic_int_get (&_gpu_may_access_peers))
      && !check_peers (function, timeline, accesses, n, &peers, error))
    return FALSE;

  return _gpu_submit_inline (timeline,
                             &(GpuSubmission) { .function = function, .accesses = accesses,
                                                .n_accesses = n, .peers = peers,
                                                .run = run_launch, .operation = launch,
                                                .retain = retain },
                             pending, error);
}

G_ALWAYS_INLINE static inline gboolean
submit_launch (GpuTimeline      *timeline,
               const GpuLaunch  *launch,
               GpuAccess        *accesses,
               GpuPending       *pending,
               GError          **error)
{
  return submit_as ("gpu_stream_launch", timeline, launch, accesses, pending, error);
}

gboolean
_gpu_launch_submit (GpuTimeline      *timeline,
                    const GpuLaunch  *launch,
                    GpuAccess        *accesses,
                    const char       *function,
                    GError          **error)
{
  return submit_as (function, timeline, launch, accesses, NULL, error);
}

/* Adds the accesses of the arguments. Returns FALSE if _gpu_arguments_resolve() must check the
 * memory. */
G_ALWAYS_INLINE static inline gboolean
add_plain_accesses (GpuLaunch             *launch,
                    const GpuArgumentInfo *infos)
{
  launch->n_accesses = 0;

  for (guint i = 0; i < launch->call.n_arguments; i++)
    {
      GpuMemory *memory = launch->memories[i];

      if (memory == NULL)
        continue;

      if (G_UNLIKELY (!_gpu_is_linear (memory))
          || G_UNLIKELY (!_gpu_argument_allows_use (memory, FALSE, &infos[i])))
        return FALSE;

      _gpu_launch_add_access (launch, memory, &infos[i], FALSE);
    }

  return TRUE;
}

/* Fast path for launches with at most FEW_ARGUMENTS arguments, all of them valid. For all other
 * launches, has no effect and returns FALSE. */
G_ALWAYS_INLINE static inline gboolean
launch_few (GpuTimeline  *timeline,
            GpuLaunch    *launch,
            va_list       ap,
            gboolean     *submitted,
            GError      **error)
{
  GpuArgumentNumber numbers[FEW_ARGUMENTS];
  GpuArgumentValue values[FEW_ARGUMENTS];
  GpuMemory *memories[FEW_ARGUMENTS];
  GpuAccess accesses[FEW_ARGUMENTS];
  const GpuArgumentInfo *infos = _gpu_kernel_get_arguments (launch->kernel, NULL);

  launch->call.arguments = values;
  launch->memories = memories;
  launch->accesses = accesses;

  if (G_UNLIKELY (launch->call.n_arguments > FEW_ARGUMENTS)
      || G_UNLIKELY (!_gpu_arguments_read_va (infos, launch->call.n_arguments, ap, numbers,
                                              values, memories))
      || G_UNLIKELY (!add_plain_accesses (launch, infos)))
    return FALSE;

  *submitted = submit_launch (timeline, launch, accesses, NULL, error);

  return TRUE;
}

static gboolean
launch_once (GpuTimeline   *timeline,
             GpuLaunch     *launch,
             GpuArguments  *arguments,
             GError       **error)
{
  guint n = gpu_arguments_get_length (arguments) + _gpu_arguments_get_n_indirect (arguments);
  GpuArgumentValue few_values[FEW_ARGUMENTS];
  GpuMemory *few_memories[FEW_ARGUMENTS];
  GpuAccess few_accesses[FEW_ARGUMENTS];
  g_autofree GpuArgumentValue *values = n > FEW_ARGUMENTS ? g_new (GpuArgumentValue, n) : NULL;
  g_autofree GpuMemory **memories = n > FEW_ARGUMENTS ? g_new (GpuMemory *, n) : NULL;
  g_autofree GpuAccess *accesses = n > FEW_ARGUMENTS ? g_new (GpuAccess, n) : NULL;

  launch->call.n_arguments = gpu_arguments_get_length (arguments);
  launch->n_indirect = n - launch->call.n_arguments;
  launch->call.arguments = values != NULL ? values : few_values;
  launch->memories = memories != NULL ? memories : few_memories;
  launch->accesses = accesses != NULL ? accesses : few_accesses;

  return _gpu_launch_resolve (launch, arguments, error)
         && submit_launch (timeline, launch, launch->accesses, NULL, error);
}

G_GNUC_NO_INLINE static gboolean
launch_collected (GpuTimeline  *timeline,
                  GpuLaunch    *launch,
                  va_list       ap,
                  GError      **error)
{
  g_autoptr (GpuArguments) arguments = NULL;

  if (!_gpu_arguments_check_va (launch->kernel, ap, error))
    return FALSE;

  arguments = _gpu_arguments_new_va (launch->kernel, ap, error);

  return arguments != NULL && launch_once (timeline, launch, arguments, error);
}

/* Makes the checks of a submission for a launch that runs nothing. */
GPU_COLD static gboolean
check_empty (const GpuTimeline  *timeline,
             const GpuLaunch    *launch,
             GError            **error)
{
  gboolean success = _gpu_native_context_check (timeline->context, error);

  for (guint i = 0; i < launch->n_accesses && success; i++)
    success = _gpu_memory_check (launch->accesses[i].memory, "gpu_stream_launch", error);

  return success;
}

/* Copies the accesses, because the submission modifies them. */
G_ALWAYS_INLINE static inline gboolean
launch_prepared (GpuTimeline      *timeline,
                 const GpuLaunch  *launch,
                 GpuPending       *pending,
                 GError          **error)
{
  GpuAccess few_accesses[FEW_ARGUMENTS];
  g_autofree GpuAccess *many = NULL;
  GpuAccess *accesses = few_accesses;

  if (G_UNLIKELY (_gpu_launch_is_empty (launch)))
    return check_empty (timeline, launch, error);

  if (launch->n_accesses > FEW_ARGUMENTS)
    accesses = many = g_new (GpuAccess, launch->n_accesses);

  for (guint i = 0; i < launch->n_accesses; i++)
    accesses[i] = launch->accesses[i];

  return submit_launch (timeline, launch, accesses, pending, error);
}

GPU_COLD static gboolean
fail_kernel (const GpuLaunch        *launch,
             const GpuNativeContext *context,
             GError                **error)
{
  g_autofree char *what = NULL;

  if (launch->core == NULL)
    {
      g_set_error_literal (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                           "gpu_stream_launch: the kernel was never initialised");
      return FALSE;
    }

  what = g_strdup_printf ("the kernel %s", gpu_kernel_get_name (launch->kernel));

  return _gpu_native_context_set_mismatch ("gpu_stream_launch", what, launch->core->context,
                                           context, error);
}

static inline GpuTimeline *
check_context (GpuStream        *stream,
               const GpuLaunch  *launch,
               GError          **error)
{
  GpuTimeline *timeline = _gpu_stream_get_timeline (stream, "gpu_stream_launch", error);

  if (timeline == NULL
      || ((G_UNLIKELY (launch->core == NULL)
           || G_UNLIKELY (launch->core->context != timeline->context))
          && !fail_kernel (launch, timeline->context, error)))
    return NULL;

  return timeline;
}

static inline GpuTimeline *
check_launch (GpuStream        *stream,
              const GpuLaunch  *launch,
              GError          **error)
{
  GpuTimeline *timeline = check_context (stream, launch, error);

  return timeline != NULL
         && (G_LIKELY (_gpu_launch_is_simple (launch))
             || _gpu_launch_check_extents (launch, timeline->device, error)) ? timeline : NULL;
}

/* Checks the extents only if the device of the stream is not the first device of the context:
 * gpu_launch_new() has checked the extents for the first device. */
static inline GpuTimeline *
check_prepared (GpuStream        *stream,
                const GpuLaunch  *launch,
                GError          **error)
{
  GpuTimeline *timeline = check_context (stream, launch, error);

  return timeline != NULL
         && (G_LIKELY (timeline->device == timeline->context->devices[0])
             || _gpu_launch_check_extents (launch, timeline->device, error)) ? timeline : NULL;
}

/* Sets only some fields: to clear the whole structure would take as long as all checks together.
 * The other fields are set when the arguments are read. */
static inline void
launch_init (GpuLaunch        *launch,
             GpuKernel        *kernel,
             const GpuExtent  *grid,
             const GpuExtent  *block)
{
  launch->kernel = kernel;
  launch->core = _gpu_kernel_get_core (kernel);
  launch->call.grid = grid;
  launch->call.block = block;
  launch->call.options = NULL;
  launch->offset = NULL;
  launch->shared_size = 0;
  launch->flags = GPU_LAUNCH_FLAGS_NONE;
  launch->is_prepared = FALSE;
  launch->has_options = FALSE;
  launch->has_samplers = FALSE;
}

/**
 * gpu_stream_launch: (skip)
 * @stream: a #GpuStream
 * @kernel: a kernel of the stream's context
 * @grid: the number of work-items in each dimension
 * @block: (nullable): the size of a work-group, or %NULL to let the driver choose
 * @error: return location for an error
 * @...: the arguments of the kernel, gpu_kernel_get_n_arguments() in number
 *
 * Runs a kernel like gpu_stream_launch_arguments(), with the values of C as the arguments (OpenCL:
 * clSetKernelArg, clEnqueueNDRangeKernel; CUDA: cuLaunchKernel). Does not block.
 *
 * The kind of an argument, as described by the driver or declared with
 * gpu_kernel_declare_arguments(), determines the C type to pass:
 *
 * - memory and images: #GpuMemory, not %NULL (gpu_arguments_add_memory() passes null pointers)
 * - samplers: #GpuSampler
 * - local memory: #gsize, the size in bytes
 * - integers of up to 32 bits: int or #guint
 * - integers of 64 bits: #gint64 or #guint64
 * - half, float and double: #gdouble
 * - any other value: a pointer to its bytes
 *
 * A macro of the same name appends two values to the arguments, so that the function can check the
 * number of arguments. On platforms that pass integers and real numbers in different registers,
 * such as x86-64, the function also detects an integer in place of a real number, or a real number
 * in place of an integer. Any other argument of a wrong C type causes undefined behavior. Callers
 * that cannot use the macro, for example because they call through a function pointer, must call
 * gpu_stream_launch_arguments().
 *
 * Returns: %TRUE, or %FALSE with an error of gpu_stream_launch_arguments(), or with
 *   %GPU_ERROR_INVALID_ARGUMENT if the number of arguments is wrong, if memory is %NULL, or if the
 *   kind of an argument is unknown
 *
 * Since: 0.1
 */
GPU_HOT gboolean
(gpu_stream_launch) (GpuStream        *stream,
                     GpuKernel        *kernel,
                     const GpuExtent  *grid,
                     const GpuExtent  *block,
                     GError          **error,
                     ...)
{
  GpuTimeline *timeline;
  gboolean submitted;
  GpuLaunch launch;
  va_list ap;

  g_return_val_if_fail (GPU_IS_STREAM (stream), FALSE);
  g_return_val_if_fail (GPU_IS_KERNEL (kernel), FALSE);
  g_return_val_if_fail (grid != NULL, FALSE);

  launch_init (&launch, kernel, grid, block);
  timeline = check_launch (stream, &launch, error);

  if (timeline == NULL)
    return FALSE;

  _gpu_kernel_get_arguments (kernel, &launch.call.n_arguments);
  va_start (ap, error);

  if (G_UNLIKELY (!launch_few (timeline, &launch, ap, &submitted, error)))
    submitted = launch_collected (timeline, &launch, ap, error);

  va_end (ap);

  return submitted;
}

/**
 * gpu_stream_launch_arguments:
 * @stream: a #GpuStream
 * @kernel: a kernel of the stream's context
 * @grid: the number of work-items in each dimension
 * @block: (nullable): the size of a work-group, or %NULL to let the driver choose
 * @arguments: the arguments of the kernel; the list may be reused for other launches
 * @error: return location for an error
 *
 * Runs a kernel (OpenCL: clSetKernelArg, clEnqueueNDRangeKernel; CUDA: cuLaunchKernel). @grid
 * counts work-items, not work-groups. Does not block. The stream retains the kernel and the memory
 * until the kernel has completed; values are copied before the function returns.
 *
 * The kernel counts as a writer of all memory except memory with %GPU_MEMORY_FLAGS_READ_ONLY and
 * memory whose argument the driver describes as a pointer to const.
 *
 * Memory with %GPU_MEMORY_FLAGS_READ_ONLY, which includes read-only DLPack tensors and memory with
 * %GPU_HOST_MEMORY_FLAGS_READ_ONLY, is refused for an argument that the driver describes as a
 * pointer to non-const. The library cannot check kernels without a description of their arguments,
 * such as kernels of CUDA binaries, nor pointers stored in other memory. In both cases the program
 * must ensure that the kernel only reads the memory.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if the number of arguments is wrong,
 *   if an argument has a wrong kind or size or is out of range, if the grid or the block is empty
 *   (gpu_launch_new() can allow an empty grid), if the grid is not a multiple of the block on a
 *   device without %GPU_CAPABILITIES_NON_UNIFORM_GROUPS, or if an object belongs to another
 *   context and is not a buffer of a peer (see gpu_context_enable_peer_access()),
 *   %GPU_ERROR_RELEASED, %GPU_ERROR_BUSY if the memory is mapped, %GPU_ERROR_LAUNCH_FAILED, or the
 *   driver's error
 *
 * Since: 0.1
 */
gboolean
gpu_stream_launch_arguments (GpuStream        *stream,
                             GpuKernel        *kernel,
                             const GpuExtent  *grid,
                             const GpuExtent  *block,
                             GpuArguments     *arguments,
                             GError          **error)
{
  GpuTimeline *timeline;
  GpuLaunch launch;

  g_return_val_if_fail (GPU_IS_STREAM (stream), FALSE);
  g_return_val_if_fail (GPU_IS_KERNEL (kernel), FALSE);
  g_return_val_if_fail (grid != NULL, FALSE);
  g_return_val_if_fail (arguments != NULL, FALSE);

  launch_init (&launch, kernel, grid, block);
  timeline = check_launch (stream, &launch, error);

  return (timeline != NULL && launch_once (timeline, &launch, arguments, error))
         || _gpu_launch_name_error ("gpu_stream_launch_arguments", error);
}

/**
 * gpu_stream_launch_prepared:
 * @stream: a #GpuStream
 * @launch: a launch of the stream's context
 * @error: return location for an error
 *
 * Runs a launch that was prepared with gpu_launch_new(). Does not block. The stream retains the
 * kernel and the memory until the kernel has completed, so @launch may be unreferenced at once.
 *
 * Returns: %TRUE, or %FALSE with an error of gpu_stream_launch_arguments()
 *
 * Since: 0.1
 */
GPU_HOT gboolean
gpu_stream_launch_prepared (GpuStream  *stream,
                            GpuLaunch  *launch,
                            GError    **error)
{
  GpuTimeline *timeline;

  g_return_val_if_fail (GPU_IS_STREAM (stream), FALSE);
  g_return_val_if_fail (launch != NULL, FALSE);

  timeline = check_prepared (stream, launch, error);

  return (timeline != NULL && launch_prepared (timeline, launch, NULL, error))
         || _gpu_launch_name_error ("gpu_stream_launch_prepared", error);
}

/* Submits the launch to a profiling stream. On such a stream, the native event of the launch
 * records the start time and the end time. */
static GpuEvent *
launch_profiled (GpuStream    *stream,
                 GpuTimeline  *timeline,
                 GpuLaunch    *launch,
                 GError      **error)
{
  g_autoptr (GpuNativeEvent) timed = NULL;
  GpuPending pending = { NULL };

  if (!launch_prepared (timeline, launch, &pending, error))
    return NULL;

  timed = g_steal_pointer (&pending.event);
  _gpu_timeline_lock (timeline);
  _gpu_timeline_retain_locked (timeline, _gpu_native_event_ref (timed),
                               (GDestroyNotify) _gpu_native_event_unref, 0);
  _gpu_timeline_unlock (timeline);

  return _gpu_event_new_for_point (gpu_stream_get_context (stream), timeline, pending.seq, timed);
}

static GpuEvent *
launch_between_events (GpuStream    *stream,
                       GpuTimeline  *timeline,
                       GpuLaunch    *launch,
                       GError      **error)
{
  g_autoptr (GpuEvent) start = gpu_stream_record (stream, GPU_EVENT_FLAGS_TIMING, error);
  GpuEvent *event;

  if (start == NULL || !launch_prepared (timeline, launch, NULL, error))
    return NULL;

  event = gpu_stream_record (stream, GPU_EVENT_FLAGS_TIMING, error);

  if (event != NULL)
    _gpu_event_set_start (event, _gpu_event_get_timed (start));

  return event;
}

/**
 * gpu_stream_launch_timed:
 * @stream: a #GpuStream
 * @launch: a launch of the stream's context
 * @error: return location for an error
 *
 * Runs a launch like gpu_stream_launch_prepared() and measures its time. Once the returned event
 * has completed, gpu_event_get_duration() returns the time. Does not block.
 *
 * On a stream with %GPU_STREAM_FLAGS_PROFILING, the duration is the time of the kernel alone
 * (OpenCL: clGetEventProfilingInfo). On other streams, the library records an event before the
 * kernel and an event after it (CUDA: cuEventRecord, twice). The duration is the time between the
 * two events, and includes any work that other threads submit between them. The same is true for an
 * empty launch with %GPU_LAUNCH_FLAGS_ALLOW_EMPTY on any stream.
 *
 * Returns: (transfer full): the event, or %NULL with %GPU_ERROR_NOT_SUPPORTED on OpenCL without
 *   %GPU_STREAM_FLAGS_PROFILING, or with an error of gpu_stream_launch_arguments()
 *
 * Since: 0.1
 */
GpuEvent *
gpu_stream_launch_timed (GpuStream  *stream,
                         GpuLaunch  *launch,
                         GError    **error)
{
  GpuTimeline *timeline;
  GpuEvent *event;

  g_return_val_if_fail (GPU_IS_STREAM (stream), NULL);
  g_return_val_if_fail (launch != NULL, NULL);

  timeline = check_prepared (stream, launch, error);

  if (timeline == NULL)
    event = NULL;
  else if ((timeline->flags & GPU_STREAM_FLAGS_PROFILING) != 0 && !_gpu_launch_is_empty (launch))
    event = launch_profiled (stream, timeline, launch, error);
  else
    event = launch_between_events (stream, timeline, launch, error);

  if (event == NULL)
    _gpu_launch_name_error ("gpu_stream_launch_timed", error);

  return event;
}
