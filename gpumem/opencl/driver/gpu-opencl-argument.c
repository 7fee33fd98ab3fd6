/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <string.h>

#include "gpumem/opencl/driver/gpu-opencl.h"

/* OpenCL C defines these types. Their sizes are the same on every device. */
static const struct
{
  const char *name;
  char        type;
  gsize       size;
} scalars[] =
{
  { "char", 'b', 1 },
  { "uchar", 'B', 1 },
  { "short", 'h', 2 },
  { "ushort", 'H', 2 },
  { "int", 'i', 4 },
  { "uint", 'I', 4 },
  { "long", 'q', 8 },
  { "ulong", 'Q', 8 },
  { "half", 'e', 2 },
  { "float", 'f', 4 },
  { "double", 'd', 8 }
};

static const guint widths[] = { 2, 3, 4, 8, 16 };

/* Maps "const unsigned int" to "uint" and "signed char" to "char". Leaves names of typedefs
 * unchanged, because some compilers do not resolve typedefs. Other names of several words become
 * "". */
static char *
get_plain_name (const char *type_name)
{
  g_auto (GStrv) words = g_strsplit_set (type_name, " \t", -1);
  const char *plain = NULL;
  gboolean is_unsigned = FALSE;

  for (guint i = 0; words[i] != NULL; i++)
    {
      if (g_str_equal (words[i], "unsigned"))
        is_unsigned = TRUE;
      else if (g_str_equal (words[i], "signed") || g_str_equal (words[i], "const") ||
               g_str_equal (words[i], "volatile") || words[i][0] == '\0')
        continue;
      else if (plain == NULL || g_str_equal (plain, "long") || g_str_equal (plain, "short"))
        plain = plain != NULL && g_str_equal (words[i], "int") ? plain : words[i];
      else
        return g_strdup ("");
    }

  if (plain == NULL)
    plain = is_unsigned ? "int" : "";

  return g_strconcat (is_unsigned ? "u" : "", plain, NULL);
}

static gboolean
is_width (const char *digits,
          guint      *width)
{
  for (gsize i = 0; i < G_N_ELEMENTS (widths); i++)
    {
      g_autofree char *expected = g_strdup_printf ("%u", widths[i]);

      *width = widths[i];
      if (g_str_equal (digits, expected))
        return TRUE;
    }

  return FALSE;
}

void
_gpu_opencl_parse_type (const char *type_name,
                        char       *type,
                        gsize      *size)
{
  g_autofree char *plain = get_plain_name (type_name);

  *type = 0;
  *size = 0;
  for (gsize i = 0; i < G_N_ELEMENTS (scalars); i++)
    {
      guint width = 1;

      if (!g_str_has_prefix (plain, scalars[i].name))
        continue;

      if (g_str_equal (plain, scalars[i].name))
        {
          *type = scalars[i].type;
          *size = scalars[i].size;
        }
      else if (is_width (plain + strlen (scalars[i].name), &width))
        {
          /* A vector of three elements has the size of a vector of four elements. */
          *size = scalars[i].size * (width == 3 ? 4 : width);
        }
    }
}

static cl_int
get_text (cl_kernel            kernel,
          guint                index,
          cl_kernel_arg_info   what,
          char               **text)
{
  g_autofree char *data = NULL;
  gsize size = 0;
  cl_int code = clGetKernelArgInfo (kernel, index, what, 0, NULL, &size);

  if (code == CL_SUCCESS)
    {
      data = g_malloc0 (size + 1);
      code = clGetKernelArgInfo (kernel, index, what, size, data, NULL);
    }
  if (code == CL_SUCCESS)
    *text = _gpu_opencl_clean_text (g_steal_pointer (&data));

  return code;
}

static gboolean
is_image_name (const char *word)
{
  return (g_str_has_prefix (word, "image1d_") || g_str_has_prefix (word, "image2d_")
          || g_str_has_prefix (word, "image3d_")) && g_str_has_suffix (word, "_t");
}

/* Removes the qualifiers that some compilers add to the types of images and samplers:
 * "__read_only image2d_t" becomes "image2d_t". Other types are unchanged. */
static void
simplify_type_name (char **type_name)
{
  g_auto (GStrv) words = g_strsplit_set (*type_name, " \t", -1);

  for (guint i = 0; words[i] != NULL; i++)
    {
      if (is_image_name (words[i]) || g_str_equal (words[i], "sampler_t"))
        {
          g_free (*type_name);
          *type_name = g_strdup (words[i]);
          return;
        }
    }
}

static GpuArgumentKind
get_kind (cl_kernel_arg_address_qualifier  address,
          cl_kernel_arg_access_qualifier   access,
          cl_kernel_arg_type_qualifier     qualifiers,
          const char                      *type_name)
{
  if (qualifiers & CL_KERNEL_ARG_TYPE_PIPE)
    return GPU_ARGUMENT_KIND_UNKNOWN;
  if (access != CL_KERNEL_ARG_ACCESS_NONE || is_image_name (type_name))
    return GPU_ARGUMENT_KIND_IMAGE;
  if (g_str_equal (type_name, "sampler_t"))
    return GPU_ARGUMENT_KIND_SAMPLER;
  if (g_str_equal (type_name, "queue_t") || g_str_equal (type_name, "clk_event_t"))
    return GPU_ARGUMENT_KIND_UNKNOWN;

  switch (address)
    {
    case CL_KERNEL_ARG_ADDRESS_GLOBAL:
    case CL_KERNEL_ARG_ADDRESS_CONSTANT:
      return GPU_ARGUMENT_KIND_MEMORY;
    case CL_KERNEL_ARG_ADDRESS_LOCAL:
      return GPU_ARGUMENT_KIND_LOCAL;
    case CL_KERNEL_ARG_ADDRESS_PRIVATE:
      return GPU_ARGUMENT_KIND_VALUE;
    default:
      return GPU_ARGUMENT_KIND_UNKNOWN;
    }
}

static cl_int
read_argument (cl_kernel        kernel,
               guint            index,
               GpuArgumentInfo *info,
               char           **name,
               char           **type_name)
{
  cl_kernel_arg_address_qualifier address = 0;
  cl_kernel_arg_access_qualifier access = CL_KERNEL_ARG_ACCESS_NONE;
  cl_kernel_arg_type_qualifier qualifiers = 0;
  cl_int code = clGetKernelArgInfo (kernel, index, CL_KERNEL_ARG_ADDRESS_QUALIFIER,
                                    sizeof address, &address, NULL);

  if (code == CL_SUCCESS)
    code = clGetKernelArgInfo (kernel, index, CL_KERNEL_ARG_ACCESS_QUALIFIER, sizeof access,
                               &access, NULL);
  if (code == CL_SUCCESS)
    code = clGetKernelArgInfo (kernel, index, CL_KERNEL_ARG_TYPE_QUALIFIER, sizeof qualifiers,
                               &qualifiers, NULL);
  if (code == CL_SUCCESS)
    code = get_text (kernel, index, CL_KERNEL_ARG_NAME, name);
  if (code == CL_SUCCESS)
    code = get_text (kernel, index, CL_KERNEL_ARG_TYPE_NAME, type_name);
  if (code != CL_SUCCESS)
    return code;

  simplify_type_name (type_name);
  info->kind = get_kind (address, access, qualifiers, *type_name);
  if (info->kind == GPU_ARGUMENT_KIND_IMAGE)
    info->read_only = access == CL_KERNEL_ARG_ACCESS_READ_ONLY;
  else
    info->read_only = info->kind == GPU_ARGUMENT_KIND_MEMORY &&
                      (address == CL_KERNEL_ARG_ADDRESS_CONSTANT ||
                       (qualifiers & CL_KERNEL_ARG_TYPE_CONST) != 0);
  if (info->kind == GPU_ARGUMENT_KIND_VALUE)
    _gpu_opencl_parse_type (*type_name, &info->type, &info->size);

  return CL_SUCCESS;
}

gboolean
_gpu_opencl_describe_argument (cl_kernel         kernel,
                               guint             index,
                               GpuArgumentInfo  *info,
                               GError          **error)
{
  g_autofree char *name = NULL;
  g_autofree char *type_name = NULL;
  cl_int code = read_argument (kernel, index, info, &name, &type_name);

  switch (code)
    {
    case CL_SUCCESS:
      info->name = g_steal_pointer (&name);
      info->type_name = g_steal_pointer (&type_name);
      return TRUE;
    case CL_KERNEL_ARG_INFO_NOT_AVAILABLE:
    case CL_INVALID_VALUE:
    case CL_INVALID_OPERATION:
      *info = (GpuArgumentInfo) { .kind = GPU_ARGUMENT_KIND_UNKNOWN };
      return TRUE;
    default:
      _gpu_opencl_set_error (error, "clGetKernelArgInfo", code, "argument %u", index);
      return FALSE;
    }
}
