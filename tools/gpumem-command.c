/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <stdlib.h>

#include "tools/gpumem-command.h"
#include "tools/gpumem-terminal.h"

/* This entry only exists so that --help lists the option. */
static const GOptionEntry help_entries[] = {
  { "help", 'h', 0, G_OPTION_ARG_NONE, NULL, "Show this help", NULL },
  { NULL, 0, 0, 0, NULL, NULL, NULL }
};

static gboolean
asks_for_help (char **arguments)
{
  for (guint i = 1; arguments[i] != NULL && !g_str_equal (arguments[i], "--"); i++)
    if (g_str_equal (arguments[i], "--help") || g_str_equal (arguments[i], "-h"))
      return TRUE;
  return FALSE;
}

void
gpumem_command_print_help (const char *help)
{
  g_autofree char *wrapped = gpumem_terminal_wrap (help, gpumem_terminal_width ());

  g_print ("%s", wrapped);
}

/* Returns: (transfer full): the message without the names of C functions at its start. The library
 * and the drivers add these names, which mean nothing to users of the command */
char *
gpumem_command_plain (const char *message)
{
  static GRegex *regex;

  if (regex == NULL)
    regex = g_regex_new ("\\b(?:gpu_[a-z0-9_]+|(?:cu|cl|nvml|nvrtc)[A-Z]\\w*|dlopen): ",
                         0, 0, NULL);
  return g_regex_replace_literal (regex, message, -1, 0, "", 0, NULL);
}

/* Prints @text to standard error. On a terminal, wraps the lines between words. */
static void
print_error (const char *text)
{
  const guint width = gpumem_terminal_error_width ();
  g_autofree char *plain = gpumem_command_plain (text);
  g_autofree char *wrapped = width > 0 ? gpumem_terminal_wrap (plain, width) : NULL;

  if (wrapped != NULL)
    g_printerr ("%s", wrapped);
  else
    g_printerr ("%s\n", plain);
}

static void
print_help (GOptionContext *context)
{
  g_autofree char *help = NULL;

  g_option_context_set_help_enabled (context, FALSE);
  g_option_context_add_main_entries (context, help_entries, NULL);
  help = g_option_context_get_help (context, TRUE, NULL);
  gpumem_command_print_help (help);
}

/* Returns whether the option @name was given. */
static gboolean
is_set (const GOptionEntry *entries,
        const char         *name)
{
  for (; entries->long_name != NULL; entries++)
    if (g_str_equal (entries->long_name, name))
      return *(const gboolean *) entries->arg_data;
  return FALSE;
}

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
  if (asks_for_help (arguments))
    {
      print_help (context);
      exit (GPUMEM_EXIT_OK);
    }
  if (!g_option_context_parse_strv (context, &arguments, &error))
    {
      gpumem_command_usage (command, "%s", error->message);
      return FALSE;
    }
  if (!is_set (entries, "json") || !is_set (entries, "csv"))
    return TRUE;
  gpumem_command_usage (command, "--json and --csv cannot be used together");
  return FALSE;
}

/* Prints an error about the command line. Returns: the exit status for such errors */
int
gpumem_command_usage (const GpumemCommand *command,
                      const char          *format,
                      ...)
{
  g_autofree char *message = NULL;
  g_autofree char *line = NULL;
  va_list arguments;

  va_start (arguments, format);
  message = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  line = g_strdup_printf ("gpumem %s: %s", command->name, message);
  print_error (line);
  g_printerr ("Try 'gpumem %s --help'.\n", command->name);
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
gpumem_command_print_device (GpuDevice *device)
{
  g_autofree char *title = g_strdup_printf ("%s: %s, driver %s", gpu_device_get_id (device),
                                            gpu_device_get_name (device),
                                            gpu_device_get_driver_version (device));
  g_autofree char *wrapped = gpumem_terminal_wrap (title, gpumem_terminal_width ());

  g_print ("%s%s%s", gpumem_style_begin (GPUMEM_STYLE_TITLE), wrapped,
           gpumem_style_end (GPUMEM_STYLE_TITLE));
}

void
gpumem_command_wrote (const char *path,
                      gboolean    data)
{
  g_autofree char *name = g_filename_display_name (path);

  if (data)
    g_printerr ("wrote %s\n", name);
  else
    g_print ("wrote %s\n", name);
}

void
gpumem_complain (const char *format,
                 ...)
{
  g_autofree char *message = NULL;
  g_autofree char *line = NULL;
  va_list arguments;

  va_start (arguments, format);
  message = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  line = g_strdup_printf ("gpumem: %s", message);
  print_error (line);
}
