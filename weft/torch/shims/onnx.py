"""`torch.onnx`: `export` under PyTorch's arguments."""

from __future__ import annotations

import enum
from typing import Any

from ... import onnx

__all__ = ["OperatorExportTypes", "TrainingMode", "export", "is_in_onnx_export"]


def export(model: Any, args: Any = (), f: Any = None, **options: Any) -> Any:
    """`weft.onnx.export(model, args, f)`; options that concern PyTorch's own graphs are left out."""
    kept = ("input_names", "output_names", "opset_version", "dynamic_shapes", "dynamic_axes", "verify", "kwargs")
    return onnx.export(model, args, f, **{name: value for name, value in options.items() if name in kept and value})


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
