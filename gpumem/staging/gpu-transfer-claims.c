/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The pieces of a copy. Threads take them without a lock: a thread that finds a lock taken sleeps,
 * and waking it takes longer than copying several pieces. */
#include "config.h"

#include "gpumem/staging/gpu-transfer-private.h"

void
_gpu_transfer_claims_init (GpuTransferClaims         *claims,
                           const GpuTransferChunking *chunking)
{
  claims->n_chunks = chunking->n_chunks;
  claims->first = g_new (gint, claims->n_chunks + 1);
  claims->n_left = g_new (gint, claims->n_chunks);
  claims->n_ready = 0;
  claims->next = 0;
  claims->first[0] = 0;

  for (guint i = 0; i < claims->n_chunks; i++)
    {
      GpuTransferBox box;

      _gpu_transfer_get_box (chunking, i, &box);
      claims->n_left[i] = _gpu_transfer_get_n_pieces (chunking, &box);
      claims->first[i + 1] = claims->first[i] + claims->n_left[i];
    }
}

void
_gpu_transfer_claims_clear (GpuTransferClaims *claims)
{
  g_free (claims->first);
  g_free (claims->n_left);
}

void
_gpu_transfer_claims_set_ready (GpuTransferClaims *claims,
                                guint              n_chunks)
{
  g_atomic_int_set (&claims->n_ready, claims->first[n_chunks]);
}

static guint
find_chunk (const GpuTransferClaims *claims,
            gint                     piece)
{
  guint low = 0, high = claims->n_chunks;

  while (high - low > 1)
    {
      guint middle = low + (high - low) / 2;

      if (claims->first[middle] <= piece)
        low = middle;
      else
        high = middle;
    }

  return low;
}

gboolean
_gpu_transfer_claims_take (GpuTransferClaims *claims,
                           guint             *chunk,
                           guint             *piece)
{
  gint next;

  do
    {
      next = g_atomic_int_get (&claims->next);
      if (next >= g_atomic_int_get (&claims->n_ready))
        return FALSE;
    }
  while (!g_atomic_int_compare_and_exchange (&claims->next, next, next + 1));

  *chunk = find_chunk (claims, next);
  *piece = next - claims->first[*chunk];

  return TRUE;
}

gboolean
_gpu_transfer_claims_end (GpuTransferClaims *claims,
                          guint              chunk)
{
  return g_atomic_int_dec_and_test (&claims->n_left[chunk]);
}

gboolean
_gpu_transfer_claims_has_piece (GpuTransferClaims *claims)
{
  return g_atomic_int_get (&claims->next) < g_atomic_int_get (&claims->n_ready);
}

gboolean
_gpu_transfer_claims_is_copied (GpuTransferClaims *claims,
                                guint              chunk)
{
  return g_atomic_int_get (&claims->n_left[chunk]) == 0;
}

guint
_gpu_transfer_claims_get_n_left (GpuTransferClaims *claims)
{
  return claims->first[claims->n_chunks] - g_atomic_int_get (&claims->next);
}

gboolean
_gpu_transfer_claims_is_all_ready (GpuTransferClaims *claims)
{
  return g_atomic_int_get (&claims->n_ready) == claims->first[claims->n_chunks];
}
