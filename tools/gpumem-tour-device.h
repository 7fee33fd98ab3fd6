/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "tools/gpumem-tour.h"

G_BEGIN_DECLS

/* The state of the tour on one device. */
typedef struct
{
  GpumemTour    *tour;
  GpuContext    *context;
  GpuStream     *first;
  GpuStream     *second;
  GpuBuffer     *input;
  GpuBuffer     *scratch;
  GpuBuffer     *blurred;
  GpuBuffer     *edges;
  GpuBuffer     *weights;
  GpuBuffer     *before;      /* histograms */
  GpuBuffer     *after;
  GpuKernel     *blur_kernel;
  GpuKernel     *edges_kernel;
  GpuKernel     *histogram_kernel;

  /* NULL on a device without images */
  GpuImage      *image;
  GpuImage      *image_scratch;
  GpuImage      *image_blurred;
  GpuImage      *image_smooth;
  GpuImage      *image_resized;
  GpuSampler    *edge;
  GpuSampler    *between;
  GpuKernel     *blur_image_kernel;
  GpuKernel     *resize_kernel;

  GBytes        *blurred_result;
  GBytes        *edges_result;
  GBytes        *before_result;
  GBytes        *after_result;
  GBytes        *image_result;    /* NULL without images */
  GBytes        *resized_result;
  GpumemResult  *result;

  /* Results of the current step */
  guint64        moved;
  char          *note;
} GpumemWork;

gboolean gpumem_work_allocate        (GpumemWork  *work,
                                      GError     **error);
gboolean gpumem_work_upload          (GpumemWork  *work,
                                      GError     **error);
/* Builds the program whose source is the GResource @path. */
GpuProgram *
         gpumem_work_load            (GpumemWork  *work,
                                      const char  *path,
                                      GError     **error);
/* Gets a kernel, and sets the types of its arguments, because not every driver reports them. */
gboolean gpumem_work_get_kernel      (GpuProgram  *program,
                                      const char  *name,
                                      const char  *types,
                                      GpuKernel  **kernel,
                                      GError     **error);
gboolean gpumem_work_build           (GpumemWork  *work,
                                      GError     **error);
gboolean gpumem_work_blur            (GpumemWork  *work,
                                      GError     **error);
gboolean gpumem_work_find_edges      (GpumemWork  *work,
                                      GError     **error);
gboolean gpumem_work_count           (GpumemWork  *work,
                                      GError     **error);
gboolean gpumem_work_make_images     (GpumemWork  *work,
                                      GError     **error);
gboolean gpumem_work_blur_image      (GpumemWork  *work,
                                      GError     **error);
gboolean gpumem_work_resize          (GpumemWork  *work,
                                      GError     **error);
gboolean gpumem_work_read_images     (GpumemWork  *work,
                                      GError     **error);
void     gpumem_work_clear_images    (GpumemWork  *work);
gboolean gpumem_work_map             (GpumemWork  *work,
                                      GError     **error);
gboolean gpumem_work_read_back       (GpumemWork  *work,
                                      GError     **error);
gboolean gpumem_work_check           (GpumemWork  *work,
                                      GError     **error);
gboolean gpumem_work_save            (GpumemWork  *work,
                                      GError     **error);
void     gpumem_work_clear           (GpumemWork  *work);

G_END_DECLS
