"""How it is differentiated: the tape, transforms of functions, checks and drawings."""

from .tape import (
    backward,
    detect_anomaly,
    enable_grad,
    grad,
    inference_mode,
    is_anomaly_enabled,
    no_grad,
    set_detect_anomaly,
    set_grad_enabled,
)

__all__ = [
    "backward",
    "detect_anomaly",
    "enable_grad",
    "grad",
    "inference_mode",
    "is_anomaly_enabled",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
]
