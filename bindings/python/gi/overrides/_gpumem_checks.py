# SPDX-License-Identifier: LGPL-2.1-or-later
"""Strict checks of the arguments of all functions of the library. PyGObject truncates a fraction
that is passed for an integer or an enumeration, takes True for 1, and ends a string at a null
character; here each of these raises an error. Wrong values for properties also raise errors, except
in GObject.new() and GObject.Object.__init__(), which belong to PyGObject: the classes here have
constructors of their own."""

import ctypes
import functools
import numbers
import operator
import reprlib
import sys

from gi._gi import Direction, EnumInfo, FunctionInfo, TypeTag
from gi._gi import GObject as _GObject
from gi.repository import GObject

from ..module import get_introspection_module
from ._gpumem_callbacks import Handler, run
from ._gpumem_names import GENERATED, to_python
from ._gpumem_native import fast
from ._gpumem_protocols import find_stream_handle

Gpu = get_introspection_module("Gpu")

# Integer types, with their limits
_INTEGERS = {getattr(TypeTag, f"{prefix}INT{bits}"): limits
             for bits in (8, 16, 32, 64)
             for prefix, limits in (("", (-(1 << bits - 1), (1 << bits - 1) - 1)),
                                    ("U", (0, (1 << bits) - 1)))}
_STRINGS = {TypeTag.UTF8, TypeTag.FILENAME}

_OVERRIDES = "gi.overrides.Gpu"

_MAX_SIZE = ctypes.c_size_t(-1).value

# Classes whose functions check nothing: True is a valid value of a kernel argument.
_UNCHECKED = {"Arguments"}


def find_doc(owner, name):
    """Returns the docstring of a function of the library, which the C module has."""
    return None if fast is None else fast.get_doc(owner, name)


def to_items(function, data):
    """Returns the further arguments of a progress function. PyGObject takes a tuple, and reports
    other values only in the main loop."""
    if function is not None and not callable(function):
        raise TypeError(f"progress_callback must be a function or None, not {function!r}")
    if data is not None and not isinstance(data, tuple):
        raise TypeError(f"progress_data must be a tuple or None, not {data!r}")
    return data or ()


def to_index(value, name):
    """Converts to int anything that operator.index() accepts, except booleans."""
    if type(value) is int:
        return value
    if type(value).__name__ not in ("bool", "bool_"):       # also those of NumPy
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise TypeError(f"{name} must be a whole number, not {describe(value)}")


def to_size(value, name, maximum=_MAX_SIZE):
    """Converts to an int in the range of a size of C."""
    number = to_index(value, name)
    if not 0 <= number <= maximum:
        raise OverflowError(f"{name} must be 0 to {maximum}, not {number}")
    return number


def refuse_on_device(name):
    """Raises TypeError for a Gpu.Array in place of numbers of the host."""
    raise TypeError(f"{name} must be in the memory of the host, not in a Gpu.Array: pass "
                    f"{name}.to_numpy()")


def to_indices(value, name):
    """Converts a sequence to a list of ints. Leaves bytes to PyGObject."""
    if type(value) in (list, tuple):
        for item in value:
            if type(item) is not int:
                break
        else:
            return value
    elif isinstance(value, (bytes, bytearray)):
        return value
    if isinstance(value, Gpu.Array):            # each item would be a copy and a wait
        refuse_on_device(name)
    try:
        items = iter([value] if isinstance(value, str) else value)
    except TypeError:                           # also of an array of NumPy without dimensions
        raise TypeError(f"{name} must be a sequence of whole numbers, not {describe(value)}") \
            from None
    return [to_index(item, f"{name}[{i}]") for i, item in enumerate(items)]


def name_type(kind):
    """Returns the name of a class as programs write it."""
    is_ours = kind.__module__ in ("Gpu", "gi.repository.Gpu", _OVERRIDES)
    return f"Gpu.{kind.__name__}" if is_ours else kind.__name__


def to_enum(value, name, kind):
    """Returns the value of an enumeration for its number. Does not convert values of other
    enumerations and of flags, nor booleans."""
    if isinstance(value, kind):
        return value
    if not isinstance(value, (GObject.GEnum, GObject.GFlags)):
        try:
            return kind(to_index(value, name))
        except (TypeError, ValueError, OverflowError):  # not a number of the enumeration
            pass
    raise TypeError(f"{name} must be of type {name_type(kind)}, not {describe(value)}")


def to_text(value, name):
    """Returns the text; raises ValueError if it has a null character."""
    if isinstance(value, str):
        offset = value.find("\0")
    elif isinstance(value, bytes):
        offset = value.find(b"\0")
    elif value is None or hasattr(value, "__fspath__"):
        offset = -1
    else:
        raise TypeError(f"{name} must be a str, not {value!r}")
    if offset >= 0:
        raise ValueError(f"{name} has a null character at offset {offset} of {len(value)}")
    return value


def to_texts(value, name):
    if value is None or isinstance(value, (str, bytes)):
        return value
    return [to_text(item, f"{name}[{i}]") for i, item in enumerate(value)]


def describe(value):
    """Returns a short text for a value in a message. PyGObject shows enumerations by names of C."""
    if isinstance(value, (GObject.GEnum, GObject.GFlags)):
        return to_python(repr(value))
    kind = type(value)
    if isinstance(value, GObject.Object) and name_type(kind) != kind.__name__:
        return name_type(kind)                  # reprlib would cut the middle of the repr
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:      # a number of NumPy has the shape ()
        return f"an array of type {getattr(value, 'dtype', '?')} and shape {shape}"
    return reprlib.repr(value)


def to_stream(value, name, others):
    """Returns a Gpu.Stream for a stream of another library, which has __cuda_stream__(). others are
    the other arguments, one of which has the context. Leaves anything else to PyGObject."""
    if isinstance(value, Gpu.Stream):
        return value
    found = find_stream_handle(value, name)
    if found is None:
        return value
    for other in others:
        context = other if isinstance(other, Gpu.Context) else getattr(other, "context", None)
        if isinstance(context, Gpu.Context):
            break
    else:
        raise TypeError(f"{name} is a {type(value).__name__}: there is no context for which to "
                        "wrap it; pass a Gpu.Stream")
    if context.device.backend != "cuda":
        raise TypeError(f"{name} is a {type(value).__name__}, a CUDA stream, but the context is "
                        f"of {context.device.id}")
    return Gpu.Stream.new_wrapped(context, found, Gpu.WrapMode.BORROW)


def get_stream(stream, context):
    """Returns the stream, which may be of another library; the default stream for None. Raises
    TypeError for anything else."""
    return context.get_default_stream() if stream is None \
        else checked(to_stream(stream, "stream", (context,)), Gpu.Stream, "stream")


def checked(value, kind, name):
    """Returns the value of an argument; raises TypeError for another type. Without this check,
    values of different enumerations and flags would be interchangeable, since all are ints."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be of type {name_type(kind)}, not {describe(value)}")
    return value


def _property_type(spec):
    """Returns the Python type of a property. In newer PyGObject (3.50 in Debian 13) the default
    value of an enumeration is a plain int."""
    if spec.value_type.is_a(GObject.TYPE_ENUM):
        return getattr(Gpu, spec.value_type.name.removeprefix("Gpu"))
    return type(spec.default_value)


def to_property(name, value, spec):
    """Checks type and limits of a value for a property. GObject itself would truncate a fraction,
    and only warn about a value outside the limits."""
    kind = _property_type(spec)
    if kind not in (int, float):
        return checked(value, kind, name)
    if isinstance(value, bool) \
            or not isinstance(value, numbers.Integral if kind is int else numbers.Real):
        raise TypeError(f"{name} must be of type {name_type(kind)}, not {describe(value)}")
    if not spec.minimum <= value <= spec.maximum:
        raise ValueError(f"{name} must be {spec.minimum} to {spec.maximum}, not {value!r}")
    return kind(value)


def _describe(info, name, new_name):
    """Calls a method that has another name in newer versions of PyGObject."""
    return getattr(info, new_name if hasattr(info, new_name) else name)()


def _type_of(info):
    return _describe(info, "get_type", "get_type_info")


def _length_of(type_info):
    return _describe(type_info, "get_array_length", "get_array_length_index")


def set_stream_class(stream_class):
    """Streams of this class need no call of to_stream()."""
    _NAMES["stream_"] = stream_class


def _find_interface_check(interface):
    """Returns the type of an argument that is an enumeration of the library, to_stream() for a
    stream, or None."""
    if interface.get_namespace() != "Gpu":
        return None
    if interface.get_name() == "Stream":
        return to_stream
    if not isinstance(interface, EnumInfo):
        return None
    kind = getattr(Gpu, interface.get_name())
    return kind if issubclass(kind, GObject.GEnum) else None        # flags reject True and 5.5


def _find_check(type_info):
    tag = type_info.get_tag()
    if tag in _INTEGERS:
        return to_index
    if tag in _STRINGS:
        return to_text
    if tag == TypeTag.INTERFACE:
        return _find_interface_check(type_info.get_interface())
    if tag == TypeTag.ARRAY:
        tag = type_info.get_param_type(0).get_tag()
        if tag in _STRINGS:
            return to_texts
        if tag in _INTEGERS and tag not in (TypeTag.INT8, TypeTag.UINT8):
            return to_indices
    return None


def _list_arguments(info):
    """Lists the arguments that Python passes, without the object or the class."""
    arguments = info.get_arguments()
    hidden = {_length_of(info.get_return_type())}
    for argument in arguments:
        hidden.add(_describe(argument, "get_destroy", "get_destroy_index"))
        hidden.add(_length_of(_type_of(argument)))
    return [argument for i, argument in enumerate(arguments)
            if i not in hidden and argument.get_direction() != Direction.OUT]


def find_checks(info):
    """Returns a list of (name, check) for the arguments that Python passes. check is a function,
    the type of an enumeration, or None."""
    return [(argument.get_name(), _find_check(_type_of(argument)))
            for argument in _list_arguments(info)]


# The source line of each check. The line calls the check only if the argument may be wrong, because
# the call takes ten times as long as the condition before it. The names in _NAMES end in an
# underscore, unlike the name of any argument.
_LINES = {
    to_index: "if type_({0}) is not int_: {0} = to_index_({0}, {0!r})",
    to_indices: "if {0} is not None: {0} = to_indices_({0}, {0!r})",
    to_text: "if {0} is not None and (type_({0}) is not str_ or '\\0' in {0}):"
             " {0} = to_text_({0}, {0!r})",
    to_texts: "if {0} is not None: {0} = to_texts_({0}, {0!r})",
    to_stream: "if {0} is not None and type_({0}) is not stream_:"
               " {0} = to_stream_({0}, {0!r}, ({1}))",
}

# The line for enumerations, whose types are names in the namespace as well
_ENUM_LINE = "if type_({0}) is not {1}_: {0} = to_enum_({0}, {0!r}, {1}_)"

_NAMES = {"type_": type, "int_": int, "str_": str, "to_enum_": to_enum, "to_index_": to_index,
          "to_indices_": to_indices, "to_text_": to_text, "to_texts_": to_texts,
          "stream_": None, "to_stream_": to_stream,
          "errors_": (OverflowError, RuntimeError, TypeError), "run_": run}


def _list_parameters(info, has_self):
    """Returns the parameters of the Python function, and the arguments that it passes to PyGObject.
    As in PyGObject, the caller may omit trailing arguments that may be None, and may pass any
    number of arguments for a callback."""
    arguments = _list_arguments(info)
    passed = [argument.get_name() for argument in arguments]
    parameters = list(passed)
    optional = len(arguments)
    closures = {_describe(argument, "get_closure", "get_closure_index")
                for argument in info.get_arguments()} - {-1}
    if closures:
        optional -= 1
        parameters[optional] = passed[optional] = "*" + passed[optional]
    while optional > 0 and arguments[optional - 1].may_be_null():
        optional -= 1
        parameters[optional] += "=None"
    first = ["self_"] * has_self
    return ", ".join(first + parameters), ", ".join(first + passed)


def _name_type(type_info):
    """Returns the name of the type of an argument, or None for a type without a name."""
    tag = type_info.get_tag()
    if tag in _STRINGS:
        return "a str"
    if tag != TypeTag.INTERFACE:
        return None
    interface = type_info.get_interface()
    return f"of type {interface.get_namespace()}.{interface.get_name()}"


def _find_class(type_info):
    """Returns the class of the library that is the type of an argument, or None."""
    if type_info.get_tag() != TypeTag.INTERFACE:
        return None
    interface = type_info.get_interface()
    kind = getattr(Gpu, interface.get_name(), None) if interface.get_namespace() == "Gpu" else None
    return kind if isinstance(kind, type) else None


def _is_of_class(value, kind):
    """Returns whether PyGObject accepts a value for an argument of a class of the library. Other
    types are not checked."""
    if kind is None or isinstance(value, kind):
        return True
    # PyGObject takes 0 for flags, and numbers for enumerations
    return isinstance(value, int) and (issubclass(kind, GObject.GEnum)
                                       or issubclass(kind, GObject.GFlags) and value == 0)


_HINT = "; Gpu.FunctionAllocator(context, function) is an allocator of a function of the size"


def _explain_type(info, error, values):
    """Returns an exception that names the argument of a wrong type, and its value. PyGObject
    reports the position of None only, and not all arguments by name."""
    inner = error.__traceback__.tb_next
    if inner is not None and fast is None:      # the frame of run()
        inner = inner.tb_next
    # An error of a function that PyGObject called has further frames
    if inner is not None:
        return error
    for argument in _list_arguments(info):
        type_info, name = _type_of(argument), argument.get_name()
        if name not in values or values[name] is None and argument.may_be_null():
            continue
        expected = _name_type(type_info)
        if values[name] is None:
            what = "None" if expected is None else f"{expected}, not None"
            return TypeError(f"{name} must {'not be' if expected is None else 'be'} {what}")
        kind = _find_class(type_info)
        if not _is_of_class(values[name], kind):
            hint = _HINT if kind is Gpu.Allocator and callable(values[name]) else ""
            return TypeError(f"{name} must be {expected}, not {describe(values[name])}{hint}")
    return error


def _recover(error):
    """Returns the exception that PyGObject has replaced with a RuntimeError: that of a signal
    handler, which Python ran during the conversion of a GError. PyGObject has printed it, and has
    thereby stored it in sys."""
    if type(error) is RuntimeError and error.args == ("Converting the GError failed",):
        stored = vars(sys)
        error = stored.pop("last_value", error)
        for name in "last_type", "last_traceback", "last_exc":
            stored.pop(name, None)
    return error


def _explain(info, error, values):
    """Returns an exception that names the argument that PyGObject has rejected. values has the
    arguments by name."""
    if isinstance(error, RuntimeError):         # also a GLib.Error
        return _recover(error)
    if isinstance(error, OverflowError):
        return _explain_overflow(info, error, values)
    return _explain_type(info, error, values)


def _explain_overflow(info, error, values):
    """Returns an exception that names the argument that is out of range. PyGObject only reports
    the value."""
    for argument in _list_arguments(info):
        type_info, name = _type_of(argument), argument.get_name()
        value = values.get(name)
        is_array = type_info.get_tag() == TypeTag.ARRAY
        limits = _INTEGERS.get((type_info.get_param_type(0) if is_array else type_info).get_tag())
        for index, number in enumerate(value if isinstance(value, (list, tuple)) else [value]):
            if limits and isinstance(number, int) and not limits[0] <= number <= limits[1]:
                where = f"{name}[{index}]" if is_array else name
                return OverflowError(f"{where} must be {limits[0]} to {limits[1]}, not {number}")
    return error


def _strict(info, checks, has_self):
    """Compiles a function with the parameters of info, because a function with *args and **kwargs
    would unpack a tuple and a dictionary at each call."""
    parameters, passed = _list_parameters(info, has_self)
    lines = [f"def {info.__name__}({parameters}):"]
    others = "".join(f"{name}, " for name in ["self_"] * has_self + [name for name, _ in checks])
    kinds = {check for _, check in checks if isinstance(check, type)}
    lines += [_ENUM_LINE.format(name, check.__name__) if check in kinds
              else _LINES[check].format(name, others)
              for name, check in checks if check is not None]
    values = ", ".join(f"{name!r}: {name}" for name, _ in checks)
    lines += [f"try: return run_(call_, {passed})",
              "except errors_ as error_:",
              f" explained_ = explain_(error_, {{{values}}})",
              " if explained_ is error_:",
              "  del explained_",                # otherwise a cycle keeps the frames of the callers
              "  raise",
              "try: raise explained_",
              "finally: del explained_"]
    names = dict(_NAMES, call_=info, explain_=functools.partial(_explain, info),
                 **{kind.__name__ + "_": kind for kind in kinds})
    exec(compile("\n ".join(lines), GENERATED, "exec"), names)
    call = names[info.__name__]
    owner = info.get_container().get_name() if info.get_container() is not None else ""
    call.__qualname__ = f"{owner}.{info.__name__}" if owner else info.__name__
    call.__doc__ = find_doc(owner, info.__name__) or info.__doc__
    # Not __wrapped__, which inspect.signature() would follow to the function of PyGObject
    call._info = info
    return call


def _to_callable(info):
    """Returns a function with checks, a docstring and a signature. Its first argument is the object
    or the class, if there is one."""
    checks = find_checks(info)
    if info.get_container() is not None and info.get_container().get_name() in _UNCHECKED:
        checks = [(name, None) for name, _ in checks]
    return _strict(info, checks, info.is_method() or info.is_constructor())


def _check_arguments(info, is_module=False):
    call = _to_callable(info)
    if info.is_constructor():
        return classmethod(call)
    return call if info.is_method() or is_module else staticmethod(call)


def _find_fast(owner, info):
    """Returns the C function for a function, or None. The C function calls _to_callable() when it
    needs the function that it replaces."""
    return None if fast is None else fast.new_function(owner, info.__name__, info, _to_callable)


# Decorators of methods, by the names of the class and of the method
DECORATORS = {}


class _Deferred:
    """A placeholder for a function until its first use. A program uses few of the 500 functions,
    and compiling all of them would double the time of the import."""
    __slots__ = ("owner", "name", "info")

    def __init__(self, owner, name, info):
        self.owner, self.name, self.info = owner, name, info

    def __get__(self, thing, kind=None):
        function = _find_fast(self.owner.__name__, self.info) or _check_arguments(self.info)
        decorate = DECORATORS.get((self.owner.__name__, self.name))
        if decorate is not None:
            function = decorate(function)
        setattr(self.owner, self.name, function)
        return function.__get__(thing, kind)


def _replace_functions(owner):
    for name, member in list(vars(owner).items()):
        # Newer versions of PyGObject wrap constructors in classmethod
        info = getattr(member, "__func__", member)
        if isinstance(info, FunctionInfo):
            setattr(owner, name, _Deferred(owner, name, info))


def _replace_fields(owner):
    """Replaces the setters of integers and enumerations of a structure, and adds docstrings."""
    for name, field in list(vars(owner).items()):
        if isinstance(field, property):
            field.__doc__ = find_doc(owner.__name__, ":" + name)
        info = getattr(getattr(field, "fset", None), "__self__", None)
        check = None if info is None else _find_check(_type_of(info))
        if check is to_index or isinstance(check, type):
            setattr(owner, name, property(field.fget, _strict_setter(field.fset, name, check),
                                          doc=field.__doc__))


def _strict_setter(put, name, check):
    if check is to_index:
        return lambda self, value: put(self, to_index(value, name))
    return lambda self, value: put(self, to_enum(value, name, check))


# --- properties ----------------------------------------------------------------------------------

_NUMBERS = {GObject.TYPE_INT, GObject.TYPE_UINT, GObject.TYPE_LONG, GObject.TYPE_ULONG,
            GObject.TYPE_INT64, GObject.TYPE_UINT64, GObject.TYPE_FLOAT, GObject.TYPE_DOUBLE}


def _find_why_fixed(thing, spec):
    """Returns why a property has a value that GObject, or the library, never changes. Returns None
    for other properties."""
    if spec.flags & GObject.ParamFlags.CONSTRUCT_ONLY:
        return "can only be set when the object is created"
    # Not construct-only, because each recorded event would then set the property to NULL.
    is_set = (spec.owner_type.name, spec.name) == ("GpuEvent", "context") \
        and thing.get_property("context") is not None
    return "is already set, and can only be set once" if is_set else None


def _check_property(thing, name, value):
    spec = thing.find_property(name)
    why = None if spec is None else _find_why_fixed(thing, spec)
    if why is not None:
        raise AttributeError(f"the property '{spec.name}' of {thing!r} {why}")
    if spec is not None and spec.flags & GObject.ParamFlags.WRITABLE:
        if spec.value_type in _NUMBERS:
            return to_property(spec.name, value, spec)
        if spec.value_type == GObject.TYPE_STRING:
            return to_text(value, spec.name)
    return value


class _Properties:
    """The attribute props of an object, with checks of values."""
    __slots__ = ("_thing", "_props")

    def __init__(self, thing, props):
        object.__setattr__(self, "_thing", thing)
        object.__setattr__(self, "_props", props)

    def __getattr__(self, name):
        return getattr(self._props, name)

    def __setattr__(self, name, value):
        setattr(self._props, name, _check_property(self._thing, name, value))

    def __dir__(self):
        return dir(self._props)

    def __iter__(self):
        # Iterate over a list: Python 3.13 requires that iterators have the method __iter__(), which
        # the iterator of PyGObject 3.50 lacks
        return iter(list(self._props))

    def __len__(self):
        return len(self._props)


class _PropertiesOf:
    """The attribute props of classes and their objects."""

    def __get__(self, thing, owner=None):
        props = vars(_GObject)["props"].__get__(thing, owner)
        return props if thing is None else _Properties(thing, props)

    def __set__(self, thing, value):
        raise AttributeError(f"the attribute 'props' of {thing!r} is read-only")


def _set_property(self, name, value):
    """Sets a property."""
    run(GObject.Object.set_property, self, name, _check_property(self, name, value))


def _set_properties(self, **values):
    """Sets properties, whose names may have underscores."""
    run(GObject.Object.set_properties, self, **{name: _check_property(self, name, value)
                                                for name, value in values.items()})


# --- signals -------------------------------------------------------------------------------------

def _connecting(name):
    """Returns the method of GObject.Object, with a handler whose exceptions the call raises that
    emits the signal."""
    connect = getattr(GObject.Object, name)

    def method(self, signal, function, *args):
        """Connects a function, and further arguments for it, to a signal. Returns the id for
        disconnect()."""
        return connect(self, signal, Handler(function) if callable(function) else function, *args)
    method.__name__ = method.__qualname__ = name
    return method


_CONNECTING = {name: _connecting(name) for name in ("connect", "connect_after", "connect_object",
                                                    "connect_object_after")}


def _replace_methods(owner):
    """Replaces methods of GObject.Object in a class that derives directly from it."""
    if GObject.Object in owner.__bases__:
        owner.props = _PropertiesOf()
        owner.set_property = _set_property
        owner.set_properties = _set_properties
        for name, method in _CONNECTING.items():
            setattr(owner, name, method)


def _refuse_subclasses(owner):
    """PyGObject would print a warning and raise an error about a type of GObject."""
    if not GObject.type_test_flags(owner.__gtype__, GObject.TypeFlags.FINAL):
        return

    def init_subclass(cls, **kwargs):
        if not cls.__module__.startswith("gi.overrides."):
            raise TypeError(f"class {cls.__name__} cannot derive from Gpu.{owner.__name__}, which "
                            f"is final; keep a Gpu.{owner.__name__} in an attribute")
        super(owner, cls).__init_subclass__(**kwargs)
    owner.__init_subclass__ = classmethod(init_subclass)


# --- modules -------------------------------------------------------------------------------------


class _StrictModule(type(Gpu)):
    """Replaces the functions of a class when PyGObject creates the class, at its first use. It must
    not create classes earlier: a class that is created before the override of its parent does not
    inherit from the override."""

    def __getattr__(self, name):
        value = super().__getattr__(name)
        if isinstance(value, FunctionInfo):
            value = _find_fast(None, value) or _check_arguments(value, True)
            setattr(self, name, value)
        elif isinstance(value, type):
            if value.__doc__ is None:
                value.__doc__ = find_doc(name, "")
            _replace_functions(value)
            _replace_fields(value)
            _replace_methods(value)
            if hasattr(value, "__gtype__"):
                _refuse_subclasses(value)
        self._share(name, value)
        return value

    def _share(self, name, value):
        """Adds the value to the module that programs import, which would otherwise call a function
        of Python at each use. override() replaces a class there."""
        proxy = sys.modules.get(self.__name__)
        if proxy is not None and proxy is not self:
            vars(proxy).setdefault(name, value)


# This must precede the creation of the first class.
Gpu.__class__ = _StrictModule
