/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Parses binaries without the driver, for two reasons. cuModuleLoadDataEx() takes no size and
 * trusts the sizes inside the binary, so truncated binaries must be rejected first. And drivers
 * before CUDA 12.4 can list neither the kernels of a module nor their parameters.
 */
#include "config.h"

#include <elf.h>
#include <string.h>

#include "gpumem/cuda/compiler/gpu-cuda-compiler.h"

#define FATBIN_MAGIC 0xba55ed50u
#define CUDA_MACHINE 190

/* Entries of the sections .nv.info.KERNEL. */
#define INFO_HAS_SIZE        4
#define INFO_PARAMETER       0x17
#define INFO_PARAMETER_SIZE  12

typedef struct
{
  guint32 magic;
  guint16 version;
  guint16 header_size;
  guint64 size;                 /* in bytes, after the header */
} FatbinHeader;

/* The header of one entry. nvcc writes an entry with PTX or a cubin for each architecture. */
typedef struct
{
  guint16 kind;
  guint16 version;
  guint32 header_size;
  guint64 size;                 /* in bytes, after the entry's header */
  guint32 compressed_size;      /* 0 if not compressed */
} FatbinEntry;

typedef struct
{
  const guint8 *data;
  gsize         size;
  Elf64_Ehdr    header;
} Elf;

/* Returns whether the first line after comments starts with ".version", as in all PTX. */
static gboolean
is_ptx (const char *text,
        gsize       size)
{
  const char *end = text + size;

  while (text < end)
    {
      if (g_ascii_isspace (*text))
        {
          text++;
        }
      else if (end - text > 2 && text[0] == '/' && text[1] == '/')
        {
          while (text < end && *text != '\n')
            text++;
        }
      else
        {
          return end - text > 8 && memcmp (text, ".version", 8) == 0;
        }
    }

  return FALSE;
}

GpuCudaBinaryKind
_gpu_cuda_binary_identify (GBytes *binary)
{
  gsize size;
  const guint8 *data = g_bytes_get_data (binary, &size);
  guint32 magic;

  if (size == 0)
    return GPU_CUDA_BINARY_UNKNOWN;

  if (size > SELFMAG && memcmp (data, ELFMAG, SELFMAG) == 0)
    return GPU_CUDA_BINARY_ELF;

  if (size >= sizeof (FatbinHeader))
    {
      memcpy (&magic, data, sizeof magic);
      if (magic == FATBIN_MAGIC)
        return GPU_CUDA_BINARY_FATBIN;
    }

  return is_ptx ((const char *) data, size) ? GPU_CUDA_BINARY_PTX : GPU_CUDA_BINARY_UNKNOWN;
}

static gboolean
get_section (const Elf  *elf,
             guint       i,
             Elf64_Shdr *section)
{
  if (i >= elf->header.e_shnum)
    return FALSE;

  memcpy (section, elf->data + elf->header.e_shoff + i * sizeof *section, sizeof *section);

  return section->sh_type == SHT_NOBITS ||
         (section->sh_offset <= elf->size && section->sh_size <= elf->size - section->sh_offset);
}

/* Returns FALSE for a truncated or malformed ELF file. */
static gboolean
open_elf (GBytes *binary,
          Elf    *elf)
{
  Elf64_Shdr section;

  elf->data = g_bytes_get_data (binary, &elf->size);

  if (elf->size < sizeof elf->header)
    return FALSE;

  memcpy (&elf->header, elf->data, sizeof elf->header);

  if (elf->header.e_ident[EI_CLASS] != ELFCLASS64 ||
      elf->header.e_shentsize != sizeof (Elf64_Shdr) || elf->header.e_shoff > elf->size ||
      elf->header.e_shnum > (elf->size - elf->header.e_shoff) / sizeof (Elf64_Shdr))
    return FALSE;

  for (guint i = 0; i < elf->header.e_shnum; i++)
    {
      if (!get_section (elf, i, &section))
        return FALSE;
    }

  return TRUE;
}

/* Returns the name of @section from the string table of the file, or NULL if the name is out of
 * bounds. */
static const char *
get_section_name (const Elf        *elf,
                  const Elf64_Shdr *section)
{
  Elf64_Shdr names;
  const char *name;

  if (!get_section (elf, elf->header.e_shstrndx, &names) || names.sh_type == SHT_NOBITS ||
      section->sh_name >= names.sh_size)
    return NULL;

  name = (const char *) elf->data + names.sh_offset + section->sh_name;

  return memchr (name, '\0', names.sh_size - section->sh_name) != NULL ? name : NULL;
}

gboolean
_gpu_cuda_binary_is_cubin (GBytes *binary)
{
  Elf elf;

  return open_elf (binary, &elf) && elf.header.e_machine == CUDA_MACHINE;
}

/* Sets @begin and @end to the range of the entries. Returns FALSE for a truncated fatbin. */
static gboolean
open_fatbin (GBytes *binary,
             gsize  *begin,
             gsize  *end)
{
  gsize size;
  const guint8 *data = g_bytes_get_data (binary, &size);
  FatbinHeader header;

  memcpy (&header, data, sizeof header);

  if (header.header_size < sizeof header || header.header_size > size ||
      header.size > size - header.header_size)
    return FALSE;

  *begin = header.header_size;
  *end = header.header_size + header.size;

  return TRUE;
}

/* Sets @entry to the header at offset @at, and @part to the data of the entry. Returns FALSE if the
 * entry extends past @end. */
static gboolean
get_entry (GBytes       *binary,
           gsize         at,
           gsize         end,
           FatbinEntry  *entry,
           GBytes      **part)
{
  const guint8 *data = g_bytes_get_data (binary, NULL);

  memcpy (entry, data + at, sizeof *entry);

  if (entry->header_size < sizeof *entry || entry->header_size > end - at ||
      entry->size > end - at - entry->header_size)
    return FALSE;

  *part = g_bytes_new_from_bytes (binary, at + entry->header_size, entry->size);

  return TRUE;
}

/* Checks the uncompressed cubins like standalone cubins. Only the driver can read compressed
 * cubins. */
static gboolean
check_fatbin (GBytes *binary)
{
  gsize at, end;
  FatbinEntry entry;
  Elf elf;

  if (!open_fatbin (binary, &at, &end))
    return FALSE;

  for (; end - at >= sizeof entry; at += entry.header_size + entry.size)
    {
      g_autoptr (GBytes) part = NULL;

      if (!get_entry (binary, at, end, &entry, &part) ||
          (entry.compressed_size == 0 && _gpu_cuda_binary_identify (part) == GPU_CUDA_BINARY_ELF &&
           !open_elf (part, &elf)))
        return FALSE;
    }

  return TRUE;
}

gboolean
_gpu_cuda_binary_check (GBytes  *binary,
                        GError **error)
{
  const char *what = NULL;
  Elf elf;

  switch (_gpu_cuda_binary_identify (binary))
    {
    case GPU_CUDA_BINARY_ELF:
      what = open_elf (binary, &elf) ? NULL : "are not a complete cubin";
      break;
    case GPU_CUDA_BINARY_FATBIN:
      what = check_fatbin (binary) ? NULL : "are not a complete fatbin";
      break;
    case GPU_CUDA_BINARY_PTX:
      break;
    case GPU_CUDA_BINARY_UNKNOWN:
    default:
      what = "are neither PTX nor a cubin nor a fatbin";
      break;
    }

  if (what == NULL)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "%" G_GSIZE_FORMAT " bytes %s",
               g_bytes_get_size (binary), what);

  return FALSE;
}

/* Finds the first uncompressed and complete binary in a fatbin. All binaries of a fatbin have the
 * same kernels. (transfer full) (nullable) */
static GBytes *
find_in_fatbin (GBytes *binary)
{
  gsize at, end;
  FatbinEntry entry;

  if (!open_fatbin (binary, &at, &end))
    return NULL;

  for (; end - at >= sizeof entry; at += entry.header_size + entry.size)
    {
      g_autoptr (GBytes) part = NULL;

      if (!get_entry (binary, at, end, &entry, &part))
        return NULL;

      if (entry.compressed_size == 0 && _gpu_cuda_binary_check (part, NULL))
        return g_steal_pointer (&part);
    }

  return NULL;
}

/* Finds the ELF file or the PTX that describes the kernels. (transfer full) (nullable) */
static GBytes *
find_part (GBytes *binary)
{
  return _gpu_cuda_binary_identify (binary) == GPU_CUDA_BINARY_FATBIN ? find_in_fatbin (binary)
                                                                      : g_bytes_ref (binary);
}

/* --- kernels ------------------------------------------------------------------------------ */

static char **
list_in_elf (GBytes *binary)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  Elf64_Shdr section;
  Elf elf;

  if (!open_elf (binary, &elf) || elf.header.e_machine != CUDA_MACHINE)
    return NULL;

  for (guint i = 0; i < elf.header.e_shnum; i++)
    {
      const char *name = get_section (&elf, i, &section) ? get_section_name (&elf, &section) : NULL;

      /* Only kernels have a section .nv.constant0.NAME, because other functions have no constant
       * bank. */
      if (name != NULL && g_str_has_prefix (name, ".nv.constant0."))
        g_ptr_array_add (names, g_strdup (name + strlen (".nv.constant0.")));
    }

  if (names->len == 0)
    return NULL;

  g_ptr_array_add (names, NULL);

  return (char **) g_ptr_array_free (g_steal_pointer (&names), FALSE);
}

static GRegex *
entry_regex (void)
{
  static GRegex *regex;

  if (g_once_init_enter (&regex))
    g_once_init_leave (&regex, g_regex_new ("\\.entry\\s+([\\w$%]+)\\s*(?:\\(([^)]*)\\))?",
                                            G_REGEX_RAW, 0, NULL));

  return regex;
}

static char *
get_text (GBytes *binary)
{
  gsize size;
  const char *data = g_bytes_get_data (binary, &size);

  return g_strndup (data, size);
}

static char **
list_in_ptx (GBytes *binary)
{
  g_autofree char *text = get_text (binary);
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  g_autoptr (GMatchInfo) match = NULL;

  g_regex_match (entry_regex (), text, 0, &match);

  while (g_match_info_matches (match))
    {
      g_ptr_array_add (names, g_match_info_fetch (match, 1));
      if (!g_match_info_next (match, NULL))
        break;
    }

  g_ptr_array_add (names, NULL);

  return (char **) g_ptr_array_free (g_steal_pointer (&names), FALSE);
}

char **
_gpu_cuda_binary_list_kernels (GBytes *binary)
{
  g_autoptr (GBytes) part = find_part (binary);

  switch (part != NULL ? _gpu_cuda_binary_identify (part) : GPU_CUDA_BINARY_UNKNOWN)
    {
    case GPU_CUDA_BINARY_ELF:
      return list_in_elf (part);
    case GPU_CUDA_BINARY_PTX:
      return list_in_ptx (part);
    case GPU_CUDA_BINARY_FATBIN:
    case GPU_CUDA_BINARY_UNKNOWN:
    default:
      return NULL;
    }
}

/* --- arguments ---------------------------------------------------------------------------- */

static guint32
read_word (const guint8 *data)
{
  guint32 word;

  memcpy (&word, data, sizeof word);

  return GUINT32_FROM_LE (word);
}

static void
set_size (GArray *sizes,
          guint   index,
          gsize   size)
{
  if (index >= sizes->len)
    g_array_set_size (sizes, index + 1);

  g_array_index (sizes, gsize, index) = size;
}

/* Reads the parameter entries. The upper half of the second word is the number of the parameter.
 * The upper 14 bits of the third word are its size. */
static void
read_info (const guint8 *data,
           gsize         size,
           GArray       *sizes)
{
  while (size >= 4)
    {
      gboolean has_size = data[0] == INFO_HAS_SIZE;
      gsize length = 4 + (has_size ? read_word (data) >> 16 : 0);

      if (length > size)
        return;

      if (has_size && data[1] == INFO_PARAMETER && length == 4 + INFO_PARAMETER_SIZE)
        set_size (sizes, read_word (data + 8) & 0xffff, read_word (data + 12) >> 18);

      data += length;
      size -= length;
    }
}

static GArray *
get_sizes_in_elf (GBytes     *binary,
                  const char *kernel)
{
  g_autofree char *wanted = g_strconcat (".nv.info.", kernel, NULL);
  Elf64_Shdr section;
  Elf elf;

  if (!open_elf (binary, &elf) || elf.header.e_machine != CUDA_MACHINE)
    return NULL;

  for (guint i = 0; i < elf.header.e_shnum; i++)
    {
      const char *name = get_section (&elf, i, &section) ? get_section_name (&elf, &section) : NULL;

      if (g_strcmp0 (name, wanted) == 0 && section.sh_type != SHT_NOBITS)
        {
          GArray *sizes = g_array_new (FALSE, TRUE, sizeof (gsize));

          read_info (elf.data + section.sh_offset, section.sh_size, sizes);
          return sizes;
        }
    }

  return NULL;
}

/* @declaration is, for example, ".param .u64 .ptr .align 1 name" or
 * ".param .align 4 .b8 name[12]". */
static gsize
get_parameter_size (const char *declaration)
{
  g_autoptr (GRegex) regex = g_regex_new ("\\.[busf](8|16|32|64)\\b[^\\[]*(?:\\[(\\d+)\\])?",
                                          G_REGEX_RAW, 0, NULL);
  g_autoptr (GMatchInfo) match = NULL;
  g_autofree char *bits = NULL;
  g_autofree char *count = NULL;
  gsize size;

  if (!g_regex_match (regex, declaration, 0, &match))
    return 0;

  bits = g_match_info_fetch (match, 1);
  count = g_match_info_fetch (match, 2);
  size = g_ascii_strtoull (bits, NULL, 10) / 8;

  return count != NULL && *count != '\0' ? size * g_ascii_strtoull (count, NULL, 10) : size;
}

static GArray *
get_sizes_in_ptx (GBytes     *binary,
                  const char *kernel)
{
  g_autofree char *text = get_text (binary);
  g_autoptr (GMatchInfo) match = NULL;

  g_regex_match (entry_regex (), text, 0, &match);

  while (g_match_info_matches (match))
    {
      g_autofree char *name = g_match_info_fetch (match, 1);
      g_autofree char *list = g_match_info_fetch (match, 2);

      if (g_str_equal (name, kernel))
        {
          g_auto (GStrv) parts = g_strsplit (list != NULL ? list : "", ",", -1);
          GArray *sizes = g_array_new (FALSE, TRUE, sizeof (gsize));

          for (guint i = 0; parts[i] != NULL && strstr (parts[i], ".param") != NULL; i++)
            set_size (sizes, i, get_parameter_size (parts[i]));
          return sizes;
        }

      if (!g_match_info_next (match, NULL))
        break;
    }

  return NULL;
}

GArray *
_gpu_cuda_binary_get_sizes (GBytes     *binary,
                            const char *kernel)
{
  g_autoptr (GBytes) part = find_part (binary);

  switch (part != NULL ? _gpu_cuda_binary_identify (part) : GPU_CUDA_BINARY_UNKNOWN)
    {
    case GPU_CUDA_BINARY_ELF:
      return get_sizes_in_elf (part, kernel);
    case GPU_CUDA_BINARY_PTX:
      return get_sizes_in_ptx (part, kernel);
    case GPU_CUDA_BINARY_FATBIN:
    case GPU_CUDA_BINARY_UNKNOWN:
    default:
      return NULL;
    }
}

/* --- variables ---------------------------------------------------------------------------- */

/* Returns FALSE for the variables of the library and of compilers, for string literals, such as
 * "$str", and for constants of a function, which only that function can name. */
static gboolean
is_program_variable (const char *name,
                 gboolean    is_constant)
{
  if (strstr (name, "gpumem_") != NULL)
    return FALSE;

  if (g_str_has_prefix (name, "_ZZ"))
    return !is_constant;

  /* The name of a static variable follows its length. */
  if (g_str_has_prefix (name, "_ZL"))
    name += strspn (name + 3, G_CSET_DIGITS) + 3;
  else if (g_str_has_prefix (name, "_Z"))
    return TRUE;

  return *name != '\0' && !g_ascii_isdigit (*name)
         && strspn (name, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "_") == strlen (name)
         && !(name[0] == '_' && (name[1] == '_' || g_ascii_isupper (name[1])))
         && !g_str_equal (name, GPU_CUDA_OFFSET_NAME) && !g_str_has_prefix (name, "gpu_info_");
}

/* Returns the name of the variable that @symbol defines, or NULL if it defines none. */
static const char *
get_variable (const Elf        *elf,
              const Elf64_Shdr *strings,
              const Elf64_Sym  *symbol)
{
  const char *name = (const char *) elf->data + strings->sh_offset + symbol->st_name;
  const char *place;
  Elf64_Shdr section;

  if (ELF64_ST_TYPE (symbol->st_info) != STT_OBJECT || symbol->st_shndx == SHN_UNDEF
      || !get_section (elf, symbol->st_shndx, &section) || symbol->st_name >= strings->sh_size
      || memchr (name, '\0', strings->sh_size - symbol->st_name) == NULL)
    return NULL;

  place = get_section_name (elf, &section);

  if (place == NULL || g_str_has_prefix (place, ".nv.shared"))
    return NULL;

  return is_program_variable (name, g_str_has_prefix (place, ".nv.constant")) ? name : NULL;
}

static gboolean
find_variable_in_elf (GBytes  *binary,
                      char   **name)
{
  Elf64_Shdr table, strings;
  Elf elf;

  if (!open_elf (binary, &elf))
    return TRUE;

  for (guint i = 0; i < elf.header.e_shnum; i++)
    {
      if (!get_section (&elf, i, &table) || table.sh_type != SHT_SYMTAB
          || !get_section (&elf, table.sh_link, &strings) || strings.sh_type == SHT_NOBITS)
        continue;

      for (gsize j = 0; j < table.sh_size / sizeof (Elf64_Sym); j++)
        {
          Elf64_Sym symbol;
          const char *found;

          memcpy (&symbol, elf.data + table.sh_offset + j * sizeof symbol, sizeof symbol);
          found = get_variable (&elf, &strings, &symbol);

          if (found != NULL)
            {
              *name = g_strdup (found);
              return TRUE;
            }
        }

      return FALSE;
    }

  return TRUE;
}

/* A declaration is, for example, ".visible .const .align 4 .b8 name[16] = {...};". */
static gboolean
find_variable_in_ptx (GBytes  *binary,
                      char   **name)
{
  g_autofree char *text = get_text (binary);
  g_autoptr (GRegex) regex = g_regex_new ("^\\s*(?:\\.(?:visible|weak|common)\\s+)?"
                                          "\\.(global|const)\\s[^=;\\[]*?([\\w$%]+)\\s*[=;\\[]",
                                          G_REGEX_RAW | G_REGEX_MULTILINE, 0, NULL);
  g_autoptr (GMatchInfo) match = NULL;

  g_regex_match (regex, text, 0, &match);

  while (g_match_info_matches (match))
    {
      g_autofree char *space = g_match_info_fetch (match, 1);
      g_autofree char *found = g_match_info_fetch (match, 2);

      if (is_program_variable (found, g_str_equal (space, "const")))
        {
          *name = g_steal_pointer (&found);
          return TRUE;
        }

      if (!g_match_info_next (match, NULL))
        break;
    }

  return FALSE;
}

gboolean
_gpu_cuda_binary_find_variable (GBytes  *binary,
                                char   **name)
{
  g_autoptr (GBytes) part = find_part (binary);

  *name = NULL;

  switch (part != NULL ? _gpu_cuda_binary_identify (part) : GPU_CUDA_BINARY_UNKNOWN)
    {
    case GPU_CUDA_BINARY_ELF:
      return find_variable_in_elf (part, name);
    case GPU_CUDA_BINARY_PTX:
      return find_variable_in_ptx (part, name);
    case GPU_CUDA_BINARY_FATBIN:
    case GPU_CUDA_BINARY_UNKNOWN:
    default:
      return TRUE;
    }
}
