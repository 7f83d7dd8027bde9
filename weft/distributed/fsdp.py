"""`weft.distributed.fsdp`: PyTorch's place for parameters that are cut over ranks; see `weft.nn.parallel`."""

from ..nn.parallel.shard import fully_shard

__all__ = ["fully_shard"]
