# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the override of Gpu adds to images, formats and samplers. NumPy has the rows of an image in
the first dimension and its texels in the last but one, so shapes are extents backwards."""

from gi.repository import GObject

from ..module import get_introspection_module
from ._gpumem import Exported, hold, loaded_numpy, new_bytes, to_glib_bytes
from ._gpumem_values import to_extent, to_layout

Gpu = get_introspection_module("Gpu")

_DTYPES = {"unorm8": "uint8", "snorm8": "int8", "unorm16": "uint16", "snorm16": "int16",
           "unorm_565": "uint16", "unorm_555": "uint16", "unorm_101010": "uint32"}

_TYPES = {1: Gpu.ImageType.IMAGE_1D, 2: Gpu.ImageType.IMAGE_2D, 3: Gpu.ImageType.IMAGE_3D}

_MODES = {None: Gpu.MemoryFlags.NONE, "r": Gpu.MemoryFlags.READ_ONLY,
          "w": Gpu.MemoryFlags.WRITE_ONLY}


def _get(name):
    """A read-only property that calls a getter."""
    return property(lambda self: getattr(self, "get_" + name)())


def to_format(value):
    """A Gpu.ImageFormat or its text, "rgba-unorm8"."""
    return Gpu.ImageFormat.new_from_string(value) if isinstance(value, str) else value


def to_color(value):
    """A Gpu.Color, a number for all components, or up to four of them: those left out are 0, and
    alpha 1."""
    if isinstance(value, Gpu.Color):
        return value
    if not hasattr(value, "__iter__"):
        return Gpu.Color.new(*(float(value),) * 4)
    numbers = [float(number) for number in value]
    if not 1 <= len(numbers) <= 4:
        raise ValueError(f"a color has 1 to 4 components, not {len(numbers)}")
    return Gpu.Color.new(*numbers, *(0.0, 0.0, 0.0, 1.0)[len(numbers):])


class FormatMethods:
    """Gpu.ImageFormat("rgba-unorm8") or Gpu.ImageFormat(order, type)."""
    n_channels = _get("n_channels")
    channel_size = _get("channel_size")
    texel_size = _get("texel_size")

    def __new__(cls, order, channel_type=None):
        if channel_type is None:
            return Gpu.ImageFormat.new_from_string(order)
        return Gpu.ImageFormat.new(order, channel_type)

    def __init__(self, *args, **kwargs):
        pass

    @property
    def dtype(self):
        """The NumPy type of a channel, or of a texel whose channels share bytes."""
        import numpy
        name = self.channel_type.value_nick.replace("-", "_")
        return numpy.dtype(_DTYPES.get(name, name))

    def __eq__(self, other):
        return self.equal(other) if isinstance(other, Gpu.ImageFormat) else NotImplemented

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return self.hash()

    def __str__(self):
        return self.to_string()

    def __repr__(self):
        return f"Gpu.ImageFormat('{self.to_string()}')"


class ColorMethods:
    """Gpu.Color(red, green, blue, alpha)."""

    def __new__(cls, red=0.0, green=0.0, blue=0.0, alpha=1.0):
        return Gpu.Color.new(red, green, blue, alpha)

    def __init__(self, *args, **kwargs):
        pass

    def __iter__(self):
        return iter((self.red, self.green, self.blue, self.alpha))

    def __repr__(self):
        return "Gpu.Color({}, {}, {}, {})".format(*self)


class ImageMethods:
    """Gpu.Image(context, "rgba-unorm8", (width, height)). Origins are (x, y, z) in texels, and
    what is left out of an extent reaches to the end of the image."""
    format = _get("format")
    image_type = _get("image_type")
    width = _get("width")
    height = _get("height")
    depth = _get("depth")
    n_layers = _get("n_layers")
    n_levels = _get("n_levels")
    texel_size = _get("texel_size")
    row_pitch = _get("row_pitch")
    slice_pitch = _get("slice_pitch")
    buffer = _get("buffer")
    parent = _get("parent")

    def __new__(cls, context, format, extent, image_type=None, flags=Gpu.MemoryFlags.NONE,
                n_levels=1):
        if image_type is None:
            image_type = _TYPES[len(extent) if hasattr(extent, "__len__") else 1]
        return Gpu.Image.new_mipmapped(context, flags, to_format(format), image_type,
                                       to_extent(extent), n_levels)

    def __init__(self, *args, **kwargs):
        pass

    @classmethod
    def from_array(cls, context, array, n_channels=None, mode=None, normalized=False,
                   image_type=None):
        """An image with a copy of a NumPy array of one to three dimensions, and one more if
        n_channels says how many of its last make a texel. Mode "r" or "w" says what kernels do;
        integers can be normalized. With image_type the first dimension can be layers."""
        import numpy
        array = numpy.ascontiguousarray(array)
        shape = array.shape
        if n_channels is not None:
            if shape[-1] != n_channels:
                raise ValueError(f"an array of shape {shape} has no texels of {n_channels} "
                                 "channels")
            shape = shape[:-1]
        if not 1 <= len(shape) <= 3:
            raise ValueError(f"no image can be made of an array of shape {array.shape}")
        format = Gpu.ImageFormat.new_for_values(ord(array.dtype.char), n_channels or 1, normalized)
        return Gpu.Image.new_from_bytes(context, _MODES[mode], format,
                                        _TYPES[len(shape)] if image_type is None else image_type,
                                        to_extent(shape[::-1]), to_glib_bytes(array, copy=False),
                                        0, 0)

    @classmethod
    def new_from_data(cls, context, format, extent, data, image_type=None,
                      flags=Gpu.MemoryFlags.NONE, row_pitch=0, slice_pitch=0):
        """An image that begins with a copy of bytes-like data."""
        if image_type is None:
            image_type = _TYPES[len(extent) if hasattr(extent, "__len__") else 1]
        return Gpu.Image.new_from_bytes(context, flags, to_format(format), image_type,
                                        to_extent(extent), to_glib_bytes(data, copy=False),
                                        row_pitch, slice_pitch)

    @classmethod
    def new_for_buffer(cls, buffer, flags, format, image_type, width, height=1, row_pitch=0):
        """An image in the bytes of a buffer."""
        return Gpu.Image.new_for_buffer(buffer, flags, to_format(format), image_type, width, height,
                                        row_pitch)

    @property
    def extent(self):
        return (self.get_width(), *(size for size in self._sizes()[1:]))

    def _sizes(self):
        extent = Gpu.Extent.new(0, 0, 0)
        result = Gpu.Image.get_extent(self)
        extent = result if result is not None else extent
        return (extent.width, extent.height, extent.depth)

    def _rest(self, origin, extent):
        """The numbers of an extent, all of the image from origin on if it is None."""
        if extent is not None:
            return tuple(to_extent(extent))
        origin = tuple(origin or ())[:3]
        origin += (0,) * (3 - len(origin))
        return tuple(max(size - first, 0) for size, first in zip(self._sizes(), origin))

    def _get_stream(self, stream):
        if stream is None:
            context = self.get_context()
            stream = context.get_default_stream() if context is not None else None
        if stream is None:
            Gpu.Image.read_bytes(self, None, None, None, None)      # says why there is none
        return stream

    def write(self, data, origin=None, extent=None, row_pitch=0, slice_pitch=0, stream=None):
        """Copies bytes-like data to a region of the image and waits until they are there."""
        stream = self._get_stream(stream)
        stream.write_region(self, data, self._rest(origin, extent), origin,
                            (0, 0, 0, row_pitch, slice_pitch), copy=False)
        return stream.synchronize()

    def read(self, origin=None, extent=None, stream=None):
        """A region of the image as bytes."""
        extent = self._rest(origin, extent)
        size = self.get_texel_size()
        for length in extent:
            size *= length
        if size == 0:
            return b""
        data = new_bytes(None, size)
        self._read_exported(Exported(data), origin, extent, stream)
        return data

    def _read_exported(self, exported, origin, extent, stream):
        stream = self._get_stream(stream)
        Gpu.Stream.read_region_into(stream, self, to_layout(origin), hold(exported), None,
                                    to_extent(extent))
        stream.synchronize()

    def to_numpy(self, origin=None, extent=None, stream=None):
        """A new NumPy array with a region of the image: its shape is the extent backwards, without
        dimensions of 1 in front, and the channels if there are several."""
        import numpy
        extent = self._rest(origin, extent)
        array = numpy.empty(self._shape(extent), self.get_format().dtype)
        if array.nbytes > 0:
            self._read_exported(Exported(array.reshape(-1).view("uint8")), origin, extent, stream)
        return array

    def _shape(self, extent):
        format = self.get_format()
        n_channels = format.get_n_channels() if format.get_channel_size() > 0 else 1
        shape = list(extent[::-1])
        while len(shape) > 1 and shape[0] == 1:
            del shape[0]
        return (*shape, n_channels) if n_channels > 1 else tuple(shape)

    def fill(self, color, origin=None, extent=None, stream=None):
        """Fills a region with a Gpu.Color, or its components, and waits until it is there."""
        stream = self._get_stream(stream)
        stream.fill_image(self, color, origin, extent)
        return stream.synchronize()

    def map(self, flags=Gpu.MapFlags.NONE, origin=None, extent=None, stream=None):
        """A region of the image in the memory of the host: see Gpu.Mapping."""
        stream = self._get_stream(stream)
        mapping = stream.map_image(self, flags, origin, extent)
        stream.synchronize()
        return mapping

    def get_level(self, level):
        return Gpu.Image.get_level(self, level)

    def __repr__(self):
        if self.is_released():
            return "<Gpu.Image released>"
        sizes = " x ".join(map(str, self._sizes()))
        return f"<Gpu.Image of {sizes} texels {self.get_format()}>"


def view_texels(image, extent, mapping, exported):
    """A NumPy array over the texels of a mapping, without a copy."""
    numpy = loaded_numpy()
    shape = image._shape(extent)
    dtype = image.get_format().dtype
    n_channels = image.get_format().get_n_channels() if len(shape) > 1 else 1
    tail = (dtype.itemsize,) if shape[-1:] == (n_channels,) and n_channels > 1 else ()
    pitches = (mapping.get_slice_pitch(), mapping.get_row_pitch(), image.get_texel_size())
    strides = pitches[len(pitches) - (len(shape) - len(tail)):] + tail
    return numpy.ndarray(shape, dtype, exported, 0, strides)


class SamplerMethods:
    """Gpu.Sampler(context, normalized_coordinates=True, address_mode=..., filter_mode=...), and any
    other property by its name."""
    context = _get("context")
    normalized_coordinates = _get("normalized_coordinates")
    filter_mode = _get("filter_mode")
    border_color = _get("border_color")
    native_handle = _get("native_handle")

    def __new__(cls, *args, **kwargs):
        return super().__new__(cls)

    def __init__(self, context, normalized_coordinates=False,
                 address_mode=Gpu.AddressMode.CLAMP_TO_EDGE,
                 filter_mode=Gpu.FilterMode.NEAREST, **properties):
        for axis in "xyz":
            properties.setdefault(f"address_mode_{axis}", address_mode)
        GObject.Object.__init__(self, context=context, filter_mode=filter_mode,
                                normalized_coordinates=normalized_coordinates, **properties)
        self.init(None)

    def __eq__(self, other):
        return self.equal(other) if isinstance(other, Gpu.Sampler) else NotImplemented

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return self.hash()
