"""The shared library: found beside this file, loaded, and given the types that the headers declare.

It needs libgomp. A process has one of that name: the one that torch or another package has loaded before, else the one
in this folder. So torch and libscion share one pool of threads. ctypes releases the GIL during every call.
"""
import ctypes
import os
from typing import Any

from . import _abi


def _load() -> Any:
    path = os.environ.get("SCION_LIBRARY") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "libscion.so")
    try:
        loaded = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"libscion: cannot load {path}: {error}") from None
    for name, (result, arguments) in _abi.FUNCTIONS.items():
        try:
            function = getattr(loaded, name)
        except AttributeError:
            raise ImportError(f"libscion: {path} has no function {name}: it is of another version") from None
        function.restype, function.argtypes = result, arguments
    return loaded


library = _load()
