"""From stored samples to a network's input: pure functions of tensors.

A real network takes a complex feature as twice the channels (real parts, then imaginary parts); a complex network
takes it as it is, and a real feature through `argand.nn.ToComplex`, the first layer of its model.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from argand.errors import ArgandError

FEATURES = ("raw", "fft", "stft")
COMPLEX_FIELDS = ("C", "halfC")

#: mean and standard deviation of the pixels in [0, 1], one per channel
PIXELS = {
    1: ((0.5,), (0.5,)),
    3: ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),  # CIFAR10's own, as in the paper
}


def normalise(pixels: Tensor) -> Tensor:
    """Bytes (n, c, h, w) as float32: grey images in [-1, 1], colour ones by CIFAR10's mean and deviation.

    >>> normalise(torch.tensor([[[[0, 255]]]], dtype=torch.uint8))
    tensor([[[[-1.,  1.]]]])
    """
    mean, deviation = (torch.tensor(v, device=pixels.device).view(-1, 1, 1) for v in PIXELS[pixels.shape[1]])
    return (pixels.float() / 255 - mean) / deviation


def augment(pixels: Tensor, generator: torch.Generator) -> Tensor:
    """Random crops of the images padded by 4 zero pixels, half of them flipped left to right. Bytes in, bytes out."""
    count, _, height, width = pixels.shape
    shifts = torch.randint(0, 9, (2, count), generator=generator).to(pixels.device)
    flip = torch.rand(count, generator=generator).to(pixels.device) < 0.5
    rows = shifts[0, :, None] + torch.arange(height, device=pixels.device)
    columns = torch.arange(width, device=pixels.device).expand(count, -1)
    columns = shifts[1, :, None] + torch.where(flip[:, None], columns.flip(1), columns)
    padded = F.pad(pixels, (4, 4, 4, 4))
    index = torch.arange(count, device=pixels.device)
    return padded.permute(0, 2, 3, 1)[index[:, None, None], rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def fft(x: Tensor) -> Tensor:
    """The unnormalised Fourier transform over all axes after the channels, zero frequency in the middle.

    >>> fft(torch.ones(1, 1, 4)).real
    tensor([[[0., 0., 4., 0.]]])
    """
    axes = tuple(range(2, x.ndim))
    spectrum: Tensor = torch.fft.fftshift(torch.fft.fftn(x, dim=axes), dim=axes)
    return spectrum


def stft(x: Tensor, window: int = 256, hop: int = 128) -> Tensor:
    """Short-time Fourier transform of waveforms (n, c, length), Hann window: complex (n, c·frequencies, frames).

    >>> stft(torch.zeros(2, 1, 1024)).shape
    torch.Size([2, 129, 7])
    """
    if x.ndim != 3:
        raise ArgandError(f"stft takes waveforms (n, channels, length), and was given a shape of {tuple(x.shape)}.")
    if x.shape[-1] < window:
        raise ArgandError(f"stft needs at least {window} samples, and was given {x.shape[-1]}.")
    shape = torch.hann_window(window, device=x.device, dtype=x.dtype)
    spectra = torch.stft(x.flatten(0, 1), window, hop, window=shape, center=False, return_complex=True)
    return spectra.reshape(len(x), -1, spectra.shape[-1])


def features(x: Tensor, kind: str, field: str) -> Tensor:
    """What a network over the field (R, C, 2R, halfC) is fed for these samples.

    >>> x = torch.zeros(5, 1, 28, 28)
    >>> features(x, "fft", "C").shape, features(x, "fft", "2R").shape
    (torch.Size([5, 1, 28, 28]), torch.Size([5, 2, 28, 28]))
    """
    if kind == "raw":
        return x
    transformed = {"fft": fft, "stft": stft}[kind](x)
    if field in COMPLEX_FIELDS:
        return transformed
    return torch.cat([transformed.real, transformed.imag], dim=1)
