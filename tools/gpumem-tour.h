/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gpumem/gpumem.h>

#include "tools/gpumem-picture.h"
#include "tools/gpumem-progress.h"

G_BEGIN_DECLS

#define GPUMEM_BLUR_RADIUS    12
#define GPUMEM_N_WEIGHTS      (2 * GPUMEM_BLUR_RADIUS + 1)
#define GPUMEM_N_COUNTS       (4 * 256)   /* of red, green, blue and luminance */

/* The maximum difference between a byte of an interpolated picture and the expected byte. Samplers
 * in hardware use weights of about eight bits, so their results are not exact. */
#define GPUMEM_RESIZE_TOLERANCE 2

/* The expected results of the kernels, computed in plain C. */
typedef struct
{
  guint32   weights[GPUMEM_N_WEIGHTS];
  guint32  *blurred;
  guint32  *edges;
  guint32   before[GPUMEM_N_COUNTS];    /* the histogram of the picture */
  guint32   after[GPUMEM_N_COUNTS];     /* the histogram of the blurred picture */
  guint     resized_width;
  guint     resized_height;
  guint32  *resized;
  gint64    nanoseconds;
} GpumemReference;

/* One run of the command, for all devices. */
typedef struct
{
  const char       *output;             /* folder */
  const char       *report;             /* nullable: a file */
  GpumemPicture    *picture;
  char             *picture_name;       /* printed in the report */
  GpumemReference  *reference;
  GpumemProgress   *progress;
  GCancellable     *cancellable;
  gboolean          json;               /* print the report as JSON or CSV at the end */
  gboolean          csv;
} GpumemTour;

typedef enum
{
  GPUMEM_OUTCOME_RIGHT,
  GPUMEM_OUTCOME_WRONG,                 /* a result differs from the reference */
  GPUMEM_OUTCOME_FAILED,
  GPUMEM_OUTCOME_SKIPPED
} GpumemOutcome;

typedef struct
{
  const char *name;
  guint64     moved;                    /* bytes, 0 if the step moves no data */
  gint64      nanoseconds;              /* the best of the runs */
  guint64     held;                     /* bytes of device memory after the step */
  char       *note;                     /* nullable */
} GpumemStep;

typedef struct
{
  GpuDevice     *device;
  GpumemOutcome  outcome;
  char          *message;               /* the reason for any other outcome than RIGHT; nullable */
  GPtrArray     *steps;                 /* of GpumemStep */
  GPtrArray     *pictures;              /* paths */
  guint64        hazard_waits;
  guint64        held_afterwards;       /* bytes after all references were released; must be 0 */
} GpumemResult;

GpumemReference *gpumem_reference_new         (const GpumemPicture  *picture,
                                               GpumemProgress       *progress,
                                               GCancellable         *cancellable,
                                               GError              **error);
void             gpumem_reference_free        (GpumemReference      *reference);

guint            gpumem_tour_n_steps          (void);
GpumemResult    *gpumem_tour_run              (GpumemTour           *tour,
                                               GpuDevice            *device);
void             gpumem_result_free           (GpumemResult         *result);

void             gpumem_report_begin          (GpumemTour           *tour);
void             gpumem_report_device         (GpumemTour           *tour,
                                               GpuDevice            *device);
void             gpumem_report_step           (GpumemTour           *tour,
                                               const GpumemStep     *step);
void             gpumem_report_result         (GpumemTour           *tour,
                                               const GpumemResult   *result);
void             gpumem_report_end            (GpumemTour           *tour,
                                               GPtrArray            *results);

gboolean         gpumem_report_save           (GpumemTour           *tour,
                                               GPtrArray            *results,
                                               const char           *path,
                                               GError              **error);

gint64           gpumem_tour_clock            (void);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpumemReference, gpumem_reference_free)

G_END_DECLS
