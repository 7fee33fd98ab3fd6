# SPDX-License-Identifier: LGPL-2.1-or-later
"""Functions for all Python tests: devices, errors, waits, and TAP."""

import faulthandler
import gc
import os
import re
import subprocess
import sys
import threading
import time
import traceback

import gi

gi.require_version("Gpu", "1.0")
from gi.repository import Gio, GLib, GObject, Gpu  # noqa: E402

try:
    import numpy as np
except ImportError:
    np = None

# Functions and constants of the C library, which no message of Python names
C_NAME = re.compile(r"\bgpu_[a-z_]+\b(?!\.)|\bGPU_[A-Z_]+\b")

DEADLINE = 240          # seconds after which a wait or a program of a test counts as hung

SOURCE = """
__kernel void
scale (__global float *numbers, float factor)
{
  numbers[get_global_id (0)] *= factor;
}

__kernel void
add (__global uint *numbers, uint summand)
{
  numbers[get_global_id (0)] += summand;
}

__kernel void
triple (__global uint *numbers)
{
  numbers[get_global_id (0)] *= 3;
}

__kernel void
kinds (__global double *out, char a, uchar b, short c, ushort d, int e, uint f, long g, ulong h,
       float i)
{
  out[0] = a;
  out[1] = b;
  out[2] = c;
  out[3] = d;
  out[4] = e;
  out[5] = f;
  out[6] = (double) g;
  out[7] = (double) h;
  out[8] = i;
}

__kernel void
place (__global uint *out)
{
  size_t x = get_global_id (0);
  size_t y = get_global_id (1);
  size_t z = get_global_id (2);
  size_t i = (z * get_global_size (1) + y) * get_global_size (0) + x;

  out[i] = (uint) (x + 100 * y + 10000 * z + 1000000 * get_local_size (0));
}

__kernel void
reverse (__global uint *numbers, __local uint *shared)
{
  size_t i = get_local_id (0);

  shared[i] = numbers[get_global_id (0)];
  barrier (CLK_LOCAL_MEM_FENCE);
  numbers[get_global_id (0)] = shared[get_local_size (0) - 1 - i];
}

__kernel void
is_null (__global uint *out, __global const uint *pointer)
{
  out[0] = pointer == 0;
}
"""


class Skip(Exception):
    pass


class Fixture:
    """One device, with a new context."""

    def __init__(self, device):
        self.device = device
        self.context = Gpu.Context(device)
        self.stream = self.context.get_default_stream()

    def buffer(self, size_or_data, flags=Gpu.MemoryFlags.NONE):
        return Gpu.Buffer(self.context, size_or_data, flags)

    def program(self):
        need(self, Gpu.Capabilities.SOURCE)
        return Gpu.Program(self.context, SOURCE)

    def new_stream(self):
        return Gpu.Stream.new(self.context, Gpu.StreamFlags.NONE)

    def user_event(self):
        need(self, Gpu.Capabilities.USER_EVENTS)
        return Gpu.Event.new_user(self.context)

    def gate(self, stream, must_hold=True):
        """Returns a user event that blocks the stream until the test completes the event. On a
        device without user events, skips the test if `must_hold` is true, and otherwise returns an
        object that blocks nothing."""
        if not must_hold and not self.device.capabilities & Gpu.Capabilities.USER_EVENTS:
            return NoGate()
        gate = self.user_event()
        stream.wait_event(gate)
        gate.holds = True
        return gate


class BufferAllocator(GObject.Object, Gpu.Allocator):
    """An allocator in Python that creates a buffer for each request."""

    def __init__(self, context):
        super().__init__()
        self.context = context

    def do_get_context(self):
        return self.context

    def do_alloc(self, size, stream):
        return Gpu.Buffer(self.context, size)


class NoGate:
    holds = False

    def complete(self):
        pass


class raises:
    """A context manager. The body of its `with` statement must raise the exception of this type, or
    a Gpu.Error with this code, whose message contains these words."""

    def __init__(self, what, *words):
        assert all(isinstance(word, str) for word in words), "only strings: use a with statement"
        self.what = what
        self.words = words

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        assert kind is not None, f"no error where {self.what} must be"
        if isinstance(self.what, type):
            assert issubclass(kind, self.what), f"{kind}: {error} instead of {self.what}"
        else:
            assert issubclass(kind, GLib.Error), f"{kind}: {error} instead of {self.what}"
            assert error.matches(Gpu.error_quark(), self.what), \
                f"{error.domain} {error.code}: {error.message} instead of {self.what}"
        self.text, self.args, self.cause = str(error), error.args, error.__cause__
        for word in self.words:
            assert word in str(error), f"'{word}' is not in '{error}'"
        c_name = C_NAME.search(str(error))
        assert c_name is None, f"'{error}' has the name {c_name[0]} of C"
        # The traceback holds references to the local variables of the test. Drop it, because the
        # test may check that these objects are freed.
        error.__traceback__ = None
        return True


def equal(got, expected, what="value"):
    if got != expected:
        raise AssertionError(f"{what} is {repr(got)[:200]}, not {repr(expected)[:200]}")


def need_numpy():
    if np is None:
        raise Skip("NumPy is not installed")


def need(fixture, capability):
    if not fixture.device.capabilities & capability:
        raise Skip(f"{fixture.device.id} lacks {capability.first_value_nick}")


def run_threads(n_threads, function):
    """Calls function (number) in each of several threads, and waits for them. Raises the first
    error."""
    errors = []

    def run(number):
        try:
            function(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,), daemon=True)
               for number in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
        assert not thread.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]


def spin(done, context=None):
    """Runs the main context until done() returns true."""
    context = context or GLib.MainContext.default()
    deadline = time.monotonic() + DEADLINE
    tick = GLib.timeout_source_new(10)
    tick.set_callback(lambda *data: True)
    tick.attach(context)
    try:
        while not done():
            assert time.monotonic() < deadline, "the main context was not called in time"
            context.iteration(True)
    finally:
        tick.destroy()


# --- running -------------------------------------------------------------------------------------

def matches(device, word):
    """Returns whether the word is the id or the back end of the device, or a part of the name of
    its platform or of the device, as in test-util.c."""
    if word in (device.id, device.backend):
        return True
    if word.startswith(device.backend + ":"):
        try:
            if Gpu.Device.find(word) == device:
                return True
        except GLib.Error:
            pass
        return word.partition(":")[2].lower() in (device.platform or "").lower()
    return word.lower() in device.name.lower()


def choose_devices():
    choice = os.environ.get("GPUMEM_TEST", "").replace(";", ",")
    words = [word.strip() for word in choice.split(",") if word.strip()]
    chosen = []
    for device in Gpu.devices():
        if words:
            if any(matches(device, word) for word in words):
                chosen.append(device)
            continue
        try:
            device.check()
            chosen.append(device)
        except GLib.Error as error:
            print(f"# {device.id}: {error.message}")
    if not chosen:
        sys.exit(f"no device to test: GPUMEM_TEST is '{choice}'")
    return chosen


def check_nothing_lives():
    deadline = time.monotonic() + DEADLINE
    while True:
        gc.collect()
        while GLib.MainContext.default().iteration(False):
            pass
        alive = Gpu.debug_list_live_objects().unpack()
        if not alive:
            return
        assert time.monotonic() < deadline, f"still alive: {alive}"
        time.sleep(0.001)


def trace_lines(frame, event, arg):
    """Traces each line of a test before the line runs. If a driver crashes, the last printed line
    is the line of the crash."""
    name = os.path.basename(frame.f_code.co_filename)
    if not name.startswith("test-python"):
        return None
    if event == "line":
        print(f"# {name}:{frame.f_lineno} {frame.f_code.co_name}", file=sys.stderr, flush=True)
    return trace_lines


def run_case(func, device):
    if os.environ.get("GPUMEM_TEST_VERBOSE"):
        sys.settrace(trace_lines)
    try:
        if device is None:
            func()
        else:
            func(Fixture(device))
    finally:
        sys.settrace(None)


def run_without_fast(file, *words, **environment):
    """Runs the tests of a file again, in a process without the C module."""
    if os.environ.get("GPUMEM_PYTHON_FAST") == "0":
        raise Skip("this run has no C module")
    result = subprocess.run([sys.executable, file, *words], timeout=600, text=True,
                            env=dict(os.environ, GPUMEM_PYTHON_FAST="0", **environment),
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert result.returncode == 0 and "\nnot ok" not in result.stdout, result.stdout
    assert "\nok" in result.stdout, result.stdout


def main(functions, form="{device}/{test}"):
    """Runs plain_NAME once and test_NAME on every device."""
    faulthandler.enable()
    cases = [(name[6:], func, None) for name, func in functions.items()
             if name.startswith("plain_")]
    for device in choose_devices():
        cases += [(form.format(device=device.id, test=name[5:]), func, device)
                  for name, func in functions.items() if name.startswith("test_")]
    cases = [case for case in cases if all(word in case[0] for word in sys.argv[1:])]
    failed = 0
    print(f"1..{len(cases)}")
    for number, (name, func, device) in enumerate(cases, 1):
        text = f"ok {number} - {name}"
        try:
            run_case(func, device)
        except Skip as reason:
            text += f" # SKIP {reason}"
        except BaseException:
            failed += 1
            text = "not " + text
            print("# " + traceback.format_exc().replace("\n", "\n# "))
        try:
            check_nothing_lives()
        except AssertionError as error:
            if not text.startswith("not"):
                failed += 1
                text = "not " + text
            print(f"# {error}")
        print(text, flush=True)
    return failed > 0

