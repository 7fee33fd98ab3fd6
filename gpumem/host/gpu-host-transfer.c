/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Operations for the staging engine. On this back end, staging has no advantage, and only tests of
 * the engine use it. */
#include "config.h"

#include "gpumem/host/gpu-host.h"

static gsize
host_transfer_get_min_size (GpuNativeContext *context G_GNUC_UNUSED,
                            gboolean          write G_GNUC_UNUSED,
                            gboolean          blocking G_GNUC_UNUSED)
{
  return G_MAXSIZE;
}

static gboolean
host_transfer_is_page_locked (GpuNativeContext *context G_GNUC_UNUSED,
                              gconstpointer     data G_GNUC_UNUSED,
                              gsize             size G_GNUC_UNUSED)
{
  return FALSE;
}

static GpuNativeEvent *
host_transfer_create_host_wait (GpuNativeContext  *context,
                                GError           **error)
{
  return context->backend->event->create_user (context, error);
}

static void
host_transfer_signal_host_wait (GpuNativeEvent *host_wait)
{
  host_wait->backend->event->set_user (host_wait, TRUE, NULL);
}

const GpuTransferOps _gpu_host_transfer_ops =
{
  .get_min_size = host_transfer_get_min_size,
  .is_page_locked = host_transfer_is_page_locked,
  .create_host_wait = host_transfer_create_host_wait,
  .signal_host_wait = host_transfer_signal_host_wait
};
