"""Learning-rate schedules: after each epoch (or step) `scheduler.step()` sets the rates of the optimiser's groups."""

from ...runtime.lazy import later as _later
from .combine import *  # noqa: F403
from .cycle import *  # noqa: F403
from .decay import *  # noqa: F403
from .plateau import *  # noqa: F403
from .schedule import *  # noqa: F403
from .schedule import LRScheduler as _LRScheduler  # noqa: F401

__getattr__, __dir__ = _later(__name__)
