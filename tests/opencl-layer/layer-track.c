/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Tracks every handle from its creation to its last release. A released handle stays in the table
 * until the driver reuses its address for a new object, so that the layer can detect that a program
 * uses a released handle. The layer records a release before the driver performs it, and a new
 * handle after the driver creates it. If another thread's new handle has the address of a handle
 * that is being released, this order ensures that the new handle stays in the table.
 *
 * References that the driver holds do not count: a program may only use handles that it owns.
 */

#include "config.h"

#include "layer.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#include "gpumem-layer.h"

typedef struct
{
  gpointer handle;
  LayerKind kind;
  guint refs;
  guint64 serial;
  LayerCall call;           /* the call that created the object */
  GHashTable *args;         /* kernels: index of an argument -> LayerArg */
  guint n_maps;             /* memory: current mappings */
} LayerObject;

typedef struct
{
  gpointer handle;
  guint64 serial;
} LayerArg;

static const struct
{
  const char *name;
  int invalid;
  gboolean foreign;         /* the program may own handles that it did not create */
} kinds[LAYER_N_KINDS] = {
  [LAYER_CONTEXT] = { "context", CL_INVALID_CONTEXT, FALSE },
  [LAYER_QUEUE] = { "queue", CL_INVALID_COMMAND_QUEUE, FALSE },
  [LAYER_MEM] = { "mem", CL_INVALID_MEM_OBJECT, FALSE },
  [LAYER_EVENT] = { "event", CL_INVALID_EVENT, FALSE },
  [LAYER_PROGRAM] = { "program", CL_INVALID_PROGRAM, FALSE },
  [LAYER_KERNEL] = { "kernel", CL_INVALID_KERNEL, FALSE },
  [LAYER_SAMPLER] = { "sampler", CL_INVALID_SAMPLER, FALSE },
  [LAYER_DEVICE] = { "device", CL_INVALID_DEVICE, TRUE },
  [LAYER_SVM] = { "svm", CL_INVALID_VALUE, TRUE },
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t none_left = PTHREAD_COND_INITIALIZER;
static GHashTable *objects;
static GPtrArray *misuses;
static guint n_live[LAYER_N_KINDS];
static guint n_live_all;
static guint64 last_serial;

static void
object_free (gpointer data)
{
  LayerObject *object = data;

  g_clear_pointer (&object->args, g_hash_table_unref);
  g_free (object);
}

/* Caller holds the lock, here and in all functions up to layer_report_misuse(). */
static LayerObject *
find (gconstpointer handle)
{
  return objects != NULL ? g_hash_table_lookup (objects, handle) : NULL;
}

static void
count_live (LayerKind kind,
            int       change)
{
  n_live[kind] += change;
  n_live_all += change;
  if (n_live_all == 0)
    pthread_cond_broadcast (&none_left);
}

static void
add (const LayerCall *call,
     LayerKind        kind,
     gpointer         handle)
{
  LayerObject *object = find (handle);

  if (object != NULL && object->refs > 0 && object->kind == kind)
    {
      object->refs++;
      return;
    }
  if (objects == NULL)
    objects = g_hash_table_new_full (NULL, NULL, NULL, object_free);

  object = g_new0 (LayerObject, 1);
  object->handle = handle;
  object->kind = kind;
  object->refs = 1;
  object->serial = ++last_serial;
  object->call = *call;
  g_hash_table_replace (objects, handle, object);
  count_live (kind, 1);
}

static void G_GNUC_PRINTF (3, 0)
report_misuse_valist (LayerCall  *call,
                      int         code,
                      const char *format,
                      va_list     args)
{
  g_autoptr (GString) line = g_string_new (NULL);

  g_string_printf (line, "misuse: %scall %u (%s): ", call->can_fail ? "" : "after ",
                   call->number, layer_names[call->function]);
  g_string_append_vprintf (line, format, args);
  fprintf (stderr, "gpumem-layer: %s\n", line->str);

  if (misuses == NULL)
    misuses = g_ptr_array_new_with_free_func (g_free);
  g_ptr_array_add (misuses, g_strdup (line->str));
  if (call->misuse == CL_SUCCESS)
    call->misuse = code;
}

static void G_GNUC_PRINTF (3, 4)
report_misuse (LayerCall  *call,
               int         code,
               const char *format,
               ...)
{
  va_list args;

  va_start (args, format);
  report_misuse_valist (call, code, format, args);
  va_end (args);
}

static void
report_released (LayerCall         *call,
                 int                code,
                 const LayerObject *object)
{
  report_misuse (call, code, "%s %p, from call %u (%s), was released", kinds[object->kind].name,
                 object->handle, object->call.number, layer_names[object->call.function]);
}

/* Returns the object, or NULL if the call is rejected or the handle is not tracked. The driver, not
 * the layer, checks NULL handles. If @handle is an SVM pointer, a released object of another kind
 * at the same address is no proof of misuse, because the address may be in use again. */
static LayerObject *
check (LayerCall    *call,
       LayerKind     kind,
       gconstpointer handle,
       int           code)
{
  LayerObject *object = find (handle);

  if (handle == NULL)
    return NULL;
  if (object == NULL || (object->kind != kind && object->refs == 0))
    {
      if (!kinds[kind].foreign)
        report_misuse (call, code, "%p is no %s", handle, kinds[kind].name);
      return NULL;
    }
  if (object->kind != kind)
    {
      report_misuse (call, code, "%p is a %s, no %s", handle, kinds[object->kind].name,
                     kinds[kind].name);
      return NULL;
    }
  if (object->refs == 0)
    {
      report_released (call, code, object);
      return NULL;
    }
  return object;
}

/* Finds the object whose handle equals the bytes of a kernel argument. The bytes may also be data,
 * because the layer does not know the type of the argument. */
static LayerObject *
find_arg (gsize         size,
          gconstpointer value)
{
  gpointer handle;
  LayerObject *object;

  if (value == NULL || size != sizeof handle)
    return NULL;
  memcpy (&handle, value, size);
  object = handle != NULL ? find (handle) : NULL;
  if (object == NULL || (object->kind != LAYER_MEM && object->kind != LAYER_SAMPLER))
    return NULL;
  return object;
}

static int
compare_serials (gconstpointer a,
                 gconstpointer b)
{
  const LayerObject *first = *(LayerObject *const *) a;
  const LayerObject *second = *(LayerObject *const *) b;

  return first->serial < second->serial ? -1 : first->serial > second->serial;
}

static GPtrArray *
list_live (void)
{
  GPtrArray *live = g_ptr_array_new ();
  GHashTableIter iter;
  gpointer object;

  if (objects != NULL)
    {
      g_hash_table_iter_init (&iter, objects);
      while (g_hash_table_iter_next (&iter, NULL, &object))
        if (((LayerObject *) object)->refs > 0)
          g_ptr_array_add (live, object);
    }
  g_ptr_array_sort (live, compare_serials);
  return live;
}

/* This function and all functions below except is_mapped() take the lock. */
void
layer_report_misuse (LayerCall  *call,
                     int         code,
                     const char *format,
                     ...)
{
  va_list args;

  pthread_mutex_lock (&lock);
  va_start (args, format);
  report_misuse_valist (call, code, format, args);
  va_end (args);
  pthread_mutex_unlock (&lock);
}

void
layer_track (const LayerCall *call,
             LayerKind        kind,
             gpointer         handle)
{
  if (handle == NULL)
    return;
  pthread_mutex_lock (&lock);
  add (call, kind, handle);
  pthread_mutex_unlock (&lock);
}

void
layer_track_list (const LayerCall *call,
                  LayerKind        kind,
                  guint            n,
                  gpointer         handles)
{
  for (guint i = 0; i < n; i++)
    layer_track (call, kind, ((gpointer *) handles)[i]);
}

void
layer_use (LayerCall    *call,
           LayerKind     kind,
           gconstpointer handle)
{
  pthread_mutex_lock (&lock);
  check (call, kind, handle, kinds[kind].invalid);
  pthread_mutex_unlock (&lock);
  layer_use_external (call, kind, handle);
}

void
layer_use_list (LayerCall    *call,
                LayerKind     kind,
                guint         n,
                gconstpointer handles)
{
  gboolean waits = kind == LAYER_EVENT && call->function != LAYER_clWaitForEvents;
  int code = waits ? CL_INVALID_EVENT_WAIT_LIST : kinds[kind].invalid;

  pthread_mutex_lock (&lock);
  for (guint i = 0; handles != NULL && i < n; i++)
    check (call, kind, ((gconstpointer const *) handles)[i], code);
  pthread_mutex_unlock (&lock);
  for (guint i = 0; handles != NULL && i < n; i++)
    layer_use_external (call, kind, ((gconstpointer const *) handles)[i]);
}

void
layer_retain (LayerCall *call,
              LayerKind  kind,
              gpointer   handle)
{
  LayerObject *object;

  pthread_mutex_lock (&lock);
  object = check (call, kind, handle, kinds[kind].invalid);
  if (object != NULL)
    object->refs++;
  pthread_mutex_unlock (&lock);
}

void
layer_map (gpointer mem)
{
  LayerObject *object;

  pthread_mutex_lock (&lock);
  object = find (mem);
  if (object != NULL)
    object->n_maps++;
  pthread_mutex_unlock (&lock);
}

/* Counts an unmap. If the call fails before it reaches the driver, the mapping still exists. */
void
layer_unmap (LayerCall *call,
             gpointer   mem)
{
  LayerObject *object;

  pthread_mutex_lock (&lock);
  object = call->fault == CL_SUCCESS ? find (mem) : NULL;
  if (object != NULL && object->refs > 0 && object->n_maps == 0)
    report_misuse (call, CL_INVALID_VALUE, "mem %p is not mapped", mem);
  else if (object != NULL && object->refs > 0)
    object->n_maps--;
  pthread_mutex_unlock (&lock);
}

/* Returns whether the memory is mapped at its last release. If so, reports the release as misuse,
 * because the effect of such a release depends on the driver. After a fault, returns FALSE, because
 * the fault may have prevented the unmap. Caller holds the lock. */
static gboolean
is_mapped (LayerCall   *call,
           LayerObject *object)
{
  if (object->n_maps == 0 || object->refs > 1 || layer_has_failed ())
    return FALSE;

  report_misuse (call, CL_INVALID_OPERATION, "mem %p, from call %u (%s), is mapped",
                 object->handle, object->call.number, layer_names[object->call.function]);

  return TRUE;
}

void
layer_release (LayerCall *call,
               LayerKind  kind,
               gpointer   handle)
{
  LayerObject *object;

  pthread_mutex_lock (&lock);
  object = check (call, kind, handle, kinds[kind].invalid);
  if (object != NULL && !is_mapped (call, object) && --object->refs == 0)
    count_live (kind, -1);
  if (object == NULL && kind == LAYER_SVM && call->misuse == CL_SUCCESS)
    report_misuse (call, CL_INVALID_VALUE, "%p is no svm", handle);
  pthread_mutex_unlock (&lock);
}

/* Undoes layer_release(). Called if the driver rejects the release. */
void
layer_unrelease (LayerKind kind,
                 gpointer  handle)
{
  LayerObject *object;

  pthread_mutex_lock (&lock);
  object = find (handle);
  if (object != NULL && object->kind == kind && object->refs++ == 0)
    count_live (kind, 1);
  pthread_mutex_unlock (&lock);
}

void
layer_use_arg (LayerCall    *call,
               gsize         size,
               gconstpointer value)
{
  LayerObject *object;

  pthread_mutex_lock (&lock);
  object = find_arg (size, value);
  if (object != NULL && object->refs == 0)
    report_released (call, kinds[object->kind].invalid, object);
  pthread_mutex_unlock (&lock);
}

void
layer_note_arg (gpointer      kernel,
                guint         index,
                gsize         size,
                gconstpointer value)
{
  LayerObject *owner, *object;
  LayerArg *arg;

  pthread_mutex_lock (&lock);
  owner = find (kernel);
  object = find_arg (size, value);
  if (owner != NULL && owner->args == NULL)
    owner->args = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  if (owner != NULL && object != NULL)
    {
      arg = g_new (LayerArg, 1);
      arg->handle = object->handle;
      arg->serial = object->serial;
      g_hash_table_replace (owner->args, GUINT_TO_POINTER (index), arg);
    }
  else if (owner != NULL)
    g_hash_table_remove (owner->args, GUINT_TO_POINTER (index));
  pthread_mutex_unlock (&lock);
}

void
layer_copy_args (gpointer from,
                 gpointer to)
{
  LayerObject *source, *copy;
  GHashTableIter iter;
  gpointer index, arg;

  pthread_mutex_lock (&lock);
  source = find (from);
  copy = find (to);
  if (source != NULL && copy != NULL && source->args != NULL)
    {
      copy->args = g_hash_table_new_full (NULL, NULL, NULL, g_free);
      g_hash_table_iter_init (&iter, source->args);
      while (g_hash_table_iter_next (&iter, &index, &arg))
        g_hash_table_replace (copy->args, index, g_memdup2 (arg, sizeof (LayerArg)));
    }
  pthread_mutex_unlock (&lock);
}

/* Checks that the arguments of a kernel are alive, because a kernel holds no references to them
 * (see clSetKernelArg()). */
void
layer_use_args (LayerCall    *call,
                gconstpointer kernel)
{
  g_autoptr (GPtrArray) mems = g_ptr_array_new ();
  LayerObject *owner;
  GHashTableIter iter;
  gpointer index, data;

  pthread_mutex_lock (&lock);
  owner = find (kernel);
  if (owner != NULL && owner->args != NULL)
    {
      g_hash_table_iter_init (&iter, owner->args);
      while (g_hash_table_iter_next (&iter, &index, &data))
        {
          LayerArg *arg = data;
          LayerObject *object = find (arg->handle);

          if (object == NULL || object->serial != arg->serial || object->refs == 0)
            report_misuse (call, CL_INVALID_KERNEL_ARGS, "argument %u, %p, was released",
                           GPOINTER_TO_UINT (index), arg->handle);
          else if (object->kind == LAYER_MEM)
            g_ptr_array_add (mems, arg->handle);
        }
    }
  pthread_mutex_unlock (&lock);
  for (guint i = 0; i < mems->len; i++)
    layer_use_external (call, LAYER_MEM, mems->pdata[i]);
}

static gboolean
is_pending (cl_event event)
{
  cl_int status = CL_COMPLETE;

  layer_target.clGetEventInfo (event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status,
                               NULL);
  return status > CL_COMPLETE;
}

/* Makes the driver behave like one whose device was lost: such a device runs nothing and uses no
 * memory. Does not wait if a user event is pending, because this event may hold the work back. */
void
layer_end_work (void)
{
  g_autoptr (GPtrArray) queues = g_ptr_array_new ();
  gboolean may_block = FALSE;
  GHashTableIter iter;
  gpointer value;

  pthread_mutex_lock (&lock);
  if (objects != NULL)
    g_hash_table_iter_init (&iter, objects);
  while (objects != NULL && g_hash_table_iter_next (&iter, NULL, &value))
    {
      LayerObject *object = value;

      if (object->refs > 0 && object->call.function == LAYER_clCreateUserEvent)
        may_block |= is_pending (object->handle);
      else if (object->refs > 0 && object->kind == LAYER_QUEUE &&
               layer_target.clRetainCommandQueue (object->handle) == CL_SUCCESS)
        g_ptr_array_add (queues, object->handle);
    }
  pthread_mutex_unlock (&lock);
  for (guint i = 0; i < queues->len; i++)
    {
      if (!may_block)
        layer_target.clFinish (queues->pdata[i]);
      layer_target.clReleaseCommandQueue (queues->pdata[i]);
    }
}

/* Gives threads of the program time to release their last handles. */
guint
layer_wait_for_none (guint milliseconds)
{
  struct timespec end;
  int timed_out = 0;
  guint n;

  clock_gettime (CLOCK_REALTIME, &end);
  end.tv_sec += milliseconds / 1000;
  end.tv_nsec += (milliseconds % 1000) * 1000000L;
  if (end.tv_nsec >= 1000000000L)
    {
      end.tv_sec++;
      end.tv_nsec -= 1000000000L;
    }

  pthread_mutex_lock (&lock);
  while (n_live_all > 0 && timed_out == 0)
    timed_out = pthread_cond_timedwait (&none_left, &lock, &end);
  n = n_live_all;
  pthread_mutex_unlock (&lock);
  return n;
}

guint
gpumem_layer_get_live (const char *kind)
{
  guint n = kind[0] == '\0' ? 0 : G_MAXUINT;

  pthread_mutex_lock (&lock);
  for (guint i = 0; i < LAYER_N_KINDS; i++)
    {
      if (kind[0] == '\0')
        n += n_live[i];
      else if (g_strcmp0 (kind, kinds[i].name) == 0)
        n = n_live[i];
    }
  pthread_mutex_unlock (&lock);
  return n;
}

guint
gpumem_layer_get_misuse (void)
{
  guint n;

  pthread_mutex_lock (&lock);
  n = misuses != NULL ? misuses->len : 0;
  pthread_mutex_unlock (&lock);
  return n;
}

void
layer_report (FILE    *file,
              gboolean with_misuse)
{
  const char *prefix = file == stderr ? "gpumem-layer: " : "";
  g_autoptr (GPtrArray) live = NULL;

  if (with_misuse)
    layer_report_fault (file);
  pthread_mutex_lock (&lock);
  for (guint i = 0; with_misuse && misuses != NULL && i < misuses->len; i++)
    fprintf (file, "%s%s\n", prefix, (const char *) misuses->pdata[i]);
  live = list_live ();
  for (guint i = 0; i < live->len; i++)
    {
      const LayerObject *object = live->pdata[i];

      fprintf (file, "%sleak: %s %p, %u reference%s, from call %u (%s)\n", prefix,
               kinds[object->kind].name, object->handle, object->refs,
               object->refs == 1 ? "" : "s", object->call.number,
               layer_names[object->call.function]);
    }
  fprintf (file, "%s%u leaked, %u misused\n", prefix, live->len,
           misuses != NULL ? misuses->len : 0);
  pthread_mutex_unlock (&lock);
}
