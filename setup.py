# SPDX-License-Identifier: LGPL-2.1-or-later
"""The Python binding for pip: the overrides, the C module for the Python that runs pip, the types.

pkg-config finds the installed library and its typelib. GPUMEM_WHEEL_BUNDLE, which `make wheel` sets,
is a folder with the library and the typelib for the package itself; the C module is then built
against the build folder."""

import glob
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

BUNDLE = os.environ.get("GPUMEM_WHEEL_BUNDLE")

NO_LIBRARY = """
gpumem: pkg-config does not find the library gpumem-1.0. Install it first: the package
libgpumem-1.0-dev, or, in a checkout or tarball of gpumem, './configure && make && make install'.
If it is installed in a prefix of its own, set PKG_CONFIG_PATH=PREFIX/lib/pkgconfig."""
NO_GIR = """
gpumem: there is no {}. Install gobject-introspection and libgirepository1.0-dev, and then
configure and install gpumem again."""
NO_PYGOBJECT_H = """
gpumem: there is no pygobject.h. Install the package python-gi-dev (Debian and Ubuntu), or PyGObject
by pip in this environment: 'pip install PyGObject'."""
NO_PYTHON_H = """
gpumem: there is no {}. Install the package python3-dev (Debian and Ubuntu)."""

SITE = '''"""Imported by gpumem.pth: GObject introspection searches the folder of the typelib.

GObject introspection reads GI_TYPELIB_PATH when it creates its repository. The variable has the
folder only while gi is imported, so that child processes do not inherit it."""
import os
import sys

FOLDER = {}
VARIABLE = "GI_TYPELIB_PATH"


def create_repository():
    from gi._gi import Repository

    Repository.get_default()


def import_gi(module, execute):
    path = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = path + ":" + FOLDER if path else FOLDER
    try:
        execute(module)
        create_repository()
    finally:
        if path is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = path


class Finder:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name != "gi":
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find and finder is not cls else None
            if spec is not None:
                break
        if spec is not None and spec.loader is not None:    # not the gi folder of the overrides
            execute = spec.loader.exec_module
            spec.loader.exec_module = lambda module: import_gi(module, execute)
        return spec


sys.meta_path.insert(0, Finder)
'''


def pkg_config(*arguments):
    """The words of the answer, or None."""
    command = [os.environ.get("PKG_CONFIG", "pkg-config"), *arguments]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        sys.exit(f"\ngpumem: {command[0]}: {error.strerror}. Install the package pkgconf.")
    return shlex.split(answer.stdout) if answer.returncode == 0 else None


def library_flags(option):
    flags = pkg_config(option, "gpumem-1.0")
    if flags is None:
        sys.exit(NO_LIBRARY)
    return flags


def variable(name):
    library_flags("--exists")
    return " ".join(pkg_config(f"--variable={name}", "gpumem-1.0"))


def pygobject_flags():
    """Of the PyGObject of the system or, from pip, of this environment."""
    flags = pkg_config("--cflags", "pygobject-3.0")
    if flags is not None:
        return flags
    version = "python{}.{}".format(*sys.version_info)
    for header in glob.glob(f"{sys.prefix}/include/site/{version}/*/*/pygobject.h"):
        return ["-I" + os.path.dirname(header), *(pkg_config("--cflags", "gobject-2.0") or [])]
    sys.exit(NO_PYGOBJECT_H)


def find_gir():
    gir = os.path.join(variable("girdir"), "Gpu-1.0.gir")
    if not os.path.exists(gir):
        sys.exit(NO_GIR.format(gir))
    return gir


FUNCTIONS = "gpumem-fast-functions.c"


def list_sources(folder):
    """Writes the part of the C module that comes from the GIR. Returns all sources, without that of
    a build by make in the source folder."""
    source = os.path.join(folder, FUNCTIONS)
    subprocess.run([sys.executable, "bindings/python/make-functions", find_gir(), source,
                    os.path.join(folder, "functions.txt")], check=True)
    return [*sorted(path for path in glob.glob("bindings/python/fast/*.c")
                    if os.path.basename(path) != FUNCTIONS), source]


def fast_module(folder):
    import sysconfig

    header = os.path.join(sysconfig.get_path("include"), "Python.h")
    flags = library_flags("--cflags")
    if not os.path.exists(header):
        sys.exit(NO_PYTHON_H.format(header))
    return Extension("gi.overrides._gpumem_fast",
                     sources=list_sources(folder),
                     depends=sorted(glob.glob("bindings/python/fast/*.h")),
                     include_dirs=["bindings/python/fast"],
                     extra_compile_args=[*pygobject_flags(), *flags, "-fvisibility=hidden",
                                         '-DG_LOG_DOMAIN="gpumem"'],
                     extra_link_args=library_flags("--libs"))


def allocators_module():
    """A shared object that gpumem/allocators.py loads. It is no module, and needs no Python."""
    return Extension("gpumem._allocators",
                     sources=sorted(glob.glob("bindings/python/allocators/*.c")),
                     depends=sorted(glob.glob("bindings/python/allocators/*.h")),
                     include_dirs=["bindings/python/allocators"],
                     extra_compile_args=[*library_flags("--cflags"), "-fvisibility=hidden",
                                         "-fexceptions", '-DG_LOG_DOMAIN="gpumem"'],
                     extra_link_args=[*library_flags("--libs"), "-ldl"])


class BuildPython(build_py):
    """Also the types, the bundle, and the line that makes the typelib known."""

    def run(self):
        super().run()
        types = subprocess.run([sys.executable, "bindings/python/make-stubs", find_gir(),
                                "bindings/python/gi/overrides/Gpu.py"],
                               stdout=subprocess.PIPE, text=True, check=True)
        self.write("gi-stubs/repository/Gpu.pyi", types.stdout)
        if BUNDLE:
            bundle = "gi/overrides/_gpumem_bundle"
            shutil.copytree(BUNDLE, os.path.join(self.build_lib, bundle))
            folder = f'os.path.join(os.path.dirname(os.path.abspath(__file__)), "{bundle}")'
        else:
            folder = repr(variable("typelibdir"))
        self.write("_gpumem_site.py", SITE.format(folder))
        self.write("gpumem.pth", "import _gpumem_site\n")

    def write(self, name, text):
        path = os.path.join(self.build_lib, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def version():
    with open("configure.ac", encoding="utf-8") as file:
        return ".".join(re.findall(r"gpu_(?:major|minor|micro)_version\], \[(\d+)", file.read()))


# Build in a temporary folder. By default, setuptools would write to build/ in the source folder,
# where quickstart builds the library
with tempfile.TemporaryDirectory() as folder:
    setup(version=version(),
          package_dir={"": "bindings/python"},
          packages=["gi.overrides", "gpumem"],
          package_data={"gpumem": ["py.typed"]},
          py_modules=["gpumem_pytest"],
          ext_modules=([] if "sdist" in sys.argv or "egg_info" in sys.argv
                       else [fast_module(folder), allocators_module()]),
          cmdclass={"build_py": BuildPython},
          options={"build": {"build_base": folder}, "egg_info": {"egg_base": folder}})
