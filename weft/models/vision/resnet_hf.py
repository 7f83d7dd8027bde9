"""Residual networks (He et al., 2016) under Hugging Face's names: for its checkpoints; `resnet` has torchvision's names.

A stem of size / 4, then stages of y = φ(F(x) + shortcut(x)), the first block of a stage halving the size; the mean over
the image goes to a linear head. microsoft/resnet-50 has 25,557,032 parameters with 1000 classes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from ... import nn
from ...errors import OptionError
from ...tensor import Tensor
from ..pretrained.label_losses import class_loss
from ..pretrained.outputs import BaseModelOutputWithPooling, ImageClassifierOutput
from ..pretrained.pretrained import Config, PretrainedModel
from ..pretrained.watching import noted
from ..transformers.blocks import activation

__all__ = ["ResNetConfig", "ResNetForImageClassification", "ResNetModel"]

F = nn.functional


@dataclass(kw_only=True)
class ResNetConfig(Config):
    """The sizes of resnet-50 by default. layer_type: "bottleneck" (1×1, 3×3, 1×1) or "basic" (3×3, 3×3).

    downsample_in_bottleneck: whether the first 1×1 convolution of a bottleneck takes the step of 2, not the 3×3.
    """

    model_type: ClassVar[str] = "resnet"
    sizes: ClassVar[tuple[str, ...]] = ("num_channels", "embedding_size")

    num_channels: int = 3
    embedding_size: int = 64
    hidden_sizes: list[int] = field(default_factory=lambda: [256, 512, 1024, 2048])
    depths: list[int] = field(default_factory=lambda: [3, 4, 6, 3])
    layer_type: str = "bottleneck"
    hidden_act: str = "relu"
    downsample_in_first_stage: bool = False
    downsample_in_bottleneck: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layer_type not in ("basic", "bottleneck"):
            raise OptionError(f"ResNetConfig: layer_type must be 'basic' or 'bottleneck', got {self.layer_type!r}")
        if not self.depths or len(self.depths) != len(self.hidden_sizes):
            raise OptionError(
                f"ResNetConfig: expected a depth and a width for each stage, got {self.depths} and {self.hidden_sizes}"
            )

    def _heads_divide(self) -> bool:
        return False  # there are none


class ResNetConvolution(nn.Module):
    """BatchNorm(W ∗ x): (B, C, H, W) → (B, outputs, H/stride, W/stride)."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False)
        self.normalization = nn.BatchNorm2d(outputs)
        nn.init.kaiming_normal_(self.convolution.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        return self.normalization(self.convolution(x))


class ResNetLayer(nn.Module):
    """φ(F(x) + shortcut(x)), F two or three convolutions. Shape: (B, C, H, W) → (B, outputs, H/stride, W/stride)"""

    def __init__(self, config: ResNetConfig, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        changed = inputs != outputs or stride != 1
        self.shortcut = ResNetConvolution(inputs, outputs, 1, stride) if changed else None
        if config.layer_type == "basic":
            parts = [ResNetConvolution(inputs, outputs, 3, stride), ResNetConvolution(outputs, outputs)]
        else:
            narrow, early = outputs // 4, config.downsample_in_bottleneck
            parts = [
                ResNetConvolution(inputs, narrow, 1, stride if early else 1),
                ResNetConvolution(narrow, narrow, 3, 1 if early else stride),
                ResNetConvolution(narrow, outputs, 1),
            ]
        self.layer, self.function = nn.ModuleList(parts), activation(config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for part in self.layer[:-1]:
            y = part(y).relu()
        return self.function(self.layer[-1](y) + (x if self.shortcut is None else self.shortcut(x)))


class ResNetModel(PretrainedModel):
    """The network without a head: (B, C, H, W) → (B, D, H/32, W/32), and its mean (B, D, 1, 1)."""

    config_class = ResNetConfig
    body = "resnet"
    heads = ("classifier.",)
    optional = ("num_batches_tracked",)

    def __init__(self, config: ResNetConfig) -> None:
        super().__init__(config)
        stem = ResNetConvolution(config.num_channels, config.embedding_size, 7, 2)
        self.embedder = nn.ModuleDict({"embedder": stem})
        stages, inputs = [], config.embedding_size
        for number, (width, depth) in enumerate(zip(config.hidden_sizes, config.depths, strict=True)):
            stride = 2 if number or config.downsample_in_first_stage else 1
            first = ResNetLayer(config, inputs, width, stride)
            rest = (ResNetLayer(config, width, width, 1) for _ in range(depth - 1))
            stages.append(nn.ModuleDict({"layers": nn.ModuleList([first, *rest])}))
            inputs = width
        self.encoder = nn.ModuleDict({"stages": nn.ModuleList(stages)})
        self.function = activation(config.hidden_act)

    def forward(
        self, pixel_values: Tensor, *, return_dict: bool | None = None, **asked: Any
    ) -> BaseModelOutputWithPooling:
        """hidden_states: after the stem and after every stage. There is no attention."""
        with self.watched(**asked) as watch:
            x = F.max_pool2d(self.function(self.embedder["embedder"](pixel_values)), 3, stride=2, padding=1)
            for stage in self.encoder["stages"]:
                noted(x)
                for layer in stage["layers"]:
                    x = layer(x)
        found = {"pooler_output": F.adaptive_avg_pool2d(x, 1), "hidden_states": watch.hidden_states(x)}
        return self.delivered(BaseModelOutputWithPooling(last_hidden_state=x, **found), return_dict)


class ResNetForImageClassification(PretrainedModel):
    """Scores of the classes of an image: (B, C, H, W) → (B, num_labels)."""

    config_class = ResNetConfig
    body = "resnet"
    heads = ResNetModel.heads
    optional = ResNetModel.optional

    def __init__(self, config: ResNetConfig) -> None:
        super().__init__(config)
        self.resnet = ResNetModel(config)
        self.classifier = nn.Sequential(nn.Flatten(), nn.Linear(config.hidden_sizes[-1], config.num_labels))

    def forward(
        self, pixel_values: Tensor, *, labels: Tensor | None = None, return_dict: bool | None = None, **more: Any
    ) -> ImageClassifierOutput:
        encoded = self.resnet(pixel_values, **more, return_dict=True)
        logits = self.classifier(encoded.pooler_output)
        loss = None if labels is None else class_loss(logits, labels, self.config)
        return self.answered(ImageClassifierOutput, encoded, return_dict, loss=loss, logits=logits)
