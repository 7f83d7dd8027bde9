"""What happens inside of a model, kept when asked for: the hidden states and the weights of attention of its layers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from ...tensor import Tensor

__all__ = ["Watch", "noted", "watched", "watched_weights"]


class Watch:
    """The inputs of layers and the weights of attention seen while it was open; None where they were not asked for."""

    def __init__(self, hidden: bool, weights: bool) -> None:
        self.inputs: list[Tensor] | None = [] if hidden else None
        self.weights: list[Tensor] | None = [] if weights else None

    def hidden_states(self, last: Tensor) -> tuple[Tensor, ...] | None:
        """The inputs of all layers and the last hidden state, which comes after the last norm."""
        return None if self.inputs is None else (*self.inputs, last)

    @property
    def attentions(self) -> tuple[Tensor, ...] | None:
        return None if self.weights is None else tuple(self.weights)

    def seen(self, last: Tensor) -> dict[str, Any]:
        """Both under the names of transformers."""
        return {"hidden_states": self.hidden_states(last), "attentions": self.attentions}


_WATCH: ContextVar[Watch | None] = ContextVar("what is watched", default=None)


@contextlib.contextmanager
def watched(hidden: bool = False, weights: bool = False) -> Iterator[Watch]:
    """Keep what the layers inside of the block do; a block inside of a block keeps its own."""
    watch = Watch(hidden, weights)
    token = _WATCH.set(watch)
    try:
        yield watch
    finally:
        _WATCH.reset(token)


def noted(x: Tensor) -> Tensor:
    """x, the input of a layer, kept if someone watches."""
    watch = _WATCH.get()
    if watch is not None and watch.inputs is not None:
        watch.inputs.append(x)
    return x


def watched_weights() -> list[Tensor] | None:
    """Where the weights of attention go if someone watches them."""
    watch = _WATCH.get()
    return None if watch is None else watch.weights
