"""CLIP (Radford et al., 2021): a model of texts and one of images whose vectors agree where a text describes an image.

logits = e^s cos(W_t text, W_v image). The text is read from left to right, its vector is that of its end token; the image's
is that of a token before its patches. clip-vit-base-patch32 has 151,277,313 parameters. Keys are those of transformers.

>>> text = {"vocab_size": 65, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
>>> image = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
...          "image_size": 8, "patch_size": 4}
>>> model = CLIPModel(CLIPConfig(text_config=text, vision_config=image, projection_dim=8))
>>> model(weft.tensor([[1, 2, 64]]), weft.zeros(2, 3, 8, 8)).logits_per_image.shape
Size([2, 1])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import weft

from ... import nn
from ...tensor import Tensor
from ..pretrained.outputs import TextModelOutput, VisionModelOutput
from ..pretrained.pretrained import PretrainedModel, initialised
from ..transformers.blocks import Visible, visible
from .two_towers import (
    ImageEmbeddings,
    ImageTower,
    TextTower,
    TowerConfig,
    TowersConfig,
    TwoTowers,
    TwoTowersClassifier,
)

__all__ = [
    "CLIPConfig",
    "CLIPForImageClassification",
    "CLIPModel",
    "CLIPTextConfig",
    "CLIPTextModel",
    "CLIPTextModelWithProjection",
    "CLIPVisionConfig",
    "CLIPVisionModel",
    "CLIPVisionModelWithProjection",
]

F = nn.functional


@dataclass(kw_only=True)
class CLIPTextConfig(TowerConfig):
    """The sizes of clip-vit-base-patch32 by default. eos_token_id 2, in old files, means the largest token of a text."""

    model_type: ClassVar[str] = "clip_text_model"
    part: ClassVar[str] = "text_config"

    vocab_size: int = 49408
    hidden_size: int = 512
    intermediate_size: int = 2048
    num_attention_heads: int = 8
    hidden_act: str = "quick_gelu"
    max_position_embeddings: int = 77
    projection_dim: int = 512
    pad_token_id: int | None = 1
    bos_token_id: int | None = 49406
    eos_token_id: int | list[int] | None = 49407


@dataclass(kw_only=True)
class CLIPVisionConfig(TowerConfig):
    """The sizes of clip-vit-base-patch32 by default."""

    model_type: ClassVar[str] = "clip_vision_model"
    part: ClassVar[str] = "vision_config"

    hidden_act: str = "quick_gelu"
    num_channels: int = 3
    image_size: int = 224
    patch_size: int = 32
    projection_dim: int = 512


@dataclass(kw_only=True)
class CLIPConfig(TowersConfig):
    """Both configs. projection_dim: P. logit_scale_init_value: s at first, ln(1/0.07)."""

    model_type: ClassVar[str] = "clip"
    text_class: ClassVar[type[TowerConfig]] = CLIPTextConfig
    vision_class: ClassVar[type[TowerConfig]] = CLIPVisionConfig

    projection_dim: int = 512
    logit_scale_init_value: float = 2.6592


class CLIPTextModel(TextTower):
    """The model of texts: (B, T) → (B, T, C), (B, C)."""

    config_class = CLIPTextConfig

    def seen(self, tokens: Tensor, mask: Tensor | None) -> Visible:
        return visible(mask, tokens.shape[1], tokens.shape[1], causal=True)

    def pooled(self, x: Tensor, tokens: Tensor) -> Tensor:
        end = self.config.eos_token_id
        last = tokens.argmax(-1) if end == 2 else (tokens == end).long().argmax(-1)  # (B,)
        return x[weft.arange(len(x)), last]


class CLIPVisionModel(ImageTower):
    """The model of images: (B, C, H, W) → (B, 1 + patches, D), (B, D)."""

    config_class = CLIPVisionConfig

    def __init__(self, config: CLIPVisionConfig) -> None:
        super().__init__(config)
        self.embeddings, self.encoder = ImageEmbeddings(config, class_token=True), self._layers(config)
        self.pre_layrnorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)  # as it is spelt in the files
        self.post_layernorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        initialised(self, config.initializer_range)

    def read(self, images: Tensor, resampled: bool) -> tuple[Tensor, Tensor, Tensor | None]:
        x = self._encoded(self.pre_layrnorm(self.embeddings(images, resampled)), Visible(None))
        return x, x, self.post_layernorm(x[:, 0])


class CLIPModel(TwoTowers):
    """How well texts go with images: (texts, T), (images, C, H, W) → (images, texts)."""

    config_class = CLIPConfig
    heads = ("classifier.",)

    def __init__(self, config: CLIPConfig) -> None:
        super().__init__(config)
        text, image, size = config.text_config, config.vision_config, config.projection_dim
        self.text_model, self.vision_model = CLIPTextModel(text), CLIPVisionModel(image)
        self.visual_projection = nn.Linear(image.hidden_size, size, bias=False)
        self.text_projection = nn.Linear(text.hidden_size, size, bias=False)
        self.logit_scale = nn.Parameter(weft.tensor(config.logit_scale_init_value))
        for part in (self.visual_projection, self.text_projection):
            initialised(part, part.in_features**-0.5)

    def text_features(self, pooled: Tensor) -> Tensor:
        return self.text_projection(pooled)

    def image_features(self, pooled: Tensor) -> Tensor:
        return self.visual_projection(pooled)

    def scaled(self, cosines: Tensor) -> Tensor:
        return cosines * self.logit_scale.exp()

    def loss(self, logits: Tensor) -> Tensor:
        """Cross entropy of the right image for every text, and of the right text for every image, halved."""
        right = weft.arange(len(logits))
        return (F.cross_entropy(logits, right) + F.cross_entropy(logits.mT, right)) / 2


class CLIPTextModelWithProjection(PretrainedModel):
    """The vectors of texts: (B, T) → (B, P)."""

    config_class = CLIPTextConfig
    heads = ("vision_model.", "visual_projection.", "logit_scale")

    def __init__(self, config: CLIPTextConfig) -> None:
        super().__init__(config)
        self.text_model = CLIPTextModel(config)
        head = nn.Linear(config.hidden_size, config.projection_dim, bias=False)
        self.text_projection = initialised(head, config.hidden_size**-0.5)

    def forward(self, input_ids: Tensor, *inputs: Any, return_dict: bool | None = None, **more: Any) -> TextModelOutput:
        """Arguments are those of `CLIPTextModel`."""
        found = self.text_model(input_ids, *inputs, **more, return_dict=True)
        return self.answered(TextModelOutput, found, return_dict, text_embeds=self.text_projection(found.pooler_output))


class CLIPVisionModelWithProjection(PretrainedModel):
    """The vectors of images: (B, C, H, W) → (B, P)."""

    config_class = CLIPVisionConfig
    heads = ("text_model.", "text_projection.", "logit_scale")

    def __init__(self, config: CLIPVisionConfig) -> None:
        super().__init__(config)
        self.vision_model = CLIPVisionModel(config)
        head = nn.Linear(config.hidden_size, config.projection_dim, bias=False)
        self.visual_projection = initialised(head, config.hidden_size**-0.5)

    def forward(
        self, pixel_values: Tensor, *inputs: Any, return_dict: bool | None = None, **more: Any
    ) -> VisionModelOutput:
        """Arguments are those of `CLIPVisionModel`."""
        found = self.vision_model(pixel_values, *inputs, **more, return_dict=True)
        image = self.visual_projection(found.pooler_output)
        return self.answered(VisionModelOutput, found, return_dict, image_embeds=image)


class CLIPForImageClassification(TwoTowersClassifier):
    """Scores of the classes of an image: (B, C, H, W) → (B, num_labels)."""

    config_class, vision_class = CLIPConfig, CLIPVisionModel
    skipped = 1
