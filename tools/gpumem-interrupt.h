/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

typedef struct _GpumemInterrupt GpumemInterrupt;

GpumemInterrupt *gpumem_interrupt_new  (GCancellable    *cancellable);
void             gpumem_interrupt_free (GpumemInterrupt *interrupt);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpumemInterrupt, gpumem_interrupt_free)

G_END_DECLS
