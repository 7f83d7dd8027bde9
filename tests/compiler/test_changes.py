"""Compiled steps and what changes around them between calls: a step goes on as eager code would, or says why not."""

from __future__ import annotations

import copy
import gc
import pickle
import random
import weakref

import numpy as np
import pytest

import weft
import weft.nn.functional as F
from weft import nn
from weft.compiler.compiled import Compiled
from weft.errors import IndexRangeError, LinAlgError, TraceError
from weft.kernels.llvm import jit
from weft.runtime import cache


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache, "_source_version", lambda: cache._LOADED)  # whoever edits the source meanwhile
    weft.manual_seed(4)


class Training:
    """A model with its optimiser, and a step that may be compiled."""

    def __init__(self, wrap=lambda step: step):
        weft.manual_seed(3)
        self.model = nn.Sequential(nn.Linear(5, 8, bias=False), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3))
        self.optimizer = weft.optim.Adam(self.model.parameters(), lr=0.05)
        self.run = wrap(self.step)

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def tensors(self):
        states = [s[k] for s in self.optimizer.state.values() for k in sorted(s)]
        return [*self.model.state_dict().values(), *states, *(p.grad for p in self.model.parameters())]


X = weft.from_numpy(np.random.default_rng(0).normal(size=(16, 5)).astype(np.float32))
Y = weft.arange(16) % 3


def same(first, second, tolerance=1e-5):
    for a, b in zip(first.tensors(), second.tensors(), strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert a.dtype is b.dtype
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=tolerance, atol=tolerance)


def plans(run):
    return sum(map(len, run.plans.values()))


# ---------------------------------------------------------------- edits between calls


def _options(t, k):
    for group in t.optimizer.param_groups:
        group["lr"], group["betas"] = 0.1 / (k + 1), (0.8 + 0.05 * k, 0.99)


def _schedule(t, k):
    if k == 0:
        t.schedule = weft.optim.lr_scheduler.StepLR(t.optimizer, 1, 0.5)
    t.schedule.step()


def _edit(t, k):
    with weft.no_grad():
        t.model[0].weight.mul_(0.9)
        t.model[1].bias[2:4] = 0.25
        t.model[3].bias.data.add_(0.5)
        t.model[3].weight.detach().numpy()[0] = k


def _replace_arrays(t, k):
    t.model[0].weight.data = t.model[0].weight.data * 0.5
    t.model[3].bias.data = weft.full((3,), 0.1 * k)


def _replace_parameter(t, k):
    old = t.model[3].weight
    t.model[3].weight = nn.Parameter(old.detach() * 0.5)
    t.optimizer.param_groups[0]["params"][3] = t.model[3].weight
    t.optimizer.state[t.model[3].weight] = t.optimizer.state.pop(old)


def _load_optimizer(t, k):
    t.optimizer.load_state_dict(copy.deepcopy(t.optimizer.state_dict()))
    for state in t.optimizer.state.values():
        state["exp_avg"].mul_(0.5)


def _statistics(t, k):
    t.model[1].running_mean = weft.full((8,), 0.1 * k)
    t.model[1].momentum = 0.1 * (k + 1)


def _clear_grads(t, k):
    for p in t.model.parameters():
        p.grad = None if k % 2 else weft.ones_like(p)


def _eager_step(t, k):
    t.step(X + 1, Y)


def _to(kind):
    def convert(t, k):
        t.model.to(kind)
        t.x = X.to(kind)
        for p, state in t.optimizer.state.items():
            for name in ("exp_avg", "exp_avg_sq"):
                state[name] = state[name].to(p.dtype)

    return convert


EDITS = {  # what is done to a training before each call, and how many plans it then takes at most
    "options": (_options, 1),
    "weight decay": (lambda t, k: t.optimizer.param_groups[0].update(weight_decay=0.01 * (k + 1)), 2),
    "schedule": (_schedule, 1),
    "in place": (_edit, 1),
    "arrays": (_replace_arrays, 1),
    "load_state_dict": (lambda t, k: t.model.load_state_dict({n: v * 0.5 for n, v in t.model.state_dict().items()}), 1),
    "statistics": (_statistics, 4),
    "gradients": (_clear_grads, 1),
    "eager step": (_eager_step, 1),
    "parameter": (_replace_parameter, 4),
    "optimizer state": (_load_optimizer, 4),
    "optimizer state forgotten": (lambda t, k: t.optimizer.state.clear(), 4),
    "module": (lambda t, k: t.model.__setitem__(2, nn.Sigmoid() if k % 2 else nn.Tanh()), 4),
    "frozen": (lambda t, k: t.model[0].requires_grad_(bool(k % 2)), 3),
    "eval": (lambda t, k: t.model.train(bool(k % 2)), 2),
    "a hook": (lambda t, k: t.model[2].register_forward_hook(lambda module, args, out: out * 0.5), 4),
    "float64": (_to(weft.float64), 2),
    "float64 and back": (lambda t, k: _to(weft.float32 if k % 2 else weft.float64)(t, k), 4),
}


@pytest.mark.parametrize("name", EDITS)
def test_edits_between_calls(name):
    edit, most = EDITS[name]
    eager, compiled = Training(), Training(weft.compile)
    for t in (eager, compiled):
        for _ in range(2):
            t.run(X, Y)
        t.x = X
    for k in range(3):
        found = []
        for t in (eager, compiled):
            edit(t, k)
            found.append(t.run(t.x, Y).item())
        assert found[0] == pytest.approx(found[1], rel=1e-5)
    same(eager, compiled)
    assert plans(compiled.run) <= most


def test_a_replaced_parameter_gets_the_gradient():
    """Also where the backward pass is asked for outside, and where the parameter is handed out."""
    model = nn.Linear(3, 2, bias=False)
    forward, handed = weft.compile(model), weft.compile(lambda x: (x + model.weight.sum(), model.weight))
    step = weft.compile(lambda x: model(x).sum().backward())
    for value in (1.0, 2.0, 3.0):
        weight = model.weight = nn.Parameter(weft.full((2, 3), value))
        x = weft.ones(4, 3).requires_grad_()
        forward(x).sum().backward()
        assert x.grad.tolist() == [[2 * value] * 3] * 4
        assert weight.grad.tolist() == [[4.0] * 3] * 2
        step(weft.ones(4, 3))
        assert weight.grad.tolist() == [[8.0] * 3] * 2
        found, other = handed(weft.zeros(1))
        assert found.item() == 6 * value and other is weight


def test_a_replaced_buffer_is_followed_with_its_count_of_writes():
    model = nn.BatchNorm1d(2)
    run = weft.compile(model)
    run(weft.randn(4, 2))
    model.running_mean = weft.zeros(2)
    w = weft.ones(2, requires_grad=True)
    loss = (w * model.running_mean).sum()
    run(weft.randn(4, 2))
    assert plans(run) == 1
    with pytest.raises(weft.errors.AutogradError, match="inplace"):
        loss.backward()


# ---------------------------------------------------------------- copies, ends


def test_copies_of_a_trained_module_are_apart():
    t = Training(weft.compile)
    t.run(X, Y)
    copies = [copy.deepcopy(t.model), pickle.loads(pickle.dumps(t.model))]
    before = [{k: v.clone() for k, v in c.state_dict().items()} for c in copies]
    t.run(X, Y)
    for c, kept in zip(copies, before, strict=True):
        assert all((v == kept[k]).all() for k, v in c.state_dict().items())
        assert not (c[0].weight == t.model[0].weight).all()
        assert (weft.compile(c.eval())(X) - c(X)).abs().max() < 1e-6


@weft.compile
def decorated(x):
    return x * 2


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_of_compiled_modules_and_functions(again):
    run = weft.compile(nn.Linear(5, 2), threads=1)
    expected = run(X)
    other = again(run)
    assert isinstance(other, Compiled) and not other.plans and other.threads == 1
    assert (other(X) == expected).all()
    assert again(decorated)(X).tolist() == (X * 2).tolist()
    assert pickle.loads(pickle.dumps(decorated)) is decorated


def test_a_deleted_module_is_kept_by_the_step_alone():
    t = Training(weft.compile)
    run, seen = weft.compile(t.step), weakref.ref(t.model)
    losses = [run(X, Y).item() for _ in range(2)]
    del t
    assert run(X, Y).item() < losses[1] and seen() is not None
    del run
    gc.collect()
    assert seen() is None


# ---------------------------------------------------------------- errors


def test_errors_while_tracing_leave_everything_as_before():
    t = Training()
    fail = [True]

    def step(x, y):
        loss = t.step(x, y)
        weft.rand(3)
        if fail[0]:
            raise ZeroDivisionError("on purpose")
        return loss

    def refused(x, y):
        return t.step(x, y) * random.random()

    before = [v.numpy().tobytes() for v in t.model.state_dict().values()], weft.get_rng_state().tolist()
    run = weft.compile(step)
    for error, function in ((ZeroDivisionError, run), (TraceError, weft.compile(refused))):
        for _ in range(2):
            with pytest.raises(error):
                function(X, Y)
        assert before == (
            [v.numpy().tobytes() for v in t.model.state_dict().values()],
            weft.get_rng_state().tolist(),
        )
        assert not t.optimizer.state and all(p.grad is None for p in t.model.parameters())
        assert not function.plans
    fail[0] = False
    other = Training()
    run(X, Y)
    other.run(X, Y)
    same(t, other)


def test_an_error_while_building_can_be_tried_again(monkeypatch):
    t, other = Training(weft.compile), Training()
    before = [v.numpy().tobytes() for v in t.model.state_dict().values()]
    for error in (KeyboardInterrupt, MemoryError):
        with monkeypatch.context() as patched, pytest.raises(error):
            patched.setattr(jit, "_load", lambda *_, error=error: (_ for _ in ()).throw(error()))
            t.run(X, Y)
        assert [v.numpy().tobytes() for v in t.model.state_dict().values()] == before
        assert all(p.grad is None for p in t.model.parameters()) and not t.run.plans
    for one in (t, other):
        one.run(X, Y)
    same(t, other)


def test_nan_and_infinity_come_through():
    eager, compiled = Training(), Training(weft.compile)
    for bad in (float("nan"), float("inf"), -float("inf")):
        x = X.clone()
        x[3, 2] = bad
        with weft.no_grad():
            run = weft.compile(eager.model[3])
            rows = weft.cat([x, x[:, :3]], 1)
            assert run(rows).isnan().any(1).nonzero().tolist() in ([[3]], [])
            np.testing.assert_allclose(run(rows).numpy(), eager.model[3](rows).numpy(), rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(run(rows * 0 + 1).numpy()[0], eager.model[3](weft.ones(8)).numpy(), rtol=1e-5)
    for t in (eager, compiled):
        t.run(X, Y)
        assert np.isnan(t.run(x, Y).item())
    same(eager, compiled)
    assert compiled.model[0].weight.isnan().any()


def test_an_error_of_a_host_call():
    """Cholesky factors are computed by NumPy between two native parts."""
    count = weft.zeros(2)

    def function(a):
        count.add_(1)
        return weft.linalg.cholesky(a * 2).sum() + count.sum()

    run = weft.compile(function)
    good, bad = weft.eye(3) * 2, -weft.eye(3)
    for _ in range(3):
        assert run(good).item() == 6 + count.sum().item()
        with pytest.raises(LinAlgError, match="positive-definite"):
            run(bad)
    assert 3 <= count[0].item() <= 6


def test_an_index_out_of_range():
    table = nn.Embedding(7, 3)
    run = weft.compile(lambda i: (table(i) * 2).sum())
    good = weft.tensor([0, 6, 3])
    expected = 2 * table.weight.detach().numpy().astype(float)[[0, 6, 3]].sum()
    for bad in (7, -8, 10**12):
        with pytest.raises(IndexRangeError, match=rf"index {bad} is out of bounds for dimension 0 with size 7"):
            run(weft.tensor([0, bad, 3]))
        assert run(good).item() == pytest.approx(expected, rel=1e-5)
    with pytest.raises(IndexError, match="index 9 "):
        run.explain(weft.tensor([9, 1, 1]))
    assert plans(run) == 1


def test_an_index_out_of_range_before_another_error_is_told_once():
    w = weft.randn(7, 3)

    def function(i, a):
        rows = w[i]
        return weft.linalg.cholesky(a + rows.sum() * 0).sum()

    run = weft.compile(function)
    good = weft.tensor([1, 2]), weft.eye(2)
    assert run(*good).item() == 2
    with pytest.raises(IndexRangeError, match="index 70 "):
        run(weft.tensor([1, 70]), -weft.eye(2))
    assert run(*good).item() == 2
    with pytest.raises(LinAlgError):
        run(good[0], -weft.eye(2))
    assert run(*good).item() == 2


def test_an_index_out_of_range_in_a_loop():
    w = weft.arange(5.0)

    def function(numbers):
        total, _ = weft.scan(lambda c, i: (c + w[i.reshape(1)].sum(), c), weft.zeros(()), numbers)
        return total + w[numbers].sum()

    run = weft.compile(function)
    assert run(weft.tensor([1, 2, 4])).item() == 14
    for _ in range(2):
        with pytest.raises(IndexRangeError, match="index 11 "):
            run(weft.tensor([1, 11, 4]))
        assert run(weft.tensor([1, 2, 4])).item() == 14
