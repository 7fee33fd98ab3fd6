# SPDX-License-Identifier: LGPL-2.1-or-later
"""Launches whose arguments are host arrays."""

from ..module import get_introspection_module
from ._gpumem import Exported, refuse_captured, submit_and_wait
from ._gpumem_checks import checked
from ._gpumem_scope import allocate
from ._gpumem_values import to_arguments, to_extent, to_list, to_offset

Gpu = get_introspection_module("Gpu")


class Transfer:
    """A kernel argument: a bytes-like object that is copied to device memory for one launch."""
    to_device = False
    to_host = False

    def __init__(self, array):
        self.array = array

    def __repr__(self):
        return f"Gpu.{type(self).__name__}({self.array!r})"


class In(Transfer):
    """A kernel argument: device memory with a copy of a bytes-like object."""
    to_device = True


class Out(Transfer):
    """A kernel argument: device memory that is copied to a writable bytes-like object after the
    launch. The launch waits for the copy."""
    to_host = True


class InOut(Transfer):
    """A kernel argument: device memory with a copy of a writable bytes-like object. After the
    launch, the memory is copied back to the object. The launch waits for the copy."""
    to_device = True
    to_host = True


def _allocate(stream, transfer, name):
    """Allocates memory for the array; returns None, a null pointer, if the array is empty."""
    with Exported(transfer.array, transfer.to_host, name) as exported:
        size = exported.size
    if size == 0:
        return None
    memory = allocate(stream, size)
    if transfer.to_device:
        stream.write(memory, transfer.array)
    return memory


def _fetch(stream, memory, array):
    if isinstance(memory, Gpu.Buffer):
        memory.read_into(array, stream=stream)
    else:
        submit_and_wait(stream, lambda: stream.read_into(memory, array))


def _is_empty(grid):
    return grid is not None and 0 in (grid.width, grid.height, grid.depth)


def to_flags(flags, allow_empty):
    return flags | Gpu.LaunchFlags.ALLOW_EMPTY if allow_empty else flags


def launch(stream, kernel, grid, block, args, shared_size, flags, indirect=(), allow_empty=False,
           global_offset=None):
    """Launches a kernel, with the copies before and after the launch that Gpu.In, Gpu.Out and
    Gpu.InOut require. An empty launch changes none of their arrays."""
    checked(kernel, Gpu.Kernel, "kernel")
    grid, block = to_extent(grid, "grid"), to_extent(block, "block")
    is_empty = _is_empty(grid)
    flags = to_flags(flags, allow_empty and is_empty)
    transfers = []
    if not isinstance(args, Gpu.Arguments):
        args = to_list(args, "args", "kernel arguments", "args=(argument,)")
        if any(isinstance(value, Transfer) for value in args):
            refuse_captured(stream)
        for index, value in enumerate(args):
            if isinstance(value, Transfer):
                name = f"the array of Gpu.{type(value).__name__}, argument {index},"
                args[index] = _allocate(stream, value, name)
                transfers.append((args[index], value))
    arguments = to_arguments(kernel, args, indirect)
    if shared_size or flags or global_offset is not None:
        stream.launch_prepared(Gpu.Launch.new(kernel, grid, block, to_offset(global_offset),
                                              shared_size, flags, arguments))
    else:
        stream.launch_arguments(kernel, grid, block, arguments)
    for memory, transfer in transfers:
        if transfer.to_host and memory is not None and not is_empty:
            _fetch(stream, memory, transfer.array)
    return True
