"""Things that happen beside the steps of a training."""

from .averaging import EMA, SWA
from .base import Callback
from .checkpoints import ModelCheckpoint
from .finite import NotFiniteError, StopOnNaN
from .monitors import GradientFlow, LearningRateMonitor, UpdateRatio
from .stopping import EarlyStopping, Timer

__all__ = [
    "EMA",
    "SWA",
    "Callback",
    "EarlyStopping",
    "GradientFlow",
    "LearningRateMonitor",
    "ModelCheckpoint",
    "NotFiniteError",
    "StopOnNaN",
    "Timer",
    "UpdateRatio",
]
