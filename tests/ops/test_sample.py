"""Random tensors: the laws they follow, generators and states, in-place filling, what PyTorch refuses."""

from __future__ import annotations

import copy
import pickle
import threading

import numpy as np
import pytest
import scipy.stats as stats
import torch

import weft
from weft.ops.create.sample import bernoulli_mask
from weft.tape.modes import mode

COUNT = 20_000


@pytest.fixture(autouse=True)
def seeded():
    weft.manual_seed(7)


# ----------------------------------------------------------------------------------------- laws

CONTINUOUS = {
    "rand": (lambda x: weft.rand_like(x), stats.uniform()),
    "randn": (lambda x: weft.randn_like(x), stats.norm()),
    "uniform": (lambda x: weft.uniform(-3, 4.5, x.shape, dtype=x.dtype), stats.uniform(-3, 7.5)),
    "normal": (lambda x: weft.normal(x * 0 + 2, 3.0), stats.norm(2, 3)),
    "uniform_": (lambda x: x.uniform_(-2, 5), stats.uniform(-2, 7)),
    "normal_": (lambda x: x.normal_(1, 0.5), stats.norm(1, 0.5)),
    "exponential_": (lambda x: x.exponential_(1.5), stats.expon(scale=1 / 1.5)),
    "cauchy_": (lambda x: x.cauchy_(1, 2), stats.cauchy(1, 2)),
    "log_normal_": (lambda x: x.log_normal_(0.5, 0.25), stats.lognorm(0.25, scale=np.exp(0.5))),
}


@pytest.mark.parametrize("dtype", [weft.float32, weft.float64])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_laws(name, dtype):
    """Kolmogorov and Smirnov do not reject at 1 in 1000."""
    sample, law = CONTINUOUS[name]
    values = sample(weft.zeros(COUNT, dtype=dtype))
    assert values.dtype is dtype
    assert stats.kstest(values.double().numpy(), law.cdf).pvalue > 1e-3


DISCRETE = {
    "randint": (lambda: weft.randint(3, 9, (COUNT,)), stats.randint(3, 9)),
    "random_": (lambda: weft.empty(COUNT, dtype=weft.int32).random_(2, 7), stats.randint(2, 7)),
    "geometric_": (lambda: weft.empty(COUNT).geometric_(0.3), stats.geom(0.3)),
    "bernoulli": (lambda: weft.bernoulli(weft.full((COUNT,), 0.3)), stats.bernoulli(0.3)),
    "bernoulli_": (lambda: weft.empty(COUNT).bernoulli_(0.3), stats.bernoulli(0.3)),
    "poisson": (lambda: weft.poisson(weft.full((COUNT,), 3.5)), stats.poisson(3.5)),
    "binomial": (lambda: weft.binomial(weft.full((COUNT,), 12.0), weft.full((COUNT,), 0.3)), stats.binom(12, 0.3)),
    "multinomial": (
        lambda: weft.multinomial(weft.tensor([0.1, 0.2, 0.7]), COUNT, replacement=True),
        stats.rv_discrete(values=([0, 1, 2], [0.1, 0.2, 0.7])),
    ),
}


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_laws(name):
    """χ² over the values that occur often does not reject at 1 in 1000."""
    sample, law = DISCRETE[name]
    values = sample().long().numpy()
    low, high = values.min(), values.max()
    support = np.arange(low, high + 1)
    expected = COUNT * law.pmf(support)
    seen = np.bincount(values - low, minlength=len(support))
    often = expected > 10
    seen = np.append(seen[often], COUNT - seen[often].sum())
    expected = np.append(expected[often], max(COUNT - expected[often].sum(), 1e-9))
    if seen[-1] == 0:
        seen, expected = seen[:-1], expected[:-1] * seen.sum() / expected[:-1].sum()
    assert stats.chisquare(seen, expected * seen.sum() / expected.sum()).pvalue > 1e-3


def test_normal_takes_tensors_that_broadcast():
    mean, std = weft.tensor([[0.0], [100.0]], dtype=weft.float64), weft.tensor([1.0, 0.0])
    x = weft.normal(mean, std)
    assert x.shape == (2, 2) and x.dtype is weft.float64
    assert float(x[1, 1]) == 100.0 and float(x[1, 0]) != 100.0
    assert weft.normal(0.0, std).shape == (2,) and weft.normal(mean).shape == (2, 1)


def test_complex_normal_has_variance_one():
    z = weft.randn(COUNT, dtype=weft.complex64)
    assert abs(float(z.abs().square().mean()) - 1) < 0.05
    assert abs(float(z.real.square().mean()) - 0.5) < 0.05


def test_uniform_takes_numbers_and_a_size():
    assert weft.uniform(size=(2, 3)).shape == (2, 3)
    assert weft.uniform(5.0, 5.0, ()).item() == 5.0
    assert weft.uniform(0, 1, (0, 4)).shape == (0, 4)
    out = weft.empty(3, dtype=weft.float64)
    assert weft.uniform(2.0, 3.0, (3,), out=out) is out and bool(((out >= 2) & (out < 3)).all())
    g = weft.Generator().manual_seed(3)
    first = weft.uniform(-1, 1, (5,), generator=g, requires_grad=True)
    assert first.requires_grad
    assert (first.detach() == weft.empty(5).uniform_(-1, 1, generator=g.manual_seed(3))).all()
    for call, words in (
        (lambda: weft.uniform(0.0, 1.0), "size"),
        (lambda: weft.uniform(0.0, 1.0, 3), "tuple"),
        (lambda: weft.uniform(weft.zeros(2), 1.0, (2,)), "Uniform"),
        (lambda: weft.uniform(2.0, 1.0, (2,)), "uniform"),
    ):
        with pytest.raises((TypeError, RuntimeError), match=words):
            call()


def test_randperm_permutes():
    assert sorted(weft.randperm(100).tolist()) == list(range(100))
    assert weft.randperm(5, dtype=weft.float32).dtype is weft.float32
    assert weft.randperm(0).shape == (0,)


def test_mask():
    mask = bernoulli_mask((100, 100), 0.8)
    assert mask.dtype is weft.bool and abs(float(mask.float().mean()) - 0.8) < 0.02


# ------------------------------------------------------------------------------ sizes, types, options

CALLS = [
    lambda m: m.rand(2, 3),
    lambda m: m.rand((2, 3), dtype=m.float64),
    lambda m: m.rand(()),
    lambda m: m.rand(size=(2, 0)),
    lambda m: m.rand(2, dtype=m.complex64),
    lambda m: m.rand(2, dtype=m.float16),
    lambda m: m.randn(2, dtype=m.bfloat16),
    lambda m: m.randint(5, (2,)),
    lambda m: m.randint(1, 5, (2, 3), dtype=m.float32),
    lambda m: m.randint(high=5, size=(2,)),
    lambda m: m.randint(low=1, high=5, size=[2]),
    lambda m: m.randint(0, 2, (3,), dtype=m.bool),
    lambda m: m.randint_like(m.zeros(2, 3), 5),
    lambda m: m.randint_like(m.zeros(2, 3), 2, 5, dtype=m.int64),
    lambda m: m.randint_like(m.zeros(2), low=2, high=5),
    lambda m: m.rand_like(m.zeros(2, 3, dtype=m.float64)),
    lambda m: m.randn_like(m.zeros(2, dtype=m.int64), dtype=m.float32),
    lambda m: m.randperm(4),
    lambda m: m.normal(0.0, 1.0, (2, 3)),
    lambda m: m.normal(0, 1, size=(2,), dtype=m.float64),
    lambda m: m.bernoulli(m.full((2, 3), 0.5, dtype=m.float64)),
    lambda m: m.bernoulli(m.zeros(3, dtype=m.int64), 0.5),
    lambda m: m.multinomial(m.ones(2, 3), 2),
    lambda m: m.multinomial(m.ones(3), 5, replacement=True),
    lambda m: m.poisson(m.ones(2, 3)),
    lambda m: m.binomial(m.ones(3), m.full((3,), 0.5)),
    lambda m: m.zeros(3, dtype=m.int64).geometric_(0.5),
    lambda m: m.zeros(3, dtype=m.bool).random_(),
    lambda m: m.zeros(3, dtype=m.int8).random_(),
    lambda m: m.zeros(3, dtype=m.complex64).uniform_(),
    lambda m: m.zeros(2, 3).bernoulli_(m.ones(3)),
    lambda m: m.rand(3, out=m.zeros(3, dtype=m.float64)),
    lambda m: m.randint(0, 10, (2,), out=m.zeros(2)),
]


@pytest.mark.parametrize("call", CALLS)
def test_sizes_and_types_are_those_of_pytorch(call):
    expected, found = call(torch), call(weft)
    assert tuple(found.shape) == tuple(expected.shape)
    assert found.dtype.name == str(expected.dtype).split(".")[1]


REFUSED = [
    (lambda m: m.rand(), TypeError),
    (lambda m: m.rand(2, generator=3), TypeError),
    (lambda m: m.rand(2, dtype=m.int64), RuntimeError),
    (lambda m: m.randn_like(m.zeros(2, dtype=m.int64)), RuntimeError),
    (lambda m: m.randint(5), TypeError),
    (lambda m: m.randint(5, 2), TypeError),
    (lambda m: m.randint(5, 3, (2,)), RuntimeError),
    (lambda m: m.randint(0, 300, (2,), dtype=m.uint8), RuntimeError),
    (lambda m: m.randint(0, 3.5, (2,)), TypeError),
    (lambda m: m.randperm(-1), RuntimeError),
    (lambda m: m.normal(0.0, 1.0), TypeError),
    (lambda m: m.normal(m.zeros(3), m.zeros(2)), RuntimeError),
    (lambda m: m.normal(m.zeros(3), -1.0), RuntimeError),
    (lambda m: m.bernoulli(m.zeros(2, dtype=m.int64)), RuntimeError),
    (lambda m: m.bernoulli(m.full((2,), 2.0)), RuntimeError),
    (lambda m: m.zeros(3).bernoulli_(m.ones(2)), RuntimeError),
    (lambda m: m.multinomial(m.zeros(3), 1), RuntimeError),
    (lambda m: m.multinomial(m.ones(3), 4), RuntimeError),
    (lambda m: m.multinomial(m.ones(3, dtype=m.int64), 1), RuntimeError),
    (lambda m: m.poisson(-m.ones(2)), RuntimeError),
    (lambda m: m.binomial(m.ones(2, dtype=m.int64), m.ones(2)), ValueError),
    (lambda m: m.zeros(2).uniform_(2, 1), RuntimeError),
    (lambda m: m.zeros(2).uniform_(0, from_=1), TypeError),
    (lambda m: m.zeros(2).normal_(0, -1), RuntimeError),
    (lambda m: m.zeros(2).exponential_(-1), RuntimeError),
    (lambda m: m.zeros(2).geometric_(0), RuntimeError),
    (lambda m: m.zeros(2).cauchy_(sigma=-1), RuntimeError),
    (lambda m: m.zeros(2).log_normal_(std=0), RuntimeError),
    (lambda m: m.zeros(2, dtype=m.int64).normal_(), RuntimeError),
    (lambda m: m.zeros(1).expand(3).uniform_(), RuntimeError),
    (lambda m: m.ones(2, requires_grad=True).uniform_(), RuntimeError),
    (lambda m: m.set_rng_state(m.zeros(3)), TypeError),
    (lambda m: m.set_rng_state(m.zeros(3, dtype=m.uint8)), RuntimeError),
]


@pytest.mark.parametrize(("call", "error"), REFUSED)
def test_what_pytorch_refuses(call, error):
    for library in (torch, weft):
        with pytest.raises(error):
            call(library)


# ----------------------------------------------------------------------------------- generators


def test_seeds_and_states():
    a = weft.rand(5)
    state = weft.get_rng_state()
    b = weft.randn(5)
    weft.manual_seed(7)
    assert weft.equal(weft.rand(5), a) and weft.equal(weft.get_rng_state(), state)
    weft.rand(100)
    weft.set_rng_state(state)
    assert state.dtype is weft.uint8 and weft.equal(weft.randn(5), b)
    assert weft.initial_seed() == 7 == weft.default_generator.initial_seed()
    assert weft.seed() == weft.initial_seed()


def test_generators_are_independent_of_the_default():
    g = weft.Generator().manual_seed(3)
    before = weft.get_rng_state()
    first = [weft.rand(4, generator=g), weft.zeros(3).normal_(generator=g), weft.randperm(6, generator=g)]
    assert weft.equal(weft.get_rng_state(), before)
    g.manual_seed(3)
    second = [weft.rand(4, generator=g), weft.zeros(3).normal_(generator=g), weft.randperm(6, generator=g)]
    assert all(weft.equal(x, y) for x, y in zip(first, second, strict=True))


def test_generators_are_copied_with_their_state():
    g = weft.Generator().manual_seed(3)
    weft.rand(10, generator=g)
    copies = [copy.deepcopy(g), pickle.loads(pickle.dumps(g)), g.clone_state()]
    expected = weft.rand(5, generator=g)
    for other in copies:
        assert isinstance(other, weft.Generator) and other.get_state().dtype is weft.uint8
        assert weft.equal(weft.rand(5, generator=other), expected)
    assert all(isinstance(part, weft.Generator) for part in [*g.split(3), g.fold_in(1)])
    assert weft.Generator(device="cpu").device == weft.device("cpu")


def test_fork_rng_leaves_no_trace():
    before = weft.get_rng_state()
    with weft.random.fork_rng():
        weft.manual_seed(1)
        weft.rand(100)
    assert weft.equal(weft.get_rng_state(), before)


def test_numbers_do_not_depend_on_threads():
    """The same draw in another thread, and in pieces, gives the same numbers."""
    found = {}

    def work():
        found["there"] = weft.rand(1000, generator=weft.Generator().manual_seed(5))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    g = weft.Generator().manual_seed(5)
    pieces = weft.cat([weft.rand(504, generator=g), weft.rand(496, generator=g)])
    assert weft.equal(found["there"], pieces)


def test_draws_can_be_taken_over():
    seen = []

    def instead(name, sampler, generator, parameters, options):
        seen.append((name, sampler))
        return weft.ones(2)

    mode.sampling = instead
    try:
        weft.rand(2), weft.zeros(2).normal_(), weft.bernoulli(weft.zeros(2))
    finally:
        mode.sampling = None
    assert seen == [("rand", "uniform"), ("normal_", "normal"), ("bernoulli", "bernoulli")]


# ------------------------------------------------------------------------------------- in place


def test_filling_is_an_in_place_change_without_gradient():
    x = weft.ones(4, requires_grad=True)
    y = x * 2
    z = y.exp()
    version = y._version
    y.uniform_()
    assert y._version > version
    (y * 3).sum().backward()
    assert x.grad is None or not bool(x.grad.any())
    z.sum().backward()  # exp saved its own result, not y
    saved = x * 2
    product = saved * saved
    saved.uniform_()
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        product.sum().backward()


def test_filling_reaches_views_and_keeps_strides():
    base = weft.zeros(3, 4)
    view = base.T[1:3]
    assert view.normal_() is view and view.stride() == (1, 4)
    assert bool((base[:, 1:3] != 0).all()) and not bool(base[:, 0].any())
    weft.manual_seed(1)
    a = weft.zeros(3, 4).T.uniform_()
    weft.manual_seed(1)
    assert weft.equal(a, weft.zeros(4, 3).uniform_())


def test_results_are_leaves_outside_the_graph():
    p = weft.full((3,), 0.5, requires_grad=True)
    for x in (weft.bernoulli(p), weft.poisson(p), weft.normal(p, 1.0), weft.rand_like(p)):
        assert x.is_leaf and not x.requires_grad
    assert weft.rand(2, requires_grad=True).requires_grad
