/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/backend/gpu-backend.h"

G_BEGIN_DECLS

/* The part of a GpuProgram that owns the driver's program object. The kernels of the program hold
 * references to this structure, so the GpuProgram may be finalized earlier. */
typedef struct
{
  gatomicrefcount   refs;
  GpuNativeContext *context;
  GpuNativeProgram *native;
  GVariant         *descriptions;   /* nullable; for a program from the cache: the arguments of its
                                     * kernels */
  GHashTable       *lowered;        /* nullable; maps names in the source to names in the binary */
} GpuProgramCore;

GpuProgramCore *_gpu_program_core_ref   (GpuProgramCore    *core);
void            _gpu_program_core_unref (GpuProgramCore    *core);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuProgramCore, _gpu_program_core_unref)

/* The inputs of a program. Exactly one of source, binary, il and images is not NULL. */
typedef struct
{
  const char      *source;
  char           **names;           /* nullable; of templates and overloads in source */
  char           **headers;         /* nullable; names and texts, as for build_source() */
  GBytes          *binary;
  GBytes          *il;
  GPtrArray       *images;          /* of GBytes, to link */
  const char      *options;
  GpuProgramFlags  flags;
} GpuProgramInputs;

/* Builds a program from source, loads it from the cache, or creates it from one of the other
 * inputs. */
GpuProgramCore *_gpu_program_core_build (GpuNativeContext        *context,
                                         const GpuProgramInputs  *inputs,
                                         gboolean                *from_cache,
                                         GError                 **error);
/* Removes the line break at the end of the compiler's log in @failure. */
void            _gpu_program_end_log    (GError                  *failure);
/* Creates the core of a program that was built outside this library. */
GpuProgramCore *_gpu_program_core_wrap  (GpuNativeContext        *context,
                                         guint64                  handle,
                                         GpuWrapMode              mode,
                                         const char              *function,
                                         GError                 **error);
/* Returns the name in the binary for @name, which is a name in the source. Returns @name itself if
 * the two names do not differ. */
const char     *_gpu_program_core_lower (GpuProgramCore    *core,
                                         const char        *name);

/* Returns (transfer none) the core, or NULL for a program that was never initialised. */
GpuProgramCore *_gpu_program_get_core   (GpuProgram        *program);
/* Returns FALSE with an error if @program was never initialised or its context is lost. */
gboolean        _gpu_program_check_built (GpuProgram       *program,
                                         const char        *function,
                                         GError           **error);
/* Makes @program a built program. Takes ownership of @core. */
void            _gpu_program_set_core   (GpuProgram        *program,
                                         GpuProgramCore    *core);
/* Sets the parts to link. Must be called before @program is initialised. */
void            _gpu_program_set_images (GpuProgram        *program,
                                         GBytes           **images,
                                         gsize              n_images);
/* Sets @headers to the headers in @table, sorted by name, in the form of build_source(), or to NULL
 * if there are none. Fails if a name is not a plain relative path. */
gboolean        _gpu_program_list_headers (GHashTable      *table,
                                         char            ***headers,
                                         GError           **error);
/* Returns the options of @context, followed by @options. Fails if the last option of either lacks
 * its value or a quotation mark. */
char           *_gpu_program_join_options (GpuContext      *context,
                                         const char        *options,
                                         GError           **error);

G_END_DECLS
