/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#ifdef HAVE_NVTX
#include <nvtx3/nvToolsExt.h>
#endif
#ifdef HAVE_SYSPROF
#include <sysprof-capture.h>
#endif

#include "gpumem/base/gpu-marks-private.h"

#define GROUP "gpumem"

#ifdef HAVE_NVTX
/* Loads the library of the profiler, if NVTX_INJECTION64_PATH names one. */
static gpointer
create_domain (gpointer unused G_GNUC_UNUSED)
{
  return nvtxDomainCreateA (GROUP);
}

static nvtxDomainHandle_t
get_domain (void)
{
  static GOnce once = G_ONCE_INIT;

  return g_once (&once, create_domain, NULL);
}

/* The size is a payload, not a part of the name, because Nsight Systems adds up ranges by name. */
static void
push_range (const char *name,
            guint64     size)
{
  nvtxEventAttributes_t attributes = { 0 };

  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;

  if (size != 0)
    {
      attributes.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
      attributes.payload.ullValue = size;
    }

  nvtxDomainRangePushEx (get_domain (), &attributes);
}
#endif

GpuMark
_gpu_mark_begin (const char *name,
                 guint64     size)
{
  GpuMark mark = { .name = name, .size = size };

#ifdef HAVE_NVTX
  push_range (name, size);
#endif
#ifdef HAVE_SYSPROF
  sysprof_collector_init ();
  mark.begin = SYSPROF_CAPTURE_CURRENT_TIME;
#endif

  return mark;
}

void
_gpu_mark_end (GpuMark *mark)
{
#ifdef HAVE_SYSPROF
  gint64 duration = SYSPROF_CAPTURE_CURRENT_TIME - mark->begin;
  char text[32] = "";

  if (mark->size != 0)
    g_snprintf (text, sizeof text, "%" G_GUINT64_FORMAT " bytes", mark->size);

  sysprof_collector_mark (mark->begin, duration, GROUP, mark->name, text);
#endif
#ifdef HAVE_NVTX
  nvtxDomainRangePop (get_domain ());
#endif
  mark->name = NULL;
}
