/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copies between arrays by a kernel instead of one command for each region. */
#include "config.h"

#include "gpumem/array/gpu-array-kernel-private.h"
#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/program/gpu-launch-private.h"

/* If a copy needs at most this many commands, they take less time than building a kernel, and
 * little more time than a launch. */
#define FEW_REGIONS 16

/* Drivers copy regions of at least this many bytes faster than a kernel does, even if each region
 * is a command. */
#define LARGE_REGION (1 << 20)

/* A driver needs as much time for a row of fewer than NARROW_ROW bytes as for a row of NARROW_ROW
 * bytes. In the time of the shortest kernel, a driver copies about FEW_ROWS such rows. */
#define NARROW_ROW 128
#define FEW_ROWS   4096

/* On a CPU device, the driver copies regions of more than this many bytes faster than work-items
 * do. */
#define FEW_BYTES 256

/* The number of work-items of a launch is a multiple of this number, even if fewer units remain. */
#define GROUP 256

/* A unit is the number of bytes that a work-item copies: 1, 2, 4 or 8. */
#define N_UNITS 4
#define MAX_UNIT 8

/* Written in the portable dialect of GpuProgram. Walk has the layout of GpuArrayWalk. Copies of few
 * units use kernels with 32-bit indices, because 64-bit divisions take many times longer on
 * GPUs. */
static const char source[] =
  "typedef struct\n"
  "{\n"
  "  ulong n_units;\n"
  "  ulong counts[" G_STRINGIFY (GPU_ARRAY_WALK_MAX_AXES) "];\n"
  "  long to_steps[" G_STRINGIFY (GPU_ARRAY_WALK_MAX_AXES) "];\n"
  "  long from_steps[" G_STRINGIFY (GPU_ARRAY_WALK_MAX_AXES) "];\n"
  "  long to;\n"
  "  long from;\n"
  "  ulong n_axes;\n"
  "} Walk;\n"
  "#define COPY(name, type, number) \\\n"
  "__kernel void \\\n"
  "name (__global type *to, __global const type *from, Walk walk) \\\n"
  "{ \\\n"
  "  number left = (number) get_global_id (0); \\\n"
  "  if (left < (number) walk.n_units) \\\n"
  "    { \\\n"
  "      long at = walk.to, origin = walk.from; \\\n"
  "      for (uint i = 0; i < (uint) walk.n_axes; i++) \\\n"
  "        { \\\n"
  "          number rest = left / (number) walk.counts[i]; \\\n"
  "          long index = (long) (left - rest * (number) walk.counts[i]); \\\n"
  "          at += index * walk.to_steps[i]; \\\n"
  "          origin += index * walk.from_steps[i]; \\\n"
  "          left = rest; \\\n"
  "        } \\\n"
  "      to[at] = from[origin]; \\\n"
  "    } \\\n"
  "}\n"
  "COPY (gpumem_copy_1, uchar, uint)\n"
  "COPY (gpumem_copy_2, ushort, uint)\n"
  "COPY (gpumem_copy_4, uint, uint)\n"
  "COPY (gpumem_copy_8, ulong, uint)\n"
  "COPY (gpumem_copy_many_1, uchar, ulong)\n"
  "COPY (gpumem_copy_many_2, ushort, ulong)\n"
  "COPY (gpumem_copy_many_4, uint, ulong)\n"
  "COPY (gpumem_copy_many_8, ulong, ulong)\n";

/* The kernels with 32-bit indices, and then those with 64-bit indices. */
static const char *const names[2 * N_UNITS] =
{
  "gpumem_copy_1", "gpumem_copy_2", "gpumem_copy_4", "gpumem_copy_8",
  "gpumem_copy_many_1", "gpumem_copy_many_2", "gpumem_copy_many_4", "gpumem_copy_many_8"
};

typedef struct
{
  GMutex         lock;              /* guards the members below */
  gboolean       is_built;          /* also TRUE if a build failed, except for lack of memory */
  GpuKernelCore *cores[2 * N_UNITS]; /* all NULL if the build failed */
} GpuArrayKernels;

/* --- kernels ---------------------------------------------------------------- */

static void
forget_cores (GpuArrayKernels *kernels)
{
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    g_clear_pointer (&kernels->cores[i], _gpu_kernel_core_unref);
}

static void
kernels_free (gpointer data)
{
  GpuArrayKernels *kernels = data;

  forget_cores (kernels);
  g_mutex_clear (&kernels->lock);
  g_free (kernels);
}

/* Returns the kernels of @context, which the context owns. */
static GpuArrayKernels *
get_kernels (GpuContext *context)
{
  const GQuark quark = g_quark_from_static_string ("gpu-array-kernels");
  GpuArrayKernels *kernels = g_object_get_qdata (G_OBJECT (context), quark);

  if (kernels != NULL)
    return kernels;

  kernels = g_new0 (GpuArrayKernels, 1);
  g_mutex_init (&kernels->lock);

  if (g_object_replace_qdata (G_OBJECT (context), quark, NULL, kernels, kernels_free, NULL))
    return kernels;

  /* Another thread has already stored its kernels. */
  kernels_free (kernels);

  return g_object_get_qdata (G_OBJECT (context), quark);
}

static gboolean
build (GpuArrayKernels   *kernels,
       GpuNativeContext  *context,
       GError           **error)
{
  const GpuProgramInputs inputs = { .source = source, .options = "" };
  gboolean from_cache;
  g_autoptr (GpuProgramCore) program = _gpu_program_core_build (context, &inputs, &from_cache,
                                                                error);

  if (program == NULL)
    return FALSE;

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      kernels->cores[i] = _gpu_kernel_core_new (program, names[i], error);

      if (kernels->cores[i] == NULL)
        return FALSE;
    }

  return TRUE;
}

/* Returns NULL if the kernels could not be built. The caller then submits a command for each
 * region. These commands report the error if the device is lost. */
static GpuKernelCore *
get_core (GpuArrayKernels          *kernels,
          GpuNativeContext         *context,
          const GpuArrayKernelCopy *copy)
{
  gboolean is_many = copy->walk.n_units > G_MAXUINT32 - GROUP;
  g_autoptr (GError) error = NULL;
  GpuKernelCore *core;

  g_mutex_lock (&kernels->lock);

  if (!kernels->is_built && !build (kernels, context, &error))
    {
      forget_cores (kernels);
      _gpu_debug_print (GPU_DEBUG_BUILD, "no kernels for copies of arrays: %s", error->message);
    }

  /* After lack of memory, let the next copy try again: memory may have been freed by then. */
  kernels->is_built = !g_error_matches (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY)
                      && !g_error_matches (error, GPU_ERROR, GPU_ERROR_OUT_OF_HOST_MEMORY);
  core = kernels->cores[g_bit_nth_lsf (copy->unit, -1) + (is_many ? N_UNITS : 0)];
  g_mutex_unlock (&kernels->lock);

  return core;
}

/* --- walks ------------------------------------------------------------------ */

static gboolean
add_axis (GpuArrayWalk *walk,
          gsize         count,
          gint64        to_step,
          gint64        from_step)
{
  guint n = (guint) walk->n_axes;

  if (count == 1)
    return TRUE;

  if (n == GPU_ARRAY_WALK_MAX_AXES)
    return FALSE;

  walk->counts[n] = count;
  walk->to_steps[n] = to_step;
  walk->from_steps[n] = from_step;
  walk->n_units *= count;
  walk->n_axes++;

  return TRUE;
}

/* Returns the size in bytes of the items that the kernel copies: the largest power of two up to
 * MAX_UNIT that divides the width of a row and all addresses, offsets and strides. */
static gsize
get_unit (const GpuArrayPlan *plan,
          guint64             addresses)
{
  const GpuArrayPlanSide *to = &plan->to;
  const GpuArrayPlanSide *from = &plan->from;
  guint64 bits = MAX_UNIT | addresses | plan->extent.width | to->offset | to->row_pitch
                 | to->slice_pitch | from->offset | from->row_pitch | from->slice_pitch;

  for (guint i = 0; i < plan->n_loops; i++)
    bits |= (guint64) plan->to_steps[i] | (guint64) plan->from_steps[i];

  return bits & -bits;
}

static void
set_walk (GpuArrayKernelCopy *copy,
          gint64              unit)
{
  const GpuArrayPlan *plan = &copy->plan;
  GpuArrayWalk *walk = &copy->walk;
  guint n = 0;

  *walk = (GpuArrayWalk) { .n_units = 1 };
  add_axis (walk, plan->extent.width / (gsize) unit, 1, 1);
  add_axis (walk, plan->extent.height, (gint64) plan->to.row_pitch / unit,
            (gint64) plan->from.row_pitch / unit);
  add_axis (walk, plan->extent.depth, (gint64) plan->to.slice_pitch / unit,
            (gint64) plan->from.slice_pitch / unit);

  while (n < plan->n_loops
         && add_axis (walk, plan->counts[n], plan->to_steps[n] / unit,
                      plan->from_steps[n] / unit))
    n++;

  _gpu_array_plan_drop_loops (&copy->plan, n);
}

/* --- copies ----------------------------------------------------------------- */

/* Returns whether a kernel may use the memory. A kernel gets all of the memory as an argument, so
 * the function rejects memory if any range of the memory is mapped. Merges the known addresses of
 * the memory into @addresses by bitwise OR. */
static gboolean
check_memory (GpuMemory              *memory,
              const GpuNativeContext *context,
              GpuMemoryFlags          refused,
              guint64                *addresses)
{
  GpuStorage *storage = _gpu_memory_acquire (memory, "", NULL);
  gboolean usable;

  if (storage == NULL)
    return FALSE;

  _gpu_storage_lock (storage->root);
  usable = storage->context == context && !storage->buffer->is_host_only
           && ((memory->flags | storage->root->flags) & refused) == 0
           && (storage->root->mapped == NULL || storage->root->mapped->len == 0);
  _gpu_storage_unlock (storage->root);

  if (usable)
    *addresses |= (guintptr) storage->buffer->host
                  | context->backend->memory->get_address (storage->buffer);

  _gpu_storage_unuse (storage);

  return usable;
}

/* Returns whether a kernel is faster than one command for each region. */
static gboolean
suits (const GpuArrayPlan    *plan,
       const GpuNativeDevice *device)
{
  const gsize width = plan->extent.width;
  const gsize n_rows = plan->extent.height * plan->extent.depth;

  if (device->type == GPU_DEVICE_TYPE_HOST || device->type == GPU_DEVICE_TYPE_CPU)
    return plan->n_regions > FEW_REGIONS && width * n_rows <= FEW_BYTES;

  return (width < NARROW_ROW && n_rows > FEW_ROWS)
         || (plan->n_regions > FEW_REGIONS && width * n_rows < LARGE_REGION);
}

gboolean
_gpu_array_kernel_prepare (GpuArrayKernelCopy *copy,
                           GpuTimeline        *timeline,
                           GpuArray           *to,
                           GpuArray           *from,
                           const GpuArrayPlan *plan)
{
  GpuNativeContext *context = timeline->context;
  guint64 addresses = 0;

  if (!suits (plan, timeline->device)
      || !check_memory (to->memory, context, GPU_MEMORY_FLAGS_READ_ONLY, &addresses)
      || !check_memory (from->memory, context, GPU_MEMORY_FLAGS_WRITE_ONLY, &addresses))
    return FALSE;

  copy->plan = *plan;
  copy->unit = get_unit (plan, addresses);
  set_walk (copy, (gint64) copy->unit);

  copy->core = get_core (get_kernels (to->context), context, copy);

  return copy->core != NULL;
}

typedef struct
{
  const GpuArrayKernelCopy *copy;
  GpuTimeline              *timeline;
  GpuAccess                 accesses[2];
  const char               *function;
} Run;

static gboolean
launch (const GpuArrayPlan  *plan G_GNUC_UNUSED,
        gsize                to,
        gsize                from,
        gpointer             data,
        GError             **error)
{
  const Run *run = data;
  const gint64 unit = (gint64) run->copy->unit;
  GpuArrayWalk walk = run->copy->walk;
  GpuAccess accesses[] = { run->accesses[0], run->accesses[1] };
  GpuMemory *memories[] = { accesses[0].memory, accesses[1].memory, NULL };
  const GpuExtent grid = { ((gsize) walk.n_units + GROUP - 1) / GROUP * GROUP, 1, 1 };
  GpuArgumentValue values[] = {
    { .kind = GPU_ARGUMENT_KIND_MEMORY },
    { .kind = GPU_ARGUMENT_KIND_MEMORY },
    { .kind = GPU_ARGUMENT_KIND_VALUE, .data = &walk, .size = sizeof walk }
  };
  const GpuLaunch launch = { .core = run->copy->core, .grid = &grid, .n_arguments = 3,
                             .values = values, .memories = memories, .n_accesses = 2 };

  walk.to = (gint64) to / unit;
  walk.from = (gint64) from / unit;

  return _gpu_launch_submit (run->timeline, &launch, accesses, run->function, error);
}

GpuAccess
_gpu_array_get_access (GpuArray *array,
                       gboolean  write)
{
  gsize begin;
  gsize end;

  _gpu_array_layout_get_range (&array->layout, &begin, &end);

  return (GpuAccess) { array->memory, write, begin, end - begin, NULL };
}

gboolean
_gpu_array_kernel_run (const GpuArrayKernelCopy  *copy,
                       GpuTimeline               *timeline,
                       GpuArray                  *to,
                       GpuArray                  *from,
                       const char                *function,
                       GError                   **error)
{
  Run run = { copy, timeline,
              { _gpu_array_get_access (to, TRUE), _gpu_array_get_access (from, FALSE) },
              function };

  return _gpu_array_plan_run (&copy->plan, launch, &run, error);
}
