/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef enum
{
  GPUMEM_STYLE_PLAIN,
  GPUMEM_STYLE_TITLE,
  GPUMEM_STYLE_GOOD,
  GPUMEM_STYLE_BAD,
  GPUMEM_STYLE_FAINT
} GpumemStyle;

const char *gpumem_style_begin    (GpumemStyle style);
const char *gpumem_style_end      (GpumemStyle style);
guint       gpumem_terminal_width (void);
guint       gpumem_terminal_height (void);
guint       gpumem_terminal_error_width (void);
char       *gpumem_terminal_wrap  (const char  *text,
                                   guint        width);

G_END_DECLS
