/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A program built for several devices has one binary for each device. The library joins the
 * binaries into one block: a magic text, the number of binaries and their sizes as little-endian
 * 64-bit words, and then the binaries.
 */
#include "config.h"

#include <string.h>

#include "gpumem/opencl/driver/gpu-opencl.h"

#define MAGIC "GPUCLBIN"
#define WORD 8

/* The header of a compiled part: a magic text, and a digest of the part and of the devices and
 * drivers for which it was compiled. */
#define PART_MAGIC "GPUCLOBJ"
#define DIGEST_SIZE 32
#define SEAL_SIZE (WORD + DIGEST_SIZE)

static void
append_word (GByteArray *array,
             guint64     value)
{
  guint64 word = GUINT64_TO_LE (value);

  g_byte_array_append (array, (const guint8 *) &word, WORD);
}

static guint64
read_word (const guint8 *data)
{
  guint64 word;

  memcpy (&word, data, WORD);
  return GUINT64_FROM_LE (word);
}

GBytes *
_gpu_opencl_binary_join (GBytes *const *binaries,
                         guint          n_binaries)
{
  GByteArray *array;

  if (n_binaries == 1)
    return g_bytes_ref (binaries[0]);

  array = g_byte_array_new ();
  g_byte_array_append (array, (const guint8 *) MAGIC, WORD);
  append_word (array, n_binaries);
  for (guint i = 0; i < n_binaries; i++)
    append_word (array, g_bytes_get_size (binaries[i]));
  for (guint i = 0; i < n_binaries; i++)
    {
      gsize size = 0;
      const guint8 *data = g_bytes_get_data (binaries[i], &size);

      g_byte_array_append (array, data, size);
    }

  return g_byte_array_free_to_bytes (array);
}

/* Appends the parts of @bytes to @parts. Returns FALSE if the sizes of the parts in the header do
 * not add up to the size of @bytes. */
static gboolean
split_parts (GBytes    *bytes,
             guint      n_parts,
             GPtrArray *parts)
{
  gsize size = 0;
  const guint8 *data = g_bytes_get_data (bytes, &size);
  gsize offset = WORD * (2 + (gsize) n_parts);

  if (size < offset)
    return FALSE;

  for (guint i = 0; i < n_parts; i++)
    {
      guint64 part_size = read_word (data + WORD * (2 + i));

      if (part_size == 0 || part_size > size - offset)
        return FALSE;
      g_ptr_array_add (parts, g_bytes_new_from_bytes (bytes, offset, part_size));
      offset += part_size;
    }

  return offset == size;
}

GPtrArray *
_gpu_opencl_binary_split (GBytes  *bytes,
                          guint    n_devices,
                          GError **error)
{
  g_autoptr (GPtrArray) parts = g_ptr_array_new_with_free_func ((GDestroyNotify) g_bytes_unref);
  gsize size = 0;
  const guint8 *data = g_bytes_get_data (bytes, &size);
  guint64 n_parts = 1;

  if (size == 0)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "the binary has 0 bytes");
      return NULL;
    }

  if (size >= 2 * WORD && memcmp (data, MAGIC, WORD) == 0)
    n_parts = read_word (data + WORD);
  else
    g_ptr_array_add (parts, g_bytes_ref (bytes));

  if (n_parts != n_devices)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "the binary is for %" G_GUINT64_FORMAT " devices, but the context has %u",
                   n_parts, n_devices);
      return NULL;
    }

  if (parts->len == 0 && !split_parts (bytes, n_devices, parts))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "the binary for %u devices is damaged: its size of %" G_GSIZE_FORMAT
                   " bytes does not match its header", n_devices, size);
      return NULL;
    }

  return g_steal_pointer (&parts);
}

static void
get_digest (const char *maker,
            GBytes     *part,
            guint8      digest[DIGEST_SIZE])
{
  g_autoptr (GChecksum) checksum = g_checksum_new (G_CHECKSUM_SHA256);
  gsize digest_size = DIGEST_SIZE;
  gsize size = 0;
  const guint8 *data = g_bytes_get_data (part, &size);

  g_checksum_update (checksum, (const guint8 *) maker, (gssize) strlen (maker) + 1);
  g_checksum_update (checksum, data, (gssize) size);
  g_checksum_get_digest (checksum, digest, &digest_size);
}

GBytes *
_gpu_opencl_part_seal (GBytes     *part,
                       const char *maker)
{
  GByteArray *array = g_byte_array_new ();
  guint8 digest[DIGEST_SIZE];
  gsize size = 0;
  const guint8 *data = g_bytes_get_data (part, &size);

  get_digest (maker, part, digest);
  g_byte_array_append (array, (const guint8 *) PART_MAGIC, WORD);
  g_byte_array_append (array, digest, DIGEST_SIZE);
  g_byte_array_append (array, data, size);

  return g_byte_array_free_to_bytes (array);
}

GBytes *
_gpu_opencl_part_open (GBytes      *sealed,
                       const char  *maker,
                       GError     **error)
{
  g_autoptr (GBytes) part = NULL;
  guint8 digest[DIGEST_SIZE];
  gsize size = 0;
  const guint8 *data = g_bytes_get_data (sealed, &size);

  if (size <= SEAL_SIZE || memcmp (data, PART_MAGIC, WORD) != 0)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "the data (%" G_GSIZE_FORMAT " bytes) is not a part compiled for OpenCL: pass "
                   "the result of gpu_program_compile()", size);
      return NULL;
    }

  part = g_bytes_new_from_bytes (sealed, SEAL_SIZE, size - SEAL_SIZE);
  get_digest (maker, part, digest);

  if (memcmp (data + WORD, digest, DIGEST_SIZE) == 0)
    return g_steal_pointer (&part);

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "the compiled part of %" G_GSIZE_FORMAT " bytes is damaged, or was compiled for "
               "other devices or by another version of the driver: compile it again", size);
  return NULL;
}
