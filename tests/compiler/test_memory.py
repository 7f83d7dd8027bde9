"""The memory of plans: values whose lives do not meet share places, nothing is left of plans that are dropped, and
attention needs little for long sequences.
"""

from __future__ import annotations

import gc
import os
import threading
import weakref

import numpy as np
import pytest

import weft
import weft.nn.functional as F
from weft import nn
from weft.compiler import build_plan
from weft.compiler.plan.buffers import ALIGN, Life, place_lives
from weft.kernels.llvm import jit
from weft.runtime import cache

THREADS = 2


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache, "_source_version", lambda: cache._LOADED)  # whoever edits the source meanwhile


def mlp():
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    return model, (weft.randn(64, 64), weft.randint(0, 10, (64,)))


def cnn():
    model = nn.Sequential(
        *(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 16, 10)),
    )
    return model, (weft.randn(8, 3, 16, 16), weft.randint(0, 10, (8,)))


def transformer():
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True)
    return nn.Sequential(layer, nn.Flatten(), nn.Linear(32 * 12, 10)), (weft.randn(4, 12, 32), weft.arange(4))


def training(make):
    weft.manual_seed(6)
    model, arguments = make()
    optimizer = weft.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return model, step, arguments


def plan_of(run):
    ((bound,),) = run.plans.values()
    return bound.plan


def temporaries(plan):
    """The bytes of all temporary values together."""
    return sum(life.size for life in plan.lives.values())


def launches(plan):
    return [slot.step for slot in plan.slots if hasattr(slot.step, "kernel")]


@pytest.mark.parametrize(("make", "share"), [(mlp, 0.75), (cnn, 0.6), (transformer, 0.75)])
def test_temporary_values_share_memory(make, share):
    """The same bits whether they do or not."""
    found = []
    for without in ((), ("buffers",)):
        model, step, arguments = training(make)
        run = weft.compile(step, without=without, threads=THREADS)
        losses = [run(*arguments).item() for _ in range(3)]
        plan = plan_of(run)
        if without:
            assert plan.memory.nbytes >= temporaries(plan)
        else:
            assert 0 < plan.memory.nbytes < share * temporaries(plan)
        found.append([np.array(losses), *(v.numpy() for v in model.state_dict().values())])
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_what_a_plan_needs_does_not_grow_with_the_depth_of_a_forward_pass():
    need = {}
    for depth in (4, 16):
        layers = [nn.Sequential(nn.Linear(64, 64), nn.Tanh()) for _ in range(depth)]
        run = weft.compile(nn.Sequential(*layers), threads=THREADS)
        with weft.no_grad():
            run(weft.randn(32, 64))
        need[depth] = plan_of(run).memory.nbytes
    assert need[16] == need[4]


SMOOTH = [F.gelu, lambda x: F.gelu(x, approximate="tanh"), F.silu, F.mish, F.softplus]


@pytest.mark.parametrize("activation", SMOOTH, ids=["gelu", "gelu_tanh", "silu", "mish", "softplus"])
def test_of_a_smooth_activation_its_slope_is_kept(activation):
    weights = [weft.randn(64, 64, requires_grad=True) for _ in range(3)]
    x = weft.randn(512, 64)

    def slopes():
        y = x
        for w in weights:
            y = activation(y @ w)
        return weft.autograd.grad(y.square().sum(), weights)

    compiled = weft.compile(slopes, threads=1)
    for found, expected in zip(compiled(), slopes(), strict=True):
        np.testing.assert_allclose(
            found.numpy(), expected.numpy(), rtol=1e-4, atol=1e-4 * np.abs(expected.numpy()).max()
        )
    (bound,), size = next(iter(compiled.plans.values())), 512 * 64 * 4
    copies = max(launch.kernel.workspace for launch in launches(bound.plan))  # of operands, while a product runs
    assert bound.plan.memory.nbytes - copies < 6.5 * size  # results and slopes of three layers


@pytest.mark.parametrize("activation", SMOOTH, ids=["gelu", "gelu_tanh", "silu", "mish", "softplus"])
def test_smooth_activations_have_second_derivatives_in_plans(activation):
    x = weft.linspace(-3, 3, 50, dtype=weft.float64).requires_grad_()

    def curve():
        (slope,) = weft.autograd.grad(activation(x * 2).sin().sum(), x, create_graph=True)
        return weft.autograd.grad(slope.square().sum(), x)[0]

    np.testing.assert_allclose(weft.compile(curve)().numpy(), curve().numpy(), rtol=1e-11, atol=1e-12)


def test_old_gradients_make_room_for_new_ones(monkeypatch):
    model, step, arguments = training(mlp)
    run = weft.compile(step)
    run(*arguments)
    plan, seen = plan_of(run), []
    real = plan.run
    monkeypatch.setattr(plan, "run", lambda *given: (seen.extend(p.grad for p in model.parameters()), real(*given))[1])
    run(*arguments)
    assert seen == [None] * 6
    assert all(p.grad is not None for p in model.parameters())


@pytest.mark.parametrize("seed", range(5))
def test_places_of_values_that_live_together_are_apart(seed):
    rng = np.random.default_rng(seed)
    lives = {}
    for key in range(60):
        first = int(rng.integers(20))
        lives[key] = Life(int(rng.integers(0, 5000)), first, first + int(rng.integers(6)))
    offsets, total = place_lives(lives)
    busiest = max(sum(v.size for v in lives.values() if v.first <= t <= v.last) for t in range(26))
    assert busiest <= total <= 1.5 * busiest + ALIGN * len(lives)
    for a, one in lives.items():
        assert offsets[a] % ALIGN == 0 and offsets[a] + one.size <= total
        for b, two in lives.items():
            if a < b and one.first <= two.last and two.first <= one.last:
                assert offsets[a] + one.size <= offsets[b] or offsets[b] + two.size <= offsets[a]
    apart, without = place_lives(lives, share=False)
    assert without >= sum(v.size for v in lives.values()) and len(set(apart.values())) == len(lives)


# ---------------------------------------------------------------- a thousand plans


def resident():
    """MiB of memory in use."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def small_function(kind):
    """A new compiled function, called once: a plain one, one with a backward pass, a training step."""
    if kind == 0:
        run, arguments = weft.compile(lambda x: (x * 2 + 1).sum()), (weft.ones(4, 5),)
    elif kind == 1:
        run, arguments = weft.compile(nn.Linear(5, 2)), (weft.ones(4, 5),)
    else:
        _, step, arguments = training(lambda: (nn.Linear(5, 3), (weft.ones(4, 5), weft.arange(4) % 3)))
        run = weft.compile(step)
    result = run(*arguments)
    if kind == 1:
        result.sum().backward()
    return run


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
def test_a_thousand_plans_dropped_leave_nothing():
    for n in range(30):
        small_function(n % 3)
    gc.collect()
    before, threads, code = resident(), threading.active_count(), len(jit._alive)
    for n in range(1000):
        small_function(0 if n % 50 else 1 + n // 50 % 2)
    gc.collect()
    assert resident() - before < 8
    assert threading.active_count() == threads
    assert len(jit._alive) == code


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_a_dropped_function_is_gone_at_once(kind):
    run = small_function(kind)
    bound = next(iter(run.plans.values()))[0]
    parts = [run, bound, bound.plan, *bound.plan.handles.values(), run.function]
    seen = [weakref.ref(part) for part in parts]
    gc.disable()
    try:
        del run, bound, parts
        assert [part() for part in seen] == [None] * len(seen)
    finally:
        gc.enable()


def test_memory_of_arguments_and_results_ends_with_them():
    run = weft.compile(lambda x: (x * 2).tanh())
    x = weft.ones(100, 100)
    y = run(x)
    seen = [weakref.ref(t.array) for t in (x, y)]
    del x, y
    gc.collect()
    assert [array() for array in seen] == [None, None]


# ---------------------------------------------------------------- attention


def gradients(attend):
    def step(q, k, v, g):
        q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
        out = attend(q, k, v)
        out.backward(g)
        return out.detach(), q.grad, k.grad, v.grad

    return step


def quadratic(q, k, v):
    return ((q @ k.mT) * q.shape[-1] ** -0.5).softmax(-1) @ v


def needed(attend, length):
    """Bytes of temporary memory for one head of width 64, forward and backward."""
    arguments = [weft.zeros(1, 1, length, 64) for _ in range(4)]
    return build_plan(weft.compile(gradients(attend)).graph(*arguments), THREADS).memory.nbytes


def test_attention_takes_a_twentieth_of_the_memory_of_the_quadratic_form():
    """The quadratic form keeps three matrices of scores: probabilities, their gradients, and those of the scores."""
    scores = lambda length: length * length * 4
    matrices = round(needed(quadratic, 512) / scores(512))
    assert matrices >= 3
    assert needed(F.scaled_dot_product_attention, 4096) <= matrices * scores(4096) / 20


def test_the_memory_of_attention_is_linear_in_the_length():
    short, long = (needed(F.scaled_dot_product_attention, length) for length in (4096, 16384))
    assert long <= 4.1 * short


def test_attention_is_the_quadratic_form():
    weft.manual_seed(7)
    arguments = [weft.randn(1, 1, 300, 64) for _ in range(4)]
    run = weft.compile(gradients(F.scaled_dot_product_attention), threads=THREADS)
    expected = gradients(quadratic)(*(x.double() for x in arguments))
    for found, truth in zip(run(*arguments), expected, strict=True):
        np.testing.assert_allclose(found.numpy(), truth.numpy(), rtol=1e-4, atol=2e-6)
