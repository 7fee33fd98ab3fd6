# SPDX-License-Identifier: LGPL-2.1-or-later
"""The Python binding for users of PyCUDA, on every device that GPUMEM_TEST selects
(parity rows D4, D17, D20, D23, D28, D49 to D54, C4, C7)."""

import ctypes
import random
import sys
import threading

from python_util import Gio, GLib, Gpu, Skip, equal, main, need, need_numpy, np, raises

CAPABILITIES = Gpu.Capabilities


def works(fixture, call, *args):
    """Calls a function that only CUDA supports, and returns its result. On other back ends the call
    must fail with NOT_SUPPORTED, and the result is None."""
    if fixture.device.backend == "cuda":
        return call(*args)
    with raises(Gpu.Error.NOT_SUPPORTED):
        call(*args)
    return None


# --- launches ------------------------------------------------------------------------------------

def test_in_out(fixture):
    """D54: arrays that are copied before and after a launch."""
    kernel = fixture.program().add
    numbers = bytearray(b"\1\0\0\0" * 100)
    kernel(fixture.stream, 100, None, Gpu.InOut(numbers), 5)
    equal(numbers, b"\6\0\0\0" * 100)

    kernel(fixture.stream, 100, None, Gpu.In(numbers), 5)
    equal(numbers, b"\6\0\0\0" * 100)

    out = bytearray(400)
    fixture.program().place(fixture.stream, 100, 10, Gpu.Out(out))
    equal(out[4:8], (10000001).to_bytes(4, sys.byteorder))

    assert "InOut" in repr(Gpu.InOut(b"ab"))
    with raises(BufferError):                   # bytes are read-only
        kernel(fixture.stream, 1, None, Gpu.Out(b"1234"), 5)
    with raises(TypeError):
        kernel(fixture.stream, 1, None, Gpu.In(3), 5)


def test_in_out_numpy(fixture):
    need_numpy()
    kernel = fixture.program().scale
    numbers = np.arange(50, dtype=np.float32)
    kernel(fixture.stream, 50, None, Gpu.InOut(numbers), np.float32(2))
    assert np.array_equal(numbers, np.arange(50, dtype=np.float32) * 2)
    with raises(ValueError):                    # not contiguous, so not writable
        kernel(fixture.stream, 25, None, Gpu.Out(numbers[::2]), np.float32(2))


def test_prepared(fixture):
    """D51: a prepared launch."""
    buffer = fixture.buffer(b"\0" * 400)
    launch = fixture.program().add.prepare(100, None, (buffer, 3))
    for _ in range(10):
        fixture.stream.launch_prepared(launch)
    equal(buffer.read(), b"\36\0\0\0" * 100)
    equal(launch.get_grid(), Gpu.Extent(100))
    equal(launch.get_kernel().name, "add")


def test_timed(fixture):
    """D50, D51: a launch that reports its execution time."""
    buffer = fixture.buffer(b"\0" * 400)
    stream = Gpu.Stream(fixture.context, Gpu.StreamFlags.PROFILING)
    seconds = fixture.program().add.timed(stream, 100, None, buffer, 3)
    assert 0 <= seconds() < 30
    equal(buffer.read(), b"\3\0\0\0" * 100)
    event = stream.launch_timed(fixture.program().add.prepare(100, None, (buffer, 3)))
    event.wait()
    assert event.get_duration() >= 0


def test_launch_options(fixture):
    """D50, D52: launch options (dynamic shared memory, flags) and attributes of kernels."""
    kernel = fixture.program().add
    buffer = fixture.buffer(b"\0" * 400)
    works(fixture, lambda: fixture.stream.launch(kernel, 100, args=(buffer, 3), shared_size=64))
    works(fixture, kernel.set_attribute, "max-dynamic-shared-size", 1024)
    works(fixture, kernel.set_cache_preference, Gpu.CachePreference.L1)
    blocks = works(fixture, kernel.get_max_active_blocks, 64)
    assert blocks is None or blocks > 0
    equal(kernel.attributes["name"], "add")


# --- contexts ------------------------------------------------------------------------------------

def test_context_flags(fixture):
    """D4, D17, D19, D56."""
    flags = Gpu.ContextFlags.OWN | Gpu.ContextFlags.SCHED_BLOCKING
    context = Gpu.Context(fixture.device, flags)
    equal(context.flags & flags, flags)
    with raises(Gpu.Error.INVALID_ARGUMENT):
        Gpu.Context(fixture.device, Gpu.ContextFlags.SCHED_SPIN | Gpu.ContextFlags.SCHED_YIELD)
    least, greatest = context.priority_range
    assert greatest <= least, (least, greatest)

    def enter(manager):
        with manager():
            pass
    works(fixture, enter, context.current)
    works(fixture, enter, context.profiled)
    preference = works(fixture, context.get_cache_preference)
    assert preference is None or isinstance(preference, Gpu.CachePreference)
    buffer = fixture.buffer(64)
    attributes = works(fixture, fixture.context.get_address_attributes, buffer.device_address)
    assert attributes is None or attributes.unpack()["range-start"] <= buffer.device_address


def test_peers(fixture):
    """D20, D43: peer access, and copies between contexts."""
    equal(fixture.device.can_access_peer(fixture.device), False)
    other = Gpu.Context(fixture.device, Gpu.ContextFlags.OWN)
    data = random.Random(1).randbytes(1000)
    far = Gpu.Buffer(other, data)
    near = fixture.buffer(1000)
    fixture.stream.copy(near, far)
    equal(near.read(), data)


# --- programs ------------------------------------------------------------------------------------

def test_linked(fixture):
    """C7, D12: programs linked from parts that are compiled separately."""
    need(fixture, CAPABILITIES.LINKING)
    need(fixture, CAPABILITIES.SOURCE)
    parts = [Gpu.Program.compile(fixture.context, source) for source in (
        "int next (int i); __kernel void k (__global int *p) { p[0] = next (p[0]); }",
        "int next (int i) { return i + 1; }")]
    assert all(isinstance(part, bytes) for part in parts)
    kernel = Gpu.Program.new_linked(fixture.context, parts).k
    numbers = bytearray(b"\4\0\0\0")
    kernel(fixture.stream, 1, None, Gpu.InOut(numbers))
    equal(numbers, b"\5\0\0\0")


def test_global(fixture):
    """D49: a variable of a program is a buffer."""
    need(fixture, CAPABILITIES.GLOBALS)
    need(fixture, CAPABILITIES.SOURCE)
    program = Gpu.Program(fixture.context,
                          "__global int limit = 7;\n"
                          "__kernel void k (__global int *p) { p[0] = limit; }")
    limit = program.get_global("limit")
    equal(limit.size, 4)
    equal(limit.read(), b"\7\0\0\0")
    limit.write(b"\11\0\0\0")
    out = bytearray(4)
    program.k(fixture.stream, 1, None, Gpu.Out(out))
    equal(out, b"\11\0\0\0")
    with raises(Gpu.Error.INVALID_ARGUMENT, "nothing"):
        program.get_global("nothing")


def test_names(fixture):
    """C4: kernels by the name expressions of the source, including templates."""
    need(fixture, CAPABILITIES.SOURCE)
    source = "template <typename T> __global__ void one (T *p) { p[0] = 1; }"
    if fixture.device.backend != "cuda":
        with raises(Gpu.Error.NOT_SUPPORTED):
            Gpu.Program(fixture.context, source, names=["one<int>"])
        return
    program = Gpu.Program(fixture.context, source, names=["one<int>"])
    out = bytearray(4)
    program.get_kernel("one<int>")(fixture.stream, 1, None, Gpu.Out(out))
    equal(out, b"\1\0\0\0")
    assert program.get_lowered_name("one<int>")


# --- other processes -----------------------------------------------------------------------------

def test_fds(fixture):
    """D28: export and import of memory by file descriptor."""
    if not fixture.device.capabilities & CAPABILITIES.IPC_FDS:
        with raises(Gpu.Error.NOT_SUPPORTED):
            fixture.buffer(100, Gpu.MemoryFlags.SHAREABLE)
        return
    buffer = fixture.buffer(8192, Gpu.MemoryFlags.SHAREABLE)
    buffer.fill(3)
    fds = Gio.UnixFDList.new()
    handle = buffer.slice(4096, 4096).export_fds(fds)
    assert isinstance(handle, bytes)
    equal(fds.get_length(), 1)
    other = Gpu.Buffer.new_from_fds(fixture.context, handle, fds)
    equal(other.read(), b"\3" * 4096)
    other.fill(4)
    equal(buffer.read(4095, 2), b"\3\4")
    with raises(Gpu.Error.IPC):
        Gpu.Buffer.new_from_fds(fixture.context, b"rubbish", fds)
    with raises(Gpu.Error.IPC):
        Gpu.Buffer.new_from_fds(fixture.context, handle, Gio.UnixFDList.new())
    with raises(Gpu.Error.INVALID_ARGUMENT, "Gpu.MemoryFlags.SHAREABLE"):
        fixture.buffer(16).export_fds(fds)


def test_handles(fixture):
    """D23, D28: handles as bytes, in one process. test-ipc uses two processes."""
    if not fixture.device.capabilities & CAPABILITIES.IPC_HANDLES:
        with raises(Gpu.Error.NOT_SUPPORTED):
            fixture.buffer(100).export_handle()
        with raises(Gpu.Error.NOT_SUPPORTED):
            fixture.stream.record(Gpu.EventFlags.INTERPROCESS)
        return
    assert isinstance(fixture.buffer(100).export_handle(), bytes)
    event = fixture.stream.record(Gpu.EventFlags.INTERPROCESS)
    assert isinstance(event.export_handle(), bytes)
    with raises(Gpu.Error.IPC):
        Gpu.Buffer.new_from_handle(fixture.context, event.export_handle())
    with raises(Gpu.Error.INVALID_ARGUMENT):
        fixture.stream.record().export_handle()


def test_ordered(fixture):
    """Stream-ordered memory."""
    need(fixture, CAPABILITIES.STREAM_ORDERED)
    buffer = Gpu.Buffer.new_on_stream(fixture.stream, Gpu.MemoryFlags.NONE, 100)
    fixture.stream.fill(buffer, 5)
    equal(buffer.read(), b"\5" * 100)


def test_stream_handles(fixture):
    """D21: the default streams of the driver."""
    equal((Gpu.STREAM_HANDLE_DEFAULT, Gpu.STREAM_HANDLE_LEGACY, Gpu.STREAM_HANDLE_PER_THREAD),
          (0, 1, 2))
    if fixture.device.backend != "cuda":
        with raises(GLib.Error):
            Gpu.Stream.new_wrapped(fixture.context, Gpu.STREAM_HANDLE_DEFAULT,
                                   Gpu.WrapMode.BORROW)
        return
    stream = Gpu.Stream.new_wrapped(fixture.context, Gpu.STREAM_HANDLE_LEGACY, Gpu.WrapMode.BORROW)
    buffer = fixture.buffer(b"\0" * 100)
    stream.fill(buffer, 5)
    equal(buffer.read(), b"\5" * 100)


# --- work that the program puts into a stream by its native handle --------------------------------

SLOW = """
extern "C" __global__ void
slow (unsigned int *x, int n)
{
  unsigned int value = 1;

  for (int i = 0; i < n; i++)
    value = value * 1664525u + 1013904223u;
  x[threadIdx.x] = value | 1;
}"""


class ForeignWork:
    """Writes a buffer with a delay, by calling the driver directly: on CUDA with a slow kernel, on
    OpenCL with a fill that waits for an event of another thread."""

    def __init__(self, fixture):
        self.fixture = fixture
        if fixture.device.backend == "cuda":
            self.driver = ctypes.CDLL("libcuda.so.1")
            self.kernel = Gpu.Program(fixture.context, SLOW).slow
        elif fixture.device.backend == "opencl":
            self.driver = ctypes.CDLL("libOpenCL.so.1")
            self.driver.clCreateUserEvent.restype = ctypes.c_void_p
        else:
            raise Skip("handles of the host mean nothing to others")

    def submit(self, stream, buffer):
        handle = ctypes.c_void_p(stream.get_native_handle())
        memory = buffer.get_native_handle()
        if self.fixture.device.backend == "cuda":
            values = [ctypes.c_uint64(memory), ctypes.c_int(50000000)]
            pointers = (ctypes.c_void_p * 2)(*map(ctypes.addressof, values))
            kernel = ctypes.c_void_p(self.kernel.get_native_handle())
            with self.fixture.context.current():
                equal(self.driver.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, handle, pointers,
                                                 None), 0)
            return
        context = ctypes.c_void_p(self.fixture.context.get_native_handle())
        event = ctypes.c_void_p(self.driver.clCreateUserEvent(context, None))
        events = (ctypes.c_void_p * 1)(event)
        equal(self.driver.clEnqueueFillBuffer(handle, ctypes.c_void_p(memory), b"\1\1\1\1",
                                              ctypes.c_size_t(4), ctypes.c_size_t(0),
                                              ctypes.c_size_t(buffer.size), 1, events, None), 0)
        equal(self.driver.clFlush(handle), 0)
        threading.Timer(0.05, lambda: (self.driver.clSetUserEventStatus(event, 0),
                                       self.driver.clReleaseEvent(event))).start()


def wait_until_idle(stream):
    while not stream.is_idle():
        pass


def wait_for_dlpack(stream, buffer):
    buffer.add_stream(stream)
    Gpu.Array.for_memory(buffer, buffer.size // 4, "uint32").__dlpack__()


def test_foreign_work(fixture):
    """A wait for a stream also waits for work that the program submitted through the native handle.
    The library does not track the write of this work, so the read on another stream does not wait
    for it."""
    work = ForeignWork(fixture)
    reader = fixture.new_stream()
    waits = [lambda stream, buffer: stream.synchronize(),
             lambda stream, buffer: Gpu.Stream.synchronize(stream, Gio.Cancellable()),
             lambda stream, buffer: wait_until_idle(stream),
             lambda stream, buffer: stream.record().wait(),
             lambda stream, buffer: fixture.context.synchronize(), wait_for_dlpack]
    owner = fixture.new_stream()
    wrapped = Gpu.Stream.new_wrapped(fixture.context, owner.get_native_handle(),
                                     Gpu.WrapMode.BORROW)
    for stream in fixture.new_stream(), fixture.stream, wrapped:
        for number, wait in enumerate(waits):
            buffer = fixture.buffer(bytes(64))
            work.submit(stream, buffer)
            wait(stream, buffer)
            assert buffer.read(stream=reader)[0] % 2 == 1, f"{number} did not wait"
            while not stream.is_idle():         # on OpenCL the query may lag behind the wait
                pass
    del wrapped, stream                         # the borrowing wrapper must be freed first


def test_foreign_work_elsewhere(fixture):
    """On CUDA a wait for the context also waits for streams that the program created through the
    driver."""
    work = ForeignWork(fixture)
    if fixture.device.backend != "cuda":
        raise Skip("only CUDA waits for all of a context")
    handle = ctypes.c_void_p()
    with fixture.context.current():
        equal(work.driver.cuStreamCreateWithPriority(ctypes.byref(handle), 1, 0), 0)

    class Elsewhere:
        get_native_handle = staticmethod(lambda: handle.value)

    buffer = fixture.buffer(bytes(64))
    work.submit(Elsewhere, buffer)
    fixture.context.synchronize()
    assert buffer.read()[0] % 2 == 1
    with fixture.context.current():
        equal(work.driver.cuStreamDestroy(handle), 0)


def test_equal_handles(fixture):
    """Objects with the same handle are equal. After get_native_handle(), synchronize() must submit
    work to the stream; a comparison of streams does not have this effect."""
    again = Gpu.Context(fixture.device)
    equal(again == fixture.context,
          again.get_native_handle() == fixture.context.get_native_handle())
    assert again != fixture.context or hash(again) == hash(fixture.context)
    own = Gpu.Context(fixture.device, Gpu.ContextFlags.OWN) if fixture.device.backend == "cuda" \
        else Gpu.Context(fixture.device)
    assert own != fixture.context and own == own and fixture.context != fixture.stream
    assert fixture.context.default_stream == fixture.stream
    stream = fixture.new_stream()
    n_submitted = stream.n_submitted
    equal({stream: 1, fixture.new_stream(): 2}[stream], 1)
    assert stream != fixture.stream and stream != "stream" and stream == stream
    stream.synchronize()
    equal(stream.n_submitted, n_submitted)
    if fixture.device.backend == "host":
        return
    wrapped = Gpu.Stream.new_wrapped(fixture.context, stream.get_native_handle(),
                                     Gpu.WrapMode.BORROW)
    assert wrapped is not stream and wrapped == stream and hash(wrapped) == hash(stream)
    if fixture.device.backend == "cuda":
        one, other = (Gpu.Stream.new_wrapped(context, 1, Gpu.WrapMode.BORROW)
                      for context in (fixture.context, own))
        assert one != other
        around = Gpu.Context.new_wrapped(fixture.device, own.get_native_handle(),
                                         Gpu.WrapMode.BORROW)
        assert around is not own and around == own and hash(around) == hash(own)
        del around                              # the borrowing wrapper must be freed first


if __name__ == "__main__":
    sys.exit(main(globals()))
