"""Supervised models under one roof: everything of the rooms `classical`, `vision`, `sequences`, `text`, `transformers`.

Names are found in their rooms when they are first asked for.
"""

from ..runtime.lazy import later as _later
from . import classical, pretrained, sequences, text, transformers, vision

_ROOMS = {room.__name__.rpartition(".")[2]: room for room in (classical, vision, sequences, text, transformers)}
_NAMES: dict[str, tuple[str, ...]] = {
    **{f"{room}.{module}": names for room, table in _ROOMS.items() for module, names in table._NAMES.items()},
    **{f"pretrained.{module}": pretrained._NAMES[module] for module in ("outputs", "torchvision")},
}

__all__ = [name for names in _NAMES.values() for name in names]

__getattr__, __dir__ = _later(__name__, (), _NAMES, within=__package__)
