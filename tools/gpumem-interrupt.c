/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <glib-unix.h>
#include <signal.h>

#include "tools/gpumem-interrupt.h"

/* Commands run in the main thread without a main loop, so a separate thread handles the signals. */
struct _GpumemInterrupt
{
  GCancellable *cancellable;
  GMainContext *context;
  GMainLoop    *loop;
  GThread      *thread;
};

static gboolean
on_signal (gpointer data)
{
  GpumemInterrupt *interrupt = data;

  g_cancellable_cancel (interrupt->cancellable);
  return G_SOURCE_REMOVE;   /* the second Ctrl-C ends the process as usual */
}

static gpointer
watch (gpointer data)
{
  GpumemInterrupt *interrupt = data;

  g_main_loop_run (interrupt->loop);
  return NULL;
}

static GSource *
add_signal (GpumemInterrupt *interrupt,
            int              number)
{
  GSource *source = g_unix_signal_source_new (number);

  g_source_set_callback (source, on_signal, interrupt, NULL);
  g_source_attach (source, interrupt->context);
  return source;
}

static gboolean
on_quit (gpointer data)
{
  g_main_loop_quit (data);
  return G_SOURCE_REMOVE;
}

/* Makes the first Ctrl-C cancel @cancellable, until the returned structure is freed. */
GpumemInterrupt *
gpumem_interrupt_new (GCancellable *cancellable)
{
  GpumemInterrupt *interrupt = g_new0 (GpumemInterrupt, 1);
  g_autoptr (GSource) first = NULL;
  g_autoptr (GSource) second = NULL;

  interrupt->cancellable = g_object_ref (cancellable);
  interrupt->context = g_main_context_new ();
  interrupt->loop = g_main_loop_new (interrupt->context, FALSE);
  /* Handle the signals before the thread starts: a signal after the start must let the command
   * clean up before it ends. */
  first = add_signal (interrupt, SIGINT);
  second = add_signal (interrupt, SIGTERM);
  interrupt->thread = g_thread_try_new ("interrupt", watch, interrupt, NULL);
  if (interrupt->thread == NULL)
    {
      /* Without the thread, Ctrl-C ends the process as usual. */
      g_source_destroy (first);
      g_source_destroy (second);
    }
  return interrupt;
}

void
gpumem_interrupt_free (GpumemInterrupt *interrupt)
{
  g_autoptr (GSource) quit = g_idle_source_new ();

  if (interrupt->thread != NULL)
    {
      g_source_set_callback (quit, on_quit, interrupt->loop, NULL);
      g_source_attach (quit, interrupt->context);
      g_thread_join (interrupt->thread);
    }
  g_main_loop_unref (interrupt->loop);
  g_main_context_unref (interrupt->context);
  g_object_unref (interrupt->cancellable);
  g_free (interrupt);
}
