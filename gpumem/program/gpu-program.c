/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/base/gpu-error-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/program/gpu-program-private.h"

/**
 * SECTION:gpu-program
 * @title: GpuProgram
 * @short_description: code for a device
 * @see_also: #GpuKernel
 */

/**
 * GpuProgram:
 *
 * A program that is built for the devices of a context and contains kernels.
 *
 * |[<!-- language="C" -->
 * static const char source[] =
 *   "__kernel void scale (__global float *x, float a) { x[get_global_id (0)] *= a; }";
 * g_autoptr (GpuProgram) program = gpu_program_new_from_source (context, source, NULL, &error);
 * g_autoptr (GpuKernel) scale = NULL;
 *
 * if (program == NULL)
 *   g_error ("%s", error->message);
 *
 * scale = gpu_program_get_kernel (program, "scale", &error);
 * ]|
 *
 * A program is built from source, or loaded from one of these formats: a binary from
 * gpu_program_get_binary(); a cubin, a fatbin or PTX on CUDA; SPIR-V on OpenCL.
 *
 * The source is in OpenCL C or, on CUDA, in CUDA C++. The host back end accepts OpenCL C source
 * that is also valid C, and CUDA accepts OpenCL C source that is also valid C++. See [the portable
 * dialect][portable-kernels] for source that works on all back ends.
 *
 * The constructor builds the program. If the build fails, the constructor fails with
 * %GPU_ERROR_BUILD_FAILED, and the message contains the log of the compiler.
 *
 * A program is immutable once it is built, so any thread may use it.
 *
 * The library caches built programs on disk: see [The program cache][environment-cache].
 * %GPU_PROGRAM_FLAGS_NO_CACHE disables the cache for one program.
 *
 * Since: 0.1
 */
struct _GpuProgram
{
  GObject          parent_instance;
  GpuContext      *context;
  char            *source;          /* nullable */
  char            *options;         /* once the program is built, the string begins with the options
                                     * of the context */
  GBytes          *binary;          /* an input of the build; NULL once the program is built */
  GBytes          *il;
  GPtrArray       *images;          /* of GBytes: an input of the build; NULL once the program is
                                     * built */
  char           **names;           /* nullable; of templates and overloads in source */
  GHashTable      *headers;         /* nullable; texts by name */
  GpuProgramFlags  flags;
  GpuProgramCore  *core;            /* NULL until built */
  gboolean         from_cache;
};

static void gpu_program_initable_iface_init (GInitableIface *iface);

G_DEFINE_FINAL_TYPE_WITH_CODE (GpuProgram, gpu_program, G_TYPE_OBJECT,
                               G_IMPLEMENT_INTERFACE (G_TYPE_INITABLE,
                                                      gpu_program_initable_iface_init))

enum
{
  PROP_0,
  PROP_CONTEXT,
  PROP_SOURCE,
  PROP_OPTIONS,
  PROP_BINARY,
  PROP_IL,
  PROP_FLAGS,
  PROP_NAMES,
  PROP_HEADERS,
  PROP_BUILD_LOG,
  PROP_FROM_CACHE,
  PROP_NATIVE_HANDLE,
  N_PROPS
};

static GParamSpec *props[N_PROPS];

/* Returns a copy, because the caller may change @table later. */
static GHashTable *
copy_headers (GHashTable *table)
{
  GHashTable *copy;
  GHashTableIter iter;
  gpointer name;
  gpointer text;

  if (table == NULL)
    return NULL;

  copy = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  g_hash_table_iter_init (&iter, table);
  while (g_hash_table_iter_next (&iter, &name, &text))
    g_hash_table_insert (copy, g_strdup (name), g_strdup (text));

  return copy;
}

static void
gpu_program_set_property (GObject      *object,
                          guint         id,
                          const GValue *value,
                          GParamSpec   *pspec)
{
  GpuProgram *program = GPU_PROGRAM (object);

  switch (id)
    {
    case PROP_CONTEXT:
      program->context = g_value_dup_object (value);
      break;
    case PROP_SOURCE:
      program->source = g_value_dup_string (value);
      break;
    case PROP_OPTIONS:
      program->options = g_value_dup_string (value);
      break;
    case PROP_BINARY:
      program->binary = g_value_dup_boxed (value);
      break;
    case PROP_IL:
      program->il = g_value_dup_boxed (value);
      break;
    case PROP_FLAGS:
      program->flags = g_value_get_flags (value);
      break;
    case PROP_NAMES:
      program->names = g_value_dup_boxed (value);
      break;
    case PROP_HEADERS:
      program->headers = copy_headers (g_value_get_boxed (value));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static guint64
get_native_handle (GpuProgram *program)
{
  GpuProgramCore *core = program->core;

  if (core == NULL || core->context->backend->program->get_handle == NULL)
    return 0;

  return core->context->backend->program->get_handle (core->native);
}

static void
gpu_program_get_property (GObject    *object,
                          guint       id,
                          GValue     *value,
                          GParamSpec *pspec)
{
  GpuProgram *program = GPU_PROGRAM (object);

  switch (id)
    {
    case PROP_CONTEXT:
      g_value_set_object (value, program->context);
      break;
    case PROP_SOURCE:
      g_value_set_string (value, program->source);
      break;
    case PROP_OPTIONS:
      g_value_set_string (value, program->options != NULL ? program->options : "");
      break;
    case PROP_FLAGS:
      g_value_set_flags (value, program->flags);
      break;
    case PROP_NAMES:
      g_value_set_boxed (value, program->names);
      break;
    case PROP_HEADERS:
      g_value_set_boxed (value, program->headers);
      break;
    case PROP_BUILD_LOG:
      g_value_set_string (value, gpu_program_get_build_log (program));
      break;
    case PROP_FROM_CACHE:
      g_value_set_boolean (value, program->from_cache);
      break;
    case PROP_NATIVE_HANDLE:
      g_value_set_uint64 (value, get_native_handle (program));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gpu_program_finalize (GObject *object)
{
  GpuProgram *program = GPU_PROGRAM (object);

  g_clear_pointer (&program->core, _gpu_program_core_unref);
  g_clear_pointer (&program->binary, g_bytes_unref);
  g_clear_pointer (&program->il, g_bytes_unref);
  g_clear_pointer (&program->images, g_ptr_array_unref);
  g_strfreev (program->names);
  g_clear_pointer (&program->headers, g_hash_table_unref);
  g_free (program->source);
  g_free (program->options);
  g_clear_object (&program->context);
  _gpu_live_add (GPU_LIVE_PROGRAM, -1);

  G_OBJECT_CLASS (gpu_program_parent_class)->finalize (object);
}

static void
install_inputs (void)
{
  const GParamFlags flags = G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS;

  /**
   * GpuProgram:context:
   *
   * The context for which the program was built.
   *
   * Since: 0.1
   */
  props[PROP_CONTEXT] = g_param_spec_object ("context", NULL, NULL, GPU_TYPE_CONTEXT,
                                             G_PARAM_READWRITE | flags);
  /**
   * GpuProgram:source:
   *
   * The source of the program, or %NULL if it was not built from source.
   *
   * Since: 0.1
   */
  props[PROP_SOURCE] = g_param_spec_string ("source", NULL, NULL, NULL,
                                            G_PARAM_READWRITE | flags);
  /**
   * GpuProgram:options:
   *
   * The options of the compiler. Once the program is built, the value begins with the options of
   * the context.
   *
   * Since: 0.1
   */
  props[PROP_OPTIONS] = g_param_spec_string ("options", NULL, NULL, NULL,
                                             G_PARAM_READWRITE | flags);
  /**
   * GpuProgram:binary:
   *
   * The binary from which the program is loaded. gpu_program_get_binary() returns the binary of a
   * built program.
   *
   * Since: 0.1
   */
  props[PROP_BINARY] = g_param_spec_boxed ("binary", NULL, NULL, G_TYPE_BYTES,
                                           G_PARAM_WRITABLE | flags);
  /**
   * GpuProgram:il:
   *
   * The SPIR-V module from which the program is built.
   *
   * Since: 0.1
   */
  props[PROP_IL] = g_param_spec_boxed ("il", NULL, NULL, G_TYPE_BYTES, G_PARAM_WRITABLE | flags);
  /**
   * GpuProgram:flags:
   *
   * The flags of the build.
   *
   * Since: 0.1
   */
  props[PROP_FLAGS] = g_param_spec_flags ("flags", NULL, NULL, GPU_TYPE_PROGRAM_FLAGS,
                                          GPU_PROGRAM_FLAGS_NONE, G_PARAM_READWRITE | flags);
}

static void
install_handle (void)
{
  /**
   * GpuProgram:native-handle:
   *
   * The driver's handle of the program: a `cl_program` on OpenCL, a `CUmodule` on CUDA. The program
   * and its kernels own the handle. The value is 0 on the host, and for a program that was never
   * built.
   *
   * Since: 0.1
   */
  props[PROP_NATIVE_HANDLE] = g_param_spec_uint64 ("native-handle", NULL, NULL, 0, G_MAXUINT64, 0,
                                                   G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);
}

static void
gpu_program_class_init (GpuProgramClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->set_property = gpu_program_set_property;
  object_class->get_property = gpu_program_get_property;
  object_class->finalize = gpu_program_finalize;

  install_inputs ();
  /**
   * GpuProgram:names:
   *
   * Names of templates, overloaded functions and variables as written in the source, see
   * gpu_program_new_from_source_full().
   *
   * Since: 0.1
   */
  props[PROP_NAMES] = g_param_spec_boxed ("names", NULL, NULL, G_TYPE_STRV,
                                          G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY |
                                          G_PARAM_STATIC_STRINGS);
  /**
   * GpuProgram:headers: (type GHashTable(utf8,utf8))
   *
   * The headers that the source may include, by name, see gpu_program_new_from_source_full(), or
   * %NULL.
   *
   * Since: 0.1
   */
  props[PROP_HEADERS] = g_param_spec_boxed ("headers", NULL, NULL, G_TYPE_HASH_TABLE,
                                            G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY |
                                            G_PARAM_STATIC_STRINGS);
  /**
   * GpuProgram:build-log:
   *
   * The output of the compiler, for example warnings.
   *
   * Since: 0.1
   */
  props[PROP_BUILD_LOG] = g_param_spec_string ("build-log", NULL, NULL, NULL,
                                               G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);
  /**
   * GpuProgram:from-cache:
   *
   * Whether the program was loaded from the cache instead of built.
   *
   * Since: 0.1
   */
  props[PROP_FROM_CACHE] = g_param_spec_boolean ("from-cache", NULL, NULL, FALSE,
                                                 G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);
  install_handle ();
  g_object_class_install_properties (object_class, N_PROPS, props);
}

static void
gpu_program_init (GpuProgram *program G_GNUC_UNUSED)
{
  _gpu_live_add (GPU_LIVE_PROGRAM, 1);
}

static gboolean
has_shell_words (GpuContext *context)
{
  return _gpu_context_get_native (context)->backend->program->options_are_shell_words;
}

/* Returns the words of @options, which are not blank, as the compiler of @context splits them. */
static char **
split_options (GpuContext  *context,
               const char  *options,
               GError     **error)
{
  g_autofree char *text = NULL;
  char **words = NULL;

  if (has_shell_words (context))
    return g_shell_parse_argv (options, NULL, &words, error) ? words : NULL;

  text = g_strstrip (g_strdup (options));

  return g_regex_split_simple ("\\s+", text, G_REGEX_RAW, 0);
}

/* Fails if a quotation mark of @options is not closed, or if the last option lacks its value.
 * Otherwise, the option would take its value from the options that follow. */
static gboolean
check_options (GpuContext  *context,
               const char  *options,
               const char  *owner,
               GError     **error)
{
  static const char *const valued[] =
  {
    "-D", "-I", "-U", "-include", "--define-macro", "--include-path", "--pre-include",
    "--undefine-macro", NULL
  };
  g_auto (GStrv) words = NULL;
  g_autoptr (GError) reason = NULL;

  if (options == NULL || options[strspn (options, " \t\n\v\f\r")] == '\0')
    return TRUE;

  words = split_options (context, options, &reason);
  if (words == NULL)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_BUILD_FAILED, "the options%s: %s", owner,
                   reason->message);
      return FALSE;
    }

  for (gsize i = 0; words[i] != NULL; i++)
    {
      if (!g_strv_contains (valued, words[i]))
        continue;

      if (words[i + 1] == NULL || words[i + 1][0] == '\0')
        {
          g_set_error (error, GPU_ERROR, GPU_ERROR_BUILD_FAILED,
                       "the options%s \"%s\": %s requires a value", owner, options, words[i]);
          return FALSE;
        }
      i++;
    }

  return TRUE;
}

char *
_gpu_program_join_options (GpuContext  *context,
                           const char  *own,
                           GError     **error)
{
  const char *common = gpu_context_get_build_options (context);

  if (!check_options (context, common, " of the context", error)
      || !check_options (context, own, "", error))
    return NULL;

  if (common == NULL || *common == '\0')
    return g_strdup (own != NULL ? own : "");
  if (own == NULL || *own == '\0')
    return g_strdup (common);

  /* The end of the line ends a comment of a shell. */
  return g_strconcat (common, has_shell_words (context) ? "\n" : " ", own, NULL);
}

static const char *
function_of (GpuProgram *program)
{
  if (program->binary != NULL)
    return "gpu_program_new_from_binary";
  if (program->il != NULL)
    return "gpu_program_new_from_il";
  if (program->images != NULL)
    return "gpu_program_new_linked";

  return "gpu_program_new_from_source";
}

static gboolean
check_inputs (GpuProgram  *program,
              GError     **error)
{
  guint n_inputs = (program->source != NULL) + (program->binary != NULL) + (program->il != NULL) +
                   (program->images != NULL);
  GBytes *bytes = program->binary != NULL ? program->binary : program->il;

  if (program->context == NULL)
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "%s: no context was given",
                 function_of (program));
  else if (n_inputs != 1)
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                 "%s: exactly 1 of source, binary, SPIR-V and parts is required, not %u",
                 function_of (program), n_inputs);
  else if (program->headers != NULL && program->source == NULL)
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "%s: headers require a source",
                 function_of (program));
  else if (program->names != NULL && (program->source == NULL || program->names[0] == NULL))
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                 "%s: names require a source and at least one name", function_of (program));
  else if (bytes != NULL && g_bytes_get_size (bytes) == 0)
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "%s: the program has 0 bytes",
                 function_of (program));
  else
    return _gpu_context_check (program->context, function_of (program), error);

  return FALSE;
}

static gboolean
gpu_program_initable_init (GInitable     *initable,
                           GCancellable  *cancellable,
                           GError       **error)
{
  GpuProgram *program = GPU_PROGRAM (initable);
  GpuProgramInputs inputs = { .source = program->source, .names = program->names,
                              .binary = program->binary, .il = program->il,
                              .images = program->images, .flags = program->flags };
  GpuNativeContext *native;
  g_autofree char *options = NULL;
  g_auto (GStrv) headers = NULL;
  g_autoptr (GError) local_error = NULL;

  if (program->core != NULL)
    return TRUE;
  if (!check_inputs (program, error) ||
      !_gpu_error_check_cancelled (cancellable, function_of (program), error))
    return FALSE;

  native = _gpu_context_get_native (program->context);
  options = _gpu_program_join_options (program->context, program->options, &local_error);
  if (options != NULL && _gpu_program_list_headers (program->headers, &headers, &local_error))
    {
      inputs.options = options;
      inputs.headers = headers;
      program->core = _gpu_program_core_build (native, &inputs, &program->from_cache, &local_error);
    }
  if (program->core == NULL)
    {
      _gpu_program_end_log (local_error);
      _gpu_native_context_report (native, local_error);
      g_propagate_prefixed_error (error, g_steal_pointer (&local_error), "%s: ",
                                  function_of (program));
      return FALSE;
    }

  if (program->core->native->log != NULL && *program->core->native->log != '\0')
    _gpu_debug_print (GPU_DEBUG_BUILD, "%s", program->core->native->log);
  g_free (program->options);
  program->options = g_steal_pointer (&options);
  g_clear_pointer (&program->binary, g_bytes_unref);
  g_clear_pointer (&program->il, g_bytes_unref);
  g_clear_pointer (&program->images, g_ptr_array_unref);

  return TRUE;
}

static void
gpu_program_initable_iface_init (GInitableIface *iface)
{
  iface->init = gpu_program_initable_init;
}

GpuProgramCore *
_gpu_program_get_core (GpuProgram *program)
{
  return program->core;
}

void
_gpu_program_set_core (GpuProgram     *program,
                       GpuProgramCore *core)
{
  program->core = core;
}

void
_gpu_program_set_images (GpuProgram  *program,
                         GBytes     **images,
                         gsize        n_images)
{
  program->images = g_ptr_array_new_with_free_func ((GDestroyNotify) g_bytes_unref);

  for (gsize i = 0; i < n_images; i++)
    g_ptr_array_add (program->images, g_bytes_ref (images[i]));
}

gboolean
_gpu_program_check_built (GpuProgram  *program,
                          const char  *function,
                          GError     **error)
{
  if (program->core == NULL)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: the program was never built; create it with one of its constructors",
                   function);
      return FALSE;
    }

  return _gpu_context_check (program->context, function, error);
}

/**
 * gpu_program_get_context:
 * @program: a #GpuProgram
 *
 * Gets the context of the program.
 *
 * Returns: (transfer none): the context
 *
 * Since: 0.1
 */
GpuContext *
gpu_program_get_context (GpuProgram *program)
{
  g_return_val_if_fail (GPU_IS_PROGRAM (program), NULL);

  return program->context;
}

/**
 * gpu_program_get_build_log:
 * @program: a #GpuProgram
 *
 * Gets the output of the compiler for a program that was built, for example warnings
 * (`CL_PROGRAM_BUILD_LOG`).
 *
 * Returns: (transfer none) (nullable): the log, or %NULL if there was no output
 *
 * Since: 0.1
 */
const char *
gpu_program_get_build_log (GpuProgram *program)
{
  g_return_val_if_fail (GPU_IS_PROGRAM (program), NULL);

  return program->core != NULL ? program->core->native->log : NULL;
}

/**
 * gpu_program_is_from_cache:
 * @program: a #GpuProgram
 *
 * Gets whether the program was loaded from the cache instead of built.
 *
 * Returns: %TRUE if the program was loaded from the cache
 *
 * Since: 0.1
 */
gboolean
gpu_program_is_from_cache (GpuProgram *program)
{
  g_return_val_if_fail (GPU_IS_PROGRAM (program), FALSE);

  return program->from_cache;
}

/**
 * gpu_program_get_binary:
 * @program: a #GpuProgram
 * @error: return location for a #GError
 *
 * Gets the built program as a binary for gpu_program_new_from_binary() (`CL_PROGRAM_BINARIES`; on
 * CUDA the cubin or PTX). The binary is valid for the same kind of device and the same driver. In a
 * context of several devices, the binary contains one part for each device.
 *
 * Returns: (transfer full): the binary, or %NULL with %GPU_ERROR_NOT_SUPPORTED if the driver does
 *   not support binaries, or the driver's error
 *
 * Since: 0.1
 */
GBytes *
gpu_program_get_binary (GpuProgram  *program,
                        GError     **error)
{
  const GpuProgramOps *ops;
  GError *local_error = NULL;
  GBytes *binary;

  g_return_val_if_fail (GPU_IS_PROGRAM (program), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (!_gpu_program_check_built (program, "gpu_program_get_binary", error))
    return NULL;

  ops = program->core->context->backend->program;
  if (ops->get_binary == NULL)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "gpu_program_get_binary: the %s back end does not support binaries",
                   program->core->context->backend->name);
      return NULL;
    }

  binary = ops->get_binary (program->core->context, program->core->native, &local_error);
  if (binary == NULL)
    {
      _gpu_native_context_report (program->core->context, local_error);
      g_propagate_prefixed_error (error, local_error, "gpu_program_get_binary: ");
    }

  return binary;
}

/**
 * gpu_program_list_kernels:
 * @program: a #GpuProgram
 * @error: return location for a #GError
 *
 * Lists the kernels of the program (`CL_PROGRAM_KERNEL_NAMES`, `cuModuleEnumerateFunctions()`).
 *
 * Returns: (array zero-terminated=1) (transfer full): the names of the kernels, or %NULL with
 *   %GPU_ERROR_NOT_SUPPORTED if the back end cannot list kernels, or the driver's error
 *
 * Since: 0.1
 */
char **
gpu_program_list_kernels (GpuProgram  *program,
                          GError     **error)
{
  GpuNativeContext *context;
  GError *local_error = NULL;
  char **names;

  g_return_val_if_fail (GPU_IS_PROGRAM (program), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (!_gpu_program_check_built (program, "gpu_program_list_kernels", error))
    return NULL;

  context = program->core->context;
  if (context->backend->program->list_kernels == NULL)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "gpu_program_list_kernels: the %s back end cannot list kernels",
                   context->backend->name);
      return NULL;
    }

  names = context->backend->program->list_kernels (context, program->core->native, &local_error);
  if (names == NULL)
    {
      _gpu_native_context_report (context, local_error);
      g_propagate_prefixed_error (error, local_error, "gpu_program_list_kernels: ");
    }

  return names;
}

/**
 * gpu_program_get_kernel:
 * @program: a #GpuProgram
 * @name: the name of a kernel
 * @error: return location for a #GError
 *
 * Creates an object for a kernel of the program (`clCreateKernel()`, `cuModuleGetFunction()`). Each
 * call returns a new object.
 *
 * Returns: (transfer full): a new #GpuKernel, or %NULL with %GPU_ERROR_INVALID_ARGUMENT if the
 *   program has no such kernel (the message lists the names of its kernels), or the driver's error
 *
 * Since: 0.1
 */
GpuKernel *
gpu_program_get_kernel (GpuProgram  *program,
                        const char  *name,
                        GError     **error)
{
  g_return_val_if_fail (GPU_IS_PROGRAM (program), NULL);
  g_return_val_if_fail (name != NULL, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  return g_initable_new (GPU_TYPE_KERNEL, NULL, error, "program", program, "name", name, NULL);
}
