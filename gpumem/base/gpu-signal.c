/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <gio/gio.h>

#include "gpumem/base/gpu-signal-private.h"

/* On 64-bit systems, GObject keeps flags of an object between its public members ref_count and
 * qdata. GLib has set one of these flags when the first handler is connected since version 2.68.
 * GLib does not document the flags, so get_handler_flag() finds out what this version does. */
#define FLAGS_OFFSET (G_STRUCT_OFFSET (GObject, ref_count) + sizeof (guint))
#define HAS_FLAGS    (FLAGS_OFFSET + sizeof (guint) == G_STRUCT_OFFSET (GObject, qdata))

static inline guint
get_flags (GObject *object)
{
  return (guint) g_atomic_int_get (&G_STRUCT_MEMBER (gint, object, FLAGS_OFFSET));
}

static void
ignore (void)
{
}

/* Returns the flags that GLib sets on an object when a handler of @signal is connected. */
static guint
find_flags (const char *signal)
{
  g_autoptr (GObject) object = g_object_new (G_TYPE_CANCELLABLE, NULL);
  guint before = get_flags (object);

  g_signal_connect (object, signal, G_CALLBACK (ignore), NULL);

  return get_flags (object) & ~before;
}

/* Returns the flag of objects with handlers, or 0 if this version of GLib has none. */
static guint
get_handler_flag (void)
{
  static gsize flag;                /* plus 1 */

  if (g_once_init_enter (&flag))
    {
      gsize found = HAS_FLAGS ? find_flags ("cancelled") & find_flags ("notify") : 0;

      g_once_init_leave (&flag, found + 1);
    }

  return (guint) (flag - 1);
}

void
_gpu_signal_handlers_destroy (GObject *object)
{
  guint flag = get_handler_flag ();

  if (flag == 0 || (get_flags (object) & flag) != 0)
    g_signal_handlers_destroy (object);
}

/* The innermost emission of the thread */
static __thread GpuEmission *emissions;

GpuEmission *
_gpu_emission_find (gconstpointer object)
{
  GpuEmission *emission = emissions;

  while (emission != NULL && emission->object != object)
    emission = emission->outer;

  return emission;
}

void
_gpu_emission_begin (GpuEmission   *emission,
                     gconstpointer  object)
{
  *emission = (GpuEmission) { object, emissions, FALSE };
  emissions = emission;
}

void
_gpu_emission_end (GpuEmission *emission)
{
  emissions = emission->outer;
}
