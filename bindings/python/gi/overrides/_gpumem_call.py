# SPDX-License-Identifier: LGPL-2.1-or-later
"""Functions that a thread of the overrides calls when an event has completed."""

import concurrent.futures
import os
import threading

from gi.repository import GLib

_lock = threading.Lock()
_context = None


def _serve(context):
    context.push_thread_default()
    while True:
        context.iteration(True)


def _get_context():
    """Returns the main context of the thread gpumem-call. asyncio and the release of data have a
    thread of their own, because a function of the program may block this thread."""
    global _context
    with _lock:
        if _context is None:
            _context = GLib.MainContext.new()
            threading.Thread(target=_serve, args=(_context,), name="gpumem-call",
                             daemon=True).start()
        return _context


def _forget_thread():
    global _lock, _context
    _lock = threading.Lock()
    _context = None


# A forked child has none of the other threads.
os.register_at_fork(after_in_child=_forget_thread)


class CallFuture(concurrent.futures.Future):
    """The future of a call. If the program drops the future without a look at its exception, Python
    prints the exception, as for an exception in a finalizer (sys.unraisablehook)."""
    _is_seen = False

    def result(self, timeout=None):
        try:
            return super().result(timeout)
        finally:
            self._is_seen = self.done()

    def exception(self, timeout=None):
        try:
            return super().exception(timeout)
        finally:
            self._is_seen = self.done()

    def __del__(self):
        if self._exception is not None and not self._is_seen:
            raise self._exception


def call(event, function, args):
    """Returns the future of function (*args), which the thread calls when the event completes."""
    if not callable(function):
        raise TypeError(f"the function must be callable, not {function!r}")
    future = CallFuture()

    def run(get_result):
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(get_result())
        except BaseException as error:
            future.set_exception(error)

    def done(source, result):
        def get_result():
            event.wait_finish(result)
            return function(*args)
        run(get_result)

    def start(*data):
        try:
            event.wait_async(None, done)
        except Exception as error:
            def fail(error=error):
                raise error
            run(fail)
        return GLib.SOURCE_REMOVE

    source = GLib.Idle(priority=GLib.PRIORITY_DEFAULT)
    source.set_callback(start)
    source.attach(_get_context())
    return future
