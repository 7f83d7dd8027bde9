"""What a profiler hears of: NumPy's work, kernels of plans, of large eager operations and of optimisers, and named ranges."""

from __future__ import annotations

import weft
from weft.profiler import profile, record_function


def heard(function) -> dict[str, str]:
    with profile() as prof:
        function()
    return {event.name: event.kind for event in prof.events()}


def test_eager_operations_large_and_small() -> None:
    x, small = weft.rand(600, 600), weft.rand(5, 5)
    x @ x  # the plan is built
    assert heard(lambda: (x @ x, small.exp())).items() >= {("matmul", "kernel"), ("exp", "numpy")}


def test_steps_of_optimisers_over_large_parameters() -> None:
    layer = weft.nn.Linear(700, 700)
    optimizer = weft.optim.SGD(layer.parameters(), lr=0.1)

    def step() -> None:
        optimizer.zero_grad()
        layer(weft.ones(4, 700)).sum().backward()
        optimizer.step()

    for _ in range(3):
        step()
    assert heard(step)["SGD.step"] == "kernel"


def test_kernels_of_compiled_functions_and_ranges() -> None:
    function = weft.compile(lambda x: x.exp().sum())
    function(weft.ones(3000))

    def named() -> None:
        with record_function("mine"):
            function(weft.ones(3000))

    found = heard(named)
    assert found["mine"] == "range" and any(kind == "kernel" and "exp" in name for name, kind in found.items())
