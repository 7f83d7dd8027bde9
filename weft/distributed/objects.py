"""Python objects between ranks. They are pickled: all ranks run the same program, none is a stranger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import OptionError, ShapeError
from ..runtime.cluster.exchange import all_gather_objects
from ..runtime.cluster.group import Group, courier
from .groups import place_in, require_group

__all__ = ["all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list"]


def _gathered(value: Any, group: Group) -> list[Any]:
    return [value] if group.size == 1 else courier.run(lambda: all_gather_objects(group, value))


def all_gather_object(object_list: list[Any], obj: Any, group: Group | None = None) -> None:
    """object_list[k] ← the object of rank k, on all ranks."""
    meant = require_group(group, "all_gather_object")
    if len(object_list) != meant.size:
        raise ShapeError(f"all_gather_object: a list of {len(object_list)} places, the group has {meant.size} ranks")
    object_list[:] = _gathered(obj, meant)


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Group | None = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """The entries of the list ← those of rank `src`."""
    meant = require_group(group, "broadcast_object_list")
    place = group_src if src is None else place_in(meant, src, "broadcast_object_list")
    if place is None:
        raise OptionError("broadcast_object_list: name one rank, by src or group_src")
    found = _gathered(list(object_list) if meant.rank == place else len(object_list), meant)
    wrong = [meant.ranks[k] for k, v in enumerate(found) if k != place and v != len(found[place])]
    if wrong:
        raise ShapeError(
            f"broadcast_object_list: the list of rank {wrong[0]} has another length than that of the source"
        )
    object_list[:] = found[place]


def gather_object(
    obj: Any, object_gather_list: list[Any] | None = None, dst: int | None = None, group: Group | None = None
) -> None:
    """On rank `dst`, object_gather_list[k] ← the object of rank k."""
    meant = require_group(group, "gather_object")
    found = _gathered(obj, meant)
    if meant.rank == place_in(meant, meant.ranks[0] if dst is None else dst, "gather_object"):
        if object_gather_list is None or len(object_gather_list) != meant.size:
            raise ShapeError(f"gather_object: the receiving rank needs a list of {meant.size} places")
        object_gather_list[:] = found


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: Sequence[Any] | None = None,
    src: int | None = None,
    group: Group | None = None,
) -> None:
    """The first entry of the output list ← entry k of the source's input list, on rank k."""
    meant = require_group(group, "scatter_object_list")
    place = place_in(meant, meant.ranks[0] if src is None else src, "scatter_object_list")
    given = list(scatter_object_input_list or ()) if meant.rank == place else None
    found = _gathered(given, meant)[place]
    if len(found) != meant.size:
        raise ShapeError(f"scatter_object_list: the source has {len(found)} objects for {meant.size} ranks")
    scatter_object_output_list[:1] = [found[meant.rank]]
