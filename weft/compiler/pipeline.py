"""The way of a graph to a plan, as a table: `PASSES` has every pass with what it needs and what it leaves.

`build_plan` runs the table; `weft.compile(without=…)`, `explain` and docs/compiler.md read it.
"""

from __future__ import annotations

import contextlib
import functools
import gc
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..runtime.locks import unforked
from ..runtime.threads import get_num_threads
from .fuse.group import Group
from .fuse.groups import Fuser, fuse
from .fuse.loops import HostCall, Launch, Lowering
from .fuse.lower import lower
from .fuse.refine import refine
from .graph import bodies, verify
from .graph.geometry import Geometry
from .graph.graph import Graph, Node
from .passes import halves, simplify, split
from .passes.choose import choose
from .passes.expand import expand
from .passes.layouts import choose_geometry, order_memory
from .passes.planes import split_planes
from .passes.ranks import meet_natively
from .plan.buffers import Layout, lay_out
from .plan.plan import Plan
from .plan.schedule import Places, Slot, arrange, copy_back, place

__all__ = ["OPTIONAL", "PASSES", "PIPELINE", "Compilation", "Pass", "build_plan", "run_passes"]


@dataclass
class Compilation:
    """What passes hand on to each other. A field that is None has not been made yet."""

    graph: Graph
    threads: int
    build: Callable[[Graph], Plan]  # for the bodies of loops and branches
    anchors: dict[Node, Any] | None = None  # nodes with kernels of their own
    geometry: Geometry | None = None  # where values lie in their memory
    groups: Fuser | None = None  # nodes gathered into kernels
    places: Places | None = None  # where final values and outputs go
    lowering: Lowering | None = None  # which makes kernels of groups
    order: dict[Group, set[Group]] | None = None  # for each group those before it
    steps: list[Launch | HostCall] | None = None  # kernels and host calls, in a possible order
    slots: list[Slot] | None = None  # the same in phases
    memory: Layout | None = None  # where temporary values lie
    plan: Plan | None = None


@dataclass(frozen=True)
class Pass:
    """One row of the table.

    `function` is called with what the pass `needs`, in that order. What it `leaves` and does not need it makes anew and
    returns, in that order; what it leaves and needs it changes where it is. `otherwise` stands in for an optional pass that
    is left out; where there is none, nothing is done.
    """

    name: str
    function: Callable[..., Any]
    about: str
    optional: bool = False
    needs: tuple[str, ...] = ("graph",)
    leaves: tuple[str, ...] = ("graph",)
    otherwise: Callable[..., Any] | None = None


PASSES = (
    Pass(
        "prune",
        bodies.prune,
        "results of loops and branches that nobody reads, taken out of their bodies",
        optional=True,
        otherwise=simplify.remove_dead,
    ),
    Pass("choose", choose, "cheap branches both computed, and one taken", optional=True),
    Pass("split", split.split, "products taken out of loops and done for all iterations at once", optional=True),
    Pass("sums", split.add_up, "sums that loops make, as carried values"),
    Pass("planes", split_planes, "complex numbers as pairs of real ones"),
    Pass("widen", halves.widen, "bfloat16 numbers held as float32"),
    Pass("ranks", meet_natively, "calls of ranks of one machine as native steps", optional=True),
    Pass("expand", expand, "operations that are made of others, written out"),
    Pass("windows", simplify.open_windows, "copies out of dense memory as views of it", optional=True),
    Pass("constants", simplify.fold_constants, "what depends on constants alone, computed now", optional=True),
    Pass("neutral", simplify.remove_neutral, "what changes nothing, left out", optional=True),
    Pass("share", simplify.share_equal, "equal expressions computed once", optional=True),
    Pass("orient", simplify.orient, "products computed transposed where only the transpose is read", optional=True),
    Pass(
        "narrow", halves.narrow, "products of bfloat16 numbers two terms at a time, where that is faster", optional=True
    ),
    Pass(
        "layouts",
        choose_geometry,
        "the order of dimensions in memory, for convolutions",
        leaves=("graph", "anchors", "geometry"),
    ),
    Pass(
        "views",
        order_memory,
        "copies where a view cannot be taken of dense memory",
        needs=("graph", "anchors", "geometry"),
        leaves=("anchors", "graph"),
    ),
    Pass(
        "results",
        simplify.separate_results,
        "outputs and states, each with memory of its own",
        needs=("graph", "geometry"),
    ),
    Pass(
        "fuse",
        fuse,
        "nodes gathered into kernels",
        optional=True,
        needs=("graph", "geometry", "anchors"),
        leaves=("groups",),
        otherwise=functools.partial(fuse, enabled=False),
    ),
    Pass(
        "refine",
        refine,
        "nodes moved between kernels, sweeps joined, cheap values repeated: fewer stores",
        optional=True,
        needs=("graph", "groups"),
        leaves=("graph", "groups"),
    ),
    Pass(
        "place",
        place,
        "final values written straight into their states",
        optional=True,
        needs=("graph", "groups"),
        leaves=("places",),
        otherwise=copy_back,
    ),
    Pass(
        "loops",
        lower,
        "groups as loop nests with operands addressed by strides",
        needs=("graph", "groups", "places", "build"),
        leaves=("lowering", "order", "steps"),
    ),
    Pass(
        "schedule",
        arrange,
        "kernels ordered into phases between barriers",
        optional=True,
        needs=("steps", "order", "threads"),
        leaves=("slots",),
        otherwise=functools.partial(arrange, reorder=False),
    ),
    Pass(
        "buffers",
        lay_out,
        "temporary values sharing memory",
        optional=True,
        needs=("graph", "slots", "lowering", "places", "threads"),
        leaves=("memory",),
        otherwise=functools.partial(lay_out, share=False),
    ),
    Pass(
        "build",
        Plan,
        "LLVM text, machine code, the table of steps",
        needs=("graph", "slots", "lowering", "places", "threads", "memory"),
        leaves=("plan",),
    ),
)
PIPELINE = tuple(one.name for one in PASSES)
OPTIONAL = frozenset(one.name for one in PASSES if one.optional)


@unforked()
def build_plan(
    graph: Graph, threads: int | None = None, without: Collection[str] | None = None, log: list[Any] | None = None
) -> Plan:
    """Compile a graph: all passes but those in `without`. `log` collects (pass, what it left) for `explain`."""
    threads, without = threads or get_num_threads(), without or ()
    build = functools.partial(build_plan, threads=threads, without=without)
    if log is not None:
        log.append(("trace", str(graph)))
    with _not_collecting():
        return run_passes(PASSES, Compilation(graph, threads, build), without, log).plan


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


def run_passes(
    passes: Sequence[Pass], state: Compilation, without: Collection[str] = (), log: list[Any] | None = None
) -> Compilation:
    """Run passes in order, each but those in `without` (for which `otherwise` stands in), and check what they leave."""
    for one in passes:
        function = one.otherwise if one.name in without else one.function
        if function is None:
            continue
        _run(one, function, state)
        for name in one.leaves:
            if name in CHECKS:
                CHECKS[name](state, one.name)
        if log is not None and one.leaves[-1] in TEXTS:
            log.append((one.name, TEXTS[one.leaves[-1]](state)))
    return state


def _run(one: Pass, function: Callable[..., Any], state: Compilation) -> None:
    missing = [name for name in one.needs if getattr(state, name) is None]
    if missing:
        raise verify.FormError(
            f"compiler pass '{one.name}' needs {', '.join(missing)}, which no pass before it left: it stands too early in "
            "weft/compiler/pipeline.py, or a pass before it was left out that has no `otherwise`"
        )
    found = function(*(getattr(state, name) for name in one.needs))
    new = [name for name in one.leaves if name not in one.needs]
    made = (found,) if len(new) == 1 else found if new else ()
    if not isinstance(made, tuple) or len(made) != len(new) or any(thing is None for thing in made):
        raise verify.FormError(f"compiler pass '{one.name}' has to return {', '.join(new)}, got {type(found).__name__}")
    for name, thing in zip(new, made, strict=True):
        setattr(state, name, thing)


# What is looked at whenever a pass has left it, and how it is told to `explain`.
CHECKS: dict[str, Callable[[Compilation, str], None]] = {
    "graph": lambda state, name: verify.check_graph(state.graph, name),
    "groups": lambda state, name: verify.check_groups(state.groups, state.groups.filled),
    "slots": lambda state, name: verify.check_slots(state.slots, state.order),
}
TEXTS: dict[str, Callable[[Compilation], str]] = {
    "graph": lambda state: str(state.graph),
    "geometry": lambda state: str(state.geometry),
    "groups": lambda state: "\n".join(map(str, state.groups.filled)),
    "places": lambda state: state.places.told(state.graph),
    "memory": lambda state: str(state.memory),
}
