/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <gio/gio.h>
#include <string.h>
#include <sys/utsname.h>

#include "tools/gpumem-command.h"
#include "tools/gpumem-format.h"
#include "tools/gpumem-html.h"
#include "tools/gpumem-usage.h"

static const char style[] =
  "body{font:15px/1.45 sans-serif;max-width:72em;margin:2em auto;padding:0 1em;color:#222}"
  "h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em}"
  "table{border-collapse:collapse;margin:.6em 0;font-size:.92em}"
  "th,td{border-bottom:1px solid #ddd;padding:.2em .7em;text-align:left;vertical-align:top}"
  "img,svg{max-width:100%;height:auto}figure{margin:1em 0}";

static void
append_escaped (GString    *page,
                const char *text)
{
  g_autofree char *valid = g_utf8_make_valid (text, -1);
  g_autofree char *escaped = g_markup_escape_text (valid, -1);

  g_string_append (page, escaped);
}

static void
append_element (GString    *page,
                const char *name,
                const char *text)
{
  g_string_append_printf (page, "<%s>", name);
  append_escaped (page, text);
  g_string_append_printf (page, "</%s>\n", name);
}

gboolean
gpumem_html_check (const char  *path,
                   GError     **error)
{
  g_autofree char *folder = g_path_get_dirname (path);

  if (g_file_test (folder, G_FILE_TEST_IS_DIR))
    return TRUE;
  g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND,
               "Cannot write '%s': there is no folder '%s'", path, folder);
  return FALSE;
}

void
gpumem_html_heading (GString    *page,
                     const char *text)
{
  append_element (page, "h2", text);
}

void
gpumem_html_paragraph (GString    *page,
                       const char *text)
{
  append_element (page, "p", text);
}

void
gpumem_html_begin_table (GString           *page,
                         const char *const *titles)
{
  g_string_append (page, "<table>\n<tr>");
  for (guint i = 0; titles[i] != NULL; i++)
    append_element (page, "th", titles[i]);
  g_string_append (page, "</tr>\n");
}

void
gpumem_html_row (GString           *page,
                 const char *const *cells)
{
  g_string_append (page, "<tr>");
  for (guint i = 0; cells[i] != NULL; i++)
    append_element (page, "td", cells[i]);
  g_string_append (page, "</tr>\n");
}

void
gpumem_html_end_table (GString *page)
{
  g_string_append (page, "</table>\n");
}

/* --- the machine ----------------------------------------------------------------------------- */

static void
add_system (GString *page)
{
  g_autofree char *system = g_get_os_info (G_OS_INFO_KEY_PRETTY_NAME);
  g_autofree char *processors = g_strdup_printf ("%u", g_get_num_processors ());
  g_autofree char *kernel = NULL;
  struct utsname name;

  gpumem_html_begin_table (page, (const char *const[]) { "Machine", "", NULL });
  gpumem_html_row (page, (const char *const[]) { "gpumem", PACKAGE_VERSION, NULL });
  gpumem_html_row (page, (const char *const[]) { "system", system != NULL ? system : "-", NULL });
  if (uname (&name) == 0)
    {
      kernel = g_strdup_printf ("%s %s, %s", name.sysname, name.release, name.machine);
      gpumem_html_row (page, (const char *const[]) { "kernel", kernel, NULL });
    }
  gpumem_html_row (page, (const char *const[]) { "processors", processors, NULL });
  gpumem_html_end_table (page);
}

static void
add_device (GString   *page,
            GpuDevice *device)
{
  g_autofree char *total = gpumem_format_size (gpu_device_get_memory_size (device));
  g_autofree char *available = NULL;
  g_autofree char *reason = NULL;
  g_autofree char *platform = NULL;
  g_autoptr (GpuContext) context = NULL;
  g_autoptr (GError) error = NULL;
  GpumemUsage usage;

  g_object_get (device, "platform", &platform, NULL);
  if (!gpu_device_check (device, &error))
    reason = gpumem_command_plain (error->message);
  if (gpumem_usage_get (device, &context, &usage))
    available = gpumem_format_size (usage.free);
  gpumem_html_row (page, (const char *const[]) { gpu_device_get_id (device),
                                                 gpu_device_get_name (device),
                                                 platform != NULL ? platform : "-",
                                                 gpu_device_get_driver_version (device), total,
                                                 available != NULL ? available : "-",
                                                 reason != NULL ? reason : "yes", NULL });
}

static void
add_machine (GString *page)
{
  static const char *const titles[] = { "Device", "Name", "Platform", "Driver", "Memory", "Free",
                                        "Usable", NULL };
  g_autolist (GpuDevice) devices = gpu_device_list ();
  g_auto (GStrv) backends = gpu_device_list_backends ();

  add_system (page);
  gpumem_html_begin_table (page, titles);
  for (GList *l = devices; l != NULL; l = l->next)
    add_device (page, l->data);
  gpumem_html_end_table (page);
  for (guint i = 0; backends[i] != NULL; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autofree char *line = NULL;

      if (gpu_device_check_backend (backends[i], &error))
        continue;
      line = g_strdup_printf ("No devices of %s: %s", backends[i], error->message);
      gpumem_html_paragraph (page, line);
    }
}

GString *
gpumem_html_begin (const char *title)
{
  GString *page = g_string_new ("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n"
                                "<meta charset=\"utf-8\">\n");
  g_autoptr (GDateTime) now = g_date_time_new_now_utc ();
  g_autofree char *time = g_date_time_format (now, "%Y-%m-%d %H:%M UTC");

  append_element (page, "title", title);
  g_string_append_printf (page, "<style>%s</style>\n</head>\n<body>\n", style);
  append_element (page, "h1", title);
  append_element (page, "p", time);
  add_machine (page);
  return page;
}

gboolean
gpumem_html_picture (GString     *page,
                     const char  *path,
                     GError     **error)
{
  g_autofree char *content = NULL;
  g_autofree char *text = NULL;
  g_autofree char *name = g_path_get_basename (path);
  gsize size = 0;

  if (!g_file_get_contents (path, &content, &size, error))
    return FALSE;
  text = g_base64_encode ((const guchar *) content, size);
  g_string_append (page, "<figure><img alt=\"");
  append_escaped (page, name);
  g_string_append_printf (page, "\" src=\"data:image/png;base64,%s\">", text);
  append_element (page, "figcaption", name);
  g_string_append (page, "</figure>\n");
  return TRUE;
}

gboolean
gpumem_html_save (GString     *page,
                  const char  *path,
                  GError     **error)
{
  g_string_append (page, "</body>\n</html>\n");
  return g_file_set_contents (path, page->str, page->len, error);
}
