#!/usr/bin/env python3
"""Times optimizer steps on the parameters of a GPT-2 124M: libscion against torch.optim.Muon and a textbook Scion.

    step.py [--threads 2] [--rounds 3] [--layers 12] [--only NAME ...] [--overhead]

Parameters are those of bench/compare_torch.py 124m: 72 hidden matrices (48 of 768 x 768, 24 of 3072 x 768) and a tied table
of 50304 x 768, with random gradients. Printed are medians of `rounds` steps in milliseconds, one after the other in one
process. Iterations in bfloat16, which CPUs without its instructions emulate, are timed on one matrix of each shape and
multiplied by their number: printed with a ~. --overhead: the time of a step outside of the C call, there and for 100 small
parameters."""
import argparse
import dataclasses
import pathlib
import statistics
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import compare_torch as textbook  # noqa: E402

import libscion.torch  # noqa: E402
from libscion._library import library  # noqa: E402

LR, HIDDEN = 2.0**-12, {(768, 768): 4, (3072, 768): 2}  # matrices of a layer


def median_ms(function, rounds, warm=None):
    """Of `rounds` calls. warm: called before, in place of the function itself."""
    times = []
    (warm or function)()
    for _ in range(rounds):
        begin = time.perf_counter()
        function()
        times.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(times)


def make_model(layers):
    """Weights and gradients of 1/30 or so: their values change no time."""
    torch.manual_seed(0)
    model = textbook.GPT(dataclasses.replace(textbook.CASES["124m"], layers=layers))
    with torch.no_grad():
        for w in model.weight.values():
            w.uniform_(-1 / 30, 1 / 30)
            w.grad = torch.empty_like(w).uniform_(-1 / 30, 1 / 30)
    return model


def ours(model, **settings):
    groups = [{"params": [w for n, w in model.weight.items() if model.role_of(n) == role], "role": ours_role, "radius": rho}
              for role, ours_role, rho in (("last", "output", 3000.0), ("hidden", "hidden", 50.0))]
    return libscion.torch.Scion(groups, lr=LR, routing="shared", **settings)


def in_bfloat16(function, model):
    """The time of a function of one matrix for all hidden matrices; a small one warms up, or compiles."""
    total = 0.0
    for shape, count in HIDDEN.items():
        g = torch.randn(shape)
        total += model.shape.layers * count * median_ms(lambda: function(g), 1, lambda: function(g[:64, :64]))
    return total


def compiled(function, dynamic=False):
    return torch.compile(function, dynamic=dynamic)


def textbook_step(model, polar):
    kept, textbook.polar = textbook.polar, polar
    opt = textbook.Scion(model, LR)

    def step():
        textbook.polar = polar
        opt.step()
        textbook.polar = kept

    return step


def textbook_ms(model, polar, rounds):
    """One matrix of each shape warms up, or compiles."""
    return median_ms(textbook_step(model, polar), rounds, lambda: [polar(torch.randn(shape)) for shape in HIDDEN])


def muon_polar(g):
    from torch.optim import _muon

    return _muon._zeropower_via_newtonschulz(g, (_muon.DEFAULT_A, _muon.DEFAULT_B, _muon.DEFAULT_C), 5, _muon.EPS)


def bf16_polar(g):
    return textbook.polar(g.bfloat16()).float()


RUNS = {  # name: the function that gives milliseconds, and whether it is an estimate
    "libscion, float32": (lambda model, rounds: median_ms(ours(model).step, rounds), False),
    "textbook Scion, float32": (lambda model, rounds: textbook_ms(model, textbook.polar, rounds), False),
    "textbook Scion, float32, compiled": (lambda model, rounds: textbook_ms(model, compiled(textbook.polar), rounds), False),
    "libscion, bfloat16 products": (lambda model, rounds: median_ms(ours(model, polar_compute="bfloat16").step, rounds), False),
    "textbook Scion, bfloat16 (hidden matrices)": (lambda model, rounds: in_bfloat16(bf16_polar, model), True),
    "textbook Scion, bfloat16, compiled (hidden matrices)":
        (lambda model, rounds: in_bfloat16(compiled(bf16_polar, True), model), True),
    "torch.optim.Muon, bfloat16 (hidden matrices)": (lambda model, rounds: in_bfloat16(muon_polar, model), True),
    "torch.optim.Muon, bfloat16, compiled (hidden matrices)":
        (lambda model, rounds: in_bfloat16(compiled(muon_polar, True), model), True),
}


class Clock:
    """Adds up the time inside the C call of a step."""

    def __enter__(self):
        self.inside, self.call = 0.0, library.scion_optimizer_step_with

        def timed(*arguments):
            begin = time.perf_counter()
            status = self.call(*arguments)
            self.inside += time.perf_counter() - begin
            return status

        library.scion_optimizer_step_with = timed
        return self

    def __exit__(self, *_):
        library.scion_optimizer_step_with = self.call


def overhead(opt, steps, params=()):
    """Medians of the whole step and of its time outside of the C call, in ms. Gradients move between steps."""
    whole, outside = [], []
    opt.step()
    for _ in range(steps):
        for p in params:
            p.grad = p.grad.clone()
        with Clock() as clock:
            begin = time.perf_counter()
            opt.step()
            whole.append(1e3 * (time.perf_counter() - begin))
        outside.append(whole[-1] - 1e3 * clock.inside)
    return statistics.median(whole), statistics.median(outside)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--only", nargs="+", default=list(RUNS), choices=list(RUNS), metavar="NAME", help="which runs")
    parser.add_argument("--overhead", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    print(f"torch {torch.__version__}, {given.threads} threads, {torch.backends.cpu.get_cpu_capability()}, "
          f"{given.layers} layers", flush=True)
    if given.overhead:
        model = make_model(given.layers)
        whole, outside = overhead(ours(model), given.rounds, list(model.weight.values()))
        print(f"{given.layers} layers: step {whole:.1f} ms, outside of the C call {outside:.3f} ms: {100 * outside / whole:.2f} %")
        small = [torch.nn.Parameter(torch.randn(16, 16)) for _ in range(100)]
        for p in small:
            p.grad = torch.randn(16, 16)
        whole, outside = overhead(libscion.torch.Scion(small, lr=LR), 200, small)
        print(f"100 parameters of 16 x 16: step {whole:.3f} ms, outside of the C call {outside:.3f} ms")
        return
    model = make_model(given.layers)
    for name, (run, estimate) in RUNS.items():
        if name in given.only:
            print(f"{'~' if estimate else ' '}{run(model, given.rounds):10.1f} ms  {name}", flush=True)


if __name__ == "__main__":
    main()
