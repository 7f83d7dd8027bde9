"""`weft.distributed.optim`: PyTorch's place for optimisers with state cut over ranks; see `weft.optim`."""

from ..optim.zero import ZeroRedundancyOptimizer

__all__ = ["ZeroRedundancyOptimizer"]
