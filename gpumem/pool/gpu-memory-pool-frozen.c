/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Whether any stream is capturing. Meanwhile pools are frozen: they neither move nor free
 * memory. */
#include "config.h"

#include "gpumem/pool/gpu-memory-pool-private.h"

/* Active watches of detected captures. */
static GPtrArray *detected;

GMutex _gpu_pool_captures_lock;
gint _gpu_pool_n_captures;

static guint64
get_sequence (GpuTimeline *timeline)
{
  const GpuStreamOps *ops = timeline->context->backend->stream;
  guint64 sequence = 0;

  if (ops->get_state != NULL)
    ops->get_state (timeline->stream, NULL, &sequence);

  return sequence;
}

void
_gpu_pool_watch_set_active_locked (GpuPoolWatch *watch,
                                   gboolean      is_active)
{
  watch->is_active = is_active;
  g_atomic_int_add (&_gpu_pool_n_captures, is_active ? 1 : -1);

  if (watch->timeline == NULL)
    return;

  if (detected == NULL)
    detected = g_ptr_array_new ();

  if (is_active)
    g_ptr_array_add (detected, watch);
  else
    g_ptr_array_remove_fast (detected, watch);
}

gboolean
_gpu_pool_is_frozen (gpointer owner G_GNUC_UNUSED)
{
  gboolean is_frozen;

  if (G_LIKELY (g_atomic_int_get (&_gpu_pool_n_captures) == 0))
    return FALSE;

  g_mutex_lock (&_gpu_pool_captures_lock);
  for (guint i = detected != NULL ? detected->len : 0; i > 0; i--)
    {
      GpuPoolWatch *watch = detected->pdata[i - 1];

      if (get_sequence (watch->timeline) != watch->sequence)
        _gpu_pool_watch_set_active_locked (watch, FALSE);
    }
  is_frozen = g_atomic_int_get (&_gpu_pool_n_captures) > 0;
  g_mutex_unlock (&_gpu_pool_captures_lock);

  return is_frozen;
}

gboolean
_gpu_pool_is_capturing (GpuTimeline *timeline)
{
  gboolean is_capturing;

  if (G_LIKELY (g_atomic_int_get (&_gpu_pool_n_captures) == 0))
    return FALSE;

  g_mutex_lock (&_gpu_pool_captures_lock);
  is_capturing = timeline->capture_role == GPU_CAPTURE_ROLE_LEGACY
                 || (timeline->capture_role == GPU_CAPTURE_ROLE_STREAM
                     && get_sequence (timeline) != 0);
  g_mutex_unlock (&_gpu_pool_captures_lock);

  return is_capturing;
}

void
_gpu_pool_set_capture_role (GpuTimeline    *timeline,
                            GpuCaptureRole  role)
{
  g_mutex_lock (&_gpu_pool_captures_lock);
  timeline->capture_role = role;
  g_mutex_unlock (&_gpu_pool_captures_lock);
}

guint
_gpu_pool_relax_captures (GpuNativeContext *context)
{
  const GpuStreamOps *ops = context->backend->stream;

  return ops->set_capture_rule != NULL ? ops->set_capture_rule (GPU_CAPTURE_RULE_NONE) : 0;
}

void
_gpu_pool_restore_captures (GpuNativeContext *context,
                            guint             rule)
{
  const GpuStreamOps *ops = context->backend->stream;

  if (ops->set_capture_rule != NULL)
    ops->set_capture_rule (rule);
}

/* Work of a lost device counts as completed. */
gboolean
_gpu_pool_synchronize_context (GpuNativeContext *context)
{
  const GpuContextOps *ops = context->backend->context;

  return ops->synchronize == NULL || ops->synchronize (context, NULL)
         || g_atomic_int_get (&context->lost);
}
