"""Masks that are new at every call: one plan where nothing depends on how many elements they choose, and always right."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import weft
from weft import Tensor

CALLS = 12


def written(y: Tensor, key: object, value: object) -> Tensor:
    y[key] = value
    return y


def added(y: Tensor, key: object, value: object) -> Tensor:
    y[key] += value
    return y


def scaled_twice(x: Tensor, y: Tensor, m: Tensor) -> Tensor:
    """What was chosen keeps its values when its source changes."""
    old = y[m]
    y.zero_()
    old *= 3
    old.add_(x[m])
    y[m] = old
    return y


def swapped(x: Tensor, y: Tensor, m: Tensor) -> Tensor:
    one, other = x[m], y[m]
    x, y = x.clone(), y.clone()
    x[m], y[m] = other, one
    return x - y


# of x and y (5, 4), w (4,), a mask over rows (5,) and one over elements (5, 4)
ONE_PLAN = {
    "y[m] = x[m]": lambda x, y, w, r, m: written(y, m, x[m]),
    "y[m] = f(x[m], y[m])": lambda x, y, w, r, m: written(y, m, (2 * x[m] + y[m]).exp() - x[m].sigmoid()),
    "y[m] = 0": lambda x, y, w, r, m: written(y, m, 0.0),
    "y[m] = scalar tensor": lambda x, y, w, r, m: written(y, m, w.sum()),
    "y[m] += number": lambda x, y, w, r, m: added(y, m, 2.0),
    "y[m] += x[m]": lambda x, y, w, r, m: added(y, m, x[m]),
    "y[m] *= …": lambda x, y, w, r, m: scaled_twice(x, y, m),
    "rows = rows": lambda x, y, w, r, m: written(y, r, x[r]),
    "rows = w": lambda x, y, w, r, m: written(y, r, w),
    "rows = (1, 4)": lambda x, y, w, r, m: written(y, r, w[None]),
    "rows += w": lambda x, y, w, r, m: added(y, r, w),
    "rows · w": lambda x, y, w, r, m: written(y, r, x[r] * w + 1),
    "a column of rows": lambda x, y, w, r, m: written(y, (r, 1), x[r, 2]),
    "some columns of rows": lambda x, y, w, r, m: added(y, (r, slice(1, 3)), x[r, :2]),
    "a row's elements": lambda x, y, w, r, m: written(y, (2, m[2]), x[2, m[2]]),
    "masks computed alike": lambda x, y, w, r, m: written(y, y > 0, x[y > 0]),
    "the opposite": lambda x, y, w, r, m: written(written(y, m, x[m]), ~m, 0.5),
    "swapped": lambda x, y, w, r, m: swapped(x, y, m),
    "converted": lambda x, y, w, r, m: written(y, m, x[m].double().sqrt().float()),
    "integers": lambda x, y, w, r, m: written((4 * y).long(), m, (4 * x[m]).long() + 1),
    "a condition on them": lambda x, y, w, r, m: written(y, m, weft.where(x[m] > y[m], x[m], 0.0)),
    "sum": lambda x, y, w, r, m: x[m].sum(),
    "mean": lambda x, y, w, r, m: x[m].mean(),
    "mean of squares": lambda x, y, w, r, m: ((x[m] - y[m]) ** 2).mean(),
    "sum of rows": lambda x, y, w, r, m: x[r].sum(0),
    "mean of rows": lambda x, y, w, r, m: x[r].mean(0, keepdim=True),
    "sums within rows": lambda x, y, w, r, m: written(y[:, 0], r, x[r].sum(1)),
    "mean of both": lambda x, y, w, r, m: x[r].mean((0, 1)),
    "any, all": lambda x, y, w, r, m: x[m].sum() + (x[m] > 1).any() + 2 * (x[m] > 0).all(),
    "masked_select": lambda x, y, w, r, m: x.masked_select(m).sum(),
    "masked_scatter": lambda x, y, w, r, m: y.masked_scatter(m, x),
}
A_PLAN_EACH = {
    "returned": lambda x, y, w, r, m: x[m],
    "its size": lambda x, y, w, r, m: x[m].sum() / x[m].shape[0],
    "its length": lambda x, y, w, r, m: y * len(x[r]),
    "zeros like it": lambda x, y, w, r, m: weft.zeros_like(x[m]).sum() + weft.ones_like(x[m]).sum(),
    "sorted": lambda x, y, w, r, m: x[m].sort().values.sum(),
    "softmax over them": lambda x, y, w, r, m: x[m].softmax(0).max(),
    "largest within rows": lambda x, y, w, r, m: written(y[:, 0], r, x[r].amax(1)),
    "largest of all": lambda x, y, w, r, m: x[m].max(),
    "std": lambda x, y, w, r, m: x[m].std(),
    "product with itself": lambda x, y, w, r, m: x[r] @ x[r].T,
    "cross entropy": lambda x, y, w, r, m: weft.nn.functional.cross_entropy(x[r], y[r].argmax(1)),
    "a view written to": lambda x, y, w, r, m: viewed(x, m),
    "two masks": lambda x, y, w, r, m: written(y, m, weft.cat([x[x > 1], y.reshape(-1)])[: int(m.sum())]),
}


def viewed(x: Tensor, m: Tensor) -> Tensor:
    chosen = x[m]
    chosen.view(-1)[0] = 7.0
    return (2 * chosen).sum()


def arguments(seed: int) -> tuple[Tensor, ...]:
    rng = np.random.default_rng(seed)
    x, y, w = (weft.tensor(rng.uniform(0.1, 2, size).astype(np.float32)) for size in ((5, 4), (5, 4), (4,)))
    r, m = rng.random(5) < 0.6, rng.random((5, 4)) < 0.5
    r[seed % 5] = m[seed % 5, seed % 4] = m[2, 0] = True
    return x, y - 0.5, w, weft.tensor(r), weft.tensor(m)


def plans(compiled) -> int:
    return sum(map(len, compiled.plans.values()))


@pytest.mark.parametrize("name", ONE_PLAN)
def test_one_plan(name):
    function = ONE_PLAN[name]
    compiled = weft.compile(lambda x, y, w, r, m: function(x, y.clone(), w, r, m))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(CALLS):
            given = arguments(seed)
            np.testing.assert_allclose(
                compiled(*given).numpy(), compiled.function(*given).numpy(), rtol=1e-5, atol=1e-6, err_msg=str(seed)
            )
    assert plans(compiled) == 1 and not compiled.decisions()


@pytest.mark.parametrize("name", A_PLAN_EACH)
def test_a_plan_for_each_mask(name):
    """Where the number of elements shows, or an operation has no other form: still right."""
    function = A_PLAN_EACH[name]
    compiled = weft.compile(lambda x, y, w, r, m: function(x, y.clone(), w, r, m))
    for seed in (0, 1, 2, 0):
        given = arguments(seed)
        np.testing.assert_allclose(
            compiled(*given).numpy(), compiled.function(*given).numpy(), rtol=1e-5, atol=1e-6, err_msg=str(seed)
        )
    assert plans(compiled) == 3


@pytest.mark.parametrize("name", ONE_PLAN)
def test_gradients(name):
    function = ONE_PLAN[name]
    if name in ("integers",):
        return

    def slopes(x, y, w, r, m):
        leaves = [t.detach().requires_grad_() for t in (x, y, w)]
        out = function(leaves[0] * 1, leaves[1] * 1, leaves[2] * 1, r, m)
        if not out.requires_grad:
            return out
        found = weft.autograd.grad((out * out).sum(), leaves, allow_unused=True)
        return [g for g in found if g is not None]

    compiled = weft.compile(slopes)
    for seed in range(4):
        given = arguments(seed)
        for e, f in zip(slopes(*given), compiled(*given), strict=True):
            np.testing.assert_allclose(f.numpy(), e.numpy(), rtol=1e-4, atol=1e-5)
    assert plans(compiled) == 1


def test_gradients_where_others_are_not_finite():
    """log of chosen elements: the slope at the others, 1/0, times no gradient is 0, not NaN."""

    def slopes(x, w, m):
        leaf, scale = x.detach().requires_grad_(), w.detach().requires_grad_()
        y = weft.zeros(4)
        y[m] = (leaf[m] - 1).log() * scale
        total = y.sum() + (scale / leaf[m]).sum() + ((leaf[m] - 1).sqrt() * scale).mean()
        return weft.autograd.grad(total, (leaf, scale))

    compiled = weft.compile(slopes)
    for mask in ([True, True, False, False], [False, True, True, False], [True, False, True, False]):
        x = weft.tensor([2.0, 3.0, 4.0, 0.0]) * weft.tensor(mask)  # the others are 0: log(-1), 1/0
        given = x, weft.tensor(1.5), weft.tensor(mask)
        for e, f in zip(slopes(*given), compiled(*given), strict=True):
            assert weft.isfinite(f).all()
            np.testing.assert_allclose(f.numpy(), e.numpy(), rtol=1e-5)
    assert plans(compiled) == 1


def test_integers_are_not_divided_where_nobody_chose():
    compiled = weft.compile(lambda x, y, m: written(y.clone(), m, x[m] // y[m]))
    for mask in ([True, False, True], [True, True, False]):
        x, m = weft.tensor([7, 8, 9]), weft.tensor(mask)
        y = weft.where(m, weft.tensor([2, 3, 4]), 0)
        assert compiled(x, y, m).tolist() == compiled.function(x, y, m).tolist()


@pytest.mark.parametrize("ask", ["grad", "retained", "hook"])
def test_gradients_with_respect_to_chosen_elements(ask):
    def slopes(x, m):
        leaf = x.detach().requires_grad_()
        chosen, seen = leaf[m], []
        if ask == "retained":
            chosen.retain_grad()
        if ask == "hook":
            chosen.register_hook(lambda g: g * 2)
        total = (chosen**2).sum()
        if ask == "grad":
            return weft.autograd.grad(total, chosen)
        total.backward()
        return [leaf.grad, *([chosen.grad] if ask == "retained" else []), *seen]

    compiled = weft.compile(slopes)
    for seed in range(3):
        x, _, _, _, m = arguments(seed)
        for e, f in zip(slopes(x, m), compiled(x, m), strict=True):
            np.testing.assert_allclose(f.numpy(), e.numpy(), rtol=1e-5)


def test_none_or_all_chosen():
    """Also where the first mask that is met chooses nothing."""
    function = lambda x, y, m: (written(y.clone(), m, x[m]), x[m].sum(), (x[m] * 2).mean())
    compiled = weft.compile(function)
    for mask in (weft.zeros(3).bool(), weft.ones(3).bool(), weft.tensor([True, False, True])):
        x, y = weft.tensor([1.0, 2.0, 3.0]), weft.zeros(3)
        for e, f in zip(function(x, y, mask), compiled(x, y, mask), strict=True):
            np.testing.assert_allclose(f.numpy(), e.numpy())
    assert plans(compiled) == 1


def test_as_many_values_as_are_chosen():
    """Rows from elsewhere, one for each chosen place; another number of them is an error, and nothing is written."""
    state = weft.zeros(6, 2)

    @weft.compile
    def fill(m, values):
        state[m] = values

    for seed in range(10):
        rng = np.random.default_rng(seed)
        m = weft.tensor(rng.permutation([True, True, False, True, False, False]))
        values = weft.tensor(rng.random((3, 2)).astype(np.float32))
        wanted = state.clone()
        wanted[m] = values
        fill(m, values)
        assert weft.equal(state, wanted)
    assert plans(fill) == 1
    with pytest.raises(weft.errors.WeftError):
        fill(weft.ones(6).bool(), values)
    assert weft.equal(state, wanted)


def test_large_masks():
    """More elements than Python would look at."""
    compiled = weft.compile(lambda x, m: (written(x.clone(), m, -x[m]), x[m].mean()))
    for seed in range(3):
        x = weft.tensor(np.random.default_rng(seed).standard_normal(100_000).astype(np.float32))
        for e, f in zip(compiled.function(x, x > 0), compiled(x, x > 0), strict=True):
            np.testing.assert_allclose(f.numpy(), e.numpy(), rtol=1e-4)
    assert plans(compiled) == 1
    with pytest.raises(weft.errors.TraceError, match="how many"):
        weft.compile(lambda x, m: x[m])(x, x > 0)


def test_training_steps():
    """A masked loss and masked buffers in a step with an optimiser, a new mask at every call: as eager code."""

    def made():
        weft.manual_seed(0)
        model = weft.nn.Sequential(weft.nn.Linear(4, 8), weft.nn.Tanh(), weft.nn.Linear(8, 4))
        optimizer, seen = weft.optim.Adam(model.parameters(), lr=0.01), weft.zeros(5, 4)

        def step(x, y, m):
            loss = ((model(x)[m] - y[m]) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with weft.no_grad():
                seen[m] += 1
                seen[~m] *= 0.5
            return loss.detach(), seen.clone()

        return step

    eager, compiled = made(), weft.compile(made())
    for seed in range(CALLS):
        x, y, _, _, m = arguments(seed)
        for e, f in zip(eager(x, y, m), compiled(x, y, m), strict=True):
            np.testing.assert_allclose(f.numpy(), e.numpy(), rtol=1e-4, atol=1e-6)
    assert plans(compiled) <= 2


STEPS = [
    lambda s, x, y, m: (s * 2, y),
    lambda s, x, y, m: (s + x[m], y),
    lambda s, x, y, m: (y[m].tanh() * s, y),
    lambda s, x, y, m: (s.clone().mul_(0.5), y),
    lambda s, x, y, m: (s.add_(y[m]), y),
    lambda s, x, y, m: (s.sub_(0.25), y),
    lambda s, x, y, m: (s, written(y.clone(), m, s)),
    lambda s, x, y, m: (s, added(y, m, s)),
    lambda s, x, y, m: (s, y.mul_(0.5)),
    lambda s, x, y, m: (s, y + s.sum()),
    lambda s, x, y, m: (s, y * s.mean()),
    lambda s, x, y, m: (s.detach().exp(), y),
    lambda s, x, y, m: (weft.where(s > 0, s, -1.0), y),
    lambda s, x, y, m: (s + s.max(), y),
    lambda s, x, y, m: (s, y + s.shape[0]),
    lambda s, x, y, m: (s, written(y, ~m, y[~m] * s.sum())),
    lambda s, x, y, m: (s, written(y, m.clone(), s)),
    lambda s, x, y, m: (s, written(y, m, 0.5)),
    lambda s, x, y, m: (x[m], y.cos()),
    lambda s, x, y, m: (s.view(-1).relu_() + s, y),
]


@pytest.mark.parametrize("part", range(6))
def test_random_programs(part):
    """Chosen elements in random computations, with gradients: as eager code, whatever the mask."""
    for seed in range(part, 60, 6):
        chain = [STEPS[k] for k in np.random.default_rng(seed).integers(0, len(STEPS), 6)]

        def run(x, y, m, chain=chain):
            leaf = x.detach().requires_grad_()
            x, y = leaf * 1, y * leaf
            s = x[m]
            for step in chain:
                s, y = step(s, x, y, m)
            return (*weft.autograd.grad((y * y).mean(), leaf), y.detach())

        compiled = weft.compile(run, backend="host" if seed % 5 else "native")
        for n in range(3):
            x, y, _, _, m = arguments(seed + n)
            for e, f in zip(run(x, y, m), compiled(x, y, m), strict=True):
                np.testing.assert_allclose(f.numpy(), e.numpy(), rtol=2e-4, atol=1e-5, err_msg=str((seed, n)))
