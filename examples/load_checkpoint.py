#!/usr/bin/env python3
"""Reads a checkpoint of scion and computes what the program computes, with NumPy alone.

    load_checkpoint.py RUN              prints the settings and the tensors
    load_checkpoint.py RUN TEXT         loss and accuracy of a gpt: scion eval RUN data=TEXT part=all
    load_checkpoint.py RUN SHARD.bin    the same of a gpt that learned from token shards
    load_checkpoint.py RUN FOLDER       of an mlp, cnn or vit, on idx or CIFAR-10 files: scion eval RUN data=FOLDER tta=none

RUN is a checkpoint or the folder of a run, of which the best checkpoint is taken, else the newest. Weights are float32
or bfloat16, which becomes float32. Folders of PNG and JPEG files are not read here.

docs/file-formats.md has the same in words and formulas. Take from here what you need: read() gives the weights, gpt(),
mlp(), cnn() and vit() the logits."""
import gzip
import json
import math
import os
import re
import signal
import sys

import numpy as np

EPS = np.float32(2.0**-23)


# ---- The file ------------------------------------------------------------------------------------------------


def checkpoint_of(path):
    """The checkpoint that scion eval takes: of a folder the best one, else the newest."""
    if not os.path.isdir(path):
        return path
    best = os.path.join(path, "best.safetensors")
    steps = {int(m[1]): name for name in os.listdir(path) if (m := re.fullmatch(r"step-(\d+)\.safetensors", name))}
    if not os.path.exists(best) and not steps:
        raise ValueError(f"{path}: no checkpoint in this folder, expected best.safetensors or step-NNNNNNNN.safetensors")
    return best if os.path.exists(best) else os.path.join(path, steps[max(steps)])


def widened(halves):
    """bfloat16 is the upper half of a float32."""
    return (halves.astype(np.uint32) << 16).view(np.float32)


TYPES = {
    "F32": lambda data: np.frombuffer(data, "<f4"),
    "BF16": lambda data: widened(np.frombuffer(data, "<u2")),
    "U8": lambda data: np.frombuffer(data, np.uint8),
}


def read(path):
    """The tensors by name, the settings, and the metadata: safetensors is a length, a JSON header, and the arrays."""
    path = checkpoint_of(path)
    with open(path, "rb") as f:
        content = f.read()
    size = int.from_bytes(content[:8], "little")
    try:
        header, data = json.loads(content[8 : 8 + size]), content[8 + size :]
        meta = header.pop("__metadata__")
        tensors = {
            name: TYPES[t["dtype"]](data[slice(*t["data_offsets"])]).reshape(t["shape"]) for name, t in header.items()
        }
        settings = {key: str(value) for key, value in json.loads(meta["config"]).items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: not a checkpoint of scion, or damaged ({error})") from None
    if meta.get("tokenizer") == "chars":
        meta["vocabulary"] = tensors["tokenizer"].tobytes().decode()  # where version 0.2 had it
    return tensors, settings, meta


def is_on(value):
    return value.lower() in ("yes", "true", "1", "on")


def encode(text, meta):
    """The tokens of a text: the place of each symbol in the vocabulary, which is in ascending order."""
    if meta.get("tokenizer") == "bytes":
        return np.frombuffer(text, np.uint8).astype(int)
    if "vocabulary" not in meta:
        raise ValueError("the model does not know characters: expected a token shard, not a text")
    symbols = meta["vocabulary"]
    is_bytes = symbols.startswith("\ufffd\ufffd")
    symbols = symbols[2:] if is_bytes else symbols
    symbols = "\0" + symbols[2:] if symbols.startswith("\ufffe\ufffe") else symbols
    place = {ord(symbol): i for i, symbol in enumerate(symbols)}
    codes = list(text if is_bytes else map(ord, text.decode()))
    for at, code in enumerate(codes):
        if code not in place:
            raise ValueError(f"{chr(code)!r} (symbol {at} of the text) is not in the model's vocabulary")
    return np.array([place[code] for code in codes])


def read_tokens(path, meta):
    """The tokens of a text, or of a shard: 256 int32 (magic, version, count), then uint16 or uint32."""
    with open(path, "rb") as f:
        content = f.read()
    width = {20240520: "<u2", 20240801: "<u4"}.get(int.from_bytes(content[:4], "little"))
    if width:
        return np.frombuffer(content[1024:], width).astype(int)
    try:
        return encode(content, meta)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 (byte {error.start}), and the model knows characters") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def read_idx(path):
    """An idx file, packed with gzip or not: two zero bytes, type, number of dimensions, these as int32, the bytes."""
    packed = not os.path.exists(path)
    with gzip.open(path + ".gz") if packed and os.path.exists(path + ".gz") else open(path, "rb") as f:
        data = np.frombuffer(f.read(), np.uint8)
    first = 4 + 4 * int(data[3])
    return data[first:].reshape(data[4:first].view(">i4"))


def read_images(folder, meta):
    """Validation images (N, channels, height, width), standardised as the model's were, and their classes."""
    if os.path.exists(f"{folder}/test_batch.bin"):
        records = np.fromfile(f"{folder}/test_batch.bin", np.uint8).reshape(-1, 1 + 3 * 32 * 32)
        pixels, labels = records[:, 1:], records[:, 0]
    elif any(os.path.exists(f"{folder}/t10k-images-idx3-ubyte{end}") for end in ("", ".gz")):
        pixels, labels = read_idx(f"{folder}/t10k-images-idx3-ubyte"), read_idx(f"{folder}/t10k-labels-idx1-ubyte")
    else:
        raise ValueError(f"{folder}: expected a folder with test_batch.bin (CIFAR-10) or t10k-images-idx3-ubyte")
    if "images" not in meta:
        raise ValueError("the checkpoint does not say how its images were standardised")
    about = json.loads(meta["images"])
    height, width, channels = about["size"]
    if pixels[0].size != height * width * channels:
        raise ValueError(f"{folder}: images of {pixels[0].size} values, expected {height} x {width} x {channels}")
    mean, scale = (np.array(about[key], np.float32)[:, None, None] for key in ("mean", "scale"))
    return (pixels.reshape(-1, channels, height, width) - mean) * scale, labels.astype(int)


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


def attention(q, k, v, causal):
    """(..., T, heads, D) each; causal: position t sees positions 0 to t, else all."""
    *_, T, heads, D = q.shape
    scores = np.einsum("...thd,...shd->...hts", q, k) / np.float32(math.sqrt(D))
    if causal:
        scores = np.where(np.tri(T, dtype=bool), scores, -np.inf)
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    return np.einsum("...hts,...shd->...thd", p, v).reshape(*q.shape[:-2], heads * D)


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
        x = x + attention(rotary(q, base), rotary(k, base), v, True) @ w[a + "o"].T
        x = x + f(norm(x) @ w[m + "up"].T) @ w[m + "down"].T
    return norm(x) @ w["embedding" if is_on(settings["tied"]) else "head"].T


def linear(w, name, x):
    return x @ w[name].reshape(len(w[name]), -1).T + w.get(name + ".bias", np.float32(0))


def mlp(w, settings, images):
    """The logits (N, classes) of N images."""
    f, last = ACTIVATIONS[settings["activation"]], int(settings["layers"]) - 1
    x = images.reshape(len(images), -1)
    for i in range(last):
        x = f(x @ w[f"layers.{i}.weight"].T + w.get(f"layers.{i}.bias", np.float32(0)))
    return x @ w[f"layers.{last}.weight"].T


def convolution(x, w, border):
    """x (N, in, H, W) with w (out, in, k, k) and a border of zeros."""
    x = np.pad(x, ((0, 0), (0, 0), (border, border), (border, border)))
    squares = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))
    return np.tensordot(squares, w, axes=((1, 4, 5), (1, 2, 3))).transpose(0, 3, 1, 2)


def pool(x, size):
    """The largest of each size x size pixels; those beyond the last whole square are left out."""
    N, C, H, W = x.shape
    x = x[:, :, : H // size * size, : W // size * size]
    return x.reshape(N, C, H // size, size, W // size, size).max(axis=(3, 5))


def cnn(w, settings, images):
    """The logits (N, classes) of N images."""
    f = ACTIVATIONS[settings["activation"]]

    def channels(v):
        return v[:, None, None]

    def batch_norm(name, x):
        factor = 1 / np.sqrt(w[name + ".var"] + np.float32(1e-12))
        return (x - channels(w[name + ".mean"])) * channels(factor) + channels(w[name + ".shift"])

    x = convolution(images, w["whiten"], 0)
    x = f(x + channels(w["whiten.bias"]) if "whiten.bias" in w else x)
    for i in range(3):
        g = f"groups.{i}."
        x = f(batch_norm(g + "norm1", pool(convolution(x, w[g + "conv1"], 1), 2)))
        x = f(batch_norm(g + "norm2", convolution(x, w[g + "conv2"], 1)))
    x = pool(x, 3).transpose(0, 2, 3, 1).reshape(len(x), -1)  # pixel by pixel
    return x / np.float32(settings["logit_divisor"]) @ w["head"].T


def vit(w, settings, images):
    """The logits (N, classes) of N images."""
    f, D, P = ACTIVATIONS[settings["activation"]], int(settings["head_size"]), int(settings["patch"])
    N, C, H, W = images.shape

    def normalised(name, x):
        if settings["norm"] == "rmsnorm":
            return norm(x)
        x = x - x.mean(axis=-1, keepdims=True)
        return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(1e-6)) * w[name + ".gain"] + w[name + ".shift"]

    squares = images.reshape(N, C, H // P, P, W // P, P).transpose(0, 2, 4, 1, 3, 5)
    x = linear(w, "patch", squares.reshape(N, -1, C * P * P))
    if settings["pool"] == "class":
        x = np.concatenate((np.broadcast_to(w["class_token"], (N, 1, x.shape[2])), x), axis=1)
    x = x + w["positions"]
    for i in range(int(settings["layers"])):
        b = f"blocks.{i}."
        y = normalised(b + "norm1", x)
        q, k, v = (linear(w, b + "attn." + name, y).reshape(N, x.shape[1], -1, D) for name in "qkv")
        x = x + linear(w, b + "attn.o", attention(q, k, v, False))
        x = x + linear(w, b + "mlp.down", f(linear(w, b + "mlp.up", normalised(b + "norm2", x))))
    x = normalised("norm", x)
    return (x[:, 0] if settings["pool"] == "class" else x.mean(axis=1)) @ w["head"].T


MODELS = {"gpt": gpt, "mlp": mlp, "cnn": cnn, "vit": vit}


def losses(logits, targets, smoothing):
    """Of each row: -log softmax at the target, or with label smoothing s at (1-s) one-hot + s/V."""
    z = logits - logits.max(axis=-1, keepdims=True)
    log_p = z - np.log(np.exp(z).sum(axis=-1, keepdims=True))
    return -(1 - smoothing) * log_p[np.arange(len(targets)), targets] - smoothing * log_p.mean(axis=-1)


# ---- Measuring -----------------------------------------------------------------------------------------------


def batches(w, settings, meta, path):
    """Inputs and targets: whole windows of `block` tokens, one after the other, or a hundred images."""
    if settings["model"] == "gpt":
        tokens, T = read_tokens(path, meta), int(settings["block"])
        if len(tokens) <= T:
            raise ValueError(f"{path}: {len(tokens)} tokens, expected at least {T + 1} (block {T})")
        if tokens.max() >= len(w["embedding"]):
            raise ValueError(f"{path}: token {tokens.max()}, expected tokens below {len(w['embedding'])}")
        for first in range(0, (len(tokens) - 1) // T * T, T):
            yield tokens[first : first + T], tokens[first + 1 : first + T + 1]
    else:
        images, labels = read_images(path, meta)
        for first in range(0, len(images), 100):
            yield images[first : first + 100], labels[first : first + 100]


def measure(w, settings, meta, path):
    """The loss of each token or image, and the number of right answers."""
    if settings["model"] not in MODELS:
        raise ValueError(f"model {settings['model']}, expected one of {', '.join(MODELS)}")
    each, hits = [], 0
    for inputs, targets in batches(w, settings, meta, path):
        logits = MODELS[settings["model"]](w, settings, inputs)
        each.append(losses(logits, targets, float(settings["smoothing"])))
        hits += int((logits.argmax(axis=-1) == targets).sum())
    return np.concatenate(each), hits


def main():
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as other programs end in `| head`
    if len(sys.argv) not in (2, 3) or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    try:
        tensors, settings, meta = read(sys.argv[1])
        if len(sys.argv) == 2:
            print("step", meta["step"], " ".join(f"{key}={value}" for key, value in settings.items() if value))
            for name, t in tensors.items():
                print(name, t.dtype, *t.shape)
            return
        each, hits = measure(tensors, settings, meta, sys.argv[2])
    except OSError as error:
        sys.exit(f"load_checkpoint.py: {error.filename}: {error.strerror}")
    except KeyError as error:
        sys.exit(f"load_checkpoint.py: {sys.argv[1]}: {error} is missing among its tensors and settings")
    except ValueError as error:
        sys.exit(f"load_checkpoint.py: {error}")
    print(json.dumps({"count": len(each), "loss": float(each.mean(dtype=float)), "accuracy": hits / len(each)}))


if __name__ == "__main__":
    main()
