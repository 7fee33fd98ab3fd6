/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The internals of the OpenCL layer. A wrapper (layer-main.c) has four steps:
 *
 *   layer_enter     counts the call and decides whether it must fail        (layer-fault.c)
 *   layer_use       checks the handles of the call                          (layer-track.c)
 *   layer_may_run   returns whether to call the driver
 *   layer_leave     returns the code for the caller; layer_track records new handles
 */
#ifndef LAYER_H
#define LAYER_H

#include <CL/cl_layer.h>
#include <glib.h>
#include <stdio.h>

G_BEGIN_DECLS

typedef enum
{
#define LAYER_CALL(name) LAYER_##name,
#include "layer-calls.h"
  LAYER_N_CALLS
} LayerFunction;

typedef enum
{
  LAYER_CONTEXT,
  LAYER_QUEUE,
  LAYER_MEM,
  LAYER_EVENT,
  LAYER_PROGRAM,
  LAYER_KERNEL,
  LAYER_SAMPLER,
  LAYER_DEVICE,
  LAYER_SVM,
  LAYER_N_KINDS
} LayerKind;

typedef struct
{
  LayerFunction function;
  guint number;             /* index among the calls that can fail, from 1; for a call that
                             * cannot fail, the index of the last call that can */
  gboolean can_fail;
  int fault;                /* the injected code, or CL_SUCCESS */
  gboolean performs;        /* the driver runs the call before the fault is returned */
  int misuse;               /* the code for a released handle, or CL_SUCCESS */
} LayerCall;

extern cl_icd_dispatch layer_target;
extern const char *const layer_names[LAYER_N_CALLS];

/* layer-fault.c */
LayerCall layer_enter           (LayerFunction function);
gboolean  layer_may_run         (const LayerCall *call);
int       layer_leave           (const LayerCall *call, int code);
void      layer_write_counts    (const char *path);
void      layer_report_fault    (FILE *file);
/* Returns whether a fault was injected since the start. */
gboolean  layer_has_failed      (void);

/* layer-signal.c */
void      layer_restore_signals (void);

/* layer-main.c */
/* Answers a query of the program with @needed bytes @from, as the functions clGet...Info() do. */
cl_int    layer_answer          (const void *from, size_t needed, size_t size, void *value,
                                 size_t *size_ret);

/* layer-view.c */
void      layer_add_views       (void);

/* layer-vendor.c */
void      layer_add_vendor      (void);

/* layer-address.c */
void      layer_add_addresses   (void);
gpointer  layer_find_address    (const char *name);

/* layer-external.c */
void      layer_add_external    (void);
gpointer  layer_find_external   (const char *name);
/* Called after the checks of layer-track.c. */
void      layer_use_external    (LayerCall *call, LayerKind kind, gconstpointer handle);

/* layer-track.c */
void      layer_report_misuse   (LayerCall *call, int code, const char *format, ...)
                                 G_GNUC_PRINTF (3, 4);
void      layer_track           (const LayerCall *call, LayerKind kind, gpointer handle);
void      layer_track_list      (const LayerCall *call, LayerKind kind, guint n, gpointer handles);
void      layer_use             (LayerCall *call, LayerKind kind, gconstpointer handle);
void      layer_use_list        (LayerCall *call, LayerKind kind, guint n, gconstpointer handles);
void      layer_retain          (LayerCall *call, LayerKind kind, gpointer handle);
void      layer_release         (LayerCall *call, LayerKind kind, gpointer handle);
void      layer_unrelease       (LayerKind kind, gpointer handle);
void      layer_map             (gpointer mem);
void      layer_unmap           (LayerCall *call, gpointer mem);
void      layer_use_arg         (LayerCall *call, gsize size, gconstpointer value);
void      layer_note_arg        (gpointer kernel, guint index, gsize size, gconstpointer value);
void      layer_copy_args       (gpointer from, gpointer to);
void      layer_use_args        (LayerCall *call, gconstpointer kernel);
void      layer_end_work        (void);
guint     layer_wait_for_none   (guint milliseconds);
void      layer_report          (FILE *file, gboolean with_misuse);

G_END_DECLS

#endif
