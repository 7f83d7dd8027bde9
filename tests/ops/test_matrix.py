"""Every registered operation × element types × memory layouts, against PyTorch; then its derivatives.

The parameters come from the register and the sample tables; a public operation without samples fails
`test_every_operation_is_sampled`. The run prints how many operations and cases it covered.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

import weft
from weft.ops.core.primitive import OPERATIONS

from .harness import (
    DTYPES,
    LAYOUTS,
    ROWS,
    WITHOUT,
    calls_of,
    described,
    difference,
    draw,
    flat,
    is_a_gap,
    outcome,
    resolve,
    to_torch,
    to_weft,
    weft_array,
)
from .known import DEPARTURES, LOOSE, NO_FORWARD_CHECK, NO_SECOND, NO_VMAP, STRIDES_NOT_PROMISED

torch.set_num_threads(1)
NAMES = sorted(ROWS)


def test_every_operation_is_sampled():
    missing = sorted(name for name in OPERATIONS if name not in ROWS and name not in WITHOUT)
    assert not missing, f"no sample calls for {missing}"


@pytest.mark.parametrize("name", NAMES)
def test_values(name, record_property):
    """Value, type, shape and strides equal PyTorch's; what PyTorch refuses is refused."""
    row = ROWS[name]
    ours, theirs = resolve(weft, name), resolve(torch, name)
    promised = row.kind in ("Elementwise", "View") and name not in STRIDES_NOT_PROMISED
    failures, cases = [], 0
    for call in calls_of(row):
        for dtype in DTYPES:
            for layout in LAYOUTS:
                if (name, layout) in DEPARTURES or (name, dtype) in DEPARTURES or (name, dtype, layout) in DEPARTURES:
                    continue
                args, kwargs = draw(call, dtype, layout)
                expected, refused = outcome(theirs, to_torch(args), {k: to_torch(v) for k, v in kwargs.items()})
                found, error = outcome(ours, to_weft(args), {k: to_weft(v) for k, v in kwargs.items()})
                cases += 1
                if refused is not None:
                    fine = error is not None or is_a_gap(refused)
                    reason = None if fine else f"accepted; PyTorch: {str(refused)[:90]}"
                elif error is not None:
                    reason = f"{type(error).__name__}: {str(error)[:140]}"
                else:
                    plain = layout in ("contiguous", "transposed", "0-d")
                    reason = difference(expected, found, promised and plain, LOOSE.get(name, 1.0))
                if reason:
                    failures.append(f"{call} {dtype} {layout}: {reason}")
    record_property("cases", cases)
    assert not failures, f"{len(failures)} of {cases} cases differ:\n" + "\n".join(failures[:12])


DIFFERENTIABLE = [n for n in NAMES if ROWS[n].differentiable and n not in NO_FORWARD_CHECK]


def _float_call(name, call, layout="contiguous", seed=0):
    """Weft arguments in float64, and the tensors among them that want gradients."""
    args, kwargs = draw(call, "float64", layout, seed)
    wanted = [
        t.kind in ("float", "spd", "complex") for a in (call.args, tuple(call.kwargs.values())) for t in described(a)
    ]
    w_args, w_kwargs = to_weft(args), {k: to_weft(v) for k, v in kwargs.items()}
    tensors = [t for a in (w_args, tuple(w_kwargs.values())) for t in flat(a) if isinstance(t, weft.Tensor)]
    leaves = [t for t, want in zip(tensors, wanted, strict=True) if want and t.dtype.category >= 2]
    return w_args, w_kwargs, leaves


def _as_function(name, args, kwargs, leaves):
    """The call as a function of its differentiable tensors, returning its differentiable results."""
    function = resolve(weft, name)

    def replaced(value, table):
        if isinstance(value, (list, tuple)):
            return type(value)(replaced(v, table) for v in value)
        return table.get(id(value), value) if isinstance(value, weft.Tensor) else value

    def call(*tensors):
        table = {id(leaf): t for leaf, t in zip(leaves, tensors, strict=True)}
        result = function(*replaced(args, table), **{k: replaced(v, table) for k, v in kwargs.items()})
        return tuple(r for r in flat(result) if isinstance(r, weft.Tensor) and r.dtype.category >= 2)

    return call


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives(name, record_property):
    """gradcheck, gradgradcheck, ⟨u, Jv⟩ = ⟨Jᵀu, v⟩."""
    cases = 0
    for call in calls_of(ROWS[name]):
        args, kwargs, leaves = _float_call(name, call)
        if not leaves:
            continue
        for leaf in leaves:
            leaf.requires_grad_()
        function = _as_function(name, args, kwargs, leaves)
        outputs = function(*leaves)
        if not outputs or not any(o.requires_grad for o in outputs):
            continue
        cases += 1
        assert weft.autograd.gradcheck(function, leaves), f"{call}"
        if name not in NO_SECOND:
            assert weft.autograd.gradgradcheck(function, leaves), f"{call}"
        _check_jvp(function, leaves)
    record_property("cases", cases)


def _random_like(t, rng):
    values = rng.standard_normal(tuple(t.shape))
    if t.is_complex():
        values = values + 1j * rng.standard_normal(tuple(t.shape))
    return weft.tensor(values).to(t.dtype)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_forward_mode(name):
    """Jv and the second derivative along v by forward rules, against the same by reverse mode twice."""
    call = calls_of(ROWS[name])[0]
    args, kwargs, leaves = _float_call(name, call)
    if not leaves:
        return
    function, primals = _as_function(name, args, kwargs, leaves), tuple(leaf.detach() for leaf in leaves)
    tangents = tuple(_random_like(p, np.random.default_rng(1)) for p in primals)
    push = lambda *at: weft.func.jvp(function, at, tangents)[1]
    linear = lambda *at: weft.func.linearize(function, *at)[1](*tangents)
    if not function(*primals):
        return
    second = weft.func.linearize(linear, *primals)[1](*tangents)
    for ours, expected in ((push(*primals), linear(*primals)), (weft.func.jvp(push, primals, tangents)[1], second)):
        for a, b in zip(ours, expected, strict=True):
            np.testing.assert_allclose(weft_array(a), weft_array(b), rtol=1e-8, atol=1e-10, err_msg=f"{call}")


def _check_jvp(function, leaves):
    primals = tuple(leaf.detach() for leaf in leaves)
    rng = np.random.default_rng(1)
    random_like = lambda t: _random_like(t, rng)
    tangents = tuple(random_like(p) for p in primals)
    outputs, pull = weft.func.vjp(function, *primals)
    _, pushed = weft.func.jvp(function, primals, tangents)
    cotangents = tuple(random_like(o) for o in outputs)
    pulled = pull(cotangents)
    inner = lambda a, b: sum(float((x.conj() * y).sum().real) for x, y in zip(a, b, strict=True))
    left, right = inner(cotangents, pushed), inner(pulled, tangents)
    assert abs(left - right) <= 1e-8 * max(1.0, abs(left)), (left, right)


@pytest.mark.parametrize("name", [n for n in NAMES if n not in NO_VMAP])
def test_vmap(name, record_property):
    """vmap over three stacked inputs equals the three calls."""
    cases = 0
    for call in calls_of(ROWS[name]):
        drawn = [_float_call(name, call, seed=s) for s in range(3)]
        leaves = [d[2] for d in drawn]
        if not leaves[0]:
            continue
        function = _as_function(name, drawn[0][0], drawn[0][1], leaves[0])
        rows, error = [], None
        for tensors in leaves:
            row, error = outcome(function, tensors, {})
            rows.append(row)
        if error is not None or not rows[0]:
            continue
        if len({tuple(tuple(r.shape) for r in row) for row in rows}) > 1:
            continue
        stacked = [weft.stack(column) for column in zip(*leaves, strict=True)]
        found = weft.vmap(function)(*stacked)
        cases += 1
        for column, result in zip(zip(*rows, strict=True), found, strict=True):
            expected = np.stack([weft_array(r) for r in column])
            np.testing.assert_allclose(weft_array(result), expected, rtol=1e-10, atol=1e-12, err_msg=f"{name} {call}")
    record_property("cases", cases)
