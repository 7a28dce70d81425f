#!/usr/bin/env python3
"""Reads a run's event files with the tensorboard package, and its metrics.csv with pandas (and trackio, if it is
installed), and compares them with its metrics.jsonl.

    peers_tensorboard.py PATH-OF-SCION

Trains a tiny model on a text it makes, resumes it from an earlier checkpoint, and exits with 1 on a difference."""
import glob
import json
import os
import struct
import subprocess
import sys
import tempfile
import time

import pandas
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

scion = os.path.abspath(sys.argv[1])
os.environ.setdefault("SCION_PRESETS", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "presets"))


def train(folder):
    with open(f"{folder}/text.txt", "w") as text:
        text.writelines(f"{i} the quick brown fox jumps\n" for i in range(1500))
    options = ("data=text.txt width=32 head_size=16 layers=1 block=32 batch=8 eval_tokens=500 log_every=2 norm_every=6 "
               "eval_every=6 save_every=6 keep=9 steps=30 out=run tensorboard=boards")
    subprocess.run([scion, "train", "shakespeare", *options.split(), "--quiet"], cwd=folder, check=True)
    time.sleep(1)  # names of event files have the second
    subprocess.run([scion, "resume", "run/step-00000012.safetensors", "--quiet"], cwd=folder, check=True)
    with open(f"{folder}/run/metrics.jsonl") as lines:
        return [json.loads(line) for line in lines]


def single(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def compare_events(folder, lines):
    board = EventAccumulator(f"{folder}/boards/run", size_guidance={"scalars": 0})
    board.Reload()
    found = {(tag, e.step): e.value for tag in board.Tags()["scalars"] for e in board.Scalars(tag)}
    found = {key: value for key, value in found.items() if key[0] != "worst_share_of_bound"}
    want = {}
    for line in lines:
        behind = "/" + line["name"] if "name" in line else ""
        want.update({(key + behind, line["step"]): single(value) for key, value in line.items()
                     if key not in ("step", "name", "time", "ratio", "overshoot") and value is not None})
    assert found == want, set(found.items()) ^ set(want.items())
    return len(found)


def compare_csv(folder, lines):
    table = pandas.read_csv(f"{folder}/run/metrics.csv")
    points = [line for line in lines if "name" not in line]
    assert len(table) == len(points)
    for (_, row), point in zip(table.iterrows(), points):
        known = row.dropna().to_dict()
        known["time"] = known.pop("timestamp")
        assert known == point, (known, point)
    pandas.to_datetime(table.timestamp, utc=True)
    return len(table)


def import_csv(folder):
    os.environ["TRACKIO_DIR"] = f"{folder}/trackio"
    try:
        from trackio.imports import import_csv
    except ImportError:
        return "trackio is not installed"
    import_csv(f"{folder}/run/metrics.csv", project="peers")
    return "trackio imported it"


with tempfile.TemporaryDirectory() as folder:
    lines = train(folder)
    files = len(glob.glob(f"{folder}/boards/run/*"))
    print(f"tensorboard: {compare_events(folder, lines)} values in {files} files are those of metrics.jsonl")
    print(f"pandas: {compare_csv(folder, lines)} rows of metrics.csv are those of metrics.jsonl; {import_csv(folder)}")
