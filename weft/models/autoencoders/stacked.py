"""Stacked autoencoders: one layer after the other learns to reconstruct the codes below it, then all together
(Hinton and Salakhutdinov 2006, Bengio et al. 2007; N1 §7.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import weft

from ... import nn, optim
from ...errors import OptionError
from ...tensor import Tensor
from .autoencoder import Autoencoder

__all__ = ["StackedAutoencoder"]


class StackedAutoencoder(Autoencoder):
    """f = f_L ∘ … ∘ f₁ and g = g₁ ∘ … ∘ g_L of layers that are autoencoders themselves; unrolled, it is one of them.

    `pretrain` trains each on the codes of those below, with its own error, noise and penalties; training the whole by
    `loss` afterwards is the fine-tuning, with the error of the lowest layer.

    >>> layers = [TiedAutoencoder(64, [32], "cross_entropy"), TiedAutoencoder(32, [16], "cross_entropy")]
    >>> StackedAutoencoder(layers).encode(weft.rand(5, 64)).shape
    weft.Size([5, 16])
    """

    def __init__(self, layers: Sequence[Autoencoder], **options: Any) -> None:
        if not layers:
            raise OptionError("StackedAutoencoder: expected one layer at least")
        encoder = nn.Sequential(*(_Half(layer, "encode") for layer in layers))
        above = [_Half(layer, "decode") for layer in layers[:0:-1]]
        super().__init__(encoder, nn.Sequential(*above, _Half(layers[0], "decoder")), layers[0].error, **options)

    @property
    def layers(self) -> list[Autoencoder]:
        """From the lowest."""
        return [half.layer for half in self.encoder.children()]

    def pretrain(
        self,
        x: Tensor,
        epochs: int,
        batch_size: int = 100,
        optimizer: Callable[[Any], optim.Optimizer] | None = None,
        generator: Any = None,
    ) -> Iterator[list[float]]:
        """Train layer after layer; after each, the mean loss of its epochs. Nothing happens before it is asked for.

        x: (N, *event); rows left over after the last whole batch sit out an epoch. optimizer: of parameters; by default Adam
        """
        for layer in self.layers:
            yield _trained(layer, x, epochs, batch_size, optimizer or optim.Adam, generator)
            x = layer.embed(x)


class _Half(nn.Module):
    """One side of a layer as a module; "decoder" is what it says before the logistic function."""

    def __init__(self, layer: Autoencoder, side: str) -> None:
        super().__init__()
        self.layer, self.side = layer, side

    def forward(self, x: Tensor) -> Tensor:
        return getattr(self.layer, self.side)(x)


def _trained(layer: Autoencoder, x: Tensor, epochs: int, size: int, make: Callable, generator: Any) -> list[float]:
    optimizer = make(layer.parameters())

    @weft.compile
    def step(batch: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = layer.loss(batch, generator)
        loss.backward()
        optimizer.step()
        return loss.detach()

    size, means = min(size, len(x)), []
    for _ in range(epochs):
        order = weft.randperm(len(x), generator=generator)[: len(x) // size * size].split(size)
        means.append(sum(step(x[rows]).item() for rows in order) / len(order))
    return means
