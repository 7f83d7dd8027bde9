"""What stands between an encoder and a loss of views: a few linear layers that are thrown away after training.

Features before the head are better for other tasks than those after it: the head may forget what the loss wants forgotten
(Chen et al. 2020).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Literal

from ... import nn
from ...errors import OptionError

__all__ = ["ProjectionHead"]


class ProjectionHead(nn.Sequential):
    """Linear layers; all but the last are followed by batch normalisation and ReLU.

    sizes: features that come in, of each hidden layer, that go out
    norm: whether the hidden layers are normalised; they have biases where they are not
    last: what the last layer is followed by: "none", "norm" (batch normalisation) or "plain" (the same without weights)
    Shape: (B, sizes[0]) → (B, sizes[-1])

    >>> head = ProjectionHead((8, 16, 4), last="plain")
    >>> head(weft.randn(5, 8)).shape
    weft.Size([5, 4])
    """

    def __init__(
        self, sizes: Sequence[int], norm: bool = True, last: Literal["none", "norm", "plain"] = "none"
    ) -> None:
        if len(sizes) < 2 or min(sizes) < 1:
            raise OptionError(f"ProjectionHead: expected two sizes or more, all of them at least 1, got {tuple(sizes)}")
        if last not in ("none", "norm", "plain"):
            raise OptionError(f"ProjectionHead: last is 'none', 'norm' or 'plain', got {last!r}")
        layers: list[nn.Module] = []
        for inputs, outputs in itertools.pairwise(sizes[:-1]):
            layers += [
                nn.Linear(inputs, outputs, bias=not norm),
                *([nn.BatchNorm1d(outputs)] if norm else []),
                nn.ReLU(),
            ]
        layers.append(nn.Linear(sizes[-2], sizes[-1], bias=last == "none"))
        if last != "none":
            layers.append(nn.BatchNorm1d(sizes[-1], affine=last == "norm"))
        super().__init__(*layers)
