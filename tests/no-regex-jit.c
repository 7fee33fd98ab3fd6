/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Preloaded by make check-valgrind: makes GRegex interpret patterns. Code of PCRE2's JIT compiler
 * reads past the end of strings on purpose, which memcheck reports, and its stacks have no symbols
 * that a suppression could name. */
#include "config.h"

#include <stdint.h>

/* PCRE2_ERROR_JIT_BADOPTION: the library was built without the JIT compiler. */
#define NO_JIT (-45)

int pcre2_jit_compile_8 (void *code, uint32_t options);

int
pcre2_jit_compile_8 (void *code, uint32_t options)
{
  (void) code;
  (void) options;
  return NO_JIT;
}
