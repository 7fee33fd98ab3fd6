/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The interface between the public classes and a back end.
 *
 * A back end is one const GpuBackend: a table of tables, one for each kind of object. Its objects
 * embed the GpuNative structure of their kind as their first member. The front classes have
 * checked every argument that they can check without the driver: sizes, offsets, overlaps,
 * flags, contexts and released objects never reach an op wrong.
 *
 * Rules for every op:
 *  - Failure is FALSE or NULL with @error set; the text starts with the native function, its code
 *    by name and number. The front class puts its own name before it.
 *  - An op whose entry is NULL is one that the driver lacks: the front class answers
 *    GPU_ERROR_NOT_SUPPORTED. Entries that may be NULL say so here; all others must be there.
 *  - No op emits a signal, calls back into a front class, or touches a sibling back end.
 *  - "any thread" ops may be called from any thread at any time, also from finalizers.
 *  - "stream" ops are called by one thread at a time for each stream (the timeline holds its
 *    lock), and must not block on the device, but for those whose names end in "_now". The driver
 *    of CUDA does where it copies ordinary memory of the host: reads into it, of any size, and
 *    writes of several megabytes from it return when they are over, with the locks held.
 *  - Ops that enqueue take @event: when it is not NULL they set it to a new event of that very
 *    operation; when it is NULL they make no event.
 *  - An op that enqueues several commands, and fails when some of them are in the stream already,
 *    sets @partial of the stream. @event, if it was asked for, may then be one to be kept until
 *    they are over.
 */
#pragma once

#include <gpumem/gpumem.h>

G_BEGIN_DECLS

typedef struct _GpuBackend       GpuBackend;
typedef struct _GpuNativeDevice  GpuNativeDevice;
typedef struct _GpuNativeContext GpuNativeContext;
typedef struct _GpuNativeStream  GpuNativeStream;
typedef struct _GpuNativeEvent   GpuNativeEvent;
typedef struct _GpuNativeMemory  GpuNativeMemory;
typedef struct _GpuNativeMemory  GpuNativeBuffer;   /* linear memory is nothing beyond that */
typedef struct _GpuNativePiece   GpuNativePiece;
typedef struct _GpuNativeImage   GpuNativeImage;
typedef struct _GpuNativeSampler GpuNativeSampler;
typedef struct _GpuNativeProgram GpuNativeProgram;
typedef struct _GpuNativeKernel  GpuNativeKernel;

/* A device as its back end found it. Lives as long as the process. */
struct _GpuNativeDevice
{
  const GpuBackend *backend;
  char             *id;             /* "opencl:0:1", unique, what gpu_device_find() takes */
  char             *name;
  char             *vendor;
  char             *platform;       /* nullable */
  char             *version;        /* of the API: "OpenCL 3.0 ..." */
  char             *driver_version;
  char             *pci_bus_id;     /* "0000:01:00.0", nullable */
  char             *unusable;       /* why the device cannot be used; NULL if it can */
  GpuDeviceType     type;
  GpuCapabilities   capabilities;
  guint64           memory_size;    /* bytes */
  guint64           max_allocation; /* bytes of one allocation */
  gsize             base_alignment; /* bytes, of allocations and of the origin of slices */
  guint64           handle;
};

/* The driver's context; shared by the GpuContext and by everything still at work in it. The
 * front classes count the references, bytes and streams; the back end fills in the rest. */
struct _GpuNativeContext
{
  const GpuBackend  *backend;
  gatomicrefcount    refs;
  GpuNativeDevice  **devices;       /* array of n_devices, owned */
  guint              n_devices;
  GpuContextFlags    flags;         /* that it has: set by create() and wrap() */
  gsize              allocated;     /* atomic; bytes of memory held by this context */
  gsize              allocated_host; /* atomic; bytes of GpuHostMemory, which is none of these */
  gint               stages_host_memory; /* atomic; copies of ordinary memory of the library go, or
                                     * went, by way of the staging engine, in their turn: what uses
                                     * such memory at once must let the stream come to an end */
  gint               n_active;      /* atomic; timelines with work that is not known to be over */
  GMutex             failure_lock;  /* held while an event fails and while streams are made to
                                     * wait for events that may fail: PoCL hangs on a wait for
                                     * what has failed already */
  GMutex             lock;          /* guards what follows */
  GPtrArray         *timelines;     /* every live timeline of the context, unowned */
  GHashTable        *origins;       /* nullable; of GpuStorage by GpuOrigin.id, unowned */
  GHashTable        *formats;       /* nullable; of images: GArray by memory flags and type */
  gpointer           owner;         /* GWeakRef on the GpuContext, for signals */
  /* nullable; called once, on any thread, when the context turns out to be lost */
  void             (*notify_lost) (GpuNativeContext *context,
                                   const GError     *error);
  struct _GpuTransferRing *ring;    /* of the staging engine; NULL until first needed */
  void             (*ring_free)  (GpuNativeContext *context);

  /* Last, beside what back ends put first: all that an operation looks at. */
  gint               lost;          /* atomic; once TRUE every call answers DEVICE_LOST */
};

struct _GpuNativeStream
{
  const GpuBackend *backend;
  GpuNativeContext *context;        /* owned by the timeline that owns the stream */
  gboolean          partial;        /* set by an op that fails with a part of it at work; taken
                                     * back by who called it */
};

struct _GpuNativeEvent
{
  const GpuBackend *backend;
  gatomicrefcount   refs;           /* managed by _gpu_native_event_ref() and _unref() */
};

/* A buffer, or what a GpuNativeImage begins with. */
struct _GpuNativeMemory
{
  const GpuBackend *backend;
  gsize             size;           /* bytes, set by the op that made the memory */
  gboolean          is_image;
  gboolean          is_exclusive;   /* one stream or the host at a time, not even two that read:
                                     * the front class calls GpuSvmOps.attach() before each use */
  gboolean          is_external;    /* another API has it, too: the front class calls
                                     * GpuBufferOps.acquire() before each use, and release() */
  gboolean          acquire_waits;  /* acquire() has the caller wait for what is before it in the
                                     * stream: never called behind events of the user */
  gpointer          host;           /* nullable; where the host reaches it without a command */
  gboolean          is_host_only;   /* kernels do not reach it, and images cannot be over it */
  gboolean          is_locked;      /* pages of the host that the driver keeps in place */
  gboolean          is_constant;    /* open_fd() made it of what nobody may write */
  gboolean          is_shareable;   /* open_fd() made it of what share_fd() passes on */
};

/* Memory that is at no address, but can be put behind some. */
struct _GpuNativePiece
{
  const GpuBackend *backend;
  gsize             size;           /* bytes, set by the op that made it */
};

/* What an image is. The dimensions of @extent that its type does not have are 1. */
typedef struct
{
  GpuImageType   type;
  GpuImageFormat format;
  gsize          texel_size;        /* bytes */
  GpuExtent      extent;            /* texels, of the first level; the layers of an array stand in
                                     * the dimension after those of a layer: 6 for a cubemap */
  guint          n_levels;          /* 1 without mip levels */
} GpuImageDescription;

struct _GpuNativeImage
{
  GpuNativeMemory     base;
  GpuImageDescription description;
  gsize               row_pitch;    /* bytes: those of the memory where it is linear, or else of */
  gsize               slice_pitch;  /* texels that follow each other tightly */
};

/* How kernels read images; every value was checked. */
typedef struct
{
  gboolean       normalized_coordinates;
  GpuAddressMode address_modes[3];  /* of x, y and z */
  GpuFilterMode  filter_mode;
  GpuFilterMode  mip_filter_mode;
  GpuReadMode    read_mode;
  guint          max_anisotropy;    /* 1 for none */
  float          lod_bias;
  float          min_lod;
  float          max_lod;
  float          border_color[4];
} GpuSamplerDescription;

/* The front class counts the references and sets the context. */
struct _GpuNativeSampler
{
  const GpuBackend      *backend;
  GpuNativeContext      *context;
  gatomicrefcount        refs;
  GpuSamplerDescription  description;
};

struct _GpuNativeProgram
{
  const GpuBackend *backend;
  char             *log;            /* of the build, nullable, freed by the back end */
};

/* What a kernel says of one argument; strings belong to the kernel. */
typedef struct
{
  GpuArgumentKind  kind;
  const char      *name;            /* nullable */
  const char      *type_name;       /* "float", "uint*", nullable */
  char             type;            /* for values: a code of gpu_kernel_declare_arguments(), or
                                     * 0 for structures and whatever has no code */
  gsize            size;            /* for values: bytes, 0 if unknown; for memory: those of an
                                     * address, if its bytes can be passed as well, else 0 */
  gboolean         read_only;       /* for memory and images: the kernel cannot write it */
} GpuArgumentInfo;

struct _GpuNativeKernel
{
  const GpuBackend *backend;
  guint             n_arguments;
  GpuArgumentInfo  *arguments;      /* n_arguments of them, owned by the back end */
};

/* One argument of a launch, ready for the driver. An image for an argument whose kind is VALUE or
 * UNKNOWN is a texture with @sampler, and what kernels write it by without: only where
 * GpuImageOps.has_textures. */
typedef struct
{
  GpuArgumentKind   kind;           /* MEMORY, LOCAL, VALUE, IMAGE or SAMPLER */
  union
  {
    GpuNativeBuffer  *buffer;       /* MEMORY; NULL passes a null pointer */
    GpuNativeImage   *image;        /* IMAGE */
  };
  GpuNativeSampler *sampler;        /* SAMPLER; of a texture */
  gconstpointer     data;           /* VALUE; MEMORY without a buffer: NULL, or a guint64, which is
                                     * an address in shared virtual memory */
  gsize             size;           /* VALUE and LOCAL, bytes */
} GpuArgumentValue;

/* What a launch may have beside its arguments. */
typedef struct
{
  gsize                   shared_size;    /* bytes of local memory that no argument stands for */
  GpuLaunchFlags          flags;
  GpuNativeBuffer *const *indirect;       /* n_indirect: reached through pointers in other memory */
  guint                   n_indirect;
} GpuLaunchOptions;

/* One side of a region copy: linear memory of the device or of the host, or an image. */
typedef struct
{
  GpuNativeContext *context;        /* that @memory belongs to */
  GpuNativeMemory  *memory;         /* NULL for memory of the host */
  gpointer          data;           /* of the host */

  /* Of linear memory: in bytes, pitches are never 0. */
  gsize             offset;         /* of the first byte, origin and pitches resolved */
  gsize             row_pitch;
  gsize             slice_pitch;

  /* Of an image: in texels, rows and slices or layers. */
  gsize             x;
  gsize             y;
  gsize             z;
} GpuRegionSide;

typedef struct
{
  /* gpu_device_list() and friends, under the registry's lock, once in a process unless it
   * fails. Appends every device, usable or not. FALSE if the driver is absent: why, in @error. */
  gboolean (*enumerate)      (GPtrArray        *devices,
                              GError          **error);
  /* any thread. Everything the driver tells, by nick: "max-work-group-size". */
  gboolean (*get_attributes) (GpuNativeDevice  *device,
                              GVariantDict     *attributes,
                              GError          **error);
  /* any thread; may be NULL: no device then reaches another. Whether kernels and copies of
   * @device can reach the memory of @peer, another one of this back end. */
  gboolean (*can_access_peer) (GpuNativeDevice  *device,
                               GpuNativeDevice  *peer,
                               gboolean         *can_access,
                               GError          **error);
  /* any thread; may be NULL. What the driver tells of the link from @device to @peer, by nick. */
  gboolean (*get_peer_attributes) (GpuNativeDevice  *device,
                                   GpuNativeDevice  *peer,
                                   GVariantDict     *attributes,
                                   GError          **error);
} GpuDeviceOps;

typedef struct
{
  /* Those that create() knows; the front class refuses others. */
  GpuContextFlags    flags;

  /* any thread. All devices are of this back end; more than one only where the back end can:
   * else GPU_ERROR_NOT_SUPPORTED. At most one GPU_CONTEXT_FLAGS_SCHED_ is in @flags. */
  GpuNativeContext * (*create)          (GpuNativeDevice *const *devices,
                                         guint                   n_devices,
                                         GpuContextFlags         flags,
                                         GError                **error);
  /* any thread; may be NULL. A foreign context of @device. */
  GpuNativeContext * (*wrap)            (GpuNativeDevice        *device,
                                         guint64                 handle,
                                         GpuWrapMode             mode,
                                         GError                **error);
  /* any thread; nothing of the context is left. Frees the structure itself. */
  void               (*free)            (GpuNativeContext       *context);
  guint64            (*get_handle)      (GpuNativeContext       *context);
  /* any thread; may be NULL or fail with NOT_SUPPORTED: the front class then counts. */
  gboolean           (*get_memory_info) (GpuNativeContext       *context,
                                         guint64                *free_size,
                                         guint64                *total_size,
                                         GpuMemoryInfoSource    *source,
                                         GError                **error);
  /* any thread; may be NULL. */
  gboolean           (*get_limit)       (GpuNativeContext       *context,
                                         GpuLimit                limit,
                                         guint64                *value,
                                         GError                **error);
  gboolean           (*set_limit)       (GpuNativeContext       *context,
                                         GpuLimit                limit,
                                         guint64                 value,
                                         GError                **error);

  /* The rest may be NULL, and are for any thread. */

  /* Of the context: 1000 times the major number and 10 times the minor one. */
  gboolean           (*get_api_version) (GpuNativeContext       *context,
                                         guint                  *version,
                                         GError                **error);
  gboolean           (*get_cache_preference) (GpuNativeContext       *context,
                                              GpuCachePreference     *preference,
                                              GError                **error);
  gboolean           (*set_cache_preference) (GpuNativeContext       *context,
                                              GpuCachePreference      preference,
                                              GError                **error);
  /* Of streams on the first device; @greatest is what goes first, and the lower number. NULL:
   * from 0 to 0. */
  gboolean           (*get_priority_range) (GpuNativeContext     *context,
                                            int                  *least,
                                            int                  *greatest,
                                            GError              **error);
  /* Current for the calling thread, for programs that call the driver themselves. pop() fails if
   * another than @context is current. */
  gboolean           (*push_current)    (GpuNativeContext       *context,
                                         GError                **error);
  gboolean           (*pop_current)     (GpuNativeContext       *context,
                                         GError                **error);
  /* What the driver knows of an address of the device or of the host, by nick. An address that
   * it does not know is GPU_ERROR_INVALID_ARGUMENT. */
  gboolean           (*get_address_attributes) (GpuNativeContext  *context,
                                                guint64            address,
                                                GVariantDict      *attributes,
                                                GError           **error);
  /* Kernels and copies of @context may reach the memory of @peer, on another device, or no more.
   * Enabling what is enabled and disabling what is not are GPU_ERROR_BUSY and
   * GPU_ERROR_INVALID_ARGUMENT. */
  gboolean           (*enable_peer)     (GpuNativeContext       *context,
                                         GpuNativeContext       *peer,
                                         GError                **error);
  gboolean           (*disable_peer)    (GpuNativeContext       *context,
                                         GpuNativeContext       *peer,
                                         GError                **error);
  /* A profiler that runs the process takes notes between the two. */
  gboolean           (*start_profiler)  (GpuNativeContext       *context,
                                         GError                **error);
  gboolean           (*stop_profiler)   (GpuNativeContext       *context,
                                         GError                **error);
} GpuContextOps;

typedef struct
{
  /* Whether wait() takes events of other contexts of the back end. */
  gboolean          foreign_events;
  /* Whether wrap() takes GPU_STREAM_HANDLE_DEFAULT and the like; the front class refuses them else,
   * for a driver may take them for addresses. */
  gboolean          has_default_handles;
  /* Whether record() takes the time on streams without GPU_STREAM_FLAGS_PROFILING. */
  gboolean          times_any;
  /* Whether finish() tells if work failed, and costs less than an event and the wait for it. */
  gboolean          finish_tells;

  /* any thread. @device is one of the context's. The capabilities for @flags and @priority were
   * checked. */
  GpuNativeStream * (*create)     (GpuNativeContext        *context,
                                   GpuNativeDevice         *device,
                                   GpuStreamFlags           flags,
                                   int                      priority,
                                   GError                 **error);
  /* any thread; may be NULL. Sets @device and @flags to what the foreign stream has. */
  GpuNativeStream * (*wrap)       (GpuNativeContext        *context,
                                   guint64                  handle,
                                   GpuWrapMode              mode,
                                   GpuNativeDevice        **device,
                                   GpuStreamFlags          *flags,
                                   GError                 **error);
  /* any thread. All submitted work is complete, or the context is lost. Must not block on the
   * device. */
  void              (*free)       (GpuNativeStream         *stream);
  guint64           (*get_handle) (GpuNativeStream         *stream);
  /* stream. An event that completes when all work submitted so far has. @flags may ask for
   * timing, or for an event that GpuEventOps.export_handle() takes, but never for both; the front
   * class asks for the latter only where that is not NULL. */
  GpuNativeEvent *  (*record)     (GpuNativeStream         *stream,
                                   GpuEventFlags            flags,
                                   GError                 **error);
  /* stream. All work submitted later waits for @events, none of which has failed, but that another
   * context, of one of them, may be lost. @event may be set although it fails: part of the wait is
   * in the stream then. */
  gboolean          (*wait)       (GpuNativeStream         *stream,
                                   GpuNativeEvent *const   *events,
                                   guint                    n_events,
                                   GpuNativeEvent         **event,
                                   GError                 **error);
  /* stream. All work submitted later waits for all submitted before; for out-of-order streams. */
  gboolean          (*barrier)    (GpuNativeStream         *stream,
                                   GpuNativeEvent         **event,
                                   GError                 **error);
  /* stream. Makes sure that submitted work starts without anybody waiting for it. */
  gboolean          (*flush)      (GpuNativeStream         *stream,
                                   GError                 **error);
  /* any thread, also while another is in a stream op. Blocks until all work submitted before is
   * complete, also where it fails; without finish_tells only called where record() failed. */
  gboolean          (*finish)     (GpuNativeStream         *stream,
                                   GError                 **error);
} GpuStreamOps;

typedef struct
{
  /* any thread; both may be NULL. An event that set_user() completes or fails, once. When it
   * fails, work that waits for it never runs and completes with an error. */
  GpuNativeEvent * (*create_user)        (GpuNativeContext   *context,
                                          GError            **error);
  gboolean         (*set_user)           (GpuNativeEvent     *event,
                                          gboolean            success,
                                          GError            **error);
  /* any thread, no reference left. Frees the structure itself. */
  void             (*free)               (GpuNativeEvent     *event);
  guint64          (*get_handle)         (GpuNativeEvent     *event);
  /* any thread; does not block. FAILED sets @error. */
  GpuEventStatus   (*query)              (GpuNativeEvent     *event,
                                          GError            **error);
  /* any thread; blocks until the event completes or fails. The stream of the event was flushed.
   * The thread sleeps; with @urgent, when the user's own thread waits, it may poll for as long as
   * the flags of the context allow. */
  gboolean         (*wait)               (GpuNativeEvent     *event,
                                          gboolean            urgent,
                                          GError            **error);
  /* any thread; may be NULL. In nanoseconds of a clock of the device. The event is complete. */
  gboolean         (*get_profiling_time) (GpuNativeEvent     *event,
                                          GpuProfilingPoint   point,
                                          guint64            *nanoseconds,
                                          GError            **error);
  /* any thread; may be NULL: the difference of the times at which the two ended is taken. Both
   * tell times, are complete, and of one context. */
  gboolean         (*get_elapsed)        (GpuNativeEvent     *event,
                                          GpuNativeEvent     *since,
                                          gint64             *nanoseconds,
                                          GError            **error);
  /* any thread; may be NULL: the time from STARTED to ENDED. How long the operation of @event took,
   * which is complete and of a profiling stream. */
  gboolean         (*get_duration)       (GpuNativeEvent     *event,
                                          guint64            *nanoseconds,
                                          GError            **error);
  /* any thread; both may be NULL. What another process makes an event from that completes with
   * @event, which was recorded with GPU_EVENT_FLAGS_INTERPROCESS and lives while others wait; and
   * an event from that. The bytes come from outside: ones that are none are GPU_ERROR_IPC. */
  GBytes *         (*export_handle)      (GpuNativeEvent     *event,
                                          GError            **error);
  GpuNativeEvent * (*import_handle)      (GpuNativeContext   *context,
                                          GBytes             *handle,
                                          GError            **error);
} GpuEventOps;

/* Where memory is, for finding out that others are over the same. */
typedef struct
{
  guint64 id;                       /* the same for all over that memory; 0: nobody else can be */
  gsize   offset;                   /* within it */
  guint64 outer;                    /* of memory that it may be a part of, or 0 */
  gsize   outer_offset;
} GpuOrigin;

/* What all memory has, buffers and images alike. */
typedef struct
{
  /* Whether copy_region() takes memory of another context of the back end on one of its sides. */
  gboolean          copies_peers;

  /* any thread. No submitted work uses the memory any more, or the context is lost. */
  void              (*free)           (GpuNativeContext        *context,
                                       GpuNativeMemory         *memory);
  guint64           (*get_handle)     (GpuNativeMemory         *memory);
  /* any thread. The address that kernels see, 0 if the driver does not tell or there is none. */
  guint64           (*get_address)    (GpuNativeMemory         *memory);
  /* any thread. Everything the driver tells, by nick. */
  gboolean          (*get_attributes) (GpuNativeContext        *context,
                                       GpuNativeMemory         *memory,
                                       GVariantDict            *attributes,
                                       GError                 **error);
  /* any thread; may be NULL. Once for all memory but slices; @origin is 0 to begin with. Memory
   * that was imported or wrapped more than once, also such that is the library's own, has one
   * @origin in a context. */
  void              (*identify)       (GpuNativeContext        *context,
                                       GpuNativeMemory         *memory,
                                       GpuOrigin               *origin);

  /* The rest are stream ops. */

  /* Any pair of sides but host and host. @extent is not empty; its width counts bytes, or texels
   * where a side is an image; two images have texels of the same size. The regions do not overlap
   * and lie within what they are of. Memory of the host stays as it is until the operation is
   * complete. */
  gboolean          (*copy_region)    (GpuNativeStream         *stream,
                                       const GpuRegionSide     *destination,
                                       const GpuRegionSide     *source,
                                       const GpuExtent         *extent,
                                       GpuNativeEvent         **event,
                                       GError                 **error);
  gboolean          (*migrate)        (GpuNativeStream         *stream,
                                       GpuNativeMemory *const  *memories,
                                       guint                    n_memories,
                                       GpuMigrateFlags          flags,
                                       GpuNativeEvent         **event,
                                       GError                 **error);
  /* NULL where nothing can be mapped. @data is what map() of the memory gave. */
  gboolean          (*unmap)          (GpuNativeStream         *stream,
                                       GpuNativeMemory         *memory,
                                       gpointer                 data,
                                       GpuNativeEvent         **event,
                                       GError                 **error);
} GpuMemoryOps;

typedef struct
{
  /* The largest pattern that fill() takes whatever its size, 0 if it does not. */
  gsize              max_fill_pattern;
  /* How many bytes write_now() and read_now() are called for at most: of so many the driver makes
   * little more than of none, or holds up the caller even if it is not asked to. 0 without them. */
  gsize              max_now_size;

  /* any thread. @size is not 0 and at most the device's max_allocation; @data, if not NULL, are
   * @size bytes to begin with, copied before the call returns. */
  GpuNativeBuffer * (*alloc)          (GpuNativeContext        *context,
                                       GpuMemoryFlags           flags,
                                       gsize                    size,
                                       gconstpointer            data,
                                       GError                 **error);
  /* any thread; may be NULL: rows are then aligned to the device's base_alignment. */
  GpuNativeBuffer * (*alloc_pitched)  (GpuNativeContext        *context,
                                       GpuMemoryFlags           flags,
                                       gsize                    row_size,
                                       gsize                    n_rows,
                                       gsize                    element_size,
                                       gsize                   *row_pitch,
                                       GError                 **error);
  /* any thread; may be NULL. Uses @data in place; it outlives the buffer. */
  GpuNativeBuffer * (*alloc_for_host) (GpuNativeContext        *context,
                                       GpuMemoryFlags           flags,
                                       gpointer                 data,
                                       gsize                    size,
                                       GError                 **error);
  /* any thread; each may be NULL. Memory of the host that stays where it is, at
   * GpuNativeMemory.host: the host looks at it whenever no work does, without a command. What
   * kernels must reach has GPU_HOST_MEMORY_MAPPED in @flags, or it is GPU_ERROR_NOT_SUPPORTED; the
   * others ask for what may be done without. @flags become those that it has. Where memory runs
   * short it is GPU_ERROR_OUT_OF_HOST_MEMORY. */
  GpuNativeBuffer * (*alloc_host)     (GpuNativeContext        *context,
                                       GpuHostMemoryFlags      *flags,
                                       gsize                    size,
                                       GError                 **error);
  /* @data are of the program, and outlive the buffer. With GPU_HOST_MEMORY_READ_ONLY in @flags
   * nobody writes them: the pages may not let anybody. */
  GpuNativeBuffer * (*register_host)  (GpuNativeContext        *context,
                                       GpuHostMemoryFlags      *flags,
                                       gpointer                 data,
                                       gsize                    size,
                                       GError                 **error);
  /* The same for memory that nothing is done to: kernels need not reach it. */
  GpuNativeBuffer * (*use_host)       (GpuNativeContext        *context,
                                       gpointer                 data,
                                       gsize                    size,
                                       GError                 **error);
  /* any thread; may be NULL. @size 0 asks the driver for the size. */
  GpuNativeBuffer * (*wrap)           (GpuNativeContext        *context,
                                       guint64                  handle,
                                       gsize                    size,
                                       GpuWrapMode              mode,
                                       GError                 **error);
  /* any thread. @parent is no slice itself and outlives the slice; @offset is a multiple of the
   * device's base_alignment where the device has sub-buffers, unless @parent is_host_only. */
  GpuNativeBuffer * (*slice)          (GpuNativeContext        *context,
                                       GpuNativeBuffer         *parent,
                                       GpuMemoryFlags           flags,
                                       gsize                    offset,
                                       gsize                    size,
                                       GError                 **error);
  /* any thread; may be NULL, both of a pair. What another process opens the memory of @buffer
   * with; @buffer may be a slice or lie inside a greater allocation of the driver: the bytes then
   * say where. The memory stays while the exporter holds it. */
  GBytes *          (*export_handle)  (GpuNativeContext        *context,
                                       GpuNativeBuffer         *buffer,
                                       GError                 **error);
  /* @handle comes from outside: one that is none, or tells of less than @size bytes, is
   * GPU_ERROR_IPC. The memory of one handle is mapped once, however often it is imported. */
  GpuNativeBuffer * (*import_handle)  (GpuNativeContext        *context,
                                       GBytes                  *handle,
                                       gsize                    size,
                                       GError                 **error);
  /* The same for memory with GPU_MEMORY_SHAREABLE, as a file descriptor that becomes the
   * caller's, and bytes for what it does not tell; importing leaves @fd the caller's. */
  GBytes *          (*export_fd)      (GpuNativeContext        *context,
                                       GpuNativeBuffer         *buffer,
                                       int                     *fd,
                                       GError                 **error);
  GpuNativeBuffer * (*import_fd)      (GpuNativeContext        *context,
                                       GBytes                  *handle,
                                       int                      fd,
                                       gsize                    size,
                                       GError                 **error);

  /* Whether open_fd() takes no offset but 0: the front class then cuts the buffer out of one that
   * begins there. */
  gboolean           opens_from_start;
  /* The same for libraries other than this one, without bytes of ours: may be NULL, and then none
   * of this can be. What kinds pass, out of the context, or into it: where none do, what serves
   * them may be NULL. */
  GpuFdKinds        (*get_fd_kinds)   (GpuNativeContext        *context,
                                       gboolean                 import);
  /* @kind is one of those, and @buffer has GPU_MEMORY_SHAREABLE. The descriptor, which is the
   * caller's, is of an allocation of @whole_size bytes, where the buffer begins at @offset. */
  gboolean          (*share_fd)       (GpuNativeContext        *context,
                                       GpuNativeBuffer         *buffer,
                                       GpuFdKinds               kind,
                                       int                     *fd,
                                       gsize                   *whole_size,
                                       gsize                   *offset,
                                       GError                 **error);
  /* The range lies within @whole_size bytes, which come from outside; @fd stays the caller's. Of
   * what can only be read it makes a buffer that is_constant. */
  GpuNativeBuffer * (*open_fd)        (GpuNativeContext        *context,
                                       GpuFdKinds               kind,
                                       int                      fd,
                                       gsize                    whole_size,
                                       gsize                    offset,
                                       gsize                    size,
                                       GError                 **error);

  /* The driver may put allocations off until work uses the memory. */
  gboolean          is_deferred;

  /* The rest are stream ops; sizes are not 0. */

  /* May be NULL. Memory that work submitted to @stream later can use, as can work on other
   * streams that waits for @stream. */
  GpuNativeBuffer * (*alloc_ordered)  (GpuNativeStream         *stream,
                                       GpuMemoryFlags           flags,
                                       gsize                    size,
                                       GpuNativeEvent         **event,
                                       GError                 **error);
  /* May be NULL. Frees the buffer, of alloc_ordered(), after the work submitted to @stream so far,
   * which all other work with the buffer comes before. Frees the structure itself at once, also
   * if it fails. */
  gboolean          (*free_ordered)   (GpuNativeStream         *stream,
                                       GpuNativeBuffer         *buffer,
                                       GError                 **error);

  /* The ranges do not overlap. */
  gboolean          (*copy)           (GpuNativeStream         *stream,
                                       GpuNativeBuffer         *destination,
                                       gsize                    destination_offset,
                                       GpuNativeBuffer         *source,
                                       gsize                    source_offset,
                                       gsize                    size,
                                       GpuNativeEvent         **event,
                                       GError                 **error);
  /* May be NULL. One of the contexts is that of the stream; the other is of the same back end. */
  gboolean          (*copy_peer)      (GpuNativeStream         *stream,
                                       GpuNativeContext        *destination_context,
                                       GpuNativeBuffer         *destination,
                                       gsize                    destination_offset,
                                       GpuNativeContext        *source_context,
                                       GpuNativeBuffer         *source,
                                       gsize                    source_offset,
                                       gsize                    size,
                                       GpuNativeEvent         **event,
                                       GError                 **error);
  /* @data stays as it is until the operation is complete. */
  gboolean          (*write)          (GpuNativeStream         *stream,
                                       GpuNativeBuffer         *destination,
                                       gsize                    offset,
                                       gconstpointer            data,
                                       gsize                    size,
                                       GpuNativeEvent         **event,
                                       GError                 **error);
  gboolean          (*read)           (GpuNativeStream         *stream,
                                       GpuNativeBuffer         *source,
                                       gsize                    offset,
                                       gpointer                 data,
                                       gsize                    size,
                                       GpuNativeEvent         **event,
                                       GError                 **error);
  /* Write and read that block until they are over, and fail if the operation does; may be NULL.
   * Only called for little data while all else that was submitted in the context is over, so that
   * they take about as long as an op that does not block. */
  gboolean          (*write_now)      (GpuNativeStream         *stream,
                                       GpuNativeBuffer         *destination,
                                       gsize                    offset,
                                       gconstpointer            data,
                                       gsize                    size,
                                       GError                 **error);
  gboolean          (*read_now)       (GpuNativeStream         *stream,
                                       GpuNativeBuffer         *source,
                                       gsize                    offset,
                                       gpointer                 data,
                                       gsize                    size,
                                       GError                 **error);
  /* @pattern_size is a power of two up to 128, and @offset and @size are multiples of it; or it is
   * at most max_fill_pattern, and @size a multiple of it. Other patterns are composed of fills and
   * copies by the front class. @pattern may change once the call has returned. */
  gboolean          (*fill)           (GpuNativeStream         *stream,
                                       GpuNativeBuffer         *destination,
                                       gsize                    offset,
                                       gsize                    size,
                                       gconstpointer            pattern,
                                       gsize                    pattern_size,
                                       GpuNativeEvent         **event,
                                       GError                 **error);
  /* May be NULL, and may fail with NOT_SUPPORTED having done nothing: the front class then fills
   * row by row. @pattern_size is as for fill(), and everything in @side and the width of @extent
   * are multiples of it. */
  gboolean          (*fill_region)    (GpuNativeStream         *stream,
                                       GpuNativeBuffer         *destination,
                                       const GpuRegionSide     *side,
                                       const GpuExtent         *extent,
                                       gconstpointer            pattern,
                                       gsize                    pattern_size,
                                       GpuNativeEvent         **event,
                                       GError                 **error);
  /* May be NULL where no memory is_external, both. From this point of the stream on the back end
   * has @n_buffers buffers, at least one, as the other API left them; and from that point on the
   * other API, as the back end left them. They are no slices, and commands that are enqueued
   * between the two, to this stream or another, use them and what was cut from them. None is
   * acquired or released twice in turn. Both are commands like any other: on a stream out of order
   * the front class puts barriers between them and what uses the memory. */
  gboolean          (*acquire)        (GpuNativeStream         *stream,
                                       GpuNativeBuffer *const  *buffers,
                                       guint                    n_buffers,
                                       GpuNativeEvent         **event,
                                       GError                 **error);
  gboolean          (*release)        (GpuNativeStream         *stream,
                                       GpuNativeBuffer *const  *buffers,
                                       guint                    n_buffers,
                                       GpuNativeEvent         **event,
                                       GError                 **error);
  /* May be NULL. The pointer comes at once, what it points to is right once the operation is
   * complete. */
  gpointer          (*map)            (GpuNativeStream         *stream,
                                       GpuNativeBuffer         *buffer,
                                       GpuMapFlags              flags,
                                       gsize                    offset,
                                       gsize                    size,
                                       GpuNativeEvent         **event,
                                       GError                 **error);
} GpuBufferOps;

/* Shared virtual memory. It is a buffer, and the ops of buffers take it. GpuMemoryOps.get_address()
 * tells where it is, for host and device alike, and GpuNativeMemory.host is set where the host may
 * touch it at any time. The capabilities for what is asked for were checked. */
typedef struct
{
  /* Whether alloc() gives more than the device's max_allocation. */
  gboolean          is_unlimited;

  /* any thread. @alignment is a power of two, or 0 for any. */
  GpuNativeBuffer * (*alloc)          (GpuNativeContext        *context,
                                       GpuMemoryFlags           flags,
                                       GpuSvmFlags              svm_flags,
                                       gsize                    size,
                                       gsize                    alignment,
                                       GError                 **error);
  /* any thread; where GPU_CAPABILITIES_SVM_SYSTEM is. Uses @data in place; it outlives the
   * memory. */
  GpuNativeBuffer * (*alloc_for_host) (GpuNativeContext        *context,
                                       GpuMemoryFlags           flags,
                                       gpointer                 data,
                                       gsize                    size,
                                       GError                 **error);
  /* any thread; may be NULL: advice is then lost. @device, of the same back end, is NULL for the
   * host. */
  gboolean          (*advise)         (GpuNativeContext        *context,
                                       GpuNativeBuffer         *buffer,
                                       GpuMemoryAdvice          advice,
                                       gsize                    offset,
                                       gsize                    size,
                                       GpuNativeDevice         *device,
                                       GError                 **error);

  /* The rest are stream ops, and may be NULL where there is nothing to do. */

  /* From this point of the stream on @attachment may use the memory, and nobody else. */
  gboolean          (*attach)         (GpuNativeStream         *stream,
                                       GpuNativeBuffer         *buffer,
                                       GpuSvmAttachment         attachment,
                                       GpuNativeEvent         **event,
                                       GError                 **error);
  gboolean          (*prefetch)       (GpuNativeStream         *stream,
                                       GpuNativeBuffer         *buffer,
                                       GpuMigrateFlags          flags,
                                       gsize                    offset,
                                       gsize                    size,
                                       GpuNativeEvent         **event,
                                       GError                 **error);
} GpuSvmOps;

/* Images: everything where the capability GPU_CAPABILITIES_IMAGES is, or the back end has none. */
typedef struct
{
  /* Whether an image and a sampler make a value that kernels take as an argument. */
  gboolean          has_textures;

  /* any thread. Appends the formats, of GpuImageFormat, that images of @type with @flags have. */
  gboolean          (*list_formats)   (GpuNativeContext          *context,
                                       GpuMemoryFlags             flags,
                                       GpuImageType               type,
                                       GArray                    *formats,
                                       GError                   **error);
  /* any thread. The greatest extent of images of @type, all zeros where there are none. */
  void              (*get_max_extent) (GpuNativeContext          *context,
                                       GpuImageType               type,
                                       GpuExtent                 *extent);
  /* any thread. The format is one of list_formats(), the extent not empty and at most the greatest,
   * the number of levels 1 unless GPU_CAPABILITIES_MIPMAPS is there, and possible then. @data, if
   * not NULL, are the texels of the first level to begin with, with these pitches, copied before
   * the call returns. */
  GpuNativeImage *  (*create)         (GpuNativeContext          *context,
                                       GpuMemoryFlags             flags,
                                       const GpuImageDescription *description,
                                       gconstpointer              data,
                                       gsize                      row_pitch,
                                       gsize                      slice_pitch,
                                       GError                   **error);
  /* any thread; may be NULL. Uses @data in place; it outlives the image. */
  GpuNativeImage *  (*create_for_host) (GpuNativeContext          *context,
                                        GpuMemoryFlags             flags,
                                        const GpuImageDescription *description,
                                        gpointer                   data,
                                        gsize                      row_pitch,
                                        gsize                      slice_pitch,
                                        GError                   **error);
  /* any thread; may be NULL. An image over @buffer, which outlives it, of the type 1D_BUFFER, or 2D
   * with @row_pitch where GPU_CAPABILITIES_IMAGE_FROM_BUFFER is there. @buffer may be a slice. What
   * @row_pitch and the beginning of the buffer have to be multiples of is for the op to check. */
  GpuNativeImage *  (*create_for_buffer) (GpuNativeContext          *context,
                                          GpuMemoryFlags             flags,
                                          const GpuImageDescription *description,
                                          GpuNativeBuffer           *buffer,
                                          gsize                      row_pitch,
                                          GError                   **error);
  /* any thread; may be NULL. @format, nullable, is what the texels mean where the driver does not
   * tell; it is an error where it does and tells another one. */
  GpuNativeImage *  (*wrap)           (GpuNativeContext          *context,
                                       guint64                    handle,
                                       const GpuImageFormat      *format,
                                       GpuWrapMode                mode,
                                       GError                   **error);
  /* any thread; may be NULL. A level, from 0 on, of @image, which has that many and outlives it. */
  GpuNativeImage *  (*get_level)      (GpuNativeContext          *context,
                                       GpuNativeImage            *image,
                                       guint                      level,
                                       GError                   **error);
  /* any thread; may be NULL. The driver's handle, never 0, of what kernels read @image by with
   * @sampler, or write it by if that is NULL. It lives as long as the image. */
  gboolean          (*get_object)     (GpuNativeContext          *context,
                                       GpuNativeImage            *image,
                                       GpuNativeSampler          *sampler,
                                       guint64                   *handle,
                                       GError                   **error);

  /* The rest are stream ops. */

  /* May be NULL: the front class then writes a row of texels and copies it. @texel are
   * description.texel_size bytes, which may change once the call has returned. */
  gboolean          (*fill)           (GpuNativeStream           *stream,
                                       GpuNativeImage            *image,
                                       const GpuRegionSide       *side,
                                       const GpuExtent           *extent,
                                       gconstpointer              texel,
                                       GpuNativeEvent           **event,
                                       GError                   **error);
  /* May be NULL. The same as GpuBufferOps.map(), with the pitches of what comes. */
  gpointer          (*map)            (GpuNativeStream           *stream,
                                       GpuNativeImage            *image,
                                       GpuMapFlags                flags,
                                       const GpuRegionSide       *side,
                                       const GpuExtent           *extent,
                                       gsize                     *row_pitch,
                                       gsize                     *slice_pitch,
                                       GpuNativeEvent           **event,
                                       GError                   **error);
} GpuImageOps;

typedef struct
{
  /* any thread. What does not exist anywhere was refused; what this driver lacks is
   * GPU_ERROR_NOT_SUPPORTED. Sets the description. */
  GpuNativeSampler * (*create)         (GpuNativeContext             *context,
                                        const GpuSamplerDescription  *description,
                                        GError                      **error);
  /* any thread; may be NULL. Sets the description. */
  GpuNativeSampler * (*wrap)           (GpuNativeContext             *context,
                                        guint64                       handle,
                                        GpuWrapMode                   mode,
                                        GError                      **error);
  /* any thread. No submitted launch uses it, or the context is lost. Frees the structure itself. */
  void               (*free)           (GpuNativeContext             *context,
                                        GpuNativeSampler             *sampler);
  /* 0 where samplers are no objects of the driver. */
  guint64            (*get_handle)     (GpuNativeSampler             *sampler);
} GpuSamplerOps;

typedef struct
{
  /* any thread; each may be NULL. They block until the program is built. A program that does not
   * build is GPU_ERROR_BUILD_FAILED with the log in the text. */
  GpuNativeProgram * (*build_source)  (GpuNativeContext  *context,
                                       const char        *source,
                                       const char        *options,
                                       GError           **error);
  GpuNativeProgram * (*load_binary)   (GpuNativeContext  *context,
                                       GBytes            *binary,
                                       const char        *options,
                                       GError           **error);
  GpuNativeProgram * (*load_il)       (GpuNativeContext  *context,
                                       GBytes            *il,
                                       const char        *options,
                                       GError           **error);
  /* The same as build_source(), for the templates, overloads and variables that @names (ends
   * with NULL, is not empty) tell as one writes them in the source: "scale<float>". @lowered
   * becomes, in the same order, what they are called in the binary. */
  GpuNativeProgram * (*build_names)   (GpuNativeContext    *context,
                                       const char          *source,
                                       const char          *options,
                                       const char *const   *names,
                                       char              ***lowered,
                                       GError             **error);
  /* What link() takes: source compiled, with nothing loaded. With options for it, it is what
   * load_binary() takes. */
  GBytes *           (*compile)       (GpuNativeContext  *context,
                                       const char        *source,
                                       const char        *options,
                                       GError           **error);
  /* @n_images, at least one, of compile() or of the vendor's compiler, and libraries. */
  GpuNativeProgram * (*link)          (GpuNativeContext  *context,
                                       GBytes *const     *images,
                                       guint              n_images,
                                       const char        *options,
                                       GError           **error);
  /* any thread; may be NULL: load_binary() then, with the options of the build. What get_binary()
   * gave of a program that was built from source, out of the program cache. */
  GpuNativeProgram * (*load_cached)   (GpuNativeContext  *context,
                                       GBytes            *binary,
                                       GError           **error);
  /* any thread; may be NULL: the program cache then stays out of it. Appends whatever, beside
   * source and options, decides what a build yields: device, driver, compiler. */
  void               (*fingerprint)   (GpuNativeContext  *context,
                                       GString           *text);
  /* any thread. Kernels made from the program may outlive it. */
  void               (*free)          (GpuNativeContext  *context,
                                       GpuNativeProgram  *program);
  GBytes *           (*get_binary)    (GpuNativeContext  *context,
                                       GpuNativeProgram  *program,
                                       GError           **error);
  char **            (*list_kernels)  (GpuNativeContext  *context,
                                       GpuNativeProgram  *program,
                                       GError           **error);
  GpuNativeKernel *  (*create_kernel) (GpuNativeContext  *context,
                                       GpuNativeProgram  *program,
                                       const char        *name,
                                       GError           **error);
  /* any thread; may be NULL. A variable of the program, at the address where its kernels see it:
   * memory that the program owns, which outlives the buffer. */
  GpuNativeBuffer *  (*get_global)    (GpuNativeContext  *context,
                                       GpuNativeProgram  *program,
                                       const char        *name,
                                       GError           **error);
} GpuProgramOps;

typedef struct
{
  /* Whether launch_full() takes shared_size and flags; the front class refuses them else. Without
   * launch_full() there is nothing to do for what is reached indirectly. */
  gboolean has_options;

  /* any thread. No submitted launch of the kernel is left, or the context is lost. */
  void     (*free)           (GpuNativeContext        *context,
                              GpuNativeKernel         *kernel);
  guint64  (*get_handle)     (GpuNativeKernel         *kernel);
  /* any thread. Work-group limits, local and private memory, registers, by nick. */
  gboolean (*get_attributes) (GpuNativeContext        *context,
                              GpuNativeKernel         *kernel,
                              GVariantDict            *attributes,
                              GError                 **error);
  /* stream; several streams may launch one kernel at the same time. The number of arguments is
   * right, and their kinds and sizes where the kernel tells them. @grid counts work-items;
   * @block is NULL to let the driver choose. */
  gboolean (*launch)         (GpuNativeStream         *stream,
                              GpuNativeKernel         *kernel,
                              const GpuArgumentValue  *arguments,
                              guint                    n_arguments,
                              const GpuExtent         *grid,
                              const GpuExtent         *block,
                              GpuNativeEvent         **event,
                              GError                 **error);
  /* stream; may be NULL. The same with @options, one of which is set. */
  gboolean (*launch_full)    (GpuNativeStream         *stream,
                              GpuNativeKernel         *kernel,
                              const GpuArgumentValue  *arguments,
                              guint                    n_arguments,
                              const GpuExtent         *grid,
                              const GpuExtent         *block,
                              const GpuLaunchOptions  *options,
                              GpuNativeEvent         **event,
                              GError                 **error);
  /* any thread; the rest may be NULL. One of the nicks of get_attributes(); those that cannot be
   * set are GPU_ERROR_NOT_SUPPORTED, unknown ones GPU_ERROR_INVALID_ARGUMENT. */
  gboolean (*set_attribute)  (GpuNativeContext        *context,
                              GpuNativeKernel         *kernel,
                              const char              *nick,
                              gint64                   value,
                              GError                 **error);
  gboolean (*set_cache_preference) (GpuNativeContext        *context,
                                    GpuNativeKernel         *kernel,
                                    GpuCachePreference       preference,
                                    GError                 **error);
  /* How many blocks of @block_size work-items, with @shared_size bytes as in GpuLaunchOptions, run
   * at the same time on one multiprocessor of the first device. */
  gboolean (*get_max_active_blocks) (GpuNativeContext        *context,
                                     GpuNativeKernel         *kernel,
                                     gsize                    block_size,
                                     gsize                    shared_size,
                                     guint                   *n_blocks,
                                     GError                 **error);
} GpuKernelOps;

/* Addresses and the memory behind them apart. All of it is for any thread and waits for no work,
 * and only called where the device has GPU_CAPABILITIES_VIRTUAL_MEMORY. Sizes and offsets are not 0
 * but for the offset of the first byte, and multiples of the granularity. */
typedef struct
{
  /* Bytes of the smallest piece. */
  gboolean          (*get_granularity) (GpuNativeContext        *context,
                                        gsize                   *granularity,
                                        GError                 **error);
  /* Addresses with nothing behind them, as a buffer for GpuMemoryOps.free(), get_address() and
   * BufferOps.slice(). A slice is a buffer like any other for all that is done while every byte of
   * it has memory; touching one that has none is a fault of the kernel's or the program's. Nothing
   * is mapped when it is freed. Where there are not so many addresses it is
   * GPU_ERROR_OUT_OF_DEVICE_MEMORY. */
  GpuNativeBuffer * (*reserve)         (GpuNativeContext        *context,
                                        gsize                    size,
                                        GError                 **error);
  /* Memory with undefined content. BufferOps.export_fd() takes slices within one @shareable piece;
   * where the back end has no such pieces it is GPU_ERROR_NOT_SUPPORTED. */
  GpuNativePiece *  (*create_piece)    (GpuNativeContext        *context,
                                        gsize                    size,
                                        gboolean                 shareable,
                                        GError                 **error);
  /* It is mapped nowhere. Frees the structure itself. */
  void              (*destroy_piece)   (GpuNativeContext        *context,
                                        GpuNativePiece          *piece);
  /* Puts @n_pieces, at least one, none of which is mapped, one after the other behind the addresses
   * of @range from @offset on, which have nothing behind them. All can be used when it returns, by
   * every device that may reach memory of the context then or later, and have the content that
   * they had at their last place. When it fails none is mapped. */
  gboolean          (*map)             (GpuNativeContext        *context,
                                        GpuNativeBuffer         *range,
                                        gsize                    offset,
                                        GpuNativePiece *const   *pieces,
                                        guint                    n_pieces,
                                        GError                 **error);
  /* Takes away the piece that begins at @offset and has @size bytes. No submitted work uses it any
   * more, or the context is lost. */
  void              (*unmap)           (GpuNativeContext        *context,
                                        GpuNativeBuffer         *range,
                                        gsize                    offset,
                                        gsize                    size);
} GpuVirtualOps;

/* From how many bytes on it is worth it for a GPU at the end of a link: less is copied about as
 * fast by the driver, which holds up the caller until the work before is over, but with writes that
 * its own buffers have room for. */
#define GPU_TRANSFER_MIN_WRITE       ((gsize) 8 * 1024 * 1024)
#define GPU_TRANSFER_MIN_READ        ((gsize) 2 * 1024 * 1024)
#define GPU_TRANSFER_MIN_ASYNC_WRITE ((gsize) 2 * 1024 * 1024)
#define GPU_TRANSFER_MIN_ASYNC_READ  ((gsize) 64 * 1024)

/* What the staging engine needs, beside GpuBufferOps.alloc_host(). */
typedef struct
{
  /* Whether the driver reads memory of the host that it has not page-locked itself while the call
   * is made, and not when it is the turn of the copy: behind a gate that would be too early. */
  gboolean          needs_page_locked;
  /* any thread. From how many bytes on ordinary memory of the host had better go by way of
   * page-locked memory, to the device if @write: because it is faster, or, unless @blocking,
   * because the driver would hold up the caller. G_MAXSIZE if it never had, 0 if there is no way to
   * do so. */
  gsize             (*get_min_size)   (GpuNativeContext        *context,
                                       gboolean                 write,
                                       gboolean                 blocking);
  /* any thread, without locks, before the first copy is staged; nullable: they do. Whether gates
   * work: the driver is asked once. */
  gboolean          (*has_gates)      (GpuNativeContext        *context);
  /* any thread. Whether the @size bytes at @data are no ordinary memory: the driver copies them at
   * full speed as they are. FALSE if that is only so for some of them. */
  gboolean          (*is_page_locked) (GpuNativeContext        *context,
                                       gconstpointer            data,
                                       gsize                    size);
  /* any thread. An event for GpuStreamOps.wait() alone that open_gate() completes, which is called
   * before the last reference goes. */
  GpuNativeEvent *  (*create_gate)    (GpuNativeContext        *context,
                                       GError                 **error);
  void              (*open_gate)      (GpuNativeEvent          *gate);
} GpuTransferOps;

struct _GpuBackend
{
  const char          *name;        /* "host", "opencl", "cuda": the first part of device ids */
  const GpuDeviceOps  *device;
  const GpuContextOps *context;
  const GpuStreamOps  *stream;
  const GpuEventOps   *event;
  const GpuMemoryOps  *memory;
  const GpuBufferOps  *buffer;
  const GpuVirtualOps *virtual_memory; /* nullable */
  const GpuSvmOps     *svm;         /* nullable */
  const GpuImageOps   *image;       /* nullable */
  const GpuSamplerOps *sampler;     /* nullable, with image */
  const GpuProgramOps *program;
  const GpuKernelOps  *kernel;
  const GpuTransferOps *transfer;   /* nullable: all memory of the host is as good as any */
};

#define GPU_MAX_BACKENDS 3

/* Every driver in this build, in order of preference; NULL-terminated. gpu-backends.c, on top of
 * the drivers, defines it. */
extern const GpuBackend *const _gpu_backends[GPU_MAX_BACKENDS + 1];

const GpuBackend        *_gpu_backend_lookup       (const char        *name);
/* (transfer none): devices of @backend, found once in a process. NULL: why, in @error. */
GPtrArray               *_gpu_backend_list_devices (const GpuBackend  *backend,
                                                    GError           **error);

/* A process that was forked from one that had used a back end finds drivers without their threads,
 * and hangs in them, or in locks that no thread holds any more: FALSE in such a one, where its
 * parent was watched. */
void                     _gpu_backend_watch_process (void);
/* Atomic: TRUE in a child process of one that had used a device. */
extern gint _gpu_forked;
gboolean                 _gpu_backend_check_process (GError           **error);

/* For the back ends: fill in the common part of a new object. */
void                     _gpu_native_context_init  (GpuNativeContext        *context,
                                                    const GpuBackend        *backend,
                                                    GpuNativeDevice *const  *devices,
                                                    guint                    n_devices);
void                     _gpu_native_context_clear (GpuNativeContext        *context);
void                     _gpu_native_event_init    (GpuNativeEvent          *event,
                                                    const GpuBackend        *backend);

/* Bytes held by all contexts of the process that have a device of @context, also through another
 * back end. */
guint64                  _gpu_native_context_get_held (GpuNativeContext     *context);
GpuNativeContext        *_gpu_native_context_ref   (GpuNativeContext        *context);
void                     _gpu_native_context_unref (GpuNativeContext        *context);
GpuNativeEvent          *_gpu_native_event_ref     (GpuNativeEvent          *event);
void                     _gpu_native_event_unref   (GpuNativeEvent          *event);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuNativeContext, _gpu_native_context_unref)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuNativeEvent, _gpu_native_event_unref)

G_END_DECLS
