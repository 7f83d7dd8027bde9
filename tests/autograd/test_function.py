"""autograd.Function: PyTorch's protocol, run with the same class body in both libraries."""

import gc
import weakref

import numpy as np
import pytest

import weft
from weft.autograd import Function
from weft.autograd.function import once_differentiable

from .oracle import same, same_error

rng = np.random.default_rng(2)
X, Y = rng.normal(size=(3, 4)), rng.normal(size=(3, 4))


def cube(m, **extra):
    class Cube(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * x * x * g

    for name, value in extra.items():
        setattr(Cube, name, value)
    return Cube


def exponential(m):
    """Saves its output."""

    class Exponential(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    return Exponential


def affine(m):
    """Several inputs, one of them no tensor; setup_context; several outputs; one without gradient."""

    class Affine(m.autograd.Function):
        @staticmethod
        def forward(x, scale, shift):
            return x * scale + shift, x - shift, (x > 0).to(x.dtype), "text"

        @staticmethod
        def setup_context(ctx, inputs, output):
            _, scale, _ = inputs
            ctx.scale = scale
            ctx.mark_non_differentiable(output[2])

        @staticmethod
        def backward(ctx, g, h, nothing, text):
            assert nothing.shape == g.shape and not nothing.any()
            return g * ctx.scale + h, None, g.sum(0) - h.sum(0)

    return Affine


def _first(m, x):
    x.requires_grad_()
    y = cube(m).apply(x)
    return y, m.autograd.grad(y.sum(), x)


def _third(m, x):
    x.requires_grad_()
    (g,) = m.autograd.grad(cube(m).apply(x).sum(), x, create_graph=True)
    (h,) = m.autograd.grad(g.sum(), x, create_graph=True)
    return g, h, m.autograd.grad(h.sum(), x)


def _output_saved(m, x):
    x.requires_grad_()
    y = exponential(m).apply(x)
    (g,) = m.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = m.autograd.grad(g.square().sum(), x)
    return y, g, h


def _several(m, x, y):
    x.requires_grad_()
    b = y[0].clone().requires_grad_()
    first, second, third, text = affine(m).apply(x, 2.5, b)
    flags = first.requires_grad, second.requires_grad, third.requires_grad, text
    return (
        flags,
        m.autograd.grad((first * first).sum(), (x, b), retain_graph=True),
        m.autograd.grad(second.sum(), (x, b)),
    )


def _needs(m, x, y):
    seen = []

    class Look(m.autograd.Function):
        @staticmethod
        def forward(ctx, a, b, c):
            seen.append(ctx.needs_input_grad)
            return a + b

        @staticmethod
        def backward(ctx, g):
            seen.append(ctx.needs_input_grad)
            return g, g, None

    Look.apply(x.requires_grad_(), y, 3).sum().backward()
    return seen, x.grad


def _dirty(m, x):
    x.requires_grad_()

    class Double(m.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.mark_dirty(a)
            a.mul_(2)
            return a

        @staticmethod
        def backward(ctx, g):
            return g * 2

    y = x * 1
    z = Double.apply(y)
    return z is y, z, m.autograd.grad((y * y).sum(), x)


def _unmaterialised(m, x):
    x.requires_grad_()
    seen = []

    class Two(m.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.set_materialize_grads(False)
            return a * 1, a * 2

        @staticmethod
        def backward(ctx, g, h):
            seen.append((g is None, h is None))
            return g if h is None else h * 2

    return m.autograd.grad(Two.apply(x)[1].sum(), x), seen


def _broadcast_gradient(m, x):
    b = x[0].clone().requires_grad_()

    class AddRow(m.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return a + b

        @staticmethod
        def backward(ctx, g):
            return g, g  # wider than b: summed by the engine

    return m.autograd.grad(AddRow.apply(x, b).square().sum(), b)


def _pass_through(m, x):
    x.requires_grad_()

    class Pass(m.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a

        @staticmethod
        def backward(ctx, g):
            return g * 7

    y = Pass.apply(x)
    return y is x, y.is_leaf, m.autograd.grad(y.sum(), x)


def _in_vmap(m, x):
    f = cube(m, generate_vmap_rule=True, **_setup_form(m))
    return m.func.vmap(f.apply)(x), m.func.vmap(m.func.grad(lambda a: f.apply(a).sum()))(x)


def _setup_form(m):
    """PyTorch's transforms want forward without ctx."""
    return {
        "forward": staticmethod(lambda x: x * x * x),
        "setup_context": staticmethod(lambda ctx, inputs, output: ctx.save_for_backward(inputs[0])),
    }


def _in_func(m, x):
    f = cube(m, generate_vmap_rule=True, **_setup_form(m))
    return m.func.jacrev(f.apply)(x[0]), m.func.grad(m.func.grad(f.apply))(x[0, 0])


def _own_vmap(m, x, y):
    calls = []

    class Scale(m.autograd.Function):
        @staticmethod
        def forward(a, b):
            return a * b

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            return g * b, g * a

        @staticmethod
        def vmap(info, in_dims, a, b):
            calls.append((info.batch_size, info.randomness, in_dims))
            return Scale.apply(a.movedim(in_dims[0], 0), b), 0

    return m.func.vmap(Scale.apply, in_dims=(0, None))(x, y[0]), calls


@pytest.mark.parametrize(
    ("function", "arrays"),
    [
        (_first, [X]),
        (_third, [X]),
        (_output_saved, [X]),
        (_several, [X, Y]),
        (_needs, [X, Y]),
        (_dirty, [X]),
        (_unmaterialised, [X]),
        (_broadcast_gradient, [X]),
        (_pass_through, [X]),
        (_in_vmap, [X]),
        (_in_func, [X]),
        (_own_vmap, [X, Y]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_like_torch(function, arrays):
    same(function, *arrays)


def _custom(m, backward, forward=lambda ctx, x: x * 2):
    return type(
        "Custom", (m.autograd.Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    )


ERRORS = {
    "too few gradients": lambda m, x: _custom(m, lambda ctx, g: (g, g)).apply(x.requires_grad_()).sum().backward(),
    "wrong shape": lambda m, x: _custom(m, lambda ctx, g: g[:2]).apply(x.requires_grad_()).sum().backward(),
    "not a tensor": lambda m, x: _custom(m, lambda ctx, g: 3.0).apply(x.requires_grad_()).sum().backward(),
    "saved no tensor": lambda m, x: _custom(m, None, lambda ctx, x: ctx.save_for_backward(3) or x).apply(
        x.requires_grad_()
    ),
    "no backward": lambda m, x: (
        type("F", (m.autograd.Function,), {"forward": staticmethod(lambda c, x: x * 2)})
        .apply(x.requires_grad_())
        .sum()
        .backward()
    ),
    "dirty leaf": lambda m, x: _custom(m, lambda c, g: g, lambda c, a: c.mark_dirty(a) or a.mul_(2)).apply(
        x.requires_grad_()
    ),
    "twice": lambda m, x: (lambda y: (y.backward(), y.backward()))(cube(m).apply(x.requires_grad_()).sum()),
    "vmap without a rule": lambda m, x: m.func.vmap(_custom(m, lambda c, g: g).apply)(x),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_like_torch(name):
    message = same_error(ERRORS[name], X)
    assert len(message) > 20


def test_modified_saved_tensor_is_found():
    def modified(m, x):
        y = x.clone().requires_grad_() * 1
        z = cube(m).apply(y)
        y.add_(1)
        z.sum().backward()

    assert "modified by an inplace operation" in same_error(modified, X)


def test_once_differentiable():
    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            return 2 * ctx.saved_tensors[0] * g

    x = weft.tensor(X, requires_grad=True)
    (g,) = weft.autograd.grad(Once.apply(x).sum(), x)
    np.testing.assert_allclose(g.numpy(), 2 * X)
    seed = weft.ones(3, 4, dtype=weft.float64, requires_grad=True)
    (g,) = weft.autograd.grad(Once.apply(x), x, seed, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.sum().backward()


def test_name_of_the_node():
    y = cube(weft).apply(weft.tensor(X, requires_grad=True))
    assert y.grad_fn.name() == "CubeBackward" and "CubeBackward" in repr(y)


def test_no_cycles():
    """Output and node do not own each other: all is freed without the garbage collector."""
    gc.collect()
    gc.disable()
    try:
        y = exponential(weft).apply(weft.tensor(X, requires_grad=True))
        node, kept = weakref.ref(y.grad_fn), weakref.ref(y.grad_fn.saved)
        del y
        assert node() is None and kept() is None
    finally:
        gc.enable()


def test_backward_after_vmap_has_ended():
    f = cube(weft, generate_vmap_rule=True)
    x = weft.tensor(X, requires_grad=True)
    weft.vmap(f.apply)(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 3 * X**2)


def test_vmapped_with_an_argument_that_is_shared():
    class Mul(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            return g * b, g * a

    x, w = weft.tensor(X, requires_grad=True), weft.tensor(Y[0], requires_grad=True)
    weft.vmap(Mul.apply, in_dims=(0, None))(x, w).square().sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), (2 * X**2 * Y[0]).sum(0))
    np.testing.assert_allclose(x.grad.numpy(), 2 * X * Y[0] ** 2)
