# SPDX-License-Identifier: LGPL-2.1-or-later
"""The conversions between Python and C of each type, as code that calls gpumem-fast-function.h."""

# Integers: the C type, and the function of Python that makes an int. A conversion to C is
# gpu_fast_to_TYPE().
INTEGERS = {"gint": ("gint", "PyLong_FromLong"), "guint": ("guint", "PyLong_FromUnsignedLong"),
            "gint64": ("gint64", "PyLong_FromLongLong"),
            "guint64": ("guint64", "PyLong_FromUnsignedLongLong"),
            "gsize": ("gsize", "PyLong_FromSize_t"), "gssize": ("gssize", "PyLong_FromSsize_t"),
            "GLib.Quark": ("guint", "PyLong_FromUnsignedLong")}

# Types of other namespaces: the kind, and the function or macro with the GType
FOREIGN = {"Gio.AsyncResult": ("object", "g_async_result_get_type"),
           "Gio.Cancellable": ("object", "g_cancellable_get_type"),
           "Gio.File": ("object", "g_file_get_type"),
           "Gio.IOStream": ("object", "g_io_stream_get_type"),
           "Gio.OutputStream": ("object", "g_output_stream_get_type"),
           "Gio.UnixFDList": ("object", "g_unix_fd_list_get_type"),
           "GLib.Bytes": ("boxed", "g_bytes_get_type"),
           "GLib.MainContext": ("boxed", "g_main_context_get_type")}

# Types that stay with PyGObject
EXCLUDED = {"gpointer": "a pointer without a type",
            "filename": "a file name, in the encoding of the system",
            "varargs": "a variable number of arguments",
            "GLib.Variant": "a GVariant, which has no public function for its Python object",
            "GLib.PtrArray": "a GPtrArray",
            "GLib.HashTable": "a GHashTable"}


class UnknownType(Exception):
    """A type that the generator can neither convert nor leave to PyGObject."""


class Excluded(Exception):
    """A function that stays with PyGObject, with the reason."""


class Types:
    """The conversions for the types of a namespace."""

    def __init__(self, namespace):
        self._namespace = namespace
        self.classes = {}               # by name: the variable and the function with the GType

    def _find(self, name, function):
        """Returns the kind of a type and the function with its GType."""
        if name in self._namespace.kinds:
            return self._namespace.kinds[name], self._namespace.type_functions[name]
        if name in FOREIGN:
            return FOREIGN[name]
        if name in EXCLUDED:
            raise Excluded(EXCLUDED[name])
        raise UnknownType(f"{function.full_name}() has the type {name}, which is not known: add it "
                          "to functions_types.py, with its conversion or with the reason why it "
                          "has none")

    def _class(self, name, get_type):
        """Returns the variable for the Python class of a type."""
        if "." not in name:
            name = f"{self._namespace.name}.{name}"
        self.classes[name] = get_type
        return "&class_" + name.replace(".", "_")

    # --- to C ------------------------------------------------------------------------------------

    def to_c(self, value, function, position):
        """Returns the declarations, the condition that is true after a conversion, and the argument
        of the C call, for a parameter that Python passes. position is that of its object."""
        if value.is_callback:
            raise Excluded("a callback")
        if value.is_inout:
            raise Excluded("an argument that is changed")
        name, source = "c_" + value.name, f"values[{position}]"
        if value.type.is_array:
            return self._array_to_c(value, function, name, source)
        kind = value.type.name
        if value.transfer != "none":
            raise Excluded("an argument that the function takes ownership of")
        if kind in INTEGERS:
            c_type = INTEGERS[kind][0]
            return [f"{c_type} {name};"], f"gpu_fast_to_{c_type} ({source}, &{name})", name
        if kind in ("gboolean", "gdouble"):
            return [f"{kind} {name};"], f"gpu_fast_to_{kind} ({source}, &{name})", name
        may_be_null = "TRUE" if value.is_nullable else "FALSE"
        if kind == "utf8":
            return ([f"const char *{name};"],
                    f"gpu_fast_to_utf8 ({source}, {may_be_null}, &{name})", name)
        return self._typed_to_c(kind, function, name, source, may_be_null)

    def _typed_to_c(self, kind, function, name, source, may_be_null):
        group, get_type = self._find(kind, function)
        if group in ("enum", "flags"):
            return ([f"int {name};"],
                    f"gpu_fast_to_enum ({source}, {self._class(kind, get_type)}, &{name})", name)
        return ([f"gpointer {name};"],
                f"gpu_fast_to_{group} ({source}, {get_type} (), {may_be_null}, &{name})", name)

    def _array_to_c(self, value, function, name, source):
        item = value.type.item
        if value.type.length is None or value.transfer != "none" \
                or item not in ("guint8", *INTEGERS):
            if item not in ("utf8", "guint8", *INTEGERS):
                self._find(item, function)
            raise Excluded(f"an {value.type}")
        length = f"n_{name}"
        if item == "guint8":
            return ([f"const guint8 *{name};", f"gsize {length};"],
                    f"gpu_fast_to_bytes ({source}, &{name}, &{length})", name)
        c_type = INTEGERS[item][0]
        if item == "gint64":
            return ([f"g_autofree gint64 *{name} = NULL;", f"gsize {length};"],
                    f"gpu_fast_to_gint64_array ({source}, &{name}, &{length})", name)
        may_be_null = "TRUE" if value.is_nullable else "FALSE"
        return ([f"{c_type} items_{name}[GPU_FAST_MAX_ITEMS];", f"{c_type} *{name} = items_{name};",
                 f"gsize {length};"],
                f"gpu_fast_to_{c_type}_array ({source}, {may_be_null}, &{name}, &{length})", name)

    # --- to Python -------------------------------------------------------------------------------

    def out(self, value, function, name):
        """Returns the declaration, the argument of the C call and the Python object of an out
        parameter."""
        kind = value.type.name
        if kind in INTEGERS:
            c_type, make = INTEGERS[kind]
            return f"{c_type} {name} = 0;", "&" + name, f"{make} ({name})"
        if kind == "gboolean":
            return f"gboolean {name} = FALSE;", "&" + name, f"PyBool_FromLong ({name})"
        group, get_type = self._find(kind, function)
        if group in ("enum", "flags"):
            c_type = value.type.c_type.rstrip("*")
            return (f"{c_type} {name} = 0;", "&" + name,
                    f"gpu_fast_from_{group} ({self._class(kind, get_type)}, {name})")
        if group == "boxed" and value.is_allocated_by_caller:
            c_type = value.type.c_type.rstrip("*")
            variable = self._class(kind, get_type)
            return (f"{c_type} {name} = {{ 0 }};", "&" + name,
                    f"gpu_fast_from_boxed ({variable}, &{name}, FALSE)")
        raise Excluded(f"an out argument of type {value.type}")

    def result(self, value, function):
        """Returns the Python object of the variable result, or None for a function without a
        result."""
        kind = value.type.name
        is_full = value.transfer == "full"
        owned = "TRUE" if is_full else "FALSE"
        if value.type.is_array:
            return self._array_result(value, is_full)
        if kind == "none":
            return None
        if kind in INTEGERS:
            return f"{INTEGERS[kind][1]} (result)"
        if kind == "gboolean":
            return "PyBool_FromLong (result)"
        if kind == "gdouble":
            return "PyFloat_FromDouble (result)"
        if kind == "utf8":
            return f"gpu_fast_from_utf8 ({'' if is_full else '(char *) '}result, {owned})"
        if kind == "GLib.List":
            return self._list_result(value, function, is_full)
        group, get_type = self._find(kind, function)
        if group in ("enum", "flags"):
            return f"gpu_fast_from_{group} ({self._class(kind, get_type)}, result)"
        if group == "object":
            return f"pygobject_new_full ((GObject *) result, {owned}, NULL)"
        return f"gpu_fast_from_boxed ({self._class(kind, get_type)}, (gpointer) result, {owned})"

    def _array_result(self, value, is_full):
        item = value.type.item
        if item == "gssize" and value.type.length is not None and value.transfer == "none":
            return "gpu_fast_from_gssize_array (result, n_result)"
        if item == "utf8" and is_full and value.type.length is None:
            return "gpu_fast_from_strv (result)"
        raise Excluded(f"a result that is an {value.type}")

    def _list_result(self, value, function, is_full):
        group, _ = self._find(value.type.item, function)
        if group == "object" and is_full:
            return "gpu_fast_from_list (result)"
        raise Excluded(f"a result that is a {value.type}")
