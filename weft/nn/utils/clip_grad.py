"""Keeping gradients within bounds: by their common norm, or each element by value."""

from __future__ import annotations

import math
import types
import warnings
from collections.abc import Iterable
from typing import Any

import weft

from ...errors import StateError
from ...tape.modes import no_grad
from ...tensor import Tensor

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]


@no_grad()
def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The p-norm of the p-norms of some tensors, which is the p-norm of all their elements together.

    Shape: any number of tensors of any shape → ()
    """
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    norm_type = float(norm_type)
    if not tensors:
        return weft.tensor(0.0)
    norms = [weft.linalg.vector_norm(_elements(t), norm_type) for t in tensors]
    total = weft.linalg.vector_norm(weft.stack(_of_one_type(norms)), norm_type)
    if error_if_nonfinite and not total.isfinite():
        raise StateError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be "
            "clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    return total


def _elements(tensor: Any) -> Tensor:
    """All elements, of a sparse tensor those that are kept."""
    return tensor.coalesce().values() if tensor.is_sparse else tensor.detach()


def _of_one_type(norms: list[Tensor]) -> list[Tensor]:
    kind = norms[0].dtype
    for norm in norms:
        kind = weft.promote_types(kind, norm.dtype)
    return [norm.to(kind) for norm in norms]


@no_grad()
def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale all gradients by min(1, max_norm / (total_norm + 10⁻⁶)), in place."""
    factor = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
    for gradient in _gradients(parameters):
        gradient.mul_(factor)


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients together so that their p-norm is at most `max_norm`; returns the norm before.

    g ← g · min(1, max_norm / (‖g‖ + 10⁻⁶))
    """
    if isinstance(parameters, types.GeneratorType):
        parameters = list(parameters)
        if not parameters:
            warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=2)
    parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    total = _over_ranks(get_total_norm(_gradients(parameters), norm_type, error_if_nonfinite), parameters, norm_type)
    clip_grads_with_norm_(parameters, max_norm, total)
    return total


@no_grad()
def _over_ranks(norm: Tensor, parameters: Iterable[Tensor], norm_type: float) -> Tensor:
    """The norm of gradients that are cut over ranks (nn.parallel.fully_shard), from that of this rank's part."""
    ranks = next((p._ranks for p in parameters if getattr(p, "_ranks", None) is not None), None)
    if ranks is None:
        return norm
    from ...ops.collective.exchange import exchanged

    if math.isinf(norm_type):
        return exchanged(norm, "all_reduce", ranks, "max" if norm_type > 0 else "min")
    return exchanged(norm**norm_type, "all_reduce", ranks, "sum") ** (1 / norm_type)


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The old name of `clip_grad_norm_`."""
    warnings.warn("`clip_grad_norm` is deprecated in favor of `clip_grad_norm_`.", FutureWarning, stacklevel=2)
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite)


@no_grad()
def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Hold every element of every gradient within [−clip_value, clip_value], in place."""
    bound = float(clip_value)
    for gradient in _gradients(parameters):
        gradient.clamp_(-bound, bound)


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    parameters = [parameters] if isinstance(parameters, Tensor) else parameters
    return [parameter.grad for parameter in parameters if parameter.grad is not None]
