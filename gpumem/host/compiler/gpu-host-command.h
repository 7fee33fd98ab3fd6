/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Runs compilers. Uses only GLib, because the stand-in CUDA driver of the tests
 * (tests/cuda-driver/) also compiles this file.
 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Runs a program without a shell in @directory, which may be NULL. Its arguments are @command,
 * which ends with NULL, followed by @arguments. Appends its output to @log. Fails with GLib's
 * errors. The exit status is lost if the process ignores SIGCHLD or if another thread reaps all
 * children. The command then counts as successful if the file @product exists in @directory or,
 * with @product NULL, if the command printed text. */
gboolean _gpu_host_command_run (const char *const  *command,
                                GPtrArray          *arguments,
                                const char         *directory,
                                const char         *locale,
                                const char         *product,
                                GString            *log,
                                GError            **error);

G_END_DECLS
