"""torchvision's models under its names and arguments: those of `weft.models.vision`.

`resnet18(weights="resnet18-f37072fd.pth")` reads a file; `weights=ResNet18_Weights.DEFAULT` and `pretrained=True` read the one that
lies where torchvision keeps it (weights.py). Nothing is downloaded.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ..errors import MissingNameError, OptionError
from ..models import vision as _vision
from ..models.vision import __all__ as _names
from ..nn.module import Module
from .weights import Weights, WeightsEnum, file_of, weights_enum

__all__ = [*_names, "Weights", "WeightsEnum", "get_model", "get_model_weights", "get_weight", "list_models"]


def __getattr__(name: str) -> Any:
    if name.endswith("_Weights") and name.removesuffix("_Weights").lower() in list_models():
        return weights_enum(name)
    if name not in _names:
        raise MissingNameError(__name__, name)
    found = getattr(_vision, name)
    found = _taking_progress(found) if inspect.isfunction(found) and "weights" in _parameters(found) else found
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)


def _parameters(function: Callable[..., Any]) -> Any:
    return inspect.signature(function).parameters


def _taking_progress(make: Callable[..., Module]) -> Callable[..., Module]:
    """The constructor with torchvision's arguments that have no meaning here: progress, and pretrained if it is false."""

    @functools.wraps(make)
    def build(*args: Any, progress: bool = True, pretrained: bool = False, **options: Any) -> Module:
        if pretrained or (options.get("weights") is not None and not _is_path(options["weights"])):
            options["weights"] = file_of(make.__name__)
        return make(*args, **options)

    return build


def _is_path(weights: Any) -> bool:
    return hasattr(weights, "__fspath__") or (
        isinstance(weights, str) and weights not in ("DEFAULT", "IMAGENET1K_V1", "IMAGENET1K_V2")
    )


def list_models() -> list[str]:
    """The names of constructors."""
    return sorted(name for name in _names if name.islower() and inspect.isfunction(getattr(_vision, name)))


def get_model(name: str, **config: Any) -> Module:
    """The model of a name, such as "resnet18"."""
    if name not in list_models():
        raise OptionError(f"get_model: expected one of {', '.join(list_models())}, got {name!r}")
    return __getattr__(name)(**config)


def get_model_weights(name: Any) -> type[WeightsEnum]:
    """The enumeration of weights of a model, given by its name or its constructor."""
    word = name if isinstance(name, str) else name.__name__
    if word not in list_models():
        raise OptionError(f"get_model_weights: expected one of {', '.join(list_models())}, got {word!r}")
    return weights_enum(f"{word}_Weights")


def get_weight(name: str) -> WeightsEnum:
    """The weights of a name such as "ResNet50_Weights.IMAGENET1K_V2"."""
    kind, _, member = name.partition(".")
    return __getattr__(kind)[member]
