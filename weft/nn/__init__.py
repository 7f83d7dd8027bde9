"""Neural networks: functions first, then the modules made of them."""

from ..runtime.arguments import explain_arguments as _explain_arguments
from ..runtime.lazy import later as _later
from . import functional, init, utils  # noqa: F401
from .beyond.conv_blocks import *  # noqa: F403
from .beyond.filters import *  # noqa: F403
from .beyond.local import *  # noqa: F403
from .beyond.neuron import *  # noqa: F403
from .beyond.pool_features import *  # noqa: F403
from .beyond.position import *  # noqa: F403
from .beyond.position_grid import *  # noqa: F403
from .beyond.recurrent_variants import *  # noqa: F403
from .beyond.sampled_softmax import *  # noqa: F403
from .beyond.scores import *  # noqa: F403
from .beyond.search import *  # noqa: F403
from .beyond.sets import *  # noqa: F403
from .beyond.skip import *  # noqa: F403
from .beyond.softmax_tree import *  # noqa: F403
from .beyond.sparse_attention import *  # noqa: F403
from .container import *  # noqa: F403
from .data_parallel import DataParallel  # noqa: F401
from .lazy import *  # noqa: F403
from .module import *  # noqa: F403
from .module_hooks import *  # noqa: F403
from .modules.activation import *  # noqa: F403
from .modules.adaptive import *  # noqa: F403
from .modules.attention import *  # noqa: F403
from .modules.batchnorm import *  # noqa: F403
from .modules.conv import *  # noqa: F403
from .modules.distance import *  # noqa: F403
from .modules.dropout import *  # noqa: F403
from .modules.embedding import *  # noqa: F403
from .modules.linear import *  # noqa: F403
from .modules.loss import *  # noqa: F403
from .modules.metric_loss import *  # noqa: F403
from .modules.norm import *  # noqa: F403
from .modules.padding import *  # noqa: F403
from .modules.pool import *  # noqa: F403
from .modules.recurrent import *  # noqa: F403
from .modules.recurrent_cells import *  # noqa: F403
from .modules.softmax import *  # noqa: F403
from .modules.spatial import *  # noqa: F403
from .modules.transformer import *  # noqa: F403
from .parameter import *  # noqa: F403

_explain_arguments(
    (value for value in list(globals().values()) if isinstance(value, type) and issubclass(value, Module)),  # noqa: F405
    {"device, dtype": "where parameters are made, and their element type; by default the CPU and the default type"},
)
__getattr__, __dir__ = _later(__name__, ("parallel",))
