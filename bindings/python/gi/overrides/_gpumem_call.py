# SPDX-License-Identifier: LGPL-2.1-or-later
"""Functions that a thread of the overrides calls when an event has completed."""

import concurrent.futures
import functools

from gi.repository import GLib

from ._gpumem import LoopThread
from ._gpumem_errors import NotSupportedError
from ._gpumem_names import find_caller, name_call, run_for

# asyncio and the release of data have a thread of their own, because a function of the program may
# block this thread.
_run_later = LoopThread("gpumem-call").run_later


class CallFuture(concurrent.futures.Future):
    """The future of a call. If the program drops the future without a look at its exception, Python
    prints the exception, as for an exception in a finalizer (sys.unraisablehook)."""
    _is_seen = False

    # The traceback of the exception refers to the frames of these methods. Without self, they make
    # no cycle, which would keep the arguments of the call until the garbage collector runs.

    def result(self, timeout=None):
        try:
            return super().result(timeout)
        finally:
            self._is_seen = self.done()
            del self

    def exception(self, timeout=None):
        try:
            return super().exception(timeout)
        finally:
            self._is_seen = self.done()
            del self

    def __del__(self):
        try:
            if self._exception is not None and not self._is_seen:
                raise self._exception
        finally:
            del self


def _run(future, function, *args):
    """Sets the future to the result or the exception of function (*args). The traceback of the
    exception refers to the frame of this function and, through f_back, to those of its callers. So
    none of these frames keeps the future, which would be a cycle."""
    try:
        if future.set_running_or_notify_cancel():
            future.set_result(function(*args))
    except BaseException as error:
        trace = error.__traceback__
        future.set_exception(error.with_traceback(trace and trace.tb_next))
    finally:
        del future, function, args
        trace = None


def _finish(event, result, caller, function, args):
    try:
        run_for(caller, functools.partial(event.wait_finish, result))
    except GLib.Error as error:
        name_call(error, caller)
        raise
    return function(*args)


def _refuse_captured(event, caller):
    """Raises an error for an event of a stream that is being captured. The thread would take the
    captured work for complete work after the capture, and call the function once, not after each
    launch of the graph."""
    context = event.context
    if context is not None and context.device.backend != "cuda":
        return
    try:
        event.query()
    except NotSupportedError as error:
        name_call(error, caller)
        raise
    except GLib.Error:
        if context is None:
            raise
        # an error of the work: the future gets it


def call(event, function, args, queue):
    """Returns the future of function (*args), which the thread calls when the event completes, and
    after the earlier calls of the queue. The events of a queue complete in their order. Only the
    thread uses the queue, a deque: its first item starts the current call."""
    if not callable(function):
        raise TypeError(f"the function must be callable, not {function!r}")
    caller = find_caller()
    _refuse_captured(event, caller)
    future = CallFuture()
    pending = [future]                          # until _run() takes it

    def done(source, result):
        _run(pending.pop(), _finish, event, result, caller, function, args)
        start_next()

    def start_next():
        queue.popleft()
        if queue:
            queue[0]()

    def start():
        try:
            event.wait_async(None, done)
        except Exception as error:
            failed = pending.pop()
            if failed.set_running_or_notify_cancel():
                failed.set_exception(error)
            del failed
            start_next()

    def enqueue(*data):
        queue.append(start)
        if len(queue) == 1:
            start()
        return GLib.SOURCE_REMOVE

    _run_later(enqueue)
    return future
