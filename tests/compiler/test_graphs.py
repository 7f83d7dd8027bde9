"""Random programs compiled: views, broadcasts, reductions, products, writes in place, random numbers, several results.

Several programs run in one compiled function. What differs from eager code is shown alone and made small.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import weft
from weft.compiler import OPTIONAL, fuse, refine, sweep

from .graph_moves import make_program
from .graphs import Program, check

TOGETHER = 10
MORE = int(os.environ.get("WEFT_GRAPHS", "1"))  # how many times more graphs than usual; then always new ones


@st.composite
def programs(draw: Any) -> list[Program]:
    pick = lambda options: draw(st.sampled_from(options))
    number = lambda low, high: draw(st.integers(low, high))
    return [make_program(pick, number) for _ in range(TOGETHER)]


def graphs(count: int) -> settings:
    """So many graphs, the same ones at every run."""
    return settings(
        max_examples=count * MORE // TOGETHER,
        derandomize=MORE == 1,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


def examine(count: int, record_property: Any, **options: Any) -> None:
    """Compare that many graphs."""
    seen = 0

    @graphs(count)
    @given(programs())
    def run(found: list[Program]) -> None:
        nonlocal seen
        seen += len(found)
        check(found, **options)

    run()
    assert seen >= count
    record_property("cases", seen)


@pytest.mark.parametrize("part", range(4))
def test_graphs(part: int, record_property: Any, monkeypatch: Any) -> None:
    """2,000 graphs; in half of them small arrays are treated like large ones: shared by threads, sweeps joined."""
    if part % 2:
        for module, name, value in ((sweep, "SMALL", 0), (fuse, "WORTH_SHARING", 2), (refine, "WORTH_SHARING", 2)):
            monkeypatch.setattr(module, name, value)
    weft.manual_seed(part)
    examine(500, record_property)


@pytest.mark.parametrize("name", [*sorted(OPTIONAL), "all"])
def test_without_a_pass(name: str, record_property: Any) -> None:
    examine(40, record_property, without=OPTIONAL if name == "all" else (name,))


@pytest.mark.parametrize("threads", [1, 2])
def test_on_threads(threads: int, record_property: Any) -> None:
    examine(100, record_property, threads=threads)
