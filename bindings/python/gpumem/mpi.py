# SPDX-License-Identifier: LGPL-2.1-or-later
"""Passes memory of this library to mpi4py: Gpu.Array, Gpu.Buffer, slices and memory of pools.

MPI uses the memory in place if it can access it: memory of the host back end, Gpu.HostMemory, and
CUDA memory if MPI is CUDA-aware; direct=True or False overrides is_cuda_aware(). Other memory, and
arrays that are not contiguous in C order, pass through a copy in page-locked memory.

Elements travel in C order, with their MPI type. In messages, buffers and elements without an MPI
type are bytes. None is a message of 0 bytes. stream=None is the default stream of the context. All
functions raise TypeError and ValueError for wrong arguments, Gpu.Error, also for failed earlier
work on the memory, and MPI.Exception."""
from __future__ import annotations

import collections
import contextlib
import ctypes
import functools
import os
from typing import Any, Iterator, Optional, Union

import gi

gi.require_version("Gpu", "1.0")
from gi.repository import Gpu  # noqa: E402
from mpi4py import MPI  # noqa: E402

from gi.overrides._gpumem_checks import describe  # noqa: E402

from . import _places  # noqa: E402

Memory = Union[Gpu.Array, Gpu.Memory, None]
# The flags that Buffer.map() accepts
_MAP_FLAGS = tuple(map(int, (Gpu.MapFlags.NONE, Gpu.MapFlags.READ, Gpu.MapFlags.WRITE,
                             Gpu.MapFlags.READ | Gpu.MapFlags.WRITE,
                             Gpu.MapFlags.WRITE_INVALIDATE)))
_dropped: collections.deque[Any] = collections.deque()
# Never freed: MPI_Finalize() runs after Python has cleared its modules, and may still use memory
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_dropped))


@functools.lru_cache(maxsize=None)
def is_cuda_aware() -> bool:
    """Returns whether MPI reports that it can access CUDA memory: by mpi_memory_alloc_kinds of MPI
    4.1, by MPIX_Query_cuda_support(), or by the environment variable of Cray's MPI. Raises
    RuntimeError before MPI.Init() and, for the first call, after MPI.Finalize()."""
    if not MPI.Is_initialized() or MPI.Is_finalized():
        raise RuntimeError("gpumem.mpi.is_cuda_aware(): MPI only knows after MPI.Init() and before "
                           "MPI.Finalize(); pass direct=True or False to send and receive without "
                           "this answer")
    if "cuda" in (MPI.COMM_WORLD.Get_info().Get("mpi_memory_alloc_kinds") or ""):
        return True
    for name in (MPI.__file__, None):
        with contextlib.suppress(AttributeError, OSError):
            return ctypes.CDLL(name).MPIX_Query_cuda_support() == 1
    return os.environ.get("MPICH_GPU_SUPPORT_ENABLED") == "1"


def trim() -> None:
    """Frees the page-locked memory kept for reuse, and drops its contexts. Does not block."""
    _sweep()
    _places.trim()


def _sweep():
    """Continues dropped requests. Python drops them on any thread, which must not call MPI."""
    if MPI.Is_finalized():              # any other call of MPI would end the process
        return
    for _ in range(len(_dropped)):
        with contextlib.suppress(IndexError, MPI.Exception):
            request, place, cancels = _dropped.popleft()
            with place.current():
                if cancels:
                    request.Cancel()
                if not request.Test():
                    _dropped.append((request, place, False))
                elif request != MPI.REQUEST_NULL:
                    request.Free()              # persistent


def _copy_status(source, target):
    target.source, target.tag, target.error = source.source, source.tag, source.error
    target.Set_elements(MPI.BYTE, source.Get_elements(MPI.BYTE))
    target.Set_cancelled(False)


class Request:
    """A message in flight, which keeps the memory alive. Before wait() or a successful test(), the
    program must not use the memory of a receive, and must not write the memory of a send.

    A request may be dropped early, on any thread: a send continues, and a receive is cancelled
    unless its message has arrived. Later calls of the module free its memory once MPI no longer
    uses it."""
    _is_active = _is_persistent = False
    _received = None                    # the status of a message whose copy is yet to succeed

    def __init__(self, request: Any, place: Any, receives: bool, is_persistent: bool = False):
        self._request, self._place, self._receives = request, place, receives
        self._is_active, self._is_persistent = not is_persistent, is_persistent

    def start(self) -> None:
        """Starts an inactive request of send_init() or recv_init(). Blocks as isend() does."""
        if self._is_active or not self._is_persistent:
            raise ValueError("gpumem.mpi.Request.start(): the request is active or not persistent")
        self._place.get_data() if self._receives else self._place.load()
        with self._place.current():
            self._request.Start()
        self._is_active = True

    def wait(self, status: Optional[MPI.Status] = None) -> bool:
        """Blocks until MPI has completed the message. Work that is submitted later, on any stream,
        is ordered after the receive. Does not wait for a copy to the device. If the copy cannot be
        submitted, for example because the memory is spilled, raises Gpu.Error; a later call copies
        the message. Returns True."""
        return self._finish("Wait", status)

    def test(self, status: Optional[MPI.Status] = None) -> bool:
        """Returns whether MPI has completed the message. Like wait(), but does not block."""
        return self._finish("Test", status)

    def _finish(self, name, status):
        if not self._is_active:
            return True
        status = MPI.Status() if status is None else status
        if self._received is not None:          # the copy failed before
            _copy_status(self._received, status)
        elif not self._complete(name, status):
            return False
        if self._receives and not status.Is_cancelled():
            self._received = MPI.Status(status)
            self._place.store(status.Get_elements(MPI.BYTE))    # Get_count() may have 32 bits
            self._received = None
        self._is_active = False
        if not self._is_persistent:
            self._place = None
        return True

    def _complete(self, name, status):
        """Returns whether MPI has completed the message."""
        try:
            with self._place.current():
                return getattr(self._request, name)(status) is not False
        except MPI.Exception:
            self._is_active = False
            raise

    def __del__(self, dropped=_dropped):
        if self._is_active or self._is_persistent:
            cancels = self._is_active and self._receives and self._received is None
            dropped.append((self._request, self._place, cancels))


def _get_place(function, memory, stream, direct, receives):
    _sweep()
    return _places.Place(f"gpumem.mpi.{function}()", memory, stream,
                         is_cuda_aware if direct is None else lambda: bool(direct), receives)


def _begin(function, name, comm, memory, peer, tag, stream, direct):
    if not isinstance(comm, MPI.Comm):
        raise TypeError(f"gpumem.mpi.{function}(): comm must be an mpi4py.MPI.Comm, not "
                        f"{type(comm).__name__!r}")
    receives, is_persistent = "recv" in name.lower(), name.endswith("_init")
    place = _get_place(function, memory, stream, direct, receives)
    data = place.get_data() if receives or is_persistent else place.load()
    with place.current():
        request = getattr(comm, name)(data, peer, tag)
    return Request(request, place, receives, is_persistent)


def isend(comm: MPI.Comm, memory: Memory, dest: int, tag: int = 0, *, stream: Any = None,
          direct: Optional[bool] = None) -> Request:
    """Begins to send memory. Blocks until the earlier writes of the memory have completed and, if
    the memory is copied or CUDA memory, the earlier work of the stream; then like Comm.Isend().
    Does not wait for other work of the device. The request keeps the memory alive."""
    return _begin("isend", "Isend", comm, memory, dest, tag, stream, direct)


def irecv(comm: MPI.Comm, memory: Memory, source: int = MPI.ANY_SOURCE, tag: int = MPI.ANY_TAG, *,
          stream: Any = None, direct: Optional[bool] = None) -> Request:
    """Begins to receive. If MPI writes the memory in place, blocks until the earlier work on the
    memory has completed; then like Comm.Irecv(). wait() of the request copies the message to the
    memory, in the order of the stream. The elements behind a shorter message do not change."""
    return _begin("irecv", "Irecv", comm, memory, source, tag, stream, direct)


def send(comm: MPI.Comm, memory: Memory, dest: int, tag: int = 0, *, stream: Any = None,
         direct: Optional[bool] = None) -> None:
    """Sends memory, like isend() and wait()."""
    _begin("send", "Isend", comm, memory, dest, tag, stream, direct).wait()


def recv(comm: MPI.Comm, memory: Memory, source: int = MPI.ANY_SOURCE, tag: int = MPI.ANY_TAG,
         status: Optional[MPI.Status] = None, *, stream: Any = None,
         direct: Optional[bool] = None) -> None:
    """Receives into memory, like irecv() and wait()."""
    _begin("recv", "Irecv", comm, memory, source, tag, stream, direct).wait(status)


def sendrecv(comm: MPI.Comm, sent: Memory, dest: int, sendtag: int = 0, received: Memory = None,
             source: int = MPI.ANY_SOURCE, recvtag: int = MPI.ANY_TAG,
             status: Optional[MPI.Status] = None, *, stream: Any = None,
             direct: Optional[bool] = None) -> None:
    """Sends and receives at the same time, like irecv(), send() and wait(). The memory of the two
    messages must not overlap."""
    request = _begin("sendrecv", "Irecv", comm, received, source, recvtag, stream, direct)
    _begin("sendrecv", "Isend", comm, sent, dest, sendtag, stream, direct).wait()
    request.wait(status)


def send_init(comm: MPI.Comm, memory: Memory, dest: int, tag: int = 0, *, stream: Any = None,
              direct: Optional[bool] = None) -> Request:
    """Returns an inactive, persistent request. Each start() sends the elements of that time, like
    isend(), with the same request of MPI and the same page-locked memory."""
    return _begin("send_init", "Send_init", comm, memory, dest, tag, stream, direct)


def recv_init(comm: MPI.Comm, memory: Memory, source: int = MPI.ANY_SOURCE, tag: int = MPI.ANY_TAG,
              *, stream: Any = None, direct: Optional[bool] = None) -> Request:
    """Returns an inactive, persistent request. Each start() receives one message, like irecv()."""
    return _begin("recv_init", "Recv_init", comm, memory, source, tag, stream, direct)


@contextlib.contextmanager
def mapped(memory: Memory, flags: Gpu.MapFlags = Gpu.MapFlags.NONE, *, stream: Any = None,
           direct: Optional[bool] = None) -> Iterator[Any]:
    """A with statement for other functions of mpi4py, such as collectives. It yields the data: a
    NumPy array, or a Gpu.Array in CUDA memory, with the type of the elements. flags are those of
    Buffer.map(). Blocks as isend() does. At its end, submits a copy of the data to the memory, if
    they are a copy. Use the data only inside the statement, and the memory only outside. An
    exception may discard the changes."""
    if not isinstance(flags, Gpu.MapFlags) and (type(flags) is not int or flags != 0):
        raise TypeError(f"gpumem.mpi.mapped(): flags must be Gpu.MapFlags, not {describe(flags)}")
    if int(flags) not in _MAP_FLAGS:
        raise ValueError(f"gpumem.mpi.mapped(): flags cannot be {describe(flags)}; see "
                         "Buffer.map()")
    writes = int(flags) != int(Gpu.MapFlags.READ)
    place = _get_place("mapped", memory, stream, direct, writes)
    data = (place.get_data if flags & Gpu.MapFlags.WRITE_INVALIDATE else place.load)(as_bytes=False)
    with place.current():
        yield data
    if writes:
        place.store(place.size)
