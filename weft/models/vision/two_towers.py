"""What CLIP and SigLIP share: configs in two parts, layers, embeddings, and models of texts and images side by side."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from ..pretrained.label_losses import class_loss
from ..pretrained.outputs import BaseModelOutputWithPooling, CLIPOutput, ImageClassifierOutput
from ..pretrained.pretrained import Config, PretrainedModel, initialised
from ..pretrained.watching import noted
from ..transformers.blocks import KeyValues, Visible, activation, attend, split_heads

__all__ = ["ImageTower", "TextTower", "TowerConfig", "TowersConfig", "TwoTowers", "TwoTowersClassifier"]

F = nn.functional


# ------------------------------------------------------------------------------------------- configs


@dataclass(kw_only=True)
class TowerConfig(Config):
    """The fields that both towers have; abstract. part: the name of this config inside of that of the whole."""

    sizes: ClassVar[tuple[str, ...]] = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    part: ClassVar[str]

    hidden_size: int = 768
    intermediate_size: int = 3072
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-5
    attention_dropout: float = 0.0

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any], **changes: Any) -> Self:
        """Of its own config.json, or out of that of both towers."""
        return super().from_dict(fields.get(cls.part) or fields, **changes)


@dataclass(kw_only=True)
class TowersConfig(Config):
    """The configs of both towers; abstract. They are given as configs or as dictionaries, their defaults unless given."""

    text_class: ClassVar[type[TowerConfig]]
    vision_class: ClassVar[type[TowerConfig]]

    text_config: Any = None
    vision_config: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, kind in (("text_config", self.text_class), ("vision_config", self.vision_class)):
            given = getattr(self, name)
            if given is not None and not isinstance(given, (dict, kind)):
                raise OptionError(
                    f"{type(self).__name__}: {name} must be a {kind.__name__} or a dict, got {given!r:.80}"
                )
            setattr(self, name, given if isinstance(given, kind) else kind.from_dict(given or {}))

    def _heads_divide(self) -> bool:
        return False  # there are none here

    def to_dict(self) -> dict[str, Any]:
        flat = dataclasses.replace(self, text_config=None, vision_config=None)
        fields = super(TowersConfig, flat).to_dict()
        return {**fields, "text_config": self.text_config.to_dict(), "vision_config": self.vision_config.to_dict()}


# ------------------------------------------------------------------------------------------- layers


class Attention(nn.Module):
    """W_O [heads of softmax(q kᵀ/√D) v]. Shape: (B, T, C) → (B, T, C)"""

    random_in_training = True

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        self.heads, self.dropout = config.num_attention_heads, config.attention_dropout
        for name in ("k_proj", "v_proj", "q_proj", "out_proj"):
            self.add_module(name, nn.Linear(config.hidden_size, config.hidden_size))

    def forward(self, x: Tensor, seen: Visible) -> Tensor:
        q, k, v = (split_heads(part(x), self.heads) for part in (self.q_proj, self.k_proj, self.v_proj))
        return self.out_proj(attend(q, KeyValues(k, v), seen, dropout=self.dropout if self.training else 0.0))


class FeedForward(nn.Module):
    """W₂ φ(W₁ x + b₁) + b₂. Shape: (*, C) → (*, C)"""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        self.fc1 = nn.Linear(config.hidden_size, config.intermediate_size)
        self.fc2 = nn.Linear(config.intermediate_size, config.hidden_size)
        self.function = activation(config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.function(self.fc1(x)))


class Layer(nn.Module):
    """x ← x + attention(norm(x)), x ← x + mlp(norm(x))."""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        self.self_attn, self.mlp = Attention(config), FeedForward(config)
        self.layer_norm1 = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.layer_norm2 = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, x: Tensor, seen: Visible) -> Tensor:
        x = x + self.self_attn(self.layer_norm1(x), seen)
        return x + self.mlp(self.layer_norm2(x))


class TextEmbeddings(nn.Module):
    """word + position. Shape: (B, T) → (B, T, C)"""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.token_embedding = nn.Embedding(config.vocab_size, config.hidden_size)
        self.position_embedding = nn.Embedding(config.max_position_embeddings, config.hidden_size)

    def forward(self, tokens: Tensor, positions: Tensor | None) -> Tensor:
        most, length = self.position_embedding.num_embeddings, tokens.shape[1]
        if length > most:
            raise ShapeError(f"input_ids: expected at most {most} tokens (max_position_embeddings), got {length}")
        return self.token_embedding(tokens) + self.position_embedding(
            weft.arange(length) if positions is None else positions
        )


class ImageEmbeddings(nn.Module):
    """Patches as vectors, in CLIP a token before them, positions added. (B, C, H, W) → (B, [1 +] patches, D)"""

    def __init__(self, config: Any, class_token: bool) -> None:
        super().__init__()
        width, self.image, patch = config.hidden_size, config.image_size, config.patch_size
        self.grid, self.channels = self.image // patch, config.num_channels
        self.class_embedding = nn.Parameter(weft.randn(width)) if class_token else None
        convolution = {"kernel_size": patch, "stride": patch, "bias": not class_token}
        self.patch_embedding = nn.Conv2d(config.num_channels, width, **convolution)
        self.position_embedding = nn.Embedding(self.grid**2 + class_token, width)

    def forward(self, images: Tensor, resampled: bool) -> Tensor:
        fits = resampled or tuple(images.shape[2:]) == (self.image, self.image)
        if images.ndim != 4 or images.shape[1] != self.channels or not fits:
            raise ShapeError(
                f"pixel_values: expected (B, {self.channels}, {self.image}, {self.image}), got {tuple(images.shape)}; "
                "interpolate_pos_encoding=True takes images of other sizes"
            )
        patches = self.patch_embedding(images)  # (B, D, h, w)
        grid, x = tuple(patches.shape[2:]), patches.flatten(2).mT  # (B, h · w, D)
        if self.class_embedding is not None:
            x = weft.cat([self.class_embedding.expand(len(x), 1, -1), x], 1)
        return x + self._positions(grid)

    def _positions(self, grid: tuple[int, ...]) -> Tensor:
        """Those of the model, for another grid of patches resampled (bicubic). → ([1 +] h · w, D)"""
        table = self.position_embedding.weight
        if grid == (self.grid, self.grid):
            return table
        first, rest = table[: len(table) - self.grid**2], table[len(table) - self.grid**2 :]
        image = rest.mT.unflatten(1, (self.grid, self.grid)).unsqueeze(0)  # (P, D) → (1, D, h, w)
        image = F.interpolate(image, grid, mode="bicubic", align_corners=False)[0]
        return weft.cat([first, image.flatten(1).mT], 0)


# ------------------------------------------------------------------------------------------- towers


class Tower(PretrainedModel):
    """Embeddings, then layers; abstract."""

    def _layers(self, config: TowerConfig) -> nn.ModuleDict:
        return nn.ModuleDict({"layers": nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))})

    def _encoded(self, x: Tensor, seen: Visible) -> Tensor:
        for layer in self.encoder["layers"]:
            x = layer(noted(x), seen)
        return x


class TextTower(Tower):
    """A model of texts: (B, T) → (B, T, C), (B, pooled); abstract: subclasses say who sees whom, and what is pooled."""

    body = "text_model"
    heads = ("vision_model.", "visual_projection.", "text_projection.", "logit_scale", "logit_bias", "classifier.")

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.embeddings, self.encoder = TextEmbeddings(config), self._layers(config)
        self.final_layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        initialised(self, config.initializer_range)

    def seen(self, tokens: Tensor, mask: Tensor | None) -> Visible:
        raise NotImplementedError

    def pooled(self, x: Tensor, tokens: Tensor) -> Tensor:
        """(B, T, C) → (B, pooled)"""
        raise NotImplementedError

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        *,
        return_dict: bool | None = None,
        **asked: Any,
    ) -> BaseModelOutputWithPooling:
        with self.watched(**asked) as watch:
            last = self._encoded(self.embeddings(input_ids, position_ids), self.seen(input_ids, attention_mask))
        x = self.final_layer_norm(last)
        found = {"last_hidden_state": x, "pooler_output": self.pooled(x, input_ids), **watch.seen(last)}
        return self.delivered(BaseModelOutputWithPooling(**found), return_dict)


class ImageTower(Tower):
    """A model of images: (B, C, H, W) → (B, patches, D), (B, D); abstract: subclasses define `read`.

    interpolate_pos_encoding: images may have another size, positions are resampled to their patches.
    """

    body = "vision_model"
    heads = ("text_model.", "visual_projection.", "text_projection.", "logit_scale", "logit_bias", "classifier.")

    def read(self, images: Tensor, resampled: bool) -> tuple[Tensor, Tensor, Tensor | None]:
        """What the last layer returned, last_hidden_state, and what is pooled of it."""
        raise NotImplementedError

    def forward(
        self,
        pixel_values: Tensor,
        interpolate_pos_encoding: bool = False,
        *,
        return_dict: bool | None = None,
        **asked: Any,
    ) -> BaseModelOutputWithPooling:
        with self.watched(**asked) as watch:
            last, x, pooled = self.read(pixel_values, interpolate_pos_encoding)
        output = BaseModelOutputWithPooling(last_hidden_state=x, pooler_output=pooled, **watch.seen(last))
        return self.delivered(output, return_dict)


# ------------------------------------------------------------------------------------------- both


class TwoTowers(PretrainedModel):
    """How well texts go with images: (texts, T), (images, C, H, W) → (images, texts); abstract.

    logits = scale · cos(text, image) [+ bias]. return_loss: whether pair i of texts and images counts as right, all others
    as wrong.
    """

    def text_features(self, pooled: Tensor) -> Tensor:
        raise NotImplementedError

    def image_features(self, pooled: Tensor) -> Tensor:
        raise NotImplementedError

    def scaled(self, cosines: Tensor) -> Tensor:
        raise NotImplementedError

    def loss(self, logits: Tensor) -> Tensor:
        """Of logits (texts, images) whose pairs lie on the diagonal."""
        raise NotImplementedError

    def get_text_features(self, input_ids: Tensor, attention_mask: Tensor | None = None, **more: Any) -> Tensor:
        """(B, T) → (B, P)"""
        return self.text_features(self.text_model(input_ids, attention_mask, **more, return_dict=True).pooler_output)

    def get_image_features(self, pixel_values: Tensor, **more: Any) -> Tensor:
        """(B, C, H, W) → (B, P)"""
        return self.image_features(self.vision_model(pixel_values, **more, return_dict=True).pooler_output)

    def forward(
        self,
        input_ids: Tensor,
        pixel_values: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        return_loss: bool = False,
        interpolate_pos_encoding: bool = False,
        *,
        return_dict: bool | None = None,
        **asked: Any,
    ) -> CLIPOutput:
        text = self.text_model(input_ids, attention_mask, position_ids, return_dict=True, **asked)
        image = self.vision_model(pixel_values, interpolate_pos_encoding, return_dict=True, **asked)
        words, pictures = self.text_features(text.pooler_output), self.image_features(image.pooler_output)
        words, pictures = (x / x.norm(dim=-1, keepdim=True) for x in (words, pictures))
        logits = self.scaled(words @ pictures.mT)  # (texts, images)
        output = CLIPOutput(
            loss=self.loss(logits) if return_loss else None,
            logits_per_image=logits.mT,
            logits_per_text=logits,
            text_embeds=words,
            image_embeds=pictures,
            text_model_output=text.replace(pooler_output=self.text_features(text.pooler_output)),
            vision_model_output=image.replace(pooler_output=self.image_features(image.pooler_output)),
        )
        return self.delivered(output, return_dict)


class TwoTowersClassifier(PretrainedModel):
    """Scores of the classes of an image from the mean over its patches: (B, C, H, W) → (B, num_labels); abstract."""

    vision_class: ClassVar[type[ImageTower]]
    skipped: ClassVar[int] = 0  # places before the patches
    heads = ("text_model.", "visual_projection.", "text_projection.", "logit_scale", "logit_bias", "classifier.")

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.vision_model = self.vision_class(config.vision_config)
        head = nn.Linear(config.vision_config.hidden_size, config.num_labels)
        self.classifier = initialised(head, config.initializer_range)

    def forward(
        self, pixel_values: Tensor, *, labels: Tensor | None = None, return_dict: bool | None = None, **more: Any
    ) -> ImageClassifierOutput:
        encoded = self.vision_model(pixel_values, **more, return_dict=True)
        logits = self.classifier(encoded.last_hidden_state[:, self.skipped :].mean(1))
        loss = None if labels is None else class_loss(logits, labels, self.config)
        return self.answered(ImageClassifierOutput, encoded, return_dict, loss=loss, logits=logits)
