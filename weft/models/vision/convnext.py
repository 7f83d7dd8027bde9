"""ConvNeXt, "A ConvNet for the 2020s" (Liu et al. 2022): a ResNet with the habits of Transformers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import weft

from ... import nn
from ...errors import OptionError
from ...io.atomic import Path
from ...tensor import Tensor
from ..pretrained.torchvision import build
from .blocks import ConvNormActivation, LayerNorm2d, Maker, Permute, StochasticDepth, fill

__all__ = [
    "CNBlock",
    "CNBlockConfig",
    "ConvNeXt",
    "convnext_base",
    "convnext_large",
    "convnext_small",
    "convnext_tiny",
]


class CNBlock(nn.Module):
    """y = x + γ ⊙ F(x), F: one 7×7 kernel a channel, layer norm, linear to 4 · dim, GELU, linear back.

    γ (layer_scale) starts small; whole examples of the branch are dropped in training with stochastic_depth_prob.
    Shape: (B, dim, H, W) → the same
    """

    def __init__(
        self, dim: int, layer_scale: float, stochastic_depth_prob: float, norm_layer: Maker | None = None
    ) -> None:
        super().__init__()
        self.block = nn.Sequential(
            nn.Conv2d(dim, dim, 7, padding=3, groups=dim),
            Permute((0, 2, 3, 1)),  # (B, H, W, dim)
            (norm_layer or partial(nn.LayerNorm, eps=1e-6))(dim),
            *(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim)),
            Permute((0, 3, 1, 2)),  # (B, dim, H, W)
        )
        self.layer_scale = nn.Parameter(weft.full((dim, 1, 1), layer_scale))
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")

    def forward(self, x: Tensor) -> Tensor:
        return x + self.stochastic_depth(self.layer_scale * self.block(x))


@dataclass(frozen=True)
class CNBlockConfig:
    """One stage: num_layers blocks of input_channels; then, unless None, halving of the size to out_channels."""

    input_channels: int
    out_channels: int | None
    num_layers: int


class ConvNeXt(nn.Module):
    """Patches of 4×4 pixels, stages of blocks with halvings between them, mean, norm, linear.

    stochastic_depth_prob rises linearly from 0 at the first block to this value at the last.
    Shape: (B, in_channels, H, W) with H, W ≥ 32 (for 4 stages) → (B, num_classes)

    >>> model = ConvNeXt(stages((40, 80), (2, 2)), num_classes=10)
    """

    def __init__(
        self,
        block_setting: Sequence[CNBlockConfig],
        stochastic_depth_prob: float = 0.0,
        layer_scale: float = 1e-6,
        num_classes: int = 1000,
        norm_layer: Maker | None = None,
        *,
        in_channels: int = 3,
    ) -> None:
        super().__init__()
        if not block_setting or not all(isinstance(stage, CNBlockConfig) for stage in block_setting):
            raise OptionError(f"ConvNeXt: expected a list of CNBlockConfig, not empty, got {block_setting!r}")
        norm = norm_layer or partial(LayerNorm2d, eps=1e-6)
        first, last = block_setting[0].input_channels, block_setting[-1]
        cut = {"kernel_size": 4, "stride": 4, "padding": 0, "bias": True}
        parts: list[nn.Module] = [ConvNormActivation(in_channels, first, norm_layer=norm, activation_layer=None, **cut)]
        before, total = 0, sum(stage.num_layers for stage in block_setting)
        for stage in block_setting:
            chances = [stochastic_depth_prob * (before + i) / max(1, total - 1) for i in range(stage.num_layers)]
            parts.append(nn.Sequential(*(CNBlock(stage.input_channels, layer_scale, chance) for chance in chances)))
            before += stage.num_layers
            if stage.out_channels is not None:
                halve = nn.Conv2d(stage.input_channels, stage.out_channels, 2, stride=2)
                parts.append(nn.Sequential(norm(stage.input_channels), halve))
        channels = last.input_channels if last.out_channels is None else last.out_channels
        self.features = nn.Sequential(*parts)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(norm(channels), nn.Flatten(1), nn.Linear(channels, num_classes))
        fill(self, (nn.Conv2d, nn.Linear), partial(nn.init.trunc_normal_, std=0.02))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x)))  # (B, C, H/32, W/32) → (B, C, 1, 1) → (B, classes)


def stages(widths: Sequence[int], layers: Sequence[int]) -> list[CNBlockConfig]:
    """Stages of the given widths and numbers of blocks, with a halving between each two."""
    following = (*widths[1:], None)
    return [CNBlockConfig(*row) for row in zip(widths, following, layers, strict=True)]


def _convnext(
    weights: Path | None, widths: Sequence[int], layers: Sequence[int], depth: float, options: dict[str, Any]
) -> ConvNeXt:
    return build(ConvNeXt, weights, stages(widths, layers), **{"stochastic_depth_prob": depth} | options)


def convnext_tiny(*, weights: Path | None = None, **options: Any) -> ConvNeXt:
    """28,589,128 parameters."""
    return _convnext(weights, (96, 192, 384, 768), (3, 3, 9, 3), 0.1, options)


def convnext_small(*, weights: Path | None = None, **options: Any) -> ConvNeXt:
    """50,223,688 parameters."""
    return _convnext(weights, (96, 192, 384, 768), (3, 3, 27, 3), 0.4, options)


def convnext_base(*, weights: Path | None = None, **options: Any) -> ConvNeXt:
    """88,591,464 parameters."""
    return _convnext(weights, (128, 256, 512, 1024), (3, 3, 27, 3), 0.5, options)


def convnext_large(*, weights: Path | None = None, **options: Any) -> ConvNeXt:
    """197,767,336 parameters."""
    return _convnext(weights, (192, 384, 768, 1536), (3, 3, 27, 3), 0.5, options)
