"""Backpropagation through a multilayer perceptron written out: the δ-recursion, without the tape.

What `loss.backward()` does for such a network, formula by formula, for reading and for checking the
tape against. Notation (superscript in brackets: the layer): z⁽ˡ⁾ = W⁽ˡ⁾a⁽ˡ⁻¹⁾ + b⁽ˡ⁾, a⁽ˡ⁾ = σ(z⁽ˡ⁾), and at the
last layer a⁽ᴸ⁾ = g(z⁽ᴸ⁾); E is the error of one example, δ⁽ˡ⁾ = ∂E/∂z⁽ˡ⁾.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..errors import ShapeError
from ..ops.core.batching import repeated, summed_front
from ..tensor import Tensor
from .transforms import grad, vjp

__all__ = ["MLPGradients", "backprop_mlp"]


class MLPGradients(NamedTuple):
    """What `backprop_mlp` found: the output a⁽ᴸ⁾, all δ⁽ˡ⁾ (B, N⁽ˡ⁾), and gradients summed over the batch."""

    output: Tensor
    deltas: list[Tensor]
    weights: list[Tensor]
    biases: list[Tensor]


def backprop_mlp(
    x: Tensor,
    y: Tensor,
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
    activation: Callable[[Tensor], Tensor],
    slope: Callable[[Tensor], Tensor] | None = None,
    link: Callable[[Tensor], Tensor] | None = None,
    error: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> MLPGradients:
    """Gradients of Σₙ Eₙ for an MLP with weights W⁽ˡ⁾ (N⁽ˡ⁾, N⁽ˡ⁻¹⁾) and biases b⁽ˡ⁾ (N⁽ˡ⁾,).

    Backwards from the last layer:

        δ⁽ᴸ⁾ = (∂g/∂z⁽ᴸ⁾)ᵀ ∂E/∂a⁽ᴸ⁾                       which is a⁽ᴸ⁾ − y for canonical pairs of g and E
        δ⁽ˡ⁾ = σ′(z⁽ˡ⁾) ⊙ (W⁽ˡ⁺¹⁾)ᵀ δ⁽ˡ⁺¹⁾
        ∂E/∂W⁽ˡ⁾ = δ⁽ˡ⁾ (a⁽ˡ⁻¹⁾)ᵀ,  ∂E/∂b⁽ˡ⁾ = δ⁽ˡ⁾

    `activation` is σ and `slope` σ′ (found by differentiating σ if left away); `link` is g (identity
    if left away). Without `error` the pair is taken as canonical: identity with ½‖y − a‖², softmax
    with cross-entropy and one-hot y, sigmoid with binary cross-entropy. `error(a, y)` returns the
    sum of E over the batch. Shape: x (B, D) or (D,), y (B, N⁽ᴸ⁾) or (N⁽ᴸ⁾,).
    """
    if len(weights) != len(biases) or not weights:
        raise ShapeError(
            f"backprop_mlp: {len(weights)} weight matrices and {len(biases)} biases; give one each per layer"
        )
    if x.ndim == 1:
        x, y = repeated(x, 1), repeated(y, 1)
    before, inputs, output = _forward(x, weights, biases, activation, link)
    delta = output - y if error is None else last_delta(before[-1], y, link, error)
    deltas = [delta]
    for number in range(len(weights) - 2, -1, -1):
        z = before[number]
        steepness = slope(z) if slope is not None else slope_of(activation, z)
        delta = steepness * (delta @ weights[number + 1])  # rows are examples: (Wᵀδ)ᵀ = δᵀW
        deltas.insert(0, delta)
    return MLPGradients(
        output,
        deltas,
        [d.mT @ a for d, a in zip(deltas, inputs, strict=True)],  # (N, B) @ (B, M)
        [summed_front(d) for d in deltas],
    )


def _forward(
    x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor], activation: Callable, link: Callable | None
) -> tuple[list[Tensor], list[Tensor], Tensor]:
    """All z⁽ˡ⁾, the inputs a⁽ˡ⁻¹⁾ of all layers, and the output a⁽ᴸ⁾."""
    before, inputs, a = [], [], x
    for number, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        if weight.shape[1] != a.shape[-1] or tuple(bias.shape) != (weight.shape[0],):
            raise ShapeError(
                f"backprop_mlp: layer {number + 1} gets {a.shape[-1]} inputs, but its weights have shape "
                f"{tuple(weight.shape)} and its bias {tuple(bias.shape)}; expected (out, in) and (out,)"
            )
        inputs.append(a)
        before.append(a @ weight.mT + bias)
        a = activation(before[-1])
    return before, inputs, before[-1] if link is None else link(before[-1])


def last_delta(z: Tensor, y: Tensor, link: Callable | None, error: Callable) -> Tensor:
    """(∂g/∂z)ᵀ ∂E/∂a."""
    a, pull = vjp((lambda z: z * 1) if link is None else link, z)
    return pull(grad(error)(a, y))[0]


def slope_of(activation: Callable, z: Tensor) -> Tensor:
    """σ′(z) of a function that works element by element."""
    a, pull = vjp(activation, z)
    return pull(a._filled(1))[0]
