/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/pool/core/gpu-pool-lock.h"

/* The number of spins, and the longest pause between two spins. All spins together take about ten
 * microseconds. */
#define MAX_SPINS  12
#define MAX_PAUSES 64

static inline void
pause_briefly (void)
{
#if defined (__x86_64__) || defined (__i386__)
  __builtin_ia32_pause ();
#elif defined (__aarch64__) || defined (__arm__)
  __asm__ volatile ("yield");
#else
  __atomic_signal_fence (__ATOMIC_SEQ_CST);
#endif
}

void
_gpu_pool_lock_wait (GpuPoolLock *lock)
{
  guint pauses = 1;

  for (guint spin = 0; spin < MAX_SPINS; spin++)
    {
      for (guint i = 0; i < pauses; i++)
        pause_briefly ();

      if (_gpu_pool_try_lock (lock))
        return;

      pauses = MIN (2 * pauses, MAX_PAUSES);
    }

  pthread_mutex_lock (&lock->mutex);
}
