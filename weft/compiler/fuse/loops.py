"""From groups to kernels: every value of a group numbered, every operand given its strides over the group's space."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ...kernels.anchor import Whole
from ...kernels.body import Access, Body, Step
from ...kernels.kernel import Kernel
from ...kernels.llvm.values import type_of
from ...kernels.sweep.sweep import Item, Several, Sweep
from ..graph.geometry import Region, common_factors, squeezed, strides_over
from ..graph.graph import Constant, Graph, Node, Value
from ..graph.reference import compute_node
from ..passes.simplify import MOVE
from .group import Group
from .groups import Fuser
from .kinds import is_pointwise, merged, reduced_dims, windows

__all__ = ["HostCall", "Launch", "Lowering"]

MOST_NUMBERS = 100  # different ones in a graph up to which all are written into the code of kernels
FEW_READERS = 4


@dataclass
class Launch:
    """One kernel with its buffers: `words` are (root value, offset in bytes)."""

    kernel: Kernel
    words: list[tuple[Value, int]]
    group: Group
    reads: set[Value] = field(default_factory=set)
    writes: set[Value] = field(default_factory=set)
    parts: dict[Value, Any] = field(
        default_factory=dict
    )  # roots of which only a part is written, by a name of the part


@dataclass
class HostCall:
    """One operation computed in Python between native parts."""

    node: Node
    group: Group
    reads: set[Value]
    writes: set[Value]
    plans: ClassVar[Sequence[Any]] = ()  # of the bodies of a loop or branch
    count: ClassVar[int] = 0  # of argument words, where it is a part of the native plan

    def compute(self, inputs: Sequence[np.ndarray]) -> tuple[np.ndarray | None, ...]:
        """The results, as arrays; None where the memory may keep what it holds."""
        return compute_node(self.node, inputs)


class Lowering:
    """Makes the kernels of groups. `homes` says where values that are not temporary lie: written in place; `nested` makes
    the step of a node that has graphs inside."""

    def __init__(self, fuser: Fuser, stored: set[Value], homes: dict[Value, Region], nested: Callable) -> None:
        self.fuser, self.geometry, self.stored, self.homes = fuser, fuser.geometry, stored, homes
        self.nested = nested
        self.loaded = rare_constants(fuser.graph)

    def __call__(self, group: Group) -> Launch | HostCall | None:
        if group.kind == "host":
            (node,) = group.nodes
            roots = {self.window(v).root for v in node.inputs}
            call = HostCall(node, group, roots, {self.window(v).root for v in node.outputs})
            return self.nested(call, self) if node.op.bodies else call
        if group.kind == "assembly":
            return self._assembly(group)
        if group.kind == "anchor" and isinstance(group.anchor, Whole):
            return self._whole(group)
        return self._anchored(group) if group.kind == "anchor" else self._sweep(group)

    def window(self, value: Value) -> Region:
        """Where a value lies: in the memory of its root, or of the state that its root is written to."""
        view = self.geometry(value)
        home = self.homes.get(view.root)
        if home is None:
            return view
        if view.root is value:
            return home
        return Region(home.root, home.offset + view.offset, view.strides)

    def element_strides(self, value: Value) -> tuple[int, ...]:
        size = value.dtype.itemsize
        return tuple(s // size for s in self.window(value).strides)

    def number(self, value: Value) -> Any:
        """The number, if a value is one number that is written into the code of kernels; else None."""
        root = self.geometry(value).root
        if not isinstance(root.node.op, Constant) or root.size != 1 or root in self.loaded:
            return None
        return root.node.op.array.reshape(-1)[0].item()

    # ------------------------------------------------------------------------------------- sweeps
    def _sweep(self, group: Group) -> Launch:
        table = _Table(self, group)
        masks, space = group.masks, group.space
        for node in group.nodes:
            out = node.output
            if is_pointwise(node):
                numbers = [i for i, m in enumerate(masks[out]) if m]
                sizes = [space[i] for i in numbers]
                operands = tuple(table.operand(v, out.shape, numbers, sizes) for v in node.inputs)
                table.add(out, Item("step", type_of(out.dtype), masks[out], step_of(node, operands)))
                continue
            x = node.inputs[0]
            origin = self.fuser.flat_origin(x)
            if self.fuser.home.get(origin.node) is group:
                source = table.numbers[origin]
                numbers = [i for i, m in enumerate(masks[origin]) if m]
            else:
                numbers = list(range(len(space)))
                source = table.operand(x, x.shape, numbers, list(space))
                if not all(table.items[source].mask):  # an element repeated counts as often as it is repeated
                    kind = table.items[source].kind
                    source = table.add(
                        None, Item("step", kind, (True,) * len(space), Step(MOVE, (source,), kind, None))
                    )
            what = "rows" if out in group.row_sums else "late"
            count = 1
            for d in reduced_dims(node):
                count *= x.shape[d]
            kind = type_of(out.dtype)
            table.add(out, Item(what, kind, masks[out], node.op, source, count))
        stores = []
        for node in group.nodes:
            out = node.output
            if out in self.stored:
                numbers = [i for i, m in enumerate(masks[out]) if m]
                stores.append((table.store(out, numbers, [space[i] for i in numbers]), table.numbers[out]))
        items, stores, space, rows = collapse(table.items, stores, space, group.rows)
        cost = 1 + sum(n.op.cost for n in group.nodes)
        kernel = Sweep(items, stores, space, rows, cost)
        return Launch(kernel, table.words, group, table.reads, table.writes, self._parts(group))

    # ------------------------------------------------------------------------------------ anchors
    def _anchored(self, group: Group) -> Launch:
        anchor, table = group.anchor, _Table(self, group)
        for v in anchor.operands:
            table.word(v, own=True)
        strides = [self.element_strides(v) for v in anchor.operands]
        maker = _BodyMaker(self, group, table)
        for node in group.nodes[1:]:
            maker.add(node)
        body = maker.body(self.stored)
        kernel = anchor.make(strides, body, len(table.words))
        return Launch(kernel, table.words, group, table.reads, table.writes, self._parts(group))

    def _parts(self, group: Group) -> dict[Value, Any]:
        """The windows of assemblies that a group writes to."""
        found = {}
        for node in group.nodes:
            home = self.homes.get(node.output)
            whole = home is not None and (home.root.shape, home.root.dtype) == (node.output.shape, node.output.dtype)
            if home is not None and not whole:
                found[home.root] = node
        return found

    def _assembly(self, group: Group) -> Launch | None:
        """Copies of the operands that do not lie in their windows already, in one kernel."""
        (node,) = group.nodes
        out, table = node.output, _Table(self, group)
        fill, places = windows(node, self.geometry)
        home = self.window(out)
        kernels: list[Kernel] = []
        if fill is not None:
            kind = type_of(out.dtype)
            space = squeezed(out.shape)
            item = Item("constant", kind, (True,) * len(space), fill)
            over = strides_over(out.shape, self.element_strides(out), out.shape, space)
            store = Access(table.word(out, writes=True), kind, over)
            kernels.append(Sweep(*collapse([item], [(store, 0)], space, None)))
        for v, offset, strides in places:
            here = self.window(v)
            stays = (here.root, here.offset, here.strides) == (home.root, home.offset + offset, tuple(strides))
            if stays or (v in self.homes and self.homes[v].root is home.root):
                continue
            space, kind = squeezed(v.shape), type_of(v.dtype)
            load = Access(table.word(v), kind, strides_over(v.shape, self.element_strides(v), v.shape, space))
            over = strides_over(v.shape, [s // v.dtype.itemsize for s in strides], v.shape, space)
            store = Access(table.word(out, writes=True, more=offset), kind, over)
            items = [Item("load", kind, (True,) * len(space), load)]
            kernels.append(Sweep(*collapse(items, [(store, 0)], space, None)))
        if not kernels:
            return None
        written_over = fill is not None or (len(places) > 1 and places[0][0].nbytes == out.nbytes)
        return Launch(Several(kernels, written_over), table.words, group, table.reads, table.writes)

    def _whole(self, group: Group) -> Launch:
        anchor, table = group.anchor, _Table(self, group)
        for v in anchor.operands:
            table.word(v, own=True)
        left_out = {v for v in anchor.spare if self.geometry(v).root not in self.stored}
        results = [None if v in left_out else self.element_strides(v) for v in anchor.node.outputs]
        for v in anchor.node.outputs:
            if v not in left_out:
                table.word(v, writes=True, own=True)
        kernel = anchor.make([self.element_strides(v) for v in anchor.operands], results)
        return Launch(kernel, table.words, group, table.reads, table.writes)


class _Table:
    """The numbers of a group's items and the argument words of its kernel, as they are handed out."""

    def __init__(self, lowering: Lowering, group: Group) -> None:
        self.lowering, self.group = lowering, group
        self.items: list[Item] = []
        self.numbers: dict[Value, int] = {}
        self.words: list[tuple[Value, int]] = []
        self.reads: set[Value] = set()
        self.writes: set[Value] = set()
        self._known: dict[Any, int] = {}

    def add(self, value: Value | None, item: Item) -> int:
        self.items.append(item)
        if value is not None:
            self.numbers[value] = len(self.items) - 1
        return len(self.items) - 1

    def word(self, value: Value, writes: bool = False, more: int = 0, own: bool = False) -> int:
        """The number of the argument word of a value: that of what is read there too, unless it has its `own`."""
        view = self.lowering.window(value)
        (self.writes if writes else self.reads).add(view.root)
        entry = (view.root, view.offset + more)
        if entry not in self.words or own:
            self.words.append(entry)
            return len(self.words) - 1
        return self.words.index(entry)

    def repeated(self, node: Node) -> int:
        """The item of a cheap operation on single numbers, done again in this kernel."""
        if node.output not in self.numbers:
            nowhere = (False,) * len(self.group.space)
            operands = tuple(
                self.repeated(root.node)
                if (root := self.lowering.geometry(v).root).node in self.lowering.fuser.repeated
                else self.operand(v, (), [], [])
                for v in node.inputs
            )
            self.add(node.output, Item("step", type_of(node.output.dtype), nowhere, step_of(node, operands)))
        return self.numbers[node.output]

    def operand(self, v: Value, domain: Sequence[int], numbers: list[int], sizes: list[int]) -> int:
        """The item of an operand of a node with this domain, whose factors are `numbers` of the space."""
        fuser, space = self.lowering.fuser, self.group.space
        origin, _ = fuser.origin(v, domain, sizes)
        if fuser.home.get(origin.node) is self.group:
            return self.numbers[origin]
        if origin.node in fuser.repeated:
            return self.repeated(origin.node)
        kind = type_of(v.dtype)
        number = self.lowering.number(v)
        nowhere = (False,) * len(space)
        if number is not None:
            key = ("constant", kind, repr(number))
            if key not in self._known:
                self._known[key] = self.add(None, Item("constant", kind, nowhere, number))
            return self._known[key]
        strides = [0] * len(space)
        over = strides_over(v.shape, self.lowering.element_strides(v), domain, sizes)
        for i, s in zip(numbers, over, strict=True):
            strides[i] = s
        access = Access(self.word(v), kind, tuple(strides))
        if access not in self._known:
            self._known[access] = self.add(None, Item("load", kind, tuple(s != 0 for s in strides), access))
        return self._known[access]

    def store(self, value: Value, numbers: list[int], sizes: list[int]) -> Access:
        strides = [0] * len(self.group.space)
        over = strides_over(value.shape, self.lowering.element_strides(value), value.shape, sizes)
        for i, s in zip(numbers, over, strict=True):
            strides[i] = s
        return Access(self.word(value, writes=True), type_of(value.dtype), tuple(strides))


class _BodyMaker:
    """Collects the body of an anchor: constants, loads and steps, numbered when all are known."""

    def __init__(self, lowering: Lowering, group: Group, table: _Table) -> None:
        self.lowering, self.group, self.table = lowering, group, table
        self.constants: list[tuple[str, Any]] = []
        self.loads: list[Access] = []
        self.steps: list[tuple[Node, list[tuple[str, Any]]]] = []
        self.made: set[Value] = set()

    def add(self, node: Node) -> None:
        shape = node.output.shape
        factors = common_factors(self.group.space, squeezed(shape))
        if factors is None or node in self.lowering.fuser.repeated:
            shape, factors = (), ()
        operands = [self._operand(v, shape, factors) for v in node.inputs]
        self.steps.append((node, operands))
        self.made.add(node.output)

    def _operand(self, v: Value, shape: Sequence[int], factors: Sequence[int]) -> tuple[str, Any]:
        fuser = self.lowering.fuser
        origin, _ = fuser.origin(v, shape, factors)
        if fuser.home.get(origin.node) is self.group:
            return "value", origin
        if origin.node in fuser.repeated:
            if origin not in self.made:
                self.add(origin.node)
            return "value", origin
        number = self.lowering.number(v)
        if number is not None:
            entry = (type_of(v.dtype), number)
            self.constants.append(entry)
            return "constant", len(self.constants) - 1
        over = strides_over(v.shape, self.lowering.element_strides(v), shape, factors)
        space = merged(over, factors, self.group.space) if factors else (0,) * len(self.group.space)
        access = Access(self.table.word(v), type_of(v.dtype), space)
        if access not in self.loads:
            self.loads.append(access)
        return "load", self.loads.index(access)

    def body(self, stored: set[Value]) -> Body:
        first, kind = self.group.anchor.node.output, self.group.anchor.kind
        at, start = {first: 0}, 1 + len(self.constants) + len(self.loads)
        made = []
        if kind != type_of(first.dtype):  # the kernel gives another type than the operation
            made.append(Step(MOVE, (0,), type_of(first.dtype), None))
            at[first] = start
        for node, operands in self.steps:
            places = {"constant": 1, "load": 1 + len(self.constants)}
            found = tuple(at[what] if kind == "value" else places[kind] + what for kind, what in operands)
            at[node.output] = start + len(made)
            made.append(step_of(node, found))
        stores = []
        for node in self.group.nodes:
            out = node.output
            if out in stored:
                factors = common_factors(self.group.space, squeezed(out.shape))
                over = strides_over(out.shape, self.lowering.element_strides(out), out.shape, factors)
                word = self.table.word(out, writes=True)
                stores.append((Access(word, type_of(out.dtype), merged(over, factors, self.group.space)), at[out]))
        return Body((kind,), tuple(self.constants), tuple(self.loads), tuple(made), tuple(stores))


def step_of(node: Node, operands: tuple[int, ...]) -> Step:
    """A pointwise node as a step: its types by the operation's own rule."""
    work, _ = node.op.native_types([v.dtype for v in node.inputs], node.params)
    params = tuple((k, v) for k, v in sorted(node.params.items()))
    return Step(node.op, operands, type_of(node.output.dtype), None if work is None else type_of(work), params)


def rare_constants(graph: Graph) -> set[Value]:
    """Numbers that few nodes read, in a graph with very many: kernels load them, so that those which differ in nothing
    but a number are one kernel."""
    readers: dict[tuple[str, bytes], int] = {}
    numbers = [n.output for n in graph.nodes if isinstance(n.op, Constant) and n.output.size == 1]
    if len(numbers) <= MOST_NUMBERS:
        return set()
    key = lambda v: (v.dtype.str, v.node.op.array.tobytes())
    users = graph.users()
    for v in numbers:
        readers[key(v)] = readers.get(key(v), 0) + len(users.get(v, ()))
    return {v for v in numbers if readers[key(v)] <= FEW_READERS} if len(readers) > MOST_NUMBERS else set()


def collapse(
    items: Sequence[Item],
    stores: Sequence[tuple[Access, int]],
    space: tuple[int, ...],
    rows: tuple[bool, ...] | None,
) -> tuple[tuple[Item, ...], tuple[tuple[Access, int], ...], tuple[int, ...], tuple[bool, ...] | None]:
    """Join neighbouring sizes that every access runs through as one."""
    joined = list(range(len(space)))  # the first size of the run each size belongs to
    accesses = [i.value for i in items if i.what == "load"] + [a for a, _ in stores]

    def together(d: int) -> bool:
        if rows is not None and rows[d] != rows[d + 1]:
            return False
        if any(i.mask[d] != i.mask[d + 1] for i in items):
            return False
        return all(a.strides[d] == a.strides[d + 1] * space[d + 1] for a in accesses)

    runs: list[list[int]] = []
    for d in joined:
        if runs and together(d - 1):
            runs[-1].append(d)
        else:
            runs.append([d])
    if len(runs) == len(space):
        return tuple(items), tuple(stores), space, rows

    def narrow(access: Access) -> Access:
        return Access(access.arg, access.kind, tuple(access.strides[r[-1]] for r in runs))

    def shrink(item: Item) -> Item:
        value = narrow(item.value) if item.what == "load" else item.value
        return Item(item.what, item.kind, tuple(item.mask[r[0]] for r in runs), value, item.source, item.count)

    sizes = tuple(int(np.prod([space[d] for d in r])) for r in runs)
    return (
        tuple(shrink(i) for i in items),
        tuple((narrow(a), n) for a, n in stores),
        sizes,
        None if rows is None else tuple(rows[r[0]] for r in runs),
    )
