/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Locks held for some tens of nanoseconds: a GMutex takes twice as long where nobody else wants it,
 * and puts threads to sleep where the other one is about to be done. */
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
  pthread_mutexattr_t attributes;

  pthread_mutexattr_init (&attributes);
#ifdef PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP
  pthread_mutexattr_settype (&attributes, PTHREAD_MUTEX_ADAPTIVE_NP);
#endif
  pthread_mutex_init (&lock->mutex, &attributes);
  pthread_mutexattr_destroy (&attributes);
}

static inline void
_gpu_pool_lock_clear (GpuPoolLock *lock)
{
  pthread_mutex_destroy (&lock->mutex);
}

static inline void
_gpu_pool_lock (GpuPoolLock *lock)
{
  pthread_mutex_lock (&lock->mutex);
}

static inline gboolean
_gpu_pool_try_lock (GpuPoolLock *lock)
{
  return pthread_mutex_trylock (&lock->mutex) == 0;
}

static inline void
_gpu_pool_unlock (GpuPoolLock *lock)
{
  pthread_mutex_unlock (&lock->mutex);
}

G_END_DECLS
