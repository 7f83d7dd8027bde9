"""Random programs compiled: views, broadcasts, reductions, products, writes in place, random numbers, several results.

Several programs run in one compiled function. What differs from eager code is shown alone and made small. The programs
are the same at every run; WEFT_GRAPHS=20 takes twenty times as many, and always new ones.
"""

from __future__ import annotations

import os
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from weft.compiler import OPTIONAL
from weft.compiler.fuse import groups as fuse
from weft.compiler.fuse import refine
from weft.kernels.sweep import sweep

from .graph_moves import make_program
from .graphs import Program, check

TOGETHER = 10
MORE = int(os.environ.get("WEFT_GRAPHS", "1"))


def drawn(random: Random) -> list[Program]:
    return [make_program(random.choice, random.randint) for _ in range(TOGETHER)]


PROGRAMS = st.randoms(use_true_random=True).map(drawn)


def examine(count: int, number: int, record_property: Any, **options: Any) -> None:
    """Compare `count` graphs, of the row that begins with `number`."""
    seen: set[str] = set()

    @settings(
        max_examples=count * MORE // TOGETHER,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(PROGRAMS)
    def run(programs: list[Program]) -> None:
        seen.update(map(repr, programs))
        check(programs, **options)

    run = seed(number)(run) if MORE == 1 else run
    run()
    assert len(seen) >= count
    record_property("cases", len(seen))


@pytest.mark.parametrize("part", range(5))
def test_graphs(part: int, record_property: Any, monkeypatch: Any) -> None:
    """In every second part small arrays are treated like large ones: shared by threads, sweeps joined."""
    if part % 2:
        for module, name, value in ((sweep, "SMALL", 0), (fuse, "WORTH_SHARING", 2), (refine, "WORTH_SHARING", 2)):
            monkeypatch.setattr(module, name, value)
    examine(400, part, record_property)


@pytest.mark.parametrize("name", [*sorted(OPTIONAL), "all"])
def test_without_a_pass(name: str, record_property: Any) -> None:
    examine(40, 10, record_property, without=OPTIONAL if name == "all" else (name,))


@pytest.mark.parametrize("threads", [1, 2])
def test_on_threads(threads: int, record_property: Any) -> None:
    examine(100, 11, record_property, threads=threads)
