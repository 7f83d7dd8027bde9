"""What the tests of loops and branches share: the ways to run a function, comparisons, and a loop."""

from __future__ import annotations

import numpy as np

import weft
from weft.compiler.compiled import compile
from weft.utils.pytree import tree_leaves

WAYS = {
    "eager": lambda f: f,
    "host": lambda f: compile(f, backend="host"),
    "one thread": lambda f: compile(f, threads=1),
    "two threads": lambda f: compile(f, threads=2),
}
COMPILED = {name: way for name, way in WAYS.items() if name != "eager"}
FLOATS = (weft.float32, weft.float64)


def plan_of(function):
    return next(iter(function.plans.values()))[0].plan


def steps_of(function):
    return [type(slot.step) for slot in plan_of(function).slots]


def close(found, expected, rtol=None):
    found, expected = tree_leaves(found), tree_leaves(expected)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        if a is None:
            assert b is None
            continue
        b = b.detach().numpy() if isinstance(b, weft.Tensor) else np.asarray(b)
        a = a.detach().numpy()
        assert a.shape == b.shape
        tolerance = rtol or (1e-12 if a.dtype in (np.float64, np.complex128) else 2e-5)
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def looped(x, w, reverse=False):
    def step(carry, x):
        a, b = carry
        a = weft.tanh(a @ w + x)
        return (a, b + (a * x).sum(0)), a * b

    return weft.scan(step, (weft.ones(2, 3, dtype=x.dtype), x[0, 0]), x, reverse=reverse)


def total(tree):
    return sum((k + 1.5) * (v**2).sum() for k, v in enumerate(tree_leaves(tree)))
