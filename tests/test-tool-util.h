/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Runs of the command. GPUMEM_TOOL is its path; one that is installed is found without it. */
#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

typedef struct
{
  int   status;
  char *out;
  char *err;
} TestRun;

/* Before test_init(). Returns: %FALSE if there is no command to run */
gboolean     test_tool_init   (void);
void         test_tool_clear  (void);
/* Where tests may write; it goes with test_tool_clear(). */
const char  *test_tool_folder (void);

/* The words up to a NULL, the command left out. */
GSubprocess *test_tool_start  (GSubprocessFlags   flags,
                               const char *const *words);
/* Runs the command with /dev/full as standard output. */
GSubprocess *test_tool_start_full (const char *const *words);
TestRun      test_tool_run    (const char        *word,
                               ...) G_GNUC_NULL_TERMINATED;
TestRun      test_tool_wait   (GSubprocess       *process);
/* With the program itself, and not with the script around it, which needs those in PATH. */
void         test_tool_direct (gboolean           direct);
/* Interrupts the tool once it takes signals: it must report what it has, the device @id first. */
void         test_tool_interrupt (const char        *id,
                                  const char *const *arguments);
void         test_run_clear   (TestRun           *run);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TestRun, test_run_clear)

G_END_DECLS
