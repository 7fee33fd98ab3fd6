// SPDX-License-Identifier: LGPL-2.1-or-later
//
// JavaScript overrides of the Gpu namespace. Data are typed arrays, ArrayBuffers, DataViews or
// GLib.Bytes. Every asynchronous function returns a promise if it is called without a callback. A
// null stream selects the default stream of the context.
/* exported _init */

const {Gio, GLib} = imports.gi;
const System = imports.system;

let Gpu;

const TypedArray = Object.getPrototypeOf(Uint8Array);

// --- data, sizes and arguments -------------------------------------------------------------

function _toUint8Array(data) {
    if (data instanceof Uint8Array)
        return data;
    if (data instanceof TypedArray || data instanceof DataView)
        return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    if (data instanceof ArrayBuffer)
        return new Uint8Array(data);
    if (data instanceof GLib.Bytes)
        return data.toArray();
    throw new TypeError(`data must be a typed array, ArrayBuffer, DataView or GLib.Bytes, not ${
        data === null ? 'null' : typeof data}`);
}

function _toBytes(data) {
    return data instanceof GLib.Bytes ? data : new GLib.Bytes(_toUint8Array(data));
}

// Returns an array of another type over the same bytes.
function _as(bytes, Type) {
    if (Type === Uint8Array)
        return bytes;
    const size = Type.BYTES_PER_ELEMENT;
    if (bytes.byteLength % size !== 0)
        throw new RangeError(`${bytes.byteLength} bytes are not a multiple of the element size of ${
            Type.name}`);
    if (bytes.byteOffset % size !== 0)
        bytes = bytes.slice();
    return new Type(bytes.buffer, bytes.byteOffset, bytes.byteLength / size);
}

// Returns the bytes of a fill pattern. A number is one byte.
function _toPattern(pattern) {
    if (typeof pattern !== 'number')
        return _toUint8Array(pattern);
    if (!Number.isInteger(pattern) || pattern < 0 || pattern > 255)
        throw new RangeError(`a pattern of one byte must be 0 to 255, not ${pattern}`);
    return Uint8Array.of(pattern);
}

function _isIterable(value) {
    return typeof value === 'object' && value !== null && Symbol.iterator in value;
}

function _toNumbers(value, most, fallback, what) {
    const numbers = _isIterable(value) ? [...value] : [value];
    if (numbers.length < 1 || numbers.length > most)
        throw new RangeError(`${what} must have 1 to ${most} numbers, not ${numbers.length}`);
    for (const number of numbers) {
        if (!Number.isInteger(number) || number < 0)
            throw new RangeError(`${what} must have whole numbers of at least 0, not ${number}`);
    }
    return [...numbers, ...Array(most - numbers.length).fill(fallback)];
}

// Converts a number, or an array of up to three, to a Gpu.Extent.
function _toExtent(value, what = 'extent') {
    if (value === null || value === undefined)
        return null;
    return value instanceof Gpu.Extent
        ? value : Gpu.Extent.new(..._toNumbers(value, 3, 1, what));
}

// Converts a number, or an array of up to three, to the Gpu.Extent of an offset.
function _toOffset(value) {
    if (value === null || value === undefined)
        return null;
    return value instanceof Gpu.Extent
        ? value : Gpu.Extent.new(..._toNumbers(value, 3, 0, 'globalOffset'));
}

// Converts up to five numbers [x, y, z, rowPitch, slicePitch] to a Gpu.Layout.
function _toLayout(value) {
    if (value === null || value === undefined)
        return null;
    return value instanceof Gpu.Layout
        ? value : Gpu.Layout.new(..._toNumbers(value, 5, 0, 'layout'));
}

// Converts to a Gpu.ImageFormat: accepts a format, or its text, such as 'rgba-unorm8'.
function _toFormat(value) {
    return typeof value === 'string' ? Gpu.ImageFormat.new_from_string(value) : value;
}

// Converts to a Gpu.Color: accepts a color, a number for all components, or an array of up to four
// components. Omitted components are 0, and omitted alpha is 1.
function _toColor(value) {
    if (value instanceof Gpu.Color)
        return value;
    if (typeof value === 'number')
        return Gpu.Color.new(value, value, value, value);
    const numbers = _isIterable(value) ? [...value] : [value];
    if (numbers.some(number => typeof number !== 'number'))
        throw new TypeError(`a color must be a Gpu.Color or 1 to 4 numbers, not ${String(value)}`);
    if (numbers.length < 1 || numbers.length > 4)
        throw new RangeError(`a color must have 1 to 4 components, not ${numbers.length}`);
    return Gpu.Color.new(...numbers, ...[0, 0, 0, 1].slice(numbers.length));
}

// A kernel argument: size bytes of local memory, which a work-group shares.
class Local {
    constructor(size) {
        this.size = size;
    }
}

function _addArgument(args, value, index) {
    if (value === null || value instanceof Gpu.Memory)
        args.add_memory(value);
    else if (value instanceof Gpu.Array)
        args.add_array(value);
    else if (value instanceof Gpu.MemoryBlock)
        args.add_address(value.get_address());
    else if (value instanceof Gpu.Sampler)
        args.add_sampler(value);
    else if (Array.isArray(value) && value[0] instanceof Gpu.Image)
        args.add_texture(...value);
    else if (value instanceof Local)
        args.add_local(value.size);
    else if (typeof value === 'boolean' || Number.isSafeInteger(value) && !Object.is(value, -0))
        args.add_int(Number(value));
    else if (typeof value === 'number')
        args.add_double(value);
    else if (typeof value === 'bigint')
        (value < 0n ? args.add_int : args.add_uint).call(args, value);
    else if (typeof value === 'object')
        args.add_value(_toUint8Array(value));
    else
        throw new TypeError(`argument ${index} must be memory, an array, a sampler, null, a ` +
            `number, Gpu.Local or data, not a ${typeof value}`);
}

// Converts kernel arguments. indirect lists memory that the kernel accesses only through pointers
// in other memory.
function _toArguments(values, indirect = []) {
    if (values instanceof Gpu.Arguments)
        return values;
    const args = Gpu.Arguments.new();
    values.forEach((value, index) => _addArgument(args, value, index));
    indirect.forEach(memory => args.add_indirect(memory));
    return args;
}

function _rest(memory, offset, size) {
    return size === null ? Math.max(memory.get_size() - Number(offset), 0) : size;
}

// --- classes -----------------------------------------------------------------------------

function _promises() {
    const pairs = [
        [Gpu.Array.prototype, 'read_bytes', 'read_strided', 'write_bytes'],
        [Gpu.Buffer.prototype, 'copy', 'map'],
        [Gpu.Context.prototype, 'init'],
        [Gpu.Event.prototype, 'wait'],
        [Gpu.HostMemory.prototype, 'synchronize'],
        [Gpu.Image.prototype, 'read_bytes', 'write_bytes', 'map'],
        [Gpu.Memory.prototype, 'splice', 'wait'],
        [Gpu.Program, 'new_from_source'],
        [Gpu.Stream.prototype, 'synchronize'],
        [Gpu.Svm.prototype, 'map'],
    ];
    for (const [object, ...names] of pairs) {
        for (const name of names)
            Gio._promisify(object, `${name}_async`, `${name}_finish`);
    }
}

// Functions whose last parameter before the callback reports the progress. Gio._promisify() would
// take it for the callback. The numbers are the positions of the cancellable, which, like the
// parameters after it, may be omitted.
function _promisesWithProgress() {
    const functions = [
        [Gpu.Buffer.prototype, 'read_bytes', 3],
        [Gpu.Buffer.prototype, 'write_bytes', 3],
        [Gpu.Memory.prototype, 'read_file', 5],
        [Gpu.Memory.prototype, 'write_file', 5],
    ];
    for (const [object, name, place] of functions) {
        const native = object[`${name}_async`];
        object[`${name}_async`] = function (...args) {
            const [cancellable = null, progress = null, callback = null] = args.splice(place);
            if (callback !== null)
                return native.call(this, ...args, cancellable, progress, callback);
            return new Promise((resolve, reject) => {
                native.call(this, ...args, cancellable, progress, (self, result) => {
                    try {
                        resolve(self[`${name}_finish`](result));
                    } catch (error) {
                        reject(error);
                    }
                });
            });
        };
    }
}

// All functions return promises. Options are {stream, cancellable} and the parameters named below.
function _buffer(prototype) {
    // Writes data to the buffer. The data are copied before the call returns. progress(current,
    // total) is called with the number of bytes written so far, at most 25 times per second, and
    // once with the total.
    prototype.write = async function (data, offset = 0,
        {stream = null, cancellable = null, progress = null} = {}) {
        await this.write_bytes_async(stream, offset, _toBytes(data), cancellable, progress);
    };

    // Reads the buffer, or a part of it, to a Uint8Array or another type of array. progress is as
    // in write().
    prototype.read = async function (offset = 0, size = null,
        {type = Uint8Array, stream = null, cancellable = null, progress = null} = {}) {
        const bytes = await this.read_bytes_async(stream, offset, _rest(this, offset, size),
            cancellable, progress);
        return _as(bytes.toArray(), type);
    };

    // Reads from the buffer into a typed array, ArrayBuffer or DataView, and resolves to that
    // object.
    prototype.readInto = async function (target, offset = 0,
        {stream = null, cancellable = null} = {}) {
        const bytes = _toUint8Array(target);
        bytes.set(await this.read(offset, bytes.length, {stream, cancellable}));
        return target;
    };

    // Reads the buffer in pieces: for await (const piece of buffer.pieces(65536))
    prototype.pieces = async function* (size, {offset = 0, ...options} = {}) {
        if (!Number.isInteger(size) || size < 1)
            throw new RangeError(`pieces must have at least 1 byte, not ${size}`);
        for (; offset < this.get_size(); offset += size)
            yield await this.read(offset, Math.min(size, this.get_size() - offset), options);
    };

    // Fills the buffer with a repeated pattern: data, or a number for a single byte.
    prototype.fill = async function (pattern, offset = 0, size = null,
        {stream = null, cancellable = null} = {}) {
        const on = stream ?? this.get_context().get_default_stream();
        cancellable?.set_error_if_cancelled();
        on.fill(this, pattern, offset, size);
        await on.record().wait_async(cancellable);
    };

    // Copies another buffer to this one.
    prototype.copy = async function (source,
        {offset = 0, sourceOffset = 0, size = null, stream = null, cancellable = null} = {}) {
        await this.copy_async(stream, offset, source, sourceOffset,
            _rest(source, sourceOffset, size), cancellable);
    };

    // Maps the buffer for the host; resolves to a Gpu.Mapping.
    prototype.map = async function (flags = Gpu.MapFlags.NONE, offset = 0, size = null,
        {stream = null, cancellable = null} = {}) {
        return this.map_async(stream, flags, offset, _rest(this, offset, size), cancellable);
    };
}

// Typed arrays and their element types. Also defines the attributes of Gpu.DType, such as
// Gpu.DType.FLOAT32.
function _typedArrays() {
    const kinds = Gpu.DTypeKind;
    const Half = globalThis.Float16Array ?? Uint16Array;
    const types = [];
    for (const [kind, name, sizes] of [
        [kinds.BOOL, 'BOOL', {1: Uint8Array}],
        [kinds.INT, 'INT', {1: Int8Array, 2: Int16Array, 4: Int32Array, 8: BigInt64Array}],
        [kinds.UINT, 'UINT', {1: Uint8Array, 2: Uint16Array, 4: Uint32Array, 8: BigUint64Array}],
        [kinds.FLOAT, 'FLOAT', {2: Half, 4: Float32Array, 8: Float64Array}],
        [kinds.BFLOAT, 'BFLOAT', {2: Uint16Array}],
        [kinds.COMPLEX, 'COMPLEX', {8: null, 16: null}],
    ]) {
        for (const [size, type] of Object.entries(sizes)) {
            const dtype = Gpu.DType.get_number(kind, Number(size));
            Gpu.DType[kind === kinds.BOOL ? name : `${name}${size * 8}`] = dtype;
            types.push([dtype, type]);
        }
    }
    return types;
}

// Options are {stream, cancellable}. Functions that read and write return promises.
function _array(class_) {
    const types = _typedArrays();

    // Creates an array with a copy of a typed array, whose elements are in C order. The default is
    // one dimension.
    class_.from = function (context, data, shape = [data.length], {allocator = null,
        stream = null} = {}) {
        const found = types.find(([dtype, type]) =>
            type !== null && data instanceof type && dtype.get_kind() !== Gpu.DTypeKind.BOOL);
        const dtype = found?.[0] ?? (data instanceof Uint8ClampedArray ? Gpu.DType.UINT8 : null);
        if (dtype === null)
            throw new TypeError('data must be a typed array whose elements have a Gpu.DType');
        return class_.new_from_bytes(context, allocator, stream, dtype, shape,
            Gpu.ArrayOrder.C, _toBytes(data));
    };

    Object.defineProperties(class_.prototype, {
        shape: {
            get() {
                return [...this.get_shape() ?? []];
            },
        },
        strides: {
            get() {
                return [...this.get_strides() ?? []];
            },
        },
    });

    // Reads all elements in C order to a typed array of the element type, or to a Uint8Array if
    // JavaScript has no such typed array. bfloat16, and float16 without Float16Array, are read as
    // bits to a Uint16Array.
    class_.prototype.read = async function ({stream = null, cancellable = null} = {}) {
        const bytes = await this.read_bytes_async(stream, Gpu.ArrayOrder.C, cancellable);
        const data = bytes.get_data() ?? new Uint8Array();
        const Type = types.find(([dtype]) => dtype.equal(this.get_dtype()))?.[1] ?? Uint8Array;
        return new Type(data.slice().buffer);
    };

    // Writes elements in C order: a typed array of the element type, or bytes as a Uint8Array,
    // ArrayBuffer, DataView or GLib.Bytes. The data are copied before the call returns.
    class_.prototype.write = async function (data, {stream = null, cancellable = null} = {}) {
        const Type = types.find(([dtype]) => dtype.equal(this.get_dtype()))?.[1] ?? null;
        if (Type !== null && data instanceof TypedArray && ![Type, Uint8Array,
            Uint8ClampedArray].some(type => data instanceof type)) {
            throw new TypeError(`Gpu.Array.write(): data for ${
                this.get_dtype().get_name()} must be a ${Type.name} or bytes, not ${_show(data)}`);
        }
        await this.write_bytes_async(stream, Gpu.ArrayOrder.C, _toBytes(data), cancellable);
    };
}

// Options are {stream} and the parameters named below.
function _svm(prototype) {
    const native = {prefetch: prototype.prefetch, advise: prototype.advise,
        attach: prototype.attach};

    // Maps the memory for the host, at the same address. Returns a promise of a Gpu.Mapping.
    prototype.map = async function (flags = Gpu.MapFlags.NONE, offset = 0, size = null,
        {stream = null, cancellable = null} = {}) {
        return this.map_async(stream, flags, offset, _rest(this, offset, size), cancellable);
    };

    // Moves a range to the device, or to the host, before its use there.
    prototype.prefetch = function (flags = Gpu.MigrateFlags.NONE, offset = 0, size = null,
        {stream = null} = {}) {
        return native.prefetch.call(this, stream, flags, offset, _rest(this, offset, size));
    };

    // Advises the driver how a range will be used by a device, or by the host if device is null.
    prototype.advise = function (advice, device = null, offset = 0, size = null) {
        return native.advise.call(this, advice, offset, _rest(this, offset, size), device);
    };

    // From this point of the stream on, only the users that attachment names may use the memory.
    prototype.attach = function (attachment, {stream = null} = {}) {
        return native.attach.call(this, stream, attachment);
    };
}

function _restOfImage(image, {x, y, z}) {
    const {width, height, depth} = image.get_extent();
    return [width - x, height - y, depth - z].map(size => Math.max(size, 0));
}

// All functions return promises. Options are {stream, cancellable} and the parameters named below.
// An origin is [x, y, z] in texels; omitted numbers are 0. Omitted numbers of an extent are 1, and
// an extent of null reaches to the end of the image.
function _image(prototype) {
    // Writes data to a region. The data are copied before the call returns.
    prototype.write = async function (data, {origin = null, extent = null, rowPitch = 0,
        slicePitch = 0, stream = null, cancellable = null} = {}) {
        await this.write_bytes_async(stream, _toLayout(origin), _toExtent(extent), _toBytes(data),
            rowPitch, slicePitch, cancellable);
    };

    // Reads a region to a Uint8Array or another type of array, without padding between rows.
    prototype.read = async function ({origin = null, extent = null, type = Uint8Array,
        stream = null, cancellable = null} = {}) {
        const bytes = await this.read_bytes_async(stream, _toLayout(origin), _toExtent(extent),
            cancellable);
        return _as(bytes.toArray(), type);
    };

    // Fills a region with a Gpu.Color, or with the components of one.
    prototype.fill = async function (color, {origin = null, extent = null, stream = null,
        cancellable = null} = {}) {
        const on = stream ?? this.get_context().get_default_stream();
        cancellable?.set_error_if_cancelled();
        on.fill_image(this, color, origin, extent);
        await on.record().wait_async(cancellable);
    };

    // Copies another image, or a buffer, to this image. The source origin of a buffer is [x, y, z,
    // rowPitch, slicePitch] in bytes.
    prototype.copy = async function (source, {origin = null, sourceOrigin = null, extent = null,
        stream = null, cancellable = null} = {}) {
        const [to, from] = [origin, sourceOrigin].map(value => _toLayout(value ?? 0));
        extent ??= source instanceof Gpu.Image
            ? _restOfImage(source, from) : _restOfImage(this, to);
        stream ??= this.get_context().get_default_stream();
        cancellable?.set_error_if_cancelled();
        stream.copy_region(this, source, extent, to, from);
        await stream.synchronize_async(cancellable);
    };

    // Maps a region for the host; resolves to a Gpu.Mapping.
    prototype.map = async function (flags = Gpu.MapFlags.NONE, {origin = null, extent = null,
        stream = null, cancellable = null} = {}) {
        return this.map_async(stream, flags, _toLayout(origin), _toExtent(extent), cancellable);
    };
}

// Makes get_max_image_extent() return only the Gpu.Extent, without the boolean of the C function.
function _context(prototype) {
    const native = prototype.get_max_image_extent;
    prototype.get_max_image_extent = function (type) {
        return native.call(this, type).at(-1);
    };
}

// Adds default arguments to constructors.
function _constructors() {
    const newContext = Gpu.Context.new;
    const newPool = Gpu.MemoryPool.new;
    const newWrapped = Gpu.Buffer.new_wrapped;

    Gpu.Context.new = (device, flags) => newContext(device, flags ?? Gpu.ContextFlags.NONE);
    Gpu.MemoryPool.new = (context, kind, flags) => newPool(context,
        kind ?? Gpu.MemoryPoolKind.AUTOMATIC, flags ?? Gpu.MemoryFlags.NONE);
    Gpu.Buffer.new_wrapped = (context, handle, size, mode, owner = null) =>
        newWrapped(context, handle, size, mode, owner);
}

// Makes constructors of images accept formats as strings, and sizes as arrays.
function _imageConstructors() {
    const native = {};
    for (const name of ['new', 'new_mipmapped', 'new_from_bytes', 'new_for_host_bytes',
        'new_for_buffer', 'new_wrapped'])
        native[name] = Gpu.Image[name];

    Gpu.Image.new = (context, flags, format, type, extent) =>
        native.new(context, flags, _toFormat(format), type, _toExtent(extent));
    Gpu.Image.new_mipmapped = (context, flags, format, type, extent, nLevels) =>
        native.new_mipmapped(context, flags, _toFormat(format), type, _toExtent(extent), nLevels);
    Gpu.Image.new_from_bytes = (context, flags, format, type, extent, data, rowPitch = 0,
        slicePitch = 0) =>
        native.new_from_bytes(context, flags, _toFormat(format), type, _toExtent(extent),
            _toBytes(data), rowPitch, slicePitch);
    Gpu.Image.new_for_host_bytes = (context, flags, format, type, extent, bytes, rowPitch = 0,
        slicePitch = 0) =>
        native.new_for_host_bytes(context, flags, _toFormat(format), type, _toExtent(extent),
            bytes, rowPitch, slicePitch);
    Gpu.Image.new_wrapped = (context, handle, format, mode, owner = null) =>
        native.new_wrapped(context, handle, _toFormat(format), mode, owner);
    Gpu.Image.new_for_buffer = (buffer, flags, format, type, width, height = 1, rowPitch = 0) =>
        native.new_for_buffer(buffer, flags, _toFormat(format), type, width, height, rowPitch);
}

// These functions enqueue work and return at once. The stream keeps references to memory and data.
function _stream(prototype) {
    const native = {};
    for (const name of ['write', 'fill', 'copy', 'map', 'copy_region', 'write_region',
        'read_region', 'fill_region', 'fill_image', 'map_image', 'migrate', 'record'])
        native[name] = prototype[name];

    prototype.write = function (destination, data, offset = 0) {
        return native.write.call(this, destination, offset, _toBytes(data));
    };

    // Returns a GLib.Bytes that is valid once the stream has completed the read.
    prototype.read = function (source, offset = 0, size = null) {
        return this.read_bytes(source, offset, _rest(source, offset, size));
    };

    prototype.fill = function (destination, pattern, offset = 0, size = null) {
        return native.fill.call(this, destination, offset, _rest(destination, offset, size),
            _toPattern(pattern));
    };

    prototype.copy = function (destination, source, size = null, destinationOffset = 0,
        sourceOffset = 0) {
        return native.copy.call(this, destination, destinationOffset, source, sourceOffset,
            _rest(source, sourceOffset, size));
    };

    prototype.map = function (memory, flags = Gpu.MapFlags.NONE, offset = 0, size = null) {
        return native.map.call(this, memory, flags, offset, _rest(memory, offset, size));
    };

    prototype.migrate = function (memories, flags = Gpu.MigrateFlags.NONE) {
        return native.migrate.call(this, memories, flags);
    };

    prototype.record = function (flags = Gpu.EventFlags.NONE) {
        return native.record.call(this, flags);
    };

    // Sizes of regions are numbers or arrays of up to three. A layout is [x, y, z, rowPitch,
    // slicePitch]; the last numbers may be omitted.
    prototype.copy_region = function (destination, source, extent, destinationLayout = null,
        sourceLayout = null) {
        return native.copy_region.call(this, destination, _toLayout(destinationLayout), source,
            _toLayout(sourceLayout), _toExtent(extent));
    };

    prototype.write_region = function (destination, data, extent, destinationLayout = null,
        dataLayout = null) {
        return native.write_region.call(this, destination, _toLayout(destinationLayout),
            _toBytes(data), _toLayout(dataLayout), _toExtent(extent));
    };

    prototype.read_region = function (source, extent, layout = null) {
        return native.read_region.call(this, source, _toLayout(layout), _toExtent(extent));
    };

    prototype.fill_region = function (destination, pattern, extent, layout = null) {
        return native.fill_region.call(this, destination, _toLayout(layout), _toExtent(extent),
            _toPattern(pattern));
    };

    prototype.fill_image = function (image, color, origin = null, extent = null) {
        return native.fill_image.call(this, image, _toColor(color), _toLayout(origin),
            _toExtent(extent));
    };

    prototype.map_image = function (image, flags = Gpu.MapFlags.NONE, origin = null,
        extent = null) {
        return native.map_image.call(this, image, flags, _toLayout(origin), _toExtent(extent));
    };

    // Launches a kernel over a grid of work-items. An argument is memory, null, a sampler, [image,
    // sampler] for a texture object of CUDA C++, a Gpu.Local, a number, or data for their bytes.
    prototype.launch = function (kernel, grid, block = null, args = [],
        {globalOffset = null, sharedSize = 0, flags = Gpu.LaunchFlags.NONE, indirect = []} = {}) {
        const prepared = [_toExtent(grid, 'grid'), _toExtent(block, 'block'),
            _toOffset(globalOffset), sharedSize, flags, _toArguments(args, indirect)];
        try {
            return this.launch_prepared(Gpu.Launch.new(kernel, ...prepared));
        } catch (error) {
            throw _ofLaunch(error);
        }
    };
}

// Returns the error as one of the function that the program called.
function _ofLaunch(error) {
    if (!error.matches?.(Gpu.Error, error.code))
        return error;
    const message = error.message.replace(/^gpu_(launch_new|stream_launch_prepared)\b/,
        'gpu_stream_launch');
    return new Gpu.Error({code: error.code, message});
}

function _kernel(prototype) {
    // Creates a Gpu.Launch for any number of calls of stream.launch_prepared().
    prototype.prepare = function (grid, block = null, args = [],
        {globalOffset = null, sharedSize = 0, flags = Gpu.LaunchFlags.NONE, indirect = []} = {}) {
        return Gpu.Launch.new(this, _toExtent(grid, 'grid'), _toExtent(block, 'block'),
            _toOffset(globalOffset), sharedSize, flags, _toArguments(args, indirect));
    };
}

function _mapping(prototype) {
    // Returns a copy of the mapped memory, or of a part of it, as a Uint8Array or another type.
    prototype.read = function (offset = 0, size = null, {type = Uint8Array} = {}) {
        return _as(this.read_bytes(offset, _rest(this, offset, size)).toArray(), type);
    };

    // Iterates over a copy of the mapped bytes: for (const byte of mapping)
    prototype[Symbol.iterator] = function () {
        return this.read()[Symbol.iterator]();
    };

    // Copies data to the mapped memory.
    prototype.write = function (data, offset = 0) {
        return this.write_bytes(offset, _toBytes(data));
    };

    // Returns the mapped memory for reading. gjs up to 1.74 returns an array over the memory, which
    // stays mapped as long as the array or another view of its buffer exists. Newer versions cannot
    // wrap foreign memory and return a copy; writes to the copy are lost.
    prototype.toUint8Array = function () {
        return this.get_bytes().toArray();
    };
    prototype.to_array = prototype.toUint8Array;

    // Unmaps at once. If arrays of toUint8Array() prevent that, runs the garbage collector and
    // tries again. Fails with Gpu.Error.BUSY if an array is still reachable, for example through a
    // variable.
    const native = prototype.unmap;
    prototype.unmap = function () {
        try {
            return native.call(this);
        } catch (error) {
            if (!(error instanceof GLib.Error) || !error.matches(Gpu.Error, Gpu.Error.BUSY))
                throw error;
        }
        System.gc();
        return native.call(this);
    };
}

function _hostMemory(prototype) {
    // read() and write() wait for the work that uses the memory. read() resolves to a copy of the
    // memory, or of a part of it, as a Uint8Array or another type of array.
    prototype.read = async function (offset = 0, size = null,
        {type = Uint8Array, cancellable = null} = {}) {
        await this.synchronize_async(Gpu.MapFlags.READ, cancellable);
        return _as(this.read_bytes(offset, _rest(this, offset, size), null).toArray(), type);
    };

    prototype.write = async function (data, offset = 0, {cancellable = null} = {}) {
        const bytes = _toBytes(data);
        await this.synchronize_async(Gpu.MapFlags.WRITE, cancellable);
        return this.write_bytes(offset, bytes, null);
    };

    // Returns the memory for reading. Wait with synchronize_async() first. gjs up to 1.74 returns
    // an array over the memory, and newer versions return a copy: see toUint8Array() of
    // Gpu.Mapping.
    prototype.toUint8Array = function () {
        return this.get_bytes().toArray();
    };
    prototype.to_array = prototype.toUint8Array;
}

function _event(prototype) {
    // Connecting to 'completed' makes the event watch for its completion.
    for (const name of ['connect', 'connect_after']) {
        const native = prototype[name];
        prototype[name] = function (signal, callback) {
            const id = native.call(this, signal, callback);
            try {
                if (signal === 'completed')
                    this.watch();
            } catch (error) {
                this.disconnect(id);
                throw error;
            }
            return id;
        };
    }

    // These functions return only the nanoseconds, without the boolean of the C functions.
    for (const name of ['get_duration', 'get_elapsed', 'get_profiling_time']) {
        const native = prototype[name];
        prototype[name] = function (...args) {
            const result = native.apply(this, args);
            return Array.isArray(result) ? result[result.length - 1] : result;
        };
    }
}

// --- checks of arguments -----------------------------------------------------------------

// Returns whether the value is an object literal, and not an instance of a class.
function _isPlain(value) {
    return typeof value === 'object' && value !== null && (value.constructor ?? Object) === Object;
}

// Describes a value in messages. Data may be large, so objects show only their class.
function _show(value) {
    if (typeof value === 'string')
        return `'${value}'`;
    if (typeof value === 'function')
        return value.name;
    if (typeof value !== 'object' || value === null)
        return String(value);
    return _isPlain(value)
        ? `{${Object.keys(value).join(', ')}}` : value.constructor.name.replace('_', '.');
}

const _number = {
    accepts: value => typeof value === 'number' && value >= 0 && value % 1 === 0 ||
        typeof value === 'bigint',
    expected: 'a whole number of at least 0',
};

// The tests of parameters and options, by name
const _checks = {
    flags: _number,
    offset: _number,
    destinationOffset: _number,
    sourceOffset: _number,
    size: _number,
    sharedSize: _number,
    rowPitch: _number,
    slicePitch: _number,
    args: {
        accepts: value => Array.isArray(value) || value instanceof Gpu.Arguments,
        expected: 'an array or Gpu.Arguments',
    },
    indirect: {accepts: Array.isArray, expected: 'an array'},
    progress: {accepts: value => typeof value === 'function', expected: 'a function'},
    shape: {accepts: _isIterable, expected: 'an array'},
    type: {
        accepts: value => value.prototype instanceof TypedArray,
        expected: 'the constructor of a typed array',
    },
};

// Returns a function that checks a value, and returns undefined if null selects the default. The
// function has its data in local variables, because gjs looks up those of the module slowly.
function _checker(where, name) {
    const check = _checks[name];
    if (check === undefined)
        return value => value;
    const {accepts, expected} = check;
    return value => {
        if (value === null || value === undefined)
            return undefined;
        if (!accepts(value))
            throw new TypeError(`${where}: ${name} must be ${expected}, not ${_show(value)}`);
        return value;
    };
}

// Returns such a function for an object of options.
function _optionsChecker(where, names) {
    const checkers = new Map(names.map(name => [name, _checker(where, name)]));
    const list = names.join(', ');
    return options => {
        if (options === null || options === undefined)
            return undefined;
        if (!_isPlain(options)) {
            throw new TypeError(`${where}: options must be an object with ${list}, not ${
                _show(options)}`);
        }
        const checked = {};
        for (const name in options) {
            if (!checkers.has(name)) {
                throw new TypeError(`${where}: unknown option ${name}: ${
                    _show(options[name])}; the options are ${list}`);
            }
            checked[name] = checkers.get(name)(options[name]);
        }
        return checked;
    };
}

// Returns a function that checks the arguments of a function with these parameters. A list stands
// for an object of options.
function _argumentsChecker(where, names) {
    const checkers = names.map(name => Array.isArray(name)
        ? _optionsChecker(where, name) : _checker(where, name));
    return args => {
        if (args.length > checkers.length) {
            throw new TypeError(`${where} takes at most ${checkers.length} arguments, not ${
                args.length}: the last is ${_show(args.at(-1))}`);
        }
        for (let i = 0; i < args.length; i++)
            args[i] = checkers[i](args[i]);
        return args;
    };
}

// Makes the functions above fail with a TypeError for wrong numbers and options. Asynchronous
// functions reject the promise.
function _checkArguments() {
    const on = ['stream', 'cancellable'];
    const region = ['origin', 'extent', ...on];
    const launch = ['grid', 'block', 'args', ['globalOffset', 'sharedSize', 'flags', 'indirect']];
    const functions = {
        'Array.from': ['context', 'data', 'shape', ['allocator', 'stream']],
        'Array.read': [on],
        'Array.write': ['data', on],
        'Buffer.copy': ['source', ['offset', 'sourceOffset', 'size', ...on]],
        'Buffer.fill': ['pattern', 'offset', 'size', on],
        'Buffer.map': ['flags', 'offset', 'size', on],
        'Buffer.pieces': ['size', ['offset', 'type', ...on, 'progress']],
        'Buffer.read': ['offset', 'size', ['type', ...on, 'progress']],
        'Buffer.readInto': ['target', 'offset', on],
        'Buffer.write': ['data', 'offset', [...on, 'progress']],
        'HostMemory.read': ['offset', 'size', ['type', 'cancellable']],
        'HostMemory.write': ['data', 'offset', ['cancellable']],
        'Image.copy': ['source', ['sourceOrigin', ...region]],
        'Image.fill': ['color', region],
        'Image.map': ['flags', region],
        'Image.read': [['type', ...region]],
        'Image.write': ['data', ['rowPitch', 'slicePitch', ...region]],
        'Kernel.prepare': launch,
        'Mapping.read': ['offset', 'size', ['type']],
        'Mapping.write': ['data', 'offset'],
        'Stream.copy': ['destination', 'source', 'size', 'destinationOffset', 'sourceOffset'],
        'Stream.copy_region': ['destination', 'source', 'extent', 'destinationLayout',
            'sourceLayout'],
        'Stream.fill': ['destination', 'pattern', 'offset', 'size'],
        'Stream.fill_image': ['image', 'color', 'origin', 'extent'],
        'Stream.fill_region': ['destination', 'pattern', 'extent', 'layout'],
        'Stream.launch': ['kernel', ...launch],
        'Stream.map': ['memory', 'flags', 'offset', 'size'],
        'Stream.map_image': ['image', 'flags', 'origin', 'extent'],
        'Stream.migrate': ['memories', 'flags'],
        'Stream.read': ['source', 'offset', 'size'],
        'Stream.read_region': ['source', 'extent', 'layout'],
        'Stream.record': ['flags'],
        'Stream.write': ['destination', 'data', 'offset'],
        'Stream.write_region': ['destination', 'data', 'extent', 'destinationLayout',
            'dataLayout'],
        'Svm.advise': ['advice', 'device', 'offset', 'size'],
        'Svm.attach': ['attachment', ['stream']],
        'Svm.map': ['flags', 'offset', 'size', on],
        'Svm.prefetch': ['flags', 'offset', 'size', ['stream']],
    };
    for (const [path, names] of Object.entries(functions)) {
        const [type, name] = path.split('.');
        const object = name === 'from' ? Gpu[type] : Gpu[type].prototype;
        const unchecked = object[name];
        const check = _argumentsChecker(`Gpu.${path}()`, names);
        object[name] = unchecked[Symbol.toStringTag] === 'AsyncFunction'
            ? async function (...args) {
                return unchecked.apply(this, check(args));
            }
            : function (...args) {
                return unchecked.apply(this, check(args));
            };
    }
}

// --- changes of the functions from C -------------------------------------------------------

// The parameters that have an integer, an enumeration or flags in C, by name. _integerExceptions
// have other types.
const _integers = new Set(`address address_mode advice alignment attachment axes axis
    backtrace_depth bin block_size channel_order channel_type depth destination_offset element_size
    fd filter_mode flags handle height held_bytes index item_size kind leading_bits length level
    limit managed_bytes mode n_events n_levels n_rows n_threads offset order point position
    preference priority ranges row_pitch row_size rows shape shared_size size sizes slice_pitch
    source_offset start step stop strides svm_flags timeout_usec type value whole_size width x y z
    `.split(/\s+/));
const _integerExceptions = ['Arguments.add_double.value', 'Array.new_filled.value',
    'Buffer.new_from_fds.handle', 'Buffer.new_from_handle.handle', 'DType.add_field.type',
    'Event.new_from_handle.handle', 'Stream.fill_array.value'];

// The ranges that gjs does not check, because it takes only some bits of the number
const _INT64 = [-(2 ** 63), 2 ** 63];
const _UINT64 = [0, 2 ** 64];
const _INT32 = [-(2 ** 31), 2 ** 31];
const _lists = {axes: [0, 2 ** 32], ranges: _UINT64, rows: _INT64, shape: _INT64, sizes: _UINT64,
    strides: _INT64};
const _scalars = {fd: _INT32, priority: _INT32};
const _anyInteger = [-(2 ** 63), 2 ** 64];

function _isWhole(value) {
    return typeof value === 'number' ? Number.isInteger(value) : typeof value === 'bigint';
}

// Returns a function that checks a value, or a list, for a parameter of a function from C. gjs
// would convert NaN, undefined, text and objects to 0, and 1.5 to 1.
function _integerChecker(where, name) {
    const [isWhole, show] = [_isWhole, _show];  // gjs looks up functions of the module slowly
    const isList = name in _lists;
    const [least, end] = _lists[name] ?? _scalars[name] ?? _anyInteger;
    const check = value => {
        if (!isWhole(value)) {
            throw new TypeError(`Gpu.${where}(): ${name} must be ${
                isList ? 'whole numbers' : 'a whole number'}, not ${show(value)}`);
        }
        if (value < least || value >= end)
            throw new RangeError(`Gpu.${where}(): ${name} is out of range: ${value}`);
    };
    return isList ? values => Array.isArray(values) && values.forEach(check) : check;
}

// Returns a function that calls a function from C, but throws an error for wrong numbers.
function _wholeNumbers(where, names, native) {
    const checks = names.map((name, i) => [i, name])
        .filter(([, name]) => _integers.has(name) &&
            !_integerExceptions.includes(`${where}.${name}`))
        .map(([i, name]) => [i, _integerChecker(where, name)]);
    return checks.length === 0 ? native : function (...args) {
        for (const [i, check] of checks) {
            if (i < args.length)
                check(args[i]);
        }
        return native.apply(this, args);
    };
}

// Makes writable properties refuse numbers that are not whole, under each name that gjs gives them:
// soft_limit, soft-limit and softLimit.
function _checkProperties() {
    const properties = {
        DeferredFreeAllocator: ['max_bytes', 'max_count'],
        HostAllocator: ['held_limit'],
        LimitAllocator: ['limit'],
        MemoryPool: ['history_size', 'limit', 'notify_interval', 'release_threshold', 'soft_limit'],
    };
    const check = (type, alias) => {
        const {prototype} = Gpu[type];
        const found = Object.getOwnPropertyDescriptor(prototype, alias);
        const set = function (value) {
            if (!_isWhole(value)) {
                throw new TypeError(
                    `Gpu.${type}.${alias} must be a whole number, not ${_show(value)}`);
            }
            found.set.call(this, value);
        };
        Object.defineProperty(prototype, alias, {...found, set});
    };
    for (const [type, names] of Object.entries(properties)) {
        for (const name of names) {
            const camel = name.replace(/_(.)/g, (_, letter) => letter.toUpperCase());
            for (const alias of new Set([name, name.replaceAll('_', '-'), camel]))
                check(type, alias);
        }
    }
}

// Makes functions from C check their numbers.
function _checkNumbers() {
    const wrap = (object, path) => {
        for (const name of Object.getOwnPropertyNames(object)) {
            const native = Object.getOwnPropertyDescriptor(object, name)?.value;
            // "method Gpu.Buffer.slice(offset, size) {\n\t/* wrapper for native symbol ... */"
            const [, names] = typeof native !== 'function'
                ? [] : /\((.+)\) {\s+\/\* wrapper for native/.exec(native.toString()) ?? [];
            if (names !== undefined)
                object[name] = _wholeNumbers(path + name, names.split(', '), native);
        }
    };
    for (const [type, value] of Object.getOwnPropertyNames(Gpu).map(name => [name, Gpu[name]])) {
        if (typeof value === 'function') {
            wrap(value, `${type}.`);
            wrap(value.prototype ?? {}, `${type}.`);
        }
    }
    wrap(Gpu, '');
}

// Makes functions accept data for arguments that are a GBytes or an array of bytes in C. The
// numbers are the positions of these arguments.
function _acceptData() {
    const functions = [
        [Gpu.Arguments.prototype, 'add_value', 0],
        [Gpu.Array, 'new_filled', 6],
        [Gpu.Array, 'new_from_bytes', 6],
        [Gpu.Array.prototype, 'write_bytes', 2],
        [Gpu.Array.prototype, 'write_bytes_async', 2],
        [Gpu.Array.prototype, 'write_strided', 1],
        [Gpu.Buffer, 'new_from_bytes', 2],
        [Gpu.Buffer, 'new_from_fds', 1],
        [Gpu.Buffer, 'new_from_handle', 1],
        [Gpu.Buffer.prototype, 'write_bytes', 2],
        [Gpu.Buffer.prototype, 'write_bytes_async', 2],
        [Gpu.Event, 'new_from_handle', 1],
        [Gpu.HostMemory.prototype, 'write_bytes', 1],
        [Gpu.Image.prototype, 'write_bytes', 3],
        [Gpu.Image.prototype, 'write_bytes_async', 3],
        [Gpu.Mapping.prototype, 'write_bytes', 1],
        [Gpu.Program, 'new_from_binary', 1],
        [Gpu.Program, 'new_from_il', 1],
        [Gpu.Program, 'new_linked', 1],
        [Gpu.Stream.prototype, 'fill_array', 1],
        [Gpu.Stream.prototype, 'write_array', 1],
    ];
    for (const [object, name, place] of functions) {
        const native = object[name];
        object[name] = function (...args) {
            if (name === 'add_value')
                args[place] = _toUint8Array(args[place]);
            else if (name === 'new_linked')
                args[place] = [...args[place]].map(_toBytes);
            else if (name !== 'new_filled' || args[place] !== null)
                args[place] = _toBytes(args[place]);
            return native.apply(this, args);
        };
    }
}

// Returns the items of an array, or the names and the values of an object such as {'a.h': 'text'}.
function _listTexts(arg) {
    return arg?.constructor === Object ? Object.entries(arg).flat() : arg;
}

// Rejects text with a null character, which would end the string in C.
function _checkTexts() {
    const functions = [
        [Gpu.Context.prototype, 'set_build_options'],
        [Gpu.Program, 'compile'],
        [Gpu.Program, 'new_from_binary'],
        [Gpu.Program, 'new_from_file'],
        [Gpu.Program, 'new_from_il'],
        [Gpu.Program, 'new_from_source'],
        [Gpu.Program, 'new_from_source_async'],
        [Gpu.Program, 'new_from_source_full'],
        [Gpu.Program, 'new_linked'],
    ];
    for (const [object, name] of functions) {
        const native = object[name];
        object[name] = function (...args) {
            for (const text of args.flatMap(_listTexts)) {
                const offset = typeof text === 'string' ? text.indexOf('\0') : -1;
                if (offset >= 0)
                    throw new RangeError(`the text has a null character at offset ${offset}`);
            }
            return native.apply(this, args);
        };
    }
}

// Makes these functions return a Uint8Array
function _returnData() {
    const functions = [
        [Gpu.Buffer.prototype, 'export_fds'],
        [Gpu.Buffer.prototype, 'export_handle'],
        [Gpu.Event.prototype, 'export_handle'],
        [Gpu.Program, 'compile'],
        [Gpu.Program.prototype, 'get_binary'],
    ];
    for (const [object, name] of functions) {
        const native = object[name];
        object[name] = function (...args) {
            return native.apply(this, args)?.toArray() ?? null;
        };
    }
}

// Adds iteration, as in for (const device of Gpu.Device), and destructuring, as in
// const [width, height] = extent
function _iterators() {
    const fields = [
        [Gpu.Color, 'red', 'green', 'blue', 'alpha'],
        [Gpu.Extent, 'width', 'height', 'depth'],
        [Gpu.Layout, 'x', 'y', 'z', 'row_pitch', 'slice_pitch'],
    ];
    for (const [type, ...names] of fields) {
        type.prototype[Symbol.iterator] = function () {
            return names.map(name => this[name])[Symbol.iterator]();
        };
    }

    Gpu.Device[Symbol.iterator] = () => Gpu.Device.list()[Symbol.iterator]();
    Gpu.Program.prototype[Symbol.iterator] = function () {
        return this.list_kernels().map(name => this.get_kernel(name))[Symbol.iterator]();
    };

    // Returns the devices of each platform: for (const [platform, devices] of Gpu.platforms())
    Gpu.platforms = function () {
        const platforms = new Map();
        for (const device of Gpu.Device) {
            const name = device.platform ?? device.get_backend();
            platforms.set(name, [...platforms.get(name) ?? [], device]);
        }
        return platforms;
    };
}

// Adds the property attributes, which returns the driver attributes as an object.
function _attributes(prototype) {
    Object.defineProperty(prototype, 'attributes', {
        get() {
            return this.get_attributes().recursiveUnpack();
        },
    });
}

// Adds toString(), for print(). It returns one line, and only calls getters that do not block.
function _strings() {
    const on = context => {
        const ids = context?.list_devices().map(device => device.get_id()) ?? [];
        return `on ${ids.join(', ') || 'no device'}`;
    };
    const texts = {
        Array: self => `of shape (${self.shape.join(', ')}), ${self.get_dtype().get_name()}, ${
            on(self.get_context())}`,
        Context: self => on(self),
        Device: self => `${self.get_id()} '${self.get_name()}'`,
        Event: self => on(self.context),
        Extent: self => `${self.width} x ${self.height} x ${self.depth}`,
        Kernel: self => self.get_name(),
        Mapping: self => self.mapped ? `of ${self.get_size()} bytes` : 'unmapped',
        Memory: self => self.is_released()
            ? 'released' : `of ${self.get_size()} bytes ${on(self.get_context())}`,
        MemoryPool: self => `with ${self.active_bytes} of ${self.managed_bytes} bytes in use ${
            on(self.context)}`,
        Program: self => on(self.get_context()),
        Stream: self => `${on(self.get_context())}, ${self.n_completed} of ${
            self.n_submitted} operations completed`,
    };
    for (const [name, text] of Object.entries(texts)) {
        Gpu[name].prototype.toString = function () {
            return `[Gpu.${this.constructor.name.replace(/^Gpu_/, '')} ${text(this)}]`;
        };
    }
}

function _init() {
    Gpu = this;

    _checkNumbers();                            // first: the functions below call these functions
    _checkProperties();
    Gpu.Local = Local;
    _checkTexts();
    _acceptData();                              // first: promises reject if the data are wrong
    _promises();
    _promisesWithProgress();
    _buffer(Gpu.Buffer.prototype);
    _array(Gpu.Array);
    _context(Gpu.Context.prototype);
    _image(Gpu.Image.prototype);
    _constructors();
    _imageConstructors();
    _stream(Gpu.Stream.prototype);
    _svm(Gpu.Svm.prototype);
    _kernel(Gpu.Kernel.prototype);
    _hostMemory(Gpu.HostMemory.prototype);
    _mapping(Gpu.Mapping.prototype);
    _event(Gpu.Event.prototype);
    _checkArguments();
    _returnData();
    _iterators();
    _strings();
    for (const type of [Gpu.Device, Gpu.Kernel, Gpu.Memory])
        _attributes(type.prototype);
}
