"""The examples run; a checkpoint of the program has the same logits as a torch module, and goes back."""
import importlib.util
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from conftest import ROOT

EXAMPLES = ROOT / "python/examples"
PROGRAM = os.environ.get("SCION_PROGRAM", str(ROOT / "build/scion"))
LOGITS = 1e-4  # of the largest logit: float32 sums in another order, through a few layers


def run(name, *arguments):
    return subprocess.run([sys.executable, str(EXAMPLES / name), *map(str, arguments)], check=True, capture_output=True,
                          text=True).stdout


def module(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("the quick brown fox jumps over the lazy dog. " * 100)
    return path


def test_nanogpt(tmp_path):
    losses = [float(x) for x in re.findall(r"step \d+  loss ([0-9.]+)", run("nanogpt.py", text(tmp_path), 21))]
    assert len(losses) == 2 and losses[1] < losses[0] / 2
    assert len((EXAMPLES / "nanogpt.py").read_text().splitlines()) <= 80


def test_cifar10(tmp_path):
    """Images that are as red as their class says."""
    r = np.random.default_rng(0)
    for name in ("data_batch_1", "test_batch"):
        records = r.integers(0, 64, (40, 3073)).astype(np.uint8)
        records[:, 0] = np.arange(40) % 10
        records[:, 1:1025] += (records[:, :1] * 18).astype(np.uint8)
        records.tofile(tmp_path / f"{name}.bin")
    losses = [float(x) for x in re.findall(r"loss ([0-9.]+)  test accuracy", run("cifar10.py", tmp_path, 8))]
    assert len(losses) == 8 and losses[-1] < losses[0]


@pytest.mark.skipif(not os.path.exists(PROGRAM), reason="the program is not built")
@pytest.mark.parametrize("options", [[], ["tied=yes", "norms=shared", "qk_norm=no"]], ids=["plain", "tied"])
def test_checkpoint(tmp_path, options):
    pytest.importorskip("safetensors")
    pytest.importorskip("xxhash")
    data, folder = text(tmp_path), tmp_path / "run"
    subprocess.run([PROGRAM, "train", f"data={data}", "layers=2", "width=24", "head_size=8", "block=20", "batch=4", "steps=8",
                    "lr=2^-5", "threads=1", f"out={folder}", *options], check=True, capture_output=True,
                   env=dict(os.environ, SCION_PRESETS=str(ROOT / "presets")))
    example, other = module(EXAMPLES / "checkpoint.py"), module(ROOT / "examples/load_checkpoint.py")
    path = folder / "step-00000008.safetensors"
    model, _, _ = example.read(path)
    weights, settings, meta = other.read(str(path))
    tokens = other.encode(data.read_bytes(), meta)[:20]
    golden = other.gpt(weights, settings, tokens)
    with torch.no_grad():
        ours = model(torch.from_numpy(tokens)[None])[0].numpy()
    assert np.abs(golden).max() > 0.01 and np.abs(ours - golden).max() <= LOGITS * np.abs(golden).max()

    def loss(checkpoint):
        return json.loads(subprocess.run([PROGRAM, "eval", str(checkpoint), f"data={data}", "part=all", "--json"], check=True,
                                         capture_output=True, text=True).stdout)["loss"]

    before = loss(path)
    same = tmp_path / "same.safetensors"
    example.write(same, path, model)
    assert same.read_bytes() == path.read_bytes()
    printed = run("checkpoint.py", path, data, 10, tmp_path / "after.safetensors")
    assert "step 9" in printed and loss(tmp_path / "after.safetensors") < before
