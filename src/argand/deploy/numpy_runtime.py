"""Runs a packed argand network with numpy alone.

    model = load("net.argand")
    y = model(x)  # x: (batch, ...) float32, or complex64 where the network takes complex numbers

`argand export net.argand --numpy FILE` writes this, the reader and the network into one file that needs only numpy:

    python FILE input.npy output.npy
"""

import base64
import math
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from argand.deploy.reader import Array, FormatError, read

EMBEDDED = ""  # a packed network in base 64: of an exported file


def load(path: str | Path) -> "Model":
    """A network from its file."""
    return Model(*read(Path(path).read_bytes()))


class Model:
    """A network that can be called with arrays, the batch axis first."""

    def __init__(self, header: dict[str, Any], tensors: list[Array]) -> None:
        self.header, self.tensors = header, tensors

    def __call__(self, *inputs: Array) -> Any:
        """The outputs: an array, or a tuple of them."""
        for x, example in zip(inputs, self.header.get("examples", ()), strict=False):
            if x.ndim != 1 + len(example["shape"]) or np.iscomplexobj(x) != example["complex"]:
                shape, kind = ", ".join(map(str, example["shape"])), "complex64" if example["complex"] else "float32"
                raise ValueError(f"expected (batch, {shape}) {kind}, and got {x.shape} {x.dtype}")
        values: dict[str, Array] = dict(zip(self.header["inputs"], inputs, strict=True))
        for step in self.header["steps"]:
            tensors = {name: self.tensors[place] for name, place in step["tensors"].items()}
            arguments = [values[name] for name in step["inputs"]]
            values[step["name"]] = apply(step["kind"], step["options"], tensors, arguments)
        outputs = tuple(values[name] for name in self.header["outputs"])
        return outputs[0] if self.header.get("single", True) else outputs


def apply(kind: str, options: dict[str, Any], tensors: dict[str, Array], inputs: list[Array]) -> Array:
    """One step, by the kind's name without its namespace."""
    word, x = kind.rpartition(".")[2], inputs[0]
    if word in _LAYERS:
        return _LAYERS[word](options, tensors, *inputs)
    base = word[:-2] if word[-1:] == "d" else word
    if base in _WINDOWED:
        return _WINDOWED[base](int(word[-2]), options, tensors, x)
    if word in ACTIVATIONS:
        return _on_parts(lambda part: ACTIVATIONS[word](part, options, tensors), x)
    raise FormatError(f"there is no layer or function {kind!r}")


def _on_parts(function: Any, x: Array) -> Array:
    return _paired(function(x.real), function(x.imag)) if np.iscomplexobj(x) else function(x)


def _paired(real: Array, imaginary: Array) -> Array:
    result = np.empty(np.broadcast_shapes(real.shape, imaginary.shape), np.complex64)
    result.real, result.imag = real, imaginary
    return result


def _spread(vector: Array, x: Array) -> Array:
    """A vector of channels (axis 1) against x."""
    return vector.reshape(1, -1, *(1,) * (x.ndim - 2)) if vector.size > 1 else vector.reshape(())


def _linear(o: dict[str, Any], t: dict[str, Array], x: Array) -> Array:
    return x @ t["weight"].T + t.get("bias", 0)


def _bilinear(o: dict[str, Any], t: dict[str, Array], x: Array, z: Array) -> Array:
    first = x.conj() if o.get("conjugate") else x
    return np.einsum("...i,oij,...j->...o", first, t["weight"], z, optimize=True) + t.get("bias", 0)


def _mapped(x: Array, matrix: Array, shift: Array) -> Array:
    a, b, c, d = (_spread(matrix[:, i, j], x) for i, j in product((0, 1), repeat=2))
    return _paired(a * x.real + b * x.imag, c * x.real + d * x.imag) + _spread(shift, x)


def _mod_relu(o: dict[str, Any], t: dict[str, Array], x: Array) -> Array:
    size = np.abs(x)
    gain = np.maximum(1 + _spread(t["bias"], x) / np.where(size > 0, size, 1), 0)
    return np.where(size > 0, x * gain, 0)


def _cardioid(o: dict[str, Any], t: dict[str, Array], x: Array) -> Array:
    size = np.abs(x)
    return x * (np.float32(0.5) + np.float32(0.5) * x.real / np.where(size > 0, size, 1))


def _split(o: dict[str, Any], t: dict[str, Array], x: Array) -> Array:
    inner = {name.removeprefix("activation."): value for name, value in t.items()}
    return _on_parts(lambda part: apply(o["activation"]["kind"], o["activation"]["options"], inner, [part]), x)


def _flatten(o: dict[str, Any], t: dict[str, Array], x: Array) -> Array:
    start, end = o["start_dim"] % x.ndim, o["end_dim"] % x.ndim
    return x.reshape(*x.shape[:start], -1, *x.shape[end + 1 :])


def _softmax(x: Array, o: dict[str, Any], log: bool) -> Array:
    axis = 1 if o["dim"] is None else o["dim"]
    shifted = x - x.max(axis, keepdims=True)
    total = np.exp(shifted).sum(axis, keepdims=True)
    return shifted - np.log(total) if log else np.exp(shifted) / total


def _binary(function: Any) -> Any:
    return lambda o, t, *x: function(*x) if "value" not in o else function(x[0], np.float32(o["value"]))


def _batch_norm(n: int, o: dict[str, Any], t: dict[str, Array], x: Array) -> Array:
    mean, variance = t["running_mean"], t["running_var"]
    if not np.iscomplexobj(mean):
        scale = t.get("weight", 1) / np.sqrt(variance + o["eps"])
        return (x - _spread(mean, x)) * _spread(scale, x) + _spread(t.get("bias", np.zeros(1, np.float32)), x)
    rr, ri, ii = variance[:, 0, 0], variance[:, 0, 1], variance[:, 1, 1]
    s = np.sqrt(np.maximum(rr * ii - ri * ri, 0) + o["eps"] * (rr + ii) + o["eps"] ** 2)
    root = np.sqrt(rr + ii + 2 * o["eps"] + 2 * s)
    whitening = np.stack([ii + o["eps"] + s, -ri, -ri, rr + o["eps"] + s], -1).reshape(-1, 2, 2)
    matrix = t.get("weight", np.eye(2, dtype=np.float32)) @ (whitening / (s * root)[:, None, None])
    centre = np.stack([mean.real, mean.imag], -1)
    moved = -(matrix @ centre[:, :, None])[:, :, 0]
    return _mapped(x, matrix, _paired(moved[:, 0], moved[:, 1]) + t.get("bias", 0))


def _tuple(value: Any, n: int) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list | tuple) else (value,) * n


def _windows(x: Array, kernel: Any, stride: Any, dilation: Any) -> Array:
    """(batch, channels, *positions, *kernel)."""
    n = len(kernel)
    spans = tuple(d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True))
    view = sliding_window_view(x, spans, tuple(range(2, 2 + n)))
    steps = (*(slice(None, None, s) for s in stride), *(slice(None, None, d) for d in dilation))
    return view[(slice(None), slice(None), *steps)]


def _convolution(n: int, o: dict[str, Any], t: dict[str, Array], x: Array) -> Array:
    weight, groups = t["weight"], o["groups"]
    kernel, stride, dilation = weight.shape[2:], _tuple(o["stride"], n), _tuple(o["dilation"], n)
    totals: list[int] = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    named = {"same": [(s // 2, s - s // 2) for s in totals], "valid": [(0, 0)] * n}
    padding = o["padding"]
    sides = named[padding] if isinstance(padding, str) else [(p, p) for p in _tuple(padding, n)]
    mode: Any = {"zeros": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}[o["padding_mode"]]
    view = _windows(np.pad(x, [(0, 0), (0, 0), *sides], mode), kernel, stride, dilation)
    parts = zip(np.split(view, groups, 1), np.split(weight, groups, 0), strict=True)
    axes = ([1, *range(2 + n, 2 + 2 * n)], list(range(1, 2 + n)))
    result = np.concatenate([np.moveaxis(np.tensordot(v, w, axes), -1, 1) for v, w in parts], 1)
    return result + _spread(t["bias"], result) if "bias" in t else result


def _transposed(n: int, o: dict[str, Any], t: dict[str, Array], x: Array) -> Array:
    weight, groups = t["weight"], o["groups"]
    stride, dilation, padding, extra = (_tuple(o[k], n) for k in ("stride", "dilation", "padding", "output_padding"))
    kernel, sizes = weight.shape[2:], x.shape[2:]
    geometry = list(zip(sizes, kernel, stride, dilation, padding, extra, strict=True))
    full = [(m - 1) * s + d * (k - 1) + 1 + e for m, k, s, d, _, e in geometry]
    result = np.zeros((x.shape[0], weight.shape[1] * groups, *full), np.result_type(x, weight))
    for place in product(*map(range, kernel)):
        taps = weight[(slice(None), slice(None), *place)]
        parts = zip(np.split(x, groups, 1), np.split(taps, groups, 0), strict=True)
        values = np.concatenate([np.einsum("bi...,io->bo...", v, w) for v, w in parts], 1)
        where = (slice(p * g[3], p * g[3] + g[0] * g[2], g[2]) for p, g in zip(place, geometry, strict=True))
        result[(slice(None), slice(None), *where)] += values
    crop = (slice(p, length - p) for length, (*_, p, _) in zip(full, geometry, strict=True))
    result = result[(slice(None), slice(None), *crop)]
    return result + _spread(t["bias"], result) if "bias" in t else result


def _pool(n: int, o: dict[str, Any], x: Array, fill: float) -> tuple[Array, list[tuple[int, int]]]:
    """The windows, flattened last, and how far each axis is padded."""
    kernel = _tuple(o["kernel_size"], n)
    stride = kernel if o["stride"] is None else _tuple(o["stride"], n)
    padding, dilation = _tuple(o["padding"], n), _tuple(o.get("dilation", 1), n)
    sides = []
    for size, k, s, p, d in zip(x.shape[2:], kernel, stride, padding, dilation, strict=True):
        free = size + 2 * p - d * (k - 1) - 1
        count = (-(-free // s) if o["ceil_mode"] else free // s) + 1
        count -= o["ceil_mode"] and (count - 1) * s >= size + p
        sides.append((p, max(p, (count - 1) * s + d * (k - 1) + 1 - size - p)))
    view = _windows(np.pad(x, [(0, 0), (0, 0), *sides], constant_values=fill), kernel, stride, dilation)
    return view.reshape(*view.shape[: 2 + n], -1), sides


def _max_pool(n: int, o: dict[str, Any], t: dict[str, Array], x: Array) -> Array:
    return _on_parts(lambda part: _pool(n, o, part, -np.inf)[0].max(-1), x)


def _modulus_pool(n: int, o: dict[str, Any], t: dict[str, Array], x: Array) -> Array:
    largest = _pool(n, o, x.real**2 + x.imag**2, -np.inf)[0].argmax(-1)[..., None]
    return np.take_along_axis(_pool(n, o, x, 0)[0], largest, -1)[..., 0]


def _avg_pool(n: int, o: dict[str, Any], t: dict[str, Array], x: Array) -> Array:
    total = _pool(n, o, x, 0)[0].sum(-1)
    ones = np.ones((1, 1, *x.shape[2:]), np.float32)
    if o["count_include_pad"]:
        sides = [(p, p) for p in _tuple(o["padding"], n)]
        ones = np.pad(ones, [(0, 0), (0, 0), *sides], constant_values=1)
        o = {**o, "padding": 0}
    count = o.get("divisor_override") or _pool(n, o, ones, 0)[0].sum(-1)[(..., *(slice(m) for m in total.shape[2:]))]
    return total / np.float32(count) if isinstance(count, int) else total / count


def _adaptive(n: int, o: dict[str, Any], x: Array, reduce: Any) -> Array:
    for axis, size in enumerate(_tuple(o["output_size"], n), 2):
        length, count = x.shape[axis], x.shape[axis] if size is None else size
        pieces = [(i * length // count, -(-(i + 1) * length // count)) for i in range(count)]
        x = np.stack([reduce(np.take(x, range(a, b), axis), axis) for a, b in pieces], axis)
    return x


def _adaptive_max(n: int, o: dict[str, Any], t: dict[str, Array], x: Array) -> Array:
    return _on_parts(lambda part: _adaptive(n, o, part, np.max), x)


def _normal_share(x: Array) -> Array:
    return 0.5 + 0.5 * np.vectorize(math.erf, otypes=[np.float32])(x / math.sqrt(2))


def _gelu(x: Array, o: dict[str, Any], t: dict[str, Array]) -> Array:
    if o["approximate"] == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return x * _normal_share(x)


def _sigmoid(x: Array) -> Array:
    return np.exp(-np.logaddexp(0, -x))


def _softplus(x: Array, o: dict[str, Any], t: dict[str, Array]) -> Array:
    return np.where(x * o["beta"] > o["threshold"], x, np.logaddexp(0, x * o["beta"]) / o["beta"])


ACTIVATIONS: dict[str, Any] = {
    "ReLU": lambda x, o, t: np.maximum(x, 0),
    "ReLU6": lambda x, o, t: np.clip(x, 0, 6),
    "LeakyReLU": lambda x, o, t: np.where(x > 0, x, np.float32(o["negative_slope"]) * x),
    "PReLU": lambda x, o, t: np.where(x > 0, x, _spread(t["weight"], x) * x),
    "ELU": lambda x, o, t: np.where(x > 0, x, np.float32(o["alpha"]) * np.expm1(np.minimum(x, 0))),
    "GELU": _gelu,
    "SiLU": lambda x, o, t: x * _sigmoid(x),
    "Softplus": _softplus,
    "Hardtanh": lambda x, o, t: np.clip(x, o["min_val"], o["max_val"]),
    "Tanh": lambda x, o, t: np.tanh(x),
    "Sigmoid": lambda x, o, t: _sigmoid(x),
}
_WINDOWED: dict[str, Any] = {
    "Conv": _convolution,
    "ConvTranspose": _transposed,
    "BatchNorm": _batch_norm,
    "MaxPool": _max_pool,
    "AvgPool": _avg_pool,
    "ModMaxPool": _modulus_pool,
    "AdaptiveMaxPool": _adaptive_max,
    "AdaptiveAvgPool": lambda n, o, t, x: _adaptive(n, o, x, np.mean),
}
_LAYERS: dict[str, Any] = {
    "Linear": _linear,
    "Bilinear": _bilinear,
    "Affine": lambda o, t, x: _mapped(x, t["weight"], t["bias"]),
    "ModReLU": _mod_relu,
    "Cardioid": _cardioid,
    "ZReLU": lambda o, t, x: np.where((x.real >= 0) & (x.imag >= 0), x, 0),
    "Split": _split,
    "Flatten": _flatten,
    "Softmax": lambda o, t, x: _softmax(x, o, log=False),
    "LogSoftmax": lambda o, t, x: _softmax(x, o, log=True),
    "ToComplex": lambda o, t, x: x.astype(np.complex64),
    "Real": lambda o, t, x: x.real,
    "real": lambda o, t, x: x.real,
    "Concatenate": lambda o, t, x: np.concatenate([x.real, x.imag], o["dim"]),
    "Separate": lambda o, t, x: _paired(*np.split(x, 2, o["dim"])),
    "abs": lambda o, t, x: np.abs(x),
    "add": _binary(np.add),
    "sub": _binary(np.subtract),
    "mul": _binary(np.multiply),
    "div": _binary(np.divide),
    "cat": lambda o, t, *x: np.concatenate(x, o["dim"]),
    "mean": lambda o, t, x: x.mean(tuple(o["dim"]), keepdims=o["keepdim"]),
    "reshape": lambda o, t, x: x.reshape(len(x), *o["shape"]),
    "transpose": lambda o, t, x: np.swapaxes(x, o["dim0"], o["dim1"]),
    "permute": lambda o, t, x: np.transpose(x, o["dims"]),
    "squeeze": lambda o, t, x: x if x.shape[o["dim"]] > 1 else x.squeeze(o["dim"]),
    "unsqueeze": lambda o, t, x: np.expand_dims(x, o["dim"]),
}


def network() -> Model:
    """The network inside an exported file."""
    return Model(*read(base64.b64decode(EMBEDDED)))


def main(arguments: list[str]) -> int:
    """Run a packed network on an .npy file."""
    if len(arguments) != (2 if EMBEDDED else 3):
        print(f"usage: {Path(__file__).name} {'' if EMBEDDED else 'net.argand '}input.npy output.npy", file=sys.stderr)
        return 2
    try:
        model = network() if EMBEDDED else load(arguments[0])
        np.save(arguments[-1], model(np.load(arguments[-2], allow_pickle=False)))
    except (OSError, ValueError) as error:
        print(f"{arguments[0]}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
