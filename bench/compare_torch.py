#!/usr/bin/env python3
"""The same network and the same optimizers in PyTorch, for bench/compare and for a look at learning curves.

    compare_torch.py CASE [--optimizer scion|muon|adamw] [--steps N] [--threads N] [--compile] [--autocast]
        times training steps on random tokens; prints medians of their parts as JSON, with the keys of `scion bench`;
        --compile: the network and the Newton-Schulz iteration by torch.compile
        --autocast: forward pass and loss under torch.autocast in bfloat16, Scion's Newton-Schulz iteration in it too
    compare_torch.py --train FILE [--seed N] [--steps N] [--lr X]
        learns a text as `scion train shakespeare activation=sqrt2_gelu steps=122` does; prints losses, and the validation
        loss as JSON
    compare_torch.py --cnn CHECKPOINT FOLDER
        the loss and the accuracy of a checkpoint of model cnn on the test images of CIFAR-10, as `scion eval` has them
    compare_torch.py --core
        prints the kernels that the BLAS under PyTorch has chosen (OpenBLAS), or nothing

The network, with N() the RMS norm without parameters and R the rotary embedding:
    x = table[tokens]
    x = x + O attention(R(N(Q y)), R(N(K y)), V y),  y = N(x)      N over each head
    x = x + W_2 f(W_1 N(x))
    loss = cross-entropy of W_L N(x)
W_L is the table itself in a tied model. There are no biases.

Cases airbenchN are the convolutional network of preset airbench-tuned in batches of N images, channels last:
    x = f(whitening(image)),  three times  x = f(norm(pool(W_1 * x))), x = f(norm(W_2 * x)),  logits = W_L pool(x) / 9
with f the GELU, 3 x 3 convolutions, batch normalisation with a shift, and label smoothing.

Scion as a textbook writes it: d = (1-alpha)d + alpha g, W = (1-lr)W + lr rho lmo(d), with
    Spectral  lmo(d) = -sqrt(d_out/d_in) polar(d)   by five Newton-Schulz steps of three full products in float32
    ColNorm   lmo(d) = -sqrt(d_out) col/||col||     the embedding table is stored transposed: its rows
    Sign      lmo(d) = -sign(d)/d_in
    RMS       lmo(d) = -d/rms(d)                    shifts; Spectral of a convolution: of the matrix (out, in x 9), / 9
Muon is torch.optim.Muon for the hidden matrices, whose iteration runs in bfloat16, and AdamW for the others. Where
PyTorch has a fused attention, it is used.

--autocast is mixed precision as PyTorch's documentation has it. The backward pass runs outside of autocast, with the
types of the forward pass. Weights, their gradients and the optimizers' averages are float32; in the network, autocast
alone decides what is. Scion rounds its average to bfloat16 and iterates in that, norm included, as its authors do;
the result goes back to float32.

Needs torch alone (tested with 1.13 and 2.15, --autocast with 2.15)."""
import argparse
import contextlib
import ctypes
import json
import math
import resource
import statistics
import sys
import time
from dataclasses import dataclass

import torch
import torch.nn.functional as F

EPS = 2.0**-23  # of the RMS norms, as in the program
QUINTIC = (3.4445, -4.7750, 2.0315)
NEWTON_SCHULZ_STEPS = 5
ROTARY_BASE = 10000.0
SMOOTHING = 0.2  # of the labels of images


@dataclass
class Shape:
    layers: int
    width: int
    head_size: int
    vocab: int
    batch: int
    block: int
    activation: str
    tied: bool
    zero_init: bool
    boundary_init: bool
    radii: tuple  # first, hidden, last
    lr: float


CASES = {
    "124m": Shape(12, 768, 128, 50304, 4, 256, "scaled_relu2", True, True, False, (1, 50, 3000), 2.0**-12),
    "llmc": Shape(12, 768, 64, 50304, 4, 64, "gelu", True, True, False, (1, 50, 3000), 2.0**-12),
    "small": Shape(3, 256, 64, 65, 32, 256, "sqrt2_gelu", False, False, True, (1, 3, 10), 2.0**-5),
}


@dataclass
class Picture:
    batch: int
    side: int
    width: int
    classes: int
    radii: dict  # by role
    lr: float
    alpha: float


for size in (500, 2000):
    CASES[f"airbench{size}"] = Picture(size, 32, 64, 10, {"conv": 16, "shift": 4, "last": 128}, 0.04, 0.65)
TWIN = Shape(3, 128, 64, 0, 32, 256, "sqrt2_gelu", False, False, True, (1, 3, 10), 2.0**-5)


# ---- The network ---------------------------------------------------------------------------------------------

ACTIVATIONS = {
    "gelu": F.gelu,
    "scaled_relu2": lambda z: 2 * F.relu(z).square(),
    "sqrt2_gelu": lambda z: math.sqrt(2) * F.gelu(z),
}


def rms_norm(x):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS)


class GPT:
    """Parameters by the program's names, and the loss as a function of them."""

    def __init__(self, shape):
        self.shape = shape
        s, C = shape, shape.width
        self.role, sizes = {}, {}
        sizes["embedding"] = (s.vocab, C)
        self.role["embedding"] = "last" if s.tied else "first"
        for i in range(s.layers):
            for name in ("attn.q", "attn.k", "attn.v", "attn.o"):
                sizes[f"blocks.{i}.{name}"] = (C, C)
            sizes[f"blocks.{i}.mlp.up"] = (4 * C, C)
            sizes[f"blocks.{i}.mlp.down"] = (C, 4 * C)
        if not s.tied:
            sizes["head"] = (s.vocab, C)
            self.role["head"] = "last"
        self.weight = {name: torch.empty(size, requires_grad=True) for name, size in sizes.items()}
        self.head = self.weight["embedding" if s.tied else "head"]
        self.tables()

    def tables(self):
        """Rotary cosines and sines, and the causal mask, made once."""
        T, D = self.shape.block, self.shape.head_size
        rate = ROTARY_BASE ** (-torch.arange(D // 2, dtype=torch.float64) / (D // 2))
        angle = torch.arange(T, dtype=torch.float64)[:, None] * rate
        self.cos, self.sin = (f(angle).float()[None, :, None, :] for f in (torch.cos, torch.sin))
        self.mask = torch.full((T, T), -math.inf).triu(1)

    def role_of(self, name):
        return self.role.get(name, "hidden")

    def init(self):
        with torch.no_grad():
            for name, w in self.weight.items():
                role = self.role_of(name)
                if self.shape.zero_init and name.endswith(("attn.o", "mlp.down")):
                    w.zero_()
                elif self.shape.boundary_init:
                    w.copy_(boundary(w, role, self.shape.radii))
                elif role == "first":
                    w.normal_(0, 0.02)
                else:
                    w.uniform_(-1 / math.sqrt(w.shape[1]), 1 / math.sqrt(w.shape[1]))

    def rotary(self, x):  # (B, T, H, D)
        u, v = x.chunk(2, -1)
        return torch.cat((u * self.cos - v * self.sin, v * self.cos + u * self.sin), -1)

    def attention(self, i, x):
        B, T, C = x.shape
        D = self.shape.head_size
        H = C // D
        y = rms_norm(x)
        q, k, v = (F.linear(y, self.weight[f"blocks.{i}.attn.{n}"]).view(B, T, H, D) for n in "qkv")
        q, k = self.rotary(rms_norm(q)), self.rotary(rms_norm(k))
        if hasattr(F, "scaled_dot_product_attention"):
            q, k, v = (z.transpose(1, 2) for z in (q, k, v))
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(B, T, C)
            return x + F.linear(mixed, self.weight[f"blocks.{i}.attn.o"])
        q, k, v = (z.transpose(1, 2).reshape(B * H, T, D) for z in (q, k, v))
        p = torch.baddbmm(self.mask, q, k.transpose(1, 2), alpha=1 / math.sqrt(D)).softmax(-1)
        mixed = torch.bmm(p, v).view(B, H, T, D).transpose(1, 2).reshape(B, T, C)
        return x + F.linear(mixed, self.weight[f"blocks.{i}.attn.o"])

    def feed_forward(self, i, x):
        z = ACTIVATIONS[self.shape.activation](F.linear(rms_norm(x), self.weight[f"blocks.{i}.mlp.up"]))
        return x + F.linear(z, self.weight[f"blocks.{i}.mlp.down"])

    def loss(self, tokens, targets):  # (B, T) each
        x = F.embedding(tokens, self.weight["embedding"])
        for i in range(self.shape.layers):
            x = self.feed_forward(i, self.attention(i, x))
        logits = F.linear(rms_norm(x), self.head)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


class CNN:
    """airbench's network, by the program's names. The whitening layer is not trained."""

    def __init__(self, shape):
        self.shape, self.training = shape, True
        C, self.weight, self.buffer = shape.width, {}, {}
        channels = (24, C, 4 * C, 4 * C)
        last = lambda x: x.contiguous(memory_format=torch.channels_last)
        self.buffer["whiten"] = last(torch.randn(24, 3, 2, 2) / 4)
        for i in range(3):
            for k, c_in in ((1, channels[i]), (2, channels[i + 1])):
                c = channels[i + 1]
                self.weight[f"groups.{i}.conv{k}"] = last(torch.empty(c, c_in, 3, 3)).requires_grad_()
                self.weight[f"groups.{i}.norm{k}.shift"] = torch.zeros(c, requires_grad=True)
                self.buffer[f"groups.{i}.norm{k}.mean"] = torch.zeros(c)
                self.buffer[f"groups.{i}.norm{k}.var"] = torch.ones(c)
        self.weight["head"] = torch.empty(shape.classes, 4 * C, requires_grad=True)

    def role_of(self, name):
        return "last" if name == "head" else "shift" if name.endswith("shift") else "conv"

    def init(self):
        with torch.no_grad():
            for name, w in self.weight.items():
                if w.ndim > 1:
                    reach = 1 / math.sqrt(w[0].numel())
                    w.uniform_(-reach, reach)
                if w.ndim == 4:
                    torch.nn.init.dirac_(w[: min(w.shape[:2])])

    def norm(self, i, k, x):
        at = f"groups.{i}.norm{k}"
        x = F.batch_norm(x, self.buffer[at + ".mean"], self.buffer[at + ".var"], None, self.weight[at + ".shift"],
                         self.training, 0.4, 1e-12)
        return F.gelu(x)

    def logits(self, image):  # (B, 3, side, side), channels last
        x = F.gelu(F.conv2d(image, self.buffer["whiten"]))
        for i in range(3):
            x = self.norm(i, 1, F.max_pool2d(F.conv2d(x, self.weight[f"groups.{i}.conv1"], padding=1), 2))
            x = self.norm(i, 2, F.conv2d(x, self.weight[f"groups.{i}.conv2"], padding=1))
        return F.linear(F.max_pool2d(x, 3).flatten(1), self.weight["head"]) / 9

    def loss(self, image, targets):
        return F.cross_entropy(self.logits(image), targets, label_smoothing=SMOOTHING)


# ---- Scion ---------------------------------------------------------------------------------------------------


def polar(g):
    """Newton-Schulz: X = aX + (bA + cA^2)X with A = XX', on the transpose if that has fewer rows."""
    a, b, c = QUINTIC
    x = g.t() if g.shape[0] > g.shape[1] else g
    x = x / (x.norm() + 1e-7)
    for _ in range(NEWTON_SCHULZ_STEPS):
        A = x @ x.t()
        B = b * A + c * (A @ A)
        x = a * x + B @ x
    return x.t() if g.shape[0] > g.shape[1] else x


def cubic(g):
    """Nine steps of X = (3X - XX'X)/2 from the Schatten 4-norm, on the transpose if that has fewer rows."""
    x = g.t() if g.shape[0] > g.shape[1] else g
    x = x / (x @ x.t()).norm().sqrt()
    for _ in range(9):
        x = 1.5 * x - 0.5 * (x @ x.t()) @ x
    return x.t() if g.shape[0] > g.shape[1] else x


def in_bfloat16(iterate):
    return lambda g: iterate(g.bfloat16()).float()


def rows_normalised(g):
    return g / (g.norm(dim=1, keepdim=True) + 1e-8)


def lmo(d, role):
    """Of the unit ball; d is d_out x d_in, but the first layer's is a table of d_in x d_out."""
    if role == "first":
        return -math.sqrt(d.shape[1]) * rows_normalised(d)
    if role == "last":
        return -d.sign() / d.shape[1]
    if role == "shift":
        return -d * torch.rsqrt(d.square().mean())
    if role == "conv":
        return -math.sqrt(d.shape[0] / d.shape[1]) / 9 * cubic(d.reshape(d.shape[0], -1)).view(d.shape)
    return -math.sqrt(d.shape[0] / d.shape[1]) * polar(d)


def boundary(w, role, radii):
    """A random point of the boundary of the ball."""
    g = torch.randn_like(w)
    rho = radii[("first", "hidden", "last").index(role)]
    if role == "first":
        return rho * math.sqrt(w.shape[1]) * rows_normalised(g)
    if role == "last":
        return rho * g.sign() / w.shape[1]
    return rho * math.sqrt(w.shape[0] / w.shape[1]) * torch.nn.init.orthogonal_(g)


class Scion:
    def __init__(self, model, lr, alpha=0.1):
        radius = model.shape.radii
        if not isinstance(radius, dict):
            radius = dict(zip(("first", "hidden", "last"), radius))
        self.params = [(w, model.role_of(n), radius[model.role_of(n)]) for n, w in model.weight.items()]
        self.average = [torch.zeros_like(w) for w, _, _ in self.params]
        self.lr, self.alpha = lr, alpha

    def zero_grad(self):
        for w, _, _ in self.params:
            w.grad = None

    @torch.no_grad()
    def step(self):
        for (w, role, rho), d in zip(self.params, self.average):
            d.mul_(1 - self.alpha).add_(w.grad, alpha=self.alpha)
            w.mul_(1 - self.lr).add_(lmo(d, role), alpha=self.lr * rho)


class Both:
    """Two optimizers as one."""

    def __init__(self, *parts):
        self.parts = parts

    def zero_grad(self):
        for o in self.parts:
            o.zero_grad()

    def step(self):
        for o in self.parts:
            o.step()


def make_optimizer(name, model):
    adamw = lambda weights: torch.optim.AdamW(weights, lr=2.0**-9, betas=(0.9, 0.95), weight_decay=0.0)
    if name == "scion":
        return Scion(model, model.shape.lr, getattr(model.shape, "alpha", 0.1))
    if name == "muon":
        hidden = [w for n, w in model.weight.items() if model.role_of(n) == "hidden"]
        others = [w for n, w in model.weight.items() if model.role_of(n) != "hidden"]
        return Both(torch.optim.Muon(hidden, lr=2.0**-8, momentum=0.9, weight_decay=0.0), adamw(others))
    return adamw(list(model.weight.values()))


# ---- Timing --------------------------------------------------------------------------------------------------


def random_batch(s):
    """What a model's loss takes, and how many tokens or images that is."""
    if isinstance(s, Picture):
        image = torch.randn(s.batch, 3, s.side, s.side).contiguous(memory_format=torch.channels_last)
        return (image, torch.randint(s.classes, (s.batch,))), s.batch
    text = torch.randint(s.vocab, (s.batch, s.block + 1))
    return (text[:, :-1].contiguous(), text[:, 1:]), s.batch * s.block


def time_steps(name, optimizer_name, steps, compiled, autocast):
    global polar, cubic
    s = CASES[name]
    model = CNN(s) if isinstance(s, Picture) else GPT(s)
    model.init()
    precision = contextlib.nullcontext()
    if autocast:
        precision = torch.autocast("cpu", dtype=torch.bfloat16)
        polar, cubic = in_bfloat16(polar), in_bfloat16(cubic)
    if compiled:
        model.loss = torch.compile(model.loss)
        polar, cubic = torch.compile(polar), torch.compile(cubic)
    optimizer = make_optimizer(optimizer_name, model)
    marks = []
    for _ in range(steps + 1):  # the first is the warm-up
        batch, units = random_batch(s)
        t = [time.perf_counter()]
        with precision:
            loss = model.loss(*batch)
        t.append(time.perf_counter())
        loss.backward()
        t.append(time.perf_counter())
        optimizer.step()
        optimizer.zero_grad()
        t.append(time.perf_counter())
        marks.append(t)
    part = lambda i, j: 1e3 * statistics.median(t[j] - t[i] for t in marks[1:])
    return {
        "forward_ms": part(0, 1),
        "backward_ms": part(1, 2),
        "optimizer_ms": part(2, 3),
        "step_ms": part(0, 3),
        "tokens_per_s": 1e3 * units / part(0, 3),
        "peak_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "threads": torch.get_num_threads(),
        "parameters": sum(w.numel() for w in model.weight.values()),
        "loss": loss.item(),
        "steps": steps,
        "torch": torch.__version__,
        "blas": core(),
    }


def core():
    """Kernels of the OpenBLAS in this process, if it is one."""
    try:
        f = ctypes.CDLL("libblas.so.3").openblas_get_corename
    except (OSError, AttributeError):
        return ""
    f.restype = ctypes.c_char_p
    return f().decode()


# ---- Learning ------------------------------------------------------------------------------------------------


def read_text(path):
    """Tokens of the first nine tenths and of the last, and the number of different characters."""
    with open(path, encoding="utf-8", newline="") as f:
        text = f.read()
    index = {c: i for i, c in enumerate(sorted(set(text)))}
    tokens = torch.tensor([index[c] for c in text])
    val = len(text) // 10
    return tokens[: len(text) - val], tokens[len(text) - val :], len(index)


@torch.no_grad()
def validate(model, tokens):
    """Mean loss over all whole blocks of the tokens, one after the other."""
    T, B = model.shape.block, model.shape.batch
    count = (len(tokens) - 1) // T
    x, y = (tokens[i : i + count * T].view(count, T) for i in (0, 1))
    total = 0.0
    for i in range(0, count, B):
        total += model.loss(x[i : i + B], y[i : i + B]).item() * len(x[i : i + B])
    return total / count


def train(path, seed, steps, lr):
    torch.manual_seed(seed)
    data, held, vocab = read_text(path)
    s = Shape(**{**TWIN.__dict__, "vocab": vocab, "lr": lr})
    model = GPT(s)
    model.init()
    optimizer = Scion(model, lr)
    for k in range(steps):
        first = torch.randint(len(data) - s.block, (s.batch, 1))
        at = first + torch.arange(s.block)
        optimizer.lr = lr * (1 - k / steps)
        optimizer.zero_grad()
        loss = model.loss(data[at], data[at + 1])
        loss.backward()
        optimizer.step()
        if k % 10 == 9 or k + 1 == steps:
            print(f"step {k + 1}  loss {loss.item():.4f}", file=sys.stderr, flush=True)
    return {"seed": seed, "steps": steps, "lr": lr, "val_loss": validate(model, held)}


def read_checkpoint(path):
    """Tensors of a safetensors file by name, and its metadata."""
    with open(path, "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        data = bytearray(f.read())
    about = header.pop("__metadata__", {})
    tensor = lambda e: torch.frombuffer(data, dtype=torch.float32, offset=e["data_offsets"][0],
                                        count=math.prod(e["shape"])).view(e["shape"])
    return {n: tensor(e) for n, e in header.items() if e["dtype"] == "F32" and math.prod(e["shape"]) > 0}, about


@torch.no_grad()
def evaluate_cnn(path, folder):
    """Loss and accuracy on CIFAR-10's test images, standardised as the checkpoint says."""
    tensors, about = read_checkpoint(path)
    images = json.loads(about["images"])
    model = CNN(Picture(500, 32, tensors["groups.0.conv1"].shape[0], 10, {}, 0, 0))
    model.training = False
    for name, to in {**model.weight, **model.buffer}.items():
        to.copy_(tensors[name])
    with open(f"{folder}/test_batch.bin", "rb") as f:
        rows = torch.frombuffer(bytearray(f.read()), dtype=torch.uint8).view(-1, 3073)
    mean, scale = (torch.tensor(images[k]).view(1, 3, 1, 1) for k in ("mean", "scale"))
    total = right = 0
    for part in rows.split(500):
        x = (part[:, 1:].float().view(-1, 3, 32, 32) - mean) * scale
        logits = model.logits(x.contiguous(memory_format=torch.channels_last))
        total += F.cross_entropy(logits, part[:, 0].long(), label_smoothing=SMOOTHING, reduction="sum").item()
        right += (logits.argmax(1) == part[:, 0]).sum().item()
    return {"val_loss": total / len(rows), "accuracy": right / len(rows), "images": len(rows)}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("case", nargs="?", choices=sorted(CASES))
    p.add_argument("--optimizer", choices=("scion", "muon", "adamw"), default="scion")
    p.add_argument("--compile", action="store_true")
    p.add_argument("--autocast", action="store_true")
    p.add_argument("--steps", type=int, default=0)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--train", metavar="FILE")
    p.add_argument("--cnn", nargs=2, metavar=("CHECKPOINT", "FOLDER"))
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--lr", type=float, default=TWIN.lr)
    p.add_argument("--core", action="store_true")
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    if a.core:
        print(core())
    elif a.cnn:
        print(json.dumps(evaluate_cnn(*a.cnn), indent=2))
    elif a.train:
        print(json.dumps(train(a.train, a.seed, a.steps or 122, a.lr), indent=2))
    elif a.case:
        torch.manual_seed(a.seed)
        print(json.dumps(time_steps(a.case, a.optimizer, a.steps or 3, a.compile, a.autocast), indent=2))
    else:
        p.error("name a case, or --train FILE")


if __name__ == "__main__":
    main()
