/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Appends two things to the program for each kernel: a function that runs work-items of a group,
 * and a description. The compiler evaluates the sizes and types in the description.
 */
#include "config.h"

#include "gpumem/host/compiler/gpu-host-source.h"
#include "gpumem/host/executor/gpu-host-abi.h"

/* Qualifiers of parameters in OpenCL C that do not exist in C. */
static const char *const qualifiers[] =
{
  "gpu_host_global", "gpu_host_local", "gpu_host_constant", "gpu_host_read_only",
  "gpu_host_write_only", NULL
};

typedef struct
{
  GpuHostArgumentKind kind;
  gboolean            read_only;
  char               *type;     /* as the rewritten program spells it */
  char               *type_name;
  char               *name;
} Parameter;

static void
parameter_clear (gpointer data)
{
  Parameter *parameter = data;

  g_free (parameter->type);
  g_free (parameter->type_name);
  g_free (parameter->name);
}

/* Returns whether "const" precedes the first "*", or the pointer has the qualifier __constant. */
static gboolean
is_pointer_to_const (GpuSource      *source,
                     GpuSourceRange  range)
{
  for (guint i = range.first; i < range.last && source_get_kind (source, i) != '*'; i++)
    {
      if (source_is (source, i, "const") || source_is (source, i, "__const"))
        return TRUE;
    }

  return source_has (source, range, "gpu_host_constant");
}

/* Sets the kind of a parameter that is not a pointer. Images are read-only by default. */
static void
set_object (GpuSource      *source,
            GpuSourceRange  range,
            Parameter      *parameter)
{
  if (g_str_equal (parameter->type, "sampler_t"))
    parameter->kind = GPU_HOST_ARGUMENT_SAMPLER;
  else if (_gpu_host_is_image_type (parameter->type))
    parameter->kind = GPU_HOST_ARGUMENT_IMAGE;
  else
    parameter->kind = GPU_HOST_ARGUMENT_VALUE;

  parameter->read_only = parameter->kind == GPU_HOST_ARGUMENT_IMAGE
                         && !source_has (source, range, "gpu_host_write_only");
}

static gboolean
parse_parameter (GpuSource          *source,
                 GpuSourceFunction  *kernel,
                 GpuSourceRange      range,
                 Parameter          *parameter,
                 GError            **error)
{
  guint name = _gpu_source_find_name (source, range);
  gboolean is_pointer = source_has (source, range, "*") || source_has (source, range, "[");
  gboolean is_memory = source_has (source, range, "gpu_host_global")
                       || source_has (source, range, "gpu_host_constant");

  parameter->type = _gpu_source_get_type (source, (GpuSourceRange) { range.first, name },
                                          qualifiers);
  parameter->type_name = _gpu_source_name_type (parameter->type);
  parameter->name = source_get_text (source, name);

  if (!is_pointer)
    {
      set_object (source, range, parameter);
      return TRUE;
    }

  if (!is_memory && !source_has (source, range, "gpu_host_local"))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_BUILD_FAILED,
                   "host: argument %s of kernel %s is a pointer that is neither __global nor "
                   "__constant nor __local", parameter->name, kernel->name);
      return FALSE;
    }

  parameter->kind = is_memory ? GPU_HOST_ARGUMENT_MEMORY : GPU_HOST_ARGUMENT_LOCAL;
  parameter->read_only = is_memory && is_pointer_to_const (source, range);

  return TRUE;
}

static GArray *
parse_parameters (GpuSource          *source,
                  GpuSourceFunction  *kernel,
                  GError            **error)
{
  g_autoptr (GArray) parameters = g_array_new (FALSE, TRUE, sizeof (Parameter));
  GpuSourceRange all = kernel->parameters;
  guint first = all.first;

  g_array_set_clear_func (parameters, parameter_clear);

  if (all.last - all.first == 1 && source_is (source, first, "void"))
    first = all.last;

  while (first < all.last)
    {
      guint end = _gpu_source_find_end (source, first, all.last);
      Parameter *parameter;

      g_array_set_size (parameters, parameters->len + 1);
      parameter = &g_array_index (parameters, Parameter, parameters->len - 1);

      if (!parse_parameter (source, kernel, (GpuSourceRange) { first, end }, parameter, error))
        return NULL;

      first = end + 1;
    }

  return g_steal_pointer (&parameters);
}

/* Appends the function that the library calls to run work-items of the kernel. The function reads
 * the arguments once, before its first work-item. */
static void
append_run (GString    *output,
            const char *name,
            GArray     *parameters)
{
  g_string_append_printf (output,
                          "static void gpu_host_run_%s (void **gpu_host_args, "
                          "GpuHostItem *gpu_host_item)\n{\n  (void) gpu_host_args;\n", name);

  for (guint i = 0; i < parameters->len; i++)
    {
      const Parameter *parameter = &g_array_index (parameters, Parameter, i);
      gboolean is_value = parameter->kind == GPU_HOST_ARGUMENT_VALUE
                          || parameter->kind == GPU_HOST_ARGUMENT_SAMPLER;

      g_string_append_printf (output,
                              "  %s gpu_host_%u; __builtin_memcpy (&gpu_host_%u, "
                              "gpu_host_args[%u], sizeof gpu_host_%u);\n",
                              is_value ? parameter->type : "void *", i, i, i, i);
    }

  g_string_append (output, "  gpu_host_self = gpu_host_item;\n");

  for (guint i = 3; i-- > 0; )
    g_string_append_printf (output,
                            "  for (gpu_host_item->item[%u] = gpu_host_item->begin[%u];\n"
                            "       gpu_host_item->item[%u] < gpu_host_item->end[%u];\n"
                            "       gpu_host_item->item[%u]++)\n", i, i, i, i, i);

  g_string_append_printf (output, "    %s (", name);

  for (guint i = 0; i < parameters->len; i++)
    g_string_append_printf (output, "%sgpu_host_%u", i > 0 ? ", " : "", i);

  g_string_append (output, ");\n}\n");
}

/* Appends a C expression whose value is the type code of @type, as in
 * gpu_kernel_declare_arguments(). The program contains an expression instead of a letter, because
 * only the compiler can resolve typedefs. */
static void
append_type_code (GString    *output,
                  const char *type)
{
  g_string_append_printf (output,
                          "_Generic ((%s *) 0, _Bool *: '?', char *: 'b', signed char *: 'b', "
                          "unsigned char *: 'B', short *: 'h', unsigned short *: 'H', "
                          "int *: 'i', unsigned int *: 'I', long *: 'q', unsigned long *: 'Q', "
                          "long long *: 'q', unsigned long long *: 'Q', float *: 'f', "
                          "double *: 'd', default: 0)", type);
}

static void
append_arguments (GString    *output,
                  const char *name,
                  GArray     *parameters)
{
  static const char *const kinds[] = { "MEMORY", "LOCAL", "VALUE", "IMAGE", "SAMPLER" };

  if (parameters->len == 0)
    return;

  g_string_append_printf (output, "static const GpuHostArgument gpu_host_arguments_%s[] =\n{\n",
                          name);

  for (guint i = 0; i < parameters->len; i++)
    {
      const Parameter *parameter = &g_array_index (parameters, Parameter, i);

      g_string_append_printf (output, "  { GPU_HOST_ARGUMENT_%s, \"%s\", \"%s\", ",
                              kinds[parameter->kind], parameter->name, parameter->type_name);

      if (parameter->kind == GPU_HOST_ARGUMENT_VALUE)
        {
          append_type_code (output, parameter->type);
          g_string_append_printf (output, ", 0, sizeof (%s) },\n", parameter->type);
        }
      else
        {
          g_string_append_printf (output, "0, %d, 0 },\n", parameter->read_only);
        }
    }

  g_string_append (output, "};\n");
}

/* Appends declarations of the symbols that the linker defines at the start and at the end of the
 * section with the sizes of local variables. */
static void
append_local_bounds (GString    *output,
                     const char *name)
{
  static const char *const bounds[] = { "start", "stop" };

  for (gsize i = 0; i < G_N_ELEMENTS (bounds); i++)
    g_string_append_printf (output,
                            "extern const GpuHostSize __%s_gpu_host_sizes_%s[] "
                            "__attribute__ ((weak, visibility (\"hidden\")));\n",
                            bounds[i], name);
}

static gboolean
append_kernel (GpuSource          *source,
               GpuSourceFunction  *kernel,
               GString            *output,
               GString            *entries,
               GError            **error)
{
  g_autoptr (GArray) parameters = parse_parameters (source, kernel, error);
  g_autofree char *block = NULL;
  const char *name = kernel->name;

  if (parameters == NULL)
    return FALSE;

  block = _gpu_source_get_required_block (source, kernel);
  append_run (output, name, parameters);
  append_arguments (output, name, parameters);
  append_local_bounds (output, name);
  g_string_append_printf (entries,
                          "  { \"%s\", gpu_host_run_%s, %s%s, %u, %d, { %s }, "
                          "__start_gpu_host_sizes_%s, __stop_gpu_host_sizes_%s },\n",
                          name, name, parameters->len > 0 ? "gpu_host_arguments_" : "0",
                          parameters->len > 0 ? name : "", parameters->len,
                          _gpu_host_source_has_barrier (source, kernel),
                          block != NULL ? block : "0, 0, 0", name, name);

  return TRUE;
}

char *
_gpu_host_source_describe (GpuSource  *source,
                           GError    **error)
{
  g_autoptr (GString) output = g_string_new ("\n# 1 \"gpumem\"\n");
  g_autoptr (GString) entries = g_string_new (NULL);
  guint n_kernels = 0;

  for (guint i = 0; i < source->functions->len; i++)
    {
      GpuSourceFunction *function = source->functions->pdata[i];

      if (!function->is_kernel)
        continue;

      if (!append_kernel (source, function, output, entries, error))
        return NULL;

      n_kernels++;
    }

  if (n_kernels > 0)
    g_string_append_printf (output,
                            "static const GpuHostKernelEntry gpu_host_kernels[] =\n{\n%s};\n",
                            entries->str);

  g_string_append_printf (output,
                          "extern const GpuHostProgramEntry gpu_host_program;\n"
                          "__attribute__ ((visibility (\"default\"))) "
                          "const GpuHostProgramEntry gpu_host_program = { %d, %u, %s };\n",
                          GPU_HOST_ABI_VERSION, n_kernels,
                          n_kernels > 0 ? "gpu_host_kernels" : "0");

  return g_strdup (output->str);
}
