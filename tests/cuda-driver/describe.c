/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Adds descriptions of kernels to images, as NVIDIA's compilers do: in sections of a CUBIN and in
 * entries of PTX. Drivers before CUDA 12.4 cannot return parameter sizes, so on these drivers
 * the back end reads the descriptions. */
#include "config.h"

#include <dlfcn.h>
#include <elf.h>
#include <string.h>

#include "kernel.h"
#include "nvrtc.h"

static void
image_kernel_free (gpointer data)
{
  ImageKernel *kernel = data;

  g_free (kernel->name);
  g_free (kernel->lowered);
  g_free (kernel->sizes);
  g_free (kernel);
}

static ImageKernel *
image_kernel_new (const KernelEntry *entry)
{
  ImageKernel *kernel = g_new0 (ImageKernel, 1);
  Dl_info info = { 0 };

  dladdr ((gpointer) entry->function, &info);
  kernel->name = g_strdup (entry->name);
  kernel->lowered = g_strdup (info.dli_sname != NULL ? info.dli_sname : entry->name);
  kernel->sizes = g_memdup2 (entry->sizes, entry->n_parameters * sizeof *entry->sizes);
  kernel->n_parameters = entry->n_parameters;
  return kernel;
}

GPtrArray *
image_list_kernels (const char *path,
                    GString    *log)
{
  gpointer module = dlopen (path, RTLD_NOW | RTLD_LOCAL);
  GPtrArray *kernels;
  KernelEntry **(*get_kernels) (size_t *);
  KernelEntry **entries;
  gsize n;

  if (module == NULL)
    {
      g_string_append_printf (log, "%s\n", dlerror ());
      return NULL;
    }
  kernels = g_ptr_array_new_with_free_func (image_kernel_free);
  get_kernels = dlsym (module, "gpumem_get_kernels");
  entries = get_kernels (&n);
  for (gsize i = 0; i < n; i++)
    {
      ImageKernel *kernel = image_kernel_new (entries[i]);

      for (guint j = 0; j < kernels->len; j++)
        kernel->is_again |= g_str_equal (((ImageKernel *) kernels->pdata[j])->lowered,
                                         kernel->lowered);
      g_ptr_array_add (kernels, kernel);
    }
  dlclose (module);
  return kernels;
}

/* --- sections --------------------------------------------------------------------------------- */

/* The attribute of a parameter in .nv.info.KERNEL */
#define INFO_PARAMETER 0x000c1704u

typedef struct
{
  GByteArray *file;
  GByteArray *names;
  GArray     *sections;         /* of Elf64_Shdr */
} Sections;

static void
add_section (Sections      *self,
             const char    *prefix,
             const char    *kernel,
             gconstpointer  content,
             gsize          size)
{
  g_autofree char *name = g_strconcat (prefix, kernel, NULL);
  Elf64_Shdr section = { .sh_name = self->names->len, .sh_type = SHT_PROGBITS,
                         .sh_offset = self->file->len, .sh_size = size, .sh_addralign = 1 };

  if (size > 0)
    g_byte_array_append (self->file, content, size);
  g_byte_array_append (self->names, (const guint8 *) name, strlen (name) + 1);
  g_array_append_val (self->sections, section);
}

static void
describe (Sections          *self,
          const ImageKernel *kernel)
{
  g_autoptr (GArray) words = g_array_new (FALSE, FALSE, sizeof (guint32));
  gsize total = 0;
  g_autofree guint8 *constants = NULL;

  for (guint i = 0; i < kernel->n_parameters; i++)
    {
      guint32 parameter[] = { INFO_PARAMETER, 0, i, (guint32) kernel->sizes[i] << 18 };

      g_array_append_vals (words, parameter, G_N_ELEMENTS (parameter));
      total += kernel->sizes[i];
    }
  constants = g_malloc0 (total);
  add_section (self, ".nv.info.", kernel->lowered, words->data, words->len * sizeof (guint32));
  add_section (self, ".nv.constant0.", kernel->lowered, constants, total);
}

static void
read_sections (Sections *self,
               GBytes   *image)
{
  gsize size;
  const guint8 *data = g_bytes_get_data (image, &size);
  const Elf64_Ehdr *header = (const Elf64_Ehdr *) data;
  const Elf64_Shdr *table = (const Elf64_Shdr *) (data + header->e_shoff);
  const Elf64_Shdr *names = &table[header->e_shstrndx];

  self->file = g_byte_array_new ();
  self->names = g_byte_array_new ();
  self->sections = g_array_new (FALSE, FALSE, sizeof *table);
  g_byte_array_append (self->file, data, size);
  g_byte_array_append (self->names, data + names->sh_offset, names->sh_size);
  g_array_append_vals (self->sections, table, header->e_shnum);
}

/* Puts the section header table at the end of the file. */
static GBytes *
write_sections (Sections *self)
{
  static const guint8 padding[7] = { 0, };
  Elf64_Ehdr *header = (Elf64_Ehdr *) self->file->data;
  Elf64_Shdr *names = &g_array_index (self->sections, Elf64_Shdr, header->e_shstrndx);

  names->sh_offset = self->file->len;
  names->sh_size = self->names->len;
  g_byte_array_append (self->file, self->names->data, self->names->len);
  g_byte_array_append (self->file, padding, -self->file->len & 7u);
  header = (Elf64_Ehdr *) self->file->data;
  header->e_shoff = self->file->len;
  header->e_shnum = self->sections->len;
  g_byte_array_append (self->file, (const guint8 *) self->sections->data,
                       self->sections->len * sizeof *names);
  g_byte_array_unref (self->names);
  g_array_unref (self->sections);
  return g_byte_array_free_to_bytes (self->file);
}

GBytes *
image_describe (GBytes    *image,
                GPtrArray *kernels)
{
  Sections sections;

  read_sections (&sections, image);
  for (guint i = 0; i < kernels->len; i++)
    if (!((ImageKernel *) kernels->pdata[i])->is_again)
      describe (&sections, kernels->pdata[i]);
  return write_sections (&sections);
}

/* --- text ------------------------------------------------------------------------------------- */

void
image_describe_as_ptx (const ImageKernel *kernel,
                       GString           *text)
{
  g_string_append_printf (text, ".visible .entry %s(", kernel->lowered);
  for (guint i = 0; i < kernel->n_parameters; i++)
    g_string_append_printf (text, "%s\n  .param .b8 %s_param_%u[%" G_GSIZE_FORMAT "]",
                            i > 0 ? "," : "", kernel->lowered, i, kernel->sizes[i]);
  g_string_append (text, ")\n{\n  ret;\n}\n");
}
