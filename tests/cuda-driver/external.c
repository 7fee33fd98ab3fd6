/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* External memory of other APIs. The stand-in accepts any memfd as external memory. It owns an
 * opaque descriptor after the import. NVIDIA's documentation does not state an owner for dma-bufs:
 * the stand-in leaves them open, or closes them after gpumem_cuda_driver_close_dma_bufs(). */
#include "config.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cuda-driver.h"
#include "driver.h"

static gboolean closes_dma_bufs;

typedef struct
{
  Object  object;
  int     file;
  guint64 size;
} External;

void
gpumem_cuda_driver_close_dma_bufs (gboolean closes)
{
  pthread_mutex_lock (&driver_lock);
  closes_dma_bufs = closes;
  pthread_mutex_unlock (&driver_lock);
}

static gboolean
is_known (CUexternalMemoryHandleType type)
{
  return type == CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD ||
         type == GPU_CUDA_EXTERNAL_MEMORY_DMA_BUF_FD;
}

ENTRY (cuImportExternalMemory,
       (CUexternalMemory *memory, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *description),
       (memory, description))
{
  struct stat info;
  Context *context;
  External *external;

  TRY (context_current (&context));
  if (!is_known (description->type) || description->size == 0 || description->flags != 0 ||
      fstat (description->handle.fd, &info) != 0 || !S_ISREG (info.st_mode) ||
      (guint64) info.st_size < description->size)
    return CUDA_ERROR_INVALID_VALUE;
  external = object_new (sizeof (External), OBJECT_EXTERNAL, context);
  external->file = description->type == CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD
                     ? description->handle.fd
                     : fcntl (description->handle.fd, F_DUPFD_CLOEXEC, 3);
  if (closes_dma_bufs && description->type == GPU_CUDA_EXTERNAL_MEMORY_DMA_BUF_FD)
    close (description->handle.fd);
  external->size = description->size;
  *memory = (CUexternalMemory) external;
  return CUDA_SUCCESS;
}

ENTRY (cuExternalMemoryGetMappedBuffer,
       (CUdeviceptr *address, CUexternalMemory memory,
        const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *description),
       (address, memory, description))
{
  External *external = (External *) memory;
  Context *context;
  Memory *mapped;

  TRY (context_current (&context));
  TRY (object_check (external, OBJECT_EXTERNAL));
  if (description->size == 0 || description->flags != 0 || description->offset != 0 ||
      description->size > external->size)
    return CUDA_ERROR_INVALID_VALUE;
  mapped = memory_new_file (MEMORY_DEVICE, context, context->device, external->file, 0,
                            description->size, 0, description->size);
  if (mapped == NULL)
    return CUDA_ERROR_MAP_FAILED;
  *address = mapped->address;
  return CUDA_SUCCESS;
}

ENTRY (cuDestroyExternalMemory, (CUexternalMemory memory), (memory))
{
  External *external = (External *) memory;

  TRY (object_check (external, OBJECT_EXTERNAL));
  close (external->file);
  object_kill (external);
  return CUDA_SUCCESS;
}
