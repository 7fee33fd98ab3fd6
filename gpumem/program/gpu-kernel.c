/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <string.h>

#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/program/gpu-arguments-private.h"
#include "gpumem/program/gpu-kernel-private.h"

/**
 * SECTION:gpu-kernel
 * @title: GpuKernel
 * @short_description: a function that runs on a device
 * @see_also: #GpuProgram, #GpuArguments, gpu_stream_launch()
 *
 * A kernel comes from gpu_program_get_kernel() and runs by gpu_stream_launch() or
 * gpu_stream_launch_arguments(). Where the driver describes its arguments, every launch is checked
 * against the description; where it does not, gpu_kernel_declare_arguments() says once what they
 * are.
 *
 * A kernel has no state that a launch could disturb: arguments belong to the launch. Any thread
 * may use it at any time, on any number of streams. A launch in flight holds what it needs, so a
 * kernel can be dropped right after it.
 */

/**
 * GpuKernel:
 *
 * A kernel of a #GpuProgram.
 *
 * Since: 0.1
 */
static void gpu_kernel_initable_iface_init (GInitableIface *iface);

gpointer _gpu_kernel_class;

G_DEFINE_FINAL_TYPE_WITH_CODE (GpuKernel, gpu_kernel, G_TYPE_OBJECT,
                               G_IMPLEMENT_INTERFACE (G_TYPE_INITABLE,
                                                      gpu_kernel_initable_iface_init))

enum
{
  PROP_0,
  PROP_PROGRAM,
  PROP_NAME,
  PROP_N_ARGUMENTS,
  PROP_NATIVE_HANDLE,
  N_PROPS
};

static GParamSpec *props[N_PROPS];

static void
gpu_kernel_set_property (GObject      *object,
                         guint         id,
                         const GValue *value,
                         GParamSpec   *pspec)
{
  GpuKernel *kernel = GPU_KERNEL (object);

  switch (id)
    {
    case PROP_PROGRAM:
      kernel->program = g_value_dup_object (value);
      break;
    case PROP_NAME:
      kernel->name = g_value_dup_string (value);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gpu_kernel_get_property (GObject    *object,
                         guint       id,
                         GValue     *value,
                         GParamSpec *pspec)
{
  GpuKernel *kernel = GPU_KERNEL (object);

  switch (id)
    {
    case PROP_PROGRAM:
      g_value_set_object (value, kernel->program);
      break;
    case PROP_NAME:
      g_value_set_string (value, kernel->name);
      break;
    case PROP_N_ARGUMENTS:
      g_value_set_uint (value, gpu_kernel_get_n_arguments (kernel));
      break;
    case PROP_NATIVE_HANDLE:
      g_value_set_uint64 (value, gpu_kernel_get_native_handle (kernel));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gpu_kernel_finalize (GObject *object)
{
  GpuKernel *kernel = GPU_KERNEL (object);

  g_ptr_array_unref (kernel->declared);
  g_mutex_clear (&kernel->lock);
  g_clear_pointer (&kernel->core, _gpu_kernel_core_unref);
  g_free (kernel->name);
  g_clear_object (&kernel->program);
  _gpu_live_add (GPU_LIVE_KERNEL, -1);

  G_OBJECT_CLASS (gpu_kernel_parent_class)->finalize (object);
}

static void
gpu_kernel_class_init (GpuKernelClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags construct =
    G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS;
  const GParamFlags readable = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;

  _gpu_kernel_class = klass;
  object_class->set_property = gpu_kernel_set_property;
  object_class->get_property = gpu_kernel_get_property;
  object_class->finalize = gpu_kernel_finalize;

  /**
   * GpuKernel:program:
   *
   * The program that the kernel is in.
   *
   * Since: 0.1
   */
  props[PROP_PROGRAM] =
    g_param_spec_object ("program", NULL, NULL, GPU_TYPE_PROGRAM, construct);
  /**
   * GpuKernel:name:
   *
   * The name of the kernel.
   *
   * Since: 0.1
   */
  props[PROP_NAME] = g_param_spec_string ("name", NULL, NULL, NULL, construct);
  /**
   * GpuKernel:n-arguments:
   *
   * How many arguments the kernel takes.
   *
   * Since: 0.1
   */
  props[PROP_N_ARGUMENTS] =
    g_param_spec_uint ("n-arguments", NULL, NULL, 0, G_MAXUINT, 0, readable);
  /**
   * GpuKernel:native-handle:
   *
   * The driver's own handle of the kernel.
   *
   * Since: 0.1
   */
  props[PROP_NATIVE_HANDLE] =
    g_param_spec_uint64 ("native-handle", NULL, NULL, 0, G_MAXUINT64, 0, readable);

  g_object_class_install_properties (object_class, N_PROPS, props);
}

static void
gpu_kernel_init (GpuKernel *kernel)
{
  g_mutex_init (&kernel->lock);
  kernel->declared = g_ptr_array_new_with_free_func (g_free);
  _gpu_live_add (GPU_LIVE_KERNEL, 1);
}

/* Old tables stay until the kernel goes: a launch on another thread may be reading one. */
static void
set_arguments (GpuKernel       *kernel,
               GpuArgumentInfo *arguments)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&kernel->lock);

  g_ptr_array_add (kernel->declared, arguments);
  g_atomic_pointer_set (&kernel->arguments, arguments);
}

static void
take_descriptions (GpuKernel *kernel)
{
  GpuNativeKernel *native = kernel->core->kernel;
  GpuProgramCore *program = kernel->core->program;
  GpuArgumentInfo *arguments = g_new0 (GpuArgumentInfo, native->n_arguments + 1);

  if (native->arguments != NULL)
    memcpy (arguments, native->arguments, native->n_arguments * sizeof *arguments);
  if (program->descriptions != NULL)
    _gpu_kernel_complete (program->descriptions, _gpu_program_core_lower (program, kernel->name),
                          arguments, native->n_arguments);

  set_arguments (kernel, arguments);
}

static gboolean
gpu_kernel_initable_init (GInitable     *initable,
                          GCancellable  *cancellable,
                          GError       **error)
{
  GpuKernel *kernel = GPU_KERNEL (initable);
  GError *local_error = NULL;
  GpuProgramCore *program;

  if (kernel->core != NULL)
    return TRUE;

  program = kernel->program != NULL ? _gpu_program_get_core (kernel->program) : NULL;
  if (program == NULL || kernel->name == NULL)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "gpu_program_get_kernel: %s",
                   program == NULL ? "the program was never built" : "no name was given");
      return FALSE;
    }
  if (!_gpu_context_check (gpu_program_get_context (kernel->program), "gpu_program_get_kernel",
                           error) ||
      g_cancellable_set_error_if_cancelled (cancellable, error))
    return FALSE;

  kernel->core = _gpu_kernel_core_new (program, kernel->name, &local_error);
  if (kernel->core == NULL)
    {
      _gpu_native_context_report (program->context, local_error);
      g_propagate_prefixed_error (error, local_error, "gpu_program_get_kernel: kernel \"%s\": ",
                                  kernel->name);
      return FALSE;
    }

  take_descriptions (kernel);

  return TRUE;
}

static void
gpu_kernel_initable_iface_init (GInitableIface *iface)
{
  iface->init = gpu_kernel_initable_init;
}

GpuContext *
_gpu_kernel_get_context (GpuKernel *kernel)
{
  return kernel->core != NULL ? gpu_program_get_context (kernel->program) : NULL;
}

static gboolean
check_initialized (GpuKernel   *kernel,
                   const char  *function,
                   GError     **error)
{
  if (kernel->core != NULL)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: the kernel is nothing but an empty object; kernels come from "
               "gpu_program_get_kernel()", function);

  return FALSE;
}

/**
 * gpu_kernel_get_program:
 * @kernel: a #GpuKernel
 *
 * Tells the program that the kernel is in.
 *
 * Returns: (transfer none): the program
 *
 * Since: 0.1
 */
GpuProgram *
gpu_kernel_get_program (GpuKernel *kernel)
{
  g_return_val_if_fail (GPU_IS_KERNEL (kernel), NULL);

  return kernel->program;
}

/**
 * gpu_kernel_get_name:
 * @kernel: a #GpuKernel
 *
 * Tells the name of the kernel.
 *
 * Returns: (transfer none): the name
 *
 * Since: 0.1
 */
const char *
gpu_kernel_get_name (GpuKernel *kernel)
{
  g_return_val_if_fail (GPU_IS_KERNEL (kernel), NULL);

  return kernel->name;
}

/**
 * gpu_kernel_get_n_arguments:
 * @kernel: a #GpuKernel
 *
 * Tells how many arguments the kernel takes (`CL_KERNEL_NUM_ARGS`; `cuFuncGetParamInfo()`).
 *
 * Returns: the number of arguments, 0 for an empty object
 *
 * Since: 0.1
 */
guint
gpu_kernel_get_n_arguments (GpuKernel *kernel)
{
  g_return_val_if_fail (GPU_IS_KERNEL (kernel), 0);

  return kernel->core != NULL ? kernel->core->kernel->n_arguments : 0;
}

static const GpuArgumentInfo *
get_argument (GpuKernel *kernel,
              guint      index)
{
  guint n_arguments;
  const GpuArgumentInfo *arguments = _gpu_kernel_get_arguments (kernel, &n_arguments);

  return index < n_arguments ? &arguments[index] : NULL;
}

/**
 * gpu_kernel_get_argument_kind:
 * @kernel: a #GpuKernel
 * @index: the position of the argument, from 0
 *
 * Tells what the kernel takes as an argument, as declared by gpu_kernel_declare_arguments() or
 * described by the driver (`CL_KERNEL_ARG_ADDRESS_QUALIFIER`).
 *
 * Returns: the kind; %GPU_ARGUMENT_KIND_UNKNOWN if nobody tells, or there is no such argument
 *
 * Since: 0.1
 */
GpuArgumentKind
gpu_kernel_get_argument_kind (GpuKernel *kernel,
                              guint      index)
{
  const GpuArgumentInfo *argument;

  g_return_val_if_fail (GPU_IS_KERNEL (kernel), GPU_ARGUMENT_KIND_UNKNOWN);

  argument = get_argument (kernel, index);

  return argument != NULL ? argument->kind : GPU_ARGUMENT_KIND_UNKNOWN;
}

/**
 * gpu_kernel_get_argument_name:
 * @kernel: a #GpuKernel
 * @index: the position of the argument, from 0
 *
 * Tells the name of an argument in the source (`CL_KERNEL_ARG_NAME`).
 *
 * Returns: (transfer none) (nullable): the name, or %NULL if the driver does not tell it, or
 *   there is no such argument
 *
 * Since: 0.1
 */
const char *
gpu_kernel_get_argument_name (GpuKernel *kernel,
                              guint      index)
{
  const GpuArgumentInfo *argument;

  g_return_val_if_fail (GPU_IS_KERNEL (kernel), NULL);

  argument = get_argument (kernel, index);

  return argument != NULL ? argument->name : NULL;
}

/**
 * gpu_kernel_get_argument_type_name:
 * @kernel: a #GpuKernel
 * @index: the position of the argument, from 0
 *
 * Tells the type of an argument: that of the source (`CL_KERNEL_ARG_TYPE_NAME`), or the one that
 * was declared.
 *
 * Returns: (transfer none) (nullable): the type, such as `float*`, or %NULL if nobody tells, or
 *   there is no such argument
 *
 * Since: 0.1
 */
const char *
gpu_kernel_get_argument_type_name (GpuKernel *kernel,
                                   guint      index)
{
  const GpuArgumentInfo *argument;

  g_return_val_if_fail (GPU_IS_KERNEL (kernel), NULL);

  argument = get_argument (kernel, index);
  if (argument == NULL)
    return NULL;

  return argument->type_name != NULL ? argument->type_name
                                     : _gpu_argument_type_get_name (argument->type);
}

static const char *
name_of_kind (GpuArgumentKind kind)
{
  switch (kind)
    {
    case GPU_ARGUMENT_KIND_MEMORY:
      return "memory";
    case GPU_ARGUMENT_KIND_LOCAL:
      return "local memory";
    case GPU_ARGUMENT_KIND_VALUE:
      return "a value";
    case GPU_ARGUMENT_KIND_IMAGE:
      return "an image";
    case GPU_ARGUMENT_KIND_SAMPLER:
      return "a sampler";
    case GPU_ARGUMENT_KIND_UNKNOWN:
    default:
      return "unknown";
    }
}

static gboolean
set_contradiction (GpuKernel              *kernel,
                   guint                   index,
                   const GpuArgumentInfo  *told,
                   const char             *declared,
                   gssize                  length,
                   GError                **error)
{
  g_autofree char *name = NULL;
  g_autofree char *size = NULL;

  name = told->name != NULL ? g_strdup_printf (" (%s)", told->name) : g_strdup ("");
  size = told->size != 0 ? g_strdup_printf (" of %" G_GSIZE_FORMAT " bytes", told->size)
                         : g_strdup ("");
  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "gpu_kernel_declare_arguments: argument %u%s of kernel %s is %s%s, not \"%.*s\"",
               index, name, kernel->name,
               told->type_name != NULL ? told->type_name : name_of_kind (told->kind), size,
               (int) length, declared);

  return FALSE;
}

/* Reads one declaration, "p" or "v28", and moves @types past it. The rest of @argument stays. */
static gboolean
parse_declaration (const char      **types,
                   GpuArgumentInfo  *argument,
                   guint             index,
                   GError          **error)
{
  char code = *(*types)++;
  gsize n_digits = strspn (*types, "0123456789");
  g_autofree char *digits = g_strndup (*types, n_digits);
  guint64 size = _gpu_argument_type_get_size (code);

  if (code == 'v' && n_digits > 0)
    {
      if (!g_ascii_string_to_unsigned (digits, 10, 1, G_MAXUINT16, &size, NULL))
        {
          g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                       "gpu_kernel_declare_arguments: argument %u cannot have %s bytes", index,
                       digits);
          return FALSE;
        }
      *types += n_digits;
    }

  argument->type = code != 'v' && size > 0 ? code : 0;
  argument->size = size;
  if (code == 'p')
    argument->kind = GPU_ARGUMENT_KIND_MEMORY;
  else if (code == 'T')
    argument->kind = GPU_ARGUMENT_KIND_IMAGE;
  else if (code == 'S')
    argument->kind = GPU_ARGUMENT_KIND_SAMPLER;
  else if (code == 'l')
    argument->kind = GPU_ARGUMENT_KIND_LOCAL;
  else if (code == 'v' || size > 0)
    argument->kind = GPU_ARGUMENT_KIND_VALUE;
  else
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "gpu_kernel_declare_arguments: '%c' (0x%02x) for argument %u is none of "
                   "p T S l v b B h H i I q Q e f d", g_ascii_isprint (code) ? code : '?',
                   (guint) (guchar) code, index);
      return FALSE;
    }

  return TRUE;
}

/* Whether what was declared can be what the driver told; completes it from there. */
static gboolean
reconcile (GpuArgumentInfo       *declared,
           const GpuArgumentInfo *told)
{
  gboolean is_value = declared->kind == GPU_ARGUMENT_KIND_VALUE;

  declared->name = told->name;
  declared->type_name = told->type_name;
  declared->read_only = told->read_only;
  declared->is_declared = told->is_declared || told->kind == GPU_ARGUMENT_KIND_UNKNOWN;

  if (told->kind != GPU_ARGUMENT_KIND_UNKNOWN && told->kind != declared->kind)
    return FALSE;
  if (is_value && declared->size != 0 && told->size != 0 && declared->size != told->size)
    return FALSE;
  if (is_value && declared->type != 0 && told->type != 0 &&
      _gpu_argument_type_is_float (declared->type) != _gpu_argument_type_is_float (told->type))
    return FALSE;

  if (declared->size == 0)
    declared->size = told->size;
  if (is_value && declared->type == 0 && declared->size == told->size)
    declared->type = told->type;

  return TRUE;
}

static gboolean
check_count (GpuKernel   *kernel,
             const char  *types,
             GError     **error)
{
  guint n_arguments = kernel->core->kernel->n_arguments;
  guint n_declared = 0;

  for (const char *type = types; *type != '\0'; n_declared++)
    {
      if (*type++ == 'v')
        type += strspn (type, "0123456789");
    }

  if (n_declared == n_arguments)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "gpu_kernel_declare_arguments: kernel %s takes %u arguments, and \"%s\" declares %u",
               kernel->name, n_arguments, types, n_declared);

  return FALSE;
}

/**
 * gpu_kernel_declare_arguments:
 * @kernel: a #GpuKernel
 * @types: one letter for each argument, maybe with a number
 * @error: return location for a #GError
 *
 * Says what the arguments are, where the driver does not, so that launches can be checked and
 * numbers converted. Each letter stands for one argument:
 *
 * - `p`: memory; `T`: an image; `S`: a sampler
 * - `l`: local memory, given by its size
 * - `b` `B`: char, uchar (8 bits); `h` `H`: short, ushort (16 bits); `i` `I`: int, uint (32 bits);
 *   `q` `Q`: long, ulong (64 bits)
 * - `e` `f` `d`: half, float, double
 * - `v`: any other value, given by its bytes; a number after it says how many, `v12`
 *
 * The letters of the numbers are those of Python's `struct`. What contradicts the driver is an
 * error. Launches that are made from then on go by the new declaration; those on other threads
 * at the same time go by the old or by the new one.
 *
 * Returns: %TRUE, or %FALSE with @error set: %GPU_ERROR_INVALID_ARGUMENT
 *
 * Since: 0.1
 */
gboolean
gpu_kernel_declare_arguments (GpuKernel   *kernel,
                              const char  *types,
                              GError     **error)
{
  g_autofree GpuArgumentInfo *arguments = NULL;
  const GpuArgumentInfo *told;
  const char *rest = types;
  guint n_arguments;

  g_return_val_if_fail (GPU_IS_KERNEL (kernel), FALSE);
  g_return_val_if_fail (types != NULL, FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  if (!check_initialized (kernel, "gpu_kernel_declare_arguments", error) ||
      !check_count (kernel, types, error))
    return FALSE;

  /* The first table is what the driver told. */
  told = g_ptr_array_index (kernel->declared, 0);
  n_arguments = kernel->core->kernel->n_arguments;
  arguments = g_new0 (GpuArgumentInfo, n_arguments + 1);
  for (guint i = 0; i < n_arguments; i++)
    {
      const char *start = rest;

      if (!parse_declaration (&rest, &arguments[i], i, error))
        return FALSE;
      if (!reconcile (&arguments[i], &told[i]))
        return set_contradiction (kernel, i, &told[i], start, rest - start, error);
    }
  set_arguments (kernel, g_steal_pointer (&arguments));

  return TRUE;
}

/**
 * gpu_kernel_get_attributes:
 * @kernel: a #GpuKernel
 * @error: return location for a #GError
 *
 * Tells what is known of the kernel, by nick: `name`, `n-arguments`, and all that the driver has
 * to say, such as limits of its work-groups, local and private memory
 * (`CL_KERNEL_WORK_GROUP_SIZE`, `CL_KERNEL_LOCAL_MEM_SIZE`, ...; `cuFuncGetAttribute()`).
 *
 * Returns: (transfer full): a dictionary of type `a{sv}`, or %NULL with @error set to the driver's
 *   error
 *
 * Since: 0.1
 */
GVariant *
gpu_kernel_get_attributes (GpuKernel  *kernel,
                           GError    **error)
{
  g_auto (GVariantDict) attributes = G_VARIANT_DICT_INIT (NULL);
  GError *local_error = NULL;
  GpuKernelCore *core;

  g_return_val_if_fail (GPU_IS_KERNEL (kernel), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (!check_initialized (kernel, "gpu_kernel_get_attributes", error) ||
      !_gpu_context_check (gpu_program_get_context (kernel->program),
                           "gpu_kernel_get_attributes", error))
    return NULL;

  core = kernel->core;
  if (!core->context->backend->kernel->get_attributes (core->context, core->kernel, &attributes,
                                                       &local_error))
    {
      _gpu_native_context_report (core->context, local_error);
      g_propagate_prefixed_error (error, local_error, "gpu_kernel_get_attributes: ");
      return NULL;
    }

  g_variant_dict_insert (&attributes, "name", "s", kernel->name);
  g_variant_dict_insert (&attributes, "n-arguments", "u", core->kernel->n_arguments);

  return g_variant_ref_sink (g_variant_dict_end (&attributes));
}

/**
 * gpu_kernel_get_native_handle:
 * @kernel: a #GpuKernel
 *
 * Tells the driver's own handle of the kernel, a `cl_kernel` on OpenCL, a `CUfunction` on CUDA; on
 * the host back end a number that means nothing to others. It belongs to the kernel.
 *
 * Returns: the handle, 0 where there is none
 *
 * Since: 0.1
 */
guint64
gpu_kernel_get_native_handle (GpuKernel *kernel)
{
  g_return_val_if_fail (GPU_IS_KERNEL (kernel), 0);

  if (kernel->core == NULL)
    return 0;

  return kernel->core->context->backend->kernel->get_handle (kernel->core->kernel);
}
