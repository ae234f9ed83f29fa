"""A real network: train, sparsify with variational dropout, choose a threshold, prune, fine-tune."""

import torch
import torch.nn.functional as F
from torch import nn

import argand
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


def main(epochs=(4, 12, 4), count=10_000):
    torch.manual_seed(0)
    data = embedded_mnist()
    images, labels = data.train_images[:count], data.train_labels[:count]

    @torch.no_grad()
    def accuracy(net):
        return 100 * (net(data.test_images).argmax(1) == data.test_labels).float().mean().item()

    net = nn.Sequential(
        nn.Flatten(), nn.Linear(784, 300), nn.ReLU(), nn.Linear(300, 100), nn.ReLU(), nn.Linear(100, 10)
    )
    optimizer = argand.optim.Adam(net, lr=1e-3, max_norm=0.5)
    fit(net, optimizer, images, labels, epochs[0])
    print(f"trained: {accuracy(net.eval()):.2f} %")

    argand.sparsify(net, "vd")
    optimizer.add_new_parameters()  # the same optimiser goes on, with its moments
    optimizer.divergence_weight = 1 / len(images)
    fit(net, optimizer, images, labels, epochs[1])
    print(argand.sweep(net, accuracy, [-3, -2, -1, -0.5, 0, 1, 2, 3]))

    masks = argand.masks(net, threshold=-0.5)
    argand.collapse(net)
    optimizer = argand.optim.Adam(net, lr=1e-4, max_norm=0.5)
    with masks.pin(net, optimizer):
        fit(net, optimizer, images, labels, epochs[2])
    print(f"pruned and fine-tuned: {accuracy(net.eval()):.2f} %")
    print(argand.report(net, masks, data.test_images[:1]))
    return net, masks


if __name__ == "__main__":
    main()
