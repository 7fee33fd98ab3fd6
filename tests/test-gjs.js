// SPDX-License-Identifier: LGPL-2.1-or-later
// Tests the JavaScript binding on every device that GPUMEM_TEST selects. Prints TAP.

import Gio from 'gi://Gio';
import GLib from 'gi://GLib';
import GObject from 'gi://GObject';
import Gpu from 'gi://Gpu?version=1.0';
import System from 'system';

const DEADLINE = 30;                            // seconds after which a wait counts as hung

const SOURCE = `
__kernel void
scale (__global float *numbers, float factor)
{
  numbers[get_global_id (0)] *= factor;
}

__kernel void
add (__global uint *numbers, uint summand)
{
  numbers[get_global_id (0)] += summand;
}

__kernel void
triple (__global uint *numbers)
{
  numbers[get_global_id (0)] *= 3;
}

__kernel void
wide (__global long *numbers, long a, ulong b, int c)
{
  numbers[0] = a;
  numbers[1] = (long) b;
  numbers[2] = c;
}

__kernel void
place (__global uint *out)
{
  size_t x = get_global_id (0);
  size_t y = get_global_id (1);

  out[y * get_global_size (0) + x] = (uint) (x + 100 * y);
}

__kernel void
reverse (__global uint *numbers, __local uint *shared)
{
  size_t i = get_local_id (0);

  shared[i] = numbers[get_global_id (0)];
  barrier (CLK_LOCAL_MEM_FENCE);
  numbers[get_global_id (0)] = shared[get_local_size (0) - 1 - i];
}
`;

const IMAGE_SOURCE = `
__kernel void
mirror (__read_only image2d_t in, sampler_t by, __write_only image2d_t out)
{
  int x = (int) get_global_id (0);
  int y = (int) get_global_id (1);

  write_imagef (out, (int2) (x, y), read_imagef (in, by, (int2) (get_image_width (in) - 1 - x, y)));
}
`;

// --- helpers -----------------------------------------------------------------------------------

class Fixture {
    constructor(device) {
        this.device = device;
        this.context = Gpu.Context.new(device);
        this.stream = this.context.get_default_stream();
    }

    buffer(size) {
        return Gpu.Buffer.new(this.context, Gpu.MemoryFlags.NONE, size);
    }

    bufferFrom(data) {
        return Gpu.Buffer.new_from_bytes(this.context, Gpu.MemoryFlags.NONE,
            new GLib.Bytes(asBytes(data)));
    }

    program() {
        if (!(this.device.get_capabilities() & Gpu.Capabilities.SOURCE))
            throw new Skip(`${this.device.get_id()} lacks source`);
        return Gpu.Program.new_from_source(this.context, SOURCE, null);
    }

    image(format, extent, type = Gpu.ImageType.IMAGE_2D) {
        if (!(this.device.get_capabilities() & Gpu.Capabilities.IMAGES))
            throw new Skip(`${this.device.get_id()} lacks images`);
        return Gpu.Image.new(this.context, Gpu.MemoryFlags.NONE, format, type, extent);
    }

    newStream() {
        return Gpu.Stream.new(this.context, Gpu.StreamFlags.NONE);
    }

    hasUserEvents() {
        return (this.device.get_capabilities() & Gpu.Capabilities.USER_EVENTS) !== 0;
    }

    // Blocks the stream until the returned event is completed.
    gate(stream) {
        if (!this.hasUserEvents())
            throw new Skip(`${this.device.get_id()} lacks user-events`);
        const gate = Gpu.Event.new_user(this.context);
        stream.wait_event(gate);
        return gate;
    }
}

// An allocator implemented in JavaScript
const Counting = GObject.registerClass({
    Implements: [Gpu.Allocator],
}, class Counting extends GObject.Object {
    _init() {
        super._init();
        this.n = 0;
    }

    vfunc_get_context() {
        return this.context;
    }

    vfunc_alloc(size) {
        this.n++;
        return Gpu.Buffer.new(this.context, Gpu.MemoryFlags.NONE, size);
    }
});

class Skip extends Error {
}

function asBytes(data) {
    return data instanceof Uint8Array
        ? data : new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}

function assert(condition, text = 'an assertion') {
    if (!condition)
        throw new Error(`${text} does not hold`);
}

function equal(got, expected, what = 'value') {
    if (got !== expected)
        throw new Error(`${what} is ${got}, not ${expected}`);
}

function equalData(got, expected) {
    const [a, b] = [asBytes(got), asBytes(expected)];
    equal(a.length, b.length, 'length');
    for (let i = 0; i < a.length; i++) {
        if (a[i] !== b[i])
            throw new Error(`byte ${i} of ${a.length} is ${a[i]}, not ${b[i]}`);
    }
}

function ramp(size) {
    return Uint8Array.from({length: size}, (none, i) => i * 7);
}

// Writes a byte through a temporary array, as programs do, so that nothing else references the
// array.
function setByte(mapping, index, value) {
    const bytes = mapping.toUint8Array();
    equal(bytes.length, mapping.get_size());
    mapping.write(Uint8Array.of(value), index);
}

// Runs func, which must throw a Gpu.Error with this code, or an error of this class. The message
// must contain the words.
async function raises(what, func, ...words) {
    let error = null;
    try {
        await func();
    } catch (caught) {
        error = caught;
    }
    if (error === null)
        throw new Error(`no error where ${what} must be`);
    const right = typeof what === 'number'
        ? error instanceof GLib.Error && error.matches(Gpu.Error, what) : error instanceof what;
    if (!right)
        throw new Error(`${error} instead of ${what}`);
    for (const word of words) {
        if (!error.message.includes(word))
            throw new Error(`'${word}' is not in '${error.message}'`);
    }
}

async function checkFiles(fixture, path) {
    const size = 5 << 20;
    const data = Uint8Array.from({length: size}, (_, i) => i >> 8);
    const file = Gpu.File.open(path, Gpu.FileFlags.READ | Gpu.FileFlags.WRITE);
    const source = Gpu.Buffer.new_from_bytes(fixture.context, Gpu.MemoryFlags.NONE, data);
    const target = Gpu.Buffer.new(fixture.context, Gpu.MemoryFlags.NONE, size);
    await source.write_file_async(null, 0, file, 0, size);
    await target.read_file_async(null, 0, file, 0, size);
    equalData(await target.read(), data);

    const calls = [];
    await target.read_file_async(null, 3, file, 300, 1000, null, (...call) => calls.push(call));
    equal(calls.at(-1).join(), '1000,1000');
    equalData(await target.read(3, 1000), data.subarray(300, 1300));
    await new Promise(resolve => target.read_file_async(null, 0, file, 0, 9, null, null,
        (self, result) => resolve(self.read_file_finish(result))));
    equalData(await target.read(0, 9), data.subarray(0, 9));

    const cancellable = new Gio.Cancellable();
    cancellable.cancel();
    try {
        await target.read_file_async(null, 0, file, 0, size, cancellable);
        throw new Error('the copy was not cancelled');
    } catch (error) {
        assert(error.matches?.(Gio.IOErrorEnum, Gio.IOErrorEnum.CANCELLED));
    }
    await raises(TypeError, () => target.read_file_async(null, 0, file), 'position');
}

// Cancels a write from its progress callback. A write that completes before the main loop runs the
// callback cannot be cancelled, so try several writes.
async function cancelInProgress(buffer, data) {
    for (let i = 0; i < 50; i++) {
        const cancellable = Gio.Cancellable.new();
        let n = 0;
        const progress = () => {
            n++;
            cancellable.cancel();
        };
        try {
            await buffer.write(data, 0, {cancellable, progress});
        } catch (error) {
            assert(error.matches(Gio.IOErrorEnum, Gio.IOErrorEnum.CANCELLED));
            // The first call cancels the write, so it is also the last call
            equal(n, 1);
            return;
        }
    }
    throw new Error('no write was cancelled');
}

function sleep(milliseconds) {
    return new Promise(resolve => GLib.timeout_add(GLib.PRIORITY_DEFAULT, milliseconds, () => {
        resolve();
        return GLib.SOURCE_REMOVE;
    }));
}

function range(n, func = i => i) {
    return Array.from({length: n}, (_, i) => func(i));
}

// --- without a device --------------------------------------------------------------------------

function readGir() {
    for (const folder of GLib.getenv('GI_TYPELIB_PATH')?.split(':') ?? []) {
        const path = GLib.build_filenamev([folder, 'Gpu-1.0.gir']);
        if (GLib.file_test(path, GLib.FileTest.EXISTS))
            return new TextDecoder().decode(GLib.file_get_contents(path)[1]);
    }
    throw new Skip('the XML of the introspection is not installed');
}

const [OTHER, INTEGER, INTEGERS] = range(3);

// Returns the classes, the names and the parameters of the functions from C to which the overrides
// give no parameters of their own. A parameter is its name and one of the constants above.
function readFunctions() {
    const own = new RegExp('^(Buffer.(copy|fill|map|new_wrapped)|Context.new|' +
        'Image.(new.*|fill|map)|MemoryPool.new|Stream.(copy|fill|map|map_image|migrate|record|' +
        'write)|Svm.(advise|attach|map|prefetch))$');
    const gir = readGir();
    const types = [...gir.matchAll(/<(?:enumeration|bitfield) name="(\w+)"/g)].map(([, n]) => n);
    const integer = new RegExp(`<type name="(gs?size|gu?int(32|64)?|${types.join('|')})"`);
    const functions = [];
    let type = '';
    const classes = '\n {4}<(?:class|record|interface) name="(\\w+)"';
    const members =
        '\n {6}<(?:function|method|constructor) name="(\\w+)"([^>]*)>([^]*?)\n {6}</';
    for (const [, found, name, flags, content] of gir.matchAll(`${classes}|${members}`)) {
        type = found ?? type;
        if (found !== undefined || /introspectable="0"|moved-to=/.test(flags) ||
            Gpu[type] === undefined || own.test(`${type}.${name}`))
            continue;
        const lengths = [...content.matchAll(/<array length="(\d+)"/g)].map(m => Number(m[1]));
        const parameters =
            [...content.matchAll(/<parameter name="(\w+)"([^>]*)>([^]*?)<\/parameter>/g)]
                .filter(([, , direction], i) =>
                    !direction.includes('"out"') && !lengths.includes(i))
                .map(([, parameter, , text]) => [parameter,
                    !integer.test(text) ? OTHER : text.includes('<array') ? INTEGERS : INTEGER]);
        functions.push([type, name, parameters]);
    }
    return functions;
}

const plain = {
    // A parameter that is an integer, an enumeration or flags in C refuses all other values.
    async integers() {
        const wrong = [];
        let count = 0;
        for (const [type, name, parameters] of readFunctions()) {
            const object = typeof Gpu[type].prototype?.[name] === 'function'
                ? Object.create(Gpu[type].prototype) : Gpu[type];
            for (const [i, [parameter, kind]] of parameters.entries()) {
                if (kind === OTHER)
                    continue;
                count++;
                for (const value of ['text', undefined, NaN, {}]) {
                    const args = parameters.map(([, other]) =>
                        ({[OTHER]: Uint8Array.of(1), [INTEGER]: 1, [INTEGERS]: [1]})[other]);
                    args[i] = kind === INTEGERS ? [value] : value;
                    await raises(TypeError, () => object[name](...args),
                        `Gpu.${type}.${name}(): ${parameter} must be`).catch(error =>
                        wrong.push(`${type}.${name}: ${parameter}: ${error.message}`));
                }
            }
        }
        equal(wrong.join('\n'), '');
        assert(count >= 180, `only ${count} parameters`);
    },

    // The overrides replace the setters of all writable properties of whole numbers.
    async wholeProperties() {
        const missing = [];
        let type = '', count = 0;
        for (const [, class_, name, flags, content] of readGir().matchAll(
            /<class name="(\w+)"|<property name="([\w-]+)"([^>]*)>([^]*?)<\/property>/g)) {
            type = class_ ?? type;
            if (class_ !== undefined || !flags.includes('writable="1"') ||
                flags.includes('construct-only="1"') || !/<type name="gu?int/.test(content))
                continue;
            count++;
            for (const alias of [name, name.replaceAll('-', '_')]) {
                const {set} = Object.getOwnPropertyDescriptor(Gpu[type].prototype, alias);
                if (set.toString().includes('[native code]'))
                    missing.push(`${type}.${alias}`);
            }
        }
        equal(missing.join(), '');
        assert(count >= 9);
    },

    names() {
        equal(Gpu.MapFlags.READ | Gpu.MapFlags.WRITE, 3);
        equal(Gpu.MemoryFlags.UNTRACKED, 64);
        equal(Gpu.DeviceType.HOST, 0);
        equal(new Gpu.Local(256).size, 256);
        equal(typeof Gpu.Error.RELEASED, 'number');
    },

    devices() {
        assert(Gpu.Device.list().some(device => device.get_backend() === 'host'));
        assert(Gpu.Device.find('host').equal(Gpu.Device.find('host')));
    },

    iterators() {
        const ids = Gpu.Device.list().map(device => device.get_id());
        equal([...Gpu.Device].map(device => device.get_id()).join(), ids.join());
        const grouped = [];
        for (const [platform, devices] of Gpu.platforms()) {
            assert(devices.length > 0 && typeof platform === 'string' && platform.length > 0);
            for (const device of devices) {
                equal(device.platform ?? device.get_backend(), platform);
                grouped.push(device.get_id());
            }
        }
        equal(grouped.sort().join(), ids.sort().join());
        const [width, height, depth] = Gpu.Extent.new(7, 8, 9);
        equal(`${width} ${height} ${depth}`, '7 8 9');
        equal([...Gpu.Layout.new(1, 2, 3, 4, 5)].join(), '1,2,3,4,5');
        equal([...Gpu.Color.new(0, 0.25, 0.5, 1)].join(), '0,0.25,0.5,1');
    },

    async noSuchDevice() {
        await raises(Gpu.Error.NO_DEVICE, () => Gpu.Device.find('nothing-like-it'),
            'nothing-like-it');
    },
};

// --- on every device --------------------------------------------------------------------------

const tests = {
    attributes({device}) {
        const {attributes} = device;
        assert(Object.keys(attributes).length > 0);
        for (const value of Object.values(attributes))
            assert(!(value instanceof GLib.Variant));
    },

    async writeAndRead(fixture) {
        const buffer = fixture.buffer(1 << 20);
        equal(buffer.get_size(), 1 << 20);
        await buffer.write(new Float32Array(1 << 18).fill(2));
        const bytes = await buffer.read();
        assert(bytes instanceof Uint8Array);
        equal(bytes.length, 1 << 20);
        const numbers = new Float32Array(bytes.buffer, bytes.byteOffset, 1 << 18);
        assert(numbers.every(number => number === 2), 'every number is 2');

        await buffer.write(Uint8Array.of(1, 2, 3), 1000);
        equalData(await buffer.read(999, 5), Uint8Array.of(64, 1, 2, 3, 64));
    },

    async dataTypes(fixture) {
        const buffer = fixture.buffer(64);
        const raw = Uint8Array.from(range(64, i => i * 3));
        for (const data of [raw, raw.buffer, new DataView(raw.buffer), new Float64Array(raw.buffer),
            new BigInt64Array(raw.buffer), new GLib.Bytes(raw)]) {
            await buffer.fill(0);
            await buffer.write(data);
            equalData(await buffer.read(), raw);
            await buffer.fill(0);
            fixture.stream.write(buffer, data);
            equalData(await buffer.read(), raw);
        }
        await buffer.fill(0);
        await buffer.write(raw.subarray(10, 20), 5);
        equalData(await buffer.read(5, 10), raw.subarray(10, 20));
        for (const data of [null, undefined, 3, 'text', [1, 2], {}])
            await raises(TypeError, () => buffer.write(data));
    },

    async progress(fixture) {
        const size = 40 << 20;
        const buffer = Gpu.Buffer.new(fixture.context, Gpu.MemoryFlags.NONE, size);
        const data = new Uint8Array(size).fill(7);
        const calls = [];
        const progress = (...call) => calls.push(call);
        const check = total => {
            assert(calls.every(([current, all], i) => all === total && current <= total &&
                current > (calls[i - 1]?.[0] ?? -1)));
            equal(calls.at(-1)[0], total);
            calls.length = 0;
        };

        await buffer.write(data, 0, {progress});
        check(size);
        equalData((await buffer.read(0, size, {progress})).subarray(-4), Uint8Array.of(7, 7, 7, 7));
        check(size);
        await buffer.write_bytes_async(null, 8, Uint16Array.of(1, 2), null, progress);
        check(4);
        await new Promise(resolve => buffer.write_bytes_async(null, 8, data.subarray(0, 9), null,
            progress, (self, result) => resolve(self.write_bytes_finish(result))));
        check(9);

        await cancelInProgress(buffer, data);
        await raises(Gpu.Error.INVALID_ARGUMENT, () => buffer.write(data, 1, {progress}), '1');
        equal(calls.length, 0);
    },

    // Every function that takes bytes accepts data of every kind.
    async dataEverywhere(fixture) {
        const numbers = Float32Array.of(1.5, -2, 1e9, 0);
        const buffer = Gpu.Buffer.new_from_bytes(fixture.context, Gpu.MemoryFlags.NONE, numbers);
        equalData(await buffer.read(), numbers);
        buffer.write_bytes(null, 4, Int32Array.of(7), null);
        await buffer.write_bytes_async(null, 8, Uint16Array.of(1, 2).buffer, null);
        equalData((await buffer.read()).subarray(4, 12), Uint16Array.of(7, 0, 1, 2));
        const memory = Gpu.HostMemory.new(fixture.context, Gpu.HostMemoryFlags.NONE, 16);
        memory.write_bytes(0, numbers, null);
        equalData(await memory.read(), numbers);
        const mapping = await buffer.map(Gpu.MapFlags.WRITE);
        mapping.write_bytes(0, new DataView(numbers.buffer, 4, 8));
        equalData(mapping.read(0, 8), numbers.subarray(1, 3));
        mapping.unmap();
        const args = Gpu.Arguments.new();
        args.add_value(Float64Array.of(1));
        equal(args.get_length(), 1);
        await raises(TypeError, () => args.add_value('text'));
        await raises(TypeError, () => Gpu.Buffer.new_from_bytes(fixture.context, 0, 'text'));
    },

    async dataForArrays(fixture) {
        const {context, stream} = fixture;
        const make = data => Gpu.Array.new_from_bytes(context, null, null, Gpu.DType.FLOAT32,
            [2, 2], Gpu.ArrayOrder.C, data);
        const array = make(Float32Array.of(1, 2, 3, 4));
        equal([...await array.read()].join(), '1,2,3,4');
        stream.write_array(array, Float32Array.of(5, 6, 7, 8), 0, null);
        equal([...await array.read({stream})].join(), '5,6,7,8');
        array.write_strided(null, Float32Array.of(1, 3, 2, 4), 0, [4, 8], null);
        equal([...await array.read()].join(), '1,2,3,4');
        stream.fill_array(array, Float32Array.of(9));
        equal([...await array.read({stream})].join(), '9,9,9,9');
        for (const [value, text] of [[Float32Array.of(3), '3,3'], [null, '0,0']]) {
            const filled = Gpu.Array.new_filled(context, null, null, Gpu.DType.FLOAT32, [2],
                Gpu.ArrayOrder.C, value);
            equal([...await filled.read()].join(), text);
        }
        await raises(TypeError, () => make([1, 2, 3, 4]));
        // Without a callback, wrong arguments reject the promise
        const buffer = fixture.bufferFrom(Float32Array.of(1));
        for (const [object, name, ...args] of [[buffer, 'write_bytes_async', null, 0, [1]],
            [array, 'write_bytes_async', null, [1]], [buffer, 'read_file_async', null, 0]]) {
            const promise = object[name](...args);
            assert(promise instanceof Promise);
            await raises(Error, () => promise);
        }
    },

    async connections(fixture) {
        const listener = new Gio.SocketListener();
        const port = listener.add_any_inet_port(null);
        const here = new Gio.SocketClient().connect_to_host('127.0.0.1', port, null);
        const [there] = listener.accept(null);
        const data = Uint8Array.from(range(1000));
        const source = Gpu.Buffer.new_from_bytes(fixture.context, Gpu.MemoryFlags.NONE, data);
        const target = Gpu.Buffer.new(fixture.context, Gpu.MemoryFlags.NONE, 1000);
        await Promise.all([source.splice_async(null, 0, 1000, true, [here], null),
            target.splice_async(null, 0, 1000, false, [there], null)]);
        equalData(await target.read(), data);
        for (const connection of [here, there])
            connection.close(null);
        listener.close();
    },

    async files(fixture) {
        const [path, io] = Gio.File.new_tmp(null);
        io.close(null);
        try {
            await checkFiles(fixture, path);
        } finally {
            path.delete(null);
        }
    },

    // Reads return a typed array of the requested type.
    async typedResults(fixture) {
        const numbers = Float32Array.from(range(30, i => i / 4));
        const buffer = fixture.bufferFrom(numbers);
        let got = await buffer.read(0, null, {type: Float32Array});
        assert(got instanceof Float32Array);
        equal(got.join(), numbers.join());
        got = await buffer.read(8, 40, {type: BigUint64Array, stream: fixture.newStream()});
        equal(got.length, 5);
        equalData(got, numbers.subarray(2, 12));
        await raises(RangeError, () => buffer.read(0, 13, {type: Float32Array}), '13 bytes');
        await raises(TypeError, () => buffer.read(0, 12, {type: Array}));

        const target = new Float64Array(6);
        assert(await buffer.readInto(target.subarray(1, 4), 16) instanceof Float64Array);
        equalData(target.subarray(1, 4), numbers.subarray(4, 10));
        equal(target[0] + target[4] + target[5], 0);
        await raises(Gpu.Error.INVALID_ARGUMENT, () => buffer.readInto(new Uint8Array(121)));

        const memory = Gpu.HostMemory.new(fixture.context, Gpu.HostMemoryFlags.NONE, 120);
        await memory.write(numbers);
        got = await memory.read(4, 8, {type: Float32Array});
        equal(got.join(), '0.25,0.5');
        const mapping = await buffer.map(Gpu.MapFlags.READ, 4, 10);
        got = mapping.read(0, 8, {type: Float32Array});
        equal(got.join(), '0.25,0.5');
        equal([...mapping].join(), asBytes(numbers).slice(4, 14).join());
        let sum = 0;
        for (const byte of mapping)
            sum += byte;
        equal(sum, asBytes(numbers).slice(4, 14).reduce((a, b) => a + b, 0));
        mapping.unmap();
        await raises(Gpu.Error.RELEASED, () => [...mapping]);
    },

    async pieces(fixture) {
        const data = ramp(1000);
        const buffer = fixture.bufferFrom(data);
        const sizes = [];
        let offset = 100;
        for await (const piece of buffer.pieces(256, {offset, type: Uint8ClampedArray})) {
            assert(piece instanceof Uint8ClampedArray);
            equalData(piece, data.subarray(offset, offset + piece.length));
            sizes.push(piece.length);
            offset += piece.length;
        }
        equal(sizes.join(), '256,256,256,132');
        await raises(RangeError, () => buffer.pieces(0).next(), '1 byte');
    },

    async binaries(fixture) {
        const program = fixture.program();
        equal([...program].map(kernel => kernel.get_name()).sort().join(),
            'add,place,reverse,scale,triple,wide');
        const binary = program.get_binary();
        assert(binary instanceof Uint8Array && binary.length > 0);
        const again = Gpu.Program.new_from_binary(fixture.context, binary, null);
        const buffer = fixture.bufferFrom(Uint32Array.of(1, 2, 3));
        fixture.stream.launch(again.get_kernel('triple'), 3, null, [buffer]);
        equal((await buffer.read(0, null, {type: Uint32Array})).join(), '3,6,9');
        if (!(fixture.device.get_capabilities() & Gpu.Capabilities.LINKING))
            return;
        const parts = [
            'int next (int i); __kernel void k (__global int *p) { p[0] = next (p[0]); }',
            '#include "one.h"\nint next (int i) { return i + ONE; }',
        ].map(source => Gpu.Program.compile(fixture.context, source, null,
            {'one.h': '#define ONE 1'}));
        assert(parts.every(part => part instanceof Uint8Array));
        const linked = Gpu.Program.new_linked(fixture.context, parts, null);
        fixture.stream.launch(linked.get_kernel('k'), 1, null, [buffer]);
        equal((await buffer.read(0, null, {type: Uint32Array})).join(), '4,6,9');
    },

    async fillAndCopy(fixture) {
        const buffer = fixture.buffer(60);
        await buffer.fill(0xab);
        equalData(await buffer.read(), new Uint8Array(60).fill(0xab));
        await buffer.fill(Float32Array.of(1.5));
        equalData(await buffer.read(), new Float32Array(15).fill(1.5));
        await buffer.fill(Uint8Array.of(1, 2, 3));
        equalData(await buffer.read(), Uint8Array.from(range(60, i => 1 + i % 3)));
        await raises(RangeError, () => buffer.fill(256));

        const other = fixture.buffer(60);
        fixture.stream.fill(other, 0);
        await other.copy(buffer, {offset: 20, sourceOffset: 1, size: 10});
        equalData(await other.read(20, 11), Uint8Array.of(2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 0));
        fixture.stream.copy(other, buffer);
        equalData(await other.read(), await buffer.read());
    },

    async regions(fixture) {
        const source = fixture.bufferFrom(Uint8Array.from(range(64)));
        const target = fixture.buffer(64);
        const {stream} = fixture;
        stream.fill(target, 255);
        stream.copy_region(target, source, [3, 2], [4, 1, 0, 16], [1, 5, 0, 8]);
        const expected = new Uint8Array(64).fill(255);
        expected.set([41, 42, 43], 20);
        expected.set([49, 50, 51], 36);
        equalData(await target.read(), expected);

        const bytes = stream.read_region(source, [2, 3], [6, 0, 0, 8]);
        await stream.synchronize_async(null);
        equalData(bytes.toArray(), Uint8Array.of(6, 7, 14, 15, 22, 23));

        stream.write_region(target, Uint8Array.of(1, 2, 3, 4), [2, 2], [0, 0, 0, 8]);
        stream.fill_region(target, 9, [1, 2], [7, 6, 0, 8]);
        const got = await target.read();
        equalData(Uint8Array.of(got[0], got[1], got[8], got[9], got[55], got[63]),
            Uint8Array.of(1, 2, 3, 4, 9, 9));
    },

    async sharedMemory(fixture) {
        if (!(fixture.device.get_capabilities() & Gpu.Capabilities.SVM_COARSE))
            return;
        const svm = Gpu.Svm.new(fixture.context, Gpu.MemoryFlags.NONE, Gpu.SvmFlags.NONE, 256, 64);
        equal(svm.get_device_address() % 64, 0);
        fixture.stream.fill(svm, 7);
        let mapping = await svm.map(Gpu.MapFlags.WRITE, 10, 4);
        equal(mapping.get_address(), svm.get_device_address() + 10);
        equalData(mapping.read(), Uint8Array.of(7, 7, 7, 7));
        mapping.write(Uint8Array.of(1, 2), 1);
        await raises(TypeError, () => mapping.write(ramp(1), 0.5), 'Gpu.Mapping.write()', '0.5');
        await raises(TypeError, () => svm.prefetch(0, 'x'), 'Gpu.Svm.prefetch()', "'x'");
        await raises(Gpu.Error.BUSY, () => fixture.stream.fill(svm, 0));
        mapping.unmap();
        svm.prefetch();
        svm.advise(Gpu.MemoryAdvice.READ_MOSTLY);
        svm.attach(Gpu.SvmAttachment.STREAM, {stream: fixture.stream});
        mapping = await svm.map(Gpu.MapFlags.READ, 10);
        equalData(mapping.read(0, 4), Uint8Array.of(7, 1, 2, 7));
        mapping.unmap();
        const args = Gpu.Arguments.new();
        args.add_indirect(svm);
        equal(args.get_length(), 0);
        await raises(Gpu.Error.INVALID_ARGUMENT, () => Gpu.Svm.new(fixture.context, 0, 0, 8, 3));
    },

    async hostMemory(fixture) {
        const memory = Gpu.HostMemory.new(fixture.context, Gpu.HostMemoryFlags.NONE, 256);
        await memory.write(Uint8Array.from(range(256)));
        const buffer = fixture.bufferFrom(new Uint8Array(256));
        const stream = fixture.context.get_default_stream();
        stream.copy(buffer, memory);
        equalData(await buffer.read(), Uint8Array.from(range(256)));
        stream.fill(memory, 5, 16, 16);
        equalData(await memory.read(15, 3), Uint8Array.of(15, 5, 5));
        await memory.synchronize_async(Gpu.MapFlags.READ, null);
        equal(memory.toUint8Array()[31], 5);

        const part = Gpu.Buffer.new_for_memory(memory, 0, 128);
        assert(part.get_memory() === memory);
        const allocator = Gpu.HostAllocator.new(fixture.context, Gpu.HostMemoryFlags.NONE);
        const block = allocator.alloc(100);
        equal(allocator.active_bytes, 4096);
        block.release();
        equal(allocator.held_bytes, 4096);
        await raises(Gpu.Error.INVALID_ARGUMENT, () => allocator.alloc(0), '0 bytes');
    },

    async allocators(fixture) {
        const counting = new Counting();
        counting.context = fixture.context;
        const limit = Gpu.LimitAllocator.new(counting, 1500);
        const statistics = Gpu.StatisticsAllocator.new(limit);
        const memory = statistics.alloc(1000, null);
        equal(memory.get_size(), 1000);
        equal(counting.n, 1);
        equal(statistics.alloc(0, null), null);
        assert(statistics.get_context() === fixture.context);
        await memory.write(Uint8Array.of(1, 2, 3), 10);
        equalData(await memory.read(11, 2), Uint8Array.of(2, 3));
        await raises(Gpu.Error.OUT_OF_DEVICE_MEMORY, () => statistics.alloc(501, null),
            'limit of 1500');
        equal(statistics.current_bytes, 1000);
        statistics.free(memory);
        assert(memory.is_released());
        equal(statistics.current_bytes, 0);
        equal(statistics.get_counters().deepUnpack()['peak-bytes'], 1000);
        counting.context = null;

        const failure = Gpu.OomAllocator.new(Gpu.LimitAllocator.new(
            Gpu.DeferredAllocator.new(fixture.context, Gpu.MemoryFlags.NONE), 100));
        const hog = failure.alloc(80, null);
        failure.connect('out-of-memory', (allocator, size) => {
            equal(size, 50);
            hog.release();
            return true;
        });
        equal(failure.alloc(50, null).get_size(), 50);
    },

    async pool(fixture) {
        const pool = Gpu.MemoryPool.new(fixture.context);
        const buffers = range(5).map(i => pool.alloc_buffer(1000 + i, null));
        buffers.forEach((buffer, i) => fixture.stream.fill(buffer, i + 1));
        for (const [i, buffer] of buffers.entries())
            equalData(await buffer.read(998), new Uint8Array(2 + i).fill(i + 1));
        equal(pool.active_blocks, 5);
        equal(pool.active_bytes, 5010);
        buffers.forEach(buffer => buffer.release());
        equal(pool.active_blocks, 0);
        equal(pool.alloc_buffer(0, null), null);
        equal(pool.get_statistics().deepUnpack()['n-allocs'].deepUnpack(), 5);

        const tight = Gpu.MemoryPool.new(fixture.context);
        tight.limit = 4 << 20;
        const hog = tight.alloc_buffer(3 << 20, null);
        let asked = 0;
        tight.connect('out-of-memory', (_, size) => {
            asked = size;
            hog.release();
            return true;
        });
        equal(tight.alloc_buffer(2 << 20, fixture.stream).get_size(), 2 << 20);
        assert(asked >= 2 << 20);

        const bins = Gpu.MemoryPool.new_for_allocator(
            Gpu.ImmediateAllocator.new(fixture.stream, Gpu.MemoryFlags.NONE),
            Gpu.MemoryPoolKind.BINS, 4);
        equal(bins.alloc_size(bins.bin_number(100)), 103);
        await raises(Gpu.Error.NOT_SUPPORTED, () => bins.alloc_block(100, null),
            'no device addresses');
    },

    async poolBlocks(fixture) {
        if (fixture.device.get_capabilities() & Gpu.Capabilities.SUB_BUFFERS)
            throw new Skip(`${fixture.device.get_id()} has no device addresses`);
        const pool = Gpu.MemoryPool.new(fixture.context);
        const block = pool.alloc_block(4096, null);
        equal(block.get_size(), 4096);
        equal(block.get_address() % 512, 0);
        block.add_stream(fixture.newStream());
        equal(pool.alloc_blocks([10, 20], null).map(one => one.get_size()).join(), '10,20');
        const [segment] = pool.snapshot().deepUnpack();
        const active = segment.blocks.deepUnpack().filter(
            one => one.state.deepUnpack() === 'active');
        equal(active.map(one => one.requested.deepUnpack()).sort().join(), '10,20,4096');
    },

    async map(fixture) {
        const buffer = fixture.bufferFrom(Uint8Array.from(range(256)));
        let mapping = await buffer.map();
        equal(mapping.get_size(), 256);
        const copy = mapping.read(250);
        equalData(copy, Uint8Array.from(range(6, i => 250 + i)));
        mapping.write(Uint16Array.of(0x6263), 10);
        equalData(mapping.read(9, 4), Uint8Array.of(9, 99, 98, 12));
        await raises(Gpu.Error.INVALID_ARGUMENT, () => mapping.write(new Uint8Array(2), 255),
            '256');
        await raises(Gpu.Error.INVALID_ARGUMENT, () => mapping.read(0, 257), '257');

        let bytes = mapping.toUint8Array();
        equalData(bytes, mapping.read());
        mapping.write(Uint8Array.of(97), 11);
        // If the array shares the mapped memory, the unmap is refused until the array is collected.
        if (bytes[11] === 97) {
            await raises(Gpu.Error.BUSY, () => mapping.unmap());
            assert(mapping.mapped);
        }
        bytes = null;
        mapping.unmap();
        assert(!mapping.mapped);
        equal(copy[5], 255, 'the earlier copy');
        await raises(Gpu.Error.RELEASED, () => mapping.read());
        await raises(Gpu.Error.RELEASED, () => mapping.write(Uint8Array.of(1)));
        equalData(await buffer.read(9, 4), Uint8Array.of(9, 99, 97, 12));

        for (let turn = 0; turn < 20; turn++) {
            mapping = await buffer.map();
            setByte(mapping, 11, turn);
            mapping.unmap();
            equalData(await buffer.read(11, 1), Uint8Array.of(turn));
        }

        // Without an unmap, the mapping ends when the mapping and the array are collected.
        mapping = await buffer.map();
        setByte(mapping, 11, 98);
        mapping = null;
        const deadline = GLib.get_monotonic_time() + DEADLINE * 1e6;
        for (;;) {
            await collect();
            try {
                equalData(await buffer.read(9, 4), Uint8Array.of(9, 99, 98, 12));
                break;
            } catch (error) {
                if (!(error instanceof GLib.Error) || !error.matches(Gpu.Error, Gpu.Error.BUSY) ||
                    GLib.get_monotonic_time() > deadline)
                    throw error;
            }
        }

        mapping = await buffer.map(Gpu.MapFlags.READ);
        await raises(Gpu.Error.INVALID_ARGUMENT, () => mapping.write(Uint8Array.of(1)), 'reading');
        mapping.unmap();
        assert(!mapping.mapped);
        equal(mapping.get_bytes(), null);
    },

    async slices(fixture) {
        const step = Math.max(fixture.device.get_base_alignment(), 64);
        const buffer = fixture.buffer(4 * step);
        await buffer.fill(1);
        let slice = buffer.slice(step, step);
        await slice.fill(2);
        equalData(await buffer.read(step - 1, 3), Uint8Array.of(1, 2, 2));
        assert(slice.get_parent().equal(buffer));
        slice = null;
    },

    async launch(fixture) {
        const program = fixture.program();
        const buffer = fixture.bufferFrom(Float32Array.from(range(100)));
        const scale = program.get_kernel('scale');
        fixture.stream.launch(scale, 100, null, [buffer, 3]);
        fixture.stream.launch(scale, [100], [10], [buffer, 0.5]);
        fixture.stream.launch(scale, Gpu.Extent.new(100, 1, 1), null,
            [buffer, Float32Array.of(4)]);
        equalData(await buffer.read(), Float32Array.from(range(100, i => i * 6)));

        const array = Gpu.Array.from(fixture.context, Float32Array.from(range(128)), [2, 64]);
        fixture.stream.launch(scale, 64, null, [array.index(0, 1), 2]);
        equalData(await array.read(), Float32Array.from(range(128, i => i < 64 ? i : 2 * i)));

        const places = fixture.buffer(4 * 3 * 4);
        fixture.stream.launch(program.get_kernel('place'), [4, 3], null, [places]);
        equalData(await places.read(),
            Uint32Array.from(range(12, i => i % 4 + 100 * Math.floor(i / 4))));

        const numbers = fixture.bufferFrom(Uint32Array.from(range(64)));
        fixture.stream.launch(program.get_kernel('reverse'), 64, 16,
            [numbers, new Gpu.Local(64)]);
        equalData(await numbers.read(),
            Uint32Array.from(range(64, i => 16 * (i >> 4) + 15 - i % 16)));
    },

    // D50, D51: prepared launches, timed launches, and launch options
    async preparedLaunch(fixture) {
        const buffer = fixture.bufferFrom(new Uint32Array(100));
        const kernel = fixture.program().get_kernel('add');
        const launch = kernel.prepare(100, null, [buffer, 2]);
        for (let i = 0; i < 5; i++)
            fixture.stream.launch_prepared(launch);
        equalData(await buffer.read(), new Uint32Array(100).fill(10));

        const stream = Gpu.Stream.new(fixture.context, Gpu.StreamFlags.PROFILING);
        const event = stream.launch_timed(launch);
        event.wait(null);
        assert(event.get_duration() >= 0, 'a launch takes time');
        if (fixture.device.get_backend() !== 'cuda') {
            await raises(Gpu.Error.NOT_SUPPORTED, () => fixture.stream.launch(kernel, 100, null,
                [buffer, 2], {sharedSize: 64}));
        }
    },

    // D28: export and import of memory by file descriptor
    async fileDescriptors(fixture) {
        if (!(fixture.device.get_capabilities() & Gpu.Capabilities.IPC_FDS)) {
            await raises(Gpu.Error.NOT_SUPPORTED, () => Gpu.Buffer.new(fixture.context,
                Gpu.MemoryFlags.SHAREABLE, 100));
            return;
        }
        const buffer = Gpu.Buffer.new(fixture.context, Gpu.MemoryFlags.SHAREABLE, 100);
        await buffer.fill(7);
        const fds = Gio.UnixFDList.new();
        const other = Gpu.Buffer.new_from_fds(fixture.context, buffer.export_fds(fds), fds);
        equalData(await other.read(), new Uint8Array(100).fill(7));
    },

    async largeNumbers(fixture) {
        const numbers = fixture.buffer(24);
        const kernel = fixture.program().get_kernel('wide');
        for (const [a, b, c] of [[-1n, 2n ** 64n - 1n, 7n], [-(2n ** 63n), 2n ** 63n, 0n]]) {
            fixture.stream.launch(kernel, 1, null, [numbers, a, b, c]);
            const got = await numbers.read();
            const view = new DataView(got.buffer, got.byteOffset, 24);
            equal(view.getBigInt64(0, true), a);
            equal(view.getBigUint64(8, true), b);
            equal(view.getBigInt64(16, true), c);
        }
        for (const args of [[2n ** 63n, 0n, 0n], [0n, -1n, 0n], [0n, 0n, 2n ** 31n]]) {
            await raises(Gpu.Error.INVALID_ARGUMENT,
                () => fixture.stream.launch(kernel, 1, null, [numbers, ...args]), 'wide');
        }
    },

    texts(fixture) {
        const device = fixture.context.get_device();
        const id = device.get_id();
        const buffer = fixture.buffer(64);
        equal(`${device}`, `[Gpu.Device ${id} '${device.get_name()}']`);
        equal(`${fixture.context}`, `[Gpu.Context on ${id}]`);
        equal(`${buffer}`, `[Gpu.Buffer of 64 bytes on ${id}]`);
        equal(`${buffer.slice(0, 32)}`, `[Gpu.Buffer of 32 bytes on ${id}]`);
        buffer.release();
        equal(`${buffer}`, '[Gpu.Buffer released]');
        equal(`${fixture.program().get_kernel('scale')}`, '[Gpu.Kernel scale]');
        equal(`${fixture.stream.record()}`, `[Gpu.Event on ${id}]`);
        equal(`${new Gpu.Extent({width: 1, height: 2, depth: 3})}`, '[Gpu.Extent 1 x 2 x 3]');
        assert(`${fixture.stream}`.startsWith(`[Gpu.Stream on ${id}, `), `${fixture.stream}`);
        const pool = Gpu.MemoryPool.new(fixture.context, Gpu.MemoryPoolKind.AUTOMATIC, 0);
        equal(`${pool}`, `[Gpu.MemoryPool with 0 of 0 bytes in use on ${id}]`);
    },

    async launchErrors(fixture) {
        const buffer = fixture.buffer(64);
        const program = fixture.program();
        const scale = program.get_kernel('scale');
        const add = program.get_kernel('add');
        for (const args of [[], [buffer], [buffer, 1, 2], [1, 1], [buffer, 1e300]]) {
            await raises(Gpu.Error.INVALID_ARGUMENT,
                () => fixture.stream.launch(scale, 1, null, args), 'scale', 'gpu_stream_launch: ');
        }
        for (const value of [-1, 2 ** 32, 0.5]) {
            await raises(Gpu.Error.INVALID_ARGUMENT,
                () => fixture.stream.launch(add, 1, null, [buffer, value]), 'add');
        }
        for (const value of ['text', undefined, [1]]) {
            await raises(TypeError,
                () => fixture.stream.launch(scale, 1, null, [buffer, value]));
        }
        for (const grid of [-1, 1.5, NaN, 'text', [1, 2, 3, 4], []]) {
            await raises(RangeError,
                () => fixture.stream.launch(scale, grid, null, [buffer, 1]), 'grid must');
            await raises(RangeError,
                () => fixture.stream.launch(scale, 1, grid, [buffer, 1]), 'block must');
            await raises(RangeError,
                () => scale.prepare(1, grid, [buffer, 1]), 'block must');
        }
        await raises(Gpu.Error.BUILD_FAILED, () => Gpu.Program.new_from_source_async(
            fixture.context, '__kernel void f (__global int *x) { x[0] = nowhere (); }', null,
            null), 'nowhere');
    },

    async nullCharacters(fixture) {
        const source = '__kernel void f (__global int *x) { x[0] = 1; }';
        const cut = `${source.slice(0, 9)}\0${source.slice(9)}`;
        for (const call of [
            () => Gpu.Program.new_from_source(fixture.context, cut, null),
            () => Gpu.Program.new_from_source(fixture.context, source, '-DAAAAAA=\0'),
            () => Gpu.Program.new_from_source_async(fixture.context, cut, null, null),
            () => Gpu.Program.new_from_source_full(fixture.context, source, null,
                Gpu.ProgramFlags.NONE, ['kernel<1>\0'], null),
            () => Gpu.Program.new_from_source_full(fixture.context, source, null,
                Gpu.ProgramFlags.NONE, null, {'a.h': '123456789\0'}),
            () => fixture.context.set_build_options('-DAAAAAA=\0'),
        ])
            await raises(RangeError, call, 'offset 9');
    },

    // A call with a cancelled cancellable changes no memory.
    async cancelledBefore(fixture) {
        const cancellable = new Gio.Cancellable();
        cancellable.cancel();
        const buffer = fixture.bufferFrom(ramp(16));
        const other = fixture.bufferFrom(ramp(16).reverse());
        const calls = [
            () => buffer.fill(9, 0, null, {cancellable}),
            () => buffer.write(Uint8Array.of(9), 0, {cancellable}),
            () => buffer.copy(other, {cancellable}),
        ];
        const images = [];
        if (fixture.device.get_capabilities() & Gpu.Capabilities.IMAGES) {
            for (let i = 0; i < 2; i++) {
                images.push(fixture.image('rgba-uint8', [2, 2]));
                await images[i].write(ramp(16).map(byte => byte + i));
            }
            calls.push(() => images[0].fill([9, 9, 9, 9], {cancellable}),
                () => images[0].copy(images[1], {cancellable}));
        }
        for (const call of calls) {
            const error = await call().catch(caught => caught);
            assert(error?.matches?.(Gio.IOErrorEnum, Gio.IOErrorEnum.CANCELLED), error);
        }
        for (const memory of [buffer, ...images.slice(0, 1)])
            equalData(await memory.read(), ramp(16));
    },

    // Errors name the function, the argument and the value.
    async wrongNumbers(fixture) {
        const {stream} = fixture;
        const buffer = fixture.bufferFrom(ramp(16));
        const memory = Gpu.HostMemory.new(fixture.context, Gpu.HostMemoryFlags.NONE, 16);
        const data = Uint8Array.of(9);
        for (const [call, ...words] of [
            [() => buffer.read({type: Float32Array}), 'Gpu.Buffer.read()', 'offset', '{type}'],
            [() => buffer.read(0, 5.9), 'Gpu.Buffer.read()', 'size', '5.9'],
            [() => buffer.read(-1, 4), 'Gpu.Buffer.read()', 'offset', '-1'],
            [() => buffer.write(data, 'x'), 'Gpu.Buffer.write()', 'offset', "'x'"],
            [() => buffer.write(data, 2.7), 'Gpu.Buffer.write()', 'offset', '2.7'],
            [() => buffer.fill(0, true), 'Gpu.Buffer.fill()', 'offset', 'true'],
            [() => buffer.copy(buffer, {size: NaN}), 'Gpu.Buffer.copy()', 'size', 'NaN'],
            [() => buffer.map(0, Infinity), 'Gpu.Buffer.map()', 'offset', 'Infinity'],
            [() => buffer.pieces('4').next(), 'Gpu.Buffer.pieces()', 'size', "'4'"],
            [() => memory.read([8]), 'Gpu.HostMemory.read()', 'offset', 'not Array'],
            [() => memory.write(data, 0.5), 'Gpu.HostMemory.write()', 'offset', '0.5'],
            [() => stream.write(buffer, data, '1'), 'Gpu.Stream.write()', 'offset', "'1'"],
            [() => stream.read(buffer, 0, 1.5), 'Gpu.Stream.read()', 'size', '1.5'],
            [() => stream.fill(buffer, 0, 1.5), 'Gpu.Stream.fill()', 'offset', '1.5'],
            [() => stream.copy(buffer, buffer, 1, 2.5), 'Gpu.Stream.copy()',
                'destinationOffset', '2.5'],
        ])
            await raises(TypeError, call, ...words);
        equalData(await buffer.read(), ramp(16));
        equalData(await buffer.read(null, 2), ramp(2));
        equalData(await buffer.read(14n), ramp(16).subarray(14));
        assert(buffer.read(-1).catch(() => null) instanceof Promise);
        assert(buffer.map(0, -1).catch(() => null) instanceof Promise);
    },

    // Functions from C refuse numbers that are not whole, or out of range, and other values.
    async wrongNumbersOfC(fixture) {
        const {context, stream} = fixture;
        const {NONE} = Gpu.MemoryFlags;
        const buffer = fixture.bufferFrom(ramp(16));
        const pool = Gpu.MemoryPool.new(context);
        const other = Gpu.LimitAllocator.new(pool, 1000);
        const array = Gpu.Array.new(context, Gpu.DType.INT32, [2, 3]);
        for (const [call, ...words] of [
            [() => Gpu.Buffer.new(context, NONE, NaN), 'Buffer.new()', 'size', 'NaN'],
            [() => Gpu.Buffer.new(context, NONE, 1.5), 'Buffer.new()', 'size', '1.5'],
            [() => buffer.slice(0, Infinity), 'Buffer.slice()', 'size', 'Infinity'],
            [() => buffer.read_bytes(null, 0.5, 1, null), 'Buffer.read_bytes()', 'offset', '0.5'],
            [() => buffer.read_bytes_async(null, 0, NaN, null), 'Buffer.read_bytes_async()', 'NaN'],
            [() => stream.read_bytes(buffer, 0, 1.5), 'Stream.read_bytes()', 'size', '1.5'],
            [() => Gpu.Extent.new(1, 2.5, 1), 'Extent.new()', 'height', '2.5'],
            [() => Gpu.Array.new(context, Gpu.DType.INT32, [2, NaN]), 'Array.new()', 'shape',
                'whole numbers', 'not NaN'],
            [() => array.reshape([1.5, 4]), 'Array.reshape()', 'shape', '1.5'],
            [() => stream.take_rows(array, array, [0, 0.5]), 'Stream.take_rows()', 'rows', '0.5'],
            [() => pool.alloc_buffer(NaN, null), 'MemoryPool.alloc_buffer()', 'size', 'NaN'],
            [() => pool.alloc(1.5), 'Allocator.alloc()', 'size', '1.5'],
            [() => other.alloc(1.5), 'Allocator.alloc()', 'size', '1.5'],
            [() => pool.set_limit(-0.5), 'MemoryPool.set_limit()', 'limit', '-0.5'],
            [() => stream.record().wait_timeout(0.1, null), 'Event.wait_timeout()', '0.1'],
            [() => Gpu.dtype_get_number(Gpu.DTypeKind.INT, NaN), 'Gpu.dtype_get_number()', 'NaN'],
            [() => Gpu.Buffer.new(context, Gpu.MemoryFlags.WRITEONLY, 16), 'Buffer.new()', 'flags',
                'undefined'],
            [() => buffer.map('READ'), 'Buffer.map()', 'flags', "'READ'"],
            [() => stream.record({}), 'Stream.record()', 'flags', '{}'],
            [() => Gpu.Array.new(context, Gpu.DType.INT32, [null]), 'Array.new()', 'shape', 'null'],
        ])
            await raises(TypeError, call, ...words, 'whole number');
        for (const name of ['limit', 'soft_limit', 'soft-limit', 'softLimit', 'history_size',
            'notify_interval', 'release_threshold']) {
            pool[name] = 100;
            await raises(TypeError, () => {
                pool[name] = NaN;
            }, `Gpu.MemoryPool.${name} must be a whole number, not NaN`);
            equal(pool[name], 100);
        }
        await raises(TypeError, () => {
            other.limit = 1.5;
        }, 'Gpu.LimitAllocator.limit must be a whole number, not 1.5');
        for (const size of [-1, 2 ** 64, -1n])
            await raises(Error, () => Gpu.Buffer.new(context, NONE, size), 'out of range');
        for (const [call, ...words] of [
            [() => Gpu.Buffer.new(context, 2n ** 64n, 16), 'Buffer.new()', 'flags'],
            [() => Gpu.Array.new(context, Gpu.DType.INT32, [2 ** 64]), 'Array.new()', 'shape'],
            [() => array.transpose([1, 2 ** 32]), 'Array.transpose()', 'axes', '4294967296'],
            [() => array.transpose([1, -1]), 'Array.transpose()', 'axes', '-1'],
            [() => pool.alloc_blocks([16, -1], null), 'MemoryPool.alloc_blocks()', 'sizes', '-1'],
            [() => Gpu.Stream.new_full(context, null, 0, 2 ** 32), 'Stream.new_full()', 'priority'],
        ])
            await raises(RangeError, call, ...words, 'out of range');
        await raises(TypeError, () => stream.record(0, null), 'at most 1 argument');
        equal(Gpu.MemoryPool.new(context, null, null).active_bytes, 0);
        assert(stream.record(null) instanceof Gpu.Event);

        equalData(buffer.read_bytes(null, 4, 4n, null).toArray(), ramp(16).subarray(4, 8));
        equal(Gpu.Buffer.new(context, NONE, 3.0).get_size(), 3);
        equal(buffer.slice(0, 4, 0.5).get_size(), 4);       // gjs warns about the surplus argument
        equal(array.reshape([3, 2], Gpu.ArrayOrder.C).shape.join(), '3,2');
        equal(Gpu.Arguments.new().add_double(0.5), undefined);
        equal([...Gpu.Color.new(0.5, 0.25, 0, 1)].join(), '0.5,0.25,0,1');
        assert(pool.set_fraction(0.5));
        pool.set_fragmentation_target(0.25);
        equal(pool.fragmentation_target, 0.25);
        pool.fragmentationTarget = 0.5;
        equal(pool['fragmentation-target'], 0.5);
    },

    async wrongOptions(fixture) {
        const buffer = fixture.bufferFrom(ramp(16));
        const memory = Gpu.HostMemory.new(fixture.context, Gpu.HostMemoryFlags.NONE, 16);
        const array = Gpu.Array.from(fixture.context, Int32Array.of(1, 2), null);
        const data = Uint8Array.of(9);
        const cancellable = new Gio.Cancellable();
        cancellable.cancel();
        for (const [call, ...words] of [
            [() => buffer.read(0, 8, {typo: Float32Array}), 'Gpu.Buffer.read()', 'typo: Float32',
                'type, stream, cancellable, progress'],
            [() => buffer.read(0, null, 5), 'Gpu.Buffer.read()', 'options', 'not 5'],
            [() => buffer.read(0, 8, {type: Array}), 'Gpu.Buffer.read()', 'type', 'not Array'],
            [() => buffer.read(0, 8, {progress: 3}), 'Gpu.Buffer.read()', 'progress', '3'],
            [() => buffer.write(data, 0, cancellable), 'Gpu.Buffer.write()', 'options',
                'Gio.Cancellable'],
            [() => buffer.write(data, 0, null, {cancellable}), 'Gpu.Buffer.write()',
                'at most 3 arguments', '{cancellable}'],
            [() => buffer.readInto(data, 0, [cancellable]), 'Gpu.Buffer.readInto()', 'options'],
            [() => buffer.fill(0, 0, 8, fixture.stream), 'Gpu.Buffer.fill()', 'options'],
            [() => buffer.copy(buffer, 3), 'Gpu.Buffer.copy()', 'options', 'not 3'],
            [() => buffer.pieces(4, {of: 1}).next(), 'Gpu.Buffer.pieces()', 'of: 1'],
            [() => memory.read(0, 8, {stream: null}), 'Gpu.HostMemory.read()', 'stream: null'],
            [() => memory.write(data, 0, 'x'), 'Gpu.HostMemory.write()', 'options', "'x'"],
            [() => array.read(cancellable), 'Gpu.Array.read()', 'options'],
            [() => array.write(data, {offset: 1}), 'Gpu.Array.write()', 'offset: 1'],
            [() => Gpu.Array.from(fixture.context, data, 1), 'Gpu.Array.from()', 'shape', 'not 1'],
            [() => Gpu.Array.from(fixture.context, data, null, {device: 1}), 'Gpu.Array.from()',
                'device: 1'],
        ])
            await raises(TypeError, call, ...words);
        equalData(await buffer.read(), ramp(16));

        await buffer.write(data, 1, null);
        await fixture.buffer(16).copy(buffer, null);
        equalData(await buffer.read(1, 1, null), data);
        equalData(await buffer.read(1, 1, {type: null, progress: null}), data);
        equalData(await array.read(null), Int32Array.of(1, 2));
        for await (const piece of buffer.pieces(16, null))
            equal(piece[1], 9);
    },

    async wrongLaunchArguments(fixture) {
        const buffer = fixture.bufferFrom(Uint32Array.of(1));
        const kernel = fixture.program().get_kernel('triple');
        for (const [name, call] of [
            ['Gpu.Stream.launch()', (...args) => fixture.stream.launch(kernel, 1, null, ...args)],
            ['Gpu.Kernel.prepare()', (...args) => kernel.prepare(1, null, ...args)],
        ]) {
            for (const [args, ...words] of [
                [[buffer], 'args', 'not Gpu.Buffer'],
                [[[buffer], {sharedSize: 1.5}], 'sharedSize', '1.5'],
                [[[buffer], {indirect: buffer}], 'indirect', 'not Gpu.Buffer'],
                [[[buffer], {shared: 1}], 'shared: 1'],
            ])
                await raises(TypeError, () => call(...args), name, ...words);
            call([buffer], null);
        }
        equalData(await buffer.read(), Uint32Array.of(3));
    },

    async badSizes(fixture) {
        const {NONE} = Gpu.MemoryFlags;
        for (const size of [0, 2 ** 53 - 1])
            await raises(GLib.Error, () => Gpu.Buffer.new(fixture.context, NONE, size));
        const buffer = fixture.buffer(100);
        for (const call of [
            () => buffer.read(101), () => buffer.read(50, 51), () => buffer.read(2 ** 52, 1),
            () => buffer.write(new Uint8Array(2), 99), () => buffer.fill(0, 50, 51),
            () => buffer.map(Gpu.MapFlags.READ, 50, 51), () => buffer.slice(100, 1),
            () => fixture.stream.read(buffer, 1, 2 ** 52),
        ])
            await raises(Gpu.Error.INVALID_ARGUMENT, call, '100');
    },

    async released(fixture) {
        const buffer = fixture.buffer(64);
        const other = fixture.buffer(64);
        const triple = fixture.program().get_kernel('triple');
        buffer.release();
        assert(buffer.is_released());
        for (const call of [
            () => buffer.read(0, 1), () => buffer.write(new Uint8Array(1)),
            () => buffer.fill(0, 0, 1), () => other.copy(buffer, {size: 1}),
            () => buffer.map(Gpu.MapFlags.READ, 0, 1), () => buffer.slice(0, 1),
            () => fixture.stream.fill(buffer, 0, 0, 1),
            () => fixture.stream.launch(triple, 1, null, [buffer]),
        ])
            await raises(Gpu.Error.RELEASED, call);
    },

    async foreignContext(fixture) {
        const foreign = Gpu.Context.new(fixture.device);
        const buffer = Gpu.Buffer.new(foreign, Gpu.MemoryFlags.NONE, 64);
        for (const call of [
            () => fixture.stream.fill(buffer, 0),
            () => buffer.read(0, 64, {stream: fixture.stream}),
            () => fixture.stream.launch(fixture.program().get_kernel('triple'), 1, null, [buffer]),
        ])
            await raises(Gpu.Error.INVALID_ARGUMENT, call, 'context');
    },

    async twoStreams(fixture) {
        const program = fixture.program();
        const [add, triple] = [program.get_kernel('add'), program.get_kernel('triple')];
        const [one, other] = [fixture.newStream(), fixture.newStream()];
        const buffer = fixture.buffer(4096);
        one.fill(buffer, 0);
        let expected = 0;
        for (let turn = 0; turn < 100; turn++) {
            one.launch(add, 1024, null, [buffer, turn]);
            other.launch(triple, 1024, null, [buffer]);
            expected = (expected + turn) * 3 % 2 ** 32;
        }
        assert(one.n_hazard_waits + other.n_hazard_waits > 0);
        equalData(await buffer.read(), new Uint32Array(1024).fill(expected));
    },

    async contextAsync(fixture) {
        const context = new Gpu.Context({device: fixture.context.get_device()});
        await context.init_async(0, null);
        const buffer = Gpu.Buffer.new_from_bytes(context, 0, new Uint8Array([1, 2, 3]));
        equalData(await buffer.read(), new Uint8Array([1, 2, 3]));
        const model = new Gpu.DeviceModel();
        equal(model.get_n_items(), 0);
        while (model.loading)
            await sleep(1);
        assert(model.get_item(0).get_id() === Gpu.Device.list()[0].get_id());
    },

    async events(fixture) {
        const stream = fixture.newStream();
        const holds = fixture.hasUserEvents();
        const gate = holds ? fixture.gate(stream) : null;
        const event = stream.record();
        let heard = 0;
        event.connect('completed', source => {
            assert(source === event);
            heard++;
        });
        let waited = false;
        const promise = event.wait_async(null).then(() => (waited = true));
        if (holds) {
            await sleep(20);
            equal(event.query(), Gpu.EventStatus.PENDING);
            assert(!waited && heard === 0, 'nothing happened yet');
            gate.complete();
        }
        await promise;
        assert(waited, 'it was waited for');
        await stream.synchronize_async(null);
        equal(event.query(), Gpu.EventStatus.COMPLETE);
        while (heard === 0)
            await sleep(1);
        equal(heard, 1);
    },

    async cancelAndFail(fixture) {
        const stream = fixture.newStream();
        const gate = fixture.gate(stream);
        const event = stream.record();
        const cancellable = new Gio.Cancellable();
        const promise = event.wait_async(cancellable);
        cancellable.cancel();
        try {
            await promise;
            throw new Error('the wait was not cancelled');
        } catch (error) {
            if (!(error instanceof GLib.Error) ||
                !error.matches(Gio.IOErrorEnum, Gio.IOErrorEnum.CANCELLED))
                throw error;
        }
        gate.fail('the reason why');
        await raises(GLib.Error, () => event.wait_async(null));
        await raises(GLib.Error, () => gate.wait_async(null), 'the reason why');
    },

    async images(fixture) {
        const image = fixture.image('rgba-unorm8', [13, 7]);
        const data = ramp(13 * 7 * 4);
        equal(image.get_format().to_string(), 'rgba-unorm8');
        equal(image.width * image.height, 13 * 7);
        await image.write(data);
        equalData(await image.read(), data);
        await image.write(Uint8Array.of(1, 2, 3, 4), {origin: [12, 6], extent: [1, 1]});
        data.set([1, 2, 3, 4], data.length - 4);
        equalData(await image.read(), data);
        await image.fill([1, 0, 1], {origin: [0, 1], extent: [13, 1]});
        for (let x = 0; x < 13; x++)
            data.set([255, 0, 255, 255], (13 + x) * 4);
        equalData(await image.read({origin: [0, 1], extent: [13, 1]}), data.slice(52, 104));

        const buffer = fixture.buffer(data.length);
        fixture.stream.copy_region(buffer, image, [13, 7]);
        equalData(await buffer.read(), data);

        const formats = fixture.context.list_image_formats(Gpu.MemoryFlags.NONE,
            Gpu.ImageType.IMAGE_2D);
        assert(formats.some(format => format.to_string() === 'rgba-unorm8'));
        assert(fixture.context.get_max_image_extent(Gpu.ImageType.IMAGE_2D).width >= 13);
        await raises(Gpu.Error.INVALID_ARGUMENT, () => image.write(Uint8Array.of(1)));
        await raises(Gpu.Error.INVALID_ARGUMENT, () => fixture.image('rgba-unorm9', [1, 1]),
            'rgba-unorm9');
    },

    async imageValues(fixture) {
        const image = fixture.image('rgba-unorm8', new Uint32Array([4, 2]));
        const {NONE} = Gpu.MemoryFlags;
        const {IMAGE_2D} = Gpu.ImageType;
        for (const color of [1, [1, 1, 1], Float32Array.of(1, 1, 1, 1)]) {
            await image.fill(0);
            await image.fill(color, {origin: new Set([3, 1]), extent: [1]});
            equalData(await image.read({origin: [3, 1]}), new Uint8Array(4).fill(255));
        }
        for (const color of [null, 'ffff', ['1'], {}])
            await raises(TypeError, () => image.fill(color), '1 to 4 numbers');
        await raises(RangeError, () => image.fill([]));
        for (const origin of ['12', [1.5], [1, '2'], {}])
            await raises(RangeError, () => image.read({origin}));
        await raises(TypeError, () => image.read({orgin: [1]}), 'Gpu.Image.read()', 'orgin');
        await raises(TypeError, () => image.write(ramp(32), {rowPitch: 16.5}), '16.5');
        if (fixture.device.get_backend() !== 'cuda') {
            const bytes = new GLib.Bytes(ramp(64 * 64 * 4));
            const other = Gpu.Image.new_for_host_bytes(fixture.context, NONE, 'rgba-unorm8',
                IMAGE_2D, [64, 64], bytes);
            equalData(await other.read({extent: [2]}), ramp(8));
        }
        await raises(Gpu.Error.INVALID_ARGUMENT, () => Gpu.Image.new_wrapped(fixture.context, 0,
            'rgba-unorm9', Gpu.WrapMode.BORROW), 'rgba-unorm9');
    },

    async imageCopy(fixture) {
        const [first, second] = [0, 1].map(() => fixture.image('r-uint8', [4, 3]));
        const data = ramp(100);
        await first.write(data.slice(0, 12));
        await second.copy(first);
        equalData(await second.read(), data.slice(0, 12));
        await second.copy(first, {origin: [0, 0], sourceOrigin: [2, 2].values()});
        equalData(await second.read({extent: 4}),
            Uint8Array.of(...data.slice(10, 12), ...data.slice(2, 4)));
        const buffer = fixture.buffer(100);
        await buffer.write(data);
        await second.copy(buffer, {origin: [1, 1], sourceOrigin: [5, 0, 0, 10]});
        equalData(await second.read({origin: [1, 1]}),
            Uint8Array.of(...data.slice(5, 8), ...data.slice(15, 18)));
        await raises(Gpu.Error.INVALID_ARGUMENT, () => second.copy(first, {origin: 1}));
    },

    async imageMapping(fixture) {
        if (!(fixture.device.get_capabilities() & Gpu.Capabilities.MAP))
            throw new Skip(`${fixture.device.get_id()} lacks map`);
        const image = fixture.image('r-uint8', [8, 4]);
        await image.write(ramp(32));
        const mapping = await image.map(Gpu.MapFlags.READ | Gpu.MapFlags.WRITE,
            {origin: [2, 1], extent: [3, 2]});
        equal(mapping.toUint8Array()[mapping.get_row_pitch()], ramp(32)[2 * 8 + 2]);
        setByte(mapping, mapping.get_row_pitch(), 99);
        mapping.unmap();
        equalData(await image.read({origin: [2, 2], extent: [1, 1]}), Uint8Array.of(99));
    },

    async samplers(fixture) {
        if (!(fixture.device.get_capabilities() & Gpu.Capabilities.SOURCE))
            throw new Skip(`${fixture.device.get_id()} lacks source`);
        const [source, target] = [0, 1].map(() => fixture.image('rgba-unorm8', [8, 4]));
        const sampler = Gpu.Sampler.new(fixture.context, false, Gpu.AddressMode.CLAMP_TO_EDGE,
            Gpu.FilterMode.NEAREST);
        const program = Gpu.Program.new_from_source(fixture.context, IMAGE_SOURCE, null);
        const texels = new Uint32Array(32).map((texel, i) => i * 0x01020304);
        await source.write(texels);
        fixture.stream.launch(program.get_kernel('mirror'), [8, 4], null,
            [source, sampler, target]);
        equalData(await target.read(),
            texels.map((texel, i) => texels[(i & ~7) + 7 - (i & 7)]));
        await raises(Gpu.Error.INVALID_ARGUMENT, () => Gpu.Sampler.new(fixture.context, false,
            Gpu.AddressMode.REPEAT, Gpu.FilterMode.NEAREST), 'normalized');
    },

    async dropReferences(fixture) {
        for (const gated of fixture.hasUserEvents() ? [false, true] : [false]) {
            const result = fixture.buffer(2000);
            await result.fill(0);
            const gate = enqueueMuch(fixture, result, gated);
            System.gc();
            if (gate !== null)
                gate.complete();
            equalData(await result.read(), expectedMuch());
        }
    },

    dropEverything(fixture) {
        enqueueMuch(fixture, fixture.buffer(2000), false);
        fixture.context = fixture.stream = null;
        System.gc();
    },
};

// Submits 1,000 copies and launches, and drops their memory, data, kernels and stream at once.
function enqueueMuch(fixture, result, gated) {
    const stream = fixture.newStream();
    const gate = gated ? fixture.gate(stream) : null;
    const program = fixture.program();
    const add = program.get_kernel('add');
    for (let turn = 0; turn < 500; turn++) {
        const source = fixture.buffer(4);
        stream.write(source, Uint32Array.of(turn));
        stream.copy(result, source, 4, 4 * turn);
        if (turn % 10 === 0)
            stream.launch(add, 500, null, [result, 1]);
        else
            stream.launch(add, 1, null, [fixture.buffer(4), 1]);
        if (turn % 100 === 0)
            System.gc();
    }
    return gate;
}

function expectedMuch() {
    const numbers = new Uint32Array(500);
    for (let turn = 0; turn < 500; turn++) {
        numbers[turn] = turn;
        if (turn % 10 === 0)
            numbers.forEach((number, i) => (numbers[i] = number + 1));
    }
    return numbers;
}

// --- running -------------------------------------------------------------------------------------

// Returns whether the word is the ID or the back end of the device, or a part of the name of its
// platform or of the device, as in test-util.c.
function matches(device, word) {
    const [id, backend] = [device.get_id(), device.get_backend()];
    if (word === id || word === backend)
        return true;
    if (word.startsWith(`${backend}:`)) {
        try {
            if (Gpu.Device.find(word).equal(device))
                return true;
        } catch {
        }
        const platform = device.platform ?? '';
        return platform.toLowerCase().includes(word.slice(backend.length + 1).toLowerCase());
    }
    return device.get_name().toLowerCase().includes(word.toLowerCase());
}

function chooseDevices() {
    const choice = GLib.getenv('GPUMEM_TEST') ?? '';
    const words = choice.split(/[,;]/).map(word => word.trim()).filter(word => word);
    const chosen = Gpu.Device.list().filter(device => {
        if (words.length > 0)
            return words.some(word => matches(device, word));
        try {
            return device.check();
        } catch (error) {
            print(`# ${device.get_id()}: ${error.message}`);
            return false;
        }
    });
    if (chosen.length === 0)
        throw new Error(`no device to test: GPUMEM_TEST is '${choice}'`);
    return chosen;
}

function liveObjects() {
    return Gpu.debug_list_live_objects().deepUnpack();
}

async function collect() {
    System.gc();
    await sleep(5);
    System.gc();
}

// The garbage collector treats every number on the stack that looks like a pointer as a pointer, so
// a few objects may stay alive. The tests therefore drop a thousand objects, and allow a few live
// objects.
async function checkFewLive() {
    const deadline = GLib.get_monotonic_time() + DEADLINE * 1e6;
    for (;;) {
        await collect();
        if (Object.values(liveObjects()).reduce((sum, n) => sum + n, 0) <= 60)
            return;
        if (GLib.get_monotonic_time() > deadline)
            throw new Error(`still alive: ${JSON.stringify(liveObjects())}`);
    }
}

tests.arrays = async function (fixture) {
    const data = Float32Array.from({length: 24}, (_, i) => i);
    const array = Gpu.Array.from(fixture.context, data, [4, 6]);
    equal(array.shape.join(), '4,6');
    equal(`${array}`, `[Gpu.Array of shape (4, 6), float32, on ${fixture.device.get_id()}]`);
    equal(array.strides.join(), '24,4');
    assert(array.get_dtype().equal(Gpu.DType.FLOAT32));
    equal([...await array.read()].join(), [...data].join());
    const part = array.slice(0, 3, 0, -2).index(1, 1);
    equal([...await part.read()].join(), '19,7');
    await part.write(Float32Array.of(-1, -2));
    const all = await array.read();
    equal(all[19], -1);
    equal(all[7], -2);
    equal((await array.transpose(null).read())[1], 6);
    await raises(TypeError, () => part.write(Float64Array.of(5)), 'Gpu.Array.write()',
        'Float32Array', 'not Float64Array');
    await raises(TypeError, () => part.write(Int32Array.of(5, 6)), 'not Int32Array');
    equal([...await part.read()].join(), '-1,-2');
    await part.write(new Uint8Array(Float32Array.of(-3, -2).buffer));
    equal([...await part.read()].join(), '-3,-2');
    await part.write(Float32Array.of(-1, -2).buffer);
    equal([...await part.read()].join(), '-1,-2');
    const table = Gpu.Array.from(fixture.context, Uint8Array.of(10, 11, 12));
    const taken = Gpu.Array.from(fixture.context, Uint8Array.of(0, 0, 0, 0));
    fixture.stream.take_rows(taken, table, [2, -3, 1, 2]);
    equal([...await taken.read()].join(), '12,10,11,12');
    fixture.stream.put_rows(table, taken.slice(0, 0, 2, 1), [0, -1]);
    equal([...await table.read()].join(), '12,11,10');
    await raises(Gpu.Error.INVALID_ARGUMENT, () => fixture.stream.take_rows(taken, table, [3, 0]));
    const bits = Gpu.Array.from(fixture.context, BigInt64Array.of(1n, -5n));
    equal((await bits.read())[1], -5n);
    const halves = Gpu.DType.FLOAT16;
    const Half = globalThis.Float16Array ?? Uint16Array;
    for (const [dtype, Type] of [[halves, Half], [Gpu.DType.BFLOAT16, Uint16Array]]) {
        const bytes = new GLib.Bytes(new Uint8Array(Uint16Array.of(0x3c00, 0x4000).buffer));
        const small = Gpu.Array.new_from_bytes(fixture.context, null, null, dtype, [2],
            Gpu.ArrayOrder.C, bytes);
        const got = await small.read();
        assert(got instanceof Type, `${dtype.get_name()} are ${got.constructor.name}`);
        equal([...got].join(), Type === Uint16Array ? '15360,16384' : '1,2');
    }
};

// The main loop must run while the stream waits, because a callback of the main loop opens the
// gate.
tests.arraysWithoutBlocking = async function (fixture) {
    const stream = fixture.newStream();
    const gate = fixture.gate(stream);
    const array = Gpu.Array.from(fixture.context, Int32Array.of(1, 2, 3));
    const data = Int32Array.of(4, 5, 6);
    const written = array.write(data, {stream});
    data.fill(0);
    let waited = false;
    const read = array.read({stream}).finally(() => (waited = true));
    await sleep(20);
    assert(!waited, 'nothing happened yet');
    gate.complete();
    await written;
    equal([...await read].join(), '4,5,6');

    await array.write_bytes_async(null, Gpu.ArrayOrder.C, Int32Array.of(7, 8, 9), null);
    array.slice(0, 1, 2, 1).write_bytes(null, Gpu.ArrayOrder.C, Int32Array.of(-1), null);
    equal([...await array.read()].join(), '7,-1,9');
    await raises(Gpu.Error.INVALID_ARGUMENT, () => array.write(Int32Array.of(1)));
};

async function runCase(func, device) {
    if (device === null)
        await func();
    else
        await func(new Fixture(device));
}

async function runAll() {
    const cases = Object.entries(plain).map(([name, func]) => [name, func, null]);
    for (const device of chooseDevices()) {
        for (const [name, func] of Object.entries(tests))
            cases.push([`${device.get_id()}/${name}`, func, device]);
    }
    const wanted = cases.filter(([name]) => ARGV.every(word => name.includes(word)));

    let failed = 0;
    print(`1..${wanted.length}`);
    for (const [index, [name, func, device]] of wanted.entries()) {
        let ok = true;
        let skipped = '';
        for (const step of [() => runCase(func, device), checkFewLive]) {
            try {
                await step();
            } catch (error) {
                if (error instanceof Skip) {
                    skipped = ` # SKIP ${error.message}`;
                    continue;
                }
                ok = false;
                print(`# ${error}\n${error.stack ?? ''}`.trim().replaceAll('\n', '\n# '));
            }
        }
        failed += ok ? 0 : 1;
        print(`${ok ? '' : 'not '}ok ${index + 1} - ${name}${skipped}`);
    }
    return failed;
}

const loop = GLib.MainLoop.new(null, false);
let status = 1;

runAll().then(failed => {
    status = failed > 0 ? 1 : 0;
}).catch(error => {
    print(`Bail out! ${error}`);
}).finally(() => loop.quit());
loop.run();
System.exit(status);
