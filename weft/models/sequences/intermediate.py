"""Recurrent networks that are asked on the way: losses at every place, not at the last alone (N1 §5.1.1).

L = (1 − α) L_τ + α · 1/|T| Σ_{t ∈ T} L_t: with α > 0 gradients reach early places on short ways, so that what stands at the
beginning of a long sequence is learned sooner.
"""

from __future__ import annotations

from typing import Any

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...nn.beyond.scores import length_mask
from ...tensor import Tensor
from .recurrent_models import RecurrentEncoder, final_state

__all__ = ["IntermediateClassifier", "intermediate_loss", "last_places"]


class IntermediateClassifier(nn.Module):
    """The label of a sequence, guessed anew after every place: y_t = W h_t + b. The last guess is the answer.

    Training: `intermediate_loss(model(x, lengths), y, lengths)`. options: those of `RecurrentEncoder`.
    Shape: x as in `RecurrentEncoder`, lengths (B,) → (B, T, num_classes)

    >>> model = IntermediateClassifier(8, 16, 3)
    >>> guesses = model(weft.zeros(2, 5, 8))
    >>> guesses.shape, last_places(guesses).shape
    (weft.Size([2, 5, 3]), weft.Size([2, 3]))
    """

    def __init__(self, input_size: int, hidden_size: int, num_classes: int, **options: Any) -> None:
        super().__init__()
        if options.get("bidirectional"):
            raise OptionError("IntermediateClassifier: bidirectional layers have seen the end at every place")
        self.encoder = RecurrentEncoder(input_size, hidden_size, **options)
        self.output = nn.Linear(self.encoder.out_features, num_classes)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        return self.output(self.encoder(x, lengths))

    def predict(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """The classes that the last guesses name. Shape: → (B,)"""
        return last_places(self(x, lengths), lengths).argmax(-1)


def intermediate_loss(
    logits: Tensor, y: Tensor, lengths: Tensor | None = None, *, weight: float = 0.5, places: Tensor | None = None
) -> Tensor:
    """(1 − α) L_τ + α · mean of L_t over the places T, the mean over the batch of that.

    weight: α. y: a class for each sequence, (B,), or for each place, (B, T). places (T,) or (B, T) of bool: T, all within
    the lengths unless given. Shape: (B, T, K) → ()
    """
    if not 0 <= weight <= 1:
        raise OptionError(f"intermediate_loss: expected a weight from 0 to 1, got {weight}")
    batch, steps = logits.shape[:2]
    if tuple(y.shape) not in ((batch,), (batch, steps)):
        raise ShapeError(f"intermediate_loss: expected y ({batch},) or ({batch}, {steps}), got {tuple(y.shape)}")
    targets = y.unsqueeze(1).expand(batch, steps) if y.ndim == 1 else y
    losses = nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    losses = losses.unflatten(0, (batch, steps))  # (B, T)
    inside = weft.ones_like(losses) if lengths is None else length_mask(lengths, steps).to(losses.dtype)
    asked = inside if places is None else inside * places.to(losses.dtype)
    between = (losses * asked).sum(1) / asked.sum(1).clamp(min=1)  # (B,)
    return ((1 - weight) * last_places(losses.unsqueeze(-1), lengths).squeeze(-1) + weight * between).mean()


def last_places(x: Tensor, lengths: Tensor | None = None) -> Tensor:
    """The last place of each sequence. Shape: (B, T, K) → (B, K)"""
    return x[:, -1] if lengths is None else final_state(x, lengths, x.shape[-1])
