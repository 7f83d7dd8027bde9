"""Recomputation: `checkpoint(fn, …)` saves the arguments of `fn` instead of its intermediate results.

The forward pass records as usual, but hooks put an empty place holder where a node would save a
tensor. When backward asks for the first of them, `fn` runs again from its arguments, with the same
random numbers, and hands over what it saves this time; it stops as soon as the last is there.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import AutogradError, InvalidValueError
from ..random import get_rng_state, set_rng_state
from ..tape.modes import enable_grad, mode
from ..tape.saved import packed, saved_tensors_hooks, unpacked
from ..tensor import Tensor
from ..utils.pytree import tree_flatten, tree_unflatten
from .batched import entered, live_levels

__all__ = ["CheckpointError", "checkpoint", "checkpoint_sequential"]


class CheckpointError(AutogradError):
    """The second run of a checkpointed function saved something else than the first."""


class _Enough(BaseException):
    """Ends a second run whose last saved tensor is there."""


class _Place:
    """Stands for one saved tensor of a frame."""

    __slots__ = ("frame", "number")

    def __init__(self, frame: _Frame, number: int) -> None:
        self.frame, self.number = frame, number


class _Frame:
    """One call of a checkpointed function: how to run it again, and what the second run has saved."""

    def __init__(self, fn: Callable, args: Any, kwargs: Any, context: Any, keep_random: bool) -> None:
        leaves, self.spec = tree_flatten((args, kwargs))
        # the arguments go through the hooks in force, so that an outer checkpoint can drop them as well
        self.leaves = [packed(x) if isinstance(x, Tensor) else x for x in leaves]
        self.needs = [isinstance(x, Tensor) and x.requires_grad for x in leaves]
        self.fn, self.context, self.levels = fn, context, live_levels()
        self.random = get_rng_state() if keep_random else None
        self.kinds: list[Any] = []
        self.again: dict[int, Tensor] = {}

    def pack(self, x: Tensor) -> _Place:
        self.kinds.append((tuple(x.shape), x.dtype))
        return _Place(self, len(self.kinds) - 1)

    def unpack(self, place: _Place) -> Tensor:
        if place.number not in self.again:
            self.recompute()
        return self.again.pop(place.number)

    def recompute(self) -> None:
        """Run the function again, from copies of the arguments outside the graph."""
        self.again = {}
        leaves = [self._detached(x, need) for x, need in zip(self.leaves, self.needs, strict=True)]
        args, kwargs = tree_unflatten(leaves, self.spec)
        before = get_rng_state()
        try:
            if self.random is not None:
                set_rng_state(self.random)
            with entered(self.levels), enable_grad(), self.context(), saved_tensors_hooks(self._collect, lambda x: x):
                self.fn(*args, **kwargs)
        except _Enough:
            pass
        finally:
            if self.random is not None:
                set_rng_state(before)
        if len(self.again) < len(self.kinds):
            raise CheckpointError(
                f"checkpoint: the function saved {len(self.kinds)} tensors the first time and {len(self.again)} when "
                "it was run again; it must do the same both times (look for state that it changes, or randomness "
                "outside weft's generator)"
            )

    def _detached(self, x: Any, need: bool) -> Any:
        x = unpacked(x)
        return x.detach().requires_grad_(need) if isinstance(x, Tensor) else x

    def _collect(self, x: Tensor) -> Tensor:
        number = len(self.again)
        if number < len(self.kinds) and self.kinds[number] != (tuple(x.shape), x.dtype):
            shape, dtype = self.kinds[number]
            raise CheckpointError(
                f"checkpoint: saved tensor {number} was {dtype} of shape {shape} the first time and {x.dtype} of shape "
                f"{tuple(x.shape)} when the function was run again; it must do the same both times"
            )
        self.again[number] = x
        if len(self.again) >= len(self.kinds):
            raise _Enough
        return x


def checkpoint(
    function: Callable,
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable | None = None,
    determinism_check: str = "default",
    debug: bool = False,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """`function(*args, **kwargs)`, whose intermediate results are not kept but computed again in backward.

    Trades time for memory: a chain of n steps checkpointed in √n pieces keeps about 2√n results.
    There is one implementation, which behaves as PyTorch's use_reentrant=False whatever is asked
    for: it works with `autograd.grad`, keyword arguments, nesting and hooks.

    >>> import weft
    >>> x = weft.tensor([1.0, 2.0], requires_grad=True)
    >>> checkpoint(lambda x: x.exp().sin(), x).sum().backward()
    >>> bool((x.grad - (x.exp().cos() * x.exp())).abs().max() < 1e-6)
    True
    """
    if not mode.grad:
        return function(*args, **kwargs)
    first, second = context_fn() if context_fn is not None else (contextlib.nullcontext(),) * 2
    frame = _Frame(function, args, kwargs, lambda: second, preserve_rng_state)
    with first, saved_tensors_hooks(frame.pack, frame.unpack):
        return function(*args, **kwargs)


def checkpoint_sequential(
    functions: Any,
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
) -> Any:
    """Run functions one after the other in `segments` pieces, of which all but the last are checkpointed."""
    steps = list(functions.children()) if hasattr(functions, "children") else list(functions)
    if segments < 1:
        raise InvalidValueError(f"checkpoint_sequential: segments must be at least 1, got {segments}")
    length = len(steps) // segments
    starts = [k * length for k in range(segments)]
    for start, stop in itertools.pairwise(starts):
        run = _composed(steps[start:stop])
        input = checkpoint(run, input, use_reentrant=use_reentrant, preserve_rng_state=preserve_rng_state)
    return _composed(steps[starts[-1] :])(input)


def _composed(steps: Sequence[Callable]) -> Callable:
    def run(x: Any) -> Any:
        for step in steps:
            x = step(x)
        return x

    return run
