"""What a network is trained on and scored by: batches on the device, a loss, a score."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from argand.errors import ArgandError
from argand.nn.kernels import to_channels_last
from argand.study.data import Images, Music, Recording, all_windows, load, random_windows
from argand.study.features import augment, features, normalise
from argand.study.metrics import accuracy, average_precision

EVALUATION_BATCH = {"cpu": 250, "cuda": 2000}  # larger ones leave a CPU's caches, and take half as long again
Batch = tuple[Tensor, Tensor]


def ordered(x: Tensor) -> Tensor:
    """Images with their channels last in memory, as convolutions on a CPU want them."""
    return to_channels_last(x) if x.dim() > 2 and x.device.type == "cpu" else x


class Task(ABC):
    """A data set as one network sees it."""

    metric: str
    classes: int
    size: int  # N: examples in an epoch
    has_validation: bool

    @abstractmethod
    def sample(self) -> Tensor:
        """The features of one example, without the batch axis."""

    @abstractmethod
    def steps(self, batch: int) -> int:
        """Batches in an epoch."""

    @abstractmethod
    def batches(self, batch: int, generator: torch.Generator) -> Iterator[Batch]:
        """One epoch of training."""

    @abstractmethod
    def examples(self, part: str) -> Iterator[Batch]:
        """All of "validation" or "test", in order."""

    @abstractmethod
    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        """The mean negative log-likelihood."""

    @abstractmethod
    def score_of(self, output: Tensor, target: Tensor) -> float:
        """The score of these outputs; larger is better."""

    @torch.no_grad()
    def score(self, net: nn.Module, part: str = "test") -> tuple[float, float]:
        """Score and mean loss of a network in evaluation; its mode is restored."""
        training = net.training
        net.eval()
        outputs, targets = zip(*((net(x).float(), y) for x, y in self.examples(part)), strict=True)
        net.train(training)
        output, target = torch.cat(outputs), torch.cat(targets)
        return self.score_of(output, target), float(self.loss(output, target))


class ImageTask(Task):
    """Pictures to classify: cross entropy and accuracy. Features are computed once, unless images are augmented."""

    metric = "accuracy"

    def __init__(self, images: Images, kind: str, field: str, options: Mapping[str, Any], device: torch.device) -> None:
        self.classes, self._kind, self._field = images.classes, kind, field
        count = options["train"] or len(images.train_images)
        held_out = options["validation"]
        if count > len(images.train_images) or held_out >= count:
            raise ArgandError(
                f"data.train is {count} and data.validation {held_out}, and there are {len(images.train_images)} "
                "training images, of which the validation ones are a part."
            )
        self.size, self.has_validation = count - held_out, held_out > 0
        self._augment = bool(options["augment"])
        pixels, labels = images.train_images[:count].to(device), images.train_labels[:count].to(device)
        train, valid = pixels[: self.size], pixels[self.size :]
        self._train = (train if self._augment else self._features(train)), labels[: self.size]
        tests = options["test"]
        test = images.test_images[:tests].to(device), images.test_labels[:tests].to(device)
        self._parts = {"test": (self._features(test[0]), test[1])}
        if held_out:
            self._parts["validation"] = (self._features(valid), labels[self.size :])

    def _features(self, pixels: Tensor) -> Tensor:
        return features(normalise(pixels), self._kind, self._field)

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        """Cross entropy."""
        return F.cross_entropy(output, target)

    def score_of(self, output: Tensor, target: Tensor) -> float:
        """Accuracy."""
        return accuracy(output, target)

    def sample(self) -> Tensor:
        """The features of one picture."""
        return self._parts["test"][0][0]

    def steps(self, batch: int) -> int:
        """The last batch may be smaller."""
        return -(-self.size // batch)

    def batches(self, batch: int, generator: torch.Generator) -> Iterator[Batch]:
        """The training pictures in a new order."""
        inputs, labels = self._train
        for rows in torch.split(torch.randperm(self.size, generator=generator).to(labels.device), batch):
            x = inputs[rows]
            yield ordered(self._features(augment(x, generator)) if self._augment else x), labels[rows]

    def examples(self, part: str) -> Iterator[Batch]:
        """In order, in large batches."""
        inputs, labels = self._parts[part]
        size = EVALUATION_BATCH[inputs.device.type]
        for x, y in zip(torch.split(inputs, size), torch.split(labels, size), strict=True):
            yield ordered(x), y


class MusicTask(Task):
    """The notes that sound in the middle of a window: binary cross entropy, pooled average precision.

    A batch of training is one random window of every recording; the window's length, the steps in an epoch and the
    stride between the windows that are scored come from the options.
    """

    metric = "average precision"

    def __init__(self, music: Music, kind: str, field: str, options: Mapping[str, Any], device: torch.device) -> None:
        self.classes, self._kind, self._field = music.classes, kind, field
        self._device, self._window, self._stride = device, options["window"], options["stride"]
        self._steps: int = options["steps"]
        self._train = music.train[: options["train"]]
        self._parts = {"test": music.test[: options["test"]], "validation": music.valid}
        self.has_validation = bool(music.valid)
        self.size = len(self._train) * self._steps

    def _features(self, x: Tensor) -> Tensor:
        return features(x.to(self._device), self._kind, self._field)

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        """Binary cross entropy, averaged over windows and notes."""
        return F.binary_cross_entropy_with_logits(output, target)

    def score_of(self, output: Tensor, target: Tensor) -> float:
        """Average precision, windows and notes pooled."""
        return average_precision(output, target)

    def sample(self) -> Tensor:
        """The features of one window."""
        return self._features(torch.zeros(1, 1, self._window))[0]

    def steps(self, batch: int) -> int:
        """Set by the options."""
        return self._steps

    def batches(self, batch: int, generator: torch.Generator) -> Iterator[Batch]:
        """A window of every recording in each."""
        for _ in range(self._steps):
            x, y = random_windows(self._train, generator, self._window)
            yield ordered(self._features(x)), y.to(self._device)

    def examples(self, part: str) -> Iterator[Batch]:
        """Every window of every recording, a stride apart."""
        recordings: list[Recording] = self._parts[part]
        for x, y in all_windows(recordings, stride=self._stride, length=self._window):
            yield ordered(self._features(x)), y.to(self._device)


def make_task(config: Mapping[str, Any], root: Path | None, device: torch.device) -> Task:
    """The task of a pre-training configuration; refuses data that are not those of its digest."""
    data = load(config["dataset"], root)
    if data.digest != config["digest"]:
        raise ArgandError(
            f"The data set {config['dataset']} has changed since this study began: its digest is {data.digest[:12]}, "
            f"and the stage was planned with {config['digest'][:12]}. Run the specification again to plan it anew."
        )
    if isinstance(data, Images):
        return ImageTask(data, config["features"], config["field"], config, device)
    return MusicTask(data, config["features"], config["field"], config, device)
