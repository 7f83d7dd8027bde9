"""What recipes of text share: a vocabulary that is saved with the weights, and loaders of padded rows of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import weft

from ... import nn
from ...data import DataLoader, Dataset
from ...data.text import BucketBatchSampler, Vocabulary, pad_batch
from ...errors import OptionError
from ...tensor import Tensor
from ..base import Splits

__all__ = ["PAD", "UNKNOWN", "TextSplits", "Words", "collated", "padded_loader"]

PAD, UNKNOWN = "<pad>", "<unk>"


@dataclass
class TextSplits(Splits):
    """Loaders, and what was made from the training text: a vocabulary, or a tokeniser."""

    vocabulary: Any


class Words(nn.Module):
    """A vocabulary as part of a task, so that a checkpoint is all that a trained model needs."""

    def __init__(self, vocabulary: Vocabulary | None = None) -> None:
        super().__init__()
        self.vocabulary = vocabulary or Vocabulary(specials=[PAD, UNKNOWN], unknown=UNKNOWN)

    def get_extra_state(self) -> dict[str, Any]:
        return self.vocabulary.fields()

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.vocabulary = Vocabulary.from_fields(state, "the checkpoint")

    def __len__(self) -> int:
        return len(self.vocabulary)


class Rows(Dataset[tuple]):
    """Samples of several columns: rows of tokens (lists) and labels (numbers)."""

    def __init__(self, *columns: Sequence[Any]) -> None:
        if len({len(column) for column in columns}) != 1:
            raise OptionError(f"Rows: expected columns of one length, got {[len(column) for column in columns]}")
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns[0])

    def __getitem__(self, index: int) -> tuple:
        return tuple(column[index] for column in self.columns)


def padded_loader(
    *columns: Sequence[Any], batch_size: int, multiple: int = 8, shuffle: bool = False, seed: int = 0
) -> DataLoader:
    """Batches of samples with similar lengths, padded with 0 to a multiple, so that a few plans serve all sizes.

    columns: lists of rows of tokens, and of labels. In training the samples left over after the last full batch sit out.
    """
    samples = Rows(*columns)
    lengths = [max(len(part) for part in sample if isinstance(part, list)) for sample in zip(*columns, strict=True)]
    rounded = [-(-length // multiple) for length in lengths]
    sampler = BucketBatchSampler(
        rounded, min(batch_size, len(lengths)), shuffle=shuffle, drop_last=shuffle, seed=seed if shuffle else None
    )
    return DataLoader(samples, batch_sampler=sampler, collate_fn=partial(collated, multiple=multiple))


def collated(samples: list[tuple], multiple: int = 1) -> tuple[Tensor, ...]:
    """Columns of samples as tensors: rows of tokens padded with 0 (B, T), T the same in all columns; labels (B,)."""
    columns = list(zip(*samples, strict=True))
    rows = [row for column in columns if isinstance(column[0], list) for row in column]
    padded = iter(pad_batch(rows, multiple=multiple).data.split(len(samples)))
    return tuple(next(padded) if isinstance(column[0], list) else weft.tensor(column) for column in columns)
