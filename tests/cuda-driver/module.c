/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Modules: shared objects that the stand-in for NVRTC has compiled, or PTX with built-in kernels.
 * Loading PTX links the object file that the text contains, instead of compiling the text.
 */
#include "config.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "driver.h"
#include "kernel.h"
#include "nvrtc.h"

#define MAX_SHARED_STATIC 49152

#define N_REGISTERS 32

/* The caller's buffer for error messages. */
typedef struct
{
  char  *buffer;
  gsize  size;
} JitLog;

static void
jit_log_init (JitLog        *log,
              guint          n_options,
              CUjit_option  *options,
              void         **values)
{
  memset (log, 0, sizeof *log);
  for (guint i = 0; i < n_options; i++)
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER)
      log->buffer = values[i];
    else if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
      log->size = (gsize) values[i];
  for (guint i = 0; i < n_options; i++)
    if (options[i] == CU_JIT_INFO_LOG_BUFFER && values[i] != NULL)
      *(char *) values[i] = '\0';
  if (log->buffer != NULL && log->size > 0)
    log->buffer[0] = '\0';
}

static CUresult
jit_fail (JitLog     *log,
          CUresult    code,
          const char *text)
{
  if (log->buffer != NULL && log->size > 0)
    g_strlcpy (log->buffer, text, log->size);
  return code;
}

/* --- images ----------------------------------------------------------------------------------- */

static CUresult
link_objects (GPtrArray  *objects,
              JitLog     *log,
              GBytes    **image)
{
  g_autoptr (GString) text = g_string_new (NULL);

  *image = image_link (objects, config.capability, text);
  return *image != NULL ? CUDA_SUCCESS : jit_fail (log, CUDA_ERROR_INVALID_IMAGE, text->str);
}

/* As drivers do, rejects PTX for a newer device. */
static CUresult
check_ptx (const char *text,
           JitLog     *log)
{
  const char *target = strstr (text, ".target sm_");

  if (strstr (text, ".version") == NULL || target == NULL)
    return jit_fail (log, CUDA_ERROR_INVALID_PTX,
                     "ptxas application ptx input, line 1; fatal   : Missing .version directive "
                     "at start of file '<unknown>'\nptxas fatal   : Ptx assembly aborted due to "
                     "errors");
  if (g_ascii_strtoull (target + strlen (".target sm_"), NULL, 10) > (guint) config.capability)
    return jit_fail (log, CUDA_ERROR_NO_BINARY_FOR_GPU, "ptxas fatal   : .target is newer");
  return CUDA_SUCCESS;
}

/* Finds the shared object to load for @data, or NULL for PTX with built-in kernels. */
static CUresult
find_image (gconstpointer   data,
            JitLog         *log,
            GBytes        **image)
{
  gboolean is_object;
  int capability;
  gsize size;
  g_autoptr (GPtrArray) objects = NULL;
  GBytes *object;

  *image = NULL;
  if (memcmp (data, "\177ELF", 4) == 0)
    {
      size = image_get_size (data, &capability, &is_object);
      if (size == 0 || is_object)
        return jit_fail (log, CUDA_ERROR_INVALID_IMAGE, "not linked, or of no device");
      if (capability / 10 != config.capability / 10 || capability > config.capability)
        return jit_fail (log, CUDA_ERROR_NO_BINARY_FOR_GPU, "of another device");
      *image = g_bytes_new (data, size);
      return CUDA_SUCCESS;
    }
  if (!g_ascii_isprint (*(const char *) data) && !g_ascii_isspace (*(const char *) data))
    return jit_fail (log, CUDA_ERROR_INVALID_IMAGE, "neither ELF nor text");
  TRY (check_ptx (data, log));
  object = image_from_ptx (data);
  if (object == NULL)
    return CUDA_SUCCESS;
  objects = g_ptr_array_new_with_free_func ((GDestroyNotify) g_bytes_unref);
  g_ptr_array_add (objects, object);
  return link_objects (objects, log, image);
}

/* --- modules ---------------------------------------------------------------------------------- */

static Function *
function_new (Module        *module,
              const char    *name,
              gconstpointer  entry,
              gboolean       is_builtin)
{
  Function *function = object_new (sizeof (Function), OBJECT_FUNCTION, module->object.context);

  function->object.hidden = TRUE;
  function->module = module;
  function->name = g_strdup (name);
  function->entry = (gpointer) entry;
  function->is_builtin = is_builtin;
  function->max_shared = MAX_SHARED_STATIC;
  function->carveout = -1;
  g_ptr_array_add (module->functions, function);
  return function;
}

static Function *
find_function (Module     *module,
               const char *name)
{
  for (guint i = 0; i < module->functions->len; i++)
    {
      Function *function = module->functions->pdata[i];

      if (g_str_equal (function->name, name))
        return function;
    }
  return NULL;
}

/* Adds a function for each name of a kernel, including its name expressions. */
static void
find_functions (Module *module)
{
  KernelEntry **(*get_kernels) (size_t *) = dlsym (module->handle, "gpumem_get_kernels");
  KernelEntry **entries;
  gsize n;

  entries = get_kernels (&n);
  for (gsize i = 0; i < n; i++)
    {
      Dl_info info = { 0 };
      const char *name;

      dladdr ((gpointer) entries[i]->function, &info);
      name = info.dli_sname != NULL ? info.dli_sname : entries[i]->name;
      if (find_function (module, name) == NULL)
        function_new (module, name, entries[i], FALSE);
    }
}

/* Finds every ".entry NAME" in the text. */
static void
find_builtins (Module     *module,
               const char *text)
{
  static const char mark[] = ".entry";

  for (text = strstr (text, mark); text != NULL; text = strstr (text, mark))
    {
      g_autofree char *name = NULL;
      gsize n;

      text += strlen (mark);
      while (g_ascii_isspace (*text))
        text++;
      for (n = 0; g_ascii_isalnum (text[n]) || text[n] == '_' || text[n] == '$'; n++)
        ;
      name = g_strndup (text, n);
      function_new (module, name, builtin_find (name), TRUE);
    }
}

static int
add_tls_size (struct dl_phdr_info *info,
              size_t               size,
              void                *data)
{
  gpointer *search = data;

  (void) size;
  if (info->dlpi_addr == (ElfW (Addr)) search[0])
    for (int i = 0; i < info->dlpi_phnum; i++)
      if (info->dlpi_phdr[i].p_type == PT_TLS)
        *(gsize *) search[1] = info->dlpi_phdr[i].p_memsz;
  return 0;
}

/* Gives every module a separate file, because dlopen() returns the same handle for the same
 * file. */
static CUresult
open_image (Module *module,
            GBytes *image)
{
  gsize size = g_bytes_get_size (image);
  g_autofree char *data = image_unmark (g_bytes_get_data (image, NULL), size);
  g_autofree char *path = NULL;
  struct link_map *map;
  gpointer search[2];

  module->file = memfd_create ("cuda-module", MFD_CLOEXEC);
  if (module->file < 0 || write (module->file, data, size) != (gssize) size)
    return CUDA_ERROR_OUT_OF_MEMORY;
  path = g_strdup_printf ("/proc/self/fd/%d", module->file);
  module->handle = dlopen (path, RTLD_NOW | RTLD_LOCAL);
  if (module->handle == NULL)
    {
      g_printerr ("gpumem-cuda-driver: %s\n", dlerror ());
      return CUDA_ERROR_INVALID_IMAGE;
    }
  if (dlinfo (module->handle, RTLD_DI_LINKMAP, &map) == 0)
    {
      search[0] = (gpointer) map->l_addr;
      search[1] = &module->shared_size;
      dl_iterate_phdr (add_tls_size, search);
      module->shared_size -= MIN (module->shared_size, sizeof (gpointer));
    }
  return CUDA_SUCCESS;
}

static void
module_close (Module *module)
{
  for (guint i = 0; i < module->functions->len; i++)
    {
      Function *function = module->functions->pdata[i];

      g_clear_pointer (&function->name, g_free);
      if (!function->object.dead)
        object_kill (function);
    }
  for (guint i = 0; i < module->globals->len; i++)
    {
      Memory *memory = module->globals->pdata[i];

      if (!memory->freed)
        memory_kill (memory);
      memory_unref (memory);
    }
  g_ptr_array_unref (module->functions);
  g_ptr_array_unref (module->globals);
  if (module->handle != NULL)
    dlclose (module->handle);
  if (module->file >= 0)
    close (module->file);
  object_kill (module);
}

/* Closes the modules of a context that is destroyed. context.c reports the leaked modules. */
void
modules_close (Context *context)
{
  g_autoptr (GPtrArray) modules = object_list (OBJECT_MODULE, context);

  for (guint i = 0; i < modules->len; i++)
    module_close (modules->pdata[i]);
}

/* CU_JIT_MAX_REGISTERS only affects PTX: a CUBIN is compiled already. */
static guint
count_registers (const char    *image,
                 guint          n_options,
                 CUjit_option  *options,
                 void         **values)
{
  guint n = N_REGISTERS;

  for (guint i = 0; i < n_options; i++)
    if (options[i] == CU_JIT_MAX_REGISTERS && memcmp (image, "\177ELF", 4) != 0)
      n = MIN (n, GPOINTER_TO_UINT (values[i]));
  return n;
}

ENTRY (cuModuleLoadDataEx,
       (CUmodule *module, const void *image, unsigned int n_options, CUjit_option *options,
        void **values),
       (module, image, n_options, options, values))
{
  g_autoptr (GBytes) found = NULL;
  Context *context;
  Module *self;
  JitLog log;
  CUresult code = CUDA_SUCCESS;

  TRY (context_current (&context));
  jit_log_init (&log, n_options, options, values);
  if (module == NULL || image == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  TRY (find_image (image, &log, &found));
  self = object_new (sizeof (Module), OBJECT_MODULE, context);
  self->functions = g_ptr_array_new ();
  self->globals = g_ptr_array_new ();
  self->file = -1;
  self->capability = config.capability;
  self->n_registers = count_registers (image, n_options, options, values);
  if (found != NULL)
    code = open_image (self, found);
  if (code != CUDA_SUCCESS)
    {
      module_close (self);
      return code;
    }
  if (found != NULL)
    find_functions (self);
  else
    find_builtins (self, image);
  *module = self;
  return CUDA_SUCCESS;
}

ENTRY (cuModuleUnload, (CUmodule module), (module))
{
  CUresult error;

  TRY (object_check (module, OBJECT_MODULE));
  error = module->object.context->error;
  if (error == CUDA_SUCCESS && module->n_launches > 0)
    misuse (CUDA_SUCCESS, "%u launches of its kernels are at work", module->n_launches);
  if (module->n_launches > 0)
    context_finish (module->object.context);
  module_close (module);
  return error;
}

static CUresult
check_module (CUmodule module)
{
  Context *context;

  TRY (context_current (&context));
  TRY (object_check (module, OBJECT_MODULE));
  return module->object.context->error;
}

ENTRY (cuModuleGetFunction, (CUfunction *function, CUmodule module, const char *name),
       (function, module, name))
{
  TRY (check_module (module));
  if (name == NULL || name[0] == '\0')
    return CUDA_ERROR_INVALID_VALUE;
  *function = find_function (module, name);
  return *function != NULL ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

static Memory *
get_global (Module   *module,
            gpointer  place,
            gsize     size)
{
  Memory *memory = memory_find (GPOINTER_TO_SIZE (place));

  if (memory != NULL && !memory->freed && memory->kind == MEMORY_GLOBAL)
    return memory;
  memory = memory_new_at (MEMORY_GLOBAL, module->object.context, module->object.context->device,
                          GPOINTER_TO_SIZE (place), size);
  g_ptr_array_add (module->globals, memory_ref (memory));
  return memory;
}

ENTRY (cuModuleGetGlobal, (CUdeviceptr *address, size_t *size, CUmodule module, const char *name),
       (address, size, module, name))
{
  gpointer place;
  ElfW (Sym) *symbol;
  Dl_info info;

  TRY (check_module (module));
  place = module->handle != NULL && name != NULL ? dlsym (module->handle, name) : NULL;
  if (place == NULL || g_str_has_prefix (name, "gpumem_") ||
      dladdr1 (place, &info, (void **) &symbol, RTLD_DL_SYMENT) == 0 || symbol == NULL ||
      ELF64_ST_TYPE (symbol->st_info) != STT_OBJECT)
    return CUDA_ERROR_NOT_FOUND;
  get_global (module, place, symbol->st_size);
  if (address != NULL)
    *address = GPOINTER_TO_SIZE (place);
  if (size != NULL)
    *size = symbol->st_size;
  return CUDA_SUCCESS;
}

ENTRY (cuModuleGetFunctionCount, (unsigned int *count, CUmodule module), (count, module))
{
  TRY (check_module (module));
  *count = module->functions->len;
  return CUDA_SUCCESS;
}

ENTRY (cuModuleEnumerateFunctions,
       (CUfunction *functions, unsigned int n_functions, CUmodule module),
       (functions, n_functions, module))
{
  TRY (check_module (module));
  for (guint i = 0; i < MIN (n_functions, module->functions->len); i++)
    functions[i] = module->functions->pdata[i];
  return CUDA_SUCCESS;
}

/* --- linking ---------------------------------------------------------------------------------- */

struct CUlinkState_st
{
  Object     object;
  GPtrArray *objects;             /* of GBytes */
  GBytes    *linked;              /* nullable; a complete image, or the result */
  JitLog     log;
};

ENTRY (cuLinkCreate,
       (unsigned int n_options, CUjit_option *options, void **values, CUlinkState *state),
       (n_options, options, values, state))
{
  Context *context;

  TRY (context_current (&context));
  *state = object_new (sizeof (Link), OBJECT_LINK, context);
  (*state)->objects = g_ptr_array_new_with_free_func ((GDestroyNotify) g_bytes_unref);
  jit_log_init (&(*state)->log, n_options, options, values);
  return CUDA_SUCCESS;
}

ENTRY (cuLinkAddData,
       (CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name,
        unsigned int n_options, CUjit_option *options, void **values),
       (state, type, data, size, name, n_options, options, values))
{
  GBytes *object = NULL;
  gboolean is_object;
  int capability;

  (void) name;
  (void) n_options;
  (void) options;
  (void) values;
  TRY (object_check (state, OBJECT_LINK));
  if (type == CU_JIT_INPUT_PTX)
    {
      g_autofree char *text = g_strndup (data, size);

      TRY (check_ptx (text, &state->log));
      object = image_from_ptx (text);
    }
  else if (type == CU_JIT_INPUT_CUBIN && size > 64 &&
           image_get_size (data, &capability, &is_object) <= size)
    {
      object = g_bytes_new (data, size);
      if (!is_object && state->linked == NULL)
        {
          state->linked = object;
          return CUDA_SUCCESS;
        }
    }
  if (object == NULL)
    return jit_fail (&state->log, CUDA_ERROR_INVALID_IMAGE, "nothing that the stand-in can link");
  g_ptr_array_add (state->objects, object);
  return CUDA_SUCCESS;
}

ENTRY (cuLinkComplete, (CUlinkState state, void **cubin, size_t *size), (state, cubin, size))
{
  TRY (object_check (state, OBJECT_LINK));
  if ((state->objects->len == 0) == (state->linked == NULL))
    return jit_fail (&state->log, CUDA_ERROR_INVALID_IMAGE,
                     "nothing to link, or already linked");
  if (state->objects->len > 0)
    TRY (link_objects (state->objects, &state->log, &state->linked));
  *cubin = (gpointer) g_bytes_get_data (state->linked, size);
  return CUDA_SUCCESS;
}

ENTRY (cuLinkDestroy, (CUlinkState state), (state))
{
  TRY (object_check (state, OBJECT_LINK));
  g_ptr_array_unref (state->objects);
  g_clear_pointer (&state->linked, g_bytes_unref);
  object_kill (state);
  return CUDA_SUCCESS;
}
