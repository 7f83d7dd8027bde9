"""Swin (Liu et al., 2021): attention inside of windows that shift from layer to layer, and patches merged between stages.

x = LayerNorm(W patches + b), then stages of x ← x + attention(LayerNorm(x)) in windows of M × M patches with a learned bias
for each distance, x ← x + mlp(LayerNorm(x)); every second layer moves the windows by M/2. Between stages four neighbours
become one of twice the width. swin-tiny-patch4-window7-224 has 28,288,354 parameters with 1000 classes. Keys are those of
transformers' files.

>>> config = SwinConfig(image_size=16, patch_size=2, embed_dim=8, depths=[2, 2], num_heads=[2, 4], window_size=4)
>>> SwinModel(config)(weft.zeros(1, 3, 16, 16)).last_hidden_state.shape
Size([1, 16, 16])
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, ClassVar

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from ..pretrained.label_losses import class_loss
from ..pretrained.outputs import SwinImageClassifierOutput, SwinModelOutput
from ..pretrained.pretrained import Config, PretrainedModel, initialised
from ..pretrained.watching import noted
from ..transformers.blocks import KeyValues, Visible, activation, attend, split_heads
from .blocks import StochasticDepth

__all__ = ["SwinConfig", "SwinForImageClassification", "SwinModel"]

F = nn.functional
APART = -100.0  # what is added to the score of two patches that were not neighbours before the shift

NEWER = (
    (r"\.attention\.q_proj\.", ".attention.self.query."),
    (r"\.attention\.k_proj\.", ".attention.self.key."),
    (r"\.attention\.v_proj\.", ".attention.self.value."),
    (r"\.attention\.o_proj\.", ".attention.output.dense."),
    (r"\.attention\.relative_position_bias\.", ".attention.self."),
    (r"\.mlp\.fc1\.", ".intermediate.dense."),
    (r"\.mlp\.fc2\.", ".output.dense."),
)


@dataclass(kw_only=True)
class SwinConfig(Config):
    """The sizes of swin-tiny-patch4-window7-224 by default. drop_path_rate rises from 0 to this over the layers."""

    model_type: ClassVar[str] = "swin"
    sizes: ClassVar[tuple[str, ...]] = ("image_size", "patch_size", "num_channels", "embed_dim", "window_size")

    image_size: int = 224
    patch_size: int = 4
    num_channels: int = 3
    embed_dim: int = 96
    depths: list[int] = field(default_factory=lambda: [2, 2, 6, 2])
    num_heads: list[int] = field(default_factory=lambda: [3, 6, 12, 24])
    window_size: int = 7
    mlp_ratio: float = 4.0
    qkv_bias: bool = True
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    drop_path_rate: float = 0.1
    hidden_act: str = "gelu"
    use_absolute_embeddings: bool = False
    layer_norm_eps: float = 1e-5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.depths or len(self.depths) != len(self.num_heads):
            raise OptionError(
                f"SwinConfig: expected a depth and heads for each stage, got {self.depths}, {self.num_heads}"
            )
        widths = [self.embed_dim * 2**i for i in range(len(self.depths))]
        if any(width % heads for width, heads in zip(widths, self.num_heads, strict=True)):
            raise OptionError(f"SwinConfig: heads {self.num_heads} do not divide the widths {widths}")

    def _heads_divide(self) -> bool:
        return False  # each stage has its own

    @property
    def width(self) -> int:
        """That of the last stage."""
        return self.embed_dim * 2 ** (len(self.depths) - 1)


def windows_of(x: Tensor, size: int) -> Tensor:
    """(B, H, W, C) → (B · windows, M², C)"""
    batch, height, width, channels = x.shape
    x = x.reshape(batch, height // size, size, width // size, size, channels).transpose(2, 3)
    return x.reshape(-1, size * size, channels)


def image_of(windows: Tensor, size: int, height: int, width: int) -> Tensor:
    """(B · windows, M², C) → (B, H, W, C)"""
    channels = windows.shape[-1]
    x = windows.reshape(-1, height // size, width // size, size, size, channels).transpose(2, 3)
    return x.reshape(-1, height, width, channels)


class SwinSelfAttention(nn.Module):
    """softmax(q kᵀ/√D + bias of the distance) v in each window. Shape: (B · windows, M², C) → the same"""

    random_in_training = True

    def __init__(self, config: SwinConfig, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.dropout, size = heads, config.attention_probs_dropout_prob, config.window_size
        for name in ("query", "key", "value"):
            self.add_module(name, nn.Linear(width, width, bias=config.qkv_bias))
        self.relative_position_bias_table = nn.Parameter(weft.zeros((2 * size - 1) ** 2, heads))
        row, column = (part.flatten() for part in weft.meshgrid(weft.arange(size), weft.arange(size), indexing="ij"))
        down, right = row.unsqueeze(1) - row, column.unsqueeze(1) - column  # (M², M²) each
        self.distances = (down + size - 1) * (2 * size - 1) + right + size - 1

    def forward(self, x: Tensor, apart: Tensor | None) -> Tensor:
        """apart (windows, 1, M², M²): what is added for patches that come from different places."""
        q, k, v = (split_heads(part(x), self.heads) for part in (self.query, self.key, self.value))
        bias = self.relative_position_bias_table[self.distances].permute(2, 0, 1)  # (H, M², M²)
        if apart is not None:
            bias = (bias + apart).repeat(len(x) // len(apart), 1, 1, 1)  # (B · windows, H, M², M²)
        return attend(q, KeyValues(k, v), Visible(None), bias=bias, dropout=self.dropout if self.training else 0.0)


class SwinLayer(nn.Module):
    """x ← x + attention(norm(x)) in windows moved by `shift`, x ← x + mlp(norm(x)). Shape: (B, H, W, C) → the same"""

    def __init__(self, config: SwinConfig, width: int, heads: int, chance: float, shift: int) -> None:
        super().__init__()
        hidden, self.size, self.shift = int(config.mlp_ratio * width), config.window_size, shift
        output = nn.ModuleDict({"dense": nn.Linear(width, width)})
        self.attention = nn.ModuleDict({"self": SwinSelfAttention(config, width, heads), "output": output})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(width, hidden)})
        self.output = nn.ModuleDict({"dense": nn.Linear(hidden, width)})
        self.layernorm_before = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.layernorm_after = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.dropout, self.depth = nn.Dropout(config.hidden_dropout_prob), StochasticDepth(chance, "row")
        self.function = activation(config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.depth(self._attended(self.layernorm_before(x)))
        y = self.function(self.intermediate["dense"](self.layernorm_after(x)))
        return x + self.dropout(self.output["dense"](y))

    def _attended(self, x: Tensor) -> Tensor:
        _, height, width, _ = x.shape
        if min(height, width) < self.size:
            raise ShapeError(f"pixel_values: a stage has {height} × {width} patches, less than a window of {self.size}")
        shift = self.shift if min(height, width) > self.size else 0
        x = F.pad(x, (0, 0, 0, -width % self.size, 0, -height % self.size))
        tall, wide = x.shape[1:3]
        if shift:
            x = x.roll((-shift, -shift), (1, 2))
        apart = self._apart(tall, wide, shift) if shift else None
        y = self.attention["self"](windows_of(x, self.size), apart)
        y = image_of(self.dropout(self.attention["output"]["dense"](y)), self.size, tall, wide)
        y = y.roll((shift, shift), (1, 2)) if shift else y
        return y[:, :height, :width]

    def _apart(self, tall: int, wide: int, shift: int) -> Tensor:
        """0 for patches of a window from one region, −100 for others. → (windows, 1, M², M²)"""

        def region(length: int) -> Tensor:
            place = weft.arange(length)
            return (place >= length - self.size).long() + (place >= length - shift).long()

        regions = region(tall).unsqueeze(1) * 3 + region(wide)  # (H, W)
        found = windows_of(regions.reshape(1, tall, wide, 1), self.size).squeeze(-1)  # (windows, M²)
        return ((found.unsqueeze(1) != found.unsqueeze(2)).float() * APART).unsqueeze(1)


class SwinMerging(nn.Module):
    """Four neighbours become one: W LayerNorm([their features]). Shape: (B, H, W, C) → (B, ⌈H/2⌉, ⌈W/2⌉, 2 C)"""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.reduction, self.norm = nn.Linear(4 * width, 2 * width, bias=False), nn.LayerNorm(4 * width)

    def forward(self, x: Tensor) -> Tensor:
        x = F.pad(x, (0, 0, 0, x.shape[2] % 2, 0, x.shape[1] % 2))
        parts = [x[:, row::2, column::2] for column in range(2) for row in range(2)]  # (B, H/2, W/2, C) each
        return self.reduction(self.norm(weft.cat(parts, -1)))


class SwinModel(PretrainedModel):
    """The encoder: (B, C, H, W) → (B, patches, D), and their mean (B, D)."""

    config_class: ClassVar[type[Config]] = SwinConfig
    body = "swin"
    heads = ("classifier.",)
    newer, optional = NEWER, ("relative_position_index", "embeddings.mask_token")

    def __init__(self, config: SwinConfig) -> None:
        super().__init__(config)
        size, first = config.patch_size, config.embed_dim
        patches = nn.ModuleDict({"projection": nn.Conv2d(config.num_channels, first, size, stride=size)})
        self.embeddings = nn.ModuleDict({"patch_embeddings": patches, "norm": nn.LayerNorm(first)})
        if config.use_absolute_embeddings:
            self.embeddings.position_embeddings = nn.Parameter(weft.zeros(1, (config.image_size // size) ** 2, first))
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.encoder = nn.ModuleDict({"layers": nn.ModuleList(self._stages(config))})
        self.layernorm = nn.LayerNorm(config.width, eps=config.layer_norm_eps)
        initialised(self, config.initializer_range)

    def _stages(self, config: SwinConfig) -> list[nn.ModuleDict]:
        stages, before, total = [], 0, sum(config.depths)
        for number, (depth, heads) in enumerate(zip(config.depths, config.num_heads, strict=True)):
            width = config.embed_dim * 2**number
            chances = [config.drop_path_rate * (before + i) / max(total - 1, 1) for i in range(depth)]
            layers = (
                SwinLayer(config, width, heads, chance, config.window_size // 2 if i % 2 else 0)
                for i, chance in enumerate(chances)
            )
            parts: dict[str, nn.Module] = {"blocks": nn.ModuleList(layers)}
            if number < len(config.depths) - 1:
                parts["downsample"] = SwinMerging(width)
            stages.append(nn.ModuleDict(parts))
            before += depth
        return stages

    def forward(self, pixel_values: Tensor, *, return_dict: bool | None = None, **asked: Any) -> SwinModelOutput:
        """hidden_states: after the embeddings and after every stage; attentions: those of the last layer of each."""
        config = self.config
        if pixel_values.ndim != 4 or pixel_values.shape[1] != config.num_channels:
            raise ShapeError(
                f"pixel_values: expected (B, {config.num_channels}, H, W), got {tuple(pixel_values.shape)}"
            )
        with self.watched(**asked) as watch:
            x = self._embedded(pixel_values)
            for stage in self.encoder["layers"]:
                noted(x)
                for layer in stage["blocks"]:
                    x = layer(x)
                x = stage["downsample"](x) if "downsample" in stage else x
        images = watch.hidden_states(x)  # (B, h, w, D) each
        found = {"reshaped_hidden_states": images and tuple(h.permute(0, 3, 1, 2) for h in images)}
        found |= {"hidden_states": images and tuple(h.flatten(1, 2) for h in images)}
        if watch.attentions is not None:
            found["attentions"] = tuple(watch.attentions[end - 1] for end in accumulate(config.depths))
        x = self.layernorm(x.flatten(1, 2))  # (B, h · w, D)
        output = SwinModelOutput(last_hidden_state=x, pooler_output=x.mean(1), **found)
        return self.delivered(output, return_dict)

    def _embedded(self, images: Tensor) -> Tensor:
        """(B, C, H, W) → (B, h, w, D)"""
        size = self.config.patch_size
        images = F.pad(images, (0, -images.shape[3] % size, 0, -images.shape[2] % size))
        x = self.embeddings["norm"](self.embeddings["patch_embeddings"]["projection"](images).permute(0, 2, 3, 1))
        if self.config.use_absolute_embeddings:
            table = self.embeddings.position_embeddings
            if x.shape[1] * x.shape[2] != table.shape[1]:
                raise ShapeError(
                    f"pixel_values: expected images of {self.config.image_size}, got {tuple(images.shape)}"
                )
            x = x + table.reshape(x.shape[1:])
        return self.dropout(x)


class SwinForImageClassification(PretrainedModel):
    """Scores of the classes of an image: (B, C, H, W) → (B, num_labels)."""

    config_class = SwinConfig
    body = "swin"
    heads, newer, optional = SwinModel.heads, NEWER, SwinModel.optional

    def __init__(self, config: SwinConfig) -> None:
        super().__init__(config)
        self.swin = SwinModel(config)
        self.classifier = initialised(nn.Linear(config.width, config.num_labels), config.initializer_range)

    def forward(
        self, pixel_values: Tensor, *, labels: Tensor | None = None, return_dict: bool | None = None, **more: Any
    ) -> SwinImageClassifierOutput:
        encoded = self.swin(pixel_values, **more, return_dict=True)
        logits = self.classifier(encoded.pooler_output)
        loss = None if labels is None else class_loss(logits, labels, self.config)
        return self.answered(SwinImageClassifierOutput, encoded, return_dict, loss=loss, logits=logits)
