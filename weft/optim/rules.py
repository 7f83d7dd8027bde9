"""The few lines of arithmetic, and the checks of options, that many optimisers share."""

from __future__ import annotations

from typing import Any

import weft

from ..errors import InvalidValueError
from ..tape.modes import mode
from ..tensor import Tensor

__all__ = [
    "Group",
    "State",
    "at_least",
    "average",
    "average_square",
    "check_options",
    "choose",
    "counter",
    "decayed",
    "learning_rate",
    "number",
    "scatter_sub",
    "shrink",
    "sparse_parts",
]

Group = dict[str, Any]
State = dict[str, Any]


def counter(start: float = 0.0) -> Tensor:
    """A number of the state as a 0-d tensor, so that a compiled step can read and write it."""
    kind = weft.float64 if weft.get_default_dtype() is weft.float64 else weft.float32
    return weft.tensor(start, dtype=kind)


def number(value: Tensor) -> Any:
    """A 0-d tensor of the state as the formulas read it: a Python float or, while a transform takes over operations
    on it, a float64 tensor. Formulas use only arithmetic on it, so that both ways give the same."""
    if mode.interpreter is not None:
        return mode.interpreter.as_number(value)
    return value.item() if value._interpreter is None else value.double()


def choose(condition: Any, yes: Any, no: Any) -> Any:
    """`yes` where the condition (a bool or, while a transform traces, a tensor) holds, else `no`."""
    return weft.where(condition, yes, no) if isinstance(condition, Tensor) else yes if condition else no


def at_least(bound: float, value: Any) -> Any:
    """max(bound, value)."""
    return choose(value > bound, value, bound)


def learning_rate(group: Group) -> Any:
    """The learning rate of a group now: a float or a 0-d tensor."""
    lr = group["lr"]
    return lr.reshape(()) if isinstance(lr, Tensor) and lr.ndim else lr


def decayed(gradient: Tensor, parameter: Tensor, group: Group) -> Tensor:
    """g + λ θ, the gradient with the L2 penalty λ ‖θ‖² / 2."""
    decay = group["weight_decay"]
    return gradient if _is_zero(decay) else gradient + parameter * decay


def _is_zero(value: Any) -> bool:
    return not isinstance(value, Tensor) and value == 0


def shrink(parameter: Tensor, group: Group) -> None:
    """θ ← (1 − ε λ) θ, weight decay decoupled from the gradient."""
    decay = group["weight_decay"]
    if not _is_zero(decay):
        parameter.mul_(1 - learning_rate(group) * decay)


def average(mean: Tensor, value: Tensor, keep: Any) -> Tensor:
    """mean ← keep · mean + (1 − keep) · value, in place."""
    return mean.mul_(keep).add_(value * (1 - keep))


def average_square(mean: Tensor, value: Tensor, keep: Any) -> Tensor:
    """mean ← keep · mean + (1 − keep) · value², in place."""
    return mean.mul_(keep).add_((value * value).mul_(1 - keep))


def check_options(**options: Any) -> None:
    """Raise a ValueError, in PyTorch's words, for an option outside its range."""
    for name, value in options.items():
        if name in ("lr", "tensor_lr") and isinstance(value, Tensor) and value.numel() != 1:
            raise InvalidValueError("Tensor lr must be 1-element")
        if name == "tensor_lr":  # the optimiser has its own words for a negative one
            continue
        if name == "betas":
            for index, beta in enumerate(value):
                if not 0.0 <= beta < 1.0:
                    raise InvalidValueError(f"Invalid beta parameter at index {index}: {beta}")
        elif not 0.0 <= value:
            said = {"lr": "learning rate", "eps": "epsilon value"}.get(name, f"{name} value")
            raise InvalidValueError(f"Invalid {said}: {value}")


# ------------------------------------------------------------------------------------- sparse gradients


def sparse_parts(gradient: Any) -> tuple[tuple[Tensor, ...], Tensor]:
    """The places (one index tensor for each sparse axis) and the values of a sparse gradient, each place once."""
    gradient = gradient.coalesce()
    return tuple(gradient.indices()), gradient.values()


def scatter_sub(tensor: Tensor, places: tuple[Tensor, ...], values: Tensor) -> None:
    """tensor[places] ← tensor[places] − values."""
    tensor.index_put_(places, -values, accumulate=True)
