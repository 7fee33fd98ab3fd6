/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/base/gpu-error.h"
#include "gpumem/base/gpu-nick-private.h"

/* Formats a value without a nick as a number. */
char *
_gpu_enum_get_nick (GType type,
                    int   value)
{
  g_autoptr (GEnumClass) klass = g_type_class_ref (type);
  const GEnumValue *known = g_enum_get_value (klass, value);

  return known != NULL ? g_strdup (known->value_nick) : g_strdup_printf ("%d", value);
}

/* Formats flags as "read-only | untracked", or as "none". Bits without a nick follow as one
 * number. */
char *
_gpu_flags_get_nicks (GType type,
                      guint flags)
{
  g_autoptr (GFlagsClass) klass = g_type_class_ref (type);
  g_autoptr (GString) text = g_string_new (NULL);
  guint rest = flags;

  for (guint i = 0; i < klass->n_values; i++)
    {
      guint bit = klass->values[i].value;

      if ((rest & bit) == 0)
        continue;

      g_string_append_printf (text, "%s%s", text->len > 0 ? " | " : "",
                              klass->values[i].value_nick);
      rest &= ~bit;
    }

  if (rest != 0)
    g_string_append_printf (text, "%s0x%x", text->len > 0 ? " | " : "", rest);

  return g_strdup (text->len > 0 ? text->str : "none");
}

gboolean
_gpu_enum_check (GType        type,
                 int          value,
                 const char  *what,
                 const char  *function,
                 GError     **error)
{
  g_autoptr (GEnumClass) klass = g_type_class_ref (type);

  if (g_enum_get_value (klass, value) != NULL)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "%s: unknown %s %d", function, what,
               value);

  return FALSE;
}

gboolean
_gpu_flags_check (GType        type,
                  guint        flags,
                  const char  *what,
                  const char  *function,
                  GError     **error)
{
  g_autoptr (GFlagsClass) klass = g_type_class_ref (type);

  if ((flags & ~klass->mask) == 0)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "%s: unknown %s 0x%x", function, what,
               flags & ~klass->mask);

  return FALSE;
}
