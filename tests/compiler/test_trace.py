"""Traced functions run by the reference executor: equal to eager code in results, state, gradients and streams."""

import numpy as np
import pytest

import weft
from weft.compiler.compiled import compile
from weft.utils.pytree import tree_flatten

from .cases import CASES


def _run(build, wrap):
    """Results and final state of a case, run through `wrap`."""
    weft.manual_seed(1)
    function, calls, look = build()
    after = getattr(function, "after", None)
    run = wrap(function)
    weft.manual_seed(2)
    found = []
    for args in calls:
        found.append(run(*args))
        if after is not None:
            after()
    return found, look(), [list(args) for args in calls], weft.get_rng_state()


def _same(a, b):
    a, spec = tree_flatten(a)
    b, other = tree_flatten(b)
    assert spec == other
    for x, y in zip(a, b, strict=True):
        if isinstance(x, weft.Tensor):
            assert x.dtype is y.dtype
            assert x.shape == y.shape
            x, y = (v.detach().to(weft.float64 if not v.is_complex() else v.dtype).numpy() for v in (x, y))
            np.testing.assert_allclose(y, x, rtol=2e-5, atol=2e-6)
        elif isinstance(x, np.ndarray):
            np.testing.assert_array_equal(x, y)
        else:
            assert x == y


@pytest.mark.parametrize("name", CASES)
def test_compiled_is_eager(name):
    expected = _run(CASES[name], lambda function: function)
    found = _run(CASES[name], lambda function: compile(function, backend="host"))
    _same(expected, found)
