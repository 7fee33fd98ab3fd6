/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Inside of the stand-in for NVRTC. A program is preprocessed, read by the scanner, compiled for
 * the host by the machine's own compiler of C++ and linked to a shared object, which is what its
 * CUBIN is; its PTX is text that carries the object file.
 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* scan.c: what the scanner finds in preprocessed source. */
typedef struct
{
  char *name;               /* with its namespaces */
  char *max_threads;        /* nullable; the expression in __launch_bounds__() */
} ScannedKernel;

/* @kernels: of ScannedKernel; templates are not among them. The text to compile. */
char *scan_source       (const char  *text,
                         GPtrArray   *kernels);

/* compiler.c, in both libraries. Runs c++; what it says goes to @log. */
gboolean compiler_run   (const char *const *arguments,
                         char             **log);
/* The contents of an object or shared object, marked as code for a device. */
GBytes  *image_mark     (const char  *path,
                         int          capability,
                         gboolean     compute_only);
/* Links object files to a shared object. */
GBytes  *image_link     (GPtrArray   *objects,
                         int          capability,
                         char       **log);
/* Bytes of an ELF file in memory, 0 if it is none; @capability of one marked so. */
gsize    image_get_size (gconstpointer data,
                         int          *capability,
                         gboolean     *is_object);
/* A copy without the mark. */
gpointer image_unmark   (gconstpointer data,
                         gsize         size);
/* Text that carries an object file, and back; NULL if it carries none. */
char    *image_to_ptx   (GBytes       *object,
                         int           capability,
                         const char   *entries);
GBytes  *image_from_ptx (const char   *text);

G_END_DECLS
