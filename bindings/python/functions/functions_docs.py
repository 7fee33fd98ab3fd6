# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes the docstrings of classes and functions: gtk-doc of the GIR in the terms of Python."""

import os
import re
import sys
import textwrap
import xml.etree.ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "stubs"))

from stubs_gir import C, CORE, GLIB, Function, safe  # noqa: E402

CLASSES = ("class", "interface", "record", "enumeration", "bitfield")
FUNCTIONS = {"constructor": "classmethod", "method": "method", "function": "staticmethod"}
WIDTH = 88
CONSTANTS = {"TRUE": "True", "FALSE": "False", "NULL": "None", "GBytes": "GLib.Bytes",
             "GVariant": "GLib.Variant"}


class Markup:
    """Converts gtk-doc: identifiers of C become names of Python, and examples in C are left out."""

    def __init__(self, root):
        self._names = {}
        prefix = root.get("name") + "."
        for element in root.iter():
            if element.get(C + "type") and element.tag.removeprefix(CORE) in CLASSES:
                self._names[element.get(C + "type")] = prefix + element.get("name")
            elif element.tag == CORE + "constant":
                self._names[element.get(C + "type")] = prefix + element.get("name")
        for owner in [root, *root]:
            path = prefix if owner is root else f"{prefix}{owner.get('name')}."
            for one in owner:
                symbol = one.get(C + "identifier")
                if symbol and one.tag.removeprefix(CORE) in FUNCTIONS:
                    self._names[symbol] = path + safe(one.get("shadows") or one.get("name"))
                elif symbol:
                    self._names[symbol] = path + safe(one.get("name").upper())

    def _replace(self, match):
        sign, name = match.groups()
        name = CONSTANTS.get(name) or self._names.get(name, name)
        return name

    def convert(self, text):
        text = re.sub(r"(?s)\|\[.*?\]\|", "", text or "")
        text = re.sub(r"(?s)<!--.*?-->", "", text)
        text = re.sub(r"#(Gpu\w+)::?([a-z][\w-]*)",
                      lambda found: f"#{found[1]}.{found[2].replace('-', '_')}", text)
        text = re.sub(r"([#%@]|\b)((?:Gpu|gpu_|GPU_|TRUE|FALSE|NULL|G_|G[A-Z]|[a-z])\w*)",
                      lambda found: self._replace(found) if found[1] or found[2] in self._names
                      else found[0], text)
        return [" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n")
                if paragraph.strip()]


def _wrap(text, first="", rest=""):
    return "\n".join(textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=rest,
                                   break_long_words=False, break_on_hyphens=False))


def _describe_function(element, kind, markup):
    function = Function(element, kind)
    parameters = ", ".join(str(one) for one in function.parameters)
    head = f"{safe(element.get('shadows') or function.name)}({parameters}) -> {function.result}"
    parts = [_wrap(head, rest="    ")]
    parts += [_wrap(text) for text in markup.convert(element.findtext(CORE + "doc"))]
    shown = {one.name for one in function.parameters}
    lines = [_wrap(f"{safe(one.get('name'))}: "
                   + " ".join(markup.convert(one.findtext(CORE + "doc"))), "  ", "    ")
             for one in element.iterfind(f"{CORE}parameters/{CORE}parameter")
             if safe(one.get("name")) in shown and one.findtext(CORE + "doc")]
    result = markup.convert(element.find(CORE + "return-value").findtext(CORE + "doc"))
    if result:
        text = re.sub(r"[,;]? or (None|False) with\b( error set( to)?)?", "; raises",
                      " ".join(result))
        text = re.sub(r"[,;]? (or )?with (?=Gpu\.Error\.|G_IO_ERROR|the (driver's|errors? of))",
                      r", \1", text)
        lines.append(_wrap("Returns: " + text, "  ", "    "))
    return "\n\n".join(parts + ["\n".join(lines)] * bool(lines))


def _to_noun(paragraphs):
    """Returns the docstring of an attribute for that of its getter or of a field."""
    text = "\n\n".join(map(_wrap, paragraphs))
    text = re.sub(r"^(Gets|Returns) (\w)", lambda found: found[2].upper(), text)
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _list_attributes(owner, markup):
    """Returns the docstrings of properties and fields, and of getters that have no property, by the
    name after a colon."""
    docs = {}
    for method in owner.findall(CORE + "method"):
        prefix, _, name = method.get("name").partition("_")
        if prefix in ("get", "is") and method.get("introspectable") != "0":
            docs[f":{name}"] = markup.convert(method.findtext(CORE + "doc"))[:1]
    for tag in "field", "property":
        for one in owner.findall(CORE + tag):
            if one.get("private") != "1" and one.findtext(CORE + "doc"):
                name = one.get("name").replace("-", "_")
                docs[f":{name}"] = markup.convert(one.findtext(CORE + "doc"))
    return {name: _to_noun(paragraphs) for name, paragraphs in docs.items() if paragraphs}


def list_docs(path):
    """Returns the docstrings by (class or empty, name): the name is empty for the class itself, and
    begins with a colon for an attribute."""
    root = xml.etree.ElementTree.parse(path).getroot().find(CORE + "namespace")
    markup, docs = Markup(root), {}
    for owner in [root, *(one for tag in CLASSES for one in root.findall(CORE + tag)
                          if not one.get(GLIB + "is-gtype-struct-for"))]:
        path = "" if owner is root else owner.get("name")
        if owner is not root:
            docs[path, ""] = "\n\n".join(map(_wrap, markup.convert(owner.findtext(CORE + "doc"))))
            docs.update({(path, name): doc
                         for name, doc in _list_attributes(owner, markup).items()})
        for tag, kind in FUNCTIONS.items():
            for one in owner.findall(CORE + tag):
                if one.get("introspectable") != "0" and not one.get("shadowed-by") \
                        and not one.get("moved-to"):
                    name = one.get("shadows") or one.get("name")
                    docs[path, name] = _describe_function(one, kind, markup)
    return docs


def _quote(text):
    """Returns a string of C, with a literal for each line."""
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n\n")
    text = "".join(one if one.isascii() else "".join(f"\\{byte:03o}" for byte in one.encode())
                   for one in text)
    return "\n    ".join(f'"{line}"' for line in text.split("\n"))


def write_docs(path):
    """Returns the table of the docstrings as C code."""
    entries = [f'  {{ "{owner}", "{name}",\n    {_quote(text)} }},\n'
               for (owner, name), text in sorted(list_docs(path).items()) if text]
    return ("const GpuFastDoc gpu_fast_docs[] = {\n" + "".join(entries)
            + "};\n\nconst guint gpu_fast_n_docs = G_N_ELEMENTS (gpu_fast_docs);\n")
