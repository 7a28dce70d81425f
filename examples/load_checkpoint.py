#!/usr/bin/env python3
"""Reads a checkpoint of scion and computes what the program computes, with NumPy alone.

    load_checkpoint.py CHECKPOINT              prints the settings and the tensors
    load_checkpoint.py CHECKPOINT TEXT         loss and accuracy of a text model, as scion eval CHECKPOINT data=TEXT part=all
    load_checkpoint.py CHECKPOINT FOLDER       of a model of images, on idx files (not packed), as scion eval CHECKPOINT

docs/file-formats.md has the same in words and formulas. Take from here what you need: read() gives the weights,
gpt() and mlp() the logits."""
import json
import math
import sys

import numpy as np

EPS = np.float32(2.0**-23)


# ---- The file ------------------------------------------------------------------------------------------------


def read(path):
    """The tensors by name, and the metadata: safetensors is a length, a JSON header, and the arrays."""
    with open(path, "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        data = f.read()
    meta = header.pop("__metadata__")
    types = {"F32": np.float32, "U8": np.uint8}
    tensors = {}
    for name, t in header.items():
        first, end = t["data_offsets"]
        tensors[name] = np.frombuffer(data[first:end], types[t["dtype"]]).reshape(t["shape"])
    settings = {key: str(value) for key, value in json.loads(meta["config"]).items()}
    return tensors, settings, meta


def is_on(value):
    return value.lower() in ("yes", "true", "1", "on")


def encode(text, meta):
    """The tokens of a text: the place of each symbol in the vocabulary, which is in ascending order."""
    symbols = meta["vocabulary"]
    is_bytes = symbols.startswith("\ufffd\ufffd")
    symbols = symbols[2:] if is_bytes else symbols
    symbols = "\0" + symbols[2:] if symbols.startswith("\ufffe\ufffe") else symbols
    place = {ord(symbol): i for i, symbol in enumerate(symbols)}
    return np.array([place[c] for c in (text if is_bytes else map(ord, text.decode()))])


# ---- The networks --------------------------------------------------------------------------------------------

ACTIVATIONS = {
    "relu": lambda z: np.maximum(z, 0),
    "scaled_relu": lambda z: np.float32(math.sqrt(2)) * np.maximum(z, 0),
    "relu2": lambda z: np.maximum(z, 0) ** 2,
    "scaled_relu2": lambda z: 2 * np.maximum(z, 0) ** 2,
    "gelu": lambda z: z * normal(z),
    "sqrt2_gelu": lambda z: np.float32(math.sqrt(2)) * z * normal(z),
    "tanh": np.tanh,
}


def normal(z):
    """The normal distribution function, not its fit by tanh."""
    return np.float32(0.5) * (1 + np.vectorize(math.erf, otypes=[np.float32])(z * np.float32(math.sqrt(0.5))))


def norm(x):
    """RMS norm over the last axis; it has no gain."""
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + EPS)


def rotary(x, base):
    """x (T, heads, D): the pair x_i, x_{i + D/2} at position t is rotated by t base^(-2i/D)."""
    T, half = x.shape[0], x.shape[2] // 2
    angle = np.arange(T)[:, None] * base ** (-np.arange(half) / half)
    c, s = (f(angle).astype(np.float32)[:, None, :] for f in (np.cos, np.sin))
    u, v = x[..., :half], x[..., half:]
    return np.concatenate((u * c - v * s, v * c + u * s), axis=-1)


def attention(q, k, v):
    """(T, heads, D) each; position t sees positions 0 to t."""
    T, heads, D = q.shape
    scores = np.einsum("thd,shd->hts", q, k) / np.float32(math.sqrt(D))
    scores = np.where(np.tri(T, dtype=bool), scores, -np.inf)
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    return np.einsum("hts,shd->thd", p, v).reshape(T, heads * D)


def gpt(w, settings, tokens):
    """The logits (T, vocabulary) behind each of T tokens, at most `block` of them."""
    D, f = int(settings["head_size"]), ACTIVATIONS[settings["activation"]]
    base = float(settings["rotary_base"])
    x = w["embedding"][tokens]
    for i in range(int(settings["layers"])):
        a, m = f"blocks.{i}.attn.", f"blocks.{i}.mlp."
        y = norm(x)
        q, k, v = ((y @ w[a + name].T).reshape(len(tokens), -1, D) for name in "qkv")
        if is_on(settings["qk_norm"]):
            q, k = norm(q), norm(k)  # over each head
        x = x + attention(rotary(q, base), rotary(k, base), v) @ w[a + "o"].T
        x = x + f(norm(x) @ w[m + "up"].T) @ w[m + "down"].T
    return norm(x) @ w["embedding" if is_on(settings["tied"]) else "head"].T


def mlp(w, settings, pixels):
    """The logits (N, classes) of N images as rows, standardised as standardise() does it."""
    f, last = ACTIVATIONS[settings["activation"]], int(settings["layers"]) - 1
    x = pixels
    for i in range(last):
        x = f(x @ w[f"layers.{i}.weight"].T + w.get(f"layers.{i}.bias", np.float32(0)))
    return x @ w[f"layers.{last}.weight"].T


def losses(logits, targets, smoothing):
    """Of each row: -log softmax at the target, or with label smoothing s at (1-s) one-hot + s/V."""
    z = logits - logits.max(axis=-1, keepdims=True)
    log_p = z - np.log(np.exp(z).sum(axis=-1, keepdims=True))
    return -(1 - smoothing) * log_p[np.arange(len(targets)), targets] - smoothing * log_p.mean(axis=-1)


# ---- Measuring -----------------------------------------------------------------------------------------------


def measure_text(w, settings, meta, path):
    """All whole windows of `block` tokens, one after the other; the last token has no target."""
    with open(path, "rb") as f:
        tokens = encode(f.read(), meta)
    T, smoothing = int(settings["block"]), float(settings["smoothing"])
    each, hits = [], 0
    for first in range(0, (len(tokens) - 1) // T * T, T):
        logits = gpt(w, settings, tokens[first : first + T])
        targets = tokens[first + 1 : first + T + 1]
        each.append(losses(logits, targets, smoothing))
        hits += int((logits.argmax(axis=-1) == targets).sum())
    return np.concatenate(each), hits


def idx(path):
    """An idx file: two zero bytes, type, number of dimensions, the dimensions as big-endian int32, the bytes."""
    data = np.fromfile(path, np.uint8)
    shape = data[4 : 4 + 4 * data[3]].view(">i4")
    return data[4 + 4 * data[3] :].reshape(shape)


def standardise(images, train):
    """Mean 0 and mean square 1 over the training images."""
    return (images.reshape(len(images), -1) - np.float32(train.mean())) * np.float32(1 / train.std())


def measure_images(w, settings, folder):
    images = standardise(idx(f"{folder}/t10k-images-idx3-ubyte"), idx(f"{folder}/train-images-idx3-ubyte"))
    labels = idx(f"{folder}/t10k-labels-idx1-ubyte").astype(int)
    logits = mlp(w, settings, images.astype(np.float32))
    return losses(logits, labels, float(settings["smoothing"])), int((logits.argmax(axis=-1) == labels).sum())


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    tensors, settings, meta = read(sys.argv[1])
    if len(sys.argv) == 2:
        print("step", meta["step"], " ".join(f"{key}={value}" for key, value in settings.items() if value))
        for name, t in tensors.items():
            print(name, t.dtype, *t.shape)
        return
    if settings["model"] == "gpt":
        each, hits = measure_text(tensors, settings, meta, sys.argv[2])
    else:
        each, hits = measure_images(tensors, settings, sys.argv[2])
    print(json.dumps({"count": len(each), "loss": float(each.mean(dtype=float)), "accuracy": hits / len(each)}))


if __name__ == "__main__":
    main()
