#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""ucx-exchange: two processes exchange memory of a pool with UCX, without a copy. One process
registers its memory, and the other process reads it; then both send a message to each other.

    ./ucx-exchange.py cuda:0 cuda:1

UCX accesses memory by its address, so the devices are of CUDA or the host, by default the host.
libucp.so.0 is loaded with ctypes: the package libucx0 of Debian, or libucx-cu12 of PyPI.

On CUDA, UCX registers the whole allocation of the driver that contains an address. Every build of
UCX can share memory of cuMemAlloc() with another process, so the pool has segments instead of an
address range."""

import contextlib
import ctypes
import socket
import subprocess
import sys

import gi

gi.require_version("Gpu", "1.0")
from gi.repository import GLib, Gpu  # noqa: E402

SIZE = 1 << 20
TAG = ctypes.c_uint64(7)
ALL_BITS = ctypes.c_uint64((1 << 64) - 1)
IN_PROGRESS = 1                                 # UCS_INPROGRESS


def load():
    try:
        ucp = ctypes.CDLL("libucp.so.0", mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        print(f"UCX is not installed: {error}")
        sys.exit(77)
    ucp.ucs_status_string.restype = ctypes.c_char_p
    # Either a status, which is 0 or negative, or the address of a request
    for name in ("get_nbx", "tag_send_nbx", "tag_recv_nbx"):
        getattr(ucp, f"ucp_{name}").restype = ctypes.c_ssize_t
    # ucs_status_t has one byte
    for name in ("init_version", "worker_create", "worker_get_address", "ep_create", "mem_map",
                 "rkey_pack", "ep_rkey_unpack", "request_check_status", "mem_unmap"):
        getattr(ucp, f"ucp_{name}").restype = ctypes.c_int8
    return ucp


def params(*words):
    """Returns a structure of ucp.h whose first members are 64-bit words. The first word has a bit
    for each member that is set."""
    return (ctypes.c_uint64 * 64)(*words)


class Ucx:
    """A context, a worker and an endpoint of UCX, and a socket to the other process. Every wait
    lets the worker make progress, which some transports also need to serve the peer."""

    def __init__(self, ucp, link):
        self.ucp = ucp
        self.link = link
        self.context, self.worker, self.end = (ctypes.c_void_p() for i in range(3))
        version = [ctypes.c_uint() for i in range(3)]
        ucp.ucp_get_version(*map(ctypes.byref, version))
        # UCP_PARAM_FIELD_FEATURES; UCP_FEATURE_TAG and UCP_FEATURE_RMA
        self.call("ucp_init_version", *version[:2], params(1, 3), None, ctypes.byref(self.context))
        self.call("ucp_worker_create", self.context, params(0), ctypes.byref(self.worker))

    def check(self, name, status):
        if status < 0:
            raise RuntimeError(f"{name}: {self.ucp.ucs_status_string(status).decode()}")

    def call(self, name, *arguments):
        self.check(name, getattr(self.ucp, name)(*arguments))

    def get_address(self):
        address, size = ctypes.c_void_p(), ctypes.c_size_t()
        self.call("ucp_worker_get_address", self.worker, ctypes.byref(address), ctypes.byref(size))
        return ctypes.string_at(address, size.value)

    def connect(self, address):
        peer = ctypes.create_string_buffer(address, len(address))
        # UCP_EP_PARAM_FIELD_REMOTE_ADDRESS
        self.call("ucp_ep_create", self.worker, params(1, ctypes.addressof(peer)),
                  ctypes.byref(self.end))

    def register(self, buffer):
        """Returns the handle of the memory, and a key with which the peer accesses the memory."""
        memory, key, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
        # UCP_MEM_MAP_PARAM_FIELD_ADDRESS and _LENGTH
        self.call("ucp_mem_map", self.context, params(3, buffer.device_address, buffer.size),
                  ctypes.byref(memory))
        self.call("ucp_rkey_pack", self.context, memory, ctypes.byref(key), ctypes.byref(size))
        packed = ctypes.string_at(key, size.value)
        self.ucp.ucp_rkey_buffer_release(key)
        return memory, packed

    def begin(self, name, end, buffer, *arguments):
        """Begins an operation on memory. Returns its request, or 0 if it has completed."""
        request = getattr(self.ucp, name)(end, ctypes.c_void_p(buffer.device_address),
                                          ctypes.c_size_t(buffer.size), *arguments, params(0))
        if -100 < request < 0:                  # UCS_ERR_LAST
            self.check(name, request)
        return request

    def wait(self, request):
        if request == 0:
            return
        handle = ctypes.c_void_p(request)
        while (status := self.ucp.ucp_request_check_status(handle)) == IN_PROGRESS:
            self.peek()
        self.ucp.ucp_request_free(handle)
        self.check("ucp_request_check_status", status)

    def get(self, buffer, address, packed):
        """Reads memory of the peer."""
        key = ctypes.c_void_p()
        self.call("ucp_ep_rkey_unpack", self.end, packed, ctypes.byref(key))
        self.wait(self.begin("ucp_get_nbx", self.end, buffer, ctypes.c_uint64(address), key))
        self.ucp.ucp_rkey_destroy(key)

    def exchange(self, sent, received):
        requests = [self.begin("ucp_tag_recv_nbx", self.worker, received, TAG, ALL_BITS),
                    self.begin("ucp_tag_send_nbx", self.end, sent, TAG)]
        for request in requests:
            self.wait(request)

    def peek(self):
        """Makes progress. Returns whether the other process has sent a message on the socket."""
        self.ucp.ucp_worker_progress(self.worker)
        try:
            message = self.link.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        if not message:
            sys.exit("ucx-exchange: the other process has ended")
        return True

    def receive(self):
        while not self.peek():
            pass
        return self.link.recv(1 << 16)


def get_pattern(rank):
    return bytes((i + rank) % 251 for i in range(SIZE))


def take_part(rank, ucx, context):
    pool = Gpu.MemoryPool(context, Gpu.MemoryPoolKind.SEGMENTS)
    own, received = pool(SIZE), pool(SIZE)
    context.default_stream.write(own, get_pattern(rank))
    ucx.link.send(ucx.get_address())
    ucx.connect(ucx.receive())

    # UCX knows no streams: wait for the work on memory that UCX uses
    own.wait()
    received.wait()
    if rank == 0:
        handle, key = ucx.register(own)
        ucx.link.send(own.device_address.to_bytes(8, "little") + key)
        ucx.receive()
        ucx.call("ucp_mem_unmap", ucx.context, handle)
    else:
        message = ucx.receive()
        ucx.get(received, int.from_bytes(message[:8], "little"), message[8:])
        check(received, 0)
        ucx.link.send(b"read")
    received.fill(0)
    ucx.exchange(own, received)
    # UCX has completed, so that later work of any stream gets the data
    check(received, 1 - rank)
    ucx.link.send(b"done")
    ucx.receive()


def check(received, rank):
    if received.read() != get_pattern(rank):
        sys.exit("ucx-exchange: the data are wrong")


def run(first="host", second=None, fd=None):
    ucp = load()
    second = first if second is None else second
    context = Gpu.Context(first if fd is None else second)
    if context.device.backend == "opencl":
        sys.exit("ucx-exchange: memory of OpenCL has no addresses for UCX: use CUDA or the host")
    with context.current() if context.device.backend == "cuda" else contextlib.nullcontext():
        if fd is not None:
            take_part(1, Ucx(ucp, socket.socket(fileno=int(fd))), context)
            return
        link, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, __file__, first, second, str(other.fileno())]
        with subprocess.Popen(command, pass_fds=[other.fileno()]) as process, link:
            other.close()
            take_part(0, Ucx(ucp, link), context)
        if process.returncode != 0:
            sys.exit("ucx-exchange: the other process failed")
    print(f"two processes exchanged {SIZE} bytes in memory of pools, on {first} and {second}")


try:
    run(*sys.argv[1:4])
except GLib.Error as error:
    sys.exit(f"ucx-exchange: {error.message}")
except (OSError, RuntimeError) as error:
    sys.exit(f"ucx-exchange: {error}")
