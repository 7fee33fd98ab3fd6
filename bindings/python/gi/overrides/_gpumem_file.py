# SPDX-License-Identifier: LGPL-2.1-or-later
"""Files, and the copies between files and memory."""

import contextlib
import errno
import io
import os
import stat
import threading

from gi.repository import Gio, GLib

from ..module import get_introspection_module
from ._gpumem import is_int, run_behind, run_interruptible, wait_for
from ._gpumem_arrays import to_range
from ._gpumem_async import _or_callback
from ._gpumem_checks import describe, to_items, to_size
from ._gpumem_ndarray import to_dtype

Gpu = get_introspection_module("Gpu")

_MODES = {"r": os.O_RDONLY, "r+": os.O_RDWR, "w": os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
          "w+": os.O_RDWR | os.O_CREAT | os.O_TRUNC}


def _refuse(file):
    return TypeError("file must be a path, a Gpu.File, a Gio.File, a descriptor, or an open file "
                     f"that does not convert its bytes, not {describe(file)}")


def _get_path(file):
    """Returns the path of a file that open() or GIO names."""
    if isinstance(file, Gio.File):
        if file.get_path() is None:
            raise ValueError(f"{file.get_uri()} has no local path")
        return file.get_path()
    try:
        return os.fspath(file)
    except TypeError:
        raise _refuse(file) from None


def _get_fd(file):
    """Returns the descriptor of an open file, whose bytes are those of the descriptor. This is not
    true for gzip.GzipFile and similar classes, also below a file in text mode or a buffer."""
    binary = getattr(file, "buffer", file)
    if isinstance(getattr(binary, "raw", binary), io.BufferedIOBase):
        raise _refuse(file)
    with contextlib.suppress(AttributeError):
        file.flush()                            # the data that Python has buffered
    try:
        return file.fileno()
    except (AttributeError, io.UnsupportedOperation):   # of a file in memory, or in an archive
        raise _refuse(file) from None


def _open_path(path, flags):
    """Returns a descriptor. Raises the errors of open(). Does not wait for the other end of a pipe,
    which Gpu.File() then refuses."""
    try:
        fd = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
    except OSError as error:
        if error.errno == errno.ENXIO:          # a pipe without a reader, or a socket
            Gpu.File.open(Gio.File.new_for_path(os.fspath(path)), Gpu.FileFlags.WRITE)
        raise
    if stat.S_ISDIR(os.fstat(fd).st_mode):
        os.close(fd)
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    return fd


def _open(file, mode, direct=False):
    options = Gpu.FileFlags.DIRECT if direct else Gpu.FileFlags.NONE
    if hasattr(file, "fileno"):
        file = _get_fd(file)
    if is_int(file) and not isinstance(file, bool):
        return Gpu.File.new_for_fd(file, options)
    flags = _MODES.get(mode.replace("b", "") if isinstance(mode, str) else mode)
    if flags is None:
        raise ValueError(f"mode must be 'r', 'r+', 'w' or 'w+', not {mode!r}")
    fd = _open_path(_get_path(file), flags)
    try:
        return Gpu.File.new_for_fd(fd, options)
    finally:
        os.close(fd)


class FileMethods:
    """Gpu.File(file, mode="r", direct=False): an open file, for Memory.read_file() and similar
    methods. The file is a path or a Gio.File, which is opened with the mode "r", "r+", "w" or "w+"
    of open(); or an open file of Python or a descriptor, which keeps its own mode. All modes are
    binary. With direct=True, copies bypass the page cache where that is possible. Raises OSError as
    open() does, such as FileNotFoundError, if the file cannot be opened, and TypeError for files
    that convert their bytes, such as gzip.GzipFile: use their read() and write()."""
    flags = property(lambda self: self.get_property("flags"))
    size = property(lambda self: self.get_size(), doc="The current size of the file, in bytes. "
                    "Raises GLib.Error if the system reports none, as for /dev/zero.")

    def __new__(cls, file, mode="r", direct=False):
        return _open(file, mode, direct)

    def __init__(self, *args, **kwargs):
        pass

    def __repr__(self):
        names = " and ".join(name for name, flag in (("reading", Gpu.FileFlags.READ),
                                                     ("writing", Gpu.FileFlags.WRITE))
                             if self.flags & flag)
        return f"<Gpu.File for {names or 'nothing'}>"


def _to_file(file, mode):
    return file if isinstance(file, Gpu.File) else _open(file, mode)


def _is_seekable(file):
    """Returns whether this is an open file of Python that has a position."""
    return hasattr(file, "fileno") and hasattr(file, "seekable") and file.seekable()


def _to_position(file, position):
    """Returns the position of a copy: by default that of an open file of Python, otherwise 0."""
    if position is not None:
        return to_size(position, "position")
    return file.tell() if _is_seekable(file) else 0


def _advance(file, position, end):
    """Moves an open file of Python behind the bytes of a copy without a given position, unless the
    program has closed the file."""
    if position is None and not getattr(file, "closed", False) and _is_seekable(file):
        file.seek(end)


def _get_range(memory, file, offset, position, size):
    """Returns the numbers of a copy. By default, a read ends with the file or with the memory."""
    offset = to_size(offset, "offset")
    if size is not None:
        return offset, position, to_size(size, "size")
    size = max(memory.get_size() - offset, 0)
    if file is not None:
        size = min(size, max(file.get_size() - position, 0))
    return offset, position, size


def _run(function, *args):
    """Calls a blocking function. Ctrl-C cancels it, and waits until it returns."""
    cancellable = Gio.Cancellable()
    return run_interruptible(lambda: function(*args, cancellable), cancellable.cancel)


def _create(path):
    """Returns a descriptor for writing, and the path of the file if it is new, or None."""
    flags = os.O_WRONLY | os.O_CREAT
    with contextlib.suppress(FileExistsError):
        return _open_path(path, flags | os.O_EXCL), path
    if not os.path.exists(path):                # a symbolic link to a missing file
        target = os.path.realpath(path)
        with contextlib.suppress(OSError):      # open() names the link in its error
            return _open_path(target, flags | os.O_EXCL), target
    return _open_path(path, flags), None


def _remove_empty(path, fd):
    """Removes the open file if it has no bytes, and path still names it."""
    status = os.fstat(fd)
    with contextlib.suppress(OSError):
        if status.st_size == 0 and os.path.samestat(status, os.lstat(path)):
            os.unlink(path)


@contextlib.contextmanager
def _creating(file):
    """Yields a Gpu.File for writing, and the descriptor of a file that a path or a Gio.File names,
    or None. Does not truncate the file, because arguments may be invalid. If the call fails,
    removes a new file without bytes."""
    if not isinstance(file, (str, bytes, os.PathLike, Gio.File)):
        yield _to_file(file, "w"), None
        return
    fd, new = _create(_get_path(file))
    try:
        yield Gpu.File.new_for_fd(fd, Gpu.FileFlags.NONE), fd
    except BaseException:
        if new is not None:
            _remove_empty(new, fd)
        raise
    finally:
        os.close(fd)


def _cut(fd, end, extends=False):
    """Removes the bytes behind end, and with extends=True appends zeros up to end. Devices have no
    end."""
    status = os.fstat(fd)
    if stat.S_ISREG(status.st_mode) and (status.st_size > end or extends):
        os.ftruncate(fd, end)


@contextlib.contextmanager
def _replacing(file, end):
    """Yields a Gpu.File for writing. A path or a Gio.File names a file that has end bytes
    afterwards, also if no bytes were written."""
    with _creating(file) as (opened, fd):
        yield opened
        if fd is not None:
            _cut(fd, end, True)


def _with_items(function, name):
    """Returns the C function of an asynchronous copy of a file, which takes no progress_data or a
    tuple."""
    def call(self, stream, offset, file, position, size, cancellable=None, progress_callback=None,
             progress_data=None, callback=None, *user_data):
        items = to_items(progress_callback, progress_data)
        return function(self, stream, offset, file, position, size, cancellable, progress_callback,
                        items, callback, *user_data)
    call.__qualname__ = f"Memory.{name}"        # in errors of arguments
    return call


class MemoryFileMethods:
    """Methods of Gpu.Memory that copy between the memory and a file. A file is a Gpu.File, or
    anything that Gpu.File() accepts."""

    def read_file(self, file, offset=0, position=None, size=None, stream=None) -> int:
        """Copies size bytes from a position of a file to the memory, from offset on, and waits.
        Without a position, begins at the position of an open file of Python, and moves it behind
        the bytes; any other file begins at 0. Without a size, copies to the end of the file or of
        the memory. Returns the number of bytes. Ctrl-C ends the copy. Raises OSError as open() does
        if the file cannot be opened. If the copy fails, raises GLib.Error of the domain
        Gio.io_error_quark(), with the path and the position in the message. For a file whose size
        the system does not report, such as /dev/zero and files of /proc, a call without a size
        raises that error, too."""
        opened = _to_file(file, "r")
        begin = _to_position(file, position)
        offset, begin, size = _get_range(self, opened, offset, begin, size)
        _run(Gpu.Memory.read_file, self, stream, offset, opened, begin, size)
        _advance(file, position, begin + size)
        return size

    def write_file(self, file, offset=0, position=None, size=None, stream=None) -> int:
        """Copies size bytes of the memory, from offset on, by default all, to a position of a file,
        and waits. Without a position, begins as read_file() does. Returns the number of bytes.
        Errors are as in read_file(). A path or a Gio.File names a file that is created or replaced:
        it keeps the bytes before the position, and ends behind the copied bytes. Pass
        Gpu.File(path, "r+") to keep the bytes behind them as well. If the arguments are invalid,
        the call neither changes nor creates the file."""
        begin = _to_position(file, position)
        offset, begin, size = _get_range(self, None, offset, begin, size)
        with _replacing(file, begin + size) as opened:
            _run(Gpu.Memory.write_file, self, stream, offset, opened, begin, size)
        _advance(file, position, begin + size)
        return size

    @_or_callback("Memory", "read_file_async", _with_items)
    async def read_file_async(self, file, offset=0, position=None, size=None, stream=None, *,
                              progress=None) -> int:
        """read_file() for asyncio. Use the memory only after the copy has completed. A cancelled
        await ends the copy, and raises CancelledError once nothing uses the file. Without a
        position, moves the position of an open file of Python after the copy: await the copy before
        another one of the same file. progress(current, total) is called as by
        Buffer.read_async()."""
        opened = _to_file(file, "r")
        try:
            begin = _to_position(file, position)
            offset, begin, size = _get_range(self, opened, offset, begin, size)
            await wait_for(
                lambda cancellable, callback, report=None: Gpu.Memory.read_file_async(
                    self, stream, offset, opened, begin, size, cancellable, report, (), callback),
                self.read_file_finish, progress, awaits_end=True)
            _advance(file, position, begin + size)
            return size
        finally:
            del file, opened                    # an exception keeps this frame

    @_or_callback("Memory", "write_file_async", _with_items)
    async def write_file_async(self, file, offset=0, position=None, size=None, stream=None, *,
                               progress=None) -> int:
        """write_file() for asyncio. Change the memory only after the copy has completed. A
        cancelled await ends the copy, and the position is moved, as in read_file_async()."""
        try:
            begin = _to_position(file, position)
            offset, begin, size = _get_range(self, None, offset, begin, size)
            with _replacing(file, begin + size) as opened:
                try:
                    await wait_for(
                        lambda cancellable, callback, report=None: Gpu.Memory.write_file_async(
                            self, stream, offset, opened, begin, size, cancellable, report, (),
                            callback),
                        self.write_file_finish, progress, awaits_end=True)
                finally:
                    del opened                  # an exception keeps this frame
            _advance(file, position, begin + size)
            return size
        finally:
            del file

    @_or_callback("Memory", "splice_async")
    async def splice_async(self, connections, send, offset=0, size=None, stream=None) -> int:
        """Sends size bytes of the memory, from offset on, through several connections, or receives
        them, and returns their number. A connection is a Gio.IOStream, such as a
        Gio.TlsConnection, or a connected socket of Python without TLS. Each connection transfers
        one contiguous part of size / len(connections) bytes, rounded up; the last parts may be
        shorter. Before the end, do not use the memory, and use a connection only for a transfer in
        the other direction. After an error, close the connections. A cancelled await ends the
        transfer, and raises CancelledError once nothing uses the memory and the connections. A
        blocking socket is non-blocking during its transfers only."""
        try:
            connections = list(connections)
        except TypeError:
            raise TypeError("connections must be a list of connections, not "
                            f"{describe(connections)}") from None
        for connection in connections:
            _check_connection(connection)
        opened = []
        try:
            opened.extend(map(_to_connection, connections))
            offset, _, size = _get_range(self, None, offset, 0, size)
            await wait_for(
                lambda cancellable, callback: Gpu.Memory.splice_async(
                    self, stream, offset, size, send, opened, cancellable, callback),
                self.splice_finish, awaits_end=True)
        finally:
            for connection, used in zip(connections, opened):
                _end_transfer(connection, used)
            connections = opened = connection = used = None     # an exception keeps this frame
        return size


def _check_connection(connection):
    if isinstance(connection, Gio.IOStream):
        return
    # The descriptor of a TLS socket would send the bytes without encryption.
    if not hasattr(connection, "fileno") or hasattr(connection, "do_handshake") \
            or not stat.S_ISSOCK(os.fstat(connection.fileno()).st_mode):
        raise TypeError("a connection must be a Gio.IOStream or a socket without TLS, not "
                        f"{describe(connection)}")


# For each socket of Python that has transfers, by its inode: the number of transfers, and whether
# the socket was blocking. Gio.Socket makes a socket non-blocking, also for its duplicates. A
# transfer through a socket that is blocking again could not be cancelled.
_transfers = {}
_transfers_lock = threading.Lock()


def _to_connection(connection):
    """Duplicates the descriptor of a socket of Python, which keeps its own, for a transfer."""
    if isinstance(connection, Gio.IOStream):
        return connection
    with _transfers_lock:
        blocking = os.get_blocking(connection.fileno())
        # If this fails, GLib closes the descriptor.
        socket = Gio.Socket.new_from_fd(os.dup(connection.fileno()))
        inode = os.fstat(socket.get_fd()).st_ino
        number, was_blocking = _transfers.get(inode, (0, False))
        _transfers[inode] = number + 1, was_blocking or blocking
    return socket.connection_factory_create_connection()


def _end_transfer(connection, used):
    """Makes a socket of Python blocking again after its last transfer. Uses the duplicate, because
    the program may have closed its own descriptor."""
    if used is connection:
        return
    fd = used.get_socket().get_fd()
    inode = os.fstat(fd).st_ino
    with _transfers_lock:
        number, blocking = _transfers.pop(inode)
        if number > 1:
            _transfers[inode] = number - 1, blocking
        elif blocking:
            os.set_blocking(fd, True)


class _IOStreamMethods:
    _uses = None                                # the memory and the stream, if Python knows them
    _size = None

    def __repr__(self):
        state = "closed at" if self.is_closed() else "at"
        text = f"<Gpu.{type(self).__name__} {state} byte {self.tell()}"
        if self._uses is not None:
            text += f" of {self._size}, in {self._uses[0]!r}"
        return text + ">"

    def _run(self, function, *args, cancellable, uses=None):
        """Calls a function of Gio, which may wait for the work of uses, or of unknown objects.
        Ctrl-C cancels it, and waits until it returns, so that the next call does not find the
        stream in use."""
        cancellable = cancellable or Gio.Cancellable()

        def call():
            return function(self, *args, cancellable)
        if uses is None:
            return run_interruptible(call, cancellable.cancel)
        return run_behind(call, *uses, cancel=cancellable.cancel)


class InputStreamMethods(_IOStreamMethods):
    """Gpu.InputStream(memory, offset=0, size=None, stream=None): a Gio.InputStream that reads a
    range of memory, by default to its end, for sockets, converters and files of Gio. The stream
    reads ahead: after a change of the memory, call seek(), also with the current position. Ctrl-C
    ends the wait for pending work, and cancels the cancellable of the call."""

    def __new__(cls, memory, offset=0, size=None, stream=None):
        memory, offset, size = to_range(memory, offset, size)
        result = Gpu.InputStream.new(memory, stream, offset, size)
        result._uses, result._size = (memory, stream), size
        return result

    def __init__(self, *args, **kwargs):
        pass

    def read_bytes(self, count, cancellable=None) -> GLib.Bytes:
        """Returns up to count bytes from the position on as a GLib.Bytes, and waits."""
        return self._run(Gio.InputStream.read_bytes, count, cancellable=cancellable,
                         uses=self._uses)


class OutputStreamMethods(_IOStreamMethods):
    """Gpu.OutputStream(memory, offset=0, size=None, stream=None): a Gio.OutputStream that writes a
    range of memory. The memory has all bytes after flush() or close(). A stream that is dropped
    without close() submits the last bytes, but does not wait for them, and reports no error. Ctrl-C
    ends the wait for pending work, and cancels the cancellable of the call. The memory still gets
    the bytes up to the position of the stream."""

    def __new__(cls, memory, offset=0, size=None, stream=None):
        memory, offset, size = to_range(memory, offset, size)
        result = Gpu.OutputStream.new(memory, stream, offset, size)
        result._uses, result._size = (memory, stream), size
        return result

    def __init__(self, *args, **kwargs):
        pass

    def write(self, buffer, cancellable=None) -> int:
        """Writes the first bytes of the buffer, and returns their number. May wait."""
        return self._run(Gio.OutputStream.write, buffer, cancellable=cancellable,
                         uses=self._uses)

    def write_bytes(self, bytes, cancellable=None) -> int:
        """Writes the first bytes of a GLib.Bytes, and returns their number. May wait."""
        return self._run(Gio.OutputStream.write_bytes, bytes, cancellable=cancellable,
                         uses=self._uses)

    def write_all(self, buffer, cancellable=None):
        """Writes all bytes of the buffer. Returns whether it did, and their number. May wait."""
        return self._run(Gio.OutputStream.write_all, buffer, cancellable=cancellable,
                         uses=self._uses)

    def splice(self, source, flags, cancellable=None) -> int:
        """Writes all bytes of a Gio.InputStream, and returns their number. Waits for the source."""
        return self._run(Gio.OutputStream.splice, source, flags, cancellable=cancellable)

    def flush(self, cancellable=None) -> bool:
        """Waits until the memory has all bytes."""
        return self._run(Gio.OutputStream.flush, cancellable=cancellable, uses=self._uses)

    def close(self, cancellable=None) -> bool:
        """Closes the stream, and waits until the memory has all bytes."""
        return self._run(Gio.OutputStream.close, cancellable=cancellable, uses=self._uses)


def _get_count(file, position, item_size):
    rest = max(file.get_size() - position, 0)
    if rest % item_size != 0:
        raise ValueError(f"the {rest} bytes of the file from byte {position} on are not a multiple "
                         f"of the {item_size} bytes of an element: pass a shape")
    return rest // item_size


class StreamFileMethods:
    """Methods of Gpu.Stream that copy between memory and a file in the order of the stream."""

    def read_file(self, destination, file, offset=0, position=None, size=None,
                  cancellable=None) -> int:
        """Copies size bytes from a position of a file to memory, from offset on, in the order of
        the stream, and returns their number at once. Without a position, begins at the position of
        an open file of Python, and moves it behind the bytes at once. Without a size, copies to the
        end of the memory, or to the end that the file has now. If the file fails, the copy fails,
        and with it the later work of the stream: wait for the stream or for an event to get the
        error."""
        destination, offset, rest = to_range(destination, offset, None, self, "destination")
        opened = _to_file(file, "r")
        if destination is None:
            return 0
        begin = _to_position(file, position)
        size = (min(rest, max(opened.get_size() - begin, 0)) if size is None
                else to_size(size, "size"))
        Gpu.Stream.read_file(self, destination, offset, opened, begin, size, cancellable)
        _advance(file, position, begin + size)
        return size

    def write_file(self, source, file, offset=0, position=None, size=None, cancellable=None) -> int:
        """Copies size bytes of memory, from offset on, by default all, to a position of a file, in
        the order of the stream, and returns their number at once. Positions and errors are as in
        read_file(). A path or a Gio.File names a file that is created or replaced, as by
        Memory.write_file(). If the file is longer than its new contents, the call itself cuts it:
        earlier work of the stream must not read or write the rest."""
        source, offset, size = to_range(source, offset, size, self, "source")
        begin = _to_position(file, position)
        if source is None:
            size = 0
        with _creating(file) as (opened, fd):
            if source is not None:
                Gpu.Stream.write_file(self, source, offset, opened, begin, size, cancellable)
            if fd is not None:
                _cut(fd, begin + size, size == 0)
        _advance(file, position, begin + size)
        return size


class ArrayFileMethods:
    """Methods of Gpu.Array that copy between an array and a file."""

    @classmethod
    def from_file(cls, context, file, dtype, shape=None, position=None, stream=None,
                  allocator=None) -> "Array":
        """Creates an array with the elements that a file contains from a position on, in C order,
        as numpy.fromfile() does for the host. Without a position, begins at the position of an open
        file of Python, and moves it behind the elements; any other file begins at 0. Without a
        shape, the array has one dimension and all elements to the end of the file, whose size the
        system must report. Waits."""
        opened = _to_file(file, "r")
        begin = _to_position(file, position)
        if shape is None:
            shape = _get_count(opened, begin, to_dtype(dtype).get_item_size())
        array = cls.empty(context, shape, dtype, allocator=allocator, stream=stream)
        if array.get_size() > 0:
            array.get_memory().read_file(opened, array.get_offset(), begin, array.get_size(),
                                         stream)
        _advance(file, position, begin + array.get_size())
        return array

    def to_file(self, file, position=None, stream=None):
        """Writes the elements in C order to a file, as numpy.ndarray.tofile() does, and waits.
        Without a position, begins at the position of an open file of Python, and moves it behind
        the elements; any other file begins at 0. A path or a Gio.File names a file that is created
        or replaced, as by Memory.write_file()."""
        begin = _to_position(file, position)
        array = self
        if not self.is_contiguous(Gpu.ArrayOrder.C):
            array = self.copy(order="C", stream=stream)
        if array.get_size() > 0:
            array.get_memory().write_file(file, array.get_offset(), position, array.get_size(),
                                          stream)
        else:
            with _replacing(file, begin):
                pass


