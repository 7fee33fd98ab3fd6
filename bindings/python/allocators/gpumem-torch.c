/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The functions of torch.cuda.memory.CUDAPluggableAllocator. PyTorch calls them with C++ types;
 * those used here have a fixed layout in the C++ ABI of Linux. */
#include "gpumem-allocators.h"

#include <string.h>

/* c10::cuda::MempoolId_t, a pair of numbers. One of them is 0. */
typedef struct
{
  unsigned long long first;
  unsigned long long second;
} TorchPoolId;

/* std::function<bool (cudaStream_t)> of libstdc++. */
typedef struct _TorchFunction TorchFunction;
struct _TorchFunction
{
  gsize      functor[2];
  gboolean   (*manage) (gsize *to, const gsize *from, int operation);
  _Bool      (*invoke) (const gsize *functor, gpointer *stream);
};

enum
{
  CLONE = 2,
  DESTROY = 3
};

GPUMEM_EXPORT gpointer gpumem_torch_alloc                  (gssize       size,
                                                            int          device,
                                                            gpointer     stream);
GPUMEM_EXPORT void     gpumem_torch_free                   (gpointer     address,
                                                            gssize       size,
                                                            int          device,
                                                            gpointer     stream);
GPUMEM_EXPORT void     gpumem_torch_init                   (int          n_devices);
GPUMEM_EXPORT void     gpumem_torch_reset                  (void);
GPUMEM_EXPORT void     gpumem_torch_set_memory_fraction    (double       fraction,
                                                            int          device);
GPUMEM_EXPORT gpointer gpumem_torch_get_base               (gpointer     address,
                                                            gsize       *size);
GPUMEM_EXPORT void     gpumem_torch_record_stream          (gpointer     address,
                                                            gpointer     stream);
GPUMEM_EXPORT void     gpumem_torch_begin_allocate_to_pool (int          device,
                                                            TorchPoolId  id,
                                                            TorchFunction *filter);
GPUMEM_EXPORT void     gpumem_torch_end_allocate_to_pool   (int          device,
                                                            TorchPoolId  id);
GPUMEM_EXPORT void     gpumem_torch_release_pool           (int          device,
                                                            TorchPoolId  id);

static void
throw_error (GError *error)
{
  gboolean is_out_of_memory = gpumem_is_out_of_memory (error);
  g_autofree char *message = g_strdup (error->message);
  char copy[1024];

  g_error_free (error);
  g_strlcpy (copy, message, sizeof copy);
  g_clear_pointer (&message, g_free);       /* the exception skips the rest of this function */
  gpumem_torch_throw (copy, is_out_of_memory);
}

gpointer
gpumem_torch_alloc (gssize   size,
                    int      device,
                    gpointer stream)
{
  GError *error = NULL;
  GpuPoolHooks *hooks = gpumem_get_hooks (device, &error);
  guint64 address = hooks != NULL ? hooks->alloc (hooks->pool, size, stream, &error) : 0;

  if (G_UNLIKELY (error != NULL))
    throw_error (error);

  return GSIZE_TO_POINTER (address);
}

void
gpumem_torch_free (gpointer address,
                   gssize   size G_GNUC_UNUSED,
                   int      device,
                   gpointer stream)
{
  GpuPoolHooks *hooks = gpumem_peek_hooks (device);

  if (address != NULL && hooks != NULL)
    hooks->free (hooks->pool, GPOINTER_TO_SIZE (address), stream);
}

/* The pools are created by the first allocations. */
void
gpumem_torch_init (int n_devices G_GNUC_UNUSED)
{
}

/* torch.cuda.empty_cache() */
void
gpumem_torch_reset (void)
{
  for (int device = 0; device < GPUMEM_MAX_DEVICES; device++)
    {
      GpuPoolHooks *hooks = gpumem_peek_hooks (device);

      if (hooks != NULL)
        hooks->trim (hooks->pool, 0);
    }
}

void
gpumem_torch_set_memory_fraction (double fraction,
                                  int    device)
{
  GError *error = NULL;

  if (gpumem_get_hooks (device, &error) == NULL
      || !gpu_memory_pool_set_fraction (gpumem_peek_pool (device), fraction, &error))
    throw_error (error);
}

/* Finds the device of @address. */
static GpuPoolHooks *
find_hooks (gpointer  address,
            guint64  *start,
            gsize    *size)
{
  for (int device = 0; device < GPUMEM_MAX_DEVICES; device++)
    {
      GpuPoolHooks *hooks = gpumem_peek_hooks (device);

      if (hooks != NULL && hooks->lookup (hooks->pool, GPOINTER_TO_SIZE (address), start, size))
        return hooks;
    }

  return NULL;
}

gpointer
gpumem_torch_get_base (gpointer  address,
                       gsize    *size)
{
  guint64 start = GPOINTER_TO_SIZE (address);
  gsize found = 0;

  find_hooks (address, &start, &found);
  if (size != NULL)
    *size = found;

  return GSIZE_TO_POINTER (start);
}

void
gpumem_torch_record_stream (gpointer address,
                            gpointer stream)
{
  GpuPoolHooks *hooks;
  GError *error = NULL;
  guint64 start;

  if (address == NULL)
    return;

  hooks = find_hooks (address, &start, NULL);
  if (hooks != NULL && !hooks->add_stream (hooks->pool, start, stream, &error))
    throw_error (error);
}

/* --- graphs and MemPool ---------------------------------------------------------------------- */

/* PyTorch counts both numbers from 1. */
static guint64
get_number (TorchPoolId id)
{
  return (guint64) id.first << 32 | id.second;
}

static gboolean
accepts (gpointer stream,
         gpointer data)
{
  TorchFunction *function = data;

  return function->invoke (function->functor, &stream);
}

static TorchFunction *
function_copy (const TorchFunction *function)
{
  TorchFunction *copy = g_memdup2 (function, sizeof *function);

  function->manage (copy->functor, function->functor, CLONE);

  return copy;
}

static void
function_free (gpointer data)
{
  TorchFunction *function = data;

  function->manage (function->functor, function->functor, DESTROY);
  g_free (function);
}

void
gpumem_torch_begin_allocate_to_pool (int            device,
                                     TorchPoolId    id,
                                     TorchFunction *filter)
{
  GError *error = NULL;
  GpuPoolHooks *hooks = gpumem_get_hooks (device, &error);
  TorchFunction *copy = NULL;

  if (hooks == NULL)
    {
      throw_error (error);
      return;
    }

  if (filter != NULL && filter->manage != NULL)
    copy = function_copy (filter);
  if (hooks->begin_capture (hooks->pool, get_number (id), copy != NULL ? accepts : NULL, copy,
                            copy != NULL ? function_free : NULL, &error))
    return;

  if (copy != NULL)
    function_free (copy);
  throw_error (error);
}

void
gpumem_torch_end_allocate_to_pool (int         device,
                                   TorchPoolId id)
{
  GpuPoolHooks *hooks = gpumem_peek_hooks (device);

  if (hooks != NULL)
    hooks->end_capture (hooks->pool, get_number (id));
}

void
gpumem_torch_release_pool (int         device,
                           TorchPoolId id)
{
  GpuPoolHooks *hooks = gpumem_peek_hooks (device);

  if (hooks != NULL)
    hooks->release_capture (hooks->pool, get_number (id));
}
