/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Reports the synchronization inside GLib to the thread sanitizer. GLib is built without the
 * sanitizer and has its own locks, so the sanitizer sees neither the locks nor the order of
 * accesses that the locks enforce.
 *
 * This file is linked into the programs of a build with -fsanitize=thread. Each function overrides
 * the GLib function of the same name for the program and for all libraries except GLib. The
 * sanitizer treats each lock as a mutex, and so it also reports locks that are taken in different
 * orders.
 */
#include "config.h"

#include <dlfcn.h>
#include <pthread.h>
#include <gio/gio.h>
#include <sanitizer/tsan_interface.h>

#undef g_object_unref
#undef g_once_init_enter
#undef g_once_init_leave

#define REAL(name) ({ static gpointer real_##name; \
                      (__typeof__ (&name)) find (&real_##name, #name); })

static gpointer
find (gpointer   *place,
      const char *name)
{
  gpointer function = __atomic_load_n (place, __ATOMIC_RELAXED);

  if (function == NULL)
    {
      function = dlsym (RTLD_NEXT, name);
      __atomic_store_n (place, function, __ATOMIC_RELAXED);
    }

  return function;
}

/* Makes GLib allocate its private lock of error domains before there are threads. */
static void __attribute__ ((constructor))
use_error_domains (void)
{
  g_error_free (g_error_new_literal (G_FILE_ERROR, G_FILE_ERROR_FAILED, ""));
}

/* --- locks ------------------------------------------------------------------ */

void
g_mutex_lock (GMutex *mutex)
{
  __tsan_mutex_pre_lock (mutex, 0);
  REAL (g_mutex_lock) (mutex);
  __tsan_mutex_post_lock (mutex, 0, 0);
}

gboolean
g_mutex_trylock (GMutex *mutex)
{
  gboolean locked;

  __tsan_mutex_pre_lock (mutex, __tsan_mutex_try_lock);
  locked = REAL (g_mutex_trylock) (mutex);
  __tsan_mutex_post_lock (mutex,
                          locked ? __tsan_mutex_try_lock : __tsan_mutex_try_lock_failed, 0);

  return locked;
}

void
g_mutex_unlock (GMutex *mutex)
{
  __tsan_mutex_pre_unlock (mutex, 0);
  REAL (g_mutex_unlock) (mutex);
  __tsan_mutex_post_unlock (mutex, 0);
}

void
g_mutex_clear (GMutex *mutex)
{
  __tsan_mutex_destroy (mutex, 0);
  REAL (g_mutex_clear) (mutex);
}

static void
let_go (GMutex *mutex)
{
  __tsan_mutex_pre_unlock (mutex, 0);
  __tsan_mutex_post_unlock (mutex, 0);
}

static void
have_again (GMutex *mutex)
{
  __tsan_mutex_pre_lock (mutex, 0);
  __tsan_mutex_post_lock (mutex, 0, 0);
}

void
g_cond_wait (GCond  *cond,
             GMutex *mutex)
{
  let_go (mutex);
  REAL (g_cond_wait) (cond, mutex);
  have_again (mutex);
}

gboolean
g_cond_wait_until (GCond  *cond,
                   GMutex *mutex,
                   gint64  end_time)
{
  gboolean in_time;

  let_go (mutex);
  in_time = REAL (g_cond_wait_until) (cond, mutex, end_time);
  have_again (mutex);

  return in_time;
}

void
g_rw_lock_reader_lock (GRWLock *lock)
{
  __tsan_mutex_pre_lock (lock, __tsan_mutex_read_lock);
  REAL (g_rw_lock_reader_lock) (lock);
  __tsan_mutex_post_lock (lock, __tsan_mutex_read_lock, 0);
}

void
g_rw_lock_reader_unlock (GRWLock *lock)
{
  __tsan_mutex_pre_unlock (lock, __tsan_mutex_read_lock);
  REAL (g_rw_lock_reader_unlock) (lock);
  __tsan_mutex_post_unlock (lock, __tsan_mutex_read_lock);
}

void
g_rw_lock_writer_lock (GRWLock *lock)
{
  __tsan_mutex_pre_lock (lock, 0);
  REAL (g_rw_lock_writer_lock) (lock);
  __tsan_mutex_post_lock (lock, 0, 0);
}

void
g_rw_lock_writer_unlock (GRWLock *lock)
{
  __tsan_mutex_pre_unlock (lock, 0);
  REAL (g_rw_lock_writer_unlock) (lock);
  __tsan_mutex_post_unlock (lock, 0);
}

/* --- once: the macros that call these functions first read the location atomically --- */

gboolean
g_once_init_enter (volatile void *location)
{
  gboolean is_first = REAL (g_once_init_enter) (location);

  if (!is_first)
    __tsan_acquire ((gpointer) location);

  return is_first;
}

void
g_once_init_leave (volatile void *location,
                   gsize          result)
{
  __tsan_release ((gpointer) location);
  REAL (g_once_init_leave) (location, result);
}

/* GLib creates the class on the first call. */
gpointer
g_type_class_ref (GType type)
{
  gpointer klass = REAL (g_type_class_ref) (type);

  __tsan_release (klass);
  __tsan_acquire (klass);

  return klass;
}

/* --- data passed to another thread ------------------------------------------- */

typedef struct
{
  GFunc    func;
  gpointer user_data;
} PoolFunc;

static void
run_in_pool (gpointer data,
             gpointer user_data)
{
  PoolFunc *pool_func = user_data;

  __tsan_acquire (data);
  pool_func->func (data, pool_func->user_data);
}

GThreadPool *
g_thread_pool_new (GFunc      func,
                   gpointer   user_data,
                   gint       max_threads,
                   gboolean   exclusive,
                   GError   **error)
{
  PoolFunc *pool_func = g_new (PoolFunc, 1);

  pool_func->func = func;
  pool_func->user_data = user_data;

  return REAL (g_thread_pool_new) (run_in_pool, pool_func, max_threads, exclusive, error);
}

gboolean
g_thread_pool_push (GThreadPool  *pool,
                    gpointer      data,
                    GError      **error)
{
  __tsan_release (data);

  return REAL (g_thread_pool_push) (pool, data, error);
}

/* Orders the uses of main contexts (see g_source_attach()) before the last unref of a context,
 * which frees data that other threads have used. The lock is recursive, because a context may free
 * objects that hold a reference to another context. */
static pthread_mutex_t contexts_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

void
g_main_context_unref (GMainContext *context)
{
  pthread_mutex_lock (&contexts_lock);
  REAL (g_main_context_unref) (context);
  pthread_mutex_unlock (&contexts_lock);
}

/* Not declared in the sanitizer's header. */
void AnnotateIgnoreReadsBegin  (const char *file, int line);
void AnnotateIgnoreReadsEnd    (const char *file, int line);
void AnnotateIgnoreWritesBegin (const char *file, int line);
void AnnotateIgnoreWritesEnd   (const char *file, int line);

/* Here GLib may grow the tables of the context under a lock that the sanitizer does not see, so the
 * sanitizer must ignore these accesses. To wake the thread that runs the context, GLib writes to a
 * pipe. The sanitizer sees the pipe, and so learns the order of the two threads. */
guint
g_source_attach (GSource      *source,
                 GMainContext *context)
{
  g_autoptr (GMainContext) held = context != NULL ? g_main_context_ref (context) : NULL;
  guint id;

  AnnotateIgnoreReadsBegin (__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin (__FILE__, __LINE__);
  id = REAL (g_source_attach) (source, context);
  AnnotateIgnoreWritesEnd (__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd (__FILE__, __LINE__);

  return id;
}

/* Replaces an object that GLib would allocate in the thread that attaches a source and free in the
 * thread that runs its context. The sanitizer sees the order of these threads only if the second
 * thread is already waiting when GLib wakes it. */
typedef struct
{
  gatomicrefcount refs;
  GSourceFunc     func;
  gpointer        data;
  GDestroyNotify  notify;
} Callback;

static void
callback_ref (gpointer data)
{
  g_atomic_ref_count_inc (&((Callback *) data)->refs);
}

static void
callback_unref (gpointer data)
{
  Callback *callback = data;

  if (!g_atomic_ref_count_dec (&callback->refs))
    return;

  if (callback->notify != NULL)
    callback->notify (callback->data);

  g_free (callback);
}

static void
callback_get (gpointer     data,
              GSource     *source G_GNUC_UNUSED,
              GSourceFunc *func,
              gpointer    *user_data)
{
  Callback *callback = data;

  __tsan_acquire (callback);
  *func = callback->func;
  *user_data = callback->data;
}

void
g_source_set_callback (GSource        *source,
                       GSourceFunc     func,
                       gpointer        data,
                       GDestroyNotify  notify)
{
  static GSourceCallbackFuncs funcs = { callback_ref, callback_unref, callback_get };
  Callback *callback = g_new (Callback, 1);

  g_atomic_ref_count_init (&callback->refs);
  callback->func = func;
  callback->data = data;
  callback->notify = notify;
  __tsan_release (callback);
  g_source_set_callback_indirect (source, callback, &funcs);
}

void
g_async_queue_push (GAsyncQueue *queue,
                    gpointer     data)
{
  __tsan_release (queue);
  REAL (g_async_queue_push) (queue, data);
}

gpointer
g_async_queue_pop (GAsyncQueue *queue)
{
  gpointer data = REAL (g_async_queue_pop) (queue);

  __tsan_acquire (queue);

  return data;
}

/* --- memory of instances ------------------------------------------------------ */

/* The sanitizer reports these functions by their names in C, such as slice_free(). The suppression
 * of g_slice_free1() in tsan.supp therefore does not apply to them. It is for GLib's own function,
 * which frees, for example, list nodes under locks that the sanitizer does not see. */
gpointer slice_alloc  (gsize size) __asm__ ("g_slice_alloc");
gpointer slice_alloc0 (gsize size) __asm__ ("g_slice_alloc0");
void     slice_free   (gsize size, gpointer memory) __asm__ ("g_slice_free1");

gpointer
slice_alloc (gsize size)
{
  return g_malloc (size);
}

gpointer
slice_alloc0 (gsize size)
{
  return g_malloc0 (size);
}

void
slice_free (gsize    size G_GNUC_UNUSED,
            gpointer memory)
{
  g_free (memory);
}

/* --- reference counts -------------------------------------------------------- */

/* The layouts of GBytes, and of the first members of GPtrArray, in all GLib versions so far. */
typedef struct
{
  gconstpointer   data;
  gsize           size;
  gatomicrefcount refs;
} Bytes;

typedef struct
{
  gpointer       *pdata;
  guint           len;
  guint           n_allocated;
  gatomicrefcount refs;
} PtrArray;

gboolean
g_atomic_ref_count_dec (gatomicrefcount *refs)
{
  return __atomic_fetch_sub (refs, 1, __ATOMIC_ACQ_REL) == 1;
}

gboolean
g_atomic_ref_count_compare (gatomicrefcount *refs,
                            gint             value)
{
  return __atomic_load_n (refs, __ATOMIC_ACQUIRE) == value;
}

/* Drops a reference unless it is the last. Returns FALSE for the last reference. The acquire orders
 * GLib's cleanup after all uses by other threads. */
static gboolean
drop_one_of_many (guint *refs)
{
  guint n = __atomic_load_n (refs, __ATOMIC_ACQUIRE);

  while (n > 1)
    {
      if (__atomic_compare_exchange_n (refs, &n, n - 1, FALSE, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return TRUE;
    }

  return FALSE;
}

void
g_bytes_unref (GBytes *bytes)
{
  if (bytes != NULL && !drop_one_of_many ((guint *) &((Bytes *) bytes)->refs))
    REAL (g_bytes_unref) (bytes);
}

void
g_ptr_array_unref (GPtrArray *array)
{
  if (!drop_one_of_many ((guint *) &((PtrArray *) array)->refs))
    REAL (g_ptr_array_unref) (array);
}

/* Objects with toggle references, which bindings use, are left to GLib. */
void
g_object_unref (gpointer data)
{
  GObject *object = data;

  if (g_datalist_get_flags (&object->qdata) != 0
      || !drop_one_of_many ((guint *) &object->ref_count))
    REAL (g_object_unref) (object);
}
