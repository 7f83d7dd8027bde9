"""torchvision's transforms, second version: of an image, or of a sample in which the image is one of several things.

`t(image)`, `t(image, label)` and `t({"image": image, "label": label})` all work: PIL images and images of `ToImage` are
changed; if there is none, the first tensor or array of two to four dimensions is; everything else stays as it is. Boxes and
masks (`tv_tensors`) are not known.
"""

from ....runtime.lazy import later as _later

_NAMES: dict[str, tuple[str, ...]] = {
    "joint": (
        "InterpolationMode",
        *("CenterCrop", "ColorJitter", "Compose", "ConvertImageDtype", "FiveCrop", "GaussianBlur", "GaussianNoise"),
        *("Grayscale", "Identity", "Lambda", "LinearTransformation", "Normalize", "PILToTensor", "Pad", "RGB"),
        *("RandAugment", "RandomAdjustSharpness", "RandomAffine", "RandomApply", "RandomAutocontrast", "RandomChoice"),
        *("RandomCrop", "RandomEqualize", "RandomErasing", "RandomGrayscale", "RandomHorizontalFlip", "RandomInvert"),
        *("RandomOrder", "RandomPerspective", "RandomPosterize", "RandomResizedCrop", "RandomRotation"),
        *("RandomSolarize", "RandomVerticalFlip", "Resize", "TenCrop", "ToDtype", "ToImage", "ToPILImage"),
        *("ToPureTensor", "ToTensor"),
    ),
    "mixing": ("CutMix", "MixUp"),
}
_MODULES = ("functional",)

__all__ = [name for names in _NAMES.values() for name in names]

__getattr__, __dir__ = _later(__name__, _MODULES, _NAMES)
