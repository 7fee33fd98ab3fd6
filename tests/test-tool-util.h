/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Runs the gpumem command. GPUMEM_TOOL is its path; by default the tests run the installed
 * command. */
#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

typedef struct
{
  int   status;
  char *out;
  char *err;
} TestRun;

/* Must be called before test_init(). Returns %FALSE if there is no command to run. */
gboolean     test_tool_init   (void);
void         test_tool_clear  (void);
/* Gets a folder to which tests may write; test_tool_clear() removes it. */
const char  *test_tool_folder (void);

/* Starts the command with a NULL-terminated list of arguments. */
GSubprocess *test_tool_start  (GSubprocessFlags   flags,
                               const char *const *words);
/* Runs the command with /dev/full as standard output. */
GSubprocess *test_tool_start_full (const char *const *words);
TestRun      test_tool_run    (const char        *word,
                               ...) G_GNUC_NULL_TERMINATED;
TestRun      test_tool_wait   (GSubprocess       *process);
/* Sets whether to run the program itself instead of libtool's wrapper script, which needs other
 * programs in PATH. */
void         test_tool_direct (gboolean           direct);
/* Starts the command, and interrupts it after it has set up its signal handling. The command must
 * still print its results, beginning with the results of the device @id. */
void         test_tool_interrupt (const char        *id,
                                  const char *const *arguments);
void         test_run_clear   (TestRun           *run);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TestRun, test_run_clear)

G_END_DECLS
