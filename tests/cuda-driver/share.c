/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory and events between processes. A handle holds a process ID and the number of a file
 * descriptor of that process. The importer opens the file through /proc, so the imported memory
 * stays valid when the exporter exits.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver.h"

#define MAGIC_MEMORY 0x676d656d
#define MAGIC_EVENT 0x67657674

typedef struct
{
  guint32 magic;
  gint32  process;
  gint32  file;
  gint32  device;
  guint64 file_offset;
  guint64 data_size;
  guint64 start;                /* offset of the memory in its pages */
  guint64 size;
  guint64 id;
  guint64 inode;
} Handle;

G_STATIC_ASSERT (sizeof (Handle) == CU_IPC_HANDLE_SIZE);

/* The state of an event, shared by all processes that have opened the event. */
typedef struct
{
  guint32 recorded;             /* atomic; number of records */
  guint32 completed;            /* atomic; the last completed record */
  gint32  process;              /* the process that created the event */
} Page;

typedef struct
{
  guint  refs;
  Page  *page;
  int    file;
} SharedEvent;

typedef struct
{
  SharedEvent *shared;
  guint32      target;
} SharedOp;

static int
open_other (const Handle *handle)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/fd/%d", handle->process, handle->file);
  int file = open (path, O_RDWR | O_CLOEXEC);
  struct stat info;

  if (file >= 0 && (fstat (file, &info) != 0 || info.st_ino != handle->inode))
    {
      close (file);
      return -1;
    }
  return file;
}

static void
fill_handle (Handle  *handle,
             guint32  magic,
             int      file)
{
  struct stat info = { .st_ino = 0 };

  fstat (file, &info);
  memset (handle, 0, sizeof *handle);
  handle->magic = magic;
  handle->process = getpid ();
  handle->file = file;
  handle->inode = info.st_ino;
}

/* --- memory ----------------------------------------------------------------------------------- */

ENTRY (cuIpcGetMemHandle, (CUipcMemHandle *handle, CUdeviceptr address), (handle, address))
{
  Context *context;
  Memory *memory = memory_find (address);
  Handle *self = (Handle *) handle;

  TRY (context_current (&context));
  if (!config.ipc)
    return CUDA_ERROR_NOT_SUPPORTED;
  if (memory == NULL || memory->freed || memory->kind != MEMORY_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  fill_handle (self, MAGIC_MEMORY, memory->device->memory_file);
  self->device = memory->device->ordinal;
  self->file_offset = memory->file_offset;
  self->data_size = memory->data_size;
  self->start = memory->address - GPOINTER_TO_SIZE (memory->data);
  self->size = memory->size;
  self->id = memory->id;
  return CUDA_SUCCESS;
}

static gboolean
is_open (Context      *context,
         const Handle *handle)
{
  g_autoptr (GPtrArray) list = memory_list (context);

  for (guint i = 0; i < list->len; i++)
    {
      const Memory *memory = list->pdata[i];

      if (memory->kind == MEMORY_IMPORTED && memory->file_offset == handle->file_offset &&
          memory->process == handle->process)
        return TRUE;
    }
  return FALSE;
}

ENTRY (cuIpcOpenMemHandle, (CUdeviceptr *address, CUipcMemHandle with, unsigned int flags),
       (address, with, flags))
{
  Handle handle;
  Context *context;
  Memory *memory;
  int file;

  TRY (context_current (&context));
  memcpy (&handle, &with, sizeof handle);
  if (handle.magic != MAGIC_MEMORY || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
    return CUDA_ERROR_INVALID_VALUE;
  if (handle.process == getpid ())
    return CUDA_ERROR_INVALID_CONTEXT;
  if (device_find (handle.device) == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  if (is_open (context, &handle))
    return CUDA_ERROR_ALREADY_MAPPED;
  file = open_other (&handle);
  if (file < 0)
    return CUDA_ERROR_INVALID_VALUE;
  memory = memory_new_file (MEMORY_IMPORTED, context, device_find (handle.device), file,
                            handle.file_offset, handle.data_size, handle.start, handle.size);
  close (file);
  if (memory == NULL)
    return CUDA_ERROR_MAP_FAILED;
  memory->process = handle.process;
  *address = memory->address;
  return CUDA_SUCCESS;
}

ENTRY (cuIpcCloseMemHandle, (CUdeviceptr address), (address))
{
  Context *context;
  Memory *memory = memory_find (address);

  TRY (context_current_lost (&context));
  if (memory == NULL || memory->freed || memory->kind != MEMORY_IMPORTED ||
      memory->address != address)
    return misuse (CUDA_ERROR_INVALID_VALUE, "0x%llx is not imported", address);
  memory_wait (memory, context->error);
  memory_kill (memory);
  return context->error;
}

/* --- events ----------------------------------------------------------------------------------- */

static void
shared_event_unref (SharedEvent *shared)
{
  if (--shared->refs > 0)
    return;
  munmap (shared->page, PAGE);
  close (shared->file);
  g_free (shared);
}

static void
shared_op_free (gpointer data)
{
  SharedOp *op = data;

  shared_event_unref (op->shared);
  g_free (op);
}

static SharedOp *
shared_op_new (SharedEvent *shared,
               guint32      target)
{
  SharedOp *op = g_new0 (SharedOp, 1);

  op->shared = shared;
  op->target = target;
  shared->refs++;
  return op;
}

static gboolean
has_reached (SharedEvent *shared,
             guint32      target)
{
  guint32 completed = __atomic_load_n (&shared->page->completed, __ATOMIC_SEQ_CST);

  return (gint32) (completed - target) >= 0 ||
         (kill (shared->page->process, 0) != 0 && errno == ESRCH);
}

static gboolean
shared_op_ready (gpointer data)
{
  SharedOp *op = data;

  return has_reached (op->shared, op->target);
}

static void
shared_op_done (gpointer data)
{
  SharedOp *op = data;

  __atomic_store_n (&op->shared->page->completed, op->target, __ATOMIC_SEQ_CST);
}

/* Takes ownership of the file. */
static SharedEvent *
shared_event_new (int file)
{
  SharedEvent *shared;
  Page *page = mmap (NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

  if (page == MAP_FAILED)
    {
      close (file);
      return NULL;
    }
  shared = g_new0 (SharedEvent, 1);
  shared->refs = 1;
  shared->page = page;
  shared->file = file;
  return shared;
}

void
event_share (Event *event)
{
  int file = memfd_create ("cuda-event", MFD_CLOEXEC);
  SharedEvent *shared;

  if (file < 0 || ftruncate (file, PAGE) != 0 || (shared = shared_event_new (file)) == NULL)
    g_error ("gpumem-cuda-driver: no page for an event");
  shared->page->process = getpid ();
  event->shared = shared;
}

void
event_close (Event *event)
{
  g_clear_pointer ((SharedEvent **) &event->shared, shared_event_unref);
}

void
event_record_shared (Event *event,
                     Op    *op)
{
  SharedEvent *shared = event->shared;

  if (shared == NULL)
    return;
  op->data = shared_op_new (shared, __atomic_add_fetch (&shared->page->recorded, 1,
                                                        __ATOMIC_SEQ_CST));
  op->free = shared_op_free;
  op->done = shared_op_done;
}

void
event_wait_shared (Event *event,
                   Op    *op)
{
  SharedEvent *shared = event->shared;

  if (shared == NULL)
    return;
  op->data = shared_op_new (shared, __atomic_load_n (&shared->page->recorded, __ATOMIC_SEQ_CST));
  op->free = shared_op_free;
  op->ready = shared_op_ready;
}

gboolean
event_is_over (Event *event)
{
  SharedEvent *shared = event->shared;

  return shared == NULL
         ? point_over (event->point)
         : has_reached (shared, __atomic_load_n (&shared->page->recorded, __ATOMIC_SEQ_CST));
}

void
event_wait (Event *event)
{
  SharedEvent *shared = event->shared;
  guint32 target;

  if (shared == NULL)
    {
      point_wait (event->point);
      return;
    }
  shared->refs++;
  target = __atomic_load_n (&shared->page->recorded, __ATOMIC_SEQ_CST);
  while (!has_reached (shared, target))
    {
      pthread_mutex_unlock (&driver_lock);
      usleep (100);
      pthread_mutex_lock (&driver_lock);
    }
  shared_event_unref (shared);
}

ENTRY (cuIpcGetEventHandle, (CUipcEventHandle *handle, CUevent event), (handle, event))
{
  TRY (object_check (event, OBJECT_EVENT));
  if (event->shared == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  fill_handle ((Handle *) handle, MAGIC_EVENT, ((SharedEvent *) event->shared)->file);
  return CUDA_SUCCESS;
}

ENTRY (cuIpcOpenEventHandle, (CUevent *event, CUipcEventHandle with), (event, with))
{
  SharedEvent *shared;
  Handle handle;
  Context *context;
  int file;

  TRY (context_current (&context));
  memcpy (&handle, &with, sizeof handle);
  if (handle.magic != MAGIC_EVENT)
    return CUDA_ERROR_INVALID_VALUE;
  if (handle.process == getpid ())
    return CUDA_ERROR_INVALID_CONTEXT;
  file = open_other (&handle);
  shared = file >= 0 ? shared_event_new (file) : NULL;
  if (shared == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  *event = object_new (sizeof (Event), OBJECT_EVENT, context);
  (*event)->flags = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING;
  (*event)->shared = shared;
  return CUDA_SUCCESS;
}
