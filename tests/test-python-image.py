# SPDX-License-Identifier: LGPL-2.1-or-later
"""Images and samplers from Python, over every device that GPUMEM_TEST chooses and that has them."""

import random
import struct
import sys

from python_util import equal, main, need, need_numpy, np, raises
from gi.repository import GLib, Gpu

WIDTH, HEIGHT, DEPTH = 13, 7, 3

SOURCE = """
__kernel void
mirror (__read_only image2d_t in, sampler_t by, __write_only image2d_t out)
{
  int x = (int) get_global_id (0);
  int y = (int) get_global_id (1);

  write_imagef (out, (int2) (x, y), read_imagef (in, by, (int2) (get_image_width (in) - 1 - x, y)));
}

__kernel void
between (__read_only image2d_t in, sampler_t by, __global float *out, float u, float v)
{
  float4 texel = read_imagef (in, by, (float2) (u, v));

  out[0] = texel.x;
  out[1] = texel.y;
  out[2] = texel.z;
  out[3] = texel.w;
}
"""


def data(size):
    return random.Random(size).randbytes(size)


def image(fixture, extent=(WIDTH, HEIGHT), format="rgba-unorm8", **options):
    need(fixture, Gpu.Capabilities.IMAGES)
    return Gpu.Image(fixture.context, format, extent, **options)


def program(fixture):
    need(fixture, Gpu.Capabilities.IMAGES)
    need(fixture, Gpu.Capabilities.SOURCE)
    return Gpu.Program(fixture.context, SOURCE)


# --- without a device ----------------------------------------------------------------------------

def plain_formats():
    format = Gpu.ImageFormat("rgba-unorm8")
    equal(format, Gpu.ImageFormat(Gpu.ChannelOrder.RGBA, Gpu.ChannelType.UNORM8))
    equal(str(format), "rgba-unorm8")
    equal(repr(format), "Gpu.ImageFormat('rgba-unorm8')")
    equal((format.n_channels, format.channel_size, format.texel_size), (4, 1, 4))
    equal(len({format, Gpu.ImageFormat("rgba-unorm8")}), 1)
    assert format != Gpu.ImageFormat("bgra-unorm8") and format != 3
    for wrong in ("rgba", "rgba-unorm9", "", "x-float32"):
        with raises(Gpu.Error.INVALID_ARGUMENT):
            Gpu.ImageFormat(wrong)


def plain_colors():
    equal(tuple(Gpu.Color(0.5, 1)), (0.5, 1.0, 0.0, 1.0))
    equal(repr(Gpu.Color(0.25)), "Gpu.Color(0.25, 0.0, 0.0, 1.0)")


# --- images --------------------------------------------------------------------------------------

def test_properties(fixture):
    """M18, M24: what an image tells of itself."""
    one = image(fixture, (WIDTH, HEIGHT, DEPTH), "r-float32")
    equal(one.extent, (WIDTH, HEIGHT, DEPTH))
    equal((one.width, one.height, one.depth, one.n_levels), (WIDTH, HEIGHT, DEPTH, 1))
    equal((one.format, one.texel_size), (Gpu.ImageFormat("r-float32"), 4))
    equal(one.image_type, Gpu.ImageType.IMAGE_3D)
    equal(one.size, WIDTH * HEIGHT * DEPTH * 4)
    equal(repr(one), f"<Gpu.Image of {WIDTH} x {HEIGHT} x {DEPTH} texels r-float32>")
    row = image(fixture, WIDTH, "rgba-uint8")
    equal((row.image_type, row.extent), (Gpu.ImageType.IMAGE_1D, (WIDTH, 1, 1)))
    layers = image(fixture, (WIDTH, HEIGHT, DEPTH), image_type=Gpu.ImageType.IMAGE_2D_ARRAY)
    equal(layers.n_layers, DEPTH)


def test_refuses(fixture):
    """Errors name the values."""
    need(fixture, Gpu.Capabilities.IMAGES)
    with raises(Gpu.Error.INVALID_ARGUMENT, "0 x 7"):
        image(fixture, (0, HEIGHT))
    with raises(Gpu.Error.INVALID_ARGUMENT, "rgba-nothing"):
        image(fixture, format="rgba-nothing")
    with raises(Gpu.Error.INVALID_ARGUMENT):
        Gpu.Image.new_from_data(fixture.context, "rgba-unorm8", (WIDTH, HEIGHT), b"short")
    one = image(fixture)
    with raises(Gpu.Error.INVALID_ARGUMENT):
        one.write(b"short")
    with raises(Gpu.Error.INVALID_ARGUMENT, "13"):
        one.read((1, 0), (WIDTH, HEIGHT))
    with raises(ValueError, "components"):
        one.fill((1, 2, 3, 4, 5))


def test_data(fixture):
    """M19: all of an image, and regions of it."""
    whole = data(WIDTH * HEIGHT * 4)
    one = image(fixture)
    one.write(whole)
    equal(one.read(), whole)
    part = data(3 * 2 * 4)
    one.write(part, (5, 4), (3, 2))
    equal(one.read((5, 4), (3, 2)), part)
    expected = bytearray(whole)
    for y in range(2):
        at = ((4 + y) * WIDTH + 5) * 4
        expected[at:at + 12] = part[y * 12:y * 12 + 12]
    equal(one.read(), bytes(expected))
    one.fill((1, 0, 1), (0, 6))
    equal(one.read((0, 6)), bytes((255, 0, 255, 255)) * WIDTH)
    equal(one.read((0, 0), (WIDTH, 6)), bytes(expected[:WIDTH * 6 * 4]))


def test_pitches(fixture):
    """Rows with gaps on the side of the host."""
    rows = data(64 * HEIGHT)
    need(fixture, Gpu.Capabilities.IMAGES)
    one = Gpu.Image.new_from_data(fixture.context, "rgba-unorm8", (WIDTH, HEIGHT), rows,
                                  row_pitch=64)
    tight = b"".join(rows[64 * y:64 * y + WIDTH * 4] for y in range(HEIGHT))
    equal(one.read(), tight)
    again = image(fixture)
    again.write(rows, row_pitch=64)
    equal(again.read(), tight)


def test_numpy(fixture):
    """D44: arrays, with channels in the last dimension."""
    need_numpy()
    need(fixture, Gpu.Capabilities.IMAGES)
    pixels = np.frombuffer(data(WIDTH * HEIGHT * 4), np.uint8).reshape(HEIGHT, WIDTH, 4)
    one = Gpu.Image.from_array(fixture.context, pixels, 4, normalized=True)
    equal((one.extent, str(one.format)), ((WIDTH, HEIGHT, 1), "rgba-unorm8"))
    assert np.array_equal(one.to_numpy(), pixels)
    assert np.array_equal(one.to_numpy((2, 3), (5, 2)), pixels[3:5, 2:7])
    cube = np.arange(DEPTH * HEIGHT * WIDTH, dtype=np.float32).reshape(DEPTH, HEIGHT, WIDTH)
    deep = Gpu.Image.from_array(fixture.context, cube)
    equal((deep.extent, str(deep.format)), ((WIDTH, HEIGHT, DEPTH), "r-float32"))
    assert np.array_equal(deep.to_numpy(), cube)
    with raises(ValueError, "channels"):
        Gpu.Image.from_array(fixture.context, pixels, 3)


def test_mappings(fixture):
    """M21: a region in the memory of the host, by its pitches."""
    need(fixture, Gpu.Capabilities.MAP)
    whole = data(WIDTH * HEIGHT * 4)
    one = image(fixture)
    one.write(whole)
    with one.map(Gpu.MapFlags.READ | Gpu.MapFlags.WRITE, (2, 3), (4, 2)) as mapping:
        pitch = mapping.row_pitch
        for y in range(2):
            at = ((3 + y) * WIDTH + 2) * 4
            equal(mapping[pitch * y:pitch * y + 16], whole[at:at + 16])
        mapping[pitch:pitch + 4] = b"\1\2\3\4"
    equal(one.read((2, 4), (1, 1)), b"\1\2\3\4")
    equal(one.read((3, 4), (1, 1)), whole[(4 * WIDTH + 3) * 4:][:4])


def test_copies(fixture):
    """M20, D42: between images, and between images and buffers."""
    whole = data(WIDTH * HEIGHT * 4)
    first, second = image(fixture), image(fixture)
    first.write(whole)
    buffer = fixture.buffer(bytes(1000))
    stream = fixture.stream
    stream.copy_region(second, first, (WIDTH, HEIGHT))
    equal(second.read(), whole)
    stream.copy_region(buffer, first, (4, 2), (100, 0, 0, 32), (1, 5))
    for y in range(2):
        at = ((5 + y) * WIDTH + 1) * 4
        equal(buffer.read(100 + 32 * y, 16), whole[at:at + 16])
    stream.copy_region(second, buffer, (4, 2), (0, 0), (100, 0, 0, 32))
    equal(second.read((0, 0), (4, 1)), whole[(5 * WIDTH + 1) * 4:][:16])


def test_over_buffer(fixture):
    """M22: one memory, seen as a buffer and as an image."""
    need(fixture, Gpu.Capabilities.IMAGES)
    content = data(64 * 4)
    buffer = fixture.buffer(content)
    one = Gpu.Image.new_for_buffer(buffer, Gpu.MemoryFlags.NONE, "rgba-uint8",
                                   Gpu.ImageType.IMAGE_1D_BUFFER, 64)
    equal(one.buffer, buffer)
    equal(one.read(), content)
    one.write(b"abcd", (3,), 1)
    equal(buffer.read(12, 4), b"abcd")


def test_levels(fixture):
    """M23: the levels of a mipmapped image."""
    need(fixture, Gpu.Capabilities.MIPMAPS)
    one = image(fixture, (16, 8), n_levels=3)
    levels = [one.get_level(i) for i in range(3)]
    equal([level.extent[:2] for level in levels], [(16, 8), (8, 4), (4, 2)])
    for number, level in enumerate(levels):
        level.fill(number / 2)
    for number, level in enumerate(levels):
        width, height = level.extent[:2]
        equal(level.read(), bytes((round(number * 127.5 + 0.01),)) * (4 * width * height))
    with raises(Gpu.Error.INVALID_ARGUMENT, "3"):
        one.get_level(3)


# --- samplers ------------------------------------------------------------------------------------

def test_samplers(fixture):
    """M25, D45: samplers by their properties."""
    need(fixture, Gpu.Capabilities.IMAGES)
    sampler = Gpu.Sampler(fixture.context, True, Gpu.AddressMode.REPEAT, Gpu.FilterMode.LINEAR)
    equal((sampler.normalized_coordinates, sampler.filter_mode), (True, Gpu.FilterMode.LINEAR))
    equal(sampler.get_address_mode(1), Gpu.AddressMode.REPEAT)
    equal(sampler.context, fixture.context)
    equal(sampler, sampler)
    with raises(Gpu.Error.INVALID_ARGUMENT, "normalized"):
        Gpu.Sampler(fixture.context, False, Gpu.AddressMode.REPEAT)


def test_kernels(fixture):
    """M26: images and samplers as arguments."""
    kernels = program(fixture)
    whole = data(WIDTH * HEIGHT * 4)
    source, target = image(fixture), image(fixture)
    source.write(whole)
    texels = Gpu.Sampler(fixture.context)
    fixture.stream.launch(kernels.mirror, (WIDTH, HEIGHT), args=(source, texels, target))
    pixels = [whole[i:i + 4] for i in range(0, len(whole), 4)]
    rows = [pixels[y * WIDTH:(y + 1) * WIDTH][::-1] for y in range(HEIGHT)]
    equal(target.read(), b"".join(pixel for row in rows for pixel in row))

    numbers = [random.Random(i).random() for i in range(2 * 2 * 4)]
    small = Gpu.Image.new_from_data(fixture.context, "rgba-float32", (2, 2),
                                    struct.pack("16f", *numbers))
    middle = Gpu.Sampler(fixture.context, True, filter_mode=Gpu.FilterMode.LINEAR)
    out = fixture.buffer(16)
    fixture.stream.launch(kernels.between, 1, args=(small, middle, out, 0.5, 0.5))
    for got, c in zip(struct.unpack("4f", out.read()), range(4)):
        expected = sum(numbers[c::4]) / 4
        assert abs(got - expected) < 0.01, (got, expected)


def test_objects(fixture):
    """D37, D38: textures and surfaces for launches of the program's own."""
    need(fixture, Gpu.Capabilities.IMAGES)
    one = image(fixture)
    edge = Gpu.Sampler(fixture.context, True, Gpu.AddressMode.CLAMP_TO_EDGE)
    same = Gpu.Sampler(fixture.context, True, Gpu.AddressMode.CLAMP_TO_EDGE)
    other = Gpu.Sampler(fixture.context, True, Gpu.AddressMode.REPEAT)
    if fixture.device.backend != "cuda":
        with raises(Gpu.Error.NOT_SUPPORTED, "gpu_image_get_native_object"):
            one.get_native_object(edge)
        return
    texture, surface = one.get_native_object(edge), one.get_native_object(None)
    equal(one.get_native_object(same), texture)
    equal(len({texture, surface, one.get_native_object(other), 0}), 4)


def test_argument_errors(fixture):
    """A buffer is no image, and an image no sampler."""
    kernels = program(fixture)
    one = image(fixture)
    with raises(Gpu.Error.INVALID_ARGUMENT):
        fixture.stream.launch(kernels.mirror, (1, 1), args=(one, one, one))
    if not fixture.device.capabilities & Gpu.Capabilities.ARGUMENT_INFO:
        return
    with raises(Gpu.Error.INVALID_ARGUMENT):
        fixture.stream.launch(kernels.mirror, (1, 1),
                              args=(fixture.buffer(64), Gpu.Sampler(fixture.context), one))


def test_dropped(fixture):
    """Nothing goes away that a launch still uses."""
    kernels = program(fixture)
    target = image(fixture)
    for turn in range(100):
        source = image(fixture)
        fixture.stream.fill_image(source, turn / 255)
        fixture.stream.launch(kernels.mirror, (WIDTH, HEIGHT),
                              args=(source, Gpu.Sampler(fixture.context), target))
        del source
    equal(target.read((0, 0), (1, 1)), bytes((99,)) * 4)


def test_formats(fixture):
    """D37: what the context can make."""
    need(fixture, Gpu.Capabilities.IMAGES)
    formats = fixture.context.list_image_formats(Gpu.MemoryFlags.NONE, Gpu.ImageType.IMAGE_2D)
    assert Gpu.ImageFormat("rgba-unorm8") in formats, [str(format) for format in formats]
    limits = fixture.context.get_max_image_extent(Gpu.ImageType.IMAGE_2D)
    assert limits.width >= WIDTH and limits.height >= HEIGHT, tuple(limits)


def test_async(fixture):
    """In the main context, with what it says when it fails."""
    one = image(fixture)
    whole = data(WIDTH * HEIGHT * 4)
    one.write(whole)
    loop = GLib.MainLoop()
    results = []

    def done(source, result):
        results.append(source.read_bytes_finish(result).get_data())
        loop.quit()

    Gpu.Image.read_bytes_async(one, None, None, None, None, done)
    loop.run()
    equal(results, [whole])


if __name__ == "__main__":
    sys.exit(main(dict(globals())))
