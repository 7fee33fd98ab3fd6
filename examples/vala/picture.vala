// SPDX-License-Identifier: LGPL-2.1-or-later
//
// picture: blurs a picture and inverts its colours on the device.
//
//     valac --pkg gpumem-1.0 --pkg gdk-pixbuf-2.0 picture.vala
//     ./picture holiday.jpeg blurred.png
//
// Without arguments, the program draws a picture and writes picture.png.

const int RADIUS = 2;

// This OpenCL C is also valid C, so the host back end can compile it.
const string SOURCE = """
__kernel void
blur (__global const uchar *in, __global uchar *out, int width, int height, int stride,
      int channels, int radius)
{
  int x = (int) get_global_id (0);
  int y = (int) get_global_id (1);

  for (int c = 0; c < channels; c++)
    {
      int sum = 0;
      int n = 0;

      for (int v = max (y - radius, 0); v <= min (y + radius, height - 1); v++)
        for (int u = max (x - radius, 0); u <= min (x + radius, width - 1); u++)
          {
            sum += in[v * stride + u * channels + c];
            n++;
          }
      out[y * stride + x * channels + c] = (uchar) (sum / n);
    }
}

__kernel void
invert (__global uchar *pixels, int stride, int channels)
{
  int first = (int) get_global_id (1) * stride + (int) get_global_id (0) * channels;

  for (int c = 0; c < 3; c++)
    pixels[first + c] = (uchar) (255 - pixels[first + c]);
}
""";

Gdk.Pixbuf draw_picture () {
    var pixels = new uint8[320 * 240 * 3];
    for (int y = 0, i = 0; y < 240; y++) {
        for (int x = 0; x < 320; x++) {
            pixels[i++] = (uint8) (x * 255 / 319);
            pixels[i++] = (uint8) (y * 255 / 239);
            pixels[i++] = (uint8) ((x / 16 + y / 16) % 2 * 255);
        }
    }
    return new Gdk.Pixbuf.from_bytes (new Bytes (pixels), Gdk.Colorspace.RGB, false, 8, 320, 240,
                                      320 * 3);
}

// Processes the picture on the device. Returns a picture of the same size.
Gdk.Pixbuf process (Gpu.Context context, Gdk.Pixbuf picture) throws Error {
    var pixels = picture.read_pixel_bytes ();
    var program = new Gpu.Program.from_source (context, SOURCE);
    var source = new Gpu.Buffer.from_bytes (context, Gpu.MemoryFlags.NONE, pixels);
    var target = new Gpu.Buffer (context, Gpu.MemoryFlags.NONE, pixels.length);
    Gpu.Extent grid = { picture.width, picture.height, 1 };

    var stream = context.get_default_stream ();
    stream.launch (program.get_kernel ("blur"), grid, null, source, target, picture.width,
                   picture.height, picture.rowstride, picture.n_channels, RADIUS);
    stream.launch (program.get_kernel ("invert"), grid, null, target, picture.rowstride,
                   picture.n_channels);

    return new Gdk.Pixbuf.from_bytes (target.read (), Gdk.Colorspace.RGB, picture.has_alpha, 8,
                                      picture.width, picture.height, picture.rowstride);
}

// Verifies about 10,000 pixels on the CPU.
void check (Gdk.Pixbuf picture, Gdk.Pixbuf result) throws Error {
    var before = picture.read_pixel_bytes ();
    var after = result.read_pixel_bytes ();
    int width = picture.width;
    int height = picture.height;
    int step = int.max (width * height / 10000, 1);

    for (int i = 0; i < width * height; i += step) {
        int x = i % width;
        int y = i / width;
        int sum = 0;
        int n = 0;

        for (int v = int.max (y - RADIUS, 0); v <= int.min (y + RADIUS, height - 1); v++) {
            for (int u = int.max (x - RADIUS, 0); u <= int.min (x + RADIUS, width - 1); u++) {
                sum += before[v * picture.rowstride + u * picture.n_channels];
                n++;
            }
        }
        int red = after[y * result.rowstride + x * result.n_channels];
        if (red != 255 - sum / n)
            throw new Gpu.Error.FAILED (@"red at $x, $y is $red, not $(255 - sum / n)");
    }
}

int main (string[] args) {
    var target = args.length > 2 ? args[2] : "picture.png";

    try {
        var picture = args.length > 1 ? new Gdk.Pixbuf.from_file (args[1]) : draw_picture ();
        var context = new Gpu.Context.default ();
        var result = process (context, picture);
        check (picture, result);
        result.save (target, "png");
        print ("blurred and inverted %d x %d pixels on %s: see %s\n", result.width, result.height,
               context.get_device ().get_id (), target);
        return 0;
    } catch (Error e) {
        printerr ("picture: %s\n", e.message);
        return 1;
    }
}
