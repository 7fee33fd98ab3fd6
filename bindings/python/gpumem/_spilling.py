# SPDX-License-Identifier: LGPL-2.1-or-later
"""The data of a worker of Dask on the device, the host and the disk: see gpumem.distributed."""
from __future__ import annotations

import collections
import collections.abc
import contextlib
import contextvars
import logging
import math
import threading
import weakref

import gi

gi.require_version("Gpu", "1.0")
from gi.repository import GLib, GObject, Gpu  # noqa: E402

_log = logging.getLogger("distributed.gpumem")
move_lock = threading.RLock()           # held for each move of memory
_open = weakref.WeakValueDictionary()   # each open Data of the process, by id()
_arrived = weakref.WeakValueDictionary()    # arrays and buffers of messages, by id()
_is_sending = contextvars.ContextVar("is_sending", default=False)


def is_spilled(memory):
    return isinstance(memory, Gpu.Buffer) and memory.spilled


def has_open_data():
    """Returns whether any Data of the process spills memory."""
    return len(_open) > 0


def exceeds_limit(pool, size):
    """Returns whether a request fails in any case, however much memory is spilled."""
    return 0 < pool.limit < size


def wrap_get_data(worker, wait_for_writes):
    """Wraps Worker.get_data(), which sends values to the client or to a worker. Once the work on
    the values has completed, reads them for a message: see Data. The worker answers other requests
    meanwhile. Clients and workers of the same process get the objects themselves; such clients can
    use them on the device only."""
    get_data = worker.handlers["get_data"]

    async def send(comm, keys=None, who=None, **kwargs):
        is_inproc = comm.peer_address.startswith("inproc")
        if not is_inproc:
            await wait_for_writes(worker.data.list_leaves(keys or ()))
        is_client = "://" not in str(who)
        token = _is_sending.set(not is_client or not is_inproc)
        try:
            return await get_data(comm, keys=keys, who=who, **kwargs)
        finally:
            _is_sending.reset(token)
    return send


def add_arrived(leaf):
    """Notes an array or a buffer that arrived. Returns it."""
    with move_lock:
        _arrived[id(leaf)] = leaf
    return leaf


def make_room_for_arrivals(size):
    """Spills values of messages that have arrived, but that no Data has yet, until they have had
    size bytes. Returns whether any was spilled. The worker restores them when a task needs them; in
    a process without workers, the program uses them, so they stay."""
    with move_lock:
        return len(_open) > 0 and _spill(list(_arrived.values()), size) > 0


def _is_named_tuple(value):
    """Returns whether a value is a named tuple without attributes of its own, which a subclass may
    have."""
    return (isinstance(value, tuple) and hasattr(value, "_fields") and hasattr(value, "_make")
            and not getattr(value, "__dict__", None))


def _map(function, value):
    """Applies a function to the arrays and buffers in a value of lists, tuples, named tuples and
    dictionaries."""
    if isinstance(value, (Gpu.Array, Gpu.Buffer)):
        return function(value)
    if type(value) in (list, tuple):
        return type(value)(_map(function, item) for item in value)
    if _is_named_tuple(value):
        # A subclass may check or change the items in __new__() and _make()
        return tuple.__new__(type(value), [_map(function, item) for item in value])
    if type(value) is dict:
        return {name: _map(function, item) for name, item in value.items()}
    return value


def _view_array(leaf):
    is_array = isinstance(leaf, Gpu.Array) and leaf.memory is not None
    return leaf.view(leaf.get_dtype()) if is_array else leaf


def _view(leaf):
    """Returns another object over the same memory. While it exists, the memory is in use: it has
    another reference or a slice."""
    return leaf.slice(0, leaf.size) if isinstance(leaf, Gpu.Buffer) else _view_array(leaf)


def _list_buffers(value):
    """Returns {number: (buffer, number of arrays)} for the buffers of a value."""
    buffers = {}

    def add(leaf):
        is_array = isinstance(leaf, Gpu.Array)
        buffer = leaf.memory if is_array else leaf
        if isinstance(buffer, Gpu.Buffer):
            # Gpu.Memory.__hash__() is that of the memory, which slices share
            number = GObject.Object.__hash__(buffer)
            buffers[number] = buffer, buffers.get(number, (buffer, 0))[1] + is_array
    _map(add, value)
    return buffers


def _record_end(buffers):
    """Records where the work of a task on its result ends. Otherwise, a message would also wait for
    the work that later tasks submit to the default stream before the message is written."""
    contexts = {id(buffer.context): buffer.context for buffer, _ in buffers.values()}
    for context in contexts.values():
        with contextlib.suppress(GLib.Error):   # of failed work, which the message reports
            context.default_stream.record().query()


def _try_spill(buffer):
    """Returns the bytes that were spilled: 0 if that is not possible."""
    try:
        buffer.spill()
        return buffer.size
    except GLib.Error as error:
        _log.debug("gpumem: %s", error.message)
        return 0


def _spill(values, size):
    """Spills values until they have had size bytes, or all others are in use. Returns the bytes
    that the spilled values had."""
    done = 0
    for value in values:
        if done >= size:
            break
        for number, (buffer, count) in _list_buffers(value).items():
            # Workers in threads send each other the same buffers
            count = max(count, sum(data._arrays[number] for data in _open.values()))
            # Each array has a reference, and so has Python
            if not buffer.spilled and buffer.__grefcount__ <= count + 1:
                done += _try_spill(buffer)
    return done


class Data(collections.abc.MutableMapping):
    """The data of a worker: a layer of device memory above the mapping that Dask has made for the
    worker, which has a layer of the host and one of the disk.

    If the pool uses more than target bytes, or has no memory for a request, the least recently used
    values are spilled to the host with Gpu.Buffer.spill(). They move to the lower mapping, which
    counts them as memory of the host, and writes them to disk if the worker has too much of it. The
    next read of a key restores the value. The read blocks for the copy, and raises
    Gpu.OutOfMemoryError if the values in use leave too little memory.

    A read for a message restores nothing, because messages are copied from spilled memory in place:
    so a message may be larger than the memory of the device. Such a read returns the object itself,
    which is not in use: it can be spilled while the message is written.

    A value is in use, and not spilled, as long as any part of the program has an array or a slice
    that this mapping returned, or another view or mapping of its memory. array.memory alone does
    not count, and neither does a buffer that a task both returns and keeps: keep an array over it.
    Values are arrays and buffers, also in lists, tuples, named tuples and dictionaries. Slices, and
    buffers that Gpu.Buffer.spill() refuses, stay where they are.

    The worker calls all methods on one thread. Requests of any thread for memory spill values."""

    def __init__(self, lower: collections.abc.MutableMapping):
        self.lower, self.target = lower, 0
        self._pool = self._handler = None
        self._device = {}               # the least recently used value first
        self._below = set()             # keys of `lower` whose values have device memory
        self._arrays = collections.Counter()    # of _device, over each buffer
        self._has_spilled = False       # since the last _make_place()

    def open(self, pool: Gpu.MemoryPool, target: int) -> None:
        """Begins to spill memory of a pool."""
        self.close()
        self._pool, self.target = pool, target
        _open[id(self)] = self
        self._handler = pool.connect("out-of-memory", self._make_room)

    def close(self) -> None:
        """Ends open(). Spilled values are still restored."""
        if self._pool is not None:
            self._pool.disconnect(self._handler)
            del _open[id(self)]
        self._pool = None

    def __getattr__(self, name):
        # fast, evict, spilled_total and the like, for the memory monitor of the worker
        return getattr(self.__dict__["lower"], name)

    def __len__(self):
        return len(self._device) + len(self.lower)

    def __iter__(self):
        return iter([*self._device, *self.lower])

    def __contains__(self, key):
        return key in self._device or key in self.lower

    def __setitem__(self, key, value):
        with move_lock:
            if key in self:
                del self[key]
            buffers = _list_buffers(value)
            if buffers:
                _record_end(buffers)
                self._has_spilled |= any(buffer.spilled for buffer, _ in buffers.values())
                self._insert(key, _map(_view_array, value))
                self._make_place(0)
            else:
                self.lower[key] = value

    def __getitem__(self, key):
        with move_lock:
            if key not in self._device and key not in self._below:
                return self._read_lower(key)
            if _is_sending.get():
                return self._read_for_message(key)
            value = self._take(key)
            try:
                spilled = [buffer for buffer, _ in _list_buffers(value).values() if buffer.spilled]
                self._make_place(sum(buffer.size for buffer in spilled))
                for buffer in spilled:
                    buffer.unspill()
            finally:
                self._insert(key, value)
            return _map(_view, value)

    def list_leaves(self, keys):
        """Returns the arrays and buffers in the values of some keys, without those below. Moves
        nothing."""
        leaves = []
        with move_lock:
            for key in keys:
                _map(leaves.append, self._device.get(key))
        return leaves

    def _read_for_message(self, key):
        if key in self._device:
            return self._device[key]
        value = self._read_lower(key)
        # It may be new, from the disk, or share memory with a value that was restored
        _spill([value], math.inf)
        return value

    def __delitem__(self, key):
        with move_lock:
            if key in self._device:
                self._take(key)
            else:
                del self.lower[key]
                self._below.discard(key)

    def pop(self, key, *default):
        """Removes a key and returns its value, which remains spilled if it is."""
        with move_lock:
            return self._take(key) if key in self or not default else default[0]

    def _insert(self, key, value):
        self._device[key] = value
        for number, (_, count) in _list_buffers(value).items():
            self._arrays[number] += count

    def _read_lower(self, key):
        try:
            return self.lower[key]
        except OSError:
            # The disk is full: the lower mapping has read this value, and could not write another
            return self.lower[key]

    def _take(self, key):
        if key not in self._device:
            value = self._read_lower(key)
            del self.lower[key]
            self._below.discard(key)
            return value
        value = self._device.pop(key)
        for number, (_, count) in _list_buffers(value).items():
            self._arrays[number] -= count
            if self._arrays[number] == 0:
                del self._arrays[number]
        return value

    def _make_place(self, wanted):
        """Spills until this many bytes are free below the target. Moves all spilled values to the
        lower mapping."""
        if self._pool is not None:
            self._spill(self._pool.used_bytes + wanted - self.target)
        keys = self._has_spilled and [
            key for key, value in self._device.items()
            if all(buffer.spilled for buffer, _ in _list_buffers(value).values())]
        self._has_spilled = False
        for key in keys or ():
            value = self._take(key)
            self._below.add(key)
            try:
                self.lower[key] = value
            except Exception:
                # The lower mapping has dropped the value, because it cannot write it to disk
                _log.exception("gpumem: the host keeps %r", key)
                self._below.discard(key)
                self._insert(key, value)

    def _spill(self, size):
        done = _spill(list(self._device.values()), size)
        self._has_spilled = self._has_spilled or done > 0
        return done

    def _make_room(self, pool, requested):
        if exceeds_limit(pool, requested):
            return False
        with move_lock:
            return self._spill(requested) > 0 or make_room_for_arrivals(requested)
