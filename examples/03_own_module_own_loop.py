"""Your own module and your own loop: mixed real and complex layers, torch's optimiser, the divergence in the loss."""

import torch
import torch.nn.functional as F
from torch import nn

import argand
import argand.nn as ann
from argand.study.data import embedded_mnist


class TwoBranches(nn.Module):
    def __init__(self):
        super().__init__()
        self.spectral = ann.Linear(28 * 15, 64)
        self.gate = ann.ModReLU(64)
        self.pixels = nn.Conv2d(1, 8, 5, stride=2)
        self.head = nn.Linear(2 * 64 + 8 * 12 * 12, 10)

    def forward(self, images):
        spectrum = torch.fft.rfft2(images, norm="ortho").flatten(1)
        spectral = self.gate(self.spectral(spectrum))
        return self.head(torch.cat([spectral.real, spectral.imag, F.relu(self.pixels(images)).flatten(1)], 1))


def epoch(net, optimizer, images, labels, weight=0.0):
    for rows in torch.randperm(len(images)).split(128):
        loss = F.cross_entropy(net(images[rows]), labels[rows])
        if weight:
            loss = loss + weight * argand.divergence(net)  # exact and differentiable
        if not loss.isfinite():
            raise argand.ArgandError(f"The loss became {loss.item()}: lower the learning rate.")
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        optimizer.step()


def main(epochs=(4, 10, 4), count=10_000):
    torch.manual_seed(0)
    data, net = embedded_mnist(), TwoBranches()
    images, labels = data.train_images[:count], data.train_labels[:count]
    for stage, length in enumerate(epochs):
        if stage == 1:
            argand.sparsify(net, "vd", skip=["head"])  # a prior for each part, if you like
            argand.sparsify(net, "ard", only=["head"])
        masks = argand.masks(net, kept=0.05) if stage == 2 else argand.Masks()
        optimizer = torch.optim.Adam((argand.collapse(net) if stage == 2 else net).parameters(), lr=1e-3)
        with masks.pin(net, optimizer):
            for _ in range(length):
                epoch(net.train(), optimizer, images, labels, weight=1 / len(images) if stage == 1 else 0.0)
        score = (net.eval()(data.test_images).argmax(1) == data.test_labels).float().mean()
        print(["trained", "sparsified", "pruned and fine-tuned"][stage], f"{100 * score:.2f} %")
    print(argand.report(net, masks))
    return net, masks


if __name__ == "__main__":
    main()
