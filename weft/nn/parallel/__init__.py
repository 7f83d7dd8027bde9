"""Models that several processes train together: each has a part of the batch, gradients become those of the whole."""

from ...runtime.lazy import later as _later
from .distributed import DistributedDataParallel

__all__ = ["DistributedDataParallel"]

__getattr__, __dir__ = _later(__name__)
