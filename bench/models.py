"""One training step of whole models: Weft, compiled, against PyTorch, in turns.

A step is forward, backward and SGD with momentum on one batch. Prints medians and the ratio Weft / PyTorch (below 1:
Weft is faster). A model is a row of MODELS: a function of the library (`weft` or `torch`) that gives the model and the
function that computes its loss. torchvision supplies PyTorch's vision models.

    python bench/models.py [--rounds 15] [--threads 2] [--json FILE]
"""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable
from typing import Any

from turns import run

Trained = tuple[Any, Callable[[], Any]]  # a model and its loss on one batch


def programs(library: Any) -> dict[str, Callable[[], Any]]:
    """A training step of every model."""
    return {name: program(library, *make(library)) for name, make in MODELS.items()}


def program(library: Any, model: Any, loss: Callable[[], Any]) -> Callable[[], None]:
    optimizer = library.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return library.compile(step) if library.__name__ == "weft" else step


# ------------------------------------------------------------------------------------------- vision


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


def classifying(library: Any, model: Any, *shape: int) -> Trained:
    """The model with its loss on one batch of images of this shape, in ten classes."""
    x, y = library.randn(*shape), library.randint(0, 10, shape[:1])
    return model, lambda: library.nn.functional.cross_entropy(model(x), y)


def resnet20(library: Any) -> Trained:
    """He's ResNet-20 with projections, of ResNet-18's blocks in both libraries."""
    nn, block = library.nn, vision(library).resnet.BasicBlock
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


def vgg11(library: Any) -> Trained:
    """The convolutions of VGG-11 and one linear layer."""
    nn, plan = library.nn, [64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"]
    features = vision(library).vgg.make_layers(plan)
    model = nn.Sequential(features, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))
    return classifying(library, model, 16, 3, 32, 32)


def resnet18(library: Any) -> Trained:
    return classifying(library, vision(library).resnet18(num_classes=10), 8, 3, 64, 64)


def densenet(library: Any) -> Trained:
    model = vision(library).DenseNet(12, (6, 6, 6), 24, num_classes=10)
    return classifying(library, model, 16, 3, 64, 64)


def mobilenet_v2(library: Any) -> Trained:
    return classifying(library, vision(library).mobilenet_v2(num_classes=10), 16, 3, 64, 64)


def convnext(library: Any) -> Trained:
    """Two blocks a stage, 40 channels at first ("atto" is as wide and three times as deep)."""
    setting = vision(library).convnext.CNBlockConfig
    widths = (40, 80, 160, 320)
    stages = [setting(a, b, 2) for a, b in zip(widths, (*widths[1:], None), strict=True)]
    return classifying(library, vision(library).ConvNeXt(stages, num_classes=10), 16, 3, 64, 64)


def vit(library: Any) -> Trained:
    """Six blocks as wide as ViT-tiny's on 64 patches."""
    sizes = {"image_size": 32, "patch_size": 4, "num_layers": 6, "num_heads": 3, "hidden_dim": 192, "mlp_dim": 768}
    return classifying(library, vision(library).VisionTransformer(**sizes, num_classes=10), 32, 3, 32, 32)


MODELS: dict[str, Callable[[Any], Trained]] = {
    "resnet20, 32 × 32²": resnet20,
    "resnet18, 8 × 64²": resnet18,
    "vgg11, 16 × 32²": vgg11,
    "densenet (18 layers), 16 × 64²": densenet,
    "mobilenet_v2, 16 × 64²": mobilenet_v2,
    "convnext (8 blocks), 16 × 64²": convnext,
    "vit (6 blocks), 32 × 32²": vit,
}


if __name__ == "__main__":
    run("training step", __doc__, programs, rounds=15, seconds=0.01)
