"""What a training on several ranks does beside that on one: shared starts, mean gradients, joint figures, common decisions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from ... import random
from ...data.ranks import RankLoader, for_rank
from ...distributed import groups
from ...distributed.objects import _gathered
from ...distributed.optim import ZeroRedundancyOptimizer
from ...errors import OptionError
from ...nn.parallel.distributed import average_gradients, check_alike, share_from_first
from ...nn.parallel.shard import cut_of, fully_shard
from ...ops.collective.exchange import exchanged
from ...runtime.cluster.world import launched_size
from ...tape.modes import no_grad
from ...tensor import Tensor
from .record import Fed, Logged, as_float

__all__ = ["Ranks", "Share"]

STRATEGIES = ("ddp", "zero1", "zero3")


class Share(NamedTuple):
    """Of a joint batch: how many examples of this rank count, the weight of its loss in the mean over ranks, its rows."""

    size: int
    weight: float
    part: tuple[int, int, int]  # the first row, how many, of how many


class Ranks:
    """The processes of one training. Alone, everything here does nothing."""

    def __init__(self, devices: int | str | None, strategy: str | None) -> None:
        size = launched_size()
        if devices not in (None, "auto", -1, size):
            raise OptionError(
                f"Trainer: devices={devices}, but there {'is one process' if size == 1 else f'are {size} processes'}; start with "
                f"`weft launch -n {devices} script.py`"
            )
        if strategy not in (None, "auto", *STRATEGIES):
            raise OptionError(f"Trainer: strategy must be one of {', '.join(STRATEGIES)}, got {strategy!r}")
        self.strategy = "ddp" if strategy in (None, "auto") else strategy
        self.size, self.group = size, None

    def start(self) -> None:
        """Meet the other ranks."""
        if self.size > 1 and self.group is None:
            if not groups.is_initialized():
                groups.init_process_group()
            self.group = groups.require_group(None, "Trainer")

    @property
    def rank(self) -> int:
        return 0 if self.group is None else self.group.rank

    @property
    def first(self) -> bool:
        """Whether this rank writes."""
        return self.rank == 0

    @property
    def cuts(self) -> bool:
        """Whether state is cut over ranks."""
        return self.size > 1 and self.strategy != "ddp"

    # ------------------------------------------------------------------------------ model and data
    def share_model(self, task: Any) -> None:
        """All ranks begin as rank 0; under zero3 each keeps its part."""
        if self.size == 1 or any(cut_of(p) is not None for p in task.parameters()):
            return
        check_alike(task, self.group)
        share_from_first([*task.parameters(), *task.buffers()], self.group)
        self.share_random_state()
        if self.strategy == "zero3":
            for module in task.children():
                if any(True for _ in module.parameters()):
                    fully_shard(module, process_group=self.group)
            if any(cut_of(p) is None for p in task.parameters()):
                fully_shard(task, process_group=self.group)

    def share_random_state(self) -> None:
        """The default random stream of rank 0, on all."""
        random.set_rng_state(self.told(random.get_rng_state()))

    def optimizers(self, given: Sequence[Any]) -> list[Any]:
        """Under zero1, optimisers that keep this rank's part; schedules go on moving the groups of those that were given."""
        if self.size == 1 or self.strategy != "zero1":
            return list(given)
        return [self._cut_optimizer(optimizer) for optimizer in given]

    def _cut_optimizer(self, optimizer: Any) -> ZeroRedundancyOptimizer:
        options = [dict(group) for group in optimizer.param_groups]
        found = ZeroRedundancyOptimizer(options, type(optimizer), self.group, **_told_options(optimizer))
        found.__dict__["param_groups"] = optimizer.__dict__["param_groups"]
        optimizer._opt_called = True  # steps are made in its place
        return found

    def loader(self, loader: Any) -> Any:
        """This rank's part of a loader; the order is rank 0's."""
        if self.size == 1 or loader is None:
            return loader
        found = for_rank(loader, self.rank, self.size)
        if isinstance(found, RankLoader):
            found.seed = self.told(found.seed)
            sampler: Any = found.sampler
            if hasattr(sampler, "seed"):
                sampler.seed = self.told(sampler.seed)
        return found

    def shares(self, loader: Any, number: int, size: int) -> Share:
        """What of a joint batch is this rank's."""
        if self.size == 1 or not isinstance(loader, RankLoader):
            return Share(size, 1.0, (self.rank, 1, self.size))
        low, own, joint = loader.shares(number)
        even = own * self.size == joint
        return Share(
            own,
            own * self.size / joint,
            (self.rank, 1, self.size) if even else (low, own, joint) if own else (0, 1, joint),
        )

    # ------------------------------------------------------------------------------ steps
    def average(self, parameters: Sequence[Tensor]) -> None:
        """Gradients become their means over ranks; parts of cut parameters are means already."""
        if self.size > 1:
            whole = [p for p in parameters if cut_of(p) is None and p.requires_grad]
            if whole:
                average_gradients(whole, self.group)

    def mean(self, loss: Tensor) -> Tensor:
        """The mean of a loss over ranks, without a gradient: what all decide by."""
        if self.size == 1:
            return loss
        with no_grad():
            return exchanged(loss.detach(), "all_reduce", self.group, "avg")

    @contextmanager
    def drawing(self, share: Share) -> Iterator[None]:
        """Random numbers inside are this rank's part of those for the joint batch."""
        generator: Any = random.default_generator
        generator.part = share.part
        try:
            yield
        finally:
            generator.part = (0, 1, 1)

    # ------------------------------------------------------------------------------ figures and decisions
    def told(self, value: Any) -> Any:
        """What rank 0 says, on all ranks."""
        return value if self.size == 1 else _gathered(value if self.first else None, self.group)[0]

    def every(self, value: Any) -> list[Any]:
        """What each rank says, on all ranks."""
        return [value] if self.size == 1 else _gathered(value, self.group)

    def joint(
        self, loss: Any, values: Logged, size: int, notes: Sequence[float] = ()
    ) -> tuple[Any, Logged, int, np.ndarray]:
        """Means over all examples of the joint batch, its size, and the notes of all ranks, (ranks, notes)."""
        if self.size == 1:
            return loss, values, size, np.array([notes])
        names = sorted(values)
        numbers = [as_float(values[name][0]) for name in names] + ([] if loss is None else [as_float(loss)])
        weights = [size if values[name][1] in (None, 0) else values[name][1] for name in names]
        weights += [] if loss is None else [size]
        row = np.array([*numbers, *weights, size, *notes], np.float64)
        rows = np.stack(_gathered(row, self.group))
        count = len(numbers)
        means = [_mean(rows[:, k], rows[:, count + k]) for k in range(count)]
        totals = rows[:, count : 2 * count].sum(0)
        found = {
            name: (means[k], values[name][1] if values[name][1] in (None, 0) else float(totals[k]))
            for k, name in enumerate(names)
        }
        return None if loss is None else means[-1], found, int(rows[:, 2 * count].sum()), rows[:, 2 * count + 1 :]

    def fed(self, fed: Fed, counts: bool = True) -> Fed:
        """What metrics are fed with on all ranks, in their order: each rank's metric sees the joint batch."""
        if self.size == 1 or not any(True for rank in _gathered(bool(fed) and counts, self.group) if rank):
            return fed if self.size == 1 else []
        own = [(name, tuple(_plain(x) for x in given)) for name, given in fed] if counts else []
        rows = _gathered(own, self.group)
        return [(name, tuple(_tensor(x) for x in given)) for row in rows for name, given in row]


def _mean(values: np.ndarray, weights: np.ndarray) -> float:
    used = weights > 0
    if not used.any():
        return float(values[0])
    return float((values[used] * weights[used]).sum() / weights[used].sum())


def _plain(x: Any) -> Any:
    return ("tensor", x.detach().numpy()) if isinstance(x, Tensor) else x


def _tensor(x: Any) -> Any:
    from ...tensor import wrap

    return wrap(x[1]) if isinstance(x, tuple) and len(x) == 2 and isinstance(x[0], str) and x[0] == "tensor" else x


def _told_options(optimizer: Any) -> dict[str, Any]:
    """The options that an optimiser of this class takes."""
    import inspect

    taken = inspect.signature(type(optimizer).__init__).parameters
    return {name: value for name, value in optimizer.defaults.items() if name in taken}
