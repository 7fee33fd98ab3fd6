/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "tools/gpumem-command.h"

/* Parses the options of @command into @entries; prints an error if they are invalid. */
gboolean
gpumem_command_parse (const GpumemCommand *command,
                      const GOptionEntry  *entries,
                      char               **arguments)
{
  g_autoptr (GOptionContext) context = g_option_context_new (command->parameters);
  g_autofree char *name = g_strdup_printf ("gpumem %s", command->name);
  g_autofree char *summary = g_strdup_printf ("%s.", command->summary);
  g_autoptr (GError) error = NULL;

  summary[0] = g_ascii_toupper (summary[0]);
  g_set_prgname (name);
  g_option_context_set_summary (context, summary);
  g_option_context_set_description (context, command->description);
  g_option_context_add_main_entries (context, entries, NULL);
  if (g_option_context_parse_strv (context, &arguments, &error))
    return TRUE;
  gpumem_command_usage (command, "%s", error->message);
  return FALSE;
}

/* Prints an error about the command line. Returns: the exit status for this. */
int
gpumem_command_usage (const GpumemCommand *command,
                      const char          *format,
                      ...)
{
  g_autofree char *message = NULL;
  va_list arguments;

  va_start (arguments, format);
  message = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  g_printerr ("gpumem %s: %s\nTry 'gpumem %s --help'.\n", command->name, message, command->name);
  return GPUMEM_EXIT_USAGE;
}

int
gpumem_command_end (gboolean whole,
                    gboolean failed)
{
  if (whole)
    return failed ? GPUMEM_EXIT_FAILED : GPUMEM_EXIT_OK;

  gpumem_complain ("interrupted");
  return GPUMEM_EXIT_INTERRUPTED;
}

void
gpumem_complain (const char *format,
                 ...)
{
  g_autofree char *message = NULL;
  va_list arguments;

  va_start (arguments, format);
  message = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  g_printerr ("gpumem: %s\n", message);
}
