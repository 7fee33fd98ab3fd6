/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <string.h>

#include "gpumem/backend/gpu-native-context-private.h"
#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/program/gpu-kernel-private.h"
#include "gpumem/program/gpu-program-cache-private.h"
#include "gpumem/program/gpu-program-private.h"

/* Takes ownership of @native. */
static GpuProgramCore *
core_new (GpuNativeContext *context,
          GpuNativeProgram *native)
{
  GpuProgramCore *core = g_new0 (GpuProgramCore, 1);

  g_atomic_ref_count_init (&core->refs);
  core->context = _gpu_native_context_ref (context);
  core->native = native;
  _gpu_live_add (GPU_LIVE_PROGRAM_CORE, 1);

  return core;
}

GpuProgramCore *
_gpu_program_core_ref (GpuProgramCore *core)
{
  g_atomic_ref_count_inc (&core->refs);

  return core;
}

void
_gpu_program_core_unref (GpuProgramCore *core)
{
  if (!g_atomic_ref_count_dec (&core->refs))
    return;

  core->context->backend->program->free (core->context, core->native);
  g_clear_pointer (&core->descriptions, g_variant_unref);
  g_clear_pointer (&core->lowered, g_hash_table_unref);
  _gpu_native_context_unref (core->context);
  g_free (core);
  _gpu_live_add (GPU_LIVE_PROGRAM_CORE, -1);
}

const char *
_gpu_program_core_lower (GpuProgramCore *core,
                         const char     *name)
{
  const char *lowered = core->lowered != NULL ? g_hash_table_lookup (core->lowered, name) : NULL;

  return lowered != NULL ? lowered : name;
}

static void
set_lowered (GpuProgramCore *core,
             char          **names,
             char          **lowered)
{
  core->lowered = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);

  for (guint i = 0; names[i] != NULL; i++)
    g_hash_table_insert (core->lowered, g_strdup (names[i]), g_strdup (lowered[i]));
}

/* Other names might refer to files outside of the folder into which a back end writes the headers,
 * or could not be included. */
static gboolean
check_header (const char  *name,
              const char  *text,
              GError     **error)
{
  if (text != NULL && g_utf8_validate (name, -1, NULL)
      && g_regex_match_simple ("^(?!(?:.*/)?\\.{0,2}(?:/|$))[^\"<>\\\\\\x00-\\x1f]+$", name,
                               G_REGEX_DOLLAR_ENDONLY, 0))
    return TRUE;

  if (text == NULL)
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "the header '%s' has no text", name);
  else
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                 "a header cannot have the name '%s': names are relative paths without '.', '..', "
                 "quotes, angle brackets, backslashes and control characters", name);

  return FALSE;
}

/* A back end that writes the headers into a folder cannot have a file and a folder of one name. */
static gboolean
check_folders (const char  *name,
               GHashTable  *table,
               GError     **error)
{
  for (const char *end = strchr (name, '/'); end != NULL; end = strchr (end + 1, '/'))
    {
      g_autofree char *folder = g_strndup (name, end - name);

      if (!g_hash_table_contains (table, folder))
        continue;

      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "the header '%s' cannot have the name of the folder of the header '%s'", folder,
                   name);
      return FALSE;
    }

  return TRUE;
}

gboolean
_gpu_program_list_headers (GHashTable   *table,
                           char       ***headers,
                           GError      **error)
{
  g_autoptr (GPtrArray) array = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GList) names = table != NULL ? g_hash_table_get_keys (table) : NULL;

  names = g_list_sort (names, (GCompareFunc) strcmp);

  for (GList *iter = names; iter != NULL; iter = iter->next)
    {
      const char *text = g_hash_table_lookup (table, iter->data);

      if (!check_header (iter->data, text, error) || !check_folders (iter->data, table, error))
        return FALSE;

      g_ptr_array_add (array, g_strdup (iter->data));
      g_ptr_array_add (array, g_strdup (text));
    }

  if (array->len > 0)
    {
      g_ptr_array_add (array, NULL);
      *headers = (char **) g_ptr_array_steal (array, NULL);
    }

  return TRUE;
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

      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED, "%s (%s) does not support %s",
                   device->id, device->name, what);
      return FALSE;
    }

  return TRUE;
}

/* The GVariant type of the cached descriptions of a program that was built with names. Contains the
 * descriptions of the kernels, and a map from names in the source to names in the binary. */
#define NAMED_TYPE "(va{ss})"

static gboolean
set_cached_names (GpuProgramCore *core,
                  GVariant       *descriptions)
{
  g_autoptr (GVariantIter) iter = NULL;
  char *name;
  char *lowered;

  if (!g_variant_is_of_type (descriptions, G_VARIANT_TYPE (NAMED_TYPE)))
    return FALSE;

  core->lowered = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  g_variant_get (descriptions, "(va{ss})", &core->descriptions, &iter);

  while (g_variant_iter_next (iter, "{ss}", &name, &lowered))
    g_hash_table_insert (core->lowered, name, lowered);

  return TRUE;
}

static GVariant *
pack_names (GVariant   *descriptions,
            GHashTable *lowered)
{
  g_auto (GVariantBuilder) builder = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE ("a{ss}"));
  GHashTableIter iter;
  gpointer name;
  gpointer value;

  g_hash_table_iter_init (&iter, lowered);
  while (g_hash_table_iter_next (&iter, &name, &value))
    g_variant_builder_add (&builder, "{ss}", name, value);

  return g_variant_new (NAMED_TYPE, descriptions, &builder);
}

static GpuProgramCore *
load_cached (GpuNativeContext       *context,
             const char             *key,
             const GpuProgramInputs *inputs)
{
  const GpuProgramOps *ops = context->backend->program;
  g_autoptr (GpuCacheEntry) entry = _gpu_program_cache_load (key);
  g_autoptr (GError) error = NULL;
  GpuNativeProgram *native;
  GpuProgramCore *core;

  if (entry == NULL)
    return NULL;

  if (ops->load_cached != NULL)
    native = ops->load_cached (context, entry->binary, &error);
  else
    native = ops->load_binary (context, entry->binary, inputs->options, &error);
  if (native == NULL)
    {
      /* Do not remove the entry: the failure may be temporary. A successful build replaces the
       * entry. */
      _gpu_debug_print (GPU_DEBUG_CACHE, "%s: refused: %s", key, error->message);
      return NULL;
    }

  if (entry->log != NULL)
    {
      g_free (native->log);
      native->log = g_steal_pointer (&entry->log);
    }

  core = core_new (context, native);
  if (inputs->names == NULL)
    core->descriptions = g_variant_ref (entry->descriptions);
  else if (!set_cached_names (core, entry->descriptions))
    g_clear_pointer (&core, _gpu_program_core_unref);

  return core;
}

static void
store_cached (GpuProgramCore *core,
              const char     *key)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) binary = NULL;
  GVariant *descriptions;

  binary = core->context->backend->program->get_binary (core->context, core->native, &error);
  if (binary == NULL)
    {
      _gpu_debug_print (GPU_DEBUG_CACHE, "%s: no binary: %s", key, error->message);
      return;
    }

  descriptions = _gpu_kernel_describe_all (core);
  if (descriptions != NULL && core->lowered != NULL)
    descriptions = pack_names (descriptions, core->lowered);
  if (descriptions != NULL)
    {
      g_variant_ref_sink (descriptions);
      _gpu_program_cache_store (key, binary, descriptions, core->native->log);
      g_variant_unref (descriptions);
    }
}

/* Returns NULL if the program cannot be cached, or if its flags disable the cache. */
static char *
get_key (GpuNativeContext       *context,
         const GpuProgramInputs *inputs)
{
  g_autofree char *names = NULL;
  g_autofree char *options = NULL;

  if ((inputs->flags & GPU_PROGRAM_FLAGS_NO_CACHE) != 0 ||
      (context->devices[0]->capabilities & GPU_CAPABILITIES_BINARY) == 0)
    return NULL;
  if (inputs->names == NULL)
    return _gpu_program_cache_key (context, inputs->source, inputs->options,
                                   (const char *const *) inputs->headers);

  names = g_strjoinv ("\n", inputs->names);
  options = g_strconcat (inputs->options, "\nnames\n", names, NULL);

  return _gpu_program_cache_key (context, inputs->source, options,
                                 (const char *const *) inputs->headers);
}

static GpuProgramCore *
compile_source (GpuNativeContext        *context,
                const GpuProgramInputs  *inputs,
                GError                 **error)
{
  const GpuProgramOps *ops = context->backend->program;
  g_auto (GStrv) lowered = NULL;
  GpuNativeProgram *native;
  GpuProgramCore *core;

  if (inputs->names == NULL)
    native = ops->build_source (context, inputs->source, inputs->options,
                                (const char *const *) inputs->headers, error);
  else
    native = ops->build_names (context, inputs->source, inputs->options,
                               (const char *const *) inputs->headers,
                               (const char *const *) inputs->names, &lowered, error);

  if (native == NULL)
    return NULL;

  core = core_new (context, native);
  if (lowered != NULL)
    set_lowered (core, inputs->names, lowered);

  return core;
}

static GpuProgramCore *
build_source (GpuNativeContext        *context,
              const GpuProgramInputs  *inputs,
              gboolean                *from_cache,
              GError                 **error)
{
  g_autofree char *key = get_key (context, inputs);
  GpuProgramCore *core = NULL;

  if (key != NULL)
    core = load_cached (context, key, inputs);

  *from_cache = core != NULL;
  if (core != NULL)
    return core;

  core = compile_source (context, inputs, error);
  if (core != NULL && key != NULL)
    store_cached (core, key);

  return core;
}

static GpuNativeProgram *
load (GpuNativeContext        *context,
      const GpuProgramInputs  *inputs,
      GError                 **error)
{
  const GpuProgramOps *ops = context->backend->program;

  if (inputs->images != NULL)
    {
      if (!check_support (context, ops->link != NULL, GPU_CAPABILITIES_LINKING,
                          "linking", error))
        return NULL;
      return ops->link (context, (GBytes *const *) inputs->images->pdata, inputs->images->len,
                        inputs->options, error);
    }

  if (inputs->binary != NULL)
    {
      if (!check_support (context, ops->load_binary != NULL, GPU_CAPABILITIES_BINARY,
                          "program binaries", error))
        return NULL;
      return ops->load_binary (context, inputs->binary, inputs->options, error);
    }

  if (!check_support (context, ops->load_il != NULL, GPU_CAPABILITIES_IL, "programs in SPIR-V",
                      error))
    return NULL;

  return ops->load_il (context, inputs->il, inputs->options, error);
}

GpuProgramCore *
_gpu_program_core_build (GpuNativeContext        *context,
                         const GpuProgramInputs  *inputs,
                         gboolean                *from_cache,
                         GError                 **error)
{
  const GpuProgramOps *ops = context->backend->program;
  GpuNativeProgram *native;

  *from_cache = FALSE;

  if (inputs->source != NULL)
    {
      /* Only check whether the back end can compile at all. If the compiler is not installed, let
       * the build fail: its error message is better. */
      if (ops->build_source == NULL &&
          !check_support (context, FALSE, GPU_CAPABILITIES_SOURCE, "programs in source", error))
        return NULL;
      if (inputs->names != NULL && ops->build_names == NULL &&
          !check_support (context, FALSE, GPU_CAPABILITIES_SOURCE,
                          "names of templates and overloads", error))
        return NULL;
      return build_source (context, inputs, from_cache, error);
    }

  native = load (context, inputs, error);

  return native != NULL ? core_new (context, native) : NULL;
}

void
_gpu_program_end_log (GError *failure)
{
  g_strchomp (failure->message);
}

GpuProgramCore *
_gpu_program_core_wrap (GpuNativeContext  *context,
                        guint64            handle,
                        GpuWrapMode        mode,
                        const char        *function,
                        GError           **error)
{
  const GpuProgramOps *ops = context->backend->program;
  GpuNativeProgram *native = NULL;
  GError *failure = NULL;

  if (ops->wrap == NULL)
    _gpu_backend_fail (context->backend, function, "programs to wrap", error);
  else if (handle == 0)
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "%s: the handle is 0", function);
  else
    {
      native = ops->wrap (context, handle, mode, &failure);

      if (_gpu_native_context_end (context, function, failure, error))
        return core_new (context, native);
    }

  return NULL;
}
