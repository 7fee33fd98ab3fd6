// SPDX-License-Identifier: LGPL-2.1-or-later
//
// resize: halves a picture on the device, through an image and a sampler.
//
//     valac --pkg gpumem-1.0 --pkg gdk-pixbuf-2.0 -X -lm resize.vala
//     ./resize holiday.jpeg small.png
//
// Without arguments, the program draws a picture and writes resize.png.

// Samplers in hardware interpolate with weights of about eight bits, so results may differ from
// those of the CPU.
const int TOLERANCE = 2;

// A kernel in the portable dialect, which OpenCL, CUDA and the host back end can build.
const string SOURCE = """
__kernel void
resize (__read_only image2d_t in, sampler_t between, __write_only image2d_t out)
{
  int x = (int) get_global_id (0);
  int y = (int) get_global_id (1);
  float u = ((float) x + 0.5f) / (float) get_image_width (out);
  float v = ((float) y + 0.5f) / (float) get_image_height (out);

  write_imagef (out, (int2) (x, y), read_imagef (in, between, (float2) (u, v)));
}
""";

Gdk.Pixbuf to_pixbuf (Bytes pixels, int width, int height) {
    return new Gdk.Pixbuf.from_bytes (pixels, Gdk.Colorspace.RGB, true, 8, width, height,
                                      width * 4);
}

Gdk.Pixbuf draw_picture () {
    var pixels = new uint8[321 * 240 * 4];
    for (int y = 0, i = 0; y < 240; y++) {
        for (int x = 0; x < 321; x++) {
            pixels[i++] = (uint8) (x * 255 / 320);
            pixels[i++] = (uint8) (y * 255 / 239);
            pixels[i++] = (uint8) ((x / 16 + y / 16) % 2 * 255);
            pixels[i++] = 255;
        }
    }
    return to_pixbuf (new Bytes (pixels), 321, 240);
}

Gdk.Pixbuf process (Gpu.Context context, Gdk.Pixbuf picture) throws Error {
    Gpu.ImageFormat format = { Gpu.ChannelOrder.RGBA, Gpu.ChannelType.UNORM8 };
    Gpu.Extent size = { picture.width, picture.height, 1 };
    Gpu.Extent half = { int.max (picture.width / 2, 1), int.max (picture.height / 2, 1), 1 };
    var program = new Gpu.Program.from_source (context, SOURCE);
    var between = new Gpu.Sampler (context, true, Gpu.AddressMode.CLAMP_TO_EDGE,
                                   Gpu.FilterMode.LINEAR);
    // Rows of a pixbuf may be padded: pass the row pitch.
    var source = new Gpu.Image.from_bytes (context, Gpu.MemoryFlags.READ_ONLY, format,
                                           Gpu.ImageType.IMAGE_2D, size,
                                           picture.read_pixel_bytes (), picture.rowstride, 0);
    var target = new Gpu.Image (context, Gpu.MemoryFlags.WRITE_ONLY, format,
                                Gpu.ImageType.IMAGE_2D, half);

    context.get_default_stream ().launch (program.get_kernel ("resize"), half, null, source,
                                          between, target);
    return to_pixbuf (target.read (), (int) half.width, (int) half.height);
}

double red (Gdk.Pixbuf picture, Bytes pixels, int x, int y) {
    x = x.clamp (0, picture.width - 1);
    y = y.clamp (0, picture.height - 1);
    return pixels[y * picture.rowstride + x * 4];
}

// Verifies every pixel on the CPU.
void check (Gdk.Pixbuf picture, Gdk.Pixbuf result) throws Error {
    var before = picture.read_pixel_bytes ();
    var after = result.read_pixel_bytes ();

    for (int y = 0; y < result.height; y++) {
        for (int x = 0; x < result.width; x++) {
            double u = (x + 0.5) * picture.width / result.width - 0.5;
            double v = (y + 0.5) * picture.height / result.height - 0.5;
            int left = (int) Math.floor (u);
            int top = (int) Math.floor (v);
            double across = u - left;
            double down = v - top;
            double expected = (1 - down) * ((1 - across) * red (picture, before, left, top)
                                            + across * red (picture, before, left + 1, top))
                              + down * ((1 - across) * red (picture, before, left, top + 1)
                                        + across * red (picture, before, left + 1, top + 1));
            int got = after[y * result.rowstride + x * 4];
            if (Math.fabs (got - expected) > TOLERANCE)
                throw new Gpu.Error.FAILED (@"red at $x, $y is $got, not $expected");
        }
    }
}

int main (string[] args) {
    var target = args.length > 2 ? args[2] : "resize.png";

    try {
        var picture = args.length > 1
            ? new Gdk.Pixbuf.from_file (args[1]).add_alpha (false, 0, 0, 0) : draw_picture ();
        var context = new Gpu.Context.default ();
        if ((context.get_device ().get_capabilities () & Gpu.Capabilities.IMAGES) == 0) {
            print ("the device has no images\n");
            return 77;
        }
        var result = process (context, picture);
        check (picture, result);
        result.save (target, "png");
        print ("%d x %d pixels from %d x %d on %s: see %s\n", result.width, result.height,
               picture.width, picture.height, context.get_device ().get_id (), target);
        return 0;
    } catch (Error e) {
        printerr ("resize: %s\n", e.message);
        return 1;
    }
}
