/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Random workloads on a pool of chunks, with the granularity of GPUs: the peak of the managed bytes
 * must not exceed the peak of the live bytes by more than 5 %, or 6 % for the further workloads of
 * the slow mode. While work is pending, the limits are 6 % and 8 %. With several streams they are
 * 14 % and 16 %, because chunks with pending uses cannot be replaced by smaller ones. A pool never
 * exceeds its limit.
 *
 * Each family of workloads imitates a kind of program, with random sizes, lifetimes, streams and
 * phases. The seed determines a workload completely, so a failure is reproduced by its test alone:
 * ./run tests/test-pool-workloads -p /pool-workloads/training/3
 */
#include "config.h"

#include <math.h>

#include "test-pool-sim.h"

#define KIB         ((gsize) 1024)
#define MIB         (1024 * KIB)
#define CAPACITY    (64 * 1024 * MIB)
#define UNIT        ((gsize) 512)
#define GRANULARITY (2 * MIB)
#define N_FAST      8
#define N_SEEDS     (g_test_slow () ? 40 : N_FAST)
#define MAX_STREAMS 4
#define LAG         50              /* operations by which the device is behind */

/* A workload that runs. Its sizes follow from `budget`, the approximate number of live bytes at the
 * peak. The peaks are at least 256 MiB, because 5 % of less is only a few granules. */
typedef struct
{
  GRand     *random;
  Sim       *sim;
  GpuPool   *pool;
  SimStream *streams[MAX_STREAMS];
  guint      n_streams;
  gsize      budget;
  gsize      live;
  gsize      peak;
  GArray    *tensors;               /* of Tensor: memory that the family frees at random */
} Run;

typedef struct
{
  GpuMemoryBlock *block;
  guint           stream;           /* that allocated the block */
} Tensor;

/* --- memory ------------------------------------------------------------------------------ */

static Tensor
take_on (Run   *run,
         gsize  size,
         guint  stream)
{
  g_autoptr (GError) error = NULL;
  Tensor tensor = { .stream = stream };

  tensor.block = _gpu_pool_alloc (run->pool, MAX (size, 1), 0, run->streams[stream], &error);
  g_assert_no_error (error);
  run->live += _gpu_pool_block_get_size (tensor.block);
  run->peak = MAX (run->peak, run->live);
  sim_stream_submit (run->streams[stream]);

  return tensor;
}

static Tensor
take (Run   *run,
      gsize  size)
{
  return take_on (run, size, 0);
}

/* Frees the tensor on @stream. Work of that stream is ordered after the work that used the
 * tensor. */
static void
give_on (Run    *run,
         Tensor  tensor,
         guint   stream)
{
  if (stream != tensor.stream)
    sim_order (run->streams[stream], run->streams[tensor.stream]);
  run->live -= _gpu_pool_block_get_size (tensor.block);
  _gpu_pool_release (tensor.block, run->streams[stream]);
}

static void
give (Run    *run,
      Tensor  tensor)
{
  give_on (run, tensor, tensor.stream);
}

static void
keep (Run    *run,
      Tensor  tensor)
{
  g_array_append_val (run->tensors, tensor);
}

static Tensor
pick (Run   *run,
      guint  i)
{
  Tensor tensor = g_array_index (run->tensors, Tensor, i);

  g_array_remove_index_fast (run->tensors, i);

  return tensor;
}

static void
give_all (Run    *run,
          GArray *tensors)
{
  while (tensors->len > 0)
    {
      give (run, g_array_index (tensors, Tensor, tensors->len - 1));
      g_array_set_size (tensors, tensors->len - 1);
    }
}

static GArray *
tensors_new (void)
{
  return g_array_new (FALSE, FALSE, sizeof (Tensor));
}

/* --- random numbers ---------------------------------------------------------------------- */

static guint
any (Run   *run,
     guint  from,
     guint  to)
{
  return g_rand_int_range (run->random, from, to + 1);
}

static double
scale (Run    *run,
       double  from,
       double  to)
{
  return from * pow (to / from, g_rand_double (run->random));
}

static gsize
size_between (Run   *run,
              gsize  from,
              gsize  to)
{
  return scale (run, from, MAX (to, from + 1));
}

/* --- training ---------------------------------------------------------------------------- */

typedef struct
{
  gsize   width;                    /* of a layer */
  guint   n_layers;
  gsize   tokens;                   /* in a batch, at most */
  GArray *states;                   /* parameters, gradients and moments */
  GArray *saved;                    /* activations that the backward pass needs */
} Training;

static const guint layer_weights[] = { 3, 1, 4, 4 };

static void
forward (Run      *run,
         Training *training,
         gsize     tokens)
{
  static const guint outputs[] = { 3, 1, 1, 4, 4, 1 };

  for (guint layer = 0; layer < training->n_layers; layer++)
    for (guint i = 0; i < G_N_ELEMENTS (outputs); i++)
      {
        Tensor output = take (run, tokens * training->width * outputs[i] * 2);
        Tensor work = take (run, tokens * any (run, 1, 64) * 4);

        g_array_append_val (training->saved, output);
        give (run, work);
      }
}

static void
backward (Run      *run,
          Training *training,
          gsize     tokens,
          gboolean  is_first)
{
  Tensor gradient = take (run, tokens * training->width * 2);

  for (guint layer = 0; layer < training->n_layers; layer++)
    {
      for (guint i = 0; i < G_N_ELEMENTS (layer_weights); i++)
        {
          gsize size = training->width * training->width * layer_weights[i] * 2;
          Tensor weights = take (run, size);

          if (is_first)
            g_array_append_val (training->states, weights);
          else
            give (run, weights);
        }
      for (guint i = 0; i < 6; i++)
        {
          Tensor next = take (run, tokens * training->width * (i == 3 ? 8 : 2));
          Tensor *saved = &g_array_index (training->saved, Tensor, training->saved->len - 1);

          give (run, gradient);
          give (run, *saved);
          g_array_set_size (training->saved, training->saved->len - 1);
          gradient = next;
        }
    }
  give (run, gradient);
}

static void
run_training (Run *run)
{
  Training training = { .n_layers = any (run, 4, 16), .states = tensors_new (),
                        .saved = tensors_new () };
  guint n_copies = any (run, 2, 4);
  guint n_steps = any (run, 4, 12);
  gsize state;

  state = run->budget * scale (run, 0.1, 0.6) / training.n_layers / n_copies / 24;
  training.width = (gsize) sqrt (state) / 64 * 64 + 64;
  state = training.width * training.width * 24 * training.n_layers * n_copies;
  training.tokens = (run->budget - MIN (state, run->budget / 2)) / training.width
                    / training.n_layers / 28;

  for (guint i = 0; i < training.n_layers * G_N_ELEMENTS (layer_weights); i++)
    for (guint copy = 1; copy < n_copies; copy++)
      {
        Tensor weights = take (run, training.width * training.width * 2
                                    * layer_weights[i % G_N_ELEMENTS (layer_weights)]);
        Tensor bias = take (run, training.width * 2);

        g_array_append_val (training.states, weights);
        g_array_append_val (training.states, bias);
      }

  for (guint step = 0; step < n_steps; step++)
    {
      gsize tokens = size_between (run, training.tokens / 3 + 1, training.tokens + 1);

      forward (run, &training, tokens);
      backward (run, &training, tokens, step == 0);
    }

  give_all (run, training.states);
  g_array_unref (training.states);
  g_array_unref (training.saved);
}

/* --- language models --------------------------------------------------------------------- */

typedef struct
{
  guint   length;                   /* tokens */
  guint   end;
  GArray *caches;                   /* one for each layer */
} Request;

static void
start_request (Run     *run,
               Request *request,
               guint    n_layers,
               gsize    token)
{
  request->length = any (run, 16, 1024);
  request->end = request->length + any (run, 16, 256);
  request->caches = tensors_new ();
  for (guint layer = 0; layer < n_layers; layer++)
    {
      Tensor prompt = take (run, request->length * token * 4);
      Tensor cache = take (run, request->length * token);

      give (run, prompt);
      g_array_append_val (request->caches, cache);
    }
}

/* Replaces each cache with a larger one, as a concatenation of tensors does. */
static void
grow_request (Run     *run,
              Request *request,
              gsize    token)
{
  guint step = any (run, 1, 32);

  request->length += step;
  for (guint layer = 0; layer < request->caches->len; layer++)
    {
      Tensor *cache = &g_array_index (request->caches, Tensor, layer);
      Tensor work = take (run, step * token * 4);
      Tensor larger = take (run, request->length * token);

      give (run, *cache);
      give (run, work);
      *cache = larger;
    }
}

static void
run_serving (Run *run)
{
  guint n_layers = any (run, 4, 16), n_requests = any (run, 4, 16), n_done = 0;
  double share = scale (run, 0.1, 0.6);
  gsize token = run->budget * (1 - share) / n_requests / n_layers / 640 / 64 * 64 + 64;
  g_autofree Request *requests = g_new0 (Request, n_requests);

  for (guint i = 0; i < 4 * n_layers; i++)
    keep (run, take (run, run->budget * share / n_layers / 4));

  while (n_done < 4 * n_requests)
    {
      Request *request = &requests[any (run, 0, n_requests - 1)];

      if (request->caches == NULL)
        start_request (run, request, n_layers, token);
      else if (request->length < request->end)
        grow_request (run, request, token);
      else
        {
          give_all (run, request->caches);
          g_clear_pointer (&request->caches, g_array_unref);
          n_done++;
        }
    }

  for (guint i = 0; i < n_requests; i++)
    if (requests[i].caches != NULL)
      {
        give_all (run, requests[i].caches);
        g_array_unref (requests[i].caches);
      }
}

/* --- images ------------------------------------------------------------------------------ */

/* A network that halves the size of the image in each stage, and keeps the result of each. */
static void
run_image (Run   *run,
           gsize  pixels,
           guint  n_channels)
{
  g_autoptr (GArray) kept = tensors_new ();
  Tensor input = take (run, pixels * 3 * 4);

  for (guint stage = 0; stage < 5; stage++)
    {
      guint n_blocks = any (run, 1, 4);

      pixels = MAX (pixels / 4, 1);
      n_channels *= 2;
      for (guint i = 0; i < n_blocks; i++)
        {
          Tensor output = take (run, pixels * n_channels * 4);
          Tensor work = take (run, pixels * 9 * any (run, 1, n_channels) * 4);

          give (run, work);
          if (i == 0)
            g_array_append_val (kept, input);
          else
            give (run, input);
          input = output;
        }
    }

  for (guint i = 0; i < any (run, 2, 20); i++)
    keep (run, take (run, any (run, 1, 1000) * 4 * (i % 5 + 1)));
  give (run, input);
  give_all (run, kept);
}

static void
run_images (Run *run)
{
  guint n_channels = 8 << any (run, 0, 2);
  gsize largest = run->budget / 2 / n_channels / 8;
  guint n_images = any (run, 20, 60);

  for (guint i = 0; i < 40; i++)
    keep (run, take (run, run->budget / 4 * any (run, 1, 9) / 200));

  for (guint i = 0; i < n_images; i++)
    {
      run_image (run, size_between (run, largest / 4, largest), n_channels);
      while (run->tensors->len > 200)
        give (run, pick (run, any (run, 40, run->tensors->len - 1)));
    }
}

/* --- arrays ------------------------------------------------------------------------------ */

/* Evaluates expressions: temporaries of a few shapes, freed in order of their use, and results that
 * replace earlier results. */
static void
run_arrays (Run *run)
{
  static const guint item_sizes[] = { 4, 8, 8, 1 };
  g_autofree gsize *shapes = g_new (gsize, 6);
  guint n_shapes = any (run, 1, 6), n_steps = any (run, 200, 800), n_results = any (run, 6, 30);

  for (guint i = 0; i < n_shapes; i++)
    shapes[i] = size_between (run, run->budget / 8, run->budget) / 3 / n_results;

  for (guint step = 0; step < n_steps; step++)
    {
      gsize shape = shapes[any (run, 0, n_shapes - 1)];
      guint n_terms = any (run, 1, 6);
      Tensor value = take (run, shape * item_sizes[any (run, 0, 3)]);

      for (guint i = 0; i < n_terms; i++)
        {
          Tensor term = take (run, shape * item_sizes[any (run, 0, 3)]);
          Tensor result = take (run, shape * 8);
          gboolean in_order = any (run, 0, 1);

          give (run, in_order ? value : term);
          give (run, in_order ? term : value);
          value = result;
        }
      keep (run, value);
      if (run->tensors->len > n_results)
        give (run, pick (run, any (run, 0, run->tensors->len - 1)));
    }
}

/* --- tables ------------------------------------------------------------------------------ */

/* Adds a table, a few columns of the same length, to the tensors. */
static guint
add_table (Run   *run,
           gsize  n_rows)
{
  static const guint item_sizes[] = { 1, 4, 4, 8, 8, 8, 16 };
  guint n_columns = any (run, 1, 12);

  for (guint i = 0; i < n_columns; i++)
    {
      keep (run, take (run, n_rows * item_sizes[any (run, 0, 6)]));
      if (any (run, 0, 1))
        keep (run, take (run, n_rows / 8));
    }

  return n_columns;
}

/* Filters and joins tables of very different lengths, with a hash table for each join. */
static void
run_tables (Run *run)
{
  gsize n_rows = run->budget / 600;
  guint n_joins = any (run, 100, 300);

  for (guint i = 0; i < n_joins; i++)
    {
      gsize rows = size_between (run, n_rows / 1000 + 1, n_rows);
      Tensor hash = take (run, 24 * rows);
      Tensor matches = take (run, 8 * size_between (run, rows / 100 + 1, rows));

      add_table (run, size_between (run, rows / 10 + 1, rows));
      give (run, hash);
      give (run, matches);
      while (run->tensors->len > 0 && run->live > run->budget * 3 / 4)
        give (run, pick (run, any (run, 0, run->tensors->len - 1)));
    }
}

/* --- several streams --------------------------------------------------------------------- */

/* A pipeline: each stream allocates its results, and frees the results of the stream before it. */
static void
run_pipeline (Run *run)
{
  guint depth = any (run, 1, 4), n_batches = any (run, 50, 200), n_parts = any (run, 1, 8);
  gsize largest;
  g_autoptr (GArray) queue = tensors_new ();

  run->n_streams = any (run, 2, MAX_STREAMS);
  largest = run->budget / 2 / depth / n_parts / run->n_streams;
  for (guint i = 0; i < 40; i++)
    keep (run, take_on (run, run->budget / 80, any (run, 0, run->n_streams - 1)));

  for (guint batch = 0; batch < n_batches; batch++)
    {
      double share = scale (run, 0.2, 1);

      for (guint stream = 0; stream < run->n_streams; stream++)
        for (guint part = 0; part < n_parts; part++)
          {
            Tensor work = take_on (run, largest * share * scale (run, 0.05, 0.5), stream);
            Tensor result = take_on (run, largest * share * scale (run, 0.5, 1), stream);

            g_array_append_val (queue, result);
            give (run, work);
          }

      while (queue->len > depth * n_parts * run->n_streams)
        {
          Tensor *first = &g_array_index (queue, Tensor, 0);

          give_on (run, *first, (first->stream + 1) % run->n_streams);
          g_array_remove_index (queue, 0);
        }
    }
  give_all (run, queue);
}

/* Independent work of the same kind on each stream, as of several threads. */
static void
run_workers (Run *run)
{
  gsize largest = run->budget / any (run, 16, 64);
  guint n_steps = any (run, 1000, 3000);

  run->n_streams = any (run, 2, MAX_STREAMS);
  for (guint i = 0; i < n_steps; i++)
    {
      keep (run, take_on (run, size_between (run, 16 * KIB, largest),
                          any (run, 0, run->n_streams - 1)));
      while (run->live > run->budget - largest)
        give (run, pick (run, any (run, 0, run->tensors->len - 1)));
    }
}

/* --- phases ------------------------------------------------------------------------------ */

/* Phases with different sizes. A few tensors of each phase survive it. */
static void
run_phases (Run *run)
{
  guint n_phases = any (run, 3, 8);

  for (guint phase = 0; phase < n_phases; phase++)
    {
      gsize typical = size_between (run, 64 * KIB, run->budget / 50);
      double spread = scale (run, 1.1, 8);
      double level = scale (run, 0.5, 1);
      guint n_steps = any (run, 100, 1500), n_survivors = any (run, 0, 20);

      for (guint i = 0; i < n_steps; i++)
        {
          gsize size = typical * scale (run, 1 / spread, spread);

          while (run->tensors->len > 0 && run->live + size > run->budget * level)
            give (run, pick (run, any (run, 0, run->tensors->len - 1)));
          keep (run, take (run, size));
        }
      while (run->tensors->len > n_survivors)
        give (run, pick (run, any (run, 0, run->tensors->len - 1)));
    }
}

/* --- fragmentation ----------------------------------------------------------------------- */

/* Sizes with a power law, and random lifetimes: the free ranges have all sizes, and lie between
 * blocks that stay. */
static void
run_power_law (Run *run)
{
  double exponent = scale (run, 0.3, 0.8);
  gsize largest = run->budget / any (run, 8, 32);
  guint n_steps = any (run, 1000, 4000);
  gboolean is_full = FALSE;

  for (guint i = 0; i < n_steps || !is_full; i++)
    {
      double size = 4 * KIB * pow (1 - g_rand_double (run->random), -1 / exponent);

      size = MIN (size, largest);
      is_full |= run->live + size > run->budget;
      while (run->live + size > run->budget)
        give (run, pick (run, any (run, 0, run->tensors->len - 1)));
      keep (run, take (run, size));
    }
}

/* --- main -------------------------------------------------------------------------------- */

typedef struct
{
  const char *name;
  void      (*run) (Run *run);
  gboolean    has_streams;          /* uses several streams */
} Family;

static const Family families[] = {
  { "training", run_training },
  { "serving", run_serving },
  { "images", run_images },
  { "arrays", run_arrays },
  { "tables", run_tables },
  { "pipeline", run_pipeline, TRUE },
  { "workers", run_workers, TRUE },
  { "phases", run_phases },
  { "power-law", run_power_law },
};

/* Returns the largest allowed ratio of managed to live bytes. */
static double
get_limit (const Family *family,
           guint         seed,
           guint         lag)
{
  gboolean is_fast = seed < N_FAST;

  if (lag == 0)
    return is_fast ? 1.05 : 1.06;

  if (!family->has_streams)
    return is_fast ? 1.06 : 1.08;

  return is_fast ? 1.14 : 1.16;
}

static void
run_workload (guint number,
              guint lag)
{
  guint seed = number / (guint) G_N_ELEMENTS (families);
  const Family *family = &families[number % G_N_ELEMENTS (families)];
  double limit = get_limit (family, seed, lag);
  Run run = { .random = g_rand_new_with_seed (number), .n_streams = 1 };
  GpuPoolStats stats;
  SimStats made;
  double ratio;

  run.sim = sim_new (CAPACITY, UNIT, GRANULARITY, FALSE);
  run.pool = sim_pool_new (run.sim);
  run.tensors = tensors_new ();
  run.budget = size_between (&run, 1536 * MIB, 16384 * MIB);
  for (guint i = 0; i < MAX_STREAMS; i++)
    run.streams[i] = sim_stream_new (run.sim, lag);

  family->run (&run);

  give_all (&run, run.tensors);
  _gpu_pool_get_stats (run.pool, &stats);
  ratio = (double) stats.peak_managed_bytes / run.peak;
  sim_get_stats (run.sim, &made);
  g_test_message ("seed %u: %" G_GUINT64_FORMAT " bytes managed, %.4f of the peak of %"
                  G_GSIZE_FORMAT " live bytes; %" G_GUINT64_FORMAT " allocations, each with %.0f ns"
                  " of driver calls by the model",
                  seed, stats.peak_managed_bytes, ratio, run.peak, stats.n_allocs,
                  (double) made.driver_time / stats.n_allocs);
  g_assert_cmpuint (run.peak, >=, 256 * MIB);
  if (ratio > limit)
    g_test_fail_printf ("%s, seed %u: the pool managed %.4f of the peak of %" G_GSIZE_FORMAT
                        " live bytes, more than %.2f", family->name, seed, ratio, run.peak, limit);

  _gpu_pool_free (run.pool);
  for (guint i = 0; i < MAX_STREAMS; i++)
    sim_stream_unref (run.streams[i]);
  sim_free (run.sim);
  g_array_unref (run.tensors);
  g_rand_free (run.random);
}

static void
test_workload (gconstpointer data)
{
  run_workload (GPOINTER_TO_UINT (data), 0);
}

/* The same while the host is ahead of the device. */
static void
test_pending (gconstpointer data)
{
  run_workload (GPOINTER_TO_UINT (data), LAG);
}

/* --- limits ------------------------------------------------------------------------------ */

#define N_LIMITED 3000

/* Allocates and frees at random, close to the limit of the pool, while work is pending. The pool
 * never exceeds its limit. Requests that do not fit are refused. */
static void
test_limit (gconstpointer data)
{
  guint64 limit = 9 * 1024 * (guint64) MIB;
  GpuPoolLimits limits = { .release_threshold = G_MAXUINT64, .waste = 0.01, .limit = limit };
  Run run = { .random = g_rand_new_with_seed (GPOINTER_TO_UINT (data)), .n_streams = 2 };
  GpuPoolStats stats;
  SimStats sim_stats;
  guint n_refused = 0;

  run.sim = sim_new (CAPACITY, UNIT * KIB, GRANULARITY, FALSE);
  run.pool = sim_pool_new (run.sim);
  run.tensors = tensors_new ();
  _gpu_pool_set_limits (run.pool, &limits);
  for (guint i = 0; i < run.n_streams; i++)
    run.streams[i] = sim_stream_new (run.sim, any (&run, 5, 400));

  for (guint i = 0; i < N_LIMITED; i++)
    {
      guint stream = any (&run, 0, run.n_streams - 1);
      gsize size = size_between (&run, MIB, 700 * MIB);
      Tensor tensor = { .stream = stream };

      if (any (&run, 0, 99) < 52)
        tensor.block = _gpu_pool_alloc (run.pool, size, 0, run.streams[stream], NULL);
      if (tensor.block != NULL)
        keep (&run, tensor);
      else if (run.tensors->len > 0)
        {
          Tensor freed = pick (&run, any (&run, 0, run.tensors->len - 1));

          _gpu_pool_release (freed.block, run.streams[freed.stream]);
        }
      n_refused += tensor.block == NULL;
      sim_stream_submit (run.streams[stream]);

      _gpu_pool_get_stats (run.pool, &stats);
      sim_get_stats (run.sim, &sim_stats);
      g_assert_cmpuint (stats.managed_bytes, ==, sim_stats.bytes);
      g_assert_cmpuint (sim_stats.peak_bytes, <=, limit);
    }
  g_assert_cmpuint (n_refused, >, 0);
  g_assert_cmpuint (stats.n_recycled, >, 0);

  for (guint i = 0; i < run.tensors->len; i++)
    _gpu_pool_release (g_array_index (run.tensors, Tensor, i).block, NULL);
  _gpu_pool_free (run.pool);
  for (guint i = 0; i < run.n_streams; i++)
    sim_stream_unref (run.streams[i]);
  sim_free (run.sim);
  g_array_unref (run.tensors);
  g_rand_free (run.random);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  for (guint i = 0; i < N_SEEDS * G_N_ELEMENTS (families); i++)
    {
      const char *name = families[i % G_N_ELEMENTS (families)].name;
      guint seed = i / (guint) G_N_ELEMENTS (families);
      g_autofree char *path = g_strdup_printf ("/pool-workloads/%s/%u", name, seed);
      g_autofree char *pending = g_strdup_printf ("/pool-workloads/pending/%s/%u", name, seed);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_workload);
      g_test_add_data_func (pending, GUINT_TO_POINTER (i), test_pending);
    }

  for (guint i = 0; i < N_SEEDS; i++)
    {
      g_autofree char *path = g_strdup_printf ("/pool-workloads/limit/%u", i);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_limit);
    }

  return g_test_run ();
}
