"""`torch.export`: the names of sizes, which `torch.onnx.export` takes; graphs that Python edits are not made."""

from __future__ import annotations

from typing import Any

from ..errors import UnsupportedError

__all__ = ["Dim", "export"]


class Dim(str):
    """A size that may differ from call to call, by its name: `dynamic_shapes={"x": {0: Dim("batch")}}`."""

    AUTO = DYNAMIC = True  # sizes without a name
    STATIC = None

    def __new__(cls, name: str, *, min: int | None = None, max: int | None = None) -> Dim:
        made = super().__new__(cls, name)
        made.min, made.max = min, max
        return made

    min: int | None
    max: int | None


def export(*args: Any, **options: Any) -> Any:
    """Refused."""
    raise UnsupportedError(
        "torch.export: models are not taken apart into graphs that Python edits; weft.onnx.export writes a graph into a "
        "file, weft.compile makes machine code"
    )
