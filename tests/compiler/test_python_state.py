"""Compiled steps with Python state: counters, lazily made tensors, lists, closures, globals, hooks, host randomness,
decisions by values. Compiled equals eager over twenty steps, or there is a clear error; nothing is frozen."""

from __future__ import annotations

import math
import random
import warnings
from collections import deque
from math import sqrt

import numpy as np
import pytest

import weft
import weft.nn.functional as F
from weft import nn
from weft.compiler.tracing.surroundings import Surroundings
from weft.errors import TraceError

STEPS = 20
SCALE = 1.0
OPTIONS = {"scale": 1.0, "nested": {"shift": 0.0}}
CALLS = 0


@pytest.fixture(autouse=True)
def own_globals():
    global SCALE, CALLS
    SCALE, CALLS = 1.0, 0
    OPTIONS.update(scale=1.0, nested={"shift": 0.0})
    yield


def both(make, steps=STEPS, tolerance=1e-5, most=6):
    """make(wrap) → call(k) → number: the same eagerly and compiled, with few plans; the numbers and the compiled one."""
    found, compiled = [], []

    def wrap(function):
        run = weft.compile(function)
        compiled.append(run)
        return run

    for how in (lambda function: function, wrap):
        global SCALE, CALLS
        SCALE, CALLS = 1.0, 0
        OPTIONS.update(scale=1.0, nested={"shift": 0.0})
        weft.manual_seed(0)
        call = make(how)
        found.append([np.concatenate(list(_numbers(call(k)))) for k in range(steps)])
    for k, (a, b) in enumerate(zip(*found, strict=True)):
        np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance, err_msg=f"call {k}")
    for run in compiled:
        assert 0 < sum(map(len, run.plans.values())) <= most and not run.eager
    return found[0]


def _numbers(x):
    """All numbers in tensors, tuples and lists, as lines."""
    for part in x if isinstance(x, (tuple, list)) else [x]:
        if isinstance(part, (tuple, list)):
            yield from _numbers(part)
        else:
            yield np.ravel(part.detach().numpy() if isinstance(part, weft.Tensor) else part).astype(float)


X = weft.from_numpy(np.random.default_rng(0).normal(size=(16, 5)).astype(np.float32))
Y = weft.arange(16) % 3


class Net(nn.Module):
    """A small network with something to be told in `forward`."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(5, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.second(self.first(x).tanh())


def train(model, optimizer, loss=lambda model, x, y: F.cross_entropy(model(x), y)):
    def step(x, y):
        optimizer.zero_grad()
        value = loss(model, x, y)
        value.backward()
        optimizer.step()
        return value.detach()

    return step


# ------------------------------------------------------------------------- optimisers as users write them


class Own(weft.optim.Optimizer):
    """The common shape: state made at the first step, a Python counter, one formula for each parameter."""

    def __init__(self, params, lr=0.02, **options):
        super().__init__(params, {"lr": lr, "betas": (0.9, 0.99), "eps": 1e-8, "weight_decay": 0.0} | options)

    def step(self, closure=None):
        loss = None if closure is None else closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if len(state) == 0:
                    state["step"] = 0
                    self.start(p, state, group)
                state["step"] += 1
                self.update(p, p.grad.data, state, group)
        return loss

    def start(self, p, state, group):
        state["m"], state["v"] = weft.zeros_like(p.data), weft.zeros_like(p.data)

    def moments(self, g, state, group):
        b1, b2 = group["betas"]
        state["m"].mul_(b1).add_(g, alpha=1 - b1)
        state["v"].mul_(b2).addcmul_(g, g, value=1 - b2)
        return 1 - b1 ** state["step"], 1 - b2 ** state["step"]


class AdamLike(Own):
    def update(self, p, g, state, group):
        c1, c2 = self.moments(g, state, group)
        p.data.addcdiv_(state["m"], state["v"].sqrt().add_(group["eps"]), value=-group["lr"] * math.sqrt(c2) / c1)


class BeliefLike(Own):
    def update(self, p, g, state, group):
        b1, b2 = group["betas"]
        state["m"].mul_(b1).add_(g, alpha=1 - b1)
        gap = g - state["m"]
        state["v"].mul_(b2).addcmul_(gap, gap, value=1 - b2)
        size = group["lr"] / (1 - b1 ** state["step"])
        p.data.addcdiv_(state["m"], (state["v"].sqrt() / sqrt(1 - b2 ** state["step"])).add_(group["eps"]), value=-size)


class BoundLike(Own):
    def update(self, p, g, state, group):
        c1, c2 = self.moments(g, state, group)
        final, gamma = group["lr"] * 10, 1e-2
        lower = final * (1 - 1 / (gamma * state["step"] + 1))
        upper = final * (1 + 1 / (gamma * state["step"]))
        size = weft.full_like(state["v"], group["lr"] * math.sqrt(c2) / c1)
        size.div_(state["v"].sqrt().add_(group["eps"])).clamp_(lower, upper).mul_(state["m"])
        p.data.add_(-size)


class RectifiedLike(Own):
    """RAdam with the table of ten steps that its author keeps in a list."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.buffer = [[None, None, None] for _ in range(10)]

    def update(self, p, g, state, group):
        b1, b2 = group["betas"]
        state["v"].mul_(b2).addcmul_(g, g, value=1 - b2)
        state["m"].mul_(b1).add_(g, alpha=1 - b1)
        most = 2 / (1 - b2) - 1
        length = most - 2 * state["step"] * b2 ** state["step"] / (1 - b2 ** state["step"])
        if length >= 5:
            size = math.sqrt(
                (1 - b2 ** state["step"])
                * (length - 4) / (most - 4) * (length - 2) / length * most / (most - 2)
            ) / (1 - b1 ** state["step"])  # fmt: skip
            p.data.addcdiv_(state["m"], state["v"].sqrt().add_(group["eps"]), value=-size * group["lr"])
        else:
            p.data.add_(state["m"], alpha=-group["lr"] / (1 - b1 ** state["step"]))


class MomentumLike(Own):
    """The buffer is made when it is first needed, as in PyTorch's SGD of old."""

    def start(self, p, state, group): ...

    def update(self, p, g, state, group):
        if "momentum_buffer" not in state:
            buffer = state["momentum_buffer"] = weft.clone(g).detach()
        else:
            buffer = state["momentum_buffer"]
            buffer.mul_(0.9).add_(g)
        p.data.add_(buffer, alpha=-group["lr"])


class RebindingLike(Own):
    """New tensors take the places of the old ones."""

    def update(self, p, g, state, group):
        b1, _ = group["betas"]
        state["m"] = b1 * state["m"] + (1 - b1) * g
        state["v"] = weft.maximum(state["v"], g.abs())
        p.data = p.data - group["lr"] * state["m"] / (state["v"] + 1e-3)


class LionLike(Own):
    def update(self, p, g, state, group):
        b1, b2 = group["betas"]
        p.data.mul_(1 - group["lr"] * group["weight_decay"])
        p.add_(state["m"].clone().mul_(b1).add(g, alpha=1 - b1).sign_(), alpha=-group["lr"])
        state["m"].mul_(b2).add_(g, alpha=1 - b2)

    step = weft.no_grad()(Own.step)


class YogiLike(Own):
    def update(self, p, g, state, group):
        b1, b2 = group["betas"]
        square = g.mul(g)
        state["v"].addcmul_(weft.sign(state["v"] - square), square, value=-(1 - b2))
        state["m"].mul_(b1).add_(g, alpha=1 - b1)
        size = group["lr"] / (1 - b1 ** state["step"]) * sqrt(1 - b2 ** state["step"])
        p.data.addcdiv_(state["m"], state["v"].abs().sqrt().add_(1e-3), value=-size)


class TrustLike(Own):
    """LARS and LAMB: norms as Python numbers, by which it decides."""

    def update(self, p, g, state, group):
        weight, slope = weft.norm(p.data).item(), weft.norm(g).item()
        rate = 0.01 * weight / (slope + 1e-4 * weight) if weight > 0 and slope > 0 else 1.0
        state["m"].mul_(0.9).add_(g, alpha=rate * group["lr"] * 50)
        p.data.add_(-state["m"])


class NovoLike(Own):
    def start(self, p, state, group):
        state["m"], state["norm"] = weft.zeros_like(p.data), 0.0

    def update(self, p, g, state, group):
        b1, b2 = group["betas"]
        square = g.pow(2).sum().item()
        state["norm"] = square if state["step"] == 1 else b2 * state["norm"] + (1 - b2) * square
        state["m"].mul_(b1).add_(g / (math.sqrt(state["norm"]) + group["eps"]))
        p.data.add_(state["m"], alpha=-group["lr"])


class AverageLike(Own):
    """AggMo: a list of buffers for each parameter."""

    def start(self, p, state, group):
        state["buffers"] = [weft.zeros_like(p) for _ in range(3)]

    def update(self, p, g, state, group):
        for beta, buffer in zip((0.0, 0.9, 0.99), state["buffers"], strict=True):
            buffer.mul_(beta).add_(g)
            p.data.sub_(buffer, alpha=group["lr"] / 3)


class QuasiLike(Own):
    """QHM with a schedule in the group that the step itself moves on."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, k=0, **kwargs)

    def update(self, p, g, state, group):
        state["m"].mul_(0.9).add_(g, alpha=0.1)
        p.data.add_(0.3 * g + 0.7 * state["m"], alpha=-group["lr"] / (1 + 0.1 * group["k"]))

    def step(self, closure=None):
        super().step(closure)
        for group in self.param_groups:
            group["k"] = group["k"] + 1


class LookaheadLike(Own):
    """Every five steps something else happens."""

    def start(self, p, state, group):
        super().start(p, state, group)
        state["slow"] = p.data.clone()

    def update(self, p, g, state, group):
        c1, c2 = self.moments(g, state, group)
        p.data.addcdiv_(state["m"] / c1, (state["v"] / c2).sqrt() + group["eps"], value=-group["lr"])
        if state["step"] % 5 == 0:
            state["slow"].add_(p.data - state["slow"], alpha=0.5)
            p.data.copy_(state["slow"])


class ProjectedLike(Own):
    """SGDP: another formula where a cosine is small."""

    def update(self, p, g, state, group):
        state["m"].mul_(0.9).add_(g)
        d = g + 0.9 * state["m"]
        if p.dim() > 1:
            cosine = F.cosine_similarity(p.data.view(1, -1), g.view(1, -1)).abs().max()
            if cosine < 0.05 / math.sqrt(p.data.numel()):
                direction = p.data / p.data.norm()
                d = d - direction * (direction * d).sum()
        p.data.add_(d, alpha=-group["lr"])


class PidLike(Own):
    def start(self, p, state, group):
        state["before"] = None
        state["d"] = weft.zeros_like(p)

    def update(self, p, g, state, group):
        if state["before"] is not None:
            state["d"].mul_(0.9).add_(g - state["before"])
        state["before"] = g.clone()
        p.data.add_(g + 0.5 * state["d"], alpha=-group["lr"])


class CounterLike(Own):
    """The counter is an attribute of the optimiser, the state a dictionary of its own."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.count, self.mine = 0, {}

    def step(self, closure=None):
        self.count += 1
        for group in self.param_groups:
            for k, p in enumerate(group["params"]):
                m = self.mine.setdefault(k, weft.zeros_like(p))
                m.mul_(0.9).add_(p.grad)
                p.data.add_(m, alpha=-group["lr"] / self.count**0.5)


class DequeLike(Own):
    """Python numbers in a list that is written to."""

    def start(self, p, state, group):
        state["sizes"] = [0.0, 0.0]

    def update(self, p, g, state, group):
        state["sizes"][state["step"] % 2] = state["sizes"][0] * 0.5 + 1.0
        p.data.add_(g, alpha=-group["lr"] * sum(state["sizes"]))


class NumpyLike(Own):
    def update(self, p, g, state, group):
        c1, c2 = self.moments(g, state, group)
        p.data.addcdiv_(state["m"], state["v"].sqrt() + 1e-8, value=float(-group["lr"]) * np.sqrt(c2) / c1)


class MinMaxLike(Own):
    def update(self, p, g, state, group):
        rate = min(1e-1, 1.0 / math.sqrt(state["step"])) * max(1e-3, p.data.pow(2).mean().sqrt().item())
        state["v"].mul_(1 - state["step"] ** -0.8).add_(g * g, alpha=state["step"] ** -0.8)
        p.data.sub_(rate * g / (state["v"].sqrt() + 1e-8))


OPTIMIZERS = [
    AdamLike, BeliefLike, BoundLike, RectifiedLike, MomentumLike, RebindingLike, LionLike, YogiLike, TrustLike, NovoLike,
    AverageLike, QuasiLike, LookaheadLike, ProjectedLike, PidLike, CounterLike, DequeLike, NumpyLike, MinMaxLike,
]  # fmt: skip


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_own_optimizers(kind):
    def make(wrap):
        model = Net()
        optimizer = kind(model.parameters())
        step = wrap(train(model, optimizer))

        def call(k):
            if k == 10:
                optimizer.param_groups[0]["lr"] *= 0.5
            return step(X, Y)

        return call

    losses = [value.item() for value in both(make, tolerance=2e-5)]
    assert losses[-1] < losses[0] and len(set(losses)) == STEPS


# ------------------------------------------------------------------------------ modules, closures, globals


class Counting(Net):
    """An attribute that counts, by which a loss is annealed (two public VAEs do this)."""

    def __init__(self):
        super().__init__()
        self.steps = 0

    def forward(self, x):
        self.steps += 1
        weight = min(1.0, self.steps / 8)
        return super().forward(x) * weight


class Lists(Net):
    """Numbers in a list, a dictionary and a nested object."""

    class Clock:
        def __init__(self):
            self.ticks = 0

        def tick(self):
            self.ticks += 1
            return self.ticks

    def __init__(self):
        super().__init__()
        self.numbers, self.table, self.clock = [1.0, 2.0], {"seen": 0}, self.Clock()

    def forward(self, x):
        self.numbers[1] = self.numbers[1] * 0.9
        self.table["seen"] += 2
        return super().forward(x) * self.numbers[1] + self.table["seen"] * 0.01 + self.clock.tick() * 0.1


class Lazy(Net):
    """A tensor that the first call makes and the later ones use and change."""

    def __init__(self):
        super().__init__()
        self.mean, self.cache = None, {}

    def forward(self, x):
        y = super().forward(x)
        if self.mean is None:
            self.mean = y.detach().mean(0)
        else:
            self.mean = 0.9 * self.mean + 0.1 * y.detach().mean(0)
        if "scale" not in self.cache:
            self.cache["scale"] = weft.full((3,), 0.5)
        self.cache["scale"] = self.cache["scale"] * 1.1
        return y - self.mean + self.cache["scale"]


class Carrying(Net):
    """A hidden state, a pair of tensors, goes from call to call; it is forgotten in between."""

    def __init__(self):
        super().__init__()
        self.hidden = None

    def forward(self, x):
        h, c = (weft.zeros(16, 3), weft.zeros(16, 3)) if self.hidden is None else self.hidden
        y = super().forward(x)
        h, c = (h + y).tanh(), c * 0.5 + y
        self.hidden = (h.detach(), c.detach())
        return h + c


class Codebook(Net):
    """VQ with a codebook that is made from the first batch; a buffer says whether it is there."""

    def __init__(self):
        super().__init__()
        self.register_buffer("initted", weft.tensor([False]))
        self.register_buffer("codes", weft.zeros(4, 3))

    def forward(self, x):
        y = super().forward(x)
        if not self.initted:
            self.codes.copy_(y.detach()[:4])
            self.initted.fill_(True)
        distance = (y.detach().unsqueeze(1) - self.codes).pow(2).sum(-1)
        nearest = distance.argmin(1)
        if self.training:
            hot = F.one_hot(nearest, 4).float()
            self.codes.data.mul_(0.9).add_(hot.t() @ y.detach(), alpha=0.1)
        return y + (self.codes[nearest] - y).detach() * 0.5


class LazyBuffer(Net):
    """Buffers that are declared empty: made of constants by the first call, or anew by every call, and written to."""

    def __init__(self):
        super().__init__()
        self.register_buffer("sums", None)
        self.register_buffer("fresh", None)

    def forward(self, x):
        y = super().forward(x)
        if self.sums is None:
            self.sums = weft.zeros(3)
        self.sums.mul_(0.9).add_(y.detach().mean(0))
        self.fresh = weft.zeros(2, 3)
        self.fresh[0].copy_(self.sums)
        return y - self.sums + self.fresh.sum(0)


class Flipping(Net):
    """A flag that changes at every call, a string that changes at every third."""

    def __init__(self):
        super().__init__()
        self.flag, self.mode, self.n = False, "a", 0

    def forward(self, x):
        self.flag = not self.flag
        self.n = (self.n + 1) % 3
        self.mode = "a" if self.n else "b"
        y = super().forward(x)
        return (y if self.flag else 2 * y) + (1.0 if self.mode == "b" else 0.0)


class Slotted:
    __slots__ = ("count", "last")
    total = 0

    def __init__(self):
        self.count, self.last = 0, None


class Elsewhere(Net):
    """State in an object with slots, and in a class."""

    def __init__(self):
        super().__init__()
        self.kept = Slotted()

    def forward(self, x):
        y = super().forward(x)
        self.kept.count += 1
        Slotted.total = Slotted.total + 0.5
        self.kept.last = y.detach().sum()
        return y * self.kept.count + (Slotted.total % 4)


class Asking(Net):
    """Decisions by values in the middle of the step."""

    def forward(self, x):
        y = self.first(x)
        if y.abs().max() > 2.5:
            y = y * 0.5
        assert weft.isfinite(y).all()
        scale = 1.0 / max(y.norm().item(), 1.0)
        return self.second(y.tanh()) * (1 + scale)


MODULES = [Counting, Lists, Lazy, LazyBuffer, Carrying, Codebook, Flipping, Elsewhere, Asking]


@pytest.mark.parametrize("kind", MODULES)
@pytest.mark.parametrize("optimizer", [lambda p: weft.optim.Adam(p, lr=0.02), AdamLike], ids=["ours", "own"])
def test_modules(kind, optimizer):
    def make(wrap):
        Slotted.total = 0
        model = kind()
        step = wrap(train(model, optimizer(model.parameters())))

        def call(k):
            if kind is Carrying and k in (7, 14):
                model.hidden = None
            return step(X, Y)

        return call

    both(make, most=8 if kind is Flipping else 6)


def _closure(wrap):
    count, w = 0, weft.ones(3, requires_grad=True)

    def step(x):
        nonlocal count
        count += 1
        return (w * x * count).sum()

    run = wrap(step)
    return lambda k: [run(weft.ones(3) * k), count]


def _global_counter(wrap):
    def step(x):
        global CALLS
        CALLS += 1
        return x * CALLS

    run = wrap(step)
    return lambda k: [run(weft.ones(2)), CALLS]


def _global_read(wrap):
    run = wrap(lambda x: x * SCALE + OPTIONS["scale"] + OPTIONS["nested"]["shift"])

    def call(k):
        global SCALE
        if k == 3:
            SCALE = 2.0
        if k == 5:
            OPTIONS["scale"] = 3.0
        if k == 8:
            OPTIONS["nested"] = {"shift": 1.0}
        return run(weft.ones(2))

    return call


def _annealed_from_outside(wrap):
    """A number that changes before every call makes a few plans, not twenty."""
    model = Net()
    model.beta = 0.0
    run = wrap(lambda x: model(x).sum() * model.beta)

    def call(k):
        model.beta = k / 10
        return run(X)

    return call


def _replaced_function(wrap):
    own = {"f": lambda x: x + 1}
    run = wrap(lambda x: own["f"](x))

    def call(k):
        if k == 4:
            own["f"] = lambda x: x * 3
        return run(weft.ones(2))

    return call


def _object_of_an_argument(wrap):
    class Settings:
        def __init__(self):
            self.rate, self.seen = 0.5, 0

    settings = Settings()

    def step(settings, x):
        settings.seen += 1
        return x * settings.rate * settings.seen

    run = wrap(step)

    def call(k):
        settings.rate = 0.5 + (k > 5)
        return [run(settings, weft.ones(2)), settings.seen]

    return call


def _partial(wrap):
    import functools

    table = {"n": 0}

    def step(table, x):
        table["n"] += 1
        return x * table["n"]

    run = wrap(functools.partial(step, table))
    return lambda k: [run(weft.ones(2)), table["n"]]


def _hook_with_a_count(wrap):
    model, seen = Net(), {"n": 0}

    def hook(module, args, out):
        seen["n"] += 1
        seen["last"] = out.detach()
        return out * 2 if seen["n"] % 2 else None

    model.first.register_forward_hook(hook)
    run = wrap(lambda x: model(x).sum())
    return lambda k: [run(X), seen["n"], seen["last"].sum()]


def _hook_put_on_and_taken_off(wrap):
    model, seen, handles = Net(), {"n": 0}, []
    run = wrap(lambda x: model(x).sum())

    def hook(module, args, out):
        seen["n"] += 1

    def call(k):
        if k == 3:
            handles.append(model.register_forward_hook(hook))
        if k == 9:
            handles.pop().remove()
        return [run(X), seen["n"]]

    return call


def _gradient_hook(wrap):
    w, seen = weft.ones(3, requires_grad=True), {"n": 0}

    def hook(g):
        seen["n"] += 1
        return g * seen["n"]

    w.register_hook(hook)

    def step(x):
        w.grad = None
        (w * x).sum().backward()
        return w.grad * 1

    run = wrap(step)
    return lambda k: [run(weft.ones(3) + k), seen["n"]]


def _sums_of_items(wrap):
    total = {"loss": 0.0, "count": 0}
    model = Net()

    def step(x):
        loss = model(x).square().mean()
        total["loss"] += loss.item()
        total["count"] += x.shape[0]
        return loss.detach() / total["count"]

    run = wrap(step)
    return lambda k: [run(X + k * 0.1), total["loss"], total["count"]]


def _while_by_values(wrap):
    """An adaptive loop as in solvers of differential equations."""

    def step(x):
        t, h, steps = 0.0, 0.4, 0
        while t < 1.0:
            coarse = x - h * x
            fine = x - h / 2 * x
            fine = fine - h / 2 * fine
            error = (coarse - fine).abs().max()
            if error > 0.05:
                h = h / 2
                continue
            x, t, steps = fine, t + h, steps + 1
        return x, steps

    run = wrap(step)
    return lambda k: run(weft.ones(3) * (1 + k % 3))


def _bins_by_values(wrap):
    """A spline whose branch is taken where anything lies inside."""
    w = weft.linspace(-1, 1, 6)

    def step(x):
        inside = (x >= -1) & (x <= 1)
        y = x * 2
        if inside.any():
            y = weft.where(inside, w[weft.searchsorted(w, x.clamp(-1, 1)).clamp(max=5)], y)
        return y

    run = wrap(step)
    return lambda k: run(weft.linspace(-2, 2, 7) + (5 if k % 4 == 3 else 0))


def _index_by_a_value(wrap):
    parts = [lambda x: x, lambda x: x * 2, lambda x: x * 3]
    run = wrap(lambda x, i: parts[int(i)](x).sum() + i.item())
    return lambda k: run(weft.ones(2), weft.tensor(k % 3))


def _constant_mask(wrap):
    mask = weft.tensor([True, False, True])
    run = wrap(lambda x: x[mask] * 2)

    def call(k):
        if k == 6:
            mask[1] = True
        return run(weft.arange(3.0) + k)

    return call


def _deque(wrap):
    recent = deque([0.0, 0.0, 0.0])

    def step(x):
        recent[0] = recent[1] + 1.0
        recent[1] = recent[2] * 0.5 + recent[0]
        return x * recent[0] + recent[1]

    run = wrap(step)
    return lambda k: run(weft.ones(2))


def _generators_and_comprehensions(wrap):
    rates = {"a": 1.0, "b": 2.0}

    def step(x):
        for name in rates:
            rates[name] = rates[name] * 0.9
        return sum(x * r for r in rates.values()) + max(rates.values()) + len(rates)

    run = wrap(step)

    def call(k):
        if k == 10:
            rates["c"] = 1.0
        return run(weft.ones(2))

    return call


def _dropout_and_a_count(wrap):
    """Random streams go on as in eager code, also where a plan is left for another one."""
    model, count = nn.Dropout(0.5), [0]

    def step(x):
        count[0] += 1
        y = model(x)
        return y * 2 if y.sum() > 50 else y + count[0]

    run = wrap(step)
    return lambda k: run(weft.ones(100))


CLOSURES = [
    _closure, _global_counter, _global_read, _annealed_from_outside, _replaced_function, _object_of_an_argument, _partial,
    _hook_with_a_count, _hook_put_on_and_taken_off, _gradient_hook, _sums_of_items, _while_by_values, _bins_by_values,
    _index_by_a_value, _constant_mask, _deque, _generators_and_comprehensions, _dropout_and_a_count,
]  # fmt: skip


@pytest.mark.parametrize("make", CLOSURES)
def test_what_surrounds_a_function(make):
    both(make, most=8)


# ---------------------------------------------------------------------------------------- what is refused


def _appending(x, kept=[]):  # noqa: B006  on purpose
    kept.append(x * 2)
    return x


RANDOM, GENERATOR = random.Random(0), np.random.default_rng(0)
REFUSED = {
    "random": (lambda x: x * random.random(), "draws from Python's random"),
    "numpy": (lambda x: x * np.random.rand(), r"draws from numpy\.random"),  # noqa: NPY002
    "generator": (lambda x: x * RANDOM.gauss(0, 1), r"draws from a random\.Random"),
    "numpy generator": (lambda x: x * GENERATOR.random(), "draws from a numpy Generator"),
    "a list that grows": (_appending, "gets new entries"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_a_reason(name):
    function, message = REFUSED[name]
    run = weft.compile(function)
    with pytest.raises(TraceError, match=message):
        for _ in range(5):
            run(weft.ones(2))
    random.seed(1)
    expected = random.random()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        random.seed(1)
        run = weft.compile(lambda x: x * random.random(), fallback="eager")
        assert run(weft.ones(1)).item() == pytest.approx(expected)


def test_schedules_belong_outside():
    model = Net()
    optimizer = AdamLike(model.parameters())
    schedule = weft.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    inner = train(model, optimizer)

    def step(x, y):
        loss = inner(x, y)
        schedule.step()
        return loss

    with pytest.raises(TraceError, match=r"schedule, a ExponentialLR.*scheduler\.step\(\)"):
        weft.compile(step)(X, Y)
    assert schedule.last_epoch == 0 and not optimizer.state


def test_changed_arguments_are_refused():
    def step(pair, table, x):
        pair[0] += 1
        table["y"] = x * 2
        return x * pair[0]

    with pytest.raises(TraceError, match="given as an argument"):
        weft.compile(step)([0, 1.0], {}, weft.ones(2))


def test_print_at_every_call(capsys):
    run = weft.compile(lambda x: print("sum", x.sum(), "of", len(x)) or x)
    for k in range(3):
        run(weft.ones(2) * k)
    assert capsys.readouterr().out.splitlines() == [f"sum tensor({2.0 * k:.0f}.) of 2" for k in range(3)]


def test_values_that_are_new_at_every_call_end_as_python():
    def step(x):
        return x * float(x.sum())

    run = weft.compile(step)
    with pytest.warns(UserWarning, match=r"differ from call to call at .*test_python_state.py:\d+.*uncompiled"):
        for k in range(40):
            assert run(weft.ones(2) * k).tolist() == [2.0 * k * k] * 2


def test_libraries_are_not_looked_into():
    """PyTorch and pytest, mentioned by the function, have some hundred thousand objects."""
    import torch

    found = Surroundings(lambda x: x * bool(torch.nn.Module and pytest.raises and np.linalg and math.pi), [])
    assert len(found.seen) < 20 and len(found.places) < 10


SIZES_BY_VALUES = {
    "unique": lambda x, f: x.unique(return_inverse=True, return_counts=True),
    "unique_consecutive": lambda x, f: weft.unique_consecutive(x),
    "bincount": lambda x, f: weft.bincount(x),
    "bincount with weights": lambda x, f: weft.bincount(x, f),
    "histogram": lambda x, f: tuple(weft.histogram(f, 3)),
    "histogramdd": lambda x, f: weft.histogramdd(weft.stack((f, f * f), -1), [2, 3])[0],
    "repeat_interleave": lambda x, f: weft.repeat_interleave(f, x),
}


@pytest.mark.parametrize("name", SIZES_BY_VALUES)
def test_results_whose_sizes_depend_on_values(name):
    """They are computed where Python asks for them, and again when the values change."""
    x, f = weft.tensor([3, 1, 2, 3, 1]), weft.tensor([0.1, 0.5, 0.9, 0.3, 0.2])
    given = [(x, f), (x, f), (x.flip(0) + 1, f * 2), (x, f)]

    def make(wrap):
        run = wrap(lambda x, f: SIZES_BY_VALUES[name](x * 1, f * 1))
        return lambda k: run(*given[k])

    both(make, steps=len(given))


def test_counts_with_room_hold_for_other_numbers():
    """bincount with a minlength asks only whether the numbers stay below it."""
    run = weft.compile(lambda x: weft.bincount(x * 1, minlength=8))
    for numbers in ([3, 1, 2], [7, 7, 0], [0, 0, 0]):
        assert run(weft.tensor(numbers)).tolist() == np.bincount(numbers, minlength=8).tolist()
    assert sum(map(len, run.plans.values())) == 1
