"""vmap against torch.vmap and against a plain loop."""

import threading

import numpy as np
import pytest
import torch

import weft
from weft import vmap
from weft.errors import TransformError

from .oracle import same, same_error

rng = np.random.default_rng(1)
X, Y, W = rng.normal(size=(3, 4)), rng.normal(size=(3, 4)), rng.normal(size=(4, 4))
Z = rng.normal(size=(3, 4, 2))
INDEX = np.array([0, 3, 1])

CASES = {
    "elementwise": (lambda m, x, y: m.vmap(lambda a, b: a.sin() * b)(x, y), X, Y),
    "one mapped": (lambda m, x, w: m.vmap(lambda a, b: b @ a, in_dims=(0, None))(x, w), X, W),
    "last dimension": (lambda m, x: m.vmap(lambda a: a.sum(), in_dims=-1)(x), X),
    "out_dims": (lambda m, z: m.vmap(lambda a: (a * 2, a.sum(0)), out_dims=(1, -1))(z), Z),
    "middle to end": (lambda m, z: m.vmap(lambda a: a.exp(), in_dims=1, out_dims=-1)(z), Z),
    "number argument": (lambda m, x: m.vmap(lambda a, b: a * b, in_dims=(0, None))(x, 3), X),
    "keyword argument is not mapped": (lambda m, x: m.vmap(lambda a, *, s: (a * s).sum())(x, s=x), X),
    "dict": (lambda m, x, y: m.vmap(lambda d: {"r": [d["a"] + d["b"]]})({"a": x, "b": y}), X, Y),
    "dict of dims": (
        lambda m, x, w: m.vmap(lambda d: d["a"] + d["b"], in_dims=({"a": 0, "b": None},))({"a": x, "b": w[0]}),
        X,
        W,
    ),
    "nested tuple": (
        lambda m, x, w: m.vmap(lambda p, c: p[0] * p[1] + c, in_dims=((0, None), None))((x, w[0]), 2.0),
        X,
        W,
    ),
    "constant result": (lambda m, x: m.vmap(lambda a: m.ones(2))(x), X),
    "constant result, no dim": (lambda m, x: m.vmap(lambda a: (a, m.ones(2)), out_dims=(0, None))(x), X),
    "nested": (lambda m, x, w: m.vmap(m.vmap(lambda a, b: a * b, in_dims=(0, None)), in_dims=(0, None))(x, w), X, W),
    "nested, crossed": (
        lambda m, x, w: m.vmap(lambda a: m.vmap(lambda b: (a * b).sum())(w), out_dims=1)(x),
        X,
        W,
    ),
    "three deep": (
        lambda m, z: m.vmap(lambda a: m.vmap(lambda b: m.vmap(lambda c: c * b.sum() + a.sum())(b))(a))(z),
        Z,
    ),
    "chunks": (lambda m, x: m.vmap(lambda a: (a.sin(), a.sum()), out_dims=(1, 0), chunk_size=2)(x), X),
    "empty batch": (lambda m, x: m.vmap(lambda a: (a.sin(), a.sum()))(x[:0]), X),
    "promotion of 0-d": (lambda m, x: m.vmap(lambda a: a + m.tensor([1.0, 2.0], dtype=m.float32))(x[:, 0]), X),
    "integers": (lambda m, x: m.vmap(lambda a: (a * 2, a / 2, a > 1))(m.arange(3)), X),
    "reductions": (
        lambda m, x: m.vmap(lambda a: (a.sum(), a.mean(), a.max(), a.argmax(), a.prod(), a.logsumexp(0), a.softmax(0)))(
            x
        ),
        X,
    ),
    "reductions with dim": (lambda m, z: m.vmap(lambda a: (a.sum(-1), a.amax((0, 1)), a.std(0), a.cumsum(1)))(z), Z),
    "shapes": (
        lambda m, z: m.vmap(
            lambda a: (a.T, a.reshape(-1), a.unsqueeze(0), a.flip(0), a[1:], a[None, 0], a.movedim(0, 1))
        )(z),
        Z,
    ),
    "joining": (lambda m, x, w: m.vmap(lambda a: (m.stack([a, w[0]], 1), m.cat([a, w[1]])))(x), X, W),
    "splitting": (lambda m, x: m.vmap(lambda a: (*a.split(3), *a.chunk(2), *a.unbind()))(x), X),
    "indexing": (lambda m, x, i: m.vmap(lambda a, k: (a[k], a[[0, 2]], a[1], a[..., -1]))(x, i), X, INDEX),
    "index of what is not mapped": (lambda m, w, i: m.vmap(lambda k: w[k])(i), W, INDEX),
    "gather and scatter": (
        lambda m, x, y: m.vmap(lambda a, b: (a.gather(0, a.argsort()), m.zeros_like(a).scatter(0, b.argsort(), a)))(
            x, y
        ),
        X,
        Y,
    ),
    "where": (lambda m, x: m.vmap(lambda a: m.where(a > 0, a, 0.0))(x), X),
    "sorting": (lambda m, x: m.vmap(lambda a: (a.sort().values, a.topk(2).values))(x), X),
    "matrix products": (
        lambda m, z, w: m.vmap(lambda a: (w @ a, a.T @ w, m.einsum("ij,ik->jk", a, a), a[:, 0].dot(a[:, 1])))(z),
        Z,
        W,
    ),
    "linear algebra": (
        lambda m, x, w: m.vmap(lambda a: (m.linalg.solve(w, a), m.linalg.det(w * a), m.linalg.inv(w + m.diag(a))))(x),
        X,
        W,
    ),
    "in place": (lambda m, x, y: m.vmap(lambda a, b: a.clone().add_(b).mul_(2).clamp_(-1, 1))(x, y), X, Y),
    "written views": (lambda m, x, y: m.vmap(lambda a, b: _written(a.clone(), b))(x, y), X, Y),
    "like": (lambda m, x: m.vmap(lambda a: m.zeros_like(a) + m.ones_like(a) + a.new_full((4,), 2.0))(x), X),
    "gradients through it": (lambda m, x, w: _gradients(m, x, w), X, W),
}


def _written(a, b):
    a[0] = 5.0
    a[1:3] = b[:2]
    a[-1] += b[0]
    return a


def _gradients(m, x, w):
    x.requires_grad_()
    w.requires_grad_()
    y = m.vmap(lambda a: (w @ a).tanh() * a[0], out_dims=1)(x)
    return m.autograd.grad(y.square().sum(), (x, w))


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("name", CASES)
def test_like_torch(name):
    function, *arrays = CASES[name]
    same(function, *arrays)


ERRORS = {
    "dim out of range": lambda m, x: m.vmap(m.sin, in_dims=5)(x),
    "dims None": lambda m, x: m.vmap(m.sin, in_dims=None)(x),
    "dims list": lambda m, x: m.vmap(lambda a, b: a, in_dims=[0, None])(x, 3),
    "sizes differ": lambda m, x: m.vmap(lambda a, b: a + b)(x, m.ones(2)),
    "not a tensor": lambda m, x: m.vmap(lambda a, b: a + b)(x, 3),
    "structure": lambda m, x: m.vmap(lambda a, b: a + b, in_dims=(0,))(x, 3),
    "nothing mapped": lambda m, x: m.vmap(lambda a: a, in_dims=(None,))(x),
    "no inputs": lambda m, x: m.vmap(lambda: m.ones(2))(),
    "0-d": lambda m, x: m.vmap(m.sin)(m.tensor(1.0)),
    "item": lambda m, x: m.vmap(lambda a: a.item())(x[:, 0]),
    "if": lambda m, x: m.vmap(lambda a: a if a > 0 else -a)(x[:, 0]),
    "mask": lambda m, x: m.vmap(lambda a: a[a > 0])(x),
    "nonzero": lambda m, x: m.vmap(lambda a: a.nonzero())(x),
    "number result": lambda m, x: m.vmap(lambda a: 3)(x),
    "out_dims structure": lambda m, x: m.vmap(lambda a: (a, a), out_dims=(0, 1, 1))(x),
    "out_dim out of range": lambda m, x: m.vmap(lambda a: a, out_dims=7)(x),
    "out_dim None": lambda m, x: m.vmap(lambda a: a, out_dims=None)(x),
    "chunk size": lambda m, x: m.vmap(m.sin, chunk_size=0)(x),
    "randomness": lambda m, x: m.vmap(m.sin, randomness="often")(x),
    "random": lambda m, x: m.vmap(lambda a: a + m.randn(4))(x),
    "in place": lambda m, x: m.vmap(lambda a: m.zeros(4).copy_(a))(x),
    "backward": lambda m, x: m.vmap(lambda a: a.sum().backward())(x.requires_grad_()),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_like_torch(name):
    assert len(same_error(ERRORS[name], X)) > 20


def test_escaped_tensor_is_refused():
    kept = []
    vmap(lambda a: kept.append(a) or a)(weft.tensor(X))
    with pytest.raises(TransformError, match="outside the vmap"):
        kept[0] + 1


def test_grad_by_what_does_not_vary_is_refused():
    w = weft.ones(4, dtype=weft.float64, requires_grad=True)
    with pytest.raises(TransformError, match=r"func\.grad"):
        vmap(lambda a: weft.autograd.grad((w * a).sum(), w)[0])(weft.tensor(X))


def test_random_numbers_are_those_of_a_loop():
    x = weft.tensor(X)
    f = lambda a: a + weft.randn(4, dtype=weft.float64)
    weft.manual_seed(3)
    together = vmap(f, randomness="different")(x)
    weft.manual_seed(3)
    one_by_one = weft.stack([f(row) for row in x])
    assert weft.equal(together, one_by_one)


def test_same_random_numbers_for_all():
    x = weft.ones(3, 4)
    y = vmap(lambda a: a + weft.randn(4), randomness="same")(x)
    assert weft.equal(y[0], y[1]) and weft.equal(y[1], y[2]) and not weft.equal(y[0, :2], y[0, 2:])
    z = vmap(lambda p: weft.bernoulli(p), randomness="same")(weft.full((3, 50), 0.5))
    assert weft.equal(z[0], z[1]) and 0 < z.sum() < 150


def test_nested_randomness():
    x = weft.ones(2, 3)
    y = vmap(vmap(lambda a: weft.randn(()), randomness="same"), randomness="different")(x)
    assert len(set(y[0].tolist())) == 1 and y[0, 0] != y[1, 0]
    z = vmap(vmap(lambda a: weft.randn(()), randomness="different"), randomness="same")(x)
    assert weft.equal(z[0], z[1]) and len(set(z[0].tolist())) == 3


def test_hooks_see_one_example():
    shapes = []

    def f(a):
        b = a * 2
        b.register_hook(lambda g: shapes.append(tuple(g.shape)) or g * g.sum())
        return (b * b).sum()

    x = weft.tensor(X, requires_grad=True)
    vmap(f)(x).sum().backward()
    assert shapes == [(4,)]
    np.testing.assert_allclose(x.grad.numpy(), 2 * 4 * X * (4 * X).sum(1, keepdims=True))


def test_shows_itself():
    shown = []
    vmap(lambda a: shown.append((repr(a), a.shape, a.ndim, a.dtype, a.stride(), len(a), a.numel())) or a)(
        weft.ones(2, 3)
    )
    text, *rest = shown[0]
    assert "size=2" in text and rest == [(3,), 1, weft.float32, (1,), 3, 3]


def test_inputs_are_not_touched():
    x = weft.tensor(X)
    vmap(lambda a: a.requires_grad_().sin())(x)
    assert not x.requires_grad and x._interpreter is None


def test_threads_do_not_meet():
    results = {}

    def work(number):
        x = weft.full((5, 3), float(number))
        for _ in range(20):
            results[number] = vmap(lambda a: (a * number).sum())(x)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in range(4):
        assert results[k].tolist() == [3.0 * k * k] * 5


def test_common_operations_need_no_loop(monkeypatch):
    """The general rule, example by example, ends in `stacked`; these have better rules."""

    def refuse(rows):
        raise AssertionError("ran example by example")

    monkeypatch.setattr("weft.ops.core.batching.stacked", refuse)
    w = weft.tensor(W)
    vmap(lambda a: ((a * 2 + 1).sin().sum(), w @ a, a.softmax(0), a.reshape(2, 2).T[0], a.cumsum(0), a[1:].amax()))(
        weft.tensor(X)
    )
    with pytest.raises(AssertionError):
        vmap(lambda a: weft.as_strided(a, (2,), (2,)))(weft.tensor(X))


def test_torch_and_we_agree_on_attached_outputs():
    x = weft.tensor(X, requires_grad=True)
    assert vmap(lambda a: a * 2)(x).requires_grad
    assert not vmap(lambda a: a.detach() * 2)(x).requires_grad
    assert torch.vmap(lambda a: a * 2)(torch.tensor(X, requires_grad=True)).requires_grad
