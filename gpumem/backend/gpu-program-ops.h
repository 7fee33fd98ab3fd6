/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Programs. gpu-backend.h has the rules for every op. */
#pragma once

#include "gpumem/backend/gpu-native-types.h"

G_BEGIN_DECLS

struct _GpuNativeProgram
{
  const GpuBackend *backend;
  char             *log;            /* of the build, nullable, freed by the back end */
};

typedef struct
{
  /* any thread; each may be NULL. They block until the program is built. A program that does not
   * build is GPU_ERROR_BUILD_FAILED with the log in the text. */
  GpuNativeProgram * (*build_source)  (GpuNativeContext  *context,
                                       const char        *source,
                                       const char        *options,
                                       GError           **error);
  GpuNativeProgram * (*load_binary)   (GpuNativeContext  *context,
                                       GBytes            *binary,
                                       const char        *options,
                                       GError           **error);
  GpuNativeProgram * (*load_il)       (GpuNativeContext  *context,
                                       GBytes            *il,
                                       const char        *options,
                                       GError           **error);
  /* The same as build_source(), for the templates, overloads and variables that @names (ends
   * with NULL, is not empty) tell as one writes them in the source: "scale<float>". @lowered
   * becomes, in the same order, what they are called in the binary. */
  GpuNativeProgram * (*build_names)   (GpuNativeContext    *context,
                                       const char          *source,
                                       const char          *options,
                                       const char *const   *names,
                                       char              ***lowered,
                                       GError             **error);
  /* What link() takes: source compiled, with nothing loaded. With options for it, it is what
   * load_binary() takes. */
  GBytes *           (*compile)       (GpuNativeContext  *context,
                                       const char        *source,
                                       const char        *options,
                                       GError           **error);
  /* @n_images, at least one, of compile() or of the vendor's compiler, and libraries. */
  GpuNativeProgram * (*link)          (GpuNativeContext  *context,
                                       GBytes *const     *images,
                                       guint              n_images,
                                       const char        *options,
                                       GError           **error);
  /* any thread; may be NULL: load_binary() then, with the options of the build. What get_binary()
   * gave of a program that was built from source, out of the program cache. */
  GpuNativeProgram * (*load_cached)   (GpuNativeContext  *context,
                                       GBytes            *binary,
                                       GError           **error);
  /* any thread; may be NULL: the program cache then stays out of it. Appends whatever, beside
   * source and options, decides what a build yields: device, driver, compiler. */
  void               (*fingerprint)   (GpuNativeContext  *context,
                                       GString           *text);
  /* TRUE if inline assembly cannot read files, as in PTX. Otherwise the program cache does not keep
   * programs that contain assembly. */
  gboolean             assembly_is_closed;
  /* any thread. Kernels made from the program may outlive it. */
  void               (*free)          (GpuNativeContext  *context,
                                       GpuNativeProgram  *program);
  GBytes *           (*get_binary)    (GpuNativeContext  *context,
                                       GpuNativeProgram  *program,
                                       GError           **error);
  char **            (*list_kernels)  (GpuNativeContext  *context,
                                       GpuNativeProgram  *program,
                                       GError           **error);
  GpuNativeKernel *  (*create_kernel) (GpuNativeContext  *context,
                                       GpuNativeProgram  *program,
                                       const char        *name,
                                       GError           **error);
  /* any thread; may be NULL. A variable of the program, at the address where its kernels see it:
   * memory that the program owns, which outlives the buffer. */
  GpuNativeBuffer *  (*get_global)    (GpuNativeContext  *context,
                                       GpuNativeProgram  *program,
                                       const char        *name,
                                       GError           **error);
} GpuProgramOps;

G_END_DECLS
