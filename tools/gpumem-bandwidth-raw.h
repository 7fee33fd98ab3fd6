/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Direct calls of the driver, with which the measurements of the library are compared. The calls
 * use the native handles of streams and memory that the library created. The library itself submits
 * no work to these streams.
 */
#pragma once

#include <gpumem/gpumem.h>

G_BEGIN_DECLS

/* One stream for each direction. */
#define GPUMEM_N_LANES 2

/* One end of a copy. For pageable memory, `memory` is NULL; for device memory, `data` is NULL. */
typedef struct
{
  gpointer   data;
  GpuMemory *memory;
} GpumemPlace;

typedef struct _GpumemRaw GpumemRaw;

/* copy() returns before the copy has completed, if the driver supports asynchronous copies. wait()
 * waits for all copies of a lane. Only one thread at a time may be between enter() and leave(). */
typedef struct
{
  const char *backend;
  gboolean  (*open)  (GError            **error);
  gboolean  (*enter) (const GpumemRaw    *raw,
                      GError            **error);
  void      (*leave) (const GpumemRaw    *raw);
  gboolean  (*copy)  (const GpumemRaw    *raw,
                      guint               lane,
                      const GpumemPlace  *to,
                      const GpumemPlace  *from,
                      gsize               size,
                      GError            **error);
  gboolean  (*wait)  (const GpumemRaw    *raw,
                      guint               lane,
                      GError            **error);

  /* NULL if the driver cannot map device memory. map() returns after the memory is mapped. */
  gpointer  (*map)   (const GpumemRaw    *raw,
                      guint               lane,
                      const GpumemPlace  *place,
                      gboolean            write,
                      gsize               size,
                      GError            **error);
  gboolean  (*unmap) (const GpumemRaw    *raw,
                      guint               lane,
                      const GpumemPlace  *place,
                      gpointer            data,
                      GError            **error);
} GpumemRawDriver;

struct _GpumemRaw
{
  const GpumemRawDriver *driver;
  GpuContext            *context;
  GpuStream             *streams[GPUMEM_N_LANES];
};

extern const GpumemRawDriver gpumem_raw_cuda;
extern const GpumemRawDriver gpumem_raw_host;
extern const GpumemRawDriver gpumem_raw_opencl;

gboolean gpumem_raw_init  (GpumemRaw   *raw,
                           GpuContext  *context,
                           GError     **error);
void     gpumem_raw_clear (GpumemRaw   *raw);
gboolean gpumem_raw_enter (GpumemRaw   *raw,
                           GError     **error);
void     gpumem_raw_leave (GpumemRaw   *raw);

G_END_DECLS
