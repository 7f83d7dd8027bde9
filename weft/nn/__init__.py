"""Neural networks: functions first, then the modules made of them."""

from ..runtime.arguments import explain_arguments as _explain_arguments
from ..runtime.lazy import later as _later
from . import functional, init, utils  # noqa: F401
from .activation import *  # noqa: F403
from .adaptive import *  # noqa: F403
from .attention import *  # noqa: F403
from .batchnorm import *  # noqa: F403
from .container import *  # noqa: F403
from .conv import *  # noqa: F403
from .conv_blocks import *  # noqa: F403
from .distance import *  # noqa: F403
from .dropout import *  # noqa: F403
from .embedding import *  # noqa: F403
from .filters import *  # noqa: F403
from .lazy import *  # noqa: F403
from .linear import *  # noqa: F403
from .local import *  # noqa: F403
from .loss import *  # noqa: F403
from .metric_loss import *  # noqa: F403
from .module import *  # noqa: F403
from .module_hooks import *  # noqa: F403
from .neuron import *  # noqa: F403
from .norm import *  # noqa: F403
from .padding import *  # noqa: F403
from .parameter import *  # noqa: F403
from .pool import *  # noqa: F403
from .pool_features import *  # noqa: F403
from .position import *  # noqa: F403
from .position_grid import *  # noqa: F403
from .recurrent import *  # noqa: F403
from .recurrent_cells import *  # noqa: F403
from .recurrent_variants import *  # noqa: F403
from .sampled_softmax import *  # noqa: F403
from .scores import *  # noqa: F403
from .search import *  # noqa: F403
from .sets import *  # noqa: F403
from .skip import *  # noqa: F403
from .softmax_tree import *  # noqa: F403
from .sparse_attention import *  # noqa: F403
from .spatial import *  # noqa: F403
from .transformer import *  # noqa: F403

_explain_arguments(
    (value for value in list(globals().values()) if isinstance(value, type) and issubclass(value, Module)),  # noqa: F405
    {"device, dtype": "where parameters are made, and their element type; by default the CPU and the default type"},
)
__getattr__, __dir__ = _later(__name__)
