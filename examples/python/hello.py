#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""hello: lists the devices, then copies a greeting to the memory of one of them and back.

    ./hello.py                          the default device
    GPUMEM_DEVICE=host ./hello.py       another device
"""

import sys

import gi

gi.require_version("Gpu", "1.0")
from gi.repository import GLib, Gpu  # noqa: E402

SIZE = 4096
GREETING = b"Hello from the memory of a device"


def list_devices():
    for device in Gpu.devices():
        try:
            device.check()
            print(f"{device.id:10} {device.name}")
        except GLib.Error as error:
            print(f"{device.id:10} {device.name}, unusable: {error.message}")


def say_hello():
    context = Gpu.Context.new_default()

    # The methods of a buffer wait for the result. The memory is freed with the last reference, or
    # at the end of the with statement.
    with Gpu.Buffer(context, SIZE) as buffer, Gpu.Buffer(context, SIZE) as duplicate:
        buffer.fill(b".")
        buffer.write(GREETING, offset=8)
        duplicate.copy(buffer)
        text = duplicate.read()
        print(f"{context.device.id} says: {text[:50].decode()}")

        # A slice shares the memory of its buffer.
        middle = duplicate[8:8 + len(GREETING)] if context.device.base_alignment <= 8 else None
        if middle is not None and middle.read() != GREETING:
            sys.exit("hello: the slice is wrong")

    if text != b"." * 8 + GREETING + b"." * (SIZE - 8 - len(GREETING)):
        sys.exit("hello: the text is wrong")


try:
    list_devices()
    say_hello()
except GLib.Error as error:
    sys.exit(f"hello: {error.message}")
