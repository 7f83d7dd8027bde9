"""Two diffusions become alike: how fast the divergence of their densities falls (N1 eq. 317).

For dx = f dt + g dw with the same f and g on both,  d KL(p_t ‖ q_t) / dt = −½ g² E_p ‖∇ log p_t − ∇ log q_t‖² ≤ 0.
The drift drops out: it moves both alike. Integrated, KL(p‖q) is half the weighted Fisher divergence over all t, which is why
learning scores learns the density.
"""

from __future__ import annotations

from collections.abc import Callable

from ...tensor import Tensor

__all__ = ["fisher_divergence", "kl_rate"]

Score = Callable[[Tensor], Tensor]


def fisher_divergence(score_p: Score, score_q: Score, x: Tensor) -> Tensor:
    """E_p ‖∇ log p − ∇ log q‖² by draws x (B, *event) of p: a scalar"""
    return ((score_p(x) - score_q(x)) ** 2).flatten(1).sum(1).mean()


def kl_rate(score_p: Score, score_q: Score, x: Tensor, diffusion: float | Tensor = 1.0) -> Tensor:
    """d KL(p_t ‖ q_t) / dt = −½ g² E_p ‖∇ log p_t − ∇ log q_t‖², never positive. x: draws of p_t; diffusion: g: a scalar"""
    return -0.5 * diffusion**2 * fisher_divergence(score_p, score_q, x)
