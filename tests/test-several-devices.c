/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* All devices of a back end in one process: copies, hazards, pools, spilling and events between
 * contexts on different devices, and a context of several devices. A back end with one device has
 * three contexts on that device. The test "settings" repeats the tests in other processes, with 2
 * and 4 devices of the stand-in for the CUDA driver, with and without peer access, and with two
 * devices of PoCL. */
#include "config.h"

#include <sys/wait.h>
#include <unistd.h>

#include "cuda-driver/cuda-driver.h"
#include "test-pool-util.h"
#include "test-util.h"

#define MIN_PLACES 3
#define MAX_PLACES 8

#define SIZE  4096
/* Above the size from which the library copies through page-locked memory where there is no peer
 * access. */
#define LARGE ((gsize) 300 * 1024 + 5)

/* One context for each device; the first one is that of the fixture. */
typedef struct
{
  guint       n;
  TestFixture places[MAX_PLACES];
} Group;

static void
add_place (Group *group, GpuDevice *device, GpuContextFlags flags)
{
  TestFixture *place = &group->places[group->n++];
  g_autoptr (GError) error = NULL;

  place->device = device;
  place->context = gpu_context_new (device, flags, &error);
  g_assert_no_error (error);
  place->stream = gpu_context_get_default_stream (place->context);
}

static void
group_init (Group *group, TestFixture *fixture)
{
  const char *backend = gpu_device_get_backend (fixture->device);
  GPtrArray *devices = test_devices ();

  *group = (Group) { .n = 1, .places = { *fixture } };
  for (guint i = 0; i < devices->len && group->n < MAX_PLACES; i++)
    {
      GpuDevice *device = g_ptr_array_index (devices, i);

      if (device != fixture->device && g_str_equal (gpu_device_get_backend (device), backend))
        add_place (group, device, GPU_CONTEXT_FLAGS_NONE);
    }
  while (group->n < MIN_PLACES)
    add_place (group, fixture->device, GPU_CONTEXT_FLAGS_OWN);
}

static void
group_clear (Group *group)
{
  for (guint i = 1; i < group->n; i++)
    {
      g_clear_object (&group->places[i].stream);
      g_clear_object (&group->places[i].context);
    }
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Group, group_clear)

/* Returns whether the device is the first of its back end: the tests use all others, too. */
static gboolean
is_first (TestFixture *fixture)
{
  GPtrArray *devices = test_devices ();

  for (guint i = 0; i < devices->len; i++)
    {
      GpuDevice *device = g_ptr_array_index (devices, i);

      if (device == fixture->device)
        return TRUE;
      if (g_str_equal (gpu_device_get_backend (device), gpu_device_get_backend (fixture->device)))
        break;
    }
  return FALSE;
}

static void
copy (GpuStream *stream, GpuBuffer *to, gsize to_offset, GpuBuffer *from, gsize from_offset,
      gsize size)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (to), to_offset, GPU_MEMORY (from),
                                   from_offset, size, &error), error);
}

static void
fill (GpuStream *stream, GpuBuffer *buffer, gsize offset, gsize size, guint8 value)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), offset, size, &value, 1, &error),
                  error);
}

static void
wait_for (GpuStream *stream, GpuStream *other)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuEvent) event = test_record (other);

  test_assert_ok (gpu_stream_wait_event (stream, event, &error), error);
}

/* Runs @func for each ordered pair of places. */
static void
for_pairs (TestFixture *fixture, void (*func) (TestFixture *here, TestFixture *there))
{
  g_auto (Group) group = { 0 };

  group_init (&group, fixture);
  for (guint i = 0; i < group.n; i++)
    for (guint j = 0; j < group.n; j++)
      if (i != j)
        func (&group.places[i], &group.places[j]);
}

/* --- random operations ------------------------------------------------------------------------ */

#define N_ITEMS   12
#define N_THREADS 3

/* A buffer and the bytes that it must have when all submitted work has completed. */
typedef struct
{
  GpuBuffer *buffer;
  guint      place;
  gsize      size;
  guint8    *model;
  gboolean   is_spilled;
} Item;

typedef struct
{
  Group           group;
  GpuMemoryPool  *pools[MAX_PLACES];
  GMutex          lock;             /* guards `items`, so that the order of the submissions is that
                                     * of the changes of the models */
  Item            items[N_ITEMS];
  guint           n_steps;
} World;

/* A thread has one stream for each place. */
typedef struct
{
  World      *world;
  GRand      *rand;
  GpuStream  *streams[MAX_PLACES];
  guint8     *expected;
  GBytes     *read;                 /* nullable; the contents must be `expected` */
  GpuStream  *reader;
} Worker;

static guint
below (Worker *worker, guint end)
{
  return g_rand_int_range (worker->rand, 0, end);
}

static void
item_new (Worker *worker, Item *item)
{
  World *world = worker->world;
  g_autoptr (GError) error = NULL;
  GpuStream *stream;
  guint8 value = below (worker, 256);

  item->place = below (worker, world->group.n);
  item->size = below (worker, 4) == 0 ? 1 + below (worker, SIZE) : LARGE - below (worker, SIZE);
  item->is_spilled = FALSE;
  stream = worker->streams[item->place];
  if (below (worker, 2) == 0)
    item->buffer = gpu_memory_pool_alloc_buffer (world->pools[item->place], item->size, stream,
                                                 &error);
  else
    item->buffer = gpu_buffer_new (world->group.places[item->place].context,
                                   GPU_MEMORY_FLAGS_NONE, item->size, &error);
  g_assert_no_error (error);
  item->model = g_malloc (item->size);
  memset (item->model, value, item->size);
  fill (stream, item->buffer, 0, item->size, value);
}

static void
item_clear (Item *item)
{
  g_clear_object (&item->buffer);
  g_clear_pointer (&item->model, g_free);
}

static void
item_unspill (Worker *worker, Item *item)
{
  g_autoptr (GError) error = NULL;

  if (item->is_spilled)
    test_assert_ok (gpu_buffer_unspill (item->buffer, worker->streams[item->place], &error), error);
  item->is_spilled = FALSE;
}

static void
step_fill (Worker *worker, Item *item)
{
  gsize offset = below (worker, item->size);
  gsize size = 1 + below (worker, item->size - offset);
  guint8 value = below (worker, 256);

  item_unspill (worker, item);
  fill (worker->streams[item->place], item->buffer, offset, size, value);
  memset (item->model + offset, value, size);
}

static void
step_copy (Worker *worker, Item *from)
{
  Item *to = &worker->world->items[below (worker, N_ITEMS)];
  gsize size = 1 + below (worker, MIN (from->size, to->size));
  gsize from_offset = below (worker, from->size - size + 1);
  gsize to_offset = below (worker, to->size - size + 1);
  guint place = below (worker, 2) == 0 ? from->place : to->place;

  if (from == to)
    return;
  item_unspill (worker, from);
  item_unspill (worker, to);
  copy (worker->streams[place], to->buffer, to_offset, from->buffer, from_offset, size);
  memcpy (to->model + to_offset, from->model + from_offset, size);
}

static void
step_spill (Worker *worker, Item *item)
{
  g_autoptr (GError) error = NULL;

  if (!item->is_spilled
      && gpu_buffer_spill (item->buffer, worker->streams[item->place], &error))
    item->is_spilled = TRUE;
  else if (error != NULL)
    g_assert_true (g_error_matches (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED)
                   || g_error_matches (error, GPU_ERROR, GPU_ERROR_BUSY));
}

/* Work that is submitted later may change the item: begins to read, and notes the bytes. */
static void
step_read (Worker *worker, Item *item)
{
  g_autoptr (GError) error = NULL;

  item_unspill (worker, item);
  worker->reader = worker->streams[item->place];
  worker->read = gpu_stream_read_bytes (worker->reader, GPU_MEMORY (item->buffer), 0, item->size,
                                        &error);
  g_assert_no_error (error);
  memcpy (worker->expected, item->model, item->size);
}

static void
step (Worker *worker)
{
  World *world = worker->world;
  Item *item;

  g_mutex_lock (&world->lock);
  item = &world->items[below (worker, N_ITEMS)];
  switch (below (worker, 10))
    {
    case 0:
      item_clear (item);
      item_new (worker, item);
      break;
    case 1:
      step_fill (worker, item);
      break;
    case 2:
      step_spill (worker, item);
      break;
    case 3:
      step_read (worker, item);
      break;
    case 4:
      wait_for (worker->streams[item->place], worker->streams[below (worker, world->group.n)]);
      break;
    default:
      step_copy (worker, item);
      break;
    }
  g_mutex_unlock (&world->lock);

  if (worker->read == NULL)
    return;
  test_synchronize (worker->reader);
  test_assert_mem (g_bytes_get_data (worker->read, NULL), worker->expected,
                   g_bytes_get_size (worker->read));
  g_clear_pointer (&worker->read, g_bytes_unref);
}

static void
worker_init (Worker *worker, World *world, guint32 seed)
{
  *worker = (Worker) { .world = world, .rand = g_rand_new_with_seed (seed),
                       .expected = g_malloc (LARGE) };
  for (guint i = 0; i < world->group.n; i++)
    worker->streams[i] = test_stream (&world->group.places[i], GPU_STREAM_FLAGS_NON_BLOCKING);
}

static void
worker_clear (Worker *worker)
{
  for (guint i = 0; i < worker->world->group.n; i++)
    g_clear_object (&worker->streams[i]);
  g_rand_free (worker->rand);
  g_free (worker->expected);
}

static gpointer
work (gpointer data)
{
  Worker *worker = data;

  for (guint i = 0; i < worker->world->n_steps; i++)
    step (worker);
  return NULL;
}

static void
check_items (Worker *worker)
{
  for (guint i = 0; i < N_ITEMS; i++)
    {
      Item *item = &worker->world->items[i];
      g_autoptr (GBytes) content = NULL;

      item_unspill (worker, item);
      content = test_content (item->buffer);
      test_assert_mem (g_bytes_get_data (content, NULL), item->model, item->size);
      item_clear (item);
    }
}

/* Threads copy, fill, spill, read, drop and wait in all contexts: the bytes are those of the
 * model. */
static void
random_operations (TestFixture *fixture)
{
  World world = { .n_steps = g_test_slow () ? 5000 : 150 };
  Worker workers[N_THREADS];
  GThread *threads[N_THREADS];

  g_mutex_init (&world.lock);
  group_init (&world.group, fixture);
  for (guint i = 0; i < world.group.n; i++)
    {
      g_autoptr (GError) error = NULL;

      world.pools[i] = gpu_memory_pool_new (world.group.places[i].context,
                                            GPU_MEMORY_POOL_AUTOMATIC,
                                            g_test_rand_int_range (0, 2) == 0
                                            ? GPU_MEMORY_FLAGS_NONE : GPU_MEMORY_FLAGS_ALLOC_HOST,
                                            &error);
      g_assert_no_error (error);
    }
  for (guint i = 0; i < N_THREADS; i++)
    worker_init (&workers[i], &world, g_test_rand_int ());
  for (guint i = 0; i < N_ITEMS; i++)
    item_new (&workers[0], &world.items[i]);
  for (guint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("random", work, &workers[i]);
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
  check_items (&workers[0]);
  for (guint i = 0; i < N_THREADS; i++)
    worker_clear (&workers[i]);
  for (guint i = 0; i < world.group.n; i++)
    g_clear_object (&world.pools[i]);
  group_clear (&world.group);
  g_mutex_clear (&world.lock);
}

/* Pools map page-locked memory only for their device, the host, and devices with access. */
static void
copy_pool_of_host (TestFixture *here, TestFixture *there)
{
  static const gsize sizes[] = { SIZE, LARGE };
  g_autoptr (GpuMemoryPool) pool = test_pool_of_host (there);

  for (gsize i = 0; pool != NULL && i < G_N_ELEMENTS (sizes); i++)
    {
      g_autoptr (GBytes) bytes = test_random_bytes (sizes[i]);
      g_autoptr (GpuBuffer) from = test_buffer_from (here, bytes);
      g_autoptr (GpuBuffer) on_host = test_pool_take (pool, sizes[i], there->stream);
      g_autoptr (GpuBuffer) to = test_buffer (here, sizes[i]);

      copy (here->stream, on_host, 0, from, 0, sizes[i]);
      copy (here->stream, to, 0, on_host, 0, sizes[i]);
      test_assert_content (to, bytes);
    }
}

static void
pools_of_host (TestFixture *fixture)
{
  for_pairs (fixture, copy_pool_of_host);
}

/* --- events ----------------------------------------------------------------------------------- */

/* The library does not order the uses of untracked memory: only the event does. */
static void
event_orders (TestFixture *here, TestFixture *there)
{
  const GpuMemoryFlags untracked = GPU_MEMORY_FLAGS_UNTRACKED;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) near = test_stream (here, GPU_STREAM_FLAGS_NON_BLOCKING);
  g_autoptr (GpuStream) far = test_stream (there, GPU_STREAM_FLAGS_NON_BLOCKING);
  g_autoptr (GpuBuffer) from = gpu_buffer_new (here->context, untracked, LARGE, &error);
  g_autoptr (GpuBuffer) to = gpu_buffer_new (there->context, untracked, LARGE, &error);
  g_autoptr (TestHold) hold = NULL;
  g_autoptr (GBytes) content = NULL;

  g_assert_no_error (error);
  fill (near, from, 0, LARGE, 1);
  test_synchronize (near);
  hold = test_hold (near);
  fill (near, from, 0, LARGE, 2);
  wait_for (far, near);
  copy (far, to, 0, from, 0, LARGE);
  test_hold_release (hold);
  test_synchronize (far);
  content = test_content (to);
  test_assert_value (g_bytes_get_data (content, NULL), 2, LARGE);
}

static void
events (TestFixture *fixture)
{
  for_pairs (fixture, event_orders);
}

/* --- failure ---------------------------------------------------------------------------------- */

static void
assert_fails (GpuStream *stream)
{
  g_autoptr (GError) error = NULL;

  g_assert_false (gpu_stream_synchronize (stream, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "no copy today");
}

/* A copy that fails also fails in the stream of the other device that reads the destination. */
static void
failure_reaches (TestFixture *here, TestFixture *there)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) near = test_stream (here, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) far = test_stream (there, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GBytes) bytes = test_random_bytes (LARGE);
  g_autoptr (GpuBuffer) from = test_buffer_from (here, bytes);
  g_autoptr (GpuBuffer) to = test_buffer (there, LARGE);
  g_autoptr (GpuBuffer) last = test_buffer (there, LARGE);
  g_autoptr (GpuEvent) gate = test_gate (here, near);

  copy (near, to, 0, from, 0, LARGE);
  copy (far, last, 0, to, 0, LARGE);
  test_assert_ok (gpu_event_fail (gate, "no copy today", &error), error);
  assert_fails (far);
  assert_fails (near);
  copy (near, to, 0, from, 0, LARGE);
  copy (far, last, 0, to, 0, LARGE);
  test_assert_content (last, bytes);
}

static void
failure (TestFixture *fixture)
{
  for_pairs (fixture, failure_reaches);
}

/* --- lifetimes -------------------------------------------------------------------------------- */

/* Drops the source, all contexts but one, and all streams while a chain of copies is pending. */
static void
dropped (TestFixture *fixture)
{
  g_autoptr (GBytes) bytes = test_random_bytes (LARGE);
  g_autoptr (GpuBuffer) last = test_buffer (fixture, LARGE);
  g_auto (Group) group = { 0 };
  g_autoptr (TestHold) hold = NULL;
  g_autoptr (GpuBuffer) from = NULL;

  hold = test_hold (fixture->stream);
  group_init (&group, fixture);
  from = test_buffer_from (&group.places[group.n - 1], bytes);
  for (guint i = group.n - 1; i > 0; i--)
    {
      g_autoptr (GpuStream) stream = test_stream (&group.places[i], GPU_STREAM_FLAGS_NONE);
      g_autoptr (GpuBuffer) to = i > 1 ? test_buffer (&group.places[i - 1], LARGE)
                                       : g_object_ref (last);

      wait_for (stream, fixture->stream);
      copy (stream, to, 0, from, 0, LARGE);
      g_set_object (&from, to);
    }
  g_clear_object (&from);
  group_clear (&group);
  group.n = 0;
  test_hold_release (hold);
  test_assert_content (last, bytes);
}

/* --- spilling --------------------------------------------------------------------------------- */

static gpointer
spill_in_thread (gpointer data)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_buffer_spill (data, NULL, &error), error);
  return NULL;
}

/* A spill waits for the copies that read the buffer in a stream of another device. */
static void
spill_waits (TestFixture *here, TestFixture *there)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (LARGE);
  g_autoptr (GpuBuffer) from = test_buffer_from (there, bytes);
  g_autoptr (GpuBuffer) to = test_buffer (here, LARGE);
  g_autoptr (GpuBuffer) again = test_buffer (here, LARGE);
  g_autoptr (GpuStream) stream = test_stream (here, GPU_STREAM_FLAGS_NONE);
  g_autoptr (TestHold) hold = test_hold (stream);
  GThread *thread;

  copy (stream, to, 0, from, 0, LARGE);
  thread = g_thread_new ("spill", spill_in_thread, from);
  test_hold_release (hold);
  g_thread_join (thread);
  test_assert_content (to, bytes);
  g_assert_false (gpu_stream_copy (stream, GPU_MEMORY (again), 0, GPU_MEMORY (from), 0, LARGE,
                                   &error));
  g_clear_error (&error);
  test_assert_ok (gpu_buffer_unspill (from, NULL, &error), error);
  copy (stream, again, 0, from, 0, LARGE);
  test_assert_content (again, bytes);
}

static void
spills (TestFixture *fixture)
{
  for_pairs (fixture, spill_waits);
}

/* --- peer access ------------------------------------------------------------------------------ */

#define COUNT(function) GPUMEM_CUDA_DRIVER (get_count) (function)

static gboolean
can_access (TestFixture *here, TestFixture *there)
{
  g_autoptr (GError) error = NULL;
  gboolean can = FALSE;

  test_assert_ok (gpu_device_can_access_peer (here->device, there->device, &can, &error), error);
  return can;
}

typedef struct
{
  TestFixture *here;
  TestFixture *there;
  gint        *n_ready;
} First;

/* Copies when all threads are ready. */
static gpointer
copy_first (gpointer data)
{
  const First *first = data;
  g_autoptr (GBytes) bytes = test_random_bytes (LARGE);
  g_autoptr (GpuBuffer) from = test_buffer_from (first->there, bytes);
  g_autoptr (GpuBuffer) to = test_buffer (first->here, LARGE);
  g_autoptr (GpuStream) stream = test_stream (first->here, GPU_STREAM_FLAGS_NONE);

  g_atomic_int_inc (first->n_ready);
  while (g_atomic_int_get (first->n_ready) < N_THREADS)
    g_thread_yield ();
  copy (stream, to, 0, from, 0, LARGE);
  test_assert_content (to, bytes);
  return NULL;
}

/* The first copies of several threads decide about the access with one call of the driver. */
static void
decides_once (TestFixture *here, TestFixture *there)
{
  gint n_ready = 0;
  First first = { here, there, &n_ready };
  guint64 before = COUNT ("cuCtxEnablePeerAccess");
  guint64 queries;
  GThread *threads[N_THREADS];

  if (here->device == there->device)
    return;
  for (guint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("first", copy_first, &first);
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
  g_assert_cmpuint (COUNT ("cuCtxEnablePeerAccess"), ==, before + 1);

  queries = COUNT ("cuDevice*Access*");
  for (guint i = 0; i < 5; i++)
    {
      g_autoptr (GpuBuffer) from = test_buffer (there, SIZE);
      g_autoptr (GpuBuffer) to = test_buffer (here, SIZE);

      copy (here->stream, to, 0, from, 0, SIZE);
    }
  g_assert_cmpuint (COUNT ("cuCtxEnablePeerAccess"), ==, before + 1);
  g_assert_cmpuint (COUNT ("cuDevice*Access*"), ==, queries);
}

static void
access_once (TestFixture *fixture)
{
  for_pairs (fixture, decides_once);
}

/* A new context needs access of its own, even if it has the address of a freed one. */
static void
renewed (TestFixture *here, TestFixture *there)
{
  g_autoptr (GBytes) bytes = test_random_bytes (LARGE);
  g_autoptr (GpuBuffer) to = test_buffer (here, LARGE);

  if (here->device == there->device)
    return;
  for (guint i = 0; i < 5; i++)
    {
      guint64 before = COUNT ("cuCtxEnablePeerAccess");
      TestFixture other = { .device = there->device };
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuContext) context = gpu_context_new (there->device, GPU_CONTEXT_FLAGS_OWN,
                                                        &error);
      g_autoptr (GpuBuffer) from = NULL;

      g_assert_no_error (error);
      other.context = context;
      from = test_buffer_from (&other, bytes);
      copy (here->stream, to, 0, from, 0, LARGE);
      g_clear_object (&from);
      g_clear_object (&context);
      test_assert_content (to, bytes);
      g_assert_cmpuint (COUNT ("cuCtxEnablePeerAccess"), ==, before + 1);
    }
}

static void
access_renewed (TestFixture *fixture)
{
  for_pairs (fixture, renewed);
}

/* Counts the driver's copies between devices, also for a stream that is blocked. */
static void
goes_the_way (TestFixture *here, TestFixture *there)
{
  gboolean is_direct = here->device == there->device || can_access (here, there);
  g_autoptr (GBytes) bytes = test_random_bytes (LARGE);
  g_autoptr (GpuBuffer) from = test_buffer_from (there, bytes);
  g_autoptr (GpuBuffer) to = test_buffer (here, LARGE);
  g_autoptr (GpuBuffer) small = test_buffer (here, SIZE);
  g_autoptr (GBytes) beginning = g_bytes_new_from_bytes (bytes, 0, SIZE);
  g_autoptr (GpuStream) stream = test_stream (here, GPU_STREAM_FLAGS_NONE);
  g_autoptr (TestHold) hold = test_hold (stream);
  guint64 before = COUNT ("cuMemcpyPeerAsync");

  copy (stream, to, 0, from, 0, LARGE);
  copy (stream, from, 0, to, 0, LARGE);
  g_assert_cmpuint (COUNT ("cuMemcpyPeerAsync"), ==, before + (is_direct ? 2 : 0));
  copy (stream, small, 0, from, 0, SIZE);
  g_assert_cmpuint (COUNT ("cuMemcpyPeerAsync"), ==, before + (is_direct ? 3 : 1));
  test_hold_release (hold);
  test_assert_content (to, bytes);
  test_assert_content (from, bytes);
  test_assert_content (small, beginning);
}

/* Copies go directly where there is peer access, through page-locked memory where there is none, or
 * in the driver if they are small. None blocks behind a kernel. */
static void
access_decides (TestFixture *fixture)
{
  for_pairs (fixture, goes_the_way);
}

/* Copies keep out of the way of the program's own calls. */
static void
program_decides (TestFixture *here, TestFixture *there)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (LARGE);
  g_autoptr (GpuBuffer) from = test_buffer_from (there, bytes);

  if (here->device == there->device || !can_access (here, there))
    return;
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (GpuBuffer) to = test_buffer (here, LARGE);

      copy (here->stream, to, 0, from, 0, LARGE);
      test_assert_content (to, bytes);
      g_assert_false (gpu_context_disable_peer_access (here->context, there->context, &error));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "PEER_ACCESS_NOT_ENABLED");
      test_assert_ok (gpu_context_enable_peer_access (here->context, there->context, &error),
                      error);
      g_assert_false (gpu_context_enable_peer_access (here->context, there->context, &error));
      test_assert_gpu_error (error, GPU_ERROR_BUSY, "PEER_ACCESS_ALREADY_ENABLED");
      test_assert_ok (gpu_context_disable_peer_access (here->context, there->context, &error),
                      error);
    }
}

static void
access_of_program (TestFixture *fixture)
{
  for_pairs (fixture, program_decides);
}

static const char kernel_source[] =
  "__kernel void double_bytes (__global const uchar *from, __global uchar *to)\n"
  "{\n"
  "  to[get_global_id (0)] = (uchar) (2 * from[get_global_id (0)]);\n"
  "}\n";

static void
check_not_reached (TestFixture *here, GpuKernel *kernel, GpuBuffer *from, GpuBuffer *to,
                   const char *advice)
{
  const GpuExtent grid = { SIZE, 1, 1 };
  g_autoptr (GError) error = NULL;

  g_assert_false (gpu_stream_launch (here->stream, kernel, &grid, NULL, &error, from, to));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_stream_launch",
                         "different contexts", advice);
}

/* A kernel reads and writes memory of another device, plain, sliced and from a pool, while the
 * program has enabled the access. The work of both devices is ordered. */
static void
kernel_reaches (TestFixture *here, TestFixture *there)
{
  const char *advice = "after gpu_context_enable_peer_access()";
  const GpuExtent grid = { SIZE, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = test_kernel (here, kernel_source, "double_bytes");
  g_autoptr (GpuMemoryPool) pool = gpu_memory_pool_new (there->context, GPU_MEMORY_POOL_AUTOMATIC,
                                                        GPU_MEMORY_FLAGS_NONE, &error);
  g_autoptr (GpuBuffer) from = test_buffer_filled (there, 2 * SIZE, 1);
  g_autoptr (GpuBuffer) part = gpu_buffer_slice (from, SIZE, SIZE, &error);
  g_autoptr (GpuBuffer) pooled = gpu_memory_pool_alloc_buffer (pool, SIZE, NULL, &error);
  g_autoptr (GpuBuffer) near = test_buffer (here, SIZE);
  g_autoptr (GBytes) expected = test_value_bytes (SIZE, 6);

  g_assert_no_error (error);
  check_not_reached (here, kernel, from, near, "");
  if (here->device == there->device || !can_access (here, there))
    return;

  copy (here->stream, near, 0, from, 0, SIZE);    /* enables access for copies only */
  check_not_reached (here, kernel, from, near, advice);
  test_assert_ok (gpu_context_enable_peer_access (here->context, there->context, &error), error);
  fill (there->stream, part, 0, SIZE, 3);
  test_assert_ok (gpu_stream_launch (here->stream, kernel, &grid, NULL, &error, part, near),
                  error);
  fill (there->stream, part, 0, SIZE, 4);
  test_assert_ok (gpu_stream_launch (here->stream, kernel, &grid, NULL, &error, part, pooled),
                  error);
  test_assert_content (near, expected);
  g_clear_pointer (&expected, g_bytes_unref);
  expected = test_value_bytes (SIZE, 8);
  test_assert_content (pooled, expected);

  test_assert_ok (gpu_context_disable_peer_access (here->context, there->context, &error), error);
  check_not_reached (here, kernel, part, near, advice);
}

/* A prepared launch keeps the memory of another device, also if the program drops it before the
 * kernel runs. The launch fails without the access, but not the stream. */
static void
prepared_reaches (TestFixture *here, TestFixture *there)
{
  const GpuExtent grid = { SIZE, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = test_kernel (here, kernel_source, "double_bytes");
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();
  g_autoptr (GpuLaunch) launch = NULL;
  g_autoptr (GpuBuffer) from = test_buffer_filled (there, SIZE, 3);
  g_autoptr (GpuBuffer) near = test_buffer_filled (here, SIZE, 1);
  g_autoptr (GBytes) expected = test_value_bytes (SIZE, 6);
  g_autoptr (TestHold) hold = NULL;

  if (here->device == there->device || !can_access (here, there))
    return;

  gpu_arguments_add_memory (arguments, GPU_MEMORY (from));
  gpu_arguments_add_memory (arguments, GPU_MEMORY (near));
  gpu_arguments_add_indirect (arguments, GPU_MEMORY (from));
  launch = gpu_launch_new (kernel, &grid, NULL, NULL, 0, GPU_LAUNCH_FLAGS_NONE, arguments, &error);
  g_assert_no_error (error);
  g_assert_false (gpu_stream_launch_prepared (here->stream, launch, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_stream_launch_prepared",
                         "different contexts");

  test_assert_ok (gpu_context_enable_peer_access (here->context, there->context, &error), error);
  hold = test_hold (here->stream);
  test_assert_ok (gpu_stream_launch_prepared (here->stream, launch, &error), error);
  g_clear_pointer (&launch, gpu_launch_unref);
  g_clear_pointer (&arguments, gpu_arguments_unref);
  g_clear_object (&from);
  test_hold_release (hold);
  test_assert_content (near, expected);
  test_assert_ok (gpu_context_disable_peer_access (here->context, there->context, &error), error);
}

static void
access_of_kernels (TestFixture *fixture)
{
  for_pairs (fixture, kernel_reaches);
  for_pairs (fixture, prepared_reaches);
}

/* If the driver cannot enable the access, copies go through page-locked memory, and the next copy
 * tries again. */
static void
enabling_fails (TestFixture *here, TestFixture *there)
{
  static const char *const faults[] = { "cuCtxEnablePeerAccess:1", "cuMemSetAccess:1" };
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (LARGE);
  g_autoptr (GpuContext) context = NULL;
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuMemoryPool) pool = NULL;
  g_autoptr (GpuBuffer) from = NULL;

  if (here->device == there->device || !can_access (here, there))
    return;
  /* No device has access to the memory of this context yet. */
  context = gpu_context_new (there->device, GPU_CONTEXT_FLAGS_OWN, &error);
  g_assert_no_error (error);
  stream = gpu_context_get_default_stream (context);
  pool = gpu_memory_pool_new (context, GPU_MEMORY_POOL_EXPANDABLE, GPU_MEMORY_FLAGS_NONE, &error);
  g_assert_no_error (error);
  from = gpu_memory_pool_alloc_buffer (pool, LARGE, stream, &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_stream_write (stream, GPU_MEMORY (from), 0, bytes, &error), error);
  for (guint i = 0; i <= G_N_ELEMENTS (faults); i++)
    {
      guint64 before = COUNT ("cuMemcpyPeerAsync");
      g_autoptr (GpuBuffer) to = test_buffer (here, LARGE);

      g_assert_true (GPUMEM_CUDA_DRIVER (set_fail) (i < G_N_ELEMENTS (faults) ? faults[i] : ""));
      copy (here->stream, to, 0, from, 0, LARGE);
      g_assert_true (GPUMEM_CUDA_DRIVER (set_fail) (""));
      test_assert_content (to, bytes);
      g_assert_cmpuint (COUNT ("cuMemcpyPeerAsync"), ==,
                        before + (i == G_N_ELEMENTS (faults) ? 1 : 0));
    }
}

static void
access_fails (TestFixture *fixture)
{
  for_pairs (fixture, enabling_fails);
}

/* --- pools ------------------------------------------------------------------------------------ */

/* Writes @value to the first words of @buffer, memory of another context, with a kernel. */
static void
write_from (TestFixture *place, GpuKernel *kernel, GpuBuffer *buffer, guint32 value)
{
  const GpuExtent grid = { 64, 1, 1 };
  const guint64 address = gpu_memory_get_native_handle (GPU_MEMORY (buffer));
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();
  g_autoptr (GBytes) content = NULL;

  gpu_arguments_add_value (arguments, &address, sizeof address);
  gpu_arguments_add_value (arguments, &value, sizeof value);
  test_assert_ok (gpu_stream_launch_arguments (place->stream, kernel, &grid, NULL, arguments,
                                               &error), error);
  test_synchronize (place->stream);
  content = test_content (buffer);
  for (guint i = 0; i < 64; i++)
    g_assert_cmpuint (((const guint32 *) g_bytes_get_data (content, NULL))[i], ==, value);
}

/* Chunks of an expandable pool are accessible after the first copy, those that are mapped later,
 * too. */
static void
pool_is_accessible (TestFixture *here, TestFixture *there)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMemoryPool) pool = NULL;
  g_autoptr (GpuBuffer) first = NULL;
  g_autoptr (GpuBuffer) second = NULL;
  g_autoptr (GpuBuffer) near = test_buffer (here, SIZE);
  g_autoptr (GpuProgram) program = NULL;
  g_autoptr (GpuKernel) kernel = NULL;

  if (here->device == there->device || !can_access (here, there))
    return;
  program = gpu_program_new_from_source (here->context, "extern \"C\" __global__ void set "
                                         "(unsigned *p, unsigned v) { p[threadIdx.x] = v; }",
                                         NULL, &error);
  g_assert_no_error (error);
  kernel = gpu_program_get_kernel (program, "set", &error);
  g_assert_no_error (error);
  pool = gpu_memory_pool_new (there->context, GPU_MEMORY_POOL_EXPANDABLE, GPU_MEMORY_FLAGS_NONE,
                              &error);
  g_assert_no_error (error);
  first = gpu_memory_pool_alloc_buffer (pool, SIZE, there->stream, &error);
  g_assert_no_error (error);
  copy (here->stream, near, 0, first, 0, SIZE);
  write_from (here, kernel, first, 1);
  second = gpu_memory_pool_alloc_buffer (pool, (gsize) 8 << 20, there->stream, &error);
  g_assert_no_error (error);
  test_synchronize (there->stream);
  write_from (here, kernel, second, 2);
}

static void
pools (TestFixture *fixture)
{
  for_pairs (fixture, pool_is_accessible);
}

/* --- a context of several devices ------------------------------------------------------------- */

/* Lists the devices that can share a context with the fixture's device. */
static GPtrArray *
list_shared (TestFixture *fixture)
{
  GPtrArray *devices = test_devices ();
  GPtrArray *shared = g_ptr_array_new ();

  for (guint i = 0; i < devices->len; i++)
    {
      GpuDevice *device = g_ptr_array_index (devices, i);

      if (g_str_equal (gpu_device_get_backend (device), "opencl")
          && g_strcmp0 (test_get_string (device, "platform"),
                        test_get_string (fixture->device, "platform")) == 0)
        g_ptr_array_add (shared, device);
    }
  return shared;
}

/* Buffers move between the devices of a context: each stream uses them on its own device. */
static void
shared_context (TestFixture *fixture)
{
  g_autoptr (GError) failure = NULL;
  g_autoptr (GPtrArray) devices = list_shared (fixture);
  g_autoptr (GPtrArray) streams = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr (GpuContext) context = gpu_context_new_for_devices ((GpuDevice **) devices->pdata,
                                                                devices->len, &failure);
  TestFixture shared = { fixture->device, context, NULL };
  g_autoptr (GBytes) bytes = test_random_bytes (LARGE);
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GBytes) content = NULL;
  const guint n_rounds = 20;

  g_assert_no_error (failure);
  kernel = test_kernel (&shared, "__kernel void increment (__global uchar *p) "
                        "{ p[get_global_id (0)] += 1; }\n", "increment");
  buffer = test_buffer_from (&shared, bytes);
  for (guint i = 0; i < devices->len; i++)
    {
      g_autoptr (GError) error = NULL;

      g_ptr_array_add (streams, gpu_stream_new_full (context, devices->pdata[i],
                                                     GPU_STREAM_FLAGS_NONE, 0, &error));
      g_assert_no_error (error);
      g_assert_true (test_get_object (streams->pdata[i], "device") == devices->pdata[i]);
    }
  for (guint i = 0; i < n_rounds; i++)
    {
      GpuStream *stream = streams->pdata[i % streams->len];
      GpuMemory *memory = GPU_MEMORY (buffer);
      const GpuExtent grid = { LARGE, 1, 1 };
      g_autoptr (GError) error = NULL;

      test_assert_ok (gpu_stream_migrate (stream, &memory, 1, GPU_MIGRATE_FLAGS_NONE, &error),
                      error);
      test_assert_ok (gpu_stream_launch (stream, kernel, &grid, NULL, &error, buffer), error);
    }
  content = test_content (buffer);
  for (gsize i = 0; i < LARGE; i++)
    {
      guint8 before = ((const guint8 *) g_bytes_get_data (bytes, NULL))[i];
      guint8 after = ((const guint8 *) g_bytes_get_data (content, NULL))[i];

      if (after != (guint8) (before + n_rounds))
        g_error ("byte %" G_GSIZE_FORMAT " is %u, not %u", i, after, (guint8) (before + n_rounds));
    }
}

/* --- processes ------------------------------------------------------------------------------- */

/* Enough for a fork while the other thread holds the lock of the pairs of contexts, which it
 * searches for longer if there are more of them. */
#define N_FORKS    200
#define N_CONTEXTS 24

typedef struct
{
  TestFixture *here;
  TestFixture *there;
  gint         stop;
} Changes;

/* Copies have enabled the access, so that each call is refused without a call of the driver, and
 * only looks up the pair of contexts. */
static gpointer
change_access (gpointer data)
{
  Changes *changes = data;

  while (!g_atomic_int_get (&changes->stop))
    g_assert_false (gpu_context_disable_peer_access (changes->here->context,
                                                     changes->there->context, NULL));
  return NULL;
}

static void
copy_in_child (GpuStream *stream, GpuBuffer *to, GpuBuffer *from)
{
  g_autoptr (GError) error = NULL;
  pid_t child = fork ();
  int status = 0;

  g_assert_cmpint (child, >=, 0);
  if (child == 0)
    {
      alarm (TEST_DEADLINE);
      if (gpu_stream_copy (stream, GPU_MEMORY (to), 0, GPU_MEMORY (from), 0, SIZE, &error))
        test_end_child (1);
      test_end_child (g_error_matches (error, GPU_ERROR, GPU_ERROR_DEVICE_LOST) ? 0 : 2);
    }
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  g_assert_cmpint (WIFSIGNALED (status) ? WTERMSIG (status) : 0, ==, 0);
  g_assert_cmpint (WEXITSTATUS (status), ==, 0);
}

/* Enables the access from each new context of one device to each of the other device. */
static GPtrArray *
make_pairs (TestFixture *here, TestFixture *there)
{
  GPtrArray *contexts = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < N_CONTEXTS; i++)
    {
      g_ptr_array_add (contexts, gpu_context_new (i % 2 == 0 ? here->device : there->device,
                                                  GPU_CONTEXT_FLAGS_OWN, &error));
      g_assert_no_error (error);
    }
  for (guint i = 0; i < N_CONTEXTS; i += 2)
    for (guint j = 1; j < N_CONTEXTS; j += 2)
      test_assert_ok (gpu_context_enable_peer_access (contexts->pdata[i], contexts->pdata[j],
                                                      &error), error);
  return contexts;
}

/* A copy in a forked process fails, even if another thread held a lock during the fork. */
static void
access_forked (TestFixture *fixture)
{
  g_auto (Group) group = { 0 };

  group_init (&group, fixture);
  {
    TestFixture *here = &group.places[0];
    TestFixture *there = &group.places[1];
    g_autoptr (GpuBuffer) from = test_buffer_filled (there, SIZE, 3);
    g_autoptr (GpuBuffer) to = test_buffer_filled (here, SIZE, 0);
    g_autoptr (GBytes) expected = test_value_bytes (SIZE, 3);
    g_autoptr (GPtrArray) contexts = make_pairs (here, there);
    Changes changes = { here, there, FALSE };
    GThread *thread;

    copy (here->stream, to, 0, from, 0, SIZE);
    thread = g_thread_new ("changes", change_access, &changes);
    for (guint i = 0; i < N_FORKS; i++)
      copy_in_child (here->stream, to, from);
    g_atomic_int_set (&changes.stop, TRUE);
    g_thread_join (thread);
    copy (here->stream, to, 0, from, 0, SIZE);
    test_assert_content (to, expected);
  }
}

/* --- the tests ------------------------------------------------------------------------------- */

static gboolean
has (TestFixture *fixture, GpuCapabilities capabilities)
{
  return (gpu_device_get_capabilities (fixture->device) & capabilities) == capabilities;
}

static gboolean
always (TestFixture *fixture G_GNUC_UNUSED)
{
  return TRUE;
}

static gboolean
has_kernels (TestFixture *fixture)
{
  return has (fixture, GPU_CAPABILITIES_SOURCE);
}

static gboolean
has_user_events (TestFixture *fixture)
{
  return has (fixture, GPU_CAPABILITIES_USER_EVENTS);
}

static gboolean
is_cuda (TestFixture *fixture)
{
  return g_str_equal (gpu_device_get_backend (fixture->device), "cuda");
}

static gboolean
counts_calls (TestFixture *fixture)
{
  return is_cuda (fixture) && has_kernels (fixture)
         && gpumem_cuda_driver_symbol ("gpumem_cuda_driver_get_count") != NULL;
}

/* Returns whether the device can access the next one. */
static gboolean
has_peer (TestFixture *fixture)
{
  GPtrArray *devices = test_devices ();
  gboolean can = FALSE;

  for (guint i = 0; i < devices->len && counts_calls (fixture); i++)
    {
      GpuDevice *device = g_ptr_array_index (devices, i);

      if (device != fixture->device && g_str_equal (gpu_device_get_backend (device), "cuda"))
        return gpu_device_can_access_peer (fixture->device, device, &can, NULL) && can;
    }
  return FALSE;
}

static gboolean
maps_chunks (TestFixture *fixture)
{
  return is_cuda (fixture)
         && has (fixture, GPU_CAPABILITIES_SOURCE | GPU_CAPABILITIES_VIRTUAL_MEMORY);
}

static gboolean
shares_contexts (TestFixture *fixture)
{
  g_autoptr (GPtrArray) shared = list_shared (fixture);

  return has_kernels (fixture) && shared->len > 1;
}

static const struct
{
  TestEntry  entry;
  gboolean (*applies) (TestFixture *fixture);
}
tests[] =
{
  { TEST_ENTRY (random_operations), always },
  { TEST_ENTRY (pools_of_host), maps_chunks },
  { TEST_ENTRY (events), has_kernels },
  { TEST_ENTRY (failure), has_user_events },
  { TEST_ENTRY (dropped), has_kernels },
  { TEST_ENTRY (spills), has_kernels },
  { TEST_ENTRY (access_once), counts_calls },
  { TEST_ENTRY (access_renewed), counts_calls },
  { TEST_ENTRY (access_decides), counts_calls },
  { TEST_ENTRY (access_of_program), is_cuda },
  { TEST_ENTRY (access_of_kernels), has_kernels },
  { TEST_ENTRY (access_fails), counts_calls },
  { TEST_ENTRY (access_forked), has_peer },
  { TEST_ENTRY (pools), maps_chunks },
  { TEST_ENTRY (shared_context), shares_contexts }
};

static void
run_one (TestFixture *fixture)
{
  const char *name = strrchr (g_test_get_path (), '/') + 1;

  for (gsize i = 0; i < G_N_ELEMENTS (tests); i++)
    {
      if (!g_str_equal (tests[i].entry.name, name))
        continue;
      if (!is_first (fixture))
        g_test_skip ("the tests of the first device of the back end use this device, too");
      else if (!tests[i].applies (fixture))
        g_test_skip ("the device or its back end lacks a feature of the test");
      else
        tests[i].entry.func (fixture);
    }
}

static void
run_all (TestFixture *fixture)
{
  for (gsize i = 0; i < G_N_ELEMENTS (tests); i++)
    if (tests[i].applies (fixture))
      tests[i].entry.func (fixture);
}

static void
run_with (TestFixture *fixture, const char *variable, const char *value)
{
  g_autofree char *path = g_strdup_printf ("/several-devices/%s/subprocess/all",
                                           gpu_device_get_id (fixture->device));
  g_autofree char *before = g_strdup (g_getenv (variable));

  g_setenv (variable, value, TRUE);
  g_test_message ("%s=%s", variable, value);
  g_test_trap_subprocess (path, TEST_CHILD_TIMEOUT, G_TEST_SUBPROCESS_INHERIT_STDERR);
  if (before != NULL)
    g_setenv (variable, before, TRUE);
  else
    g_unsetenv (variable);
  g_test_trap_assert_passed ();
}

/* Repeats the tests with other settings of the driver. */
static void
settings (TestFixture *fixture)
{
  static const char *const stand_in[] = {
    "devices=4", "devices=2,deny=0-1:1-0", "devices=2,deny=0-1", "devices=4,peers=no",
    "devices=4,deny=0-2:2-0:1-3:3-1"
  };

  if (is_first (fixture) && counts_calls (fixture))
    for (guint i = 0; i < G_N_ELEMENTS (stand_in); i++)
      run_with (fixture, "GPUMEM_CUDA_DRIVER", stand_in[i]);
  else if (is_first (fixture) && test_is_pocl (fixture))
    {
      /* The name begins with that of PoCL's driver. */
      g_auto (GStrv) words = g_strsplit (gpu_device_get_name (fixture->device), "-", 2);
      g_autofree char *twice = g_strdup_printf ("%s %s", words[0], words[0]);

      run_with (fixture, "POCL_DEVICES", twice);
    }
  else
    g_test_skip ("the driver has no such settings");
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  for (gsize i = 0; i < G_N_ELEMENTS (tests); i++)
    test_add (tests[i].entry.name, run_one);
  test_add ("settings", settings);
  test_add ("subprocess/all", run_all);
  return test_run ();
}
