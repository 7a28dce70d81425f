"""A step as a function, shaped like torch.optim.functional: the caller keeps parameters, gradients and averages."""
from typing import Any, List, Optional, Sequence, Union

import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from .._abi import SCION_ALL, SCION_SET_MOMENTUM, SCION_SET_STEPS
from .._core import Handle, InvalidError, options, param
from ._optimizer import _TYPES, _refuse_tensor
from ._roles import layout

__all__ = ["scion"]

_Each = Union[Any, Sequence[Any]]


def _each(value: _Each, n: int, name: str) -> List[Any]:
    """One value for each parameter: a list has them, anything else is for all."""
    if not isinstance(value, list):
        return [value] * n
    if len(value) != n:
        raise InvalidError(f"{name} has {len(value)} values, expected {n}, one for each parameter")
    return value


def scion(
    params: List[Tensor],
    grads: List[Tensor],
    averages: List[Tensor],
    *,
    foreach: Optional[bool] = None,
    lr: Union[float, Tensor],
    momentum: Optional[float] = None,
    weight_decay: float = 0.0,
    unconstrained: bool = False,
    radius: _Each = 1.0,
    role: _Each = "hidden",
    norm: _Each = None,
    transposed: _Each = False,
    split: _Each = None,
    maximize: bool = False,
    grad_scale: Optional[Tensor] = None,
    found_inf: Optional[Tensor] = None,
    steps: int = 0,
    threads: int = 0,
    **settings: Any,
) -> None:
    """One step of Scion on lists of tensors, in place: w = (1-lr)w + lr radius lmo(d), d the averages.

    radius, role, norm, transposed and split: one for all, or a list with one for each. unconstrained: uScion,
    w = (1 - lr weight_decay)w + lr radius lmo(d). averages are float32, zeros at first. steps: taken before this one, for
    first_full, vanishing and the stochastic rounding of bfloat16. Tensors are contiguous and on the CPU. Every call makes
    its workspace anew: the class Scion keeps it."""
    if foreach:
        raise ValueError("foreach=True: the C library steps all parameters in one call already; leave it at None")
    if found_inf is not None and float(found_inf) != 0:
        return
    n = len(params)
    if len(grads) != n or len(averages) != n:
        raise InvalidError(f"{n} params, {len(grads)} grads and {len(averages)} averages: expected as many of each")
    if weight_decay and not unconstrained:
        raise InvalidError(f"weight_decay is {weight_decay}, but Scion has 1 by definition: expected unconstrained=True")
    columns = {key: _each(value, n, key) for key, value in
               (("radius", radius), ("role", role), ("norm", norm), ("transposed", transposed), ("split", split))}
    o = options("uscion" if unconstrained else "scion", weight_decay=weight_decay if unconstrained else None,
                threads=threads or torch.get_num_threads(), **settings)
    structs, kept = [], []
    for i, (p, g, d) in enumerate(zip(params, grads, averages)):
        for what, t in (("parameter", p), ("gradient", g), ("average", d)):
            _refuse_tensor(t, f"params[{i}]", what)
            if t.shape != p.shape or not t.is_cpu or not t.is_contiguous():
                raise InvalidError(f"params[{i}]: the {what} has shape {tuple(t.shape)} on {t.device}, expected "
                                   f"{tuple(p.shape)}, contiguous and on the CPU")
        if d.dtype is not torch.float32:
            raise InvalidError(f"params[{i}]: the average is {d.dtype}, expected float32")
        g = -g if maximize else g
        kept.append(g)
        about = {key: values[i] for key, values in columns.items()}
        about["split"] = layout(about["split"])
        structs.append(param(p.shape, name=f"params[{i}]", weight=p.data_ptr(), grad=g.data_ptr(), states=[d.data_ptr()],
                             weight_type=_TYPES[p.dtype], grad_type=_TYPES[g.dtype], **about))
    handle = Handle(o, structs)
    if momentum is not None:
        handle.set(SCION_ALL, SCION_SET_MOMENTUM, momentum)
    handle.set(SCION_ALL, SCION_SET_STEPS, steps)
    handle.step(float(lr), grad_scale=1.0 if grad_scale is None else 1.0 / float(grad_scale))
    increment_version(params)
    increment_version(averages)
