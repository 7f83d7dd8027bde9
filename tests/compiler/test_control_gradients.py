"""Gradients of loops and branches: by closed forms, differences and layers with the same weights, of any order."""

import numpy as np
import pytest

import weft
from weft import nn
from weft.autograd import gradcheck
from weft.compiler.compiled import compile
from weft.errors import AutogradError
from weft.utils.pytree import tree_leaves

from .looping import COMPILED, FLOATS, WAYS, close, looped, total


@pytest.fixture(params=WAYS)
def way(request):
    return WAYS[request.param]


@pytest.fixture(params=COMPILED)
def compiled(request):
    return COMPILED[request.param]


def _rnn(dtype):
    weft.manual_seed(4)
    return nn.RNN(3, 5, dtype=dtype), weft.randn(7, 2, 3, dtype=dtype), weft.randn(1, 2, 5, dtype=dtype)


@pytest.mark.parametrize("dtype", FLOATS)
def test_rnn_by_scan(way, dtype):
    """A loop over a cell gives the results and gradients of the layer that shares its weights."""
    rnn, x, h = _rnn(dtype)
    expected, last = rnn(x, h)
    (expected**2).sum().backward()
    grads = [p.grad.clone() for p in rnn.parameters()]
    rnn.zero_grad()
    w, u, b, c = rnn.parameters()

    def run(x, h):
        step = lambda h, x: (weft.tanh(x @ w.T + b + h @ u.T + c),) * 2
        last, outs = weft.scan(step, h, x)
        (outs**2).sum().backward()
        return outs, last

    outs, final = way(run)(x, h[0])
    close((outs, final), (expected, last[0]))
    close([p.grad for p in rnn.parameters()], grads, rtol=1e-11 if dtype is weft.float64 else 1e-4)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [1, 2, 5])
@pytest.mark.parametrize("dtype", FLOATS)
def test_gradients_of_scan(compiled, dtype, length, reverse):
    weft.manual_seed(1)
    x = weft.randn(length, 2, 3, dtype=dtype, requires_grad=True)
    w = weft.randn(3, 3, dtype=dtype, requires_grad=True)
    run = lambda x, w: looped(x, w, reverse)

    def gradients(x, w):
        return weft.autograd.grad(total(run(x, w)), (x, w))

    expected = gradients(x, w)
    tolerance = 1e-11 if dtype is weft.float64 else 2e-4
    close(compiled(gradients)(x, w), expected, tolerance)
    close(weft.autograd.grad(total(compiled(run)(x, w)), (x, w)), expected, tolerance)  # asked for outside


def test_gradients_by_differences(way):
    weft.manual_seed(0)
    x = weft.randn(3, 2, 3, dtype=weft.float64, requires_grad=True)
    w = weft.randn(3, 3, dtype=weft.float64, requires_grad=True)
    assert gradcheck(way(lambda x, w: tuple(tree_leaves(looped(x, w)))), (x, w))


@pytest.mark.parametrize("name", ["scan", "cond"])
def test_second_derivatives(compiled, name):
    weft.manual_seed(2)
    x = weft.randn(4, 2, 3, dtype=weft.float64, requires_grad=True)
    w = weft.randn(3, 3, dtype=weft.float64, requires_grad=True)

    def forked(x, w):
        other = lambda x: (x @ w).sin()
        return weft.cond(x.sum() > 0, lambda x: (x * w.sum()).exp(), other, x), weft.cond(
            x.sum() < 0, other, weft.cos, x
        )

    function = {"scan": looped, "cond": forked}[name]

    def penalty(x, w):
        (g,) = weft.autograd.grad(total(function(x, w)), x, create_graph=True)
        return weft.autograd.grad((g**2).sum(), (x, w))

    close(compiled(penalty)(x, w), penalty(x, w), 1e-10)


def test_derivatives_of_any_order_in_eager_code():
    """d³/dx³ of x⁴, computed by a loop: 24 x."""
    power = lambda x: weft.while_loop(lambda s: s[0] < 4, lambda s: (s[0] + 1, s[1] * x), (0, weft.ones(())))[1]
    third = weft.func.grad(weft.func.grad(weft.func.grad(power)))
    assert abs(third(weft.tensor(1.5)).item() - 36) < 1e-4


def test_what_needs_no_gradient_gets_none(compiled):
    x, w = weft.ones(4, 3), weft.ones(3, requires_grad=True)

    def run(x):
        def step(carry, x):
            count, sums, plain = carry
            return (count + 1, sums + x * w, plain + x), (plain, sums)

        (count, sums, plain), (a, b) = weft.scan(step, (weft.tensor(0), weft.zeros(3), weft.zeros(3)), x)
        assert [t.requires_grad for t in (count, sums, plain, a, b)] == [False, True, False, False, True]
        sums.sum().backward()
        return count

    assert compiled(run)(x).item() == 4
    assert w.grad.tolist() == [4.0] * 3


def test_only_the_chosen_branch_counts(compiled):
    """√x at 0 has an infinite slope, which `where` would turn into NaN."""
    x = weft.tensor(0.0, requires_grad=True)
    run = lambda x: weft.autograd.grad(weft.cond(x > 0, weft.sqrt, lambda x: 2 * x, x), x)[0]
    assert compiled(run)(x).item() == 2


@pytest.mark.parametrize("cell, layer", [(nn.GRUCell, nn.GRU), (nn.RNNCell, nn.RNN)])
def test_training_with_cells(cell, layer):
    """Whole training steps with a cell in a loop follow those of the layer with the same weights."""
    weft.manual_seed(0)
    cells, layers = cell(3, 4), layer(3, 4)
    with weft.no_grad():
        for p, q in zip(cells.parameters(), layers.parameters(), strict=True):
            p.copy_(q)
    x, y = weft.randn(6, 2, 3), weft.randn(6, 2, 4)

    def training(model, run):
        optimizer = weft.optim.Adam(model.parameters(), lr=0.05)

        def step(x, y):
            optimizer.zero_grad()
            loss = ((run(x) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss

        return step

    looped = compile(training(cells, lambda x: weft.scan(lambda h, x: (cells(x, h),) * 2, weft.zeros(2, 4), x)[1]))
    whole = training(layers, lambda x: layers(x)[0])
    for _ in range(4):
        close(looped(x, y), whole(x, y), 1e-4)
    close(list(cells.parameters()), list(layers.parameters()), 1e-3)


class _Cube(weft.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * g


def test_checkpoints_and_own_functions(compiled):
    w = weft.randn(3, dtype=weft.float64, requires_grad=True)

    def run(x):
        def step(c, x):
            c = weft.utils.checkpoint.checkpoint(lambda c: nn.functional.dropout((c * w).sin(), 0.4), c)
            return _Cube.apply(c) + x, c

        c, ys = weft.scan(step, weft.ones(3, dtype=x.dtype), x)
        return weft.autograd.grad((c**2).sum() + ys.sum(), w)[0]

    x, found = weft.randn(4, 3, dtype=weft.float64), []
    for function in (run, compiled(run)):
        weft.manual_seed(3)
        found.append(function(x))
    close(*found)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "complex64", "int32", "bool"])
def test_element_types(compiled, dtype):
    x = (weft.randn(5, 3) * 3).to(getattr(weft, dtype))

    def run(x):
        step = lambda c, x: (c | x, c & x) if x.dtype is weft.bool else (c * x + c, c + x)
        return weft.scan(step, x[0], x)

    a, b = tree_leaves(run(x)), tree_leaves(compiled(run)(x))
    wide = weft.complex128 if dtype == "complex64" else weft.float64
    for p, q in zip(a, b, strict=True):
        assert p.dtype is q.dtype
        close(q.to(wide), p.to(wide), 0.02 if "float" in dtype else 1e-5)


def test_hooks_and_detached_parts(compiled):
    x = weft.randn(5, 3, requires_grad=True)
    w = weft.randn(3, requires_grad=True)

    def run(x):
        doubled = w * 2
        doubled.register_hook(lambda g: 10 * g)
        step = lambda c, x: (c * x.detach() + doubled, (c * x).detach() * doubled)
        c, ys = weft.scan(step, weft.ones(3), x)
        return weft.autograd.grad(c.sum() + ys.sum(), w)[0]

    close(compiled(run)(x), run(x), 1e-4)


def test_derivatives_inside_a_body(compiled):
    """Gradient descent as a loop, and the derivative of its result by the curvature."""

    def descend(a):
        loss = lambda x: (a * x**2).sum()
        x, path = weft.scan(lambda x, _: (x - 0.1 * weft.func.grad(loss)(x), x), weft.ones(3, dtype=a.dtype), length=4)
        return weft.autograd.grad(x.sum(), a)[0], path.detach()

    a = weft.tensor([0.5, 1.0, 2.0], dtype=weft.float64, requires_grad=True)
    slope, path = compiled(descend)(a)
    rate = 1 - 0.2 * a.detach().numpy()
    close(slope, 4 * rate**3 * -0.2)
    close(path, rate ** np.arange(4)[:, None])


def test_no_gradient_through_a_while_loop_in_compiled_code(compiled):
    grow = lambda x: weft.while_loop(lambda x: x < 10, lambda x: x * 2, x)
    x = weft.tensor(1.5, requires_grad=True)
    y = compiled(grow)(x)
    assert y.item() == 12
    with pytest.raises(AutogradError, match=r"while_loop .*fori_loop .*scan"):
        y.backward()
    with pytest.raises(AutogradError, match=r"while_loop .*fori_loop .*scan"):
        compiled(lambda x: weft.autograd.grad(grow(x), x))(x)
    grow(x).backward()
    assert x.grad.item() == 8
    around = lambda x: weft.scan(lambda c, _: (weft.cond(c > 0, lambda c: grow(c / 8), grow, c), None), x, length=3)[0]
    y = compiled(around)(x)
    assert y.item() == around(x).item()
    with pytest.raises(AutogradError, match="while_loop"):
        y.backward()


@pytest.mark.parametrize("transform", ["grad", "jacrev", "jacfwd", "hessian"])
def test_transforms(transform):
    """Derivatives as functions, over a batch of examples, each with a weight of its own."""
    x, w = weft.randn(3, 4, 2, dtype=weft.float64), weft.randn(3, 2, dtype=weft.float64)

    def loss(w, x):
        last, sums = weft.scan(lambda c, x: (weft.tanh(c * w + x), c.sum()), weft.zeros(2, dtype=x.dtype), x)
        return (last**2).sum() + (sums**3).sum()

    derived = weft.vmap(getattr(weft.func, transform)(loss))
    expected = derived(w, x)
    loop = lambda w, x: sum(tree_leaves([(v**k).sum() for k, v in zip((2, 3), _unrolled(w, x), strict=True)]))
    close(expected, weft.vmap(getattr(weft.func, transform)(loop))(w, x))
    close(compile(derived)(w, x), expected, 1e-11)


def _unrolled(w, x):
    c, sums = weft.zeros(2, dtype=x.dtype), []
    for t in range(x.shape[0]):
        sums.append(c.sum())
        c = weft.tanh(c * w + x[t])
    return c, weft.stack(sums)
