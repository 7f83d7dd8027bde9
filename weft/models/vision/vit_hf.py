"""The vision transformer (Dosovitskiy et al., 2021) under Hugging Face's names: for its checkpoints, and those of DeiT.

x = [class token; W patches + b] + position, then N layers of x ← x + attention(LayerNorm(x)), x ← x + mlp(LayerNorm(x)),
a last norm; the class token goes to the head. vit-base-patch16-224 has 86,567,656 parameters with 1000 classes.
DeiT (Touvron et al., 2021) has a second token, whose head learned from a teacher.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from ..pretrained.label_losses import class_loss
from ..pretrained.outputs import (
    BaseModelOutputWithPooling,
    DeiTForImageClassificationWithTeacherOutput,
    ImageClassifierOutput,
)
from ..pretrained.pretrained import Config, PretrainedModel, initialised
from ..pretrained.watching import noted
from ..transformers.blocks import KeyValues, Visible, activation, attend, split_heads

__all__ = [
    "DeiTConfig",
    "DeiTForImageClassification",
    "DeiTForImageClassificationWithTeacher",
    "DeiTModel",
    "ViTConfig",
    "ViTForImageClassification",
    "ViTModel",
]

F = nn.functional

NEWER = (
    (r"(^|\.)layers\.(\d+)\.", r"\1encoder.layer.\2."),
    (r"\.attention\.q_proj\.", ".attention.attention.query."),
    (r"\.attention\.k_proj\.", ".attention.attention.key."),
    (r"\.attention\.v_proj\.", ".attention.attention.value."),
    (r"\.attention\.o_proj\.", ".attention.output.dense."),
    (r"\.mlp\.fc1\.", ".intermediate.dense."),
    (r"\.mlp\.fc2\.", ".output.dense."),
)


@dataclass(kw_only=True)
class ViTConfig(Config):
    """The sizes of vit-base-patch16-224 by default; image_size and patch_size: a side, or [height, width]."""

    model_type: ClassVar[str] = "vit"
    sizes: ClassVar[tuple[str, ...]] = (
        *("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "num_channels"),
    )
    distilled: ClassVar[bool] = False  # whether a second token follows the class token

    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    layer_norm_eps: float = 1e-12
    image_size: int | list[int] = 224
    patch_size: int | list[int] = 16
    num_channels: int = 3
    qkv_bias: bool = True
    pooler_act: str = "tanh"
    pooler_output_size: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(side % patch for side, patch in zip(self.pair("image_size"), self.pair("patch_size"), strict=True)):
            raise OptionError(
                f"{type(self).__name__}: patches of {self.patch_size} do not divide an image of {self.image_size}"
            )

    def pair(self, name: str) -> tuple[int, int]:
        """Height and width of the image or a patch."""
        value = getattr(self, name)
        pair = (value, value) if isinstance(value, int) else tuple(value)
        if len(pair) != 2 or not all(isinstance(side, int) and side > 0 for side in pair):
            raise OptionError(f"{type(self).__name__}: {name} must be a positive integer or two of them, got {value!r}")
        return pair


@dataclass(kw_only=True)
class DeiTConfig(ViTConfig):
    """The sizes of deit-base-distilled-patch16-224 by default."""

    model_type: ClassVar[str] = "deit"
    distilled: ClassVar[bool] = True


class ViTEmbeddings(nn.Module):
    """Patches as vectors, one or two tokens before them, positions added. (B, C, H, W) → (B, tokens + patches, D)"""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        width, self.image, self.patch = config.hidden_size, config.pair("image_size"), config.pair("patch_size")
        self.channels, self.grid = config.num_channels, self._patches(self.image)
        names = ("cls_token", "distillation_token") if config.distilled else ("cls_token",)
        sizes = dict.fromkeys(names, 1) | {"position_embeddings": len(names) + self.grid[0] * self.grid[1]}
        for name, rows in sizes.items():
            start = nn.init.trunc_normal_(weft.empty(1, rows, width), std=config.initializer_range)
            self.register_parameter(name, nn.Parameter(start))
        projection = nn.Conv2d(config.num_channels, width, self.patch, stride=self.patch)
        self.patch_embeddings = nn.ModuleDict({"projection": projection})
        self.dropout, self.names = nn.Dropout(config.hidden_dropout_prob), names

    def _patches(self, image: tuple[int, ...]) -> tuple[int, int]:
        return image[0] // self.patch[0], image[1] // self.patch[1]

    def forward(self, images: Tensor, resampled: bool) -> Tensor:
        fits = resampled or tuple(images.shape[2:]) == self.image
        if images.ndim != 4 or images.shape[1] != self.channels or not fits:
            raise ShapeError(
                f"pixel_values: expected (B, {self.channels}, {self.image[0]}, {self.image[1]}), got "
                f"{tuple(images.shape)}; interpolate_pos_encoding=True takes images of other sizes"
            )
        patches = self.patch_embeddings["projection"](images).flatten(2).mT  # (B, D, h, w) → (B, h · w, D)
        first = [getattr(self, name).expand(len(images), -1, -1) for name in self.names]  # (B, 1, D) each
        return self.dropout(weft.cat([*first, patches], 1) + self.positions(self._patches(tuple(images.shape[2:]))))

    def positions(self, grid: tuple[int, int]) -> Tensor:
        """Those of the model, for another grid of patches resampled (bicubic). → (1, tokens + h · w, D)"""
        if grid == self.grid:
            return self.position_embeddings
        first, rest = self.position_embeddings.split([len(self.names), self.grid[0] * self.grid[1]], 1)
        image = rest.mT.unflatten(2, self.grid)  # (1, P, D) → (1, D, h, w)
        return weft.cat([first, F.interpolate(image, grid, mode="bicubic", align_corners=False).flatten(2).mT], 1)


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
    """The encoder, and the pooler unless left out: (B, C, H, W) → (B, tokens + patches, D), (B, pooled).

    interpolate_pos_encoding: images may have another size, positions are resampled to their patches.
    """

    config_class: ClassVar[type[Config]] = ViTConfig
    body = "vit"
    heads = ("classifier.", "cls_classifier.", "distillation_classifier.")
    newer = NEWER
    optional = ("embeddings.mask_token",)  # of pre-training

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

    def forward(
        self,
        pixel_values: Tensor,
        interpolate_pos_encoding: bool = False,
        *,
        return_dict: bool | None = None,
        **asked: Any,
    ) -> BaseModelOutputWithPooling:
        with self.watched(**asked) as watch:
            last = self.embeddings(pixel_values, interpolate_pos_encoding)
            for layer in self.encoder["layer"]:
                last = layer(noted(last))
        x = self.layernorm(last)
        pooled = None if self.pooler is None else self.pooled(self.pooler["dense"](x[:, 0]))
        output = BaseModelOutputWithPooling(last_hidden_state=x, pooler_output=pooled, **watch.seen(last))
        return self.delivered(output, return_dict)


class DeiTModel(ViTModel):
    """The encoder of DeiT with its second token."""

    config_class = DeiTConfig
    body = "deit"


class ViTForImageClassification(PretrainedModel):
    """Scores of the classes of an image: (B, C, H, W) → (B, num_labels). Arguments are those of `ViTModel`."""

    config_class: ClassVar[type[Config]] = ViTConfig
    body = "vit"
    body_class: ClassVar[type[ViTModel]] = ViTModel
    heads = ("vit.pooler.", "deit.pooler.", *ViTModel.heads)
    newer, optional = NEWER, ViTModel.optional

    def __init__(self, config: ViTConfig) -> None:
        super().__init__(config)
        self.add_module(self.body, self.body_class(config, add_pooling_layer=False))
        self.classifier = initialised(nn.Linear(config.hidden_size, config.num_labels), config.initializer_range)

    def forward(
        self, pixel_values: Tensor, *, labels: Tensor | None = None, return_dict: bool | None = None, **more: Any
    ) -> ImageClassifierOutput:
        encoded = getattr(self, self.body)(pixel_values, **more, return_dict=True)
        logits = self.classifier(encoded.last_hidden_state[:, 0])
        loss = None if labels is None else class_loss(logits, labels, self.config)
        return self.answered(ImageClassifierOutput, encoded, return_dict, loss=loss, logits=logits)


class DeiTForImageClassification(ViTForImageClassification):
    """Scores of the classes of an image from the class token alone."""

    config_class, body_class = DeiTConfig, DeiTModel
    body = "deit"


class DeiTForImageClassificationWithTeacher(PretrainedModel):
    """Scores of the classes from both tokens: (B, C, H, W) → (B, num_labels) three times."""

    config_class = DeiTConfig
    body = "deit"
    heads = ViTForImageClassification.heads
    newer, optional = NEWER, ViTModel.optional

    def __init__(self, config: DeiTConfig) -> None:
        super().__init__(config)
        self.deit = DeiTModel(config, add_pooling_layer=False)
        for name in ("cls_classifier", "distillation_classifier"):
            head = nn.Linear(config.hidden_size, config.num_labels)
            self.add_module(name, initialised(head, config.initializer_range))

    def forward(
        self, pixel_values: Tensor, *, return_dict: bool | None = None, **more: Any
    ) -> DeiTForImageClassificationWithTeacherOutput:
        encoded = self.deit(pixel_values, **more, return_dict=True)
        x = encoded.last_hidden_state  # (B, 2 + patches, D)
        own, taught = self.cls_classifier(x[:, 0]), self.distillation_classifier(x[:, 1])
        found = {"logits": (own + taught) / 2, "cls_logits": own, "distillation_logits": taught}
        return self.answered(DeiTForImageClassificationWithTeacherOutput, encoded, return_dict, **found)
