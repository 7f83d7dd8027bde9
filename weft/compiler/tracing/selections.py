"""x[mask] in a trace: how many elements are chosen may differ from call to call.

Such a tensor is traced twice. Once as it is: Python asks for the mask, and the plan holds while it stays the same. And
once in a form whose sizes do not depend on the mask (ops/index/selection.py), as long as operations have one: elementwise
ones, sums and means, writes at the same mask. If at the end nothing that is needed depends on the first form, and nobody
looked at the sizes, the decision is dropped: one plan for all masks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from ...errors import TraceError
from ...ops.core.primitive import Primitive, Reduction
from ...ops.index import selection
from ...tape.modes import mode
from ...tensor import Tensor
from ..graph.graph import Constant, Graph, Node, Value
from .arrays import REMEDY, Stand, user_line
from .given import LARGEST

__all__ = ["Selections", "Targeted"]

DEEP = 8  # expressions that are compared node by node


class Targeted(BaseException):
    """A gradient with respect to x[mask] is asked for: the trace starts anew without the second form."""


class Selection:
    """The elements chosen by one mask. `looked_at`: Python knows how many they are."""

    def __init__(self, tracer: Any, mask: Value) -> None:
        self.tracer, self.mask, self.looked_at, self.line = tracer, mask, False, user_line()
        self.entry = -1  # of the ledger: Python's decision
        self.places: tuple[Tensor, ...] = ()

    def look(self) -> None:
        self.looked_at = self.looked_at or not self.tracer.unseen


class Selected:
    """The second form of a tensor, and the tensor's state for which it holds."""

    def __init__(self, part: selection.Chosen, made_by: Selection, x: Tensor) -> None:
        self.part, self.made_by = part, made_by
        self.state = _state(x)


def _state(x: Tensor) -> tuple[Any, ...]:
    return x.node, x._needs_grad, x.__dict__["array"].memory.version


class Selections:
    """The part of a tracer that knows them."""

    def __init__(self) -> None:
        super().__init__()
        self.selections: dict[Value, Selection] = {}
        self.unseen = 0  # above 0: sizes are looked at by code that does both forms

    @contextlib.contextmanager
    def _unseen(self) -> Iterator[None]:
        self.unseen += 1
        try:
            yield
        finally:
            self.unseen -= 1

    def selected(self, x: Tensor, mask: Tensor, read: Any) -> Tensor:
        """x[mask], which `read(x, places)` gives."""
        if not self._has_two_forms(x, mask):
            return read(x, selection.places_in(self.contents(mask, "a mask as an index")))
        with self._unseen():
            made_by = self._selection(self.value(mask))
            out = read(x, made_by.places)
            part = selection.chosen(x, self.renewed(mask))
            if part.dense is x:
                part.dense = self.renewed(x)  # as it is now
            return self._marked(out, part, made_by)

    def _has_two_forms(self, x: Tensor, mask: Tensor) -> bool:
        if not self.all_forms or mode.forward or self.scopes[-1] is not None or self.probe is None:
            return False
        return not self.knows(mask.__dict__["array"])

    def _selection(self, mask: Value) -> Selection:
        for other, found in self.selections.items():
            if _is_equal(other, mask):
                return found
        made = self.selections[mask] = Selection(self, mask)
        made.places = selection.places_in(self.ledger.array(mask))
        made.entry = len(self.ledger.entries) - 1
        return made

    def _marked(self, x: Tensor, part: selection.Chosen, made_by: Selection) -> Tensor:
        x.__dict__["array"].selection = made_by
        x.__dict__["_selected"] = Selected(part, made_by, x)
        return x

    def _part(self, x: Any) -> Selected | None:
        """The second form of a tensor, if it has one and nobody has changed the tensor since."""
        found = x.__dict__.get("_selected") if isinstance(x, Tensor) else None
        return found if found is not None and found.state == _state(x) else None

    def densely(self, primitive: Primitive, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
        """Both forms of a result; None: it has but one."""
        parts = [self._part(x) for x in inputs]
        first = next((part for part in parts if part is not None), None)
        if first is None or any(part is not None and part.made_by is not first.made_by for part in parts):
            return None
        with self._unseen():
            if isinstance(primitive, Reduction):
                found, plain = selection.reduced(primitive, first.part, params) if len(inputs) == 1 else (None, True)
            else:
                dense = [None if part is None else part.part for part in parts]
                found, plain = selection.combined(primitive, inputs, dense, params), False
            if found is None or plain:
                return found
            out = self.apply(primitive, inputs, params)
            return self._marked(out, selection.Chosen(found, first.part.mask), first.made_by)

    def write_densely(self, target: Tensor, value: Tensor, name: str) -> Tensor | None:
        """Write chosen elements into others of the same mask, in both forms; None: there is but one."""
        old, now = self._part(target), self._part(value)
        if old is None or now is None or old.made_by is not now.made_by or target._base is not None:
            return None
        with self._unseen():
            part = now.part
            if value.dtype is not target.dtype or part.dense.shape != old.part.dense.shape:
                return None
            self.write(target, value, name)
            return self._marked(target, part, now.made_by)

    def renewed_selection(self, x: Tensor) -> Tensor | None:
        """`renewed` in both forms."""
        found = self._part(x)
        if found is None:
            return None
        with self._unseen():
            return self._marked(self.renewed(x), found.part, found.made_by)

    def put_selected(self, x: Tensor, mask: Tensor, value: Tensor) -> bool:
        """x[mask] = value without looking at the mask. False: nothing has been done."""
        if not self._has_two_forms(x, mask):
            return False
        with self._unseen():
            found = self._part(value)
            if found is None and value.__dict__["array"].__class__ is Stand and value.__dict__["array"].selection:
                return False
            if found is not None and not _is_equal(found.made_by.mask, self.value(mask)):
                return False
            return selection.put(x, mask, value, None if found is None else found.part)

    def targeted(self, x: Tensor) -> None:
        if "_selected" in x.__dict__:
            raise Targeted

    # ------------------------------------------------------------------------------------ at the end
    def settle_selections(self, results: Sequence[Value], back: Graph | None) -> None:
        """Keep the decisions of those masks on which something depends that is needed."""
        open_ones = [s for s in self.selections.values() if not s.looked_at]
        while True:
            dropped = {s.entry for s in open_ones}
            asked = [v for k, v in self.ledger.items.items() if k not in dropped]
            used = _constants([*results, *asked], self.graph) | (
                set() if back is None else _constants(back.outputs, back)
            )
            needed = [s for s in open_ones if used & _constants([self.value(x) for x in s.places], Graph())]
            if not needed:
                break
            open_ones = [s for s in open_ones if s not in needed]
        for one in open_ones:
            del self.ledger.decisions[one.entry], self.ledger.lines[one.entry], self.ledger.items[one.entry]
        for one in self.selections.values():
            if one not in open_ones and one.mask.size > LARGEST:
                raise TraceError(
                    f"compile: at {one.line} elements are chosen by a mask of {one.mask.size:,} elements, and something "
                    f"depends on how many they are; {REMEDY}"
                )


def _constants(values: Sequence[Value], graph: Graph) -> set[int]:
    """The constants (their identities) that some values need, and what is checked."""
    seen: set[int] = set()
    found: set[int] = set()
    pending: list[Node] = [v.node for v in values] + [node for node in graph.nodes if node.op.checks]
    while pending:
        node = pending.pop()
        if id(node) not in seen:
            seen.add(id(node))
            if isinstance(node.op, Constant):
                found.add(id(node.op))
            pending.extend(v.node for v in node.inputs)
    return found


def _is_equal(a: Value, b: Value, deep: int = DEEP) -> bool:
    """Whether two expressions are the same, as far as is seen at once."""
    if a is b:
        return True
    one, other = a.node, b.node
    if isinstance(one.op, Constant) and isinstance(other.op, Constant):
        x, y = one.op.array, other.op.array
        return x.size == y.size == 1 and x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()
    if one.op is not other.op or a.index != b.index or not deep or not one.inputs or one.op.bodies:
        return False
    if repr(one.params) != repr(other.params) or len(one.inputs) != len(other.inputs):
        return False
    return all(_is_equal(x, y, deep - 1) for x, y in zip(one.inputs, other.inputs, strict=True))
