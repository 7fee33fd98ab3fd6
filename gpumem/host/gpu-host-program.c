/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A binary is a shared object followed by a seal, which contains a digest of the object. The
 * dynamic loader trusts its input. The seal is therefore checked first: truncated files and other
 * data must not reach the loader.
 */
#include "config.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <sys/utsname.h>

#include <gmodule.h>

#include "gpumem/base/gpu-directory-private.h"
#include "gpumem/host/gpu-host.h"

#define SEAL_MAGIC "gpumem host program 1"
#define SEAL_HASH_LENGTH 32

typedef struct
{
  char   magic[sizeof SEAL_MAGIC];
  guint8 hash[SEAL_HASH_LENGTH];
} Seal;

static void
hash_object (gconstpointer  data,
             gsize          size,
             guint8        *hash)
{
  g_autoptr (GChecksum) checksum = g_checksum_new (G_CHECKSUM_SHA256);
  gsize length = SEAL_HASH_LENGTH;

  g_checksum_update (checksum, data, size);
  g_checksum_get_digest (checksum, hash, &length);
}

/* Takes ownership of @object. */
static GBytes *
seal_object (GBytes *object)
{
  GByteArray *sealed = g_bytes_unref_to_array (object);
  Seal seal = { SEAL_MAGIC, { 0 } };

  hash_object (sealed->data, sealed->len, seal.hash);
  g_byte_array_append (sealed, (const guint8 *) &seal, sizeof seal);

  return g_byte_array_free_to_bytes (sealed);
}

static gboolean
check_seal (GBytes  *binary,
            GError **error)
{
  gsize size;
  const guint8 *data = g_bytes_get_data (binary, &size);
  guint8 hash[SEAL_HASH_LENGTH];
  Seal seal;

  if (size > sizeof seal)
    {
      memcpy (&seal, data + size - sizeof seal, sizeof seal);
      hash_object (data, size - sizeof seal, hash);

      if (memcmp (seal.magic, SEAL_MAGIC, sizeof seal.magic) == 0
          && memcmp (seal.hash, hash, sizeof hash) == 0)
        return TRUE;
    }

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "host: the binary of %" G_GSIZE_FORMAT " bytes is truncated, or was not created by "
               "this back end", size);

  return FALSE;
}

static GModule *
load_object (GBytes  *binary,
             GError **error)
{
  g_autofree char *directory = _gpu_host_directory_new (error);
  g_autofree char *path = NULL;
  g_autoptr (GError) reason = NULL;
  GModule *module = NULL;
  gsize size;
  const char *data = g_bytes_get_data (binary, &size);

  if (directory == NULL)
    return NULL;

  path = g_build_filename (directory, "program.so", NULL);

  if (!g_file_set_contents_full (path, data, size, G_FILE_SET_CONTENTS_NONE, 0700, &reason))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_FAILED, "host: %s", reason->message);
    }
  else
    {
      module = g_module_open_full (path, G_MODULE_BIND_LOCAL, &reason);

      if (module == NULL)
        g_set_error (error, GPU_ERROR, GPU_ERROR_BUILD_FAILED, "host: dlopen: %s",
                     reason->message);
    }

  _gpu_directory_remove (directory);

  return module;
}

GpuHostModule *
_gpu_host_module_new (GBytes  *binary,
                      GError **error)
{
  GpuHostModule *module;
  GModule *object = load_object (binary, error);
  gpointer entry = NULL;

  if (object == NULL)
    return NULL;

  if (!g_module_symbol (object, "gpu_host_program", &entry) || entry == NULL
      || ((const GpuHostProgramEntry *) entry)->abi_version != GPU_HOST_ABI_VERSION)
    {
      g_module_close (object);
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "host: the binary was created by another version of this library");
      return NULL;
    }

  module = g_new0 (GpuHostModule, 1);
  g_atomic_ref_count_init (&module->refs);
  module->module = object;
  module->entry = entry;
  module->binary = g_bytes_ref (binary);

  return module;
}

GpuHostModule *
_gpu_host_module_ref (GpuHostModule *module)
{
  g_atomic_ref_count_inc (&module->refs);

  return module;
}

void
_gpu_host_module_unref (GpuHostModule *module)
{
  if (!g_atomic_ref_count_dec (&module->refs))
    return;

  g_module_close (module->module);
  g_bytes_unref (module->binary);
  g_free (module);
}

/* Takes ownership of @log. */
static GpuNativeProgram *
program_new (GBytes  *binary,
             char    *log,
             GError **error)
{
  GpuHostModule *module = _gpu_host_module_new (binary, error);
  GpuHostProgram *program;

  if (module == NULL)
    {
      g_free (log);
      return NULL;
    }

  program = g_new0 (GpuHostProgram, 1);
  program->parent.backend = &_gpu_host_backend;
  program->parent.log = log;
  program->module = module;

  return &program->parent;
}

static GpuNativeProgram *
host_program_build_source (GpuNativeContext  *context G_GNUC_UNUSED,
                           const char        *source,
                           const char        *options,
                           const char *const *headers,
                           GError           **error)
{
  char *log = NULL;
  GBytes *object = _gpu_host_compiler_run (source, options, headers, &log, error);
  g_autoptr (GBytes) binary = NULL;

  if (object == NULL)
    return NULL;

  binary = seal_object (object);

  return program_new (binary, log, error);
}

static GpuNativeProgram *
host_program_load_binary (GpuNativeContext  *context G_GNUC_UNUSED,
                          GBytes            *binary,
                          const char        *options G_GNUC_UNUSED,
                          GError           **error)
{
  if (!check_seal (binary, error))
    return NULL;

  return program_new (binary, NULL, error);
}

static void
host_program_fingerprint (GpuNativeContext *context G_GNUC_UNUSED,
                          GString          *text)
{
  struct utsname system;

  g_string_append_printf (text, "host %d %s\n", GPU_HOST_ABI_VERSION, PACKAGE_VERSION);
  g_string_append_printf (text, "%s\n", _gpu_host_compiler_identify ());

  if (uname (&system) == 0)
    g_string_append_printf (text, "%s %s\n", system.sysname, system.machine);
}

static void
host_program_free (GpuNativeContext *context G_GNUC_UNUSED,
                   GpuNativeProgram *program)
{
  GpuHostProgram *self = (GpuHostProgram *) program;

  _gpu_host_module_unref (self->module);
  g_free (program->log);
  g_free (self);
}

static GBytes *
host_program_get_binary (GpuNativeContext  *context G_GNUC_UNUSED,
                         GpuNativeProgram  *program,
                         GError           **error G_GNUC_UNUSED)
{
  return g_bytes_ref (((GpuHostProgram *) program)->module->binary);
}

static char **
host_program_list_kernels (GpuNativeContext  *context G_GNUC_UNUSED,
                           GpuNativeProgram  *program,
                           GError           **error G_GNUC_UNUSED)
{
  const GpuHostProgramEntry *entry = ((GpuHostProgram *) program)->module->entry;
  char **names = g_new0 (char *, entry->n_kernels + 1);

  for (guint i = 0; i < entry->n_kernels; i++)
    names[i] = g_strdup (entry->kernels[i].name);

  return names;
}

static GpuNativeKernel *
host_program_create_kernel (GpuNativeContext  *context,
                            GpuNativeProgram  *program,
                            const char        *name,
                            GError           **error)
{
  GpuHostModule *module = ((GpuHostProgram *) program)->module;
  const GpuHostProgramEntry *entry = module->entry;
  g_auto (GStrv) names = NULL;
  g_autofree char *list = NULL;

  for (guint i = 0; i < entry->n_kernels; i++)
    {
      if (g_str_equal (entry->kernels[i].name, name))
        return _gpu_host_kernel_new (context, module, &entry->kernels[i]);
    }

  names = host_program_list_kernels (context, program, NULL);
  list = g_strjoinv (", ", names);
  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               *list != '\0' ? "the program only has the kernels %s"
                             : "the program has no kernels%s", list);

  return NULL;
}

typedef struct
{
  guintptr address;
  gsize    size;
  gboolean found;
} Writable;

/* Sets `found` if the range lies in writable memory of a shared object. */
static int
find_writable (struct dl_phdr_info *info,
               size_t               size G_GNUC_UNUSED,
               void                *data)
{
  Writable *writable = data;

  for (guint i = 0; i < info->dlpi_phnum; i++)
    {
      guintptr start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
      gsize length = info->dlpi_phdr[i].p_memsz;

      if (info->dlpi_phdr[i].p_type == PT_LOAD && (info->dlpi_phdr[i].p_flags & PF_W) != 0
          && writable->address >= start && writable->address + writable->size <= start + length)
        writable->found = TRUE;
    }

  return writable->found;
}

static GpuNativeBuffer *
host_program_get_global (GpuNativeContext  *context G_GNUC_UNUSED,
                         GpuNativeProgram  *program,
                         const char        *name,
                         GError           **error)
{
  GpuHostModule *module = ((GpuHostProgram *) program)->module;
  Writable writable = { 0 };
  const ElfW (Sym) *symbol = NULL;
  gpointer address = NULL;
  Dl_info info;
  Dl_info own;

  /* Ignore symbols of other libraries: the loader also searches the libraries that the program is
   * linked with. */
  if (!g_module_symbol (module->module, name, &address) || address == NULL
      || dladdr1 (address, &info, (void **) &symbol, RTLD_DL_SYMENT) == 0 || symbol == NULL
      || symbol->st_size == 0 || address == (gpointer) module->entry
      || dladdr (module->entry, &own) == 0 || own.dli_fbase != info.dli_fbase)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "host: the program has no variable '%s' in global memory", name);
      return NULL;
    }

  writable.address = (guintptr) address;
  writable.size = symbol->st_size;
  dl_iterate_phdr (find_writable, &writable);

  if (writable.found)
    return _gpu_host_buffer_new (address, writable.size, "global");

  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
               "host: the variable '%s' is constant and cannot be used as a buffer", name);

  return NULL;
}

const GpuProgramOps _gpu_host_program_ops =
{
  .build_source = host_program_build_source,
  .load_binary = host_program_load_binary,
  .fingerprint = host_program_fingerprint,
  .options_are_shell_words = TRUE,
  .free = host_program_free,
  .get_binary = host_program_get_binary,
  .list_kernels = host_program_list_kernels,
  .create_kernel = host_program_create_kernel,
  .get_global = host_program_get_global
};
