"""The table of closed forms and how a pair of distributions finds its entry."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from ...errors import ArgumentError, UnsupportedError
from ...tensor import Tensor
from ..distribution import Distribution

__all__ = ["kl_divergence", "register_kl"]

KL_TABLE: dict[tuple[type, type], Callable] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Callable], Callable]:
    """Enter a formula for KL(p‖q) of two classes: `@register_kl(Normal, Normal)` above a function of p and q.

    A pair takes the entry of the nearest base classes, the first argument counting more.
    """
    for kind in (type_p, type_q):
        if not isinstance(kind, type):  # classes that only behave like distributions are welcome, as in PyTorch
            raise ArgumentError(f"Expected type_p and type_q to be Distribution subclasses but got {kind}")

    def enter(formula: Callable) -> Callable:
        KL_TABLE[type_p, type_q] = formula
        _formula.cache_clear()
        return formula

    return enter


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """KL(p‖q) = ∫ p(x) log(p(x)/q(x)) dx, of shape batch_shape; an error where no closed form is known."""
    formula = _formula(type(p), type(q))
    result = NotImplemented if formula is None else formula(p, q)
    if result is NotImplemented:
        raise UnsupportedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}; estimate it by "
            "(p.log_prob(x) - q.log_prob(x)).mean(0) with x = p.sample((n,))"
        )
    return result


@cache
def _formula(type_p: type, type_q: type) -> Callable | None:
    """The entry of the nearest base classes."""
    pairs = [(a, b) for a in type_p.__mro__ for b in type_q.__mro__ if (a, b) in KL_TABLE]
    return KL_TABLE[pairs[0]] if pairs else None
