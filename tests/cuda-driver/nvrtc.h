/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Inside of the stand-in for NVRTC. A program is preprocessed, read by the scanner, compiled for
 * the host by the machine's own compiler of C++ and linked to a shared object, which is what its
 * CUBIN is; its PTX is text that carries the object file.
 */
#pragma once

#include "gpumem/cuda/compiler/gpu-cuda-nvrtc.h"

G_BEGIN_DECLS

struct _nvrtcProgram
{
  char       *source;
  char       *name;
  GPtrArray  *headers;          /* name, text, name, text ... */
  GPtrArray  *expressions;
  GHashTable *lowered;          /* by expression */
  GString    *log;
  GBytes     *cubin;            /* nullable */
  char       *ptx;              /* nullable */
  gboolean    compiled;
};

typedef struct
{
  int        architecture;
  gboolean   compute_only;
  gboolean   relocatable;
  GPtrArray *flags;             /* for the preprocessor */
  char      *standard;          /* nullable */
}
NvrtcOptions;

/* nvrtc-options.c; what is wrong goes to the log */
gboolean nvrtc_parse_options (nvrtcProgram        program,
                              NvrtcOptions       *options,
                              int                 n,
                              const char *const  *words);
/* nvrtc.c */
gboolean nvrtc_has_architecture (int              architecture);

/* nvrtc-compile.c: what stands before every program */
extern const char nvrtc_prelude[];

gboolean nvrtc_compile       (nvrtcProgram        program,
                              const NvrtcOptions *options);

/* nvrtc-fault.c: what the call shall answer before it begins */
nvrtcResult nvrtc_fault      (const char         *function);
void     nvrtc_count_programs (int                change);

/* nvrtc-cache.c: what was compiled before, in GPUMEM_CUDA_DRIVER_CACHE. NULL: not to be kept. */
char    *nvrtc_cache_find    (nvrtcProgram        program,
                              int                 n_options,
                              const char *const  *words);
gboolean nvrtc_cache_load    (nvrtcProgram        program,
                              const char         *path);
void     nvrtc_cache_store   (nvrtcProgram        program,
                              const char         *path);

/* scan.c: what the scanner finds in preprocessed source. */
typedef struct
{
  char *name;               /* with its namespaces */
  char *max_threads;        /* nullable; the expression in __launch_bounds__() */
} ScannedKernel;

/* @kernels: of ScannedKernel; templates are not among them. The text to compile. */
char *scan_source       (const char  *text,
                         GPtrArray   *kernels);

/* compiler.c, in both libraries. Runs c++; its output is appended to @log. */
gboolean compiler_run   (GPtrArray   *arguments,
                         GString     *log);
/* The contents of an object or shared object, marked as code for a device. */
GBytes  *image_mark     (const char  *path,
                         int          capability,
                         gboolean     compute_only);
/* Links object files to a shared object. */
GBytes  *image_link     (GPtrArray   *objects,
                         int          capability,
                         GString     *log);
/* Bytes of an ELF file in memory, 0 if it is none; @capability of one marked so. */
gsize    image_get_size (gconstpointer data,
                         int          *capability,
                         gboolean     *is_object);
/* A copy without the mark. */
gpointer image_unmark   (gconstpointer data,
                         gsize         size);
/* describe.c, in both libraries: the kernels of a shared object. */
typedef struct
{
  char  *name;              /* as in the source, or an expression */
  char  *lowered;
  gsize *sizes;             /* of the parameters */
  gsize  n_parameters;
  gboolean is_again;        /* one before it is the same, by another name */
} ImageKernel;

/* Of ImageKernel; NULL, and @log, if the file at @path cannot be loaded. */
GPtrArray *image_list_kernels (const char   *path,
                               GString      *log);
/* A copy of an image, marked or not, that tells of its kernels. */
GBytes  *image_describe (GBytes      *image,
                         GPtrArray   *kernels);
void     image_describe_as_ptx (const ImageKernel *kernel,
                                GString           *text);

/* Text that carries an object file, and back; NULL if it carries none. */
char    *image_to_ptx   (GBytes       *object,
                         int           capability,
                         const char   *entries);
GBytes  *image_from_ptx (const char   *text);

G_END_DECLS
