"""Which operations run together: nodes of the graph gathered into groups, each of which becomes one kernel.

A *sweep* is a group of pointwise operations and reductions over one index space. An *anchor* is an operation with
a kernel of its own (matrix product, convolution, random numbers) whose results pass through pointwise operations
before they are stored. An *assembly* copies its operands side by side. Everything else is a *host* group: one operation
computed by its NumPy reference.

The index space of a group is a tuple of sizes, cut finely enough that every value of the group varies or is repeated
along each of them as a whole. Values that vary along all are full; a reduction over rows makes values that vary along
the others only, and full values may use them again: softmax and normalisation are one sweep.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..graph.geometry import (
    Geometry,
    common_factors,
    contiguous_strides,
    is_view,
    pieces_of,
    squeezed,
    strides_over,
    varies_over,
)
from ..graph.graph import Constant, Fetched, Graph, Node, Source, Value
from ..passes.simplify import MOVE
from .group import Group
from .kinds import is_assembly, is_pointwise, is_reduction, merged, product, reduced_dims

__all__ = ["MOST_INPUTS", "MOST_NODES", "WORTH_SHARING", "Fuser", "fuse"]

MOST_NODES = 160  # of one group: longer code does not fit the registers
MOST_INPUTS = 28
WORTH_SHARING = 1 << 14  # elements from which sweeps that read the same value are joined
CHEAP = 4  # cost up to which single numbers are computed again rather than stored
RECENT = 12  # groups that are looked at for something to share
FEW_ROWS = 8  # fewer rows than this: a reduction is shared between threads as a whole
SHORT_COLUMN = 256  # reductions across rows up to this length keep whole rows of vectors


def fuse(graph: Graph, geometry: Geometry, anchors: dict[Node, Any], enabled: bool = True) -> Fuser:
    """All nodes in groups; every node in one of its own where fusion is not enabled."""
    return Fuser(graph, geometry, anchors, enabled).run()


class Fuser:
    """Goes through the nodes in order and puts each into a group that exists, or a new one."""

    def __init__(self, graph: Graph, geometry: Geometry, anchors: dict[Node, Any], enabled: bool = True) -> None:
        self.graph, self.geometry, self.anchors, self.enabled = graph, geometry, anchors, enabled
        self.groups: list[Group] = []
        self.home: dict[Node, Group] = {}
        self.repeated: set[Node] = self._find_repeated() if enabled else set()
        self.sure = self._find_sure()
        self._flat: dict[Value, bool] = {}
        self._makers: dict[Value, Node] = {}  # of the memory that values lie in

    @property
    def filled(self) -> list[Group]:
        """The groups that have nodes: others have taken those of the rest."""
        return [g for g in self.groups if g.nodes]

    def run(self) -> Fuser:
        for node in self.graph.nodes:
            if isinstance(node.op, Source) or is_view(node.outputs[0]) or node in self.repeated:
                continue
            if node in self.anchors:
                self._start_anchor(node)
            elif is_pointwise(node):
                self._place_pointwise(node)
            elif is_reduction(node):
                self._place_reduction(node)
            elif is_assembly(node, self.geometry):
                self._start(node, "assembly", ())
            else:
                self._start(node, "host", ())
        return self

    def _find_repeated(self) -> set[Node]:
        """Cheap operations on single numbers that Python gives: done again in each kernel that needs them."""
        users, results, found = self.graph.users(), set(self.graph.results), set()
        for node in self.graph.nodes:
            if (
                is_pointwise(node)
                and node.output.size == 1
                and node.op.cost <= CHEAP
                and node.output not in results
                and all(isinstance(v.node.op, (Fetched, Constant)) or v.node in found for v in node.inputs)
                and all(is_pointwise(user) for user in users.get(node.output, ()))
            ):
                found.add(node)
        return found

    def _find_sure(self) -> set[Value]:
        """Values that are in memory whatever is fused: operands of what is neither pointwise nor a reduction."""
        found: set[Value] = set()
        for node in self.graph.nodes:
            if not (is_pointwise(node) or is_reduction(node) or is_view(node.outputs[0])):
                found.update(self.geometry(v).root for v in node.inputs)
        return found

    # ------------------------------------------------------------------------------------ new groups
    def _start(self, node: Node, kind: str, space: Sequence[int]) -> Group:
        group = Group(len(self.groups), kind, space)
        self.groups.append(group)
        self.enter(node, group)
        return group

    def _start_anchor(self, node: Node) -> None:
        anchor = self.anchors[node]
        group = self._start(node, "anchor", anchor.space)
        group.anchor = anchor
        if anchor.fusible:
            group.masks[node.output] = (True,) * len(group.space)

    def enter(self, node: Node, group: Group) -> None:
        group.nodes.append(node)
        self.home[node] = group
        before = group.before
        for v in node.inputs:
            source = self.owner(v)
            if source is not None and source is not group:
                group.before |= source.before | 1 << source.number
                source.followers.add(group)
            if source is not group:
                group.inputs.add(v)
        if group.before != before:
            self._hand_on(group)

    def _hand_on(self, group: Group) -> None:
        """What waits for a group waits for all that this one waits for."""
        pending = [group]
        while pending:
            first = pending.pop()
            bits = first.before | 1 << first.number
            for other in first.followers:
                if bits & ~other.before and other.nodes:
                    other.before |= bits
                    pending.append(other)

    def makers(self) -> dict[Group, set[Group]]:
        """For each group those that make what it reads."""
        found = {}
        for group in self.groups:
            if group.nodes:
                found[group] = {self.owner(v) for node in group.nodes for v in node.inputs} - {None, group}
        return found

    def owner(self, value: Value) -> Group | None:
        """The group that makes what a value is a view of; nobody makes what has no elements."""
        maker = self._makers.get(value)
        if maker is None and value.size:
            maker = self._makers[value] = self.geometry(value).root.node
        return self.home.get(maker)

    # ------------------------------------------------------------------------------------- candidates
    def _candidates(self, node: Node) -> list[Group]:
        """Groups of the node's inputs: anchors, then those with reductions, then the latest.

        Values that will be in memory anyway do not count: what is cheap to compute from them is computed where it is used.
        """
        if not self.enabled:
            return []
        found = {}
        for v in node.inputs:
            group = self.owner(v)
            if group is None or group.kind not in ("sweep", "anchor") or self.geometry(v).root in self.sure:
                continue
            if group.anchor is None or group.anchor.fusible:
                found[group.number] = group
        rank = lambda g: (g.kind == "anchor", g.rows is not None or bool(g.late), g.number)
        return sorted(found.values(), key=rank, reverse=True)

    def independent(self, node: Node, group: Group) -> bool:
        """Whether no input of the node from elsewhere waits for the group."""
        for v in node.inputs:
            owner = self.owner(v)
            if owner is not None and owner is not group and owner.before >> group.number & 1:
                return False
        return True

    def has_room(self, node: Node, group: Group) -> bool:
        new = sum(self.owner(v) is not group for v in node.inputs)
        return len(group.nodes) < MOST_NODES and len(group.inputs) + new <= MOST_INPUTS

    # ------------------------------------------------------------------------------------- placing
    def _place_pointwise(self, node: Node) -> None:
        for group in self._candidates(node):
            if self.has_room(node, group) and self.independent(node, group) and self._join(node, group):
                self._gather(node, group)
                return
        group = self._start(node, "sweep", squeezed(node.output.shape))
        group.masks[node.output] = (True,) * len(group.space)

    def _gather(self, node: Node, group: Group) -> None:
        """Take groups into this one that make other inputs of the node and nothing but pointwise values."""
        for v in node.inputs:
            other = self.owner(v)
            if other is not None and other is not group and self._can_take(other, group):
                self.take(other, group)

    def _can_take(self, other: Group, group: Group) -> bool:
        if (
            other.kind != "sweep"
            or other.rows is not None
            or other.late
            or product(other.space) != product(group.space)
        ):
            return False
        if len(group.nodes) + len(other.nodes) > MOST_NODES or len(group.inputs | other.inputs) > MOST_INPUTS:
            return False
        if other.before >> group.number & 1:
            return False
        makers = {self.owner(v) for v in group.inputs} - {None, group, other}
        if any(g.before >> other.number & 1 for g in makers):  # one that stands between the two
            return False
        factors = common_factors(group.space, other.space)
        if factors is None:
            return False
        if group.kind == "anchor":
            for node in other.nodes:
                cut = common_factors(group.space, squeezed(node.output.shape))
                if cut is None or not self.fits_anchor(node, group, cut):
                    return False
        else:
            group.cut(factors)
        for node in group.nodes:
            for v in node.inputs:
                if self.owner(v) is other and not self._reads_in_step(node, v, group, other):
                    return False
        return True

    def _reads_in_step(self, node: Node, v: Value, group: Group, other: Group) -> bool:
        """Whether a node of `group` reads a value of `other` at the index where it is made."""
        cut = common_factors(group.space, squeezed(node.output.shape))
        if group.anchor is not None and v in group.anchor.operands:
            return False
        if cut is None or not all(group.masks.get(node.output, (False,))):
            return False
        origin, mask = self.origin(v, node.output.shape, cut)
        return origin in other.masks and mask is not None and all(mask)

    def take(self, other: Group, group: Group) -> None:
        """Move all nodes of `other` into `group`."""
        first = group.nodes[:1] if group.kind == "anchor" else []
        group.nodes = first + sorted(other.nodes + group.nodes[len(first) :], key=self.place)
        for node in other.nodes:
            self.home[node] = group
            group.masks[node.output] = (True,) * len(group.space)
        group.inputs = {v for v in group.inputs | other.inputs if self.owner(v) is not group}
        group.before = (group.before | other.before) & ~(1 << other.number)
        group.followers |= other.followers
        group.followers -= {group, other}
        other.nodes, other.masks, other.followers = [], {}, set()
        for v in group.inputs:
            maker = self.owner(v)
            if maker is not None:
                maker.followers.add(group)
        self._hand_on(group)

    def place(self, node: Node) -> int:
        return node.number

    def _join(self, node: Node, group: Group) -> bool:
        shape = node.output.shape
        size = node.output.size
        full = 1
        for s in group.space:
            full *= s
        if size == full:
            factors, chosen = common_factors(group.space, squeezed(shape)), None
        else:
            chosen = self._row_mask(node, group)
            if chosen is None or group.kind == "anchor":
                return False
            kept = [s for s, m in zip(group.space, chosen, strict=True) if m]
            inner = common_factors(kept, squeezed(shape))
            if inner is None or len(inner) != len(kept):
                return False  # would cut the space finer: seldom worth it
            factors = group.space
        if factors is None or (group.kind == "anchor" and not self.fits_anchor(node, group, factors)):
            return False
        if group.kind != "anchor":
            group.cut(factors)
        numbers = [i for i in range(len(group.space)) if chosen is None or chosen[i]]
        sizes = [group.space[i] for i in numbers]
        if group.kind == "anchor":
            numbers, sizes = list(range(len(factors))), list(factors)
        for v in node.inputs:
            origin, mask = self.origin(v, shape, sizes)
            if self.home.get(origin.node) is not group:
                if self.owner(v) is group:
                    return False
                continue
            if mask is None or origin in group.late:
                return False
            if group.kind == "anchor":
                if not all(mask):
                    return False
                continue
            spread = [False] * len(group.space)
            for i, m in zip(numbers, mask, strict=True):
                spread[i] = m
            if tuple(spread) != group.masks[origin]:
                return False
        self.enter(node, group)
        group.masks[node.output] = chosen or (True,) * len(group.space)
        return True

    def _row_mask(self, node: Node, group: Group) -> tuple[bool, ...] | None:
        """How the values of the group that the node reads vary: their common pattern, smaller than the space."""
        found = None
        for v in node.inputs:
            origin = self.flat_origin(v)
            if self.home.get(origin.node) is group and origin in group.masks:
                mask = group.masks[origin]
                if origin in group.late or all(mask):
                    return None
                found = mask if found is None else tuple(a or b for a, b in zip(found, mask, strict=True))
        if found is None:
            return None
        count = 1
        for s, m in zip(group.space, found, strict=True):
            count *= s if m else 1
        return found if count == node.output.size else None

    def fits_anchor(self, node: Node, group: Group, factors: tuple[int, ...]) -> bool:
        """Whether every operand can be addressed with the anchor's own indices."""
        for v in (*node.inputs, node.output):
            if self.home.get(self.origin(v, node.output.shape, factors)[0].node) is group:
                continue
            strides = self.geometry(v).strides
            over = merged(strides_over(v.shape, strides, node.output.shape, factors), factors, group.space)
            if over is None or (v is node.output and _scatters(node, group.anchor, over)):
                return False
        return True

    def _place_reduction(self, node: Node) -> None:
        (x,) = node.inputs[:1]
        origin = self.flat_origin(x)
        group = self.home.get(origin.node)
        if not (
            self.enabled
            and group is not None
            and group.kind == "sweep"
            and self.has_room(node, group)
            and origin not in group.late
            and self._join_reduction(node, group, origin)
        ) and not (self.enabled and self._join_readers(node, x)):
            group = self._start(node, "sweep", squeezed(x.shape))
            self._set_reduction(node, group, (True,) * len(group.space))

    def _join_readers(self, node: Node, x: Value) -> bool:
        """Put a reduction of a value in memory into a sweep over rows that reads the same value."""
        root = self.geometry(x).root
        for group in reversed(self.groups[-RECENT:]):
            if group.kind != "sweep" or group.rows is None or product(group.space) != x.size:
                continue
            if not any(self.geometry(v).root is root for v in group.inputs):
                continue
            factors = common_factors(group.space, squeezed(x.shape))
            if factors is None or not self.has_room(node, group) or not self.independent(node, group):
                continue
            group.cut(factors)
            self.enter(node, group)
            self._set_reduction(node, group, (True,) * len(group.space))
            return True
        return False

    def _join_reduction(self, node: Node, group: Group, origin: Value) -> bool:
        x = node.inputs[0]
        mask = group.masks.get(origin)
        if mask is None or x.size != origin.size:
            return False
        kept = [s for s, m in zip(group.space, mask, strict=True) if m]
        factors = common_factors(kept, squeezed(x.shape))
        if factors is None:
            return False
        if all(mask):
            group.cut(factors)
        elif len(factors) != len(kept):
            return False
        self.enter(node, group)
        self._set_reduction(node, group, group.masks[origin])
        return True

    def _set_reduction(self, node: Node, group: Group, mask: tuple[bool, ...]) -> None:
        """Decide how the result comes about: over rows inside the sweep, or complete only after it."""
        x = node.inputs[0]
        numbers = [i for i, m in enumerate(mask) if m]
        reduced = set(reduced_dims(node))
        sizes = [group.space[i] for i in numbers]
        parts = pieces_of(x.shape, sizes)
        gone = {numbers[p] for d in reduced for p in parts[d]}
        result = tuple(m and i not in gone for i, m in enumerate(mask))
        over = tuple(i in gone for i in range(len(group.space)))
        group.masks[node.output] = result
        if all(mask) and self._by_rows(group, over, self._densest(x, group.space)):
            group.rows = over
            group.row_sums.add(node.output)
        else:
            group.late.add(node.output)

    def _densest(self, x: Value, space: Sequence[int]) -> int:
        """The size of the space along which neighbours of a full value lie next to each other in memory."""
        view = self.geometry(x)
        strides = view.strides if view.root.size == x.size else contiguous_strides(x.shape, x.dtype.itemsize)
        over = strides_over(x.shape, strides, x.shape, space)
        return min((abs(s), -d) for d, s in enumerate(over) if s)[1] * -1 if any(over) else len(space) - 1

    def _by_rows(self, group: Group, over: tuple[bool, ...], densest: int) -> bool:
        if group.rows is not None:
            return group.rows == over
        rows = length = 1
        for size, gone in zip(group.space, over, strict=True):
            length *= size if gone else 1
            rows *= 1 if gone else size
        if not group.space or over[densest]:
            return rows >= FEW_ROWS or rows * length <= 4096
        return length <= SHORT_COLUMN and rows >= 512

    # --------------------------------------------------------------------------------- where values come from
    def flat(self, value: Value) -> bool:
        found = self._flat.get(value)
        if found is None:
            found = self._flat[value] = self.geometry.is_flat(value)
        return found

    def flat_origin(self, value: Value) -> Value:
        while is_view(value) and self.flat(value):
            value = value.node.inputs[0]
        return value

    def origin(
        self, value: Value, domain: Sequence[int], factors: Sequence[int]
    ) -> tuple[Value, tuple[bool, ...] | None]:
        """What an operand is a renamed or repeated form of, and along which factors of the domain it varies.

        Goes back through reshapes and expansions; the mask is None when they do not follow the factors.
        """
        mask = varies_over(value.shape, domain, factors)
        while is_view(value):
            before = value.node.inputs[0]
            if self.flat(value):
                value = before
                continue
            narrowed = self._unexpanded(value, before, factors, mask)
            if narrowed is None:
                return value, mask
            value, mask = before, narrowed
        kept = [s for s, m in zip(factors, mask, strict=True) if m]
        aligned = common_factors(squeezed(value.shape), kept) if value.size == product(kept) else None
        return value, mask if aligned is not None and len(aligned) == len(kept) else None

    def _unexpanded(
        self, value: Value, before: Value, factors: Sequence[int], mask: tuple[bool, ...]
    ) -> tuple[bool, ...] | None:
        """The mask of what was repeated to make `value`; None if the view is no such repetition."""
        extra = len(value.shape) - len(before.shape)
        if extra < 0 or not all(b in (1, a) for a, b in zip(value.shape[extra:], before.shape, strict=True)):
            return None
        inner, outer = self.geometry(before).strides, self.geometry(value).strides
        if self.geometry(before).offset != self.geometry(value).offset:
            return None
        for d, size in enumerate(value.shape):
            old = 1 if d < extra else before.shape[d - extra]
            if size > 1 and outer[d] != (0 if old == 1 else inner[d - extra]):
                return None
        numbers = [i for i, m in enumerate(mask) if m]
        sizes = [factors[i] for i in numbers]
        if product(sizes) != value.size:
            return None
        cut = common_factors(squeezed(value.shape), sizes)
        if cut is None or len(cut) != len(sizes):
            return None
        found = [False] * len(mask)
        for d, parts in enumerate(pieces_of(value.shape, sizes)):
            if d >= extra and before.shape[d - extra] != 1:
                for p in parts:
                    found[numbers[p]] = True
        return tuple(found)


def _scatters(node: Node, anchor: Any, strides: Sequence[int]) -> bool:
    """Whether a copy lays images that an anchor makes, whose channels lie side by side, in another order.

    Stored by the anchor, each number would go to a line of its own: a convolution and then a copy take a tenth of that.
    """
    if node.op is not MOVE or anchor.node.output not in anchor.images or len(anchor.space) < 2:
        return False
    return anchor.space[1] > 1 and abs(strides[1]) > min(
        abs(s) for s, n in zip(strides, anchor.space, strict=True) if n > 1
    )
