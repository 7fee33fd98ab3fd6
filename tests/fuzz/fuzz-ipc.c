/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Imports of host memory from other processes. The inputs are handles of arbitrary bytes, and
 * memfds of any size, with or without seals. A handle describes up to four parts of files. Imported
 * memory must stay readable and writable, even if the exporter tries to shrink the files.
 */
#include "config.h"

#include <fcntl.h>
#include <gio/gunixfdlist.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

#define ENVELOPE_TYPE "(sstuiu@ay)"
#define MAX_FILE_SIZE (1 << 20)
#define PAGE          512
#define MAX_PARTS     4
#define PART_ALIGN    4096

/* The bits of the first byte of an input. */
enum
{
  ODD_FILE_SIZE  = 1 << 0,
  ODD_SIZE       = 1 << 1,
  ODD_OFFSET     = 1 << 2,
  SEAL_SHRINK    = 1 << 3,
  SEAL_GROW      = 1 << 4,
  SEAL_WRITE     = 1 << 5,
  ENVELOPE       = 1 << 6,
  CHANGE         = 1 << 7           /* with ENVELOPE: imports a changed envelope; without: imports
                                     * arbitrary bytes */
};

typedef struct
{
  FuzzInput  input;
  guint8     how;
  gsize      size;
  guint64    offset;
  int        fd;
} Case;

static gboolean
open_file (Case  *self,
           gsize  size)
{
  int seals = ((self->how & SEAL_SHRINK) != 0 ? F_SEAL_SHRINK : 0)
              | ((self->how & SEAL_GROW) != 0 ? F_SEAL_GROW : 0)
              | ((self->how & SEAL_WRITE) != 0 ? F_SEAL_WRITE : 0);

  self->fd = memfd_create ("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  FUZZ_REQUIRE (self->fd >= 0);

  return ftruncate (self->fd, (off_t) size) == 0 && fcntl (self->fd, F_ADD_SEALS, seals) == 0;
}

/* Returns a sealed file, for handles with parts of several files. */
static int
get_other_file (void)
{
  static int fd = -1;

  if (fd < 0)
    {
      fd = memfd_create ("fuzz-other", MFD_CLOEXEC | MFD_ALLOW_SEALING);
      FUZZ_REQUIRE (fd >= 0 && ftruncate (fd, MAX_FILE_SIZE) == 0
                    && fcntl (fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    }

  return fd;
}

typedef struct
{
  guint64 offset;
  guint64 size;
} Part;

/* Fills @parts, and returns their number. By default, the parts are as long as the buffer, and all
 * but the first begin at a page. */
static guint
make_parts (Case *self,
            Part  parts[MAX_PARTS])
{
  const guint n = 1 + fuzz_take (&self->input, 1) % MAX_PARTS;
  guint64 left = self->size;

  for (guint i = 0; i < n; i++)
    {
      const guint8 how = n > 1 ? (guint8) fuzz_take (&self->input, 1) : 0;
      guint64 whole = PART_ALIGN;

      parts[i].offset = i == 0 ? self->offset : (how >> 4) * PART_ALIGN;
      if ((how & 1) != 0)
        parts[i].offset = fuzz_take_size (&self->input);

      whole -= parts[i].offset % PART_ALIGN;
      parts[i].size = i == n - 1 ? left : MIN (left, whole);
      if ((how & 2) != 0)
        parts[i].size = fuzz_take_size (&self->input);

      left -= MIN (left, parts[i].size);
    }

  return n;
}

static GBytes *
make_envelope (Case *self)
{
  guint32 flags = fuzz_take (&self->input, 1) & 1 ? (guint32) fuzz_take (&self->input, 4) : 0;
  gint32 index = (gint32) (fuzz_take (&self->input, 1) & 7) - 1;
  Part parts[MAX_PARTS];
  const guint n = make_parts (self, parts);
  guint8 odd = (guint8) fuzz_take (&self->input, 1);
  guint32 n_fds = odd & 1 ? (guint32) fuzz_take (&self->input, 4) : n;
  gsize size = odd & 2 ? fuzz_take (&self->input, 1) % (sizeof parts + 1) : n * sizeof *parts;
  g_autoptr (GVariant) envelope = NULL;

  if (size > n * sizeof *parts)
    memset (parts + n, 0, (MAX_PARTS - n) * sizeof *parts);

  envelope = g_variant_ref_sink (g_variant_new (ENVELOPE_TYPE, "gpumem buffer fd 1", "host",
                                                (guint64) self->size, flags, index, n_fds,
                                                g_variant_new_fixed_array (G_VARIANT_TYPE_BYTE,
                                                                           parts, size, 1)));

  return g_variant_get_data_as_bytes (envelope);
}

/* Changes some bytes, and possibly truncates the handle. */
static GBytes *
change_envelope (Case   *self,
                 GBytes *envelope)
{
  gsize size;
  guint8 *bytes = g_bytes_unref_to_data (envelope, &size);

  for (guint i = 0; i < 4 && self->input.size > 0; i++)
    {
      gsize at = fuzz_take (&self->input, 1) % size;

      bytes[at] ^= (guint8) fuzz_take (&self->input, 1);
    }
  if ((fuzz_take (&self->input, 1) & 1) != 0)
    size = fuzz_take (&self->input, 1) % (size + 1);

  return g_bytes_new_take (bytes, size);
}

static GpuBuffer *
import_envelope (Case    *self,
                 GError **error)
{
  g_autoptr (GUnixFDList) fds = g_unix_fd_list_new ();
  g_autoptr (GBytes) handle = make_envelope (self);

  for (guint i = 0; i < MAX_PARTS; i++)
    g_unix_fd_list_append (fds, i % 2 == 0 ? self->fd : get_other_file (), NULL);

  if ((self->how & CHANGE) != 0)
    handle = change_envelope (self, handle);

  return gpu_buffer_new_from_fds (fuzz_get_context (), handle, fds, error);
}

/* Imports arbitrary bytes, first as an event handle, which must fail, then as a buffer handle. */
static GpuBuffer *
import_bytes (Case    *self,
              GError **error)
{
  g_autoptr (GUnixFDList) fds = g_unix_fd_list_new ();
  g_autoptr (GBytes) handle = g_bytes_new (self->input.data, self->input.size);
  GpuBuffer *buffer;

  g_unix_fd_list_append (fds, self->fd, NULL);
  FUZZ_REQUIRE (gpu_event_new_from_handle (fuzz_get_context (), handle, NULL) == NULL);
  buffer = gpu_buffer_new_from_handle (fuzz_get_context (), handle, NULL);

  return buffer != NULL ? buffer
                        : gpu_buffer_new_from_fds (fuzz_get_context (), handle, fds, error);
}

static GpuBuffer *
import_fd (Case    *self,
           GError **error)
{
  GpuMemoryFlags flags = fuzz_take (&self->input, 1) & 1 ? fuzz_take (&self->input, 4)
                                                         : GPU_MEMORY_FLAGS_READ_ONLY;
  gsize whole_size = fuzz_take (&self->input, 1) & 1 ? fuzz_take_size (&self->input) : G_MAXSSIZE;

  return gpu_buffer_new_from_fd (fuzz_get_context (), flags, GPU_FD_KINDS_OPAQUE, self->fd,
                                 whole_size, self->offset, self->size, error);
}

/* Accesses every page: a missing page crashes the program. */
static void
touch (const Case *self,
       GpuBuffer  *buffer)
{
  gsize size = gpu_memory_get_size (GPU_MEMORY (buffer));
  guint64 address = gpu_memory_get_device_address (GPU_MEMORY (buffer));
  volatile guint8 *data = (volatile guint8 *) (guintptr) address;
  guint8 sum = 0;

  FUZZ_REQUIRE (size > 0 && address != 0);
  for (gsize i = 0; i < size; i += PAGE)
    sum += data[i];
  sum += data[size - 1];
  if ((self->how & SEAL_WRITE) == 0)
    data[size - 1] = sum;
}

static void
run (const guint8 *data,
     gsize         size)
{
  Case self = { .input = { data, size } };
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GError) error = NULL;
  gsize file_size;

  self.how = (guint8) fuzz_take (&self.input, 1);
  file_size = (self.how & ODD_FILE_SIZE) != 0 ? fuzz_take_size (&self.input) % MAX_FILE_SIZE : 4096;
  self.size = (self.how & ODD_SIZE) != 0 ? fuzz_take_size (&self.input)
                                         : fuzz_take (&self.input, 2);
  self.offset = (self.how & ODD_OFFSET) != 0 ? fuzz_take_size (&self.input)
                                             : fuzz_take (&self.input, 2);
  if (open_file (&self, file_size))
    {
      if ((self.how & ENVELOPE) != 0)
        buffer = import_envelope (&self, &error);
      else if ((self.how & CHANGE) != 0)
        buffer = import_bytes (&self, &error);
      else
        buffer = import_fd (&self, &error);

      FUZZ_REQUIRE ((buffer == NULL) == (error != NULL));
      if (ftruncate (self.fd, 0) != 0)
        FUZZ_REQUIRE ((self.how & SEAL_SHRINK) != 0 || (self.how & SEAL_WRITE) != 0);
      if (buffer != NULL)
        touch (&self, buffer);
    }
  close (self.fd);
}

static void
add_seeds (GPtrArray *seeds)
{
  /* Four imports of two pages: of a sealed file by handle and by file descriptor, of a file that is
   * also sealed against writes, and of an unsealed file. Two imports of 4,704 bytes in two parts:
   * the first part has a wrong size in the second import. */
  static const guint8 envelope[] = { ENVELOPE | SEAL_SHRINK, 0, 4, 0, 0, 0, 1, 0, 0 };
  static const guint8 parts[] = { ENVELOPE | SEAL_SHRINK, 0x60, 0x12, 0, 2, 0, 1, 1, 0, 0x10, 0 };
  static const guint8 odd_parts[] = { ENVELOPE | SEAL_SHRINK, 0x60, 0x12, 0, 2, 0, 1, 1, 3, 2, 7,
                                      2, 200, 0x10, 0 };
  static const guint8 by_fd[] = { SEAL_SHRINK, 0, 8, 0, 8, 0, 1, 3, 0, 16 };
  static const guint8 read_only[] = { SEAL_SHRINK | SEAL_WRITE, 0, 8, 0, 8, 0, 1, 3, 0, 16 };
  static const guint8 open[] = { ENVELOPE, 0, 4, 0, 0, 0, 1, 0, 0 };

  fuzz_add_seed (seeds, envelope, sizeof envelope);
  fuzz_add_seed (seeds, parts, sizeof parts);
  fuzz_add_seed (seeds, odd_parts, sizeof odd_parts);
  fuzz_add_seed (seeds, by_fd, sizeof by_fd);
  fuzz_add_seed (seeds, read_only, sizeof read_only);
  fuzz_add_seed (seeds, open, sizeof open);
  fuzz_add_random (seeds, 16, 40);
}

const FuzzTarget fuzz_ipc = { "ipc", run, add_seeds, TRUE };
