"""What the functions of this package share: reductions of losses, in-place writes, float32 inside.

Not part of the public interface.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ...dtypes import LOW_PRECISION, dtype, result_dtype
from ...errors import ArgumentError, DtypeError, InvalidValueError
from ...ops.core.primitive import PRIMITIVES, update
from ...ops.core.together import together
from ...refusal import reword
from ...tape.interpreter import interpreter_of
from ...tensor import Tensor

__all__ = [
    "any_true",
    "chosen_reduction",
    "common_type",
    "log1pexp",
    "pointwise",
    "reduced",
    "require_float",
    "require_tensor",
    "value_range",
    "widened",
]


def require_tensor(value: Any, name: str, argument: str = "input") -> None:
    """Refuse anything but a tensor."""
    if not isinstance(value, Tensor):
        raise ArgumentError(
            f"{name}: argument '{argument}' must be a Tensor, not {type(value).__name__}; wrap it in weft.tensor"
        )


def require_float(x: Tensor, name: str, complex_too: bool = False) -> None:
    """Refuse integer, bool and (unless allowed) complex tensors."""
    kind = x.dtype
    if not (kind.is_floating_point or (complex_too and kind.is_complex)):
        raise DtypeError(
            f'{name}: "{name}" not implemented for {kind}; convert the input first, for example with .float()'
        )


def pointwise(
    name: str,
    input: Tensor,
    inplace: bool,
    body: Callable[[Tensor], Tensor],
    complex_too: bool = False,
    keep: Callable[..., Tensor] = together,
) -> Tensor:
    """body(input) for floating-point tensors: written into `input` if asked, float16 and bfloat16 by way of float32.

    `keep`: `together`, or `with_slope` where the slope is less to keep for the gradient than what it is made of.
    """
    try:
        require_tensor(input, name)
        require_float(input, name, complex_too)
        if inplace:
            return update(input, lambda x: pointwise(name, x, False, body, complex_too, keep), (), {}, name + "_")
        kind = input.dtype
        return body(input.float()).to(kind) if kind in LOW_PRECISION else keep(body, input)
    except Exception as error:
        reword(error, name, (input,), {"inplace": inplace})
        raise


def widened(*tensors: Tensor | None) -> tuple[Tensor | None, ...]:
    """float16 and bfloat16 tensors as float32, everything else as it is."""
    return tuple(x.float() if x is not None and x.dtype in LOW_PRECISION else x for x in tensors)


def value_range(x: Tensor) -> tuple[float, float]:
    """The smallest and the largest element of a plain tensor, as numbers."""
    return x.array.min().item(), x.array.max().item()


def any_true(condition: Tensor) -> bool:
    """Whether a check fires; inside a transform (vmap, compile), where values are not known, it does not."""
    return interpreter_of(condition) is None and bool(condition.any())


def chosen_reduction(name: str, reduction: str, size_average: bool | None = None, reduce: bool | None = None) -> str:
    """The reduction asked for, by its name or by PyTorch's two old flags."""
    if size_average is not None or reduce is not None:
        reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
        warnings.warn(
            f"{name}: size_average and reduce args will be deprecated, please use reduction='{reduction}' instead",
            stacklevel=3,
        )
    if reduction not in ("none", "mean", "sum"):
        raise InvalidValueError(
            f"{name}: {reduction} is not a valid value for reduction; choose 'none', 'mean' or 'sum'"
        )
    return reduction


def reduced(loss: Tensor, reduction: str) -> Tensor:
    """The loss itself ('none'), its mean or its sum."""
    if reduction == "mean":
        return loss.mean()
    return loss.sum() if reduction == "sum" else loss


def common_type(input: Tensor, target: Tensor) -> dtype:
    """The type that two tensors promote to."""
    return input.dtype if input.dtype is target.dtype else result_dtype((input, target))


def log1pexp(x: Tensor) -> Tensor:
    """log(1 + eˣ) without overflow."""
    return PRIMITIVES["Logaddexp"].fast(x, 0.0)
