/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Floating-point numbers of 16 bits. */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Rounds to the nearest value, with ties to even, as GPUs do. */
guint16 _gpu_half_from_double (gdouble value);
gfloat  _gpu_half_to_float    (guint16 half);

G_END_DECLS
