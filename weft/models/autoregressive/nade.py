"""NADE: one hidden layer for each element, all with shared weights, so that D of them cost one running sum.

a₁ = c,  aᵢ₊₁ = aᵢ + xᵢ W_i:,  hᵢ = f(aᵢ), parameters of p(xᵢ | x_<i) = bᵢ + Vᵢ hᵢ: O(HD) for an example (Larochelle and
Murray 2011). With mixtures as conditionals it models real numbers: RNADE (Uria, Murray, Larochelle 2013).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft

from ... import nn
from ...tensor import Tensor
from .base import Autoregressive
from .heads import GaussianMixtureHead, Head

__all__ = ["NADE", "RNADE"]


class NADE(Autoregressive):
    """p(x) = Πᵢ p(xᵢ | x_<i) by D hidden layers whose weights are shared.

    hidden: H, units of each layer; activation: f, by default the logistic function of the paper; ReLU costs less
    rescale: multiply aᵢ by a learned number for each i, so that later layers, which sum more, need not saturate (RNADE)
    Shape: x (B, D)

    >>> nade = NADE(784, 500)
    >>> nade.sample(3).shape
    weft.Size([3, 784])
    """

    def __init__(
        self,
        features: int,
        hidden: int = 500,
        head: str | Head = "bernoulli",
        *,
        activation: Callable[[Tensor], Tensor] = weft.sigmoid,
        rescale: bool = False,
        classes: int = 0,
        dtype: Any = None,
    ) -> None:
        super().__init__((features,), head, classes)
        self.hidden, self.activation = hidden, activation
        count, scale = self.head.parameters, hidden**-0.5
        self.weight = nn.Parameter(0.01 * weft.randn(features, hidden, dtype=dtype))  # W (D, H)
        self.hidden_bias = nn.Parameter(weft.zeros(hidden, dtype=dtype))  # c (H,)
        self.output_weight = nn.Parameter(scale * weft.randn(features, count, hidden, dtype=dtype))  # V (D, K, H)
        self.output_bias = nn.Parameter(weft.zeros(features, count, dtype=dtype))  # b (D, K)
        self.scale = nn.Parameter(weft.ones(features, dtype=dtype)) if rescale else None
        self.class_bias = self._class_bias(hidden)

    def conditionals(self, x: Tensor, condition: Tensor | None = None) -> Tensor:
        def see(a: Tensor, unit: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
            value, weight, *outward = unit  # (B,), (H,), …
            return a + value.unsqueeze(1) * weight, self._outputs(a, *outward)

        found = weft.scan(see, self._start(x, condition), (x.mT, self.weight, *self._outward()))[1]
        return found.transpose(0, 1)  # (D, B, K) → (B, D, K)

    def drawn(self, noise: Tensor, condition: Tensor | None = None) -> Tensor:
        """The running sum goes on with what was drawn: D steps of O(H) each."""

        def draw(a: Tensor, unit: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
            u, weight, *outward = unit  # (n, N), (H,), …
            value = self.head.draw(self._outputs(a, *outward), u)
            return a + value.unsqueeze(1) * weight, value

        units = (noise.transpose(0, 1), self.weight, *self._outward())
        return weft.scan(draw, self._start(noise, condition), units)[1].mT  # (D, n) → (n, D)

    def _start(self, x: Tensor, condition: Tensor | None) -> Tensor:
        """a₁: (B, H)"""
        start = self.hidden_bias.expand(len(x), self.hidden)
        return start if self.class_bias is None else start + self.class_bias(condition)

    def _outward(self) -> tuple[Tensor, ...]:
        """What step i needs to predict: V, b and the scales, each with D rows."""
        scale = () if self.scale is None else (self.scale,)
        return (self.output_weight, self.output_bias, *scale)

    def _outputs(self, a: Tensor, weight: Tensor, bias: Tensor, scale: Tensor | None = None) -> Tensor:
        """bᵢ + Vᵢ f(aᵢ): (B, H) → (B, K)"""
        h = self.activation(a if scale is None else a * scale)
        if len(weight) == 1:  # a product with one row is a sum, which joins the activation in one kernel
            return (h * weight).sum(-1, keepdim=True) + bias
        return h @ weight.mT + bias

    def naive_conditionals(self, x: Tensor, condition: Tensor | None = None) -> Tensor:
        """The same from the definition, hᵢ = f(c + x_<i W_<i:), in O(HD²): (B, D) → (B, D, K)"""
        start = self._start(x, condition)
        found = []
        for i in range(self.elements):
            a = start + x[:, :i] @ self.weight[:i]
            found.append(self._outputs(a, *(part[i] for part in self._outward())))
        return weft.stack(found, 1)


class RNADE(NADE):
    """NADE of real numbers: mixtures of Gaussians (or a `LaplaceMixtureHead`) as conditionals. Standardise the data.

    Shape: x (B, D) of real numbers
    """

    def __init__(
        self,
        features: int,
        hidden: int = 50,
        head: str | Head | None = None,
        *,
        components: int = 10,
        activation: Callable[[Tensor], Tensor] = nn.functional.relu,
        rescale: bool = True,
        **options: Any,
    ) -> None:
        head = GaussianMixtureHead(components) if head is None else head
        super().__init__(features, hidden, head, activation=activation, rescale=rescale, **options)
        _spread(self)


@weft.no_grad()
def _spread(model: NADE) -> None:
    """Components of mixtures start apart: equal ones would stay equal."""
    components = getattr(model.head, "components", 0)
    if components > 1:
        apart = weft.linspace(-1.5, 1.5, components, dtype=model.output_bias.dtype)
        model.output_bias[:, components : 2 * components] = apart
