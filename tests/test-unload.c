/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Opens, uses, closes and reopens the library, as a program does with a plugin that links to the
 * library. This program does not link to the library. */
#include "config.h"

#include <dlfcn.h>

#include <gio/gio.h>

#define LIBRARY "libgpumem-1.0.so.0"
#define SIZE 4096

/* The functions that a round uses. */
typedef struct
{
  GObject * (*device_find)        (const char *id, GError **error);
  GObject * (*context_new)        (GObject *device, guint flags, GError **error);
  GObject * (*stream_new)         (GObject *context, guint flags, GError **error);
  GObject * (*buffer_new)         (GObject *context, guint flags, gsize size, GError **error);
  gboolean  (*stream_fill)        (GObject *stream, GObject *memory, gsize offset, gsize size,
                                   gconstpointer pattern, gsize pattern_size, GError **error);
  gboolean  (*stream_synchronize) (GObject *stream, GCancellable *cancellable, GError **error);
} Functions;

static gpointer
find (gpointer library, const char *name)
{
  gpointer symbol = dlsym (library, name);

  g_assert_nonnull (symbol);
  return symbol;
}

static void
use (const Functions *functions)
{
  const guint8 value = 7;
  g_autoptr (GError) error = NULL;
  g_autoptr (GObject) device = functions->device_find ("host", &error);
  g_autoptr (GObject) context = NULL;
  g_autoptr (GObject) stream = NULL;
  g_autoptr (GObject) buffer = NULL;

  g_assert_no_error (error);
  context = functions->context_new (device, 0, &error);
  g_assert_no_error (error);
  stream = functions->stream_new (context, 0, &error);
  g_assert_no_error (error);
  buffer = functions->buffer_new (context, 0, SIZE, &error);
  g_assert_no_error (error);
  functions->stream_fill (stream, buffer, 0, SIZE, &value, 1, &error);
  g_assert_no_error (error);
  functions->stream_synchronize (stream, NULL, &error);
  g_assert_no_error (error);
}

/* The library must stay loaded after it is closed, because GLib keeps its types and a thread of a
 * stream may still run. */
static void
unload_again (void)
{
  for (guint i = 0; i < 3; i++)
    {
      gpointer library = dlopen (LIBRARY, RTLD_NOW);
      Functions functions;
      gpointer again;

      if (library == NULL)
        {
          g_test_skip (dlerror ());
          return;
        }
      functions.device_find = find (library, "gpu_device_find");
      functions.context_new = find (library, "gpu_context_new");
      functions.stream_new = find (library, "gpu_stream_new");
      functions.buffer_new = find (library, "gpu_buffer_new");
      functions.stream_fill = find (library, "gpu_stream_fill");
      functions.stream_synchronize = find (library, "gpu_stream_synchronize");
      use (&functions);
      g_assert_cmpint (dlclose (library), ==, 0);
      again = dlopen (LIBRARY, RTLD_NOW | RTLD_NOLOAD);
      g_assert_nonnull (again);
      dlclose (again);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/unload/again", unload_again);
  return g_test_run ();
}
