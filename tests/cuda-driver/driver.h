/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The internals of the stand-in for the CUDA driver. One lock guards all state: entry points hold
 * the lock from call_enter() to call_leave(), and stream threads release the lock while an
 * operation runs.
 *
 * Locks are POSIX locks because ThreadSanitizer cannot see GLib's locks.
 */
#pragma once

#include <glib.h>
#include <pthread.h>
#include <stdio.h>

#include "cuda-driver.h"
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
  guint        number;      /* index among all calls, from 1 */
  CUresult     fault;       /* the injected error, or CUDA_SUCCESS */
  gboolean     locked;
} Call;

/* Begins the definition of an entry point. The body that follows runs under the lock, as part of a
 * call. Programs that link the driver use the name with _v2, because cuda.h renames many
 * functions. */
#define ENTRY(name, parameters, arguments)                  \
  extern EXPORT __typeof__ (name) name##_v2 __attribute__ ((alias (#name))); \
  ENTRY_REVISED (name, parameters, arguments)

/* Like ENTRY(), for names that exist in several revisions. */
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
/* Gets the call that this thread is making. */
const Call *call_current    (void);
/* Returns FALSE in a forked child of the process that loaded the driver. */
gboolean    call_is_ours    (void);
void        call_write_counts (const char  *path);
/* Forbids driver calls while a callback of the application runs. */
void        call_forbid     (gboolean       forbidden);

/* --- configuration, faults, reports ----------------------------------------------------------- */

typedef struct
{
  int       version;
  guint     n_devices;
  guint64   memory;         /* bytes of each device */
  guint     delay;          /* maximum delay before an operation, in microseconds */
  int       capability;     /* 90 for 9.0 */
  gboolean  strict;         /* misuse aborts the program */
  gboolean  protect;        /* protection keys hide device memory from the host */
  gboolean  leaks;          /* leaks at exit are an error */
  gboolean  peers;          /* devices can access each other's memory */
  guint64   denied[64];     /* of each device: bits of the devices whose memory it cannot access */
  guint     concurrent;     /* number of first devices with concurrent managed access */
  gboolean  ipc;            /* IPC handles are supported */
  gboolean  memlock;        /* page-locked memory is limited to RLIMIT_MEMLOCK */
  guint     trap;           /* index of the launch that traps, from 1 */
  char     *counts;         /* paths of files written at exit */
  char     *report;
} Config;

extern Config config;

/* config.c; called once */
void        config_load     (void);

/* fault.c; caller holds the lock */
gboolean    fault_set       (const char    *spec);
CUresult    fault_decide    (Call          *call);
gboolean    fault_performs  (CallFunction   function);
void        fault_report    (FILE          *file);
void        fault_report_counts (FILE      *file);

/* report.c: misuse and leaks; caller holds the lock. Returns @code, or aborts under strict=yes. */
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
typedef struct CUgraph_st         Graph;
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
  OBJECT_SHARE,             /* a generic allocation handle of physical memory */
  OBJECT_EXTERNAL,          /* memory of another library */
  OBJECT_ARRAY,
  OBJECT_MIPMAPPED,
  OBJECT_TEXTURE,
  OBJECT_SURFACE,
  OBJECT_GRAPH,
  OBJECT_GRAPH_EXEC,
  OBJECT_USER,              /* calls a function when the last graph that retains it is destroyed */
  N_OBJECT_KINDS
} ObjectKind;

/* The target of every handle. Dead objects stay in memory for a while, so that a use of a dead
 * handle is detected. */
typedef struct
{
  ObjectKind    kind;
  gboolean      dead;
  gboolean      hidden;     /* not created by the application, so never a leak */
  Context      *context;    /* nullable */
  CallFunction  function;   /* the call that created the object */
  guint         number;
} Object;

/* object.c */
extern const char *const object_kinds[N_OBJECT_KINDS];

gpointer    object_new      (gsize          size,
                             ObjectKind     kind,
                             Context       *context);
void        object_kill     (gpointer       object);
/* Fails with INVALID_HANDLE unless @handle is a live object of this kind; reports misuse if the
 * object is dead. */
CUresult    object_check    (gconstpointer  handle,
                             ObjectKind     kind);
/* Finds the object, alive or dead, with this handle. Returns NULL if @handle was never a handle.
 * (nullable) */
Object *    object_find     (guint64        handle);
/* Lists the live objects of @kind (N_OBJECT_KINDS: all) in @context (NULL: all). */
GPtrArray * object_list     (ObjectKind     kind,
                             Context       *context);

/* --- devices and contexts --------------------------------------------------------------------- */

struct _Device
{
  guint         ordinal;
  int           memory_file;      /* a memfd: the device's memory */
  guint64       file_used;        /* offsets from here are free */
  guint64       used;             /* bytes */
  guint64       pooled;           /* unused bytes that pools retain */
  guint64       unseen;           /* bytes freed in streams and not followed by a wait for the
                                   * stream; trims of pools do not release them */
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
  CUresult      error;            /* if set, calls in the context return this error */
  Stream       *legacy;
  GHashTable   *per_thread;       /* pthread_t -> the per-thread default Stream */
  GPtrArray    *streams;          /* Stream, alive or draining */
  GHashTable   *peers;            /* the contexts to which cuCtxEnablePeerAccess() gave this context
                                   * access */
  guint64       limits[8];
  CUfunc_cache  cache_config;
};

/* device.c */
extern Device *devices;

Device     *device_find     (CUdevice       ordinal);
/* Gets an attribute that is the same for all devices. */
int         device_get_number (CUdevice_attribute attribute);
/* Returns whether host and device may use managed memory at the same time. */
gboolean    device_is_concurrent (const Device *device);
/* Returns whether @device can get access to memory of @peer, another device. */
gboolean    device_can_access    (const Device *device,
                                  const Device *peer);
void        devices_init    (void);

/* context.c */
/* Gets the current context of the thread, or NULL. */
Context    *context_peek    (void);
CUresult    context_current (Context      **context);
/* Like context_current(), but also accepts a context that has failed. */
CUresult    context_current_lost (Context **context);
void        context_fail    (Context       *context,
                             CUresult       code);
gboolean    context_reaches (Context       *context,
                             Context       *owner);

/* --- streams, points, operations -------------------------------------------------------------- */

/* A position in a stream, at which events are recorded. */
struct _Point
{
  guint         refs;
  gboolean      done;
  gboolean      work;             /* the operation accesses memory, unlike a wait or a record */
  guint         stream_id;
  guint64       sequence;
  gint64        time;             /* nanoseconds, once done */
  GHashTable   *before;           /* nullable; stream id -> sequence that completes before */
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
  guint          n_work;          /* pending operations that access memory */
  guint          n_value_waits;   /* pending waits for values */
  guint64        unseen;          /* bytes freed in the stream since the last wait for it */
  guint64        capture;         /* the number of its capture, 0 if it is not capturing */
  gboolean       is_forked;       /* it takes part in the capture of another stream, which has not
                                   * waited for it yet */
  CUstreamCaptureMode capture_mode; /* of the stream that began the capture */
  Graph         *graph;           /* nullable; the graph that is being captured; of the stream that
                                   * began the capture */
  GQueue         ops;
  Point         *last;            /* nullable */
  Point         *written[2];      /* nullable; the last writes from pageable memory */
  GHashTable    *before;          /* stream id -> sequence; new operations wait for these */
  pthread_cond_t wake;
};

/* Called without the lock. Returns CUDA_SUCCESS, or the error to set as the context's sticky
 * error. */
typedef CUresult (*OpFunc) (gpointer data);
/* Returns FALSE while the operation cannot start. Called with the lock held. */
typedef gboolean (*OpReady) (gpointer data);

struct _Op
{
  OpFunc         run;             /* nullable */
  OpReady        ready;           /* nullable */
  void         (*done) (gpointer data); /* nullable; called with the lock held */
  gpointer       data;
  GDestroyNotify free;
  GPtrArray     *waits;           /* of Point */
  GPtrArray     *memories;        /* of Memory in use */
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
/* Removes complete points from a list. */
void        points_forget   (GPtrArray     *points);
/* Checks that @stream is ordered after the allocation of @memory, and retains @memory until @op is
 * done. */
CUresult    op_use          (Op            *op,
                             Stream        *stream,
                             Memory        *memory);
/* Retains the memory without the checks of op_use(). */
void        op_hold         (Op            *op,
                             Memory        *memory);

/* stream.c */
Stream     *stream_new      (Context       *context,
                             guint          flags,
                             int            priority);
/* Gets the stream with @handle, and checks that it belongs to the current context. The handles
 * NULL, 1 and 2 stand for default streams of the current context. */
CUresult    stream_resolve  (CUstream       handle,
                             Stream       **stream);
/* Like stream_resolve(), for calls that need no current context. */
CUresult    stream_resolve_any (CUstream    handle,
                             Stream       **stream);
/* Like stream_resolve(), for calls that use the context of an explicit stream instead of the
 * current context. With a version below CUDA 12, the stand-in rejects a stream of another
 * context. */
CUresult    stream_resolve_own (CUstream    handle,
                             Stream       **stream);
/* Takes ownership of @op. (transfer full) */
Point      *stream_submit   (Stream        *stream,
                             Op            *op);
gboolean    stream_is_after (Stream        *stream,
                             Point         *point);
/* Records in @point the points of other streams that are complete when @point is complete. */
void        stream_snapshot (Stream        *stream,
                             Point         *point);
void        stream_finish   (Stream        *stream);
void        stream_see_frees (Context      *context,
                              guint         id);
void        stream_end      (Stream        *stream);
void        context_finish  (Context       *context);

/* capture.c */
/* Refuses calls that the driver refuses while a stream is capturing. */
CUresult    capture_check   (CallFunction   function);
/* Makes the graph of the capture the owner of the memory. */
void        capture_add_memory (guint64     capture,
                                Memory     *memory);
/* Adds the operation to the graph of the capture. Takes ownership of @op. */
void        capture_add_op  (guint64        capture,
                             Op            *op);
/* Returns whether a stream is capturing that the legacy default stream waits for. */
gboolean    capture_is_blocking (void);
/* The device is lost: ends all captures, which the program cannot end any more. */
void        capture_lose    (void);
/* Lets @stream take part in the capture in which @event was recorded. */
CUresult    capture_wait    (Stream        *stream,
                             Event         *event);

/* graph.c */
Graph      *graph_new       (Context       *context);
void        graph_destroy   (Graph         *graph);
/* Makes @graph the owner of the memory. (nullable): @graph */
void        graph_add_memory (Graph        *graph,
                              Memory       *memory);
/* Takes ownership of @op. (nullable): @graph */
void        graph_add_op    (Graph         *graph,
                             Op            *op);

struct CUevent_st
{
  Object        object;
  guint         flags;
  Point        *point;            /* nullable; the last record */
  guint64       capture;          /* the capture in which it was last recorded, 0 for none */
  Stream       *captured;         /* the stream of that record */
  gpointer      shared;           /* nullable; state that other processes share */
};

/* share.c: events that processes share. The functions ignore all other events. */
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
  MEMORY_HOST,              /* page-locked, allocated by the driver */
  MEMORY_REGISTERED,        /* allocated by the application */
  MEMORY_MANAGED,           /* shared by host and device */
  MEMORY_POOL,              /* freed in stream order */
  MEMORY_MAPPED,            /* physical memory at a reserved address */
  MEMORY_RESERVED,          /* reserved addresses without physical memory */
  MEMORY_IMPORTED,          /* from another process */
  MEMORY_GLOBAL,            /* a variable of a module */
  MEMORY_ARRAY,             /* of an array; the program only has the array's handle */
  N_MEMORY_KINDS
} MemoryKind;

struct _Memory
{
  MemoryKind    kind;
  guint         refs;
  gboolean      freed;
  GList        *link;       /* (nullable): in the list of freed memory */
  guint64       address;
  guint64       size;
  guint64       id;
  guint         flags;
  Context      *context;    /* NULL for memory that belongs to no context, such as a pool's */
  Device       *device;     /* NULL for host memory */
  guint8       *map;        /* the mapping, with its guard pages */
  guint64       map_size;
  guint8       *data;       /* the page-aligned part that holds the memory */
  guint64       data_size;
  guint64       file_offset;
  int           access;     /* for mapped memory: CU_MEM_ACCESS_FLAGS of its device */
  guint64       peers;      /* of mapped memory: bits of other devices with access */
  GPtrArray    *uses;       /* of Point */
  Point        *made;       /* nullable; the point of a stream-ordered allocation */
  Pool         *pool;       /* nullable */
  guint64       capture;    /* the capture whose graph allocates the memory, or 0 */
  gpointer      share;      /* nullable; the mapped physical memory */
  gboolean      owns_file;  /* freeing the memory also frees its part of the device's file */
  int           process;    /* of imported memory: the exporting process */
  gpointer      managed;    /* nullable; see managed.c */
  CallFunction  function;   /* the call that created the memory */
  guint         number;
};

/* memory.c */
extern const char *const memory_kinds[N_MEMORY_KINDS];

void        memory_init     (void);
Memory     *memory_ref      (Memory        *memory);
void        memory_unref    (Memory        *memory);
/* Finds the memory, alive or freed, that contains @address. */
Memory     *memory_find     (guint64        address);
gboolean    memory_is_taken (guint64        address,
                             guint64        size);
Memory     *memory_find_reserved (guint64  address);
/* Counts page-locked memory. Returns FALSE if it would exceed the limit. */
gboolean    memory_lock     (guint64        size);
void        memory_unlock   (guint64        size);
void        memory_add      (Memory        *memory);
/* Returns NULL if the device is out of memory. */
Memory     *memory_new      (MemoryKind     kind,
                             Context       *context,
                             Device        *device,
                             guint64        size);
/* Maps part of a file of another process. */
Memory     *memory_new_file (MemoryKind     kind,
                             Context       *context,
                             Device        *device,
                             int            file,
                             guint64        file_offset,
                             guint64        data_size,
                             guint64        start,
                             guint64        size);
/* Creates memory at an address, without allocating pages for it. */
Memory     *memory_new_at   (MemoryKind     kind,
                             Context       *context,
                             Device        *device,
                             guint64        address,
                             guint64        size);
/* Unmaps the pages and keeps the addresses reserved. */
void        memory_unmap    (Memory        *memory);
void        memory_kill     (Memory        *memory);
/* Returns whether the memory belongs to a module or an array, so that the program has no separate
 * handle of the memory. */
gboolean    memory_is_hidden (const Memory *memory);
gboolean    memory_is_busy  (Memory        *memory);
/* Waits until no operation uses the memory. @error is the error of the context. If the context has
 * not failed (CUDA_SUCCESS), also reports pending operations as misuse. */
void        memory_wait     (Memory        *memory,
                             CUresult       error);
/* Checks that @op may access the range. */
CUresult    memory_check    (Op            *op,
                             Stream        *stream,
                             guint64        address,
                             guint64        size,
                             gboolean       writes,
                             const char    *what);
GPtrArray * memory_list     (Context       *context);
/* Maps @size bytes of @file at @address for devices only. */
gboolean    memory_map_file (guint64        address,
                             guint64        size,
                             int            file,
                             guint64        offset,
                             int            protection);
void        memory_close_pages (gpointer   address,
                             guint64       size);
/* Makes the pages of host memory accessible to stream threads only, or to all threads. */
void        memory_close_to_host (Memory   *memory,
                                  gboolean  closed);
/* managed.c: managed_check() checks a use of managed memory by a device. managed_forget() detaches
 * memory from a stream that is destroyed. */
CUresult    managed_check   (Memory        *memory,
                             Stream        *stream);
void        managed_forget  (Stream        *stream);
void        managed_free    (Memory        *memory);

/* pool.c */
void        pool_note_free  (Memory        *memory);
void        pool_note_freed (Memory        *memory);
/* Returns whether kernels on @device can access the memory. */
gboolean    pool_reaches    (const Memory  *memory,
                             const Device  *device);

/* virtual.c */
void        virtual_note_unmapped (Memory  *memory);
/* Returns whether kernels on @device can access the memory. */
gboolean    virtual_reaches (const Memory  *memory,
                             const Device  *device);
guint       virtual_get_handle_types (const Memory *memory);
/* Returns whether network cards can access the memory. */
gboolean    virtual_has_rdma (const Memory *memory);
/* Returns whether the memory is mapped memory of the host. */
gboolean    virtual_is_host (const Memory *memory);
/* Returns whether the range is memory of the host in several allocations. NVIDIA's driver refuses
 * to fill such a range. Whether it copies rows in it is not documented, so this driver does not. */
gboolean    virtual_spans_host (guint64     address,
                                guint64     size);
gboolean    file_is_memory  (int            file);

/* --- programs --------------------------------------------------------------------------------- */

struct CUmod_st
{
  Object         object;
  gpointer       handle;          /* nullable; the shared object */
  int            file;            /* open while the module is loaded; -1 if there is none */
  int            capability;
  guint          n_registers;     /* registers per thread */
  GPtrArray     *functions;       /* of Function */
  GPtrArray     *globals;         /* of Memory */
  guint          n_launches;      /* number of pending launches */
  gsize          shared_size;     /* total size of the variables in shared memory */
};

struct CUfunc_st
{
  Object         object;
  Module        *module;
  char          *name;
  gpointer       entry;           /* KernelEntry; NULL if the stand-in cannot run the kernel */
  gboolean       is_builtin;
  int            max_shared;      /* limit of dynamic shared memory per launch */
  int            carveout;
};

/* module.c */
void        modules_close   (Context       *context);

/* run.c */
typedef struct _Launch Launch;

struct _Launch
{
  Function      *function;
  guint          grid[3];
  guint          block[3];
  guint          shared_size;
  guint8        *values;          /* the arguments, laid out as in the launch's buffer */
  gpointer      *arguments;
  gboolean       traps;
};

CUresult    launch_run      (gpointer       data);
void        launch_thread_end (void);

/* builtin.c: builtin_find() finds the KernelEntry of a PTX kernel by name. builtin_check() checks
 * the addresses in the arguments of a launch. */
gconstpointer builtin_find  (const char    *name);
CUresult    builtin_check   (const Launch  *launch,
                             Op            *op,
                             Stream        *stream);

/* Allows this thread to access device memory. */
void        memory_open     (void);

G_END_DECLS
