/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Throws exceptions of PyTorch from C, without PyTorch's headers: looks up the constructor, the
 * type and the table of virtual functions of the class in the loaded libraries. */
#include "gpumem-allocators.h"

#include <dlfcn.h>
#include <string.h>

#define STRING "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"

/* Larger than any c10::Error. */
#define EXCEPTION_SIZE 4096

/* c10::SourceLocation */
typedef struct
{
  const char *function;
  const char *file;
  guint32     line;
} SourceLocation;

/* std::string of libstdc++ */
typedef struct
{
  char   *data;
  gsize   length;
  union
  {
    char  local[16];
    gsize capacity;
  };
} String;

typedef struct
{
  void     (*construct)         (gpointer        error,
                                 SourceLocation  location,
                                 String         *message);
  gpointer (*allocate_exception) (gsize          size);
  void     (*throw_exception)   (gpointer        exception,
                                 gpointer        type,
                                 void          (*destroy) (gpointer exception)) G_GNUC_NORETURN;
  gpointer (*new)               (gsize           size);
  gpointer   type;
  gpointer  *table;
} Symbols;

/* Looks only in libraries that are loaded. */
static gpointer
find (const char *library,
      const char *name)
{
  gpointer handle = dlopen (library, RTLD_LAZY | RTLD_NOLOAD);
  gpointer symbol = handle != NULL ? dlsym (handle, name) : NULL;

  if (handle != NULL)
    dlclose (handle);

  return symbol;
}

static gboolean
find_symbols (Symbols *symbols)
{
  *(gpointer *) &symbols->construct = find ("libc10.so",
                                            "_ZN3c105ErrorC2ENS_14SourceLocationE" STRING);
  symbols->type = find ("libc10_cuda.so", "_ZTIN3c1016OutOfMemoryErrorE");
  symbols->table = find ("libc10_cuda.so", "_ZTVN3c1016OutOfMemoryErrorE");
  *(gpointer *) &symbols->allocate_exception = find ("libstdc++.so.6",
                                                     "__cxa_allocate_exception");
  *(gpointer *) &symbols->throw_exception = find ("libstdc++.so.6", "__cxa_throw");
  *(gpointer *) &symbols->new = find ("libstdc++.so.6", "_Znwm");

  return symbols->construct != NULL && symbols->type != NULL && symbols->table != NULL
         && symbols->allocate_exception != NULL && symbols->throw_exception != NULL
         && symbols->new != NULL;
}

/* The constructor moves the string: its bytes are allocated as C++ does. */
static void
string_init (String        *string,
             const Symbols *symbols,
             const char    *text)
{
  string->length = strlen (text);
  string->data = symbols->new (string->length + 1);
  string->capacity = string->length;
  memcpy (string->data, text, string->length + 1);
}

static void
throw_out_of_memory (const Symbols *symbols,
                     const char    *message)
{
  const SourceLocation location = { "gpumem_torch_alloc", "gpumem", 0 };
  gpointer *exception = symbols->allocate_exception (EXCEPTION_SIZE);
  String string;

  string_init (&string, symbols, message);
  memset (exception, 0, EXCEPTION_SIZE);
  symbols->construct (exception, location, &string);
  /* The constructor is that of the base class, c10::Error. Behind two words, the table has the
   * destructor. */
  exception[0] = symbols->table + 2;
  symbols->throw_exception (exception, symbols->type, (void (*) (gpointer)) symbols->table[2]);
}

void
gpumem_torch_throw (const char *message,
                    gboolean    is_out_of_memory)
{
  void (*fail) (const char *function, const char *file, guint32 line, const char *message);
  void (*throw_bad_alloc) (void);
  Symbols symbols;

  if (is_out_of_memory && find_symbols (&symbols))
    throw_out_of_memory (&symbols, message);

  *(gpointer *) &fail = find ("libc10.so", "_ZN3c106detail14torchCheckFailEPKcS2_jS2_");
  if (fail != NULL)
    fail ("gpumem_torch_alloc", "gpumem", 0, message);

  *(gpointer *) &throw_bad_alloc = find ("libstdc++.so.6", "_ZSt17__throw_bad_allocv");
  if (throw_bad_alloc != NULL)
    throw_bad_alloc ();

  g_warning ("gpumem_torch_alloc: %s", message);
}
