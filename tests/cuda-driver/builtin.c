/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The library's PTX kernels, implemented in C and found by name. */
#include "config.h"

#include <string.h>

#include "driver.h"
#include "kernel.h"

#define TABLE_SIZE 3072

/* Fills memory with the repeated units of a table. The parameters are those of the kernel in
 * gpumem/cuda/memory/gpu-cuda-fill.c. */
static void
fill (void (*function) (void),
      void **arguments)
{
  guint64 destination = *(guint64 *) arguments[0];
  guint64 n_units = *(guint64 *) arguments[1];
  guint unit_size = *(guint *) arguments[2];
  guint n_table = *(guint *) arguments[3];
  const guint8 *table = arguments[4];

  /* The first thread does the work of the whole grid. */
  (void) function;
  for (guint64 i = 0; i < n_units; i++)
    memcpy (GSIZE_TO_POINTER (destination + i * unit_size), table + i % n_table * unit_size,
            unit_size);
}

/* The table of the kernel in gpumem/cuda/memory/gpu-cuda-copy-batch.c */
#define CHUNK_SIZE 16384
#define BLOCK_SIZE 256
#define N_COPIES   170

typedef struct
{
  guint32   n_copies;
  guint32   unused;
  struct
  {
    guint64 destination;
    guint64 source;
    guint32 size;
    guint32 first;
  }         copies[N_COPIES];
} CopyTable;

static void
copy_batch (void (*function) (void),
            void **arguments)
{
  const CopyTable *table = arguments[0];

  (void) function;
  for (guint i = table->n_copies; i-- > 0;)         /* blocks have no order */
    memcpy (GSIZE_TO_POINTER (table->copies[i].destination),
            GSIZE_TO_POINTER (table->copies[i].source), table->copies[i].size);
}

/* The tables of the kernels gpu_copy_rows and gpu_copy_more_rows of the same file */
#define N_ROWS      1010
#define N_MORE_ROWS 4096

typedef struct
{
  guint64 destination;
  guint64 source;
  gint64  numbered_step;
  gint64  other_step;
  guint32 size;
  guint32 n_chunks;
  guint32 is_put;
  guint32 n_rows;
  guint32 rows[N_MORE_ROWS];
} RowTable;

static void
get_row (const RowTable *table,
         guint           i,
         guint64        *destination,
         guint64        *source)
{
  guint64 numbered = table->rows[i] * table->numbered_step, other = i * table->other_step;

  *destination = table->destination + (table->is_put != 0 ? numbered : other);
  *source = table->source + (table->is_put != 0 ? other : numbered);
}

static void
copy_rows (void (*function) (void),
           void **arguments)
{
  const RowTable *table = arguments[0];
  guint64 destination, source;

  (void) function;
  for (guint i = table->n_rows; i-- > 0;)           /* blocks have no order */
    {
      get_row (table, i, &destination, &source);
      memcpy (GSIZE_TO_POINTER (destination), GSIZE_TO_POINTER (source), table->size);
    }
}

/* The parameters of the kernel in gpumem/cuda/memory/gpu-cuda-region-kernel.c */
static void
copy_region (void (*function) (void),
             void **arguments)
{
  guint64 pitches[6];
  guint n_units = *(guint *) arguments[6];
  guint width = *(guint *) arguments[7];
  guint height = *(guint *) arguments[8];

  (void) function;
  for (guint i = 0; i < G_N_ELEMENTS (pitches); i++)
    pitches[i] = *(guint64 *) arguments[i];
  for (guint i = 0; i < n_units; i += width)
    memcpy (GSIZE_TO_POINTER (pitches[0] + i / width % height * pitches[2] +
                              i / width / height * pitches[4]),
            GSIZE_TO_POINTER (pitches[1] + i / width % height * pitches[3] +
                              i / width / height * pitches[5]),
            width * (gsize) 16);
}

static CUresult
check_copy_region (const Launch *launch,
                   Op           *op,
                   Stream       *stream)
{
  const gpointer *arguments = launch->arguments;
  guint n_units = *(guint *) arguments[6], width = *(guint *) arguments[7];
  guint height = *(guint *) arguments[8];

  if (n_units == 0 || n_units % (width * height) != 0 ||
      launch->grid[0] != (n_units + BLOCK_SIZE - 1) / BLOCK_SIZE)
    return misuse (CUDA_ERROR_INVALID_VALUE, "gpu_copy_region: %u units", n_units);
  for (guint side = 0; side < 2; side++)
    {
      guint64 address = *(guint64 *) arguments[side], row = *(guint64 *) arguments[2 + side];
      guint64 slice = *(guint64 *) arguments[4 + side];
      guint64 n_slices = n_units / width / height;

      if ((address | row | slice) % 16 != 0)
        return misuse (CUDA_ERROR_MISALIGNED_ADDRESS, "gpu_copy_region: units of 16 bytes");
      TRY (memory_check (op, stream, address,
                         (n_slices - 1) * slice + (height - 1) * row + width * (guint64) 16,
                         side == 0, "a region of a kernel"));
    }
  return CUDA_SUCCESS;
}

/* Checks that the blocks of the launch cover each copy exactly once. */
static CUresult
check_copy_batch (const Launch *launch,
                  Op           *op,
                  Stream       *stream)
{
  const CopyTable *table = launch->arguments[0];
  guint n_blocks = 0;

  if (table->n_copies == 0 || table->n_copies > N_COPIES || launch->block[0] != BLOCK_SIZE ||
      launch->grid[1] * launch->grid[2] * launch->block[1] * launch->block[2] != 1)
    return misuse (CUDA_ERROR_INVALID_VALUE, "gpu_copy_batch: %u copies", table->n_copies);
  for (guint i = 0; i < table->n_copies; i++)
    {
      if (table->copies[i].size == 0 || table->copies[i].first != n_blocks)
        return misuse (CUDA_ERROR_INVALID_VALUE, "gpu_copy_batch: copy %u of %u bytes begins in "
                       "block %u, not %u", i, table->copies[i].size, table->copies[i].first,
                       n_blocks);
      TRY (memory_check (op, stream, table->copies[i].destination, table->copies[i].size, TRUE,
                         "the destination of a batch"));
      TRY (memory_check (op, stream, table->copies[i].source, table->copies[i].size, FALSE,
                         "the source of a batch"));
      n_blocks += (table->copies[i].size + CHUNK_SIZE - 1) / CHUNK_SIZE;
    }
  if (n_blocks != launch->grid[0])
    return misuse (CUDA_ERROR_INVALID_VALUE, "gpu_copy_batch: %u blocks for %u chunks",
                   launch->grid[0], n_blocks);
  return CUDA_SUCCESS;
}

static CUresult
check_copy_rows (const Launch *launch,
                 Op           *op,
                 Stream       *stream)
{
  const KernelEntry *entry = launch->function->entry;
  const RowTable *table = launch->arguments[0];
  guint most = strcmp (entry->name, "gpu_copy_rows") == 0 ? N_ROWS : N_MORE_ROWS;
  guint64 destination, source;

  if (table->n_rows == 0 || table->n_rows > most || table->size == 0 ||
      table->n_chunks != (table->size + CHUNK_SIZE - 1) / CHUNK_SIZE ||
      launch->block[0] != BLOCK_SIZE || launch->grid[0] != table->n_rows * table->n_chunks ||
      launch->grid[1] * launch->grid[2] * launch->block[1] * launch->block[2] != 1)
    return misuse (CUDA_ERROR_INVALID_VALUE, "gpu_copy_rows: %u rows of %u bytes", table->n_rows,
                   table->size);
  for (guint i = 0; i < table->n_rows; i++)
    {
      get_row (table, i, &destination, &source);
      TRY (memory_check (op, stream, destination, table->size, TRUE, "the destination of rows"));
      TRY (memory_check (op, stream, source, table->size, FALSE, "the source of rows"));
    }
  return CUDA_SUCCESS;
}

CUresult
builtin_check (const Launch *launch,
               Op           *op,
               Stream       *stream)
{
  const KernelEntry *entry = launch->function->entry;

  if (entry->run == copy_region)
    return check_copy_region (launch, op, stream);
  if (entry->run == copy_rows)
    return check_copy_rows (launch, op, stream);
  return entry->run == copy_batch ? check_copy_batch (launch, op, stream) : CUDA_SUCCESS;
}

static const gsize fill_sizes[] = { 8, 8, 4, 4, TABLE_SIZE };
static const gsize fill_alignments[] = { 8, 8, 4, 4, 16 };
static const gsize copy_batch_sizes[] = { sizeof (CopyTable) };
static const gsize copy_batch_alignments[] = { 8 };
static const gsize copy_rows_sizes[] = { 48 + N_ROWS * 4 };
static const gsize copy_more_rows_sizes[] = { sizeof (RowTable) };
static const gsize copy_region_sizes[] = { 8, 8, 8, 8, 8, 8, 4, 4, 4 };
static const gsize copy_region_alignments[] = { 8, 8, 8, 8, 8, 8, 4, 4, 4 };

static const KernelEntry builtins[] = {
  { NULL, fill, "gpu_fill", fill_sizes, fill_alignments, 5, 0 },
  { NULL, copy_batch, "gpu_copy_batch", copy_batch_sizes, copy_batch_alignments, 1, 0 },
  { NULL, copy_rows, "gpu_copy_rows", copy_rows_sizes, copy_batch_alignments, 1, 0 },
  { NULL, copy_rows, "gpu_copy_more_rows", copy_more_rows_sizes, copy_batch_alignments, 1, 0 },
  { NULL, copy_region, "gpu_copy_region", copy_region_sizes, copy_region_alignments, 9, 0 },
};

gconstpointer
builtin_find (const char *name)
{
  for (gsize i = 0; i < G_N_ELEMENTS (builtins); i++)
    if (g_str_equal (builtins[i].name, name))
      return &builtins[i];
  return NULL;
}
