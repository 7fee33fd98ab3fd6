# SPDX-License-Identifier: LGPL-2.1-or-later
"""Functions that cache results for an object, for the lifetime of the object."""

import functools
import threading
import weakref

_lock = threading.Lock()
_caches = weakref.WeakSet()


def _to_key(*args, **kwargs):
    # Equal numbers of different types need different keys, because they may make different kernels.
    key = args, tuple(map(type, args))
    if kwargs:
        named = sorted(kwargs.items())
        key += tuple(named), tuple(type(value) for _, value in named)
    return key


class _Cache:
    """The results of one function: for each owner, a dictionary by the other arguments."""

    def __init__(self):
        self._entries = {}                      # by id(): equal objects have separate results
        with _lock:
            _caches.add(self)

    def _forget(self, identity, reference):
        entry = self._entries.get(identity)
        if entry is not None and entry[0] is reference:
            self._entries.pop(identity, None)

    def get(self, owner):
        """Returns the results for an object."""
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
        # Replace the dictionary first: dropping results may run code of the program, which may call
        # the function again.
        entries, self._entries = self._entries, {}
        entries.clear()

    def __len__(self):
        return sum(len(results) for _, results in list(self._entries.values()))


def memoize(function=None, *, key=None):
    """Caches the results of a function or method by its first argument, such as a context or a
    stream, and by its other arguments.

        @Gpu.memoize
        def get_kernel(context, type_name):
            return Gpu.Program(context, SOURCE % type_name).get_kernel("scale")

    A result is kept as long as Python refers to the first argument. A result may itself refer to
    the first argument, as a program refers to its context; this does not extend the lifetime. Keep
    a reference to the context of a stream if only the stream refers to that context. If Python
    attributes are set on the first argument, results that refer to it keep it alive until
    clear_caches().

    The other arguments must be hashable. Results differ by the values and types of these arguments,
    and by whether they were passed by name; with @Gpu.memoize(key=f) they differ by f(*others)
    instead. A function that raises is called again. memoize() is thread-safe: two concurrent calls
    may both call the function, but both return the same result. function.cache_clear() drops all
    results; len(function.cache) is their number."""
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
    """Drops all results of all functions with memoize(), and the references that the results and
    their arguments held."""
    with _lock:
        caches = list(_caches)
    for cache in caches:
        cache.clear()
