#!/usr/bin/env python3
"""A small GPT on the characters of a text, in the manner of nanoGPT, with one optimizer for all parameters.

    nanogpt.py TEXT [STEPS]
"""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

import libscion.numpy
import libscion.torch

LAYERS, HEADS, WIDTH, BLOCK, BATCH = 3, 2, 128, 128, 16
LR, RADII = 2.0**-5, {"onehot": 1.0, "hidden": 3.0, "output": 10.0}


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (z.view(B, T, HEADS, -1).transpose(1, 2) for z in self.qkv(F.rms_norm(x, (C,))).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(B, T, C))
        return x + self.down(2**0.5 * F.gelu(self.up(F.rms_norm(x, (C,)))))


class GPT(nn.Module):
    def __init__(self, vocabulary):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, WIDTH), nn.Embedding(BLOCK, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.head = nn.Linear(WIDTH, vocabulary, bias=False)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        logits = self.head(F.rms_norm(self.blocks(x), (WIDTH,)))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def batch(data):
    at = torch.randint(len(data) - BLOCK, (BATCH,))
    windows = torch.stack([data[i : i + BLOCK + 1] for i in at])
    return windows[:, :-1], windows[:, 1:]


def main():
    text = open(sys.argv[1], encoding="utf-8").read()
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    symbols = {symbol: i for i, symbol in enumerate(sorted(set(text)))}
    data = torch.tensor([symbols[symbol] for symbol in text])
    train, valid = data.split([int(0.9 * len(data)), len(data) - int(0.9 * len(data))])
    torch.manual_seed(0)
    model = GPT(len(symbols))
    table = libscion.torch.roles(model, radius=RADII)
    print(table)
    opt = libscion.torch.Scion(table, lr=LR)
    opt.init_weights(seed=0)  # on the boundaries of the balls
    schedule = torch.optim.lr_scheduler.LambdaLR(opt, libscion.numpy.schedule("linear", steps))
    for step in range(steps):
        opt.zero_grad()
        loss = model(*batch(train))
        loss.backward()
        opt.step()
        schedule.step()
        if step % 20 == 0 or step == steps - 1:
            with torch.no_grad():
                print(f"step {step}  loss {loss.item():.4f}  validation {model(*batch(valid)).item():.4f}")


main()
