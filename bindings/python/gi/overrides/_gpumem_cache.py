# SPDX-License-Identifier: LGPL-2.1-or-later
"""Functions that remember what they made for an object, for as long as the object lives."""

import functools
import threading
import weakref

_lock = threading.Lock()
_caches = weakref.WeakSet()


def _to_key(*args, **kwargs):
    # Numbers of several types are equal, and make different kernels.
    key = args, tuple(map(type, args))
    if kwargs:
        named = sorted(kwargs.items())
        key += tuple(named), tuple(type(value) for _, value in named)
    return key


class _Cache:
    """What one function made: for each object, results by the other arguments."""

    def __init__(self):
        self._entries = {}                      # by id(), for equal objects are not the same
        with _lock:
            _caches.add(self)

    def _forget(self, identity, reference):
        entry = self._entries.get(identity)
        if entry is not None and entry[0] is reference:
            self._entries.pop(identity, None)

    def get(self, owner):
        """The results for an object."""
        identity = id(owner)
        entry = self._entries.get(identity)
        if entry is None or entry[0]() is not owner:
            weak = weakref.ref(self)

            def forget(reference):
                cache = weak()
                if cache is not None:
                    cache._forget(identity, reference)

            entry = self._entries.setdefault(identity, (weakref.ref(owner, forget), {}))
        return entry[1]

    def clear(self):
        # What is dropped may run code of the program, which may call the function again.
        entries, self._entries = self._entries, {}
        entries.clear()

    def __len__(self):
        return sum(len(results) for _, results in list(self._entries.values()))


def memoize(function=None, *, key=None):
    """Makes a function, or a method, remember what it returned for its first argument and the
    others: a context or a stream, and what a kernel is built for.

        @Gpu.memoize
        def get_kernel(context, type_name):
            return Gpu.Program(context, SOURCE % type_name).get_kernel("scale")

    Results are kept for as long as Python holds the first argument in a variable, or anywhere else:
    what they are made of may hold it, too, as a program holds its context, and goes with them. So
    the context of a stream, which only the stream holds, should be held by the program. An object
    that has attributes of the program's lives on while anything holds it, results included, until
    clear_caches().

    The other arguments are told apart by their values and types, and by whether they have names,
    and have to be hashable; @Gpu.memoize(key=f) goes by f(*others) instead. A function that fails
    is called again. Safe on any thread: two that come at once may both call it, and both get the
    same result. function.cache_clear() forgets what it returned, len(function.cache) is how much
    that is."""
    if function is None:
        return functools.partial(memoize, key=key)
    to_key = _to_key if key is None else key
    cache = _Cache()

    @functools.wraps(function)
    def memoized(owner, *args, **kwargs):
        results = cache.get(owner)
        identity = to_key(*args, **kwargs)
        try:
            return results[identity]
        except KeyError:
            pass
        return results.setdefault(identity, function(owner, *args, **kwargs))

    memoized.cache = cache
    memoized.cache_clear = cache.clear
    return memoized


def clear_caches():
    """Forgets what every function with memoize() returned, and drops the references that these
    results and arguments held."""
    with _lock:
        caches = list(_caches)
    for cache in caches:
        cache.clear()
