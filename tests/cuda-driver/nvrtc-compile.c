/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Compiles CUDA C++ to a shared object for the host: preprocessor, scanner, compiler, linker. */
#include "config.h"

#include <string.h>
#include <glib/gstdio.h>

#include "gpumem/base/gpu-directory-private.h"
#include "gpumem/host/compiler/gpu-host-command.h"
#include "nvrtc.h"

/* The text of kernel.h and kernel-prelude.h. */
__asm__ (".pushsection .rodata\n"
         ".globl nvrtc_prelude\n"
         ".hidden nvrtc_prelude\n"
         "nvrtc_prelude: .incbin \"" KERNEL_HEADER "\"\n"
         ".incbin \"" KERNEL_PRELUDE "\"\n"
         ".byte 0\n"
         ".popsection");

static const char *const common_flags[] = {
  "-x", "c++", "-w", "-O1", "-fPIC", "-fno-exceptions", "-fno-rtti", "-fno-gnu-unique",
  "-fno-math-errno", "-fno-strict-aliasing", "-fwrapv", "-fno-threadsafe-statics",
  "-fno-stack-protector", "-fsanitize=alignment", "-fsanitize-undefined-trap-on-error", NULL,
};

/* Macros for CUDA's keywords, for the compiler only. The preprocessor must not expand the keywords,
 * because the scanner looks for them in the preprocessed text. */
static const char *const word_flags[] = {
  "-D__global__=__attribute__((used,noinline))", "-D__device__=", "-D__host__=", "-D__constant__=",
  "-D__shared__=static thread_local", "-D__forceinline__=inline", "-D__launch_bounds__(...)=",
  "-D__grid_constant__=", "-D__align__(n)=__attribute__((aligned(n)))", "-c", NULL,
};

static void
add_all (GPtrArray         *arguments,
         const char *const *words)
{
  for (; *words != NULL; words++)
    g_ptr_array_add (arguments, g_strdup (*words));
}

/* Adds the lines of the source to which the log refers. NVRTC also quotes them. */
static void
quote_lines (nvrtcProgram self)
{
  g_auto (GStrv) lines = g_strsplit (self->source, "\n", -1);
  g_auto (GStrv) messages = g_strsplit (self->log->str, "\n", -1);

  g_string_truncate (self->log, 0);
  for (guint i = 0; messages[i] != NULL; i++)
    {
      const char *number = g_str_has_prefix (messages[i], self->name)
                           ? messages[i] + strlen (self->name) : "";
      guint64 line = *number == ':' ? g_ascii_strtoull (number + 1, NULL, 10) : 0;

      g_string_append_printf (self->log, "%s%s", messages[i], messages[i + 1] != NULL ? "\n" : "");
      if (line > 0 && line <= g_strv_length (lines))
        g_string_append_printf (self->log, "  %s\n", lines[line - 1]);
    }
}

static gboolean
run (nvrtcProgram  self,
     GPtrArray    *arguments,
     const char   *input,
     const char   *output)
{
  g_ptr_array_add (arguments, g_strdup ("-o"));
  g_ptr_array_add (arguments, g_strdup (output));
  g_ptr_array_add (arguments, g_strdup (input));
  if (compiler_run (arguments, self->log))
    return TRUE;

  quote_lines (self);
  return FALSE;
}

static GPtrArray *
start_arguments (const NvrtcOptions *options)
{
  GPtrArray *arguments = g_ptr_array_new_with_free_func (g_free);

  add_all (arguments, common_flags);
  g_ptr_array_add (arguments, g_strconcat ("-std=", options->standard != NULL ? options->standard
                                                                              : "c++17", NULL));
  return arguments;
}

static gboolean
write_file (const char *folder,
            const char *name,
            const char *text)
{
  g_autofree char *path = g_build_filename (folder, name, NULL);
  g_autofree char *parent = g_path_get_dirname (path);

  g_mkdir_with_parents (parent, 0700);
  return g_file_set_contents (path, text, -1, NULL);
}

static gboolean
preprocess (nvrtcProgram        self,
            const NvrtcOptions *options,
            const char         *folder)
{
  g_autoptr (GPtrArray) arguments = start_arguments (options);
  g_autofree char *text = g_strdup_printf ("#line 1 \"%s\"\n%s\n", self->name, self->source);
  g_autofree char *input = g_build_filename (folder, "source.cu", NULL);
  g_autofree char *output = g_build_filename (folder, "source.ii", NULL);
  g_autofree char *headers = g_build_filename (folder, "headers", NULL);

  if (!write_file (folder, "prelude.h", nvrtc_prelude) ||
      !write_file (folder, "source.cu", text))
    return FALSE;
  for (guint i = 0; i < self->headers->len; i += 2)
    if (!write_file (headers, self->headers->pdata[i], self->headers->pdata[i + 1]))
      return FALSE;
  g_ptr_array_add (arguments, g_strdup ("-E"));
  g_ptr_array_add (arguments, g_strdup ("-include"));
  g_ptr_array_add (arguments, g_build_filename (folder, "prelude.h", NULL));
  g_ptr_array_add (arguments, g_strdup_printf ("-D__CUDA_ARCH__=%d", options->architecture * 10));
  /* As in NVRTC, the named headers precede those in the folders of the options. */
  g_ptr_array_add (arguments, g_strconcat ("-I", headers, NULL));
  for (guint i = 0; i < options->flags->len; i++)
    g_ptr_array_add (arguments, g_strdup (options->flags->pdata[i]));
  return run (self, arguments, input, output);
}

static void
scanned_kernel_free (gpointer data)
{
  ScannedKernel *kernel = data;

  g_free (kernel->name);
  g_free (kernel->max_threads);
  g_free (kernel);
}

static void
add_entry (GString    *code,
           guint       number,
           const char *name,
           const char *max_threads)
{
  g_string_append_printf (code, "static gpumem_kernel gpumem_kernel_%u = "
                          "gpumem_describe (\"%s\", &%s, (%s));\n"
                          "__attribute__ ((section (\"gpumem_kernels\"), used)) "
                          "static gpumem_kernel *gpumem_entry_%u = &gpumem_kernel_%u;\n",
                          number, name, name, max_threads != NULL ? max_threads : "0", number,
                          number);
}

/* Returns the program, followed by the descriptions of its kernels for the driver. */
static char *
scan (nvrtcProgram  self,
      const char   *text)
{
  g_autoptr (GPtrArray) kernels = g_ptr_array_new_with_free_func (scanned_kernel_free);
  g_autofree char *code = scan_source (text, kernels);
  GString *whole = g_string_new (code);

  g_string_append (whole, "\n# 1 \"kernels\"\n");
  for (guint i = 0; i < kernels->len; i++)
    {
      const ScannedKernel *kernel = kernels->pdata[i];

      add_entry (whole, i, kernel->name, kernel->max_threads);
    }
  g_string_append (whole, "\n# 1 \"name expressions\"\n");
  for (guint i = 0; i < self->expressions->len; i++)
    add_entry (whole, kernels->len + i, self->expressions->pdata[i], NULL);
  return g_string_free (whole, FALSE);
}

static gboolean
compile (nvrtcProgram        self,
         const NvrtcOptions *options,
         const char         *folder)
{
  g_autoptr (GPtrArray) arguments = start_arguments (options);
  g_autofree char *preprocessed = g_build_filename (folder, "source.ii", NULL);
  g_autofree char *input = g_build_filename (folder, "source.cc", NULL);
  g_autofree char *output = g_build_filename (folder, "source.o", NULL);
  g_autofree char *text = NULL;
  g_autofree char *code = NULL;

  if (!g_file_get_contents (preprocessed, &text, NULL, NULL))
    return FALSE;
  code = scan (self, text);
  if (!write_file (folder, "source.cc", code))
    return FALSE;
  add_all (arguments, word_flags);
  return run (self, arguments, input, output);
}

/* Finds the symbol of each kernel by its name in the source, and the lowered names of the
 * program's name expressions. */
static gboolean
find_lowered (nvrtcProgram  self,
              GBytes       *image,
              const char   *folder,
              GString      *entries)
{
  g_autofree char *path = g_build_filename (folder, "image.so", NULL);
  gsize size = g_bytes_get_size (image);
  g_autofree char *data = image_unmark (g_bytes_get_data (image, NULL), size);
  g_autoptr (GPtrArray) kernels = NULL;

  if (!g_file_set_contents (path, data, size, NULL))
    return FALSE;
  kernels = image_list_kernels (path, self->log);
  if (kernels == NULL)
    return FALSE;
  for (guint i = 0; i < kernels->len; i++)
    {
      const ImageKernel *kernel = kernels->pdata[i];

      g_hash_table_insert (self->lowered, g_strdup (kernel->name), g_strdup (kernel->lowered));
      if (!kernel->is_again)
        image_describe_as_ptx (kernel, entries);
    }
  return TRUE;
}

static gboolean
make_images (nvrtcProgram        self,
             const NvrtcOptions *options,
             const char         *folder)
{
  g_autofree char *path = g_build_filename (folder, "source.o", NULL);
  g_autoptr (GBytes) object = image_mark (path, options->architecture, options->compute_only);
  g_autoptr (GPtrArray) objects = g_ptr_array_new ();
  g_autoptr (GBytes) image = NULL;
  g_autoptr (GString) entries = g_string_new (NULL);

  if (object == NULL)
    return FALSE;
  g_ptr_array_add (objects, object);
  if (!options->relocatable)
    {
      image = image_link (objects, options->architecture, self->log);
      if (image == NULL || !find_lowered (self, image, folder, entries))
        return FALSE;
    }
  self->ptx = image_to_ptx (object, options->architecture, entries->str);
  if (!options->compute_only)
    self->cubin = g_bytes_ref (options->relocatable ? object : image);
  return TRUE;
}

gboolean
nvrtc_compile (nvrtcProgram        self,
               const NvrtcOptions *options)
{
  g_autofree char *folder = g_dir_make_tmp ("gpumem-nvrtc-XXXXXX", NULL);
  gboolean success;

  if (folder == NULL)
    return FALSE;
  success = preprocess (self, options, folder) && compile (self, options, folder) &&
            make_images (self, options, folder);
  _gpu_directory_remove (folder);
  return success;
}
