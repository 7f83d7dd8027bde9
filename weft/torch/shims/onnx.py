"""`torch.onnx`: `export` under PyTorch's arguments."""

from __future__ import annotations

import enum
from typing import Any

from ... import onnx
from .. import wanting
from ..dims import Dim

__all__ = ["ONNXProgram", "OperatorExportTypes", "TrainingMode", "export", "is_in_onnx_export"]

OLDEST = 17
KEPT = (
    "input_names",
    "output_names",
    "opset_version",
    "dynamic_shapes",
    "dynamic_axes",
    "verify",
    "kwargs",
    "external_data",
)


class ONNXProgram:
    """What `export` made: the bytes of a file, which can be written, and run."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def save(self, destination: Any, **options: Any) -> None:
        """Write the file."""
        with open(destination, "wb") as file:
            file.write(self.content)

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        """The outputs, computed by Weft."""
        found = onnx.load(self.content)(*args)
        return tuple(found) if isinstance(found, (tuple, list)) else (found,)


def export(model: Any, args: Any = (), f: Any = None, **options: Any) -> ONNXProgram:
    """`weft.onnx.export(model, args, f)`; options that concern PyTorch's own graphs are left out."""
    given = {name: value for name, value in options.items() if name in KEPT and value}
    asked = given.get("opset_version") or OLDEST
    if asked < OLDEST:
        wanting.remark(
            "torch.onnx.export", f"opset {asked} was asked for; the file has {OLDEST}, the oldest that Weft writes"
        )
        given["opset_version"] = OLDEST
    if "dynamic_shapes" in given:
        given["dynamic_shapes"] = _named(given["dynamic_shapes"], "")
    if hasattr(f, "write"):
        program = ONNXProgram(onnx.export(model, args, None, **given))
        f.write(program.content)
        return program
    return ONNXProgram(onnx.export(model, args, f, **given))


def _named(shapes: Any, name: str) -> Any:
    """The same tree with a name for every size that has none (`Dim.AUTO`), by its place."""
    if isinstance(shapes, dict):
        entries = ((key, _named(value, f"{name}_{key}")) for key, value in shapes.items())
        return {key: value for key, value in entries if value is not None}
    if isinstance(shapes, (tuple, list)):
        return type(shapes)(_named(value, f"{name}_{n}") for n, value in enumerate(shapes))
    return f"dim{name}" if shapes is Dim.AUTO else shapes


class TrainingMode(enum.Enum):
    """PyTorch's words for the mode of an export; a model is exported as it would run."""

    EVAL, PRESERVE, TRAINING = 0, 1, 2


class OperatorExportTypes(enum.Enum):
    """PyTorch's words for what becomes of operations without a counterpart; in Weft that is an error."""

    ONNX, ONNX_ATEN, ONNX_ATEN_FALLBACK, ONNX_FALLTHROUGH = range(4)


def is_in_onnx_export() -> bool:
    """False: programs take their usual way while they are exported."""
    return False


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Any, opset_version: int, **options: Any) -> None:
    """Remembered by nobody: graphs come from traces of what Weft computes."""


unregister_custom_op_symbolic = register_custom_op_symbolic
