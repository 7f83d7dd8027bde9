"""From a traced function to native code.

`PIPELINE` is the way of a graph: every pass has a name, and the optional ones can be left out
(`weft.compile(fn, without=("fuse",))`) with the same results. After each pass `verify` checks the form.
"""

from __future__ import annotations

import contextlib
import functools
import gc
from collections.abc import Collection, Iterator
from typing import Any

from ..errors import MissingNameError
from ..runtime.locks import unforked
from ..runtime.threads import get_num_threads
from .graph.graph import Graph

__all__ = ["OPTIONAL", "PIPELINE", "build_plan", "cache_clear", "cache_info", "compile", "fallback_info"]

PIPELINE = (
    "prune",  # results of loops and branches that nobody reads, taken out of their bodies
    "choose",  # cheap branches both computed, and one taken
    "split",  # products taken out of loops and done for all iterations at once
    "sums",  # sums that loops make, as carried values
    "expand",  # operations that are made of others, written out
    "windows",  # copies out of dense memory as views of it
    "constants",  # what depends on constants alone, computed now
    "neutral",  # what changes nothing, left out
    "share",  # equal expressions computed once
    "orient",  # products computed transposed where only the transpose is read
    "layouts",  # the order of dimensions in memory, for convolutions
    "views",  # copies where a view cannot be taken of dense memory
    "results",  # outputs and states, each with memory of its own
    "fuse",  # nodes gathered into kernels
    "refine",  # nodes moved between kernels, sweeps joined, cheap values repeated: fewer stores
    "place",  # final values written straight into their states
    "loops",  # groups as loop nests with operands addressed by strides
    "schedule",  # kernels ordered into phases between barriers
    "buffers",  # temporary values sharing memory
    "build",  # LLVM text, machine code, the table of steps
)
OPTIONAL = frozenset(
    "prune choose split windows constants neutral share orient fuse refine place schedule buffers".split()
)


def __getattr__(name: str) -> Any:
    if name == "compile":
        from .compiled import compile

        return compile
    raise MissingNameError(__name__, name)


def cache_info() -> Any:
    """Where compiled kernels are kept on disk, how many there are, and how large they may become together."""
    from ..runtime import cache

    return cache.info()


def fallback_info() -> Any:
    """How often eager code could not be compiled in this process and fell back on NumPy, and the last reasons."""
    from ..runtime import fallbacks

    return fallbacks.info()


def cache_clear() -> None:
    """Forget every kernel on disk; those that are in use stay in memory."""
    from ..runtime import cache

    cache.clear()


@unforked()
def build_plan(
    graph: Graph, threads: int | None = None, without: Collection[str] | None = None, log: list[Any] | None = None
) -> Any:
    """Compile a graph: all passes but those in `without`. `log` collects (pass, what it left) for `explain`."""
    with _not_collecting():
        return _build_plan(graph, threads or get_num_threads(), without or (), log)


@contextlib.contextmanager
def _not_collecting() -> Iterator[None]:
    """Without looking for garbage: passes make many objects, nearly all of which stay."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _build_plan(graph: Graph, threads: int, without: Collection[str], log: list[Any] | None) -> Any:
    from .fuse.anchors import find_anchors
    from .fuse.group import in_order
    from .fuse.groups import Fuser
    from .fuse.loops import Lowering
    from .fuse.refine import refine
    from .graph import bodies, verify
    from .graph.geometry import Geometry
    from .passes import simplify, split
    from .passes.choose import choose
    from .passes.expand import expand
    from .passes.layouts import choose_layouts, order_operands
    from .plan.plan import Plan
    from .plan.schedule import Places, arrange, beside, in_place

    on = {name for name in PIPELINE if name not in without}

    def note(name: str, result: Any) -> None:
        if log is not None:
            log.append((name, str(result)))

    def graph_pass(name: str, function: Any) -> None:
        if name in on:
            function(graph)
            verify.check_graph(graph, name)
            note(name, graph)

    note("trace", graph)
    simplify.remove_dead(graph)
    graph_pass("prune", bodies.prune)
    graph_pass("choose", choose)
    graph_pass("split", split.split)
    graph_pass("sums", split.add_up)
    graph_pass("expand", expand)
    graph_pass("windows", simplify.open_windows)
    graph_pass("constants", simplify.fold_constants)
    graph_pass("neutral", simplify.remove_neutral)
    graph_pass("share", simplify.share_equal)
    graph_pass("orient", simplify.orient)
    anchors = find_anchors(graph)
    geometry = Geometry(choose_layouts(graph, anchors))
    note("layouts", "\n".join(f"  {v!r}: {order}" for v, order in geometry.layouts.items()))
    graph_pass("views", functools.partial(simplify.order_views, geometry=geometry))
    graph_pass("views", functools.partial(order_operands, anchors=anchors, geometry=geometry))
    graph_pass("views", functools.partial(bodies.straighten, geometry=geometry))
    graph_pass("results", functools.partial(simplify.separate_results, geometry=geometry))
    fuser = Fuser(graph, geometry, anchors, "fuse" in on)
    groups = fuser.run()
    note("fuse", _listed(groups))
    if {"fuse", "refine"} <= on:
        refine(fuser)
        groups = [g for g in groups if g.nodes]
        note("refine", _listed(groups))
    verify.check_groups(fuser, groups)
    if "place" in on:
        places = in_place(graph, fuser)
        beside(graph, fuser, places.homes)
    else:
        places = Places({}, [], [s for s in graph.states if s.final is not None], set())
    stored = _stored(graph, fuser)
    build = functools.partial(build_plan, threads=threads, without=without)
    lowering = Lowering(fuser, stored, places.homes, functools.partial(bodies.lowered, build=build))
    before = fuser.makers()
    for first, second in places.order:
        before[second].add(first)
    steps: list[Any] = []
    empty: set[Any] = set()  # groups of which nothing is left to do: who waits for them waits for what they wait for
    for group in in_order(groups, before):
        before[group] = {h for g in before[group] for h in (before[g] if g in empty else (g,))}
        step = lowering(group)
        steps += [] if step is None else [step]
        empty |= {group} if step is None else set()
    slots = arrange(steps, before, threads, "schedule" in on)
    verify.check_slots(slots, before)
    return Plan(graph, slots, lowering, places, threads, "buffers" in on)


def _listed(groups: list[Any]) -> str:
    return "\n".join(f"  {g.kind} {g.number} {list(g.space)}: {', '.join(n.op.name for n in g.nodes)}" for g in groups)


def _stored(graph: Graph, fuser: Any) -> set[Any]:
    """Values that must be in memory: read by another group, or results."""
    stored = set(graph.results)
    for group in fuser.groups:
        for node in group.nodes:
            for v in node.inputs:
                root = fuser.geometry(v).root
                if fuser.home.get(root.node) is not group:
                    stored.add(root)
    return stored
