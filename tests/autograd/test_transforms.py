"""weft.func against torch.func: every transform, and every transform of every other."""

import numpy as np
import pytest
import torch

import weft
from weft import func

from .oracle import same, same_error

rng = np.random.default_rng(0)
S = np.array(0.7)
V, U = rng.normal(size=4), rng.normal(size=4)
X, Y = rng.normal(size=(3, 4)), rng.normal(size=(3, 4))
W = rng.normal(size=(4, 4))


CASES = {
    "grad": (lambda m, x: m.func.grad(lambda a: (a * a).sin().sum())(x), X),
    "grad three times": (lambda m, s: m.func.grad(m.func.grad(m.func.grad(m.sin)))(s), S),
    "grad argnums": (lambda m, x, y: m.func.grad(lambda a, b: (a * b * a).sum(), argnums=(1, 0))(x, y), X, Y),
    "grad last": (lambda m, x, y: m.func.grad(lambda a, b: (a * b * a).sum(), argnums=-1)(x, y), X, Y),
    "grad keyword": (lambda m, x, y: m.func.grad(lambda a, b: (a * b).exp().sum())(x, b=y), X, Y),
    "grad of a dict": (
        lambda m, x, y: m.func.grad(lambda d: (d["a"] * d["b"][0].exp()).sum())({"a": x, "b": [y]}),
        X,
        Y,
    ),
    "grad aux": (lambda m, x: m.func.grad(lambda a: ((a * a).sum(), {"double": a * 2}), has_aux=True)(x), X),
    "grad and value": (lambda m, x: m.func.grad_and_value(lambda a: (a * a).sum())(x), X),
    "grad and value aux": (
        lambda m, x: m.func.grad_and_value(lambda a: ((a * a).sum(), a * 2), has_aux=True)(x),
        X,
    ),
    "grad of what is unused": (lambda m, x, y: m.func.grad(lambda a, b: b.sum(), argnums=(0, 1))(x, y), X, Y),
    "grad of a constant": (lambda m, x: m.func.grad(lambda a: m.ones(()))(x), X),
    "grad of identity": (lambda m, s: m.func.grad(lambda a: a)(s), S),
    "vjp": (lambda m, x, y: _pulled(m.func.vjp(lambda a: (a.exp(), a * a), x), (y, y)), X, Y),
    "vjp aux": (lambda m, x, y: m.func.vjp(lambda a: (a.exp(), a + 1), x, has_aux=True)[2], X, Y),
    "vjp of a dict": (lambda m, x, y: _pulled(m.func.vjp(lambda a, b: {"r": a * b}, x, y), {"r": y}), X, Y),
    "jvp": (lambda m, x, y: m.func.jvp(lambda a: (a.exp(), a * a), (x,), (y,)), X, Y),
    "jvp of two": (lambda m, x, y: m.func.jvp(lambda a, b: (a * b).sum(0), (x, y), (y, x)), X, Y),
    "jvp aux": (lambda m, x, y: m.func.jvp(lambda a: (a.exp(), a * 3), (x,), (y,), has_aux=True), X, Y),
    "jvp of a constant": (lambda m, x, y: m.func.jvp(lambda a: m.ones(2), (x,), (y,)), X, Y),
    "jvp of jvp": (
        lambda m, v: m.func.jvp(lambda a: m.func.jvp(lambda b: (b**3).sum(), (a,), (v,))[1], (v,), (v,)),
        V,
    ),
    "grad of jvp": (lambda m, v, u: m.func.grad(lambda a: m.func.jvp(lambda b: (b**3).sum(), (a,), (u,))[1])(v), V, U),
    "jvp of grad": (lambda m, v, u: m.func.jvp(m.func.grad(lambda b: (b**3).sum()), (v,), (u,)), V, U),
    "jacrev": (lambda m, v, w: m.func.jacrev(lambda a: (w @ a).tanh())(v), V, W),
    "jacrev in chunks": (lambda m, v, w: m.func.jacrev(lambda a: (w @ a).tanh(), chunk_size=3)(v), V, W),
    "jacrev aux": (lambda m, v, w: m.func.jacrev(lambda a: ((w @ a).tanh(), a + 1), has_aux=True)(v), V, W),
    "jacrev of several": (
        lambda m, v, w: m.func.jacrev(lambda a, b: {"p": (b @ a).tanh(), "q": a * 2}, argnums=(0, 1))(v, w),
        V,
        W,
    ),
    "jacfwd": (lambda m, v, w: m.func.jacfwd(lambda a: (w @ a).tanh())(v), V, W),
    "jacfwd aux": (lambda m, v, w: m.func.jacfwd(lambda a: ((w @ a).tanh(), a + 1), has_aux=True)(v), V, W),
    "jacfwd of several": (
        lambda m, v, w: m.func.jacfwd(lambda a, b: {"p": (b @ a).tanh(), "q": a * 2}, argnums=(0, 1))(v, w),
        V,
        W,
    ),
    "jacobian of a constant": (
        lambda m, v: (m.func.jacrev(lambda a: m.ones(2))(v), m.func.jacfwd(lambda a: m.ones(2))(v)),
        V,
    ),
    "hessian": (lambda m, v, w: m.func.hessian(lambda a: (w @ a).tanh().sum() * a.sum())(v), V, W),
    "hessian of two": (lambda m, v, w: m.func.hessian(lambda a, b: (b @ a).tanh().sum(), argnums=(0, 1))(v, w), V, W),
    "reverse over reverse": (lambda m, v, w: m.func.jacrev(m.func.jacrev(lambda a: (w @ a).tanh()))(v), V, W),
    "reverse over forward": (lambda m, v, w: m.func.jacrev(m.func.jacfwd(lambda a: (w @ a).tanh()))(v), V, W),
    "forward over forward": (lambda m, v, w: m.func.jacfwd(m.func.jacfwd(lambda a: (w @ a).tanh()))(v), V, W),
    "third order": (lambda m, v: m.func.jacfwd(m.func.hessian(lambda a: (a**4).sum() * a.sum()))(v), V),
    "complex jvp": (
        lambda m, x, y: m.func.jvp(lambda a: (a * a).abs(), (m.complex(x, y),), (m.complex(y, x),)),
        X,
        Y,
    ),
    "per-example gradients": (
        lambda m, v, x: m.func.vmap(m.func.grad(lambda w, a: (w * a).sin().sum()), in_dims=(None, 0))(v, x),
        V,
        X,
    ),
    "per-example gradients of a matrix": (
        lambda m, w, x: m.func.vmap(m.func.grad(lambda w, a: (w @ a).tanh().sum()), in_dims=(None, 0))(w, x),
        W,
        X,
    ),
    "vmap of jacrev": (lambda m, x, w: m.func.vmap(m.func.jacrev(lambda a: (w @ a).tanh()))(x), X, W),
    "vmap of jacfwd": (lambda m, x, w: m.func.vmap(m.func.jacfwd(lambda a: (w @ a).tanh()))(x), X, W),
    "vmap of hessian": (lambda m, x, w: m.func.vmap(m.func.hessian(lambda a: (w @ a).tanh().sum()))(x), X, W),
    "vmap of a Jacobian by what is not mapped": (
        lambda m, x, w: m.func.vmap(lambda a: m.func.jacrev(lambda w: (w @ a).tanh())(w))(x),
        X,
        W,
    ),
    "vmap of vjp": (
        lambda m, x, y: m.func.vmap(lambda a, b: m.func.vjp(lambda q: q.sin() * q.sum(), a)[1](b))(x, y),
        X,
        Y,
    ),
    "vmap of jvp by the tangent": (
        lambda m, x, v: m.func.vmap(lambda a: m.func.jvp(lambda q: q.sin() * q.sum(), (v,), (a,)))(x),
        X,
        V,
    ),
    "vmap of jvp by a closure": (
        lambda m, x, v: m.func.vmap(lambda a: m.func.jvp(lambda q: q.sin() * a.sum(), (v,), (v,)))(x),
        X,
        V,
    ),
    "grad of vmap": (lambda m, x, w: m.func.grad(lambda w: m.func.vmap(lambda a: (w @ a).tanh())(x).sum())(w), X, W),
    "jvp of vmap": (lambda m, x, y: m.func.jvp(m.func.vmap(lambda q: q.sin() * q.sum()), (x,), (y,)), X, Y),
    "jacrev of vmap": (lambda m, x: m.func.jacrev(m.func.vmap(lambda q: q.sin() * q.sum()))(x), X),
    "vmap of vmap of grad": (
        lambda m, x, w: m.func.vmap(
            m.func.vmap(m.func.grad(lambda w, a: (w * a).sum().sin()), in_dims=(0, None)), in_dims=(None, 0)
        )(w, x),
        X,
        W,
    ),
    "vmap of vmap of jacrev": (
        lambda m, x, w: m.func.vmap(lambda a: m.func.vmap(m.func.jacrev(lambda w: (w * a).sin()))(w))(x),
        X,
        W,
    ),
    "vmap of vmap of hessian": (
        lambda m, x, w: m.func.vmap(
            lambda a: m.func.vmap(m.func.hessian(lambda w: (w * a).sum().sin()))(w), out_dims=1
        )(x),
        X,
        W,
    ),
    "grad of vmap of grad": (
        lambda m, x, w: m.func.grad(
            lambda w: m.func.vmap(m.func.grad(lambda a: (w @ a).tanh().sum()))(x).square().sum()
        )(w),
        X,
        W,
    ),
    "in-place inside": (lambda m, x: m.func.grad(lambda a: a.clone().mul_(2).exp_().sum())(x), X),
    "in-place on views inside vmap of grad": (lambda m, x: m.func.vmap(m.func.grad(_overwritten))(x), X),
}


def _pulled(pair, cotangents):
    value, pull = pair
    return value, pull(cotangents), pull(cotangents)  # it can be called again


def _overwritten(a):
    b = a.clone()
    b[1:] = a[1:] * a[0]
    b[0] = b[1] * 2
    return b.sum()


@pytest.mark.parametrize("name", CASES)
def test_like_torch(name):
    function, *arrays = CASES[name]
    same(function, *arrays)


ERRORS = {
    "non-scalar": lambda m, x: m.func.grad(lambda a: a)(x),
    "no tensor": lambda m, x: m.func.grad(lambda a: 3.0)(x),
    "tuple": lambda m, x: m.func.grad(lambda a: (a.sum(), 1))(x),
    "aux without tuple": lambda m, x: m.func.grad(lambda a: a.sum(), has_aux=True)(x),
    "argnums": lambda m, x: m.func.grad(lambda a: a.sum(), argnums=3)(x),
    "integers": lambda m, x: m.func.grad(lambda a: a.sum())(m.tensor([1, 2])),
    "number": lambda m, x: m.func.grad(lambda a: a.sum())(3.0),
    "complex result": lambda m, x: m.func.grad(lambda a: a.sum())(m.complex(x, x)),
    "cotangent": lambda m, x: m.func.vjp(lambda a: a * 2, x)[1](m.ones(2)),
    "cotangent structure": lambda m, x: m.func.vjp(lambda a: (a, a), x)[1](x),
    "tangent": lambda m, x: m.func.jvp(lambda a: a * 2, (x,), (x[0],)),
    "tangents": lambda m, x: m.func.jvp(lambda a: a * 2, (x,), (x, x)),
    "primals": lambda m, x: m.func.jvp(lambda a: a * 2, x, x),
    "complex jacrev": lambda m, x: m.func.jacrev(lambda a: a * 1j)(x),
    "complex jacfwd": lambda m, x: m.func.jacfwd(lambda a: a.abs())(m.complex(x, x)),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_like_torch(name):
    assert len(same_error(ERRORS[name], X)) > 20


def test_attached_to_what_lies_outside():
    """A transform's result can be differentiated by leaves that it closes over, and only then requires grad."""

    def through(m, x):
        w = m.tensor([1.0, 2.0, 3.0, 4.0], dtype=m.float64, requires_grad=True)
        g = m.func.grad(lambda a: (w * a * a).sum())(x[0])
        value, (other,) = m.func.vjp(lambda a: a * w, x[0])[0], m.func.vjp(lambda a: a * 2, x[0])[1](x[1])
        return g, value, other, m.autograd.grad(g.sum(), w)

    same(through, X)


def test_inside_no_grad_it_differentiates_and_detaches():
    def inside(m, x):
        w = m.ones(4, dtype=m.float64, requires_grad=True)
        with m.no_grad():
            return m.func.grad(lambda a: (w * a * a).sum())(x[0]), m.func.jacrev(lambda a: w * a * a)(x[0])

    same(inside, X)


def test_no_grad_within_the_function_is_respected():
    def within(m, x):
        def f(a):
            with m.no_grad():
                c = a * 2
            return (a * c).sum()

        return m.func.grad(f)(x)

    same(within, X)


def test_value_and_grad_is_the_other_order():
    x = weft.tensor(X)
    (value, aux), gradient = func.value_and_grad(lambda a: ((a * a).sum(), a + 1), has_aux=True)(x)
    assert value.item() == pytest.approx((X * X).sum())
    np.testing.assert_allclose(gradient.numpy(), 2 * X)
    np.testing.assert_allclose(aux.numpy(), X + 1)


def test_jacfwd_in_chunks():
    x, w = weft.tensor(V), weft.tensor(W)
    expected = torch.func.jacfwd(lambda a: (torch.tensor(W) @ a).tanh())(torch.tensor(V))
    np.testing.assert_allclose(func.jacfwd(lambda a: (w @ a).tanh(), chunk_size=3)(x).numpy(), expected.numpy())


def test_hvp_is_the_hessian_times_v():
    f = lambda a: (a**3).sum() * a.sum()
    v, u = weft.tensor(V), weft.tensor(U)
    expected = torch.func.hessian(f)(torch.tensor(V)) @ torch.tensor(U)
    np.testing.assert_allclose(func.hvp(f, v, u).numpy(), expected.numpy(), rtol=1e-12)
    np.testing.assert_allclose(func.hvp(f, (v,), (u,))[0].numpy(), expected.numpy(), rtol=1e-12)


def test_linearize_runs_the_function_once():
    calls = []

    def f(a, b):
        calls.append(1)
        return (a * b).sin()

    a, b = weft.tensor(X), weft.tensor(Y)
    value, push = func.linearize(f, a, b)
    np.testing.assert_allclose(value.numpy(), np.sin(X * Y))
    for da, db in ((X, Y), (Y, Y)):
        expected = np.cos(X * Y) * (da * Y + X * db)
        np.testing.assert_allclose(push(weft.tensor(da), weft.tensor(db)).numpy(), expected, rtol=1e-12)
    assert len(calls) == 1


def test_arguments_are_left_alone():
    x = weft.tensor(X, requires_grad=True)
    func.hessian(lambda a: (a * a).sum())(x)
    func.grad(lambda a: (a * a).sum())(x)
    assert x.grad is None and x.is_leaf
    plain = weft.tensor(X)
    func.grad(lambda a: (a * a).sum())(plain)
    assert not plain.requires_grad
