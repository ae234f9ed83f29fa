"""The data sets by name: where they lie, loading, checking and getting them."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from argand.errors import ArgandError
from argand.study.data import acquire, cifar
from argand.study.data.download import Progress
from argand.study.data.extras import optional
from argand.study.data.images import Images, file_sha256, load_cifar, load_embedded, load_idx_set
from argand.study.data.music import MANIFEST, Music, load_music, notes_path, read_manifest, wave_path
from argand.study.data.musicnet import raws_of
from argand.study.data.prepare import musicnet_split, prepare
from argand.study.data.sources import (
    CIFAR10_ARCHIVE,
    CIFAR10_SHA256,
    EMNIST,
    FASHION,
    KMNIST,
    MNIST,
    MUSICNET_ARCHIVE,
    IdxSet,
)

#: The digest of the images inside the package.
EMBEDDED_DIGEST = "1148121562c48e12ee0b2656e6256c375c50667ba5258d72e8572c50982bcf1c"


@dataclass(frozen=True)
class DataSet:
    """One row of the table: an idx set, CIFAR10 or music."""

    name: str
    what: str
    folder: str
    source: IdxSet | None = None
    full: bool = True

    @property
    def embedded(self) -> bool:
        """Whether it travels inside the package."""
        return self.source is MNIST and not self.full

    @property
    def files(self) -> tuple[str, ...]:
        """The files whose presence makes it ready."""
        if self.source is not None:
            return self.source.files
        return cifar.TRAIN_FILES + cifar.TEST_FILES if self.folder == "cifar10" else (MANIFEST,)

    @property
    def command(self) -> str:
        """What brings it here."""
        return "argand data render-music" if self.name == "rendered-music" else f"argand data get {self.name}"


def _idx_rows() -> list[DataSet]:
    whats = ("digits", "Japanese letters", "clothes", "Latin letters, 26 classes")
    rows = []
    for source, what in zip((MNIST, KMNIST, FASHION, EMNIST), whats, strict=True):
        name, count = source.folder, source.counts[0]
        rows.append(DataSet(name, f"{what}: 10,000 of {count:,}", name, source, full=False))
        rows.append(DataSet(f"{name}-full", f"{what}: all {count:,}", name, source))
    return rows


TABLE: dict[str, DataSet] = {
    row.name: row
    for row in (
        *_idx_rows(),
        DataSet("cifar10", "small colour pictures, 10 classes", "cifar10"),
        DataSet("musicnet", "330 recordings with their notes", "musicnet"),
        DataSet("rendered-music", "scores played by a synthesiser, a stand-in for MusicNet", "rendered-music"),
    )
}
NAMES: tuple[str, ...] = tuple(TABLE)


def data_root(root: Path | None = None) -> Path:
    """Return the folder of all data: the given one, else $ARGAND_DATA, else argand/data in the user's cache."""
    if root is not None:
        return Path(root).expanduser()
    if chosen := os.environ.get("ARGAND_DATA"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "argand" / "data"


def data_set(name: str) -> DataSet:
    """Return the row of a name."""
    if name not in TABLE:
        raise ArgandError(f"There is no data set {name!r}. Known: {', '.join(NAMES)}.")
    return TABLE[name]


def is_ready(name: str, root: Path | None = None) -> bool:
    """Tell whether a data set can be loaded, going by the names of its files."""
    row = data_set(name)
    return row.embedded or all((data_root(root) / row.folder / file).is_file() for file in row.files)


def _folder_of(name: str, root: Path | None) -> Path:
    row, folder = data_set(name), data_root(root) / data_set(name).folder
    if not is_ready(name, root):
        raise ArgandError(f"The data set {name} isn't in {folder}. Run: {row.command}")
    return folder


def load(name: str, root: Path | None = None) -> Images | Music:
    """Load a data set; files that are missing or damaged give an ArgandError.

    >>> images = load("mnist")
    >>> images.train_images.shape, images.train_images.dtype, images.classes
    (torch.Size([10000, 1, 28, 28]), torch.uint8, 10)
    """
    row = data_set(name)
    if row.embedded:
        return load_embedded()
    folder = _folder_of(name, root)
    if row.source is not None:
        return load_idx_set(row.source, folder, row.full)
    return load_cifar(folder) if name == "cifar10" else load_music(folder)


def digest(name: str, root: Path | None = None) -> str:
    """Return the sha256 that stands for the content in use; of music, only the manifest is read."""
    row = data_set(name)
    if row.folder in ("musicnet", "rendered-music"):
        return str(read_manifest(_folder_of(name, root))["digest"])
    return load(name, root).digest


def check(name: str, root: Path | None = None) -> str:
    """Read everything and compare it with every checksum that is known; says what was compared."""
    row = data_set(name)
    loaded = load(name, root)
    if row.embedded:
        if loaded.digest != EMBEDDED_DIGEST:
            raise ArgandError("The images inside the package are damaged. Install argand again.")
        return "the images inside the package are the paper's"
    folder = _folder_of(name, root)
    if row.source is not None:
        return acquire.check_sums(folder, row.files, row.source.sha256)
    if name == "cifar10":
        return acquire.check_sums(folder, row.files, CIFAR10_SHA256)
    recordings = read_manifest(folder)["recordings"]
    for recording, sums in recordings.items():
        for path, kind in ((wave_path(folder, recording), "wave"), (notes_path(folder, recording), "notes")):
            if file_sha256(path) != sums[kind]:
                raise ArgandError(f"{path} differs from the manifest. Delete {folder} and prepare it again.")
    return f"{len(recordings)} recordings agree with the manifest"


def get(
    name: str,
    origin: Path | None = None,
    root: Path | None = None,
    progress: Progress = lambda done, total: None,
    report: Callable[[str], None] = lambda recording: None,
) -> str:
    """Bring a data set into its place, from a local copy or from its official address; says what was done."""
    row = data_set(name)
    if name == "rendered-music":
        raise ArgandError(f"The data set {name} isn't fetched but made. Run: {row.command}")
    if origin is not None and not origin.exists():
        raise ArgandError(f"{origin} doesn't exist. Expected a folder or a file with a copy of {name}.")
    if origin is None and row.embedded:
        return "mnist is inside the package: nothing to get (the whole training split is mnist-full)"
    if is_ready(name, root) and (origin is None or name == "musicnet"):
        return f"{name} is already in {data_root(root) / row.folder}"
    return _take(row, origin, data_root(root) / row.folder, progress, report)


def _take(row: DataSet, origin: Path | None, folder: Path, progress: Progress, report: Callable[[str], None]) -> str:
    if row.name == "musicnet":
        for module in ("soxr", "soundfile"):  # better missed now than after the download
            optional(module, "prepare music")
    archives = {"cifar10": (CIFAR10_ARCHIVE,), "musicnet": (MUSICNET_ARCHIVE,)}
    remotes = row.source.remotes if row.source is not None else archives[row.name]
    place = origin if origin is not None else acquire.fetch(remotes, folder, progress)
    if row.source is not None:
        said = acquire.take_idx_set(row.source, place, folder)
    elif row.name == "cifar10":
        said = acquire.take_cifar(place, folder)
    else:
        said = f"{prepare(raws_of(place), folder, musicnet_split, report)} recordings at 11,000 Hz"
    acquire.drop_downloads(folder)
    return f"{row.name} is in {folder}: {said}"
