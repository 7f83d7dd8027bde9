"""Image models for bench/models.py: torchvision's beside Weft's, and those of `models_peers_images`."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable
from typing import Any

Trained = tuple[Any, Callable[[], Any]]  # a model and its loss on one batch


def vision(library: Any) -> Any:
    """The module with the vision models of a library."""
    return importlib.import_module("weft.models.supervised") if library.__name__ == "weft" else torchvision_models()


def torchvision_models() -> Any:
    """torchvision.models, also from a build whose compiled operations do not load: no model here uses one."""
    try:
        return importlib.import_module("torchvision.models")
    except RuntimeError:
        for name in [name for name in sys.modules if name.startswith("torchvision")]:
            del sys.modules[name]
        for part in ("_meta_registrations", "_autograd_registrations"):
            sys.modules[f"torchvision.{part}"] = types.ModuleType(f"torchvision.{part}")
        return importlib.import_module("torchvision.models")


def file_of(library: Any, name: str) -> Any:
    """The file of one family of torchvision's models, for its blocks."""
    return (
        importlib.import_module(f"weft.models.vision.{name}")
        if library.__name__ == "weft"
        else getattr(vision(library), name)
    )


def images(library: Any) -> Any:
    """The module with the image models that torchvision does not have."""
    return importlib.import_module("weft.models.supervised" if library.__name__ == "weft" else "models_peers_images")


def classifying(library: Any, model: Any, *shape: int) -> Trained:
    """The model with its loss on one batch of images of this shape, in ten classes."""
    x, y = library.randn(*shape), library.randint(0, 10, shape[:1])
    return model, lambda: library.nn.functional.cross_entropy(model(x), y)


def mlp(library: Any) -> Trained:
    return classifying(library, images(library).MLP(784, [512, 512], 10), 128, 784)


def lenet(library: Any) -> Trained:
    return classifying(library, images(library).LeNet5(), 128, 1, 28, 28)


def resnet20(library: Any) -> Trained:
    """He's ResNet-20 with projections, of ResNet-18's blocks in both libraries."""
    nn, block = library.nn, file_of(library, "resnet").BasicBlock
    parts = [nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    before = 16
    for width in (16, 32, 64):
        stride = 1 if width == 16 else 2
        join = nn.Sequential(nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width))
        parts += [block(before, width, stride, None if width == before else join)]
        parts += [block(width, width), block(width, width)]
        before = width
    model = nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    return classifying(library, model, 32, 3, 32, 32)


def preresnet20(library: Any) -> Trained:
    return classifying(library, images(library).preresnet20(), 16, 3, 32, 32)


def wide_resnet(library: Any) -> Trained:
    return classifying(library, images(library).wide_resnet(10, 2), 16, 3, 32, 32)


def alexnet(library: Any) -> Trained:
    """The convolutions of AlexNet and one linear layer."""
    nn, features = library.nn, vision(library).AlexNet(10).features
    return classifying(library, nn.Sequential(features, nn.Flatten(), nn.Linear(256, 10)), 32, 3, 64, 64)


def vgg11(library: Any) -> Trained:
    """The convolutions of VGG-11 and one linear layer."""
    nn, plan = library.nn, [64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"]
    features = file_of(library, "vgg").make_layers(plan)
    model = nn.Sequential(features, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))
    return classifying(library, model, 16, 3, 32, 32)


def googlenet(library: Any) -> Trained:
    """Without the auxiliary classifiers."""
    model = vision(library).GoogLeNet(num_classes=10, aux_logits=False, init_weights=True)
    return classifying(library, model, 4, 3, 64, 64)


def resnet18(library: Any) -> Trained:
    return classifying(library, vision(library).resnet18(num_classes=10), 8, 3, 64, 64)


def bottlenecks(library: Any, **options: int) -> Trained:
    """ResNet-50's widths with one bottleneck a stage."""
    made = vision(library)
    model = made.ResNet(file_of(library, "resnet").Bottleneck, [1, 1, 1, 1], num_classes=10, **options)
    return classifying(library, model, 4, 3, 64, 64)


def resnext(library: Any) -> Trained:
    """ResNeXt-50's widths (32 groups of 4) with one bottleneck a stage."""
    return bottlenecks(library, groups=32, width_per_group=4)


def densenet(library: Any) -> Trained:
    model = vision(library).DenseNet(12, (6, 6, 6), 24, num_classes=10)
    return classifying(library, model, 16, 3, 64, 64)


def mobilenet_v1(library: Any) -> Trained:
    return classifying(library, images(library).MobileNetV1(num_classes=10, width_mult=0.5), 16, 3, 64, 64)


def mobilenet_v2(library: Any) -> Trained:
    return classifying(library, vision(library).mobilenet_v2(num_classes=10), 16, 3, 64, 64)


def convnext(library: Any) -> Trained:
    """Two blocks a stage, 40 channels at first ("atto" is as wide and three times as deep)."""
    setting = file_of(library, "convnext").CNBlockConfig
    widths = (40, 80, 160, 320)
    stages = [setting(a, b, 2) for a, b in zip(widths, (*widths[1:], None), strict=True)]
    return classifying(library, vision(library).ConvNeXt(stages, num_classes=10), 16, 3, 64, 64)


def vit(library: Any) -> Trained:
    """Six blocks as wide as ViT-tiny's on 64 patches."""
    sizes = {"image_size": 32, "patch_size": 4, "num_layers": 6, "num_heads": 3, "hidden_dim": 192, "mlp_dim": 768}
    return classifying(library, vision(library).VisionTransformer(**sizes, num_classes=10), 32, 3, 32, 32)
