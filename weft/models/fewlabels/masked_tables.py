"""Masked columns: some cells of each row of a table are hidden, and told from the others (N2 §8.5.3)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from ..vision.vit import EncoderBlock
from .base import SelfSupervised
from .hiding import hidden_count, hidden_places

__all__ = ["MaskedTable", "TableEncoder"]

F = nn.functional
NORM = partial(nn.LayerNorm, eps=1e-6)


class TableEncoder(nn.Module):
    """A row as a sequence of its cells: numbers times a vector of their column, categories as vectors of their own.

    numbers: columns of numbers, best standardised; NaN is a missing cell, for which the hidden cells' vector stands
    categories: how many values each further column has, numbered from 0
    dim, num_layers, num_heads: of the blocks
    Shape: (B, numbers + columns of categories), categories as whole numbers in floating type → their mean (B, dim)
    """

    def __init__(self, numbers: int, categories: Sequence[int], dim: int, num_layers: int, num_heads: int) -> None:
        super().__init__()
        self.numbers, self.categories, self.columns = numbers, tuple(categories), numbers + len(categories)
        if self.columns < 2 or min(self.categories, default=2) < 2:
            raise OptionError(
                f"TableEncoder: expected two columns or more and two values or more in each of categories, got {numbers} of "
                f"numbers and {self.categories}"
            )
        drawn = lambda *shape: nn.Parameter(nn.init.normal_(weft.empty(*shape), std=dim**-0.5))
        self.slopes, self.places, self.token = drawn(numbers, dim), drawn(self.columns, dim), drawn(dim)
        self.values = nn.ModuleList(nn.Embedding(count, dim) for count in self.categories)
        blocks = (EncoderBlock(num_heads, dim, 2 * dim, 0.0, 0.0, NORM) for _ in range(num_layers))
        self.layers, self.norm = nn.Sequential(*blocks), NORM(dim)

    def forward(self, rows: Tensor) -> Tensor:
        return self.encoded(rows, weft.zeros_like(rows)).mean(1)

    def encoded(self, rows: Tensor, mask: Tensor) -> Tensor:
        """Codes of all cells; those with mask 1 are not looked at, nor are missing ones. (B, C), (B, C) → (B, C, dim)"""
        if rows.ndim != 2 or rows.shape[1] != self.columns:
            raise ShapeError(f"TableEncoder: expected rows (B, {self.columns}), got {tuple(rows.shape)}")
        known = rows.nan_to_num(0.0)
        cells = [known[:, : self.numbers].unsqueeze(-1) * self.slopes]  # (B, N, dim)
        for column, table in enumerate(self.values, self.numbers):
            cells.append(table(known[:, column].long()).unsqueeze(1))
        unseen = ((mask > 0) | rows.isnan()).unsqueeze(-1)
        x = weft.where(unseen, self.token, weft.cat(cells, 1)) + self.places
        return self.norm(self.layers(x))


class MaskedTable(SelfSupervised):
    """The loss of a step: squared errors of hidden numbers and cross entropies of hidden categories, the mean over hidden cells.

    Cells that are missing (NaN) are never counted.
    numbers, categories, dim, num_layers, num_heads: see `TableEncoder`
    mask_ratio: share of the cells that is hidden, the same number in every row
    `embed`: rows → (B, dim); shape of `loss`: rows (B, columns) → ()

    >>> model = MaskedTable(2, [3], dim=8, num_layers=1, num_heads=2)
    >>> rows = weft.tensor([[0.5, -1.0, 2.0], [weft.nan, 0.3, 0.0]])
    >>> model.embed(rows).shape, model.loss(rows).shape
    (weft.Size([2, 8]), weft.Size([]))
    """

    encoder: TableEncoder

    def __init__(
        self,
        numbers: int,
        categories: Sequence[int] = (),
        *,
        dim: int = 32,
        num_layers: int = 2,
        num_heads: int = 4,
        mask_ratio: float = 0.3,
    ) -> None:
        super().__init__(TableEncoder(numbers, categories, dim, num_layers, num_heads))
        self.hidden = hidden_count(self.encoder.columns, mask_ratio)
        self.number_heads = nn.Parameter(nn.init.normal_(weft.empty(numbers, dim), std=dim**-0.5))
        self.number_biases = nn.Parameter(weft.zeros(numbers))
        self.heads = nn.ModuleList(nn.Linear(dim, count) for count in self.encoder.categories)

    def outputs(self, *views: Tensor) -> tuple[Tensor, Tensor]:
        rows = views[0]
        _, _, mask = hidden_places(rows.shape[0], rows.shape[1], self.hidden)
        codes = self.encoder.encoded(rows, mask)
        counted = mask * (~rows.isnan()).to(mask.dtype)
        lost = self._lost(codes, rows.nan_to_num(0.0))
        return (lost * counted).sum() / counted.sum().clamp(min=1.0), codes.mean(1)

    def impute(self, rows: Tensor, mask: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Means of the cells of numbers (B, numbers), and chances of the categories, (B, values) for each of their columns,
        where the cells with mask 1 were not seen."""
        codes = self.encoder.encoded(rows, mask)
        return self._numbers(codes), [scores.softmax(-1) for scores in self._scores(codes)]

    def _lost(self, codes: Tensor, known: Tensor) -> Tensor:
        """What each cell costs: (B, C, dim), (B, C) → (B, C)"""
        count = self.encoder.numbers
        parts = [(self._numbers(codes) - known[:, :count]) ** 2]
        for column, scores in enumerate(self._scores(codes), count):
            parts.append(F.cross_entropy(scores, known[:, column].long(), reduction="none").unsqueeze(1))
        return weft.cat(parts, 1)

    def _numbers(self, codes: Tensor) -> Tensor:
        return (codes[:, : self.encoder.numbers] * self.number_heads).sum(-1) + self.number_biases

    def _scores(self, codes: Tensor) -> list[Tensor]:
        return [head(codes[:, column]) for column, head in enumerate(self.heads, self.encoder.numbers)]
