#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Memory of several drivers from Python: copies between them, and file descriptors, over every
device that GPUMEM_TEST chooses."""

import os
import random
import sys

from python_util import Gpu, equal, main, raises

SIZE = 100000


def others(fixture):
    """A context on every device that has one, beside that of the test."""
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
        del far, near                           # kept until it is done
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
    fd, whole_size, offset = buffer.export_fd(Gpu.FdKinds.OPAQUE)
    again = Gpu.Buffer.new_from_fd(context, Gpu.MemoryFlags.NONE, Gpu.FdKinds.OPAQUE, fd,
                                   whole_size, offset, SIZE)
    os.close(fd)
    del buffer
    equal(again.read(), b"\3" * SIZE)


if __name__ == "__main__":
    sys.exit(main(globals()))
