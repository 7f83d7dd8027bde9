"""Feature pyramids, and windows cut from the level that fits their size (Lin et al., 2017)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import weft

from ... import nn
from ...nn import functional as F
from ...tensor import Tensor
from .misc import Conv2dNormActivation
from .regions import roi_align

__all__ = ["ExtraFPNBlock", "FeaturePyramidNetwork", "LastLevelMaxPool", "LastLevelP6P7", "MultiScaleRoIAlign"]


class ExtraFPNBlock(nn.Module):
    """Makes further levels at the coarse end of a pyramid; abstract."""

    def forward(self, results: list[Tensor], x: list[Tensor], names: list[str]) -> tuple[list[Tensor], list[str]]:
        raise NotImplementedError


class LastLevelMaxPool(ExtraFPNBlock):
    """Every second place of the coarsest level as one level more, "pool"."""

    def forward(self, results: list[Tensor], x: list[Tensor], names: list[str]) -> tuple[list[Tensor], list[str]]:
        return [*results, results[-1][..., ::2, ::2]], [*names, "pool"]


class LastLevelP6P7(ExtraFPNBlock):
    """Two levels more by convolutions of stride 2, "p6" and "p7" (RetinaNet)."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.p6 = nn.Conv2d(in_channels, out_channels, 3, 2, 1)
        self.p7 = nn.Conv2d(out_channels, out_channels, 3, 2, 1)
        self.use_P5 = in_channels == out_channels
        for layer in (self.p6, self.p7):
            nn.init.kaiming_uniform_(layer.weight, a=1)
            nn.init.zeros_(layer.bias)

    def forward(self, results: list[Tensor], x: list[Tensor], names: list[str]) -> tuple[list[Tensor], list[str]]:
        p6 = self.p6(results[-1] if self.use_P5 else x[-1])
        return [*results, p6, self.p7(F.relu(p6))], [*names, "p6", "p7"]


class FeaturePyramidNetwork(nn.Module):
    """Levels of one width: 1 × 1 convolutions of each, plus the coarser level enlarged, then 3 × 3 convolutions.

    in_channels_list: channels of the levels, the finest first; out_channels: of all results
    extra_blocks: makes further levels

    Shape: {name: (N, Cᵢ, Hᵢ, Wᵢ)} → {name: (N, out_channels, Hᵢ, Wᵢ)}
    """

    def __init__(
        self,
        in_channels_list: Sequence[int],
        out_channels: int,
        extra_blocks: ExtraFPNBlock | None = None,
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        plain = {"norm_layer": norm_layer, "activation_layer": None}
        self.inner_blocks = nn.ModuleList(
            Conv2dNormActivation(c, out_channels, kernel_size=1, padding=0, **plain) for c in in_channels_list
        )
        self.layer_blocks = nn.ModuleList(
            Conv2dNormActivation(out_channels, out_channels, kernel_size=3, **plain) for _ in in_channels_list
        )
        self.extra_blocks = extra_blocks
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_uniform_(layer.weight, a=1)
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)

    def forward(self, x: dict[str, Tensor]) -> dict[str, Tensor]:
        names, levels = list(x), list(x.values())
        inner = self.inner_blocks[-1](levels[-1])
        results = [self.layer_blocks[-1](inner)]
        for i in reversed(range(len(levels) - 1)):
            inner = self.inner_blocks[i](levels[i]) + F.interpolate(inner, size=levels[i].shape[-2:], mode="nearest")
            results.insert(0, self.layer_blocks[i](inner))
        if self.extra_blocks is not None:
            results, names = self.extra_blocks(results, levels, names)
        return OrderedDict(zip(names, results, strict=True))


class MultiScaleRoIAlign(nn.Module):
    """Windows of a pyramid as bins of one size, each from the level k = ⌊k₀ + log₂(√area / s₀)⌋.

    featmap_names: the levels that are used; output_size: bins (h, w); sampling_ratio: see `roi_align`
    canonical_scale, canonical_level: s₀ and k₀

    Shape: {name: (N, C, Hᵢ, Wᵢ)}, [(Lₙ, 4)], [(H, W)] → (Σ Lₙ, C, h, w)
    """

    def __init__(
        self,
        featmap_names: Sequence[str],
        output_size: Any,
        sampling_ratio: int,
        *,
        canonical_scale: int = 224,
        canonical_level: int = 4,
    ) -> None:
        super().__init__()
        self.featmap_names, self.sampling_ratio = list(featmap_names), sampling_ratio
        self.output_size = (output_size, output_size) if isinstance(output_size, int) else tuple(output_size)
        self.canonical_scale, self.canonical_level = canonical_scale, canonical_level

    def forward(self, x: dict[str, Tensor], boxes: list[Tensor], image_shapes: list[tuple[int, int]]) -> Tensor:
        levels = [x[name] for name in self.featmap_names if name in x]
        size = max(h for h, _ in image_shapes)
        powers = [round(float(weft.tensor(level.shape[-2] / size).log2())) for level in levels]  # scales 2^power
        rows = weft.cat([weft.cat([weft.full_like(b[:, :1], i), b], 1) for i, b in enumerate(boxes)])  # (K, 5)
        if len(levels) == 1:
            return roi_align(levels[0], rows, self.output_size, 2.0 ** powers[0], self.sampling_ratio)
        sides = ((rows[:, 3] - rows[:, 1]) * (rows[:, 4] - rows[:, 2])).sqrt()
        chosen = (self.canonical_level + (sides / self.canonical_scale).log2() + 1e-6).floor()
        chosen = chosen.clamp(-powers[0], -powers[-1]).to(weft.int64) + powers[0]
        result = levels[0].new_zeros((len(rows), levels[0].shape[1], *self.output_size))
        for i, (level, power) in enumerate(zip(levels, powers, strict=True)):
            places = (chosen == i).nonzero()[:, 0]
            found = roi_align(level, rows[places], self.output_size, 2.0**power, self.sampling_ratio)
            result = result.index_add(0, places, found)
        return result
