"""What holds tensors, modules and optimisers, as far as a trace has to know them: it looks into them.

`nn.Module` is a `PartHolder`, `optim.Optimizer` a `StateHolder`.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

__all__ = ["TABLES", "PartHolder", "StateHolder", "global_hooks"]

TABLES = ("_parameters", "_buffers", "_modules")
global_hooks: dict[str, OrderedDict[int, Any]] = {}  # those on all modules: kind → number → hook


class PartHolder:
    """Holds tensors and further parts by name, in the dictionaries `TABLES`, and hooks in `_hooks`."""


class StateHolder:
    """Holds `state` by parameter and `param_groups`, which its step reads and writes."""

    def _has_own_step(self) -> bool:
        """Whether its step keeps what it likes, wherever it likes; the others let the trace see their state."""
        raise NotImplementedError
