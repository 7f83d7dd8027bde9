"""Augmentation: random changes of images, sequences and graphs that keep their meaning.

Image transforms have torchvision's names and arguments and work on whole batches; `base` says what they accept and what
a seed fixes. `on_images` makes a transform of loader batches. What changes a batch within a compiled step is in `compiled`.

>>> train = Compose([RandomCrop(32, padding=4), RandomHorizontalFlip(), RandAugment()])
>>> loader = DataLoader(data, batch_size=64, shuffle=True, batch_transform=on_images(train))
"""

from ...runtime.lazy import later as _later

_NAMES: dict[str, tuple[str, ...]] = {
    "base": ("Transform", "sample_generators"),
    "compose": ("Compose", "RandomApply", "RandomChoice", "on_images", "on_views"),
    "geometry": (
        *("CenterCrop", "LensDistortion", "Pad", "RandomAffine", "RandomCrop", "RandomHorizontalFlip"),
        *("RandomPerspective", "RandomRotation", "RandomTranslate", "RandomVerticalFlip"),
    ),
    "resize": ("RandomResizedCrop", "Resize"),
    "photometric": (
        *("ColorJitter", "DynamicBinarize", "GaussianBlur", "GaussianNoise", "Grayscale", "Normalize"),
        *("RandomGrayscale", "ThresholdBinarize", "ToPILImage", "ToTensor"),
    ),
    "policy": ("RandAugment",),
    "mix": ("CutMix", "MixUp", "RandomErasing"),
    "tokens": ("MaskTokens", "SwapTokens", "TokenDropout"),
    "series": ("Jitter", "MagnitudeWarp", "Scale", "TimeMask", "TimeWarp", "WindowSlice"),
    "graphs": ("DropEdges", "DropNodes", "MaskFeatures", "RandomSubgraph"),
}
_MODULES = ("colour", "compiled", "warp")

__all__ = [name for names in _NAMES.values() for name in names]

__getattr__, __dir__ = _later(__name__, _MODULES, _NAMES)
