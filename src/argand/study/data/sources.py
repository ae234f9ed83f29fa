"""Where the data sets officially lie, and how their files are recognised: tables only."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Remote:
    """A file to fetch: its addresses, tried in order, its md5 as published, and its size where published."""

    addresses: tuple[str, ...]
    file: str
    md5: str
    size: int | None = None


@dataclass(frozen=True)
class IdxSet:
    """Four idx files, in the order train images, train labels, test images, test labels."""

    folder: str
    files: tuple[str, str, str, str]
    counts: tuple[int, int]
    classes: int
    first_label: int
    remotes: tuple[Remote, ...]
    #: md5 of the official .gz files, by the name without .gz; sha256 of their decompressed bytes.
    gzip_md5: dict[str, str]
    sha256: dict[str, str]
    side: int = 28

    def shape(self, file: str) -> tuple[int, ...]:
        """Return the shape that a file must have."""
        place = self.files.index(file)
        count = self.counts[place // 2]
        return (count,) if place % 2 else (count, self.side, self.side)


_MNIST_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
_EMNIST_FILES = (
    "emnist-letters-train-images-idx3-ubyte",
    "emnist-letters-train-labels-idx1-ubyte",
    "emnist-letters-test-images-idx3-ubyte",
    "emnist-letters-test-labels-idx1-ubyte",
)


def _mnist_like(folder: str, sites: tuple[str, ...], md5: tuple[str, ...], sha256: tuple[str, ...] = ()) -> IdxSet:
    remotes = tuple(
        Remote(tuple(f"{site}/{file}.gz" for site in sites), f"{file}.gz", checksum)
        for file, checksum in zip(_MNIST_FILES, md5, strict=True)
    )
    contents = dict(zip(_MNIST_FILES, sha256, strict=True)) if sha256 else {}
    gzips = dict(zip(_MNIST_FILES, md5, strict=True))
    return IdxSet(folder, _MNIST_FILES, (60_000, 10_000), 10, 0, remotes, gzips, contents)


MNIST = _mnist_like(
    "mnist",
    ("https://ossci-datasets.s3.amazonaws.com/mnist", "https://storage.googleapis.com/cvdf-datasets/mnist"),
    (
        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "d53e105ee54ea40749a09fcbcd1e9432",
        "9fb629c4189551a2d022fa330f9573f3",
        "ec29112dd5afa0611ce80d1b7f02629c",
    ),
    (
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
)
FASHION = _mnist_like(
    "fashion-mnist",
    ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",),
    (
        "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "25c81989df183df01b3e8a0aad5dffbe",
        "bef4ecab320f06d8554ea6380940ec79",
        "bb300cfdad3c16e7a12a480ee83cd310",
    ),
    (
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
)
KMNIST = _mnist_like(
    "kmnist",
    ("http://codh.rois.ac.jp/kmnist/dataset/kmnist",),
    (
        "bdb82020997e1d708af4cf47b453dcf7",
        "e144d726b3acfaa3e44228e80efcd344",
        "5c965bf0a639b31b8f53240b1b52f4d7",
        "7320c461ea6c1c855c0b718fb2a4b134",
    ),
)
EMNIST_ARCHIVE = Remote(
    ("https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",), "gzip.zip", "58c8d27c78d21e728a6bc7b3cc06412e"
)
EMNIST = IdxSet("emnist-letters", _EMNIST_FILES, (124_800, 20_800), 26, 1, (EMNIST_ARCHIVE,), {}, {})

CIFAR10_ARCHIVE = Remote(
    ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
    "cifar-10-binary.tar.gz",
    "c32a1d4ab5d03f1284b67883e8d87530",
    170_052_171,
)
#: sha256 of the files inside that archive, whose published md5 they also have.
CIFAR10_SHA256: dict[str, str] = {
    "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}

MUSICNET_ARCHIVE = Remote(
    ("https://zenodo.org/records/5120004/files/musicnet.tar.gz",),
    "musicnet.tar.gz",
    "844764911fa0d5b97c97da944a057590",
    11_097_394_998,
)
