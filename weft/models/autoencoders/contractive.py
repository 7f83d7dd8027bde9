"""The contractive penalty: how much the code moves with its input, ‖∂f/∂x‖², exactly (Rifai et al. 2011; N1 §7.1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import weft

from ... import nn
from ...errors import UnsupportedError
from ...tensor import Tensor

if TYPE_CHECKING:
    from .autoencoder import Autoencoder

__all__ = ["Contraction", "SigmoidContraction", "jacobian_norm"]


@dataclass(frozen=True)
class Contraction:
    """λ · mean over rows of ‖J‖²_F, J = ∂f(x)/∂x, for any encoder that treats rows one by one.

    One backward pass for each number of the code, side by side; `SigmoidContraction` needs none for a single layer.
    """

    weight: float

    def __call__(self, model: Autoencoder, x: Tensor, z: Tensor, generator: Any = None) -> Tensor:
        return self.weight * jacobian_norm(model.encode, x).mean()


@dataclass(frozen=True)
class SigmoidContraction:
    """The same for an encoder h = σ(Wx + b), in closed form: ‖J‖² = Σⱼ (hⱼ (1 − hⱼ))² Σᵢ Wⱼᵢ²."""

    weight: float

    def __call__(self, model: Autoencoder, x: Tensor, z: Tensor, generator: Any = None) -> Tensor:
        slopes = (z * (1 - z)) ** 2  # (B, H)
        return self.weight * (slopes @ (_sigmoid_layer(model.encoder).weight ** 2).sum(1)).mean()


def jacobian_norm(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """‖∂f(x)/∂x‖²_F of each row, itself differentiable: (B, *event) → (B,).

    f: (B, *event) → (B, K), row by row: then ∂ Σ_b f(x_b)ⱼ / ∂x has the j-th rows of all Jacobians.
    """
    z, pull = weft.func.vjp(f, x)
    chosen = weft.eye(z.shape[1], dtype=z.dtype).unsqueeze(1).expand(-1, len(x), -1)  # (K, B, K)
    rows = weft.func.vmap(lambda cotangent: pull(cotangent)[0])(chosen)  # (K, B, *event)
    return (rows**2).flatten(2).sum((0, 2))


def _sigmoid_layer(encoder: nn.Module) -> nn.Linear:
    """The linear layer of an encoder that is one, followed by a sigmoid."""
    parts = list(encoder) if isinstance(encoder, nn.Sequential) else []
    if [type(part) for part in parts] != [nn.Linear, nn.Sigmoid]:
        raise UnsupportedError(
            "SigmoidContraction: expected an encoder of one linear layer and a sigmoid, got "
            f"{type(encoder).__name__}; Contraction takes any"
        )
    return parts[0]
