# SPDX-License-Identifier: LGPL-2.1-or-later
"""Shared virtual memory: with arrays over it, mapped, and told where it will be used."""

from gi.repository import GLib

from ..module import get_introspection_module
from ._gpumem import Exported, hold
from ._gpumem_arrays import ArrayMethods, Form, export

Gpu = get_introspection_module("Gpu")


class SvmMethods(ArrayMethods):
    """Gpu.Svm(context, size): memory at one address for host and device. What its address is, as
    kernels and mappings have it, is the attribute address.

    Gpu.Svm.empty(), zeros(), empty_like() and zeros_like() are NumPy arrays over new memory of fine
    grain, which the host may touch at any time; where there is none they raise
    Gpu.Error.NOT_SUPPORTED. Gpu.Svm.shaped() is for every device: memory that knows which array it
    is for, which mapping.to_numpy() then returns."""
    _form = None

    svm_flags = property(lambda self: self.get_property("svm-flags"))
    alignment = property(lambda self: self.get_property("alignment"))
    address = property(lambda self: self.get_device_address())

    def __new__(cls, context, size, svm_flags=Gpu.SvmFlags.NONE, flags=Gpu.MemoryFlags.NONE,
                alignment=0):
        return Gpu.Svm.new(context, flags, svm_flags, size, alignment)

    def __init__(self, *args, **kwargs):
        pass

    @classmethod
    def new_for_data(cls, context, data, flags=Gpu.MemoryFlags.NONE):
        """Shared memory over that of a writable bytes-like object, a NumPy array for one, where
        devices reach all memory of the host. The object is kept, and its memory stays where it
        is."""
        return Gpu.Svm.new_for_bytes(context, flags, hold(Exported(data, writable=True)))

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
        """Memory for a NumPy array, of any grain. Mappings of all of it show that array. Keywords
        are those of the constructor."""
        return cls._for_form(context, Form.of(shape, dtype, order), **kwargs)

    @classmethod
    def shaped_like(cls, context, array, dtype=None, order="K", shape=None, **kwargs):
        """shaped() with the shape, type and order of an array, as of numpy.empty_like()."""
        return cls._for_form(context, Form.like(array, dtype, order, shape), **kwargs)

    def view(self):
        """A memoryview of memory of fine grain. What work of a device writes is there once that is
        complete."""
        return export(self, self.get_bytes(),
                      bool(self.get_flags() & Gpu.MemoryFlags.HOST_READ_ONLY))

    def to_numpy(self, dtype=None, shape=-1, order="C"):
        """A NumPy array over memory of fine grain; without a type, that which the memory was made
        for, or bytes."""
        return array_over(self, self.view(), dtype, shape, order)

    def map(self, flags=Gpu.MapFlags.NONE, offset=0, size=None, stream=None):
        """The memory for the host, at its address: see Gpu.Mapping."""
        size = max(self.get_size() - offset, 0) if size is None else size
        if stream is None:
            context = self.get_context()
            stream = context.get_default_stream() if context is not None else None
        if stream is None:
            return Gpu.Svm.map(self, None, flags, offset, size, None)   # says why there is none
        mapping = Gpu.Stream.map(stream, self, flags, offset, size)
        stream.synchronize()
        return mapping

    def prefetch(self, flags=Gpu.MigrateFlags.NONE, offset=0, size=None, stream=None):
        """Moves it to the device, or the host, ahead of its use there."""
        size = max(self.get_size() - offset, 0) if size is None else size
        return Gpu.Svm.prefetch(self, stream, flags, offset, size)

    def advise(self, advice, device=None, offset=0, size=None):
        """Tells how it will be used; without a device, by the host."""
        size = max(self.get_size() - offset, 0) if size is None else size
        return Gpu.Svm.advise(self, advice, offset, size, device)

    def attach(self, attachment, stream=None):
        """Tells who uses it from this point of the stream on."""
        return Gpu.Svm.attach(self, stream, attachment)


def array_over(memory, data, dtype, shape, order):
    """A NumPy array over data, all or a part of the memory."""
    import numpy
    form = getattr(memory, "_form", None)
    array = numpy.asarray(data)
    if form is not None and dtype is None and shape == -1 and array.nbytes == memory.get_size():
        return form.over(array)
    return array.view(dtype or "uint8").reshape(shape, order=order)
