/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copies with stores that bypass the caches of the processor. On an H200, a copy engine reads lines
 * that several processors have just written to their caches at half the speed of memory. */
#include "config.h"

#include <string.h>

#if defined __x86_64__ && defined __GNUC__
#include <immintrin.h>
#define HAVE_STREAMING_STORES
#endif

#include "gpumem/staging/gpu-transfer-private.h"

#define LINE_SIZE 64

/* Smaller copies are faster with memcpy(), in bytes. */
#define MIN_SIZE 4096

#ifdef HAVE_STREAMING_STORES
static void
copy_lines (guint8       *to,
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
copy_lines_avx512 (guint8       *to,
                   const guint8 *from,
                   gsize         n_lines)
{
  for (; n_lines > 0; n_lines--, to += LINE_SIZE, from += LINE_SIZE)
    _mm512_stream_si512 ((__m512i *) to, _mm512_loadu_si512 (from));
}
#endif

void
_gpu_transfer_copy_streaming (guint8       *to,
                              const guint8 *from,
                              gsize         size)
{
#ifdef HAVE_STREAMING_STORES
  const gsize begin = -(guintptr) to % LINE_SIZE;

  if (size >= MIN_SIZE)
    {
      const gsize n_lines = (size - begin) / LINE_SIZE;

      memcpy (to, from, begin);
      to += begin;
      from += begin;
      (__builtin_cpu_supports ("avx512f") ? copy_lines_avx512 : copy_lines) (to, from, n_lines);
      /* Make the stores visible to other threads, and to the device, before the end of the copy is
       * reported to them. */
      _mm_sfence ();
      to += n_lines * LINE_SIZE;
      from += n_lines * LINE_SIZE;
      size -= begin + n_lines * LINE_SIZE;
    }
#endif

  memcpy (to, from, size);
}
