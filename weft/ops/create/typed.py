"""PyTorch's old names: `weft.FloatTensor([1, 2])`, `isinstance(x, weft.LongTensor)`, `Variable(x)`."""

from __future__ import annotations

from typing import Any

from ... import dtypes
from ...tensor import Tensor
from .create import legacy_tensor

__all__ = ["TYPED", "TypedTensor", "Variable"]


class TypedTensor(type):
    """A name for the tensors of one element type: calling it makes one, `isinstance` asks for the type."""

    kind: dtypes.dtype

    def __call__(cls, *args: Any, **kwargs: Any) -> Tensor:
        """Sizes (uninitialised) or data, as `weft.Tensor` takes them; prefer `weft.tensor(data, dtype=...)`."""
        return legacy_tensor(*args, dtype=cls.kind, **kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and instance.dtype is cls.kind

    def __repr__(cls) -> str:
        return f"<class 'weft.{cls.__name__}'>"


def _named() -> dict[str, TypedTensor]:
    """`{'FloatTensor': ..., 'LongTensor': ...}`, spelled as PyTorch does."""
    words = {d: dtypes.ALIASES.get(d.name, d.name).title() for d in dtypes.ALL if not d.is_complex}
    words[dtypes.bfloat16] = "BFloat16"
    words = {d: word for d, word in words.items() if d.name not in ("uint16", "uint32", "uint64")}
    return {f"{word}Tensor": TypedTensor(f"{word}Tensor", (), {"kind": d}) for d, word in words.items()}


TYPED = _named()


def Variable(data: Tensor, requires_grad: bool = False) -> Tensor:
    """The same memory as a new leaf: what scripts from before PyTorch 0.4 wrap their tensors in."""
    return data.detach().requires_grad_(requires_grad)
