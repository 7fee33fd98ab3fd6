/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/device/gpu-device-model.h"
#include "gpumem/device/gpu-device.h"

/**
 * SECTION:gpu-device-model
 * @title: GpuDeviceModel
 * @short_description: the devices as a list model
 * @see_also: gpu_device_list()
 */

/**
 * GpuDeviceModel:
 *
 * A #GListModel of all devices, for list views and for programs whose main loop must not block
 * while the drivers start.
 *
 * |[<!-- language="C" -->
 * g_autoptr (GpuDeviceModel) model = gpu_device_model_new ();
 * gboolean is_loading = TRUE;
 *
 * while (is_loading)
 *   {
 *     g_main_context_iteration (NULL, TRUE);
 *     g_object_get (model, "loading", &is_loading, NULL);
 *   }
 * g_print ("%u devices\n", g_list_model_get_n_items (G_LIST_MODEL (model)));
 * ]|
 *
 * A new model is empty and calls gpu_device_list() in another thread. It then adds all devices at
 * once, in the order of gpu_device_list(), and sets #GpuDeviceModel:loading to %FALSE. This happens
 * in the thread-default main context of the thread that created the model. The model does not
 * change after that, because drivers do not report devices that are added later. Use a model only
 * in the thread of that main context.
 *
 * Since: 0.1
 */
struct _GpuDeviceModel
{
  GObject    parent_instance;

  GPtrArray *devices;
  gboolean   is_loading;
};

enum
{
  PROP_0,
  PROP_ITEM_TYPE,
  PROP_LOADING,
  PROP_N_ITEMS,
  N_PROPS
};

static GParamSpec *props[N_PROPS];

static void list_model_iface_init (GListModelInterface *iface);

G_DEFINE_FINAL_TYPE_WITH_CODE (GpuDeviceModel, gpu_device_model, G_TYPE_OBJECT,
                               G_IMPLEMENT_INTERFACE (G_TYPE_LIST_MODEL, list_model_iface_init))

static void
gpu_device_model_get_property (GObject    *object,
                               guint       id,
                               GValue     *value,
                               GParamSpec *pspec)
{
  GpuDeviceModel *model = GPU_DEVICE_MODEL (object);

  switch (id)
    {
    case PROP_ITEM_TYPE:
      g_value_set_gtype (value, GPU_TYPE_DEVICE);
      break;
    case PROP_LOADING:
      g_value_set_boolean (value, model->is_loading);
      break;
    case PROP_N_ITEMS:
      g_value_set_uint (value, model->devices->len);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gpu_device_model_finalize (GObject *object)
{
  g_ptr_array_unref (GPU_DEVICE_MODEL (object)->devices);
  _gpu_live_add (GPU_LIVE_DEVICE_MODEL, -1);

  G_OBJECT_CLASS (gpu_device_model_parent_class)->finalize (object);
}

static void
free_devices (gpointer devices)
{
  g_list_free_full (devices, g_object_unref);
}

static void
list_devices (GTask        *task,
              gpointer      source,
              gpointer      data,
              GCancellable *cancellable)
{
  g_task_return_pointer (task, gpu_device_list (), free_devices);
}

static void
add_devices (GObject      *source,
             GAsyncResult *result,
             gpointer      data)
{
  GpuDeviceModel *model = GPU_DEVICE_MODEL (source);
  g_autoptr (GList) devices = g_task_propagate_pointer (G_TASK (result), NULL);

  for (GList *l = devices; l != NULL; l = l->next)
    g_ptr_array_add (model->devices, l->data);

  g_list_model_items_changed (G_LIST_MODEL (model), 0, 0, model->devices->len);
  g_object_notify_by_pspec (source, props[PROP_N_ITEMS]);
  model->is_loading = FALSE;
  g_object_notify_by_pspec (source, props[PROP_LOADING]);
}

static void
gpu_device_model_constructed (GObject *object)
{
  g_autoptr (GTask) task = g_task_new (object, NULL, add_devices, NULL);

  G_OBJECT_CLASS (gpu_device_model_parent_class)->constructed (object);
  g_task_set_source_tag (task, gpu_device_model_constructed);
  g_task_run_in_thread (task, list_devices);
}

static void
gpu_device_model_class_init (GpuDeviceModelClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->get_property = gpu_device_model_get_property;
  object_class->constructed = gpu_device_model_constructed;
  object_class->finalize = gpu_device_model_finalize;

  /**
   * GpuDeviceModel:item-type:
   *
   * The type of the items, #GpuDevice.
   *
   * Since: 0.1
   */
  props[PROP_ITEM_TYPE] =
    g_param_spec_gtype ("item-type", NULL, NULL, G_TYPE_OBJECT,
                        G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);
  /**
   * GpuDeviceModel:loading:
   *
   * Whether the devices are still being listed.
   *
   * Since: 0.1
   */
  props[PROP_LOADING] =
    g_param_spec_boolean ("loading", NULL, NULL, TRUE, G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);
  /**
   * GpuDeviceModel:n-items:
   *
   * The number of devices, 0 while #GpuDeviceModel:loading is %TRUE.
   *
   * Since: 0.1
   */
  props[PROP_N_ITEMS] =
    g_param_spec_uint ("n-items", NULL, NULL, 0, G_MAXUINT, 0,
                       G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);

  g_object_class_install_properties (object_class, N_PROPS, props);
}

static void
gpu_device_model_init (GpuDeviceModel *model)
{
  model->devices = g_ptr_array_new_with_free_func (g_object_unref);
  model->is_loading = TRUE;
  _gpu_live_add (GPU_LIVE_DEVICE_MODEL, 1);
}

static GType
get_item_type (GListModel *list)
{
  return GPU_TYPE_DEVICE;
}

static guint
get_n_items (GListModel *list)
{
  return GPU_DEVICE_MODEL (list)->devices->len;
}

static gpointer
get_item (GListModel *list,
          guint       position)
{
  GPtrArray *devices = GPU_DEVICE_MODEL (list)->devices;

  return position < devices->len ? g_object_ref (g_ptr_array_index (devices, position)) : NULL;
}

static void
list_model_iface_init (GListModelInterface *iface)
{
  iface->get_item_type = get_item_type;
  iface->get_n_items = get_n_items;
  iface->get_item = get_item;
}

/**
 * gpu_device_model_new:
 *
 * Creates a model of the devices and starts to list them. Does not block.
 *
 * Returns: (transfer full): the model, empty at first
 *
 * Since: 0.1
 */
GpuDeviceModel *
gpu_device_model_new (void)
{
  return g_object_new (GPU_TYPE_DEVICE_MODEL, NULL);
}
