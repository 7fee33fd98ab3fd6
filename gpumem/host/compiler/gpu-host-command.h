/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Runs compilers. The stand-in CUDA driver of the tests compiles this file as well
 * (tests/cuda-driver/): it uses nothing but GLib.
 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Runs @command, which ends with NULL, with @arguments behind it, without a shell, in @directory,
 * which may be NULL. Appends its output to @log. Fails with GLib's errors. If the exit status
 * is lost, because the process ignores SIGCHLD or another thread reaps all children, the command
 * counts as successful if the file @product exists in @directory afterwards or, with @product NULL,
 * if the command printed something. */
gboolean _gpu_host_command_run      (const char *const  *command,
                                     GPtrArray          *arguments,
                                     const char         *directory,
                                     const char         *locale,
                                     const char         *product,
                                     GString            *log,
                                     GError            **error);
/* Removes @directory and all files in it. */
void     _gpu_host_directory_remove (const char         *directory);

G_END_DECLS
