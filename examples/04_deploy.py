"""From a network to what fits a microcontroller: trained, pruned, made compact, packed, written as C."""

import sys
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import argand
import argand.nn as ann
from argand.study.data import embedded_mnist


def fit(net, optimizer, images, labels, epochs):
    net.train()
    for _ in range(epochs):
        for rows in torch.randperm(len(images)).split(128):
            loss = F.cross_entropy(net(images[rows]), labels[rows])
            if not loss.isfinite():
                raise argand.ArgandError(f"The loss became {loss.item()}: lower the learning rate.")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def main(epochs=(4, 12, 4), count=10_000, folder=None):
    torch.manual_seed(0)
    data = embedded_mnist()
    images, labels = data.train_images[:count], data.train_labels[:count]
    body = [ann.ToComplex(), ann.Conv2d(1, 6, 5, stride=2), ann.ReLU(), ann.Conv2d(6, 12, 5, stride=2), ann.ReLU()]
    net = nn.Sequential(*body, nn.Flatten(), ann.Linear(192, 64), ann.ReLU(), ann.Linear(64, 10), ann.Real())
    optimizer = argand.optim.Adam(net, lr=2e-3, max_norm=0.5)
    fit(net, optimizer, images, labels, epochs[0])
    argand.sparsify(net, "vd")
    optimizer.add_new_parameters()
    optimizer.divergence_weight = 1.0 / len(images)
    fit(net, optimizer, images, labels, epochs[1])
    masks = argand.masks(net, threshold=-0.5)
    types = argand.quantise(net, masks)  # for each layer as few bits as its posterior's spread allows
    optimizer = argand.optim.Adam(argand.collapse(net), lr=5e-4, max_norm=0.5)
    with masks.pin(net, optimizer):
        fit(net, optimizer, images, labels, epochs[2])
    x, folder = data.test_images[:1], Path(folder or tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    print(argand.report(net.eval(), masks, example=x))

    small = argand.compact(net)  # without the units that no longer matter
    print(f"{types}\nnet.argand: {argand.save(small, folder / 'net.argand', types, example=x)} bytes")
    packed = argand.load(folder / "net.argand")
    for name, form in (("pruned", net), ("packed", packed), ("sparse", argand.sparse(packed, example=x))):
        print(f"{name}: {100 * (form(data.test_images).argmax(1) == data.test_labels).float().mean():.2f} %")
    print(argand.export_c(packed, x, folder / "c", dtype="int8"))
    return net, masks


if __name__ == "__main__":
    main(folder=sys.argv[1] if len(sys.argv) > 1 else None)
