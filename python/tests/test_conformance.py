"""The golden vectors of tests/vectors through the Python surface. tests/conform*.c is the same in C, and docs/testing.md
describes the records. Free functions are libscion.numpy's; runs go through libscion.numpy.Optimizer and, where torch is,
through libscion.torch.Scion."""
import json
import math

import numpy as np
import pytest

import libscion.numpy as sn
from conftest import ROOT

REFERENCE = {  # class of the reference: norm, and its default of `normalized`
    "ColNorm": ("colnorm", False), "RowNorm": ("rownorm", True), "Sign": ("sign", True), "BiasRMS": ("rms", True),
    "Spectral": ("spectral", True), "SpectralConv": ("spectral", True),
}
PAPER = {
    "1->RMS": ("colnorm", "onehot"), "1->RMS,/d_in": ("colnorm", "hidden"), "1->inf": ("sign", "onehot"),
    "1->inf,/d_in": ("sign", "hidden"), "RMS->RMS": ("spectral", "hidden"), "RMS->RMS,max": ("spectral", "input"),
    "2->RMS": ("spectral", "onehot"), "S_inf": ("spectral", "plain"), "RMS->inf": ("rownorm", "hidden"),
    "2->inf": ("rownorm", "onehot"), "l2": ("euclid", "normalization"), "RMS": ("rms", "vector"), "linf": ("max", "vector"),
}
SCHEDULES = {"alpha_vanishing": ("inv_sqrt_k", 1)}  # the library's name, and k of the first step
SEEDS = range(1, 6)


def records(*kinds):
    found = []
    for path in sorted((ROOT / "tests/vectors").glob("*.jsonl")):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            if record["kind"] in kinds and "quirk" not in record and "note" not in record:
                found.append(pytest.param(record, id=record["name"]))
    assert found
    return found


def array(values, shape):
    return np.array(values, np.float32).reshape(shape or (1,))


def close(ours, golden, tol, what=""):
    ours, golden = np.asarray(ours, float).ravel(), np.asarray(golden, float).ravel()
    largest = np.abs(golden).max()
    assert np.abs(ours - golden).max() <= tol * largest, what


def reference(name, options, ndim):
    """norm, role, transposed and Newton-Schulz steps of the reference's class and options."""
    if name == "Auto":
        name, options = ["BiasRMS", "BiasRMS", "Spectral", "SpectralConv", "SpectralConv"][ndim], {}
    norm, normalized = REFERENCE[name]
    normalized = options.get("normalized", normalized)
    role = "vector" if norm == "rms" else "onehot" if not normalized else "input" if options.get("max") else "hidden"
    return {"norm": norm, "role": role, "transposed": options.get("transpose", False)}, options.get("steps", 5)


def paper(record):
    norm, role = PAPER[record["norm"]]
    return {"norm": norm, "role": role, "radius": record.get("rho", 1.0)}


def eps(record):
    return {"eps": 1e-8, "polar_eps": 1e-7} if record.get("eps_sensitive") else {}


@pytest.mark.parametrize("record", records("lmo"))
def test_lmo(record):
    about, steps = reference(record["norm"], record["options"], len(record["shape"]))
    ours = sn.lmo(array(record["grad"], record["shape"]), polar_steps=steps, **about, **eps(record))
    close(-ours, record["lmo"], record["tol"])


@pytest.mark.parametrize("record", records("norm_dual"))
def test_norm_and_dual(record):
    x = array(record["input"], record["shape"])
    close(sn.norm(x, **paper(record)), record["norm_value"], record["tol"])
    close(sn.dual_norm(x, **paper(record)), record["dual_value"], record["tol"])


@pytest.mark.parametrize("record", records("exact_lmo"))
def test_exact_lmo(record):
    s, about = array(record["input"], record["shape"]), paper(record)
    ours = sn.lmo(s, polar="converged", **about)
    close(ours, record["lmo_added"], record["tol"])
    close(np.vdot(s.astype(float), ours), -about["radius"] * sn.dual_norm(s, **about), record["tol"])
    assert sn.norm(ours, **about) <= about["radius"] * (1 + record["tol"])


@pytest.mark.parametrize("record", records("sharp"))
def test_sharp(record):
    s = array(record["input"], record["shape"])
    ours = sn.sharp(s, **paper(record))
    close(ours, record["sharp"], record["tol"])
    close(np.vdot(s.astype(float), ours), record["dual_value"] ** 2, record["tol"])


@pytest.mark.parametrize("record", records("fw_gap"))
def test_fw_gap(record):
    g, x = (array(record[key], record["shape"]) for key in ("input", "x"))
    close(sn.fw_gap(g, x, **paper(record)), record["gap"], record["tol"])


@pytest.mark.parametrize("record", records("joint_norm"))
def test_joint_norm(record):
    norms, duals = [], []
    for row in record["params"]:
        x, about = array(row["input"], row["shape"]), paper(row)
        norms.append(sn.norm(x, **about) / about["radius"])
        duals.append(sn.dual_norm(x, **about) * about["radius"])
    close(max(norms), record["joint_norm"], record["tol"])
    close(sum(duals), record["joint_dual"], record["tol"])


@pytest.mark.parametrize("record", records("schedule"))
def test_schedule(record):
    kind, first = SCHEDULES.get(record["schedule"], (record["schedule"], 0))
    schedule = sn.schedule(kind, int(record.get("n", 1)), record.get("gamma", 1.0), warmup=int(record.get("warmup", 0)),
                           decay=int(record.get("m", 0)), start=record.get("start", 0.0), end=record.get("end", 0.0))
    close([schedule(int(k) - first) for k in record["k"]], record["value"], record["tol"])


def quantity(name, x):
    matrix = x.reshape(x.shape[0], -1).astype(float)
    name = name.split(" (")[0]
    if name == "every singular value of every d_out x d_in kernel slice":
        slices = x.reshape(*x.shape[:2], -1).astype(float)
        return np.concatenate([np.linalg.svd(slices[:, :, q], compute_uv=False) for q in range(slices.shape[2])])
    return {
        "every singular value": lambda: np.linalg.svd(matrix, compute_uv=False),
        "2-norm of every column": lambda: np.linalg.norm(matrix, axis=0),
        "2-norm of every row": lambda: np.linalg.norm(matrix, axis=1),
        "absolute value of every entry": lambda: np.abs(matrix),
    }[name]()


@pytest.mark.parametrize("record", records("init_property"))
def test_init(record):
    name, *words = record["norm"].split()
    known = {"normalized": ("normalized", True), "unnormalized": ("normalized", False), "1-hot": ("normalized", False),
             "transpose": ("transpose", True), "max": ("max", True)}
    about, _ = reference(name, dict(known[word] for word in words), len(record["shape"]))
    for seed in SEEDS:
        values = quantity(record["quantity"], sn.init(record["shape"], seed=seed, radius=record.get("rho", 1.0), **about))
        close(values, np.full(values.size, record["value"]), record["tol"])


# ---- Runs ----------------------------------------------------------------------------------------------------


class NumPyRun:
    def __init__(self, rows, weights, rule, settings):
        self.weights = weights
        self.grads = [np.zeros_like(w) for w in weights]
        self.opt = sn.Optimizer([dict(row, weight=w, grad=g) for row, w, g in zip(rows, weights, self.grads)], rule=rule,
                                **settings)

    def step(self, gradients, lr, momentum, zero):
        for i, (w, g) in enumerate(zip(self.weights, self.grads)):
            self.opt.bind(i, w, None if gradients[i] is None else g)
            if zero:
                g[...] = 0
            if gradients[i] is not None:
                g += gradients[i]
        if momentum is not None:
            self.opt.set("momentum", momentum)
        self.opt.step(lr)
        return self.weights

    def retained(self, i):
        return self.grads[i]

    def average(self, i):
        return self.opt.state(i)["average"]


class TorchRun:
    def __init__(self, rows, weights, rule, settings):
        self.torch = pytest.importorskip("torch")
        from libscion.torch import Scion

        self.params = [self.torch.from_numpy(w).requires_grad_() for w in weights]
        self.opt = Scion([dict(row, params=[p]) for row, p in zip(rows, self.params)], rule=rule, **settings)
        self.light = settings.get("light")

    def step(self, gradients, lr, momentum, zero):
        for p, g in zip(self.params, gradients):
            if self.light and p.grad is not None:
                if zero:
                    p.grad.zero_()
                p.grad += self.torch.from_numpy(g)
            else:
                p.grad = None if g is None else self.torch.from_numpy(g.copy())
        for group in self.opt.param_groups:
            group["lr"] = self.torch.tensor(lr, dtype=self.torch.float64)
            group["momentum"] = momentum if momentum is not None else group["momentum"]
        self.opt.step()
        return [p.detach().numpy() for p in self.params]

    def retained(self, i):
        return self.params[i].grad.numpy()

    def average(self, i):
        return self.opt.state[self.params[i]]["average"].numpy()


RUNS = pytest.mark.parametrize("run", [NumPyRun, TorchRun], ids=["numpy", "torch"])


def follow(run, record, rows, start, weights, rule, settings, lr, alpha=None, zero=True):
    """Runs the parameters of a record and compares the weights after every step; the run."""
    params = record["params"]
    shapes = [tuple(p["shape"]) or (1,) for p in params]
    r = run(rows, [array(p[start], p["shape"]) for p in params], rule, settings)
    for k in range(int(record["steps"])):
        gradients = [None if p["grads"][k] is None else array(p["grads"][k], shape) for p, shape in zip(params, shapes)]
        ours = r.step(gradients, lr[k], alpha(k) if alpha else None, zero)
        for p, w in zip(params, ours):
            close(w, p[weights][k], record["tol"], f"weights[{k}]")
    return r


@RUNS
@pytest.mark.parametrize("record", records("trajectory"))
def test_reference_trajectory(record, run):
    """Parameters with different numbers of Newton-Schulz rounds are different optimizers."""
    described = [reference(p["norm"], p["options"], len(p["shape"])) for p in record["params"]]
    light = record["optimizer"] == "ScionLight"
    zero = record.get("caller_zeroes_grad", not light)
    rule = "uscion" if record["unconstrained"] else "scion"
    for rounds in {steps for _, steps in described}:
        chosen = [(about, p) for (about, steps), p in zip(described, record["params"]) if steps == rounds]
        part = dict(record, params=[p for _, p in chosen])
        rows = [dict(about, radius=p["scale"]) for about, p in chosen]
        settings = {"momentum": record["momentum"], "light": light, "polar_steps": rounds, **eps(record)}
        r = follow(run, part, rows, "w0", "weights", rule, settings, record["lr"], zero=zero)
        for i, p in enumerate(part["params"]):
            if p.get("momentum_buffer") is not None:
                close(r.average(i), p["momentum_buffer"], record["tol"])
            if light and record["momentum"] < 1:
                close(r.retained(i), p["retained_grad"], record["tol"])


METHODS = {"uscg": "uscion", "scg": "scion", "weight_decay": "uscion", "almond": "almond", "muon": "muon", "steepest": "ssd",
           "nsgd_global": "mnsgd", "adamw": "adamw"}


@RUNS
@pytest.mark.parametrize("record", records("paper_trajectory"))
def test_paper_trajectory(record, run):
    method, rule = record["method"], METHODS[record["method"]]
    settings, alpha = {"polar": "converged"}, None
    if rule != "scion":
        settings["weight_decay"] = record.get("mu", record.get("weight_decay", 0.0))
    if method == "adamw":
        settings.update(beta1=record["beta1"], beta2=record["beta2"], adam_eps=record["eps"])
    elif method == "muon":
        settings.update(momentum=1 - record["beta"], nesterov=record.get("nesterov", False), muon_multiplier=1.0)
    elif method == "steepest":
        settings["layerwise"] = True
    else:
        first = record.get("alpha_first")
        if record["alpha"] == "1/sqrt(k)":
            settings["vanishing"] = True
        else:
            settings["momentum"] = record["alpha"]
        settings["first_full"] = first == 1
        if first not in (None, 1):
            settings.pop("vanishing", None)
            alpha = lambda k: first if k == 0 else record["alpha"] if "momentum" in settings else 1 / math.sqrt(k + 1)
    rows = []
    for p in record["params"]:
        norm, role = PAPER[p["norm"]] if "norm" in p else ("euclid", "normalization")
        rows.append({"norm": norm, "role": role,
                     "radius": 1.0 if method == "steepest" else p.get("rho", record.get("rho", 1.0))})
    steps = int(record["steps"])
    lr = record["gamma"] if isinstance(record["gamma"], list) else [record["gamma"]] * steps
    r = follow(run, record, rows, "x0", "x", rule, settings, lr, alpha)
    for i, p in enumerate(record["params"]):
        golden = p.get("m" if method == "adamw" else "state")
        if golden is not None and method != "almond":  # whose average here is that of lmos of the unit ball
            close(r.average(i), golden, record["tol"])
