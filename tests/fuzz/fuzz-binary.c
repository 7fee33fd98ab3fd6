/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Program binaries: cubins, fatbins and PTX for CUDA, multi-device binaries for OpenCL. */
#include "config.h"

#include <elf.h>

#include "tests/fuzz/fuzz.h"

#ifdef HAVE_CUDA
#include "gpumem/cuda/compiler/gpu-cuda-compiler.h"
#endif
#ifdef HAVE_OPENCL
#include "gpumem/opencl/driver/gpu-opencl.h"
#endif

#define MAKER "maker"

#ifdef HAVE_CUDA
static void
read_cuda (GBytes *bytes)
{
  g_autoptr (GError) error = NULL;
  g_auto (GStrv) names = NULL;
  g_autofree char *variable = NULL;

  if (!_gpu_cuda_binary_check (bytes, &error))
    {
      FUZZ_REQUIRE (error != NULL);
      return;
    }

  _gpu_cuda_binary_is_cubin (bytes);
  _gpu_cuda_binary_find_variable (bytes, &variable);
  names = _gpu_cuda_binary_list_kernels (bytes);
  for (guint i = 0; names != NULL && names[i] != NULL; i++)
    {
      g_autoptr (GArray) sizes = _gpu_cuda_binary_get_sizes (bytes, names[i]);

      FUZZ_REQUIRE (strlen (names[i]) <= g_bytes_get_size (bytes));
      FUZZ_REQUIRE (sizes == NULL || sizes->len <= G_MAXUINT16 + 1u
                    || sizes->len <= g_bytes_get_size (bytes));
    }
}
#endif

#ifdef HAVE_OPENCL
static void
split_opencl (GBytes *bytes,
              guint   n_devices)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) parts = _gpu_opencl_binary_split (bytes, n_devices, &error);
  gsize sum = 0;

  FUZZ_REQUIRE ((parts == NULL) == (error != NULL));
  for (guint i = 0; parts != NULL && i < parts->len; i++)
    sum += g_bytes_get_size (parts->pdata[i]);
  FUZZ_REQUIRE (parts == NULL || (parts->len == n_devices && sum <= g_bytes_get_size (bytes)));
}

static void
open_opencl (GBytes *bytes)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) part = _gpu_opencl_part_open (bytes, MAKER, &error);

  FUZZ_REQUIRE ((part == NULL) == (error != NULL));
}
#endif

static void
run (const guint8 *data,
     gsize         size)
{
  g_autoptr (GBytes) bytes = g_bytes_new (data, size);

#ifdef HAVE_CUDA
  read_cuda (bytes);
#endif
#ifdef HAVE_OPENCL
  for (guint n = 1; n < 4; n++)
    split_opencl (bytes, n);
  open_opencl (bytes);
#endif
}

/* --- seeds --------------------------------------------------------------------- */

/* A cubin with a kernel k that has two arguments. */
typedef struct
{
  Elf64_Ehdr header;
  char       names[40];
  guint32    info[8];
  Elf64_Shdr sections[3];
} Cubin;

static void
cubin_init (Cubin *cubin)
{
  static const char names[40] = "\0.strtab\0.nv.constant0.k\0.nv.info.k";

  *cubin = (Cubin)
  {
    .header =
    {
      .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
      .e_type = ET_EXEC, .e_machine = 190, .e_shoff = G_STRUCT_OFFSET (Cubin, sections),
      .e_shentsize = sizeof (Elf64_Shdr), .e_shnum = 3, .e_shstrndx = 0
    },
    .info =
    {
      12 << 16 | 0x17 << 8 | 4, 0, 0, 8 << 18,
      12 << 16 | 0x17 << 8 | 4, 0, 8 << 16 | 1, 4 << 18
    },
    .sections =
    {
      { .sh_name = 1, .sh_type = SHT_STRTAB, .sh_offset = G_STRUCT_OFFSET (Cubin, names),
        .sh_size = sizeof names },
      { .sh_name = 9, .sh_type = SHT_PROGBITS, .sh_offset = G_STRUCT_OFFSET (Cubin, names),
        .sh_size = 8 },
      { .sh_name = 25, .sh_type = SHT_PROGBITS, .sh_offset = G_STRUCT_OFFSET (Cubin, info),
        .sh_size = sizeof cubin->info }
    }
  };
  memcpy (cubin->names, names, sizeof names);
}

static void
add_fatbin (GPtrArray    *seeds,
            guint16       kind,
            guint32       compressed_size,
            gconstpointer part,
            gsize         size)
{
  const guint32 header[4] = { 0xba55ed50u, 16 << 16 | 1, (guint32) size + 64 };
  const guint32 entry[16] = { 1u << 24 | 1 << 16 | kind, 64, (guint32) size, 0, compressed_size };
  g_autoptr (GByteArray) fatbin = g_byte_array_new ();

  g_byte_array_append (fatbin, (const guint8 *) header, sizeof header);
  g_byte_array_append (fatbin, (const guint8 *) entry, sizeof entry);
  g_byte_array_append (fatbin, part, (guint) size);
  fuzz_add_seed (seeds, fatbin->data, fatbin->len);
}

static void
add_seeds (GPtrArray *seeds)
{
  static const char ptx[] =
    "// a comment\n.version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry scale (.param .u64 .ptr .align 1 p, .param .f32 f,\n"
    "  .param .align 4 .b8 s[12])\n{ ret; }\n";
  Cubin cubin;

  cubin_init (&cubin);
  fuzz_add_seed (seeds, &cubin, sizeof cubin);
  fuzz_add_text (seeds, ptx);
  add_fatbin (seeds, 2, 0, &cubin, sizeof cubin);
  add_fatbin (seeds, 1, 0, ptx, sizeof ptx);
  add_fatbin (seeds, 1, 37, ptx, 37);

#ifdef HAVE_OPENCL
  {
    g_autoptr (GBytes) first = g_bytes_new_static ("first", 5);
    g_autoptr (GBytes) second = g_bytes_new_static ("the second", 10);
    GBytes *const both[] = { first, second };
    g_autoptr (GBytes) joined = _gpu_opencl_binary_join (both, 2);
    g_autoptr (GBytes) sealed = _gpu_opencl_part_seal (first, MAKER);

    g_ptr_array_add (seeds, g_steal_pointer (&joined));
    g_ptr_array_add (seeds, g_steal_pointer (&sealed));
  }
#endif
}

const FuzzTarget fuzz_binary = { "binary", run, add_seeds, FALSE };
