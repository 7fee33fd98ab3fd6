# SPDX-License-Identifier: LGPL-2.1-or-later
"""Exceptions of functions of the program that the library calls: allocators, handlers of signals,
and functions for memory of other libraries. A GError only has a message, and most of these
functions have no GError. So the call of the library that runs such a function keeps the exception,
if both are on the same thread, and raises it at its end."""

import functools
import threading

from ._gpumem_native import fast


class _Frame:
    """A call of the library."""
    __slots__ = ("function", "kept", "cause", "message")

    def __init__(self, function):
        self.function, self.kept, self.cause, self.message = function, None, None, None


class _Frames(threading.local):
    current = None


_frames = _Frames()


def run(function, *args, **kwargs):
    """Calls a function of the library, and raises the exception of a callback that it ran."""
    outer, frame = _frames.current, _Frame(function)
    _frames.current = frame
    try:
        result = function(*args, **kwargs)
    except BaseException:
        if frame.kept is None:
            raise
    finally:
        _frames.current = outer
        frame.cause = None                      # its traceback keeps the result alive
    if frame.kept is None:
        return result
    kept, result, frame = frame.kept, None, None
    try:
        raise kept
    finally:
        del kept                                # otherwise a cycle keeps the frames of the callers


def keep(exception):
    """Lets the innermost call of the library on this thread raise an exception at its end. Returns
    False if there is no call, or if the call already keeps an exception. An interrupt takes the
    place of an Exception."""
    frame = _frames.current
    if frame is None or frame.kept is not None and (isinstance(exception, Exception)
                                                    or not isinstance(frame.kept, Exception)):
        return False
    frame.kept = exception
    return True


def keep_cause(message, exception):
    """Lets the error of the call with this message have the exception as its __cause__. None drops
    the cause of an earlier error of the same call, which the library has handled."""
    frame = _frames.current
    if frame is not None:
        frame.cause, frame.message = exception, message


def take_cause(message):
    """Returns the cause of an error with this message, or None."""
    frame = _frames.current
    if frame is None or frame.cause is None or frame.message not in message:
        return None
    cause, frame.cause = frame.cause, None
    return cause


def get_call():
    """Returns the name of the method of the innermost call of the library on this thread, or None,
    and the names of the C functions that it calls, or the function of PyGObject, or None."""
    return None, None if _frames.current is None else _frames.current.function


if fast is not None:
    run, keep, keep_cause, take_cause, get_call = (fast.run, fast.keep, fast.keep_cause,
                                                   fast.take_cause, fast.get_call)


def guarded(function):
    """Decorates a function that the library calls and that cannot return an error. Without a call
    that keeps the exception, PyGObject prints it."""
    @functools.wraps(function)
    def guarded(*args):
        try:
            return function(*args)
        except BaseException as exception:
            if not keep(exception):
                raise
    return guarded


class Handler:
    """The handler of a signal. It is equal to the function of the program, so that
    disconnect_by_func() finds it."""
    __slots__ = ("_function", "_guarded")

    def __init__(self, function):
        self._function, self._guarded = function, guarded(function)

    def __call__(self, *args):
        return self._guarded(*args)

    def __eq__(self, other):
        return self._function == (other._function if isinstance(other, Handler) else other)

    def __hash__(self):
        return hash(self._function)
