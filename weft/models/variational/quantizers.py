"""Vector quantisation: the nearest entry of a codebook in the place of a vector, and how the codebook is learned."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from ..classical.clustering import nearest

__all__ = ["LearnedQuantizer", "Quantized", "Quantizer", "ResidualQuantizer", "VectorQuantizer"]

LEAST_COUNT = 1e-6  # a code that has been used less than this stays where it is


class Quantized(NamedTuple):
    """values: the entries, like z, whose gradient goes straight to z; codes: their numbers, whole; loss: what binds z and
    the codebook to each other, one for each vector."""

    values: Tensor
    codes: Tensor
    loss: Tensor


class Quantizer(nn.Module):
    """z (…, D) → its entry of a codebook (K, D).

    codes, dimension: K and D; commitment: β in β ‖z − sg(e)‖², which keeps z near its entry e (sg: no gradient through)
    The gradient of what comes after passes e by, straight to z: ∂L/∂z = ∂L/∂e (van den Oord et al. 2017).
    """

    codebook: Tensor

    def __init__(self, codes: int, dimension: int, commitment: float) -> None:
        super().__init__()
        if codes < 2 or dimension < 1 or not commitment >= 0:
            raise OptionError(
                f"{type(self).__name__}: expected codes ≥ 2, dimension ≥ 1, commitment ≥ 0, got {codes}, {dimension}, "
                f"{commitment}"
            )
        self.codes, self.dimension, self.commitment = codes, dimension, commitment

    @abstractmethod
    def forward(self, z: Tensor, generator: Any = None) -> Quantized:
        """(…, D) → (…, D), (…), (…); in training mode the codebook learns."""

    @weft.no_grad()
    def numbers(self, z: Tensor) -> Tensor:
        """Which entry is nearest: (…, D) → (…)"""
        self._check(z)
        return nearest(z.flatten(0, -2), self.codebook)[0].reshape(z.shape[:-1])

    def lookup(self, codes: Tensor) -> Tensor:
        """The entries of these numbers: (…) → (…, D)"""
        return self.codebook[codes]

    def _check(self, z: Tensor) -> None:
        if z.ndim < 2 or z.shape[-1] != self.dimension:
            raise ShapeError(f"{type(self).__name__}: expected (…, {self.dimension}), got {tuple(z.shape)}")

    def extra_repr(self) -> str:
        return f"codes={self.codes}, dimension={self.dimension}, commitment={self.commitment}"


class VectorQuantizer(Quantizer):
    """A codebook that follows the data: entry k is the mean of the vectors that were nearest to it, over a while.

        nₖ ← γ nₖ + (1 − γ) #{i: k nearest to zᵢ},   mₖ ← γ mₖ + (1 − γ) Σ zᵢ of these,   eₖ = mₖ / nₖ
    With γ = 0 a step is one of k-means on the batch.

    decay: γ. The codebook begins, with the first batch it is trained on, as vectors of that batch.
    revive: an entry that is used less than this share of the mean use is put where a random vector of the batch is; 0: never

    >>> quantizer = VectorQuantizer(4, 2)
    >>> found = quantizer(weft.randn(3, 5, 2))
    >>> found.values.shape, found.codes.shape, found.loss.shape
    (weft.Size([3, 5, 2]), weft.Size([3, 5]), weft.Size([3, 5]))
    """

    counts: Tensor
    sums: Tensor
    started: Tensor

    def __init__(
        self,
        codes: int,
        dimension: int,
        *,
        decay: float = 0.99,
        commitment: float = 0.25,
        revive: float = 0.05,
        dtype: Any = None,
    ) -> None:
        super().__init__(codes, dimension, commitment)
        if not 0 <= decay < 1 or not 0 <= revive < 1:
            raise OptionError(f"VectorQuantizer: expected decay and revive from 0 to below 1, got {decay} and {revive}")
        self.decay, self.revive = decay, revive
        self.register_buffer("codebook", weft.randn(codes, dimension, dtype=dtype))
        self.register_buffer("counts", weft.ones(codes, dtype=dtype))
        self.register_buffer("sums", self.codebook.clone())
        self.register_buffer("started", weft.zeros((), dtype=weft.bool))

    def forward(self, z: Tensor, generator: Any = None) -> Quantized:
        self._check(z)
        rows = z.flatten(0, -2)  # (N, D)
        if self.training:
            self._start(rows.detach(), generator)
        codes = self.numbers(rows)
        entries = self.lookup(codes)
        if self.training:
            self._follow(rows.detach(), codes, generator)
        loss = self.commitment * ((rows - entries) ** 2).sum(1)
        values = straight_through(rows, entries)
        return Quantized(values.reshape(z.shape), codes.reshape(z.shape[:-1]), loss.reshape(z.shape[:-1]))

    @weft.no_grad()
    def _start(self, rows: Tensor, generator: Any) -> None:
        """Vectors of the first batch as the codebook. No question that Python asks: a compiled step starts it as well."""
        first = weft.where(self.started, self.codebook, self._some(rows, generator))
        self.sums.copy_(weft.where(self.started, self.sums, first))
        self.codebook.copy_(first)
        self.started.fill_(True)

    @weft.no_grad()
    def _follow(self, rows: Tensor, codes: Tensor, generator: Any) -> None:
        own = (codes.unsqueeze(1) == weft.arange(self.codes)).to(rows.dtype)  # (N, K)
        counts = self.decay * self.counts + (1 - self.decay) * own.sum(0)
        sums = self.decay * self.sums + (1 - self.decay) * (own.mT @ rows)
        used = (counts > LEAST_COUNT).unsqueeze(1)
        entries = weft.where(used, sums / counts.clamp(min=LEAST_COUNT).unsqueeze(1), self.codebook)
        if self.revive:
            mean = len(rows) / self.codes
            dead = counts < self.revive * mean
            entries = weft.where(dead.unsqueeze(1), self._some(rows, generator), entries)
            counts = weft.where(dead, mean / 2, counts)  # as if it had been used for a while
            sums = weft.where(dead.unsqueeze(1), entries * (mean / 2), sums)
        self.counts.copy_(counts)
        self.sums.copy_(sums)
        self.codebook.copy_(entries)

    def _some(self, rows: Tensor, generator: Any) -> Tensor:
        """A row for each entry, different ones as far as there are so many: (N, D) → (K, D)"""
        stride = max(len(rows) // self.codes, 1)
        start = weft.randint(0, len(rows), (1,), generator=generator)
        return rows[(start + stride * weft.arange(self.codes)) % len(rows)]


class LearnedQuantizer(Quantizer):
    """A codebook that is a parameter, learned by gradients of ‖sg(z) − e‖², the form of the first paper.

    Parameters: codebook (K, D), from 𝒰(−1/K, 1/K)
    """

    def __init__(self, codes: int, dimension: int, *, commitment: float = 0.25, dtype: Any = None) -> None:
        super().__init__(codes, dimension, commitment)
        self.codebook = nn.Parameter(weft.empty(codes, dimension, dtype=dtype).uniform_(-1 / codes, 1 / codes))

    def forward(self, z: Tensor, generator: Any = None) -> Quantized:
        codes = self.numbers(z)
        entries = self.lookup(codes)
        kept, drawn = (z - entries.detach()) ** 2, (z.detach() - entries) ** 2
        loss = self.commitment * kept.sum(-1) + drawn.sum(-1)
        return Quantized(straight_through(z, entries), codes, loss)


class ResidualQuantizer(nn.Module):
    """One codebook after the other, each for what the ones before have left over: e = Σₛ eₛ (Zeghidour et al. 2021).

    S codebooks of K entries say as much as one of Kˢ. codes: (…, S)

    >>> quantizer = ResidualQuantizer([VectorQuantizer(8, 2) for _ in range(3)])
    >>> quantizer(weft.randn(5, 2)).codes.shape
    weft.Size([5, 3])
    """

    def __init__(self, stages: Sequence[Quantizer]) -> None:
        super().__init__()
        if not stages or len({stage.dimension for stage in stages}) > 1:
            raise OptionError("ResidualQuantizer: expected at least one quantizer, all of one dimension")
        self.stages = nn.ModuleList(stages)
        self.dimension, self.codes = stages[0].dimension, stages[0].codes

    def forward(self, z: Tensor, generator: Any = None) -> Quantized:
        left, found = z, []
        for stage in self.stages:
            found.append(stage(left, generator))
            left = left - found[-1].values.detach()
        codes = weft.stack([part.codes for part in found], -1)
        entries = sum(part.values for part in found).detach()
        return Quantized(straight_through(z, entries), codes, sum(part.loss for part in found))

    @weft.no_grad()
    def numbers(self, z: Tensor) -> Tensor:
        """(…, D) → (…, S)"""
        found = []
        for stage in self.stages:
            found.append(stage.numbers(z))
            z = z - stage.lookup(found[-1])
        return weft.stack(found, -1)

    def lookup(self, codes: Tensor) -> Tensor:
        """(…, S) → (…, D)"""
        return sum(stage.lookup(part) for stage, part in zip(self.stages, codes.unbind(-1), strict=True))


def straight_through(z: Tensor, entries: Tensor) -> Tensor:
    """The value of `entries` with the gradient of z."""
    return z + (entries - z).detach()
