"""Pruning: weights held at zero by masks, in PyTorch's names (`torch.nn.utils.prune`).

A pruned weight is a parametrisation, `module.weight` = original where the mask is true and exactly 0 elsewhere. The
mask is a buffer: it is saved with the model, and compiled steps read it at every call, so it may change in training.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import weft

from ...errors import OptionError, ShapeError
from ...nn.module import Module
from ...nn.utils.parametrize import is_parametrized, register_parametrization, remove_parametrizations
from ...ops.create.sample import Generator, generator_of
from ...tensor import Tensor
from ..callbacks import Callback
from .parts import Patterns, matching

if TYPE_CHECKING:
    from ..task import Task
    from ..trainer import Trainer

__all__ = [
    "IterativePruning",
    "Mask",
    "Sparsity",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "masks",
    "prunable",
    "random_structured",
    "random_unstructured",
    "remove",
    "sparsity",
]

Weight = tuple[Module, str]  # a module and the name of one of its parameters
Amount = int | float


class Mask(Module):
    """w where the mask is true, else 0: the gradient of what is pruned is 0 as well."""

    def __init__(self, like: Tensor) -> None:
        super().__init__()
        self.register_buffer("mask", weft.ones(like.shape, dtype=weft.bool))

    def forward(self, weight: Tensor) -> Tensor:
        return weft.where(self.mask, weight, weft.zeros((), dtype=weight.dtype))

    def right_inverse(self, weight: Tensor) -> Tensor:
        return weight


# ------------------------------------------------------------------------------------------- one weight


def identity(module: Module, name: str) -> Module:
    """A mask that keeps everything, so that the names of parameters are those of a pruned model."""
    if _found(module, name) is None:
        register_parametrization(module, name, Mask(getattr(module, name)))
    return module


def l1_unstructured(module: Module, name: str, amount: Amount) -> Module:
    """Prune the entries of least magnitude; amount: a share of those still there, or a number of entries."""
    return _prune_entries(module, name, amount, np.abs)


def random_unstructured(module: Module, name: str, amount: Amount, generator: Generator | None = None) -> Module:
    """Prune entries at random."""
    return _prune_entries(module, name, amount, _by_chance(generator, "random_unstructured"))


def ln_structured(module: Module, name: str, amount: Amount, n: Any, dim: int) -> Module:
    """Prune whole slices along `dim` (dim=0: outputs) that have the least norm; n: 1, 2, inf, …, or 'fro'."""
    order = 2 if n == "fro" else n
    return _prune_slices(module, name, amount, dim, lambda rows: np.linalg.norm(rows, order, axis=1))


def random_structured(
    module: Module, name: str, amount: Amount, dim: int, generator: Generator | None = None
) -> Module:
    """Prune whole slices along `dim` at random."""
    draw = _by_chance(generator, "random_structured")
    return _prune_slices(module, name, amount, dim, lambda rows: draw(rows[:, 0]))


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune where `mask` is 0, and what was pruned before."""
    if tuple(mask.shape) != tuple(getattr(module, name).shape):
        raise ShapeError(f"custom_from_mask: the mask has shape {mask.shape}, {name} {getattr(module, name).shape}")
    _write(module, name, _kept(module, name) & mask.detach().numpy().astype(bool))
    return module


def remove(module: Module, name: str) -> Module:
    """An ordinary parameter again, with zeros where it was pruned."""
    if _found(module, name) is None:
        raise OptionError(f"remove: {name!r} of {type(module).__name__} is not pruned")
    return remove_parametrizations(module, name)


def is_pruned(module: Module) -> bool:
    """Whether a weight of this module or of one of its parts has a mask."""
    return any(isinstance(part, Mask) for part in module.modules())


# ------------------------------------------------------------------------------------------- several weights


def global_unstructured(
    parameters: Iterable[Weight],
    amount: Amount,
    importance: Callable[[NDArray], NDArray] = np.abs,
) -> None:
    """Prune the least important entries of all weights together; amount: a share of those still there, or a number.

    parameters: pairs (module, name), say `prunable(model)`. importance: |w| unless given.

    >>> global_unstructured(prunable(model), 0.8)
    """
    pairs = list(parameters)
    if not pairs:
        raise OptionError("global_unstructured: expected at least one pair (module, name), got none")
    kept = [_kept(*pair) for pair in pairs]
    scores = np.concatenate([importance(_values(*pair)).reshape(-1) for pair in pairs])
    left = _without_least(scores, np.concatenate([mask.reshape(-1) for mask in kept]), amount)
    parts = np.split(left, np.cumsum([mask.size for mask in kept])[:-1])
    for pair, mask, part in zip(pairs, kept, parts, strict=True):
        _write(*pair, part.reshape(mask.shape))


def prunable(model: Module, patterns: Patterns | None = None) -> list[Weight]:
    """Pairs (module, name) of all weights of two or more dimensions, or of the parameters whose names match."""
    places = weights_by_name(model)
    if patterns is None:
        return [pair for pair in places.values() if getattr(*pair).ndim >= 2]
    return [places[name] for name in matching(places, patterns, "prunable")]


def masks(model: Module) -> dict[str, Tensor]:
    """The masks of a model by the names that their weights had."""
    return {name: found.mask for name, pair in weights_by_name(model).items() if (found := _found(*pair)) is not None}


@dataclass(frozen=True)
class Sparsity:
    """How many entries of each weight are zero: name → (zeros, entries). Printed as a table."""

    rows: dict[str, tuple[int, int]]

    @property
    def total(self) -> float:
        """The share of zeros in all of them."""
        zeros, entries = (sum(row[part] for row in self.rows.values()) for part in (0, 1))
        return zeros / entries if entries else 0.0

    def share(self, name: str) -> float:
        """The share of zeros in one weight."""
        zeros, entries = self.rows[name]
        return zeros / entries

    def __str__(self) -> str:
        width = max([5, *map(len, self.rows)])
        lines = [f"{name:<{width}}  {z:>10,} of {n:>10,}  {z / n:7.2%}" for name, (z, n) in self.rows.items()]
        return "\n".join([*lines, f"{'total':<{width}}  {self.total:>33.2%}"])


def sparsity(model: Module, patterns: Patterns | None = None) -> Sparsity:
    """Zeros in the weights that `prunable` would find."""
    chosen = {(id(module), name) for module, name in prunable(model, patterns)}
    rows = {
        path: (int((_values(*pair) == 0).sum()), _values(*pair).size)
        for path, pair in weights_by_name(model).items()
        if (id(pair[0]), pair[1]) in chosen
    }
    return Sparsity(rows)


class IterativePruning(Callback):
    """Magnitude pruning in small steps between epochs, s(e) = s₁ + (s₀ − s₁)(1 − (e − start)/(end − start))³.

    final: the share s₁ of zeros from epoch `end` on; initial: s₀. layerwise: every layer has that share, rather than
    all of them together. (Zhu and Gupta 2017.) Masks are part of the model's state: a resumed training has them.

    >>> Trainer(max_epochs=10, callbacks=IterativePruning(0.8, start=2, end=8)).fit(task, train_loader)
    """

    def __init__(
        self,
        final: float,
        *,
        start: int = 0,
        end: int,
        initial: float = 0.0,
        patterns: Patterns | None = None,
        layerwise: bool = False,
    ) -> None:
        if not 0 <= initial <= final <= 1 or not 0 <= start <= end:
            raise OptionError(
                f"IterativePruning: expected 0 ≤ initial ≤ final ≤ 1 and 0 ≤ start ≤ end, got initial {initial}, "
                f"final {final}, start {start}, end {end}"
            )
        self.final, self.initial, self.start, self.end = final, initial, start, end
        self.patterns, self.layerwise = patterns, layerwise
        self.weights: list[Weight] = []

    def prepare(self, task: Task) -> None:
        """Put masks of ones on the weights; the optimiser keeps the same parameters."""
        self.weights = prunable(task, self.patterns)
        for pair in self.weights:
            identity(*pair)

    def target(self, epoch: int) -> float:
        """The share of zeros in an epoch."""
        if epoch < self.start:
            return 0.0
        left = 0.0 if epoch >= self.end else (self.end - epoch) / (self.end - self.start)
        return self.final + (self.initial - self.final) * left**3

    def on_train_epoch_start(self, trainer: Trainer, task: Task) -> None:
        prune_to(self.weights, self.target(trainer.current_epoch), self.layerwise)

    def figures(self, trainer: Trainer, task: Task) -> dict[str, float]:
        kept, entries = _count(self.weights)
        return {"sparsity": 1 - kept / entries}


def prune_to(weights: Sequence[Weight], share: float, layerwise: bool = False) -> None:
    """Prune by magnitude until this share of all entries (or of each weight) is pruned; never brings any back."""
    for group in [[pair] for pair in weights] if layerwise else [list(weights)]:
        kept, entries = _count(group)
        wanted = round(share * entries) - (entries - kept)
        if wanted > 0:
            global_unstructured(group, wanted)


# ------------------------------------------------------------------------------------------- masks


def weights_by_name(model: Module) -> dict[str, Weight]:
    """Every parameter under the name it has without parametrisations → where it is read."""
    found: dict[str, Weight] = {}
    for path, module in model.named_modules():
        if path.endswith("parametrizations") or ".parametrizations." in f".{path}":
            continue
        computed = list(module.parametrizations) if is_parametrized(module) else []
        for name in [*(n for n, p in module._parameters.items() if p is not None), *computed]:
            found[f"{path}.{name}" if path else name] = module, name
    return found


def _found(module: Module, name: str) -> Mask | None:
    if not is_parametrized(module, name):
        return None
    return next((part for part in module.parametrizations[name] if isinstance(part, Mask)), None)


def _values(module: Module, name: str) -> NDArray:
    with weft.no_grad():
        return getattr(module, name).detach().numpy()


def _kept(module: Module, name: str) -> NDArray[np.bool_]:
    found = _found(module, name)
    return np.ones(tuple(getattr(module, name).shape), bool) if found is None else found.mask.numpy().copy()


def _write(module: Module, name: str, kept: NDArray[np.bool_]) -> None:
    """Give a weight this mask, in the memory of the one it has."""
    identity(module, name)
    _found(module, name).mask.copy_(weft.tensor(kept))


def _count(weights: Sequence[Weight]) -> tuple[int, int]:
    """Entries kept, and all."""
    kept = [_kept(*pair) for pair in weights]
    return sum(int(mask.sum()) for mask in kept), sum(mask.size for mask in kept)


def _by_chance(generator: Generator | None, who: str) -> Callable[[NDArray], NDArray]:
    return lambda values: generator_of(generator, who).uniform(values.shape, np.float64)


def _prune_entries(module: Module, name: str, amount: Amount, importance: Callable[[NDArray], NDArray]) -> Module:
    global_unstructured([(module, name)], amount, importance)
    return module


def _prune_slices(
    module: Module, name: str, amount: Amount, dim: int, importance: Callable[[NDArray], NDArray]
) -> Module:
    """Prune slices along `dim` by their importance; those without any entry left do not count."""
    kept, values = _kept(module, name), _values(module, name)
    rows = np.moveaxis(values, dim, 0).reshape(values.shape[dim], -1)  # (slices, entries of a slice)
    alive = np.moveaxis(kept, dim, 0).reshape(values.shape[dim], -1).any(1)
    left = _without_least(importance(rows), alive, amount)
    shape = [-1 if axis == dim % values.ndim else 1 for axis in range(values.ndim)]
    _write(module, name, kept & left.reshape(shape))
    return module


def _without_least(scores: NDArray, kept: NDArray[np.bool_], amount: Amount) -> NDArray[np.bool_]:
    """`kept` without the least of the scores that it has: (n,), (n,) → (n,)."""
    remaining = np.flatnonzero(kept)
    order = np.argsort(scores[remaining], kind="stable")
    left = kept.copy()
    left[remaining[order[: _how_many(amount, len(remaining))]]] = False
    return left


def _how_many(amount: Amount, remaining: int) -> int:
    """A share of what remains, rounded, or a number of entries."""
    whole = isinstance(amount, (int, np.integer)) and not isinstance(amount, bool)
    if not whole and not (isinstance(amount, float) and 0 <= amount <= 1):
        raise OptionError(f"amount: expected a share in [0, 1] or a number of entries, got {amount!r}")
    if whole and not 0 <= amount <= remaining:
        raise OptionError(f"amount: expected 0 to {remaining} entries, as many as are not pruned yet, got {amount}")
    return int(amount) if whole else round(amount * remaining)
