"""Tools for modules and their parameters."""

from ...runtime.lazy import later as _later
from . import parametrizations, parametrize, prune, rnn  # noqa: F401
from .clip_grad import *  # noqa: F403
from .convert_parameters import *  # noqa: F403
from .fusion import *  # noqa: F403
from .init import *  # noqa: F403
from .spectral_norm import *  # noqa: F403
from .weight_norm import remove_weight_norm, weight_norm  # noqa: F401

__getattr__, __dir__ = _later(__name__)
