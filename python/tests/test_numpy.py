"""libscion.numpy: laws of the free functions, schedules, the optimizer, minimize, and bad input."""
import ctypes
import os
import select
import warnings

import numpy as np
import pytest

import libscion
import libscion.numpy as sn

NORMS = [n for n in libscion.names("norm") if n != "auto"]
TOLERANCE = 1e-5  # of float32 arrays of some hundred entries, with sums in double


def gaussian(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("norm", NORMS)
def test_laws_of_the_oracle(norm):
    s = gaussian(12, 20)
    z = sn.lmo(s, norm, polar="converged", radius=3)
    assert np.vdot(s.astype(float), z) == pytest.approx(-3 * sn.dual_norm(s, norm), rel=TOLERANCE)
    assert sn.norm(z, norm) == pytest.approx(3, rel=TOLERANCE)
    assert sn.fw_gap(s, z, norm, radius=3) == pytest.approx(0, abs=TOLERANCE * 3 * sn.dual_norm(s, norm))
    assert np.allclose(sn.sharp(s, norm), -sn.dual_norm(s, norm) * z / 3, rtol=1e-4, atol=1e-5)
    zeros = np.zeros_like(s)
    assert not sn.lmo(zeros, norm).any() and sn.norm(zeros, norm) == 0


def test_polar_factor_is_orthogonal_and_out_is_used():
    a, out = gaussian(6, 9), np.empty((6, 9), np.float32)
    assert sn.polar(a, out=out, polar="converged") is out
    assert np.allclose(out @ out.T, np.eye(6), atol=TOLERANCE)


@pytest.mark.parametrize("norm", ["spectral", "colnorm", "rownorm", "sign"])
def test_init_is_on_the_boundary(norm):
    w = sn.init((8, 24), norm, seed=3, radius=5)
    assert sn.norm(w, norm) == pytest.approx(5, rel=TOLERANCE)
    assert np.array_equal(w, sn.init((8, 24), norm, seed=3, radius=5))
    assert not np.array_equal(w, sn.init((8, 24), norm, seed=4, radius=5))


def test_schedules():
    linear = sn.schedule("linear", 10, 0.5)
    assert [linear(k) for k in (0, 5, 10, 99)] == [0.5, 0.25, 0, 0]
    assert "linear" in repr(linear)
    for kind in libscion.names("schedule"):
        assert np.isfinite(sn.schedule(kind, 10, 1.0)(3))
    with pytest.raises(ValueError, match="schedule is 'line'"):
        sn.schedule("line", 10)
    with pytest.raises(ValueError, match="k is -1"):
        linear(-1)


def quadratic(target):
    """Parameters and gradients of |w - target|^2 / 2."""
    return {"weight": np.zeros_like(target), "grad": np.zeros_like(target), "norm": "spectral", "radius": 10.0}


def test_optimizer_steps_in_place_and_keeps_the_ball():
    target = gaussian(6, 4)
    row = quadratic(target)
    w = row["weight"]
    opt = sn.Optimizer([row], polar="converged")
    for k in range(200):
        opt.begin()
        row["grad"] += w - target
        opt.step(0.1 * (1 - k / 200))
        assert sn.norm(w, "spectral") <= 10 * (1 + TOLERANCE)
    assert row["weight"] is w and np.abs(w - target).max() < 0.1
    assert opt.steps == 200 and opt.inspect(0)["norm"] == "spectral" and opt.inspect(0)["bound"] == 10
    assert opt.inspect(0, norms=True)["weight_norm"] == pytest.approx(sn.norm(w, "spectral"), rel=1e-4)


def test_state_is_the_optimizers_memory_and_save_continues():
    def run(steps, opt, row):
        for k in range(steps):
            row["grad"][...] = gaussian(6, 4, seed=opt.steps)
            opt.step(0.1)

    row = quadratic(gaussian(6, 4))
    opt = sn.Optimizer([row])
    run(3, opt, row)
    average = opt.state(0)["average"]
    assert average.shape == (6, 4) and average.any()
    other = {key: value.copy() if isinstance(value, np.ndarray) else value for key, value in row.items()}
    resumed = sn.Optimizer([other])
    resumed.load(opt.save())
    run(3, opt, row)
    run(3, resumed, other)
    assert np.array_equal(row["weight"], other["weight"])
    with pytest.raises(libscion.StateError):
        sn.Optimizer([quadratic(gaussian(4, 4))]).load(opt.save())


def test_minimize():
    target = gaussian(6, 4)
    row = quadratic(target)

    def gradient(k, sample):
        row["grad"] += row["weight"] - target

    seen = []
    result = sn.minimize([row], gradient, 200, sn.schedule("linear", 200, 0.1), report=seen.append, report_every=50)
    assert result.steps == 200 and result.iterate == 201 and [r.k for r in seen] == [1, 51, 101, 151, 200]
    assert result.last == seen[-1] and result.last.dual_norm < seen[0].dual_norm / 10

    with pytest.raises(libscion.StoppedError):
        sn.minimize([quadratic(target)], lambda k, sample: True, 5, 0.1)
    with pytest.raises(KeyError, match="mine"):
        sn.minimize([quadratic(target)], lambda k, sample: {}["mine"], 5, 0.1)


def test_gil_is_released():
    """ctypes keeps the GIL during calls of a PyDLL alone."""
    from libscion._library import library

    assert isinstance(library, ctypes.CDLL) and not isinstance(library, ctypes.PyDLL)


# ---- Bad input -----------------------------------------------------------------------------------------------


def test_arrays_that_cannot_be_used_without_a_copy():
    a = gaussian(4, 6)
    with pytest.raises(ValueError, match="s is an array of float64, expected float32"):
        sn.lmo(a.astype(float))
    with pytest.raises(ValueError, match="float16"):
        sn.lmo(a.astype(np.float16))
    with pytest.raises(ValueError, match="not contiguous"):
        sn.lmo(a.T)
    with pytest.raises(TypeError, match="s is a list"):
        sn.lmo([[1.0]])
    with pytest.raises(ValueError, match="at least one entry"):
        sn.lmo(np.zeros((0, 3), np.float32))
    with pytest.raises(ValueError, match=r"out has shape \(6, 4\), expected \(4, 6\)"):
        sn.lmo(a, out=np.empty((6, 4), np.float32))
    with pytest.raises(ValueError, match="out overlaps"):
        sn.lmo(a, out=a)
    fixed = a.copy()
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="out is read-only"):
        sn.lmo(a, out=fixed)
    with pytest.raises(ValueError, match="expected a matrix"):
        sn.polar(gaussian(3))


def test_wrong_settings():
    a = gaussian(4, 6)
    with pytest.raises(ValueError, match="norm is 'spectrum', expected one of auto, spectral"):
        sn.lmo(a, "spectrum")
    with pytest.raises(TypeError, match="there is no option 'speed'"):
        sn.lmo(a, speed=3)
    with pytest.raises(TypeError, match="eps is 'x', expected a number"):
        sn.lmo(a, eps="x")
    with pytest.raises(libscion.InvalidError, match="radius"):
        sn.lmo(a, radius=-1)
    with pytest.raises(ValueError, match="kind is 'what'"):
        libscion.names("what")


def test_optimizer_refuses():
    w = gaussian(4, 6)
    with pytest.raises(ValueError, match=r"grad has shape \(6, 4\), expected \(4, 6\)"):
        sn.Optimizer([{"weight": w, "grad": gaussian(6, 4)}])
    with pytest.raises(ValueError, match="overlaps"):
        sn.Optimizer([{"weight": w, "grad": gaussian(4, 6)}, {"weight": w, "grad": gaussian(4, 6)}])
    opt = sn.Optimizer([{"weight": w, "grad": np.full((4, 6), np.nan, np.float32), "name": "head"}])
    before = w.copy()
    with pytest.raises(libscion.NonFiniteError, match="head: the gradient holds NaN or Inf") as caught:
        opt.step(0.1)
    assert caught.value.param == 0 and np.array_equal(w, before) and opt.steps == 0
    with pytest.raises(ValueError, match=r"weight has shape \(2, 6\), expected \(4, 6\)"):
        opt.bind(0, gaussian(2, 6), gaussian(2, 6))
    with pytest.raises(ValueError, match="there is no parameter 3"):
        opt.bind(3, w, w)
    with pytest.raises(ValueError, match="setting is 'speed'"):
        opt.set("speed", 1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_child_of_a_fork_steps_on_one_thread():
    """OpenMP's threads do not survive: the child must not wait for them, and must come to the same weights."""
    target = gaussian(200, 200)
    row = quadratic(target)
    opt = sn.Optimizer([row], threads=2)

    def run():
        for _ in range(3):
            row["grad"][...] = target
            opt.step(0.1)

    run()
    start, state = row["weight"].copy(), opt.save()
    run()
    expected = row["weight"].copy()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                row["weight"][...] = start
                opt.load(state)
                run()
                fresh = sn.polar(target, threads=2)  # free functions too
                told = [str(w.message) for w in told if "forked" in str(w.message)]
            with pytest.raises(libscion.InvalidError, match="before this process was forked"):
                opt.init_weights()
            code = 0 if np.array_equal(row["weight"], expected) and fresh.any() and len(told) == 1 else 2
        finally:
            os.write(writer, bytes([code]))
            os._exit(code)
    os.close(writer)
    ready, _, _ = select.select([reader], [], [], 60)  # a hang fails
    code = os.read(reader, 1) if ready else b""
    if not ready:
        os.kill(child, 9)
    os.waitpid(child, 0)
    os.close(reader)
    assert code == b"\0"
