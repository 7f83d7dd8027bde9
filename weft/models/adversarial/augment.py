"""Differentiable augmentation: data and draws changed alike before the discriminator, so that it cannot learn few data by
heart, and the change does not leak into the draws (Zhao et al. 2020, Karras et al. 2020)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import weft

from ...data.augment.compiled.geometry import covered, picking
from ...errors import OptionError, ShapeError
from ...tensor import Tensor

__all__ = ["Augment"]


class Augment:
    """Colour, translation and cutout, each drawn for every image on its own; tensor code, so slopes go through.

    changes: some of 'colour' (brightness ± ½, saturation × [0, 2), contrast × [½, 1½)), 'translation' (up to `shift` of the
        side, zeros come in) and 'cutout' (a square of `hole` of the side set to 0)
    Shape: (B, C, H, W) → the same

    >>> Augment(("translation", "cutout"))(weft.ones(2, 1, 8, 8), weft.Generator().manual_seed(0)).shape
    weft.Size([2, 1, 8, 8])
    """

    def __init__(
        self,
        changes: Sequence[str] = ("colour", "translation", "cutout"),
        *,
        shift: float = 1 / 8,
        hole: float = 1 / 2,
    ) -> None:
        table: dict[str, Callable[[Tensor, Any], Tensor]] = {
            "colour": colour,
            "translation": lambda x, generator: translate(x, shift, generator),
            "cutout": lambda x, generator: cut_out(x, hole, generator),
        }
        unknown = set(changes) - set(table)
        if unknown:
            raise OptionError(f"Augment: expected some of {', '.join(table)}, got {', '.join(sorted(unknown))}")
        if not 0 <= shift <= 1 or not 0 <= hole <= 1:
            raise OptionError(f"Augment: shift and hole are shares of the side, in [0, 1], got {shift} and {hole}")
        self.changes = [table[name] for name in changes]

    def __call__(self, x: Tensor, generator: Any = None) -> Tensor:
        if x.dim() != 4:
            raise ShapeError(f"Augment: expected images (B, C, H, W), got shape {tuple(x.shape)}")
        for change in self.changes:
            x = change(x, generator)
        return x


def colour(x: Tensor, generator: Any = None) -> Tensor:
    """Brightness added, then saturation and contrast scaled about the means over channels and over the image."""
    brightness, saturation, contrast = _uniform(3, x, generator)
    x = x + (brightness - 0.5)
    grey = x.mean(1, keepdim=True)
    x = (x - grey) * (2 * saturation) + grey
    level = x.mean((1, 2, 3), keepdim=True)
    return (x - level) * (contrast + 0.5) + level


def translate(x: Tensor, shift: float, generator: Any = None) -> Tensor:
    """Whole pixels up or down and left or right, as products with shifted identities: no gathering, exact slopes."""
    moves = _uniform(2, x, generator)
    down, right = (
        _shifted(move.reshape(-1), shift, size) for move, size in zip(moves, x.shape[2:], strict=True)
    )  # (B, 1, H, H), (B, 1, W, W)
    return down @ x @ right.mT


def cut_out(x: Tensor, hole: float, generator: Any = None) -> Tensor:
    """Zeros in a square whose centre may be any pixel."""
    rows, columns = (
        _covered(move.reshape(-1), hole, size)
        for move, size in zip(_uniform(2, x, generator), x.shape[2:], strict=True)
    )  # (B, H), (B, W)
    return weft.where((rows.unsqueeze(2) & columns.unsqueeze(1)).unsqueeze(1), 0, x)


def _shifted(u: Tensor, share: float, size: int) -> Tensor:
    """S with S[b, 0, i, j] = 1 if j = i + t_b, t_b even over whole numbers from −r to r: (B,) → (B, 1, size, size)"""
    reach = int(share * size + 0.5)
    t = (u * (2 * reach + 1)).floor() - reach
    return picking(weft.arange(size, dtype=u.dtype) + t.unsqueeze(1), size)


def _covered(u: Tensor, share: float, size: int) -> Tensor:
    """Which places of a side lie in the hole: (B,) → (B, size)"""
    length = int(share * size + 0.5)
    return covered((u * (size + (1 - length % 2))).floor() - length // 2, length, size)


def _uniform(count: int, x: Tensor, generator: Any) -> Tensor:
    """Numbers in [0, 1), `count` an image: (count, B, 1, 1, 1)"""
    return weft.rand(count, len(x), 1, 1, 1, dtype=x.dtype, generator=generator)
