"""The vision transformer (Dosovitskiy et al., 2021) under Hugging Face's names: for its checkpoints.

x = [class token; W patches + b] + position, then N layers of x ← x + attention(LayerNorm(x)), x ← x + mlp(LayerNorm(x)),
a last norm; the class token goes to the head. vit-base-patch16-224 has 86,567,656 parameters with 1000 classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import weft

from ... import nn
from ...errors import ShapeError
from ...tensor import Tensor
from .bert import Encoded
from .pretrained import Config, PretrainedModel, initialised
from .transformer_blocks import KeyValues, Visible, activation, attend, split_heads

__all__ = ["ViTConfig", "ViTForImageClassification", "ViTModel"]


@dataclass(kw_only=True)
class ViTConfig(Config):
    """The sizes of vit-base-patch16-224 by default; images are square."""

    model_type: ClassVar[str] = "vit"
    sizes: ClassVar[tuple[str, ...]] = (
        *("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
        *("image_size", "patch_size", "num_channels"),
    )

    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    layer_norm_eps: float = 1e-12
    image_size: int = 224
    patch_size: int = 16
    num_channels: int = 3
    qkv_bias: bool = True
    pooler_act: str = "tanh"
    pooler_output_size: int | None = None


class ViTEmbeddings(nn.Module):
    """Patches as vectors, the class token before them, positions added. (B, C, H, W) → (B, 1 + patches, D)"""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        width, side = config.hidden_size, config.image_size // config.patch_size
        self.expected = (config.num_channels, config.image_size, config.image_size)
        self.cls_token = nn.Parameter(nn.init.trunc_normal_(weft.empty(1, 1, width), std=config.initializer_range))
        places = nn.init.trunc_normal_(weft.empty(1, side * side + 1, width), std=config.initializer_range)
        self.position_embeddings = nn.Parameter(places)
        projection = nn.Conv2d(config.num_channels, width, config.patch_size, stride=config.patch_size)
        self.patch_embeddings = nn.ModuleDict({"projection": projection})
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, images: Tensor) -> Tensor:
        if tuple(images.shape[1:]) != self.expected:
            raise ShapeError(f"pixel_values: expected (B, *{self.expected}), got {tuple(images.shape)}")
        patches = self.patch_embeddings["projection"](images).flatten(2).mT  # (B, D, h, w) → (B, h · w, D)
        first = self.cls_token.expand(len(images), -1, -1)  # (B, 1, D)
        return self.dropout(weft.cat([first, patches], 1) + self.position_embeddings)


class ViTSelfAttention(nn.Module):
    """Heads of softmax(q kᵀ/√D) v. Shape: (B, T, C) → (B, T, C)"""

    random_in_training = True

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.heads, self.dropout = config.num_attention_heads, config.attention_probs_dropout_prob
        for name in ("query", "key", "value"):
            self.add_module(name, nn.Linear(config.hidden_size, config.hidden_size, bias=config.qkv_bias))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (split_heads(part(x), self.heads) for part in (self.query, self.key, self.value))
        return attend(q, KeyValues(k, v), Visible(None), dropout=self.dropout if self.training else 0.0)


class ViTLayer(nn.Module):
    """x ← x + attention(norm(x)), x ← x + mlp(norm(x))."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        width, hidden = config.hidden_size, config.intermediate_size
        output = nn.ModuleDict({"dense": nn.Linear(width, width)})
        self.attention = nn.ModuleDict({"attention": ViTSelfAttention(config), "output": output})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(width, hidden)})
        self.output = nn.ModuleDict({"dense": nn.Linear(hidden, width)})
        self.layernorm_before = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.layernorm_after = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.function = activation(config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        y = self.attention["attention"](self.layernorm_before(x))
        x = x + self.dropout(self.attention["output"]["dense"](y))
        y = self.function(self.intermediate["dense"](self.layernorm_after(x)))
        return x + self.dropout(self.output["dense"](y))


class ViTModel(PretrainedModel):
    """The encoder, and the pooler unless left out: (B, C, H, W) → (B, 1 + patches, D), (B, pooled)."""

    config_class = ViTConfig
    body = "vit"
    heads = ("classifier.",)

    def __init__(self, config: ViTConfig, add_pooling_layer: bool = True) -> None:
        super().__init__(config)
        self.embeddings = ViTEmbeddings(config)
        layers = nn.ModuleList(ViTLayer(config) for _ in range(config.num_hidden_layers))
        self.encoder = nn.ModuleDict({"layer": layers})
        self.layernorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        dense = nn.Linear(config.hidden_size, config.pooler_output_size or config.hidden_size)
        self.pooler = nn.ModuleDict({"dense": dense}) if add_pooling_layer else None
        self.pooled = activation(config.pooler_act)
        initialised(self, config.initializer_range)

    def forward(self, pixel_values: Tensor) -> Encoded:
        x = self.embeddings(pixel_values)
        for layer in self.encoder["layer"]:
            x = layer(x)
        x = self.layernorm(x)
        return Encoded(x, None if self.pooler is None else self.pooled(self.pooler["dense"](x[:, 0])))


class ViTForImageClassification(PretrainedModel):
    """Scores of the classes of an image: (B, C, H, W) → (B, num_labels)."""

    config_class = ViTConfig
    body = "vit"
    heads = ("vit.pooler.", "classifier.")

    def __init__(self, config: ViTConfig) -> None:
        super().__init__(config)
        self.vit = ViTModel(config, add_pooling_layer=False)
        self.classifier = initialised(nn.Linear(config.hidden_size, config.num_labels), config.initializer_range)

    def forward(self, pixel_values: Tensor) -> Tensor:
        return self.classifier(self.vit(pixel_values).last_hidden_state[:, 0])
