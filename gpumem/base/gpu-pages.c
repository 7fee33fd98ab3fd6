/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gpumem/base/gpu-error.h"
#include "gpumem/base/gpu-memory-limits-private.h"
#include "gpumem/base/gpu-numa-private.h"
#include "gpumem/base/gpu-pages-private.h"
#include "gpumem/base/gpu-workers-private.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* A thread commits a part at a time. All threads end at about the same time if the parts are small,
 * but a thread takes some time to start. */
#define MIN_PART_SIZE ((gsize) 4 * 1024 * 1024)
#define MAX_PART_SIZE ((gsize) 64 * 1024 * 1024)

/* More threads do not make it faster: the memory is then the limit. */
#define MAX_THREADS 16

/* Shared by the threads that commit memory. */
typedef struct
{
  gatomicrefcount  refs;
  guint8          *data;
  gsize            size;
  gsize            part_size;
  guint            n_parts;
  gint             next;            /* atomic; the next part */

  GMutex           lock;            /* guards the members below */
  GCond            cond;
  guint            n_done;          /* parts that have ended, or that no thread will take */
  int              code;            /* errno of the first failure, or 0 */
} Commit;

static void
commit_unref (Commit *commit)
{
  if (!g_atomic_ref_count_dec (&commit->refs))
    return;

  g_mutex_clear (&commit->lock);
  g_cond_clear (&commit->cond);
  g_free (commit);
}

static void
touch (guint8 *data,
       gsize   size)
{
  gsize page = (gsize) sysconf (_SC_PAGESIZE);

  for (gsize i = 0; i < size; i += page)
    *(volatile guint8 *) (data + i) = 0;

  *(volatile guint8 *) (data + size - 1) = 0;
}

/* Returns 0 or an errno. If the machine has no memory, madvise() returns an error on Linux 5.14 or
 * later. On older versions of Linux, the write in touch() ends the process. */
static int
populate (guint8 *data,
          gsize   size)
{
  while (madvise (data, size, MADV_POPULATE_WRITE) != 0)
    {
      if (errno == EINVAL)
        {
          touch (data, size);
          return 0;
        }

      if (errno != EAGAIN && errno != EINTR)
        return errno;
    }

  return 0;
}

/* Compares the free memory with all that is left to commit, because other processes may have
 * allocated memory meanwhile. */
static int
commit_part (Commit  *commit,
             gsize    offset,
             guint64  free_size)
{
  gsize rest = commit->size - offset;

  return rest <= free_size ? populate (commit->data + offset, MIN (rest, commit->part_size))
                           : ENOMEM;
}

/* Takes the next part after reading the free memory. Otherwise, other threads could meanwhile
 * commit later parts, and memory that fits would be refused. */
static gboolean
take_part (Commit  *commit,
           guint   *part,
           guint64 *free_size)
{
  GpuMemoryLimits limits;

  if ((guint) g_atomic_int_get (&commit->next) >= commit->n_parts)
    return FALSE;

  _gpu_memory_limits_read ("", &limits);
  *free_size = limits.free_size;
  *part = (guint) g_atomic_int_add (&commit->next, 1);

  return *part < commit->n_parts;
}

/* Ends a part. After a failure, no thread takes a further part: memory far beyond that of the host
 * has so many parts that reading the limits for each would take minutes. */
static void
end_part (Commit *commit,
          int     code)
{
  guint next = code == 0 ? commit->n_parts
                         : (guint) g_atomic_int_exchange (&commit->next, (gint) commit->n_parts);

  g_mutex_lock (&commit->lock);
  commit->n_done += 1 + commit->n_parts - MIN (next, commit->n_parts);
  if (commit->code == 0)
    commit->code = code;
  g_cond_signal (&commit->cond);
  g_mutex_unlock (&commit->lock);
}

static void
commit_parts (Commit *commit)
{
  guint64 free_size;
  guint part;

  while (take_part (commit, &part, &free_size))
    end_part (commit, commit_part (commit, part * commit->part_size, free_size));
}

static void
help (gpointer data)
{
  commit_parts (data);
  commit_unref (data);
}

/* Starts helpers. If a thread cannot be started, fewer threads commit the memory. */
static void
start_helpers (Commit *commit,
               guint   n_helpers)
{
  static GpuWorkers workers = { .name = "gpumem-pages" };

  for (guint i = 0; i < n_helpers; i++)
    {
      g_atomic_ref_count_inc (&commit->refs);
      if (_gpu_workers_push (&workers, MAX_THREADS - 1, help, commit, NULL))
        continue;

      commit_unref (commit);
      return;
    }
}

int
_gpu_pages_commit (guint8 *data,
                   gsize   size)
{
  guint n_threads = MIN (g_get_num_processors (), MAX_THREADS);
  Commit *commit = g_new0 (Commit, 1);
  int code;

  g_atomic_ref_count_init (&commit->refs);
  g_mutex_init (&commit->lock);
  g_cond_init (&commit->cond);
  commit->data = data;
  commit->size = size;
  commit->part_size = CLAMP (size / n_threads / MIN_PART_SIZE * MIN_PART_SIZE, MIN_PART_SIZE,
                             MAX_PART_SIZE);
  commit->n_parts = (guint) ((size - 1) / commit->part_size + 1);

  start_helpers (commit, MIN (n_threads, commit->n_parts) - 1);
  commit_parts (commit);

  g_mutex_lock (&commit->lock);
  while (commit->n_done < commit->n_parts)
    g_cond_wait (&commit->cond, &commit->lock);
  code = commit->code;
  g_mutex_unlock (&commit->lock);
  commit_unref (commit);

  return code;
}

static gsize
round_up (gsize size)
{
  gsize page = (gsize) sysconf (_SC_PAGESIZE);

  return (size + page - 1) / page * page;
}

/* Maps addresses at a multiple of GPU_PAGES_MIN_SIZE, so that huge pages fit. Returns NULL and sets
 * errno on failure. */
static guint8 *
map_aligned (gsize size)
{
  gsize reserved = size + GPU_PAGES_MIN_SIZE;
  guint8 *start = mmap (NULL, reserved, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  gsize lead;

  if ((gpointer) start == MAP_FAILED)
    return NULL;

  lead = -(guintptr) start % GPU_PAGES_MIN_SIZE;

  if (lead > 0)
    munmap (start, lead);
  munmap (start + lead + size, GPU_PAGES_MIN_SIZE - lead);

  return start + lead;
}

static void
fail (const char  *function,
      int          code,
      gsize        size,
      GError     **error)
{
  GpuMemoryLimits limits;

  _gpu_memory_limits_read ("", &limits);
  g_set_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_HOST_MEMORY,
               "%s: %s: %" G_GSIZE_FORMAT " bytes of page-locked memory requested, %"
               G_GUINT64_FORMAT " free of %" G_GUINT64_FORMAT " on the host: request less, or free "
               "other memory of the host first", function, g_strerror (code), size,
               limits.free_size, limits.total_size);
}

gpointer
_gpu_pages_map (gsize    size,
                int     *node,
                GError **error)
{
  gsize mapped = round_up (size);
  guint8 *data = size <= G_MAXSSIZE - GPU_PAGES_MIN_SIZE ? map_aligned (mapped) : NULL;
  int code;

  if (data == NULL)
    {
      fail ("mmap", ENOMEM, size, error);
      return NULL;
    }

  /* If a process forks, the kernel copies the locked pages of its mappings. */
  madvise (data, mapped, MADV_DONTFORK);
  madvise (data, mapped, MADV_HUGEPAGE);
  *node = _gpu_numa_bind (data, mapped, *node);
  code = _gpu_pages_commit (data, mapped);

  if (code == 0)
    return data;

  _gpu_pages_unmap (data, size);
  fail ("madvise", code, size, error);

  return NULL;
}

void
_gpu_pages_unmap (gpointer data,
                  gsize    size)
{
  munmap (data, round_up (size));
}
