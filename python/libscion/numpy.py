"""Norms, oracles, schedules and optimizers on NumPy arrays.

Arrays are float32 and contiguous (an optimizer's weights and gradients too) and are used where they lie: nothing is
copied. Others are refused, with a sentence. Functions release the GIL and are thread-safe.

Keywords that all functions of a norm share describe the parameter, as scion.h has it:
    norm        "spectral", "colnorm", "rownorm", "sign", "rms", "euclid", "max"; None: by role, as `routing` says
    role        "hidden", "onehot", "input", "output", "vector", "normalization", "plain"; with the norm it fixes the scale
    radius      rho of the ball
    transposed  the array is stored as d_in x d_out (an embedding table)
    split       a fused matrix: number of equal blocks of rows, or (axis, number), or (axis, sizes)
and `settings` are members of scion_options: polar, polar_steps, polar_compute, eps, polar_eps, threads, routing.
"""
import ctypes
from ctypes import byref, sizeof
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from . import _abi
from ._core import Handle, InvalidError, StoppedError, check, options, param, value_of
from ._library import library

__all__ = [
    "lmo", "norm", "dual_norm", "sharp", "fw_gap", "polar", "init", "Schedule", "schedule", "Optimizer", "Report", "Result",
    "minimize",
]

Array = Any  # numpy.ndarray; the annotation of NumPy's own differs between versions


def _address(array: Array, name: str, shape: Optional[Tuple[int, ...]] = None, writable: bool = False) -> int:
    """Where a float32 array lies, if it can be used without a copy."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{name} is a {type(array).__name__}, expected a NumPy array of float32")
    if array.dtype != np.float32:
        raise InvalidError(f"{name} is an array of {array.dtype}, expected float32: {name}.astype(np.float32) makes a copy")
    if not array.flags.c_contiguous:
        raise InvalidError(f"{name} is not contiguous in C order: np.ascontiguousarray({name}) makes a copy")
    if array.size == 0:
        raise InvalidError(f"{name} has shape {array.shape}, expected at least one entry")
    if shape is not None and array.shape != shape:
        raise InvalidError(f"{name} has shape {array.shape}, expected {shape}")
    if writable and not array.flags.writeable:
        raise InvalidError(f"{name} is read-only")
    return array.ctypes.data


def _result(out: Optional[Array], like: Array) -> Array:
    if out is None:
        return np.empty_like(like)
    _address(out, "out", like.shape, writable=True)
    if np.shares_memory(out, like):
        raise InvalidError("out overlaps the input: it needs memory of its own")
    return out


_PARAM = ("role", "radius", "transposed", "split")


def _describe(shape: Tuple[int, ...], norm: Optional[str], keywords: Dict[str, Any]) -> Tuple[Any, Any]:
    """The parameter and the options that the keywords of a function describe."""
    about = {key: keywords.pop(key) for key in _PARAM if key in keywords}
    rule = keywords.pop("rule", "scion")
    return param(shape, norm=norm, **about), options(rule, **keywords)


def _array_to_array(function: Any, s: Array, norm: Optional[str], out: Optional[Array], keywords: Dict[str, Any]) -> Array:
    address = _address(s, "s")
    out = _result(out, s)
    p, o = _describe(s.shape, norm, keywords)
    err = _abi.scion_error()
    check(function(byref(p), byref(o), address, out.ctypes.data, byref(err)), err)
    return out


def _array_to_number(function: Any, x: Array, norm: Optional[str], keywords: Dict[str, Any]) -> float:
    address = _address(x, "x")
    p, o = _describe(x.shape, norm, keywords)
    value, err = ctypes.c_double(), _abi.scion_error()
    check(function(byref(p), byref(o), address, byref(value), byref(err)), err)
    return value.value


def lmo(s: Array, norm: Optional[str] = None, *, out: Optional[Array] = None, **settings: Any) -> Array:
    """The minimiser of <s, x> over the ball of radius rho. It carries the minus sign: it is added to weights."""
    return _array_to_array(library.scion_lmo, s, norm, out, settings)


def norm(x: Array, norm: Optional[str] = None, **settings: Any) -> float:
    """The norm of x, in the unit of the ball of radius 1. Exact, whatever `polar` says."""
    return _array_to_number(library.scion_norm_value, x, norm, settings)


def dual_norm(s: Array, norm: Optional[str] = None, **settings: Any) -> float:
    """The dual norm of s: <s, lmo(s)> = -rho dual_norm(s). Exact."""
    return _array_to_number(library.scion_dual_norm, s, norm, settings)


def sharp(s: Array, norm: Optional[str] = None, *, out: Optional[Array] = None, **settings: Any) -> Array:
    """-dual_norm(s) lmo(s) of the unit ball: the direction of steepest descent. Exact."""
    return _array_to_array(library.scion_sharp, s, norm, out, settings)


def fw_gap(g: Array, x: Array, norm: Optional[str] = None, **settings: Any) -> float:
    """The Frank-Wolfe gap <g, x> + rho dual_norm(g) of a gradient g at x. Exact."""
    addresses = _address(g, "g"), _address(x, "x", g.shape)
    p, o = _describe(g.shape, norm, settings)
    value, err = ctypes.c_double(), _abi.scion_error()
    check(library.scion_fw_gap(byref(p), byref(o), *addresses, byref(value), byref(err)), err)
    return value.value


def polar(a: Array, *, out: Optional[Array] = None, **settings: Any) -> Array:
    """The polar factor UV' of a matrix, by the coefficient set `polar` (default "quintic") in `polar_steps` steps."""
    address = _address(a, "a")
    if a.ndim != 2:
        raise InvalidError(f"a has shape {a.shape}, expected a matrix")
    out = _result(out, a)
    o, err = options(**settings), _abi.scion_error()
    check(library.scion_polar(a.shape[0], a.shape[1], address, out.ctypes.data, byref(o), byref(err)), err)
    return out


def init(
    shape: Sequence[int], norm: Optional[str] = None, *, seed: int = 0, out: Optional[Array] = None, **settings: Any
) -> Array:
    """A random point of the boundary of the ball of radius rho; zeros for the norms rms, euclid and max."""
    if out is None:
        out = np.empty(tuple(shape), np.float32)
    address = _address(out, "out", tuple(shape), writable=True)
    p, o = _describe(out.shape, norm, settings)
    err = _abi.scion_error()
    check(library.scion_boundary_init(byref(p), byref(o), seed, address, byref(err)), err)
    return out


# ---- Schedules -----------------------------------------------------------------------------------------------


class Schedule:
    """A step size for every step: schedule(k), k from 0. Made by schedule()."""

    def __init__(
        self, kind: str, n: int = 0, peak: float = 1.0, *, warmup: int = 0, decay: int = 0, start: float = 0.0,
        end: float = 0.0,
    ) -> None:
        s, err = _abi.scion_schedule(), _abi.scion_error()
        library.scion_schedule_init_sized(byref(s), sizeof(s))
        s.kind, s.n, s.peak = value_of("schedule", kind), n, peak
        s.warmup, s.decay, s.start, s.end = warmup, decay, start, end
        check(library.scion_schedule_check(byref(s), byref(err)), err)
        self._struct = s
        self._kind = kind

    def __call__(self, k: int) -> float:
        if k < 0:
            raise InvalidError(f"k is {k}, expected 0 or more")
        return library.scion_schedule_value(byref(self._struct), k)

    def __repr__(self) -> str:
        s = self._struct
        values = {key: getattr(s, key) for key in ("n", "peak", "warmup", "decay", "start", "end")}
        return f"Schedule({self._kind!r}, {', '.join(f'{key}={value}' for key, value in values.items())})"


def schedule(kind: str, n: int = 0, peak: float = 1.0, **settings: Any) -> Schedule:
    """A schedule of n steps: "constant", "linear", "constant_linear" (warmup, decay), "cosine" (warmup, start, end), ...

    libscion.names("schedule") lists all. After step n it stays where it ended. With torch:
    LambdaLR(optimizer, schedule("linear", n)), whose peak 1 multiplies the optimizer's lr."""
    return Schedule(kind, n, peak, **settings)


# ---- An optimizer --------------------------------------------------------------------------------------------

_SETTINGS = {
    "radius": _abi.SCION_SET_RADIUS,
    "lr_scale": _abi.SCION_SET_LR_SCALE,
    "weight_decay": _abi.SCION_SET_WEIGHT_DECAY,
    "momentum": _abi.SCION_SET_MOMENTUM,
    "frozen": _abi.SCION_SET_FROZEN,
    "steps": _abi.SCION_SET_STEPS,
}


class Optimizer:
    """An optimizer of arrays, which it changes in place.

        w, g = init((10, 784), "sign", role="output"), np.zeros((10, 784), np.float32)
        opt = Optimizer([{"weight": w, "grad": g, "role": "output", "norm": "sign"}], rule="scion")
        for k in range(100):
            opt.begin()                       # zeroes g; under light, where g holds the average, leaves it
            g += gradient(w)
            opt.step(0.05 * (1 - k / 100))

    A parameter is a mapping: weight, grad, and optionally name, role, norm, radius, transposed, split, weight_decay,
    start, and grad_prev (rule mars). A grad of None skips it until bind() gives it one. Options are members of
    scion_options: routing, momentum (alpha, the weight of the new gradient), weight_decay, light, threads and so on."""

    def __init__(self, params: Iterable[Mapping[str, Any]], rule: str = "scion", **settings: Any) -> None:
        self._arrays: List[Dict[str, Array]] = []
        structs = []
        for row in params:
            about = dict(row)
            arrays = {key: about.pop(key, None) for key in ("weight", "grad", "grad_prev")}
            structs.append(param(np.shape(arrays["weight"]), **self._addresses(arrays), **about))
            self._arrays.append(arrays)
        self._handle = Handle(options(rule, **settings), structs)

    @staticmethod
    def _addresses(arrays: Mapping[str, Array]) -> Dict[str, Any]:
        weight = arrays["weight"]
        found: Dict[str, Any] = {"weight": _address(weight, "weight", writable=True)}
        for key in ("grad", "grad_prev"):
            if arrays[key] is not None:
                found[key] = _address(arrays[key], key, weight.shape, writable=True)
        return found

    @property
    def steps(self) -> int:
        """Steps taken."""
        return self._handle.steps

    def __len__(self) -> int:
        return len(self._arrays)

    def begin(self) -> None:
        """Zeroes the gradients, before those of a step are added; under light, where they hold the average, not."""
        self._handle.begin()

    def step(self, lr: float, momentum: Optional[float] = None, grad_scale: float = 1.0, threads: int = 0) -> None:
        """One step. A gradient that is not finite raises NonFiniteError, and nothing was changed."""
        self._handle.step(lr, -1.0 if momentum is None else momentum, grad_scale, threads)

    def bind(self, i: int, weight: Array, grad: Optional[Array], grad_prev: Optional[Array] = None) -> None:
        """Moves parameter i to other arrays of the same shape; without a grad it is skipped from now on."""
        arrays = {"weight": weight, "grad": grad, "grad_prev": grad_prev}
        if not 0 <= i < len(self._arrays):
            raise InvalidError(f"there is no parameter {i}, only 0 to {len(self._arrays) - 1}")
        _address(weight, "weight", self._arrays[i]["weight"].shape, writable=True)
        found = self._addresses(arrays)
        self._handle.bind(i, found["weight"], found.get("grad", 0), found.get("grad_prev", 0))
        if grad_prev is None:
            arrays["grad_prev"] = self._arrays[i]["grad_prev"]
        self._arrays[i] = arrays

    def set(self, what: str, value: float, i: Optional[int] = None) -> None:
        """Changes radius, lr_scale, weight_decay, momentum, frozen or steps of parameter i, or of all."""
        if what not in _SETTINGS:
            raise InvalidError(f"setting is {what!r}, expected one of {', '.join(_SETTINGS)}")
        self._handle.set(_abi.SCION_ALL if i is None else i, _SETTINGS[what], value)

    def init_weights(self, seed: int = 0) -> None:
        """Puts every weight where its `start` says: on the boundary of its ball, unless something else was said."""
        self._handle.init_weights(seed)

    def inspect(self, i: int, norms: bool = False) -> Dict[str, Any]:
        """Rule, norm, role, scale, radius, bound, seconds of parameter i; norms: weight_norm, grad_dual, fw_gap too."""
        return self._handle.inspect(i, norms)

    def state(self, i: int) -> Dict[str, Array]:
        """The state arrays of parameter i by name ("average", ...). They are the optimizer's own memory, not copies."""
        found = {}
        for array in self._handle.state(i):
            kind = ctypes.c_float if array.type == _abi.SCION_F32 else ctypes.c_uint16
            memory = (kind * array.count).from_address(array.data)
            memory._owner = self._handle
            found[array.name.decode()] = np.ctypeslib.as_array(memory).reshape(tuple(array.shape[: array.ndim]))
        return found

    def exchange_previous(self) -> None:
        """Rule mars: exchanges the weights with those before the last step. Call it in pairs, around the second
        backward pass, which writes grad_prev."""
        self._handle.exchange_previous()

    def save(self) -> bytes:
        """Settings, counters and state arrays. Weights are the caller's, and under light gradients too."""
        return self._handle.save()

    def load(self, saved: bytes) -> None:
        """Takes what save() gave. What does not fit raises StateError, and nothing was changed."""
        self._handle.load(saved)


# ---- Minimisation --------------------------------------------------------------------------------------------


class Report(NamedTuple):
    """Measurements at x^k, before step k (from 1)."""

    k: int
    lr: float
    momentum: float
    dual_norm: float
    fw_gap: float


class Result(NamedTuple):
    """The end of a minimisation. Values are NaN where nothing was reported."""

    steps: int
    iterate: int
    mean_dual_norm: float
    mean_fw_gap: float
    last: Report


def _report(struct: Any) -> Report:
    return Report(*(getattr(struct, key) for key in Report._fields))


def minimize(
    params: Iterable[Mapping[str, Any]],
    gradient: Callable[[int, int], Optional[bool]],
    steps: int,
    schedule: Union[Schedule, float] = 0.05,
    *,
    rule: str = "scion",
    exact: Optional[Callable[[int], Optional[bool]]] = None,
    report: Optional[Callable[[Report], Optional[bool]]] = None,
    report_every: int = 0,
    seed: int = 0,
    uniform: bool = False,
    **settings: Any,
) -> Result:
    """Minimises a stochastic function by `steps` steps of a rule; the weights of params are start and result.

    params: as for Optimizer. gradient(k, sample) adds a gradient at the present weights, drawn by the number `sample`,
    to the grads. exact(k): the same without noise, for reports. report(r) is told every `report_every` steps. A callback
    that returns True stops the run (StoppedError); one that raises stops it too, and the exception comes out here.
    uniform: return an iterate drawn uniformly from all, as the theorems have it."""
    arrays, structs = [], []
    for row in params:
        about = dict(row)
        own = {key: about.pop(key, None) for key in ("weight", "grad", "grad_prev")}
        structs.append(param(np.shape(own["weight"]), **Optimizer._addresses(own), **about))
        arrays.append(own)
    if not isinstance(schedule, Schedule):
        schedule = Schedule("constant", steps, float(schedule))
    raised: List[BaseException] = []

    def guarded(function: Callable[..., Optional[bool]]) -> Callable[..., int]:
        def call(_context: Any, *arguments: Any) -> int:
            try:
                return int(function(*arguments) is True)
            except BaseException as error:  # goes past the C library and out of minimize
                raised.append(error)
                return 1

        return call

    fields = dict(_abi.scion_problem._fields_)
    problem, result, last = _abi.scion_problem(), _abi.scion_result(), _abi.scion_report()
    library.scion_problem_init_sized(byref(problem), sizeof(problem))
    library.scion_result_init_sized(byref(result), sizeof(result))
    library.scion_report_init_sized(byref(last), sizeof(last))
    last.k, last.lr, last.momentum, last.dual_norm, last.fw_gap = 0, np.nan, np.nan, np.nan, np.nan
    result.last = ctypes.addressof(last)
    array = (_abi.scion_param * len(structs))(*structs)
    problem.params, problem.count, problem.steps = ctypes.addressof(array), len(structs), steps
    problem.schedule = ctypes.addressof(schedule._struct)
    problem.gradient = fields["gradient"](guarded(gradient))
    if exact is not None:
        problem.exact = fields["exact"](guarded(exact))
    if report is not None:
        tell = report
        problem.report = fields["report"](guarded(lambda r: tell(_report(_abi.scion_report.from_address(r)))))
    problem.report_every, problem.seed, problem.uniform = report_every, seed, uniform
    o, err = options(rule, **settings), _abi.scion_error()
    status = library.scion_minimize(byref(problem), byref(o), byref(result), byref(err))
    if raised:
        raise raised[0]
    if status == _abi.SCION_ESTOPPED:
        raise StoppedError(err.message.decode(), status)
    check(status, err)
    return Result(result.steps, result.iterate, result.mean_dual_norm, result.mean_fw_gap, _report(last))
