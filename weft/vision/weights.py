"""torchvision's enumerations of weights, `ResNet18_Weights.DEFAULT`: names of files that may lie where torchvision keeps them.

Nothing is downloaded. A file `resnet18-….pth` in the folder of `torch.hub` (TORCH_HOME/hub/checkpoints, by default
~/.cache/torch/hub/checkpoints) is read; without one the error says what to put there.
"""

from __future__ import annotations

import enum
import functools
import os
from pathlib import Path
from typing import Any

from ..errors import EntryError, MissingFileError, OptionError

__all__ = ["Weights", "WeightsEnum", "file_of", "weights_enum"]


class _About(dict[str, Any]):
    """What torchvision tells of weights and Weft does not have, such as the names of ImageNet's classes."""

    def __missing__(self, key: str) -> Any:
        raise EntryError(f"meta[{key!r}]: Weft has the files of weights only, not what torchvision knows of them")


class WeightsEnum(enum.Enum):
    """The weights of one model; abstract. Each has a name, `transforms()` and `meta`."""

    @property
    def url(self) -> str:
        """The pattern of the name of its file."""
        return f"{_constructor(type(self).__name__)}-*.pth"

    @property
    def meta(self) -> dict[str, Any]:
        """Empty: an entry that is asked for is an error that says so."""
        return _About()

    def transforms(self, *, crop_size: int = 224, resize_size: int = 256, **options: Any) -> Any:
        """What images go through before the model: smaller side 256, the middle 224², ImageNet's mean and deviation."""
        from . import transforms as t

        return t.Compose(
            [
                t.Resize(resize_size, **options),
                t.CenterCrop(crop_size),
                _AsFloats(),
                t.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
            ]
        )

    def get_state_dict(self, *args: Any, **options: Any) -> Any:
        """The state dict in its file."""
        from ..models.pretrained.torchvision import read_state_dict

        return read_state_dict(file_of(_constructor(type(self).__name__)))


Weights = WeightsEnum


class _AsFloats:
    """Pictures and bytes as floating tensors in [0, 1]."""

    def __call__(self, image: Any) -> Any:
        from ..tensor import Tensor
        from .transforms import functional as F

        return F.convert_image_dtype(image) if isinstance(image, Tensor) else F.to_tensor(image)


def weights_enum(name: str) -> type[WeightsEnum]:
    """The enumeration of a name, `ResNet18_Weights`; however it is spelt, there is one for each model."""
    return _enum(f"{_constructor(name)}_Weights")


@functools.cache
def _enum(name: str) -> type[WeightsEnum]:
    members = {"IMAGENET1K_V1": "IMAGENET1K_V1", "IMAGENET1K_V2": "IMAGENET1K_V2", "DEFAULT": "IMAGENET1K_V1"}
    made: Any = WeightsEnum(name, members)
    made.__doc__ = f"Files of weights for `{_constructor(name)}`."
    return made


def _constructor(name: str) -> str:
    return name.removesuffix("_Weights").lower()


def file_of(constructor: str) -> Path:
    """The one file of weights of a model in the folder of `torch.hub`."""
    home = os.environ.get("TORCH_HOME") or os.path.join(
        os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "torch"
    )
    folder = Path(home, "hub", "checkpoints")
    found = sorted(folder.glob(f"{constructor}-*.pth"))
    if not found:
        raise MissingFileError(
            f"{constructor}: Weft downloads no weights and {folder} has no {constructor}-….pth; "
            f"put torchvision's file there, or give its path: weights='{constructor}.pth'"
        )
    if len(found) > 1:
        names = ", ".join(file.name for file in found)
        raise OptionError(f"{constructor}: several files are in {folder}: {names}; give the path of one as weights")
    return found[0]
