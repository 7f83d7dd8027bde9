"""The protocol of generative models: what may be asked of a model of data, and how true the answer is.

A model offers what it has with `@exact`, `@bound` or `@estimate`; to ask it for anything else is an error that names
what it has.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import weft

from ... import nn
from ...errors import ArgumentError, OptionError, UnsupportedError
from ...tensor import Tensor

__all__ = ["PROTOCOL", "Bound", "GenerativeModel", "bound", "estimate", "exact"]

PROTOCOL = (
    *("log_prob", "log_prob_bound", "elbo", "energy", "score", "encode", "decode", "reconstruct", "sample"),
    "interpolate",
)
QUALITIES = ("exact", "bound", "estimate")  # from the best


class Bound(NamedTuple):
    """log p(x) from one side: `value` ± `error` (a standard error; 0 where nothing was drawn), each of shape (B,).

    side: "lower" if log p(x) is not below the value, but for the error; "upper" if it is not above
    """

    value: Tensor
    side: str
    error: Tensor

    def better_than(self, other: Bound) -> bool:
        """Whether this mean bound is the greater one. Bounds of opposite sides cannot be ranked and are refused."""
        if self.side != other.side:
            raise OptionError(
                "a lower and an upper bound cannot be ranked: they may enclose the same likelihood; compare bounds of one "
                "side, or exact values"
            )
        return self.value.mean().item() > other.value.mean().item()


class _Promise(NamedTuple):
    quality: str
    where: Callable[[Any], bool]


def _promising(quality: str) -> Callable:
    def promise(method: Callable | None = None, *, where: Callable[[Any], bool] = lambda model: True) -> Callable:
        if method is None:
            return functools.partial(promise, where=where)

        @functools.wraps(method)
        def asked(self: GenerativeModel, *args: Any, **options: Any) -> Any:
            if not where(self):
                raise self._has_no(method.__name__)
            return method(self, *args, **options)

        asked._promise = _Promise(quality, where)
        return asked

    promise.__doc__ = f"""Declare that a method of the protocol answers with {quality} values; where: for which models of the class."""
    return promise


exact, bound, estimate = (_promising(quality) for quality in QUALITIES)


class GenerativeModel(nn.Module):
    """A model of data x, one example a row: (B, *event). What it answers, and how truly, `promises` tells.

    log_prob(x)             log p(x): (B,)
    log_prob_bound(x)       log p(x) from one side: a `Bound`
    elbo(x)                 E_q[log p(x, z) − log q(z|x)] ≤ log p(x): (B,)
    energy(x)               E with p(x) = exp(−E(x)) / Z: (B,)
    score(x)                ∇ₓ log p(x): like x. From the energy, for models of real data (`continuous`)
    encode(x), decode(z)    from data to codes and back
    reconstruct(x)          what is left of x on the way through the model; by default decode(encode(x))
    sample(n, condition, generator)   n draws: (n, *event)
    interpolate(x, y, steps)          between two batches, along a line between their codes: (steps, B, *event)

    >>> class Coin(GenerativeModel):
    ...     @exact
    ...     def log_prob(self, x):
    ...         return weft.full((len(x),), 0.5).log()
    >>> Coin().promises
    {'log_prob': 'exact'}
    >>> Coin().sample(3)
    Traceback (most recent call last):
    ...
    weft.errors.UnsupportedError: Coin has no sample; it has log_prob (exact)
    """

    continuous = False  # whether x is real-valued, so that the energy has a slope

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in PROTOCOL:
            if name in vars(cls) and not hasattr(vars(cls)[name], "_promise"):
                raise ArgumentError(
                    f"{cls.__name__}.{name} does not say how true it is: write @exact, @bound or @estimate above it"
                )

    @property
    def promises(self) -> dict[str, str]:
        """What this model has, and whether it is exact, a bound or an estimate."""
        return {name: quality for name in PROTOCOL if (quality := self._quality(name))}

    def _quality(self, name: str) -> str | None:
        promise = getattr(getattr(type(self), name), "_promise", None)
        if promise is None or not promise.where(self):
            return None
        parts = _DERIVED.get(name, ()) if getattr(type(self), name) is getattr(GenerativeModel, name) else ()
        return max([promise.quality, *(self._quality(part) for part in parts)], key=QUALITIES.index)

    def _has_no(self, name: str) -> UnsupportedError:
        has = ", ".join(f"{name} ({quality})" for name, quality in self.promises.items()) or "nothing of the protocol"
        return UnsupportedError(f"{type(self).__name__} has no {name}; it has {has}")

    def _unconditional(self, condition: Any) -> None:
        """For models that have no conditions: refuse one."""
        if condition is not None:
            raise UnsupportedError(f"{type(self).__name__}.sample takes no condition: it models x alone")

    # ---------------------------------------------------------------------- what follows from something else
    @exact(where=lambda model: model.continuous and bool(model._quality("energy")))
    def score(self, x: Tensor) -> Tensor:
        """∇ₓ log p(x) = −∇ₓ E(x), which needs no Z: like x."""
        return -weft.func.grad(lambda x: self.energy(x).sum())(x)

    @exact(where=lambda model: bool(model._quality("encode") and model._quality("decode")))
    def reconstruct(self, x: Tensor) -> Tensor:
        """decode(encode(x)): like x."""
        return self.decode(self.encode(x))

    @exact(where=lambda model: bool(model._quality("encode") and model._quality("decode")))
    def interpolate(self, x: Tensor, y: Tensor, steps: int = 8) -> Tensor:
        """decode((1 − t) encode(x) + t encode(y)) for t from 0 to 1. Shape: (B, *event) twice → (steps, B, *event)"""
        start, end = self.encode(x), self.encode(y)
        return weft.stack([self.decode(weft.lerp(start, end, t / max(steps - 1, 1))) for t in range(steps)])


_DERIVED = {"score": ("energy",), "reconstruct": ("encode", "decode"), "interpolate": ("encode", "decode")}


def _missing(name: str) -> Callable:
    def ask(self: GenerativeModel, *args: Any, **options: Any) -> Any:
        raise self._has_no(name)

    ask.__name__, ask.__qualname__ = name, f"GenerativeModel.{name}"
    ask.__doc__ = "Offered by models that have it; see the class."
    return ask


for _name in PROTOCOL:
    if _name not in vars(GenerativeModel):
        setattr(GenerativeModel, _name, _missing(_name))
