"""Weights from files: state dicts that torchvision's models wrote, `.pth` or `.safetensors`."""

from __future__ import annotations

import difflib
import importlib
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from ... import nn
from ...errors import MissingFileError, OptionError
from ...io import load_file, load_torch
from ...io.atomic import Path
from ...tensor import Tensor

__all__ = ["build", "from_torchvision", "read_state_dict"]

# the constructors of each file that torchvision has as well
TORCHVISION: dict[str, tuple[str, ...]] = {
    "alex_net": ("alexnet",),
    "convnext": ("convnext_tiny", "convnext_small", "convnext_base", "convnext_large"),
    "densenet": ("densenet121", "densenet161", "densenet169", "densenet201"),
    "google_net": ("googlenet",),
    "mobilenet": ("mobilenet_v2",),
    "resnet": (
        *("resnet18", "resnet34", "resnet50", "resnet101", "resnet152"),
        *("resnext50_32x4d", "resnext101_32x8d", "resnext101_64x4d", "wide_resnet50_2", "wide_resnet101_2"),
    ),
    "vgg": tuple(f"vgg{depth}{norm}" for depth in (11, 13, 16, 19) for norm in ("", "_bn")),
    "vit": ("vit_b_16", "vit_b_32", "vit_l_16", "vit_l_32", "vit_h_14"),
}
PREFIXES = ("module.", "_orig_mod.")  # what parallel and compiled models put before all keys
HEAD = re.compile(r"(fc|head|heads\.head|classifier(\.\d+)?)\.weight")  # what the last layer is called
WRAPPERS = ("state_dict", "model_state_dict", "model")  # where training scripts put the state dict among other things


def from_torchvision(name: str, file: Path, **options: Any) -> nn.Module:
    """The model that torchvision calls `name`, with the weights of a state dict that was saved from it.

    file: `.pth` or `.pt` as `torch.save(model.state_dict(), …)` writes it, or `.safetensors`. The number of classes is
    taken from the file unless `num_classes` is given. If keys are missing, unexpected or of another shape, the error
    lists all of them.

    >>> model = from_torchvision("resnet18", "resnet18-f37072fd.pth").eval()
    """
    homes = {known: module for module, names in TORCHVISION.items() for known in names}
    if name not in homes:
        close = difflib.get_close_matches(name, homes, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise OptionError(f"from_torchvision: expected one of {', '.join(sorted(homes))}, got {name!r}{hint}")
    module = importlib.import_module(f"weft.models.vision.{homes[name]}")
    return getattr(module, name)(weights=file, **options)


def build(make: Callable[..., nn.Module], weights: Path | None, *args: Any, **options: Any) -> nn.Module:
    """`make(*args, **options)`, a fresh model; given a file of weights, the model with these."""
    if weights is None:
        return make(*args, **options)
    state = read_state_dict(weights)
    options.setdefault("num_classes", _classes(state, weights))
    with nn.init.skipping():
        model = make(*args, **options)
    model.load_state_dict(state)
    return model


def read_state_dict(file: Path) -> Mapping[str, Tensor]:
    """The state dict in a `.safetensors` file or in one that PyTorch wrote.

    It may lie under "state_dict", "model_state_dict" or "model" in a larger checkpoint, and all its keys may begin with
    "module." or "_orig_mod.", as `DataParallel` and `torch.compile` write them. The file is mapped, so that large models
    are not in memory twice: copy the values into a model at once.
    """
    if not os.path.isfile(file):
        raise MissingFileError(f"weights: no file {os.fspath(file)!r}; Weft downloads none, give the path of a file")
    tree = (load_file if os.fspath(file).endswith(".safetensors") else load_torch)(file, mmap=True)
    state = next(
        (tree[key] for key in WRAPPERS if isinstance(tree, Mapping) and isinstance(tree.get(key), Mapping)), tree
    )
    if not isinstance(state, Mapping) or not any(isinstance(value, Tensor) for value in state.values()):
        raise OptionError(
            f"{os.fspath(file)}: expected a state dict, names with tensors, got {type(state).__name__}"
            + (f" with {', '.join(map(repr, list(state)[:5]))}" if isinstance(state, Mapping) and state else "")
        )
    while prefix := next((prefix for prefix in PREFIXES if all(key.startswith(prefix) for key in state)), None):
        state = {key.removeprefix(prefix): value for key, value in state.items()}
    return state


def _classes(state: Mapping[str, Tensor], file: Path) -> int:
    """The rows of the last matrix with the name of a last layer: files need not have the order of the model."""
    matrices = [key for key, value in state.items() if isinstance(value, Tensor) and value.ndim == 2]
    if not matrices:
        raise OptionError(f"{os.fspath(file)}: no matrix among the weights, so the number of classes is unknown")
    heads = sorted(key for key in matrices if HEAD.fullmatch(key))
    return state[(heads or matrices)[-1]].shape[0]
