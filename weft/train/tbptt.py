"""Truncated back-propagation through time: a long sequence in chunks, the state carried on, its history cut (N2 §5.3).

The state after a chunk starts the next one, so the forward pass is that of the whole sequence; gradients go back to the
beginning of the chunk only. `BPTTDataset` of `weft.data.text` cuts a text into such chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import weft

from ..errors import OptionError, ShapeError
from ..nn.module import Module
from ..optim import Optimizer
from ..tensor import Tensor
from ..utils.pytree import tree_flatten, tree_unflatten
from .supervised import Supervised

__all__ = ["CarriedState", "TruncatedBPTT", "run_with_resets"]


class CarriedState(Module):
    """A state that outlives a step: written in place, so that compiled steps and checkpoints know it.

    state: tensors (or a tuple of them) with the batch in dimension `batch_dim`, as they are at the beginning

    >>> carried = CarriedState(model.initial_state(20))  # doctest: +SKIP
    >>> prediction, after = model(x, carried.begin(resets[:, 0]))  # doctest: +SKIP
    >>> carried.keep(after)  # doctest: +SKIP
    """

    def __init__(self, state: Any, batch_dim: int = 1) -> None:
        super().__init__()
        parts, self._form = tree_flatten(state)
        self.batch_dim, self.count = batch_dim, len(parts)
        for number, part in enumerate(parts):
            self.register_buffer(f"state_{number}", part.detach().clone())
            self.register_buffer(f"initial_{number}", part.detach().clone(), persistent=False)

    def begin(self, resets: Tensor | None = None) -> Any:
        """The state without its history; the initial one in the rows where `resets` (B,) is true."""
        return tree_unflatten([self._row(number, resets) for number in range(self.count)], self._form)

    @weft.no_grad()
    def keep(self, state: Any) -> None:
        """Remember the state after a chunk."""
        for number, part in enumerate(tree_flatten(state)[0]):
            getattr(self, f"state_{number}").copy_(part.detach())

    def reset(self) -> None:
        """Back to the beginning, in all rows."""
        self.keep(tree_unflatten([getattr(self, f"initial_{n}") for n in range(self.count)], self._form))

    def _row(self, number: int, resets: Tensor | None) -> Tensor:
        # A copy: `keep` writes into the buffer while the step still needs what it began with.
        now, first = getattr(self, f"state_{number}").clone(), getattr(self, f"initial_{number}")
        return now if resets is None else _chosen(resets, first, now, self.batch_dim)


class TruncatedBPTT(Supervised):
    """`Supervised` for models (x, state) → (prediction, state) over batches (x, y, resets) of consecutive chunks.

    batch_size: rows of the training chunks; eval_batch_size: those of validation and test (None: the same), which carry
    states of their own. The model has `initial_state(batch_size)`. resets (B, T): True where a sequence begins; with
    `resets_within` also inside chunks, which runs the model place by place. Without resets (batches (x, y)) the state
    starts anew only with each epoch. Other arguments as in `Supervised`.

    >>> chunks = BPTTDataset(tokens, batch_size=20, length=35)  # doctest: +SKIP
    >>> task = TruncatedBPTT(RecurrentLanguageModel(1000, 64, 64), loss, batch_size=20)  # doctest: +SKIP
    """

    def __init__(
        self,
        model: Module,
        loss: Callable[[Any, Any], Tensor],
        batch_size: int,
        *,
        eval_batch_size: int | None = None,
        resets_within: bool = False,
        optimizer: Callable[[Any], Optimizer] | Optimizer | None = None,
        metrics: Mapping[str, Any] | None = None,
        scheduler: Callable[[Optimizer], Any] | None = None,
    ) -> None:
        super().__init__(model, loss, optimizer, metrics, scheduler)
        if not hasattr(model, "initial_state"):
            raise OptionError(f"TruncatedBPTT: {type(model).__name__} must define initial_state(batch_size)")
        self.resets_within = resets_within
        self.carried = CarriedState(model.initial_state(batch_size))
        self.carried_in_tests = CarriedState(model.initial_state(eval_batch_size or batch_size))

    def on_train_epoch_start(self) -> None:
        self.carried.reset()

    def on_validation_start(self) -> None:
        self.carried_in_tests.reset()

    def shared_step(self, batch: Any, stage: str) -> Tensor:
        """Loss and metrics of a chunk; the state after it is kept."""
        x, y, resets = (*batch, None)[:3]
        carried = self.carried if stage == "train" else self.carried_in_tests
        prediction, state = self._run(x, carried, resets)
        carried.keep(state)
        return self.measured(prediction, y, stage)

    def _run(self, x: Tensor, carried: CarriedState, resets: Tensor | None) -> tuple[Any, Any]:
        if resets is None or not self.resets_within:
            return self.model(x, carried.begin(None if resets is None else resets[:, 0]))
        return run_with_resets(self.model, x, carried.begin(), resets)


def run_with_resets(model: Module, x: Tensor, state: Any, resets: Tensor, batch_dim: int = 1) -> tuple[Tensor, Any]:
    """The model place by place; before place t rows with resets[:, t] take the initial state.

    Shape: x (B, T, *), resets (B, T) → predictions (B, T, *), state
    """
    if tuple(resets.shape) != tuple(x.shape[:2]):
        raise ShapeError(f"run_with_resets: expected resets {tuple(x.shape[:2])}, got {tuple(resets.shape)}")
    first, form = tree_flatten(model.initial_state(x.shape[0]))
    found = []
    for t in range(x.shape[1]):
        parts = zip(first, tree_flatten(state)[0], strict=True)
        chosen = [_chosen(resets[:, t], initial, now, batch_dim) for initial, now in parts]
        prediction, state = model(x[:, t : t + 1], tree_unflatten(chosen, form))
        found.append(prediction)
    return weft.cat(found, 1), state


def _chosen(resets: Tensor, initial: Tensor, now: Tensor, batch_dim: int) -> Tensor:
    """Rows of the initial state where `resets` is true, of the present one elsewhere."""
    shape = [1] * now.ndim
    shape[batch_dim] = resets.shape[0]
    return weft.where(resets.reshape(shape), initial, now)
