"""Results of compiled functions lie in memory as those of eager code do, so that `.view` works after both alike.

Where eager code returns a window of something larger, a compiled function returns memory of its own, with the dimensions
in the same order: whatever can be viewed there can be viewed here.
"""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.ops.harness import ROWS, draw, flat, outcome, to_weft
from tests.ops.test_strides import FUNCTIONS, SPATIAL, functions, laid_out, strides

LAYOUTS = ("contiguous", "transposed", "permuted", "sliced", "expanded")
NAMES = sorted(name for name in {*ROWS, *FUNCTIONS, *SPATIAL})
PARTS = 24


def packed(x):
    """The strides that matter of memory of its own in which the dimensions follow each other as in x."""
    found, step = [0] * x.ndim, 1
    steps = [s if s and n > 1 else 0 for s, n in zip(x.stride(), x.shape, strict=True)]
    steps = [next((s for s in steps[d:] if s), 0) for d in range(x.ndim)]
    for d in sorted(range(x.ndim), key=lambda d: (steps[d], -d)):
        found[d] = step
        step *= x.shape[d]
    return tuple(s for s, n in zip(found, x.shape, strict=True) if n > 1)


def check(eager, compiled, what):
    assert eager.shape == compiled.shape, what
    if eager.numel() > 1:
        assert strides(compiled) in (strides(eager), packed(eager)), (
            f"{what}: {compiled.stride()}, want {eager.stride()}"
        )


@pytest.mark.parametrize("part", range(PARTS))
def test_operations(part):
    """Every operation and function × layouts of its arguments."""
    for name in NAMES[part::PARTS]:
        (_, ours), calls = functions(name)
        for call in calls[:1]:
            for layout in LAYOUTS:
                args, options = draw(call, "float32", "contiguous")
                args, options = laid_out(args, layout), {k: laid_out(v, layout) for k, v in options.items()}
                given, named = to_weft(args), {k: to_weft(v) for k, v in options.items()}
                expected, refused = outcome(ours, given, named)
                if refused is not None:
                    continue
                run = weft.compile(lambda *args, ours=ours, **options: ours(*args, **options), backend="host")
                found, error = outcome(run, given, named)
                if error is not None:  # tests/compiler/test_equality.py tells of these
                    continue
                for e, f in zip(flat(expected), flat(found), strict=True):
                    if isinstance(e, weft.Tensor):
                        check(e, f, f"{name} {call} {layout}")


MOVES = [
    lambda x, r: x.transpose(*r.integers(0, x.ndim, 2)),
    lambda x, r: x.permute(*map(int, r.permutation(x.ndim))),
    lambda x, r: x * 2 + 1,
    lambda x, r: x + weft.ones(x.shape).transpose(0, -1).clone().transpose(0, -1),
    lambda x, r: x.softmax(-1),
    lambda x, r: x.sum(0, keepdim=True) - x,
    lambda x, r: x.clone(),
    lambda x, r: x.contiguous(),
    lambda x, r: x.reshape(x.shape[0], -1),
    lambda x, r: x @ x.mT,
    lambda x, r: weft.cat([x, x], 1),
    lambda x, r: x.flip(0),
    lambda x, r: x.unsqueeze(1),
    lambda x, r: x.double().float(),
    lambda x, r: weft.where(x > 0, x, 0.0),
    lambda x, r: written_through(x),
    lambda x, r: x.clone().transpose(0, -1).mul_(2.0),
    lambda x, r: weft.zeros_like(x).copy_(x),
    lambda x, r: x.narrow(0, 0, max(x.shape[0] - 1, 1)),
    lambda x, r: x.relu().view(x.shape),
]


def written_through(x):
    """A transposed view written to; the whole is returned."""
    y = x.clone()
    y.transpose(0, -1)[0] = 3.0
    y.mT.add_(1.0)
    return y


def program(seed):
    """A few moves in a row; every third value is returned as well."""
    rng = np.random.default_rng(seed)
    moves = [(MOVES[k], int(rng.integers(1 << 30))) for k in rng.integers(0, len(MOVES), 6)]

    def run(x):
        kept = []
        for move, one in moves:
            x = move(x, np.random.default_rng(one))
            kept.append(x)
        return kept[::3], x

    return run, (2, 3, 4)[: int(rng.integers(2, 4))]


def compared(seed, backend):
    run, shape = program(seed)
    x = weft.arange(float(np.prod(shape))).reshape(shape).sin()
    if seed % 2:
        x = x.transpose(0, -1)
    expected, found = run(x), weft.compile(run, backend=backend)(x)
    for e, f in zip(flat(expected), flat(found), strict=True):
        check(e, f, seed)
        assert weft.allclose(e, f, rtol=1e-5, atol=1e-5), seed
    return len(flat(expected))


@pytest.mark.parametrize("part", range(8))
def test_random_programs(part):
    assert sum(compared(seed, "host") for seed in range(part, 240, 8)) >= 60


@pytest.mark.parametrize("part", range(4))
def test_random_programs_native(part):
    assert sum(compared(seed, "native") for seed in range(1000 + part, 1060, 4)) >= 30


@pytest.mark.slow
def test_many_random_programs():
    for seed in range(2000, 4000):
        compared(seed, "host" if seed % 8 else "native")


def step(w, x):
    """Gradients that lie transposed, and an update of what they belong to."""
    loss = (x @ w).pow(2).sum()
    (grad,) = weft.autograd.grad(loss, w)
    return grad, grad.t() * 2, loss


def test_gradients():
    w, x = weft.randn(4, 5).t().requires_grad_(), weft.randn(3, 5)
    for e, f in zip(step(w, x), weft.compile(step)(w, x), strict=True):
        check(e, f, "grad")
        assert weft.allclose(e, f, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("outside", [False, True])
def test_stored_gradients(outside):
    """`.grad` of a captured parameter, written by a backward pass inside of the function and outside of it."""
    w, x = weft.randn(6, 4).requires_grad_(), weft.randn(6, 4)

    def loss():
        return (w.t() * x.t()).pow(2).sum()

    def both():
        loss().backward()

    run = weft.compile(loss if outside else both)
    found = []
    for function in (loss if outside else both, run, run, run):
        w.grad = None if len(found) < 2 else w.grad
        one = function()
        if outside:
            one.backward()
        found.append(w.grad.stride())
    assert set(found) == {found[0]}


def test_states_keep_their_memory():
    """What was there before lies as before; what the function makes and keeps lies as eager code would have it."""
    state = weft.randn(4, 3).t()
    address, lying = state.data_ptr(), state.stride()

    @weft.compile
    def advance(x):
        state.mul_(0.5).add_(x)
        state.t()[0] = 1.0
        return state * 1, state.t() + 1

    for _ in range(3):
        before, x = state.clone(), weft.randn(3, 4)
        first, second = advance(x)
        wanted = before * 0.5 + x
        wanted.t()[0] = 1.0
        assert (state.data_ptr(), state.stride()) == (address, lying)
        assert weft.allclose(state, wanted) and weft.allclose(first, wanted) and weft.allclose(second, wanted.t() + 1)
        assert first.stride() == (1, 3) and second.stride() == (3, 1)


def test_one_value_in_two_orders():
    """The same numbers returned twice, once transposed; and a copy of each."""

    def run(x):
        y = x.exp()
        return y, y.t(), y.t(), y

    x = weft.randn(3, 4)
    for e, f in zip(run(x), weft.compile(run)(x), strict=True):
        check(e, f, "twice")
        assert weft.allclose(e, f)


def test_view_after_a_compiled_function():
    run = weft.compile(lambda x: (x.t() * 2, x.permute(1, 0).exp().t()))
    for e, f in zip(run.function(weft.ones(3, 4)), run(weft.ones(3, 4)), strict=True):
        assert weft.allclose(e, f)
    doubled, exponential = run(weft.ones(3, 4))
    doubled.t().view(-1)
    exponential.view(-1)
    with pytest.raises(weft.errors.ShapeError):
        doubled.view(-1)
