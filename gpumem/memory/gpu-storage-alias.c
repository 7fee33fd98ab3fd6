/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Aliases: storages of the same memory, which exist if the program imports or wraps memory
 * repeatedly, or wraps memory that this library allocated. The context has a table of root storages
 * by GpuAliasKey.id, which identifies the memory. A later storage of the same memory finds the
 * root in this table, and the root tracks the uses of both storages.
 */
#include "config.h"

#include "gpumem/memory/gpu-storage-private.h"

static gboolean
covers (const GpuStorage *storage,
        gsize             offset)
{
  return offset >= storage->offset && offset - storage->offset < storage->size;
}

/* Caller holds the lock of the context. */
static GpuStorage *
find_locked (GHashTable        *aliases,
             const GpuAliasKey *alias_key,
             gsize             *offset)
{
  GpuStorage *found = NULL;

  if (aliases == NULL)
    return NULL;

  *offset = alias_key->outer_offset;

  if (alias_key->outer != 0)
    found = g_hash_table_lookup (aliases, &alias_key->outer);

  if (found != NULL && covers (found, *offset))
    return found;

  *offset = alias_key->offset;

  return g_hash_table_lookup (aliases, &alias_key->id);
}

/* Makes the caller a user of @storage. Returns FALSE if @storage has no users left. */
static gboolean
try_use (GpuStorage *storage)
{
  gint users = g_atomic_int_get (&storage->users);

  while (users > 0)
    {
      if (g_atomic_int_compare_and_exchange (&storage->users, users, users + 1))
        return TRUE;

      users = g_atomic_int_get (&storage->users);
    }

  return FALSE;
}

static void
register_locked (GpuStorage        *storage,
                 const GpuAliasKey *alias_key)
{
  GpuNativeContext *context = storage->context;

  if (context->aliases == NULL)
    context->aliases = g_hash_table_new (g_int64_hash, g_int64_equal);

  storage->alias_id = alias_key->id;
  storage->offset = alias_key->offset;
  g_hash_table_replace (context->aliases, &storage->alias_id, storage);
}

/* Copies the uses of @released that have not completed to @storage. @released is an earlier storage
 * of the same memory that has no users left. Needs no lock of @storage, because other threads
 * cannot access it yet. */
static void
inherit_uses (GpuStorage *storage,
              GpuStorage *released)
{
  GpuPoint *writer = &released->writer;

  _gpu_storage_lock (released);

  if (_gpu_point_is_pending (writer))
    {
      _gpu_storage_add_use_locked (storage, writer->timeline, writer->seq, TRUE);
      storage->writer_kind = released->writer_kind;

      if (_gpu_point_is_pending (&released->last_write))
        _gpu_point_set (&storage->last_write, released->last_write.timeline,
                        released->last_write.seq);
    }

  if (_gpu_point_is_pending (&released->reader))
    _gpu_storage_add_use_locked (storage, released->reader.timeline, released->reader.seq, FALSE);

  for (guint i = 0; released->readers != NULL && i < released->readers->len; i++)
    {
      const GpuPoint *reader = &g_array_index (released->readers, GpuPoint, i);

      if (_gpu_point_is_pending (reader))
        _gpu_storage_add_use_locked (storage, reader->timeline, reader->seq, FALSE);
    }

  _gpu_storage_unlock (released);
}

/* Makes the registered root of the same memory the root of @storage, or registers @storage as the
 * root. Returns FALSE if the registered root has no users left and its uses were not inherited yet.
 * In that case, sets @released to a new reference to that root. */
static gboolean
alias_or_register (GpuStorage        *storage,
                   const GpuAliasKey *alias_key,
                   GpuStorage       **released)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&storage->context->lock);
  gsize offset;
  GpuStorage *found = find_locked (storage->context->aliases, alias_key, &offset);

  if (found != NULL && try_use (found))
    {
      storage->root = _gpu_storage_ref (found);
      /* Do not copy is_constant of the root: the program may have declared only the first object
       * read-only, although the memory itself can be written. */
      storage->is_constant = found->buffer->is_constant;
      storage->offset = offset;
      storage->identity = found->identity + offset - found->offset;
      return TRUE;
    }

  if (found != NULL && found != *released)
    {
      g_clear_pointer (released, _gpu_storage_unref);
      *released = _gpu_storage_ref (found);
      return FALSE;
    }

  register_locked (storage, alias_key);

  return TRUE;
}

void
_gpu_storage_register_alias (GpuStorage *storage,
                             gboolean    is_new)
{
  const GpuMemoryOps *ops = storage->context->backend->memory;
  g_autoptr (GpuStorage) released = NULL;
  GpuAliasKey alias_key = { 0 };

  if (ops->identify != NULL)
    ops->identify (storage->context, storage->buffer, &alias_key);

  if (alias_key.id == 0)
    return;

  /* The driver has just allocated the memory, so a registered root with the same key belongs to
   * freed memory: replace it. */
  if (is_new)
    {
      g_mutex_lock (&storage->context->lock);
      register_locked (storage, &alias_key);
      g_mutex_unlock (&storage->context->lock);
      return;
    }

  while (!alias_or_register (storage, &alias_key, &released))
    inherit_uses (storage, released);
}

void
_gpu_storage_unregister_alias (GpuStorage *storage)
{
  GpuNativeContext *context = storage->context;

  if (storage->alias_id == 0)
    return;

  g_mutex_lock (&context->lock);

  if (g_hash_table_lookup (context->aliases, &storage->alias_id) == storage)
    g_hash_table_remove (context->aliases, &storage->alias_id);

  g_mutex_unlock (&context->lock);
  storage->alias_id = 0;
}
