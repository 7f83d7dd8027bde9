"""Backpropagation through time written out, and whether its gradients must vanish or can explode.

A recurrent network is a deep one whose layers share their weights: the δ-recursion runs from the last time to the first,
and every time adds its share to the gradient of the one W.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..errors import ShapeError
from ..ops.core.batching import largest, magnitude, spectrum, stacked, summed_front
from ..tensor import Tensor
from .backprop import last_delta, slope_of

__all__ = ["RNNGradients", "SpectralCriterion", "backprop_rnn", "hidden_jacobian", "spectral_criterion"]


class RNNGradients(NamedTuple):
    """What `backprop_rnn` found. Times are the first dimension; gradients are summed over the batch.

    `hidden` are h₁ … h_τ, `slopes` σ′(z_t), `deltas` δ_t = ∂L/∂z_t, all (T, B, H).
    """

    outputs: Tensor
    hidden: Tensor
    slopes: Tensor
    deltas: Tensor
    input_weight: Tensor
    recurrent_weight: Tensor
    output_weight: Tensor
    hidden_bias: Tensor
    output_bias: Tensor
    initial: Tensor


def backprop_rnn(
    x: Tensor,
    y: Tensor,
    input_weight: Tensor,
    recurrent_weight: Tensor,
    output_weight: Tensor,
    hidden_bias: Tensor,
    output_bias: Tensor,
    activation: Callable[[Tensor], Tensor],
    slope: Callable[[Tensor], Tensor] | None = None,
    link: Callable[[Tensor], Tensor] | None = None,
    error: Callable[[Tensor, Tensor], Tensor] | None = None,
    times: Sequence[int] | None = None,
    initial: Tensor | None = None,
) -> RNNGradients:
    """Gradients of L = 1/|T| Σ_{t∈T} L_t for z_t = W h_{t−1} + U x_t + b_h, h_t = σ(z_t), ŷ_t = g(V h_t + b_y).

    Backwards from the last time, with ε_t = ∂L/∂(V h_t + b_y), which is (ŷ_t − y_t) / |T| for canonical pairs of g and
    L_t, and 0 for t outside of T:

        δ_t = σ′(z_t) ⊙ (Vᵀ ε_t + Wᵀ δ_{t+1})
        ∂L/∂W = Σ_t δ_t h_{t−1}ᵀ,   ∂L/∂U = Σ_t δ_t x_tᵀ,   ∂L/∂V = Σ_t ε_t h_tᵀ,   ∂L/∂h₀ = Wᵀ δ_1

    which is ∂L_t/∂W = ∂L_t/∂ŷ_t ∂ŷ_t/∂h_t Σ_{k≤t} (∂h_t/∂h_k) ∂h_k/∂W, all products in one sweep. `times` is T, the
    numbers (from 0) of the times that have a loss: all if left away, (τ − 1,) for a single output at the end, more
    for intermediate losses. `activation`, `slope`, `link` and `error` are as in `backprop_mlp`.
    Shape: x (T, B, D), y (T, B, O), U (H, D), W (H, H), V (O, H), h₀ (B, H).
    """
    _check_sizes(x, y, input_weight, recurrent_weight, output_weight)
    length = x.shape[0]
    chosen = range(length) if times is None else [_checked_time(t, length) for t in times]
    start = x.new_zeros((x.shape[1], recurrent_weight.shape[0])) if initial is None else initial
    sums, states = [], [start]
    for row in x:
        sums.append(states[-1] @ recurrent_weight.mT + row @ input_weight.mT + hidden_bias)
        states.append(activation(sums[-1]))
    reached = [h @ output_weight.mT + output_bias for h in states[1:]]
    outputs = [r if link is None else link(r) for r in reached]
    errors = []
    for t, (r, output) in enumerate(zip(reached, outputs, strict=True)):
        found = output - y[t] if error is None else last_delta(r, y[t], link, error)
        errors.append(found * ((t in chosen) / len(chosen)))
    slopes = [slope(z) if slope is not None else slope_of(activation, z) for z in sums]
    deltas, after = [], start * 0
    for t in reversed(range(length)):
        after = slopes[t] * (errors[t] @ output_weight + after @ recurrent_weight)  # rows are examples: (Vᵀε)ᵀ = εᵀV
        deltas.insert(0, after)
    return RNNGradients(
        outputs=stacked(outputs),
        hidden=stacked(states[1:]),
        slopes=stacked(slopes),
        deltas=stacked(deltas),
        input_weight=_outer(deltas, x),
        recurrent_weight=_outer(deltas, states[:-1]),
        output_weight=_outer(errors, states[1:]),
        hidden_bias=sum(summed_front(d) for d in deltas),
        output_bias=sum(summed_front(e) for e in errors),
        initial=after @ recurrent_weight,
    )


def hidden_jacobian(slopes: Tensor, recurrent_weight: Tensor, later: int, earlier: int) -> Tensor:
    """∂h_t/∂h_k = Π_{k<i≤t} diag σ′(z_i) W for the times t ≥ k (numbers from 0): (T, B, H), (H, H) → (B, H, H).

    `slopes` are those of `backprop_rnn`. The product is taken with the latest time on the left.
    """
    length = slopes.shape[0]
    later, earlier = _checked_time(later, length), _checked_time(earlier, length)
    if later < earlier:
        raise ShapeError(f"hidden_jacobian: time {later} does not depend on the later time {earlier}; exchange them")
    found = slopes[0].diag_embed() * 0 + recurrent_weight.new_ones(recurrent_weight.shape[0]).diag_embed()
    for i in range(earlier + 1, later + 1):
        found = slopes[i].unsqueeze(-1) * (recurrent_weight @ found)
    return found


@dataclass(frozen=True)
class SpectralCriterion:
    """What the spectrum of W says about gradients through time.

    `radius` is ρ(W) = max |λ|, `norm` ‖W‖₂, `slope` the largest slope γ of the activation.
    """

    radius: float
    norm: float
    slope: float

    @property
    def verdict(self) -> str:
        """'vanishes': γ‖W‖₂ < 1, gradients shrink exponentially whatever the input. 'can explode': γ ρ(W) > 1, where units
        are at their steepest they grow exponentially. 'undecided': neither is proved."""
        if self.slope * self.norm < 1:
            return "vanishes"
        return "can explode" if self.slope * self.radius > 1 else "undecided"

    def bound(self, lag: int) -> float:
        """‖∂h_t/∂h_{t−lag}‖₂ ≤ (γ‖W‖₂)^lag."""
        return (self.slope * self.norm) ** lag


def spectral_criterion(recurrent_weight: Tensor, slope: float = 1.0) -> SpectralCriterion:
    """Whether gradients of h_t = σ(W h_{t−1} + …) must vanish or can explode, from the spectrum of W.

    ∂h_t/∂h_k is a product of t − k matrices diag σ′ W, each of norm ≤ γ‖W‖₂, where γ = max σ′ (`slope`: 1 for tanh, the
    rectifier and the identity, ¼ for the sigmoid). If γ‖W‖₂ < 1 it tends to 0. With all σ′ = γ it is (γW)^(t−k),
    whose norm to the power of 1/(t − k) tends to γ ρ(W) (Gelfand), so it grows if γ ρ(W) > 1. Between the two, ρ
    small and ‖W‖₂ large, it may grow at first and shrink later.

    >>> import weft
    >>> spectral_criterion(0.5 * weft.eye(3)).verdict
    'vanishes'
    """
    if recurrent_weight.ndim != 2 or recurrent_weight.shape[0] != recurrent_weight.shape[1]:
        raise ShapeError(f"spectral_criterion: W must be square, it has shape {tuple(recurrent_weight.shape)}")
    if not recurrent_weight.shape[0]:
        raise ShapeError("spectral_criterion: W is empty; it must have at least one row")
    eigenvalues, singular = spectrum(recurrent_weight.detach())
    return SpectralCriterion(largest(magnitude(eigenvalues)), largest(singular), float(slope))


def _outer(left: Sequence[Tensor], right: Sequence[Tensor] | Tensor) -> Tensor:
    """Σ_t a_t b_tᵀ over times and examples: (B, N) and (B, M) each → (N, M)."""
    return sum(a.mT @ b for a, b in zip(left, right, strict=True))


def _checked_time(t: int, length: int) -> int:
    if not -length <= t < length:
        raise ShapeError(f"time {t} is outside of the sequence, which has {length} times")
    return t % length


def _check_sizes(x: Tensor, y: Tensor, u: Tensor, w: Tensor, v: Tensor) -> None:
    width = w.shape[0]
    wanted = {"input_weight": (width, x.shape[-1]), "recurrent_weight": (width, width)}
    wanted["output_weight"] = (v.shape[0], width)
    for (name, size), given in zip(wanted.items(), (u, w, v), strict=True):
        if tuple(given.shape) != size:
            raise ShapeError(f"backprop_rnn: {name} has shape {tuple(given.shape)}, expected {size}")
    if x.ndim != 3 or not x.shape[0] or tuple(y.shape) != (*x.shape[:2], v.shape[0]):
        raise ShapeError(
            f"backprop_rnn: expected x (T, B, D) with T ≥ 1 and y (T, B, {v.shape[0]}), got {tuple(x.shape)} and "
            f"{tuple(y.shape)}"
        )
