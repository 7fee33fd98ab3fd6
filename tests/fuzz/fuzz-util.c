/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <stdlib.h>

#include "tests/fuzz/fuzz.h"

const FuzzTarget *const fuzz_targets[] =
{
#if defined HAVE_CUDA || defined HAVE_OPENCL
  &fuzz_binary,
#endif
  &fuzz_cache,
  &fuzz_cacheable,
  &fuzz_dlpack,
  &fuzz_dtype,
  &fuzz_format,
  &fuzz_ipc,
  &fuzz_layout,
#ifdef HAVE_CUDA
  &fuzz_options,
#endif
  &fuzz_region,
  &fuzz_source,
  &fuzz_status,
  &fuzz_trace,
  NULL
};

void
fuzz_fail (const char *location,
           const char *condition)
{
  g_printerr ("%s: required: %s\n", location, condition);
  abort ();
}

guint64
fuzz_take (FuzzInput *input,
           guint      n_bytes)
{
  guint64 value = 0;

  for (guint i = 0; i < n_bytes && input->size > 0; i++)
    {
      value |= (guint64) *input->data << (8 * i);
      input->data++;
      input->size--;
    }

  return value;
}

guint64
fuzz_take_size (FuzzInput *input)
{
  guint64 power;

  switch (fuzz_take (input, 1) % 8)
    {
    case 0:
    case 1:
      return fuzz_take (input, 1) % 8;
    case 2:
      return fuzz_take (input, 1);
    case 3:
      return fuzz_take (input, 2);
    case 4:
      power = G_GUINT64_CONSTANT (1) << (fuzz_take (input, 1) % 64);
      return power + (guint64) (gint8) fuzz_take (input, 1);
    case 5:
      return G_MAXUINT64 - fuzz_take (input, 1);
    case 6:
      return (guint64) G_MAXINT64 + (guint64) (gint8) fuzz_take (input, 1);
    default:
      return fuzz_take (input, 8);
    }
}

void
fuzz_add_seed (GPtrArray     *seeds,
               gconstpointer  data,
               gsize          size)
{
  g_ptr_array_add (seeds, g_bytes_new (data, size));
}

void
fuzz_add_text (GPtrArray  *seeds,
               const char *text)
{
  fuzz_add_seed (seeds, text, strlen (text));
}

void
fuzz_add_random (GPtrArray *seeds,
                 guint      n,
                 gsize      size)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (n);
  g_autofree guint8 *data = g_malloc (size);

  for (guint i = 0; i < n; i++)
    {
      for (gsize k = 0; k < size; k++)
        data[k] = (guint8) g_rand_int (random);
      fuzz_add_seed (seeds, data, size);
    }
}

static GpuContext *
make_context (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDevice) device = gpu_device_find ("host", &error);
  GpuContext *context = device != NULL ? gpu_context_new (device, GPU_CONTEXT_FLAGS_NONE,
                                                          &error) : NULL;

  if (context == NULL)
    g_error ("host: %s", error->message);

  return context;
}

GpuContext *
fuzz_get_context (void)
{
  static GpuContext *context;

  if (context == NULL)
    context = make_context ();

  return context;
}
