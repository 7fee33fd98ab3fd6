/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "test-pool-hooks-util.h"

gpointer
test_hooks_get_handle (GpuStream *stream)
{
  GpuDevice *device = gpu_context_get_device (gpu_stream_get_context (stream));

  if (g_str_equal (gpu_device_get_backend (device), "host"))
    return NULL;

  return (gpointer) (gsize) gpu_stream_get_native_handle (stream);
}

gboolean
test_hooks_init (TestHooks *hooked, TestFixture *fixture, GpuMemoryPoolKind kind,
                 GpuStreamFlags flags)
{
  g_autoptr (GError) error = NULL;

  *hooked = (TestHooks) { .fixture = fixture };
  hooked->pool = gpu_memory_pool_new (fixture->context, kind, GPU_MEMORY_FLAGS_NONE, &error);
  g_assert_no_error (error);
  g_object_get (hooked->pool, "hooks", &hooked->hooks, NULL);
  if (hooked->hooks == NULL)
    {
      g_clear_object (&hooked->pool);
      g_test_skip ("memory of pools has no addresses on this device");
      return FALSE;
    }

  g_assert_cmpuint (hooked->hooks->version, ==, GPU_POOL_HOOKS_VERSION);
  hooked->first = test_stream (fixture, flags);
  hooked->second = test_stream (fixture, flags);
  hooked->a = test_hooks_get_handle (hooked->first);
  hooked->b = test_hooks_get_handle (hooked->second);

  return TRUE;
}

void
test_hooks_clear (TestHooks *hooked)
{
  if (hooked->pool != NULL)
    {
      hooked->hooks->end_stream (hooked->hooks->pool, hooked->a);
      hooked->hooks->end_stream (hooked->hooks->pool, hooked->b);
    }
  g_clear_object (&hooked->pool);
  g_clear_object (&hooked->first);
  g_clear_object (&hooked->second);
}

guint64
test_hooks_take (TestHooks *hooked, gsize size, gpointer stream)
{
  g_autoptr (GError) error = NULL;
  guint64 address = hooked->hooks->alloc (hooked->hooks->pool, size, stream, &error);

  g_assert_no_error (error);
  g_assert_cmpuint (address, !=, 0);
  return address;
}

void
test_hooks_drop (TestHooks *hooked, guint64 address, gpointer stream)
{
  g_assert_true (hooked->hooks->free (hooked->hooks->pool, address, stream));
}

guint64
test_hooks_get_figure (TestHooks *hooked, const char *name)
{
  return hooked->hooks->get_figure (hooked->hooks->pool, name);
}

/* A trim records the fences that show that the work has completed; the next one frees. */
void
test_hooks_trim (TestHooks *hooked)
{
  hooked->hooks->trim (hooked->hooks->pool, 0);
  test_synchronize (hooked->first);
  test_synchronize (hooked->second);
  hooked->hooks->trim (hooked->hooks->pool, 0);
}
