"""A long text as pieces for language models: windows with their targets, and parallel streams for truncated BPTT."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import weft

from ...errors import IndexRangeError, OptionError, ShapeError
from ...tensor import Tensor
from ..dataset import Dataset

__all__ = ["BPTTDataset", "WindowDataset", "batchify", "language_model_windows"]

Tokens = Tensor | np.ndarray | Sequence[int]


def language_model_windows(tokens: Tokens, length: int, stride: int | None = None) -> tuple[Tensor, Tensor]:
    """All windows of `length` tokens whose next token is known, `stride` (default: length) apart, as two views.

    inputs[i] = tokens[i s : i s + T], targets[i] = tokens[i s + 1 : i s + T + 1]. Nothing is copied: for stride < length
    use `WindowDataset` in a loader, which gathers only the rows of a batch.
    Shape: (N,) → inputs, targets (W, T), W = ⌊(N − T − 1) / s⌋ + 1

    Example:
        >>> import weft
        >>> from weft.data.text import language_model_windows
        >>> [x.tolist() for x in language_model_windows(weft.arange(6), length=3, stride=2)]
        [[[0, 1, 2], [2, 3, 4]], [[1, 2, 3], [3, 4, 5]]]
    """
    array = _stream(tokens, "language_model_windows")
    stride = length if stride is None else stride
    _count(len(array), length, stride, "language_model_windows")
    windows = weft.as_tensor(array).unfold(0, length + 1, stride)  # (W, T + 1)
    return windows[:, :-1], windows[:, 1:]


class WindowDataset(Dataset[tuple[Tensor, Tensor]]):
    """Windows of a token stream and the same one place ahead: sample i = tokens[i s : i s + T], tokens[i s + 1 : …].

    tokens: a tensor, an array or a memory-mapped array of any integer type; batches are int64. stride=1 with a random
    sampler draws windows at any place. Shape of a batch: inputs (B, T), targets (B, T)

    Example:
        >>> import weft
        >>> from weft.data import DataLoader
        >>> from weft.data.text import WindowDataset
        >>> inputs, targets = next(iter(DataLoader(WindowDataset(weft.arange(9), 3), batch_size=2)))
        >>> inputs.tolist(), targets.tolist()
        ([[0, 1, 2], [1, 2, 3]], [[1, 2, 3], [2, 3, 4]])
    """

    def __init__(self, tokens: Tokens, length: int, stride: int = 1) -> None:
        self.tokens, self.length, self.stride = _stream(tokens, "WindowDataset"), length, stride
        self._count = _count(len(self.tokens), length, stride, "WindowDataset")

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if not -len(self) <= index < len(self):
            raise IndexRangeError(f"WindowDataset: index {index} is outside of {len(self)} windows")
        inputs, targets = self.gather([index % len(self)])
        return inputs[0], targets[0]

    def gather(self, rows: Any) -> tuple[Tensor, Tensor]:
        """The batch of these windows at once."""
        starts = np.asarray(rows, np.int64) * self.stride
        windows = self.tokens[starts[:, None] + np.arange(self.length + 1)].astype(np.int64, copy=False)  # (B, T + 1)
        return weft.as_tensor(windows[:, :-1].copy()), weft.as_tensor(windows[:, 1:].copy())


def batchify(tokens: Tokens, batch_size: int) -> Tensor:
    """A token stream as parallel streams: row b is the b-th of `batch_size` equal parts; the rest is left out.

    Shape: (N,) → (B, N // B)

    Example:
        >>> import weft
        >>> from weft.data.text import batchify
        >>> batchify(weft.arange(7), 2).tolist()
        [[0, 1, 2], [3, 4, 5]]
    """
    array = _stream(tokens, "batchify")
    if not 1 <= batch_size <= max(len(array), 1):
        raise OptionError(f"batchify: expected batch_size in 1 … {len(array)} (the tokens), got {batch_size}")
    each = len(array) // batch_size
    return weft.as_tensor(array[: each * batch_size].reshape(batch_size, each))


class BPTTDataset(Dataset[tuple[Tensor, Tensor, Tensor]]):
    """Consecutive chunks of parallel streams, for recurrent models that carry their state from chunk to chunk.

    Chunk i goes on where chunk i − 1 ended, row by row; the last may be shorter. resets is True where the state before
    a token should be the initial one: at the first token of a stream, and after each `boundary` token (an end of
    document). Iterate in order: it is its own loader, or `DataLoader(dataset, batch_size=None)`.
    Shape of a chunk: inputs, targets (B, T) int64, resets (B, T) bool

    Example:
        >>> import weft
        >>> from weft.data.text import BPTTDataset
        >>> chunks = BPTTDataset(weft.arange(11), batch_size=2, length=2)
        >>> [[x.tolist() for x in chunk[:2]] for chunk in chunks]
        [[[[0, 1], [5, 6]], [[1, 2], [6, 7]]], [[[2, 3], [7, 8]], [[3, 4], [8, 9]]]]
    """

    def __init__(self, tokens: Tokens, batch_size: int, length: int, boundary: int | None = None) -> None:
        if length < 1:
            raise OptionError(f"BPTTDataset: expected length to be at least 1, got {length}")
        self.streams = np.asarray(batchify(tokens, batch_size))  # (B, S)
        self.length, self.boundary = length, boundary

    def __len__(self) -> int:
        return -(-max(self.streams.shape[1] - 1, 0) // self.length)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor, Tensor]:
        if not -len(self) <= index < len(self):
            raise IndexRangeError(f"BPTTDataset: index {index} is outside of {len(self)} chunks")
        start = index % len(self) * self.length
        end = min(start + self.length, self.streams.shape[1] - 1)
        inputs, targets = self.streams[:, start:end], self.streams[:, start + 1 : end + 1]
        parts = (inputs.astype(np.int64), targets.astype(np.int64), self._resets(start, end))
        return tuple(weft.as_tensor(part) for part in parts)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        return (self[i] for i in range(len(self)))

    def _resets(self, start: int, end: int) -> np.ndarray:
        resets = np.zeros((len(self.streams), end - start), bool)
        if start == 0:
            resets[:, 0] = True
        if self.boundary is not None:
            first = max(start, 1)
            resets[:, first - start :] |= self.streams[:, first - 1 : end - 1] == self.boundary
        return resets


def _stream(tokens: Tokens, name: str) -> np.ndarray:
    """A stream of integers, not copied if it is an array or a tensor."""
    array = tokens if isinstance(tokens, np.ndarray) else np.asarray(tokens)
    if array.ndim != 1:
        raise ShapeError(f"{name}: expected tokens of shape (N,), got {array.shape}")
    if array.dtype.kind not in "iu" and array.size:
        raise ShapeError(f"{name}: expected integer tokens, got {array.dtype}; encode the text first")
    return array


def _count(tokens: int, length: int, stride: int, name: str) -> int:
    """How many windows of length + 1 tokens there are."""
    if length < 1 or stride < 1:
        raise OptionError(f"{name}: expected length and stride to be at least 1, got {length} and {stride}")
    if tokens < length + 1:
        raise ShapeError(f"{name}: expected at least {length + 1} tokens (length + 1, for the targets), got {tokens}")
    return (tokens - length - 1) // stride + 1
