# SPDX-License-Identifier: LGPL-2.1-or-later
"""Images and samplers from Python, on every device that GPUMEM_TEST selects and that supports
images."""

import asyncio
import copy
import pickle
import random
import struct
import subprocess
import sys

from python_util import DEADLINE, equal, main, need, need_numpy, np, raises
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
    for wrong, known in (("rgba", "r, a, rg, "), ("rgba-unorm9", "unorm16, snorm8"), ("", "bgra"),
                         ("x-float32", "depth"), ("rgb-unorm_565", "unorm-555, unorm-101010")):
        with raises(Gpu.Error.INVALID_ARGUMENT, f"'{wrong}'", known):
            Gpu.ImageFormat(wrong)
    try:
        Gpu.ImageFormat("\u00e4" * 100000)
    except GLib.Error as error:
        assert len(error.message) < 400, len(error.message)


def plain_colors():
    equal(tuple(Gpu.Color(0.5, 1)), (0.5, 1.0, 0.0, 1.0))
    equal(repr(Gpu.Color(0.25)), "Gpu.Color(0.25, 0.0, 0.0, 1.0)")
    equal(len({Gpu.Color(1), Gpu.Color(1.0, 0), Gpu.Color(2)}), 2)
    assert Gpu.Color(1) != (1, 0, 0, 1)


def plain_copies_of_values():
    values = [Gpu.Color(0.25, 1), Gpu.ImageFormat("rg-float16"), Gpu.Extent(4, 5, 6),
              Gpu.Layout(1, 2, 3, 64, 256), Gpu.DType("float32"), Gpu.DType("bfloat16")]
    record = Gpu.DType.new_record(9).add_field("a", "bfloat16", 5)     # no type of NumPy
    values += [Gpu.DType.new_record(8), record,
               Gpu.DType.new_record(40).add_field("b", record, 2, (2, 2))]
    if np is not None:
        values.append(Gpu.DType(np.dtype({"names": ["a", "b"], "formats": ["i4", ("f8", (2, 3))],
                                          "offsets": [3, 8], "itemsize": 60})))
    for value in values:
        for copied in (copy.copy(value), copy.deepcopy(value),
                       *(pickle.loads(pickle.dumps(value, i)) for i in range(6))):
            equal((type(copied), repr(copied)), (type(value), repr(value)))
            assert copied == value and not copied != value
            if type(value) is Gpu.DType:
                equal((copied.fields, copied.itemsize), (value.fields, value.itemsize))
    # Processes that have not imported the library yet
    for begin, n_warnings in (("", 1), ("import gi; gi.require_version('Gpu', '1.0'); ", 0)):
        program = begin + "import pickle, sys; print(pickle.load(sys.stdin.buffer))"
        result = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True,
                                input=pickle.dumps(values))
        equal(result.stdout.decode().strip(), repr(values))
        equal(result.stderr.count(b"PyGIWarning"), n_warnings)


# --- images --------------------------------------------------------------------------------------

def test_properties(fixture):
    """M18, M24: the properties of an image."""
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


def test_attributes(fixture):
    """The attributes of images have the same names and values on every back end."""
    kinds = Gpu.ImageType
    for kind, extent, height, depth, layers, slices in (
            (kinds.IMAGE_1D, (8,), 0, 0, 0, 0), (kinds.IMAGE_2D, (8, 4), 4, 0, 0, 0),
            (kinds.IMAGE_3D, (8, 4, 2), 4, 2, 0, 4), (kinds.IMAGE_1D_ARRAY, (8, 3), 0, 0, 3, 1),
            (kinds.IMAGE_2D_ARRAY, (8, 4, 3), 4, 0, 3, 4)):
        image = Gpu.Image(fixture.context, "rgba-uint16", extent, kind)
        got = image.attributes
        equal({name: got[name] for name in ("format", "num-channels", "element-size", "width",
                                            "height", "depth", "array-size", "num-mip-levels",
                                            "num-samples")},
              {"format": "rgba-uint16", "num-channels": 4, "element-size": 8, "width": 8,
               "height": height, "depth": depth, "array-size": layers, "num-mip-levels": 0,
               "num-samples": 0}, f"the attributes of {kind.value_nick}")
        equal((got["row-pitch"], got["slice-pitch"]), (image.row_pitch, slices * image.row_pitch))
        equal((image.element_size, image.array_size, image.num_channels, image.num_mip_levels,
               image.num_samples), (8, layers, 4, 0, 0))
        assert got["size"] == image.size and got["native-handle"] == image.native_handle
    assert "num-channels" not in fixture.buffer(4).attributes


def test_types(fixture):
    """The number of dimensions of the extent determines the type of an image. Extents may be
    numbers, sequences, iterators or Gpu.Extent."""
    types = [Gpu.ImageType.IMAGE_1D, Gpu.ImageType.IMAGE_2D, Gpu.ImageType.IMAGE_3D]
    extents = [[4, (4,), iter((4,)), Gpu.Extent(4)],
               [(4, 3), iter((4, 3)), [4, 1], Gpu.Extent(4, 3)],
               [(4, 3, 2), (n for n in (4, 3, 1)), Gpu.Extent(4, 3, 2), Gpu.Extent(4, 1, 2)]]
    for image_type, values in zip(types, extents):
        for value in values:
            equal(image(fixture, value).image_type, image_type)
    for wrong in ((), (1, 2, 3, 4), range(1000)):
        with raises(ValueError, "1 to 3 numbers", str(len(wrong))):
            image(fixture, wrong)
    for wrong in ("44", b"44", (1.5, 2), None, {4: 4}, 4.0):
        with raises(TypeError, repr(wrong)):
            image(fixture, wrong)


def test_constructors(fixture):
    """Every constructor accepts strings as formats and tuples as extents, and rejects flags of
    another type."""
    need(fixture, Gpu.Capabilities.IMAGES)
    none, kind, content = Gpu.MemoryFlags.NONE, Gpu.ImageType.IMAGE_2D, GLib.Bytes(data(4096 * 4))
    common = (none, "rgba-unorm8", kind, (64, 64))
    images = [Gpu.Image.new(fixture.context, *common),
              Gpu.Image.new_mipmapped(fixture.context, *common, 1),
              Gpu.Image.new_from_bytes(fixture.context, *common, content, 0, 0),
              Gpu.Image.new_from_bytes(fixture.context, *common, data(4096 * 4))]
    if fixture.device.backend != "cuda":
        images.append(Gpu.Image.new_for_host_bytes(fixture.context, *common, content, 0, 0))
    for one in images:
        equal((one.extent, str(one.format)), ((64, 64, 1), "rgba-unorm8"))
    if fixture.device.backend == "opencl":
        again = Gpu.Image.new_wrapped(fixture.context, one.native_handle, "rgba-unorm8",
                                      Gpu.WrapMode.BORROW)
        equal((again, again.extent), (one, one.extent))
    with raises(TypeError, "image_type", "READ_ONLY"):
        image(fixture, image_type=Gpu.MemoryFlags.READ_ONLY)
    with raises(TypeError, "flags", "IMAGE_2D"):
        image(fixture, flags=kind)
    with raises(TypeError, "flags", "READ"):
        Gpu.Image.new(fixture.context, Gpu.MapFlags.READ, *common[1:])
    with raises(TypeError, "image_type", "NONE"):
        Gpu.Image.new_for_buffer(fixture.buffer(64), none, "r-uint8", Gpu.AddressMode.NONE, 4)


def test_refuses(fixture):
    """Errors quote the invalid values."""
    need(fixture, Gpu.Capabilities.IMAGES)
    with raises(Gpu.Error.INVALID_ARGUMENT, "Gpu.Image:", "0 x 7"):
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
    closed = image(fixture, flags=Gpu.MemoryFlags.READ_ONLY | Gpu.MemoryFlags.HOST_NO_ACCESS)
    with raises(Gpu.Error.INVALID_ARGUMENT, "flags of the memory, read-only | host-no-access,"):
        closed.read()
    with raises(Gpu.Error.INVALID_ARGUMENT, "address mode repeat,"):
        Gpu.Sampler(fixture.context, False, Gpu.AddressMode.REPEAT)


def test_data(fixture):
    """M19: reads and writes of a whole image and of regions."""
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


def test_sizes(fixture):
    """Data that is too large or too small raises an error. With pitches, the data includes the
    gaps."""
    whole = data(WIDTH * HEIGHT * 4)
    one = image(fixture)
    one.write(whole)
    for size in (len(whole) - 1, len(whole) + 1, 2 * len(whole)):
        for function in (one.write, lambda wrong: Gpu.Image.new_from_data(
                fixture.context, "rgba-unorm8", (WIDTH, HEIGHT), wrong)):
            with raises(Gpu.Error.INVALID_ARGUMENT, str(len(whole)), str(size)):
                function(bytes(size))
    with raises(Gpu.Error.INVALID_ARGUMENT, "16 bytes", "12 bytes"):
        one.write(bytes(16), 0, 3)
    with raises(Gpu.Error.INVALID_ARGUMENT, "at 7, 9, 0 exceeds", "texels of the destination"):
        one.write(bytes(16), (7, 9))
    with raises(Gpu.Error.INVALID_ARGUMENT, "16 bytes", "0 bytes"):
        one.write(bytes(16), (WIDTH, HEIGHT))
    equal(one.read(), whole)
    one.write(bytes(HEIGHT * WIDTH * 4 + 3), row_pitch=WIDTH * 4)
    equal(one.read(), bytes(len(whole)))
    need_numpy()
    for shape, kind in (((HEIGHT + 1, WIDTH, 4), np.uint8), ((HEIGHT, WIDTH, 4), np.float32)):
        with raises(Gpu.Error.INVALID_ARGUMENT, str(len(whole))):
            one.write(np.ones(shape, kind))
    equal(one.read(), bytes(len(whole)))


def test_regions(fixture):
    """Omitted numbers are 0 in an origin and 1 in an extent. Without an extent, the region is the
    whole image. A region outside of the image is rejected before memory for the region is
    allocated."""
    whole = data(WIDTH * HEIGHT * 4)
    one = image(fixture)
    one.write(whole)
    equal(one.read(extent=3), whole[:12])
    equal(one.read((0, 6)), whole[6 * WIDTH * 4:])
    for origin in (12, (12,), [12, 0, 0], Gpu.Layout(12), iter((12,))):
        equal(one.read(origin, 1), whole[48:52])
    equal(one.read((WIDTH, HEIGHT)), b"")
    for wrong in ((1.5, 0), "ab", b"ab", {}, (None,)):
        for method in (one.read, one.map, one.fill, one.write):
            with raises(TypeError, "origin", repr(wrong)):
                method(origin=wrong, **{"fill": {"color": 1}, "write": {"data": b""}}.get(
                    method.__name__, {}))
    with raises(ValueError, "4"):
        one.read((0, 0, 0, 4))
    for method in (one.read, one.to_numpy) if np is not None else (one.read,):
        for origin, extent in ((14, 8), None), ((0, 0), (1 << 40, 1)), ((0, 0), (1 << 63,) * 2):
            with raises(Gpu.Error.INVALID_ARGUMENT, str(extent[0] if extent else 14)):
                method(origin, extent)


def test_missing_dimensions(fixture):
    """The origin must be 0 in the dimensions that an image lacks."""
    texels = image(fixture)
    for origin in ((0, 0, 1), (0, 0, 2), (WIDTH + 1, 0, 0)):
        for call in (lambda: texels.read(origin), lambda: texels.fill(0, origin),
                     lambda: texels.write(b"", origin),
                     lambda: texels.map(Gpu.MapFlags.READ, origin),
                     lambda: texels.read(origin, (0, 1, 1))):
            with raises(Gpu.InvalidArgumentError, "texels at"):
                call()
    equal(texels.read((WIDTH, 0, 0)), b"")


def test_read_into(fixture):
    """Reads into memory of the program, which must be as large as the region."""
    whole = data(WIDTH * HEIGHT * 4)
    one = image(fixture)
    one.write(whole)
    target = bytearray(len(whole))
    equal(one.read_into(target), len(whole))
    equal(bytes(target), whole)
    target = bytearray(8)
    equal(one.read_into(target, (5, 2), (1, 2)), 8)
    at = (2 * WIDTH + 5) * 4
    equal(bytes(target), whole[at:at + 4] + whole[at + WIDTH * 4:][:4])
    for size in (7, 9):
        with raises(ValueError, "8 bytes", str(size)):
            one.read_into(bytearray(size), (5, 2), (1, 2))
    with raises(BufferError):
        one.read_into(bytes(8), (5, 2), (1, 2))
    constant = GLib.Bytes.new(bytes(8))
    for call in one.read_into, lambda *args: asyncio.run(one.read_into_async(*args)):
        with raises(TypeError, "target must be a bytes-like object, not 'Bytes'"):
            call(constant, (5, 2), (1, 2))
    equal(constant.get_data(), bytes(8))
    need_numpy()
    rows = np.zeros((HEIGHT, WIDTH, 4), np.uint8)
    equal(one.read_into(rows), len(whole))
    equal(rows.tobytes(), whole)
    with raises(ValueError, "contiguous"):
        one.read_into(np.zeros((HEIGHT, WIDTH, 8), np.uint8)[..., ::2])


def test_pitches(fixture):
    """Rows with gaps in host memory."""
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
    """D44: NumPy arrays, with the channels in the last dimension."""
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
    with raises(ValueError, "()", "2 channels"):
        Gpu.Image.from_array(fixture.context, np.float32(1), 2)


def test_shapes(fixture):
    """Reads return NumPy arrays with the shape and the dtype of the image."""
    need_numpy()
    need(fixture, Gpu.Capabilities.IMAGES)
    rows, layers = Gpu.ImageType.IMAGE_1D_ARRAY, Gpu.ImageType.IMAGE_2D_ARRAY
    for shape, n_channels, image_type in (
            ((5,), None, None), ((5, 4), 4, None), ((1, 6), None, None), ((1, 6, 4), 4, None),
            ((1, 5, 6), None, None), ((1, 1, 5, 4), 4, None), ((2, 5), None, rows),
            ((2, 5, 6), None, layers), ((1, 5, 6, 4), 4, layers)):
        values = np.frombuffer(data(4 * int(np.prod(shape))), np.uint8)[::4].reshape(shape)
        one = Gpu.Image.from_array(fixture.context, values, n_channels, image_type=image_type)
        equal((one.shape, one.dtype), (shape, values.dtype))
        assert np.array_equal(one.to_numpy(), values), shape
        with one.map(Gpu.MapFlags.READ) as mapping:
            equal(mapping.to_numpy().tolist(), values.tolist())
    equal(one.to_numpy(1, (2, 3)).shape, (1, 3, 2, 4))
    values = np.arange(12, dtype=np.float32).reshape(4, 3)
    for array in (values, values[:, :, None]):          # one channel needs no dimension
        one = Gpu.Image.from_array(fixture.context, array, 1)
        equal((one.shape, one.to_numpy().tolist()), ((4, 3), values.tolist()))
    for array in values[0, 1:2], values[:1, 1:2]:
        one = Gpu.Image.from_array(fixture.context, array, 1)
        equal((one.shape, one.to_numpy().tolist()), ((1,), [1]))


def test_no_texels(fixture):
    """A region without texels is read as an array without elements, also if the extent is 0 in a
    dimension that the image lacks."""
    need_numpy()
    need(fixture, Gpu.Capabilities.IMAGES)
    for form, extent, origin, region, shape in (
            ("r-float32", (5, 6), 0, (5, 6, 0), (0, 5)),
            ("rgba-unorm8", (5, 6), 0, (5, 6, 0), (0, 5, 4)),
            ("rgba-unorm8", 5, 0, (5, 0), (0, 4)), ("r-float32", (5, 6), (5, 0), None, (6, 0))):
        one = Gpu.Image(fixture.context, form, extent)
        equal(one.read(origin, region), b"")
        array = one.to_numpy(origin, region)
        equal((array.shape, array.dtype), (shape, one.dtype))
    buffer = fixture.buffer(bytes(64))
    for extent in ((4, 2, 0), (4, 0), (0, 2), Gpu.Extent(4, 2, 0)):
        fixture.stream.copy_region(buffer, one, extent)
        fixture.stream.fill_region(buffer, 1, extent)
        one.write(b"", None, extent)
        one.fill((1, 0, 0, 1), None, extent)
        equal(fixture.stream.read_region(buffer, extent).get_size(), 0)
    equal(buffer.read(), bytes(64))


def test_arrays(fixture):
    """Writes accept arrays in any byte order, and structures of equal fields. For other element
    types, the error names the type."""
    need_numpy()
    need(fixture, Gpu.Capabilities.IMAGES)
    swapped = np.arange(3, dtype=np.int16).astype(">i2")
    equal(Gpu.Image.from_array(fixture.context, swapped).to_numpy().tolist(), [0, 1, 2])
    pixels = np.frombuffer(data(12), [(name, np.uint8) for name in "rgba"])
    one = Gpu.Image.from_array(fixture.context, pixels)
    equal((one.shape, str(one.format)), ((3, 4), "rgba-uint8"))
    equal(one.read(), pixels.tobytes())
    for kind in ("int64", "bool", "float64", "object", "complex64"):
        with raises(TypeError, kind, "uint8, int16", "n_channels"):
            Gpu.Image.from_array(fixture.context, np.zeros(4, kind))
    with raises(TypeError, "float32"):
        Gpu.Image.from_array(fixture.context, np.zeros(4, np.float32), normalized=True)
    with raises(ValueError, "'rw'"):
        Gpu.Image.from_array(fixture.context, np.zeros(4, np.uint8), mode="rw")
    if Gpu.ImageFormat("rgb-uint8") not in fixture.context.list_image_formats(
            Gpu.MemoryFlags.NONE, Gpu.ImageType.IMAGE_2D):
        with raises(Gpu.Error.NOT_SUPPORTED, "rgb-uint8", "pad"):
            Gpu.Image.from_array(fixture.context, np.zeros((2, 2, 3), np.uint8), 3)


def test_mappings(fixture):
    """M21: a mapped region, accessed by its pitches."""
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
        for origin, extent in ((7, 3), (3, 2)), ((3, 4), 1):
            with raises(Gpu.Error.BUSY, "mapped for writing"):
                one.fill(0, origin, extent)
        for free in (1, 3), (6, 4):
            one.fill(0, free, 1)
            equal(one.read(free, 1), bytes(4))
    equal(one.read((2, 4), (1, 1)), b"\1\2\3\4")
    equal(one.read((3, 4), (1, 1)), whole[(4 * WIDTH + 3) * 4:][:4])


def test_packed(fixture):
    """A texel whose channels share bytes is a single number, even if a row has as many texels as
    the format has channels."""
    need_numpy()
    need(fixture, Gpu.Capabilities.MAP)
    try:
        one = image(fixture, (3, 4), "rgb-unorm-565")
    except GLib.Error as error:
        assert error.matches(Gpu.error_quark(), Gpu.Error.NOT_SUPPORTED), error
        return
    values = np.arange(12, dtype=np.uint16).reshape(4, 3)
    one.write(values)
    equal((one.shape, one.dtype), ((4, 3), np.uint16))
    equal(one.to_numpy().tolist(), values.tolist())
    with one.map(Gpu.MapFlags.READ | Gpu.MapFlags.WRITE) as mapping:
        texels = mapping.to_numpy()
        equal(texels.tolist(), values.tolist())
        equal(texels.strides, (mapping.row_pitch, 2))
        texels[2, 1] = 77
        del texels
    values[2, 1] = 77
    equal(one.to_numpy().tolist(), values.tolist())


def test_copies(fixture):
    """M20, D42: copies between images, and between images and buffers."""
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


def test_copy(fixture):
    """The blocking copy method, from images and from buffers."""
    whole = data(WIDTH * HEIGHT * 4)
    first, second = image(fixture), image(fixture)
    first.write(whole)
    assert second.copy(first)
    equal(second.read(), whole)
    second.copy(first, (0, 0), (11, 5))
    equal(second.read((0, 0), (2, 1)), whole[(5 * WIDTH + 11) * 4:][:8])
    equal(second.read((2, 0), (3, 1)), whole[8:20])
    second.copy(fixture.buffer(whole), (9, 6), (4,))
    equal(second.read((9, 6)), whole[4:20])
    second.copy(fixture.buffer(whole), 1, (1, 2, 0, 32), (2, 2))
    equal(second.read(1, (2, 2)), whole[65:73] + whole[97:105])
    with raises(Gpu.Error.INVALID_ARGUMENT, "13"):
        second.copy(first, 1)


def test_over_buffer(fixture):
    """M22: an image over the memory of a buffer."""
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
    equal(sampler.address_mode_y, Gpu.AddressMode.REPEAT)
    equal(sampler.context, fixture.context)
    equal(sampler, sampler)
    with raises(Gpu.Error.INVALID_ARGUMENT, "normalized"):
        Gpu.Sampler(fixture.context, False, Gpu.AddressMode.REPEAT)


def test_sampler_properties(fixture):
    """Each property of a sampler is an argument of the constructor, an attribute, and part of
    repr()."""
    need(fixture, Gpu.Capabilities.IMAGES)
    values = {"normalized_coordinates": True, "address_mode_x": Gpu.AddressMode.REPEAT,
              "address_mode_y": Gpu.AddressMode.REPEAT, "address_mode_z": Gpu.AddressMode.REPEAT,
              "filter_mode": Gpu.FilterMode.LINEAR, "mip_filter_mode": Gpu.FilterMode.NEAREST,
              "read_mode": Gpu.ReadMode.FORMAT, "max_anisotropy": 1, "lod_bias": 0.0,
              "min_lod": 0.0, "border_color": Gpu.Color(0, 0, 0, 0)}
    sampler = Gpu.Sampler(fixture.context, **values)
    for name, value in values.items():
        equal(getattr(sampler, name), value, name)
        assert f"{name}={getattr(value, 'value_nick', value)}" in repr(sampler), repr(sampler)
    assert sampler.max_lod > 1000
    for color in (0, (0, 0, 0, 0), Gpu.Color(0, 0, 0, 0)):
        equal(Gpu.Sampler(fixture.context, border_color=color).border_color,
              Gpu.Color(0, 0, 0, 0))


def test_sampler_arguments(fixture):
    """Invalid values raise errors that quote the value. GObject alone would only warn and create a
    different sampler."""
    need(fixture, Gpu.Capabilities.IMAGES)
    repeat, linear = Gpu.AddressMode.REPEAT, Gpu.FilterMode.LINEAR
    for name, args in (("normalized_coordinates", (repeat, linear)),
                       ("normalized_coordinates", (None,)), ("normalized_coordinates", ("yes",)),
                       ("address_mode", (True, linear)), ("address_mode", (True, 99)),
                       ("filter_mode", (True, repeat, repeat)), ("filter_mode", (True, repeat, 1))):
        with raises(TypeError, name):
            Gpu.Sampler(fixture.context, *args)
    for name, value in (("address_mode_y", linear), ("read_mode", 1), ("max_anisotropy", 1.5),
                        ("max_anisotropy", True), ("lod_bias", "1"), ("native_handle", 5),
                        ("filter", linear), ("border_color", "red")):
        with raises(TypeError, name):
            Gpu.Sampler(fixture.context, **{name: value})
    for name, value in (("max_anisotropy", 0), ("max_anisotropy", 17), ("min_lod", -1),
                        ("max_lod", float("nan")), ("border_color", ())):
        with raises(ValueError, name):
            Gpu.Sampler(fixture.context, **{name: value})


def test_wrong_values(fixture):
    """Invalid colors, streams and images raise errors."""
    one = image(fixture)
    for color in (None, "1234", b"1234", {1: 2}, ["1", "2"], [None]):
        with raises(TypeError, repr(color)):
            one.fill(color)
    for color in ((), (1, 2, 3, 4, 5)):
        with raises(ValueError, str(len(color))):
            one.fill(color)
    for method, args in ((one.write, (bytes(4), 0, 1)), (one.read, (0, 1)), (one.fill, (1,)),
                         (one.map, ()), (one.copy, (one,))):
        with raises(TypeError, "stream", "3"):
            method(*args, stream=3)
    with raises(TypeError, "image"):
        fixture.stream.map_image(fixture.buffer(16))
    need_numpy()
    for color in (np.array(1), np.float32(1), np.ones(4, np.float16)):
        one.fill(0)
        one.fill(color)
        equal(one.read(extent=1), bytes((255,)) * 4)


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
    """D37, D38: texture and surface objects for kernels that the program launches through the
    driver."""
    need(fixture, Gpu.Capabilities.IMAGES)
    one = image(fixture)
    edge = Gpu.Sampler(fixture.context, True, Gpu.AddressMode.CLAMP_TO_EDGE)
    same = Gpu.Sampler(fixture.context, True, Gpu.AddressMode.CLAMP_TO_EDGE)
    other = Gpu.Sampler(fixture.context, True, Gpu.AddressMode.REPEAT)
    if fixture.device.backend != "cuda":
        with raises(Gpu.Error.NOT_SUPPORTED, "Image.get_native_object"):
            one.get_native_object(edge)
        return
    texture, surface = one.get_native_object(edge), one.get_native_object(None)
    equal(one.get_native_object(same), texture)
    equal(len({texture, surface, one.get_native_object(other), 0}), 4)


def test_argument_errors(fixture):
    """Arguments of the wrong class are rejected: a buffer as an image, and an image as a
    sampler."""
    kernels = program(fixture)
    one = image(fixture)
    with raises(Gpu.Error.INVALID_ARGUMENT):
        fixture.stream.launch(kernels.mirror, (1, 1), args=(one, one, one))
    for forgotten in (one, fixture.buffer(64)):
        with raises(TypeError, "whole numbers", repr(forgotten)):
            kernels.mirror(fixture.stream, (1, 1), forgotten, one, one)
    if not fixture.device.capabilities & Gpu.Capabilities.ARGUMENT_INFO:
        return
    with raises(Gpu.Error.INVALID_ARGUMENT):
        fixture.stream.launch(kernels.mirror, (1, 1),
                              args=(fixture.buffer(64), Gpu.Sampler(fixture.context), one))


def test_dropped(fixture):
    """Images and samplers live until the launch has completed."""
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
    """D37: the formats that the context supports."""
    need(fixture, Gpu.Capabilities.IMAGES)
    formats = fixture.context.list_image_formats(Gpu.MemoryFlags.NONE, Gpu.ImageType.IMAGE_2D)
    assert Gpu.ImageFormat("rgba-unorm8") in formats, [str(format) for format in formats]
    limits = fixture.context.get_max_image_extent(Gpu.ImageType.IMAGE_2D)
    assert limits.width >= WIDTH and limits.height >= HEIGHT, tuple(limits)


def test_async(fixture):
    """Callbacks run in the main context, and failures raise the error."""
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


def test_asyncio(fixture):
    """The asynchronous methods work with await."""
    one = image(fixture)
    whole = data(WIDTH * HEIGHT * 4)

    async def use():
        assert await one.write_async(whole)
        equal(await one.read_async(), whole)
        await one.write_async(bytearray(b"abcd"), 3, 1, stream=fixture.new_stream())
        equal(await one.read_async(2, 2), whole[8:12] + b"abcd")
        target = bytearray(4)
        equal(await one.read_into_async(target, 3, 1), 4)
        equal(bytes(target), b"abcd")
        with raises(ValueError, "4 bytes"):
            await one.read_into_async(bytearray(5), 3, 1)
        with raises(Gpu.Error.INVALID_ARGUMENT, "13"):
            await one.read_async(0, WIDTH + 1)
        with raises(Gpu.Error.INVALID_ARGUMENT):
            await one.write_async(b"abc", 0, 1)

    asyncio.run(asyncio.wait_for(use(), DEADLINE))


if __name__ == "__main__":
    sys.exit(main(dict(globals())))
