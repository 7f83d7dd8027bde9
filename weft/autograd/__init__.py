"""How it is differentiated: the tape, transforms of functions, checks and drawings."""

from ..tape.modes import (
    detect_anomaly,
    enable_grad,
    inference_mode,
    is_anomaly_enabled,
    no_grad,
    set_detect_anomaly,
    set_grad_enabled,
)
from ..tape.node import Node
from ..tape.tape import backward

# The tape comes first: tensors and operations, which the rest needs, stand on it.
# isort: split
from ..ops.create.typed import Variable
from ..runtime.lazy import later as _later
from . import function, graph
from .checkpoint import checkpoint, checkpoint_sequential
from .function import Function
from .gradients import grad

__all__ = [
    "Function",
    "GradcheckError",
    "Node",
    "Variable",
    "backprop_avg_pool2d",
    "backprop_conv2d",
    "backprop_max_pool2d",
    "backprop_mlp",
    "backprop_rnn",
    "backward",
    "checkpoint",
    "checkpoint_sequential",
    "detect_anomaly",
    "draw_graph",
    "enable_grad",
    "fixed_point",
    "forward_ad",
    "function",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "hidden_jacobian",
    "inference_mode",
    "is_anomaly_enabled",
    "no_grad",
    "reparameterised_gradient",
    "score_function_gradient",
    "set_detect_anomaly",
    "set_grad_enabled",
    "spectral_criterion",
    "straight_through",
]

__getattr__, __dir__ = _later(
    __name__,
    ("forward_ad", "functional"),
    {
        "backprop": ("backprop_mlp",),
        "backprop_conv": ("backprop_avg_pool2d", "backprop_conv2d", "backprop_max_pool2d"),
        "backprop_time": ("backprop_rnn", "hidden_jacobian", "spectral_criterion"),
        "check": ("GradcheckError", "gradcheck", "gradgradcheck"),
        "draw": ("draw_graph",),
        "estimators": ("reparameterised_gradient", "score_function_gradient"),
        "implicit": ("fixed_point", "straight_through"),
    },
)
