"""What a compiled function does where it has no plan for a call and one cannot, or should not, be made."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..errors import TraceError

if TYPE_CHECKING:
    from .compiled import Compiled

__all__ = ["POLICIES", "FallBack", "Policy"]


class Policy:
    """Every signature gets its plan, and errors are raised."""

    takes: type[Exception] | tuple[type[Exception], ...] = ()  # errors of a trace that `uncompiled` answers

    def stops(self, compiled: Compiled) -> str | None:
        """Asked before a plan is made: a reason to make none."""
        return None

    def made(self, compiled: Compiled) -> None:
        """Told after a call for which a plan was made."""

    def uncompiled(self, compiled: Compiled, key: Any, reason: Exception | str, run: Callable[[], Any]) -> Any:
        """The result of a call without a plan: an error that it `takes`, or a reason to stop. `run` runs the Python function."""
        raise NotImplementedError


class FallBack(Policy):
    """A signature that cannot be traced runs as Python from now on, after one warning."""

    takes = TraceError

    def uncompiled(self, compiled: Compiled, key: Any, reason: Exception | str, run: Callable[[], Any]) -> Any:
        warnings.warn(f"{reason}; this function runs uncompiled", stacklevel=3)
        compiled.eager.add(key)
        return run()


POLICIES = {"error": Policy(), "eager": FallBack()}  # what `weft.compile(fallback=…)` names
