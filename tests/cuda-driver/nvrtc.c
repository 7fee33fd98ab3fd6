/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The stand-in for NVRTC. */
#include "config.h"

#include <dlfcn.h>
#include <string.h>
#include <glib/gstdio.h>

#include "gpumem/cuda/gpu-cuda-nvrtc.h"
#include "kernel.h"
#include "nvrtc.h"

#define EXPORT __attribute__ ((visibility ("default")))
#define DEFAULT_ARCHITECTURE 75
#define NO_LOWERED_NAMES_BEFORE_COMPILATION 9

#define GPU_CUDA_NVRTC_SYMBOL(result, name, parameters) EXPORT result name parameters;
#include "gpumem/cuda/gpu-cuda-nvrtc-symbols.h"
#undef GPU_CUDA_NVRTC_SYMBOL

/* The prelude, as it stands in its file. */
__asm__ (".pushsection .rodata\n"
         "nvrtc_prelude: .incbin \"" KERNEL_PRELUDE "\"\n"
         ".byte 0\n"
         ".popsection");
extern const char nvrtc_prelude[];

struct _nvrtcProgram
{
  char       *source;
  char       *name;
  GPtrArray  *headers;          /* name, text, name, text ... */
  GPtrArray  *expressions;
  GPtrArray  *kernels;          /* names of those that are no templates */
  GHashTable *lowered;          /* by expression */
  GString    *log;
  GBytes     *cubin;            /* nullable */
  char       *ptx;              /* nullable */
  gboolean    compiled;
};

static const int architectures[] = { 75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121 };

static const struct { nvrtcResult code; const char *name; } results[] = {
#define RESULT(name, value) { value, #name },
  GPU_CUDA_NVRTC_CONSTANTS (RESULT)
#undef RESULT
};

const char *
nvrtcGetErrorString (nvrtcResult result)
{
  for (gsize i = 0; i < G_N_ELEMENTS (results); i++)
    if (results[i].code == result)
      return results[i].name;
  return "NVRTC_ERROR unknown";
}

nvrtcResult
nvrtcVersion (int *major,
              int *minor)
{
  *major = 13;
  *minor = 0;
  return NVRTC_SUCCESS;
}

nvrtcResult
nvrtcGetNumSupportedArchs (int *n_architectures)
{
  *n_architectures = G_N_ELEMENTS (architectures);
  return NVRTC_SUCCESS;
}

nvrtcResult
nvrtcGetSupportedArchs (int *list)
{
  memcpy (list, architectures, sizeof architectures);
  return NVRTC_SUCCESS;
}

nvrtcResult
nvrtcCreateProgram (nvrtcProgram      *program,
                    const char        *source,
                    const char        *name,
                    int                n_headers,
                    const char *const *headers,
                    const char *const *include_names)
{
  nvrtcProgram self;

  if (program == NULL || source == NULL || n_headers < 0)
    return NVRTC_ERROR_INVALID_INPUT;
  self = g_new0 (struct _nvrtcProgram, 1);
  self->source = g_strdup (source);
  self->name = g_strdup (name != NULL ? name : "default_program");
  self->headers = g_ptr_array_new_with_free_func (g_free);
  for (int i = 0; i < n_headers; i++)
    {
      g_ptr_array_add (self->headers, g_strdup (include_names[i]));
      g_ptr_array_add (self->headers, g_strdup (headers[i]));
    }
  self->expressions = g_ptr_array_new_with_free_func (g_free);
  self->kernels = g_ptr_array_new_with_free_func (g_free);
  self->lowered = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  self->log = g_string_new (NULL);
  *program = self;
  return NVRTC_SUCCESS;
}

nvrtcResult
nvrtcDestroyProgram (nvrtcProgram *program)
{
  nvrtcProgram self = *program;

  g_free (self->source);
  g_free (self->name);
  g_free (self->ptx);
  g_ptr_array_unref (self->headers);
  g_ptr_array_unref (self->expressions);
  g_ptr_array_unref (self->kernels);
  g_hash_table_unref (self->lowered);
  g_string_free (self->log, TRUE);
  g_clear_pointer (&self->cubin, g_bytes_unref);
  g_free (self);
  *program = NULL;
  return NVRTC_SUCCESS;
}

nvrtcResult
nvrtcAddNameExpression (nvrtcProgram       program,
                        const char *const  expression)
{
  g_ptr_array_add (program->expressions, g_strdup (expression));
  return NVRTC_SUCCESS;
}

/* --- options --------------------------------------------------------------------------- */

typedef struct
{
  int        architecture;
  gboolean   compute_only;
  gboolean   relocatable;
  GPtrArray *flags;             /* for the preprocessor */
  char      *standard;
}
Options;

typedef enum
{
  OPTION_IGNORED,               /* --name */
  OPTION_IGNORED_VALUE,         /* --name=value, --name value */
  OPTION_ARCHITECTURE,
  OPTION_STANDARD,
  OPTION_PASSED,                /* on to c++, with a flag of one letter */
  OPTION_INCLUDE,
  OPTION_RELOCATABLE,
  OPTION_MAYBE_RELOCATABLE
} OptionKind;

static const struct
{
  const char *name;
  OptionKind  kind;
  const char *flag;
}
option_names[] = {
  { "gpu-architecture", OPTION_ARCHITECTURE, NULL },
  { "arch", OPTION_ARCHITECTURE, NULL },
  { "std", OPTION_STANDARD, NULL },
  { "include-path", OPTION_PASSED, "-I" },
  { "I", OPTION_PASSED, "-I" },
  { "define-macro", OPTION_PASSED, "-D" },
  { "D", OPTION_PASSED, "-D" },
  { "undefine-macro", OPTION_PASSED, "-U" },
  { "U", OPTION_PASSED, "-U" },
  { "pre-include", OPTION_INCLUDE, NULL },
  { "include", OPTION_INCLUDE, NULL },
  { "device-c", OPTION_RELOCATABLE, NULL },
  { "dc", OPTION_RELOCATABLE, NULL },
  { "relocatable-device-code", OPTION_MAYBE_RELOCATABLE, NULL },
  { "rdc", OPTION_MAYBE_RELOCATABLE, NULL },
  { "maxrregcount", OPTION_IGNORED_VALUE, NULL },
  { "ftz", OPTION_IGNORED_VALUE, NULL },
  { "prec-sqrt", OPTION_IGNORED_VALUE, NULL },
  { "prec-div", OPTION_IGNORED_VALUE, NULL },
  { "fmad", OPTION_IGNORED_VALUE, NULL },
  { "diag-suppress", OPTION_IGNORED_VALUE, NULL },
  { "diag-warn", OPTION_IGNORED_VALUE, NULL },
  { "diag-error", OPTION_IGNORED_VALUE, NULL },
  { "ptxas-options", OPTION_IGNORED_VALUE, NULL },
  { "optimization-info", OPTION_IGNORED_VALUE, NULL },
  { "split-compile", OPTION_IGNORED_VALUE, NULL },
  { "dopt", OPTION_IGNORED_VALUE, NULL },
  { "device-w", OPTION_IGNORED, NULL },
  { "dw", OPTION_IGNORED, NULL },
  { "device-debug", OPTION_IGNORED, NULL },
  { "G", OPTION_IGNORED, NULL },
  { "generate-line-info", OPTION_IGNORED, NULL },
  { "lineinfo", OPTION_IGNORED, NULL },
  { "use_fast_math", OPTION_IGNORED, NULL },
  { "extra-device-vectorization", OPTION_IGNORED, NULL },
  { "extensible-whole-program", OPTION_IGNORED, NULL },
  { "ewp", OPTION_IGNORED, NULL },
  { "device-int128", OPTION_IGNORED, NULL },
  { "no-source-include", OPTION_IGNORED, NULL },
  { "disable-warnings", OPTION_IGNORED, NULL },
  { "w", OPTION_IGNORED, NULL },
  { "restrict", OPTION_IGNORED, NULL },
  { "device-as-default-execution-space", OPTION_IGNORED, NULL },
  { "default-device", OPTION_IGNORED, NULL },
  { "display-error-number", OPTION_IGNORED, NULL },
  { "no-display-error-number", OPTION_IGNORED, NULL },
  { "minimal", OPTION_IGNORED, NULL },
};

/* The place in the table and where a value begins, if it is in the same word. */
static gssize
find_option (const char  *option,
             const char **value)
{
  const char *name = option + (option[0] == '-') + (option[0] == '-' && option[1] == '-');
  gsize length = strcspn (name, "=");

  *value = name[length] == '=' ? name + length + 1 : NULL;
  if (name == option)
    return -1;
  for (gsize i = 0; i < G_N_ELEMENTS (option_names); i++)
    if (strlen (option_names[i].name) == length && strncmp (name, option_names[i].name, length) == 0)
      return i;
  for (gsize i = 0; i < G_N_ELEMENTS (option_names); i++)
    if (option_names[i].kind == OPTION_PASSED && option_names[i].name[1] == '\0' &&
        name[0] == option_names[i].name[0] && name == option + 1)
      {
        *value = name + 1;
        return i;
      }
  return -1;
}

static gboolean
set_architecture (Options    *options,
                  const char *value)
{
  const char *number = strchr (value, '_');

  options->compute_only = g_str_has_prefix (value, "compute_");
  if (number == NULL || (!options->compute_only && !g_str_has_prefix (value, "sm_")))
    return FALSE;
  options->architecture = g_ascii_strtoull (number + 1, NULL, 10);
  for (gsize i = 0; i < G_N_ELEMENTS (architectures); i++)
    if (architectures[i] == options->architecture)
      return TRUE;
  return FALSE;
}

static gboolean
apply_option (Options    *options,
              gsize       place,
              const char *value)
{
  switch (option_names[place].kind)
    {
    case OPTION_ARCHITECTURE:
      return set_architecture (options, value);
    case OPTION_STANDARD:
      g_free (options->standard);
      options->standard = g_strdup (value);
      return g_str_has_prefix (value, "c++");
    case OPTION_PASSED:
      g_ptr_array_add (options->flags, g_strconcat (option_names[place].flag, value, NULL));
      return TRUE;
    case OPTION_INCLUDE:
      g_ptr_array_add (options->flags, g_strdup ("-include"));
      g_ptr_array_add (options->flags, g_strdup (value));
      return TRUE;
    case OPTION_RELOCATABLE:
      options->relocatable = TRUE;
      return TRUE;
    case OPTION_MAYBE_RELOCATABLE:
      options->relocatable = g_str_equal (value, "true");
      return TRUE;
    default:
      return TRUE;
    }
}

static gboolean
parse_options (nvrtcProgram       self,
               Options           *options,
               int                n,
               const char *const *words)
{
  for (int i = 0; i < n; i++)
    {
      const char *word = words[i];
      const char *value;
      gssize place = find_option (word, &value);
      OptionKind kind = place >= 0 ? option_names[place].kind : OPTION_IGNORED;

      if (kind != OPTION_IGNORED && kind != OPTION_RELOCATABLE && value == NULL && i + 1 < n)
        value = words[++i];
      if (place < 0)
        g_string_append_printf (self->log, "nvrtc: error: unrecognized option %s found\n", word);
      else if (!apply_option (options, place, value != NULL ? value : ""))
        g_string_append_printf (self->log, "nvrtc: error: invalid value for %s\n", word);
      else
        continue;
      return FALSE;
    }
  return TRUE;
}

/* --- compilation -------------------------------------------------------------------------- */

static const char *const common_flags[] = {
  "-x", "c++", "-w", "-O1", "-fPIC", "-fno-exceptions", "-fno-rtti", "-fno-gnu-unique",
  "-fno-math-errno", "-fno-strict-aliasing", "-fwrapv", "-fno-threadsafe-statics",
  "-fno-stack-protector", NULL,
};

/* What the scanner has to see as it was written. */
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

static gboolean
run (nvrtcProgram  self,
     GPtrArray    *arguments,
     const char   *input,
     const char   *output)
{
  g_autofree char *log = NULL;
  gboolean success;

  g_ptr_array_add (arguments, g_strdup ("-o"));
  g_ptr_array_add (arguments, g_strdup (output));
  g_ptr_array_add (arguments, g_strdup (input));
  g_ptr_array_add (arguments, NULL);
  success = compiler_run ((const char *const *) arguments->pdata, &log);
  g_string_append (self->log, log);
  return success;
}

static GPtrArray *
start_arguments (const Options *options)
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
            const char *text,
            GPtrArray  *files)
{
  char *path = g_build_filename (folder, name, NULL);

  g_ptr_array_add (files, path);
  if (strchr (name, '/') != NULL)
    {
      g_autofree char *parent = g_path_get_dirname (path);

      g_mkdir_with_parents (parent, 0700);
    }
  return g_file_set_contents (path, text, -1, NULL);
}

static gboolean
preprocess (nvrtcProgram   self,
            const Options *options,
            const char    *folder,
            GPtrArray     *files)
{
  g_autoptr (GPtrArray) arguments = start_arguments (options);
  g_autofree char *text = g_strdup_printf ("#line 1 \"%s\"\n%s\n", self->name, self->source);
  g_autofree char *input = g_build_filename (folder, "source.cu", NULL);
  g_autofree char *output = g_build_filename (folder, "source.ii", NULL);

  if (!write_file (folder, "prelude.h", nvrtc_prelude, files) ||
      !write_file (folder, "source.cu", text, files))
    return FALSE;
  for (guint i = 0; i < self->headers->len; i += 2)
    if (!write_file (folder, self->headers->pdata[i], self->headers->pdata[i + 1], files))
      return FALSE;
  g_ptr_array_add (arguments, g_strdup ("-E"));
  g_ptr_array_add (arguments, g_strdup ("-include"));
  g_ptr_array_add (arguments, g_build_filename (folder, "prelude.h", NULL));
  g_ptr_array_add (arguments, g_strdup_printf ("-D__CUDA_ARCH__=%d", options->architecture * 10));
  for (guint i = 0; i < options->flags->len; i++)
    g_ptr_array_add (arguments, g_strdup (options->flags->pdata[i]));
  g_ptr_array_add (arguments, g_strconcat ("-I", folder, NULL));
  g_ptr_array_add (files, g_strdup (output));
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

/* The program, and behind it what tells the driver of its kernels. */
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
      g_ptr_array_add (self->kernels, g_strdup (kernel->name));
    }
  g_string_append (whole, "\n# 1 \"name expressions\"\n");
  for (guint i = 0; i < self->expressions->len; i++)
    add_entry (whole, kernels->len + i, self->expressions->pdata[i], NULL);
  return g_string_free (whole, FALSE);
}

static gboolean
compile (nvrtcProgram   self,
         const Options *options,
         const char    *folder,
         GPtrArray     *files)
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
  if (!write_file (folder, "source.cc", code, files))
    return FALSE;
  add_all (arguments, word_flags);
  g_ptr_array_add (files, g_strdup (output));
  return run (self, arguments, input, output);
}

/* The names of kernels in the object, by what they are called in the source. */
static gboolean
find_lowered (nvrtcProgram  self,
              GBytes       *image,
              const char   *folder,
              GPtrArray    *files)
{
  g_autofree char *path = g_build_filename (folder, "image.so", NULL);
  gsize size = g_bytes_get_size (image);
  g_autofree char *data = image_unmark (g_bytes_get_data (image, NULL), size);
  KernelEntry **(*get_kernels) (size_t *);
  KernelEntry **kernels;
  gpointer module;
  gsize n;

  g_ptr_array_add (files, g_strdup (path));
  if (!g_file_set_contents (path, data, size, NULL))
    return FALSE;
  module = dlopen (path, RTLD_NOW | RTLD_LOCAL);
  if (module == NULL)
    {
      g_string_append_printf (self->log, "%s\n", dlerror ());
      return FALSE;
    }
  get_kernels = dlsym (module, "gpumem_get_kernels");
  kernels = get_kernels (&n);
  for (gsize i = 0; i < n; i++)
    {
      Dl_info info;

      if (dladdr (kernels[i]->function, &info) != 0 && info.dli_sname != NULL)
        g_hash_table_insert (self->lowered, g_strdup (kernels[i]->name), g_strdup (info.dli_sname));
    }
  dlclose (module);
  return TRUE;
}

/* What people look for in PTX. */
static char *
list_entries (nvrtcProgram self)
{
  GString *text = g_string_new (NULL);
  g_autoptr (GPtrArray) names = g_ptr_array_new ();

  for (guint i = 0; i < self->kernels->len; i++)
    g_ptr_array_add (names, self->kernels->pdata[i]);
  for (guint i = 0; i < self->expressions->len; i++)
    g_ptr_array_add (names, self->expressions->pdata[i]);
  for (guint i = 0; i < names->len; i++)
    {
      const char *lowered = g_hash_table_lookup (self->lowered, names->pdata[i]);

      g_string_append_printf (text, ".visible .entry %s()\n{\n  ret;\n}\n",
                              lowered != NULL ? lowered : (char *) names->pdata[i]);
    }
  return g_string_free (text, FALSE);
}

static gboolean
make_images (nvrtcProgram   self,
             const Options *options,
             const char    *folder,
             GPtrArray     *files)
{
  g_autofree char *path = g_build_filename (folder, "source.o", NULL);
  g_autoptr (GBytes) object = image_mark (path, options->architecture, options->compute_only);
  g_autoptr (GPtrArray) objects = g_ptr_array_new ();
  g_autoptr (GBytes) image = NULL;
  g_autofree char *log = NULL;
  g_autofree char *entries = NULL;

  if (object == NULL)
    return FALSE;
  g_ptr_array_add (objects, object);
  if (!options->relocatable)
    {
      image = image_link (objects, options->architecture, &log);
      g_string_append (self->log, log != NULL ? log : "");
      if (image == NULL)
        return FALSE;
      if (!find_lowered (self, image, folder, files))
        return FALSE;
    }
  entries = list_entries (self);
  self->ptx = image_to_ptx (object, options->architecture, entries);
  if (!options->compute_only)
    self->cubin = g_bytes_ref (options->relocatable ? object : image);
  return TRUE;
}

static void
remove_files (const char *folder,
              GPtrArray  *files)
{
  for (guint i = 0; i < files->len; i++)
    {
      g_autofree char *parent = g_path_get_dirname (files->pdata[i]);

      g_unlink (files->pdata[i]);
      g_rmdir (parent);
    }
  g_rmdir (folder);
}

nvrtcResult
nvrtcCompileProgram (nvrtcProgram       self,
                     int                n_options,
                     const char *const *words)
{
  g_autoptr (GPtrArray) flags = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GPtrArray) files = g_ptr_array_new_with_free_func (g_free);
  g_autofree char *folder = NULL;
  Options options = { .architecture = DEFAULT_ARCHITECTURE, .flags = flags };
  nvrtcResult result = NVRTC_SUCCESS;

  g_string_truncate (self->log, 0);
  g_ptr_array_set_size (self->kernels, 0);
  g_clear_pointer (&self->cubin, g_bytes_unref);
  g_clear_pointer (&self->ptx, g_free);
  if (!parse_options (self, &options, n_options, words))
    {
      g_free (options.standard);
      return NVRTC_ERROR_INVALID_OPTION;
    }
  folder = g_dir_make_tmp ("gpumem-nvrtc-XXXXXX", NULL);
  if (folder == NULL)
    result = NVRTC_ERROR_BUILTIN_OPERATION_FAILURE;
  else if (!preprocess (self, &options, folder, files) ||
           !compile (self, &options, folder, files) ||
           !make_images (self, &options, folder, files))
    result = NVRTC_ERROR_COMPILATION;
  if (folder != NULL)
    remove_files (folder, files);
  g_free (options.standard);
  self->compiled = result == NVRTC_SUCCESS;
  return result;
}

/* --- results ------------------------------------------------------------------------------ */

nvrtcResult
nvrtcGetProgramLogSize (nvrtcProgram  program,
                        size_t       *size)
{
  *size = program->log->len + 1;
  return NVRTC_SUCCESS;
}

nvrtcResult
nvrtcGetProgramLog (nvrtcProgram  program,
                    char         *log)
{
  memcpy (log, program->log->str, program->log->len + 1);
  return NVRTC_SUCCESS;
}

nvrtcResult
nvrtcGetCUBINSize (nvrtcProgram  program,
                   size_t       *size)
{
  if (!program->compiled)
    return NVRTC_ERROR_INVALID_INPUT;
  *size = program->cubin != NULL ? g_bytes_get_size (program->cubin) : 0;
  return NVRTC_SUCCESS;
}

nvrtcResult
nvrtcGetCUBIN (nvrtcProgram  program,
               char         *cubin)
{
  if (!program->compiled || program->cubin == NULL)
    return NVRTC_ERROR_INVALID_INPUT;
  memcpy (cubin, g_bytes_get_data (program->cubin, NULL), g_bytes_get_size (program->cubin));
  return NVRTC_SUCCESS;
}

nvrtcResult
nvrtcGetPTXSize (nvrtcProgram  program,
                 size_t       *size)
{
  if (!program->compiled)
    return NVRTC_ERROR_INVALID_INPUT;
  *size = strlen (program->ptx) + 1;
  return NVRTC_SUCCESS;
}

nvrtcResult
nvrtcGetPTX (nvrtcProgram  program,
             char         *ptx)
{
  if (!program->compiled)
    return NVRTC_ERROR_INVALID_INPUT;
  memcpy (ptx, program->ptx, strlen (program->ptx) + 1);
  return NVRTC_SUCCESS;
}

nvrtcResult
nvrtcGetLoweredName (nvrtcProgram       program,
                     const char *const  expression,
                     const char       **lowered)
{
  if (!program->compiled)
    return NO_LOWERED_NAMES_BEFORE_COMPILATION;
  *lowered = g_hash_table_lookup (program->lowered, expression);
  return *lowered != NULL ? NVRTC_SUCCESS : NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID;
}
