"""Neural networks: functions first, then the modules made of them."""

from . import functional, init  # noqa: F401
from .container import *  # noqa: F403
from .conv import *  # noqa: F403
from .conv_blocks import *  # noqa: F403
from .embedding import *  # noqa: F403
from .filters import *  # noqa: F403
from .lazy import *  # noqa: F403
from .linear import *  # noqa: F403
from .module import *  # noqa: F403
from .padding import *  # noqa: F403
from .parameter import *  # noqa: F403
from .pool import *  # noqa: F403
from .pool_features import *  # noqa: F403
from .spatial import *  # noqa: F403
