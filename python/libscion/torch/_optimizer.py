"""The class Scion: torch.optim.Optimizer's contract over one optimizer of the C library.

Everything that belongs to a run is where torch expects it: settings in param_groups, averages as float32 tensors and
counts of steps in self.state[p]. The C optimizer borrows that memory. It is made at the first step, and again whenever
something changes that it cannot follow: groups, a loaded state, types, the storage of a weight, a fork. So saving,
loading, copying and pickling are torch's own.
"""
import contextlib
import os
import warnings
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple, Union

import torch  # first: the process then has torch's libgomp, which the library uses as well
from torch import Tensor
from torch.autograd.graph import increment_version

from .. import _abi
from .._core import Handle, InvalidError, name_of, options, param, param_info, state_arrays, value_of
from .._library import library
from ._roles import Roles, by_name, layout

_TYPES = {torch.float32: _abi.SCION_F32, torch.bfloat16: _abi.SCION_BF16}
_DTYPES = {code: dtype for dtype, code in _TYPES.items()}
# Settings of a group that may change between steps. lr is the library's lr_scale, and its own lr is 1.
_SETTINGS = (
    ("lr", _abi.SCION_SET_LR_SCALE),
    ("radius", _abi.SCION_SET_RADIUS),
    ("weight_decay", _abi.SCION_SET_WEIGHT_DECAY),
    ("momentum", _abi.SCION_SET_MOMENTUM),
)
# Settings that describe a parameter: the group's, else those of the table of roles, else by name and shape.
_ABOUT = ("role", "norm", "radius", "transposed", "split")

_told_devices: set = set()
# torch.compile does not follow a step into C.
_outside_of_graphs = getattr(torch, "_disable_dynamo", lambda function: function)


class _Slot:
    """A parameter as the C optimizer knows it."""

    __slots__ = ("param", "index", "name", "about", "group", "shape", "dtype", "grad_dtype", "active", "usual", "staged",
                 "host", "keep", "weight_at", "grad_at", "state", "arrays")

    def __init__(self, p: Tensor, index: int, name: str, about: Dict[str, Any], group: Dict[str, Any]) -> None:
        self.param, self.index, self.name, self.about, self.group = p, index, name, about, group
        self.shape, self.dtype = p.shape, p.dtype
        self.grad_dtype = p.dtype if p.grad is None else p.grad.dtype
        self.active = False  # has had a gradient, and so has state
        self.usual = False  # active, and stepped in place
        self.staged = False  # stepped through `host`: on another device, or not contiguous
        self.host: Optional[Tensor] = None
        self.keep: Optional[Tensor] = None  # a gradient made for this step; under light the one that holds the average
        self.weight_at = self.grad_at = 0
        self.state: Dict[str, Any] = {}
        self.arrays: List[Tuple[str, Tensor, int]] = []  # of the state, with their addresses: kept alive

    def has_moved(self, state: Any) -> bool:
        """True if the state in the optimizer's dict is not what the library works on."""
        return state is not self.state or any(
            self.state.get(name) is not t or t.data_ptr() != at for name, t, at in self.arrays)


def _refuse_tensor(p: Tensor, name: str, what: str) -> None:
    """Tensors that nothing can be done about."""
    if hasattr(p, "device_mesh"):
        raise InvalidError(f"{name}: the {what} is a DTensor, expected a whole tensor: the norm of a shard is not that of "
                           "the parameter. Use data parallelism, or gather it first")
    if p.layout is not torch.strided:
        raise InvalidError(f"{name}: the {what} is sparse ({p.layout}), expected a dense one: Embedding(sparse=False)")
    if p.dtype not in _TYPES:
        raise InvalidError(f"{name}: the {what} is {str(p.dtype).replace('torch.', '')}, expected float32 or bfloat16")
    if p.device.type == "meta":
        raise InvalidError(f"{name}: the {what} is on the device meta: it has no values")
    if p.numel() == 0:
        raise InvalidError(f"{name}: the {what} has shape {tuple(p.shape)}, expected at least one entry")


class Scion(torch.optim.Optimizer):
    r"""Steps by linear minimisation oracles over norm balls: Scion, and with another `rule` Muon, Signum, AdamW, ...

        d = (1 - momentum) d + momentum g
        w = (1 - lr) w + lr radius lmo(d)          rule "scion": the norm of w never exceeds radius
        w = (1 - lr weight_decay) w + lr radius lmo(d)                                  rule "uscion"

    One optimizer takes all parameters: embeddings, matrices, convolutions, normalisations, biases and the last layer, each
    in its own norm.

    Args:
        params: what libscion.torch.roles(model) returns, a list of parameters, groups, or named_parameters().
        lr: step size; a float or a tensor of one element. First value to try: 2**-5, falling to 0.
        rule: libscion.names("rule"). "mars" needs two gradients a step: see previous().
        routing: norms of roles whose norm is not given: libscion.names("routing").
        momentum: weight of the new gradient, as in the paper: torch's momentum=0.9 is 0.1 here. None: the rule's default.
        weight_decay: mu of `uscion` and others; `scion` has 1 by definition (None, 0 and 1 are accepted).
        radius: of the ball; None: the table's, else 1.
        role, norm, transposed, split: libscion.numpy says what they mean. None: the table's, else by name and shape.
        roles: a table of libscion.torch.roles for callers who make groups themselves (HF Trainer).
        light: keep the average in .grad, no state beside it; do not zero gradients then.
        maximize: steps uphill.
        threads: at most so many; 0: torch.get_num_threads() when the first step is taken.
        seed: of the stochastic rounding of bfloat16 weights.
        options: the other members of scion_options: vanishing, first_full, nesterov, layerwise, muon_multiplier,
            adam_lr_scale, beta1, beta2, adam_eps, clip_norm, eps, polar_eps, polar, polar_steps, polar_compute, rounding.

    A group may have its own lr, radius, role, norm, transposed, split, weight_decay, momentum and maximize. A gradient that
    is not finite raises libscion.NonFiniteError, and nothing was changed. Parameters are float32 or bfloat16; averages are
    float32 in any case. Parameters on another device are stepped through copies on the host."""

    _step_supports_amp_scaling = True  # GradScaler gives grad_scale and found_inf

    def __init__(
        self,
        params: Any,
        lr: Union[float, Tensor] = 2.0**-5,
        rule: str = "scion",
        routing: str = "onehot",
        *,
        momentum: Optional[float] = None,
        weight_decay: Optional[float] = None,
        radius: Optional[float] = None,
        role: Optional[str] = None,
        norm: Optional[str] = None,
        transposed: Optional[bool] = None,
        split: Any = None,
        roles: Optional[Roles] = None,
        light: bool = False,
        maximize: bool = False,
        foreach: Optional[bool] = None,
        capturable: bool = False,
        differentiable: bool = False,
        threads: int = 0,
        seed: int = 0,
        **settings: Any,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError(f"lr is a tensor of {lr.numel()} elements, expected one")
        if not lr >= 0:
            raise ValueError(f"lr is {lr}, expected 0 or more")
        if capturable:
            raise ValueError("capturable=True: steps run on the CPU and cannot be part of a CUDA graph")
        if differentiable:
            raise ValueError("differentiable=True: the C library keeps no graph, gradients cannot pass through a step")
        if foreach:
            raise ValueError("foreach=True: the C library steps all parameters in one call already; leave it at None")
        if momentum is not None and 0.8 <= momentum < 1:
            warnings.warn(f"libscion: momentum={momentum} is the weight of the new gradient, as in the paper: torch's "
                          f"momentum={momentum} would be {1 - momentum:.3g} here", stacklevel=2)
        if momentum is not None and settings.get("vanishing"):
            raise ValueError("momentum and vanishing are both given: vanishing is the momentum 1/sqrt(k)")
        self.options: Dict[str, Any] = dict(settings, rule=rule, routing=routing, light=light, seed=seed, threads=threads)
        self._table: Dict[Any, Dict[str, Any]] = {}  # of roles, by parameter and by name
        for name, p, about in roles.rows() if roles is not None else ():
            self._table[p] = self._table[name] = dict(about, name=name)
        self._forget()
        self._options_struct()
        defaults = dict(lr=lr, momentum=momentum, weight_decay=weight_decay, radius=radius, role=role, norm=norm,
                        transposed=transposed, split=split, maximize=maximize, foreach=foreach, capturable=False,
                        differentiable=False, steps=0)
        super().__init__(params, defaults)

    # ---- Options, and what is refused before the first step ----

    def _options_struct(self) -> Any:
        return options(**dict(self.options, threads=self.options["threads"] or torch.get_num_threads()))

    def _rule(self) -> Any:
        """The properties of the rule."""
        return library.scion_rule_info(value_of("rule", self.options["rule"])).contents

    def add_param_group(self, param_group: Dict[str, Any]) -> None:
        """Adds a group, checked by the library as far as it can be without gradients."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        try:
            if len(group["params"]) != len({id(p) for p in group["params"]}):
                raise InvalidError("a parameter is twice in a group")
            group["steps"] = max((int(g.get("steps", 0)) for g in self.param_groups), default=0)
            o = self._options_struct()
            self._group_values(group)
            first = sum(len(g["params"]) for g in self.param_groups[:-1])
            for k, p in enumerate(group["params"]):
                slot = self._slot(group, first + k, k)
                _refuse_tensor(p, slot.name, "parameter")
                param_info(self._struct(slot, len(self.param_groups) - 1), o)
        except Exception:
            self.param_groups.pop()
            raise
        self._forget()

    def _group_values(self, group: Dict[str, Any]) -> Tuple[Optional[float], ...]:
        """The settings of a group, in the order of _SETTINGS; None: the library keeps its own."""
        lr, radius, decay, momentum = (None if group[key] is None else float(group[key]) for key, _ in _SETTINGS)
        fixed = self._decay if self._handle else self._rule().weight_decay
        if fixed and decay not in (None, 0, fixed):
            raise InvalidError(f"weight_decay is {decay}, but rule {self.options['rule']} has {fixed:g} by definition: "
                               "expected None, 0 or 1, or rule uscion")
        return lr, radius, None if fixed else decay or 0.0, momentum

    # ---- The parameters as the library sees them ----

    def _slot(self, group: Dict[str, Any], index: int, k: int) -> _Slot:
        p = group["params"][k]
        name = group["param_names"][k] if "param_names" in group else None
        row = self._table.get(p) or self._table.get(name[7:] if name and name.startswith("module.") else name) or {}
        about = {key: group.get(key) for key in _ABOUT}
        for key in _ABOUT:
            if about[key] is None:
                about[key] = row.get(key)
        name = name or row.get("name") or f"parameter {index}"
        if about["role"] is None:
            guess = by_name(name, p)
            for key in _ABOUT:
                if about[key] is None:
                    about[key] = guess.get(key)
        if about["radius"] is None:
            about["radius"] = 1.0
        about["transposed"] = bool(about["transposed"])
        return _Slot(p, index, name, about, group)

    def _struct(self, slot: _Slot, group: int, **more: Any) -> Any:
        about = dict(slot.about, split=layout(slot.about["split"]))
        return param(slot.shape, name=slot.name, group=group, weight_type=_TYPES[slot.dtype],
                     grad_type=_TYPES[slot.grad_dtype], **dict(about, **more))

    def _forget(self) -> None:
        """Drops the C optimizer: the next step makes it anew from groups and state."""
        self._handle: Optional[Handle] = None
        self._slots: List[_Slot] = []
        self._values: List[Tuple[Optional[float], ...]] = []
        self._decay, self._needs_previous = 0.0, False
        self._previous_grads: Dict[Tensor, Tensor] = {}
        self._process = os.getpid()

    def _settle(self, slot: _Slot) -> None:
        """Decides how a parameter is stepped: in place, or through a copy on the host."""
        p = slot.param
        _refuse_tensor(p, slot.name, "parameter")
        slot.staged = p.device.type != "cpu" or not p.is_contiguous()
        if slot.staged and self.options["light"]:
            raise InvalidError(f"{slot.name}: light keeps the average in the gradient itself, so that parameters must be "
                               "contiguous and on the CPU")
        if p.device.type != "cpu" and p.device.type not in _told_devices:
            _told_devices.add(p.device.type)
            warnings.warn(f"libscion: parameters on {p.device.type} are stepped on the CPU, through copies of weight and "
                          "gradient in every step; their averages stay in host memory", stacklevel=5)
        slot.usual = slot.active and not slot.staged
        slot.host = torch.empty(p.shape, dtype=p.dtype) if slot.staged else None
        slot.weight_at = (slot.host if slot.host is not None else p).data_ptr()

    def _arrays(self, slot: _Slot, struct: Any, o: Any) -> List[int]:
        """Addresses of the state arrays of a parameter; those that it does not have yet are made."""
        state = slot.state = self.state[slot.param]
        state.setdefault("step", 0)
        for name, kind, shape in state_arrays(struct, o):
            if name not in state:
                state[name] = torch.zeros(slot.shape if _numel(shape) == slot.param.numel() else shape, dtype=_DTYPES[kind])
                if name == "previous":
                    state[name].copy_(slot.param)
            t = state[name]
            if t.numel() != _numel(shape) or t.dtype != _DTYPES[kind]:
                raise InvalidError(f"{slot.name}: the state {name} has shape {tuple(t.shape)} and type {t.dtype}, expected "
                                   f"{tuple(shape)} and {_DTYPES[kind]}")
            if t.device.type != "cpu" or not t.is_contiguous():
                state[name] = t = t.detach().to("cpu").contiguous()
            slot.arrays.append((name, t, t.data_ptr()))
        return [at for _, _, at in slot.arrays]

    def _build(self) -> Handle:
        """The C optimizer of the groups and states as they are now."""
        active = {id(slot.param) for slot in self._slots if slot.active}
        o = self._options_struct()
        self._handle = None
        slots: List[_Slot] = []
        structs, values = [], []
        for g, group in enumerate(self.param_groups):
            values.append(self._group_values(group))
            for k in range(len(group["params"])):
                slot = self._slot(group, len(slots), k)
                p = slot.param
                slot.active = p.grad is not None or id(p) in active or bool(self.state.get(p))
                self._settle(slot)
                if p.grad is not None:
                    _refuse_tensor(p.grad, slot.name, "gradient")
                bare = self._struct(slot, g)
                states = self._arrays(slot, bare, o) if slot.active else ()
                decay = values[g][2]
                structs.append(self._struct(slot, g, weight=slot.weight_at, weight_decay=decay, states=states,
                                            owned=slot.active))
                slots.append(slot)
        handle = Handle(o, structs)
        steps = max((int(group.get("steps", 0)) for group in self.param_groups), default=0)
        self._slots, self._handle, self._process = slots, handle, os.getpid()
        self._decay, self._needs_previous = self._rule().weight_decay, bool(self._rule().needs_prev)
        self._values = [(None,) * len(_SETTINGS)] * len(values)
        self._send_settings()
        handle.set(_abi.SCION_ALL, _abi.SCION_SET_STEPS, steps)
        for slot in slots:
            if slot.active and slot.state["step"] != steps:
                handle.set(slot.index, _abi.SCION_SET_STEPS, float(slot.state["step"]))
        return handle

    def _send_settings(self) -> None:
        """Tells the library which settings of groups have changed."""
        for g, group in enumerate(self.param_groups):
            new, old = self._group_values(group), self._values[g]
            if new == old:
                continue
            for (_, what), value, before in zip(_SETTINGS, new, old):
                if value is not None and value != before:
                    self._handle.set_group(g, what, value)  # type: ignore[union-attr]
            self._values[g] = new

    # ---- The step ----

    def _bind(self, handle: Handle) -> Optional[List[_Slot]]:
        """Gives the library this step's gradients. Returns the parameters that have one; None: it must be made anew.
        The loop is most of what Python costs in a step of small parameters, hence the one test for what is usual."""
        stepped = []
        light, needs_previous, strided, bind = self.options["light"], self._needs_previous, torch.strided, handle.bind
        uphill, states = any(group["maximize"] for group in self.param_groups), self.state
        for slot in self._slots:
            p = slot.param
            grad = p.grad
            if grad is None:
                if slot.grad_at:
                    self._keep_average(slot, light)
                    bind(slot.index, slot.weight_at, 0)
                    slot.grad_at = 0
                continue
            shape = slot.shape
            if slot.active and slot.has_moved(states.get(p)):
                return None
            if uphill or not (
                    slot.usual and p.dtype is slot.dtype and grad.dtype is slot.grad_dtype and grad.layout is strided
                    and p.shape == shape and grad.shape == shape and p.is_contiguous() and grad.is_contiguous()
                    and p.is_cpu and grad.is_cpu and p.data_ptr() == slot.weight_at):
                prepared = self._prepared_grad(slot, grad)
                if prepared is None:
                    return None
                grad = prepared
            at = grad.data_ptr()
            if needs_previous:
                bind(slot.index, slot.weight_at, at, self._previous_grad(slot))
            elif at != slot.grad_at:
                if slot.grad_at:
                    self._keep_average(slot, light)
                bind(slot.index, slot.weight_at, at)
            if light:
                slot.keep = grad
            slot.grad_at = at
            stepped.append(slot)
        return stepped

    def _prepared_grad(self, slot: _Slot, grad: Tensor) -> Optional[Tensor]:
        """The gradient of a parameter that is not as usual, after its weight was copied to the host if it must be; None: the
        C optimizer must be made anew."""
        p = slot.param
        if p.shape != slot.shape:
            raise InvalidError(f"{slot.name}: its shape is {tuple(p.shape)}, but was {tuple(slot.shape)} when the optimizer "
                               "was made: make a new one")
        _refuse_tensor(grad, slot.name, "gradient")
        if grad.shape != slot.shape:
            raise InvalidError(f"{slot.name}: the gradient has shape {tuple(grad.shape)}, expected {tuple(slot.shape)}")
        if (not slot.active or p.dtype is not slot.dtype or grad.dtype is not slot.grad_dtype
                or slot.staged != (not p.is_cpu or not p.is_contiguous())
                or not slot.staged and p.data_ptr() != slot.weight_at):
            return None
        if slot.staged:
            slot.host.copy_(p)  # type: ignore[union-attr]
        if not grad.is_cpu or not grad.is_contiguous() or slot.group["maximize"]:
            return self._copied_grad(slot, grad)
        return grad

    def _copied_grad(self, slot: _Slot, grad: Tensor) -> Tensor:
        """A gradient that cannot be used where it is, on the host and contiguous; uphill its negative."""
        if self.options["light"]:
            raise InvalidError(f"{slot.name}: light keeps the average in the gradient itself, which must be contiguous, on "
                               "the CPU, and downhill (maximize=False)")
        slot.keep = grad.to("cpu").contiguous()
        if slot.group["maximize"]:
            slot.keep = -slot.keep
        return slot.keep

    def _previous_grad(self, slot: _Slot) -> int:
        """Where the gradient at the previous weights is. The first step of a parameter does not read it."""
        if slot.staged:
            raise InvalidError(f"{slot.name}: rule {self.options['rule']} exchanges weights in place: expected a contiguous "
                               "parameter on the CPU")
        grad = self._previous_grads.get(slot.param)
        if grad is None and slot.state["step"]:
            raise InvalidError(f"{slot.name}: rule {self.options['rule']} needs the gradient at the previous weights: compute "
                               "it in `with optimizer.previous():` before the step")
        if grad is None:
            grad = self._previous_grads[slot.param] = torch.zeros_like(slot.param)
        if slot.group["maximize"] and slot.state["step"]:
            grad = self._previous_grads[slot.param] = -grad
        return grad.data_ptr()

    @staticmethod
    def _keep_average(slot: _Slot, light: bool) -> None:
        """Under light a gradient that goes away takes the average with it."""
        if light and slot.state["step"]:
            raise InvalidError(f"{slot.name}: its gradient was replaced or set to None, and with it the average that light "
                               "keeps there: do not call zero_grad, and not model.zero_grad() either")

    @torch.no_grad()
    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """One step of all parameters that have a gradient. closure: computes loss and gradients anew, returns the loss."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        found_inf, grad_scale = getattr(self, "found_inf", None), getattr(self, "grad_scale", None)
        if found_inf is not None and float(found_inf) != 0:
            return loss  # GradScaler's gradients overflowed
        self._take_step(1.0 if grad_scale is None else 1.0 / float(grad_scale))
        return loss

    @_outside_of_graphs
    def _take_step(self, grad_scale: float) -> None:
        if self._process != os.getpid():
            self._handle = None
        handle = self._handle or self._build()
        stepped = self._bind(handle)
        if stepped is None:
            handle = self._build()
            stepped = self._bind(handle)
        if not stepped:
            return
        self._send_settings()
        handle.step(1.0, grad_scale=grad_scale)
        # Autograd refuses a later backward pass through a graph that has the old weights.
        increment_version([slot.param for slot in stepped])
        light = self.options["light"]
        for slot in stepped:
            slot.state["step"] += 1
            if slot.staged:
                slot.param.copy_(slot.host)  # type: ignore[arg-type]
            if not light:
                slot.keep = None
        self._previous_grads.clear()
        for group in self.param_groups:
            group["steps"] += 1

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Resets the gradients. Under light they hold the averages: set_to_none=True is refused, False leaves them."""
        if not self.options["light"]:
            super().zero_grad(set_to_none)
        elif set_to_none and any(p.grad is not None for group in self.param_groups for p in group["params"]):
            raise InvalidError("zero_grad(set_to_none=True): with light the gradients hold the averages, which this would "
                               "throw away. Leave the call out: backward() adds to them")

    # ---- State ----

    def __getstate__(self) -> Dict[str, Any]:
        return dict(super().__getstate__(), options=self.options, _table=self._table)

    def __setstate__(self, state: Dict[str, Any]) -> None:
        super().__setstate__(state)
        self._forget()

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Loads what state_dict() gave. Averages keep their float32, which torch would round to the type of the weights.
        A state that does not fit is refused, and nothing was changed."""
        given: Dict[str, Any] = {}

        def look(_optimizer: Any, loaded: Dict[str, Any]) -> None:
            self._check_loaded(loaded)
            given.update(loaded)

        def restore(_optimizer: Any) -> None:
            saved = (i for group in given["param_groups"] for i in group["params"])
            for i, p in zip(saved, (p for group in self.param_groups for p in group["params"])):
                for key, value in given["state"].get(i, {}).items():
                    if isinstance(value, Tensor) and key != "step":
                        self.state[p][key] = value.detach().to("cpu", copy=True).contiguous()
                    elif key == "step":
                        self.state[p][key] = int(value)
            for group in self.param_groups:
                for key, value in self.defaults.items():
                    group.setdefault(key, value)
            self._forget()

        before = self.register_load_state_dict_pre_hook(look)  # after the callers' own
        after = self.register_load_state_dict_post_hook(restore, prepend=True)
        try:
            super().load_state_dict(state_dict)
        finally:
            before.remove()
            after.remove()

    def _check_loaded(self, loaded: Dict[str, Any]) -> None:
        groups, saved = self.param_groups, loaded["param_groups"]
        if len(groups) != len(saved) or any(len(a["params"]) != len(b["params"]) for a, b in zip(groups, saved)):
            return  # the base class refuses it in its own words
        o = self._options_struct()
        index = 0
        for g, (group, other) in enumerate(zip(groups, saved)):
            for k, i in enumerate(other["params"]):
                slot = self._slot(group, index, k)
                index += 1
                state = loaded["state"].get(i)
                if not state:
                    continue
                expected = {name: shape for name, _, shape in state_arrays(self._struct(slot, g), o)}
                found = {name: value for name, value in state.items() if name != "step"}
                if set(found) != set(expected):
                    raise InvalidError(f"{slot.name}: the loaded state has {sorted(found) or 'no arrays'}, but rule "
                                       f"{self.options['rule']} has {sorted(expected) or 'none'}: it is of another optimizer")
                for name, shape in expected.items():
                    if found[name].numel() != _numel(shape) or (
                        _numel(shape) == slot.param.numel() and found[name].shape != slot.shape
                    ):
                        raise InvalidError(f"{slot.name}: the loaded state {name} has shape {tuple(found[name].shape)}, "
                                           f"expected {tuple(slot.shape)}")

    # ---- Beyond torch.optim ----

    @contextlib.contextmanager
    def previous(self) -> Iterator[None]:
        """Rule mars: inside, the weights are those before the last step, and gradients go to a place of their own.

            loss(model(batch)).backward()
            with opt.previous():
                loss(model(batch)).backward()      # the same batch
            opt.step()"""
        if not self._rule().needs_prev:
            raise InvalidError(f"rule {self.options['rule']} keeps no previous weights")
        with torch.no_grad():
            handle = self._handle if self._handle and self._process == os.getpid() else self._build()
        parameters = [p for group in self.param_groups for p in group["params"]]
        present = [p.grad for p in parameters]
        handle.exchange_previous()
        try:
            for p in parameters:
                p.grad = None
            yield
            self._previous_grads = {p: p.grad.contiguous() for p in parameters if p.grad is not None}
        finally:
            handle.exchange_previous()
            for p, grad in zip(parameters, present):
                p.grad = grad

    def _all_slots(self) -> Iterator[Tuple[int, _Slot]]:
        index = 0
        for g, group in enumerate(self.param_groups):
            for k in range(len(group["params"])):
                yield g, self._slot(group, index, k)
                index += 1

    def table(self) -> str:
        """The routing of every parameter as text: name, shape, role, norm, scale of the lmo, radius, rule."""
        o = self._options_struct()
        rows: List[Tuple[str, ...]] = [("parameter", "shape", "role", "norm", "scale", "radius", "rule")]
        for g, slot in self._all_slots():
            info = param_info(self._struct(slot, g), o)
            rows.append((slot.name, "x".join(map(str, slot.shape)), slot.about["role"], name_of("norm", info.norm),
                         f"{info.scale:.4g}", f"{slot.about['radius']:g}", name_of("rule", info.rule)))
        return as_table(rows)

    @torch.no_grad()
    def init_weights(self, seed: int = 0) -> None:
        """Puts every weight on the boundary of its ball, at random, and vectors at 0. Parameters of normalisation layers
        stay as they are. The values depend on seed, shapes and order only."""
        slots = list(self._all_slots())
        for _, slot in slots:
            self._settle(slot)
        structs = [self._struct(slot, g, weight=0 if slot.about["role"] == "normalization" else slot.weight_at, owned=False)
                   for g, slot in slots]
        Handle(self._options_struct(), structs).init_weights(seed)
        increment_version([slot.param for _, slot in slots])
        for _, slot in slots:
            if slot.staged and slot.about["role"] != "normalization":
                slot.param.copy_(slot.host)  # type: ignore[arg-type]

    def inspect(self, norms: bool = False) -> List[Dict[str, Any]]:
        """Facts about every parameter: name, rule, norm, role, scale, radius, seconds of the last step, state_bytes. norms:
        and weight_norm, grad_dual, fw_gap, which cost about as much as a step."""
        handle = self._handle or self._build()
        if self._bind(handle) is None:
            handle = self._build()
            self._bind(handle)
        rows = [handle.inspect(slot.index, norms) for slot in self._slots]
        for row in rows:
            del row["bound"], row["overshoot"]
        return rows


def _numel(shape: Iterable[int]) -> int:
    n = 1
    for side in shape:
        n *= side
    return n


def as_table(rows: List[Tuple[str, ...]]) -> str:
    """Rows in columns."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)
