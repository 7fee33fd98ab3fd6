/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct _GpumemProgress GpumemProgress;

GpumemProgress *gpumem_progress_new   (guint           n_steps);
void            gpumem_progress_free  (GpumemProgress *progress);
void            gpumem_progress_begin (GpumemProgress *progress,
                                       const char     *format,
                                       ...) G_GNUC_PRINTF (2, 3);
void            gpumem_progress_part  (GpumemProgress *progress,
                                       double          part);
void            gpumem_progress_skip  (GpumemProgress *progress,
                                       guint           n_steps);
void            gpumem_progress_clear (GpumemProgress *progress);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpumemProgress, gpumem_progress_free)

G_END_DECLS
