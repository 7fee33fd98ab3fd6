/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Ends a test that hangs: a thread writes the stacks of all threads to standard error and aborts
 * the program. It uses neither the allocator nor a lock that a hanging thread could hold.
 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Starts the thread. A test may run for GPUMEM_TEST_TIMEOUT seconds; by default for 300 seconds, or
 * for 3,000 with "-m slow". A value of 0 disables the watchdog. The watchdog never ends a program
 * in a debugger. GPUMEM_TEST_DEBUGGER names a program to use instead of gdb or eu-stack. With
 * GPUMEM_TEST_DEBUGGER=none, the threads write their own stacks. */
void test_watchdog_start (void);
/* Restarts the timer for a new test. @name must live until the next call. */
void test_watchdog_enter (const char *name);
/* Stops the timer, between tests. */
void test_watchdog_leave (void);
/* Ends the thread of the watchdog. */
void test_watchdog_stop  (void);

G_END_DECLS
