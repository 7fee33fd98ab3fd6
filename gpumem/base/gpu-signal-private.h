/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib-object.h>

G_BEGIN_DECLS

/* Disconnects all signal handlers of @object. Takes the lock of GLib that all signals of the
 * process share only if a handler may be connected. */
void _gpu_signal_handlers_destroy (GObject *object);

/* An emission of a signal of @object, or of the owner of @object, on one thread */
typedef struct _GpuEmission GpuEmission;

struct _GpuEmission
{
  gconstpointer  object;
  GpuEmission   *outer;             /* nullable; the emission that the thread began before */
  gboolean       is_requested;      /* a function did not emit the signal, because of this one */
};

/* Returns the innermost emission for @object that the calling thread has begun, or NULL. A function
 * that finds one must not emit the signal: the handler would be called for a request of its own,
 * without a limit. */
GpuEmission *_gpu_emission_find  (gconstpointer  object);
/* Begins an emission for @object. A caller that emits later, or not at all, prevents the emissions
 * of functions that it calls before _gpu_emission_end(). */
void         _gpu_emission_begin (GpuEmission   *emission,
                                  gconstpointer  object);
void         _gpu_emission_end   (GpuEmission   *emission);

G_END_DECLS
