"""torchvision's transforms of images: v1 here, v2 in `v2`, plain functions in `functional`.

The operations are those of `weft.data.augment`, which treats whole batches; here are their names and arguments in
torchvision's order. uint8 results may be one level away from torchvision's, which cuts where these round.
"""

from ...runtime.lazy import later as _later

_NAMES: dict[str, tuple[str, ...]] = {
    "modes": ("InterpolationMode",),
    "plain": (
        *(
            "CenterCrop",
            "ColorJitter",
            "Compose",
            "ConvertImageDtype",
            "FiveCrop",
            "GaussianBlur",
            "Grayscale",
            "Lambda",
        ),
        *("LinearTransformation", "Normalize", "PILToTensor", "Pad", "Resize", "TenCrop", "ToPILImage", "ToTensor"),
    ),
    "randomised": (
        *("RandAugment", "RandomAdjustSharpness", "RandomAffine", "RandomApply", "RandomAutocontrast", "RandomChoice"),
        *("RandomCrop", "RandomEqualize", "RandomErasing", "RandomGrayscale", "RandomHorizontalFlip", "RandomInvert"),
        *("RandomOrder", "RandomPerspective", "RandomPosterize", "RandomResizedCrop", "RandomRotation"),
        *("RandomSolarize", "RandomVerticalFlip"),
    ),
}
_MODULES = ("functional", "v2")

__all__ = [name for names in _NAMES.values() for name in names]

__getattr__, __dir__ = _later(__name__, _MODULES, _NAMES)
