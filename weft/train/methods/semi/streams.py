"""Two streams of examples: a few labelled ones, drawn once, and beside each batch of them `uratio` times as many without.

The labelled subset belongs to the state of the loader: a checkpoint keeps it, and a run that is resumed goes on with the
very same examples even if its loader was made with another seed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....data import DataLoader, TensorDataset
from ....data.augment.base import Augmentation
from ....errors import OptionError, ShapeError
from ....ops.create.interchange import as_tensor
from ....random import Generator
from ....tensor import Tensor, wrap

__all__ = ["SemiBatch", "SemiLoader", "labelled_subset"]

UNKNOWN = -1


class SemiBatch(NamedTuple):
    """What a step sees, in USB's names: B labelled examples and M = uratio · B others in two views of each.

    Shapes: x_lb (B, …), y_lb (B), x_ulb_w and x_ulb_s (M, …): weakly and strongly augmented; idx_ulb (M): which of the
    unlabelled set they are; y_ulb (M): true labels where they are known, −1 elsewhere, for monitoring alone
    """

    x_lb: Tensor
    y_lb: Tensor
    x_ulb_w: Tensor
    x_ulb_s: Tensor
    idx_ulb: Tensor
    y_ulb: Tensor


class SemiLoader(DataLoader[SemiBatch]):
    """Batches of labelled and unlabelled examples.

    x, y: all examples (N, …) and labels (N); of y only the `labelled` rows are learned from, others are for monitoring and
        may be −1
    labelled: rows of the labelled subset, as `labelled_subset` draws it
    batch_size, uratio: B labelled and uratio · B unlabelled examples a step; an epoch is one pass over the unlabelled
    weak, strong: augmentations of x; None leaves it as it is, and without `strong` the second view is another weak one
    include_lb_to_ulb: whether the labelled examples are among the unlabelled, too
    seed: of orders and augmentation

    >>> x, y = weft.rand(8, 2), weft.tensor([0, 1] * 4)
    >>> loader = SemiLoader(x, y, labelled_subset(y, 2, seed=0), batch_size=2, uratio=3, seed=0)
    >>> batch = next(iter(loader))
    >>> len(batch.x_lb), len(batch.x_ulb_w), sorted(batch.y_lb.tolist())
    (2, 6, [0, 1])
    """

    def __init__(
        self,
        x: Any,
        y: Any,
        labelled: Any,
        *,
        batch_size: int = 64,
        uratio: int = 7,
        weak: Callable[..., Any] | None = None,
        strong: Callable[..., Any] | None = None,
        include_lb_to_ulb: bool = True,
        seed: int | None = None,
    ) -> None:
        self.x, self.y = as_tensor(x), as_tensor(y)
        if self.x.ndim < 1 or self.y.shape != self.x.shape[:1]:
            raise ShapeError(f"SemiLoader: expected x (N, …) and y (N), got {self.x.shape} and {self.y.shape}")
        if uratio < 1:
            raise OptionError(
                f"SemiLoader: expected uratio, unlabelled examples for each labelled one, ≥ 1, got {uratio}"
            )
        self.uratio, self.weak, self.strong = uratio, weak, strong
        self.include_lb_to_ulb, self.lb_batch_size = include_lb_to_ulb, batch_size
        self.labelled = self._checked(labelled)
        super().__init__(
            self._unlabelled_set(),
            batch_size * uratio,
            shuffle=True,
            drop_last=True,
            seed=seed,
            batch_transform=self.both,
        )

    def _checked(self, labelled: Any) -> NDArray[np.int64]:
        rows = np.asarray(labelled.array if isinstance(labelled, Tensor) else labelled, np.int64)
        if rows.ndim != 1 or not len(rows) or len(np.unique(rows)) < len(rows):
            raise ShapeError(f"SemiLoader: expected labelled rows (L) that differ, L ≥ 1, got {rows.tolist()}")
        if rows.min() < 0 or rows.max() >= len(self.y):
            raise OptionError(f"SemiLoader: labelled rows must lie in [0, {len(self.y)}), got {rows.max()}")
        if (self.y.array[rows] < 0).any():
            raise OptionError("SemiLoader: a labelled row has the label −1; choose rows whose labels are known")
        return rows

    def _unlabelled_set(self) -> TensorDataset:
        rows = np.arange(len(self.y))
        if not self.include_lb_to_ulb:
            rows = np.setdiff1d(rows, self.labelled)
        if len(rows) < self.lb_batch_size * self.uratio:
            raise OptionError(
                f"SemiLoader: {len(rows)} unlabelled examples make no batch of {self.lb_batch_size} · {self.uratio}; "
                "take a smaller batch_size or uratio"
            )
        return TensorDataset(wrap(rows), wrap(np.arange(len(rows))))

    @property
    def ulb_dest_len(self) -> int:
        """How many unlabelled examples there are."""
        return len(self.dataset)

    def both(self, batch: tuple[Tensor, Tensor], generator: Generator) -> SemiBatch:
        """The batch around some unlabelled rows: labelled ones drawn anew, both augmented."""
        rows, places = batch
        drawing, first, second, third = generator.split(4)
        chosen = self.labelled[cycled(len(self.labelled), self.lb_batch_size, drawing)]
        x = self.x.array[rows.array]
        strong = self.weak if self.strong is None else self.strong
        return SemiBatch(
            augmented(self.x.array[chosen], self.weak, first),
            wrap(self.y.array[chosen].astype(np.int64)),
            augmented(x, self.weak, second),
            augmented(x, strong, third),
            places,
            wrap(self.y.array[rows.array].astype(np.int64)),
        )

    def state_dict(self) -> dict[str, Any]:
        """Where the iteration stands, and the labelled rows."""
        return super().state_dict() | {"labelled": self.labelled.tolist()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on with the labelled rows of the state, whatever rows this loader was made with."""
        if "labelled" not in state_dict:
            raise OptionError("SemiLoader: the state has no labelled rows; it is of another kind of loader")
        self.labelled = self._checked(state_dict["labelled"])
        self.dataset = self._unlabelled_set()
        super().load_state_dict(state_dict)


def labelled_subset(y: Any, num_labels: int, *, seed: int) -> NDArray[np.int64]:
    """Rows of `num_labels` examples, as many of each class, drawn once: (L), sorted.

    y: labels (N); rows with −1 are never drawn

    >>> y = weft.tensor([0, 0, 1, 1, 1])
    >>> labelled_subset(y, 2, seed=0).shape
    (2,)
    """
    labels = np.asarray(y.array if isinstance(y, Tensor) else y)
    classes = np.unique(labels[labels >= 0])
    if not len(classes) or num_labels < 1 or num_labels % len(classes):
        raise OptionError(f"labelled_subset: {num_labels} labels cannot be shared out evenly to {len(classes)} classes")
    each, stream = num_labels // len(classes), Generator().manual_seed(seed)
    found = []
    for number, label in enumerate(classes):
        rows = np.flatnonzero(labels == label)
        if len(rows) < each:
            raise OptionError(f"labelled_subset: class {label} has {len(rows)} examples, {each} are asked for")
        found.append(rows[stream.fold_in(number).permutation(len(rows))[:each]])
    return np.sort(np.concatenate(found))


def cycled(count: int, wanted: int, generator: Generator) -> NDArray[np.int64]:
    """`wanted` numbers below `count`: whole permutations one after the other, cut off at the end."""
    turns = -(-wanted // count)
    return np.concatenate([generator.fold_in(turn).permutation(count) for turn in range(turns)])[:wanted]


def augmented(x: NDArray, change: Callable[..., Any] | None, generator: Generator) -> Tensor:
    """The examples through an augmentation, or a plain function of tensors."""
    given = wrap(np.ascontiguousarray(x))
    if change is None:
        return given
    return change(given, generator) if isinstance(change, Augmentation) else change(given)
