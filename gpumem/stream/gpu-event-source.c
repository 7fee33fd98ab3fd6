/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/stream/gpu-event-private.h"

/* GObject does not notify an object when a handler is connected to one of its signals. So each main
 * context has a source, which checks at each iteration whether its events have handlers. An event
 * is in the list of the source until a handler is found or the event is disposed of. */

#define POLL_MSEC 10
#define POLL_USEC G_USEC_PER_SEC        /* duration of polling after another thread has added an
                                         * event */

struct _GpuEventSource
{
  GSource       parent;
  GMainContext *context;        /* no reference: the main context owns the source */
  GQueue        events;         /* of GpuEvent, by their links */
  gboolean      is_polling;     /* the main context polls, so it need not be woken */
  gboolean      is_fresh;       /* another thread has added an event since the last iteration */
  gint64        poll_until;     /* monotonic time */
};

static GMutex lock;             /* guards all sources and their lists */
static GHashTable *sources;     /* of GMainContext to GpuEventSource */

static gboolean
has_handler_locked (GpuEventSource *self)
{
  for (GList *l = self->events.head; l != NULL; l = l->next)
    if (_gpu_event_has_handler (l->data))
      return TRUE;

  return FALSE;
}

/* Returns the timeout of the source. It polls for a second after another thread has added an event,
 * because that thread may connect a handler while the main context sleeps. */
static int
get_timeout_locked (GpuEventSource *self)
{
  const gint64 now = g_get_monotonic_time ();

  if (self->is_fresh)
    self->poll_until = now + POLL_USEC;

  self->is_fresh = FALSE;
  self->is_polling = self->events.length > 0 && now < self->poll_until;

  return self->is_polling ? POLL_MSEC : -1;
}

static gboolean
source_prepare (GSource *source,
                int     *timeout)
{
  GpuEventSource *self = (GpuEventSource *) source;
  gboolean found;

  g_mutex_lock (&lock);
  found = has_handler_locked (self);
  *timeout = get_timeout_locked (self);
  g_mutex_unlock (&lock);

  return found;
}

static gboolean
source_check (GSource *source)
{
  GpuEventSource *self = (GpuEventSource *) source;
  gboolean found;

  g_mutex_lock (&lock);
  found = has_handler_locked (self);
  g_mutex_unlock (&lock);

  return found;
}

static void
unlink_locked (GpuEventSource *self,
               GList          *link)
{
  g_queue_unlink (&self->events, link);
  link->data = NULL;
}

/* Removes the first event with a handler from the list. */
static GpuEvent *
take_event (GpuEventSource *self)
{
  GpuEvent *event = NULL;

  g_mutex_lock (&lock);

  for (GList *l = self->events.head; l != NULL && event == NULL; l = l->next)
    if (_gpu_event_has_handler (l->data))
      {
        event = g_object_ref (l->data);
        unlink_locked (self, l);
        break;
      }

  g_mutex_unlock (&lock);

  return event;
}

static gboolean
source_dispatch (GSource     *source,
                 GSourceFunc  callback,
                 gpointer     user_data)
{
  GpuEvent *event;

  while ((event = take_event ((GpuEventSource *) source)) != NULL)
    {
      _gpu_event_watch (event);
      g_object_unref (event);
    }

  return G_SOURCE_CONTINUE;
}

static void
source_finalize (GSource *source)
{
  GpuEventSource *self = (GpuEventSource *) source;

  g_mutex_lock (&lock);

  if (g_hash_table_lookup (sources, self->context) == self)
    g_hash_table_remove (sources, self->context);

  g_mutex_unlock (&lock);
}

static GSourceFuncs source_funcs = { source_prepare, source_check, source_dispatch,
                                     source_finalize, NULL, NULL };

/* Attaches a source to @context and takes the lock. Calls functions of the main context before,
 * because they take its lock. If another thread has attached a source in the meantime, destroys the
 * new one. */
G_GNUC_NO_INLINE static GpuEventSource *
lock_new_source (GMainContext *context)
{
  GpuEventSource *self = (GpuEventSource *) g_source_new (&source_funcs, sizeof (GpuEventSource));
  GpuEventSource *found;

  self->context = context;
  g_queue_init (&self->events);
  g_source_set_name (&self->parent, "GpuEvent::completed");
  g_source_attach (&self->parent, context);

  g_mutex_lock (&lock);

  if (sources == NULL)
    sources = g_hash_table_new (NULL, NULL);

  found = g_hash_table_lookup (sources, context);

  if (found == NULL)
    {
      g_hash_table_insert (sources, context, self);
      g_source_unref (&self->parent);
      return self;
    }

  g_mutex_unlock (&lock);
  g_source_destroy (&self->parent);
  g_source_unref (&self->parent);
  g_mutex_lock (&lock);

  return found;
}

static GpuEventSource *
lock_source (GMainContext *context)
{
  GpuEventSource *self;

  g_mutex_lock (&lock);
  self = sources != NULL ? g_hash_table_lookup (sources, context) : NULL;

  if (G_LIKELY (self != NULL))
    return self;

  g_mutex_unlock (&lock);

  return lock_new_source (context);
}

GpuEventSource *
_gpu_event_source_add (GMainContext *context,
                       GList        *link)
{
  const gboolean is_owner = g_main_context_is_owner (context);
  GpuEventSource *self = lock_source (context);
  gboolean wakes = FALSE;

  g_queue_push_tail_link (&self->events, link);

  if (!is_owner)
    {
      wakes = !self->is_polling;
      self->is_fresh = TRUE;
      self->is_polling = TRUE;
    }

  g_mutex_unlock (&lock);

  if (wakes)
    g_main_context_wakeup (context);

  return self;
}

gboolean
_gpu_event_source_remove (GpuEventSource *self,
                          GList          *link)
{
  gboolean is_member;

  g_mutex_lock (&lock);
  is_member = link->data != NULL;

  if (is_member)
    unlink_locked (self, link);

  g_mutex_unlock (&lock);

  return is_member;
}
