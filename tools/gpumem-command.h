/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gpumem/gpumem.h>

G_BEGIN_DECLS

enum
{
  GPUMEM_EXIT_OK          = 0,
  GPUMEM_EXIT_FAILED      = 1,
  GPUMEM_EXIT_USAGE       = 2,
  GPUMEM_EXIT_INTERRUPTED = 130
};

typedef struct
{
  const char *name;
  const char *parameters;             /* printed after the options in the usage */
  const char *summary;                /* one line */
  const char *description;            /* the paragraphs at the end of --help */
  int       (*run) (char **arguments);  /* the first is the name; run() may take the strings */
} GpumemCommand;

extern const GpumemCommand gpumem_bandwidth_command;
extern const GpumemCommand gpumem_devices_command;
extern const GpumemCommand gpumem_info_command;
extern const GpumemCommand gpumem_monitor_command;
extern const GpumemCommand gpumem_pool_command;
extern const GpumemCommand gpumem_tour_command;

void     gpumem_command_print_help (const char *help);
char    *gpumem_command_plain (const char          *message);
/* Prints the title of a report about @device. */
void     gpumem_command_print_device (GpuDevice     *device);
/* Prints that the file @path was written. If @data is TRUE, prints to standard error, because
 * standard output contains data for programs. */
void     gpumem_command_wrote (const char          *path,
                               gboolean             data);
gboolean gpumem_command_parse (const GpumemCommand *command,
                               const GOptionEntry  *entries,
                               char               **arguments);
int      gpumem_command_usage (const GpumemCommand *command,
                               const char          *format,
                               ...) G_GNUC_PRINTF (2, 3);
/* Returns the exit status of a command. If @whole is FALSE, Ctrl-C has interrupted the command, and
 * the function prints a message about the interruption. */
int      gpumem_command_end   (gboolean             whole,
                               gboolean             failed);
void     gpumem_complain      (const char          *format,
                               ...) G_GNUC_PRINTF (1, 2);

G_END_DECLS
