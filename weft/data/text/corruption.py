"""Corruptions that a model learns to undo: the masked language model of BERT (Devlin et al., 2019)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

import weft

from ...errors import DtypeError, OptionError, ShapeError
from ...ops.create.sample import generator_of
from ...tensor import Tensor

__all__ = ["mask_tokens"]


def mask_tokens(
    ids: Tensor,
    mask_id: int,
    vocab_size: int,
    *,
    probability: float = 0.15,
    replace: float = 0.8,
    randomize: float = 0.1,
    keep: Iterable[int] = (),
    mask: Tensor | None = None,
    ignore_index: int = -100,
    generator: weft.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """Choose tokens with `probability`; of the chosen 80 % become the mask, 10 % any token, 10 % stay as they are.

    keep: numbers that are never chosen (padding, [CLS], [SEP]); mask: only where it is True may tokens be chosen.
    Labels are the original numbers where a token was chosen, `ignore_index` elsewhere (as `cross_entropy` expects).
    In a loader: batch_transform=lambda batch, generator: mask_tokens(batch, …, generator=generator).
    Shape: ids of any shape → corrupted ids, labels of the same

    Example:
        >>> import weft
        >>> from weft.data.text import mask_tokens
        >>> ids = weft.arange(5, 105)
        >>> corrupted, labels = mask_tokens(ids, mask_id=4, vocab_size=105, generator=weft.Generator().manual_seed(0))
        >>> bool((corrupted == ids)[labels == -100].all()), bool((labels == ids)[labels != -100].all())
        (True, True)
    """
    _check(ids, mask, mask_id, vocab_size, probability, replace, randomize)
    generator, original = generator_of(generator, "mask_tokens"), np.asarray(ids)
    allowed = ~np.isin(original, list(keep))
    if mask is not None:
        allowed &= np.asarray(mask)
    chosen = (generator.uniform(original.shape, np.float64) < probability) & allowed
    fate = generator.uniform(original.shape, np.float64)
    anything = generator.integers(0, vocab_size, original.shape, original.dtype)
    changed = np.where(fate < replace, original.dtype.type(mask_id), anything)
    corrupted = np.where(chosen & (fate < replace + randomize), changed, original)
    return weft.as_tensor(corrupted), weft.as_tensor(np.where(chosen, original, ignore_index).astype(np.int64))


def _check(
    ids: Tensor,
    mask: Tensor | None,
    mask_id: int,
    vocab_size: int,
    probability: float,
    replace: float,
    randomize: float,
) -> None:
    if ids.is_floating_point() or ids.dtype is weft.bool:
        raise DtypeError(f"mask_tokens: expected integer ids, got {ids.dtype}")
    if mask is not None and mask.shape != ids.shape:
        raise ShapeError(f"mask_tokens: mask {tuple(mask.shape)} and ids {tuple(ids.shape)} differ in shape")
    if not 0 <= mask_id < vocab_size:
        raise OptionError(f"mask_tokens: expected mask_id in 0 … {vocab_size - 1}, got {mask_id}")
    if not 0 <= probability <= 1 or min(replace, randomize) < 0 or replace + randomize > 1:
        raise OptionError(
            "mask_tokens: expected probability in [0, 1] and shares that sum to at most 1, got "
            f"{probability=}, {replace=}, {randomize=}"
        )
