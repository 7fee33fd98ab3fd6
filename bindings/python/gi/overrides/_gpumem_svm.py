# SPDX-License-Identifier: LGPL-2.1-or-later
"""Shared virtual memory: arrays over it, mappings, prefetch and advice."""

from gi.repository import GLib

from ..module import get_introspection_module
from ._gpumem import array_over_bytes, export_in_place, hold, submit_and_wait
from ._gpumem_arrays import ArrayMethods, Form, check_context, export, to_range
from ._gpumem_checks import checked, to_stream

Gpu = get_introspection_module("Gpu")


class SvmMethods(ArrayMethods):
    """Gpu.Svm(context, size): memory with the same address on host and device, which the attribute
    address returns. Memory of 0 bytes has an address, too.

    Gpu.Svm.empty(), zeros(), empty_like() and zeros_like() return NumPy arrays over new
    fine-grained memory, which the host may access at any time. Without support for fine-grained
    memory they raise Gpu.NotSupportedError. Gpu.Svm.shaped() supports every device: it allocates
    memory with the shape and type of an array, which mapping.to_numpy() then returns."""
    _form = None

    svm_flags = property(lambda self: self.get_property("svm-flags"))
    alignment = property(lambda self: self.get_property("alignment"))
    address = property(lambda self: self.get_device_address(),
                       doc="The address of the memory, on the host and in kernels.")

    def __new__(cls, context, size, svm_flags=Gpu.SvmFlags.NONE, flags=Gpu.MemoryFlags.NONE,
                alignment=0):
        return Gpu.Svm.new(context, flags, svm_flags, size, alignment)

    def __init__(self, *args, **kwargs):
        pass

    @classmethod
    def new_for_data(cls, context, data, flags=Gpu.MemoryFlags.NONE):
        """Creates shared memory over a writable bytes-like object, such as a NumPy array, on
        devices that can access all host memory. The memory holds a reference to the object, and
        fixes the address of its data."""
        return Gpu.Svm.new_for_bytes(context, flags, hold(
            export_in_place(data, True, "pass a copy")))

    @classmethod
    def _for_form(cls, context, form, **kwargs):
        svm = cls(context, max(form.size, 1), **kwargs)
        svm._form = form
        return svm

    @classmethod
    def _array(cls, context, form, svm_flags=Gpu.SvmFlags.NONE, **kwargs):
        svm_flags |= Gpu.SvmFlags.FINE_GRAIN
        try:
            return super()._array(context, form, svm_flags=svm_flags, **kwargs)
        except GLib.Error as error:
            coarse = all(device.get_capabilities() & Gpu.Capabilities.SVM_COARSE
                         for device in context.list_devices())
            if coarse and error.matches(Gpu.error_quark(), Gpu.Error.NOT_SUPPORTED):
                error.message += ", which arrays need: map a Gpu.Svm.shaped() instead"
            raise

    @classmethod
    def shaped(cls, context, shape, dtype=float, order="C", **kwargs):
        """Creates memory, coarse- or fine-grained, for a NumPy array. If a mapping covers all of
        the memory, to_numpy() of the mapping returns that array. The keywords are those of the
        constructor."""
        check_context(context)
        return cls._for_form(context, Form.of(shape, dtype, order), **kwargs)

    @classmethod
    def shaped_like(cls, context, array, dtype=None, order="K", shape=None, **kwargs):
        """Like shaped(), with the shape, type and order of an array, as in numpy.empty_like()."""
        check_context(context)
        return cls._for_form(context, Form.like(array, dtype, order, shape), **kwargs)

    def view(self):
        """Returns a memoryview of fine-grained memory. Writes of a device are visible once its work
        has completed."""
        return export(self, self.get_bytes(),
                      bool(self.get_flags() & Gpu.MemoryFlags.HOST_READ_ONLY))

    def to_numpy(self, dtype=None, shape=-1, order="C"):
        """Returns a NumPy array over fine-grained memory. Without a type and a shape, the array has
        those given to shaped() or empty(). Other memory becomes an array of bytes."""
        return array_over(self, self.view(), dtype, shape, order)

    def map(self, flags=Gpu.MapFlags.NONE, offset=0, size=None, stream=None):
        """Maps the memory for the host, at the same address, and waits. Returns a Gpu.Mapping."""
        _, offset, size = to_range(self, offset, size)
        if stream is None:
            context = self.get_context()
            stream = context.get_default_stream() if context is not None else None
        if stream is None:
            return Gpu.Svm.map(self, None, flags, offset, size, None)   # raises the precise error
        stream = checked(to_stream(stream, "stream", (self,)), Gpu.Stream, "stream")
        return submit_and_wait(stream, lambda: Gpu.Stream.map(stream, self, flags, offset, size))

    def prefetch(self, flags=Gpu.MigrateFlags.NONE, offset=0, size=None, stream=None):
        """Moves a range to the device, or to the host, before its use there."""
        _, offset, size = to_range(self, offset, size)
        return Gpu.Svm.prefetch(self, stream, flags, offset, size)

    def advise(self, advice, device=None, offset=0, size=None):
        """Advises the driver how a range will be used by a device, or by the host if device is
        None."""
        _, offset, size = to_range(self, offset, size)
        return Gpu.Svm.advise(self, advice, offset, size, device)

    def attach(self, attachment, stream=None):
        """Attaches the memory. From this point of the stream on, only the users that attachment
        names may use the memory."""
        return Gpu.Svm.attach(self, stream, attachment)


def array_over(memory, data, dtype, shape, order):
    """Returns a NumPy array over the view `data` of all or a part of the memory."""
    form = getattr(memory, "_form", None)
    try:
        if form is not None and dtype is None and shape == -1 and data.nbytes == memory.get_size():
            return form.over(data)
        return array_over_bytes(data, "uint8" if dtype is None else dtype, shape, order)
    finally:
        del data                                # an exception keeps this frame
