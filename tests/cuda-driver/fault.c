/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Makes chosen calls fail:
 *
 *   17                   the 17th call, with a plausible code; the count excludes calls that never
 *                        fail, that make a context current, that set the capture mode or that poll
 *   cuMem*:2             the second call among all functions with such a name
 *   cuMemAlloc:2:46      the second call of cuMemAlloc(), with code 46
 *   cuMemAlloc:2:46:3    three calls, from the second on; with 0 instead of 3, all calls from the
 *                        second on
 *   lost:17              all calls from the 17th on that use the device, with
 *                        CUDA_ERROR_LAUNCH_FAILED
 *   lost:cu*:17:46       of the functions cu*, all calls from the 17th on, with code 46
 *
 * A chosen call that frees memory, or that waits, still does so before it returns the error, as a
 * driver does after a failure of the device. Calls that return names of errors or addresses of
 * functions fail only if a pattern names them.
 */
#include "config.h"

#include <fnmatch.h>
#include <string.h>

#include "driver.h"

static struct
{
  guint64   n;              /* number of the first call that fails; 0: no call fails */
  guint64   times;
  guint64   code;           /* 0: a plausible code of the function */
  gboolean  lost;           /* the device is lost; only calls that do not use it succeed */
  gboolean  matches[N_CALLS];
  guint64   n_matched;
  guint     n_failed;
  Call      first;
}
fault;

static guint64 n_failable;

static gboolean
is_any_of (CallFunction       function,
           const char *const *globs)
{
  for (; *globs != NULL; globs++)
    if (fnmatch (*globs, call_names[function], 0) == 0)
      return TRUE;
  return FALSE;
}

static gboolean
can_fail (CallFunction function)
{
  static const char *const never[] = { "cuGetError*", "cuGetProcAddress", "cuDriverGetVersion",
                                       "cuCtx*Current", "cuEventQuery", "cuStreamQuery",
                                       "cuThreadExchange*", NULL };

  return !is_any_of (function, never);
}

gboolean
fault_performs (CallFunction function)
{
  static const char *const globs[] = { "*Free*", "*Destroy", "*Release", "*Unload", "*Unregister",
                                       "*Close*", "*Synchronize", "cuCtxPopCurrent", "cuMemUnmap",
                                       NULL };

  return is_any_of (function, globs);
}

static gboolean
reaches_device (CallFunction function)
{
  static const char *const globs[] = { "cuCtx*Current", "cuCtxDestroy", "cuDevice*",
                                       "cuStreamGet*", "cuThreadExchange*", NULL };

  return !is_any_of (function, globs);
}

static CUresult
plausible_code (CallFunction function)
{
  static const struct { const char *glob; CUresult code; } codes[] = {
    { "cuInit", CUDA_ERROR_NO_DEVICE },
    { "*Alloc*", CUDA_ERROR_OUT_OF_MEMORY },
    { "*Create*", CUDA_ERROR_OUT_OF_MEMORY },
    { "cuModuleLoad*", CUDA_ERROR_INVALID_IMAGE },
    { "cuModuleGet*", CUDA_ERROR_NOT_FOUND },
    { "cuMemHostRegister", CUDA_ERROR_OPERATING_SYSTEM },
    { "*", CUDA_ERROR_UNKNOWN },
  };
  guint i = 0;

  while (fnmatch (codes[i].glob, call_names[function], 0) != 0)
    i++;
  return codes[i].code;
}

static gboolean
match_functions (const char *glob)
{
  guint n = 0;

  for (guint i = 0; i < N_CALLS; i++)
    {
      fault.matches[i] = (glob == NULL && can_fail (i)) ||
                         (glob != NULL && fnmatch (glob, call_names[i], 0) == 0);
      n += fault.matches[i];
    }
  return n > 0;
}

gboolean
fault_set (const char *spec)
{
  g_auto (GStrv) words = g_strsplit (spec, ":", -1);
  guint64 *places[] = { &fault.n, &fault.code, &fault.times };
  char **word = words;

  memset (&fault, 0, sizeof fault);
  if (spec[0] == '\0')
    return TRUE;

  fault.times = 1;
  if (g_str_equal (*word, "lost"))
    {
      fault.lost = TRUE;
      fault.times = 0;
      fault.code = CUDA_ERROR_LAUNCH_FAILED;
      word++;
    }
  if (*word == NULL ||
      !match_functions (g_ascii_isdigit (**word) ? NULL : *word))
    return FALSE;
  if (!g_ascii_isdigit (**word))
    word++;
  for (guint i = 0; *word != NULL; i++, word++)
    if (i == G_N_ELEMENTS (places) ||
        !g_ascii_string_to_unsigned (*word, 10, 0, G_MAXINT, places[i], NULL))
      return FALSE;
  if (fault.n == 0)
    fault.n = 1;
  return TRUE;
}

/* Fails all contexts, so that submitted operations do not run any more. */
static void
lose_contexts (CUresult code)
{
  g_autoptr (GPtrArray) contexts = object_list (OBJECT_CONTEXT, NULL);

  for (guint i = 0; i < contexts->len; i++)
    context_fail (contexts->pdata[i], code);
  capture_lose ();
}

/* Returns CUDA_SUCCESS, or the code that the call must fail with. */
CUresult
fault_decide (Call *call)
{
  n_failable += can_fail (call->function);
  if (fault.n == 0 || !fault.matches[call->function])
    return CUDA_SUCCESS;

  fault.n_matched++;
  if (fault.n_matched < fault.n ||
      (fault.times > 0 && fault.n_matched >= fault.n + fault.times))
    return CUDA_SUCCESS;
  if (fault.lost && !reaches_device (call->function))
    return CUDA_SUCCESS;

  call->fault = fault.code != 0 ? fault.code : plausible_code (call->function);
  fault.n_failed++;
  if (fault.n_failed == 1)
    {
      if (fault.lost)
        lose_contexts (call->fault);
      fault.first = *call;
      fault.first.number = n_failable;
    }
  return call->fault;
}

/* `failable` is the number of calls that can fail, so the largest useful N of "fail=N". `failed` is
 * the number of calls with an injected fault. */
void
fault_report_counts (FILE *file)
{
  fprintf (file, "failable %" G_GUINT64_FORMAT "\nfailed %u\n", n_failable, fault.n_failed);
}

void
fault_report (FILE *file)
{
  if (fault.n_failed > 0)
    fprintf (file, "fault: call %u (%s) failed with %u, %u in all\n", fault.first.number,
             call_names[fault.first.function], fault.first.fault, fault.n_failed);
}
