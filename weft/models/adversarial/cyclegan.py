"""CycleGAN: maps between two sets of examples that nobody has paired (Zhu et al. 2017)."""

from __future__ import annotations

from typing import Any

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from ..generative.protocol import estimate
from .base import AdversarialModel
from .losses import AdversarialLoss, loss_named

__all__ = ["CycleGAN", "History"]


class CycleGAN(AdversarialModel):
    """G: X → Y and F: Y → X; each fools its discriminator, and together they must come back to where they began.

    loss = adversarial(G, D_Y) + adversarial(F, D_X) + λ (|F(G(x)) − x| + |G(F(y)) − y|) + λ_id (|G(y) − y| + |F(x) − x|)

    A batch is (x, y), as many of each, in no relation. Means of absolute differences over all elements.
    cycle, identity: λ and λ_id; the latter only makes sense where X and Y are alike
    histories: earlier draws of X and of Y for the discriminators (`History`); None shows them the latest alone
    Of the protocol, `encode` is G, `decode` F, `reconstruct` F(G(x)).
    """

    continuous = True

    def __init__(
        self,
        forth: nn.Module,
        back: nn.Module,
        discriminator_x: nn.Module,
        discriminator_y: nn.Module,
        loss: str | AdversarialLoss = "least_squares",
        *,
        cycle: float = 10.0,
        identity: float = 0.0,
        histories: tuple[History, History] | None = None,
    ) -> None:
        super().__init__()
        self.forth, self.back = forth, back
        self.discriminator_x, self.discriminator_y = discriminator_x, discriminator_y
        self.loss, self.cycle, self.identity = loss_named(loss), cycle, identity
        self.history_x, self.history_y = histories or (None, None)

    def players(self) -> tuple[list[nn.Module], list[nn.Module]]:
        return [self.forth, self.back], [self.discriminator_x, self.discriminator_y]

    def discriminator_loss(self, batch: Any, generator: Any = None) -> Tensor:
        x, y = _pair(batch)
        with weft.no_grad():
            drawn_x, drawn_y = self.back(y), self.forth(x)
            if self.history_x is not None:
                drawn_x, drawn_y = self.history_x(drawn_x, generator), self.history_y(drawn_y, generator)
        tell_x, tell_y = self.discriminator_x, self.discriminator_y
        return self.loss.discriminator(tell_x(x), tell_x(drawn_x)) + self.loss.discriminator(tell_y(y), tell_y(drawn_y))

    def generator_loss(self, batch: Any, generator: Any = None) -> Tensor:
        x, y = _pair(batch)
        drawn_x, drawn_y = self.back(y), self.forth(x)
        loss = self.loss.generator(self.discriminator_x(drawn_x)) + self.loss.generator(self.discriminator_y(drawn_y))
        loss = loss + self.cycle * (_distance(self.back(drawn_y), x) + _distance(self.forth(drawn_x), y))
        if self.identity:
            loss = loss + self.identity * (_distance(self.forth(y), y) + _distance(self.back(x), x))
        return loss

    @estimate
    def encode(self, x: Tensor) -> Tensor:
        """G(x), from X to Y."""
        return self.forth(x)

    @estimate
    def decode(self, z: Tensor) -> Tensor:
        """F(z), from Y to X."""
        return self.back(z)


class History(nn.Module):
    """The last draws of a generator, so that a discriminator does not forget (Shrivastava et al. 2017).

    Until it is full it keeps what comes and hands it on. Then each draw of a batch, with probability ½, changes places with
    one that is kept, each with another. event: the shape of one draw. Shape: (B, *event) → the same; B at most `size`
    """

    def __init__(self, size: int, event: tuple[int, ...]) -> None:
        super().__init__()
        if size < 1:
            raise OptionError(f"History: expected a size of at least 1, got {size}")
        self.size = size
        self.register_buffer("kept", weft.zeros(size, *event))
        self.register_buffer("count", weft.zeros((), dtype=weft.int64))

    @weft.no_grad()
    def forward(self, drawn: Tensor, generator: Any = None) -> Tensor:
        if not 0 < len(drawn) <= self.size:
            raise ShapeError(f"History: {len(drawn)} draws at once, but {self.size} are kept; make the history larger")
        rows = weft.arange(len(drawn))
        filling = self.count < self.size
        start = weft.where(filling, self.count, weft.randint(self.size, (), generator=generator))
        places = (start + rows) % self.size  # neighbours, so that no two are the same
        swapped = (weft.rand(len(drawn), generator=generator) < 0.5).reshape(-1, *[1] * (drawn.dim() - 1))
        old = self.kept[places]
        self.kept.index_copy_(0, places, weft.where(filling | swapped, drawn, old))
        self.count += len(drawn)
        return weft.where(~filling & swapped, old, drawn)


def _pair(batch: Any) -> tuple[Tensor, Tensor]:
    if not isinstance(batch, (tuple, list)) or len(batch) != 2:
        raise OptionError(f"CycleGAN: expected batches (x, y) of two sets, got {type(batch).__name__}")
    return batch[0], batch[1]


def _distance(a: Tensor, b: Tensor) -> Tensor:
    return (a - b).abs().mean()
