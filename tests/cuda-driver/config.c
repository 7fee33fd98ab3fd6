/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Options of the stand-in: GPUMEM_CUDA_DRIVER is a comma-separated list of
 *
 *   devices=2            number of devices; 0: CUDA_ERROR_NO_DEVICE
 *   memory=64M           memory of each device
 *   capability=90        compute capability 9.0
 *   version=13000        CUDA 13.0; GPUMEM_CUDA_DRIVER_VERSION=13000 has the same effect
 *   delay=300            maximum delay before an operation, in microseconds; 0: none
 *   peers=no             devices cannot access each other's memory
 *   deny=0-1:2-0         device 0 cannot access memory of device 1, nor device 2 that of device 0;
 *                        the opposite directions are allowed
 *   concurrent=1         number of devices, from the first, that can use managed memory at the
 *                        same time as the host, and can access pageable memory
 *   ipc=no               no IPC handles
 *   memlock=yes          page-locked memory is limited to RLIMIT_MEMLOCK
 *   strict=no            misuse returns an error code instead of aborting
 *   protect=no           the application may access device memory
 *   leaks=yes            leaks at exit change the exit status to 99
 *   fail=17              the 17th call fails; the syntax is in fault.c
 *   lost=17              the device is lost at the 17th call; see fault.c
 *   trap=2               the second launch of a kernel traps
 *   counts=FILE          number of calls by name, written at exit
 *   report=FILE          misuse and leaks, written at exit
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "driver.h"

#define MEGA (G_GUINT64_CONSTANT (1) << 20)

Config config =
{
  .version = 13000,
  .n_devices = 2,
  .memory = 512 * MEGA,
  .delay = 300,
  .concurrent = 1,
  .capability = 90,
  .strict = TRUE,
  .protect = TRUE,
  .peers = TRUE,
  .ipc = TRUE,
};

static gboolean
parse_number (const char *text,
              guint64    *number)
{
  char *end;

  *number = g_ascii_strtoull (text, &end, 10);
  if (end == text)
    return FALSE;
  if (g_ascii_strcasecmp (end, "k") == 0)
    *number <<= 10;
  else if (g_ascii_strcasecmp (end, "m") == 0)
    *number <<= 20;
  else if (g_ascii_strcasecmp (end, "g") == 0)
    *number <<= 30;
  else
    return *end == '\0';
  return TRUE;
}

/* Reads the pairs of devices of "deny". */
static gboolean
set_denied (const char *value)
{
  g_auto (GStrv) pairs = g_strsplit (value, ":", -1);

  for (guint i = 0; pairs[i] != NULL; i++)
    {
      guint64 device = 0;
      guint64 peer = 0;
      char *end = strchr (pairs[i], '-');

      if (end == NULL)
        return FALSE;
      *end = '\0';
      if (!parse_number (pairs[i], &device) || !parse_number (end + 1, &peer)
          || device >= G_N_ELEMENTS (config.denied) || peer >= G_N_ELEMENTS (config.denied))
        return FALSE;
      config.denied[device] |= G_GUINT64_CONSTANT (1) << peer;
    }
  return TRUE;
}

static gboolean
set_flag (const char *name,
          const char *value)
{
  const struct { const char *name; gboolean *place; } flags[] = {
    { "strict", &config.strict },
    { "protect", &config.protect },
    { "leaks", &config.leaks },
    { "peers", &config.peers },
    { "ipc", &config.ipc },
    { "memlock", &config.memlock },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (flags); i++)
    if (g_str_equal (name, flags[i].name))
      {
        *flags[i].place = g_str_equal (value, "yes");
        return *flags[i].place || g_str_equal (value, "no");
      }
  return FALSE;
}

static gboolean
set_number (const char *name,
            const char *value)
{
  guint64 number;

  if (!parse_number (value, &number))
    return FALSE;
  if (g_str_equal (name, "devices"))
    config.n_devices = number;
  else if (g_str_equal (name, "memory"))
    config.memory = number;
  else if (g_str_equal (name, "capability"))
    config.capability = number;
  else if (g_str_equal (name, "version"))
    config.version = number;
  else if (g_str_equal (name, "delay"))
    config.delay = number;
  else if (g_str_equal (name, "concurrent"))
    config.concurrent = number;
  else if (g_str_equal (name, "trap"))
    config.trap = number;
  else
    return FALSE;
  return TRUE;
}

static gboolean
set (const char *name,
     const char *value)
{
  if (g_str_equal (name, "counts"))
    config.counts = g_strdup (value);
  else if (g_str_equal (name, "report"))
    config.report = g_strdup (value);
  else if (g_str_equal (name, "deny"))
    return set_denied (value);
  else if (g_str_equal (name, "fail"))
    return fault_set (value);
  else if (g_str_equal (name, "lost"))
    {
      g_autofree char *spec = g_strconcat ("lost:", value, NULL);

      return fault_set (spec);
    }
  else
    return set_flag (name, value) || set_number (name, value);
  return TRUE;
}

void
config_load (void)
{
  const char *text = g_getenv ("GPUMEM_CUDA_DRIVER");
  const char *version = g_getenv ("GPUMEM_CUDA_DRIVER_VERSION");
  g_auto (GStrv) words = g_strsplit (text != NULL ? text : "", ",", -1);

  if (version != NULL && version[0] != '\0')
    set_number ("version", version);
  for (guint i = 0; words[i] != NULL; i++)
    {
      char *value = strchr (words[i], '=');

      if (value != NULL)
        *value++ = '\0';
      if (words[i][0] != '\0' && (value == NULL || !set (words[i], value)))
        {
          g_printerr ("gpumem-cuda-driver: GPUMEM_CUDA_DRIVER: '%s' is not understood\n",
                      words[i]);
          abort ();
        }
    }
}
