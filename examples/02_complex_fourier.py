"""A complex network on Fourier features: the three stages with automatic relevance determination, and its doubt."""

import torch
import torch.nn.functional as F
from torch import nn

import argand
import argand.nn as ann
from argand.study.data import embedded_mnist


def fourier(images):
    return torch.fft.fftshift(torch.fft.fft2(images, norm="ortho"), dim=(-2, -1))


def fit(net, optimizer, features, labels, epochs):
    net.train()
    for _ in range(epochs):
        for rows in torch.randperm(len(features)).split(128):
            loss = F.cross_entropy(net(features[rows]), labels[rows])
            if not loss.isfinite():
                raise argand.ArgandError(f"The loss became {loss.item()}: lower the learning rate.")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def main(epochs=(4, 10, 4), count=10_000):
    torch.manual_seed(0)
    data = embedded_mnist()
    features, labels = fourier(data.train_images[:count]), data.train_labels[:count]
    test = fourier(data.test_images)

    def accuracy(logits):
        return 100 * (logits.argmax(1) == data.test_labels).float().mean().item()

    net = nn.Sequential(nn.Flatten(), ann.Linear(784, 512), ann.ReLU(), ann.Linear(512, 10), ann.Real())
    fit(net, argand.optim.Adam(net, lr=1e-3, max_norm=0.5), features, labels, epochs[0])
    print(f"trained: {accuracy(net.eval()(test)):.2f} %")

    argand.sparsify(net, "ard")
    optimizer = argand.optim.Adam(net, lr=1e-3, max_norm=0.5, divergence_weight=1 / len(features))
    fit(net, optimizer, features, labels, epochs[1])
    prediction = argand.predict(net, test[:1000], samples=16)
    print(f"mean spread of the logits under the posterior: {prediction.std.mean():.3f}")

    masks = argand.masks(net, threshold=-0.5)
    optimizer = argand.optim.Adam(argand.collapse(net), lr=1e-4, max_norm=0.5)
    with masks.pin(net, optimizer):
        fit(net, optimizer, features, labels, epochs[2])
    print(f"pruned and fine-tuned: {accuracy(net.eval()(test)):.2f} %")
    print(argand.report(net, masks))
    return net, masks


if __name__ == "__main__":
    main()
