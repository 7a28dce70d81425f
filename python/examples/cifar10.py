#!/usr/bin/env python3
"""A convolutional network on CIFAR-10 in the binary format (data_batch_1.bin to _5, test_batch.bin), with one optimizer.

    cifar10.py FOLDER [EPOCHS [IMAGES]]      IMAGES: only the first so many
"""
import pathlib
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

import libscion.numpy
import libscion.torch

BATCH, LR, RADII = 250, 2.0**-4, {"input": 8.0, "hidden": 8.0, "output": 64.0, "vector": 4.0, "normalization": 1.0}


def read(paths, limit=None):
    """Images (N, 3, 32, 32), standardised, channels last, and their classes."""
    records = np.concatenate([np.fromfile(path, np.uint8).reshape(-1, 3073) for path in paths])[:limit]
    images = torch.from_numpy(records[:, 1:].reshape(-1, 3, 32, 32).astype(np.float32))
    mean, deviation = torch.tensor([125.3, 123.0, 113.9]), torch.tensor([63.0, 62.1, 66.7])
    images = (images - mean[:, None, None]) / deviation[:, None, None]
    return images.contiguous(memory_format=torch.channels_last), torch.from_numpy(records[:, 0].astype(np.int64))


def network():
    def layer(c_in, c_out, pooled):
        convolution = nn.Conv2d(c_in, c_out, 3, padding=1, bias=False)
        return [convolution, *([nn.MaxPool2d(2)] if pooled else []), nn.BatchNorm2d(c_out), nn.GELU()]

    layers = layer(3, 32, False)
    for c_in, c_out in ((32, 64), (64, 128), (128, 128)):
        layers += layer(c_in, c_out, True) + layer(c_out, c_out, False)
    model = nn.Sequential(*layers, nn.MaxPool2d(4), nn.Flatten(), nn.Linear(128, 10, bias=False))
    return model.to(memory_format=torch.channels_last)  # its weights are not contiguous then: the optimizer copies them


def augmented(images):
    """Mirrored at random and moved by up to two pixels."""
    flipped = torch.where(torch.rand(len(images), 1, 1, 1) < 0.5, images.flip(3), images)
    dy, dx = torch.randint(0, 5, (2,)).tolist()
    return F.pad(flipped, (2, 2, 2, 2), mode="reflect")[:, :, dy : dy + 32, dx : dx + 32]


def main():
    folder = pathlib.Path(sys.argv[1])
    epochs = int(sys.argv[2]) if len(sys.argv) > 2 else 8
    limit = int(sys.argv[3]) if len(sys.argv) > 3 else None
    images, labels = read(sorted(folder.glob("data_batch_*.bin")), limit)
    test_images, test_labels = read([folder / "test_batch.bin"], limit)
    torch.manual_seed(0)
    model = network()
    table = libscion.torch.roles(model, radius=RADII)
    print(table)
    opt = libscion.torch.Scion(table, lr=LR, momentum=0.5)
    opt.init_weights(seed=0)
    batches = -(-len(images) // BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(opt, libscion.numpy.schedule("linear", epochs * batches))
    for epoch in range(epochs):
        model.train()
        for chosen in torch.randperm(len(images)).split(BATCH):
            opt.zero_grad()
            loss = F.cross_entropy(model(augmented(images[chosen])), labels[chosen], label_smoothing=0.2)
            loss.backward()
            opt.step()
            schedule.step()
        model.eval()
        with torch.no_grad():
            right = sum((model(x).argmax(1) == y).sum().item()
                        for x, y in zip(test_images.split(1000), test_labels.split(1000)))
        print(f"epoch {epoch + 1}  loss {loss.item():.4f}  test accuracy {right / len(test_images):.4f}", flush=True)


main()
