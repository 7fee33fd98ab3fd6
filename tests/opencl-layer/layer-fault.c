/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Counts calls, makes chosen calls fail, and delays commands.
 *
 *   GPUMEM_LAYER_FAIL="n=17"                        fails the 17th call that can fail
 *   GPUMEM_LAYER_FAIL="fn=clEnqueue*,n=2,code=-5"   the 2nd call of these functions, with that code
 *   GPUMEM_LAYER_FAIL="n=5,times=3"                 the 5th to the 7th; times=0: all from the 5th
 *   GPUMEM_LAYER_FAIL="lost=40"                     short for n=40,times=0,code=-2: a lost device,
 *                                                   whose work has ended when the call fails
 *   GPUMEM_LAYER_DELAY=USEC                         random delay up to this before each command
 *   GPUMEM_LAYER_LATE=USEC                          delay before a failed call returns
 *
 * Retains and releases never fail.
 */

#include "config.h"

#include "layer.h"

#include <errno.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpumem-layer.h"

typedef struct
{
  guint64 n;
  guint64 times;
  gint64 code;
  gboolean matches[LAYER_N_CALLS];
} LayerFault;

/* A POSIX lock, because ThreadSanitizer does not see GMutex: GLib is not instrumented. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static guint64 counts[LAYER_N_CALLS];
static guint n_failable;
static LayerFault fault;
static guint64 n_matched;
static guint n_failed;
static gboolean has_failed;                    /* a fault was injected since the start */
static LayerCall first_failed;
static guint max_delay;
static guint late;

static gboolean
can_fail (LayerFunction function)
{
  const char *name = layer_names[function];

  return !g_str_has_prefix (name, "clRetain") && !g_str_has_prefix (name, "clRelease") &&
         function != LAYER_clSVMFree;
}

static int
plausible_code (LayerFunction function)
{
  static const struct
  {
    const char *glob;
    int code;
  } codes[] = {
    { "clCreate*Buffer*", CL_MEM_OBJECT_ALLOCATION_FAILURE },
    { "clCreateImage*", CL_MEM_OBJECT_ALLOCATION_FAILURE },
    { "clEnqueueMap*", CL_MAP_FAILURE },
    { "clEnqueue*", CL_OUT_OF_RESOURCES },
    { "clWaitForEvents", CL_OUT_OF_RESOURCES },
    { "clFinish", CL_OUT_OF_RESOURCES },
    { "clFlush", CL_OUT_OF_RESOURCES },
    { "clBuildProgram", CL_BUILD_PROGRAM_FAILURE },
    { "clCompileProgram", CL_COMPILE_PROGRAM_FAILURE },
    { "clLinkProgram", CL_LINK_PROGRAM_FAILURE },
    { "*", CL_OUT_OF_HOST_MEMORY },
  };
  guint i = 0;

  while (fnmatch (codes[i].glob, layer_names[function], 0) != 0)
    i++;
  return codes[i].code;
}

static guint
match_functions (const char *glob,
                 gboolean   *matches)
{
  guint n = 0;

  for (guint i = 0; i < LAYER_N_CALLS; i++)
    {
      matches[i] = glob[0] == '\0' || fnmatch (glob, layer_names[i], 0) == 0;
      n += matches[i];
    }
  return n;
}

static gboolean
parse_pair (const char *pair,
            LayerFault *parsed)
{
  const char *value = strchr (pair, '=');
  gint64 number = 0;

  if (value == NULL)
    return FALSE;
  value++;
  if (g_str_has_prefix (pair, "fn="))
    return match_functions (value, parsed->matches) > 0;
  if (!g_ascii_string_to_signed (value, 10, G_MININT32, G_MAXINT32, &number, NULL))
    return FALSE;

  if (g_str_has_prefix (pair, "code=") && number < 0)
    parsed->code = number;
  else if (g_str_has_prefix (pair, "n=") && number > 0)
    parsed->n = number;
  else if (g_str_has_prefix (pair, "times=") && number >= 0)
    parsed->times = number;
  else if (g_str_has_prefix (pair, "lost=") && number > 0)
    {
      parsed->n = number;
      parsed->times = 0;
      parsed->code = CL_DEVICE_NOT_AVAILABLE;
    }
  else
    return FALSE;
  return TRUE;
}

static void
arm (const LayerFault *armed)
{
  pthread_mutex_lock (&lock);
  fault = *armed;
  n_matched = 0;
  n_failed = 0;
  pthread_mutex_unlock (&lock);
}

gboolean
gpumem_layer_set_fail (const char *spec)
{
  LayerFault parsed = { .times = 1 };
  g_auto (GStrv) pairs = g_strsplit (spec != NULL ? spec : "", ",", -1);

  match_functions ("", parsed.matches);
  for (guint i = 0; pairs[i] != NULL; i++)
    if (!parse_pair (pairs[i], &parsed))
      return FALSE;
  if (parsed.n == 0 && pairs[0] != NULL)
    parsed.n = 1;
  arm (&parsed);
  return TRUE;
}

void
gpumem_layer_fail_after (guint n,
                         int   code)
{
  LayerFault armed = { .n = n, .times = 1, .code = code };

  match_functions ("", armed.matches);
  arm (&armed);
}

guint
gpumem_layer_get_failed (void)
{
  guint n;

  pthread_mutex_lock (&lock);
  n = n_failed;
  pthread_mutex_unlock (&lock);
  return n;
}

gboolean
layer_has_failed (void)
{
  return __atomic_load_n (&has_failed, __ATOMIC_RELAXED);
}

static guint
get_microseconds (const char *variable)
{
  const char *value = g_getenv (variable);

  return value != NULL ? (guint) g_ascii_strtoull (value, NULL, 10) : 0;
}

/* Runs before clInitLayer(), because a test may arm a fault before the first call. */
static void __attribute__ ((constructor))
layer_fault_init (void)
{
  const char *spec = g_getenv ("GPUMEM_LAYER_FAIL");

  if (!gpumem_layer_set_fail (spec))
    {
      g_printerr ("gpumem-layer: GPUMEM_LAYER_FAIL=%s is not understood\n", spec);
      abort ();
    }
  max_delay = get_microseconds ("GPUMEM_LAYER_DELAY");
  late = get_microseconds ("GPUMEM_LAYER_LATE");
}

/* Caller holds the lock. */
static int
decide_fault (LayerFunction function)
{
  if (fault.n == 0 || !fault.matches[function])
    return CL_SUCCESS;

  n_matched++;
  if (n_matched < fault.n || (fault.times > 0 && n_matched >= fault.n + fault.times))
    return CL_SUCCESS;
  n_failed++;
  __atomic_store_n (&has_failed, TRUE, __ATOMIC_RELAXED);
  return fault.code != 0 ? (int) fault.code : plausible_code (function);
}

LayerCall
layer_enter (LayerFunction function)
{
  LayerCall call = { .function = function, .can_fail = can_fail (function) };
  gboolean is_first;

  if (max_delay > 0 && g_str_has_prefix (layer_names[function], "clEnqueue"))
    usleep (g_random_int_range (0, max_delay + 1));

  pthread_mutex_lock (&lock);
  counts[function]++;
  if (call.can_fail)
    {
      n_failable++;
      call.fault = decide_fault (function);
    }
  call.number = n_failable;
  is_first = call.fault != CL_SUCCESS && n_failed == 1;
  if (is_first)
    first_failed = call;
  pthread_mutex_unlock (&lock);

  if (is_first && call.fault == CL_DEVICE_NOT_AVAILABLE)
    layer_end_work ();
  return call;
}

gboolean
layer_may_run (const LayerCall *call)
{
  return call->misuse == CL_SUCCESS && (call->fault == CL_SUCCESS || call->performs);
}

int
layer_leave (const LayerCall *call,
             int              code)
{
  if (call->function == LAYER_clGetDeviceIDs || call->function == LAYER_clCreateContext ||
      call->function == LAYER_clBuildProgram)
    layer_restore_signals ();

  if (call->misuse != CL_SUCCESS)
    return call->misuse;
  if (call->fault == CL_SUCCESS)
    return code;
  if (late > 0)
    usleep (late);
  return call->fault;
}

guint64
gpumem_layer_get_count (const char *function)
{
  gboolean matches[LAYER_N_CALLS];
  guint64 n = 0;

  if (match_functions (function, matches) == 0)
    return G_MAXUINT64;

  pthread_mutex_lock (&lock);
  for (guint i = 0; i < LAYER_N_CALLS; i++)
    n += matches[i] ? counts[i] : 0;
  pthread_mutex_unlock (&lock);
  return n;
}

/* Resets the counters only; reports continue to number the calls from the start of the program. */
void
gpumem_layer_reset_counts (void)
{
  pthread_mutex_lock (&lock);
  memset (counts, 0, sizeof counts);
  pthread_mutex_unlock (&lock);
}

/* `failable` is the number of calls that can fail, so the largest useful N of "n=N". `failed` is
 * the number of calls with an injected fault. */
void
layer_write_counts (const char *path)
{
  FILE *file = fopen (path, "w");

  if (file == NULL)
    {
      g_printerr ("gpumem-layer: %s: %s\n", path, g_strerror (errno));
      return;
    }
  pthread_mutex_lock (&lock);
  fprintf (file, "failable %u\nfailed %u\n", n_failable, n_failed);
  for (guint i = 0; i < LAYER_N_CALLS; i++)
    if (counts[i] > 0)
      fprintf (file, "%s %" G_GUINT64_FORMAT "\n", layer_names[i], counts[i]);
  pthread_mutex_unlock (&lock);
  fclose (file);
}

void
layer_report_fault (FILE *file)
{
  LayerCall call;
  guint n;

  pthread_mutex_lock (&lock);
  call = first_failed;
  n = n_failed;
  pthread_mutex_unlock (&lock);
  if (n > 0)
    fprintf (file, "fault: call %u (%s) failed with %d, %u in all\n", call.number,
             layer_names[call.function], call.fault, n);
}
