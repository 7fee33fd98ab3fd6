/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reports misuse and leaks. */
#include "config.h"

#include <stdlib.h>
#include <unistd.h>

#include "cuda-driver.h"
#include "driver.h"

#define EXIT_BAD_STATE 99

static GString *misuses;
static GString *leaks;
static guint n_misuses;
static guint n_leaks;

G_GNUC_PRINTF (3, 0)
static void
add_line (GString    **text,
          const char  *what,
          const char  *format,
          va_list      arguments)
{
  g_autofree char *line = g_strdup_vprintf (format, arguments);

  if (*text == NULL)
    *text = g_string_new (NULL);
  g_string_append_printf (*text, "%s: %s\n", what, line);
  if (config.strict || config.leaks)
    g_printerr ("gpumem-cuda-driver: %s: %s\n", what, line);
}

CUresult
misuse (CUresult    code,
        const char *format,
        ...)
{
  const Call *call = call_current ();
  g_autofree char *what = g_strdup_printf ("misuse: call %u (%s)", call->number,
                                           call_names[call->function]);
  va_list arguments;

  va_start (arguments, format);
  add_line (&misuses, what, format, arguments);
  va_end (arguments);
  n_misuses++;
  if (config.strict)
    abort ();
  return code;
}

void
report_leak (const char *format,
             ...)
{
  va_list arguments;

  va_start (arguments, format);
  add_line (&leaks, "leak", format, arguments);
  va_end (arguments);
  n_leaks++;
}

static void
find_leaks (void)
{
  g_autoptr (GPtrArray) objects = object_list (N_OBJECT_KINDS, NULL);
  g_autoptr (GPtrArray) memories = memory_list (NULL);

  for (guint i = 0; i < config.n_devices && devices != NULL; i++)
    if (devices[i].primary_refs > 0)
      report_leak ("primary context of device %u, %u references", i, devices[i].primary_refs);
  for (guint i = 0; i < objects->len; i++)
    {
      const Object *object = objects->pdata[i];

      if (!object->hidden)
        report_leak ("%s %p, from call %u (%s)", object_kinds[object->kind],
                     (gconstpointer) object, object->number, call_names[object->function]);
    }
  for (guint i = 0; i < memories->len; i++)
    {
      const Memory *memory = memories->pdata[i];

      if (!memory_is_hidden (memory))
        report_leak ("%s 0x%" G_GINT64_MODIFIER "x, %" G_GUINT64_FORMAT
                     " bytes, from call %u (%s)", memory_kinds[memory->kind], memory->address,
                     memory->size, memory->number, call_names[memory->function]);
    }
}

static void
write_report (const char *path)
{
  FILE *file = fopen (path, "w");

  if (file == NULL)
    return;
  fault_report (file);
  fprintf (file, "%s%s%u leaked, %u misused\n", misuses != NULL ? misuses->str : "",
           leaks != NULL ? leaks->str : "", n_leaks, n_misuses);
  fclose (file);
}

guint
gpumem_cuda_driver_get_misuse (void)
{
  guint n;

  pthread_mutex_lock (&driver_lock);
  n = n_misuses;
  pthread_mutex_unlock (&driver_lock);
  return n;
}

guint
gpumem_cuda_driver_get_live (const char *kind)
{
  g_autoptr (GPtrArray) objects = NULL;
  g_autoptr (GPtrArray) memories = NULL;
  guint n = 0;

  pthread_mutex_lock (&driver_lock);
  objects = object_list (N_OBJECT_KINDS, NULL);
  memories = memory_list (NULL);
  for (guint i = 0; i < objects->len; i++)
    {
      const Object *object = objects->pdata[i];

      n += !object->hidden && (kind[0] == '\0' || g_str_equal (kind, object_kinds[object->kind]));
    }
  for (guint i = 0; i < memories->len; i++)
    {
      const Memory *memory = memories->pdata[i];

      n += !memory_is_hidden (memory) &&
           (kind[0] == '\0' || g_str_equal (kind, memory_kinds[memory->kind]));
    }
  pthread_mutex_unlock (&driver_lock);
  return n;
}

static gboolean
has_primary_context (void)
{
  gboolean has = FALSE;

  pthread_mutex_lock (&driver_lock);
  for (guint i = 0; i < config.n_devices && devices != NULL; i++)
    has = has || devices[i].primary_refs > 0;
  pthread_mutex_unlock (&driver_lock);
  return has;
}

/* Gives the library's threads time to free their last objects. Nothing joins these threads before
 * the program ends. */
static void
let_threads_free (void)
{
  guint n = 2000;

  while (n-- > 0 && (has_primary_context () || gpumem_cuda_driver_get_live ("") > 0))
    g_usleep (5000);
}

/* Runs after the destructors of the program and of the library. */
static void __attribute__ ((destructor))
report_at_exit (void)
{
  if (!call_is_ours ())
    return;
  if (config.leaks)
    let_threads_free ();
  pthread_mutex_lock (&driver_lock);
  if (config.leaks || config.report != NULL)
    find_leaks ();
  if (config.counts != NULL)
    call_write_counts (config.counts);
  if (config.report != NULL)
    write_report (config.report);
  pthread_mutex_unlock (&driver_lock);
  if ((config.leaks && n_leaks > 0) || n_misuses > 0)
    {
      fflush (NULL);
      _exit (EXIT_BAD_STATE);
    }
}
