/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <math.h>
#include <string.h>

#include "gpumem/base/gpu-nick-private.h"
#include "gpumem/memory/gpu-sampler-private.h"
#include "gpumem/program/gpu-arguments-private.h"
#include "gpumem/program/gpu-image-argument-private.h"
#include "gpumem/program/gpu-kernel-private.h"

static const struct
{
  char        type;
  guint8      size;
  gboolean    is_signed;
  const char *name;
}
value_types[] =
{
  { '?', 1, FALSE, "bool" },
  { 'b', 1, TRUE, "char" },
  { 'B', 1, FALSE, "uchar" },
  { 'h', 2, TRUE, "short" },
  { 'H', 2, FALSE, "ushort" },
  { 'i', 4, TRUE, "int" },
  { 'I', 4, FALSE, "uint" },
  { 'q', 8, TRUE, "long" },
  { 'Q', 8, FALSE, "ulong" },
  { 'e', 2, TRUE, "half" },
  { 'f', 4, TRUE, "float" },
  { 'd', 8, TRUE, "double" }
};

static int
find_type (char type)
{
  for (gsize i = 0; i < G_N_ELEMENTS (value_types); i++)
    {
      if (value_types[i].type == type)
        return i;
    }

  return -1;
}

gsize
_gpu_argument_type_get_size (char type)
{
  int index = find_type (type);

  return index < 0 ? 0 : value_types[index].size;
}

const char *
_gpu_argument_type_get_name (char type)
{
  int index = find_type (type);

  return index < 0 ? NULL : value_types[index].name;
}

gboolean
_gpu_argument_type_is_float (char type)
{
  return type == 'e' || type == 'f' || type == 'd';
}

/* Returns the prefix of every error about one argument. */
static char *
describe (GpuKernel             *kernel,
          const GpuArgumentInfo *info,
          guint                  index)
{
  if (info->name != NULL)
    return g_strdup_printf ("gpu_stream_launch: argument %u (%s) of kernel %s", index, info->name,
                            kernel->name);

  return g_strdup_printf ("gpu_stream_launch: argument %u of kernel %s", index,
                          kernel->name);
}

static const char *
type_name (const GpuArgumentInfo *info)
{
  const char *name = _gpu_argument_type_get_name (info->type);

  if (name != NULL)
    return name;

  return info->type_name != NULL ? info->type_name : "value";
}

static const char *
article (const char *name)
{
  return strchr ("aeio", *name) != NULL ? "an" : "a";
}

static gboolean
set_mismatch (GpuKernel              *kernel,
              const GpuArgumentInfo  *info,
              guint                   index,
              const char             *given,
              GError                **error)
{
  g_autofree char *where = describe (kernel, info, index);
  g_autofree char *wanted = NULL;

  switch (info->kind)
    {
    case GPU_ARGUMENT_KIND_MEMORY:
      wanted = g_strdup ("memory");
      break;
    case GPU_ARGUMENT_KIND_LOCAL:
      wanted = g_strdup ("local memory, given by its size");
      break;
    case GPU_ARGUMENT_KIND_IMAGE:
      wanted = g_strdup_printf ("an image%s%s", info->type_name != NULL ? ", " : "",
                                info->type_name != NULL ? info->type_name : "");
      break;
    case GPU_ARGUMENT_KIND_SAMPLER:
      wanted = g_strdup ("a sampler");
      break;
    case GPU_ARGUMENT_KIND_VALUE:
    case GPU_ARGUMENT_KIND_UNKNOWN:
    default:
      wanted = g_strdup_printf (info->size == 0 ? "%s %s" : "%s %s of %" G_GSIZE_FORMAT " bytes",
                                article (type_name (info)), type_name (info), info->size);
      break;
    }

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "%s is %s, not %s", where, wanted,
               given);

  return FALSE;
}

static gboolean
set_undeclared (GpuKernel              *kernel,
                const GpuArgumentInfo  *info,
                guint                   index,
                GError                **error)
{
  g_autofree char *where = describe (kernel, info, index);

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: the driver does not describe its type; call gpu_kernel_declare_arguments() "
               "first, or pass its bytes with gpu_arguments_add_value()", where);

  return FALSE;
}

/* Writes @value with 15 digits. If that text does not parse back to @value, writes 17 digits. */
static void
format_double (char    *text,
               gsize    size,
               gdouble  value)
{
  g_ascii_formatd (text, size, "%.15g", value);
  if (g_ascii_strtod (text, NULL) != value)
    g_ascii_formatd (text, size, "%.17g", value);
}

static gboolean
set_out_of_range (GpuKernel              *kernel,
                  const GpuArgumentInfo  *info,
                  guint                   index,
                  const GpuArgumentItem  *item,
                  GError                **error)
{
  g_autofree char *where = describe (kernel, info, index);
  char number[G_ASCII_DTOSTR_BUF_SIZE];

  if (item->type == GPU_ARGUMENT_ITEM_INT)
    g_snprintf (number, sizeof number, "%" G_GINT64_FORMAT, item->value.number.integer);
  else if (item->type == GPU_ARGUMENT_ITEM_UINT)
    g_snprintf (number, sizeof number, "%" G_GUINT64_FORMAT,
                (guint64) item->value.number.integer);
  else
    format_double (number, sizeof number, item->value.number.real);

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "%s is %s %s, which cannot hold %s",
               where, article (type_name (info)), type_name (info), number);

  return FALSE;
}

static gboolean
is_past_int64 (const GpuArgumentItem *item)
{
  return item->type == GPU_ARGUMENT_ITEM_UINT ? item->value.number.integer < 0
                                              : item->type == GPU_ARGUMENT_ITEM_DOUBLE
                                                && item->value.number.real >= 0x1p63;
}

/* Returns whether the number is an integer that fits into @bits bits. */
static gboolean
integer_fits (const GpuArgumentItem *item,
              guint                  bits,
              gboolean               is_signed)
{
  gint64 value = item->value.number.integer;

  if (!item->value.number.integral)
    return FALSE;

  if (is_past_int64 (item))
    return bits == 64 && !is_signed;
  if (bits == 64)
    return is_signed || value >= 0;
  if (is_signed)
    return value >= -(G_GINT64_CONSTANT (1) << (bits - 1)) &&
           value < G_GINT64_CONSTANT (1) << (bits - 1);

  return value >= 0 && value < G_GINT64_CONSTANT (1) << bits;
}

/* Returns a pointer to the number as a value of the type @type, or NULL if the type cannot hold the
 * number. */
static gconstpointer
number_as (const GpuArgumentItem *item,
           char                   type)
{
  int index = find_type (type);
  gsize size = value_types[index].size;
  gboolean is_finite = isfinite (item->value.number.real);

  switch (type)
    {
    case 'd':
      return &item->value.number.real;

    case 'f':
      if (is_finite && !isfinite (item->value.number.single))
        return NULL;
      return &item->value.number.single;

    case 'e':
      if (is_finite && (item->value.number.half & 0x7fff) == 0x7c00)
        return NULL;
      return &item->value.number.half;

    default:
      if (!integer_fits (item, type == '?' ? 1 : size * 8, value_types[index].is_signed))
        return NULL;
#if G_BYTE_ORDER == G_BIG_ENDIAN
      return (const guint8 *) &item->value.number.integer + sizeof (gint64) - size;
#else
      return &item->value.number.integer;
#endif
    }
}

/* Devices with sub-buffers have memory objects: see resolve_address(). */
static const char *
describe_number (GpuKernel             *kernel,
                 const GpuArgumentInfo *info)
{
  const GpuNativeDevice *device = _gpu_kernel_get_core (kernel)->context->devices[0];

  if (info->kind != GPU_ARGUMENT_KIND_MEMORY)
    return "a number";

  return (device->capabilities & GPU_CAPABILITIES_SUB_BUFFERS) != 0
         ? "a number: on OpenCL, memory is an object of the driver, and not an address; pass the "
           "memory, or a null pointer (NULL, null or None)"
         : "a number; pass the memory, or a null pointer (NULL, null or None)";
}

static gboolean
resolve_number (const GpuArgumentItem  *item,
                GpuKernel              *kernel,
                const GpuArgumentInfo  *info,
                guint                   index,
                GpuArgumentValue       *value,
                GError                **error)
{
  value->kind = GPU_ARGUMENT_KIND_VALUE;

  if (info->kind == GPU_ARGUMENT_KIND_UNKNOWN)
    return set_undeclared (kernel, info, index, error);
  if (info->kind != GPU_ARGUMENT_KIND_VALUE || _gpu_argument_type_get_size (info->type) == 0)
    return set_mismatch (kernel, info, index, describe_number (kernel, info), error);

  value->data = number_as (item, info->type);
  value->size = _gpu_argument_type_get_size (info->type);
  if (value->data == NULL)
    return set_out_of_range (kernel, info, index, item, error);

  return TRUE;
}

static gboolean
resolve_bytes (const GpuArgumentItem  *item,
               GpuKernel              *kernel,
               const GpuArgumentInfo  *info,
               guint                   index,
               GpuArgumentValue       *value,
               GError                **error)
{
  /* If the size of pointers is known, a pointer argument also accepts the bytes of an address. */
  gboolean is_value = info->kind == GPU_ARGUMENT_KIND_VALUE ||
                      info->kind == GPU_ARGUMENT_KIND_UNKNOWN ||
                      (info->kind == GPU_ARGUMENT_KIND_MEMORY && info->size != 0);

  if (!is_value || item->size == 0 || (info->size != 0 && info->size != item->size))
    {
      g_autofree char *given = g_strdup_printf ("%" G_GSIZE_FORMAT " bytes", item->size);

      return set_mismatch (kernel, info, index, given, error);
    }

  value->kind = GPU_ARGUMENT_KIND_VALUE;
  value->size = item->size;
  value->data = item->size > GPU_ARGUMENT_INLINE_SIZE ? item->value.allocated : item->value.bytes;

  return TRUE;
}

/* --- images and samplers ---------------------------------------------------------------------- */

static gboolean
has_textures (GpuKernel *kernel)
{
  const GpuBackend *backend = _gpu_kernel_get_core (kernel)->context->backend;

  return backend->image != NULL && backend->image->has_textures;
}

/* Returns whether the argument that @info describes may be a texture or surface object. The driver
 * describes such an argument as a 64-bit value, or not at all. */
static gboolean
takes_object (GpuKernel              *kernel,
              const GpuArgumentInfo  *info)
{
  return has_textures (kernel)
         && (info->kind == GPU_ARGUMENT_KIND_UNKNOWN || info->kind == GPU_ARGUMENT_KIND_VALUE)
         && (info->size == 0 || info->size == sizeof (guint64));
}

static gboolean
check_access (GpuImage               *image,
              gboolean                is_written,
              GpuKernel              *kernel,
              const GpuArgumentInfo  *info,
              guint                   index,
              GError                **error)
{
  g_autofree char *where = NULL;

  if (_gpu_image_check_access (image, is_written, error))
    return TRUE;

  where = describe (kernel, info, index);
  g_prefix_error (error, "%s ", where);

  return FALSE;
}

static gboolean
resolve_image (GpuImage               *image,
               GpuKernel              *kernel,
               const GpuArgumentInfo  *info,
               guint                   index,
               GpuArgumentValue       *value,
               GError                **error)
{
  GpuImageType type = gpu_image_get_image_type (image);
  GpuImageType wanted;

  value->kind = GPU_ARGUMENT_KIND_IMAGE;

  /* An image without a sampler is passed as a surface object, which the kernel may write. */
  if (takes_object (kernel, info))
    return check_access (image, TRUE, kernel, info, index, error);

  if (info->kind == GPU_ARGUMENT_KIND_UNKNOWN)
    return TRUE;

  if (info->kind != GPU_ARGUMENT_KIND_IMAGE
      || (_gpu_image_type_from_name (info->type_name, &wanted) && wanted != type))
    {
      g_autofree char *given = g_strdup_printf ("an image of type %s",
                                                _gpu_image_type_get_name (type));

      return set_mismatch (kernel, info, index, given, error);
    }

  return check_access (image, !info->read_only, kernel, info, index, error);
}

GPU_COLD static gboolean
fail_written (GpuMemory              *memory,
              GpuKernel              *kernel,
              const GpuArgumentInfo  *info,
              guint                   index,
              GError                **error)
{
  g_autofree char *where = describe (kernel, info, index);
  g_autofree char *text = _gpu_flags_get_nicks (GPU_TYPE_MEMORY_FLAGS, memory->flags);

  if ((memory->flags & GPU_MEMORY_FLAGS_READ_ONLY) == 0)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s may be written, and the array cannot be written: its elements, or those of "
                   "an array that it views, share memory; kernels must take it as an argument that "
                   "is a pointer to const", where);
      return FALSE;
    }

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s may be written, which the flags of the memory of %" G_GSIZE_FORMAT " bytes, %s, "
               "do not allow; kernels must take it as an argument that is a pointer to const",
               where, memory->size, text);

  return FALSE;
}

static gboolean
resolve_memory (const GpuArgumentItem  *item,
                GpuKernel              *kernel,
                const GpuArgumentInfo  *info,
                guint                   index,
                GpuArgumentValue       *value,
                GpuMemory             **memory,
                GError                **error)
{
  *memory = item->value.memory;

  if (*memory != NULL && GPU_IS_IMAGE (*memory))
    return resolve_image (GPU_IMAGE (*memory), kernel, info, index, value, error);

  value->kind = GPU_ARGUMENT_KIND_MEMORY;

  if (info->kind != GPU_ARGUMENT_KIND_UNKNOWN && info->kind != GPU_ARGUMENT_KIND_MEMORY)
    return set_mismatch (kernel, info, index, *memory != NULL ? "memory" : "a null pointer",
                         error);

  return *memory == NULL
         || _gpu_argument_allows_use (*memory, item->size > 0 && item->value.shares_bytes, info)
         || fail_written (*memory, kernel, info, index, error);
}

/* Fails if the kernel belongs to another context than @sampler. @what names the argument. */
static gboolean
check_sampler (const GpuNativeSampler  *sampler,
               const char              *what,
               GpuKernel               *kernel,
               const GpuArgumentInfo   *info,
               guint                    index,
               GError                 **error)
{
  const GpuNativeContext *context = _gpu_kernel_get_core (kernel)->context;
  g_autofree char *given = NULL;

  if (sampler->context == context)
    return TRUE;

  given = g_strdup_printf ("%s of another context, on %s, than the kernel, on %s", what,
                           sampler->context->devices[0]->id, context->devices[0]->id);

  return set_mismatch (kernel, info, index, given, error);
}

static gboolean
resolve_sampler (const GpuArgumentItem  *item,
                 GpuKernel              *kernel,
                 const GpuArgumentInfo  *info,
                 guint                   index,
                 GpuArgumentValue       *value,
                 GError                **error)
{
  value->kind = GPU_ARGUMENT_KIND_SAMPLER;
  value->sampler = _gpu_sampler_get_native (item->value.sampler, "gpu_stream_launch", error);

  if (value->sampler == NULL)
    return FALSE;

  if (info->kind != GPU_ARGUMENT_KIND_UNKNOWN && info->kind != GPU_ARGUMENT_KIND_SAMPLER)
    return set_mismatch (kernel, info, index, "a sampler", error);

  return check_sampler (value->sampler, "a sampler", kernel, info, index, error);
}

static gboolean
check_texture (GpuImage                     *image,
               const GpuSamplerDescription  *sampler,
               GpuKernel                    *kernel,
               const GpuArgumentInfo        *info,
               guint                         index,
               GError                      **error)
{
  g_autofree char *where = NULL;

  if (_gpu_image_check_texture (image, sampler, error))
    return TRUE;

  where = describe (kernel, info, index);
  g_prefix_error (error, "%s: ", where);

  return FALSE;
}

static gboolean
resolve_texture (const GpuArgumentItem  *item,
                 GpuKernel              *kernel,
                 const GpuArgumentInfo  *info,
                 guint                   index,
                 GpuArgumentValue       *value,
                 GpuMemory             **memory,
                 GError                **error)
{
  if (!takes_object (kernel, info))
    return set_mismatch (kernel, info, index, "a texture", error);

  value->sampler = _gpu_sampler_get_native (item->value.sampler, "gpu_stream_launch", error);
  value->kind = GPU_ARGUMENT_KIND_IMAGE;
  *memory = item->value.memory;

  if (value->sampler == NULL)
    return FALSE;

  return check_sampler (value->sampler, "a texture with a sampler", kernel, info, index, error)
         && check_access (GPU_IMAGE (*memory), FALSE, kernel, info, index, error)
         && check_texture (GPU_IMAGE (*memory), &value->sampler->description, kernel, info, index,
                           error);
}

/* --- addresses -------------------------------------------------------------------------------- */

/* Passes an address as a pointer on OpenCL. */
static gboolean
resolve_pointer (const GpuArgumentItem  *item,
                 GpuKernel              *kernel,
                 const GpuArgumentInfo  *info,
                 guint                   index,
                 GpuArgumentValue       *value,
                 GError                **error)
{
  const GpuNativeDevice *device = _gpu_kernel_get_core (kernel)->context->devices[0];
  g_autofree char *where = NULL;

  value->kind = GPU_ARGUMENT_KIND_MEMORY;

  if (item->value.address == 0)
    return TRUE;

  value->data = &item->value.address;
  value->size = sizeof item->value.address;

  if (device->takes_addresses)
    return TRUE;

  where = describe (kernel, info, index);
  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
               "%s: memory of %s has no addresses; pass the memory with gpu_arguments_add_memory()",
               where, device->id);

  return FALSE;
}

static gboolean
resolve_address (const GpuArgumentItem  *item,
                 GpuKernel              *kernel,
                 const GpuArgumentInfo  *info,
                 guint                   index,
                 GpuArgumentValue       *value,
                 GError                **error)
{
  const GpuNativeDevice *device = _gpu_kernel_get_core (kernel)->context->devices[0];
  gboolean is_pointer = info->kind == GPU_ARGUMENT_KIND_MEMORY;

  if ((device->capabilities & GPU_CAPABILITIES_SUB_BUFFERS) != 0)
    {
      if (is_pointer)
        return resolve_pointer (item, kernel, info, index, value, error);
      if (info->kind == GPU_ARGUMENT_KIND_UNKNOWN)
        return set_undeclared (kernel, info, index, error);
    }

  if (!is_pointer && info->kind != GPU_ARGUMENT_KIND_UNKNOWN
      && (info->kind != GPU_ARGUMENT_KIND_VALUE || _gpu_argument_type_is_float (info->type)
          || (info->size != 0 ? info->size : _gpu_argument_type_get_size (info->type))
             != sizeof item->value.address))
    return set_mismatch (kernel, info, index, "an address", error);

  value->kind = GPU_ARGUMENT_KIND_VALUE;
  value->size = sizeof item->value.address;
  value->data = &item->value.address;

  return TRUE;
}

static gboolean
resolve_item (const GpuArgumentItem  *item,
              GpuKernel              *kernel,
              const GpuArgumentInfo  *info,
              guint                   index,
              GpuArgumentValue       *value,
              GpuMemory             **memory,
              GError                **error)
{
  gboolean is_unknown = info->kind == GPU_ARGUMENT_KIND_UNKNOWN;

  value->buffer = NULL;
  value->sampler = NULL;
  value->data = NULL;
  value->size = 0;
  *memory = NULL;

  switch (item->type)
    {
    case GPU_ARGUMENT_ITEM_MEMORY:
      return resolve_memory (item, kernel, info, index, value, memory, error);

    case GPU_ARGUMENT_ITEM_SAMPLER:
      return resolve_sampler (item, kernel, info, index, value, error);

    case GPU_ARGUMENT_ITEM_TEXTURE:
      return resolve_texture (item, kernel, info, index, value, memory, error);

    case GPU_ARGUMENT_ITEM_LOCAL:
      if (!is_unknown && info->kind != GPU_ARGUMENT_KIND_LOCAL)
        return set_mismatch (kernel, info, index, "local memory", error);
      if (item->size == 0)
        return set_mismatch (kernel, info, index, "local memory of 0 bytes", error);
      value->kind = GPU_ARGUMENT_KIND_LOCAL;
      value->size = item->size;
      return TRUE;

    case GPU_ARGUMENT_ITEM_BYTES:
      return resolve_bytes (item, kernel, info, index, value, error);

    case GPU_ARGUMENT_ITEM_ADDRESS:
      return resolve_address (item, kernel, info, index, value, error);

    case GPU_ARGUMENT_ITEM_INT:
    case GPU_ARGUMENT_ITEM_UINT:
    case GPU_ARGUMENT_ITEM_DOUBLE:
    default:
      return resolve_number (item, kernel, info, index, value, error);
    }
}

static gboolean
set_wrong_number (GpuKernel              *kernel,
                  const GpuArgumentInfo  *infos,
                  guint                   n_arguments,
                  guint                   n_given,
                  GError                **error)
{
  const char *name = n_given < n_arguments ? infos[n_given].name : NULL;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "gpu_stream_launch: kernel %s takes %u arguments, not %u%s%s", kernel->name,
               n_arguments, n_given, name != NULL ? "; the first that is missing is " : "",
               name != NULL ? name : "");
  return FALSE;
}

gboolean
_gpu_arguments_resolve (GpuArguments      *arguments,
                        GpuKernel         *kernel,
                        GpuArgumentValue  *values,
                        GpuMemory        **memories,
                        GError           **error)
{
  guint n_arguments;
  const GpuArgumentInfo *infos = _gpu_kernel_get_arguments (kernel, &n_arguments);

  if (arguments->n_items != n_arguments)
    return set_wrong_number (kernel, infos, n_arguments, arguments->n_items, error);

  for (guint i = 0; i < n_arguments; i++)
    {
      if (!resolve_item (&arguments->items[i], kernel, &infos[i], i, &values[i], &memories[i],
                         error))
        return FALSE;
    }

  return TRUE;
}

gboolean
_gpu_arguments_resolve_indirect (GpuArguments  *arguments,
                                 GpuMemory    **memories,
                                 GError       **error)
{
  guint n = _gpu_arguments_get_n_indirect (arguments);

  for (guint i = 0; i < n; i++)
    {
      memories[i] = g_ptr_array_index (arguments->indirect, i);

      if (GPU_IS_IMAGE (memories[i]))
        {
          g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                       "gpu_stream_launch: the memory %u of the indirect memory is an image, which "
                       "has no pointers to it", i);
          return FALSE;
        }
    }

  return TRUE;
}

/* Returns FALSE if the type cannot hold @given. In that case @number->int32 holds @given for the
 * error message. */
static inline gboolean
read_short_integer (char               type,
                    int                given,
                    GpuArgumentNumber *number)
{
  number->int32 = given;

  if (type == 'b' && (gint8) given == given)
    number->int8 = (gint8) given;
  else if (type == '?' && !!given == given)
    number->int8 = (gint8) given;
  else if (type == 'B' && (guint8) given == given)
    number->int8 = (gint8) (guint8) given;
  else if (type == 'h' && (gint16) given == given)
    number->int16 = (gint16) given;
  else if (type == 'H' && (guint16) given == given)
    number->int16 = (gint16) (guint16) given;
  else
    return FALSE;

  return TRUE;
}

static inline gboolean
read_float (va_list           *ap,
            GpuArgumentNumber *number)
{
  const double real = va_arg (*ap, double);

  number->single = (gfloat) real;

  if (G_LIKELY (isfinite (number->single)) || !isfinite (real))
    return TRUE;

  number->real = real;

  return FALSE;
}

/* Reads a value of any type but int and float. */
GPU_APART static gboolean
read_other_value (const GpuArgumentInfo  *info,
                  va_list                *ap,
                  GpuArgumentNumber      *number,
                  GpuArgumentValue       *value)
{
  switch (info->type)
    {
    case '?':
    case 'b':
    case 'B':
      value->size = sizeof number->int8;
      return read_short_integer (info->type, va_arg (*ap, int), number);

    case 'h':
    case 'H':
      value->size = sizeof number->int16;
      return read_short_integer (info->type, va_arg (*ap, int), number);

    case 'q':
    case 'Q':
      value->size = sizeof number->int64;
      number->int64 = va_arg (*ap, gint64);
      return info->size == 0 || info->size == sizeof number->int64;

    case 'd':
      value->size = sizeof number->real;
      number->real = va_arg (*ap, double);
      return TRUE;

    case 'e':
      number->real = va_arg (*ap, double);
      return FALSE;

    default:
      value->data = va_arg (*ap, const guint8 *);
      return value->data != NULL && value->size != 0;
    }
}

/* Tests the most frequent types first. A switch statement would be an indirect jump, which the
 * processor often predicts wrongly. */
static inline gboolean
read_value (const GpuArgumentInfo  *info,
            va_list                *ap,
            GpuArgumentNumber      *number,
            GpuArgumentValue       *value)
{
  *value = (GpuArgumentValue) { .kind = GPU_ARGUMENT_KIND_VALUE, .data = number,
                                .size = info->size };

  if (info->type == 'i' || info->type == 'I')
    {
      value->size = sizeof number->int32;
      number->int32 = va_arg (*ap, int);
      return TRUE;
    }

  if (info->type == 'f')
    {
      value->size = sizeof number->single;
      return read_float (ap, number);
    }

  return read_other_value (info, ap, number, value);
}

/* Reads an integer or a pointer of @size bytes. Returns TRUE if it is the end value: an 8-byte
 * value that the gpu_stream_launch() macro appends to the arguments. On 64-bit machines every
 * variable argument takes 8 bytes, so the end value is also recognized in place of a missing
 * int. */
static inline gboolean
is_integer_end (va_list *ap,
                gsize    size)
{
#if GLIB_SIZEOF_VOID_P == 4
  if (size == 4)
    {
      (void) va_arg (*ap, guint32);
      return FALSE;
    }
#endif

  return va_arg (*ap, guint64) == _GPU_ARGUMENTS_END_INTEGER;
}

static inline gboolean
is_end (double real)
{
  static const double end = _GPU_ARGUMENTS_END_REAL;

  return memcmp (&real, &end, sizeof end) == 0;
}

static inline gboolean
is_real_end (va_list *ap)
{
  return is_end (va_arg (*ap, double));
}

static inline gboolean
is_real (const GpuArgumentInfo *info)
{
  return info->kind == GPU_ARGUMENT_KIND_VALUE
         && (info->type == 'f' || info->type == 'd' || info->type == 'e');
}

/* Returns the size of the integer or pointer that read_argument() reads. */
static inline gsize
get_integer_size (const GpuArgumentInfo *info)
{
  if (info->kind == GPU_ARGUMENT_KIND_LOCAL)
    return sizeof (gsize);

  if (info->kind != GPU_ARGUMENT_KIND_VALUE)
    return sizeof (gpointer);

  switch (info->type)
    {
    case '?':
    case 'b':
    case 'B':
    case 'h':
    case 'H':
    case 'i':
    case 'I':
      return sizeof (int);

    case 'q':
    case 'Q':
      return sizeof (gint64);

    default:
      return sizeof (gconstpointer);
    }
}

/* Skips one variable argument of the type that read_argument() reads. Returns TRUE if an end value
 * is in the place of that argument. It is not sufficient to check for end values after the last
 * argument: the stack may still hold the end values of an earlier call there. */
static inline gboolean
is_missing (const GpuArgumentInfo  *info,
            va_list                *ap)
{
  return is_real (info) ? is_real_end (ap) : is_integer_end (ap, get_integer_size (info));
}

GPU_COLD static gboolean
fail_number (GpuKernel              *kernel,
             const GpuArgumentInfo  *infos,
             guint                   n_arguments,
             GError                **error)
{
  g_autoptr (GString) kinds = g_string_new (NULL);

  for (guint i = 0; i < n_arguments; i++)
    {
      g_autofree char *kind = _gpu_enum_get_nick (GPU_TYPE_ARGUMENT_KIND, infos[i].kind);
      const gboolean is_value = infos[i].kind == GPU_ARGUMENT_KIND_VALUE;

      g_string_append_printf (kinds, "%s%s", i == 0 ? ": " : ", ",
                              is_value ? type_name (&infos[i]) : kind);
    }

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "gpu_stream_launch: the variable arguments do not match kernel %s, which takes "
               "%u%s",
               kernel->name, n_arguments, kinds->str);

  return FALSE;
}

/* Stops at the first argument of unknown kind: without its C type, the arguments after it cannot be
 * found. */
GPU_HOT gboolean
_gpu_arguments_check_va (GpuKernel  *kernel,
                         va_list     ap,
                         GError    **error)
{
  guint n_arguments;
  const GpuArgumentInfo *infos = _gpu_kernel_get_arguments (kernel, &n_arguments);
  gboolean is_right = TRUE;
  va_list copy;
  guint i;

  va_copy (copy, ap);
  for (i = 0; i < n_arguments && is_right && infos[i].kind != GPU_ARGUMENT_KIND_UNKNOWN; i++)
    is_right = !is_missing (&infos[i], &copy);

  if (is_right && i == n_arguments)
    is_right = is_integer_end (&copy, sizeof (guint64)) && is_real_end (&copy);
  va_end (copy);

  return G_LIKELY (is_right) || fail_number (kernel, infos, n_arguments, error);
}

/* Reads an argument that is neither a value nor memory. */
GPU_APART static gboolean
read_other_argument (const GpuArgumentInfo  *info,
                     va_list                *ap,
                     GpuArgumentValue       *value)
{
  switch (info->kind)
    {
    case GPU_ARGUMENT_KIND_LOCAL:
      *value = (GpuArgumentValue) { .kind = GPU_ARGUMENT_KIND_LOCAL,
                                    .size = va_arg (*ap, gsize) };
      return value->size != 0;

    case GPU_ARGUMENT_KIND_IMAGE:
      value->data = (gconstpointer) va_arg (*ap, GpuImage *);
      return FALSE;

    case GPU_ARGUMENT_KIND_SAMPLER:
      value->data = (gconstpointer) va_arg (*ap, GpuSampler *);
      return FALSE;

    case GPU_ARGUMENT_KIND_VALUE:
    case GPU_ARGUMENT_KIND_MEMORY:
    case GPU_ARGUMENT_KIND_UNKNOWN:
    default:
      return FALSE;
    }
}

/* Reads one variable argument. Consumes the argument, unless its kind is unknown. Returns FALSE if
 * the argument is invalid, or if _gpu_arguments_resolve() must convert the argument: in both cases,
 * the caller must create a GpuArgumentItem. */
static gboolean
read_argument (const GpuArgumentInfo  *info,
               va_list                *ap,
               GpuArgumentNumber      *number,
               GpuArgumentValue       *value,
               GpuMemory             **memory)
{
  *memory = NULL;

  if (info->kind == GPU_ARGUMENT_KIND_VALUE)
    return read_value (info, ap, number, value);

  if (info->kind != GPU_ARGUMENT_KIND_MEMORY)
    return read_other_argument (info, ap, value);

  *memory = va_arg (*ap, GpuMemory *);

  return *memory != NULL;
}

static gboolean
add_refused (GpuArguments             *arguments,
             GpuKernel                *kernel,
             const GpuArgumentInfo    *info,
             guint                     index,
             const GpuArgumentNumber  *number,
             GError                  **error)
{
  g_autofree char *where = NULL;

  switch (info->type)
    {
    case '?':
    case 'b':
    case 'B':
    case 'h':
    case 'H':
      gpu_arguments_add_int (arguments, number->int32);
      return TRUE;

    case 'q':
    case 'Q':
      gpu_arguments_add_value (arguments, &number->int64, sizeof number->int64);
      return TRUE;

    case 'e':
    case 'f':
      gpu_arguments_add_double (arguments, number->real);
      return TRUE;

    default:
      break;
    }

  if (info->size != 0)
    return set_mismatch (kernel, info, index, "a null pointer", error);

  where = describe (kernel, info, index);
  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s is a %s whose size the driver does not report; declare it with "
               "gpu_kernel_declare_arguments(), or pass it with gpu_arguments_add_value()",
               where, type_name (info));

  return FALSE;
}

static gboolean
fail_null (GpuKernel              *kernel,
           const GpuArgumentInfo  *info,
           guint                   index,
           GError                **error)
{
  g_autofree char *where = describe (kernel, info, index);

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "%s is NULL%s", where,
               info->kind != GPU_ARGUMENT_KIND_MEMORY
               ? "" : "; gpu_arguments_add_memory() passes a null pointer");

  return FALSE;
}

static gboolean
add_read (GpuArguments           *arguments,
          GpuKernel              *kernel,
          const GpuArgumentInfo  *info,
          guint                   index,
          va_list                *ap,
          GError                **error)
{
  GpuArgumentNumber number = { 0 };
  GpuArgumentValue value = { 0 };
  GpuMemory *memory;
  gboolean is_right = read_argument (info, ap, &number, &value, &memory);

  if ((info->kind == GPU_ARGUMENT_KIND_MEMORY && memory == NULL)
      || (info->kind == GPU_ARGUMENT_KIND_SAMPLER && value.data == NULL))
    return fail_null (kernel, info, index, error);

  switch (info->kind)
    {
    case GPU_ARGUMENT_KIND_MEMORY:
      gpu_arguments_add_memory (arguments, memory);
      return TRUE;

    case GPU_ARGUMENT_KIND_LOCAL:
      gpu_arguments_add_local (arguments, value.size);
      return TRUE;

    case GPU_ARGUMENT_KIND_VALUE:
      if (!is_right)
        return add_refused (arguments, kernel, info, index, &number, error);

      gpu_arguments_add_value (arguments, value.data, value.size);
      return TRUE;

    case GPU_ARGUMENT_KIND_IMAGE:
      gpu_arguments_add_memory (arguments, (GpuMemory *) value.data);
      return TRUE;

    case GPU_ARGUMENT_KIND_SAMPLER:
      gpu_arguments_add_sampler (arguments, (GpuSampler *) value.data);
      return TRUE;

    case GPU_ARGUMENT_KIND_UNKNOWN:
    default:
      return set_undeclared (kernel, info, index, error);
    }
}

GpuArguments *
_gpu_arguments_new_va (GpuKernel  *kernel,
                       va_list     ap,
                       GError    **error)
{
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();
  guint n_arguments;
  const GpuArgumentInfo *infos = _gpu_kernel_get_arguments (kernel, &n_arguments);
  gboolean is_right = TRUE;
  va_list copy;

  va_copy (copy, ap);
  for (guint i = 0; i < n_arguments && is_right; i++)
    is_right = add_read (arguments, kernel, &infos[i], i, &copy, error);
  va_end (copy);

  return is_right ? g_steal_pointer (&arguments) : NULL;
}

/* Reads an argument that is neither memory, an int nor a float. */
GPU_APART static gboolean
fetch_other (const GpuArgumentInfo  *info,
             va_list                *ap,
             GpuArgumentNumber      *number,
             GpuArgumentValue       *value,
             GpuMemory             **memory)
{
  gboolean is_right;
  va_list copy;

  va_copy (copy, *ap);
  is_right = !is_missing (info, &copy);
  va_end (copy);

  return is_right && read_argument (info, ap, number, value, memory);
}

/* Like read_argument(), but also returns FALSE if an end value is in the place of the argument. */
static inline gboolean
fetch_argument (const GpuArgumentInfo  *info,
                va_list                *ap,
                GpuArgumentNumber      *number,
                GpuArgumentValue       *value,
                GpuMemory             **memory)
{
  if (info->kind == GPU_ARGUMENT_KIND_MEMORY)
    {
      *value = (GpuArgumentValue) { .kind = GPU_ARGUMENT_KIND_MEMORY };
      *memory = va_arg (*ap, GpuMemory *);
      return *memory != NULL && (guintptr) *memory != _GPU_ARGUMENTS_END_INTEGER;
    }

  if (G_UNLIKELY (info->kind != GPU_ARGUMENT_KIND_VALUE))
    return fetch_other (info, ap, number, value, memory);

  *value = (GpuArgumentValue) { .kind = GPU_ARGUMENT_KIND_VALUE, .data = number,
                                .size = sizeof number->int32 };
  *memory = NULL;

#if GLIB_SIZEOF_VOID_P == 8
  if (info->type == 'i' || info->type == 'I')
    {
      const guint64 bits = va_arg (*ap, guint64);

      number->int32 = (gint32) bits;

      return bits != _GPU_ARGUMENTS_END_INTEGER;
    }
#endif

  if (info->type == 'f')
    {
      const double real = va_arg (*ap, double);

      number->single = (gfloat) real;

      return !is_end (real) && (G_LIKELY (isfinite (number->single)) || !isfinite (real));
    }

  return fetch_other (info, ap, number, value, memory);
}

GPU_HOT gboolean
_gpu_arguments_read_va (const GpuArgumentInfo  *infos,
                        guint                   n_arguments,
                        va_list                 ap,
                        GpuArgumentNumber      *numbers,
                        GpuArgumentValue       *values,
                        GpuMemory             **memories)
{
  gboolean is_right = TRUE;
  va_list copy;

  va_copy (copy, ap);

  for (guint i = 0; i < n_arguments && is_right; i++)
    is_right = fetch_argument (&infos[i], &copy, &numbers[i], &values[i], &memories[i]);

  is_right = is_right && is_integer_end (&copy, sizeof (guint64)) && is_real_end (&copy);
  va_end (copy);

  return is_right;
}
