"""Operators by the onnx package's own node cases: every case but those that a table excuses, each by its reason."""

from __future__ import annotations

from collections import Counter

import pytest

pytest.importorskip("onnx")

from .node_cases import EXCEPTIONS, cases, check, reason

PIECES = 24


def _piece(number: int) -> list[str]:
    return sorted(cases())[number::PIECES]


@pytest.mark.parametrize("number", range(PIECES))
def test_operators_compute_what_the_onnx_package_says(number: int) -> None:
    failed = {}
    for name in _piece(number):
        if reason(cases()[name]) is None:
            try:
                check(cases()[name])
            except Exception as error:
                failed[name] = f"{type(error).__name__}: {error}"[:300]
    assert not failed, failed


def test_excuses_are_few_and_needed() -> None:
    everything = list(cases().values())
    plain = [c for c in everything if c.plain and 0 < c.opset <= 23]
    held = [c for c in everything if reason(c) is None]
    held_plain = [c for c in plain if reason(c) is None]
    assert len(held) >= 0.98 * len(everything)  # 85 % were asked for
    assert len(held_plain) >= 0.98 * len(plain)  # 95 % were asked for
    assert set(EXCEPTIONS) <= set(cases())
    assert Counter(reason(c) for c in everything).total() == len(everything)


@pytest.mark.parametrize("name", [name for name in sorted(EXCEPTIONS) if "bernoulli" in name or "dropout" in name])
def test_random_operators_give_the_right_shapes_and_types(name: str) -> None:
    import weft.onnx

    case = cases()[name]
    given, wanted = case.data[0]
    found = weft.onnx.load(case.model)(*given)
    for one, other in zip([found] if len(wanted) == 1 else found, wanted, strict=True):
        assert tuple(one.shape) == other.shape and one.dtype.np == other.dtype
