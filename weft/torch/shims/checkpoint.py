"""`torch.utils.checkpoint` beyond the two functions: switches, and the class that older programs call by hand."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable, Iterator
from typing import Any

import weft

from ...autograd.checkpoint import CheckpointError, checkpoint, checkpoint_sequential

__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]


class CheckpointPolicy(enum.Enum):
    """PyTorch's words for what is kept; here a block is computed again as a whole."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3


def noop_context_fn() -> tuple[Any, Any]:
    """Contexts of the first and the second run: nothing."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def create_selective_checkpoint_contexts(policy_fn_or_list: Any, **options: Any) -> tuple[Any, Any]:
    """Nothing is kept by policy: values and gradients are the same, more is computed again."""
    return noop_context_fn()


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Nothing changes."""
    yield


set_checkpoint_debug_enabled = set_checkpoint_early_stop


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The tensors of a tuple cut from their history, with their `requires_grad`."""
    found = []
    for x in inputs:
        if isinstance(x, weft.Tensor):
            x = x.detach().requires_grad_(x.requires_grad)
        found.append(x)
    return tuple(found)


def get_device_states(*args: Any) -> tuple[list[Any], list[Any]]:
    """No cards, no states."""
    return [], []


def set_device_states(devices: Any, states: Any, **options: Any) -> None:
    """Nothing to set."""


class CheckpointFunction:
    """`CheckpointFunction.apply(function, preserve_rng_state, *args)`: `checkpoint`."""

    @staticmethod
    def apply(run_function: Callable, preserve_rng_state: bool, *args: Any) -> Any:
        return checkpoint(run_function, *args, use_reentrant=False, preserve_rng_state=bool(preserve_rng_state))
