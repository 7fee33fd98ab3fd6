/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Device memory. A memfd holds the memory of a device. Each allocation maps a part of the file,
 * with an inaccessible guard page on each side. On processors with protection keys
 * only stream threads can access the mappings. Addresses are not reused for a long time.
 */
#include "config.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "driver.h"

/* The limits of the freed memory whose addresses are retained. Tools such as valgrind leave a
 * program few addresses. */
#define N_DEAD 2000
#define DEAD_SIZE (G_GUINT64_CONSTANT (64) << 30)
#define ALIGNMENT 512
#define POISON_BYTE 0xcb
#define POISON_SIZE 65536

const char *const memory_kinds[N_MEMORY_KINDS] = {
  [MEMORY_DEVICE] = "device memory",
  [MEMORY_HOST] = "host memory",
  [MEMORY_REGISTERED] = "registered memory",
  [MEMORY_MANAGED] = "managed memory",
  [MEMORY_POOL] = "pooled memory",
  [MEMORY_MAPPED] = "mapped memory",
  [MEMORY_RESERVED] = "reserved addresses",
  [MEMORY_IMPORTED] = "imported memory",
  [MEMORY_GLOBAL] = "global variable",
  [MEMORY_ARRAY] = "array memory",
};

static GPtrArray *table;            /* of Memory, live and freed, sorted by address */
static GPtrArray *reservations;
static GQueue dead = G_QUEUE_INIT;
static guint64 dead_size;
static guint64 locked_size;         /* page-locked memory of the host */
static guint64 last_id;
static int key = -1;

Memory *
memory_ref (Memory *memory)
{
  memory->refs++;
  return memory;
}

void
memory_unref (Memory *memory)
{
  if (--memory->refs > 0)
    return;
  g_clear_pointer (&memory->made, point_unref);
  if (memory->kind == MEMORY_MANAGED)
    managed_free (memory);
  g_ptr_array_unref (memory->uses);
  g_free (memory);
}

/* --- the tables ------------------------------------------------------------------------------- */

/* Called before any stream thread exists. */
void
memory_init (void)
{
  table = g_ptr_array_new ();
  reservations = g_ptr_array_new ();
  if (config.protect)
    key = pkey_alloc (0, PKEY_DISABLE_ACCESS);
}

void
memory_open (void)
{
  if (key >= 0)
    pkey_set (key, 0);
}

/* Finds the index of the first memory past @address. */
static guint
find_place (GPtrArray *array,
            guint64    address)
{
  guint low = 0;
  guint high = array->len;

  while (low < high)
    {
      guint middle = (low + high) / 2;

      if (((Memory *) array->pdata[middle])->address <= address)
        low = middle + 1;
      else
        high = middle;
    }
  return low;
}

static Memory *
find_in (GPtrArray *array,
         guint64    address)
{
  guint place = array != NULL ? find_place (array, address) : 0;
  Memory *memory = place > 0 ? array->pdata[place - 1] : NULL;

  return memory != NULL && address - memory->address < memory->size ? memory : NULL;
}

Memory *
memory_find (guint64 address)
{
  return find_in (table, address);
}

Memory *
memory_find_reserved (guint64 address)
{
  return find_in (reservations, address);
}

/* Returns whether some memory overlaps the range. */
gboolean
memory_is_taken (guint64 address,
                 guint64 size)
{
  for (guint place = find_place (table, address + size - 1); place > 0; place--)
    {
      Memory *memory = table->pdata[place - 1];

      if (memory->address + memory->size <= address)
        return FALSE;
      if (!memory->freed)
        return TRUE;
    }
  return FALSE;
}

static void
forget (Memory *memory)
{
  GPtrArray *array = memory->kind == MEMORY_RESERVED ? reservations : table;

  if (memory->link != NULL)
    {
      g_queue_delete_link (&dead, memory->link);
      dead_size -= memory->map_size;
    }
  g_ptr_array_remove (array, memory);
  if (memory->map != NULL)
    munmap (memory->map, memory->map_size);
  memory_unref (memory);
}

void
memory_add (Memory *memory)
{
  GPtrArray *array;
  guint place;

  array = memory->kind == MEMORY_RESERVED ? reservations : table;
  for (place = find_place (array, memory->address + memory->size - 1); place > 0; place--)
    {
      Memory *other = array->pdata[place - 1];

      if (other->address + other->size <= memory->address)
        break;
      forget (other);
    }
  g_ptr_array_insert (array, find_place (array, memory->address), memory);
}

static void
list_alive (GPtrArray *list,
            GPtrArray *array,
            Context   *context)
{
  for (guint i = 0; array != NULL && i < array->len; i++)
    {
      Memory *memory = array->pdata[i];

      if (!memory->freed && (context == NULL || memory->context == context))
        g_ptr_array_add (list, memory);
    }
}

GPtrArray *
memory_list (Context *context)
{
  GPtrArray *list = g_ptr_array_new ();

  list_alive (list, table, context);
  list_alive (list, reservations, context);
  return list;
}

/* --- pages ------------------------------------------------------------------------------------ */

gboolean
memory_map_file (guint64 address,
                 guint64 size,
                 int     file,
                 guint64 offset,
                 int     protection)
{
  gpointer place = GSIZE_TO_POINTER (address);

  if (mmap (place, size, protection, MAP_SHARED | MAP_FIXED, file, offset) == MAP_FAILED)
    return FALSE;
  if (key >= 0)
    pkey_mprotect (place, size, protection, key);
  return TRUE;
}

/* Makes the pages inaccessible to all threads. */
void
memory_close_pages (gpointer address,
                    guint64  size)
{
  mmap (address, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void
memory_close_to_host (Memory   *memory,
                      gboolean  closed)
{
  if (key >= 0)
    pkey_mprotect (memory->data, memory->data_size, PROT_READ | PROT_WRITE, closed ? key : 0);
}

/* Reserves inaccessible pages, with a guard page on each side. */
static gboolean
reserve_pages (Memory  *memory,
               guint64  data_size)
{
  memory->data_size = (data_size + PAGE - 1) / PAGE * PAGE;
  memory->map_size = memory->data_size + 2 * PAGE;
  memory->map = mmap (NULL, memory->map_size, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory->map == MAP_FAILED)
    {
      memory->map = NULL;
      return FALSE;
    }
  memory->data = memory->map + PAGE;
  return TRUE;
}

static void
poison (Memory *memory)
{
  static guint8 bytes[POISON_SIZE];
  gsize size = MIN (memory->data_size, POISON_SIZE);

  memset (bytes, POISON_BYTE, sizeof bytes);
  if (pwrite (memory->device->memory_file, bytes, size, memory->file_offset) != (gssize) size)
    g_error ("gpumem-cuda-driver: no memory for a device");
}

/* Maps the memory so that its last byte is the last byte of a page: an overrun hits the guard
 * page. */
static gboolean
map_device (Memory *memory)
{
  guint64 size = (memory->size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  Device *device = memory->device;

  if (size + device->used + device->pooled > config.memory || !reserve_pages (memory, size))
    return FALSE;
  memory->file_offset = device->file_used;
  poison (memory);
  if (!memory_map_file (GPOINTER_TO_SIZE (memory->data), memory->data_size, device->memory_file,
                        memory->file_offset, PROT_READ | PROT_WRITE))
    return FALSE;
  memory->owns_file = TRUE;
  device->file_used += memory->data_size;
  device->used += size;
  memory->address = GPOINTER_TO_SIZE (memory->data) + memory->data_size - size;
  return TRUE;
}

static gboolean
map_host (Memory *memory)
{
  if (!reserve_pages (memory, memory->size))
    return FALSE;
  memory->address = GPOINTER_TO_SIZE (memory->data);
  return mmap (memory->data, memory->data_size, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
}

static Memory *
make (MemoryKind  kind,
      Context    *context,
      Device     *device,
      guint64     size)
{
  Memory *memory = g_new0 (Memory, 1);
  const Call *call = call_current ();

  memory->refs = 1;
  memory->kind = kind;
  memory->context = context;
  memory->device = device;
  memory->size = size;
  memory->id = ++last_id;
  memory->access = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  memory->uses = g_ptr_array_new_with_free_func ((GDestroyNotify) point_unref);
  memory->function = call->function;
  memory->number = call->number;
  return memory;
}

Memory *
memory_new (MemoryKind  kind,
            Context    *context,
            Device     *device,
            guint64     size)
{
  Memory *memory = make (kind, context, device, size);

  if (size == 0 || size > config.memory * 4 ||
      !(device != NULL ? map_device (memory) : map_host (memory)))
    {
      if (memory->map != NULL)
        munmap (memory->map, memory->map_size);
      memory_unref (memory);
      return NULL;
    }
  memory_add (memory);
  return memory;
}

Memory *
memory_new_at (MemoryKind  kind,
               Context    *context,
               Device     *device,
               guint64     address,
               guint64     size)
{
  Memory *memory = make (kind, context, device, size);

  memory->address = address;
  memory_add (memory);
  return memory;
}

Memory *
memory_new_file (MemoryKind  kind,
                 Context    *context,
                 Device     *device,
                 int         file,
                 guint64     file_offset,
                 guint64     data_size,
                 guint64     start,
                 guint64     size)
{
  Memory *memory = make (kind, context, device, size);

  if (!reserve_pages (memory, data_size) ||
      !memory_map_file (GPOINTER_TO_SIZE (memory->data), data_size, file, file_offset,
                        PROT_READ | PROT_WRITE))
    {
      memory_unref (memory);
      return NULL;
    }
  memory->file_offset = file_offset;
  memory->address = GPOINTER_TO_SIZE (memory->data) + start;
  memory_add (memory);
  return memory;
}

/* Also called from stream threads, outside of any driver call. */
void
memory_unmap (Memory *memory)
{
  if (memory->data == NULL)
    return;
  memory_close_pages (memory->data, memory->data_size);
  if (memory->owns_file)
    {
      fallocate (memory->device->memory_file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                 memory->file_offset, memory->data_size);
      memory->device->used -= (memory->size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
  pool_note_freed (memory);
  virtual_note_unmapped (memory);
}

gboolean
memory_lock (guint64 size)
{
  struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };

  if (config.memlock)
    getrlimit (RLIMIT_MEMLOCK, &limit);
  if (limit.rlim_cur != RLIM_INFINITY && locked_size + size > limit.rlim_cur)
    return FALSE;
  locked_size += size;
  return TRUE;
}

void
memory_unlock (guint64 size)
{
  locked_size -= size;
}

/* Retains the addresses of freed memory for a while, to detect later uses. The addresses of
 * registered memory are not retained, because the application may still use them. */
void
memory_kill (Memory *memory)
{
  memory->freed = TRUE;
  memory_unmap (memory);
  if (memory->kind == MEMORY_HOST || memory->kind == MEMORY_REGISTERED)
    memory_unlock (memory->size);
  if (memory->kind == MEMORY_REGISTERED)
    {
      forget (memory);
      return;
    }
  g_queue_push_tail (&dead, memory);
  memory->link = dead.tail;
  dead_size += memory->map_size;
  while (dead.length > N_DEAD || dead_size > DEAD_SIZE)
    forget (g_queue_peek_head (&dead));
}

gboolean
memory_is_hidden (const Memory *memory)
{
  return memory->kind == MEMORY_GLOBAL || memory->kind == MEMORY_ARRAY;
}

/* --- checks ----------------------------------------------------------------------------------- */

static CUresult
check_part (Memory     *memory,
            guint64     address,
            gboolean    writes,
            const char *what)
{
  if (memory == NULL || memory->kind == MEMORY_ARRAY)
    return misuse (CUDA_ERROR_INVALID_VALUE, "%s 0x%" G_GINT64_MODIFIER
                   "x is no memory that a device can reach", what, address);
  if (memory->freed)
    return misuse (CUDA_ERROR_INVALID_VALUE, "%s 0x%" G_GINT64_MODIFIER "x is in %s of %"
                   G_GUINT64_FORMAT " bytes, from call %u (%s), that was freed", what, address,
                   memory_kinds[memory->kind], memory->size, memory->number,
                   call_names[memory->function]);
  if (memory->peers == 0 &&
      (memory->access == CU_MEM_ACCESS_FLAGS_PROT_NONE ||
       (writes && memory->access == CU_MEM_ACCESS_FLAGS_PROT_READ)))
    return misuse (CUDA_ERROR_INVALID_VALUE, "%s 0x%" G_GINT64_MODIFIER
                   "x: its access flags are %d", what, address, memory->access);
  return CUDA_SUCCESS;
}

/* The range must lie within one allocation or within adjacent mappings. */
CUresult
memory_check (Op         *op,
              Stream     *stream,
              guint64     address,
              guint64     size,
              gboolean    writes,
              const char *what)
{
  while (size > 0)
    {
      Memory *memory = memory_find (address);
      guint64 rest;

      TRY (check_part (memory, address, writes, what));
      rest = memory->address + memory->size - address;
      if (size > rest && memory->kind != MEMORY_MAPPED)
        return misuse (CUDA_ERROR_INVALID_VALUE, "%s 0x%" G_GINT64_MODIFIER "x: %"
                       G_GUINT64_FORMAT " bytes, only %" G_GUINT64_FORMAT
                       " are left of the %" G_GUINT64_FORMAT " of %s from call %u (%s)", what,
                       address, size, rest, memory->size, memory_kinds[memory->kind],
                       memory->number, call_names[memory->function]);
      TRY (op_use (op, stream, memory));
      rest = MIN (rest, size);
      address += rest;
      size -= rest;
    }
  return CUDA_SUCCESS;
}
