/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Points of streams, and operations. */
#include "config.h"

#include <time.h>

#include "driver.h"

pthread_cond_t point_done = PTHREAD_COND_INITIALIZER;

Point *
point_ref (Point *point)
{
  point->refs++;
  return point;
}

void
point_unref (Point *point)
{
  if (--point->refs > 0)
    return;
  if (point->before != NULL)
    g_hash_table_unref (point->before);
  g_free (point);
}

void
point_finish (Point *point)
{
  struct timespec now;

  clock_gettime (CLOCK_MONOTONIC, &now);
  point->time = now.tv_sec * G_GINT64_CONSTANT (1000000000) + now.tv_nsec;
  point->done = TRUE;
  pthread_cond_broadcast (&point_done);
}

/* NULL counts as complete. */
gboolean
point_over (Point *point)
{
  return point == NULL || point->done;
}

void
point_wait (Point *point)
{
  if (point == NULL)
    return;
  point_ref (point);
  while (!point->done)
    pthread_cond_wait (&point_done, &driver_lock);
  point_unref (point);
}

Op *
op_new (OpFunc         run,
        gpointer       data,
        GDestroyNotify free_data)
{
  Op *op = g_new0 (Op, 1);

  op->run = run;
  op->data = data;
  op->free = free_data;
  op->waits = g_ptr_array_new_with_free_func ((GDestroyNotify) point_unref);
  op->memories = g_ptr_array_new_with_free_func ((GDestroyNotify) memory_unref);
  op->point = g_new0 (Point, 1);
  op->point->refs = 1;
  op->point->work = run != NULL;
  return op;
}

void
op_free (Op *op)
{
  if (op->free != NULL)
    op->free (op->data);
  g_ptr_array_unref (op->waits);
  g_ptr_array_unref (op->memories);
  point_unref (op->point);
  g_free (op);
}

void
op_wait (Op    *op,
         Point *point)
{
  if (!point_over (point))
    g_ptr_array_add (op->waits, point_ref (point));
}

void
points_forget (GPtrArray *points)
{
  for (guint i = points->len; i > 0; i--)
    if (((Point *) points->pdata[i - 1])->done)
      g_ptr_array_remove_index_fast (points, i - 1);
}

/* Checks that @stream is ordered after the allocation of @memory, and retains @memory until @op is
 * done. */
CUresult
op_use (Op     *op,
        Stream *stream,
        Memory *memory)
{
  if (memory->made != NULL && !stream_is_after (stream, memory->made))
    return misuse (CUDA_ERROR_INVALID_VALUE, "%s 0x%" G_GINT64_MODIFIER
                   "x, from call %u (%s): this stream does not wait for its allocation",
                   memory_kinds[memory->kind], memory->address, memory->number,
                   call_names[memory->function]);
  if (memory->kind == MEMORY_MANAGED)
    TRY (managed_check (memory, stream));
  op_hold (op, memory);
  return CUDA_SUCCESS;
}

void
op_hold (Op     *op,
         Memory *memory)
{
  guint n = memory->uses->len;

  if (n > 0 && g_ptr_array_index (memory->uses, n - 1) == op->point)
    return;                         /* already held by this operation */
  if (n >= 16)
    points_forget (memory->uses);
  g_ptr_array_add (memory->uses, point_ref (op->point));
  g_ptr_array_add (op->memories, memory_ref (memory));
}

gboolean
memory_is_busy (Memory *memory)
{
  points_forget (memory->uses);
  return memory->uses->len > 0;
}

/* Called before memory is freed. If pending operations use the memory, reports a misuse, and waits
 * for them as the driver does. If the context is lost (@error is its error), this is not a misuse:
 * the pending operations complete without running. */
void
memory_wait (Memory   *memory,
             CUresult  error)
{
  if (!memory_is_busy (memory))
    return;
  if (error == CUDA_SUCCESS)
    misuse (CUDA_SUCCESS, "%u pending operations use the %s from call %u (%s)",
            memory->uses->len, memory_kinds[memory->kind], memory->number,
            call_names[memory->function]);
  while (memory_is_busy (memory))
    point_wait (memory->uses->pdata[0]);
}
