/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Build options of OpenCL C, for back ends that translate OpenCL C. */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Returns FALSE if @word begins with "-cl-" but is neither an option of OpenCL nor one of a vendor.
 * Drivers of OpenCL reject such words. Back ends ignore options of vendors. */
gboolean _gpu_option_is_valid (const char *word);

G_END_DECLS
