"""What a network of a diffusion predicts, and how one prediction follows from another.

With x_t = a x₀ + s ε:   "epsilon" ε,   "sample" x₀,   "v_prediction" v = a ε − s x₀ (Salimans and Ho 2022, for
a² + s² = 1). Names are diffusers'.
"""

from __future__ import annotations

from typing import NamedTuple

from ...errors import OptionError
from ...tensor import Tensor

__all__ = ["PREDICTION_TYPES", "Parts", "check_prediction", "parts_of", "target_of"]

PREDICTION_TYPES = ("epsilon", "sample", "v_prediction")


class Parts(NamedTuple):
    """The two parts of x_t = a x₀ + s ε, as predicted: like x each"""

    x0: Tensor
    epsilon: Tensor


def parts_of(kind: str, output: Tensor, x: Tensor, a: Tensor, s: Tensor, clip: float | None = None) -> Parts:
    """x₀ and ε from the output of a network at x_t = x.

    clip: hold x₀ within ±clip. ε then follows from the clipped x₀, so that both stay parts of the same x_t; a step that
    takes the network's output for ε where it predicts something else, or the unclipped one, leaves the path.
    """
    if kind == "epsilon":
        x0, epsilon = (x - s * output) / a, output
    elif kind == "sample":
        x0, epsilon = output, (x - a * output) / s
    else:
        check_prediction(kind)
        x0, epsilon = a * x - s * output, a * output + s * x
    if clip is None:
        return Parts(x0, epsilon)
    x0 = x0.clamp(-clip, clip)
    return Parts(x0, (x - a * x0) / s)


def target_of(kind: str, x0: Tensor, noise: Tensor, a: Tensor, s: Tensor) -> Tensor:
    """What the network should say: like x₀"""
    check_prediction(kind)
    return {"epsilon": noise, "sample": x0, "v_prediction": a * noise - s * x0}[kind]


def check_prediction(kind: str) -> None:
    """Refuse names that are none."""
    if kind not in PREDICTION_TYPES:
        raise OptionError(f"prediction_type is one of {', '.join(PREDICTION_TYPES)}, got {kind!r}")
