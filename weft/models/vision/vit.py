"""The Vision Transformer (Dosovitskiy et al. 2020): an image as a sequence of patches.

Names of parts and initial values are torchvision's; the sizes "tiny" and "small" are those of DeiT (Touvron et al. 2020).
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping
from functools import partial
from typing import Any

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...io.atomic import Path
from ...tensor import Tensor
from ..pretrained.torchvision import build, read_state_dict
from .blocks import Maker

__all__ = [
    "VisionTransformer",
    "interpolate_embeddings",
    "vit_b_16",
    "vit_b_32",
    "vit_h_14",
    "vit_l_16",
    "vit_l_32",
    "vit_s_16",
    "vit_ti_16",
]


class VisionTransformer(nn.Module):
    """z₀ = [class token; patches · E] + positions,  zₗ = blockₗ(zₗ₋₁),  y = head(norm(z_L)₀).

    The image is cut into P = (image_size / patch_size)² patches; the class token reads from them what it needs.
    representation_size adds a tanh layer before the head. Scores are 0 at first: the head starts at 0.
    Shape: (B, in_channels, image_size, image_size) → (B, num_classes)
    """

    def __init__(
        self,
        image_size: int,
        patch_size: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        num_classes: int = 1000,
        representation_size: int | None = None,
        norm_layer: Maker | None = None,
        *,
        in_channels: int = 3,
    ) -> None:
        super().__init__()
        if image_size % patch_size:
            raise OptionError(f"VisionTransformer: image_size {image_size} is no multiple of patch_size {patch_size}")
        self.image_size, self.patch_size, self.hidden_dim = image_size, patch_size, hidden_dim
        self.seq_length = (image_size // patch_size) ** 2 + 1
        self.class_token = nn.Parameter(weft.zeros(1, 1, hidden_dim))
        self.conv_proj = nn.Conv2d(in_channels, hidden_dim, patch_size, stride=patch_size)
        norm = norm_layer or partial(nn.LayerNorm, eps=1e-6)
        self.encoder = Encoder(
            self.seq_length, num_layers, num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm
        )
        self.heads = nn.Sequential(_heads(hidden_dim, representation_size, num_classes))
        self._initialise()

    def _initialise(self) -> None:
        _lecun(self.conv_proj)
        if hasattr(self.heads, "pre_logits"):
            _lecun(self.heads.pre_logits)
        nn.init.zeros_(self.heads.head.weight)
        nn.init.zeros_(self.heads.head.bias)

    def forward(self, x: Tensor) -> Tensor:
        if tuple(x.shape[2:]) != (self.image_size, self.image_size):
            raise ShapeError(
                f"VisionTransformer: expected images (B, C, {self.image_size}, {self.image_size}), got {tuple(x.shape)}"
            )
        patches = self.conv_proj(x).flatten(2).mT  # (B, D, H/p, W/p) → (B, D, P) → (B, P, D)
        tokens = weft.cat([self.class_token.expand(x.shape[0], -1, -1), patches], 1)  # (B, 1 + P, D)
        return self.heads(self.encoder(tokens)[:, 0])  # (B, D) → (B, classes)


class Encoder(nn.Module):
    """Positions are added, then blocks, then a norm: (B, seq_length, D) → the same."""

    def __init__(
        self,
        seq_length: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float,
        attention_dropout: float,
        norm_layer: Maker,
    ) -> None:
        super().__init__()
        self.pos_embedding = nn.Parameter(nn.init.normal_(weft.empty(1, seq_length, hidden_dim), std=0.02))
        self.dropout = nn.Dropout(dropout)
        block = lambda: EncoderBlock(num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer)
        self.layers = nn.Sequential(OrderedDict((f"encoder_layer_{i}", block()) for i in range(num_layers)))
        self.ln = norm_layer(hidden_dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.ln(self.layers(self.dropout(x + self.pos_embedding)))


class EncoderBlock(nn.Module):
    """h = x + attention(norm x),  y = h + mlp(norm h): (B, T, D) → the same."""

    def __init__(
        self,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float,
        attention_dropout: float,
        norm_layer: Maker,
    ) -> None:
        super().__init__()
        self.ln_1 = norm_layer(hidden_dim)
        self.self_attention = nn.MultiheadAttention(hidden_dim, num_heads, attention_dropout, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.ln_2 = norm_layer(hidden_dim)
        self.mlp = MLPBlock(hidden_dim, mlp_dim, dropout)

    def forward(self, x: Tensor) -> Tensor:
        z = self.ln_1(x)
        attended, _ = self.self_attention(z, z, z, need_weights=False)
        x = x + self.dropout(attended)
        return x + self.mlp(self.ln_2(x))


class MLPBlock(nn.Sequential):
    """linear, GELU, dropout, linear, dropout: (B, T, D) → the same."""

    _version = 2

    def __init__(self, in_dim: int, mlp_dim: int, dropout: float) -> None:
        wide, back = nn.Linear(in_dim, mlp_dim), nn.Linear(mlp_dim, in_dim)
        super().__init__(wide, nn.GELU(), nn.Dropout(dropout), back, nn.Dropout(dropout))
        for layer in (wide, back):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.normal_(layer.bias, std=1e-6)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any, **kwargs: Any) -> None:
        """torchvision's ImageNet files call the linear layers `linear_1` and `linear_2`."""
        for old, new in (("linear_1", "0"), ("linear_2", "3")):
            for part in ("weight", "bias"):
                if f"{prefix}{old}.{part}" in state_dict:
                    state_dict[f"{prefix}{new}.{part}"] = state_dict.pop(f"{prefix}{old}.{part}")
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


def _heads(hidden_dim: int, representation_size: int | None, num_classes: int) -> OrderedDict[str, nn.Module]:
    if representation_size is None:
        return OrderedDict(head=nn.Linear(hidden_dim, num_classes))
    return OrderedDict(
        pre_logits=nn.Linear(hidden_dim, representation_size),
        act=nn.Tanh(),
        head=nn.Linear(representation_size, num_classes),
    )


def _lecun(layer: nn.Conv2d | nn.Linear) -> None:
    """Weights of variance 1 / fan_in, cut at ±2; bias 0."""
    nn.init.trunc_normal_(layer.weight, std=math.sqrt(1 / layer.weight[0].numel()))
    nn.init.zeros_(layer.bias)


def interpolate_embeddings(
    image_size: int,
    patch_size: int,
    model_state: Mapping[str, Tensor],
    interpolation_mode: str = "bicubic",
    reset_heads: bool = False,
) -> dict[str, Tensor]:
    """A state dict for images of another size: its positions, a square grid, are resampled to the new grid.

    The position of the class token stays. reset_heads leaves the heads out (load with strict=False then).
    """
    name, state = "encoder.pos_embedding", dict(model_state)
    positions, side = state[name], image_size // patch_size  # (1, 1 + P, D)
    old_side = math.isqrt(positions.shape[1] - 1)
    if positions.shape[0] != 1 or old_side**2 + 1 != positions.shape[1]:
        raise ShapeError(f"interpolate_embeddings: expected positions (1, 1 + side², D), got {tuple(positions.shape)}")
    if side != old_side:
        grid = positions[:, 1:].mT.unflatten(2, (old_side, old_side))  # (1, P, D) → (1, D, side, side)
        grid = nn.functional.interpolate(grid, (side, side), mode=interpolation_mode, align_corners=True)
        state[name] = weft.cat([positions[:, :1], grid.flatten(2).mT], 1)  # (1, 1 + side², D)
        if reset_heads:
            return {key: value for key, value in state.items() if not key.startswith("heads")}
    return state


# ------------------------------------------------------------------------------------------- sizes


def _vit(
    weights: Path | None, patch_size: int, layers: int, heads: int, hidden: int, options: dict[str, Any]
) -> VisionTransformer:
    options = {"image_size": _image_size(weights, patch_size)} | options
    sizes = {"patch_size": patch_size, "num_layers": layers, "num_heads": heads, "hidden_dim": hidden}
    return build(VisionTransformer, weights, **sizes | {"mlp_dim": 4 * hidden} | options)


def _image_size(weights: Path | None, patch_size: int) -> int:
    """That of the file's positions, (1, 1 + side², D); ImageNet's 224 pixels without a file."""
    positions = None if weights is None else read_state_dict(weights).get("encoder.pos_embedding")
    return 224 if positions is None or positions.ndim != 3 else math.isqrt(positions.shape[1] - 1) * patch_size


def vit_ti_16(*, weights: Path | None = None, **options: Any) -> VisionTransformer:
    """5,717,416 parameters."""
    return _vit(weights, 16, 12, 3, 192, options)


def vit_s_16(*, weights: Path | None = None, **options: Any) -> VisionTransformer:
    """22,050,664 parameters."""
    return _vit(weights, 16, 12, 6, 384, options)


def vit_b_16(*, weights: Path | None = None, **options: Any) -> VisionTransformer:
    """86,567,656 parameters."""
    return _vit(weights, 16, 12, 12, 768, options)


def vit_b_32(*, weights: Path | None = None, **options: Any) -> VisionTransformer:
    """88,224,232 parameters."""
    return _vit(weights, 32, 12, 12, 768, options)


def vit_l_16(*, weights: Path | None = None, **options: Any) -> VisionTransformer:
    """304,326,632 parameters."""
    return _vit(weights, 16, 24, 16, 1024, options)


def vit_l_32(*, weights: Path | None = None, **options: Any) -> VisionTransformer:
    """306,535,400 parameters."""
    return _vit(weights, 32, 24, 16, 1024, options)


def vit_h_14(*, weights: Path | None = None, **options: Any) -> VisionTransformer:
    """632,045,800 parameters."""
    return _vit(weights, 14, 32, 16, 1280, options)
