# SPDX-License-Identifier: LGPL-2.1-or-later
"""repr() of classes whose overrides define none, on one line. It only calls getters that do not
block, since a debugger may show objects at any time."""

from ..module import get_introspection_module

Gpu = get_introspection_module("Gpu")


def _device(context):
    if context is None:
        return "no device"
    return ", ".join(device.get_id() for device in context.list_devices())


def _name(instance):
    return f"Gpu.{type(instance).__name__}"


def _device_model(self):
    count = self.props.n_items
    state = "loading" if self.props.loading else f"of {count} device{'s' * (count != 1)}"
    return f"<{_name(self)} {state}>"


def _event(self):
    user = "user event " if self.get_property("user") else ""
    return f"<{_name(self)} {user}on {_device(self.props.context)}>"


def _program(self):
    options = self.get_property("options")
    source = self.get_property("source")
    parts = [f"on {_device(self.get_context())}"]
    if source is not None:
        parts.append(f"of {len(source)} characters")
    if options:
        parts.append(f"with '{options}'")
    if self.is_from_cache():
        parts.append("from the cache")
    return f"<{_name(self)} {' '.join(parts)}>"


def _launch(self):
    text = " x ".join(map(str, self.get_grid()))
    block = self.get_block()
    if block is not None:
        text += " in groups of " + " x ".join(map(str, block))
    return f"<{_name(self)} of {self.get_kernel().get_name()} over {text}>"


def _arguments(self):
    return f"<{_name(self)}, {self.get_length()} of them>"


def _flags(flags):
    return ", " + "|".join(flags.value_nicks) if flags else ""


def _basic_allocator(self):
    stream = " on a stream" if self.props.stream is not None else ""
    return f"<{_name(self)} of {_device(self.get_context())}{stream}{_flags(self.props.flags)}>"


def _host_allocator(self):
    return (f"<{_name(self)} of {_device(self.context)}, {self.props.active_bytes} bytes in "
            f"use, {self.props.held_bytes} held>")


def _adaptor(self):
    return f"<{_name(self)}{_state(self)} over {self.props.upstream!r}>"


def _state(self):
    if isinstance(self, Gpu.LimitAllocator):
        return f" at {self.props.active_bytes} of {self.props.limit} bytes"
    if isinstance(self, Gpu.StatisticsAllocator):
        return " with {current-bytes} bytes in use".format(**self.get_counters().unpack())
    if isinstance(self, Gpu.DeferredFreeAllocator):
        return f" with {self.props.pending_bytes} bytes to free"
    if isinstance(self, Gpu.TrackingAllocator) and self.tag:
        return f" at '{self.tag}'"
    return ""


def install():
    """Sets repr(). Call this after all overrides: a base class must be overridden before its
    subclasses are created."""
    Gpu.DeviceModel.__repr__ = _device_model
    Gpu.Event.__repr__ = _event
    Gpu.Program.__repr__ = _program
    Gpu.Launch.__repr__ = _launch
    Gpu.Arguments.__repr__ = _arguments
    Gpu.BasicAllocator.__repr__ = _basic_allocator
    Gpu.HostAllocator.__repr__ = _host_allocator
    Gpu.AllocatorAdaptor.__repr__ = _adaptor
