"""Neural networks: functions first, then the modules made of them."""

from . import functional  # noqa: F401
from .container import *  # noqa: F403
from .module import *  # noqa: F403
from .parameter import *  # noqa: F403
