/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Inside of the stand-in for the CUDA driver. One lock guards everything; entry points hold it
 * from call_enter() to call_leave(), and the threads of the streams drop it while they work.
 *
 * Locks are those of POSIX: the thread sanitizer does not see into GLib's.
 */
#pragma once

#include <glib.h>
#include <pthread.h>
#include <stdio.h>

#include "gpumem/cuda/driver/gpu-cuda-types.h"

#define EXPORT __attribute__ ((visibility ("default")))
#define PAGE ((guint64) 4096)
#define WARP 32

G_BEGIN_DECLS

/* --- the entry points ------------------------------------------------------------------------- */

#define DRIVER_SYMBOLS "driver-symbols.h"

typedef enum
{
  CALL_cuGetProcAddress,
#define GPU_CUDA_SYMBOL(group, name, version, parameters) CALL_##name,
#include DRIVER_SYMBOLS
#undef GPU_CUDA_SYMBOL
  N_CALLS
} CallFunction;

#define GPU_CUDA_SYMBOL(group, name, version, parameters) \
  EXPORT CUresult CUDAAPI name parameters;
#include DRIVER_SYMBOLS
#undef GPU_CUDA_SYMBOL

typedef struct
{
  CallFunction function;
  guint        number;      /* its place among all calls, from 1 */
  CUresult     fault;       /* what it shall fail with */
  gboolean     locked;
} Call;

/* Goes before the body of an entry point, which then runs under the lock, as part of a call.
 * Programs that link the driver know many functions by another name. */
#define ENTRY(name, parameters, arguments)                  \
  extern EXPORT __typeof__ (name) name##_v2 __attribute__ ((alias (#name))); \
  ENTRY_REVISED (name, parameters, arguments)

/* The same for those that are another function by that name. */
#define ENTRY_REVISED(name, parameters, arguments)          \
  static CUresult do_##name parameters;                     \
                                                            \
  CUresult CUDAAPI                                          \
  name parameters                                           \
  {                                                         \
    Call call = { .function = CALL_##name };                \
    CUresult code = call_enter (&call);                     \
                                                            \
    if (code == CUDA_SUCCESS)                               \
      code = do_##name arguments;                           \
    return call_leave (&call, code);                        \
  }                                                         \
                                                            \
  static CUresult                                           \
  do_##name parameters

#define TRY(expression)                                     \
  G_STMT_START                                              \
    {                                                       \
      CUresult try_code = (expression);                     \
                                                            \
      if (try_code != CUDA_SUCCESS)                         \
        return try_code;                                    \
    }                                                       \
  G_STMT_END

/* entry.c */
extern const char *const call_names[N_CALLS];

CUresult    call_enter      (Call          *call);
CUresult    call_leave      (Call          *call,
                             CUresult       code);
/* The one that this thread is in. */
const Call *call_current    (void);
/* Not a child of the process that loaded the driver. */
gboolean    call_is_ours    (void);
void        call_write_counts (const char  *path);
/* Code of the application runs: it may make no call. */
void        call_forbid     (gboolean       forbidden);

/* --- configuration, faults, reports ----------------------------------------------------------- */

typedef struct
{
  int       version;
  guint     n_devices;
  guint64   memory;         /* bytes of each device */
  guint     delay;          /* at most so many microseconds before an operation */
  int       capability;     /* 90 for 9.0 */
  gboolean  strict;         /* misuse aborts */
  gboolean  protect;        /* the host cannot touch the memory of devices, where CPUs can tell */
  gboolean  leaks;          /* what is left at exit is an error */
  gboolean  peers;          /* devices reach the memory of others */
  guint     concurrent;     /* so many devices, from the first on, share memory page by page */
  gboolean  ipc;            /* memory and events pass to other processes as bytes */
  guint     trap;           /* the launch that traps, from 1 */
  char     *counts;         /* files, written at exit */
  char     *report;
} Config;

extern Config config;

/* config.c; once */
void        config_load     (void);

/* fault.c; under the lock */
gboolean    fault_set       (const char    *spec);
CUresult    fault_decide    (Call          *call);
gboolean    fault_performs  (CallFunction   function);
void        fault_report    (FILE          *file);
void        fault_report_counts (FILE      *file);

/* report.c: misuse and leaks; under the lock. Returns code, where it returns. */
CUresult    misuse          (CUresult       code,
                             const char    *format,
                             ...) G_GNUC_PRINTF (2, 3);
void        report_leak     (const char    *format,
                             ...) G_GNUC_PRINTF (1, 2);

/* --- objects ---------------------------------------------------------------------------------- */

typedef struct CUctx_st           Context;
typedef struct CUstream_st        Stream;
typedef struct CUevent_st         Event;
typedef struct CUmod_st           Module;
typedef struct CUfunc_st          Function;
typedef struct CUlinkState_st     Link;
typedef struct CUmemPoolHandle_st Pool;
typedef struct _Device            Device;
typedef struct _Memory            Memory;
typedef struct _Point             Point;
typedef struct _Op                Op;

typedef enum
{
  OBJECT_CONTEXT,
  OBJECT_STREAM,
  OBJECT_EVENT,
  OBJECT_MODULE,
  OBJECT_FUNCTION,
  OBJECT_LINK,
  OBJECT_POOL,
  OBJECT_SHARE,             /* of physical memory: a generic allocation handle */
  OBJECT_EXTERNAL,          /* memory of another library */
  OBJECT_ARRAY,
  OBJECT_MIPMAPPED,
  OBJECT_TEXTURE,
  OBJECT_SURFACE,
  N_OBJECT_KINDS
} ObjectKind;

/* What every handle points to. Dead ones stay for a while, so that their use is seen. */
typedef struct
{
  ObjectKind    kind;
  gboolean      dead;
  gboolean      hidden;     /* not made by the application: no leak */
  Context      *context;    /* nullable */
  CallFunction  function;   /* made it */
  guint         number;
} Object;

/* object.c */
extern const char *const object_kinds[N_OBJECT_KINDS];

gpointer    object_new      (gsize          size,
                             ObjectKind     kind,
                             Context       *context);
void        object_kill     (gpointer       object);
/* Alive and of this kind; else INVALID_HANDLE, and misuse if it was one once. */
CUresult    object_check    (gconstpointer  handle,
                             ObjectKind     kind);
/* The object behind a number that may be any, alive or dead; NULL if it is none. */
Object *    object_find     (guint64        handle);
/* Everything alive of @kind in @context, either of which may be any (N_OBJECT_KINDS, NULL). */
GPtrArray * object_list     (ObjectKind     kind,
                             Context       *context);

/* --- devices and contexts --------------------------------------------------------------------- */

struct _Device
{
  guint         ordinal;
  int           memory_file;      /* a memfd: the device's memory */
  guint64       file_used;        /* offsets from here on are free */
  guint64       used;             /* bytes */
  guint64       pooled;           /* bytes that pools keep, and nobody uses */
  guint64       unseen;           /* at most so many of them cannot be trimmed, see Stream */
  Context      *primary;          /* nullable */
  guint         primary_refs;
  guint         primary_flags;
  Pool         *default_pool;     /* nullable */
};

struct CUctx_st
{
  Object        object;
  Device       *device;
  guint         flags;
  gboolean      primary;
  CUresult      error;            /* sticky */
  Stream       *legacy;
  GHashTable   *per_thread;       /* pthread_t: Stream */
  GPtrArray    *streams;          /* of Stream, alive or draining */
  GHashTable   *peers;            /* Context that kernels of this one may reach */
  guint64       limits[8];
  CUfunc_cache  cache_config;
};

/* device.c */
extern Device *devices;

Device     *device_find     (CUdevice       ordinal);
/* An attribute that is the same for all of them. */
int         device_get_number (CUdevice_attribute attribute);
/* Host and device may use managed memory at the same time. */
gboolean    device_is_concurrent (const Device *device);
void        devices_init    (void);

/* context.c */
/* NULL if there is none. */
Context    *context_peek    (void);
CUresult    context_current (Context      **context);
/* As above; a context that has failed counts as well. */
CUresult    context_current_lost (Context **context);
void        context_fail    (Context       *context,
                             CUresult       code);
gboolean    context_reaches (Context       *context,
                             Context       *owner);

/* --- streams, points, operations -------------------------------------------------------------- */

/* A place in a stream: what an event is recorded at. */
struct _Point
{
  guint         refs;
  gboolean      done;
  gboolean      work;             /* it touches memory: more than a wait or a record */
  guint         stream_id;
  guint64       sequence;
  gint64        time;             /* nanoseconds, once done */
  GHashTable   *before;           /* nullable; stream id: sequence; what is over when it is */
};

struct CUstream_st
{
  Object         object;
  guint          id;
  guint          flags;
  int            priority;
  gboolean       is_legacy;
  gboolean       has_thread;
  gboolean       ends;
  guint64        sequence;
  guint          n_work;          /* operations at work on memory, not yet done */
  guint          n_value_waits;   /* waits for values, not yet over */
  guint64        unseen;          /* bytes freed in it that nobody waited for since */
  GQueue         ops;
  Point         *last;            /* nullable */
  GHashTable    *before;          /* stream id: sequence; what new work runs after */
  pthread_cond_t wake;
};

/* Nothing, or the code that the context fails with. Runs without the lock. */
typedef CUresult (*OpFunc) (gpointer data);
/* FALSE: what it waits for is not there yet. Runs with the lock. */
typedef gboolean (*OpReady) (gpointer data);

struct _Op
{
  OpFunc         run;             /* nullable */
  OpReady        ready;           /* nullable */
  void         (*done) (gpointer data); /* nullable; with the lock */
  gpointer       data;
  GDestroyNotify free;
  GPtrArray     *waits;           /* of Point */
  GPtrArray     *memories;        /* of Memory that it uses */
  Point         *point;
};

extern pthread_mutex_t driver_lock;
extern pthread_cond_t  point_done;

/* op.c: points */
Point      *point_ref       (Point         *point);
void        point_unref     (Point         *point);
void        point_finish    (Point         *point);
gboolean    point_over      (Point         *point);
void        point_wait      (Point         *point);

/* op.c: operations */
Op         *op_new          (OpFunc         run,
                             gpointer       data,
                             GDestroyNotify free);
void        op_free         (Op            *op);
void        op_wait         (Op            *op,
                             Point         *point);
/* Drops those that are over from a list of points. */
void        points_forget   (GPtrArray     *points);
/* Takes part in the checks of order and of what may be freed. */
CUresult    op_use          (Op            *op,
                             Stream        *stream,
                             Memory        *memory);
/* Without the checks. */
void        op_hold         (Op            *op,
                             Memory        *memory);

/* stream.c */
Stream     *stream_new      (Context       *context,
                             guint          flags,
                             int            priority);
/* Resolves NULL, 1 and 2, checks that it belongs to the current context. */
CUresult    stream_resolve  (CUstream       handle,
                             Stream       **stream);
/* The same for calls that need no current context. */
CUresult    stream_resolve_any (CUstream    handle,
                             Stream       **stream);
/* The same for calls that belong to the context of an explicit stream, whatever is current. Before
 * CUDA 12 the stand-in refuses them where that is another one. */
CUresult    stream_resolve_own (CUstream    handle,
                             Stream       **stream);
/* Takes @op; the point is transfer full. */
Point      *stream_submit   (Stream        *stream,
                             Op            *op);
gboolean    stream_is_after (Stream        *stream,
                             Point         *point);
/* What is known to be over when @point is. */
void        stream_snapshot (Stream        *stream,
                             Point         *point);
void        stream_finish   (Stream        *stream);
void        stream_see_frees (Context      *context,
                              guint         id);
void        stream_end      (Stream        *stream);
void        context_finish  (Context       *context);

struct CUevent_st
{
  Object        object;
  guint         flags;
  Point        *point;            /* nullable; of the last record */
  gpointer      shared;           /* nullable; what another process sees */
};

/* share.c: events between processes; those of one process have no share of that. */
void        event_share     (Event         *event);
void        event_close     (Event         *event);
void        event_record_shared (Event     *event,
                             Op            *op);
void        event_wait_shared (Event       *event,
                             Op            *op);
gboolean    event_is_over   (Event         *event);
void        event_wait      (Event         *event);

/* --- memory ----------------------------------------------------------------------------------- */

typedef enum
{
  MEMORY_DEVICE,
  MEMORY_HOST,              /* page-locked, of the driver */
  MEMORY_REGISTERED,        /* of the application */
  MEMORY_MANAGED,           /* of host and device */
  MEMORY_POOL,              /* freed in the order of a stream */
  MEMORY_MAPPED,            /* physical memory at a reserved address */
  MEMORY_RESERVED,          /* addresses only */
  MEMORY_IMPORTED,          /* of another process */
  MEMORY_GLOBAL,            /* a variable of a module */
  MEMORY_ARRAY,             /* behind an array, which is what the program knows */
  N_MEMORY_KINDS
} MemoryKind;

struct _Memory
{
  MemoryKind    kind;
  guint         refs;
  gboolean      freed;
  guint64       address;
  guint64       size;
  guint64       id;
  guint         flags;
  Context      *context;    /* nullable: of the device */
  Device       *device;     /* nullable: of the host */
  guint8       *map;        /* what was mapped for it, guards and all */
  guint64       map_size;
  guint8       *data;       /* page-aligned part that holds it */
  guint64       data_size;
  guint64       file_offset;
  int           access;     /* for mapped memory: CU_MEM_ACCESS_FLAGS of its device */
  guint64       peers;      /* of mapped memory: bits of the other devices that have any */
  GPtrArray    *uses;       /* of Point */
  Point        *made;       /* nullable; in a stream */
  Pool         *pool;       /* nullable */
  gpointer      share;      /* nullable; of what is mapped */
  gboolean      owns_file;  /* the part of the device's file is free when it goes */
  int           process;    /* of imported memory: the other one */
  gpointer      managed;    /* nullable; see managed.c */
  CallFunction  function;   /* made it */
  guint         number;
};

/* memory.c */
extern const char *const memory_kinds[N_MEMORY_KINDS];

void        memory_init     (void);
Memory     *memory_ref      (Memory        *memory);
void        memory_unref    (Memory        *memory);
/* The one that @address lies in, alive or not. */
Memory     *memory_find     (guint64        address);
gboolean    memory_is_taken (guint64        address,
                             guint64        size);
Memory     *memory_find_reserved (guint64  address);
void        memory_add      (Memory        *memory);
/* NULL where the device has not so much. */
Memory     *memory_new      (MemoryKind     kind,
                             Context       *context,
                             Device        *device,
                             guint64        size);
/* Part of a file of another process. */
Memory     *memory_new_file (MemoryKind     kind,
                             Context       *context,
                             Device        *device,
                             int            file,
                             guint64        file_offset,
                             guint64        data_size,
                             guint64        start,
                             guint64        size);
/* Without a backing of its own. */
Memory     *memory_new_at   (MemoryKind     kind,
                             Context       *context,
                             Device        *device,
                             guint64        address,
                             guint64        size);
/* Takes away what is behind the addresses. */
void        memory_unmap    (Memory        *memory);
void        memory_kill     (Memory        *memory);
/* One that the program has no handle of its own for. */
gboolean    memory_is_hidden (const Memory *memory);
gboolean    memory_is_busy  (Memory        *memory);
/* Until it is not; misuse, unless the context has failed with @error. */
void        memory_wait     (Memory        *memory,
                             CUresult       error);
/* A range of what a device can reach. */
CUresult    memory_check    (Op            *op,
                             Stream        *stream,
                             guint64        address,
                             guint64        size,
                             gboolean       writes,
                             const char    *what);
GPtrArray * memory_list     (Context       *context);
/* Maps @size bytes of @file at @address for devices alone. */
gboolean    memory_map_file (guint64        address,
                             guint64        size,
                             int            file,
                             guint64        offset,
                             int            protection);
void        memory_close_pages (gpointer   address,
                             guint64       size);
/* Only the threads of streams reach the pages of a memory of the host, or all do. */
void        memory_close_to_host (Memory   *memory,
                                  gboolean  closed);
/* managed.c: a use of managed memory by a device; a stream that goes. */
CUresult    managed_check   (Memory        *memory,
                             Stream        *stream);
void        managed_forget  (Stream        *stream);
void        managed_free    (Memory        *memory);

/* pool.c */
void        pool_note_free  (Memory        *memory);
void        pool_note_freed (Memory        *memory);
/* Whether kernels on @device reach it. */
gboolean    pool_reaches    (const Memory  *memory,
                             const Device  *device);

/* virtual.c */
void        virtual_note_unmapped (Memory  *memory);
/* Whether kernels on @device reach it. */
gboolean    virtual_reaches (const Memory  *memory,
                             const Device  *device);
guint       virtual_get_handle_types (const Memory *memory);
gboolean    file_is_memory  (int            file);

/* --- programs --------------------------------------------------------------------------------- */

struct CUmod_st
{
  Object         object;
  gpointer       handle;          /* nullable; of the shared object */
  int            file;            /* -1: none; open for as long as it is loaded */
  int            capability;
  guint          n_registers;     /* of a thread */
  GPtrArray     *functions;       /* of Function */
  GPtrArray     *globals;         /* of Memory */
  guint          n_launches;      /* at work */
  gsize          shared_size;     /* of the variables in shared memory, all together */
};

struct CUfunc_st
{
  Object         object;
  Module        *module;
  char          *name;
  gpointer       entry;           /* KernelEntry; NULL: nobody can run it */
  gboolean       is_builtin;
  int            max_shared;      /* of a launch */
  int            carveout;
};

/* module.c */
void        modules_close   (Context       *context);

/* builtin.c: kernels that are known by their names in PTX; a KernelEntry. */
gconstpointer builtin_find  (const char    *name);

/* run.c */
typedef struct _Launch Launch;

struct _Launch
{
  Function      *function;
  guint          grid[3];
  guint          block[3];
  guint          shared_size;
  guint8        *values;          /* of the arguments, as in the launch's buffer */
  gpointer      *arguments;
  gboolean       traps;
};

CUresult    launch_run      (gpointer       data);
void        launch_thread_end (void);

/* This thread belongs to a device. */
void        memory_open     (void);

G_END_DECLS
