"""The table of passes is what runs: order, what each pass needs and leaves, what is left out, and what the page says."""

from __future__ import annotations

import dataclasses
import pathlib
import re
from typing import Any

import pytest

import weft
from weft.compiler import OPTIONAL, PIPELINE, build_plan, pipeline
from weft.compiler.graph.graph import Graph
from weft.compiler.graph.verify import FormError
from weft.compiler.pipeline import PASSES, Compilation, Pass, run_passes

PAGE = pathlib.Path(__file__).parents[2] / "docs/compiler.md"
FIELDS = {field.name for field in dataclasses.fields(Compilation)}
GIVEN = {"graph", "threads", "build"}


def step(x: weft.Tensor, w: weft.Tensor) -> weft.Tensor:
    """Something for every kind of pass: a loop, a product, a reduction, a view."""
    last, rows = weft.scan(lambda h, row: ((h @ w + row).tanh(), h.sum()), x[0], x)
    return (last.mT * rows.sum()).softmax(0)


def started() -> Compilation:
    graph = weft.compile(step).graph(weft.randn(3, 4, 4), weft.randn(4, 4))
    return Compilation(graph, 2, lambda body: build_plan(body, 2))


def test_names_are_those_of_the_table():
    assert tuple(p.name for p in PASSES) == PIPELINE and isinstance(PIPELINE, tuple)
    assert {p.name for p in PASSES if p.optional} == OPTIONAL
    assert len(set(PIPELINE)) == len(PIPELINE)
    assert not [p.name for p in PASSES if p.otherwise is not None and not p.optional]


def test_whatever_is_left_out_every_pass_finds_what_it_needs():
    """On paper: a pass that may be left out leaves nothing new, or something stands in for it."""
    there = set(GIVEN)
    for one in PASSES:
        assert {*one.needs, *one.leaves} <= FIELDS, one.name
        assert set(one.needs) <= there, one.name
        if not one.optional or one.otherwise is not None:
            there |= set(one.leaves)
        assert set(one.leaves) <= there, one.name
    assert there == FIELDS


def test_a_pass_gets_what_it_needs_and_nothing_else():
    seen: list[Any] = []

    def look(*things: Any) -> str:
        seen.append(things)
        return "made"

    state = started()
    row = Pass("look", look, "looks", needs=("threads", "graph"), leaves=("graph", "plan"))
    assert run_passes([row], state).plan == "made"
    assert seen == [(2, state.graph)]


def test_a_pass_whose_needs_are_not_there_is_refused():
    late = PIPELINE.index("loops")
    with pytest.raises(FormError, match="'loops' needs groups, places, which no pass before it left"):
        run_passes([PASSES[late]], started())


@pytest.mark.parametrize("returned", [None, ("one",), "text"], ids=str)
def test_a_pass_that_does_not_leave_what_it_says_is_refused(returned):
    row = Pass("short", lambda graph: returned, "forgets", leaves=("anchors", "geometry"))
    with pytest.raises(FormError, match="'short' has to return anchors, geometry"):
        run_passes([row], started())


@pytest.mark.parametrize("at", [p.name for p in PASSES if "graph" in p.leaves])
def test_the_form_is_checked_after_every_pass_that_leaves_a_graph(at):
    """A node that reads what is made later, put in by any pass, is found before the next one runs."""

    def turn(graph: Graph, *_: Any) -> None:
        graph.nodes.reverse()

    rows = list(PASSES[: PIPELINE.index(at) + 1])
    rows[-1] = dataclasses.replace(rows[-1], function=spoiled(rows[-1].function, turn))
    with pytest.raises(FormError, match=f"compiler pass '{at}': .* reads .* before it is made"):
        run_passes(rows, started())


def spoiled(function: Any, spoil: Any) -> Any:
    def run(graph: Graph, *others: Any) -> Any:
        found = function(graph, *others)
        spoil(graph)
        return found

    return run


@pytest.mark.parametrize("name", sorted(OPTIONAL))
def test_a_pass_that_is_left_out_does_not_run(name):
    seen = []
    rows = [
        dataclasses.replace(p, function=lambda *things, p=p: (seen.append(p.name), p.function(*things))[1])
        for p in PASSES
    ]
    run_passes(rows, started(), without=(name,))
    assert seen == [other for other in PIPELINE if other != name]


def test_the_log_follows_the_table():
    log: list[tuple[str, str]] = []
    build_plan(started().graph, 2, log=log)
    assert [name for name, _ in log[1:]] == [p.name for p in PASSES if p.leaves[-1] in pipeline.TEXTS]
    assert log[0][0] == "trace"


def test_the_page_lists_the_passes_as_they_stand():
    block = re.search(r"<!-- printout: pipeline -->\n```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)[1]
    rows = [line.split(None, 1) for line in block.splitlines() if not line.startswith(" ")]
    assert [(name.strip("[]"), name.startswith("["), about) for name, about in rows] == [
        (p.name, p.optional, p.about) for p in PASSES
    ]
    sections = re.findall(r"`(\w+)`", " ".join(re.findall(r"^#+ .*", PAGE.read_text(encoding="utf-8"), re.M)))
    assert [name for name in sections if name in PIPELINE] == [name for name in PIPELINE if name in sections]
