"""Things that happen beside the steps of a training."""

from .averaging import EMA, SWA
from .base import Callback
from .checkpoints import ModelCheckpoint
from .stopping import EarlyStopping

__all__ = ["EMA", "SWA", "Callback", "EarlyStopping", "ModelCheckpoint"]
