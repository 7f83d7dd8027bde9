"""Augmentation of whole batches inside of compiled steps: functions of tensors, each image changed by draws of its own.

The transforms of `weft.data.augment` work on the host, before a batch reaches a step; methods that change a batch several
ways within one step (FixMatch, SimCLR) take these. Compiled they are part of the step's plan and draw what they draw
eagerly. Images are floating, (N, C, H, W), with values in [0, 1].

>>> weak = Compose([RandomHorizontalFlip(), RandomCrop(32, padding=4, padding_mode="reflect")])
>>> strong = Compose([weak, RandAugment(2), Cutout(0.5)])
>>> strong(weft.rand(2, 3, 32, 32), weft.Generator().manual_seed(0)).shape
weft.Size([2, 3, 32, 32])
"""

from ....runtime.lazy import later as _later

_NAMES: dict[str, tuple[str, ...]] = {
    "base": ("Compose", "RandomApply", "TensorTransform"),
    "geometry": (
        *("Cutout", "RandomAffine", "RandomCrop", "RandomHorizontalFlip", "RandomResizedCrop", "RandomVerticalFlip"),
    ),
    "photometric": ("ColorJitter", "GaussianBlur", "Normalize", "RandomGrayscale"),
    "policy": ("CTAugment", "Choice", "RandAugment"),
}
_MODULES = ("colour",)

__all__ = [name for names in _NAMES.values() for name in names]

__getattr__, __dir__ = _later(__name__, _MODULES, _NAMES)
