"""The layer below libscion.torch and libscion.numpy: structs from keyword arguments, errors, one optimizer of the C
library. It knows addresses, shapes and types; arrays and tensors are the callers'."""
import ctypes
import os
import warnings
from ctypes import byref, sizeof
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from . import _abi
from ._library import library

# ---- Errors --------------------------------------------------------------------------------------------------


class Error(Exception):
    """A call of the library failed. `status` is a scion_status, `param` the index of the parameter at fault or -1."""

    def __init__(self, message: str, status: int = _abi.SCION_EINVAL, param: int = -1) -> None:
        super().__init__(message)
        self.status = status
        self.param = param


class InvalidError(Error, ValueError):
    """An argument, option or shape is wrong."""


class NonFiniteError(Error, ArithmeticError):
    """A gradient, weight or state holds NaN or Inf, or the step would make one. Nothing was changed."""


class StateError(Error, ValueError):
    """A saved state is damaged or belongs to another optimizer. Nothing was changed."""


class StoppedError(Error):
    """A callback asked to stop."""


_ERRORS = {
    _abi.SCION_EINVAL: InvalidError,
    _abi.SCION_ENONFINITE: NonFiniteError,
    _abi.SCION_ESTATE: StateError,
    _abi.SCION_ESTOPPED: StoppedError,
}


def check(status: int, err: Any) -> None:
    """Raises the exception of a status other than SCION_OK."""
    if status == _abi.SCION_OK:
        return
    text = err.message.decode(errors="replace") or library.scion_status_string(status).decode()
    if status == _abi.SCION_ENOMEM:
        raise MemoryError(text)
    raise _ERRORS.get(status, Error)(text, status, err.param)


# ---- Names ---------------------------------------------------------------------------------------------------

_KINDS = {
    "norm": _abi.SCION_ENUM_NORM,
    "role": _abi.SCION_ENUM_ROLE,
    "routing": _abi.SCION_ENUM_ROUTING,
    "rule": _abi.SCION_ENUM_RULE,
    "polar": _abi.SCION_ENUM_POLAR,
    "schedule": _abi.SCION_ENUM_SCHEDULE,
    "start": _abi.SCION_ENUM_START,
}
# Enums whose values the library has no names for.
_TYPES = {"float32": _abi.SCION_F32, "bfloat16": _abi.SCION_BF16}
_ROUNDINGS = {"stochastic": _abi.SCION_ROUNDING_STOCHASTIC, "nearest": _abi.SCION_ROUNDING_NEAREST}


def names(kind: str) -> List[str]:
    """All names of a kind: "norm", "role", "routing", "rule", "polar", "schedule" or "start"."""
    if kind not in _KINDS:
        raise InvalidError(f"kind is {kind!r}, expected one of {', '.join(_KINDS)}")
    found: List[str] = []
    while True:
        listed = library.scion_enum_name(_KINDS[kind], len(found))
        if listed is None:
            return found
        found.append(listed.decode())


def name_of(kind: str, value: int) -> str:
    return library.scion_enum_name(_KINDS[kind], value).decode()


def value_of(kind: str, name: str) -> int:
    value = library.scion_enum_value(_KINDS[kind], name.encode()) if isinstance(name, str) else -1
    if value < 0:
        raise InvalidError(f"{kind} is {name!r}, expected one of {', '.join(names(kind))}")
    return value


def _choice(key: str, table: Dict[str, int], name: str) -> int:
    if name not in table:
        raise InvalidError(f"{key} is {name!r}, expected one of {', '.join(table)}")
    return table[name]


# ---- Threads -------------------------------------------------------------------------------------------------

_forked = _told = False


def _after_fork() -> None:
    global _forked, _told
    _forked, _told = True, False


os.register_at_fork(after_in_child=_after_fork)


def threads_of(wanted: int) -> int:
    """Threads that a call may use. OpenMP's do not survive a fork: a child of one has its calling thread alone."""
    global _told
    if not _forked:
        return wanted
    if not _told:
        _told = True
        warnings.warn(
            "libscion: this process was forked, and OpenMP's threads do not survive that: it steps on one thread, with "
            "the same results. Start processes by 'spawn' to have all threads.",
            RuntimeWarning,
            stacklevel=4,
        )
    return 1


# ---- Structs -------------------------------------------------------------------------------------------------

# How the value of a keyword becomes the member of scion_options of the same name; members that are not here are numbers.
_OPTION = {
    "routing": lambda v: value_of("routing", v),
    "polar": lambda v: value_of("polar", v),
    "rounding": lambda v: _choice("rounding", _ROUNDINGS, v),
    "polar_compute": lambda v: _choice("polar_compute", _TYPES, v),
}
_OPTIONS = {name: type_ for name, type_ in _abi.scion_options._fields_ if name not in ("size", "rule", "allocator")}


def options(rule: str = "scion", **settings: Any) -> Any:
    """A scion_options; settings are its members, None leaves the default. Checked by the library."""
    o = _abi.scion_options()
    library.scion_options_init_sized(byref(o), sizeof(o), value_of("rule", rule))
    for key, value in settings.items():
        if key not in _OPTIONS:
            raise TypeError(f"there is no option {key!r}, expected one of {', '.join(_OPTIONS)}")
        if value is None:
            continue
        try:
            setattr(o, key, _OPTION[key](value) if key in _OPTION else _OPTIONS[key](value).value)
        except TypeError:
            raise TypeError(f"{key} is {value!r}, expected a number") from None
    o.threads = threads_of(o.threads)
    err = _abi.scion_error()
    check(library.scion_options_check(byref(o), byref(err)), err)
    return o


Split = Union[None, int, Tuple[int, Union[int, Sequence[int]]]]


def param(
    shape: Sequence[int],
    *,
    name: Optional[str] = None,
    role: str = "hidden",
    norm: Optional[str] = None,
    radius: float = 1.0,
    transposed: bool = False,
    split: Split = None,
    weight_decay: Optional[float] = None,
    start: str = "boundary",
    weight_type: int = _abi.SCION_F32,
    grad_type: int = _abi.SCION_F32,
    weight: int = 0,
    grad: int = 0,
    grad_prev: int = 0,
    group: int = 0,
    states: Sequence[int] = (),
    owned: bool = True,
) -> Any:
    """A scion_param. Scalars are vectors of one entry; of more than four dimensions the last are joined, as positions of
    a kernel. split: the number of equal blocks of rows, or (axis, number), or (axis, sizes). One that is not owned has its
    place among the others, but is not stepped and has no state."""
    p = _abi.scion_param()
    library.scion_param_init_sized(byref(p), sizeof(p))
    sides = [int(n) for n in shape] or [1]
    while len(sides) > 4:
        sides[-2:] = [sides[-2] * sides[-1]]
    p.ndim = len(sides)
    p.shape[: len(sides)] = sides
    p.name = None if name is None else name.encode()
    p.role, p.start = value_of("role", role), value_of("start", start)
    p.norm = _abi.SCION_NORM_AUTO if norm is None else value_of("norm", norm)
    p.radius, p.transposed = float(radius), bool(transposed)
    if weight_decay is not None:
        if not weight_decay >= 0:
            raise InvalidError(f"weight_decay is {weight_decay}, expected 0 or more")
        p.weight_decay = float(weight_decay)
    p.weight_type, p.grad_type, p.group = weight_type, grad_type, group
    p.own_count = -1 if owned else 0
    p.weight, p.grad, p.grad_prev = weight or None, grad or None, grad_prev or None
    if split is not None:
        axis, blocks = (0, split) if isinstance(split, int) else split
        p.split_axis = axis
        if isinstance(blocks, int):
            p.split_count = blocks
        else:
            p._sizes = (ctypes.c_int64 * len(blocks))(*blocks)  # as long as p lives
            p.split_count, p.split_sizes = len(blocks), ctypes.addressof(p._sizes)
    if states:
        p._states = (ctypes.c_void_p * len(states))(*states)
        p.states, p.state_count = ctypes.addressof(p._states), len(states)
    return p


def state_arrays(p: Any, o: Any) -> List[Tuple[str, int, Tuple[int, ...]]]:
    """Name, type and shape of the state arrays that a parameter has under o."""
    found: List[Tuple[str, int, Tuple[int, ...]]] = []
    array = _abi.scion_array()
    library.scion_array_init_sized(byref(array), sizeof(array))
    while library.scion_param_state(byref(p), byref(o), len(found), byref(array)):
        found.append((array.name.decode(), array.type, tuple(array.shape[: array.ndim])))
    return found


def param_info(p: Any, o: Any) -> Any:
    """What the library would make of a parameter: scion_param_properties."""
    info, err = _abi.scion_param_properties(), _abi.scion_error()
    library.scion_param_properties_init_sized(byref(info), sizeof(info))
    check(library.scion_param_info(byref(p), byref(o), byref(info), byref(err)), err)
    return info


# ---- An optimizer of the library -----------------------------------------------------------------------------


class Handle:
    """A scion_optimizer. The arrays whose addresses it was given must live as long as it does."""

    def __init__(self, o: Any, params: Sequence[Any]) -> None:
        self._pointer = ctypes.c_void_p()
        self._process = os.getpid()
        self._error = _abi.scion_error()
        self._step = _abi.scion_step()
        library.scion_step_init_sized(byref(self._step), sizeof(self._step))
        self._references = byref(self._step), byref(self._error)
        array = (_abi.scion_param * len(params))(*params)
        check(
            library.scion_optimizer_create(byref(self._pointer), byref(o), array, len(params), byref(self._error)),
            self._error,
        )

    def __del__(self) -> None:
        if getattr(self, "_pointer", None):
            library.scion_optimizer_free(self._pointer)

    def _call(self, function: Any, *arguments: Any) -> None:
        status = function(self._pointer, *arguments, self._references[1])
        if status:
            check(status, self._error)

    @property
    def steps(self) -> int:
        return library.scion_optimizer_steps(self._pointer)

    def begin(self) -> None:
        library.scion_optimizer_begin(self._pointer)

    def step(self, lr: float, momentum: float = -1.0, grad_scale: float = 1.0, threads: int = 0) -> None:
        s = self._step
        s.lr, s.momentum, s.grad_scale, s.threads = lr, momentum, grad_scale, threads_of(threads)
        status = library.scion_optimizer_step_with(self._pointer, *self._references)
        if status:
            check(status, self._error)

    def bind(self, i: int, weight: int, grad: int, grad_prev: int = 0) -> None:
        status = library.scion_optimizer_bind(self._pointer, i, weight, grad, grad_prev, self._references[1])
        if status:
            check(status, self._error)

    def set(self, i: int, what: int, value: float) -> None:
        self._call(library.scion_optimizer_set, i, what, value)

    def set_group(self, group: int, what: int, value: float) -> None:
        self._call(library.scion_optimizer_set_group, group, what, value)

    def _stay(self) -> None:
        """Refuses calls that would wait for OpenMP threads that a fork has left behind."""
        if self._process != os.getpid():
            raise InvalidError("the optimizer was made before this process was forked: make it anew")

    def init_weights(self, seed: int) -> None:
        self._stay()
        self._call(library.scion_optimizer_init_weights, seed)

    def mark_start(self) -> None:
        self._stay()
        self._call(library.scion_optimizer_mark_start)

    def exchange_previous(self) -> None:
        self._call(library.scion_optimizer_previous)

    def inspect(self, i: int, norms: bool = False) -> Dict[str, Any]:
        """Facts and measurements of parameter i, by the names of scion_info; norms: and those that cost a step."""
        info = _abi.scion_info()
        library.scion_info_init_sized(byref(info), sizeof(info))
        if norms:
            self._stay()
        what = _abi.SCION_INSPECT_NORM | _abi.SCION_INSPECT_DUAL if norms else 0
        self._call(library.scion_optimizer_inspect, i, what, byref(info))
        row = {key: getattr(info, key) for key, _ in info._fields_ if key not in ("size", "reserved")}
        row["name"] = row["name"].decode()
        for kind in ("rule", "norm", "role"):
            row[kind] = name_of(kind, row[kind])
        return row

    def state(self, i: int) -> List[Any]:
        """The state arrays of parameter i, as scion_array structs."""
        found: List[Any] = []
        while True:
            array = _abi.scion_array()
            library.scion_array_init_sized(byref(array), sizeof(array))
            if not library.scion_optimizer_state(self._pointer, i, len(found), byref(array)):
                return found
            found.append(array)

    def save(self, arrays: bool = True) -> bytes:
        flags = 0 if arrays else _abi.SCION_WITHOUT_ARRAYS
        saved = ctypes.create_string_buffer(library.scion_optimizer_save_bytes(self._pointer, flags))
        self._call(library.scion_optimizer_save, flags, saved, len(saved))
        return saved.raw

    def load(self, saved: bytes, arrays: bool = True) -> None:
        flags = 0 if arrays else _abi.SCION_WITHOUT_ARRAYS
        self._call(library.scion_optimizer_load, flags, saved, len(saved))
