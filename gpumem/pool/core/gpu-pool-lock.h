/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Locks that are held for tens of nanoseconds. Putting a thread to sleep takes a hundred times as
 * long, so a waiting thread first spins for a while, and pauses longer and longer between two
 * spins. */
#pragma once

#include <glib.h>
#include <pthread.h>

G_BEGIN_DECLS

typedef struct
{
  pthread_mutex_t mutex;
} GpuPoolLock;

static inline void
_gpu_pool_lock_init (GpuPoolLock *lock)
{
  pthread_mutex_init (&lock->mutex, NULL);
}

static inline void
_gpu_pool_lock_clear (GpuPoolLock *lock)
{
  pthread_mutex_destroy (&lock->mutex);
}

static inline gboolean
_gpu_pool_try_lock (GpuPoolLock *lock)
{
  return pthread_mutex_trylock (&lock->mutex) == 0;
}

/* Called if another thread holds the lock. */
void _gpu_pool_lock_wait (GpuPoolLock *lock);

static inline void
_gpu_pool_lock (GpuPoolLock *lock)
{
  if (G_UNLIKELY (!_gpu_pool_try_lock (lock)))
    _gpu_pool_lock_wait (lock);
}

static inline void
_gpu_pool_unlock (GpuPoolLock *lock)
{
  pthread_mutex_unlock (&lock->mutex);
}

G_END_DECLS
