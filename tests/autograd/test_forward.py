"""Forward mode: values against PyTorch's and against reverse mode, what it keeps, and what it leaves behind."""

import gc
import weakref

import numpy as np
import pytest
import torch

import weft
from weft import func
from weft.autograd import forward
from weft.tape import tape
from weft.tape.node import Node

from .oracle import same, same_error

rng = np.random.default_rng(3)
V, U = rng.normal(size=4), rng.normal(size=4)
X, Y = rng.normal(size=(3, 4)), rng.normal(size=(3, 4))
W = rng.normal(size=(4, 4))


def _written(m, a):
    b = m.zeros(4, dtype=m.float64)
    b[1:3] = a[:2] * a[2]
    view = b.reshape(2, 2).t()
    view[0].mul_(a[3])
    b[0] = view[1, 1].exp()
    return b


def _without_grad(m, a):
    with m.no_grad():
        c = a * a
    return a - c


def _gradient_inside(m, a):
    energy = lambda b: (b**3).sum() * b.sum()
    if m is torch:  # it wants its own transform here
        return m.func.grad(energy)(a)
    a.requires_grad_()
    return m.autograd.grad(energy(a), a, create_graph=True)[0]


def _normalised(m, a):
    """PyTorch's own layer_norm has a wrong jvp of jvp (checked by differences), so here it is written out."""
    if m is weft:
        return m.nn.functional.layer_norm(m.outer(a, a.exp()), (4,), a, a)[0]
    x = m.outer(a, a.exp())
    centred = x - x.mean(1, keepdim=True)
    return ((centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt()) * a + a)[0]


def _branches(m, a):
    return a * 2 if a.sum() > 0 else a.exp()


CASES = {
    "chain": lambda m, a: (a.sin() * a.exp()).cumsum(0).tanh(),
    "writes through views": _written,
    "no_grad does not stop tangents": _without_grad,
    "detach does": lambda m, a: a * a.detach(),
    "a gradient inside": _gradient_inside,
    "branches on values": _branches,
    "several outputs": lambda m, a: [x * x for x in m.linalg.eigh(m.outer(a, a) + m.diag(m.arange(4.0).double()))],
    "sorted": lambda m, a: m.sort(a * a)[0],
    "pieces": lambda m, a: m.cat([p * p.sum() for p in a.split(2)]),
    "integers beside": lambda m, a: a[m.tensor([3, 0, 0])] * m.arange(3),
    "products": lambda m, a: (m.outer(a, a) @ m.outer(a, a).exp()).diagonal(),
    "complex in between": lambda m, a: m.fft.ifft(m.fft.fft(a) * m.fft.fft(a.flip(0))).abs(),
    "softmax": lambda m, a: m.softmax(a, 0) * m.log_softmax(a * a, 0),
    "reductions": lambda m, a: m.stack([a.prod(), a.var(), a.norm(), a.logsumexp(0), a.amax(), a.median(), a.mean()]),
    "padded": lambda m, a: m.nn.functional.pad(a, (1, 2), value=7.0).exp(),
    "as_strided": lambda m, a: m.as_strided(m.outer(a, a).t().contiguous(), (3, 3), (1, 2), 1).sin(),
    "windows": lambda m, a: m.nn.functional.conv1d(a[None, None], a[None, None, :2] * 2, a[:1])[0, 0],
    "largest of windows": lambda m, a: m.nn.functional.max_pool1d((a * a)[None], 2, 1)[0],
    "normalised": _normalised,
}


@pytest.mark.parametrize("name", CASES)
def test_jvp_and_its_jvp_equal_torch(name):
    """First and second directional derivatives, and the Jacobian."""
    function = CASES[name]

    def once(m, v, u):
        return m.func.jvp(lambda a: function(m, a), (v,), (u,))

    def twice(m, v, u):
        return m.func.jvp(lambda a: m.func.jvp(lambda b: function(m, b), (a,), (u,))[1], (v,), (u,))[1]

    same(once, V, U)
    same(twice, V, U)


@pytest.mark.parametrize("name", CASES)
def test_jacobians_agree(name):
    """jacfwd = jacrev; forward over forward = reverse over reverse, where recording is not switched off inside."""
    if name == "no_grad does not stop tangents":
        pytest.skip("reverse mode sees something else there")
    f, x = (lambda a: CASES[name](weft, a)), weft.tensor(V)
    single = lambda tree: [t.numpy() for t in (tree if isinstance(tree, list) else (tree,))]
    for ours, reference in (
        (func.jacfwd(f)(x), func.jacrev(f)(x)),
        (func.jacfwd(func.jacfwd(f))(x), func.jacrev(func.jacrev(f))(x)),
        (func.jacfwd(func.jacrev(f))(x), func.jacrev(func.jacrev(f))(x)),
        (func.jacrev(func.jacfwd(f))(x), func.jacrev(func.jacrev(f))(x)),
    ):
        for a, b in zip(single(ours), single(reference), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)


COMPOSED = {
    "gradient by the tangent": lambda m, v, u: m.func.grad(
        lambda t: m.func.jvp(lambda a: a.sin() * a, (v,), (t,))[1].sum()
    )(u),
    "gradient by both": lambda m, v, u: m.func.grad(
        lambda a, t: m.func.jvp(lambda b: (b**3).exp(), (a,), (t,))[1].sum(), argnums=(0, 1)
    )(v, u),
    "no confusion of perturbations": lambda m, v, u: m.func.jvp(
        lambda x: x * m.func.jvp(lambda y: x + y, (m.ones_like(v),), (m.ones_like(v),))[1], (v,), (u,)
    ),
    "grad inside": lambda m, v, u: m.func.jvp(lambda x: m.func.grad(lambda y: (x * y * y).sum())(x * x), (v,), (u,)),
    "vjp inside": lambda m, v, u: m.func.jvp(lambda x: m.func.vjp(lambda y: (y * x).sin(), x)[1](x)[0], (v,), (u,)),
    "vmap of jvp of grad": lambda m, v, u: m.func.vmap(
        lambda s: m.func.jvp(m.func.grad(lambda x: (x * x * s).sin().sum()), (v,), (u,))[1]
    )(u),
    "jvp of vmap of jacfwd": lambda m, v, u: m.func.jvp(
        m.func.vmap(m.func.jacfwd(lambda s: m.stack([s.sin(), s * s]))), (v,), (u,)
    ),
    "third order": lambda m, v, u: m.func.jacfwd(m.func.jacrev(m.func.jacfwd(lambda x: (x * x).sin().sum())))(v),
    "hessian under no_grad": lambda m, v, u: _quietly(m, lambda: m.func.hessian(lambda x: (x**3).sum() * x.sum())(v)),
    "jvp under no_grad": lambda m, v, u: _quietly(m, lambda: m.func.jvp(lambda x: x.sin(), (v,), (u,))),
}


def _quietly(m, function):
    with m.no_grad():
        return function()


@pytest.mark.parametrize("name", COMPOSED)
def test_composes_as_torch(name):
    same(COMPOSED[name], V, U)


# -------------------------------------------------------------------------------- what it does not do


def test_no_reverse_sweep(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a reverse sweep was run")

    monkeypatch.setattr(tape, "sweep", refuse)
    w = weft.tensor(W)
    f = lambda a: ((w @ a).tanh() * a.exp()).reshape(2, 2).t().sum(0)
    func.jvp(f, (weft.tensor(V),), (weft.tensor(U),))
    func.jacfwd(func.jacfwd(f))(weft.tensor(V))


DEEP = {
    "elementwise": lambda x: x.sin() * 1.01,
    "product": lambda x: (weft.tensor(W) @ x).tanh(),
    "views and sums": lambda x: x.reshape(2, 2).t().reshape(4) + x.sum(),
    "by the adjoint": lambda x: weft.linalg.solve(weft.eye(4, dtype=weft.float64) + weft.outer(x, x), x),
    "in place": lambda x: x.clone().mul_(0.5).add_(x),
}


@pytest.mark.parametrize("name", DEEP)
@pytest.mark.parametrize("order", [1, 2])
def test_memory_does_not_grow_with_depth(name, order, monkeypatch):
    """The nodes of the tape that are alive at once: as many after 60 steps as after 15."""
    alive = weakref.WeakSet()
    original = forward.push_node

    def counted(node, out):
        alive.add(node)
        most[0] = max(most[0], len(alive))
        return original(node, out)

    monkeypatch.setattr(forward, "push_node", counted)

    def peak(depth):
        def f(x):
            for _ in range(depth):
                x = DEEP[name](x)
            return x

        g = f if order == 1 else lambda x: func.jvp(f, (x,), (weft.tensor(V),))[1]
        most[0] = 0
        func.jvp(g, (weft.tensor(V),), (weft.tensor(U),))
        return most[0]

    most = [0]
    gc.collect()
    gc.disable()
    try:
        shallow, deep = peak(15), peak(60)
    finally:
        gc.enable()
    assert 0 < deep <= shallow + 2, (shallow, deep)


def test_a_deep_network_without_gradients_keeps_nothing():
    """Under no_grad parameters do not hold the tape either; with recording they do, since gradients may be asked for."""
    net = weft.nn.Sequential(*(weft.nn.Linear(8, 8) for _ in range(20)))
    x, t = weft.randn(3, 8), weft.randn(3, 8)
    nodes = lambda y: len(tape.collect([tape.edge_of(y)])) if y.requires_grad else 0
    with weft.no_grad():
        value, pushed = func.jvp(net, (x,), (t,))
    assert nodes(value) == nodes(pushed) == 0
    value, pushed = func.jvp(net, (x,), (t,))
    assert nodes(value) == nodes(pushed) == 20
    frozen = func.jvp(net.requires_grad_(False), (x,), (t,))
    assert nodes(frozen[0]) == nodes(frozen[1]) == 0
    np.testing.assert_array_equal(frozen[1].numpy(), pushed.detach().numpy())


def test_nothing_is_left_behind():
    buffer, norm = weft.zeros(4, dtype=weft.float64), weft.nn.BatchNorm1d(4).double()
    parameter = weft.nn.Parameter(weft.zeros(4, dtype=weft.float64))

    def f(x):
        buffer.copy_(x * 2)
        with weft.no_grad():
            parameter.add_(x)
        return norm(x.outer(x)).sum()

    func.jvp(f, (weft.tensor(V),), (weft.tensor(U),))
    for x in (buffer, norm.running_mean, norm.running_var):
        assert x.node is None and not x.requires_grad
    assert parameter.is_leaf and parameter.requires_grad
    np.testing.assert_array_equal(buffer.numpy(), 2 * V)
    np.testing.assert_array_equal(parameter.detach().numpy(), V)
    assert not any(type(x) is Node and x._tangents for x in gc.get_objects())


def test_chunks_draw_the_same_numbers():
    weft.manual_seed(0)
    x = weft.tensor(V)
    f = lambda a: a * weft.rand(4, dtype=weft.float64)
    slopes = func.jacfwd(f, chunk_size=1)(x).numpy()
    after = weft.rand(1).item()
    weft.manual_seed(0)
    np.testing.assert_array_equal(slopes, np.diag(weft.rand(4, dtype=weft.float64).numpy()))
    assert after == weft.rand(1).item()


def test_sizes_of_nothing():
    empty = weft.zeros(0, dtype=weft.float64)
    assert func.jacfwd(lambda a: a * 2)(empty).shape == (0, 0)
    assert func.jacfwd(lambda a: a.sum())(empty).shape == (0,)
    value, pushed = func.jvp(lambda a: a.exp(), (empty,), (empty,))
    assert value.shape == pushed.shape == (0,)


# -------------------------------------------------------------------------------------- layers, compiled

LAYERS = {
    "linear": (lambda m: m.nn.Linear(4, 5), (3, 4)),
    "convolution": (lambda m: m.nn.Conv2d(2, 3, 3, padding=1), (2, 2, 5, 5)),
    "transposed": (lambda m: m.nn.ConvTranspose2d(2, 3, 3, stride=2), (2, 2, 4, 4)),
    "batch norm": (lambda m: m.nn.BatchNorm2d(2), (3, 2, 4, 4)),
    "layer norm": (lambda m: m.nn.LayerNorm(4), (3, 4)),
    "group norm": (lambda m: m.nn.GroupNorm(2, 4), (3, 4, 2)),
    "lstm": (lambda m: m.nn.LSTM(4, 3, batch_first=True), (2, 5, 4)),
    "gru": (lambda m: m.nn.GRU(4, 3), (5, 2, 4)),
    "encoder": (lambda m: m.nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True), (2, 3, 4)),
    "pooling": (lambda m: m.nn.AvgPool2d(2), (2, 2, 4, 4)),
    "bilinear": (lambda m: m.nn.Upsample(scale_factor=2, mode="bilinear"), (1, 2, 3, 3)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_equal_torch(name):
    """Jv by the input of whole layers, with the same weights."""
    make, shape = LAYERS[name]
    theirs, ours = make(torch).double(), make(weft).double()
    ours.load_state_dict({k: weft.tensor(p.numpy()) for k, p in theirs.state_dict().items()})
    x, t = rng.normal(size=shape), rng.normal(size=shape)
    first = lambda y: y[0] if isinstance(y, tuple) else y
    leaf = torch.tensor(x, requires_grad=True)
    y = first(theirs(leaf))
    u = torch.tensor(rng.normal(size=tuple(y.shape)))
    (pulled,) = torch.autograd.grad(y, leaf, u)
    _, pushed = func.jvp(lambda a: first(ours(a)), (weft.tensor(x),), (weft.tensor(t),))
    found = (pushed.detach().numpy() * u.numpy()).sum()  # ⟨u, Jt⟩ = ⟨Jᵀu, t⟩
    assert found == pytest.approx((pulled.numpy() * t).sum(), rel=1e-9)


def test_inside_compiled_functions_and_of_them():
    w, x, t = weft.tensor(W), weft.tensor(V), weft.tensor(U)
    f = lambda a: (w @ a).tanh() * a.sum()
    expected = torch.func.jvp(lambda a: (torch.tensor(W) @ a).tanh() * a.sum(), (torch.tensor(V),), (torch.tensor(U),))
    for found in (weft.compile(lambda a, b: func.jvp(f, (a,), (b,)))(x, t), func.jvp(weft.compile(f), (x,), (t,))):
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-12)
    compiled = weft.compile(func.hessian(lambda a: f(a).sum()))
    np.testing.assert_allclose(compiled(x).numpy(), func.hessian(lambda a: f(a).sum())(x).numpy(), rtol=1e-10)


def test_checkpointed_functions():
    f = lambda a: weft.autograd.checkpoint(lambda b: (b * b).sin().exp(), a).sum()
    plain = lambda a: (a * a).sin().exp().sum()
    x, t = weft.tensor(V), weft.tensor(U)
    np.testing.assert_allclose(func.jvp(f, (x,), (t,))[1].numpy(), func.jvp(plain, (x,), (t,))[1].numpy())
    np.testing.assert_allclose(func.hessian(f)(x).numpy(), func.hessian(plain)(x).numpy())


# ------------------------------------------------------------------------------------------ forward_ad


def test_dual_numbers_like_torch():
    def dual(m, x, t):
        ad = m.autograd.forward_ad
        weight = m.ones(4, dtype=m.float64, requires_grad=True)
        with ad.dual_level():
            a = ad.make_dual(x, t)
            y = (a * a * weight).sin()
            value, tangent = ad.unpack_dual(y)
            (slope,) = m.autograd.grad(tangent.sum(), weight, retain_graph=True)
            constant = ad.unpack_dual(x)
            with m.no_grad():
                silent = ad.unpack_dual(a * 3).tangent
        assert constant.tangent is None and ad.unpack_dual(y).tangent is None
        assert not a.requires_grad and y.requires_grad and value.requires_grad
        return value, tangent, slope, silent

    same(dual, V, U)


def test_hessian_times_vector_by_a_backward_pass_on_dual_numbers():
    def product(m, x, t):
        ad = m.autograd.forward_ad
        p = m.tensor(V, requires_grad=True)
        with ad.dual_level():
            dual = ad.make_dual(p, t)
            (g,) = m.autograd.grad((dual**3).sum() * dual.sum(), dual)
            return ad.unpack_dual(g).tangent

    same(product, V, U)


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_the_derivative_of_a_training_by_its_learning_rate(steps):
    """Gradients inside, steps in place under no_grad: p ← p − η · 2c (p − m), so p_k − m = (1 − 2ηc)ᵏ (p₀ − m).

    PyTorch's `.backward()` leaves gradients without tangents, so here it is the closed form that tells.
    """
    ad, c = weft.autograd.forward_ad, np.abs(U)
    p, middle = weft.nn.Parameter(weft.tensor(V)), weft.tensor(U)
    optimizer = weft.optim.SGD([p], lr=1.0)
    with ad.dual_level():
        eta = ad.make_dual(weft.tensor(0.1, dtype=weft.float64), weft.tensor(1.0, dtype=weft.float64))
        for _ in range(steps):
            optimizer.zero_grad()
            (((p - middle) ** 2 * middle.abs()).sum() * eta).backward()
            optimizer.step()
        value, slope = ad.unpack_dual(p)
        np.testing.assert_allclose(value.detach().numpy() - U, (V - U) * (1 - 0.2 * c) ** steps, rtol=1e-12)
        expected = (V - U) * steps * (1 - 0.2 * c) ** (steps - 1) * -2 * c
        np.testing.assert_allclose(slope.numpy(), expected, rtol=1e-12)
    assert p.is_leaf and p.requires_grad and ad.unpack_dual(p).tangent is None and not p.grad.requires_grad


DUAL_ERRORS = {
    "no level": lambda m, x: m.autograd.forward_ad.make_dual(x, x),
    "exit": lambda m, x: m.autograd.forward_ad.exit_dual_level(),
    "nested": lambda m, x: _in_level(m, lambda ad: ad.enter_dual_level()),
    "sizes": lambda m, x: _in_level(m, lambda ad: ad.make_dual(x, x[0])),
    "integers": lambda m, x: _in_level(m, lambda ad: ad.make_dual(m.tensor([1]), m.tensor([1]))),
}


def _in_level(m, function):
    with m.autograd.forward_ad.dual_level():
        function(m.autograd.forward_ad)


@pytest.mark.parametrize("name", DUAL_ERRORS)
def test_dual_errors_like_torch(name):
    import torch.autograd.forward_ad  # noqa: F401  it is not there before

    same_error(DUAL_ERRORS[name], X)


def test_a_function_of_the_users_with_its_own_jvp():
    """PyTorch's protocol: save_for_forward, then jvp with one tangent for each argument."""

    def cubed(m, v, u):
        class Cube(m.autograd.Function):
            @staticmethod
            def forward(x):
                return x**3

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.save_for_backward(*inputs)
                ctx.save_for_forward(*inputs)

            @staticmethod
            def jvp(ctx, t):
                (x,) = ctx.saved_tensors
                return 30 * x**2 * t  # wrong by a factor of 10, to be seen

            @staticmethod
            def backward(ctx, g):
                (x,) = ctx.saved_tensors
                return 3 * x**2 * g

        return m.func.jvp(Cube.apply, (v,), (u,)), m.func.grad(lambda x: Cube.apply(x).sum())(v)

    same(cubed, V, U)
