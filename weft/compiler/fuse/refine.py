"""Groups made better: nodes moved to where they are used, sweeps joined, cheap values computed again instead of stored."""

from __future__ import annotations

from ..graph.geometry import common_factors, is_view, squeezed
from ..graph.graph import Constant, Fetched, Graph, Node, Value
from .group import Group, in_order
from .groups import MOST_INPUTS, MOST_NODES, WORTH_SHARING, Fuser
from .kinds import is_pointwise, is_reduction, product

__all__ = ["refine"]

MOST_REPEATED = 5  # nodes that are computed again to save a store


def refine(graph: Graph, fuser: Fuser) -> None:
    """All three, in the order in which they help each other; nothing where fusion was left out."""
    if not fuser.enabled:
        return
    refiner = Refiner(graph, fuser)
    refiner.sink()
    refiner.merge_readers()
    refiner.repeat()


class Refiner:
    """Changes the groups that a fuser has made."""

    def __init__(self, graph: Graph, fuser: Fuser) -> None:
        self.graph, self.fuser = graph, fuser
        self.copies: dict[Node, list[Node]] = {}  # to be put before a node of the graph
        self.readers: dict[Node, Node] = {}  # that node, of each copy

    def _first_of(self, node: Node) -> Node:
        """The node of the graph at whose place a node stands or will stand."""
        return self.readers.get(node, node)

    def sink(self) -> None:
        """Move pointwise nodes from the end of an anchor to the one group that uses them, where that saves stores."""
        users, results = self.graph.users(), set(self.graph.results)
        for group in self.fuser.groups:
            if group.kind != "anchor":
                continue
            for node in reversed(group.nodes[1:]):
                out = node.output
                readers = users.get(out, [])
                homes = {id(self.fuser.home.get(user)): self.fuser.home.get(user) for user in readers}
                if out in results or out in self.fuser.sure or len(homes) != 1:
                    continue
                (target,) = homes.values()
                if target is not None and target.kind in ("sweep", "anchor") and target is not group:
                    if self._saves(node, group, users, results) and self._can_sink(node, target, readers):
                        self._move(node, group, target)
        self._find_order()

    def _find_order(self) -> None:
        """What each group waits for, found anew: nodes that moved take their reasons along."""
        makers = self.fuser.makers()
        for group in makers:
            group.followers = set()
        for group in in_order(list(makers), makers):
            group.before = 0
            for maker in makers[group]:
                group.before |= maker.before | 1 << maker.number
                maker.followers.add(group)

    def repeat(self) -> None:
        """Compute cheap values again in the groups that read them, from values these read anyway: they are not stored."""
        users, results = self.graph.users(), set(self.graph.results)
        for group in self.fuser.groups:
            if group.kind not in ("sweep", "anchor") or (group.anchor is not None and not group.anchor.fusible):
                continue
            for node in list(group.nodes):
                out = node.output
                readers = users.get(out, [])
                if out in results or out in self.fuser.sure or out.size < WORTH_SHARING or not is_pointwise(node):
                    continue
                abroad = [user for user in readers if self.fuser.home.get(user) is not group]
                if not abroad or any(self.fuser.home.get(user) is None for user in abroad):
                    continue
                recipe = self._recipe(node, group, users, results)
                if recipe is None:
                    continue
                targets = {id(g): g for g in (self.fuser.home[user] for user in abroad)}.values()
                if all(self._can_repeat(node, recipe, target) for target in targets):
                    for target in targets:
                        self._copy(node, recipe[0], target, users)
        self._insert_copies()
        self._find_order()

    def _insert_copies(self) -> None:
        """Put the copied nodes into the graph, each before the node that reads it first."""
        nodes: list[Node] = []
        for node in self.graph.nodes:
            nodes += self.copies.get(node, ())
            nodes.append(node)
        self.graph.nodes = nodes
        self.graph.renumber()

    def _recipe(
        self, node: Node, group: Group, users: dict[Value, list[Node]], results: set[Value]
    ) -> tuple[list[Node], set[Value]] | None:
        """The few cheap nodes that make a value from values in memory, and those values; None: too much."""
        nodes: list[Node] = []
        bases: set[Value] = set()
        pending = [node]
        while pending:
            n = pending.pop()
            if n in nodes:
                continue
            if not is_pointwise(n) or n.op.cost > 1 or len(nodes) == MOST_REPEATED or is_view(n.output):
                return None
            nodes.append(n)
            for v in n.inputs:
                if isinstance(v.node.op, (Fetched, Constant)) or v.node in self.fuser.repeated:
                    continue
                if is_view(v):
                    return None
                home = self.fuser.home.get(v.node)
                inside = home is group and v not in results and v not in self.fuser.sure
                if inside and all(self.fuser.home.get(user) is group for user in users[v]):
                    pending.append(v.node)
                else:
                    bases.add(v)
        return sorted(nodes, key=self.fuser.place), bases

    def _can_repeat(self, node: Node, recipe: tuple[list[Node], set[Value]], target: Group) -> bool:
        nodes, bases = recipe
        if target.kind not in ("sweep", "anchor") or product(target.space) != node.output.size:
            return False
        if len(target.nodes) + len(nodes) > MOST_NODES or not all(
            base in target.inputs or self.fuser.home.get(base.node) is target or base.size == 1 for base in bases
        ):
            return False
        for n in nodes:
            cut = common_factors(target.space, squeezed(n.output.shape))
            if n.output.shape != node.output.shape or cut is None or len(cut) != len(target.space):
                return False
            if target.kind == "anchor" and not (target.anchor.fusible and self.fuser.fits_anchor(n, target, cut)):
                return False
        for user in target.nodes:
            if node.output in user.inputs and (not is_pointwise(user) or user.output.shape != node.output.shape):
                return False
        return True

    def _copy(self, node: Node, nodes: list[Node], target: Group, users: dict[Value, list[Node]]) -> None:
        """Copies of nodes in the target group, read there in the place of `node`."""
        made: dict[Value, Value] = {}
        first = next(i for i, n in enumerate(target.nodes) if node.output in n.inputs)
        reader, copies = self._first_of(target.nodes[first]), []
        for n in nodes:
            copy = Node(n.op, tuple(made.get(v, v) for v in n.inputs), n.params, n.line)
            made[n.output] = copy.make((n.output.shape, n.output.dtype))[0]
            copy.number = target.nodes[first].number
            copies.append(copy)
            self.readers[copy] = reader
            for v in dict.fromkeys(copy.inputs):
                users.setdefault(v, []).append(copy)
        waiting = self.copies.setdefault(reader, [])
        at = waiting.index(target.nodes[first]) if target.nodes[first] in self.readers else len(waiting)
        waiting[at:at] = copies
        for user in target.nodes:
            if node.output in user.inputs:
                user.inputs = tuple(made[node.output] if v is node.output else v for v in user.inputs)
                users.setdefault(made[node.output], []).append(user)
                users[node.output].remove(user)
        target.nodes[first:first] = copies
        for copy in copies:
            self.fuser.home[copy] = target
            target.masks[copy.output] = (True,) * len(target.space)
        target.inputs = {v for v in target.inputs if v is not node.output}

    def merge_readers(self) -> None:
        """Join sweeps that read the same large value and do not wait for each other: it is read once."""
        by_input: dict[Value, list[Group]] = {}
        for group in self.fuser.groups:
            if group.kind == "sweep" and product(group.space) >= WORTH_SHARING:
                for root in {self.fuser.geometry(v).root for v in group.inputs}:
                    if root.size == product(group.space):
                        by_input.setdefault(root, []).append(group)
        for readers in by_input.values():
            for n, first in enumerate(readers):
                for second in readers[n + 1 :]:
                    if first.nodes and second.nodes and first is not second:
                        self._merge(first, second)

    def _merge(self, first: Group, second: Group) -> bool:
        """Move the nodes of `second` into `first` where nothing speaks against it."""
        if product(first.space) != product(second.space):
            return False
        if first.before >> second.number & 1 or second.before >> first.number & 1:
            return False
        if len(first.nodes) + len(second.nodes) > MOST_NODES // 2 or len(first.inputs | second.inputs) > MOST_INPUTS:
            return False
        factors = common_factors(first.space, second.space)
        if factors is None:
            return False
        first.cut(factors)
        second.cut(factors)
        if first.rows is not None and second.rows is not None and first.rows != second.rows:
            return False
        nodes, masks = second.nodes, second.masks
        first.rows = first.rows or second.rows
        first.row_sums |= second.row_sums
        first.late |= second.late
        self.fuser.take(second, first)
        first.masks.update({v: masks[v] for v in (n.output for n in nodes)})
        return True

    def _saves(self, node: Node, group: Group, users: dict[Value, list[Node]], results: set[Value]) -> bool:
        """Whether no more values of the group have to be stored without the node than with it."""
        more = 0
        for v in dict.fromkeys(node.inputs):
            root = self.fuser.geometry(v).root
            if self.fuser.home.get(root.node) is not group:
                continue
            stored = root in results or root in self.fuser.sure
            more += not stored and all(self.fuser.home.get(user) is group for user in users[root])
        return more <= 1

    def _can_sink(self, node: Node, target: Group, readers: list[Node]) -> bool:
        out = node.output
        factors = common_factors(target.space, squeezed(out.shape))
        if product(target.space) != out.size or factors is None or not self.fuser.has_room(node, target):
            return False
        if not self.fuser.independent(node, target):
            return False
        if target.kind == "anchor":
            if not target.anchor.fusible or not self.fuser.fits_anchor(node, target, factors):
                return False
        else:
            target.cut(factors)
        for user in readers:
            if target.anchor is not None and user is target.anchor.node:
                return False
            x = user.inputs[0]
            domain = x.shape if is_reduction(user) else user.output.shape
            cut = common_factors(target.space, squeezed(domain))
            if cut is None:
                return False
            for v in user.inputs:
                if self.fuser.geometry(v).root is out:
                    origin, mask = self.fuser.origin(v, domain, cut)
                    if origin is not out or mask is None or not all(mask):
                        return False
        return True

    def _move(self, node: Node, group: Group, target: Group) -> None:
        group.nodes.remove(node)
        del group.masks[node.output]
        target.inputs = {v for v in target.inputs if self.fuser.geometry(v).root is not node.output}
        self.fuser.enter(node, target)
        first = target.nodes[:1] if target.kind == "anchor" else []
        target.nodes = first + sorted(target.nodes[len(first) :], key=self.fuser.place)
        target.masks[node.output] = (True,) * len(target.space)
