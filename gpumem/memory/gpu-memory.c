/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/base/gpu-error-private.h"
#include "gpumem/base/gpu-nick-private.h"
#include "gpumem/base/gpu-signal-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/memory/gpu-image-private.h"
#include "gpumem/memory/gpu-memory-private.h"
#include "gpumem/staging/gpu-transfer.h"

/**
 * SECTION:gpu-memory
 * @title: GpuMemory
 * @short_description: base class of device memory
 * @see_also: #GpuBuffer, #GpuImage, #GpuSvm, #GpuHostMemory
 */

/**
 * GpuMemory:
 *
 * The abstract base class of memory that a device can access.
 *
 * |[<!-- language="C" -->
 * GpuMemory *memory = GPU_MEMORY (buffer);
 * const gsize n_bytes = gpu_memory_get_size (memory);
 * g_autoptr (GpuBuffer) copy = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, n_bytes, &error);
 *
 * gpu_stream_copy (stream, GPU_MEMORY (copy), 0, memory, 0, n_bytes, &error);
 * gpu_memory_release (memory);      // safe: freed only after the copy has completed
 *
 * if (!gpu_memory_wait (GPU_MEMORY (copy), NULL, &error))
 *   g_warning ("the copy failed: %s", error->message);
 * ]|
 *
 * A memory object gives the program access to memory of any kind. Dropping the last reference to
 * the object, or calling gpu_memory_release(), is safe at any time and on any thread. Work that was
 * submitted earlier continues, and the driver's memory is freed when the last of that work has
 * completed.
 *
 * If the last work that wrote the memory failed, the contents of the memory are undefined. Until
 * the memory or a part of it is written again, every read, copy or launch that reads the memory,
 * and every map for reading, fails with the error of the failed work. A kernel that may write the
 * memory counts as a write. Failures are not recorded for memory with %GPU_MEMORY_FLAGS_UNTRACKED.
 * A stream keeps its last 1,024 failures: an older failure is lost unless an event or a use of the
 * memory has reported it before.
 *
 * Since: 0.1
 */

enum
{
  PROP_0,
  PROP_CONTEXT,
  PROP_FLAGS,
  PROP_SIZE,
  PROP_NATIVE_HANDLE,
  PROP_DEVICE_ADDRESS,
  PROP_HOST_BYTES,
  PROP_RELEASED,
  PROP_POOL,
  N_PROPS
};

enum
{
  RELEASED,
  N_SIGNALS
};

static GParamSpec *props[N_PROPS];
static guint signals[N_SIGNALS];

G_DEFINE_ABSTRACT_TYPE (GpuMemory, gpu_memory, G_TYPE_OBJECT)

static GObject *
ref_pool (GpuMemory *memory)
{
  GpuStorage *root = memory->storage != NULL ? memory->storage->root : NULL;
  GObject *(*take_pool) (gpointer core) = NULL;
  gpointer core = NULL;

  if (root == NULL || root->suballocation == NULL)
    return NULL;

  /* The pool frees the suballocation once the storage has no users left. The memory is a user until
   * it is released, which takes the lock. Another user would make a concurrent spill fail. */
  _gpu_storage_lock (root);

  if (g_atomic_int_get (&memory->state) != GPU_MEMORY_STATE_RELEASED)
    {
      take_pool = root->suballocation->ops->take_pool;
      core = root->suballocation->ops->ref_core (root);
    }

  _gpu_storage_unlock (root);

  return core != NULL ? take_pool (core) : NULL;
}

static void
gpu_memory_get_property (GObject    *object,
                         guint       id,
                         GValue     *value,
                         GParamSpec *pspec)
{
  GpuMemory *memory = GPU_MEMORY (object);

  switch (id)
    {
    case PROP_CONTEXT:
      g_value_set_object (value, memory->context);
      break;
    case PROP_FLAGS:
      g_value_set_flags (value, memory->flags);
      break;
    case PROP_SIZE:
      g_value_set_uint64 (value, memory->size);
      break;
    case PROP_NATIVE_HANDLE:
      g_value_set_uint64 (value, gpu_memory_get_native_handle (memory));
      break;
    case PROP_DEVICE_ADDRESS:
      g_value_set_uint64 (value, gpu_memory_get_device_address (memory));
      break;
    case PROP_HOST_BYTES:
      g_value_take_boxed (value, gpu_memory_get_host_bytes (memory));
      break;
    case PROP_RELEASED:
      g_value_set_boolean (value, gpu_memory_is_released (memory));
      break;
    case PROP_POOL:
      g_value_take_object (value, ref_pool (memory));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gpu_memory_set_property (GObject      *object,
                         guint         id,
                         const GValue *value,
                         GParamSpec   *pspec)
{
  GpuMemory *memory = GPU_MEMORY (object);

  switch (id)
    {
    case PROP_CONTEXT:
      memory->context = g_value_dup_object (value);
      break;
    case PROP_FLAGS:
      memory->flags = g_value_get_flags (value);
      break;
    case PROP_SIZE:
      memory->size = g_value_get_uint64 (value);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

/* Returns TRUE if the pool that owns the memory keeps the object for reuse. Like g_object_unref(),
 * destroys the signal handlers first; the pool then clears the weak references. The destroy
 * notifies of handlers and weak references may add references to the object, so its reference count
 * is checked after each step. */
static gboolean
recycle (GpuMemory *memory)
{
  GObject *object = G_OBJECT (memory);

  if (memory->storage == NULL || memory->storage->suballocation == NULL
      || g_atomic_int_get (&memory->state) != GPU_MEMORY_STATE_USABLE
      || g_atomic_int_get (&object->ref_count) != 1)
    return FALSE;

  _gpu_signal_handlers_destroy (object);

  return g_atomic_int_get (&object->ref_count) == 1
         && memory->storage->suballocation->ops->recycle (memory);
}

static void
gpu_memory_dispose (GObject *object)
{
  GpuMemory *memory = GPU_MEMORY (object);

  if (recycle (memory))
    return;

  G_OBJECT_CLASS (gpu_memory_parent_class)->dispose (object);
}

static void
gpu_memory_finalize (GObject *object)
{
  GpuMemory *memory = GPU_MEMORY (object);

  if (memory->storage != NULL)
    {
      if (g_atomic_int_get (&memory->state) != GPU_MEMORY_STATE_RELEASED)
        _gpu_storage_unuse (memory->storage);

      _gpu_storage_unref (memory->storage);
    }

  g_clear_pointer (&memory->spilled, g_bytes_unref);
  g_mutex_clear (&memory->content_lock);
  g_clear_pointer (&memory->host_bytes, g_bytes_unref);
  g_clear_object (&memory->context);

  G_OBJECT_CLASS (gpu_memory_parent_class)->finalize (object);
}

static void
install_construct_properties (void)
{
  /**
   * GpuMemory:context:
   *
   * The context that the memory belongs to.
   *
   * Since: 0.1
   */
  props[PROP_CONTEXT] =
    g_param_spec_object ("context", NULL, NULL, GPU_TYPE_CONTEXT,
                         G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS);
  /**
   * GpuMemory:flags:
   *
   * The intended use of the memory.
   *
   * Since: 0.1
   */
  props[PROP_FLAGS] =
    g_param_spec_flags ("flags", NULL, NULL, GPU_TYPE_MEMORY_FLAGS, GPU_MEMORY_FLAGS_NONE,
                        G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS);
  /**
   * GpuMemory:size:
   *
   * The size in bytes.
   *
   * Since: 0.1
   */
  props[PROP_SIZE] =
    g_param_spec_uint64 ("size", NULL, NULL, 0, G_MAXSIZE, 0,
                         G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS);
}

static void
install_properties (GObjectClass *object_class)
{
  install_construct_properties ();
  /**
   * GpuMemory:native-handle:
   *
   * The driver's handle, see gpu_memory_get_native_handle().
   *
   * Since: 0.1
   */
  props[PROP_NATIVE_HANDLE] =
    g_param_spec_uint64 ("native-handle", NULL, NULL, 0, G_MAXUINT64, 0,
                         G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);
  /**
   * GpuMemory:device-address:
   *
   * The address that kernels use, or 0 if the driver does not report this address.
   *
   * Since: 0.1
   */
  props[PROP_DEVICE_ADDRESS] =
    g_param_spec_uint64 ("device-address", NULL, NULL, 0, G_MAXUINT64, 0,
                         G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);
  /**
   * GpuMemory:host-bytes:
   *
   * The host memory that the memory object uses in place, or %NULL if it uses none or is released.
   *
   * Since: 0.1
   */
  props[PROP_HOST_BYTES] =
    g_param_spec_boxed ("host-bytes", NULL, NULL, G_TYPE_BYTES,
                        G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);
  /**
   * GpuMemory:pool:
   *
   * The #GpuMemoryPool that allocated the memory, or the memory that contains this slice. %NULL for
   * memory of another allocator, for released memory, and after the pool was finalized.
   *
   * Since: 0.1
   */
  props[PROP_POOL] = g_param_spec_object ("pool", NULL, NULL, G_TYPE_OBJECT,
                                          G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);
  /**
   * GpuMemory:released:
   *
   * Whether the memory was released, see gpu_memory_is_released(). Other properties, such as the
   * native handle, change at the same time without a #GObject::notify of their own.
   *
   * Since: 0.1
   */
  props[PROP_RELEASED] =
    g_param_spec_boolean ("released", NULL, NULL, FALSE,
                          G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);

  g_object_class_install_properties (object_class, N_PROPS, props);
}

static void
gpu_memory_class_init (GpuMemoryClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->get_property = gpu_memory_get_property;
  object_class->set_property = gpu_memory_set_property;
  object_class->dispose = gpu_memory_dispose;
  object_class->finalize = gpu_memory_finalize;

  install_properties (object_class);

  /**
   * GpuMemory::released:
   * @memory: the memory
   *
   * Emitted once per object, by gpu_memory_release() on the thread that called it. The last
   * g_object_unref() does not emit the signal: use g_object_weak_ref() to learn of it.
   *
   * Since: 0.1
   */
  signals[RELEASED] =
    g_signal_new ("released", GPU_TYPE_MEMORY, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL,
                  G_TYPE_NONE, 0);
}

static void
gpu_memory_init (GpuMemory *memory)
{
  g_mutex_init (&memory->content_lock);
}

void
_gpu_memory_set_storage (GpuMemory  *memory,
                         GpuStorage *storage)
{
  const GpuMemoryOps *ops = storage->context->backend->memory;
  GpuNativeMemory *native = storage->buffer;
  guint8 *host_data = native->host != NULL ? native->host : native->in_place;

  /* When a pool attaches new memory to a recycled or spilled object, other threads may read these
   * fields without a lock: writing them only if they change avoids a data race. */
  if (memory->storage != storage || memory->size != storage->size
      || memory->flags != storage->flags || memory->is_constant != storage->is_constant
      || memory->is_image != native->is_image
      || memory->has_host_data != (native->host != NULL))
    {
      memory->storage = storage;
      memory->size = storage->size;
      memory->span = storage->size;
      memory->flags = storage->flags;
      memory->is_constant = storage->is_constant;
      memory->is_image = native->is_image;
      memory->has_host_data = native->host != NULL;
    }

  g_atomic_pointer_set (&memory->host_data, host_data);
  memory->handle = ops->get_handle (native);
  memory->address = ops->get_address (native);
}

void
_gpu_memory_set_constant (GpuMemory *memory)
{
  memory->flags |= GPU_MEMORY_FLAGS_READ_ONLY | GPU_MEMORY_FLAGS_HOST_READ_ONLY;
  memory->storage->flags = memory->flags;
  memory->storage->is_constant = TRUE;
  memory->is_constant = TRUE;
}

static const char *
get_kind (GpuMemory *memory)
{
  return GPU_IS_BUFFER (memory) ? "buffer" : GPU_IS_IMAGE (memory) ? "image"
         : GPU_IS_SVM (memory) ? "shared virtual memory" : "host memory";
}

char *
_gpu_memory_describe (GpuMemory *memory)
{
  GString *text = g_string_new (get_kind (memory));

  g_string_append_printf (text, " of %" G_GSIZE_FORMAT " bytes", memory->size);

  if (GPU_IS_BUFFER (memory) && gpu_buffer_get_offset ((GpuBuffer *) memory) > 0)
    g_string_append_printf (text, " at offset %" G_GSIZE_FORMAT,
                            gpu_buffer_get_offset ((GpuBuffer *) memory));

  return g_string_free (text, FALSE);
}

gboolean
_gpu_memory_fail_in_state (GpuMemory       *memory,
                           GpuMemoryState   state,
                           const char      *function,
                           GError         **error)
{
  g_autofree char *what = _gpu_memory_describe (memory);

  if (memory->storage == NULL)
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                 "%s: the %s was never initialised", function, get_kind (memory));
  else if (state == GPU_MEMORY_STATE_RELEASED)
    g_set_error (error, GPU_ERROR, GPU_ERROR_RELEASED,
                 "%s: the %s was released before", function, what);
  else if (state == GPU_MEMORY_STATE_SPILLED)
    g_set_error (error, GPU_ERROR, GPU_ERROR_BUSY,
                 "%s: the %s is spilled to the host; gpu_buffer_unspill() restores it", function,
                 what);
  else /* being moved, or usable again since the caller checked the state */
    g_set_error (error, GPU_ERROR, GPU_ERROR_BUSY,
                 "%s: another thread or an outer call spills or restores the %s; retry after that "
                 "call", function, what);

  return FALSE;
}

gboolean
_gpu_memory_fail (GpuMemory   *memory,
                  const char  *function,
                  GError     **error)
{
  return _gpu_memory_fail_in_state (memory, (GpuMemoryState) g_atomic_int_get (&memory->state),
                                    function, error);
}

GpuStorage *
_gpu_memory_acquire (GpuMemory   *memory,
                     const char  *function,
                     GError     **error)
{
  gboolean usable;

  /* Check without the lock first. A thread that spills the memory holds the lock while the driver
   * reads the contents, so the caller would block until the driver has finished. */
  if (!_gpu_memory_check (memory, function, error))
    return NULL;

  _gpu_storage_lock (memory->storage->root);
  usable = _gpu_memory_check (memory, function, error);

  if (usable)
    _gpu_storage_use (memory->storage);

  _gpu_storage_unlock (memory->storage->root);

  return usable ? memory->storage : NULL;
}

GBytes *
_gpu_memory_ref_spilled_slowly (GpuMemory *memory)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&memory->content_lock);

  return memory->spilled != NULL ? g_bytes_ref (memory->spilled) : NULL;
}

gboolean
_gpu_memory_was_moved (GpuMemory  *memory,
                       gint        n_moves,
                       GError    **failure)
{
  if (!g_error_matches (*failure, GPU_ERROR, GPU_ERROR_BUSY)
      || (g_atomic_int_get (&memory->state) < GPU_MEMORY_STATE_MOVING
          && g_atomic_int_get (&memory->n_moves) == n_moves))
    return FALSE;

  g_clear_error (failure);

  return TRUE;
}

gboolean
_gpu_memory_check_bounds (GpuMemory   *memory,
                          const char  *function,
                          const char  *what,
                          gsize        offset,
                          gsize        size,
                          GError     **error)
{
  if (!memory->is_image && offset <= memory->size && size <= memory->size - offset)
    return TRUE;

  if (memory->is_image)
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                 "%s: the %s is an image, which requires regions of texels, not %"
                 G_GSIZE_FORMAT " bytes from offset %" G_GSIZE_FORMAT, function, what, size,
                 offset);
  else
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                 "%s: offset %" G_GSIZE_FORMAT " + size %" G_GSIZE_FORMAT " exceeds the %"
                 G_GSIZE_FORMAT " bytes of the %s", function, offset, size, memory->size, what);

  return FALSE;
}

gboolean
_gpu_memory_check_range_slowly (GpuMemory   *memory,
                                const char  *function,
                                const char  *what,
                                gsize        offset,
                                gsize        size,
                                GError     **error)
{
  return _gpu_memory_check (memory, function, error)
         && _gpu_memory_check_bounds (memory, function, what, offset, size, error);
}

gboolean
_gpu_memory_inherit_flags (GpuMemory       *parent,
                           const char      *function,
                           GpuMemoryFlags  *flags,
                           GError         **error)
{
  const GpuMemoryFlags device = GPU_MEMORY_FLAGS_READ_ONLY | GPU_MEMORY_FLAGS_WRITE_ONLY;
  const GpuMemoryFlags host = GPU_MEMORY_FLAGS_HOST_READ_ONLY | GPU_MEMORY_FLAGS_HOST_WRITE_ONLY
                              | GPU_MEMORY_FLAGS_HOST_NO_ACCESS;
  const GpuMemoryFlags of_device = parent->flags & device;
  const GpuMemoryFlags of_host = parent->flags & host;
  const GpuMemoryFlags given = *flags;
  g_autofree char *text = NULL;
  g_autofree char *of_parent = NULL;

  if ((given & device) == 0)
    *flags |= of_device;

  if ((given & host) == 0)
    *flags |= of_host;

  if ((given & ~(device | host)) == 0 && (of_device == 0 || (*flags & device) == of_device)
      && (of_host == 0 || (*flags & host) == of_host
          || (*flags & host) == GPU_MEMORY_FLAGS_HOST_NO_ACCESS))
    {
      *flags |= parent->flags & ~(device | host);
      return TRUE;
    }

  text = _gpu_flags_get_nicks (GPU_TYPE_MEMORY_FLAGS, given);
  of_parent = _gpu_flags_get_nicks (GPU_TYPE_MEMORY_FLAGS, parent->flags);
  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: the memory flags %s exceed those of the parent, %s", function, text,
               of_parent);

  return FALSE;
}

gboolean
_gpu_memory_fail_host (GpuMemory   *memory,
                       const char  *function,
                       gboolean     write,
                       GError     **error)
{
  g_autofree char *text = _gpu_flags_get_nicks (GPU_TYPE_MEMORY_FLAGS, memory->flags);

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: the flags of the memory, %s, forbid the host to %s it", function, text,
               write ? "write" : "read");

  return FALSE;
}

/* If the allocation fails for lack of memory, frees unused staging memory and tries again. If that
 * fails too, emits GpuContext::memory-pressure, whose handlers may free memory, and tries again. */
GpuNativeMemory *
_gpu_memory_allocate (GpuContext       *context,
                      const char       *function,
                      gsize             size,
                      GpuAllocateFunc   func,
                      gpointer          data,
                      GError          **error)
{
  GpuNativeContext *native = _gpu_context_get_native (context);
  g_autoptr (GError) failure = NULL;
  GpuNativeMemory *memory = func (native, data, &failure);

  if (memory == NULL && _gpu_error_is_out_of_memory (failure)
      && _gpu_transfer_trim (native, 0))
    {
      g_clear_error (&failure);
      memory = func (native, data, &failure);
    }

  if (memory == NULL && _gpu_error_is_out_of_memory (failure)
      && _gpu_context_signal_pressure (context, size))
    {
      g_clear_error (&failure);
      memory = func (native, data, &failure);
    }

  if (memory == NULL)
    {
      _gpu_native_context_report (native, failure);
      g_propagate_prefixed_error (error, g_steal_pointer (&failure), "%s: ", function);
    }

  return memory;
}

/**
 * gpu_memory_get_context:
 * @memory: a #GpuMemory
 *
 * Gets the context that @memory belongs to. May be called from any thread.
 *
 * Returns: (transfer none): the context
 *
 * Since: 0.1
 */
GpuContext *
gpu_memory_get_context (GpuMemory *memory)
{
  g_return_val_if_fail (GPU_IS_MEMORY (memory), NULL);

  return memory->context;
}

/**
 * gpu_memory_get_size:
 * @memory: a #GpuMemory
 *
 * Gets the size of @memory. May be called from any thread.
 *
 * Returns: the size in bytes
 *
 * Since: 0.1
 */
gsize
gpu_memory_get_size (GpuMemory *memory)
{
  g_return_val_if_fail (GPU_IS_MEMORY (memory), 0);

  return memory->size;
}

/**
 * gpu_memory_get_flags:
 * @memory: a #GpuMemory
 *
 * Gets the intended use of @memory. May be called from any thread.
 *
 * Returns: the flags
 *
 * Since: 0.1
 */
GpuMemoryFlags
gpu_memory_get_flags (GpuMemory *memory)
{
  g_return_val_if_fail (GPU_IS_MEMORY (memory), GPU_MEMORY_FLAGS_NONE);

  return memory->flags;
}

/**
 * gpu_memory_get_native_handle:
 * @memory: a #GpuMemory
 *
 * Gets the driver's own handle. On OpenCL, this is a cl_mem. On CUDA, it is a CUarray or
 * CUmipmappedArray for an image with memory of its own. For all other memory on CUDA, and on the
 * host back end, the handle is the address of the memory. @memory owns the handle: do not free it,
 * and do not use it after @memory was released or finalized.
 *
 * On OpenCL, the handle of a #GpuHostMemory that kernels cannot access is a cl_mem that stays
 * mapped, so no command may use this cl_mem. If OpenCL has no object for the memory, the handle is
 * the address of the memory. May be called from any thread.
 *
 * Returns: the handle, or 0 if @memory is released or spilled
 *
 * Since: 0.1
 */
guint64
gpu_memory_get_native_handle (GpuMemory *memory)
{
  g_return_val_if_fail (GPU_IS_MEMORY (memory), 0);

  return g_atomic_int_get (&memory->state) == GPU_MEMORY_STATE_USABLE ? memory->handle : 0;
}

/**
 * gpu_memory_get_device_address:
 * @memory: a #GpuMemory
 *
 * Gets the address that kernels use to access @memory (CUDA: cuMemHostGetDevicePointer for host
 * memory). On the host back end, the host uses the same address. On OpenCL the following memory has
 * an address:
 *
 * - #GpuSvm, where host and device use the same address
 * - #GpuHostMemory with %GPU_HOST_MEMORY_FLAGS_MAPPED
 * - a #GpuBuffer in a context with a single device, if the device supports version 1.0.0 of
 *   cl_ext_buffer_device_address
 *
 * On OpenCL, the following buffers never have an address: buffers over host memory or with
 * %GPU_MEMORY_FLAGS_ALLOC_HOST, buffers imported from file descriptors, and wrapped buffers that
 * were created without the property `CL_MEM_DEVICE_PRIVATE_ADDRESS_EXT`.
 *
 * May be called from any thread.
 *
 * Returns: the address, or 0 if the driver does not report it, if kernels cannot access @memory, or
 *   if @memory is released or spilled
 *
 * Since: 0.1
 */
guint64
gpu_memory_get_device_address (GpuMemory *memory)
{
  g_return_val_if_fail (GPU_IS_MEMORY (memory), 0);

  return g_atomic_int_get (&memory->state) == GPU_MEMORY_STATE_USABLE ? memory->address : 0;
}

/**
 * gpu_memory_get_host_bytes:
 * @memory: a #GpuMemory
 *
 * Gets the host memory that @memory uses in place: the bytes that were passed to
 * gpu_buffer_new_for_host_bytes(), gpu_image_new_for_host_bytes(), gpu_svm_new_for_bytes() or
 * gpu_host_memory_new_registered(). A slice of such memory has its part of these bytes. May be
 * called from any thread.
 *
 * Returns: (transfer full) (nullable): the bytes, or %NULL if @memory uses no such bytes or was
 *   released
 *
 * Since: 0.1
 */
GBytes *
gpu_memory_get_host_bytes (GpuMemory *memory)
{
  g_autoptr (GMutexLocker) locker = NULL;

  g_return_val_if_fail (GPU_IS_MEMORY (memory), NULL);

  locker = g_mutex_locker_new (&memory->content_lock);

  return memory->host_bytes != NULL ? g_bytes_ref (memory->host_bytes) : NULL;
}

/* Inserts a size that the driver does not report, or reports as 0. */
static void
insert_size (GVariantDict *dict,
             const char   *name,
             guint64       size)
{
  guint64 reported = 0;

  if (!g_variant_dict_lookup (dict, name, "t", &reported) || reported == 0)
    g_variant_dict_insert (dict, name, "t", size);
}

/* Adds the attributes that OpenCL has for images, so that each back end has them, with OpenCL's
 * values: sizes of dimensions that the image lacks are 0. Reads the properties of GpuImage, because
 * this file must not depend on its subclasses. */
static void
add_image_attributes (GpuMemory    *memory,
                      GVariantDict *dict)
{
  g_autoptr (GpuImageFormat) format = NULL;
  g_autofree char *text = NULL;
  GpuImageType type;
  guint64 width, height, depth, layers, row_pitch, slice_pitch, texel_size;
  guint levels;
  guint n_dims;

  g_object_get (memory, "format", &format, "image-type", &type, "width", &width, "height", &height,
                "depth", &depth, "n-layers", &layers, "n-levels", &levels, "row-pitch", &row_pitch,
                "slice-pitch", &slice_pitch, "texel-size", &texel_size, NULL);
  n_dims = _gpu_image_type_get_n_dimensions (type);

  if (format != NULL)
    text = gpu_image_format_to_string (format);

  if (text != NULL)
    {
      g_variant_dict_insert (dict, "format", "s", text);
      g_variant_dict_insert (dict, "num-channels", "u", gpu_image_format_get_n_channels (format));
    }

  insert_size (dict, "element-size", texel_size);
  insert_size (dict, "width", width);
  insert_size (dict, "height", n_dims > 1 ? height : 0);
  insert_size (dict, "depth", n_dims > 2 ? depth : 0);
  insert_size (dict, "array-size", _gpu_image_type_has_layers (type) ? layers : 0);
  insert_size (dict, "row-pitch", row_pitch);

  if (type == GPU_IMAGE_TYPE_IMAGE_1D_ARRAY)
    slice_pitch = row_pitch;
  else if (n_dims < 3 && !_gpu_image_type_has_layers (type))
    slice_pitch = 0;

  insert_size (dict, "slice-pitch", slice_pitch);

  if (!g_variant_dict_contains (dict, "num-mip-levels"))
    g_variant_dict_insert (dict, "num-mip-levels", "u", levels > 1 ? levels : 0);

  if (!g_variant_dict_contains (dict, "num-samples"))
    g_variant_dict_insert (dict, "num-samples", "u", 0);
}

/**
 * gpu_memory_get_attributes:
 * @memory: a #GpuMemory
 * @error: return location for an error
 *
 * Gets all attributes of @memory as a dictionary. The keys are `size`, `native-handle`,
 * `device-address`, `flags`, and the names of the attributes that the driver reports, such as
 * `native-flags`, `map-count` or `reference-count` (OpenCL: clGetMemObjectInfo, clGetImageInfo;
 * CUDA: cuPointerGetAttributes). May be called from any thread; does not block.
 *
 * Images of every back end have the keys `format`, `num-channels`, `element-size`, `width`,
 * `height`, `depth`, `array-size`, `row-pitch`, `slice-pitch`, `num-mip-levels` and `num-samples`.
 * As in OpenCL, the height, depth, array size and slice pitch are 0 if the image lacks that
 * dimension. The properties of #GpuImage are 1 then.
 *
 * Returns: (transfer full): a dictionary of type `a{sv}`, or %NULL with
 *   %GPU_ERROR_RELEASED if @memory was released, or with the driver's error
 *
 * Since: 0.1
 */
GVariant *
gpu_memory_get_attributes (GpuMemory  *memory,
                           GError    **error)
{
  g_auto (GVariantDict) dict = G_VARIANT_DICT_INIT (NULL);
  GpuStorage *storage;
  gboolean success;

  g_return_val_if_fail (GPU_IS_MEMORY (memory), NULL);

  storage = _gpu_memory_acquire (memory, "gpu_memory_get_attributes", error);

  if (storage == NULL)
    return NULL;

  success = storage->context->backend->memory->get_attributes (storage->context, storage->buffer,
                                                               &dict, error);
  _gpu_storage_unuse (storage);

  if (!success)
    {
      g_prefix_error (error, "gpu_memory_get_attributes: ");
      return NULL;
    }

  g_variant_dict_insert (&dict, "size", "t", (guint64) memory->size);
  g_variant_dict_insert (&dict, "flags", "u", (guint32) memory->flags);
  g_variant_dict_insert (&dict, "native-handle", "t", memory->handle);
  g_variant_dict_insert (&dict, "device-address", "t", memory->address);

  if (memory->is_image)
    add_image_attributes (memory, &dict);

  return g_variant_ref_sink (g_variant_dict_end (&dict));
}

/**
 * gpu_memory_release:
 * @memory: a #GpuMemory
 *
 * Releases the memory, even if other code holds references to @memory. Work that was submitted
 * earlier continues. When the last of that work has completed, the driver's memory is freed, and
 * the reference to the bytes of the host that @memory uses in place is dropped. Every later use of
 * @memory fails with %GPU_ERROR_RELEASED. Slices and mappings of @memory remain usable and keep the
 * driver's memory alive. Releasing @memory again has no effect. May be called from any thread; does
 * not block.
 *
 * Since: 0.1
 */
void
gpu_memory_release (GpuMemory *memory)
{
  g_autoptr (GBytes) contents = NULL;
  g_autoptr (GBytes) host_bytes = NULL;
  GpuMemoryState before;

  g_return_if_fail (GPU_IS_MEMORY (memory));

  if (memory->storage == NULL)
    return;

  _gpu_storage_lock (memory->storage->root);
  before = (GpuMemoryState) g_atomic_int_get (&memory->state);
  g_atomic_int_set (&memory->state, GPU_MEMORY_STATE_RELEASED);
  _gpu_storage_unlock (memory->storage->root);

  if (before == GPU_MEMORY_STATE_RELEASED)
    return;

  /* While another thread spills or restores the memory, that thread still needs the storage and
   * the contents. In this case, end_move() in gpu-buffer-spill.c releases them. */
  if (before != GPU_MEMORY_STATE_SPILLING && before != GPU_MEMORY_STATE_MOVING)
    _gpu_storage_unuse (memory->storage);

  if (memory->host_bytes != NULL || before == GPU_MEMORY_STATE_SPILLED)
    {
      g_mutex_lock (&memory->content_lock);
      host_bytes = g_steal_pointer (&memory->host_bytes);
      if (before == GPU_MEMORY_STATE_SPILLED)
        contents = g_steal_pointer (&memory->spilled);
      g_mutex_unlock (&memory->content_lock);
    }

  /* A handler may drop the program's last reference. */
  g_object_ref (memory);
  g_signal_emit (memory, signals[RELEASED], 0);
  g_object_notify_by_pspec (G_OBJECT (memory), props[PROP_RELEASED]);
  g_object_unref (memory);
}

/**
 * gpu_memory_is_released:
 * @memory: a #GpuMemory
 *
 * Gets whether @memory was released, by gpu_memory_release(). May be called from any thread.
 *
 * Returns: %TRUE if @memory was released
 *
 * Since: 0.1
 */
gboolean
gpu_memory_is_released (GpuMemory *memory)
{
  g_return_val_if_fail (GPU_IS_MEMORY (memory), FALSE);

  return g_atomic_int_get (&memory->state) == GPU_MEMORY_STATE_RELEASED;
}

/* Returns whether @a and @b interpret their memory as images of the same type, format and size. */
static gboolean
is_image_alike (GpuImage *a,
                GpuImage *b)
{
  const GpuImageDescription *one = &a->description;
  const GpuImageDescription *other = &b->description;

  return one->type == other->type && gpu_image_format_equal (&one->format, &other->format)
         && gpu_extent_equal (&one->extent, &other->extent);
}

/* Returns whether @a and @b refer to the same memory. The handles of two OpenCL sub-buffers of the
 * same range differ. The identities must be equal because gpu_memory_hash() depends on them. */
static gboolean
is_same_memory (GpuMemory *a,
                GpuMemory *b)
{
  GpuStorage *one = a->storage;
  GpuStorage *other = b->storage;

  return one->context->backend == other->context->backend && one->identity == other->identity
         && (a->handle == b->handle
             || (!a->is_image && one->root == other->root && one->offset == other->offset));
}

/**
 * gpu_memory_equal:
 * @a: a #GpuMemory
 * @b: a #GpuMemory
 *
 * Compares two memory objects. They are equal if they refer to the same memory of the same driver
 * and interpret it in the same way. The function compares memory and sizes, and also formats, types
 * and extents of images. An object is equal to an object of the same context that wraps its handle.
 * Slices of the same range are equal, and a slice of a whole buffer is equal to that buffer, on
 * every back end. A buffer is not equal to an image over that buffer. Released or spilled memory is
 * equal only to itself. If gpu_buffer_unspill() has restored a buffer, objects that wrap its new
 * handle, or the handle of a new slice, may not be equal to it. On OpenCL, an object that wraps a
 * buffer of a pool is not equal to slices of the whole buffer. May be called from any thread.
 *
 * Returns: %TRUE if @a and @b are equal
 *
 * Since: 0.1
 */
gboolean
gpu_memory_equal (GpuMemory *a,
                  GpuMemory *b)
{
  g_return_val_if_fail (GPU_IS_MEMORY (a), FALSE);
  g_return_val_if_fail (GPU_IS_MEMORY (b), FALSE);

  if (a == b)
    return TRUE;

  if (a->storage == NULL || b->storage == NULL
      || g_atomic_int_get (&a->state) != GPU_MEMORY_STATE_USABLE
      || g_atomic_int_get (&b->state) != GPU_MEMORY_STATE_USABLE)
    return FALSE;

  return is_same_memory (a, b)
         && a->size == b->size && a->is_image == b->is_image
         && (!a->is_image || is_image_alike ((GpuImage *) a, (GpuImage *) b));
}

/**
 * gpu_memory_hash:
 * @memory: a #GpuMemory
 *
 * Computes a hash that is consistent with gpu_memory_equal(). The hash does not change while
 * @memory exists: neither gpu_memory_release() nor gpu_buffer_spill() changes it. May be called
 * from any thread.
 *
 * Returns: the hash
 *
 * Since: 0.1
 */
guint
gpu_memory_hash (GpuMemory *memory)
{
  gint64 identity;

  g_return_val_if_fail (GPU_IS_MEMORY (memory), 0);

  identity = memory->storage != NULL ? (gint64) memory->storage->identity : 0;

  return g_int64_hash (&identity);
}
