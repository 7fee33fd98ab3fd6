/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* PoCL contains LLVM. The first query for devices makes LLVM install handlers for crash signals.
 * These handlers return, so the program would continue after a SIGTRAP from a fatal g_critical()
 * and after a SIGSEGV from raise(). Tests rely on the crash, so restore the default handlers.
 */

#include "config.h"

#include "layer.h"

#include <dlfcn.h>
#include <signal.h>
#include <string.h>

static const int crash_signals[] = { SIGABRT, SIGBUS, SIGILL, SIGSEGV, SIGSYS, SIGTRAP };
static struct sigaction before[G_N_ELEMENTS (crash_signals)];

static void __attribute__ ((constructor))
save_signals (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (crash_signals); i++)
    sigaction (crash_signals[i], NULL, &before[i]);
}

static gboolean
is_of_llvm (const struct sigaction *action)
{
  Dl_info info;

  return action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN &&
         dladdr ((gpointer) action->sa_handler, &info) != 0 && info.dli_fname != NULL &&
         strstr (info.dli_fname, "LLVM") != NULL;
}

void
layer_restore_signals (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (crash_signals); i++)
    {
      struct sigaction action;

      if (sigaction (crash_signals[i], NULL, &action) == 0 && is_of_llvm (&action))
        sigaction (crash_signals[i], &before[i], NULL);
    }
}
