/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tools/gpumem-command.h"

static const GpumemCommand *const commands[] = {
  &gpumem_devices_command,
  &gpumem_info_command,
  &gpumem_monitor_command,
  &gpumem_bandwidth_command,
  &gpumem_pool_command,
#ifdef HAVE_TOUR
  &gpumem_tour_command,
#endif
};

static void
print_usage (void)
{
  g_autoptr (GString) text = g_string_new (NULL);

  g_string_append (text, "Usage:\n  gpumem COMMAND [OPTION...]\n\n"
                   "List devices, watch their memory, measure copies and memory pools, test "
                   "computation.\n\nCommands:\n");
  for (guint i = 0; i < G_N_ELEMENTS (commands); i++)
    {
      g_autofree char *usage = g_strdup_printf ("%s %s", commands[i]->name,
                                                commands[i]->parameters);

      g_string_append_printf (text, "  %-18s  %s\n", usage, commands[i]->summary);
    }
  g_string_append (text, "\nOptions:\n"
                   "  -h, --help         show help; after a command, the help of that command\n"
                   "  --version          show the version\n");
  gpumem_command_print_help (text->str);
}

static const GpumemCommand *
find_command (const char *name)
{
  for (guint i = 0; i < G_N_ELEMENTS (commands); i++)
    if (g_str_equal (commands[i]->name, name))
      return commands[i];
  return NULL;
}

static int
usage_error (const char *word)
{
  if (word == NULL)
    gpumem_complain ("missing command");
  else if (word[0] == '-')
    gpumem_complain ("unknown option '%s'", word);
  else
    gpumem_complain ("unknown command '%s'", word);
  g_printerr ("Commands:");
  for (guint i = 0; i < G_N_ELEMENTS (commands); i++)
    g_printerr (" %s", commands[i]->name);
  g_printerr ("\nTry 'gpumem --help'.\n");
  return GPUMEM_EXIT_USAGE;
}

/* The reason why output was lost: stdio only keeps that it was. */
static int output_error;

/* The handler of g_print(). Like that of GLib, it writes in the encoding of the locale. */
static void
print (const char *text)
{
  const char *charset;
  g_autofree char *converted = g_get_charset (&charset)
                               ? NULL
                               : g_convert_with_fallback (text, -1, charset, "UTF-8", "?", NULL,
                                                          NULL, NULL);

  if ((fputs (converted != NULL ? converted : text, stdout) < 0 || fflush (stdout) != 0)
      && output_error == 0)
    output_error = errno;
}

/* Closes standard output, and fails if output was lost. Runs at exit, because GOptionContext exits
 * after --help. */
static void
close_output (void)
{
  if (fclose (stdout) != 0 && output_error == 0)
    output_error = errno;
  if (output_error == 0)
    return;
  gpumem_complain ("standard output: %s", g_strerror (output_error));
  _exit (GPUMEM_EXIT_FAILED);
}

/* Opens /dev/null in place of standard streams that were closed when the process started.
 * Otherwise the next files that the process opens would get their numbers, and the output. */
static void
open_standard_streams (void)
{
  int fd;

  do
    fd = open ("/dev/null", O_RDWR);
  while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0)
    close (fd);
}

int
main (int    argc,
      char **argv)
{
  g_auto (GStrv) copy = NULL;
  const GpumemCommand *command;
  const char *word = argc > 1 ? argv[1] : NULL;

  open_standard_streams ();
  atexit (close_output);
  g_set_print_handler (print);
  /* The parent process may ignore SIGCHLD, but child processes of this command need the default. */
  signal (SIGCHLD, SIG_DFL);
  setlocale (LC_CTYPE, "");
  g_set_prgname ("gpumem");
  if (g_strcmp0 (word, "--help") == 0 || g_strcmp0 (word, "-h") == 0 ||
      (g_strcmp0 (word, "help") == 0 && argc == 2))
    {
      print_usage ();
      return GPUMEM_EXIT_OK;
    }
  if (g_strcmp0 (word, "--version") == 0)
    {
      g_print ("gpumem %s\n", PACKAGE_VERSION);
      return GPUMEM_EXIT_OK;
    }
  command = word != NULL ? find_command (word) : NULL;
  if (command == NULL)
    return usage_error (word);
  copy = g_strdupv (argv + 1);
  return command->run (copy);
}
