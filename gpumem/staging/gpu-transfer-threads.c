/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Three groups of threads. Copying threads copy between host memory and slots. Other threads read
 * and write files, so that a slow file does not delay copies of memory. Driving threads wait for
 * the device: one thread for each copy that its caller does not drive. */
#include "config.h"

#include "gpumem/base/gpu-workers-private.h"
#include "gpumem/staging/gpu-transfer-private.h"

/* More threads do not copy memory faster. Threads that read files also spend time in system calls,
 * so more of them are needed to keep the link to a GPU busy. */
#define DEFAULT_MAX_THREADS 10
#define DEFAULT_MAX_FILE_THREADS 12
#define MAX_THREADS 256

static gint n_wanted;                   /* atomic; the number that the program has set, or 0 */

/* Gets the number that the environment sets, or 0. */
static guint
get_environment (void)
{
  const char *text = g_getenv ("GPUMEM_COPY_THREADS");
  guint64 value;

  if (text == NULL)
    return 0;

  if (g_ascii_string_to_unsigned (text, 10, 1, MAX_THREADS, &value, NULL))
    return value;

  g_warning ("GPUMEM_COPY_THREADS=%s is not a number from 1 to %d", text, MAX_THREADS);

  return 0;
}

/* Reads the environment once per process. */
static guint
get_initial (void)
{
  static gsize number;                  /* plus 1 */

  if (g_once_init_enter (&number))
    g_once_init_leave (&number, get_environment () + 1);

  return number - 1;
}

/* Counts the processors once per process, because that is a system call. */
static guint
get_default (gboolean for_file)
{
  static gsize n_processors;

  if (g_once_init_enter (&n_processors))
    g_once_init_leave (&n_processors, g_get_num_processors ());

  return MIN (n_processors, for_file ? DEFAULT_MAX_FILE_THREADS : DEFAULT_MAX_THREADS);
}

guint
_gpu_transfer_get_n_threads (gboolean for_file)
{
  guint n = (guint) g_atomic_int_get (&n_wanted);

  if (n == 0)
    n = get_initial ();

  return n != 0 ? n : get_default (for_file);
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

/* Returns the number of calls of @func, which is lower than @n if no thread can be started. Records
 * the reason of the first failure only. */
static guint
push (GpuWorkers       *workers,
      guint             max_threads,
      GpuTransferFunc   func,
      gpointer          data,
      guint             n)
{
  g_autoptr (GError) failure = NULL;
  guint n_pushed = _gpu_workers_push_many (workers, max_threads, func, data, n, &failure);

  if (failure != NULL && g_atomic_int_compare_and_exchange (&has_failed, FALSE, TRUE))
    g_atomic_pointer_set (&failure_text, g_strdup (failure->message));

  return n_pushed;
}

guint
_gpu_transfer_push_copies (GpuTransferFunc func,
                           gpointer        data,
                           guint           n,
                           gboolean        for_file)
{
  return push (for_file ? &file_workers : &copy_workers, _gpu_transfer_get_n_threads (for_file),
               func, data, n);
}

gboolean
_gpu_transfer_yield_copy (GpuTransferFunc func,
                          gpointer        data)
{
  return _gpu_workers_yield (&copy_workers, func, data);
}

gboolean
_gpu_transfer_must_yield (void)
{
  return _gpu_workers_has_unserved (&copy_workers);
}

void
_gpu_transfer_linger (GpuTransferAwaits awaits,
                      gpointer          data,
                      gint64            deadline)
{
  _gpu_workers_linger (&copy_workers, awaits, data, deadline);
}

void
_gpu_transfer_wake_lingering (void)
{
  _gpu_workers_wake_lingering (&copy_workers);
}

gboolean
_gpu_transfer_push_wait (GpuTransferFunc func,
                         gpointer        data)
{
  return push (&drive_workers, G_MAXUINT, func, data, 1) == 1;
}

void
_gpu_transfer_set_n_threads (guint n)
{
  g_atomic_int_set (&n_wanted, (gint) MIN (n, MAX_THREADS));
  _gpu_workers_set_max_threads (&copy_workers, _gpu_transfer_get_n_threads (FALSE));
  _gpu_workers_set_max_threads (&file_workers, _gpu_transfer_get_n_threads (TRUE));
}
