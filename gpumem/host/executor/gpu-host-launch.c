/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <errno.h>
#include <stdlib.h>

#include "gpumem/host/executor/gpu-host-executor.h"
#include "gpumem/host/executor/gpu-host-fiber.h"

/* With fewer work-items than this, starting other threads takes longer than it saves. */
#define SHARE_THRESHOLD 2048

/* A launch divides its groups into this many chunks for each thread. Small chunks let all threads
 * finish at almost the same time. */
#define CHUNKS_PER_THREAD 8

/* The arguments of one thread of a launch. */
typedef struct
{
  void     **arguments;
  gpointer  *locals;
  gpointer   scratch;
} GpuHostWorker;

static void
launch_fail (GpuHostLaunch *launch,
             GError        *error)
{
  if (g_atomic_int_compare_and_exchange (&launch->failed, FALSE, TRUE))
    launch->error = error;
  else
    g_error_free (error);
}

static gboolean
worker_init (GpuHostWorker *worker,
             GpuHostLaunch *launch,
             GError       **error)
{
  worker->arguments = launch->arguments;
  worker->locals = NULL;
  worker->scratch = NULL;

  if (launch->scratch_size == 0)
    return TRUE;

  if (posix_memalign (&worker->scratch, GPU_HOST_BASE_ALIGNMENT, launch->scratch_size) != 0)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_HOST_MEMORY,
                   "host: posix_memalign: cannot allocate %" G_GSIZE_FORMAT
                   " bytes of local memory", launch->scratch_size);
      return FALSE;
    }

  worker->locals = g_new0 (gpointer, launch->n_arguments);
  worker->arguments = g_memdup2 (launch->arguments, launch->n_arguments * sizeof (void *));

  for (guint i = 0; i < launch->n_arguments; i++)
    {
      if (launch->kinds[i] == GPU_ARGUMENT_KIND_LOCAL)
        {
          worker->locals[i] = (guint8 *) worker->scratch + launch->offsets[i];
          worker->arguments[i] = &worker->locals[i];
        }
    }

  return TRUE;
}

static void
worker_clear (GpuHostWorker *worker)
{
  if (worker->scratch == NULL)
    return;

  g_free (worker->arguments);
  g_free (worker->locals);
  free (worker->scratch);
}

/* --- groups with barriers --------------------------------------------------------------------- */

typedef struct
{
  GpuHostItem   item;           /* first member: item_barrier() casts its address */
  GpuHostFiber *fiber;
} GpuHostFiberItem;

/* The group that a thread runs. */
typedef struct
{
  const GpuHostItem  *group;
  GpuHostItemFunc     run;
  void              **arguments;
} GpuHostGroup;

static void
item_barrier (GpuHostItem *item)
{
  _gpu_host_fiber_wait (((GpuHostFiberItem *) item)->fiber);
}

/* Uses 32-bit numbers: a group has at most GPU_HOST_MAX_WORK_GROUP_SIZE items. Most groups have one
 * dimension and need no division. */
static void
run_item (GpuHostFiber *fiber,
          gsize         index,
          gpointer      data)
{
  const GpuHostGroup *group = data;
  GpuHostFiberItem self = { *group->group, fiber };
  guint width = (guint) self.item.end[0];
  guint height = (guint) self.item.end[1];
  guint place[3] = { (guint) index, 0, 0 };

  if (place[0] >= width)
    {
      place[1] = place[0] / width % height;
      place[2] = place[0] / width / height;
      place[0] %= width;
    }

  self.item.barrier = item_barrier;

  for (guint i = 0; i < G_N_ELEMENTS (place); i++)
    {
      self.item.begin[i] = place[i];
      self.item.end[i] = place[i] + 1;
    }

  group->run (group->arguments, &self.item);
}

static void
fibers_free (gpointer data)
{
  _gpu_host_fibers_free (data);
}

static GPrivate thread_fibers = G_PRIVATE_INIT (fibers_free);

/* Runs each item on its own stack. In a correct program, all items wait at the same barrier, or
 * all of them complete. */
static gboolean
run_fibers (const GpuHostItem  *item,
            GpuHostItemFunc     run,
            void              **arguments,
            gsize               stack_size,
            GError            **error)
{
  GpuHostGroup group = { item, run, arguments };
  gsize n_items = item->end[0] * item->end[1] * item->end[2];
  GpuHostFibers *fibers = g_private_get (&thread_fibers);

  if (fibers == NULL)
    {
      fibers = _gpu_host_fibers_new ();
      g_private_set (&thread_fibers, fibers);
    }

  /* Reserve all stacks before the first item begins: a group that fails later has already changed
   * memory. */
  if (_gpu_host_fibers_reserve (fibers, n_items, stack_size))
    return _gpu_host_fibers_run (fibers, n_items, run_item, NULL, &group)
           == GPU_HOST_FIBERS_COMPLETE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_HOST_MEMORY,
               "host: mmap: %s (%d): cannot allocate a stack of %" G_GSIZE_FORMAT
               " bytes for a work-item", g_strerror (errno), errno, stack_size);

  return FALSE;
}

/* --- groups ----------------------------------------------------------------------------------- */

static gboolean
run_group (GpuHostLaunch *launch,
           GpuHostWorker *worker,
           GpuHostItem   *item,
           gsize          index,
           GError       **error)
{
  const gsize *n_groups = launch->n_groups;
  gsize n_items = 1;

  item->group[0] = index % n_groups[0];
  item->group[1] = index / n_groups[0] % n_groups[1];
  item->group[2] = index / n_groups[0] / n_groups[1];

  for (guint i = 0; i < 3; i++)
    {
      gsize first = item->group[i] * launch->block[i];

      item->local_size[i] = MIN (launch->block[i], launch->grid[i] - first);
      item->end[i] = item->local_size[i];
      n_items *= item->local_size[i];
    }

  if (launch->entry->has_barrier && n_items > 1)
    return run_fibers (item, launch->entry->run, worker->arguments, launch->stack_size, error);

  launch->entry->run (worker->arguments, item);

  return TRUE;
}

/* Runs groups until none is left. Several threads run this function at once. */
static void
run_groups (gpointer data)
{
  GpuHostLaunch *launch = data;
  GpuHostItem item = { .work_dim = launch->work_dim };
  GpuHostWorker worker;
  GError *error = NULL;
  gsize first;

  for (guint i = 0; i < 3; i++)
    {
      item.global_size[i] = launch->grid[i];
      item.offset[i] = launch->offset[i];
      item.block[i] = launch->block[i];
      item.n_groups[i] = launch->n_groups[i];
    }

  if (!worker_init (&worker, launch, &error))
    {
      launch_fail (launch, error);
      return;
    }

  item.scratch = worker.scratch;
  item.scratch_size = launch->scratch_size;

  while (error == NULL && !g_atomic_int_get (&launch->failed)
         && (first = __atomic_fetch_add (&launch->next, launch->chunk, __ATOMIC_RELAXED))
            < launch->n_groups_total)
    {
      gsize last = MIN (first + launch->chunk, launch->n_groups_total);

      for (gsize i = first; i < last && error == NULL; i++)
        run_group (launch, &worker, &item, i, &error);
    }

  if (error != NULL)
    launch_fail (launch, error);

  worker_clear (&worker);
}

gboolean
_gpu_host_launch_run (GpuHostOperation  *operation,
                      GError           **error)
{
  GpuHostLaunch *launch = (GpuHostLaunch *) operation;
  gsize n_chunks = (gsize) _gpu_host_pool_get_n_threads () * CHUNKS_PER_THREAD;
  gsize n_items = launch->block[0] * launch->block[1] * launch->block[2];

  launch->chunk = MAX (launch->n_groups_total / n_chunks, 1);

  if (launch->n_groups_total > 1
      && launch->n_groups_total >= SHARE_THRESHOLD / n_items)
    _gpu_host_pool_share (run_groups, launch);
  else
    run_groups (launch);

  if (!launch->failed)
    return TRUE;

  g_propagate_error (error, launch->error);

  return FALSE;
}
