# SPDX-License-Identifier: LGPL-2.1-or-later
"""Tests that run on every device: pytest -p gpumem_pytest.

A test with a fixture gpu_device, gpu_context or gpu_stream runs once for each device:

    def test_fill(gpu_context):
        buffer = Gpu.Buffer(gpu_context, 100)
        buffer.fill(3)
        assert buffer.read() == b"\\3" * 100

--gpu=WORDS, or GPUMEM_TEST in the environment, selects the devices. Commas or semicolons separate
the words. A word is an id (opencl:0:0), a back end (cuda), a back end and a part of its platform
(opencl:pocl), or a part of a name. By default, tests run on all devices. Tests of unusable devices
are skipped with the reason.

A test that needs an optional capability names it, and is skipped on devices without it:

    @pytest.mark.gpu_needs("source", "fp64")

The names are those of Gpu.Capabilities. For a test of one particular device, use
@pytest.mark.parametrize("gpu_device", ["host"], indirect=True)."""

import os

import gi
import pytest

gi.require_version("Gpu", "1.0")
from gi.repository import GLib, Gpu  # noqa: E402


# --- devices -------------------------------------------------------------------------------------

def _matches(device, word):
    word = word.lower()
    if word in (device.id.lower(), device.backend):
        return True
    backend, colon, rest = word.partition(":")
    if not colon or backend != device.backend:
        return word in (device.name or "").lower()
    try:
        if Gpu.Device.find(word) == device:
            return True
    except GLib.Error:
        pass                                    # not an id
    return rest in (device.platform or "").lower()


def choose_devices(choice, source="GPUMEM_TEST"):
    """Returns the devices that a text in the format of GPUMEM_TEST selects, in its order. Errors
    name the source of the text."""
    found = Gpu.Device.list()
    chosen = []
    for word in filter(None, map(str.strip, choice.replace(";", ",").split(","))):
        matching = [device for device in found if _matches(device, word)]
        if not matching:
            raise pytest.UsageError(f"{source}: no device matches '{word}'; there are "
                                    + ", ".join(device.id for device in found))
        chosen += [device for device in matching if device not in chosen]
    return chosen


def _find_problem(check, *args):
    try:
        check(*args)
        return None
    except GLib.Error as error:
        return error.message


def _list_all():
    """Yields parameters for all devices and, marked as skipped, for unusable back ends and
    devices."""
    for backend in Gpu.Device.list_backends():
        problem = _find_problem(Gpu.Device.check_backend, backend)
        if problem is not None:
            yield pytest.param(backend, id=backend, marks=pytest.mark.skip(reason=problem))
    for device in Gpu.Device.list():
        problem = _find_problem(device.check)
        marks = [] if problem is None else [pytest.mark.skip(reason=problem)]
        yield pytest.param(device, id=device.id, marks=marks)


def _get_parameters(config):
    choice, source = config.getoption("--gpu"), "--gpu"
    if choice is None:
        choice, source = os.environ.get("GPUMEM_TEST", ""), "GPUMEM_TEST"
    if not choice.strip(" ,;"):
        return list(_list_all())
    return [pytest.param(device, id=device.id) for device in choose_devices(choice, source)]


# --- hooks ---------------------------------------------------------------------------------------

_parameters = pytest.StashKey()


def pytest_addoption(parser):
    parser.getgroup("gpumem").addoption(
        "--gpu", metavar="WORDS", help="the devices of tests with gpu_device, gpu_context or "
        "gpu_stream, as in GPUMEM_TEST")


def pytest_configure(config):
    config.addinivalue_line("markers", "gpu_needs(*names): skips the test on devices without these "
                            "Gpu.Capabilities")
    config.stash[_parameters] = _get_parameters(config)


def pytest_report_header(config):
    names = ", ".join(parameter.id for parameter in config.stash[_parameters]
                      if not parameter.marks)
    return f"gpumem {Gpu.MAJOR_VERSION}.{Gpu.MINOR_VERSION}.{Gpu.MICRO_VERSION}: {names}"


def _names_of(mark):
    """Returns the argument names of a parametrize mark, which are one string or several."""
    names = mark.args[0] if mark.args else mark.kwargs.get("argnames", ())
    return names.replace(",", " ").split() if isinstance(names, str) else names


def _is_chosen_by_test(metafunc):
    return any("gpu_device" in _names_of(mark)
               for mark in metafunc.definition.iter_markers("parametrize"))


def pytest_generate_tests(metafunc):
    if "gpu_device" in metafunc.fixturenames and not _is_chosen_by_test(metafunc):
        metafunc.parametrize("gpu_device", metafunc.config.stash[_parameters], indirect=True,
                             scope="session")


def _to_capability(name):
    if isinstance(name, Gpu.Capabilities):
        return name
    capability = getattr(Gpu.Capabilities, name.upper().replace("-", "_"), None)
    if not isinstance(capability, Gpu.Capabilities):
        raise pytest.UsageError(f"gpu_needs: Gpu.Capabilities has no '{name}'")
    return capability


@pytest.fixture(autouse=True)
def _gpu_needs(request):
    """Skips a test with gpu_needs before its other fixtures run."""
    names = [name for mark in request.node.iter_markers("gpu_needs") for name in mark.args]
    if not names:
        return
    if "gpu_device" not in request.fixturenames:
        raise pytest.UsageError(f"gpu_needs: {request.node.name}() has no gpu_device, gpu_context "
                                "or gpu_stream")
    device = request.getfixturevalue("gpu_device")
    for name in names:
        capability = _to_capability(name)
        if device.capabilities & capability != capability:
            pytest.skip(f"{device.id} lacks {' and '.join(capability.value_nicks)}")


# --- fixtures ------------------------------------------------------------------------------------

@pytest.fixture(scope="session")
def gpu_device(request):
    """The Gpu.Device under test."""
    device = request.param
    return Gpu.Device.find(device) if isinstance(device, str) else device


@pytest.fixture
def gpu_context(gpu_device):
    """A new Gpu.Context for each test. At the end it waits for pending work, whose errors fail the
    test."""
    context = Gpu.Context.new(gpu_device)
    yield context
    context.synchronize()


@pytest.fixture
def gpu_stream(gpu_context):
    """The default stream of gpu_context."""
    return gpu_context.default_stream
