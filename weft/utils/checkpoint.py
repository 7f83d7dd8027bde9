"""Recomputation under the name that PyTorch gives it; see `weft.autograd.checkpoint`."""

from ..autograd.checkpoint import CheckpointError, checkpoint, checkpoint_sequential

__all__ = ["CheckpointError", "checkpoint", "checkpoint_sequential"]
