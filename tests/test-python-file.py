# SPDX-License-Identifier: LGPL-2.1-or-later
"""Files from Python: every kind of file, memory and call gives the bytes that Python itself reads
from the file, and errors name the argument or the position in the file."""

import asyncio
import bz2
import contextlib
import functools
import gc
import gzip
import io
import lzma
import os
import pathlib
import socket
import sys
import tarfile
import tempfile
import threading
import time

try:
    import ssl
except ImportError:
    ssl = None

from python_util import (DEADLINE, NoGate, Skip, equal, main, need_numpy, np, raises,
                         run_threads)
from gi.overrides._gpumem import submit_later
from gi.repository import Gio, GLib, GObject, Gpu

SIZE = 300_007
GZIP = Gio.ZlibCompressorFormat.GZIP


@contextlib.contextmanager
def folder():
    with tempfile.TemporaryDirectory() as name:
        yield pathlib.Path(name)


@contextlib.contextmanager
def random_file(size=SIZE):
    """Yields the path of a file and its bytes."""
    with folder() as path:
        data = os.urandom(size)
        (path / "data").write_bytes(data)
        yield path / "data", data


@contextlib.contextmanager
def io_error(code, *words):
    try:
        yield
    except GLib.Error as error:
        assert error.matches(Gio.io_error_quark(), code), error
        for word in words:
            assert word in str(error), error.message
        assert "g-io-error" not in str(error), error
    else:
        raise AssertionError(f"no error {code}")


def test_kinds_of_files(fixture):
    buffer = Gpu.Buffer(fixture.context, SIZE)
    with random_file() as (path, data), open(path, "rb") as file:
        for one in (path, str(path), os.fsencode(path), Gio.File.new_for_path(str(path)), file,
                    file.fileno(), Gpu.File(path), Gpu.File(path, "rb"),
                    Gpu.File(path, direct=True)):
            buffer.fill(0)
            equal(buffer.read_file(one), SIZE)
            equal(buffer.read(), data)
        equal(file.tell(), SIZE)


def test_ranges(fixture):
    buffer = Gpu.Buffer(fixture.context, 1000)
    with random_file(600) as (path, data):
        equal(buffer.read_file(path, offset=3, position=100), 500)
        equal(buffer.read(3, 500), data[100:])
        equal(buffer.read_file(path, offset=990), 10)
        equal(buffer.read(990), data[:10])
        equal(buffer.read_file(path, 5, 7, 11), 11)
        equal(buffer.read(5, 11), data[7:18])
        equal(buffer.read_file(path, position=600), 0)
        equal(buffer.read_file(path, position=700), 0)
        with io_error(Gio.IOErrorEnum.PARTIAL_INPUT, str(path),
                      "ends at byte 600, before the end of the copy at byte 1000"):
            buffer.read_file(path, position=50, size=950)
        with raises(Gpu.Error.INVALID_ARGUMENT, "Memory.read_file", "1001"):
            buffer.read_file(path, size=1001)
        with raises(TypeError, "position"):
            buffer.read_file(path, position=1.5)
        with raises(OverflowError, "offset", "-1"):
            buffer.read_file(path, offset=-1)


def test_position_of_open_file(fixture):
    """A copy without a position begins at that of an open file, and moves it, as NumPy does. A copy
    with a position leaves it. A Gpu.File and a descriptor have none."""
    buffer, stream = fixture.buffer(b"12345"), fixture.context.default_stream
    writes = (lambda file: buffer.write_file(file, size=3),
              lambda file: stream.write_file(buffer, file, size=3),
              lambda file: asyncio.run(buffer.write_file_async(file, size=3)))
    target = fixture.buffer(20)

    async def read_both(file):
        await target.read_file_async(file, size=4)
        await target.read_file_async(file, 4, size=2)

    with folder() as path:
        for mode in ("wb", "w+b"):
            for write in writes:
                with open(path / "data", mode) as file:
                    file.write(b"head")
                    write(file)
                    file.write(b"-")
                    write(file)
                    buffer.write_file(file, position=1, size=1)
                    equal(file.tell(), 11)
                    file.write(b"end")
                    stream.synchronize()
                equal((path / "data").read_bytes(), b"h1ad123-123end")
        for mode, buffering in (("rb", -1), ("rb", 0), ("r+b", -1)):
            with open(path / "data", mode, buffering) as file:
                equal(file.read(2), b"h1")
                equal(target.read_file(file, size=2), 2)
                equal(stream.read_file(target, file, 2, size=3), 3)
                equal((target.read(0, 5), file.tell(), file.read(1)), (b"ad123", 7, b"-"))
                asyncio.run(read_both(file))
                equal((target.read(0, 6), file.tell()), (b"123end", 14))
                file.seek(3)
                equal((target.read_file(file), file.tell()), (11, 14))
                equal(target.read(0, 11), b"d123-123end")
                file.seek(3)
                equal((target.read_file(file.fileno()), file.tell()), (14, 3))
                equal((target.read_file(Gpu.File(file)), file.tell()), (14, 3))


def test_position_after_errors(fixture):
    """A copy that fails, or that the library refuses, does not move the position of the file. The
    file may be closed during the copy."""
    buffer, stream = fixture.buffer(10), fixture.context.default_stream

    async def read_and_close(file):
        copy = asyncio.ensure_future(buffer.read_file_async(file))
        await asyncio.sleep(0)
        file.close()
        return await copy

    with tempfile.TemporaryFile() as file:
        file.write(bytes(100))
        file.seek(7)
        for call in (buffer.read_file, buffer.write_file,
                     functools.partial(stream.read_file, buffer),
                     functools.partial(stream.write_file, buffer),
                     lambda *args, **kwargs: asyncio.run(buffer.read_file_async(*args, **kwargs)),
                     lambda *args, **kwargs: asyncio.run(buffer.write_file_async(*args, **kwargs))):
            with raises(Gpu.Error.INVALID_ARGUMENT, "50"):
                call(file, size=50)
            with raises(TypeError, "stream"):
                call(file, size=1, stream=3)
            equal(file.tell(), 7)
        file.seek(95)
        for call in (buffer.read_file,
                     lambda *args, **kwargs: asyncio.run(buffer.read_file_async(*args, **kwargs))):
            with raises(GLib.Error, "100"):
                call(file, size=10)
            equal(file.tell(), 95)
        equal(asyncio.run(read_and_close(file)), 5)


def test_position_of_arrays(fixture):
    need_numpy()
    numbers = np.arange(12, dtype="int32").reshape(3, 4)
    array = Gpu.Array.from_numpy(fixture.context, numbers)
    views = ((array, numbers), (array.T, numbers.T), (array[:0], numbers[:0]),
             (array[1:, ::2], numbers[1:, ::2]))
    with folder() as path:
        with open(path / "ours", "wb") as ours, open(path / "theirs", "wb") as theirs:
            for file in (ours, theirs):
                file.write(b"head")
            for view, expected in views:
                view.to_file(ours)
                expected.tofile(theirs)
                equal(ours.tell(), theirs.tell())
        equal((path / "ours").read_bytes(), (path / "theirs").read_bytes())
        with open(path / "ours", "rb") as file:
            file.read(4)
            for _, expected in views:
                read = Gpu.Array.from_file(fixture.context, file, "int32", expected.shape)
                equal(read.to_numpy().tolist(), expected.tolist())
            file.seek(100)
            equal(Gpu.Array.from_file(fixture.context, file, "int32").tolist(), [4, 6, 8, 10])
            equal(Gpu.Array.from_file(fixture.context, file, "int32", 2, 4).tolist(), [0, 1])
            equal(file.tell(), 116)


def test_write(fixture):
    data = os.urandom(SIZE)
    buffer = Gpu.Buffer(fixture.context, data)
    with folder() as path:
        equal(buffer.write_file(path / "new"), SIZE)
        equal((path / "new").read_bytes(), data)
        equal(buffer.write_file(path / "new", offset=10, size=20), 20)
        equal((path / "new").read_bytes(), data[10:30])
        buffer.write_file(Gpu.File(path / "new", "r+"), 0, 15, 3)
        equal((path / "new").read_bytes(), data[10:25] + data[:3] + data[28:30])
        for kind, words in ((OverflowError, {"offset": -1}), (ValueError, {"offset": SIZE + 1}),
                            (ValueError, {"size": SIZE + 1}), (TypeError, {"position": 1.5})):
            with raises(kind):
                buffer.write_file(path / "new", **words)
            equal((path / "new").read_bytes(), data[10:25] + data[:3] + data[28:30])
        with open(path / "text", "wb") as file:
            file.write(b"head")
            buffer.write_file(file, position=4, size=5)
        equal((path / "text").read_bytes(), b"head" + data[:5])


def list_writes(buffer):
    """Returns the functions that create or replace a file."""
    stream, array = buffer.context.default_stream, Gpu.Array(buffer.context, 2, "u1")
    stream.copy(array.memory, buffer)

    def write_in_order(*args, **kwargs):
        stream.write_file(buffer, *args, **kwargs)
        stream.synchronize()

    return (buffer.write_file, write_in_order,
            lambda *args, **kwargs: asyncio.run(buffer.write_file_async(*args, **kwargs)),
            array.to_file)


def test_replaced(fixture):
    """A path and a Gio.File name a file that keeps the bytes before the position and ends behind
    the copied bytes. An invalid call neither changes nor creates it."""
    buffer = Gpu.Buffer(fixture.context, bytes([1, 2]))
    with folder() as path:
        old, new = path / "old", path / "new"
        for kind in (str, os.fsencode, pathlib.Path, lambda name: Gio.File.new_for_path(str(name))):
            for write in list_writes(buffer):
                old.write_bytes(b"12345678")
                write(kind(old), position=3)
                equal(old.read_bytes(), b"123\1\2")
                write(kind(new), position=1)
                equal(new.read_bytes(), b"\0\1\2")
                new.unlink()
                old.write_bytes(b"12345678")
                for name in (old, new):
                    with raises(TypeError, "stream"):
                        write(kind(name), stream=3)
                    with raises(OverflowError, "position"):
                        write(kind(name), position=-1)
                equal((old.read_bytes(), new.exists()), (b"12345678", False))
            for write in list_writes(buffer)[:3]:
                for name in (old, new):
                    with raises(Gpu.Error.INVALID_ARGUMENT, "3"):
                        write(kind(name), offset=3)
                equal((old.read_bytes(), new.exists()), (b"12345678", False))


def test_link_to_missing_file(fixture):
    """An invalid call does not create the file behind a symbolic link, and keeps the link."""
    buffer = Gpu.Buffer(fixture.context, bytes([1, 2]))
    with folder() as path:
        (path / "inner").mkdir()
        link, new = path / "link", path / "inner" / "new"
        link.symlink_to("inner/new")
        for write in list_writes(buffer)[:3]:
            for kind in (str, os.fsencode, pathlib.Path):
                with raises(Gpu.Error.INVALID_ARGUMENT, "3"):
                    write(kind(link), offset=3)
                equal((link.is_symlink(), new.exists()), (True, False))
                write(kind(link))
                equal((link.is_symlink(), new.read_bytes()), (True, b"\1\2"))
                new.unlink()
            (path / "dead").symlink_to("none/new")
            (path / "loop").symlink_to("loop")
            for name, kind in (("dead", FileNotFoundError), ("loop", OSError)):
                with raises(kind, str(path / name)):
                    write(path / name)
                (path / name).unlink()


def test_stream(fixture):
    stream = fixture.context.default_stream
    buffer = Gpu.Buffer(fixture.context, SIZE)
    with random_file() as (path, data):
        equal(stream.read_file(buffer, path), SIZE)
        equal(stream.write_file(buffer, path.parent / "new"), SIZE)
        buffer.fill(0)                          # behind the copies
        equal((path.parent / "new").read_bytes(), data)
        equal(stream.read_file(buffer, Gpu.File(path), offset=3, position=100, size=7), 7)
        equal(buffer.read(3, 7), data[100:107])
        equal(stream.write_file(buffer, path.parent / "new", offset=3, size=7), 7)
        stream.synchronize()
        equal((path.parent / "new").read_bytes(), data[100:107])
        equal(stream.write_file(buffer, "/dev/null"), SIZE)
        equal(buffer.write_file("/dev/null"), SIZE)
        equal(stream.read_file(buffer, path, position=SIZE), 0)
        stream.read_file(buffer, path, size=SIZE, position=1)
        with io_error(Gio.IOErrorEnum.PARTIAL_INPUT, str(path), f"ends at byte {SIZE}, before "
                      f"the end of the copy at byte {SIZE + 1}"):
            stream.synchronize()
        cancellable = Gio.Cancellable()
        cancellable.cancel()
        with io_error(Gio.IOErrorEnum.CANCELLED):
            stream.read_file(buffer, path, cancellable=cancellable)
        with raises(OverflowError, "position", "-1"):
            stream.write_file(buffer, path, position=-1)
        with raises(TypeError, "a path", "1.5"):
            stream.read_file(buffer, 1.5)
        equal(path.read_bytes(), data)


@contextlib.contextmanager
def as_user():
    """Root may open every file, so the block runs as another user. glibc changes the user of all
    threads."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


def list_denied(path):
    """Returns the cases of files that the user must not open because of their own mode: the user
    may open another file of the folder."""
    path.chmod(0o711)                           # that of a temporary folder is 0700
    (path / "open").write_bytes(b"1234567890")
    (path / "open").chmod(0o666)
    try:
        with as_user(), open(path / "open", "r+b"):
            return [("locked", PermissionError)]
    except OSError as error:                    # no other user, or TMPDIR is another user's
        print(f"# files that cannot be opened are not tested: {error}")
        return []


def check_open_errors(buffer, path):
    """The class and the file name are those of open()."""
    (path / "locked").write_bytes(b"1234567890")
    (path / "locked").chmod(0)
    array = Gpu.Array(buffer.context, 10, "uint8")
    stream = buffer.context.default_stream
    denied = list_denied(path)
    for name, kind in (("missing", FileNotFoundError), ("", IsADirectoryError), *denied):
        for file in (path / name, str(path / name), Gio.File.new_for_path(str(path / name))):
            for read in (buffer.read_file, Gpu.File, lambda one: stream.read_file(buffer, one),
                         lambda one: Gpu.Array.from_file(buffer.context, one, "uint8"),
                         lambda one: asyncio.run(buffer.read_file_async(one))):
                with as_user() if kind is PermissionError else contextlib.nullcontext(), \
                        raises(kind, str(path / name)):
                    read(file)
    for name, kind in (("missing/new", FileNotFoundError), ("", IsADirectoryError), *denied):
        for write in (buffer.write_file, lambda one: Gpu.File(one, "w"), array.to_file,
                      lambda one: stream.write_file(buffer, one),
                      lambda one: asyncio.run(buffer.write_file_async(one))):
            with as_user() if kind is PermissionError else contextlib.nullcontext(), \
                    raises(kind, str(path / name)):
                write(path / name)
    with raises(ValueError, "no local path"):
        Gpu.File(Gio.File.new_for_uri("http://localhost/data"))


def test_no_size(fixture):
    """The system reports no size for these files. A copy without a size fails, and does not take
    them for empty files; with a size it reads them."""
    buffer = Gpu.Buffer(fixture.context, 1000)
    stream = fixture.context.default_stream
    for path in ("/dev/zero", "/proc/version"):
        for call in (buffer.read_file, lambda one: stream.read_file(buffer, one),
                     lambda one: asyncio.run(buffer.read_file_async(one)),
                     lambda one: Gpu.Array.from_file(fixture.context, one, "u1")):
            for file in (path, Gpu.File(path)):
                with io_error(Gio.IOErrorEnum.NOT_SUPPORTED, path, "pass the number of bytes"):
                    call(file)
        with io_error(Gio.IOErrorEnum.NOT_SUPPORTED, path):
            Gpu.File(path).size
    buffer.fill(7)
    equal(buffer.read_file("/dev/zero", size=600), 600)
    equal(buffer.read(), bytes(600) + bytes([7]) * 400)
    equal(Gpu.Array.from_file(fixture.context, "/dev/zero", "u2", 3).tolist(), [0, 0, 0])
    equal(buffer.read_file("/proc/version", size=5), 5)
    equal(buffer.read(0, 5), b"Linux")
    equal((buffer.read_file("/dev/null"), Gpu.File("/dev/null").size), (0, 0))
    with folder() as path:
        (path / "empty").touch()
        equal((buffer.read_file(path / "empty"), Gpu.File(path / "empty", "r+").size), (0, 0))
        equal(Gpu.Array.from_file(fixture.context, path / "empty", "i4").shape, (0,))


def test_paths_in_errors(fixture):
    """Errors of a copy name the path, also of files that the program or Python has opened."""
    buffer = Gpu.Buffer(fixture.context, 10)
    stream = fixture.context.default_stream
    with io_error(Gio.IOErrorEnum.NO_SPACE, "/dev/full", "byte 0"):
        buffer.write_file("/dev/full")
    with io_error(Gio.IOErrorEnum.NO_SPACE, "/dev/full"):
        stream.write_file(buffer, "/dev/full")
        stream.synchronize()
    with folder() as path:
        (path / "data").write_bytes(b"1234")
        with open(path / "data", "rb") as file:
            for one in (path / "data", file, file.fileno()):
                with io_error(Gio.IOErrorEnum.PARTIAL_INPUT, str(path / "data"), "byte 4"):
                    buffer.read_file(one, size=10)
        read, write = os.pipe()
        os.mkfifo(path / "pipe")
        for one in (read, path / "pipe"):
            with raises(Gpu.Error.INVALID_ARGUMENT, "to read from a pipe",
                        "a Gpu.OutputStream over the memory"):
                buffer.read_file(one)
        for one in (path / "pipe", os.fsencode(path / "pipe"),
                    Gio.File.new_for_path(str(path / "pipe"))):
            for call in (buffer.write_file, lambda one: stream.write_file(buffer, one),
                         lambda one: Gpu.File(one, "w")):
                with raises(Gpu.Error.INVALID_ARGUMENT, "to write to it, a Gpu.InputStream",
                            str(path / "pipe")):
                    call(one)
        os.close(read)
        os.close(write)


def test_write_nothing(fixture):
    """A file that a path names ends behind the last byte, also if no byte is written."""
    buffer = Gpu.Buffer(fixture.context, 10)
    stream = fixture.context.default_stream
    empty = Gpu.Array(fixture.context, 0, "uint8")
    for write in (lambda one: buffer.write_file(one, size=0, position=5),
                  lambda one: stream.write_file(buffer, one, size=0, position=5),
                  lambda one: asyncio.run(buffer.write_file_async(one, size=0, position=5)),
                  lambda one: empty.to_file(one, 5)):
        for before, after in ((b"", bytes(5)), (b"12", b"12" + bytes(3)), (b"1234567", b"12345")):
            with folder() as path:
                (path / "data").write_bytes(before)
                write(path / "data")
                equal((path / "data").read_bytes(), after)


def check_wrong_files(buffer):
    """The error names the argument, its value and the types that are accepted."""
    array = Gpu.Array(buffer.context, 10, "uint8")
    stream = buffer.context.default_stream
    for file in (None, 1.5, True, [], io.BytesIO(b"1234567890"), buffer):
        for call in (buffer.read_file, buffer.write_file, Gpu.File, array.to_file,
                     lambda one: stream.read_file(buffer, one),
                     lambda one: stream.write_file(buffer, one),
                     lambda one: Gpu.Array.from_file(buffer.context, one, "uint8"),
                     lambda one: asyncio.run(buffer.read_file_async(one)),
                     lambda one: asyncio.run(buffer.write_file_async(one))):
            value = "Gpu.Buffer" if file is buffer else repr(file)[:10]
            with raises(TypeError, "file must be a path", "bytes, not", value):
                call(file)
    for call in (buffer.read_file, buffer.write_file):
        for word in ("stream", "offset", "position", "size"):
            with raises(TypeError, word, "'77'"):
                call("/dev/null", **{word: "77"})


def test_converted_files(fixture):
    """Files that convert the bytes of their descriptors are refused, and do not change."""
    buffer = Gpu.Buffer(fixture.context, b"1234567890")
    with folder() as path:
        with tarfile.open(path / "tar", "w") as archive:
            archive.addfile(tarfile.TarInfo("empty"))
        for module in bz2, gzip, lzma:
            with module.open(path / "new", "w") as file:
                with raises(TypeError, "an open file that does not convert its bytes"):
                    buffer.write_file(file)
            with module.open(path / "new") as file, module.open(path / "new", "rt") as text, \
                    tarfile.open(path / "tar") as archive:
                for wrong in file, text, io.BufferedReader(file), archive.extractfile("empty"):
                    with raises(TypeError, "an open file that does not convert its bytes"):
                        buffer.read_file(wrong)
            equal(module.decompress((path / "new").read_bytes()), b"")
        equal(buffer.read(), b"1234567890")


def test_errors(fixture):
    buffer, stream = Gpu.Buffer(fixture.context, 10), fixture.context.default_stream
    with folder() as path:
        check_open_errors(buffer, path)
        with raises(ValueError, "'x'"):
            Gpu.File(path / "new", "x")
        check_wrong_files(buffer)
        for name, call in (("Memory.read_file", buffer.read_file),
                           ("Memory.write_file", buffer.write_file),
                           ("Stream.write_file", lambda one: stream.write_file(buffer, one)),
                           ("Array.to_file", Gpu.Array(fixture.context, 4, "u1").to_file),
                           ("Gpu.File", Gpu.File)):
            with raises(Gpu.Error.INVALID_ARGUMENT,
                        f"{name}: file descriptor 1000000 is not open"):
                call(1000000)
        (path / "data").write_bytes(b"1234567890")
        with raises(Gpu.Error.INVALID_ARGUMENT, "Memory.write_file", "not open for writing"):
            buffer.write_file(Gpu.File(path / "data"))
        with open(path / "data", "ab") as file:
            with raises(Gpu.Error.INVALID_ARGUMENT, "appending"):
                buffer.write_file(file)
        with raises(Gpu.Error.INVALID_ARGUMENT, "File.get_size", "File.open"):
            GObject.new(Gpu.File).get_size()


def test_file(fixture):
    with random_file(123) as (path, data):
        file = Gpu.File(path)
        equal((file.size, file.flags, repr(file)),
              (123, Gpu.FileFlags.READ, "<Gpu.File for reading>"))
        equal(repr(Gpu.File(path, "r+")), "<Gpu.File for reading and writing>")


def test_arrays(fixture):
    need_numpy()
    context = fixture.context
    numbers = np.random.default_rng(1).integers(0, 1 << 30, (50, 70), "i4")
    with folder() as path:
        array = Gpu.Array.from_numpy(context, numbers)
        for view, expected in ((array, numbers), (array.T, numbers.T),
                               (array[3:40:2, ::3], numbers[3:40:2, ::3]),
                               (array[7:9], numbers[7:9]), (array[:0], numbers[:0])):
            view.to_file(path / "numbers")
            equal((path / "numbers").read_bytes(), expected.tobytes())
        numbers.tofile(path / "numbers")
        read = Gpu.Array.from_file(context, path / "numbers", "i4")
        assert np.array_equal(read.to_numpy(), numbers.ravel())
        read = Gpu.Array.from_file(context, path / "numbers", "i4", (10, 70), 280)
        assert np.array_equal(read.to_numpy(), numbers[1:11])
        with raises(ValueError, "3 bytes", "element"):
            (path / "numbers").write_bytes(b"123")
            Gpu.Array.from_file(context, path / "numbers", "i4")


def test_asyncio(fixture):
    buffer = Gpu.Buffer(fixture.context, SIZE)
    reports = []

    async def run(path):
        equal(await buffer.read_file_async(path, progress=lambda *numbers: reports.append(numbers)),
              SIZE)
        await buffer.write_file_async(path.with_name("copy"))
        with io_error(Gio.IOErrorEnum.PARTIAL_INPUT, "ends at byte"):
            await buffer.read_file_async(path, position=1, size=SIZE)

    with random_file() as (path, data):
        asyncio.run(run(path))
        equal(path.with_name("copy").read_bytes(), data)
        equal(reports[-1], (SIZE, SIZE))


def test_blocked_submission(fixture):
    """The asyncio loop continues while the thread that submits copies of files is blocked."""
    buffer, go, waits = fixture.buffer(b"1234567890"), threading.Event(), []

    async def run(path):
        submit_later(lambda *data: waits.append(go.wait(DEADLINE)))
        copies = [asyncio.ensure_future(copy)
                  for copy in (buffer.write_file_async(path / "new"),
                               buffer.read_file_async(path / "data", size=3))]
        await asyncio.sleep(0.02)
        equal((waits, [copy.done() for copy in copies]), ([], [False, False]))
        go.set()
        equal(await asyncio.gather(*copies), [10, 3])

    with folder() as path:
        (path / "data").write_bytes(b"abc")
        asyncio.run(run(path))
        equal((path / "new").read_bytes(), b"1234567890")
    equal(buffer.read(), b"abc4567890")


def test_main_loop(fixture):
    """progress_data is optional, and its items are further arguments."""
    buffer = Gpu.Buffer(fixture.context, SIZE)
    loop = GLib.MainLoop()
    results, calls = [], []

    def done(memory, result, *rest):
        results.append((memory.read_file_finish(result), rest))
        loop.quit()

    def progress(*call):
        calls.append(call)

    with random_file() as (path, data):
        file = Gpu.File(path, "r+")
        buffer.read_file_async(None, 0, file, 0, SIZE, None, None, (), done)
        loop.run()
        equal((results, buffer.read()), ([(True, ())], data))
        buffer.read_file_async(None, 0, file, 0, SIZE, None, progress, None, done, "end")
        loop.run()
        equal((results[1], calls[-1]), ((True, ("end",)), (SIZE, SIZE)))
        buffer.write_file_async(None, 0, file, 0, SIZE, progress_callback=progress,
                                progress_data=("a", 2), callback=done)
        loop.run()
        equal(calls[-1], (SIZE, SIZE, "a", 2))
        with raises(TypeError, "progress_data must be a tuple or None"):
            buffer.read_file_async(None, 0, file, 0, SIZE, None, progress, done)
        with raises(TypeError, "Memory.read_file_async()", "'progress'"):
            buffer.read_file_async(file, progress=progress, callback=done)


def test_splice(fixture):
    data = os.urandom(SIZE)
    buffer, copy = fixture.buffer(data), fixture.buffer(bytes(SIZE))

    async def run(pairs):
        sent, received = await asyncio.gather(
            buffer.splice_async([here for here, there in pairs], True),
            copy.splice_async([there for here, there in pairs], False))
        equal((sent, received), (SIZE, SIZE))
        assert all(os.get_blocking(end.fileno()) for pair in pairs for end in pair)
        pairs[1][1].close()
        with io_error(Gio.IOErrorEnum.PARTIAL_INPUT, "connection 1, byte "):
            await buffer.splice_async([here for here, there in pairs], False)

    pairs = [socket.socketpair() for i in range(3)]
    asyncio.run(run(pairs))
    equal(copy.read(), data)
    for here, there in pairs:
        here.close()
        there.close()


async def cancel(coroutine, delay):
    """Cancels a coroutine twice, once it has begun, and returns when its await has ended."""
    task = asyncio.ensure_future(coroutine)
    await asyncio.sleep(delay)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    return task.cancelled()


async def fail(coroutine):
    with contextlib.suppress(ZeroDivisionError):
        await coroutine


def test_cancelled_files(fixture):
    """When the await of a cancelled copy ends, nothing uses the file any more, even if the earlier
    work of the stream never completes. The same is true for a copy whose progress() fails."""
    size = 8 << 20
    buffer = Gpu.Buffer(fixture.context, size)

    async def stop(file, stream, number, holds):
        write = functools.partial(buffer.write_file_async, file, stream=stream)
        if number % 4 == 3 and not holds:
            await fail(write(progress=lambda current, total: 1 / 0))
        else:
            cancelled = await cancel(write(), 0.002 * (number % 4))
            assert cancelled or not holds

    for number in range(24):
        with random_file(5) as (path, data):
            stream = fixture.new_stream()
            gate = fixture.gate(stream, False) if number % 3 else NoGate()
            asyncio.run(stop(Gpu.File(path, "r+"), stream, number, gate.holds))
            before = os.path.getsize(path)
            gate.complete()
            stream.synchronize()
            time.sleep(0.01)
            equal(os.path.getsize(path), before, f"size after copy {number}")


def test_cancelled_splice(fixture):
    """When the await of a cancelled transfer ends, nothing uses its memory any more."""
    buffer = fixture.buffer(10)

    async def retry():
        for number in range(40):
            pairs, (again, sender) = [socket.socketpair() for i in range(10)], socket.socketpair()
            sender.sendall(b"0123456789")
            assert await cancel(buffer.splice_async([here for here, _ in pairs], False), 0.001)
            equal(await buffer.splice_async([again], False), 10)
            for end in (again, sender, *(end for pair in pairs for end in pair)):
                end.close()

    asyncio.run(retry())


def list_sockets():
    """Returns the descriptors of this process for sockets. Threads of the library may close other
    descriptors at any time."""
    found = set()
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):      # the descriptor of the folder itself
            link = os.readlink(f"/proc/self/fd/{fd}")
            if link.startswith("socket:"):
                found.add((fd, link))
    return found


def refuse_connection(buffer, connection, value):
    """The error names the value. The sockets do not change, and no descriptor is closed twice."""
    here, there = socket.socketpair()
    with here, there:
        before = list_sockets()
        with raises(TypeError, "connection must be a Gio.IOStream or a socket without TLS, not",
                    value):
            asyncio.run(buffer.splice_async([here, connection], True))
        assert here.getblocking() and os.get_blocking(here.fileno())
        equal(list_sockets(), before)


def test_wrong_connections(fixture):
    buffer = fixture.buffer(10)
    with open("/dev/null", "rb") as file:
        for connection, value in ((5, "5"), (file, "_io.Buffered"), (None, "None")):
            refuse_connection(buffer, connection, value)
    here, there = socket.socketpair()
    with here, there:
        with raises(TypeError, "connections must be a list of connections, not <socket"):
            asyncio.run(buffer.splice_async(here, True))
    with raises(OSError, "Bad file descriptor"):
        asyncio.run(buffer.splice_async([here], True))


def test_tls_connection(fixture):
    if ssl is None:
        raise Skip("Python has no module ssl")

    other, peer = socket.socketpair()
    tls = ssl.create_default_context().wrap_socket(other, server_hostname="peer",
                                                   do_handshake_on_connect=False)
    with peer, tls:
        refuse_connection(fixture.buffer(10), tls, "ssl.SSLSock")


def test_failed_splice_blocking(fixture):
    """Blocking sockets are blocking after a call that fails, and after one that is cancelled."""
    buffer = fixture.buffer(10)
    here, there = socket.socketpair()
    with here, there:
        for offset, size, error in ((11, 1, GLib.Error), (0, 11, GLib.Error),
                                    (-1, 1, OverflowError), (0, "a", TypeError)):
            with raises(error):
                asyncio.run(buffer.splice_async([here], True, offset, size))
            assert os.get_blocking(here.fileno()), (offset, size)
        asyncio.run(cancel(buffer.splice_async([here], False), 0.01))
        assert os.get_blocking(here.fileno())
        here.setblocking(False)
        with raises(GLib.Error):
            asyncio.run(buffer.splice_async([here], True, 11, 1))
        assert not os.get_blocking(here.fileno())


def test_two_transfers(fixture):
    """A blocking socket sends and receives at the same time. It is non-blocking until its last
    transfer has ended, so that this transfer can be cancelled."""
    sent, received = fixture.buffer(b"0123456789"), fixture.buffer(20)

    async def run(here, there, senders):
        send = asyncio.ensure_future(sent.splice_async(senders, True))
        receive = asyncio.ensure_future(received.splice_async([here], False))
        equal(await send, 10)
        equal(sorted(there.recv(10, socket.MSG_WAITALL)), sorted(b"0123456789"))
        assert not os.get_blocking(here.fileno())
        there.sendall(b"abcdefghij")
        assert await cancel(receive, 0.001)
        assert os.get_blocking(here.fileno())

    for n_senders in (1, 2):
        here, there = socket.socketpair()
        with here, there:
            asyncio.run(run(here, there, [here] * n_senders))


def test_closed_during_splice(fixture):
    """The program may close its socket while a transfer runs, which has a descriptor of its own."""
    buffer = fixture.buffer(b"0123456789")

    async def close(here):
        task = asyncio.ensure_future(buffer.splice_async([here], False))
        await asyncio.sleep(0.01)
        here.close()
        there.sendall(b"abcdefghij")
        return await task

    here, there = socket.socketpair()
    with here, there:
        equal((asyncio.run(close(here)), buffer.read()), (10, b"abcdefghij"))


def test_failed_splice_closes(fixture):
    """The peer of a connection gets its end as soon as the program closes the socket after a
    failure, without the garbage collector."""
    buffer = fixture.buffer(10)

    async def fail(connections, offset):
        with contextlib.suppress(GLib.Error):
            await buffer.splice_async(connections, False, offset, 10)

    gc.disable()
    try:
        for offset in (0, 5):
            pairs = [socket.socketpair() for i in range(2)]
            pairs[0][1].close()
            asyncio.run(fail([here for here, there in pairs], offset))
            for here, _ in pairs:
                here.close()
            pairs[1][1].settimeout(DEADLINE)
            equal(pairs[1][1].recv(1), b"")
            pairs[1][1].close()
    finally:
        gc.enable()


def test_gio_streams(fixture):
    data = bytes(SIZE // 2) + os.urandom(SIZE - SIZE // 2)
    buffer, copy = fixture.buffer(data), fixture.buffer(bytes(SIZE))
    small = Gio.MemoryOutputStream.new_resizable()
    packer = Gio.ConverterOutputStream.new(small, Gio.ZlibCompressor.new(GZIP, 1))
    packer.splice(Gpu.InputStream(buffer), Gio.OutputStreamSpliceFlags.CLOSE_TARGET)
    packed = small.steal_as_bytes()
    assert packed.get_size() < SIZE
    equal(gzip.decompress(packed.get_data()), data)
    unpacker = Gio.ConverterInputStream.new(Gio.MemoryInputStream.new_from_bytes(packed),
                                            Gio.ZlibDecompressor.new(GZIP))
    Gpu.OutputStream(copy).splice(unpacker, Gio.OutputStreamSpliceFlags.CLOSE_TARGET)
    equal(copy.read(), data)
    equal(Gpu.InputStream(buffer, 5, 10).read_bytes(100).get_data(), data[5:15])
    with raises(Gpu.Error.INVALID_ARGUMENT, "InputStream", str(SIZE + 1)):
        Gpu.InputStream(buffer, 0, SIZE + 1)


def test_errors_of_gio_streams(fixture):
    """Messages begin with the function of Python, or with the class in functions of Gio."""
    buffer = fixture.buffer(100)
    source, target = Gpu.InputStream(buffer), Gpu.OutputStream(buffer)
    target.write(b"1")
    buffer.release()
    for call, name in ((lambda: source.read_bytes(5), "InputStream.read_bytes: "),
                       (lambda: Gio.InputStream.read_bytes(source, 5, None), "Gpu.InputStream: "),
                       (target.flush, "OutputStream.flush: "),
                       (lambda: Gio.OutputStream.flush(target, None), "Gpu.OutputStream: ")):
        try:
            call()
        except Gpu.ReleasedError as error:
            assert error.message.startswith(name), error.message
        else:
            raise AssertionError(f"no error of {name}")


class MainLoopCopy:
    """Copies from a stream of Gio to another one in a main loop of GLib. Calls while_closing() when
    all bytes are written and the target is being closed."""

    def __init__(self, source, target, count, while_closing=lambda: None):
        self.source, self.target, self.count = source, target, count
        self.while_closing = while_closing
        self.loop, self.error = GLib.MainLoop(), None

    def run(self):
        timer = GLib.timeout_add_seconds(DEADLINE, self.loop.quit)
        self.read()
        self.loop.run()
        GLib.source_remove(timer)
        assert self.target.is_closed()

    def read(self):
        self.source.read_bytes_async(self.count, GLib.PRIORITY_DEFAULT, None, self.on_read)

    def on_read(self, source, result):
        self.write(source.read_bytes_finish(result))

    def write(self, data):
        if data.get_size() == 0:
            self.target.close_async(GLib.PRIORITY_DEFAULT, None, self.on_closed)
            self.while_closing()
        else:
            self.target.write_bytes_async(data, GLib.PRIORITY_DEFAULT, None, self.on_written, data)

    def on_written(self, target, result, data):
        rest = data.get_size() - target.write_bytes_finish(result)
        if rest > 0:
            self.write(data.new_from_bytes(data.get_size() - rest, rest))
        else:
            self.read()

    def on_closed(self, target, result):
        try:
            target.close_finish(result)
        except GLib.Error as error:
            self.error = error
        self.loop.quit()


def test_gio_streams_main_loop(fixture):
    """The loop runs while the streams wait for earlier work, and errors reach it."""
    size = (5 << 19) + 7
    data, zeros = os.urandom(size), bytes(size)
    buffer, target, stream = fixture.buffer(data), fixture.buffer(zeros), fixture.new_stream()
    gate = fixture.gate(stream, False)
    if gate.holds:
        GLib.timeout_add(20, lambda: (gate.complete(), GLib.SOURCE_REMOVE)[1])
    copy = MainLoopCopy(Gpu.InputStream(buffer, stream=stream),
                        Gpu.OutputStream(target, stream=stream), 100_000)
    copy.run()
    equal((copy.error, target.read()), (None, data))
    if gate.holds:
        target, gate = fixture.buffer(zeros), fixture.gate(stream)
        copy = MainLoopCopy(Gpu.InputStream(buffer, 0, 1 << 20),
                            Gpu.OutputStream(target, stream=stream), 1 << 19,
                            functools.partial(gate.fail, "broken on purpose"))
        copy.run()
        assert "broken on purpose" in copy.error.message


def list_open(path):
    """Returns the descriptors of this process for a file."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):      # the descriptor of the folder itself
            found += [fd] if os.readlink(f"/proc/self/fd/{fd}") == str(path) else []
    return found


def wait_closed(path, what):
    """Waits for the threads that copy."""
    deadline = time.monotonic() + DEADLINE
    while list_open(path):
        assert time.monotonic() < deadline, f"{what} does not close {path}"
        time.sleep(0.001)


def test_failures_close(fixture):
    """A failed copy closes the file that it has opened, without the garbage collector. asyncio
    keeps exceptions in cycles of references."""
    buffer = Gpu.Buffer(fixture.context, SIZE)

    def stop(current, total):
        raise RuntimeError("stop")

    async def cancel(path):
        task = asyncio.ensure_future(buffer.read_file_async(path))
        await asyncio.sleep(0)
        task.cancel()
        await task

    with random_file() as (path, _):
        longer = {"position": 1, "size": SIZE}
        calls = (lambda: asyncio.run(buffer.read_file_async(path, **longer)),
                 lambda: asyncio.run(buffer.read_file_async(path, progress=stop)),
                 lambda: asyncio.run(buffer.read_file_async(path, offset=SIZE + 1, size=1)),
                 lambda: asyncio.run(buffer.write_file_async(path, progress=stop)),
                 lambda: asyncio.run(buffer.write_file_async(path, stream=3)),
                 lambda: asyncio.run(cancel(path)),
                 lambda: buffer.read_file(path, **longer),
                 lambda: buffer.read_file(path, stream=3),
                 lambda: buffer.write_file(path, stream=3))
        gc.disable()
        try:
            for number, call in enumerate(calls):
                try:
                    call()
                except (RuntimeError, TypeError, GLib.Error, asyncio.CancelledError):
                    pass
                else:
                    raise AssertionError(f"call {number} does not fail")
                wait_closed(path, f"call {number}")
        finally:
            gc.enable()


def test_threads(fixture):
    buffer = Gpu.Buffer(fixture.context, SIZE)
    part = SIZE // 4
    with random_file(part * 4) as (path, data):
        file = Gpu.File(path)
        run_threads(4, lambda i: buffer.read_file(file, i * part, i * part, part))
        equal(buffer.read(0, part * 4), data)


if __name__ == "__main__":
    sys.exit(main(globals()))
