"""torchvision's common names: transforms, datasets, models, operations on boxes, pictures of batches.

Scripts written for torchvision run with `import weft.vision as torchvision`. Images are tensors or arrays (…, C, H, W), or
PIL images; what comes back is of the same kind. Everything is drawn from Weft's generators, so `weft.manual_seed` fixes it;
in a batch each image has its own draw. Nothing is downloaded but the data sets that are asked to (`download=True`).

>>> import weft.vision as torchvision
>>> crop = torchvision.transforms.Compose([torchvision.transforms.CenterCrop(24), torchvision.transforms.ToTensor()])
>>> crop(np.zeros((28, 28), np.uint8)).shape
Size([1, 24, 24])
"""

from ..runtime.lazy import later as _later

__version__ = "0.28.0"

_NAMES: dict[str, tuple[str, ...]] = {"backend": ("get_image_backend", "set_image_backend")}
_MODULES = ("datasets", "io", "models", "ops", "transforms", "utils")

__all__ = [*_MODULES, *_NAMES["backend"]]

__getattr__, __dir__ = _later(__name__, _MODULES, _NAMES)
