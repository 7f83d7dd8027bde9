"""functional_call and stack_module_state against torch.func, on one module written for both."""

import functools

import numpy as np
import pytest
import torch

import weft
import weft.nn

from .oracle import same, same_error

X = np.random.default_rng(0).normal(size=(5, 3))


@functools.cache
def classes(m):
    class Inner(m.nn.Module):
        def __init__(self, rng):
            super().__init__()
            self.weight = m.nn.Parameter(m.tensor(rng.normal(size=(3, 3))))
            self.register_buffer("shift", m.tensor(rng.normal(size=3)))

        def forward(self, x):
            return (x @ self.weight).tanh() + self.shift

    class Outer(m.nn.Module):
        def __init__(self, rng):
            super().__init__()
            self.inner = Inner(rng)
            self.again = self.inner
            self.scale = m.nn.Parameter(m.tensor(rng.normal(size=3)))
            self.tied = self.scale

        def forward(self, x, power=1):
            return self.again(self.inner(x)) * self.scale * self.tied**power

    return Outer


def model(m, seed=0):
    return classes(m)(np.random.default_rng(seed))


CASES = {
    "some": lambda m, x: m.func.functional_call(model(m), {"scale": m.ones(3, dtype=m.float64)}, (x,)),
    "keywords": lambda m, x: m.func.functional_call(model(m), {"scale": x[0]}, x, {"power": 2}),
    "untied": lambda m, x: m.func.functional_call(model(m), {"scale": x[0]}, x, tie_weights=False),
    "nested": lambda m, x: m.func.functional_call(model(m), {"inner.weight": x[:3], "inner.shift": x[0]}, x),
    "two dicts": lambda m, x: m.func.functional_call(model(m), ({"scale": x[0]}, {"inner.shift": x[1]}), x),
    "unknown": lambda m, x: m.func.functional_call(model(m), {"other": x[0]}, x),
    "gradients": lambda m, x: _gradients(m, x),
    "per example": lambda m, x: _per_example(m, x),
    "ensemble": lambda m, x: _ensemble(m, x),
}


def _state(m):
    net = model(m)
    return net, {k: v.detach() for k, v in net.named_parameters()}, dict(net.named_buffers())


def _gradients(m, x):
    net, params, buffers = _state(m)
    loss = lambda p: (m.func.functional_call(net, (p, buffers), x) ** 2).sum()
    return m.func.grad(loss)(params), m.func.jacrev(loss)(params)


def _per_example(m, x):
    net, params, _ = _state(m)
    loss = lambda p, a: (m.func.functional_call(net, p, a) ** 2).sum()
    return m.func.vmap(m.func.grad(loss), in_dims=(None, 0))(params, x)


def _ensemble(m, x):
    nets = [model(m, seed) for seed in range(3)]
    params, buffers = m.func.stack_module_state(nets)
    base = model(m)
    run = lambda p, b, a: m.func.functional_call(base, (p, b), a)
    together = m.func.vmap(run, in_dims=(0, 0, None))(params, buffers, x)
    alone = m.stack([net(x) for net in nets])
    assert bool((together - alone).abs().max() < 1e-12)
    return params, buffers, together


@pytest.mark.parametrize("name", CASES)
def test_like_torch(name):
    same(CASES[name], X)


ERRORS = {
    "strict": lambda m, x: m.func.functional_call(model(m), {"scale": x[0]}, x, strict=True),
    "tied twice": lambda m, x: m.func.functional_call(model(m), {"scale": x[0], "tied": x[1]}, x),
    "twice": lambda m, x: m.func.functional_call(model(m), ({"scale": x[0]}, {"scale": x[1]}), x),
    "no models": lambda m, x: m.func.stack_module_state([]),
    "modes": lambda m, x: m.func.stack_module_state([model(m), model(m).eval()]),
    "classes": lambda m, x: m.func.stack_module_state([model(m), m.nn.Module()]),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_like_torch(name):
    assert len(same_error(ERRORS[name], X)) > 20


def test_no_tensor_is_a_type_error():
    for m in (weft, torch):
        with pytest.raises(TypeError):
            m.func.functional_call(model(m), {"scale": 3.0}, m.tensor(X))


def test_module_is_left_as_it_was_even_after_an_error():
    net = model(weft)
    before = dict(net.named_parameters())
    with pytest.raises(RuntimeError):
        weft.func.functional_call(net, {"inner.weight": weft.ones(7, 7, dtype=weft.float64)}, weft.tensor(X))
    assert all(v is before[k] for k, v in net.named_parameters())
