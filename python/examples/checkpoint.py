#!/usr/bin/env python3
"""A checkpoint of `scion train` (model gpt) as a torch module, and back.

    checkpoint.py CHECKPOINT                         prints the logits behind a few tokens
    checkpoint.py CHECKPOINT TEXT STEPS OUT          trains it on by STEPS steps of libscion.torch.Scion, and writes OUT,
                                                     which scion eval, sample and resume take

CHECKPOINT and OUT are .safetensors files. Needs torch, safetensors and xxhash. docs/file-formats.md describes the file;
examples/load_checkpoint.py computes the same network in NumPy."""
import json
import sys

import safetensors.torch
import torch
import torch.nn as nn
import torch.nn.functional as F

import libscion.torch

EPS = 2.0**-23
ACTIVATIONS = {
    "relu": F.relu,
    "scaled_relu": lambda z: 2**0.5 * F.relu(z),
    "relu2": lambda z: F.relu(z).square(),
    "scaled_relu2": lambda z: 2 * F.relu(z).square(),
    "gelu": F.gelu,
    "sqrt2_gelu": lambda z: 2**0.5 * F.gelu(z),
    "tanh": torch.tanh,
}


def norm(x):
    return F.rms_norm(x, x.shape[-1:], eps=EPS)


class GPT(nn.Module):
    """Parameters have the names of the checkpoint, with _ for its dots."""

    def __init__(self, tensors, settings):
        super().__init__()
        self.settings = settings
        on = lambda key: settings[key].lower() in ("yes", "true", "1", "on")
        self.tied, self.qk_norm, self.layers = on("tied"), on("qk_norm"), int(settings["layers"])
        self.head_size, self.base = int(settings["head_size"]), float(settings["rotary_base"])
        self.activation = ACTIVATIONS[settings["activation"]]
        self.names = [n for n in tensors if n in ("embedding", "head") or n.startswith("blocks.")]
        for name in self.names:
            self.register_parameter(name.replace(".", "_"), nn.Parameter(tensors[name].float()))

    def weight(self, name):
        return getattr(self, name.replace(".", "_"))

    def rotary(self, x):  # (B, T, H, D)
        T, half = x.shape[1], x.shape[3] // 2
        rate = self.base ** (-torch.arange(half, dtype=torch.float64) / half)
        angle = torch.arange(T, dtype=torch.float64)[:, None] * rate
        c, s = (f(angle).float()[:, None, :] for f in (torch.cos, torch.sin))
        u, v = x.chunk(2, -1)
        return torch.cat((u * c - v * s, v * c + u * s), -1)

    def forward(self, tokens):  # (B, T)
        x = F.embedding(tokens, self.weight("embedding"))
        for i in range(self.layers):
            a, y = f"blocks.{i}.attn.", norm(x)
            q, k, v = (F.linear(y, self.weight(a + n)).unflatten(2, (-1, self.head_size)) for n in "qkv")
            if self.qk_norm:
                q, k = norm(q), norm(k)
            q, k, v = (z.transpose(1, 2) for z in (self.rotary(q), self.rotary(k), v))
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
            x = x + F.linear(mixed, self.weight(a + "o"))
            z = self.activation(F.linear(norm(x), self.weight(f"blocks.{i}.mlp.up")))
            x = x + F.linear(z, self.weight(f"blocks.{i}.mlp.down"))
        return F.linear(norm(x), self.weight("embedding" if self.tied else "head"))


def groups(model):
    """The parameters with the roles and radii that the checkpoint's settings give them."""
    first, hidden, last = (float(model.settings[f"radius_{k}"]) for k in ("first", "hidden", "last"))
    for name in model.names:
        if name == "head" or (name == "embedding" and model.tied):
            yield {"params": [model.weight(name)], "role": "output", "radius": last}
        elif name == "embedding":
            yield {"params": [model.weight(name)], "role": "onehot", "transposed": True, "radius": first}
        else:
            yield {"params": [model.weight(name)], "role": "hidden", "radius": hidden}


def read(path):
    """The module and the metadata of a checkpoint."""
    with safetensors.safe_open(path, "pt") as f:
        meta = f.metadata()
        tensors = {name: f.get_tensor(name) for name in f.keys()}
    return GPT(tensors, {key: str(value) for key, value in json.loads(meta["config"]).items()}), meta, tensors


def write(path, template, model):
    """Writes the file `template` with the weights of the module in place of its own, and new checksums."""
    import xxhash

    content = bytearray(open(template, "rb").read())
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    for name in model.names:
        first, end = (8 + size + at for at in header[name]["data_offsets"])
        kind = {"F32": torch.float32, "BF16": torch.bfloat16}[header[name]["dtype"]]
        content[first:end] = model.weight(name).detach().to(kind).contiguous().view(torch.uint8).numpy().tobytes()

    def digits(key):
        """Where the 16 hex digits of a checksum are."""
        mark = f'"{key}":"xxh3-64:'.encode()
        at = bytes(content[8 : 8 + size]).index(mark) + 8 + len(mark)
        return slice(at, at + 16)

    place = digits("checksum")
    content[place] = xxhash.xxh3_64_hexdigest(bytes(content[8 + size :])).encode()
    place = digits("header_checksum")
    seed = xxhash.xxh3_64_intdigest(bytes(content[8 : place.start]))
    content[place] = xxhash.xxh3_64_hexdigest(bytes(content[place.stop : 8 + size]), seed=seed).encode()
    with open(path, "wb") as f:
        f.write(content)


def main():
    model, meta, tensors = read(sys.argv[1])
    if len(sys.argv) == 2:
        with torch.no_grad():
            print(model(torch.arange(4)[None])[0, :, :5])
        return
    symbols = bytes(tensors["tokenizer"].tolist()).decode()
    text = open(sys.argv[2], encoding="utf-8").read()
    tokens = torch.tensor([symbols.index(symbol) for symbol in text])
    T, steps = int(model.settings["block"]), int(sys.argv[3])
    opt = libscion.torch.Scion(list(groups(model)), lr=float(model.settings["lr"]), routing=model.settings["norms"])
    for step in range(steps):
        windows = torch.stack([tokens[i : i + T + 1] for i in torch.randint(len(tokens) - T, (8,))])
        opt.zero_grad()
        loss = F.cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())
        loss.backward()
        opt.step()
        print(f"step {step}  loss {loss.item():.4f}")
    write(sys.argv[4], sys.argv[1], model)


if __name__ == "__main__":
    main()
