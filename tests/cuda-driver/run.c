/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Runs the blocks of a launch, one after another. An access to an invalid address ends the kernel,
 * as on a device. */
#include "config.h"

#include <dlfcn.h>
#include <link.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fiber.h"
#include "image.h"

#define SIGNAL_STACK_SIZE (64 * 1024)

static const int signals[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL };
static struct sigaction before[G_N_ELEMENTS (signals)];
static __thread gboolean running;
static __thread gpointer signal_stack;

static void
handle_signal (int        number,
               siginfo_t *info,
               gpointer   context)
{
  static const char text[] = "gpumem-cuda-driver: a kernel touched what it must not\n";

  (void) info;
  (void) context;
  if (running)
    {
      running = FALSE;
      if (write (STDERR_FILENO, text, sizeof text - 1) < 0)
        _exit (1);
      fiber_stop_current (number == SIGILL ? CUDA_ERROR_ILLEGAL_INSTRUCTION
                                           : CUDA_ERROR_ILLEGAL_ADDRESS);
    }
  for (gsize i = 0; i < G_N_ELEMENTS (signals); i++)
    if (signals[i] == number)
      sigaction (number, &before[i], NULL);
}

static void
install_handlers (void)
{
  struct sigaction action = { .sa_sigaction = handle_signal,
                              .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER };

  for (gsize i = 0; i < G_N_ELEMENTS (signals); i++)
    sigaction (signals[i], &action, &before[i]);
}

static void
prepare_thread (void)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  stack_t stack = { .ss_size = SIGNAL_STACK_SIZE };

  pthread_once (&once, install_handlers);
  if (signal_stack != NULL)
    return;
  signal_stack = g_malloc (SIGNAL_STACK_SIZE);
  stack.ss_sp = signal_stack;
  sigaltstack (&stack, NULL);
}

void
launch_thread_end (void)
{
  stack_t none = { .ss_flags = SS_DISABLE };

  fibers_free ();
  if (signal_stack == NULL)
    return;
  sigaltstack (&none, NULL);
  g_clear_pointer (&signal_stack, g_free);
}

/* Maps shared memory that ends at an inaccessible page. */
static guint8 *
map_shared (gsize   size,
            gsize  *mapped)
{
  guint8 *data;

  *mapped = (size + PAGE - 1) / PAGE * PAGE + PAGE;
  data = mmap (NULL, *mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED || mprotect (data + *mapped - PAGE, PAGE, PROT_NONE) != 0)
    g_error ("gpumem-cuda-driver: no shared memory for a kernel");
  return data;
}

/* Sets the thread-local variables of the module that contains those at variables. */
static int
find_variables (struct dl_phdr_info *info,
                gsize                size G_GNUC_UNUSED,
                gpointer             data)
{
  KernelThread *thread = data;

  for (guint i = 0; i < info->dlpi_phnum; i++)
    {
      const guint8 *begin = info->dlpi_tls_data;

      if (info->dlpi_phdr[i].p_type != PT_TLS || begin == NULL
          || (gsize) ((guint8 *) thread->variables - begin) >= info->dlpi_phdr[i].p_memsz)
        continue;

      thread->variables = info->dlpi_tls_data;
      thread->variables_size = info->dlpi_phdr[i].p_memsz;
      return 1;
    }
  return 0;
}

static guint
run_blocks (const Launch *launch,
            FiberRun     *run,
            guint8       *shared)
{
  guint code = 0;

  for (guint z = 0; z < launch->grid[2] && code == 0; z++)
    for (guint y = 0; y < launch->grid[1] && code == 0; y++)
      for (guint x = 0; x < launch->grid[0] && code == 0; x++)
        {
          run->template.block[0] = x;
          run->template.block[1] = y;
          run->template.block[2] = z;
          memset (shared, 0xcb, launch->shared_size);
          running = TRUE;
          code = fibers_run (run);
          running = FALSE;
        }
  return code;
}

CUresult
launch_run (gpointer data)
{
  Launch *launch = data;
  const KernelEntry *entry = launch->function->entry;
  KernelThread *none;
  KernelThread **(*get_place) (void);
  FiberRun run = { .run = entry->run, .function = entry->function,
                   .arguments = launch->arguments, .place = &none };
  gsize aligned = (launch->shared_size + 15) / 16 * 16;
  gsize mapped;
  guint8 *shared;
  guint code;

  if (launch->traps)
    return CUDA_ERROR_LAUNCH_FAILED;
  if (launch->function->is_builtin)
    {
      entry->run (NULL, launch->arguments);
      return CUDA_SUCCESS;
    }
  get_place = dlsym (launch->function->module->handle, "gpumem_get_place");
  run.place = get_place ();
  memcpy (run.template.grid_size, launch->grid, sizeof launch->grid);
  memcpy (run.template.block_size, launch->block, sizeof launch->block);
  run.template.fetch = texture_fetch;
  run.template.access = surface_access;
  shared = map_shared (aligned, &mapped);
  run.template.shared = shared + mapped - PAGE - aligned;
  run.template.shared_size = aligned;
  run.template.variables = run.place;
  dl_iterate_phdr (find_variables, &run.template);
  prepare_thread ();
  code = run_blocks (launch, &run, run.template.shared);
  memory_open ();
  munmap (shared, mapped);
  return code;
}
