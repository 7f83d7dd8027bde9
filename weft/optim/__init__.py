"""Optimisers, learning-rate schedules, averaging of weights, penalties."""

from ..runtime.arguments import explain_arguments as _explain_arguments
from ..runtime.lazy import later as _later
from . import lr_scheduler, swa_utils
from .adadelta import *  # noqa: F403
from .adafactor import *  # noqa: F403
from .adagrad import *  # noqa: F403
from .adam import *  # noqa: F403
from .adam_variants import *  # noqa: F403
from .asgd import *  # noqa: F403
from .batch_schedule import *  # noqa: F403
from .lbfgs import *  # noqa: F403
from .lion import *  # noqa: F403
from .momentum import *  # noqa: F403
from .muon import *  # noqa: F403
from .optimizer import Optimizer
from .penalties import *  # noqa: F403
from .range_test import *  # noqa: F403
from .rmsprop import *  # noqa: F403
from .rprop import *  # noqa: F403
from .sgd import *  # noqa: F403
from .sparse_adam import *  # noqa: F403

_explain_arguments(
    value
    for space in (globals(), vars(lr_scheduler), vars(swa_utils))
    for value in list(space.values())
    if isinstance(value, type) and issubclass(value, (Optimizer, lr_scheduler.LRScheduler))
)
__getattr__, __dir__ = _later(__name__)
