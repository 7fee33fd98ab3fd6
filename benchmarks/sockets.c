/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Compares GpuInputStream, GpuOutputStream and gpu_memory_splice_async() over a TCP connection with
 * a plain loop of blocking calls of GSocket over host memory, in a thread. A second process is the
 * peer; it is in another network namespace if the system permits that, and otherwise reached over
 * loopback. In the main loop of the asynchronous functions, a timer of 100 Hz measures how late it
 * is called. The same timer runs beside the plain loop, which does not use the main loop: its delay
 * is that of the system.
 *
 *   benchmarks/sockets [DEVICE [MIB]]
 */
#define _GNU_SOURCE
#include "config.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gio/gio.h>
#include <gpumem/gpumem.h>

#include "benchmarks/bench-util.h"

#define MIB          ((gsize) 1024 * 1024)
#define N_ROUNDS     9
#define BLOCK_SIZE   ((gsize) 512 * 1024)
#define TICK         10         /* milliseconds */
#define OUR_ADDRESS  "10.77.77.1"
#define PEER_ADDRESS "10.77.77.2"
#define PORT         7777

/* An exit status */
#define NO_NAMESPACES 3

/* Bytes that the peer receives first */
#define SEND   's'              /* to the peer */
#define VERIFY 'v'              /* to the peer, which compares the bytes */
#define FETCH  'f'              /* from the peer */

typedef struct
{
  GMainLoop         *loop;
  GpuStream         *stream;
  GpuBuffer         *buffer;
  guint8            *data;      /* for the plain loop, and to compare */
  gsize              size;
  const char        *address;
  GSocketConnection *connection; /* of the plain loop */
  gint64             due;       /* time of the next tick */
  gint64            *latest;        /* greatest delay of a tick, in microseconds */
} Bench;

/* A loop of asynchronous calls with two blocks */
typedef struct
{
  Bench         *bench;
  GInputStream  *input;
  GOutputStream *output;
  guint8        *blocks[2];
  gsize          sizes[2];      /* of the bytes to send, or 0 */
  guint          reading;
  guint          sending;
  gboolean       is_reading;
  gboolean       is_sending;
  gboolean       is_read;       /* to the end */
} Pump;

static void
check (gboolean      success,
       const GError *error)
{
  if (!success)
    g_error ("%s", error != NULL ? error->message : "the transfer has ended early");
}

static void
fill (guint8 *data,
      gsize   size)
{
  guint64 state = 1;

  for (gsize i = 0; i < size; i++)
    {
      state = state * G_GUINT64_CONSTANT (6364136223846793005) + 1442695040888963407;
      data[i] = state >> 56;
    }
}

/* --- the plain loop --------------------------------------------------------------------------- */

static void
send_all (GSocket      *socket,
          const guint8 *data,
          gsize         size)
{
  g_autoptr (GError) error = NULL;

  for (gsize done = 0; done < size; )
    {
      gssize n = g_socket_send (socket, (const char *) data + done,
                                MIN (size - done, BLOCK_SIZE), NULL, &error);

      check (n > 0, error);
      done += n;
    }
}

static void
receive_all (GSocket *socket,
             guint8  *data,
             gsize    size)
{
  g_autoptr (GError) error = NULL;

  for (gsize done = 0; done < size; )
    {
      gssize n = g_socket_receive (socket, (char *) data + done, MIN (size - done, BLOCK_SIZE),
                                   NULL, &error);

      check (n > 0, error);
      done += n;
    }
}

/* --- the peer --------------------------------------------------------------------------------- */

static void
serve (GSocket *socket,
       guint8  *data,
       guint8  *received,
       gsize    size)
{
  guint8 command;

  receive_all (socket, &command, 1);

  if (command == FETCH)
    {
      send_all (socket, data, size);
      return;
    }

  receive_all (socket, received, size);

  if (command == VERIFY && memcmp (received, data, size) != 0)
    g_error ("the peer has received wrong bytes");

  send_all (socket, &command, 1);
}

static void
run_peer (const char *address,
          gsize       size,
          int         ready)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GSocketAddress) here = g_inet_socket_address_new_from_string (address, PORT);
  g_autoptr (GSocket) listener = g_socket_new (G_SOCKET_FAMILY_IPV4, G_SOCKET_TYPE_STREAM,
                                               G_SOCKET_PROTOCOL_TCP, &error);
  g_autofree guint8 *data = g_malloc (size);
  g_autofree guint8 *received = g_malloc (size);

  check (listener != NULL && g_socket_bind (listener, here, TRUE, &error)
         && g_socket_listen (listener, &error), error);
  fill (data, size);
  memset (received, 0, size);
  check (write (ready, "r", 1) == 1, NULL);

  while (TRUE)
    {
      g_autoptr (GSocket) socket = g_socket_accept (listener, NULL, &error);

      check (socket != NULL, error);
      serve (socket, data, received, size);
    }
}

/* --- network namespaces ----------------------------------------------------------------------- */

static gboolean
write_text (const char *path,
            const char *text)
{
  FILE *file = fopen (path, "w");
  gboolean success = file != NULL && fputs (text, file) >= 0;

  return file != NULL && fclose (file) == 0 && success;
}

/* Moves the process into a network namespace of its own. Without privileges, that needs a user
 * namespace, in which the process is root. */
static gboolean
enter_namespace (void)
{
  g_autofree char *users = g_strdup_printf ("0 %u 1", geteuid ());
  g_autofree char *groups = g_strdup_printf ("0 %u 1", getegid ());

  if (unshare (CLONE_NEWNET) == 0)
    return TRUE;

  return unshare (CLONE_NEWUSER | CLONE_NEWNET) == 0
         && write_text ("/proc/self/setgroups", "deny")
         && write_text ("/proc/self/uid_map", users) && write_text ("/proc/self/gid_map", groups);
}

static gboolean
run (const char *line)
{
  int status;
  g_autofree char *out = NULL;
  g_autofree char *err = NULL;

  return g_spawn_command_line_sync (line, &out, &err, &status, NULL)
         && g_spawn_check_wait_status (status, NULL);
}

static gboolean
configure_device (const char *name,
                  const char *address)
{
  g_autofree char *add = g_strdup_printf ("ip address add %s/24 dev %s", address, name);
  g_autofree char *up = g_strdup_printf ("ip link set %s up", name);

  return run (add) && run (up);
}

/* --- our side --------------------------------------------------------------------------------- */

static GSocketConnection *
connect_to_peer (Bench *bench,
                 char   command)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GSocketClient) client = g_socket_client_new ();
  GSocketConnection *connection = g_socket_client_connect_to_host (client, bench->address, PORT,
                                                                   NULL, &error);

  check (connection != NULL, error);
  send_all (g_socket_connection_get_socket (connection), (const guint8 *) &command, 1);

  return connection;
}

static void
wait_for_peer (GSocketConnection *connection)
{
  guint8 reply;

  receive_all (g_socket_connection_get_socket (connection), &reply, 1);
}

static void
on_spliced (GObject      *object,
            GAsyncResult *result,
            gpointer      data)
{
  Bench *bench = data;
  g_autoptr (GError) error = NULL;
  gssize n = g_output_stream_splice_finish (G_OUTPUT_STREAM (object), result, &error);

  check (n == (gssize) bench->size, error);
  g_main_loop_quit (bench->loop);
}

/* Measures from the time at which the timer was due, so that no late call hides the next one. */
static gboolean
on_tick (gpointer data)
{
  Bench *bench = data;
  gint64 now = g_get_monotonic_time ();

  *bench->latest = MAX (*bench->latest, now - bench->due);
  bench->due = now + TICK * 1000;
  g_source_set_ready_time (g_main_current_source (), bench->due);

  return G_SOURCE_CONTINUE;
}

static GSource *
start_timer (Bench *bench)
{
  GSource *timer = g_timeout_source_new (TICK);

  bench->due = g_get_monotonic_time () + TICK * 1000;
  g_source_set_callback (timer, on_tick, bench, NULL);
  g_source_attach (timer, NULL);
  g_source_set_ready_time (timer, bench->due);

  return timer;
}

static gboolean
on_plain_end (gpointer data)
{
  Bench *bench = data;

  g_main_loop_quit (bench->loop);

  return G_SOURCE_REMOVE;
}

static gpointer
plain_send (gpointer data)
{
  Bench *bench = data;

  send_all (g_socket_connection_get_socket (bench->connection), bench->data, bench->size);
  g_idle_add_full (G_PRIORITY_DEFAULT, on_plain_end, bench, NULL);

  return NULL;
}

static gpointer
plain_fetch (gpointer data)
{
  Bench *bench = data;

  receive_all (g_socket_connection_get_socket (bench->connection), bench->data, bench->size);
  g_idle_add_full (G_PRIORITY_DEFAULT, on_plain_end, bench, NULL);

  return NULL;
}

/* Runs the plain loop in a thread, so that its timer shows how late the system calls any timer. */
static void
run_plain (Bench             *bench,
           GSocketConnection *connection,
           GThreadFunc        func)
{
  g_autoptr (GSource) timer = start_timer (bench);
  GThread *thread;

  bench->connection = connection;
  thread = g_thread_new ("plain", func, bench);
  g_main_loop_run (bench->loop);
  g_thread_join (thread);
  g_source_destroy (timer);
}

static void
plain_send_all (Bench             *bench,
                GSocketConnection *connection)
{
  run_plain (bench, connection, plain_send);
}

static void
plain_fetch_all (Bench             *bench,
                 GSocketConnection *connection)
{
  run_plain (bench, connection, plain_fetch);
}

static void on_read (GObject *object, GAsyncResult *result, gpointer data);
static void on_sent (GObject *object, GAsyncResult *result, gpointer data);

/* Sends one block while it reads the next one. The splice of a socket would send 8 KiB at once. */
static void
pump_run (Pump *pump)
{
  guint next = (pump->sending + 1) % 2;

  if (!pump->is_sending && pump->sizes[pump->sending] > 0)
    {
      pump->is_sending = TRUE;
      g_output_stream_write_all_async (pump->output, pump->blocks[pump->sending],
                                       pump->sizes[pump->sending], G_PRIORITY_DEFAULT, NULL,
                                       on_sent, pump);
    }

  if (!pump->is_reading && !pump->is_read
      && (pump->sizes[pump->sending] == 0 || pump->sizes[next] == 0))
    {
      pump->reading = pump->sizes[pump->sending] == 0 ? pump->sending : next;
      pump->is_reading = TRUE;
      g_input_stream_read_async (pump->input, pump->blocks[pump->reading], BLOCK_SIZE,
                                 G_PRIORITY_DEFAULT, NULL, on_read, pump);
    }

  if (!pump->is_sending && !pump->is_reading)
    g_main_loop_quit (pump->bench->loop);
}

static void
on_read (GObject      *object,
         GAsyncResult *result,
         gpointer      data)
{
  Pump *pump = data;
  g_autoptr (GError) error = NULL;
  gssize n = g_input_stream_read_finish (G_INPUT_STREAM (object), result, &error);

  check (n >= 0, error);
  pump->is_reading = FALSE;
  pump->is_read = n == 0;
  pump->sizes[pump->reading] = n;
  pump_run (pump);
}

static void
on_sent (GObject      *object,
         GAsyncResult *result,
         gpointer      data)
{
  Pump *pump = data;
  g_autoptr (GError) error = NULL;

  check (g_output_stream_write_all_finish (G_OUTPUT_STREAM (object), result, NULL, &error), error);
  pump->is_sending = FALSE;
  pump->sizes[pump->sending] = 0;
  pump->sending = (pump->sending + 1) % 2;
  pump_run (pump);
}

static void
our_send (Bench             *bench,
          GSocketConnection *connection)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GInputStream) input = gpu_input_stream_new (GPU_MEMORY (bench->buffer), bench->stream,
                                                         0, bench->size, &error);
  g_autofree guint8 *one = g_malloc (BLOCK_SIZE);
  g_autofree guint8 *other = g_malloc (BLOCK_SIZE);
  Pump pump = { .bench = bench, .input = input, .blocks = { one, other },
                .output = g_io_stream_get_output_stream (G_IO_STREAM (connection)) };
  g_autoptr (GSource) timer = NULL;

  check (input != NULL, error);
  timer = start_timer (bench);
  pump_run (&pump);
  g_main_loop_run (bench->loop);
  g_source_destroy (timer);
}

static void
our_fetch (Bench             *bench,
           GSocketConnection *connection)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GOutputStream) output = gpu_output_stream_new (GPU_MEMORY (bench->buffer),
                                                            bench->stream, 0, bench->size, &error);
  g_autoptr (GSource) timer = NULL;

  check (output != NULL, error);
  timer = start_timer (bench);
  g_output_stream_splice_async (output, g_io_stream_get_input_stream (G_IO_STREAM (connection)),
                                G_OUTPUT_STREAM_SPLICE_NONE, G_PRIORITY_DEFAULT, NULL, on_spliced,
                                bench);
  g_main_loop_run (bench->loop);
  g_source_destroy (timer);
  check (g_output_stream_flush (output, NULL, &error), error);
}

static void
on_memory_spliced (GObject      *object,
                   GAsyncResult *result,
                   gpointer      data)
{
  Bench *bench = data;
  g_autoptr (GError) error = NULL;

  check (gpu_memory_splice_finish (GPU_MEMORY (object), result, &error), error);
  g_main_loop_quit (bench->loop);
}

static void
splice (Bench             *bench,
        GSocketConnection *connection,
        gboolean           send)
{
  g_autoptr (GSource) timer = start_timer (bench);

  gpu_memory_splice_async (GPU_MEMORY (bench->buffer), bench->stream, 0, bench->size, send,
                           (GIOStream **) &connection, 1, NULL, on_memory_spliced, bench);
  g_main_loop_run (bench->loop);
  g_source_destroy (timer);
}

static void
splice_send (Bench             *bench,
             GSocketConnection *connection)
{
  splice (bench, connection, TRUE);
}

static void
splice_fetch (Bench             *bench,
              GSocketConnection *connection)
{
  splice (bench, connection, FALSE);
}

static double
time_transfer (Bench   *bench,
               char     command,
               void   (*transfer) (Bench *, GSocketConnection *),
               gint64  *latest)
{
  g_autoptr (GSocketConnection) connection = connect_to_peer (bench, command);
  gint64 start = g_get_monotonic_time ();

  bench->latest = latest;
  transfer (bench, connection);

  if (command != FETCH)
    wait_for_peer (connection);

  return (double) (g_get_monotonic_time () - start);
}

/* The ratio is the median of the ratios of all rounds. */
static void
compare (Bench      *bench,
         const char *name,
         char        command,
         void      (*ours) (Bench *, GSocketConnection *),
         void      (*plain) (Bench *, GSocketConnection *))
{
  double our_times[N_ROUNDS];
  double plain_times[N_ROUNDS];
  double ratios[N_ROUNDS];
  double bytes = (double) bench->size;
  gint64 our_latest = 0;
  gint64 plain_latest = 0;

  for (guint i = 0; i < N_ROUNDS; i++)
    {
      if (i % 2 == 0)
        our_times[i] = time_transfer (bench, command, ours, &our_latest);

      plain_times[i] = time_transfer (bench, command, plain, &plain_latest);

      if (i % 2 == 1)
        our_times[i] = time_transfer (bench, command, ours, &our_latest);

      ratios[i] = plain_times[i] / our_times[i];
    }

  printf ("%-18s %7.2f GB/s %7.2f GB/s %7.3f %9.1f ms %9.1f ms\n", name,
          bytes / bench_median (our_times, N_ROUNDS) / 1000,
          bytes / bench_median (plain_times, N_ROUNDS) / 1000, bench_median (ratios, N_ROUNDS),
          (double) our_latest / 1000, (double) plain_latest / 1000);
}

/* The first transfer in each direction is compared and not measured. */
static void
verify (Bench *bench)
{
  g_autoptr (GError) error = NULL;
  g_autofree guint8 *expected = g_malloc (bench->size);
  gint64 latest = 0;

  fill (expected, bench->size);
  time_transfer (bench, FETCH, our_fetch, &latest);
  check (gpu_buffer_read (bench->buffer, bench->stream, 0, bench->data, bench->size, NULL, &error),
         error);

  if (memcmp (bench->data, expected, bench->size) != 0)
    g_error ("the memory has wrong bytes");

  time_transfer (bench, VERIFY, our_send, &latest);
  time_transfer (bench, FETCH, plain_fetch_all, &latest);
}

static void
run_bench (Bench     *bench,
           GpuDevice *device)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) context = gpu_context_new (device, GPU_CONTEXT_FLAGS_NONE, &error);

  check (context != NULL, error);
  bench->stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, &error);
  check (bench->stream != NULL, error);
  bench->buffer = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, bench->size, &error);
  check (bench->buffer != NULL, error);
  bench->loop = g_main_loop_new (NULL, FALSE);
  bench->data = g_malloc0 (bench->size);

  verify (bench);
  printf ("%-18s %12s %12s %7s %12s %12s\n", "stream", "gpumem", "GSocket", "ratio", "timer late",
          "GSocket's");
  compare (bench, "memory to socket", SEND, our_send, plain_send_all);
  compare (bench, "socket to memory", FETCH, our_fetch, plain_fetch_all);
  compare (bench, "splice to socket", SEND, splice_send, plain_send_all);
  compare (bench, "splice to memory", FETCH, splice_fetch, plain_fetch_all);

  g_free (bench->data);
  g_main_loop_unref (bench->loop);
  g_object_unref (bench->buffer);
  g_object_unref (bench->stream);
}

/* --- processes -------------------------------------------------------------------------------- */

/* Waits until the other process has written to the pipe. */
static gboolean
wait_for (int fd)
{
  char byte;

  return read (fd, &byte, 1) == 1 && byte == 'r';
}

/* The process of the peer: enters a namespace, waits for its network device and serves. */
static void
start_peer (int      in,
            int      out,
            gsize    size,
            gboolean separate)
{
  prctl (PR_SET_PDEATHSIG, SIGKILL);
  separate = separate && unshare (CLONE_NEWNET) == 0;
  check (write (out, separate ? "r" : "n", 1) == 1, NULL);

  if (separate)
    separate = wait_for (in) && configure_device ("bench-peer", PEER_ADDRESS);

  run_peer (separate ? PEER_ADDRESS : "127.0.0.1", size, out);
  exit (0);
}

static gboolean
link_namespaces (pid_t pid)
{
  g_autofree char *add = g_strdup_printf ("ip link add bench-here type veth peer name bench-peer "
                                          "netns %d", (int) pid);

  return run (add) && configure_device ("bench-here", OUR_ADDRESS);
}

/* Returns the exit status: NO_NAMESPACES if @separate is TRUE and the system does not permit it. */
static int
run_processes (int      argc,
               char   **argv,
               gboolean separate)
{
  Bench bench = { .size = (argc > 2 ? strtoul (argv[2], NULL, 10) : 1024) * MIB };
  int to_peer[2], from_peer[2];
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDevice) device = NULL;
  pid_t pid;

  check (bench.size > 0 && pipe (to_peer) == 0 && pipe (from_peer) == 0, NULL);
  pid = fork ();

  if (pid == 0)
    start_peer (to_peer[0], from_peer[1], bench.size, separate);

  if (wait_for (from_peer[0]) != separate || (separate && !link_namespaces (pid)))
    return NO_NAMESPACES;

  check (write (to_peer[1], separate ? "r" : "n", 1) == 1 && wait_for (from_peer[0]), NULL);
  bench.address = separate ? PEER_ADDRESS : "127.0.0.1";
  device = argc > 1 ? gpu_device_find (argv[1], &error) : gpu_device_get_default (&error);
  check (device != NULL, error);
  printf ("%s, %" G_GSIZE_FORMAT " MiB per transfer, %s\n", gpu_device_get_name (device),
          bench.size / MIB, separate ? "between two network namespaces"
                                     : "over loopback: network namespaces are not permitted");
  run_bench (&bench, device);
  kill (pid, SIGTERM);
  waitpid (pid, NULL, 0);

  return 0;
}

/* A process that has entered a namespace cannot leave it, so that another process tries. */
int
main (int    argc,
      char **argv)
{
  pid_t pid = fork ();
  int status = 0;

  if (pid == 0)
    return enter_namespace () ? run_processes (argc, argv, TRUE) : NO_NAMESPACES;

  check (pid > 0 && waitpid (pid, &status, 0) == pid, NULL);

  if (WIFEXITED (status) && WEXITSTATUS (status) == NO_NAMESPACES)
    return run_processes (argc, argv, FALSE);

  return WIFEXITED (status) ? WEXITSTATUS (status) : EXIT_FAILURE;
}
