"""`weft.utils.data.distributed`: PyTorch's place for the sampler of several processes."""

from ...data.sampler import DistributedSampler

__all__ = ["DistributedSampler"]
