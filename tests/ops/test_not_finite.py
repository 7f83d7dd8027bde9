"""Matrices with inf or NaN are refused by what iterates over them (LAPACK may never return from some), at once.

PyTorch refuses NaN the same way; with inf it gives meaningless numbers or fails, here both are refused.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

import weft
from weft.errors import LinAlgError

INF, NAN = float("inf"), float("nan")
MATRICES = {
    "nan": [[NAN, 1.0], [1.0, 2.0]],
    "inf": [[INF, 1.0], [1.0, 2.0]],
    "inf beside huge": [[INF, 1e38], [1e38, 2.0]],
    "wide": [[1.0, INF, 3e38], [2e38, 1.0, 1.0]],
    "tall": [[1.0, INF], [3e38, 2e38], [1.0, 1.0]],
    "one": [[-INF]],
}
RECTANGULAR = {
    "linalg.svd": lambda m, a: m.linalg.svd(a),
    "reduced": lambda m, a: m.linalg.svd(a, full_matrices=False),
    "svd": lambda m, a: m.svd(a),
    "svdvals": lambda m, a: m.linalg.svdvals(a),
    "pinv": lambda m, a: m.linalg.pinv(a),
    "pinverse": lambda m, a: m.pinverse(a),
    "lstsq": lambda m, a: m.linalg.lstsq(a, m.ones(a.shape[-2], 1, dtype=a.dtype)),
    "gelsd": lambda m, a: m.linalg.lstsq(a, m.ones(a.shape[-2], 1, dtype=a.dtype), driver="gelsd"),
    "rank": lambda m, a: m.linalg.matrix_rank(a),
    "norm 2": lambda m, a: m.linalg.matrix_norm(a, 2),
    "nuclear": lambda m, a: m.linalg.matrix_norm(a, "nuc"),
    "cond": lambda m, a: m.linalg.cond(a),
    "batch": lambda m, a: m.linalg.svd(m.stack([m.ones(a.shape), a])),
}
SQUARE = {
    "eig": lambda m, a: m.linalg.eig(a),
    "eigvals": lambda m, a: m.linalg.eigvals(a),
    "eigh": lambda m, a: m.linalg.eigh(a),
    "eigvalsh": lambda m, a: m.linalg.eigvalsh(a),
    "pinv hermitian": lambda m, a: m.linalg.pinv(a, hermitian=True),
    "rank hermitian": lambda m, a: m.linalg.matrix_rank(a, hermitian=True),
}


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("function", [*RECTANGULAR, *SQUARE])
@pytest.mark.parametrize("kind", ["float32", "float64", "complex64"])
def test_infinite_matrices_are_refused(function, name, kind):
    a = weft.tensor(MATRICES[name]).to(getattr(weft, kind))
    if function in SQUARE and a.shape[0] != a.shape[1]:
        pytest.skip("square matrices only")
    with pytest.raises(LinAlgError, match="not contain infs or NaNs"):
        (RECTANGULAR | SQUARE)[function](weft, a)


@pytest.mark.parametrize("function", ["linalg.svd", "svdvals", "pinv", "eig", "lstsq", "batch"])
def test_pytorch_refuses_nan_as_well(function):
    with pytest.raises(RuntimeError):
        (RECTANGULAR | SQUARE)[function](torch, torch.tensor(MATRICES["nan"]))


@pytest.mark.parametrize("uplo", ["L", "U"])
def test_the_triangle_that_is_not_read_may_hold_anything(uplo):
    a = np.array([[1.0, NAN], [2.0, 3.0]]) if uplo == "L" else np.array([[1.0, 2.0], [NAN, 3.0]])
    expected = torch.linalg.eigvalsh(torch.tensor(a), UPLO=uplo)
    np.testing.assert_allclose(weft.linalg.eigvalsh(weft.tensor(a), UPLO=uplo).numpy(), expected.numpy(), rtol=1e-12)


def test_the_matrix_at_fault_is_named():
    with pytest.raises(LinAlgError, match="Batch element 2"):
        weft.linalg.svd(weft.tensor([[[1.0]], [[2.0]], [[NAN]]]))


HANGS = """
import numpy as np, weft
from weft.errors import LinAlgError
draw = np.random.default_rng(0)
for _ in range(40):
    a = draw.choice([np.inf, -np.inf, 3e38, -3e38, 1e-38, 1.0, 0.0], (6, 5)).astype(np.float32)
    for f in (weft.linalg.svd, weft.linalg.pinv, lambda x: weft.linalg.lstsq(x, weft.ones(6, 1))):
        try:
            f(weft.tensor(a))
        except LinAlgError:
            pass
"""


def test_nothing_hangs():
    """In a process of its own: a hang inside LAPACK cannot be interrupted."""
    subprocess.run([sys.executable, "-c", HANGS], check=True, timeout=60)
