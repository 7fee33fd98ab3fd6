/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Fuzz targets. Each target passes arbitrary bytes to code that reads external data, and checks the
 * result. fuzz-main.c runs one target under libFuzzer; test-fuzz.c runs every target in `make
 * check`.
 */
#pragma once

#include <gpumem/gpumem.h>

G_BEGIN_DECLS

typedef struct
{
  const char *name;
  void      (*run)       (const guint8 *data,
                          gsize         size);
  /* Appends inputs that pass the first checks of the code, so that a fuzzer reaches the code after
   * these checks. */
  void      (*add_seeds) (GPtrArray    *seeds);
  gboolean    is_slow;              /* a run makes system calls or waits for threads */
} FuzzTarget;

extern const FuzzTarget fuzz_binary;
extern const FuzzTarget fuzz_cache;
extern const FuzzTarget fuzz_cacheable;
extern const FuzzTarget fuzz_dlpack;
extern const FuzzTarget fuzz_dtype;
extern const FuzzTarget fuzz_format;
extern const FuzzTarget fuzz_ipc;
extern const FuzzTarget fuzz_layout;
extern const FuzzTarget fuzz_options;
extern const FuzzTarget fuzz_region;
extern const FuzzTarget fuzz_source;
extern const FuzzTarget fuzz_status;
extern const FuzzTarget fuzz_trace;

/* All targets; the array is NULL-terminated. */
extern const FuzzTarget *const fuzz_targets[];

/* Reports a finding if the condition is FALSE, even with G_DISABLE_ASSERT. */
#define FUZZ_REQUIRE(condition) \
  G_STMT_START { \
    if (!(condition)) \
      fuzz_fail (G_STRLOC, #condition); \
  } G_STMT_END

void fuzz_fail (const char *location,
                const char *condition) G_GNUC_NORETURN;

/* The unread part of an input. */
typedef struct
{
  const guint8 *data;
  gsize         size;
} FuzzInput;

/* Reads a number of @n_bytes bytes. At the end of the input, missing bytes are 0. */
guint64 fuzz_take       (FuzzInput    *input,
                         guint         n_bytes);
/* Reads a number that is likely to cause an arithmetic error, such as a small number, the neighbour
 * of a power of two, or an end of the range. */
guint64 fuzz_take_size  (FuzzInput    *input);

void    fuzz_add_seed   (GPtrArray    *seeds,
                         gconstpointer data,
                         gsize         size);
void    fuzz_add_text   (GPtrArray    *seeds,
                         const char   *text);
/* Adds @n seeds of @size random bytes, the same in each run, for targets that read numbers. */
void    fuzz_add_random (GPtrArray    *seeds,
                         guint         n,
                         gsize         size);

/* Gets the context of the host, which all targets share. */
GpuContext *fuzz_get_context (void);

G_END_DECLS
