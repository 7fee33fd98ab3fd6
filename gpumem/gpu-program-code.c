/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/gpu-debug-private.h"
#include "gpumem/gpu-kernel-private.h"
#include "gpumem/gpu-program-cache-private.h"
#include "gpumem/gpu-program-private.h"

/* Takes @native over. */
static GpuProgramCode *
code_new (GpuNativeContext *context,
          GpuNativeProgram *native)
{
  GpuProgramCode *code = g_new0 (GpuProgramCode, 1);

  g_atomic_ref_count_init (&code->refs);
  code->context = _gpu_native_context_ref (context);
  code->native = native;
  _gpu_live_add (GPU_LIVE_PROGRAM_CODE, 1);

  return code;
}

GpuProgramCode *
_gpu_program_code_ref (GpuProgramCode *code)
{
  g_atomic_ref_count_inc (&code->refs);

  return code;
}

void
_gpu_program_code_unref (GpuProgramCode *code)
{
  if (!g_atomic_ref_count_dec (&code->refs))
    return;

  code->context->backend->program->free (code->context, code->native);
  g_clear_pointer (&code->descriptions, g_variant_unref);
  _gpu_native_context_unref (code->context);
  g_free (code);
  _gpu_live_add (GPU_LIVE_PROGRAM_CODE, -1);
}

static gboolean
check_support (GpuNativeContext  *context,
               gboolean           has_op,
               GpuCapabilities    capability,
               const char        *what,
               GError           **error)
{
  for (guint i = 0; i < context->n_devices; i++)
    {
      GpuNativeDevice *device = context->devices[i];

      if (has_op && (device->capabilities & capability) != 0)
        continue;

      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED, "%s (%s) does not take %s",
                   device->id, device->name, what);
      return FALSE;
    }

  return TRUE;
}

static GpuProgramCode *
load_cached (GpuNativeContext *context,
             const char       *key,
             const char       *options)
{
  g_autoptr (GpuCacheEntry) entry = _gpu_program_cache_load (key);
  g_autoptr (GError) error = NULL;
  GpuNativeProgram *native;
  GpuProgramCode *code;

  if (entry == NULL)
    return NULL;

  native = context->backend->program->load_binary (context, entry->binary, options, &error);
  if (native == NULL)
    {
      _gpu_debug_print (GPU_DEBUG_CACHE, "%s: refused: %s", key, error->message);
      _gpu_program_cache_remove (key);
      return NULL;
    }

  code = code_new (context, native);
  code->descriptions = g_variant_ref (entry->descriptions);

  return code;
}

static void
store_cached (GpuProgramCode *code,
              const char     *key)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) binary = NULL;
  g_autoptr (GVariant) descriptions = NULL;

  binary = code->context->backend->program->get_binary (code->context, code->native, &error);
  if (binary == NULL)
    {
      _gpu_debug_print (GPU_DEBUG_CACHE, "%s: no binary: %s", key, error->message);
      return;
    }

  descriptions = _gpu_kernel_describe_all (code);
  if (descriptions != NULL)
    _gpu_program_cache_store (key, binary, g_variant_ref_sink (descriptions));
}

static GpuProgramCode *
build_source (GpuNativeContext  *context,
              const char        *source,
              const char        *options,
              GpuProgramFlags    flags,
              gboolean          *from_cache,
              GError           **error)
{
  g_autofree char *key = NULL;
  GpuProgramCode *code = NULL;
  GpuNativeProgram *native;

  if ((flags & GPU_PROGRAM_FLAGS_NO_CACHE) == 0 &&
      (context->devices[0]->capabilities & GPU_CAPABILITIES_BINARY) != 0)
    key = _gpu_program_cache_key (context, source, options);

  if (key != NULL)
    code = load_cached (context, key, options);

  *from_cache = code != NULL;
  if (code != NULL)
    return code;

  native = context->backend->program->build_source (context, source, options, error);
  if (native == NULL)
    return NULL;

  code = code_new (context, native);
  if (key != NULL)
    store_cached (code, key);

  return code;
}

GpuProgramCode *
_gpu_program_code_build (GpuNativeContext  *context,
                         const char        *source,
                         GBytes            *binary,
                         GBytes            *il,
                         const char        *options,
                         GpuProgramFlags    flags,
                         gboolean          *from_cache,
                         GError           **error)
{
  const GpuProgramOps *ops = context->backend->program;
  GpuNativeProgram *native;

  *from_cache = FALSE;

  if (source != NULL)
    {
      if (!check_support (context, ops->build_source != NULL, GPU_CAPABILITIES_SOURCE,
                          "programs in source", error))
        return NULL;
      return build_source (context, source, options, flags, from_cache, error);
    }

  if (binary != NULL)
    {
      if (!check_support (context, ops->load_binary != NULL, GPU_CAPABILITIES_BINARY,
                          "programs as binaries", error))
        return NULL;
      native = ops->load_binary (context, binary, options, error);
    }
  else
    {
      if (!check_support (context, ops->load_il != NULL, GPU_CAPABILITIES_IL,
                          "programs in SPIR-V", error))
        return NULL;
      native = ops->load_il (context, il, options, error);
    }

  return native != NULL ? code_new (context, native) : NULL;
}
