/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <stdlib.h>

#include "gpumem/host/executor/gpu-host-executor.h"

/* Below so many work-items another thread costs more than it brings. */
#define SHARE_THRESHOLD 2048

/* Chunks of groups for each thread: enough that none waits long for the last. */
#define CHUNKS_PER_THREAD 8

/* What one thread needs for a launch. */
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
                   "host: posix_memalign: no %" G_GSIZE_FORMAT " bytes of local memory",
                   launch->scratch_size);
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
    return _gpu_host_fibers_run (item, launch->entry->run, worker->arguments, launch->stack_size,
                                 error);

  launch->entry->run (worker->arguments, item);

  return TRUE;
}

/* Takes groups until none is left; on any number of threads at once. */
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
      item.block[i] = launch->block[i];
      item.n_groups[i] = launch->n_groups[i];
    }

  if (!worker_init (&worker, launch, &error))
    {
      launch_fail (launch, error);
      return;
    }

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
