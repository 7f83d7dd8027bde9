"""The functions that layers are made of, in PyTorch's names; plain compositions of tensor operations."""

from inspect import isfunction as _isfunction

from ...refusal import guarded as _guarded
from ...runtime.lazy import later as _later
from .activation import *  # noqa: F403
from .attention import *  # noqa: F403
from .conv import *  # noqa: F403
from .ctc import *  # noqa: F403
from .dropout import *  # noqa: F403
from .embedding import *  # noqa: F403
from .entropy import *  # noqa: F403
from .grid import *  # noqa: F403
from .loss import *  # noqa: F403
from .margin import *  # noqa: F403
from .norm import *  # noqa: F403
from .pool import *  # noqa: F403
from .resample import *  # noqa: F403
from .spatial import *  # noqa: F403
from .unpool import *  # noqa: F403

_QUICK = frozenset("linear relu relu_ gelu silu leaky_relu elu sigmoid tanh".split())  # they guard themselves


def _guard() -> None:
    """Let every public function say what is wrong in Weft's words."""
    for name, function in list(globals().items()):
        if _isfunction(function) and name[0] != "_" and name not in _QUICK:
            globals()[name] = guarded = _guarded(function, name)
            guarded.__module__ = __name__  # by which pickle finds it


_guard()
__getattr__, __dir__ = _later(__name__)
