/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <string.h>

#include "gpumem/cuda/core/gpu-cuda-current.h"
#include "gpumem/cuda/image/gpu-cuda-image.h"
#include "gpumem/cuda/program/gpu-cuda-program.h"

/* The number of bytes of shared memory that a block may use by default. A kernel that needs more
 * must raise its limit. */
#define COMMON_SHARED_MEMORY 49152

/* The prefix of variables with a description of a kernel. The translation of the source adds such a
 * variable after each kernel. */
#define INFO_PREFIX  "gpu_info_"
#define INFO_VERSION 1
#define CONSTANT_SAMPLERS_SHIFT 8

typedef struct
{
  guint32 version;
  guint32 language;             /* bit 0: set for the portable dialect; bits 8 and above: a bitmap
                                 * of the constant samplers that the program may use */
  guint32 n_arguments;
  guint32 block[3];
  guint32 text_size;
} Info;

typedef struct
{
  char    kind;                 /* p: memory, l: local memory, v: value, i: image, s: sampler */
  char    type;                 /* code of the type of a value or of the elements of memory; 'v': a
                                 * type without a code */
  char    read_only;
  char    reserved;
  guint32 size;
} InfoArgument;

static void
clear_arguments (GpuNativeKernel *native)
{
  for (guint i = 0; i < native->n_arguments; i++)
    {
      g_free ((char *) native->arguments[i].name);
      g_free ((char *) native->arguments[i].type_name);
    }

  g_clear_pointer (&native->arguments, g_free);
  native->n_arguments = 0;
}

void
_gpu_cuda_kernel_free (GpuNativeContext *context,
                       GpuNativeKernel  *native)
{
  GpuCudaKernel *kernel = (GpuCudaKernel *) native;

  if (kernel->with_offset != NULL)
    _gpu_cuda_kernel_free (context, &kernel->with_offset->base);

  clear_arguments (native);
  g_free (kernel->name);
  _gpu_cuda_module_unref (kernel->module);
  g_aligned_free (kernel);
}

/* --- descriptions that the library's compiler adds -------------------------------------------- */

static const char *
get_type_name (char code)
{
  static const struct { char code; const char *name; } names[] =
  {
    { '?', "bool" }, { 'b', "char" }, { 'B', "uchar" }, { 'h', "short" }, { 'H', "ushort" },
    { 'i', "int" }, { 'I', "uint" }, { 'q', "long" }, { 'Q', "ulong" }, { 'f', "float" },
    { 'd', "double" }
  };

  for (gsize i = 0; i < G_N_ELEMENTS (names); i++)
    {
      if (names[i].code == code)
        return names[i].name;
    }

  return NULL;
}

/* Sets @argument to the image or sampler that @info describes. Returns FALSE if this version of the
 * library does not support the description. */
static gboolean
describe_object (GpuCudaKernel       *kernel,
                 GpuArgumentInfo     *argument,
                 const InfoArgument  *info)
{
  gboolean is_image = info->kind == 'i';
  guint n_words = _gpu_cuda_image_get_n_words (info->kind, info->type, info->size,
                                               info->read_only != 0);

  argument->kind = is_image ? GPU_ARGUMENT_KIND_IMAGE : GPU_ARGUMENT_KIND_SAMPLER;
  argument->type_name = g_strdup (is_image ? _gpu_cuda_image_get_type_name (info->type)
                                           : "sampler_t");
  argument->read_only = info->read_only != 0;
  kernel->n_image_words += n_words;

  return n_words > 0 || (!is_image && info->size == sizeof (guint32));
}

static void
describe_argument (GpuArgumentInfo     *argument,
                   const InfoArgument  *info,
                   gboolean             is_portable,
                   const char          *written)
{
  const char *type = get_type_name (info->type);

  if (type != NULL)
    argument->type_name = g_strconcat (type, info->kind != 'v' ? "*" : "", NULL);
  else if (written != NULL && *written != '\0')
    argument->type_name = g_strdup (written);

  switch (info->kind)
    {
    case 'p':
      argument->kind = GPU_ARGUMENT_KIND_MEMORY;
      argument->read_only = info->read_only != 0;
      argument->size = is_portable ? 0 : info->size;
      break;
    case 'l':
      argument->kind = GPU_ARGUMENT_KIND_LOCAL;
      break;
    default:
      argument->kind = GPU_ARGUMENT_KIND_VALUE;
      argument->type = type != NULL ? info->type : 0;
      argument->size = info->size;
      break;
    }
}

/* Returns the strings in @data. If the description has names, these are the name and the type of
 * each argument, and an empty string at the end. */
static char **
split_words (const guint8 *data,
             gsize         size)
{
  g_autofree char *text = g_memdup2 (data, size);

  for (gsize i = 0; i + 1 < size; i++)
    text[i] = text[i] == '\0' ? '\n' : text[i];

  text[size - 1] = '\0';

  return g_strsplit (text, "\n", -1);
}

/* Returns FALSE if @bytes is not a description that this version of the library supports. */
static gboolean
read_info (GpuCudaKernel *kernel,
           GBytes        *bytes)
{
  g_auto (GStrv) words = NULL;
  gboolean has_words;
  gsize size;
  const guint8 *data = g_bytes_get_data (bytes, &size);
  gsize arguments_size;
  Info info;

  if (size < sizeof info)
    return FALSE;

  memcpy (&info, data, sizeof info);
  arguments_size = ((gsize) info.n_arguments + 1) * sizeof (InfoArgument);

  if (info.version != INFO_VERSION || info.text_size == 0 ||
      arguments_size > size - sizeof info ||
      info.text_size > size - sizeof info - arguments_size)
    return FALSE;

  words = split_words (data + sizeof info + arguments_size, info.text_size);
  has_words = g_strv_length (words) == 2 * info.n_arguments + 1;
  kernel->base.arguments = g_new0 (GpuArgumentInfo, info.n_arguments);
  kernel->base.n_arguments = info.n_arguments;
  kernel->is_described = TRUE;
  kernel->constant_samplers = info.language >> CONSTANT_SAMPLERS_SHIFT;
  memcpy (kernel->required_block, info.block, sizeof info.block);

  for (guint i = 0; i < info.n_arguments; i++)
    {
      GpuArgumentInfo *argument = &kernel->base.arguments[i];
      InfoArgument each;

      memcpy (&each, data + sizeof info + i * sizeof each, sizeof each);

      if (has_words && *words[2 * i] != '\0')
        argument->name = g_strdup (words[2 * i]);

      if (each.kind != 'i' && each.kind != 's')
        describe_argument (argument, &each, (info.language & 1) != 0,
                           has_words ? words[2 * i + 1] : NULL);
      else if (!describe_object (kernel, argument, &each))
        return FALSE;
    }

  return TRUE;
}

/* Returns FALSE, and does not set @error, if the program has no usable description. */
static gboolean
read_details (GpuCudaKernel  *kernel,
              GError        **error)
{
  g_autofree char *name = g_strconcat (INFO_PREFIX, kernel->name, NULL);
  g_autoptr (GBytes) bytes = NULL;

  if (!_gpu_cuda_module_read (kernel->module, name, &bytes, error))
    return FALSE;

  if (read_info (kernel, bytes))
    return TRUE;

  clear_arguments (&kernel->base);
  kernel->is_described = FALSE;
  kernel->n_image_words = 0;
  kernel->constant_samplers = 0;
  memset (kernel->required_block, 0, sizeof kernel->required_block);

  return FALSE;
}

static gboolean
check_samplers (const GpuCudaKernel  *kernel,
                GError              **error)
{
  guint n = 0;

  for (guint i = 0; i < kernel->base.n_arguments; i++)
    n += kernel->base.arguments[i].kind == GPU_ARGUMENT_KIND_SAMPLER;

  if (n <= GPU_CUDA_MAX_SAMPLERS)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
               "kernel \"%s\" takes %u samplers as arguments, but CUDA supports %d; constant "
               "samplers do not count", kernel->name, n, GPU_CUDA_MAX_SAMPLERS);

  return FALSE;
}

/* --- descriptions of the driver --------------------------------------------------------------- */

/* For the index after the last parameter, the driver returns CUDA_ERROR_INVALID_VALUE. Any other
 * code is a failure. */
static GArray *
read_sizes (GpuCudaKernel  *kernel,
            GError        **error)
{
  g_autoptr (GArray) sizes = g_array_new (FALSE, FALSE, sizeof (gsize));
  CUresult code;
  gsize offset;
  gsize size;

  while ((code = _gpu_cuda.cuFuncGetParamInfo (kernel->function, sizes->len, &offset, &size))
         == CUDA_SUCCESS)
    g_array_append_val (sizes, size);

  if (code == CUDA_ERROR_INVALID_VALUE)
    return g_steal_pointer (&sizes);

  _gpu_cuda_set_error (error, "cuFuncGetParamInfo", code, "argument %u of \"%s\"", sizes->len,
                       kernel->name);

  return NULL;
}

/* Sets only the sizes of the arguments. Their types are unknown, so launches cannot check them. */
static gboolean
describe_sizes (GpuCudaKernel  *kernel,
                const char     *native_name,
                GError        **error)
{
  g_autoptr (GArray) sizes = NULL;

  if (_gpu_cuda.has[GPU_CUDA_GROUP_KERNEL_INFO])
    {
      sizes = read_sizes (kernel, error);

      if (sizes == NULL)
        return FALSE;
    }
  else if (kernel->module->image != NULL)
    sizes = _gpu_cuda_binary_get_sizes (kernel->module->image, native_name);

  if (sizes == NULL)
    return _gpu_cuda_has_group (GPU_CUDA_GROUP_KERNEL_INFO, error);

  kernel->base.arguments = g_new0 (GpuArgumentInfo, sizes->len);
  kernel->base.n_arguments = sizes->len;

  for (guint i = 0; i < sizes->len; i++)
    {
      kernel->base.arguments[i].kind = GPU_ARGUMENT_KIND_UNKNOWN;
      kernel->base.arguments[i].size = g_array_index (sizes, gsize, i);
    }

  return TRUE;
}

static gboolean
get_number (GpuCudaKernel         *kernel,
            CUfunction_attribute   attribute,
            int                   *value,
            GError               **error)
{
  CUresult code = _gpu_cuda.cuFuncGetAttribute (value, attribute, kernel->function);

  if (code == CUDA_SUCCESS)
    return TRUE;

  _gpu_cuda_set_error (error, "cuFuncGetAttribute", code, "kernel \"%s\", attribute %u",
                       kernel->name, attribute);

  return FALSE;
}

/* Caller has entered the context. */
static gboolean
find_function (GpuCudaKernel  *kernel,
               const char     *native_name,
               GError        **error)
{
  CUresult code = _gpu_cuda.cuModuleGetFunction (&kernel->function, kernel->module->module,
                                                 native_name);

  if (code != CUDA_SUCCESS)
    {
      _gpu_cuda_set_error (error, "cuModuleGetFunction", code, "\"%s\"", native_name);
      return FALSE;
    }

  return get_number (kernel, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &kernel->max_threads,
                     error) &&
         get_number (kernel, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &kernel->static_shared, error);
}

static gboolean
describe (GpuCudaKernel  *kernel,
          const char     *native_name,
          GError        **error)
{
  GError *reason = NULL;
  gboolean entered;
  gboolean described;

  if (read_details (kernel, &reason))
    return check_samplers (kernel, error);

  if (reason != NULL)
    {
      g_propagate_error (error, reason);
      return FALSE;
    }

  if (!_gpu_cuda_enter (kernel->module->context, &entered, error))
    return FALSE;

  described = describe_sizes (kernel, native_name, error);
  _gpu_cuda_leave (entered);

  return described;
}

GpuNativeKernel *
_gpu_cuda_kernel_new (GpuCudaModule  *module,
                      const char     *name,
                      const char     *native_name,
                      GError        **error)
{
  GpuCudaKernel *kernel = g_aligned_alloc0 (1, sizeof (GpuCudaKernel), GPU_LINE);
  gboolean found = FALSE;
  gboolean entered;

  kernel->base.backend = &_gpu_cuda_backend;
  kernel->module = _gpu_cuda_module_ref (module);
  kernel->name = g_strdup (name);

  if (_gpu_cuda_enter (module->context, &entered, error))
    {
      found = find_function (kernel, native_name, error);
      _gpu_cuda_leave (entered);
    }

  if (!found || !describe (kernel, native_name, error))
    {
      _gpu_cuda_kernel_free (NULL, &kernel->base);
      return NULL;
    }

  kernel->dynamic_shared = _gpu_cuda_module_get_limit (module, kernel->function,
                                                       MAX (COMMON_SHARED_MEMORY
                                                            - kernel->static_shared, 0));

  return &kernel->base;
}

static guint64
kernel_get_handle (GpuNativeKernel *native)
{
  return (guintptr) ((GpuCudaKernel *) native)->function;
}

/* --- attributes ------------------------------------------------------------------------------- */

static const struct
{
  const char           *nick;
  CUfunction_attribute  attribute;
  gboolean              settable;
}
numbers[] =
{
  { "max-threads-per-block", CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, FALSE },
  { "shared-size", CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, FALSE },
  { "const-size", CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, FALSE },
  { "local-size", CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, FALSE },
  { "n-registers", CU_FUNC_ATTRIBUTE_NUM_REGS, FALSE },
  { "ptx-version", CU_FUNC_ATTRIBUTE_PTX_VERSION, FALSE },
  { "binary-version", CU_FUNC_ATTRIBUTE_BINARY_VERSION, FALSE },
  { "cache-mode-ca", CU_FUNC_ATTRIBUTE_CACHE_MODE_CA, FALSE },
  { "max-dynamic-shared-size", CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, TRUE },
  { "preferred-shared-carveout", CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, TRUE },
  { "cluster-size-must-be-set", CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET, FALSE },
  { "required-cluster-width", CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, TRUE },
  { "required-cluster-height", CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT, TRUE },
  { "required-cluster-depth", CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH, TRUE },
  { "non-portable-cluster-size-allowed", CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, TRUE }
};

/* Omits attributes that the driver does not support. */
static gboolean
add_numbers (GpuCudaKernel  *kernel,
             GVariantDict   *attributes,
             GError        **error)
{
  for (gsize i = 0; i < G_N_ELEMENTS (numbers); i++)
    {
      int value = 0;
      CUresult code = _gpu_cuda.cuFuncGetAttribute (&value, numbers[i].attribute,
                                                    kernel->function);

      if (code == CUDA_SUCCESS)
        {
          g_variant_dict_insert (attributes, numbers[i].nick, "i", (gint32) value);
        }
      else if (code != CUDA_ERROR_INVALID_VALUE && code != CUDA_ERROR_NOT_SUPPORTED)
        {
          _gpu_cuda_set_error (error, "cuFuncGetAttribute", code, "kernel \"%s\", %s",
                               kernel->name, numbers[i].nick);
          return FALSE;
        }
    }

  return TRUE;
}

/* Adds the attributes with the nicks that the OpenCL back end also uses. */
static gboolean
add_common (GpuCudaKernel  *kernel,
            GVariantDict   *attributes,
            GError        **error)
{
  const guint *required = kernel->required_block;
  int local_size = 0;

  if (!get_number (kernel, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, &local_size, error))
    return FALSE;

  g_variant_dict_insert (attributes, "function-name", "s", kernel->name);
  g_variant_dict_insert (attributes, "num-args", "u", kernel->base.n_arguments);
  g_variant_dict_insert (attributes, "work-group-size", "t", (guint64) kernel->max_threads);
  g_variant_dict_insert (attributes, "preferred-work-group-size-multiple", "t",
                         (guint64) kernel->module->context->device->warp_size);
  g_variant_dict_insert (attributes, "local-mem-size", "t", (guint64) kernel->static_shared);
  g_variant_dict_insert (attributes, "private-mem-size", "t", (guint64) local_size);
  g_variant_dict_insert (attributes, "compile-work-group-size", "(ttt)", (guint64) required[0],
                         (guint64) required[1], (guint64) required[2]);

  return TRUE;
}

static gboolean
kernel_get_attributes (GpuNativeContext  *context,
                       GpuNativeKernel   *native,
                       GVariantDict      *attributes,
                       GError           **error)
{
  GpuCudaKernel *kernel = (GpuCudaKernel *) native;
  gboolean entered;
  gboolean added;

  if (!_gpu_cuda_enter ((GpuCudaContext *) context, &entered, error))
    return FALSE;

  added = add_common (kernel, attributes, error) && add_numbers (kernel, attributes, error);
  _gpu_cuda_leave (entered);

  return added;
}

static gboolean
set_number (GpuCudaKernel         *kernel,
            CUfunction_attribute   attribute,
            const char            *nick,
            gint64                 value,
            GError               **error)
{
  CUresult code;
  gboolean entered;

  if (value < G_MININT32 || value > G_MAXINT32)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "kernel \"%s\": %s cannot be %" G_GINT64_FORMAT, kernel->name, nick, value);
      return FALSE;
    }

  if (!_gpu_cuda_enter (kernel->module->context, &entered, error))
    return FALSE;

  if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
    code = _gpu_cuda_kernel_set_limit (kernel, (int) value);
  else
    code = _gpu_cuda.cuFuncSetAttribute (kernel->function, attribute, (int) value);
  _gpu_cuda_leave (entered);

  if (code != CUDA_SUCCESS)
    {
      _gpu_cuda_set_error (error, "cuFuncSetAttribute", code,
                           "kernel \"%s\", %s = %" G_GINT64_FORMAT, kernel->name, nick, value);
      return FALSE;
    }

  return TRUE;
}

/* Also sets the attribute of the copy for launches with an offset. */
static gboolean
set_both (GpuCudaKernel         *kernel,
          CUfunction_attribute   attribute,
          const char            *nick,
          gint64                 value,
          GError               **error)
{
  GpuCudaKernel *copy;

  return set_number (kernel, attribute, nick, value, error)
         && _gpu_cuda_kernel_find_copy (kernel, &copy, error)
         && (copy == NULL || set_number (copy, attribute, nick, value, error));
}

gboolean
_gpu_cuda_kernel_copy_attributes (GpuCudaKernel  *kernel,
                                  GpuCudaKernel  *source,
                                  GError        **error)
{
  const GpuCachePreference preference = g_atomic_int_get (&source->cache_preference);
  CUresult code;

  for (gsize i = 0; i < G_N_ELEMENTS (numbers); i++)
    {
      int value, own;

      /* A driver rejects attributes that it does not know. */
      if (numbers[i].settable
          && _gpu_cuda.cuFuncGetAttribute (&value, numbers[i].attribute,
                                           source->function) == CUDA_SUCCESS
          && _gpu_cuda.cuFuncGetAttribute (&own, numbers[i].attribute,
                                           kernel->function) == CUDA_SUCCESS
          && value != own
          && !set_number (kernel, numbers[i].attribute, numbers[i].nick, value, error))
        return FALSE;
    }

  if (preference == GPU_CACHE_PREFERENCE_NONE)
    return TRUE;

  code = _gpu_cuda.cuFuncSetCacheConfig (kernel->function, _gpu_cuda_cache_to_native (preference));

  return _gpu_cuda_check (code, "cuFuncSetCacheConfig", error);
}

static gboolean
kernel_set_attribute (GpuNativeContext  *context G_GNUC_UNUSED,
                      GpuNativeKernel   *native,
                      const char        *nick,
                      gint64             value,
                      GError           **error)
{
  GpuCudaKernel *kernel = (GpuCudaKernel *) native;

  for (gsize i = 0; i < G_N_ELEMENTS (numbers); i++)
    {
      if (!g_str_equal (numbers[i].nick, nick))
        continue;

      if (numbers[i].settable)
        return set_both (kernel, numbers[i].attribute, nick, value, error);

      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "kernel \"%s\": %s cannot be set", kernel->name, nick);
      return FALSE;
    }

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "kernel \"%s\" has no attribute \"%s\" that can be set", kernel->name, nick);

  return FALSE;
}

static gboolean
kernel_set_cache_preference (GpuNativeContext    *context,
                             GpuNativeKernel     *native,
                             GpuCachePreference   preference,
                             GError             **error)
{
  GpuCudaKernel *kernel = (GpuCudaKernel *) native;
  GpuCudaKernel *copy;
  CUresult code;
  gboolean entered;

  if (!_gpu_cuda_enter ((GpuCudaContext *) context, &entered, error))
    return FALSE;

  code = _gpu_cuda.cuFuncSetCacheConfig (kernel->function,
                                         _gpu_cuda_cache_to_native (preference));
  _gpu_cuda_leave (entered);

  if (!_gpu_cuda_check (code, "cuFuncSetCacheConfig", error))
    return FALSE;

  g_atomic_int_set (&kernel->cache_preference, preference);

  return _gpu_cuda_kernel_find_copy (kernel, &copy, error)
         && (copy == NULL
             || kernel_set_cache_preference (context, &copy->base, preference, error));
}

static gboolean
kernel_get_max_active_blocks (GpuNativeContext  *context,
                              GpuNativeKernel   *native,
                              gsize              block_size,
                              gsize              shared_size,
                              guint             *n_blocks,
                              GError           **error)
{
  GpuCudaKernel *kernel = (GpuCudaKernel *) native;
  int n = 0;
  CUresult code = CUDA_SUCCESS;
  gboolean entered;

  /* A multiprocessor runs no block of more than max_threads work-items. Do not call the driver for
   * such a block, because the driver's parameter for the block size is an int. */
  *n_blocks = 0;
  if (block_size > (gsize) kernel->max_threads)
    return TRUE;

  if (!_gpu_cuda_enter ((GpuCudaContext *) context, &entered, error))
    return FALSE;

  code = _gpu_cuda.cuOccupancyMaxActiveBlocksPerMultiprocessor (&n, kernel->function,
                                                                (int) block_size, shared_size);
  _gpu_cuda_leave (entered);

  if (code != CUDA_SUCCESS)
    {
      _gpu_cuda_set_error (error, "cuOccupancyMaxActiveBlocksPerMultiprocessor", code,
                           "kernel \"%s\", blocks of %" G_GSIZE_FORMAT, kernel->name, block_size);
      return FALSE;
    }

  *n_blocks = n;

  return TRUE;
}

const GpuKernelOps _gpu_cuda_kernel_ops =
{
  .free                  = _gpu_cuda_kernel_free,
  .get_handle            = kernel_get_handle,
  .has_options           = TRUE,
  .get_attributes        = kernel_get_attributes,
  .launch                = _gpu_cuda_kernel_launch,
  .set_attribute         = kernel_set_attribute,
  .set_cache_preference  = kernel_set_cache_preference,
  .get_max_active_blocks = kernel_get_max_active_blocks,
  .prepare_offset        = _gpu_cuda_kernel_prepare_offset
};
