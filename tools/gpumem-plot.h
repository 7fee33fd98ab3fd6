/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Diagrams, drawn by gnuplot. */
#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

/* Returns whether @path ends with the suffix of a supported picture format. */
gboolean  gpumem_plot_is_name       (const char  *path);
/* Returns whether the picture can be drawn. Called before a long measurement. */
gboolean  gpumem_plot_check         (const char  *path,
                                     GError     **error);
GString  *gpumem_plot_begin         (const char  *path);
void      gpumem_plot_append_quoted (GString     *script,
                                     const char  *text);
void      gpumem_plot_append_number (GString     *script,
                                     double       number);
gboolean  gpumem_plot_draw          (const char  *path,
                                     const char  *script,
                                     GError     **error);

G_END_DECLS
