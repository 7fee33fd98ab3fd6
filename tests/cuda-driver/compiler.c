/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Runs the C++ compiler for the stand-ins. Reads the object files, and sets the machine type in
 * their ELF headers to that of a device. */
#include "config.h"

#include <elf.h>
#include <string.h>

#include "gpumem/base/gpu-directory-private.h"
#include "gpumem/host/compiler/gpu-host-command.h"
#include "nvrtc.h"

/* The e_machine of ELF files for NVIDIA's devices. The e_flags of such files hold the
 * architecture. */
#define MACHINE_CUDA 190
#define PTX_MARK "// object of the stand-in: "
#define LINE_SIZE 72

gboolean
compiler_run (GPtrArray *arguments,
              GString   *log)
{
  const char *compiler = g_getenv ("GPUMEM_CUDA_DRIVER_CXX");
  const char *const command[] = { compiler != NULL ? compiler : "c++", NULL };
  g_autoptr (GError) error = NULL;

  if (_gpu_host_command_run (command, arguments, NULL, "C.UTF-8", NULL, log, &error))
    return TRUE;
  g_string_append_printf (log, "%s\n", error->message);
  return FALSE;
}

/* --- ELF files -------------------------------------------------------------------------------- */

/* Copies the header, because @data may be unaligned. */
static gboolean
get_header (gconstpointer  data,
            Elf64_Ehdr    *header)
{
  memcpy (header, data, sizeof *header);
  return memcmp (header->e_ident, ELFMAG, SELFMAG) == 0 && header->e_machine == MACHINE_CUDA;
}

GBytes *
image_mark (const char *path,
            int         capability,
            gboolean    compute_only)
{
  char *data;
  gsize size;

  if (!g_file_get_contents (path, &data, &size, NULL))
    return NULL;
  ((Elf64_Ehdr *) data)->e_machine = MACHINE_CUDA;
  ((Elf64_Ehdr *) data)->e_flags = capability | (compute_only ? 1 << 16 : 0);
  return g_bytes_new_take (data, size);
}

/* Assumes that the section header table is the last part of the file. */
gsize
image_get_size (gconstpointer  data,
                int           *capability,
                gboolean      *is_object)
{
  Elf64_Ehdr header;

  if (!get_header (data, &header))
    return 0;
  *capability = header.e_flags & 0xffff;
  *is_object = header.e_type == ET_REL;
  return header.e_shoff + (gsize) header.e_shnum * header.e_shentsize;
}

gpointer
image_unmark (gconstpointer data,
              gsize         size)
{
  Elf64_Ehdr *copy = g_memdup2 (data, size);

  copy->e_machine = EM_X86_64;
  copy->e_flags = 0;
#if defined (__aarch64__)
  copy->e_machine = EM_AARCH64;
#endif
  return copy;
}

static gboolean
write_objects (GPtrArray  *objects,
               const char *folder,
               GPtrArray  *arguments)
{
  for (guint i = 0; i < objects->len; i++)
    {
      char *path = g_strdup_printf ("%s/%u.o", folder, i);
      gsize size = g_bytes_get_size (objects->pdata[i]);
      g_autofree char *data = image_unmark (g_bytes_get_data (objects->pdata[i], NULL), size);

      g_ptr_array_add (arguments, path);
      if (!g_file_set_contents (path, data, size, NULL))
        return FALSE;
    }
  return TRUE;
}

static GBytes *
finish_image (const char *path,
              int         capability,
              GString    *log)
{
  g_autoptr (GPtrArray) kernels = image_list_kernels (path, log);
  g_autoptr (GBytes) image = NULL;

  if (kernels == NULL)
    return NULL;
  image = image_mark (path, capability, FALSE);
  return image_describe (image, kernels);
}

GBytes *
image_link (GPtrArray *objects,
            int        capability,
            GString   *log)
{
  g_autofree char *folder = g_dir_make_tmp ("gpumem-cuda-XXXXXX", NULL);
  g_autofree char *path = g_build_filename (folder, "image.so", NULL);
  const char *const flags[] = { "-shared", "-Wl,-Bsymbolic", "-Wl,-z,defs", "-o", path };
  g_autoptr (GPtrArray) arguments = g_ptr_array_new_with_free_func (g_free);
  GBytes *image = NULL;

  for (gsize i = 0; i < G_N_ELEMENTS (flags); i++)
    g_ptr_array_add (arguments, g_strdup (flags[i]));
  if (write_objects (objects, folder, arguments))
    {
      g_ptr_array_add (arguments, g_strdup ("-lm"));
      if (compiler_run (arguments, log))
        image = finish_image (path, capability, log);
    }
  _gpu_directory_remove (folder);
  return image;
}

/* --- text ------------------------------------------------------------------------------------- */

char *
image_to_ptx (GBytes     *object,
              int         capability,
              const char *entries)
{
  g_autofree char *code = g_base64_encode (g_bytes_get_data (object, NULL),
                                           g_bytes_get_size (object));
  GString *text = g_string_new (NULL);

  g_string_append_printf (text, "// Made by the stand-in for NVRTC\n.version 9.0\n"
                          ".target sm_%d\n.address_size 64\n\n%s", capability, entries);
  for (gsize i = 0, size = strlen (code); i < size; i += LINE_SIZE)
    g_string_append_printf (text, PTX_MARK "%.*s\n", LINE_SIZE, code + i);
  return g_string_free (text, FALSE);
}

GBytes *
image_from_ptx (const char *text)
{
  g_autoptr (GString) code = g_string_new (NULL);
  gsize size;
  guint8 *data;

  for (const char *mark = strstr (text, PTX_MARK); mark != NULL; mark = strstr (mark, PTX_MARK))
    {
      mark += strlen (PTX_MARK);
      g_string_append_len (code, mark, strcspn (mark, "\r\n"));
    }
  if (code->len == 0)
    return NULL;
  data = g_base64_decode (code->str, &size);
  return g_bytes_new_take (data, size);
}
