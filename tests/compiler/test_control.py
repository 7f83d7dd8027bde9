"""Loops and branches: against closed forms and NumPy, compiled against eager, streams, states, errors."""

import time
from typing import NamedTuple

import numpy as np
import pytest

import weft
from weft import nn
from weft.compiler.compiled import compile
from weft.compiler.graph.bodies import BodyCall, Repeat
from weft.errors import DtypeError, ShapeError, TraceError, TransformError
from weft.utils.pytree import tree_leaves

from .looping import COMPILED, FLOATS, WAYS, close, looped, plan_of, steps_of, total


@pytest.fixture(params=WAYS)
def way(request):
    return WAYS[request.param]


@pytest.fixture(params=COMPILED)
def compiled(request):
    return COMPILED[request.param]


# ------------------------------------------------------------------------------------------- closed forms


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("length", [0, 1, 2, 3, 50])
@pytest.mark.parametrize("reverse", [False, True])
def test_cumulative_sums(way, dtype, length, reverse):
    x = weft.arange(3.0 * length, dtype=dtype).reshape(length, 3)

    def run(x):
        return weft.scan(lambda total, x: (total + x, total + x), weft.zeros(3, dtype=dtype), x, reverse=reverse)

    total, sums = way(run)(x)
    whole = x.numpy()
    expected = np.cumsum(whole[::-1], 0)[::-1] if reverse else np.cumsum(whole, 0)
    close((total, sums), (whole.sum(0), expected))
    assert sums.dtype is dtype and sums.shape == (length, 3)


def test_fibonacci(way):
    run = way(lambda: weft.scan(lambda c, _: ((c[1], c[0] + c[1]), c[0]), (weft.tensor(0), weft.tensor(1)), length=60))
    (last, _), numbers = run()
    assert numbers.tolist()[:8] == [0, 1, 1, 2, 3, 5, 8, 13] and last.item() == 1548008755920


def test_newton(way):
    def root(a):
        return weft.while_loop(lambda x: ((x * x - a).abs() > 1e-13 * a).all(), lambda x: (x + a / x) / 2, a + 0)

    run = way(root)
    for a in (2.0, 3.0, 10.0):
        assert abs(run(weft.tensor(a, dtype=weft.float64)).item() - a**0.5) < 1e-12


def test_collatz(way):
    def steps(n):
        even = lambda n: n // 2
        odd = lambda n: 3 * n + 1
        body = lambda state: (weft.cond(state[0] % 2 == 0, even, odd, state[0]), state[1] + 1)
        return weft.while_loop(lambda state: state[0] != 1, body, (n, 0))[1]

    run = way(steps)
    assert [run(weft.tensor(n)).item() for n in (1, 7, 27)] == [0, 16, 111]


def test_euclid(way):
    """A loop of unknown length in every iteration of another."""

    def divisors(a, b):
        step = lambda s: (s[1], s[0] % s[1])
        return weft.scan(lambda n, ab: (n + 1, weft.while_loop(lambda s: s[1] != 0, step, ab)[0]), 0, (a, b))[1]

    a, b = np.arange(1, 20) * 6, np.arange(20, 1, -1) * 4
    assert way(divisors)(weft.tensor(a), weft.tensor(b)).tolist() == np.gcd(a, b).tolist()


def test_power_iteration(way):
    rng = np.random.default_rng(0)
    a = rng.normal(size=(6, 6))
    a = a @ a.T

    def largest(a):
        def step(_, x):
            x = a @ x
            return x / x.norm()

        x = weft.fori_loop(0, 300, step, weft.ones(6, dtype=weft.float64))
        return x @ a @ x

    close(way(largest)(weft.tensor(a)), np.linalg.eigvalsh(a)[-1], rtol=1e-9)


def test_factorial_and_tensor_bounds(way):
    product = lambda i, total: total * i
    assert way(lambda: weft.fori_loop(1, 11, product, weft.tensor(1)))().item() == 3628800
    assert way(lambda: weft.fori_loop(5, 2, product, weft.tensor(7)))().item() == 7
    run = way(lambda n: weft.fori_loop(1, n, product, weft.tensor(1)))
    assert [run(weft.tensor(n)).item() for n in (1, 4, 6)] == [1, 6, 120]


def test_horner(way):
    """A polynomial, evaluated by a loop that runs from the last coefficient to the first."""
    coefficients = np.array([0.5, -1.0, 2.0, 0.25])
    run = lambda c, x: weft.scan(lambda y, c: (y * x + c, None), weft.zeros_like(x), c, reverse=True)
    x = np.linspace(-2, 2, 9)
    value, nothing = way(run)(weft.tensor(coefficients), weft.tensor(x))
    close(value, np.polynomial.polynomial.polyval(x, coefficients))
    assert nothing is None


class Pair(NamedTuple):
    first: weft.Tensor
    second: weft.Tensor


def test_containers_keep_their_forms(way):
    def step(carry, x):
        new = {"a": carry["a"] + x[0], "b": (carry["b"][0], None, Pair(x[1]["k"], carry["b"][2].first))}
        return new, [carry["a"], (x[0] * 2, None)]

    def run(u, v):
        init = {"a": weft.zeros(2), "b": (weft.tensor(3), None, Pair(weft.zeros(()), weft.ones(())))}
        return weft.scan(step, init, (u, {"k": v}))

    u, v = weft.arange(8.0).reshape(4, 2), weft.arange(4.0)
    carry, ys = way(run)(u, v)
    assert list(carry) == ["a", "b"] and carry["b"][0].item() == 3 and carry["b"][1] is None
    assert isinstance(carry["b"][2], Pair) and carry["b"][2].first.item() == 3 and carry["b"][2].second.item() == 2
    close(carry["a"], u.sum(0))
    assert isinstance(ys, list) and ys[1][1] is None
    close(ys[0], np.concatenate([np.zeros((1, 2)), np.cumsum(u.numpy(), 0)[:-1]]))
    close(ys[1][0], 2 * u.numpy())


def test_numbers_become_tensors(way):
    total, ys = way(lambda x: weft.scan(lambda c, x: (c + x, 1.5), 0.0, x))(weft.ones(3))
    assert total.item() == 3 and ys.tolist() == [1.5] * 3


# ---------------------------------------------------------------------------------------------- nesting


def _nested(x, w):
    def outer(c, row):
        inner = lambda d, v: (weft.tanh(d * w + v), d.sum())
        d, sums = weft.scan(inner, c, row)
        return d, (sums, row.sum())

    return weft.scan(outer, weft.ones(3, dtype=x.dtype), x)


def _chosen(x, w):
    def step(c, x):
        return weft.cond(x.sum() > 0, lambda c: c * w + x, lambda c: (c - x).sin(), c), c

    return weft.scan(step, weft.ones(3, dtype=x.dtype), x.sum(1))


def _forked(x, w):
    up = lambda x: weft.scan(lambda c, v: (c * w + v, c), x[0, 0], x.sum(1))
    down = lambda x: weft.scan(lambda c, v: (c - v, c * w), x[0, 1], x.sum(0)[[0, 1, 0, 1]])
    return weft.cond(x.sum() > 0, up, down, x)


@pytest.mark.parametrize("function", [_nested, _chosen, _forked], ids=lambda f: f.__name__)
@pytest.mark.parametrize("sign", [1, -1])
def test_nested(compiled, function, sign):
    weft.manual_seed(3)
    x = (weft.randn(4, 2, 3, dtype=weft.float64) + sign * 0.3).requires_grad_()
    w = weft.randn(3, dtype=weft.float64, requires_grad=True)

    def run(x, w):
        result = function(x, w)
        return result, weft.autograd.grad(total(result), (x, w), materialize_grads=True)

    expected = run(x, w)
    close(compiled(run)(x, w), expected, 1e-11)
    close(compile(run, without=("choose",))(x, w), expected, 1e-11)  # branches that Python takes


def test_loops_are_native():
    x, w = weft.randn(6, 2, 3), weft.randn(3)
    run = compile(_nested)
    run(x, w)
    assert Repeat in steps_of(run) and not any(t is BodyCall for t in steps_of(run))
    run = compile(lambda x, w: weft.autograd.grad(total(looped(x, w)), (x, w)))
    run(weft.randn(6, 2, 3, requires_grad=True), weft.randn(3, 3, requires_grad=True))
    assert steps_of(run).count(Repeat) == 2 and BodyCall not in steps_of(run)
    run = compile(_chosen)  # both branches are cheap
    run(x, w)
    assert Repeat in steps_of(run) and BodyCall not in steps_of(run)


def test_products_leave_the_loop():
    """Of a recurrent step and its gradient only the products with the carry stay; each weight has one product for all."""
    weft.manual_seed(0)
    x, w, u = weft.randn(9, 4, 3), weft.randn(3, 5, requires_grad=True), weft.randn(5, 5, requires_grad=True)

    def run(x):
        _, outs = weft.scan(lambda h, x: (weft.tanh(x @ w + h @ u),) * 2, weft.zeros(4, 5), x)
        return weft.autograd.grad((outs**2).sum(), (w, u))

    compiled = compile(run)
    close(compiled(x), run(x), 1e-4)
    nodes = lambda slots: [n.op.title for s in slots for n in s.step.group.nodes if hasattr(n.op, "title")]
    slots = plan_of(compiled).slots
    inside = [nodes(slot.step.plan.slots).count("Matmul") for slot in slots if isinstance(slot.step, Repeat)]
    assert inside == [1, 1] and nodes(slots).count("Matmul") == 3


def test_a_body_with_host_calls(compiled):
    def run(a):
        return weft.scan(lambda c, a: (weft.linalg.eigvalsh(c + a).diag(), c.trace()), weft.eye(3, dtype=a.dtype), a)

    a = weft.randn(4, 3, 3, dtype=weft.float64)
    a = a + a.mT
    close(compiled(run)(a), run(a))


def test_long_loops():
    """2,000 iterations take neither long to compile nor to start, and results have the right order."""
    x = weft.randn(2000, 4)
    run = compile(lambda x: weft.scan(lambda c, x: (0.5 * c + x, c), weft.zeros(4), x))
    run(x[:7].clone())
    start = time.perf_counter()
    found = run(x)
    assert time.perf_counter() - start < 1.0
    assert steps_of(run) == [Repeat]
    carry, expected = np.zeros(4), []
    for row in x.numpy():
        expected.append(carry)
        carry = 0.5 * carry + row
    close(found, (carry, np.array(expected)))
    run = compile(
        lambda x: weft.autograd.grad(weft.scan(lambda c, x: (0.5 * c + x, c), weft.zeros(4), x)[1].sum(), x)[0]
    )
    expected = np.zeros(2000)
    expected[:-1] = 2 - 0.5 ** np.arange(1998, -1, -1.0)
    close(run(x.requires_grad_()), np.repeat(expected[:, None], 4, 1))


def test_too_long_loops_run_step_by_step(monkeypatch):
    monkeypatch.setattr("weft.compiler.graph.bodies.MOST_ROWS", 50)
    x = weft.randn(80, 2, 3)
    run = compile(_nested)
    close(run(x, weft.ones(3)), _nested(x, weft.ones(3)))
    assert BodyCall in steps_of(run)


# --------------------------------------------------------------------------------- state, streams, layouts


def test_layouts_of_inputs(compiled):
    """Transposed stacks, repeated rows, windows of larger tensors, a first carry that is a view."""

    def run(big, w):
        xs = (big.transpose(0, 1), w.expand(6, 5, 3), big[:, 1:4].permute(2, 1, 0)[:, 0, :1].expand(5, 6).T)
        return weft.scan(lambda c, x: (c * x[2].sum() + (x[0] @ x[1]).sum(), c[0]), big[2, :2].T, xs)

    big, w = weft.randn(4, 6, 5), weft.randn(5, 3)
    close(compiled(run)(big, w), run(big, w), 1e-4)


def test_states_are_read_and_results_written(compiled):
    """A parameter read in the body and overwritten with the result of the loop."""

    def build():
        state = weft.arange(3.0)

        def run(x):
            total, _ = weft.scan(lambda c, x: (c + x * state, None), state, x)
            state.copy_(total)
            return total

        return run, state

    x = weft.randn(5, 3)
    eager, expected = build()
    run, state = build()
    run = compiled(run)
    for _ in range(3):
        close(run(x), eager(x))
        close(state, expected)


def test_learning_rates_are_read_anew(compiled):
    p = nn.Parameter(weft.ones(3))
    optimizer = weft.optim.SGD([p], lr=0.1)

    def run(x):
        optimizer.zero_grad()
        weft.scan(lambda c, x: (c + (p * x).sum(), None), weft.zeros(()), x)[0].backward()
        optimizer.step()

    run, x = compiled(run), weft.ones(2, 3)
    run(x)
    optimizer.param_groups[0]["lr"] = 0.5
    run(x)
    close(p, np.full(3, 1 - 0.1 * 2 - 0.5 * 2))


@pytest.mark.parametrize("reverse", [False, True])
def test_random_streams(compiled, reverse):
    """Every iteration takes the words of the stream that the eager loop takes, in nested loops and dropout too."""
    own = weft.Generator().manual_seed(5)

    def run(x):
        def step(c, x):
            inner, _ = weft.scan(lambda d, v: (d + weft.rand(3, generator=own), None), c, x, reverse=reverse)
            return nn.functional.dropout(inner * weft.randn(3), 0.3), weft.randint(0, 100, (2,))

        before = weft.rand(2)
        c, ys = weft.scan(step, weft.zeros(3), x, reverse=reverse)
        return before, c, ys, weft.rand(2, generator=own)

    def twice(function):
        weft.manual_seed(1)
        own.manual_seed(9)
        return function(weft.ones(4, 2)), weft.rand(1), function(weft.ones(4, 2)), weft.rand(1)

    for a, b in zip(tree_leaves(twice(compiled(run))), tree_leaves(twice(run)), strict=True):
        assert (a - b).abs().max() <= 1e-6 * b.abs().max()


def test_random_numbers_in_gradients(compiled):
    def run(w):
        step = lambda c, _: (nn.functional.dropout(c * w + weft.rand(4), 0.5), None)
        return weft.autograd.grad(weft.scan(step, weft.ones(4), length=5)[0].sum(), w)[0]

    w, found = weft.ones(4, requires_grad=True), []
    for function in (run, compiled(run)):
        weft.manual_seed(0)
        found.append(function(w))
    close(*found)


def test_random_numbers_in_branches(compiled):
    def run(x):
        y = weft.cond(x.sum() > 0, lambda: weft.rand(3), lambda: -weft.rand(3))
        return y, weft.rand(2)

    run_compiled = compiled(run)
    for x in (weft.ones(2), -weft.ones(2)):
        found = []
        for function in (run, run_compiled):
            weft.manual_seed(7)
            found.append((function(x), weft.rand(1)))
        close(*found)
    with pytest.raises(TraceError, match="draw before cond"):
        compiled(lambda x: weft.cond(x.sum() > 0, lambda: weft.rand(3), lambda: weft.zeros(3)))(x)
    with pytest.raises(TraceError, match="random numbers are drawn in while_loop"):
        compiled(lambda x: weft.while_loop(lambda x: x < 5, lambda x: x + weft.rand(()), x))(x.sum())


def test_passes_can_be_left_out():
    x, w = weft.randn(4, 2, 3, requires_grad=True), weft.randn(3, 3, requires_grad=True)
    run = lambda x, w: weft.autograd.grad(total(looped(x, w)), (x, w))
    for name in ("prune", "choose", "split", "fuse", "place", "schedule", "buffers"):
        close(compile(run, without=(name,))(x, w), run(x, w), 2e-4)


def test_vmap():
    x, w = weft.randn(5, 4, 3, dtype=weft.float64), weft.randn(3, dtype=weft.float64)
    one = lambda x: weft.scan(lambda c, x: (weft.tanh(c * w + x), c), weft.zeros(3, dtype=x.dtype), x)
    expected = [one(row) for row in x]
    expected = weft.stack([c for c, _ in expected]), weft.stack([ys for _, ys in expected])
    close(weft.vmap(one)(x), expected)
    run = compile(weft.vmap(one))
    close(run(x), expected)
    assert Repeat in steps_of(run)


def test_mapped_loops_and_branches(way):
    root = lambda n: lambda a: weft.fori_loop(0, n, lambda _, x: (x + a / x) / 2, a)
    run = way(lambda a, n: weft.vmap(root(n))(a))
    close(run(weft.arange(1.0, 5), weft.tensor(20)), np.sqrt(np.arange(1.0, 5)))
    run = way(lambda a, p: weft.vmap(lambda a: weft.cond(p, lambda: 2 * a, lambda: a**2))(a))
    close(run(weft.arange(3.0), weft.tensor(True)), np.array([0.0, 2.0, 4.0]))
    close(run(weft.arange(3.0), weft.tensor(False)), np.array([0.0, 1.0, 4.0]))
    with pytest.raises(TransformError, match=r"weft\.where"):
        way(weft.vmap(lambda a: weft.cond(a > 0, weft.sin, weft.cos, a)))(weft.arange(3.0))


# ------------------------------------------------------------------------------------------------ errors

BAD = {
    "shape": (lambda x: weft.scan(lambda c, x: ((c[0], weft.cat([c[1], x])), 0), (x, x), x[:, None]), ShapeError,
              r"scan: carry\[1\] went in as float32 of shape \(3,\) and came back as float32 of shape \(4,\)"),
    "dtype": (lambda x: weft.scan(lambda c, x: ({"h": c["h"] + x.double()}, 0), {"h": x}, x[:, None]), DtypeError,
              r"carry\['h'\] went in as float32 .* came back as float64 .*\.to\(weft\.float32\)"),
    "structure": (lambda x: weft.scan(lambda c, x: ([c[0]], 0), (x, x), x), ShapeError, r"\(\*, \*\) .*\[\*\]"),
    "pair": (lambda x: weft.scan(lambda c, x: c, x, x), TypeError, "must return a pair"),
    "sizes": (lambda x: weft.scan(lambda c, x: (c, 0), x, {"a": x, "b": x[:2]}), ShapeError,
              r"xs\['a'\] gives 3 iterations and xs\['b'\] 2"),
    "length": (lambda x: weft.scan(lambda c, x: (c, 0), x, x, length=4), ShapeError, "xs gives 3 .* length 4"),
    "no length": (lambda x: weft.scan(lambda c, x: (c, 0), x), ShapeError, "pass length"),
    "scalar xs": (lambda x: weft.scan(lambda c, x: (c, 0), x, x[0]), ShapeError, "first dimension"),
    "object": (lambda x: weft.scan(lambda c, x: (c, 0), {"a": "b"}, x), TypeError, "init holds a str"),
    "while": (lambda x: weft.while_loop(lambda x: (x < 2).all(), lambda x: x[1:], x * 0), ShapeError,
              r"while_loop: carry went in"),
    "fori": (lambda x: weft.fori_loop(0, 3, lambda i, c: c[1:], x), ShapeError, "fori_loop: carry went in"),
    "many": (lambda x: weft.cond(x > 0, weft.sin, weft.cos, x), ShapeError, r"cond: .*one element.*weft\.where"),
    "number": (lambda x: weft.cond(x.sum(), weft.sin, weft.cos, x), DtypeError, "cond: .*must be a bool, got weft.float32"),
    "test": (lambda x: weft.while_loop(lambda x: x.sum(), lambda x: x, x), DtypeError, "while_loop: .*bool"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("how", ["eager", "host"])
def test_errors(name, how):
    function, error, message = BAD[name]
    with pytest.raises(error, match=message):
        WAYS[how](function)(weft.arange(3.0))


def test_the_iteration_is_named():
    with pytest.raises(ShapeError, match="in iteration 2"):
        weft.scan(lambda c, x: (c if x < 2 else c[1:], 0), weft.ones(3), weft.arange(3))


REFUSED = {
    "branch sizes": (lambda x: weft.cond(x.sum() > 0, lambda: x, lambda: x[1:]), ShapeError,
                     r"result is float32 of shape \(3,\) from true_fn and float32 of shape \(2,\) from false_fn"),
    "branch types": (lambda x: weft.cond(x.sum() > 0, lambda: {"a": x}, lambda: {"a": x.double()}), DtypeError,
                     r"result\['a'\] is float32"),
    "branch forms": (lambda x: weft.cond(x.sum() > 0, lambda: x, lambda: (x, x)), ShapeError, "same containers"),
    "write outside": (lambda x: weft.scan(lambda c, v: (c + x.add_(1), 0), x, x), TraceError,
                      r"test_control.py:\d+ the body of scan writes to a tensor from outside in place.*carry"),
    "write to the carry": (lambda x: weft.scan(lambda c, v: (c.add_(v), 0), x, x), TraceError, r"given.*\.clone\(\)"),
    "write in a branch": (lambda x: weft.cond(x.sum() > 0, lambda: x.mul_(2), lambda: x), TraceError, "body of cond writes"),
    "write in a while loop": (lambda x: weft.while_loop(lambda c: c.sum() > 0, lambda c: c - x.mul_(2), x + 1), TraceError,
                              "body of while_loop writes"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_of_the_compiler(name):
    function, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        compile(function)(weft.arange(3.0))


def test_statistics_cannot_be_updated_inside():
    norm = nn.BatchNorm1d(3)
    with pytest.raises(TraceError, match="take it into the carry"):
        compile(lambda x: weft.scan(lambda c, x: (c + norm(x), 0), x[0], x))(weft.randn(4, 5, 3))


def test_tensors_must_not_escape():
    def run(x):
        kept = []
        weft.scan(lambda c, x: (kept.append(c + x) or c, 0), x[0], x)
        return kept[0]

    with pytest.raises(TraceError, match="made inside the body of scan is used outside"):
        compile(run)(weft.arange(3.0))


def test_writes_inside_a_body_stay_inside(compiled):
    def run(x):
        def step(c, x):
            c = c.clone()
            c[0] += x
            c[1:] *= 2
            return c, c[0]

        return weft.scan(step, weft.ones(3), x)

    close(compiled(run)(weft.arange(4.0)), run(weft.arange(4.0)))
