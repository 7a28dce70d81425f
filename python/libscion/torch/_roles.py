"""Roles of the parameters of an nn.Module: which layer a parameter belongs to says how it is used, and that fixes its norm.

    Embedding           onehot, stored transposed           positions: vector
    first Linear/Conv   input, if no embedding is there     all others: hidden
    last Linear         output; one that shares its weight with the embedding too
    fused q, k, v       split in three                      LSTM and GRU: in four and three
    normalisation       normalization                       biases, tokens: vector

Parameters of normalisation layers get the norm rms: gains of 1, as modules start, are then in the ball of radius 1 at any
width. (The library's routing has euclid, for networks without gains.)
"""
import re
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

from torch import Tensor, nn

from .._core import InvalidError, name_of, options, param, param_info

# Radii to begin with: those of scion.h.
RADII = {"hidden": 1.0, "onehot": 1.0, "input": 1.0, "output": 100.0, "vector": 1.0, "normalization": 1.0}

_POSITIONS = re.compile(r"(^|[._])(wpe|pos|position|positions|pos_?emb\w*|position\w*)([._]|$)")
_EMBEDDING = re.compile(r"(^|[._])(wte|embedding|embeddings|embed|embed_tokens|tok_emb\w*|token_emb\w*)([._]|$)")
_OUTPUT = re.compile(r"(^|[._])(lm_head|head|classifier|score|output_projection|unembed\w*)([._]|$)")
_NORMALIZATION = re.compile(r"(^|[._])(\w*norm\w*|ln_?\w*|bn_?\d*)([._]|$)")
# Modules whose weight holds q, k and v one behind the other; where heads are interleaved it cannot be told from the weight.
_FUSED = re.compile(r"(^|[._])(c_attn|qkv|qkv_proj|wqkv|in_proj)$")


def layout(split: Any) -> Any:
    """A split as the library takes it: lists, as they come back from files, are tuples."""
    if isinstance(split, (list, tuple)):
        axis, blocks = split
        return int(axis), int(blocks) if isinstance(blocks, int) else tuple(int(n) for n in blocks)
    return split


def by_name(name: str, p: Tensor) -> Dict[str, Any]:
    """A guess where only name and shape are known."""
    if p.ndim < 2:
        return {"role": "normalization" if _NORMALIZATION.search(name) else "vector"}
    if _POSITIONS.search(name) or p.shape[0] == 1:
        return {"role": "vector"}
    if p.ndim == 2 and _EMBEDDING.search(name):
        return {"role": "onehot", "transposed": True}
    return {"role": "output" if p.ndim == 2 and _OUTPUT.search(name) else "hidden"}


class Roles(list):
    """Groups for an optimizer, one for each kind of parameter: role, norm, radius, transposed, split, and the parameters
    with their names. Change what you like before you pass it on; print() shows the table."""

    def rows(self) -> Iterator[Tuple[str, Tensor, Dict[str, Any]]]:
        """Name, parameter and settings of each parameter, in the order of the groups."""
        for group in self:
            about = {key: value for key, value in group.items() if key != "params"}
            for name, p in group["params"]:
                yield name, p, about

    def __str__(self) -> str:
        from ._optimizer import as_table

        rows: List[Tuple[str, ...]] = [("parameter", "shape", "role", "norm", "scale", "radius", "split")]
        o = options()
        for name, p, about in self.rows():
            info = param_info(param(p.shape, **dict(about, split=layout(about["split"]))), o)
            split = about["split"]
            rows.append((name, "x".join(map(str, p.shape)), about["role"] + (" (transposed)" if about["transposed"] else ""),
                         name_of("norm", info.norm), f"{info.scale:.4g}", f"{about['radius']:g}",
                         "" if split is None else f"{split[1]} along axis {split[0]}"))
        return as_table(rows)


def _is_norm(module: nn.Module) -> bool:
    return "norm" in type(module).__name__.lower()


def _is_matrix(module: nn.Module) -> bool:
    """Linear layers and convolutions, of torch or of others with a weight of two dimensions or more."""
    weight = getattr(module, "weight", None)
    return (isinstance(weight, Tensor) and weight.ndim >= 2 and not isinstance(module, (nn.Embedding, nn.EmbeddingBag))
            and not _is_norm(module))


def _is_stored_transposed(module: nn.Module) -> bool:
    """transformers' Conv1D keeps d_in x d_out."""
    return type(module).__name__ == "Conv1D" and hasattr(module, "nf")


def _first_and_last(model: nn.Module) -> Tuple[Any, Any]:
    """The weights of the first layer of dense input, if there is one, and of the last layer."""
    modules = list(model.modules())
    matrices = [m for m in modules if _is_matrix(m)]
    has_tokens = any(isinstance(m, (nn.Embedding, nn.EmbeddingBag)) for m in modules)
    head: Any = model
    head = head.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    if head is None:
        linear = [m for m in matrices if m.weight.ndim == 2 and not _is_stored_transposed(m)]
        head = linear[-1] if linear else None
    first = None if has_tokens or not matrices else matrices[0].weight
    last = getattr(head, "weight", None)
    return (None if first is last else first), last


def _split_of(module: nn.Module, path: str, name: str, p: Tensor) -> Optional[Tuple[int, int]]:
    """Axis and number of the blocks of a fused weight."""
    if isinstance(module, nn.RNNBase) and name.startswith("weight"):
        gates = {"LSTM": 4, "GRU": 3}.get(module.mode)
        return (0, gates) if gates and not name.startswith("weight_hr") else None
    if isinstance(module, nn.MultiheadAttention):
        return (0, 3) if name == "in_proj_weight" else None
    axis = 1 if _is_stored_transposed(module) else 0
    if _FUSED.search(path) and p.ndim == 2 and p.shape[axis] == 3 * p.shape[1 - axis]:
        return axis, 3
    return None


def _role(model: nn.Module, module: nn.Module, path: str, name: str, p: Tensor, ends: Tuple[Any, Any]) -> Dict[str, Any]:
    full = f"{path}.{name}" if path else name
    about: Dict[str, Any] = {"role": "hidden", "transposed": False, "split": None}
    if p is ends[1]:
        about["role"] = "output"
    elif _is_norm(module):
        about.update(role="normalization", norm="rms")
    elif isinstance(module, (nn.Embedding, nn.EmbeddingBag)) and not _POSITIONS.search(full):
        about.update(role="onehot", transposed=True)
    elif p.ndim < 2 or isinstance(module, nn.Embedding) or p.shape[0] == 1 or _POSITIONS.search(full):
        about["role"] = "vector"
    else:
        about.update(role="input" if p is ends[0] else "hidden", transposed=_is_stored_transposed(module),
                     split=_split_of(module, path, name, p))
    return about


def roles(
    model: nn.Module,
    routing: Optional[str] = None,
    *,
    radius: Optional[Mapping[str, float]] = None,
    overrides: Optional[Mapping[str, Mapping[str, Any]]] = None,
) -> Roles:
    """Proposes role, norm and radius for each parameter of a module that requires a gradient.

    routing: norms by role; None: "image" without an embedding, "shared" where the last layer shares its weight, else
    "onehot". radius: by role, in place of RADII. overrides: by name of a parameter, any of role, norm, radius, transposed,
    split. A weight with one row and a fused weight whose heads are interleaved cannot be told from others: look at the
    table, and override."""
    ends = _first_and_last(model)
    tables = [m.weight for m in model.modules() if isinstance(m, (nn.Embedding, nn.EmbeddingBag))]
    if routing is None:
        routing = "image" if not tables else "shared" if any(t is ends[1] for t in tables) else "onehot"
    radii = dict(RADII, **(radius or {}))
    for role in radii:
        if role not in RADII:
            raise InvalidError(f"radius of {role!r}, expected one of {', '.join(RADII)}")
    places = {id(p): (module, path, name) for path, module in reversed(list(model.named_modules()))
              for name, p in module.named_parameters(recurse=False)}
    o = options(routing=routing)
    pending = dict(overrides or {})
    groups: Dict[Tuple[Any, ...], Dict[str, Any]] = {}
    for full, p in model.named_parameters():
        if not p.requires_grad:
            continue
        about = _role(model, *places[id(p)], p, ends)
        about["radius"] = radii[about["role"]]
        own = dict(pending.pop(full, {}))
        if "role" in own:
            about.pop("norm", None)
        if "role" in own and "radius" not in own:
            own["radius"] = radii.get(own["role"], 1.0)
        about.update(own)
        about["split"] = layout(about["split"])
        if about.get("norm") is None:
            about["norm"] = name_of("norm", param_info(param(p.shape, **about), o).norm)
        key = tuple(about[k] for k in ("role", "norm", "radius", "transposed", "split"))
        groups.setdefault(key, dict(about, params=[]))["params"].append((full, p))
    if pending:
        raise InvalidError(f"overrides name {', '.join(pending)}, which the module does not have")
    return Roles(groups.values())
