"""Adam for sparse gradients: only the rows that a batch touched move."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import weft

from ..errors import InvalidValueError, StateError
from ..tensor import Tensor
from .optimizer import Optimizer
from .rules import Group, State, check_options, learning_rate, scatter_sub, sparse_parts

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Adam whose averages stand still for rows without a gradient, for large embeddings with `sparse=True`.

    For the rows i of the gradient:  mᵢ ← β₁ mᵢ + (1 − β₁) gᵢ,   vᵢ ← β₂ vᵢ + (1 − β₂) gᵢ²,
    θᵢ ← θᵢ − ε √(1 − β₂ᵗ) / (1 − β₁ᵗ) · mᵢ / (√vᵢ + δ)

    betas: β₁ and β₂, the memory of the two averages

    >>> table = nn.Embedding(1000, 2, sparse=True)
    >>> optimizer = optim.SparseAdam(table.parameters(), lr=0.25)
    >>> before = table.weight.detach().clone()
    >>> table(weft.tensor([3, 7])).sum().backward()
    >>> optimizer.step()
    >>> (table.weight != before).any(1).nonzero().flatten()
    tensor([3, 7])
    """

    _refuses_sparse = None

    _elementwise = False

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        check_options(lr=lr, eps=eps, betas=betas)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, maximize=maximize))
        self._refuse("Sparse", lambda p: p.is_sparse, "requires dense parameter tensors")
        self._refuse("Complex", lambda p: p.is_complex(), "does not support complex parameters")

    def _refuse(self, kind: str, is_kind: Callable[[Tensor], bool], why: str) -> None:
        groups = enumerate(self.param_groups)
        found = [[i, j] for i, group in groups for j, p in enumerate(group["params"]) if is_kind(p)]
        if found:
            raise InvalidValueError(f"{kind} params at indices {found}: SparseAdam {why}")

    def _start(self, parameter: Tensor, group: Group) -> State:
        return {"step": 0, "exp_avg": weft.zeros_like(parameter), "exp_avg_sq": weft.zeros_like(parameter)}

    def _update(self, parameter: Tensor, gradient: Tensor, state: State, group: Group) -> None:
        if not gradient.is_sparse:
            raise StateError("SparseAdam does not support dense gradients, please consider Adam instead")
        beta1, beta2 = group["betas"]
        state["step"] += 1
        t = state["step"]
        places, values = sparse_parts(gradient)
        mean = _averaged(state["exp_avg"], places, values, beta1)
        square = _averaged(state["exp_avg_sq"], places, values * values, beta2)
        rate = learning_rate(group) * (1 - beta2**t) ** 0.5 / (1 - beta1**t)
        scatter_sub(parameter, places, mean / (square.sqrt() + group["eps"]) * rate)


def _averaged(average: Tensor, places: tuple[Tensor, ...], values: Tensor, keep: float) -> Tensor:
    """average[places] ← keep · average[places] + (1 − keep) · values; the new values there."""
    new = average[places] * keep + values * (1 - keep)
    average.index_put_(places, new)
    return new
