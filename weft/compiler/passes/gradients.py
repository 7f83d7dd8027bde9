"""Gradients that a plan replaces: their memory is used again, and they are put back if the plan fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...runtime.references import ALONE, references
from ..graph.geometry import ordered_strides

__all__ = ["OldGradients"]

Table = dict[str, Any]  # the attributes of a tensor


class OldGradients:
    """The `.grad` of some tensors, each to be replaced by an output of a plan.

    Where nobody else holds the old one, the new one is written over it: gradients neither take twice the memory nor move
    to cold places. A plan that fails has not written there (`Plan.late`), so that the old ones can come back.
    """

    def __init__(self, places: Sequence[tuple[Table, int]], plan: Any) -> None:
        self.may_fail = plan.may_fail
        self.places = []
        for table, number in places:
            value = plan.graph.outputs[number]
            order = plan.graph.orders.get(number)
            strides = ordered_strides(value.shape, value.dtype.itemsize, order or range(len(value.shape)))
            self.places.append((table, number if number in plan.late else None, (value.shape, strides), value.dtype))

    def take(self) -> tuple[dict[int, np.ndarray], list[Any]]:
        """Memory for outputs by number, and what `put_back` needs. The gradients are None from here on."""
        memory: dict[int, np.ndarray] = {}
        held: list[Any] = []
        for table, number, form, kind in self.places:
            old = table.get("_grad")
            table["_grad"] = None
            if old is None:
                continue
            array = old.__dict__["array"]
            if number is not None and references(old) == ALONE and references(array) == ALONE + 1:
                if (array.shape, array.strides) == form and array.dtype == kind and _is_own(array):
                    memory[number] = array
                    held.append((table, old))
                    continue
            if self.may_fail:
                held.append((table, old))
        return memory, held

    def put_back(self, held: list[Any]) -> None:
        for table, old in held:
            table["_grad"] = old


def _is_own(array: np.ndarray) -> bool:
    return array.base is None and array.flags.behaved
