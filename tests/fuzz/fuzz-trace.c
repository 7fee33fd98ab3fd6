/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Allocation traces for `gpumem pool replay`: text lines, RMM logs, gzip. If an input begins with
 * the byte 0xff, the target compresses the rest of the input, so that arbitrary bytes reach the
 * parser behind the decompressor.
 */
#include "config.h"

#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "tools/gpumem-trace.h"

#define COMPRESSED 0xff
#define OUT_SIZE   65536

static GByteArray *
make_file (const guint8 *data,
           gsize         size)
{
  GByteArray *file = g_byte_array_new ();
  g_autoptr (GConverter) gzip = NULL;
  g_autofree guint8 *out = NULL;
  gsize n_read, n_written;

  if (size == 0 || data[0] != COMPRESSED)
    return size > 0 ? g_byte_array_append (file, data, (guint) size) : file;

  gzip = G_CONVERTER (g_zlib_compressor_new (G_ZLIB_COMPRESSOR_FORMAT_GZIP, 1));
  out = g_malloc (OUT_SIZE);
  if (g_converter_convert (gzip, data + 1, size - 1, out, OUT_SIZE, G_CONVERTER_INPUT_AT_END,
                           &n_read, &n_written, NULL) == G_CONVERTER_FINISHED)
    g_byte_array_append (file, out, (guint) n_written);

  return file;
}

/* Checks that the trace can be replayed: each block is allocated once and freed at most once. */
static void
check (const GpumemTrace *trace)
{
  g_autofree guint8 *state = g_malloc0 (trace->n_blocks + 1);
  guint64 live = 0, peak = 0;

  for (gsize i = 0; i < trace->n_operations; i++)
    {
      const GpumemTraceOperation *operation = &trace->operations[i];

      FUZZ_REQUIRE (operation->stream < trace->streams->len);
      FUZZ_REQUIRE (operation->block < trace->n_blocks);
      FUZZ_REQUIRE (state[operation->block] == operation->is_free);
      state[operation->block]++;
      FUZZ_REQUIRE (operation->is_free ? operation->size <= live
                                       : operation->size <= G_MAXUINT64 - live);
      live = operation->is_free ? live - operation->size : live + operation->size;
      peak = MAX (peak, live);
    }
  FUZZ_REQUIRE (trace->live == live && trace->peak_live == peak);
  FUZZ_REQUIRE (trace->peak_blocks <= trace->n_blocks);
}

static void
run (const guint8 *data,
     gsize         size)
{
  g_autoptr (GByteArray) file = make_file (data, size);
  g_autoptr (GpumemTrace) trace = NULL;
  g_autoptr (GError) error = NULL;
  int fd = memfd_create ("trace", MFD_CLOEXEC);
  g_autofree char *path = g_strdup_printf ("/proc/self/fd/%d", fd);

  FUZZ_REQUIRE (fd >= 0 && write (fd, file->data, file->len) == (gssize) file->len);
  trace = gpumem_trace_read (path, &error);
  close (fd);

  FUZZ_REQUIRE ((trace == NULL) == (error != NULL));
  FUZZ_REQUIRE (error == NULL || g_utf8_validate (error->message, -1, NULL));
  if (trace != NULL)
    check (trace);
}

static void
add_seeds (GPtrArray *seeds)
{
  static const char *const texts[] =
  {
    "# a comment\na 0 4096 0\na 1 512 1\n\nf 0 0\na 0 64 0\nf 1 1\n",
    "Thread,Time,Action,Pointer,Size,Stream\n1,12:00:01:100,allocate,0x7f00aa000000,1048576,0x0\n"
    "1,12:00:01:101,allocate,0x7f00bb000000,512,0x5581\n1,2,allocate_failure,0x0,99999999999,0x0\n"
    "1,12:00:01:105,free,0x7f00aa000000,1048576,0x5581\n",
    "size, Stream ,What,pointer,ACTION\r\n64,s,x,ff,allocate\r\n64,t,x,0xff,free\n",
    "a 1 18446744073709551615 0\na 2 1 0\n",
    "\377a 0 4096 0\nf 0 0\n", "\377a 1 10 0\nf 1"
  };

  for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
    fuzz_add_text (seeds, texts[i]);
  fuzz_add_seed (seeds, "\x1f\x8b\x08\x00\x00\x00\x00\x00", 8);
}

const FuzzTarget fuzz_trace = { "trace", run, add_seeds, TRUE };
