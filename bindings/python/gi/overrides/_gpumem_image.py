# SPDX-License-Identifier: LGPL-2.1-or-later
"""Overrides of images, formats and samplers. In a NumPy array the rows of an image are the first
dimension and the channels the last, so that a shape is an extent in reverse order."""

import array
import functools

from gi.repository import GLib, GObject

from ..module import get_introspection_module
from ._gpumem import (Exported, held, hold, loaded_numpy, new_bytes, run_copy,
                      submit_and_await, submit_and_wait, to_glib_bytes)
from ._gpumem_checks import checked, to_index, to_property, to_stream
from ._gpumem_values import to_extent, to_layout, to_numbers, to_origin, to_region

Gpu = get_introspection_module("Gpu")

_DTYPES = {"unorm8": "uint8", "snorm8": "int8", "unorm16": "uint16", "snorm16": "int16",
           "unorm_565": "uint16", "unorm_555": "uint16", "unorm_101010": "uint32"}

_CHANNELS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "float32")
_NORMALIZED = {"int8": "snorm8", "uint8": "unorm8", "int16": "snorm16", "uint16": "unorm16"}

_TYPES = {1: Gpu.ImageType.IMAGE_1D, 2: Gpu.ImageType.IMAGE_2D, 3: Gpu.ImageType.IMAGE_3D}

# The number of dimensions of each type of image; the layers count as one dimension. All other types
# have three.
_N_DIMENSIONS = {Gpu.ImageType.IMAGE_1D: 1, Gpu.ImageType.IMAGE_1D_BUFFER: 1,
                 Gpu.ImageType.IMAGE_1D_ARRAY: 2, Gpu.ImageType.IMAGE_2D: 2}

_WRONG_SIZE = "the target has {} bytes, but the region has {} bytes"

_MODES = {None: Gpu.MemoryFlags.NONE, "r": Gpu.MemoryFlags.READ_ONLY,
          "w": Gpu.MemoryFlags.WRITE_ONLY}


def _get(name):
    """A read-only property that calls a getter."""
    return property(lambda self: getattr(self, "get_" + name)())


def _property(name):
    """A read-only property of Python that reads the GObject property."""
    name = name.replace("_", "-")
    return property(lambda self: self.get_property(name))


def to_format(value):
    """Converts to a Gpu.ImageFormat: accepts a format, or its text, such as "rgba-unorm8"."""
    return Gpu.ImageFormat.new_from_string(value) if isinstance(value, str) else value


def to_color(value, name="a color"):
    """Converts a Gpu.Color, a number for all components, or a tuple of up to four components.
    Omitted components are 0, and omitted alpha is 1."""
    if isinstance(value, Gpu.Color):
        return value
    single = not hasattr(value, "__iter__") or getattr(value, "ndim", 1) == 0
    try:
        if isinstance(value, (str, bytes, bytearray, dict, set)):
            raise TypeError
        components = array.array("d", (value,) if single else value)
    except TypeError:
        raise TypeError(f"{name} must be a Gpu.Color or 1 to 4 numbers, not {value!r}") from None
    if not 1 <= len(components) <= 4:
        raise ValueError(f"{name} has 1 to 4 components, not {len(components)}")
    if single:
        return Gpu.Color.new(*components * 4)
    return Gpu.Color.new(*components, *(0.0, 0.0, 0.0, 1.0)[len(components):])


def _describe(flags, format, image_type, extent):
    """Converts the arguments that all constructors share. Without a type, the image has as many
    dimensions as the extent has numbers."""
    if isinstance(extent, Gpu.Extent):
        n_dimensions = 3 if extent.depth > 1 else 2 if extent.height > 1 else 1
    else:
        if type(extent) is not tuple:
            extent = to_numbers(extent, 3, "a size")
        n_dimensions = len(extent)
        extent = to_extent(extent)
    if image_type is None:
        image_type = _TYPES[n_dimensions]
    return (checked(flags, Gpu.MemoryFlags, "flags"), to_format(format),
            checked(image_type, Gpu.ImageType, "image_type"), extent)


def _to_texels(data, n_channels):
    """Returns the array for the texels of an image, and the length of its last dimension if that
    dimension holds the channels. The fields of a structure of equal types become the channels."""
    import numpy
    data = numpy.asarray(data)
    if not data.flags.c_contiguous or not data.dtype.isnative:
        data = numpy.ascontiguousarray(data, data.dtype.newbyteorder("="))
    names = data.dtype.names or ()
    fields = {data.dtype[name] for name in names}
    if n_channels is None and len(fields) == 1:
        field = fields.pop()
        if field.itemsize * len(names) == data.dtype.itemsize:
            return data.view(field).reshape(*data.shape, len(names)), len(names)
    return data, n_channels


@functools.lru_cache(64)
def _to_format_of(dtype, n_channels, normalized):
    if dtype.name not in _CHANNELS:
        raise TypeError(f"an array of dtype {dtype} cannot become an image: use "
                        f"{', '.join(_CHANNELS)}, with n_channels of them in a texel")
    if normalized and dtype.name not in _NORMALIZED:
        raise TypeError(f"an image of dtype {dtype} cannot be normalized: only int8, uint8, int16 "
                        "and uint16 can")
    n_channels = 1 if n_channels is None else n_channels
    if not 1 <= n_channels <= 4:
        raise ValueError(f"a texel has 1 to 4 channels, not {n_channels}")
    channel_type = _NORMALIZED[dtype.name] if normalized else dtype.name
    return Gpu.ImageFormat.new_from_string(f"{'rgba'[:n_channels]}-{channel_type}")


class FormatMethods:
    n_channels = _get("n_channels")
    channel_size = _get("channel_size")
    texel_size = _get("texel_size")

    def __new__(cls, order, channel_type=None):
        """Creates a format: Gpu.ImageFormat("rgba-unorm8"), or
        Gpu.ImageFormat(Gpu.ChannelOrder.RGBA, Gpu.ChannelType.UNORM8)."""
        if channel_type is None:
            return Gpu.ImageFormat.new_from_string(order)
        return Gpu.ImageFormat.new(order, channel_type)

    def __init__(self, *args, **kwargs):
        pass

    @property
    def dtype(self):
        """The NumPy dtype of a channel, or of a texel if the channels are packed."""
        import numpy
        name = self.channel_type.value_nick.replace("-", "_")
        return numpy.dtype(_DTYPES.get(name, name))

    def __eq__(self, other):
        return self.equal(other) if isinstance(other, Gpu.ImageFormat) else NotImplemented

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return self.hash()

    def __reduce__(self):
        return type(self), (self.to_string(),)

    def __str__(self):
        return self.to_string()

    def __repr__(self):
        return f"Gpu.ImageFormat('{self.to_string()}')"


class ColorMethods:

    def __new__(cls, red=0.0, green=0.0, blue=0.0, alpha=1.0):
        """The value of a texel. Functions also accept a number for all four components, or a tuple
        of up to four components."""
        return Gpu.Color.new(red, green, blue, alpha)

    def __init__(self, *args, **kwargs):
        pass

    def __iter__(self):
        return iter((self.red, self.green, self.blue, self.alpha))

    def __eq__(self, other):
        return tuple(self) == tuple(other) if isinstance(other, Gpu.Color) else NotImplemented

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash(tuple(self))

    def __reduce__(self):
        return type(self), tuple(self)

    def __repr__(self):
        return "Gpu.Color({}, {}, {}, {})".format(*self)


class ImageMethods:
    """Gpu.Image(context, "rgba-unorm8", (width, height)). An origin is (x, y, z) in texels; omitted
    numbers are 0. Omitted numbers of an extent are 1, and an extent of None reaches from the origin
    to the end of the image."""
    format = _get("format")
    image_type = _get("image_type")
    width = _property("width")
    height = _property("height")
    depth = _property("depth")
    parent_level = property(lambda self: self.get_property("parent-level"))
    n_layers = property(lambda self: self.get_property("n-layers"))
    n_levels = _get("n_levels")
    texel_size = _property("texel_size")
    row_pitch = _get("row_pitch")
    slice_pitch = _get("slice_pitch")
    buffer = _get("buffer")
    parent = _get("parent")

    def __new__(cls, context, format, extent, image_type=None, flags=Gpu.MemoryFlags.NONE,
                n_levels=1):
        """Creates an image. Without image_type, the image has as many dimensions as extent has
        numbers; trailing dimensions of size 1 in a Gpu.Extent do not count."""
        if n_levels == 1:
            return cls.new(context, flags, format, image_type, extent)
        return cls.new_mipmapped(context, flags, format, image_type, extent, n_levels)

    def __init__(self, *args, **kwargs):
        pass

    @classmethod
    def from_array(cls, context, array, n_channels=None, mode=None, normalized=False,
                   image_type=None):
        """Creates an image from a copy of a NumPy array of one to three dimensions. With
        n_channels, the array has one more dimension, the last, which holds the 1, 2 or 4 channels
        of a texel. One channel needs no such dimension: with n_channels=1, a last dimension of
        length 1 is that of the channel, unless it is the only dimension. Few devices support 3
        channels: pad RGB to RGBA. If the elements are structures whose fields all have one type,
        the fields are the channels.

        Kernels read integers as integers, for example with read_imageui(). With normalized=True
        they read fractions: uint8 becomes 0.0 to 1.0, as for textures in PyCUDA. Mode "r" is for
        images that kernels only read, and "w" for images that kernels only write. If image_type is
        an array type, the first dimension holds the layers."""
        if n_channels is not None:
            n_channels = to_index(n_channels, "n_channels")
        array, n_channels = _to_texels(array, n_channels)
        shape = array.shape
        if n_channels is not None and (n_channels != 1 or len(shape) > 1 and shape[-1] == 1):
            if shape[-1:] != (n_channels,):
                raise ValueError(f"an array of shape {shape} has no texels of {n_channels} "
                                 "channels")
            shape = shape[:-1]
        if not 1 <= len(shape) <= 3:
            raise ValueError(f"an array of shape {array.shape} cannot become an image of 1 to 3 "
                             "dimensions")
        if mode not in _MODES:
            raise ValueError(f'mode must be None, "r" or "w", not {mode!r}')
        format = _to_format_of(array.dtype, n_channels, normalized)
        try:
            return cls.new_from_data(context, format, shape[::-1], array, image_type, _MODES[mode])
        except GLib.Error as error:
            if n_channels == 3 and error.matches(Gpu.error_quark(), Gpu.Error.NOT_SUPPORTED):
                error.message += "; pad the array to four channels"
            raise

    @classmethod
    def new(cls, context, flags, format, type, extent):
        """Creates an image. Gpu.Image(context, format, extent) has defaults for the flags and the
        type."""
        return Gpu.Image.new(context, *_describe(flags, format, type, extent))

    @classmethod
    def new_mipmapped(cls, context, flags, format, type, extent, n_levels):
        """Creates an image with mip levels: see get_level()."""
        return Gpu.Image.new_mipmapped(context, *_describe(flags, format, type, extent), n_levels)

    @classmethod
    def new_from_data(cls, context, format, extent, data, image_type=None,
                      flags=Gpu.MemoryFlags.NONE, row_pitch=0, slice_pitch=0):
        """Creates an image that holds a copy of bytes-like data."""
        return cls.new_from_bytes(context, flags, format, image_type, extent, data, row_pitch,
                                  slice_pitch)

    @classmethod
    def new_from_bytes(cls, context, flags, format, type, extent, bytes, row_pitch=0,
                       slice_pitch=0):
        """Creates an image that holds a copy of bytes-like data."""
        return Gpu.Image.new_from_bytes(context, *_describe(flags, format, type, extent),
                                        to_glib_bytes(bytes, copy=False), row_pitch, slice_pitch)

    @classmethod
    def new_for_host_bytes(cls, context, flags, format, type, extent, bytes, row_pitch=0,
                           slice_pitch=0):
        """Creates an image over the memory of a GLib.Bytes."""
        return Gpu.Image.new_for_host_bytes(context, *_describe(flags, format, type, extent), bytes,
                                            row_pitch, slice_pitch)

    @classmethod
    def new_for_buffer(cls, buffer, flags, format, image_type, width, height=1, row_pitch=0):
        """Creates an image over the bytes of a buffer."""
        return Gpu.Image.new_for_buffer(buffer, *_describe(flags, format, image_type, 1)[:3], width,
                                        height, row_pitch)

    @classmethod
    def new_wrapped(cls, context, handle, format, mode, owner=None):
        """Creates an image over a driver's handle, a cl_mem or a CUarray as an int, that other
        code has created. format is the Gpu.ImageFormat of the texels, its name, or None for the
        format that the driver reports.

        With Gpu.WrapMode.ADOPT the image takes ownership of the handle. With Gpu.WrapMode.BORROW
        the caller keeps it; the library keeps a reference to owner, a GLib.Bytes or None, as long
        as an object or submitted work uses the handle. If the call fails, the caller keeps the
        ownership.

        Raises Gpu.Error.INVALID_ARGUMENT if the handle is 0, is not an image or has another format,
        and Gpu.Error.NOT_SUPPORTED on the host, which has no images to wrap."""
        return Gpu.Image.new_wrapped(context, handle, to_format(format), mode, owner)

    @property
    def extent(self):
        return tuple(self.get_extent())

    @property
    def dtype(self):
        """The NumPy dtype of the array that to_numpy() returns."""
        return self.get_format().dtype

    @property
    def shape(self):
        """The shape of the array that to_numpy() returns: rows first, channels last."""
        return self._shape(self.extent)

    def _shape(self, extent):
        n_dimensions = _N_DIMENSIONS.get(self.get_image_type(), 3)
        return tuple(extent)[:n_dimensions][::-1] + self._channels()

    def _channels(self):
        """Returns the end of a shape: (n_channels,), or () if a texel is one number."""
        format = self.get_format()
        n_channels = format.get_n_channels()
        return (n_channels,) if n_channels > 1 and format.get_channel_size() > 0 else ()

    def _rest(self, origin, extent):
        """Returns the numbers of an extent. None reaches from the origin to the end of the
        image."""
        if extent is not None:
            return tuple(to_extent(extent))
        first = tuple(to_origin(origin) or (0, 0, 0))
        return tuple(max(size - at, 0) for size, at in zip(self.extent, first))

    def _region(self, origin, extent):
        """Returns a region as a Gpu.Layout and a Gpu.Extent, and its size in bytes. Rejects a
        region that exceeds the image, so that the caller allocates no memory for such a region."""
        if origin is None and extent is None:
            extent = self.get_extent()
            return None, extent, self._get_size_of(extent)
        origin = to_origin(origin)
        lengths = self._rest(origin, extent)
        extent = Gpu.Extent.new(*lengths)
        ends = map(sum, zip(tuple(origin or (0, 0, 0)), lengths))
        if any(end > size for end, size in zip(ends, self.extent)):
            Gpu.Image.read_bytes(self, None, origin, extent, None)      # raises the error
        return origin, extent, self._get_size_of(extent)

    def _get_size_of(self, extent):
        width, height, depth = extent
        return width * height * depth * self.texel_size

    def _get_stream(self, stream):
        if stream is None:
            context = self.get_context()
            stream = context.get_default_stream() if context is not None else None
        if stream is None:
            Gpu.Image.read_bytes(self, None, None, None, None)      # raises the precise error
        return checked(to_stream(stream, "stream", (self,)), Gpu.Stream, "stream")

    def _submit_write(self, data, size, origin, extent, row_pitch, slice_pitch, stream):
        """Submits a write of a GLib.Bytes of a size."""
        if origin is None and extent is None:
            extent = self.get_extent()
        else:
            origin = to_origin(origin)
            extent = to_region(self._rest(origin, extent))
        if not row_pitch and not slice_pitch and size > self._get_size_of(extent):
            Gpu.Image.write_bytes(self, stream, origin, extent, data, 0, 0, None)   # raises
        layout = to_layout((0, 0, 0, row_pitch, slice_pitch)) if row_pitch or slice_pitch else None
        Gpu.Stream.write_region(stream, self, origin, data, layout, extent)

    def _submit_read(self, target, origin, extent, stream):
        """Submits a read into a GLib.Bytes."""
        Gpu.Stream.read_region_into(stream, self, origin, target, None, to_region(extent))

    def write(self, data, origin=None, extent=None, row_pitch=0, slice_pitch=0, stream=None):
        """Copies bytes-like data to a region of the image and waits."""
        stream = self._get_stream(stream)
        with held(data) as kept:
            content, size = kept.bytes, kept.size       # a long copy continues after Ctrl-C
            run_copy(lambda: submit_and_wait(stream, lambda: self._submit_write(
                content, size, origin, extent, row_pitch, slice_pitch, stream)), size)
        return True

    async def write_async(self, data, origin=None, extent=None, row_pitch=0, slice_pitch=0,
                          stream=None):
        """write() for asyncio. The data must not change before the write has completed."""
        stream = self._get_stream(stream)
        with held(data) as kept:
            await submit_and_await(stream, lambda: self._submit_write(
                kept.bytes, kept.size, origin, extent, row_pitch, slice_pitch, stream))
        return True

    def _read(self, target, origin, extent, stream, size):
        run_copy(lambda: submit_and_wait(
            stream, lambda: self._submit_read(target, origin, extent, stream)), size)

    def read(self, origin=None, extent=None, stream=None):
        """Returns a region of the image as bytes."""
        origin, extent, size = self._region(origin, extent)
        data = new_bytes(None, size)
        stream = self._get_stream(stream)
        with held(data) as kept:
            self._read(kept.bytes, origin, extent, stream, size)
        return data

    async def read_async(self, origin=None, extent=None, stream=None):
        """read() for asyncio."""
        origin, extent, size = self._region(origin, extent)
        data = new_bytes(None, size)
        target, stream = hold(Exported(data)), self._get_stream(stream)
        await submit_and_await(stream, lambda: self._submit_read(target, origin, extent, stream))
        return data

    def read_into(self, target, origin=None, extent=None, stream=None):
        """Reads a region of the image into a writable, contiguous bytes-like object of the same
        size and waits. Returns the number of bytes."""
        origin, extent, size = self._region(origin, extent)
        with held(target, True) as kept:
            if kept.size != size:
                raise ValueError(_WRONG_SIZE.format(kept.size, size))
            stream = self._get_stream(stream)
            self._read(kept.bytes, origin, extent, stream, size)
        return size

    async def read_into_async(self, target, origin=None, extent=None, stream=None):
        """read_into() for asyncio. The target must be contiguous. Nothing else may access it before
        the read has completed, even if the await is cancelled."""
        origin, extent, size = self._region(origin, extent)
        stream = self._get_stream(stream)
        with held(target, True) as kept:
            if kept.size != size:
                raise ValueError(_WRONG_SIZE.format(kept.size, size))
            await submit_and_await(
                stream, lambda: self._submit_read(kept.bytes, origin, extent, stream))
        return size

    def to_numpy(self, origin=None, extent=None, stream=None):
        """Returns a new NumPy array with a region of the image. The shape is the extent in reverse
        order, with the dimensions and layers of the image type, followed by the channels if there
        are several. A region without texels is an array without elements."""
        import numpy
        origin, extent, size = self._region(origin, extent)
        shape = self._shape(extent)
        if size == 0 and 0 not in shape:        # the extent is 0 in a dimension that shape lacks
            shape = (0, *shape[1:])
        array = numpy.empty(shape, self.dtype)
        self.read_into(array, origin, extent, stream)
        return array

    def _submit_copy(self, source, origin, source_origin, extent, stream):
        origin, source_origin = to_origin(origin), to_layout(source_origin)
        if isinstance(source, Gpu.Image):
            extent = source._rest(source_origin, extent)
        else:
            extent = self._rest(origin, extent)
        stream.copy_region(self, source, extent, origin, source_origin)

    def copy(self, source, origin=None, source_origin=None, extent=None, stream=None):
        """Copies another image, or a buffer, to this image and waits. The source_origin of a buffer
        is (x, y, z, row_pitch, slice_pitch) in bytes."""
        stream = self._get_stream(stream)
        submit_and_wait(
            stream, lambda: self._submit_copy(source, origin, source_origin, extent, stream))
        return True

    def fill(self, color, origin=None, extent=None, stream=None):
        """Fills a region with a Gpu.Color, or with the components of one, and waits."""
        stream = self._get_stream(stream)
        submit_and_wait(stream, lambda: stream.fill_image(self, color, origin, extent))
        return True

    def map(self, flags=Gpu.MapFlags.NONE, origin=None, extent=None, stream=None):
        """Maps a region of the image for the host and waits. Returns a Gpu.Mapping."""
        stream = self._get_stream(stream)
        return submit_and_wait(stream, lambda: stream.map_image(self, flags, origin, extent))

    def get_level(self, level):
        """Returns the image of a mip level, which shares the memory of this image. Level 0 is the
        largest."""
        return Gpu.Image.get_level(self, level)

    def __repr__(self):
        if self.is_released():
            return "<Gpu.Image released>"
        sizes = " x ".join(map(str, self.extent))
        return f"<Gpu.Image of {sizes} texels {self.get_format()}>"


def view_texels(image, extent, mapping, exported):
    """Returns a NumPy array over the texels of a mapping, without a copy."""
    numpy = loaded_numpy()
    shape = image._shape(extent)
    tail = (image.dtype.itemsize,) * len(image._channels())
    pitches = (mapping.get_slice_pitch(), mapping.get_row_pitch(), image.texel_size)
    strides = pitches[3 - (len(shape) - len(tail)):] + tail
    return numpy.ndarray(shape, image.dtype, exported, 0, strides)


def _to_property(name, value, spec):
    """Checks the type and limits of a value for a property, and converts it."""
    if spec.name == "border-color":
        return to_color(value, name)
    return to_property(name, value, spec)


def _to_properties(values):
    """Converts arguments to properties of a sampler. GObject itself would only warn of wrong
    values."""
    specs = {spec.name.replace("-", "_"): spec for spec in Gpu.Sampler.list_properties()
             if spec.flags & GObject.ParamFlags.WRITABLE}
    for name in values:
        if name not in specs:
            raise TypeError(f"Gpu.Sampler() has no argument '{name}'")
    return {name: _to_property(name, value, specs[name]) for name, value in values.items()}


def _are_plain(context, normalized_coordinates, address_mode, filter_mode, properties):
    """Returns whether Gpu.Sampler.new() takes these arguments."""
    return (type(normalized_coordinates) is bool and type(address_mode) is Gpu.AddressMode
            and type(filter_mode) is Gpu.FilterMode and not properties
            and isinstance(context, Gpu.Context))


class SamplerMethods:
    """Gpu.Sampler(context, normalized_coordinates=False,
    address_mode=Gpu.AddressMode.CLAMP_TO_EDGE, filter_mode=Gpu.FilterMode.NEAREST).

    All other properties are keywords as well: address_mode_x, address_mode_y, address_mode_z,
    border_color, mip_filter_mode, read_mode, max_anisotropy, lod_bias, min_lod, max_lod. Colors are
    given as for image.fill()."""
    context = _get("context")
    normalized_coordinates = _property("normalized_coordinates")
    address_mode_x = _property("address_mode_x")
    address_mode_y = _property("address_mode_y")
    address_mode_z = _property("address_mode_z")
    filter_mode = _property("filter_mode")
    mip_filter_mode = _property("mip_filter_mode")
    read_mode = _property("read_mode")
    max_anisotropy = _property("max_anisotropy")
    lod_bias = _property("lod_bias")
    min_lod = _property("min_lod")
    max_lod = _property("max_lod")
    border_color = _get("border_color")
    native_handle = _get("native_handle")

    def __new__(cls, context, normalized_coordinates=False,
                address_mode=Gpu.AddressMode.CLAMP_TO_EDGE,
                filter_mode=Gpu.FilterMode.NEAREST, **properties):
        if _are_plain(context, normalized_coordinates, address_mode, filter_mode, properties):
            return Gpu.Sampler.new(context, normalized_coordinates, address_mode, filter_mode)
        checked(normalized_coordinates, bool, "normalized_coordinates")
        checked(address_mode, Gpu.AddressMode, "address_mode")
        for axis in "xyz":
            properties.setdefault(f"address_mode_{axis}", address_mode)
        properties.update(normalized_coordinates=normalized_coordinates, filter_mode=filter_mode)
        self = GObject.new(cls, context=context, **_to_properties(properties))
        self.init(None)
        return self

    def __init__(self, *args, **kwargs):
        pass

    def __eq__(self, other):
        return self.equal(other) if isinstance(other, Gpu.Sampler) else NotImplemented

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return self.hash()

    def __repr__(self):
        texts = []
        for spec in Gpu.Sampler.list_properties():
            if spec.name not in ("context", "native-handle"):
                name = spec.name.replace("-", "_")
                value = getattr(self, name)
                texts.append(f"{name}={getattr(value, 'value_nick', value)}")
        return f"<Gpu.Sampler {' '.join(texts)}>"
