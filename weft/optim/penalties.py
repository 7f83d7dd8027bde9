"""Regularisation outside the optimiser: L1 and L2 with a strength for each layer, max-norm, Fiedler (N1 §2.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Any

import weft

from ..errors import InvalidValueError, OptionError, ShapeError
from ..nn.module import Module
from ..tape.modes import no_grad
from ..tensor import Tensor

__all__ = ["fiedler_penalty", "fiedler_value", "l1_penalty", "l2_penalty", "max_norm_", "network_laplacian"]

Strength = float | Sequence[float] | Mapping[str, float]


def l1_penalty(parameters: Module | Iterable[Any], strength: Strength = 1.0) -> Tensor:
    """Σ λ_i ‖θ_i‖₁: many weights become exactly 0 (N1 §2.2).

    `parameters` is a module, or tensors, or (name, tensor) pairs. `strength` is one λ, or one for each parameter, or a
    mapping from patterns of names to λ: {'encoder.*': 1e-4, '*.weight': 1e-5}; the first pattern that fits counts,
    names that fit none are left alone. A pattern that fits no name is an error: it would penalise nothing.
    """
    return _penalty(parameters, strength, lambda x: x.abs().sum())


def l2_penalty(parameters: Module | Iterable[Any], strength: Strength = 1.0) -> Tensor:
    """Σ λ_i ‖θ_i‖² / 2, whose gradient is that of weight decay λ_i (N1 §2.2); arguments as in `l1_penalty`."""
    return _penalty(
        parameters, strength, lambda x: (x * x.conj()).real.sum() / 2 if x.is_complex() else (x * x).sum() / 2
    )


def _penalty(parameters: Module | Iterable[Any], strength: Strength, norm: Callable[[Tensor], Tensor]) -> Tensor:
    pairs = list(parameters.named_parameters() if isinstance(parameters, Module) else parameters)
    names = [pair[0] if isinstance(pair, tuple) else "" for pair in pairs]
    tensors = [pair[1] if isinstance(pair, tuple) else pair for pair in pairs]
    strengths = _strengths(strength, names)
    terms = [norm(x) * s for x, s in zip(tensors, strengths, strict=True) if s]
    return sum(terms[1:], terms[0]) if terms else weft.tensor(0.0)


def _strengths(strength: Strength, names: list[str]) -> list[float]:
    if isinstance(strength, Mapping):
        unused = [pattern for pattern in strength if not any(fnmatchcase(name, pattern) for name in names)]
        if unused:
            raise OptionError(
                f"penalty: the pattern {unused[0]!r} fits no parameter; their names are {', '.join(names[:8]) or 'none'}"
                f"{' …' if len(names) > 8 else ''}; give a module or (name, tensor) pairs"
            )
        return [next((s for pattern, s in strength.items() if fnmatchcase(name, pattern)), 0.0) for name in names]
    if isinstance(strength, Sequence):
        if len(strength) != len(names):
            raise InvalidValueError(f"penalty: {len(names)} parameters, but {len(strength)} strengths")
        return list(strength)
    return [strength] * len(names)


@no_grad()
def max_norm_(parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0, dim: int = 0) -> None:
    """Scale the weights into each unit back to a norm of at most c, in place, after a step of the optimiser.

    W_i ← W_i · min(1, c / ‖W_i‖), where i runs over `dim` (0: the outputs of Linear and Conv)
    """
    for parameter in [parameters] if isinstance(parameters, Tensor) else parameters:
        others = [d for d in range(parameter.ndim) if d != dim % parameter.ndim]
        norms = weft.linalg.vector_norm(parameter, norm_type, dim=others, keepdim=True) if others else parameter.abs()
        tiny = weft.finfo(parameter.dtype).tiny
        parameter.mul_((max_norm / norms.clamp(min=tiny)).clamp(max=1.0))


def network_laplacian(weights: Sequence[Tensor]) -> Tensor:
    """L = D − A of the graph of a layered network: units are nodes, |w| the weights of the edges (N1 §2.2).

    Shape: matrices (n₁, n₀), (n₂, n₁), … → (N, N) with N = n₀ + n₁ + …
    """
    sizes = [weights[0].shape[1], *(w.shape[0] for w in weights)]
    for below, above in pairwise(weights):
        if above.shape[1] != below.shape[0]:
            raise ShapeError(
                f"network_laplacian: layers do not chain: a weight of shape {tuple(below.shape)} is followed by "
                f"{tuple(above.shape)}; expected ({above.shape[0]}, {below.shape[0]})"
            )
    rows = []
    for layer, size in enumerate(sizes):
        row = [weft.zeros(size, other, dtype=weights[0].dtype) for other in sizes]
        if layer > 0:
            row[layer - 1] = weights[layer - 1].abs()  # (n_l, n_{l−1})
        if layer < len(weights):
            row[layer + 1] = weights[layer].abs().mT  # (n_l, n_{l+1})
        rows.append(weft.cat(row, dim=1))
    adjacency = weft.cat(rows, dim=0)  # (N, N)
    return weft.diag(adjacency.sum(dim=1)) - adjacency


def fiedler_value(weights: Sequence[Tensor]) -> Tensor:
    """λ₂, the second smallest eigenvalue of the Laplacian: how well connected the network is (N1 §2.2).

    It is 0 exactly if the network falls into separate parts. Where λ₂ is simple its gradient is
    ∂λ₂/∂|w_ij| = (q_i − q_j)², with q the Fiedler vector (N2: eigenvector of λ₂).
    Shape: matrices (n₁, n₀), (n₂, n₁), … → ()
    """
    return weft.linalg.eigvalsh(network_laplacian(weights))[1]


def fiedler_penalty(model: Module | Sequence[Tensor], strength: float = 1.0) -> Tensor:
    """δ λ₂: Fiedler regularisation, which weakens edges that hold parts of the network together (N1 §2.2; Tam and
    Dunson, 2020). `model` is a chain of linear layers, or their weight matrices from input to output."""
    weights = model
    if isinstance(model, Module):
        weights = [parameter for name, parameter in model.named_parameters() if parameter.ndim == 2]
    return fiedler_value(weights) * strength
