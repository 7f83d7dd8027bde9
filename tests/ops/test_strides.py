"""Results lie in memory as PyTorch's do: every operation × memory layouts, eagerly; then compiled as eagerly.

What is contiguous in PyTorch is contiguous here, without exception, so that `.view` works wherever it works there.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

import weft
from tests.nn import functional_samples
from tests.nn.test_functional_spatial import CALLS
from weft.ops.core.primitive import OPERATIONS

from .harness import ROWS, calls_of, draw, flat, outcome, resolve, to_torch, to_weft
from .samples.base import S, T

# Why ours lies in order where PyTorch's does not; never the other way round.
REASONS = {
    "PyTorch's is column-major, as LAPACK left it": """
        geqrf inverse lu lu_solve orgqr ormqr qr triangular_solve linalg.householder_product linalg.inv linalg.inv_ex
        linalg.ldl_factor linalg.ldl_factor_ex linalg.lstsq linalg.lu_factor linalg.lu_factor_ex linalg.lu_solve
        linalg.qr linalg.solve linalg.solve_ex linalg.solve_triangular linalg.tensorinv linalg.matrix_power""",
    "PyTorch keeps the layout of the input": """
        addcdiv addcmul addr argsort complex diagonal_scatter frexp index_fill index_put kron msort polar put
        select_scatter slice_scatter sort F.group_norm""",
    "PyTorch returns the transpose of what it computed": "argwhere nonzero unique unravel_index",
    "PyTorch returns a view that is conjugated later, or the input itself": "conj conj_physical",
    "PyTorch's depends on the order in which its library transforms the dimensions": " ".join(
        name for name in OPERATIONS if name.startswith("fft.") or name == "stft"
    ),
    "of channels-last images PyTorch makes channels-last results": " ".join(f"F.{name}" for name, _ in CALLS),
}
DIFFERENT = {name: reason for reason, names in REASONS.items() for name in names.split()}


def _moved(array: np.ndarray, source: int, target: int) -> np.ndarray:
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, source, target)), target, source)


def _inside(array: np.ndarray) -> np.ndarray:
    wide = np.zeros((array.shape[0], array.shape[1] + 2, *array.shape[2:]), array.dtype)
    wide[:, 1:-1] = array
    return wide[:, 1:-1]


def _stepped(array: np.ndarray) -> np.ndarray:
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    wide[..., ::2] = array
    return wide[..., ::2]


LAYOUTS = {
    "contiguous": lambda a: a,
    "transposed": lambda a: np.ascontiguousarray(a.T).T,
    "permuted": lambda a: _moved(a, -1, 0),
    "channels last": lambda a: _moved(a, 1, -1),
    "sliced": _inside,
    "stepped": _stepped,
    "expanded": lambda a: np.broadcast_to(a[:1], a.shape),
    "expanded last": lambda a: np.broadcast_to(a[..., :1], a.shape),
}


def laid_out(value, layout):
    """The arrays among the arguments of a call with other strides."""
    if isinstance(value, np.ndarray):
        return LAYOUTS[layout](value) if value.ndim > 1 and value.size else value
    if isinstance(value, (list, tuple)):
        return type(value)(laid_out(v, layout) for v in value)
    return value


def strides(x):
    """Those that matter: of dimensions with more than one element."""
    return tuple(s for s, n in zip(x.stride(), x.shape, strict=True) if n > 1)


def is_in_order(x):
    return x.is_contiguous()


FUNCTIONS = {f"F.{name}": calls for name, calls in functional_samples.SAMPLES.items()}
SPATIAL = {f"F.{name}": [c for n, c in CALLS if n == name] for name in dict(CALLS)}
BLOCK = T((2, 3, 4, 5), -3.0, 3.0, distinct=True)
ALONG = "sum mean prod amax amin max min argmax argmin var std all any logsumexp norm median nansum nanmean mode cumsum"
MORE = {name: [S(BLOCK, dim=1), S(BLOCK, dim=3)] for name in f"{ALONG} softmax log_softmax sort count_nonzero".split()}


def functions(name):
    if name in FUNCTIONS or name in SPATIAL:
        calls = FUNCTIONS.get(name, [])[:2] + SPATIAL.get(name, [])
        return [getattr(m.nn.functional, name[2:]) for m in (torch, weft)], calls
    return [resolve(m, name) for m in (torch, weft)], calls_of(ROWS[name])[:3] + MORE.get(name, [])


@pytest.mark.parametrize("name", [*sorted(ROWS), *sorted(FUNCTIONS | SPATIAL)])
def test_strides(name):
    (theirs, ours), calls = functions(name)
    failures = []
    for call in calls:
        for layout in LAYOUTS:
            args, options = draw(call, "float32", "contiguous")
            args, options = laid_out(args, layout), {k: laid_out(v, layout) for k, v in options.items()}
            expected, refused = outcome(theirs, to_torch(args), {k: to_torch(v) for k, v in options.items()})
            found, error = outcome(ours, to_weft(args), {k: to_weft(v) for k, v in options.items()})
            if refused is not None or error is not None:  # tests/ops/test_matrix.py compares these
                continue
            for e, f in zip(flat(expected), flat(found), strict=True):
                if not isinstance(e, torch.Tensor) or e.numel() < 2:
                    continue
                wrong = is_in_order(e) and not is_in_order(f)
                if wrong or (name not in DIFFERENT and strides(e) != strides(f)):
                    failures.append(f"{call} {layout}: {f.stride()}, want {e.stride()} of {tuple(e.shape)}")
    assert not failures, f"{len(failures)} results lie otherwise:\n" + "\n".join(failures[:8])


def test_view_after_operations_that_copy():
    """The calls of the report: `.view` works after them on a transposed tensor."""
    x, mask = weft.arange(12.0).reshape(3, 4).T, weft.zeros(4, 3).bool()
    for y in (
        weft.cat([x, x]),
        weft.stack([x, x]),
        x.softmax(1),
        x.log_softmax(0),
        x.masked_fill(mask, 1.0),
        x.roll(1, 0),
        x.cumsum(1),
        x.unsqueeze(0).expand(2, 4, 3).mean(0),
        x.repeat(2, 1),
        x.gather(1, weft.zeros(4, 2).long()),
        x[[0, 2]],
    ):
        y.view(-1)
