"""Features, networks and scores of the study."""

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score

import argand
from argand.study.features import augment, features, fft, normalise, stft
from argand.study.metrics import accuracy, average_precision
from argand.study.models import MODELS, network

GREY, COLOUR = torch.zeros(1, 28, 28), torch.zeros(3, 32, 32)
SOUND = torch.zeros(1, 4096, dtype=torch.complex64)


@pytest.mark.parametrize(
    ("model", "field", "sample", "classes", "floats"),
    [
        ("SimpleConv", "R", GREY, 10, 431_080),
        ("SimpleConv", "C", GREY, 10, 862_160),
        ("SimpleConv", "halfC", GREY, 10, 218_590),
        ("SimpleConv", "R", torch.zeros(2, 28, 28), 10, 431_580),
        ("SimpleConv", "2R", torch.zeros(2, 28, 28), 10, 1_713_150),
        ("TwoLayerDense", "R", GREY, 10, 3_256_330),
        ("TwoLayerDense", "C", GREY, 10, 6_512_660),
        ("TwoLayerDense", "halfC", GREY, 10, 3_256_340),
        ("TwoLayerDense", "R", torch.zeros(2, 28, 28), 10, 6_467_594),
        ("TwoLayerDense", "2R", torch.zeros(2, 28, 28), 10, 12_935_178),
        ("VGG16", "R", COLOUR, 10, 14_728_266),
        ("VGG16", "C", COLOUR, 10, 29_464_980),
        ("DeepConvNet", "C", SOUND, 84, 15_742_344),
        ("DeepConvNet-k3", "C", SOUND, 84, 15_742_248),
    ],
)
def test_networks_have_the_papers_floats(model, field, sample, classes, floats):
    assert argand.report(network(model, field, sample, classes)).total.floats == floats


#: floats of everything that is no maskable weight, from the limits of compression in the paper's figures
@pytest.mark.parametrize(
    ("model", "field", "sample", "classes", "limit"),
    [
        ("SimpleConv", "C", GREY, 10, 743.24138), ("TwoLayerDense", "C", GREY, 10, 793.06624),
        ("VGG16", "R", COLOUR, 10, 1161.35199), ("VGG16", "C", COLOUR, 10, 871.43558),
        ("DeepConvNet", "C", SOUND, 84, 2481.45397), ("DeepConvNet-k3", "C", SOUND, 84, 2481.43884),
    ],
)  # fmt: skip
def test_their_limits_of_compression_are_the_papers(model, field, sample, classes, limit):
    net = argand.sparsify(network(model, field, sample, classes))
    masks = argand.masks(net, kept=0.0)
    assert argand.report(net, masks).compression == pytest.approx(limit, abs=1e-4)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("field", ["R", "C", "2R", "halfC"])
def test_every_network_runs_at_every_width(model, field):
    sample = {"SimpleConv": GREY, "TwoLayerDense": GREY, "VGG16": COLOUR}.get(model, torch.zeros(2, 1024))
    for width in (0.125, 0.25):
        net = network(model, field, sample, 7, width)
        output = net(torch.randn(3, *sample.shape))
        assert output.shape == (3, 7)
        assert not output.is_complex()
        output.sum().backward()
        assert all(p.grad is not None for p in net.parameters())


def test_a_sample_of_the_wrong_kind_is_refused():
    with pytest.raises(argand.ArgandError, match=r"VGG16 takes samples of \(channels, height, width\), at least 32"):
        network("VGG16", "R", GREY, 10)
    with pytest.raises(argand.ArgandError, match=r"DeepConvNet takes samples of \(channels, length\)"):
        network("DeepConvNet", "C", GREY, 10)


def test_fft_is_the_shifted_transform_of_every_channel():
    x = torch.randn(2, 3, 6, 5)
    expected = np.fft.fftshift(np.fft.fft2(x.numpy()), axes=(2, 3))
    np.testing.assert_allclose(fft(x).numpy(), expected, atol=1e-4)
    both = features(x, "fft", "R")
    assert both.shape == (2, 6, 6, 5)
    np.testing.assert_allclose(both.numpy(), np.concatenate([expected.real, expected.imag], 1), atol=1e-4)
    assert features(x, "raw", "C") is x


def test_stft_frames_are_windowed_transforms():
    x = torch.randn(2, 1, 512)
    spectrum = stft(x, window=64, hop=32)
    assert spectrum.shape == (2, 33, 15)
    frame = np.fft.rfft(x[1, 0, 96:160].numpy() * torch.hann_window(64).numpy())
    np.testing.assert_allclose(spectrum[1, :, 3].numpy(), frame, atol=1e-4)
    with pytest.raises(argand.ArgandError, match="waveforms"):
        stft(torch.zeros(2, 1, 28, 28))
    with pytest.raises(argand.ArgandError, match="at least 64"):
        stft(torch.zeros(2, 1, 28), window=64)


def test_colour_pixels_are_normalised_by_channel():
    pixels = torch.full((1, 3, 1, 1), 255, dtype=torch.uint8)
    expected = [(1 - 0.4914) / 0.2023, (1 - 0.4822) / 0.1994, (1 - 0.4465) / 0.2010]
    assert normalise(pixels).flatten().tolist() == pytest.approx(expected)


def test_augmented_images_are_shifted_or_flipped_ones():
    images = torch.arange(1, 1 + 32 * 32).view(1, 1, 32, 32).expand(64, 3, -1, -1).to(torch.int32)
    out = augment(images, torch.Generator().manual_seed(0))
    padded = torch.nn.functional.pad(images[0], (4, 4, 4, 4))
    crops = {}
    for row in range(9):
        for column in range(9):
            crop = padded[:, row : row + 32, column : column + 32]
            crops[tuple(crop.flatten().tolist())] = False
            crops[tuple(crop.flip(2).flatten().tolist())] = True
    found = [crops[tuple(image.flatten().tolist())] for image in out]
    assert 16 < sum(found) < 48  # about half are flipped
    assert len({tuple(image.flatten().tolist()) for image in out}) > 40


def test_average_precision_is_scikit_learns():
    generator = np.random.default_rng(0)
    for distinct in (3, 50, 10_000):  # few distinct scores: many ties
        scores = generator.integers(0, distinct, 4000) / distinct
        targets = generator.random(4000) < 0.1 + 0.3 * scores
        ours = average_precision(torch.tensor(scores).view(40, 100), torch.tensor(targets).view(40, 100))
        assert ours == pytest.approx(average_precision_score(targets, scores), abs=1e-12)
    assert average_precision(torch.rand(4, 5), torch.zeros(4, 5)) == 0.0
    assert accuracy(torch.eye(4), torch.tensor([0, 1, 2, 0])) == 0.75
