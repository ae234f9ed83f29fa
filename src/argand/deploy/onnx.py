"""A network as an ONNX file, through its real core: ONNX has no complex arithmetic."""

import importlib
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from argand.deploy.onnx_operations import DECOMPOSITIONS
from argand.errors import ArgandError
from argand.files import write_atomically
from argand.graph import trace, values_of
from argand.twin import Frozen, freeze
from argand.twin.frozen import named_parts, real_parts

TOLERANCE = 1e-4  # of ONNX Runtime against PyTorch, relative to the largest output: a wrong operation is far beyond


@dataclass(frozen=True)
class OnnxFile:
    """What was written: names of the real inputs and outputs, size, and the largest relative error of the check."""

    path: Path
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    bytes: int
    error: float
    dynamic: bool  # whether the batch may have any size

    def __str__(self) -> str:
        batch = "any batch size" if self.dynamic else "the example's batch size"
        return (
            f"{self.path}: {', '.join(self.inputs)} -> {', '.join(self.outputs)}, {batch}, {self.bytes} bytes; "
            f"ONNX Runtime differs from PyTorch by {self.error:.1e}"
        )


def export_onnx(
    net: nn.Module, example: Tensor | tuple[Tensor, ...], path: str | Path, *, opset: int | None = None
) -> OnnxFile:
    """Write a network in evaluation as ONNX, and check it in ONNX Runtime against PyTorch on the example.

    ONNX has no complex arithmetic: a complex input X is the two real inputs X_re and X_im, a complex output likewise
    output_re and output_im (output_0, output_1, ... if there are several); the model's documentation says so too.
    Names of inputs are those of the network's graph. The first axis is the batch, of any size.

    ONNX Runtime multiplies zeros like other numbers: a pruned network gets no faster and no smaller by them, but a
    compact one does. A variational network is refused: collapse it first.

    >>> net = nn.Sequential(argand.nn.Linear(3, 2), argand.nn.Real())
    >>> x, folder = torch.zeros(1, 3, dtype=torch.complex64), getfixture("tmp_path")
    >>> argand.deploy.onnx.export_onnx(net, x, folder / "net.onnx").inputs
    ('input_1_re', 'input_1_im')
    """
    _require()
    examples = example if isinstance(example, tuple) else (example,)
    core = freeze(net, examples).cpu()
    examples = tuple(x.detach().cpu() for x in examples)
    program, dynamic = _program(net, core, examples, opset)
    content = _content(program, core)
    error = max(_error(core, content, given) for given in ([examples, _doubled(examples)] if dynamic else [examples]))
    if not error <= TOLERANCE:
        raise ArgandError(
            f"ONNX Runtime's outputs differ from PyTorch's by {error:.1e} of the largest; at most {TOLERANCE:.0e} is "
            "accepted. Nothing was written. Another opset= may help."
        )
    write_atomically(path, content)
    names = tuple(named_parts(core.inputs)), tuple(named_parts(core.outputs))
    return OnnxFile(Path(path), *names, len(content), error, dynamic)


def _require() -> None:
    for name in ("onnx", "onnxscript", "onnxruntime"):
        try:
            importlib.import_module(name)
        except ImportError:
            raise ArgandError(f"Exporting to ONNX needs {name}: pip install argand[onnx].") from None


def _doubled(examples: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(torch.cat([x, x]) for x in examples)


def _program(net: nn.Module, core: Frozen, examples: tuple[Tensor, ...], opset: int | None) -> tuple[Any, bool]:
    """The exported program, and whether its batch axis is free."""
    sizes = {x.shape[0] if x.dim() else 0 for x in examples}
    if len(sizes) == 1 and sizes != {0}:
        try:
            return _exported(core, _doubled(examples), opset, dynamic=True), True  # a batch of one would be a constant
        except Exception:  # torch raises many kinds
            pass
    try:
        return _exported(core, examples, opset, dynamic=False), False
    except Exception as error:
        raise ArgandError(f"{_culprit(net, examples, opset)} can't be exported to ONNX: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    """The first line of the first cause, as a sentence."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0].rstrip(".") + "."


def _exported(core: Frozen, examples: tuple[Tensor, ...], opset: int | None, dynamic: bool) -> Any:
    """torch's ONNX program of the core."""
    inputs = real_parts(examples)
    axis = {0: torch.export.Dim("batch")} if dynamic else None
    with _quiet(), torch.no_grad():
        exported = torch.export.export(core, inputs, dynamic_shapes=((axis,) * len(inputs),))
        return torch.onnx.export(
            exported.run_decompositions(DECOMPOSITIONS),
            dynamo=True,
            input_names=named_parts(core.inputs),
            output_names=named_parts(core.outputs),
            opset_version=opset,
            verbose=False,
        )


def _culprit(net: nn.Module, examples: tuple[Tensor, ...], opset: int | None) -> str:
    """The first layer that can't be exported alone, in words."""
    graph = trace(net, opaque=True)
    values = values_of(graph, examples)
    for step in graph.steps:
        if step.layer is not None:
            inputs = tuple(values[name] for name in step.inputs)
            try:
                _exported(freeze(step.layer, inputs), inputs, opset, dynamic=False)
            except Exception:
                return f"Layer {step.at}"
    return "The network"


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what torch's exporter says about itself."""
    logger = logging.getLogger("torch.onnx._internal.exporter._registration")
    level = logger.level
    logger.setLevel(logging.ERROR)  # that torchvision is not installed
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r".*LeafSpec", FutureWarning)
            yield
    finally:
        logger.setLevel(level)


def _content(program: Any, core: Frozen) -> bytes:
    """The file, with documentation of its inputs and outputs."""
    import onnx

    model = program.model_proto
    for part in (model.graph, *model.graph.node, *model.graph.value_info, *model.graph.input, *model.graph.output):
        del part.metadata_props[:]  # the exporter's notes: sources and their paths
    pairs = [name for name, is_complex in (core.inputs | core.outputs).items() if is_complex]
    told = f" Complex tensors are pairs of real ones, X_re and X_im: {', '.join(pairs)}." if pairs else ""
    model.doc_string = f"Written by argand.{told}"
    fields = {name: "complex" if is_complex else "real" for name, is_complex in (core.inputs | core.outputs).items()}
    onnx.helper.set_model_props(model, {f"argand.field.{name}": field for name, field in fields.items()})
    try:
        content: bytes = model.SerializeToString()
        onnx.checker.check_model(content)
    except ValueError as error:  # protobuf's limit
        raise ArgandError(f"The network is too large for one ONNX file: {error}") from None
    return content


def _error(core: Frozen, content: bytes, examples: tuple[Tensor, ...]) -> float:
    """The largest difference between ONNX Runtime's and PyTorch's outputs, relative to the largest output."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors
    try:
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's own, without a common base
        raise ArgandError(f"ONNX Runtime can't run the exported network: {_reason(error)}") from error
    inputs = real_parts(examples)
    given = {name: x.contiguous().numpy() for name, x in zip(named_parts(core.inputs), inputs, strict=True)}
    worst = 0.0
    for ours, theirs in zip(core(*inputs), session.run(None, given), strict=True):
        largest = ours.abs().max().item() if ours.numel() else 0.0
        difference = (torch.from_numpy(theirs) - ours).abs().max().item() if ours.numel() else 0.0
        worst = max(worst, difference / largest if largest else difference)
    return worst
