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

  GPtrArray        *figures;    /* of GpumemFigure */
  GPtrArray        *omissions;  /* of GpumemOmission */
};

/* Returns: (transfer container): the paths in @list, or the default paths if @list is NULL; and the
 * path "file" if @file is TRUE */
GPtrArray   *gpumem_paths_parse           (const char          *list,
                                           gboolean             file,
                                           GError             **error);
char        *gpumem_paths_describe        (void);
GArray      *gpumem_sizes_parse           (const char          *list,
                                           GError             **error);
const char  *gpumem_direction_get_name    (GpumemDirection      direction);

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

void         gpumem_bandwidth_print       (const GpumemBench   *bench);
#ifdef HAVE_TOUR
void         gpumem_bandwidth_print_json  (const GpumemBench   *bench,
                                           gboolean             csv);
#endif

gboolean     gpumem_bandwidth_save_report (const GpumemBench   *bench,
                                           const char          *path,
                                           GError             **error);
gboolean     gpumem_bandwidth_plot        (const GpumemBench   *bench,
                                           GError             **error);

G_END_DECLS
