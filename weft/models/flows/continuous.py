"""Continuous flow: x moves along a vector field from t = 0 to 1, and its density with it (Chen et al. 2018, Grathwohl et al.
2019, N1 §10.5).

    dx/dt = f(t, x),   d log p(x(t)) / dt = −tr ∂f/∂x
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import weft

from ... import nn
from ...errors import OptionError
from ...integrate.adjoint import odeint_adjoint
from ...integrate.solve import odeint
from ...tensor import Tensor
from .base import Flow
from .bijector import Bijector, Pair

__all__ = ["Continuous", "ContinuousFlow", "VectorField", "exact_divergence", "hutchinson_divergence"]


class VectorField(nn.Module):
    """f(t, x, c) by full layers with tanh between; t and c are inputs beside x: (), (B, D), (B, C) → (B, D)"""

    def __init__(self, features: int, hidden: Sequence[int] = (64, 64), context: int = 0, dtype: Any = None) -> None:
        super().__init__()
        sizes = [features + 1 + context, *hidden, features]
        self.layers = nn.ModuleList([nn.Linear(a, b, dtype=dtype) for a, b in itertools.pairwise(sizes)])

    def forward(self, t: Tensor, x: Tensor, context: Tensor | None = None) -> Tensor:
        time = t.to(x.dtype).expand(len(x), 1)
        h = weft.cat([x, time] if context is None else [x, time, context], 1)
        for layer in self.layers[:-1]:
            h = weft.tanh(layer(h))
        return self.layers[-1](h)


class Continuous(Bijector):
    """y = x(1), x(0) = x, with log|det J| = ∫ tr ∂f/∂x dt along the way; the inverse goes from 1 to 0.

    field: module (t, x, context) → dx/dt
    trace: "exact" (D slopes), or "hutchinson": vᵀ ∂f/∂x v with one v ~ N(0, 1) a solution, unbiased
    adjoint: gradients by the adjoint equation, so that also adaptive steps inside of a compiled training step have one;
        otherwise through the steps
    options: those of `odeint`: method, rtol, atol, options
    """

    def __init__(self, field: nn.Module, trace: str = "exact", *, adjoint: bool = False, **options: Any) -> None:
        super().__init__()
        if trace not in DIVERGENCES:
            raise OptionError(f"Continuous: trace is one of {', '.join(DIVERGENCES)}, got {trace!r}")
        self.field, self.trace, self.adjoint = field, trace, adjoint
        self.options = {"rtol": 1e-5, "atol": 1e-5} | options

    @property
    def exact(self) -> bool:
        return self.trace == "exact"

    def forward(self, x: Tensor, context: Tensor | None = None) -> Pair:
        return self._moved(x, context, (0.0, 1.0))

    def inverse(self, y: Tensor, context: Tensor | None = None) -> Pair:
        return self._moved(y, context, (1.0, 0.0))

    def _moved(self, x: Tensor, context: Tensor | None, ends: tuple[float, float]) -> Pair:
        if not len(x):
            return x, x.new_zeros(0)
        divergence = DIVERGENCES[self.trace](x)

        def both(t: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            return divergence(lambda x: self.field(t, x, context), state[0])

        times, start = weft.tensor(ends, dtype=x.dtype), (x, weft.zeros(len(x), dtype=x.dtype))
        if self.adjoint:
            params = [*self.field.parameters(), *([] if context is None else [context])]
            path, volume = odeint_adjoint(both, start, times, adjoint_params=params, **self.options)
        else:
            path, volume = odeint(both, start, times, **self.options)
        return path[-1], volume[-1]

    def extra_repr(self) -> str:
        return f"trace={self.trace!r}, adjoint={self.adjoint}, " + ", ".join(
            f"{k}={v!r}" for k, v in self.options.items()
        )


class ContinuousFlow(Flow):
    """Noise moved by a learned field.

    >>> ContinuousFlow(2, (16,), method="rk4", options={"num_steps": 4}).sample(3).shape
    weft.Size([3, 2])
    """

    def __init__(
        self,
        features: int,
        hidden: Sequence[int] = (64, 64),
        *,
        context: int = 0,
        trace: str = "exact",
        adjoint: bool = False,
        dtype: Any = None,
        **options: Any,
    ) -> None:
        field = VectorField(features, hidden, context, dtype)
        super().__init__(Continuous(field, trace, adjoint=adjoint, **options), features, context=context, dtype=dtype)


Divergence = Callable[[Callable[[Tensor], Tensor], Tensor], Pair]


def exact_divergence(like: Tensor) -> Divergence:
    """f(x) and tr ∂f/∂x by D slopes."""

    def both(f: Callable[[Tensor], Tensor], x: Tensor) -> Pair:
        value, pull = weft.func.vjp(f, x)
        units = weft.eye(x.shape[1], dtype=x.dtype)
        slopes = [pull(unit.expand(x.shape))[0][:, i] for i, unit in enumerate(units)]
        return value, weft.stack(slopes).sum(0)

    return both


def hutchinson_divergence(like: Tensor) -> Divergence:
    """f(x) and vᵀ ∂f/∂x v, v drawn once for all times, so that what is solved is one equation."""
    with weft.no_grad():
        v = weft.randn(like.shape, dtype=like.dtype)

    def both(f: Callable[[Tensor], Tensor], x: Tensor) -> Pair:
        value, pull = weft.func.vjp(f, x)
        return value, (pull(v)[0] * v).sum(1)

    return both


DIVERGENCES = {"exact": exact_divergence, "hutchinson": hutchinson_divergence}
