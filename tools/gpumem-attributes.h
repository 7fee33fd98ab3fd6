/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

guint       gpumem_attribute_n_groups  (void);
const char *gpumem_attribute_group     (guint       group);
guint       gpumem_attribute_classify  (const char *nick);
char       *gpumem_attribute_format    (const char *nick,
                                        GVariant   *value);

G_END_DECLS
