"""The ladder network (Rasmus et al. 2015): an autoencoder whose every layer is denoised with the help of the one above.

A clean encoder says what each layer should be, a noisy one what it looks like; the decoder comes down from the classes and
joins, in each layer, what it brings with what the noisy encoder saw there. So higher layers need not carry details.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import weft

from ... import nn
from ...errors import OptionError
from ...tape.modes import no_grad
from ...tensor import Tensor

__all__ = ["Combinator", "LadderNetwork"]


class Combinator(nn.Module):
    """ẑ = g(z̃, u) = (z̃ − μ(u)) υ(u) + μ(u), each unit by itself.

    μ(u) = a₁ σ(a₂ u + a₃) + a₄ u + a₅ and υ(u) alike: of a Gaussian z with mean μ and variance s² under noise of variance n²
    this is the best guess E[z | z̃], where υ = s² / (s² + n²). With υ = 1 it hands on z̃, with υ = 0 it hands on μ(u).

    units: how many there are. Shape: (B, units), (B, units) → (B, units)
    """

    def __init__(self, units: int) -> None:
        super().__init__()
        start = weft.tensor([0.0, 1.0, 0.0, 0.0, 0.0])[:, None] * weft.ones(units)  # (5, units): a₁ … a₅
        self.mean, self.share = nn.Parameter(start.clone()), nn.Parameter(start)

    def forward(self, z: Tensor, u: Tensor) -> Tensor:
        mean = _curve(self.mean, u)
        return (z - mean) * _curve(self.share, u) + mean


class Rung(nn.Module):
    """One layer on the way up: W h, normalised, with noise; then γ (z + β), and ReLU."""

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, inputs: int, outputs: int, last: bool, momentum: float) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=False)
        self.beta = nn.Parameter(weft.zeros(outputs))
        self.gamma = nn.Parameter(weft.ones(outputs)) if last else None  # ReLU does without a scale
        self.momentum = momentum
        self.register_buffer("running_mean", weft.zeros(outputs))
        self.register_buffer("running_var", weft.ones(outputs))

    def activation(self, z: Tensor) -> Tensor:
        """h from z: the logits of the last layer."""
        return nn.functional.relu(z + self.beta) if self.gamma is None else self.gamma * (z + self.beta)

    @no_grad()
    def follow(self, mean: Tensor, var: Tensor) -> None:
        """Move the running statistics towards those of a batch."""
        for kept, new in ((self.running_mean, mean), (self.running_var, var)):
            kept.copy_((1 - self.momentum) * kept + self.momentum * new.detach())


class LadderNetwork(nn.Module):
    """Encoder in_features → hidden → classes, and a decoder back through combinators.

    noise: deviation of what is added to the input and to every layer of the noisy encoder
    momentum: how fast running statistics, which evaluation uses, follow those of clean batches

    Shape: (B, …) with in_features numbers each → logits (B, classes)

    >>> net = LadderNetwork(784, (1000, 500, 250, 250, 250), 10)
    >>> logits, layers = net.noisy(weft.rand(8, 784))
    >>> tuple(logits.shape), len(layers), len(net.denoising_costs(weft.rand(8, 784)))
    ((8, 10), 7, 7)
    """

    def __init__(
        self, in_features: int, hidden: Sequence[int], classes: int, noise: float = 0.3, momentum: float = 0.05
    ) -> None:
        super().__init__()
        widths = [in_features, *hidden, classes]
        if min(widths) < 1 or not noise >= 0 or not 0 < momentum <= 1:
            raise OptionError(
                f"LadderNetwork: expected widths ≥ 1, noise ≥ 0, momentum in (0, 1]; got {widths}, {noise}, {momentum}"
            )
        self.noise = noise
        pairs = list(itertools.pairwise(widths))
        self.rungs = nn.ModuleList([Rung(*pair, k == len(pairs), momentum) for k, pair in enumerate(pairs, 1)])
        self.down = nn.ModuleList([nn.Linear(b, a, bias=False) for a, b in pairs])
        self.combinators = nn.ModuleList([Combinator(width) for width in widths])

    def forward(self, x: Tensor) -> Tensor:
        """Logits of the clean encoder: by statistics of the batch in training, by running ones in evaluation."""
        if self.training:
            return self.clean(x)[0]
        x = x.flatten(1)  # (B, …) → (B, in_features)
        for rung in self.rungs:
            x = rung.activation((rung.linear(x) - rung.running_mean) / (rung.running_var + 1e-5).sqrt())
        return x

    def clean(self, x: Tensor) -> tuple[Tensor, list[tuple[Tensor, Tensor, Tensor]]]:
        """Logits, and of each layer z with the mean and deviation by which it was normalised (0 and 1 of the input)."""
        x = x.flatten(1)
        layers = [(x, weft.zeros(1), weft.ones(1))]
        for rung in self.rungs:
            before = rung.linear(x)
            mean, var = before.mean(0), before.var(0, unbiased=False)
            rung.follow(mean, var)
            deviation = (var + 1e-5).sqrt()
            z = (before - mean) / deviation
            layers.append((z, mean, deviation))
            x = rung.activation(z)
        return x, layers

    def noisy(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Logits, and z̃ of each layer from the input up."""
        x = self._with_noise(x.flatten(1))
        layers = [x]
        for rung in self.rungs:
            layers.append(self._with_noise(normalised(rung.linear(x))))
            x = rung.activation(layers[-1])
        return x, layers

    def denoising_costs(self, x: Tensor) -> list[Tensor]:
        """C_l = mean ‖z_l − (ẑ_l − μ_l) / σ_l‖² / units, with the clean μ_l and σ_l, from the input up."""
        _, clean = self.clean(x)
        logits, seen = self.noisy(x)
        costs, u = [], normalised(logits.softmax(1))
        for number in reversed(range(len(seen))):
            guess = self.combinators[number](seen[number], u)
            z, mean, deviation = clean[number]
            costs.append(nn.functional.mse_loss((guess - mean) / deviation, z))
            if number:
                u = normalised(self.down[number - 1](guess))
        return costs[::-1]

    def _with_noise(self, x: Tensor) -> Tensor:
        return x + self.noise * weft.randn(x.shape, dtype=x.dtype)


def normalised(x: Tensor) -> Tensor:
    """Columns with mean 0 and variance 1 over the batch: (B, D) → (B, D)"""
    return (x - x.mean(0)) / (x.var(0, unbiased=False) + 1e-5).sqrt()


def _curve(a: Tensor, u: Tensor) -> Tensor:
    """a₁ σ(a₂ u + a₃) + a₄ u + a₅: (5, D), (B, D) → (B, D)"""
    return a[0] * (a[1] * u + a[2]).sigmoid() + a[3] * u + a[4]
