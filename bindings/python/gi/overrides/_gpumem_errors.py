# SPDX-License-Identifier: LGPL-2.1-or-later
"""Exceptions: a class for each code of the library's error domain, which derives from GLib.Error
and, where Python has one, from the built-in exception for the same failure."""

import types

from gi.repository import GLib

from ..module import get_introspection_module
from ._gpumem_callbacks import take_cause
from ._gpumem_names import to_python

Gpu = get_introspection_module("Gpu")
_Code = Gpu.Error                               # the enumeration of the typelib

_DOMAIN = GLib.quark_to_string(Gpu.error_quark())


class Error(GLib.Error):
    """An error of the library. Each code of Gpu.Error, such as Gpu.Error.OUT_OF_DEVICE_MEMORY, has
    a class of its own, here Gpu.OutOfDeviceMemoryError. The attribute code has the code, and
    message has the text, which is also the string of the exception.

    Python code that implements an allocator raises an error of the library by its class:
    raise Gpu.OutOfDeviceMemoryError("the arena is full")."""
    # Declared here for type checkers; set below
    FAILED: "int"
    OUT_OF_DEVICE_MEMORY: "int"
    OUT_OF_HOST_MEMORY: "int"
    INVALID_ARGUMENT: "int"
    NOT_SUPPORTED: "int"
    NO_DEVICE: "int"
    DEVICE_LOST: "int"
    BUILD_FAILED: "int"
    LAUNCH_FAILED: "int"
    BUSY: "int"
    RELEASED: "int"
    TIMED_OUT: "int"
    IPC: "int"

    _code = _Code.FAILED

    def __init__(self, message: str = "unknown error", domain: "str | None" = None,
                 code: "int | None" = None):
        if not isinstance(message, str):
            raise TypeError(f"message must be a str, not {to_python(repr(message))}: pass the code "
                            "after it, as in Gpu.Error(\"no space\", code=Gpu.Error.BUSY)")
        cause = take_cause(message)
        message = to_python(message)
        super().__init__(message, _DOMAIN if domain is None else domain,
                         int(self._code if code is None else code))
        if cause is not None:
            self.__cause__ = cause

    @staticmethod
    def quark() -> int:
        """Returns the quark of the error domain, as Gpu.error_quark() does."""
        return Gpu.error_quark()

    def __str__(self):
        return self.message

    def __repr__(self):
        return f"Gpu.{type(self).__name__}({self.message!r})"


class OutOfMemoryError(Error, MemoryError):
    """The device or the host is out of memory: the base of Gpu.OutOfDeviceMemoryError and
    Gpu.OutOfHostMemoryError. Also a MemoryError."""
    _code = _Code.OUT_OF_DEVICE_MEMORY


class OutOfDeviceMemoryError(OutOfMemoryError):
    """The device is out of memory. Also a MemoryError."""
    _code = _Code.OUT_OF_DEVICE_MEMORY


class OutOfHostMemoryError(OutOfMemoryError):
    """The host is out of memory. Also a MemoryError."""
    _code = _Code.OUT_OF_HOST_MEMORY


class InvalidArgumentError(Error, ValueError):
    """A value is invalid; the message quotes the value. Also a ValueError."""
    _code = _Code.INVALID_ARGUMENT


class NotSupportedError(Error, NotImplementedError):
    """The device or its driver does not support the operation. Also a NotImplementedError."""
    _code = _Code.NOT_SUPPORTED


class NoDeviceError(Error):
    """The device or its driver was not found."""
    _code = _Code.NO_DEVICE


class DeviceLostError(Error):
    """The device was lost, or its context is permanently unusable."""
    _code = _Code.DEVICE_LOST


class BuildFailedError(Error):
    """A program does not build; the message contains the build log."""
    _code = _Code.BUILD_FAILED


class LaunchFailedError(Error):
    """A kernel could not start or was aborted."""
    _code = _Code.LAUNCH_FAILED


class BusyError(Error):
    """The operation is not possible while the object is used in another way."""
    _code = _Code.BUSY


class ReleasedError(Error):
    """The object was released earlier."""
    _code = _Code.RELEASED


class TimedOutError(Error, TimeoutError):
    """The timeout expired. Also a TimeoutError."""
    _code = _Code.TIMED_OUT


class IpcError(Error):
    """Sharing with another process failed."""
    _code = _Code.IPC


_CLASSES = {int(one._code): one
            for one in (Error, OutOfDeviceMemoryError, OutOfHostMemoryError, InvalidArgumentError,
                        NotSupportedError, NoDeviceError, DeviceLostError, BuildFailedError,
                        LaunchFailedError, BusyError, ReleasedError, TimedOutError, IpcError)}


def _find_class(cls, message=None, domain=None, code=None, *args, **kwargs):
    """Returns the class for the arguments of GLib.Error() or Gpu.Error()."""
    if domain == _DOMAIN or domain is None and cls is Error:
        return _CLASSES.get(code, Error)
    return cls


def _new_error(cls, *args, **kwargs):
    """GLib.Error.__new__(): errors of the domain of the library get the class of their code.
    PyGObject calls GLib.Error() for each GError that it converts: one that a function sets, one
    that a callback or a signal gets, and the value of a property. Errors of other domains, and
    classes that other code derives from GLib.Error, are unchanged."""
    if cls is GLib.Error or cls is Error:
        cls = _find_class(cls, *args, **kwargs)
    # The base that defines the layout of the objects: RuntimeError, or OSError in TimedOutError
    base = cls
    while isinstance(base.__new__, types.FunctionType):
        base = base.__base__
    # OSError would take the domain for a path
    return base.__new__(cls, *(() if issubclass(base, OSError) else args))


_initialize = GLib.Error.__init__


def _initialize_error(self, message="unknown error", *args, **kwargs):
    """GLib.Error.__init__(): an error of GIO, such as that of a cancelled wait, also begins with
    the function of the library that failed."""
    if type(self) is GLib.Error and isinstance(message, str) and message.startswith("gpu_"):
        self.is_named = True
        message = to_python(message)
    _initialize(self, message, *args, **kwargs)


_to_text = GLib.Error.__str__


def _to_message(self):
    """GLib.Error.__str__(): an error of GIO that names a function of the library has no domain and
    no code in its text, as errors of the library."""
    return self.message if getattr(self, "is_named", False) else _to_text(self)


def _install():
    for one in (OutOfMemoryError, *_CLASSES.values()):
        one.__module__ = "gi.repository.Gpu"    # as tracebacks and pickle name it
    for name in Error.__annotations__:
        if name.isupper():
            setattr(Error, name, getattr(_Code, name))
    GLib.Error.__new__ = staticmethod(_new_error)
    GLib.Error.__init__ = _initialize_error
    GLib.Error.__str__ = _to_message


_install()
