/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Three groups of threads. Copying threads, by default at most GPUMEM_COPY_THREADS, copy between
 * host memory and slots. As many other threads read and write files, so that a slow file does not
 * delay copies of memory. Driving threads wait for the device: one thread for each copy that its
 * caller does not drive. */
#include "config.h"

#include "gpumem/base/gpu-workers-private.h"
#include "gpumem/staging/gpu-transfer-private.h"

#define DEFAULT_MAX_THREADS 8
#define MAX_THREADS 256

static GMutex lock;
static guint  n_threads;                /* guarded by `lock`; 0 before the first use */
static gint   n_threads_known;          /* atomic; a copy of n_threads, to be read without `lock` */

static guint
get_default (void)
{
  const char *text = g_getenv ("GPUMEM_COPY_THREADS");
  guint64 value;

  if (text == NULL)
    return MIN (g_get_num_processors (), DEFAULT_MAX_THREADS);

  if (g_ascii_string_to_unsigned (text, 10, 1, MAX_THREADS, &value, NULL))
    return value;

  g_warning ("GPUMEM_COPY_THREADS=%s is not a number from 1 to %d", text, MAX_THREADS);

  return MIN (g_get_num_processors (), DEFAULT_MAX_THREADS);
}

guint
_gpu_transfer_get_n_threads (void)
{
  guint n = (guint) g_atomic_int_get (&n_threads_known);

  if (n != 0)
    return n;

  g_mutex_lock (&lock);
  if (n_threads == 0)
    n_threads = get_default ();
  n = n_threads;
  g_atomic_int_set (&n_threads_known, (gint) n);
  g_mutex_unlock (&lock);

  return n;
}

/* --- workers ---------------------------------------------------------------------------------- */

static GpuWorkers copy_workers = { .name = "gpumem-copy" };
static GpuWorkers file_workers = { .name = "gpumem-copy-file" };
static GpuWorkers drive_workers = { .name = "gpumem-drive" };

/* The reason why a thread for copies could not be started. Set at most once;
 * _gpu_transfer_report_threads() clears it. */
static char *failure_text;          /* atomic */
static gint  has_failed;            /* atomic */

void
_gpu_transfer_report_threads (void)
{
  g_autofree char *text = NULL;

  if (g_atomic_pointer_get (&failure_text) != NULL)
    text = __atomic_exchange_n (&failure_text, NULL, __ATOMIC_ACQ_REL);

  if (text != NULL)
    g_message ("gpumem: no thread for copies, which are slower without it: %s", text);
}

/* Returns FALSE if no thread can be started. Records the reason of the first failure only. */
static gboolean
push (GpuWorkers       *workers,
      guint             max_threads,
      GpuTransferFunc   func,
      gpointer          data)
{
  g_autoptr (GError) failure = NULL;

  if (_gpu_workers_push (workers, max_threads, func, data, &failure))
    return TRUE;

  if (g_atomic_int_compare_and_exchange (&has_failed, FALSE, TRUE))
    g_atomic_pointer_set (&failure_text, g_strdup (failure->message));

  return FALSE;
}

gboolean
_gpu_transfer_push_copy (GpuTransferFunc func,
                         gpointer        data,
                         gboolean        for_file)
{
  return push (for_file ? &file_workers : &copy_workers, _gpu_transfer_get_n_threads (), func,
               data);
}

gboolean
_gpu_transfer_push_wait (GpuTransferFunc func,
                         gpointer        data)
{
  return push (&drive_workers, G_MAXUINT, func, data);
}

void
_gpu_transfer_set_n_threads (guint n)
{
  n = MIN (n, MAX_THREADS);

  g_mutex_lock (&lock);
  n_threads = n != 0 ? n : get_default ();
  n = n_threads;
  g_atomic_int_set (&n_threads_known, (gint) n);
  g_mutex_unlock (&lock);

  _gpu_workers_set_max_threads (&copy_workers, n);
  _gpu_workers_set_max_threads (&file_workers, n);
}
