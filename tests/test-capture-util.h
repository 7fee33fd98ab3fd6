/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Captures of streams into graphs, by functions of the driver. */
#pragma once

#include "cuda-driver/cuda-driver.h"
#include "gpumem/cuda/driver/gpu-cuda-types.h"
#include "test-util.h"

G_BEGIN_DECLS

/* Skips the test, with a reason, if no stream of the device can be captured. */
static inline gboolean
test_can_capture (TestFixture *fixture)
{
  if (strcmp (gpu_device_get_backend (fixture->device), "cuda") == 0
      && gpumem_cuda_driver_symbol ("cuStreamBeginCapture_v2") != NULL)
    return TRUE;

  g_test_skip ("the driver does not capture streams");
  return FALSE;
}

static inline CUstream
test_get_cuda_stream (GpuStream *stream)
{
  return (CUstream) (gsize) gpu_stream_get_native_handle (stream);
}

static inline void
test_capture_begin (CUstream stream, CUstreamCaptureMode mode)
{
  CUresult (*begin) (CUstream stream, CUstreamCaptureMode mode)
    = gpumem_cuda_driver_symbol ("cuStreamBeginCapture_v2");

  g_assert_cmpuint (begin (stream, mode), ==, 0);
}

static inline gboolean
test_is_capturing (CUstream stream)
{
  CUresult (*is_capturing) (CUstream stream, CUstreamCaptureStatus *status)
    = gpumem_cuda_driver_symbol ("cuStreamIsCapturing");
  CUstreamCaptureStatus status;

  g_assert_cmpuint (is_capturing (stream, &status), ==, 0);
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* Asserts that the capture is intact. */
static inline CUgraph
test_capture_end (CUstream stream)
{
  CUresult (*end) (CUstream stream, CUgraph *graph)
    = gpumem_cuda_driver_symbol ("cuStreamEndCapture");
  CUgraph graph = NULL;

  g_assert_cmpuint (end (stream, &graph), ==, 0);
  g_assert_nonnull (graph);
  return graph;
}

static inline void
test_graph_destroy (CUgraph graph)
{
  CUresult (*destroy) (CUgraph graph) = gpumem_cuda_driver_symbol ("cuGraphDestroy");

  g_assert_cmpuint (destroy (graph), ==, 0);
}

static inline CUgraphExec
test_graph_instantiate (GpuContext *context, CUgraph graph)
{
  CUresult (*instantiate) (CUgraphExec *exec, CUgraph graph, unsigned long long flags)
    = gpumem_cuda_driver_symbol ("cuGraphInstantiateWithFlags");
  CUgraphExec exec = NULL;

  g_assert_true (gpu_context_push_current (context, NULL));
  g_assert_cmpuint (instantiate (&exec, graph, 0), ==, 0);
  g_assert_true (gpu_context_pop_current (context, NULL));
  return exec;
}

/* Launches the graph on the stream, and waits, without the library. */
static inline void
test_graph_run (GpuContext *context, CUgraphExec exec, CUstream stream)
{
  CUresult (*launch) (CUgraphExec exec, CUstream stream)
    = gpumem_cuda_driver_symbol ("cuGraphLaunch");
  CUresult (*synchronize) (CUstream stream) = gpumem_cuda_driver_symbol ("cuStreamSynchronize");

  g_assert_true (gpu_context_push_current (context, NULL));
  g_assert_cmpuint (launch (exec, stream), ==, 0);
  g_assert_cmpuint (synchronize (stream), ==, 0);
  g_assert_true (gpu_context_pop_current (context, NULL));
}

static inline void
test_graph_exec_destroy (CUgraphExec exec)
{
  CUresult (*destroy) (CUgraphExec exec) = gpumem_cuda_driver_symbol ("cuGraphExecDestroy");

  g_assert_cmpuint (destroy (exec), ==, 0);
}

G_END_DECLS
