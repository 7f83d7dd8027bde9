"""SigLIP (Zhai et al., 2023): CLIP with a sigmoid for every pair in place of a softmax over all of them.

logits = e^s cos(text, image) + b; −log σ(±logits) is summed over all pairs, + for those that belong together. The text is
read both ways, its vector is that of its last place, padding or not; the image's comes from a head that attends to all
patches. siglip-base-patch16-224 has 203,155,970 parameters. Keys are those of transformers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import weft

from ... import nn
from ...tensor import Tensor
from ..pretrained.pretrained import initialised
from ..transformers.blocks import Visible, visible
from .two_towers import (
    FeedForward,
    ImageEmbeddings,
    ImageTower,
    TextTower,
    TowerConfig,
    TowersConfig,
    TwoTowers,
    TwoTowersClassifier,
)

__all__ = [
    "SiglipConfig",
    "SiglipForImageClassification",
    "SiglipModel",
    "SiglipTextConfig",
    "SiglipTextModel",
    "SiglipVisionConfig",
    "SiglipVisionModel",
]

F = nn.functional


@dataclass(kw_only=True)
class SiglipTextConfig(TowerConfig):
    """The sizes of siglip-base-patch16-224 by default. projection_size: hidden_size unless given."""

    model_type: ClassVar[str] = "siglip_text_model"
    part: ClassVar[str] = "text_config"

    vocab_size: int = 32000
    hidden_act: str = "gelu_pytorch_tanh"
    layer_norm_eps: float = 1e-6
    max_position_embeddings: int = 64
    projection_size: int | None = None
    pad_token_id: int | None = 1
    bos_token_id: int | None = 49406
    eos_token_id: int | list[int] | None = 49407

    def __post_init__(self) -> None:
        super().__post_init__()
        self.projection_size = self.projection_size or self.hidden_size


@dataclass(kw_only=True)
class SiglipVisionConfig(TowerConfig):
    """The sizes of siglip-base-patch16-224 by default. vision_use_head: whether patches are pooled."""

    model_type: ClassVar[str] = "siglip_vision_model"
    part: ClassVar[str] = "vision_config"

    hidden_act: str = "gelu_pytorch_tanh"
    layer_norm_eps: float = 1e-6
    num_channels: int = 3
    image_size: int = 224
    patch_size: int = 16
    vision_use_head: bool = True


@dataclass(kw_only=True)
class SiglipConfig(TowersConfig):
    """Both configs."""

    model_type: ClassVar[str] = "siglip"
    text_class: ClassVar[type[TowerConfig]] = SiglipTextConfig
    vision_class: ClassVar[type[TowerConfig]] = SiglipVisionConfig


class SiglipTextModel(TextTower):
    """The model of texts: (B, T) → (B, T, C), (B, P)."""

    config_class = SiglipTextConfig

    def __init__(self, config: SiglipTextConfig) -> None:
        super().__init__(config)
        self.head = initialised(nn.Linear(config.hidden_size, config.projection_size), config.initializer_range)

    def seen(self, tokens: Tensor, mask: Tensor | None) -> Visible:
        return visible(mask, tokens.shape[1], tokens.shape[1])

    def pooled(self, x: Tensor, tokens: Tensor) -> Tensor:
        return self.head(x[:, -1])


class PoolingHead(nn.Module):
    """A learned query attends to all patches: y = attention(q, x), y + mlp(norm(y)). Shape: (B, T, C) → (B, C)"""

    def __init__(self, config: SiglipVisionConfig) -> None:
        super().__init__()
        self.probe = nn.Parameter(weft.randn(1, 1, config.hidden_size))
        self.attention = nn.MultiheadAttention(config.hidden_size, config.num_attention_heads, batch_first=True)
        self.layernorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.mlp = FeedForward(config)

    def forward(self, x: Tensor) -> Tensor:
        y = self.attention(self.probe.expand(len(x), -1, -1), x, x, need_weights=False)[0]  # (B, 1, C)
        return (y + self.mlp(self.layernorm(y)))[:, 0]


class SiglipVisionModel(ImageTower):
    """The model of images: (B, C, H, W) → (B, patches, D), (B, D)."""

    config_class = SiglipVisionConfig
    heads = (*ImageTower.heads, "head.")

    def __init__(self, config: SiglipVisionConfig) -> None:
        super().__init__(config)
        self.embeddings, self.encoder = ImageEmbeddings(config, class_token=False), self._layers(config)
        self.post_layernorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.head = PoolingHead(config) if config.vision_use_head else None
        initialised(self, config.initializer_range)

    def read(self, images: Tensor, resampled: bool) -> tuple[Tensor, Tensor, Tensor | None]:
        last = self._encoded(self.embeddings(images, resampled), Visible(None))
        x = self.post_layernorm(last)
        return last, x, None if self.head is None else self.head(x)


class SiglipModel(TwoTowers):
    """How well texts go with images: (texts, T), (images, C, H, W) → (images, texts)."""

    config_class = SiglipConfig
    heads = ("classifier.",)

    def __init__(self, config: SiglipConfig) -> None:
        super().__init__(config)
        self.text_model = SiglipTextModel(config.text_config)
        self.vision_model = SiglipVisionModel(config.vision_config)
        self.logit_scale = nn.Parameter(weft.tensor([2.3026]))  # ln 10, as in the paper
        self.logit_bias = nn.Parameter(weft.tensor([-10.0]))

    def text_features(self, pooled: Tensor) -> Tensor:
        return pooled

    def image_features(self, pooled: Tensor) -> Tensor:
        return pooled

    def scaled(self, cosines: Tensor) -> Tensor:
        return cosines * self.logit_scale.exp() + self.logit_bias

    def loss(self, logits: Tensor) -> Tensor:
        """−Σ log σ(±logits) over the images, its mean over the texts."""
        sign = 2 * weft.eye(len(logits)) - 1
        return -F.logsigmoid(sign * logits).sum(-1).mean()


class SiglipForImageClassification(TwoTowersClassifier):
    """Scores of the classes of an image from the mean over its patches: (B, C, H, W) → (B, num_labels)."""

    config_class, vision_class = SiglipConfig, SiglipVisionModel
