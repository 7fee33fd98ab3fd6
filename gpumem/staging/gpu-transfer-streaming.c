/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copies that keep the data out of the caches of single processors. On an H200, a copy engine reads
 * lines that several processors have just written to their caches at half the speed of memory. */
#include "config.h"

#include <string.h>

#if defined __x86_64__ && defined __GNUC__
#include <immintrin.h>
#define HAVE_STREAMING_STORES
#endif

/* clang 15 cannot query whether the processor has CLDEMOTE. */
#if defined HAVE_STREAMING_STORES && !defined __clang__ && __GNUC__ >= 11
#define HAVE_CLDEMOTE
#endif

#include "gpumem/staging/gpu-transfer-private.h"

#define LINE_SIZE 64

/* Smaller copies are faster with memcpy(), in bytes. */
#define MIN_SIZE 4096

#ifdef HAVE_STREAMING_STORES
typedef void (*CopyLinesFunc) (guint8       *to,
                               const guint8 *from,
                               gsize         n_lines);

static void
stream_lines (guint8       *to,
              const guint8 *from,
              gsize         n_lines)
{
  for (; n_lines > 0; n_lines--, to += LINE_SIZE, from += LINE_SIZE)
    {
      __m128i a = _mm_loadu_si128 ((const __m128i *) from);
      __m128i b = _mm_loadu_si128 ((const __m128i *) from + 1);
      __m128i c = _mm_loadu_si128 ((const __m128i *) from + 2);
      __m128i d = _mm_loadu_si128 ((const __m128i *) from + 3);

      _mm_stream_si128 ((__m128i *) to, a);
      _mm_stream_si128 ((__m128i *) to + 1, b);
      _mm_stream_si128 ((__m128i *) to + 2, c);
      _mm_stream_si128 ((__m128i *) to + 3, d);
    }
}

/* Each store writes a whole line, so that the processor never writes parts of a line to memory. */
__attribute__ ((target ("avx512f"))) static void
stream_lines_avx512 (guint8       *to,
                     const guint8 *from,
                     gsize         n_lines)
{
  for (; n_lines > 0; n_lines--, to += LINE_SIZE, from += LINE_SIZE)
    _mm512_stream_si512 ((__m512i *) to, _mm512_loadu_si512 (from));
}

/* Copies whole lines of the destination with @copy_lines. */
static void
copy_with (CopyLinesFunc  copy_lines,
           guint8        *to,
           const guint8  *from,
           gsize          size)
{
  const gsize begin = -(guintptr) to % LINE_SIZE;
  const gsize n_lines = size >= MIN_SIZE ? (size - begin) / LINE_SIZE : 0;

  if (n_lines > 0)
    {
      memcpy (to, from, begin);
      copy_lines (to + begin, from + begin, n_lines);
      /* Make the stores visible to other threads, and to the device, before the end of the copy is
       * reported to them. */
      _mm_sfence ();
      to += begin + n_lines * LINE_SIZE;
      from += begin + n_lines * LINE_SIZE;
      size -= begin + n_lines * LINE_SIZE;
    }

  memcpy (to, from, size);
}
#endif

#ifdef HAVE_CLDEMOTE
/* Moves each line to the cache that the processors share. The device reads lines there as fast as
 * in memory, and stores to caches are faster than stores that bypass them. */
__attribute__ ((target ("avx512f,cldemote"))) static void
demote_lines (guint8       *to,
              const guint8 *from,
              gsize         n_lines)
{
  for (; n_lines > 0; n_lines--, to += LINE_SIZE, from += LINE_SIZE)
    {
      _mm512_store_si512 ((__m512i *) to, _mm512_loadu_si512 (from));
      _cldemote (to);
    }
}
#endif

void
_gpu_transfer_copy_streaming (guint8       *to,
                              const guint8 *from,
                              gsize         size)
{
#ifdef HAVE_STREAMING_STORES
  copy_with (__builtin_cpu_supports ("avx512f") ? stream_lines_avx512 : stream_lines, to, from,
             size);
#else
  memcpy (to, from, size);
#endif
}

void
_gpu_transfer_copy_for_device (guint8       *to,
                               const guint8 *from,
                               gsize         size)
{
#ifdef HAVE_CLDEMOTE
  if (__builtin_cpu_supports ("avx512f") && __builtin_cpu_supports ("cldemote"))
    {
      copy_with (demote_lines, to, from, size);
      return;
    }
#endif

  _gpu_transfer_copy_streaming (to, from, size);
}
