"""Deep belief networks: RBMs on top of each other, learned one after the other (Hinton, Osindero and Teh 2006; N1 §4.3).

The two top layers are an RBM, everything below is directed: p(v, h¹, …) = p(v | h¹) … p(hᴸ⁻¹, hᴸ). Upward arrows, the
recognition model q, begin as the downward ones and part from them when all layers are tuned together (`UpDown`).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from ..generative.plans import in_one_plan
from ..generative.protocol import Bound, GenerativeModel, bound, estimate
from .contrastive import ContrastiveDivergence
from .rbm import BernoulliRBM

__all__ = ["DeepBelief", "UpDown"]

F = nn.functional


class DeepBelief(GenerativeModel):
    """Sizes (D, H¹, …, Hᴸ); `machines[i]` joins layers i and i + 1, `recognition[i]` is the arrow up between them.

    With q(h | v) of the arrows up, and one draw of h from it,

        log p(v) ≥ E_q[log p(v | h¹) + … + log p(hᴸ⁻¹) − log q(h | v)].

    Shape: v (B, D) of 0 and 1, or of means in between

    >>> net = DeepBelief((6, 5, 4))
    >>> net.encode(weft.ones(2, 6)).shape, net.sample(3).shape
    (weft.Size([2, 4]), weft.Size([3, 6]))
    """

    def __init__(self, sizes: Sequence[int], dtype: Any = None) -> None:
        super().__init__()
        if len(sizes) < 2:
            raise ShapeError(f"DeepBelief: expected the sizes of at least two layers, got {tuple(sizes)}")
        self.sizes = tuple(sizes)
        pairs = list(itertools.pairwise(sizes))
        self.machines = nn.ModuleList([BernoulliRBM(below, above, dtype) for below, above in pairs])
        self.recognition = nn.ModuleList([nn.Linear(below, above, dtype=dtype) for below, above in pairs[:-1]])
        for layer in range(len(self.recognition)):
            self.tie(layer)

    @property
    def top(self) -> BernoulliRBM:
        """The RBM over the last two layers."""
        return self.machines[-1]

    @weft.no_grad()
    def tie(self, layer: int) -> None:
        """Make the arrow up out of `layer` that of its machine, as after the machine has learned."""
        if layer < len(self.recognition):
            self.recognition[layer].weight.copy_(self.machines[layer].weight.mT)
            self.recognition[layer].bias.copy_(self.machines[layer].hidden_bias)

    @weft.no_grad()
    def unfold(self, layer: int) -> None:
        """Begin machine `layer` as the one below upside down, where sizes allow: then the bound starts where log p is."""
        below, here = self.machines[layer - 1], self.machines[layer]
        if below.weight.mT.shape != here.weight.shape:
            raise ShapeError(
                f"unfold: machine {layer} joins {tuple(here.weight.shape)} units, the one below {tuple(below.weight.shape)}; it "
                "can begin as that one upside down only with the sizes swapped"
            )
        here.weight.copy_(below.weight.mT)
        here.visible_bias.copy_(below.hidden_bias)
        here.hidden_bias.copy_(below.visible_bias)

    def upward(self, x: Tensor, layers: int | None = None) -> Tensor:
        """Means of layer `layers`, by default the one below the top, each layer fed with the means of the last."""
        for arrow in self.recognition[: len(self.recognition) if layers is None else layers]:
            x = weft.sigmoid(arrow(x))
        return x

    @estimate
    def encode(self, x: Tensor) -> Tensor:
        """Means of the top layer: (B, D) → (B, Hᴸ)"""
        return self.top.encode(self.upward(x))

    @estimate
    def decode(self, z: Tensor) -> Tensor:
        """Means of the visible units, downwards from the top: (B, Hᴸ) → (B, D)"""
        for machine in reversed(self.machines):
            z = machine.decode(z)
        return z

    @estimate
    @in_one_plan
    @weft.no_grad()
    def sample(self, n: int, condition: Any = None, generator: Any = None, steps: int = 500) -> Tensor:
        """Gibbs chains in the top machine, then down, drawn layer by layer; the means of the last: (n, D)"""
        self._unconditional(condition)
        h = self.top.sample(n, generator=generator, steps=steps)
        for machine in reversed(self.machines[1:-1]):
            h = machine.draw_visible(h @ machine.weight.mT, machine.visible_bias, generator)
        return h if len(self.machines) == 1 else self.machines[0].decode(h)

    @bound
    @weft.no_grad()
    def log_prob_bound(self, x: Tensor, samples: int = 1, generator: Any = None, **options: Any) -> Bound:
        """The bound of the class with its expectation over `samples` draws of the hidden layers.

        Z of the top machine is exact where that can be summed, else from above by reverse AIS; options: of
        `RBM.log_prob_bound`, such as temperatures
        """
        drawn = [self._drawn_up(x, generator) for _ in range(samples)]
        top, error = weft.cat([states for states, _ in drawn]), weft.zeros((), dtype=x.dtype)
        if self.top.enumerable:
            above = self.top.log_prob(top)
        else:
            found = self.top.log_prob_bound(top, "lower", generator=generator, **options)
            above, error = found.value, found.error[0]
        each = above.reshape(samples, -1) + weft.stack([weight for _, weight in drawn])  # (samples, B)
        spread = each.std(0) / samples**0.5 if samples > 1 else weft.zeros(len(x), dtype=x.dtype)
        return Bound(each.mean(0), "lower", weft.hypot(spread, error.expand(len(x))))

    def _drawn_up(self, x: Tensor, generator: Any) -> tuple[Tensor, Tensor]:
        """A draw of the layer below the top, and log p(below | above) − log q(above | below), summed on the way: (B,)"""
        weight = weft.zeros(len(x), dtype=x.dtype)
        for arrow, machine in zip(self.recognition, self.machines[:-1], strict=True):
            logits = arrow(x)
            above = weft.bernoulli(weft.sigmoid(logits), generator=generator)
            weight = weight + _log_bits(machine.visible_bias + above @ machine.weight.mT, x) - _log_bits(logits, above)
            x = above
        return x, weight

    def classifier(self, classes: int, dropout: Sequence[float] = ()) -> nn.Sequential:
        """A network with the arrows up as its first layers and a fresh last one, for training with labels.

        dropout: shares of the inputs of each linear layer, from the first on
        """
        rates = [*dropout, *(0.0 for _ in range(len(self.sizes) - len(dropout)))]
        if len(rates) > len(self.sizes):
            raise OptionError(f"classifier: {len(self.sizes)} linear layers, but {len(rates)} shares of dropout")
        layers: list[nn.Module] = []
        for rate, (weight, bias) in zip(rates, self._arrows(), strict=False):
            linear = nn.Linear(*weight.shape, dtype=weight.dtype)
            with weft.no_grad():
                linear.weight.copy_(weight.mT)
                linear.bias.copy_(bias)
            layers += [*([nn.Dropout(rate)] if rate else []), linear, nn.Sigmoid()]
        last = nn.Linear(self.sizes[-1], classes, dtype=self.top.weight.dtype)
        return nn.Sequential(*layers, *([nn.Dropout(rates[-1])] if rates[-1] else []), last)

    def _arrows(self) -> list[tuple[Tensor, Tensor]]:
        """Weights (below, above) and biases of all arrows up, that into the top layer too."""
        up = [(arrow.weight.mT, arrow.bias) for arrow in self.recognition]
        return [*up, (self.top.weight, self.top.hidden_bias)]

    def extra_repr(self) -> str:
        return f"sizes={self.sizes}"


class UpDown(nn.Module):
    """The contrastive wake–sleep algorithm: a loss whose slopes tune all layers together.

    Wake: h is drawn upwards, and each arrow down learns to predict the layer below from the one above. At the top, CD-k.
    Sleep: from its end downwards, and each arrow up learns to find what has been drawn above from what came of it below.

    >>> net = DeepBelief((6, 5, 4))
    >>> UpDown(net)(weft.ones(3, 6)).backward()
    """

    def __init__(self, model: DeepBelief, steps: int = 1, **options: Any) -> None:
        super().__init__()
        self.model, self.divergence = model, ContrastiveDivergence(model.top, steps, **options)

    def forward(self, v: Tensor, generator: Any = None) -> Tensor:
        model = self.model
        with weft.no_grad():
            awake = [v]
            for arrow in model.recognition:
                awake.append(weft.bernoulli(weft.sigmoid(arrow(awake[-1])), generator=generator))
            negatives = self.divergence.negatives(awake[-1], generator)
            asleep = [negatives]  # from the top down
            for machine in reversed(model.machines[:-1]):
                asleep.append(machine.draw_visible(asleep[-1] @ machine.weight.mT, machine.visible_bias, generator))
            asleep.reverse()
        loss = self.divergence.loss(awake[-1], negatives)
        for layer, (machine, arrow) in enumerate(zip(model.machines[:-1], model.recognition, strict=True)):
            down = machine.visible_bias + awake[layer + 1] @ machine.weight.mT
            up = arrow(asleep[layer])
            loss = loss - _log_bits(down, awake[layer]).mean() - _log_bits(up, asleep[layer + 1]).mean()
        return loss


def _log_bits(logits: Tensor, x: Tensor) -> Tensor:
    """log p(x) of independent bits, Σ x l − softplus(l): (B, D), (B, D) → (B,)"""
    return (x * logits - F.softplus(logits)).sum(-1)
