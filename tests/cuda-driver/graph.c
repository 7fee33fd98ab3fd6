/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Graphs of captured work: their launches, the memory that they allocate, and the user objects that
 * they retain. A launch runs the captured operations one after the other, in the order of their
 * calls, which is an order that the waits of the captured streams permit. */
#include "config.h"

#include "driver.h"

/* Shared by a graph and its executable graphs. */
typedef struct
{
  guint      refs;
  GPtrArray *ops;                   /* of Op, which are complete, but whose functions run again */
  GPtrArray *users;                 /* of UserObject */
  GPtrArray *memories;              /* of Memory that the graph allocates */
} Nodes;

struct CUgraph_st
{
  Object  object;
  Nodes  *nodes;
};

struct CUgraphExec_st
{
  Object  object;
  Nodes  *nodes;
  Point  *last;                     /* nullable; the last launch: launches do not overlap */
};

typedef struct CUuserObject_st
{
  Object    object;
  guint     refs;
  CUhostFn  destroy;
  void     *data;
} UserObject;

/* --- nodes ------------------------------------------------------------------------------------ */

static Nodes *
nodes_ref (Nodes *nodes)
{
  nodes->refs++;
  return nodes;
}

static void
drop_user (UserObject *user)
{
  if (--user->refs > 0)
    return;
  call_forbid (TRUE);
  user->destroy (user->data);
  call_forbid (FALSE);
  object_kill (user);
}

static void
free_memories (GPtrArray *memories)
{
  for (guint i = 0; i < memories->len; i++)
    {
      Memory *memory = memories->pdata[i];

      if (!memory->freed)
        pool_note_free (memory);
      if (memory->link == NULL)
        memory_kill (memory);
      memory_unref (memory);
    }
  g_ptr_array_unref (memories);
}

static void
nodes_unref (gpointer pointer)
{
  Nodes *nodes = pointer;

  if (--nodes->refs > 0)
    return;
  g_ptr_array_unref (nodes->ops);
  free_memories (nodes->memories);
  for (guint i = 0; i < nodes->users->len; i++)
    drop_user (nodes->users->pdata[i]);
  g_ptr_array_unref (nodes->users);
  g_free (nodes);
}

Graph *
graph_new (Context *context)
{
  Graph *graph = object_new (sizeof (Graph), OBJECT_GRAPH, context);

  graph->nodes = g_new (Nodes, 1);
  *graph->nodes = (Nodes) { 1, g_ptr_array_new_with_free_func ((GDestroyNotify) op_free),
                            g_ptr_array_new (), g_ptr_array_new () };
  return graph;
}

void
graph_destroy (Graph *graph)
{
  nodes_unref (graph->nodes);
  object_kill (graph);
}

void
graph_add_memory (Graph  *graph,
                  Memory *memory)
{
  if (graph != NULL)
    g_ptr_array_add (graph->nodes->memories, memory_ref (memory));
}

/* Waits and records are left out: operations run in the order of their calls. */
void
graph_add_op (Graph *graph,
              Op    *op)
{
  if (graph != NULL && op->run != NULL)
    g_ptr_array_add (graph->nodes->ops, op);
  else
    op_free (op);
}

ENTRY (cuGraphDestroy, (CUgraph graph), (graph))
{
  TRY (object_check (graph, OBJECT_GRAPH));
  graph_destroy (graph);
  return CUDA_SUCCESS;
}

/* --- launches --------------------------------------------------------------------------------- */

ENTRY (cuGraphInstantiateWithFlags, (CUgraphExec *exec, CUgraph graph, unsigned long long flags),
       (exec, graph, flags))
{
  TRY (object_check (graph, OBJECT_GRAPH));
  if (flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  *exec = object_new (sizeof (struct CUgraphExec_st), OBJECT_GRAPH_EXEC, graph->object.context);
  (*exec)->nodes = nodes_ref (graph->nodes);
  return CUDA_SUCCESS;
}

ENTRY (cuGraphExecDestroy, (CUgraphExec exec), (exec))
{
  TRY (object_check (exec, OBJECT_GRAPH_EXEC));
  nodes_unref (exec->nodes);
  g_clear_pointer (&exec->last, point_unref);
  object_kill (exec);
  return CUDA_SUCCESS;
}

static CUresult
run_nodes (gpointer data)
{
  Nodes *nodes = data;
  CUresult code = CUDA_SUCCESS;

  for (guint i = 0; i < nodes->ops->len && code == CUDA_SUCCESS; i++)
    {
      Op *op = nodes->ops->pdata[i];

      code = op->run (op->data);
    }
  return code;
}

/* Memory from outside of the graph must exist as long as the graph is launched. */
static CUresult
use_memories (Op       *launch,
              const Op *node)
{
  for (guint i = 0; i < node->memories->len; i++)
    {
      Memory *memory = node->memories->pdata[i];

      if (memory->freed && memory->capture == 0)
        return misuse (CUDA_ERROR_INVALID_VALUE, "the graph uses %s 0x%" G_GINT64_MODIFIER
                       "x, from call %u (%s), that was freed", memory_kinds[memory->kind],
                       memory->address, memory->number, call_names[memory->function]);
      op_hold (launch, memory);
    }
  return CUDA_SUCCESS;
}

ENTRY (cuGraphLaunch, (CUgraphExec exec, CUstream handle), (exec, handle))
{
  CUresult code = CUDA_SUCCESS;
  Stream *stream;
  Nodes *nodes;
  Op *op;

  TRY (object_check (exec, OBJECT_GRAPH_EXEC));
  TRY (stream_resolve (handle, &stream));
  if (stream->capture != 0)
    return CUDA_ERROR_NOT_SUPPORTED;
  nodes = exec->nodes;
  op = op_new (run_nodes, nodes_ref (nodes), nodes_unref);
  for (guint i = 0; i < nodes->ops->len && code == CUDA_SUCCESS; i++)
    code = use_memories (op, nodes->ops->pdata[i]);
  if (code != CUDA_SUCCESS)
    {
      point_finish (op->point);
      op_free (op);
      return code;
    }
  op_wait (op, exec->last);
  g_clear_pointer (&exec->last, point_unref);
  exec->last = stream_submit (stream, op);
  return CUDA_SUCCESS;
}

/* --- user objects ----------------------------------------------------------------------------- */

ENTRY (cuUserObjectCreate,
       (CUuserObject *object, void *data, CUhostFn destroy, unsigned int n_references,
        unsigned int flags),
       (object, data, destroy, n_references, flags))
{
  if (destroy == NULL || n_references == 0 || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
    return CUDA_ERROR_INVALID_VALUE;
  *object = object_new (sizeof (UserObject), OBJECT_USER, NULL);
  (*object)->refs = n_references;
  (*object)->destroy = destroy;
  (*object)->data = data;
  return CUDA_SUCCESS;
}

ENTRY (cuGraphRetainUserObject,
       (CUgraph graph, CUuserObject object, unsigned int n_references, unsigned int flags),
       (graph, object, n_references, flags))
{
  TRY (object_check (graph, OBJECT_GRAPH));
  TRY (object_check (object, OBJECT_USER));
  if (n_references != 1)
    return CUDA_ERROR_INVALID_VALUE;
  if (flags != CU_GRAPH_USER_OBJECT_MOVE)
    object->refs++;
  g_ptr_array_add (graph->nodes->users, object);
  return CUDA_SUCCESS;
}

ENTRY (cuUserObjectRelease, (CUuserObject object, unsigned int n_references),
       (object, n_references))
{
  TRY (object_check (object, OBJECT_USER));
  if (n_references != 1)
    return CUDA_ERROR_INVALID_VALUE;
  drop_user (object);
  return CUDA_SUCCESS;
}
