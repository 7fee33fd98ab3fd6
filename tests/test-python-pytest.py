#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The plug-in for pytest. Each test runs pytest in a separate process (parity row T16)."""

import os
import re
import subprocess
import sys
import tempfile

from python_util import Gpu, Skip, choose_devices, equal, main

try:
    import pytest
except ImportError:
    pytest = None

SUITE = """
import pytest
from gi.repository import GLib, Gpu

def test_plain():
    pass

def test_device(gpu_device):
    assert isinstance(gpu_device, Gpu.Device)

def test_data(gpu_context, gpu_stream):
    assert gpu_stream.context is gpu_context
    buffer = Gpu.Buffer(gpu_context, 100)
    gpu_stream.fill(buffer, 3)
    assert buffer.read() == b"\\3" * 100

@pytest.mark.parametrize("gpu_device", ["host"], indirect=True)
@pytest.mark.parametrize("size", [1, 2])
def test_host(gpu_context, size):
    assert gpu_context.device.id == "host"

@pytest.mark.gpu_needs("source", Gpu.Capabilities.MAP)
def test_needs(gpu_device):
    assert gpu_device.capabilities & Gpu.Capabilities.SOURCE
    assert gpu_device.capabilities & Gpu.Capabilities.MAP

@pytest.mark.parametrize(argnames="size", argvalues=[4])
def test_keyword(gpu_context, size):
    assert Gpu.Buffer(gpu_context, size).size == 4

@pytest.mark.parametrize(indirect=True, argvalues=[("host",)], argnames=("gpu_device",))
def test_named(gpu_context):
    assert gpu_context.device.id == "host"

class TestClass:
    def test_method(self, gpu_device):
        assert gpu_device.id == gpu_device.id.lower()

@pytest.fixture
def filled(gpu_context):
    return Gpu.Buffer(gpu_context, b"abc")

def test_fixture(filled):
    assert filled.read() == b"abc"
"""


def run(suite, *options, **environment):
    """Runs pytest. Returns its exit status, its output, and the result of each test."""
    if pytest is None:
        raise Skip("pytest is not installed")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "test_suite.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(suite)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "gpumem_pytest", "-p", "no:cacheprovider",
             "-rA", "-v", "--strict-markers", *options, path],
            env={**os.environ, **environment}, cwd=folder, text=True, timeout=300,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    results = dict(re.findall(r"^test_suite\.py::(\S+) (PASSED|FAILED|SKIPPED|ERROR)", done.stdout,
                              re.M))
    return done.returncode, done.stdout, results


def chosen():
    return [device.id for device in choose_devices()]


def check_suite(results, output, ids):
    expected = {"test_plain", "test_host[1-host]", "test_host[2-host]", "test_named[host]"}
    for ident in ids:
        expected.add(f"test_keyword[{ident}-4]")
        expected |= {f"{name}[{ident}]" for name in
                     ("test_device", "test_data", "test_needs", "TestClass::test_method",
                      "test_fixture")}
    usable = {name: result for name, result in results.items() if result != "SKIPPED"}
    skipped = {name for name, result in results.items() if result == "SKIPPED"}
    equal(set(usable) | skipped & expected, expected, output)
    assert all(result == "PASSED" for result in usable.values()), output
    for ident in ids:
        capabilities = Gpu.Device(ident).capabilities
        has_all = capabilities & Gpu.Capabilities.SOURCE and capabilities & Gpu.Capabilities.MAP
        equal(results[f"test_needs[{ident}]"], "PASSED" if has_all else "SKIPPED")
        if not has_all:
            assert f"{ident} lacks " in output, output


def plain_chosen_devices():
    """GPUMEM_TEST selects the devices."""
    ids = chosen()
    code, output, results = run(SUITE, GPUMEM_TEST=",".join(ids))
    equal(code, 0, output)
    check_suite(results, output, ids)
    assert re.search(r"^gpumem \d+\.\d+\.\d+: " + re.escape(", ".join(ids)) + "$", output,
                     re.M), output


def plain_all_devices():
    """Without a selection, tests run on all usable devices. Other devices are listed with the
    reason."""
    code, output, results = run(SUITE, GPUMEM_TEST="")
    equal(code, 0, output)
    usable = []
    for device in Gpu.devices():
        try:
            device.check()
            usable.append(device.id)
        except Exception:
            equal(results[f"test_data[{device.id}]"], "SKIPPED")
    check_suite(results, output, usable)


def plain_words():
    """An option selects devices by names, back ends and platforms. The tests run on each device
    once, in the order of the words."""
    host = Gpu.Device("host")
    first = (host.name or "host").split()[0]
    for words, ids in (("host", ["host"]), ("HOST;host", ["host"])):
        _, output, results = run("def test_one(gpu_device): pass", f"--gpu={words}",
                                 GPUMEM_TEST="nothing-like-it")
        equal(sorted(results), [f"test_one[{ident}]" for ident in ids], output)
    _, output, results = run("def test_one(gpu_device): pass", f"--gpu={first.upper()}")
    assert "test_one[host]" in results, output
    for device in Gpu.devices():
        if device.backend == "opencl":
            word = f"opencl:{device.platform.split()[0].lower()}"
            _, output, results = run("def test_one(gpu_device): pass", f"--gpu={word},host")
            assert list(results)[-1] == "test_one[host]", output
            equal(results[f"test_one[{device.id}]"], "PASSED", output)


def plain_refused():
    """It is an error if no test of a suite can run."""
    code, output, _ = run(SUITE, GPUMEM_TEST="nothing-like-it")
    equal(code, 4, output)
    assert "no device matches 'nothing-like-it'" in output and "host" in output, output
    code, output, _ = run("""
import pytest
@pytest.mark.gpu_needs("telepathy")
def test_one(gpu_device): pass
""", GPUMEM_TEST="host")
    assert code != 0 and "no 'telepathy'" in output, output
    code, output, _ = run(SUITE, "--gpu=telepathy", GPUMEM_TEST="host")
    equal(code, 4, output)
    assert "--gpu: no device matches 'telepathy'" in output, output
    code, output, results = run("""
import pytest
@pytest.mark.gpu_needs("source")
def test_one(): pass
""", GPUMEM_TEST="host")
    equal((code, results), (1, {"test_one": "ERROR"}), output)
    assert "gpu_needs: test_one() has no gpu_device" in output, output


def plain_failures():
    """Failing tests are reported, including tests whose work on the device fails after their
    end."""
    code, output, results = run("""
from gi.repository import GLib, Gpu
def test_wrong(gpu_context):
    assert Gpu.Buffer(gpu_context, b"abc").read() == b"abd"
def test_late(gpu_context, gpu_stream):
    event = Gpu.Event.new_user(gpu_context)
    gpu_stream.wait_event(event)
    event.fail("too late")
""", GPUMEM_TEST="host")
    equal(code, 1, output)
    equal(results["test_wrong[host]"], "FAILED", output)
    assert "ERROR test_suite.py::test_late[host]" in output and "too late" in output, output


if __name__ == "__main__":
    sys.exit(main(globals()))
