#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Tests of gpumem.distributed: frames of arrays and buffers, spilling, and clusters of Dask with
workers in threads and in processes."""

import asyncio
import collections
import contextlib
import copy
import os
import math
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
import types
import weakref
from unittest import mock

from guide_util import Guide, clear, run_section
from python_util import DEADLINE, Gpu, Skip, equal, main, need, need_numpy, np, raises

try:
    import dask
    import distributed
    import gpumem.distributed as gd
    from distributed.protocol import (deserialize, deserialize_bytes, serialize,
                                      serialize_bytelist)
except ImportError as error:
    distributed, missing = None, error

KIB, MIB = 1 << 10, 1 << 20

SOURCE = """
__kernel void
square (__global uint *numbers)
{
  size_t i = get_global_id (0);

  numbers[i] = numbers[i] * numbers[i] + 1;
}
"""

SPIN = """
__kernel void
spin (__global uint *number, uint count)
{
  uint x = number[0] + 1;

  for (uint i = 0; i < count; i++)
    {
      x ^= x << 13;
      x ^= x >> 17;
      x ^= x << 5;
    }

  number[0] = x;
}
"""


@contextlib.contextmanager
def on_device(fixture):
    """Makes the device of the test that of gpumem.distributed, in this process and in workers."""
    if distributed is None:
        raise Skip(f"Dask is not installed: {missing}")
    need_numpy()
    os.environ["GPUMEM_DEVICE"] = fixture.device.id
    try:
        yield
    finally:
        os.environ.pop("GPUMEM_DEVICE", None)   # the guide has already removed it
        if gd._process is not None:
            gd._process.context.allocator = None
        gd._process = None


# --- frames --------------------------------------------------------------------------------------

def send(value):
    """Sends a value. Returns the received value, and the number of bytes of the frames."""
    header, frames = serialize(value)
    equal(header["serializer"], "dask", "serializer")
    frames = [bytes(frame) for frame in frames]
    return deserialize(header, frames), sum(map(len, frames))


def check_array(array, expected, n_bytes=None):
    got, sent = send(array)
    equal((type(got), got.dtype, got.shape), (type(array), expected.dtype, expected.shape))
    assert np.array_equal(got.to_numpy(), expected), f"{got.to_numpy()} is not {expected}"
    equal(sent, expected.nbytes if n_bytes is None else n_bytes, "bytes sent")
    return got


def test_dtypes(fixture):
    with on_device(fixture):
        for name in ("bool", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16"):
            numbers = np.arange(24).astype(name)
            check_array(Gpu.Array.from_numpy(gd.context(), numbers), numbers)
        texts = np.arange(64, dtype="u1").view("V16")
        check_array(Gpu.Array.from_numpy(gd.context(), texts), texts)
        records = np.zeros(4, [("a", "i4"), ("b", "f8", (2,))])
        records["a"] = range(4)
        check_array(Gpu.Array.from_numpy(gd.context(), records), records)
        bits = Gpu.Array.from_numpy(gd.context(), np.arange(6, dtype="u2"))
        got, _ = send(bits.view("bfloat16"))
        equal((got.get_dtype().name, got.view("u2").tolist()), ("bfloat16", list(range(6))))
        record = Gpu.DType.new_record(6).add_field("a", "bfloat16", 2)
        got, _ = send(bits.view("u1").view(record))
        equal((got.get_dtype(), got.view("u2").tolist()), (record, list(range(6))))


def test_shapes(fixture):
    with on_device(fixture):
        numbers = np.arange(60, dtype="f4").reshape(3, 4, 5)
        array = Gpu.Array.from_numpy(gd.context(), numbers)
        for key in (np.s_[1], np.s_[:, 1:3], np.s_[::2, ::-1, ::3], np.s_[..., 0], np.s_[0, 0, 0],
                    np.s_[:, None], np.s_[2:2]):
            check_array(array[key], numbers[key])
        assert check_array(array.T, numbers.T).flags.f_contiguous
        check_array(array.transpose(1, 0, 2), numbers.transpose(1, 0, 2))
        row = np.arange(5, dtype="f8")
        repeated = Gpu.Array.from_numpy(gd.context(), row).broadcast_to((1000, 5))
        got = check_array(repeated, np.broadcast_to(row, (1000, 5)), 40)
        equal((got.strides, got.is_writable()), ((0, 8), False))


def test_memory(fixture):
    """Buffers, slices, pools, and memory that arrays share or may only read."""
    with on_device(fixture):
        context = gd.context()
        text = bytes(range(256)) * 2
        buffer = Gpu.Buffer(context, text)
        got, sent = send(buffer)
        equal((got.read(), got.size, sent), (text, 512, 512))
        align = context.device.base_alignment
        got, sent = send(buffer[align:align + 5])
        equal((got.read(), sent), (text[align:align + 5], 5))
        pooled = context.allocator.alloc_buffer(300, None)
        pooled.write(text[:300])
        got, sent = send(pooled)
        equal((got.read(), sent), (text[:300], 300))
        shared = [Gpu.Array.for_memory(buffer, 100, "u1", offset) for offset in (0, 50)]
        got = deserialize_bytes(b"".join(serialize_bytelist({"shared": shared, "rest": 5})))
        equal([array.to_numpy().tobytes() for array in got["shared"]], [text[:100], text[50:150]])
        constant = Gpu.Buffer(context, b"abcd", Gpu.MemoryFlags.READ_ONLY)
        got, _ = send(constant)
        equal((got.read(), got.flags), (b"abcd", Gpu.MemoryFlags.READ_ONLY))
        got, _ = send(Gpu.Array.for_memory(constant, 4, "u1"))
        equal((got.is_writable(), got.tolist()), (False, list(b"abcd")))
        host = Gpu.HostMemory(context, 16)
        host.write(bytes(range(16)))
        check_array(Gpu.Array.for_memory(host, (4, 4), "u1")[:, 1],
                    np.arange(1, 16, 4, dtype="u1"))


def test_damaged(fixture):
    """A message of another size is refused: the array would have undefined elements, or the buffer
    another size."""
    with on_device(fixture):
        array = Gpu.Array.zeros(gd.context(), (6, 4), "f4")
        for value in array, array.memory, array.T:
            header, frames = serialize(value)
            for wrong in [], [b""], [bytes(95)], [bytes(97)]:
                with raises(ValueError, f"{len(b''.join(wrong))} bytes", "96 bytes"):
                    deserialize(header, wrong)
        header, frames = serialize(array)
        header["sub-header"]["sent"] = [0, 4]
        with raises(ValueError, "(0, 4)", "(6, 4)"):
            deserialize(header, [])
        header, frames = serialize(array.memory)
        header["sub-header"].update(sent=[0], shape=[0])
        with raises(ValueError, "0 bytes for a buffer"):
            deserialize(header, [])
        empty = array[:0]
        header, frames = serialize(empty)
        for frames in [], [b""]:
            equal(deserialize(header, frames).shape, (0, 4))
        for load in gd._load, gd._load_cuda:
            with raises(ValueError, "0 bytes", "96 bytes"):
                load(gd._pack(array)[0], [])
        check_damaged_headers(array)


def check_damaged_headers(array):
    good, sent = gd._pack(array)
    frames = [sent.to_numpy().tobytes()]
    for name in good:
        lacking = {key: value for key, value in good.items() if key != name}
        with raises(ValueError, "the message has no", repr(name), "damaged"):
            gd._load(lacking, frames)
    for name, wrong in (("dtype", "f5"), ("dtype", b"abc"), ("dtype", 3), ("shape", "abc"),
                        ("shape", [6, -4]), ("shape", None), ("sent", [6, "x"]), ("sent", 4),
                        ("turned", None)):
        with raises(ValueError, "the message has", repr(name), repr(wrong)[:9], "damaged"):
            gd._load({**good, name: wrong}, frames)
    for shape in [7, 4], [6, 4, 1], []:
        with raises(ValueError, "(6, 4)", str(tuple(shape)), "damaged"):
            gd._load({**good, "shape": shape}, frames)


class Holder:
    """An object of a program."""

    def __init__(self, *values):
        self.values = values


def test_pickle(fixture):
    """pickle saves arrays and buffers for gpumem.distributed, in the bytes or as buffers outside.
    copy still copies on the device."""
    with on_device(fixture):
        context = gd.context()
        numbers = np.arange(60000, dtype="f4").reshape(300, 200)
        array = Gpu.Array.from_numpy(context, numbers)
        empty, row = Gpu.Array(context, (0, 4), "i2"), array[5].broadcast_to((1000, 200))
        buffer = Gpu.Buffer(context, bytes(range(256)) * 16)
        pooled = context.allocator.alloc_buffer(300, None)
        pooled.write(bytes(300))
        values = Holder(array, array.T, array[::2, 3], empty, row, buffer, pooled)
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            outside = []
            options = {"buffer_callback": outside.append} if protocol >= 5 else {}
            data = pickle.dumps(values, protocol, **options)
            assert len(data) < 6000 or protocol < 5, len(data)
            equal(len(outside), 6 if protocol >= 5 else 0)
            check_pickled(pickle.loads(data, buffers=outside).values, values.values)
            check_pickled(pickle.loads(pickle.dumps(values, protocol)).values, values.values)
        for value in array, buffer:
            copied = copy.deepcopy(value), copy.copy(value)
            equal({type(other) for other in copied}, {type(value)})
        code = "import pickle, sys; sys.modules['gpumem'] = None; pickle.load(sys.stdin.buffer)"
        done = subprocess.run([sys.executable, "-c", code], input=pickle.dumps([array]),
                              capture_output=True)
        assert done.returncode == 1 and b"gpumem.distributed" in done.stderr, done.stderr


def check_pickled(got, expected):
    for one, other in zip(got, expected):
        equal((type(one), one.context), (type(other), gd.context()))
        if isinstance(one, Gpu.Buffer):
            equal(one.read(), other.read())
            continue
        equal((one.shape, one.dtype), (other.shape, other.dtype))
        assert np.array_equal(one.to_numpy(), other.to_numpy())


def test_sizes(fixture):
    with on_device(fixture):
        array = Gpu.Array.zeros(gd.context(), (10, 100), "f4")
        repeated = Gpu.Array.zeros(gd.context(), 10, "f4").broadcast_to((1000, 10))
        values = (array, array[1], repeated, array.memory, array[:0])
        equal([dask.sizeof.sizeof(value) for value in values], [4000, 400, 40, 4000, 0])


def test_tokens(fixture):
    """Equal contents have equal tokens, and different contents, shapes and types have others."""
    with on_device(fixture):
        stream = Gpu.Stream(gd.context())
        record = np.dtype({"names": ["a", "b"], "formats": ["f4", ("i2", 3)], "offsets": [0, 8],
                           "itemsize": 16})
        numbers = np.arange(24, dtype="u4").reshape(4, 6)
        first = Gpu.Array.from_numpy(gd.context(), numbers)
        same = Gpu.Array.from_numpy(gd.context(), numbers.copy(order="F"))
        values = [first, first[0], first.reshape(6, 4), first.view("i4"), first.memory, first[:0],
                  Gpu.Array.empty(gd.context(), (0, 6), "bfloat16"),
                  *(Gpu.Array.from_numpy(gd.context(), np.zeros(1, kind))
                    for kind in (record, [("a", "V16")], "c16"))]
        tokens = [dask.base.tokenize(value) for value in values]
        equal(len(set(tokens)), len(values))
        equal([dask.base.tokenize(value) for value in values], tokens)
        equal(dask.base.tokenize(same), tokens[0])
        equal(dask.base.tokenize(first.copy().memory), tokens[4])
        equal(dask.base.tokenize(Gpu.Array.zeros(gd.context(), 1, record)), tokens[7])
        first.memory.spill()
        equal(dask.base.tokenize(first), tokens[0])
        first.memory.unspill()
        same.fill(5, stream=stream)             # may be pending
        equal(dask.base.tokenize(same),
              dask.base.tokenize(Gpu.Array.full(gd.context(), (4, 6), 5, "u4")))
        assert dask.base.tokenize(same) != tokens[0]


def test_frames_wait_for_their_array(fixture):
    """A frame has the bytes of the work before it, does not wait for other work of the context, and
    neither depends on later writes nor on the array."""
    with on_device(fixture):
        context = gd.context()
        array = Gpu.Array.zeros(context, 4 * MIB, "u4")
        busy, other = Gpu.Stream(context), Gpu.Stream(context)
        gate = None
        if fixture.device.capabilities & Gpu.Capabilities.USER_EVENTS:
            gate = Gpu.Event.new_user(context)
            busy.wait_event(gate)
        for value in range(30):
            array.fill(value, other)
        header, frames = serialize(array)       # blocks if it waits for the stream `busy`
        assert np.all(np.frombuffer(frames[0], "u4") == 29), "the frame is older than the work"
        if gate is not None:
            gate.complete()
        array.fill(8)
        del array
        assert np.all(deserialize(header, frames).to_numpy() == 29)
        busy.synchronize()


def test_frames_do_not_wait_for_later_tasks(fixture):
    """The frame of a stored value does not wait for the work that other tasks submit to the same
    stream afterwards."""
    need(fixture, Gpu.Capabilities.SOURCE)
    with on_device(fixture), data_with_target(1 << 40) as data:
        context = gd.context()
        stream, spin = context.default_stream, Gpu.Program(context, SPIN).spin
        number, count, seconds = Gpu.Array.zeros(context, 1, "u4"), 1 << 20, 0
        spin(stream, 1, None, number, np.uint32(1))
        stream.synchronize()            # the program is compiled
        while seconds < 0.5:
            count, start = count * 2, time.perf_counter()
            spin(stream, 1, None, number, np.uint32(count))
            stream.synchronize()
            seconds = time.perf_counter() - start
        for _ in range(6):              # the work may end while this thread does not run
            array = Gpu.Array.zeros(context, 1000, "u4")
            spin(stream, 1, None, number, np.uint32(count // 8))
            array.fill(5, stream)
            data["array"] = array
            spin(stream, 1, None, number, np.uint32(count))
            later = stream.record()
            families = ("dask",), ("cuda", "dask")
            messages = [serialize(array, family) for family in families]
            status, count = later.query(), count * 2
            for message, family in zip(messages, families):
                equal(deserialize(*message, family).tolist(), [5] * 1000)
            if status == Gpu.EventStatus.PENDING:
                break
        equal(status, Gpu.EventStatus.PENDING)


def test_wait_for_writes(fixture):
    """Values that are sent need a wait for their last write, but not for each other's. The wait
    leaves errors to the frames."""
    need(fixture, Gpu.Capabilities.USER_EVENTS)
    with on_device(fixture):
        context = gd.context()
        arrays = [Gpu.Array.zeros(context, (5, 10), "u4") for _ in range(3)]
        gates = [Gpu.Event.new_user(context) for _ in range(2)]
        for array, gate in zip(arrays, gates):
            stream = Gpu.Stream(context)
            stream.wait_event(gate)
            array.fill(7, stream)

        async def wait():
            waits = [asyncio.create_task(gd._wait_for_writes(leaves)) for leaves in (
                [arrays[0].T, arrays[0].memory], [arrays[1], arrays[2]], [arrays[2]], [])]
            await asyncio.wait(waits[2:])
            equal([wait.done() for wait in waits], [False, False, True, True])
            gates[1].fail("the test fails this event")
            await waits[1]
            equal(waits[0].done(), False)
            gates[0].complete()
            await waits[0]
        asyncio.run(asyncio.wait_for(wait(), DEADLINE))
        equal(send(arrays[0])[0].tolist(), [[7] * 10] * 5)
        with raises(Gpu.Error, "the test fails this event"):
            gd._dump(arrays[1])


def test_arrays_do_not_wait_for_their_frame(fixture):
    """Deserialisation does not wait for the copy from the frame, which stays until then. Errors of
    the copy reach the users of the array."""
    need(fixture, Gpu.Capabilities.USER_EVENTS)
    with on_device(fixture):
        context = gd.context()
        arrivals = gd._get_process().arrivals
        header, frames = serialize(Gpu.Array.full(context, MIB, 5, "u4"))
        frame = np.array(frames[0])
        kept, gate = weakref.ref(frame), Gpu.Event.new_user(context)
        arrivals.wait_event(gate)
        array = deserialize(header, [frame.data])
        del frame
        assert kept() is not None
        gate.complete()
        equal(array.tolist(), [5] * MIB)
        gate = Gpu.Event.new_user(context)
        arrivals.wait_event(gate)
        array = deserialize(header, frames)
        gate.fail("the test fails this event")
        with raises(Gpu.Error, "the test fails this event"):
            array.to_numpy()


def test_cuda_frames(fixture):
    """Frames for UCX are memory of the device, only on CUDA. Their work has completed."""
    with on_device(fixture):
        array = Gpu.Array.from_numpy(gd.context(), np.arange(60, dtype="f4").reshape(3, 4, 5))
        families = ("cuda", "dask")
        header, frames = serialize(array[:, ::2], families)
        is_cuda = fixture.device.backend == "cuda"
        equal(header["serializer"], families[not is_cuda])
        equal(hasattr(frames[0], "__cuda_array_interface__"), is_cuda)
        got = deserialize(header, frames, families)
        assert np.array_equal(got.to_numpy(), array.to_numpy()[:, ::2])
        header, frames = serialize(array.memory, families)
        equal(deserialize(header, frames, families).read(), array.to_numpy().tobytes())
        stream = Gpu.Stream(gd.context())
        array.fill(5, stream)
        done = stream.record()
        serialize(array, families)
        equal(done.query(), Gpu.EventStatus.COMPLETE)


# --- spilling ------------------------------------------------------------------------------------

class Lower(dict):
    """A mapping that fails to write values to disk."""
    full = False

    def __setitem__(self, key, value):
        if self.full:
            raise OSError("the disk is full")
        super().__setitem__(key, value)


@contextlib.contextmanager
def data_with_target(target, limit=0):
    context = gd.context()
    data = gd.Data(Lower())
    data.open(context.allocator, context.allocator.used_bytes + target)
    context.allocator.limit = limit
    try:
        yield data
    finally:
        data.close()
        data.clear()


def full(value, size=4 * KIB):
    return Gpu.Array.full(gd.context(), size // 4, value, "u4")


def test_spill_least_recently_used(fixture):
    with on_device(fixture), data_with_target(12 * KIB) as data:
        for key in range(8):
            data[key] = full(key)
        equal((sorted(data), sorted(data.lower)), (list(range(8)), list(range(5))))
        assert all(value.memory.spilled for value in data.lower.values())
        for key in (3, 0, 7):
            equal(data[key].tolist(), [key] * KIB)
        equal(sorted(data.lower), [1, 2, 4, 5, 6])
        data["text"] = "of the host"
        equal((data["text"], data.lower["text"], len(data), 3 in data), ("of the host",) * 2
              + (9, True))
        equal(data.pop(1).memory.spilled, True)
        del data[2], data[3]
        equal(sorted(map(str, data)), ["0", "4", "5", "6", "7", "text"])
        equal(data.pop(1, None), None)
        with raises(KeyError):
            data[1]


def test_spill_not_in_use(fixture):
    """Memory in use stays: arrays, other views, and buffers that the mapping returned."""
    with on_device(fixture), data_with_target(8 * KIB) as data:
        data["array"], data["buffer"] = full(1), Gpu.Buffer(gd.context(), b"abcd" * KIB)
        view, buffer = data["array"][5:], data["buffer"]
        for key in range(8):
            data[key] = full(key)
            equal((view.tolist()[0], buffer.read(0, 4)), (1, b"abcd"))
        del view, buffer
        for key in range(8):
            equal(data[key].tolist()[0], key)
        assert {"array", "buffer"} <= set(data.lower), list(data.lower)
        equal((data["array"].tolist()[0], data["buffer"].read(4, 4)), (1, b"abcd"))


Pair = collections.namedtuple("Pair", "x y")


class OwnPair(Pair):
    """A named tuple whose objects can have other attributes."""


class Strict(Pair):
    """A named tuple that _make() does not create again."""
    __slots__ = ()

    @classmethod
    def _make(cls, items):
        raise TypeError("call Strict() instead")


def test_spill_shared_memory(fixture):
    with on_device(fixture), data_with_target(8 * KIB) as data:
        whole = full(5)
        data["values"] = [whole, {"part": whole[10:]}, 3]
        data["other"] = (whole[:10],)
        data["named"] = Pair(whole[:5], [whole[7:], None])
        data["strict"] = Strict(whole[:5], 4)
        own = OwnPair(full(7), 4)
        own.note = "attribute"
        data["own"] = own
        del whole
        for key in range(4):
            data[key] = full(key)
        assert {"values", "other", "named", "strict"} <= set(data.lower), list(data.lower)
        values = data["values"]
        equal((values[0].tolist(), values[1]["part"].shape, values[2]), ([5] * KIB, (KIB - 10,), 3))
        equal(data["other"][0].tolist(), [5] * 10)
        named = data["named"]
        equal((type(named), named.x.tolist(), named.y[0].shape, named.y[1]),
              (Pair, [5] * 5, (KIB - 7,), None))
        assert named.x is not data["named"].x
        strict = data["strict"]
        equal((type(strict), strict.x.tolist(), strict.y), (Strict, [5] * 5, 4))
        equal((data["own"].note, data["own"].x.memory.spilled), ("attribute", False))


def test_spill_for_a_request(fixture):
    """A request that the pool cannot serve spills data. If all are in use, it fails."""
    with on_device(fixture), data_with_target(1 << 40, 8 * MIB) as data:
        for key in range(7):
            data[key] = full(key, MIB)
        big = full(9, 4 * MIB)
        assert sum(value.memory.spilled for value in data._device.values()) >= 3
        del big
        for key in range(7):
            equal(data[key].tolist()[-1], key)
        held = [data[key] for key in range(7)]
        with raises(Gpu.OutOfDeviceMemoryError):
            full(9, 4 * MIB)
        equal([array.tolist()[0] for array in held], list(range(7)))


def test_spill_arrivals_for_a_request(fixture):
    """A task needs memory while values of a message have arrived that no mapping has yet."""
    from gpumem import _spilling
    with on_device(fixture), data_with_target(1 << 40, 8 * MIB):
        arrivals = [_spilling.add_arrived(full(number, MIB)) for number in range(7)]
        big = full(9, 4 * MIB)
        assert sum(array.memory.spilled for array in arrivals) >= 3
        equal(big.tolist()[-1], 9)
        del big
        for number, array in enumerate(arrivals):
            array.memory.unspill()
            equal(array.tolist()[-1], number)


def test_spill_nothing_above_the_limit(fixture):
    """A request that exceeds the limit of the pool fails in any case, so nothing is spilled."""
    with on_device(fixture), data_with_target(1 << 40, 8 * MIB) as data:
        for key in range(5):
            data[key] = full(key, MIB)
        with raises(Gpu.OutOfDeviceMemoryError):
            full(9, 16 * MIB)
        assert not any(value.memory.spilled for value in data._device.values())
        message = full(1, MIB)
        header, frames = serialize(Gpu.Array.full(Gpu.Context(fixture.device), 4 * MIB, 2, "u4"))
        from gpumem import _spilling
        _spilling.add_arrived(message)
        with raises(Gpu.OutOfDeviceMemoryError):
            deserialize(header, frames)
        assert not message.memory.spilled


def test_spill_in_threads(fixture):
    """Threads that allocate memory spill data that another thread reads and drops."""
    with on_device(fixture), data_with_target(4 * MIB, 8 * MIB) as data:
        failed = []
        done = threading.Event()

        def allocate():
            try:
                while not done.is_set():
                    equal(full(3, MIB).tolist()[-1], 3)
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=allocate) for _ in range(2)]
        for key in range(12):
            data[key] = full(key, 512 * KIB)
        for thread in threads:
            thread.start()
        try:
            for _ in range(100):
                key = random.randrange(12)
                equal(data[key].tolist()[-1], key)
        finally:
            done.set()
            for thread in threads:
                thread.join()
        assert not failed, failed
        del thread, threads


def test_spill_without_disk(fixture):
    """If the lower mapping refuses a value, the value stays in the memory of the host."""
    with on_device(fixture), data_with_target(8 * KIB) as data:
        data.lower.full = True
        for key in range(6):
            data[key] = full(key)
        equal((len(data.lower), sorted(data)), (0, list(range(6))))
        equal(sum(value.memory.spilled for value in data._device.values()), 4)
        for key in range(6):
            equal(data[key].tolist(), [key] * KIB)


def test_frames_of_spilled_memory(fixture):
    """Frames are read from spilled memory in place, although the pool has no memory."""
    with on_device(fixture):
        context = gd.context()
        numbers = np.arange(KIB, dtype="u4").reshape(32, 32)
        array = Gpu.Array.from_numpy(context, numbers)
        buffer = Gpu.Buffer(context, numbers.tobytes())
        pitched = array[::2, 3:9].T
        array.memory.spill()
        buffer.spill()
        context.allocator.trim()
        context.allocator.limit = max(context.allocator.managed_bytes, 1)
        sent = [serialize(value, ("cuda", "dask")) for value in (array, pitched, buffer)]
        context.allocator.limit = 0
        equal((array.memory.spilled, buffer.spilled), (True, True))
        equal([header["serializer"] for header, _ in sent], ["dask"] * 3)
        whole, part, raw = (deserialize(*message) for message in sent)
        assert np.array_equal(whole.to_numpy(), numbers)
        assert np.array_equal(part.to_numpy(), numbers[::2, 3:9].T)
        equal(raw.read(), numbers.tobytes())


def test_spill_with_messages(fixture):
    """A read for a message restores nothing, and the message does not keep memory in use."""
    from gpumem import _spilling
    with on_device(fixture), data_with_target(8 * KIB) as data:
        data["array"], data["list"] = full(1), [full(2), {"part": full(3)[5:]}]
        data["buffer"] = Gpu.Buffer(gd.context(), b"abcd" * KIB)
        for key in range(4):
            data[key] = full(key)
        token = _spilling._is_sending.set(True)
        message = {key: data[key] for key in ("array", "list", "buffer", 3)}
        _spilling._is_sending.reset(token)
        equal((message["array"].memory.spilled, message["buffer"].spilled), (True, True))
        for key in range(4, 8):
            data[key] = full(key)
        equal(message[3].memory.spilled, True)
        got = deserialize_bytes(b"".join(serialize_bytelist(message)))
        equal((got["array"].tolist(), got["list"][1]["part"].tolist(), got["buffer"].read(),
               got[3].tolist()), ([1] * KIB, [3] * (KIB - 5), b"abcd" * KIB, [3] * KIB))
        equal((data["array"].memory.spilled, data["buffer"].read(4, 4)), (False, b"abcd"))


def test_message_of_shared_memory(fixture):
    """A read for a message does not spill memory that a task uses through another key."""
    from gpumem import _spilling
    with on_device(fixture), data_with_target(8 * KIB) as data:
        whole = full(5)
        data["whole"], data["part"] = whole, whole[:10]
        del whole
        for key in range(4):
            data[key] = full(key)
        assert {"whole", "part"} <= set(data.lower), list(data.lower)
        whole = data["whole"]
        token = _spilling._is_sending.set(True)
        part = data["part"]
        _spilling._is_sending.reset(token)
        equal((whole.memory.spilled, send(part)[0].tolist()), (False, [5] * 10))
        whole.fill(6)


def test_read_spilled(fixture):
    """All ways to read a buffer or an array return the contents of spilled memory."""
    with on_device(fixture):
        numbers = np.arange(64 * KIB, dtype="u4").reshape(256, 256)
        array = Gpu.Array.from_numpy(gd.context(), numbers)
        buffer, data = array.memory, numbers.tobytes()
        buffer.spill()
        target = bytearray(len(data))
        equal((buffer.read(), buffer.read(5, 6), buffer.read_into(target)),
              (data, data[5:11], len(data)))
        assert target == data and np.array_equal(buffer.to_numpy("u4").reshape(256, 256), numbers)
        target = bytearray(len(data))
        equal(asyncio.run(buffer.read_async()), data)
        equal(asyncio.run(buffer.read_async(progress=lambda *args: None)), data)
        equal((asyncio.run(buffer.read_into_async(target)), target), (len(data), data))
        for key in (np.s_[:], np.s_[3], np.s_[::2, 5:9]):
            assert np.array_equal(array[key].to_numpy(), numbers[key])
            assert np.array_equal(np.asarray(array[key]), numbers[key])
            assert np.array_equal(asyncio.run(array[key].to_numpy_async()), numbers[key])
        assert np.array_equal(array.T.copy_to_host(), numbers.T)
        equal((array[7, 9].item(), array[5].tolist()), (numbers[7, 9], numbers[5].tolist()))
        with raises(Gpu.BusyError):
            array.fill(3)
        assert buffer.spilled


class FakeWorker:
    """The parts of a worker that the plugin uses."""

    def __init__(self, name):
        self.name, self.handlers = name, {"get_data": None}
        self.memory_manager = types.SimpleNamespace()
        self.state = types.SimpleNamespace(data={})

    @property
    def data(self):
        return self.state.data


def test_limit_afterwards(fixture):
    """The plugin restores the limit of the pool when the last worker of the process has ended it,
    unless the program has set another one meanwhile. Spilled data can be read then."""
    with on_device(fixture):
        pool = gd.context().allocator
        workers = [FakeWorker(name) for name in range(2)]
        plugins = [gd.Plugin("8 MiB"), gd.Plugin("8 MiB")]
        for before, meanwhile, after in (0, None, 0), (1 << 40, None, 1 << 40), \
                (5, 1 << 39, 1 << 39):
            pool.limit = before
            for worker, plugin in zip(workers, plugins):
                plugin.setup(worker)
            equal(pool.limit, 8 * MIB)
            data = workers[0].data
            data[0] = full(7, 6 * MIB)
            data[1] = full(8, 6 * MIB)
            plugins[0].teardown(workers[0])
            equal(pool.limit, 8 * MIB)
            pool.limit = meanwhile or pool.limit
            plugins[1].teardown(workers[1])
            equal(pool.limit, after)
            values = data[0], data[1]           # in use at the same time
            equal([value[0].item() for value in values], [7, 8])
            del values
            data.clear()
            pool.trim()
        gd.Plugin("8 MiB").setup(workers[0])
        gd.Plugin().teardown(workers[0])        # another one replaces it
        gd.Plugin().setup(workers[0])
        equal(pool.limit, 1 << 39)
        gd.Plugin().teardown(workers[0])
        pool.limit = 0


def test_configuration(fixture):
    """The configuration of Dask applies where the plugin has no value; 0 is a value."""
    configuration = {"gpumem.limit": "8 MiB", "gpumem.target": "4 MiB"}
    with on_device(fixture), dask.config.set(configuration):
        pool = gd.context().allocator
        for limit, target, found in ((None, None, (8 * MIB, 4 * MIB)), (0, None, (0, 4 * MIB)),
                                     (None, 0, (8 * MIB, 0)), (0, 0, (0, 0)),
                                     (9 * MIB, 5 * MIB, (9 * MIB, 5 * MIB))):
            worker, plugin = FakeWorker(0), gd.Plugin(limit, target)
            plugin.setup(worker)
            equal((pool.limit, worker.data.target), found, (limit, target))
            plugin.teardown(worker)
            equal(pool.limit, 0)


def plain_devices_of_workers():
    if distributed is None:
        raise Skip(f"Dask is not installed: {missing}")
    devices = ["a", "b", "c"]
    names = {0: "a", 4: "b", "gpu-2": "c", "3": "a", "tcp://127.0.0.1:38211": "a", "host": "a"}
    for name, device in names.items():
        equal(gd._choose_device(types.SimpleNamespace(name=name), devices), device, name)


def plain_pools_of_workers():
    if distributed is None:
        raise Skip(f"Dask is not installed: {missing}")
    kinds = {"tcp://127.0.0.1:1": Gpu.MemoryPoolKind.AUTOMATIC,
             "ucx://127.0.0.1:1": Gpu.MemoryPoolKind.SEGMENTS}
    equal(gd._choose_kind(None), Gpu.MemoryPoolKind.AUTOMATIC)      # no client
    for address, kind in kinds.items():
        peer = types.SimpleNamespace(scheduler=types.SimpleNamespace(address=address))
        with mock.patch.object(distributed, "default_client", lambda: peer):
            equal(gd._choose_kind(None), kind)
        process = gd._Process(Gpu.Device.find("host"), gd._choose_kind(peer))
        expected = Gpu.MemoryPool(process.context, kind).kind
        equal((process.pool.kind, process.context.allocator), (expected, process.pool))
        process.context.allocator = None        # which the context and the pool would keep


def plain_plugin():
    """register() refuses wrong arguments before any worker gets them."""
    if distributed is None:
        raise Skip(f"Dask is not installed: {missing}")
    equal(gd.Plugin(devices="host").devices, ["host"])
    equal(gd.Plugin(devices=("cuda:0", "host")).devices, ["cuda:0", "host"])
    for devices in ((), [1], b"host", 3):
        with raises(TypeError, "devices", repr(devices)):
            gd.Plugin(devices=devices)
    with raises(ValueError, "target", "limit", str(8 << 20), str(9 << 20)):
        gd.Plugin("8 MiB", "9 MiB")
    for name in "limit", "target":
        for wrong in [1], True, 1.5, b"8", {}:
            with raises(TypeError, f"{name} must be", repr(wrong)):
                gd.Plugin(**{name: wrong})
        for wrong in -1, "", "-1", "8 gallons", "1 GiB x", "nan", "1e400", math.inf, 1 << 64:
            with raises(ValueError, f"{name} must be", repr(wrong)):
                gd.Plugin(**{name: wrong})
    for limit, target in ((8, "8"), (None, 9), (0, 9), (8, None)):
        gd.Plugin(limit, target)


# --- clusters ------------------------------------------------------------------------------------

def load(part, size):
    return Gpu.Array.from_numpy(gd.context(), np.arange(part * size, part * size + size,
                                                        dtype="u4"))


def square(array):
    result = array.copy()
    program = Gpu.Program(gd.context(), SOURCE)
    program.square(gd.context().default_stream, result.size, None, result)
    return result


def add(one, other):
    return one.to_numpy() + other.to_numpy()


def summarize(array):
    return int(array.to_numpy().sum(dtype="u8"))


def get_state(dask_worker):
    data = dask_worker.data
    return {"device": gd.context().device.id, "limit": data._pool.limit,
            "peak": data._pool.peak_managed_bytes, "below": len(data._below)}


def name_kinds(*values):
    """Returns the names of the types of arguments, and the sum of their elements."""
    flat = [item for value in values for item in (value if type(value) is list else [value])]
    total = sum(int((value.to_numpy() if isinstance(value, Gpu.Array)
                     else np.frombuffer(value.read(), "u1")).sum()) for value in flat)
    return [type(value).__name__ for value in flat], total


def pass_arguments(client):
    """Arguments and variables of functions arrive as arrays and buffers in every way."""
    array = Gpu.Array.from_numpy(gd.context(), np.arange(5))
    buffer = Gpu.Buffer(gd.context(), b"abc")
    values, expected = (array, [buffer, array[1:3]]), (["Array", "Buffer", "Array"], 10 + 294 + 3)
    equal(client.submit(name_kinds, *values, pure=False).result(), expected)
    equal(client.submit(name_kinds, *values).result(), expected)
    equal(client.submit(lambda: name_kinds(*values), pure=False).result(), expected)
    for cache in "cache_dumps", "cache_loads":  # of functions, with their variables
        getattr(distributed.worker, cache, {}).clear()
    equal(client.gather(client.map(name_kinds, [array] * 3, [buffer] * 3)),
          [(["Array", "Buffer"], 10 + 294)] * 3)
    equal(list(client.run(name_kinds, *values).values()), [expected] * 2)
    equal(dask.delayed(name_kinds)(*values).compute(), expected)
    equal(client.submit(Holder, *values).result().values[1][0].read(), b"abc")


def expect(part, size):
    numbers = np.arange(part * size, part * size + size, dtype="u4")
    return numbers * numbers + np.uint32(1)


def map_more_than_the_limit(client, device, n_workers):
    """Maps a kernel over 24 MiB, and keeps parts and results, with 8 MiB of each device."""
    size, n_parts = MIB // 4, 24
    parts = client.map(load, range(n_parts), size=size)
    results = client.map(square, parts)
    sums = client.gather(client.map(summarize, results))
    equal(sums, [int(expect(part, size).sum(dtype="u8")) for part in range(n_parts)])
    for state in client.run(get_state).values():
        equal((state["device"], state["limit"]), (device.id, 8 * MIB))
        assert state["peak"] <= 8 * MIB and state["below"] > 0, state
    got = client.gather(results[5])
    assert isinstance(got, Gpu.Array) and np.array_equal(got.to_numpy(), expect(5, size))


def scatter_and_gather(client, n_objects):
    """Sends objects of random sizes to workers and back, and drops references meanwhile."""
    numbers = random.Random(5)
    pending = []
    for _ in range(n_objects // 50):
        sizes = [numbers.choice((0, 1, numbers.randrange(300), numbers.randrange(40000)))
                 for _ in range(50)]
        values = [np.arange(size, dtype="u2") * 7 for size in sizes]
        arrays = [Gpu.Array.from_numpy(gd.context(), value) for value in values]
        futures = client.scatter(arrays, hash=False)
        del arrays
        pending += zip(futures, values)
        numbers.shuffle(pending)
        del futures
        del pending[:numbers.randrange(10)]
        batch, pending = pending[:40], pending[40:]
        got = client.gather([future for future, _ in batch])
        for array, (_, value) in zip(got, batch):
            assert np.array_equal(array.to_numpy(), value)


def send_more_than_the_limit(client, gathers):
    """A worker sends 24 MiB in one message, with 8 MiB of its device, from the device, the host and
    the disk: to the client, and to a worker that has 8 MiB, too."""
    size, n_parts = MIB // 4, 24
    first, second = client.run(os.getpid)
    parts = client.map(load, range(n_parts), size=size, workers=[first], pure=False)
    distributed.wait(parts, timeout=DEADLINE)
    sums = client.map(summarize, parts, workers=[second], pure=False)
    distributed.wait(sums, timeout=DEADLINE)  # without an end if the worker cannot send
    equal(client.gather(sums), [int(np.arange(part * size, part * size + size).sum())
                                for part in range(n_parts)])
    if gathers:
        got = client.gather(parts)
        for part, array in enumerate(got):
            assert np.array_equal(array.to_numpy(),
                                  np.arange(part * size, part * size + size, dtype="u4"))


def limit_files(size):
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def grow_pool():
    held = []
    with contextlib.suppress(Gpu.OutOfDeviceMemoryError):
        while True:
            held.append(full(0, MIB))


def fill_the_disk(client):
    """The workers cannot write files of more than 64 KiB: the data stay in memory. The memory of
    the host back end is also in files, so the pools get it before."""
    client.run(grow_pool)
    client.run(limit_files, 64 * KIB)
    size = MIB // 4
    results = client.map(square, client.map(load, range(24), size=size))
    equal(client.gather(client.map(summarize, results)),
          [int(expect(part, size).sum(dtype="u8")) for part in range(24)])
    client.run(limit_files, -1)


def die_while_sending(receiver):
    """In a worker: stops the receiver of the next frame, and kills this process in the middle of
    the frame. The receiver then continues."""
    from distributed.protocol import dask_serialize
    dump = dask_serialize.dispatch(Gpu.Array)

    def die():
        os.kill(receiver, signal.SIGCONT)
        os.kill(os.getpid(), signal.SIGKILL)

    def dump_and_die(array):
        header, frames = dump(array)
        os.kill(receiver, signal.SIGSTOP)
        threading.Timer(0.5, die).start()
        return header, frames
    dask_serialize.register(Gpu.Array)(dump_and_die)


def set_limit(limit):
    gd.context().allocator.limit = limit


def kill_a_sender(client):
    """A worker dies while it sends 16 MiB, more than a socket holds, to the other: its data are
    computed again."""
    size = 4 * MIB
    client.run(set_limit, 128 * MIB)
    workers = client.run(os.getpid)
    (first, _), (second, receiver) = workers.items()
    mine = client.submit(load, 1, size, workers=[first], allow_other_workers=True)
    other = client.submit(load, 2, size, workers=[second], allow_other_workers=True)
    distributed.wait([mine, other])
    client.run(die_while_sending, receiver, workers=[first])
    got = client.submit(add, mine, other, workers=[second],
                        allow_other_workers=True).result(DEADLINE)
    assert np.array_equal(got, np.arange(size, 2 * size, dtype="u4")
                          + np.arange(2 * size, 3 * size, dtype="u4"))


def start_gated(seconds):
    """In a worker: returns an array whose work waits for open_gate(), or for the given time."""
    gate = gd.gate = Gpu.Event.new_user(gd.context())
    gd.was_open = False
    stream = gd.context().default_stream
    array = Gpu.Array.zeros(gd.context(), 1000, "u4")
    stream.wait_event(gate)
    array.fill(5, stream)
    threading.Timer(seconds, open_gate).start()
    return array


def open_gate():
    """Returns whether the gate was open."""
    was_open, gd.was_open = gd.was_open, True
    if not was_open:
        gd.gate.complete()
    return was_open


def answer_while_work_is_pending(client):
    """A worker whose work is pending answers while its data are requested: it opens the gate."""
    sender, receiver = client.run(os.getpid)
    array = client.submit(start_gated, DEADLINE / 2, workers=[sender], pure=False)
    distributed.wait(array, timeout=DEADLINE)
    total = client.submit(summarize, array, workers=[receiver], pure=False)
    time.sleep(0.5)                     # Usually, the data are requested then
    equal(client.run(open_gate, workers=[sender]), {sender: False})
    equal(total.result(DEADLINE), 5000)


def list_shared():
    """Lists shared memory, without the files of other tests, which may run at the same time."""
    return {name for name in os.listdir("/dev/shm")
            if "gpumem" in name and not name.startswith("gpumem-files-")}


@contextlib.contextmanager
def cluster(**options):
    # Only the target for the lower mapping applies: the memory of the whole process varies
    config = {"distributed.worker.memory.target": 0.01, "distributed.worker.memory.spill": False,
              "distributed.worker.memory.pause": False,
              "distributed.worker.memory.terminate": False,
              "distributed.comm.timeouts.connect": "120s"}
    with dask.config.set(config), distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit="1GiB", dashboard_address=None,
            **options) as made, distributed.Client(made, timeout=DEADLINE) as client:
        yield client


def test_workers_in_threads(fixture):
    need(fixture, Gpu.Capabilities.SOURCE)
    with on_device(fixture), cluster(processes=False) as client:
        gd.register(client, limit="8 MiB")
        map_more_than_the_limit(client, fixture.device, 2)
        pass_arguments(client)
        send_more_than_the_limit(client, gathers=False)
        scatter_and_gather(client, 1000)


def test_workers_in_processes(fixture):
    need(fixture, Gpu.Capabilities.SOURCE)
    shared = list_shared()
    with on_device(fixture):
        os.environ["DASK_GPUMEM__LIMIT"] = "8 MiB"
        try:
            with cluster(processes=True, preload=["gpumem.distributed"]) as client:
                map_more_than_the_limit(client, fixture.device, 2)
                pass_arguments(client)
                scatter_and_gather(client, 1000)
                # The stand-in for the CUDA driver has its memory in files, which the limit covers
                if fixture.device.backend != "cuda":
                    fill_the_disk(client)
                send_more_than_the_limit(client, gathers=True)
                if fixture.device.capabilities & Gpu.Capabilities.USER_EVENTS:
                    answer_while_work_is_pending(client)
                kill_a_sender(client)
        finally:
            del os.environ["DASK_GPUMEM__LIMIT"]
    equal(list_shared() - shared, set(), "new shared memory afterwards")


def test_guide(fixture):
    """Runs the guide from top to bottom in one namespace."""
    need(fixture, Gpu.Capabilities.SOURCE)
    guide, names = Guide("dask"), {"__name__": "guide"}
    with on_device(fixture):
        try:
            for section in [guide.preamble, *guide.sections]:
                run_section(guide, section, fixture.device, names)
        finally:
            clear(names)


if __name__ == "__main__":
    sys.exit(main(globals()))
