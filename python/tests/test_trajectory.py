"""Trajectories through Python are those of a C program, bit for bit."""
import subprocess

import numpy as np
import pytest

import libscion.numpy as sn
from conftest import ROOT
from libscion import names

STEPS = 5
# shape, role, transposed, blocks, radius: as in trajectory.c
ROWS = [((50, 16), "onehot", True, None, 1.0), ((32, 16), "hidden", False, None, 3.0), ((8, 4, 3, 3), "hidden", False, None, 2.0),
        ((32,), "vector", False, None, 1.0), ((24, 8), "hidden", False, 3, 1.0), ((50, 32), "output", False, None, 10.0)]
RULES = [rule for rule in names("rule") if rule != "mars"]


def stream(shape, number):
    """As fill() in trajectory.c."""
    with np.errstate(over="ignore"):
        x = (np.uint64(number) << np.uint64(32)) + np.arange(np.prod(shape), dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = x ^ (x >> np.uint64(31))
    return ((x >> np.uint64(40)).astype(np.int64) - (1 << 23)).astype(np.float32).reshape(shape) * np.float32(2.0**-23)


@pytest.fixture(scope="module")
def c_weights(compile_c):
    program = compile_c(ROOT / "python/tests/trajectory.c", linked=True)
    return lambda rule, kind: subprocess.check_output([str(program), rule, kind, str(STEPS)])


def lr(k):
    return 0.05 * (1 - k / STEPS)


@pytest.mark.parametrize("rule", RULES)
def test_numpy(c_weights, rule):
    rows = [{"weight": stream(shape, i), "grad": np.zeros(shape, np.float32), "role": role, "transposed": transposed,
             "split": split, "radius": radius} for i, (shape, role, transposed, split, radius) in enumerate(ROWS)]
    opt = sn.Optimizer(rows, rule=rule, routing="onehot", seed=7)
    for k in range(STEPS):
        for i, row in enumerate(rows):
            row["grad"][...] = stream(row["grad"].shape, 100 * (k + 1) + i)
        opt.step(lr(k))
    assert b"".join(row["weight"].tobytes() for row in rows) == c_weights(rule, "float32")


def torch_tensor(torch, array, kind):
    if kind == "float32":
        return torch.from_numpy(array.copy())
    halves = (array.view(np.uint32) >> np.uint32(16)).astype(np.uint16).view(np.int16)
    return torch.from_numpy(halves.copy()).view(torch.bfloat16)


def torch_bytes(torch, weights):
    return b"".join(w.detach().view(torch.int16 if w.dtype is torch.bfloat16 else torch.int32).numpy().tobytes()
                    for w in weights)


@pytest.mark.parametrize("way", ["plain", "reloaded", "strided"])
@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
@pytest.mark.parametrize("rule", RULES)
def test_torch(c_weights, rule, kind, way):
    """plain; or through state_dict() into a new optimizer after every step; or with weights that are not contiguous."""
    torch = pytest.importorskip("torch")
    from libscion.torch import Scion

    weights = [torch_tensor(torch, stream(row[0], i), kind).requires_grad_() for i, row in enumerate(ROWS)]
    if way == "strided":
        weights[1].data = weights[1].data.t().contiguous().t()
        weights[2].data = weights[2].data.contiguous(memory_format=torch.channels_last)

    def make():
        return Scion([{"params": [w], "role": role, "transposed": transposed, "split": split, "radius": radius}
                      for w, (_, role, transposed, split, radius) in zip(weights, ROWS)], rule=rule, seed=7)

    opt = make()
    for k in range(STEPS):
        for i, w in enumerate(weights):
            w.grad = torch_tensor(torch, stream(tuple(w.shape), 100 * (k + 1) + i), kind)
        for group in opt.param_groups:
            group["lr"] = lr(k)
        opt.step()
        if way == "reloaded":
            state, opt = opt.state_dict(), make()
            opt.load_state_dict(state)
    assert torch_bytes(torch, [w.detach().contiguous() for w in weights]) == c_weights(rule, kind)
