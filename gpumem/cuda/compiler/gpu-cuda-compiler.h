/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Compilation of source to device code: translation of the source for NVRTC, parsing of binaries,
 * and options of the driver's own compiler. Functions take the compute capability of a device
 * instead of the device.
 */
#pragma once

#include "gpumem/backend/gpu-backend.h"
#include "gpumem/cuda/compiler/gpu-cuda-sampler-words.h"
#include "gpumem/cuda/driver/gpu-cuda-api.h"

G_BEGIN_DECLS

/* The variable in constant memory from which portable kernels read the offset of their global ids.
 * Relocatable code has none, because the parts of a program would define it more than once. */
#define GPU_CUDA_OFFSET_NAME "gpu_global_offset"

typedef enum
{
  GPU_CUDA_LANGUAGE_CPP,
  GPU_CUDA_LANGUAGE_PORTABLE            /* the portable dialect: the common part of OpenCL C and
                                         * C++ */
} GpuCudaLanguage;

typedef enum
{
  GPU_CUDA_BINARY_UNKNOWN,
  GPU_CUDA_BINARY_ELF,
  GPU_CUDA_BINARY_FATBIN,
  GPU_CUDA_BINARY_PTX
} GpuCudaBinaryKind;

/* gpu-cuda-binary.c: parses binaries. */
GpuCudaBinaryKind _gpu_cuda_binary_identify    (GBytes              *binary);
/* Returns TRUE if an ELF file is device code, and FALSE if it is a host object with embedded device
 * code. */
gboolean          _gpu_cuda_binary_is_cubin    (GBytes              *binary);
/* Returns FALSE if the binary is truncated or of an unknown kind. */
gboolean          _gpu_cuda_binary_check       (GBytes              *binary,
                                                GError             **error);
/* Returns NULL if the binary does not list its kernels. */
char            **_gpu_cuda_binary_list_kernels (GBytes             *binary);
/* Returns the sizes of the parameters (element-type gsize), or NULL if the binary does not list
 * them. */
GArray           *_gpu_cuda_binary_get_sizes   (GBytes              *binary,
                                                const char          *kernel);

/* Returns TRUE if the program has a variable at program scope, besides those that the translation
 * adds, and sets @name to its name. Also returns TRUE, and sets @name to NULL, if the binary does
 * not list its variables. */
gboolean          _gpu_cuda_binary_find_variable (GBytes            *binary,
                                                char               **name);

/* gpu-cuda-name.c */
/* Searches the NULL-terminated @names for the mangled name of the source function @name. Returns
 * NULL if no name or more than one name matches. */
const char       *_gpu_cuda_name_find          (const char *const   *names,
                                                const char          *name);
/* Decodes @mangled to the name in the source. Returns a copy of @mangled if that is not
 * possible. */
char             *_gpu_cuda_name_simplify      (const char          *mangled);

/* gpu-cuda-jit.c: options of the driver's compiler and linker. */
typedef struct
{
  CUjit_option  options[24];
  void         *values[24];
  guint         n;
  char         *info_log;
  char         *error_log;
} GpuCudaJit;

gboolean          _gpu_cuda_jit_init           (GpuCudaJit          *jit,
                                                const char          *options,
                                                GError             **error);
void              _gpu_cuda_jit_clear          (GpuCudaJit          *jit);
/* Appends the error log and the info log, without leading and trailing whitespace. */
void              _gpu_cuda_jit_append_log     (GpuCudaJit          *jit,
                                                GString             *log);

/* gpu-cuda-options.c: converts the options of a program to those of NVRTC. */
GPtrArray        *_gpu_cuda_options_new        (int                  compute_capability,
                                                GpuCudaLanguage      language,
                                                const char          *text,
                                                GError             **error);
gboolean          _gpu_cuda_options_have       (GPtrArray           *options,
                                                const char          *prefix);
/* Returns whether an option includes a file before the source of the program. */
gboolean          _gpu_cuda_options_include    (GPtrArray           *options);
/* Removes the options that define or undefine macros from @options, and returns the equivalent
 * lines of source. Removes no option if _gpu_cuda_options_include() returns TRUE. */
char             *_gpu_cuda_options_take_macros (GPtrArray          *options);

/* gpu-cuda-prelude*.c, gpu-cuda-rewrite.c, gpu-cuda-rewrite-image.c */
void              _gpu_cuda_prelude_append     (GString             *text,
                                                GpuCudaLanguage      language,
                                                gboolean             has_images);
/* _append_vectors() appends the vector types. _append_native() appends the image declarations that
 * need CUDA's own vector types, and must be called before the macros that rename these types are
 * appended. _append_images() appends the other image declarations. */
void              _gpu_cuda_prelude_append_vectors (GString         *text);
void              _gpu_cuda_prelude_append_native (GString          *text);
void              _gpu_cuda_prelude_append_images (GString          *text);
/* Returns TRUE if a portable source contains the name of an image or sampler type, or if an
 * included file or pasted tokens may contain such a name. */
gboolean          _gpu_cuda_source_has_images  (const char          *source);
/* Returns a bitmap of the constant samplers that a source may use. If @is_part is TRUE, other parts
 * of the program may declare samplers, so the bitmap contains all samplers. */
guint             _gpu_cuda_source_find_samplers (const char        *source,
                                                gboolean             is_part);
/* @headers (nullable) has names and texts, alternately, and ends with NULL. */
GpuCudaLanguage   _gpu_cuda_source_identify    (const char          *source,
                                                const char *const   *headers);
/* Returns the complete text for NVRTC. Removes from @options those options that become part of the
 * text, and translates the texts in @headers (nullable). */
char             *_gpu_cuda_source_prepare     (const char          *source,
                                                GpuCudaLanguage      language,
                                                GPtrArray           *options,
                                                char               **headers);

/* gpu-cuda-compile.c */
/* Compiles for devices of @compute_capability, which is 90 for 9.0. Sets @log to NULL if the log is
 * empty. @headers, @log, @names and @lowered may be NULL. */
GBytes           *_gpu_cuda_compile            (int                  compute_capability,
                                                const char          *source,
                                                const char          *options,
                                                const char *const   *headers,
                                                gboolean             relocatable,
                                                const char *const   *names,
                                                char              ***lowered,
                                                char               **log,
                                                GError             **error);
/* Appends the versions of the driver and of NVRTC to @text. Together with the source, the options
 * and the device, these versions determine the result of a compilation. */
void              _gpu_cuda_compile_identify   (GString             *text);

G_END_DECLS
