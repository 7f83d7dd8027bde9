"""A training step that can be repeated from the same start under other rates, for the start-up routine.

`Rig` holds a task with its optimiser and a part of the training data, and sets weights, optimiser state, learning rate
and weight decay back or to other values.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import weft

from ..errors import OptionError
from ..nn.module import Module
from ..optim.optimizer import Optimizer
from ..tensor import Tensor
from ..utils.pytree import tree_flatten, tree_unflatten
from .running.configure import read_optimizers

__all__ = [
    "Course",
    "Part",
    "Rig",
    "accuracy_of",
    "against_chance",
    "classes_of",
    "limit",
    "neighbours",
    "pair",
    "squared_gradients",
    "tensors",
]

WINDOW = 5  # batches in the moving average of a loss
FEW_LABELS = 128  # among a few examples, at most
EXPLODED = 3.0  # times the first loss (N1 §2.9, 6a)


@dataclass(frozen=True)
class Course:
    """What a short training run did: the loss of each batch before its step, at a learning rate and a weight decay."""

    rate: float
    decay: float | None
    first: float
    losses: list[float] = field(repr=False)

    @property
    def final(self) -> float:
        """The mean of the last quarter."""
        last = self.losses[-max(1, len(self.losses) // 4) :]
        return sum(last) / len(last)

    @property
    def exploded(self) -> bool:
        """Whether the loss is not finite or its moving average exceeds three times the first loss."""
        return not all(map(math.isfinite, self.losses)) or max(self.smooth) > limit(self.first)

    @property
    def smooth(self) -> list[float]:
        """The moving average of the losses over `WINDOW` batches."""
        spans = (self.losses[max(0, i - WINDOW + 1) : i + 1] for i in range(len(self.losses)))
        return [sum(span) / len(span) for span in spans]

    @property
    def progress(self) -> float:
        """By how much the loss fell; −∞ where it exploded."""
        return -math.inf if self.exploded else self.first - self.final


def limit(first: float) -> float:
    """The loss that counts as exploded: 3 · first for positive losses, as far above a negative one."""
    return first + (EXPLODED - 1) * abs(first)


class Rig:
    """A task and its optimiser, ready to start again and again from the same weights.

    task: any module with `training_step(batch)` and `configure_optimizers()` that gives one optimiser
    part: the data it learns from; `first` is its mean loss there before any step
    """

    def __init__(self, task: Module, part: Part, compile: bool = True) -> None:
        self.task, self.part, self.optimizer = task, part, one_optimizer(task)
        self.tensors = [*task.parameters(), *task.buffers()]
        self.start = [t.detach().clone() for t in self.tensors]
        self.state = deepcopy(self.optimizer.state_dict())
        groups = self.optimizer.param_groups
        self.rates = [float(g.get("max_lr", g.get("initial_lr", g["lr"]))) for g in groups]
        self.decays = [g.get("weight_decay") for g in groups]
        self.numbered = len(inspect.signature(task.training_step).parameters) > 1
        self._step = weft.compile(self._train, fallback="eager") if compile else self._train
        self._loss = weft.compile(self.loss, fallback="eager") if compile else self.loss
        self.reset()
        self.first = self.mean_loss(part.train[:8])

    @property
    def rate(self) -> float:
        """The learning rate as it was set up (of the first group)."""
        return self.rates[0]

    @property
    def decay(self) -> float | None:
        """The weight decay as it was set up; None where the optimiser has none."""
        return None if self.decays[0] is None else float(self.decays[0])

    def reset(self, factor: float = 1.0, decay: float | None = None, dropout: bool = True) -> None:
        """Back to the first weights, with all rates times `factor` and, unless None, the weight decay `decay`."""
        with weft.no_grad():
            for tensor, value in zip(self.tensors, self.start, strict=True):
                tensor.copy_(value)
            self._forget()
        for group, rate, own in zip(self.optimizer.param_groups, self.rates, self.decays, strict=True):
            group["lr"] = rate * factor
            if own is not None:
                group["weight_decay"] = own if decay is None else decay
        self.task.train()
        if not dropout:
            for module in self.task.modules():
                if "Dropout" in type(module).__name__:
                    module.eval()

    def _forget(self) -> None:
        """The optimiser as before its first step; its tensors stay where they are, so that a compiled step holds."""
        known = {id(p): group for group in self.optimizer.param_groups for p in group["params"]}
        states = self.optimizer.state
        if not all(id(p) in known and all(isinstance(v, Tensor) for v in s.values()) for p, s in states.items()):
            self.optimizer.load_state_dict(deepcopy(self.state))
            return
        for parameter, state in states.items():
            fresh = self.optimizer._start(parameter, known[id(parameter)])
            for name, tensor in state.items():
                value = fresh.get(name)
                tensor.copy_(value) if isinstance(value, Tensor) else tensor.zero_()

    def loss(self, batch: Any) -> Tensor:
        """The loss of a batch, as the task computes it for training."""
        result = self.task.training_step(batch, 0) if self.numbered else self.task.training_step(batch)
        if hasattr(self.task, "recorder"):
            self.task.recorder.begin()  # nobody reads what a step logs here
        return result["loss"] if isinstance(result, dict) else result

    def _train(self, batch: Any) -> Tensor:
        self.optimizer.zero_grad()
        value = self.loss(batch)
        value.backward()
        self.optimizer.step()
        return value

    def step(self, batch: Any) -> float:
        """One training step; the loss before it."""
        return float(self._step(batch))

    def train(self, steps: int, factor: float = 1.0, decay: float | None = None) -> Course:
        """A short run from the start; it ends early when the loss is not finite."""
        self.reset(factor, decay)
        batches, losses = self.part.train, []
        while len(losses) < steps and (not losses or math.isfinite(losses[-1])):
            losses.append(self.step(batches[len(losses) % len(batches)]))
        return Course(self.rate * factor, self.decay if decay is None else decay, self.first, losses)

    def mean_loss(self, batches: Iterable[Any]) -> float:
        """The mean loss over batches at the present weights, in the present mode."""
        with weft.no_grad():
            values = [float(self._loss(batch)) for batch in batches]
        return sum(values) / len(values)

    def outputs(self, x: Tensor) -> Tensor | None:
        """What the task says about inputs, where it takes them alone."""
        try:
            with weft.no_grad():
                out = self.task(x)
        except Exception:
            return None  # a task whose forward pass takes something else
        return out if isinstance(out, Tensor) else None

    def matrices(self) -> dict[str, Tensor]:
        """Trainable weights with an axis of units (axis 0): all of two axes or more but the tables of embeddings."""
        tables = {id(p) for m in self.task.modules() if "Embedding" in type(m).__name__ for p in m.parameters()}
        named = self.task.named_parameters()
        return {n: p for n, p in named if p.requires_grad and p.ndim > 1 and id(p) not in tables}


def one_optimizer(task: Any) -> Optimizer:
    """The optimiser that a task sets up; its schedules are left out."""
    found = read_optimizers(task.configure_optimizers())[0]
    if len(found) > 1:
        raise OptionError(f"the start-up routine needs a task with one optimiser, this one has {len(found)}")
    return found[0]


@dataclass(frozen=True)
class Part:
    """Batches of training data: those to learn from, those held back, and a handful of examples."""

    train: list[Any]
    held: list[Any]
    few: Any

    @staticmethod
    def of(batches: Iterable[Any], wanted: int, few: int) -> Part:
        """The first `wanted` batches, every fourth of them held back; a single batch is cut in two."""
        taken = [batch for batch, _ in zip(batches, range(wanted), strict=False)]
        if not taken:
            raise OptionError("the start-up routine needs at least one batch of training data, the loader gave none")
        if len(taken) == 1:
            size = tensors(taken[0])[0].shape[0]
            taken = [cut(taken[0], slice(0, -(size // 4) or None)), cut(taken[0], slice(-(size // 4), None))]
        held = taken[3::4] or taken[-1:]
        labels = tensors(taken[0])[-1]
        few = max(1, min(few, FEW_LABELS * len(labels) // max(1, labels.numel())))  # of sequences, fewer
        return Part([b for b in taken if not any(b is h for h in held)], held, cut(taken[0], slice(0, few)))


def tensors(batch: Any) -> list[Tensor]:
    """The tensors of a batch."""
    return [leaf for leaf in tree_flatten(batch)[0] if isinstance(leaf, Tensor)]


def pair(batch: Any) -> tuple[Tensor, Tensor] | None:
    """Inputs and labels, where a batch is a pair of tensors with one entry each for every example."""
    if isinstance(batch, tuple | list) and len(batch) == 2 and all(isinstance(t, Tensor) and t.ndim for t in batch):
        return batch[0], batch[1]
    return None


def cut(batch: Any, where: Any) -> Any:
    """The chosen examples of a batch."""
    leaves, spec = tree_flatten(batch)
    return tree_unflatten([leaf[where] if isinstance(leaf, Tensor) else leaf for leaf in leaves], spec)


# ---------------------------------------------------------------- measurements


def classes_of(rig: Rig, x: Tensor, y: Tensor) -> int | None:
    """The number of classes where labels are class numbers, or 0 and 1; None otherwise."""
    values = np.unique(y.numpy())
    if y.is_floating_point():
        return 2 if len(values) <= 2 and {*values.tolist()} <= {0.0, 1.0} else None
    out = rig.outputs(x)
    if out is None or out.ndim != y.ndim + 1:
        return int(values.max()) + 1
    return out.shape[1] if out.shape[2:] == y.shape[1:] else out.shape[-1]


def accuracy_of(rig: Rig, x: Tensor, y: Tensor) -> float | None:
    """The share of labels that have the highest score; None where outputs are no scores of classes."""
    out = None if y.is_floating_point() else rig.outputs(x)
    if out is None or out.ndim != y.ndim + 1:
        return None
    axis = 1 if out.shape[2:] == y.shape[1:] else -1
    return float((out.argmax(axis) == y).float().mean())


def squared_gradients(rig: Rig, batches: int) -> dict[str, tuple[np.ndarray, bool]]:
    """Mean squared gradient of each unit over small steps, and whether all units had the same weights and gradients.

    The steps go along the gradient by 1e-3 of length: enough to open branches that begin at zero on purpose.
    """
    rig.reset(dropout=False)
    weights = rig.matrices()
    squares = {name: np.zeros(p.shape[0]) for name, p in weights.items()}
    apart = {name: np.zeros(4) for name in weights}
    for i in range(batches):
        rig.task.zero_grad()
        rig.loss(rig.part.train[i % len(rig.part.train)]).backward()
        for name, p in weights.items():
            rows = np.zeros((p.shape[0], 1)) if p.grad is None else p.grad.numpy().reshape(p.shape[0], -1)
            squares[name] += (rows.astype(np.float64) ** 2).mean(1) / batches
            found = _apart(rows) + _apart(p.detach().numpy().reshape(p.shape[0], -1))
            apart[name] = np.maximum(apart[name], found)
        _small_step(rig)
    return {name: (squares[name], _same(*apart[name])) for name in weights}


def _apart(rows: np.ndarray) -> tuple[float, float]:
    """(the largest difference from the first row, the largest number)."""
    return float(np.abs(rows - rows[:1]).max(initial=0)), float(np.abs(rows).max(initial=0))


def _same(gradients: float, gradient: float, weights: float, weight: float) -> bool:
    """Whether the largest differences are rounding.

    They are never compared within one batch: products round equal columns differently at the edges of their tiles, and
    the gradient of one batch may be nothing but what such rounding leaves of a sum that is zero.
    """
    return gradients <= 1e-3 * gradient and weights <= 1e-5 * weight


def _small_step(rig: Rig) -> None:
    parameters = [p for p in rig.task.parameters() if p.grad is not None]
    length = math.sqrt(sum(float((p.grad**2).sum()) for p in parameters))
    with weft.no_grad():
        for p in parameters:
            p -= p.grad * (1e-3 / max(length, 1e-30))


def against_chance(rig: Rig, permutations: int = 16, most: int = 4) -> float:
    """By how many deviations the loss on (four) held-back batches lies below the losses with permuted labels."""
    rig.task.eval()
    numbers = np.random.default_rng(0)
    inputs, labels = zip(*(pair(batch) for batch in rig.part.held[:most]), strict=True)
    together, sizes = weft.cat(list(labels)), [len(y) for y in labels]

    def chance() -> float:
        moved = together[weft.tensor(numbers.permutation(len(together)))].split(sizes)
        return rig.mean_loss(zip(inputs, moved, strict=True))

    losses = [chance() for _ in range(permutations)]
    mean, deviation = float(np.mean(losses)), float(np.std(losses))
    true = rig.mean_loss(zip(inputs, labels, strict=True))
    return (mean - true) / deviation if deviation > 0 and math.isfinite(deviation) else 0.0


def neighbours(part: Part, most: int = 1000) -> float | None:
    """By how many deviations nearest neighbours share their class more often than chance; None without classes."""
    batches = [pair(batch) for batch in part.train + part.held]
    if not all(b and b[0].is_floating_point() and not b[1].is_floating_point() and b[1].ndim == 1 for b in batches):
        return None
    x = np.concatenate([b[0].numpy().reshape(len(b[0]), -1) for b in batches])[:most]  # (N, D)
    x = np.nan_to_num(x.astype(np.float64))
    y = np.concatenate([b[1].numpy() for b in batches])[:most]
    distances = (x**2).sum(1)[:, None] + (x**2).sum(1) - 2 * x @ x.T  # (N, N)
    np.fill_diagonal(distances, np.inf)
    agree = float((y[distances.argmin(1)] == y).mean())
    chance = float((np.unique(y, return_counts=True)[1] / len(y)) @ (np.unique(y, return_counts=True)[1] / len(y)))
    return (agree - chance) / max(math.sqrt(chance * (1 - chance) / len(y)), 1e-12)
