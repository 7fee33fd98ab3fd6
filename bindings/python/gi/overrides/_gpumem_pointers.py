# SPDX-License-Identifier: LGPL-2.1-or-later
"""Kernel arguments in memory of other libraries: arrays with the CUDA Array Interface or with
DLPack, and addresses as numbers."""

from gi.repository import GLib

from ..module import get_introspection_module
from ._gpumem_dlpack import CPU, can_access, import_array, import_interface
from ._gpumem_names import FUNCTION, find_caller
from ._gpumem_protocols import read_dlpack_device

Gpu = get_introspection_module("Gpu")


def describe(kernel, index):
    name = kernel.get_argument_name(index) if index < kernel.get_n_arguments() else None
    return f"argument {index}{f' ({name})' if name else ''} of kernel {kernel.get_name()}"


def name_argument(error, kernel, index):
    """Lets an error of the library name the function that the program called, and the argument,
    instead of the function that converts the argument."""
    what, caller = describe(kernel, index), find_caller()
    text = error.message.removeprefix(f"{what}: ")
    match = FUNCTION.match(text)
    text = text[match.end():] if match else text
    error.message = f"{f'{caller}: ' if caller else ''}{what}: {text}"


def is_pointer(kernel, index):
    return index < kernel.get_n_arguments() \
        and kernel.get_argument_kind(index) == Gpu.ArgumentKind.MEMORY


def _get_context(kernel):
    return kernel.get_program().get_context()


def _is_on_cuda(context):
    return context.get_device().get_backend() == "cuda"


class _Named:
    """A with statement whose errors name the argument."""

    def __init__(self, kernel, index):
        self.kernel = kernel
        self.index = index

    def __enter__(self):
        return self

    def __call__(self):
        return describe(self.kernel, self.index)

    def _is_named(self, error):
        return str(error).startswith(self())

    def __exit__(self, kind, error, trace):
        if isinstance(error, GLib.Error):
            error.message = f"{describe(self.kernel, self.index)}: {error.message}"
        elif isinstance(error, (BufferError, ValueError)) and not self._is_named(error):
            raise type(error)(f"{describe(self.kernel, self.index)}: {error}") from None


def add_address(arguments, kernel, value, index):
    """Adds an integer for a pointer on CUDA: memory from this address to the end of its allocation.
    The driver must know the address. If the memory belongs to this library, the launch is ordered
    after other uses of the memory, and keeps it allocated. Returns whether the value was added."""
    context = _get_context(kernel)
    if not 0 < value < 1 << 64 or not _is_on_cuda(context):
        return False
    with _Named(kernel, index):
        arguments.add_memory(Gpu.Buffer.new_wrapped(context, value, 0, Gpu.WrapMode.BORROW, None))
    return True


def _import_shared(context, value, name):
    """Returns a Gpu.Array over an array with DLPack that the context can access without a copy, or
    None."""
    kind, number = read_dlpack_device(value, name)
    is_shared = can_access(context, kind, number) and (kind != CPU or not _is_on_cuda(context))
    return import_array(context, value, name) if is_shared else None


def _import(context, value, interface, name):
    if interface is None:
        return _import_shared(context, value, name)
    if not _is_on_cuda(context):
        raise TypeError(f"{name()} cannot be a {type(value).__name__} in CUDA "
                        f"memory, which kernels on {context.get_device().get_id()} cannot access: "
                        "copy the array with Gpu.Array.from_dlpack()")
    return import_interface(context, value, interface, name)


def add_foreign(arguments, kernel, value, index):
    """Adds an array of another library that the kernel can access in place. The launch keeps the
    array alive, and is ordered after the work on the stream that the array names. Returns whether
    the value was added."""
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is None and not hasattr(value, "__dlpack__"):
        return False
    with _Named(kernel, index) as name:
        array = _import(_get_context(kernel), value, interface, name)
        if array is not None:
            arguments.add_array(array)
    return array is not None
