/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gpumem/gpumem.h>

#include "tools/gpumem-bandwidth-raw.h"
#include "tools/gpumem-progress.h"

G_BEGIN_DECLS

typedef struct _GpumemBench GpumemBench;

typedef enum
{
  GPUMEM_DIRECTION_TO,          /* to the device, or to the peer: lane 0 */
  GPUMEM_DIRECTION_FROM,        /* from the device, or from the peer: lane 1 */
  GPUMEM_DIRECTION_BOTH,        /* both at the same time, with one thread per lane */
  GPUMEM_DIRECTION_WITHIN,      /* within the device: lane 0 */
  GPUMEM_N_DIRECTIONS
} GpumemDirection;

/* Enqueues a copy of the first @size bytes in a lane of the bench. */
typedef gboolean (*GpumemCopyFunc) (GpumemBench *bench,
                                    guint        lane,
                                    gsize        size,
                                    GError     **error);

typedef struct
{
  const char     *name;
  const char     *text;                         /* the description in --help */
  guint           directions;                   /* bits of GpumemDirection */
  gboolean      (*check)   (GpumemBench *bench, /* nullable; fails if the path is not
                                                 * supported */
                            GError     **error);
  gboolean      (*prepare) (GpumemBench *bench, /* allocates the memory of a lane */
                            guint        lane,
                            gsize        size,
                            GError     **error);
  GpumemCopyFunc  ours;
  GpumemCopyFunc  raw;
  gboolean        on_request;                   /* not one of the paths that are measured by
                                                 * default */
} GpumemPath;

typedef struct
{
  GpumemPlace  near;
  GpumemPlace  far;
  GpumemPlace  detour;          /* for raw calls if the driver cannot map device memory */
  GBytes      *bytes;           /* nullable; the memory of `near` if it is pageable */
  GpuFile     *file;            /* nullable; `near` maps its pages */
  int          fd;              /* of `file` */
} GpumemLane;

/* Statistics over all rounds: of speeds in GB/s (10^9 bytes per second), or of ratios of speeds. */
typedef struct
{
  double median;
  double least;
  double most;
} GpumemSpeed;

/* A line of the table. */
typedef struct
{
  const GpumemPath *path;
  GpumemDirection   direction;
  gsize             size;
  guint             n_rounds;
  guint             n_copies;   /* per round and lane */
  GpumemSpeed       ours;
  gboolean          has_raw;    /* FALSE: the driver has no call for this; `raw` and `ratio` are
                                 * not set */
  GpumemSpeed       raw;
  GpumemSpeed       ratio;      /* of ours to raw in the same round */
  char             *wrong;      /* nullable: the first difference after a copy */
} GpumemFigure;

/* An omitted measurement, and the reason. */
typedef struct
{
  const char *path;             /* NULL: all paths */
  gsize       size;             /* 0: all sizes */
  char       *reason;
  gboolean    failed;           /* TRUE for a failure, FALSE for a missing feature */
} GpumemOmission;

struct _GpumemBench
{
  /* Options */
  GpuDevice        *device;
  GpuDevice        *peer;       /* nullable */
  GPtrArray        *paths;      /* of GpumemPath */
  GArray           *sizes;      /* of guint64, ascending */
  double            min_time;   /* seconds for each line of the table */
  guint             n_rounds;   /* minimum for each line of the table */
  char             *plot;       /* nullable: the output file */
  char             *file;       /* nullable: the folder or the name of the files to measure */

  GpumemProgress   *progress;
  GCancellable     *cancellable;
  GpuContext       *context;
  GpuContext       *peer_context;
  GpuStream        *streams[GPUMEM_N_LANES];
  GpumemRaw         raw;
  GpumemLane        lanes[GPUMEM_N_LANES];
  GThread          *helper;     /* runs the second lane */
  GAsyncQueue      *begun;
  GAsyncQueue      *ended;

  gboolean          has_raw;    /* whether the driver has a call for the path in progress */
  GPtrArray        *figures;    /* of GpumemFigure */
  GPtrArray        *omissions;  /* of GpumemOmission */
};

/* The measurements between two places: two devices, or page-locked memory and a device. */
typedef struct
{
  GpuDevice *device;
  GpuDevice *peer;              /* NULL: page-locked memory, and copies on the device */
  GPtrArray *figures;           /* of GpumemFigure */
  GPtrArray *omissions;         /* of GpumemOmission */
} GpumemPart;

/* The measurements between all devices of a back end. */
typedef struct
{
  const char   *backend;
  GPtrArray    *devices;        /* of GpuDevice */
  GPtrArray    *parts;          /* of GpumemPart */
  GArray       *sizes;          /* of guint64, ascending */
  double        min_time;
  guint         n_rounds;
  GCancellable *cancellable;
} GpumemPeers;

/* Returns: (transfer container): the paths in @list, or the default paths if @list is NULL; and the
 * path "file" if @file is TRUE */
GPtrArray   *gpumem_paths_parse           (const char          *list,
                                           gboolean             file,
                                           GError             **error);
char        *gpumem_paths_describe        (void);
GArray      *gpumem_sizes_parse           (const char          *list,
                                           GError             **error);
const char  *gpumem_direction_get_name    (GpumemDirection      direction);

/* Gets the size of the largest copies for which the device and the host have enough free memory. */
gboolean     gpumem_bench_get_limit       (GpuContext          *device_context,
                                           guint64             *limit,
                                           GError             **error);
gboolean     gpumem_bench_open            (GpumemBench         *bench,
                                           GError             **error);
gboolean     gpumem_bench_run             (GpumemBench         *bench);
void         gpumem_bench_clear           (GpumemBench         *bench);
gboolean     gpumem_bench_has_failed      (GpumemBench         *bench);

GpumemPlace *gpumem_lane_get_source       (GpumemBench         *bench,
                                           guint                lane);
GpumemPlace *gpumem_lane_get_destination  (GpumemBench         *bench,
                                           guint                lane);
void         gpumem_lane_clear            (GpumemLane          *lane);

/* Creates the file of @lane and maps it as the near end of copies. */
gboolean     gpumem_file_prepare          (GpumemBench         *bench,
                                           guint                lane,
                                           gsize                size,
                                           GError             **error);
void         gpumem_file_clear            (GpumemLane          *lane);
gboolean     gpumem_file_copy             (GpumemBench         *bench,
                                           guint                lane,
                                           gsize                size,
                                           GError             **error);
gboolean     gpumem_file_copy_raw         (GpumemBench         *bench,
                                           guint                lane,
                                           gsize                size,
                                           GError             **error);

/* Fills the source of @lane with the pattern. */
gboolean     gpumem_pattern_fill          (GpumemBench         *bench,
                                           guint                lane,
                                           gsize                size,
                                           GError             **error);
gboolean     gpumem_pattern_scrub         (GpumemBench         *bench,
                                           guint                lane,
                                           gsize                size,
                                           GError             **error);
/* @wrong: set to the first difference if the destination differs from the pattern */
gboolean     gpumem_pattern_check         (GpumemBench         *bench,
                                           guint                lane,
                                           gsize                size,
                                           char               **wrong,
                                           GError             **error);

gboolean     gpumem_helper_start          (GpumemBench         *bench,
                                           GError             **error);
void         gpumem_helper_stop           (GpumemBench         *bench);
gboolean     gpumem_bench_measure         (GpumemBench         *bench,
                                           GpumemFigure        *figure,
                                           GError             **error);

/* Formats GB/s with three significant digits. */
char        *gpumem_speed_format          (double               speed);
void         gpumem_bandwidth_print       (const GpumemBench   *bench);
#ifdef HAVE_TOUR
void         gpumem_bandwidth_print_json  (const GpumemBench   *bench,
                                           gboolean             csv);
void         gpumem_peers_print_json      (const GpumemPeers   *peers,
                                           gboolean             csv);
#endif

/* Sets up @peers for the devices of the back end of @device. */
void         gpumem_peers_init            (GpumemPeers         *peers,
                                           GpuDevice           *device);
void         gpumem_peers_clear           (GpumemPeers         *peers);
/* Halves the only size until copies between all devices fit in memory. */
gboolean     gpumem_peers_fit_size        (GpumemPeers         *peers,
                                           GError             **error);
/* Returns: %FALSE if the user has interrupted the measurements, or with @error set if they could
 * not begin */
gboolean     gpumem_peers_run             (GpumemPeers         *peers,
                                           GError             **error);
gboolean     gpumem_peers_has_failed      (const GpumemPeers   *peers);
/* Gets the ends of a measurement; page-locked memory is %NULL. */
void         gpumem_part_get_ends         (const GpumemPart    *part,
                                           GpumemDirection      direction,
                                           GpuDevice          **from,
                                           GpuDevice          **to);
void         gpumem_peers_print           (const GpumemPeers   *peers);
gboolean     gpumem_peers_plot            (const GpumemPeers   *peers,
                                           const char          *path,
                                           GError             **error);
gboolean     gpumem_peers_save_report     (const GpumemPeers   *peers,
                                           const char          *path,
                                           GError             **error);

gboolean     gpumem_bandwidth_save_report (const GpumemBench   *bench,
                                           const char          *path,
                                           GError             **error);
gboolean     gpumem_bandwidth_plot        (const GpumemBench   *bench,
                                           GError             **error);

G_END_DECLS
