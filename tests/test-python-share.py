#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Memory of several drivers from Python, on every device that GPUMEM_TEST selects: copies between
drivers, and file descriptors."""

import os
import random
import socket
import subprocess
import sys

from python_util import DEADLINE, Gio, Gpu, Skip, equal, main, raises

SIZE = 100000


def others(fixture):
    """Yields a context of every other device."""
    for device in Gpu.Device.list():
        if device.get_id() != fixture.device.get_id():
            yield Gpu.Context(device)


def test_copy(fixture):
    for context in [*others(fixture), Gpu.Context(fixture.device, Gpu.ContextFlags.OWN)]:
        data = random.Random(1).randbytes(SIZE)
        far = Gpu.Buffer(context, data)
        near = fixture.buffer(SIZE)
        back = Gpu.Buffer(context, SIZE)
        fixture.stream.copy(near, far)
        fixture.stream.copy(back, near)
        del far, near                           # the pending copy keeps the memory alive
        equal(back.read(), data)


def test_file_descriptor(fixture):
    context = fixture.context
    kinds = context.get_export_kinds() & context.get_import_kinds()
    if not kinds & Gpu.FdKinds.OPAQUE:
        with raises(Gpu.Error.NOT_SUPPORTED):
            fixture.buffer(SIZE).export_fd(Gpu.FdKinds.OPAQUE)
        return
    buffer = Gpu.Buffer.new(context, Gpu.MemoryFlags.SHAREABLE, SIZE)
    buffer.write(b"\3" * SIZE)
    fd, whole_size, offset = buffer.export_fd()
    again = Gpu.Buffer.new_from_fd(context, fd, whole_size, offset)
    part = Gpu.Buffer.new_from_fd(context, fd, whole_size, offset + 1024, 100)
    assert SIZE <= again.size == whole_size - offset
    with raises(Gpu.Error.INVALID_ARGUMENT):
        Gpu.Buffer.new_from_fd(context, fd, whole_size, whole_size)
    with raises(Gpu.Error.INVALID_ARGUMENT):
        Gpu.Buffer.new_from_fd(context, fd, whole_size, flags=Gpu.MemoryFlags.ALLOC_HOST)
    os.close(fd)
    del buffer
    equal(again.read(0, SIZE), b"\3" * SIZE)
    part.fill(5)
    context.synchronize()
    equal(again.read(1000, 200), b"\3" * 24 + b"\5" * 100 + b"\3" * 76)


def test_file_descriptor_of_slice(fixture):
    """new_from_fd() accepts the three numbers that export_fd() returns."""
    context = fixture.context
    if not context.get_export_kinds() & context.get_import_kinds() & Gpu.FdKinds.OPAQUE:
        raise Skip(f"{fixture.device.id} has no descriptors")
    buffer = Gpu.Buffer(context, random.Random(2).randbytes(SIZE), Gpu.MemoryFlags.SHAREABLE)
    part = buffer[4096:8192]
    fd, *where = part.export_fd(Gpu.FdKinds.OPAQUE)
    again = Gpu.Buffer.new_from_fd(context, fd, *where, part.size, kind=Gpu.FdKinds.OPAQUE)
    os.close(fd)
    equal((again.size, again.read()), (4096, buffer.read(4096, 4096)))


RECEIVER = """
import socket, sys
import gi
gi.require_version("Gpu", "1.0")
from gi.repository import Gio, Gpu
link = socket.socket(fileno=int(sys.argv[2]))
context = Gpu.Context(Gpu.Device(sys.argv[1]))
handle, fds, _, _ = socket.recv_fds(link, 10000, 253)
buffer = Gpu.Buffer.new_from_fds(context, handle, Gio.UnixFDList.new_from_array(fds))
link.send(buffer.read(0, 1000) + buffer.read(buffer.size - 1000, 1000))
buffer.fill(7)
context.synchronize()
link.send(b"done")
"""


def check_pool(fixture, kind, size):
    """Sends a buffer of a pool to another process, which reads and fills it."""
    pool = Gpu.MemoryPool(fixture.context, kind, Gpu.MemoryFlags.SHAREABLE)
    before, buffer, after = pool(3000), pool(size), pool(3000)
    data = random.Random(3).randbytes(size)
    buffer.write(data)
    for neighbour in (before, after):
        neighbour.write(b"\1" * 3000)
    fds = Gio.UnixFDList.new()
    handle = buffer.export_fds(fds)
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    here.settimeout(DEADLINE)
    process = subprocess.Popen([sys.executable, "-c", RECEIVER, fixture.device.get_id(),
                                str(there.fileno())], pass_fds=[there.fileno()])
    there.close()
    socket.send_fds(here, [handle], fds.peek_fds())
    equal(here.recv(2000), data[:1000] + data[-1000:])
    equal((here.recv(4), process.wait(DEADLINE)), (b"done", 0))
    here.close()
    equal(buffer.read(), b"\7" * size)
    equal((before.read(), after.read()), (b"\1" * 3000, b"\1" * 3000))


def test_pool(fixture):
    if not fixture.device.capabilities & Gpu.Capabilities.IPC_FDS:
        with raises(Gpu.Error.NOT_SUPPORTED, "cannot share memory"):
            Gpu.MemoryPool(fixture.context, flags=Gpu.MemoryFlags.SHAREABLE)
        return
    for kind in (Gpu.MemoryPoolKind.AUTOMATIC, Gpu.MemoryPoolKind.EXPANDABLE,
                 Gpu.MemoryPoolKind.BINS):
        for size in (SIZE, 9 << 20):
            check_pool(fixture, kind, size)
    with raises(Gpu.Error.INVALID_ARGUMENT, "create its pool with this flag"):
        Gpu.MemoryPool(fixture.context)(SIZE).export_fds(Gio.UnixFDList.new())


def gives(device, to):
    """Returns whether @to can import memory of @device: a GPU imports memory of the same GPU, and
    CPU devices import memfds."""
    is_file = device.get_backend() == "host" or device.get_name().startswith("Stand-in")
    if to.get_device_type() == Gpu.DeviceType.CPU:
        return is_file
    return not is_file and device.get_backend() == "cuda" \
        and device.pci_bus_id == to.pci_bus_id


def take(context):
    """Imports memory of every driver that can export to OpenCL. Returns the number of these
    drivers."""
    n = 0
    for device in Gpu.Device.list():
        if not gives(device, context.get_device()):
            continue
        theirs = Gpu.Buffer.new(Gpu.Context(device), Gpu.MemoryFlags.SHAREABLE, SIZE)
        theirs.write(b"\1" * SIZE)
        fd, whole_size, offset = theirs.export_fd()
        ours = Gpu.Buffer.new_from_fd(context, fd, whole_size, offset, SIZE)
        os.close(fd)
        equal(ours.read(), b"\1" * SIZE)
        ours[4096:8192].write(b"\2" * 4096)
        equal(theirs.read(), b"\1" * 4096 + b"\2" * 4096 + b"\1" * (SIZE - 8192))
        with ours.map(Gpu.MapFlags.WRITE) as view:
            view[:] = b"\3" * SIZE
        context.get_default_stream().synchronize()
        equal(theirs.read(), b"\3" * SIZE)
        n += 1
    return n


def take_under_layer(device):
    """Runs in a separate process under the OpenCL layer, which emulates the extension that PoCL
    lacks. Leaks at exit do not fail the test, because Python does not free all objects. Misuses
    fail the test."""
    layer = os.path.join(os.environ.get("G_TEST_BUILDDIR", ""),
                         "opencl-layer/.libs/gpumem-opencl-layer.so")
    if not os.path.exists(layer):
        raise Skip(f"{device.get_id()} cannot import memory, and there is no layer")
    environment = dict(os.environ, OPENCL_LAYERS=layer, GPUMEM_LAYER_EXTERNAL="opaque-fd",
                       GPUMEM_LAYER_STRICT="0")
    done = subprocess.run([sys.executable, __file__, "--take", device.get_id()], text=True,
                          env=environment, capture_output=True)
    equal((done.returncode, "misuse:" in done.stderr), (0, False), done.stderr)


def test_take(fixture):
    if fixture.device.get_backend() != "opencl":
        raise Skip("not OpenCL")
    if fixture.context.get_import_kinds() & Gpu.FdKinds.OPAQUE:
        if take(fixture.context) == 0:
            raise Skip("no driver exports memory of this device")
    elif fixture.device.get_device_type() == Gpu.DeviceType.CPU:
        take_under_layer(fixture.device)
    else:
        raise Skip(f"{fixture.device.get_id()} cannot import memory")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--take"]:
        assert take(Gpu.Context(Gpu.Device.find(sys.argv[2]))) > 0
    else:
        sys.exit(main(globals()))
