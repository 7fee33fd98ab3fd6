#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Copies through memory of a pool that another process has imported, and compares the speed with
memory of cudaMalloc() that the process has imported.

    benchmarks/pool-share.py [OPTION...] [DEVICE [DEVICE]]

The first process allocates on the first device, by default cuda:0. The second process imports the
memory on the second device, by default cuda:1 if there is one, and copies it to memory of its own
("read") and back ("write"). Each figure is the median of all rounds, in 10^9 bytes per second. A
ratio is the median of the ratios of the rounds to the first kind of memory.

With --ucx FILE, also measures UCX: FILE is libucp.so.0. The first process registers the memory, and
the second process reads it with ucp_get_nbx(). With --create, measures how long the driver takes to
create and map memory with and without a handle type and GPUDirect RDMA. All copies are checked."""

import argparse
import ctypes
import glob
import json
import os
import socket
import statistics
import subprocess
import sys
import time

import gi

gi.require_version("Gpu", "1.0")
from gi.repository import Gio, Gpu  # noqa: E402

MIB = 1 << 20
SECONDS = 0.1                   # of copies per figure
SHAREABLE = Gpu.MemoryFlags.SHAREABLE
EXPANDABLE, SEGMENTS = Gpu.MemoryPoolKind.EXPANDABLE, Gpu.MemoryPoolKind.SEGMENTS
PIECE = 4096


# --- memory --------------------------------------------------------------------------------------


def make_pooled(context, kind, flags):
    """Returns a function that allocates from a pool. Blocks before and after each buffer keep it
    away from the ends of a segment or chunk."""
    pool = Gpu.MemoryPool(context, kind, flags)
    others = []

    def alloc(size):
        others.append(pool(3 * PIECE))
        buffer = pool(size)
        others.append(pool(PIECE))
        return buffer

    return alloc


def list_kinds(context, wanted):
    """Returns a dictionary of functions that allocate, by name. The first is the rival. Memory of
    pools has the name of the kind of the pool."""
    kinds = {
        "cudaMalloc": lambda size: Gpu.Buffer(context, size),
        "shareable buffer": lambda size: Gpu.Buffer.new(context, SHAREABLE, size),
        "segments": make_pooled(context, SEGMENTS, Gpu.MemoryFlags.NONE),
        "shareable segments": make_pooled(context, SEGMENTS, SHAREABLE),
        "expandable": make_pooled(context, EXPANDABLE, Gpu.MemoryFlags.NONE),
        "shareable expandable": make_pooled(context, EXPANDABLE, SHAREABLE),
    }
    return {name: alloc for name, alloc in kinds.items() if not wanted or name in wanted}


def write_pattern(buffer, seed):
    """Gives each MiB of the buffer other contents."""
    for i in range(0, buffer.size, MIB):
        buffer[i:min(i + MIB, buffer.size)].fill((seed + i // MIB) % 251)


def has_pattern(buffer, seed):
    return all(buffer.read(i, 1)[0] == buffer.read(min(i + MIB, buffer.size) - 1, 1)[0]
               == (seed + i // MIB) % 251 for i in range(0, buffer.size, MIB))


def measure(copy, finish, size):
    """Returns the speed of copies in 10^9 bytes per second."""
    n = 1
    while True:
        start = time.perf_counter()
        for _ in range(n):
            copy()
        finish()
        seconds = time.perf_counter() - start
        if seconds >= SECONDS / 2 or n >= 1 << 14:
            return size * n / seconds / 1e9
        n = max(2 * n, int(n * SECONDS / max(seconds, 1e-6)))


# --- messages between the processes --------------------------------------------------------------


class Link:
    def __init__(self, end):
        self.end = end

    def send(self, message, fds=()):
        data = json.dumps(message).encode()
        # Linux passes at most 253 descriptors in one message
        self.end.send(json.dumps([len(data), len(fds)]).encode())
        self.end.send(data)
        for i in range(0, len(fds), 200):
            socket.send_fds(self.end, [b"fds"], list(fds[i:i + 200]))

    def receive(self):
        """Returns a message and its descriptors, or None at the end."""
        head = self.end.recv(1000)
        if not head:
            return None, []
        size, n_fds = json.loads(head)
        message, fds = json.loads(self.end.recv(size)), []
        while len(fds) < n_fds:
            fds += socket.recv_fds(self.end, 10, 253)[1]
        return message, fds


def start_worker(options, *arguments):
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, __file__, *arguments, "--worker", str(there.fileno()),
               *options.devices]
    process = subprocess.Popen(command, pass_fds=[there.fileno()])
    there.close()
    return process, Link(here)


def export(buffer, name):
    """Returns the handle and the descriptors of the buffer."""
    if buffer.get_flags() & SHAREABLE:
        fds = Gio.UnixFDList.new()
        return buffer.export_fds(fds).hex(), fds.steal_fds()
    return buffer.export_handle().hex(), []


def print_table(title, figures, n_rounds):
    """Prints the figures by name: a list of the figures of each round."""
    first = next(iter(figures.values()))
    print(f"\n{title}")
    for name, values in figures.items():
        if isinstance(values, str):
            print(f"  {name:22} {values}")
            continue
        ratio = statistics.median(a / b for a, b in zip(values, first)) \
            if not isinstance(first, str) else float("nan")
        print(f"  {name:22} {statistics.median(values):8.1f} GB/s   ratio {ratio:.3f}")


# --- IPC -----------------------------------------------------------------------------------------


def run_importer(link, exporter, device):
    """Copies between the memory of the other process, which is imported on its own device, and
    memory on @device."""
    source = Gpu.Context(Gpu.Device(exporter))
    context = source if device == exporter else Gpu.Context(Gpu.Device(device))
    stream, imported = context.default_stream, {}
    while True:
        message, fds = link.receive()
        if message is None:
            return
        name, size = message["name"], message["size"]
        if "handle" in message:
            handle = bytes.fromhex(message["handle"])
            if fds:
                shared = Gpu.Buffer.new_from_fds(source, handle,
                                                 Gio.UnixFDList.new_from_array(fds))
            else:
                shared = Gpu.Buffer.new_from_handle(source, handle)
            imported[name] = shared, Gpu.Buffer(context, size)
            link.send({"right": has_pattern(shared, message["seed"])})
        elif "drop" in message:
            imported.clear()
            link.send({})
        else:
            shared, own = imported[name]
            link.send({"read": measure(lambda: stream.copy(own, shared), stream.synchronize, size),
                       "write": measure(lambda: stream.copy(shared, own), stream.synchronize,
                                        size),
                       "right": has_pattern(own, message["seed"])})


def ask(link, fds=(), **message):
    link.send(message, fds)
    answer, _ = link.receive()
    if answer is None:
        sys.exit("the other process has ended")
    return answer


def compare_ipc(options, context, link, size):
    kinds = list_kinds(context, options.memory)
    buffers, reads, writes = [], {}, {}
    for seed, (name, alloc) in enumerate(kinds.items()):
        try:
            buffer = alloc(size)
            write_pattern(buffer, seed)
            context.synchronize()
            handle, fds = export(buffer, name)
        except Gpu.Error as error:
            reads[name] = f"not exported: {error.message[:100]}"
            continue
        answer = ask(link, fds, name=name, size=size, handle=handle, seed=seed)
        for fd in fds:
            os.close(fd)
        if not answer["right"]:
            sys.exit(f"{name}: wrong data")
        print(f"  {name}: {size // MIB} MiB, {len(fds)} descriptors")
        buffers.append((name, buffer, seed))
        reads[name], writes[name] = [], []
    for _ in range(options.rounds):
        for name, _, seed in buffers:
            answer = ask(link, name=name, size=size, seed=seed)
            if not answer["right"]:
                sys.exit(f"{name}: wrong data after a copy")
            reads[name].append(answer["read"])
            writes[name].append(answer["write"])
    ask(link, name="", size=0, drop=True)
    print_table(f"{size // MIB} MiB, read", reads, options.rounds)
    print_table(f"{size // MIB} MiB, write", writes, options.rounds)


def measure_ipc(options):
    context = Gpu.Context(Gpu.Device(options.devices[0]))
    process, link = start_worker(options)
    print("imported by another process:")
    for size in options.sizes:
        compare_ipc(options, context, link, size * MIB)
    link.end.close()
    process.wait(60)


# --- UCX -----------------------------------------------------------------------------------------


class Ucx:
    """A context, a worker and, once connected, an endpoint of UCX. The numbers are those of
    ucp.h."""

    def __init__(self, path):
        self.ucp = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        self.ucp.ucp_get_version_string.restype = ctypes.c_char_p
        self.ucp.ucp_get_nbx.restype = self.ucp.ucp_ep_flush_nbx.restype = ctypes.c_void_p
        self.context, self.worker, self.ep = (ctypes.c_void_p() for _ in range(3))
        major, minor, rest = (ctypes.c_uint() for _ in range(3))
        self.ucp.ucp_get_version(*map(ctypes.byref, (major, minor, rest)))
        features = 1 << 1                                       # UCP_FEATURE_RMA
        self.call("init_version", major, minor, self.params(1, features), None,
                  ctypes.byref(self.context))
        self.call("worker_create", self.context, self.params(0), ctypes.byref(self.worker))

    @staticmethod
    def params(*words):
        """Returns a structure of 64-bit words, with zeros at its end."""
        return (ctypes.c_uint64 * 64)(*words)

    def call(self, name, *arguments):
        status = getattr(self.ucp, "ucp_" + name)(*arguments)
        if status < 0:
            raise OSError(f"ucp_{name}: {self.describe(status)}")

    def describe(self, status):
        describe = self.ucp.ucs_status_string
        describe.restype = ctypes.c_char_p
        return describe(status).decode()

    def get_address(self):
        address, size = ctypes.c_void_p(), ctypes.c_size_t()
        self.call("worker_get_address", self.worker, ctypes.byref(address), ctypes.byref(size))
        return ctypes.string_at(address, size.value)

    def connect(self, address):
        self.peer = ctypes.create_string_buffer(address, len(address))
        self.call("ep_create", self.worker, self.params(1, ctypes.addressof(self.peer)),
                  ctypes.byref(self.ep))

    def register(self, address, size):
        """Returns the packed key of the memory."""
        memory, key, key_size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
        # UCP_MEM_MAP_PARAM_FIELD_ADDRESS and _LENGTH
        self.call("mem_map", self.context, self.params(3, address, size), ctypes.byref(memory))
        self.call("rkey_pack", self.context, memory, ctypes.byref(key), ctypes.byref(key_size))
        return ctypes.string_at(key, key_size.value)

    def unpack(self, key):
        unpacked = ctypes.c_void_p()
        self.call("ep_rkey_unpack", self.ep, key, ctypes.byref(unpacked))
        return unpacked

    def progress(self):
        return self.ucp.ucp_worker_progress(self.worker)

    def wait(self, request):
        """Waits for a request that a function ending in _nbx returned."""
        status = ctypes.c_int64(request or 0).value
        if -100 < status <= 0:
            if status < 0:
                raise OSError(self.describe(status))
            return
        while self.ucp.ucp_request_check_status(ctypes.c_void_p(request)) == 1:
            self.progress()                                     # UCS_INPROGRESS
        self.ucp.ucp_request_free(ctypes.c_void_p(request))

    def get(self, own, remote, key, size):
        self.wait(self.ucp.ucp_get_nbx(self.ep, ctypes.c_void_p(own), ctypes.c_size_t(size),
                                       ctypes.c_uint64(remote), key, self.params(0)))


def make_current(device):
    """Makes the primary context of a CUDA device current, for UCX."""
    if device.startswith("cuda:"):
        cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), int(device[5:]))
        cuda.cuCtxSetCurrent(context)


def run_getter(link, device, path):
    context = Gpu.Context(Gpu.Device(device))
    make_current(device)
    ucx, buffers = Ucx(path), {}
    message, _ = link.receive()
    ucx.connect(bytes.fromhex(message["address"]))
    link.send({"address": ucx.get_address().hex()})
    while True:
        message, _ = link.receive()
        if message is None:
            return
        size = message["size"]
        own = buffers.setdefault(size, Gpu.Buffer(context, size))
        own.fill(255)
        context.synchronize()
        key = ucx.unpack(bytes.fromhex(message["key"]))
        speed = measure(lambda: ucx.get(own.device_address, message["address"], key, size),
                        lambda: None, size)
        link.send({"speed": speed, "right": has_pattern(own, message["seed"])})
        ucx.ucp.ucp_rkey_destroy(key)


def ask_getter(ucx, link, **message):
    """Like ask(), but lets UCX progress in this process, because some transports need that."""
    link.send(message)
    while True:
        ucx.progress()
        link.end.settimeout(0.0001)
        try:
            head = link.end.recv(1000)
        except TimeoutError:
            continue
        link.end.settimeout(None)
        if not head:
            sys.exit("the other process has ended")
        return json.loads(link.end.recv(json.loads(head)[0]))


def print_ucx(ucx, path):
    print(f"\nUCX {ucx.ucp.ucp_get_version_string().decode()}, {path}")
    for name in glob.glob(os.path.join(os.path.dirname(path), "ucx", "libuct_cuda.so*"))[:1]:
        with open(name, "rb") as file:
            if b"pidfd_getfd" not in file.read():
                print("  built without pidfd_getfd(): it cannot import file descriptors")


def compare_ucx(options, ucx, context, link, size):
    speeds, exported = {}, []
    for seed, (name, alloc) in enumerate(list_kinds(context, options.memory).items()):
        buffer = alloc(size)
        write_pattern(buffer, seed)
        context.synchronize()
        try:
            key = ucx.register(buffer.device_address, size)
        except OSError as error:
            speeds[name] = f"not registered: {error}"
            continue
        exported.append((name, buffer, key.hex(), seed))
        speeds[name] = []
    for _ in range(options.rounds):
        for name, buffer, key, seed in exported:
            answer = ask_getter(ucx, link, size=size, key=key, address=buffer.device_address,
                                seed=seed)
            if not answer["right"]:
                speeds[name] = f"WRONG DATA at {answer['speed']:.1f} GB/s"
            elif isinstance(speeds[name], list):
                speeds[name].append(answer["speed"])
    print_table(f"{size // MIB} MiB, ucp_get_nbx()", speeds, options.rounds)


def measure_ucx(options):
    context = Gpu.Context(Gpu.Device(options.devices[0]))
    make_current(options.devices[0])
    ucx = Ucx(options.ucx)
    print_ucx(ucx, options.ucx)
    for size in options.sizes:
        process, link = start_worker(options, "--ucx", options.ucx)
        answer = ask_getter(ucx, link, address=ucx.get_address().hex())
        ucx.connect(bytes.fromhex(answer["address"]))
        compare_ucx(options, ucx, context, link, size * MIB)
        link.end.close()
        process.wait(60)


# --- creation ------------------------------------------------------------------------------------


class Properties(ctypes.Structure):
    """CUmemAllocationProp"""
    _fields_ = [("type", ctypes.c_int), ("handle_types", ctypes.c_int),
                ("location_type", ctypes.c_int), ("location", ctypes.c_int),
                ("win32", ctypes.c_void_p), ("compression", ctypes.c_uint8),
                ("rdma", ctypes.c_uint8), ("usage", ctypes.c_uint16),
                ("reserved", ctypes.c_uint8 * 4)]


class Access(ctypes.Structure):
    """CUmemAccessDesc"""
    _fields_ = [("location_type", ctypes.c_int), ("location", ctypes.c_int),
                ("flags", ctypes.c_int)]


def create_once(cuda, address, size, properties):
    """Creates, maps, unmaps and releases memory. Returns the seconds, or None if refused."""
    handle = ctypes.c_uint64()
    access = Access(1, properties.location, 3)
    size = ctypes.c_size_t(size)
    start = time.perf_counter()
    if cuda.cuMemCreate(ctypes.byref(handle), size, ctypes.byref(properties),
                        ctypes.c_uint64(0)) != 0:
        return None
    codes = (cuda.cuMemMap(address, size, ctypes.c_size_t(0), handle, ctypes.c_uint64(0)),
             cuda.cuMemSetAccess(address, size, ctypes.byref(access), ctypes.c_size_t(1)),
             cuda.cuMemUnmap(address, size), cuda.cuMemRelease(handle))
    seconds = time.perf_counter() - start
    return seconds if codes == (0, 0, 0, 0) else None


def measure_creation(options):
    ordinal = int(options.devices[0].partition(":")[2])
    context = Gpu.Context(Gpu.Device(options.devices[0]))
    make_current(options.devices[0])
    cuda, address, most = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64(), 64 * MIB
    cuda.cuMemAddressReserve(ctypes.byref(address), ctypes.c_size_t(most), ctypes.c_size_t(0),
                             ctypes.c_uint64(0), ctypes.c_uint64(0))
    print("\ncreate, map, unmap and release, in microseconds; the ratio to no handle type")
    kinds = {"no handle type": (0, 0), "GPUDirect RDMA": (0, 1), "file descriptor": (1, 0),
             "both": (1, 1)}
    for size in (2 * MIB, 64 * MIB):
        times = {name: [] for name in kinds}
        for _ in range(options.rounds * 20):
            for name, (types, rdma) in kinds.items():
                seconds = create_once(cuda, address, size,
                                      Properties(1, types, 1, ordinal, None, 0, rdma))
                times[name].append(seconds)
        first = times["no handle type"]
        for name, values in times.items():
            if None in values:
                print(f"  {size // MIB:3} MiB {name:20} refused")
                continue
            ratio = statistics.median(a / b for a, b in zip(values, first))
            print(f"  {size // MIB:3} MiB {name:20} {statistics.median(values) * 1e6:8.1f}"
                  f"   ratio {ratio:.3f}")
    cuda.cuMemAddressFree(address, ctypes.c_size_t(most))
    del context


def read_options():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("devices", metavar="DEVICE", nargs="*")
    parser.add_argument("--sizes", default="1,16,256", help="MiB, separated by commas")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--memory", help="kinds of memory, separated by commas; by default all")
    parser.add_argument("--ucx", metavar="FILE", help="libucp.so.0: also measure UCX")
    parser.add_argument("--create", action="store_true", help="measure how memory is created")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.memory = options.memory.split(",") if options.memory else []
    options.sizes = [int(size) for size in options.sizes.split(",")]
    if not options.devices:
        options.devices = ["cuda:0"]
    if len(options.devices) == 1:
        ids = [device.get_id() for device in Gpu.Device.list()]
        other = "cuda:1" if options.devices == ["cuda:0"] and "cuda:1" in ids else None
        options.devices.append(other or options.devices[0])
    return options


def main():
    options = read_options()
    if options.worker is not None:
        link = Link(socket.socket(fileno=options.worker))
        if options.ucx:
            return run_getter(link, options.devices[1], options.ucx)
        return run_importer(link, *options.devices)
    print("from {} to {}: {}".format(*options.devices, Gpu.Device(options.devices[0]).get_name()))
    measure_ipc(options)
    if options.create:
        measure_creation(options)
    if options.ucx:
        measure_ucx(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
