"""Detectors for faults that samples and losses do not show: densities that do not sum to one, conditionals that see what
they predict, inverses that are none, gradient estimates that are biased, averages of weights that leave some behind. Each
takes plain functions, so anybody's model.

A detector returns what it measured, and raises a `ConditionError` that says where the promise is broken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import weft

from ... import nn
from ...errors import ArgumentError, ConditionError, ShapeError
from ...tensor import Tensor
from ...utils.pytree import tree_flatten

__all__ = [
    *("binary_states", "check_autoregressive", "check_ema", "check_gradient_estimator", "check_invertible"),
    *("check_normalised", "grid", "influence"),
]

LARGEST_SPACE = 24  # bits: 16 million states


def check_normalised(
    log_prob: Callable[[Tensor], Tensor], points: Tensor, cell: float = 1.0, *, tolerance: float = 1e-3
) -> float:
    """Σ p(x) · cell over all points, which must be 1.

    points: every state of a finite space (`binary_states`), with cell 1; or a grid over the space with the volume of its
    cells (`grid` makes both), wide enough for the tails and fine enough for the peaks.

    >>> from weft.distributions import Normal
    >>> round(check_normalised(lambda x: Normal(0.0, 1.0).log_prob(x[:, 0]), *grid([(-8, 8)], 200)), 6)
    1.0
    """
    with weft.no_grad():
        total = math.exp(weft.logsumexp(_rows(log_prob, points).double(), 0).item()) * cell
    if not abs(total - 1) <= tolerance:
        raise ConditionError(
            f"check_normalised: the probabilities of {len(points)} points sum to {total:.6g} instead of 1 "
            f"(± {tolerance:g}); a constant is missing, or the points do not cover the space"
        )
    return total


def binary_states(bits: int, dtype: Any = None) -> Tensor:
    """All vectors of zeros and ones, counting in binary with the first element as the lowest bit: (2ᵇ, b).

    >>> binary_states(2).tolist()
    [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    """
    if not 0 <= bits <= LARGEST_SPACE:
        raise ShapeError(f"binary_states: expected 0 to {LARGEST_SPACE} bits, got {bits}: 2^{bits} states do not fit")
    return states_between(0, 2**bits, bits, dtype)


def states_between(first: int, last: int, bits: int, dtype: Any = None) -> Tensor:
    """Rows `first` … `last` − 1 of `binary_states`."""
    numbers = weft.arange(first, last).unsqueeze(1)  # (N, 1)
    return ((numbers >> weft.arange(bits)) & 1).to(dtype or weft.get_default_dtype())


def grid(limits: Sequence[tuple[float, float]], steps: int, dtype: Any = None) -> tuple[Tensor, float]:
    """Midpoints of a regular grid over a box, (steps^d, d), and the volume of a cell.

    limits: (low, high) of each dimension
    """
    widths = [(high - low) / steps for low, high in limits]
    kind = dtype or weft.float64
    lines = [
        low + width * (weft.arange(steps, dtype=kind) + 0.5) for (low, _), width in zip(limits, widths, strict=True)
    ]
    return weft.cartesian_prod(*lines).reshape(-1, len(limits)), math.prod(widths)


def check_autoregressive(
    conditionals: Callable[[Tensor], Tensor], x: Tensor, order: Sequence[int] | None = None, *, tolerance: float = 1e-5
) -> Tensor:
    """The `influence` of each x_j on the parameters of each p(x_i | x_<i), which must be 0 unless j comes before i.

    conditionals: (B, *event) → the same shape or (B, *event, K): logits, or means and scales, of every element
    order: places of the flattened event in the order in which they are generated; by default as they lie
    Returns (D, D), row i what element i sees: also a map of blind spots.
    """
    seen = influence(conditionals, x)
    count = len(seen)
    rank = weft.empty(count, dtype=weft.int64)
    rank[weft.tensor(list(range(count) if order is None else order))] = weft.arange(count)
    forbidden = rank.unsqueeze(0) >= rank.unsqueeze(1)  # j not before i
    worst = weft.where(forbidden, seen, 0)
    if not worst.max().item() <= tolerance:
        i, j = divmod(worst.argmax().item(), count)
        itself = "itself" if i == j else f"element {j}, which is generated after it"
        raise ConditionError(
            f"check_autoregressive: the prediction of element {i} depends on {itself} (it changes by "
            f"{worst[i, j].item():.3g}); {int((worst > tolerance).sum())} such pairs in all"
        )
    return seen


def influence(conditionals: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """How much the prediction of element i changes, at most over the rows of x, when x_j is replaced: (D, D).

    Replaced by that of another row, by its complement 1 − x_j and by a far value: no slope is needed, so thresholds and
    dead units hide nothing that a change of value would show.
    """
    rows = x.reshape(len(x), -1)  # (B, D)
    found = []
    with weft.no_grad():
        before = _predicted(conditionals, rows, x.shape)
        for j in range(rows.shape[1]):
            changes = []
            for value in (rows[:, j].roll(1), 1 - rows[:, j], rows[:, j] + 3):
                changed = rows.clone()
                changed[:, j] = value
                difference = (_predicted(conditionals, changed, x.shape) - before).abs()
                changes.append(difference.amax((0, 2)))  # (B, D, K) → (D,)
            found.append(weft.stack(changes).amax(0))
    return weft.stack(found, 1)


def check_invertible(
    forward: Callable[[Tensor], Any],
    inverse: Callable[[Tensor], Any],
    x: Tensor,
    *,
    tolerance: float = 1e-4,
    integral: tuple[Tensor, float] | None = None,
) -> float:
    """The largest |x − inverse(forward(x))|, which must not exceed the tolerance; log-determinants against Jacobians.

    forward, inverse: (B, *event) → y, or (y, log|det J|) with (B,). Where they come, the logarithms must be those of
    the Jacobian that autograd finds, and the inverse's their negatives: an inverse may be right with a wrong volume.
    integral: points y and the volume of a cell, from `grid`; standard normal noise, moved by `forward`, must have a
    density that sums to 1 over them (± 0.001), which also finds maps that do not reach everywhere, or reach twice
    """
    y, volume = _parted(forward(x))
    back, shrunk = _parted(inverse(y))
    worst = (back - x).abs().max().item()
    if not worst <= tolerance:
        raise ConditionError(f"check_invertible: inverse(forward(x)) is {worst:.3g} away from x (± {tolerance:g})")
    if volume is not None:
        true = weft.stack([_log_determinant(forward, row) for row in x])
        _same_volume("log|det J|", volume, true, tolerance)
        if shrunk is not None:
            _same_volume("the inverse's log|det J|", shrunk, -true, tolerance)
    if integral is not None:
        check_normalised(lambda y: _moved_normal(inverse, y), *integral)
    return worst


def check_gradient_estimator(
    estimate: Callable[[], Any], exact: Any, *, draws: int = 1000, deviations: float = 5.0
) -> float:
    """How many standard errors the mean of many estimates lies from the exact gradient, in its worst element.

    estimate: called `draws` times; each time a fresh estimate, of the same containers and shapes as `exact`
    A bias below deviations · σ / √draws cannot be seen; elements that never vary must agree to 10⁻⁵.
    """
    true = _flat(exact)
    drawn = weft.stack([_flat(estimate()) for _ in range(draws)])  # (draws, P)
    error = drawn.std(0) / math.sqrt(draws)
    distance = ((drawn.mean(0) - true).abs() - 1e-5 * (1 + true.abs())).clamp(min=0) / (error + 1e-12)
    worst = distance.max().item()
    if not worst <= deviations:
        place = distance.argmax().item()
        raise ConditionError(
            f"check_gradient_estimator: the mean of {draws} estimates of element {place} is {drawn[:, place].mean():.4g} ± "
            f"{error[place]:.2g}, the exact gradient {true[place]:.4g}: {worst:.1f} standard errors away; it is biased"
        )
    return worst


def check_ema(
    averaged: nn.Module,
    update: Callable[[nn.Module], Any],
    model: nn.Module,
    decay: float | Callable[[int], float] = 0.999,
    *,
    steps: int = 4,
    tolerance: float = 1e-5,
) -> float:
    """The largest distance of an average of weights to ā ← decay · ā + (1 − decay) · θ, by its closed form on constants.

    averaged: the module that holds the averages, with the names of `model`; update: called with the model after a step
    decay: a number, or a function of how many updates there have been before. ā₁ may be θ₁ instead
    Every weight and buffer is set to constants, then to another. Buffers must be the newest or averaged as well: those
    that stay at what they were at the start are the statistics of an untrained network. All is put back in the end.
    """
    rate = decay if callable(decay) else lambda count: decay
    kept = [{name: value.clone() for name, value in m.state_dict().items()} for m in (averaged, model)]
    weights = {name for name, _ in model.named_parameters()}
    try:
        seen = _averages(averaged, update, model, steps)
        return max(_strayed(name, values, rate, tolerance, name not in weights) for name, values in seen.items())
    finally:
        for module, state in zip((averaged, model), kept, strict=True):
            module.load_state_dict(state)


Seen = list[tuple[float, float]]  # (constant of the model, the average then), at the start and after each update


def _averages(averaged: nn.Module, update: Callable[[nn.Module], Any], model: nn.Module, steps: int) -> dict[str, Seen]:
    """What becomes of every entry that is no whole number (a count of batches, say)."""
    current, means = model.state_dict(), averaged.state_dict()
    if missing := sorted(set(current) - set(means)):
        raise ConditionError(
            f"check_ema: the average has no {', '.join(missing)}; give the module with the model's names"
        )
    names = [name for name, value in current.items() if value.is_floating_point()]
    with weft.no_grad():
        for name in names:
            means[name].fill_(1.0)
    found: dict[str, Seen] = {name: [(1.0, 1.0)] for name in names}
    for constant in [2.0] * (steps - steps // 2) + [7.0] * (steps // 2):
        with weft.no_grad():
            for name in names:
                current[name].fill_(constant)
        update(model)
        for name in names:
            if not bool((current[name] == constant).all()):
                raise ConditionError(f"check_ema: the update has changed {name} of the model itself; average a copy")
            found[name].append((constant, averaged.state_dict()[name].double().mean().item()))
    return found


def _strayed(name: str, values: Seen, rate: Callable[[int], float], tolerance: float, buffer: bool) -> float:
    """The distance of one entry to the nearest of what it may be."""
    ways = [_recursion(values, rate, first_copied) for first_copied in (False, True)]
    if buffer:
        ways.append([constant for constant, _ in values[1:]])  # the newest
    seen = [average for _, average in values[1:]]
    worst = min(max(abs(a - b) for a, b in zip(way, seen, strict=True)) for way in ways)
    if worst <= tolerance * max(map(abs, seen)):
        return worst
    if buffer:
        raise ConditionError(
            f"check_ema: the buffer {name} is {seen} after {len(seen)} updates of a model where it is "
            f"{[constant for constant, _ in values[1:]]}: it must be the newest, or be averaged as the weights are"
        )
    raise ConditionError(f"check_ema: {name} is {seen} after {len(seen)} updates, by its closed form {ways[0]}")


def _recursion(values: Seen, rate: Callable[[int], float], first_copied: bool) -> list[float]:
    average, found = values[0][1], []
    for count, (constant, _) in enumerate(values[1:]):
        d = 0.0 if first_copied and count == 0 else rate(count)
        average = d * average + (1 - d) * constant
        found.append(average)
    return found


def _rows(f: Callable[[Tensor], Tensor], points: Tensor) -> Tensor:
    value = f(points)
    if tuple(value.shape) != (len(points),):
        raise ShapeError(
            f"check_normalised: expected one log-probability a row, ({len(points)},), got {tuple(value.shape)}"
        )
    return value


def _predicted(conditionals: Callable[[Tensor], Tensor], rows: Tensor, shape: Any) -> Tensor:
    """(B, D, K): all parameters of the prediction of every element, in float64."""
    found = conditionals(rows.reshape(shape))
    if found.numel() % rows.numel():
        raise ShapeError(
            f"check_autoregressive: expected predictions of shape {tuple(shape)} or with a last dimension of "
            f"parameters, got {tuple(found.shape)}"
        )
    return found.reshape(*rows.shape, -1).double()


def _parted(result: Any) -> tuple[Tensor, Tensor | None]:
    return result if isinstance(result, tuple) else (result, None)


def _log_determinant(forward: Callable[[Tensor], Any], row: Tensor) -> Tensor:
    one = lambda x: _parted(forward(x.reshape(row.shape).unsqueeze(0)))[0].flatten()
    return weft.linalg.slogdet(weft.func.jacrev(one)(row.detach().flatten()))[1]


def _moved_normal(inverse: Callable[[Tensor], Any], y: Tensor) -> Tensor:
    """log N(f⁻¹(y); 0, 1) + log|det ∂f⁻¹/∂y|: (N, *event) → (N,)"""
    z, volume = _parted(inverse(y))
    if volume is None:
        raise ArgumentError("check_invertible: an integral needs an inverse that returns (x, log|det J|)")
    return (-0.5 * z**2 - 0.5 * math.log(2 * math.pi)).flatten(1).sum(1) + volume


def _same_volume(what: str, found: Tensor, true: Tensor, tolerance: float) -> None:
    worst = (found - true).abs().max().item()
    if not worst <= tolerance * (1 + true.abs().max().item()):
        raise ConditionError(f"check_invertible: {what} is {worst:.3g} away from that of the Jacobian")


def _flat(tree: Any) -> Tensor:
    return weft.cat([leaf.detach().flatten().double() for leaf in tree_flatten(tree)[0]])
