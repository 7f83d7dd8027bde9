"""Tables of vectors, looked up by number: one by one, or pooled over bags of numbers."""

from __future__ import annotations

from typing import Any

import weft

from ...tape.modes import no_grad
from ...tensor import Tensor
from .. import functional as F
from .. import init
from ..module import Module
from ..parameter import Parameter

__all__ = ["Embedding", "EmbeddingBag"]


def _row(padding_idx: int | None, count: int) -> int | None:
    """The padding row as a number in 0…count−1."""
    if padding_idx is None:
        return None
    assert -count <= padding_idx < count, "Padding_idx must be within num_embeddings"
    return padding_idx % count


def _table(weight: Tensor | None, count: int, size: int, frozen: bool, device: Any, dtype: Any) -> Parameter:
    """The parameter (count, size), over the given weights if there are any."""
    if weight is None:
        return Parameter(weft.empty(count, size, device=device, dtype=dtype), requires_grad=not frozen)
    assert list(weight.shape) == [count, size], "Shape of weight does not match num_embeddings and embedding_dim"
    return Parameter(weight, requires_grad=not frozen)


def _draw(table: Parameter, padding_row: int | None) -> None:
    """Standard normal rows, and zero for the padding."""
    init.normal_(table)
    if padding_row is not None:
        with no_grad():
            table[padding_row].fill_(0)


def _check_matrix(embeddings: Tensor) -> tuple[int, int]:
    assert embeddings.dim() == 2, "Embeddings parameter is expected to be 2-dimensional"
    return tuple(embeddings.shape)


class Embedding(Module):
    """y = W[i]: a row of the table for every number.

    Rows start as N(0, 1). Shape: (*) of int64 or int32 → (*, embedding_dim)

    num_embeddings, embedding_dim: how many rows there are, and their size
    padding_idx: a row that starts at 0 and gets no gradient
    max_norm: rows that are looked up are first scaled, in place, to at most this norm
    norm_type: the order of that norm
    scale_grad_by_freq: divide the gradient of a row by how often it occurs in the batch
    sparse: make a gradient that holds only the rows in use, for `SGD`, `Adagrad` and `SparseAdam`
    _weight: a table to begin with, as `from_pretrained` gives it
    _freeze: whether that table stays as it is

    >>> table = nn.Embedding(10, 3, padding_idx=0)
    >>> table(weft.tensor([[1, 2], [0, 9]])).shape
    weft.Size([2, 2, 3])
    >>> table(weft.tensor(0)).tolist()
    [0.0, 0.0, 0.0]
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = _row(padding_idx, num_embeddings)
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        self.weight = _table(_weight, num_embeddings, embedding_dim, _freeze, device, dtype)
        if _weight is None:
            self.reset_parameters()

    def reset_parameters(self) -> None:
        _draw(self.weight, self.padding_idx)

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def extra_repr(self) -> str:
        parts = [f"{self.num_embeddings}, {self.embedding_dim}"]
        parts += [f"padding_idx={self.padding_idx}"] if self.padding_idx is not None else []
        parts += [f"max_norm={self.max_norm}"] if self.max_norm is not None else []
        parts += [f"norm_type={self.norm_type}"] if self.norm_type != 2 else []
        parts += [f"scale_grad_by_freq={self.scale_grad_by_freq}"] if self.scale_grad_by_freq else []
        parts += ["sparse=True"] if self.sparse else []
        return ", ".join(parts)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """A table over the given rows (they share memory); with `freeze` it is not trained."""
        count, size = _check_matrix(embeddings)
        return cls(
            count,
            size,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight=embeddings,
            _freeze=freeze,
        )


class EmbeddingBag(Module):
    """The sum, mean or maximum of the rows W[i] over each bag of numbers i, without the rows in between.

    Shape: (B, L), or (N,) with offsets (B,) where the bags begin → (B, embedding_dim).
    `per_sample_weights` of the call, for mode 'sum', weigh the rows.

    num_embeddings, embedding_dim: how many rows there are, and their size
    max_norm: rows that are looked up are first scaled, in place, to at most this norm
    norm_type: the order of that norm
    scale_grad_by_freq: divide the gradient of a row by how often it occurs in the batch; not for mode 'max'
    mode: 'sum', 'mean' or 'max'
    sparse: make a gradient that holds only the rows in use; not for mode 'max'
    _weight: a table to begin with, as `from_pretrained` gives it
    include_last_offset: whether offsets end with N, as the row starts of a CSR matrix do
    padding_idx: a number whose entries are left out of their bag

    >>> bags = nn.EmbeddingBag(10, 3, mode="sum")
    >>> bags(weft.tensor([1, 2, 4, 5, 4]), weft.tensor([0, 3])).shape
    weft.Size([2, 3])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.mode, self.sparse = scale_grad_by_freq, mode, sparse
        self.include_last_offset = include_last_offset
        self.padding_idx = _row(padding_idx, num_embeddings)
        self.weight = _table(_weight, num_embeddings, embedding_dim, False, device, dtype)
        if _weight is None:
            self.reset_parameters()

    def reset_parameters(self) -> None:
        _draw(self.weight, self.padding_idx)

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        parts = [f"{self.num_embeddings}, {self.embedding_dim}"]
        parts += [f"max_norm={self.max_norm}"] if self.max_norm is not None else []
        parts += [f"norm_type={self.norm_type}"] if self.norm_type != 2 else []
        parts += [f"scale_grad_by_freq={self.scale_grad_by_freq}"] if self.scale_grad_by_freq else []
        parts += [f"mode={self.mode!r}"]
        parts += [f"padding_idx={self.padding_idx}"] if self.padding_idx is not None else []
        return ", ".join(parts)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """A table over the given rows (they share memory); with `freeze` it is not trained."""
        count, size = _check_matrix(embeddings)
        bag = cls(
            count,
            size,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            mode,
            sparse,
            embeddings,
            include_last_offset,
            padding_idx,
        )
        bag.weight.requires_grad = not freeze
        return bag
