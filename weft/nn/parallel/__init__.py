"""Models that several processes train together: each has a part of the batch, gradients become those of the whole."""

from ...runtime.lazy import later as _later
from .distributed import DistributedDataParallel
from .shard import fully_shard, load_whole_state_dict, whole_state_dict

__all__ = ["DistributedDataParallel", "fully_shard", "load_whole_state_dict", "whole_state_dict"]

__getattr__, __dir__ = _later(__name__)
