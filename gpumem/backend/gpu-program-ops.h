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
  /* any thread; all ops up to link() may be NULL. They block until the program is built. If the
   * build fails, the error is GPU_ERROR_BUILD_FAILED with the log in the message. @headers
   * (nullable, NULL-terminated) has the name and the text, alternately, of each header that the
   * source may include. These headers precede those in the folders of the options. */
  GpuNativeProgram * (*build_source)  (GpuNativeContext   *context,
                                       const char         *source,
                                       const char         *options,
                                       const char *const  *headers,
                                       GError            **error);
  GpuNativeProgram * (*load_binary)   (GpuNativeContext  *context,
                                       GBytes            *binary,
                                       const char        *options,
                                       GError           **error);
  GpuNativeProgram * (*load_il)       (GpuNativeContext  *context,
                                       GBytes            *il,
                                       const char        *options,
                                       GError           **error);
  /* Like build_source(), but also instantiates the templates in @names. @names (NULL-terminated,
   * not empty) contains names of templates, overloads and variables as in source code, such as
   * "scale<float>". Sets @lowered to the names in the binary, in the same order. */
  GpuNativeProgram * (*build_names)   (GpuNativeContext    *context,
                                       const char          *source,
                                       const char          *options,
                                       const char *const   *headers,
                                       const char *const   *names,
                                       char              ***lowered,
                                       GError             **error);
  /* Compiles source to an image for link(), and does not load the image. If @options request a
   * binary, load_binary() also accepts the image. */
  GBytes *           (*compile)       (GpuNativeContext   *context,
                                       const char         *source,
                                       const char         *options,
                                       const char *const  *headers,
                                       GError            **error);
  /* Links the @n_images images, at least one. Each image is a result of compile(), an output of the
   * vendor's compiler, or a library. */
  GpuNativeProgram * (*link)          (GpuNativeContext  *context,
                                       GBytes *const     *images,
                                       guint              n_images,
                                       const char        *options,
                                       GError           **error);
  /* any thread; may be NULL: the public class then calls load_binary() with the options of the
   * build. Loads a binary from the program cache, which got it from get_binary() of a program built
   * from source. */
  GpuNativeProgram * (*load_cached)   (GpuNativeContext  *context,
                                       GBytes            *binary,
                                       GError           **error);
  /* any thread; may be NULL. Creates an object for a program that was built outside this library.
   * Fails if the program is not built for each device of @context. If the op fails, the caller
   * keeps the ownership of @handle. */
  GpuNativeProgram * (*wrap)          (GpuNativeContext  *context,
                                       guint64            handle,
                                       GpuWrapMode        mode,
                                       GError           **error);
  /* any thread; may be NULL: programs are then not cached. Appends a description of device, driver
   * and compiler to @text, because the result of a build depends on them as well as on source and
   * options. */
  void               (*fingerprint)   (GpuNativeContext  *context,
                                       GString           *text);
  /* TRUE if inline assembly cannot read files, as in PTX. If FALSE, the program cache does not
   * store programs that contain assembly. */
  gboolean             assembly_is_closed;
  /* TRUE if the back end splits options as a shell does. If FALSE, the driver splits them in its
   * own way, and the meaning of quotes is unknown. */
  gboolean             options_are_shell_words;
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
  /* any thread; may be NULL. Gets a buffer over the memory of a global variable of the program. The
   * program owns the memory and outlives the buffer. */
  GpuNativeBuffer *  (*get_global)    (GpuNativeContext  *context,
                                       GpuNativeProgram  *program,
                                       const char        *name,
                                       GError           **error);
  /* any thread; may be NULL if programs have no handle. */
  guint64            (*get_handle)    (GpuNativeProgram  *program);
} GpuProgramOps;

G_END_DECLS
