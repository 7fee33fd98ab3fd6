/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <string.h>

#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/base/gpu-error-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/program/gpu-arguments-private.h"
#include "gpumem/program/gpu-kernel-private.h"

/**
 * SECTION:gpu-kernel
 * @title: GpuKernel
 * @short_description: a function that runs on a device
 * @see_also: #GpuProgram, #GpuArguments, gpu_stream_launch()
 */

/**
 * GpuKernel:
 *
 * A function of a #GpuProgram that streams launch on a device.
 *
 * |[<!-- language="C" -->
 * g_autoptr (GpuKernel) scale = gpu_program_get_kernel (program, "scale", &error);
 * GpuExtent grid = { 1024, 1, 1 };
 *
 * if (scale == NULL)
 *   g_error ("%s", error->message);
 *
 * gpu_stream_launch (stream, scale, &grid, NULL, &error, buffer, 2.0);
 * ]|
 *
 * If the driver describes the arguments of a kernel, the library checks every launch against the
 * description. If the driver describes no arguments, call gpu_kernel_declare_arguments() once
 * before the first launch.
 *
 * Arguments belong to the launch, not to the kernel, so any number of threads and streams may
 * launch the same kernel at the same time. A launch in flight retains the code of the kernel, so
 * the caller may unref the #GpuKernel right after the launch.
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
   * The program that contains the kernel.
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
   * The number of arguments of the kernel.
   *
   * Since: 0.1
   */
  props[PROP_N_ARGUMENTS] =
    g_param_spec_uint ("n-arguments", NULL, NULL, 0, G_MAXUINT, 0, readable);
  /**
   * GpuKernel:native-handle:
   *
   * The driver's handle of the kernel, see gpu_kernel_get_native_handle().
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

/* Keeps a replaced array of argument descriptions until the kernel is finalized, because a launch
 * on another thread may still be reading it. */
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
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "gpu_program_get_kernel: %s",
                   kernel->program == NULL ? "no program was given"
                   : program == NULL ? "the program was never built" : "no name was given");
      return FALSE;
    }
  if (!_gpu_context_check (gpu_program_get_context (kernel->program), "gpu_program_get_kernel",
                           error) ||
      !_gpu_error_check_cancelled (cancellable, "gpu_program_get_kernel", error))
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
               "%s: the kernel was never initialised; create kernels with "
               "gpu_program_get_kernel()", function);

  return FALSE;
}

/**
 * gpu_kernel_get_program:
 * @kernel: a #GpuKernel
 *
 * Gets the program that contains the kernel.
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
 * Gets the name of the kernel.
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
 * Gets the number of arguments of the kernel (`CL_KERNEL_NUM_ARGS`; `cuFuncGetParamInfo()`).
 *
 * Returns: the number of arguments, 0 for a kernel that was never initialised
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
 * Gets the kind of an argument, as declared with gpu_kernel_declare_arguments() or described by the
 * driver (`CL_KERNEL_ARG_ADDRESS_QUALIFIER`).
 *
 * Returns: the kind; %GPU_ARGUMENT_KIND_UNKNOWN if the argument is neither declared nor described,
 *   or if @index is out of range
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
 * Gets the name of an argument in the source (`CL_KERNEL_ARG_NAME`).
 *
 * Returns: (transfer none) (nullable): the name, or %NULL if the driver does not report it or
 *   @index is out of range
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
 * Gets the type of an argument as written in the source (`CL_KERNEL_ARG_TYPE_NAME`). If the driver
 * does not report that type, gets the declared type.
 *
 * Returns: (transfer none) (nullable): the type, such as `float*`, or %NULL if it is unknown or
 *   @index is out of range
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
                   const GpuArgumentInfo  *described,
                   const char             *declared,
                   gssize                  length,
                   GError                **error)
{
  g_autofree char *name = NULL;
  g_autofree char *size = NULL;

  name = described->name != NULL ? g_strdup_printf (" (%s)", described->name) : g_strdup ("");
  size = described->size != 0 ? g_strdup_printf (" of %" G_GSIZE_FORMAT " bytes", described->size)
                              : g_strdup ("");
  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "gpu_kernel_declare_arguments: argument %u%s of kernel %s is %s%s, not \"%.*s\"",
               index, name, kernel->name,
               described->type_name != NULL ? described->type_name
                                            : name_of_kind (described->kind),
               size, (int) length, declared);

  return FALSE;
}

/* Parses one declaration, such as "p" or "v28", and advances @types past it. Sets only the kind,
 * type and size of @argument. */
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
                       "gpu_kernel_declare_arguments: a size of %s bytes for argument %u is not "
                       "between 1 and %u", digits, index, (guint) G_MAXUINT16);
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
                   "gpu_kernel_declare_arguments: unknown code '%c' (0x%02x) for argument %u; the "
                   "codes are p T S l v ? b B h H i I q Q e f d",
                   g_ascii_isprint (code) ? code : '.', (guint) (guchar) code, index);
      return FALSE;
    }

  return TRUE;
}

/* Fills in the unknown fields of @declared from @described, the driver's description. Returns FALSE
 * if the description contradicts the declaration. */
static gboolean
reconcile (GpuArgumentInfo       *declared,
           const GpuArgumentInfo *described)
{
  gboolean is_value = declared->kind == GPU_ARGUMENT_KIND_VALUE;

  declared->name = described->name;
  declared->type_name = described->type_name;
  declared->read_only = described->read_only;
  declared->is_declared = described->is_declared || described->kind == GPU_ARGUMENT_KIND_UNKNOWN;

  if (described->kind != GPU_ARGUMENT_KIND_UNKNOWN && described->kind != declared->kind)
    return FALSE;
  if (is_value && declared->size != 0 && described->size != 0 && declared->size != described->size)
    return FALSE;
  if (is_value && declared->type != 0 && described->type != 0 &&
      _gpu_argument_type_is_float (declared->type) != _gpu_argument_type_is_float (described->type))
    return FALSE;

  if (declared->size == 0)
    declared->size = described->size;
  if (is_value && declared->type == 0 && declared->size == described->size)
    declared->type = described->type;

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
 * @types: one letter for each argument; a number may follow `v`
 * @error: return location for a #GError
 *
 * Declares the arguments of a kernel that the driver does not describe. Launches are then checked
 * against the declaration, and numbers are converted to the declared types. Each letter declares
 * one argument:
 *
 * - `p`: memory; `T`: an image; `S`: a sampler
 * - `l`: local memory, passed as its size
 * - `?`: bool (8 bits), which only takes 0 and 1; `b` `B`: char, uchar (8 bits); `h` `H`: short,
 *   ushort (16 bits); `i` `I`: int, uint (32 bits); `q` `Q`: long, ulong (64 bits)
 * - `e` `f` `d`: half, float, double
 * - `v`: any other value, passed as its bytes; a number after the letter is the size in bytes, as
 *   in `v12`. On OpenCL, declare the size of structures: drivers do not describe it
 *
 * The letters for numeric types are those of Python's `struct` module.
 *
 * Later launches use the new declaration. A launch on another thread during this call uses either
 * the old or the new declaration.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT for an unknown letter, a wrong number
 *   of arguments, or a declaration that contradicts the driver's description
 *
 * Since: 0.1
 */
gboolean
gpu_kernel_declare_arguments (GpuKernel   *kernel,
                              const char  *types,
                              GError     **error)
{
  g_autofree GpuArgumentInfo *arguments = NULL;
  const GpuArgumentInfo *described;
  const char *rest = types;
  guint n_arguments;

  g_return_val_if_fail (GPU_IS_KERNEL (kernel), FALSE);
  g_return_val_if_fail (types != NULL, FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  if (!check_initialized (kernel, "gpu_kernel_declare_arguments", error) ||
      !check_count (kernel, types, error))
    return FALSE;

  /* The first table is the driver's description. */
  described = g_ptr_array_index (kernel->declared, 0);
  n_arguments = kernel->core->kernel->n_arguments;
  arguments = g_new0 (GpuArgumentInfo, n_arguments + 1);
  for (guint i = 0; i < n_arguments; i++)
    {
      const char *start = rest;

      if (!parse_declaration (&rest, &arguments[i], i, error))
        return FALSE;
      if (!reconcile (&arguments[i], &described[i]))
        return set_contradiction (kernel, i, &described[i], start, rest - start, error);
    }
  set_arguments (kernel, g_steal_pointer (&arguments));

  return TRUE;
}

/**
 * gpu_kernel_get_attributes:
 * @kernel: a #GpuKernel
 * @error: return location for a #GError
 *
 * Gets the attributes of the kernel by nick: `name`, `n-arguments`, and all attributes that the
 * driver reports, such as the maximum size of work-groups and the sizes of local and private memory
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
 * Gets the driver's handle of the kernel: a `cl_kernel` on OpenCL, a `CUfunction` on CUDA. On the
 * host back end, the handle is a number for use with this library only. The kernel owns the handle.
 *
 * Returns: the handle, 0 for a kernel that was never initialised
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
