"""What models that learn from several views of unlabelled examples are: an encoder, something on top, a loss of views."""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import TypeVar

from ... import nn
from ...errors import OptionError
from ...nn.module import Module
from ...nn.modules.batchnorm import BatchNorm
from ...tape.modes import no_grad
from ...tensor import Tensor

__all__ = ["SelfSupervised", "WithTarget", "follower", "update_momentum"]

M = TypeVar("M", bound=Module)


class SelfSupervised(nn.Module):
    """An encoder that is wanted and a loss that only trains it; abstract.

    encoder: examples (B, *event) → features (B, D)
    `embed`, which is calling the model: examples → features (B, D), what probes and other tasks look at
    """

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, x: Tensor) -> Tensor:
        return self.encoder(x)

    embed = forward

    @abstractmethod
    def outputs(self, *views: Tensor) -> tuple[Tensor, Tensor]:
        """What one step minimises, (), and what it is computed from, (B, P), whose spread tells of a collapse."""

    def loss(self, *views: Tensor) -> Tensor:
        """What one step minimises: views (B, *event), row i of all of them made from one example → ()."""
        return self.outputs(*views)[0]

    def follow(self) -> None:
        """Whatever has to follow the weights, before each step; most models have nothing of the kind."""


class WithTarget(SelfSupervised):
    """A model beside which a slower copy of encoder and head stands, the target; abstract.

    projection_head: features (B, D) → what is compared, (B, P)
    momentum: m of θ' ← m θ' + (1 − m) θ, before each step, with the weights as the last step left them
    """

    def __init__(self, encoder: nn.Module, projection_head: nn.Module, momentum: float) -> None:
        super().__init__(encoder)
        self.projection_head, self.momentum = projection_head, momentum
        self.target_encoder, self.target_head = follower(encoder), follower(projection_head)

    def follow(self) -> None:
        """One step of the target towards the model, buffers included."""
        update_momentum(self.encoder, self.target_encoder, self.momentum)
        update_momentum(self.projection_head, self.target_head, self.momentum)

    def aim(self, x: Tensor) -> Tensor:
        """What the target says: (B, *event) → (B, P), without gradients."""
        with no_grad():
            return self.target_head(self.target_encoder(x))


# ------------------------------------------------------------------------------------------- slow copies


def follower(model: M) -> M:
    """A copy that `update_momentum` moves and nothing else does.

    Its parameters take no gradients. While it trains, its batch normalisation uses the statistics of the batch, as in MoCo and
    BYOL, but leaves its running ones alone: they follow those of the model.
    """
    target = copy.deepcopy(model)
    target.requires_grad_(False)
    for layer in target.modules():
        if isinstance(layer, BatchNorm):
            layer.momentum = 0.0
    return target


def update_momentum(model: Module, target: Module, m: float) -> None:
    """θ' ← m θ' + (1 − m) θ for the parameters and the buffers of two networks of one kind.

    Buffers of whole numbers, which count something, are copied. A target of batch normalisation whose running statistics
    do not follow would be evaluated with those it was born with.

    >>> a, b = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
    >>> for layer, value in ((a, 1.0), (b, 0.0)):
    ...     _ = nn.init.constant_(layer.weight, value)
    >>> update_momentum(a, b, 0.75)
    >>> b.weight.item()
    0.25
    """
    if not 0 <= m <= 1:
        raise OptionError(f"update_momentum: m lies in [0, 1], got {m}")
    pairs = [(model.named_parameters(), target.named_parameters()), (model.named_buffers(), target.named_buffers())]
    with no_grad():
        for own, theirs in pairs:
            found = dict(own)
            for name, moved in theirs:
                if name not in found:
                    raise OptionError(f"update_momentum: the model has no {name!r}, which its target has")
                now = found[name].detach()
                moved.copy_(moved * m + now * (1 - m) if moved.is_floating_point() else now)
