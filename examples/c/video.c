/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* video: takes frames from one GStreamer pipeline, inverts their colours on the device and passes
 * them to another pipeline.
 *
 *   cc video.c -o video $(pkg-config --cflags --libs gpumem-1.0 gstreamer-app-1.0)
 */
#include <gpumem/gpumem.h>
#include <gst/app/app.h>

#define CAPS "video/x-raw,format=RGBA,width=160,height=120,framerate=30/1"
#define SIZE ((gsize) 160 * 120 * 4)

static const char source[] =
  "__kernel void\n"
  "invert (__global uchar *pixels)\n"
  "{\n"
  "  size_t first = 4 * get_global_id (0);\n"
  "\n"
  "  for (size_t i = first; i < first + 3; i++)\n"
  "    pixels[i] = (uchar) (255 - pixels[i]);\n"
  "}\n";

typedef struct
{
  GstBuffer  *buffer;
  GstMapInfo  map;
} Frame;

/* Called when the device has copied the frame, possibly in another thread */
static void
frame_free (gpointer data)
{
  Frame *frame = data;

  gst_buffer_unmap (frame->buffer, &frame->map);
  gst_buffer_unref (frame->buffer);
  g_free (frame);
}

/* Returns the mapped frame itself, not a copy. */
static GBytes *
map_frame (GstBuffer *buffer)
{
  Frame *frame = g_new0 (Frame, 1);

  frame->buffer = gst_buffer_ref (buffer);
  g_assert_true (gst_buffer_map (buffer, &frame->map, GST_MAP_READ));
  g_assert_cmpuint (frame->map.size, ==, SIZE);
  return g_bytes_new_with_free_func (frame->map.data, SIZE, frame_free, frame);
}

/* Waits once per frame, for the pixels. */
static GBytes *
invert (GpuStream *stream, GpuKernel *kernel, GpuBuffer *memory, GBytes *pixels, GError **error)
{
  const GpuExtent grid = { SIZE / 4, 1, 1 };

  if (!gpu_stream_write (stream, GPU_MEMORY (memory), 0, pixels, error) ||
      !gpu_stream_launch (stream, kernel, &grid, NULL, error, memory))
    return NULL;
  return gpu_buffer_read_bytes (memory, stream, 0, SIZE, NULL, error);
}

/* Passes a frame on and verifies what the other end of the pipeline receives. */
static void
play (GstElement *player, GstBuffer *in, GBytes *before, GBytes *after)
{
  g_autoptr (GstElement) input = gst_bin_get_by_name (GST_BIN (player), "input");
  g_autoptr (GstElement) output = gst_bin_get_by_name (GST_BIN (player), "output");
  g_autoptr (GstSample) sample = NULL;
  g_autoptr (GBytes) shown = NULL;
  GstBuffer *out = gst_buffer_new_wrapped_bytes (after);
  const guint8 *a = g_bytes_get_data (before, NULL);
  const guint8 *b;

  gst_buffer_copy_into (out, in, GST_BUFFER_COPY_TIMESTAMPS, 0, -1);
  gst_app_src_push_buffer (GST_APP_SRC (input), out);
  sample = gst_app_sink_try_pull_sample (GST_APP_SINK (output), 10 * GST_SECOND);
  g_assert_nonnull (sample);
  shown = map_frame (gst_sample_get_buffer (sample));
  b = g_bytes_get_data (shown, NULL);
  for (gsize i = 0; i < SIZE; i++)
    g_assert_cmpuint (b[i], ==, i % 4 < 3 ? 255 - a[i] : a[i]);
}

static guint
process (GpuContext *context, GstElement *camera, GstElement *player, GError **error)
{
  g_autoptr (GstElement) frames = gst_bin_get_by_name (GST_BIN (camera), "frames");
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuProgram) program = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) memory = NULL;
  GstSample *sample;
  guint n = 0;

  if ((stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error)) == NULL ||
      (program = gpu_program_new_from_source (context, source, NULL, error)) == NULL ||
      (kernel = gpu_program_get_kernel (program, "invert", error)) == NULL ||
      (memory = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, SIZE, error)) == NULL)
    return 0;

  /* NULL at the end of the video */
  for (; (sample = gst_app_sink_pull_sample (GST_APP_SINK (frames))) != NULL; n++)
    {
      g_autoptr (GBytes) before = map_frame (gst_sample_get_buffer (sample));
      g_autoptr (GBytes) after = invert (stream, kernel, memory, before, error);

      if (after != NULL)
        play (player, gst_sample_get_buffer (sample), before, after);
      gst_sample_unref (sample);
      if (after == NULL)
        return 0;
    }
  return n;
}

int
main (int argc, char **argv)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) context = NULL;
  g_autoptr (GstElement) camera = NULL;
  g_autoptr (GstElement) player = NULL;
  guint n = 0;

  gst_init (&argc, &argv);
  camera = gst_parse_launch ("videotestsrc num-buffers=10 ! " CAPS " ! appsink name=frames "
                             "sync=false", &error);
  if (error == NULL)
    player = gst_parse_launch ("appsrc name=input format=time caps=" CAPS " ! appsink name=output "
                               "sync=false", &error);
  if (g_error_matches (error, GST_PARSE_ERROR, GST_PARSE_ERROR_NO_SUCH_ELEMENT))
    {
      g_print ("%s\n", error->message);
      return 77;
    }
  if (error == NULL && (context = gpu_context_new_default (&error)) != NULL)
    {
      gst_element_set_state (camera, GST_STATE_PLAYING);
      gst_element_set_state (player, GST_STATE_PLAYING);
      n = process (context, camera, player, &error);
      gst_element_set_state (camera, GST_STATE_NULL);
      gst_element_set_state (player, GST_STATE_NULL);
    }
  if (n != 10)
    {
      g_printerr ("video: %s\n", error != NULL ? error->message : "frames are missing");
      return 1;
    }

  g_print ("inverted %u frames on %s\n", n,
           gpu_device_get_id (gpu_context_get_device (context)));
  return 0;
}
