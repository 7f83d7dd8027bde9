"""Sums over all states of a few binary units: partition functions and expectations without any sampling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft

from ...tensor import Tensor
from ..generative.checks import states_between

__all__ = ["ENUMERABLE", "log_sum", "mean_over", "of_each"]

ENUMERABLE = 20  # units whose states can be counted out: a million of them
AT_ONCE = 2**13  # states in memory at a time


def of_each(f: Callable[[Tensor], Tensor], bits: int, dtype: Any = None) -> Tensor:
    """f of every state, in the order of `binary_states`. f: (N, b) → (N,); → (2ᵇ,)"""
    return weft.cat([f(states) for states in _chunks(bits, dtype)])


def log_sum(f: Callable[[Tensor], Tensor], bits: int, dtype: Any = None) -> Tensor:
    """log Σ exp f(s) over all s in {0, 1}ᵇ, with gradients. f: (N, b) → (N,)"""
    return weft.stack([f(states).logsumexp(0) for states in _chunks(bits, dtype)]).logsumexp(0)


def mean_over(
    log_weight: Callable[[Tensor], Tensor], f: Callable[[Tensor], Tensor], bits: int, dtype: Any = None
) -> Tensor:
    """Σ p(s) f(s) with p ∝ exp log_weight, over all s in {0, 1}ᵇ. f: (N, b) → (N, *)"""
    total = log_sum(log_weight, bits, dtype)
    parts = [weft.tensordot((log_weight(s) - total).exp(), f(s), 1) for s in _chunks(bits, dtype)]
    return weft.stack(parts).sum(0)


def _chunks(bits: int, dtype: Any) -> list[Tensor]:
    starts = range(0, 2**bits, AT_ONCE)
    return [states_between(start, min(start + AT_ONCE, 2**bits), bits, dtype) for start in starts]
