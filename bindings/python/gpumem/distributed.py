# SPDX-License-Identifier: LGPL-2.1-or-later
"""Arrays and buffers of every back end in Dask.

    from dask.distributed import Client, LocalCluster
    import gpumem.distributed

    client = Client(LocalCluster(n_workers=2, threads_per_worker=1))
    gpumem.distributed.register(client, limit=8 << 30)

From then on, tasks take and return Gpu.Array and Gpu.Buffer. They allocate in the context of their
process, gpumem.distributed.context(). If the data of a worker exceed the target, the worker moves
the least recently used data to the host with Gpu.Buffer.spill(), and Dask moves them to disk.

Importing this module registers the serialisation of both classes with Dask. A process that receives
them must have imported it, as register() and `dask worker --preload gpumem.distributed` do.
After the import, pickle saves objects of both classes as arrays and buffers, and not as NumPy
arrays. Dask uses pickle to send arguments, functions, and objects that contain arrays.

Only elements and sizes travel: the receiver gets new memory in its own context, and arrays that
shared memory do not share it there. All functions may be called from any thread."""

from __future__ import annotations

import contextlib
import copyreg
import math
import os
import pickle
import re
import reprlib
import threading
from typing import Any, Sequence, Union

import dask
import dask.sizeof
import distributed
import gi
from dask.base import normalize_token
from dask.hashing import hash_buffer_hex
from dask.utils import parse_bytes
from distributed.protocol import (cuda_deserialize, cuda_serialize, dask_deserialize,
                                  dask_serialize)

gi.require_version("Gpu", "1.0")
from gi.repository import GLib, Gpu  # noqa: E402  first: it loads the library
from gi.overrides._gpumem import submit  # noqa: E402

from ._spilling import (Data, add_arrived, exceeds_limit, has_open_data, is_spilled,  # noqa: E402
                        make_room_for_arrivals, move_lock, wrap_get_data)

__all__ = ["Data", "Plugin", "context", "dask_setup", "register"]


def _import_gpu():
    return Gpu


# Functions of the main program travel with their global variables, such as Gpu
copyreg.pickle(type(Gpu), lambda module: (_import_gpu, ()))

_lock = threading.Lock()                # protects _process
_process = None


# --- the context of the process ------------------------------------------------------------------

class _Process:
    """The objects of a process: one context, its pool, and streams for copies to and from frames.
    Other work on the default stream does not delay these copies."""

    def __init__(self, device, kind):
        self.context = Gpu.Context(device)
        self.pool = Gpu.MemoryPool(self.context, kind)
        self.context.allocator = self.pool
        self.stream = Gpu.Stream(self.context)
        self.arrivals = Gpu.Stream(self.context)
        self.host_allocator = Gpu.HostAllocator(self.context)
        self._limits = None             # of the pool: before set_limit(), and by it
        self._waiting_streams = []      # without work; waits of messages do not delay each other

    @contextlib.contextmanager
    def borrow_stream(self):
        """Returns a stream that has no other user until the end of the with statement."""
        try:
            stream = self._waiting_streams.pop()
        except IndexError:
            stream = Gpu.Stream(self.context)
        yield stream
        self._waiting_streams.append(stream)    # not after an exception: it may have work

    def follow_writes(self, stream, memories):
        """Makes a stream read a byte of each memory, after the last write of the memory. Returns an
        event behind these reads. Other reads of the memory may still be pending then."""
        for memory in memories:
            byte = self.host_allocator.alloc(1)
            stream.read_array(Gpu.Array.for_memory(memory, 1, "uint8"), byte.get_bytes(), 0, None)
        return stream.record()

    def set_limit(self, limit):
        """Sets the limit of the pool. None restores the previous limit, unless the program has set
        another one meanwhile."""
        if self._limits is not None and self.pool.limit == self._limits[1]:
            self.pool.limit = self._limits[0]
        self._limits = None if limit is None else (self.pool.limit, limit)
        if limit is not None:
            self.pool.limit = limit


def _choose_device(worker, devices):
    """Returns the device for a worker, or its name: by GPUMEM_DEVICE, or by the number at the end
    of the name of the worker, among the devices of the default back end."""
    if devices is None and (worker is None or os.environ.get("GPUMEM_DEVICE")):
        return Gpu.Device.get_default()
    if devices is None:
        backend = Gpu.Device.get_default().backend
        devices = [device for device in Gpu.devices() if device.backend == backend]
    number = re.fullmatch(r"(?:.*-)?([0-9]+)", str(worker.name))
    return devices[int(number[1]) % len(devices) if number else 0]


def _get_client():
    try:
        return distributed.default_client()
    except ValueError:
        return None


def _choose_kind(worker):
    """Returns the kind of the pool for a worker, or else for the client of the process. Not every
    build of UCX reaches the memory of an address range in another process."""
    scheduler = getattr(worker or _get_client(), "scheduler", None)
    if scheduler is not None and scheduler.address.startswith("ucx"):
        return Gpu.MemoryPoolKind.SEGMENTS
    return Gpu.MemoryPoolKind.AUTOMATIC


def _get_process(worker=None, devices=None):
    global _process
    with _lock:
        if _process is None:
            _process = _Process(_choose_device(worker, devices), _choose_kind(worker))
        return _process


def context() -> Gpu.Context:
    """Returns the context of this process, whose allocator is a pool. The first call, or register()
    in a worker, creates it: on GPUMEM_DEVICE, or else on the device that register() chose, or else
    on the default device. All workers of a process share it: start one process for each device.
    With UCX, create the client before the first call: the call then creates a pool with segments.
    Raises Gpu.NoDeviceError if there is no device."""
    return _get_process().context


# --- serialisation -------------------------------------------------------------------------------

def _pack(array):
    """Returns the header of an array, and a view of the elements to send, in C order. Fortran order
    remains, and repeated elements travel once."""
    turned = array.flags.f_contiguous and not array.flags.c_contiguous
    dtype, memory = array.get_dtype(), array.memory
    sent = array.T if turned else array
    if array.size > 0:
        sent = sent[tuple(slice(0, 1 if stride == 0 else None) for stride in sent.strides)]
    return {"dtype": pickle.dumps(dtype) if dtype.fields else dtype.name,
            "turned": turned, "shape": list(array.shape), "sent": list(sent.shape),
            "read-only": (memory is not None and not array.is_writable()
                          and not array.shares_bytes)}, sent


def _get_dtype(header):
    dtype = header["dtype"]
    try:
        return Gpu.DType(dtype if isinstance(dtype, str) else pickle.loads(dtype))
    except Exception as error:
        raise _describe_damage(header, "dtype") from error


def _describe_damage(header, name):
    return ValueError(f"the message has {name!r}: {reprlib.repr(header[name])}; it is damaged")


def _is_shape(value):
    return (isinstance(value, (list, tuple))
            and all(type(length) is int and length >= 0 for length in value))


def _check_header(header):
    """Raises ValueError for a header that _pack() does not make."""
    for name in "dtype", "turned", "shape", "sent", "read-only":
        if name not in header:
            raise ValueError(f"the message has no {name!r}; it is damaged")
    for name in "shape", "sent":
        if not _is_shape(header[name]):
            raise _describe_damage(header, name)
    for name in "turned", "read-only":
        if not isinstance(header[name], bool):
            raise _describe_damage(header, name)
    shape, sent = tuple(header["shape"]), tuple(header["sent"])
    turned = sent[::-1] if header["turned"] else sent
    # An array of another shape would fail, or have undefined elements
    if len(shape) != len(sent) or any(a not in (b, 1) for a, b in zip(turned, shape)):
        raise ValueError(f"the message has elements of shape {sent} for an array of shape {shape}; "
                         "it is damaged")


def _check_size(header, size):
    """Returns the bytes of the elements in a message. Raises ValueError for a damaged message, such
    as one of another size: the array would have undefined elements."""
    _check_header(header)
    needed = math.prod(header["sent"]) * _get_dtype(header).itemsize
    if size != needed:
        raise ValueError(f"the message has {size} bytes in its first frame, not the {needed} bytes "
                         f"of an array of shape {tuple(header['shape'])}; it is damaged")
    return needed


def _unpack(header, memory, offset=0):
    """Returns an array with the shape, order and type in a header of _pack(), over memory with its
    elements."""
    dtype = _get_dtype(header)
    if memory is None:
        return Gpu.Array.empty(context(), header["shape"], dtype)
    array = Gpu.Array.for_memory(memory, header["sent"], dtype, offset)
    array = array.T if header["turned"] else array
    shape = tuple(header["shape"])
    return array if array.shape == shape else array.broadcast_to(shape)


def _get_stream(process, array):
    return process.stream if array.context is process.context else array.context.default_stream


def _dump(array):
    """Copies the elements to a frame of page-locked memory, also from spilled memory. Waits for the
    work that uses the memory of the array, and not for other work of the context. The frame keeps
    its memory allocated."""
    header, sent = _pack(array)
    if sent.size == 0:
        return header, []
    process = _get_process()
    frame = process.host_allocator.alloc(sent.nbytes)
    stream = _get_stream(process, sent)
    event = None
    with move_lock:                     # until the read is submitted; a spill waits for the read
        if is_spilled(sent.memory):
            sent.read_strided(None, frame.get_bytes(), 0, None, None)
        else:
            _, event = submit(stream, lambda: Gpu.Stream.read_array(
                stream, sent, frame.get_bytes(), 0, None))
    if event is not None:
        event.wait()
    return header, [frame.view()]


async def _wait_for_writes(leaves):
    """Waits for the work that _dump() and _dump_cuda() would wait for, and that would block the
    event loop of the worker there. They raise the error of this work."""
    process = _get_process()
    memories = {id(memory): memory for memory in map(_get_memory, leaves)
                if memory is not None and memory.context is process.context}
    if memories:
        with contextlib.suppress(GLib.Error), process.borrow_stream() as stream:
            with move_lock:             # until the reads are submitted
                event = process.follow_writes(stream, [
                    memory for memory in memories.values() if not is_spilled(memory)])
            memories.clear()            # the message does not keep memory in use
            await event


def _load(header, frames):
    """Creates an array in the context of this process. Does not wait for the copy from the frame,
    which the stream keeps until then: all work on the array is ordered after the copy."""
    size = memoryview(frames[0]).nbytes if frames else 0
    if _check_size(header, size) == 0:
        return _unpack(header, None)
    process = _get_process()
    if header["read-only"]:
        memory = Gpu.Buffer(process.context, frames[0], Gpu.MemoryFlags.READ_ONLY)
    else:
        memory = _alloc(process, size)
        process.arrivals.write(memory, frames[0], copy=False)
    return _unpack(header, memory)


def _alloc(process, size):
    try:
        return process.pool.alloc_buffer(size, process.arrivals)
    except Gpu.OutOfMemoryError:
        # A message may be larger than the memory of the device
        if exceeds_limit(process.pool, size) or not make_room_for_arrivals(size):
            raise
    return process.pool.alloc_buffer(size, process.arrivals)


def _dump_cuda(array):
    """Returns the memory of the array as a frame with the CUDA Array Interface. Waits for the work
    that writes it: UCX reads frames without a stream. Other devices, and spilled memory, send
    frames of the host."""
    if array.context.device.backend != "cuda":
        raise NotImplementedError(f"{array.context.device.id} has no addresses of CUDA")
    header, sent = _pack(array)
    if sent.size == 0:
        return header, []
    process = _get_process()
    with move_lock:                     # the frame then is a use of the memory
        if is_spilled(sent.memory):
            raise NotImplementedError("the memory is spilled")
        if not sent.flags.c_contiguous:
            sent = sent.copy(order="C", stream=_get_stream(process, sent))
        frame = Gpu.Array.for_memory(sent.memory, sent.nbytes, "uint8", sent.offset)
    if frame.context is process.context:
        with process.borrow_stream() as stream:
            process.follow_writes(stream, [frame.memory]).wait()
    else:
        frame.memory.wait()
    return header, [frame]


def _load_cuda(header, frames):
    """Creates an array over the frame, without a copy, which keeps the frame allocated."""
    array = Gpu.Array.from_cuda_array_interface(context(), frames[0]) if frames else None
    if _check_size(header, array.nbytes if frames else 0) == 0:
        return _unpack(header, None)
    return _unpack(header, array.memory, array.offset)


def _get_memory(leaf):
    return leaf.memory if isinstance(leaf, Gpu.Array) else leaf


def _to_buffer(array):
    if array.memory is None:
        raise ValueError("the message has 0 bytes for a buffer; it is damaged")
    return array.memory


def _view_bytes(buffer):
    """A buffer travels as an array of its bytes."""
    return Gpu.Array.for_memory(buffer, buffer.size, "uint8")


def _register_family(serialize, deserialize, dump, load):
    serialize.register(Gpu.Array)(dump)
    deserialize.register(Gpu.Array)(lambda header, frames: add_arrived(load(header, frames)))
    serialize.register(Gpu.Buffer)(lambda buffer: dump(_view_bytes(buffer)))
    deserialize.register(Gpu.Buffer)(
        lambda header, frames: add_arrived(_to_buffer(load(header, frames))))


_register_family(dask_serialize, dask_deserialize, _dump, _load)
_register_family(cuda_serialize, cuda_deserialize, _dump_cuda, _load_cuda)


class _Frame:
    """A frame that pickle saves as a buffer outside of its bytes, if it can."""

    def __init__(self, view):
        self.view = view

    def __reduce_ex__(self, protocol):
        return memoryview, (pickle.PickleBuffer(self.view) if protocol >= 5 else bytes(self.view),)


def _restore(header, frames):
    """Waits for the copy from the frames: the caller of pickle.loads() may change its buffers."""
    array = _load(header, frames)
    if array.memory is not None:
        array.memory.wait()
    return array


def _restore_buffer(header, frames):
    return _to_buffer(_restore(header, frames))


def _reduce(array, restore=_restore):
    """For pickle, which saves arguments of tasks and the variables of functions. pickle.loads()
    imports this module."""
    header, frames = _dump(array)
    return restore, (header, [_Frame(frame) for frame in frames])


copyreg.pickle(Gpu.Array, _reduce)
copyreg.pickle(Gpu.Buffer, lambda buffer: _reduce(_view_bytes(buffer), _restore_buffer))


@dask.sizeof.sizeof.register(Gpu.Array)
def _get_array_size(array):
    return array.nbytes if array.memory is None else min(array.nbytes, array.memory.size)


@dask.sizeof.sizeof.register(Gpu.Memory)
def _get_memory_size(memory):
    return memory.size


# --- keys of tasks -------------------------------------------------------------------------------

# Equal contents have equal tokens, as with NumPy: a token without the contents would be wrong after
# the next kernel.

@normalize_token.register(Gpu.DType)
def _normalize_dtype(dtype):
    return "Gpu.DType", normalize_token(dtype.__reduce__()[1])


@normalize_token.register(Gpu.Array)
def _normalize_array(array):
    """Waits for the work that writes the array, and copies the elements to the host. Hashes bytes,
    because NumPy lacks some types."""
    return ("Gpu.Array", normalize_token(array.get_dtype()), array.shape,
            hash_buffer_hex(bytes(array)))


@normalize_token.register(Gpu.Buffer)
def _normalize_buffer(buffer):
    return "Gpu.Buffer", hash_buffer_hex(buffer.read())


# --- workers -------------------------------------------------------------------------------------

def _to_names(devices):
    """Returns a list of names of devices. One name is accepted as a list of it."""
    if devices is None:
        return None
    if isinstance(devices, str):
        return [devices]
    if not isinstance(devices, (list, tuple)) or not devices \
            or not all(isinstance(name, str) for name in devices):
        raise TypeError("devices must be a name for Gpu.Device.find() or a list of names, not "
                        f"{devices!r}")
    return list(devices)


def _to_size(value, name):
    """Returns the number of bytes of a limit or a target; None for None."""
    if value is None:
        return None
    # such as 8e9; infinite values are refused below
    is_whole = isinstance(value, float) and (value.is_integer() or not math.isfinite(value))
    if not isinstance(value, str) and not is_whole \
            and (isinstance(value, bool) or not hasattr(value, "__index__")):
        raise TypeError(f"{name} must be a number of bytes, a text like '8 GiB' or None, not "
                        f"{value!r}")
    try:
        size = parse_bytes(value) if isinstance(value, str) and value.strip() else int(value)
    except (ValueError, OverflowError):
        size = -1
    if not 0 <= size < 1 << 64:
        raise ValueError(f"{name} must be 0 to {(1 << 64) - 1} bytes, or a text like '8 GiB', not "
                         f"{value!r}")
    return size


def _get_configured_size(name):
    return _to_size(dask.config.get(name, None), name)


def _check_target(limit, target):
    """Raises ValueError if spilling would never begin before the limit."""
    if None not in (limit, target) and target > limit > 0:
        raise ValueError(f"target must be at most limit, {limit} bytes, not {target} bytes: values "
                         "are spilled above the target")


class Plugin(distributed.WorkerPlugin):
    """A plugin of Dask that creates the context and the Data of each worker: see register()."""
    name = "gpumem"

    def __init__(self, limit: Union[int, str, None] = None, target: Union[int, str, None] = None,
                 devices: Union[str, Sequence[str], None] = None):
        self.limit, self.target = _to_size(limit, "limit"), _to_size(target, "target")
        self.devices = _to_names(devices)
        _check_target(self.limit, self.target)

    def setup(self, worker: Any) -> None:
        """Dask calls this in each worker. Raises ValueError if another worker of the process has
        another one of the given devices."""
        process = _get_process(worker, self.devices)
        if self.devices is not None:
            device = Gpu.Device.find(_choose_device(worker, self.devices))
            if device != process.context.device:
                raise ValueError(f"worker {worker.name} cannot use {device.id}: its process uses "
                                 f"{process.context.device.id}; start one process for each device")
        limit = self.limit if self.limit is not None else _get_configured_size("gpumem.limit")
        target = self.target if self.target is not None else _get_configured_size("gpumem.target")
        _check_target(limit, target)
        if limit is not None:
            process.set_limit(limit)
        if target is None:
            fraction = dask.config.get("distributed.worker.memory.target") or 1
            target = int(fraction * (process.pool.limit or process.context.device.memory_size))
        if not isinstance(worker.data, Data):
            worker.memory_manager.data = worker.state.data = Data(worker.data)
            worker.handlers["get_data"] = wrap_get_data(worker, _wait_for_writes)
        worker.data.open(process.pool, target)

    def teardown(self, worker: Any) -> None:
        """Dask calls this when a worker ends, or when another plugin replaces this one. The last
        worker of the process restores the limit of the pool, so that spilled data can be read."""
        if isinstance(worker.data, Data):
            worker.data.close()
        if _process is not None and not has_open_data():
            _process.set_limit(None)


def register(client: distributed.Client, limit: Union[int, str, None] = None,
             target: Union[int, str, None] = None,
             devices: Union[str, Sequence[str], None] = None) -> Any:
    """Prepares all workers of a client, also later ones, for arrays and buffers of devices. Blocks
    until the present workers are ready, and raises their errors, such as Gpu.NoDeviceError. Returns
    the answer of Dask.

    limit is the most bytes, as a number or a text like "8 GiB", that the pool of each process
    allocates from its device; by default there is no limit. Above target bytes in use, data are
    spilled: see Data. The default is distributed.worker.memory.target, which is 0.6, of the limit
    or else of the memory of the device. Raises ValueError for a target above the limit. Without
    arguments, the configuration of Dask applies: gpumem.limit and gpumem.target, or
    DASK_GPUMEM__LIMIT and DASK_GPUMEM__TARGET in the environment. limit=0 removes a limit of the
    configuration; target=0 spills all data that are not in use.

    devices is a name for Gpu.Device.find() or a list of names, by default all devices of the
    default back end. The worker with the number i, at the end of its name, takes the i-th, modulo
    their count. A worker with GPUMEM_DEVICE in its environment takes that device, unless devices
    are given."""
    plugin = Plugin(limit, target, devices)
    add = getattr(client, "register_plugin", None) or client.register_worker_plugin
    return add(plugin, name=plugin.name)


async def dask_setup(worker: Any) -> None:
    """Does the work of register() for `dask worker --preload gpumem.distributed`."""
    await worker.plugin_add(plugin=Plugin(), name=Plugin.name, catch_errors=False)
