"""`torch.onnx`: `export` under PyTorch's arguments."""

from __future__ import annotations

from typing import Any

from ... import onnx

__all__ = ["export"]


def export(model: Any, args: Any = (), f: Any = None, **options: Any) -> Any:
    """`weft.onnx.export(model, args, f)`; options that concern PyTorch's own graphs are left out."""
    kept = ("input_names", "output_names", "opset_version", "dynamic_shapes", "dynamic_axes", "verify", "kwargs")
    return onnx.export(model, args, f, **{name: value for name, value in options.items() if name in kept and value})
