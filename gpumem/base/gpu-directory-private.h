/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Temporary directories for the files of a compiler. Uses only GLib, because the stand-in CUDA
 * driver of the tests (tests/cuda-driver/) also compiles gpu-directory.c. Functions fail with
 * GLib's errors.
 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Creates a directory that only this user can enter. */
char     *_gpu_directory_new       (GError            **error);
/* Writes a file. @name may begin with names of folders, which are created. */
gboolean  _gpu_directory_write     (const char         *directory,
                                    const char         *name,
                                    const char         *text,
                                    GError            **error);
/* Writes several files. @files has the name and the text of each file, alternately, and ends with
 * NULL. @files may be NULL. */
gboolean  _gpu_directory_write_all (const char         *directory,
                                    const char *const  *files,
                                    GError            **error);
/* Removes @directory and all files in it. */
void      _gpu_directory_remove    (const char         *directory);

G_END_DECLS
