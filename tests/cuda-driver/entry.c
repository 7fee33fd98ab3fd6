/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The common beginning and end of every call, and the lookup of functions by name. */
#include "config.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda-driver.h"
#include "driver.h"

#define SYMBOL_NOT_FOUND 1
#define VERSION_NOT_SUFFICIENT 2

const char *const call_names[N_CALLS] = {
  [CALL_cuGetProcAddress] = "cuGetProcAddress",
#define GPU_CUDA_SYMBOL(group, name, version, parameters) [CALL_##name] = #name,
#define GPU_CUDA_REVISION(group, name, revision, version, parameters) \
  [CALL_##name##revision] = #name,
#include DRIVER_SYMBOLS
#undef GPU_CUDA_SYMBOL
};

static const struct
{
  int       version;
  gpointer  function;
}
entries[N_CALLS] = {
#define GPU_CUDA_SYMBOL(group, name, version, parameters) [CALL_##name] = { version, name },
#include DRIVER_SYMBOLS
#undef GPU_CUDA_SYMBOL
};

/* For each name, the first CUDA version in which the name resolves to a function with parameters
 * other than those declared here. */
static const struct
{
  CallFunction function;
  int          version;
}
changes[] = {
  { CALL_cuCtxCreate, 11040 },
  { CALL_cuCtxGetDevice, 13000 },
  { CALL_cuCtxSynchronize, 13000 },
};

pthread_mutex_t driver_lock = PTHREAD_MUTEX_INITIALIZER;

static guint64 counts[N_CALLS];
static guint n_calls;
static gboolean forked;
static gboolean initialized;
static __thread const Call *current;
static __thread gboolean forbidden;

static void
note_fork (void)
{
  forked = TRUE;
}

static void __attribute__ ((constructor))
entry_init (void)
{
#ifdef CUDA_DRIVER_OLD
  config.version = 11040;
#endif
  config_load ();
  pthread_atfork (NULL, NULL, note_fork);
}

gboolean
call_is_ours (void)
{
  return !forked;
}

const Call *
call_current (void)
{
  static const Call none = { .number = 0 };

  return current != NULL ? current : &none;
}

void
call_forbid (gboolean forbid)
{
  forbidden = forbid;
}

static gboolean
needs_init (CallFunction function)
{
  return function != CALL_cuInit && function != CALL_cuDriverGetVersion &&
         function != CALL_cuGetErrorName && function != CALL_cuGetErrorString;
}

CUresult
call_enter (Call *call)
{
  CUresult code;

  if (forked)
    return CUDA_ERROR_NOT_INITIALIZED;

  pthread_mutex_lock (&driver_lock);
  call->locked = TRUE;
  call->number = ++n_calls;
  current = call;
  counts[call->function]++;
  if (forbidden)
    return misuse (CUDA_ERROR_NOT_PERMITTED, "a function of the host in a stream calls the driver");
  code = fault_decide (call);
  if (code != CUDA_SUCCESS && !fault_performs (call->function))
    return code;
  if (needs_init (call->function) && !initialized)
    return CUDA_ERROR_NOT_INITIALIZED;
  return capture_check (call->function);
}

CUresult
call_leave (Call     *call,
            CUresult  code)
{
  if (call->locked)
    {
      current = NULL;
      pthread_mutex_unlock (&driver_lock);
    }
  return call->fault != CUDA_SUCCESS ? call->fault : code;
}

void
call_write_counts (const char *path)
{
  FILE *file = fopen (path, "w");

  if (file == NULL)
    return;
  fault_report_counts (file);
  for (guint i = 0; i < N_CALLS; i++)
    if (counts[i] > 0)
      fprintf (file, "%s %" G_GUINT64_FORMAT "\n", call_names[i], counts[i]);
  fclose (file);
}

guint64
gpumem_cuda_driver_get_count (const char *function)
{
  guint64 n = 0;

  pthread_mutex_lock (&driver_lock);
  for (guint i = 0; i < N_CALLS; i++)
    if (fnmatch (function, call_names[i], 0) == 0)
      n += counts[i];
  pthread_mutex_unlock (&driver_lock);
  return n;
}

gboolean
gpumem_cuda_driver_set_fail (const char *spec)
{
  gboolean understood;

  pthread_mutex_lock (&driver_lock);
  understood = fault_set (spec);
  pthread_mutex_unlock (&driver_lock);
  return understood;
}

/* --- function lookup -------------------------------------------------------------------------- */

/* The result of a lookup if the function of the requested version has parameters other than those
 * declared here. The library must not request such a version. */
static CUresult
other_parameters (void)
{
  g_printerr ("gpumem-cuda-driver: a function was asked for with the version of other "
              "parameters than its caller has\n");
  abort ();
}

static gpointer
find_version (CallFunction  function,
              int           version,
              guint        *status)
{
  if (entries[function].version > config.version)
    {
      *status = SYMBOL_NOT_FOUND;
      return NULL;
    }
  if (entries[function].version > version)
    {
      *status = VERSION_NOT_SUFFICIENT;
      return NULL;
    }
  for (guint i = 0; i < G_N_ELEMENTS (changes); i++)
    if (changes[i].function == function && version >= changes[i].version &&
        config.version >= changes[i].version)
      return other_parameters;
  return entries[function].function;
}

static CUresult
get_address (const char *name,
             gpointer   *function,
             int         version,
             guint64     flags,
             guint      *status)
{
  Call call = { .function = CALL_cuGetProcAddress };
  CUresult code;
  guint found;

  if (forked || name == NULL || function == NULL || flags > 2)
    return CUDA_ERROR_INVALID_VALUE;

  pthread_mutex_lock (&driver_lock);
  counts[CALL_cuGetProcAddress]++;
  code = fault_decide (&call);
  pthread_mutex_unlock (&driver_lock);
  if (code != CUDA_SUCCESS)
    return code;

  *function = NULL;
  *status = SYMBOL_NOT_FOUND;
  for (guint i = 0; i < N_CALLS; i++)
    if (entries[i].function != NULL && g_str_equal (name, call_names[i]))
      {
        gpointer entry;

        found = 0;
        entry = find_version (i, version, &found);
        /* As in drivers, choose the last revision that exists at the requested version. */
        if (*function == NULL || entry != NULL)
          {
            *function = entry;
            *status = found;
          }
      }
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuGetProcAddress    (const char  *name,
                                             void       **function,
                                             int          version,
                                             cuuint64_t   flags);
EXPORT CUresult CUDAAPI cuGetProcAddress_v2 (const char                     *name,
                                             void                          **function,
                                             int                             version,
                                             cuuint64_t                      flags,
                                             CUdriverProcAddressQueryResult *status);

CUresult CUDAAPI
cuGetProcAddress (const char  *name,
                  void       **function,
                  int          version,
                  cuuint64_t   flags)
{
  guint status;
  CUresult code = get_address (name, function, version, flags, &status);

  return code == CUDA_SUCCESS && status != 0 ? CUDA_ERROR_NOT_FOUND : code;
}

/* cuGetProcAddress_v2 exists since CUDA 12.0. The stand-in for older drivers is a separate library
 * without this function. */
#ifndef CUDA_DRIVER_OLD
CUresult CUDAAPI
cuGetProcAddress_v2 (const char                     *name,
                     void                          **function,
                     int                             version,
                     cuuint64_t                      flags,
                     CUdriverProcAddressQueryResult *status)
{
  guint found;
  CUresult code = get_address (name, function, version, flags, &found);

  if (status != NULL)
    *status = found;
  else if (code == CUDA_SUCCESS && found != 0)
    code = CUDA_ERROR_NOT_FOUND;
  return code;
}
#endif

/* --- the driver ------------------------------------------------------------------------------- */

ENTRY (cuInit, (unsigned int flags), (flags))
{
  if (flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (config.n_devices == 0)
    return CUDA_ERROR_NO_DEVICE;
  if (!initialized)
    devices_init ();
  initialized = TRUE;
  return CUDA_SUCCESS;
}

ENTRY (cuDriverGetVersion, (int *version), (version))
{
  if (version == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  *version = config.version;
  return CUDA_SUCCESS;
}

static const struct
{
  CUresult    code;
  const char *name;
}
errors[] = {
#define GPU_CUDA_ERROR(name, value, error) { value, #name },
#include "gpumem/cuda/driver/gpu-cuda-errors.h"
#undef GPU_CUDA_ERROR
};

static const char *
find_error (CUresult code)
{
  for (gsize i = 0; i < G_N_ELEMENTS (errors); i++)
    if (errors[i].code == code)
      return errors[i].name;
  return NULL;
}

ENTRY (cuGetErrorName, (CUresult error, const char **name), (error, name))
{
  *name = find_error (error);
  return *name != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

ENTRY (cuGetErrorString, (CUresult error, const char **text), (error, text))
{
  const char *name = find_error (error);

  *text = name != NULL ? "said by the stand-in for the CUDA driver" : NULL;
  return name != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
