/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The paths of copies. To add a path, add an entry to the table at the end. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "tools/gpumem-bandwidth.h"

#define PAGE_SIZE 4096

#define BIT(direction) (1u << GPUMEM_DIRECTION_##direction)
#define TO_AND_FROM    (BIT (TO) | BIT (FROM) | BIT (BOTH))

/* --- memory ----------------------------------------------------------------- */

static gboolean
new_buffer (GpumemPlace  *place,
            GpuContext   *context,
            gsize         size,
            GError      **error)
{
  GpuBuffer *buffer = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, size, error);

  place->memory = buffer != NULL ? GPU_MEMORY (buffer) : NULL;
  return buffer != NULL;
}

static gboolean
new_ordinary (GpumemLane  *lane,
              gsize        size,
              GError     **error)
{
  void *data = NULL;

  if (posix_memalign (&data, PAGE_SIZE, size) != 0)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_HOST_MEMORY,
                   "cannot allocate %" G_GSIZE_FORMAT " bytes of pageable memory", size);
      return FALSE;
    }
  memset (data, 0, size);
  lane->near.data = data;
  lane->bytes = g_bytes_new_with_free_func (data, size, free, data);
  return TRUE;
}

/* @memory: (transfer full) (nullable) */
static gboolean
take_host_memory (GpumemPlace    *place,
                  GpuHostMemory  *memory,
                  GError        **error)
{
  gboolean is_locked;

  if (memory == NULL)
    return FALSE;
  place->memory = GPU_MEMORY (memory);
  place->data = gpu_host_memory_get_data (memory);
  g_object_get (memory, "page-locked", &is_locked, NULL);
  if (is_locked)
    return TRUE;
  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED, "%s cannot page-lock memory",
               gpu_device_get_id (gpu_context_get_device (gpu_memory_get_context (place->memory))));
  return FALSE;
}

static gboolean
prepare_ordinary (GpumemBench  *bench,
                  guint         lane,
                  gsize         size,
                  GError      **error)
{
  GpumemLane *memories = &bench->lanes[lane];

  return new_ordinary (memories, size, error) &&
         new_buffer (&memories->far, bench->context, size, error);
}

static gboolean
prepare_locked (GpumemBench  *bench,
                guint         lane,
                gsize         size,
                GError      **error)
{
  GpumemLane *memories = &bench->lanes[lane];

  return take_host_memory (&memories->near,
                           gpu_host_memory_new (bench->context, GPU_HOST_MEMORY_FLAGS_NONE, size,
                                                error),
                           error) &&
         new_buffer (&memories->far, bench->context, size, error);
}

static gboolean
prepare_registered (GpumemBench  *bench,
                    guint         lane,
                    gsize         size,
                    GError      **error)
{
  GpumemLane *memories = &bench->lanes[lane];

  return new_ordinary (memories, size, error) &&
         take_host_memory (&memories->near,
                           gpu_host_memory_new_registered (bench->context,
                                                           GPU_HOST_MEMORY_FLAGS_NONE,
                                                           memories->bytes, error), error) &&
         new_buffer (&memories->far, bench->context, size, error);
}

/* Allocates page-locked memory for the direct calls of drivers that cannot map device memory. */
static gboolean
new_detour (GpumemBench  *bench,
            guint         lane,
            gsize         size,
            GError      **error)
{
  return bench->raw.driver->map != NULL ||
         take_host_memory (&bench->lanes[lane].detour,
                           gpu_host_memory_new (bench->context, GPU_HOST_MEMORY_FLAGS_NONE, size,
                                                error),
                           error);
}

static gboolean
prepare_mapped (GpumemBench  *bench,
                guint         lane,
                gsize         size,
                GError      **error)
{
  return prepare_ordinary (bench, lane, size, error) && new_detour (bench, lane, size, error);
}

static gboolean
prepare_file (GpumemBench  *bench,
              guint         lane,
              gsize         size,
              GError      **error)
{
  return gpumem_file_prepare (bench, lane, size, error) &&
         new_buffer (&bench->lanes[lane].far, bench->context, size, error) &&
         new_detour (bench, lane, size, error);
}

/* Prefetches the memory to the device, because managed memory has no location before its first
 * use. */
static gboolean
prepare_svm (GpumemBench  *bench,
             guint         lane,
             gsize         size,
             GError      **error)
{
  GpumemLane *memories = &bench->lanes[lane];
  GpuSvm *svm;

  if (!new_ordinary (memories, size, error))
    return FALSE;
  svm = gpu_svm_new (bench->context, GPU_MEMORY_FLAGS_NONE, GPU_SVM_FLAGS_NONE, size, 0, error);
  if (svm == NULL)
    return FALSE;
  memories->far.memory = GPU_MEMORY (svm);
  return gpu_svm_prefetch (svm, bench->streams[lane], GPU_MIGRATE_FLAGS_NONE, 0, size, error) &&
         gpu_stream_synchronize (bench->streams[lane], NULL, error);
}

static gboolean
prepare_device (GpumemBench  *bench,
                guint         lane,
                gsize         size,
                GError      **error)
{
  GpumemLane *memories = &bench->lanes[lane];

  return new_buffer (&memories->near, bench->context, size, error) &&
         new_buffer (&memories->far, bench->context, size, error);
}

static gboolean
prepare_peer (GpumemBench  *bench,
              guint         lane,
              gsize         size,
              GError      **error)
{
  GpumemLane *memories = &bench->lanes[lane];

  return new_buffer (&memories->near, bench->context, size, error) &&
         new_buffer (&memories->far, bench->peer_context, size, error);
}

/* --- checks of devices ------------------------------------------------------- */

static gboolean
check_mapped (GpumemBench  *bench,
              GError      **error)
{
  if (gpu_device_get_capabilities (bench->device) & GPU_CAPABILITIES_MAP)
    return TRUE;
  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED, "%s cannot map buffers",
               gpu_device_get_id (bench->device));
  return FALSE;
}

/* On CUDA, fails unless host and device may use managed memory concurrently, because the direct
 * calls do not attach the memory to streams. */
static gboolean
check_svm (GpumemBench  *bench,
           GError      **error)
{
  GpuCapabilities capabilities = gpu_device_get_capabilities (bench->device);
  gboolean cuda = g_str_equal (gpu_device_get_backend (bench->device), "cuda");

  if (capabilities & (cuda ? GPU_CAPABILITIES_SVM_FINE : GPU_CAPABILITIES_SVM_COARSE))
    return TRUE;
  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED, "%s has no shared virtual memory%s",
               gpu_device_get_id (bench->device),
               cuda && capabilities & GPU_CAPABILITIES_SVM_COARSE
                 ? " that host and device may use at the same time" : "");
  return FALSE;
}

static GpuDevice *
find_peer (GpuDevice *device)
{
  g_autolist (GpuDevice) devices = gpu_device_list ();

  for (GList *l = devices; l != NULL; l = l->next)
    if (!gpu_device_equal (l->data, device) && gpu_device_check (l->data, NULL) &&
        g_str_equal (gpu_device_get_backend (l->data), gpu_device_get_backend (device)))
      return g_object_ref (l->data);
  return NULL;
}

/* Only CUDA has a call that copies between contexts. */
static gboolean
check_peer (GpumemBench  *bench,
            GError      **error)
{
  const char *backend = gpu_device_get_backend (bench->device);

  if (bench->peer == NULL)
    bench->peer = find_peer (bench->device);
  if (bench->peer == NULL)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED, "%s has no other device",
                   backend);
      return FALSE;
    }
  bench->has_raw = g_str_equal (backend, "cuda");
  bench->peer_context = gpu_context_new (bench->peer, GPU_CONTEXT_FLAGS_NONE, error);
  return bench->peer_context != NULL;
}

/* --- copies ----------------------------------------------------------------- */

static gboolean
copy_ordinary (GpumemBench  *bench,
               guint         lane,
               gsize         size,
               GError      **error)
{
  GpumemLane *memories = &bench->lanes[lane];
  GpuBuffer *buffer = GPU_BUFFER (memories->far.memory);

  if (lane == 1)
    return gpu_buffer_read (buffer, bench->streams[lane], 0, memories->near.data, size, NULL,
                            error);
  return gpu_buffer_write (buffer, bench->streams[lane], 0, memories->near.data, size, NULL, error);
}

static gboolean
copy_memory (GpumemBench  *bench,
             guint         lane,
             gsize         size,
             GError      **error)
{
  return gpu_stream_copy (bench->streams[lane], gpumem_lane_get_destination (bench, lane)->memory,
                          0, gpumem_lane_get_source (bench, lane)->memory, 0, size, error);
}

static gboolean
copy_raw (GpumemBench  *bench,
          guint         lane,
          gsize         size,
          GError      **error)
{
  return bench->raw.driver->copy (&bench->raw, lane, gpumem_lane_get_destination (bench, lane),
                                  gpumem_lane_get_source (bench, lane), size, error);
}

static gboolean
copy_svm (GpumemBench  *bench,
          guint         lane,
          gsize         size,
          GError      **error)
{
  GpumemLane *memories = &bench->lanes[lane];
  g_autoptr (GBytes) bytes = NULL;

  if (lane == 1)
    return gpu_stream_read (bench->streams[lane], memories->far.memory, 0, memories->near.data,
                            size, error);
  bytes = g_bytes_new_from_bytes (memories->bytes, 0, size);
  return gpu_stream_write (bench->streams[lane], memories->far.memory, 0, bytes, error);
}

/* Waits for each copy. The driver's copies of pageable memory may block until the copy has
 * completed, whether this function waits or not. */
static gboolean
copy_raw_ordinary (GpumemBench  *bench,
                   guint         lane,
                   gsize         size,
                   GError      **error)
{
  return copy_raw (bench, lane, size, error)
         && bench->raw.driver->wait (&bench->raw, lane, error);
}

static gboolean
copy_mapped (GpumemBench  *bench,
             guint         lane,
             gsize         size,
             GError      **error)
{
  GpumemLane *memories = &bench->lanes[lane];
  gboolean write = lane == 0;
  g_autoptr (GpuMapping) mapping =
    gpu_buffer_map (GPU_BUFFER (memories->far.memory), bench->streams[lane],
                    write ? GPU_MAP_FLAGS_WRITE_INVALIDATE : GPU_MAP_FLAGS_READ, 0, size, NULL,
                    error);

  if (mapping == NULL)
    return FALSE;
  if (write)
    memcpy (gpu_mapping_get_data (mapping), memories->near.data, size);
  else
    memcpy (memories->near.data, gpu_mapping_get_data (mapping), size);
  return gpu_mapping_unmap (mapping, error);
}

/* Copies through page-locked memory, on drivers that cannot map device memory, such as CUDA. */
static gboolean
detour_raw (GpumemBench  *bench,
            guint         lane,
            gsize         size,
            GError      **error)
{
  GpumemLane *memories = &bench->lanes[lane];
  const GpumemRaw *raw = &bench->raw;

  if (lane == 0)
    {
      memcpy (memories->detour.data, memories->near.data, size);
      return raw->driver->copy (raw, lane, &memories->far, &memories->detour, size, error) &&
             raw->driver->wait (raw, lane, error);
    }
  if (!raw->driver->copy (raw, lane, &memories->detour, &memories->far, size, error) ||
      !raw->driver->wait (raw, lane, error))
    return FALSE;
  memcpy (memories->near.data, memories->detour.data, size);
  return TRUE;
}

static gboolean
map_raw (GpumemBench  *bench,
         guint         lane,
         gsize         size,
         GError      **error)
{
  GpumemLane *memories = &bench->lanes[lane];
  const GpumemRaw *raw = &bench->raw;
  gpointer data;

  if (raw->driver->map == NULL)
    return detour_raw (bench, lane, size, error);
  data = raw->driver->map (raw, lane, &memories->far, lane == 0, size, error);
  if (data == NULL)
    return FALSE;
  if (lane == 0)
    memcpy (data, memories->near.data, size);
  else
    memcpy (memories->near.data, data, size);
  return raw->driver->unmap (raw, lane, &memories->far, data, error);
}

/* --- the table -------------------------------------------------------------- */

static const GpumemPath paths[] = {
  { "ordinary", "pageable host memory", TO_AND_FROM, NULL, prepare_ordinary,
    copy_ordinary, copy_raw_ordinary, FALSE },
  { "locked", "page-locked host memory", TO_AND_FROM, NULL, prepare_locked,
    copy_memory, copy_raw, FALSE },
  { "registered", "pageable host memory that was page-locked later", TO_AND_FROM, NULL,
    prepare_registered, copy_memory, copy_raw, FALSE },
  { "mapped", "pageable host memory and mappings of a buffer, by the CPU", TO_AND_FROM,
    check_mapped, prepare_mapped, copy_mapped, map_raw, FALSE },
  { "svm", "pageable host memory and shared virtual or managed memory", TO_AND_FROM,
    check_svm, prepare_svm, copy_svm, copy_raw, FALSE },
  { "device", "from buffer to buffer on the device", BIT (WITHIN), NULL, prepare_device,
    copy_memory, copy_raw, FALSE },
  { "peer", "memory of another device", TO_AND_FROM, check_peer, prepare_peer,
    copy_memory, copy_raw, FALSE },
  { "file", "a file in the page cache; measured with --file", TO_AND_FROM, NULL,
    prepare_file, gpumem_file_copy, gpumem_file_copy_raw, TRUE }
};

static const GpumemPath *
find_path (const char *name)
{
  for (guint i = 0; i < G_N_ELEMENTS (paths); i++)
    if (g_str_equal (paths[i].name, name))
      return &paths[i];
  return NULL;
}

static char *
list_names (void)
{
  GString *names = g_string_new (NULL);

  for (guint i = 0; i < G_N_ELEMENTS (paths); i++)
    g_string_append_printf (names, "%s%s", i > 0 ? ", " : "", paths[i].name);
  return g_string_free (names, FALSE);
}

/* Returns: (transfer full): the lines of --help that describe the paths */
char *
gpumem_paths_describe (void)
{
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < G_N_ELEMENTS (paths); i++)
    g_string_append_printf (text, "%s  %-12s%s", i > 0 ? "\n" : "", paths[i].name, paths[i].text);
  return g_string_free (text, FALSE);
}

GPtrArray *
gpumem_paths_parse (const char  *list,
                    gboolean     file,
                    GError     **error)
{
  g_autoptr (GPtrArray) chosen = g_ptr_array_new ();
  g_auto (GStrv) words = list != NULL ? g_strsplit (list, ",", -1) : NULL;

  for (guint i = 0; words == NULL && i < G_N_ELEMENTS (paths); i++)
    if (!paths[i].on_request)
      g_ptr_array_add (chosen, (gpointer) &paths[i]);
  for (guint i = 0; words != NULL && words[i] != NULL; i++)
    {
      const GpumemPath *path = find_path (g_strstrip (words[i]));

      if (path == NULL)
        {
          g_autofree char *names = list_names ();

          g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                       "there is no path '%s'; the paths are %s", words[i], names);
          return NULL;
        }
      if (!g_ptr_array_find (chosen, path, NULL))
        g_ptr_array_add (chosen, (gpointer) path);
    }
  if (file && !g_ptr_array_find (chosen, find_path ("file"), NULL))
    g_ptr_array_add (chosen, (gpointer) find_path ("file"));
  return g_steal_pointer (&chosen);
}
