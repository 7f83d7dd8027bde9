"""Triangular systems in plans: by SciPy's answers, with gradients and broadcast batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg

import weft


def system(batch: tuple[int, ...], n: int, kind: type) -> np.ndarray:
    rng = np.random.default_rng(n)
    return (rng.normal(size=(*batch, n, n)) / n**0.5 + 3 * np.eye(n)).astype(kind)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 1), (7, 5), (16, 40), (33, 17)])
def test_solutions_are_scipys(n: int, m: int, kind: type) -> None:
    a, b = system((), n, kind), np.random.default_rng(m).normal(size=(n, m)).astype(kind)
    options = [dict(upper=upper, unitriangular=unit) for upper in (False, True) for unit in (False, True)]

    def every(a: Any, b: Any) -> list[Any]:
        found = [weft.linalg.solve_triangular(a, b, **one) for one in options]
        return [*found, *(weft.linalg.solve_triangular(a.mT, b.flip(1), **one) for one in options)]

    compiled = weft.compile(every)
    found = compiled(weft.tensor(a), weft.tensor(b))
    assert compiled.host_work() == {}
    for number, x in enumerate(found):
        one, turned = options[number % 4], number >= 4
        matrix, right = (a.T, b[:, ::-1]) if turned else (a, b)
        truth = scipy.linalg.solve_triangular(
            matrix.astype(float), right.astype(float), lower=not one["upper"], unit_diagonal=one["unitriangular"]
        )
        error = np.abs(x.numpy() - truth).max() / np.abs(truth).max()
        assert error < 20 * np.finfo(kind).eps


@pytest.mark.parametrize("threads", [1, 3])
def test_batches_and_gradients_are_eager(threads: int) -> None:
    a = weft.tensor(system((4, 1), 6, np.float64), requires_grad=True)
    b = weft.randn(1, 3, 6, 5, dtype=weft.float64, requires_grad=True)

    def step(a: Any, b: Any) -> Any:
        x = weft.linalg.solve_triangular(a, b, upper=False)
        return x, *weft.autograd.grad((x**2).sum(), (a, b))

    compiled = weft.compile(step, threads=threads)
    for found, truth in zip(compiled(a, b), step(a, b), strict=True):
        weft.testing.assert_close(found, truth, rtol=1e-12, atol=1e-12)
    assert compiled.host_work() == {}
