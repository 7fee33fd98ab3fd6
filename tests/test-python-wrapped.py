# SPDX-License-Identifier: LGPL-2.1-or-later
"""Events, programs and kernels that other code created with the functions of the driver: PyOpenCL
where it is installed, and the C functions of OpenCL and CUDA."""

import ctypes
import gc
import sys
import threading

from python_util import DEADLINE, GLib, Gpu, Skip, equal, main, need, need_numpy, np, raises

BORROW, ADOPT = Gpu.WrapMode.BORROW, Gpu.WrapMode.ADOPT
CAPABILITIES = Gpu.Capabilities
N = 256

CL_EVENT_REFERENCE_COUNT, CL_PROGRAM_REFERENCE_COUNT, CL_KERNEL_PROGRAM = 0x11D2, 0x1160, 0x1194
CUDA_SUCCESS = 0

SOURCE = """__kernel void add (__global int *to, __global const int *from, int n)
{
  int i = get_global_id (0);
  to[i] = from[i] + n;
}
"""

pointer = ctypes.c_void_p


class OpenCL:
    """The functions of OpenCL, without this library."""

    def __init__(self, fixture):
        if fixture.device.backend != "opencl":
            raise Skip("the handles are those of OpenCL")
        self.library = ctypes.CDLL("libOpenCL.so.1")
        self.context = pointer(fixture.context.get_native_handle())

    def create(self, function, *arguments):
        code, create = ctypes.c_int(-1), getattr(self.library, function)
        create.restype = pointer
        handle = create(self.context, *arguments, ctypes.byref(code))
        equal(code.value, 0, function)
        return handle

    def call(self, function, *arguments):
        equal(getattr(self.library, function)(*arguments), 0, function)

    def count(self, function, handle, info):
        number = ctypes.c_uint(0)
        self.call(function, pointer(handle), info, ctypes.c_size_t(4), ctypes.byref(number), None)
        return number.value

    def user_event(self):
        return self.create("clCreateUserEvent")

    def set_status(self, event, status):
        self.call("clSetUserEventStatus", pointer(event), status)

    def program(self, source, options=b""):
        program = self.create("clCreateProgramWithSource", 1,
                              ctypes.byref(ctypes.c_char_p(source.encode())), None)
        if options is not None:
            self.call("clBuildProgram", pointer(program), 0, None, options, None, None)
        return program


class Cuda:
    """The functions of CUDA, without this library."""

    def __init__(self, fixture):
        if fixture.device.backend != "cuda":
            raise Skip("the handles are those of CUDA")
        self.library = ctypes.CDLL("libcuda.so.1")
        self.context = fixture.context

    def call(self, function, *arguments):
        with self.context.current():
            equal(getattr(self.library, function)(*arguments), CUDA_SUCCESS, function)

    def event(self, stream):
        event = pointer()
        self.call("cuEventCreate", ctypes.byref(event), 0)
        self.call("cuEventRecord", event, pointer(stream.get_native_handle()))
        return event.value

    def module(self, binary):
        module = pointer()
        self.call("cuModuleLoadDataEx", ctypes.byref(module), binary, 0, None, None)
        return module.value


def driver(fixture):
    if fixture.device.backend == "host":
        raise Skip("the host back end has no handles of a driver")
    return (OpenCL if fixture.device.backend == "opencl" else Cuda)(fixture)


def check_add(fixture, kernel):
    """Launches the kernel and checks its result."""
    need_numpy()
    source, result = fixture.buffer(np.arange(N, dtype=np.int32)), fixture.buffer(4 * N)
    if kernel.get_argument_kind(0) == Gpu.ArgumentKind.UNKNOWN:
        kernel.declare_arguments("ppi")
    fixture.stream.launch(kernel, N, args=(result, source, 5))
    equal(result.to_numpy(np.int32).tolist(), list(range(5, N + 5)))


# --- events ---------------------------------------------------------------------------------------

def test_event_modes(fixture):
    """A borrowed event is released as often as it was retained. An adopted event takes the
    reference of the caller."""
    cl = OpenCL(fixture)
    handle = cl.user_event()
    cl.set_status(handle, 0)
    for mode, references in ((BORROW, 2), (ADOPT, 1)):
        event = Gpu.Event.new_wrapped(fixture.context, handle, mode)
        assert isinstance(event, Gpu.Event) and event.context is fixture.context
        equal(event.native_handle, handle)
        equal(cl.count("clGetEventInfo", handle, CL_EVENT_REFERENCE_COUNT), references)
        event.wait()
        equal(event.native_handle, handle)
        if mode == BORROW:
            del event
            gc.collect()
            equal(cl.count("clGetEventInfo", handle, CL_EVENT_REFERENCE_COUNT), 1)


def test_equal_events(fixture):
    """Events over the same handle are equal, and are the same key of a dictionary."""
    cl = OpenCL(fixture)
    handle, other = cl.user_event(), cl.user_event()
    first, second = (Gpu.Event.new_wrapped(fixture.context, handle, BORROW) for _ in range(2))
    third = Gpu.Event.new_wrapped(fixture.context, other, ADOPT)
    assert first is not second and first == second and hash(first) == hash(second)
    assert not first != second and first != third and first != handle
    equal(len({first, second, third}), 2)
    recorded = fixture.stream.record()
    assert recorded == recorded and recorded != fixture.stream.record() and recorded != third
    equal(len({recorded, recorded, third}), 2)
    for one in handle, other:
        cl.set_status(one, 0)
    del first, second
    Gpu.Event.new_wrapped(fixture.context, handle, ADOPT)


def test_user_event(fixture):
    """Streams, threads and functions wait for a user event of the program."""
    cl = OpenCL(fixture)
    handle = cl.user_event()
    event = Gpu.Event.new_wrapped(fixture.context, handle, ADOPT)
    equal(event.query(), Gpu.EventStatus.PENDING)
    buffer = fixture.buffer(b"\1" * N)
    fixture.stream.wait_event(event)
    fixture.stream.fill(buffer, 2)
    threads = [event.call(threading.get_ident) for _ in range(4)]
    with raises(Gpu.Error.INVALID_ARGUMENT, "Event.complete", "wrapped"):
        event.complete()
    cl.set_status(handle, 0)
    fixture.stream.synchronize()
    equal(bytes(buffer.read()), b"\2" * N)
    for thread in threads:
        assert thread.result(DEADLINE) != threading.get_ident()


def test_failed_user_event(fixture):
    """A failure of the event is that of each waiter."""
    cl = OpenCL(fixture)
    handle = cl.user_event()
    event = Gpu.Event.new_wrapped(fixture.context, handle, ADOPT)
    stream = fixture.new_stream()
    stream.wait_event(event)
    stream.fill(fixture.buffer(N), 2)
    future = event.call(int)
    cl.set_status(handle, -40)
    for wait in (event.wait, stream.synchronize, lambda: future.result(DEADLINE)):
        with raises(Gpu.Error.FAILED, "-40"):
            wait()


def test_cuda_event(fixture):
    cuda = Cuda(fixture)
    buffer, stream = fixture.buffer(b"\1" * N), fixture.new_stream()
    stream.fill(buffer, 2)
    first, second = (Gpu.Event.new_wrapped(fixture.context, cuda.event(stream), ADOPT)
                     for _ in range(2))
    fixture.stream.wait_event(second)
    equal(bytes(buffer.read(stream=fixture.stream)), b"\2" * N)
    second.wait()
    assert second.get_elapsed(first) >= 0
    handle = cuda.event(stream)
    event = Gpu.Event.new_wrapped(fixture.context, handle, BORROW)
    equal(event.native_handle, handle)
    event.wait()
    del event
    gc.collect()
    cuda.call("cuEventDestroy_v2", pointer(handle))


def test_pyopencl(fixture):
    """PyOpenCL and this library share events, programs and kernels."""
    need_numpy()
    OpenCL(fixture)
    try:
        import pyopencl as cl
    except ImportError:
        raise Skip("pyopencl is not installed") from None
    context = cl.Context.from_int_ptr(fixture.context.get_native_handle(), retain=True)
    queue = cl.CommandQueue(context, context.devices[0])
    numbers = np.arange(N, dtype=np.int32)
    theirs = cl.Buffer(context, cl.mem_flags.READ_WRITE, numbers.nbytes)
    written = cl.enqueue_copy(queue, theirs, numbers, is_blocking=False)
    queue.flush()
    event = Gpu.Event.new_wrapped(fixture.context, written.int_ptr, BORROW)
    ours = Gpu.Buffer.new_wrapped(fixture.context, theirs.int_ptr, 0, BORROW)
    fixture.stream.wait_event(event)
    equal(ours.to_numpy(np.int32, stream=fixture.stream).tolist(), numbers.tolist())

    gate = cl.UserEvent(context)
    waiting = Gpu.Event.new_wrapped(fixture.context, gate.int_ptr, BORROW)
    fixture.stream.wait_event(waiting)
    fixture.stream.fill(ours, 0)
    behind = fixture.stream.record()
    equal(behind.query(), Gpu.EventStatus.PENDING)
    gate.set_status(cl.command_execution_status.COMPLETE)
    behind.wait()
    assert not ours.to_numpy(np.int32).any()

    built = cl.Program(context, SOURCE).build()
    program = Gpu.Program.new_wrapped(fixture.context, built.int_ptr, BORROW)
    check_add(fixture, program.add)
    program = Gpu.Program.new_wrapped(fixture.context, built.add.program.int_ptr, BORROW)
    check_add(fixture, program.get_kernel("add"))
    again = cl.Program.from_int_ptr(program.native_handle, retain=True)
    equal([kernel.function_name for kernel in again.all_kernels()], ["add"])


# --- programs -------------------------------------------------------------------------------------

def test_program_modes(fixture):
    """The kernels keep the program of the driver."""
    cl = OpenCL(fixture)
    handle = cl.program(SOURCE)
    for mode, references in ((BORROW, 2), (ADOPT, 1)):
        program = Gpu.Program.new_wrapped(fixture.context, handle, mode)
        assert isinstance(program, Gpu.Program)
        equal(program.native_handle, handle)
        equal(cl.count("clGetProgramInfo", handle, CL_PROGRAM_REFERENCE_COUNT), references)
        equal(program.kernels, ["add"])
        kernel = program.add
        del program
        gc.collect()
        check_add(fixture, kernel)
        if mode == BORROW:
            del kernel
            gc.collect()
            equal(cl.count("clGetProgramInfo", handle, CL_PROGRAM_REFERENCE_COUNT), 1)


def test_kernel(fixture):
    """A kernel of the driver is found through its program."""
    cl = OpenCL(fixture)
    handle = cl.program(SOURCE, b"-cl-kernel-arg-info")
    code, found = ctypes.c_int(-1), pointer()
    cl.library.clCreateKernel.restype = pointer
    kernel = cl.library.clCreateKernel(pointer(handle), b"add", ctypes.byref(code))
    equal(code.value, 0)
    cl.call("clGetKernelInfo", pointer(kernel), CL_KERNEL_PROGRAM, ctypes.c_size_t(8),
            ctypes.byref(found), None)
    program = Gpu.Program.new_wrapped(fixture.context, found.value, BORROW)
    cl.call("clReleaseKernel", pointer(kernel))
    cl.call("clReleaseProgram", pointer(handle))
    check_add(fixture, program.get_kernel("add"))
    offset = program.get_kernel("add")
    need_numpy()
    buffer = fixture.buffer(np.zeros(2 * N, np.int32))
    fixture.stream.launch(offset, N, args=(buffer, fixture.buffer(np.zeros(2 * N, np.int32)), 3),
                          global_offset=N)
    equal(buffer.to_numpy(np.int32).tolist(), [0] * N + [3] * N)


def test_program_not_built(fixture):
    cl = OpenCL(fixture)
    handle = cl.program(SOURCE, None)
    with raises(Gpu.Error.INVALID_ARGUMENT, "Program.new_wrapped", "not built"):
        Gpu.Program.new_wrapped(fixture.context, handle, BORROW)
    cl.call("clReleaseProgram", pointer(handle))


def test_cuda_module(fixture):
    need(fixture, CAPABILITIES.SOURCE)
    cuda = Cuda(fixture)
    source = """extern "C" __global__ void add (int *to, const int *from, int n)
                { to[threadIdx.x] = from[threadIdx.x] + n; }"""
    binary = Gpu.Program(fixture.context, source).get_binary().get_data()
    handle = cuda.module(binary)
    program = Gpu.Program.new_wrapped(fixture.context, handle, BORROW)
    equal(program.native_handle, handle)
    equal(program.kernels, ["add"])
    check_add(fixture, program.add)
    with raises(Gpu.Error.NOT_SUPPORTED, "binary"):
        program.get_binary()
    del program
    gc.collect()
    fixture.stream.synchronize()
    check_add(fixture, Gpu.Program.new_wrapped(fixture.context, handle, ADOPT).add)


# --- refused --------------------------------------------------------------------------------------

def test_refused(fixture):
    for kind in (Gpu.Event, Gpu.Program):
        if fixture.device.backend == "host":
            with raises(Gpu.Error.NOT_SUPPORTED, "new_wrapped", "host"):
                kind.new_wrapped(fixture.context, 5, BORROW)
        else:
            with raises(Gpu.Error.INVALID_ARGUMENT, "new_wrapped", "the handle is 0"):
                kind.new_wrapped(fixture.context, 0, BORROW)
        for handle, error in ((-1, OverflowError), (1 << 64, OverflowError), ("5", TypeError),
                              (None, TypeError), (1.5, TypeError)):
            with raises(error):
                kind.new_wrapped(fixture.context, handle, BORROW)


def test_other_context(fixture):
    """The driver's context of the handle must be that of the object."""
    cl = OpenCL(fixture)
    other = Gpu.Context(fixture.device)
    event, program = cl.user_event(), cl.program(SOURCE)
    for kind, handle in ((Gpu.Event, event), (Gpu.Program, program)):
        with raises(Gpu.Error.INVALID_ARGUMENT, "new_wrapped", "context"):
            kind.new_wrapped(other, handle, ADOPT)
    cl.set_status(event, 0)
    cl.call("clReleaseEvent", pointer(event))
    cl.call("clReleaseProgram", pointer(program))


def test_threads(fixture):
    """Many threads wrap and drop one event."""
    api = driver(fixture)
    is_cl = fixture.device.backend == "opencl"
    handle = api.user_event() if is_cl else api.event(fixture.stream)
    errors = []

    def wrap():
        try:
            for _ in range(50):
                event = Gpu.Event.new_wrapped(fixture.context, handle, BORROW)
                fixture.new_stream().wait_event(event)
                event.wait()
        except GLib.Error as error:
            errors.append(error)

    threads = [threading.Thread(target=wrap) for _ in range(4)]
    for thread in threads:
        thread.start()
    if is_cl:
        api.set_status(handle, 0)
    for thread in threads:
        thread.join(DEADLINE)
        assert not thread.is_alive()
    equal(errors, [])
    gc.collect()
    if is_cl:
        api.call("clReleaseEvent", pointer(handle))
    else:
        api.call("cuEventDestroy_v2", pointer(handle))


if __name__ == "__main__":
    sys.exit(main(globals()))
