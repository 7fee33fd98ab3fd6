/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Mangled names of C++ functions. CUDA mangles names as in the Itanium ABI on every platform:
 * _Z1fPf is f (float *), _ZN2ns1fEi is ns::f (int). Names of templates are not decoded; programs
 * use name expressions of NVRTC for templates.
 */
#include "config.h"

#include <string.h>

#include "gpumem/cuda/compiler/gpu-cuda-compiler.h"

/* Returns the part of the mangled name that does not depend on the parameters. The parameter types
 * follow this prefix. */
static char *
mangle (const char *name,
        gboolean    is_static)
{
  g_auto (GStrv) parts = g_strsplit (name, "::", -1);
  gboolean is_nested = g_strv_length (parts) > 1;
  GString *mangled = g_string_new (is_nested ? "_ZN" : is_static ? "_ZL" : "_Z");

  for (guint i = 0; parts[i] != NULL; i++)
    g_string_append_printf (mangled, "%" G_GSIZE_FORMAT "%s", strlen (parts[i]), parts[i]);

  if (is_nested)
    g_string_append_c (mangled, 'E');

  return g_string_free (mangled, FALSE);
}

const char *
_gpu_cuda_name_find (const char *const *names,
                     const char        *name)
{
  g_autofree char *global = mangle (name, FALSE);
  g_autofree char *local = mangle (name, TRUE);
  const char *found = NULL;

  for (guint i = 0; names[i] != NULL; i++)
    {
      gsize length = g_str_has_prefix (names[i], global) ? strlen (global) :
                     g_str_has_prefix (names[i], local) ? strlen (local) : 0;

      if (g_str_equal (names[i], name))
        return names[i];

      /* The letter I starts template arguments. */
      if (length == 0 || names[i][length] == 'I')
        continue;

      if (found != NULL)
        return NULL;

      found = names[i];
    }

  return found;
}

char *
_gpu_cuda_name_simplify (const char *mangled)
{
  const char *p = mangled + 2;
  g_autoptr (GString) name = g_string_new (NULL);
  gboolean is_nested = FALSE;

  if (!g_str_has_prefix (mangled, "_Z"))
    return g_strdup (mangled);

  is_nested = *p == 'N';
  p += *p == 'N' || *p == 'L';

  while (g_ascii_isdigit (*p))
    {
      char *end;
      guint64 length = g_ascii_strtoull (p, &end, 10);

      if (length == 0 || length > strlen (end))
        return g_strdup (mangled);

      g_string_append_printf (name, "%s%.*s", name->len > 0 ? "::" : "", (int) length, end);
      p = end + length;

      if (!is_nested)
        break;
    }

  if (name->len == 0 || *p == '\0' || *p == 'I' || (is_nested && *p != 'E'))
    return g_strdup (mangled);

  return g_strdup (name->str);
}
