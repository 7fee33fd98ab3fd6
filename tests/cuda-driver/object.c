/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tables of live and dead objects. */
#include "config.h"

#include "driver.h"

/* The number of dead objects to remember. */
#define N_DEAD 20000

const char *const object_kinds[N_OBJECT_KINDS] = {
  [OBJECT_CONTEXT] = "context",
  [OBJECT_STREAM] = "stream",
  [OBJECT_EVENT] = "event",
  [OBJECT_MODULE] = "module",
  [OBJECT_FUNCTION] = "function",
  [OBJECT_LINK] = "link state",
  [OBJECT_POOL] = "memory pool",
  [OBJECT_SHARE] = "allocation handle",
  [OBJECT_EXTERNAL] = "external memory",
  [OBJECT_ARRAY] = "array",
  [OBJECT_MIPMAPPED] = "mipmapped array",
  [OBJECT_TEXTURE] = "texture object",
  [OBJECT_SURFACE] = "surface object",
  [OBJECT_GRAPH] = "graph",
  [OBJECT_GRAPH_EXEC] = "executable graph",
  [OBJECT_USER] = "user object",
};

static GHashTable *objects;         /* Object: itself */
static GQueue dead = G_QUEUE_INIT;

gpointer
object_new (gsize       size,
            ObjectKind  kind,
            Context    *context)
{
  Object *object = g_malloc0 (size);
  const Call *call = call_current ();

  if (objects == NULL)
    objects = g_hash_table_new (NULL, NULL);
  object->kind = kind;
  object->context = context;
  object->function = call->function;
  object->number = call->number;
  g_hash_table_add (objects, object);
  return object;
}

/* Marks the object as dead. Frees the structure much later, when no thread can use it any more. */
void
object_kill (gpointer pointer)
{
  Object *object = pointer;

  object->dead = TRUE;
  g_queue_push_tail (&dead, object);
  if (dead.length > N_DEAD)
    {
      Object *oldest = g_queue_pop_head (&dead);

      g_hash_table_remove (objects, oldest);
      g_free (oldest);
    }
}

static CUresult
get_code (ObjectKind kind)
{
  return kind == OBJECT_CONTEXT ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_HANDLE;
}

CUresult
object_check (gconstpointer handle,
              ObjectKind    kind)
{
  const Object *object = handle;

  if (handle == NULL || objects == NULL || !g_hash_table_contains (objects, handle) ||
      object->kind != kind)
    return get_code (kind);
  if (object->dead)
    return misuse (kind == OBJECT_CONTEXT ? CUDA_ERROR_CONTEXT_IS_DESTROYED : get_code (kind),
                   "%s %p, from call %u (%s), was destroyed", object_kinds[kind], handle,
                   object->number, call_names[object->function]);
  if (object->context != NULL && object->context->object.dead)
    return misuse (CUDA_ERROR_CONTEXT_IS_DESTROYED,
                   "%s %p, from call %u (%s): its context was destroyed", object_kinds[kind],
                   handle, object->number, call_names[object->function]);
  return CUDA_SUCCESS;
}

Object *
object_find (guint64 handle)
{
  gpointer object = GSIZE_TO_POINTER (handle);

  return objects != NULL && g_hash_table_contains (objects, object) ? object : NULL;
}

GPtrArray *
object_list (ObjectKind  kind,
             Context    *context)
{
  GPtrArray *list = g_ptr_array_new ();
  GHashTableIter iter;
  gpointer key;

  if (objects == NULL)
    return list;
  g_hash_table_iter_init (&iter, objects);
  while (g_hash_table_iter_next (&iter, &key, NULL))
    {
      const Object *object = key;

      if (!object->dead && (kind == N_OBJECT_KINDS || object->kind == kind) &&
          (context == NULL || object->context == context))
        g_ptr_array_add (list, key);
    }
  return list;
}
