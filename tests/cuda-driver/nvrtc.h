/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The internals of the stand-in for NVRTC. A program is preprocessed, scanned, compiled for the
 * host by the machine's C++ compiler and linked to a shared object, which serves as the CUBIN. The
 * PTX is text that contains the object file.
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
  GHashTable *lowered;          /* expression: name */
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
  GPtrArray *flags;             /* flags for the preprocessor */
  char      *standard;          /* nullable */
}
NvrtcOptions;

/* nvrtc-options.c; reports errors in the program's log */
gboolean nvrtc_parse_options (nvrtcProgram        program,
                              NvrtcOptions       *options,
                              int                 n,
                              const char *const  *words);
/* nvrtc.c */
gboolean nvrtc_has_architecture (int              architecture);

/* nvrtc-compile.c: the text before every program */
extern const char nvrtc_prelude[];

gboolean nvrtc_compile       (nvrtcProgram        program,
                              const NvrtcOptions *options);

/* nvrtc-fault.c: returns the injected error, or NVRTC_SUCCESS to run the call */
nvrtcResult nvrtc_fault      (const char         *function);
void     nvrtc_count_programs (int                change);

/* nvrtc-cache.c: the cache in the folder GPUMEM_CUDA_DRIVER_CACHE. nvrtc_cache_find() returns NULL
 * if the program must not be cached. */
char    *nvrtc_cache_find    (nvrtcProgram        program,
                              int                 n_options,
                              const char *const  *words);
gboolean nvrtc_cache_load    (nvrtcProgram        program,
                              const char         *path);
void     nvrtc_cache_store   (nvrtcProgram        program,
                              const char         *path);

/* scan.c: a kernel found in preprocessed source. */
typedef struct
{
  char *name;               /* with its namespaces */
  char *max_threads;        /* nullable; the expression in __launch_bounds__() */
} ScannedKernel;

/* Returns the text to compile. Adds a ScannedKernel to @kernels for each kernel, except
 * templates. */
char *scan_source       (const char  *text,
                         GPtrArray   *kernels);

/* compiler.c, which is part of the stand-ins for the driver and for NVRTC. Runs c++ and appends its
 * output to @log. */
gboolean compiler_run   (GPtrArray   *arguments,
                         GString     *log);
/* Reads the object file or shared object at @path. Returns a copy that looks like an image for a
 * device: its ELF header has NVIDIA's machine type and @capability. Returns NULL if the file cannot
 * be read. */
GBytes  *image_mark     (const char  *path,
                         int          capability,
                         gboolean     compute_only);
/* Links object files to a shared object. */
GBytes  *image_link     (GPtrArray   *objects,
                         int          capability,
                         GString     *log);
/* Returns the size of the ELF file at @data, or 0 if image_mark() has not written its header.
 * Sets @capability to the compute capability in the ELF header. */
gsize    image_get_size (gconstpointer data,
                         int          *capability,
                         gboolean     *is_object);
/* Returns a copy with the ELF header of the host, which undoes image_mark(). */
gpointer image_unmark   (gconstpointer data,
                         gsize         size);
/* A kernel of a shared object. These structures are read and written by describe.c, which is part
 * of the stand-ins for the driver and for NVRTC. */
typedef struct
{
  char  *name;              /* as in the source, or an expression */
  char  *lowered;
  gsize *sizes;             /* sizes of the parameters */
  gsize  n_parameters;
  gboolean is_again;        /* an earlier entry describes the same kernel by another name */
} ImageKernel;

/* Lists the ImageKernels. Returns NULL and sets @log if the file at @path cannot be loaded. */
GPtrArray *image_list_kernels (const char   *path,
                               GString      *log);
/* Returns a copy of the binary @image with descriptions of its kernels. The binary may be a shared
 * object for the host or, after image_mark(), for a device. */
GBytes  *image_describe (GBytes      *image,
                         GPtrArray   *kernels);
void     image_describe_as_ptx (const ImageKernel *kernel,
                                GString           *text);

/* image_to_ptx() writes PTX that contains an object file. image_from_ptx() returns the object file,
 * or NULL if the text contains none. */
char    *image_to_ptx   (GBytes       *object,
                         int           capability,
                         const char   *entries);
GBytes  *image_from_ptx (const char   *text);

G_END_DECLS
