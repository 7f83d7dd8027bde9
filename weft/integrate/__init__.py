"""Ordinary differential equations dy/dt = f(t, y): solved eagerly or inside of a compiled plan, with gradients through the
steps or by the adjoint equation, and up to events. Names and arguments are torchdiffeq's.
"""

from ..runtime.lazy import later as _later

_NAMES: dict[str, tuple[str, ...]] = {
    "adjoint": ("odeint_adjoint",),
    "events": ("odeint_event",),
    "solve": ("odeint",),
    "tableaus": ("METHODS", "Tableau"),
}

__all__ = [name for names in _NAMES.values() for name in names]

__getattr__, __dir__ = _later(__name__, (), _NAMES)
