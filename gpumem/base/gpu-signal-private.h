/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib-object.h>

G_BEGIN_DECLS

/* Disconnects all signal handlers of @object. Takes the lock of GLib that all signals of the
 * process share only if a handler may be connected. */
void _gpu_signal_handlers_destroy (GObject *object);

G_END_DECLS
