"""ConvNeXt (Liu et al., 2022) under Hugging Face's names: for its checkpoints; `convnext` has torchvision's names.

A stem of 4×4 patches, then stages of y = x + γ ⊙ W₂ φ(W₁ LayerNorm(7×7 kernel a channel ∗ x)); between stages the size is
halved. The mean over the image goes through a norm to a linear head. convnext-tiny-224 has 28,589,128 parameters with 1000
classes. Keys are those of transformers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from ..pretrained.label_losses import class_loss
from ..pretrained.outputs import BaseModelOutputWithPooling, ImageClassifierOutput
from ..pretrained.pretrained import Config, PretrainedModel, initialised
from ..pretrained.watching import noted
from ..transformers.blocks import activation
from .blocks import LayerNorm2d, StochasticDepth

__all__ = ["ConvNextConfig", "ConvNextForImageClassification", "ConvNextModel"]


@dataclass(kw_only=True)
class ConvNextConfig(Config):
    """The sizes of convnext-tiny-224 by default. layer_scale_init_value: γ at first, 0 for none."""

    model_type: ClassVar[str] = "convnext"
    sizes: ClassVar[tuple[str, ...]] = ("num_channels", "patch_size")

    num_channels: int = 3
    patch_size: int = 4
    num_stages: int | None = None
    hidden_sizes: list[int] = field(default_factory=lambda: [96, 192, 384, 768])
    depths: list[int] = field(default_factory=lambda: [3, 3, 9, 3])
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-12
    layer_scale_init_value: float = 1e-6
    drop_path_rate: float = 0.0
    image_size: int = 224

    def __post_init__(self) -> None:
        super().__post_init__()
        self.num_stages = len(self.depths) if self.num_stages is None else self.num_stages
        if not self.depths or not self.num_stages == len(self.depths) == len(self.hidden_sizes):
            raise OptionError(
                f"ConvNextConfig: expected a depth and a width for each of {self.num_stages} stages, got {self.depths} "
                f"and {self.hidden_sizes}"
            )

    def _heads_divide(self) -> bool:
        return False  # there are none


class ConvNextLayer(nn.Module):
    """x + γ ⊙ W₂ φ(W₁ LayerNorm(kernels ∗ x)). Shape: (B, C, H, W) → the same"""

    def __init__(self, config: ConvNextConfig, width: int, chance: float) -> None:
        super().__init__()
        self.dwconv = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.layernorm = nn.LayerNorm(width, eps=1e-6)
        self.pwconv1, self.pwconv2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        scale, self.function = config.layer_scale_init_value, activation(config.hidden_act)
        self.layer_scale_parameter = nn.Parameter(weft.full((width,), scale)) if scale > 0 else None
        self.depth = StochasticDepth(chance, "row")

    def forward(self, x: Tensor) -> Tensor:
        y = self.layernorm(self.dwconv(x).permute(0, 2, 3, 1))  # (B, H, W, C)
        y = self.pwconv2(self.function(self.pwconv1(y)))
        if self.layer_scale_parameter is not None:
            y = y * self.layer_scale_parameter
        return x + self.depth(y.permute(0, 3, 1, 2))  # (B, C, H, W)


class ConvNextStage(nn.Module):
    """A norm and a halving, except in the first stage, then layers."""

    def __init__(self, config: ConvNextConfig, inputs: int, outputs: int, chances: list[float], first: bool) -> None:
        super().__init__()
        halve = () if first else (LayerNorm2d(inputs, eps=1e-6), nn.Conv2d(inputs, outputs, 2, stride=2))
        self.downsampling_layer = nn.ModuleList(halve)
        self.layers = nn.ModuleList(ConvNextLayer(config, outputs, chance) for chance in chances)

    def forward(self, x: Tensor) -> Tensor:
        for part in (*self.downsampling_layer, *self.layers):
            x = part(x)
        return x


class ConvNextModel(PretrainedModel):
    """The features of an image: (B, C, H, W) → (B, D, H/32, W/32), and their mean after a norm (B, D)."""

    config_class: ClassVar[type[Config]] = ConvNextConfig
    body = "convnext"
    heads = ("classifier.",)

    def __init__(self, config: ConvNextConfig) -> None:
        super().__init__(config)
        widths, depths = config.hidden_sizes, config.depths
        stem = nn.Conv2d(config.num_channels, widths[0], config.patch_size, stride=config.patch_size)
        self.embeddings = nn.ModuleDict({"patch_embeddings": stem, "layernorm": LayerNorm2d(widths[0], eps=1e-6)})
        total = sum(depths)
        chances = [config.drop_path_rate * i / max(total - 1, 1) for i in range(total)]
        stages, before = [], 0
        for number, depth in enumerate(depths):
            part, inputs = chances[before : before + depth], widths[max(number - 1, 0)]
            stages.append(ConvNextStage(config, inputs, widths[number], part, first=number == 0))
            before += depth
        self.encoder = nn.ModuleDict({"stages": nn.ModuleList(stages)})
        self.layernorm = nn.LayerNorm(widths[-1], eps=config.layer_norm_eps)
        initialised(self, config.initializer_range)

    def forward(
        self, pixel_values: Tensor, *, return_dict: bool | None = None, **asked: Any
    ) -> BaseModelOutputWithPooling:
        """hidden_states: after the patches and after every stage. There is no attention."""
        if pixel_values.ndim != 4 or pixel_values.shape[1] != self.config.num_channels:
            raise ShapeError(
                f"pixel_values: expected (B, {self.config.num_channels}, H, W), got {tuple(pixel_values.shape)}"
            )
        with self.watched(**asked) as watch:
            x = self.embeddings["layernorm"](self.embeddings["patch_embeddings"](pixel_values))
            for stage in self.encoder["stages"]:
                x = stage(noted(x))
        pooled = self.layernorm(x.mean((-2, -1)))  # (B, D, h, w) → (B, D)
        found = {"pooler_output": pooled, "hidden_states": watch.hidden_states(x)}
        return self.delivered(BaseModelOutputWithPooling(last_hidden_state=x, **found), return_dict)


class ConvNextForImageClassification(PretrainedModel):
    """Scores of the classes of an image: (B, C, H, W) → (B, num_labels)."""

    config_class = ConvNextConfig
    body = "convnext"
    heads = ConvNextModel.heads

    def __init__(self, config: ConvNextConfig) -> None:
        super().__init__(config)
        self.convnext = ConvNextModel(config)
        self.classifier = initialised(nn.Linear(config.hidden_sizes[-1], config.num_labels), config.initializer_range)

    def forward(
        self, pixel_values: Tensor, *, labels: Tensor | None = None, return_dict: bool | None = None, **more: Any
    ) -> ImageClassifierOutput:
        encoded = self.convnext(pixel_values, **more, return_dict=True)
        logits = self.classifier(encoded.pooler_output)
        loss = None if labels is None else class_loss(logits, labels, self.config)
        return self.answered(ImageClassifierOutput, encoded, return_dict, loss=loss, logits=logits)
