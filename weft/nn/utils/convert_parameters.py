"""All parameters of a model as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

import weft

from ...errors import ArgumentError
from ...tensor import Tensor

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """The elements of all parameters, one after the other; gradients flow through.

    Shape: tensors with n₁, n₂, … elements → (n₁ + n₂ + …,)
    """
    return weft.cat([parameter.reshape(-1) for parameter in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Make each parameter a window on the vector: what `parameters_to_vector` joined is taken apart again."""
    if not isinstance(vec, Tensor):
        raise ArgumentError(f"expected weft.Tensor, but got: {type(vec).__name__}")
    offset = 0
    for parameter in parameters:
        parameter.data = vec[offset : offset + parameter.numel()].view_as(parameter).data
        offset += parameter.numel()
